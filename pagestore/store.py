"""A store: open it, read versions of it, write transactions to it.

with pagestore.open("graph.pages") as store:
    with store.transaction() as txn: ...        one writer at a time
    store.snapshot()["edge"].to_arrow()         any number of readers
"""

import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple
from uuid import UUID, uuid4

import numpy as np
import pyarrow as pa

from . import backup, branches, compact, diff, dump, stat, vacuum
from . import meta as slots
from .catalog import Catalog
from .check import Check, Violation
from .compact import Compact
from .errors import (
    ClosedError,
    CorruptionError,
    ExistsError,
    ForkError,
    FormatError,
    LockedError,
    MissingError,
    ReadOnlyError,
    TransactionError,
    VersionError,
)
from .file import EXCLUSIVE, WRITER_LOCK, File, stamped
from .flat import flat
from .history import Entry
from .layout import PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX, PAGE_SIZE_MIN, WORD
from .ledger import SYNCS, Ledger
from .locks import VersionLocks
from .mapping import Run, pages_of_run
from .meta import Meta
from .pager import NO_ORIGIN
from .record import COMMIT, Commit, utf8
from .recovery import Recovery, newest_meta, recover, search, verify
from .settings import MAIN, MAIN_ID, check_name, retain_number
from .sketch import Sketch
from .snapshot import Snapshot, moment
from .stat import Reader, Stat
from .state import FIRST_COMMIT, State, Version, load_state, load_version
from .transaction import Transaction
from .vacuum import Vacuum

VERSIONS_CACHED = 64
CHECK_TRIES = 5


class VersionInfo(NamedTuple):
    """A line of the history."""

    version: int
    timestamp: datetime
    message: str
    branch: str
    parent: int
    tags: tuple[str, ...]


def open(
    path: str | os.PathLike[str],
    mode: str = "rw",
    page_size: int | None = None,
    sync: str = "full",
    retain: int | str | None = None,
    create: bool = True,
    threads: int | None = None,
) -> "Store":
    """Open a store, or make one where there is no file.

    `mode` is "rw" (one handle at a time) or "r"; `page_size` is 4096 to 65536, fixed when the store is made;
    `sync` is "full" (two syncs a commit), "commit" (one; the last commit is verified after a crash) or "off"
    (none: fast, and a power cut may lose or damage the store; on ext4 and tmpfs pages are written through a map
    once they have their places); `retain` is how many versions of a branch are kept at least, or "all"; older ones
    go in batches, of half as many but 8 at most, or of 32 where more than 32 are kept. Large batches of edits are
    applied, and of keys looked up, by so many `threads`, as many as there are cores unless told otherwise.

    Raises FormatError, LockedError, CorruptionError, FileNotFoundError, PermissionError.
    """
    if mode not in ("r", "rw"):
        raise ValueError(f'mode={mode!r}: "r" or "rw"')
    if sync not in SYNCS:
        raise ValueError(f"sync={sync!r}: one of {', '.join(map(repr, SYNCS))}")
    if retain is not None:
        retain_number(retain)
    if mode == "rw" and create and not os.path.exists(path):
        with suppress(FileExistsError):
            File.create(path, empty_store(PAGE_SIZE_DEFAULT if page_size is None else page_size))
    store = Store(File(path, mode == "rw"), mode, sync, page_size, threads=threads or os.cpu_count() or 1)
    if retain is not None and retain != store.retain:
        store.retain = retain
    return store


