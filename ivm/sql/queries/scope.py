"""Names of a query: which column of which table each stands for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from sqlglot import exp

from ivm.sql.errors import SqlError, nearest
from ivm.sql.functions.lists import field as field_of
from ivm.sql.naming.names import HIDDEN
from ivm.sql.rules import Body
from ivm.sql.terms import Term, Typed

# before the name of a column of USING: what the table itself has, where `*` shows another value
OWN = "its own "
SHOWN = "shown"  # in the meta of a column with its table: what `*` shows, and not what this has
LAST = ("order", "limit", "offset")  # what is said of the rows of a whole query


@dataclass
class Source:
    """A table of a FROM clause: its alias, its columns by name, and all its names, for messages."""

    alias: str
    columns: list[tuple[str, Typed]]
    merged: set[str] = field(default_factory=set)  # columns that USING shows once, in another table
    path: tuple[str, ...] = ()
    # columns of USING that `*` shows before those of this table and of later ones
    leading: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)  # those that `table.*` shows first

    def find(self, name: str) -> Typed | None:
        """Return a column, whatever the case of its letters."""
        lower = name.lower()
        return next((value for key, value in self.columns if key.lower() == lower), None)

    def its_own(self, name: str) -> Typed | None:
        """Return a column as the table itself has it, for a name after the table's."""
        value = self.find(OWN + name)
        return self.find(name) if value is None else value

    def show(self, name: str, value: Typed) -> None:
        """Let a column have another value for `*` and for its name alone, as USING has it."""
        own = self.its_own(name)
        assert own is not None
        hidden = [] if self.find(OWN + name) is not None else [(OWN + name, own)]
        self.columns = [
            *((n, value if n.lower() == name.lower() else v) for n, v in self.columns),
            *hidden,
        ]

    def listed(self) -> list[tuple[str, Typed]]:
        """Return the columns that `table.*` and `*` show, in their order."""
        shown = [(n, v) for n, v in self.columns if not n.startswith(OWN)]
        return sorted(shown, key=lambda column: [column[0].lower() != key for key in self.keys])

    def without_columns(self) -> Source:
        """Return the table for columns that it has in the rows of a join."""
        return replace(self, columns=[], merged={*self.merged})


@dataclass
class Scope:
    """The tables of a query, its body so far, and the scope of the query around it."""

    body: Body
    sources: list[Source] = field(default_factory=list)
    parent: Scope | None = None
    aliases: dict[str, exp.Expr] = field(default_factory=dict)  # of the select list
    # after GROUP BY: the columns of the groups, by what they group
    grouped: dict[Term, Typed] | None = None

    def column(self, node: exp.Column) -> tuple[Typed, Scope]:
        """Return what a column means, and the scope that has it.  Raises SqlError for an unknown
        or ambiguous name.
        """
        scope: Scope | None = self
        while scope is not None:
            if value := scope.own(node):
                return value, scope
            scope = scope.parent
        raise self._unknown(node)

    def own(self, node: exp.Column) -> Typed | None:
        """Return a column of this query's own tables.  Raises SqlError for an ambiguous name."""
        table, name = node.table.lower(), node.name
        if node.args.get("db"):
            return None  # a field of a struct, or of another schema
        values, of_table = [], bool(table) and SHOWN not in node.meta
        for source in self.sources:
            if table and source.alias.lower() != table:
                continue
            value = source.its_own(name) if of_table else source.find(name)
            if value is not None and (table or name.lower() not in source.merged):
                values.append((source.alias, value))
        if len(values) > 1:
            ways = ", ".join(f"{alias}.{name}" for alias, _ in values)
            raise SqlError(f"{name} is ambiguous: write one of {ways}", node)
        return values[0][1] if values else None

    def name(self, node: exp.Column) -> str | None:
        """Return the name of a column as its table writes it; None if no table here has it."""
        lower, table = node.name.lower(), node.table.lower()
        sources = [s for s in self.sources if not table or s.alias.lower() == table]
        return next((own for s in sources for own, _ in s.columns if own.lower() == lower), None)

    def _unknown(self, node: exp.Column) -> SqlError:
        scopes: list[Scope] = []
        scope: Scope | None = self
        while scope is not None:
            scopes.append(scope)
            scope = scope.parent
        sources = [source for scope in scopes for source in scope.sources]
        if node.table:
            tables = [source for source in sources if source.alias.lower() == node.table.lower()]
            if not tables or node.args.get("db"):
                known = nearest(node.table, [source.alias for source in sources])
                said = ".".join(part.name for part in node.parts[:-1])
                return SqlError(f"no table {said} is in this query{known}", node)
            known = nearest(node.name, [name for source in tables for name, _ in source.columns])
            return SqlError(f"{tables[0].alias} has no column {node.name}{known}", node)
        known = nearest(node.name, [name for source in sources for name, _ in source.columns])
        # as texts are in some other languages
        if isinstance(node.this, exp.Identifier) and node.this.quoted:
            known += f"; a text is in single quotes, {exp.Literal.string(node.name).sql()}"
        return SqlError(f"no column {node.name} is in these tables{known}", node)

    def star(self, node: exp.Expr, table: str = "") -> list[tuple[str, Typed]]:
        """Return the columns of `*` or `table.*`.  Raises SqlError."""
        shown = [s for s in self.sources if HIDDEN not in s.alias]
        sources = [s for s in self.sources if s.alias.lower() == table.lower()] if table else shown
        if not sources:
            if table and (struct := self.own(exp.column(table))) and struct.type.name == "STRUCT":
                return [(name, field_of(struct, name, node)) for name, _ in struct.type.fields]
            if table:
                raise SqlError(
                    f"no table {table} is in this "
                    f"query{nearest(table, [s.alias for s in self.sources])}",
                    node,
                )
            raise SqlError("* needs a FROM", node)
        if table:
            return [(n, s.its_own(n) or v) for s in sources for n, v in s.listed()]
        columns = [
            (table, n, v)
            for table, s in enumerate(sources)
            for n, v in s.listed()
            if n.lower() not in s.merged
        ]
        order: dict[int, None] = {}
        for first, source in enumerate(sources):
            for name in source.leading:
                same = (
                    i for i, (s, n, _) in enumerate(columns) if s >= first and n.lower() == name
                )
                order |= dict.fromkeys(islice(same, 1))
            order |= dict.fromkeys(i for i, (s, _, _) in enumerate(columns) if s == first)
        return [columns[i][1:] for i in order]


