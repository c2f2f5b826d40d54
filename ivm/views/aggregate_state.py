"""What some aggregates keep apart from their rows: a tree that says what each group comes to.

    aggregate           kept apart              the view's row
    count, sum of f[]   (0; d) or (0; t, eta)   the total, as a key: the old one goes and the new one comes
    min, max            (s..., v; eta)          the first v of the group s; a max keeps ~v, which turns the order round
    total               (s..., place; t, eta)   the sum of all parts of the group s, rounded once (see exact_sum.py)

A group is found by rank, O(log n) however large it is (*Aggregations*): as many records are below the prefix s as its
rank says, and the next ones are those of s, if there are any.
"""

import numpy as np

from ivm.errors import RangeError
from ivm.views.exact_sum import PLACE_END, rounded
from ivm.views.layouts import COUNT, MAX, MAX_OR_MIN, PLAIN, SUM, TOTAL, Layout
from pagestore.host import COUNT as RECORDS
from pagestore.host import ERASE, INSERT, SET, Pages, Spec, Tree, begins, distinct, ranks, read_batches, select


def keeps_state(layout: Layout) -> bool:
    """Does an aggregate of this layout keep a tree apart?"""
    return layout.kind in (*MAX_OR_MIN, TOTAL) or (layout.bare and layout.kind != PLAIN)


def state_name(name: str) -> str:
    """The name of that tree in the store."""
    return f"$apart:{name}"


def state_spec(layout: Layout, columns: int) -> Spec:
    """Its shape, for edits of so many columns (see heads.py)."""
    if layout.kind in (COUNT, SUM):
        return Spec(0, 1, columns - 1)
    values = 2 if layout.kind == TOTAL else 1
    return Spec(0, columns - values, values, ((RECORDS, 0),))


def results(name: str, layout: Layout, rows: np.ndarray) -> np.ndarray:
    """The view's rows int64[C, n], given all that is kept apart of its groups, in order.  Raises RangeError."""
    if layout.kind in (COUNT, SUM):
        return rows[1:2]
    keys = _group_keys(layout, rows)
    fresh = begins(rows[:keys])
    if layout.kind == TOTAL:
        try:
            values = rounded(rows[keys], rows[keys + 1], np.flatnonzero(fresh))
        except RangeError as error:
            raise RangeError(f"{name}: {error}") from None
    else:
        values = ~rows[keys, fresh] if layout.kind == MAX else rows[keys, fresh]
    return values[None] if layout.bare else np.concatenate([rows[:keys, fresh], values[None]])


def edits(
    name: str, layout: Layout, pages: Pages, view: Tree, apart: Tree, actions: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Edits of the view (actions int64[n], rows int64[C, n]) that a delta of the tree kept apart makes."""
    if layout.kind in (COUNT, SUM):
        return actions, rows[1:2]
    groups = distinct(rows[: _group_keys(layout, rows)])
    found, which = _of_groups(pages, layout, apart, groups)
    new = results(name, layout, found)
    if layout.bare:
        old = np.concatenate([*read_batches(pages, view), np.empty((1, 0), np.int64)], axis=1)
        gone = old[:, : groups.shape[1]]  # where nothing changed, nothing goes
        return np.repeat([ERASE, INSERT], [gone.shape[1], new.shape[1]]), np.concatenate([gone, new], axis=1)
    gone = np.delete(groups, which, axis=1)
    gone = np.concatenate([gone, np.zeros((1, gone.shape[1]), np.int64)])
    return np.repeat([SET, ERASE], [new.shape[1], gone.shape[1]]), np.concatenate([new, gone], axis=1)


def _group_keys(layout: Layout, rows: np.ndarray) -> int:
    """How many columns of what is kept apart name the group."""
    return len(rows) - (3 if layout.kind == TOTAL else 2)


def _of_groups(pages: Pages, layout: Layout, apart: Tree, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What is kept of groups[K, n], in order, a first record or all, and which group each record is of."""
    start = ranks(pages, apart, groups)
    if layout.kind == TOTAL:
        stop = ranks(pages, apart, np.concatenate([groups, np.full((1, groups.shape[1]), PLACE_END)]))
    else:
        stop = np.minimum(start + 1, apart.count)
    sizes = stop - start
    which = np.repeat(np.arange(len(sizes)), sizes)
    found = select(pages, apart, np.arange(len(which)) + np.repeat(stop - np.cumsum(sizes), sizes))
    same = (found[: len(groups)] == groups[:, which]).all(axis=0)
    return found[:, same], which[same]
