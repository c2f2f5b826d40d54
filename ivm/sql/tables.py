"""CREATE TABLE, ALTER TABLE, DROP TABLE and TRUNCATE."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext, suppress
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, NamedTuple

from sqlglot import exp
from sqlglot.errors import SqlglotError

from ivm.errors import UninstallError
from ivm.installation import Blocks
from ivm.sql.catalog import Catalog, unnamed
from ivm.sql.constraints import (
    NO_SUBQUERIES,
    add_constraints,
    columns_saved,
    constraints_of,
    drop_index,
    renamed,
)
from ivm.sql.conversions import convert
from ivm.sql.dialects.read import read
from ivm.sql.errors import SqlError, nearest
from ivm.sql.literals import constant, converted, sql_type
from ivm.sql.queries.expressions import Expressions
from ivm.sql.queries.scope import Scope
from ivm.sql.rules import Body, Builder
from ivm.sql.session import Host, change_catalog
from ivm.sql.system.session import constant_of
from ivm.sql.terms import Lit
from ivm.sql.types import INTERVAL, SqlType
from pagestore.errors import DependantsError
from pagestore.host import KEYS_MAX, Column, Schema, Type, may_be_narrow

TYPE = re.compile(
    r'(create|drop)\s+type\s+(?:if\s+(?:not\s+)?exists\s+)?("[^"]+"|\w+)(?:\s+as\s+(.+))?',
    re.IGNORECASE | re.DOTALL,
)


SERIAL = {"SMALLSERIAL": "SMALLINT", "SERIAL": "INTEGER", "BIGSERIAL": "BIGINT"}
ALWAYS, BY_DEFAULT = "always", "by default"
Row = tuple[Any, ...]


class Definition(NamedTuple):
    """A column of CREATE TABLE."""

    name: str
    type: SqlType
    nullable: bool
    default: str | None  # as SQL
    identity: str = ""  # whether numbers are given ALWAYS, or BY DEFAULT

    @property
    def stored(self) -> Column:
        """The column of the store that holds the values."""
        type_ = Type.parse(self.type.store + "?" * self.nullable)
        narrow = may_be_narrow(type_, self.type.name)
        return Column(self.name, type_, self.type.name if narrow else "")

    def saved(self) -> dict[str, Any]:
        """Return what the catalog keeps."""
        kept = {"name": self.name, "type": str(self.type), "default": self.default}
        return kept | ({"identity": self.identity} if self.identity else {})


def definitions(nodes: list[exp.Expr]) -> tuple[list[Definition], list[str], list[exp.Expr]]:
    """Return the columns of a CREATE TABLE, the names of its primary key, and its constraints."""
    columns: list[Definition] = []
    key: list[str] = []
    checks: list[exp.Expr] = []
    for node in nodes:
        if isinstance(node, exp.ColumnDef):
            column, is_key = _column(node, checks)
            columns.append(column)
            key += [column.name] * is_key
            continue
        if isinstance(node, exp.Identifier | exp.Column):
            raise SqlError(f"column {node.name} has no type", node)
        inner = unnamed(node)
        if isinstance(inner, exp.PrimaryKey):
            key += [item.name for item in inner.expressions]
        else:
            checks.append(inner)
    known = {c.name.lower(): c.name for c in columns}
    if len(known) < len(columns):
        raise SqlError("two columns of the table have one name", nodes[0])
    lost = [column for column in key if column.lower() not in known]
    if lost:
        raise SqlError(
            f"PRIMARY KEY ({lost[0]}): the table has no such "
            f"column{nearest(lost[0], known.values())}"
        )
    key = [known[column.lower()] for column in key]
    return [c._replace(nullable=c.nullable and c.name not in key) for c in columns], key, checks


def _column(node: exp.ColumnDef, checks: list[exp.Expr]) -> tuple[Definition, bool]:
    nullable, is_key, default, kind = True, False, None, node.args.get("kind")
    if kind is None:
        raise SqlError(f"column {node.name} has no type", node)
    kind, identity = _numbered(node)
    for given in node.args.get("constraints") or ():
        match given.kind:
            case exp.NotNullColumnConstraint():
                nullable = bool(given.kind.args.get("allow_null"))
            case exp.PrimaryKeyColumnConstraint():
                is_key = True
            case exp.DefaultColumnConstraint():
                default = given.kind.this.sql(dialect="duckdb")
            case exp.CheckColumnConstraint():
                checks.append(given.kind)
            case exp.UniqueColumnConstraint():
                checks.append(
                    exp.UniqueColumnConstraint(
                        this=exp.Schema(expressions=[exp.to_identifier(node.name)])
                    )
                )
            case exp.Reference():
                checks.append(
                    exp.ForeignKey(expressions=[exp.to_identifier(node.name)], reference=given.kind)
                )
            case exp.CommentColumnConstraint() | exp.AutoIncrementColumnConstraint():
                pass
            case exp.GeneratedAsIdentityColumnConstraint() if not given.kind.expression:
                pass
            case _:
                raise SqlError(f"{node.name} {given.sql(dialect='duckdb')} is not kept", node)
    type_ = sql_type(kind)
    _refuse_default(default, type_, node)
    if identity and (default is not None or not type_.is_integer):
        raise SqlError(
            f"{node.name}: numbers are given to a column of integers, and no DEFAULT", node
        )
    return Definition(node.name, type_, nullable and not identity, default, identity), is_key


def _refuse_default(text: str | None, type_: SqlType, node: exp.Expr) -> None:
    """Raise SqlError for a DEFAULT that has no value in a column of a type."""
    if text is not None:
        values = Expressions(Builder("sql"), Scope(Body(), []), NO_SUBQUERIES)
        convert(values.value(default_node(text)), type_, node)


def _numbered(node: exp.ColumnDef) -> tuple[Any, str]:
    """Return the type of a column, and whether it gets numbers: as SERIAL, or as IDENTITY."""
    kind = node.args["kind"]
    word = str(kind.args.get("kind") or kind.this.value).upper()
    if integer := SERIAL.get(word):
        return exp.DataType.build(integer), BY_DEFAULT
    for given in node.args.get("constraints") or ():
        if isinstance(given.kind, exp.AutoIncrementColumnConstraint):
            return kind, BY_DEFAULT
        if isinstance(given.kind, exp.GeneratedAsIdentityColumnConstraint):
            return kind, _identity(given.kind)
    return kind, ""


def _identity(node: exp.GeneratedAsIdentityColumnConstraint) -> str:
    given = {key: node.text(key) for key in ("start", "increment") if node.args.get(key)}
    others = [key for key in ("minvalue", "maxvalue", "cycle") if node.args.get(key)]
    if others or {*given.values()} - {"1"}:
        raise SqlError("IDENTITY counts up from 1 by 1: leave out its options", node)
    return ALWAYS if node.this else BY_DEFAULT


def create(
    blocks: Blocks,
    catalog: Catalog,
    name: str,
    columns: list[Definition],
    key: list[str],
    node: exp.Create,
) -> bool:
    """Create a table: a relation whose key is the primary key; return whether it is new."""
    if not columns:
        raise SqlError("a table has columns: name them with their types, as in (a INTEGER)", node)
    for column in columns:
        if set("`$\n") & {*column.name}:
            raise SqlError(
                f"{column.name!r} cannot be the name of a column: leave out `, $ and line breaks",
                node,
            )
        _refuse_interval(column, node)
    stored = catalog.find(name)
    if stored is not None or catalog.view(name) is not None:
        if node.args.get("exists"):
            return False
        if not node.args.get("replace") or stored is None or stored in catalog.kept:
            raise SqlError(
                f"{stored or name} exists already: DROP it first, or CREATE TABLE IF NOT EXISTS",
                node,
            )
        _let_go(blocks, catalog, stored)
    typed = tuple(c.stored for c in columns)
    if key:
        blocks.txn.create(name, Schema(typed, (*key,)), key=tuple(key))
    else:
        create_bag(blocks.txn, name, typed)
    catalog.tables[name] = {"columns": [c.saved() for c in columns]}
    return True


def _refuse_interval(column: Definition, node: exp.Expr) -> None:
    if INTERVAL in (column.type, column.type.element):
        raise SqlError(
            f"{column.name}: tables have no columns of {column.type}: store the two moments, or "
            "microseconds as BIGINT; views have the time between two timestamps",
            node,
        )


def _let_go(blocks: Blocks, catalog: Catalog, *tables: str) -> None:
    """Drop tables with their constraints.  Raises DependantsError if anything else reads them."""
    for stored in tables:
        if catalog.tables.get(stored, {}).get("constraints"):
            blocks.uninstall(constraints_of(stored))
    for stored in tables:
        if blocks.reads(stored):
            raise DependantsError(f"rules read {stored}: uninstall them first")
        blocks.txn.drop(stored)
        catalog.tables.pop(stored, None)


def create_bag(txn: Any, name: str, columns: tuple[Column, ...]) -> None:
    """Create a table without a key, whose rows may be equal."""
    if len(columns) > KEYS_MAX:
        raise SqlError(
            f"{name} has {len(columns)} columns and no PRIMARY KEY, which is kept up to {KEYS_MAX} "
            f"columns"
        )
    txn.create(name, Schema(columns, tuple(c.name for c in columns)), keys_null=True, bag=True)


def is_of_type(node: exp.Command) -> bool:
    """Return whether a statement, which the parser leaves as it is, is CREATE TYPE or DROP TYPE."""
    match = TYPE.fullmatch(f"{node.this} {node.expression}")
    return match is not None and (match[3] is not None) == (match[1].lower() == "create")


def define_type(host: Host, node: exp.Command) -> None:
    """CREATE TYPE name AS ENUM (...), or as any other type, and DROP TYPE.  Raises SqlError."""
    match = TYPE.fullmatch(f"{node.this} {node.expression}")
    assert match is not None
    name, given = match[2].strip('"'), match[3]
    lenient = re.match(r"\w+\s+type\s+if\b", match[0], re.IGNORECASE)
    try:
        type_ = (
            None if given is None else str(sql_type(exp.DataType.build(given, dialect="duckdb")))
        )
    except (SqlglotError, ValueError) as error:
        raise SqlError(
            f"CREATE TYPE {name}: write AS ENUM ('a', 'b'), or AS a type", node
        ) from error

    def change(_blocks: Blocks, catalog: Catalog) -> None:
        exists = catalog.type_named(name) is not None
        if exists == (type_ is not None):
            if not lenient:
                known = (
                    "exists already: DROP TYPE it first"
                    if exists
                    else f"does not exist{nearest(name, catalog.types)}"
                )
                raise SqlError(f"type {name} {known}", node)
        elif type_ is None:
            catalog.types = {
                own: kept for own, kept in catalog.types.items() if own.lower() != name.lower()
            }
        else:
            catalog.types[name] = type_

    change_catalog(host, f"{match[1].lower()} type {name}", change)


def drop(host: Host, node: exp.Drop) -> None:
    """DROP TABLE, DROP VIEW and DROP INDEX.  Several are dropped only if each may be."""
    names = [*dict.fromkeys(table.name for table in node.args["tables"])]
    if (node.args.get("kind") or "").upper() == "INDEX":
        for name in names:
            drop_index(host, name, node)
        return
    change_catalog(host, f"drop {', '.join(names)}", partial(_drop, names, node))


def _may_drop(catalog: Catalog, name: str, node: exp.Drop) -> bool:
    """Return whether there is such a table or view.  Raises SqlError for another kind, or for none
    without IF EXISTS.
    """
    stored = catalog.find(name)
    is_view = stored in catalog.kept if stored else catalog.view(name) is not None
    if stored is None and not is_view:
        if node.args.get("exists"):
            return False
        raise SqlError(f"no table or view {name} exists{nearest(name, catalog.names())}", node)
    word = "VIEW" if is_view else "TABLE"
    if (node.args.get("kind") or "").upper() != word:
        raise SqlError(f"{name} is a {word.lower()}: write DROP {word} {name}", node)
    return True


def _drop(names: list[str], node: exp.Drop, blocks: Blocks, catalog: Catalog) -> None:
    dropped = [name for name in names if _may_drop(catalog, name, node)]
    found = [stored for stored in map(catalog.find, dropped) if stored is not None]
    left = [stored for stored in found if stored in catalog.kept]
    while left:
        for view in [*left]:  # those that no other of them reads come first
            with suppress(UninstallError) if len(left) > 1 else nullcontext():
                blocks.uninstall(catalog.kept[view]["block"])
                left.remove(view)
                del catalog.kept[view]
    _let_go(blocks, catalog, *(stored for stored in found if stored in blocks.txn))
    lowered = {name.lower() for name in dropped}
    catalog.views = {n: kept for n, kept in catalog.views.items() if n.lower() not in lowered}


def alter(host: Host, node: exp.Alter) -> None:
    """ALTER TABLE: ADD, DROP and RENAME COLUMN, RENAME TO, ADD CONSTRAINT."""
    if added := [arg for arg in node.args["actions"] if isinstance(arg, exp.AddConstraint)]:
        if len(added) < len(node.args["actions"]):
            raise SqlError("ADD CONSTRAINT is a statement of its own", added[0])
        add_constraints(host, node, [item for action in added for item in action.expressions])
        return

    def change(blocks: Blocks, catalog: Catalog) -> None:
        table = catalog.own_table(node.this.name, node, "DROP it, and CREATE it again")
        for action in node.args["actions"]:
            _alter(blocks.txn, catalog, table, action)

    try:
        change_catalog(host, f"alter table {node.this.name}", change)
    except DependantsError as error:
        raise SqlError(
            f"{_reading(host, node)}: DROP them, ALTER the table and CREATE them again", node
        ) from error


def readers(host: Host, node: exp.Expr) -> str:
    """Return which kept views read what a statement drops or replaces, as an error says it;
    empty if none does.
    """
    said = _reading(host, node)
    return said and f"{said}: DROP them first, and CREATE them again afterwards"


def _reading(host: Host, node: exp.Expr) -> str:
    """Return which other kept views and constraints read the tables of a statement."""
    tables = node.args.get("tables") or [node.find(exp.Table)]
    with host.store.snapshot() as snap:
        rules, catalog = host.rules.of(snap), Catalog(snap)
        stored = [catalog.find(table.name) for table in tables if table is not None]
    names, lines = [name for name in dict.fromkeys(stored) if name is not None], list[str]()
    own = {
        *names,
        *(constraints_of(name) for name in names if isinstance(node, exp.Drop | exp.Create)),
    }
    for name in names:
        others = [block for block in rules.blocks if block.name not in own]
        under = [block.name for block in others if any(name in r.reads for r in block.rules)]
        shown = ", ".join(view.replace(":constraints", " (constraints)") for view in under)
        lines += [f"{name} would change under {shown}"] * bool(under)
    return "; ".join(lines)


def _refuse_taken(table: str, name: str, columns: list[dict[str, Any]], node: exp.Expr) -> None:
    """Raise SqlError for a name that one of some columns has."""
    if name.lower() in (column["name"].lower() for column in columns):
        raise SqlError(f"{table} has a column {name} already", node)


def _alter(txn: Any, catalog: Catalog, name: str, action: exp.Expr) -> None:
    saved = catalog.tables.setdefault(name, {"columns": columns_saved(catalog, name)})
    match action:
        case exp.ColumnDef():
            checks: list[exp.Expr] = []
            column, _ = _column(action, checks)
            _refuse_interval(column, action)
            _refuse_taken(name, column.name, saved["columns"], action)
            if checks:
                raise SqlError("CHECK, UNIQUE and REFERENCES are named in CREATE TABLE", action)
            default = default_value(column.default, column.type, action)
            added = column.stored
            if catalog.weighs(name):
                _made_anew(
                    txn, name, [*txn[name].schema.columns, added], lambda row: (*row, default)
                )
            else:
                txn.add_column(name, added, default)
            saved["columns"].append(column.saved())
        case exp.Drop():
            for column in action.args["tables"]:
                old = _own(catalog, name, column.name, action)
                if old in txn[name].schema.key and not catalog.weighs(name):
                    raise SqlError(f"{old} is of the key of {name}, which stays whole", action)
                if catalog.weighs(name):
                    place = [c.name for c in txn[name].schema.columns].index(old)
                    left = [c for c in txn[name].schema.columns if c.name != old]
                    _made_anew(txn, name, left, lambda row, p=place: (*row[:p], *row[p + 1 :]))  # type: ignore[misc]
                else:
                    txn.drop_column(name, old)
                saved["columns"] = [c for c in saved["columns"] if c["name"] != old]
        case exp.RenameColumn():
            old, new = _own(catalog, name, action.this.name, action), action.args["to"].name
            others = [c for c in saved["columns"] if c["name"] != old]
            _refuse_taken(name, new, others, action)
            txn.rename_column(name, old, new)
            saved["columns"] = [
                {**c, "name": new} if c["name"] == old else c for c in saved["columns"]
            ]
            saved["indices"] = {
                index: ([new if c == old else c for c in columns], unique)
                for index, (columns, unique) in saved.get("indices", {}).items()
            }
            if checks := saved.get("constraints"):
                saved["constraints"] = {
                    rule: renamed(text, old, new) for rule, text in checks.items()
                }
        case exp.AlterRename():
            txn.rename(name, action.this.name)
            catalog.tables[action.this.name] = catalog.tables.pop(name)
        case _:
            raise SqlError(
                f"ALTER TABLE {action.sql(dialect='duckdb')[:40]} is not evaluated", action
            )


def _made_anew(txn: Any, name: str, columns: list[Column], row_of: Callable[[Row], Row]) -> None:
    """Make a table without a key anew with other columns.  O(rows)."""
    rows = [row_of(row) for row in txn[name]]
    txn.drop(name)
    create_bag(txn, name, tuple(columns))
    txn[name].insert(rows)


def _own(catalog: Catalog, table: str, column: str, node: exp.Expr) -> str:
    names = [c.name for c in catalog.columns(table)]
    for name in names:
        if name.lower() == column.lower():
            return name
    raise SqlError(f"{table} has no column {column}{nearest(column, names)}", node)


def default_value(
    text: str | None, type_: SqlType, node: exp.Expr | None = None, moment: datetime | None = None
) -> Any:
    """Return the value of a DEFAULT, at a moment, by default now.  Raises SqlError if it is not a constant."""
    if text is None:
        return None
    value = constant(default_node(text, moment))
    if value is None:
        raise SqlError(f"DEFAULT {text} is computed: add the column without it, then UPDATE", node)
    literal = converted(value, type_, node).term
    assert isinstance(literal, Lit)
    return literal.value


def is_lasting(text: str) -> bool:
    """Return whether a DEFAULT is a constant, and the same at any moment."""
    return constant(_default(text)) is not None


@lru_cache(1 << 10)  # an INSERT asks for each row
def _default(text: str) -> exp.Expr:
    """Return the expression of a DEFAULT, to be read only."""
    node: exp.Expr = read(f"SELECT {text}")[0].expressions[0].unnest()
    return node


def default_node(text: str, moment: datetime | None = None) -> exp.Expr:
    """Return the expression of a DEFAULT, at a moment, by default now."""
    tree = _default(text).copy()
    said = constant_of(tree, moment)  # of the moment, or of chance
    return tree if said is None else said.this if isinstance(said, exp.Cast) else said
