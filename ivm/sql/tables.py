"""CREATE TABLE, ALTER TABLE, DROP TABLE and TRUNCATE."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ivm.errors import RuleError
from ivm.names import CATALOG
from ivm.sql.catalog import Catalog
from ivm.sql.errors import SqlError, nearest
from ivm.sql.literals import constant, converted
from ivm.sql.queries.expressions import Expressions, Subqueries
from ivm.sql.queries.scope import Scope, Source
from ivm.sql.rules import Body, Builder, Table
from ivm.sql.session import Host, change_catalog
from ivm.sql.terms import Atom, Call, Lit, Rule, Test, Typed, Var, variables
from ivm.sql.trees import Trees
from ivm.sql.types import INTERVAL, SqlType, sql_type
from pagestore.errors import DependantsError
from pagestore.host import KEYS_MAX, Column, Schema, Type, may_be_narrow

TYPE = re.compile(
    r'(create|drop)\s+type\s+(?:if\s+(?:not\s+)?exists\s+)?("[^"]+"|\w+)(?:\s+as\s+(.+))?',
    re.IGNORECASE | re.DOTALL,
)


def _none(*_: Any) -> Any:
    raise SqlError("a subquery has no place here")


Row = tuple[Any, ...]
# what satisfies the body of the first rule satisfies that of the second; none satisfies it
Demand = tuple[Rule, Rule | None]
NO_SUBQUERIES = Subqueries(_none, _none, _none)


class Definition(NamedTuple):
    """A column of CREATE TABLE."""

    name: str
    type: SqlType
    nullable: bool
    default: str | None  # as SQL

    @property
    def stored(self) -> Column:
        """The column of the store that holds the values."""
        type_ = Type.parse(self.type.store + "?" * self.nullable)
        narrow = may_be_narrow(type_, self.type.name)
        return Column(self.name, type_, self.type.name if narrow else "")

    def saved(self) -> dict[str, Any]:
        """Return what the catalog keeps."""
        return {"name": self.name, "type": str(self.type), "default": self.default}


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
        inner = (
            node.expressions[0] if isinstance(node, exp.Constraint) and node.expressions else node
        )
        if isinstance(inner, exp.PrimaryKey):
            key += [one.name for one in inner.expressions]
        else:
            checks.append(inner)
    known = {c.name.lower(): c.name for c in columns}
    if len(known) < len(columns):
        raise SqlError("two columns of the table have one name", nodes[0])
    lost = [one for one in key if one.lower() not in known]
    if lost:
        raise SqlError(
            f"PRIMARY KEY ({lost[0]}): the table has no such "
            f"column{nearest(lost[0], known.values())}"
        )
    key = [known[one.lower()] for one in key]
    return [c._replace(nullable=c.nullable and c.name not in key) for c in columns], key, checks


def _column(node: exp.ColumnDef, checks: list[exp.Expr]) -> tuple[Definition, bool]:
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
            case exp.CheckColumnConstraint():
                checks.append(one.kind)
            case exp.UniqueColumnConstraint():
                checks.append(
                    exp.UniqueColumnConstraint(
                        this=exp.Schema(expressions=[exp.to_identifier(node.name)])
                    )
                )
            case exp.Reference():
                checks.append(
                    exp.ForeignKey(expressions=[exp.to_identifier(node.name)], reference=one.kind)
                )
            case exp.CommentColumnConstraint():
                pass
            case _:
                raise SqlError(f"{node.name} {one.sql(dialect='duckdb')} is not kept", node)
    return Definition(node.name, sql_type(node.args["kind"]), nullable, default), is_key


def create(
    host: Host, name: str, columns: list[Definition], key: list[str], node: exp.Create
) -> bool:
    """Create a table: a relation whose key is the primary key; return whether it is new."""
    for column in columns:
        if set("`$\n") & {*column.name}:
            raise SqlError(
                f"{column.name!r} cannot be the name of a column: leave out `, $ and line breaks",
                node,
            )
        _refuse_interval(column, node)

    made = []

    def change(txn: Any, catalog: Catalog) -> None:
        own = catalog.find(name)
        if own is not None or catalog.view(name) is not None:
            if node.args.get("exists"):
                return
            if not node.args.get("replace") or own is None or own in catalog.kept:
                raise SqlError(
                    f"{own or name} exists already: DROP it first, or CREATE TABLE IF NOT EXISTS",
                    node,
                )
            txn.drop(own)
        typed = tuple(c.stored for c in columns)
        if key:
            txn.create(name, Schema(typed, (*key,)), key=tuple(key))
        else:
            create_bag(txn, name, typed)
        catalog.tables[name] = {"columns": [c.saved() for c in columns]}
        made.append(name)

    change_catalog(host, f"create table {name}", change)
    return bool(made)


def _refuse_interval(column: Definition, node: exp.Expr) -> None:
    if INTERVAL in (column.type, column.type.element):
        raise SqlError(
            f"{column.name}: tables have no columns of {column.type}: store the two moments, or "
            "microseconds as BIGINT; views have the time between two timestamps",
            node,
        )


def constraints_of(name: str) -> str:
    """Return the name of the block of rules that has a table's constraints."""
    return f"{name}:constraints"


