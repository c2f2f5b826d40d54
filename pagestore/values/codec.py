"""Convert column values to words: signed 64-bit integers whose order is the order of the values.

type             word
int64            the value
uint64           the value with its highest bit flipped
float64          its bits, negative values with all but the sign flipped; -0.0 becomes 0.0, NaN is refused
bool             0, 1
date             days since 1970-01-01, in the years 1 to 9999, which Python and Spark have
time             microseconds since midnight
timestamp        microseconds since 1970-01-01, without a time zone, in the same years
timestamp(zone)  microseconds since 1970-01-01 in UTC; the zone, of the column, is one to show it
in. In the same years,
                 and for zones other than UTC not on the first or the last day of these, which may
                 be beyond there
duration         microseconds
decimal(p,s)     the value times 10**s, if p <= 18; else as a text: 2**127 + the value times 10**s, as 16 bytes, the
                 highest first, so that texts are in the order of the values; p <= 38
string, bytes    the id that the store's dictionary gave the text: equal texts have equal ids; their order is kept
                 separately (text_order.py)

A null, which a column of a nullable type (`int64?`) may hold, is the least word. No other value of
a nullable column has this word: int64 and duration refuse it there, and each value of `uint64?` has
the word of the next greater value, so that 2**64 - 1 has none.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import numpy as np

from pagestore.errors import CorruptionError, WordError
from pagestore.pages.layout import WORD_MAX, WORD_MIN
from pagestore.runtime.lazy import pyarrow as pa
from pagestore.values.exact import exact
from pagestore.values.exact import flags_of as flags_of
from pagestore.values.exact import numbers_of as numbers_of
from pagestore.values.misfit import Misfit
from pagestore.values.objects import with_nulls
from pagestore.values.types import (
    KINDS,
    NARROW,
    SINGLE,
    Column,
    Interner,
    Texts,
    Type,
    array_of,
    decoded,
    of_numbers,
)

NULL = WORD_MIN
_NO_TEXTS: Any = None  # instead of a dictionary, for values that are not texts
_SIGN = np.uint64(1 << 63)
YEARS = {  # the words of the first and the last value that Python can represent
    name: tuple(
        np.array([datetime.min, datetime.max], "M8[us]").astype(kind.numpy).view("int64").tolist()
    )
    for name, kind in KINDS.items()
    if kind.numpy.startswith("datetime64")
}
AS_UTC = "UTC", "Etc/UTC", "Z", "GMT", "+00:00"  # zones in which no moment is on another day
MIDNIGHT = 24 * 60 * 60 * 10**6  # microseconds

# --- values to words ----------------------------------------------------------------------------


def encode(column: Column, values: Any, interner: Interner, first: int = 0) -> np.ndarray:
    """Encode a column's values (a list, numpy or Arrow array, or column of a frame) as words
    int64[n].

    Raises WordError naming column and row, counted from `first`, for a null, a NaN or a value that
    the type cannot hold exactly. O(n), and for texts the dictionary's O(distinct log dictionary).

    >>> encode(Column("x", Type.parse("float64")), [-1.5, -0.0, 2.0], None)
    array([-4609434218613702657,                    0,  4611686018427387904])
    """
    try:
        return _words(column.type, values, interner)
    except Misfit as misfit:
        raise _refused(column, misfit, first) from None


def narrowed(column: Column, words: np.ndarray, first: int = 0, refuse: bool = True) -> np.ndarray:
    """Return the words int64[n] that a column stores for those of values: of a FLOAT those of the
    nearest numbers of single precision.

    Raises WordError as `encode` for a value beyond the bounds of a narrow column, which is left as
    it is unless `refuse`. O(n).

    >>> narrowed(Column("x", Type("int64"), "TINYINT"), np.array([7, 128]))
    Traceback (most recent call last):
    pagestore.errors.WordError: column 'x', row 1: 128 does not fit TINYINT; it holds -128 to 127
    """
    if not column.narrow:
        return words
    values = float_values(words) if column.narrow == SINGLE else words
    bad = beyond(column.narrow, values)
    null = words == NULL if column.type.nullable else np.False_
    bad &= ~null
    if refuse and bad.any():
        row = int(np.argmax(bad))
        said = f"{values[row]} does not fit {column.narrow}; {holding(column.narrow)}"
        raise _refused(column, Misfit(row, said), first)
    if column.narrow != SINGLE:
        return words
    near = float_words(np.where(bad, values, np.where(bad, 0, values).astype(np.float32)))
    return np.where(null, words, near)


def beyond(narrow: str, values: np.ndarray) -> np.ndarray:
    """Return which numbers, of int64[n] or float64[n], a narrow column does not hold, bool[n]."""
    least, most = NARROW[narrow]
    outside: np.ndarray = (values < least) | (values > most)
    return outside & ~np.isinf(values) if narrow == SINGLE else outside


def holding(narrow: str) -> str:
    """Return which numbers a narrow column holds, in words."""
    least, most = NARROW[narrow]
    return f"it holds {least} to {most}"


def typed(column: Column, values: Any) -> pa.Array:
    """Convert a column's values to an Arrow array of its type, with nulls.

    Raises WordError for values as `encode` does.
    """
    try:
        array, there = exact(column.type, values)
    except Misfit as misfit:
        raise _refused(column, misfit) from None
    array = array.cast(column.type.arrow)
    return array if there is None else with_nulls(array, there)


def _refused(column: Column, misfit: Misfit, first: int = 0) -> WordError:
    row = "" if misfit.row is None else f", row {misfit.row + first}"
    return WordError(f"column {column.name!r}{row}: {misfit.said}")


def _words(type_: Type, values: Any, interner: Interner) -> np.ndarray:
    if type_.name == "int64":
        fast = _plain_integers(values)
        if fast is not None:
            return _without_null(type_, fast)
    array, there = exact(type_, values)
    if there is None:
        return _without_null(type_, _encoded(type_, array, interner))
    if not type_.nullable:
        raise _null(type_, there)
    words = np.full(len(there), NULL)
    if there.any():
        try:
            words[there] = _without_null(type_, _encoded(type_, array, interner))
        except Misfit as misfit:
            raise misfit.among(there) from None
    return words


def _without_null(type_: Type, words: np.ndarray) -> np.ndarray:
    """Return the words of values. Raises Misfit if one of them is the word of a null."""
    if type_.nullable and type_.name in ("int64", "duration") and words.min(initial=0) == NULL:
        raise _taken(type_, int(np.argmin(words)), NULL)
    return words


def _taken(type_: Type, row: int, value: int) -> Misfit:
    plain = type_.name
    return Misfit(
        row,
        f"{value} stands for a null in a column of {plain}?; declare the column as {plain}, or "
        f"take another number",
    )


def _encoded(type_: Type, array: pa.Array, interner: Interner) -> np.ndarray:
    """Encode an Arrow array of the column's type, without nulls."""
    if type_.interned:
        return interner.intern(interned_as(type_, array))
    if type_.name == "float64":
        return _float_words(numbers_of(array, np.float64))
    if type_.name == "decimal":
        return numbers_of(array, np.int64, 2)[::2].copy()
    if type_.name == "uint64":
        return _unsigned_words(type_, numbers_of(array, np.int64))
    if type_.name == "bool":
        return numbers_of(array.cast(pa.int8()), np.int8).astype(np.int64)
    words = numbers_of(array, type_.kind.stored).astype(np.int64, copy=False)
    if type_.name == "time":
        return _in_a_day(words)
    return _in_years(type_, words) if type_.name in YEARS else words


