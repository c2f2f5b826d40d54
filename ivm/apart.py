"""What some aggregates keep apart from their rows: a tree that says what each group comes to.

    aggregate           kept apart              the view's row
    count, sum of f[]   (0; d) or (0; t, eta)   the total, as a key: the old one goes and the new one comes
    min, max            (s..., v; eta)          the first v of the group s; a max keeps ~v, which turns the order round

A group's first value is found by rank, O(log n) however large the group is (*Aggregations*, the semigroup ones): so
many records are below the prefix s, and the next one is the first of s, if it begins with s.
"""

import numpy as np

from ivm.heads import MAX, PLAIN, Layout, ranked
from pagestore.fold import ranks, select
from pagestore.interval import distinct
from pagestore.tree import COUNT, ERASE, INSERT, SET, Pages, Spec, Tree, scan


def is_apart(layout: Layout) -> bool:
    """Does an aggregate of this layout keep a tree apart?"""
    return ranked(layout) or (layout.bare and layout.kind != PLAIN)


def apart_name(name: str) -> str:
    """The name of that tree in the store."""
    return f"$apart:{name}"


def apart_spec(layout: Layout, columns: int) -> Spec:
    """Its shape, for edits of so many columns (see heads.py)."""
    return Spec(0, columns - 1, 1, ((COUNT, 0),)) if ranked(layout) else Spec(0, 1, columns - 1)


def results(layout: Layout, rows: np.ndarray) -> np.ndarray:
    """The view's rows int64[C, n], given all the rows kept apart, in order."""
    if not ranked(layout):
        return rows[1:2]
    first = np.ones(rows.shape[1], bool)
    first[1:] = (rows[:-2, 1:] != rows[:-2, :-1]).any(axis=0)
    return _shown(layout, rows[:-1, first])


def edits(
    pages: Pages, layout: Layout, view: Tree, apart: Tree, actions: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Edits of the view (actions int64[n], rows int64[C, n]) that a delta of the tree kept apart makes."""
    if not ranked(layout):
        return actions, rows[1:2]
    groups = distinct(rows[: apart.spec.keys - 1])
    before = ranks(pages, apart, groups)
    found = before < apart.count
    first = np.zeros((apart.spec.columns, len(found)), np.int64)
    first[:, found] = select(pages, apart, before[found])
    found &= (first[: len(groups)] == groups).all(axis=0)
    first[: len(groups)] = groups
    if not layout.bare:
        return np.where(found, SET, ERASE), _shown(layout, first[:-1])
    old = np.concatenate([*scan(pages, view), np.empty((1, 0), np.int64)], axis=1)
    old = old[:, : len(found)]  # where nothing changed, nothing goes
    new = _shown(layout, first[:-1, found])
    return np.repeat([ERASE, INSERT], [old.shape[1], new.shape[1]]), np.concatenate([old, new], axis=1)


def _shown(layout: Layout, rows: np.ndarray) -> np.ndarray:
    """Rows (s..., v) kept apart as rows of the view; without its key 0 where there is none."""
    rows = np.concatenate([rows[:-1], ~rows[-1:] if layout.kind == MAX else rows[-1:]])
    return rows[1:] if layout.bare else rows
