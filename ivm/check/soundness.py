"""Is a sensitivity index sound (*Sensitivity indices*)?

Under each context that a join comes to, every value that the level refuses has an atom that refuses it and an interval
of that atom that holds it; every value that it lets pass lies in an interval of each atom.  Atoms that follow the key
order need none.

An index that was recorded anew is sound.  So only values in intervals of that one which the kept index does not cover
have to be looked at, and for these any other atom will do.  Intervals that nobody needs any more are harmless.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np

from ivm.join.kernels.join_layout import EQ, GE, LE
from ivm.join.plan_arrays import INT_MAX, INT_MIN
from ivm.plan.plan import Plan
from pagestore.host import INSERT, Delta, Pages, Tree, read_batches

Ranges = list[tuple[int, int]]  # of integers, both ends included, apart and in order
Context = Mapping[int, int]  # values by level
ALPHAS_MAX = 256  # contexts of an atom whose intervals are held at once


class Soundness:
    """The sensitivity indices of a plan: `kept` is looked at, `fresh` was recorded over `trees`, one for each trie."""

    def __init__(
        self, pages: Pages, plan: Plan, trees: Sequence[Tree], kept: Sequence[Tree], fresh: Sequence[Tree]
    ) -> None:
        self._pages, self._plan, self._trees = pages, plan, trees
        self._kept, self._fresh = kept, fresh
        self._sensor = {(sensor.trie, sensor.depth): s for s, sensor in enumerate(plan.sensors)}
        self._by_gamma = lru_cache(ALPHAS_MAX)(self._read)

    def gap(self, s: int) -> tuple[Context, int] | None:
        """A context and a value at the level of sensor s that nothing covers, if there is one.

        O(kept + fresh), and for each interval that is not kept O(values in it).
        """
        sensor = self._plan.sensors[s]
        a, b = sensor.columns.index(-1), sensor.columns.index(-2)
        for actions, rows in Delta(self._pages, self._kept[s], self._fresh[s]):
            for row in rows.T[actions == INSERT].tolist():
                context = {level: word for level, word in zip(sensor.columns, row, strict=True) if level >= 0}
                left = self._uncovered(sensor.level, context, self._minus_kept(s, context, [(row[a], row[b])]))
                if left:
                    return context, left[0][0]
        return None

    def _uncovered(self, level: int, context: Context, ranges: Ranges) -> Ranges:
        """What of some ranges of a level's values no atom both refuses and covers."""
        left = meet(ranges, self._allowed(level, context))
        for t, trie in enumerate(self._plan.tries):
            if not left:
                break
            if level not in trie.levels or (trie.negated and trie.levels[-1] != level):
                continue
            depth = trie.levels.index(level)
            prefix = tuple(context[before] for before in trie.levels[:depth])
            there = [(x, x) for lo, hi in left for x in self._values(self._trees[t], prefix, lo, hi)]
            refused = there if trie.negated else minus(left, there)
            s = self._sensor.get((t, depth))
            left = minus(left, refused if s is None else minus(refused, self._minus_kept(s, context, refused)))
        return left

    def _allowed(self, level: int, context: Context) -> Ranges:
        """The values that comparisons leave a level."""
        ranges = [(INT_MIN, INT_MAX)]
        for bound in self._plan.bounds:
            if bound.level == level:
                value = bound.constant + sum(sign * context[other] for other, sign in bound.others)
                sides = {EQ: (value, value), GE: (value, INT_MAX), LE: (INT_MIN, value)}
                side = sides.get(bound.kind)
                ranges = meet(ranges, [side]) if side else minus(ranges, [(value, value)])
        return ranges

    def _values(self, tree: Tree, prefix: tuple[int, ...], lo: int, hi: int) -> Iterator[int]:
        """The values from lo to hi behind a prefix of a tree's keys, each once, in order."""
        columns = (*range(len(prefix) + 1),)
        last = None
        for batch in read_batches(self._pages, tree, (*prefix, lo), columns=columns, rows=1024):
            for *start, value in batch.T.tolist():
                if (*start,) != prefix or value > hi:
                    return
                if value != last:
                    yield value
                last = value

    def _minus_kept(self, s: int, context: Context, ranges: Ranges) -> Ranges:
        """What of some ranges the kept intervals of a sensor do not cover in a context."""
        columns = self._plan.sensors[s].columns
        words = tuple(context[level] for level in columns if level >= 0)
        depth = self._plan.sensors[s].depth
        return minus(ranges, self._by_gamma(s, words[:depth]).get(words[depth:], []))

    def _read(self, s: int, alphas: tuple[int, ...]) -> dict[tuple[int, ...], Ranges]:
        """The kept intervals of a sensor behind its first columns, those of each context as ranges."""
        depth, found = len(alphas), dict[tuple[int, ...], Ranges]()
        for batch in read_batches(self._pages, self._kept[s], alphas, rows=4096):
            same = np.flatnonzero((batch[:depth] != np.array(alphas, np.int64)[:, None]).any(axis=0))
            end = int(same[0]) if len(same) else batch.shape[1]
            for a, b, *gammas in batch[depth:, :end].T.tolist():
                ranges = found.setdefault((*gammas,), [])
                if ranges and a <= ranges[-1][1]:
                    ranges[-1] = ranges[-1][0], max(b, ranges[-1][1])
                elif a <= b:
                    ranges.append((a, b))
            if end < batch.shape[1]:
                break
        return found


def meet(one: Ranges, other: Ranges) -> Ranges:
    """What is in both.

    >>> meet([(1, 5), (8, 9)], [(4, 8)])
    [(4, 5), (8, 8)]
    """
    found, i, j = [], 0, 0
    while i < len(one) and j < len(other):
        lo, hi = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if lo <= hi:
            found.append((lo, hi))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return found


def minus(one: Ranges, other: Ranges) -> Ranges:
    """What is in the one and not in the other.

    >>> minus([(1, 9)], [(2, 2), (5, 20)])
    [(1, 1), (3, 4)]
    """
    found, j = [], 0
    for lo, hi in one:
        while j < len(other) and other[j][1] < lo:
            j += 1
        k = j
        while k < len(other) and other[k][0] <= hi:
            if lo < other[k][0]:
                found.append((lo, other[k][0] - 1))
            lo = other[k][1] + 1
            k += 1
        if lo <= hi:
            found.append((lo, hi))
    return found
