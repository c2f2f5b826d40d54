"""Large arrays from Arrow's memory pool, on huge pages; and sparse arrays, which are mostly never
touched.

malloc returns large blocks to the system, and the system clears every page that it hands out again:
allocating room for ten million rows took as long as reading them.  Arrow's pool keeps a freed block
for a second, so that the next batch reuses it.  What the system refuses becomes an error of this
project.
"""

import ctypes
import mmap
import sys
from math import prod

import numpy as np

from pagestore.errors import OutOfMemoryError
from pagestore.runtime.lazy import pyarrow as pa

POOLED = 1 << 19  # words; smaller arrays use memory that the process already has
HUGE_PAGE = 1 << 21  # bytes
# MAP_NORESERVE, which Python names from 3.13 on
NO_RESERVE = 0x4000 if sys.platform == "linux" else 0
ADVICE = getattr(mmap, "MADV_HUGEPAGE", None)  # Linux has it

_madvise = ctypes.CDLL(None).madvise
_madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int


def pooled(*shape: int) -> np.ndarray:
    """Allocate an array int64[shape], not initialised.

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


def sparse(shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Allocate an array of zeros that takes memory only where touched, in small pages; it may
    exceed all memory.

    >>> sparse((1 << 10, 1 << 20), np.int64)[1000, 1000]
    np.int64(0)
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
    room = mmap.mmap(-1, prod(shape) * np.dtype(dtype).itemsize, flags=flags)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        room.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(room, dtype).reshape(shape)


def tell_of_refusal(error: BaseException, when: str) -> None:
    """Raise OutOfMemoryError, which says `when` it was, if an error says that the system refused
    memory to an array or an object; not if it is the error of a host.
    """
    if isinstance(error, MemoryError) and type(error).__module__.partition(".")[0] in (
        "builtins",
        "numpy",
    ):
        raise OutOfMemoryError(
            f"the system refused memory while {when}: allow the process more, or edit fewer rows "
            f"at a time"
        ) from None
