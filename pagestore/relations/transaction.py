"""A transaction: edits that together become one version, or are all discarded.

Edits through relations are buffered in order and applied once per tree, at the latest at the
commit; reading a relation applies its buffer first, so a transaction reads its own writes. Edits of
words (`apply`) are applied at once.

A transaction over a snapshot that is never committed; users call it a sketch.

It begins at any version, in a store opened for reading too, and takes no writer's lock: its pages
are in a temporary file that extends the store's (storage/other_files.py). Queries are answered in
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from logging import DEBUG
from typing import Any

import numpy as np

from pagestore.errors import (
    ClosedError,
    ExistsError,
    MissingError,
    SchemaError,
    TransactionError,
    WordError,
)
from pagestore.pages.layout import Pages
from pagestore.pages.operators import address_of
from pagestore.relations.commit_report import CommitReport
from pagestore.relations.snapshot import Snapshot, changes_table, newest_snapshot, snapshot_at
from pagestore.relations.writable import WritableRelation
from pagestore.runtime import reports
from pagestore.runtime.buffers import tell_of_refusal
from pagestore.runtime.lazy import pyarrow as pa
from pagestore.storage.free_list import FreeList
from pagestore.storage.invalidated import Invalidated
from pagestore.storage.kernels.record import Finish
from pagestore.storage.mapping import Mapping
from pagestore.storage.other_files import OverlayFile
from pagestore.storage.pager import STORE_LINEAGE, Pager, step
from pagestore.storage.records import utf8
from pagestore.trees.build import bulk
from pagestore.trees.folds import rows_of
from pagestore.trees.read import pages_of, read_batches
from pagestore.trees.tree import Spec, Tree
from pagestore.values.codec import NULL, decode, encode, narrowed
from pagestore.values.dictionary import TEXT_TREES
from pagestore.values.dictionary_writer import DictionaryWriter
from pagestore.values.scan_spec import parse_scan, scan_names
from pagestore.values.types import Column, Schema, Type, parse_columns
from pagestore.versions.catalog import MAIN, Info, Settings
from pagestore.versions.handle import Handle
from pagestore.versions.hosts import ALL, let_hosts_follow
from pagestore.versions.kernel_commit import Draft, KernelCommit
from pagestore.versions.locks import Writer
from pagestore.versions.store_state import StoreState, Version
from pagestore.versions.working_trees import WorkingTrees

ENDED: Any = Invalidated(ClosedError, "the transaction has ended; begin another")


class Transaction(WorkingTrees):
    """A transaction in progress. In `with`, it commits on success and rolls back on an exception.

    >>> import pagestore
    >>> store = pagestore.open(":memory:")
    >>> with store.transaction(message="first") as txn:
    ...     edge = txn.create("edge", "x: int64, y: int64")
    ...     edge.insert([(1, 2), (2, 3)])
    >>> list(store.snapshot()["edge"])
    [(1, 2), (2, 3)]
    >>> store.close()
    """

    def __init__(
        self, handle: Handle, writer: Writer, base: Version, branch: int, message: str | None
    ):
        self._handle, self._committer, self._writer = handle, handle.committer, writer
        self._branch, self._message = branch, message or ""
        self._short: KernelCommit | None = None  # a record that was laid out
        self._settings: Settings | None = None  # of the store, if the commit changes them, too
        self._committer.begin(branch)
        state = self._committer.state
        self._begin(
            self._committer.pager,
            base,
            _trees_of(base, state),
            state,
            handle.known_texts(),
            self._committer.reserve,
        )

    # --- relations ------------------------------------------------------------------------------

    def create(
        self,
        name: str,
        schema: str | Schema | pa.Schema,
        key: Iterable[str] | str | None = None,
        scans: Iterable[str] | str = (),
        intervals: tuple[str, str] | None = None,
        hidden: int = 0,
        if_not_exists: bool = False,
        keys_null: bool = False,
        bag: bool = False,
    ) -> WritableRelation:
        """Create an empty relation. Without `key` all columns are the key.

        A `bag` has no key and may hold a row several times: an insertion adds one, a deletion takes
        one away.

        With `keys_null`, columns of the key whose type has a question mark may be null: null is one
        value, the first in the order, and equal to itself.

        With `if_not_exists`, an existing relation with these columns and this key is returned
        unchanged.

        Each record has `hidden` more value words after its columns (such as a support count) that
        only edits of words see.

        `scans` names folds to maintain ("count", "sum:col", "max:col", "argmax:col,other", ...; see
        values/scan_spec.py); `intervals` names two adjacent key columns that are the ends of an
        interval. Raises ExistsError, SchemaError.
        """
        parsed = Schema.parse(
            schema, key if key is None or isinstance(key, str) else tuple(key), keys_null
        )
        if if_not_exists and name in self:
            there = self[name].schema
            if there != parsed:
                raise SchemaError(
                    f"there is a relation {name!r} with other columns or another key: ({there}), "
                    f"key {', '.join(there.key)}; drop it first, or change it"
                )
            return self[name]
        if bag and (key is not None or scans or intervals):
            raise SchemaError(f"{name!r}: a bag has neither a key nor scans nor intervals")
        stored = [column.name for column in parsed.stored]
        scans = [scans] if isinstance(scans, str) else list(scans)
        if intervals:
            if list(intervals) not in [stored[i : i + 2] for i in range(len(parsed.key) - 1)]:
                raise SchemaError(
                    f"intervals={intervals!r}: two neighbouring key columns are wanted"
                )
            types = [str(column.type) for column in parsed.stored if column.name in intervals]
            if types[0] != types[1] or types[0].endswith("?"):
                raise SchemaError(
                    f"intervals={intervals!r}: ends of one type that is never null are wanted, not "
                    f"{' and '.join(types)}"
                )
            if f"max:{intervals[1]}" not in scans:
                scans.append(f"max:{intervals[1]}")
        folds = _rows(scans, parsed)
        values = len(stored) - len(parsed.key) + hidden + bag
        self._create(name, parsed, len(parsed.key), values, folds, intervals, bag)
        return self[name]

    def create_intervals(
        self,
        name: str,
        schema: str | Schema | pa.Schema,
        ends: tuple[str, str],
        key: Iterable[str] | str | None = None,
        scans: Iterable[str] | str = (),
    ) -> WritableRelation:
        """Create an empty interval relation, to `stab`: `ends` are two adjacent key columns, an
        interval's ends.

        Key columns before them divide the intervals into groups, key columns after them distinguish
        equal intervals. Both ends belong to an interval; an interval that ends before it begins
        contains no point. Raises ExistsError, SchemaError.

        >>> import pagestore
        >>> with pagestore.open(":memory:") as store, store.transaction() as txn:
        ...     booked = txn.create_intervals("booked", "room: int64, a: int64, b: int64", ("a", "b"))
        ...     booked.insert([(1, 900, 1030), (1, 1015, 1200), (2, 800, 1800)])
        ...     booked.stab(1, 1000), booked.overlaps(1, 1030, 1100), booked.remove_stabbed([(2, 900)]).num_rows
        ([(1, 900, 1030)], [(1, 900, 1030), (1, 1015, 1200)], 1)
        """
        return self.create(name, schema, key, scans, ends)

    @step
    def add_scan(self, name: str, scan: str) -> None:
        """Maintain one more scan of a relation, which is built anew: O(records). Earlier versions
        do not have it.

        Raises ExistsError, SchemaError, MissingError for an operator that this process has not
        registered.
        """
        info = self._info(name)
        self._grows()
        if info.bag:
            raise SchemaError(
                f"{name!r} is a bag, which has no scans: make a view of it, or a relation with a "
                f"key"
            )
        rows = _rows([scan], self[name].schema)
        if rows_of(info.spec, rows):
            raise ExistsError(f"{name!r} has the scan {scan!r} already")
        self._rebuild(info, info.spec.scans + rows)

    @step
    def drop_scan(self, name: str, scan: str) -> None:
        """Stop maintaining a scan: O(records). Raises MissingError if there is none."""
        info = self._info(name)
        scans = info.spec.scans
        rows = rows_of(info.spec, parse_scan(scan, self[name].schema).rows)
        if rows is None:
            have = ", ".join(scan_names(scans, self[name].schema)) or "none"
            raise MissingError(f"{name!r} has no scan {scan!r}; it has {have}")
        self._rebuild(info, scans[: rows.first] + scans[rows.end :])

    @step
    def drop(self, name: str) -> None:
        """Remove a relation. O(its pages)."""
        info = self._info(name)
        self._buffers.pop(name, None)
        tree = self._trees.pop(info.spec.tree_id)
        if tree.root:
            self.pager.retire_pages(pages_of(self.pages, tree))
        del self._changed_catalog().relations[name]
        self._follow()

    @step
    def add_column(self, name: str, column: str | Column, default: Any) -> WritableRelation:
        """Add a value column, a Column or written `name: type`, that has `default` in all records. O(records).

        The relation is made anew: existing objects for it become invalid, and the new one is
        returned. Earlier versions do not have the column. Raises SchemaError, WordError.
        """
        info, schema = self._columns_of(name)
        (added,) = (column,) if isinstance(column, Column) else parse_columns(column)
        word = int(narrowed(added, encode(added, [default], self.dictionary))[0])
        wider = Schema.parse(
            Schema((*schema.columns, added), schema.key), schema.key, keys_null=True
        )
        rows = (
            np.vstack([batch, np.full(batch.shape[1], word)]) for batch in self._batches_of(name)
        )
        return self._remake(info, wider, rows)

    @step
    def drop_column(self, name: str, column: str) -> WritableRelation:
        """Remove a value column; otherwise as `add_column`. Raises SchemaError for a key column,
        or one of a scan.
        """
        info, schema = self._columns_of(name)
        if column not in schema.names or column in schema.key:
            values = ", ".join(c.name for c in schema.stored[len(schema.key) :]) or "none"
            raise SchemaError(
                f"{column!r} is not a value column of {name!r}: there is {values}; a key stays "
                f"whole"
            )
        place = [c.name for c in schema.stored].index(column)
        left = Schema(tuple(c for c in schema.columns if c.name != column), schema.key)
        return self._remake(
            info, left, (np.delete(batch, place, axis=0) for batch in self._batches_of(name))
        )

    @step
    def refuse_nulls(self, name: str, columns: Sequence[str]) -> None:
        """Make columns not nullable. Reads all records, O(records).

        Raises WordError if one is null, SchemaError for a column of uint64, whose values would have
        other words.
        """
        info, schema = self._columns_of(name)
        stored = [column.name for column in schema.stored]
        places = [stored.index(column) for column in columns]
        for place, column in zip(places, columns, strict=True):
            if schema.stored[place].type.name == "uint64":
                raise SchemaError(
                    f"column {column!r} of {name!r} is {schema.stored[place].type}: make it anew"
                )
        tree = self.tree(name)
        for batch in (
            read_batches(self.pages, tree, columns=tuple(places)) if tree.count and places else ()
        ):
            if (batch == NULL).any():
                raise WordError(f"a column of {', '.join(columns)} of {name!r} is null somewhere")
        narrowed = [
            column._replace(type=column.type._replace(nullable=False))
            if column.name in columns
            else column
            for column in schema.columns
        ]
        self._changed_catalog().relations[name] = info._replace(
            schema=Schema(tuple(narrowed), schema.key)
        )
        self._follow()

    @step
    def rename(self, name: str, new: str) -> None:
        """Rename a relation; existing objects for it become invalid. O(1).

        Earlier versions have it by its old name. Raises ExistsError, MissingError, SchemaError.
        """
        info = self._info(name)
        if new == name:
            return
        self._refuse_name(new, hidden=info.hidden)
        self._flush_all()
        relations = self._changed_catalog().relations
        del relations[name]
        relations[new] = info._replace(name=new)
        self._finders.clear()
        self._follow()

    @step
    def rename_column(self, name: str, column: str, new: str) -> None:
        """Rename a column; existing objects for the relation become invalid. O(1).

        Earlier versions have it by its old name. Raises MissingError, SchemaError.
        """
        info = self._info(name)
        schema = self[name].schema
        if column not in schema.names:
            raise SchemaError(
                f"{name!r} has no column {column!r}: there is {', '.join(schema.names)}"
            )
        columns = tuple(c._replace(name=new) if c.name == column else c for c in schema.columns)
        key = tuple(new if k == column else k for k in schema.key)
        renamed = Schema.parse(Schema(columns, key), key, keys_null=True)
        self._flush_all()
        self._changed_catalog().relations[name] = info._replace(schema=renamed)
        self._relations.pop(name, None)
        self._follow()

    def __getitem__(self, name: str) -> WritableRelation:
        relation = self._relations.get(name)
        if relation is None:
            relation = self._relations[name] = WritableRelation(self, self._info(name))
        return relation

    def declare_maintained(self, *hosts: str) -> None:
        """Declare that the caller maintains these hosts' data, or all (versions/hosts.py)."""
        self.maintained.update(hosts or (ALL,))

    def encode(self, type_: str | Type, values: Any) -> np.ndarray:
        """Encode values as words int64[n], adding new texts to the dictionary."""
        return encode(Column("value", Type.parse(type_)), values, self.dictionary)

    def decode(self, type_: str | Type, words: np.ndarray) -> pa.Array:
        """Decode words int64[n] as an Arrow array."""
        return decode(Type.parse(type_), words, self.dictionary)

    # --- the end --------------------------------------------------------------------------------

    def commit(self) -> int:
        """Commit a version and return its number; if nothing was edited, make none and return the
        newest number.

        After an error the store is unchanged; if that is uncertain, the handle is poisoned. If an
        exception (such as an interrupt) comes after the commit, a note on it gives the version's
        number.
        """
        handle, committer, before = self._handle, self._committer, self._committer.made
        number: int | None = None  # of commits made here
        is_reported = reports.metric is not None or reports.COMMIT.isEnabledFor(DEBUG)
        report = self._report = CommitReport(committer) if is_reported else None
        try:
            try:
                with self.pager.work.lock:
                    made, told = self._make()
            finally:
                version, number = committer.state.last_version, committer.made - before
                self._writer.over = True
                self._end()
            handle.complete(committer.made)
            if report:
                report.finish(made)
            for tell in told:
                tell()
            return made
        except BaseException as error:
            if number is None:  # an interrupt came before that, so the lock is still held
                version, number = committer.state.last_version, committer.made - before
                self.rollback()
            if number and not committer.cause:
                handle.complete(committer.made)
                error.add_note(f"the transaction was committed, as version {version}")
            elif not number:
                tell_of_refusal(error, "a transaction was committed, and nothing of it is stored")
            raise

    def _make(self) -> tuple[int, list[Callable[[], None]]]:
        """Apply buffered edits, let hosts follow, and commit; return the version, and functions
        to call afterwards.
        """
        self._handle.check()
        self.pager.work.check()
        told = let_hosts_follow(self)
        if len(self._buffers) == 1 and self._committer.queues is not None:
            self._flush_last(self._committer.queues)
        for name in list(self._buffers):
            self._flush(name)
        texts: DictionaryWriter | None = self.__dict__.get("dictionary")  # few transactions use it
        if texts:
            texts.settle()
        if self._changed_nothing():
            self._committer.leave()
            return self.base.version, told
        if self._report:
            self._report.count(self.pages, self._catalog, self.base.trees, self._trees)
        version = self._committer.commit(self._draft(), self._short)
        if texts:
            texts.committed()
        self._handle.committed(version)
        return version.version, told

    def _draft(self) -> Draft:
        """Return what is to be committed."""
        texts: DictionaryWriter | None = self.__dict__.get("dictionary")
        return Draft(
            self._branch,
            self._trees,
            self._catalog,
            self.base.catalog,
            self._next_tree,
            texts.next_id if texts else self._texts[0],
            self._message,
            self._rewrite_catalog,
            self._settings,
        )

    def _lay_out(self, page: int, trees: int, checked: np.ndarray) -> Finish | None:
        """Lay out the record of the commit for a kernel that makes its only edits; None if it is
        to be made later.
        """
        texts: DictionaryWriter | None = self.__dict__.get("dictionary")
        if texts and texts.next_id != self._texts[0]:
            return None
        self._short = self._committer.lay_out(self._draft(), page, trees, checked)
        return self._short.finish if self._short else None

    def _changed_nothing(self) -> bool:
        """Return whether no rows were edited: the version would be that before."""
        base = self.base
        if (
            self._edited
            or self._rewrite_catalog
            or not (self._catalog is base.catalog or self._catalog.same_as(base.catalog))
        ):
            return False
        return self._trees == _trees_of(base, self._committer.state)

    def rollback(self) -> None:
        """Discard all changes: every page of the transaction is free again. O(1).

        The next transaction reads the free pages of the last commit anew: O(pages of the store).
        """
        if self._open:
            self._writer.over = True
            self._end()

    def __enter__(self) -> Transaction:
        return self

    def __exit__(self, kind: type | None, *_: object) -> None:
        if not self._open:
            return
        try:
            if kind is None:
                self.commit()
            else:
                self.rollback()
        finally:
            self._writer.over = True

    def __reduce__(self) -> tuple[Any, ...]:
        """Raise TransactionError: the transaction's pages are in this process."""
        raise TransactionError(
            "a transaction stays in its process and is not copied; send a snapshot"
        )

    # --- inside ---------------------------------------------------------------------------------

    def _adopt(self, info: Info) -> None:
        """Create a relation with its info from another store, unless it exists with this info."""
        here = self._catalog.relations.get(info.name)
        if here is not None and here == info:
            return
        if here is not None:
            self.drop(info.name)
        if any(
            other.spec.tree_id == info.spec.tree_id for other in self._catalog.relations.values()
        ):
            raise SchemaError(f"{info.name!r}: another relation has its tree's number")
        self._fitting(info.name, info.spec)
        self._next_tree = max(self._next_tree, info.spec.tree_id + 1)
        self._changed_catalog().relations[info.name] = info
        self._trees[info.spec.tree_id] = Tree.empty(info.spec)

    def _rebuild(self, info: Info, scans: tuple[tuple[int, int], ...]) -> None:
        """Copy a relation's records into a tree with other scans."""
        old, spec = self.tree(info.name), self._fitting(info.name, info.spec._replace(scans=scans))
        if info.intervals and info.schema:
            ends = parse_scan(f"max:{info.intervals[1]}", info.schema)
            if not rows_of(spec, ends.rows):
                raise SchemaError(
                    f"{info.name!r} holds intervals and needs the max scan of their ends"
                )
        with self._atomic():
            self._trees[spec.tree_id] = bulk(
                self.pager, spec, read_batches(self.pages, old) if old.root else ()
            )
            if old.root:
                self.pager.retire_pages(pages_of(self.pages, old))
        self._changed_catalog().relations[info.name] = info._replace(spec=spec)
        self._follow()

    def _columns_of(self, name: str) -> tuple[Info, Schema]:
        """Return a relation and its columns. Raises SchemaError if a host has words after them."""
        info, schema = self._info(name), self[name].schema
        if info.spec.columns != len(schema.columns):
            raise SchemaError(
                f"{name!r} has words of its host's own; change its columns through the host"
            )
        return info, schema

    def _batches_of(self, name: str) -> Iterable[np.ndarray]:
        tree = self.tree(name)
        return read_batches(self.pages, tree) if tree.root else ()

    def _remake(self, info: Info, schema: Schema, rows: Iterable[np.ndarray]) -> WritableRelation:
        """Replace a relation by one with other columns, and the same key and scans."""
        self._grows()
        keys = len(schema.key)
        scans = _rows(scan_names(info.spec.scans, self[info.name].schema), schema)
        spec = self._fitting(
            info.name, Spec(self._next_tree, keys, len(schema.columns) - keys, scans)
        )
        with self._atomic():
            tree = bulk(self.pager, spec, rows)
        self.drop(info.name)
        self._next_tree += 1
        self._changed_catalog().relations[info.name] = info._replace(spec=spec, schema=schema)
        self._trees[spec.tree_id] = tree
        return self[info.name]

    def _end(self) -> None:
        """Release the write lock and everything else."""
        if self._open:
            handle = self._handle
            self._let_go()
            handle.release_writer(self._writer)

    def _let_go(self) -> None:
        """Release everything: no reference left can change what was made."""
        self._open = False
        self.pager = self.dictionary = self._trees = self._buffers = self._relations = (
            self._catalog
        ) = ENDED
        self._handle = self._committer = self.maintained = ENDED


