"""Counts what a piece of work takes besides time: pages, bytes, writes, syncs, calls of kernels.

with Meter(workspace.store) as meter:
    ...
meter.counts

The meter replaces the functions that do input and output and that call kernels while it counts, so
there are no counters to pay for at other times.
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

    A page counts as read if it was touched and not written; each is touched once, whatever happens
    to it later.
    """

    def __init__(self, store: Store) -> None:
        self.counts: dict[str, int] = {}
        self._store, self._written, self._patches = store, set[int](), ExitStack()

    def __enter__(self) -> "Meter":
        self.counts = dict.fromkeys(
            ("pages read", "pages written", "bytes", "writes", "syncs", "kernel calls"), 0
        )
        self._patches.enter_context(patch.multiple(self._store._handle.file, **self._file()))
        for typed in TypedKernel.every:
            self._patches.enter_context(patch.dict(typed.__dict__, call=self._kernel(typed)))
        self._seen = self._touched().copy()
        self._touched()[:] = 0
        return self

    def __exit__(self, *_: object) -> None:
        self._patches.close()
        touched = self._touched()
        self.counts["pages read"] = len(set(np.flatnonzero(touched).tolist()) - self._written)
        self.counts["pages written"] = len(self._written)
        np.maximum(touched[: len(self._seen)], self._seen, out=touched[: len(self._seen)])

    def _touched(self) -> np.ndarray:
        """The marks that kernels set for pages that they have verified."""
        with self._store.snapshot() as snapshot:
            return snapshot.pages.seen

    def _kernel(self, typed: TypedKernel) -> Callable[..., Any]:
        """Return the calls of a kernel, counted. Those that are never called are not compiled."""
        plain = copy(typed)

        def counted(*arguments: Any) -> Any:
            self.counts["kernel calls"] += 1
            return plain.call(*arguments)

        return counted

    def _file(self) -> dict[str, Any]:
        """Return the functions of the store's file that write and sync, counted."""
        file, size = self._store._handle.file, self._store.page_size
        write, write_all, sync = file.pwrite, file.write_pages, file.fdatasync

        def count(writes: int, length: int, pages: Iterable[int]) -> None:
            self.counts["writes"] += writes
            self.counts["bytes"] += length
            self._written.update(pages)

        def pwrite(data: memoryview, offset: int) -> None:
            length = memoryview(data).nbytes
            # a meta slot is not a whole page
            count(1, length, range(offset // size, (offset + length) // size))
            write(data, offset)

        def wrote(ids: np.ndarray) -> None:
            count(len(neighbours(ids)), len(ids) * size, ids.tolist())

        def write_pages(arena: np.ndarray, ids: np.ndarray, page_words: int) -> None:
            wrote(ids)
            write_all(arena, ids, page_words)

        def fdatasync() -> None:
            self.counts["syncs"] += 1
            sync()

        return {
            "pwrite": pwrite,
            "wrote": wrote,
            "write_pages": write_pages,
            "fdatasync": fdatasync,
        }
