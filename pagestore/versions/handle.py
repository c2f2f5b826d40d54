"""An open store as its parts share it: the file, the newest commit's state, pinned and cached
versions.

Users see it as `Store`; snapshots, transactions, vacuum and checks use the handle.
"""

import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from datetime import datetime
from math import inf
from threading import current_thread
from typing import Any, TypeVar

from pagestore.errors import (
    ClosedError,
    CorruptionError,
    ForkError,
    MissingError,
    ReadOnlyError,
    RecoveryWarning,
    TransactionError,
    VersionError,
)
from pagestore.runtime.forks import thread_lock
from pagestore.runtime.reports import report_recovery
from pagestore.storage.file import OPEN_LOCK, SHARED, SLOTS_LOCK, UNLOCKED, File
from pagestore.storage.mapping import Run
from pagestore.storage.meta import Meta, sequence_in
from pagestore.storage.other_files import MemoryFile
from pagestore.versions.catalog import Catalog
from pagestore.versions.locks import FileLock, Pin, SyncedCommits, VersionLocks, Writer, WriterQueue
from pagestore.versions.offers import Offers
from pagestore.versions.recovery import Recovery, make_durable, newest_meta, recover, search, verify
from pagestore.versions.shared_syncs import holding, refuse
from pagestore.versions.store_state import StoreState, Version, load_state, load_version
from pagestore.versions.sync_modes import committer_of
from pagestore.versions.version_names import number_of
from pagestore.versions.version_table import Entry, VersionTable

Found = TypeVar("Found")

VERSIONS_CACHED = 64
# seconds between attempts to take the lock of a handle that keeps it, or that closes
OPENING, PAUSE = 0.05, 0.001
CLOSING = 1.0  # seconds that closing another handle may take


