"""What kernels write the pages of a file by, see kernels/write.py; docs/decisions/0018-small-writes.md says why."""

import numpy as np

from .kernels.write import FD, MAP, OUTLET, PAGES, WRITTEN


class Outlet:
    """An open file and, perhaps, a map of it: through that goes what was written by the descriptor before."""

    def __init__(self, fd: int) -> None:
        self.words = np.zeros(OUTLET, np.int64)
        self.words[FD] = fd
        self._map, self._written = np.zeros(0, np.int64), np.zeros(0, np.uint8)

    @property
    def nbytes(self) -> int:
        """Bytes of the map."""
        return self._map.nbytes

    def widen(self, words: np.ndarray, page_size: int) -> None:
        """Go on with a longer map, int64[n]. Nobody may be writing."""
        written = np.zeros(words.nbytes // page_size, np.uint8)
        written[: len(self._written)] = self._written
        self._map, self._written = words, written
        self.words[[MAP, PAGES, WRITTEN]] = words.ctypes.data, len(written), written.ctypes.data

    def cut(self, pages: int) -> None:
        """The file ends behind so many pages: what comes after them later was not written yet."""
        self._written[pages:] = 0

    def close(self) -> None:
        """Nothing is written any more."""
        self.words[[FD, PAGES]] = -1, 0


CLOSED = Outlet(-1).words
