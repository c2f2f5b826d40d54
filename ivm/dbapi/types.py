"""PEP 249's type objects, which are groups of column types, and its constructors of dates."""

import datetime
import time
from collections.abc import Callable
from functools import cache

import pyarrow as pa


class Kind:
    """A group of types of columns, equal to itself alone: `STRING`, `NUMBER` and the like."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


STRING, BINARY, NUMBER = Kind("STRING"), Kind("BINARY"), Kind("NUMBER")
DATETIME, ROWID, OTHER = Kind("DATETIME"), Kind("ROWID"), Kind("OTHER")
Date, Time, Timestamp = datetime.date, datetime.time, datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:
    """Return the local date of seconds since 1970."""
    return Date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:
    """Return the local time of day of seconds since 1970."""
    return Time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:
    """Return the local date and time of seconds since 1970."""
    return Timestamp(*time.localtime(ticks)[:6])


@cache
def kind_of(type_: pa.DataType) -> Kind:
    """Return the group of a type."""
    for is_one, kind in KINDS:
        if is_one(type_):
            return kind
    return OTHER


KINDS: tuple[tuple[Callable[[pa.DataType], bool], Kind], ...] = (
    (lambda t: pa.types.is_string(t) or pa.types.is_large_string(t), STRING),
    (lambda t: pa.types.is_binary(t) or pa.types.is_large_binary(t), BINARY),
    (lambda t: pa.types.is_integer(t) or pa.types.is_floating(t), NUMBER),
    (lambda t: pa.types.is_decimal(t) or pa.types.is_boolean(t), NUMBER),
    (pa.types.is_temporal, DATETIME),
)
