"""Counts what a piece of work takes besides time: pages, bytes, writes, syncs, calls of kernels.

with Meter(workspace.store) as meter:
    ...
meter.counts

The meter replaces the functions that do input and output and that call kernels while it counts, so there are no
counters to pay for at other times.
"""

import sys
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher

from pagestore import Store
from pagestore.compiled import Door

from .traffic import Traffic

PACKAGES = ("pagestore.", "ivm.")


class Meter:
    """Counts the work of a store and of kernels until the block ends.

    A page counts as read if it was touched and not written; each is touched once, whatever happens to it later.
    """

    def __init__(self, store: Store) -> None:
        self.counts: dict[str, int] = {}
        self._store = store
        self._calls = 0
        self._undo: list[tuple[object, str, Any]] = []
        self._doors: set[int] = set()

    def __enter__(self) -> "Meter":
        self._traffic = Traffic(self._store)
        for module in list(sys.modules.values()):
            name = getattr(module, "__name__", "")
            if name.startswith(PACKAGES) and not _defines_kernels(module):
                self._watch(module)
        self._seen = self._touched().copy()
        self._touched()[:] = 0
        return self

    def __exit__(self, *_: object) -> None:
        self._traffic.stop()
        for holder, name, value in self._undo:
            setattr(holder, name, value)
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

    def _watch(self, module: ModuleType) -> None:
        """Count a module's calls of kernels, which it calls by their names, through their module or by a door."""
        for name, value in list(vars(module).items()):
            if isinstance(value, Dispatcher):
                stand: Any = self._counted(value)
            elif isinstance(value, Door):
                if id(value) not in self._doors:  # other modules may import it
                    self._doors.add(id(value))
                    self._undo.append((value, "call", value.call))
                    value.call = self._counted(value.call)
                continue
            elif isinstance(value, ModuleType) and _defines_kernels(value):
                stand = ModuleType(value.__name__)
                for inner, kernel in vars(value).items():
                    setattr(stand, inner, self._counted(kernel) if isinstance(kernel, Dispatcher) else kernel)
            else:
                continue
            self._undo.append((module, name, value))
            setattr(module, name, stand)

    def _counted(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(kernel)
        def counted(*arguments: Any) -> Any:
            self._calls += 1
            return kernel(*arguments)

        return counted


def _defines_kernels(module: ModuleType) -> bool:
    """Whether kernels look their names up in a module, which must then keep what numba can compile."""
    dispatchers = (value for value in vars(module).values() if isinstance(value, Dispatcher))
    return any(value.py_func.__module__ == module.__name__ for value in dispatchers)
