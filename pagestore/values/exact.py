"""Convert values from outside to an Arrow array of a column's type: exactly, or refused with the
row and a remedy.

    7, 3.5           into decimal(9,2)     7.00, 3.50
    0.1              into decimal(9,2)     refused: the float 0.1 is not a decimal; Decimal('0.1') is one
    7.0              into int64            7
    True, "7"        into int64            refused: neither is a number
    2020-01-31 00:00 into date             2020-01-31

docs/in-and-out.md has the whole table. Arrow and numpy arrays are converted here as a whole; lists
of Python values one by one where Arrow would misread some of them (objects.py).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np

from pagestore.runtime.lazy import pyarrow as pa
from pagestore.values.misfit import SHOWN, Misfit, misfit_of
from pagestore.values.objects import Objects, from_objects, in_whole_microseconds
from pagestore.values.types import MOMENTS, Type, array_of, kind_of, remedy_for

BYTES_MAX = (1 << 31) - 1  # of an Arrow array of texts that is not of a large type
_REFUSALS: tuple[type[Exception], ...] = (
    ValueError, TypeError, LookupError, NotImplementedError, OverflowError,
)  # fmt: skip
_UNITS = {(unit, 1) for unit in ("s", "ms", "us", "ns")}  # numpy's time units that Arrow has, too
Words = np.ndarray


def exact(type_: Type, values: Any) -> tuple[pa.Array, np.ndarray | None]:
    """Return the non-null values as an Arrow array of the type, and which rows have one, bool[n];
    None for all.

    Values are an Arrow or a numpy array, a column of a frame, or a list. Texts may be of a large
    type. Raises Misfit.
    """
    array = _array(type_, values)
    if not array.null_count:
        return _converted(type_, array), None
    there = flags_of(array.is_valid())
    try:
        return _converted(type_, array.drop_null()), there
    except Misfit as misfit:
        raise misfit.among(there) from None


def numbers_of(array: pa.Array | pa.ChunkedArray, dtype: Any, each: int = 1) -> np.ndarray:
    """Return the numbers of an Arrow array without nulls from its buffer, `each` of them per value.

    Arrow's to_numpy would import pandas."""
    if not len(array):
        return np.zeros(0, dtype)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(0, dtype)
    size = np.dtype(dtype).itemsize  # the buffer may end within an element
    return np.frombuffer(buffer, dtype, each * len(array), size * each * array.offset)


