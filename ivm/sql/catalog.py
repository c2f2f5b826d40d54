"""What SQL says of tables and views beyond what rules know, kept in one property of the store.

    tables   the types of columns as SQL names them, defaults, and the order of columns
    views    those that are expanded where they are named, as text
    kept     for each kept view: its statement, its columns and types, and the name of its block
    types    those of CREATE TYPE

Everything else follows from the store: a table is a relation, a kept view is a block of rules.
"""

from __future__ import annotations

import json
from typing import Any

from sqlglot import exp

from ivm.names import CATALOG, CLOCKS, ONE, is_helper, is_tree_of_rules
from ivm.sql.dialects.read import read, saved_query
from ivm.sql.errors import SqlError, nearest
from ivm.sql.rules import Column, Schema, Table
from ivm.sql.types import as_stored, parsed, type_of_store
from pagestore.host import Snapshot, catalog_of

NAMED = "constraint"  # in the meta of a constraint: its name


class Catalog:
    """The tables and views of a version: `source` is a snapshot or a transaction."""

    def __init__(self, source: Any) -> None:
        self.source = source
        saved: dict[str, Any] = json.loads(catalog_of(source).properties.get(CATALOG) or "{}")
        self.tables: dict[str, Any] = saved.get("tables", {})
        self.views: dict[str, Any] = saved.get("views", {})
        self.kept: dict[str, Any] = saved.get("kept", {})
        self.types: dict[str, str] = saved.get("types", {})

    def saved(self) -> str:
        """Return the property's text."""
        return json.dumps(
            {"tables": self.tables, "views": self.views, "kept": self.kept, "types": self.types}
        )

    # -- names

    def is_derived(self, name: str) -> bool:
        """Return whether rules keep a relation, so that nobody edits it."""
        source = self.source
        committed = catalog_of(source) if isinstance(source, Snapshot) else source.base.catalog
        return name in self.kept or name in committed.hosted

    def names(self) -> list[str]:
        """Return the names of all tables and views that a query can name."""
        stored = [name for name in self.source if not is_helper(name)]
        return [*stored, *self.views, *(name for name in self.kept if name not in self.source)]

    def find(self, name: str) -> str | None:
        """Return the stored name of a table or a kept view, whatever the case of its letters."""
        hidden = ONE, *CLOCKS
        if name in self.source and name not in hidden and not is_tree_of_rules(name):
            return name  # as it is written, which costs the same beside any number of tables
        return _find(name, [*(n for n in self.source if n not in hidden), *self.kept])

    def type_named(self, name: str) -> str | None:
        """Return what a type of CREATE TYPE is, in any case of letters; None if there is none."""
        type_ = _find(str(name).strip('"'), self.types)
        return None if type_ is None else self.types[type_]

    def view(self, name: str) -> exp.Expr | None:
        """Return the query of a view that is expanded; None if there is none of that name."""
        known = _find(name, self.views)
        wide = _find(name, [view for view, kept in self.kept.items() if kept.get("wide")])
        if known is None and wide is None:
            return None
        saved = self.views[known] if known is not None else self._expanded(self.kept[wide or ""])
        query = saved_query(saved)
        if saved.get("columns"):
            alias = exp.TableAlias(
                this=exp.to_identifier("view_rows"),
                columns=[exp.to_identifier(c, quoted=True) for c in saved["columns"]],
            )
            return exp.select("*").from_(exp.Subquery(this=query, alias=alias))
        return query

    @staticmethod
    def _expanded(kept: dict[str, Any]) -> dict[str, Any]:
        """Return a kept view of several relations as an expanded one: rules read no such view."""
        return {**kept, "columns": [name for name, _, _ in kept["columns"]]}

    # -- tables

    def own_table(self, name: str, node: exp.Expr, what: str) -> str:
        """Return the stored name of a table.  Raises SqlError for a view, to which what a statement
        is for, `what`, cannot be done, and for a name that is none.
        """
        table = self.find(name)
        if table is not None and table not in self.kept:
            return table
        if table is None and _find(name, self.views) is None:
            raise SqlError(f"no table {name} exists{nearest(name, self.names())}", node)
        raise SqlError(f"{name} is a view: {what}", node)

    def columns(self, name: str) -> list[Column]:
        """Return the columns of a stored table or kept view in the order of SQL."""
        if name in self.kept:
            return self._kept_columns(name)
        schema = self._info(name).schema
        given = {c["name"]: c for c in self.tables.get(name, {}).get("columns", ())}
        columns_known = []
        for column in schema.columns:
            text = str(column.type)
            saved = given.get(column.name)
            type_ = as_stored(parsed(saved["type"]), text) if saved else type_of_store(text)
            columns_known.append(Column(column.name, type_, text.endswith("?")))
        return columns_known

    def _kept_columns(self, name: str) -> list[Column]:
        parts = [part for part in (name, *self.kept[name].get("wide", ())) if part in self.source]
        stored = {
            c.name: str(c.type) for part in parts for c in self.source[part].info.schema.columns
        }
        return [
            Column(n, as_stored(parsed(t), stored.get(n, "")), bool(null))
            for n, t, null in self.kept[name]["columns"]
        ]

    def table(self, name: str) -> Table | None:
        """Return a table or a kept view as rules read it; None if there is none of that name."""
        kept = self.find(name)
        if kept is None:
            return None
        columns = tuple(self.columns(kept))
        weighs = self.weighs(kept)
        if weighs or kept in self.kept:
            leading = self.kept.get(kept, {}).get("leading") or len(columns)
            key = (*range(len(columns) if weighs else leading),)
            return Table(kept, columns, key, weighs=weighs)
        schema = self._info(kept).schema
        names = [c.name for c in columns]
        key = tuple(names.index(k) for k in schema.key)
        return Table(kept, columns, key, function=len(key) < len(columns))

    def _info(self, name: str) -> Any:
        return catalog_of(self.source).relations[name]

    def weighs(self, name: str) -> bool:
        """Return whether the rows of a table or a kept view have multiplicities."""
        return name in self.source and bool(self._info(name).bag)

    def constraints(self, name: str) -> list[exp.Expr]:
        """Return the constraints of a table beside its key."""
        texts = self.tables.get(name, {}).get("constraints", {})
        return [*map(constraint_of, dict.fromkeys(texts.values()))]

    def unique_names(self, name: str) -> list[list[str]]:
        """Return the columns of each UNIQUE of a table, as they are named now."""
        names = {c.name.lower(): c.name for c in self.columns(name)}
        return [
            [names[column.name.lower()] for column in constraint.this.expressions]
            for constraint in self.constraints(name)
            if isinstance(constraint, exp.UniqueColumnConstraint)
        ]

    def schema(self) -> Schema:
        """Return what names mean to a query."""
        return Schema(self.table, self.view, self.names)


def constraint_of(text: str) -> exp.Expr:
    """Return a constraint of a table, given its text."""
    (table,) = read(f"CREATE TABLE t (x INT, {text})")
    return unnamed(table.this.expressions[1])


def unnamed(node: exp.Expr) -> exp.Expr:
    """Return a constraint without the CONSTRAINT before it, whose name it has as `NAMED`."""
    if not isinstance(node, exp.Constraint) or len(node.expressions) != 1:
        return node
    item: exp.Expr = node.expressions[0]
    item.meta[NAMED] = node.name
    return item


def _find(name: str, names: Any) -> str | None:
    if name in names:
        return name
    return next((known for known in names if known.lower() == name.lower()), None)
