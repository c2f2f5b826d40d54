"""What a statement takes and gives, before it runs: types of parameters, and columns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ivm.sql.catalog import Catalog
from ivm.sql.errors import SqlError
from ivm.sql.literals import sql_type
from ivm.sql.queries.query import Queries
from ivm.sql.rules import Builder
from ivm.sql.syntax import spaced

COMPARED = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In, exp.Between)


def parameter_types(catalog: Catalog, text: str, dialect: str) -> list[str]:
    """Return the types of `$1`, `$2` and so on: of the columns that they are compared with or
    stored in, or of a CAST around; empty where nothing says it.
    """
    try:
        nodes = [node for node in sqlglot.parse(spaced(text), dialect=dialect) if node is not None]
    except SqlglotError:
        return []  # whoever runs the statement says what is wrong
    types: dict[int, str] = {}
    for node in nodes:
        columns = dict(_columns(catalog, node))
        for place in node.find_all(exp.Parameter, exp.Placeholder):
            if place.name.isdigit():
                types[int(place.name)] = types.get(int(place.name)) or _type(
                    catalog, place, columns
                )
    return [types.get(n, "") for n in range(1, max(types, default=0) + 1)]


def _columns(catalog: Catalog, node: exp.Expr) -> Iterator[tuple[str, str]]:
    for table in node.find_all(exp.Table):
        if (table_here := catalog.find(table.name)) is not None:
            for column in catalog.columns(table_here):
                yield column.name.lower(), str(column.type)


def _type(catalog: Catalog, place: exp.Expr, columns: dict[str, str]) -> str:
    around: Any = place.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    if isinstance(around, exp.Cast):
        with suppress(SqlError):
            return str(sql_type(around.to))
        return ""
    if isinstance(around, exp.Limit | exp.Offset):
        return "BIGINT"
    lists = "[]" * isinstance(around, exp.Any)
    compared = around.parent if lists else around
    if isinstance(compared, COMPARED):
        for column in compared.find_all(exp.Column):
            if (type_ := columns.get(column.name.lower())) is not None:
                return type_ + lists
    insert = place.find_ancestor(exp.Insert)
    if isinstance(around, exp.Tuple) and insert is not None:
        row = around.expressions
        target = insert.this
        table_here = catalog.find(target.find(exp.Table).name)
        names = [c.name for c in catalog.columns(table_here)] if table_here is not None else []
        if isinstance(target, exp.Schema):
            names = [item.name for item in target.expressions]
        at = next(n for n, value in enumerate(row) if value is place)
        return columns.get(names[at].lower(), "") if at < len(names) else ""
    return ""


def columns_of(catalog: Catalog, node: exp.Expr) -> list[tuple[str, str]]:
    """Return the columns of a query, or of RETURNING, by name and type; empty for a statement that
    gives none.  Raises SqlError.
    """
    query: Any = node if isinstance(node, exp.Query) else None
    returning, table = node.args.get("returning"), node.find(exp.Table)
    if returning and table is not None:
        query = exp.select(*(item.copy() for item in returning.expressions)).from_(table.copy())
    if query is None:
        return []
    rows = Queries(Builder("sql"), catalog.schema()).query(query, None, top=True)
    return [(name, str(value.type)) for name, value in rows.columns]
