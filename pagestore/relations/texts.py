"""Ranges of a relation that has texts in its key: records are stored by text ids, and read in the
order of the texts.

    key      ("bee", 2)  ("ape", 7)  ("ape", 3)        bounds are words, and bytes where the key has a text
    stored      (1, 2)      (2, 3)      (2, 7)         in the tree's order: "bee" got its id before "ape"
    read     ("ape", 3)  ("ape", 7)  ("bee", 2)        range(("ape", 5), ("bee",)) is the one with the 7

A range is contiguous in the tree if after the common prefix of its keys its bounds have only words.
Else a contiguous range around it is read and filtered by the bounds; or, if that is less work, the
dictionary lists the texts between two others, and each is looked up in the tree. The records read
are sorted by the labels of their texts. The order of texts is fetched at each read, so that a range
of a transaction includes texts added since.

Folds of records that were read: of a range that is not contiguous in a tree, or of columns that a
tree cannot fold.

min:item, max:item,price      texts are compared by their labels, which may change, so no tree stores such a scan
sum:price  in a range of texts      the records between two texts are scattered in the tree
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pagestore.pages.layout import WORD_MAX, WORD_MIN, Pages
from pagestore.pages.operators import fold_of
from pagestore.trees.read import count, get, read
from pagestore.trees.tree import Tree
from pagestore.values.codec import NULL
from pagestore.values.dictionary import Dictionary
from pagestore.values.scan_spec import ORDERED, ScanSpec
from pagestore.values.types import Schema

Bound = tuple[int | bytes, ...]  # a prefix of a key: words, and bytes for texts; () is unbounded
Words = tuple[int, ...]

# records that are read and sorted in the time of a look-up, and of a range
LOOK_UP, READ_ONE = 4, 500
# up to this many records are sorted in memory, without looking for a cheaper way
SORTED_AT_ONCE = 1 << 17


class NoText(int):
    """The word of a null among texts, which comes before every text.

    >>> NO_TEXT < b"", b"tea" > NO_TEXT, max(NO_TEXT, b"tea"), NO_TEXT == NULL
    (True, True, b'tea', True)
    """

    def __lt__(self, other: object) -> bool:
        return isinstance(other, bytes) or super().__lt__(other)  # type: ignore[operator]

    def __le__(self, other: object) -> bool:
        return isinstance(other, bytes) or super().__le__(other)  # type: ignore[operator]

    def __gt__(self, other: object) -> bool:
        return not isinstance(other, bytes) and super().__gt__(other)  # type: ignore[operator]

    def __ge__(self, other: object) -> bool:
        return not isinstance(other, bytes) and super().__ge__(other)  # type: ignore[operator]


NO_TEXT = NoText(NULL)


def end_of(prefix: Bound) -> Bound:
    """Return the bound after all keys that begin with a prefix; () if that is the end.

    >>> end_of((7, b"tea")), end_of((7, 2**63 - 1)), end_of((NO_TEXT,)), end_of(())
    ((7, b'tea\\x00'), (8,), (b'',), ())
    """
    while prefix and prefix[-1] == WORD_MAX:
        prefix = prefix[:-1]
    return (*prefix[:-1], _next(prefix[-1])) if prefix else ()


def _next(value: int | bytes) -> int | bytes:
    if isinstance(value, bytes):
        return value + b"\0"
    return b"" if value is NO_TEXT else value + 1


class Part(NamedTuple):
    """A range: the words that all its keys begin with, and the bounds of the columns after these.

    An unknown text among the words is 0, which no record holds.
    """

    group: Words
    low: Bound
    high: Bound

    @property
    def plain(self) -> bool:
        """Whether it is contiguous in the tree."""
        return not any(isinstance(value, bytes) for value in self.low + self.high)


NOTHING = Part((), (WORD_MIN,), (WORD_MIN,))  # no key is below a bound of itself


class TextRange:
    """The records between two bounds in one tree, in the order of their values."""

    def __init__(
        self,
        pages: Pages,
        tree: Tree,
        dictionary: Dictionary,
        texts: tuple[int, ...],
        lo: Bound,
        hi: Bound,
        threads: int = 1,
    ):
        self._pages, self._tree, self._dictionary, self._threads = pages, tree, dictionary, threads
        self._texts, self._lo, self._hi = texts, lo, hi

    def part(self) -> Part:
        """Split the bounds into the common prefix of all keys, as words, and the rest."""
        lo, hi, n = self._lo, self._hi, 0
        if hi and lo >= hi:
            return NOTHING
        group: list[int] = []
        while n < min(len(lo), len(hi)):
            if lo[n] != hi[n] and hi[n:] != end_of(lo[n : n + 1]):
                break
            value = lo[n]
            group.append(int(value) if isinstance(value, int) else self._dictionary.id_of(value))
            n += 1
            if lo[n - 1] != hi[n - 1]:
                return Part(tuple(group), lo[n:], ())
        return Part(tuple(group), lo[n:], hi[n:])

    def stored(self) -> tuple[Words, Words] | None:
        """Return the key bounds of the range, if it is contiguous in the tree; else None."""
        part = self.part()
        return _piece(part.group, part.low, part.high) if part.plain else None

    def __len__(self) -> int:
        """Return the number of records. O(its leaves); if not contiguous in the tree, as `read`."""
        stored = self.stored()
        return count(self._pages, self._tree, *stored) if stored else self.read().shape[1]

    def read(self) -> np.ndarray:
        """Return all records in order, int64[C, n]."""
        part = self.part()
        ids = None if part.plain else self._few(part)
        if ids is None:
            return self.sorted(self._around(part))
        rows = self._asked(part.group, ids)
        if max(len(part.low), len(part.high)) < 2 and self._whole(part):
            return rows
        return self.sorted(self._between(rows))

    def batches(self, rows: int, backward: bool = False) -> Iterator[np.ndarray]:
        """Yield the records in order, or `backward` from the last to the first, in batches int64[C,
        <= rows].

        If the text is the last column of the key, memory is bounded for any number of records.
        """
        for words in self._stretches(rows, backward):
            yield from _cut(words[:, ::-1] if backward else words, rows)

    def _stretches(self, rows: int, backward: bool) -> Iterator[np.ndarray]:
        """Yield the records in chunks, each in order, the last chunk first if `backward`."""
        part = self.part()
        keys = self._tree.spec.keys
        chunk = max(64, rows)
        if (
            self._tree.count > SORTED_AT_ONCE
            and len(part.group) in self._texts
            and part is not NOTHING
        ):
            start, stop = self._ranks(part)
            few = rows < 1024 or len(part.group) + 1 == keys
            if few and (stop - start) <= LOOK_UP * self._tree.count:
                for ids in self._ids(part, chunk, backward):
                    yield self.sorted(self._between(self._asked(part.group, ids)))
                return
        yield self.read()

    def _ids(self, part: Part, chunk: int, backward: bool) -> Iterator[np.ndarray]:
        """Yield the ids of the texts after a part's words, in order and in chunks, the last chunk
        first if `backward`.

        A text that is added meanwhile changes the ranks of those after it.
        """
        order = self._dictionary.order
        start, stop = self._ranks(part)
        null = self._null(part)
        if len(null) and not backward:
            yield null
        while start < stop:
            low, high = (
                (max(start, stop - chunk), stop) if backward else (start, min(stop, start + chunk))
            )
            ids = order.slice(low, high)
            yield ids
            start, stop = (start, low) if backward else (high, stop)
            if self._dictionary.order is not order:
                order, ranks = self._dictionary.order, self._ranks(part)
                (seen,) = self._dictionary.loaded(ids[:1] if backward else ids[-1:])
                start, stop = (
                    (ranks[0], order.rank(seen))
                    if backward
                    else (order.rank(seen + b"\0"), ranks[1])
                )
        if len(null) and backward:
            yield null

    def sorted(self, rows: np.ndarray) -> np.ndarray:
        """Sort stored words int64[C, n], which are in tree order, by their values."""
        last = self._texts[-1] + 1
        if rows.shape[1] < 2 or (rows[:last, 0] == rows[:last, -1]).all():
            return rows  # one text each
        order = self.order_of(rows)
        return rows.take(order, axis=1)

    def order_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the places int64[n] that sort stored words int64[C, n], which are in tree
        order, by their values.
        """
        columns = [self._comparable(rows, place) for place in range(self._texts[-1] + 1)]
        if len(columns) > 1:
            return np.lexsort(columns[::-1])
        if (columns[0][1:] >= columns[0][:-1]).all():
            return np.arange(rows.shape[1])
        return np.argsort(columns[0], kind="stable")

    def inside(self, rows: np.ndarray) -> np.ndarray:
        """Return which keys int64[K, n] lie between the bounds, bool[n]."""
        low, high = np.ones(rows.shape[1], bool), np.zeros(rows.shape[1], bool)
        for place in reversed(range(len(self._lo))):
            equal, below = self._compared(rows, place, self._lo[place])
            low = ~(equal | below) | (equal & low)
        for place in reversed(range(len(self._hi))):
            equal, below = self._compared(rows, place, self._hi[place])
            high = below | (equal & high)
        return low & high if self._hi else low

    def _comparable(self, rows: np.ndarray, place: int) -> np.ndarray:
        """Return words int64[n] that order as the values of a column do."""
        return self._dictionary.order.keys(rows[place]) if place in self._texts else rows[place]

    def _compared(
        self, rows: np.ndarray, place: int, value: int | bytes
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return which values of a column are equal to a value, and which are below it."""
        if isinstance(value, int):
            return rows[place] == value, rows[place] < value
        below = self._comparable(rows, place) < self._dictionary.order.threshold(value)
        return rows[place] == (self._dictionary.id_of(value) or -1), below

    def _few(self, part: Part) -> np.ndarray | None:
        """Return the ids, in order, of the texts after a part's words; None if it does not pay."""
        n = len(part.group)
        if n not in self._texts:
            return None
        start, stop = self._ranks(part)
        if n:
            most = count(self._pages, self._tree, part.group, end_words(part.group))
        else:
            most = self._tree.count
        if (stop - start) * (LOOK_UP if self._whole(part) else READ_ONE) >= most:
            return None
        return np.concatenate([self._null(part), self._dictionary.order.slice(start, stop)])

    @staticmethod
    def _null(part: Part) -> np.ndarray:
        """The word of a null, which is before all texts, unless a part begins with one."""
        return np.array([] if part.low and isinstance(part.low[0], bytes) else [NULL], np.int64)

    def _around(self, part: Part) -> np.ndarray:
        """Return the records of a part, in tree order, from a contiguous range around it."""
        if part.plain:
            return read(self._pages, self._tree, *_piece(part.group, part.low, part.high))
        low, high = _words_before(part.low), _words_before(part.high)
        around = _piece(
            part.group,
            low,
            high if len(high) == len(part.high) else end_words(high) if high else (),
        )
        return self._between(read(self._pages, self._tree, *around))

    def _whole(self, part: Part) -> bool:
        """Return whether a part's words and one more value are a key."""
        return len(part.group) + 1 == self._tree.spec.keys

    def _between(self, rows: np.ndarray) -> np.ndarray:
        inside = self.inside(rows)
        return rows if inside.all() else rows[:, inside]

    def _ranks(self, part: Part) -> tuple[int, int]:
        """Return the ranks of the first text after a part's words, and of the end."""
        order = self._dictionary.order
        start = order.rank(part.low[0]) if part.low and isinstance(part.low[0], bytes) else 0
        if not part.high or not isinstance(part.high[0], bytes):
            return start, order.count
        return start, order.rank(part.high[0] + b"\0" if len(part.high) > 1 else part.high[0])

    def _asked(self, group: Words, ids: np.ndarray) -> np.ndarray:
        """Return the records whose keys begin with some words and an id, in the ids' order."""
        tree = self._tree
        if len(group) + 1 == tree.spec.keys:
            keys = np.concatenate(
                [np.repeat(np.array(group, np.int64)[:, None], len(ids), axis=1), ids[None]]
            )
            found, values = get(self._pages, tree, keys, self._threads)
            return np.concatenate([keys, values])[:, found]
        parts = [read(self._pages, tree, (*group, id_), (*group, id_ + 1)) for id_ in ids.tolist()]
        return np.concatenate([np.empty((tree.spec.columns, 0), np.int64), *parts], axis=1)


def end_words(prefix: Words) -> Words:
    """Return the words that follow all keys which begin with a prefix of words; see `end_of`."""
    return tuple(value for value in end_of(prefix) if isinstance(value, int))


def _words_before(bound: Bound) -> Words:
    """Return a bound up to its first text."""
    n = next((i for i, value in enumerate(bound) if isinstance(value, bytes)), len(bound))
    return tuple(int(value) for value in bound[:n] if isinstance(value, int))


def _piece(group: Words, low: Bound, high: Bound) -> tuple[Words, Words]:
    """Return the bounds of the keys with a prefix whose next words lie between two bounds."""
    below = tuple(int(value) for value in low if isinstance(value, int))
    above = tuple(int(value) for value in high if isinstance(value, int))
    return group + below, group + above if above else end_words(group)


def _cut(words: np.ndarray, rows: int) -> Iterator[np.ndarray]:
    for at in range(0, words.shape[1], rows):
        yield words[:, at : at + rows]


def fold_read(
    scan: ScanSpec, schema: Schema, dictionary: Dictionary, read: np.ndarray
) -> tuple[list[int], bool]:
    """Return the fold words of stored words int64[C, n], in their order, and whether there are
    any; skips nulls.
    """
    if scan.operator not in ("count", "checksum") or scan.columns:
        folded = (
            schema.stored.index(scan.columns[0]) if scan.operator == "count" else scan.rows[0][1]
        )
        if schema.stored[folded].type.nullable:
            read = read[:, read[folded] != NULL]
    if not read.shape[1]:
        return [0] * len(scan.rows), False
    if scan.operator in ORDERED:
        return _extreme(scan, schema, dictionary, read), True
    return [*fold_of(scan.rows, 0, len(schema.key), read)], True


def _extreme(scan: ScanSpec, schema: Schema, dictionary: Dictionary, read: np.ndarray) -> list[int]:
    """Return the words of a min or max's columns, from the record that attains it."""
    places = [place for _, place in scan.rows]
    columns = [
        dictionary.order.keys(read[place]) if schema.stored[place].type.interned else read[place]
        for place in places
    ]
    order = np.lexsort(columns[::-1])
    words: list[int] = read[places, order[0 if scan.operator.endswith("min") else -1]].tolist()
    return words
