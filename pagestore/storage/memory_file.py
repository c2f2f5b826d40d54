"""A store's file that is in memory only, and freed with its handle, however the process ends."""

import os
from pathlib import Path

import numpy as np

from pagestore.storage.file import File, open_files, opened
from pagestore.storage.page_writer import PageWriter

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
        """Do nothing but check that it is open: the file cannot be moved or replaced."""
        self._check()
