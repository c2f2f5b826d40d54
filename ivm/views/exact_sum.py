"""Sums of floats, exact and rounded once, whatever was added and taken away (*Aggregations: floating-point sums*).

Every float64 is a whole number of 2^-1126.  It is cut into parts of 32 bits, each with the number's sign, and the
parts of one place add up as words do: each place is an Abelian group.

    0.75 - 2^500       place 35: 3 << 4        place 50: -(1 << 26)        (at 2^-1126 * 2^(32 * place))

A place is stored while some summand has a part there, so the stored parts depend on the summands and not on their
history. The paper adds a constant X to keep borrows short; parts with signs of their own need no borrow at all.
"""

import numpy as np

from ivm.errors import RangeError
from pagestore.host import float_values, float_words

UNIT = 1126  # the least exponent of a 53-bit whole number that a float64 is made of
MASK = (1 << 32) - 1
INFINITE = 100  # the place that counts summands inf; the next one counts -inf
PLACE_END = 102


def split_floats(words: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cut float64 words[n] into parts: (place, part, index of the number), each int64[m].

    A zero has one part, 0 at place 0.

    >>> split_floats(float_words(np.array([0.75, -np.inf, 0.0])))
    (array([101,   0,  35]), array([ 1,  0, 48]), array([1, 2, 0]))
    """
    values = float_values(words)
    finite, zero = np.isfinite(values), values == 0
    mantissa, exponent = np.frexp(np.where(finite, values, 0.0))
    whole = (mantissa * 2.0**53).astype(np.int64)
    size, shift = np.abs(whole), exponent + (UNIT - 53) & 31
    low = (size & MASK) << shift
    high = ((size >> 32) << shift) + (low >> 32)
    found = np.sign(whole) * np.stack([low & MASK, high & MASK, high >> 32])
    places = (exponent.astype(np.int64) + (UNIT - 53) >> 5) + np.arange(3)[:, None]
    found[0, ~finite] = 1
    places[0, ~finite] = INFINITE + (values[~finite] < 0)
    places[0, zero] = 0
    kept = found != 0
    kept[0] |= zero
    return places[kept], found[kept], np.nonzero(kept)[1]


def round_totals(places: np.ndarray, amounts: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The total of each group of parts, as float64 words[g]; those of group g start at starts[g], by place.

    Raises RangeError for a total beyond float64, or of both inf and -inf.
    """
    ends = np.append(starts, len(places))[1:].tolist()
    pairs = list(zip(places.tolist(), amounts.tolist(), strict=True))
    return float_words(np.array([_total(pairs[a:b]) for a, b in zip(starts.tolist(), ends, strict=True)], np.float64))


def _total(pairs: list[tuple[int, int]]) -> float:
    last = pairs[-1][0]
    if last >= INFINITE:
        if len(pairs) > 1 and pairs[-2][0] == INFINITE:
            raise RangeError("a total of inf and -inf is not a number")
        return np.inf if last == INFINITE else -np.inf
    try:
        return sum(amount << 32 * place for place, amount in pairs) / (1 << UNIT)  # rounded correctly by Python
    except OverflowError:
        raise RangeError("a total is beyond the range of float64") from None
