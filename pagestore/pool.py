"""Large arrays in Arrow's pool of memory, which keeps for a while what is given back.

malloc has large pieces of the system and gives them back at once, and the system clears what it hands out: to have
room for ten million rows took as long as to read them.
"""

from math import prod

import numpy as np
import pyarrow as pa

POOLED = 1 << 22  # words: what malloc keeps at most (its M_MMAP_THRESHOLD grows to 32 MB)


def pooled(*shape: int) -> np.ndarray:
    """An array int64[shape], not initialised.

    >>> pooled(2, 3).shape
    (2, 3)
    """
    n = prod(shape)
    if n < POOLED:
        return np.empty(shape, np.int64)
    return np.frombuffer(pa.allocate_buffer(8 * n), np.int64).reshape(shape)
