"""CREATE VIEW, CREATE MATERIALIZED VIEW and CREATE TABLE; DESCRIBE, SHOW and EXPLAIN."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ivm.answer import Answer
from ivm.installation import Blocks
from ivm.sql import files, rules, tables
from ivm.sql.answers import Finished, bind, finish
from ivm.sql.catalog import Catalog
from ivm.sql.constraints import constrain, create_index
from ivm.sql.dialects.read import to_save
from ivm.sql.edits.target import Receiver
from ivm.sql.errors import SqlError, SqlWarning, counted, nearest
from ivm.sql.functions.clock import wind, with_moments
from ivm.sql.queries.clauses import Rows
from ivm.sql.queries.query import Queries
from ivm.sql.rules import Builder
from ivm.sql.session import Host, Reader, change_catalog, refuse_changed
from ivm.sql.system.settings import SHOWN
from ivm.sql.system.settings import shown as settings_shown
from ivm.sql.terms import Lit
from ivm.sql.trees import Trees
from ivm.sql.types import BLOB, INTEGER, NULL
from pagestore.host import Column, Type, catalog_of, of_texts, typed

if TYPE_CHECKING:
    import pyarrow as pa

Read = Callable[[exp.Expr, exp.Expr], "pa.Table | None"]
KINDS = "CREATE TABLE, VIEW and MATERIALIZED VIEW are evaluated"


def create(host: Host, node: exp.Create, strict: bool, read: Read) -> None:
    """CREATE TABLE, VIEW or MATERIALIZED VIEW; if `strict`, refuse a view whose edits cost more
    than their change.  `read` returns the rows of a query that reads files, and None for others.
    """
    kind, target = (node.args.get("kind") or "").upper(), node.this
    if kind == "INDEX":
        create_index(host, node)
        return
    properties = node.args["properties"].expressions if node.args.get("properties") else []
    kept = any(isinstance(property_, exp.MaterializedProperty) for property_ in properties)
    if any(isinstance(given, exp.TemporaryProperty) for given in properties) or kind not in (
        "TABLE",
        "VIEW",
    ):
        raise SqlError(
            f"CREATE {'TEMPORARY ' if kind in ('TABLE', 'VIEW') else ''}{kind}: {KINDS}", node
        )
    name = target.this.name if isinstance(target, exp.Schema) else target.name
    refuse_name(name, node)
    if kind == "TABLE":
        _table(host, name, node, read)
        return
    with Reader(host).catalog() as catalog:
        files.refuse_in_view(node, catalog)
    columns = [item.name for item in target.expressions] if isinstance(target, exp.Schema) else []
    if kept:
        _kept(host, name, columns, node, strict)
    else:
        _expanded(host, name, columns, node)


def refuse_name(name: str, node: exp.Expr) -> None:
    """Raise SqlError for a name that rules cannot write."""
    if not name or set("`$:\n") & {*name}:
        raise SqlError(
            f"{name!r} cannot be the name of a table or view: leave out `, $, : and line breaks",
            node,
        )


def _table(host: Host, name: str, node: exp.Create, read: Read) -> None:
    if isinstance(node.this, exp.Schema) and node.expression is None:
        columns, key, checks = tables.definitions(node.this.expressions)

        def change(blocks: Blocks, catalog: Catalog) -> None:
            if tables.create(blocks, catalog, name, columns, key, node) and checks:
                constrain(blocks, catalog, name, checks)

        change_catalog(host, f"create table {name}", change)
        return
    _table_of(host, name, node, read(node.expression, node))


def _table_of(host: Host, name: str, node: exp.Create, given: pa.Table | None) -> None:
    """CREATE TABLE AS: a table without a key that has the rows of a query; `given` are a file's.

    They are those of the version before; a query that fails leaves all as it was.
    """
    reader, made = Reader(host), given
    with reader.catalog() as catalog:
        if not node.args.get("replace") and not _may_create(catalog, name, node):
            return
        if given is None:
            rows, _ = translated(catalog, name, node.expression)
            types = [(n, INTEGER if v.type == NULL else v.type) for n, v in rows.columns]
            receiver = Receiver(reader, catalog, name, [rules.Column(n, t, True) for n, t in types])
            made = receiver.checked(receiver.rows(node.expression, receiver.columns), node)
        else:
            types = [(c.name, c.type) for c in files.columns_in(given.schema, name, node)]
    columns = [tables.Definition(n, type_, True, None) for n, type_ in types]

    def change(blocks: Blocks, catalog: Catalog) -> None:
        if tables.create(blocks, catalog, name, columns, [], node):
            blocks.txn[name].insert(made)

    change_catalog(host, f"create table {name}", change)


def _expanded(host: Host, name: str, columns: list[str], node: exp.Create) -> None:
    """Keep the text of a view, which is expanded where it is named."""

    def change(_blocks: Blocks, catalog: Catalog) -> None:
        if not _may_create(catalog, name, node):
            return
        for view in [n for n in catalog.views if n.lower() == name.lower()]:
            del catalog.views[view]
        queries = Queries(Builder(name), catalog.schema())
        queries.query(node.expression)  # its errors are shown now
        catalog.views[name] = {**to_save(node), "columns": columns}

    change_catalog(host, f"create view {name}", change)


def _may_create(catalog: Catalog, name: str, node: exp.Create) -> bool:
    """Return whether a view is to be created.  Raises SqlError if its name is taken."""
    known = catalog.find(name)
    expanded = any(view.lower() == name.lower() for view in catalog.views)
    if known is None and not expanded:
        return True
    if node.args.get("exists"):
        return False
    is_view = expanded or known in catalog.kept
    if is_view and node.args.get("replace"):
        return True
    remedy = "CREATE OR REPLACE it, or DROP it first" if is_view else "choose another name"
    raise SqlError(f"{known or name} exists already: {remedy}", node)


def _kept(host: Host, name: str, columns: list[str], node: exp.Create, strict: bool) -> None:
    """Install the rules of a kept view, and fill it."""
    with host.store.snapshot() as snap:
        catalog, before = Catalog(snap), catalog_of(snap)
        if not _may_create(catalog, name, node):
            return
        own = catalog.find(name)
        rows, queries = translated(catalog, name, node.expression, has_clock=True)
        names = [n for n, _ in rows.columns]
        if columns:
            if len(columns) > len(names):
                raise SqlError(
                    f"{counted(len(columns), 'name')} for {counted(len(names), 'column')} of {name}",
                    node,
                )
            names[: len(columns)] = columns
    for column, value in rows.columns:
        if value.type == BLOB and isinstance(queries.builder.resolve(value.term), Lit):
            raise SqlError(f"{column}: bytes that are written out are no column of a view", node)
    finished = finish(queries.builder, rows, name, names)
    if queries.builder.reads_clock:
        finished = finished._replace(rules=with_moments(finished.rules, queries.builder))
        with host.store.transaction("tick") as first:
            wind(first)
    if strict and finished.costs:
        raise SqlError(
            f"{name}: {finished.costs[0]}; incremental='strict' keeps no such view, and 'auto' does",
            node,
        )
    shown = [
        [n, str(INTEGER if v.type == NULL else v.type), v.nullable] for n, v in finished.columns
    ]
    saved: dict[str, Any] = {
        "sql": node.sql(dialect="duckdb"), "block": name, "columns": shown,
        "weighs": finished.weighs, "notes": finished.notes, "wide": finished.wide,
        "keys": finished.keys, "leading": finished.leading, **to_save(node),
    }  # fmt: skip
    trees = kept_trees(name, saved["sql"], finished)

    def change(blocks: Blocks, catalog: Catalog) -> None:
        refuse_changed(trees.program, before, blocks.txn, node)
        if own is not None and own != name:
            catalog.kept.pop(own, None)
        catalog.kept[name] = saved
        blocks.install(trees.program, name, replace=own is not None)

    change_catalog(host, f"create materialized view {name}", change)
    for note in dict.fromkeys(finished.notes):
        warnings.warn(SqlWarning(f"{name}: {note}"), stacklevel=2)


def kept_trees(name: str, sql: str, finished: Finished) -> Trees:
    """Return the block of a kept view: the statement as a comment, then its rules."""
    trees = Trees(name, [f"// {json.dumps(sql, ensure_ascii=False)}"]).add(finished.rules)
    if finished.weighs and not finished.wide:
        trees.add_bag(name)
    return trees


def translated(
    catalog: Catalog, name: str, query: exp.Expr, has_clock: bool = False
) -> tuple[Rows, Queries]:
    """Return the rows of a view's query, which may read the clock of kept views."""
    builder = Builder(name)
    builder.may_read_clock = has_clock
    queries = Queries(builder, catalog.schema())
    rows = queries.query(query)
    bind(builder, rows.body)
    return rows, queries