def word_of_value(column: Column, value: Any, id_of: Callable[[bytes], int]) -> int:
    """Encode one value as `encode` does; a text that the dictionary does not have becomes 0."""
    if column.type.interned and value is not None:
        return id_of(text_of(column, value))
    return word_without_texts(column, value)


def word_without_texts(column: Column, value: Any) -> int:
    """Encode one value that is not a text, as `encode` does."""
    if column.type.name == "int64" and type(value) is int and WORD_MIN < value <= WORD_MAX:
        return value
    return int(encode(column, [value], _NO_TEXTS)[0])


def text_of(column: Column, value: Any) -> bytes:
    """Return a value of a column of texts as bytes. Raises WordError as `encode`."""
    if type(value) is str and column.type.name == "string":
        try:  # `suppress` takes as long as the rest
            return value.encode()
        except UnicodeError:
            pass  # reported with its row below
    if type(value) is bytes and column.type.name == "bytes":
        return value
    try:
        array, there = exact(column.type, [value])
        if there is not None:
            raise _null(column.type, there)
    except Misfit as misfit:
        raise _refused(column, misfit) from None
    text = interned_as(column.type, array)[0].as_py()
    return text.encode() if isinstance(text, str) else text


def _null(type_: Type, there: np.ndarray) -> Misfit:
    return Misfit(
        int(np.argmin(there)),
        f"a null, which no {type_} is; drop or replace it, or declare a value column as {type_}?",
    )


