"""What the parts of a query share: its rows, what translates all of them, and a SELECT between two
of its clauses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sqlglot import exp

from ivm.sql.dialects.read import IN_TURN
from ivm.sql.errors import SqlError, counted, nearest
from ivm.sql.queries.expressions import Expressions, Subqueries
from ivm.sql.queries.scope import Needs, Scope, text_of
from ivm.sql.rules import Body, Builder, Schema
from ivm.sql.terms import Term, Typed

Order = tuple[Typed, bool, bool]  # a value, whether it descends, and whether nulls come first


class Rows(NamedTuple):
    """A query's rows: a body and its columns by name; `order` are the values of ORDER BY, and
    `some` the places, from 0, of the first row in this order that is wanted and of that after
    the last.
    """

    body: Body
    columns: list[tuple[str, Typed]]
    order: tuple[Order, ...] = ()
    some: tuple[int, int | None] = (0, None)

    def named(self, names: list[str], node: exp.Expr) -> Rows:
        """Return rows with the names that an alias gives their columns, as in `AS t(a, b)`."""
        if len(names) > len(self.columns):
            raise SqlError(
                f"{counted(len(names), 'name')} for {counted(len(self.columns), 'column')}", node
            )
        shown = [name for name, _ in self.columns]
        given = [*names, *shown[len(names) :]]
        return self._replace(
            columns=[(n, v) for n, (_, v) in zip(given, self.columns, strict=True)]
        )

    def read_as(self, body: Body, values: list[Typed]) -> Rows:
        """Return rows of another body with these values, under the same names."""
        return Rows(body, [(n, v) for (n, _), v in zip(self.columns, values, strict=True)])


class Translator(ABC):
    """What translates queries; `ctes` are those of WITH that can be named."""

    subqueries: Subqueries

    def __init__(self, builder: Builder, schema: Schema) -> None:
        self.builder, self.schema = builder, schema
        self.ctes: dict[str, Callable[[Scope | None], Rows]] = {}

    @abstractmethod
    def query(self, node: exp.Expr, outer: Scope | None = None, top: bool = False) -> Rows:
        """Return the rows of a query.  If it is `top`, its order is kept for the caller."""

    def table(self, node: exp.Table, outer: Scope | None) -> Rows:
        """Return the rows of a table, a view or a CTE. Raises SqlError if there is none."""
        name = node.name
        if not node.db and (cte := self.ctes.get(name.lower())):
            return cte(outer)
        if (view := self.schema.view(name)) is not None:
            before, self.ctes = self.ctes, {}
            try:
                return self.query(view, None)
            finally:
                self.ctes = before
        table = self.schema.table(name)
        if table is None:
            raise SqlError(
                f"no table or view {name} exists{nearest(name, [*self.ctes, *self.schema.names()])}",
                node,
            )
        body = Body(outer.body if outer else None)
        values = self.builder.scan(table, body)
        return Rows(body, [(c.name, v) for c, v in zip(table.columns, values, strict=True)])

    def expressions(self, scope: Scope, replaced: dict[str, Typed] | None = None) -> Expressions:
        """Return a translator of expressions in a scope."""
        return Expressions(self.builder, scope, self.subqueries, replaced)


class Clauses:
    """A SELECT between two of its clauses: its tables and body, and the values of what was
    evaluated before.

    After GROUP BY `grouped` maps the terms of the groups to their columns; `replaced` has the
    aggregates and window functions by their text.
    """

    def __init__(self, queries: Translator, node: exp.Select, scope: Scope) -> None:
        self.queries, self.node, self.scope = queries, node, scope
        self.builder = queries.builder
        self.items = list(node.expressions)
        self.replaced: dict[str, Typed] = {}
        self.needs: Needs | None = None  # the columns that the query names

    @property
    def grouped(self) -> dict[Term, Typed] | None:
        """The columns of the groups, by the terms that they group; None before GROUP BY."""
        return self.scope.grouped

    @grouped.setter
    def grouped(self, grouped: dict[Term, Typed]) -> None:
        self.scope.grouped = grouped

    def expressions(self) -> Expressions:
        """Return a translator of expressions after the clauses so far."""
        return self.queries.expressions(self.scope, self.replaced)

    def evaluate(self, node: exp.Expr) -> Typed:
        """Return the value of an expression after the clauses so far."""
        return self.expressions().value(node)

    def go_on(self, body: Body) -> None:
        """Let the clauses that follow read another body."""
        self.scope = Scope(
            body, self.scope.sources, self.scope.parent, self.scope.aliases, self.grouped
        )

    def named(self, node: exp.Expr, clause: str) -> exp.Expr:
        """Return what a number or the name of an expression means in GROUP BY."""
        if isinstance(node, exp.Paren):
            return self.named(node.this, clause)
        if isinstance(node, exp.Literal) and not node.is_string:
            place = int(node.this)
            if not 1 <= place <= len(self.items):
                raise SqlError(
                    f"{clause} {place}: the select list has {counted(len(self.items), 'column')}",
                    node,
                )
            return unaliased(self.items[place - 1])
        if isinstance(node, exp.Column) and not node.table and self.scope.own(node) is None:
            return self.scope.aliases.get(node.name.lower(), node)
        return node

    def order_value(self, node: exp.Expr, columns: list[tuple[str, Typed]]) -> Typed:
        """Return what ORDER BY orders by: a selected column by name or number, or an expression."""
        if isinstance(node, exp.Literal) and not node.is_string:
            place = int(node.this)
            if not 1 <= place <= len(columns):
                raise SqlError(
                    f"ORDER BY {place}: the select list has {counted(len(columns), 'column')}", node
                )
            return columns[place - 1][1]
        if isinstance(node, exp.Column) and not node.table:
            for name, value in columns:
                if name.lower() == node.name.lower():
                    return value
        if self.grouped is not None and isinstance(node, exp.Column):
            for item, (_, value) in zip(self.items, columns, strict=False):
                plain = unaliased(item)
                if (
                    isinstance(plain, exp.Column)
                    and text_of(plain).lower() == text_of(node).lower()
                ):
                    return value
        return self.evaluate(node)


def unaliased(node: exp.Expr) -> exp.Expr:
    """Return an expression without its alias."""
    return node.this if isinstance(node, exp.Alias) else node


def after_commas(joins: Sequence[exp.Join]) -> list[exp.Join]:
    """Return joins of which those after a comma are done before the comma, where it matters: the
    rows of `FROM a, b FULL JOIN c USING (k)` are those of `FROM a, (b FULL JOIN c USING (k))`.
    """
    groups: list[list[exp.Join]] = [[]]
    for join in joins:
        if not any(map(join.args.get, ("on", "using", "side", "kind", "method"))):
            groups.append([])
        groups[-1].append(join)
    apart = [n > 0 and any(map(_is_of_its_tables, group)) for n, group in enumerate(groups)]
    return [
        join
        for group, is_apart in zip(groups, apart, strict=True)
        for join in ([_as_one(*group)] if is_apart else group)
    ]


def _is_of_its_tables(join: exp.Join) -> bool:
    """Return whether the rows of a join depend on which tables were joined before it."""
    return not join.meta.get(IN_TURN) and (joins_by_name(join) or join.side in ("RIGHT", "FULL"))


def joins_by_name(join: exp.Join) -> bool:
    """Return whether tables are joined by columns that have one name in both."""
    return bool(join.args.get("using")) or join.method == "NATURAL"


def _as_one(first: exp.Join, *others: exp.Join) -> exp.Join:
    whole = first.copy()
    for join in others:
        whole.this.append("joins", join.copy())
    return whole
