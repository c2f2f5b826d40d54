"""Subqueries in conditions and values.

    EXISTS (SELECT ... WHERE u.k = t.k)     v:part1(k) <- u[k] = _.        and then the atom v:part1(k)
    NOT EXISTS (...)                        !(u[k] = _)                    in place, if it has no aggregate
    a IN (SELECT b ...)                     v:part1(b) <- ...              and then the atom v:part1(a)
    a NOT IN (SELECT b ...)                 none is a, no b is null, and there is no row if a is null
    (SELECT max(b) ... WHERE u.k = t.k)     v:part1[k] = m <- ...          null for keys without a row

A scalar subquery of several rows for one key is an error of the transaction that brings them, as a
function has one value for each key.
"""

from __future__ import annotations

from sqlglot import exp

from ivm.names import ONE
from ivm.sql.conversions import alike
from ivm.sql.errors import SqlError
from ivm.sql.queries.aggregates import aggregates_in
from ivm.sql.queries.clauses import Rows, Translator
from ivm.sql.queries.expressions import conjuncts
from ivm.sql.queries.scope import Scope, inner_query
from ivm.sql.rules import Body, column_of, is_null
from ivm.sql.terms import Atom, Call, Define, Lit, Literal, Not, Test, Typed, Var
from ivm.sql.types import BOOLEAN, INTEGER

ONE_ZERO = (Lit(1, "int64"), Lit(0, "int64"))
UNLIKE = ("limit", "offset", "qualify", "having", "with_", "with")  # clauses that see single rows


def exists(queries: Translator, node: exp.Expr, scope: Scope, wanted: bool) -> list[Literal]:
    """Return literals that hold where a subquery has a row, or has none."""
    query = inner_query(node).copy()
    if (
        isinstance(query, exp.Select)
        and query.args.get("group") is None
        and not query.find(exp.AggFunc)
    ):
        query.set("order", None)
        query.set("distinct", None)
        if not any(isinstance(item, exp.Star) for item in query.expressions):
            query.set("expressions", [exp.Literal.number(1)])
        _by_extremes(query, scope)
    rows = queries.query(query, scope)
    return [_some(queries, rows.body, scope, []) if wanted else _none(queries, rows.body)]


def _by_extremes(query: exp.Select, scope: Scope) -> None:
    """Let a query of EXISTS for rows that differ in one column compare the least and the greatest
    of each key, so that the rows of a key are not joined with each other.

    `u.k = t.k AND u.v <> t.v` is `u.k = t.k GROUP BY u.k HAVING min(u.v) <> t.v OR max(u.v) <> t.v`.
    """
    where, start = query.args.get("where"), query.args.get("from_") or query.args.get("from")
    if not (where and start) or any(query.args.get(key) for key in UNLIKE):
        return
    joins, parts = query.args.get("joins") or (), conjuncts(where.this)
    inside = {joined.this.alias_or_name.lower() for joined in (start, *joins)}
    keys, differ = list[exp.Column](), list[tuple[exp.Expr, exp.Column, exp.Column]]()
    for part in parts:
        tables = {column.table.lower() for column in part.find_all(exp.Column)}
        if "" in tables or part.find(exp.Query):
            return  # of any table
        if inside.issuperset(tables):
            continue
        sides = (part.this, part.args.get("expression"))
        inner = [s for s in sides if isinstance(s, exp.Column) and s.table.lower() in inside]
        outer = [s for s in sides if isinstance(s, exp.Column) and s.table.lower() not in inside]
        if len(inner) != 1 or len(outer) != 1 or type(part) not in (exp.EQ, exp.NEQ):
            return
        if isinstance(part, exp.EQ):
            keys += inner
        else:
            differ.append((part, inner[0], outer[0]))
    known = scope.own(differ[0][2]) if len(differ) == 1 else None
    if known is None or known.type == BOOLEAN or known.type.is_nested or known.type.is_float:
        return
    ((test, value, other),) = differ
    query.set("expressions", [exp.Literal.number(1)])
    query.set("where", None)
    query.where(*(part for part in parts if part is not test), copy=False)
    query.group_by(*keys, copy=False)
    ends = (exp.Min(this=value.copy()), exp.Max(this=value.copy()))
    query.having(exp.or_(*(exp.NEQ(this=end, expression=other.copy()) for end in ends)), copy=False)