def _plain_integers(values: Any) -> np.ndarray | None:
    """Return the words of a numpy int64 array or of a short list of only int, without Arrow;
    None for anything else.
    """
    # others may have a mask
    if type(values) is np.ndarray and values.dtype == np.int64 and values.ndim == 1:
        return values
    if (
        isinstance(values, list | tuple)
        and len(values) <= 64
        and all(type(value) is int for value in values)
    ):
        try:
            return np.array(values, np.int64)
        except OverflowError:
            return None
    return None


def _in_years(type_: Type, words: np.ndarray) -> np.ndarray:
    """Return the words of dates or timestamps. Raises Misfit for those Python cannot represent."""
    least, most = bounds_of(type_)
    bad = (words < least) | (words > most)
    if bad.any():
        row = int(np.argmax(bad))
        raise Misfit(
            row, f"{words[row : row + 1].view(type_.kind.numpy)[0]} is not in the years 1 to 9999"
        )
    return words


def _in_a_day(words: np.ndarray) -> np.ndarray:
    bad = (words < 0) | (words >= MIDNIGHT)
    if bad.any():
        row = int(np.argmax(bad))
        raise Misfit(row, f"{words[row]} microseconds are not a time of day")
    return words


def _unsigned_words(type_: Type, values: np.ndarray) -> np.ndarray:
    words: np.ndarray = values ^ WORD_MIN
    if not type_.nullable:
        return words
    if words.max(initial=0) == WORD_MAX:
        raise _taken(type_, int(np.argmax(words)), 2**64 - 1)
    return words + 1


def _float_words(values: np.ndarray) -> np.ndarray:
    bad = np.isnan(values)
    if bad.any():
        raise Misfit(
            int(np.argmax(bad)), "NaN has no place in an order; leave it out, or make it a null"
        )
    return float_words(values)


def bounds_of(column_type: Type) -> tuple[int, int]:
    """Return the least and the greatest word of the values of a type, nulls aside; for texts, of
    all ids.

    >>> bounds_of(Type.parse("decimal(3,1)")), bounds_of(Type.parse("bool"))
    ((-999, 999), (0, 1))
    """
    name = column_type.name
    if name == "decimal" and not column_type.wide:
        most = 10**column_type.precision - 1
        return -most, most
    if name == "float64":
        least, most = float_words(np.array([-np.inf, np.nan])).tolist()
        return least, most
    if name in YEARS:
        least, most = YEARS[name]
        # so that it is in these years there, too
        margin = MIDNIGHT if column_type.zone not in ("", *AS_UTC) else 0
        return least + margin, most - margin
    if name in ("int64", "uint64", "duration"):
        return WORD_MIN, WORD_MAX
    return {"bool": (0, 1), "time": (0, MIDNIGHT - 1)}.get(name, (1, WORD_MAX))


def float_words(values: np.ndarray) -> np.ndarray:
    """Return the words int64[n] of float64[n]; NaN, which only functions give, has one word,
    above that of inf.
    """
    bits = np.where(np.isnan(values), np.nan, values + 0.0).view(np.int64)
    return bits ^ (bits >> 63 & np.int64(WORD_MAX))


# --- words to values ----------------------------------------------------------------------------


def decode(column_type: Type, words: np.ndarray, interner: Interner) -> pa.Array:
    """Decode words int64[n] as an Arrow array; int64 without a copy."""
    if column_type.nullable:
        null = words == NULL
        if null.any():
            return with_nulls(decode(column_type, words[~null], interner), ~null)
    name = column_type.name
    if column_type.wide:
        return _decimals_of_texts(column_type, interner.texts(words, True))
    if column_type.interned:
        return interner.texts(words, name == "bytes")
    values = words
    if name == "float64":
        values = float_values(words)
    elif name == "uint64":
        values = unsigned_values(column_type, words)
    elif name == "bool":
        values = words != 0
    return array_of(column_type, values)


