"""FROM and JOIN: tables become atoms of one body; outer joins become helper views.

    a LEFT JOIN b ON c     v:part1(a's columns, b's) <- a, b, c.
                           v:part1(a's columns, b's) <- a, !(b, c), b's columns are null.

The helper view has the columns that the query names, and those that tell the rows of `a` and `b`
apart; if there are too many of these, its rows have multiplicities instead.
"""

from __future__ import annotations

from sqlglot import exp

from ivm.sql.conversions import alike
from ivm.sql.dialects.read import IN_TURN, KEYS_FIRST
from ivm.sql.errors import SqlError
from ivm.sql.queries import relations
from ivm.sql.queries.clauses import Translator, joins_by_name
from ivm.sql.queries.row_numbers import Key, copied, numbered, ordering
from ivm.sql.queries.scope import Needs, Scope, Source, shown_column
from ivm.sql.queries.sets import union
from ivm.sql.queries.subqueries import has_one_row
from ivm.sql.rules import Body, Table, column_of
from ivm.sql.terms import Call, Lit, Not, Typed, variables
from ivm.sql.types import BIGINT
from pagestore.host import KEYS_MAX


class Joins:
    """The tables of a FROM clause, joined one after the other."""

    def __init__(self, queries: Translator, scope: Scope, needs: Needs) -> None:
        self.queries, self.builder, self.scope, self.needs = queries, queries.builder, scope, needs

    @property
    def sources(self) -> list[Source]:
        """The tables so far."""
        return self.scope.sources

    def first(self, node: exp.Expr) -> None:
        """Add the first table, and those that are joined to it before any other."""
        self._add(*self._table(node))
        for join in node.args.get("joins") or ():
            self.join(join)

    def _add(self, body: Body, sources: list[Source]) -> None:
        known = {source.alias.lower() for source in self.sources}
        for source in sources:
            if source.alias and source.alias.lower() in known:
                raise SqlError(
                    f"two tables of this query are named {source.alias}: give one an alias"
                )
        self.scope.body.extend(body)
        self.sources.extend(sources)

    def _item(self, node: exp.Expr, lateral: bool = False) -> tuple[Body, list[Source]]:
        """Return the body and the columns of a side of a join."""
        if not node.args.get("joins"):
            return self._table(node, lateral)
        inner = Joins(
            self.queries, Scope(Body(self.scope.body.outer), [], self.scope.parent), self.needs
        )
        inner.first(node)
        return inner.scope.body, inner.sources

    def _table(self, node: exp.Expr, lateral: bool = False) -> tuple[Body, list[Source]]:
        """Return the body and the columns of a table, a subquery or a function."""
        outer = self.scope if lateral else self.scope.parent
        if isinstance(node, exp.Lateral):
            return self._item(node.this if not node.alias else _with_alias(node), lateral=True)
        if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table) and not node.alias:
            return self._item(node.this)
        rows = relations.rows(self.queries, node, outer)
        alias = node.alias_or_name
        columns = (
            [c.name for c in node.args["alias"].args.get("columns") or ()]
            if node.args.get("alias")
            else []
        )
        rows = rows.named(columns, node)
        return rows.body, [Source(alias, list(rows.columns))]

    def join(self, node: exp.Join) -> None:
        """Join one table more."""
        side, kind = (node.side or "").upper(), (node.kind or "").upper()
        if (node.method or "").upper() == "ASOF":
            self._asof(node, side)
            return
        if (node.method or "").upper() == "POSITIONAL":
            raise SqlError(
                "POSITIONAL JOIN takes rows by their place, and tables have no order: join by a key",
                node,
            )
        if kind in ("SEMI", "ANTI"):
            self._semi(node, kind == "SEMI")
            return
        lateral = _is_lateral(node.this) or (side == "LEFT" and _reads_columns(node.this))
        if side in ("LEFT", "RIGHT", "FULL") and not (lateral and _always_matches(node, side)):
            self._lateral(node, side) if lateral else self._outer(node, side)
            return
        body, sources = self._item(node.this, lateral or _is_function(node.this))
        if lateral:
            body.outer = self.scope.body.outer
        using = self._using(node, sources)
        self._add(body, sources)
        self.match(node, using, sources)
        self._lead(node, using, sources)

    def _using(self, node: exp.Join, sources: list[Source]) -> list[str]:
        """Return the names of the columns that USING or NATURAL joins by."""
        if node.args.get("using"):
            return [column.name for column in node.args["using"]]
        if (node.method or "").upper() == "NATURAL":
            right = {name.lower() for source in sources for name, _ in source.columns}
            left = [
                n
                for s in self.sources
                if s not in sources
                for n, _ in s.columns
                if n.lower() not in s.merged
            ]
            if not (both := [name for name in left if name.lower() in right]):
                raise SqlError("NATURAL JOIN finds no common column: write CROSS JOIN", node)
            return [*dict.fromkeys(both)]
        return []

    def match(self, node: exp.Join, using: list[str], right: list[Source]) -> None:
        """Add the condition of a join to the body."""
        for name in using:
            left, other = self._pair(name, right, node)
            if not self.builder.unify(self.scope.body, left.term, other.term):
                self.builder.test(self.scope.body, Call("=", (left.term, other.term)))
            self._merge(name, right)
        if on := node.args.get("on"):
            self.queries.expressions(self.scope).require(on)

    def _merge(self, name: str, right: list[Source]) -> None:
        for source in right:
            if source.find(name) is not None:
                source.merged.add(name.lower())

    def _lead(self, node: exp.Join, using: list[str], right: list[Source]) -> None:
        """Let the columns of USING come first, in a dialect that shows them so."""
        if not node.meta.get(KEYS_FIRST):
            return
        names = [name.lower() for name in using]
        for source in right:
            source.leading = [name for name in source.leading if name not in names]
        first = self.sources[0]
        first.leading = [*names, *(name for name in first.leading if name not in names)]
        if node.meta.get(IN_TURN):
            for name in names:
                left = next(source for source in self.sources if source.find(name))
                for source in (left, *right):
                    source.keys += [name] * (source.find(name) is not None)

    def _pair(self, name: str, right: list[Source], node: exp.Join) -> tuple[Typed, Typed]:
        left = [source for source in self.sources if source not in right]
        both = (self._holder(name, side, node).find(name) for side in (left, right))
        first, second = (value for value in both if value is not None)
        if first.type.store != second.type.store:
            raise SqlError(f"USING ({name}): the columns are {first.type} and {second.type}", node)
        return first, second

    def _holder(self, name: str, side: list[Source], node: exp.Join) -> Source:
        """Return the table that shows a column of USING on a side of a join.  Raises SqlError."""
        holders = [s for s in side if s.find(name) and name.lower() not in s.merged]
        if not holders:
            raise SqlError(f"USING ({name}): both tables need a column {name}", node)
        if len(holders) > 1 and not node.meta.get(IN_TURN):
            ways = " and ".join(f"{source.alias}.{name}" for source in holders)
            raise SqlError(f"USING ({name}) may mean {ways}: join ON an equation", node)
        return holders[0]

    # -- joins whose right side is a subquery

    def _semi(self, node: exp.Join, wanted: bool) -> None:
        """SEMI and ANTI joins: rows of the left for which there is a match, or none."""
        right = self._item(node.this)[1] if _looks_up(node) else []
        inner = exp.select("1").from_(node.this.copy()).where(*self._tests(node, right, exp.EQ))
        self.scope.body.literals += self.queries.subqueries.exists(inner, self.scope, wanted)

    def _tests(self, node: exp.Join, right: list[Source], last: type[exp.Binary]) -> list[exp.Expr]:
        """Return the conditions of a join for a subquery of its right side, where each column is
        named with its table.

        The last column of USING is compared as `last` says.  Raises SqlError.
        """
        using, left = self._using(node, right), self.sources
        kinds: list[type[exp.Binary]] = [*[exp.EQ] * (len(using) - 1), last]
        tests: list[exp.Expr] = [
            kind(
                this=shown_column(name, self._holder(name, left, node).alias),
                expression=exp.column(name, self._holder(name, right, node).alias),
            )
            for kind, name in zip(kinds, using, strict=False)
        ]
        if not node.args.get("on"):
            return tests
        on: exp.Expr = exp.paren(node.args["on"])
        for column in _without_table(on):
            column.replace(self._with_table(column, right))
        on = on.this
        return [*tests, *(on.flatten() if isinstance(on, exp.And) else [on])]

    def _with_table(self, column: exp.Column, right: list[Source]) -> exp.Expr:
        """Return a column with the name of its table, as it is shown before a join."""
        tables = [s for s in (*self.sources, *right) if s.find(column.name) is not None]
        shown = [s for s in tables if column.name.lower() not in s.merged]
        if len(shown) != 1:
            Scope(self.scope.body, [*self.sources, *right], self.scope.parent).column(column)
            return column
        (source,) = shown
        make = exp.column if source in right else shown_column
        return make(column.this.copy(), source.alias)

    # -- the nearest row

    def _asof(self, node: exp.Join, side: str) -> None:
        """Join each row with the nearest; for RIGHT and FULL, also rows nearest to none."""
        is_outer = side in ("RIGHT", "FULL")
        item = self._item(node.this) if is_outer or _looks_up(node) else None
        sources = item[1] if item else []
        using, alias = self._using(node, sources), node.this.alias_or_name
        conditions, order = self._nearness(node, sources, alias)
        self.builder.costs.append(
            "ASOF JOIN: the rows before or after each row are kept, O(rows of the partition)"
        )
        if item and is_outer:
            right = _Side(self, *item, apart=True)
            left = _Side(self, self.scope.body, self.sources)
            _NearestJoin(self, node, using, left, right, side, conditions, order).apply()
            return
        self.join(self._lateral_nearest(node, alias, conditions, order))
        for name in using:
            self._merge(
                name, [source for source in self.sources if source.alias.lower() == alias.lower()]
            )

    def _nearness(
        self, node: exp.Join, right: list[Source], alias: str
    ) -> tuple[list[exp.Expr], exp.Ordered]:
        """Return the conditions of an ASOF JOIN, and the order in which the nearest row comes
        first.

        The last column of USING is that of the inequality.  Raises SqlError.
        """
        tests = self._tests(node, right, exp.GTE)
        bounds = [test for test in tests if type(test) in _BACK]
        if len(bounds) != 1:
            raise SqlError(
                "ASOF JOIN takes one inequality, as in t.time >= u.time, and equations", node
            )
        bound = bounds[0]
        if not _is_of(bound.expression, alias):
            bound = _BACK[type(bound)](this=bound.expression, expression=bound.this)
        if not _is_of(bound.expression, alias):
            raise SqlError(
                f"ASOF JOIN: name the tables of the columns, as in t.time >= {alias}.time", node
            )
        return tests, exp.Ordered(
            this=bound.expression.copy(), desc=isinstance(bound, exp.GTE | exp.GT)
        )

    def _lateral_nearest(
        self, node: exp.Join, alias: str, conditions: list[exp.Expr], order: exp.Ordered
    ) -> exp.Join:
        """Return an ASOF JOIN as a lateral join with the nearest row, the least by its key among
        equally near ones.
        """
        table = node.this
        names = [n for n, _ in relations.rows(self.queries, table, self.scope.parent).columns]
        columns = [exp.column(n, alias, quoted=True) for n in names if self.needs.wants(alias, n)]
        items: list[exp.Expr] = [*columns] or [exp.Literal.number(1)]
        query = exp.select(*items).from_(table.copy()).where(*conditions).order_by(order).limit(1)
        lateral = exp.Lateral(
            this=exp.Subquery(this=query), alias=exp.TableAlias(this=exp.to_identifier(alias))
        )
        return exp.Join(
            this=lateral, side="LEFT" if node.side.upper() == "LEFT" else None, on=exp.true()
        )

    # -- outer joins

    def _lateral(self, node: exp.Join, side: str) -> None:
        """LEFT JOIN LATERAL: the rows joined, and those without, with nulls."""
        if side != "LEFT":
            raise SqlError(f"{side} JOIN LATERAL is not SQL: the left side comes first", node)
        outer, builder = self.scope.body.outer, self.builder
        body, sources = self._item(node.this, lateral=True)
        left = [
            (s, n, v) for s in self.sources for n, v in s.columns if self.needs.wants(s.alias, n)
        ]
        right = [(s, n, v) for s in sources for n, v in s.columns if self.needs.wants(s.alias, n)]
        joined, kept = self.scope.body.copy(), self.scope.body
        body.outer = outer
        joined.extend(body)
        if on := node.args.get("on"):
            scope = Scope(joined, [*self.sources, *sources], self.scope.parent)
            self.queries.expressions(scope).require(on)
        identity = builder.identity(kept)
        matched = builder.stored(
            joined, [(f"k{n}", v) for n, v in enumerate(identity)], distinct=True
        )
        around = builder.carried(joined, [v.term for v in identity])
        inner = Body(kept)
        builder.scan(matched, inner, [*(column_of(outer, n) for n in around), *identity])
        lacking = kept.copy()
        lacking.literals.append(Not(tuple(inner.literals)))
        key = [*(v for _, _, v in left), *identity]
        nulls = [Typed(Lit(None, v.type.store), v.type, True) for _, _, v in right]
        parts = [(joined, [*key, *(v for _, _, v in right)]), (lacking, [*key, *nulls])]
        self.scope.body, values = union(builder, outer, parts)
        listed = [*left, *((None, "", v) for v in identity), *right]
        by_alias = {s.alias: s.without_columns() for s in (*self.sources, *sources)}
        for (source, name, _), value in zip(listed, values, strict=True):
            if source is not None:
                by_alias[source.alias].columns.append((name, value))
        self.scope.sources = [*by_alias.values()]

    def _outer(self, node: exp.Join, side: str) -> None:
        right_body, right = self._item(node.this)
        using = self._using(node, right)
        left = _Side(self, self.scope.body, self.sources)
        other = _Side(self, right_body, right)
        _OuterJoin(self, node, using, left, other, side).apply()
        self._lead(node, using, self.sources[len(left.sources) :])