def _none(queries: Translator, body: Body) -> Literal:
    builder = queries.builder
    required = builder.names_of(body.required)
    marks = tuple(Atom("", (Var(name),)) for name in sorted(required))
    renamed = builder.apart([*body.literals, *marks], {*_around(body)})
    literals, marks = renamed[: len(body.literals)], renamed[len(body.literals) :]  # type: ignore[assignment]
    return Not(literals, frozenset(m.keys[0].name for m in marks))  # type: ignore[union-attr]


def _around(body: Body) -> list[str]:
    outer, names = body.outer, list[str]()
    while outer is not None:
        names += outer.columns
        outer = outer.outer
    return names


def _some(queries: Translator, body: Body, scope: Scope, values: list[Typed]) -> Literal:
    """Return an atom that holds where a body has a row, with some of its values as last ones."""
    builder = queries.builder
    around = builder.carried(body, [v.term for v in values])
    if not around and not values:
        builder.uses_one = True
        body.literals.append(Atom(ONE, (Var("_x0"),)))
        body.columns["_x0"] = builder.variable(INTEGER, False)._replace(term=Var("_x0"))
        values = [body.columns["_x0"]]
        table = builder.stored(body, [("g", values[0])], distinct=True)
        return Atom(table.name, (None,))
    table = builder.stored(body, [(f"c{n}", v) for n, v in enumerate(values)], distinct=True)
    atom = Body(scope.body)
    builder.scan(table, atom, [column_of(scope.body, n) for n in around])
    literal = atom.literals[0]
    assert isinstance(literal, Atom)
    return literal


def within(
    queries: Translator, left: Typed, node: exp.Expr, scope: Scope, wanted: bool
) -> list[Literal]:
    """Return literals that hold where a value is among a subquery's rows, or known not to be."""
    rows = queries.query(inner_query(node), scope)
    if len(rows.columns) != 1:
        raise SqlError(f"IN takes a subquery of one column, and this has {len(rows.columns)}", node)
    return among(queries, *alike(node, left, rows.columns[0][1]), rows.body, scope, wanted)


def among(
    queries: Translator, left: Typed, value: Typed, body: Body, scope: Scope, wanted: bool
) -> list[Literal]:
    """Return literals that hold where a value is one of a body's rows, or known not to be."""
    builder = queries.builder
    nullable = builder.may_be_null(body, value)
    present = body.copy()
    member = builder.require(present, builder.define(present, value))
    around = builder.carried(present, [member.term])
    table = builder.stored(present, [("member", member)], distinct=True)
    given: list[Typed | None] = [column_of(scope.body, n) for n in around]
    define: list[Literal] = []
    operand = left
    if not isinstance(builder.resolve(left.term), Var):
        operand = builder.variable(left.type, left.nullable)
        assert isinstance(operand.term, Var)
        define = [Define(operand.term, builder.resolve(left.term))]
    atom = Body(scope.body)
    builder.scan(table, atom, [*given, operand])
    if wanted:
        return [*define, *atom.literals]
    absent: list[Literal] = [*define, Not(tuple(atom.literals))]
    if builder.may_be_null(scope.body, left):
        absent += _empty_if_null(queries, operand, body, scope)
    if nullable:
        holes = body.copy()
        holes.literals.append(Test(is_null(builder.resolve(value.term), True)))
        absent.append(_none(queries, holes))
    return absent


def _empty_if_null(queries: Translator, value: Typed, body: Body, scope: Scope) -> list[Literal]:
    """Return literals that hold where a value is not null or a subquery's body has no row."""
    builder, some = queries.builder, body.copy()
    mark = builder.define(some, Typed(Lit(1, "int64"), INTEGER, False))
    around = builder.carried(some, [mark.term])
    table = builder.stored(some, [("mark", mark)], distinct=True)
    flag, atom = builder.variable(INTEGER, False), Body(scope.body)
    assert isinstance(flag.term, Var)
    is_one = Call("if", (is_null(value.term, True), Lit(1, "int64"), Lit(0, "int64")))
    builder.scan(table, atom, [*(column_of(scope.body, n) for n in around), flag])
    return [Define(flag.term, is_one), Not(tuple(atom.literals))]


