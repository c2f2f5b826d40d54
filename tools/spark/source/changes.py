"""The changes that a commit made to a relation, in the form of Spark's change feeds.

edge(1, 2) is deleted                     delete
price["tea"] = 3 becomes 4                delete 3, insert 4;  with computeUpdates update_preimage, update_postimage
reach(1, 5) is derived once more          nothing: only a hidden word changes

The commits of a change feed: versions of a branch, each with the version that it was made from.

A batch read of the changes that commits made to a relation.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pagestore.errors import SchemaError, VersionError
from pagestore.host import (
    ERASE,
    INSERT,
    MAIN,
    Edits,
    Relation,
    Snapshot,
    Store,
    pages_of_both,
    read_batches,
)
from pagestore.tooling import (
    BAG_ROWS,
    VersionInfo,
    changes_between,
    repeated,
    values_of_both,
    was_made_anew,
)

from .options import Options, OptionsError, held, store_at
from .read import batches_of, places_of
from .sentences import sentences_first
from .types import arrow_schema, spark_batches, spark_schema

LISTED = 32  # versions that are listed at first, the newest ones
KEEP = "keep versions for longer with store.retain or tags, and read more often"


class Commit(NamedTuple):
    """A version, and the earlier one that its changes are relative to."""

    before: int
    version: int
    timestamp: datetime


def commits_requested(store: Store, options: Options, newest: int) -> list[Commit]:
    """Return the commits between the bounds in the options, oldest first, up to version `newest` of
    the branch.

    Raises OptionsError, VersionError.
    """
    options.exclusive("startingVersion", "startingTimestamp")
    options.exclusive("endingVersion", "endingTimestamp")
    start, since = options.number("startingVersion"), options.moment("startingTimestamp")
    if start is None and since is None:
        raise OptionsError(
            "a change feed begins at startingVersion, or at startingTimestamp: give one of them"
        )
    branch = options.text("branch", MAIN) or MAIN
    end, until = options.number("endingVersion"), options.moment("endingTimestamp")
    for name, number in ("startingVersion", start), ("endingVersion", end):
        if number is not None and number > newest + (name == "startingVersion"):
            raise VersionError(
                f"{name}={number}: the newest version of branch {branch!r} is {newest}"
            )
    first_in = options.flag("startingBoundInclusive", True)
    last_in = options.flag("endingBoundInclusive", True)
    first = 0 if start is None else start + (not first_in)
    infos = [info for info in _versions_since(store, branch, first) if info.version <= newest]
    if since is not None:
        infos = [
            info
            for info in infos
            if info.timestamp > since or (first_in and info.timestamp == since)
        ]
        first = infos[0].version if infos else newest + 1
    if end is not None:
        infos = [info for info in infos if info.version < end or (last_in and info.version == end)]
    if until is not None:
        infos = [
            info
            for info in infos
            if info.timestamp < until or (last_in and info.timestamp == until)
        ]
    return chain(store, infos, first, options)


def commits_after(store: Store, version: int, newest: int, options: Options) -> list[Commit]:
    """Return the branch's commits after a version, to `newest`, in order. Raises VersionError."""
    infos = _versions_since(store, options.text("branch", MAIN) or MAIN, version + 1)
    return chain(store, [info for info in infos if info.version <= newest], version + 1, options)


def is_net(options: Options) -> bool:
    """Return whether a feed has only the net changes between its bounds."""
    modes = "none", "dropCarryovers", "netChanges"  # commits never rewrite unchanged rows
    return options.one_of("deduplicationMode", "dropCarryovers", modes) == "netChanges"