@dataclass
class Needs:
    """The columns that a query names: `all` for `*`, else names, with a table or without."""

    everything: bool
    names: set[tuple[str, str]]
    stars: set[str]

    def wants(self, alias: str, name: str) -> bool:
        """Return whether the query may read a column of a table."""
        name, alias = name.lower().removeprefix(OWN), alias.lower()
        return (
            self.everything
            or alias in self.stars
            or ("", name) in self.names
            or (alias, name) in self.names
        )


def needs_of(nodes: Iterable[exp.Expr | None]) -> Needs:
    """Return the columns that parts of a query name, subqueries included."""
    needs = Needs(False, set(), set())
    for node in nodes:
        for part in node.walk() if node is not None else ():
            if isinstance(part, exp.Star):
                inside = part.parent
                if isinstance(inside, exp.Column):
                    needs.stars.add(inside.table.lower())
                    needs.names.add(("", inside.table.lower()))  # perhaps a struct
                elif not isinstance(inside, exp.Count):
                    needs.everything = True
            elif isinstance(part, exp.Column) and not isinstance(part.this, exp.Star):
                needs.names.add((part.table.lower(), part.name.lower()))
            elif isinstance(part, exp.Columns):
                needs.everything = True
            elif isinstance(part, exp.Join):
                needs.names |= {("", one.name.lower()) for one in part.args.get("using") or ()}
                needs.everything |= part.method == "NATURAL"
    return needs


def shown_column(name: str | exp.Identifier, table: str) -> exp.Column:
    """Return a column of a table with the value that `*` shows, as USING may give it another."""
    column = exp.column(name, table)
    column.meta[SHOWN] = True
    return column


def unique(names: Sequence[str]) -> list[str]:
    """Return names of a view's columns; a repeated one gets DuckDB's number: a, a_1, a_2."""
    seen: dict[str, int] = {}
    labels = []
    for name in names:
        lower, shown = name.lower(), name
        while lower in seen:
            seen[lower] += 1
            shown = f"{name}_{seen[lower]}"
            lower = shown.lower()
            if lower not in seen:
                break
            lower = name.lower()
        seen[lower] = seen.get(lower, 0)
        labels.append(shown)
    return labels


def text_of(node: exp.Expr) -> str:
    """Return the text of an expression, by which equal ones are found.

    A copy takes as long as the text; it is made only where there is a struct, whose fields sqlglot
    would rename.
    """
    try:
        return node.sql(copy=node.find(exp.Struct) is not None)
    except ValueError:  # of a map whose keys are expressions, for which there is no text
        return repr(node)


def inner_query(node: exp.Expr) -> exp.Expr:
    """Return a query without the parentheses around it that say nothing else of its rows."""
    while isinstance(node, exp.Subquery | exp.Paren) and not isinstance(node.this, exp.Table):
        if any(map(node.args.get, (*LAST, "with_", "alias"))):
            break
        node = node.this
    return node


def as_table(query: exp.Expr, name: str, columns: Sequence[str]) -> exp.Subquery:
    """Return a query as a table of a FROM, with names for its columns."""
    names = [*map(exp.to_identifier, columns)]
    alias = exp.TableAlias(this=exp.to_identifier(name), columns=names)
    return exp.Subquery(this=inner_query(query).copy(), alias=alias)
