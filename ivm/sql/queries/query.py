"""Queries as rules: FROM, WHERE, GROUP BY, HAVING, windows, DISTINCT, LIMIT, set operations and
WITH.

SELECT a, b FROM t JOIN u USING (k) WHERE a > 3      one body: t[k] = (a, _), u[k] = b, a > 3
a LEFT JOIN b ON c                                   rows of both, and rows of a that no row of b matches
SELECT ... GROUP BY                                  see aggregates.py
x IN (SELECT ...), EXISTS, (SELECT max(a) ...)       see subqueries.py
row_number() OVER (...), LIMIT                       see windows.py
UNION, INTERSECT, EXCEPT                             see sets.py
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from sqlglot import exp

from ivm.sql.errors import SqlError, written
from ivm.sql.functions.known import refuse_unknown
from ivm.sql.functions.synonyms import plainer
from ivm.sql.naming.names import output_name
from ivm.sql.queries import (
    constants,
    grouping_sets,
    pivot,
    recursion,
    relations,
    row_numbers,
    sets,
    subqueries,
    windows,
)
from ivm.sql.queries.aggregates import Grouping, aggregates_in, markers_among
from ivm.sql.queries.clauses import Clauses, Rows, Translator, after_commas, unaliased
from ivm.sql.queries.expressions import Subqueries, conjuncts
from ivm.sql.queries.joins import Joins
from ivm.sql.queries.partitions import ASKED, limiting
from ivm.sql.queries.scope import LAST, Scope, Source, inner_query, needs_of, text_of, unique
from ivm.sql.rules import Body, Builder, Schema, Table
from ivm.sql.terms import Call, Term, Typed, Var
from pagestore.host import KEYS_MAX, of_texts

SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)

MANY = 50  # of WITH, which are views of their own in order


class Queries(Translator):
    """Translates queries."""

    def __init__(self, builder: Builder, schema: Schema) -> None:
        super().__init__(builder, schema)
        self.subqueries = Subqueries(
            lambda q, s, wanted: subqueries.exists(self, q, s, wanted),
            lambda v, q, s, wanted: subqueries.within(self, v, q, s, wanted),
            lambda q, s: subqueries.scalar(self, q, s),
            lambda v, values, s, wanted: constants.among(self, v, values, s, wanted),
        )

    def query(self, node: exp.Expr, outer: Scope | None = None, top: bool = False) -> Rows:
        """Return the rows of a query, as Translator says."""
        if outer is None:
            refuse_unknown(node)
        before = self.ctes
        self.ctes = {**before}
        try:
            if isinstance(node, exp.Select):
                node = row_numbers.of_share(node)
                node = limiting(node) if node.find(exp.RowNumber) else node
            self._with(node, outer)
            if not isinstance(node, exp.Select) and any(map(node.args.get, LAST)):
                return self.query(_of_rows(node), outer, top)
            if isinstance(node, exp.Subquery) and not isinstance(node.this, exp.Table):
                return self.query(node.this, outer, top)
            if isinstance(node, exp.SetOperation):
                return sets.rows(self, node, outer)
            if isinstance(node, exp.Select):
                read = plainer(relations.spread(relations.in_order_of_rows(node)))
                return Select(self, read, outer, top).rows()
            if isinstance(node, exp.Pivot):
                names = [name for name, _ in relations.rows(self, node.this, outer).columns]
                return self.query(pivot.rewritten(node, node.this, names), outer, top)
            if isinstance(node, exp.Values):
                return self._values(node, outer)
            if isinstance(node, exp.Table | exp.Subquery):
                return self.query(exp.select("*").from_(node), outer, top)
        finally:
            self.ctes = before
        raise SqlError(
            f"{node.key.upper()} cannot be evaluated as a query: {written(node)[:60]}", node
        )

    def _with(self, node: exp.Expr, outer: Scope | None) -> None:
        clause = node.args.get("with_") or node.args.get("with")
        if clause is None:
            return
        tables = (t for t in clause.root().find_all(exp.Table) if not t.db)
        uses, many = Counter(t.name.lower() for t in tables), len(clause.expressions) > MANY
        for cte in clause.expressions:
            name = cte.alias.lower()
            columns = [c.name for c in cte.args["alias"].args.get("columns") or ()]
            if clause.recursive and recursion.reads_itself(cte):
                self.ctes[name] = recursion.cte(self, cte, columns)
            else:
                self.ctes[name] = self._cte(cte, columns, many or uses[name] > 1)
                if many and uses[name]:  # in order, since a chain of them nests too deep
                    self.ctes[name](None)

    def _cte(
        self, cte: exp.CTE, columns: list[str], is_view: bool
    ) -> Callable[[Scope | None], Rows]:
        """Return a function that gives a CTE's rows, as one helper view if it `is_view`."""
        known = dict(self.ctes)
        stored: list[tuple[Table, Rows]] = []

        def rows(_outer: Scope | None) -> Rows:
            if not stored:
                before, self.ctes = self.ctes, known
                try:
                    made = self.query(cte.this, None).named(columns, cte)
                finally:
                    self.ctes = before
                if not is_view:
                    return made
                stored.append((self.builder.stored(made.body, made.columns), made))
            table, made = stored[0]
            return made.read_as(*self.builder.again(table, None))

        return rows

    def _values(self, node: exp.Values, outer: Scope | None) -> Rows:
        """`VALUES (1, 'a'), (2, 'b')`: a table of constants, or a union of a few rows."""
        given = [
            row.expressions if isinstance(row, exp.Tuple) else [row] for row in node.expressions
        ]
        if len({*map(len, given)}) != 1:
            raise SqlError("the rows of VALUES have different numbers of columns", node)
        if (table := constants.rows(self, given, node, outer)) is not None:
            return table
        parts = []
        for items in given:
            named = (exp.alias_(item.copy(), f"col{n}") for n, item in enumerate(items))
            parts.append(self.query(exp.select(*named), outer))
        return sets.union_all(self, parts, node) if len(parts) > 1 else parts[0]


