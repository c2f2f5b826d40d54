"""What functions of terms are given: columns of words, their types, and how words are values.

A function that is computed in Python is called once for each distinct combination of its arguments.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, time
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ivm.errors import RoomError
from ivm.lang.functions import define
from ivm.lang.ir import Type
from ivm.lang.types import TEXTS, scale
from ivm.memory import memory_allowed, slices
from pagestore.host import (
    WORD_MAX,
    WORD_MIN,
    float_values,
    float_words,
    numbers_of,
    of_numbers,
    of_texts,
)

DAY = 86_400_000_000  # microseconds
LONG = 1 << 16  # letters of a text that is counted as soon as it is made
LONGEST = (1 << 29) - 1  # letters of a text: an Arrow array has 2**31 - 1 bytes
Mask = np.ndarray | None  # bool[n]; None if it is False everywhere
Result = tuple[np.ndarray, np.ndarray]  # words int64[n], and where the function fails, bool[n]


class Operands(NamedTuple):
    """The arguments of a function in n bindings: words int64[n] and where they are null, their
    types, the result's.
    """

    n: int
    words: list[np.ndarray]
    nulls: list[Mask]
    types: tuple[Type, ...]
    gives: Type
    encode: Any  # terms/encoder.py's Encoder

    def only(self, which: np.ndarray) -> "Operands":
        """Return the bindings that a mask bool[n] chooses, in which no argument is null."""
        return self._replace(
            n=int(which.sum()), words=[w[which] for w in self.words], nulls=[None] * len(self.words)
        )

    def floats(self, place: int) -> np.ndarray:
        """Return an argument's values as float64[n]."""
        return as_floats(self.words[place], self.types[place])

    def values(self, place: int) -> list[Any]:
        """Return an argument's values as objects of Python; those that are equal are one."""
        (distinct,), places = distinct_rows(self.words[place : place + 1])
        found: list[Any] = self.encode.decode(self.types[place], distinct).to_pylist()
        return found * len(places) if len(found) == 1 else [found[n] for n in places.tolist()]

    def texts(self, place: int) -> Any:
        """Return an argument's values, which are texts, as an Arrow array of strings."""
        if self.types[place] == "string":
            return self.encode.decode("string", self.words[place])
        return of_texts([text_of(value) for value in self.values(place)])

    def none(self) -> np.ndarray:
        """Return that nothing fails, bool[n]."""
        return np.zeros(self.n, bool)


def as_floats(words: np.ndarray, type_: Type) -> np.ndarray:
    """Return the values of numbers as float64[n]."""
    if type_ == "float64":
        return float_values(words)
    digits = scale(type_)
    return words.astype(np.float64) if not digits else words / 10.0**digits


def by_text(
    function: Callable[..., Any], x: Operands, columns: Callable[..., Any] | None = None
) -> Result:
    """Evaluate a function of Python once for each distinct combination of arguments.

    Where all but the first argument are constants, `columns` may give its values for an Arrow array
    of texts, as an Arrow array; or None, for constants that it does not serve.  Where the function
    raises ValueError, InvalidOperation or OverflowError, or gives an integer beyond a
    word, it has no value.  Raises RoomError if texts take more memory than an evaluation may take.
    """
    return over_distinct(partial(_called, function, columns), x)


def reading(
    read: Callable[[str], Any], other: Callable[[Operands], Result]
) -> Callable[[Operands], Result]:
    """Return a conversion of texts, which are read, and of other values."""
    return lambda x: by_text(read, x) if x.types[0] in TEXTS else other(x)


def by_value(
    name: str,
    signature: str,
    function: Callable[..., Any],
    columns: Callable[..., Any] | None = None,
    **more: Any,
) -> None:
    """Define a function of terms, as `define` does, that is a function of Python; see `by_text`."""
    define(name, signature, partial(by_text, function, columns=columns), **more)


