"""Trees built by several processes, a range of keys each, as segments: files of pages, which one process appends.

    segment 0   [..][..][..]     pages 40 41 42, numbered from the page where it was expected to begin
    segment 1   [..][..]         pages 40 41, which begin at 43: each says its number plus 3, as the index pages
                                 say of their children, whose column gets another base
    the tree    [..][..][..] [..][..] [.. a root over both ..]

Page numbers, and the bases of the columns of children, are all that depends on where a segment begins. A tree of one
segment that begins where it was expected to is, byte for byte, the tree that `bulk` builds.
"""

import os
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pagestore.errors import CorruptionError, OrderError
from pagestore.pages.layout import HEADER, ID, INDEX, RECORDS_A_WORD, TYPE, WORD
from pagestore.pages.page_map import Pages
from pagestore.storage.file import File
from pagestore.storage.mapping import page_fault
from pagestore.trees.bulk import BULK_PAGES, build, level_above
from pagestore.trees.tree import Pager, Spec, Tree

KIND = 255  # the bits of a type word that hold a page's kind


class Segment(NamedTuple):
    """A tree in a file of its own: `pages` pages, numbered from `first` on, the root last.

    `entry` is what a page above says of the root: its least key, its number, its folds, its birth. `last` is the
    greatest key.
    """

    file: str
    pages: int
    first: int
    records: int
    height: int
    entry: tuple[int, ...]
    last: tuple[int, ...]


class SegmentPager:
    """Fresh pages at the end of a segment's file."""

    def __init__(self, file: Path, first: int, version: int, page_words: int) -> None:
        file.touch(exist_ok=False)
        self.version, self.first, self.next = version, first, first
        self.pages = Pages(np.zeros(0, np.int64), np.zeros(0, np.uint8), page_words)
        self._file = File(file, writable=True)

    def reserve(self, n: int) -> np.ndarray:
        """Return the next n pages."""
        self.next += n
        return np.arange(self.next - n, self.next)

    def release(self, ids: np.ndarray) -> None:
        """Give back the pages that were reserved last."""
        self.next -= len(ids)

    def write(self, arena: np.ndarray, ids: np.ndarray) -> None:
        """Write the first pages of an arena, checksums included."""
        if len(ids):
            self._file.write_pages(arena, ids - self.first, self.pages.page_words)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def build_segment(
    file: Path, spec: Spec, version: int, first: int, page_words: int, batches: Iterable[np.ndarray]
) -> Segment:
    """Build a tree from batches[C, n] that ascend strictly by key as a new file of pages numbered from `first` on.

    As `bulk`, but into that file; any process may do it, and `version` is the one that will append it.
    """
    pager = SegmentPager(file, first, version, page_words)
    try:
        built = build(pager, spec, batches)
    finally:
        pager.close()
    pages, tree = pager.next - first, built.tree
    return Segment(str(file), pages, first, tree.count, tree.height, built.entry, built.last)


def stitch(pager: Pager, spec: Spec, segments: Sequence[Segment]) -> Tree:
    """Append segments, which ascend by key, and put one tree over them. O(pages), which are copied.

    A lower one gets pages of one entry until it is as high as the others. Raises OrderError where one does not
    begin above the last key of the one before, CorruptionError for a file that is not what was built.
    """
    segments = [segment for segment in segments if segment.records]
    for one, other in pairwise(segments):
        if one.last >= (begin := other.entry[: spec.keys]):
            raise OrderError(f"a segment begins with the key {begin}, which is not above {one.last}, where one ends")
    if not segments:
        return Tree.empty(spec)
    height, tops = max(segment.height for segment in segments), []
    for segment in segments:
        top = _append(pager, spec, segment)[:, None]
        for level in range(segment.height, height):
            top = level_above(pager, spec, level, top)
        tops.append(top)
    entries = np.concatenate(tops, axis=1)
    while entries.shape[1] > 1:
        entries = np.concatenate([level_above(pager, spec, height, part) for part in _parts(pager, entries)], axis=1)
        height += 1
    records = sum(segment.records for segment in segments)
    return Tree.at(int(entries[spec.keys, 0]), height, records, spec, pager.version)


def _parts(pager: Pager, entries: np.ndarray) -> list[np.ndarray]:
    """Split entries into parts that fit a node buffer."""
    most = RECORDS_A_WORD * pager.pages.page_words
    return np.array_split(entries, -(-entries.shape[1] // most), axis=1)


def _append(pager: Pager, spec: Spec, segment: Segment) -> np.ndarray:
    """Append a segment's pages; returns the entry of its root, int64[C]."""
    page_words = pager.pages.page_words
    ids = pager.reserve_consecutive(segment.pages)
    moved = int(ids[0]) - segment.first
    with open(segment.file, "rb", buffering=0) as source:
        if os.fstat(source.fileno()).st_size != segment.pages * page_words * WORD:
            raise CorruptionError(f"{segment.file} has not the {segment.pages} pages that were built; load again")
        for at in range(0, segment.pages, BULK_PAGES):
            some = ids[at : at + BULK_PAGES]
            arena = np.fromfile(source, np.int64, len(some) * page_words)
            _move(arena.reshape(-1, page_words), some, moved, spec, segment.file)
            pager.write(arena, some)
    entry = np.array(segment.entry, np.int64)
    entry[spec.keys] += moved
    return entry


def _move(pages: np.ndarray, ids: np.ndarray, moved: int, spec: Spec, file: str) -> None:
    """Renumber pages[n, words] as ids[n], `moved` pages further on; `write` stamps the checksums."""
    for page, id_ in zip(pages, ids.tolist(), strict=True):
        fault = page_fault(page, id_ - moved)
        if fault:
            raise CorruptionError(f"{file}: page {id_ - moved}: {fault}; load again")
    pages[:, ID] = ids
    pages[pages[:, TYPE] & KIND == INDEX, HEADER + 2 * spec.keys] += moved
