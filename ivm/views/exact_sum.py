"""Exact sums of numbers and of their squares under additions and removals, rounded once
(*Aggregations: floating-point sums*).

Every float64 is a multiple of 2^-1126, its square of 2^-2252; an integer is a multiple of 1.  They
are cut into parts of 32 bits, and the parts at one place add up as words do: each place is an
Abelian group.

    0.75 - 2^500       place 35: 3 << 4        place 50: -(1 << 26)        (at 2^-1126 * 2^(32 * place))

    place    0 to 67   numbers                 100 to 102  how many are inf, -inf, and not a number
             128 on    squares                 512       how many numbers there are, if counted

A place is stored while some summand has a part there, so the stored parts depend on the summands
and not on their history. The paper adds a constant X to keep borrows short; signed parts need no
borrow.
"""

from math import isqrt

import numpy as np

from ivm.errors import RangeError
from ivm.views.kernels import exact_sums
from pagestore.compiled import TypedKernel
from pagestore.host import float_values, float_words

UNIT = 1126  # minus the least exponent e of a float64 as m * 2^e with a 53-bit integer m
MASK = (1 << 32) - 1
# the place that counts summands that are inf; the next one counts -inf, and the one after it NaN
INFINITE = 100
NAN = INFINITE + 2
SQUARES = 128
COUNTED = 512
OF_PARTS = {  # what kernels round
    "total": exact_sums.TOTAL, "sum": exact_sums.SUM, "avg": exact_sums.MEAN,
    "variance": exact_sums.SAMPLED, "var_pop": exact_sums.VARIANCE,
}  # fmt: skip
ROUND = TypedKernel(exact_sums.round_groups)
# place, part, index of the number, each int64[m]; one place and None where each number has one part
Parts = tuple[np.ndarray, np.ndarray, np.ndarray | None]


def parts_of(words: np.ndarray, floats: bool, squared: bool, counted: bool) -> list[Parts]:
    """Cut words[n], of float64 or of integers, into parts, and those of squares and counts if
    requested.

    >>> [(place[:1].tolist(), part.tolist()) for place, part, _ in
    ...  parts_of(np.array([5, 3]), False, True, True)]
    [([0], [5, 3]), ([128], [25, 9]), ([512], [1, 1])]
    """
    if floats or words.min(initial=0) < 0 or words.max(initial=0) > MASK:
        parts: list[Parts] = [split_floats(words) if floats else _split_integers(words)]
    else:
        parts = [(_same(0, words), words, None)]
    if squared:
        parts.append(_split_squares(words) if floats else _split_integer_squares(words))
    if counted:
        parts.append((_same(COUNTED, words), _same(1, words), None))
    return parts


def _same(number: int, words: np.ndarray) -> np.ndarray:
    return np.broadcast_to(np.int64(number), words.shape)


def split_floats(words: np.ndarray) -> Parts:
    """Cut float64 words[n] into parts.  A zero has one part, 0 at place 0.

    >>> split_floats(float_words(np.array([0.75, -np.inf, 0.0])))
    (array([101,   0,  35]), array([ 1,  0, 48]), array([1, 2, 0]))
    """
    values = float_values(words)
    finite, zero = np.isfinite(values), values == 0
    whole, exponent = _whole(values)
    places, parts = _split(np.abs(whole), exponent + UNIT)
    parts *= np.sign(whole)
    parts[0, ~finite] = 1
    places[0, ~finite] = INFINITE + (values[~finite] < 0)
    places[0, np.isnan(values)] = NAN
    places[0, zero] = 0
    kept = parts != 0
    kept[0] |= zero
    return places[kept], parts[kept], np.nonzero(kept)[1]


