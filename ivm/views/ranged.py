"""Aggregates over ranges (plan/span.py): the rows of their views, and how these follow changes of both sides.

    nx[x] = y <- agg<<y = min(z)>> a(x), a(z), z > x.        a: 1 4 9          nx: (1; 4) (4; 9)

    +a(6): a point of its own, whose row is looked for; and measured, so that the rows of points from 4 on change, since
    4 is the key before 6, and up to 6.                                        nx: (1; 4) (4; 6) (6; 9)

A change of what is measured moves the row of each point whose range holds it; where the first (last) record of a range
is the result, only of points for which it is that.  One seek or one fold of a range finds a row, in O(log n).
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from ivm.maintenance.surgery import Delta
from ivm.plan.span import FOLD, SEEK_FIRST, Span
from ivm.views.aggregate_state import behind_prefixes
from ivm.views.edit_composition import SumOverflow
from ivm.views.order_statistics import EXACT
from pagestore.host import (
    CARRY,
    ERASE,
    INSERT,
    MAX,
    MIN,
    SET,
    SUM,
    WORD_MAX,
    WORD_MIN,
    Edits,
    Pages,
    Tree,
    count_prefixes,
    distinct,
    first_from,
    float_words,
    fold_many,
    last_before,
    read_batches,
    rows_of,
)

INTERVALS_MAX = 256  # of changed points; where there are more, all points are looked at
SHARE = 4  # of the points: where as many rows have changed, all points are looked at
SCANS = {"sum": ((SUM, 0), (CARRY, 0)), "min": ((MIN, 0),), "max": ((MAX, 0),)}  # of column 0


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


def ranged_rows(pages: Pages, span: Span, points: Tree, measured: Sequence[Tree]) -> np.ndarray:
    """All rows int64[C, n] of a view, in the order of the points.  O(points log n).  Raises SumOverflow."""
    rows = np.concatenate([*read_batches(pages, points), np.empty((points.spec.columns, 0), np.int64)], axis=1)
    if not span.whole and span.group + 1 < points.spec.keys:
        rows = _distinct_points(span, [rows])
    there, words = results(pages, span, measured, rows)
    return _view_rows(span, rows[:, there], words[there])


def ranged_edits(pages: Pages, span: Span, points: Side, measured: Sequence[Side]) -> tuple[Edits, int]:
    """The edits of a view that follow from changes of both sides, and how many points were looked at.

    O((changes + points whose range changes) log n).  Raises SumOverflow.
    """
    moved = [part for side in measured if side.delta for part in _moved_points(pages, span, points.new, side)]
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
    there, words = results(pages, span, [side.new for side in measured], rows)
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


# -- the result for a point


def results(pages: Pages, span: Span, measured: Sequence[Tree], rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For records of points rows[C, n]: whether there is a result, bool[n], and its word int64[n].  O(n log count)."""
    tree, *counts = measured
    n, point = rows.shape[1], rows[span.group]
    low, low_beyond = _shifted(point, span.low, WORD_MIN)
    high, high_beyond = _shifted(point, span.high, WORD_MAX)
    possible = ~((low_beyond > 0) | (high_beyond < 0) | (low > high))
    there, words = np.zeros(n, bool), np.zeros(n, np.int64)
    which = np.flatnonzero(possible)
    groups, low, high = rows[: span.group, which], low[which], high[which]
    first, last = np.concatenate([groups, low[None]]), np.concatenate([groups, high[None]])
    if span.kind == FOLD:
        full, found = _folded(pages, span, tree, first, last)
        there[which] = full
        if counts:
            words[which] = _means(found, _folded(pages, span, counts[0], first, last)[1], span.digits)
        else:
            words[which] = _narrow(span, full, found, rows[:, which])
        return there, words
    if span.group == 0 and n > INTERVALS_MAX + tree.count // SHARE:
        found, records = _in_memory(pages, span, tree, low, high)
    elif span.kind == SEEK_FIRST:
        found, records = first_from(pages, tree, first)
    else:
        found, records = _last_up_to(pages, tree, last)
    key = records[span.group]
    found = found & (records[: span.group] == groups).all(axis=0) & (low <= key) & (key <= high)
    there[which], words[which] = found, records[span.result]
    return there, words


