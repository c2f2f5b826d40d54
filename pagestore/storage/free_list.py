"""The free pages of a store, allocated lowest first, so that the end of the file empties and can be
cut off.

On disk they are a checkpoint, a run written now and then, and the `difference` since then, written
in every commit. docs/decisions/0003-free-space.md says why, and where its bound comes from.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import isqrt

import numpy as np

from pagestore.runtime.kernel import TypedKernel
from pagestore.storage.kernels import free_list as kernel
from pagestore.storage.records import WordList, empty_list, to_word_list, word_list

LEFT = 256  # pages, more than a transaction allocates and does not use
ROOM = 512  # spare capacity of each list of the difference, in pages

ALLOCATE = TypedKernel(kernel.allocate)
ALLOCATE_RUN = TypedKernel(kernel.allocate_run)
TAKE_BACK = TypedKernel(kernel.take_back)
COUNT = TypedKernel(kernel.count)


class FreeList:
    """The free pages below `top`, and the never used ones from `top` on."""

    def __init__(
        self,
        top: int,
        free: Sequence[int] | np.ndarray = (),
        added: Iterable[int] = (),
        removed: Iterable[int] = (),
    ):
        """Take the free pages int64[n] of a checkpoint, and those added and removed since."""
        self.top = top
        added, removed = word_list(added), word_list(removed)
        self.appending = False  # whether to allocate from `top` on only
        self.pending = word_list()  # free as soon as the commit under way is durable
        self._durable = word_list()  # free since a commit became durable, not marked in `_free` yet
        # the file may have been longer at the checkpoint
        known = max(top, max(removed, default=0) + 1)
        self._free = widened(np.zeros(0, np.uint8), known)
        self._place = widened(np.zeros(0, np.int32), known)
        self._summary = np.array([top, 0])  # LOWEST, MANY
        # pages the lists lack; they still have those from `top` on
        self._freed, self._counted = added, top
        self._words, self._half = word_list((0, 0)), 1  # both lists, each after its length
        self._lists = np.frombuffer(self._words, np.int64).reshape(2, -1)
        self._room = 0  # capacity left in each list, at least
        self._shown = 0  # how many pages of `_freed` a kernel may have counted
        self.take_back(np.setdiff1d(np.concatenate([np.array(free, np.int64), added]), removed))
        if removed:
            self.use(np.frombuffer(removed, np.int64))

    def __len__(self) -> int:
        """Return how many pages may be allocated."""
        return int(self._summary[kernel.MANY]) + len(self._durable)

    def _noted(self) -> np.ndarray:
        """Return a byte for each page, 1 if it may be allocated; first mark the pages whose
        freeing became durable.
        """
        if self._durable:
            freed, self._durable = self._durable, empty_list()
            self.take_back(np.frombuffer(freed, np.int64))
        return self._free

    def difference(self) -> tuple[WordList, WordList]:
        """Return the free pages that are not in the checkpoint, and the pages of the checkpoint
        that are in use.
        """
        if self._freed or self._counted > self.top:
            self.use(np.zeros(0, np.int64))
        words, half = self._words, self._half
        return words[1 : 1 + words[0]], words[half + 1 : half + 1 + words[half]]

    def allocate(self, n: int) -> np.ndarray:
        """Allocate n pages, int64[n], ascending, which count as free until `use`. O(n) mostly."""
        pages = np.empty(n, np.int64)
        if len(self) and not self.appending:
            taken = ALLOCATE.call(self._noted(), self._summary, self.top, pages)
        else:
            taken = 0
        if taken < n:
            pages[taken:] = self._grow(n - taken)
        return pages

    def allocate_run(self, n: int) -> int:
        """Allocate n consecutive pages; return the first. O(pages up to there)."""
        first = (
            -1 if self.appending else ALLOCATE_RUN.call(self._noted(), self._summary, self.top, n)
        )
        return self._grow(n).start if first < 0 else first

    def _grow(self, n: int) -> range:
        """Add n pages that were never used to the free ones."""
        fresh = range(self.top, self.top + n)
        self.top = fresh.stop
        self._freed.extend(range(self._counted, self.top))
        self._counted = max(self._counted, self.top)
        if self.top > len(self._place):
            self._free, self._place = widened(self._free, self.top), widened(self._place, self.top)
        return fresh

    @contextmanager
    def only_appending(self) -> Iterator[None]:
        """Allocate only behind all pages, and leave LEFT more before what is allocated, so that it
        later fits there, with what a transaction allocates ahead.
        """
        self.take_back(np.array(self._grow(LEFT)))
        self.appending = True
        try:
            yield
        finally:
            self.appending = False

    def take_back(self, pages: np.ndarray) -> None:
        """Make allocated pages int64[n] that were not used free again. O(n)."""
        TAKE_BACK.call(pages, self._free, self._summary)

    def retract(self, pages: np.ndarray) -> int:
        """Lower `top` past allocated pages, ascending, that are right below it; return how many."""
        n = right_below(pages, self.top)
        self.top -= n
        grown = self._freed[max(0, len(self._freed) - (self._counted - self.top)) :]
        if m := right_below(np.array(grown, np.int64), self._counted):
            del self._freed[-m:]
            self._counted -= m
        return n

    def use(self, pages: np.ndarray) -> None:
        """Count allocated pages as used by the commit under way. O(1) each."""
        freed, used, lists, place = self.to_count(pages)
        COUNT.call(*freed.buffer_info(), used, lists, place)

    def free(self, pages: WordList) -> None:
        """Free pages from the commit under way on; they are reused once it is durable. O(1)."""
        self.pending += pages
        self._freed += pages

    def reuse_pending(self, n: int) -> None:
        """Allow the first n pages that commits freed to be reused, now that these are durable."""
        self._durable += self.pending[:n]
        del self.pending[:n]

    def follow(self, top: int, added: WordList, removed: WordList) -> None:
        """Continue from a later commit of another process with the same checkpoint, by its lists;
        none is allocated.

        O(pages in these lists and the ones before).
        """
        free, news = self._noted(), [np.frombuffer(pages, np.int64) for pages in (added, removed)]
        olds = [np.frombuffer(pages, np.int64) for pages in self.difference()]
        self.pending, self.top, self._counted = empty_list(), top, top
        known = max(top, max(removed, default=0) + 1)
        if known > len(self._place):
            self._free, self._place = free, _ = widened(free, known), widened(self._place, known)
        touched = np.unique(np.concatenate([*olds, *news]))
        before = free[touched].sum(dtype=np.int64)
        for not_free, is_free in (olds, news[::-1]):
            free[not_free], free[is_free] = 0, 1
        self._place[touched] = 0
        self._lists[:, 0] = 0
        self._widen(max(map(len, news)))
        for number, pages in enumerate(news):
            self._lists[number, 0], self._lists[number, 1 : 1 + len(pages)] = len(pages), pages
            self._place[pages] = (1 - 2 * number) * np.arange(1, 1 + len(pages))
        self._summary[kernel.MANY] += free[touched].sum(dtype=np.int64) - before
        self._summary[kernel.LOWEST] = min(self._summary[kernel.LOWEST], touched.min(initial=top))

    def trim(self) -> int:
        """Lower `top` past the free pages at the end; return how many. O(top)."""
        taken, before = np.flatnonzero(self._noted()[: self.top] == 0), self.top
        self.top = int(taken[-1]) + 1
        self._free[self.top : before] = 0
        self._summary[kernel.MANY] -= before - self.top
        return before - self.top

    def checkpoint_due(self) -> bool:
        """Return whether a new checkpoint is cheaper to write than the difference.

        Pages freed since the lists were updated mostly leave `removed`, so they count only if they
        are many.
        """
        freed = len(self._freed)
        most = max(self._words[0] + self._words[self._half] - freed, freed)
        return most > 256 and most > 256 + 4 * isqrt(len(self))

    def changed(self) -> int:
        """Return an upper bound of the number of pages of the difference."""
        return (
            self._words[0] + self._words[self._half] + len(self._freed) + self._counted - self.top
        )

    def is_free(self, pages: np.ndarray) -> np.ndarray:
        """Return which of pages int64[n] may be allocated, bool[n]."""
        allocatable: np.ndarray = self._noted().view(bool)[pages]
        return allocatable

    def extents(self, allocated: np.ndarray) -> np.ndarray:
        """Return all free pages, and the allocated ones `allocated`, as runs (first, count):
        int64[n, 2]. O(top).
        """
        free = np.zeros(self.top + 2, bool)
        inner = free[1:-1]
        inner[:] = self._noted()[: self.top]
        inner[np.array(self.pending, np.int64)] = inner[allocated] = True
        ends = np.flatnonzero(free[1:] != free[:-1]).reshape(-1, 2)
        ends[:, 1] -= ends[:, 0]
        return ends

    def checkpoint(self, allocated: np.ndarray) -> np.ndarray:
        """Like `extents`; from now on the difference is relative to them."""
        for pages in self.difference():
            self._place[np.frombuffer(pages, np.int64)] = 0
        self._lists[:, 0] = 0
        return self.extents(allocated)

    def to_count(self, used: np.ndarray) -> tuple[WordList, np.ndarray, np.ndarray, np.ndarray]:
        """Return the arguments of `kernels.free_list.count` for used pages: freed pages, used
        pages, lists, places.

        The caller must call the kernel at once, since the freed pages are no longer kept here.
        """
        freed, self._freed = self._freed, empty_list()
        if self._counted > self.top:
            used = np.concatenate([np.arange(self.top, self._counted), used])
            self._counted = self.top
        self._room -= len(freed) + len(used)
        if self._room < 0:
            self._widen(len(freed) + len(used))
        return freed, used, self._lists, self._place

    def make_room(self, n: int) -> tuple[WordList, np.ndarray, np.ndarray]:
        """Return freed pages, lists and places for a kernel that may count these and up to n pages
        as used.

        If it does so, call `counted` after it; if not, nothing has changed.
        """
        self._shown = len(self._freed)
        n += self._shown
        if self._room < n:
            self._widen(n)
            self._room += n
        return self._freed, self._lists, self._place

    def counted(self, n: int) -> None:
        """Note that a kernel has counted the pages freed before `make_room`, and n pages as used.

        Those freed since then, such as the pages that the file has grown by, are still to be
        counted.
        """
        self._room -= n + self._shown
        del self._freed[: self._shown]
        self._shown = 0

    def uncount(self, pages: np.ndarray) -> None:
        """Count pages int64[n] that were counted as used as free again."""
        self._freed += to_word_list(pages)

    def _widen(self, n: int) -> None:
        """Extend each list to hold at least n more pages."""
        before, longest = self._lists, max(self._words[0], self._words[self._half])
        if before.shape[1] < ROOM + 2 * (longest + n):
            self._words = to_word_list(np.zeros(4 * (ROOM + longest + n), np.int64))
            self._lists = np.frombuffer(self._words, np.int64).reshape(2, -1)
            self._half = self._lists.shape[1]
            self._lists[:, : longest + 1] = before[:, : longest + 1]
        self._room = self._lists.shape[1] - 1 - longest - n


def right_below(pages: np.ndarray, top: int) -> int:
    """Return how many of the last pages ascend one by one to `top` - 1.

    >>> right_below(np.array([3, 7, 8, 9]), 10)
    3
    """
    unlike = (pages != np.arange(top - len(pages), top)).nonzero()[0]
    return len(pages) - (int(unlike[-1]) + 1 if len(unlike) else 0)


def widened(array: np.ndarray, top: int) -> np.ndarray:
    """Return a copy that holds twice `top` pages, with zeros after the old content."""
    wide = np.zeros(16 * (1 + top // 8), array.dtype)
    wide[: len(array)] = array
    return wide
