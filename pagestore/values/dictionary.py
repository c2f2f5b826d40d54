"""The dictionary: every distinct text of a store has one id, for all versions and branches.

Two trees of the store's own lineage. `TEXTS` holds the bytes: record (id, part) -> word. Part 0 has the
length in its low 16 bits and the first 6 bytes above them; part i > 0 has bytes 8 i - 2 to 8 i + 5. `PLACES`
finds the id: record (place) -> id, where the place is the first of hash, hash + 1, ... that is free or holds
the text itself, and the hash is the 8-byte blake2b digest. Ids start at 1; nothing is ever taken out, so a
text keeps its id.

A text of LONG bytes or more has length word 0xFFFF in part 0, and its parts 1 to 4 say where it is: first
page and words of a TEXT run (versions/commit_record.py), offset and length in what the run's zstandard frame unpacks
to.
"""

from collections.abc import Callable, Iterator
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import zstandard

from pagestore.errors import CorruptionError
from pagestore.pages.page_map import Pages
from pagestore.storage.mapping import Run
from pagestore.storage.pager import STORE_LINEAGE, Pager
from pagestore.storage.record import TEXT, RecordReader, RecordWriter
from pagestore.storage.step import step
from pagestore.storage.word_list import to_word_list
from pagestore.trees.apply import apply, compose_edits
from pagestore.trees.kernels.apply_layout import INSERT, SET
from pagestore.trees.lookup import get
from pagestore.trees.reading import read_batches
from pagestore.trees.tree import Spec, Tree
from pagestore.values.codec import numbers_of

TEXTS = Spec(1, 2, 1)
PLACES = Spec(2, 1, 1)
LONG = 1024
LONG_MARK = 0xFFFF
FRAME_BYTES = 1 << 20  # raw bytes of long texts that share a run
CACHE_MAX = 1 << 17
BYTES_MAX = (1 << 31) - 1  # of an Arrow array of texts that is not of a large type