def chain(store: Store, infos: Sequence[VersionInfo], first: int, options: Options) -> list[Commit]:
    """Return the commits of consecutive versions from `first` on; a single one for all if the feed
    is net.

    Raises VersionError if a version between them, or the one before them, is no longer retained.
    """
    if not infos:
        return []
    if is_net(options):
        infos = [infos[-1]._replace(parent=infos[0].parent)]
    before = infos[0].parent
    lost = before if before >= max(first, 1) else None  # version 0 changed nothing
    for info in infos:
        lost = info.parent if lost is None and info.parent != before else lost
        before = info.version
    if lost is not None:
        raise VersionError(
            f"{store.path}: what version {lost} changed is not known, since it is no longer "
            f"retained; {KEEP}, or read deduplicationMode=netChanges"
        )
    origin = infos[0].parent
    try:
        store.at(origin).close()
    except VersionError:
        raise VersionError(
            f"{store.path}: what version {infos[0].version} changed is not known, since version "
            f"{origin}, which it was "
            f"made from, is no longer retained; {KEEP}, or begin at a later version"
        ) from None
    return [Commit(info.parent, info.version, info.timestamp) for info in infos]


def _versions_since(store: Store, branch: str, first: int) -> list[VersionInfo]:
    """Return a branch's retained versions from `first` on, oldest first; 0 changed nothing."""
    limit = LISTED
    while True:
        infos = store.history(limit, branch)
        if len(infos) < limit or infos[-1].version < first:
            return [info for info in reversed(infos) if info.version >= max(first, 1)]
        limit *= 4


FEED = (
    T.StructField("_change_type", T.StringType(), False),
    T.StructField("_commit_version", T.LongType(), False),
    T.StructField("_commit_timestamp", T.TimestampType(), False),
)
INSERTED, DELETED, BEFORE, AFTER = range(4)
KINDS = pa.array(["insert", "delete", "update_preimage", "update_postimage"])


