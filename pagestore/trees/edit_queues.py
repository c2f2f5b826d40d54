"""Edit queues: a few edits of several groups of trees, flushed within one call of a host's kernel.

    queues.clear()
    queues.wait(0, actions, rows)
    txn.flush_queues(queues, host)      `host` calls a kernel, which flushes one queue after the other
    queues.changes(0)                   what changed in the first tree

Python takes longer between two calls of kernels than the calls take. See kernels/flush_queue.py.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from operator import add, attrgetter
from typing import NamedTuple

import numpy as np

from pagestore.storage.pager import Pager
from pagestore.trees.kernels import flush_queue as kernel
from pagestore.trees.kernels.apply_indexed import HEIGHT, ROOT, apply_indexed_at
from pagestore.trees.kernels.apply_layout import ALL, DELTA, GAIN, WORDS
from pagestore.trees.kernels.arguments import FlushRoom, PageBooks, Queues, Reordering
from pagestore.trees.scratch import scratch
from pagestore.trees.tree import Spec, Tree, fold_array

PAGES, PAGES_MAX = 64, 256  # pages that all queues together may write in a first call: at least, at most
PAGES_AGAIN = 1024  # ... in a second call, if they were too few
MOST = 4000  # edits in a queue


class EditQueue(NamedTuple):
    """The queue of a tree and its permuted indices, which have its columns places[T, C].

    Changes of the tree's first `visible` columns are reported.
    """

    names: tuple[str, ...]
    places: np.ndarray
    visible: int


class EditQueues:
    """Queues of edits for groups of trees of given shapes, and the results of flushing them."""

    def __init__(self, queues: Sequence[EditQueue], specs: Sequence[Spec]) -> None:
        self.numbers = [spec.tree_id for spec in specs]
        self._specs = specs
        self._ends = ends = [0, *accumulate(len(queue.names) for queue in queues)]
        scans = [fold_array(specs[first]) for first in ends[:-1]]
        scanned = [0, *accumulate(map(len, scans))]
        spans = zip(pairwise(ends), pairwise(scanned), queues, strict=True)
        self._columns, folds = max(spec.columns for spec in specs), max(len(spec.scans) for spec in specs)
        width = 1 + self._columns
        places = np.zeros((len(specs), width), np.int64)
        for first, queue in zip(ends[:-1], queues, strict=True):
            rows, columns = queue.places.shape
            places[first : first + rows, :columns] = queue.places
        shapes = np.array([(*trees, *rows, queue.visible) for trees, rows, queue in spans], np.int64)
        self._table = np.array([(spec.tree_id, 0, 0, spec.keys, spec.values) for spec in specs], np.int64)
        self._waiting, self.waits = np.empty((len(queues), width, MOST), np.int64), np.zeros(len(queues), np.int64)
        self._deltas = np.empty((len(specs), width, 2 * MOST), np.int64)
        self._tallies = np.zeros((len(specs), WORDS), np.int64)
        self._taken, self._retired = np.zeros(kernel.TAKEN, np.int64), np.empty((2 * PAGES_AGAIN, 3), np.int64)
        self._queues = Queues(
            shapes, self._table, places, np.concatenate(scans), self._waiting, self.waits, self._deltas, self._tallies
        )
        self._left: Sequence[Tree] = ()  # the trees that are in the table
        self._asked = PAGES_AGAIN, self._columns, folds, 2 * MOST
        moving, order = np.empty((2, width, 2 * MOST), np.int64), np.empty(4 * MOST, np.int64)
        self._reordering = Reordering(moving, order, np.empty(2 * MOST, bool))

    def clear(self) -> None:
        """Empty all queues."""
        self.waits.fill(0)

    def wait(self, g: int, actions: np.ndarray, rows: np.ndarray) -> None:
        """Put edits into the empty queue g: actions int64[n], rows int64[C, n] in any order, n at most MOST."""
        n = self.waits[g] = len(actions)
        self._waiting[g, 0, :n], self._waiting[g, 1 : 1 + len(rows), :n] = actions, rows

    def flush(
        self, pager: Pager, trees: Sequence[Tree], host: Callable[..., int], again: bool = False
    ) -> tuple[list[Tree], int]:
        """Call `host` with all arguments of `kernels.flush_queue` but the number of a queue.

        Returns the new trees, and what `host` returned. With `again` it continues with the edits that an earlier call
        left, and has more pages.
        """
        ids = pager.at_hand(PAGES_AGAIN, PAGES_AGAIN) if again else pager.at_hand(PAGES, PAGES_MAX)
        page_writer = pager.make_room(int(ids[-1]) + 1)
        pages, room = pager.pages, scratch()  # the map, now that it holds the pages
        room.fit(pages.page_words, *self._asked)
        if not again:
            self.trees = trees
            self._tallies.fill(0)
        self._taken[:] = NOTHING
        if trees != self._left:  # mostly they are as the kernel left them
            self._table[:, ROOT : HEIGHT + 1] = [*map(_PLACE, trees)]
        self._left = ()  # until the kernel has returned
        books = PageBooks(page_writer, pager.version, pager.lineage, ids, self._taken, self._retired)
        working = FlushRoom(room.arena, room.dead, room.room, self._reordering)
        returned = host(pages, books, self._queues, working, apply_indexed_at.address())
        written, gone, oldest, newest = self._taken.tolist()
        pager.took(ids, written, self._retired[:gone], oldest, newest)
        tallies, (roots, heights) = self._tallies.T.tolist(), self._table.T[ROOT : HEIGHT + 1].tolist()
        self._changed, self._gained = tallies[DELTA], tallies[GAIN]
        self._left = [*map(Tree, roots, heights, map(add, map(_COUNT, self.trees), self._gained), self._specs)]
        return self._left, returned

    def waiting(self, g: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the edits that are left in queue g: actions int64[n], rows int64[C, n]."""
        n, columns = self.waits[g], self._specs[self._ends[g]].columns
        return self._waiting[g, 0, :n].copy(), self._waiting[g, 1 : 1 + columns, :n].copy()

    def changes(self, t: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the delta of tree t, as numbered through all queues: actions int64[n], rows int64[C, n]."""
        block = self._deltas[t, : 1 + self._specs[t].columns, : self._changed[t]].copy()
        return block[0], block[1:]

    def turnover(self, t: int) -> tuple[int, int]:
        """Return how many rows tree t gained, and how many it lost."""
        changes, gain = self._changed[t], self._gained[t]
        return (changes + gain) // 2, (changes - gain) // 2


NOTHING = np.array([0, 0, ALL, 0])  # `taken` before a call (see kernels/flush_queue.py)
_PLACE, _COUNT = attrgetter("pointer", "height"), attrgetter("count")
