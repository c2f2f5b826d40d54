"""Functions of SQL that are rewritten into others before a query is translated; columns keep the names
that were written.

sem(x)                  stddev_pop(x) / sqrt(count(x))
len(list(x))            count(*), and null where no row is
ARRAY(SELECT x ...)     coalesce((SELECT list(x) FROM (SELECT x ...)), [])
(a, b) < (c, d)         a < c OR (a = c AND b < d), where null is a value after all others
"""

from __future__ import annotations

import sqlglot
from sqlglot import exp

from ivm.sql.errors import SqlError, written
from ivm.sql.functions.known import reading
from ivm.sql.naming.names import output_name

_MEAN = "sum(CAST(:x AS DOUBLE)) / count(:x)"
_WEIGHED = "sum(:x * :y) / CAST(sum(CASE WHEN :x IS NOT NULL THEN :y END) AS DOUBLE)"
_POWERS = {n: f"sum({' * '.join(['CAST(:x AS DOUBLE)'] * n)})" for n in (1, 2, 3, 4)}
_N = "CAST(count(:x) AS DOUBLE)"
_M2 = f"(({_POWERS[2]} - {_POWERS[1]} * {_POWERS[1]} / {_N}) / {_N})"
_M3 = f"({_POWERS[3]} - 3 * {_POWERS[2]} * {_MEAN} + 2 * power({_POWERS[1]}, 3) / {_N} / {_N})"
_M4 = (
    f"(({_POWERS[4]} - 4 * {_POWERS[3]} * {_MEAN} + 6 * {_POWERS[2]} * {_MEAN} * {_MEAN} "
    f"- 3 * {_POWERS[1]} * {_MEAN} * {_MEAN} * {_MEAN}) / {_N})"
)
_PEAK = f"({_M4} / nullif({_M2} * {_M2}, 0))"
_SIGN = "(CASE WHEN count_if(:x < 0) % 2 = 1 THEN -1.0 ELSE 1.0 END)"
_PRODUCT = "exp(sum(ln(abs(CAST(nullif(:x, 0) AS DOUBLE)))))"
_TEMPLATES = {
    "mean": "avg(:x)", "favg": "avg(CAST(:x AS DOUBLE))", "fsum": "sum(CAST(:x AS DOUBLE))",
    "kahan_sum": "sum(CAST(:x AS DOUBLE))", "sumkahan": "sum(CAST(:x AS DOUBLE))",
    "arbitrary": "first(:x)", "geometric_mean": "exp(avg(ln(:x)))", "geomean": "exp(avg(ln(:x)))",
    "sem": "stddev_pop(:x) / sqrt(count(:x))", "approx_count_distinct": "count(DISTINCT :x)",
    "wavg": _WEIGHED, "weighted_avg": _WEIGHED,
    "skewness": f"CASE WHEN count(:x) > 2 THEN sqrt({_N} * ({_N} - 1)) / ({_N} - 2) / {_N} * {_M3} "
                f"/ nullif({_M2} * sqrt(greatest({_M2}, 0)), 0) END",
    "kurtosis_pop": f"CASE WHEN count(:x) > 1 THEN {_PEAK} - 3 END",
    "kurtosis": f"CASE WHEN count(:x) > 3 THEN ({_N} - 1) * (({_N} + 1) * {_PEAK} - 3 * ({_N} - "
                f"1)) "
                f"/ (({_N} - 2) * ({_N} - 3)) END",
    "product": f"CASE WHEN count_if(:x = 0) > 0 THEN 0.0 WHEN count_if(:x <> floor(:x)) = 0 AND "
               f"{_PRODUCT} < 9e15 "
               f"THEN {_SIGN} * round({_PRODUCT}) ELSE {_SIGN} * {_PRODUCT} END",
    "list_contains": "bool_or(coalesce(:x = :y, false))",
    "list_has": "bool_or(coalesce(:x = :y, false))",
    "len_distinct": "nullif(count(DISTINCT :x) + max(CASE WHEN :x IS NULL THEN 1 ELSE 0 END), 0)",
    "json_group_array": "to_json(list(:x))",
    "json_group_object": "json('{' || string_agg(to_json(CAST(:x AS VARCHAR)) || ':' || "
                         "coalesce(to_json(:y), 'null'), ',') || '}')",
    "list_sum": "sum(:x)", "list_avg": "avg(:x)", "list_min": "min(:x)", "list_max": "max(:x)",
    "list_count": "count(:x)", "list_unique": "count(DISTINCT :x)", "len": "nullif(count(*), 0)",
}  # fmt: skip
FOLDS = ("mad", "entropy", "histogram")  # aggregates that the parser does not know
_LENGTHS = ("length", "len", "array_length", "list_length", "array_size", "cardinality")
_NODES: dict[type[exp.Expr], str] = {
    exp.ApproxDistinct: "approx_count_distinct", exp.Skewness: "skewness", exp.Kurtosis: "kurtosis",
    exp.ArrayContains: "list_contains",
    exp.Length: "len", exp.ArraySize: "len", exp.ArrayMin: "list_min", exp.ArrayMax: "list_max",
}  # fmt: skip
_DISTINCT = ("mean", "favg", "fsum", "kahan_sum", "sumkahan", "sem")  # of distinct values
# alike of all values and of distinct ones
_ANYHOW = ("approx_count_distinct", "arbitrary", "len_distinct")
_ENDS: dict[type[exp.Expr], type[exp.Expr]] = {exp.FirstValue: exp.First, exp.LastValue: exp.Last}
_PARSED: dict[str, exp.Expr] = {}
_OF_ROWS = "coalesce((SELECT list(value) FROM (SELECT NULL) array_rows(value)), [])"


