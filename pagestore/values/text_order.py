"""The order of a dictionary's texts: a text keeps its id for ever; a label, stored separately, gives its position.

    text     "ape"  "bee"  "cow"          the rank of a text is how many texts are below it
    id         2      1      3            ids are given as texts are added; rows, indices and joins use only these
    label     100    200    300           labels ascend as the bytes of texts do; they may change, ids do not

`ORDER` finds the text at a rank or after a label: record (label) -> id, with counts. `LABELS` finds the label: record
(id) -> label. Both are trees of the store's own lineage, and each version has those of its commit. Labels are only
compared within one version, so that a label that changes (text_labels.py) affects no row of any relation.

A version that was made before labels were kept has neither tree; its order is found by sorting its texts.
"""

from bisect import bisect_left
from collections.abc import Callable
from typing import Protocol

import numpy as np

from pagestore.pages.fold_operators import COUNT
from pagestore.pages.page_map import Pages
from pagestore.sorting.tuples import FEW
from pagestore.trees.lookup import RecordFinder, get, packed_tree
from pagestore.trees.range_folds import RangeFold, Rows, select
from pagestore.trees.range_folds import ranks as ranks_in
from pagestore.trees.reading import read, read_batches
from pagestore.trees.tree import Spec, Tree
from pagestore.values.text_search import TextSearch

ORDER = Spec(5, 1, 1, ((COUNT, 0),))
LABELS = Spec(6, 1, 1)
LABEL_END = 1 << 62  # above all labels, which are positive
COUNTS = Rows(0, 1)
DENSE = 4  # a range of ids is read, not looked up, if it has at most this many for each wanted id
MERGED = 4  # existing texts are read, not searched, if at most this many for each new text lie in their range
FAN = 16  # texts that each step of a search loads
PLACES_KEPT = 4096


class Texts(Protocol):
    """The dictionary whose texts are in order."""

    @property
    def search(self) -> TextSearch:
        """The search by kernels."""

    def loaded(self, ids: np.ndarray) -> list[bytes]:
        """The texts of ids int64[n]."""

    def id_of(self, text: bytes) -> int:
        """The id of a text, 0 if there is none."""