def _looks_up(node: exp.Join) -> bool:
    """Return whether a join names columns without their table, which both sides must tell."""
    on = node.args.get("on")
    return joins_by_name(node) or bool(on and _without_table(exp.paren(on)))


def _without_table(on: exp.Expr) -> list[exp.Column]:
    """Return the columns of a condition on its own, outside subqueries, without a table's name."""
    columns = on.find_all(exp.Column)
    return [column for column in columns if not (column.table or column.find_ancestor(exp.Query))]


class _Side:
    """One side of an outer join: a table with the columns needed, read afresh for each rule."""

    def __init__(
        self, joins: Joins, body: Body, sources: list[Source], apart: bool = False
    ) -> None:
        """Rows that may be equal have multiplicities; they are numbered to be told `apart`."""
        self.joins, self.builder, self.sources = joins, joins.builder, sources
        self.places: list[tuple[int, str]] = []  # of each column: its source and its name
        values: list[Typed] = []
        for n, source in enumerate(sources):
            for name, value in source.columns:
                if joins.needs.wants(source.alias, name):
                    self.places.append((n, name))
                    values.append(value)
        identity = self._identity(body, values)
        self.extra = len(identity)
        outputs = [(f"c{n}", value) for n, value in enumerate([*values, *identity])]
        if not outputs:
            outputs = [("c0", Typed(Lit(0, "int64"), BIGINT, False))]
            self.extra = 1
        self.around = joins.builder.carried(body, [value.term for _, value in outputs])
        self.outer = body.outer
        self.names = [name for name, _ in outputs]
        self.picked: list[int] | None = None
        self.table = self._single(body, outputs) or joins.builder.stored(body, outputs)
        if apart and self.table.weighs:
            self.table, self.picked = copied(joins.builder, self.table), None
            self.names = [column.name for column in self.table.columns[len(self.around) :]]

    def _identity(self, body: Body, values: list[Typed]) -> list[Typed]:
        """Return variables that tell rows apart and are not among the values, if they are few."""
        if body.weights:
            return []
        known = {self.builder.resolve(v.term) for v in values}
        left = [v for v in self.builder.identity(body) if v.term not in known]
        return left if len(left) < KEYS_MAX // 2 or len(left) + len(values) <= KEYS_MAX else []

    def _single(self, body: Body, outputs: list[tuple[str, Typed]]) -> Table | None:
        """Return the table itself if the body is one atom of variables, without a helper view."""
        if len(body.literals) != 1 or len(body.scans) != 1 or body.required or self.around:
            return None
        table, row = body.scans[0]
        terms = [self.builder.resolve(value.term) for value in row]
        outputs_terms = [self.builder.resolve(value.term) for _, value in outputs]
        if table.weighs or not {*outputs_terms} <= {*terms} or len({*terms}) < len(terms):
            return None
        self.picked = [terms.index(term) for term in outputs_terms]
        return table

    @property
    def key(self) -> list[int]:
        """The positions among its columns of those that tell its rows apart; none if it is not
        known to have these.
        """
        if self.table.weighs or self.around:
            return []
        places = self.picked if self.picked is not None else [*range(len(self.names))]
        if {*self.table.key} <= {*places}:
            return [places.index(place) for place in self.table.key]
        return []

    @property
    def never_null(self) -> list[int]:
        """The positions among its columns of those that are never null, first those of its key."""
        columns = self.table.columns[len(self.around) :]
        places = self.picked if self.picked is not None else [*range(len(self.names))]
        places_null = [n for n, place in enumerate(places) if not columns[place].nullable]
        return sorted(places_null, key=lambda n: n not in self.key)

    def read(self, body: Body) -> list[Typed]:
        """Add the table to a body; return its columns."""
        if self.picked is not None:
            row = self.builder.scan(self.table, body)
            return [row[place] for place in self.picked]
        given = [column_of(self.outer, name) for name in self.around]
        return self.builder.scan(self.table, body, given)[len(given) :]

    def sources_of(self, values: list[Typed]) -> list[Source]:
        """Return the sources with the values of a reading as their columns."""
        sources = [source.without_columns() for source in self.sources]
        for (n, name), value in zip(self.places, values, strict=False):
            sources[n].columns.append((name, value))
        return sources


