"""The dictionary: every distinct text of a store has one id, for all versions and branches.

Its trees belong to the store's own lineage. `TEXTS` holds the bytes: record (id, part) -> word.
Part 0 has the length in its low 16 bits and the first 6 bytes above them; part i > 0 has bytes 8 i
- 2 to 8 i + 5. `PLACES` finds the id: record (place) -> id, where the place is the first of hash,
hash + 1, ... that is free or holds the text itself, and the hash is the 8-byte blake2b digest. Ids
start at 1 and are never reused: a text keeps its id until no version holds it (admin/vacuum.py),
and gets a new id if it is added again. The order of the texts is kept separately (text_order.py).

A packed text has bit 15 set beside its length, then a byte with the number of its table of symbols
(symbols.py), and from byte 3 on codes of symbols instead of its bytes.

A text of LONG bytes or more has length word 0xFFFF in part 0, and its parts 1 to 4 locate it: first
page and words of a TEXT run (versions/commit_record.py), offset and length in the unpacked
zstandard frame of that run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from pagestore.errors import CorruptionError
from pagestore.pages.layout import Pages
from pagestore.runtime.lazy import pyarrow as pa
from pagestore.runtime.lazy import zstandard
from pagestore.storage.mapping import Mapping, Run
from pagestore.storage.records import TEXT, RecordReader
from pagestore.trees.read import get, read_batches
from pagestore.trees.tree import Spec, Tree
from pagestore.values.codec import numbers_of
from pagestore.values.kernels.text_lookup import LENGTH
from pagestore.values.symbols import SYMBOLS, committed_tables
from pagestore.values.text_order import (
    LABELS,
    ORDER,
    PackedTexts,
    SortedOrder,
    StoredOrder,
    TextOrder,
    TextSearch,
    hashes_of,
)
from pagestore.values.types import no_string, of_numbers

TEXTS = Spec(1, 2, 1)
PLACES = Spec(2, 1, 1)
TEXT_TREES = {spec.tree_id: spec for spec in (TEXTS, PLACES, ORDER, LABELS, SYMBOLS)}
NO_TABLES = np.zeros(0, np.int64)
EMPTY = {number: Tree.empty(spec) for number, spec in TEXT_TREES.items()}
LONG_MARK = 0xFFFF
LOADED_AT_ONCE = 1 << 13  # texts
FEW_IDS = 1 << 10  # up to this many ids, looking all up is faster than finding the distinct ones
REMEDY = "if a record has that id, pagestore fsck says what is damaged"
BYTES_MAX = (1 << 31) - 1  # of an Arrow array of texts that is not of a large type


class Dictionary:
    """The texts of a version, for reading. `trees` are by id."""

    next_id = added_bytes = 0  # of texts to come, and of those that were added: only a writer's

    def __init__(self, pages: Callable[[], Pages], trees: dict[int, Tree], mapping: Mapping):
        self._pages, self._trees, self._mapping = pages, trees, mapping
        self._order: tuple[Tree, TextOrder] | None = None
        self._searched: TextSearch | None = None
        self._symbols: tuple[Tree, np.ndarray] | None = None

    @property
    def order(self) -> TextOrder:
        """The order of the texts, valid until a text is added. O(1), or a sort of all texts if
        no order is stored.
        """
        texts, order, labels = self._tree(TEXTS), self._tree(ORDER), self._tree(LABELS)
        if self._order is None or self._order[0] is not texts:
            # one of its own: in a circle, both would pin their version until Python collects it
            dictionary = Dictionary(self._pages, self._trees, self._mapping)
            dictionary._symbols = self._tree(SYMBOLS), self._tables()
            if order.count or not texts.count:
                made: TextOrder = StoredOrder(self._pages, order, labels, dictionary)
            else:
                made = SortedOrder(self.ids(), dictionary)
            self._order = texts, made
        return self._order[1]

    def id_of(self, text: bytes) -> int:
        """Return the id of a text, 0 if there is none. O(log dictionary)."""
        id_ = self.search.id_of(text)
        return int(self._find(PackedTexts.of([text]))[0]) if id_ is None else id_

    def text(self, id_: int) -> bytes:
        """Return the text of an id. O(log dictionary + bytes)."""
        return self.loaded(np.array([id_]))[0]

    def loaded(self, ids: np.ndarray) -> list[bytes]:
        """Return the texts of ids int64[n], as bytes. O(n log dictionary + bytes)."""
        texts: list[bytes] = []
        for at in range(0, len(ids), LOADED_AT_ONCE):
            offsets, data = self._load(ids[at : at + LOADED_AT_ONCE])
            raw = data.tobytes()
            texts += [raw[start:end] for start, end in pairwise(offsets.tolist())]
        return texts

    def intern(self, texts: pa.Array) -> np.ndarray:
        """Return ids int64[n] of texts; 0 for those that the store does not have."""
        return self.known(texts)

    def known(self, texts: pa.Array) -> np.ndarray:
        """Return ids int64[n] of texts, 0 for unknown ones. O(distinct log dictionary)."""
        distinct = texts.dictionary_encode()
        known = self._find(PackedTexts.of(distinct.dictionary))
        ids: np.ndarray = known[numbers_of(distinct.indices, np.int32)]
        return ids

    def texts(self, ids: np.ndarray, binary: bool = False) -> pa.Array:
        """Return the texts of ids int64[n] as an Arrow array, of a large type if they take more
        than 2 GiB.

        O(distinct log dictionary + bytes).
        """
        if len(ids) <= FEW_IDS and (loaded := self.search.load(ids)) is not None:
            return _arrow_texts(*loaded, binary)
        distinct, places = _distinct(ids)
        offsets, data = self._load(distinct)
        texts = _arrow_texts(offsets, data, binary, int(np.diff(offsets)[places].sum()) > BYTES_MAX)
        if len(places) == len(texts) and (np.diff(places) == 1).all():
            return texts
        return taken(texts, places)

    def lengths(self, first: int, end: int) -> np.ndarray:
        """Return the length in bytes of each text of ids `first` up to `end`, int64[n]; -1 for no
        text.

        O(their bytes).
        """
        lengths = np.full(end - first, -1)
        for ids, parts, words in read_batches(self._pages(), self._tree(TEXTS), (first,), (end,)):
            heads, fourth = parts == 0, parts == 4
            lengths[ids[heads] - first] = words[heads] & LENGTH
            at, words = ids[fourth] - first, words[fourth]
            long = lengths[at] == LENGTH
            lengths[at[long]] = words[long]
        return lengths

    def ids(self) -> np.ndarray:
        """Return the ids of all texts, unordered. O(texts)."""
        tree = self._tree(PLACES)
        batches = read_batches(self._pages(), tree, columns=(1,)) if tree.count else ()
        return np.concatenate([np.zeros(0, np.int64), *(batch[0] for batch in batches)])

    def long_texts(self) -> Iterator[tuple[int, int, int]]:
        """Yield (id, first page, words) of every text that is stored in a run, by id. O(texts)."""
        heads: dict[int, list[int]] = {}
        tree = self._tree(TEXTS)
        for batch in read_batches(self._pages(), tree) if tree.count else ():
            long = (batch[1] == 0) & (batch[2] & 0xFFFF == LONG_MARK)
            heads.update((id_, []) for id_ in batch[0, long].tolist())
            for id_, part, word in batch[:, (batch[1] == 1) | (batch[1] == 2)].T.tolist():
                if id_ in heads:
                    heads[id_].append(word)
                    if part == 2:
                        yield id_, *heads.pop(id_)

    def _tree(self, spec: Spec) -> Tree:
        return self._trees.get(spec.tree_id) or EMPTY[spec.tree_id]

    @property
    def search(self) -> TextSearch:
        """The search over the current trees."""
        pages, searched = self._pages(), self._searched
        places, texts = self._tree(PLACES), self._tree(TEXTS)
        if (
            searched is None
            or searched.pages is not pages
            or searched.places is not places
            or searched.texts is not texts
        ):
            searched = self._searched = TextSearch(pages, places, texts, self._tables())
        return searched

    def _tables(self) -> np.ndarray:
        """Return the tables of symbols as kernels read them."""
        tree = self._trees.get(SYMBOLS.tree_id)
        if tree is None or not tree.count:
            return NO_TABLES
        if self._symbols is None or self._symbols[0] is not tree:
            self._symbols = tree, self._read_tables(tree)
        return self._symbols[1]

    def _read_tables(self, tree: Tree) -> np.ndarray:
        return committed_tables(self._mapping, self._pages(), tree)

    def _find(self, texts: PackedTexts) -> np.ndarray:
        """Return ids of distinct texts, 0 where there is none."""
        return self._probe(texts)[0]

    def _probe(self, texts: PackedTexts) -> tuple[np.ndarray, np.ndarray]:
        """Return (ids, places): where each text is, or the first free place for it."""
        ids = np.zeros(len(texts), np.int64)
        places = hashes_of(texts)
        open_ = np.arange(len(texts))
        while len(open_):
            found, values = get(self._pages(), self._tree(PLACES), places[None, open_])
            open_ = open_[found]
            ids[open_] = values[0][found]
            same = self.search.match(ids, texts, open_)
            if same is None:
                same = self._same(ids, texts, open_)
            open_ = open_[~same]
            ids[open_] = 0
            places[open_] += 1
        return ids, places

    def _same(self, ids: np.ndarray, texts: PackedTexts, some: np.ndarray) -> np.ndarray:
        """As `TextSearch.match`, for texts of any length."""
        loaded = self.loaded(ids[some])
        return np.array(
            [text == texts.text(i) for text, i in zip(loaded, some.tolist(), strict=True)], bool
        )

    def _load(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Load the texts of ids in Arrow's layout: offsets int64[n + 1], bytes uint8[...]."""
        loaded = self.search.load(ids)
        if loaded is not None:
            return loaded
        long = self._words(ids, np.zeros(len(ids), np.int64)) & LONG_MARK == LONG_MARK
        if long.any():
            return self._load_long(ids, long)
        broken = next(int(id_) for id_ in ids if self.search.load(np.array([id_])) is None)
        raise CorruptionError(f"the dictionary does not hold all parts of text {broken}; {REMEDY}")

    def _load_long(self, ids: np.ndarray, long: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `_load`, where some texts are stored in runs."""
        offsets, data = self._load(ids[~long])
        raw = data.tobytes()
        short = iter(
            [raw[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
        )
        places = np.stack(
            [self._words(ids[long], np.full(long.sum(), part)) for part in range(1, 5)], axis=1
        )
        frames: dict[int, bytes] = {}
        longs = []
        for page, words, offset, length in places.tolist():
            if page not in frames:
                frames[page] = _frame(self._mapping.read_run(Run(page, words)), page)
            if not 0 <= offset <= offset + length <= len(frames[page]):
                raise CorruptionError(
                    f"a text of {length} bytes at byte {offset} is not in its frame", page=page
                )
            longs.append(frames[page][offset : offset + length])
        rest = iter(longs)
        texts = [next(rest) if is_long else next(short) for is_long in long.tolist()]
        return np.cumsum([0, *map(len, texts)]), np.frombuffer(b"".join(texts), np.uint8)

    def _words(self, ids: np.ndarray, parts: np.ndarray) -> np.ndarray:
        found, values = get(self._pages(), self._tree(TEXTS), np.stack([ids, parts]))
        if not found.all():
            missing = int(ids[~found][0])
            raise CorruptionError(f"the dictionary has no text of id {missing}; {REMEDY}")
        words: np.ndarray = values[0]
        return words


def keys_of(ids: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the keys (ids and parts) of the records of texts, given the number of records of each.

    >>> [column.tolist() for column in keys_of(np.array([7, 9]), np.array([2, 1]))]
    [[7, 7, 9], [0, 1, 0]]
    """
    starts = np.cumsum(counts) - counts
    return np.repeat(ids, counts), np.arange(int(counts.sum())) - np.repeat(starts, counts)


class TextFinder:
    """An interner that looks up ids and adds none, to encode keys and bounds."""

    def __init__(self, dictionary: Dictionary):
        self._dictionary = dictionary
        self.texts = dictionary.texts

    def intern(self, texts: pa.Array) -> np.ndarray:
        """Return ids int64[n] of texts, 0 for those that the store does not hold."""
        return self._dictionary.known(texts)


def _distinct(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct ids, ascending, and the place of each id among them; sorts only if they
    lie far apart.

    >>> [part.tolist() for part in _distinct(np.array([7, 5, 7]))]
    [[5, 7], [1, 0, 1]]
    """
    low, high = (int(ids.min()), int(ids.max())) if len(ids) else (0, 0)
    if high - low > 4 * len(ids):
        distinct, places = np.unique(ids, return_inverse=True)
        return distinct, places
    there = np.zeros(high - low + 1, bool)
    there[ids - low] = True
    return np.flatnonzero(there) + low, (np.cumsum(there) - 1)[ids - low]


def _arrow_texts(
    offsets: np.ndarray, data: np.ndarray, binary: bool, large: bool = False
) -> pa.Array:
    """Return texts as an Arrow array, of a large type if `large`. Raises CorruptionError if
    bytes are not UTF-8.
    """
    kinds = (pa.binary, pa.large_binary) if binary else (pa.string, pa.large_string)
    places = offsets if large else offsets.astype(np.int32)
    texts = pa.Array.from_buffers(
        kinds[large](), len(offsets) - 1, [None, pa.py_buffer(places), pa.py_buffer(data)]
    )
    if not binary:
        try:
            texts.validate(full=True)
        except pa.ArrowInvalid as error:
            raise no_string(error) from None
    return texts


def _frame(content: np.ndarray, page: int) -> bytes:
    """Unpack the record of a run of long texts. Raises CorruptionError."""
    source = RecordReader(content, TEXT)
    packed, size = source.take_bytes(), source.take()
    try:
        if zstandard.frame_content_size(packed) != size:
            raise zstandard.ZstdError(f"its frame does not say that it unpacks to {size} bytes")
        return zstandard.decompress(packed)
    except (zstandard.ZstdError, MemoryError) as error:
        raise CorruptionError(f"the long texts there do not unpack: {error}", page=page) from None


def taken(texts: pa.Array, places: np.ndarray) -> pa.Array:
    """Return the texts at places int64[n]."""
    return texts.take(of_numbers(pa.int64(), places))


def all_as_bytes(texts: pa.Array) -> list[bytes]:
    """Return texts as their bytes."""
    for kind, raw in (pa.string(), pa.binary()), (pa.large_string(), pa.large_binary()):
        if texts.type == kind:
            return texts.cast(raw).to_pylist()  # type: ignore[no-any-return]
    return [as_bytes(text) for text in texts.to_pylist()]


def as_bytes(text: str | bytes) -> bytes:
    """Return a text as its bytes."""
    return text.encode() if isinstance(text, str) else text


def broken_among(texts: Sequence[bytes]) -> list[int]:
    """Return the places of texts that are not UTF-8.

    >>> broken_among([b"caf\\xc3\\xa9", b"caf\\xe9", b""])
    [1]
    """
    try:
        b"\\0".join(texts).decode()  # no other character contains a zero byte
        return []
    except UnicodeDecodeError:
        return [place for place, text in enumerate(texts) if not is_utf8(text)]


def is_utf8(text: bytes) -> bool:
    """Return whether bytes are UTF-8."""
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
