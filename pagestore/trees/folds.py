"""Folds over key intervals of a tree of words, one interval or many at once; rank and select
(*Scans*).

a2 ⊕ ... ⊕ a8  =  a2 ⊕ A34 ⊕ A58        an interval is the sum of the subtrees that lie inside it

An interval index: a tree over (alpha..., a, b, gamma...) with a max scan of b (*Interval trees*).

The paper's example, x = 80 among sixteen intervals, matches [11,100], [49,82], [72,87], [77,96].
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from pagestore.errors import MissingError
from pagestore.pages.layout import Pages
from pagestore.pages.operators import CARRY, COUNT, MAX, SUM, THEN
from pagestore.runtime.kernel import TypedKernel
from pagestore.sorting.tuples import distinct
from pagestore.trees.kernels import folds as kernel
from pagestore.trees.kernels.arguments import Bounds, FoldWords, IntervalTree
from pagestore.trees.kernels.intervals import stab_points
from pagestore.trees.read import packed_tree
from pagestore.trees.tree import Spec, Tree, checked, fold_array

FOLD = TypedKernel(kernel.fold_intervals)
ONE = TypedKernel(kernel.fold_one)
SELECT = TypedKernel(kernel.select_records)
WEIGHTED = TypedKernel(kernel.find_weighted)
WORK_WORDS = TypedKernel(kernel.work_words)


class Rows(NamedTuple):
    """The rows first..end of a tree's scans that are one scan, of one or more fold words."""

    first: int
    end: int


@lru_cache(256)
def rows_of(spec: Spec, folds: tuple[tuple[int, int], ...]) -> Rows | None:
    """Return the rows of a tree's scans that are these folds, or None if it does not carry it."""
    scans = (*spec.scans, (COUNT, 0))  # a sentinel
    for first in range(len(scans) - len(folds)):
        end = first + len(folds)
        if scans[first:end] == folds and scans[end][0] not in (CARRY, THEN):
            return Rows(first, end)
    return None


def count_rows(tree: Tree) -> Rows:
    """Return the rows of the count scan. Raises MissingError."""
    rows = rows_of(tree.spec, ((COUNT, 0),))
    if rows is None:
        raise MissingError(
            'ranks come from a "count" scan, and this tree has none; txn.add_scan adds one, from '
            "that commit on"
        )
    return rows


class Folds(NamedTuple):
    """Folds of n intervals: words int64[rows, n], full bool[n] (False: no record), and how often
    ⊕ was applied.
    """

    words: np.ndarray
    full: np.ndarray
    applications: int


def fold_many(pages: Pages, tree: Tree, rows: Rows, lo: np.ndarray, hi: np.ndarray) -> Folds:
    """Fold the records with lo[:, i] <= key < hi[:, i] for each i; lo[m, n], hi[k, n] hold prefixes
    of keys.

    A bound without columns is open. O(log count) applications and page touches an interval.
    """
    n = lo.shape[1]
    out, full = np.empty((rows.end - rows.first, n), np.int64), np.empty(n, np.int64)
    bounds = np.zeros((max(len(lo), len(hi)), 2 * n), np.int64)
    bounds[: len(lo), :n], bounds[: len(hi), n:] = lo, hi
    scans = fold_array(tree.spec)
    work = np.empty(WORK_WORDS.call(len(scans), n), np.int64)
    folds, given = FoldWords(scans, rows.first, rows.end), Bounds(bounds, len(lo), len(hi))
    status = FOLD.call(tree.on(pages), folds, given, out, full, work)
    return Folds(out, full.astype(bool), checked(status, tree.spec))


class RangeFold:
    """Folds single intervals by one scan of one tree; its kernel's arguments are packed once, as
    a RecordFinder's.
    """

    def __init__(self, pages: Pages, tree: Tree, rows: Rows) -> None:
        self.pages, self.tree = pages, tree  # keeps alive what `_head` points to
        scans = fold_array(tree.spec)
        self._head = np.concatenate(
            [packed_tree(pages, tree), [tree.spec.keys, *rows, len(scans)], scans.ravel()]
        )
        self._low = len(self._head)
        out = self._low + 2 * tree.spec.keys
        self._result = slice(out, out + rows.end - rows.first)
        self._scan = ONE.call
        # arrays that no thread uses now, each with its address
        self._rooms: list[tuple[int, memoryview]] = []

    def fold(self, lo: tuple[int, ...] = (), hi: tuple[int, ...] = ()) -> tuple[list[int], bool]:
        """Return (fold words, whether a record exists) for lo <= key < hi; bounds may be
        prefixes, () is unbounded.
        """
        try:
            room = self._rooms.pop()
        except IndexError:
            room = self._room()
        address, words = room
        at = self._low
        for word in lo:
            words[at] = word
            at += 2
        at = self._low + 1
        for word in hi:
            words[at] = word
            at += 2
        status = self._scan(address, len(lo), len(hi))
        if status < 0:
            checked(status, self.tree.spec)
        fold = words[self._result].tolist()
        self._rooms.append(room)
        return fold, status > 0

    def _room(self) -> tuple[int, memoryview]:
        """Allocate an array for `fold_one`; return its address and its words."""
        rest = self._result.stop + 1 - self._low + WORK_WORDS.call(len(self.tree.spec.scans), 1)
        array = np.concatenate([self._head, np.zeros(rest, np.int64)])
        return array.ctypes.data, array.data


