"""Clauses of Spark's queries that DuckDB writes otherwise: LATERAL VIEW, and GROUP BY with
ROLLUP or CUBE.
"""

from __future__ import annotations

from sqlglot import exp

from ivm.sql.dialects.table import duckdb
from ivm.sql.errors import SqlError

KINDS = ("explode", "explode_outer", "posexplode", "posexplode_outer")
BY_PLACE = "(SELECT {n} - 1 AS {place}, {value} FROM UNNEST(:l) WITH ORDINALITY {t}({value}, {n}))"


def lateral_views(node: exp.Select) -> None:
    """Make LATERAL VIEW a join with UNNEST; OUTER keeps rows whose list is empty or null."""
    views = node.args.get("laterals") or []
    node.set("laterals", None)
    for number, view in enumerate(views):
        node.append("joins", _join(view, number))


def _join(view: exp.Lateral, number: int) -> exp.Join:
    call = view.this
    kind = call.name.lower() if isinstance(call, exp.Anonymous) else ""
    if kind not in KINDS or len(call.expressions) != 1:
        raise SqlError(f"LATERAL VIEW takes {', '.join(KINDS)} of a list", view)
    by_place, outer = kind.startswith("pos"), view.args.get("outer") or kind.endswith("outer")
    alias = view.args.get("alias") or exp.TableAlias()
    names = [column.name for column in alias.columns] or (["pos", "col"] if by_place else ["col"])
    if len(names) != 1 + by_place:
        raise SqlError(f"{kind} has {1 + by_place} columns, and {len(names)} names", view)
    table = alias.this or exp.to_identifier(f"lateral_{number}")
    rows = (
        _places(call.expressions[0], names)
        if by_place
        else exp.Unnest(expressions=[call.expressions[0].copy()])
    )
    columns = [] if by_place else [exp.to_identifier(names[0], quoted=True)]
    rows.set("alias", exp.TableAlias(this=table.copy(), columns=columns))
    return (
        exp.Join(this=rows, side="LEFT", on=exp.true())
        if outer
        else exp.Join(this=rows, kind="CROSS")
    )


def _places(values: exp.Expr, names: list[str]) -> exp.Lateral:
    """Return the values of a list with their places, which count from 0."""
    place, value = (exp.to_identifier(name, quoted=True).sql("duckdb") for name in names)
    text = BY_PLACE.format(n='"$n"', place=place, value=value, t='"$t"').replace("$", "pos_")
    inner = duckdb(text, {"l": values})
    return exp.Lateral(this=inner if isinstance(inner, exp.Subquery) else exp.Subquery(this=inner))


def with_rollup(node: exp.Group) -> None:
    """Make GROUP BY a, b WITH ROLLUP one of ROLLUP(a, b), and WITH CUBE alike."""
    for key, kind in (("rollup", exp.Rollup), ("cube", exp.Cube)):
        given = node.args.get(key)
        if given and not any(item.expressions for item in given):
            node.set(key, None)
            node.set("expressions", [kind(expressions=[item.copy() for item in node.expressions])])
