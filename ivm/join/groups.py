"""Rows in columns by their keys: sums of equal keys, and the rows of one table that another's rows
look up.

    keys  3 7 7 5    values 1 4 2 9        summed      3: 1   5: 9   7: 6
    look up 7, 4, 3                        rows 1 and 2, none, row 0

Keys within a short range are addressed directly, others by hashes.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from math import expm1, prod
from typing import NamedTuple, TypeAlias

import numpy as np

from ivm.errors import RangeError
from ivm.join.kernels.numbers import find_numbers, number_tuples
from ivm.join.kernels.sums import add_by_code
from pagestore.compiled import TypedKernel
from pagestore.host import begins, sort_order

DENSE = 1 << 12  # the codes that rows may have in any case, so that their sums are in an array
# the most codes for each row, or each key that is sought, where more are addressed directly
SPARSE = 4
ALIKE_MAX = 16  # different key columns of one number
FEW = 1 << 16  # rows that are added up at once
SAMPLED = 1 << 13  # rows that tell whether half of all have keys of others, and hashes pay
FAR = 2**62  # sums below it fit 64 bits
TOO_MANY = "more than 2^62 bindings: a row would follow from more than 64 bits count"
ADD_BY_CODE = TypedKernel(add_by_code)
NUMBER_TUPLES = TypedKernel(number_tuples)
FIND_NUMBERS = TypedKernel(find_numbers)


Columns: TypeAlias = np.ndarray | Sequence[np.ndarray]


class Box(NamedTuple):
    """Where the values of K columns lie: column k is within spans[k] from low[k] on, so that each
    tuple of values has a code, a number below `size`.
    """

    low: list[int]
    spans: list[int]

    @classmethod
    def around(cls, parts: Sequence[Columns]) -> "Box":
        """Return the box of rows of one part or several, none of them empty: K columns each.

        O(n).
        """
        low, spans = list[int](), list[int]()
        for columns in zip(*parts, strict=True):
            low.append(min(int(column.min()) for column in columns))
            spans.append(max(int(column.max()) for column in columns) - low[-1] + 1)
        return cls(low, spans)

    @property
    def size(self) -> int:
        """How many codes are possible."""
        return prod(self.spans)

    def codes(self, columns: Columns) -> np.ndarray:
        """Return the code of each row, int64[n]; arbitrary for one that is outside."""
        codes = columns[0] - self.low[0] if self.low[0] or len(columns) > 1 else columns[0]
        for column, least, span in zip(columns[1:], self.low[1:], self.spans[1:], strict=True):
            codes *= span
            codes += column - least
        return codes

    def holds(self, columns: Columns) -> np.ndarray:
        """Return which rows are inside, bool[n]."""
        inside = np.ones(len(columns[0]), bool)
        for column, least, span in zip(columns, *self, strict=True):
            inside &= (column >= least) & (column <= least + span - 1)
        return inside

    def columns(self, codes: np.ndarray) -> list[np.ndarray]:
        """Return the columns whose `codes` these are."""
        columns, higher = list[np.ndarray](), codes
        for least, span in zip(self.low[::-1], self.spans[::-1], strict=True):
            higher, place = np.divmod(higher, span)
            columns.append(place + least)
        return columns[::-1]


class Groups:
    """Rows by the values of K columns, `keys`, each tuple of which has a code of their `box`."""

    def __init__(self, keys: Sequence[np.ndarray]) -> None:
        """Take columns int64[n], n > 0."""
        self.keys, self.box = keys, Box.around([keys])

    @cached_property
    def codes(self) -> np.ndarray:
        """The code of each row, int64[n]."""
        return self.box.codes(self.keys)

    @cached_property
    def counts(self) -> np.ndarray:
        """The number of rows with each code."""
        return np.bincount(self.codes)

    @cached_property
    def present(self) -> np.ndarray:
        """The codes that rows have."""
        return np.flatnonzero(self.counts)

    @cached_property
    def shown(self) -> list[np.ndarray]:
        """The columns of the codes that rows have."""
        return self.box.columns(self.present)


Known = dict[tuple[int, ...], Groups]  # of some rows, by the ids of the columns


def summed(
    columns: Columns, keys: int, sorting: bool = False, known: Known | None = None
) -> np.ndarray:
    """Add up the columns after the `keys` first of rows[C, n] where that halves the rows, at the
    least; others stay.

    Keys that are broadcast are the same in all rows; others within a short range are addressed
    directly, by groups that are `known`, if they are; of others, those that are adjacent are added,
    with `sorting` all.  Rows whose sums might exceed 64 bits stay as they are.  O(n), with
    `sorting` O(n log n).

    >>> summed(np.array([[7, 3, 7, 7], [10, 1, 20, 30]]), 1).tolist()
    [[3, 7], [1, 60]]
    """
    n, values = len(columns[0]), columns[keys:]
    most = [greatest(column) for column in values]
    if not n or n * max(most) >= FAR:
        return as_rows(columns)
    varying = [column for column in columns[:keys] if column.strides != (0,)]
    if not varying:
        totals = [int(np.add.reduce(column)) for column in values]
        return np.array([[word] for word in (*(int(key[0]) for key in columns[:keys]), *totals)])
    groups = groups_of(varying, known)
    if groups.box.size > max(DENSE, SPARSE * n if sorting else n // 2):
        return _adjacent(as_rows(columns), keys, sorting)
    counts, present, shown = groups.counts, groups.present, iter(groups.shown)
    table = [
        np.full(len(present), key[0]) if key.strides == (0,) else next(shown)
        for key in columns[:keys]
    ]
    for column in values:
        if is_same(column):
            sums = counts * int(column[0])
        else:
            sums = np.zeros(len(counts), np.int64)
            _add(groups.codes, column, sums)
        table.append(sums[present])
    return np.stack(table)


def added(parts: Sequence[np.ndarray], keys: int) -> np.ndarray | None:
    """Add up the values of all rows[C, n] of some parts with equal keys, in key order; None if
    few seem to be equal, or sums might exceed 64 bits.

    A key column that is one number in a part, as the place of parts of means, is not in the range
    of those that are addressed.  O(n).
    """
    alike = defaultdict[tuple[int | None, ...], list[np.ndarray]](list)
    for rows in parts:
        same = (int(k[0]) if k[0] == k[-1] and (k == k[0]).all() else None for k in rows[:keys])
        alike[*same].append(rows)
    sums = [_added(some, keys) for some in alike.values()] if len(alike) <= ALIKE_MAX else []
    known = [rows for rows in sums if rows is not None]
    if len(known) < len(alike):
        count = sum(rows.shape[1] for rows in parts)
        if count * max(greatest(rows[keys:]) for rows in parts) >= FAR:
            return None
        rows = _by_hashes(np.concatenate(parts, axis=1), keys)
        return rows.take(sort_order(rows[:keys]), axis=1) if rows.shape[1] < count else None
    return known[0] if len(known) == 1 else _adjacent(np.concatenate(known, axis=1), keys, True)


def _added(parts: Sequence[np.ndarray], keys: int) -> np.ndarray | None:
    """Add up parts as `added` does, whose key columns are in one range."""
    n = sum(rows.shape[1] for rows in parts)
    box = Box.around([rows[:keys] for rows in parts])
    if box.size > max(DENSE, n) or n * max(greatest(rows[keys:]) for rows in parts) >= FAR:
        return None
    there, sums = np.zeros(box.size, bool), np.zeros((len(parts[0]) - keys, box.size), np.int64)
    pieces = (part[:, at : at + FEW] for part in parts for at in range(0, part.shape[1], FEW))
    for rows in pieces:  # whose codes take little memory
        codes = box.codes(rows[:keys])
        there[codes] = True
        for values, total in zip(rows[keys:], sums, strict=True):
            _add(codes, values, total)
    present = np.flatnonzero(there)
    return np.stack([*box.columns(present), *sums.take(present, axis=1)])


def _add(codes: np.ndarray, values: np.ndarray, sums: np.ndarray) -> None:
    """Add the values of rows to the sums of their codes."""
    ADD_BY_CODE.call(np.ascontiguousarray(codes), np.ascontiguousarray(values), sums)


def groups_of(keys: Columns, known: Known | None) -> Groups:
    """Return the groups of rows by some columns: those that are `known`, if they are."""
    if known is None:
        return Groups([*keys])
    ids = tuple(map(id, keys))
    if ids not in known:
        known[ids] = Groups([*keys])
    return known[ids]


def _adjacent(rows: np.ndarray, keys: int, sorting: bool) -> np.ndarray:
    """Add up neighbours with the same key, as `summed` does."""
    if sorting:
        rows = _by_hashes(rows, keys)
        rows = rows.take(sort_order(rows[:keys]), axis=1)
    starts = np.flatnonzero(begins(rows[:keys]))
    if 2 * len(starts) > rows.shape[1] and not sorting:
        return rows
    return np.concatenate([rows[:keys, starts], np.add.reduceat(rows[keys:], starts, axis=1)])


def _by_hashes(rows: np.ndarray, keys: int) -> np.ndarray:
    """Add up rows with equal keys, if many seem to have some; the result is in no order.  O(n)."""
    n = rows.shape[1]
    some = rows[:keys, :: max(1, n // SAMPLED)]
    # of n / 2 keys, in two rows each, so many are expected to be among some rows
    if not keys or not n or len(Numbers(some).firsts) > -expm1(-2 * some.shape[1] / n) * n / 2:
        return rows
    known = Numbers(rows[:keys])
    sums = np.zeros((len(rows) - keys, len(known.firsts)), np.int64)
    for values, total in zip(rows[keys:], sums, strict=True):
        _add(known.numbers, values, total)
    return np.concatenate([rows[:keys].take(known.firsts, axis=1), sums])


def as_rows(columns: Columns) -> np.ndarray:
    """Return columns int64[n] as rows int64[C, n]."""
    return columns if isinstance(columns, np.ndarray) else np.stack(columns)


def is_same(column: np.ndarray) -> bool:
    """Return whether a column, not empty, is one number that is broadcast, or has 1 in each row."""
    return column.strides == (0,) or bool(column[0] == 1 and (column == 1).all())


def greatest(words: np.ndarray) -> int:
    """Return the greatest absolute value of words int64[n]; 0 if there are none."""
    words = words[:1] if words.strides == (0,) else words
    return max(int(words.max(initial=0)), -int(words.min(initial=0)))


def refuse_overflow(times: np.ndarray, by: int) -> None:
    """Raise RangeError if counts of bindings, each multiplied by `by`, may exceed 2^62."""
    if float(times.max(initial=0)) * by >= FAR:
        raise RangeError(TOO_MANY)


class Matches(NamedTuple):
    """For each of n keys, the number of rows with that key and the first of them, both int64[n]."""

    times: np.ndarray
    start: np.ndarray

    def pairs(self, many: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the numbers of keys and of rows that they match, about `many` pairs at a time."""
        ends = np.cumsum(self.times)
        total, begin = int(ends[-1]) if len(ends) else 0, 0
        cuts = np.searchsorted(ends, np.arange(many, total, many)) + 1
        for end in [*np.unique(cuts).tolist(), len(ends)]:
            count = self.times[begin:end]
            which = np.repeat(np.arange(begin, end), count)
            before = np.repeat(np.cumsum(count) - count, count)
            yield which, np.repeat(self.start[begin:end], count) + np.arange(len(which)) - before
            begin = end


