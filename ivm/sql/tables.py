"""CREATE TABLE, ALTER TABLE, DROP TABLE and TRUNCATE."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

from sqlglot import exp

from ivm.sql.catalog import Catalog
from ivm.sql.errors import SqlError, SqlWarning, nearest
from ivm.sql.literals import constant, converted
from ivm.sql.session import Host, change_catalog
from ivm.sql.terms import Lit
from ivm.sql.types import SqlType, sql_type
from pagestore.host import KEYS_MAX, Column, Schema, Type


class Definition(NamedTuple):
    """A column of CREATE TABLE."""

    name: str
    type: SqlType
    nullable: bool
    default: str | None  # as SQL

    def saved(self) -> dict[str, Any]:
        """Return what the catalog keeps."""
        return {"name": self.name, "type": str(self.type), "default": self.default}


def definitions(nodes: list[exp.Expr]) -> tuple[list[Definition], list[str]]:
    """Return the columns of a CREATE TABLE and the names of its primary key."""
    columns: list[Definition] = []
    key: list[str] = []
    unchecked: list[str] = []
    for node in nodes:
        if isinstance(node, exp.ColumnDef):
            column, is_key = _column(node, unchecked)
            columns.append(column)
            key += [column.name] * is_key
            continue
        inner = node.expressions[0] if isinstance(node, exp.Constraint) and node.expressions else node
        if isinstance(inner, exp.PrimaryKey):
            key += [one.name for one in inner.expressions]
        else:
            unchecked.append(inner.sql(dialect="duckdb"))
    for one in unchecked:
        warnings.warn(SqlWarning(f"{one} is not checked"), stacklevel=2)
    known = {c.name.lower(): c.name for c in columns}
    if len(known) < len(columns):
        raise SqlError("two columns of the table have one name", nodes[0])
    lost = [one for one in key if one.lower() not in known]
    if lost:
        raise SqlError(f"PRIMARY KEY ({lost[0]}): the table has no such column{nearest(lost[0], known.values())}")
    key = [known[one.lower()] for one in key]
    return [c._replace(nullable=c.nullable and c.name not in key) for c in columns], key


def _column(node: exp.ColumnDef, unchecked: list[str]) -> tuple[Definition, bool]:
    nullable, is_key, default = True, False, None
    if node.args.get("kind") is None:
        raise SqlError(f"column {node.name} has no type", node)
    for one in node.args.get("constraints") or ():
        match one.kind:
            case exp.NotNullColumnConstraint():
                nullable = bool(one.kind.args.get("allow_null"))
            case exp.PrimaryKeyColumnConstraint():
                is_key = True
            case exp.DefaultColumnConstraint():
                default = one.kind.this.sql(dialect="duckdb")
            case exp.CheckColumnConstraint() | exp.UniqueColumnConstraint() | exp.Reference():
                unchecked.append(f"{node.name} {one.sql(dialect='duckdb')}")
            case exp.CommentColumnConstraint():
                pass
            case _:
                raise SqlError(f"{node.name} {one.sql(dialect='duckdb')} is not kept", node)
    return Definition(node.name, sql_type(node.args["kind"]), nullable, default), is_key


def create(host: Host, name: str, columns: list[Definition], key: list[str], node: exp.Create) -> None:
    """Create a table: a relation whose key is the primary key."""
    for column in columns:
        if set("`$\n") & {*column.name}:
            raise SqlError(f"{column.name!r} cannot be the name of a column: leave out `, $ and line breaks", node)

    def change(txn: Any, catalog: Catalog) -> None:
        own = catalog.find(name)
        if own is not None or catalog.view(name) is not None:
            if node.args.get("exists"):
                return
            if not node.args.get("replace") or own is None or own in catalog.kept:
                raise SqlError(f"{own or name} exists already: DROP it first, or CREATE TABLE IF NOT EXISTS", node)
            txn.drop(own)
        typed = tuple(Column(c.name, Type.parse(c.type.store + "?" * c.nullable)) for c in columns)
        if key:
            txn.create(name, Schema(typed, (*key,)), key=tuple(key))
        else:
            create_bag(txn, name, typed)
        catalog.tables[name] = {"columns": [c.saved() for c in columns]}

    change_catalog(host, f"create table {name}", change)


def create_bag(txn: Any, name: str, columns: tuple[Column, ...]) -> None:
    """Create a table without a key, whose rows may be equal."""
    if len(columns) > KEYS_MAX:
        raise SqlError(f"{name} has {len(columns)} columns and no PRIMARY KEY, which is kept up to {KEYS_MAX} columns")
    txn.create(name, Schema(columns, tuple(c.name for c in columns)), keys_null=True, bag=True)


def drop(host: Host, node: exp.Drop) -> None:
    """DROP TABLE, DROP VIEW."""
    for table in node.args["tables"]:
        _drop(host, table.name, node)


def _drop(host: Host, name: str, node: exp.Drop) -> None:
    with host.store.snapshot() as snap:
        catalog = Catalog(snap, host.rules_of(snap).program.predicates, snap.properties)
        own = catalog.find(name)
        is_view = own in catalog.kept if own else catalog.view(name) is not None
        block = catalog.kept[own]["block"] if own in catalog.kept else None
    if own is None and not is_view:
        if node.args.get("exists"):
            return
        raise SqlError(f"no table or view {name} exists{nearest(name, catalog.names())}", node)
    wanted = "VIEW" if is_view else "TABLE"
    if (node.args.get("kind") or "").upper() != wanted:
        raise SqlError(f"{name} is a {wanted.lower()}: write DROP {wanted} {name}", node)
    if block is not None:
        host.uninstall(block)

    def change(txn: Any, changed: Catalog) -> None:
        if own is not None and block is None:
            txn.drop(own)
        for known in (changed.tables, changed.views, changed.kept):
            for one in [n for n in known if n.lower() == name.lower()]:
                del known[one]

    change_catalog(host, f"drop {name}", change)


def alter(host: Host, node: exp.Alter) -> None:
    """ALTER TABLE: ADD, DROP and RENAME COLUMN, RENAME TO."""

    def change(txn: Any, catalog: Catalog) -> None:
        own = catalog.find(node.this.name)
        if own is None or own in catalog.kept:
            raise SqlError(f"no table {node.this.name} exists{nearest(node.this.name, catalog.names())}", node)
        for action in node.args["actions"]:
            _alter(txn, catalog, own, action)

    change_catalog(host, f"alter table {node.this.name}", change)


def _alter(txn: Any, catalog: Catalog, name: str, action: exp.Expr) -> None:
    saved = catalog.tables.setdefault(
        name, {"columns": [{"name": c.name, "type": str(c.type), "default": None} for c in catalog.columns(name)]}
    )
    match action:
        case exp.ColumnDef():
            unchecked: list[str] = []
            column, _ = _column(action, unchecked)
            default = default_value(column.default, column.type, action)
            txn.add_column(name, f"{column.name}: {column.type.store}{'?' * column.nullable}", default)
            saved["columns"].append(column.saved())
        case exp.Drop():
            for column in action.args["tables"]:
                own = _own(catalog, name, column.name, action)
                txn.drop_column(name, own)
                saved["columns"] = [c for c in saved["columns"] if c["name"] != own]
        case exp.RenameColumn():
            own = _own(catalog, name, action.this.name, action)
            raise SqlError(f"column {own} keeps its name: ADD a column, UPDATE it, and DROP this one", action)
        case exp.AlterRename():
            txn.rename(name, action.this.name)
            catalog.tables[action.this.name] = catalog.tables.pop(name)
        case _:
            raise SqlError(f"ALTER TABLE {action.sql(dialect='duckdb')[:40]} is not evaluated", action)


def _own(catalog: Catalog, table: str, column: str, node: exp.Expr) -> str:
    names = [c.name for c in catalog.columns(table)]
    for name in names:
        if name.lower() == column.lower():
            return name
    raise SqlError(f"{table} has no column {column}{nearest(column, names)}", node)


def default_value(text: str | None, type_: SqlType, node: exp.Expr | None = None) -> Any:
    """Return the value of a DEFAULT.  Raises SqlError if it is not a constant."""
    if text is None:
        return None
    import sqlglot

    parsed = sqlglot.parse_one(text, dialect="duckdb")
    while isinstance(parsed, exp.Paren | exp.Cast):
        parsed = parsed.this
    value = constant(parsed)
    if value is None:
        raise SqlError(f"DEFAULT {text} is not a constant", node)
    found = converted(value, type_, node).term
    assert isinstance(found, Lit)
    return found.value
