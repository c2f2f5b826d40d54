"""Lists of words, row by row, as commit records have them.

An `array` keeps them packed, which a list does not, and is made faster than a numpy array, which takes a microsecond.
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
    """Rows as one list.

    >>> word_list((3, 2), (9, 1))
    array('q', [3, 2, 9, 1])
    """
    return array("q", [*chain(*rows)])  # out of a list: an array that knows its length is made in half the time


def to_word_list(words: np.ndarray) -> WordList:
    """int64[n] as a list."""
    return array("q", words.tobytes())


def rows(words: Iterable[int], width: int) -> Iterable[tuple[int, ...]]:
    """The rows of a list.

    >>> [*rows(word_list((3, 2), (9, 1)), 2)]
    [(3, 2), (9, 1)]
    """
    return zip(*(iter(words),) * width, strict=True)
