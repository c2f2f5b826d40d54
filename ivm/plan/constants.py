"""Convert the constants of rules and edits to words; the store's dictionary maps texts to ids."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np

from ivm.errors import RuleTypeError
from ivm.lang.ir import Const
from pagestore.errors import WordError
from pagestore.host import NULL, Column, TextFinder, Transaction, Type, encode

Encode = Callable[[Const], int]


class Encoder:
    """Converts constants to words, by a snapshot, sketch or transaction; adds new texts to the dictionary.

    It also gives the order of texts, which is not that of their words.
    """

    def __init__(self, source: Any) -> None:
        self._source = source

    def __call__(self, const: Const) -> int:
        """Return the word of a constant.  Raises RuleTypeError, with its place, for a value that no column can hold."""
        if const.value is None:
            return NULL
        return _word(const, lambda values: self._source.encode(const.type, values))

    def keys(self, ids: np.ndarray) -> np.ndarray:
        """Return sort keys int64[n] for the texts of ids int64[n], comparable only with each other."""
        keys: np.ndarray = self._source.dictionary.order.keys(ids)
        return keys

    def ids(self, keys: np.ndarray) -> np.ndarray:
        """Return the ids int64[n] of the texts with sort keys int64[n]."""
        ids: np.ndarray = self._source.dictionary.order.ids_of(keys)
        return ids

    def threshold(self, text: bytes, behind: bool) -> int:
        """Return a bound: lesser texts have sort keys below it; with `behind`, the text itself has, too."""
        return int(self._source.dictionary.order.threshold(text + b"\0" * behind))


def finder(txn: Transaction) -> Encode:
    """Return a function from constants to words for deletions: a text that is not in the dictionary becomes 0.

    No record holds 0 as a text, so nothing is deleted, and the dictionary does not grow.
    """
    known = TextFinder(txn.dictionary)
    return lambda const: _word(const, lambda values: encode(Column("value", Type.parse(const.type)), values, known))


def _word(const: Const, words_of: Callable[[list[Any]], np.ndarray]) -> int:
    if isinstance(const.value, timedelta):  # Arrow cannot represent the least duration
        return const.value // timedelta(microseconds=1)
    try:
        return int(words_of([const.value])[0])
    except WordError as error:
        raise RuleTypeError(const.where, f"{const}: {error}") from None
