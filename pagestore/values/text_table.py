"""A bounded cache of the texts that a transaction met, with their ids: many rows repeat few texts."""

from collections.abc import Callable

import numpy as np

from pagestore.runtime.arguments import Door, Words
from pagestore.values.kernels import text_table
from pagestore.values.kernels.text_table import COUNT, ID
from pagestore.values.text_search import PackedTexts

FEWEST = 1 << 13  # slots that a new table has
SLOTS_MAX, WORDS_MAX = 1 << 20, 1 << 22  # 42 MB in all

ENTER = Door(text_table.enter_texts, Words, Words, Words, Words, int, int, int, Words, Words)
SPREAD = Door(text_table.spread_slots, Words, Words)


class TextTable:
    """A hash table from texts to their ids. After a call that raises it must not be used any more."""

    def __init__(self) -> None:
        self._slots, self._pool = np.zeros(FEWEST, np.int64), np.empty(4 * FEWEST, np.int64)
        self._used = np.zeros(2, np.int64)

    def ids_of(self, texts: PackedTexts, resolve: Callable[[np.ndarray], list[int]]) -> np.ndarray | None:
        """Return the ids int64[n] of n texts; None if one of them is long. O(bytes).

        `resolve` returns the ids of the texts at places int64[m], which are distinct and new to the table; it is called
        at the end, and whenever the table is full, which empties it.
        """
        ids, fresh = np.empty((2, len(texts)), np.int64)
        at, known, first = 0, 0, self._count
        while at < len(texts):
            new = fresh[self._count - first :]
            source = texts.offsets, texts.data.address, texts.data.size
            at = ENTER.call(self._slots, self._pool, self._used, *source, at, ids, new)
            if at < 0:
                return None
            if at == len(texts) or not self._grow():
                new = fresh[: self._count - first]
                self._pool[~ids[new] + ID] = resolve(new)
                waiting = known + np.flatnonzero(ids[known:at] < 0)
                ids[waiting] = self._pool[~ids[waiting] + ID]
                if at < len(texts):
                    self._forget()
                known, first = at, self._count
        return ids

    @property
    def _count(self) -> int:
        return int(self._used[COUNT])

    def _grow(self) -> bool:
        """Make room for more texts, or for longer ones; return False if the memory limit is reached."""
        if 2 * self._count < len(self._slots):
            if len(self._pool) >= WORDS_MAX:
                return False
            self._pool = np.concatenate([self._pool, np.empty_like(self._pool)])
            return True
        if len(self._slots) >= SLOTS_MAX:
            return False
        wider = np.zeros(2 * len(self._slots), np.int64)
        SPREAD.call(self._slots, wider)
        self._slots = wider
        return True

    def _forget(self) -> None:
        self._slots[:] = 0
        self._used[:] = 0
