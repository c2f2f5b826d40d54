"""Older versions in a query: `t FOR VERSION AS OF 3`, `t AT (VERSION => 3)`, and `changes(v, 3, 7)`.

What they name is read from the older version, and put beside the other tables for as long as the query is evaluated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ivm.rules.installed import Installed
from ivm.sql.catalog import Catalog
from ivm.sql.errors import SqlError, nearest
from ivm.sql.rules import Column
from ivm.sql.tables import create_bag
from ivm.sql.types import VARCHAR
from pagestore.host import Column as Stored
from pagestore.host import Store, Type

if TYPE_CHECKING:
    import pyarrow as pa

CHANGE = Column("_change_type", VARCHAR, False)  # "insert" or "delete"


def names_versions(node: exp.Expr) -> bool:
    """Return whether a query reads older versions."""
    return any(_version(one) is not None or _is_changes(one) for one in node.find_all(exp.Table))


def catalog_of(state: Any, rules: Installed) -> Catalog:
    """Return the tables and views of a transaction."""
    return Catalog(state, rules.program.predicates, state.catalog.properties)


def materialized(store: Store, state: Any, rules: Installed, node: exp.Expr) -> exp.Expr:
    """Return a query that reads relations of a transaction, which this makes, in place of older versions."""
    node, catalog = node.copy(), catalog_of(state, rules)
    for number, table in enumerate(list(node.find_all(exp.Table))):
        if (version := _version(table)) is not None:
            columns, rows = _rows_of(store, catalog, table, version)
        elif _is_changes(table):
            columns, rows = _changes(store, catalog, table)
        else:
            continue
        name = f"sql_version_{number}"
        stored = (Stored(c.name, Type.parse(c.type.store + "?" * c.nullable)) for c in columns)
        create_bag(state, name, tuple(stored))
        state[name].insert(rows)
        catalog.tables[name] = {"columns": [{"name": c.name, "type": str(c.type)} for c in columns]}
        alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name))
        table.replace(exp.Table(this=exp.to_identifier(name), alias=alias, joins=table.args.get("joins")))
    state.properties["ivm.sql"] = catalog.saved()
    return node


def _version(table: exp.Table) -> exp.Expr | None:
    found: exp.Expr | None = table.args.get("version") or table.args.get("when")
    return found


def _is_changes(table: exp.Table) -> bool:
    return isinstance(table.this, exp.Anonymous) and table.this.name.lower() == "changes"


def _number(node: exp.Expr, where: exp.Expr) -> int | str:
    if not isinstance(node, exp.Literal):
        raise SqlError("a version is a number, or the name of a tag or branch as a text", where)
    return str(node.this) if node.is_string else int(node.this)


def _known(catalog: Catalog, name: str, node: exp.Expr) -> str:
    own = catalog.find(name)
    if own is None or own not in catalog.source:
        raise SqlError(f"no table or kept view {name} exists{nearest(name, catalog.names())}", node)
    return own


def _rows_of(store: Store, catalog: Catalog, table: exp.Table, version: exp.Expr) -> tuple[list[Column], pa.Table]:
    own = _known(catalog, table.name, table)
    with store.at(_number(version.expression, table)) as snap:
        if own not in snap:
            raise SqlError(f"{own} does not exist in that version", table)
        return _in_order(catalog.columns(own), snap[own].to_arrow())


def _changes(store: Store, catalog: Catalog, table: exp.Table) -> tuple[list[Column], pa.Table]:
    arguments = table.this.expressions
    if len(arguments) != 3:
        raise SqlError("changes takes a table and two versions, as in changes(v, 3, 7)", table)
    own = _known(catalog, arguments[0].name, table)
    first, second = (_number(one, table) for one in arguments[1:])
    columns, rows = [*catalog.columns(own), CHANGE], store.diff(first, second, own).read_all()
    table.set("alias", table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(own)))
    return _in_order(columns, rows)


def _in_order(columns: list[Column], rows: pa.Table) -> tuple[list[Column], pa.Table]:
    """Return the columns that the rows have, and the rows with these."""
    kept = [c for c in columns if c.name in rows.column_names]
    return kept, rows.select([c.name for c in kept])
