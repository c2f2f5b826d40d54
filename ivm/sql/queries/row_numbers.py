"""Rows numbered in the order of a partition: LIMIT, DISTINCT ON, and what window functions follow
from.

    v:part1[p, n] = k <- agg<<(n, k) = bottom(k, o, k, 1000000000000000)>> body.     k is the key of a row
    v:part2[k] = n <- v:part1[p, n] = k.

Ties are broken by the key of the row.  The aggregates skip nulls, so that a part of a key that may
be null is carried as two columns, whether it is null and a value in place of null.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from ivm.names import ONE
from ivm.sql.conversions import convert, in_order
from ivm.sql.errors import SqlError
from ivm.sql.literals import constant, converted
from ivm.sql.queries.clauses import Clauses, Rows, unaliased
from ivm.sql.queries.expressions import NEVER
from ivm.sql.queries.scope import text_of
from ivm.sql.rules import Body, Builder, Column, Table, outer_value
from ivm.sql.terms import Atom, Call, Define, Fold, Lit, Rule, Term, Test, Typed, Var
from ivm.sql.types import BIGINT, BOOLEAN, INTEGER, INTERVAL, TIMESTAMP, VARCHAR, SqlType
from pagestore.host import KEYS_MAX

MOST = 10**15  # rows of a partition
_SHARED = "LIMIT of a share of the rows, or with ties,"
_AROUND = "SELECT * FROM (the query without it) ORDER BY a LIMIT 40%"


class Key(NamedTuple):
    """What rows are ordered by."""

    value: Typed
    desc: bool
    nulls_first: bool


def ordering(
    value: Typed, node: exp.Expr, where: exp.Expr | None = None
) -> tuple[Typed, bool, bool]:
    """Return a value with the direction that ORDER BY gives, nulls last unless it says otherwise.

    Raises SqlError, which names the place of `where` if it is given, for a value that has no order.
    """
    value = in_order(value, where or node)
    if not isinstance(node, exp.Ordered):
        return value, False, False
    return value, bool(node.args.get("desc")), bool(node.args.get("nulls_first"))


def numbered(
    builder: Builder,
    body: Body,
    partition: Sequence[Typed],
    keys: Sequence[Key],
    identity: Sequence[Typed],
    most: int = MOST,
) -> Table:
    """Return a function from the identity of a row to its number in its partition, from 1."""
    inner = body.copy()
    around = [outer_value(body, name) for name in builder.carried(body)]
    groups = [*around, *(builder.define(inner, p) for p in partition)]
    upward = not (keys and all(k.desc for k in keys))
    by = [term for key in keys for term in ordered_terms(builder, inner, key, upward)]
    ids = [builder.define(inner, value) for value in identity]
    of_groups = [v.term for v in groups] if {v.term for v in ids} - {g.term for g in groups} else []
    parts = [[] if v.term in of_groups else parts_of(builder, inner, v) for v in ids]
    ordered = [k.value.term for k in keys if not k.value.type.is_float]  # -0.0 and 0.0 are equal
    by += [p.term for v, own in zip(ids, parts, strict=True) if v.term not in ordered for p in own]
    by = [term for term in dict.fromkeys(by) if term not in [g.term for g in groups]]
    group_columns = tuple(
        Column(f"p{n}", v.type, builder.may_be_null(inner, v)) for n, v in enumerate(groups)
    )
    rows, number = Body(), builder.variable(BIGINT, False)
    group_values = [builder.variable(c.type, c.nullable) for c in group_columns]
    rebuilt, heads, folds = [], list[Atom](), list[Fold]()
    for id_, pieces in zip(ids, parts, strict=True):
        if not pieces:
            rebuilt.append(group_values[of_groups.index(id_.term)])
            continue
        values: list[Typed] = []
        for part in pieces:
            place = builder.variable(BIGINT, False).term
            result = builder.variable(part.type, False).term
            assert isinstance(place, Var) and isinstance(result, Var)
            name = builder.helper()
            fold = Fold(
                "bottom" if upward else "top",
                result.name,
                (part.term, *by, Lit(most, "int64")),
                place.name,
            )
            heads.append(Atom(name, (*(g.term for g in groups), place), (result,)))
            folds.append(fold)
            columns = (*group_columns, Column("n", BIGINT, False), Column("v", part.type, False))
            table = Table(name, columns, (*range(len(groups) + 1),), function=True)
            values.append(builder.scan(table, rows, [*group_values, number])[-1])
        rebuilt.append(put_together(builder, rows, values, id_.type))
    builder.rules_of((*heads,), inner, (*folds,))
    return builder.function(rows, [*group_values[: len(around)], *rebuilt], number)


def parts_of(builder: Builder, body: Body, value: Typed) -> list[Typed]:
    """Return a value as variables that are never null: itself, or whether it is null, and a value
    in place of null.

    Truth values, which have no order in rules, are 0 and 1.
    """
    if value.type == BOOLEAN:
        value = builder.define(body, convert(value, INTEGER))
    if not builder.may_be_null(body, value):
        return [value._replace(nullable=False)]
    flag = Call("if", (Call("is_null", (value.term,)), Lit(1, "int64"), Lit(0, "int64")))
    parts = (Typed(flag, INTEGER, False), without_null(value))
    return [builder.define(body, part) for part in parts]


def put_together(
    builder: Builder, body: Body, values: list[Typed], type_: SqlType, define: bool = True
) -> Typed:
    """Return the value of a type that `parts_of` gave in parts."""
    *flags, filled = values
    term = Call("=", (filled.term, Lit(1, "int64"))) if type_ == BOOLEAN else filled.term
    for flag in flags:
        term = Call("if", (Call("=", (flag.term, Lit(1, "int64"))), Lit(None, type_.store), term))
    typed = Typed(term, type_, bool(flags))
    return builder.define(body, typed) if define else typed


def without_null(value: Typed) -> Typed:
    """Return a value, or where it is null another of its type."""
    return Typed(Call("coalesce", (value.term, _least(value.type))), value.type, False)


def _least(type_: SqlType) -> Lit:
    if type_.store in ("string", "int64"):
        return Lit("" if type_.store == "string" else 0, type_.store)
    text = {"DATE": "2000-01-01", "TIME": "00:00:00", "BLOB": ""}.get(type_.name, "0")
    zero = Typed(
        Lit("2000-01-01" if type_.name.startswith("TIMESTAMP") else text, "string"), VARCHAR, False
    )
    least = converted(zero, type_, None).term
    assert isinstance(least, Lit)
    return least


def ordered_terms(builder: Builder, body: Body, key: Key, upward: bool) -> list[Term]:
    """Return variables whose order, all upward or all downward, is that of a key."""
    value = builder.define(body, key.value)
    if value.type == BOOLEAN:
        value = builder.define(body, convert(value, INTEGER))
    terms: list[Term] = []
    if builder.may_be_null(body, value):
        null_is_one = key.nulls_first != upward
        ones = (
            (Lit(1, "int64"), Lit(0, "int64"))
            if null_is_one
            else (Lit(0, "int64"), Lit(1, "int64"))
        )
        flag = Typed(Call("if", (Call("is_null", (value.term,)), *ones)), INTEGER, False)
        terms.append(builder.define(body, flag).term)
        value = builder.define(body, without_null(value))
    if upward and key.desc and value.type.is_float:  # what is not a number comes first
        zero = _least(value.type)
        infinite = Call("ratio", (Lit(1.0, "float64"), Lit(0.0, "float64")))
        number = Call("<=", (value.term, infinite))
        first = Typed(Call("if", (number, Lit(1, "int64"), Lit(0, "int64"))), INTEGER, False)
        terms.append(builder.define(body, first).term)
        value = builder.define(body, value._replace(term=Call("if", (number, value.term, zero))))
    if upward and key.desc:
        value = (
            _placed(builder, body, value)
            if value.type.store == "string"
            else builder.define(body, _reversed(value))
        )
    return [*terms, value.term]


def _placed(builder: Builder, body: Body, value: Typed) -> Typed:
    """Return the place of a text among all texts of a body, from the greatest."""
    if builder.carried(body):
        raise SqlError(
            "ORDER BY with a descending text among ascending keys is not kept in correlated "
            "subqueries"
        )
    texts = builder.stored(body, [("text", value)], distinct=True)
    rows, place = Body(), builder.variable(BIGINT, False).term
    (text,) = builder.scan(texts, rows)
    builder.one(rows)
    result = builder.variable(VARCHAR, False).term
    assert isinstance(place, Var) and isinstance(result, Var)
    name = builder.helper()
    group = builder.define(rows, Typed(Lit(0, "int64"), INTEGER, False))
    fold = Fold("top", result.name, (text.term, text.term, Lit(MOST, "int64")), place.name)
    builder.rule(Atom(name, (group.term, place), (result,)), rows, (fold,))
    columns = (
        Column("g", INTEGER, False),
        Column("n", BIGINT, False),
        Column("text", VARCHAR, False),
    )
    return builder.scan(Table(name, columns, (0, 1), function=True), body, [None, None, value])[1]


def _reversed(value: Typed) -> Typed:
    if value.type.is_number:
        return Typed(Call("-", (_least(value.type), value.term)), value.type, False)
    if value.type.name in ("TIME", "TIMESTAMP WITH TIME ZONE"):
        value = Typed(Call("datetime", (value.term,)), TIMESTAMP, False)
    if value.type == INTERVAL:
        return Typed(Call("-", (_least(value.type), value.term)), BIGINT, False)
    if value.type.name in ("DATE", "TIMESTAMP"):
        return Typed(Call("-", (_least(value.type), value.term)), BIGINT, False)
    raise SqlError(
        f"ORDER BY mixes ascending keys with a descending {value.type}, which is not kept: order "
        "all keys in one direction"
    )


# -- LIMIT and DISTINCT ON


def limited(
    select: Clauses,
    body: Body,
    columns: list[tuple[str, Typed]],
    keys: list[tuple[Typed, bool, bool]],
) -> tuple[Body, list[tuple[str, Typed]], list[tuple[Typed, bool, bool]]]:
    """Return the first rows of a query, as LIMIT and OFFSET say."""
    builder = select.builder
    first, last = _bounds(select)
    if body.weights:
        listed = [*columns, *((f"o{n}", k[0]) for n, k in enumerate(keys))]
        body, values = copies(builder, body, listed)
        columns = [(n, v) for (n, _), v in zip(columns, values, strict=False)]
        keys = [(v, *k[1:]) for v, k in zip(values[len(columns) :], keys, strict=True)]
    identity = builder.identity(body)
    if not identity:  # one row at most
        body.literals += NEVER if first or last == 0 else []
        return body, columns, keys
    most = last if last is not None else MOST
    table = numbered(builder, body, [], [Key(*k) for k in keys], identity, max(most, 1))
    builder.costs.append(
        "LIMIT: an edit among the first rows numbers them anew, O(rows of the limit)"
    )
    around = [outer_value(body, n) for n in builder.carried(body)]
    number = builder.scan(table, body, [*around, *identity])[-1]
    if last is not None:
        body.literals.append(Test(Call("<=", (number.term, Lit(last, "int64")))))
    if last is not None and last - first == 1:
        builder.tells_apart(body, [], identity)
    if first:
        body.literals.append(Test(Call(">", (number.term, Lit(first, "int64")))))
    return body, columns, keys


def cut(
    select: Clauses,
    body: Body,
    columns: list[tuple[str, Typed]],
    keys: list[tuple[Typed, bool, bool]],
) -> Rows | None:
    """Return the rows of a question with which of them are wanted, if they are of helper views
    alone, which hold them all: they are sorted as they are shown, rather than by rules.

    Ties are broken as in `numbered`.
    """
    builder = select.builder
    read = [x.name for x in body.literals if isinstance(x, Atom)]
    identity = builder.identity(body)
    if not (read and identity and all(map(builder.is_own, read))) or body.weights:
        return None
    desc = bool(keys) and all(key[1] for key in keys)
    ties = [tie for tie in identity if tie not in [key[0] for key in keys]]
    order = (*keys, *((tie, desc, desc) for tie in ties))
    nested = any(tie.type.words or tie.type == INTERVAL for tie in ties)
    if nested or len(columns + keys + ties) > KEYS_MAX:
        return None
    return Rows(body, columns, order, _bounds(select))


def _bounds(select: Clauses) -> tuple[int, int | None]:
    offset, limit = select.node.args.get("offset"), select.node.args.get("limit")
    first = (_constant(offset.expression) or 0) if offset is not None else 0
    if limit is None:
        return first, None
    most = _constant(_count(limit))
    return first, None if most is None else first + most


def _count(limit: exp.Expr) -> exp.Expr:
    """Return the number of LIMIT or FETCH, which is 1 where FETCH has none."""
    one = exp.Literal.number(1)
    count = limit.args.get("count") or one if isinstance(limit, exp.Fetch) else limit.expression
    return count.copy()


def of_share(node: exp.Select) -> exp.Select:
    """Return a query whose LIMIT is a share of its rows, or has ties, by their numbers instead.

    LIMIT 40%                     QUALIFY row_number() OVER (ORDER BY k) <= 0.4 * count(*) OVER ()
    FETCH FIRST 3 ROWS WITH TIES  QUALIFY rank() OVER (ORDER BY k) <= 3
    """
    limit, order = node.args.get("limit"), node.args.get("order")
    options = limit.args.get("limit_options") if limit else None
    if limit is None or not options or not (options.args["percent"] or options.args["with_ties"]):
        return node
    new, over = node.copy(), order.copy() if order else None
    for one in over.expressions if over else ():
        one.set("this", _selected(new, one.this))
    if any(map(node.args.get, ("offset", "distinct", "qualify"))):
        raise SqlError(f"{_SHARED} goes without OFFSET, DISTINCT and QUALIFY: {_AROUND}", limit)
    number, most = exp.Window(this=exp.Rank(), order=over), _count(limit)
    if options.args["percent"]:
        rows = exp.Window(this=exp.Count(this=exp.Star()))
        number.set("this", exp.RowNumber())
        most = exp.Mul(this=_share(limit), expression=rows)
    new.set("limit", None)
    new.set("qualify", exp.Qualify(this=exp.LTE(this=number, expression=most)))
    return new


def _selected(node: exp.Select, key: exp.Expr) -> exp.Expr:
    """Return what ORDER BY means by the number or the name of a selected expression."""
    items = node.expressions
    if key.is_int and not any(item.is_star for item in items[: int(key.name)]):
        return unaliased(items[int(key.name) - 1]).copy()
    named = {item.alias.lower(): item.this for item in items if isinstance(item, exp.Alias)}
    if isinstance(key, exp.Literal | exp.Var):
        raise SqlError(f"{_SHARED} orders by names of columns: {_AROUND}", key)
    found = named.get(key.name.lower(), key) if isinstance(key, exp.Column) else key
    return (key if key.text("table") else found).copy()


def _share(limit: exp.Expr) -> exp.Expr:
    """Return the share of LIMIT in per cent as a number from 0 to 1.  Raises SqlError."""
    count = simplify(_count(limit))
    known = isinstance(count, exp.Null) or count.is_number
    share = 1.0 if isinstance(count, exp.Null) else float(count.sql()) / 100 if known else -1.0
    if not 0 <= share <= 1:
        raise SqlError("LIMIT takes a constant share from 0% to 100%", limit)
    return exp.cast(exp.Literal.number(share), "DOUBLE")


def _constant(node: exp.Expr | None) -> int | None:
    """Return the number of LIMIT or OFFSET; None for NULL and ALL.  Raises SqlError."""
    value = simplify(node.copy()) if node is not None else None
    if isinstance(value, exp.Null) or (isinstance(node, exp.Var) and node.name.upper() == "ALL"):
        return None
    if isinstance(node, exp.Literal) and node.is_string and node.name.isdigit():
        return int(node.name)
    limit = constant(value) if value is not None else None
    count = limit.term.value if limit is not None and isinstance(limit.term, Lit) else None
    if limit is None or not limit.type.is_integer or not isinstance(count, int) or count < 0:
        raise SqlError("LIMIT and OFFSET take whole numbers", node)
    return count


def first_of_each(
    select: Clauses, keys: list[Typed], order: list[exp.Expr], columns: list[tuple[str, Typed]]
) -> list[tuple[str, Typed]]:
    """DISTINCT ON: keep the first row of each group."""
    builder = select.builder
    ordered = [Key(*ordering(select.order_value(item.this, columns), item)) for item in order]
    if select.scope.body.weights:
        needed = {v.term: v for v in (*(v for _, v in columns), *keys, *(k.value for k in ordered))}
        body, values = copies(
            builder, select.scope.body, [(f"c{n}", v) for n, v in enumerate(needed.values())]
        )
        copied = dict(zip(needed, values, strict=True))
        columns = [(n, copied[v.term]) for n, v in columns]
        keys = [copied[v.term] for v in keys]
        ordered = [k._replace(value=copied[k.value.term]) for k in ordered]
        select.replaced |= {
            text_of(item.this): k.value for item, k in zip(order, ordered, strict=True)
        }
        select.go_on(body)
    body = select.scope.body
    identity = builder.identity(body)
    keys = [builder.define(body, key) for key in keys]
    table = numbered(builder, body, keys, ordered, identity, 1)
    around = [outer_value(body, n) for n in builder.carried(body)]
    number = builder.scan(table, body, [*around, *identity])[-1]
    body.literals.append(Test(Call("=", (number.term, Lit(1, "int64")))))
    builder.tells_apart(body, keys, identity)
    return columns


# -- rows that are equal


def copies(
    builder: Builder, body: Body, outputs: list[tuple[str, Typed]]
) -> tuple[Body, list[Typed]]:
    """Return a body that has each row as often as it occurs, by numbering equal rows from 1."""
    around = builder.carried(body, [value.term for _, value in outputs])
    table = builder.stored(body, outputs)
    if not table.weighs:
        return builder.again(table, body.outer, around)
    copy, values = builder.again(copied(builder, table), body.outer, around)
    return copy, values[:-1]


def copied(builder: Builder, table: Table) -> Table:
    """Return a helper view of the rows of a table with multiplicities, each as often as it
    occurs, with a number.
    """
    name, numbers = builder.helper(), _numbers(builder, table)
    columns = (*table.columns, Column("n", BIGINT, False))
    body, number = Body(), builder.variable(BIGINT, False)
    row = builder.scan(table, body)
    body.literals.append(Atom(numbers, (number.term,)))
    body.literals.append(Test(Call("<=", (number.term, body.weights[0]))))
    builder.emit(Rule((Atom(name, (*(v.term for v in row), number.term)),), tuple(body.literals)))
    return Table(name, columns, (*range(len(columns)),))


def _numbers(builder: Builder, table: Table) -> str:
    """Return a helper view of the numbers from 1 to the greatest multiplicity of a table."""
    builder.uses_one = True
    most, name, rows = builder.helper(), builder.helper(), Body()
    builder.scan(table, rows)
    one, greatest, number, after = (builder.variable(BIGINT, False).term for _ in range(4))
    assert (
        isinstance(one, Var)
        and isinstance(greatest, Var)
        and isinstance(number, Var)
        and isinstance(after, Var)
    )
    fold = Fold("max", greatest.name, (rows.weights[0],))
    builder.emit(
        Rule((Atom(most, (one,), (greatest,)),), (*rows.literals, Atom(ONE, (one,))), (fold,))
    )
    builder.emit(
        Rule(
            (Atom(name, (number,)),),
            (Atom(ONE, (one,)), Define(number, Call("+", (one, Lit(1, "int64"))))),
        )
    )
    more = (
        Atom(name, (number,)),
        Atom(most, (one,), (greatest,)),
        Test(Call("<", (number, greatest))),
        Define(after, Call("+", (number, Lit(1, "int64")))),
    )
    builder.emit(Rule((Atom(name, (after,)),), more))
    return name
