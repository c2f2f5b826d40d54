"""What a piece of work takes besides time: pages, bytes, writes, syncs, calls of kernels.

with Meter(workspace.store) as meter:
    ...
meter.counts

The store is watched from outside, at the one place where its input and output happen and where Python calls
what is compiled, so that nobody pays for counters that nobody reads.
"""

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher

from pagestore import Store

PACKAGES = ("pagestore.", "ivm.")


class Meter:
    """Counts what a store and the kernels do until the block ends.

    A page counts as read if it was touched and not written; each is touched once, whatever happens to it later.
    """

    def __init__(self, store: Store) -> None:
        self.counts = dict.fromkeys(("pages read", "pages written", "bytes", "writes", "syncs", "kernel calls"), 0)
        self._store = store
        self._written: set[int] = set()
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> "Meter":
        file = self._store._file
        self._replace(file, "pwrite", self._pwrite(file.pwrite))
        self._replace(file, "fdatasync", self._counted("syncs", file.fdatasync))
        for module in list(sys.modules.values()):
            name = getattr(module, "__name__", "")
            if name.startswith(PACKAGES) and ".kernels" not in name:
                self._watch(module)
        self._seen = self._touched().copy()
        self._touched()[:] = 0
        return self

    def __exit__(self, *_: object) -> None:
        for undo in reversed(self._undo):
            undo()
        touched = np.flatnonzero(self._touched())
        self.counts["pages read"] = len(set(touched.tolist()) - self._written)
        self.counts["pages written"] = len(self._written)
        self._touched()[: len(self._seen)] |= self._seen

    def _touched(self) -> np.ndarray:
        """Which pages were verified, as the kernels note it."""
        with self._store.snapshot() as snapshot:
            return snapshot.pages.seen

    def _pwrite(self, pwrite: Callable) -> Callable:
        size = self._store.page_size

        def counted(data: Any, offset: int) -> None:
            length = memoryview(data).nbytes
            self.counts["writes"] += 1
            self.counts["bytes"] += length
            if length >= size:  # else a meta slot
                self._written.update(range(offset // size, (offset + length) // size))
            pwrite(data, offset)

        return counted

    def _watch(self, module: ModuleType) -> None:
        """Count the module's calls of kernels, whether it names them or their module."""
        for name, value in list(vars(module).items()):
            if isinstance(value, Dispatcher):
                self._replace(module, name, self._counted("kernel calls", value))
            elif isinstance(value, ModuleType) and ".kernels." in value.__name__:
                self._replace(module, name, _Stand(value, self._counted))

    def _counted(self, what: str, function: Callable) -> Callable:
        def counted(*arguments: Any) -> Any:
            self.counts[what] += 1
            return function(*arguments)

        return counted

    def _replace(self, owner: Any, name: str, value: Any) -> None:
        own = name in vars(owner)
        before = getattr(owner, name)
        self._undo.append(lambda: setattr(owner, name, before) if own else delattr(owner, name))
        setattr(owner, name, value)


class _Stand:
    """Stands for a module of kernels and counts the calls."""

    def __init__(self, module: ModuleType, counted: Callable[[str, Callable], Callable]) -> None:
        for name, value in vars(module).items():
            setattr(self, name, counted("kernel calls", value) if isinstance(value, Dispatcher) else value)
