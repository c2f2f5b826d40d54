"""Counts what a piece of work takes besides time: pages, bytes, writes, syncs, calls of kernels.

with Meter(workspace.store) as meter:
    ...
meter.counts

The meter replaces the functions that do input and output and that call kernels while it counts, so there are no
counters to pay for at other times.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from copy import copy
from typing import Any
from unittest.mock import patch

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
        self._store, self._traffic, self._patches, self._calls = store, Traffic(store), ExitStack(), 0

    def __enter__(self) -> "Meter":
        self._patches.enter_context(self._traffic)
        for typed in TypedKernel.every:
            self._patches.enter_context(patch.dict(typed.__dict__, call=self._counted(typed)))
        self._seen = self._touched().copy()
        self._touched()[:] = 0
        return self

    def __exit__(self, *_: object) -> None:
        self._patches.close()
        traffic, touched = self._traffic, self._touched()
        read = set(np.flatnonzero(touched).tolist()) - traffic.pages
        np.maximum(touched[: len(self._seen)], self._seen, out=touched[: len(self._seen)])
        self.counts = {"pages read": len(read), "pages written": len(traffic.pages), **traffic.counts}
        self.counts["kernel calls"] = self._calls

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
    """Counts the pages, bytes, writes and syncs of a store's file until the block ends."""

    def __init__(self, store: Store) -> None:
        self.counts = {"bytes": 0, "writes": 0, "syncs": 0}
        self.pages: set[int] = set()  # written
        self._store, self._patches = store, ExitStack()

    def __enter__(self) -> "Traffic":
        file, size = self._store._handle.file, self._store.page_size
        write, write_all, sync = file.pwrite, file.write_pages, file.fdatasync

        def pwrite(data: memoryview, offset: int) -> None:
            count = memoryview(data).nbytes
            self._wrote(1, count, range(offset // size, (offset + count) // size))  # a meta slot is not a whole page
            write(data, offset)

        def wrote(ids: np.ndarray) -> None:
            self._wrote(len(neighbours(ids)), len(ids) * size, ids.tolist())

        def write_pages(arena: np.ndarray, ids: np.ndarray, page_words: int) -> None:
            wrote(ids)
            write_all(arena, ids, page_words)

        def fdatasync() -> None:
            self.counts["syncs"] += 1
            sync()

        self._patches.enter_context(
            patch.multiple(file, pwrite=pwrite, wrote=wrote, write_pages=write_pages, fdatasync=fdatasync)
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._patches.close()

    def _wrote(self, writes: int, count: int, pages: Iterable[int]) -> None:
        self.counts["writes"] += writes
        self.counts["bytes"] += count
        self.pages.update(pages)
