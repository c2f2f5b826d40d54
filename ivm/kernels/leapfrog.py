"""Leapfrog Triejoin, driven by a plan, resumable: bindings and trace rows in batches.

The key variables are levels 0 .. L-1.  An atom is a tree whose leading columns are its arguments in
the order of the levels; at every level the atoms that have an argument there leapfrog to a common
value.  Each iterator operation may leave a trace row, the interval it was sensitive to (*Sensitivity
indices*):

    open landing on v: (-inf, v]     seek_lub(s) landing on v: [s, v]     next from u landing on v: [u, v]

An open below a bound or under the oracle is a seek_lub to where the search starts.  When a buffer is
full the kernel returns, and goes on from `state` at the next call.

Everything a run knows stands in two flat arrays, because passing an array on costs a kernel more than
an index: `plan` (read only) and `state`.  Both begin with a header of the numbers and offsets below.
"""

from ivm.kernels.oracle import first_at_least, oracle_open, oracle_seek
from pagestore.compiled import (
    CURSOR_WORDS,
    LEAF_ENTRIES,
    LEAF_PAGE,
    LEAF_SLOT,
    PATH,
    TREE_HEIGHT,
    field,
    forward,
    gallop,
    kernel,
    run_end,
    seek,
    unpack,
)

INT_MIN, INT_MAX = -9223372036854775808, 9223372036854775807

# header of `plan`: numbers, then offsets of its sections
(
    LEVELS,  # L
    DEPTHS,  # D, the greatest number of arguments of an atom
    VALUES,  # V, values read off at a binding
    SENSORS,  # S
    WIDTH,  # columns of the widest sensitivity index
    GRANULARITY,
    PART_START,  # [L + 1] into PARTS
    PARTS,  # (atom, depth)
    ABSENT_START,  # [L + 1] into ABSENT
    ABSENT,  # negated atoms
    BOUND_START,  # [L + 1] into BOUNDS
    BOUNDS,  # (kind, constant, levels referred to or -1, each behind it added or taken away: 1 or -1)
    ARGUMENTS,  # [A, D] the level of each argument
    ATOM_DEPTH,  # [A]
    READS,  # [V] (atom, depth, column)
    SENSOR,  # [A, D] number of the sensitivity index, or -1
    SOURCES,  # [S, WIDTH] a level, -1 for a, -2 for b, -3 for nothing
    PLAN_HEADER,
) = range(18)

# header of `state`: where the run is, counts, then offsets of its sections
(
    LEVEL,
    PHASE,
    TARGET,
    EMITTED,
    OPENS,
    SEEKS,
    NEXTS,
    CROWD,  # rows of the fullest trace buffer
    TREES,  # [A] (root, height, keys)
    ENDS,  # nothing, b, a: where a source of -3, -2, -1 is read, as if it were a level
    BINDING,  # [L], right behind
    LOW,  # [L]
    HIGH,  # [L]
    COVERED,  # [L + 1]
    SPANS,  # [L, L] (start, end)
    AT,  # [A, D] the key each iterator is at
    ITERATORS,  # [A, D] cursor, then the end of its run in the current leaf
    ROW_COUNT,  # [S]
    SHARED,  # [S] operations that share the newest interval
    INTERVAL_END,  # [S] the column of b
    RUNS,  # [parts of the last level] the slices that `runs` holds
    STATE_HEADER,
) = range(22)

EQ, GE, LE, NE = range(4)  # v = t, v >= t, v <= t, v != t; t a constant, and bound variables added or taken away
OTHERS = 2  # so many at most
KIND, CONSTANT, OTHER = range(3)  # words of a bound, then another (level, sign)
BOUND_WORDS = OTHER + 2 * OTHERS
HALF = (1 << 32) - 1
ENTER, SEARCH, MATCHED, NEXT, DONE, FAILED = range(6)  # phases
# a decoded slice: of which page, from which slot, how long, and where in it the iterator is
HELD_PAGE, HELD_SLOT, STOP, AT_KEY, SLICE = range(5)
# behind the cursor of an iterator: the end of its run in the current leaf; and where it was opened last, and
# the end of the run there, since many bindings open the same slice
RUN_END, FROM_PAGE, FROM_SLOT, FROM_END = range(CURSOR_WORDS, CURSOR_WORDS + 4)
ITERATOR_WORDS = CURSOR_WORDS + 4