def begin_transaction(
    handle: Handle, message: str | None = None, branch: str = MAIN, timeout: float | None = None
) -> Transaction:
    """See Store.transaction."""
    if message:
        utf8(message, "message")
    writer = handle.new_writer()
    try:
        handle.lock_writer(writer, timeout)
        number = handle.branch_id(branch)
        return Transaction(handle, writer, handle.head(number), number, message)
    except BaseException:
        handle.release_writer(writer)
        raise


def _trees_of(version: Version, state: StoreState) -> dict[int, Tree]:
    """Return the trees that a transaction begins with: a version's, and those of all texts."""
    trees, system = version.trees.copy(), state.system
    for number in TEXT_TREES:
        trees[number] = system[number]
    return trees


def _rows(scans: Iterable[str], schema: Schema) -> tuple[tuple[int, int], ...]:
    """Return the rows of several scans.

    Raises SchemaError for a repeated scan, MissingError for an operator that this process has not
    registered.
    """
    rows: list[tuple[int, int]] = []
    seen = set()
    for text in scans:
        scan = parse_scan(text, schema)
        name = scan.rows
        if not scan.carried:
            raise SchemaError(
                f"scan {text!r}: texts and columns with nulls have no stored scan: fold them "
                f"without one, by scan"
            )
        if name in seen:
            raise SchemaError(f"scan {text!r} occurs twice")
        seen.add(name)
        rows += name
    for code, _ in rows:
        address_of(code)
    return tuple(rows)


