"""The file as one int64 array, and records in consecutive pages of it ("runs")."""

import errno
import os
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from pagestore.errors import CorruptionError, ForkError
from pagestore.pages.layout import (
    BIRTH,
    CRC,
    ENTRY_COUNT,
    HEADER,
    ID,
    RUN,
    STAMP,
    TYPE,
    WORD,
    Pages,
    page_type_fields,
)
from pagestore.runtime.kernel import TypedKernel
from pagestore.runtime.lazy import crc32c
from pagestore.runtime.types import Words
from pagestore.storage.file import File
from pagestore.storage.invalidated import Invalidated
from pagestore.storage.kernels.record import lay_out
from pagestore.storage.records import WordList

GROWTH_MIN, GROWTH_MAX = 1 << 18, 1 << 26  # bytes the file grows by
# a list of no more is looked through one by one, since that is faster than calls of numpy
FEW_PAGES = 32
FULL = errno.ENOSPC, errno.EDQUOT, errno.EFBIG

LAY_OUT = TypedKernel(lay_out, Words, int, int, int, int, Words, Words, int)


class Run(NamedTuple):
    """A record in consecutive pages: its first page and its length in words. Page 0 means there is
    no record.

    Above its low 32 bits, `words` has the record's stamp, 0 if unknown.
    """

    page: int
    words: int

    @property
    def length(self) -> int:
        """The length of the record in words."""
        return self.words & LENGTHS

    @property
    def stamp(self) -> int:
        """The record's stamp; 0 if unknown."""
        return self.words >> LENGTH_BITS

    def ids(self, page_words: int) -> range:
        """Return the pages of the record; none for page 0."""
        return range(self.page, self.page + (run_pages(self.words, page_words) if self.page else 0))


LENGTH_BITS = 32  # of `words`
LENGTHS = (1 << LENGTH_BITS) - 1
NO_RUN = Run(0, 0)


