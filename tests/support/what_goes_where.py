"""What may go into which column: values of all types at their edges, and what has to become of
each, by its meaning.

A value means a number, a moment (of a clock without a zone), an instant, a time, a length, a text
or bytes, whatever type it comes as; a column takes it if it has a value of just that meaning.
docs/in-and-out.md has the table.
"""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from pagestore.values.types import Type

UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}  # in nanoseconds
DAY = 86_400 * 10**9
YEARS = (
    (date(1, 1, 1) - date(1970, 1, 1)).days * DAY,
    (date(9999, 12, 31) - date(1970, 1, 1)).days * DAY + DAY - 1,
)
Meaning = tuple[str, Any]

COLUMNS = [
    "int64", "uint64", "float64", "decimal(9,2)", "decimal(18,0)", "decimal(18,18)", "bool", "date",
    "time",
    "timestamp", "timestamp(Europe/Berlin)", "duration", "string", "bytes", "int64?", "uint64?",
    "duration?",
]  # fmt: skip
SHOWN = {  # the columns of the document, and those that are behind them
    "`int64`": ["int64", "int64?"],
    "`uint64`": ["uint64", "uint64?"],
    "`float64`": ["float64"],
    "`decimal`": ["decimal(9,2)", "decimal(18,0)", "decimal(18,18)"],
    "`bool`": ["bool"],
    "`date`": ["date"],
    "`time`": ["time"],
    "`timestamp`": ["timestamp"],
    "with a zone": ["timestamp(Europe/Berlin)"],
    "`duration`": ["duration", "duration?"],
    "`string`": ["string"],
    "`bytes`": ["bytes"],
}
SECONDS = [0, 1, -1, 1_580_428_800, 1_580_428_801, YEARS[0] // 10**9, YEARS[1] // 10**9 + 1]
DECIMALS = ["0", "7", "-7", "0.1", "3.5", "1.239", "9999999.99", "10000000", "0.5", "-2.25"]


def _whole(kind: pa.DataType) -> pa.Array:
    info = np.iinfo(kind.to_pandas_dtype())
    chosen = {0, 1, -1, 7, 100, 2**53, 2**53 + 1, 2**62, 10**7, 2**63, info.min, info.max}
    return pa.array(sorted(n for n in chosen if info.min <= n <= info.max), kind)


def _floats(kind: str) -> pa.Array:
    chosen = [
        0.0,
        -0.0,
        7.0,
        1.5,
        0.1,
        -2.5,
        3.25,
        1e300,
        2.0**53,
        2.0**63,
        2.0**64,
        -(2.0**63),
        math.inf,
        -math.inf,
        math.nan,
    ]
    with np.errstate(over="ignore"):
        return pa.array(np.array(chosen).astype(kind))


def _decimals(kind: pa.DataType, more: tuple[str, ...] = ()) -> pa.Array:
    found = []
    for text in (*DECIMALS, *more):
        try:
            one = pa.array([Decimal(text)], kind)
            one.validate(full=True)
            found.append(one)
        except pa.ArrowInvalid:
            continue
    return pa.concat_arrays(found)


def _moments(kind: pa.DataType) -> pa.Array:
    unit = UNITS[kind.unit]
    chosen = {second * 10**9 // unit for second in SECONDS} | {
        1,
        999,
        1000,
        1001,
        -1,
        1_580_428_800 * 10**9 // unit + 1,
    }
    return pa.array(sorted(n for n in chosen if abs(n) < 2**63), pa.int64()).cast(kind)


def _times(kind: pa.DataType) -> pa.Array:
    day, width = DAY // UNITS[kind.unit], pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array([0, 1, 999, 1000, 1001, day - 1, day, -1], width).view(kind)


def _sources() -> dict[str, dict[str, pa.Array]]:
    """Arrays by the name of their type, by the row of the document."""
    whole = [
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.uint8(),
        pa.uint16(),
        pa.uint32(),
        pa.uint64(),
    ]
    decimals = [
        pa.decimal32(9, 2),
        pa.decimal64(18, 2),
        pa.decimal128(18, 2),
        pa.decimal128(38, 3),
        pa.decimal256(60, 5),
    ]
    times = [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
    texts = pa.array(
        ["", "7", "true", "2020-01-31", "12:30:00", "café", "\0", "𝄞 longer than twelve bytes"]
    )
    raw = pa.array([b"", b"7", b"\xff\x00", b"longer than twelve bytes", b"2020-01-31"])
    days = [0, 18292, -719162, -719163, 2932896, 2932897]
    zones = ["UTC", "Europe/Berlin", "+05:30"]
    groups: dict[str, list[pa.Array]] = {
        "whole numbers": [_whole(kind) for kind in whole],
        "floats": [_floats(kind) for kind in ("f2", "f4", "f8")],
        "decimals": [*map(_decimals, decimals), pa.array([Decimal(100), Decimal(700)],
        pa.decimal128(5, -2)),
                     _decimals(pa.decimal128(38, 0), (str(2**63), str(2**64 - 1), str(2**64),
                     str(2**53 + 1)))],
        "booleans": [pa.array([True, False])],
        "dates": [pa.array(days, pa.int32()).cast(pa.date32()),
                  pa.array([*(day * 86_400_000 for day in days), 5], pa.int64()).view(pa.date64())],
        "times of day": [_times(kind) for kind in times],
        "timestamps without a zone": [_moments(pa.timestamp(unit)) for unit in UNITS],
        "timestamps with a zone": [_moments(pa.timestamp(unit,
        zone)) for unit in UNITS for zone in zones],
        "durations": [_moments(pa.duration(unit)) for unit in UNITS]
        + [pa.array([-(2**63), 2**63 - 1], pa.int64()).view(pa.duration("us"))],
        "texts": [texts, texts.cast(pa.large_string()), texts.cast(pa.string_view())],
        "bytes": [raw, raw.cast(pa.large_binary()), raw.cast(pa.binary_view()), pa.array([b"ab"],
        pa.binary(2))],
        "lists, structs, maps": [pa.array([[1]]), pa.array([[1]], pa.large_list(pa.int64())),
        pa.array([{"a": 1}]),
                                 pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
                                 pa.array([[1, 2]], pa.list_(pa.int64(), 2))],
    }  # fmt: skip
    return {
        group: {f"{array.type} {i}": array for i, array in enumerate(arrays)}
        for group, arrays in groups.items()
    }


SOURCES = _sources()


def meaning(scalar: pa.Scalar) -> Meaning | None:
    """What an Arrow value means, without pandas or Python's own types; None for lists and what
    is not a value.
    """
    kind, of = scalar.type, pa.types
    if not scalar.is_valid:
        return "null", None
    if of.is_boolean(kind):
        return "bool", scalar.as_py()
    if of.is_integer(kind):
        return "number", Fraction(scalar.as_py())
    if of.is_floating(kind):
        value = float(scalar.as_py())
        return ("number", Fraction(value)) if math.isfinite(value) else ("beyond", str(value))
    if of.is_decimal(kind):
        return "number", Fraction(scalar.as_py())
    if of.is_date32(kind):
        return "moment", scalar.value * DAY
    if of.is_date64(kind):
        return None if scalar.value % 86_400_000 else ("moment", scalar.value * 10**6)
    for name, matches in (
        ("time", of.is_time),
        ("length", of.is_duration),
        ("moment", of.is_timestamp),
    ):
        if matches(kind):
            zoned = name == "moment" and kind.tz is not None
            return "instant" if zoned else name, scalar.value * UNITS[kind.unit]
    if of.is_string(kind) or of.is_large_string(kind) or kind == pa.string_view():
        return "text", scalar.as_py()
    raw = (
        of.is_binary(kind)
        or of.is_large_binary(kind)
        or of.is_fixed_size_binary(kind)
        or kind == pa.binary_view()
    )
    return ("bytes", scalar.as_py()) if raw else None


def goes(what: Meaning | None, column: Type) -> bool:
    """Whether a column has a value of just this meaning."""
    kind, value = what or ("", None)
    name, micro = (
        column.name,
        kind not in ("moment", "instant", "time", "length") or value % 1000 == 0,
    )
    if kind == "number":
        return _has_number(value, column)
    if kind == "beyond":
        return name == "float64" and value != "nan"
    if kind == "moment":
        inside = YEARS[0] <= value <= YEARS[1]
        return (
            inside
            and micro
            and ((name == "timestamp" and not column.zone) or (name == "date" and value % DAY == 0))
        )
    if kind == "instant":
        margin = 0 if column.zone == "UTC" else DAY
        return bool(column.zone) and micro and YEARS[0] + margin <= value <= YEARS[1] - margin
    if kind == "time":
        return name == "time" and micro and 0 <= value < DAY
    if kind == "length":
        return name == "duration" and micro and not (column.nullable and value == -(2**63) * 1000)
    return (kind, name) in {("bool", "bool"), ("text", "string"), ("bytes", "bytes")}


def _has_number(value: Fraction, column: Type) -> bool:
    if column.name == "float64":
        try:
            return Fraction(float(value)) == value
        except OverflowError:
            return False
    if column.name == "decimal":
        scaled = value * 10**column.scale
        return scaled.denominator == 1 and abs(scaled) < 10**column.precision
    bounds = {
        "int64": (-(2**63) + column.nullable, 2**63 - 1),
        "uint64": (0, 2**64 - 1 - column.nullable),
    }
    least, most = bounds.get(column.name, (1, 0))
    return value.denominator == 1 and least <= value <= most