class Dictionary:
    """The texts of a version, to be read. `trees` maps tree ids to trees, `read_run` gives a run's words."""

    def __init__(self, pages: Callable[[], Pages], trees: dict[int, Tree], read_run: Callable[[Run], np.ndarray]):
        self._pages, self._trees, self._read_run = pages, trees, read_run

    def intern(self, texts: pa.Array) -> np.ndarray:
        """Ids int64[n] of texts; 0 for those the store has never seen."""
        return self.known(texts)

    def known(self, texts: pa.Array) -> np.ndarray:
        """Ids int64[n] of texts, 0 where there is none; adds nothing. O(distinct log dictionary)."""
        distinct = texts.dictionary_encode()
        known = self._find([_bytes(text) for text in distinct.dictionary.to_pylist()])
        ids: np.ndarray = known[numbers_of(distinct.indices, np.int32)]
        return ids

    def texts(self, ids: np.ndarray, binary: bool = False) -> pa.Array:
        """The texts of ids int64[n] as an Arrow array, of a large type where they take more than 2 GiB.

        O(distinct log dictionary + bytes).
        """
        distinct, places = _distinct(ids)
        offsets, data = self._load(distinct)
        kind = pa.binary() if binary else pa.string()
        if np.diff(offsets)[places].sum() > BYTES_MAX:
            kind = pa.large_binary() if binary else pa.large_string()
        else:
            offsets = offsets.astype(np.int32)
        parts = pa.Array.from_buffers(kind, len(distinct), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
        if not binary:
            _check_utf8(parts)
        return parts.take(pa.Array.from_buffers(pa.int64(), len(places), [None, pa.py_buffer(places)]))

    def lengths(self, first: int, end: int) -> np.ndarray:
        """How many bytes the texts of ids from `first` up to `end` have, int64[n]. O(bytes of short ones)."""
        lengths = np.zeros(end - first, np.int64)
        for ids, parts, words in read_batches(self._pages(), self._tree(TEXTS), (first,), (end,)):
            heads, fourth = parts == 0, parts == 4
            lengths[ids[heads] - first] = words[heads] & 0xFFFF
            at, words = ids[fourth] - first, words[fourth]
            long = lengths[at] == LONG_MARK
            lengths[at[long]] = words[long]
        return lengths

    def greatest_id(self) -> int:
        """The id that was given last; 0 in an empty dictionary. O(texts)."""
        tree = self._tree(PLACES)
        ids = (int(batch[0].max()) for batch in read_batches(self._pages(), tree, columns=(1,)) if tree.count)
        return max(ids, default=0)

    def long_texts(self) -> Iterator[tuple[int, int, int]]:
        """(id, first page, words) of every text that stands in a run, by id. O(texts)."""
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
        return self._trees.get(spec.tree_id) or Tree.empty(spec)

    def _find(self, texts: list[bytes]) -> np.ndarray:
        """Ids of distinct texts, 0 where there is none."""
        return self._probe(texts)[0]

    def _probe(self, texts: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """(ids, places): where each text is, or the first free place for it."""
        ids = np.zeros(len(texts), np.int64)
        places = np.array([int.from_bytes(blake2b(t, digest_size=8).digest(), "little", signed=True) for t in texts])
        places = places.astype(np.int64)
        open_ = np.arange(len(texts))
        while len(open_):
            found, values = get(self._pages(), self._tree(PLACES), places[None, open_])
            open_, candidates = open_[found], values[0][found]
            offsets, data = self._load(candidates)
            raw = data.tobytes()
            same = np.array([raw[offsets[i] : offsets[i + 1]] == texts[j] for i, j in enumerate(open_.tolist())], bool)
            ids[open_[same]] = candidates[same]
            open_ = open_[~same]
            places[open_] += 1
        return ids, places

    def _load(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Texts of ids as Arrow keeps them: offsets int64[n + 1], bytes uint8[...]."""
        heads = self._words(ids, np.zeros(len(ids), np.int64))
        lengths = heads & 0xFFFF
        if (lengths == LONG_MARK).any():
            return self._load_long(ids, lengths == LONG_MARK)
        counts = (lengths + 9) // 8
        starts = np.cumsum(counts) - counts
        parts = np.arange(int(counts.sum())) - np.repeat(starts, counts)
        words = self._words(np.repeat(ids, counts), parts)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        take = np.arange(offsets[-1]) + np.repeat(8 * starts + 2 - offsets[:-1], lengths)
        return offsets, words.view(np.uint8)[take]

    def _load_long(self, ids: np.ndarray, long: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `_load`, where some texts stand in runs."""
        offsets, data = self._load(ids[~long])
        raw = data.tobytes()
        short = iter([raw[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)])
        places = np.stack([self._words(ids[long], np.full(long.sum(), part)) for part in range(1, 5)], axis=1)
        frames: dict[int, bytes] = {}
        longs = []
        for page, words, offset, length in places.tolist():
            if page not in frames:
                frames[page] = _frame(self._read_run(Run(page, words)), page)
            if not 0 <= offset <= offset + length <= len(frames[page]):
                raise CorruptionError(f"a text of {length} bytes at byte {offset} is not in its frame", page=page)
            longs.append(frames[page][offset : offset + length])
        rest = iter(longs)
        texts = [next(rest) if is_long else next(short) for is_long in long.tolist()]
        return np.cumsum([0, *map(len, texts)]), np.frombuffer(b"".join(texts), np.uint8)

    def _words(self, ids: np.ndarray, parts: np.ndarray) -> np.ndarray:
        found, values = get(self._pages(), self._tree(TEXTS), np.stack([ids, parts]))
        if not found.all():
            missing = int(ids[~found][0])
            remedy = "if a record has that id, pagestore fsck says what is damaged"
            raise CorruptionError(f"the dictionary has no text of id {missing}; {remedy}")
        words: np.ndarray = values[0]
        return words


class DictionaryWriter(Dictionary):
    """A transaction's dictionary: `intern` adds what is new. `cache` remembers ids of committed texts."""

    def __init__(self, pager: Pager, trees: dict[int, Tree], next_id: int, cache: dict[bytes, int]):
        super().__init__(lambda: pager.pages, trees, pager.mapping.read_run)
        self.pager = pager
        self.next_id = next_id
        self.added: dict[bytes, int] = {}
        self._cache = cache

    def intern(self, texts: pa.Array) -> np.ndarray:
        """Ids int64[n] of texts, new ones added. O(distinct log dictionary)."""
        distinct = texts.dictionary_encode()
        keys = [_bytes(text) for text in distinct.dictionary.to_pylist()]
        ids = [self.added.get(key) or self._cache.get(key, 0) for key in keys]
        unknown = [key for key, id_ in zip(keys, ids, strict=True) if not id_]
        if unknown:
            fresh = iter(self._resolve(unknown))
            ids = [id_ or next(fresh) for id_ in ids]
        words: np.ndarray = np.array(ids, np.int64)[numbers_of(distinct.indices, np.int32)]
        return words

    def committed(self) -> None:
        """Remember the ids of the transaction's texts, now that it is durable."""
        if len(self._cache) + len(self.added) > CACHE_MAX:
            self._cache.clear()
        self._cache.update(self.added)

    @step
    def move_long(self) -> None:
        """Write the runs of long texts anew, in the lowest free pages. O(long texts)."""
        moved: dict[int, Run] = {}
        edits = []
        for id_, page, words in self.long_texts():
            if page not in moved:
                run = Run(page, words)
                moved[page] = self.pager.write_run(to_word_list(self._read_run(run)), TEXT)
                with self.pager.retiring_into(STORE_LINEAGE):
                    self.pager.retire_run(run)
            edits += [(id_, part, word) for part, word in enumerate(moved[page], start=1)]
        if edits:
            self._apply(TEXTS, np.array(edits, np.int64).T, SET)

    @step
    def _resolve(self, texts: list[bytes]) -> list[int]:
        """Ids of distinct texts that no cache knows."""
        ids, places = self._probe(texts)
        new = np.flatnonzero(ids == 0)
        if len(new):
            ids[new] = np.arange(self.next_id, self.next_id + len(new))
            self.next_id += len(new)
            self._add_places(new, ids, places)
            self._add_texts([texts[i] for i in new.tolist()], ids[new])
        resolved: list[int] = ids.tolist()
        self.added.update(zip(texts, resolved, strict=True))
        return resolved

    def _add_places(self, new: np.ndarray, ids: np.ndarray, places: np.ndarray) -> None:
        """Add new ids at their places; where two texts want the same free place, the later one moves on."""
        wanted = places[new]
        while True:
            order = np.argsort(wanted, kind="stable")
            clash = np.zeros(len(new), bool)
            clash[order[1:]] = wanted[order[1:]] == wanted[order[:-1]]
            taken = get(self.pager.pages, self._tree(PLACES), wanted[None])[0]
            if not (clash | taken).any():
                break
            wanted[clash | taken] += 1
        self._apply(PLACES, np.stack([wanted, ids[new]]))

    def _add_texts(self, texts: list[bytes], ids: np.ndarray) -> None:
        lengths = np.array([len(text) for text in texts], np.int64)
        long = lengths >= LONG
        if long.any():
            self._add_long([t for t in texts if len(t) >= LONG], ids[long])
            texts, ids, lengths = [t for t in texts if len(t) < LONG], ids[~long], lengths[~long]
        counts = (lengths + 9) // 8
        padded = b"".join(
            len(t).to_bytes(2, "little") + t + bytes(8 * int(c) - 2 - len(t))
            for t, c in zip(texts, counts, strict=True)
        )
        parts = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
        self._apply(TEXTS, np.stack([np.repeat(ids, counts), parts, np.frombuffer(padded, np.int64)]))

    def _add_long(self, texts: list[bytes], ids: np.ndarray) -> None:
        group: list[tuple[bytes, int]] = []
        for text, id_ in zip(texts, ids.tolist(), strict=True):
            group.append((text, id_))
            if sum(len(t) for t, _ in group) >= FRAME_BYTES:
                self._add_frame(group)
                group = []
        if group:
            self._add_frame(group)

    def _add_frame(self, group: list[tuple[bytes, int]]) -> None:
        """Write long texts as one zstandard frame and say where each is."""
        raw = b"".join(text for text, _ in group)
        out = RecordWriter(TEXT)
        out.put_bytes(zstandard.compress(raw))
        out.put(len(raw))
        run = self.pager.write_run(out.words, TEXT)
        offset, rows = 0, []
        for text, id_ in group:
            for part, word in enumerate((LONG_MARK, *run, offset, len(text))):
                rows.append((id_, part, word))
            offset += len(text)
        self._apply(TEXTS, np.array(rows, np.int64).T)

    def _apply(self, spec: Spec, rows: np.ndarray, action: int = INSERT) -> None:
        actions, edits = compose_edits(np.full(rows.shape[1], action), rows, spec)
        with self.pager.retiring_into(STORE_LINEAGE):
            self._trees[spec.tree_id] = apply(self.pager, self._tree(spec), actions, edits)[0]


class TextFinder:
    """An interner that looks up ids and adds none; keys and bounds are encoded with it."""

    def __init__(self, dictionary: Dictionary):
        self._dictionary = dictionary
        self.texts = dictionary.texts

    def intern(self, texts: pa.Array) -> np.ndarray:
        """Ids int64[n] of texts, 0 for those that the store does not hold."""
        return self._dictionary.known(texts)


def _distinct(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct ids, ascending, and the place of each id among them; without a sort where they lie close together.

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


def _check_utf8(texts: pa.Array) -> None:
    """Raises CorruptionError for texts that cannot be strings."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptionError(f"a text of a column of strings is none: {error}; pagestore fsck says more") from None


def _frame(content: np.ndarray, page: int) -> bytes:
    """What the record of a run of long texts unpacks to. Raises CorruptionError."""
    source = RecordReader(content, TEXT)
    packed, size = source.take_bytes(), source.take()
    try:
        if zstandard.frame_content_size(packed) != size:
            raise zstandard.ZstdError(f"its frame does not say that it unpacks to {size} bytes")
        return zstandard.decompress(packed)
    except (zstandard.ZstdError, MemoryError) as error:
        raise CorruptionError(f"the long texts there do not unpack: {error}", page=page) from None


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text
