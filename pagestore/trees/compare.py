"""Compare two versions of a tree: a sorted stream of changes (*Delta-iterators*).

old   [0 2 4][7 8]          every subtree that both versions share is skipped unread,
new   [0 2 5][7 8]          so the cost is O(changes * height) pages whatever the size
      ERASE 4, INSERT 5

Iterate over the records of T that its subset S lacks, in order, at a cost that depends on their
number (*Efficient iteration of complements*).

Equal counts in a key interval mean that nothing is missing there, so it is skipped unread. Both
trees need a "count" scan and the same key columns.
"""

from collections.abc import Iterator
from math import log2

import numpy as np

from pagestore.errors import CorruptionError, OrderError
from pagestore.pages.layout import Pages
from pagestore.pages.operators import CHECKSUM, record_hashes
from pagestore.runtime.kernel import TypedKernel
from pagestore.trees.folds import RangeFold, count_rows, ranks, rows_of
from pagestore.trees.kernels import compare as kernel
from pagestore.trees.kernels.arguments import CountedTree
from pagestore.trees.kernels.folds import acc_words
from pagestore.trees.read import get, read_batches
from pagestore.trees.tree import Tree, checked, fold_array

START = TypedKernel(kernel.start_delta)
NEXT_CHANGES = TypedKernel(kernel.next_changes)


class Delta:
    """The difference of two versions of a tree, in either direction, as batches in key order.

    Iterating gives (actions int64[n], rows int64[C, n]) with actions INSERT or ERASE; a changed
    value is ERASE of the old record, then INSERT of the new one.  Memory is O(height); `pages_read`
    counts the pages opened so far, O(changes * height), 0 for equal roots.  Raises CorruptionError.
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
        spec, ref = new.spec, new.on(self._pages)
        checked(START.call(old.on(self._pages), ref, self._state), spec)
        left = old.count + new.count
        while True:
            actions = np.empty(self._rows, np.int64)
            out = np.empty((spec.columns, self._rows), np.int64)
            n = checked(NEXT_CHANGES.call(ref, spec.columns, self._state, actions, out), spec)
            if n == 0:
                return
            left -= n
            if left < 0:
                raise CorruptionError(
                    "it leads to more records than the tree has", page=new.root, tree=spec.tree_id
                )
            yield actions[:n], out[:, :n]


def delta(pages: Pages, old: Tree, new: Tree) -> tuple[np.ndarray, np.ndarray]:
    """Return all changes from old to new at once: (actions int64[n], rows int64[C, n])."""
    batches = list(Delta(pages, old, new))
    if not batches:
        return np.empty(0, np.int64), np.empty((new.spec.columns, 0), np.int64)
    return np.concatenate([b[0] for b in batches]), np.concatenate([b[1] for b in batches], axis=1)


PROBE_COST = 30  # records that a merge passes in the time of one probe, measured

NEXT_MISSING = TypedKernel(kernel.next_missing)

ACC_WORDS = TypedKernel(acc_words)


class Complement:
    """The records of `whole` whose keys `part` lacks, as batches int64[C, n] in key order.

    `part` must be a subset: counts alone do not always reveal when it is not (see `subset` and
    `accounted`), and then some of the difference is left out. `probes` counts the ranks looked up
    so far: O((missing + 1) log count). Raises MissingError without count scans, OrderError where
    the counts show that `part` is not a subset.
    """

    def __init__(
        self,
        pages: Pages,
        whole: Tree,
        part_pages: Pages,
        part: Tree,
        lo: tuple[int, ...] = (),
        hi: tuple[int, ...] = (),
        rows: int = 4096,
    ) -> None:
        self._sides = (pages, whole), (part_pages, part)
        self._rows = rows
        self._count_rows = count_rows(whole).first, count_rows(part).first
        start, stop = self._place(0, lo, 0), self._place(0, hi, whole.count)
        first, last = self._place(1, lo, 0), self._place(1, hi, part.count)
        self._state = np.array([start, max(start, stop), start - first, 0])
        self.missing = max(0, (stop - last) - (start - first))
        if stop - start < last - first:
            raise OrderError(
                f"a subset of {last - first} records in a set of {stop - start}: it is none"
            )

    def _place(self, side: int, bound: tuple[int, ...], otherwise: int) -> int:
        if not bound:
            return otherwise
        pages, tree = self._sides[side]
        return int(ranks(pages, tree, np.array(bound, np.int64)[:, None])[0])

    @property
    def probes(self) -> int:
        """Return how many ranks were looked up so far."""
        return int(self._state[kernel.PROBES])

    def __iter__(self) -> Iterator[np.ndarray]:
        (_, whole), (_, part) = self._sides
        counted = [
            CountedTree(tree.on(pages), fold_array(tree.spec), row, tree.count)
            for (pages, tree), row in zip(self._sides, self._count_rows, strict=True)
        ]
        key = np.empty(whole.spec.keys, np.int64)
        acc = np.empty(ACC_WORDS.call(len(part.spec.scans)), np.int64)
        left = self.missing
        while left > 0:
            out = np.empty((whole.spec.columns, min(left, self._rows)), np.int64)
            n = checked(NEXT_MISSING.call(*counted, key, acc, self._state, out), whole.spec)
            yield out[:, :n]
            left = left - n if n == out.shape[1] else 0


def subset(pages: Pages, whole: Tree, part_pages: Pages, part: Tree) -> bool:
    """Return whether every key of `part` is in `whole`. O(part log whole), or a merge."""
    keys = part.spec.keys
    batches = read_batches(part_pages, part, columns=tuple(range(keys))) if part.root else ()
    return all(bool(get(pages, whole, batch)[0].all()) for batch in batches)


def accountable(whole: Tree, part: Tree) -> bool:
    """Return whether `accounted` works: records are keys and nothing else, and both trees carry
    a checksum of them.
    """
    sums = ((CHECKSUM, whole.spec.keys),)
    return all(t.spec.keys == t.spec.columns and rows_of(t.spec, sums) for t in (whole, part))


def accounted(
    pages: Pages, whole: Tree, part_pages: Pages, part: Tree, missing: np.ndarray
) -> bool:
    """Return whether `part` is `whole` without its records missing[K, n], by checksums. O(missing +
    log count).

    Two different sets of records have one checksum in one of 2^64 cases, unless the records were
    chosen for that.
    """
    total = _checksum(part_pages, part) + int(record_hashes(np.ascontiguousarray(missing)).sum())
    return (
        whole.count == part.count + missing.shape[1]
        and (_checksum(pages, whole) - total) % (1 << 64) == 0
    )


def _checksum(pages: Pages, tree: Tree) -> int:
    rows = rows_of(tree.spec, ((CHECKSUM, tree.spec.keys),))
    assert rows, "the trees are not accountable"
    return RangeFold(pages, tree, rows).fold()[0][0]


def pays(whole: int, part: int, passed: int | None = None) -> bool:
    """Whether probing for the records of `whole` that `part` lacks beats a pass over `passed`
    records (default: all).

    A planner's estimate for t(x..), !s(x..) with s a subset of t; the trees know their counts. A
    missing record takes two probes for each doubling of the gap before it, and a few more.

    >>> pays(1_000_000, 999_990), pays(1_000_000, 500_000), pays(1_000_000, 999_990, 100)
    (True, False, False)
    """
    passed = whole if passed is None else passed
    rest = whole - part + 1
    return part <= whole and rest * 2 * log2(8 * (whole + 1) / rest) * PROBE_COST < passed