def plainer(node: exp.Select) -> exp.Select:
    """Return a query with such functions written as others; its columns keep their names."""
    nodes = [*node.walk()]
    for call in nodes:
        if (
            isinstance(call, exp.Anonymous)
            and call.name.lower() in FOLDS
            and call.parent_select is node
        ):
            call.replace(exp.AnonymousAggFunc(this=call.name.lower(), expressions=call.expressions))
    found = [one for one in nodes if _wanted(one) and one.parent_select is node]
    if not found:
        return node
    for item in node.expressions:
        if not isinstance(item, exp.Alias | exp.Column | exp.Star) and any(
            one in found for one in item.walk()
        ):
            item.replace(exp.alias_(item.copy(), output_name(item), quoted=True))
    for one in [one for one in node.walk() if _wanted(one) and one.parent_select is node]:
        _rewrite(one)
    return node


def _wanted(node: exp.Expr) -> bool:
    return (
        _template(node) is not None
        or _tuples(node)
        or _is_of_rows(node)
        or (isinstance(node, exp.ArrayToString) and isinstance(node.this, exp.ArrayAgg))
        or _of_list(node)
        or _is_end(node)
    )


def _is_of_rows(node: exp.Expr) -> bool:
    """Return whether a node is the list of a query's rows, and not one of written values."""
    listed = isinstance(node, exp.Array) and not node.args.get("value_constructor")
    return listed and any(isinstance(item, exp.Query) for item in node.expressions)


def _is_end(node: exp.Expr) -> bool:
    """Return whether a node is first_value or last_value in an order of its own."""
    ends = type(node) in _ENDS and isinstance(node.this, exp.Order)
    return ends and not isinstance(node.parent, exp.IgnoreNulls)


def _template(node: exp.Expr) -> str | None:
    name = node.name.lower() if isinstance(node, exp.Anonymous) else _NODES.get(type(node), "")
    if name in _LENGTHS or name.startswith("list_"):
        if not isinstance(_argument(node), exp.ArrayAgg):
            return None
        if isinstance(_argument(node).this, exp.Distinct):
            return "len_distinct" if name in _LENGTHS else None
        return "len" if name in _LENGTHS else name if name in _TEMPLATES else None
    return name if name in _TEMPLATES else None


def _argument(node: exp.Expr) -> exp.Expr:
    inner: exp.Expr = (
        node.expressions[0] if isinstance(node, exp.Anonymous) and node.expressions else node.this
    )
    return inner


def _of_list(node: exp.Expr) -> bool:
    """Return whether a node sorts a list of an aggregate, or takes its first value."""
    if isinstance(node, exp.ArraySort):
        return isinstance(node.this, exp.ArrayAgg) and not isinstance(node.this.this, exp.Order)
    if not isinstance(node, exp.Bracket) or not isinstance(node.this, exp.ArrayAgg):
        return False
    (place, *more) = node.expressions
    return (
        not more
        and isinstance(place, exp.Literal)
        and place.name == "0"
        and not _is_distinct(node.this)
    )


def _is_distinct(node: exp.Expr) -> bool:
    inner = node.this.this if isinstance(node.this, exp.Order) else node.this
    return isinstance(inner, exp.Distinct)


