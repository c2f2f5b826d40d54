"""Views that follow tables which are kept elsewhere: one refresh is one commit of a workspace.

    first refresh       the relations are filled, the rules evaluated
    later ones          the changes of each table become a transaction, and the views follow it

A table comes as change rows (`_change_type`), or as a whole, which is compared with what the workspace has of it. The
commit also notes how far each source was read (progress.py): what comes twice is taken once.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

import ivm
import pagestore
from ivm.errors import OptionError, RecomputeError, UnknownViewError
from ivm.lang.ir import Predicate
from ivm.spark.changes import (
    CHANGE,
    MOMENT,
    ORDER,
    as_changes,
    difference,
    newest_changes,
    refuse_two_values,
    schema_of,
    take_changes,
)
from ivm.spark.progress import PROGRESS, FeedCursor, Progress, take_new
from pagestore.errors import MissingError, SchemaError, VersionError

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
    anew: other rules, a feed that cannot go on from where it was, so many changes that following them costs more;
    nothing is changed then. A `batch` that is not above the newest one of the same query, or without `query` of the
    same relations, is not taken again.
    `options` are those of `ivm.open`. Raises MaintainError, RuleError, EditError, UnknownViewError.
    """
    if incremental not in (AUTO, STRICT):
        raise OptionError(f"incremental={incremental!r}: it is {AUTO} or {STRICT}")
    with ivm.open(path, **options) as workspace:
        installed = workspace.blocks.get(name)
        is_first = installed is None or _progress(workspace) is None  # the first one may have been killed
        strict = incremental == STRICT and not is_first
        if installed is None:
            workspace.install(rules, name)
        elif installed != rules:
            _replace_rules(workspace, name, rules, strict)
        return _take(workspace, name, sources, strict, batch, query or ", ".join(sorted(sources)))


def _replace_rules(workspace: ivm.Workspace, name: str, rules: str, strict: bool) -> None:
    """Install other rules over the same relations. The relations are copied, since they go with their block."""
    if strict:
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
    store, progress = workspace.store, _progress(workspace) or Progress()
    if batch is not None and batch <= progress.batches.get(stream, -1):
        return Refreshed(progress.before, store.version, False, ())
    changes = {relation: _changes(workspace, relation, one, progress, strict) for relation, one in sources.items()}
    progress.before = store.version
    workspace.strict = strict
    with store.transaction(f"refresh {name}") as txn:
        for relation, table in changes.items():
            keys = list(txn[relation].schema.key)
            refuse_two_values(relation, table, keys)
            take_changes(txn[relation], table, keys)
        if batch is not None:
            progress.batches[stream] = batch
        txn.properties[PROGRESS] = str(progress)
    return Refreshed(progress.before, store.version, True, tuple(sorted(workspace.evaluated)))


def _progress(workspace: ivm.Workspace) -> Progress | None:
    """What refreshes took; None where none was ever committed."""
    with workspace.store.snapshot() as snap:
        found = snap.properties.get(PROGRESS)
    return None if found is None else Progress.parse(str(found))


def _changes(workspace: ivm.Workspace, relation: str, source: Any, progress: Progress, strict: bool) -> pa.Table:
    """The changes that a source has for a relation; its cursor moves on."""
    predicate = workspace.predicates.get(relation)
    if predicate is None or not predicate.extensional:
        raise UnknownViewError(f"{relation} is no declared relation")
    if isinstance(source, Feed):
        return _from_feed(workspace, predicate, source, progress, strict)
    found = source if isinstance(source, pa.Table) else pa.table(source)
    if CHANGE not in found.column_names:
        progress.move(relation, None)
        return _compared(workspace, predicate, found)
    table = as_changes(found, predicate)
    if ORDER in table.column_names:
        moments = found[MOMENT] if MOMENT in found.column_names else None
        table, cursor = take_new(relation, table, moments, progress.rows(relation))
        progress.move(relation, cursor)
        table = newest_changes(table, list(workspace[relation].schema.key))
    return table


def _from_feed(
    workspace: ivm.Workspace, predicate: Predicate, feed: Feed, progress: Progress, strict: bool
) -> pa.Table:
    """What a feed has since its cursor; all of it, compared, where it has no cursor or not that version any more."""
    name = predicate.name
    if not Path(feed.path).exists():
        raise FileNotFoundError(f"{name}: there is no store {feed.path} to follow")
    with pagestore.open(feed.path, mode="r") as store, store.snapshot() as new:
        time = new.timestamp.isoformat()
        is_first, was = name not in progress.cursors, progress.feed(name)
        progress.move(name, FeedCursor(store.uuid, feed.relation, new.version, time))
        if not is_first:
            try:
                return as_changes(_since(store, feed, was, new.version), predicate)
            except (VersionError, SchemaError, MissingError) as error:
                if strict:
                    raise RecomputeError(
                        f"{name}: {error}; with incremental={AUTO!r} the whole relation is read and compared"
                    ) from None
        return _compared(workspace, predicate, new[feed.relation].to_arrow())


def _since(store: pagestore.Store, feed: Feed, was: FeedCursor | None, newest: int) -> pa.Table:
    """The changes of a feed's relation since a cursor.

    Raises VersionError where the store has not the cursor's version, SchemaError, MissingError.
    """
    if was is None or was.store != store.uuid:
        before = f"store {was.store}" if was else "another source, or by a release that did not note which store"
        raise VersionError(f"{feed.path} is store {store.uuid}, and the relation was filled from {before}")
    if was.relation != feed.relation:
        raise VersionError(f"the feed is of relation {feed.relation}, and was of {was.relation}")
    with store.at(was.version) as old:
        if old.timestamp.isoformat() != was.time:
            raise VersionError(f"version {was.version} of {feed.path} is of {old.timestamp}, and the one that was read "
                               f"of {was.time}: this file is a copy that went another way")  # fmt: skip
    return store.diff(was.version, newest, feed.relation).read_all()


def _compared(workspace: ivm.Workspace, predicate: Predicate, rows: pa.Table) -> pa.Table:
    """The changes that make a relation's rows those of a table. O(rows)."""
    columns = schema_of(predicate).names
    wanted, found = as_changes(rows, predicate), workspace[predicate.name].to_arrow()
    return difference(found.cast(wanted.select(columns).schema), wanted.select(columns)) if found.num_rows else wanted
