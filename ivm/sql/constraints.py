"""Constraints of tables, which are rules that have no rows, and the indices that clients create."""

from __future__ import annotations

from collections.abc import Container
from functools import partial
from typing import Any, TypeAlias

from sqlglot import exp

from ivm.errors import ConstraintError
from ivm.installation import Blocks
from ivm.names import CONSTRAINTS
from ivm.sql.catalog import NAMED, Catalog, constraint_of, unnamed
from ivm.sql.errors import SqlError, nearest
from ivm.sql.queries.expressions import Expressions, Subqueries
from ivm.sql.queries.scope import Scope, Source
from ivm.sql.rules import Body, Builder, Table
from ivm.sql.session import Host, change_catalog
from ivm.sql.terms import Atom, Call, Lit, Rule, Test, Typed, Var, variables
from ivm.sql.trees import Trees
from ivm.sql.types import SqlType

# what satisfies the body of the first rule satisfies that of the second; none satisfies it
Demand = tuple[Rule, Rule | None]
Checks: TypeAlias = list[exp.Expr]
Indices: TypeAlias = dict[str, tuple[list[str], bool]]  # columns, and whether UNIQUE, by name


def _none(*_: Any) -> Any:
    raise SqlError("a subquery has no place here")


NO_SUBQUERIES = Subqueries(_none, _none, _none)


def constraints_of(name: str) -> str:
    """Return the name of the block of rules that has a table's constraints."""
    return name + CONSTRAINTS


def renamed(constraint: str, old: str, new: str) -> str:
    """Return the text of a constraint with another name for a column of its table."""
    node = constraint_of(constraint)
    for part in [*node.find_all(exp.Identifier)]:
        if part.name.lower() == old.lower() and part.find_ancestor(exp.Reference) is None:
            part.replace(exp.to_identifier(new))
    return _text(node)


def constrain(
    blocks: Blocks, catalog: Catalog, name: str, checks: Checks, indices: Indices | None = None
) -> None:
    """Let a table have these constraints, and no others, and the indices by name.

    Raises SqlError, or what its rows violate.
    """
    trees, texts = as_rules(catalog, name, checks)
    saved = catalog.tables.setdefault(name, {"columns": columns_saved(catalog, name)})
    before = saved.get("constraints")
    saved["constraints"] = texts
    if indices is not None:
        saved["indices"] = indices
    if not texts:
        if before:
            blocks.uninstall(constraints_of(name))
        return
    try:
        blocks.install(trees.program, constraints_of(name), replace=True)
    except ConstraintError as error:
        if error.constraint not in texts:
            raise
        columns = [c.name for c in catalog.columns(name)]
        raise SqlError(violated(name, texts[error.constraint], error, columns)) from error


def as_rules(catalog: Catalog, name: str, checks: Checks) -> tuple[Trees, dict[str, str]]:
    """Return constraints of a table as rules, and the text of each in SQL by that of its rule."""
    trees = Trees(constraints_of(name))
    texts = {
        trees.add_constraint(left, right): _text(check)
        for check in checks
        for left, right in _rules(catalog, name, check)
    }
    return trees, texts


def add_constraints(host: Host, node: exp.Alter, nodes: list[exp.Expr]) -> None:
    """ALTER TABLE ... ADD CONSTRAINT.  Raises SqlError, or what the table's rows violate."""

    def change(blocks: Blocks, catalog: Catalog) -> None:
        table = catalog.own_table(
            node.this.name, node, "constraints are of the tables that it reads"
        )
        checks, new = catalog.constraints(table), [*map(unnamed, nodes)]
        for name in {named(check) for check in checks} & {named(check) for check in new} - {""}:
            raise SqlError(f"{table} has a constraint {name} already: DROP CONSTRAINT it", node)
        constrain(blocks, catalog, table, [*checks, *new])

    change_catalog(host, f"add constraints to {node.this.name}", change)


