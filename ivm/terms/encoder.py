"""Convert the constants of rules and edits to words; the store's dictionary maps texts to ids."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from ivm.errors import RuleTypeError
from ivm.lang.ir import Const, Term, Type, given_number, show
from ivm.lang.types import has_ids, shown, word_range
from ivm.memory import MemoryUse
from pagestore.errors import WordError
from pagestore.host import NULL, Column, Snapshot, TextFinder, Transaction, encode
from pagestore.host import Type as ColumnType

Encode = Callable[[Const], int]
NONE_GIVEN: Mapping[int, Const] = MappingProxyType({})


class Encoder:
    """Converts constants to words, by a snapshot, sketch or transaction; adds new texts to the
    dictionary.

    It also gives the order of texts, which is not that of their words, and counts the texts that
    an evaluation makes as memory that it takes.  `passed` are the bytes of texts so far, both ways.
    """

    def __init__(self, source: Any, given: Mapping[int, Const] = NONE_GIVEN) -> None:
        """`given` are the values of a question's places by their numbers."""
        self._source, self._given = source, given
        self.passed = self._made = self._made_bytes = 0
        self._memory = MemoryUse(step="making texts", what="texts")

    def __call__(self, const: Const) -> int:
        """Return the word of a constant.  Raises RuleTypeError, with its place, for a value that
        no column can hold.
        """
        if not has_ids(const.type):
            return plain_word(const)
        return _word(const, lambda values: self._source.encode(const.type, values))

    def given(self, number: int) -> int:
        """Return the word of the value of a place."""
        return self(self._given[number])

    def constant(self, term: Term) -> Const | None:
        """Return a constant, or the value of a place; None for any other term."""
        number = given_number(term)
        return self._given[number] if number is not None else _constant(term)

    def words(self, type_: Type, values: list[Any]) -> np.ndarray:
        """Return the words int64[n] of values; add new texts to the dictionary.

        Raises RoomError if the new texts so far take more memory than an evaluation may take.
        """
        dictionary = self._source.dictionary
        count, size = dictionary.next_id, dictionary.added_bytes
        words: np.ndarray = self._source.encode(type_, values)
        self.passed += getattr(values, "nbytes", 0)
        if size < dictionary.added_bytes:
            self._made += dictionary.next_id - count
            self._made_bytes += dictionary.added_bytes - size
            self.passed += dictionary.added_bytes - size
            self.hold(0)
        return words

    def hold(self, size: int) -> None:
        """Count so many bytes of texts next to those that were made.  Raises RoomError."""
        self._memory.hold(self._made, self._made_bytes + size)

    def decode(self, type_: Type, words: np.ndarray) -> Any:
        """Return the values of words int64[n] as an Arrow array."""
        values = self._source.decode(type_, np.ascontiguousarray(words))
        self.passed += values.nbytes
        return values

    def keys(self, ids: np.ndarray) -> np.ndarray:
        """Return sort keys int64[n] for the texts of ids int64[n], comparable with each other."""
        keys: np.ndarray = self._source.dictionary.order.keys(ids)
        return keys

    def ids(self, keys: np.ndarray) -> np.ndarray:
        """Return the ids int64[n] of the texts with sort keys int64[n]."""
        ids: np.ndarray = self._source.dictionary.order.ids_of(keys)
        return ids

    def between(self, low: bytes, high: bytes | None, most: int) -> np.ndarray | None:
        """Return the ids int64[n] of the texts from one up to another, or to the last; None for
        more than `most`.
        """
        order = self._source.dictionary.order
        first, end = order.rank(low), order.count if high is None else order.rank(high)
        return None if end - first > most else order.slice(first, max(first, end))

    def threshold(self, text: bytes, behind: bool) -> int:
        """Return a bound: lesser texts sort below it; with `behind`, the text itself, too."""
        return int(self._source.dictionary.order.threshold(text + b"\0" * behind))


def _constant(term: Term) -> Const | None:
    return term if isinstance(term, Const) else None


class NotingEncoder(Encoder):
    """Notes each constant whose word the store decides, with that word."""

    def __init__(self, source: Any) -> None:
        super().__init__(source)
        self.noted = list[tuple[Const, int]]()

    def __call__(self, const: Const) -> int:
        """Return the word of a constant, as an Encoder does."""
        word = super().__call__(const)
        if has_ids(const.type) and const.value is not None:
            self.noted.append((const, word))
        return word


def finder(txn: Transaction) -> Encode:
    """Return a function from constants to words for deletions: a text that is not in the dictionary
    becomes 0.

    No record holds 0 as a text, so nothing is deleted, and the dictionary does not grow.
    """
    known = TextFinder(txn.dictionary)
    return lambda const: _word(
        const, lambda values: encode(Column("value", ColumnType.parse(const.type)), values, known)
    )


def plain_word(const: Const) -> int:
    """Return the word of a constant that has no id.  Raises RuleTypeError, with its place."""
    # moments that are equal in two zones are not both words: one is refused
    word = _plain if getattr(const.value, "tzinfo", None) is None else _plain.__wrapped__
    return _word(const, lambda values: [word(const.type, values[0])])


@lru_cache(1 << 12)
def _plain(type_: Type, value: Any) -> int:
    """Return the word of a value that is the same in all stores.  Raises WordError."""
    return int(encode(Column("value", ColumnType.parse(type_)), [value], cast(Any, None))[0])


def _word(const: Const, words_of: Callable[[list[Any]], Sequence[int] | np.ndarray]) -> int:
    if const.value is None:
        return NULL
    if isinstance(const.value, timedelta):  # Arrow cannot represent the least duration
        return const.value // timedelta(microseconds=1)
    try:
        return int(words_of([const.value])[0])
    except WordError as error:
        raise RuleTypeError(const.where, f"{const}: {error}") from None


def written(word: int, type_: Type, snap: Snapshot) -> str:
    """Return a constant as rules write it; a word out of range, as of year 0, as a number."""
    least, greatest = word_range(type_)
    if not least <= word <= greatest:
        return shown(word, type_)
    (value,) = snap.decode(type_, np.array([word])).to_pylist()
    return show(Const(value, type_))