def flags_of(array: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Return the flags of an Arrow array without nulls, bool[n]; as `numbers_of`."""
    return numbers_of(array.cast(pa.uint8()), np.bool_)


# --- any values as an Arrow array ---------------------------------------------------------------


def _array(type_: Type, values: Any) -> pa.Array:
    if isinstance(values, np.ndarray):
        return _of_numpy(type_, values)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return _of_arrow(type_, values)
    if isinstance(values, list | tuple | Objects):
        return from_objects(type_, values)
    if any(hasattr(values, name) for name in ("__arrow_c_array__", "__arrow_c_stream__")):
        return _of_arrow(type_, pa.chunked_array(values))
    if hasattr(values, "__array__"):  # a column or an index of pandas
        return _of_series(type_, values)
    return from_objects(type_, list(values))


def _of_arrow(type_: Type, array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a validated Arrow array in one chunk and without a dictionary."""
    if not _may_become(type_, array.type):
        raise _no_source(type_, array.type)
    damage = damage_of(array)
    if damage:
        raise damage
    if pa.types.is_dictionary(array.type):
        array = _taken_out(array)  # first: Arrow cannot combine zero chunks of dictionaries
    packed = _packed(array.type) and array.nbytes <= BYTES_MAX
    if type_.name in ("string", "bytes") and not packed:  # Arrow cannot filter views
        array = array.cast(pa.large_string() if type_.name == "string" else pa.large_binary())
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _taken_out(values: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Decode a dictionary-encoded array; Arrow by itself decodes no dictionary of views."""
    kind = values.type.value_type
    views = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    if kind in views:
        values = values.cast(pa.dictionary(values.type.index_type, views[kind]))
    return values.cast(values.type.value_type)


def _of_series(type_: Type, values: Any) -> pa.Array:
    """Convert a pandas column, where NaN is a null."""
    if str(values.dtype) == "object":
        return from_objects(type_, Objects(values.tolist()))
    try:
        return _of_arrow(type_, pa.array(values, from_pandas=True))
    except _REFUSALS as error:
        raise Misfit(
            None, f"{values.dtype} values for a column of type {type_}: {error}; cast them first"
        ) from None


def _of_numpy(type_: Type, values: np.ndarray) -> pa.Array:
    if values.ndim != 1:
        raise Misfit(
            None, f"an array of {values.ndim} dimensions is not a column; give arrays of one"
        )
    if values.dtype.kind == "O":
        return from_objects(type_, values.tolist())
    if values.dtype.kind in "Mm" and np.datetime_data(values.dtype) not in _UNITS:
        values = in_whole_microseconds(values)
    if not values.dtype.isnative:  # Arrow has only the native byte order
        values = values.astype(values.dtype.newbyteorder("="))
    try:
        array = pa.array(values, from_pandas=False)
    except _REFUSALS as error:
        row = _first_failing(len(values), lambda a, b: pa.array(values[a:b], from_pandas=False))
        if row is None:
            raise Misfit(
                None,
                f"{values.dtype} values for a column of type {type_}: {error}; cast them first",
            ) from None
        raise Misfit(row, f"{values[row]!r} is not a valid {type_}: {error}") from None
    if not _may_become(type_, array.type):
        raise _no_source(type_, array.type)
    return array


def _no_source(type_: Type, have: pa.DataType) -> Misfit:
    remedy = remedy_for(have)
    if type_.zone and kind_of(have) in MOMENTS:
        remedy = "they have no zone; give them the one that they are in, as pyarrow.compute.assume_timezone does"
    return Misfit(None, f"{have} values for a column of type {type_}; {remedy}")


def damage_of(array: pa.Array | pa.ChunkedArray) -> Misfit | None:
    """Return what is wrong with an Arrow array from outside: a text that is not UTF-8, or offsets
    outside its data.

    O(bytes), a tenth of a second for 10,000,000 short texts. Must be the first access to the array.
    """
    first = 0
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else (array,):
        try:
            chunk.validate(full=True)
            if chunk.type in (pa.string_view(), pa.binary_view()) and chunk.null_count:
                _without_nulls(chunk).validate(full=True)  # Arrow also follows the views of nulls
        except pa.ArrowException as error:
            damage = _damage(chunk, error)
            return damage if damage.row is None else damage.at(first + damage.row)
        first += len(chunk)
    return None


def _without_nulls(views: pa.Array) -> pa.Array:
    """Return an array of views with its nulls unmasked."""
    _, *buffers = views.buffers()
    return pa.Array.from_buffers(
        pa.binary_view(), len(views), [None, *buffers], offset=views.offset
    )


def _damage(array: pa.Array, error: Exception) -> Misfit:
    damaged = f"the Arrow data are damaged ({error}); write them anew"
    if pa.types.is_dictionary(array.type):
        inner = damage_of(array.dictionary)
        if inner is None or inner.row is None or damage_of(array.indices):
            return Misfit(None, damaged)
        uses = np.flatnonzero(
            array.indices.fill_null(-1).to_numpy(zero_copy_only=False) == inner.row
        )
        return Misfit(int(uses[0]) if len(uses) else None, inner.said)
    if pa.types.is_nested(array.type):  # its errors do not say to which row they belong
        return Misfit(None, damaged)
    row = _first_failing(len(array), lambda a, b: array.slice(a, b - a).validate(full=True))
    if row is None or kind_of(array.type) != "text":
        return Misfit(row, damaged)
    raw = {pa.string_view(): pa.binary_view(), pa.large_string(): pa.large_binary()}.get(
        array.type, pa.binary()
    )
    text = array.slice(row, 1).view(raw)
    if damage_of(text):
        return Misfit(row, damaged)
    remedy = "write the text as UTF-8, or give it to a column of bytes, as bytes"
    return Misfit(row, f"{text[0].as_py()[:SHOWN]!r} is not UTF-8; {remedy}")


def _first_failing(n: int, attempt: Callable[[int, int], Any]) -> int | None:
    """Return the first of n rows for which attempt(a, b) fails; None if none does. O(n)."""
    start, end = 0, n
    while end - start > 1:
        middle = (start + end) // 2
        if _fails(attempt, start, middle):
            end = middle
        else:
            start = middle
    return start if start < n and _fails(attempt, start, end) else None


def _fails(attempt: Callable[[int, int], Any], start: int, end: int) -> bool:
    try:
        attempt(start, end)
    except _REFUSALS:
        return True
    return False


# --- which types convert to which ---------------------------------------------------------------


def _may_become(type_: Type, have: pa.DataType) -> bool:
    """Return whether values of an Arrow type can be of a type; both have a zone, or neither has."""
    kind = kind_of(have)
    return kind == "null" or (kind in type_.kind.takes and (kind == "zoned") == bool(type_.zone))


def _converted(type_: Type, array: pa.Array) -> pa.Array:
    """Convert an Arrow array without nulls to the type. Raises Misfit."""
    target = type_.arrow
    if array.type == target and type_.name != "decimal":
        return array
    kind = kind_of(array.type)
    if kind == "null":
        return pa.array([], target)
    if kind == "decimal" and array.type.bit_width < 128:  # Arrow has fewer casts for these
        array = array.cast(pa.decimal128(array.type.precision, array.type.scale))
    special = _SPECIAL.get((kind, type_.kind.value))
    if type_.wide and special:
        return _converted(type_, from_objects(type_, array.to_pylist()))
    if special:
        words, good = special(type_, array)
        if not good.all():
            raise _misfit(type_, array, int(np.argmin(good)))
        return array_of(type_, words)
    if type_.name in ("string", "bytes"):
        return array
    try:
        return _cast(array, target)
    except _REFUSALS as error:
        row = _first_failing(len(array), lambda a, b: _cast(array.slice(a, b - a), target))
        if row is None:
            raise Misfit(
                None, f"{array.type} values for a column of type {type_}: {error}"
            ) from None
        raise _misfit(type_, array, row) from None


def _packed(kind: pa.DataType) -> bool:
    """Return whether an Arrow array of texts has offsets and one buffer of bytes."""
    of = pa.types
    return bool(
        of.is_string(kind)
        or of.is_binary(kind)
        or of.is_large_string(kind)
        or of.is_large_binary(kind)
    )


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    values = array.cast(target)
    if pa.types.is_decimal(target) and len(values):
        values.validate(full=True)  # a cast does not check the number of digits
    return values


def _misfit(type_: Type, array: pa.Array, row: int) -> Misfit:
    cell = array.slice(row, 1)
    if pa.types.is_duration(cell.type):
        return misfit_of(type_, row, None, f"{cell.cast(pa.int64())[0]} {cell.type.unit}")
    if pa.types.is_temporal(cell.type):  # nanoseconds have no Python value without pandas
        kind = pa.timestamp(cell.type.unit) if pa.types.is_timestamp(cell.type) else cell.type
        return misfit_of(type_, row, None, str(cell.cast(kind).cast(pa.string())[0]))
    return misfit_of(type_, row, cell[0].as_py())


# --- conversions that Arrow lacks, or does with rounding ----------------------------------------
# Each returns words int64[n], and which of them are exact, bool[n].


def _float_to_whole(type_: Type, array: pa.Array) -> tuple[Words, Words]:
    values = _floats(array)
    low, high = (0.0, 2.0**64) if type_.name == "uint64" else (-(2.0**63), 2.0**63)
    good = (values >= low) & (values < high) & (values == np.floor(values))
    numbers = np.where(good, values, 0.0)
    return (
        numbers.astype(np.uint64).view(np.int64)
        if type_.name == "uint64"
        else numbers.astype(np.int64)
    ), good


def _whole_to_float(_: Type, array: pa.Array) -> tuple[Words, Words]:
    values = numbers_of(array, array.type.to_pandas_dtype())
    floats = values.astype(np.float64)
    most = 2.0**64 if values.dtype.kind == "u" else 2.0**63
    back = np.where(floats < most, floats, 0.0).astype(
        np.uint64 if values.dtype.kind == "u" else np.int64
    )
    return floats.view(np.int64), (floats < most) & (back == values)


def _whole_to_decimal(type_: Type, array: pa.Array) -> tuple[Words, Words]:
    values = numbers_of(array, array.type.to_pandas_dtype())
    most = 10 ** (type_.precision - type_.scale) - 1
    good = values <= most if values.dtype.kind == "u" else (values <= most) & (values >= -most)
    return np.where(good, values, 0).astype(np.int64) * 10**type_.scale, good


def _float_to_decimal(type_: Type, array: pa.Array) -> tuple[Words, Words]:
    """Convert floats: m / 2**k has at most s decimals just if it is a whole number times 2**-s."""
    values = _floats(array)
    good = np.abs(values) < 10.0 ** (type_.precision - type_.scale)
    halves = np.ldexp(np.where(good, values, 0.0), type_.scale)
    good &= halves == np.floor(halves)
    return np.where(good, halves, 0.0).astype(np.int64) * 5**type_.scale, good


def _decimal_to_float(_: Type, array: pa.Array) -> tuple[Words, Words]:
    """Convert one by one, since Arrow rounds, and few decimals in practice are exact floats."""
    values = array.to_pylist()
    floats = [float(value) for value in values]
    good = [number == value for number, value in zip(floats, values, strict=True)]
    return np.array(floats, np.float64).view(np.int64), np.array(good, bool)


def _to_date(_: Type, array: pa.Array) -> tuple[Words, Words]:
    """Convert moments and date64, which is in milliseconds."""
    units = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
    words = numbers_of(array, np.int64)
    days, rest = np.divmod(words, 24 * 60 * 60 * units[getattr(array.type, "unit", "ms")])
    good = (rest == 0) & (np.abs(days) < 2**31)
    return np.where(good, days, 0), good


def _floats(array: pa.Array) -> np.ndarray:
    return numbers_of(array, array.type.to_pandas_dtype()).astype(np.float64)


def _float_to_float(_: Type, array: pa.Array) -> tuple[Words, Words]:
    return _floats(array).view(np.int64), np.ones(len(array), bool)


_SPECIAL: dict[tuple[str | None, type], Callable[[Type, pa.Array], tuple[Words, Words]]] = {
    ("float", int): _float_to_whole,
    ("float", float): _float_to_float, ("number", float): _whole_to_float,
    ("number", Decimal): _whole_to_decimal, ("float", Decimal): _float_to_decimal,
    ("decimal", float): _decimal_to_float, **{(kind, date): _to_date for kind in MOMENTS},
}  # fmt: skip