def unique_names(catalog: Catalog, name: str) -> list[list[str]]:
    """Return the columns of each UNIQUE of a table, as they are named now."""
    found = []
    for text in dict.fromkeys(catalog.tables.get(name, {}).get("constraints", {}).values()):
        if isinstance(one := parsed_constraint(text), exp.UniqueColumnConstraint):
            names = {c.name.lower(): c.name for c in catalog.columns(name)}
            found.append([names[column.name.lower()] for column in one.this.expressions])
    return found


def parsed_constraint(constraint: str) -> exp.Expr:
    """Return a constraint of a table, given its text."""
    found: exp.Expr = sqlglot.parse_one(
        f"CREATE TABLE t (x INT, {constraint})", dialect="duckdb"
    ).this.expressions[1]
    return found


def _renamed(constraint: str, old: str, new: str) -> str:
    """Return the text of a constraint with another name for a column of its table."""
    node = parsed_constraint(constraint)
    for one in [*node.find_all(exp.Identifier)]:
        if one.name.lower() == old.lower() and one.find_ancestor(exp.Reference) is None:
            one.replace(exp.to_identifier(new))
    return node.sql(dialect="duckdb")


def constrain(host: Host, name: str, checks: list[exp.Expr], node: exp.Expr) -> None:
    """Keep the constraints of a new table; without them it is dropped again.  Raises SqlError."""
    try:
        with host.store.snapshot() as snap:
            catalog = Catalog(snap, host.rules.of(snap).program.predicates, snap.properties)
            trees = Trees(constraints_of(name))
            texts = {
                trees.add_constraint(left, right): one.sql(dialect="duckdb")
                for one in checks
                for left, right in _rules(catalog, name, one)
            }

        def edit(txn: Any) -> None:
            changed = Catalog(txn.inner, {}, txn.inner.catalog.properties)
            changed.tables[name]["constraints"] = texts
            txn.inner.properties[CATALOG] = changed.saved()

        host.install(trees.program, name=constraints_of(name), edit=edit)
    except (SqlError, RuleError):
        _drop(host, name, exp.Drop(this=node.this, kind="TABLE"))
        raise


def _rules(catalog: Catalog, name: str, node: exp.Expr) -> list[Demand]:
    """Return a constraint as those of rules."""
    builder, table = Builder(name), catalog.table(name)
    assert table is not None
    if isinstance(node, exp.CheckColumnConstraint):
        body, row = _of_rows(builder, table)
        scope = Scope(
            body, [Source(name, [(c.name, v) for c, v in zip(table.columns, row, strict=True)])]
        )
        if node.find(exp.Select, exp.AggFunc):
            raise SqlError(
                "CHECK is about one row: keep a view of what it forbids, and look whether it is "
                "empty",
                node,
            )
        body.literals += Expressions(builder, scope, NO_SUBQUERIES).condition(node.this, False)
        return [_never(body)]
    if isinstance(node, exp.ForeignKey):
        return [_reference(catalog, builder, table, node)]
    if not isinstance(node, exp.UniqueColumnConstraint):
        raise SqlError(f"{node.sql(dialect='duckdb')} is not kept", node)
    names = [one.name for one in node.this.expressions]
    return _unique(builder, table, [_place(table, one, node) for one in names])