def drop_constraints(blocks: Blocks, catalog: Catalog, name: str, node: exp.Drop) -> None:
    """ALTER TABLE ... DROP CONSTRAINT.  Raises SqlError."""
    for given in node.args["tables"]:
        checks = catalog.constraints(name)
        left = [check for check in checks if named(check) != given.name.lower()]
        if len(left) < len(checks):
            constrain(blocks, catalog, name, left)
        elif not node.args.get("exists"):
            known = [name for name in map(named, checks) if name]
            raise SqlError(
                f"{name} has no constraint {given.name}{nearest(given.name, known)}", node
            )


def refuse_constrained(catalog: Catalog, name: str, column: str, node: exp.Expr) -> None:
    """Raise SqlError if a constraint of a table names a column."""
    for check in catalog.constraints(name):
        if renamed(text := _text(check), column, "") != text:
            remedy = (
                f"DROP CONSTRAINT {given} first" if (given := named(check)) else "it has to stay"
            )
            raise SqlError(f"{column} is of {text} of {name}: {remedy}", node)


def named(constraint: exp.Expr) -> str:
    """Return the name of a constraint in small letters; empty if it has none."""
    return str(constraint.meta.get(NAMED) or "").lower()


def _text(constraint: exp.Expr) -> str:
    """Return a constraint as the catalog keeps it, after its name if it has one."""
    name, shown = constraint.meta.get(NAMED), constraint.sql(dialect="duckdb")
    return f"CONSTRAINT {exp.to_identifier(name).sql(dialect='duckdb')} {shown}" if name else shown


def violated(name: str, shown: str, error: ConstraintError, columns: Container[str]) -> str:
    """Return the error of a constraint of a table, of which `columns` are all, in SQL's words."""
    values = zip(error.columns, error.rows[0], strict=True)
    row = ", ".join(f"{c} = {v!r}" for c, v in values if c in columns)
    return f"{name}: {shown} does not hold for {row}: nothing was changed"


def columns_saved(catalog: Catalog, name: str) -> list[dict[str, Any]]:
    """Return what the catalog keeps of the columns of a table that SQL did not create."""
    return [{"name": c.name, "type": str(c.type), "default": None} for c in catalog.columns(name)]


def create_index(host: Host, node: exp.Create) -> None:
    """CREATE INDEX, which is noted by name, since rules make the indices that they need, and CREATE
    UNIQUE INDEX, which is a constraint besides.  Raises SqlError.
    """
    index, unique = node.this.name, bool(node.args.get("unique"))
    params = node.this.args.get("params")
    parts = (params.args.get("columns") if params else None) or []
    columns = [part.this if isinstance(part, exp.Ordered) else part for part in parts]
    if not parts:
        raise SqlError("CREATE INDEX names columns, as in ON t (a)", node)
    if unique and (
        params.args.get("where") or not all(isinstance(column, exp.Column) for column in columns)
    ):
        raise SqlError(
            "CREATE UNIQUE INDEX takes columns, and all rows: keep a view of what may not be", node
        )
    name = (
        index or f"{node.this.args['table'].name}_{'_'.join(column.name for column in columns)}_idx"
    )

    def change(blocks: Blocks, catalog: Catalog) -> None:
        table = catalog.own_table(
            node.this.args["table"].name,
            node,
            "indices are of tables, and views have those they need",
        )
        names = {c.name.lower(): c.name for c in catalog.columns(table)}
        for column in (column for part in parts for column in part.find_all(exp.Column)):
            if column.name.lower() not in names:
                raise SqlError(f"{table} has no column {column.name}", column)
        if _owner(catalog, name) is not None:
            if node.args.get("exists"):
                return
            raise SqlError(f"index {name} exists already: DROP INDEX {name} first", node)
        checks = catalog.constraints(table)
        if unique:
            identifiers = [exp.to_identifier(names[column.name.lower()]) for column in columns]
            checks.append(exp.UniqueColumnConstraint(this=exp.Schema(expressions=identifiers)))
        known = catalog.tables.get(table, {}).get("indices", {})
        shown = [names.get(n.lower(), n) for n in (c.sql(dialect="duckdb") for c in columns)]
        constrain(blocks, catalog, table, checks, {**known, name: (shown, unique)})

    change_catalog(host, f"create index {name}", change)


