"""Sort tuples of words, encoded as single words if they fit, since those sort fastest."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pagestore.pages.layout import WORD_MAX, WORD_MIN
from pagestore.runtime.kernel import TypedKernel
from pagestore.runtime.types import Table, Words
from pagestore.sorting.codes import (
    CODING,
    WORD_BITS,
    ascends,
    code_widths,
    count_firsts,
    count_leads,
    deal,
    decode_tuples,
    drop_repeats,
    encode_tuples,
    merge_order,
    order_tuples,
    order_words,
    sort_words,
    value_bounds,
)

FEW = 48  # edits or tuples; up to here they take less time than a call of numpy
MERGED = 256  # tuples; up to here merging sorts them faster than a call of numpy
# bits that a pass of our radix sort looks at, at most; numpy's sort differs 10 x between processors
DIGIT = 12
BUCKET = 14  # buckets have 2 ** BUCKET words or fewer, where possible: two of them stay in a cache
LEAD_MAX = 10  # bits of a bucket's number, at most: 2 ** LEAD_MAX runs can be written side by side
BATCH = 1 << 15

ASCENDS = TypedKernel(ascends)
BOUNDS = TypedKernel(value_bounds)
COUNT_FIRSTS = TypedKernel(count_firsts)
COUNT_LEADS = TypedKernel(count_leads)
DEAL = TypedKernel(deal)
DECODE = TypedKernel(decode_tuples, Words, Words, Words, Words, Words, int, int, int, Table, int)
DROP = TypedKernel(drop_repeats)
ENCODE = TypedKernel(encode_tuples)
MERGE = TypedKernel(merge_order)
ORDER = TypedKernel(order_tuples, Table, Table, Words, Words, Words, Words, Words)
ORDER_WORDS = TypedKernel(order_words)
SORT = TypedKernel(sort_words, Words, Words, Words, Words, int, int, Words)
WIDTHS = TypedKernel(code_widths)


class Coding(NamedTuple):
    """How tuples of K columns are encoded as words with the same order; low, high and width are
    int64[K].

    Tuples equal in the leading columns already arrive ascending in the last `ordered` columns, so
    the sort ignores those. The codes of column `marked` have one more bit after them, which the
    maker of the words may set to order tuples that are equal up to there.
    """

    low: np.ndarray
    high: np.ndarray
    width: np.ndarray
    ordered: int = 0
    marked: int = -1

    @property
    def bits(self) -> int:
        """The total width of a tuple's codes."""
        return int(self.width.sum())

    @property
    def tail(self) -> int:
        """How many of the bits do not fit in one word."""
        return max(self.bits - WORD_BITS, 0)


class Coded(NamedTuple):
    """Tuples as words[n] and, if those are too narrow, tails[n]."""

    coding: Coding
    words: np.ndarray
    tails: np.ndarray

    @property
    def nbytes(self) -> int:
        """Bytes of words and tails."""
        return self.words.nbytes + self.tails.nbytes


def encoded(columns: np.ndarray, coding: Coding) -> Coded:
    """Encode tuples columns[K, n], whose values all have codes, as words.  O(n).

    >>> encoded(np.array([[1, 2], [3, 4]]), coding_of([np.array([[0, 7], [0, 7]])])).words.tolist()
    [36, 53]
    """
    words, tails = _room(columns.shape[1], coding.tail > 0)
    ENCODE.call(np.ascontiguousarray(columns), *coding[:3], coding.tail, words, tails)
    return Coded(coding, words, tails)


def _room(n: int, wide: bool) -> tuple[np.ndarray, np.ndarray]:
    """Allocate words[n], and tails[n] or [0]."""
    return np.empty(n, np.int64), np.empty(n if wide else 0, np.int64)


def coding_of(parts: Sequence[np.ndarray]) -> Coding | None:
    """Return the coding of tuples parts[K, n]; None if they are too wide for two words.  O(n)."""
    low, high = np.full(len(parts[0]), WORD_MAX), np.full(len(parts[0]), WORD_MIN)
    for part in parts:
        BOUNDS.call(np.ascontiguousarray(part), low, high)
    return coding_within(low, high)


def coding_within(
    low: Sequence[int] | np.ndarray,
    high: Sequence[int] | np.ndarray,
    ordered: int = 0,
    marked: int = -1,
) -> Coding | None:
    """Like `coding_of`, for tuples whose columns are in low[K]..high[K], WORD_MIN or WORD_MAX."""
    coding = np.array([low, high, low], np.int64)
    WIDTHS.call(coding)
    if marked >= 0:
        coding[2, marked] += 1
    made = Coding(coding[0], coding[1], coding[2], ordered, marked)
    return made if made.bits <= 2 * WORD_BITS else None


