"""Find the rows of a table within ranges: slices of its rows in order, for two columns slices of a
tree of orders.

    rows (c, d)      (1, 4) (2, 9) (5, 6) (7, 8)          wanted: c <= 6 and d >= 5

    c <= 6           a slice, the first three rows in the order of c: a block of two, and one of one row
    d >= 5           a slice of each block, whose rows are in the order of d: (2, 9) and (5, 6)

A column that is near to another in all rows, as a start is to an end, is within a range wherever
the other is.  If that leaves few rows, no tree is needed, and the other conditions are left to
whoever asked.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ivm.join.groups import FAR, Lookup
from ivm.join.kernels.tries import GE, NE
from pagestore.host import WORD_MAX, WORD_MIN, sort_order

NEAR = 32  # rows of a slice, on average, that are looked at one by one rather than by a tree
# keys that say how many rows ranges have, and the rows of which these are counted are 64 times as
# many
SAMPLED = 64
MODEST = 1 << 61  # differences of smaller words fit a word


class Side(NamedTuple):
    """A condition on a column of a table: its value is `kind` (GE, LE, NE) a value looked up
    plus a constant.
    """

    column: int
    kind: int
    constant: int


class Order(NamedTuple):
    """Rows of a table in the order of their codes; `sums`, int64[n + 1], adds up their weights."""

    codes: np.ndarray
    rows: np.ndarray
    sums: np.ndarray


class Found(NamedTuple):
    """Slices for some of the values looked up, `which` int64[m]: times[i] rows of an order from
    start[i] on.
    """

    which: np.ndarray
    order: Order
    start: np.ndarray
    times: np.ndarray

    @property
    def weights(self) -> np.ndarray:
        """The sum of the weights of each slice, int64[m]."""
        sums: np.ndarray = self.order.sums[self.start + self.times] - self.order.sums[self.start]
        return sums


class Axis:
    """A column as codes from 0 to below `width`, which fit a word when they are multiplied by
    the number of rows.
    """

    def __init__(self, column: np.ndarray) -> None:
        self._low, self._high = int(column.min()), int(column.max())
        self.width, self._known = self._high - self._low + 1, np.empty(0, np.int64)
        if self.width * (len(column) + 1) >= FAR:
            self._known = np.unique(column)
            self.width = len(self._known)

    def first(self, values: np.ndarray) -> np.ndarray:
        """Return the codes from which on the column is at least as great as some values."""
        if len(self._known):
            return np.searchsorted(self._known, values)
        codes: np.ndarray = (
            np.clip(values, self._low, self._high) - self._low + (values > self._high)
        )
        return codes

    def end(self, values: np.ndarray) -> np.ndarray:
        """Return the codes from which on the column is greater than some values."""
        if len(self._known):
            return np.searchsorted(self._known, values, side="right")
        codes: np.ndarray = (
            np.clip(values, self._low, self._high) - self._low + (values >= self._low)
        )
        return codes


class Slices:
    """Finds the rows of a table by a key, which may have no columns, and by conditions on other
    columns.

    Takes keys int64[K, n], the other columns int64[R, n], conditions on these, and weights int64[n]
    whose sum is below 2^62; None for ones.  `counting` says that slices will be measured, not
    listed.  O(n log n); if a tree is needed, in memory too.
    """

    def __init__(
        self,
        keys: np.ndarray,
        columns: np.ndarray,
        sides: Sequence[Side],
        weights: np.ndarray | None = None,
        counting: bool = False,
    ) -> None:
        n, self._counting = columns.shape[1], counting
        self._columns, self._weights = columns, np.ones(n, np.int64) if weights is None else weights
        self._used = [n for n, side in enumerate(sides) if side.kind != NE] or [0]
        self._excludes = sides[self._used[0]].kind == NE
        self._sides = [sides[n] for n in self._used]
        self._ranged = sorted({side.column for side in self._sides})
        self._axes = {c: Axis(columns[c]) for c in self._ranged if n}
        self._keyed = Lookup(keys) if len(keys) and n else None
        self._group = self._keyed.find([*keys]).start if self._keyed else np.zeros(n, np.int64)
        self._orders: dict[int, Order] = {}
        self._tree: list[Order] = []
        self._chosen: tuple[int, int | None] | None = None
        self._all = len(self._sides) == len(sides)

    def find(self, keys: Sequence[np.ndarray], values: Sequence[np.ndarray]) -> Iterator[Found]:
        """Yield slices that together hold each row once for each key, K arrays int64[m], and its
        conditions' values.

        Of rows in them, some may miss a condition unless `exact`, which is known afterwards.  O((n
        + m) log² n).
        """
        m = len(values[0])
        if not self._columns.shape[1] or not m:
            return
        group, there = np.zeros(m, np.int64), np.arange(m)
        if self._keyed:
            matches = self._keyed.find(keys)
            there = np.flatnonzero(matches.times)
            group, values = matches.start[there], [column[there] for column in values]
        if not len(there):
            return
        if self._excludes:
            yield from self._around(there, group, values[0])
            return
        low, high = self._implied(*self._ranges([values[n] for n in self._used]))
        self._chosen = self._chosen or self._choose(group, low, high)
        lead, second = self._chosen
        start, end = self._slices(lead, group, low, high)
        if second is None:
            yield _found(there, self._order(lead), start, end)
        else:
            axis = self._axes[second]
            ends = axis.first(low[second]), axis.end(high[second])
            for level, which, block in _blocks(start, end):
                order = self._blocks_of(level, lead, second)
                found = (
                    np.searchsorted(order.codes, block * axis.width + codes[which])
                    for codes in ends
                )
                yield _found(there[which], order, *found)

    @property
    def exact(self) -> bool:
        """Whether all rows of the slices that were found satisfy all conditions."""
        tried = 1 if self._chosen is None or self._chosen[1] is None else 2
        return self._all and len(self._ranged) <= tried

    # -- ranges

    def _ranges(
        self, values: Sequence[np.ndarray]
    ) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray]]:
        """Return the least and greatest value of each column, int64[m]; MAX and MIN for none."""
        m = len(values[0])
        low = {c: np.full(m, WORD_MIN) for c in self._ranged}
        high = {c: np.full(m, WORD_MAX) for c in self._ranged}
        for (column, kind, constant), value in zip(self._sides, values, strict=True):
            if kind == GE:
                low[column] = np.maximum(low[column], _plus(value, constant))
                beyond = value > WORD_MAX - constant if constant > 0 else None
            else:
                high[column] = np.minimum(high[column], _plus(value, constant))
                beyond = value < WORD_MIN - constant if constant < 0 else None
            if beyond is not None:
                low[column][beyond], high[column][beyond] = WORD_MAX, WORD_MIN
        return low, high

    def _implied(
        self, low: dict[int, np.ndarray], high: dict[int, np.ndarray]
    ) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray]]:
        """Return ranges with those that follow from other columns' ranges, since differences
        have a range, too.
        """
        lows, highs = dict(low), dict(high)
        for (c, other), (least, most) in self._differences.items():
            lows[c] = np.maximum(lows[c], np.clip(low[other], -MODEST, MODEST) - most)
            highs[c] = np.minimum(highs[c], np.clip(high[other], -MODEST, MODEST) - least)
        return lows, highs

    @cached_property
    def _differences(self) -> dict[tuple[int, int], tuple[int, int]]:
        """The least and the greatest difference of a column from another, in all rows."""
        modest = [
            c
            for c in self._ranged
            if self._columns[c].min() > -MODEST and self._columns[c].max() < MODEST
        ]
        by_name = {}
        for c in modest:
            for other in modest:
                if other != c:
                    difference = self._columns[other] - self._columns[c]
                    by_name[c, other] = int(difference.min()), int(difference.max())
        return by_name

    # -- which columns

    def _choose(
        self, group: np.ndarray, low: dict[int, np.ndarray], high: dict[int, np.ndarray]
    ) -> tuple[int, int | None]:
        """Return the column whose order has the shortest slices, and another if a tree of it
        leaves far fewer rows.
        """
        some = slice(None, None, max(1, len(group) // SAMPLED))
        low, high = ({c: column[some] for c, column in ends.items()} for ends in (low, high))
        sizes = {}
        for c in self._ranged:
            start, end = self._slices(c, group[some], low, high)
            sizes[c] = float(np.maximum(end - start, 0).mean())
        lead = min(sizes, key=sizes.__getitem__)
        if len(sizes) == 1 or sizes[lead] <= NEAR:
            return lead, None
        every = slice(None, None, max(1, len(self._group) // SAMPLED**2))
        within = {
            c: (self._columns[c][every] >= low[c][:, None])
            & (self._columns[c][every] <= high[c][:, None])
            for c in self._ranged
        }
        pairs = {
            (a, b): np.count_nonzero(within[a] & within[b]) for a in sizes for b in sizes if a < b
        }
        a, b = min(pairs, key=pairs.__getitem__)
        if not self._counting and 2 * pairs[a, b] > np.count_nonzero(within[lead]):
            return lead, None
        return (a, b) if sizes[a] <= sizes[b] else (b, a)

    # -- slices

    def _order(self, column: int) -> Order:
        """Return the rows in the order of their keys, then of a column."""
        if column not in self._orders:
            axis = self._axes[column]
            self._orders[column] = self._ordered(
                self._group * axis.width + axis.first(self._columns[column]), None
            )
        return self._orders[column]

    def _ordered(self, codes: np.ndarray, rows: np.ndarray | None) -> Order:
        places = sort_order(codes[None])
        rows = places if rows is None else rows[places]
        return Order(codes[places], rows, np.concatenate([[0], np.cumsum(self._weights[rows])]))

    def _slices(
        self,
        column: int,
        group: np.ndarray,
        low: dict[int, np.ndarray],
        high: dict[int, np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the slices of the order of a column within ranges."""
        axis, codes = self._axes[column], self._order(column).codes
        start = np.searchsorted(codes, group * axis.width + axis.first(low[column]))
        end = np.searchsorted(codes, group * axis.width + axis.end(high[column]))
        return start, end

    def _around(self, there: np.ndarray, group: np.ndarray, values: np.ndarray) -> Iterator[Found]:
        """Yield the slices before and after the rows that have a value, plus the constant, in
        the only column.
        """
        column, _, constant = self._sides[0]
        axis, order = self._axes[column], self._order(column)
        values, none = _plus(values, constant), _is_beyond(values, constant)
        low, high = axis.first(values), axis.end(values)
        high[none] = low[none]
        begin, end = group * axis.width, (group + 1) * axis.width
        yield _found(
            there, order, *(np.searchsorted(order.codes, codes) for codes in (begin, begin + low))
        )
        yield _found(
            there, order, *(np.searchsorted(order.codes, codes) for codes in (begin + high, end))
        )

    def _blocks_of(self, level: int, lead: int, second: int) -> Order:
        """Return rows in blocks of 2^level rows in a column's order, each in another's order."""
        if level == len(self._tree):
            rows, axis = self._order(lead).rows, self._axes[second]
            blocks = np.arange(len(rows)) >> level
            self._tree.append(
                self._ordered(blocks * axis.width + axis.first(self._columns[second][rows]), rows)
            )
        return self._tree[level]


