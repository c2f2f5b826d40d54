"""Machine code on the disk: numba's cache, in the folder that is named by a hash of all kernel sources."""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba import config
from numba.core.caching import FunctionCache

from pagestore.runtime.code_cache import cache_folder

LOG = logging.getLogger("pagestore.kernels")  # reports each kernel that is compiled, which takes seconds


class KernelCache(FunctionCache):
    """numba's cache in our folder (or NUMBA_CACHE_DIR); ignores files that it cannot read or write."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.kernel = f"{function.__module__}.{function.__qualname__}"
        named, config.CACHE_DIR = config.CACHE_DIR, config.CACHE_DIR or str(_folder())
        try:
            super().__init__(function)
        finally:
            config.CACHE_DIR = named

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Like numba's, but return None for a damaged file, which is then rewritten."""
        found = None
        try:
            found = self.load(sig, target_context)
        except Exception:  # unpickling a damaged file may raise anything
            with suppress(OSError):
                self.flush()
        if found is None:
            LOG.info("compiling %s", self.kernel)
        return found

    def load(self, sig: Any, target_context: Any) -> Any:
        """Load from the disk, by numba's own method."""
        return super().load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Like numba's, but do nothing if the folder cannot be written to or the disk is full."""
        with suppress(OSError):
            super().save_overload(sig, data)


@cache
def _folder() -> Path:
    """Return the folder of kernels for numba's settings when the first of them is compiled."""
    return cache_folder()