def _in_memory(
    pages: Pages, span: Span, tree: Tree, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """What seeking finds, where reading all keys takes less time: of records the words that are asked for."""
    columns = (0, span.result)
    parts = [*read_batches(pages, tree, columns=columns), np.empty((2, 0), np.int64)]
    keys, taken = np.concatenate(parts, axis=1)
    at = np.searchsorted(keys, low) if span.kind == SEEK_FIRST else np.searchsorted(keys, high, "right") - 1
    found = (at >= 0) & (at < len(keys))
    records = np.zeros((tree.spec.columns, len(at)), np.int64)
    at = at[found]
    records[0, found], records[span.result, found] = keys[at], taken[at]
    return found, records


def _shifted(words: np.ndarray, by: int | None, otherwise: int) -> tuple[np.ndarray, np.ndarray]:
    """words[n] + by, kept within 64 bits, and whether it was below (-1) or beyond (1) these; or a word for all."""
    if by is None:
        return np.full(len(words), otherwise), np.zeros(len(words), np.int64)
    beyond = (words > WORD_MAX - by).astype(np.int64) if by >= 0 else -(words < WORD_MIN - by).astype(np.int64)
    shifted = np.where(beyond == 0, words + np.int64(by), np.where(beyond > 0, WORD_MAX, WORD_MIN))
    return shifted, beyond


def _last_up_to(pages: Pages, tree: Tree, prefixes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The last record that is at most each of prefixes[m, n], as far as these go."""
    behind, last = behind_prefixes(prefixes)
    found, records = last_before(pages, tree, behind)
    if last.any():
        found[last], records[:, last] = last_before(pages, tree, np.empty((0, np.count_nonzero(last)), np.int64))
    return found, records


def _folded(pages: Pages, span: Span, tree: Tree, first: np.ndarray, last: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Folds of the records from the prefix first[:, i] up to last[:, i]: whether there are any, and words[F, n]."""
    op = span.scan.partition(":")[0]
    rows = rows_of(tree.spec, tuple((code, span.result) for code, _ in SCANS[op]))
    assert rows, "the tree that a range is folded in has lost its scan"
    behind, at_end = behind_prefixes(last)
    folds = fold_many(pages, tree, rows, first, behind)
    words, full = folds.words, folds.full
    if at_end.any():
        rest = fold_many(pages, tree, rows, first[:, at_end], np.empty((0, np.count_nonzero(at_end)), np.int64))
        words[:, at_end], full[at_end] = rest.words, rest.full
    return full, np.where(full, words, 0)


def _narrow(span: Span, full: np.ndarray, words: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Folds as words int64[n].  Raises SumOverflow for a sum that no word holds."""
    for i in np.flatnonzero(full & (words[1] != words[0] >> 63))[:1].tolist() if len(words) > 1 else ():
        raise SumOverflow(points[[*span.keys], i], _wide(words, i))
    narrow: np.ndarray = words[0]
    return narrow


def _wide(words: np.ndarray, i: int) -> int:
    """A sum of two words, the low one first, as it is."""
    return (int(words[1, i]) << 64) + (int(words[0, i]) & (1 << 64) - 1)


def _means(sums: np.ndarray, counts: np.ndarray, digits: int) -> np.ndarray:
    """The exact quotients of sums and counts, each of two words, rounded once: words of floats int64[n]."""
    low, units = sums[0], counts[0] * 10**digits
    small = (sums[1] == low >> 63) & (low > -EXACT) & (low < EXACT) & (counts[0] < EXACT // 10**digits)
    if small.all():
        return float_words(low / np.maximum(units, 1))
    pairs = ((_wide(sums, i), _wide(counts, i)) for i in range(sums.shape[1]))
    return float_words(np.array([float(Fraction(total, max(n, 1) * 10**digits)) for total, n in pairs], np.float64))


# -- the points whose results change


def _moved_points(pages: Pages, span: Span, points: Tree, measured: Side) -> list[np.ndarray]:
    """Records of the points, as they are now, whose result a change of what is measured may move."""
    assert measured.delta
    actions, rows = measured.delta
    if len(actions) > INTERVALS_MAX + points.count // SHARE:
        return [*read_batches(pages, points)]
    found = []
    for action, tree in ((ERASE, measured.old), (INSERT, measured.new)):
        changed = distinct(rows[: span.group + 1, actions == action])
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
    low, low_beyond = _shifted(key, None if span.high is None else -span.high, WORD_MIN)
    high, high_beyond = _shifted(key, None if span.low is None else -span.low, WORD_MAX)
    keep = (low_beyond <= 0) & (high_beyond >= 0)
    if span.kind != FOLD:
        first = span.kind == SEEK_FIRST
        found, other = last_before(pages, tree, changed) if first else _first_behind(pages, tree, changed)
        found = found & (other[: span.group] == groups).all(axis=0)
        bound = span.low if first else span.high
        if bound is None:
            keep &= ~found
        else:  # points whose range begins behind the key before, or ends before the key behind
            end, beyond = _shifted(other[span.group], -bound + (1 if first else -1), 0)
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
