"""WITH RECURSIVE: a view that reads itself.

    WITH RECURSIVE r AS (SELECT ... UNION SELECT ... FROM r ...)      two rules for one view

`UNION ALL` keeps equal rows of different derivations apart, which a recursive view does not: it is evaluated only where
no row can be derived twice.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from ivm.sql.conversions import convert
from ivm.sql.errors import SqlError
from ivm.sql.queries.clauses import Rows, Translator
from ivm.sql.queries.scope import Scope
from ivm.sql.queries.sets import own
from ivm.sql.rules import KEYS_MAX, Body, Column, Table
from ivm.sql.terms import Atom


def reads_itself(cte: exp.CTE) -> bool:
    """Return whether a CTE names itself."""
    return any(t.name.lower() == cte.alias.lower() for t in cte.this.find_all(exp.Table))


def cte(queries: Translator, node: exp.CTE, names: list[str], outer: Scope | None) -> Callable[[Scope | None], Rows]:
    """Return a function that gives the rows of a recursive CTE; its rules are added at once."""
    union = node.this
    if not isinstance(union, exp.Union):
        raise SqlError(f"{node.alias} reads itself: write `first rows UNION further rows`", node)
    builder = queries.builder
    first = queries.query(union.this, None).named(names, node)
    step = union.expression
    if not union.args.get("distinct"):
        _refuse_repeated(node, step)
    if any(isinstance(one, exp.AggFunc | exp.Window) for one in step.walk()):
        raise SqlError(f"{node.alias} aggregates itself: aggregate what it derives in a query of its own", node)
    columns = tuple(Column(n, v.type, builder.may_be_null(first.body, v)) for n, v in first.columns)
    if len(columns) > KEYS_MAX:
        raise SqlError(f"{node.alias} has {len(columns)} columns, and {KEYS_MAX} is the most")
    table = Table(builder.helper(), columns, (*range(len(columns)),))

    def rows(scope: Scope | None) -> Rows:
        body = Body(scope.body if scope else None)
        values = builder.scan(table, body)
        return Rows(body, [(c.name, v) for c, v in zip(columns, values, strict=True)])

    name = node.alias.lower()
    before = queries.ctes.get(name)
    queries.ctes[name] = rows
    try:
        further = queries.query(step, None)
    finally:
        if before is not None:
            queries.ctes[name] = before
    if len(further.columns) != len(columns):
        raise SqlError(f"{node.alias} has {len(columns)} columns first and {len(further.columns)} after", node)
    for part in (first, further):
        body = part.body.copy()
        values = [convert(v, c.type, node) for (_, v), c in zip(part.columns, columns, strict=True)]
        terms = tuple(own(builder, body, value).term for value in values)
        builder.rule(Atom(table.name, terms), body)
    return rows


def _refuse_repeated(node: exp.CTE, step: exp.Expr) -> None:
    """Raise SqlError for UNION ALL, unless each step follows from one row alone."""
    tables = [t.name.lower() for t in step.find_all(exp.Table)]
    if tables != [node.alias.lower()]:
        raise SqlError(
            f"{node.alias} by UNION ALL may derive a row several times, which is not kept: write UNION", node
        )