def _unique(builder: Builder, table: Table, places: list[int]) -> list[Demand]:
    """Return the constraints that no two rows have the same values, none of them null, at some
    places.
    """
    body, first = _of_rows(builder, table)
    second = [
        one if place in places else builder.variable(one.type, one.nullable)
        for place, one in enumerate(first)
    ]
    builder.scan(table, body, second)
    pairs = [(first[p].term, second[p].term) for p in table.key if p not in places]
    body.literals.append(
        Test(Call("or", tuple(Call("not", (Call("same", pair),)) for pair in pairs)))
    )
    body.required |= {v for place in places for v in variables(first[place].term)}
    found = [_never(body)]
    if table.weighs:
        body, row = _of_rows(builder, table)
        body.required |= {v for place in places for v in variables(row[place].term)}
        body.literals.append(Test(Call(">", (body.weights[0], Lit(1, "int64")))))
        found.append(_never(body))
    return found


def _reference(catalog: Catalog, builder: Builder, table: Table, node: exp.ForeignKey) -> Demand:
    target = node.args["reference"].this
    there = target.this if isinstance(target, exp.Schema) else target
    other = catalog.table(there.name)
    if other is None:
        raise SqlError(f"no table {there.name} exists{nearest(there.name, catalog.names())}", node)
    names = (
        [one.name for one in target.expressions]
        if isinstance(target, exp.Schema)
        else [other.columns[place].name for place in other.key]
    )
    places = [_place(table, one.name, node) for one in node.expressions]
    if len(names) != len(places):
        raise SqlError(f"REFERENCES {there.name} has {len(names)} columns for {len(places)}", node)
    (body, row), found = _of_rows(builder, table), Body()
    given: list[Typed | None] = [None] * len(other.columns)
    for place, name in zip(places, names, strict=True):
        given[_place(other, name, node)] = row[place]
        body.required |= {*variables(row[place].term)}
    builder.scan(other, found, given)
    used = {v for one in given if one is not None for v in variables(one.term)}
    return _using(body, used), _using(found, used)


def _of_rows(builder: Builder, table: Table) -> tuple[Body, list[Typed]]:
    """Return a body of a table's rows, with variables of the columns' names, which messages
    show.
    """
    body = Body()
    return body, builder.scan(
        table, body, [Typed(Var(c.name), c.type, c.nullable) for c in table.columns]
    )


def _never(body: Body) -> Demand:
    return _using(body, set()), None


def _using(body: Body, used: set[str]) -> Rule:
    """Return a rule of a body, whose head has the variables that are used elsewhere."""
    head = Atom("", tuple(Var(name) for name in sorted(used)))
    return Rule((head,), tuple(body.literals), (), frozenset(body.required))


def _place(table: Table, name: str, node: exp.Expr) -> int:
    for place, column in enumerate(table.columns):
        if column.name.lower() == name.lower():
            return place
    raise SqlError(
        f"{table.name} has no column {name}{nearest(name, [c.name for c in table.columns])}", node
    )


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
    found = TYPE.fullmatch(f"{node.this} {node.expression}")
    return found is not None and (found[3] is not None) == (found[1].lower() == "create")


def define_type(host: Host, node: exp.Command) -> None:
    """CREATE TYPE name AS ENUM (...), or as any other type, and DROP TYPE.  Raises SqlError."""
    found = TYPE.fullmatch(f"{node.this} {node.expression}")
    assert found is not None
    name, given, lenient = (
        found[2].strip('"'),
        found[3],
        re.match(r"\w+\s+type\s+if\b", found[0], re.IGNORECASE),
    )
    try:
        type_ = (
            None if given is None else str(sql_type(exp.DataType.build(given, dialect="duckdb")))
        )
    except (SqlglotError, ValueError) as error:
        raise SqlError(
            f"CREATE TYPE {name}: write AS ENUM ('a', 'b'), or AS a type", node
        ) from error

    def change(_txn: Any, catalog: Catalog) -> None:
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

    change_catalog(host, f"{found[1].lower()} type {name}", change)


def drop(host: Host, node: exp.Drop) -> None:
    """DROP TABLE, DROP VIEW."""
    for table in node.args["tables"]:
        _drop(host, table.name, node)


