"""Find, compare and copy texts by kernels, in one version of a dictionary's trees.

A method returns None when it meets a long text, which is not stored in records; then the dictionary uses no kernel.
"""

from __future__ import annotations

import threading
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from pagestore.pages.page_map import Pages
from pagestore.runtime.arguments import Bytes, Door, Flags, Table, Words
from pagestore.runtime.kernel import JIT
from pagestore.runtime.lazy import pyarrow as pa
from pagestore.trees.lookup import lookup_order, packed_tree
from pagestore.trees.tree import Tree, checked
from pagestore.values.kernels import text_hash, text_lookup, text_rank
from pagestore.values.kernels.text_lookup import LONG as LONG
from pagestore.values.kernels.text_lookup import UNREADABLE

HASH = Door(text_hash.hash_texts, Words, int, int, Words, Words)
FIND = Door(text_lookup.find_text, int, int, int, int, int)
MATCH = Door(text_lookup.match_texts, int, Words, Words, Words, int, int, Flags)
MEASURE = Door(text_lookup.measure_texts, int, Words, Table, Words)
COPY = Door(text_lookup.copy_texts, int, Words, Table, Words, Bytes)
RANK = Door(text_rank.rank_text, int, int, int, int, int, int)


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

    def text(self, i: int) -> bytes:
        """One of the texts."""
        return memoryview(self.data)[self.offsets[i] : self.offsets[i + 1]].tobytes()


def hashes_of(texts: PackedTexts) -> np.ndarray:
    """Return the first places to look for texts, int64[n]: their 8-byte blake2b digests."""
    if not JIT:
        digests = [blake2b(texts.text(i), digest_size=8).digest() for i in range(len(texts))]
        return np.frombuffer(b"".join(digests), "<i8").astype(np.int64)
    out = np.empty(len(texts), np.int64)
    HASH.call(texts.offsets, texts.data.address, texts.data.size, np.empty(text_hash.ROOM, np.int64), out)
    return out


class TextSearch:
    """Search for texts in the trees of places and of texts; the kernels' arguments are packed once."""

    def __init__(self, pages: Pages, places: Tree, texts: Tree) -> None:
        self.pages, self.places, self.texts = pages, places, texts  # keeps alive what the packed trees point to
        self._packed = packed_tree(pages, places), packed_tree(pages, texts)
        self._places, self._texts = (packed.ctypes.data for packed in self._packed)

    def id_of(self, text: bytes) -> int | None:
        """Return the id of a text, 0 if there is none. O(log texts)."""
        if len(text) >= LONG or not JIT:
            return None
        found = FIND.call(self._places, self._texts, _ROOM.hold(text), len(text), _ROOM.address)
        return int(found) if self._readable(found) else None

    def match(self, ids: np.ndarray, texts: PackedTexts, some: np.ndarray) -> np.ndarray | None:
        """Return whether ids[i], which must exist, is the id of text i, for each i of some[m]: bool[m].

        O(m log texts).
        """
        same = np.zeros(len(texts), bool)
        order = some[lookup_order(ids[None, some])]
        buffer = texts.data
        status = MATCH.call(self._texts, ids, order, texts.offsets, buffer.address, buffer.size, same)
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
        """Return how many texts are below a text, known to be `low` to `high`; `order` is a packed tree's address."""
        if len(text) >= LONG:
            return None
        found = RANK.call(order, self._texts, _ROOM.hold(text), len(text), low, high)
        return int(found) if self._readable(found) else None

    def _readable(self, status: int) -> bool:
        """Return whether a kernel succeeded; False at a long text. Raises CorruptionError for a bad page."""
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
