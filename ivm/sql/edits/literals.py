"""Rows of a table as rows of Python, and these as a table of SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ivm.sql.literals import literal
from ivm.sql.rules import Column

if TYPE_CHECKING:
    import pyarrow as pa

Row = tuple[Any, ...]


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