def _blocks(start: np.ndarray, end: np.ndarray) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Cut slices into blocks of 2^level rows from multiples of 2^level on, at most two of a level
    in each slice.

    Yield the level, which slices have a block of it, and the number of that block, in the order of
    levels.

    >>> [(level, which.tolist(), block.tolist()) for level, which, block in _blocks(np.array([1]), np.array([7]))]
    [(0, [0], [1]), (0, [0], [6]), (1, [0], [1]), (1, [0], [2])]
    """
    level, start, end = 0, start.copy(), np.maximum(start, end)
    while (start < end).any():
        which = np.flatnonzero(start & (start < end) & 1)
        yield level, which, start[which]
        start[which] += 1
        which = np.flatnonzero(end & (start < end) & 1)
        end[which] -= 1
        yield level, which, end[which]
        start, end, level = start >> 1, end >> 1, level + 1


def _found(which: np.ndarray, order: Order, start: np.ndarray, end: np.ndarray) -> Found:
    some = np.flatnonzero(start < end)
    return Found(which[some], order, start[some], (end - start)[some])


def _plus(values: np.ndarray, constant: int) -> np.ndarray:
    """Return values plus a constant, or the nearest word."""
    sums: np.ndarray = (
        np.clip(values, WORD_MIN - min(0, constant), WORD_MAX - max(0, constant)) + constant
    )
    return sums


def _is_beyond(values: np.ndarray, constant: int) -> np.ndarray:
    return (values < WORD_MIN - min(0, constant)) | (values > WORD_MAX - max(0, constant))