class _OuterJoin:
    """The rules of an outer join."""

    def __init__(
        self, joins: Joins, node: exp.Join, using: list[str], left: _Side, right: _Side, side: str
    ) -> None:
        self.joins, self.node, self.using, self.left, self.right = joins, node, using, left, right
        self.side = side
        self.builder = joins.builder
        self.parts: list[tuple[Body, list[Typed]]] = []
        self.kept_key = False

    def apply(self) -> None:
        """Replace the body of the query by one that reads the joined rows."""
        outer = self.joins.scope.body.outer
        matched = Body(outer)
        left, right = self.left.read(matched), self.right.read(matched)
        self._condition(matched, left, right)
        key = [left[place].term for place in self.left.key]
        self.kept_key = self.side == "LEFT" and bool(key) and self.builder.is_set(matched, key)
        self.parts.append((matched, [*left, *right]))
        if self.side in ("LEFT", "FULL"):
            self._unmatched(outer, keep_left=True)
        if self.side in ("RIGHT", "FULL"):
            self._unmatched(outer, keep_left=False)
        body, values = union(self.builder, outer, self.parts, self._apart())
        self._keep_key(body, values)
        width = len(self.left.names)
        self.joins.scope.body = body
        sources = [*self.left.sources_of(values[:width]), *self.right.sources_of(values[width:])]
        self.joins.scope.sources = sources
        self._merge(sources)

    def _keep_key(self, body: Body, values: list[Typed]) -> None:
        """Note that the key of the left side identifies the joined rows, if at most one row
        matches each of it.
        """
        if self.kept_key and not body.weights:
            ((_, all_),) = body.keys
            key = frozenset(variables(*(values[place].term for place in self.left.key)))
            body.keys = [(key, all_)]

    def _apart(self) -> list[int] | None:
        """Return the places of columns that tell apart the rows that nothing matches of both sides;
        None if none do.

        A row of nulls that the left side has may be what FULL JOIN adds to the right's, if that has
        one as well.
        """
        if self.left.table.weighs or self.right.table.weighs:
            return None
        if self.side != "FULL":
            return []
        width = len(self.left.names)
        values = [*self.left.never_null, *(width + place for place in self.right.never_null)]
        return values[:1] or None

    def _unmatched(self, outer: Body | None, keep_left: bool) -> None:
        """Add the rows of one side that nothing matches, with nulls for the other."""
        kept, other = (self.left, self.right) if keep_left else (self.right, self.left)
        body = Body(outer)
        row = kept.read(body)
        inner = Body(body)
        theirs = other.read(inner)
        pair = (row, theirs) if keep_left else (theirs, row)
        self._condition(inner, *pair)
        resolved = tuple(self.builder.resolved(literal) for literal in inner.literals)
        body.literals.append(Not(resolved, frozenset(self.builder.names_of(inner.required))))
        nulls = [Typed(Lit(None, literal.type.store), literal.type, True) for literal in theirs]
        self.parts.append((body, [*row, *nulls] if keep_left else [*nulls, *row]))

    def _condition(self, body: Body, left: list[Typed], right: list[Typed]) -> None:
        """Add the join's condition to a body that reads both sides, or one inside the other."""
        scope = Scope(
            body,
            [*self.left.sources_of(left), *self.right.sources_of(right)],
            self.joins.scope.parent,
        )
        joins = Joins(self.joins.queries, scope, self.joins.needs)
        joins.match(self.node, self.using, scope.sources[len(self.left.sources) :])

    def _merge(self, sources: list[Source]) -> None:
        """Show a column of USING once: the left's; RIGHT: the right's; FULL: what is known."""
        right = sources[len(self.left.sources) :]
        for name in self.using:
            left = next(
                s
                for s in sources
                if s not in right and s.find(name) is not None and name.lower() not in s.merged
            )
            theirs = next(s for s in right if s.find(name) is not None)
            column, other = left.find(name), theirs.find(name)
            assert column is not None and other is not None
            if self.side != "LEFT":
                value = other if self.side == "RIGHT" else self._known(column, other)
                left.show(name, value)
            theirs.merged.add(name.lower())

    def _known(self, left: Typed, right: Typed) -> Typed:
        """Return the value of a column of USING that a row has of either side."""
        left, right = alike(self.node, left, right)
        known = Call("coalesce", (left.term, right.term))
        return Typed(known, left.type, left.nullable and right.nullable)


