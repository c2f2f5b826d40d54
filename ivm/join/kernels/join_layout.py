"""The arrays of a run: `plan`, which is constant, and `state`, its progress; the words of their headers.

    plan     | LEVELS = 3 | DEPTHS = 2 | ... | PART_START = 18 | ... ||  0 2 4 6 | 0 0  2 0 | 0 1  1 0 | 1 1  2 1 | ...
    state    | LEVEL = 1  | PHASE = SEARCH | ... | BINDING = 25 | ... ||  1 5 . | ...

    triangle(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).        parts of level 0 (x): atom 0 at depth 0, atom 2 at
                                                                    depth 0; of level 1 (y): atom 0 at 1, atom 1 at 0

Both are flat arrays with a header of numbers and of offsets to their sections: passing an array costs a kernel more
than an index.
"""

EQ, GE, LE, NE = range(4)  # v = t, v >= t, v <= t, v != t; t a constant, plus or minus bound variables
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
    TREES,  # [A] (root, height, keys)
    ENDS,  # nothing, b, a: where a source of -3, -2, -1 is read, as if it were a level
    BINDING,  # [L], immediately after ENDS
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