# -- what exists


def described(catalog: Catalog, node: exp.Expr, queries: Callable[[Catalog], Queries]) -> Answer:
    """DESCRIBE and SHOW TABLES."""
    import pyarrow as pa

    if isinstance(node, exp.Show):
        if node.name.upper() not in SHOWN:
            settings = settings_shown(node)
            if len(settings) == 1:
                return Answer(pa.table({name: of_texts([value]) for name, value in settings}))
            names, values = ([*column] for column in zip(*settings, strict=True))
            return Answer(pa.table({"name": of_texts(names), "setting": of_texts(values)}))
        return Answer(pa.table({"name": of_texts(sorted(catalog.names()))}))
    target = node.this
    if isinstance(target, exp.Table) and (
        catalog.find(target.name) or catalog.view(target.name) is None
    ):
        kept = catalog.find(target.name)
        if kept is None:
            raise SqlError(
                f"no table or view {target.name} exists{nearest(target.name, catalog.names())}",
                node,
            )
        shown = [
            (c.name, str(c.type), c.nullable or kept in catalog.kept) for c in catalog.columns(kept)
        ]
        plain = kept not in catalog.kept and not catalog.weighs(kept)
        key = {*catalog.source[kept].info.schema.key} if plain else set()
    else:
        query = exp.select("*").from_(target.copy()) if isinstance(target, exp.Table) else target
        made = queries(catalog)
        rows = made.query(query)
        shown = [(n, str(INTEGER if v.type == NULL else v.type), True) for n, v in rows.columns]
        key = set()
    return Answer(
        pa.table(
            {
                "column_name": of_texts([name for name, _, _ in shown]),
                "column_type": of_texts([type_ for _, type_, _ in shown]),
                "null": of_texts(["YES" if null else "NO" for _, _, null in shown]),
                "key": typed(
                    Column("key", Type("string", nullable=True)),
                    ["PRI" if name in key else None for name, _, _ in shown],
                ),
            }
        )
    )


def explained(queries: Queries, query: exp.Expr) -> str:
    """Return the rules of a query, and what keeping them costs."""
    rows = queries.query(query)
    bind(queries.builder, rows.body)
    finished = finish(queries.builder, rows, "answer", [n for n, _ in rows.columns])
    notes = "".join(f"// {note}\n" for note in dict.fromkeys(finished.notes))
    return f"{notes}{Trees().add(finished.rules).text}"
