"""Write pages of an arena to a file, in one call: stamp them, and pass them to the system while
they are in the cache.

page_writer[FD]         descriptor of the file, -1 if a kernel cannot write to it
page_writer[MAP]        address of a writable map of it
page_writer[PAGES]      how many of its pages that map holds; 0 if there is no map
page_writer[WRITTEN]    address of a byte for each of them: whether it was written by the descriptor, so that it has its
                   place on the disk, and is written through the map from then on
"""

import numpy as np

from pagestore.pages.layout import WORD
from pagestore.pages.verify import stamp
from pagestore.runtime.intrinsics import bytes_at, copy_past, fence, memcpy, pwrite
from pagestore.runtime.kernel import kernel
from pagestore.runtime.types import LINE, Bytes, Words

FD, MAP, PAGES, WRITTEN, OUTLET = range(5)

PIECE = 1 << 14  # bytes of one write; docs/decisions/0018-small-writes.md
STAMPED = 6  # pages stamped at a time
PAST = 1 << 20  # this many bytes bypass the cache, which they would fill; fewer are soon read again


@kernel
def write_pages(page_writer: Words, arena: Words, ids: Words, page_words: int):
    """Stamp the first pages of an arena and write them to ids[n], neighbours in one call, in
    pieces.

    Return how many were written: n, unless the system wrote less than requested; the rest may not
    be stamped.
    """
    n, size = ids.shape[0], page_words * WORD
    past = n * size >= PAST
    address = np.int64(arena.ctypes.data)
    written = bytes_at(page_writer[WRITTEN], page_writer[PAGES])
    begin = stamped = 0
    while begin < n:
        end, again = begin + 1, is_written(written, ids[begin])
        most = min(n, begin + max(PIECE // size, 1))
        while (
            end < most and ids[end] == ids[end - 1] + 1 and is_written(written, ids[end]) == again
        ):
            end += 1
        while stamped < end:
            stamp(arena, stamped, min(stamped + STAMPED, n), page_words)
            stamped += STAMPED
        at, count, offset = address + begin * size, (end - begin) * size, ids[begin] * size
        if again:
            put(page_writer[MAP] + offset, at, count, past)
        else:
            done = write_bytes(page_writer[FD], at, count, offset) // size
            written[ids[begin] : ids[begin] + done] = 1
            if begin + done < end:
                n = begin + done
        begin = end
    if past:
        fence()
    return n


@kernel
def put(to: int, at: int, count: int, past: bool):
    """Copy the bytes of some pages to the map; if `past`, bypassing the cache, so that old
    content is not loaded.
    """
    if not past:
        memcpy(to, at, count)
        return
    for i in range(0, count, LINE * WORD):
        copy_past(to + i, at + i)


@kernel
def is_written(written: Bytes, page: int):
    """Return whether a page is written through the map."""
    return page < written.shape[0] and written[page] != 0


@kernel
def write_bytes(fd: int, address: int, count: int, offset: int):
    """Write the bytes at an address, in pieces; return how many were written."""
    done = 0
    while done < count:
        piece = min(PIECE, count - done)
        written = pwrite(fd, address + done, piece, offset + done)
        if written != piece:
            return done + max(written, 0)
        done += piece
    return done
