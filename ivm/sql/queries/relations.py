"""What a FROM clause may name: tables, subqueries, lists of values and ranges of numbers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from sqlglot import exp

from ivm.sql.errors import SqlError, written
from ivm.sql.functions import times
from ivm.sql.functions.known import reading
from ivm.sql.literals import constant, converted, sql_type
from ivm.sql.naming.names import HIDDEN, text
from ivm.sql.queries import pivot
from ivm.sql.queries.clauses import Rows, Translator
from ivm.sql.queries.scope import Scope, text_of
from ivm.sql.rules import Body, Column, Table
from ivm.sql.terms import Atom, Call, Define, Lit, Typed, Var, variables
from ivm.sql.types import BIGINT, DATE, TIMESTAMP

SERIES_MAX = 10_000  # of moments, each of which is a row that is written out
NUMBERS_MAX = 1 << 24


def rows(queries: Translator, node: exp.Expr, outer: Scope | None) -> Rows:
    """Return the rows of an item of FROM.  Raises SqlError."""
    if node.args.get("pivots"):
        source = node.copy()
        source.set("pivots", None)
        names = [name for name, _ in rows(queries, source, outer).columns]
        if len(node.args["pivots"]) != 1:
            raise SqlError("several PIVOTs of one table: write a subquery for each", node)
        return queries.query(pivot.rewritten(node.args["pivots"][0], source, names), outer)
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
    raise SqlError(f"FROM {written(node)[:50]} is not evaluated", node)


LISTED = exp.GroupConcat, exp.ArrayAgg, exp.First, exp.Last


def in_order_of_rows(select: exp.Select) -> exp.Select:
    """Return a query whose aggregates without ORDER BY list rows in the order of the subquery that
    it reads alone.

    SELECT list(x) FROM (SELECT x FROM t ORDER BY y DESC) becomes
    SELECT list(x ORDER BY o DESC) FROM (SELECT x, y AS o FROM t ORDER BY y DESC)
    """
    if _ordered_source(select) is None or not any(_lacks_order(select)):
        return select
    select = select.copy()
    inner = _ordered_source(select)
    assert inner is not None
    items, by = inner.expressions, inner.args["order"].expressions
    renamed = dict(enumerate(inner.parent.alias_column_names if inner.parent else ()))
    named = [
        (item, renamed.get(place, item.alias_or_name))
        for place, item in enumerate(items)
        if isinstance(item, exp.Alias | exp.Column) and item.output_name
    ]
    outputs = {text_of(item.unalias()): name for item, name in named}
    outputs |= {item.alias_or_name: name for item, name in named}
    if isinstance(by[0].this, exp.Var):  # ORDER BY ALL
        by = [exp.Ordered(**{**by[0].args, "this": item.unalias()}) for item in items]
    order = []
    for n, ordered in enumerate(by):
        key = ordered.this
        key = items[int(key.name) - 1].unalias() if key.is_int else key
        if (name := outputs.get(text_of(key), "")) == "":
            name = f"order:{n}"
            inner.select(exp.alias_(key.copy(), name, quoted=True), copy=False)
        column = exp.column(exp.to_identifier(name, quoted=True))
        order.append(exp.Ordered(**{**ordered.args, "this": column}))
    for fold in _lacks_order(select):
        fold.set("this", exp.Order(this=fold.this, expressions=[key.copy() for key in order]))
    return select


def _ordered_source(select: exp.Select) -> exp.Select | None:
    """Return the subquery that a query reads alone, if it has an ORDER BY of expressions."""
    source = select.args.get("from_")
    inner = source.this.this if source and isinstance(source.this, exp.Subquery) else None
    if not isinstance(inner, exp.Select) or select.args.get("joins") or inner.args.get("distinct"):
        return None
    by = inner.args["order"].expressions if inner.args.get("order") else []
    columns = range(1, len(inner.expressions) + 1)
    return (
        inner if by and all(not k.this.is_int or int(k.this.name) in columns for k in by) else None
    )


def _lacks_order(select: exp.Select) -> Iterator[exp.Expr]:
    """Yield the aggregates of a query that list rows, and in no order of their own."""
    for fold in select.find_all(*LISTED):
        placed = isinstance(fold.parent, exp.Window | exp.WithinGroup | exp.IgnoreNulls)
        ordered = isinstance(fold.this, exp.Order | exp.Distinct)
        if fold.parent_select is select and not placed and not ordered:
            yield fold


def spread(node: exp.Select) -> exp.Select:
    """Return a query with `unnest` of a constant list in its select list as one of its tables."""
    explodes = [
        explode
        for item in node.expressions
        for explode in item.find_all(exp.Explode)
        if explode.parent_select is node
    ]
    if all(
        isinstance(one.parent, exp.Select) and isinstance(one.this, exp.Struct) for one in explodes
    ):
        return _fields(node) if explodes else node
    if (
        len(explodes) > 1
        or node.args.get("group")
        or any(item.find(exp.AggFunc, exp.Window) for item in node.expressions)
    ):
        raise SqlError(
            "unnest in a select list is kept once, without groups and windows: write it in FROM",
            explodes[-1],
        )
    new = node.copy()
    (place,) = [
        explode
        for item in new.expressions
        for explode in item.find_all(exp.Explode)
        if explode.parent_select is new
    ]
    if type(place) is not exp.Explode:
        shown = written(place)[:50]
        raise SqlError(
            f"{shown} is not evaluated: write FROM unnest(...) WITH ORDINALITY for the places",
            place,
        )
    if place.expressions:
        shown = place.expressions[0].sql(dialect="duckdb")
        raise SqlError(
            f"unnest takes one list, and no {shown}: unnest what it gives once more", place
        )
    alias = exp.TableAlias(
        this=exp.to_identifier(HIDDEN, True), columns=[exp.to_identifier("value")]
    )
    table = exp.Unnest(expressions=[place.this.copy()], alias=alias)
    column: exp.Expr = exp.column("value", HIDDEN, quoted=True)
    if place.parent is new:
        items = place.this.expressions if isinstance(place.this, exp.Array) else None
        shown = text(place.this) if items is None else f"list_value({', '.join(map(text, items))})"
        column = exp.alias_(column, f"unnest({shown})", quoted=True)
    place.replace(column)
    if new.args.get("from_"):
        return new.join(table, join_type="cross", copy=False)
    return new.from_(table, copy=False)


def _fields(node: exp.Select) -> exp.Select:
    """Return a query with `unnest({'a': x})` in its select list as the columns of the struct."""
    new, items = node.copy(), list[exp.Expr]()
    for item in new.expressions:
        pairs = item.this.expressions if isinstance(item, exp.Explode) else ()
        items += [exp.alias_(one.expression, one.this.name, quoted=True) for one in pairs] or [item]
    new.set("expressions", items)
    return new


def _function(queries: Translator, node: exp.Expr, outer: Scope | None) -> Rows:
    """`generate_series(1, 9)`, `range(10)` and `unnest([1, 2])`: constants as VALUES, others by
    the rows around.
    """
    inner = node.expressions[0] if isinstance(node, exp.Unnest) else node
    if isinstance(node, exp.Unnest) and len(node.expressions) > 1:
        raise SqlError(f"{written(node)[:50]}: unnest takes one list", node.expressions[1])
    with reading(inner):
        return _of_list(queries, node, inner, outer)


def _of_list(queries: Translator, node: exp.Expr, inner: exp.Expr, outer: Scope | None) -> Rows:
    name, place = "unnest", _ordinality(node)
    if isinstance(inner, exp.GenerateSeries | exp.GenerateDateArray | exp.GenerateTimestampArray):
        name = "range" if inner.args.get("is_end_exclusive") else "generate_series"
        bounds = [inner.args.get(key) for key in ("start", "end", "step")]
        if not all(part is None or _is_constant(part) for part in bounds):
            if place:
                raise SqlError(
                    "generate_series of columns is kept without WITH ORDINALITY: compute it as the "
                    "number less the first one, plus 1",
                    node,
                )
            return _counted_up(queries, inner, outer, name)
        if not _is_moment(bounds[0]):
            return _numbers(queries, inner, outer, name, place)
        items = _moments(inner)
    elif isinstance(inner, exp.Split):
        return queries.query(_pieces(inner, place), outer)
    elif isinstance(inner, exp.Array):
        items = list(inner.expressions)
    elif isinstance(node, exp.Unnest):
        return queries.query(_members(inner, place), outer)
    else:
        raise SqlError(f"FROM {written(node)[:50]} is not evaluated", node)
    if not items:
        raise SqlError(f"{written(node)[:50]} has no rows", node)
    tuples = [
        [item, exp.cast(str(number), BIGINT.name)] if place else [item]
        for number, item in enumerate(items, 1)
    ]
    table = queries.query(
        exp.Values(expressions=[exp.Tuple(expressions=part) for part in tuples]), outer
    )
    columns = [value for _, value in table.columns]
    return table._replace(columns=[*zip([name, place], columns, strict=False)])


def _ordinality(node: exp.Expr) -> str:
    """Return the name of the column that WITH ORDINALITY adds, empty if there is none."""
    offset = node.args.get("offset")
    return offset.name if isinstance(offset, exp.Expr) else "ordinality" if offset else ""


def _pieces(node: exp.Split, place: str) -> exp.Select:
    """Return a query of the parts of a text between separators: as many as these, and one more."""
    text, separator = node.this, node.expression
    if not isinstance(separator, exp.Literal) or not separator.name:
        raise SqlError("unnest of string_split takes a constant separator", node)
    left = exp.Length(
        this=exp.func(
            "replace", text.copy(), separator.copy(), exp.Literal.string(""), dialect="duckdb"
        )
    )
    cut = exp.paren(exp.Sub(this=exp.Length(this=text.copy()), expression=left))
    count = exp.IntDiv(this=cut, expression=exp.Literal.number(len(separator.name)))
    last = exp.Add(this=count, expression=exp.Literal.number(1))
    part = exp.SplitPart(
        this=text.copy(), delimiter=separator.copy(), part_index=exp.column("place", "pieces")
    )
    return _counted_from_1(part, last, place)


def _members(node: exp.Expr, place: str) -> exp.Select:
    """Return a query of the values of a list: as many as its length says."""
    part = exp.Anonymous(
        this="list_extract", expressions=[node.copy(), exp.column("place", "pieces")]
    )
    return _counted_from_1(part, exp.Length(this=node.copy()), place)


def _counted_from_1(part: exp.Expr, last: exp.Expr, place: str) -> exp.Select:
    """Return a query of an expression for each `pieces.place` from 1 to the last; `place` names
    a column of these.
    """
    alias = exp.TableAlias(this=exp.to_identifier("pieces"), columns=[exp.to_identifier("place")])
    table = exp.Unnest(
        expressions=[exp.GenerateSeries(start=exp.Literal.number(1), end=last)], alias=alias
    )
    places = [exp.alias_(exp.column("place", "pieces"), place, quoted=True)] if place else []
    return exp.select(exp.alias_(part, "unnest"), *places).from_(table)


def _counted_up(queries: Translator, node: exp.Expr, outer: Scope | None, name: str) -> Rows:
    """Return the numbers from a value of the rows around to another.

    v:part1(low, high, n) <- rows(low, high), n = int:range[low, high + 1, 1].
    """
    builder, outer = queries.builder, outer or Scope(Body())
    step = _whole(node.args.get("step"), 1, node)
    if step != 1:
        raise SqlError("generate_series of columns is kept with a step of 1", node)
    bounds = []
    for key in ("start", "end"):
        given = node.args.get(key)
        value = (
            queries.expressions(outer).value(given)
            if given is not None
            else Typed(Lit(0, "int64"), BIGINT, False)
        )
        if not value.type.is_integer:
            raise SqlError(f"generate_series takes whole numbers, and this is {value.type}", node)
        if key == "end" and node.args.get("is_end_exclusive"):
            value = value._replace(term=Call("-", (value.term, Lit(1, "int64"))))
        bounds.append(builder.bound(outer.body, value))
    columns = tuple(Column(n, BIGINT, False) for n in ("low", "high", "n"))
    table, first = Table(builder.helper(), columns, (0, 1, 2)), Body()
    n = builder.variable(BIGINT, False).term
    assert isinstance(n, Var)
    values = builder.stored(outer.body, [("low", bounds[0]), ("high", bounds[1])], distinct=True)
    around = len(values.columns) - 2
    low, high = (v.term for v in builder.scan(values, first)[around:])
    first.required |= {*variables(low, high)}
    end = Call("+", (high, _word(1)))
    first.literals.append(Define(n, Call("int:range", (low, end, _word(1)))))
    builder.rule(Atom(table.name, (low, high, n)), first)
    body = Body(outer.body)
    return Rows(body, [(name, builder.scan(table, body, bounds)[-1])])


def _numbers(
    queries: Translator, node: exp.Expr, outer: Scope | None, name: str, place: str
) -> Rows:
    """Return the numbers from a constant to another, by a view of them: v:part1(n) <- n =
    int:range[1, 10, 1].
    """
    start, end, step = (
        _whole(node.args.get(key), 1 if key == "step" else 0, node)
        for key in ("start", "end", "step")
    )
    if step == 0:
        raise SqlError("generate_series has a step of 0", node)
    end += 0 if node.args.get("is_end_exclusive") else (1 if step > 0 else -1)
    _refuse_many(len(range(start, end, step)), NUMBERS_MAX, node)
    builder, body = queries.builder, Body(outer.body if outer else None)
    (number,) = builder.scan(builder.numbers(start, end, step), body)
    if not place:
        return Rows(body, [(name, number)])
    away = Call("/", (Call("-", (number.term, _word(start))), _word(step)))
    nth = builder.define(body, number._replace(term=Call("+", (away, _word(1)))))
    return Rows(body, [(name, number), (place, nth)])


def _word(number: int) -> Lit:
    return Lit(number, "int64")


def _is_constant(node: exp.Expr) -> bool:
    """Return whether a bound is written out: a number, a moment or an interval."""
    if isinstance(node, exp.Cast | exp.Interval):
        return node.find(exp.Column) is None
    return isinstance(node.this if isinstance(node, exp.Neg) else node, exp.Literal)


def _whole(node: exp.Expr | None, default: int, where: exp.Expr) -> int:
    """Return a constant whole number.  Raises SqlError."""
    if node is None:
        return default
    term = getattr(constant(node), "term", None)
    if not isinstance(term, Lit) or not isinstance(term.value, int):
        raise SqlError("generate_series takes constant whole numbers", where)
    return term.value


def _refuse_many(rows_: int, most: int, node: exp.Expr) -> None:
    if rows_ > most:
        raise SqlError(f"generate_series of {rows_:,} rows: at most {most:,}, or a table", node)


def _is_moment(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Cast) and sql_type(node.to) in (DATE, TIMESTAMP)


def _moments(node: exp.Expr) -> list[exp.Expr]:
    """Return the timestamps from one to another by an interval."""
    start, end = (_timestamp(node.args[key]) for key in ("start", "end"))
    step = node.args.get("step")
    if not isinstance(step, exp.Interval):
        raise SqlError("generate_series of dates takes an INTERVAL", node)
    unit, count = times.constant_interval(step)
    if count <= 0:
        raise SqlError("generate_series of dates goes forward, by a constant INTERVAL", node)
    moments: list[exp.Expr] = []
    while len(moments) <= SERIES_MAX:
        now = times.later(start, unit, count * len(moments))
        if now > end or (now == end and node.args.get("is_end_exclusive")):
            break
        moments.append(
            exp.Cast(this=exp.Literal.string(str(now)), to=exp.DataType.build("TIMESTAMP"))
        )
    _refuse_many(len(moments), SERIES_MAX, node)
    return moments


def _timestamp(node: exp.Expr) -> datetime:
    value = constant(node.this if isinstance(node, exp.Cast) else node)
    term = None if value is None else converted(value, TIMESTAMP, node).term
    if not isinstance(term, Lit) or not isinstance(term.value, datetime):
        raise SqlError("generate_series of dates takes constants", node)
    return term.value
