"""Build trees from records in key order, from the leaves up; several trees at once on several
threads.

level 1    (1, page 7) (5, page 8) ...         a page's entry waits in the buffer of the level above
             |           |
level 0    [1 2 3 4]   [5 6 7 8]   9 10 ..     records wait until they fill a page

A tree whose greatest key is below all new ones is loaded on: its last page of each level goes back
to the buffer of that level, as if the pages before it had just been written.

Trees built by several processes, a range of keys each, as segments: files of pages, which one
process appends.

    segment 0   [..][..][..]     pages 40 41 42, numbered from the page where it was expected to begin
    segment 1   [..][..]         pages 40 41, which begin at 43: each says its number plus 3, as the index pages
                                 say of their children, whose column gets another base
    the tree    [..][..][..] [..][..] [.. a root over both ..]

Page numbers, and the bases of the columns of children, are all that depends on where a segment
begins. A tree of one segment that begins where it was expected to is, byte for byte, the tree that
`bulk` builds.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, pairwise
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from pagestore.errors import CorruptionError, OrderError, SchemaError
from pagestore.pages.layout import (
    BIRTH,
    ENTRY_COUNT,
    HEADER,
    HEIGHT_MAX,
    ID,
    INDEX,
    RECORDS_A_WORD,
    TYPE,
    WORD,
    Pages,
    page_columns,
)
from pagestore.runtime.kernel import TypedKernel
from pagestore.runtime.parallel import together
from pagestore.sorting.tuples import Coded, ascending, count_of
from pagestore.storage.file import File
from pagestore.storage.mapping import page_fault
from pagestore.trees.kernels import build as k_bulk
from pagestore.trees.kernels.arguments import FreshPages, Loading
from pagestore.trees.read import UNPACK
from pagestore.trees.scratch import node_buffers, scratch
from pagestore.trees.tree import CHILD, ENTER, FreshPager, Pager, Spec, Tree, checked, shape_of

PARALLEL_FROM = 1 << 14  # records from which trees are built in parallel
BULK_PAGES = 256  # pages that `bulk` writes at once
UNSHARED = nullcontext()

LOAD = TypedKernel(k_bulk.load_records)
FINISH = TypedKernel(k_bulk.finish_level)


class Built(NamedTuple):
    """A tree, the entry of its root a level above (key, page, folds, birth), the greatest key."""

    tree: Tree
    entry: tuple[int, ...]
    last: tuple[int, ...]


def bulk(
    pager: Pager,
    spec: Spec,
    batches: Iterable[np.ndarray],
    turn: AbstractContextManager[Any] = UNSHARED,
) -> Tree:
    """Build a tree from batches[C, n] that ascend strictly by key over all; streams.

    A sixteenth of each page stays free for the first edits.

    The lock `turn` is held while the pager is used, since other threads may use it too. Raises
    OrderError naming the first record out of order.  Memory is bounded by the arena.
    """
    return build(pager, Tree.empty(spec), batches, turn).tree


def append(pager: Pager, tree: Tree, batches: Iterable[np.ndarray]) -> Tree:
    """Load a tree on with batches[C, n] like `bulk`, whose keys are all above its last one.

    Replaces one page of each level. Raises OrderError, CorruptionError. O(height + pages made).
    """
    spine = _last_pages(pager.pages, tree)
    built = build(pager, tree, batches)
    words, page_words = pager.pages.words, pager.pages.page_words
    replaced = [(page // page_words, words[page + BIRTH]) for page in spine]
    pager.retire(np.array(replaced, np.int64).reshape(-1, 2))
    return built.tree


def build(
    pager: FreshPager,
    tree: Tree,
    batches: Iterable[np.ndarray],
    turn: AbstractContextManager[Any] = UNSHARED,
) -> Built:
    """Load a tree on, mostly an empty one, like `append`, without retiring pages; also return
    its root's entry.
    """
    spec, count = tree.spec, tree.count
    pages, room = pager.pages, scratch()
    room.fit(pages.page_words, BULK_PAGES, spec.columns, len(spec.scans), 0)
    # not the scratch's: `batches` may apply edits while records wait here
    node = node_buffers(*room.node.shape[1:])
    loading = Loading(node, np.zeros(HEIGHT_MAX, np.int64), np.zeros(3, np.int64), room.work)
    last = _resume(pages, tree, loading)
    shape, progress = shape_of(spec), loading.progress
    for batch in batches:
        batch = np.ascontiguousarray(batch, np.int64)
        if len(batch) != spec.columns and batch.shape[1]:
            raise SchemaError(
                f"a tree of {spec.columns} columns is built of "
                f"int64{[spec.columns, batch.shape[1]]}, not of {[*batch.shape]}"
            )
        progress.fill(0)
        while progress[k_bulk.TAKEN] < batch.shape[1]:
            with turn:
                fresh = FreshPages(
                    room.arena, pager.reserve(BULK_PAGES), pager.version, pages.page_words
                )
            LOAD.call(shape, batch, fresh, last, loading)
            with turn:
                _flush(pager, fresh, int(progress[k_bulk.USED]))
            if progress[k_bulk.UNSORTED]:
                row = int(progress[k_bulk.TAKEN])
                raise OrderError(
                    f"record {count + row}: key {tuple(batch[: spec.keys, row].tolist())} is not "
                    "above its predecessor; sort the input by its key and drop duplicates"
                )
        count += batch.shape[1]
    with turn:
        tree = _finish_bulk(pager, spec, room.arena, loading, count)
    entry = loading.node[tree.height, : spec.keys + 2 + len(spec.scans), 0] if count else last[:0]
    return Built(tree, tuple(entry.tolist()), tuple(last.tolist()))


def _last_pages(pages: Pages, tree: Tree) -> list[int]:
    """Return where the last page of each level begins, the root first. Raises CorruptionError."""
    spec, numbers = tree.spec, list[int]()
    for level in range(tree.height - 1, -1, -1):
        columns = spec.columns if level == 0 else spec.keys + 1 + len(spec.scans)
        if numbers:
            last = int(pages.words[numbers[-1] + ENTRY_COUNT]) - 1
            page = CHILD.call(pages, numbers[-1], spec.keys, last, level, columns)
        else:
            page = ENTER.call(pages, tree.pointer, level, columns)
        numbers.append(checked(page, spec))
    return numbers


def _resume(pages: Pages, tree: Tree, loading: Loading) -> np.ndarray:
    """Fill the node buffers with the last page of each level, without the child that is below it;
    return the last key.

    A page of format 1, which has no births, gives births 0: unknown.
    """
    keys = tree.spec.keys
    last = np.zeros(keys, np.int64)
    for level, page in enumerate(reversed(_last_pages(pages, tree))):
        node, n = loading.node[level], int(pages.words[page + ENTRY_COUNT]) - (level > 0)
        node[:, :n] = 0
        for column in range(page_columns(int(pages.words[page + TYPE]))):
            UNPACK.call(pages.words, page, column, 0, n, node[column], 0)
        loading.sizes[level] = n
        if level == 0:
            last[:] = node[:keys, n - 1]
    loading.sizes[-1] = tree.count > 0
    return last


def bulk_all(
    pager: Pager, loads: Sequence[tuple[Spec, Sequence[np.ndarray | Coded]]]
) -> list[Tree]:
    """Build a tree of each spec and its records, parts[C, n] in any order, by threads."""
    turn, jobs = Lock(), iter(enumerate(loads))

    def work() -> list[tuple[int, Tree]]:
        return [(i, bulk(pager, spec, ascending(parts), turn)) for i, (spec, parts) in jobs]

    many = sum(count_of(part) for _, parts in loads for part in parts) >= PARALLEL_FROM
    loaded = together([work] * min(pager.threads if many else 1, len(loads)))
    return [tree for _, tree in sorted(chain(*loaded))]


def level_above(pager: FreshPager, spec: Spec, level: int, entries: np.ndarray) -> np.ndarray:
    """Write the pages of a level over entries[C, n] of the level below; return the entries of the
    pages written.

    At most RECORDS_A_WORD entries for each word of a page."""
    room = scratch()
    room.fit(pager.pages.page_words, BULK_PAGES, spec.columns, len(spec.scans), 0)
    loading = Loading(room.node, np.zeros(HEIGHT_MAX, np.int64), np.zeros(3, np.int64), room.work)
    columns, n = entries.shape
    loading.node[level, :columns, :n] = entries
    loading.sizes[level] = n
    _finish_level(pager, spec, room.arena, loading, level)
    return loading.node[level + 1, :columns, : loading.sizes[level + 1]].copy()


def _finish_bulk(
    pager: FreshPager, spec: Spec, arena: np.ndarray, loading: Loading, count: int
) -> Tree:
    """Write the entries waiting on each level, up to the root."""
    sizes = loading.sizes
    sizes[-1] = 0
    if not count:
        return Tree.empty(spec)
    level = 0
    while level == 0 or sizes[level] > 1 or sizes[level + 1 :].any():
        _finish_level(pager, spec, arena, loading, level)
        level += 1
    return Tree.at(int(loading.node[level, spec.keys, 0]), level, count, spec, pager.version)


def _finish_level(
    pager: FreshPager, spec: Spec, arena: np.ndarray, loading: Loading, level: int
) -> None:
    """Write the entries waiting on a level."""
    loading.progress.fill(0)
    while loading.sizes[level]:
        fresh = FreshPages(arena, pager.reserve(BULK_PAGES), pager.version, pager.pages.page_words)
        FINISH.call(shape_of(spec), fresh, level, loading)
        _flush(pager, fresh, int(loading.progress[k_bulk.USED]))


def _flush(pager: FreshPager, fresh: FreshPages, used: int) -> None:
    """Write the first pages of the arena, and give back the numbers of the others."""
    pager.write(fresh.arena, fresh.ids[:used])
    pager.release(fresh.ids[used:])


KIND = 255  # the bits of a type word that hold a page's kind


class Segment(NamedTuple):
    """A tree in a file of its own: `pages` pages, numbered from `first` on, the root last.

    `entry` is what a page above says of the root: its least key, its number, its folds, its birth.
    `last` is the greatest key.
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
    """Build a tree from batches[C, n] that ascend strictly by key as a new file of pages numbered
    from `first` on.

    As `bulk`, but into that file; any process may do it, and `version` is the one that will append
    it.
    """
    pager = SegmentPager(file, first, version, page_words)
    try:
        built = build(pager, Tree.empty(spec), batches)
    finally:
        pager.close()
    pages, tree = pager.next - first, built.tree
    return Segment(str(file), pages, first, tree.count, tree.height, built.entry, built.last)


def stitch(pager: Pager, spec: Spec, segments: Sequence[Segment]) -> Tree:
    """Append segments, which ascend by key, and put one tree over them. O(pages), which are copied.

    A lower one gets pages of one entry until it is as high as the others. Raises OrderError where
    one does not begin above the last key of the one before, CorruptionError for a file that is not
    what was built.
    """
    segments = [segment for segment in segments if segment.records]
    for one, other in pairwise(segments):
        if one.last >= (begin := other.entry[: spec.keys]):
            raise OrderError(
                f"a segment begins with the key {begin}, which is not above {one.last}, where one "
                f"ends"
            )
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
        entries = np.concatenate(
            [level_above(pager, spec, height, part) for part in _parts(pager, entries)], axis=1
        )
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
            raise CorruptionError(
                f"{segment.file} has not the {segment.pages} pages that were built; load again"
            )
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