def change_batches(
    old: Snapshot, new: Snapshot, name: str, commit: Commit, schema: T.StructType, updates: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the changes of a relation between two versions as batches of a schema, in the order of
    the tree.

    A schema without a column for the kind of change has only insertions. Raises SchemaError if the
    relation was recreated between the versions, or if rows were deleted and the schema cannot
    express it.
    """
    latest = max(
        (side for side in (old, new) if name in side), key=lambda side: side.version, default=None
    )
    if latest is not None:
        for kinds, words in kinds_of_changes(old, new, name, updates):
            actions = np.where((kinds == DELETED) | (kinds == BEFORE), ERASE, INSERT)
            before = (old if name in old else latest)[name]
            after = (new if name in new else latest)[name]
            computed = _computed(before, after, actions, words)
            yield from _batches(latest, latest[name], kinds, words, commit, schema, computed)


def inserted_batches(
    snapshot: Snapshot, relation: Relation, words: np.ndarray, commit: Commit, schema: T.StructType
) -> Iterator[pa.RecordBatch]:
    """Yield stored words int64[C, n] as insertions. Raises SchemaError if it was recreated."""
    kinds = np.full(words.shape[1], INSERTED)
    computed = _computed(relation, relation, np.full(len(kinds), INSERT), words)
    return _batches(snapshot, relation, kinds, words, commit, schema, computed)


def _computed(
    before: Relation, after: Relation, actions: np.ndarray, words: np.ndarray
) -> pa.Array | None:
    """Return the values of the column that a host computes, if the relation has one."""
    return None if after.computed_place is None else values_of_both(before, after, actions, words)


def _batches(
    snapshot: Snapshot,
    relation: Relation,
    kinds: np.ndarray,
    words: np.ndarray,
    commit: Commit,
    schema: T.StructType,
    computed: pa.Array | None,
) -> Iterator[pa.RecordBatch]:
    is_feed = schema.fields[-len(FEED) :] == [*FEED]
    fields = schema.fields[: -len(FEED)] if is_feed else schema.fields
    by_name = {column.name: column for column in relation.schema.columns}
    columns = [by_name[field.name] for field in fields if field.name in by_name]
    if spark_schema(columns).fields != fields:
        raise _made_anew(relation.name, commit.version)
    n, more = len(kinds), list[pa.Array]()
    if is_feed:
        moment = pa.scalar(commit.timestamp, pa.timestamp("us", "UTC"))
        more = [
            KINDS.take(pa.array(kinds)),
            pa.array(np.full(n, commit.version)),
            pa.repeat(moment, n),
        ]
    elif (kinds == DELETED).any():
        raise SchemaError(
            f"version {commit.version} took rows from {relation.name!r}, or changed them, and this "
            "stream tells only of rows that come: read it with readChangeFeed=true"
        )
    places = places_of(relation, [column.name for column in columns])
    if computed is None:
        yield from batches_of(snapshot, columns, words[places], arrow_schema(schema), more)
    elif n:
        arrays = dict(zip(relation.schema.names, relation.record_batch(words).columns, strict=True))
        arrays[relation.schema.names[relation.computed_place or 0]] = computed
        yield from spark_batches(
            [*(arrays[column.name] for column in columns), *more], arrow_schema(schema)
        )


def kinds_of_changes(
    old: Snapshot, new: Snapshot, name: str, updates: bool = False
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield kinds int64[n] and words int64[C, n] of changes; `updates`: also BEFORE and AFTER."""
    keys = len((new if name in new else old)[name].schema.key)
    for actions, words in _edits(old, new, name):
        kinds = np.where(actions == INSERT, INSERTED, DELETED)
        if updates:
            replaced = (actions[:-1] == ERASE) & (actions[1:] == INSERT)
            first = np.flatnonzero(replaced & (words[:keys, :-1] == words[:keys, 1:]).all(axis=0))
            kinds[first], kinds[first + 1] = BEFORE, AFTER
        yield kinds, words


def _edits(old: Snapshot, new: Snapshot, name: str) -> Iterable[Edits]:
    """Return a relation's difference between two versions, one of which may lack it, as edits."""
    if name not in old or name not in new:
        relation, action = (new[name], INSERT) if name in new else (old[name], ERASE)
        return _all(relation, action)
    before, after = old[name], new[name]
    if was_made_anew(before, after):
        raise _made_anew(name, new.version)
    return changes_between(pages_of_both(old, new), before, after)


def _made_anew(name: str, version: int) -> SchemaError:
    return SchemaError(
        f"{name!r} was made anew in version {version} or later, so that there are no changes to it "
        "from before: read the feed from a later version on, and the relation itself up to then"
    )


def _all(relation: Relation, action: int) -> Iterator[Edits]:
    """Yield all records of a relation as edits."""
    pages, tree = relation.view()
    batches = read_batches(pages, tree)
    if relation.info.bag:
        batches = repeated((words[: tree.spec.keys + 1] for words in batches), BAG_ROWS)
    for words in batches:
        yield np.full(words.shape[1], action), words


PARTITIONS = 8  # unless an option gives the number


@dataclass
class Commits(InputPartition):
    """Consecutive commits that a task reads."""

    commits: list[Commit]


@sentences_first
class ChangeFeedReader(DataSourceReader):
    """Reads the changes of a relation commit by commit, up to the version that was newest when
    it was planned.
    """

    def __init__(self, options: Options, version: int, schema: StructType) -> None:
        self._options, self._version, self._schema = options, version, schema

    def partitions(self) -> list[InputPartition]:
        """Return the requested commits, in runs of about the same length."""
        with store_at(self._options.required("path", "the store's file")) as store:
            commits = commits_requested(store, self._options, self._version)
        return [*runs(commits, self._options.number("numPartitions", least=1) or PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the changes of a run of commits, in batches."""
        assert isinstance(partition, Commits)
        yield from feed_batches(partition.commits, self._options, self._schema)


def runs(commits: Sequence[Commit], count: int) -> Iterator[Commits]:
    """Yield at most `count` runs of commits; an empty one if there are none."""
    each = max(1, -(-len(commits) // count))
    yield from (Commits([*commits[at : at + each]]) for at in range(0, max(1, len(commits)), each))


def feed_batches(
    commits: Sequence[Commit], options: Options, schema: StructType
) -> Iterator[pa.RecordBatch]:
    """Yield the changes that commits made, in batches."""
    updates = options.flag("computeUpdates")
    name = options.required("relation", "whose changes are read")
    with store_at(options.required("path", "the store's file")) as store:
        for commit in commits:
            with held(store, commit.before) as old, held(store, commit.version) as new:
                yield from change_batches(old, new, name, commit, schema, updates)
