"""Rows of a partition of window functions: their numbers, rows at a place, and those beside each.

The row before or after each, which lag and lead read, is found by seeks:

    rows(p, a, b, v)     near2[p, a, b] = max(c) <- rows(p, a, b, _), rows(p, a, c, _), c < b.
                         near1[p, a] = max(c) <- rows(p, a, _, _), rows(p, c, _, _), c < a.
                         last2[p, a] = max(b) <- rows(p, a, b, _).

Of rows in the order of a and b, the one before is (p, a, near2), or where near2 has none, (p, near1,
last2).  An edit changes what its neighbours read, and costs a seek for each.  The row that is a few
steps away is the neighbour of a neighbour, so that a frame of a few rows is a join.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from sqlglot import exp

from ivm.sql.errors import SqlError
from ivm.sql.queries.clauses import Clauses
from ivm.sql.queries.expressions import conjuncts
from ivm.sql.queries.row_numbers import MOST, Key, numbered, ordered_terms, ordering, parts_of
from ivm.sql.queries.scope import inner_query, text_of
from ivm.sql.queries.sets import own
from ivm.sql.rules import Body, Builder, Column, Table, column_of, outer_value
from ivm.sql.terms import Atom, Call, Define, Fold, Lit, Literal, Not, Term, Typed, Var
from ivm.sql.types import BIGINT, DATE, INTEGER, TIMESTAMP, SqlType
from pagestore.host import KEYS_MAX

STEPS = 8  # to a row that is sought as a neighbour of neighbours
LIMITS, ASKED = "limits", "asked"  # what the query around wants of row numbers, and may name
SOUGHT = 6  # columns by which rows are in order: each is a level of seeks


def is_sought(type_: SqlType) -> bool:
    """Return whether the words of a type are in the order of its values, and are compared as
    numbers are, so that ranges of them are sought.
    """
    return type_.range is not None or type_ in (DATE, TIMESTAMP)


def most_of(select: Clauses, nodes: list[exp.Window]) -> int:
    """Return the greatest row_number() of the rows that QUALIFY leaves, or WHERE of the query
    around, if a query has no other window function.
    """
    texts, qualify = {text_of(node) for node in nodes}, select.node.args.get("qualify")
    least = [MOST]
    if len(texts) > 1 or not isinstance(nodes[0].this, exp.RowNumber):
        return MOST
    for test in conjuncts(qualify.this) if qualify is not None else ():
        of = test.this
        of = select.named(of, "QUALIFY") if isinstance(of, exp.Column) else of
        if isinstance(of, exp.Window) and text_of(of) in texts:
            least.append(_most(test))
    names = [item.alias.lower() for item in select.items]
    for name, limit in select.node.meta.get(LIMITS, {}).items():
        alone = names.count(name) == 1 and select.scope.own(exp.column(name)) is None
        if alone and isinstance(select.items[names.index(name)].this, exp.Window):
            least.append(limit)
    return max(1, min(least))


def _most(test: exp.Expr) -> int:
    """Return the greatest number of which a comparison with a constant holds, MOST if it is none."""
    limit = test.args.get("high" if isinstance(test, exp.Between) else "expression")
    is_limit = isinstance(test, exp.EQ | exp.LTE | exp.LT | exp.Between)
    if not (is_limit and isinstance(limit, exp.Literal) and limit.is_int):
        return MOST
    return int(limit.this) - isinstance(test, exp.LT)


def limiting(node: exp.Select) -> exp.Select:
    """Return a query of one that may number rows, which notes what WHERE wants of the numbers, and
    which columns are named: SELECT a FROM (SELECT *, row_number() OVER w AS n FROM t) WHERE n <= 3.
    """
    new = node.copy()
    if not (new.args.get("where") and new.args.get("from_") and (inner := _inside(new))):
        return node
    table, limits = new.args["from_"].this.alias_or_name, dict[str, int]()
    for test in conjuncts(new.args["where"].this):
        of, limit = test.this, _most(test)
        if isinstance(of, exp.Column) and of.table in ("", table) and limit < MOST:
            limits[of.name.lower()] = min(limit, limits.get(of.name.lower(), MOST))
    inner.meta[LIMITS] = limits
    parts = [part for part in new.walk(prune=lambda part: part is inner) if part is not inner]
    stars = [part for part in parts if isinstance(part, exp.Star | exp.Columns)]
    stars += [star for star in inner.find_all(exp.Star) if any(star.args.values())]
    if limits and not stars:
        names = {part.name.lower() for part in parts if isinstance(part, exp.Identifier)}
        inner.meta[ASKED] = names
    return new


def _inside(node: exp.Select) -> exp.Select | None:
    """Return the query with all its rows that is the only table of one: a subquery, or of its WITH
    one that is read once.
    """
    source, with_ = node.args["from_"].this, node.args.get("with_")
    alone = not (node.args.get("joins") or node.args.get("laterals"))
    if isinstance(source, exp.Table) and with_ is not None and not with_.recursive:
        name = source.name.lower()
        reads = [table for table in node.find_all(exp.Table) if table.name.lower() == name]
        known = {cte.alias.lower(): cte for cte in with_.expressions}
        source = known.get(name, source) if len(reads) == 1 else source
    alone = alone and {key for key, value in source.args.items() if value} <= {"this", "alias"}
    if not alone or isinstance(source, exp.Table) or source.alias_column_names:
        return None
    inner = inner_query(source.this)
    whole = not any(map(inner.args.get, ("limit", "offset", "distinct")))
    return inner if isinstance(inner, exp.Select) and whole else None


def reaches_end(node: exp.Window, last: bool) -> bool:
    """Return whether every row's frame has the first row of the partition, or the `last` one."""
    given = node.args["spec"].args if node.args.get("spec") else {}
    start, end = given.get("start") or "UNBOUNDED", given.get("end") or "CURRENT ROW"
    away, side = (start, "start") if last else (end, "end")
    outward = "PRECEDING" if last else "FOLLOWING"
    is_past = (
        away in ("UNBOUNDED", "CURRENT ROW") or str(given.get(f"{side}_side")).upper() == outward
    )
    return (end if last else start) == "UNBOUNDED" and is_past and not given.get("exclude")


