"""How far the sources of views were read. A refresh commits this together with the changes that it read.

{"before": 3, "batches": {"edge": 17}, "cursors": {
    "edge": {"store": "6f9c...", "relation": "links", "version": 12, "time": "2026-11-26T..."},     of a Feed
    "name": {"newest": 5, "taken": {"4": "91c2...", "5": "07aa..."}, "columns": "x int64, ..."}}}   of change rows

A feed continues from the version up to which it was read. Store, number and time together identify it, so another
file, or a copy with other commits, does not have it. Change rows are identified by `_commit_version`. Digests of the
rows of the newest versions show whether a version that is not new was applied before, or belongs to a table that was
recreated, whose versions start again.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ivm.errors import EditError
from ivm.spark.changes import ORDER
from ivm.spark.routing import hash_rows

PROGRESS = "views.progress"  # the property of a commit
REMEMBERED = 16  # versions whose digests are kept
NONE = -1


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
    """What a workspace's refreshes read: the version before the newest, cursors by relation, batches by stream."""

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
        """Return the cursor of a relation's feed; None without one, or if an old release did not record the store."""
        found = self.cursors.get(relation)
        return FeedCursor(**found) if isinstance(found, dict) and "store" in found else None

    def rows(self, relation: str) -> RowsCursor:
        """Return the cursor of a relation's change rows."""
        found = self.cursors.get(relation)
        if isinstance(found, int):
            return RowsCursor(found)  # of release 0.2
        return RowsCursor(**found) if found and "newest" in found else RowsCursor()

    def move(self, relation: str, cursor: Cursor | None) -> None:
        """Record how far a relation's source is read; None if the whole relation was compared."""
        if cursor is None:
            self.cursors.pop(relation, None)
        else:
            self.cursors[relation] = cursor._asdict()


def take_new(
    name: str, table: pa.Table, moments: pa.ChunkedArray | None, cursor: RowsCursor
) -> tuple[pa.Table, RowsCursor]:
    """Return the changes that were not applied before, by `_commit_version`, and the new cursor. O(changes).

    `moments` is their column `_commit_timestamp`. Raises EditError for versions that are neither new nor known.
    """
    columns, found = ", ".join(f"{field.name} {field.type}" for field in table.schema), digests(table, moments)
    if cursor.columns != columns:
        cursor = RowsCursor(cursor.newest)  # digests of rows with other columns cannot be compared
    again = {version for version, digest in found.items() if cursor.taken.get(str(version)) == digest}
    old = {version for version in found if version <= cursor.newest} - again
    known = [int(version) for version in cursor.taken]
    reaches = min(known) if again and len(known) == REMEMBERED else NONE  # older versions count as applied, too
    if known and (strange := [version for version in old if version >= reaches]):
        raise EditError(
            f"{name}: version {min(strange)} of the changes is not newer than {cursor.newest}, which was taken, and "
            "its rows are others than were taken then: the source was made anew, or a version came in parts. Give the "
            "table once without _change_type, as a snapshot that is compared, and go on with the changes since"
        )
    new = table.filter(pc.invert(pc.is_in(table[ORDER], pa.array([*again, *old], pa.int64()))))
    taken = {**cursor.taken, **{str(version): digest for version, digest in found.items()}}
    kept = sorted(taken, key=int)[-REMEMBERED:]
    return new, RowsCursor(max([cursor.newest, *found]), {version: taken[version] for version in kept}, columns)


def digests(table: pa.Table, moments: pa.ChunkedArray | None) -> dict[int, str]:
    """Return a digest of each version's rows, independent of their order."""
    columns = [column for name, column in zip(table.column_names, table.columns, strict=True) if name != ORDER]
    columns += [pc.is_valid(column) for column in columns]
    if moments is not None and pa.types.is_timestamp(moments.type):
        columns.append(moments)
    hashed = hash_rows(pa.table(columns, [*map(str, range(len(columns)))]), range(len(columns)))
    versions, places = np.unique(table[ORDER].to_numpy(), return_inverse=True)
    sums = np.zeros(len(versions), np.uint64)
    np.add.at(sums, places, hashed)
    return {int(version): f"{digest:016x}" for version, digest in zip(versions, sums, strict=True)}
