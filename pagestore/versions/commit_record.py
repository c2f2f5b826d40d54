"""The record of a commit: int64 words in a run of pages (docs/format.md; storage/records.py for
lists and texts).
"""

import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import add
from typing import Any

import numpy as np

from pagestore.errors import CorruptionError
from pagestore.pages.layout import CRC, FIRST_PAGE, PAGE_MASK
from pagestore.runtime.kernel import TypedKernel
from pagestore.storage.kernels.record import (
    COMMIT,
    HEAD,
    WIDTHS,
    Counting,
    RecordRun,
    Span,
    gather,
    write_commit,
)
from pagestore.storage.mapping import NO_RUN, Mapping, Run, run_pages
from pagestore.storage.meta import NUMBER_END
from pagestore.storage.pager import STORE_LINEAGE, Pager
from pagestore.storage.records import (
    FREE,
    RecordReader,
    WordList,
    empty_list,
    put_text,
    rows,
    to_word_list,
    word_list,
)

TREE_END = 1 << 32  # above every tree number, which has 32 bits in a page's type word
TIME_END = 253_402_300_800 * 10**6  # microseconds from 1970 to the year 10000

GATHER = TypedKernel(gather)
WRITE = TypedKernel(write_commit)


@dataclass(slots=True)
class Commit:
    """One commit: a version (unless it is administrative) and the state of the whole store after
    it.

    Each list holds its rows one after the other; WIDTHS gives the words of a row.
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
    top: int = 0  # pages from this number on were never used
    catalog: Run = NO_RUN
    settings: Run = NO_RUN
    checkpoint: Run = NO_RUN
    checksum: int = 0  # sum of the crc32c of all pages in `written`
    roots: WordList = field(default_factory=empty_list)  # tree, root, height, count
    system: WordList = field(default_factory=empty_list)  # the same, for the store's own trees
    # branch, head version, its page, its words, origin
    branches: WordList = field(default_factory=empty_list)
    recent: WordList = field(default_factory=empty_list)  # version, page, words, timestamp, branch
    dead: WordList = field(default_factory=empty_list)  # lineage, page, birth
    written: WordList = field(default_factory=empty_list)  # first page, count
    added: WordList = field(default_factory=empty_list)  # pages free since the checkpoint
    removed: WordList = field(default_factory=empty_list)  # pages of the checkpoint that are in use
    message: str = ""

    def gather_arguments(self) -> WordList:
        """Return words and addresses for storage/kernels/record.py to gather a record; valid
        until a list changes.
        """
        said = array("q", (
            COMMIT, self.sequence, self.version, self.administrative, self.parent, self.branch,
            self.timestamp, self.last_version, self.next_tree, self.next_branch, self.next_text,
            self.top, self.checksum, *self.catalog, *self.settings, *self.checkpoint,
            *self.roots.buffer_info(), *self.system.buffer_info(), *self.branches.buffer_info(),
            *self.recent.buffer_info(), *self.dead.buffer_info(), *self.written.buffer_info(),
            *self.added.buffer_info(), *self.removed.buffer_info(),
        ))  # fmt: skip
        if self.message:
            put_text(said, self.message.encode())
        else:
            said.append(0)
        return said

    def encode(self) -> WordList:
        """Encode the commit as a record. O(words)."""
        record = to_word_list(np.zeros(self.length(), np.int64))
        GATHER.call(
            np.frombuffer(self.gather_arguments(), np.int64), np.frombuffer(record, np.int64)
        )
        return record

    def dead_of_next(self) -> WordList:
        """Return the rows of the dead list that belong to the version after this commit: those
        of one without any.
        """
        return self.dead[:] if self.administrative else empty_list()

    def length(self) -> int:
        """Return the number of words of the record."""
        lists = (
            self.roots, self.system, self.branches, self.recent, self.dead, self.written,
            self.added, self.removed
        )  # fmt: skip
        text = -(-len(self.message.encode()) // 8) if self.message else 0
        return HEAD + len(WIDTHS) + sum(map(len, lists)) + 1 + text

    @classmethod
    def read(cls, mapping: Mapping, run: Run, version: int | None = None) -> "Commit":
        """Read the commit whose record is a run; if `version` is given, it must be the commit that
        made that version.

        Raises CorruptionError, also for a record that no commit would have written.
        """
        commit = cls.decode(mapping.read_run(run))
        if version is not None and (commit.version, commit.administrative) != (version, 0):
            raise CorruptionError(
                f"it holds the record of version {commit.version}, not of {version}", page=run.page
            )
        fault = commit._fault()
        if fault:
            raise CorruptionError(
                f"it holds a commit's record that says what cannot be: {fault}", page=run.page
            )
        return commit

    @classmethod
    def decode(cls, content: np.ndarray) -> "Commit":
        """Decode a commit from a record's words. Raises CorruptionError."""
        source = RecordReader(content, COMMIT)
        fields: dict[str, Any] = dict(
            zip(_WORDS, source.take_many(len(_WORDS)).tolist(), strict=True)
        )
        fields |= {name: Run(*source.take_many(2).tolist()) for name in _RUNS}
        fields |= {
            name: source.take_list(width) for name, width in zip(_LISTS, WIDTHS, strict=True)
        }
        return cls(message=source.take_text(), **fields)

    @staticmethod
    def read_dead(mapping: Mapping, run: Run, version: int) -> WordList:
        """Read only the dead list of the commit that made a version, which takes less than
        `read`. Raises as that.
        """
        source = RecordReader(mapping.read_run(run), COMMIT)
        said = dict(zip(_WORDS, source.take_many(len(_WORDS)).tolist(), strict=True))
        if (said["version"], said["administrative"]) != (version, 0):
            raise CorruptionError(
                f"it holds the record of version {said['version']}, not of {version}", page=run.page
            )
        source.take_many(2 * len(_RUNS))
        for width in WIDTHS[: _LISTS.index("dead")]:
            source.take_many(source.take() * width)
        dead = source.take_list(3)
        if not lie_within(dead[1::3], FIRST_PAGE, said["top"]):
            raise CorruptionError(
                "it holds a commit's record that replaced pages that cannot be", page=run.page
            )
        return dead

    def _fault(self) -> str | None:
        """Return why no commit would have written this record, or None."""
        ordered = (
            self.sequence,
            self.last_version,
            self.version,
            self.next_text,
            self.next_branch,
            self.next_tree,
        )
        versions = [*self.branches[1::5], *self.recent[::5], self.version, 0]
        if not lie_within(ordered, 0, NUMBER_END) or not lie_within(
            versions, 0, self.last_version + 1
        ):
            return f"commit {self.sequence} made version {self.version} of {self.last_version}"
        if not is_time(self.timestamp) or self.next_tree >= TREE_END:
            return f"it was made at {self.timestamp}, and the next tree is {self.next_tree}"
        firsts, counts = self.written[::2], self.written[1::2]
        lists = {
            "added": self.added, "dead": self.dead[1::3], "recent": self.recent[1::5],
            "branches": self.branches[2::5],
            "runs": [run.page or FIRST_PAGE for run in (self.catalog, self.settings,
            self.checkpoint)],
            "written": [*firsts, *(first + n - 1 for first, n in zip(firsts, counts, strict=True))],
        }  # fmt: skip
        for name, pages in lists.items():
            if not lie_within(pages, FIRST_PAGE, self.top):
                return f"its list {name!r} has pages that are not among the {self.top} of the store"
        if lie_within(self.removed, FIRST_PAGE, PAGE_MASK):
            return None
        return "its list 'removed' has pages that cannot be"


