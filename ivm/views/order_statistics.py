"""Medians and quantiles: their ranks in an ordered group, means of two values, and minima of ranges.

values    1  2  2  9        median 2.0        quantile 0.5: 2        quantile 0.9: 9        quantile 0: 1
"""

from fractions import Fraction
from math import isinf

import numpy as np

from ivm.errors import RangeError
from ivm.lang.ir import Type, Value
from ivm.lang.types import scale
from pagestore.host import float_values, float_words

EXACT = 1 << 52  # words below it add up to a float without rounding


def place_of(share: Value, sizes: np.ndarray) -> np.ndarray:
    """Return the ranks, from 0, of a quantile in groups of sizes[n]: at least that share is up to and including it.

    >>> place_of(0.5, np.array([1, 2, 3, 4])).tolist(), place_of(1, np.array([3])).tolist()
    ([0, 0, 1, 1], [2])
    """
    exact = Fraction(str(share))
    if int(sizes.max(initial=0)) * max(exact.numerator, 1) < EXACT:
        found: np.ndarray = np.maximum(-(-sizes * exact.numerator // exact.denominator) - 1, 0)
        return found
    places = (max(-(-size * exact.numerator // exact.denominator) - 1, 0) for size in sizes.tolist())
    return np.fromiter(places, np.int64, len(sizes))


def midpoints(low: np.ndarray, high: np.ndarray, type_: Type) -> np.ndarray:
    """Return the means of words low[n] and high[n] of a type, rounded once: float64 words[n].  Raises RangeError."""
    digits = scale(type_) or 0
    both = np.concatenate([low, high])
    small = ((both > -EXACT) & (both < EXACT)).all()  # the least word has no absolute value
    if type_ != "float64" and not digits and small:
        return float_words((low + high) / 2)
    if type_ == "float64":
        pairs = zip(float_values(low).tolist(), float_values(high).tolist(), strict=True)
        return float_words(np.array([_mean(a, b) for a, b in pairs], np.float64))
    unit = 2 * 10**digits
    return float_words(np.array([(a + b) / unit for a, b in zip(low.tolist(), high.tolist(), strict=True)], np.float64))


def _mean(a: float, b: float) -> float:
    if a == b:
        return a
    if isinf(a) and isinf(b):
        raise RangeError("the median of inf and -inf is not a number")
    return a + b if isinf(a) or isinf(b) else float((Fraction(a) + Fraction(b)) / 2)


def least_of(words: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """Return where the least of words[start[i]:stop[i]] is, for each i; no range is empty.  O((words + ranges) log).

    >>> least_of(np.array([5, 2, 9, 1]), np.array([0, 1, 2]), np.array([3, 4, 3])).tolist()
    [1, 3, 2]
    """
    order = np.argsort(words, kind="stable")
    ranks = np.empty(len(words), np.int64)
    ranks[order] = np.arange(len(words))
    found, levels = np.empty(len(start), np.int64), np.frexp(stop - start)[1] - 1
    for level in range(int(levels.max(initial=-1)) + 1):  # ranks[i] is now the least of 2^level from i on
        size, mine = 1 << level, levels == level
        found[mine] = np.minimum(ranks[start[mine]], ranks[stop[mine] - size])
        ranks = np.minimum(ranks[:-size], ranks[size:])
    where: np.ndarray = order[found]
    return where
