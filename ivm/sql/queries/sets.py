"""UNION, INTERSECT and EXCEPT, with and without ALL.

a UNION b        v:part1(x) <- a.  v:part1(x) <- b.
a UNION ALL b    v:part1(0, x) <- a.  v:part1(1, x) <- b.     if a and b have no equal rows of their own,
                 v:part1[0, x] = n <- a's rows counted ...    else with multiplicities
a INTERSECT b    a(x), b(x)
a EXCEPT b       a(x), !b(x)
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from ivm.sql import types
from ivm.sql.conversions import common_type, convert
from ivm.sql.dialects.read import ADAPTS
from ivm.sql.errors import SqlError
from ivm.sql.queries.clauses import Rows, Translator
from ivm.sql.queries.scope import LAST, Scope
from ivm.sql.rules import Body, Builder, Column, Table, chunks, column_of
from ivm.sql.terms import Atom, Call, Define, Lit, Not, Term, Test, Typed, Var
from pagestore.host import KEYS_MAX

# what makes a union in a chain another one
OWN = ("by_name", "side", "kind", "with_", "order", "limit", "offset")
TIMES = (types.BOOLEAN, types.DATE, types.TIME, types.TIMESTAMP, types.TIMESTAMPTZ, types.INTERVAL)
TAG = Column("part", types.INTEGER, False)  # which part of a union a row is of


def rows(queries: Translator, node: exp.SetOperation, outer: Scope | None) -> Rows:
    """Return the rows of a set operation, in no order.  Raises SqlError."""
    parts = [queries.query(part, outer) for part in _parts(node)]
    if node.args.get("by_name"):
        names = _names_of(node, *parts)
        parts = [_by_name(part, names) for part in parts]
    parts = _alike(parts, node)
    every = not node.args.get("distinct")
    if isinstance(node, exp.Union):
        return union_all(queries, parts, node) if every else _distinct(queries, parts)
    keep = isinstance(node, exp.Intersect)
    return _with_multiplicities(queries, parts, keep) if every else _compared(queries, parts, keep)


def _parts(node: exp.SetOperation) -> list[exp.Expr]:
    """Return the two queries of a set operation, or all of those that a chain of UNIONs unites
    to the same rows.
    """
    later, left = [node.expression], node.this
    if isinstance(node, exp.Union) and not node.args.get("by_name"):
        while isinstance(left, exp.Union) and not any(left.args.get(key) for key in OWN):
            if left.args.get("distinct") and not node.args.get("distinct"):
                break
            later.append(left.expression)
            left = left.this
    for key in reversed(LAST):
        for part in (left, *later):
            if not isinstance(part, exp.Subquery) and (clause := part.args.get(key)) is not None:
                word = key.upper() + " BY" * (key == "order")
                raise SqlError(
                    f"{word} within a set operation: put the query that it is of in parentheses",
                    clause,
                )
    return [left, *reversed(later)]


def _names_of(node: exp.SetOperation, left: Rows, right: Rows) -> dict[str, str]:
    """Return the columns of a set operation BY NAME as they are shown, by their names in small
    letters.

    CORRESPONDING has those of both queries, or the ones that it lists.  Raises SqlError if a query
    lacks one of these.
    """
    ours, other = ({name.lower(): name for name, _ in side.columns} for side in (left, right))
    listed = {column.name.lower() for column in node.args.get("on") or ()}
    if lacking := listed - (ours.keys() & other.keys()):
        raise SqlError(f"CORRESPONDING BY: not both queries have a column {min(lacking)}", node)
    if node.kind == "INNER":
        shared = {name: shown for name, shown in ours.items() if name in other}
    else:
        shared = (
            ours
            if node.side == "LEFT"
            else {**ours, **{n: shown for n, shown in other.items() if n not in ours}}
        )
    shared = {name: shown for name, shown in shared.items() if not listed or name in listed}
    if not shared:
        raise SqlError("CORRESPONDING: the queries have no column of the same name", node)
    return shared


def _by_name(rows_: Rows, names: dict[str, str]) -> Rows:
    """Return rows with the named columns alone; null where the query has none of a name."""
    values = {name.lower(): value for name, value in rows_.columns}
    null = Typed(Lit(None, "int64"), types.NULL, True)
    return rows_._replace(
        columns=[(shown, values.get(name, null)) for name, shown in names.items()]
    )


def _alike(parts: Sequence[Rows], node: exp.Expr) -> list[Rows]:
    """Return queries whose columns have the same types.  Raises SqlError."""
    if len({len(part.columns) for part in parts}) > 1:
        raise SqlError(
            f"the queries have {' and '.join(str(len(p.columns)) for p in parts)} columns", node
        )
    lists = [[*part.columns] for part in parts]
    for place in range(len(parts[0].columns)):
        values = [part.columns[place][1] for part in parts]
        type_ = _type(values, node)
        for columns in lists:
            _, value = columns[place]
            if type_ != types.NULL:
                value = convert(value, type_, node, False if type_ == types.VARCHAR else None)
            columns[place] = (lists[0][place][0], value)
    return [
        part._replace(columns=columns, order=()) for part, columns in zip(parts, lists, strict=True)
    ]


def _type(values: Sequence[Typed], node: exp.Expr) -> types.SqlType:
    """Return the type of a column of several queries: with DuckDB, all is text beside a text, also
    beside a constant, and truth values are numbers beside numbers.
    """
    kinds = {value.type for value in values}
    if isinstance(node, exp.SetOperation) and ADAPTS not in node.meta:
        if types.VARCHAR in kinds and any(kind in TIMES or kind.is_number for kind in kinds):
            return types.VARCHAR
        if types.BOOLEAN in kinds and any(kind.is_number for kind in kinds):
            values = [value for value in values if value.type != types.BOOLEAN]
    return common_type(values, node)


def union_all(queries: Translator, parts: Sequence[Rows], node: exp.Expr) -> Rows:
    """Return the rows of several queries, with multiplicities."""
    parts = _alike(parts, node)
    listed = [(part.body, [value for _, value in part.columns]) for part in parts]
    body, values = union(queries.builder, parts[0].body.outer, listed)
    return parts[0]._replace(
        body=body, columns=[(n, v) for (n, _), v in zip(parts[0].columns, values, strict=True)]
    )


def union(
    builder: Builder,
    outer: Body | None,
    parts: Sequence[tuple[Body, list[Typed]]],
    apart: Sequence[int] | None = None,
) -> tuple[Body, list[Typed]]:
    """Return a body of the rows of several bodies, with a number for each.

    None is needed if what tells the rows of each body apart, with the values at the places `apart`,
    tells all apart.
    """
    disjoint = apart is not None
    around = list(
        dict.fromkeys(
            n for body, values in parts for n in builder.carried(body, [v.term for v in values])
        )
    )
    columns = _columns(builder, parts, outer, around)
    weighs = not all(builder.is_set(body, [v.term for v in values]) for body, values in parts)
    if len(columns) + (not disjoint) > KEYS_MAX or (weighs and disjoint):
        if disjoint:
            return union(builder, outer, parts)
        return _in_parts(builder, outer, parts, columns, around)
    keys = (*columns,) if disjoint else (TAG, *columns)
    identity = (
        (*range(len(keys)),)
        if weighs
        else _identity(builder, parts, len(keys) - len(parts[0][1]), apart or ())
    )
    table = Table(builder.helper(), keys, identity, weighs=weighs)
    for number, (body, values) in enumerate(parts):
        _part(builder, table, body.copy(), values, around, number, disjoint)
    inner = Body(outer)
    given: list[Typed | None] = [column_of(outer, n) for n in around]
    row = builder.scan(table, inner, given if disjoint else [None, *given])
    return inner, row[len(given) + (not disjoint) :]


def _identity(
    builder: Builder, parts: Sequence[tuple[Body, list[Typed]]], before: int, apart: Sequence[int]
) -> tuple[int, ...]:
    """Return the positions of what tells the rows of a union of sets apart, its first `before`
    columns among them.
    """
    places = {
        p for body, values in parts for p in builder.determining(body, [v.term for v in values])
    } | {*apart}
    return (*range(before), *(before + place for place in sorted(places)))


def _in_parts(
    builder: Builder,
    outer: Body | None,
    parts: Sequence[tuple[Body, list[Typed]]],
    columns: list[Column],
    around: list[str],
) -> tuple[Body, list[Typed]]:
    """Return a union of too many columns for one relation: several, after what determines rows."""
    key = sorted(
        {p for body, values in parts for p in builder.determining(body, [v.term for v in values])}
    )
    own, first = columns[len(around) :], (TAG, *columns[: len(around)])
    if len(first) + len(key) >= KEYS_MAX:
        raise SqlError(
            f"{builder.name} needs {len(columns)} columns in one step, and {KEYS_MAX - 1} is the "
            "most that tell rows apart: select fewer columns"
        )
    weighs = any(
        body.weights or not builder.determines(body, [v.term for v in values])
        for body, values in parts
    )
    made: list[tuple[Table, tuple[int, ...]]] = []
    for places in chunks(len(own), key, len(first) + weighs):
        shown = (*first, *(own[p] for p in places))
        table = Table(
            builder.helper(), shown, (*range(len(first) + len(key)),), weighs=weighs and not made
        )
        for number, (body, values) in enumerate(parts):
            _part(builder, table, body.copy(), [values[p] for p in places], around, number, False)
        made.append((table, (*range(len(first)), *(len(first) + p for p in places))))
    identity = (*range(len(first)), *(len(first) + p for p in key))
    whole = Table("", (*first, *own), identity, weighs=weighs, parts=tuple(made))
    inner = Body(outer)
    return inner, builder.scan(whole, inner, [None, *(column_of(outer, n) for n in around)])[
        len(first) :
    ]


def _columns(
    builder: Builder,
    parts: Sequence[tuple[Body, list[Typed]]],
    outer: Body | None,
    around: list[str],
) -> list[Column]:
    columns = []
    for name in around:
        value = column_of(outer, name)
        columns.append(Column(name, value.type, value.nullable))
    for place in range(len(parts[0][1])):
        values = [(body, values[place]) for body, values in parts]
        nullable = any(builder.may_be_null(body, value) for body, value in values)
        typed = next((v for _, v in values if v.type.name != "NULL"), values[0][1])
        columns.append(Column(f"c{place}", typed.type, nullable))
    return columns


def _part(
    builder: Builder,
    table: Table,
    body: Body,
    values: list[Typed],
    around: list[str],
    number: int,
    disjoint: bool,
) -> None:
    """Add the rule of one part of a union."""
    terms: tuple[Term, ...] = (
        *(Var(n) for n in around),
        *(own(builder, body, value).term for value in values),
    )
    if not table.weighs:
        tag = [] if disjoint else [_constant(builder, body, number)]
        builder.rule(Atom(table.name, (*tag, *terms)), body)
        return
    counted = Atom(builder.helper(), terms)
    head, body, folds = builder.counted(counted.name, terms, body)
    builder.rule(head, body, folds)
    again, result = Body(), builder.variable(types.BIGINT, False).term
    nullable = tuple(c.nullable for c in table.columns[1:])
    again.literals.append(Atom(head.name, terms, (result,), (*nullable, False)))
    tag = [_constant(builder, again, number)]
    builder.rule(Atom(table.name, (*tag, *terms), (result,)), again)


def own(builder: Builder, body: Body, value: Typed) -> Typed:
    """Return a variable of its own for a value: no two columns of a head are one variable."""
    new = builder.variable(value.type, value.nullable)
    assert isinstance(new.term, Var)
    body.literals.append(Define(new.term, builder.resolve(value.term)))
    body.columns[new.term.name] = new
    return new


def _constant(builder: Builder, body: Body, number: int) -> Term:
    new = builder.variable(types.INTEGER, False).term
    assert isinstance(new, Var)
    body.literals.append(Define(new, Lit(number, "int64")))
    return new


def _distinct(queries: Translator, parts: Sequence[Rows]) -> Rows:
    """UNION: two rules for one view."""
    builder, outer = queries.builder, parts[0].body.outer
    listed = [(part.body, [value for _, value in part.columns]) for part in parts]
    around = list(
        dict.fromkeys(
            n for body, values in listed for n in builder.carried(body, [v.term for v in values])
        )
    )
    columns = _columns(builder, listed, outer, around)
    if len(columns) > KEYS_MAX:
        raise SqlError(f"UNION of {len(columns)} columns: {KEYS_MAX} is the most")
    table = Table(builder.helper(), (*columns,), (*range(len(columns)),))
    for body, values in listed:
        _part(builder, table, body.copy(), values, around, 0, True)
    inner = Body(outer)
    row = builder.scan(table, inner, [column_of(outer, n) for n in around])[len(around) :]
    return parts[0]._replace(
        body=inner, columns=[(n, v) for (n, _), v in zip(parts[0].columns, row, strict=True)]
    )


def _compared(queries: Translator, parts: Sequence[Rows], keep: bool) -> Rows:
    """INTERSECT and EXCEPT: distinct rows of the left that are in the right, or not."""
    builder = queries.builder
    left, values = builder.as_atom(parts[0].body, parts[0].columns, distinct=True)
    right = builder.stored(parts[1].body, parts[1].columns, distinct=True)
    around = builder.carried(parts[1].body, [v.term for _, v in parts[1].columns])
    given = [column_of(parts[1].body.outer, n) for n in around]
    inner = Body(left)
    terms = [*given, *values]
    builder.scan(right, inner, terms)
    if keep:
        for value, column in zip(values, right.columns[len(given) :], strict=True):
            if value.nullable and not column.nullable:
                builder.require(left, value)
        left.literals += inner.literals
    else:
        left.literals.append(Not(tuple(inner.literals)))
    return parts[0]._replace(
        body=left, columns=[(n, v) for (n, _), v in zip(parts[0].columns, values, strict=True)]
    )


def _with_multiplicities(queries: Translator, parts: Sequence[Rows], keep: bool) -> Rows:
    """INTERSECT ALL takes the smaller multiplicity, EXCEPT ALL a positive difference."""
    builder = queries.builder
    outer = parts[0].body.outer
    if outer is not None and any(
        builder.carried(p.body, [v.term for _, v in p.columns]) for p in parts
    ):
        raise SqlError("INTERSECT ALL and EXCEPT ALL are not evaluated in correlated subqueries")
    tables = [_counted(builder, part) for part in parts]
    columns = tuple(
        Column(c.name, c.type, c.nullable or d.nullable)
        for c, d in zip(tables[0].columns, tables[1].columns, strict=True)
    )
    result = Table(builder.helper(), columns, (*range(len(columns)),), weighs=True)
    both = Body()
    row = builder.scan(tables[0], both)
    builder.scan(tables[1], both, row)
    m, n = both.weights
    head = tuple(v.term for v in row)
    if keep:
        for first, second in ((m, n), (n, m)):
            part = both.copy()
            part.literals.append(Test(Call("<=" if first == m else "<", (first, second))))
            builder.rule(Atom(result.name, head, (first,)), part)
    else:
        left = builder.define(both, Typed(Call("-", (m, n)), types.BIGINT, False))
        both.literals.append(Test(Call(">", (left.term, Lit(0, "int64")))))
        builder.rule(Atom(result.name, head, (left.term,)), both)
        alone, none = Body(), Body()
        row = builder.scan(tables[0], alone)
        builder.scan(tables[1], none, row)
        alone.literals.append(Not(tuple(none.literals)))
        builder.rule(Atom(result.name, tuple(v.term for v in row), (alone.weights[0],)), alone)
    body = Body(outer)
    values = builder.scan(result, body)
    return parts[0]._replace(
        body=body, columns=[(n_, v) for (n_, _), v in zip(parts[0].columns, values, strict=True)]
    )


def _counted(builder: Builder, part: Rows) -> Table:
    """Return a helper view of the rows of a query with their multiplicities."""
    body = part.body.copy()
    terms = tuple(own(builder, body, value).term for _, value in part.columns)
    columns = tuple(Column(n, v.type, builder.may_be_null(body, v)) for n, v in part.columns)
    name = builder.helper()
    builder.rule(*builder.counted(name, terms, body))
    return Table(name, columns, (*range(len(columns)),), weighs=True)
