"""Records: what a commit says, as int64 words in a run of pages (see docs/format.md).

A text in a record is its length in bytes, then its UTF-8 bytes padded with zeros to whole words. A list is
its number of rows, then the rows. Every record begins with a word that says what it is.
"""

from dataclasses import dataclass, field

import numpy as np

from .errors import CorruptionError, SchemaError
from .flat import Flat, empty, flat, flat_words
from .kernels.record import COMMIT, HEAD, WIDTHS, gather
from .mapping import NO_RUN, Run

CATALOG, SETTINGS, FREE, TEXT = range(COMMIT + 1, 6)  # purposes of runs


class Writer:
    """Builds a record: words and texts, in order."""

    def __init__(self, purpose: int):
        self.words = flat((purpose,))

    def put(self, *words: int) -> None:
        self.words.extend(words)

    def put_list(self, rows: Flat, width: int) -> None:
        """Rows of `width` words."""
        self.words.append(len(rows) // width)
        self.words += rows

    def put_bytes(self, data: bytes) -> None:
        put_text(self.words, data)

    def put_text(self, text: str, what: str = "text") -> None:
        self.put_bytes(utf8(text, what))


def utf8(text: str, what: str) -> bytes:
    """The bytes of a text, which is a `what`. Raises SchemaError for what has none.

    >>> utf8("caf\\udce9", "tag")
    Traceback (most recent call last):
    pagestore.errors.SchemaError: 'caf\\udce9' cannot be a tag: it is no text that UTF-8 can hold
    """
    try:
        return str.encode(text)
    except (TypeError, UnicodeEncodeError):  # no text; half of a surrogate pair, as for a stray byte of a command line
        raise SchemaError(f"{text!r} cannot be a {what}: it is no text that UTF-8 can hold") from None


def text_of(data: bytes) -> str:
    """The text that bytes of a record are. Raises CorruptionError."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CorruptionError(f"a record has {data[:32]!r} where a text in UTF-8 belongs") from None


def put_text(words: Flat, text: bytes) -> None:
    words.append(len(text))
    if text:
        words.frombytes(text + bytes(-len(text) % 8))


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
        if n < 0:
            raise CorruptionError(f"a record says that a text has {n} bytes")
        return self.take_many(-(-n // 8)).tobytes()[:n]

    def take_text(self) -> str:
        return text_of(self.take_bytes())


@dataclass(slots=True)
class Commit:
    """One commit: a version (unless it is administrative) and the state of the whole store after it.

    The lists are flat, rows of as many words as WIDTHS says.
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
    roots: Flat = field(default_factory=empty)  # tree, root, height, count
    system: Flat = field(default_factory=empty)  # the same, for the store's own trees
    branches: Flat = field(default_factory=empty)  # branch, head version, its page, its words, origin
    recent: Flat = field(default_factory=empty)  # version, page, words, timestamp, branch
    dead: Flat = field(default_factory=empty)  # lineage, page, birth
    written: Flat = field(default_factory=empty)  # first page, count
    added: Flat = field(default_factory=empty)  # pages free since the checkpoint
    removed: Flat = field(default_factory=empty)  # pages of the checkpoint that are in use
    message: str = ""

    def said(self) -> Flat:
        """What kernels/record.py gathers a record from; only as long as the lists stay where they are."""
        said = Flat("q", (
            COMMIT, self.sequence, self.version, self.administrative, self.parent, self.branch, self.timestamp,
            self.last_version, self.next_tree, self.next_branch, self.next_text, self.top, self.checksum,
            *self.catalog, *self.settings, *self.checkpoint,
            *self.roots.buffer_info(), *self.system.buffer_info(), *self.branches.buffer_info(),
            *self.recent.buffer_info(), *self.dead.buffer_info(), *self.written.buffer_info(),
            *self.added.buffer_info(), *self.removed.buffer_info(),
        ))  # fmt: skip
        put_text(said, self.message.encode())
        return said

    def encode(self) -> Flat:
        record = flat_words(np.zeros(self.length(), np.int64))
        gather(np.frombuffer(self.said(), np.int64), np.frombuffer(record, np.int64))
        return record

    def length(self) -> int:
        """Words that `encode` makes."""
        lists = (
            self.roots, self.system, self.branches, self.recent, self.dead, self.written, self.added, self.removed
        )  # fmt: skip
        return HEAD + len(lists) + sum(map(len, lists)) + 1 + -(-len(self.message.encode()) // 8)

    @classmethod
    def decode(cls, content: np.ndarray) -> "Commit":
        source = Reader(content, COMMIT)
        fields: dict = dict(zip(_WORDS, source.take_many(len(_WORDS)).tolist(), strict=True))
        fields |= {name: Run(*source.take_many(2).tolist()) for name in _RUNS}
        fields |= {name: source.take_list(width) for name, width in zip(_LISTS, WIDTHS, strict=True)}
        return cls(message=source.take_text(), **fields)


_WORDS = (
    "sequence", "version", "administrative", "parent", "branch", "timestamp",
    "last_version", "next_tree", "next_branch", "next_text", "top", "checksum",
)  # fmt: skip
_RUNS = ("catalog", "settings", "checkpoint")
_LISTS = "roots", "system", "branches", "recent", "dead", "written", "added", "removed"