def interned_as(type_: Type, array: pa.Array) -> pa.Array:
    """Return the texts by which the dictionary has the values of a type, an Arrow array without
    nulls.

    Decimals have 16 bytes, in the order of the values; texts are themselves.
    """
    if not type_.wide:
        return array
    halves = numbers_of(array, np.uint64, 2).reshape(-1, 2)[:, ::-1].copy()
    halves[:, 0] ^= _SIGN
    offsets = np.arange(len(array) + 1, dtype=np.int64) * 16
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(halves.astype(">u8"))]
    return pa.Array.from_buffers(pa.large_binary(), len(array), buffers)


def _decimals_of_texts(column_type: Type, texts: pa.Array) -> pa.Array:
    """Return the decimals of texts.  Raises CorruptionError for a text that is none."""
    data = b"".join(texts.to_pylist())
    if len(data) != 16 * len(texts):
        raise CorruptionError(
            f"a text of a column of {column_type} is none of 16 bytes; pagestore fsck says more"
        )
    halves = np.frombuffer(data, ">u8").reshape(-1, 2).astype(np.uint64)
    halves[:, 0] ^= _SIGN
    return of_numbers(column_type.arrow, halves[:, ::-1])


def values_of(column_type: Type, words: np.ndarray, interner: Interner) -> list[Any]:
    """Return the values of words int64[n] as Arrow's `to_pylist` does; most numbers without Arrow."""
    if column_type.name not in ("int64", "float64", "bool") or (
        column_type.nullable and (words == NULL).any()
    ):
        return decode(column_type, words, interner).to_pylist()  # type: ignore[no-any-return]
    return to_numpy(column_type, words, interner).tolist()  # type: ignore[no-any-return]


def value_of_word(column_type: Type, word: int, texts: Texts) -> Any:
    """Return the value of one word as Arrow's `as_py` does."""
    if column_type.nullable and word == NULL:
        return None
    if column_type.name == "int64":
        return word
    if column_type.interned and not column_type.wide:
        text = texts.text(word)
        return text if column_type.name == "bytes" else decoded(text)
    return values_of(column_type, np.array([word]), texts)[0]


def float_values(words: np.ndarray) -> np.ndarray:
    """Return the float64[n] values of a float column's words."""
    bits: np.ndarray = words ^ (words >> 63 & np.int64(WORD_MAX))
    return bits.view(np.float64)


def unsigned_values(column_type: Type, words: np.ndarray) -> np.ndarray:
    """Return the uint64[n] values of the words of a uint64 column, none of which is null."""
    values: np.ndarray = ((words - 1 if column_type.nullable else words) ^ WORD_MIN).view(np.uint64)
    return values


def to_numpy(column_type: Type, words: np.ndarray, interner: Interner) -> np.ndarray:
    """Convert a column to a numpy array: of the native dtype where one exists, of objects for
    decimals and texts.

    Nulls become NaN, NaT or None; int64, uint64 and bool with nulls become a masked array.
    """
    name = column_type.name
    if column_type.nullable and (null := words == NULL).any():
        return _nulls_as_numpy(column_type, words, null, interner)
    if name == "int64":
        return words
    if name == "float64":
        return float_values(words)
    if name == "bool":
        return words.astype(bool)
    if name == "uint64":
        return unsigned_values(column_type, words)
    if column_type.kind.numpy:
        return words.view(column_type.kind.numpy)
    return np.asarray(decode(column_type, words, interner).to_numpy(zero_copy_only=False))


def _nulls_as_numpy(
    column_type: Type, words: np.ndarray, null: np.ndarray, interner: Interner
) -> np.ndarray:
    if column_type.name in ("int64", "uint64", "bool"):
        masked: np.ndarray = np.ma.masked_array(
            to_numpy(column_type, np.where(null, 0, words), interner), null
        )
        return masked
    there = to_numpy(column_type, words[~null], interner)
    missing = {"f": np.nan, "M": np.datetime64("NaT"), "m": np.timedelta64("NaT")}.get(
        there.dtype.kind
    )
    values = np.full(len(words), missing, there.dtype)
    values[~null] = there
    return values