class Numbers:
    """The numbers of the tuples of columns[K, n], K >= 1: int64[n], equal for equal tuples, in the
    order in which they are met; and `firsts`, the first row of each.  O(n).
    """

    def __init__(self, columns: np.ndarray) -> None:
        n = columns.shape[1]
        self._columns = np.ascontiguousarray(columns)
        self.numbers, firsts = np.empty((2, n), np.int64)
        self._table = np.zeros(1 << (2 * n).bit_length(), np.int64)
        count = NUMBER_TUPLES.call(self._columns, self._table, self.numbers, firsts)
        self.firsts = firsts[:count].copy()

    def find(self, sought: Sequence[np.ndarray]) -> np.ndarray:
        """Return the numbers of other tuples, K arrays int64[m], -1 for one without.  O(m)."""
        tuples, found = np.ascontiguousarray(sought), np.empty(len(sought[0]), np.int64)
        FIND_NUMBERS.call(self._columns, self._table, self.firsts, tuples, found)
        return found


class Ascending:
    """As `Numbers`, of one column int64[n] that ascends: its keys are found by bisection, which is
    less than a table of hashes where those that are sought ascend, too.
    """

    def __init__(self, column: np.ndarray) -> None:
        starts = begins(column[None])
        self.numbers = np.cumsum(starts) - 1
        self._distinct = column[starts]

    def find(self, sought: Sequence[np.ndarray]) -> np.ndarray:
        """Return the numbers of other keys, one array int64[m], -1 for one that has none."""
        places = np.searchsorted(self._distinct, sought[0])
        places[places == len(self._distinct)] = 0
        return np.where(self._distinct[places] == sought[0], places, -1)