class EphemeralTransaction(Transaction):
    """A transaction that leaves nothing behind at its end. Use it in `with`, or roll it back.

    >>> import pagestore
    >>> store = pagestore.open(":memory:")
    >>> with store.transaction() as txn:
    ...     txn.create("edge", "x: int64, y: int64").insert([(1, 2), (2, 3)])
    >>> with store.sketch() as sketch:
    ...     sketch["edge"].insert([(3, 4)])
    ...     len(sketch["edge"]), len(store.snapshot()["edge"]), sketch.changes("edge").to_pylist()
    (3, 2, [{'x': 3, 'y': 4, '_change_type': 'insert'}])
    >>> len(store.snapshot()["edge"])
    2
    >>> store.close()
    """

    def __init__(self, snapshot: Snapshot, state: StoreState):
        self._snapshot = snapshot
        pages, base = snapshot.pages, snapshot._version
        page_size = 8 * pages.page_words
        self._overlay = OverlayFile(snapshot._handle.file, page_size)
        mapping, end = Mapping(self._overlay, page_size), self._overlay.end // page_size
        mapping.cover(end)
        known = min(end, len(pages.seen))
        mapping.pages.seen[:known] = pages.seen[:known]
        pager = Pager(mapping, FreeList(end), snapshot.threads)
        pager.begin(base.version + 1, STORE_LINEAGE, base.version)
        self._writer = Writer()
        self._begin(pager, base, dict(base.trees), state, {}, 0)

    @property
    def pages(self) -> Pages:
        """The page map, for kernels. Raises ClosedError once snapshot or store is closed."""
        _ = self._snapshot.pages
        return super().pages

    def changes(self, relation: str) -> pa.Table:
        """Return what was changed in a relation since the version that this began with, as
        `Store.diff` does.

        All rows of one that was made here.  Raises MissingError, SchemaError for a relation that
        was made anew.
        """
        return changes_table(self._snapshot, self, relation)

    def commit(self) -> int:
        """Raise TransactionError."""
        raise TransactionError(
            "a sketch is never committed; make the changes in store.transaction()"
        )

    def rollback(self) -> None:
        """Discard all changes, and release the version. Idempotent."""
        if self._open:
            self._let_go()
            self._overlay.close()
            self._snapshot.close()

    def __enter__(self) -> EphemeralTransaction:
        return self

    def __exit__(self, *_: object) -> None:
        self.rollback()


def begin_ephemeral(
    handle: Handle, version: int | str | datetime | None, branch: str = MAIN
) -> EphemeralTransaction:
    """See Store.sketch."""
    snapshot = newest_snapshot(handle, branch) if version is None else snapshot_at(handle, version)
    try:
        return EphemeralTransaction(snapshot, handle.state)
    except BaseException:
        snapshot.close()
        raise