def _whole(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return finite floats[n] as 53-bit integers and exponents of 2; others as 0."""
    mantissa, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    return (mantissa * 2.0**53).astype(np.int64), exponent.astype(np.int64) - 53


def _split(size: np.ndarray, exponent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return places and parts, int64[3, n] each, of size * 2^exponent, where 0 <= size < 2^62, 0
    <= exponent.
    """
    shift = exponent & 31
    low = (size & MASK) << shift
    high = ((size >> 32) << shift) + (low >> 32)
    return (exponent >> 5) + np.arange(3)[:, None], np.stack([low & MASK, high & MASK, high >> 32])


def _split_squares(words: np.ndarray) -> Parts:
    whole, exponent = _whole(float_values(words))
    size = np.abs(whole)
    high, low = size >> 27, size & (1 << 27) - 1
    base = 2 * exponent + 2 * UNIT
    pieces = [
        _split(*piece)
        for piece in ((low * low, base), (2 * high * low, base + 27), (high * high, base + 54))
    ]
    return _kept(
        np.concatenate([p for p, _ in pieces]) + SQUARES,
        np.concatenate([parts for _, parts in pieces]),
    )


def _split_integers(words: np.ndarray) -> Parts:
    parts = np.stack([words & MASK, words >> 32])
    kept = parts != 0
    kept[0] |= words == 0
    return (np.arange(2)[:, None] + np.zeros_like(words))[kept], parts[kept], np.nonzero(kept)[1]


def _split_integer_squares(words: np.ndarray) -> Parts:
    """Return, for x = h * 2^32 + l, the parts of l^2 + 2 h l * 2^32 + h^2 * 2^64, unsigned."""
    size = np.abs(words).view(np.uint64)  # also right for the least word, which is its own negative
    high, low, mask = size >> np.uint64(32), size & np.uint64(MASK), np.uint64(MASK)
    squares, mixed, highs = low * low, 2 * high * low, high * high
    second = (squares >> np.uint64(32)) + (mixed & mask)
    third = (mixed >> np.uint64(32)) + (highs & mask) + (second >> np.uint64(32))
    fourth = (highs >> np.uint64(32)) + (third >> np.uint64(32))
    parts = np.stack([squares & mask, second & mask, third & mask, fourth]).view(np.int64)
    return _kept(np.arange(SQUARES, SQUARES + 4)[:, None] + np.zeros_like(words), parts)


def _kept(places: np.ndarray, parts: np.ndarray) -> Parts:
    kept = parts != 0
    return places[kept], parts[kept], np.nonzero(kept)[1]


def round_parts(
    op: str, places: np.ndarray, amounts: np.ndarray, starts: np.ndarray, scale: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Compute `op` (total, avg, variance, ...) of each group of parts: float64 words of the groups
    that have a result, and bool[g] which those are.

    The parts of group g start at starts[g], by place.  `scale` is the number of digits after the
    point of integers, None for floats.  A sample of one has no variance.  Raises RangeError for a
    result beyond float64, or for inf and -inf together.
    """
    ends = np.append(starts, len(places))[1:]
    words, there = np.zeros(len(starts), np.int64), np.full(len(starts), exact_sums.BROKEN)
    if op in OF_PARTS and amounts.dtype != object and (scale or 0) <= 18:
        how = exact_sums.Rounding(OF_PARTS[op], int(scale is None), *unit(scale or 0))
        parts = np.ascontiguousarray(places), np.ascontiguousarray(amounts), starts
        ROUND.call(*parts, sum_room(), how, words, there)
    for group in np.flatnonzero(there == exact_sums.BROKEN).tolist():
        own = slice(starts[group], ends[group])
        pairs = [*zip(places[own].tolist(), amounts[own].tolist(), strict=True)]
        value = _rounded(op, pairs, scale)
        there[group] = value is not None
        words[group] = float_words(np.array([value or 0.0]))[0]
    return words[there == 1], there == 1


def sum_room() -> exact_sums.SumRoom:
    """Return working memory for kernels that add up parts."""
    sizes = exact_sums.DIGITS, 6, 2 * exact_sums.PARTS_MAX, exact_sums.TOTALS
    return exact_sums.SumRoom(*(np.zeros(size, np.int64) for size in sizes))


def unit(digits: int) -> tuple[int, int]:
    """Return two numbers that together multiply the values of a decimal to words."""
    return 10 ** min(digits, 9), 10 ** max(digits - 9, 0)


def _rounded(op: str, pairs: list[tuple[int, int]], scale: int | None) -> float | None:
    count = pairs[-1][1] if pairs[-1][0] == COUNTED else 1
    infinite = {place for place, _ in pairs if INFINITE <= place < SQUARES}
    freedom = count - (op in ("variance", "stddev"))
    if not freedom:
        return None
    if NAN in infinite:
        return float("nan")
    if infinite:
        if len(infinite) > 1 or op not in ("total", "avg"):
            what = "inf and -inf" if len(infinite) > 1 else "inf"
            raise RangeError(f"{_named(op)} of {what} is not a number")
        return float("inf") if INFINITE in infinite else float("-inf")
    numbers = sum(amount << 32 * place for place, amount in pairs if place < INFINITE)
    unit = 1 << UNIT if scale is None else 10**scale
    try:
        if op in ("total", "avg"):
            return numbers / (unit * (count if op == "avg" else 1))  # rounded correctly by Python
        squares = sum(
            amount << 32 * (place - SQUARES)
            for place, amount in pairs
            if SQUARES <= place < COUNTED
        )
        above, below = count * squares - numbers * numbers, count * freedom * unit * unit
        return square_root(above, below) if op.startswith("stddev") else above / below
    except OverflowError:
        raise RangeError(f"{_named(op)} is beyond the range of float64") from None


def _named(op: str) -> str:
    return f"an {op}" if op == "avg" else f"a {op}"


def square_root(above: int, below: int) -> float:
    """Return the square root of above / below, rounded correctly.

    >>> square_root(2, 1), square_root(1, 4), square_root(0, 7)
    (1.4142135623730951, 0.5, 0.0)
    """
    if not above:
        return 0.0
    shift = max(0, (132 + below.bit_length() - above.bit_length()) // 2 + 1)
    whole, rest = divmod(above << 2 * shift, below)
    root = isqrt(whole)
    inexact = bool(rest) or root * root != whole  # a sticky bit: the root is not exact
    return (2 * root + inexact) / (1 << shift + 1)