def empty_store(page_size: int) -> bytes:
    """The bytes of a store without relations: the meta slots, and version 0."""
    fits = isinstance(page_size, int) and PAGE_SIZE_MIN <= page_size <= PAGE_SIZE_MAX
    if not fits or page_size & (page_size - 1):
        raise FormatError(f"page_size={page_size!r}: a power of two from {PAGE_SIZE_MIN} to {PAGE_SIZE_MAX}")
    words = FIRST_COMMIT.length() + 10
    run = Run(2, words)
    now = time.time_ns() // 1000
    record = replace(
        FIRST_COMMIT,
        timestamp=now,
        top=3,
        recent=flat([0, *run, now, MAIN_ID]),
        branches=flat([MAIN_ID, 0, *run, NO_ORIGIN]),
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

    def __init__(
        self,
        file: File,
        mode: str = "rw",
        sync: str = "full",
        page_size: int | None = None,
        searched: bool = False,
        threads: int = 1,
    ):
        self.threads = threads
        self._file, self._mode, self._sync = file, mode, sync
        self._pid = os.getpid()
        self._locks = VersionLocks(file, writer=mode == "rw")
        self._guard = threading.RLock()  # of what the handle remembers
        self._writing = threading.Lock()  # one transaction at a time
        self._writer: int | None = None
        self._open = False
        try:
            if mode == "rw" and not file.lock(EXCLUSIVE, WRITER_LOCK):
                raise LockedError(
                    f"{file.path} is being written by another handle or process; close that, or open with mode='r'"
                )
            self._load(page_size, searched)
        except BaseException:
            file.close()
            raise
        self._open = True

    def _load(self, page_size: int | None = None, searched: bool = False) -> None:
        """Read the newest commit from the file; `searched` looks for it in every page."""
        self.recovery: Recovery | None
        found = search(self._file) if searched else recover(self._file, page_size)
        self._meta, self._state, self._mapping, self.recovery = found
        self._searched = searched
        self._doubtful = newest_meta(self._file)  # of a crash, maybe: then `recover` did not take it
        self._catalogs: dict[tuple[Run, int], Catalog] = {}
        self._versions: dict[int, Version] = {}
        self._texts: dict[bytes, int] = {}
        if self._mode == "rw":
            if self._sync == "off":
                self._file.write_mapped(self._meta.page_size)
            self._ledger = Ledger(self._mapping, self._state, self._meta, self._sync, self._locks, self.threads)

    # --- reading --------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def mode(self) -> str:
        """What the store was opened for, "rw" or "r"."""
        return self._mode

    @property
    def page_size(self) -> int:
        return self._meta.page_size

    @property
    def uuid(self) -> str:
        """What this store is, whatever its file is called."""
        return str(UUID(bytes=self._meta.uuid))

    @property
    def version(self) -> int:
        """The newest version of the main branch."""
        return self._refresh().heads[MAIN_ID].version

    def snapshot(self, branch: str = MAIN) -> Snapshot:
        """The newest version of a branch. O(1)."""
        while True:
            state = self._refresh()
            version = state.heads[self._branch_id(branch)].version
            snapshot = self._snapshot(version)
            if snapshot is not None:  # an empty one is falsy
                return snapshot

    def at(self, version: int | str | datetime) -> Snapshot:
        """A version by number, by tag or branch, or the newest one of the main branch at a time.

        A time without a zone is local. Raises VersionError if it is not retained, MissingError for a name.
        """
        version = self._number(version)
        snapshot = self._snapshot(version)
        if snapshot is None:
            raise VersionError(
                f"version {version} is not retained; store.history() lists those that are, retain= and tags keep more"
            )
        return snapshot

    def _number(self, version: int | str | datetime) -> int:
        state = self._refresh()
        if isinstance(version, datetime):
            return self._number_at(version)
        if not isinstance(version, str):
            if not 0 <= version <= state.last_version:
                raise VersionError(f"version {version} is not retained; the newest is {state.last_version}")
            return version
        if version in state.settings.tags:
            return state.settings.tags[version]
        if version in state.settings.branches:
            return state.heads[state.settings.branches[version]].version
        known = ", ".join([*state.settings.tags, *state.settings.branches])
        raise MissingError(f"there is no tag or branch {version!r}; there is {known}")

    def _number_at(self, when: datetime) -> int:
        limit = int(when.timestamp() * 1e6)
        for entry in self._state.history.newest_first(self._mapping.pages):
            if entry.timestamp <= limit and entry.branch == MAIN_ID:
                return entry.version
        raise VersionError(f"no retained version is as old as {when}; store.history() lists those that are there")

    def _snapshot(self, version: int) -> Snapshot | None:
        """A snapshot of a version, or None if it is gone."""
        if not self._pin(version):
            return None
        try:
            loaded = self._version(version)
        except BaseException:
            self._unpin(version)
            raise
        if loaded is None:
            self._unpin(version)
            return None
        return Snapshot(self, loaded, self._mapping.pages)

    def _version(self, number: int) -> Version | None:
        """A retained version, read once."""
        entry = self._state.history.find(self._mapping.pages, number)
        if entry is None:
            return None
        with self._guard:
            loaded = self._versions.get(number)
            if loaded is None:
                loaded = load_version(self._mapping, entry.run, self._catalogs)
                self._remember(loaded)
            return loaded

    def _remember(self, version: Version) -> None:
        if len(self._versions) >= VERSIONS_CACHED:
            self._versions.clear()
            self._catalogs.clear()
        self._versions[version.version] = version

    def _pin(self, version: int) -> bool:
        """Keep a version from being dropped; False if that is happening already."""
        self._check()
        if not self._locks.pin(version):
            return False
        self._refresh()  # what was dropped before shows now
        return True

    def _unpin(self, version: int) -> None:
        if self._open and os.getpid() == self._pid:
            self._locks.unpin(version)

    def _refresh(self) -> State:
        """The newest commit's state; a reader looks at the file, the writer knows."""
        self._check()
        if self._mode == "rw":
            self._state = self._ledger.state
        if self._mode == "rw" or self._searched:
            return self._state
        with self._guard:
            meta = newest_meta(self._file)
            while meta is not None and meta.sequence != self._state.sequence:
                before = meta
                try:
                    if self._adopt(meta):
                        break
                except CorruptionError:  # the pages were reused while we read: then there is a newer commit
                    meta = newest_meta(self._file)
                    if meta == before == self._doubtful:
                        break  # as `recover` found, until a writer takes the slot
                    if meta is None or meta == before:
                        raise
                else:
                    meta = newest_meta(self._file)
            return self._state

    def _adopt(self, meta: Meta) -> bool:
        """Take a newer commit's state, holding its newest version meanwhile; False if that was too late."""
        if not self._locks.pin(meta.version):
            return False
        try:
            if newest_meta(self._file) != meta:
                return False
            self._mapping.forget()
            state = load_state(self._mapping, meta)
            if meta == self._doubtful:
                verify(self._mapping, state)
            if state.history.tree.count:
                state.history.old(self._mapping.pages)
            self._state, self._meta = state, meta
            return True
        finally:
            self._locks.unpin(meta.version)

    def _read_run(self, run: Run) -> np.ndarray:
        return self._mapping.read_run(run)

    def _branch_id(self, name: str) -> int:
        branches = self._state.settings.branches
        if name not in branches:
            raise MissingError(f"there is no branch {name!r}; there is {', '.join(branches)}")
        return branches[name]

    # --- versions -------------------------------------------------------------------------------

    def history(self, limit: int | None = None, branch: str | None = None) -> list[VersionInfo]:
        """The retained versions, newest first. O(versions listed)."""
        state = self._refresh()
        wanted = None if branch is None else self._branch_id(branch)
        while True:
            entries = (e for e in state.history.newest_first(self._mapping.pages) if wanted in (None, e.branch))
            described = list(islice((info for e in entries if (info := self._described(e))), limit))
            if described or limit == 0 or wanted is not None:
                return described
            state = self._refresh()  # all of them were dropped while they were read

    def _described(self, entry: Entry) -> VersionInfo | None:
        """A line of the history; None if the writer drops the version at this moment."""
        settings = self._state.settings
        try:
            commit = Commit.decode(self._mapping.read_run(entry.run))
            if (commit.version, commit.administrative) != (entry.version, 0):
                raise CorruptionError(f"the record of version {entry.version} is another's", page=entry.page)
        except CorruptionError:
            if self._refresh().history.find(self._mapping.pages, entry.version):
                raise
            return None
        tags = tuple(sorted(tag for tag, version in settings.tags.items() if version == entry.version))
        branch = next((name for name, number in settings.branches.items() if number == entry.branch), "")
        return VersionInfo(entry.version, moment(entry.timestamp), commit.message, branch, commit.parent, tags)

    @property
    def tags(self) -> dict[str, int]:
        """Tags and their versions."""
        return dict(self._refresh().settings.tags)

    def tag(self, name: str, version: int | str | datetime | None = None) -> None:
        """Give a version (the newest by default) a name; it is retained as long as it has one.

        Versions are said as in `at`. Raises ExistsError, SchemaError, and as `at`.
        """
        with self._administering():
            check_name(name, "tag")
            settings = self._state.settings
            if name in settings.tags:
                raise ExistsError(f"tag {name!r} names version {settings.tags[name]} already; untag it first")
            if name in settings.branches:
                raise ExistsError(f"there is a branch {name!r}, which the tag would hide; choose another name")
            number = self._entry(self.version if version is None else self._number(version)).version
            self._administer(settings=settings._replace(tags={**settings.tags, name: number}))

    def untag(self, name: str) -> None:
        """Take a name back. Raises MissingError."""
        with self._administering():
            tags = self.tags
            if name not in tags:
                raise MissingError(f"there is no tag {name!r}; there is {', '.join(tags) or 'none'}")
            del tags[name]
            self._administer(settings=self._state.settings._replace(tags=tags))

    @property
    def retain(self) -> int | str:
        """How many versions of each branch are kept, or "all"; assign to change it."""
        return self._refresh().settings.retain or "all"

    @retain.setter
    def retain(self, retain: int | str) -> None:
        number = retain_number(retain)
        with self._administering():
            self._administer(settings=self._state.settings._replace(retain=number))

    def vacuum(
        self, keep_versions: int | None = None, drop: Iterable[int] | None = None, dry_run: bool = False
    ) -> Vacuum:
        """Drop versions: all but the newest `keep_versions` of each branch (the store's `retain` by default),
        or those in `drop`. Free pages at the end of the file are cut off.

        What is tagged, read, or the head or the origin of a branch stays: it is listed in the answer's
        `kept`, and asking for it by number raises RetainedError. O(pages freed).
        """
        with self._administering():
            return vacuum.run(self, keep_versions, drop, dry_run)

    def compact(self) -> Compact:
        """Write everything anew, as `bulk` does, to the front of the file, and cut the rest off.

        Versions but the newest of each branch and what is tagged or read are dropped. O(store).
        """
        return compact.run(self)

    def diff(self, a: int | str, b: int | str, relation: str) -> pa.RecordBatchReader:
        """What changed from version a to version b, in key order, streaming: an Arrow stream of the
        relation's columns and `_change_type`, "insert" or "delete"; a changed value is a delete and an
        insert.

        Versions may be numbers, tags or branches, in either order. Raises VersionError, MissingError, and
        SchemaError if the relation's columns differ. Pages read: O(changes * height); all of them where a scan
        was added or dropped between the versions, since that builds the tree anew.
        """
        return diff.stream(self.at(a), self.at(b), relation)

    # --- branches -------------------------------------------------------------------------------

    @property
    def branches(self) -> dict[str, int]:
        """The branches and their newest versions."""
        state = self._refresh()
        return {name: state.heads[number].version for name, number in state.settings.branches.items()}

    def branch(self, name: str, from_version: int | str | None = None) -> None:
        """Begin a branch at a version (the newest by default); it shares all pages. O(1).

        Write to it with `transaction(branch=name)`. Raises ExistsError, VersionError.
        """
        with self._administering():
            branches.begin(self, name, from_version)

    def delete_branch(self, name: str) -> None:
        """Remove a branch and its versions. Raises RetainedError while a tag, a reader or another branch
        needs one.
        """
        with self._administering():
            branches.delete(self, name)

    # --- copies ---------------------------------------------------------------------------------

    def dump(
        self,
        out: IO[bytes],
        versions: Iterable[int | str] | None = None,
        relations: Sequence[str] | None = None,
    ) -> None:
        """Write versions (the newest by default) and relations (all) to a binary stream; see dump.py."""
        dump.dump(self, out, versions, relations)

    def restore(self, source: IO[bytes]) -> list[int]:
        """Read a dump into this store, which must be empty; returns the versions made."""
        return dump.restore(self, source)

    def backup(self, out: IO[bytes], since: int | None = None) -> int:
        """Write the newest version's pages to a binary stream while others read and write; see backup.py.

        With `since`, only pages that are younger than that version, which must be retained. Returns the
        version.
        """
        return backup.write(self, out, since)

    # --- inspection -----------------------------------------------------------------------------

    def check(self) -> list[Violation]:
        """All violations of the store's invariants (see check.py), empty when all is well. O(pages).

        Where a writer never pauses, those that were found again and again.
        """
        again: set[tuple[str, int | None]] = set()
        for tried in range(CHECK_TRIES):
            with self._holding_all():
                sequence = self._state.sequence
                violations = Check(self).run()
                if not violations or self._refresh().sequence == sequence:
                    return violations
            found = {(v.invariant, v.page) for v in violations}  # a writer may have reused what was looked at
            again = again & found if tried else found
        return [v for v in violations if (v.invariant, v.page) in again]

    def stat(self) -> Stat:
        """What holds space: pages by kind, by version, by reader. O(pages)."""
        readers = self.readers()
        with self._holding_all():
            return stat.of(self, readers)

    def readers(self) -> list[Reader]:
        """The versions that are being read now, and by which processes where that can be seen."""
        self._refresh()
        return stat.readers(self)

    @contextmanager
    def _holding_all(self) -> Iterator[None]:
        """Keep every retained version that is known from being dropped meanwhile."""
        held: list[int] = []
        try:
            while True:
                state = self._refresh()
                wanted = [entry.version for entry in state.history.readable(self._mapping.pages)]
                held += [version for version in wanted if version not in held and self._pin(version)]
                if self._refresh().sequence == state.sequence or set(wanted) <= set(held):
                    break
            yield
        finally:
            for version in held:
                self._unpin(version)

    @contextmanager
    def _administering(self) -> Iterator[None]:
        """Alone among writers for a change of the store's own affairs."""
        self._check_writable()
        if self._writer == threading.get_ident():
            raise TransactionError("a transaction of this thread is open; commit it or roll it back first")
        with self._writing:
            self._check_writable()
            yield

    def _administer(self, **changes: Any) -> None:
        try:
            self._ledger.administer(**changes)
        except BaseException:
            if not self._ledger.poison:
                self._ledger.pager.rollback()
            raise
        self._state = self._ledger.state

    def _entry(self, version: int) -> Entry:
        entry = self._state.history.find(self._mapping.pages, version)
        if entry is None:
            raise VersionError(f"version {version} is not retained; store.history() lists those that are")
        return entry

    # --- writing --------------------------------------------------------------------------------

    def transaction(self, message: str | None = None, branch: str = MAIN) -> Transaction:
        """Begin a transaction; another thread's is waited for.

        Raises ReadOnlyError, PoisonedError, SchemaError for a message that is no text, and TransactionError inside
        another one of this thread.
        """
        self._check_writable()
        if message:
            utf8(message, "message")
        me = threading.get_ident()
        if self._writer == me:
            raise TransactionError("this thread has a transaction open; commit it or roll it back first")
        waited = not self._writing.acquire(blocking=False) and self._writing.acquire()
        try:
            if waited:
                self._check_writable()  # the other one may have failed
            branch_id = self._branch_id(branch)
            head = self._state.heads[branch_id].version
            base = self._versions.get(head) or self._version(head)
            assert base is not None
            transaction = Transaction(self, base, branch_id, message)
            self._writer = me
            return transaction
        except BaseException:
            self._writing.release()
            raise

    def sketch(self, version: int | str | datetime | None = None) -> Sketch:
        """Begin a transaction over a version (the newest by default) that is never committed; see sketch.py.

        It waits for nobody, and nobody for it. Raises as `at`.
        """
        snapshot = self.snapshot() if version is None else self.at(version)
        try:
            return Sketch(snapshot, self._state)
        except BaseException:
            snapshot.close()
            raise

    def _ended(self, version: Version | None) -> None:
        """A transaction is over; it made a version or nothing."""
        if version:
            self._state = self._ledger.state
            self._remember(version)
        self._writer = None
        self._writing.release()

    def reopen(self) -> None:
        """Go back to the last commit that is on disk, after a failed write or sync. Snapshots stay open."""
        if self._writer is not None:
            raise TransactionError("a transaction is open; roll it back first")
        self._load()

    def close(self) -> None:
        """Close the store; an open transaction is lost. Idempotent."""
        if not self._open:
            return
        mine = os.getpid() == self._pid
        self._open = False
        try:
            if mine and self._mode == "rw":
                self._ledger.close()
        finally:
            self._file.close(unlock=mine)

    def __del__(self) -> None:
        try:  # noqa: SIM105 - at the interpreter's end `suppress` may be gone
            self.close()
        except Exception:  # it was never opened
            pass

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple:
        """A handle travels as (path, version): where it arrives it is a reader of that version."""
        return _reopened, (str(self.path), self.version)

    def __repr__(self) -> str:
        return f"<store {self.path}, version {self.version if self._open else 'closed'}>"

    def _check(self) -> None:
        if not self._open:
            raise ClosedError(f"the store {self.path} is closed; open it again")
        if os.getpid() != self._pid:
            raise ForkError(f"the handle of {self.path} came through a fork; open the store in this process")

    def _check_writable(self) -> None:
        self._check()
        if self._mode != "rw":
            raise ReadOnlyError(f'{self.path} was opened with mode="r"; open it with mode="rw"')
        self._ledger.check()


def _reopened(path: str, version: int) -> Store:
    store = open(path, mode="r")
    store._pin(version)
    return store
