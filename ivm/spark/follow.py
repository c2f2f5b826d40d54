"""Views of tables that are kept elsewhere: one refresh is one commit of a workspace.

    first refresh       the relations are filled, the rules evaluated
    later ones          the changes of all tables become one transaction, and the views are maintained

A table is given as change rows (`_change_type`), or whole, and is then compared with the
workspace's copy. The commit also records how far each source was read, so that nothing is applied
twice:

{"before": 3, "batches": {"edge": 17}, "cursors": {
    "edge": {"store": "6f9c...", "relation": "links", "version": 12, "time": "2026-11-26T..."},     of a Feed
    "name": {"newest": 5, "taken": {"4": "91c2...", "5": "07aa..."}, "columns": "x int64, ..."}}}   of change rows

A feed continues from the version up to which it was read. Store, number and time together identify
it, so another file, or a copy with other commits, does not have it. Change rows are identified by
`_commit_version`. Digests of the rows of the newest versions show whether a version that is not new
was applied before, or belongs to a table that was recreated, whose versions start again.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import ivm
import pagestore
from ivm.errors import EditError, OptionError, RecomputeError, UnknownViewError
from ivm.lang.ir import Predicate
from ivm.names import ONE, is_made
from ivm.rules.compile import compile
from ivm.spark.changes import (
    CHANGE,
    MOMENT,
    ORDER,
    apart,
    as_changes,
    difference,
    key_count,
    newest_changes,
    refuse_two_values,
    schema_of,
    warn_of_others,
)
from ivm.spark.select import ONE_ROW, columns_of, is_sql, refuse_equal, rules_of
from ivm.spark.shares import hash_rows
from ivm.sql.catalog import Catalog
from ivm.transaction import Transaction
from ivm.wide import statement_of
from pagestore.errors import MissingError, SchemaError, VersionError
from pagestore.host import Column, Relation, Schema, Snapshot, Type, WritableRelation, local_path

Incremental = Literal["auto", "strict"]
AUTO: Incremental = "auto"
STRICT: Incremental = "strict"


class OpenOptions(TypedDict, total=False):
    """The options of `ivm.open` that are passed on to it."""

    threads: int | None
    memory: int | None
    mode: Literal["rw", "r"]
    page_size: int | None
    sync: Literal["full", "commit", "off"]
    retain: int | Literal["all"] | None
    create: bool
    timeout: float
    exclusive: bool
    gather: float


PROGRESS = "views.progress"  # the property of a commit
REMEMBERED = 16  # versions whose digests are kept
NONE = -1


class Feed(NamedTuple):
    """A relation of another store, as a source: each refresh reads its changes since the previous
    one.

    `path` is the store's file, `relation` its name there.
    """

    path: str
    relation: str


class FeedCursor(NamedTuple):
    """The version of a store's relation up to which a feed was read."""

    store: str
    relation: str
    version: int
    time: str


class RowsCursor(NamedTuple):
    """The newest version of change rows that was applied, and digests of the last ones."""

    newest: int = NONE
    taken: Mapping[str, str] = MappingProxyType({})
    columns: str = ""  # names and types of the digested rows


Cursor = FeedCursor | RowsCursor


