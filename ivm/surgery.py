"""Tree surgery: a relation's delta as insertions and removals of trie branches, by depth.

    version 1: (3,40,90) (3,50,91) (3,50,92)        delta: ERASE 3,40,90  ERASE 3,50,92  INSERT 4,60,71
    version 2: (3,50,91) (4,60,71)

    depth 1: INSERT 4        depth 2: ERASE 3-40, INSERT 4-60        depth 3: the delta itself
"""

from typing import NamedTuple

import numpy as np

from pagestore.interval import distinct
from pagestore.tree import Pages, Tree, count_prefixes


class Delta(NamedTuple):
    """Changes of a tree: actions int64[n] (INSERT or ERASE) and rows int64[C, n], in key order."""

    actions: np.ndarray
    rows: np.ndarray

    def __bool__(self) -> bool:
        return len(self.actions) > 0


def surgeries(pages: Pages, delta: Delta, old: Tree, new: Tree, depth: int) -> np.ndarray:
    """The branches int64[depth, n] that were inserted or removed at a depth (1 is the first), in order.

    At the depth of a whole key that is every key of the delta, with a function's changed values among
    them: such a change is a surgery at its last key depth.  O(delta * log n).
    """
    branches = distinct(delta.rows[:depth])
    if depth >= new.spec.keys:
        return branches
    before, after = count_prefixes(pages, old, branches), count_prefixes(pages, new, branches)
    changed = before != after
    return branches if changed.all() else branches[:, changed]
