"""A snapshot: one version, unchanged for as long as it is open.

It never blocks the writer and is never blocked; the pages that it can reach are not reused while it
is open.

The difference of two versions of a relation as an Arrow stream.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import starmap
from sys import is_finalizing
from typing import Any, Protocol

import numpy as np

from pagestore.errors import ClosedError, MissingError, SchemaError, VersionError
from pagestore.pages.layout import Pages
from pagestore.printable import printable
from pagestore.relations.bags import row_changes
from pagestore.relations.frames import html_table
from pagestore.relations.range import Range
from pagestore.relations.relation import Relation
from pagestore.runtime.lazy import pyarrow as pa
from pagestore.storage.file import File
from pagestore.trees.compare import Delta
from pagestore.trees.edit import Edits, one_batch
from pagestore.trees.kernels.node_buffer import ERASE, INSERT
from pagestore.trees.read import RecordFinder, batch_rows, read_batches
from pagestore.trees.tree import Tree
from pagestore.values.codec import decode, encode
from pagestore.values.dictionary import Dictionary
from pagestore.values.types import Column, Schema, Type, of_numbers
from pagestore.versions.catalog import MAIN, Catalog, listed
from pagestore.versions.handle import Handle
from pagestore.versions.locks import Pin
from pagestore.versions.store_state import Version
from pagestore.versions.working_trees import WorkingTrees


class Snapshot(Mapping[str, Relation]):
    """A mapping from relation names to relations, in one version. Close it, or use it in `with`."""

    _open = False  # until it is made

    def __init__(self, handle: Handle, version: Version, pages: Pages, pin: Pin):
        self._handle, self._version, self._pin = handle, version, pin
        self._readable = _readable(handle, version.version, pages, pin)
        self._trees: dict[str, Tree] = {}  # cached trees by relation
        self._finders: dict[str, RecordFinder] = {}  # cached finders by relation
        self._open = True
        # no cycle: see __del__
        self.dictionary = Dictionary(self._readable, version.trees, handle.mapping)

    @property
    def version(self) -> int:
        """The number of the version."""
        return self._version.version

    @property
    def timestamp(self) -> datetime:
        """When the version was committed."""
        return moment(self._version.timestamp)

    @property
    def message(self) -> str:
        """The message that the version was committed with."""
        return self._version.message

    @property
    def pages(self) -> Pages:
        """The page map, for kernels.

        Raises ClosedError once the snapshot or its store is closed, ForkError after a fork.
        """
        return self._readable()

    @property
    def threads(self) -> int:
        """The number of threads that look many keys up."""
        return self._handle.threads

    @property
    def properties(self) -> dict[str, str | bytes]:
        """What the host stores in addition to its relations; a copy."""
        return dict(self._version.catalog.properties)

    def tree(self, name: str) -> Tree:
        """Return the tree of words of a relation, or a hidden tree."""
        tree = self._trees.get(name)
        if tree is None:
            tree = self._trees[name] = self._version.trees[self._info(name).spec.tree_id]
        return tree

    def remembered(self, tree: Tree) -> dict[Any, Any]:
        """A new dict: what a host remembers of a tree is kept for transactions and sketches."""
        return {}

    def finder(self, name: str) -> RecordFinder:
        """Return a finder of single keys in a relation."""
        finder = self._finders.get(name)  # none are left once the snapshot is closed
        if finder is None or not self._handle.mapping.valid:
            finder = self._finders[name] = RecordFinder(self._readable(), self.tree(name))
        return finder

    def __getitem__(self, name: str) -> Relation:
        return Relation(self, self._info(name))

    def __contains__(self, name: object) -> bool:
        return name in self._version.catalog.relations

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the relations, without hidden trees of words."""
        relations = self._version.catalog.relations
        # a list, which is many times faster than what calls a function for each
        return iter([info.name for info in relations.values() if info.schema is not None])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def encode(self, type_: str | Type, values: Any) -> np.ndarray:
        """Encode values as words int64[n]; a text that the store does not have becomes 0, which
        no record holds.
        """
        return encode(Column("value", Type.parse(type_)), values, self.dictionary)

    def decode(self, type_: str | Type, words: np.ndarray) -> pa.Array:
        """Decode words int64[n] as an Arrow array."""
        return decode(Type.parse(type_), words, self.dictionary)

    def close(self) -> None:
        """Release the version. Idempotent."""
        if self._open:
            self._open = False
            self._finders.clear()
            self._handle.unpin(self._pin)

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        """Release the version, unless something still reads it, such as its dictionary."""
        # then modules may not exist any more, and locks end with the process
        if self._open and not is_finalizing():
            handle = self._handle
            self.__dict__.clear()
            handle.unlock_unread()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as (path, version); unpickling opens the store anew."""
        self._handle.check_shared()
        return _reopened, (str(self._handle.file.path), self.version)

    def _repr_html_(self) -> str:
        found = [(name, self[name]) for name in self._shown]
        rows = [(name, r.schema, ", ".join(r.schema.key), f"{len(r):,}") for name, r in found]
        caption = f"{self._handle.file.path}, version {self.version}"
        return html_table(
            caption, [("relation", ""), ("columns", ""), ("key", ""), ("rows", "")], rows
        )

    def __repr__(self) -> str:
        return printable(
            f"<snapshot of {self._handle.file.path}, version {self.version}: "
            f"{', '.join(self._shown)}>"
        )

    @property
    def _shown(self) -> list[str]:
        """The names of relations, without those that hosts keep for themselves."""
        return listed([*self])

    def _info(self, name: str) -> Any:
        info = self._version.catalog.relations.get(name)
        if info is None:
            known = ", ".join(self._shown) or "none"
            raise MissingError(f"version {self.version} has no relation {name!r}; it has {known}")
        return info


def _readable(handle: Handle, version: int, pages: Pages, pin: Pin) -> Callable[[], Pages]:
    """Return a function that returns the page map while the version is pinned. It raises
    ClosedError, ForkError.
    """

    mapping = handle.mapping

    def read() -> Pages:
        if pin.over:
            how = "shows a commit that failed" if pin.lost else "is closed"
            raise ClosedError(f"the snapshot of version {version} {how}; take another")
        if not mapping.valid:
            handle.check()
        return pages

    return read


def catalog_of(source: Snapshot | WorkingTrees) -> Catalog:
    """Return the catalog of a snapshot, the same object as long as no commit changes it, or that of
    a transaction, as it is by now.
    """
    return source._version.catalog if isinstance(source, Snapshot) else source.catalog


def newest_snapshot(handle: Handle, branch: str = MAIN) -> Snapshot:
    """See Store.snapshot."""
    while True:
        for state in handle.shown_states():
            head = state.heads.get(handle.branch_id(branch))
            snapshot = take_snapshot(handle, head.version) if head else None
            if snapshot is not None:  # an empty one is falsy
                return snapshot


def snapshot_at(handle: Handle, version: int | str | datetime) -> Snapshot:
    """See Store.at."""
    number = handle.number(version)
    snapshot = take_snapshot(handle, number)
    if snapshot is None:
        raise VersionError(
            f"version {number} is not retained; store.history() lists those that are, retain= and "
            f"tags keep more"
        )
    return snapshot


def take_snapshot(handle: Handle, number: int) -> Snapshot | None:
    """Return a snapshot of a version, or None if it was dropped."""
    pin = handle.pin(number)
    if pin is None:
        return None
    version = None
    try:
        version = handle.version_of(number)
        return Snapshot(handle, version, handle.mapping.pages, pin) if version else None
    finally:
        if version is None:
            handle.unpin(pin)


def moment(timestamp: int) -> datetime:
    """Return the time of a commit from microseconds since 1970."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=timestamp)