class _NearestJoin(_OuterJoin):
    """An outer join with the nearest row, which a helper view has for each row of the left side.

    v:part1(a's key, b's key) <- a, b, conditions, number[a's, b's] = 1.
    """

    def __init__(
        self,
        joins: Joins,
        node: exp.Join,
        using: list[str],
        left: _Side,
        right: _Side,
        side: str,
        conditions: list[exp.Expr],
        order: exp.Ordered,
    ) -> None:
        super().__init__(joins, node, using, left, right, side)
        body = Body(joins.scope.body.outer)
        own = left.read(body)
        near = Body(body)
        theirs = right.read(near)
        scope = Scope(body, left.sources_of(own), joins.scope.parent)
        values = joins.queries.expressions(Scope(near, right.sources_of(theirs), scope))
        for condition in conditions:
            values.require(condition)
        key, identity = Key(*ordering(values.value(order.this), order)), self.builder.identity(near)
        around = [column_of(body, name) for name in self.builder.carried(near)]
        numbers = numbered(self.builder, near, [], [key], identity, 1)
        self.builder.scan(numbers, near, [*around, *identity])
        near.outer = body.outer
        body.extend(near)
        outputs = [(f"c{n}", value) for n, value in enumerate(self._keys(own, theirs))]
        self.around = self.builder.carried(body, [value.term for _, value in outputs])
        self.nearest = self.builder.stored(body, outputs, distinct=True)

    def _keys(self, left: list[Typed], right: list[Typed]) -> list[Typed]:
        """Return what tells the rows of both sides apart."""
        pairs = ((self.left, left), (self.right, right))
        return [values[place] for side, values in pairs for place in side.key or range(len(values))]

    def _condition(self, body: Body, left: list[Typed], right: list[Typed]) -> None:
        """Let a body that reads both sides, or one inside the other, hold where one row is the
        nearest of the other.
        """
        given = [column_of(body.outer, name) for name in self.around]
        self.builder.scan(self.nearest, body, [*given, *self._keys(left, right)])


