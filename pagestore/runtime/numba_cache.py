"""Machine code on the disk, kept by numba's cache in the folder that is named by all kernel sources."""

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba import config
from numba.core.caching import FunctionCache

from pagestore.runtime.code_cache import cache_folder

LOG = logging.getLogger("pagestore.kernels")  # tells of each kernel that is compiled, which takes seconds


class KernelCache(FunctionCache):
    """As numba's, but for the folder, unless its user has named one. What cannot be read or written is no error."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.kernel = f"{function.__module__}.{function.__qualname__}"
        named, config.CACHE_DIR = config.CACHE_DIR, config.CACHE_DIR or str(_folder())
        try:
            super().__init__(function)
        finally:
            config.CACHE_DIR = named

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """As numba's; None for a file that is damaged, which is then written anew."""
        found = None
        try:
            found = self.load(sig, target_context)
        except Exception:  # whatever unpickling makes of such a file
            with suppress(OSError):
                self.flush()
        if found is None:
            LOG.info("compiling %s", self.kernel)
        return found

    def load(self, sig: Any, target_context: Any) -> Any:
        """numba's own look at the disk."""
        return super().load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        """As numba's, where the folder can be written to and the disk has room."""
        with suppress(OSError):
            super().save_overload(sig, data)


@cache
def _folder() -> Path:
    """The folder of kernels as numba is set at the first of them."""
    return cache_folder()