@kernel
def leapfrog(words, seen, page_words, plan, state, regions, region_start, out, rows, runs):
    """Run until done or a buffer is full; state[PHASE] == DONE says that nothing is left.

    Bindings go to out[L + V, n] (key variables by level, then values read), trace rows of sensor s to
    rows[s, :, n]; runs[P, n] is scratch for a decoded slice of each part of the last level.  Returns 1,
    or ``-page_id``.
    """
    levels = plan[LEVELS]
    state[EMITTED] = state[CROWD] = 0
    for s in range(plan[SENSORS]):
        state[state[ROW_COUNT] + s] = 0
        state[state[SHARED] + s] = 0
    steps = plan[ABSENT] - plan[PARTS]  # more than one step can record
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
def crowded(plan, state, rows, steps):
    """Might so many more operations overrun a trace buffer?"""
    return plan[SENSORS] > 0 and state[CROWD] + steps > rows.shape[2]


@kernel
def iterator(plan, state, atom, depth):
    """Where the iterator of an atom at a depth stands in `state`."""
    return state[ITERATORS] + (atom * plan[DEPTHS] + depth) * ITERATOR_WORDS


@kernel
def iterator_of(plan, state, p):
    """As `iterator`, of a part."""
    return state[ITERATORS] + place_of(plan, p) * ITERATOR_WORDS


@kernel
def place_of(plan, p):
    """The row of a part, an atom at a depth, in whatever has one for each: sensors, keys, cursors."""
    return plan[plan[PARTS] + 2 * p] * plan[DEPTHS] + plan[plan[PARTS] + 2 * p + 1]


@kernel
def sensor_of(plan, p):
    """The sensor of a part, or -1."""
    return plan[plan[SENSOR] + place_of(plan, p)]


@kernel
def emit(words, plan, state, out):
    """Write the binding, and the values read at it."""
    n = state[EMITTED]
    levels = plan[LEVELS]
    for i in range(levels):
        out[i, n] = state[state[BINDING] + i]
    for i in range(plan[VALUES]):
        at = plan[READS] + 3 * i
        o = iterator(plan, state, plan[at], plan[at + 1])
        out[levels + i, n] = field(words, state[o + LEAF_PAGE], plan[at + 2], state[o + LEAF_SLOT])
    state[EMITTED] = n + 1


@kernel
def record(plan, state, rows, s, a, b):
    """Leave a trace row at sensor s: the context and [a, b], in the column order of its index."""
    if s < 0:
        return
    n = state[state[ROW_COUNT] + s]
    shared = state[state[SHARED] + s]
    if 0 < shared < plan[GRANULARITY]:
        state[state[SHARED] + s] = shared + 1
        end = state[state[INTERVAL_END] + s]
        rows[s, end, n - 1] = max(rows[s, end, n - 1], b)
        return
    state[state[SHARED] + s] = 1
    put_row(plan, state, rows, s, a, b)


@kernel
def put_row(plan, state, rows, s, a, b):
    """Write a trace row of sensor s, in the column order of its index."""
    n, binding, at = state[state[ROW_COUNT] + s], state[BINDING], plan[SOURCES] + s * plan[WIDTH]
    state[binding - 1], state[binding - 2] = a, b
    for j in range(plan[WIDTH]):
        rows[s, j, n] = state[binding + plan[at + j]]
    state[state[ROW_COUNT] + s] = n + 1
    state[CROWD] = max(state[CROWD], n + 1)


@kernel
def land(words, plan, state, atom, depth, status):
    """Note where an iterator stands after an operation; returns the end of its sensitivity."""
    if status == 0:
        return INT_MAX
    o = iterator(plan, state, atom, depth)
    x = field(words, state[o + LEAF_PAGE], depth, state[o + LEAF_SLOT])
    state[state[AT] + atom * plan[DEPTHS] + depth] = x
    return x


@kernel
def open_trie(words, seen, page_words, plan, state, atom, depth, x):
    """Open the next level of an atom at its first key >= x.  1 on a key, 0 if there is none, ``-page_id``."""
    o = iterator(plan, state, atom, depth)
    if depth == 0:
        tree, at = state[TREES] + 3 * atom, state[AT] + atom * plan[DEPTHS]
        state[at] = x
        key = state[at : at + 1]
        status = seek(words, seen, page_words, state[tree], state[tree + 1], state[tree + 2], key, 1, state, o)
        state[o + RUN_END] = state[o + LEAF_ENTRIES]
        return status
    parent = o - ITERATOR_WORDS
    for i in range(PATH + 2 * state[parent + TREE_HEIGHT] - 2):
        state[o + i] = state[parent + i]
    page, slot = state[o + LEAF_PAGE], state[o + LEAF_SLOT]
    if state[o + FROM_PAGE] != page or state[o + FROM_SLOT] != slot:
        above = state[state[AT] + atom * plan[DEPTHS] + depth - 1]
        state[o + FROM_PAGE], state[o + FROM_SLOT] = page, slot
        state[o + FROM_END] = run_end(words, page, depth - 1, slot, state[parent + RUN_END], above)
    state[o + RUN_END] = state[o + FROM_END]
    return seek_trie(words, seen, page_words, plan, state, atom, depth, x)


