"""Rows of a partition of window functions: their numbers, rows at a place, and those beside each.

The row before or after each, which lag and lead read, is found by a seek, in the order of several
columns (plan/rewrite/ranges.py):

    near[k] = argmax(l, b, l) <- rows[k] = (p, a), rows[l] = (p, b), if[b = a, l < k, b < a].

An edit changes what its neighbours read, and costs a seek for each.  The row that is a few steps
away is the neighbour of a neighbour, so that a frame of a few rows is a join.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from ivm.sql.terms import Atom, Call, Lit, Literal, Term, Typed, Var, variables
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


# the columns of a row, those of another, and the body that finds the two
Pair = tuple[Sequence[Typed], Sequence[Typed], Body]


class Neighbours:
    """Finds the neighbours of rows, whose columns are those of their group, those that they are in
    order by, and others.
    """

    def __init__(
        self, builder: Builder, rows: Table, levels: range, told: Sequence[int], upward: bool
    ) -> None:
        """The neighbour has the next greater values if `upward`, else the next smaller ones, of the
        columns at the places `levels`; those at `told` tell a row apart.
        """
        self.builder, self.rows, self._levels, self._told = builder, rows, levels, told
        self._op, self._sign = ("min", ">") if upward else ("max", "<")
        self._moved = [place for place in told if place in levels]

    def own(self, row: Sequence[Typed]) -> list[Typed]:
        """Return the columns that tell a row apart."""
        return [row[place] for place in self._told]

    def there(self, pair: Sequence[Typed]) -> list[Typed]:
        """Return the columns that tell the other row of a pair apart."""
        moved = iter(pair[len(self._told) :])
        places = zip(self._told, pair, strict=False)
        return [next(moved) if place in self._moved else value for place, value in places]

    @cached_property
    def _next(self) -> Table:
        near, body = [*map(self._near, self._moved)], Body()
        if len(near) == 1 and (self.rows.parts or len(self._told) == len(self.rows.columns)):
            return near[0]
        row = self.builder.scan(self.rows, body)
        own, key = self.own(row), self._key(row)
        moved = [self.builder.scan(table, body, key)[-1] for table in near]
        return self.pairs([(own, self.there([*own, *moved]), body)], True)

    def pairs(self, bodies: Iterable[Pair], is_function: bool) -> Table:
        """Make a relation of the pairs that some bodies find: a function if each row is in one."""
        name, columns = self.builder.helper(), [self.rows.columns[n] for n in self._told]
        moved = [n for n, place in enumerate(self._told) if place in self._moved]
        is_function = is_function and len(moved) == 1
        for row, there, body in bodies:
            key, other = tuple(v.term for v in row), tuple(there[n].term for n in moved)
            self.builder.rule(
                Atom(name, key, other) if is_function else Atom(name, key + other), body
            )
        columns += [replace(columns[n], name=f"t{n}") for n in moved]
        keys = len(columns) - is_function
        return Table(name, (*columns,), (*range(keys),), is_function)

    def far(self, steps: int) -> Table:
        """Return the pairs of rows with those that are so many steps away, 1 or more."""
        return self._next if steps == 1 else self.pairs([self.away(steps)], True)

    def away(self, steps: int) -> Pair:
        """Return what finds the pairs of rows with those that are so many steps away."""
        body = Body()
        if not steps:
            row = self.own(self.builder.scan(self.rows, body))
            return row, row, body
        pair = first = self.builder.scan(self._next, body)
        for _ in range(steps - 1):
            pair = self.builder.scan(self._next, body, self.there(pair))
        return first[: len(self._told)], self.there(pair), body

    def outermost(self) -> tuple[list[Typed], list[Typed], Body]:
        """Return the columns of groups, what tells the first row of each from outside apart, and the
        body that finds it.
        """
        body, own = Body(), dict[int, Typed]()
        group: list[Typed] = []
        for place in self._moved:
            rows = Body()
            row = self.builder.scan(self.rows, rows)
            table = self._extreme(rows, row[: self._levels.start], row, place)
            *group, own[place] = self.builder.scan(table, body, group)
        return group, [own.get(place) or group[place] for place in self._told], body

    def _near(self, place: int) -> Table:
        """Return a function from what tells a row apart to a column of its neighbour."""
        body = Body()
        row = self.builder.scan(self.rows, body)
        other = self.builder.scan(self.rows, body, row[: self._levels.start])
        pairs = [(other[n].term, row[n].term) for n in self._levels]
        beyond = Call(self._sign, pairs[-1])
        for pair in reversed(pairs[:-1]):
            beyond = Call("if", (Call("=", pair), beyond, Call(self._sign, pair)))
        self.builder.test(body, beyond)
        return self._extreme(body, self._key(row), other, place)

    def _key(self, row: Sequence[Typed]) -> list[Typed]:
        """Return the columns by which rules know a row: all columns of a helper view."""
        return self.own(row) if self.rows.parts else [*row]

    def _extreme(
        self, body: Body, keys: Sequence[Typed], row: Sequence[Typed], place: int
    ) -> Table:
        """Return a function from keys to a column of the row that is nearest to the rows before."""
        order, value = [row[n].term for n in self._levels], row[place]
        if order == [value.term]:
            return self.builder.function(body, keys, value, self._op, (value.term,))
        return self.builder.function(body, keys, value, f"arg{self._op}", (value.term, *order))


class Partition:
    """The rows of one PARTITION BY, in the order of one ORDER BY."""

    def __init__(self, select: Clauses, by: list[exp.Expr], order: list[exp.Expr]) -> None:
        self.select, self.builder, self.body = select, select.builder, select.scope.body
        self.by = [self.builder.bound(self.body, select.evaluate(value)) for value in by]
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
        (first, *others), ids = self.body.literals, {v.term for v in self.identity}
        return not others and isinstance(first, Atom) and not first.values and {*first.keys} == ids

    def peers(self, op: str) -> Typed:
        """Return the least or greatest number of the rows that the order does not tell apart."""
        if op not in self._peers:
            number = self.number()
            groups = [*self.groups, *(k.value for k in self.keys)]
            self._peers[op] = self._folded(op, BIGINT, groups, number.term)
        return self._peers[op]

    def _folded(
        self, op: str, type_: SqlType, groups: Sequence[Typed], argument: Term | None
    ) -> Typed:
        """Return an aggregate of the rows of each group, which each row reads."""
        value = Typed(Lit(0, "int64"), type_, False)
        args = () if argument is None else (argument,)
        table = self.builder.function(self.body.copy(), groups, value, op, args)
        return self.builder.scan(table, self.body, groups)[-1]

    def count(self) -> Typed:
        """Return the number of rows of the partition."""
        if "count" not in self._peers:
            self._peers["count"] = self._folded("count", BIGINT, self.groups, None)
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
        is_near = is_rows and -STEPS <= ends[0] <= ends[1] <= STEPS
        return range(ends[0], ends[1] + 1) if is_near else None

    @cached_property
    def near(self) -> dict[bool, Neighbours]:
        """What finds the rows before each (True) and after it; empty if these cannot be sought."""
        if not (order := self._sought_order()):
            return {}
        row = [*self.groups, *order]
        terms, identity = [v.term for v in row], [v.term for v in self.identity]
        are_known = {*identity} <= {*terms}
        around = {*self.builder.carried(self.body)}  # the same row for each row of a query around
        identity = [t for t in terms if t in identity or around.intersection(variables(t))]
        told = [*map(terms.index, identity)] if are_known else [*range(len(row))]
        self._own = [row[place] for place in told]
        rows = self._relation(self.body, row, len(row))
        levels, upward = range(len(self.groups), len(row)), self._is_upward()
        return {b: Neighbours(self.builder, rows, levels, told, b != upward) for b in (True, False)}

    def _values(self, body: Body, values: Sequence[Typed]) -> Table:
        """Return a relation of some values of the rows of a body, after what tells these apart."""
        return self._relation(body, [*self._own, *values], len(self._own))

    def _beside(self, value: Typed, steps: int, back: bool, default: Typed) -> Typed:
        """Return the value of the row so many steps before or after, or else a default."""
        near, body = self.near[back], Body()
        far, values = near.far(steps), self._values(self.body, [value])
        pair = self.builder.scan(far, body)
        moved = self.builder.scan(values, body, near.there(pair))[len(self._own)]
        table = self.builder.function(body, pair[: len(self._own)], moved)
        return self._or_empty(table, self._own, default, far)

    def _outermost(self, value: Typed, last: bool) -> Typed:
        """Return the value of the first or the last row of the partition."""
        group, own, body = self.near[last].outermost()
        row = self.builder.scan(self._values(self.body, [value]), body, own)
        table = self.builder.function(body, group, row[len(own)])
        return self.builder.scan(table, self.body, self.groups)[-1]

    def _read(
        self, value: Typed, place: Typed, default: Typed, inside: Sequence[Literal] = ()
    ) -> Typed:
        """Return the value of the row at a place of the partition, or a default without one.

        The places are a relation, so that a row's is looked up: a value that is only computed would
        be compared with all of its partition.
        """
        builder, row = self.builder, [*self.groups, self.number()]
        table, inner, there = (
            self._relation(self.body, [*row, value], len(row)),
            self.body.copy(),
            Body(),
        )
        inner.literals += inside
        *keys, place = builder.scan(self._relation(inner, [*row, place], len(row)), there)
        moved = builder.scan(table, there, [*keys[:-1], place])[-1]
        return self._or_empty(builder.function(there, keys, moved), row, default)

    def _at_number(self, value: Typed, number: int, last: Typed | None) -> Typed:
        """Return the value of the row with a number in the partition, if that is not after the
        `last` one of the frame.
        """
        rows, builder, most = self.body.copy(), self.builder, max(number, 1)
        table = numbered(builder, self.body, self.by, self.keys, self.identity, most)
        place = builder.scan(table, rows, [*self.around, *self.identity])[-1]
        builder.test(rows, Call("=", (place.term, Lit(number, "int64"))))
        null = Typed(Lit(None, value.type.store), value.type, True)
        keys = self.groups or [builder.define(rows, Typed(Lit(0, "int64"), INTEGER, False))]
        found = builder.function(rows, keys, value)
        keys = self.groups or [builder.define(self.body, Typed(Lit(0, "int64"), INTEGER, False))]
        there = self._or_empty(found, keys, null)
        if last is None:
            return there
        inside = Call("<=", (Lit(number, "int64"), last.term))
        return Typed(Call("if", (inside, there.term, null.term)), value.type, True)

    def _sought_key(self) -> Typed | None:
        """Return the one key of the order, if ranges of it can be sought and none is null."""
        if len(self.keys) != 1:
            return None
        value = self.keys[0].value
        nullable = self.builder.may_be_null(self.body, value)
        return None if nullable or not is_sought(value.type) else value

    def _relation(self, body: Body, values: Sequence[Typed], key: int) -> Table:
        """Return a table that begins with variables of a body, of which the first `key` tell its
        rows apart: the body's only one, or a helper view.
        """
        if table := _rearranged(self.builder, body, values, key):
            return table
        body = body.copy()
        values = [own(self.builder, body, v) for v in values]
        if len(values) > KEYS_MAX:
            raise SqlError(
                f"a window needs {len(values)} columns in one step, and {KEYS_MAX} is the most"
            )
        if len(values) == key + 1:
            return self.builder.function(body, values[:key], values[key])
        name, nulls = self.builder.helper(), [self.builder.may_be_null(body, v) for v in values]
        self.builder.rule(Atom(name, tuple(v.term for v in values)), body)
        columns = (Column(f"c{n}", v.type, nulls[n]) for n, v in enumerate(values))
        return Table(name, (*columns,), (*range(key),))

    def _or_empty(
        self, table: Table, keys: Sequence[Typed], empty: Typed, lacking: Table | None = None
    ) -> Typed:
        """Return the value of a function of some keys of the body, `empty` where it has none."""
        completed = self.builder.completed(table, self.body, keys, empty, lacking)
        return self.builder.scan(completed, self.body, [*keys])[-1]


def _rearranged(builder: Builder, body: Body, values: Sequence[Typed], key: int) -> Table | None:
    """Return the only table of a body with some columns first, of which the first `key` tell rows
    apart; None if it has no such table, or these leave rows or their keys out.
    """
    if len(body.scans) != 1 or len(body.literals) != 1 or body.weights or body.outer:
        return None
    ((table, row),), wanted = body.scans, [builder.resolve(value.term) for value in values]
    terms = [builder.resolve(value.term) for value in row]
    held, keys = {t for t in terms if isinstance(t, Var)}, {terms[place] for place in table.key}
    whole = len(held) == len(terms) and not builder.names_of(body.required)
    if not whole or table.parts or not keys <= {*wanted} <= held or len({*wanted}) < len(values):
        return None
    order = [*map(terms.index, wanted), *(n for n, t in enumerate(terms) if t not in wanted)]
    places = tuple(map(order.index, range(len(order))))
    columns = tuple(table.columns[place] for place in order)
    return Table(table.name, columns, (*range(key),), parts=((table, places),))
