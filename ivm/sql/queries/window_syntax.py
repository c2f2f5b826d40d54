"""What a window function says: the window that it names, its arguments, and an order among them."""

from sqlglot import exp

from ivm.sql.errors import SqlError
from ivm.sql.queries.aggregates import WINDOW_ONLY
from ivm.sql.queries.folds import kinds
from ivm.sql.queries.folds.aggregate import Wanted, argument_of


def with_named(node: exp.Window, named: dict[str, exp.Expr]) -> exp.Window:
    """Return a window with what the one that it names has and it lacks.  Raises SqlError if none
    has the name.
    """
    alias = node.args.get("alias")
    if alias is None:
        return node
    name = alias.name.lower()
    if name not in named:
        raise SqlError(f"no window {alias.name} is defined: add WINDOW {alias.name} AS (...)", node)
    whole = node.copy()
    for key in ("partition_by", "order", "spec"):
        if not whole.args.get(key):
            whole.set(key, named[name].args.get(key))
    return whole


def inputs_of(one: Wanted) -> list[exp.Expr]:
    """Return the expressions that an aggregate reads, without constants."""
    inner = argument_of(one.node)
    inner = inner.this if isinstance(inner, exp.Order) else inner
    parts = inner.expressions if isinstance(inner, exp.Distinct) else [inner]
    if isinstance(one.node, (exp.ArgMax, exp.ArgMin, *kinds.PAIRS)) or isinstance(
        one.node.expression, exp.Column
    ):
        parts = [*parts, one.node.expression]
    found = [
        part
        for one_ in parts
        for part in (one_.expressions if isinstance(one_, exp.Tuple) else [one_])
    ]
    found += [o.this for o in one.order]
    return [
        node for node in found if node is not None and not isinstance(node, exp.Star | exp.Literal)
    ]


def refuse_own_order(function: exp.Expr) -> None:
    """Raise SqlError for an ORDER BY among the arguments of a function that is not an aggregate."""
    inner = function.this if isinstance(function, exp.IgnoreNulls | exp.RespectNulls) else function
    if isinstance(inner, WINDOW_ONLY) and any(
        isinstance(one, exp.Order) for one in inner.iter_expressions()
    ):
        name = str(inner.meta.get("name") or inner.sql_name()).lower()
        raise SqlError(
            f"{name} takes no ORDER BY among its arguments: write it as OVER (... ORDER BY ...)",
            inner,
        )
