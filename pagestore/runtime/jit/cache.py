"""Machine code on the disk: numba's cache, in the folder that is named by a hash of all kernel
sources.
"""

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba import __version__, config
from numba.core.caching import FunctionCache

from pagestore.runtime.code_cache import cache_folder

# reports each kernel that is compiled, which takes seconds
LOG = logging.getLogger("pagestore.kernels")
# numba's, which change machine code
SETTINGS = "BOUNDSCHECK", "OPT", "DEBUGINFO_DEFAULT", "ENABLE_PROFILING"


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
    return cache_folder(*settings())


def settings() -> list[str]:
    """Return all of numba's that changes machine code: its version, its options, and whether it
    is overridden.
    """
    plain = os.environ.get("PAGESTORE_KERNELS") == "plain"  # see compiler.py
    return [__version__, *(str(getattr(config, name)) for name in SETTINGS), str(plain)]
