"""What the parts of a query share: its rows, what names of tables mean, and a SELECT between two
of its clauses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from sqlglot import exp

from ivm.sql.errors import SqlError, counted
from ivm.sql.queries.expressions import Expressions, Subqueries
from ivm.sql.queries.scope import Needs, Scope, text_of
from ivm.sql.rules import Body, Builder, Table
from ivm.sql.terms import Term, Typed

Order = tuple[Typed, bool, bool]  # a value, whether it descends, and whether nulls come first


class Rows(NamedTuple):
    """The rows of a query: a body and its columns by name; `order` are the values that ORDER BY
    names.
    """

    body: Body
    columns: list[tuple[str, Typed]]
    order: tuple[Order, ...] = ()

    def named(self, names: list[str], node: exp.Expr) -> Rows:
        """Return rows with the names that an alias gives their columns, as in `AS t(a, b)`."""
        if len(names) > len(self.columns):
            raise SqlError(
                f"{counted(len(names), 'name')} for {counted(len(self.columns), 'column')}", node
            )
        own = [name for name, _ in self.columns]
        given = [*names, *own[len(names) :]]
        return self._replace(
            columns=[(n, v) for n, (_, v) in zip(given, self.columns, strict=True)]
        )

    def read_as(self, body: Body, values: list[Typed]) -> Rows:
        """Return rows of another body with these values, under the same names."""
        return Rows(body, [(n, v) for (n, _), v in zip(self.columns, values, strict=True)])


class Schema(NamedTuple):
    """What names of tables mean: stored tables and kept views, and views that are expanded."""

    table: Callable[[str], Table | None]
    view: Callable[[str], exp.Expr | None]
    names: Callable[[], list[str]]


class Translator(Protocol):
    """What translates queries; `ctes` are those of WITH that can be named."""

    builder: Builder
    subqueries: Subqueries
    ctes: dict[str, Callable[[Scope | None], Rows]]

    def query(self, node: exp.Expr, outer: Scope | None = None, top: bool = False) -> Rows:
        """Return the rows of a query."""

    def table(self, node: exp.Table, outer: Scope | None) -> Rows:
        """Return the rows of a table, a view or a CTE."""

    def expressions(self, scope: Scope, replaced: dict[str, Typed] | None = None) -> Expressions:
        """Return a translator of expressions in a scope."""


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
        """Return what ORDER BY orders by: a column of the select list by its name or number, or
        an expression.
        """
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
