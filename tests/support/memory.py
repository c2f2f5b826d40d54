"""A pager over plain memory, for tests of trees alone: pages are never reused, so stale reads
show.
"""

import crc32c
import numpy as np

from pagestore.pages.layout import BIRTH, CRC, FIRST_PAGE, Pages
from pagestore.storage.file import CLOSED


class MemoryPager:
    threads = 1

    def __init__(self, page_size: int = 4096, pages_max: int = 1 << 14) -> None:
        self.page_words = page_size // 8
        self._words = np.zeros(pages_max * self.page_words, np.int64)
        self._readable = self._words.view()
        self._readable.flags.writeable = False
        self._seen = np.zeros(pages_max, np.uint8)
        self.version = 1
        self._next = FIRST_PAGE
        self.live: set[int] = set()
        self.retired: list[int] = []

    @property
    def pages(self) -> Pages:
        return Pages(self._readable, self._seen, self.page_words)

    def reserve(self, n: int) -> np.ndarray:
        ids = np.arange(self._next, self._next + n)
        self._next += n
        self.live.update(ids.tolist())
        return ids

    def write(self, arena: np.ndarray, ids: np.ndarray) -> None:
        pages = arena[: len(ids) * self.page_words].reshape(-1, self.page_words)
        for page, page_id in zip(pages, ids.tolist(), strict=True):
            page[CRC] = crc32c.crc32c(page[1:].tobytes())
            at = page_id * self.page_words
            assert not self._words[at : at + self.page_words].any(), "a page was written twice"
            self._words[at : at + self.page_words] = page

    def make_room(self, top: int) -> np.ndarray:
        return CLOSED

    page_writer = make_room

    def wrote(self, arena: np.ndarray, ids: np.ndarray, written: int) -> None:
        assert not written, "by an page_writer that is closed"
        self.write(arena, ids)

    def release(self, ids: np.ndarray) -> None:
        self.live.difference_update(ids.tolist())

    def retire(self, dead: np.ndarray) -> None:
        ids, births = dead.T.tolist()
        assert self.live.issuperset(ids), "a page was retired that was not live"
        assert births == [self._words[page * self.page_words + BIRTH] for page in ids], (
            "another's birth"
        )
        self.live.difference_update(ids)
        self.retired += ids


class Recycling(MemoryPager):
    """Takes back the ids that one `apply` reserved and did not need, so that thousands of small
    ones fit.
    """

    def release(self, ids):
        super().release(ids)
        if len(ids) and ids[-1] == self._next - 1:
            self._next = int(ids[0])
