"""Large arrays out of Arrow's memory pool, on huge pages.

malloc returns large blocks to the system, and the system clears every page that it hands out again: allocating
room for ten million rows took as long as reading them.  Arrow's pool keeps a freed block for a second, so that
the next batch reuses it.
"""

import ctypes
import mmap
from math import prod

import numpy as np

from pagestore.runtime.lazy import pyarrow as pa

POOLED = 1 << 19  # words; smaller arrays come out of memory that the process already has
HUGE_PAGE = 1 << 21  # bytes
ADVICE = getattr(mmap, "MADV_HUGEPAGE", None)  # Linux has it

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
    if first < end and ADVICE is not None:  # numpy advises the same for its own arrays
        _madvise(first * HUGE_PAGE, (end - first) * HUGE_PAGE, ADVICE)
    return np.frombuffer(buffer, np.int64).reshape(shape)
