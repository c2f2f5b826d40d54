"""Check that sensitivity indices are sound (*Sensitivity indices*).

A context is a binding of the levels before one. A sound index holds, under each context that a join
reaches:

    for a value that the level refuses    an interval with the value, of some atom that refuses it
    for a value that the level accepts    an interval with the value, of every atom

Atoms that follow the key order need no intervals.

A freshly recorded index is sound. So only its values that the stored index does not cover need
checking, and intervals of any other atom may cover these. Intervals that no context needs any more
do no harm.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np

from ivm.join.kernels.tries import EQ, GE, LE
from ivm.plan.plan import Plan
from pagestore.host import INSERT, WORD_MAX, WORD_MIN, Delta, Pages, Tree, read_batches

Ranges = list[tuple[int, int]]  # of integers, both ends included; disjoint and in order
Context = Mapping[int, int]  # values by level
PREFIXES_MAX = 256  # prefixes of an atom's arguments whose intervals are cached


class Soundness:
    """Compares the stored sensitivity indices of a plan with `fresh` ones, recorded over
    `trees`, one for each trie.
    """

    def __init__(
        self,
        pages: Pages,
        plan: Plan,
        trees: Sequence[Tree],
        stored: Sequence[Tree],
        fresh: Sequence[Tree],
    ) -> None:
        self._pages, self._plan, self._trees = pages, plan, trees
        self._stored, self._fresh = stored, fresh
        self._sensor = {(sensor.trie, sensor.depth): s for s, sensor in enumerate(plan.sensors)}
        self._by_gamma = lru_cache(PREFIXES_MAX)(self._read)

    def gap(self, s: int) -> tuple[Context, int] | None:
        """Return a context and a value at the level of sensor s that no stored interval covers;
        None if there is none.

        O(stored + fresh), and O(values in it) for each fresh interval that is not stored.
        """
        sensor = self._plan.sensors[s]
        a, b = sensor.columns.index(-1), sensor.columns.index(-2)
        for actions, rows in Delta(self._pages, self._stored[s], self._fresh[s]):
            for row in rows.T[actions == INSERT].tolist():
                context = {
                    level: word
                    for level, word in zip(sensor.columns, row, strict=True)
                    if level >= 0
                }
                left = self._uncovered(
                    sensor.level, context, self._minus_stored(s, context, [(row[a], row[b])])
                )
                if left:
                    return context, left[0][0]
        return None

    def _uncovered(self, level: int, context: Context, ranges: Ranges) -> Ranges:
        """The part of some ranges of a level's values that no atom refuses and covers."""
        left = meet(ranges, self._allowed(level, context))
        for t, trie in enumerate(self._plan.tries):
            if not left:
                break
            if level not in trie.levels or (trie.negated and trie.levels[-1] != level):
                continue
            depth = trie.levels.index(level)
            prefix = tuple(context[before] for before in trie.levels[:depth])
            there = [
                (x, x) for lo, hi in left for x in self._values(self._trees[t], prefix, lo, hi)
            ]
            refused = there if trie.negated else minus(left, there)
            s = self._sensor.get((t, depth))
            left = minus(
                left,
                refused if s is None else minus(refused, self._minus_stored(s, context, refused)),
            )
        return left

    def _allowed(self, level: int, context: Context) -> Ranges:
        """Return the values of a level that the comparisons allow."""
        ranges = [(WORD_MIN, WORD_MAX)]
        for bound in self._plan.bounds:
            if bound.level == level:
                value = bound.constant + sum(sign * context[other] for other, sign in bound.others)
                sides = {EQ: (value, value), GE: (value, WORD_MAX), LE: (WORD_MIN, value)}
                side = sides.get(bound.kind)
                ranges = meet(ranges, [side]) if side else minus(ranges, [(value, value)])
        return ranges

    def _values(self, tree: Tree, prefix: tuple[int, ...], lo: int, hi: int) -> Iterator[int]:
        """Yield values from lo to hi that follow a prefix in a tree's keys, each once, in order."""
        columns = (*range(len(prefix) + 1),)
        last = None
        for batch in read_batches(self._pages, tree, (*prefix, lo), columns=columns, rows=1024):
            for *start, value in batch.T.tolist():
                if (*start,) != prefix or value > hi:
                    return
                if value != last:
                    yield value
                last = value

    def _minus_stored(self, s: int, context: Context, ranges: Ranges) -> Ranges:
        """Return the part of ranges that a sensor's stored intervals do not cover in a context."""
        columns = self._plan.sensors[s].columns
        words = tuple(context[level] for level in columns if level >= 0)
        depth = self._plan.sensors[s].depth
        return minus(ranges, self._by_gamma(s, words[:depth]).get(words[depth:], []))

    def _read(self, s: int, alphas: tuple[int, ...]) -> dict[tuple[int, ...], Ranges]:
        """Return the stored intervals of a sensor that start with `alphas`, as ranges by the
        columns after a and b.
        """
        depth, intervals = len(alphas), dict[tuple[int, ...], Ranges]()
        for batch in read_batches(self._pages, self._stored[s], alphas, rows=4096):
            same = np.flatnonzero(
                (batch[:depth] != np.array(alphas, np.int64)[:, None]).any(axis=0)
            )
            end = int(same[0]) if len(same) else batch.shape[1]
            for a, b, *gammas in batch[depth:, :end].T.tolist():
                ranges = intervals.setdefault((*gammas,), [])
                if ranges and a <= ranges[-1][1]:
                    ranges[-1] = ranges[-1][0], max(b, ranges[-1][1])
                elif a <= b:
                    ranges.append((a, b))
            if end < batch.shape[1]:
                break
        return intervals


def meet(left: Ranges, other: Ranges) -> Ranges:
    """Return the values that are in both.

    >>> meet([(1, 5), (8, 9)], [(4, 8)])
    [(4, 5), (8, 8)]
    """
    ranges, i, j = [], 0, 0
    while i < len(left) and j < len(other):
        lo, hi = max(left[i][0], other[j][0]), min(left[i][1], other[j][1])
        if lo <= hi:
            ranges.append((lo, hi))
        if left[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return ranges


def minus(left: Ranges, other: Ranges) -> Ranges:
    """Return the values that are in the first and not in the second.

    >>> minus([(1, 9)], [(2, 2), (5, 20)])
    [(1, 1), (3, 4)]
    """
    ranges, j = [], 0
    for lo, hi in left:
        while j < len(other) and other[j][1] < lo:
            j += 1
        k = j
        while k < len(other) and other[k][0] <= hi:
            if lo < other[k][0]:
                ranges.append((lo, other[k][0] - 1))
            lo = other[k][1] + 1
            k += 1
        if lo <= hi:
            ranges.append((lo, hi))
    return ranges
