"""Aggregates over ranges (plan/span.py): compute the rows of their views, and maintain them.

    nx[x] = y <- agg<<y = min(z)>> a(x), a(z), z > x.        a: 1 4 9          nx: (1; 4) (4; 9)

    +a(6): a new point, whose row is computed; also a new measured key, so the rows of points from 4, the key before 6,
    up to 6 change.                                                            nx: (1; 4) (4; 6) (6; 9)

A change of a measured record affects the row of each point whose range holds it; if the first (last) record of a range
is the result, only of points for which it is that.  One seek or range fold computes a row, in O(log n).
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

INTERVALS_MAX = 256  # of affected points; if there are more, all points are computed
SHARE = 4  # if more rows changed than points / SHARE (+ INTERVALS_MAX), all points are computed
Find = Callable[[np.ndarray], Found]  # the results for records of points (range_results.py)


class Side(NamedTuple):
    """One side of a range before and after a transaction: both trees, and the delta, None if nothing changed."""

    old: Tree
    new: Tree
    delta: Delta | None


class Intervals(NamedTuple):
    """Intervals of points: groups[G, n], and the least and greatest point of each."""

    groups: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def where(self, keep: np.ndarray) -> "Intervals":
        """Return those for which keep[n] is true."""
        return Intervals(self.groups[:, keep], self.low[keep], self.high[keep])


def ranged_rows(pages: Pages, span: Span, points: Tree, find: Find) -> np.ndarray:
    """Return all rows int64[C, n] of a view, in the order of the points.  O(points log n)."""
    rows = np.concatenate([*read_batches(pages, points), np.empty((points.spec.columns, 0), np.int64)], axis=1)
    if not span.whole and span.group + 1 < points.spec.keys:
        rows = _distinct_points(span, [rows])
    there, words = find(rows)
    return _view_rows(span, rows[:, there], words[there])


def ranged_edits(pages: Pages, span: Span, points: Side, measured: Side, find: Find) -> tuple[Edits, int]:
    """Return the edits of a view for changes of both sides, and how many points were computed.

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
    """Return distinct records of points, or of their first words if these are the view's keys."""
    words = span.width if span.whole else span.group + 1
    return distinct(np.concatenate([*(part[:words] for part in parts), np.empty((words, 0), np.int64)], axis=1))


def _view_rows(span: Span, rows: np.ndarray, words: np.ndarray) -> np.ndarray:
    return np.concatenate([rows[[*span.keys]], words[None]])


# -- the points whose results change


def _moved_points(pages: Pages, span: Span, points: Tree, measured: Side) -> list[np.ndarray]:
    """Return records of the current points whose result may change with the measured side."""
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
    """Return, for keys changed[G + 1, n] in a tree, the points whose result they are, or whose range holds them."""
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
        else:  # points whose range begins after the previous key, or ends before the next key
            end, beyond = shifted(other[span.group], -bound + (1 if first else -1), 0)
            keep &= ~found | (beyond <= 0 if first else beyond >= 0)
            if first:
                low = np.where(found, np.maximum(low, end), low)
            else:
                high = np.where(found, np.minimum(high, end), high)
    return Intervals(groups, low, high).where(keep & (low <= high))


def _first_behind(pages: Pages, tree: Tree, prefixes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the first record after all that begin with each of prefixes[m, n]."""
    behind, last = behind_prefixes(prefixes)
    found, records = first_from(pages, tree, behind)
    return found & ~last, records


def _merged(intervals: Intervals) -> Intervals:
    """Return disjoint intervals with the same union."""
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
