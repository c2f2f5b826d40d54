"""Aggregates by users' operators with an inverse: one value per group, from which erased values are removed.

    u[x] = r <- agg<<r = bitxor(v)>> n(x, v).        state (1; 5, 2)        +n(1, 4).        (1; 5 ^ 4, 3)

The last word is the number of assignments; a group without any is erased.  O(log n) per change, and the values
themselves are not stored.
"""

from itertools import pairwise

import numpy as np

from pagestore.errors import EditError
from pagestore.host import (
    ERASE,
    INSERT,
    SET,
    Edits,
    Operator,
    Pages,
    Tree,
    begins,
    get,
    operator,
    operator_code,
    sort_order,
)


def folded(op: str, rows: np.ndarray) -> np.ndarray:
    """Fold assignments by group: rows[C, n] of a group, a value and how often it is added (removed, if negative).

    Returns one row per group, in order.
    """
    keys, known = len(rows) - 2, operator(operator_code(op))
    rows = rows.take(sort_order(rows[:keys]), axis=1)
    starts = np.flatnonzero(begins(rows[:keys]))
    made = rows[:, starts]
    values, times = rows[-2].tolist(), rows[-1].tolist()
    for group, (start, end) in enumerate(pairwise([*starts.tolist(), len(values)])):
        value = known.identity
        for i in range(start, end):
            value = known.call(value, _repeated(known, values[i], times[i]))
        made[-2:, group] = value, sum(times[start:end])
    return made


def _repeated(known: Operator, value: int, times: int) -> int:
    """Fold a value `times` times, or its inverse if that is negative; O(log times)."""
    one, found = value if times > 0 else known.inverse(value), known.identity
    if times in (1, -1):  # the common case
        return one
    for bit in bin(abs(times))[:1:-1]:
        found = known.call(found, one) if bit == "1" else found
        one = known.call(one, one)
    return found


def edits_of(pages: Pages, state: Tree, op: str, rows: np.ndarray) -> Edits:
    """Return the edits of a state for assignments as in `folded`.  Raises EditError if more are removed than exist."""
    made, known = folded(op, rows), operator(operator_code(op))
    found, stored = get(pages, state, made[:-2])
    made[-1] += np.where(found, stored[-1], 0)
    for group in np.flatnonzero(found).tolist():
        made[-2, group] = known.call(int(stored[-2, group]), int(made[-2, group]))
    if (made[-1] < 0).any():
        key = tuple(made[:-2, int(np.argmin(made[-1]))].tolist())
        raise EditError(f"key {key}: the support would fall below 0; more is taken away than was added")
    actions, there = np.where(made[-1] == 0, ERASE, SET), (made[-1] > 0) | found
    return actions[there], made[:, there]


def view_edits_of(actions: np.ndarray, rows: np.ndarray, bare: bool) -> Edits:
    """Compute the edits of a view (s...; x), or (x) if it is bare, from a delta of (s..., x) in key order."""
    if bare:
        return actions, rows[-1:]
    again = np.append((rows[:-1, 1:] == rows[:-1, :-1]).all(axis=0), False)[: len(actions)]
    kept = ~(again & (actions == ERASE))  # for a changed value, only the SET of the new one
    return np.where(actions == INSERT, SET, ERASE)[kept], rows[:, kept]
