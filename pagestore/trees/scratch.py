"""Scratch arrays of the kernels, kept for each thread so that a look-up allocates nothing."""

import threading

import numpy as np

from pagestore.pages.build import scan_tree
from pagestore.pages.layout import HEIGHT_MAX, INDEX_COLUMNS_MAX
from pagestore.pages.scan_tree import APPLIED, AREA, SCAN_TREE, SHIFTED, work_words
from pagestore.runtime.buffers import sparse
from pagestore.runtime.kernel import TypedKernel
from pagestore.sorting.tuples import FEW
from pagestore.trees.kernels.arguments import Reordering, Room
from pagestore.trees.kernels.node_buffer import ROWS, WORDS

LEVELS = HEIGHT_MAX + 8  # a batch may grow a tree by some levels
TREES_MAX = 16  # trees that are edited in one call
STAGGER = 24  # rows of a power of two words would all compete for the same cache lines

WORK_WORDS = TypedKernel(work_words)


def node_buffers(rows: int, entries: int) -> np.ndarray:
    """Allocate buffers int64[LEVELS, rows, entries]; wide records use little of them."""
    return (sparse if rows > INDEX_COLUMNS_MAX + 6 else np.empty)((LEVELS, rows, entries), np.int64)


class Scratch:
    """The arrays, as large as the largest request so far; kernels/arguments.py has their layout."""

    def __init__(self) -> None:
        self.tallies = np.empty((TREES_MAX, WORDS), np.int64)
        # for changes of a few edits, at most two each
        self.moving = np.empty((2, 0, 2 * FEW), np.int64)
        self.order, self.fresh = np.empty(4 * FEW, np.int64), np.empty(2 * FEW, bool)
        self.walk = np.empty((ROWS, LEVELS), np.int64)
        self.arena = np.empty(0, np.int64)
        self.dead = np.empty((0, 2), np.int64)
        self.node = np.empty((LEVELS, 0, 0), np.int64)
        self.work = np.zeros(AREA, np.int64)
        self._lay_groups()
        self._place = np.empty(0, np.int64), 0
        # (words of a page, folds) that `work` has room for
        self._works: set[tuple[int, int]] = set()
        self._fitted: set[tuple[int, ...]] = set()  # the requests that there is room for

    def _lay_groups(self) -> None:
        self.room = Room(self.node, self.walk, self.work)
        self.reordering = Reordering(self.moving, self.order, self.fresh)

    def place(self, words: int) -> tuple[np.ndarray, int]:
        """Return an array of at least `words` words, and its address."""
        if len(self._place[0]) < words:
            fresh = np.empty(words, np.int64)
            self._place = fresh, fresh.ctypes.data
        return self._place

    def fit(self, page_words: int, pages: int, columns: int, folds: int, edits: int) -> None:
        """Make room for the given numbers of fresh pages, columns of a record, folds and edits."""
        if (asked := (page_words, pages, columns, folds, edits)) in self._fitted:
            return
        if len(self.arena) < pages * page_words:
            self.arena = np.empty(pages * page_words, np.int64)
        if len(self.dead) < 2 * pages:  # an arena of fewer but larger pages need not bring it
            self.dead = np.empty((2 * pages, 2), np.int64)
        _, rows, entries = self.node.shape
        if rows < columns + folds + 6 or entries < 8 * page_words + edits:
            sizes = max(rows, columns + folds + 6), max(entries, 8 * page_words + edits + STAGGER)
            self.node = node_buffers(*sizes)
        if self.moving.shape[1] <= columns:
            self.moving = np.empty((2, 1 + columns, 2 * FEW), np.int64)
        if (page_words, folds) not in self._works:
            grown = np.zeros(max(len(self.work), WORK_WORDS.call(page_words, folds)), np.int64)
            grown[:AREA] = self.work[:AREA]
            if folds:
                grown[SCAN_TREE] = scan_tree.address()
            self.work = grown
            self._works.add((page_words, folds))
        self._lay_groups()
        self._fitted.add(asked)  # last, since an exception may come before


_local = threading.local()


def scratch(number: int = 0) -> Scratch:
    """Return a scratch of this thread, which it may pass to a thread that works for it."""
    mine = _scratches()
    while len(mine) <= number:
        mine.append(Scratch())
    return mine[number]


def _scratches() -> list[Scratch]:
    try:
        return _local.scratches
    except AttributeError:
        _local.scratches = []
        return _local.scratches


def applications() -> int:
    """Return how often this thread has applied scan operators to build and update trees."""
    return sum(int(scratch.work[APPLIED]) for scratch in _scratches())


def pages_shifted() -> int:
    """Return how many pages this thread has made from old ones by shifting bits."""
    return sum(int(scratch.work[SHIFTED]) for scratch in _scratches())
