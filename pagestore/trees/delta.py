"""Compare two versions of a tree: a sorted stream of changes (*Delta-iterators*).

old   [0 2 4][7 8]          every subtree that both versions share is skipped unread,
new   [0 2 5][7 8]          so the cost is O(changes * height) pages whatever the size
      ERASE 4, INSERT 5
"""

from collections.abc import Iterator

import numpy as np

from pagestore.errors import CorruptionError
from pagestore.pages.page_map import Pages
from pagestore.runtime.arguments import Bytes, Door, MappedWords, Table, Words
from pagestore.trees.kernels import delta as kernel
from pagestore.trees.tree import Tree, checked

MAP = MappedWords, Bytes, int  # the fields of Pages
START = Door(kernel.start_delta, *MAP, Words, Words, Table)
NEXT = Door(kernel.next_changes, *MAP, int, int, Table, Words, Table)


class Delta:
    """The difference of two versions of a tree, in either direction, as batches in key order.

    Iterating gives (actions int64[n], rows int64[C, n]) with actions INSERT or ERASE; a changed value
    is ERASE of the old record, then INSERT of the new one.  Memory is O(height); `pages_read` counts
    the pages opened so far, O(changes * height), 0 for equal roots.  Raises CorruptionError.
    """

    def __init__(self, pages: Pages, old: Tree, new: Tree, rows: int = 4096) -> None:
        self._pages, self._old, self._new, self._rows = pages, old, new, rows
        levels = max(old.height, new.height) + 1
        self._state = np.zeros((2, kernel.STACK + 3 * levels), np.int64)

    @property
    def pages_read(self) -> int:
        """Return how many pages were opened so far."""
        return int(self._state[:, kernel.READ].sum())

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        old, new = self._old, self._new
        spec = new.spec
        roots, heights = np.array([old.pointer, new.pointer]), np.array([old.height, new.height])
        checked(START.call(*self._pages, roots, heights, self._state), spec)
        left = old.count + new.count
        while True:
            actions = np.empty(self._rows, np.int64)
            out = np.empty((spec.columns, self._rows), np.int64)
            n = checked(NEXT.call(*self._pages, spec.keys, spec.columns, self._state, actions, out), spec)
            if n == 0:
                return
            left -= n
            if left < 0:
                raise CorruptionError("it leads to more records than the tree has", page=new.root, tree=spec.tree_id)
            yield actions[:n], out[:, :n]


def delta(pages: Pages, old: Tree, new: Tree) -> tuple[np.ndarray, np.ndarray]:
    """Return all changes from old to new at once: (actions int64[n], rows int64[C, n])."""
    batches = list(Delta(pages, old, new))
    if not batches:
        return np.empty(0, np.int64), np.empty((new.spec.columns, 0), np.int64)
    return np.concatenate([b[0] for b in batches]), np.concatenate([b[1] for b in batches], axis=1)
