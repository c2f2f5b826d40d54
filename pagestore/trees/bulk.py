"""Build trees from records in key order, from the leaves up; several trees at once on several threads.

level 1    (1, page 7) (5, page 8) ...         a page's entry waits in the buffer of the level above
             |           |
level 0    [1 2 3 4]   [5 6 7 8]   9 10 ..     records wait until they fill a page"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from pagestore.errors import OrderError
from pagestore.pages.arguments import Shape
from pagestore.pages.layout import HEIGHT_MAX
from pagestore.runtime.arguments import Door, Table, Words
from pagestore.runtime.parallel import together
from pagestore.sorting.tuples import Coded, ascending, count_of
from pagestore.trees.kernels import bulk as k_bulk
from pagestore.trees.kernels.arguments import FreshPages, Loading
from pagestore.trees.scratch import node_buffers, scratch
from pagestore.trees.tree import FreshPager, Pager, Spec, Tree, shape_of

PARALLEL_FROM = 1 << 14  # records from which trees are built in parallel
BULK_PAGES = 256  # pages that `bulk` writes at once
UNSHARED = nullcontext()

LOAD = Door(k_bulk.load_records, Shape, Table, FreshPages, Words, Loading)
FINISH = Door(k_bulk.finish_level, Shape, FreshPages, int, Loading)


class Built(NamedTuple):
    """A tree, the entry of its root on the level above (key, page, folds, birth), and the greatest key."""

    tree: Tree
    entry: tuple[int, ...]
    last: tuple[int, ...]


def bulk(pager: Pager, spec: Spec, batches: Iterable[np.ndarray], turn: AbstractContextManager[Any] = UNSHARED) -> Tree:
    """Build a tree from batches[C, n] that ascend strictly by key over all; streams.

    A sixteenth of each page stays free for the first edits.

    The lock `turn` is held while the pager is used, since other threads may use it too. Raises OrderError naming the
    first record out of order.  Memory is bounded by the arena.
    """
    return build(pager, spec, batches, turn).tree


def build(
    pager: FreshPager, spec: Spec, batches: Iterable[np.ndarray], turn: AbstractContextManager[Any] = UNSHARED
) -> Built:
    """Do as `bulk`; return also what a level above the root needs."""
    pages, room = pager.pages, scratch()
    room.fit(pages.page_words, BULK_PAGES, spec.columns, len(spec.scans), 0)
    node = node_buffers(*room.node.shape[1:])  # not the scratch's: `batches` may apply edits while records wait here
    loading = Loading(node, np.zeros(HEIGHT_MAX, np.int64), np.zeros(3, np.int64), room.work)
    last = np.zeros(spec.keys, np.int64)
    shape, progress = shape_of(spec), loading.progress
    count = 0
    for batch in batches:
        batch = np.ascontiguousarray(batch, np.int64)
        progress.fill(0)
        while progress[k_bulk.TAKEN] < batch.shape[1]:
            with turn:
                fresh = FreshPages(room.arena, pager.reserve(BULK_PAGES), pager.version, pages.page_words)
            LOAD.call(shape, batch, fresh, last, loading)
            with turn:
                _flush(pager, fresh, int(progress[k_bulk.USED]))
            if progress[k_bulk.UNSORTED]:
                row = int(progress[k_bulk.TAKEN])
                raise OrderError(
                    f"record {count + row}: key {tuple(batch[: spec.keys, row].tolist())} is not above its "
                    "predecessor; sort the input by its key and drop duplicates"
                )
        count += batch.shape[1]
    with turn:
        tree = _finish_bulk(pager, spec, room.arena, loading, count)
    entry = loading.node[tree.height, : spec.keys + 2 + len(spec.scans), 0] if count else last[:0]
    return Built(tree, tuple(entry.tolist()), tuple(last.tolist()))


def bulk_all(pager: Pager, loads: Sequence[tuple[Spec, Sequence[np.ndarray | Coded]]]) -> list[Tree]:
    """Build a tree from each spec and its records, parts[C, n] in any order; uses the pager's threads."""
    turn, jobs = Lock(), iter(enumerate(loads))

    def work() -> list[tuple[int, Tree]]:
        return [(i, bulk(pager, spec, ascending(parts), turn)) for i, (spec, parts) in jobs]

    many = sum(count_of(part) for _, parts in loads for part in parts) >= PARALLEL_FROM
    found = together([work] * min(pager.threads if many else 1, len(loads)))
    return [tree for _, tree in sorted(chain(*found))]


def level_above(pager: FreshPager, spec: Spec, level: int, entries: np.ndarray) -> np.ndarray:
    """Write the pages of a level over entries[C, n] of the level below; return the entries of the pages written.

    At most RECORDS_A_WORD entries for each word of a page."""
    room = scratch()
    room.fit(pager.pages.page_words, BULK_PAGES, spec.columns, len(spec.scans), 0)
    loading = Loading(room.node, np.zeros(HEIGHT_MAX, np.int64), np.zeros(3, np.int64), room.work)
    columns, n = entries.shape
    loading.node[level, :columns, :n] = entries
    loading.sizes[level] = n
    _finish_level(pager, spec, room.arena, loading, level)
    return loading.node[level + 1, :columns, : loading.sizes[level + 1]].copy()


def _finish_bulk(pager: FreshPager, spec: Spec, arena: np.ndarray, loading: Loading, count: int) -> Tree:
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


def _finish_level(pager: FreshPager, spec: Spec, arena: np.ndarray, loading: Loading, level: int) -> None:
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
