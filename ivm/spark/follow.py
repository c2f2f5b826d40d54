"""Views that follow tables which are kept elsewhere: one refresh is one commit of a workspace.

    first refresh       the relations are filled, the rules evaluated
    later ones          the changes of each table become a transaction, and the views follow it

A table comes as change rows (`_change_type`), or as a whole, which is compared with what the workspace has of it. In
the commit stands, as the property `views.progress`, how far each feed was read: what comes twice is taken once.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

import ivm
import pagestore
from ivm.errors import OptionError, RecomputeError, UnknownViewError
from ivm.lang.ir import Predicate
from ivm.spark.changes import (
    CHANGE,
    ORDER,
    as_changes,
    difference,
    newest_changes,
    refuse_two_values,
    schema_of,
    take_changes,
)
from pagestore.errors import VersionError

PROGRESS = "views.progress"
AUTO, STRICT = "auto", "strict"


class Feed(NamedTuple):
    """A relation of another store, as a source: each refresh reads what changed since the one before.

    `path` is the store's file, `relation` its name there.
    """

    path: str
    relation: str


class Refreshed(NamedTuple):
    """What a refresh did: the versions before and after it, whether it was new, and which views were evaluated anew."""

    before: int
    version: int
    new: bool
    recomputed: tuple[str, ...]


def refresh(
    path: Path, name: str, rules: str, sources: Mapping[str, Any], incremental: str = AUTO, batch: int | None = None,
    query: str | None = None, **options: Any,
) -> Refreshed:  # fmt: skip
    """Bring a workspace's views up to date with the sources of some of its relations, in one commit.

    A source is anything of Arrow, or a Feed. With "strict", RecomputeError is raised where a view would be evaluated
    anew: other rules, a feed whose start is not retained any more, so many changes that following them costs more;
    nothing is changed then. A `batch` that is not above the newest one of the same query, or without `query` of the
    same relations, is not taken again.
    `options` are those of `ivm.open`. Raises MaintainError, RuleError, EditError, UnknownViewError.
    """
    if incremental not in (AUTO, STRICT):
        raise OptionError(f"incremental={incremental!r}: it is {AUTO} or {STRICT}")
    first = not path.exists()
    with ivm.open(path, **options) as workspace:
        installed = workspace.blocks.get(name)
        if installed is None:
            workspace.install(rules, name)
        elif installed != rules:
            _replace_rules(workspace, name, rules, incremental)
        strict = incremental == STRICT and not first and installed is not None
        return _take(workspace, name, sources, strict, batch, query or ", ".join(sorted(sources)))


def _replace_rules(workspace: ivm.Workspace, name: str, rules: str, incremental: str) -> None:
    """Install other rules over the same relations. The relations are copied, since they go with their block."""
    if incremental == STRICT:
        raise RecomputeError(f"the rules of {name} are others than those that are installed: with incremental={AUTO!r} "
                             "all of its views are evaluated anew")  # fmt: skip
    kept = {n: workspace[n].to_arrow() for n, p in workspace.predicates.items() if p.extensional}
    workspace.uninstall(name)
    workspace.install(rules, name)
    with workspace.store.transaction("rows of the rules before") as txn:
        for relation, rows in kept.items():
            if relation in workspace.predicates:
                txn[relation].set(rows)


def _take(
    workspace: ivm.Workspace, name: str, sources: Mapping[str, Any], strict: bool, batch: int | None, stream: str
) -> Refreshed:
    store = workspace.store
    with store.snapshot() as snap:
        progress = json.loads(str(snap.properties.get(PROGRESS, '{"before": 0, "cursors": {}}')))
    batches = progress.get("batches", {})
    if batch is not None and batch <= batches.get(stream, -1):
        return Refreshed(progress["before"], store.version, False, ())
    cursors = dict(progress["cursors"])
    changes = {relation: _changes(workspace, relation, source, cursors, strict) for relation, source in sources.items()}
    before = store.version
    workspace.strict = strict
    with store.transaction(f"refresh {name}") as txn:
        for relation, table in changes.items():
            keys = list(txn[relation].schema.key)
            refuse_two_values(relation, table, keys)
            take_changes(txn[relation], table, keys)
        if batch is not None:
            batches[stream] = batch
        txn.properties[PROGRESS] = json.dumps({"before": before, "cursors": cursors, "batches": batches})
    return Refreshed(before, store.version, True, tuple(sorted(workspace.evaluated)))


def _changes(workspace: ivm.Workspace, relation: str, source: Any, cursors: dict[str, int], strict: bool) -> pa.Table:
    """The changes that a source has for a relation; the cursors move on."""
    predicate = workspace.predicates.get(relation)
    if predicate is None or not predicate.extensional:
        raise UnknownViewError(f"{relation} is no declared relation")
    if isinstance(source, Feed):
        return _from_feed(workspace, predicate, source, cursors, strict)
    table = source if isinstance(source, pa.Table) else pa.table(source)
    if CHANGE not in table.column_names:
        return _compared(workspace, predicate, table)
    table = as_changes(table, predicate)
    if ORDER in table.column_names:
        table = table.filter(pc.greater(table[ORDER], cursors.get(relation, -1)))
        if table.num_rows:
            cursors[relation] = pc.max(table[ORDER]).as_py()
        table = newest_changes(table, list(workspace[relation].schema.key))
    return table


def _from_feed(
    workspace: ivm.Workspace, predicate: Predicate, feed: Feed, cursors: dict[str, int], strict: bool
) -> pa.Table:
    with pagestore.open(feed.path, mode="r") as store:
        newest, since = store.version, cursors.get(predicate.name)
        cursors[predicate.name] = newest
        if since is not None:
            try:
                return as_changes(store.diff(since, newest, feed.relation).read_all(), predicate)
            except VersionError as error:
                if strict:
                    raise RecomputeError(
                        f"{predicate.name}: {error}; with incremental={AUTO!r} the whole relation is read and compared"
                    ) from None
        rows = store.at(newest)[feed.relation].to_arrow()
    return _compared(workspace, predicate, rows)


def _compared(workspace: ivm.Workspace, predicate: Predicate, rows: pa.Table) -> pa.Table:
    """The changes that make a relation's rows those of a table. O(rows)."""
    columns = schema_of(predicate).names
    wanted, found = as_changes(rows, predicate), workspace[predicate.name].to_arrow()
    return difference(found.cast(wanted.select(columns).schema), wanted.select(columns)) if found.num_rows else wanted