class Handle:
    """An open store. Threads may share it; a forked process may not."""

    def __init__(
        self,
        file: File,
        mode: str = "rw",
        sync: str = "full",
        page_size: int | None = None,
        threads: int = 1,
        timeout: float = 0.0,
        exclusive: bool = False,
        gather: float = 0.0,
        searched: bool = False,
    ) -> None:
        """Open as `pagestore.open` does; if `searched`, look for the newest commit in every page."""
        self.file, self.mode, self.sync, self.threads = file, mode, sync, threads
        self.exclusive, self.gather = exclusive, gather
        self.locks = VersionLocks(file, writer=mode == "rw" and exclusive)
        self.open = False
        self._pid = os.getpid()
        self._guard = thread_lock()  # guards the caches
        # the failure after which the newest commit was read from a slot
        self._went_back: BaseException | None = None
        self._file_lock = FileLock(file, Offers(file))
        if not exclusive:
            offers = self._file_lock.offers
            self.locks.unsettled, self.locks.times_of = offers.unsettled, offers.times_of
        self._synced = SyncedCommits(file)
        self.writers = WriterQueue(self._file_lock)
        # the lock that the thread of the next transaction holds already, for it
        self.kept: Writer | None = None
        try:
            if mode == "rw":
                self._lock(timeout)
            with holding(file, SLOTS_LOCK) if self._file_lock.held else nullcontext():
                self._load(page_size, searched)
        except BaseException:
            file.close()
            raise
        self._file_lock.release()
        self.open = True

    def _lock(self, timeout: float) -> None:
        """Take the writer's lock, if it is wanted until the end or free, or wait for a handle that
        keeps it.

        Raises LockedError after `timeout` seconds.
        """
        lock, end = self._file_lock, time.monotonic() + timeout
        self.file.lock(SHARED, OPEN_LOCK)
        while not lock.try_once() and (self.exclusive or lock.is_lasting_elsewhere()):
            if time.monotonic() >= end:
                raise lock.refusal("close that, or open with mode='r'")
            time.sleep(min(OPENING, max(0.0, end - time.monotonic())))
        if self.exclusive:
            lock.keep()
        if self.exclusive or self.sync != "commit":
            refuse(self.file)

    def is_alone(self) -> bool:
        """Return whether no other handle has the file open for writing, as far as that is known."""
        return self.file.locked(OPEN_LOCK, 1) is None

    def _load(self, page_size: int | None = None, searched: bool = False) -> None:
        """Read the newest commit from the file; a writer with the lock makes it durable."""
        self.recovery: Recovery | None
        while True:
            recovered = search(self.file) if searched else recover(self.file, page_size)
            self.meta, self.state, self.mapping, self.recovery = recovered
            self._catalogs: dict[tuple[Run, int], Catalog] = {}
            self._versions: dict[int, Version] = {}
            self._texts: tuple[int, dict[bytes, int]] = 0, {}
            self._searched = searched
            self._doubtful = newest_meta(self.file)  # after a crash `recover` may have rejected it
            if self._file_lock.held or searched or self._is_still_there():
                break
        if self.recovery and self.recovery.problems:
            warnings.warn(f"{self.file.path}: {self.recovery}", RecoveryWarning, stacklevel=4)
        problems = bool(self.recovery and self.recovery.problems)
        if self.mode == "rw":
            self._load_for_writing(problems)
        if self.recovery and not problems and not self.is_alone():
            self.recovery = None  # a writer has it open
        if self.recovery:
            report_recovery(str(self.file.path), str(self.recovery), problems)

    def _load_for_writing(self, problems: bool) -> None:
        if self.sync == "off":
            self.file.write_mapped(self.meta.page_size)
        if (
            self._file_lock.held
            and self.recovery
            and (problems or self.state.sequence not in self._synced)
        ):
            make_durable(self.mapping, self.state, self.meta, problems)
            self._synced.add(self.state.sequence)
            self.meta = self.meta._replace(clean=False)
        self.committer = committer_of(self.sync, self.exclusive)(
            self.mapping,
            self.state,
            self.meta,
            self.sync,
            self.locks,
            self.threads,
            None if self.exclusive else self._synced,
            self._file_lock,
            self.gather,
        )

    def _is_still_there(self) -> bool:
        """Read the version tree with the version pinned; return False if a writer has committed
        since the load.
        """
        pin = self.locks.pin(self.meta.version)
        try:
            if pin is None or newest_meta(self.file) != self._doubtful:
                return False
            if self.state.versions.tree.count:
                self.state.versions.old(self.mapping.pages)
            return True
        except CorruptionError:
            # damaged: reading one of these versions raises
            return newest_meta(self.file) == self._doubtful
        finally:
            if pin:
                self.locks.unpin(pin)

    def refresh(self) -> StoreState:
        """Return the newest commit's state, from memory if it was made here, else from the file."""
        self.check()
        if self._searched:
            return self.state
        if self.mode == "rw" and not self.committer.failure:
            newest = sequence_in(self.mapping.pages.words)
            if self.committer.series:
                self.committer.catch_up()
            # not always so while the writer's lock is held: see _follow
            if self.committer.state.sequence >= newest:
                self._resume()
            if self.state.sequence >= newest:
                return self.state
        return self._read_newest()

    def shown_states(self) -> Iterator[StoreState]:
        """Yield the newest state that readers of all processes see, and then, if it is another,
        that of `refresh`.

        Until a slot leads to a commit of this handle, only this process knows it. The versions of
        the former state may be about to be dropped.
        """
        state = self.refresh()
        ahead = state.sequence > sequence_in(self.mapping.pages.words)
        if ahead and self.mode == "rw" and not self.committer.is_complete:
            newest = newest_meta(self.file)
            if (
                newest is not None
                and newest.sequence < state.sequence
                and newest.version not in self.locks.going
            ):
                with suppress(CorruptionError):  # more was committed meanwhile
                    yield load_state(self.mapping, newest)
        yield state

    def _resume(self) -> None:
        """Adopt the state of this handle's own newest commit, unless a newer one is known."""
        if self.state is not self.committer.state:
            with self._guard:
                state = self.committer.state
                if state.sequence >= self.state.sequence:
                    self.state = state

    def _read_newest(self) -> StoreState:
        """Return the state that the newest slot leads to, after adopting it."""
        with self._guard:
            meta = newest_meta(self.file)
            while meta is not None and (meta.place != self.state.place or self._is_lost):
                if (
                    meta == self._doubtful
                    and meta.sequence < self.state.sequence
                    and not self._goes_back
                ):
                    break  # the other slot is damaged, and its commit was found without it
                before = meta
                try:
                    if self._adopt(meta):
                        break
                except CorruptionError:  # the pages were reused meanwhile: there is a newer commit
                    meta = newest_meta(self.file)
                    if meta == before == self._doubtful:
                        break  # as `recover` found, until a writer overwrites the slot
                    if meta is None or meta == before:
                        raise
                else:
                    meta = newest_meta(self.file)
            return self.state

    @property
    def _goes_back(self) -> bool:
        """Whether a write has failed, so that only what slots lead to can be trusted."""
        return self.mode == "rw" and self.committer.failure is not None

    @property
    def _is_lost(self) -> bool:
        """Whether the newest commit known may be lost: a write has failed, and no slot was read
        since. Another commit may have its number, and its page.
        """
        return self._goes_back and self._went_back is not self.committer.failure

    def _knows(self, state: StoreState) -> bool:
        """Return whether a state is the newest: the newest slot, as the map shows it unverified,
        has its sequence, and other processes show no later commit, to which no slot leads yet.
        """
        shared = self.committer.shared
        if shared is not None and not shared.is_newest(state.last_version):
            return False
        # last: a slot is there before it is hidden
        return sequence_in(self.mapping.pages.words) == state.sequence

    def _follow(self) -> None:
        """Continue from the newest commit of any process, once it is durable; this handle holds the
        writer's lock.

        Until it does, the committer's state may be an old one.
        """
        committer = self.committer
        if committer.shared and committer.shared.shows:
            committer.flush()
        known = committer.is_ready and self._knows(committer.state)
        if self.exclusive or known or not committer.is_complete:
            return
        with self._guard:
            newest = committer.shared.newest() if committer.shared else None
            newer = newest.commit if newest else newest_meta(self.file)
            state, meta = self.state, self.meta
            # else a slot is damaged
            if newer is not None and newer.sequence >= committer.slot_sequence:
                self.mapping.follow()
                state, meta = load_state(self.mapping, newer), newer
            if not (
                committer.shared
                or meta.clean
                or self.sync == "off"
                or state.sequence in self._synced
            ):
                make_durable(self.mapping, state, meta, False)
                self._synced.add(state.sequence)
            if meta is newer:
                committer.follow(state, meta, newest)
                self.state, self.meta = state, meta

    def _adopt(self, meta: Meta) -> bool:
        """Adopt a newer commit's state while its newest version is pinned; return False if a
        writer was faster.
        """
        pin = self.locks.pin(meta.version)
        if pin is None:
            return False
        try:
            if newest_meta(self.file) != meta:
                return False
            self.mapping.forget()
            state = load_state(self.mapping, meta)
            if meta == self._doubtful:
                verify(self.mapping, state)
            if state.versions.tree.count:
                state.versions.old(self.mapping.pages)
            mine = self.mode == "rw" and not self._goes_back
            # else this handle has committed meanwhile
            if state.sequence >= self.state.sequence or not mine:
                if self._goes_back:  # others number their commits and texts as the lost ones were
                    self._forget_versions()
                    self._texts = 0, {}
                    self._went_back = self.committer.failure
                self.state, self.meta = state, meta
            return True
        finally:
            self.locks.unpin(pin)

    def known_texts(self) -> dict[bytes, int]:
        """Return the ids of texts that transactions cache; a new dict after texts were removed
        from the dictionary.
        """
        removed = self.state.texts_removed
        if removed != self._texts[0]:
            self._texts = removed, {}
        return self._texts[1]

    def newest_of(self, branch: str) -> int:
        """Return the newest version of a branch that all readers see. Raises MissingError."""
        state = next(self.shown_states())
        return state.heads[self.branch_id(branch)].version

    @property
    def page_size(self) -> int:
        """Bytes of a page."""
        return self.meta.page_size

    def close(self) -> None:
        """Close the store; an open transaction is lost. Idempotent.

        Waits for a commit or change that another thread is making."""
        mine, was_open = not self.forked, self.open
        self.open = False
        with ExitStack() as held:
            try:
                if mine and self.mode == "rw":
                    held.enter_context(self.committer.syncs.lock)
                    held.enter_context(self.committer.lock)
                    if was_open and not self.committer.cause:
                        self._close_writer()
            finally:
                if mine and self.mode == "rw":
                    self._file_lock.offers.close()
                self.file.close(unlock=mine, unmap=not self.writers.holder)
                lost = (
                    "and what was not committed is lost"
                    if self.mode == "rw"
                    else "and reads no more"
                )
                self.mapping.invalidate(
                    ClosedError, f"the store {self.file.path} was closed, {lost}; open it again"
                )

    def _close_writer(self) -> None:
        if self.committer.series:
            self.committer.series.end()
        self.committer.flush()
        if self._is_last():
            self._follow()
            self.committer.close()

    def _is_last(self) -> bool:
        """Take the writer's lock and return True, unless another handle has the file to write."""
        self.file.lock(UNLOCKED, OPEN_LOCK)
        end = time.monotonic() + CLOSING
        while not self._file_lock.try_once():
            if not self.is_alone() or time.monotonic() >= end:
                return False
            time.sleep(PAUSE)  # another handle is being closed
        return self.is_alone()

    def __del__(self) -> None:
        try:  # noqa: SIM105 - at the interpreter's end `suppress` may no longer exist
            self.close()
        except Exception:  # it was never opened
            pass

    def reopen(self) -> None:
        """See Store.reopen."""
        if self.writers.holder:
            raise TransactionError(
                f"a transaction is open ({self.writers.holder}); roll it back first"
            )
        with self.writing():
            if not self.committer.cause:
                self.committer.flush()
            self._file_lock.busy = False
            with holding(self.file, SLOTS_LOCK):
                self._load()

    # --- versions -------------------------------------------------------------------------------

    def read_versions(self, read: Callable[..., Found], *arguments: Any) -> Found:
        """Return what a method of VersionTable reads in the newest commit's table.  Raises
        CorruptionError.

        No lock keeps that table: if a later commit may have reused its pages meanwhile, that
        commit's table is read.
        """
        while True:
            state, answer = self.state, None
            try:
                answer = read(state.versions, self.mapping.pages, *arguments)
            except CorruptionError:
                if self.refresh() is state:
                    raise
                continue
            is_newest = state.sequence >= sequence_in(self.mapping.pages.words)
            # as `_goes_back`, without a call of it
            failed = self.mode == "rw" and self.committer.failure
            if (is_newest and not failed) or self.refresh() is state:
                return answer

    def newest_first(self) -> Iterator[Entry]:
        """Yield the retained versions from the newest back; reads those in the tree only after
        the recent ones.
        """
        recent = self.state.versions.recent
        yield from reversed(recent)
        for entry in reversed(self.read_versions(VersionTable.old)):
            if not recent or entry.version < recent[0].version:
                yield entry

    def version_of(self, number: int) -> Version | None:
        """Return a retained version, cached; None if it is not retained."""
        entry = self.read_versions(VersionTable.find, number)
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
            self._forget_versions()
        self._versions[version.version] = version

    def _forget_versions(self) -> None:
        self._versions.clear()
        self._catalogs.clear()

    def head(self, branch: int) -> Version:
        """Return the newest version of a branch."""
        number = self.state.heads[branch].version
        version = self._versions.get(number) or self.version_of(number)
        if version is None:
            raise CorruptionError(
                f"the newest version of a branch, {number}, is not in the history"
            )
        return version

    def entry(self, version: int) -> Entry:
        """Return where the record of a version is. Raises VersionError."""
        entry = self.read_versions(VersionTable.find, version)
        if entry is None:
            raise VersionError(
                f"version {version} is not retained; store.history() lists those that are"
            )
        return entry

    def number(self, version: int | str | datetime) -> int:
        """Return the number of a version named as in `Store.at`; it may be dropped already.
        Raises as `Store.at`.
        """
        return number_of(version, self.refresh(), self.newest_first)

    def branch_id(self, name: str) -> int:
        """Return the number of a branch. Raises MissingError."""
        branches = self.state.settings.branches
        if name not in branches:
            raise MissingError(f"there is no branch {name!r}; there is {', '.join(branches)}")
        return branches[name]

    def pin(self, version: int) -> Pin | None:
        """Pin a version, so that it is not dropped while the pin is held; return None if it is
        being dropped.
        """
        self.check()
        pin = self.locks.pin(version)
        if pin:
            self.refresh()  # shows what was dropped before
        return pin

    def unpin(self, pin: Pin) -> None:
        """Release the pin of a version."""
        pin.over = True
        if self.open and not self.forked:
            self.locks.unpin(pin)

    def unlock_unread(self) -> None:
        """Unlock the versions that nothing refers to any more."""
        if self.open and not self.forked:
            self.locks.unlock_unread()

    # --- writing --------------------------------------------------------------------------------

    def new_writer(self) -> Writer:
        """Return what the next transaction of this thread holds the lock by, mostly once
        `lock_writer` has taken it.
        """
        kept = self.kept
        if kept is None or kept.over or kept.thread is not current_thread():
            return Writer()
        self.kept = None
        return kept

    def lock_writer(self, writer: Writer, timeout: float | None = None) -> None:
        """Wait until this thread may write, `timeout` seconds at most, and hold the lock until the
        writer is over.

        Raises ReadOnlyError, PoisonedError, LockedError, TransactionError if this thread writes
        already.
        """
        self.check_writable()
        if writer.taken == inf:
            self.writers.take(writer, timeout, self.committer.flush)
        try:
            self.check_turn()
        except BaseException:
            self.writers.give_back(writer)
            raise

    def check_turn(self) -> None:
        """Continue from the newest commit; the writer before may have failed, or closed."""
        if not self.open:
            self.check()
        committer = self.committer
        committer.check()
        if committer.series:
            committer.series.end()
        if not (self.exclusive or (committer.is_ready and self._knows(committer.state))):
            self._follow()
        self.state = committer.state

    def release_writer(self, writer: Writer) -> None:
        """Release the lock. Idempotent."""
        try:
            self.writers.give_back(writer)
        except BaseException:  # a signal may have raised it before the file's lock was released
            self.writers.release_file()
            raise
        finally:
            if self.mode == "rw" and self.committer.is_following:
                self.committer.flush()

    def complete(self, number: int) -> None:
        """Return once the first `number` commits of this handle are durable."""
        try:
            self.committer.complete(number)
        finally:
            self.writers.release_file()

    def committed(self, version: Version) -> None:
        """Adopt the state of the commit that has just made a version."""
        self.state = self.committer.state
        self._remember(version)

    @contextmanager
    def administering(self, late: bool = False) -> Iterator[None]:
        """Hold the write lock, for a change of the store's own data. What was committed before is
        durable, unless both may be `late` (sync_modes.py).
        """
        self.check_writable()
        with self.writing():
            self.check_turn()
            if not (late and self.committer.is_complete):
                self.committer.flush()
            yield

    @contextmanager
    def writing(self, timeout: float | None = None) -> Iterator[None]:
        """Hold the write lock in the block. Raises LockedError after the timeout, in seconds."""
        writer = Writer()
        try:
            self.writers.take(writer, timeout)
            yield
        finally:
            self.writers.give_back(writer)

    def administer(self, **changes: Any) -> None:
        """Commit a change of the store's own data; see Committer.administer."""
        with self.committer.syncs.lock, self.committer.lock:
            self.check()
            self.committer.administer(**changes)
            self.state = self.committer.state

    @property
    def forked(self) -> bool:
        """Whether this handle came through a fork, and belongs to the parent."""
        return os.getpid() != self._pid

    def check(self) -> None:
        """Raise ClosedError or ForkError if the handle cannot be used."""
        if not self.open:
            raise ClosedError(f"the store {self.file.path} is closed; open it again")
        if self.forked:
            raise ForkError(
                f"the handle of {self.file.path} came through a fork; open the store in this "
                f"process"
            )

    def check_shared(self) -> None:
        """Raise TransactionError for a store in memory, which no other process can open."""
        if isinstance(self.file, MemoryFile):
            raise TransactionError(
                "a store in memory stays in its process; write it to a file with store.backup"
            )

    def check_writable(self) -> None:
        """Raise as `check`, and ReadOnlyError."""
        self.check()
        if self.mode != "rw":
            raise ReadOnlyError(
                f'{self.file.path} was opened with mode="r"; open it with mode="rw"'
            )