def ranks(pages: Pages, tree: Tree, keys: np.ndarray) -> np.ndarray:
    """Count the records below each of keys[m, n] (or of prefixes): int64[n]. O(log count) each."""
    none = np.zeros((0, keys.shape[1]), np.int64)
    below: np.ndarray = fold_many(pages, tree, count_rows(tree), none, keys).words[0]
    return below


def select(pages: Pages, tree: Tree, ranks: np.ndarray) -> np.ndarray:
    """Return the records with ranks[n] records before them, int64[C, n]; 0 <= rank < count. O(log
    count) each.

    Raises IndexError for another rank, MissingError without a "count" scan."""
    spec = tree.spec
    ranks = np.ascontiguousarray(ranks, np.int64)
    out = np.zeros((spec.columns, len(ranks)), np.int64)
    row = count_rows(tree).first
    if len(ranks) and (ranks.min() < 0 or ranks.max() >= tree.count):
        raise IndexError(
            f"rank {ranks.min() if ranks.min() < 0 else ranks.max()} of {tree.count} records"
        )
    checked(SELECT.call(tree.on(pages), spec.columns, row, ranks, out), spec)
    return out


def select_weighted(pages: Pages, tree: Tree, column: int, ranks: np.ndarray) -> np.ndarray:
    """Select records by rank like `select`, each counted as often as its value column `column`
    says, 1 or more.

    The tree carries the sum of that column, and each rank is below the sum of all. O(log count)
    each. Raises MissingError without such a scan.
    """
    spec = tree.spec
    rows = rows_of(spec, ((SUM, column), (CARRY, column)))
    if rows is None:
        raise MissingError(
            f"records are weighed by a sum of column {column}, and this tree carries none"
        )
    ranks = np.ascontiguousarray(ranks, np.int64)
    out = np.zeros((spec.columns, len(ranks)), np.int64)
    checked(WEIGHTED.call(tree.on(pages), spec.columns, rows.first, column, ranks, out), spec)
    return out


STAB = TypedKernel(stab_points)


def interval_spec(tree_id: int, alphas: int, gammas: int) -> Spec:
    """Return the shape of an index with `alphas` columns before the interval and `gammas` after it."""
    return Spec(tree_id, alphas + 2 + gammas, 0, ((MAX, alphas + 1),))


def stab_many(pages: Pages, tree: Tree, points: np.ndarray) -> np.ndarray:
    """Return every record that one of points[alphas + 1, n] stabs, each once, in key order:
    int64[C, m].

    A point (alpha..., x) stabs records with those alphas and a <= x <= b.  O((m + n) log count).
    """
    return overlaps_many(pages, tree, np.concatenate([points, points[-1:]]))


def overlaps_many(pages: Pages, tree: Tree, points: np.ndarray) -> np.ndarray:
    """Return every record that meets one of points[alphas + 2, n], each once, in key order:
    int64[C, m].

    A point (alpha..., lo, hi) meets records with those alphas, a <= hi and lo <= b.  O((m + n) log
    count).
    """
    points = np.ascontiguousarray(points, np.int64)
    out, _ = overlaps_counted(pages, tree, points, 64 * points.shape[1] + 64)
    return distinct(out)


def overlaps_counted(
    pages: Pages, tree: Tree, points: np.ndarray, room: int
) -> tuple[np.ndarray, int]:
    """Find overlaps like `overlaps_many`, a record once per point; also return how many folds and
    records were read.

    `room` is the number of records to make room for at first."""
    spec = tree.spec
    alphas = len(points) - 2
    row = spec.scans.index((MAX, alphas + 1))
    out, visits = np.empty((spec.columns, room), np.int64), np.zeros(1, np.int64)
    index = IntervalTree(tree.on(pages), spec.columns, alphas, row)
    n = checked(STAB.call(index, points, out, visits), spec)
    return (out[:, :n], int(visits[0])) if n <= room else overlaps_counted(pages, tree, points, n)