def run_pages(words: int, page_words: int) -> int:
    """Return how many pages a record of `words` words takes, ignoring bits above the length."""
    return max(1, -(-(words & LENGTHS) // (page_words - HEADER)))


def pages_of_run(
    run: Run, record: WordList, birth: int, purpose: int, page_words: int
) -> tuple[np.ndarray, np.ndarray]:
    """Lay out a record, padded with zeros, in an arena; return it and page ids.
    `File.write_pages` stamps the pages.
    """
    page, words = run
    assert len(record) <= words, f"a record of {len(record)} words in a run of {words}"
    n = run_pages(words, page_words)
    arena, ids = np.empty(n * page_words, np.int64), np.empty(n, np.int64)
    LAY_OUT.call(
        np.frombuffer(record, np.int64), words, page, birth, purpose, arena, ids, page_words
    )
    return arena, ids


class Mapping:
    """The file as one int64 array, and which pages were verified. Grows; old arrays stay."""

    def __init__(self, file: File, page_size: int, whole: bool = True):
        self.file = file
        self._whole = whole  # whether a file that is too short is refused
        self.page_size = page_size
        self._seen = np.zeros(0, np.uint8)
        self.pages = Pages(np.zeros(0, np.int64), self._seen, page_size // WORD)
        self.valid = True  # until `invalidate`
        open_mappings.add(self)

    def invalidate(self, error: type[Exception], why: str) -> None:
        """Make every further use of the pages raise an error: they may have been reused."""
        self.valid = False
        self.pages = cast(Any, Invalidated(error, why))

    def cover(self, top: int) -> None:
        """Map the file anew if pages below `top` are not in the map yet. Raise CorruptionError
        if it is too short.
        """
        if top <= len(self.pages.seen):
            return
        count = self.file.size() // self.page_size
        if count < top and self._whole:
            raise CorruptionError(
                f"the file is cut off: it holds {count} pages and the store says {top}"
            )
        if count > len(self._seen):
            seen = np.zeros(2 * count, np.uint8)
            seen[: len(self._seen)] = self._seen
            self._seen = seen
        words = self.file.map(count * self.page_size)
        self.pages = Pages(words, self._seen[:count], self.page_size // WORD)

    def grow(self, top: int, spare: int = 0) -> None:
        """Make the file and the map hold all pages below `top`, `spare` more, and some to grow
        into.

        The last `spare` pages of a full disk are left to commits that free space. Raise
        OSError(ENOSPC).
        """
        if top + spare <= len(self.pages.seen):
            return
        size = self.file.size()
        ample = min(max(size // 8, GROWTH_MIN), GROWTH_MAX)
        for more in (ample, GROWTH_MIN, 0):  # on a nearly full disk, ask for little
            end = (
                -(-max((top + spare) * self.page_size, size + more) // self.page_size)
                * self.page_size
            )
            try:
                self.file.fallocate(size, end - size)
                break
            except OSError as error:
                if error.errno not in FULL:
                    raise
                short = end - size
        else:
            raise OSError(
                errno.ENOSPC,
                f"no room on the disk: {short} bytes more are needed; make room there, or vacuum "
                f"or compact the store",
                str(self.file.path),
            )
        self.cover(top + spare)

    def shrink(self, count: int) -> None:
        """Map the first `count` pages, which the file is to end after. Old arrays must not be
        read past its end.
        """
        words = self.file.map(count * self.page_size)
        self.pages = Pages(words, self._seen[:count], self.page_size // WORD)

    def follow(self) -> None:
        """Map the file as long as it is now, and verify pages again: another process wrote."""
        size = self.file.size()
        if size // self.page_size < len(self.pages.seen):
            self.file.was_cut(size)
            self.shrink(size // self.page_size)
        else:
            self.cover(size // self.page_size)
        self.forget()

    def forget(self) -> None:
        """Verify every page again: another process may have reused some."""
        self._seen = np.zeros(len(self._seen), np.uint8)
        self.pages = self.pages._replace(seen=self._seen[: len(self.pages.seen)])

    def birth_of(self, page: int) -> int:
        """Return which version wrote a page, by its header, unverified. Raise CorruptionError."""
        if not 0 <= page < len(self.pages.seen):
            raise CorruptionError("there is no such page", page=page)
        at = page * self.page_size + BIRTH * WORD
        return int.from_bytes(self.file.pread(WORD, at), "little", signed=True)

    def read_run(self, run: Run) -> np.ndarray:
        """Return the words of a run, each page verified. O(words).

        Read a copy, not the map: another process may reuse the pages, or cut the file, at any
        moment.
        """
        page_words = self.pages.page_words
        ids = run.ids(page_words)
        if not 0 < ids.start < ids.stop:
            raise CorruptionError(f"a run of {run.length} words cannot start there", page=run.page)
        if ids.stop > self.file.size() // self.page_size:
            raise CorruptionError("the file is cut off before its end", page=run.page)
        data = self.file.pread(len(ids) * self.page_size, ids.start * self.page_size)
        words = np.frombuffer(data.ljust(len(ids) * self.page_size, b"\0"), np.int64)
        birth, stamp = int(words[BIRTH]), run.stamp or int(words[STAMP])
        parts = []
        for i, page in enumerate(ids):
            part = words[i * page_words : (i + 1) * page_words]
            fault = page_fault(part, page)
            if fault:
                raise CorruptionError(fault, page=page)
            if (
                page_type_fields(int(part[TYPE]))[0] != RUN
                or not 0 <= part[ENTRY_COUNT] <= (page_words - HEADER) * WORD
            ):
                raise CorruptionError(
                    "a run was expected here, and the page is of another kind", page=page
                )
            if (int(part[BIRTH]), int(part[STAMP])) != (birth, stamp):
                raise CorruptionError("it holds another record than it should", page=page)
            parts.append(part[HEADER : HEADER + int(part[ENTRY_COUNT]) // WORD])
        content = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if len(content) != run.length:
            raise CorruptionError(
                f"the run holds {len(content)} words, not {run.length}", page=run.page
            )
        return content


def _disown() -> None:
    """Invalidate all maps in a forked child, since the parent goes on to reuse their pages."""
    for mapping in open_mappings:
        path = mapping.file.path
        mapping.invalidate(
            ForkError, f"the handle of {path} came through a fork; open the store in this process"
        )


open_mappings: weakref.WeakSet[Mapping] = weakref.WeakSet()
os.register_at_fork(after_in_child=_disown)


def page_fault(words: np.ndarray, page: int) -> str | None:
    """Return what is wrong with the bytes of a page, or None.

    `words` is the page, int64[page_size / 8].
    """
    if int(words[CRC]) != crc32c.crc32c(words[1:].data):
        return "its checksum does not match its bytes"
    return f"it says that it is page {int(words[ID])}" if int(words[ID]) != page else None


def extents_of(pages: Sequence[int] | np.ndarray) -> list[int]:
    """Return ascending pages as runs (first, count).

    >>> extents_of([3, 4, 5, 9])
    [3, 3, 9, 1]
    """
    if len(pages) <= FEW_PAGES:
        few: list[int] = []
        for page in map(int, pages):
            if few and page == few[-2] + few[-1]:
                few[-1] += 1
            else:
                few += page, 1
        return few
    array = np.asarray(pages, np.int64)
    starts = np.flatnonzero(np.diff(array, prepend=array[0] - 2) != 1)
    counts = np.diff(starts, append=len(array))
    return np.stack([array[starts], counts], axis=1).ravel().tolist()
