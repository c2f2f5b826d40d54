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
        expressions=[exp.Tuple(expressions=[*map(literal, row)]) for row in rows],
        alias=exp.TableAlias(
            this=exp.to_identifier("row_values"), columns=[*map(exp.to_identifier, names)]
        ),
    )
    casts = (  # a list, a struct or a map is the text that is stored
        exp.alias_(
            exp.func("stored_as", item, exp.Literal.string(str(c.type)))
            if c.type.is_nested
            else exp.Cast(this=item, to=t),
            c.name,
            quoted=True,
        )
        for n, t, c in zip(names, types, columns, strict=True)
        for item in [exp.column(n, "row_values")]
    )
    return subquery(exp.select(*casts).from_(values), alias)


def subquery(query: exp.Select, alias: str) -> exp.Subquery:
    """Return a query as a table of a FROM."""
    return exp.Subquery(
        this=query, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
    )


def rows_of(table: pa.Table) -> list[Row]:
    """Return an Arrow table's rows as tuples."""
    if table.num_columns:
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return []