def drop_index(host: Host, name: str, node: exp.Drop) -> None:
    """DROP INDEX.  Raises SqlError."""
    change_catalog(host, f"drop index {name}", partial(_drop_index, name, node))


def _drop_index(name: str, node: exp.Drop, blocks: Blocks, catalog: Catalog) -> None:
    if (owner := _owner(catalog, name)) is None:
        if node.args.get("exists"):
            return
        known = [index_ for table in catalog.tables.values() for index_ in table.get("indices", ())]
        raise SqlError(f"no index {name} exists{nearest(name, known)}", node)
    indices = {**catalog.tables[owner]["indices"]}
    columns, unique = indices.pop(name)
    left = [
        check
        for check in catalog.constraints(owner)
        if not (
            unique
            and isinstance(check, exp.UniqueColumnConstraint)
            and [column.name for column in check.this.expressions] == columns
        )
    ]
    constrain(blocks, catalog, owner, left, indices)


def _owner(catalog: Catalog, index: str) -> str | None:
    """Return the table that has an index; None if there is none of that name."""
    return next(
        (name for name, table in catalog.tables.items() if index in table.get("indices", ())), None
    )


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
    names = [item.name for item in node.this.expressions]
    return _unique(builder, table, [_place(table, name, node) for name in names])


def _unique(builder: Builder, table: Table, places: list[int]) -> list[Demand]:
    """Return the constraints that no two rows have the same values, but null, at some places."""
    body, first = _of_rows(builder, table)
    second = [
        value if place in places else builder.variable(value.type, value.nullable)
        for place, value in enumerate(first)
    ]
    builder.scan(table, body, second)
    pairs = [(first[p].term, second[p].term) for p in table.key if p not in places]
    body.literals.append(
        Test(Call("or", tuple(Call("not", (Call("same", pair),)) for pair in pairs)))
    )
    body.required |= {*variables(*(first[place].term for place in places))}
    bodies = [_never(body)] if pairs else []  # else two rows differ, as the key does
    if table.weighs:
        body, row = _of_rows(builder, table)
        body.required |= {*variables(*(row[place].term for place in places))}
        body.literals.append(Test(Call(">", (body.weights[0], Lit(1, "int64")))))
        bodies.append(_never(body))
    return bodies


def _reference(catalog: Catalog, builder: Builder, table: Table, node: exp.ForeignKey) -> Demand:
    target = node.args["reference"].this
    there = target.this if isinstance(target, exp.Schema) else target
    other = catalog.table(there.name)
    if catalog.view(there.name) is not None:
        raise SqlError(f"{there.name} is a view: REFERENCES takes a table", node)
    if other is None:
        known = [name for name in catalog.names() if name != table.name]
        raise SqlError(f"no table {there.name} exists{nearest(there.name, known)}", node)
    names = (
        [column.name for column in target.expressions]
        if isinstance(target, exp.Schema)
        else [other.columns[place].name for place in other.key]
    )
    places = [_place(table, item.name, node) for item in node.expressions]
    if len(names) != len(places):
        raise SqlError(f"REFERENCES {there.name} has {len(names)} columns for {len(places)}", node)
    (body, row), other_body = _of_rows(builder, table), Body()
    given: list[Typed | None] = [None] * len(other.columns)
    for place, name in zip(places, names, strict=True):
        found_place = _place(other, name, node)
        column, their = table.columns[place], other.columns[found_place]
        if _kind(column.type) != _kind(their.type):
            raise SqlError(
                f"{column.name} is {column.type}, and what it REFERENCES, "
                f"{other.name}.{their.name}, is {their.type}: declare both with one type",
                node,
            )
        given[found_place] = row[place]
        body.required |= {*variables(row[place].term)}
    builder.scan(other, other_body, given)
    used = {*variables(*(value.term for value in given if value is not None))}
    return _using(body, used), _using(other_body, used)


def _kind(type_: SqlType) -> object:
    """Return what values that may be equal have in common."""
    return (type_.scale, type_.wide) if type_.is_decimal else type_.store


def _of_rows(builder: Builder, table: Table) -> tuple[Body, list[Typed]]:
    """Return a body of a table's rows, with variables of the columns' names, for messages."""
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
