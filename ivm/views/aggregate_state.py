"""The state of some aggregates: a tree beside the view, from which the value of each group follows.

    aggregate           a record of the state   the view's row
    count, sum of f[]   (0; d) or (0; t, eta)   (t), so a change erases the old row and inserts the new one
    min, max            (s..., v; eta)          (s...; v) for the group's first v; a max stores ~v to reverse the order;
                                                of texts, for the one that is least or greatest as a text
    total               (s..., place; t, eta)   (s...; t), the sum of the group's parts, rounded once (exact_sum.py)

    least[x] = m <- agg<<m = min(v)>> cost(x, v).       state (7, 3; 1) (7, 5; 2) (9, 1; 1)       view (7; 3) (9; 1)

s is the group's key and eta a support. A group is found by rank, in O(log n) however large it is (*Aggregations*): the
rank of the prefix s is the number of records before the group.
"""

from collections.abc import Callable

import numpy as np

from ivm.errors import RangeError
from ivm.views.exact_sum import PLACE_END, round_totals
from ivm.views.layouts import COUNT, MAX, MAX_OR_MIN, PLAIN, SUM, TOTAL, Layout
from pagestore.host import COUNT as RECORDS
from pagestore.host import (
    ERASE,
    INSERT,
    SET,
    Pages,
    Spec,
    Tree,
    begins,
    count_prefixes,
    distinct,
    ranks,
    read_batches,
    select,
)  # fmt: skip

TextKeys = Callable[[np.ndarray], np.ndarray]  # from ids of texts to words in the order of these


def keeps_state(layout: Layout) -> bool:
    """Does an aggregate of this layout need a tree of state?"""
    return layout.kind in (*MAX_OR_MIN, TOTAL) or (layout.bare and layout.kind != PLAIN)


def state_name(name: str) -> str:
    """The name in the store of a view's tree of state."""
    return f"$apart:{name}"


def state_spec(layout: Layout, columns: int) -> Spec:
    """The shape of the tree of state, given how many columns its edits have (see heads.py)."""
    if layout.kind in (COUNT, SUM):
        return Spec(0, 1, columns - 1)
    values = 2 if layout.kind == TOTAL else 1
    return Spec(0, columns - values, values, ((RECORDS, 0),))


def view_rows(name: str, layout: Layout, rows: np.ndarray, order: TextKeys) -> np.ndarray:
    """The view's rows int64[C, n] of some groups, given all state of these, in key order.  Raises RangeError."""
    if layout.kind in (COUNT, SUM):
        return rows[1:2]
    keys = _group_keys(layout, rows)
    fresh = begins(rows[:keys])
    if layout.kind == TOTAL:
        try:
            values = round_totals(rows[keys], rows[keys + 1], np.flatnonzero(fresh))
        except RangeError as error:
            raise RangeError(f"{name}: {error}") from None
    else:
        chosen = _extremes(layout, rows, fresh, order) if layout.texts else fresh
        values = ~rows[keys, chosen] if layout.kind == MAX else rows[keys, chosen]
    return values[None] if layout.bare else np.concatenate([rows[:keys, fresh], values[None]])


def view_edits(
    name: str,
    layout: Layout,
    pages: Pages,
    view: Tree,
    state: Tree,
    actions: np.ndarray,
    rows: np.ndarray,
    order: TextKeys,
) -> tuple[np.ndarray, np.ndarray]:
    """The edits of the view (actions int64[n], rows int64[C, n]) that follow from a delta of its state.

    O(groups * log n), and of texts O(records of the groups * log n).  Raises RangeError.
    """
    if layout.kind in (COUNT, SUM):
        return actions, rows[1:2]
    groups = distinct(rows[: _group_keys(layout, rows)])
    found, which = _state_of(pages, layout, state, groups)
    new = view_rows(name, layout, found, order)
    if layout.bare:
        old = np.concatenate([*read_batches(pages, view), np.empty((1, 0), np.int64)], axis=1)
        gone = old[:, : groups.shape[1]]  # nothing, if the state did not change
        return np.repeat([ERASE, INSERT], [gone.shape[1], new.shape[1]]), np.concatenate([gone, new], axis=1)
    gone = np.delete(groups, which, axis=1)
    gone = np.concatenate([gone, np.zeros((1, gone.shape[1]), np.int64)])
    return np.repeat([SET, ERASE], [new.shape[1], gone.shape[1]]), np.concatenate([new, gone], axis=1)


def _extremes(layout: Layout, rows: np.ndarray, fresh: np.ndarray, order: TextKeys) -> np.ndarray:
    """The place of the least or greatest text in the state of each group, whose first records are `fresh`."""
    words = rows[-2]
    keys = -order(~words) if layout.kind == MAX else order(words)
    ranked: np.ndarray = np.lexsort((keys, np.cumsum(fresh)))
    return ranked[np.flatnonzero(fresh)]


def _group_keys(layout: Layout, rows: np.ndarray) -> int:
    """How many columns of the state are the group's key."""
    return len(rows) - (3 if layout.kind == TOTAL else 2)


def _state_of(pages: Pages, layout: Layout, state: Tree, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The records of groups[K, n], the first of each or for `total` and texts all, in order, and each one's group."""
    start = ranks(pages, state, groups)
    if layout.kind == TOTAL:
        stop = ranks(pages, state, np.concatenate([groups, np.full((1, groups.shape[1]), PLACE_END)]))
    elif layout.texts:
        stop = start + count_prefixes(pages, state, groups, state.count)
    else:
        stop = np.minimum(start + 1, state.count)
    sizes = stop - start
    which = np.repeat(np.arange(len(sizes)), sizes)
    found = select(pages, state, np.arange(len(which)) + np.repeat(stop - np.cumsum(sizes), sizes))
    same = (found[: len(groups)] == groups[:, which]).all(axis=0)
    return found[:, same], which[same]
