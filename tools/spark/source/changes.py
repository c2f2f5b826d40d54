"""The changes that a commit made to a relation, in the form of Spark's change feeds.

edge(1, 2) is deleted                     delete
price["tea"] = 3 becomes 4                delete 3, insert 4;  with computeUpdates update_preimage, update_postimage
reach(1, 5) is derived once more          nothing: only a hidden word changes
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import types as T

from pagestore.errors import SchemaError
from pagestore.relations.diff import pages_of_both, values_of_both, visible_changes, was_made_anew
from pagestore.relations.relation import Relation
from pagestore.relations.snapshot import Snapshot
from pagestore.trees.apply import Edits
from pagestore.trees.kernels.apply_layout import ERASE, INSERT
from pagestore.trees.reading import read_batches

from .commits import Commit
from .rows import batches_of, places_of
from .types import arrow_schema, spark_batches, spark_schema

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
    """Yield the changes of a relation between two versions as batches of a schema, in the order of the tree.

    A schema without a column for the kind of change has only insertions. Raises SchemaError if the relation was
    recreated between the versions, or if rows were deleted and the schema cannot express it.
    """
    latest = max((one for one in (old, new) if name in one), key=lambda one: one.version, default=None)
    if latest is not None:
        for kinds, words in kinds_of_changes(old, new, name, updates):
            actions = np.where((kinds == DELETED) | (kinds == BEFORE), ERASE, INSERT)
            before, after = (old if name in old else latest)[name], (new if name in new else latest)[name]
            computed = _computed(before, after, actions, words)
            yield from _batches(latest, latest[name], kinds, words, commit, schema, computed)


def inserted_batches(
    snapshot: Snapshot, relation: Relation, words: np.ndarray, commit: Commit, schema: T.StructType
) -> Iterator[pa.RecordBatch]:
    """Yield stored words int64[C, n] as insertions. Raises SchemaError if the relation was recreated."""
    kinds = np.full(words.shape[1], INSERTED)
    computed = _computed(relation, relation, np.full(len(kinds), INSERT), words)
    return _batches(snapshot, relation, kinds, words, commit, schema, computed)


def _computed(before: Relation, after: Relation, actions: np.ndarray, words: np.ndarray) -> pa.Array | None:
    """Return the values of the column that a host computes, if the relation has one."""
    return None if after.computed_place is None else values_of_both(before, after, actions, words)


def _batches(
    snapshot: Snapshot, relation: Relation, kinds: np.ndarray, words: np.ndarray, commit: Commit,
    schema: T.StructType, computed: pa.Array | None,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    is_feed = schema.fields[-len(FEED) :] == [*FEED]
    wanted = schema.fields[: -len(FEED)] if is_feed else schema.fields
    by_name = {column.name: column for column in relation.schema.columns}
    columns = [by_name[field.name] for field in wanted if field.name in by_name]
    if spark_schema(columns).fields != wanted:
        raise _made_anew(relation.name, commit.version)
    n, more = len(kinds), list[pa.Array]()
    if is_feed:
        moment = pa.scalar(commit.timestamp, pa.timestamp("us", "UTC"))
        more = [KINDS.take(pa.array(kinds)), pa.array(np.full(n, commit.version)), pa.repeat(moment, n)]
    elif (kinds == DELETED).any():
        raise SchemaError(
            f"version {commit.version} took rows from {relation.name!r}, or changed them, and this stream tells only "
            "of rows that come: read it with readChangeFeed=true"
        )
    places = places_of(relation, [column.name for column in columns])
    if computed is None:
        yield from batches_of(snapshot, columns, words[places], arrow_schema(schema), more)
    elif n:
        arrays = dict(zip(relation.schema.names, relation.record_batch(words).columns, strict=True))
        arrays[relation.schema.names[relation.computed_place or 0]] = computed
        yield from spark_batches([*(arrays[column.name] for column in columns), *more], arrow_schema(schema))


def kinds_of_changes(
    old: Snapshot, new: Snapshot, name: str, updates: bool = False
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield kinds int64[n] and stored words int64[C, n] of changes; with `updates`, also BEFORE and AFTER."""
    keys = len((new if name in new else old)[name].schema.key)
    for actions, words in _edits(old, new, name):
        kinds = np.where(actions == INSERT, INSERTED, DELETED)
        if updates:
            replaced = (actions[:-1] == ERASE) & (actions[1:] == INSERT)
            first = np.flatnonzero(replaced & (words[:keys, :-1] == words[:keys, 1:]).all(axis=0))
            kinds[first], kinds[first + 1] = BEFORE, AFTER
        yield kinds, words


def _edits(old: Snapshot, new: Snapshot, name: str) -> Iterable[Edits]:
    """Return the difference of a relation between two versions, one of which may lack it, as edits."""
    if name not in old or name not in new:
        relation, action = (new[name], INSERT) if name in new else (old[name], ERASE)
        return _all(relation, action)
    before, after = old[name], new[name]
    if was_made_anew(before, after):
        raise _made_anew(name, new.version)
    return visible_changes(pages_of_both(old, new), before.tree, after.tree, len(after.schema.columns))


def _made_anew(name: str, version: int) -> SchemaError:
    return SchemaError(
        f"{name!r} was made anew in version {version} or later, so that there are no changes to it from before: read "
        "the feed from a later version on, and the relation itself up to then"
    )


def _all(relation: Relation, action: int) -> Iterator[Edits]:
    """Yield all records of a relation as edits."""
    pages, tree = relation.view()
    for words in read_batches(pages, tree):
        yield np.full(words.shape[1], action), words