@kernel
def seek_trie(words, seen, page_words, plan, state, atom, depth, x):
    """Move an iterator to its first key >= x (*seek_lub*).  1 on a key, 0 at the end, ``-page_id``."""
    o = iterator(plan, state, atom, depth)
    end = state[o + RUN_END]
    slot = gallop(words, state[o + LEAF_PAGE], depth, state[o + LEAF_SLOT], end, x)
    if slot < end:
        state[o + LEAF_SLOT] = slot
        return 1
    keys = state[state[TREES] + 3 * atom + 2]
    if end < state[o + LEAF_ENTRIES] or depth >= keys:
        return 0  # the run ends in this leaf; and a function has one value per key
    at = state[AT] + atom * plan[DEPTHS]
    key = state[at : at + depth + 1]
    key[depth] = x
    status = forward(words, seen, page_words, keys, key, depth + 1, state, o)
    if status <= 0:
        return status
    page, slot = state[o + LEAF_PAGE], state[o + LEAF_SLOT]
    end = state[o + LEAF_ENTRIES]
    for d in range(depth):
        if field(words, page, d, slot) != key[d]:
            return 0
        end = run_end(words, page, d, slot, end, key[d])
    state[o + RUN_END] = end
    return 1


@kernel
def bound_value(plan, state, at):
    """The other side of a constraint, clamped to 64 bits, and whether it had to be clamped."""
    constant = plan[at + CONSTANT]
    if plan[at + OTHER] < 0:
        return constant, False
    if plan[at + OTHER + 1] < 0 or plan[at + OTHER + 2] >= 0:
        return added_up(plan, state, at)
    value = state[state[BINDING] + plan[at + OTHER]]
    total = value + constant
    if (value ^ total) & (constant ^ total) < 0:
        return INT_MAX if constant > 0 else INT_MIN, True
    return total, False


@kernel
def added_up(plan, state, at):
    """As `bound_value`, of any others: by halves of words, since parts may leave 64 bits where the whole does not."""
    high, low = plan[at + CONSTANT] >> 32, plan[at + CONSTANT] & HALF
    for other in range(at + OTHER, at + BOUND_WORDS, 2):
        if plan[other] >= 0:
            value, sign = state[state[BINDING] + plan[other]], plan[other + 1]
            high += sign * (value >> 32)
            low += sign * (value & HALF)
    high += low >> 32
    if high > INT_MAX >> 32:
        return INT_MAX, True
    if high < INT_MIN >> 32:
        return INT_MIN, True
    return high << 32 | low & HALF, False


@kernel
def set_bounds(plan, state, level):
    """Compute [low, high] of a level from its constraints; an impossible one leaves low > high."""
    low, high = INT_MIN, INT_MAX
    for b in range(plan[plan[BOUND_START] + level], plan[plan[BOUND_START] + level + 1]):
        at = plan[BOUNDS] + BOUND_WORDS * b
        kind = plan[at + KIND]
        value, clamped = bound_value(plan, state, at)
        if clamped and (kind == EQ or (kind == GE and value == INT_MAX) or (kind == LE and value == INT_MIN)):
            low, high = INT_MAX, INT_MIN
            break
        if kind == EQ or kind == GE:
            low = max(low, value)
        if kind == EQ or kind == LE:
            high = min(high, value)
    state[state[LOW] + level] = low
    state[state[HIGH] + level] = high


@kernel
def admit(plan, state, regions, region_start, level, x):
    """(is there one, least value >= x that bounds and oracle admit at this level)."""
    while True:
        found, x = oracle_seek(regions, region_start, state, state[SPANS], state[COVERED], level, x)
        if not found or x > state[state[HIGH] + level]:
            return False, x
        excluded = False
        for b in range(plan[plan[BOUND_START] + level], plan[plan[BOUND_START] + level + 1]):
            at = plan[BOUNDS] + BOUND_WORDS * b
            if plan[at + KIND] == NE:
                value, clamped = bound_value(plan, state, at)
                excluded = excluded or (value == x and not clamped)
        if not excluded:
            return True, x
        if x == INT_MAX:
            return False, x
        x += 1


