"""Trie iterators over pages: open, seek_lub and the end of a run (*Leapfrog Triejoin*, section 3).

    edge(x, y)    leaf   x   1 1 1 4 4 9        depth 0 is at slot 0: x = 1, its run ends at slot 3
                         y   2 5 8 2 7 1        open depth 1: y = 2, run 0..3       seek_lub(6) lands on slot 2: y = 8

An atom has an iterator for each of its depths: a pagestore cursor in the state of the run, followed
by where its run of equal parent keys ends in the current leaf. `forward` follows a run into the
next leaf.

The output of a join: bindings, and trace rows, each a context and an interval (*Sensitivity
indices*).

    triangle(x, y, z) with x = 1, y = 2 bound; the iterator of edge(y, z) sought 4 and landed on 7
    trace row of edge(y, z) at depth 1:    y = 2, a = 4, b = 7        it would act otherwise if (2, 4..7) changed

With granularity g, up to g operations under one context share a row, whose interval covers all of
theirs.

The arrays of a run: `plan`, which is constant, and `state`, its progress; the words of their
headers.

    plan     | LEVELS = 3 | DEPTHS = 2 | ... | PART_START = 18 | ... ||  0 2 4 6 | 0 0  2 0 | 0 1  1 0 | 1 1  2 1 | ...
    state    | LEVEL = 1  | PHASE = SEARCH | ... | BINDING = 25 | ... ||  1 5 . | ...

    triangle(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).        parts of level 0 (x): atom 0 at depth 0, atom 2 at
                                                                    depth 0; of level 1 (y): atom 0
                                                                    at 1, atom 1 at 0

Both are flat arrays with a header of numbers and of offsets to their sections: passing an array
costs a kernel more than an index.
"""

from pagestore.compiled import (
    CURSOR_WORDS,
    LEAF_ENTRIES,
    LEAF_PAGE,
    LEAF_SLOT,
    PATH,
    WORD_MAX,
    MappedWords,
    Pages,
    Table,
    Tables,
    Words,
    field,
    forward,
    gallop,
    kernel,
    run_end,
    seek,
    tree_at,
)

# after the cursor of an iterator: the end of its run in the current leaf; where it was opened last,
# and the end of the run there, since many bindings open the same slice
RUN_END, FROM_PAGE, FROM_SLOT, FROM_END = range(CURSOR_WORDS, CURSOR_WORDS + 4)
ITERATOR_WORDS = CURSOR_WORDS + 4


@kernel
def iterator(plan: Words, state: Words, atom: int, depth: int):
    """Return the offset in `state` of the iterator of an atom at a depth."""
    return state[ITERATORS] + (atom * plan[DEPTHS] + depth) * ITERATOR_WORDS


@kernel
def iterator_of(plan: Words, state: Words, p: int):
    """Return the offset in `state` of the iterator of a part."""
    return state[ITERATORS] + place_of(plan, p) * ITERATOR_WORDS


@kernel
def place_of(plan: Words, p: int):
    """Return the row of a part (an atom at a depth) in tables with a row for each: sensors,
    keys, cursors.
    """
    return plan[plan[PARTS] + 2 * p] * plan[DEPTHS] + plan[plan[PARTS] + 2 * p + 1]


@kernel
def sensor_of(plan: Words, p: int):
    """Return the sensor of a part, or -1."""
    return plan[plan[SENSOR] + place_of(plan, p)]


@kernel
def tree_of(pages: Pages, state: Words, atom: int):
    """Return the tree of an atom."""
    return tree_at(pages, state, state[TREES] + 3 * atom)


@kernel
def land(words: MappedWords, plan: Words, state: Words, atom: int, depth: int, status: int):
    """Store the key where an iterator landed; return it, the end of its sensitivity, or WORD_MAX
    at the end.
    """
    if status == 0:
        return WORD_MAX
    o = iterator(plan, state, atom, depth)
    x = field(words, state[o + LEAF_PAGE], depth, state[o + LEAF_SLOT])
    state[state[AT] + atom * plan[DEPTHS] + depth] = x
    return x


@kernel
def open_trie(pages: Pages, plan: Words, state: Words, atom: int, depth: int, x: int):
    """Open the next level of an atom at its first key >= x.  Return 1 on a key, 0 if there is
    none, or ``-page_id``.
    """
    o, tree = iterator(plan, state, atom, depth), tree_of(pages, state, atom)
    if depth == 0:
        at = state[AT] + atom * plan[DEPTHS]
        state[at] = x
        key = state[at : at + 1]
        status = seek(tree, key, 1, state, o)
        state[o + RUN_END] = state[o + LEAF_ENTRIES]
        return status
    parent = o - ITERATOR_WORDS
    for i in range(PATH + 2 * tree.height - 2):
        state[o + i] = state[parent + i]
    page, slot = state[o + LEAF_PAGE], state[o + LEAF_SLOT]
    if state[o + FROM_PAGE] != page or state[o + FROM_SLOT] != slot:
        above = state[state[AT] + atom * plan[DEPTHS] + depth - 1]
        state[o + FROM_PAGE], state[o + FROM_SLOT] = page, slot
        state[o + FROM_END] = run_end(
            pages.words, page, depth - 1, slot, state[parent + RUN_END], above
        )
    state[o + RUN_END] = state[o + FROM_END]
    return seek_trie(pages, plan, state, atom, depth, x)