def _drop(host: Host, name: str, node: exp.Drop) -> None:
    with host.store.snapshot() as snap:
        catalog = Catalog(snap, host.rules.of(snap).program.predicates, snap.properties)
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
    checks = catalog.tables.get(own or name, {}).get("constraints")
    if block is not None or checks:
        host.uninstall(block or constraints_of(own or name))

    def change(txn: Any, changed: Catalog) -> None:
        if own is not None and block is None:
            txn.drop(own)
        for known in (changed.tables, changed.views, changed.kept):
            for one in [n for n in known if n.lower() == name.lower()]:
                del known[one]

    try:
        change_catalog(host, f"drop {name}", change)
    except DependantsError:
        if checks:
            host.install("\n".join(checks), name=constraints_of(own or name))
        raise


def alter(host: Host, node: exp.Alter) -> None:
    """ALTER TABLE: ADD, DROP and RENAME COLUMN, RENAME TO."""

    def change(txn: Any, catalog: Catalog) -> None:
        own = catalog.find(node.this.name)
        if own is None or own in catalog.kept:
            raise SqlError(
                f"no table {node.this.name} exists{nearest(node.this.name, catalog.names())}", node
            )
        for action in node.args["actions"]:
            _alter(txn, catalog, own, action)

    try:
        change_catalog(host, f"alter table {node.this.name}", change)
    except DependantsError as error:
        raise SqlError(
            f"{_readers(host, node.this.name)}: DROP them, ALTER the table and CREATE them again",
            node,
        ) from error


def readers(host: Host, node: exp.Expr) -> str:
    """Return which kept views read what a statement drops or replaces, as an error says it;
    empty if none does.
    """
    dropped = node.args.get("tables") or [node.find(exp.Table)]
    found = [
        said
        for one in dropped
        if one is not None and not (said := _readers(host, one.name)).endswith(" under ")
    ]
    return f"{'; '.join(found)}: DROP them first, and CREATE them again afterwards" if found else ""


def _readers(host: Host, name: str) -> str:
    """Return which kept views read a table, as an error says it."""
    with host.store.snapshot() as snap:
        rules = host.rules.of(snap)
        table = Catalog(snap, rules.program.predicates, snap.properties).find(name)
        blocks = [
            one.name
            for one in rules.blocks
            if one.name != table and any(table in r.reads for r in one.rules)
        ]
    return f"{table} would change under {', '.join(one.replace(':constraints', ' (constraints)') for one in blocks)}"


def _alter(txn: Any, catalog: Catalog, name: str, action: exp.Expr) -> None:
    saved = catalog.tables.setdefault(
        name,
        {
            "columns": [
                {"name": c.name, "type": str(c.type), "default": None}
                for c in catalog.columns(name)
            ]
        },
    )
    match action:
        case exp.ColumnDef():
            checks: list[exp.Expr] = []
            column, _ = _column(action, checks)
            _refuse_interval(column, action)
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
                own = _own(catalog, name, column.name, action)
                if catalog.weighs(name):
                    place = [c.name for c in txn[name].schema.columns].index(own)
                    left = [c for c in txn[name].schema.columns if c.name != own]
                    _made_anew(txn, name, left, lambda row, p=place: (*row[:p], *row[p + 1 :]))  # type: ignore[misc]
                else:
                    txn.drop_column(name, own)
                saved["columns"] = [c for c in saved["columns"] if c["name"] != own]
        case exp.RenameColumn():
            own, new = _own(catalog, name, action.this.name, action), action.args["to"].name
            if new.lower() in (c["name"].lower() for c in saved["columns"] if c["name"] != own):
                raise SqlError(f"{name} has a column {new} already", action)
            txn.rename_column(name, own, new)
            saved["columns"] = [
                {**c, "name": new} if c["name"] == own else c for c in saved["columns"]
            ]
            if checks := saved.get("constraints"):
                saved["constraints"] = {
                    rule: _renamed(text, own, new) for rule, text in checks.items()
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


def default_value(text: str | None, type_: SqlType, node: exp.Expr | None = None) -> Any:
    """Return the value of a DEFAULT.  Raises SqlError if it is not a constant."""
    if text is None:
        return None
    parsed = sqlglot.parse_one(text, dialect="duckdb")
    while isinstance(parsed, exp.Paren | exp.Cast):
        parsed = parsed.this
    value = constant(parsed)
    if value is None:
        raise SqlError(f"DEFAULT {text} is not a constant", node)
    found = converted(value, type_, node).term
    assert isinstance(found, Lit)
    return found.value
