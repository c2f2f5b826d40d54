"""Texts as words: eight bytes of a text at a time, and the words that a dictionary stores of it."""

import numpy as np

from pagestore.runtime.intrinsics import word_at
from pagestore.runtime.kernel import inlined, kernel

FIRST = 6  # bytes in part 0 of a text, after its length


@inlined
def word_from(data, start, left):
    """Return the eight bytes of data[start:], of which `left` belong to a text, with zeros after these."""
    if left >= 8:
        return word_at(data, start)
    if left <= 0:
        return 0
    if start + left >= 8:  # bytes before it are readable; bytes after it may not be
        return word_at(data, start + left - 8) >> 64 - 8 * left & ~(-1 << 8 * left)
    word = np.int64(0)
    for i in range(left):
        word |= np.int64(data[start + i]) << 8 * i
    return word


@inlined
def part_of(data, start, length, part):
    """Return the word that a dictionary stores as a part of the text data[start : start + length]."""
    if part == 0:
        return word_from(data, start, min(length, FIRST)) << 16 | length
    at = 8 * part - 2
    return word_from(data, start + at, length - at)


@kernel
def is_below(word, other):
    """Return whether a word is below another one, comparing their bytes from the first to the last."""
    differ = word ^ other
    at = 0
    while not differ >> at & 255:
        at += 8
    return (word >> at & 255) < (other >> at & 255)


@inlined
def copy_word(data, at, end, word, bytes_):
    """Write `bytes_` bytes of a word to data[at:], up to `end`."""
    for i in range(min(bytes_, end - at)):
        data[at + i] = word >> 8 * i & 255
