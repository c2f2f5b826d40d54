"""PIVOT: rewritten to GROUP BY, with one aggregate under a condition for each value."""

from __future__ import annotations

from sqlglot import exp

from ivm.sql.errors import SqlError


def rewritten(node: exp.Expr, source: exp.Expr, columns: list[str]) -> exp.Select:
    """Return a query with the rows of `table PIVOT (aggregates FOR column IN (values))`.  Raises SqlError.

    `source` is the table without its PIVOT, and `columns` the names of its columns.
    """
    if len(node.args["pivots"]) != 1:
        raise SqlError("several PIVOTs of one table: write a subquery for each", node)
    pivot = node.args["pivots"][0]
    if pivot.args.get("unpivot"):
        raise SqlError("UNPIVOT is not evaluated: write a UNION ALL of one query for each column", pivot)
    if not pivot.args.get("fields"):
        raise SqlError("PIVOT without IN takes its columns from the data: list the values with IN (...)", node)
    aggregates = list(pivot.expressions)
    used = {c.name.lower() for one in (*aggregates, *pivot.args["fields"]) for c in one.find_all(exp.Column)}
    group = pivot.args.get("group")
    keys = [one.name for one in group.expressions] if group else [n for n in columns if n.lower() not in used]
    select = exp.select(*(exp.column(k, quoted=True) for k in keys)).from_(source)
    if len(pivot.args["fields"]) != 1:
        raise SqlError("PIVOT over several columns: write one PIVOT for each", node)
    field = pivot.args["fields"][0]
    for value in field.expressions:
        shown = value.alias if isinstance(value, exp.PivotAlias | exp.Alias) else value.name
        plain = value.this if isinstance(value, exp.PivotAlias | exp.Alias) else value
        for one in aggregates:
            inner = one.this if isinstance(one, exp.Alias) else one
            name = f"{shown}_{one.alias}" if isinstance(one, exp.Alias) else shown
            if not isinstance(one, exp.Alias) and len(aggregates) > 1:
                name = f"{shown}_{inner.sql(dialect='duckdb').lower()}"
            condition = exp.Where(this=exp.EQ(this=field.this.copy(), expression=plain.copy()))
            filtered = exp.Filter(this=inner.copy(), expression=condition)
            select = select.select(exp.alias_(filtered, name, quoted=True))
    return select.group_by(*(exp.column(k, quoted=True) for k in keys)) if keys else select
