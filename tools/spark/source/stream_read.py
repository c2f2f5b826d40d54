"""A streaming read: the changes of each commit, version by version.

version   1      2      3      4      5        checkpoint {"version": 2}: all up to version 2 was read
                        |── batch ──|          maxVersionsPerTrigger=2; versions 2 to 5 are held until they are read

A stream without a starting version reads the whole relation first, as insertions.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

import pagestore
from pagestore.errors import VersionError
from pagestore.host import MAIN, Snapshot, Store
from pagestore.tooling import Walk

from .changes import (
    Commit,
    Commits,
    commits_after,
    commits_requested,
    feed_batches,
    inserted_batches,
    kinds_of_changes,
    runs,
)
from .options import Options, OptionsError, held, newest_of, snapshot_at
from .read import KeyRange, parts_of, words_of
from .sentences import sentences_first

Offset = dict[str, Any]
PARTITIONS = 2  # of a batch of several commits, unless an option gives the number
NOTHING = -1  # the version before all others, without relations


@dataclass
class Beginning(InputPartition):
    """A part of a relation at the version at which a stream begins."""

    range: KeyRange | None
    commit: Commit


@sentences_first
class RelationStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a relation's changes as they are committed; one process keeps it for the query."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options, self._schema = options, schema
        self._path = options.required("path", "the store's file")
        self._name = options.required("relation", "whose changes are read")
        self._branch = options.text("branch", MAIN) or MAIN
        self._store: Store | None = None
        self._stat: os.stat_result | None = None  # of its file
        self._held: dict[int, Snapshot] = {}  # versions not read yet, and the one before them
        self._last: int | None = None  # the last version of a query with the trigger availableNow
        for name in (
            "endingVersion",
            "endingTimestamp",
            "versionAsOf",
            "timestampAsOf",
            "keyFrom",
            "keyTo",
        ):
            if name in options:
                raise OptionsError(f"a stream has no {name}: it goes on with what is committed")

    # --- where to begin and to end --------------------------------------------------------------

    def initialOffset(self) -> Offset:
        """Return the version before the first change that the stream reads."""
        if self._options.text("startingVersion") == "latest":
            return self._offset(self._newest())
        if "startingVersion" in self._options or "startingTimestamp" in self._options:
            commits = commits_requested(self._opened(), self._options, self._newest())
            return self._offset(commits[0].before if commits else self._newest())
        return self._offset(NOTHING)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return the version that the next batch reads up to; `start` if the relation has not
        changed since.
        """
        end = start["version"]
        if end == NOTHING:
            newest = self._newest()
            self._hold(newest)
            return self._offset(newest)
        taken = rows = 0
        if isinstance(limit, ReadAllAvailable):
            most = None
        else:
            most = self._options.number("maxVersionsPerTrigger", least=1)
        for commit in self._commits(start):
            if not self._changes_in(commit):
                continue
            rows += self._rows_in(commit) if isinstance(limit, ReadMaxRows) else 0
            if taken and (
                taken == most or (isinstance(limit, ReadMaxRows) and rows > limit.max_rows)
            ):
                break
            end, taken = commit.version, taken + 1
        return start if end == start["version"] else self._offset(end)

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return a batch's limit by the options: rows, or versions, which Spark calls files."""
        rows = self._options.number("maxRowsPerTrigger", least=1)
        versions = self._options.number("maxVersionsPerTrigger", least=1)
        if rows is not None:
            return ReadMaxRows(rows)
        return ReadAllAvailable() if versions is None else ReadMaxFiles(versions)

    def reportLatestOffset(self) -> Offset:
        """Return the newest version, for the progress of the query."""
        return self._offset(self._newest())

    def prepareForTriggerAvailableNow(self) -> None:
        """End the query with the version that is the newest now."""
        self._last = self._newest()

    def commit(self, end: Offset) -> None:
        """Release the versions that have been read."""
        for version in [version for version in self._held if version < end["version"]]:
            self._held.pop(version).close()

    def stop(self) -> None:
        """Close the store."""
        for snapshot in self._held.values():
            snapshot.close()
        self._held.clear()
        if self._store is not None:
            self._store.close()

    # --- a batch --------------------------------------------------------------------------------

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return the commits between two offsets in runs, or if the stream begins with the
        relation, its parts.
        """
        self._verify(start)
        number = self._options.number("numPartitions", least=1)
        if start["version"] != NOTHING:
            commits = [one for one in self._commits(start, end["version"]) if self._changes_in(one)]
            return [*runs(commits, number or PARTITIONS)]
        with held(self._opened(), end["version"]) as snapshot:
            commit = Commit(NOTHING, snapshot.version, snapshot.timestamp)
            walk = Walk(self._opened()._handle.mapping)
            return [
                Beginning(part.range, commit)
                for part in parts_of(snapshot[self._name], walk, number)
            ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a part, or the changes of a run of commits, in batches."""
        if isinstance(partition, Commits):
            yield from feed_batches(partition.commits, self._options, self._schema)
            return
        assert isinstance(partition, Beginning)
        with snapshot_at(self._path, partition.commit.version) as snapshot:
            relation = snapshot[self._name]
            for words in words_of(relation, partition.range):
                yield from inserted_batches(
                    snapshot, relation, words, partition.commit, self._schema
                )

    # --- the store ------------------------------------------------------------------------------

    def _opened(self) -> Store:
        """Return the store, reopened if its file was replaced, for example by a backup."""
        now = os.stat(self._path)
        if self._store is None or self._stat is None or not os.path.samestat(now, self._stat):
            self.stop()
            self._store, self._stat = pagestore.open(self._path, mode="r"), now
        return self._store

    def _newest(self) -> int:
        return newest_of(self._opened(), self._branch)

    def _offset(self, version: int) -> Offset:
        """Return a version as an offset, with store and time, which identify it among copies."""
        offset = {"version": version, "store": self._opened().uuid}
        return offset if version == NOTHING else {**offset, "time": self._time_of(version)}

    def _verify(self, offset: Offset) -> None:
        """Raise VersionError if a checkpoint is another store's, or its version differs here."""
        store, version = self._opened(), offset["version"]
        remedy = "or begin with another checkpointLocation"
        if offset["store"] != store.uuid:
            raise VersionError(
                f"{self._path} is store {store.uuid}, and the stream's checkpoint is of "
                f"{offset['store']}: give it the store that it began with, {remedy}"
            )
        if version > self._newest():
            newest = self._newest()
            raise VersionError(
                f"the stream has read version {version}, and the newest of {self._path} is "
                f"{newest}: this is an older copy; give it the store that it read, {remedy}"
            )
        time = self._time_of(version) if "time" in offset else None
        if time not in (None, offset.get("time")):
            raise VersionError(
                f"version {version} of {self._path} is of {time}, and the stream has read one of "
                f"{offset['time']}: "
                f"this is a copy that went another way; give it the store that it read, {remedy}"
            )

    def _time_of(self, version: int) -> str | None:
        """Return when a version was committed; None if it is gone, which readers report."""
        try:
            with self._opened().at(version) as snapshot:
                return snapshot.timestamp.isoformat()
        except VersionError:
            return None

    def _commits(self, start: Offset, end: int | None = None) -> list[Commit]:
        """Return the commits after an offset, and hold their versions until they are read.
        Raises VersionError.
        """
        self._verify(start)
        newest = min(one for one in (end, self._last, self._newest()) if one is not None)
        commits = commits_after(self._opened(), start["version"], newest, self._options)
        for commit in commits:
            self._hold(commit.before)
            self._hold(commit.version)
        return commits

    def _hold(self, version: int) -> Snapshot:
        """Open a version, so that it is not dropped until it has been read."""
        if version not in self._held:
            self._held[version] = held(self._opened(), version)
        return self._held[version]

    def _changes_in(self, commit: Commit) -> bool:
        """Return whether a commit changed the relation's tree."""
        old, new = self._hold(commit.before), self._hold(commit.version)
        if self._name not in old or self._name not in new:
            return self._name in old or self._name in new
        return old.tree(self._name) != new.tree(self._name)

    def _rows_in(self, commit: Commit) -> int:
        """Return how many changes a commit made to the relation. O(changes)."""
        old, new = self._hold(commit.before), self._hold(commit.version)
        return sum(len(kinds) for kinds, _ in kinds_of_changes(old, new, self._name))
