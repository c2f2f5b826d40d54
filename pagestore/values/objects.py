"""Convert lists of Python values to Arrow arrays of a column's type; values that Arrow would
misread are refused.

Arrow by itself makes True a 1, a datetime its date, a text its bytes, and truncates the nanoseconds
of pandas and numpy times. Lists of only the column's own type go to Arrow as they are, others are
converted value by value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from numbers import Integral
from typing import Any

import numpy as np

from pagestore.pages.layout import WORD_MAX, WORD_MIN
from pagestore.runtime.lazy import pyarrow as pa
from pagestore.values.misfit import (
    FINER,
    WHOLE,
    Misfit,
    decimals_of,
    digits_before,
    is_finite,
    misfit_of,
)
from pagestore.values.types import KINDS, Type, of_numbers

_NONE = type(None)
# classes that Arrow converts exactly, if `_tame`; of all timedeltas it refuses the least
_PLAIN = {kind.value: {kind.value, _NONE} for kind in KINDS.values()}
_PLAIN |= {Decimal: {int, Decimal, _NONE}, timedelta: set()}
_KNOWN = {*_PLAIN, _NONE}  # no `plain` needed
_EPOCH, _MIDNIGHT = datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1)
FEW = 1 << 13  # values, of which Arrow's own way does not make up for importing pandas
MICROSECOND = timedelta(microseconds=1)
DAY = 24 * 60 * 60 * 10**6  # microseconds
_EXACT = Context(prec=1200)  # enough digits for any float
_REFUSALS: tuple[type[Exception], ...] = ValueError, TypeError, NotImplementedError, OverflowError


class Objects(list[Any]):
    """Values of a pandas column of objects, where NaN is a null."""


def from_objects(type_: Type, values: Any) -> pa.Array:
    """Convert values to an Arrow array of the type, with nulls. Raises Misfit."""
    lacking = isinstance(values, Objects)
    plain_ = set(map(type, values)) <= _PLAIN[type_.kind.value] and not (
        lacking and type_.name == "float64"
    )
    if not plain_ or not _tame(type_, values):
        values = [*_each(type_, values, lacking)]
    try:
        array = _arrow(type_, values)
        if type_.name == "decimal":
            array.validate(full=True)
        return array
    except _REFUSALS:
        raise _first_refused(type_, values) from None


def _arrow(type_: Type, values: list[Any]) -> pa.Array:
    """Convert values that the type holds, and nulls.

    Arrow's own way from lists imports pandas where it is installed, a quarter of a second. So numpy
    converts a few values, or Arrow from their letters.
    """
    if len(values) > FEW:
        return pa.array(values, type_.arrow, from_pandas=False)
    missing = np.fromiter((value is None for value in values), bool, len(values))
    there = [value for value in values if value is not None] if missing.any() else values
    if type_.name == "decimal":
        array = _text_array(pa.string(), [str(value) for value in there]).cast(type_.arrow)
    elif type_.kind.stored:
        array = of_numbers(type_.arrow, _numbers(type_, there))
    else:
        array = _text_array(type_.arrow, there).cast(type_.arrow)
    return with_nulls(array, ~missing) if missing.any() else array


def _numbers(type_: Type, values: list[Any]) -> np.ndarray:
    """Return the numbers by which Arrow stores values, none of them null."""
    if type_.zone:
        values = [(moment - _EPOCH) // MICROSECOND for moment in values]
    elif type_.name == "time":
        values = [(datetime.combine(_MIDNIGHT, at) - _MIDNIGHT) // MICROSECOND for at in values]
    numbers = np.array(values, np.int64 if type_.zone else type_.kind.numpy or np.int64)
    return numbers.astype(type_.kind.stored, copy=False)


def with_nulls(array: pa.Array, there: np.ndarray) -> pa.Array:
    """Return the values of an array in the rows that are there, bool[n], and null in others."""
    valid, places = np.packbits(there, bitorder="little"), np.cumsum(there) - 1
    buffers = [pa.py_buffer(valid), pa.py_buffer(places)]
    return array.take(pa.Array.from_buffers(pa.int64(), len(there), buffers))


def of_texts(texts: Sequence[str]) -> pa.Array:
    """Return texts, none of them null, as an Arrow array; as `of_numbers`."""
    return _text_array(pa.string(), texts)


def _text_array(kind: pa.DataType, texts: Sequence[str | bytes]) -> pa.Array:
    """Return texts as an Arrow array. Raises ValueError for half of a surrogate pair."""
    encoded = [text.encode() if isinstance(text, str) else text for text in texts]
    ends = np.cumsum([0, *map(len, encoded)])
    if ends[-1] > np.iinfo(np.int32).max:
        ends, kind = ends.astype(np.int64), getattr(pa, f"large_{kind}")()
    else:
        ends = ends.astype(np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(kind, len(encoded), buffers)


def _tame(type_: Type, values: Iterable[Any]) -> bool:
    """Return whether Arrow can convert the values: the zones are the type's, and the decimals
    have a size that it takes without harm.
    """
    if type_.name in ("time", "timestamp"):
        return all(
            value is None or (value.tzinfo is not None) == bool(type_.zone) for value in values
        )
    if type_.name == "decimal":
        return all(type(value) is not Decimal or -99 < value.adjusted() < 99 for value in values)
    return True


def _first_refused(type_: Type, values: Iterable[Any]) -> Misfit:
    """Return the misfit of the first value that Arrow cannot convert to the type."""
    for row, value in enumerate(values):
        try:
            pa.array([value], type_.arrow, from_pandas=False).validate(full=True)
        except _REFUSALS as error:
            if isinstance(value, str):  # half of a surrogate pair
                return Misfit(row, f"{value!r} has no UTF-8: {error}")
            if isinstance(value, timedelta | date):
                return Misfit(row, f"{value!r} does not fit {type_}; it is out of range")
            return misfit_of(type_, row, value)
    raise AssertionError("Arrow refuses a list and none of its values")


def _each(type_: Type, values: Iterable[Any], nan_is_null: bool) -> Iterator[Any]:
    convert = _CONVERT[type_.kind.value]
    for row, value in enumerate(values):
        try:
            value = value if type(value) in _KNOWN else plain(value)
            if value is None or (nan_is_null and isinstance(value, float) and value != value):
                yield None
            else:
                yield convert(type_, value)
        except Misfit as misfit:
            raise misfit.at(row) from None


def plain(value: Any) -> Any:
    """Convert a value of numpy, pandas or Arrow to Python's; return others as they are.

    Raises Misfit for nanoseconds.
    """
    if isinstance(value, pa.Scalar):
        value = _of_scalar(value)
    if isinstance(value, np.generic):
        value = _of_numpy_scalar(value)
    name = type(value).__name__
    if name in ("NaTType", "NAType"):
        return None
    if getattr(value, "nanosecond", 0) or (
        isinstance(value, timedelta) and getattr(value, "nanoseconds", 0)
    ):
        raise Misfit(0, f"{value!r} {FINER}")
    if hasattr(value, "to_pydatetime"):
        return value.to_pydatetime()
    return value.to_pytimedelta() if hasattr(value, "to_pytimedelta") else value


def _of_scalar(value: pa.Scalar) -> Any:
    """Convert as Arrow does, but refuse nanoseconds, which it cuts or returns as pandas objects."""
    of, kind = pa.types, value.type
    micro = (
        pa.time64("us") if of.is_time(kind) else pa.duration("us") if of.is_duration(kind) else None
    )
    micro = pa.timestamp("us", kind.tz) if of.is_timestamp(kind) else micro
    if of.is_date64(kind) and value.is_valid and value.value % (DAY // 1000):
        raise Misfit(0, f"{value.value} milliseconds since 1970 are not a date; cut them to days")
    try:
        whole = value if micro is None else value.cast(micro)
        if of.is_time(kind) and value.is_valid and not 0 <= whole.value < DAY:
            raise OverflowError
        return whole.as_py()
    except pa.ArrowInvalid:
        raise Misfit(0, f"the value {value.value} of {kind} {FINER}") from None
    except (OverflowError, ValueError):
        raise Misfit(0, f"the value {value.value} of {kind} is out of range") from None


def _of_numpy_scalar(value: np.generic) -> Any:
    if value.dtype.kind in "Mm":
        if np.isnat(value):
            return None
        moment = in_whole_microseconds(np.array([value]))[0].item()
        if isinstance(moment, int):
            raise Misfit(0, f"{value} is not in the years 1 to 9999")
        return moment
    if isinstance(value, np.longdouble) and value.dtype.itemsize > 8:
        return float(value) if float(value) == value else value
    return value if isinstance(value, str | bytes) else value.item()


def in_whole_microseconds(values: np.ndarray) -> np.ndarray:
    """Convert numpy datetimes or timedeltas to microseconds. Raises Misfit for those that do not
    convert exactly.
    """
    unit, _ = np.datetime_data(values.dtype)
    if unit in ("Y", "M", "generic"):
        raise Misfit(0, f"{values.dtype} values have no length in microseconds; take another unit")
    whole = values.astype(f"{values.dtype.kind}8[us]")
    bad = np.flatnonzero((whole.astype(values.dtype) != values) & ~np.isnat(values))
    if len(bad):
        finer = unit in ("ns", "ps", "fs", "as")
        raise Misfit(int(bad[0]), f"{values[bad[0]]} {FINER if finer else 'is out of range'}")
    return whole


# --- one value ----------------------------------------------------------------------------------


def _whole(type_: Type, value: Any) -> int:
    if isinstance(value, bool):
        raise misfit_of(type_, 0, value)
    if isinstance(value, Integral) or (
        is_finite(value) and -(2**64) < value < 2**64 and value == int(value)
    ):
        number = int(value)
    else:
        raise misfit_of(type_, 0, value)
    least, most = WHOLE[type_.name]
    if not least <= number <= most:
        raise misfit_of(type_, 0, value)
    return number


def _float(type_: Type, value: Any) -> float:
    if isinstance(value, float):
        return value
    if isinstance(value, bool) or not isinstance(value, Integral | Decimal):
        raise misfit_of(type_, 0, value)
    try:
        number = float(value)
    except (OverflowError, ValueError):
        raise misfit_of(type_, 0, value) from None
    if number != value:
        raise misfit_of(type_, 0, value)
    return number


def _decimal(type_: Type, value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, Integral | float | Decimal):
        raise misfit_of(type_, 0, value)
    if isinstance(value, Decimal):
        number = value
    else:
        number = Decimal(value if isinstance(value, float) else int(value))
    fits = number.is_finite() and digits_before(number) <= type_.precision - type_.scale
    if not fits or decimals_of(number) > type_.scale:
        raise misfit_of(type_, 0, value)
    return number.quantize(Decimal(1).scaleb(-type_.scale), context=_EXACT)


def _bool(type_: Type, value: Any) -> bool:
    if not isinstance(value, bool):
        raise misfit_of(type_, 0, value)
    return value


def _date(type_: Type, value: Any) -> date:
    if isinstance(value, datetime):
        if value.tzinfo:
            raise Misfit(
                0, f"{value!r} has a zone, and a date has none; take its .date() where it is"
            )
        if value.time() != time.min:
            raise Misfit(0, f"{value!r} is not a date; take its .date()")
        return value.date()
    if not isinstance(value, date):
        raise misfit_of(type_, 0, value)
    return value


def _time(type_: Type, value: Any) -> time:
    if not isinstance(value, time):
        raise misfit_of(type_, 0, value)
    if value.tzinfo:
        raise Misfit(0, f"{value!r} has a zone; take it without one")
    return value


def _timestamp(type_: Type, value: Any) -> datetime:
    if isinstance(value, date) and not isinstance(value, datetime):
        if type_.zone:
            raise Misfit(0, f"{value!r} has no zone; give the moment that is meant, with its zone")
        return datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        raise misfit_of(type_, 0, value)
    if (value.tzinfo is not None) != bool(type_.zone):
        if value.tzinfo:
            remedy = "has a zone; take it in UTC, without one"
        else:
            remedy = "has no zone; give it the one that it is in"
        raise Misfit(0, f"{value!r} {remedy}")
    return value


def _duration(type_: Type, value: Any) -> int:
    """Convert to microseconds, since Arrow takes all timedeltas but the least."""
    if not isinstance(value, timedelta):
        raise misfit_of(type_, 0, value)
    micros = value // MICROSECOND
    if not WORD_MIN <= micros <= WORD_MAX:
        raise Misfit(0, f"{value!r} does not fit {type_}; it is out of range")
    return micros


def _string(type_: Type, value: Any) -> str:
    if not isinstance(value, str):
        raise misfit_of(type_, 0, value)
    return value


def _bytes(type_: Type, value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise misfit_of(type_, 0, value)
    return bytes(value)


_CONVERT: dict[type, Callable[[Type, Any], Any]] = {
    int: _whole, float: _float, Decimal: _decimal, bool: _bool, date: _date, time: _time,
    datetime: _timestamp, timedelta: _duration, str: _string, bytes: _bytes,
}  # fmt: skip
