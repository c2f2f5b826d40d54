"""The words that tell kernels how to write a file's pages (storage/kernels/write.py); for why there are two ways,
see docs/decisions/0018-small-writes.md."""

import numpy as np

from pagestore.storage.kernels.write import FD, MAP, OUTLET, PAGES, WRITTEN


class PageWriter:
    """An open file and perhaps a map of it. A page goes through the map once the descriptor has written it before."""

    def __init__(self, fd: int) -> None:
        self.words = np.zeros(OUTLET, np.int64)
        self.words[FD] = fd
        self.page_size = 0  # bytes of a page; 0 if no map may be used
        self._map, self._written = np.zeros(0, np.int64), np.zeros(0, np.uint8)

    def covers(self, count: int) -> bool:
        """Return whether the map has `count` bytes, or none may be used."""
        return not self.page_size or int(self.words[PAGES]) * self.page_size >= count

    def widen(self, words: np.ndarray) -> None:
        """Replace the map by a longer one, int64[n], while nobody is writing."""
        written = np.zeros(words.nbytes // self.page_size, np.uint8)
        written[: len(self._written)] = self._written
        self.words[PAGES] = 0  # first: an exception may come in between, after the old map is freed
        self._map, self._written = words, written
        self.words[[MAP, PAGES, WRITTEN]] = words.ctypes.data, len(written), written.ctypes.data

    def cut(self, size: int) -> None:
        """Count pages past `size` bytes, to which the file was cut, as never written."""
        if self.page_size:
            self._written[size // self.page_size :] = 0

    def close(self) -> None:
        """Refuse to write from now on."""
        self.words[[FD, PAGES]] = -1, 0


CLOSED = PageWriter(-1).words
