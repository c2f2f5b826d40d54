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
    tables.refuse_name(name, node)
    if kind == "TABLE":
        _table(host, name, node, read)
        return
    with Reader(host).catalog() as catalog:
        files.refuse_in_view(node, catalog)
    if kept:
        _kept(host, name, node, strict)
    else:
        _expanded(host, name, node)


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
    reader = Reader(host)
    with reader.catalog() as catalog:
        if not tables.may_create(catalog, name, node):
            return
        if given is None:
            rows, _ = translated(catalog, name, node.expression)
            types = [(n, INTEGER if v.type == NULL else v.type) for n, v in rows.columns]
            receiver = Receiver(reader, catalog, name, [rules.Column(n, t, True) for n, t in types])
            made: Any = receiver.checked(receiver.rows(node.expression, receiver.columns), node)
        else:
            types = [(c.name, c.type) for c in files.columns_in(given.schema, name, node)]
            made = [*given.columns]
    named = zip(_names(node, name, [n for n, _ in types]), types, strict=True)
    columns = [tables.Definition(n, type_, True, None) for n, (_, type_) in named]

    def change(blocks: Blocks, catalog: Catalog) -> None:
        if tables.create(blocks, catalog, name, columns, [], node):
            blocks.txn[name].insert(made)

    change_catalog(host, f"create table {name}", change)


def _names(node: exp.Create, name: str, known: list[str]) -> list[str]:
    """Return the names of a query's columns, of which a CREATE may give the first others."""
    given = node.this.expressions if isinstance(node.this, exp.Schema) else []
    if any(isinstance(item, exp.ColumnDef) for item in given):
        raise SqlError("types follow from the query: name the columns only", node)
    if len(given) > len(known):
        raise SqlError(
            f"{counted(len(given), 'name')} for {counted(len(known), 'column')} of {name}", node
        )
    names = [*(item.name for item in given), *known[len(given) :]]
    if given and len({n.lower() for n in names}) < len(names):
        raise SqlError(f"two columns of {name} have one name", node)
    return names


def _expanded(host: Host, name: str, node: exp.Create) -> None:
    """Keep the text of a view, which is expanded where it is named."""

    def change(blocks: Blocks, catalog: Catalog) -> None:
        if not tables.may_create(catalog, name, node):
            return
        if (kept := catalog.find(name)) is not None:
            blocks.uninstall(catalog.kept.pop(kept)["block"])
        for view in [n for n in catalog.views if n.lower() == name.lower()]:
            del catalog.views[view]
        queries = Queries(Builder(name), catalog.schema())
        rows = queries.query(node.expression)  # its errors are shown now
        _names(node, name, [n for n, _ in rows.columns])
        columns = node.this.expressions if isinstance(node.this, exp.Schema) else []
        catalog.views[name] = {**to_save(node), "columns": [item.name for item in columns]}

    change_catalog(host, f"create view {name}", change)


def _kept(host: Host, name: str, node: exp.Create, strict: bool) -> None:
    """Install the rules of a kept view, and fill it."""
    with host.store.snapshot() as snap:
        catalog, before = Catalog(snap), catalog_of(snap)
        if not tables.may_create(catalog, name, node):
            return
        own = catalog.find(name)
        rows, queries = translated(catalog, name, node.expression, has_clock=True)
        names = _names(node, name, [n for n, _ in rows.columns])
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
        catalog.views = {n: v for n, v in catalog.views.items() if n.lower() != name.lower()}
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
    target, keys, defaults = node.this, dict[str, str](), dict[str, str | None]()
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
            (c.name, c.type, c.nullable or kept in catalog.kept) for c in catalog.columns(kept)
        ]
        keys = {name: "UNI" for names in catalog.unique_names(kept) for name in names}
        if kept not in catalog.kept and not catalog.weighs(kept):
            keys |= dict.fromkeys(catalog.source[kept].info.schema.key, "PRI")
        saved = catalog.tables.get(kept, {}).get("columns", ())
        defaults = {column["name"]: column["default"] for column in saved}
    else:
        query = exp.select("*").from_(target.copy()) if isinstance(target, exp.Table) else target
        made = queries(catalog)
        rows = made.query(query)
        shown = [(n, INTEGER if v.type == NULL else v.type, True) for n, v in rows.columns]
    columns = {
        "column_name": [name for name, _, _ in shown],
        "column_type": [str(type_) for _, type_, _ in shown],
        "null": ["YES" if null else "NO" for _, _, null in shown],
        "key": [keys.get(name) for name, _, _ in shown],
        "default": [defaults.get(name) for name, _, _ in shown],
        "extra": [None] * len(shown),
    }
    text = Type("string", nullable=True)
    return Answer(pa.table({n: typed(Column(n, text), values) for n, values in columns.items()}))


def explained(queries: Queries, query: exp.Expr) -> str:
    """Return the rules of a query, and what keeping them costs."""
    rows = queries.query(query)
    bind(queries.builder, rows.body)
    finished = finish(queries.builder, rows, "answer", [n for n, _ in rows.columns])
    notes = "".join(f"// {note}\n" for note in dict.fromkeys(finished.notes))
    return f"{notes}{Trees().add(finished.rules).text}"
