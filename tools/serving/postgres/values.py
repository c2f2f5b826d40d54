"""Values on the wire, as text and in binary, by the oid of their type."""

import json
import re
import struct
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ivm import IvmError
from ivm.sql import postgres_types as known

from .messages import Fields, ProtocolError, row

BOOL, BYTEA, INT8, INT2, INT4, TEXT, OID, JSON, FLOAT4, FLOAT8 = (
    known.BOOL.oid, known.BYTEA.oid, known.INT8.oid, known.INT2.oid, known.INT4.oid, known.TEXT.oid,
    known.OID.oid, known.OF_JSON.oid, known.FLOAT4.oid, known.FLOAT8.oid,
)  # fmt: skip
DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, NUMERIC, UUID = (
    known.DATE.oid, known.TIME.oid, known.TIMESTAMP.oid, known.TIMESTAMPTZ.oid, known.INTERVAL.oid,
    known.NUMERIC.oid, known.UUID.oid,
)  # fmt: skip
LISTED = (  # types of columns and of items of lists that answers have
    known.BOOL, known.BYTEA, known.INT2, known.INT4, known.TEXT, known.INT8, known.FLOAT4,
    known.FLOAT8, known.TIMESTAMP, known.DATE, known.TIME, known.TIMESTAMPTZ, known.NUMERIC,
)  # fmt: skip
LISTS = {kind.oid: kind.array for kind in LISTED}
ITEMS = {oid: item for item, oid in LISTS.items()}
SIZES = {kind.oid: kind.size for kind in LISTED if kind.size > 0}
BY_NAME = {
    name: kind.postgres.oid
    for name, kind in known.KINDS.items()
    if kind.postgres in (*LISTED, known.OF_JSON)
}
NUMBERS = {BOOL: "?", INT2: "h", INT4: "i", INT8: "q", FLOAT4: "f", FLOAT8: "d"}
EPOCH = datetime(2000, 1, 1)
MICROSECOND = timedelta(microseconds=1)


class ValueOfClientError(IvmError, ValueError):
    """A client gives a parameter what its type does not have."""


class Column(NamedTuple):
    """A column of an answer: its name and the oid of its type."""

    name: str
    oid: int


def columns_of(schema: pa.Schema) -> list[Column]:
    """Return the columns of an answer."""
    return [Column(field.name, oid_of(field.type)) for field in schema]


@cache
def oid_of(type_: pa.DataType) -> int:
    """Return the type of a column of Arrow; TEXT for one that has no other."""
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return LISTS.get(oid_of(type_.value_type), JSON)
    if pa.types.is_decimal(type_):
        return NUMERIC
    if pa.types.is_timestamp(type_):
        return TIMESTAMPTZ if type_.tz else TIMESTAMP
    if pa.types.is_struct(type_) or pa.types.is_map(type_):
        return JSON
    for oid, kinds in {
        BOOL: ("bool",), INT2: ("int8", "uint8", "int16"), INT4: ("uint16", "int32"),
        INT8: ("uint32", "int64"), NUMERIC: ("uint64",), FLOAT4: ("float",), FLOAT8: ("double",),
        DATE: ("date32[day]",), TIME: ("time64[us]",), BYTEA: ("binary", "large_binary"),
        INTERVAL: ("duration[us]", "month_day_nano_interval"),
    }.items():  # fmt: skip
        if str(type_) in kinds:
            return oid
    return TEXT


def named(type_: str) -> int:
    """Return the type of a column that SQL names, as DESCRIBE does."""
    if type_.endswith("[]"):
        return LISTS.get(named(type_[:-2]), JSON)
    if type_.startswith(("STRUCT", "MAP")):
        return JSON
    return NUMERIC if type_.startswith("DECIMAL") else BY_NAME.get(type_, TEXT)


def written(value: Any, oid: int, binary: bool) -> bytes | None:
    """Return a value of an answer."""
    if value is None:
        return None
    if not binary:
        return as_text(value, oid).encode()
    if oid in ITEMS:
        return _binary_list(value, ITEMS[oid])
    if oid == JSON:
        return as_text(value, oid).encode()
    return _BINARY.get(oid, lambda given: as_text(given, oid).encode())(value)


def writer(columns: list[Column], binary: list[bool]) -> Callable[[tuple[Any, ...]], bytes]:
    """Return what writes a row as a message."""
    ways = [_way(column.oid, as_it_is) for column, as_it_is in zip(columns, binary, strict=True)]
    return lambda values: row(
        [None if v is None else way(v) for way, v in zip(ways, values, strict=True)]
    )


