"""A store's file as it is now, followed by a temporary file that takes all writes.

    bytes      0 .............. | end ........
               the store's file | a file without a name, deleted when closed

To the pager, and to every kernel, it is one file; the store's own is only read.

A store's file that is in memory only, and freed with its handle, however the process ends.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from pagestore.pages.layout import WORD
from pagestore.storage.file import (
    CLOSED,
    Buffer,
    File,
    PageWriter,
    mapped_ahead,
    open_files,
    opened,
)


class OverlayFile(File):
    """A store's file; its bytes from `end` on are the temporary file's."""

    def __init__(self, below: File, page_size: int) -> None:
        self._below, self.end = below, below.size() // page_size * page_size
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed with the store
        self._fd = self._file.fileno()
        self.path, self.writable = Path(tempfile.gettempdir()), True
        self._map = np.zeros(0, np.int64)
        self._page_writer = PageWriter(self._fd)
        open_files.add(self)

    @property
    def remembered(self) -> dict[Any, dict[Any, Any]]:
        """What a host remembers of committed trees while the store's file is open."""
        return self._below.remembered

    def size(self) -> int:
        """Return the bytes of both files."""
        return self.end + super().size()

    def pread(self, count: int, offset: int) -> bytes:
        """Read up to `count` bytes, all from one file."""
        if offset < self.end:
            return self._below.pread(count, offset)
        return super().pread(count, offset - self.end)

    def pwrite(self, data: Buffer, offset: int) -> None:
        """Write all of `data` to the temporary file."""
        assert offset >= self.end, "a page of the store itself would be written"
        super().pwrite(data, offset - self.end)

    def write_pages(self, arena: np.ndarray, ids: np.ndarray, page_words: int) -> None:
        """Like `File.write_pages`, to the temporary file."""
        places = ids - self.end // (page_words * WORD)
        assert places.min() >= 0, "a page of the store itself would be written"
        super().write_pages(arena, places, page_words)

    @property
    def page_writer(self) -> np.ndarray:
        """CLOSED: kernels do not write here."""
        return CLOSED

    def fallocate(self, offset: int, count: int) -> None:
        """Make the file longer; a full disk shows only when it is written to."""
        os.truncate(self._fd, offset + count - self.end)

    def map(self, count: int) -> np.ndarray:
        """Map the first `count` bytes of both files as one array."""
        if count > self._map.nbytes:
            before = self._below._fd, self.end
            self._map = mapped_ahead(self._fd, count - self.end, before)
        return self._map[: count // 8]


IN_MEMORY = ":memory:"


class MemoryFile(File):
    """A file without a name and without a disk; nobody else can open it."""

    def __init__(self, content: bytes) -> None:
        self.path, self.writable = Path(IN_MEMORY), True
        fd = os.memfd_create("pagestore", os.MFD_CLOEXEC)
        try:
            self._file = opened(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_CLOEXEC)
        finally:
            os.close(fd)
        self._locks = opened(f"/proc/self/fd/{self._file.fileno()}", os.O_RDWR | os.O_CLOEXEC)
        self._fd = self._file.fileno()
        self._map = np.zeros(0, np.int64)
        self._page_writer = PageWriter(self._fd)
        open_files.add(self)
        self.pwrite(content, 0)

    def check_place(self) -> None:
        """Check that the file is open; in memory it cannot be moved or replaced."""
        self._check()