class Select(Clauses):
    """One SELECT, clause by clause, in the order in which SQL means them."""

    def __init__(self, queries: Queries, node: exp.Select, outer: Scope | None, top: bool) -> None:
        super().__init__(queries, node, Scope(Body(outer.body if outer else None), [], outer))
        self.top = top
        where = node.args.get("where")
        self.conditions = conjuncts(where.this) if where else []

    def rows(self) -> Rows:
        """Return the rows of the query."""
        self._refuse()
        self._from()
        self._spread_columns()
        self._aliases()
        for condition in self.conditions:
            self.expressions().require(condition)
        self._group()
        if having := self.node.args.get("having"):
            self.expressions().require(having.this)
        self._windows()
        if qualify := self.node.args.get("qualify"):
            self.expressions().require(qualify.this)
        return self._ordered(self._select())

    def _refuse(self) -> None:
        for key, what in (("laterals", "LATERAL VIEW"), ("into", "SELECT INTO")):
            if self.node.args.get(key):
                raise SqlError(f"{what} is not evaluated", self.node)

    # -- FROM

    def _from(self) -> None:
        clause = self.node.args.get("from_") or self.node.args.get("from")
        if clause is None:
            self.builder.one(self.scope.body)
            return
        args = [v for k, v in self.node.args.items() if k not in ("with_", "with")]
        parts = [
            e for v in args for e in (v if isinstance(v, list) else [v]) if isinstance(e, exp.Expr)
        ]
        asked = self.node.meta.get(ASKED, ())
        needs = needs_of([part for part in parts if not (asked and part.is_star)])
        needs.names |= {("", name) for name in asked}
        self.needs = needs
        joins = Joins(self.queries, self.scope, needs)
        joins.first(clause.this)
        rest = after_commas(self.node.args.get("joins") or ())
        early = list[exp.Expr]()
        for n, join in enumerate(rest):
            if join.side == "LEFT" and all(later.side in ("", "LEFT") for later in rest[n:]):
                early += self._reduce()
            joins.join(join)
        self.scope.sources = joins.sources
        for column in (c for test in early for c in test.find_all(exp.Column)):
            self.scope.column(column)  # refused where a later table has its name

    def _reduce(self) -> list[exp.Expr]:
        """Apply the conditions of WHERE that are of the tables so far before rows are joined that
        need not be there; return them.
        """
        early = [condition for condition in self.conditions if self._is_of_tables(condition)]
        for condition in early:
            self.expressions().require(condition)
        self.conditions = [condition for condition in self.conditions if condition not in early]
        return early

    def _is_of_tables(self, node: exp.Expr) -> bool:
        columns = [*node.find_all(exp.Column)]
        return (
            bool(columns)
            and node.find(exp.Query) is None
            and all(self.scope.own(column) is not None for column in columns)
        )

    def _spread_columns(self) -> None:
        """Write an item with `COLUMNS(...)` once for each column it names, under its name."""
        if not any(item.find(exp.Columns) or _chosen(item) for item in self.items):
            return
        self.node = self.node.copy()
        items: list[exp.Expr] = []
        for item in self.node.expressions:
            if (chosen := _chosen(item)) is not None:
                items += self._chosen_columns(item, *chosen)
                continue
            stars = [*item.find_all(exp.Columns)]
            for name in self._named_by(stars[0]) if stars else ():
                copy = exp.alias_(unaliased(item).copy(), item.alias or name, quoted=True)
                for star in [*copy.find_all(exp.Columns)]:
                    if star.args.get("unpack"):
                        raise SqlError("*COLUMNS(...) is not evaluated: name the columns", star)
                    table = star.this.table if isinstance(star.this, exp.Column) else ""
                    star.replace(exp.column(name, table or None, quoted=True))
                items.append(copy)
            items += [] if stars else [item]
        self.node.set("expressions", items)
        self.items = items

    def _chosen_columns(self, item: exp.Expr, star: exp.Expr, pattern: str) -> list[exp.Expr]:
        """Return the columns that `* LIKE 'a%'` chooses, or `* NOT LIKE 'a%'`."""
        names = self._named_by(exp.Columns(this=star))
        chosen = _matching(names, exp.Literal.string(pattern))
        if isinstance(item, exp.Not):
            chosen = [name for name in names if name not in chosen]
        if not chosen:
            raise SqlError(f"no column is chosen: there are {', '.join(names)}", item)
        table = star.table if isinstance(star, exp.Column) else ""
        return [exp.column(name, table or None, quoted=True) for name in chosen]

    def _named_by(self, node: exp.Columns) -> list[str]:
        """Return the columns that `COLUMNS(*)`, a list of names or a regular expression means."""
        of = node.this
        if _is_star(of):
            star = of.this if isinstance(of, exp.Column) else of
            leave = {
                part.name.lower()
                for part in star.args.get("except_") or star.args.get("except") or ()
            }
            return [
                name
                for name, _ in self.scope.star(
                    node, node.this.table if isinstance(of, exp.Column) else ""
                )
                if name.lower() not in leave
            ]
        names = [name for name, _ in self.scope.star(node)]
        if isinstance(of, exp.Array) and all(
            isinstance(part, exp.Literal) for part in of.expressions
        ):
            lowered = {part.name.lower() for part in of.expressions}
            return [name for name in names if name.lower() in lowered]
        if not isinstance(of, exp.Literal):
            raise SqlError("COLUMNS takes *, a list of names or a regular expression", node)
        matching = _matching(names, of)
        if not matching:
            raise SqlError(f"no column matches {of.name}: there are {', '.join(names)}", node)
        return matching

    def _aliases(self) -> None:
        self.scope.aliases = {
            item.alias.lower(): item.this
            for item in self.items
            if isinstance(item, exp.Alias) and not _names_itself(item)
        }

    # -- GROUP BY

    def _group(self) -> None:
        clauses = [*self.items, *(self.node.args.get(k) for k in ("having", "qualify", "order"))]
        aggregates = aggregates_in([clause for clause in clauses if clause is not None])
        for fold in aggregates if self.scope.parent is not None else ():
            read = [*fold.find_all(exp.Column)]
            if read and not any(map(self._is_own, read)):
                shown = f"{fold.sql(dialect='duckdb')} is an aggregate of the query around"
                raise SqlError(f"{shown}: compute it there, in a subquery of FROM", fold)
        group = self.node.args.get("group")
        if group is None and not aggregates:
            return
        if group is not None and any(isinstance(item, SETS) for item in group.expressions):
            grouping_sets.apply(self, group, aggregates)
            return
        expressions = self._keys(group) if group is not None else []
        if group is not None and group.args.get("all") and not (expressions or aggregates):
            return
        self.aggregate(expressions, aggregates, single=not expressions)

    def _is_own(self, column: exp.Column) -> bool:
        """Return whether a column is of this query's tables or select list."""
        return column.name.lower() in self.scope.aliases or self.scope.own(column) is not None

    def _keys(self, group: exp.Group) -> list[exp.Expr]:
        """Return the expressions of GROUP BY; a number is a column of the select list."""
        if group.args.get("all"):
            if star := next((item for item in self.items if item.is_star), None):
                raise SqlError("GROUP BY ALL takes columns, and not *: name them", star)
            return [
                unaliased(item)
                for item in self.items
                if item.find(exp.Column, exp.Query) and not aggregates_in([item])
            ]
        return [self.named(item, "GROUP BY") for item in group.expressions if not _is_total(item)]

    def aggregate(self, keys: list[exp.Expr], aggregates: list[exp.Expr], single: bool) -> None:
        """Replace the body by one row for each group."""
        translator = self.expressions()
        markers, aggregates = markers_among(aggregates)
        values = [translator.value(key) for key in keys]
        grouping = Grouping(
            self.builder, self.scope, self.queries.subqueries, values, single, aggregates
        )
        before = [self.builder.resolve(group.term) for group in grouping.groups]
        body, replaced, groups = grouping.evaluate()
        grouped: dict[Term, Typed] = {}
        for given, variable, new in zip(values, before, groups, strict=False):
            grouped[self.builder.resolve(given.term)] = grouped[variable] = new
        for key, new in zip(keys, groups, strict=False):
            if not isinstance(key, exp.Column):
                replaced[text_of(key)] = new
        inside = {*map(text_of, keys)}
        replaced |= {text_of(one): grouping_sets.marker(one, keys, inside) for one in markers}
        self.go_on(body)
        self.replaced, self.grouped = replaced, grouped

    # -- windows, select list, order

    def _windows(self) -> None:
        clauses = [*self.items, *(self.node.args.get(k) for k in ("qualify", "order"))]
        nodes = {
            text_of(w): w
            for clause in clauses
            if clause is not None
            for w in clause.find_all(exp.Window)
            if w.find_ancestor(exp.Select) is self.node
        }
        if nodes:
            named = {w.name.lower(): w for w in self.node.args.get("windows") or ()}
            windows.apply(self, list(nodes.values()), named)

    def _select(self) -> list[tuple[str, Typed]]:
        columns: list[tuple[str, Typed]] = []
        for item in self.items:
            if isinstance(item, exp.Star):
                columns += self._star(item, "")
            elif _is_star(item):
                if item.args.get("db"):
                    raise SqlError(f"one name stands before *: write {item.table}.*", item)
                columns += self._star(item.this, item.table)
            else:
                columns.append((self._name(item), self.evaluate(unaliased(item))))
        names = unique([name for name, _ in columns])
        if self.node.args.get("distinct") is None:
            return list(zip(names, [value for _, value in columns], strict=True))
        return self._distinct(list(zip(names, [value for _, value in columns], strict=True)))

    def _name(self, item: exp.Expr) -> str:
        """Return the name of an item: that of a column as its table writes it."""
        name = self.scope.name(item) if isinstance(item, exp.Column) else None
        return name or output_name(item)

    def _star(self, node: exp.Star, table: str) -> list[tuple[str, Typed]]:
        if self.grouped is not None:
            raise SqlError("* with GROUP BY: name the columns that are grouped", node)
        leave = {
            part.name.lower() for part in node.args.get("except_") or node.args.get("except") or ()
        }
        replaced = {part.alias.lower(): part.this for part in node.args.get("replace") or ()}
        renamed = {part.this.name.lower(): part.alias for part in node.args.get("rename") or ()}
        columns, asked = [], self.node.meta.get(ASKED)
        for name, value in self.scope.star(node, table):
            lower = name.lower()
            if lower in leave or (asked and lower not in asked):
                continue
            if lower in replaced:
                value = self.evaluate(replaced[lower])
            value = value._replace(nullable=self.builder.may_be_null(self.scope.body, value))
            columns.append((renamed.get(lower, name), value))
        return columns

    def _distinct(self, columns: list[tuple[str, Typed]]) -> list[tuple[str, Typed]]:
        on, order = self.node.args["distinct"].args.get("on"), self.node.args.get("order")
        by = order.expressions if order is not None else []
        if on is not None:
            keys = [self.evaluate(item) for item in on.expressions]
            if order is not None and _by_all(order):
                raise SqlError("with DISTINCT ON, ORDER BY names its columns", order)
            return row_numbers.first_of_each(self, keys, by, columns)
        sorting = [] if order is None or _by_all(order) else [key.this for key in by]
        ordered = [(key, self.order_value(key, columns)) for key in sorting]
        terms, resolve = [value.term for _, value in columns], self.builder.resolve
        if len(columns) > KEYS_MAX and self.builder.is_set(self.scope.body, terms):
            return columns
        body, values = self.builder.as_atom(self.scope.body, columns, distinct=True)
        new = [(name, value) for (name, _), value in zip(columns, values, strict=True)]
        self.scope = Scope(body, [Source("", new)], self.scope.parent)
        self.grouped = kept = dict(zip(map(resolve, terms), values, strict=True))
        items = self.items if len(self.items) == len(values) else ()
        self.replaced = {
            text_of(unaliased(item)): value
            for item, value in zip(items, values, strict=False)
            if not isinstance(unaliased(item), exp.Column | exp.Star)
        }
        for key, value in ordered:
            term = _of_columns(resolve(value.term), kept)
            if term is not None and not isinstance(key, exp.Literal):
                self.replaced[text_of(key)] = value._replace(term=term)
            elif term is None and (self.top or self._limited()):
                raise SqlError("with DISTINCT, ORDER BY takes what is selected: select it", key)
        return new

    def _limited(self) -> bool:
        return self.node.args.get("limit") is not None or self.node.args.get("offset") is not None

    def _ordered(self, columns: list[tuple[str, Typed]]) -> Rows:
        order = self.node.args.get("order")
        ordered = order.expressions if order is not None and (self.top or self._limited()) else []
        if order is not None and ordered and _by_all(order):
            keys = [row_numbers.ordering(value, ordered[0], self.node) for _, value in columns]
        else:
            keys = [
                row_numbers.ordering(self.order_value(item.this, columns), item) for item in ordered
            ]
        body = self.scope.body
        if self._limited():
            if self.top and (rows := row_numbers.cut(self, body, columns, keys)):
                return rows
            body, columns, keys = row_numbers.limited(self, body, columns, keys)
        return Rows(body, columns, tuple(keys) if self.top else ())


