"""What functions of terms are given: columns of words, their types, and how words are values.

A function that is computed in Python is called once for each distinct combination of its arguments.
"""

from collections.abc import Callable
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
from pagestore.host import WORD_MAX, WORD_MIN, float_values, float_words, of_texts

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
        distinct, places = np.unique(self.words[place], return_inverse=True)
        found: list[Any] = self.encode.decode(self.types[place], distinct).to_pylist()
        return [found[n] for n in places.tolist()]

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


def by_text(function: Callable[..., Any], x: Operands) -> Result:
    """Evaluate a function of Python once for each distinct combination of arguments.

    Where it raises ValueError, InvalidOperation or OverflowError, or gives an integer beyond a
    word, it has no value.  Raises RoomError if texts take more memory than an evaluation may take.
    """
    return over_distinct(partial(_called, function), x)


def reading(
    read: Callable[[str], Any], other: Callable[[Operands], Result]
) -> Callable[[Operands], Result]:
    """Return a conversion of texts, which are read, and of other values."""
    return lambda x: by_text(read, x) if x.types[0] in TEXTS else other(x)


def by_value(name: str, signature: str, function: Callable[..., Any], **more: Any) -> None:
    """Define a function of terms, as `define` does, that is a function of Python."""
    define(name, signature, partial(by_text, function), **more)


def over_distinct(compute: Callable[[Operands], Result], x: Operands) -> Result:
    """Evaluate a function once for each distinct combination of arguments, over some at a time:
    so many that their texts fit in memory.
    """
    rows = np.stack(x.words) if x.words else np.zeros((0, x.n), np.int64)
    distinct, inverse = np.unique(rows, axis=1, return_inverse=True)
    words, fails = np.zeros(distinct.shape[1], np.int64), np.zeros(distinct.shape[1], bool)
    for some in slices(distinct.shape[1], lambda: int(x.encode.passed)):
        part = distinct[:, some]
        words[some], fails[some] = compute(x._replace(n=part.shape[1], words=list(part)))
    inverse = inverse.reshape(-1)
    return words[inverse], fails[inverse]


def _called(function: Callable[..., Any], x: Operands) -> Result:
    """Evaluate a function of Python for each combination of arguments, as `by_text` does."""
    columns = [x.values(n) for n in range(len(x.words))]
    found, fails, size = list[Any](), x.none(), 0
    for place, row in enumerate(zip(*columns, strict=True)):
        try:
            found.append(function(*(text_of(v) if isinstance(v, bytes) else v for v in row)))
            if x.gives == "int64" and not WORD_MIN <= found[-1] <= WORD_MAX:
                no_value()
            if isinstance(found[-1], str) and len(found[-1]) > LONG:
                size += len(found[-1])
                x.encode.hold(size)
        except (ValueError, InvalidOperation, OverflowError):
            found[place:] = [None]
            fails[place] = True
    kept = [one for one, fail in zip(found, fails.tolist(), strict=True) if not fail]
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
    if isinstance(value, bytes):
        return text_of(value)
    return str(value)
