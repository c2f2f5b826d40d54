"""Lists as rows: what takes the values of a list one by one, as a subquery over UNNEST.

    x > ANY (l)                           x > ANY (SELECT unnest(l))
    list_transform(l, lambda x: x + 1)    (SELECT list(x + 1 ORDER BY place) FROM unnest(l) WITH ORDINALITY u(x, place))
    list_filter(l, lambda x: x > 1)       (SELECT list(x ORDER BY place) FROM ... WHERE x > 1)
    [x + 1 FOR x IN l IF x > 1]           (SELECT list(x + 1 ORDER BY place) FROM ... WHERE x > 1)

A list without values has such a list, and NULL has NULL.
"""

from __future__ import annotations

from itertools import count

import sqlglot
from sqlglot import exp

from ivm.sql.errors import SqlError, written
from ivm.sql.queries.scope import inner_query

TRANSFORMS = ("list_transform", "list_apply", "array_transform", "array_apply", "apply")
FILTERS = ("list_filter", "array_filter", "filter")
TEMPLATE = """CASE WHEN :list IS NOT NULL THEN coalesce(
    (SELECT list(:value ORDER BY {u}.place) FROM unnest(:rows) WITH ORDINALITY {u}(member, place) WHERE :test),
    []) END"""


def of_members(node: exp.Expr) -> exp.Expr | None:
    """Return a function of a function, or a comprehension, as a subquery; None for any other
    node.  Raises SqlError.
    """
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    if name in ("list_reduce", "array_reduce", "reduce"):
        raise SqlError(
            f"{name} is not kept: write (SELECT sum(x) FROM unnest(l) u(x)), or what else it folds",
            node,
        )
    if (
        isinstance(node, exp.Array)
        and node.expressions
        and isinstance(node.expressions[0], exp.Comprehension)
    ):
        (inner,) = node.expressions
        names = [
            node.name for node in (inner.expression, inner.args.get("position")) if node is not None
        ]
        return _rows(node, inner.args["iterator"], names, inner.this, inner.args.get("condition"))
    if isinstance(node, exp.Transform | exp.ArrayFilter):
        given, filters = [node.this, node.expression], isinstance(node, exp.ArrayFilter)
    elif name in TRANSFORMS + FILTERS:
        given, filters = node.expressions, name in FILTERS
    else:
        return None
    if len(given) != 2 or not isinstance(given[1], exp.Lambda):
        raise SqlError(f"{written(node)[:60]}: write list_transform(l, lambda x: x + 1)", node)
    names = [parameter.name for parameter in given[1].expressions]
    value, test = (exp.to_identifier(names[0]), given[1].this) if filters else (given[1].this, None)
    return _rows(node, given[0], names, value, test)


def _rows(
    node: exp.Expr, of: exp.Expr, names: list[str], value: exp.Expr, test: exp.Expr | None
) -> exp.Expr:
    """Return the list of a value for each member of another that passes a test; `names`: the
    member's, its place's.
    """
    if of.find(exp.AggFunc):
        raise SqlError(
            "the list of a group has no function of its values here: take it in a subquery in FROM",
            node,
        )
    taken = {column.table for column in node.find_all(exp.Column)}
    table = next(name for n in count(1) if (name := f"members{n}") not in taken)
    columns = {
        name: exp.column(own, table) for name, own in zip(names, ("member", "place"), strict=False)
    }
    # the values themselves, or by their places
    rows = of if isinstance(of, exp.Array) else exp.paren(of.copy())
    parts = {
        "list": of,
        "rows": rows,
        "value": _with(value, columns),
        "test": _with(test or exp.true(), columns),
    }
    tree = sqlglot.parse_one(TEMPLATE.format(u=table), dialect="duckdb")
    for place in [*tree.find_all(exp.Placeholder)]:
        place.replace(parts[place.name].copy())
    return tree


def _with(node: exp.Expr, columns: dict[str, exp.Column]) -> exp.Expr:
    """Return an expression in which parameters of a function are columns."""

    def replaced(one: exp.Expr) -> exp.Expr:
        if isinstance(one, exp.Column):
            known = not one.table and one.name in columns
        else:
            known = isinstance(one, exp.Identifier) and one.name in columns and not _is_name(one)
        return columns[one.name].copy() if known and not _is_bound(one) else one

    return node.copy().transform(replaced)


def _is_name(node: exp.Identifier) -> bool:
    """Return whether an identifier is of a column, or a field's name, and not a parameter."""
    return isinstance(node.parent, exp.Column | exp.Alias) or (
        isinstance(node.parent, exp.Dot) and node.arg_key == "expression"
    )


def _is_bound(node: exp.Expr) -> bool:
    """Return whether a name is a parameter of a function further inside."""
    around = node.parent
    while around is not None:
        if isinstance(around, exp.Lambda) and node.name in [one.name for one in around.expressions]:
            return True
        around = around.parent
    return False


def as_query(node: exp.Expr) -> exp.Expr:
    """Return the query of ANY or ALL, a member of a list if a list is written there."""
    inner = inner_query(node.this)
    if isinstance(inner, exp.Query):
        return inner
    return exp.select(exp.Explode(this=exp.paren(inner.copy())))