def _of_columns(term: Term, columns: dict[Term, Typed]) -> Term | None:
    """Return a term made of those of columns as one of their new values; None if it has others."""
    if term in columns:
        return columns[term].term
    if not isinstance(term, Call):
        return None if isinstance(term, Var) else term
    args = [_of_columns(arg, columns) for arg in term.args]
    known = [arg for arg in args if arg is not None]
    return Call(term.name, tuple(known), term.origin) if len(known) == len(args) else None


def _of_rows(node: exp.Expr) -> exp.Select:
    """Return a query other than a SELECT that is ordered or limited as a SELECT of its rows; or
    as what is in its parentheses, if that may only be ordered, since this order counts.
    """
    inner, rows = node.copy(), exp.select("*")
    last = {key: inner.args.pop(key, None) for key in LAST}
    select = inner_query(inner)
    if isinstance(select, exp.Select) and not any(map(select.args.get, LAST[1:])):
        last["order"] = last["order"] or select.args.get("order")
        rows = select
    else:
        inner.set("with_", None)
        alias = exp.TableAlias(this=exp.to_identifier("set_rows"))
        rows = rows.from_(exp.Subquery(this=inner, alias=alias))
    for key, clause in last.items():
        rows.set(key, clause)
    return rows


def _chosen(item: exp.Expr) -> tuple[exp.Expr, str] | None:
    """Return the star of `* LIKE 'a%'` and the regular expression of the names that it chooses;
    None for any other item.
    """
    test = item.this if isinstance(item, exp.Not) else item
    if not isinstance(test, exp.Like | exp.ILike | exp.SimilarTo) or not _is_star(test.this):
        return None
    if not test.expression.is_string:
        raise SqlError("the names that a * has are chosen by a text in quotes", item)
    pattern = test.expression.name
    if not isinstance(test, exp.SimilarTo):
        letters = {"%": ".*", "_": "."}
        pattern = "".join(letters.get(letter) or re.escape(letter) for letter in pattern)
    return test.this, f"^(?{'i' * isinstance(test, exp.ILike)}s:{pattern})$"


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node.this if isinstance(node, exp.Column) else node, exp.Star)


def _matching(names: list[str], pattern: exp.Literal) -> list[str]:
    """Return the names in which a regular expression finds something.  SqlError if it is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        mask = pc.match_substring_regex(of_texts(names), pattern.name)
    except pa.ArrowInvalid as error:
        raise SqlError(f"{pattern.name} is not a regular expression: {error}", pattern) from error
    return [name for name, matches in zip(names, mask.to_pylist(), strict=True) if matches]


def _by_all(order: exp.Order) -> bool:
    """Return whether a clause is ORDER BY ALL."""
    by = [item.this for item in order.expressions]
    return len(by) == 1 and isinstance(by[0], exp.Var) and by[0].name.upper() == "ALL"


def _names_itself(item: exp.Alias) -> bool:
    return isinstance(item.this, exp.Column) and item.this.name.lower() == item.alias.lower()


def _is_total(key: exp.Expr) -> bool:
    """Return whether a key of GROUP BY is `()`, of which all rows are one group."""
    return isinstance(key, exp.Tuple) and not key.expressions
