"""crc32c of pages, one word per step: by the processor's instruction, or by tables if it has none.

The instruction takes three cycles, and one can begin every cycle. So `stamp` interleaves three pages, each an
independent chain.
"""

import numpy as np

from pagestore.pages.layout import CRC
from pagestore.runtime.intrinsics import crc_of_word, has_crc_instruction
from pagestore.runtime.kernel import kernel

ONES = 0xFFFFFFFF  # the initial value of a crc, and its final xor


def _tables() -> np.ndarray:
    """Compute eight tables of the reflected Castagnoli polynomial: eight bytes per step ("slicing by eight")."""
    table = np.empty((8, 256), np.int64)
    crc = np.arange(256)
    for _ in range(8):
        crc = crc >> 1 ^ (crc & 1) * 0x82F63B78
    table[0] = crc
    for k in range(1, 8):
        table[k] = table[k - 1] >> 8 ^ table[0][table[k - 1] & 255]
    return table


TABLES = _tables()


@kernel
def look_up(crc, word):
    """Like `crc_of_word`, by tables."""
    x = word ^ crc
    return (
        TABLES[7, x & 255]
        ^ TABLES[6, x >> 8 & 255]
        ^ TABLES[5, x >> 16 & 255]
        ^ TABLES[4, x >> 24 & 255]
        ^ TABLES[3, x >> 32 & 255]
        ^ TABLES[2, x >> 40 & 255]
        ^ TABLES[1, x >> 48 & 255]
        ^ TABLES[0, x >> 56 & 255]
    )


@kernel
def add(crc, word):
    """Extend the crc32c `crc` of some bytes by one word."""
    return crc_of_word(crc, word) if has_crc_instruction() else look_up(crc, word)


@kernel
def checksum(words, page, page_words):
    """Return the crc32c of the bytes of a page after its first word."""
    return crc_of(words, page + 1, page + page_words)


@kernel
def crc_of(words, begin, end):
    """Return the crc32c of the bytes of words[begin:end]."""
    crc = ONES
    for i in range(begin, end):
        crc = add(crc, words[i])
    return crc ^ ONES


@kernel
def stamp(arena, lo, hi, page_words):
    """Write the checksums into pages lo..hi of an arena."""
    if not has_crc_instruction():
        for page in range(lo * page_words, hi * page_words, page_words):
            arena[page + CRC] = checksum(arena, page, page_words)
        return
    last = (hi - 1) * page_words
    for page in range(lo * page_words, hi * page_words, 3 * page_words):
        stamp_three(arena, page, min(page + page_words, last), min(page + 2 * page_words, last), page_words)


@kernel
def stamp_three(arena, p, q, r, page_words):
    """Write the checksums into the pages that begin at words p, q and r, which may be the same page."""
    a = b = c = ONES
    end = page_words  # unlike indices into the arena, indices into slices need no check for being negative
    first, second, third = arena[p + 1 : p + end], arena[q + 1 : q + end], arena[r + 1 : r + end]
    for i in range(page_words - 1):
        a, b, c = add(a, first[i]), add(b, second[i]), add(c, third[i])
    arena[p + CRC], arena[q + CRC], arena[r + CRC] = a ^ ONES, b ^ ONES, c ^ ONES
