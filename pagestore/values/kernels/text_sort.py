"""Texts in the order of their bytes: the words by which they are sorted, seven bytes at a time, and
where those of one ascending list come among those of another one.
"""

from pagestore.runtime.intrinsics import bytes_at
from pagestore.runtime.kernel import inlined, kernel
from pagestore.runtime.types import Bytes, Words
from pagestore.values.kernels.text_hash import is_below, word_from

STEP = 7  # bytes, which no sign is among


@kernel
def words_at_byte(
    offsets: Words, data: int, size: int, some: Words, at: int, out: Words, left: Words
):
    """Set out[i] to STEP bytes of text some[i], from byte `at` on, as a number whose order is theirs,
    and left[i] to how many bytes the text has from there on, or STEP + 1 if there are more.
    """
    letters = bytes_at(data, size)
    for i in range(some.shape[0]):
        start, end = offsets[some[i]] + at, offsets[some[i] + 1]
        left[i] = max(0, min(STEP + 1, end - start))
        word, turned = word_from(letters, start, min(STEP, end - start)), 0
        for _ in range(STEP):
            turned, word = turned << 8 | word & 255, word >> 8
        out[i] = turned


@kernel
def merge_ranks(
    offsets: Words,
    data: int,
    size: int,
    others: Words,
    other_data: int,
    other_size: int,
    ranks: Words,
):
    """Set ranks[i] to how many of the other texts, which ascend, are below text i; these ascend as
    well. O(texts).
    """
    letters, other_letters, k = bytes_at(data, size), bytes_at(other_data, other_size), 0
    for i in range(ranks.shape[0]):
        start, end = offsets[i], offsets[i + 1]
        while k < others.shape[0] - 1 and comes_before(
            other_letters, others[k], others[k + 1], letters, start, end
        ):
            k += 1
        ranks[i] = k


@inlined
def comes_before(data: Bytes, start: int, end: int, other: Bytes, at: int, stop: int):
    """Return whether data[start:end] is below other[at:stop]."""
    while start < end and at < stop:
        mine, its = (
            word_from(data, start, min(8, end - start)),
            word_from(other, at, min(8, stop - at)),
        )
        if mine != its:
            return is_below(mine, its)
        start, at = start + 8, at + 8
    return end - start < stop - at
