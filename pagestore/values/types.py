"""The types of columns, and schemas: the columns of a relation and its key.

    text        price: float64, item: string     with key=["item"], as users write it
    columns     price, item                      in the order of the text
    stored      item, price                      in the order of a record's words: the key, then the values

codec.py defines the word of each value."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import NamedTuple, Protocol
from zoneinfo import ZoneInfo

import numpy as np

from pagestore.errors import CorruptionError, SchemaError
from pagestore.pages.layout import KEYS_MAX
from pagestore.runtime.lazy import pyarrow as pa

RELATION_COLUMNS_MAX = 1000
DIGITS_MAX = 38
WORD_DIGITS = 18  # of the decimals whose words are numbers


class Interner(Protocol):
    """Map texts to ids and ids to texts."""

    def intern(self, texts: pa.Array) -> np.ndarray:
        """The ids int64[n] of texts."""

    def texts(self, ids: np.ndarray, binary: bool) -> pa.Array:
        """The texts of ids int64[n], as bytes if `binary`."""


class Texts(Interner, Protocol):
    """An interner that also returns single texts."""

    def text(self, id_: int) -> bytes:
        """The text of an id."""


def decoded(text: bytes) -> str:
    """Decode a text as a string. Raises CorruptionError if it is not UTF-8."""
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        raise no_string(error) from None


def no_string(error: Exception) -> CorruptionError:
    """Return the error for a text of a column of strings that is not UTF-8."""
    return CorruptionError(
        f"a text of a column of strings is none: {error}; pagestore fsck says more"
    )


class Type(NamedTuple):
    """The type of a column. `precision` and `scale` are a decimal's digits in all and after the
    point.

    `zone` is the time zone in which a timestamp is shown; its word is the moment in UTC. A value of
    a `nullable` type may be missing; such a type is written with a question mark.
    """

    name: str
    precision: int = 0
    scale: int = 0
    zone: str = ""
    nullable: bool = False

    @classmethod
    def parse(cls, text: str | Type) -> Type:
        """Parse a type.

        >>> Type.parse("decimal(10, 2)?")
        Type(name='decimal', precision=10, scale=2, zone='', nullable=True)
        >>> Type.parse("timestamp(Europe/Berlin)").arrow
        TimestampType(timestamp[us, tz=Europe/Berlin])
        >>> Type.parse("varchar")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        pagestore.errors.SchemaError: 'varchar' is not a type: use int64, uint64, float64, bool, date, time, ...
        """
        if isinstance(text, Type):
            return text
        name = text.strip()
        if name.endswith("?") and not name.endswith("??"):
            return cls.parse(name[:-1])._replace(nullable=True)
        if name in KINDS and KINDS[name].arrow:
            return cls(name)
        zoned = re.fullmatch(r"timestamp\(([\w+:/-]+)\)", name, re.ASCII)
        if zoned:
            return cls("timestamp", zone=zoned[1])
        match = re.fullmatch(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)", name)
        if not match:
            raise SchemaError(
                f"{name!r} is not a type: use {', '.join(n for n in KINDS if KINDS[n].arrow)}, timestamp(zone) "
                f"or decimal(p,s)"
            )
        precision, scale = int(match[1]), int(match[2])
        if not (1 <= precision <= DIGITS_MAX and scale <= precision):
            raise SchemaError(
                f"{name}: a decimal has 1 to {DIGITS_MAX} digits, at most all after the point"
            )
        return cls("decimal", precision, scale)

    @property
    def interned(self) -> bool:
        """Whether words are ids of the dictionary: of texts, or of decimals as texts."""
        return self.name in ("string", "bytes") or self.wide

    @property
    def wide(self) -> bool:
        """Whether values are decimals of more digits than a word: 16 bytes in the dictionary."""
        return self.precision > WORD_DIGITS

    @property
    def arrow(self) -> pa.DataType:
        """The Arrow type of a column of this type."""
        if self.zone:
            return pa.timestamp("us", self.zone)
        make = self.kind.arrow
        return make() if make else pa.decimal128(self.precision, self.scale)

    @property
    def kind(self) -> Kind:
        """What is known of types of this name."""
        return KINDS[self.name]

    def __str__(self) -> str:
        name = f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name
        return name + f"({self.zone})" * bool(self.zone) + "?" * self.nullable


class Kind(NamedTuple):
    """What is known of the types of a name: the class of Python's values, the dtypes of numpy's
    values and of the numbers in Arrow's buffers ("" where these are no numbers), the Arrow type,
    unless it has digits, and the kinds of Arrow's values that it takes, beginning with its own.
    """

    value: type
    numpy: str
    stored: str
    arrow: Callable[[], pa.DataType] | None
    takes: tuple[str, ...]


_REAL, MOMENTS = ("float", "number", "decimal"), ("moment", "date")
KINDS: dict[str, Kind] = {
    "int64": Kind(int, "int64", "int64", lambda: pa.int64(), ("number", *_REAL)),
    "uint64": Kind(int, "uint64", "uint64", lambda: pa.uint64(), ("number", *_REAL)),
    "float64": Kind(float, "float64", "float64", lambda: pa.float64(), _REAL),
    "bool": Kind(bool, "bool", "bool", lambda: pa.bool_(), ("bool",)),
    "date": Kind(date, "datetime64[D]", "int32", lambda: pa.date32(), MOMENTS[::-1]),
    "time": Kind(time, "", "int64", lambda: pa.time64("us"), ("time",)),
    "timestamp": Kind(
        datetime, "datetime64[us]", "int64", lambda: pa.timestamp("us"), (*MOMENTS, "zoned")
    ),
    "duration": Kind(
        timedelta, "timedelta64[us]", "int64", lambda: pa.duration("us"), ("duration",)
    ),
    "string": Kind(str, "", "", lambda: pa.string(), ("text",)),
    "bytes": Kind(bytes, "", "", lambda: pa.binary(), ("bytes",)),
    "decimal": Kind(Decimal, "", "", None, ("decimal", *_REAL)),
}


class Column(NamedTuple):
    """A column of a relation. A `narrow` one holds only some values of its type: those of this
    type of SQL.

    INTEGER and the like are whole numbers in the bounds of `NARROW`, of int64; FLOAT has numbers of
    single precision, of float64.
    """

    name: str
    type: Type
    narrow: str = ""


SINGLE = "FLOAT"
SINGLE_MOST = float((1 << 128) - (1 << 103) - (1 << 75))  # the next float64 becomes inf
NARROW: dict[str, tuple[float, float]] = {
    "TINYINT": (-(1 << 7), (1 << 7) - 1),
    "SMALLINT": (-(1 << 15), (1 << 15) - 1),
    "INTEGER": (-(1 << 31), (1 << 31) - 1),
    "UTINYINT": (0, (1 << 8) - 1),
    "USMALLINT": (0, (1 << 16) - 1),
    "UINTEGER": (0, (1 << 32) - 1),
    "UBIGINT": (0, (1 << 63) - 1),
    SINGLE: (-SINGLE_MOST, SINGLE_MOST),
}  # least and greatest value


def may_be_narrow(type_: Type, narrow: str) -> bool:
    """Return whether a column of a type can be narrow so."""
    return narrow in NARROW and type_.name == ("float64" if narrow == SINGLE else "int64")


@dataclass(frozen=True)
class Schema:
    """The columns of a relation in the user's order, and which of them are its key, in key order.

    >>> schema = Schema.parse("price: float64, item: string", key=["item"])
    >>> [column.name for column in schema.stored]
    ['item', 'price']
    """

    columns: tuple[Column, ...]
    key: tuple[str, ...]

    @classmethod
    def parse(
        cls,
        text: str | Schema | pa.Schema,
        key: Sequence[str] | str | None = None,
        keys_null: bool = False,
    ) -> Schema:
        """Parse `name: type, ...`; without a key, the key is all columns. A schema is kept as it
        is, or gets this key.

        Key columns may be nullable only with `keys_null`. Raises SchemaError."""
        if isinstance(text, Schema):
            columns, key = text.columns, text.key if key is None else key
        else:
            columns = parse_columns(text)
        names = [column.name for column in columns]
        keys = (key,) if isinstance(key, str) else tuple(names if key is None else key)
        if not columns or len(columns) > RELATION_COLUMNS_MAX:
            if not columns:
                remedy = ""
            else:
                remedy = "; leave some out, or give them a relation of their own with the same key"
            raise SchemaError(
                f"a relation has 1 to {RELATION_COLUMNS_MAX} columns, not {len(columns)}{remedy}"
            )
        types = {column.name: column.type for column in columns}
        if len(types) < len(names):
            raise SchemaError(f"column {_twice(names)!r} occurs twice")
        for name in keys:
            if name not in types:
                raise SchemaError(
                    f"key column {name!r} is not among the columns {', '.join(names)}"
                )
            type_ = types[name]
            if type_.nullable and not keys_null:
                remedy = (
                    "leave the ? out, name the columns of the key with key=, or give keys_null=True"
                )
                raise SchemaError(
                    f"key column {name!r} is a {type_}: a key is never null; {remedy}"
                )
        if len({*keys}) < len(keys):
            raise SchemaError(f"key column {_twice(keys)!r} occurs twice")
        if not 1 <= len(keys) <= KEYS_MAX:
            raise SchemaError(
                f"a key has 1 to {KEYS_MAX} columns, not {len(keys)}; name fewer with key="
            )
        return cls(columns, keys)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in the user's order."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def stored(self) -> tuple[Column, ...]:
        """The columns in the order of a record's words: the key, then the values."""
        by_name = {column.name: column for column in self.columns}
        values = [column for column in self.columns if column.name not in self.key]
        return tuple([by_name[name] for name in self.key] + values)

    @cached_property
    def places(self) -> list[int]:
        """For each column, the place of its words in a stored record."""
        place_of = {column.name: place for place, column in enumerate(self.stored)}
        return [place_of[name] for name in self.names]

    @cached_property
    def in_order(self) -> bool:
        """Whether a record's words are stored in the order of the columns."""
        return self.stored == self.columns

    @cached_property
    def text_keys(self) -> tuple[int, ...]:
        """The places of texts in the key, whose words are in another order than the texts."""
        return tuple(
            place
            for place, column in enumerate(self.stored[: len(self.key)])
            if column.type.interned
        )

    @cached_property
    def plain(self) -> bool:
        """Whether every column is int64 and none may be null, so that values are words."""
        return all(column.type == Type("int64") for column in self.columns)

    @cached_property
    def held_as_given(self) -> bool:
        """Whether every column holds every int64, so that rows of them are words that it holds."""
        return self.plain and not self.narrow

    @cached_property
    def narrow(self) -> tuple[int, ...]:
        """The places of the narrow columns among a record's words."""
        return tuple(place for place, column in enumerate(self.stored) if column.narrow)

    @cached_property
    def integer_values(self) -> bool:
        """Whether every value column is int64, so that values that are not null are words."""
        return all(column.type.name == "int64" for column in self.stored[len(self.key) :])

    @cached_property
    def arrow(self) -> pa.Schema:
        """The schema of Arrow tables of these columns."""
        return pa.schema(
            [
                pa.field(column.name, column.type.arrow, column.type.nullable)
                for column in self.columns
            ]
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Cached, since every scan looks its name up by the schema."""
        return hash((self.columns, self.key))

    def __str__(self) -> str:
        return ", ".join(f"{column.name}: {column.type}" for column in self.columns)


def _twice(names: Sequence[str]) -> str:
    """Return the first name that is repeated."""
    return next(name for place, name in enumerate(names) if name in names[:place])


def parse_columns(text: str | pa.Schema) -> tuple[Column, ...]:
    """Parse columns from text, or from an Arrow schema. Raises SchemaError."""
    # in this order: text does not import Arrow
    if not isinstance(text, str) and isinstance(text, pa.Schema):
        try:
            return tuple(
                Column(field.name, type_of_arrow(field.name, field.type)) for field in text
            )
        except UnicodeDecodeError as error:
            raise SchemaError(f"the name of a column is not UTF-8: {error}; rename it") from None
    if not isinstance(text, str):
        raise SchemaError(
            f"columns are given as a text, 'x: int64, y: string?', or an Arrow schema, not as "
            f"{text!r}"
        )
    columns = []
    for part in re.split(r",(?![^(]*\))", text):
        name, colon, type_text = part.partition(":")
        if not colon or not name.strip():
            raise SchemaError(f"{part.strip()!r}: a column is written `name: type`")
        columns.append(Column(name.strip(), _known_zone(name.strip(), Type.parse(type_text))))
    return tuple(columns)


def _known_zone(name: str, type_: Type) -> Type:
    """Return a type whose zone this machine knows. Raises SchemaError."""
    if type_.zone and not re.fullmatch(r"[+-]\d\d:\d\d", type_.zone):
        try:
            ZoneInfo(type_.zone)
        except (KeyError, ValueError, OSError):
            raise SchemaError(
                f"column {name!r}: {type_.zone} is not a time zone that this machine knows"
            ) from None
    return type_


def type_of_arrow(name: str, arrow: pa.DataType) -> Type:
    """Return the type that holds an Arrow type without loss. Raises SchemaError."""
    if pa.types.is_dictionary(arrow):
        arrow = arrow.value_type
    kind = kind_of(arrow)
    if kind == "zoned":
        return _known_zone(name, Type("timestamp", zone=arrow.tz))
    if kind == "decimal" and 0 <= arrow.scale <= arrow.precision <= DIGITS_MAX:
        return Type("decimal", arrow.precision, arrow.scale)
    if kind in _HOLDS and not pa.types.is_fixed_size_binary(arrow):
        return Type("uint64" if pa.types.is_uint64(arrow) else _HOLDS[kind])
    raise SchemaError(f"column {name!r}: Arrow type {arrow} has no type here; {remedy_for(arrow)}")


# the type that holds the values of a kind as they are, but for decimals
_HOLDS = {kind.takes[0]: name for name, kind in reversed(KINDS.items()) if kind.arrow}


@lru_cache(256)
def kind_of(arrow: pa.DataType) -> str | None:
    """Return the kind of an Arrow type's values; None for types that no column takes."""
    if pa.types.is_dictionary(arrow):
        arrow = arrow.value_type
    of = pa.types
    kinds = {
        "null": of.is_null, "number": of.is_integer, "float": of.is_floating,
        "decimal": of.is_decimal,
        "bool": of.is_boolean, "date": of.is_date, "time": of.is_time, "duration": of.is_duration,
        "moment": lambda t: of.is_timestamp(t) and t.tz is None,
        "zoned": lambda t: of.is_timestamp(t) and t.tz is not None,
        "text": lambda t: of.is_string(t) or of.is_large_string(t) or t == pa.string_view(),
        "bytes": lambda t: of.is_binary(t) or of.is_large_binary(t) or of.is_fixed_size_binary(t)
        or t == pa.binary_view(),
    }  # fmt: skip
    return next((name for name, matches in kinds.items() if matches(arrow)), None)


def remedy_for(arrow: pa.DataType) -> str:
    """Return the remedy for values of an Arrow type that a column does not accept."""
    if pa.types.is_timestamp(arrow) and arrow.tz is not None:
        cast = f'.cast(pa.timestamp("{arrow.unit}"))'
        return f"it keeps no zone: make it a timestamp({arrow.tz}), or take the time in UTC by {cast}, or where it is"
    return "cast it first"


def array_of(type_: Type, words: np.ndarray) -> pa.Array:
    """Return an Arrow array whose buffer is made of numbers [n]: a decimal's words, dates as days,
    others as they are.
    """
    if type_.name == "decimal":
        return of_numbers(type_.arrow, np.stack([words, words >> 63], axis=1))
    wide = np.dtype(type_.kind.stored).itemsize == words.itemsize  # perhaps the bits of floats
    return of_numbers(type_.arrow, words if wide else words.astype(type_.kind.stored))


def of_numbers(kind: pa.DataType, numbers: np.ndarray) -> pa.Array:
    """Return an Arrow array without nulls, of a type that stores each value as one of the numbers.

    They are not copied unless they are flags, or not contiguous. Arrow's `array` would import
    pandas.
    """
    stored = np.packbits(numbers, bitorder="little") if numbers.dtype == bool else numbers
    return pa.Array.from_buffers(
        kind, len(numbers), [None, pa.py_buffer(np.ascontiguousarray(stored))]
    )
