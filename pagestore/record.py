"""Records: what a commit says, as int64 words in a run of pages (see docs/format.md).

A text in a record is its length in bytes, then its UTF-8 bytes padded with zeros to whole words. A list is
its number of rows, then the rows. Every record begins with a word that says what it is.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter

import numpy as np

from .errors import CorruptionError
from .flat import Flat, flat, flat_words
from .mapping import NO_RUN, Run

COMMIT, CATALOG, SETTINGS, FREE, TEXT = range(1, 6)  # purposes of runs
_word = struct.Struct("<q").pack


class Writer:
    """Builds a record: words and texts, in order."""

    def __init__(self, purpose: int):
        self._parts: list[bytes | Flat] = [_word(purpose)]

    def put(self, *words: int) -> None:
        self._parts.append(_packed(words))

    def put_list(self, rows: Flat, width: int) -> None:
        """Rows of `width` words."""
        self._parts += _word(len(rows) // width), rows

    def put_bytes(self, data: bytes) -> None:
        self.put(len(data))
        self._parts += data, bytes(-len(data) % 8)

    def put_text(self, text: str) -> None:
        self.put_bytes(text.encode())

    def content(self) -> bytes:
        return b"".join(self._parts)


def _packed(words: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(words)}q", *words)


class Reader:
    """Reads a record back in the order it was written."""

    def __init__(self, content: np.ndarray, purpose: int):
        self.words = content
        self.at = 0
        if self.take() != purpose:
            raise CorruptionError(f"a record of kind {purpose} was expected, this one is of kind {int(content[0])}")

    def take(self) -> int:
        if self.at >= len(self.words):
            raise CorruptionError("a record ends too early")
        self.at += 1
        return int(self.words[self.at - 1])

    def take_many(self, n: int) -> np.ndarray:
        if n < 0 or self.at + n > len(self.words):
            raise CorruptionError("a record ends too early")
        self.at += n
        return self.words[self.at - n : self.at]

    def take_list(self, width: int) -> Flat:
        return flat_words(self.take_many(self.take() * width))

    def take_bytes(self) -> bytes:
        n = self.take()
        return self.take_many(-(-n // 8)).tobytes()[:n]

    def take_text(self) -> str:
        return self.take_bytes().decode()


@dataclass(slots=True)
class Commit:
    """One commit: a version (unless it is administrative) and the state of the whole store after it.

    The lists are flat, rows of as many words as `_WIDTHS` says.
    """

    sequence: int
    version: int
    administrative: int = 0
    parent: int = -1
    branch: int = 1
    timestamp: int = 0  # microseconds since 1970, UTC
    last_version: int = 0
    next_tree: int = 0
    next_branch: int = 2
    next_text: int = 1
    top: int = 0  # pages from here on were never used
    catalog: Run = NO_RUN
    settings: Run = NO_RUN
    checkpoint: Run = NO_RUN
    checksum: int = 0  # sum of the crc32c of all pages in `written`
    roots: Flat = field(default_factory=flat)  # tree, root, height, count
    system: Flat = field(default_factory=flat)  # the same, for the store's own trees
    branches: Flat = field(default_factory=flat)  # branch, head version, its page, its words, origin
    recent: Flat = field(default_factory=flat)  # version, page, words, timestamp, branch
    dead: Flat = field(default_factory=flat)  # lineage, page, birth
    written: Flat = field(default_factory=flat)  # first page, count
    added: Flat = field(default_factory=flat)  # pages free since the checkpoint
    removed: Flat = field(default_factory=flat)  # pages of the checkpoint that are in use
    message: str = ""

    def encode(self) -> bytes:
        out = Writer(COMMIT)
        out.put(*_words_of(self), *chain(*_runs_of(self)))
        for rows, width in zip(_lists_of(self), _WIDTHS.values(), strict=True):
            out.put_list(rows, width)
        out.put_text(self.message)
        return out.content()

    def length(self) -> int:
        """Words that `encode` makes."""
        lists = len(_WIDTHS) + sum(map(len, _lists_of(self)))
        return 1 + len(_WORDS) + 2 * len(_RUNS) + lists + 1 + -(-len(self.message.encode()) // 8)

    @classmethod
    def decode(cls, content: np.ndarray) -> "Commit":
        source = Reader(content, COMMIT)
        fields: dict = dict(zip(_WORDS, source.take_many(len(_WORDS)).tolist(), strict=True))
        fields |= {name: Run(*source.take_many(2).tolist()) for name in _RUNS}
        fields |= {name: source.take_list(width) for name, width in _WIDTHS.items()}
        return cls(message=source.take_text(), **fields)


_WORDS = (
    "sequence", "version", "administrative", "parent", "branch", "timestamp",
    "last_version", "next_tree", "next_branch", "next_text", "top", "checksum",
)  # fmt: skip
_RUNS = ("catalog", "settings", "checkpoint")
_WIDTHS = {
    "roots": 4, "system": 4, "branches": 5, "recent": 5, "dead": 3, "written": 2, "added": 1, "removed": 1,
}  # fmt: skip
_words_of, _runs_of, _lists_of = attrgetter(*_WORDS), attrgetter(*_RUNS), attrgetter(*_WIDTHS)