def _reopened(path: str, version: int) -> Snapshot:
    return snapshot_at(
        Handle(File(path, writable=False), "r", threads=os.cpu_count() or 1), version
    )


CHANGE = "_change_type"


def stream_changes(old: Snapshot, new: Snapshot, relation: str) -> pa.RecordBatchReader:
    """See Store.diff. The snapshots stay open until the stream is read or dropped."""
    schema, batches = changed_batches(old, new, relation)

    def closing() -> Iterator[pa.RecordBatch]:
        yield from batches
        old.close()
        new.close()

    return pa.RecordBatchReader.from_batches(schema, closing())


def with_change_type(schema: pa.Schema) -> pa.Schema:
    """Return the schema of changes of rows of a schema."""
    return schema.append(pa.field(CHANGE, pa.string(), nullable=False))


class Newer(Protocol):
    """A version, or a transaction over an older one, whose page map has the pages of that, too."""

    @property
    def version(self) -> int:
        """The number of the version, or of the one that a commit would make."""

    @property
    def pages(self) -> Pages:
        """The page map."""

    def __getitem__(self, name: str, /) -> Relation:
        """Return a relation."""

    def __contains__(self, name: object, /) -> bool:
        """Return whether there is a relation of that name."""


def changed_batches(
    old: Snapshot, new: Newer, relation: str
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the changes of a relation between two versions, and their schema; see Store.diff."""
    before, after = old[relation], new[relation]
    columns = columns_of_both(before, after)
    if columns is None:
        raise SchemaError(
            f"{relation!r} was made anew between version {old.version} ({before.schema}) and "
            f"version {new.version} ({after.schema}); read both versions instead"
        )
    return with_change_type(columns.arrow), _batches(old, new, relation, columns)


def as_inserted(table: pa.Table) -> pa.Table:
    """Return the rows as insertions."""
    kinds = pa.repeat("insert", table.num_rows)
    return pa.Table.from_arrays([*table.columns, kinds], schema=with_change_type(table.schema))


def changes_table(old: Snapshot, new: Newer, name: str) -> pa.Table:
    """Return the changes of a relation from one version to another; all its rows, if the first does
    not have it.

    Raises MissingError, SchemaError.
    """
    if name not in old:
        return as_inserted(new[name].to_arrow())
    if name in new and old[name].tree == new[name].tree:
        return with_change_type(new[name].schema.arrow).empty_table()
    schema, batches = changed_batches(old, new, name)
    return pa.Table.from_batches(batches, schema)


def columns_of_both(before: Range, after: Range) -> Schema | None:
    """Return columns that the records of two versions of a relation have, null if they may be in
    either.

    None if the relation was made anew with others.
    """
    old, new = before.schema, after.schema
    alike = [
        tuple(c._replace(type=_of_words(c.type)) for c in schema.columns) for schema in (old, new)
    ]
    others = [(side.schema.key, side.info.bag, side.computed_place) for side in (before, after)]
    if alike[0] != alike[1] or others[0] != others[1]:
        return None
    return Schema(
        tuple(a if a.type.nullable else b for a, b in zip(old.columns, new.columns, strict=True)),
        new.key,
    )


def _of_words(column_type: Type) -> Type:
    """Return a type equal for types whose words mean the same values, if they are not null."""
    return column_type if column_type.name == "uint64" else column_type._replace(nullable=False)


def was_made_anew(before: Range, after: Range) -> bool:
    """Return whether a relation has other columns than in an earlier version; it may have been
    dropped in between.
    """
    return before.schema != after.schema or columns_of_both(before, after) is None


def pages_of_both(old: Snapshot, new: Newer) -> Pages:
    """The page map with pages of both snapshots, or of a transaction and its base."""
    if not isinstance(new, Snapshot):
        return new.pages
    return max(old.pages, new.pages, key=lambda pages: len(pages.seen))


def visible_changes(pages: Pages, old: Tree, new: Tree, visible: int) -> Iterator[Edits]:
    """Yield the difference of two trees in the first words of their records: actions int64[n],
    words int64[visible, n].

    A change of only the hidden words, such as how often a row of a view is derived, is left out. An
    erasure and the insertion at its key are in one batch.
    """
    held: Edits | None = None  # an erasure at the end of a batch, whose key the next one may insert
    for actions, words in Delta(pages, old, new):
        words = words[:visible]
        if held is not None:
            actions = np.concatenate([held[0], actions])
            words = np.concatenate([held[1], words], axis=1)
        end = len(actions) - int(actions[-1] == ERASE)
        held = (actions[end:], words[:, end:]) if end < len(actions) else None
        if end:
            yield from _unlike(actions[:end], words[:, :end])
    if held is not None:
        yield held


def changes_between(pages: Pages, before: Range, after: Range) -> Iterator[Edits]:
    """Yield the difference of two versions of a relation: actions int64[n], words int64[columns,
    n].

    O(changes), or O(rows) if it was dropped and made again with other words in a record that nobody
    sees.
    """
    bag, visible = after.info.bag, len(after.schema.columns) + after.info.bag
    if before.info.spec.columns != after.info.spec.columns:
        changes = _of_all_rows(pages, before.tree, after.tree, visible, len(after.schema.key))
        return starmap(row_changes, changes) if bag else changes
    if visible == after.info.spec.columns and not bag and after.computed_place is None:
        # without hidden words, every change is visible
        return iter(Delta(pages, before.tree, after.tree))
    changes = visible_changes(pages, before.tree, after.tree, visible)
    return starmap(row_changes, changes) if bag else changes


def _of_all_rows(pages: Pages, old: Tree, new: Tree, visible: int, keys: int) -> Iterator[Edits]:
    """Yield the difference of two trees in the first words of records, key first."""
    sides = [(ERASE, old), (INSERT, new)]
    parts = [
        (np.full(words.shape[1], action), words)
        for action, tree in sides
        for words in read_batches(pages, tree, columns=tuple(range(visible)))
    ]
    if parts:
        actions, words = one_batch(parts)
        order = np.lexsort((-actions, *words[:keys][::-1]))
        yield from _unlike(actions[order], words[:, order])


def _unlike(actions: np.ndarray, words: np.ndarray) -> Iterator[Edits]:
    """Yield the edits without erasures that the next insertion restores; nothing if none are left."""
    taken = (actions[:-1] == ERASE) & (actions[1:] == INSERT)
    if not taken.any():
        yield actions, words
        return
    back = np.flatnonzero(taken & (words[:, :-1] == words[:, 1:]).all(axis=0))
    there = np.ones(len(actions), bool)
    there[back], there[back + 1] = False, False
    if there.any():
        yield (actions, words) if there.all() else (actions[there], words[:, there])


def _batches(old: Snapshot, new: Newer, relation: str, of_both: Schema) -> Iterator[pa.RecordBatch]:
    pages, before, after = pages_of_both(old, new), old[relation], new[relation]
    side = before if old.version > new.version else after  # its dictionary has the texts of both
    latest = (
        side
        if side.schema == of_both
        else Relation(side._source, side.info._replace(schema=of_both))
    )
    schema, changes = with_change_type(of_both.arrow), changes_between(pages, before, after)
    if latest.sorts_texts:
        changes = _in_order(latest, [*changes])
    for actions, words in changes:
        columns, place = latest.record_batch(words).columns, latest.computed_place
        if place is not None:
            columns[place] = values_of_both(before, after, actions, words)
            changed = pa.array(
                differing(
                    actions, np.delete(words, latest.schema.places[place], axis=0), columns[place]
                )
            )
            columns = [column.filter(changed) for column in columns]
            actions = actions[changed.to_numpy(False)]
        yield pa.RecordBatch.from_arrays([*columns, _kinds(actions)], schema=schema)
        _ = pages_of_both(old, new)  # raises if one was closed: the pages may have been reused


def differing(actions: np.ndarray, keys: np.ndarray, values: pa.Array) -> np.ndarray:
    """Return which changes are real, bool[n]: those that do not restore an erased computed value
    of the same key.
    """
    rows = [*zip(map(tuple, keys.T.tolist()), values.to_pylist(), strict=True)]
    erased = {row for row, action in zip(rows, actions.tolist(), strict=True) if action == ERASE}
    inserted = {row for row, action in zip(rows, actions.tolist(), strict=True) if action != ERASE}
    both = erased & inserted
    return np.array([row not in both for row in rows], bool)


def values_of_both(before: Range, after: Range, actions: np.ndarray, words: np.ndarray) -> pa.Array:
    """Return the values of a computed column: by the old version for erased records, by the new
    one for the others.
    """
    erased = actions == ERASE
    parts = [
        side.record_batch(words[:, of]).columns[side.computed_place]
        for side, of in ((before, erased), (after, ~erased))
    ]
    order = np.argsort(np.argsort(~erased, kind="stable"))
    return pa.concat_arrays(parts).take(of_numbers(pa.int64(), order))


def _in_order(relation: Range, parts: list[Edits]) -> Iterator[Edits]:
    """Yield changes in the order of the texts in their keys; a changed record's old values
    precede its new ones.
    """
    if parts:
        actions, words = one_batch(parts)
        order = relation.key_order(words)
        rows = batch_rows(len(words))
        for at in range(0, len(order), rows):
            some = order[at : at + rows]
            yield actions[some], words[:, some]


def _kinds(actions: np.ndarray) -> pa.Array:
    """Return "insert" or "delete" for each action, as an Arrow array; both have six letters."""
    letters = np.where(actions == INSERT, b"insert", b"delete")
    ends = letters.itemsize * np.arange(len(letters) + 1, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(letters), [None, pa.py_buffer(ends), pa.py_buffer(letters)]
    )
