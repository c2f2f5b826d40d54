"""Counts what a piece of work takes besides time: pages, bytes, writes, syncs, calls of kernels.

with Meter(workspace.store) as meter:
    ...
meter.counts

The meter replaces the functions that do input and output and that call kernels while it counts, so there are no
counters to pay for at other times.
"""

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np

from pagestore import Store
from pagestore.compiled import TypedKernel
from pagestore.tooling import neighbours


class Meter:
    """Counts the work of a store and of kernels until the block ends.

    A page counts as read if it was touched and not written; each is touched once, whatever happens to it later.
    """

    def __init__(self, store: Store) -> None:
        self.counts: dict[str, int] = {}
        self._store = store
        self._calls = 0
        self._undo: list[tuple[TypedKernel, Any]] = []

    def __enter__(self) -> "Meter":
        self._traffic = Traffic(self._store)
        for typed in TypedKernel.every:
            self._undo.append((typed, typed.__dict__.get("call")))
            typed.call = self._counted(typed)
        self._seen = self._touched().copy()
        self._touched()[:] = 0
        return self

    def __exit__(self, *_: object) -> None:
        self._traffic.stop()
        for typed, call in self._undo:
            del typed.call
            if call is not None:  # else the next call finds what was loaded or compiled
                typed.call = call
        touched = self._touched()
        read = set(np.flatnonzero(touched).tolist()) - self._traffic.pages
        np.maximum(touched[: len(self._seen)], self._seen, out=touched[: len(self._seen)])
        self.counts = {
            "pages read": len(read),
            "pages written": len(self._traffic.pages),
            "bytes": self._traffic.bytes,
            "writes": self._traffic.writes,
            "syncs": self._traffic.syncs,
            "kernel calls": self._calls,
        }

    def _touched(self) -> np.ndarray:
        """The marks that kernels set for pages that they have verified."""
        with self._store.snapshot() as snapshot:
            return snapshot.pages.seen

    def _counted(self, typed: TypedKernel) -> Callable[..., Any]:
        """Return the calls of a kernel, counted. Those that are never called are not compiled."""
        plain = copy(typed)

        def counted(*arguments: Any) -> Any:
            self._calls += 1
            return plain.call(*arguments)

        return counted


class Traffic:
    """Counts the pages, bytes, writes and syncs of a store's file, until it is stopped or the store closes."""

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
