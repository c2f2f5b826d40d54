"""Columns of answers by their types of Arrow, and the values of a prepared statement's parameters."""

import io
import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from mysql_mimic.charset import CharacterSet
from mysql_mimic.errors import ErrorCode, MysqlError
from mysql_mimic.results import NullBitmap, ResultColumn
from mysql_mimic.types import ColumnType, read_str_len

from ..postgres.values import JSON, as_text, oid_of

T = ColumnType
TYPES: tuple[tuple[Callable[[pa.DataType], bool], ColumnType], ...] = (
    (pa.types.is_boolean, T.TINY), (pa.types.is_uint64, T.NEWDECIMAL), (pa.types.is_integer, T.LONGLONG),
    (pa.types.is_float32, T.FLOAT), (pa.types.is_floating, T.DOUBLE), (pa.types.is_decimal, T.NEWDECIMAL),
    (pa.types.is_timestamp, T.DATETIME), (pa.types.is_date, T.DATE), (pa.types.is_time, T.TIME),
    (pa.types.is_binary, T.BLOB), (pa.types.is_large_binary, T.BLOB),
)  # fmt: skip


def columns_of(schema: pa.Schema, letters: CharacterSet) -> list[ResultColumn]:
    """Return the columns of an answer, with texts in the letters that a client takes."""
    return [ResultColumn(field.name, *_type_of(field.type, letters)) for field in schema]


def _type_of(type_: pa.DataType, letters: CharacterSet) -> tuple[ColumnType, CharacterSet]:
    if oid_of(type_) == JSON:
        return T.JSON, letters
    wire_type = next((kind for is_one, kind in TYPES if is_one(type_)), T.VAR_STRING)
    return wire_type, CharacterSet.binary if wire_type == T.BLOB else letters


def shown(value: Any) -> Any:
    """Return a value of an answer as `mysql_mimic` writes it."""
    match value:
        case datetime():
            return value.replace(tzinfo=None)
        case time():
            return timedelta(0, value.hour * 3600 + value.minute * 60 + value.second, value.microsecond)  # fmt: skip
        case Decimal():
            return f"{value:f}"
        case list() | dict() | tuple():
            return as_text(value, JSON)
    return value


NUMBERS = {
    T.TINY: "b", T.BOOL: "b", T.SHORT: "h", T.YEAR: "h", T.LONG: "i", T.INT24: "i", T.LONGLONG: "q",
    T.FLOAT: "f", T.DOUBLE: "d",
}  # fmt: skip
MOMENTS = (T.DATE, T.DATETIME, T.TIMESTAMP)
Types = Sequence[tuple[ColumnType, bool]]


def parameters(
    reader: io.BytesIO, count: int, known: Types, long: dict[int, bytearray], named: bool
) -> tuple[Types, list[Any]]:
    """Return the types of parameters and their values.

    `known` are the types of the last run, which a client need not say again; `long` has what was
    sent ahead in parts, and `named` says that names follow the types.  Raises MysqlError.
    """
    try:
        nulls = NullBitmap.from_buffer(reader, count)
        if reader.read(1) == b"\1":
            known = [_type(reader, named) for _ in range(count)]
        return known, [
            None if nulls.is_flipped(n)
            else _of_bytes(bytes(long[n]), known[n][0]) if n in long
            else _value(reader, *known[n])
            for n in range(count)
        ]  # fmt: skip
    except (struct.error, ValueError, IndexError, TypeError, ArithmeticError):
        raise MysqlError("the parameters are not read", ErrorCode.MALFORMED_PACKET) from None


def _type(reader: io.BytesIO, named: bool) -> tuple[ColumnType, bool]:
    kind, flags = reader.read(2)
    if named:
        read_str_len(reader)
    return ColumnType(kind), flags >= 0x80


def _value(reader: io.BytesIO, kind: ColumnType, unsigned: bool) -> Any:
    if kind in NUMBERS:
        code = NUMBERS[kind]
        code = code.upper() if unsigned and code not in "fd" else code
        (data,) = struct.unpack(f"<{code}", reader.read(struct.calcsize(code)))
        return data
    if kind == T.NULL:
        return None
    if kind in MOMENTS or kind == T.TIME:
        data = reader.read(reader.read(1)[0])
        return _time(data) if kind == T.TIME else _moment(data, kind)
    return _of_bytes(read_str_len(reader), kind)


def _of_bytes(data: bytes, kind: ColumnType) -> Any:
    return Decimal(data.decode()) if kind in (T.DECIMAL, T.NEWDECIMAL) else data


def of_type(value: Any, type_: str) -> Any:
    """Return a parameter where SQL's type is wanted: what comes as bytes is mostly a text.

    Raises MysqlError.
    """
    if not isinstance(value, bytes) or type_ == "BLOB":
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise MysqlError("a text is not in UTF-8", ErrorCode.MALFORMED_PACKET) from None


def _moment(data: bytes, kind: ColumnType) -> date:
    year, *rest = struct.unpack("<HBBBBBI", data.ljust(11, b"\0"))
    return date(year, *rest[:2]) if kind == T.DATE else datetime(year, *rest)


def _time(data: bytes) -> time:
    negative, days, *rest = struct.unpack("<BIBBBI", data.ljust(12, b"\0"))
    if negative or days:
        raise ValueError(data)
    return time(*rest)