def _rewrite(node: exp.Expr) -> None:
    if isinstance(node, exp.In):
        equal = [exp.EQ(this=node.this, expression=item) for item in node.expressions]
        node.replace(exp.paren(exp.or_(*map(_compared, equal))))
    elif isinstance(node, _COMPARED):
        node.replace(exp.paren(_compared(node)))
    elif _is_end(node):
        node.replace(_ENDS[type(node)](this=node.this))
    elif isinstance(node, exp.Array):
        query, new = node.expressions[0].unnest(), sqlglot.parse_one(_OF_ROWS, dialect="duckdb")
        next(one for one in new.find_all(exp.Subquery) if one.alias).set("this", query)
        around = node.parent.parent if isinstance(node.parent, exp.Paren) else node.parent
        compared = isinstance(around, exp.Any | exp.All)
        node.replace(exp.Subquery(this=query) if compared else new)
    elif isinstance(node, exp.Bracket):
        node.replace(exp.First(this=node.this.this))
    elif isinstance(node, exp.ArraySort):
        inner = node.this.this
        by = inner.expressions[0] if isinstance(inner, exp.Distinct) else inner
        down = node.args.get("asc") is not None and not node.args["asc"].this
        order = exp.Ordered(
            this=by.copy(), desc=down, nulls_first=bool(node.args["nulls_first"].this)
        )
        node.replace(exp.ArrayAgg(this=exp.Order(this=inner, expressions=[order])))
    elif isinstance(node, exp.ArrayToString):
        inner = node.this.this
        of = inner.this if isinstance(inner, exp.Order) else inner
        of.replace(exp.cast(of.copy(), "VARCHAR"))
        node.replace(exp.GroupConcat(this=node.this.this, separator=node.expression))
    else:
        with reading(node):
            _expand(node)


def _expand(node: exp.Expr) -> None:
    """Replace an aggregate by its template, whose aggregates take over its FILTER or its window."""
    name = _template(node)
    assert name is not None
    if name not in _PARSED:
        _PARSED[name] = sqlglot.parse_one(_TEMPLATES[name], dialect="duckdb")
    new, argument = _PARSED[name].copy(), _argument(node)
    if isinstance(argument, exp.ArrayAgg):
        argument = argument.this.this if isinstance(argument.this, exp.Order) else argument.this
    order = argument.expressions if isinstance(argument, exp.Order) else []
    argument = argument.this if order else argument
    distinct = isinstance(argument, exp.Distinct)
    if distinct:
        argument = argument.expressions[0]
        if name not in _DISTINCT and name not in _ANYHOW:
            shown = written(node)[:60]
            raise SqlError(
                f"{shown}: {name} of distinct values is not kept: take it of a SELECT DISTINCT in "
                f"FROM",
                node,
            )
    second = node.args.get("expression") or (
        node.expressions[1] if len(node.expressions) > 1 else argument
    )
    values = {"x": argument, "y": second}
    for place in [*new.find_all(exp.Placeholder)]:
        place.replace(exp.paren(values[place.name].copy()) if place.name in values else place)
    around: list[exp.Expr] = []
    while isinstance(node.parent, exp.Filter | exp.Window) and node.arg_key == "this":
        around.append(node.parent)
        node = node.parent
    for fold in [one for one in new.walk() if isinstance(one, exp.AggFunc)]:
        if distinct and name in _DISTINCT:
            fold.set("this", exp.Distinct(expressions=[fold.this]))
        if order and isinstance(fold, exp.First):
            fold.set("this", exp.Order(this=fold.this, expressions=order))
        wrapped: exp.Expr = fold.copy()
        for outer in around:
            copy = outer.copy()
            copy.set("this", wrapped)
            wrapped = copy
        if fold is new:
            new = wrapped
        else:
            fold.replace(wrapped)
    node.replace(exp.paren(new))


# -- rows


_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)


def _tuples(node: exp.Expr) -> bool:
    """Return whether a node compares rows of as many values each."""
    if not isinstance(node, (*_COMPARED, exp.In)) or not isinstance(node.this, exp.Tuple):
        return False
    others = node.expressions if isinstance(node, exp.In) else [node.expression]
    width = len(node.this.expressions)
    return bool(others) and all(
        isinstance(other, exp.Tuple) and len(other.expressions) == width for other in others
    )


def _compared(node: exp.Expr) -> exp.Expr:
    pairs = list(zip(node.this.expressions, node.expression.expressions, strict=True))
    if isinstance(node, exp.EQ | exp.NEQ):
        same = exp.and_(*(exp.NullSafeEQ(this=a.copy(), expression=b.copy()) for a, b in pairs))
        return same if isinstance(node, exp.EQ) else exp.not_(same)
    if isinstance(node, exp.GT | exp.GTE):
        pairs = [(b, a) for a, b in pairs]
    found: exp.Expr = exp.Boolean(this=isinstance(node, exp.LTE | exp.GTE))
    for a, b in reversed(pairs):
        same = exp.NullSafeEQ(this=a.copy(), expression=b.copy())
        found = exp.or_(_before(a, b), exp.and_(same, found))
    return found


def _before(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Return the condition that a value comes before another, null after all others."""

    def null(one: exp.Expr) -> exp.Expr:
        return exp.Is(this=one.copy(), expression=exp.Null())

    less = exp.LT(this=left.copy(), expression=right.copy())
    return exp.and_(exp.not_(null(left)), exp.or_(null(right), less))
