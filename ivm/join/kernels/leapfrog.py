"""Leapfrog Triejoin, driven by a plan, resumable: bindings and trace rows in batches.

The key variables are levels 0 .. L-1.  An atom is a tree whose leading columns are its arguments in
the order of the levels; at every level the atoms that have an argument there leapfrog to a common
value.  Each iterator operation may write a trace row, the interval it was sensitive to
(*Sensitivity indices*):

    open landing on v: (-inf, v]     seek_lub(s) landing on v: [s, v]     next from u landing on v: [u, v]

With a lower bound or an oracle, an open is a seek_lub to where the search starts.  When a buffer is
full the kernel returns, and continues from `state` at the next call.

A run keeps everything in two flat arrays, because passing an array costs a kernel more than
an index: `plan` (read only) and `state`.  Their headers are in tries.py.

The last level of a join: leapfrogging over the decoded slices that its iterators have in their
current leaves.

    runs[0]   2 5 7 8 12        target 2:   part 0 at 2, part 1 seeks 2 and lands on 5
    runs[1]   5 8 9 12          target 5:   part 0 seeks 5, both are at 5: a binding; part 0 goes on to 7, ...

It performs the same operations as `leapfrog.search` and `leapfrog.move_on`, without decoding a key
twice.
"""

from ivm.join.kernels.bounds import admit, first_at_least, oracle_open, oracle_seek, set_bounds
from ivm.join.kernels.tries import (
    ABSENT,
    ABSENT_START,
    ARGUMENTS,
    AT,
    ATOM_DEPTH,
    BINDING,
    BOUND_START,
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
    PAUSE,
    PHASE,
    ROW_COUNT,
    RUN_END,
    RUNS,
    SEARCH,
    SEEKS,
    SENSOR,
    SENSORS,
    SHARED,
    SPANS,
    TARGET,
    TREES,
    VALUES,
    VALUES_MET,
    crowded,
    emit,
    iterator,
    iterator_of,
    land,
    open_trie,
    place_of,
    record,
    seek_trie,
    sensor_of,
    tree_of,
)
from pagestore.compiled import (
    KEYS,
    LEAF_ENTRIES,
    LEAF_PAGE,
    LEAF_SLOT,
    WORD_MAX,
    MappedWords,
    Pages,
    Table,
    Tables,
    Words,
    field,
    gallop,
    kernel,
    run_end,
    seek,
    unpack,
)


