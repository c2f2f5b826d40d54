"""PIVOT as GROUP BY with an aggregate under a condition for each value, UNPIVOT as UNION ALL."""

from __future__ import annotations

from sqlglot import exp

from ivm.sql.errors import SqlError
from ivm.sql.literals import constant, converted
from ivm.sql.naming.names import output_name
from ivm.sql.terms import Lit
from ivm.sql.types import NULL, VARCHAR


def rewritten(pivot: exp.Pivot, source: exp.Expr, columns: list[str]) -> exp.Query:
    """Return a query with the rows of `table PIVOT (aggregates FOR column IN (values))`, or of the
    statement PIVOT.

    `source` is the table without its PIVOT, and `columns` are the names of its columns.  Raises
    SqlError.
    """
    if pivot.args.get("unpivot"):
        return _unpivoted(pivot, source, columns)
    fields = pivot.args.get("fields") or pivot.expressions  # of the clause, and of the statement
    aggregates = list(
        pivot.expressions if pivot.args.get("fields") else pivot.args.get("using") or ()
    )
    aggregates = aggregates or [exp.Count(this=exp.Star())]
    if not fields or not all(isinstance(field, exp.In) for field in fields):
        raise SqlError(
            "PIVOT without IN takes its columns from the data: list the values with IN (...)", pivot
        )
    used = {c.name.lower() for part in (*aggregates, *fields) for c in part.find_all(exp.Column)}
    group = pivot.args.get("group")
    keys = (
        [item.name for item in group.expressions]
        if group
        else [n for n in columns if n.lower() not in used]
    )
    select = exp.select(*(exp.column(k, quoted=True) for k in keys)).from_(source.copy())
    if len(fields) != 1:
        raise SqlError("PIVOT over several columns: write one PIVOT for each", pivot)
    (field,) = fields
    if isinstance(field.this, exp.Binary | exp.Unary) and not isinstance(field.this, exp.Paren):
        shown = field.this.sql(dialect="duckdb")
        raise SqlError(f"PIVOT ON {shown} IN (...) asks whether: write ({shown})", field)
    for value in field.expressions:
        named = isinstance(value, exp.PivotAlias | exp.Alias)
        shown, plain = (value.alias, value.this) if named else (_name_of(value), value)
        for aggregate in aggregates:
            inner = aggregate.this if isinstance(aggregate, exp.Alias) else aggregate
            name = f"{shown}_{aggregate.alias}" if isinstance(aggregate, exp.Alias) else shown
            if not isinstance(aggregate, exp.Alias) and len(aggregates) > 1:
                name = f"{shown}_{output_name(inner)}"
            # null is a value here
            same = [
                exp.NullSafeEQ(this=a.copy(), expression=b.copy()) for a, b in _pairs(field, plain)
            ]
            filtered = exp.paren(inner)
            for fold in [*filtered.find_all(exp.AggFunc)]:
                condition = exp.Where(this=exp.and_(*same))
                fold.replace(exp.Filter(this=fold.copy(), expression=condition))
            filtered = filtered.this
            select = select.select(exp.alias_(filtered, name, quoted=True))
    return select.group_by(*(exp.column(k, quoted=True) for k in keys)) if keys else select


def _pairs(field: exp.In, value: exp.Expr) -> list[tuple[exp.Expr, exp.Expr]]:
    """Return the columns of IN with the values that they have in a column of the result."""
    if not isinstance(field.this, exp.Tuple):
        return [(field.this, value)]
    if not isinstance(value, exp.Tuple) or len(value.expressions) != len(field.this.expressions):
        raise SqlError("PIVOT: each value in IN has as many parts as there are columns", value)
    return [*zip(field.this.expressions, value.expressions, strict=True)]


def _name_of(value: exp.Expr) -> str:
    """Return the name of the column of a value: its text, in quotes if it is empty."""
    known = constant(value)
    if known is None or known.type == NULL:
        return value.name or value.sql(dialect="duckdb")
    term = converted(known, VARCHAR, value).term
    return str(term.value) or "''" if isinstance(term, Lit) else value.name


def _unpivoted(pivot: exp.Pivot, source: exp.Expr, columns: list[str]) -> exp.Query:
    """Return a query with a row for each row and column of a table: the name and the value."""
    into, fields = pivot.args.get("into"), pivot.args.get("fields")
    if fields:
        listed, name, value = fields[0].expressions, fields[0].this.name, pivot.expressions[0].name
    else:
        listed = pivot.expressions
        name, value = (into.this.name, into.expressions[0].name) if into else ("name", "value")
    names = [
        (part.this, part.alias) if isinstance(part, exp.PivotAlias) else (part, "")
        for part in listed
    ]
    if not all(isinstance(c, exp.Column) and not isinstance(c.this, exp.Star) for c, _ in names):
        raise SqlError("UNPIVOT takes names of columns", pivot)
    taken = {column.name.lower() for column, _ in names}
    kept = [exp.column(c, quoted=True) for c in columns if c.lower() not in taken]
    parts: list[exp.Select] = []
    for column, alias in names:
        shown = next((c for c in columns if c.lower() == column.name.lower()), column.name)
        items = (
            exp.alias_(exp.Literal.string(alias or shown), name),
            exp.alias_(exp.column(shown, quoted=True), value),
        )
        part = exp.select(*(c.copy() for c in kept), *items).from_(source.copy())
        if not pivot.args.get("include_nulls"):
            part = part.where(
                exp.Not(this=exp.Is(this=exp.column(shown, quoted=True), expression=exp.Null()))
            )
        parts.append(part)
    query: exp.Query = parts[0]
    for part in parts[1:]:
        query = exp.union(query, part, distinct=False)
    return query
