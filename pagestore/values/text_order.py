"""The order of a dictionary's texts: a text keeps its id for ever; a label, stored separately,
gives its position.

    text     "ape"  "bee"  "cow"          the rank of a text is how many texts are below it
    id         2      1      3            ids are given as texts are added; rows, indices and joins use only these
    label     100    200    300           labels ascend as the bytes of texts do; they may change, ids do not

`ORDER` finds the text at a rank or after a label: record (label) -> id, with counts. `LABELS` finds
the label: record (id) -> label. Both are trees of the store's own lineage, and each version has
those of its commit. Labels are only compared within one version, so that a label that changes
(dictionary_writer.py) affects no row of any relation.

A version that was made before labels were kept has neither tree; its order is found by sorting its
texts.

Find, compare and copy texts by kernels, in one version of a dictionary's trees.

A method returns None when it meets a long text, which is not stored in records; then the dictionary
uses no kernel.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

import numpy as np

from pagestore.pages.layout import WORD_MIN, Pages
from pagestore.pages.operators import COUNT
from pagestore.runtime.kernel import JIT, TypedKernel
from pagestore.runtime.lazy import pyarrow as pa
from pagestore.sorting.tuples import FEW, sort_order
from pagestore.trees.folds import RangeFold, Rows, select
from pagestore.trees.folds import ranks as ranks_in
from pagestore.trees.read import RecordFinder, get, lookup_order, packed_tree, read, read_batches
from pagestore.trees.tree import Spec, Tree, checked
from pagestore.values.kernels import text_hash, text_lookup, text_sort
from pagestore.values.kernels.text_lookup import LONG as LONG
from pagestore.values.kernels.text_lookup import UNREADABLE
from pagestore.values.kernels.text_sort import STEP
from pagestore.values.types import of_numbers

HASH = TypedKernel(text_hash.hash_texts)
FIND = TypedKernel(text_lookup.find_text)
MATCH = TypedKernel(text_lookup.match_texts)
MEASURE = TypedKernel(text_lookup.measure_texts)
COPY = TypedKernel(text_lookup.copy_texts)
RANK = TypedKernel(text_lookup.rank_text)
WORDS_AT_BYTE = TypedKernel(text_sort.words_at_byte)
MERGE_RANKS = TypedKernel(text_sort.merge_ranks)


class PackedTexts(NamedTuple):
    """n texts in Arrow's layout: offsets int64[n + 1] into a buffer of bytes."""

    offsets: np.ndarray
    data: Any

    @classmethod
    def of(cls, texts: list[bytes] | pa.Array) -> PackedTexts:
        """Pack some texts."""
        if isinstance(texts, list):
            lengths = np.fromiter(map(len, texts), np.int64, len(texts))
            return cls(np.concatenate([[0], np.cumsum(lengths)]), pa.py_buffer(b"".join(texts)))
        array = texts.cast(pa.large_binary())
        _, offsets, data = array.buffers()
        start, end = array.offset, array.offset + len(array) + 1
        return cls(np.frombuffer(offsets, np.int64)[start:end].copy(), data or pa.py_buffer(b""))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def at(self, places: np.ndarray) -> PackedTexts:
        """Return the texts at places int64[m]. O(m + their bytes)."""
        array = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), len(self), [None, pa.py_buffer(self.offsets), self.data]
        )
        return PackedTexts.of(array.take(of_numbers(pa.int64(), places)))

    @property
    def size(self) -> int:
        """How many bytes the texts have together."""
        return int(self.offsets[-1] - self.offsets[0])

    @property
    def lengths(self) -> np.ndarray:
        """The length of each text in bytes, int64[n]."""
        lengths: np.ndarray = np.diff(self.offsets)
        return lengths

    def text(self, i: int) -> bytes:
        """One of the texts."""
        return memoryview(self.data)[self.offsets[i] : self.offsets[i + 1]].tobytes()


