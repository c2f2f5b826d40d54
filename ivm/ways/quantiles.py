"""Medians and quantiles: which values of a group in order they lie between, and what they are."""

from fractions import Fraction
from math import isfinite, isinf

import numpy as np

from ivm.errors import RangeError
from ivm.lang.ir import Type, Value
from ivm.lang.types import scale
from pagestore.host import float_values, float_words

EXACT = 1 << 52  # words below it add up to a float without rounding


def place_of(share: Value, sizes: np.ndarray) -> np.ndarray:
    """Return the ranks, from 0, of a quantile in groups of sizes[n]: at least that share is up to
    and including it.

    >>> place_of(0.5, np.array([1, 2, 3, 4])).tolist(), place_of(1, np.array([3])).tolist()
    ([0, 0, 1, 1], [2])
    """
    exact = Fraction(str(share))
    if int(sizes.max(initial=0)) * max(exact.numerator, 1) < EXACT:
        found: np.ndarray = np.maximum(-(-sizes * exact.numerator // exact.denominator) - 1, 0)
        return found
    places = (
        max(-(-size * exact.numerator // exact.denominator) - 1, 0) for size in sizes.tolist()
    )
    return np.fromiter(places, np.int64, len(sizes))


def midpoints(low: np.ndarray, high: np.ndarray, type_: Type) -> np.ndarray:
    """Return the means of words low[n] and high[n] of a type, rounded once: float64 words[n].
    Raises RangeError.
    """
    digits = scale(type_) or 0
    both = np.concatenate([low, high])
    small = ((both > -EXACT) & (both < EXACT)).all()  # the least word has no absolute value
    if type_ != "float64" and not digits and small:
        return float_words((low + high) / 2)
    if type_ == "float64":
        pairs = zip(float_values(low).tolist(), float_values(high).tolist(), strict=True)
        return float_words(np.array([_mean(a, b) for a, b in pairs], np.float64))
    unit = 2 * 10**digits
    return float_words(
        np.array(
            [(a + b) / unit for a, b in zip(low.tolist(), high.tolist(), strict=True)], np.float64
        )
    )


def _mean(a: float, b: float) -> float:
    if a == b:
        return a
    if isinf(a) and isinf(b):
        raise RangeError("the median of inf and -inf is not a number")
    return a + b if isinf(a) or isinf(b) else float((Fraction(a) + Fraction(b)) / 2)


def interpolated(low: np.ndarray, high: np.ndarray, share: np.ndarray, type_: Type) -> np.ndarray:
    """Return the words at shares float64[n] of the way from words low[n] to high[n] of a type;
    exact, then rounded.

    A decimal is cut after its last digit; other numbers give float64.  Raises RangeError.
    """
    if type_ == "float64":
        return float_words(
            np.array(
                [*map(_between, float_values(low).tolist(), float_values(high).tolist(), share)]
            )
        )
    places = zip(low.tolist(), high.tolist(), map(Fraction, share.tolist()), strict=True)
    if scale(type_) is None:
        return float_words(np.array([float(a + (b - a) * s) for a, b, s in places], np.float64))
    return np.array(
        [
            int(float(a + (b - a) * s)) if abs(a) + abs(b) < EXACT else int(a + (b - a) * s)
            for a, b, s in places
        ],
        np.int64,
    )


def _between(low: float, high: float, share: float) -> float:
    if not (isfinite(low) and isfinite(high)):
        return _mean(low, high) if share else low
    return float(Fraction(low) + (Fraction(high) - Fraction(low)) * Fraction(share))