def packed(columns: list[Column], rows: pa.Table) -> bytes | None:
    """Return the messages of rows of numbers in binary; None if there is anything else in them."""
    codes = [NUMBERS.get(column.oid) for column in columns]
    if [oid_of(field.type) for field in rows.schema] != [c.oid for c in columns] or not all(codes):
        return None
    parts = [("letter", "S1"), ("length", ">i4"), ("columns", ">i2")]
    for n, code in enumerate(codes):
        parts += [(f"size {n}", ">i4"), (f"value {n}", f">{code}")]
    made = np.empty(len(rows), parts)
    made["letter"], made["length"], made["columns"] = b"D", made.itemsize - 1, len(codes)
    sent = np.ones(len(rows), [(name, bool, made[name].itemsize) for name, _ in parts])
    for n, column in enumerate(rows.columns):
        size, null = made[f"value {n}"].itemsize, column.is_null().to_numpy()
        made[f"value {n}"] = column.fill_null(pa.scalar(0).cast(column.type)).to_numpy()
        made[f"size {n}"] = np.where(null, -1, size)
        made["length"] -= np.where(null, size, 0)
        sent[f"value {n}"][null] = False  # a null is its size alone
    return bytes(made.view(np.uint8)[sent.view(bool)])


def _way(oid: int, binary: bool) -> Callable[[Any], bytes]:
    """Return what writes the values of a column."""
    if binary and oid in _BINARY:
        return _BINARY[oid]
    if oid in (INT2, INT4, INT8):
        return b"%d".__mod__
    return lambda value: written(value, oid, binary) or b""