@dataclass
class Progress:
    """What a workspace's refreshes read: the version before the newest, cursors by relation,
    batches by stream.
    """

    before: int = 0
    cursors: dict[str, Any] = field(default_factory=dict)
    batches: dict[str, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> "Progress":
        """Parse the progress in a property."""
        return cls(**json.loads(text))

    def __str__(self) -> str:
        return json.dumps(asdict(self))

    def feed(self, relation: str) -> FeedCursor | None:
        """Return the cursor of a relation's feed; None without one, or if an old release did not
        record the store.
        """
        cursor = self.cursors.get(relation)
        return FeedCursor(**cursor) if isinstance(cursor, dict) and "store" in cursor else None

    def rows(self, relation: str) -> RowsCursor:
        """Return the cursor of a relation's change rows."""
        cursor = self.cursors.get(relation)
        if isinstance(cursor, int):
            return RowsCursor(cursor)  # of release 0.2
        return RowsCursor(**cursor) if cursor and "newest" in cursor else RowsCursor()

    def move(self, relation: str, cursor: Cursor | None) -> None:
        """Record how far a relation's source is read; None if the whole relation was compared."""
        if cursor is None:
            self.cursors.pop(relation, None)
        else:
            self.cursors[relation] = cursor._asdict()


class Refreshed(NamedTuple):
    """The result of a refresh: the versions before and after, whether it was new, the views
    recomputed, the rules.
    """

    before: int
    version: int
    new: bool
    recomputed: tuple[str, ...]
    rules: str


def refresh(
    path: Path,
    name: str,
    rules: str,
    sources: Mapping[str, Any],
    incremental: Incremental = AUTO,
    batch: int | None = None,
    query: str | None = None,
    **options: Unpack[OpenOptions],
) -> Refreshed:
    """Bring a workspace's views up to date with the sources of some of its relations, in one
    commit.

    A source is any Arrow data, or a Feed. The rules may be SQL (see `ivm.spark.select`). With
    "strict", RecomputeError is raised and nothing is changed if a view would be recomputed: for
    other rules, a feed that cannot continue from its cursor, or changes whose maintenance would
    cost more. A `batch` that is not above the newest one of the same query, or without `query` of
    the same relations, is skipped. `options` are those of `ivm.open`. Raises MaintainError,
    RuleError, SqlError, EditError, UnknownViewError.
    """
    if incremental not in (AUTO, STRICT):
        raise OptionError(f"incremental={incremental!r}: it is {AUTO} or {STRICT}")
    with ivm.open(path, **options) as workspace:
        installed = workspace.blocks.get(name)
        if is_sql(rules):
            rules, sources = _translated(workspace, name, rules, installed, sources)
        created = _create_tables(workspace, rules) if installed != rules else []
        try:
            return _refreshed(workspace, name, rules, sources, incremental == STRICT, batch, query)
        except BaseException:
            _drop_tables(workspace, created)
            raise


def _refreshed(
    workspace: ivm.Workspace,
    name: str,
    rules: str,
    sources: Mapping[str, Any],
    strict: bool,
    batch: int | None,
    query: str | None,
) -> Refreshed:
    """Install rules, unless they are installed, and apply the sources' changes in one commit."""
    saved, installed = _progress(workspace), workspace.blocks.get(name)
    before = workspace.store.version
    progress, stream = saved or Progress(), query or ", ".join(sorted(sources))
    strict &= installed is not None and saved is not None  # else this is the first refresh
    if installed not in (None, rules) and strict:
        raise RecomputeError(
            f"the rules of {name} are others than those that are installed: with incremental="
            f"{AUTO!r} the views that they change are evaluated anew"
        )
    is_done = batch is not None and batch <= progress.batches.get(stream, -1)
    if is_done and installed == rules:
        return Refreshed(progress.before, before, False, (), rules)
    progress.before = before
    if batch is not None and not is_done:
        progress.batches[stream] = batch
    take = partial(_take, {} if is_done else sources, progress, strict)
    if installed != rules:
        workspace.install(rules, name, replace=True, edit=take)
    else:
        workspace.strict = strict
        with workspace.transaction(f"refresh {name}") as txn:
            take(txn)
    return Refreshed(
        before, workspace.store.version, not is_done, tuple(sorted(workspace.evaluated)), rules
    )


def _create_tables(workspace: ivm.Workspace, rules: str) -> list[str]:
    """Create the relations whose keys may be null, which only SQL declares; return their names."""
    if statement_of(rules) is None:
        return []
    with workspace.store.snapshot() as snap:
        missing = [
            p for p in compile(rules).predicates.values() if p.extensional and p.name not in snap
        ]
    keyless = [one for one in missing if one.nullable and one.nullable[0] < key_count(one)]
    if keyless:
        with workspace.store.transaction("tables") as txn:
            for one in keyless:
                columns = map(Column, one.columns, map(Type.parse, one.stored_types))
                txn.create(
                    one.name, Schema((*columns,), one.columns[: key_count(one)]), keys_null=True
                )
    return [predicate.name for predicate in keyless]


def _drop_tables(workspace: ivm.Workspace, names: list[str]) -> None:
    if names:
        with workspace.store.transaction("without tables") as txn:
            for name in names:
                txn.drop(name)


def _translated(
    workspace: ivm.Workspace,
    name: str,
    text: str,
    installed: str | None,
    sources: Mapping[str, Any],
) -> tuple[str, dict[str, Any]]:
    """Return the rules of a text of SQL, those `installed` if they are its, and the sources by the
    names of relations.

    Raises SqlError for equal rows of a source without a key.
    """
    tables = {
        n: one if isinstance(one, Feed | pa.Table) else pa.table(one) for n, one in sources.items()
    }
    if installed is None or statement_of(installed) != text:
        schemas = {
            n: _followed(source) if isinstance(source, Feed) else columns_of(source.schema)
            for n, source in tables.items()
        }
        with workspace.store.snapshot() as snap:
            known = Catalog(snap)
            installed = rules_of(text, name, schemas, known)
    declared = {
        n.lower(): one for n, one in compile(installed).predicates.items() if one.extensional
    }
    translated = {}
    for own, table in tables.items():
        predicate = declared.get(own.lower())
        if (
            predicate is not None
            and not isinstance(table, Feed)
            and key_count(predicate) == len(predicate.columns)
        ):
            refuse_equal(own, table, predicate.columns)
        translated[predicate.name if predicate else own] = table
    return installed, translated


def _followed(feed: Feed) -> Schema:
    """Return the columns of a feed's relation. Raises EditError for a bag."""
    with pagestore.open(feed.path, mode="r") as store, store.snapshot() as snap:
        return _without_equal_rows(feed, snap[feed.relation]).schema


def _without_equal_rows(feed: Feed, relation: Relation) -> Relation:
    """Return a feed's relation. Raises EditError for a bag: what follows would be a set."""
    if relation.info.bag:
        raise EditError(
            f"{feed.relation} of {feed.path} may have equal rows, and a feed is followed by its "
            "key: give it one, or follow a view that counts its rows"
        )
    return relation


def _take(sources: Mapping[str, Any], progress: Progress, strict: bool, txn: Transaction) -> None:
    """Apply the sources' changes to their relations, and record how far the sources are read."""
    predicates, store_txn = txn._installed.program.predicates, txn._txn
    for name, source in sources.items():
        predicate = predicates.get(name)
        if predicate is None or not predicate.extensional:
            known = ", ".join(
                sorted(n for n, one in predicates.items() if one.extensional and not is_made(n))
            )
            raise UnknownViewError(
                f"{name} is not a declared relation: there are {known or 'none'}"
            )
        if store_txn[name].info.bag:
            raise EditError(
                f"{name} may have equal rows, and those of a source are told apart by a key: give "
                f"it one"
            )
        table = _changes(store_txn[name], predicate, source, progress, strict)
        keys = [*predicate.columns[: key_count(predicate)]]
        refuse_two_values(name, table, keys)
        gone, came = apart(table)
        if gone.num_rows:
            txn.delete(name, gone.select(keys) if keys else [()])
        if came.num_rows:
            txn.set(name, came.select(predicate.columns))
    if ONE in predicates and predicates[ONE].extensional:
        txn.insert(ONE, ONE_ROW)
    store_txn.properties[PROGRESS] = str(progress)


def _progress(workspace: ivm.Workspace) -> Progress | None:
    """Return the progress of refreshes; None if none was ever committed."""
    with workspace.store.snapshot() as snap:
        saved = snap.properties.get(PROGRESS)
    return None if saved is None else Progress.parse(str(saved))


def _changes(
    relation: WritableRelation, predicate: Predicate, source: Any, progress: Progress, strict: bool
) -> pa.Table:
    """Return the changes that a source has for a relation, and advance its cursor."""
    if isinstance(source, Feed):
        return _from_feed(relation, predicate, source, progress, strict)
    rows = source if isinstance(source, pa.Table) else pa.table(source)
    warn_of_others(rows.column_names, predicate)
    if CHANGE not in rows.column_names:
        progress.move(predicate.name, None)
        return _compared(relation, predicate, rows)
    table = as_changes(rows, predicate)
    if ORDER in rows.column_names:
        moments = rows[MOMENT] if MOMENT in rows.column_names else None
        table, cursor = take_new(predicate.name, table, moments, progress.rows(predicate.name))
        progress.move(predicate.name, cursor)
    return newest_changes(table, [*predicate.columns[: key_count(predicate)]])


def _from_feed(
    relation: WritableRelation, predicate: Predicate, feed: Feed, progress: Progress, strict: bool
) -> pa.Table:
    """Return a feed's changes since its cursor; without a cursor or its version, compare the
    whole relation.
    """
    name = predicate.name
    if not Path(local_path(feed.path)).exists():
        raise FileNotFoundError(f"{name}: there is no store {feed.path} to follow")
    with pagestore.open(feed.path, mode="r") as store, store.snapshot() as new:
        is_first, was = name not in progress.cursors, progress.feed(name)
        progress.move(
            name, FeedCursor(store.uuid, feed.relation, new.version, new.timestamp.isoformat())
        )
        source = _without_equal_rows(feed, new[feed.relation])
        warn_of_others(source.schema.names, predicate)
        if not is_first:
            try:
                changes = _since(store, feed, was, new)
            except (VersionError, SchemaError, MissingError) as error:
                if strict:
                    raise RecomputeError(
                        f"{name}: {error}; with incremental={AUTO!r} the whole relation is read "
                        f"and compared"
                    ) from None
                changes = None
            if changes is not None:
                return as_changes(changes, predicate)
        return _compared(relation, predicate, source.to_arrow())


def _since(
    store: pagestore.Store, feed: Feed, was: FeedCursor | None, new: Snapshot
) -> pa.Table | None:
    """Return the changes of a feed's relation since a cursor; None if it has more columns now.

    Raises VersionError if the store lacks the cursor's version, SchemaError, MissingError.
    """
    if was is None or was.store != store.uuid:
        if was:
            before = f"store {was.store}"
        else:
            before = "another source, or by a release that did not note which store"
        raise VersionError(
            f"{feed.path} is store {store.uuid}, and the relation was filled from {before}"
        )
    if was.relation != feed.relation:
        raise VersionError(f"the feed is of relation {feed.relation}, and was of {was.relation}")
    with store.at(was.version) as old:
        if old.timestamp.isoformat() != was.time:
            raise VersionError(
                f"version {was.version} of {feed.path} is of {old.timestamp}, and the one that was "
                f"read of {was.time}: this file is a copy that went another way"
            )
        then, now = old[feed.relation].schema, new[feed.relation].schema
    if then.key == now.key and {*then.columns} < {*now.columns}:
        return None
    return store.diff(was.version, int(new.version), feed.relation).read_all()


def _compared(relation: WritableRelation, predicate: Predicate, rows: pa.Table) -> pa.Table:
    """Return the changes that make a relation's rows those of a table. O(rows)."""
    columns = schema_of(predicate).names
    expected, stored = as_changes(rows, predicate), relation.to_arrow()
    if stored.num_rows:
        return difference(stored.cast(expected.select(columns).schema), expected.select(columns))
    return expected


def take_new(
    name: str, table: pa.Table, moments: pa.ChunkedArray | None, cursor: RowsCursor
) -> tuple[pa.Table, RowsCursor]:
    """Return the changes that were not applied before, by `_commit_version`, and the new cursor.
    O(changes).

    `moments` is their column `_commit_timestamp`. Raises EditError for versions that are neither
    new nor known.
    """
    columns = ", ".join(f"{field.name} {field.type}" for field in table.schema)
    rows_new = digests(table, moments)
    if cursor.columns != columns:
        cursor = RowsCursor(cursor.newest)  # digests of rows with other columns cannot be compared
    again = {
        version for version, digest in rows_new.items() if cursor.taken.get(str(version)) == digest
    }
    old = {version for version in rows_new if version <= cursor.newest} - again
    known = [int(version) for version in cursor.taken]
    # older versions count as applied, too
    reaches = min(known) if again and len(known) == REMEMBERED else NONE
    if known and (strange := [version for version in old if version >= reaches]):
        raise EditError(
            f"{name}: version {min(strange)} of the changes is not newer than {cursor.newest}, "
            "which was taken, and its rows are others than were taken then: the source was made "
            "anew, or a version came in parts. Give the table once without _change_type, as a "
            "snapshot that is compared, and go on with the changes since"
        )
    new = table.filter(pc.invert(pc.is_in(table[ORDER], pa.array([*again, *old], pa.int64()))))
    taken = {**cursor.taken, **{str(version): digest for version, digest in rows_new.items()}}
    kept = sorted(taken, key=int)[-REMEMBERED:]
    return new, RowsCursor(
        max([cursor.newest, *rows_new]), {version: taken[version] for version in kept}, columns
    )


def digests(table: pa.Table, moments: pa.ChunkedArray | None) -> dict[int, str]:
    """Return a digest of each version's rows, independent of their order."""
    columns = [
        column
        for name, column in zip(table.column_names, table.columns, strict=True)
        if name != ORDER
    ]
    columns += [pc.is_valid(column) for column in columns]
    if moments is not None and pa.types.is_timestamp(moments.type):
        columns.append(moments)
    hashed = hash_rows(pa.table(columns, [*map(str, range(len(columns)))]), range(len(columns)))
    versions, places = np.unique(table[ORDER].to_numpy(), return_inverse=True)
    sums = np.zeros(len(versions), np.uint64)
    np.add.at(sums, places, hashed)
    return {int(version): f"{digest:016x}" for version, digest in zip(versions, sums, strict=True)}