def sort_order(columns: np.ndarray) -> np.ndarray:
    """Return the stable order of columns[K, n] as tuples.  O(n log n).

    >>> sort_order(np.array([[2, 1, 2], [5, 9, 4]]))
    array([1, 2, 0])
    """
    n = columns.shape[1]
    if n <= MERGED:
        order = np.empty(2 * n, np.int64)
        MERGE.call(np.ascontiguousarray(columns), order)
        return order[:n]
    words, order, some, spare = np.empty((4, n), np.int64)
    if ORDER.call(
        np.ascontiguousarray(columns),
        np.empty((CODING, len(columns)), np.int64),
        words,
        order,
        some,
        spare,
        _counts(n),
    ):
        return order
    return np.lexsort(columns[::-1])


def near_order(columns: np.ndarray) -> np.ndarray:
    """Return the order of columns[K, n] as tuples; if they exceed 63 bits, by their leading 63 bits
    only.  O(n).

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
    ORDER_WORDS.call(words, WORD_BITS - room, order, some, spare, _counts(len(words)))
    return order


def distinct(columns: np.ndarray) -> np.ndarray:
    """Return the distinct tuples of columns[K, n], sorted.  O(n log n).

    >>> distinct(np.array([[2, 1, 2], [4, 9, 4]]))
    array([[1, 2],
           [9, 4]])
    """
    if columns.shape[1] <= MERGED:
        columns = columns.take(sort_order(columns), axis=1)
        return columns.compress(begins(columns), axis=1)
    batches = list(ascending([columns]))
    return batches[0] if len(batches) == 1 else np.concatenate(batches, axis=1)


def repeats(parts: Sequence[np.ndarray], batch: int = BATCH) -> Iterator[np.ndarray] | None:
    """Yield the distinct tuples of parts[K, n], sorted, in batches [K + 1, m] whose last row is how
    often each occurs; return None if they exceed two words.  O(n log n).

    >>> [rows.tolist() for rows in repeats([np.array([[2, 1], [4, 9]]), np.array([[2], [4]])])]
    [[[1, 2], [9, 4], [1, 2]]]
    """
    coding = coding_of(parts)
    if coding is None:
        return None
    groups = ((above, *_counted(words, tails)) for above, words, tails in _sorted(coding, parts))
    return _in_batches(coding, groups, len(coding.low) + 1, sum(map(count_of, parts)), batch)


def _counted(words: np.ndarray, tails: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sorted words and tails, each pair once, and how often each occurs, [1, n]."""
    starts = np.flatnonzero(begins(np.stack([words, tails]) if len(tails) else words[None]))
    return (
        words[starts],
        tails[starts] if len(tails) else tails,
        np.diff(starts, append=len(words))[None],
    )


def ascending(parts: Sequence[np.ndarray | Coded], batch: int = BATCH) -> Iterator[np.ndarray]:
    """Yield the distinct tuples of parts[K, n], sorted, in batches [K, m].  O(n log n), in one or
    two words per tuple.

    >>> [rows.tolist() for rows in ascending([np.array([[2, 1]]), np.array([[2, 3]])], batch=2)]
    [[[1, 2]], [[3]]]
    """
    if not parts:
        return
    coding, parts = _alike(parts)
    if coding is None:
        columns = np.concatenate([*map(columns_of, parts)], axis=1)
        columns = columns.take(np.lexsort(columns[::-1]), axis=1)
        yield columns.compress(begins(columns), axis=1)
        return
    groups = ((above, *_distinct(words, tails)) for above, words, tails in _sorted(coding, parts))
    yield from _in_batches(coding, groups, len(coding.low), sum(map(count_of, parts)), batch)