def hashes_of(texts: PackedTexts) -> np.ndarray:
    """Return the first places to look for texts, int64[n]: their 8-byte blake2b digests."""
    if not JIT:
        digests = [blake2b(texts.text(i), digest_size=8).digest() for i in range(len(texts))]
        return np.frombuffer(b"".join(digests), "<i8").astype(np.int64)
    out = np.empty(len(texts), np.int64)
    HASH.call(
        texts.offsets, texts.data.address, texts.data.size, np.empty(text_hash.ROOM, np.int64), out
    )
    return out


class TextSearch:
    """Search for texts in the trees of places and texts; arguments are packed once."""

    def __init__(self, pages: Pages, places: Tree, texts: Tree, symbols: np.ndarray) -> None:
        # keeps alive what the packed trees point to
        self.pages, self.places, self.texts, self.symbols = pages, places, texts, symbols
        behind = np.array([symbols.ctypes.data, len(symbols)])
        packed = packed_tree(pages, places)
        with_tables = np.concatenate([packed_tree(pages, texts), behind])
        self._packed = packed, with_tables
        self._places, self._texts = packed.ctypes.data, with_tables.ctypes.data

    def id_of(self, text: bytes) -> int | None:
        """Return the id of a text, 0 if there is none. O(log texts)."""
        if len(text) >= LONG or not JIT:
            return None
        id_ = FIND.call(self._places, self._texts, _ROOM.hold(text), len(text), _ROOM.address)
        return int(id_) if self._readable(id_) else None

    def match(self, ids: np.ndarray, texts: PackedTexts, some: np.ndarray) -> np.ndarray | None:
        """Return whether ids[i], which must exist, is the id of text i, for each i of some[m]:
        bool[m].

        O(m log texts).
        """
        same = np.zeros(len(texts), bool)
        order = some[lookup_order(ids[None, some])]
        buffer = texts.data
        status = MATCH.call(
            self._texts, ids, order, texts.offsets, buffer.address, buffer.size, same
        )
        return same[some] if self._readable(status) else None

    def load(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Load the texts of ids int64[n]: offsets int64[n + 1], bytes uint8[...].

        O(n log texts + bytes), less in order.
        """
        ids = np.ascontiguousarray(ids)  # a range that is read backward has ids in steps of -1
        places, offsets = np.empty((2, len(ids)), np.int64), np.zeros(len(ids) + 1, np.int64)
        status = MEASURE.call(self._texts, ids, places, offsets)
        if not self._readable(status):
            return None
        data = np.empty(offsets[-1], np.uint8)
        status = COPY.call(self._texts, ids, places, offsets, data)
        return (offsets, data) if self._readable(status) else None

    def rank(self, order: int, text: bytes, low: int, high: int) -> int | None:
        """Return how many texts are below a text, known to be `low` to `high`; `order` is a
        packed tree's address.
        """
        if len(text) >= LONG:
            return None
        place = RANK.call(order, self._texts, _ROOM.hold(text), len(text), low, high)
        return int(place) if self._readable(place) else None

    def _readable(self, status: int) -> bool:
        """Return whether a kernel succeeded; False at a long text. Raises CorruptionError."""
        return status >= 0 or (status != UNREADABLE and checked(status, self.texts.spec) >= 0)


class _Room(threading.local):
    """A thread's memory for kernels, at a fixed address: scratch, and a text."""

    def __init__(self) -> None:
        words = np.zeros(text_hash.ROOM + LONG // 8, np.int64)
        self.address = words.ctypes.data
        self._text = memoryview(words.view(np.uint8))[8 * text_hash.ROOM :]  # type: ignore[arg-type]

    def hold(self, text: bytes) -> int:
        """Copy a text that is not long into the room; return the address of its bytes."""
        self._text[: len(text)] = text
        return self.address + 8 * text_hash.ROOM


_ROOM = _Room()


ORDER = Spec(5, 1, 1, ((COUNT, 0),))
LABELS = Spec(6, 1, 1)
LABEL_END = 1 << 62  # above all labels, which are positive
COUNTS = Rows(0, 1)
DENSE = 4  # a range of ids is read, not looked up, if it has at most this many for each wanted id
# existing texts are read, not searched, if at most this many for each new text lie in their range
MERGED = 64
READ_AT_ONCE = 1 << 16  # of these
SORTED_BYTES = 4 * STEP  # of each text, by arrays
FAN = 16  # texts that each step of a search loads
PLACES_KEPT = 4096


class Texts(Protocol):
    """The dictionary whose texts are in order."""

    @property
    def search(self) -> TextSearch:
        """The search by kernels."""

    def loaded(self, ids: np.ndarray) -> list[bytes]:
        """The texts of ids int64[n]."""

    def texts(self, ids: np.ndarray, binary: bool = False) -> pa.Array:
        """The texts of ids int64[n], as an Arrow array."""

    def id_of(self, text: bytes) -> int:
        """The id of a text, 0 if there is none."""


class TextOrder:
    """The texts of one version in the order of their bytes."""

    def __init__(self, count: int, texts: Texts):
        self.count, self._dictionary = count, texts
        self._kept: dict[int, bytes] = {}  # texts by rank, with which every search begins

    def keys(self, ids: np.ndarray) -> np.ndarray:
        """Return words int64[n] that order as the texts of ids int64[n] do, nulls first; any
        word for an unknown id.
        """
        null = ids == WORD_MIN
        if not null.any():
            return self._keys(ids)
        keys = np.full(len(ids), -1)
        keys[~null] = self._keys(ids[~null])
        return keys

    def _keys(self, ids: np.ndarray) -> np.ndarray:
        """As `keys`, without nulls; no word is negative."""
        raise NotImplementedError

    def ids(self, ranks: np.ndarray) -> np.ndarray:
        """Return the ids int64[n] of the texts at ranks int64[n]."""
        raise NotImplementedError

    def ids_of(self, keys: np.ndarray) -> np.ndarray:
        """Return the ids int64[n] of the texts with keys int64[n], as `keys` returns them."""
        raise NotImplementedError

    def slice(self, start: int, stop: int) -> np.ndarray:
        """Return the ids of the texts from one rank up to another, in order."""
        raise NotImplementedError

    def threshold(self, text: bytes) -> int:
        """Return the word such that exactly the lesser texts have keys below it. O(log texts)."""
        known = self._key_of(self._dictionary.id_of(text))
        if known is not None:
            return known
        rank = self.rank(text)
        return LABEL_END if rank == self.count else int(self.keys(self.ids(np.array([rank])))[0])

    def rank(self, text: bytes) -> int:
        """Return how many texts are below a text, which need not exist. O(log texts)."""
        known = self._key_of(self._dictionary.id_of(text))
        return self._rank_of(known) if known is not None else self._search(text, 0, self.count)

    def ranks(self, texts: PackedTexts) -> np.ndarray:
        """As `rank`, int64[n] for ascending texts.

        O(n log texts), or less if few texts lie between the first and the last.
        """
        ranks = np.zeros(len(texts), np.int64)
        if not self.count or not len(texts):
            return ranks
        first = self.rank(texts.text(0))
        last = self.rank(texts.text(len(texts) - 1)) if len(texts) > 1 else first
        if last - first <= MERGED * len(texts):
            return self._merged(first, last, texts)
        for place in range(len(texts)):
            first = ranks[place] = self._search(texts.text(place), first, last)
        return ranks

    def _merged(self, first: int, last: int, texts: PackedTexts) -> np.ndarray:
        """As `ranks`, of texts that are known to be `first` to `last`. O(texts between)."""
        ranks, left = np.full(len(texts), first), texts
        for low in range(first, last, READ_AT_ONCE):
            ids = self.slice(low, min(low + READ_AT_ONCE, last))
            between = PackedTexts.of(self._dictionary.texts(ids, binary=True))
            below = merged_ranks(between, left)
            ranks[len(texts) - len(left) :] += below
            left = PackedTexts(left.offsets[int((below < len(ids)).sum()) :], left.data)
        return ranks

    def _search(self, text: bytes, low: int, high: int) -> int:
        """Return how many texts are below a text, known to be `low` to `high`. O(log texts)."""
        while low < high:
            step = max(1, (high - low) // FAN)
            ranks = np.arange(low + step - 1, high, step)
            at = bisect_left(self._at(ranks), text)
            low = int(ranks[at - 1]) + 1 if at else low
            high = int(ranks[at]) if at < len(ranks) else high
        return low

    def _key_of(self, id_: int) -> int | None:
        """Return the key of an id, None if it has none."""
        raise NotImplementedError

    def _rank_of(self, key: int) -> int:
        """Return how many texts have lesser keys."""
        raise NotImplementedError

    def _at(self, ranks: np.ndarray) -> list[bytes]:
        """Return the texts at some ranks."""
        places = ranks.tolist()
        missing = [rank for rank in places if rank not in self._kept]
        if missing:
            if len(self._kept) > PLACES_KEPT:
                self._kept.clear()
                missing = places
            texts = self._dictionary.loaded(self.ids(np.array(missing)))
            self._kept.update((rank, text) for rank, text in zip(missing, texts, strict=True))
        return [self._kept[rank] for rank in places]


def ranked(texts: PackedTexts) -> np.ndarray:
    """Return the places of distinct texts in the order of their bytes, int64[n].

    Sorts by STEP bytes at a time those that have the same bytes before; Python those that have many.

    >>> ranked(PackedTexts.of([b"bee", b"ape", b"be", b""])).tolist()
    [3, 1, 2, 0]
    """
    order, n = np.arange(len(texts)), len(texts)
    # places in `order` that may not be final, and numbers of the runs of equal beginnings there
    open_, run = np.arange(n if n > 1 else 0), np.zeros(n, np.int64)
    for at in range(0, SORTED_BYTES, STEP):
        if not len(open_):
            return order
        some = order[open_]
        words, left = np.empty((2, len(some)), np.int64)
        WORDS_AT_BYTE.call(
            texts.offsets, texts.data.address, texts.data.size, some, at, words, left
        )
        keys = np.stack([run, words, left])
        sorted_ = sort_order(keys)
        order[open_], keys = some[sorted_], keys[:, sorted_]
        starts = np.ones(len(some), bool)
        starts[1:] = (keys[:, 1:] != keys[:, :-1]).any(0)
        shared = ~(starts & np.append(starts[1:], True))
        open_, run = open_[shared], np.cumsum(starts)[shared]
    some = order[open_].tolist()
    held = [(number, texts.text(i), i) for number, i in zip(run.tolist(), some, strict=True)]
    order[open_] = [i for _, _, i in sorted(held)]
    return order


def merged_ranks(between: PackedTexts, texts: PackedTexts) -> np.ndarray:
    """Return how many of `between`, ascending, are below each of `texts`, ascending, int64[n].

    >>> known, new = PackedTexts.of([b"b", b"d"]), PackedTexts.of([b"a", b"c", b"d", b"e"])
    >>> merged_ranks(known, new).tolist()
    [0, 1, 1, 2]
    """
    ranks = np.empty(len(texts), np.int64)
    MERGE_RANKS.call(
        *(texts.offsets, texts.data.address, texts.data.size),
        *(between.offsets, between.data.address, between.data.size),
        ranks,
    )
    return ranks


class StoredOrder(TextOrder):
    """The order that is stored in a version's trees."""

    def __init__(self, pages: Callable[[], Pages], order: Tree, labels: Tree, texts: Texts):
        super().__init__(order.count, texts)
        self._pages, self._order, self._labels = pages, order, labels
        self._packed = packed_tree(pages(), order)
        self._finder, self._fold = RecordFinder(pages(), labels), RangeFold(pages(), order, COUNTS)

    def _keys(self, ids: np.ndarray) -> np.ndarray:
        """Return the labels int64[n] of ids int64[n]. O(n log texts), less for close ids."""
        if len(ids) > FEW:
            first, end = int(ids.min()), int(ids.max()) + 1
            if first > 0 and end - first <= DENSE * len(ids):
                near = read(self._pages(), self._labels, (first,), (end,))
                if near.shape[1] == end - first:
                    keys: np.ndarray = near[1, ids - first]
                    return keys
        labels: np.ndarray = get(self._pages(), self._labels, ids[None])[1][0]
        return labels

    def ids(self, ranks: np.ndarray) -> np.ndarray:
        """Return the ids int64[n] of the texts at ranks int64[n]. O(n log texts)."""
        id_words: np.ndarray = self.entries(ranks)[1]
        return id_words

    def ids_of(self, keys: np.ndarray) -> np.ndarray:
        """Return the ids int64[n] of the texts with labels int64[n]. O(n log texts)."""
        id_words: np.ndarray = get(self._pages(), self._order, keys[None])[1][0]
        return id_words

    def slice(self, start: int, stop: int) -> np.ndarray:
        """The ids of the texts from one rank up to another, in order. O(log texts + those)."""
        id_words: np.ndarray = self.between(start, stop)[1]
        return id_words

    def entries(self, ranks: np.ndarray) -> np.ndarray:
        """Return labels and ids int64[2, n] at ranks int64[n]. O(n log texts)."""
        return select(self._pages(), self._order, ranks)

    def between(self, start: int, stop: int) -> np.ndarray:
        """Labels and ids int64[2, n] of ranks from `start` up to `stop`. O(log texts + those)."""
        if start >= stop:
            return np.zeros((2, 0), np.int64)
        low = int(self.entries(np.array([start]))[0, 0])
        return next(read_batches(self._pages(), self._order, (low,), rows=stop - start))

    def _key_of(self, id_: int) -> int | None:
        values = self._finder.find((id_,)) if self.count else None
        return values[0] if values else None

    def _rank_of(self, key: int) -> int:
        return self._fold.fold((), (key,))[0][0]

    def _search(self, text: bytes, low: int, high: int) -> int:
        place = self._dictionary.search.rank(self._packed.ctypes.data, text, low, high)
        return super()._search(text, low, high) if place is None else place

    def labels_below(self, labels: np.ndarray) -> np.ndarray:
        """Return how many labels are below each of labels int64[n], int64[n]. O(n log texts)."""
        if not self.count:
            return np.zeros(len(labels), np.int64)
        return ranks_in(self._pages(), self._order, labels[None])


class SortedOrder(TextOrder):
    """The order of a version that stores none, by sorting its texts once. O(texts log texts)."""

    def __init__(self, ids: np.ndarray, texts: Texts):
        super().__init__(len(ids), texts)
        loaded = texts.loaded(ids)
        self._ids = ids[np.array(sorted(range(len(ids)), key=loaded.__getitem__), np.int64)]
        self._by_id = np.argsort(self._ids)

    def _keys(self, ids: np.ndarray) -> np.ndarray:
        """Return the ranks int64[n] of ids int64[n]."""
        places = np.searchsorted(self._ids, ids, sorter=self._by_id)
        ranks: np.ndarray = (
            self._by_id[np.minimum(places, self.count - 1)] if self.count else places
        )
        return ranks

    def ids(self, ranks: np.ndarray) -> np.ndarray:
        """Return the ids int64[n] of the texts at ranks int64[n]."""
        ids: np.ndarray = self._ids[ranks]
        return ids

    def ids_of(self, keys: np.ndarray) -> np.ndarray:
        """Return the ids int64[n] of the texts at ranks int64[n]."""
        return self.ids(keys)

    def slice(self, start: int, stop: int) -> np.ndarray:
        """Return the ids of the texts from one rank up to another, in order."""
        return self._ids[start:stop]

    def _key_of(self, id_: int) -> int | None:
        return int(self.keys(np.array([id_]))[0]) if id_ else None

    def _rank_of(self, key: int) -> int:
        return key