class RecordRoom:
    """The arrays for writing records, used by one commit after the other."""

    def __init__(self) -> None:
        self._arrays: list[np.ndarray] = []

    def write(self, pager: Pager, run: Run, record: Commit, used: np.ndarray) -> None:
        """Record used pages in the free list, and write a record with the resulting free pages.
        Raises OSError.
        """
        space = pager.free_list
        file = pager.mapping.file
        page_words = pager.mapping.pages.page_words
        freed, used, lists, place = space.to_count(used)
        n, said = run_pages(run.words, page_words), record.gather_arguments()
        room, arena, ids = self._of(run.words, n * page_words, n)
        counting = Counting(Span(*freed.buffer_info()), used, lists, place)
        target = RecordRun(room, run.page, pager.version, arena, ids)
        words = Span(*said.buffer_info())
        written = WRITE.call(
            file.page_writer, words, counting, target, page_words, pager.mapping.pages.seen
        )
        assert written >= 0, f"a record that is longer than its run of {run.words} words"
        record.added, record.removed = space.difference()
        if written == n:
            file.wrote(ids)
        else:
            file.write_pages(arena, ids, page_words)

    def _of(self, *sizes: int) -> list[np.ndarray]:
        """Return arrays int64 of some sizes: those of the commit before if as large."""
        if [*map(len, self._arrays)] != [*sizes]:
            self._arrays = [np.empty(size, np.int64) for size in sizes]
        return self._arrays


