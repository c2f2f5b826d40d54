"""Leapfrog Triejoin, driven by a plan, resumable: bindings and trace rows in batches.

The key variables are levels 0 .. L-1.  An atom is a tree whose leading columns are its arguments in
the order of the levels; at every level the atoms that have an argument there leapfrog to a common
value.  Each iterator operation may write a trace row, the interval it was sensitive to (*Sensitivity
indices*):

    open landing on v: (-inf, v]     seek_lub(s) landing on v: [s, v]     next from u landing on v: [u, v]

With a lower bound or an oracle, an open is a seek_lub to where the search starts.  When a buffer is
full the kernel returns, and continues from `state` at the next call.

A run keeps everything in two flat arrays, because passing an array costs a kernel more than
an index: `plan` (read only) and `state`.  Their headers are in join_layout.py.
"""

from ivm.join.kernels.bounds import admit, set_bounds
from ivm.join.kernels.emit import crowded, emit, record
from ivm.join.kernels.join_layout import (
    ABSENT,
    ABSENT_START,
    ARGUMENTS,
    AT,
    ATOM_DEPTH,
    BINDING,
    COVERED,
    CROWD,
    DEPTHS,
    DONE,
    EMITTED,
    ENTER,
    FAILED,
    HIGH,
    LEVEL,
    LEVELS,
    LOW,
    MATCHED,
    NEXT,
    NEXTS,
    OPENS,
    PART_START,
    PARTS,
    PHASE,
    ROW_COUNT,
    SEARCH,
    SEEKS,
    SENSOR,
    SENSORS,
    SHARED,
    SPANS,
    TARGET,
    TREES,
)
from ivm.join.kernels.leaf_slices import intersect, plain
from ivm.join.kernels.oracle import oracle_open, oracle_seek
from ivm.join.kernels.trie_iterator import iterator, land, open_trie, seek_trie, sensor_of
from pagestore.compiled import LEAF_PAGE, LEAF_SLOT, field, kernel, seek


@kernel
def leapfrog(words, seen, page_words, plan, state, regions, region_start, out, rows, runs):
    """Run until done or a buffer is full; state[PHASE] == DONE means that nothing is left.

    Bindings go to out[L + V, n] (key variables by level, then values read), trace rows of sensor s to
    rows[s, :, n]; runs[P, n] is scratch for a decoded slice of each part of the last level.  Return 1,
    or ``-page_id``.
    """
    levels = plan[LEVELS]
    state[EMITTED] = state[CROWD] = 0
    for s in range(plan[SENSORS]):
        state[state[ROW_COUNT] + s] = 0
        state[state[SHARED] + s] = 0
    steps = plan[ABSENT] - plan[PARTS]  # an upper bound of what one step can record
    while state[PHASE] != DONE:
        level = state[LEVEL]
        status = 1
        if state[EMITTED] == out.shape[1] or crowded(plan, state, rows, steps):
            return 1
        if state[PHASE] == ENTER:
            oracle_open(regions, region_start, state, state[SPANS], state[COVERED], level, state[BINDING])
            status = enter_level(words, seen, page_words, plan, state, regions, region_start, rows)
        elif state[PHASE] == SEARCH:
            if level + 1 == levels and plain(plan, state, level):
                status = intersect(words, plan, state, out, rows, runs)
            if state[PHASE] == SEARCH:
                status = search(words, seen, page_words, plan, state, regions, region_start, rows)
        elif state[PHASE] == MATCHED:
            status = refute(words, seen, page_words, plan, state, rows)
            if state[PHASE] == MATCHED:
                if level + 1 < levels:
                    state[LEVEL] = level + 1
                    state[PHASE] = ENTER
                else:
                    emit(words, plan, state, out)
                    state[PHASE] = NEXT
        else:
            status = move_on(words, seen, page_words, plan, state, regions, region_start, rows)
        if status < 0:
            return status
        if state[PHASE] == FAILED:
            state[LEVEL] = level - 1
            state[PHASE] = NEXT if level > 0 else DONE
    return 1


