"""The output of a join: bindings, and trace rows, each a context and an interval (*Sensitivity indices*).

    triangle(x, y, z) with x = 1, y = 2 bound; the iterator of edge(y, z) sought 4 and landed on 7
    trace row of edge(y, z) at depth 1:    y = 2, a = 4, b = 7        it would act otherwise if (2, 4..7) changed

With granularity g, up to g operations under one context share a row, whose interval covers all of theirs.
"""

from ivm.join.kernels.join_layout import (
    BINDING,
    CROWD,
    EMITTED,
    GRANULARITY,
    INTERVAL_END,
    LEVELS,
    READS,
    ROW_COUNT,
    SENSORS,
    SHARED,
    SOURCES,
    VALUES,
    WIDTH,
)
from ivm.join.kernels.trie_iterator import iterator
from pagestore.compiled import LEAF_PAGE, LEAF_SLOT, field, kernel


@kernel
def crowded(plan, state, rows, steps):
    """Return whether `steps` more operations might overrun a trace buffer."""
    return plan[SENSORS] > 0 and state[CROWD] + steps > rows.shape[2]


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
    """Record an operation at sensor s: the context and [a, b], in a new trace row or one that operations share."""
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
