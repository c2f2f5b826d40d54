"""RETURNING: a query over the rows that a statement changed."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from ivm.sql.answers import answer
from ivm.sql.edits.literals import Row, constants
from ivm.sql.edits.target import Target
from ivm.sql.errors import SqlError
from ivm.sql.queries.query import Queries
from ivm.sql.rules import Builder

ACTION = "merge_action"  # what MERGE did to a row


def returned(target: Target, node: exp.Expr) -> pa.Table:
    """Return what a statement's RETURNING says of the rows that it changed."""
    expressions = node.args["returning"].expressions
    if any(item.find(exp.AggFunc) for item in expressions):
        raise SqlError(
            "RETURNING is about one row after the other: SELECT aggregates after the statement",
            node,
        )
    if isinstance(node, exp.Merge):
        parts = [
            _of_rows(target, rows, [_with_action(expression, action) for expression in expressions])
            for action, rows in target.changed.items()
        ]
    else:
        rows = [row for some in target.changed.values() for row in some]
        parts = [_of_rows(target, rows, expressions)]
    return pa.concat_tables(parts)


def _of_rows(target: Target, rows: list[Row], expressions: list[exp.Expr]) -> pa.Table:
    """Return what expressions say of rows, with the same types for any rows."""
    some = rows or [(None,) * len(target.columns)]
    source = constants(some, target.columns, target.alias)
    queries = Queries(Builder("sql"), target.catalog.schema())
    read = queries.query(exp.select(*(item.copy() for item in expressions)).from_(source))
    table = answer(queries, read, target.reader.ask).to_arrow()
    fields = [
        field.with_type(pa.decimal128(value.type.precision, value.type.scale))
        if value.type.is_decimal and pa.types.is_decimal128(field.type)
        else field
        for field, (_, value) in zip(table.schema, read.columns, strict=True)
    ]
    shared = pa.schema([field.with_nullable(True) for field in fields])
    return table.slice(0, len(rows)).cast(shared)


def _with_action(node: exp.Expr, action: str) -> exp.Expr:
    """Return an expression of RETURNING with what was done in place of `merge_action`."""
    literal = exp.Literal.string(action)
    if _is_action(node):
        return exp.alias_(literal, ACTION)
    return node.transform(lambda part: literal.copy() if _is_action(part) else part)


def _is_action(node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and node.name.lower() == ACTION and not node.table
