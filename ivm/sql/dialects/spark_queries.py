"""Clauses of Spark's queries that DuckDB writes otherwise: functions that give rows, in LATERAL
VIEW, SELECT and FROM, and GROUP BY with ROLLUP, CUBE or GROUPING SETS after its columns.
"""

from __future__ import annotations

from sqlglot import exp

from ivm.sql.dialects.table import duckdb
from ivm.sql.errors import SqlError
from ivm.sql.naming.names import HIDDEN

UNNESTED = "(SELECT {} FROM UNNEST({}) WITH ORDINALITY rows_u(rows_e, rows_n))"
LISTS = {
    "explode": UNNESTED.format("rows_e AS col", ":a0"),
    "posexplode": UNNESTED.format("rows_n - 1 AS pos, rows_e AS col", ":a0"),
    "inline": UNNESTED.format("rows_e.*", ":a0"),
}
MAPS = {
    "explode": UNNESTED.format("rows_e.*", "map_entries(:a0)"),
    "posexplode": UNNESTED.format("rows_n - 1 AS pos, rows_e.*", "map_entries(:a0)"),
}
KINDS = (*LISTS, *(f"{name}_outer" for name in LISTS), "stack", "range")


def rows_of_calls(node: exp.Select) -> None:
    """Make functions that give rows joins with these; OUTER keeps rows whose list is empty or
    null.  Raises SqlError.
    """
    node.set("hint", None)
    for part in (node.args.get("from_"), *(node.args.get("joins") or ())):
        if part and isinstance(part.this.this, exp.Anonymous):
            part.set("this", _rows(part.this.this, part.this.args.get("alias") or exp.TableAlias()))
    views = node.args.get("laterals") or []
    node.set("laterals", None)
    for view in views:
        _join(node, view.this, view.args.get("alias") or exp.TableAlias(), view.args.get("outer"))
    for item in node.expressions:
        call = item.this if isinstance(item, exp.Alias | exp.Aliases) else item
        if isinstance(call, exp.Anonymous) and call.name.lower() in KINDS:
            item.replace(_chosen(node, item, call))


def _chosen(node: exp.Select, item: exp.Expr, call: exp.Anonymous) -> exp.Expr:
    """Return what stands for a call that SELECT lists: the columns of its rows."""
    names = [*item.expressions] if isinstance(item, exp.Aliases) else []
    if isinstance(item, exp.Alias) and "(" not in item.alias:
        names = [item.args["alias"]]
    if call.name.lower() == "explode" and len(names) < 2 and not _is_map(call):
        return exp.alias_(
            duckdb("unnest(:l)", {"l": call.expressions[0]}, call), item.alias or "col"
        )
    if node.args.get("group") or call.find(exp.AggFunc, exp.Window):
        raise SqlError(f"{call.name} of groups or windows: take these in a subquery in FROM", call)
    name = _join(node, call, exp.TableAlias(columns=names), False)
    return exp.column(exp.Star(), exp.to_identifier(name, quoted=True))


def _join(node: exp.Select, call: exp.Expr, alias: exp.TableAlias, outer: bool) -> str:
    """Join a query with the rows of a call, and return the name of these."""
    if alias.this is None:
        name = f"{HIDDEN} {len(node.args.get('joins') or ())}"
        alias.set("this", exp.to_identifier(name, quoted=True))
    rows = _rows(call, alias)
    if node.args.get("from_") is None:
        node.set("from_", exp.From(this=rows))
    elif outer or call.name.lower().endswith("_outer"):
        node.append("joins", exp.Join(this=rows, side="LEFT", on=exp.true()))
    else:
        node.append("joins", exp.Join(this=rows, kind="CROSS"))
    return alias.name


def _rows(call: exp.Expr, alias: exp.TableAlias) -> exp.Expr:
    """Return a table of the rows of a call.  Raises SqlError."""
    kind = call.name.lower().removesuffix("_outer") if isinstance(call, exp.Anonymous) else ""
    if kind not in KINDS or not call.expressions:
        raise SqlError(f"what gives rows is {', '.join(KINDS)}", call)
    given = {f"a{n}": value for n, value in enumerate(call.expressions)}
    if kind == "stack":
        text = _stacked(call, [*given])
    elif kind == "range":
        text = f"(SELECT rows_e AS id FROM range({', '.join(f':{name}' for name in given)}) rows_u(rows_e))"
    else:
        pair = len(alias.columns) == (3 if kind == "posexplode" else 2)
        text = (MAPS if kind in MAPS and (pair or _is_map(call)) else LISTS)[kind]
    rows = exp.Lateral(this=duckdb(text, given))
    rows.set("alias", alias.copy())
    return rows


def _is_map(call: exp.Expr) -> bool:
    """Return whether a map is written as the argument of a call."""
    return bool(call.expressions) and isinstance(call.expressions[0].unnest(), exp.ToMap | exp.Map)


def _stacked(call: exp.Expr, names: list[str]) -> str:
    """Return the query of `stack(n, ...)`, n rows of values one after the other."""
    count = int(call.expressions[0].name) if call.expressions[0].is_int else 0
    if count < 1:
        raise SqlError("stack takes a number of rows that is written out, and their values", call)
    values = [f":{name}" for name in names[1:]]
    width = -(-len(values) // count)
    values += ["NULL"] * (count * width - len(values))
    rows = (
        ", ".join(f"{values[row * width + n]} AS col{n}" for n in range(width))
        for row in range(count)
    )
    return f"({' UNION ALL '.join(f'SELECT {row}' for row in rows)})"


def groups(node: exp.Group) -> None:
    """Make GROUP BY a, b WITH ROLLUP one of ROLLUP(a, b), and WITH CUBE alike; the columns before
    GROUPING SETS are those of the sets.
    """
    for key, kind in (("rollup", exp.Rollup), ("cube", exp.Cube)):
        given = node.args.get(key)
        if given and not any(item.expressions for item in given):
            node.set(key, None)
            node.set("expressions", [kind(expressions=[item.copy() for item in node.expressions])])
    if given := node.args.get("grouping_sets"):
        node.set("grouping_sets", None)
        node.set("expressions", given)


def grouping_id(node: exp.Anonymous) -> exp.Expr:
    """grouping_id() of several sets of groups."""
    select = node.find_ancestor(exp.Select)
    group = select and select.args.get("group")
    if not group or group.find(exp.GroupingSets, exp.Rollup, exp.Cube) is None:
        raise SqlError("grouping_id is of GROUPING SETS, ROLLUP and CUBE: leave it out", node)
    return exp.GroupingId(expressions=node.expressions)


def grouping_column(node: exp.Column) -> exp.Expr | None:
    """grouping__id, a number of the set of groups."""
    return exp.GroupingId() if node.name.lower() == "grouping__id" and not node.table else None


def counted_or_null(node: exp.Pivot) -> None:
    """PIVOT, whose aggregates are null where no row has the value."""
    for item in (
        node.expressions if node.args.get("fields") and not node.args.get("unpivot") else ()
    ):
        fold = item.this if isinstance(item, exp.Alias) else item
        new = duckdb("CASE WHEN count(*) > 0 THEN :x END", {"x": fold})
        item.replace(exp.alias_(new, item.alias) if item.alias else new)