def as_text(value: Any, oid: int) -> str:
    """Return a value as PostgreSQL shows it."""
    if oid == JSON:
        return value if isinstance(value, str) else json.dumps(value, default=str)
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    if isinstance(value, datetime):
        shown = value.isoformat(" ").removesuffix("+00:00")
        return f"{shown}+00" if value.tzinfo else shown
    if isinstance(value, list):
        return f"{{{','.join('NULL' if element is None else _item(element, oid) for element in value)}}}"
    if isinstance(value, timedelta):
        days, rest = value.days, timedelta(seconds=value.seconds, microseconds=value.microseconds)
        return f"{f'{days} days ' if days else ''}{rest}"
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _item(value: Any, oid: int) -> str:
    shown = as_text(value, ITEMS.get(oid, TEXT))
    if shown and shown.upper() != "NULL" and not set('{}",\\ ') & {*shown}:
        return shown
    escaped = shown.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _moment(value: datetime) -> bytes:
    plain = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return struct.pack(">q", (plain - EPOCH) // MICROSECOND)


def _interval(value: timedelta) -> bytes:
    rest = timedelta(seconds=value.seconds, microseconds=value.microseconds)
    return struct.pack(">qii", rest // MICROSECOND, value.days, 0)


def _numeric(value: Any) -> bytes:
    """Return digits to the base of 10,000, with how many are before the point."""
    sign, digits, exponent = Decimal(value).as_tuple()
    if not isinstance(exponent, int):
        return struct.pack(">hhHh", 0, 0, 0xC000, 0)  # not a number
    scale = max(-exponent, 0)
    whole = int("".join(map(str, digits)) or 0) * 10 ** max(exponent, 0)
    whole *= 10 ** (-scale % 4)  # so that the fraction has whole groups
    groups = list[int]()
    while whole:
        whole, group = divmod(whole, 10_000)
        groups.insert(0, group)
    weight = len(groups) - 1 - -(-scale // 4)
    while groups and not groups[-1]:
        groups.pop()
    head = struct.pack(">hhHh", len(groups), weight, 0x4000 if sign else 0, scale)
    return head + struct.pack(f">{len(groups)}h", *groups)


def _of_numeric(data: bytes) -> Decimal:
    count, weight, sign, scale = struct.unpack(">hhHh", data[:8])
    groups = struct.unpack(f">{count}h", data[8 : 8 + 2 * count])
    total = sum(Decimal(group).scaleb(4 * (weight - n)) for n, group in enumerate(groups))
    return Decimal(round(Decimal(-total if sign == 0x4000 else total), scale))


def _binary_list(value: list[Any], item: int) -> bytes:
    parts = [struct.pack(">iiIii", 1 if value else 0, None in value, item, len(value), 1)]
    if not value:
        return struct.pack(">iiI", 0, 0, item)
    for element in value:
        shown = written(element, item, True)
        parts.append(
            b"\xff\xff\xff\xff" if shown is None else struct.pack(">i", len(shown)) + shown
        )
    return b"".join(parts)


_BINARY: dict[int, Callable[[Any], bytes]] = {
    BOOL: lambda value: bytes([value]),
    BYTEA: bytes,
    INT2: lambda value: struct.pack(">h", value),
    INT4: lambda value: struct.pack(">i", value),
    INT8: lambda value: struct.pack(">q", value),
    FLOAT4: lambda value: struct.pack(">f", value),
    FLOAT8: lambda value: struct.pack(">d", value),
    DATE: lambda value: struct.pack(">i", (value - EPOCH.date()).days),
    TIME: lambda value: struct.pack(">q", (datetime.combine(EPOCH, value) - EPOCH) // MICROSECOND),
    TIMESTAMP: _moment,
    TIMESTAMPTZ: _moment,
    INTERVAL: _interval,
    NUMERIC: _numeric,
}


def _of_moment(data: bytes) -> datetime:
    return EPOCH + MICROSECOND * int.from_bytes(data, signed=True)


_FROM_BINARY: dict[int, Callable[[bytes], Any]] = {
    BOOL: lambda data: data != b"\0",
    BYTEA: bytes,
    **dict.fromkeys((INT2, INT4, INT8, OID), lambda data: int.from_bytes(data, signed=True)),
    FLOAT4: lambda data: struct.unpack(">f", data)[0],
    FLOAT8: lambda data: struct.unpack(">d", data)[0],
    DATE: lambda data: EPOCH.date() + timedelta(struct.unpack(">i", data)[0]),
    TIME: lambda data: _of_moment(data).time(),
    TIMESTAMP: _of_moment,
    TIMESTAMPTZ: lambda data: _of_moment(data).replace(tzinfo=UTC),
    NUMERIC: _of_numeric,
    UUID: lambda data: uuid.UUID(bytes=data),
}
_FROM_TEXT: dict[int, Callable[[str], Any]] = {
    BOOL: lambda data: data.lower() in ("t", "true", "1", "on", "yes"),
    BYTEA: lambda data: bytes.fromhex(data.removeprefix("\\x")),
    **dict.fromkeys((INT2, INT4, INT8, OID), int),
    FLOAT4: float,
    FLOAT8: float,
    NUMERIC: Decimal,
    DATE: date.fromisoformat,
    TIME: time.fromisoformat,
    TIMESTAMP: datetime.fromisoformat,
    TIMESTAMPTZ: datetime.fromisoformat,
}


PART = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([^",{}]*))\s*(,|$)', re.DOTALL)


def _list_of(given: bytes, item: int, binary: bool) -> list[Any]:
    """Return a list of one dimension.  Raises ValueError, struct.error."""
    if binary:
        dimensions, _, item = struct.unpack(">iiI", given[:12])
        if dimensions not in (0, 1):
            raise ValueError
        fields = Fields(given[20:])
        count = int.from_bytes(given[12:16]) if dimensions else 0
        sizes = (fields.int32() for _ in range(count))
        return [read(None if n < 0 else fields.take(n), item, True) for n in sizes]
    shown, at, parts = given.decode().strip(), 1, list[Any]()
    if not (shown.startswith("{") and shown.endswith("}")):
        raise ValueError
    while at < len(shown) - 1 and (part := PART.match(shown, at, len(shown) - 1)):
        quoted, plain, _ = part.groups()
        word = plain.rstrip() if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        is_null = quoted is None and word.upper() == "NULL"
        parts.append(None if is_null else read(word.encode(), item, False))
        at = part.end()
    if at < len(shown) - 1:
        raise ValueError
    return parts


def read(data: bytes | None, oid: int, binary: bool) -> Any:
    """Return the value of a parameter.  Raises ValueOfClientError."""
    if data is None:
        return None
    try:
        if oid in ITEMS:
            return _list_of(data, ITEMS[oid], binary)
        if binary and oid in _FROM_BINARY:
            return _FROM_BINARY[oid](data)
        shown = data.decode()
        return shown if binary else _FROM_TEXT.get(oid, str)(shown)
    except (ValueError, struct.error, ArithmeticError, OverflowError, ProtocolError):
        raise ValueOfClientError(f"{data[:40]!r} does not fit the type {oid}") from None
