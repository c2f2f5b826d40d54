"""What kernels write the pages of a file by: storage/kernels/write.py; docs/decisions/0018-small-writes.md says why."""

import numpy as np

from pagestore.storage.kernels.write import FD, MAP, OUTLET, PAGES, WRITTEN


class PageWriter:
    """An open file and, perhaps, a map of it: through that goes what was written by the descriptor before."""

    def __init__(self, fd: int) -> None:
        self.words = np.zeros(OUTLET, np.int64)
        self.words[FD] = fd
        self.page_size = 0  # bytes of a page; 0 while no map may be used
        self._map, self._written = np.zeros(0, np.int64), np.zeros(0, np.uint8)

    def covers(self, count: int) -> bool:
        """Is there a map of so many bytes, where one may be used?"""
        return not self.page_size or int(self.words[PAGES]) * self.page_size >= count

    def widen(self, words: np.ndarray) -> None:
        """Go on with a longer map, int64[n]. Nobody may be writing."""
        written = np.zeros(words.nbytes // self.page_size, np.uint8)
        written[: len(self._written)] = self._written
        self.words[PAGES] = 0  # first: an exception may come in between, when the map before is gone
        self._map, self._written = words, written
        self.words[[MAP, PAGES, WRITTEN]] = words.ctypes.data, len(written), written.ctypes.data

    def cut(self, size: int) -> None:
        """The file ends behind so many bytes: pages that come after them later were not written yet."""
        if self.page_size:
            self._written[size // self.page_size :] = 0

    def close(self) -> None:
        """Nothing is written any more."""
        self.words[[FD, PAGES]] = -1, 0


CLOSED = PageWriter(-1).words
