"""A store: open it, read versions of it, write transactions to it.

    with pagestore.open("graph.pages") as store:
        with store.transaction() as txn: ...        one writer at a time
        store.snapshot()["edge"].to_arrow()         any number of readers
"""

import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from . import meta as slots
from .catalog import Catalog
from .errors import (
    ClosedError,
    CorruptionError,
    ForkError,
    FormatError,
    LockedError,
    MissingError,
    ReadOnlyError,
    TransactionError,
    VersionError,
)
from .file import EXCLUSIVE, SHARED, UNLOCKED, VERSION_LOCK, WRITER_LOCK, File
from .layout import PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX, PAGE_SIZE_MIN, WORD
from .ledger import SYNCS, Ledger
from .pager import Mapping, Run, run_arena
from .record import COMMIT
from .recovery import Recovery, newest_meta, recover
from .settings import MAIN, MAIN_ID, retain_number
from .snapshot import Snapshot
from .state import FIRST_COMMIT, Head, State, Version, load_state, load_version
from .transaction import Transaction

VERSIONS_CACHED = 64


def open(
    path: str | os.PathLike[str],
    mode: str = "rw",
    page_size: int | None = None,
    sync: str = "full",
    retain: int | str | None = None,
    create: bool = True,
) -> "Store":
    """Open a store, or make one where there is no file.

    `mode` is "rw" (one handle at a time) or "r"; `page_size` is 4096 to 65536, fixed when the store is made;
    `sync` is "full" (two syncs a commit), "commit" (one; the last commit is verified after a crash) or "off"
    (none: fast, and a power cut may lose or damage the store); `retain` is how many versions of a branch are
    kept, or "all".

    Raises FormatError, LockedError, CorruptionError, FileNotFoundError, PermissionError.
    """
    if mode not in ("r", "rw"):
        raise ValueError(f'mode={mode!r}: "r" or "rw"')
    if sync not in SYNCS:
        raise ValueError(f"sync={sync!r}: one of {', '.join(map(repr, SYNCS))}")
    number = None if retain is None else retain_number(retain)
    if mode == "rw" and create and not os.path.exists(path):
        with suppress(FileExistsError):
            File.create(path, empty_store(page_size or PAGE_SIZE_DEFAULT))
    store = Store(File(path, mode == "rw"), mode, sync, page_size)
    if number is not None and number != store._state.settings.retain:
        store.retain = number
    return store


