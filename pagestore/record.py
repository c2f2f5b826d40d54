"""Records: what a commit says, as int64 words in a run of pages (see docs/format.md).

A text in a record is its length in bytes, then its UTF-8 bytes padded with zeros to whole words. A list is
its number of rows, then the rows. Every record begins with a word that says what it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import add

import numpy as np

from .errors import CorruptionError, SchemaError
from .flat import Flat, empty, flat, flat_words
from .kernels.record import COMMIT, HEAD, WIDTHS, gather
from .layout import FIRST_PAGE, PAGES
from .mapping import NO_RUN, Mapping, Run

CATALOG, SETTINGS, FREE, TEXT = range(COMMIT + 1, 6)  # purposes of runs
NUMBER_MAX = 1 << 61  # of what is counted; locks.py has a byte for each version
TREE_MAX = 1 << 32  # of a tree, of which the type word has so many bits
TIME_END = 253_402_300_800 * 10**6  # microseconds from 1970 to the year 10000


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
    def read(cls, mapping: Mapping, run: Run, version: int | None = None) -> "Commit":
        """The commit in a run, the one that made a version where that is given.

        Raises CorruptionError, also for another one, and for what no commit says.
        """
        commit = cls.decode(mapping.read_run(run))
        if version is not None and (commit.version, commit.administrative) != (version, 0):
            raise CorruptionError(f"it holds the record of version {commit.version}, not of {version}", page=run.page)
        fault = commit._fault()
        if fault:
            raise CorruptionError(f"it holds a commit's record that says what cannot be: {fault}", page=run.page)
        return commit

    @classmethod
    def decode(cls, content: np.ndarray) -> "Commit":
        source = Reader(content, COMMIT)
        fields: dict = dict(zip(_WORDS, source.take_many(len(_WORDS)).tolist(), strict=True))
        fields |= {name: Run(*source.take_many(2).tolist()) for name in _RUNS}
        fields |= {name: source.take_list(width) for name, width in zip(_LISTS, WIDTHS, strict=True)}
        return cls(message=source.take_text(), **fields)

    def _fault(self) -> str | None:
        """What the record says that no commit says, or None."""
        ordered = (self.sequence, self.last_version, self.version, self.next_text, self.next_branch, self.next_tree)
        versions = [*self.branches[1::5], *self.recent[::5], self.version, 0]
        if not lie_within(ordered, 0, NUMBER_MAX) or not lie_within(versions, 0, self.last_version + 1):
            return f"commit {self.sequence} made version {self.version} of {self.last_version}"
        if not is_time(self.timestamp) or self.next_tree >= TREE_MAX:
            return f"it was made at {self.timestamp}, and the next tree is {self.next_tree}"
        firsts, counts = self.written[::2], self.written[1::2]
        lists = {
            "added": self.added, "dead": self.dead[1::3], "recent": self.recent[1::5], "branches": self.branches[2::5],
            "runs": [run.page or FIRST_PAGE for run in (self.catalog, self.settings, self.checkpoint)],
            "written": [*firsts, *(first + n - 1 for first, n in zip(firsts, counts, strict=True))],
        }  # fmt: skip
        for name, pages in lists.items():
            if not lie_within(pages, FIRST_PAGE, self.top):
                return f"its list {name!r} has pages that are not among the {self.top} of the store"
        return None if lie_within(self.removed, FIRST_PAGE, PAGES) else "its list 'removed' has pages that cannot be"


def lie_within(numbers: Sequence[int], least: int, end: int) -> bool:
    """Whether least <= n < end for all numbers."""
    return not numbers or (least <= min(numbers) and max(numbers) < end)


def is_time(timestamp: int) -> bool:
    """Whether so many microseconds since 1970 are a time that `datetime` knows."""
    return 0 <= timestamp < TIME_END


def checkpoint_of(mapping: Mapping, commit: Commit) -> np.ndarray:
    """Pages that are free by a commit's checkpoint, int64[n], ascending. Raises CorruptionError."""
    if not commit.checkpoint.page:
        return np.zeros(0, np.int64)
    extents = Reader(mapping.read_run(commit.checkpoint), FREE).take_list(2)
    firsts, counts = extents[::2], extents[1::2]
    most = commit.top + len(commit.removed)  # the file may have been longer then, and those pages have been removed
    pages = np.zeros(0, np.int64)
    if lie_within(counts, 1, most + 1) and lie_within(firsts, FIRST_PAGE, PAGES) and sum(counts) <= most:
        pages = np.concatenate([pages, *map(np.arange, firsts, map(add, firsts, counts))])
    removed = np.array(commit.removed, np.int64)
    odd = np.concatenate([np.setdiff1d(pages[pages >= commit.top], removed), np.setdiff1d(removed, pages)])
    if len(pages) != sum(counts) or len(odd) or (np.diff(pages) <= 0).any():
        raise CorruptionError("the list of free pages says what cannot be", page=commit.checkpoint.page)
    return pages


_WORDS = (
    "sequence", "version", "administrative", "parent", "branch", "timestamp",
    "last_version", "next_tree", "next_branch", "next_text", "top", "checksum",
)  # fmt: skip
_RUNS = ("catalog", "settings", "checkpoint")
_LISTS = "roots", "system", "branches", "recent", "dead", "written", "added", "removed"
