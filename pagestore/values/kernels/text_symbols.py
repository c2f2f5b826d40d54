"""Texts as codes of one byte each for symbols of one to eight bytes, so that one text is packed and
read without others (Boncz, Neumann, Leis 2020, *FSST: Fast Random Access String Compression*).

    symbols    "requests"  "slyly"  "s "  "c"   of a table: bytes of a symbol, the first one lowest
    sizes           8         5       2    1    how many
    starts     the first code whose symbol begins with a byte; among these, longer symbols come first
    ESCAPE     a code before a byte for which there is no symbol
"""

import numpy as np

from pagestore.runtime.intrinsics import bytes_at
from pagestore.runtime.kernel import inlined, kernel
from pagestore.runtime.types import Bytes, Words
from pagestore.values.kernels.text_hash import part_of, word_from

ESCAPE = 255  # and the number of symbols that a table has at most
PACKED = 0x8000  # in part 0 of a packed text, with its length; then the number of its table
TABLE_BYTES = 3  # of part 0, before the codes
TABLE_WORDS, SIZES = 512, 256  # of a table that is read: 256 symbols, then their sizes


@kernel
def parse_texts(
    symbols: Words, sizes: Words, starts: Words, offsets: Words, data: int, size: int, codes: Words
):
    """Write the codes of texts in `size` bytes at address `data`: ESCAPE and a byte's value for a
    byte without a symbol, and -1 after each text. Returns how many were written.
    """
    letters, n = bytes_at(data, size), 0
    for i in range(offsets.shape[0] - 1):
        at, end = offsets[i], offsets[i + 1]
        while at < end:
            code = longest(symbols, sizes, starts, letters, at, end)
            codes[n], n = (code if code >= 0 else ESCAPE + np.int64(letters[at])), n + 1
            at += sizes[code] if code >= 0 else 1
        codes[n], n = -1, n + 1
    return n


@kernel
def pack_texts(
    symbols: Words,
    sizes: Words,
    starts: Words,
    table: int,
    offsets: Words,
    data: int,
    size: int,
    counts: Words,
    words: Words,
):
    """Write the parts of texts that are not long, in `size` bytes at address `data`, to `words`;
    set counts[i] to how many text i has.

    A text whose codes take no fewer parts is written as it is, and so are all for table 0.
    Returns the number of parts.
    """
    letters, n = bytes_at(data, size), 0
    for i in range(counts.shape[0]):
        at, length = offsets[i], offsets[i + 1] - offsets[i]
        count = (length + 9) >> 3
        packed = 0
        if table:
            packed = pack_text(symbols, sizes, starts, letters, at, length, words, n, n + count - 1)
        if packed:
            words[n] |= table << 16 | PACKED | length
            count = packed
        else:
            for part in range(count):
                words[n + part] = part_of(letters, at, length, part)
        counts[i], n = count, n + count
    return n


@inlined
def pack_text(
    symbols: Words,
    sizes: Words,
    starts: Words,
    data: Bytes,
    at: int,
    length: int,
    words: Words,
    first: int,
    stop: int,
):
    """Write the codes of a text to words[first:stop], after the bytes that say its table; return
    how many words they take, 0 if they do not fit.
    """
    end, place, word, used = at + length, first, np.int64(0), TABLE_BYTES
    while at < end:
        code = longest(symbols, sizes, starts, data, at, end)
        for byte in range(1 if code >= 0 else 2):
            if used == 8:
                if place + 1 >= stop:
                    return 0
                words[place] = word
                place, word, used = place + 1, np.int64(0), 0
            value = code if code >= 0 else (np.int64(data[at]) if byte else ESCAPE)
            word, used = word | value << 8 * used, used + 1
        at += sizes[code] if code >= 0 else 1
    if place >= stop:
        return 0
    words[place] = word
    return place + 1 - first


@inlined
def longest(symbols: Words, sizes: Words, starts: Words, data: Bytes, at: int, end: int):
    """Return the code of the longest symbol with which data[at:end] begins, -1 if there is none."""
    word = word_from(data, at, end - at)
    for code in range(starts[word & 255], starts[(word & 255) + 1]):
        if sizes[code] <= end - at and not (word ^ symbols[code]) << 64 - 8 * sizes[code]:
            return code
    return -1