def empty_store(page_size: int) -> bytes:
    """The bytes of a store without relations: the meta slots, and version 0."""
    if not (PAGE_SIZE_MIN <= page_size <= PAGE_SIZE_MAX and page_size & (page_size - 1) == 0):
        raise FormatError(f"page_size={page_size}: a power of two from {PAGE_SIZE_MIN} to {PAGE_SIZE_MAX}")
    words = FIRST_COMMIT.length() + 10
    run = Run(2, words)
    record = replace(FIRST_COMMIT, recent=[0, *run, 0, MAIN_ID], branches=[MAIN_ID, 0, *run, -1])
    arena = run_arena(run, record.encode(), 0, COMMIT, page_size // WORD)
    meta = slots.Meta(page_size, uuid.uuid4().bytes, 0, 0, *run, 3, True)
    out = bytearray(2 * page_size) + arena.tobytes()
    for slot in range(2):
        out[slots.SLOT_SIZE * slot : slots.SLOT_SIZE * slot + slots.SIZE] = meta.pack()
    return bytes(out)


class Store:
    """An open store. Threads may share it; a forked process may not."""

    def __init__(self, file: File, mode: str = "rw", sync: str = "full", page_size: int | None = None):
        self._file, self._mode, self._sync = file, mode, sync
        self._pid = os.getpid()
        self._guard = threading.RLock()  # the handle's own books
        self._writing = threading.Lock()  # one transaction at a time
        self._writer: int | None = None
        self._texts: dict[bytes, int] = {}
        self._open = False
        try:
            if mode == "rw" and not file.lock(EXCLUSIVE, WRITER_LOCK):
                raise LockedError(
                    f"{file.path} is being written by another process or handle; close that, or open with mode='r'"
                )
            self._load(page_size)
        except BaseException:
            file.close()
            raise
        self._open = True

    def _load(self, page_size: int | None = None) -> None:
        """Read the newest commit from the file."""
        self.recovery: Recovery | None
        self._meta, self._state, self._mapping, self.recovery = recover(self._file, page_size)
        self._catalogs: dict[Run, Catalog] = {}
        self._pins: dict[int, int] = {}
        self._versions: dict[int, Version] = {}
        if self._mode == "rw":
            self._ledger = Ledger(
                self._mapping, self._state, self._meta.top, self._meta.page_size, self._meta.uuid, self._sync
            )
            self._ledger.pins = self._pins

    # --- reading --------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def page_size(self) -> int:
        return self._meta.page_size

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
            if snapshot:
                return snapshot

    def at(self, version: int | str) -> Snapshot:
        """A version by number or tag. Raises VersionError if it is not retained, MissingError for the tag."""
        state = self._refresh()
        if isinstance(version, str):
            if version not in state.settings.tags:
                known = ", ".join(state.settings.tags) or "none"
                raise MissingError(f"there is no tag {version!r}; there is {known}")
            version = state.settings.tags[version]
        snapshot = self._snapshot(version)
        if snapshot is None:
            raise VersionError(
                f"version {version} is not retained; store.history() lists those that are, retain= and tags keep more"
            )
        return snapshot

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
        """Keep a version from being dropped; False if that is happening already or it is long gone."""
        self._check()
        with self._guard:
            count = self._pins.get(version, 0)
            if not count and self._mode == "r" and not self._file.lock(SHARED, VERSION_LOCK + version):
                return False
            self._pins[version] = count + 1
        self._refresh()
        return True

    def _unpin(self, version: int) -> None:
        if not self._open or os.getpid() != self._pid:
            return
        with self._guard:
            self._pins[version] -= 1
            if not self._pins[version]:
                del self._pins[version]
                if self._mode == "r":
                    self._file.lock(UNLOCKED, VERSION_LOCK + version)

    def _refresh(self) -> State:
        """The newest commit's state; a reader looks at the file, the writer knows."""
        self._check()
        if self._mode == "rw":
            return self._state
        with self._guard:
            meta = newest_meta(self._file)
            while meta is not None and meta.sequence != self._state.sequence:
                try:
                    self._state = load_state(self._mapping, meta)
                    self._mapping.forget()
                    self._meta = meta
                    break
                except CorruptionError:  # the pages were reused while we read: there is a newer commit
                    before, meta = meta, newest_meta(self._file)
                    if meta is None or meta.sequence == before.sequence:
                        raise
            return self._state

    def _read_run(self, run: Run) -> np.ndarray:
        return self._mapping.read_run(run)

    def _branch_id(self, name: str) -> int:
        branches = self._state.settings.branches
        if name not in branches:
            raise MissingError(f"there is no branch {name!r}; there is {', '.join(branches)}")
        return branches[name]

    # --- writing --------------------------------------------------------------------------------

    def transaction(self, message: str | None = None, branch: str = MAIN) -> Transaction:
        """Begin a transaction; another thread's is waited for.

        Raises ReadOnlyError, PoisonedError, and TransactionError inside another one of this thread.
        """
        self._check_writable()
        me = threading.get_ident()
        if self._writer == me:
            raise TransactionError("this thread has a transaction open; commit it or roll it back first")
        self._writing.acquire()
        try:
            self._check_writable()
            branch_id = self._branch_id(branch)
            base = self._version(self._state.heads[branch_id].version)
            assert base is not None
            transaction = Transaction(self, base, branch_id, message)
            self._writer = me
            return transaction
        except BaseException:
            self._writing.release()
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
        pins = self._pins
        self._load()
        self._pins.update(pins)

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
