"""Lists of words, row by row, as in commit records.

An `array` is packed, which a list is not, and is made faster than a numpy array, which takes a microsecond.
"""

from array import array
from collections.abc import Iterable
from functools import partial
from itertools import chain
from typing import TypeAlias

import numpy as np

WordList: TypeAlias = "array[int]"
empty_list = partial(array, "q")  # a list without rows


def word_list(*rows: Iterable[int]) -> WordList:
    """Concatenate rows to one list.

    >>> word_list((3, 2), (9, 1))
    array('q', [3, 2, 9, 1])
    """
    return array("q", [*chain(*rows)])  # from a list: with a known length an array is made in half the time


def to_word_list(words: np.ndarray) -> WordList:
    """Return int64[n] as a list."""
    return array("q", words.tobytes())


def rows(words: Iterable[int], width: int) -> Iterable[tuple[int, ...]]:
    """Iterate over the rows of a list.

    >>> [*rows(word_list((3, 2), (9, 1)), 2)]
    [(3, 2), (9, 1)]
    """
    return zip(*(iter(words),) * width, strict=True)
