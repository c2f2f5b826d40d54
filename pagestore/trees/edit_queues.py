"""EditQueues of trees that take a few edits within a kernel of a host's, which goes from one to the next in one call.

    groups.clear()
    groups.wait(0, actions, rows)
    txn.settle(groups, host)            a kernel that `host` calls settles one group after the other
    groups.changes(0)

What Python does between two calls of kernels takes longer than these. See trees/kernels/flush_queue.py.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from operator import add, attrgetter
from typing import NamedTuple

import numpy as np

from pagestore.storage.pager import Pager
from pagestore.trees.kernels import apply_layout as k_apply_layout
from pagestore.trees.kernels import flush_queue as kernel
from pagestore.trees.kernels.apply_indexed import HEIGHT, ROOT, apply_indexed_at
from pagestore.trees.scratch import scratch
from pagestore.trees.tree import Spec, Tree, fold_array

PAGES = 64  # that all groups together may write at least, and
PAGES_MAX = 256  # at most, in a first call
PAGES_AGAIN = 1024  # in a second one, if they were too few
MOST = 4000  # edits that may wait for a group


class EditQueue(NamedTuple):
    """A tree, and those beside it, whose columns are its places[T, C]; changes of its first `visible` are shown."""

    names: tuple[str, ...]
    places: np.ndarray
    visible: int


class EditQueues:
    """Edits that wait for groups of trees of these shapes, and what became of the trees."""

    def __init__(self, groups: Sequence[EditQueue], specs: Sequence[Spec]) -> None:
        self.numbers = [spec.tree_id for spec in specs]
        self._specs = specs
        self._ends = ends = [0, *accumulate(len(group.names) for group in groups)]
        scans = [fold_array(specs[first]) for first in ends[:-1]]
        scanned = [0, *accumulate(map(len, scans))]
        spans = zip(pairwise(ends), pairwise(scanned), groups, strict=True)
        self._columns, folds = max(spec.columns for spec in specs), max(len(spec.scans) for spec in specs)
        width = 1 + self._columns
        places = np.zeros((len(specs), width), np.int64)
        for first, group in zip(ends[:-1], groups, strict=True):
            rows, columns = group.places.shape
            places[first : first + rows, :columns] = group.places
        shapes = np.array([(*trees, *rows, group.visible) for trees, rows, group in spans], np.int64)
        self._table = np.array([(spec.tree_id, 0, 0, spec.keys, spec.values) for spec in specs], np.int64)
        self._waiting, self.waits = np.empty((len(groups), width, MOST), np.int64), np.zeros(len(groups), np.int64)
        self._deltas = np.empty((len(specs), width, 2 * MOST), np.int64)
        self._tallies, self._taken = (
            np.zeros((len(specs), k_apply_layout.WORDS), np.int64),
            np.zeros(kernel.TAKEN, np.int64),
        )
        self._retired = np.empty((2 * PAGES_AGAIN, 3), np.int64)
        self._arrays = (
            self._taken, self._retired, shapes, self._table, places, np.concatenate(scans), self._waiting, self.waits,
            self._deltas, self._tallies,
        )  # fmt: skip
        self._left: Sequence[Tree] = ()  # the trees as they stand in the table
        self._asked = PAGES_AGAIN, self._columns, folds, 2 * MOST
        moving, order = np.empty((2, width, 2 * MOST), np.int64), np.empty(4 * MOST, np.int64)
        self._room = moving, order, np.empty(2 * MOST, bool)

    def clear(self) -> None:
        """Nothing waits."""
        self.waits.fill(0)

    def wait(self, g: int, actions: np.ndarray, rows: np.ndarray) -> None:
        """Let edits wait for a group for which none did: actions int64[n], rows int64[C, n], n at most MOST."""
        n = self.waits[g] = len(actions)
        self._waiting[g, 0, :n], self._waiting[g, 1 : 1 + len(rows), :n] = actions, rows

    def settle(
        self, pager: Pager, trees: Sequence[Tree], host: Callable[..., int], again: bool = False
    ) -> tuple[list[Tree], int]:
        """Call `host` with what trees/kernels/flush_queue.py takes, but the group: the trees as they are then, what
        it returns.

        With `again` it goes on with what a call before it has left, and has more pages.
        """
        ids = pager.at_hand(PAGES_AGAIN, PAGES_AGAIN) if again else pager.at_hand(PAGES, PAGES_MAX)
        page_writer = pager.make_room(int(ids[-1]) + 1)
        pages, room = pager.pages, scratch()  # the map as it is when it holds the pages
        room.fit(pages.page_words, *self._asked)
        if not again:
            self.trees = trees
            self._tallies.fill(0)
        self._taken[:] = NOTHING
        if trees != self._left:  # mostly they are as the kernel has left them
            self._table[:, ROOT : HEIGHT + 1] = [*map(_PLACE, trees)]
        self._left = ()  # until the kernel has returned
        returned = host(
            *pages, page_writer, pager.version, pager.lineage, ids, *self._arrays,
            room.arena, room.node, room.dead, room.walk, room.work, *self._room, apply_indexed_at.address(),
        )  # fmt: skip
        written, gone, oldest, newest = self._taken.tolist()
        pager.took(ids, written, self._retired[:gone], oldest, newest)
        tallies, (roots, heights) = self._tallies.T.tolist(), self._table.T[ROOT : HEIGHT + 1].tolist()
        self._changed, self._gained = tallies[k_apply_layout.DELTA], tallies[k_apply_layout.GAIN]
        self._left = [*map(Tree, roots, heights, map(add, map(_COUNT, self.trees), self._gained), self._specs)]
        return self._left, returned

    def waiting(self, g: int) -> tuple[np.ndarray, np.ndarray]:
        """Actions int64[n] and rows int64[C, n] that are left waiting for group g."""
        n, columns = self.waits[g], self._specs[self._ends[g]].columns
        return self._waiting[g, 0, :n].copy(), self._waiting[g, 1 : 1 + columns, :n].copy()

    def changes(self, t: int) -> tuple[np.ndarray, np.ndarray]:
        """What changed in tree t, of all groups' trees in order: actions int64[n], rows int64[C, n]."""
        block = self._deltas[t, : 1 + self._specs[t].columns, : self._changed[t]].copy()
        return block[0], block[1:]

    def turnover(self, t: int) -> tuple[int, int]:
        """How many rows came to tree t, and how many went."""
        changes, gain = self._changed[t], self._gained[t]
        return (changes + gain) // 2, (changes - gain) // 2


NOTHING = np.array([0, 0, k_apply_layout.ALL, 0])  # of what trees/kernels/flush_queue.py takes
_PLACE, _COUNT = attrgetter("pointer", "height"), attrgetter("count")
