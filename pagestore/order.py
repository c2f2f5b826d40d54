"""Sort tuples of words: as single words where they fit, which is what machines sort fastest."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from .kernels.net import ascends, merge_order
from .kernels.order import (
    CODING,
    WORD_BITS,
    code_widths,
    count_leads,
    deal,
    decode_tuples,
    drop_repeats,
    encode_tuples,
    order_tuples,
    order_words,
    sort_words,
    value_bounds,
)
from .layout import GREATEST, LEAST

FEW = 48  # so many edits or tuples are little work beside a call of numpy's
MERGED = 256  # so many tuples are sorted by merging faster than numpy is called
DIGIT = 10  # bits that a pass of a radix sort looks at, at most: what numpy takes differs by 10 x between processors
BUCKET = 14  # words go into buckets of 2 ** BUCKET and less, where they may: two such stay in a cache
LEAD_MAX = 10  # bits of a bucket's number: so many runs can be written side by side
BATCH = 1 << 16


class Coding(NamedTuple):
    """How tuples of K columns become words that sort alike: int64[K] each, and which leading bits are left out.

    Words have 63 bits. The `lead` leading bits of column 0 say a tuple's bucket: so many at least as it is wider.
    """

    low: np.ndarray
    high: np.ndarray
    width: np.ndarray
    lead: int

    @property
    def bits(self) -> int:
        return int(self.width.sum())


def coding_of(parts: Sequence[np.ndarray]) -> Coding | None:
    """The coding of tuples parts[K, n]; None where they are too wide for words in a few buckets.  O(n)."""
    coding = np.empty((CODING, len(parts[0])), np.int64)
    low, high, width = coding
    low[:], high[:] = GREATEST, LEAST
    for part in parts:
        value_bounds(part, low, high)
    lead = max(0, code_widths(coding) - WORD_BITS)
    return Coding(low, high, width, lead) if lead <= min(LEAD_MAX, width[0]) else None


def sort_order(columns: np.ndarray) -> np.ndarray:
    """Stable order of columns[K, n] as tuples.  O(n log n).

    >>> sort_order(np.array([[2, 1, 2], [5, 9, 4]]))
    array([1, 2, 0])
    """
    n = columns.shape[1]
    if n <= MERGED:
        order = np.empty(2 * n, np.int64)
        merge_order(columns, order)
        return order[:n]
    words, order, some, spare = np.empty((4, n), np.int64)
    if order_tuples(columns, np.empty((CODING, len(columns)), np.int64), words, order, some, spare, _counts(n)):
        return order
    return np.lexsort(columns[::-1])


def near_order(columns: np.ndarray) -> np.ndarray:
    """An order of columns[K, n] that is theirs as tuples, or nearly so where they have more than 63 bits.  O(n).

    >>> near_order(np.array([[5, 3, 5, 4], [1, 2, 0, 9]]))
    array([1, 3, 2, 0])
    """
    words, room = np.zeros(columns.shape[1], np.int64), WORD_BITS
    for column in columns:
        low = int(column.min())
        width = (int(column.max()) - low).bit_length()
        taken = min(width, room)
        offsets = (column - low).view(np.uint64) >> np.uint64(width - taken)
        words = words << taken | offsets.view(np.int64)
        room -= taken
    if (words[1:] >= words[:-1]).all():
        return np.arange(len(words))
    order, some, spare = np.empty((3, len(words)), np.int64)
    order_words(words, WORD_BITS - room, order, some, spare, _counts(len(words)))
    return order


def distinct(columns: np.ndarray) -> np.ndarray:
    """The tuples of columns[K, n] sorted, each once.  O(n log n).

    >>> distinct(np.array([[2, 1, 2], [4, 9, 4]]))
    array([[1, 2],
           [9, 4]])
    """
    if columns.shape[1] <= MERGED:
        columns = columns.take(sort_order(columns), axis=1)
        return columns.compress(begins(columns), axis=1)
    batches = list(ascending([columns]))
    return batches[0] if len(batches) == 1 else np.concatenate(batches, axis=1)


def ascending(parts: Sequence[np.ndarray], batch: int = BATCH) -> Iterator[np.ndarray]:
    """The tuples of parts[K, n] sorted, each once, in batches [K, m].  O(n log n), with a word a tuple kept.

    >>> [rows.tolist() for rows in ascending([np.array([[2, 1]]), np.array([[2, 3]])], batch=2)]
    [[[1, 2]], [[3]]]
    """
    if not parts:
        return
    coding = coding_of(parts)
    if coding is None:
        columns = np.concatenate(parts, axis=1)
        columns = columns.take(np.lexsort(columns[::-1]), axis=1)
        yield columns.compress(begins(columns), axis=1)
        return
    left = sum(part.shape[1] for part in parts)
    crowd = min((left >> BUCKET).bit_length(), LEAD_MAX, int(coding.width[0]))
    coding = coding._replace(lead=max(coding.lead, crowd))
    rows, filled = np.empty((len(parts[0]), min(batch, left)), np.int64), 0
    for bucket, words in enumerate(_sorted(*_coded(parts, coding), coding.bits - coding.lead)):
        while len(words):
            taken = words[: rows.shape[1] - filled]
            decode_tuples(taken, *coding, bucket, rows, filled)
            words, filled = words[len(taken) :], filled + len(taken)
            if filled == rows.shape[1]:
                yield rows
                left -= filled
                rows, filled = np.empty((len(rows), min(batch, left)), np.int64), 0
    if filled:
        yield np.ascontiguousarray(rows[:, :filled])


def _sorted(words: np.ndarray, ends: np.ndarray, bits: int) -> Iterator[np.ndarray]:
    """The words of each bucket sorted, each once; those of one differ in their last `bits` bits. Overwrites them."""
    spare = np.empty(np.diff(ends, prepend=0).max(), np.int64)
    for start, end in pairwise([0, *ends.tolist()]):
        some, room = words[start:end], spare[: end - start]
        if sort_words(some, room, 0, bits, _counts(len(some))):
            some = room
        yield some[: drop_repeats(some)]


def _counts(n: int) -> np.ndarray:
    """Room to count digits of n words in, of which few have small ones."""
    return np.empty(1 << min(DIGIT, max(n.bit_length() - 1, 1)), np.int64)


def _coded(parts: Sequence[np.ndarray], coding: Coding) -> tuple[np.ndarray, np.ndarray]:
    """The words of all tuples, one bucket behind the other, and where each ends."""
    counts = np.zeros(1 << coding.lead, np.int64)
    for part in parts:
        count_leads(part[0], *coding, counts)
    ends = np.cumsum(counts)
    words = np.empty(ends[-1], np.int64)
    at = ends - counts
    for part in parts:
        coded = np.empty(part.shape[1], np.int64)
        encode_tuples(part, *coding[:3], coded)
        deal(part[0], *coding, coded, at, words)
    return words, ends


def in_order(parts: Sequence[np.ndarray], keys: int) -> bool:
    """Do the first `keys` columns of parts[C, n], none of them empty, ascend strictly, from part to part too?  O(n)."""
    return all(ascends(part[:keys]) for part in parts) and all(
        part[:keys, -1].tolist() < after[:keys, 0].tolist() for part, after in pairwise(parts)
    )


def begins(columns: np.ndarray) -> np.ndarray:
    """Where a tuple of columns[K, n], sorted, differs from its predecessor: bool[n].

    >>> begins(np.array([[1, 1, 2], [4, 4, 4]])).tolist()
    [True, False, True]
    """
    differs = np.zeros(columns.shape[1], bool)
    differs[:1] = True
    for column in columns:  # a numpy call for all of them takes five times as long
        differs[1:] |= column[1:] != column[:-1]
    return differs
