"""Rows of a partition of window functions: their numbers, rows at a place, and those beside each.

The row before or after each, which lag and lead read, is found by seeks:

    rows(p, a, b, v)     near2[p, a, b] = max(c) <- rows(p, a, b, _), rows(p, a, c, _), c < b.
                         near1[p, a] = max(c) <- rows(p, a, _, _), rows(p, c, _, _), c < a.
                         last2[p, a] = max(b) <- rows(p, a, b, _).

Of rows in the order of a and b, the one before is (p, a, near2), or where near2 has none, (p, near1,
last2).  An edit changes what its neighbours read, and costs a seek for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from ivm.sql.errors import SqlError
from ivm.sql.queries.clauses import Clauses
from ivm.sql.queries.row_numbers import Key, numbered, ordered_terms, ordering, parts_of
from ivm.sql.queries.sets import own
from ivm.sql.rules import Body, Builder, Column, Table, column_of, outer_value
from ivm.sql.terms import Atom, Call, Define, Fold, Lit, Literal, Not, Term, Typed, Var
from ivm.sql.types import BIGINT, DATE, INTEGER, TIMESTAMP, SqlType
from pagestore.host import KEYS_MAX

SOUGHT = 6  # columns by which rows are in order: each is a level of seeks


def is_sought(type_: SqlType) -> bool:
    """Return whether the words of a type are in the order of its values, and are compared as
    numbers are, so that ranges of them are sought.
    """
    return type_.range is not None or type_ in (DATE, TIMESTAMP)


class Neighbours:
    """Finds the neighbours of rows, whose columns are those of their group, those that they are in
    order by, which tell them apart, and a value.
    """

    def __init__(self, builder: Builder, rows: Table, group: int, upward: bool) -> None:
        """The neighbour has the next greater values if `upward`, else the next smaller ones; the
        first `group` columns are those of the group.
        """
        self.builder, self.rows = builder, rows
        self._levels = range(group, len(rows.columns) - 1)
        self._op, self._sign = ("min", ">") if upward else ("max", "<")
        self._near = {level: self._nearest(level) for level in self._levels}
        self._ends = {level: self._end(level) for level in self._levels[1:]}

    def rows_found(self) -> Iterator[tuple[list[Typed], Typed, Body]]:
        """Yield the columns of rows, the value of the neighbour, and the body that finds it."""
        for level in self._levels:
            body = Body()
            row = self.builder.scan(self.rows, body)
            body.literals += self._none(row, level + 1)
            given = [*row[:level], self.builder.scan(self._near[level], body, row[: level + 1])[-1]]
            for end in self._levels[level + 1 - self._levels.start :]:
                given.append(self.builder.scan(self._ends[end], body, given)[-1])
            yield row[:-1], self.builder.scan(self.rows, body, given)[-1], body

    def none(self, row: Sequence[Typed]) -> list[Not]:
        """Return literals that hold where a row has no neighbour."""
        return self._none(row, self._levels.start)

    def _none(self, row: Sequence[Typed], first: int) -> list[Not]:
        lacking = []
        for level in self._levels[first - self._levels.start :]:
            near = Body()
            self.builder.scan(self._near[level], near, row[: level + 1])
            lacking.append(Not(tuple(near.literals)))
        return lacking

    def _nearest(self, level: int) -> Table:
        """Return a function from the columns up to a level to the nearest other value of the last."""
        body = Body()
        row = self.builder.scan(self.rows, body)
        other = self.builder.scan(self.rows, body, row[:level])[level]
        self.builder.test(body, Call(self._sign, (other.term, row[level].term)))
        return self._folded(row[: level + 1], other, body)

    def _end(self, level: int) -> Table:
        """Return a function from the columns before a level to the value there that comes first
        from outside.
        """
        body = Body()
        row = self.builder.scan(self.rows, body)
        return self._folded(row[:level], row[level], body)

    def _folded(self, keys: Sequence[Typed], value: Typed, body: Body) -> Table:
        result, name = self.builder.variable(value.type, False).term, self.builder.helper()
        assert isinstance(result, Var)
        fold = Fold(self._op, result.name, (value.term,))
        self.builder.rule(Atom(name, tuple(k.term for k in keys), (result,)), body, (fold,))
        columns = (*self.rows.columns[: len(keys)], Column("value", value.type, False))
        return Table(name, columns, (*range(len(keys)),), function=True)


class Partition:
    """The rows of one PARTITION BY, in the order of one ORDER BY."""

    def __init__(self, select: Clauses, by: list[exp.Expr], order: list[exp.Expr]) -> None:
        self.select, self.builder, self.body = select, select.builder, select.scope.body
        self.by = [self.builder.bound(self.body, select.evaluate(one)) for one in by]
        self.keys = [
            Key(*ordering(select.evaluate(one.this if isinstance(one, exp.Ordered) else one), one))
            for one in order
        ]
        self.keys = [k._replace(value=self.builder.bound(self.body, k.value)) for k in self.keys]
        self.identity = self.builder.identity(self.body)
        if not self.identity:  # a row that nothing tells from others is the only one
            self.identity = [self.builder.define(self.body, Typed(Lit(0, "int64"), INTEGER, False))]
        self.around = [outer_value(self.body, n) for n in self.builder.carried(self.body)]
        self._number: Typed | None = None
        self._peers: dict[str, Typed] = {}

    @property
    def is_numbered(self) -> bool:
        """Whether a function needs the numbers of rows."""
        return self._number is not None

    @property
    def groups(self) -> list[Typed]:
        """The values that identify a partition."""
        return [*self.around, *self.by]

    def number(self) -> Typed:
        """Return the number of a row in its partition."""
        if self._number is None:
            table = numbered(self.builder, self.body, self.by, self.keys, self.identity)
            if self._is_numbered_whole():
                self.body.literals.clear()  # the numbers have the same rows
            self._number = self.builder.scan(table, self.body, [*self.around, *self.identity])[-1]
        return self._number

    def _is_numbered_whole(self) -> bool:
        """Return whether the body is one atom, whose columns all tell its rows apart."""
        (first, *others), own = self.body.literals, {v.term for v in self.identity}
        return not others and isinstance(first, Atom) and not first.values and {*first.keys} == own

    def peers(self, op: str) -> Typed:
        """Return the least or greatest number of the rows that the order does not tell apart."""
        if op not in self._peers:
            number = self.number()
            groups = [*self.groups, *(k.value for k in self.keys)]
            self._peers[op] = self._folded(op, BIGINT, groups, number.term, self.body)
        return self._peers[op]

    def _folded(
        self, op: str, type_: SqlType, groups: Sequence[Typed], argument: Term | None, body: Body
    ) -> Typed:
        """Return an aggregate of the rows of each group, which each row reads."""
        result, name = self.builder.variable(type_, False).term, self.builder.helper()
        assert isinstance(result, Var)
        dummy = not groups
        inner = body.copy()
        keys = [*groups]
        if dummy:
            keys = [self.builder.define(inner, Typed(Lit(0, "int64"), INTEGER, False))]
        fold = Fold(op, result.name, () if argument is None else (argument,))
        self.builder.rule(Atom(name, tuple(k.term for k in keys), (result,)), inner, (fold,))
        columns = tuple(
            Column(f"g{n}", k.type, self.builder.may_be_null(inner, k)) for n, k in enumerate(keys)
        )
        table = Table(name, (*columns, Column("value", type_, False)), (*range(len(keys)),), True)
        return self.builder.scan(table, self.body, [] if dummy else keys)[-1]

    def count(self) -> Typed:
        """Return the number of rows of the partition."""
        if "count" not in self._peers:
            self._peers["count"] = self._folded("count", BIGINT, self.groups, None, self.body)
        return self._peers["count"]

    def _sought_order(self) -> list[Typed]:
        """Return values, never null, by which the rows of a partition are in order and told apart,
        if all can be sought; else none.
        """
        builder, body = self.builder, self.body
        upward = self._is_upward()
        terms = [t for key in self.keys for t in ordered_terms(builder, body, key, upward)]
        terms += [p.term for value in self.identity for p in parts_of(builder, body, value)]
        groups = [builder.resolve(g.term) for g in self.groups]
        terms = [t for t in dict.fromkeys(map(builder.resolve, terms)) if t not in groups]
        order = [column_of(body, t.name) for t in terms if isinstance(t, Var)]
        needed = (n for n in range(1, len(terms)) if builder.determines(body, groups + terms[:n]))
        order = order[: next(needed, len(terms))]
        return order if len(order) <= SOUGHT and all(is_sought(v.type) for v in order) else []

    def _is_upward(self) -> bool:
        return not (self.keys and all(k.desc for k in self.keys))

    def _beside(self, value: Typed, order: list[Typed], back: bool, default: Typed) -> Typed:
        """Return the value of the row before or after each, or a default without one."""
        row = [*self.groups, *order]
        names = [*(f"g{n}" for n in range(len(row))), "v"]
        rows = self._relation(self.body, names, [*row, value], len(row))
        near = Neighbours(self.builder, rows, len(self.groups), back != self._is_upward())
        name = self.builder.helper()
        for keys, beside, body in near.rows_found():
            self.builder.rule(Atom(name, tuple(v.term for v in keys), (beside.term,)), body)
        return self._with_default(name, rows, near.none(row), row, default)

    def _read(
        self, value: Typed, place: Typed, default: Typed, inside: Sequence[Literal] = ()
    ) -> Typed:
        """Return the value of the row at a place of the partition, or a default without one."""
        builder, number = self.builder, self.number()
        place = builder.define(self.body, place)
        groups = self.groups
        values = builder.helper()
        head = Atom(values, (*(g.term for g in groups), number.term), (value.term,))
        builder.rule(head, self.body)
        group_columns = tuple(
            Column(f"g{n}", g.type, builder.may_be_null(self.body, g)) for n, g in enumerate(groups)
        )
        null = builder.may_be_null(self.body, value)
        table = Table(
            values,
            (*group_columns, Column("n", BIGINT, False), Column("v", value.type, null)),
            (*range(len(groups) + 1),),
            True,
        )
        moved, wanted = builder.helper(), [*groups, number]
        there = self.body.copy()
        there.literals += inside
        found = builder.scan(table, there, [*groups, place])[-1]
        keys = tuple(v.term for v in wanted)
        builder.rule(Atom(moved, keys, (found.term,)), there)
        none = Body()
        builder.scan(table, none, [*groups, place])
        lacking = [Not((*none.literals, *inside))]
        return self._with_default(moved, table, lacking, wanted, default)

    def _with_default(
        self, name: str, table: Table, lacking: Sequence[Literal], row: list[Typed], default: Typed
    ) -> Typed:
        """Return the value of a function of some values of a row, which has those of a table, and
        a default where rows are lacking.
        """
        builder, missing, columns = self.builder, self.body.copy(), table.columns
        missing.literals += lacking
        other = builder.variable(default.type, default.nullable)
        assert isinstance(other.term, Var)
        missing.literals.append(Define(other.term, default.term))
        builder.rule(Atom(name, tuple(v.term for v in row), (other.term,)), missing)
        last = replace(columns[-1], nullable=columns[-1].nullable or default.nullable)
        result = Table(name, (*columns[:-1], last), (*range(len(row)),), function=True)
        return builder.scan(result, self.body, row)[-1]

    def _sought_key(self) -> Typed | None:
        """Return the one key of the order, if ranges of it can be sought and none is null."""
        if len(self.keys) != 1:
            return None
        value = self.keys[0].value
        nullable = self.builder.may_be_null(self.body, value)
        return None if nullable or not is_sought(value.type) else value

    def _relation(
        self, body: Body, names: Sequence[str], values: Sequence[Typed], key: int
    ) -> Table:
        """Return a helper view of some variables of a body, whose first `key` columns tell its
        rows apart.
        """
        body = body.copy()
        values = [own(self.builder, body, v) for v in values]
        columns = tuple(
            Column(n, v.type, self.builder.may_be_null(body, v))
            for n, v in zip(names, values, strict=True)
        )
        if len(columns) > KEYS_MAX:
            raise SqlError(
                f"a window needs {len(columns)} columns in one step, and {KEYS_MAX} is the most"
            )
        name = self.builder.helper()
        self.builder.rule(Atom(name, tuple(v.term for v in values)), body)
        return Table(name, columns, (*range(key),))

    def _or_empty(self, table: Table, keys: Sequence[Typed], empty: Lit) -> Typed:
        """Return the value of a function of some keys of the body, `empty` where it has none."""
        builder, name, value = self.builder, self.builder.helper(), table.columns[-1]
        there = self.body.copy()
        found = builder.scan(table, there, [*keys])[-1]
        terms = tuple(k.term for k in keys)
        builder.rule(Atom(name, terms, (found.term,)), there)
        missing, none = self.body.copy(), Body()
        builder.scan(table, none, [*keys])
        missing.literals.append(Not(tuple(none.literals)))
        other = builder.variable(value.type, True).term
        assert isinstance(other, Var)
        missing.literals.append(Define(other, empty))
        builder.rule(Atom(name, terms, (other,)), missing)
        columns = tuple(
            Column(f"k{n}", k.type, builder.may_be_null(self.body, k)) for n, k in enumerate(keys)
        )
        nullable = empty.value is None or value.nullable
        full = Table(
            name, (*columns, replace(value, nullable=nullable)), (*range(len(keys)),), True
        )
        return builder.scan(full, self.body, [*keys])[-1]