class Neighbours:
    """Finds the neighbours of rows, whose columns are those of their group, those that they are in
    order by, which tell them apart, and others.
    """

    def __init__(self, builder: Builder, rows: Table, levels: range, upward: bool) -> None:
        """The neighbour has the next greater values if `upward`, else the next smaller ones, of the
        columns at the places `levels`.
        """
        self.builder, self.rows, self._levels = builder, rows, levels
        self._op, self._sign = ("min", ">") if upward else ("max", "<")

    @cached_property
    def _near(self) -> dict[int, Table]:
        return {level: self._nearest(level) for level in self._levels}

    @cached_property
    def _ends(self) -> dict[int, Table]:
        return {level: self._end(level) for level in self._levels[1:]}

    @cached_property
    def _next(self) -> Table:
        """The rows with the ordered columns of their neighbours."""
        bodies = [
            ([*row, *there[self._levels.start :]], body) for row, there, body in self.rows_found()
        ]
        return self.together(bodies)

    def together(self, bodies: Iterable[tuple[Sequence[Typed], Body]]) -> Table:
        """Make a relation of rows and the ordered columns of others, of what some bodies find."""
        name, width = self.builder.helper(), self._levels.stop
        for row, body in bodies:
            self.builder.rule(Atom(name, tuple(v.term for v in row)), body)
        there = (replace(c, name=f"t{n}") for n, c in enumerate(self.rows.columns[:width]))
        columns = (*self.rows.columns[:width], *[*there][self._levels.start :])
        return Table(name, columns, (*range(len(columns)),))

    def away(self, steps: int) -> tuple[list[Typed], Body]:
        """Return rows with the ordered columns of those that are so many steps away, and the body
        that finds these.
        """
        body, first, width = Body(), self._levels.start, self._levels.stop
        row = self.builder.scan(self._next if steps else self.rows, body)
        there = row[width:] if steps else row[first:width]
        for _ in range(steps - 1):
            there = self.builder.scan(self._next, body, [*row[:first], *there])[width:]
        return [*row[:width], *there], body

    def outermost(self) -> tuple[list[Typed], Body]:
        """Return the columns of the row of each group that comes first from outside, and the body
        that finds it.
        """
        body, first = Body(), self._levels.start
        given = self.builder.scan(self._end(first), body)
        for level in self._levels[1:]:
            given.append(self.builder.scan(self._ends[level], body, given)[-1])
        return given, body

    def rows_found(self) -> Iterator[tuple[list[Typed], list[Typed], Body]]:
        """Yield the columns of rows, those of the neighbour, and the body that finds it."""
        for level in self._levels:
            body = Body()
            row = self.builder.scan(self.rows, body)
            body.literals += self._none(row, level + 1)
            given = [*row[:level], self.builder.scan(self._near[level], body, row[: level + 1])[-1]]
            for end in self._levels[level + 1 - self._levels.start :]:
                given.append(self.builder.scan(self._ends[end], body, given)[-1])
            yield row[: self._levels.stop], given, body

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
        self.most = MOST  # the greatest number that counts; rows with others are left out
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
            table = numbered(self.builder, self.body, self.by, self.keys, self.identity, self.most)
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
        inner = body.copy()
        fold = Fold(op, result.name, () if argument is None else (argument,))
        self.builder.rule(Atom(name, tuple(k.term for k in groups), (result,)), inner, (fold,))
        columns = tuple(
            Column(f"g{n}", k.type, self.builder.may_be_null(inner, k))
            for n, k in enumerate(groups)
        )
        table = Table(name, (*columns, Column("value", type_, False)), (*range(len(groups)),), True)
        return self.builder.scan(table, self.body, groups)[-1]

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

    def _offsets(self, node: exp.Window) -> range | None:
        """Return the offsets of the rows in a frame of a few ROWS; None for others."""
        given, ends = node.args["spec"].args if node.args.get("spec") else {}, list[int]()
        for end in ("start", "end"):
            bound = given.get(end) or "CURRENT ROW"
            term = self.select.evaluate(bound).term if isinstance(bound, exp.Expr) else None
            steps = term.value if isinstance(term, Lit) else 0 if bound == "CURRENT ROW" else None
            back = str(given.get(f"{end}_side")).upper() == "PRECEDING"
            ends.append((-steps if back else steps) if isinstance(steps, int) else STEPS + 1)
        is_rows = (given.get("kind") or "").upper() == "ROWS" and not given.get("exclude")
        return (
            range(ends[0], ends[1] + 1)
            if is_rows and -STEPS <= ends[0] <= ends[1] <= STEPS
            else None
        )

    def _neighbours(self, order: list[Typed], values: Sequence[Typed], back: bool) -> Neighbours:
        """Find the rows before or after each, in an order; rows have some values, too."""
        row = [*self.groups, *order]
        names = [f"g{n}" for n in range(len(row) + len(values))]
        rows = self._relation(self.body, names, [*row, *values], len(row))
        levels = range(len(self.groups), len(row))
        return Neighbours(self.builder, rows, levels, back != self._is_upward())

    def _beside(
        self, value: Typed, order: list[Typed], steps: int, back: bool, default: Typed
    ) -> Typed:
        """Return the value of the row so many steps before or after each, or a default without
        one.
        """
        row, given = [*self.groups, *order], [] if isinstance(default.term, Lit) else [default]
        near, name = self._neighbours(order, [value, *given], back), self.builder.helper()
        columns, missing = slice(len(row)), Body()
        alone = self.builder.scan(near.rows, missing)
        if steps == 1:
            moves, lacking = [*near.rows_found()], near.none(alone[columns])
        else:
            far, body, none = near.together([near.away(steps)]), Body(), Body()
            moved = self.builder.scan(far, body)
            there = [*moved[: len(self.groups)], *moved[len(row) :]]
            self.builder.scan(far, none, alone[columns])
            moves, lacking = [(moved[columns], there, body)], [Not(tuple(none.literals))]
        for keys, there, body in moves:
            moved = self.builder.scan(near.rows, body, there)
            self.builder.rule(
                Atom(name, tuple(v.term for v in keys), (moved[len(row)].term,)), body
            )
        empty, other = alone[-1] if given else default, self.builder.variable(default.type, True)
        assert isinstance(other.term, Var)
        missing.literals += [*lacking, Define(other.term, empty.term)]
        self.builder.rule(Atom(name, tuple(v.term for v in alone[columns]), (other.term,)), missing)
        *shown, last = near.rows.columns[: len(row) + 1]
        last = replace(last, nullable=last.nullable or empty.nullable)
        filled = Table(name, (*shown, last), (*range(len(row)),), function=True)
        return self.builder.scan(filled, self.body, row)[-1]

    def _outermost(self, value: Typed, order: list[Typed], last: bool) -> Typed:
        """Return the value of the first or the last row of the partition."""
        near, groups = self._neighbours(order, [value], last), self.groups
        there, body = near.outermost()
        name, row = self.builder.helper(), self.builder.scan(near.rows, body, there)
        keys = tuple(v.term for v in there[: len(groups)])
        self.builder.rule(Atom(name, keys, (row[-1].term,)), body)
        columns = (*near.rows.columns[: len(groups)], near.rows.columns[-1])
        result = Table(name, columns, (*range(len(groups)),), function=True)
        return self.builder.scan(result, self.body, groups)[-1]

    def _nearby(self, order: list[Typed], offsets: range) -> Table:
        """Return the rows with those in order that are at some offsets from each."""
        before, after = (self._neighbours(order, [], back) for back in (True, False))
        return before.together((before if n < 0 else after).away(abs(n)) for n in offsets)

    def _read(
        self, value: Typed, place: Typed, default: Typed, inside: Sequence[Literal] = ()
    ) -> Typed:
        """Return the value of the row at a place of the partition, or a default without one.

        The places are a relation, so that a row's is looked up: a value that is only computed would
        be compared with all of its partition.
        """
        builder, row = self.builder, [*self.groups, self.number()]
        names, groups = [f"g{n}" for n in range(len(row))], len(self.groups)
        table = self._relation(self.body, [*names, "v"], [*row, value], len(row))
        inner = self.body.copy()
        inner.literals += inside
        places = self._relation(inner, [*names, "place"], [*row, place], len(row))
        there, found = Body(), builder.helper()
        *keys, place = builder.scan(places, there)
        moved = builder.scan(table, there, [*keys[:groups], place])[-1]
        builder.rule(Atom(found, tuple(v.term for v in keys), (moved.term,)), there)
        return self._or_empty(replace(table, name=found, function=True), row, default)

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

    def _or_empty(self, table: Table, keys: Sequence[Typed], empty: Typed) -> Typed:
        """Return the value of a function of some keys of the body, `empty` where it has none."""
        builder, name, value = self.builder, self.builder.helper(), table.columns[-1]
        there, missing, none = Body(), self.body.copy(), Body()
        *given, found = builder.scan(table, there)
        builder.rule(Atom(name, tuple(k.term for k in given), (found.term,)), there)
        builder.scan(table, none, [*keys])
        missing.literals.append(Not(tuple(none.literals)))
        other = builder.variable(value.type, True).term
        assert isinstance(other, Var)
        missing.literals.append(Define(other, empty.term))
        builder.rule(Atom(name, tuple(k.term for k in keys), (other,)), missing)
        columns = tuple(
            Column(f"k{n}", k.type, builder.may_be_null(self.body, k)) for n, k in enumerate(keys)
        )
        nullable = empty.nullable or value.nullable
        full = Table(
            name, (*columns, replace(value, nullable=nullable)), (*range(len(keys)),), True
        )
        return builder.scan(full, self.body, [*keys])[-1]