class TextOrder:
    """The texts of one version in the order of their bytes."""

    def __init__(self, count: int, texts: Texts):
        self.count, self._dictionary = count, texts
        self._kept: dict[int, bytes] = {}  # texts by rank, with which every search begins

    def keys(self, ids: np.ndarray) -> np.ndarray:
        """Return words int64[n] that order as the texts of ids int64[n] do; any word for an unknown id."""
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
        if known is not None:
            return self._rank_of(known)
        return self._search(text, 0, self.count)

    def ranks(self, texts: list[bytes]) -> np.ndarray:
        """As `rank`, int64[n] for ascending texts.

        O(n log texts), or less if few texts lie between the first and the last.
        """
        if len(texts) < 2 or not self.count:
            return np.array([self.rank(text) if self.count else 0 for text in texts], np.int64)
        first, last = self.rank(texts[0]), self.rank(texts[-1])
        if last - first <= MERGED * len(texts):
            return first + _merged(self._dictionary.loaded(self.slice(first, last)), texts)
        ranks = np.empty(len(texts), np.int64)
        for place, text in enumerate(texts):
            first = ranks[place] = self._search(text, first, last)
        return ranks

    def _search(self, text: bytes, low: int, high: int) -> int:
        """Return how many texts are below a text, known to be `low` to `high`. O(log texts)."""
        while low < high:
            step = max(1, (high - low) // FAN)
            ranks = np.arange(low + step - 1, high, step)
            at = bisect_left(self._at(ranks), text)
            low, high = (int(ranks[at - 1]) + 1 if at else low), (int(ranks[at]) if at < len(ranks) else high)
        return low

    def _key_of(self, id_: int) -> int | None:
        """Return the key of an id, None if it has none."""
        raise NotImplementedError

    def _rank_of(self, key: int) -> int:
        """Return how many texts have lesser keys."""
        raise NotImplementedError

    def _at(self, ranks: np.ndarray) -> list[bytes]:
        """Return the texts at some ranks."""
        wanted = ranks.tolist()
        missing = [rank for rank in wanted if rank not in self._kept]
        if missing:
            if len(self._kept) > PLACES_KEPT:
                self._kept.clear()
                missing = wanted
            found = self._dictionary.loaded(self.ids(np.array(missing)))
            self._kept.update((rank, text) for rank, text in zip(missing, found, strict=True))
        return [self._kept[rank] for rank in wanted]


def _merged(between: list[bytes], texts: list[bytes]) -> np.ndarray:
    """Return how many of `between`, ascending, are below each of `texts`, ascending, int64[n].

    >>> _merged([b"b", b"d"], [b"a", b"c", b"d", b"e"]).tolist()
    [0, 1, 1, 2]
    """
    below, waiting, ranks = 0, iter(between), np.zeros(len(texts), np.int64)
    one = next(waiting, None)
    for place, text in enumerate(texts):
        while one is not None and one < text:
            below += 1
            one = next(waiting, None)
        ranks[place] = below
    return ranks


class StoredOrder(TextOrder):
    """The order that is stored in a version's trees."""

    def __init__(self, pages: Callable[[], Pages], order: Tree, labels: Tree, texts: Texts):
        super().__init__(order.count, texts)
        self._pages, self._order, self._labels = pages, order, labels
        self._packed = packed_tree(pages(), order)
        self._finder, self._fold = RecordFinder(pages(), labels), RangeFold(pages(), order, COUNTS)

    def keys(self, ids: np.ndarray) -> np.ndarray:
        """Return the labels int64[n] of ids int64[n]. O(n log texts), and less where ids lie close together."""
        if len(ids) > FEW:
            first, end = int(ids.min()), int(ids.max()) + 1
            if first > 0 and end - first <= DENSE * len(ids):
                near = read(self._pages(), self._labels, (first,), (end,))
                if near.shape[1] == end - first:
                    found: np.ndarray = near[1, ids - first]
                    return found
        labels: np.ndarray = get(self._pages(), self._labels, ids[None])[1][0]
        return labels

    def ids(self, ranks: np.ndarray) -> np.ndarray:
        """Return the ids int64[n] of the texts at ranks int64[n]. O(n log texts)."""
        found: np.ndarray = self.entries(ranks)[1]
        return found

    def ids_of(self, keys: np.ndarray) -> np.ndarray:
        """Return the ids int64[n] of the texts with labels int64[n]. O(n log texts)."""
        found: np.ndarray = get(self._pages(), self._order, keys[None])[1][0]
        return found

    def slice(self, start: int, stop: int) -> np.ndarray:
        """Return the ids of the texts from one rank up to another, in order. O(log texts + those)."""
        found: np.ndarray = self.between(start, stop)[1]
        return found

    def entries(self, ranks: np.ndarray) -> np.ndarray:
        """Return labels and ids int64[2, n] at ranks int64[n]. O(n log texts)."""
        return select(self._pages(), self._order, ranks)

    def between(self, start: int, stop: int) -> np.ndarray:
        """Return labels and ids int64[2, n] of the ranks from `start` up to `stop`. O(log texts + those)."""
        if start >= stop:
            return np.zeros((2, 0), np.int64)
        low = int(self.entries(np.array([start]))[0, 0])
        return next(read_batches(self._pages(), self._order, (low,), rows=stop - start))

    def _key_of(self, id_: int) -> int | None:
        found = self._finder.find((id_,)) if self.count else None
        return found[0] if found else None

    def _rank_of(self, key: int) -> int:
        return self._fold.fold((), (key,))[0][0]

    def _search(self, text: bytes, low: int, high: int) -> int:
        found = self._dictionary.search.rank(self._packed.ctypes.data, text, low, high)
        return super()._search(text, low, high) if found is None else found

    def labels_below(self, labels: np.ndarray) -> np.ndarray:
        """Return how many labels are below each of labels int64[n], int64[n]. O(n log texts)."""
        if not self.count:
            return np.zeros(len(labels), np.int64)
        return ranks_in(self._pages(), self._order, labels[None])


class SortedOrder(TextOrder):
    """The order of a version that stores none, found by sorting its texts once. O(texts log texts)."""

    def __init__(self, ids: np.ndarray, texts: Texts):
        super().__init__(len(ids), texts)
        loaded = texts.loaded(ids)
        self._ids = ids[np.array(sorted(range(len(ids)), key=loaded.__getitem__), np.int64)]
        self._by_id = np.argsort(self._ids)

    def keys(self, ids: np.ndarray) -> np.ndarray:
        """Return the ranks int64[n] of ids int64[n]."""
        places = np.searchsorted(self._ids, ids, sorter=self._by_id)
        ranks: np.ndarray = self._by_id[np.minimum(places, self.count - 1)] if self.count else places
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