@kernel
def seek_trie(pages: Pages, plan: Words, state: Words, atom: int, depth: int, x: int):
    """Move an iterator to its first key >= x (*seek_lub*).  Return 1 on a key, 0 at the end, or
    ``-page_id``.
    """
    o, words = iterator(plan, state, atom, depth), pages.words
    end = state[o + RUN_END]
    slot = gallop(words, state[o + LEAF_PAGE], depth, state[o + LEAF_SLOT], end, x)
    if slot < end:
        state[o + LEAF_SLOT] = slot
        return 1
    tree = tree_of(pages, state, atom)
    if end < state[o + LEAF_ENTRIES] or depth >= tree.keys:
        return 0  # the run ends in this leaf; and a function has one value per key
    at = state[AT] + atom * plan[DEPTHS]
    key = state[at : at + depth + 1]
    key[depth] = x
    status = forward(tree, key, depth + 1, state, o)
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
def crowded(plan: Words, state: Words, rows: Tables, steps: int):
    """Return whether `steps` more operations might overrun a trace buffer."""
    return plan[SENSORS] > 0 and state[CROWD] + steps > rows.shape[2]


@kernel
def emit(words: MappedWords, plan: Words, state: Words, out: Table):
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
def record(plan: Words, state: Words, rows: Tables, s: int, a: int, b: int):
    """Record an operation at sensor s: the context and [a, b], in a new trace row or one that
    operations share.
    """
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
def put_row(plan: Words, state: Words, rows: Tables, s: int, a: int, b: int):
    """Write a trace row of sensor s, in the column order of its index."""
    n, binding, at = state[state[ROW_COUNT] + s], state[BINDING], plan[SOURCES] + s * plan[WIDTH]
    state[binding - 1], state[binding - 2] = a, b
    for j in range(plan[WIDTH]):
        rows[s, j, n] = state[binding + plan[at + j]]
    state[state[ROW_COUNT] + s] = n + 1
    state[CROWD] = max(state[CROWD], n + 1)


# v = t, v >= t, v <= t, v != t; t a constant, plus or minus bound variables
EQ, GE, LE, NE = range(4)
OTHERS = 2  # the most bound variables in t
KIND, CONSTANT, OTHER = range(3)  # words of a bound, then another (level, sign)
BOUND_WORDS = OTHER + 2 * OTHERS
HALF = (1 << 32) - 1
ENTER, SEARCH, MATCHED, NEXT, DONE, FAILED = range(6)  # phases

# header of `plan`: numbers, then offsets of its sections
(
    LEVELS,  # L
    DEPTHS,  # D, the greatest number of arguments of an atom
    VALUES,  # V, values read at a binding
    SENSORS,  # S
    WIDTH,  # columns of the widest sensitivity index
    GRANULARITY,
    PART_START,  # [L + 1] into PARTS
    PARTS,  # (atom, depth)
    ABSENT_START,  # [L + 1] into ABSENT
    ABSENT,  # negated atoms
    BOUND_START,  # [L + 1] into BOUNDS
    BOUNDS,  # (kind, constant, then OTHERS times: a level or -1, and its sign, 1 or -1)
    ARGUMENTS,  # [A, D] the level of each argument
    ATOM_DEPTH,  # [A]
    READS,  # [V] (atom, depth, column)
    SENSOR,  # [A, D] number of the sensitivity index, or -1
    SOURCES,  # [S, WIDTH] a level, -1 for a, -2 for b, -3 for nothing
    PLAN_HEADER,
) = range(18)
# header of `state`: progress, counts, then offsets of its sections
(
    LEVEL,
    PHASE,
    TARGET,
    EMITTED,
    OPENS,
    SEEKS,
    NEXTS,
    CROWD,  # rows of the fullest trace buffer
    PAUSE,  # the number of operations at which the kernel returns, though no buffer is full
    TREES,  # [A] (root, height, keys)
    ENDS,  # nothing, b, a: where a source of -3, -2, -1 is read, as if it were a level
    BINDING,  # [L], immediately after ENDS
    LOW,  # [L]
    HIGH,  # [L]
    COVERED,  # [L + 1]
    SPANS,  # [L, L] (start, end)
    VALUES_MET,  # [L] the values that each level has bound so far
    AT,  # [A, D] the key each iterator is at
    ITERATORS,  # [A, D] cursor, then the end of its run in the current leaf
    ROW_COUNT,  # [S]
    SHARED,  # [S] operations that share the newest interval
    INTERVAL_END,  # [S] the column of b
    RUNS,  # [parts of the last level] the slices that `runs` holds
    STATE_HEADER,
) = range(24)
