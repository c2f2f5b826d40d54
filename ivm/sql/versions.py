"""Statements on branches, and older versions in a query: `t FOR VERSION AS OF 3`,
`t AT (VERSION => 3)`, and `changes(v, 3, 7)`.

What they name is read from the older version, and put beside the other tables for as long as the
query is evaluated.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import sqlglot
from sqlglot import exp

from ivm.rules.installed import Installed
from ivm.sql.catalog import Catalog
from ivm.sql.errors import SqlError, nearest
from ivm.sql.rules import Column
from ivm.sql.tables import create_bag
from ivm.sql.types import BIGINT, INTERVAL, VARCHAR
from ivm.wide import Wide, changes, read
from pagestore.errors import PagestoreError
from pagestore.host import Column as Stored
from pagestore.host import Store, Type

if TYPE_CHECKING:
    import pyarrow as pa

CHANGE = Column("_change_type", VARCHAR, False)  # "insert" or "delete"


BRANCH = re.compile(
    r"""(?P<action>create|drop|merge)\s+branch\s+(?P<name>"[^"]+"|\w+)
    (?:\s+(?P<word>from|into)\s+(?P<other>"[^"]+"|'[^']+'|\w+))?
    (?:\s+on\s+conflict\s+(?P<rule>\w+))?""",
    re.IGNORECASE | re.VERBOSE,
)
TAKES = {"create": "from", "drop": None, "merge": "into"}  # the word before what else is named


def run_branch(store: Store, said: dict[str, str | None], node: exp.Expr) -> None:
    """CREATE BRANCH a [FROM b], DROP BRANCH a, and MERGE BRANCH a [INTO b] [ON CONFLICT rule].

    Raises SqlError for parts that a statement does not have, or for what the store refuses.
    """
    action = str(said["action"]).lower()
    name, other = ((said[part] or "").strip("\"'") for part in ("name", "other"))
    if (said["word"] or TAKES[action] or "").lower() != (TAKES[action] or "") or (
        said["rule"] and action != "merge"
    ):
        raise SqlError(
            "write CREATE BRANCH a FROM b, DROP BRANCH a, or MERGE BRANCH a INTO b ON CONFLICT ours",
            node,
        )
    try:
        if action == "create":
            start = int(other) if other.isdigit() else other
            store.branch(name, None if said["other"] is None else start)
        elif action == "drop":
            store.delete_branch(name)
        else:
            store.merge(name, other or None, said["rule"] and said["rule"].lower())
    except PagestoreError as error:
        raise SqlError(str(error), node) from error


def names_versions(node: exp.Expr) -> bool:
    """Return whether a query reads older versions."""
    return any(_version(one) is not None or _is_changes(one) for one in node.find_all(exp.Table))


def catalog_of(state: Any, rules: Installed) -> Catalog:
    """Return the tables and views of a transaction."""
    return Catalog(state, rules.program.predicates, state.catalog.properties)


def materialized(store: Store, state: Any, rules: Installed, node: exp.Expr) -> exp.Expr:
    """Return a query that reads relations of a transaction, which this makes, in place of older
    versions.
    """
    node, catalog = node.copy(), catalog_of(state, rules)
    for number, table in enumerate(list(node.find_all(exp.Table))):
        if (version := _version(table)) is not None:
            shown, rows = _rows_of(store, catalog, table, version)
        elif _is_changes(table):
            shown, rows = _changes(store, catalog, table)
        else:
            continue
        name = f"sql_version_{number}"
        columns = [replace(c, type=BIGINT) if c.type == INTERVAL else c for c in shown]
        stored = (Stored(c.name, Type.parse(c.type.store + "?" * c.nullable)) for c in columns)
        create_bag(state, name, tuple(stored))
        state[name].insert(rows)
        catalog.tables[name] = {"columns": [{"name": c.name, "type": str(c.type)} for c in columns]}
        alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name))
        table.replace(_reading(name, shown, alias, table.args.get("joins")))
    state.properties["ivm.sql"] = catalog.saved()
    return node


def _reading(
    name: str, columns: list[Column], alias: exp.TableAlias, joins: list[exp.Join] | None
) -> exp.Expr:
    """Return what reads a table in a query, whose intervals are stored as microseconds."""
    table = exp.to_table(name)
    if not any(c.type == INTERVAL for c in columns):
        return exp.Table(this=table.this, alias=alias, joins=joins)
    items = []
    for column in columns:
        own = exp.column(column.name, quoted=True).sql(dialect="duckdb")
        text = f"make_timestamp({own}) - make_timestamp(0)" if column.type == INTERVAL else own
        items.append(
            exp.alias_(sqlglot.parse_one(text, dialect="duckdb"), column.name, quoted=True)
        )
    return exp.Subquery(this=exp.select(*items).from_(table), alias=alias, joins=joins)


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
    if own is None or (own not in catalog.source and own not in catalog.kept):
        raise SqlError(f"no table or kept view {name} exists{nearest(name, catalog.names())}", node)
    return own


def _rows_of(
    store: Store, catalog: Catalog, table: exp.Table, version: exp.Expr
) -> tuple[list[Column], pa.Table]:
    own = _known(catalog, table.name, table)
    with store.at(_number(version.expression, table)) as snap:
        found = read(snap, own)
        if found is None:
            raise SqlError(f"{own} does not exist in that version", table)
        return _in_order(
            catalog.columns(own), (found.as_stored if isinstance(found, Wide) else found).to_arrow()
        )


def _changes(store: Store, catalog: Catalog, table: exp.Table) -> tuple[list[Column], pa.Table]:
    arguments = table.this.expressions
    if len(arguments) != 3:
        raise SqlError("changes takes a table and two versions, as in changes(v, 3, 7)", table)
    own = _known(catalog, arguments[0].name, table)
    first, second = (_number(one, table) for one in arguments[1:])
    with store.at(first) as old, store.at(second) as new:
        rows = changes(old, new, own, as_stored=True)
    if rows is None:
        raise SqlError(f"{own} exists in neither version", table)
    columns = [*catalog.columns(own), CHANGE]
    table.set("alias", table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(own)))
    return _in_order(columns, rows)


def _in_order(columns: list[Column], rows: pa.Table) -> tuple[list[Column], pa.Table]:
    """Return the columns that the rows have, and the rows with these."""
    kept = [c for c in columns if c.name in rows.column_names]
    return kept, rows.select([c.name for c in kept])
