"""Large arrays in Arrow's pool of memory, which keeps for a second what is given back, by large pages.

malloc gives large pieces back to the system, which clears what it hands out page by page: to have room for ten million
rows took as long as to read them.
"""

import ctypes
import mmap
from math import prod

import numpy as np
import pyarrow as pa

POOLED = 1 << 19  # words; fewer are found in what the process has
HUGE_PAGE = 1 << 21  # bytes

_madvise = ctypes.CDLL(None).madvise
_madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int


def pooled(*shape: int) -> np.ndarray:
    """An array int64[shape], not initialised.

    >>> pooled(2, 3).shape
    (2, 3)
    """
    n = prod(shape)
    if n < POOLED:
        return np.empty(shape, np.int64)
    buffer = pa.allocate_buffer(8 * n)
    first, end = -(-buffer.address // HUGE_PAGE), (buffer.address + buffer.size) // HUGE_PAGE
    if first < end:  # as numpy asks for its own
        _madvise(first * HUGE_PAGE, (end - first) * HUGE_PAGE, mmap.MADV_HUGEPAGE)
    return np.frombuffer(buffer, np.int64).reshape(shape)
