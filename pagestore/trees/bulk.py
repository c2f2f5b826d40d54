"""Build trees from records in key order, from the leaves up; several trees at once on several threads.

level 1    (1, page 7) (5, page 8) ...         a page's entry waits in the buffer of the level above
             |           |
level 0    [1 2 3 4]   [5 6 7 8]   9 10 ..     records wait until they fill a page"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from threading import Lock
from typing import Any

import numpy as np

from pagestore.errors import OrderError
from pagestore.pages.layout import HEIGHT_MAX
from pagestore.runtime.parallel import together
from pagestore.sorting.tuples import Coded, ascending, count_of
from pagestore.trees.kernels import bulk as k_bulk
from pagestore.trees.scratch import scratch
from pagestore.trees.tree import Pager, Spec, Tree, fold_array

PARALLEL_FROM = 1 << 14  # records from which trees are built side by side
BULK_PAGES = 256  # pages that `bulk` writes at once
UNSHARED = nullcontext()


def bulk(pager: Pager, spec: Spec, batches: Iterable[np.ndarray], turn: AbstractContextManager[Any] = UNSHARED) -> Tree:
    """Build a tree from batches[C, n] that ascend strictly by key over all; streams.

    A sixteenth of each page stays free for the first edits.

    `turn` is held while the pager is used, since other threads may use it meanwhile. Raises OrderError naming the
    first record out of order.  Memory is bounded by the arena.
    """
    pages, room = pager.pages, scratch()
    room.fit(pages.page_words, BULK_PAGES, spec.columns, len(spec.scans), 0)
    arena, work = room.arena, room.work
    node = np.empty_like(room.node)  # not the scratch's: `batches` may apply edits while records wait here
    sizes = np.zeros(HEIGHT_MAX, np.int64)
    last = np.zeros(spec.keys, np.int64)
    shape = (pages.page_words, spec.keys, spec.values, fold_array(spec))
    count = 0
    for batch in batches:
        batch = np.ascontiguousarray(batch, np.int64)
        progress = np.zeros(3, np.int64)
        while progress[k_bulk.TAKEN] < batch.shape[1]:
            with turn:
                ids = pager.reserve(BULK_PAGES)
            k_bulk.load_records(
                *shape, batch, arena, ids, pager.version, spec.tree_id, node, sizes, last, progress, work
            )  # fmt: skip
            with turn:
                _flush(pager, arena, ids, int(progress[k_bulk.USED]))
            if progress[k_bulk.UNSORTED]:
                row = int(progress[k_bulk.TAKEN])
                raise OrderError(
                    f"record {count + row}: key {tuple(batch[: spec.keys, row].tolist())} is not above its "
                    "predecessor; sort the input by its key and drop duplicates"
                )
        count += batch.shape[1]
    with turn:
        return _finish_bulk(pager, spec, shape, arena, node, work, sizes, count)


def bulk_all(pager: Pager, loads: Sequence[tuple[Spec, Sequence[np.ndarray | Coded]]]) -> list[Tree]:
    """Build a tree from each spec and the parts[C, n] of its records, in any order; uses the pager's threads."""
    turn, jobs = Lock(), iter(enumerate(loads))

    def work() -> list[tuple[int, Tree]]:
        return [(i, bulk(pager, spec, ascending(parts), turn)) for i, (spec, parts) in jobs]

    many = sum(count_of(part) for _, parts in loads for part in parts) >= PARALLEL_FROM
    found = together([work] * min(pager.threads if many else 1, len(loads)))
    return [tree for _, tree in sorted(chain(*found))]


def _finish_bulk(
    pager: Pager,
    spec: Spec,
    shape: tuple[Any, ...],
    arena: np.ndarray,
    node: np.ndarray,
    work: np.ndarray,
    sizes: np.ndarray,
    count: int,
) -> Tree:
    sizes[-1] = 0
    if not count:
        return Tree.empty(spec)
    level = 0
    progress = np.zeros(3, np.int64)
    while level == 0 or sizes[level] > 1 or sizes[level + 1 :].any():
        ids = pager.reserve(BULK_PAGES)
        k_bulk.finish_level(*shape, arena, ids, pager.version, spec.tree_id, level, node, sizes, progress, work)
        _flush(pager, arena, ids, int(progress[k_bulk.USED]))
        level += not sizes[level]
    return Tree.at(int(node[level, spec.keys, 0]), level, count, spec, pager.version)


def _flush(pager: Pager, arena: np.ndarray, ids: np.ndarray, used: int) -> None:
    pager.write(arena, ids[:used])
    pager.release(ids[used:])
