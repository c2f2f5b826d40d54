"""Rows in columns by their keys: sums of equal keys, and the rows of one table that another's rows look up.

    keys  3 7 7 5    values 1 4 2 9        summed      3: 1   5: 9   7: 6
    look up 7, 4, 3                        rows 1 and 2, none, row 0

Keys within a short range are addressed directly; others are sorted.
"""

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from pagestore.host import begins, sort_order

DENSE = 1 << 12  # the codes that rows may have in any case, so that their sums are in an array
SPARSE = 4  # the most codes for each row, where more are addressed directly
FAR = 2.0**62  # sums below it fit 64 bits, also where they are estimated as floats
EXACT = 1 << 52  # floats hold whole numbers up to here, and more
SHORT = (1 << 22) - 1  # the lowest bits of a word; 2^31 of them add up to an exact float


def summed(rows: np.ndarray, keys: int, sorting: bool = False) -> np.ndarray:
    """Add up the value columns of rows[C, n] where that halves their number, at the least; the others stay.

    Keys within a short range are addressed directly; of others, those that are adjacent are added, with `sorting` all.
    Rows whose sums might exceed 64 bits stay as they are.  O(n), with `sorting` O(n log n).

    >>> summed(np.array([[7, 3, 7, 7], [10, 1, 20, 30]]), 1).tolist()
    [[3, 7], [1, 60]]
    """
    n = rows.shape[1]
    values = rows[keys:]
    if not n or n * max(int(values.max()), -int(values.min())) >= FAR:
        return rows
    if not keys:
        return np.add.reduce(rows, axis=1, keepdims=True)
    low = rows[:keys].min(axis=1).tolist()
    spans = [high - least + 1 for least, high in zip(low, rows[:keys].max(axis=1).tolist(), strict=True)]
    if prod(spans) > max(DENSE, SPARSE * n if sorting else n // 2):
        if sorting:
            rows = rows.take(sort_order(rows[:keys]), axis=1)
        starts = np.flatnonzero(begins(rows[:keys]))
        if 2 * len(starts) > n and not sorting:
            return rows
        return np.concatenate([rows[:keys, starts], np.add.reduceat(rows[keys:], starts, axis=1)])
    codes = _codes(rows[:keys], low, spans)
    counts = np.bincount(codes)
    there = np.flatnonzero(counts)
    sums = [counts[there] if (column == 1).all() else _sums(codes, column)[there] for column in rows[keys:]]
    columns = []
    for least, span in zip(low[::-1], spans[::-1], strict=True):
        there, rest = np.divmod(there, span)
        columns.append(rest + least)
    return np.stack([*columns[::-1], *sums])


def _codes(columns: np.ndarray | Sequence[np.ndarray], low: Sequence[int], spans: Sequence[int]) -> np.ndarray:
    """Return one number for each tuple of columns, whose values are from low[k] to below low[k] + spans[k]."""
    codes = columns[0] - low[0]
    for column, least, span in zip(columns[1:], low[1:], spans[1:], strict=True):
        codes *= span
        codes += column - least
    return codes


def _sums(codes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the sum of values int64[n] for each code, n < 2^31, by adding floats, none of which is rounded."""
    if int(np.abs(values).max()) < EXACT // len(values):
        sums: np.ndarray = np.bincount(codes, values).astype(np.int64)
        return sums
    parts = values & SHORT, (values >> 22) & SHORT, values >> 44
    low, middle, high = (np.bincount(codes, part).astype(np.int64) for part in parts)
    total: np.ndarray = low + (middle << 22) + (high << 44)
    return total


class Matches(NamedTuple):
    """For each of n keys, the number of rows with that key and the first of them, both int64[n]."""

    times: np.ndarray
    start: np.ndarray


class Lookup:
    """Finds the rows of a table by a key of one column or several; `order` puts the table's rows in key order."""

    def __init__(self, keys: np.ndarray) -> None:
        """Take keys int64[K, n], in any order, K >= 1.  O(n log n)."""
        n = keys.shape[1]
        self._ranked = list[np.ndarray]()
        self._low, self._spans = [0] * len(keys), [0] * len(keys)
        if n:
            self._low = keys.min(axis=1).tolist()
            self._spans = [top - low + 1 for low, top in zip(self._low, keys.max(axis=1).tolist(), strict=True)]
        self._dense = prod(self._spans) <= max(DENSE, SPARSE * n)
        if prod(self._spans) >= FAR:  # ranks of values are nearer to each other than values
            self._ranked = [np.unique(column) for column in keys]
            keys = np.stack([np.searchsorted(known, column) for known, column in zip(self._ranked, keys, strict=True)])
            self._low, self._spans = [0] * len(keys), [len(known) for known in self._ranked]
        codes = _codes(keys, self._low, self._spans)
        self.order = np.arange(n) if (codes[1:] >= codes[:-1]).all() else sort_order(codes[None])
        sorted_ = codes[self.order]
        starts = np.flatnonzero(begins(sorted_[None]))
        self._codes, self._start = sorted_[starts], starts
        self._count = np.diff(starts, append=n)
        self.unique = len(starts) == n
        if self._dense:
            self._place = np.full(prod(self._spans) + 1, -1)
            self._place[self._codes] = np.arange(len(starts))

    @property
    def share(self) -> float:
        """Estimate the share of keys that are found: the keys that exist of those that could."""
        return len(self._codes) / max(1, prod(self._spans))

    def find(self, keys: Sequence[np.ndarray]) -> Matches:
        """Return the rows, in `order`, with each of some keys, K arrays int64[n].  O(n), sparse keys O(n log size)."""
        codes, inside = np.zeros(len(keys[0]), np.int64), np.ones(len(keys[0]), bool)
        for k, column in enumerate(keys):
            if self._ranked:
                known = self._ranked[k]
                places = np.searchsorted(known, column)
                here = known[np.minimum(places, len(known) - 1)] == column
            else:
                here = (column >= self._low[k]) & (column <= self._low[k] + self._spans[k] - 1)
                places = column - self._low[k]
            inside &= here
            codes = codes * self._spans[k] + places if k else places
        codes = np.where(inside, codes, len(self._place) - 1 if self._dense else -1)
        if self._dense:
            found = self._place.take(codes)
        else:
            found = np.searchsorted(self._codes, codes)
            there = found < len(self._codes)
            there[there] = self._codes[found[there]] == codes[there]
            found = np.where(there, found, -1)
        if not len(self._codes):
            return Matches(np.zeros(len(codes), np.int64), np.zeros(len(codes), np.int64))
        return Matches(np.where(found >= 0, self._count[found], 0), self._start[found])