def lie_within(numbers: Sequence[int], least: int, end: int) -> bool:
    """Return whether least <= n < end for all numbers."""
    return not numbers or (least <= min(numbers) and max(numbers) < end)


def is_time(timestamp: int) -> bool:
    """Return whether a number of microseconds since 1970 is a time that `datetime` can represent."""
    return 0 <= timestamp < TIME_END


def time_now() -> int:
    """Microseconds since 1970 by the clock, but before TIME_END."""
    return min(max(time.time_ns() // 1000, 0), TIME_END - 1)


def divide(dead: WordList, newest: int, freed: WordList) -> WordList:
    """Return the rows of a dead list that versions up to `newest` need; the pages of the others
    are added to `freed`.
    """
    needed = [birth <= newest or lineage != STORE_LINEAGE for lineage, _, birth in rows(dead, 3)]
    freed.extend(page for keep, page in zip(needed, dead[1::3], strict=True) if not keep)
    return word_list(*compress(rows(dead, 3), needed))


def checkpoint_of(mapping: Mapping, commit: Commit) -> np.ndarray:
    """The free pages by a commit's checkpoint, int64[n], ascending. Raises CorruptionError."""
    if not commit.checkpoint.page:
        return np.zeros(0, np.int64)
    extents = RecordReader(mapping.read_run(commit.checkpoint), FREE).take_list(2)
    firsts, counts = extents[::2], extents[1::2]
    most = commit.top + len(commit.removed)  # `removed` has pages of a file that was longer then
    pages = np.zeros(0, np.int64)
    if (
        lie_within(counts, 1, most + 1)
        and lie_within(firsts, FIRST_PAGE, PAGE_MASK)
        and sum(counts) <= most
    ):
        pages = np.concatenate([pages, *map(np.arange, firsts, map(add, firsts, counts))])
    removed = np.array(commit.removed, np.int64)
    odd = np.concatenate(
        [np.setdiff1d(pages[pages >= commit.top], removed), np.setdiff1d(removed, pages)]
    )
    if len(pages) != sum(counts) or len(odd) or (np.diff(pages) <= 0).any():
        raise CorruptionError(
            "the list of free pages says what cannot be", page=commit.checkpoint.page
        )
    return pages


def checksum_of(mapping: Mapping, ids: np.ndarray) -> int:
    """Return the sum of the checksums of pages."""
    return int(mapping.pages.words[ids * mapping.pages.page_words + CRC].sum())


def free_pages_of(mapping: Mapping, commit: Commit) -> np.ndarray:
    """Return the pages that are free by a commit's checkpoint, for one that is to write. Raises
    CorruptionError.
    """
    try:
        return checkpoint_of(mapping, commit)
    except CorruptionError as error:
        raise CorruptionError(
            f"the list of free pages does not read ({error}), so nothing can be written; mode='r' "
            "reads the store, pagestore fsck --salvage copies it",
            page=error.page,
        ) from error


_WORDS = (
    "sequence", "version", "administrative", "parent", "branch", "timestamp",
    "last_version", "next_tree", "next_branch", "next_text", "top", "checksum",
)  # fmt: skip
_RUNS = ("catalog", "settings", "checkpoint")
_LISTS = "roots", "system", "branches", "recent", "dead", "written", "added", "removed"