def scalar(queries: Translator, node: exp.Expr, scope: Scope) -> Typed:
    """Return the value of a subquery of one row, read by the scope's body; null without a row."""
    query = inner_query(node)
    rows = queries.query(query, scope)
    if len(rows.columns) != 1:
        raise SqlError(
            f"a subquery used as a value has one column, and this has {len(rows.columns)}", node
        )
    builder, body = queries.builder, scope.body
    value = rows.columns[0][1]
    around = builder.carried(rows.body, [value.term])
    if has_one_row(query):
        body.literals += rows.body.literals
        body.keys += rows.body.keys
        body.required |= rows.body.required
        body.columns |= {n: v for n, v in rows.body.columns.items() if n not in around}
        return value
    return _one_or_null(queries, rows, value, around, scope)


def has_one_row(query: exp.Expr) -> bool:
    """Return whether a query has exactly one row in any case: an aggregate without groups."""
    if not isinstance(query, exp.Select):
        return False
    if any(
        query.args.get(k) for k in ("group", "having", "limit", "offset", "qualify", "distinct")
    ):
        return False
    return bool(aggregates_in(query.expressions))


def _lone(
    queries: Translator, body: Body, around: list[str], keys: list[Typed], value: Typed
) -> tuple[Body, list[Typed], Typed]:
    """Return a body with its keys and value that is of one row for each key, also if rows are
    equal: a function is 0 there, and for several equal rows 1 as well, which is an error.
    """
    builder = queries.builder
    given = [] if around else [("key", keys[0])]
    table = builder.stored(body, [*given, ("value", value)])
    lone = builder.helper()
    for place in range(3):
        inner, columns = builder.again(table, body.outer, around)
        keys = keys if around else columns[:1]
        terms = tuple(key.term for key in keys)
        if place == 2:
            break
        several = Call("if", (Call(">", (inner.weights[0], Lit(1, "int64"))), *ONE_ZERO))
        mark = builder.define(inner, Typed(several if place else ONE_ZERO[1], INTEGER, False))
        builder.rule(Atom(lone, terms, (mark.term,)), inner)
    inner.literals.append(Atom(lone, terms, (ONE_ZERO[1],)))
    return inner, keys, columns[-1]


def _one_or_null(
    queries: Translator, rows: Rows, value: Typed, around: list[str], scope: Scope
) -> Typed:
    """Return the value of a function of the outer variables, null where there is no row."""
    builder, body = queries.builder, scope.body
    inner = rows.body.copy()
    value = builder.define(inner, value)
    value = value._replace(nullable=builder.may_be_null(inner, value))
    outer = [column_of(scope.body, n) for n in around]
    keys = [*outer]
    if not around:
        dummy = builder.variable(INTEGER, False)
        builder.uses_one = True
        inner.literals.append(Atom(ONE, (dummy.term,)))
        assert isinstance(dummy.term, Var)
        inner.columns[dummy.term.name] = dummy
        keys = [dummy]
    if around and not builder.is_set(inner, [key.term for key in keys]):
        inner.literals.append(builder.domain(scope.body, around))  # others may have several rows
    if not builder.is_set(inner, [key.term for key in (*keys, value)]):
        inner, keys, value = _lone(queries, inner, around, keys, value)
    some, lacking = builder.function(inner, keys, value), Body()
    terms = tuple(key.term for key in keys)
    if around:
        name = builder.projected(builder.closed(scope.body, around), terms, body)
        nullable = tuple(builder.may_be_null(body, value) for value in outer)
        lacking.literals.append(Atom(name, terms, (), nullable))
    else:
        lacking.literals.append(Atom(ONE, (terms[0],)))
    lacking.columns |= {key.term.name: key for key in keys if isinstance(key.term, Var)}
    null = Typed(Lit(None, value.type.store), value.type, True)
    table = builder.completed(some, lacking, keys, null)
    return builder.scan(table, body, keys if around else [])[-1]