class Lookup:
    """Finds the rows of a table by a key of one column or several; `order` puts rows of one key
    next to each other, in order of keys if these are within a short range.
    """

    def __init__(self, keys: np.ndarray) -> None:
        """Take keys int64[K, n], in any order, K >= 1.  O(n log n)."""
        n = keys.shape[1]
        self._box = Box.around([keys]) if n else Box([0] * len(keys), [0] * len(keys))
        self._hashed: Ascending | Numbers | None = None
        if self._box.size > max(DENSE, SPARSE * n):
            ascends = len(keys) == 1 and bool((keys[0, 1:] >= keys[0, :-1]).all())
            self._hashed = Ascending(keys[0]) if ascends else Numbers(keys)
        codes = self._hashed.numbers if self._hashed else self._box.codes(keys)
        self.order = np.arange(n) if (codes[1:] >= codes[:-1]).all() else sort_order(codes[None])
        self._start = np.flatnonzero(begins(codes[self.order][None]))
        self._count, self.unique = np.diff(self._start, append=n), len(self._start) == n
        self._keys, self._place = keys, np.empty(0, np.int64)

    @property
    def share(self) -> float:
        """Estimate the share of keys that are found: the keys that exist of those that could."""
        return len(self._start) / max(1, self._box.size)

    def find(self, keys: Sequence[np.ndarray]) -> Matches:
        """Return the rows, in `order`, with each of some keys, K arrays int64[n].  O(n)."""
        if not len(self._start):
            return Matches(np.zeros(len(keys[0]), np.int64), np.zeros(len(keys[0]), np.int64))
        places = self._places(keys)
        return Matches(np.where(places >= 0, self._count[places], 0), self._start[places])

    def one_of(self, keys: Sequence[np.ndarray]) -> tuple[np.ndarray | None, np.ndarray]:
        """Return which of some keys exist, None for all, and the row, in `order`, of each of these;
        rows are `unique`.  O(n).
        """
        if not len(self._start):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        places = self._places(keys)
        which = np.flatnonzero(places >= 0)
        return (None, places) if len(which) == len(places) else (which, places.take(which))

    def _places(self, keys: Sequence[np.ndarray]) -> np.ndarray:
        """Return the number of each key among the distinct ones, -1 where it is none of them."""
        if self._hashed and self._box.size > SPARSE * len(keys[0]):
            return self._hashed.find(keys)
        if not len(self._place):  # the number of each code, and -1 at the end
            self._place = np.full(self._box.size + 1, -1)
            firsts = self._keys.take(self.order[self._start], axis=1)
            self._place[self._box.codes(firsts)] = np.arange(len(self._start))
        codes = self._box.codes(keys)
        if len(keys) > 1:
            return self._place.take(np.where(self._box.holds(keys), codes, self._box.size))
        # what is out of range exceeds all codes, as a word without a sign
        codes = np.minimum(codes.view(np.uint64), np.uint64(self._box.size))
        return self._place.take(codes.view(np.int64))
