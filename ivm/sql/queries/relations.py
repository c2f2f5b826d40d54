"""What a FROM clause may name: tables, subqueries, lists of values and ranges of numbers."""

from __future__ import annotations

from sqlglot import exp

from ivm.sql.errors import SqlError
from ivm.sql.names import text
from ivm.sql.queries import pivot
from ivm.sql.queries.clauses import Rows, Translator
from ivm.sql.queries.scope import Scope

SERIES_MAX = 10_000


def rows(queries: Translator, node: exp.Expr, outer: Scope | None) -> Rows:
    """Return the rows of an item of FROM.  Raises SqlError."""
    for key, what in (("sample", "TABLESAMPLE"), ("pivots", "PIVOT")):
        if node.args.get(key):
            if key == "pivots":
                source = node.copy()
                source.set("pivots", None)
                names = [name for name, _ in rows(queries, source, outer).columns]
                return queries.query(pivot.rewritten(node, source, names), outer)
            raise SqlError(f"{what} is not evaluated", node)
    match node:
        case exp.Table() if isinstance(node.this, exp.Func):
            return _function(queries, node.this, outer)
        case exp.Table():
            return queries.table(node, outer)
        case exp.Subquery():
            return queries.query(node.this, outer)
        case exp.Values():
            return queries.query(node, outer)
        case exp.Unnest():
            return _function(queries, node, outer)
    raise SqlError(f"FROM {node.sql(dialect='duckdb')[:50]} is not evaluated", node)


def spread(node: exp.Select) -> exp.Select:
    """Return a query with `unnest` of a constant list in its select list as one of its tables."""
    found = [one for item in node.expressions for one in item.find_all(exp.Explode) if one.parent_select is node]
    if not found:
        return node
    if len(found) > 1 or node.args.get("group") or any(item.find(exp.AggFunc, exp.Window) for item in node.expressions):
        raise SqlError("unnest in a select list is kept once, without groups and windows: write it in FROM", found[-1])
    name = "unnested"
    new = node.copy()
    (place,) = [one for item in new.expressions for one in item.find_all(exp.Explode) if one.parent_select is new]
    alias = exp.TableAlias(this=exp.to_identifier(name), columns=[exp.to_identifier(name)])
    table = exp.Unnest(expressions=[place.this.copy()], alias=alias)
    column: exp.Expr = exp.column(name, name)
    if place.parent is new:
        items = place.this.expressions if isinstance(place.this, exp.Array) else None
        shown = text(place.this) if items is None else f"list_value({', '.join(map(text, items))})"
        column = exp.alias_(column, f"unnest({shown})", quoted=True)
    place.replace(column)
    return new.join(table, join_type="cross", copy=False) if new.args.get("from_") else new.from_(table, copy=False)


def _function(queries: Translator, node: exp.Expr, outer: Scope | None) -> Rows:
    """`generate_series(1, 9)`, `range(10)` and `unnest([1, 2])` with constants, as VALUES."""
    inner = node.expressions[0] if isinstance(node, exp.Unnest) else node
    name = "unnest"
    if isinstance(inner, exp.GenerateSeries):
        name = "range" if inner.args.get("is_end_exclusive") else "generate_series"
        items = _series(inner)
    elif isinstance(inner, exp.Array):
        items = list(inner.expressions)
    else:
        raise SqlError(f"FROM {node.sql(dialect='duckdb')[:50]} is not evaluated", node)
    if not items:
        raise SqlError(f"{node.sql(dialect='duckdb')[:50]} has no rows", node)
    values = exp.Values(expressions=[exp.Tuple(expressions=[item]) for item in items])
    found = queries.query(values, outer)
    return found._replace(columns=[(name, value) for _, value in found.columns])


def _series(node: exp.GenerateSeries) -> list[exp.Expr]:
    bounds = []
    for key in ("start", "end", "step"):
        one = node.args.get(key)
        if one is None:
            bounds.append(1 if key == "step" else 0)
            continue
        negative = isinstance(one, exp.Neg)
        literal = one.this if negative else one
        if not isinstance(literal, exp.Literal) or literal.is_string:
            raise SqlError("generate_series takes constant whole numbers", node)
        bounds.append(-int(literal.this) if negative else int(literal.this))
    start, end, step = bounds
    if step == 0:
        raise SqlError("generate_series has a step of 0", node)
    end += 0 if node.args.get("is_end_exclusive") else (1 if step > 0 else -1)
    numbers = range(start, end, step)
    if len(numbers) > SERIES_MAX:
        raise SqlError(f"generate_series of {len(numbers):,} rows: at most {SERIES_MAX:,}, or a table", node)
    bigint = exp.DataType.build("BIGINT")
    plain = (exp.Literal.number(n) if n >= 0 else exp.Neg(this=exp.Literal.number(-n)) for n in numbers)
    return [exp.Cast(this=one, to=bigint) for one in plain]
