"""Aggregates by operators of users that have an inverse: one value for each group, from which what goes is taken back.

    u[x] = r <- agg<<r = bitxor(v)>> n(x, v).        state (1; 5, 2)        +n(1, 4).        (1; 5 ^ 4, 3)

The last word is how many assignments there are; a group without any is gone.  O(log n) for each change, and nothing is
kept of the values.
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
    """What assignments come to: rows[C, n] of a group, a value and how many come, or go if that is negative.

    One row for each group, in order.
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
    """The fold of a value as often as it comes, or of its inverse as often as it goes; O(log times)."""
    one, found = value if times > 0 else known.inverse(value), known.identity
    if times in (1, -1):  # mostly
        return one
    for bit in bin(abs(times))[:1:-1]:
        found = known.call(found, one) if bit == "1" else found
        one = known.call(one, one)
    return found


def edits_of(pages: Pages, state: Tree, op: str, rows: np.ndarray) -> Edits:
    """The edits of a state that follow from assignments as in `folded`.  Raises EditError where none is left to go."""
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
    """The edits of a view (s...; x), or (x) if it is bare, that follow from a delta of (s..., x) in key order."""
    if bare:
        return actions, rows[-1:]
    again = np.append((rows[:-1, 1:] == rows[:-1, :-1]).all(axis=0), False)[: len(actions)]
    kept = ~(again & (actions == ERASE))  # of a value that changes only the new one
    return np.where(actions == INSERT, SET, ERASE)[kept], rows[:, kept]
