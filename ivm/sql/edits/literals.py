"""Rows of a table as rows of Python, and these as literals of SQL."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from sqlglot import exp

from ivm.sql.errors import SqlError
from ivm.sql.rules import Column

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[Any, ...]
BITS_MOST = 127  # of an integer of 38 digits


def constants(rows: Sequence[Row], columns: Sequence[Column], alias: str) -> exp.Subquery:
    """Return a subquery of rows, of which there is one at least, with the columns of a table."""
    types = [exp.DataType.build(str(c.type), dialect="duckdb") for c in columns]
    names = [f"c{n}" for n in range(len(columns))]
    values = exp.Values(
        expressions=[exp.Tuple(expressions=[*map(stored, row, columns)]) for row in rows],
        alias=exp.TableAlias(
            this=exp.to_identifier("row_values"), columns=[*map(exp.to_identifier, names)]
        ),
    )
    casts = (
        exp.alias_(exp.Cast(this=exp.column(n, "row_values"), to=t), c.name, quoted=True)
        for n, t, c in zip(names, types, columns, strict=True)
    )
    return subquery(exp.select(*casts).from_(values), alias)


def subquery(query: exp.Select, alias: str) -> exp.Subquery:
    """Return a query as a table of a FROM."""
    return exp.Subquery(
        this=query, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
    )


def rows_of(table: pa.Table) -> list[Row]:
    """Return an Arrow table's rows as tuples."""
    return (
        list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        if table.num_columns
        else []
    )


def stored(value: Any, column: Column) -> exp.Expr:
    """Return a stored value as a literal of SQL; a list, a struct or a map is a text, and gets
    its brackets back.
    """
    return literal(f"[{value}]" if column.type.is_nested and value is not None else value)


def literal(value: Any) -> exp.Expr:
    """Return a value of Python as a literal of SQL.  Raises SqlError for one that SQL has no
    type for.
    """
    if value is None or type(value).__name__ in ("NaTType", "NAType"):  # those of pandas
        return exp.null()
    if hasattr(value, "item") and type(value).__module__ == "numpy":
        return literal(value.item() if value.ndim == 0 else value.tolist())
    if isinstance(value, bool):
        return exp.true() if value else exp.false()
    if isinstance(value, list | tuple):
        return exp.Array(expressions=[literal(one) for one in value])
    if isinstance(value, dict):
        return _fields(value)
    if isinstance(value, int | float | Decimal):
        return _number(value)
    text, name = _text_and_type(value)
    found = exp.Literal.string(text)
    return (
        found
        if name == "VARCHAR"
        else exp.Cast(this=found, to=exp.DataType.build(name, dialect="duckdb"))
    )


def _fields(value: dict[Any, Any]) -> exp.Expr:
    """Return a dict as a struct, or as a map if a key is not a text."""
    if all(isinstance(key, str) for key in value):
        pairs = [
            exp.PropertyEQ(this=exp.to_identifier(key), expression=literal(one))
            for key, one in value.items()
        ]
        return exp.Struct(expressions=pairs)
    return exp.Map(keys=literal([*value]), values=literal([*value.values()]))


def _number(value: int | float | Decimal) -> exp.Expr:
    if isinstance(value, int) and value.bit_length() > BITS_MOST:
        raise SqlError("a parameter is too large: integers have at most 38 digits")
    if not isinstance(value, int) and not math.isfinite(value):
        return exp.cast(exp.Literal.string(str(value)), "DOUBLE")
    # abs rounds to 28 digits
    shown = f"{value.copy_abs():f}" if isinstance(value, Decimal) else repr(abs(value))
    return exp.Literal.number(shown) if value >= 0 else exp.Neg(this=exp.Literal.number(shown))


def _text_and_type(value: Any) -> tuple[str, str]:
    """Return a value as the text and the type of a literal.  Raises SqlError."""
    if isinstance(value, str):
        return str(value), "VARCHAR"
    if isinstance(value, bytes | bytearray | memoryview):
        return "".join(f"\\x{one:02X}" for one in bytes(value)), "BLOB"
    if isinstance(value, datetime):
        if getattr(value, "nanosecond", 0):
            raise SqlError(f"{value}: a TIMESTAMP has microseconds: round it with .floor('us')")
        return value.isoformat(" "), "TIMESTAMP" if value.tzinfo is None else "TIMESTAMPTZ"
    for kind, name in ((date, "DATE"), (time, "TIME"), (UUID, "UUID")):
        if isinstance(value, kind):
            return str(value), name
    shown = type(value).__name__
    raise SqlError(
        f"a parameter of type {shown} has no type of SQL: give a number, a text, bytes, a date, a "
        f"list or a "
        "dict"
    )
