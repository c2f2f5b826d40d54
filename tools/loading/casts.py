"""Arrow types as a relation holds them, and casts that say which rows do not fit."""

import re
from datetime import timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pagestore.errors import SchemaError
from pagestore.values.codec import bounds_of, numbers_of
from pagestore.values.types import type_of_arrow

from .problems import Problems

FOUND_MAX = 1000  # values of a batch that are looked for one by one; beyond that all that is left is counted as bad
LENGTH = re.compile(r"(?:(-?\d{1,9}) days?,? ?)?(?:([-+]?)(\d{1,9}):(\d\d):(\d\d(?:\.\d{1,6})?))")
REFUSALS = pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError


def held_as(kind: pa.DataType, utc: bool = False) -> pa.DataType | None:
    """The Arrow type of the column that holds values of a type; None where no column does.

    With `utc`, timestamps with a time zone are held in UTC without it.

    >>> held_as(pa.int8()), held_as(pa.decimal128(38, 2))
    (DataType(int64), None)
    """
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_timestamp(kind) and kind.tz is not None and utc:
        kind = pa.timestamp("us")
    if pa.types.is_fixed_size_binary(kind):
        kind = pa.binary()
    try:
        held: pa.DataType = type_of_arrow("", kind).arrow
        return held
    except SchemaError:
        return None


def remedy_for(name: str, kind: pa.DataType) -> str:
    """What to do with a column `name` of a type that no column of a relation has."""
    if pa.types.is_timestamp(kind):
        return "take it in UTC, without the zone, with --utc"
    if pa.types.is_decimal(kind):
        return (
            f"a decimal has at most 18 digits; give --cast {name}='decimal(18,{max(0, kind.scale)})', or leave it out"
        )
    if pa.types.is_null(kind):
        return f"all its values are null; leave it out with --columns, or give --cast {name}=TYPE"
    return "leave it out with --columns, or write it as another type"


def said(kind: pa.DataType) -> str:
    """The type of a relation's column that has an Arrow type, as --cast takes it."""
    return str(type_of_arrow("", kind))


def fits(have: pa.DataType, want: pa.DataType) -> bool:
    """Whether every value of one type that a relation holds is a value of another one, as 1 is a float."""
    kind = pa.types
    return bool(
        have == want
        or kind.is_null(have)
        or (kind.is_integer(have) and (kind.is_floating(want) or kind.is_decimal(want)))
        or (kind.is_date(have) and kind.is_timestamp(want))
        or (kind.is_decimal(have) and kind.is_decimal(want))
    )


def cast_or_report(
    array: pa.Array, kind: pa.DataType, where: str, first_row: int, problems: Problems, fact: str = "",
    remedy: str = "mend the source, or give --cast with another type",
) -> pa.Array | None:  # fmt: skip
    """The array as another type; None where some values do not fit, which go into the problems.

    `where` names the file and the column, `first_row` is the row of the first value in the file.
    """
    if array.type == kind:
        return array
    try:
        return cast_to(array, kind)
    except REFUSALS:
        bad = bad_rows(array, kind)
        shown = _shown(array.slice(bad[0], 1))
        problems.add_rows(
            f"{where} {fact or f'does not fit {said(kind)}'}", remedy, len(bad), first_row + bad[0], shown[:60]
        )
        return None


def _shown(one: pa.Array) -> str:
    """A single value for people. Without pandas, nanoseconds have no Python value.

    >>> _shown(pa.array([1], pa.timestamp("ns", "UTC"))), _shown(pa.array([1], pa.duration("ns")))
    ('1970-01-01 00:00:00.000000001', '1 ns')
    """
    if pa.types.is_duration(one.type):
        return f"{one.cast(pa.int64())[0]} {one.type.unit}"
    if pa.types.is_timestamp(one.type):
        one = one.cast(pa.timestamp(one.type.unit))  # without its zone
    if pa.types.is_temporal(one.type):
        return str(one.cast(pa.string())[0])
    return repr(one[0].as_py())


def bad_rows(array: pa.Array, kind: pa.DataType) -> list[int]:
    """The rows whose values do not fit a type, found by halving. O(bad * log rows) casts."""
    bad: list[int] = []
    waiting = [(0, len(array))]
    while waiting:
        start, end = waiting.pop()
        try:
            cast_to(array.slice(start, end - start), kind)
        except REFUSALS:
            if end - start == 1 or len(bad) >= FOUND_MAX:
                bad += range(start, end)
            else:
                middle = (start + end) // 2
                waiting += [(middle, end), (start, middle)]
    return bad


def rows_beyond(array: pa.Array) -> np.ndarray:
    """The rows of dates, times and moments that have no value in Python, int64[n]."""
    kind = array.type
    if not (pa.types.is_date32(kind) or pa.types.is_time64(kind) or pa.types.is_timestamp(kind)):
        return np.zeros(0, np.int64)
    least, most = bounds_of(type_of_arrow("", kind))
    words = numbers_of(array, np.int32 if pa.types.is_date32(kind) else np.int64)
    beyond = (words < least) | (words > most)
    if array.null_count and beyond.any():  # what stands in the place of a null means nothing
        beyond &= array.is_valid().to_numpy(zero_copy_only=False)
    return np.flatnonzero(beyond)


def cast_to(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The array as another type. Raises one of REFUSALS."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_string(array.type) and not pa.types.is_string(kind):
        array = pc.utf8_trim_whitespace(array)
        if pa.types.is_time(kind):  # Arrow casts texts to moments only
            array = pc.binary_join_element_wise("1970-01-01", array, " ").cast(pa.timestamp("us"))
        if pa.types.is_duration(kind):
            array = _durations(array)
    found = array.cast(kind)
    if pa.types.is_decimal(kind):
        found.validate(full=True)
    return found


def _durations(texts: pa.Array) -> pa.Array:
    """Texts as durations, written as Python, pandas and DuckDB do. Raises pa.ArrowInvalid.

    >>> _durations(pa.array(["1:02:03.5", "-1 day, 23:59:59", None])).cast(pa.int64()).to_pylist()
    [3723500000, -1000000, None]
    """
    found = [None if text is None else LENGTH.fullmatch(text) for text in texts.to_pylist()]
    wrong = [text for text, match in zip(texts, found, strict=True) if text.is_valid and match is None]
    if wrong:
        raise pa.ArrowInvalid(f"{wrong[0]} is no duration")
    return pa.array([None if match is None else _length(*match.groups("")) for match in found], pa.duration("us"))


def _length(days: str, minus: str, hours: str, minutes: str, seconds: str) -> timedelta:
    within = timedelta(hours=int(hours), minutes=int(minutes), microseconds=int(Decimal(seconds) * 1_000_000))
    return timedelta(int(days or 0)) + (-within if minus == "-" else within)