@kernel
def leapfrog(pages, plan, state, regions, region_start, out, rows, runs):
    """Run until done, a buffer is full, or state[PAUSE] is reached; state[PHASE] == DONE means that
    nothing is left.

    Bindings go to out[L + V, n] (key variables by level, then values read), trace rows of sensor s
    to rows[s, :, n]; runs[P, n] is scratch for a decoded slice of each part of the last level.
    Return 1, or ``-page_id``.
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
        if state[OPENS] + state[SEEKS] + state[NEXTS] >= state[PAUSE]:
            return 1
        if state[PHASE] == ENTER:
            oracle_open(
                regions, region_start, state, state[SPANS], state[COVERED], level, state[BINDING]
            )
            status = enter_level(pages, plan, state, regions, region_start, rows)
        elif state[PHASE] == SEARCH:
            if level + 1 == levels and plain(plan, state, level):
                status = intersect(pages.words, plan, state, out, rows, runs)
            if state[PHASE] == SEARCH:
                status = search(pages, plan, state, regions, region_start, rows)
        elif state[PHASE] == MATCHED:
            status = refute(pages, plan, state, rows)
            if state[PHASE] == MATCHED:
                state[state[VALUES_MET] + level] += 1
                if level + 1 < levels:
                    state[LEVEL] = level + 1
                    state[PHASE] = ENTER
                else:
                    emit(pages.words, plan, state, out)
                    state[PHASE] = NEXT
        else:
            status = move_on(pages, plan, state, regions, region_start, rows)
        if status < 0:
            return status
        if state[PHASE] == FAILED:
            state[LEVEL] = level - 1
            state[PHASE] = NEXT if level > 0 else DONE
    return 1


@kernel
def enter_level(
    pages: Pages, plan: Words, state: Words, regions: Table, region_start: Words, rows: Tables
):
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
        status = open_trie(pages, plan, state, atom, depth, x)
        if status < 0:
            return status
        landed = land(pages.words, plan, state, atom, depth, status)
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
def search(
    pages: Pages, plan: Words, state: Words, regions: Table, region_start: Words, rows: Tables
):
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
            status = seek_trie(pages, plan, state, atom, depth, x)
            if status < 0:
                return status
            key = land(pages.words, plan, state, atom, depth, status)
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
def refute(pages: Pages, plan: Words, state: Words, rows: Tables):
    """Reject the bound value if a negated atom whose arguments are now all bound holds the
    binding.
    """
    level = state[LEVEL]
    for i in range(plan[plan[ABSENT_START] + level], plan[plan[ABSENT_START] + level + 1]):
        atom = plan[plan[ABSENT] + i]
        depth = plan[plan[ATOM_DEPTH] + atom]
        status = look_up(pages, plan, state, atom, depth)
        if status < 0:
            return status
        state[SEEKS] += 1
        s = plan[plan[SENSOR] + atom * plan[DEPTHS] + depth - 1]
        if s >= 0:
            x = state[state[AT] + atom * plan[DEPTHS] + depth - 1]
            state[state[SHARED] + s] = 0
            record(plan, state, rows, s, x, x)
        if status == 1:
            state[PHASE] = NEXT
            return 1
    return 1


@kernel
def look_up(pages: Pages, plan: Words, state: Words, atom: int, depth: int):
    """Return whether a negated atom holds the binding, 1 or 0, or ``-page_id``.

    Gallops on from the key looked up before, where only its last value differs and is less.
    """
    words, at = pages.words, state[AT] + atom * plan[DEPTHS]
    key, o = state[at : at + depth], iterator(plan, state, atom, 0)
    near = state[o + LEAF_PAGE] > 0
    for d in range(depth):
        x = state[state[BINDING] + plan[plan[ARGUMENTS] + atom * plan[DEPTHS] + d]]
        near = near and (x == key[d] or (d == depth - 1 and x > key[d]))
        key[d] = x
    if near:
        page, slot, end = state[o + LEAF_PAGE], state[o + LEAF_SLOT], state[o + RUN_END]
        # not known yet: where the records that share all values but the last end in this leaf
        if end < 0:
            end = state[o + LEAF_ENTRIES]
            for d in range(depth - 1):
                equal = slot < end and field(words, page, d, slot) == key[d]
                end = run_end(words, page, d, slot, end, key[d]) if equal else slot
            state[o + RUN_END] = end
        slot = gallop(words, page, depth - 1, slot, end, key[depth - 1])
        state[o + LEAF_SLOT] = slot
        if slot < end:
            return 1 if field(words, page, depth - 1, slot) == key[depth - 1] else 0
        if end < state[o + LEAF_ENTRIES]:
            return 0
    status = seek(tree_of(pages, state, atom), key, depth, state, o)
    state[o + RUN_END] = -1
    for d in range(depth if status == 1 else 0):
        if field(words, state[o + LEAF_PAGE], d, state[o + LEAF_SLOT]) != key[d]:
            return 0
    return status


@kernel
def move_on(
    pages: Pages, plan: Words, state: Words, regions: Table, region_start: Words, rows: Tables
):
    """Leave the value just finished: increment one iterator, or jump to the next value that the
    oracle admits.
    """
    level = state[LEVEL]
    x = state[state[BINDING] + level]
    state[PHASE] = FAILED
    if x >= state[state[HIGH] + level]:
        return 1
    found, goal = oracle_seek(
        regions, region_start, state, state[SPANS], state[COVERED], level, x + 1
    )
    if not found:
        return 1
    state[PHASE] = SEARCH
    state[TARGET] = goal
    p = plan[plan[PART_START] + level]
    if goal > x + 1 or p == plan[plan[PART_START] + level + 1]:
        return 1
    atom, depth = plan[plan[PARTS] + 2 * p], plan[plan[PARTS] + 2 * p + 1]
    status = seek_trie(pages, plan, state, atom, depth, goal)
    if status < 0:
        return status
    landed = land(pages.words, plan, state, atom, depth, status)
    state[NEXTS] += 1
    record(plan, state, rows, sensor_of(plan, p), x, landed)
    state[TARGET] = landed
    if status == 0:
        state[PHASE] = FAILED
    return 1


# a decoded slice: its page, first slot, length, and the position of the iterator in it
HELD_PAGE, HELD_SLOT, STOP, AT_KEY, SLICE = range(5)


@kernel
def plain(plan: Words, state: Words, level: int):
    """Return whether the level only joins two or more atoms with unique keys: no oracle, bounds,
    negation or values to read.
    """
    p, end = plan[plan[PART_START] + level], plan[plan[PART_START] + level + 1]
    whole = (
        state[state[COVERED] + level] != 0
        and end - p > 1
        and plan[plan[BOUND_START] + level + 1] == plan[plan[BOUND_START] + level]
        and plan[plan[ABSENT_START] + level + 1] == plan[plan[ABSENT_START] + level]
        and plan[VALUES] == 0
    )
    while whole and p < end:
        whole = ends_key(state, plan[plan[PARTS] + 2 * p], plan[plan[PARTS] + 2 * p + 1])
        p += 1
    return whole


@kernel
def ends_key(state: Words, atom: int, depth: int):
    """Return whether this is the last depth of a whole key, so that the keys of a slice are
    unique.
    """
    return depth + 1 >= state[state[TREES] + 3 * atom + KEYS]


@kernel
def intersect(words: MappedWords, plan: Words, state: Words, out: Table, rows: Tables, runs: Table):
    """Leapfrog over the slices that all iterators of a level have in their current leaves.

    Performs the same operations as `search` and `move_on`, and stops where an iterator has to leave
    its slice or a buffer is full: with phase SEARCH at a target, with phase NEXT after a binding,
    or with phase FAILED where a run ends in its leaf.
    """
    level = state[LEVEL]
    start, end = plan[plan[PART_START] + level], plan[plan[PART_START] + level + 1]
    slices, m = state[RUNS], end - start
    recorded = load_runs(words, plan, state, start, m, runs)
    if m == 2 and not recorded:
        merge(state, level, runs, out)
    phase, k, x = SEARCH, 0, state[TARGET]
    while state[EMITTED] < out.shape[1] and not crowded(plan, state, rows, m + 1):
        s = slices + SLICE * k
        at, stop = state[s + AT_KEY], state[s + STOP]
        if runs[k, at] < x:
            at = ahead(runs[k], at, stop, x)
            if at == stop:
                if ends_here(state, iterator_of(plan, state, start + k)):
                    state[SEEKS] += 1
                    record(plan, state, rows, sensor_of(plan, start + k), x, WORD_MAX)
                    phase = FAILED
                break
            state[SEEKS] += 1
            state[s + AT_KEY] = at
            record(plan, state, rows, sensor_of(plan, start + k), x, runs[k, at])
        key = runs[k, at]
        k += 1
        if key > x:
            x, k = key, 0
        if k < m:
            continue
        state[state[BINDING] + level] = x
        state[state[VALUES_MET] + level] += 1
        emit(words, plan, state, out)
        k, at = 0, state[slices + AT_KEY] + 1
        if state[EMITTED] == out.shape[1] or at == state[slices + STOP]:
            phase = NEXT
            break
        state[NEXTS] += 1
        state[slices + AT_KEY] = at
        record(plan, state, rows, sensor_of(plan, start), x, runs[0, at])
        x = runs[0, at]
    leave_runs(plan, state, start, m, runs, x, phase)
    return 1


@kernel
def load_runs(words: MappedWords, plan: Words, state: Words, start: int, m: int, runs: Table):
    """Decode the slices of m parts from `start` on; return whether any of them is recorded."""
    recorded = False
    for k in range(m):
        depth = plan[plan[PARTS] + 2 * (start + k) + 1]
        load_run(
            words,
            state,
            state[RUNS] + SLICE * k,
            iterator_of(plan, state, start + k),
            depth,
            runs[k],
        )
        recorded |= sensor_of(plan, start + k) >= 0
    return recorded


@kernel
def leave_runs(plan: Words, state: Words, start: int, m: int, runs: Table, target: int, phase: int):
    """Move the iterators on the pages to their positions in the decoded slices; note the target
    and the phase to go on with.
    """
    state[TARGET], state[PHASE] = target, phase
    for k in range(m):
        s = state[RUNS] + SLICE * k
        state[iterator_of(plan, state, start + k) + LEAF_SLOT] = (
            state[s + HELD_SLOT] + state[s + AT_KEY]
        )
        state[state[AT] + place_of(plan, start + k)] = runs[k, state[s + AT_KEY]]


@kernel
def ends_here(state: Words, o: int):
    """Return whether an iterator's run ends in its current leaf, so that the slice is all that
    is left of it.
    """
    return state[o + RUN_END] < state[o + LEAF_ENTRIES]


@kernel
def load_run(words: MappedWords, state: Words, s: int, o: int, depth: int, run: Words):
    """Decode the rest of the run of iterator o in its leaf, unless it is decoded already.

    The slice at `s` says where in `run` the iterator is, and where its run stops.
    """
    page, slot, end = state[o + LEAF_PAGE], state[o + LEAF_SLOT], state[o + RUN_END]
    if (
        state[s + HELD_PAGE] != page
        or state[s + HELD_SLOT] > slot
        or state[s + HELD_SLOT] + state[s + STOP] != end
    ):
        state[s + HELD_PAGE], state[s + HELD_SLOT], state[s + STOP] = page, slot, end - slot
        unpack(words, page, depth, slot, end, run, 0)
    state[s + AT_KEY] = slot - state[s + HELD_SLOT]


@kernel
def merge(state: Words, level: int, runs: Table, out: Table):
    """Intersect two slices of similar length without a branch to mispredict, as far as buffers
    allow.

    Emit the matches and count the operations that leapfrogging takes for them. Stop before the last
    entry of one of the slices; `intersect` continues from there.
    """
    a_slice, b_slice = state[RUNS], state[RUNS] + SLICE
    a_run, b_run = runs[0], runs[1]
    i = state[a_slice + AT_KEY]
    i_end = state[a_slice + STOP]
    j = state[b_slice + AT_KEY]
    j_end = state[b_slice + STOP]
    n = start = state[EMITTED]
    seeks = behind = before = 0
    if a_run[i] < b_run[j]:  # usually one slice starts far after the other
        k = ahead(a_run, i, i_end, b_run[j])
        seeks, i = (1, k) if k < i_end else (0, i)
    elif b_run[j] < a_run[i]:
        k = ahead(b_run, j, j_end, a_run[i])
        seeks, j = (1, k) if k < j_end else (0, j)
    if max(i_end - i, j_end - j) < 16 * min(i_end - i, j_end - j):
        i_last, j_last = i_end - 1, j_end - 1
        n_last = out.shape[1] - 1
        while i < i_last and j < j_last and n < n_last:
            a, b = a_run[i], b_run[j]
            out[level, n] = a
            n += a == b
            behind = int(a > b) - int(a < b)
            seeks += (behind != before) & (behind != 0)
            before = behind
            i += a <= b
            j += b < a
        for c in range(level):
            value = state[state[BINDING] + c]
            for k in range(start, n):
                out[c, k] = value
    state[a_slice + AT_KEY], state[b_slice + AT_KEY] = i, j
    state[TARGET] = max(a_run[i], b_run[j])
    state[EMITTED] = n
    state[state[VALUES_MET] + level] += n - start
    state[SEEKS] += seeks
    state[NEXTS] += n - start


@kernel
def ahead(run: Words, i: int, end: int, x: int):
    """Return the first index in [i, end) with run >= x, given run[i] < x; scan a few entries,
    then gallop.
    """
    i += 1
    near = min(end, i + 8)
    while i < near and run[i] < x:
        i += 1
    if i < near or i == end:
        return i
    step = 1
    while i + step < end and run[i + step] < x:
        i += step
        step <<= 1
    return first_at_least(run, i, min(end, i + step), x)
