"""A store: open it, read versions of it, write transactions to it.

with pagestore.open("graph.pages") as store:
    with store.transaction() as txn: ...        one writer at a time
    store.snapshot()["edge"].to_arrow()         any number of readers
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal
from uuid import UUID, uuid4

from pagestore.errors import FormatError, NoStoreError
from pagestore.pages.layout import PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX, PAGE_SIZE_MIN, WORD
from pagestore.printable import printable
from pagestore.relations import snapshot, transaction
from pagestore.relations.changes import Changes, Commits, Differences
from pagestore.relations.prepared import Prepared, PreparedSeries
from pagestore.relations.snapshot import Snapshot
from pagestore.relations.transaction import EphemeralTransaction, Transaction
from pagestore.runtime.lazy import pyarrow as pa
from pagestore.storage import meta as slots
from pagestore.storage.file import File, beside, local_path, read_from, stamped, sweep, written_to
from pagestore.storage.kernels.record import COMMIT
from pagestore.storage.mapping import Run, pages_of_run
from pagestore.storage.meta import Meta
from pagestore.storage.other_files import IN_MEMORY, MemoryFile
from pagestore.storage.pager import NO_ORIGIN
from pagestore.storage.records import word_list
from pagestore.versions.catalog import MAIN, MAIN_ID, retain_number
from pagestore.versions.commit_record import time_now
from pagestore.versions.committer import SYNCS
from pagestore.versions.handle import Handle
from pagestore.versions.locks import Pin
from pagestore.versions.recovery import Recovery
from pagestore.versions.store_state import FIRST_COMMIT

if TYPE_CHECKING:
    from pagestore.admin.history import VersionInfo
    from pagestore.admin.merge import Merge, OnConflict
    from pagestore.admin.stat import ColumnSize, Reader, Stat
    from pagestore.admin.tree_check import Violation
    from pagestore.admin.vacuum import Compact, Vacuum


Mode = Literal["rw", "r"]
Sync = Literal["full", "commit", "off"]
Retain = int | Literal["all"]


def open(
    path: str | os.PathLike[str],
    mode: Mode = "rw",
    page_size: int | None = None,
    sync: Sync = "full",
    retain: Retain | None = None,
    create: bool = True,
    threads: int | None = None,
    timeout: float = 0.0,
    exclusive: bool = False,
    gather: float = 0.0,
    branch: str = MAIN,
) -> Store:
    """Open a store; create it if the file is missing or empty.

    ":memory:" is a new store without a file, lost when it is closed.

    `mode` is "rw" or "r". Handles of any number of processes may write: each transaction waits for
    those of others, in the order in which they came, and continues from their commits. With
    `exclusive` a handle keeps all others from writing until it is closed, which makes small
    transactions faster. `page_size` is 4096 to 65536, fixed when the store is made; `sync` is
    "full" (two syncs a commit), "commit" (one; the last commit is verified after a crash) or "off"
    (none: fast, and a power cut may lose or damage the store; on ext4 and tmpfs pages are written
    through a map once they are allocated); `retain` is the least number of versions kept of a
    branch, or "all"; older ones are dropped in batches, of half as many but 8 at most, or of 32
    where more than 32 are kept. `threads` threads (one for each core by default) apply large
    batches of edits and look up many keys. Opening waits `timeout` seconds for a handle that is
    exclusive, or, if it is to be exclusive itself, for one that writes.

    Commits of several threads share syncs: each waits for the sync under way, and one more for all
    made until then. Before a sync, `gather` seconds are waited for commits of other threads: fewer
    syncs, and later commits. Methods that are not told a branch mean `branch`.

    After anything but a clean close "rw" writes the newest commit again and syncs it: what a dead
    process wrote may not be on the disk yet. A RecoveryWarning and `store.recovery` report a
    damaged commit or meta slot.

    Raises FormatError, LockedError, CorruptionError, FileNotFoundError, PermissionError,
    MissingError.

    >>> import pagestore
    >>> with pagestore.open(":memory:") as store, store.transaction() as txn:  # or the path of a file
    ...     txn.create("price", "item: string, cents: int64", key=("item",)).insert([("tea", 350)])
    """
    _refuse_misfit(mode, sync, threads, timeout=timeout, gather=gather)
    if retain is not None:
        retain_number(retain)
    path = local_path(path)
    file = _file_of(path, mode, PAGE_SIZE_DEFAULT if page_size is None else page_size, create)
    if path == IN_MEMORY:
        sync, exclusive = "off", True  # there is no disk, and nobody else
    threads = threads or os.cpu_count() or 1
    handle = Handle(file, mode, sync, page_size, threads, timeout, exclusive, gather)
    store = Store(handle, branch)
    try:
        store._handle.branch_id(branch)
    except BaseException:
        store.close()
        raise
    if retain is not None and retain != store.retain:
        store.retain = retain
    if mode == "rw" and file.links() > 1:  # perhaps its creator was killed
        sweep(file.path)
    return store


def _refuse_misfit(mode: str, sync: str, threads: int | None, **seconds: float) -> None:
    """Raise ValueError for options of `open` that have no meaning."""
    if mode not in ("r", "rw"):
        raise ValueError(f'mode={mode!r}: use "r" to read, or "rw" to read and write')
    if sync not in SYNCS:
        raise ValueError(f"sync={sync!r}: use one of {', '.join(map(repr, SYNCS))}")
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise ValueError(f"threads={threads!r}: a number of threads from 1 on")
    for name, given in seconds.items():
        if not isinstance(given, int | float) or given != given:
            raise ValueError(f"{name}={given!r}: a number of seconds, 0 or more")


def _file_of(path: str, mode: Mode, page_size: int, create: bool) -> File:
    """Open the file of a store; with `create`, make one without relations unless it has content."""
    if path == IN_MEMORY:
        if mode == "r" or not create:
            raise ValueError('a store in memory is new: open it with mode="rw" and create=True')
        return MemoryFile(empty_store(page_size))
    try:
        if mode == "rw" and create and not os.path.exists(path):
            with suppress(FileExistsError):
                File.create(path, empty_store(page_size))
        elif mode == "rw" and create and os.path.isfile(path) and not os.path.getsize(path):
            File.fill(path, empty_store(page_size))
        return File(path, mode == "rw")
    except FileNotFoundError as error:
        raise _no_store(error) from None


def _no_store(error: FileNotFoundError) -> NoStoreError:
    """Return the same error as one of this package's family as well."""
    missing = NoStoreError(str(error))
    missing.errno = error.errno
    return missing