def _distinct(words: np.ndarray, tails: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sorted words and tails, each pair once; both are written over."""
    n = DROP.call(words, tails)
    return words[:n], tails[:n], np.empty((0, n), np.int64)


def _in_batches(
    coding: Coding,
    groups: Iterable[tuple[int, np.ndarray, np.ndarray, np.ndarray]],
    width: int,
    left: int,
    batch: int,
) -> Iterator[np.ndarray]:
    """Yield tuples of groups as batches [width, m], given at most how many are `left`.

    A group has the bits that its words have in common, its words and tails, and the rows that
    follow the columns.
    """
    columns = len(coding.low)
    rows, filled = np.empty((width, min(batch, left)), np.int64), 0
    for above, words, tails, more in groups:
        while len(words):
            room = rows.shape[1] - filled
            tail = coding.tail if len(tails) else 0
            some = slice(filled, filled + min(len(words), room))
            DECODE.call(
                words[:room],
                tails[:room],
                *coding[:3],
                tail,
                coding.marked,
                above,
                rows[:columns],
                filled,
            )
            rows[columns:, some] = more[:, :room]
            filled = some.stop
            words, tails, more = words[room:], tails[room:], more[:, room:]
            if filled == rows.shape[1]:
                yield rows
                left -= filled
                rows, filled = np.empty((len(rows), min(batch, left)), np.int64), 0
    if filled:
        yield np.ascontiguousarray(rows[:, :filled])


def count_of(part: np.ndarray | Coded) -> int:
    """Return how many tuples a part has."""
    return len(part.words) if isinstance(part, Coded) else part.shape[1]


def columns_of(part: np.ndarray | Coded) -> np.ndarray:
    """Return the tuples of a part, [K, n].

    >>> part = np.array([[1, 2], [3, 4]])
    >>> columns_of(encoded(part, coding_of([part]))).tolist()
    [[1, 2], [3, 4]]
    """
    if not isinstance(part, Coded):
        return part
    coding, words, tails = part
    columns = np.empty((len(coding.low), len(words)), np.int64)
    DECODE.call(words, tails, *coding[:3], coding.tail, coding.marked, 0, columns, 0)
    return columns


def _alike(
    parts: Sequence[np.ndarray | Coded],
) -> tuple[Coding | None, Sequence[np.ndarray | Coded]]:
    """Return one coding for all parts (None if too wide), and the parts: as columns, unless all
    have this coding.
    """
    coding = parts[0].coding if isinstance(parts[0], Coded) else None
    if coding and all(isinstance(part, Coded) and part.coding is coding for part in parts):
        return coding, parts
    columns = [*map(columns_of, parts)]
    return coding_of(columns), columns


def _sorted(
    coding: Coding, parts: Sequence[np.ndarray | Coded]
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield sorted tuples by buckets: (common bits of column 0, words[n], tails[n] or [0])."""
    crowd = (sum(map(count_of, parts)) >> BUCKET).bit_length()
    # a short tail replaces as many leading bits of words: the bucket's number has them
    folds = coding.tail <= LEAD_MAX
    lead = min(max(crowd, coding.tail * folds), LEAD_MAX, int(coding.width[0]))
    tail = 0 if coding.tail <= lead else coding.tail
    words, tails, ends = _dealt(coding, parts, lead, tail > 0)
    first = int(coding.width[len(coding.width) - coding.ordered :].sum())
    words_room, tails_room = _room(np.diff(ends, prepend=0).max(), tail > 0)
    for bucket, (start, end) in enumerate(pairwise([0, *ends.tolist()])):
        n = end - start
        some = (words[start:end], tails[start:end])
        room = (words_room[:n], tails_room[:n])
        counts = _counts(n)
        if SORT.call(*some[::-1], *room[::-1], first, tail, counts):
            some, room = room, some
        if SORT.call(*some, *room, max(first - tail, 0), coding.bits - tail - lead, counts):
            some = room
        yield int(np.left_shift(bucket, coding.width[0] - lead)), *some


def _counts(n: int) -> np.ndarray:
    """Allocate the counts of the digits of n words; few words are sorted by small digits."""
    return np.empty(1 << min(DIGIT, max(n.bit_length() - 1, 1)), np.int64)


def _dealt(
    coding: Coding, parts: Sequence[np.ndarray | Coded], lead: int, wide: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return words and tails of all tuples, in buckets by `lead` leading bits, and where each
    bucket ends.

    Unless `wide`, there are no tails, and the words hold the last bits of their tuples.
    """
    counts, shift = np.zeros(1 << lead, np.int64), coding.bits - coding.tail - lead
    for part in parts:
        if isinstance(part, Coded):
            COUNT_LEADS.call(part.words, shift, counts)
        else:
            COUNT_FIRSTS.call(np.ascontiguousarray(part[0]), *coding[:3], lead, counts)
    ends = np.cumsum(counts)
    words, tails = _room(ends[-1], wide)
    at = ends - counts
    for part in parts:
        _, *some = part if isinstance(part, Coded) else encoded(part, coding)
        DEAL.call(*some, shift, coding.tail, at, words, tails)
    return words, tails, ends


def in_order(parts: Sequence[np.ndarray], keys: int) -> bool:
    """Return whether the first `keys` columns of non-empty parts[C, n] ascend strictly, also
    across parts.  O(n).
    """
    return all(ASCENDS.call(np.ascontiguousarray(part[:keys])) for part in parts) and all(
        part[:keys, -1].tolist() < after[:keys, 0].tolist() for part, after in pairwise(parts)
    )


def begins(columns: np.ndarray) -> np.ndarray:
    """Return where a tuple of sorted columns[K, n] differs from its predecessor: bool[n].

    >>> begins(np.array([[1, 1, 2], [4, 4, 4]])).tolist()
    [True, False, True]
    """
    differs = np.zeros(columns.shape[1], bool)
    differs[:1] = True
    for column in columns:  # one numpy call for all columns takes five times as long
        differs[1:] |= column[1:] != column[:-1]
    return differs
