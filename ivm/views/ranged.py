"""Aggregates over ranges (plan/span.py): the rows of their views, and how these follow changes of both sides.

    nx[x] = y <- agg<<y = min(z)>> a(x), a(z), z > x.        a: 1 4 9          nx: (1; 4) (4; 9)

    +a(6): a point of its own, whose row is looked for; and measured, so that the rows of points from 4 on change, since
    4 is the key before 6, and up to 6.                                        nx: (1; 4) (4; 6) (6; 9)

A change of what is measured moves the row of each point whose range holds it; where the first (last) record of a range
is the result, only of points for which it is that.  One seek or one fold of a range finds a row, in O(log n).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ivm.maintenance.surgery import Delta
from ivm.plan.span import ADDED, COMPARED, FOLD, SEEK_FIRST, Span
from ivm.views.aggregate_state import behind_prefixes
from ivm.views.range_results import Found, shifted
from pagestore.host import (
    ERASE,
    INSERT,
    SET,
    WORD_MAX,
    WORD_MIN,
    Edits,
    Pages,
    Tree,
    count_prefixes,
    distinct,
    first_from,
    last_before,
    read_batches,
)

INTERVALS_MAX = 256  # of changed points; where there are more, all points are looked at
SHARE = 4  # of the points: where as many rows have changed, all points are looked at
Find = Callable[[np.ndarray], Found]  # the results for records of points (range_results.py)


class Side(NamedTuple):
    """One side of a range before and after a transaction: both trees, and what has changed, if anything has."""

    old: Tree
    new: Tree
    delta: Delta | None


class Intervals(NamedTuple):
    """Intervals of points: groups[G, n], and the least and greatest point of each."""

    groups: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def where(self, keep: np.ndarray) -> "Intervals":
        """Those for which keep[n] holds."""
        return Intervals(self.groups[:, keep], self.low[keep], self.high[keep])


def ranged_rows(pages: Pages, span: Span, points: Tree, find: Find) -> np.ndarray:
    """All rows int64[C, n] of a view, in the order of the points.  O(points log n)."""
    rows = np.concatenate([*read_batches(pages, points), np.empty((points.spec.columns, 0), np.int64)], axis=1)
    if not span.whole and span.group + 1 < points.spec.keys:
        rows = _distinct_points(span, [rows])
    there, words = find(rows)
    return _view_rows(span, rows[:, there], words[there])


def ranged_edits(pages: Pages, span: Span, points: Side, measured: Side, find: Find) -> tuple[Edits, int]:
    """The edits of a view that follow from changes of both sides, and how many points were looked at.

    O((changes + points whose range changes) log n).
    """
    moved = _moved_points(pages, span, points.new, measured) if measured.delta else []
    gone = np.empty((points.new.spec.columns, 0), np.int64)
    if points.delta is not None:
        actions, rows = points.delta
        if span.whole:
            gone, came = rows[:, actions == ERASE], rows[:, actions == INSERT]
        else:
            cores = distinct(rows[: span.group + 1])
            left = count_prefixes(pages, points.new, cores) > 0
            gone, came = cores[:, ~left], cores[:, left]
        moved.append(came)
    rows = _distinct_points(span, moved)
    there, words = find(rows)
    new = _view_rows(span, rows[:, there], words[there])
    old = np.concatenate([gone[[*span.keys]], rows[[*span.keys]][:, ~there]], axis=1)
    old = np.concatenate([old, np.zeros((1, old.shape[1]), np.int64)])
    actions = np.repeat([ERASE, SET], [old.shape[1], new.shape[1]])
    return (actions, np.concatenate([old, new], axis=1)), rows.shape[1]


def _distinct_points(span: Span, parts: list[np.ndarray]) -> np.ndarray:
    """Records of points, each once, or only their first words if these are the view's keys."""
    words = span.width if span.whole else span.group + 1
    return distinct(np.concatenate([*(part[:words] for part in parts), np.empty((words, 0), np.int64)], axis=1))


def _view_rows(span: Span, rows: np.ndarray, words: np.ndarray) -> np.ndarray:
    return np.concatenate([rows[[*span.keys]], words[None]])


# -- the points whose results change


def _moved_points(pages: Pages, span: Span, points: Tree, measured: Side) -> list[np.ndarray]:
    """Records of the points, as they are now, whose result a change of what is measured may move."""
    assert measured.delta
    actions, rows = measured.delta
    if len(actions) > INTERVALS_MAX + points.count // SHARE:
        return [*read_batches(pages, points)]
    found = []
    for action, tree in ((ERASE, measured.old), (INSERT, measured.new)):
        changed = distinct(rows[span.lead][:, actions == action])
        found.append(_touched(pages, span, tree, changed))
    merged = _merged(Intervals(*(np.concatenate(parts, axis=-1) for parts in zip(*found, strict=True))))
    if len(merged.low) > INTERVALS_MAX:
        return [*read_batches(pages, points)]
    read: list[np.ndarray] = []
    for group, low, high in zip(merged.groups.T, merged.low.tolist(), merged.high.tolist(), strict=True):
        ends = np.array([[*group.tolist(), high]], np.int64).T
        behind, last = behind_prefixes(ends)
        read += read_batches(pages, points, (*group.tolist(), low), () if last[0] else tuple(behind[:, 0].tolist()))
    return read


def _touched(pages: Pages, span: Span, tree: Tree, changed: np.ndarray) -> Intervals:
    """For keys changed[G + 1, n] that a tree has: the points whose result they are, or whose range holds them."""
    groups, key = changed[:-1], changed[-1]
    low, low_beyond = shifted(key, None if span.high is None else -span.high, WORD_MIN)
    high, high_beyond = shifted(key, None if span.low is None else -span.low, WORD_MAX)
    keep = (low_beyond <= 0) & (high_beyond >= 0)
    if span.kind not in (FOLD, ADDED, COMPARED):
        first = span.kind == SEEK_FIRST
        found, other = last_before(pages, tree, changed) if first else _first_behind(pages, tree, changed)
        found = found & (other[: span.group] == groups).all(axis=0)
        bound = span.low if first else span.high
        if bound is None:
            keep &= ~found
        else:  # points whose range begins behind the key before, or ends before the key behind
            end, beyond = shifted(other[span.group], -bound + (1 if first else -1), 0)
            keep &= ~found | (beyond <= 0 if first else beyond >= 0)
            if first:
                low = np.where(found, np.maximum(low, end), low)
            else:
                high = np.where(found, np.minimum(high, end), high)
    return Intervals(groups, low, high).where(keep & (low <= high))


def _first_behind(pages: Pages, tree: Tree, prefixes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first record behind all that begin with each of prefixes[m, n]."""
    behind, last = behind_prefixes(prefixes)
    found, records = first_from(pages, tree, behind)
    return found & ~last, records


def _merged(intervals: Intervals) -> Intervals:
    """Intervals that do not overlap, and together are the same."""
    order = np.lexsort((intervals.low, *intervals.groups[::-1]))
    groups, low, high = intervals.groups[:, order], intervals.low[order], intervals.high[order]
    same = [False, *(groups[:, 1:] == groups[:, :-1]).all(axis=0).tolist()]
    first, reach = [], WORD_MIN
    for i, (one, end) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        if same[i] and one <= reach:
            reach = max(reach, end)
        else:
            first.append(i)
            reach = end
    highest = np.maximum.reduceat(high, first) if first else high
    return Intervals(groups[:, first], low[first], highest)
