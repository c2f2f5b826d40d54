"""An open store as all its parts share it: the file, the newest commit's state, versions that are read and kept.

`Store` is what a user sees of it; a snapshot, a transaction, a vacuum, a check know the handle.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from operator import index
from typing import Any

from .catalog import Catalog
from .errors import (
    ClosedError,
    CorruptionError,
    ForkError,
    LockedError,
    MissingError,
    ReadOnlyError,
    TransactionError,
    VersionError,
)
from .file import EXCLUSIVE, WRITER_LOCK, File
from .history import Entry
from .ledger import Ledger
from .locks import VersionLocks
from .mapping import Run
from .meta import Meta
from .recovery import Recovery, newest_meta, recover, search, verify
from .settings import MAIN_ID
from .state import State, Version, load_state, load_version

VERSIONS_CACHED = 64


class Handle:
    """Threads may share it; a forked process may not."""

    def __init__(
        self, file: File, mode: str = "rw", sync: str = "full", page_size: int | None = None, searched: bool = False,
        threads: int = 1,
    ) -> None:  # fmt: skip
        """As `pagestore.open`; `searched` looks for the newest commit in every page."""
        self.file, self.mode, self.sync, self.threads = file, mode, sync, threads
        self.locks = VersionLocks(file, writer=mode == "rw")
        self.open = False
        self._pid = os.getpid()
        self._guard = threading.RLock()  # of what is remembered
        self._writing = threading.Lock()  # one transaction at a time
        self._writer: int | None = None
        try:
            if mode == "rw" and not file.lock(EXCLUSIVE, WRITER_LOCK):
                raise LockedError(
                    f"{file.path} is being written by another handle or process; close that, or open with mode='r'"
                )
            self._load(page_size, searched)
        except BaseException:
            file.close()
            raise
        self.open = True

    def _load(self, page_size: int | None = None, searched: bool = False) -> None:
        """Read the newest commit from the file."""
        self.recovery: Recovery | None
        found = search(self.file) if searched else recover(self.file, page_size)
        self.meta, self.state, self.mapping, self.recovery = found
        self._searched = searched
        self._doubtful = newest_meta(self.file)  # of a crash, maybe: then `recover` did not take it
        self._catalogs: dict[tuple[Run, int], Catalog] = {}
        self._versions: dict[int, Version] = {}
        self.texts: dict[bytes, int] = {}
        if self.mode == "rw":
            if self.sync == "off":
                self.file.write_mapped(self.meta.page_size)
            self.ledger = Ledger(self.mapping, self.state, self.meta, self.sync, self.locks, self.threads)

    def refresh(self) -> State:
        """The newest commit's state; a reader looks at the file, the writer knows."""
        self.check()
        if self.mode == "rw":
            self.state = self.ledger.state
        if self.mode == "rw" or self._searched:
            return self.state
        with self._guard:
            meta = newest_meta(self.file)
            while meta is not None and meta.sequence != self.state.sequence:
                before = meta
                try:
                    if self._adopt(meta):
                        break
                except CorruptionError:  # the pages were reused while we read: then there is a newer commit
                    meta = newest_meta(self.file)
                    if meta == before == self._doubtful:
                        break  # as `recover` found, until a writer takes the slot
                    if meta is None or meta == before:
                        raise
                else:
                    meta = newest_meta(self.file)
            return self.state

    def _adopt(self, meta: Meta) -> bool:
        """Take a newer commit's state, holding its newest version meanwhile; False if that was too late."""
        if not self.locks.pin(meta.version):
            return False
        try:
            if newest_meta(self.file) != meta:
                return False
            self.mapping.forget()
            state = load_state(self.mapping, meta)
            if meta == self._doubtful:
                verify(self.mapping, state)
            if state.history.tree.count:
                state.history.old(self.mapping.pages)
            self.state, self.meta = state, meta
            return True
        finally:
            self.locks.unpin(meta.version)

    @property
    def version(self) -> int:
        """The newest version of the main branch."""
        return self.refresh().heads[MAIN_ID].version

    @property
    def page_size(self) -> int:
        return self.meta.page_size

    def close(self) -> None:
        """Idempotent; an open transaction is lost."""
        if not self.open:
            return
        mine = os.getpid() == self._pid
        self.open = False
        try:
            if mine and self.mode == "rw":
                self.ledger.close()
        finally:
            self.file.close(unlock=mine)

    def __del__(self) -> None:
        try:  # noqa: SIM105 - at the interpreter's end `suppress` may be gone
            self.close()
        except Exception:  # it was never opened
            pass

    def reopen(self) -> None:
        """See Store.reopen."""
        if self._writer is not None:
            raise TransactionError("a transaction is open; roll it back first")
        with self._writing:
            self._load()

    # --- versions -------------------------------------------------------------------------------

    def version_of(self, number: int) -> Version | None:
        """A retained version, read once."""
        entry = self.state.history.find(self.mapping.pages, number)
        if entry is None:
            return None
        with self._guard:
            loaded = self._versions.get(number)
            if loaded is None:
                loaded = load_version(self.mapping, entry.run, self._catalogs, number)
                self._remember(loaded)
            return loaded

    def _remember(self, version: Version) -> None:
        if len(self._versions) >= VERSIONS_CACHED:
            self._versions.clear()
            self._catalogs.clear()
        self._versions[version.version] = version

    def head(self, branch: int) -> Version:
        """The newest version of a branch."""
        number = self.state.heads[branch].version
        version = self._versions.get(number) or self.version_of(number)
        if version is None:
            raise CorruptionError(f"the newest version of a branch, {number}, is not in the history")
        return version

    def entry(self, version: int) -> Entry:
        """Where the record of a version is. Raises VersionError."""
        entry = self.state.history.find(self.mapping.pages, version)
        if entry is None:
            raise VersionError(f"version {version} is not retained; store.history() lists those that are")
        return entry

    def number(self, version: int | str | datetime) -> int:
        """The number of a version that is said as in `Store.at`, which may be gone. Raises as that."""
        state = self.refresh()
        if isinstance(version, datetime):
            return self._number_at(version)
        if not isinstance(version, str):
            return _retained(version, state.last_version)
        if version in state.settings.tags:
            return state.settings.tags[version]
        if version in state.settings.branches:
            return state.heads[state.settings.branches[version]].version
        known = ", ".join([*state.settings.tags, *state.settings.branches])
        raise MissingError(f"there is no tag or branch {version!r}; there is {known}")

    def _number_at(self, when: datetime) -> int:
        try:
            limit = int(when.timestamp() * 1e6)
        except (OverflowError, ValueError, OSError):
            raise VersionError(f"{when} is out of the range of times that this system knows") from None
        for entry in self.state.history.newest_first(self.mapping.pages):
            if entry.timestamp <= limit and entry.branch == MAIN_ID:
                return entry.version
        raise VersionError(f"no retained version is as old as {when}; store.history() lists those that are there")

    def branch_id(self, name: str) -> int:
        """The number of a branch. Raises MissingError."""
        branches = self.state.settings.branches
        if name not in branches:
            raise MissingError(f"there is no branch {name!r}; there is {', '.join(branches)}")
        return branches[name]

    def pin(self, version: int) -> bool:
        """Keep a version from being dropped; False if that is happening already."""
        self.check()
        if not self.locks.pin(version):
            return False
        self.refresh()  # what was dropped before shows now
        return True

    def unpin(self, version: int) -> None:
        """A snapshot lets a version go."""
        if self.open and os.getpid() == self._pid:
            self.locks.unpin(version)

    @contextmanager
    def holding_all(self) -> Iterator[None]:
        """Keep every retained version that is known from being dropped meanwhile."""
        held: list[int] = []
        try:
            while True:
                state = self.refresh()
                wanted = [entry.version for entry in state.history.readable(self.mapping.pages)]
                held += [version for version in wanted if version not in held and self.pin(version)]
                if self.refresh().sequence == state.sequence or set(wanted) <= set(held):
                    break
            yield
        finally:
            for version in held:
                self.unpin(version)

    # --- writing --------------------------------------------------------------------------------

    def acquire(self) -> None:
        """Become the one that writes, until `ended`; another thread is waited for.

        Raises ReadOnlyError, PoisonedError, TransactionError if this thread writes already.
        """
        self.check_writable()
        if self._writer == threading.get_ident():
            raise TransactionError("this thread has a transaction open; commit it or roll it back first")
        if not self._writing.acquire(blocking=False):
            self._writing.acquire()
            try:
                self.check_writable()  # the other one may have failed
            except BaseException:
                self._writing.release()
                raise
        self._writer = threading.get_ident()

    def ended(self, version: Version | None = None) -> None:
        """What `acquire` began is over; it made a version or none."""
        if version:
            self.state = self.ledger.state
            self._remember(version)
        self._writer = None
        self._writing.release()

    @contextmanager
    def administering(self) -> Iterator[None]:
        """Alone among writers for a change of the store's own affairs."""
        self.acquire()
        try:
            yield
        finally:
            self.ended()

    def administer(self, **changes: Any) -> None:
        """Commit such a change; see Ledger.administer."""
        try:
            self.ledger.administer(**changes)
        except BaseException:
            if not self.ledger.poison:
                self.ledger.pager.rollback()
            raise
        self.state = self.ledger.state

    def check(self) -> None:
        """Raises ClosedError, ForkError."""
        if not self.open:
            raise ClosedError(f"the store {self.file.path} is closed; open it again")
        if os.getpid() != self._pid:
            raise ForkError(f"the handle of {self.file.path} came through a fork; open the store in this process")

    def check_writable(self) -> None:
        """Raises ReadOnlyError, PoisonedError too."""
        self.check()
        if self.mode != "rw":
            raise ReadOnlyError(f'{self.file.path} was opened with mode="r"; open it with mode="rw"')
        self.ledger.check()


def _retained(version: int, newest: int) -> int:
    try:
        number = index(version)
    except TypeError:
        raise VersionError(f"{version!r} is no version; give a number, a tag, a branch or a time") from None
    if not 0 <= number <= newest:
        raise VersionError(f"version {number} is not retained; the newest is {newest}")
    return number
