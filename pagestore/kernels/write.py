"""Pages of an arena into a file, in one call: stamped, and handed to the system while they are in the cache."""

import numpy as np
from numba import types

from pagestore.kernels.checksum import stamp
from pagestore.kernels.kernel import kernel
from pagestore.layout import WORD

PIECE = 1 << 14  # bytes of one write; docs/decisions/0018-small-writes.md
STAMPED = 6  # pages stamped at a time

pwrite = types.ExternalFunction("pwrite", types.int64(types.int32, types.int64, types.int64, types.int64))


@kernel
def write_pages(fd, arena, ids, page_words):
    """Stamp the first pages of an arena and write them to ids[n], neighbours in one go, in pieces.

    Returns how many were written, all n unless the system wrote less than it was given; the rest may not be stamped.
    """
    n, size = ids.shape[0], page_words * WORD
    address = np.int64(arena.ctypes.data)
    begin = stamped = 0
    while begin < n:
        end = begin + 1
        while end < n and ids[end] == ids[end - 1] + 1 and (end + 1 - begin) * size <= PIECE:
            end += 1
        while stamped < end:
            stamp(arena, stamped, min(stamped + STAMPED, n), page_words)
            stamped += STAMPED
        written = write_bytes(fd, address + begin * size, (end - begin) * size, ids[begin] * size)
        if written < (end - begin) * size:
            return begin + written // size
        begin = end
    return n


@kernel
def write_bytes(fd, address, count, offset):
    """Write the bytes at an address, in pieces; returns how many were written."""
    done = 0
    while done < count:
        piece = min(PIECE, count - done)
        written = pwrite(fd, address + done, piece, offset + done)
        if written != piece:
            return done + max(written, 0)
        done += piece
    return done
