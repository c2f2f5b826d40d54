"""Tables and views with their columns and constraints, as every system's relations tell of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

from sqlglot import exp

from ivm.sql.catalog import NAMED, Catalog
from ivm.sql.dialects.read import saved_query
from ivm.sql.errors import SqlError
from ivm.sql.naming.schemas import schema_of
from ivm.sql.queries.query import Queries
from ivm.sql.rules import Builder, Column

USER = "ivm"
DIALECT = "dialect"  # in the meta of a table of a question
TABLE, VIEW, KEPT = "r", "v", "m"  # as PostgreSQL has them
PRIMARY, UNIQUE, FOREIGN, CHECK = "p", "u", "f", "c"
WORDS = {PRIMARY: "PRIMARY KEY", UNIQUE: "UNIQUE", FOREIGN: "FOREIGN KEY", CHECK: "CHECK"}


class Constraint(NamedTuple):
    """A constraint of a table; a foreign key has its target."""

    name: str
    kind: str
    columns: list[str]
    text: str
    target: str = ""
    target_columns: tuple[str, ...] = ()


class Object(NamedTuple):
    """A table or a view; `query` is a view's."""

    name: str
    kind: str
    columns: list[Column]
    defaults: dict[str, str]
    constraints: list[Constraint]
    query: str = ""
    numbered: tuple[str, ...] = ()  # columns that number themselves
    # by name, with the columns and whether they are unique
    indices: tuple[tuple[str, tuple[str, ...], bool], ...] = ()


class Told(NamedTuple):
    """What a system's relations tell of, to a client of a dialect."""

    objects: list[Object]
    dialect: str

    @property
    def schema(self) -> str:
        """The schema of all tables and views."""
        return schema_of(self.dialect)


Rows: TypeAlias = Callable[[Told], list[tuple[Any, ...]]]
Relations: TypeAlias = dict[str, tuple[str, Rows | None]]  # None has no rows


def objects(catalog: Catalog) -> list[Object]:
    """Return all tables and views, by name."""
    return sorted(_objects(catalog))


def _objects(catalog: Catalog) -> Iterator[Object]:
    for name in catalog.names():
        if name in catalog.views:
            columns: list[Column] = []
            with suppress(SqlError):  # of a view whose tables are gone
                rows = Queries(Builder("sql"), catalog.schema()).query(
                    exp.select("*").from_(exp.to_table(name, quoted=True))
                )
                columns = [Column(n, value.type, True) for n, value in rows.columns]
            yield Object(name, VIEW, columns, {}, [], _shown(catalog.views[name]))
            continue
        kept = catalog.kept.get(name)
        is_view = catalog.is_derived(name)
        saved = catalog.tables.get(name, {}).get("columns", ())
        defaults = {c["name"]: c["default"] for c in saved if c.get("default") is not None}
        yield Object(
            name,
            KEPT if is_view else TABLE,
            catalog.columns(name),
            defaults,
            [] if is_view else [*_constraints(catalog, name)],
            _shown(kept) if kept else "",
            tuple(c["name"] for c in saved if c.get("identity")),
            tuple(
                (index, (*columns,), unique)
                for index, (columns, unique) in catalog.tables.get(name, {})
                .get("indices", {})
                .items()
            ),
        )


def _shown(saved: dict[str, Any]) -> str:
    """Return the query of a view as a text."""
    return saved_query(saved).sql(dialect="duckdb")


def _constraints(catalog: Catalog, name: str) -> Iterator[Constraint]:
    if not catalog.weighs(name):
        key = [*catalog.source[name].info.schema.key]
        if key:
            yield Constraint(f"{name}_pkey", PRIMARY, key, f"PRIMARY KEY ({_listed(key)})")
    for node in catalog.constraints(name):
        if isinstance(node, exp.UniqueColumnConstraint):
            columns = [column.name for column in node.this.expressions]
            named = node.meta.get(NAMED) or f"{name}_{'_'.join(columns)}_key"
            yield Constraint(named, UNIQUE, columns, f"UNIQUE ({_listed(columns)})")
        elif isinstance(node, exp.ForeignKey):
            yield _reference(catalog, name, node)
        else:
            columns = [*dict.fromkeys(column.name for column in node.find_all(exp.Column))]
            yield Constraint(
                f"{name}_{'_'.join(columns)}_check", CHECK, columns, node.sql(dialect="duckdb")
            )


def _reference(catalog: Catalog, name: str, node: exp.ForeignKey) -> Constraint:
    columns = [column.name for column in node.expressions]
    target = node.args["reference"].this
    there = target.this if isinstance(target, exp.Schema) else target
    other = catalog.find(there.name) or there.name
    names = [column.name for column in target.expressions] if isinstance(target, exp.Schema) else []
    if not names and other in catalog.source:
        names = [*catalog.source[other].info.schema.key]
    text = f"FOREIGN KEY ({_listed(columns)}) REFERENCES {other}({_listed(names)})"
    named = node.meta.get(NAMED) or f"{name}_{'_'.join(columns)}_fkey"
    return Constraint(named, FOREIGN, columns, text, other, (*names,))


def _listed(names: list[str]) -> str:
    return ", ".join(names)