def over_distinct(compute: Callable[[Operands], Result], x: Operands) -> Result:
    """Evaluate a function once for each distinct combination of arguments, over some at a time:
    so many that their texts fit in memory.
    """
    if not x.n:
        return np.zeros(0, np.int64), x.none()
    if not x.words:
        return compute(x)
    distinct, places = distinct_rows(x.words)
    n = len(distinct[0])
    words, fails = np.zeros(n, np.int64), np.zeros(n, bool)
    for some in slices(n, lambda: int(x.encode.passed)):
        part = [column[some] for column in distinct]
        words[some], fails[some] = compute(x._replace(n=len(part[0]), words=part))
    return (words, fails) if n == x.n else (words[places], fails[places])


def distinct_rows(columns: Sequence[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the distinct combinations of K >= 1 columns of words int64[n], n >= 1, in the order of
    their first rows, and the place of each row among them.  A column of one word costs a comparison.
    """
    n = len(columns[0])
    places, count = np.zeros(n, np.int64), 1
    for column in columns:
        if (column == column[0]).all():
            continue
        more, found = _numbered(column)
        places, count = (more, found) if count == 1 else _numbered(places * found + more)
    first = np.empty(count, np.int64)
    first[places[::-1]] = np.arange(n - 1, -1, -1)
    return [column[first] for column in columns], places


def _numbered(words: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the number of each word among the distinct ones, and how many these are."""
    import pyarrow as pa

    found = of_numbers(pa.int64(), words).dictionary_encode()
    return numbers_of(found.indices, np.int32).astype(np.int64), len(found.dictionary)


def _called(
    function: Callable[..., Any], columns: Callable[..., Any] | None, x: Operands
) -> Result:
    """Evaluate a function of Python for each combination of arguments, as `by_text` does."""
    if columns and all((words == words[0]).all() for words in x.words[1:]):
        constants = [x.values(n)[0] for n in range(1, len(x.words))]
        given = columns(x.texts(0), *(text_of(v) if isinstance(v, bytes) else v for v in constants))
        if given is not None:
            return x.encode.words(x.gives, given), x.none()
    arguments = [x.values(n) for n in range(len(x.words))]
    values, fails, size = list[Any](), x.none(), 0
    for place, row in enumerate(zip(*arguments, strict=True)):
        try:
            values.append(function(*(text_of(v) if isinstance(v, bytes) else v for v in row)))
            if x.gives == "int64" and not WORD_MIN <= values[-1] <= WORD_MAX:
                no_value()
            if isinstance(values[-1], str) and len(values[-1]) > LONG:
                size += len(values[-1])
                x.encode.hold(size)
        except (ValueError, InvalidOperation, OverflowError):
            values[place:] = [None]
            fails[place] = True
    kept = [value for value, fail in zip(values, fails.tolist(), strict=True) if not fail]
    words = np.zeros(x.n, np.int64)
    # NaN is a value of terms, though no column of a table holds one
    if kept and x.gives == "float64":
        words[~fails] = float_words(np.array(kept, np.float64))
    elif kept:
        words[~fails] = x.encode.words(x.gives, kept)
    return words, fails


def fitting(letters: int) -> None:
    """Raise RoomError unless a text of so many letters may be made."""
    most = min(LONGEST, memory_allowed()) if letters > LONG else LONG
    if letters > most:
        raise RoomError(
            f"a text of {letters:,} letters: one evaluation may make texts of {most:,} letters; "
            "make shorter ones, or open the workspace with more memory="
        )


def no_value() -> Any:
    """Let a function of `by_text` have no value for its arguments. Raises ValueError."""
    raise ValueError


def text_of(value: bytes) -> str:
    """Return bytes as a text; what is not UTF-8 among them is U+FFFD."""
    return value.decode(errors="replace")


def shown(value: Any) -> str:
    """Return a value as SQL shows it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime | time):
        text = value.replace(tzinfo=None).isoformat(*[" "] * isinstance(value, datetime))
        return text.rstrip("0") if "." in text else text
    if isinstance(value, Decimal):
        return f"{value:f}"
    return text_of(value) if isinstance(value, bytes) else str(value)