@kernel
def enter_level(words, seen, page_words, plan, state, regions, region_start, rows):
    """Open every atom of the level at the value where the search starts."""
    level = state[LEVEL]
    set_bounds(plan, state, level)
    state[PHASE] = FAILED
    low = state[state[LOW] + level]
    if low > state[state[HIGH] + level]:
        return 1
    found, x = admit(plan, state, regions, region_start, level, low)
    if not found:
        return 1
    target = x
    for p in range(plan[plan[PART_START] + level], plan[plan[PART_START] + level + 1]):
        atom, depth = plan[plan[PARTS] + 2 * p], plan[plan[PARTS] + 2 * p + 1]
        status = open_trie(words, seen, page_words, plan, state, atom, depth, x)
        if status < 0:
            return status
        landed = land(words, plan, state, atom, depth, status)
        state[OPENS] += 1
        s = sensor_of(plan, p)
        if s >= 0:
            state[state[SHARED] + s] = 0
            record(plan, state, rows, s, x, landed)
        if status == 0:
            return 1
        target = max(target, landed)
    state[TARGET] = target
    state[PHASE] = SEARCH
    return 1


@kernel
def search(words, seen, page_words, plan, state, regions, region_start, rows):
    """Leapfrog to a common value, one round of seeks at a time."""
    level = state[LEVEL]
    found, x = admit(plan, state, regions, region_start, level, state[TARGET])
    if not found:
        state[PHASE] = FAILED
        return 1
    for p in range(plan[plan[PART_START] + level], plan[plan[PART_START] + level + 1]):
        atom, depth = plan[plan[PARTS] + 2 * p], plan[plan[PARTS] + 2 * p + 1]
        key = state[state[AT] + atom * plan[DEPTHS] + depth]
        if key < x:
            status = seek_trie(words, seen, page_words, plan, state, atom, depth, x)
            if status < 0:
                return status
            key = land(words, plan, state, atom, depth, status)
            state[SEEKS] += 1
            record(plan, state, rows, sensor_of(plan, p), x, key)
            if status == 0:
                state[PHASE] = FAILED
                return 1
        if key > x:
            state[TARGET] = key
            return 1
    state[TARGET] = x
    state[state[BINDING] + level] = x
    state[PHASE] = MATCHED
    return 1


@kernel
def refute(words, seen, page_words, plan, state, rows):
    """Reject the bound value if a negated atom whose arguments are now all bound holds the binding."""
    level = state[LEVEL]
    for i in range(plan[plan[ABSENT_START] + level], plan[plan[ABSENT_START] + level + 1]):
        atom = plan[plan[ABSENT] + i]
        depth = plan[plan[ATOM_DEPTH] + atom]
        at = state[AT] + atom * plan[DEPTHS]
        key = state[at : at + depth]
        for d in range(depth):
            key[d] = state[state[BINDING] + plan[plan[ARGUMENTS] + atom * plan[DEPTHS] + d]]
        o = iterator(plan, state, atom, 0)
        tree = state[TREES] + 3 * atom
        status = seek(words, seen, page_words, state[tree], state[tree + 1], state[tree + 2], key, depth, state, o)
        if status < 0:
            return status
        state[SEEKS] += 1
        s = plan[plan[SENSOR] + atom * plan[DEPTHS] + depth - 1]
        if s >= 0:
            state[state[SHARED] + s] = 0
            record(plan, state, rows, s, key[depth - 1], key[depth - 1])
        holds = status == 1
        for d in range(depth):
            holds = holds and field(words, state[o + LEAF_PAGE], d, state[o + LEAF_SLOT]) == key[d]
        if holds:
            state[PHASE] = NEXT
            return 1
    return 1


@kernel
def move_on(words, seen, page_words, plan, state, regions, region_start, rows):
    """Leave the value just finished: increment one iterator, or jump to the next value that the oracle admits."""
    level = state[LEVEL]
    x = state[state[BINDING] + level]
    state[PHASE] = FAILED
    if x >= state[state[HIGH] + level]:
        return 1
    found, goal = oracle_seek(regions, region_start, state, state[SPANS], state[COVERED], level, x + 1)
    if not found:
        return 1
    state[PHASE] = SEARCH
    state[TARGET] = goal
    p = plan[plan[PART_START] + level]
    if goal > x + 1 or p == plan[plan[PART_START] + level + 1]:
        return 1
    atom, depth = plan[plan[PARTS] + 2 * p], plan[plan[PARTS] + 2 * p + 1]
    status = seek_trie(words, seen, page_words, plan, state, atom, depth, goal)
    if status < 0:
        return status
    landed = land(words, plan, state, atom, depth, status)
    state[NEXTS] += 1
    record(plan, state, rows, sensor_of(plan, p), x, landed)
    state[TARGET] = landed
    if status == 0:
        state[PHASE] = FAILED
    return 1
