"""Which pages are free, lowest first.

Free pages are handed out in ascending order, so that a store's end empties and can be cut off. On disk the
set is a checkpoint (a run, now and then) and what changed since (in every commit): `added` and `removed` are
that difference. docs/decisions/0003-free-space.md says why, and where its bound comes from.
"""

from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush
from itertools import repeat
from math import isqrt

import numpy as np


class Space:
    """The free pages below `top`, and the never used ones from there on."""

    def __init__(self, top: int, free: Iterable[int] = (), added: Iterable[int] = (), removed: Iterable[int] = ()):
        self.top = top
        self.added, self.removed = set(added), set(removed)
        self.heap = sorted((set(free) | self.added) - self.removed)
        self.appending = False  # whether to lend from `top` on only, so that the front empties
        self.pending: list[int] = []  # free as soon as the commit under way is durable

    def lend(self, n: int) -> list[int]:
        """n pages, ascending, still counted as free until `use` says otherwise. O(n log free)."""
        heap = self.heap
        pages = [] if self.appending else [*map(heappop, repeat(heap, min(n, len(heap))))]
        if len(pages) < n:
            fresh = range(self.top, self.top + n - len(pages))
            self.top = fresh.stop
            self._count_free(fresh)
            pages += fresh
        return pages

    def lend_run(self, n: int) -> int:
        """First of n consecutive pages, lent. O(free) for n > 1."""
        if n == 1:
            return self.lend(1)[0]
        self.heap.sort()
        pages = np.array(self.heap, np.int64)
        fits = np.flatnonzero(pages[n - 1 :] - pages[: max(len(pages) - n + 1, 0)] == n - 1)
        if not len(fits) or self.appending:
            fresh = range(self.top, self.top + n)
            self.top = fresh.stop
            self._count_free(fresh)
            return fresh.start
        at = int(fits[0])
        del self.heap[at : at + n]
        return int(pages[at])

    def take_back(self, pages: Iterable[int]) -> None:
        """Lent pages that were not used after all. O(log free) each."""
        deque(map(heappush, repeat(self.heap), pages), 0)  # a loop, a third of the time

    def retract(self, pages: np.ndarray) -> int:
        """Lower `top` past lent pages, ascending, that stand right below it; returns how many."""
        below = np.arange(self.top - len(pages), self.top)
        unlike = np.flatnonzero(pages != below)
        n = len(pages) - (int(unlike[-1]) + 1 if len(unlike) else 0)
        self.top -= n
        self.use(range(self.top, self.top + n))
        return n

    def use(self, pages: Iterable[int]) -> None:
        """Lent pages are part of the state that is being committed. O(1) each."""
        _move(set(pages), self.added, self.removed)

    def free(self, pages: Iterable[int]) -> None:
        """Pages are free in the state that is being committed, but not reused before it is durable. O(1)
        each.
        """
        pages = list(pages)
        self.pending += pages
        self._count_free(pages)

    def _count_free(self, pages: Iterable[int]) -> None:
        """A page that the checkpoint calls free may have been used, or cut off the end, since."""
        _move(set(pages), self.removed, self.added)

    def settle(self) -> None:
        """The commit is durable: what it freed may be reused."""
        self.take_back(self.pending)
        self.pending.clear()

    def trim(self) -> int:
        """Lower `top` past the free pages at the end; returns how many. O(free)."""
        self.heap.sort()
        before = self.top
        while self.heap and self.heap[-1] == self.top - 1:
            self.top = self.heap.pop()
            self.use((self.top,))
        return before - self.top

    def checkpoint_due(self) -> bool:
        """Whether the difference has outgrown what is cheaper to write as a new checkpoint."""
        return len(self.added) + len(self.removed) > 256 + 4 * isqrt(len(self.heap))

    def all_free(self, lent: Iterable[int]) -> list[int]:
        """All free pages in order, the lent ones among them. O(free log free)."""
        return sorted([*self.heap, *self.pending, *lent])

    def checkpoint(self, lent: Iterable[int]) -> list[int]:
        """As `all_free`; from now on the difference is counted from them."""
        self.added.clear()
        self.removed.clear()
        return self.all_free(lent)


def _move(pages: set[int], out: set[int], into: set[int]) -> None:
    """Take pages out of one set; those that it has not go into the other."""
    known = pages & out
    out -= known
    into |= pages - known
