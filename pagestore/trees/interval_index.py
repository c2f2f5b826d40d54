"""An interval index: a tree over (alpha..., a, b, gamma...) with a max scan of b (*Interval trees*).

The paper's example, x = 80 among sixteen intervals, matches [11,100], [49,82], [72,87], [77,96].
"""

import numpy as np

from pagestore.pages.fold_operators import MAX
from pagestore.pages.page_map import Pages
from pagestore.runtime.arguments import Bytes, Door, MappedWords, Table, Words
from pagestore.sorting.tuples import distinct
from pagestore.trees.kernels.arguments import IntervalTree
from pagestore.trees.kernels.stab import stab_points
from pagestore.trees.tree import Spec, Tree, checked

STAB = Door(stab_points, MappedWords, Bytes, int, IntervalTree, Table, Table, Words)


def interval_spec(tree_id: int, alphas: int, gammas: int) -> Spec:
    """Return the shape of an index with `alphas` columns before the interval and `gammas` after it."""
    return Spec(tree_id, alphas + 2 + gammas, 0, ((MAX, alphas + 1),))


def stab_many(pages: Pages, tree: Tree, points: np.ndarray) -> np.ndarray:
    """Return every record that one of points[alphas + 1, n] stabs, each once, in key order: int64[C, m].

    A point (alpha..., x) stabs records with those alphas and a <= x <= b.  O((m + n) log count).
    """
    return overlaps_many(pages, tree, np.concatenate([points, points[-1:]]))


def overlaps_many(pages: Pages, tree: Tree, points: np.ndarray) -> np.ndarray:
    """Return every record that meets one of points[alphas + 2, n], each once, in key order: int64[C, m].

    A point (alpha..., lo, hi) meets records with those alphas, a <= hi and lo <= b.  O((m + n) log count).
    """
    points = np.ascontiguousarray(points, np.int64)
    out, _ = overlaps_counted(pages, tree, points, 64 * points.shape[1] + 64)
    return distinct(out)


def overlaps_counted(pages: Pages, tree: Tree, points: np.ndarray, room: int) -> tuple[np.ndarray, int]:
    """Do as `overlaps_many`, but a record once for each point it meets; return also how many folds and records it read.

    `room` is the number of records to make room for at first."""
    spec = tree.spec
    alphas = len(points) - 2
    row = spec.scans.index((MAX, alphas + 1))
    out, visits = np.empty((spec.columns, room), np.int64), np.zeros(1, np.int64)
    index = IntervalTree(tree.pointer, tree.height, spec.keys, spec.columns, alphas, row)
    n = checked(STAB.call(*pages, index, points, out, visits), spec)
    return (out[:, :n], int(visits[0])) if n <= room else overlaps_counted(pages, tree, points, n)
