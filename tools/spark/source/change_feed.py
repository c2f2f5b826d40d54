"""A batch read of the changes that commits made to a relation."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from .changes import change_batches
from .commits import Commit, commits_asked_for
from .opening import held, store_at
from .options import Options
from .sentences import sentences_first

PARTITIONS = 8  # unless an option gives the number


@dataclass
class Commits(InputPartition):
    """Consecutive commits that a task reads."""

    commits: list[Commit]


@sentences_first
class ChangeFeedReader(DataSourceReader):
    """Reads the changes of a relation commit by commit, up to the version that was newest when it was planned."""

    def __init__(self, options: Options, version: int, schema: StructType) -> None:
        self._options, self._version, self._schema = options, version, schema

    def partitions(self) -> list[InputPartition]:
        """Return the requested commits, in runs of about the same length."""
        with store_at(self._options.required("path", "the store's file")) as store:
            commits = commits_asked_for(store, self._options, self._version)
        return [*runs(commits, self._options.number("numPartitions", least=1) or PARTITIONS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the changes of a run of commits, in batches."""
        assert isinstance(partition, Commits)
        yield from feed_batches(partition.commits, self._options, self._schema)


def runs(commits: Sequence[Commit], wanted: int) -> Iterator[Commits]:
    """Yield at most `wanted` runs of commits; an empty one if there are none."""
    each = max(1, -(-len(commits) // wanted))
    yield from (Commits([*commits[at : at + each]]) for at in range(0, max(1, len(commits)), each))


def feed_batches(commits: Sequence[Commit], options: Options, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yield the changes that commits made, in batches."""
    updates, name = options.flag("computeUpdates"), options.required("relation", "whose changes are read")
    with store_at(options.required("path", "the store's file")) as store:
        for commit in commits:
            with held(store, commit.before) as old, held(store, commit.version) as new:
                yield from change_batches(old, new, name, commit, schema, updates)