@kernel
def enter_level(words, seen, page_words, plan, state, regions, region_start, rows):
    """Open every atom of the level where the search starts."""
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
    """A value is bound: if a negated atom, complete now, holds the binding, it is no match."""
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
    """The value at a level is done: increment one iterator, or jump to where the oracle goes on."""
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


# The innermost level of several atoms, where nearly all operations happen.


@kernel
def plain(plan, state, level):
    """Are atoms, two and more, all there is at this level, each key once: no oracle, no bounds, no negation, no values
    to read?
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
def ends_key(state, atom, depth):
    """Is that the last depth of a whole key, so that no two records of a slice share it?"""
    return depth + 1 >= state[state[TREES] + 3 * atom + 2]


@kernel
def intersect(words, plan, state, out, rows, runs):
    """Leapfrog over the slices that all iterators of a level have in their current leaves.

    Does exactly what `search` and `move_on` would, and stops where one of them has to leave its slice or
    a buffer is full: with phase SEARCH at a target, with phase NEXT behind a binding, or with phase FAILED
    where a run ends in its leaf.
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
                    record(plan, state, rows, sensor_of(plan, start + k), x, INT_MAX)
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
        emit(words, plan, state, out)
        k, at = 0, state[slices + AT_KEY] + 1
        if state[EMITTED] == out.shape[1] or at == state[slices + STOP]:
            phase = NEXT
            break
        state[NEXTS] += 1
        state[slices + AT_KEY] = at
        record(plan, state, rows, sensor_of(plan, start), x, runs[0, at])
        x = runs[0, at]
    leave_runs(plan, state, start, m, runs)
    state[TARGET] = x
    state[PHASE] = phase
    return 1


@kernel
def load_runs(words, plan, state, start, m, runs):
    """Decode the slices of m parts from `start` on; is any of them recorded?"""
    recorded = False
    for k in range(m):
        depth = plan[plan[PARTS] + 2 * (start + k) + 1]
        load_run(words, state, state[RUNS] + SLICE * k, iterator_of(plan, state, start + k), depth, runs[k])
        recorded |= sensor_of(plan, start + k) >= 0
    return recorded


@kernel
def leave_runs(plan, state, start, m, runs):
    """Move the iterators to where they are in their slices."""
    for k in range(m):
        s = state[RUNS] + SLICE * k
        state[iterator_of(plan, state, start + k) + LEAF_SLOT] = state[s + HELD_SLOT] + state[s + AT_KEY]
        state[state[AT] + place_of(plan, start + k)] = runs[k, state[s + AT_KEY]]


@kernel
def ends_here(state, o):
    """Does an iterator's run end in the leaf it is in?  Else a slice does not tell."""
    return state[o + RUN_END] < state[o + LEAF_ENTRIES]


@kernel
def load_run(words, state, s, o, depth, run):
    """Decode what is left of the run of iterator o in its leaf; kept while it stays the same.

    The slice at `s` says where in `run` the iterator is, and where its run stops.
    """
    page, slot, end = state[o + LEAF_PAGE], state[o + LEAF_SLOT], state[o + RUN_END]
    if state[s + HELD_PAGE] != page or state[s + HELD_SLOT] > slot or state[s + HELD_SLOT] + state[s + STOP] != end:
        state[s + HELD_PAGE], state[s + HELD_SLOT], state[s + STOP] = page, slot, end - slot
        unpack(words, page, depth, slot, end, run, 0)
    state[s + AT_KEY] = slot - state[s + HELD_SLOT]


@kernel
def merge(state, level, runs, out):
    """Intersect two slices of similar length without a branch to mispredict, as far as buffers allow.

    Emits the matches and counts the operations that leapfrogging takes for them. Stops at a place from which
    `intersect` goes on: before the last entry of one of the slices.
    """
    a_slice, b_slice = state[RUNS], state[RUNS] + SLICE
    a_run, b_run = runs[0], runs[1]
    i, i_end, j, j_end = state[a_slice + AT_KEY], state[a_slice + STOP], state[b_slice + AT_KEY], state[b_slice + STOP]
    n = start = state[EMITTED]
    seeks = behind = before = 0
    if a_run[i] < b_run[j]:  # mostly one slice starts far behind the other
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
    state[SEEKS] += seeks
    state[NEXTS] += n - start


@kernel
def ahead(run, i, end, x):
    """First index in [i, end) with run >= x, given that run[i] < x.  A few steps, then gallops."""
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