def empty_store(page_size: int) -> bytes:
    """Return the bytes of a store without relations: the meta slots, and version 0."""
    fits = isinstance(page_size, int) and PAGE_SIZE_MIN <= page_size <= PAGE_SIZE_MAX
    if not fits or page_size & (page_size - 1):
        raise FormatError(
            f"page_size={page_size!r}: a power of two from {PAGE_SIZE_MIN} to {PAGE_SIZE_MAX}"
        )
    words = FIRST_COMMIT.length() + 10
    run = Run(2, words)
    now = time_now()
    record = replace(
        FIRST_COMMIT,
        timestamp=now,
        top=3,
        recent=word_list([0, *run, now, MAIN_ID]),
        branches=word_list([MAIN_ID, 0, *run, NO_ORIGIN]),
    )
    meta = Meta(page_size, uuid4().bytes, 0, 0, *run, 3, True)
    page_words = page_size // WORD
    [(pages, _)] = stamped(*pages_of_run(run, record.encode(), 0, COMMIT, page_words), page_words)
    out = bytearray(2 * page_size) + pages
    for slot in range(2):
        out[slots.SLOT_SIZE * slot : slots.SLOT_SIZE * slot + slots.SIZE] = meta.pack()
    return bytes(out)


class Store:
    """An open store. Threads may share it; a forked process may not."""

    def __init__(self, handle: Handle, branch: str = MAIN, shared: bool = False) -> None:
        """Take an open handle, which another `Store` closes if it is `shared`, and a branch."""
        self._handle, self._branch, self._is_shared = handle, branch, shared
        self._pin: Pin | None = None  # of the version of a pickled store

    # --- reading --------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The path of the store's file."""
        return self._handle.file.path

    @property
    def threads(self) -> int:
        """The number of threads for large batches."""
        return self._handle.threads

    @property
    def recovery(self) -> Recovery | None:
        """The problems that were found and repaired when the store was opened, if any."""
        return self._handle.recovery

    @property
    def mode(self) -> str:
        """The mode in which the store was opened, "rw" or "r"."""
        return self._handle.mode

    @property
    def page_size(self) -> int:
        """Bytes of a page."""
        return self._handle.page_size

    @property
    def uuid(self) -> str:
        """The identity of this store, independent of its path."""
        return str(UUID(bytes=self._handle.meta.uuid))

    @property
    def version(self) -> int:
        """The newest version of the branch."""
        return self._handle.newest_of(self._branch)

    def snapshot(self, branch: str | None = None) -> Snapshot:
        """Return a snapshot of the newest version of a branch. O(1)."""
        return snapshot.newest_snapshot(self._handle, branch or self._branch)

    def at(self, version: int | str | datetime) -> Snapshot:
        """Return a snapshot of a version by number, tag or branch, or of the main branch's newest
        one at a time.

        A time without a zone is local. Raises VersionError if it is not retained, MissingError for
        an unknown name.

        >>> import pagestore
        >>> store = pagestore.open(":memory:")
        >>> with store.transaction() as txn:
        ...     txn.create("price", "item: string, cents: int64", key=("item",)).insert([("tea", 350)])
        >>> store.tag("monday")
        >>> with store.transaction() as txn:
        ...     txn["price"]["tea"] = 400
        >>> list(store.at("monday")["price"]), list(store.at(store.version)["price"])
        ([('tea', 350)], [('tea', 400)])
        """
        return snapshot.snapshot_at(self._handle, version)

    # --- versions -------------------------------------------------------------------------------

    def history(self, limit: int | None = None, branch: str | None = None) -> list[VersionInfo]:
        """Return the retained versions, newest first. O(versions listed)."""
        from pagestore.admin import history

        return history.describe_versions(self._handle, limit, branch)

    @property
    def tags(self) -> dict[str, int]:
        """Tags and their versions."""
        return dict(self._handle.refresh().settings.tags)

    def tag(self, name: str, version: int | str | datetime | None = None) -> None:
        """Tag a version (the newest by default); it is retained as long as it has a tag.

        `version` is given as in `at`. Raises ExistsError, SchemaError, and as `at`.
        """
        from pagestore.admin import history

        with self._handle.administering():
            history.add_tag(self._handle, name, self._branch if version is None else version)

    def untag(self, name: str) -> None:
        """Remove a tag. Raises MissingError."""
        from pagestore.admin import history

        with self._handle.administering():
            history.remove_tag(self._handle, name)

    @property
    def retain(self) -> Retain:
        """The number of versions of each branch that are kept, or "all"; assign to change it."""
        return self._handle.refresh().settings.retain or "all"

    @retain.setter
    def retain(self, retain: Retain) -> None:
        number = retain_number(retain)
        with self._handle.administering():
            self._handle.administer(settings=self._handle.state.settings._replace(retain=number))

    def vacuum(
        self,
        keep_versions: int | None = None,
        drop: Iterable[int] | None = None,
        dry_run: bool = False,
    ) -> Vacuum:
        """Drop versions: all but the newest `keep_versions` of each branch (the store's `retain` by
        default), or those in `drop`. Free pages at the end of the file are cut off.

        Versions that are tagged, read, or the head or origin of a branch are kept: the result lists
        them in `kept`, and naming one in `drop` raises RetainedError. Without `drop`, texts that no
        version holds any more are removed from the dictionary, which makes a version if there are
        any: O(records + changes + pages freed). A `dry_run` does not look for such texts, so it
        leaves out the version that the new one replaces.
        """
        from pagestore.admin import vacuum

        return vacuum.vacuum_store(self._handle, keep_versions, drop, dry_run)

    def compact(self) -> Compact:
        """Rewrite everything to the front of the file, as `bulk` does, and cut the rest off.

        Drops all versions except the newest of each branch and those that are tagged or read, and
        then texts that none of these holds. O(store).
        """
        from pagestore.admin import vacuum

        return vacuum.compact_store(self._handle)

    @property
    def texts_removed(self) -> int:
        """The number of texts removed from the dictionary. While it stays, a text keeps its id."""
        return self._handle.refresh().texts_removed

    def diff(self, a: int | str, b: int | str, relation: str) -> pa.RecordBatchReader:
        """Stream the changes from version a to version b, in key order, as an Arrow stream of the
        relation's columns and `_change_type`, "insert" or "delete"; a changed value is a delete and
        an insert.

        Versions may be numbers, tags or branches, in either order. Raises VersionError,
        MissingError, and SchemaError if the relation's columns differ. Reads O(changes * height)
        pages, or all of them if a scan was added or dropped between the versions, since that builds
        the tree anew.

        >>> import pagestore
        >>> store = pagestore.open(":memory:")
        >>> for row in (1, 2), (1, 3):
        ...     with store.transaction() as txn:
        ...         edge = txn["edge"] if "edge" in txn else txn.create("edge", "x: int64, y: int64")
        ...         edge.insert([row])
        >>> store.diff(store.version - 1, store.version, "edge").read_all().to_pylist()
        [{'x': 1, 'y': 3, '_change_type': 'insert'}]
        """
        return snapshot.stream_changes(self.at(a), self.at(b), relation)

    def changes(
        self,
        relation: str,
        since: int | str | datetime | None = None,
        branch: str | None = None,
        read: Differences | None = None,
    ) -> Changes:
        """Return an iterator over what commits change in a relation, in any process, that waits for
        the next one.

        It begins after version `since`, as named in `at`, or after the newest one; it holds its
        version, so that none of the changes is lost. Commits whose versions were dropped before
        they were read are in one change with the next. Reads as `diff`, and wakes within
        milliseconds of a commit. Raises as `at`, and MissingError.

        A host whose rows are in several relations passes a function `read(old, new, relation)` of
        two snapshots that returns the changes as one table, or None if neither has such rows.

        >>> import pagestore
        >>> with pagestore.open(":memory:") as store:
        ...     with store.transaction() as txn:
        ...         txn.create("edge", "x: int64, y: int64").insert([(1, 2)])
        ...     with store.changes("edge", since=0) as changes:
        ...         change = next(changes)  # or `for change in changes`, or `async for change in changes`
        >>> change.since, change.version, change.rows.to_pylist()
        (0, 1, [{'x': 1, 'y': 2, '_change_type': 'insert'}])
        """
        return Changes(self._handle, relation, since, branch or self._branch, read)

    def commits(
        self, since: int | str | datetime | None = None, branch: str | None = None
    ) -> Commits:
        """Return an iterator over the versions that commits of any process make, that waits for the
        next one.

        It begins after version `since`, as named in `at`, or after the newest one, and wakes as
        `changes` does. Raises as `at`.

        >>> import pagestore
        >>> with pagestore.open(":memory:") as store, store.commits() as commits:
        ...     with store.transaction() as txn:
        ...         _ = txn.create("edge", "x: int64, y: int64")
        ...     next(commits), commits.next(timeout=0)
        (1, None)
        """
        return Commits(self._handle, since, branch or self._branch)

    # --- branches -------------------------------------------------------------------------------

    @property
    def branches(self) -> dict[str, int]:
        """The branches and their newest versions."""
        state = self._handle.refresh()
        return {
            name: state.heads[number].version for name, number in state.settings.branches.items()
        }

    def on(self, branch: str) -> Store:
        """Return this store on another branch, which all methods mean that are not told one. O(1).

        It shares the open file, and closing it does nothing. Raises MissingError.

        >>> import pagestore
        >>> with pagestore.open(":memory:") as store:
        ...     with store.transaction() as txn:
        ...         txn.create("price", "item: string, cents: int64", key="item").insert([("tea", 350)])
        ...     store.branch("trial")
        ...     trial = store.on("trial")
        ...     with trial.transaction() as txn:
        ...         txn["price"]["tea"] = 400
        ...     list(trial.snapshot()["price"]), list(store.snapshot()["price"])
        ([('tea', 400)], [('tea', 350)])
        """
        self._handle.refresh()
        self._handle.branch_id(branch)
        return Store(self._handle, branch, shared=True)

    def branch(self, name: str, from_version: int | str | None = None) -> None:
        """Begin a branch at a version (the newest by default); it shares all pages. O(branches).

        Write to it with `transaction(branch=name)`, or by `on`. With sync="full" a branch on which
        nothing was committed is durable when the next commit is, or the store is closed. Raises
        ExistsError, VersionError.
        """
        from pagestore.admin import history

        with self._handle.administering(late=True):
            start = self._branch if from_version is None else from_version
            history.begin_branch(self._handle, name, start)

    def delete_branch(self, name: str) -> None:
        """Remove a branch and its versions. Raises RetainedError while a tag, a reader, another
        branch or a merge of two that both merged it needs one.
        """
        from pagestore.admin import history

        with self._handle.administering():
            history.delete_branch(self._handle, name)

    def merge(
        self,
        branch: str,
        into: str | None = None,
        on_conflict: OnConflict = None,
        dry_run: bool = False,
        message: str | None = None,
    ) -> Merge:
        """Bring to a branch, in one version, the changes of another since both were last the same.

        Rows are merged by key, and a bag's rows by how often each was added or taken away. A key
        that both sides gave different values is a conflict, which `on_conflict` resolves: "ours"
        or "theirs" keeps the values of one side, "larger" the greater ones, "sum" adds the changes
        of both, and a function of a `Conflict` returns the values, or None to remove the key; or
        a dict has one of these for each relation. What hosts keep, such as views, follows as it
        does any commit; rules stay on the branch on which they were installed, but for those of the
        constraints of tables. Columns that either side added, dropped or renamed are merged, too. With `dry_run`
        nothing is changed: the result has the conflicts, and the changes of relations and views;
        one rule that leaves conflicts is refused as it would be.

        O(changes of both sides * height), at most 2 pages for each change and level; relations made
        on one side, or with other columns, are read in full. Raises MergeError for what is not
        resolved, MissingError, and as a commit; then nothing is changed.

        >>> import pagestore
        >>> store = pagestore.open(":memory:")
        >>> with store.transaction() as txn:
        ...     txn.create("stock", "item: string, n: int64", key="item").insert([("tea", 10), ("pie", 5)])
        >>> store.branch("shop")
        >>> for branch, tea in (("main", 12), ("shop", 7)):
        ...     with store.transaction(branch=branch) as txn:
        ...         txn["stock"]["tea"] = tea
        >>> [conflict[1:5] for conflict in store.merge("shop", dry_run=True).conflicts]
        [(('tea',), (10,), (12,), (7,))]
        >>> merge = store.merge("shop", on_conflict="sum")
        >>> dict(store.snapshot()["stock"])
        {'pie': 5, 'tea': 9}
        """
        from pagestore.admin import merge

        return merge.merge(
            self._handle, branch, into or self._branch, on_conflict, dry_run, message
        )

    def revert(
        self,
        version: int | str,
        branch: str | None = None,
        on_conflict: OnConflict = None,
        dry_run: bool = False,
    ) -> Merge:
        """Take back on a branch what one version changed, in a new version; otherwise as `merge`."""
        from pagestore.admin import merge

        return merge.change_as(
            self._handle, version, branch or self._branch, on_conflict, dry_run, back=True
        )

    def cherry_pick(
        self,
        version: int | str,
        branch: str | None = None,
        on_conflict: OnConflict = None,
        dry_run: bool = False,
    ) -> Merge:
        """Change a branch as one version changed another branch; otherwise as `merge`."""
        from pagestore.admin import merge

        return merge.change_as(self._handle, version, branch or self._branch, on_conflict, dry_run)

    def rebase(
        self,
        branch: str,
        onto: str | None = None,
        on_conflict: OnConflict = None,
        dry_run: bool = False,
    ) -> Merge:
        """Begin a branch anew on the newest version of another, and do there what each version of
        the branch did that the other lacks; otherwise as `merge`.

        Versions that are no longer retained are done together with the next one, and merges of the
        other branch are left out. Raises RetainedError while a tag, a reader or another branch needs
        a version of the branch, and MergeError if it has rules of its own.

        >>> import pagestore
        >>> store = pagestore.open(":memory:")
        >>> with store.transaction() as txn:
        ...     txn.create("price", "item: string, cents: int64", key="item").insert([("tea", 350)])
        >>> store.branch("trial")
        >>> for branch, item in (("trial", "pie"), ("main", "jam")):
        ...     with store.transaction("add " + item, branch) as txn:
        ...         txn["price"][item] = 400
        >>> _ = store.rebase("trial")
        >>> dict(store.snapshot("trial")["price"]), [one.message for one in store.history(2)]
        ({'jam': 400, 'pie': 400, 'tea': 350}, ['add pie', 'add jam'])
        """
        from pagestore.admin import rebase

        return rebase.rebase(self._handle, branch, onto or self._branch, on_conflict, dry_run)

    def pull(
        self,
        other: Store,
        branch: str | None = None,
        into: str | None = None,
        on_conflict: OnConflict = None,
    ) -> Merge:
        """Bring to a branch what a branch of another copy of this store changed; as `merge`.

        A copy is the file copied, or a backup restored. The changes are first made on a branch
        named "BRANCH of FILE", which is then merged into the branch of the same name, or `into`; a
        branch that is not here begins with them. Rules are not pulled. O(changes * height +
        retained versions). Raises MergeError for a store that is not a copy, or has no version in
        common that both retain.

        >>> import pagestore, shutil
        >>> store = pagestore.open("shop.pages")
        >>> with store.transaction() as txn:
        ...     txn.create("price", "item: string, cents: int64", key="item").insert([("tea", 350)])
        >>> _ = shutil.copy(store.path, "laptop.pages")
        >>> laptop = pagestore.open("laptop.pages")
        >>> with laptop.transaction() as txn:
        ...     txn["price"]["pie"] = 500
        >>> _ = store.pull(laptop)
        >>> dict(store.snapshot()["price"]), store.branches
        ({'pie': 500, 'tea': 350}, {'main': 3, 'main of laptop.pages': 2})
        """
        from pagestore.admin import pull

        branch = branch or self._branch
        return pull.pull(self._handle, other._handle, branch, into or branch, on_conflict)

    def push(self, other: Store, branch: str | None = None, into: str | None = None) -> Merge:
        """Bring to a branch of another copy of this store what a branch here changed; otherwise as
        `pull`.

        Raises MergeError if the branch there has changes that this store lacks: pull them first.
        """
        from pagestore.admin import pull

        branch = branch or self._branch
        return pull.pull(other._handle, self._handle, branch, into or branch, push=True)

    # --- copies ---------------------------------------------------------------------------------

    def dump(
        self,
        out: IO[bytes] | str | os.PathLike[str],
        versions: Iterable[int | str] | None = None,
        relations: Sequence[str] | None = None,
    ) -> None:
        """Write versions (the newest by default) and relations (all) to a binary stream or a file;
        see admin/dump.py.

        An existing file is replaced once all is written.
        """
        from pagestore.admin import dump

        with written_to(out, self.path) as stream:
            dump.dump(self._handle, stream, versions, relations)

    def restore(self, source: IO[bytes] | str | os.PathLike[str]) -> list[int]:
        """Read a dump, a binary stream or a file, into this store, which must be empty; return the
        versions made.

        On an error the store is unchanged: a dump of several versions is first restored into a file
        next to it. Raises FormatError, CorruptionError, MissingError; see admin/dump.py.
        """
        from pagestore.admin import dump

        with read_from(source) as stream:
            return dump.restore(self._handle, stream, self._trial)

    @contextmanager
    def _trial(self) -> Iterator[Handle]:
        """Yield an empty store next to this one, which is removed afterwards."""
        if self._handle.file.path == Path(IN_MEMORY):
            with open(
                IN_MEMORY, page_size=self.page_size, retain=self.retain, threads=self.threads
            ) as store:
                yield store._handle
            return
        with beside(self.path) as path:
            path.write_bytes(empty_store(self.page_size))
            with open(path, sync="off", retain=self.retain, threads=self.threads) as store:
                yield store._handle

    def backup(
        self, out: IO[bytes] | str | os.PathLike[str], since: int | str | None = None
    ) -> int:
        """Write the newest version's pages to a binary stream or a file while others read and
        write; see admin/backup.py. An existing file is replaced once all is written.

        With `since`, only pages that are younger than that version, by number or tag, which must be
        retained: tag the version of a backup that later increments build on. Returns the version.
        Raises VersionError, MissingError.
        """
        from pagestore.admin import backup

        with written_to(out, self.path) as stream:
            return backup.write_backup(self._handle, stream, since)

    # --- inspection -----------------------------------------------------------------------------

    def check(self) -> list[Violation]:
        """Return all violations of the store's invariants (see admin/check.py), empty if there are
        none. O(pages).

        If a writer never pauses, those that several passes found.
        """
        from pagestore.admin import check

        return check.check_store(self._handle)

    def stat(self) -> Stat:
        """Measure what uses space: pages by kind, by version, by reader. O(pages)."""
        from pagestore.admin import stat

        return stat.measure_store(self._handle)

    def column_sizes(self) -> list[ColumnSize]:
        """Measure what each column of each relation takes, in the newest version. O(records).

        >>> import pagestore
        >>> with pagestore.open(":memory:") as store:
        ...     with store.transaction() as txn:
        ...         txn.create("ate", "id: int64, meal: string", key="id").insert(
        ...             [(n, "cake") for n in range(1000)]
        ...         )
        ...     [(size.column, size.bits, size.letters) for size in store.column_sizes()]
        [('id', 10.0, 0), ('meal', 0.0, 4)]
        """
        from pagestore.admin import stat

        return stat.measure_columns(self._handle)

    def readers(self) -> list[Reader]:
        """Return the versions that are being read, and by which processes where that is visible."""
        from pagestore.admin import stat

        self._handle.refresh()
        return stat.list_readers(self._handle)

    # --- writing --------------------------------------------------------------------------------

    def transaction(
        self, message: str | None = None, branch: str | None = None, timeout: float | None = None
    ) -> Transaction:
        """Begin a transaction, after those of other threads and processes, waiting `timeout`
        seconds at most if given.

        A transaction that was dropped, or whose thread has died, is rolled back and blocks no
        other. Raises ReadOnlyError, PoisonedError, LockedError after the timeout, MovedError if the
        file was deleted or replaced, SchemaError for a message that is not a text, and
        TransactionError inside another one of this thread.

        >>> import pagestore
        >>> store = pagestore.open(":memory:")
        >>> with store.transaction("first load") as txn:  # commits at the end, and rolls back on an exception
        ...     txn.create("edge", "x: int64, y: int64").insert([(1, 2), (2, 3)])
        >>> [info.message for info in store.history(1)], list(store.snapshot()["edge"])
        (['first load'], [(1, 2), (2, 3)])
        """
        return transaction.begin_transaction(self._handle, message, branch or self._branch, timeout)

    def prepare(self, relation: str, branch: str | None = None) -> Prepared:
        """Return an object that collects edits of a relation, row by row, and commits them as one
        transaction.

        >>> import pagestore
        >>> with pagestore.open(":memory:") as store:
        ...     with store.transaction() as txn:
        ...         _ = txn.create("edge", "x: int64, y: int64")
        ...     put = store.prepare("edge")
        ...     put.insert(1, 2)
        ...     put.insert(2, 3)
        ...     put.commit(), list(store.snapshot()["edge"])
        (2, [(1, 2), (2, 3)])
        """
        branch = branch or self._branch
        begin = partial(self.transaction, branch=branch)

        def edit(txn: Transaction, action: str, rows: list[tuple[Any, ...]]) -> None:
            getattr(txn[relation], action)(rows)

        return (
            PreparedSeries(self, relation, begin, edit) if branch == MAIN else Prepared(begin, edit)
        )

    def owns(self, txn: Transaction, here: bool = False) -> bool:
        """Return whether a transaction, which has not ended, is of this store, and with `here`
        of the branch that it is on.
        """
        return getattr(txn, "_handle", None) is self._handle and not (
            here and txn._branch != self._handle.state.settings.branches.get(self._branch)
        )

    def sketch(self, version: int | str | datetime | None = None) -> EphemeralTransaction:
        """Begin a transaction over a version (the newest by default) that is never committed; see
        relations/transaction.py.

        It neither waits for other transactions nor blocks them. Raises as `at`.
        """
        return transaction.begin_ephemeral(self._handle, version, self._branch)

    def reopen(self) -> None:
        """Return to the last commit on disk, after a failed write or sync. Snapshots stay open."""
        self._handle.reopen()

    def close(self) -> None:
        """Close the store, unless `on` made it; an open transaction is lost. Idempotent."""
        if not self._is_shared:
            self._handle.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as (path, version); unpickled, it is a reader of that version.

        Raises TransactionError for one in memory.
        """
        self._handle.check_shared()
        return _reopened, (str(self.path), self.version)

    def __repr__(self) -> str:
        return printable(
            f"<store {self.path}, version {self.version if self._handle.open else 'closed'}>"
        )


def _reopened(path: str, version: int) -> Store:
    store = open(path, mode="r")
    store._pin = store._handle.pin(version)
    return store
