"""Counts the pages, bytes, writes and syncs that a store asks of its file."""

import numpy as np

from pagestore import Store
from pagestore.storage.file import neighbours


class Traffic:
    """Counts from its making until it is stopped or the store closes."""

    def __init__(self, store: Store) -> None:
        self.bytes = self.writes = self.syncs = 0
        self.pages: set[int] = set()  # written
        self._file = file = store._handle.file
        page_size, write, write_all, sync = store.page_size, file.pwrite, file.write_pages, file.fdatasync

        def pwrite(data: memoryview, offset: int) -> None:
            count = memoryview(data).nbytes
            self.writes += 1
            self.bytes += count
            self.pages.update(
                range(offset // page_size, (offset + count) // page_size)
            )  # a meta slot is not a whole page
            write(data, offset)

        def write_pages(arena: np.ndarray, ids: np.ndarray, page_words: int) -> None:
            wrote(ids)
            write_all(arena, ids, page_words)

        def wrote(ids: np.ndarray) -> None:
            self.writes += len(neighbours(ids))
            self.bytes += len(ids) * page_size
            self.pages.update(ids.tolist())

        def fdatasync() -> None:
            self.syncs += 1
            sync()

        file.pwrite, file.write_pages, file.wrote, file.fdatasync = pwrite, write_pages, wrote, fdatasync  # type: ignore

    def stop(self) -> None:
        """Give the file its own functions back."""
        del self._file.pwrite, self._file.write_pages, self._file.wrote, self._file.fdatasync
