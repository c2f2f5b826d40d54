"""Lists of words, row by row, as commit records have them.

Packed: as many ints would lie all over memory, and numpy takes a microsecond to begin.
"""

from array import array
from collections.abc import Iterable
from functools import partial
from itertools import chain

import numpy as np

Flat = array
empty = partial(array, "q")  # a list without rows


def flat(*rows: Iterable[int]) -> Flat:
    """Rows as one list.

    >>> flat((3, 2), (9, 1))
    array('q', [3, 2, 9, 1])
    """
    return array("q", [*chain(*rows)])  # an array that knows its length is made in half the time


def flat_words(words: np.ndarray) -> Flat:
    """int64[n] as a list."""
    return array("q", words.tobytes())


def rows(words: Iterable[int], width: int) -> Iterable[tuple[int, ...]]:
    """The rows of a list.

    >>> [*rows(flat((3, 2), (9, 1)), 2)]
    [(3, 2), (9, 1)]
    """
    return zip(*(iter(words),) * width, strict=True)