_BACK: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GTE: exp.LTE, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.LT: exp.GT,
}  # fmt: skip


def _is_of(node: exp.Expr, alias: str) -> bool:
    """Return whether an expression has columns of one table alone, by its name."""
    return {column.table.lower() for column in node.find_all(exp.Column)} == {alias.lower()}


def _always_matches(node: exp.Join, side: str) -> bool:
    """Return whether a lateral LEFT JOIN has exactly one match for each row."""
    query = node.this.this
    while isinstance(query, exp.Subquery):
        query = query.this
    on = node.args.get("on")
    return side == "LEFT" and (on is None or on == exp.true()) and has_one_row(query)


def _is_function(node: exp.Expr) -> bool:
    return isinstance(node, exp.Unnest) or (
        isinstance(node, exp.Table) and isinstance(node.this, exp.Func)
    )


def _is_lateral(node: exp.Expr) -> bool:
    return isinstance(node, exp.Lateral) or (
        isinstance(node, exp.Subquery) and bool(node.args.get("lateral"))
    )


def _reads_columns(node: exp.Expr) -> bool:
    """Return whether a node is a function of columns, as those of tables before it."""
    return _is_function(node) and node.find(exp.Column) is not None


def _with_alias(node: exp.Lateral) -> exp.Expr:
    inner: exp.Expr = node.this.copy()
    inner.set("alias", node.args["alias"])
    return inner
