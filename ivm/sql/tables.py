"""CREATE TABLE, ALTER TABLE, DROP TABLE and TRUNCATE."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, NamedTuple

from sqlglot import exp
from sqlglot.errors import SqlglotError

from ivm.errors import UninstallError
from ivm.installation import Blocks
from ivm.sql import constraints
from ivm.sql.catalog import NAMED, Catalog, unnamed
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
DEFAULTS = {"this", "default"}, {"this", "drop"}  # what ALTER COLUMN has of a DEFAULT
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
    keys = 0
    for node in nodes:
        if isinstance(node, exp.ColumnDef):
            column, is_key = _column(node, checks)
            columns.append(column)
            key += [column.name] * is_key
            keys += is_key
            continue
        if isinstance(node, exp.Identifier | exp.Column):
            raise SqlError(f"column {node.name} has no type", node)
        inner = unnamed(node)
        if isinstance(inner, exp.PrimaryKey):
            keys += 1
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
    if keys > 1 or len({column.lower() for column in key}) < len(key):
        raise SqlError("a table has one PRIMARY KEY, of different columns: PRIMARY KEY (a, b)")
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
            case exp.CheckColumnConstraint() | exp.UniqueColumnConstraint() | exp.Reference():
                checks.append(_check(node, given))
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


def _check(node: exp.ColumnDef, given: exp.ColumnConstraint) -> exp.Expr:
    """Return a constraint of a column as one of its table."""
    check: exp.Expr
    check, columns = given.kind, [exp.to_identifier(node.name)]
    if isinstance(check, exp.UniqueColumnConstraint):
        check = exp.UniqueColumnConstraint(this=exp.Schema(expressions=columns))
    elif isinstance(check, exp.Reference):
        check = exp.ForeignKey(expressions=columns, reference=check)
    check.meta[NAMED] = given.name
    return check


def _refuse_default(text: str | None, type_: SqlType, node: exp.Expr) -> None:
    """Raise SqlError for a DEFAULT that has no value in a column of a type."""
    if text is not None:
        values = Expressions(Builder("sql"), Scope(Body(), []), constraints.NO_SUBQUERIES)
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
        refuse_name(column.name, node, "column")
        _refuse_interval(column, node)
    if not may_create(catalog, name, node):
        return False
    if (stored := catalog.find(name)) is not None:
        _let_go(blocks, catalog, stored)
    typed = tuple(c.stored for c in columns)
    if key:
        blocks.txn.create(name, Schema(typed, (*key,)), key=tuple(key))
    else:
        create_bag(blocks.txn, name, typed)
    catalog.tables[name] = {"columns": [c.saved() for c in columns]}
    return True


def may_create(catalog: Catalog, name: str, node: exp.Create) -> bool:
    """Return whether a table or view is to be created.  Raises SqlError if its name is taken."""
    known = catalog.find(name)
    if known is None and catalog.view(name) is None:
        return True
    if node.args.get("exists"):
        return False
    is_like = (known is None or known in catalog.kept) == (node.args["kind"].upper() == "VIEW")
    if node.args.get("replace") and is_like:
        return True
    remedy = "CREATE OR REPLACE it, or DROP it first" if is_like else "choose another name"
    raise SqlError(f"{known or name} exists already: {remedy}", node)


def refuse_name(name: str, node: exp.Expr, of: str = "table or view") -> None:
    """Raise SqlError for a name that rules cannot write."""
    if not name or set("`$\n" + ":" * (of != "column")) & {*name}:
        raise SqlError(
            f"{name!r} cannot be the name of a {of}: leave out `, $, : and line breaks", node
        )


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
            blocks.uninstall(constraints.constraints_of(stored))
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
    except SqlError:
        raise
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
    if (kind := node.args["kind"].upper()) == "INDEX":
        for name in names:
            constraints.drop_index(host, name, node)
        return
    if kind not in ("TABLE", "VIEW"):
        raise SqlError(f"DROP {kind}: TABLE, VIEW, INDEX and TYPE are dropped", node)
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
    """ALTER TABLE: ADD, DROP and RENAME COLUMN, RENAME TO, ADD and DROP CONSTRAINT, defaults."""
    if added := [arg for arg in node.args["actions"] if isinstance(arg, exp.AddConstraint)]:
        if len(added) < len(node.args["actions"]):
            raise SqlError("ADD CONSTRAINT is a statement of its own", added[0])
        constraints.add_constraints(
            host, node, [item for action in added for item in action.expressions]
        )
        return
    kind, name = str(node.args["kind"]), node.this.name

    def change(blocks: Blocks, catalog: Catalog) -> None:
        if kind not in ("TABLE", "VIEW") or (
            kind == "VIEW" and catalog.find(name) in catalog.tables
        ):
            raise SqlError(f"ALTER {kind} {name}: tables are altered; DROP it, and CREATE it", node)
        table = catalog.own_table(name, node, "DROP it, and CREATE it again")
        for action in node.args["actions"]:
            table = _alter(blocks, catalog, table, action)

    try:
        change_catalog(host, f"alter table {name}", change)
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
        *(
            constraints.constraints_of(name)
            for name in names
            if isinstance(node, exp.Drop | exp.Create)
        ),
    }
    for name in names:
        others = [block for block in rules.blocks if block.name not in own]
        under = [block.name for block in others if any(name in r.reads for r in block.rules)]
        shown = ", ".join(view.replace(":constraints", " (constraints)") for view in under)
        lines += [f"{name} would change under {shown}"] * bool(under)
    return "; ".join(lines)


def _refuse_taken(table: str, name: str, columns: list[dict[str, Any]], node: exp.Expr) -> None:
    """Raise SqlError for a name that no column may have, or that one of some columns has."""
    refuse_name(name, node, "column")
    if name.lower() in (column["name"].lower() for column in columns):
        raise SqlError(f"{table} has a column {name} already", node)


def _alter(blocks: Blocks, catalog: Catalog, name: str, action: exp.Expr) -> str:
    """Alter a table; return its name then."""
    saved = catalog.tables.setdefault(name, {"columns": constraints.columns_saved(catalog, name)})
    match action:
        case exp.ColumnDef():
            with _freed(blocks, catalog, name, catalog.weighs(name)):
                _add_column(blocks.txn, catalog, name, action)
        case exp.Drop() if action.args["kind"] == "CONSTRAINT":
            constraints.drop_constraints(blocks, catalog, name, action)
        case exp.Drop():
            for column in action.args["tables"]:
                with _freed(blocks, catalog, name, catalog.weighs(name)):
                    _drop_column(blocks.txn, catalog, name, column.name, action)
        case exp.RenameColumn():
            old, new = _own(catalog, name, action.this.name, action), action.args["to"].name
            others = [c for c in saved["columns"] if c["name"] != old]
            _refuse_taken(name, new, others, action)
            blocks.txn.rename_column(name, old, new)
            saved["columns"] = [
                {**c, "name": new} if c["name"] == old else c for c in saved["columns"]
            ]
            saved["indices"] = {
                index: ([new if c == old else c for c in columns], unique)
                for index, (columns, unique) in saved.get("indices", {}).items()
            }
            if checks := saved.get("constraints"):
                saved["constraints"] = {
                    rule: constraints.renamed(text, old, new) for rule, text in checks.items()
                }
        case exp.AlterRename():
            new = action.this.name
            refuse_name(new, action)
            if catalog.find(new) not in (None, name) or catalog.view(new) is not None:
                raise SqlError(f"{new} exists already: DROP it first, or choose another", action)
            with _freed(blocks, catalog, name, True, new):
                blocks.txn.rename(name, new)
                catalog.tables[new] = catalog.tables.pop(name)
            return str(new)
        case exp.AlterColumn() if {n for n, given in action.args.items() if given} in DEFAULTS:
            _set_default(catalog, name, action)
        case _:
            raise SqlError(
                f"ALTER TABLE {action.sql(dialect='duckdb')[:40]} is not evaluated: CREATE another "
                "table so, and INSERT the rows",
                action,
            )
    return name


@contextmanager
def _freed(
    blocks: Blocks, catalog: Catalog, name: str, are_freed: bool, new: str = ""
) -> Iterator[None]:
    """Let the constraints of a table go, if `are_freed`, while it is made anew or gets a new name.

    Raises DependantsError if anything else reads it.
    """
    checks = catalog.constraints(name) if are_freed else []
    if checks:
        blocks.uninstall(constraints.constraints_of(name))
        if blocks.reads(name):
            raise DependantsError(name)
    yield
    for table in (table for check in checks for table in check.find_all(exp.Table)):
        if new and table.name.lower() == name.lower():  # a key that refers to its own table
            table.set("this", exp.to_identifier(new))
    if checks:
        constraints.constrain(blocks, catalog, new or name, checks)


def _add_column(txn: Any, catalog: Catalog, name: str, node: exp.ColumnDef) -> None:
    checks: list[exp.Expr] = []
    (column, is_key), saved = _column(node, checks), catalog.tables[name]["columns"]
    _refuse_interval(column, node)
    _refuse_taken(name, column.name, saved, node)
    if checks or is_key or column.identity:
        raise SqlError("keys and numbers are of CREATE TABLE: add others by ADD CONSTRAINT", node)
    if isinstance(_default(column.default or "NULL"), exp.Rand | exp.Uuid):
        raise SqlError("DEFAULT by chance: add the column without it, then UPDATE", node)
    value = default_value(column.default, column.type, node)
    if value is None and not column.nullable and len(txn[name]):
        raise SqlError(f"{column.name} is NOT NULL, and rows are there: give it a DEFAULT", node)
    if catalog.weighs(name):
        columns = [*txn[name].schema.columns, column.stored]
        _made_anew(txn, name, columns, lambda row: (*row, value))
    else:
        txn.add_column(name, column.stored, value)
    saved.append(column.saved())


def _drop_column(txn: Any, catalog: Catalog, name: str, given: str, node: exp.Drop) -> None:
    old, saved = _own(catalog, name, given, node), catalog.tables[name]
    known = [column.name for column in txn[name].schema.columns]
    if len(known) == 1:
        raise SqlError(f"{old} is the last column of {name}: DROP TABLE {name}", node)
    if old in txn[name].schema.key and not catalog.weighs(name):
        raise SqlError(f"{old} is of the key of {name}, which stays whole", node)
    for index, (columns, _) in saved.get("indices", {}).items():
        if old in columns:
            raise SqlError(f"{old} is of the index {index}: DROP INDEX {index} first", node)
    constraints.refuse_constrained(catalog, name, old, node)
    if catalog.weighs(name):
        place = known.index(old)
        left = [column for column in txn[name].schema.columns if column.name != old]
        _made_anew(txn, name, left, lambda row: (*row[:place], *row[place + 1 :]))
    else:
        txn.drop_column(name, old)
    saved["columns"] = [c for c in saved["columns"] if c["name"] != old]


def _set_default(catalog: Catalog, name: str, node: exp.AlterColumn) -> None:
    """ALTER COLUMN ... SET DEFAULT, and DROP DEFAULT."""
    old, given = _own(catalog, name, node.name, node), node.args.get("default")
    text = given.sql(dialect="duckdb") if given else None
    _refuse_default(text, {c.name: c.type for c in catalog.columns(name)}[old], node)
    for column in catalog.tables[name]["columns"]:
        if column["name"] == old:
            if column.get("identity"):
                raise SqlError(f"{old} gets numbers, and has no DEFAULT", node)
            column["default"] = text


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
