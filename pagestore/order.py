"""Sort tuples of words: as single words where they fit, which is what machines sort fastest."""

from typing import NamedTuple

import numpy as np

from .kernels.net import insertion_order
from .kernels.order import decode_tuples, encode_tuples, value_bounds

FEW = 48  # so many tuples are sorted one by one faster than numpy is called


class Codes(NamedTuple):
    """Tuples int64[K, n] as words int64[n] that sort alike, `bits` wide, and what decodes them."""

    words: np.ndarray
    low: np.ndarray
    high: np.ndarray
    width: np.ndarray

    @property
    def bits(self) -> int:
        return int(self.width.sum())


def codes_of(columns: np.ndarray) -> Codes | None:
    """The tuples as words; None where they do not fit 63 bits.  O(n)."""
    low, high = np.empty((2, len(columns)), np.int64)
    value_bounds(columns, low, high)
    empty = low > high
    low[empty] = high[empty] = 0
    width = [(h - b + 2).bit_length() for b, h in zip(low.tolist(), high.tolist(), strict=True)]
    if sum(width) > 63:
        return None
    codes = Codes(np.empty(columns.shape[1], np.int64), low, high, np.array(width))
    encode_tuples(columns, low, high, codes.width, codes.words)
    return codes


def sort_order(columns: np.ndarray) -> np.ndarray:
    """Stable order of columns[K, n] as tuples.  O(n log n).

    >>> sort_order(np.array([[2, 1, 2], [5, 9, 4]]))
    array([1, 2, 0])
    """
    n = columns.shape[1]
    if n <= FEW:
        order = np.empty(n, np.int64)
        insertion_order(columns, order)
        return order
    codes = codes_of(columns)
    if codes is None:
        return np.lexsort(columns[::-1])
    places = n.bit_length()
    if codes.bits + places > 63:
        return np.argsort(codes.words, kind="stable")
    words = codes.words << places | np.arange(n)  # sorted as they are, which is faster than by reference
    words.sort()
    return words & (1 << places) - 1


def distinct(columns: np.ndarray) -> np.ndarray:
    """The tuples of columns[K, n] sorted, each once.  O(n log n).

    >>> distinct(np.array([[2, 1, 2], [4, 9, 4]]))
    array([[1, 2],
           [9, 4]])
    """
    codes = codes_of(columns) if columns.shape[1] > FEW else None
    if codes is None:
        columns = columns[:, sort_order(columns)]
        return columns[:, begins(columns)]
    codes.words.sort()
    words = codes.words[begins(codes.words[None])]
    found = np.empty((len(columns), len(words)), np.int64)
    decode_tuples(words, codes.low, codes.high, codes.width, found)
    return found


def begins(columns: np.ndarray) -> np.ndarray:
    """Where a tuple of columns[K, n], sorted, differs from its predecessor: bool[n].

    >>> begins(np.array([[1, 1, 2], [4, 4, 4]])).tolist()
    [True, False, True]
    """
    differs = np.ones(columns.shape[1], bool)
    differs[1:] = (columns[:, 1:] != columns[:, :-1]).any(axis=0)
    return differs
