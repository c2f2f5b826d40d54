"""Committers of two modes of sync: of "full", whose commits that only begin a branch wait for no
sync, and of "commit", on whose commits other processes may build before a slot leads to them
(shared_syncs.py says how).

    slot 0    commit 6, durable     6              6              commit 10, durable
    slot 1    5                     7: branch a    9: branch b    9
                                    not synced     not synced

With "full" a commit that begins a branch is *late*: its slot is written at once, and it is durable
when the next commit is, or the store is closed. Its record lists its pages, as with "commit", so
that opening after a crash falls back to the other slot if they are not on the disk. Another late
one after it is written to the same slot and lists the pages of both; so the other slot stays, and
what it needs is not overwritten.
"""

import time
from typing import Any

import numpy as np

from pagestore.storage.meta import FORMAT, SLOT_SIZE, Meta, slot_of, unpack
from pagestore.storage.records import rows
from pagestore.versions.commit_record import Commit
from pagestore.versions.committer import Committer
from pagestore.versions.shared_syncs import SHORT, Newest, SharedSyncs
from pagestore.versions.store_state import StoreState

PAGES_MAX = 1 << 8  # pages of commits that may be shown to other processes: each record lists them
LATE_PAGES = 1 << 10  # pages of late commits: each lists all, and none that they freed is reused
WAIT = 0.05  # seconds that showing a commit waits for another thread at most


def committer_of(sync: str, exclusive: bool) -> type[Committer]:
    """Return the committer of a handle, which may keep the writer's lock."""
    if sync == "full":
        return LateCommitter
    return Committer if exclusive or sync == "off" else SharingCommitter


class LateCommitter(Committer):
    """The committer of a handle with sync="full"."""

    late = False  # whether the newest slot was written, and not synced
    _begins = False  # whether a branch is begun

    def administer(self, *given: Any, **changes: Any) -> None:
        """See Committer. A change that begins a branch is late."""
        self._begins = "next_branch" in changes and self.format == FORMAT
        try:
            super().administer(*given, **changes)
        finally:
            self._begins, self.lists = False, False

    def _begin(self, *given: Any, **how: Any) -> None:
        if self.late and sum(map(len, self.group)) > LATE_PAGES:
            self.flush()
        super()._begin(*given, **how)
        self.lists = self._begins

    def _sequence(self) -> int:
        return super()._sequence() + (self._begins and self.late)

    def flush(self) -> None:
        """See Committer; of a branch that is being begun, write the slot."""
        if self.lists and not self.is_complete:
            self._write_slot()
            return
        super().flush()
        if self.late:
            with self.syncs.lock:
                self._sync_late()

    def _write_slot(self) -> None:
        """Write the slot of the newest commit, which a later sync makes durable."""
        state = self.state
        try:
            slot = self.meta(state.commit, state.run, clean=False).pack()
            self.mapping.file.pwrite(slot, SLOT_SIZE * slot_of(state.sequence))
        except BaseException as error:
            self.give_up(error)
            raise
        self._slotted, self.durable, self.late = state, self.made, True
        self.slot_sequence, self.slot_version = state.sequence, state.last_version
        if self.file_lock:
            self.file_lock.busy = False

    def _sync_late(self) -> None:
        """Sync what late commits wrote; another process may have committed since."""
        try:
            self.mapping.file.fdatasync()
        except BaseException as error:
            self.give_up(error)
            raise
        with self.lock:
            self.late, self.group = False, []
            self.pager.free_list.reuse_pending(len(self.pager.free_list.pending))
            if self._synced:
                self._synced.add(self.slot_sequence)

    def _sync_slot(self, slot: bytes, sequence: int, format_: int) -> None:
        super()._sync_slot(slot, sequence, format_)
        self.late = False

    def follow(self, state: StoreState, meta: Meta, newest: Newest | None = None) -> None:
        """See Committer; the other process made late commits durable."""
        self.late = False
        super().follow(state, meta, newest)


class SharingCommitter(Committer):
    """The committer of a handle with sync="commit", which does not keep the writer's lock."""

    shared: SharedSyncs

    def __init__(self, *about: Any) -> None:
        """Take the arguments of Committer, among them `synced` and `file_lock`."""
        super().__init__(*about)
        mapping, _, meta = about[:3]
        assert self._synced and self.file_lock
        self.shared = SharedSyncs(mapping, self._synced, meta.uuid)
        self.file_lock.show, self.file_lock.again = self._show, True
        self.offers, self.file_lock.may_offer = self.file_lock.offers, True
        # the newest commit of another process to which no slot led
        self._followed: StoreState | None = None
        self._overtaken = False  # whether another process has committed since this one did

    @property
    def is_following(self) -> bool:
        """Whether the newest commit is one of another process to which no slot leads."""
        return self.state is self._followed and not self.is_complete

    def go_on(self, state: StoreState, newest: Newest | None) -> bool:
        """See Committer."""
        assert newest
        slot, commit, pending = newest
        record, page_words = state.commit, self.mapping.pages.page_words
        listed = [*rows(record.written, 2), (state.run.page, len(state.run.ids(page_words)))]
        if pending:
            self.group = [np.concatenate([np.arange(first, first + n) for first, n in listed])]
        else:
            self.group = []
        self._followed, self._overtaken = None if commit is slot else state, True
        if self._followed:
            self.next_sequence = commit.sequence + 1
            # else that slot had to be copied first
            if slot_of(self.next_sequence) == slot_of(slot.sequence):
                self.next_sequence += 1
        return commit is not slot

    def _adopt(self, record: Commit, *about: Any) -> None:
        """See Committer; until now nobody can find the commit."""
        if self.taking:
            self.taking(record.version, record.timestamp)
        super()._adopt(record, *about)

    def leave(self) -> None:
        """See Committer; what others offered has changed nothing either."""
        if self.taking:
            self.taking(self.state.last_version, 0)
        super().leave()

    def _show(self) -> bool:
        """Let other processes build on the newest commit; return whether they may.

        It and all others to which no slot leads must free nothing. And it must pay: others wait, or
        have committed since this one last did, so that they will soon do so again.
        """
        lock = self.file_lock
        goes_on = lock and lock.again and lock.left != 1 and time.monotonic() < lock.look
        if goes_on and not self.is_following:
            # the next commit of this process, which is soon, takes less than one of another
            return False
        if not (lock and self.lock.acquire(timeout=WAIT)):  # its holder may wait for the file lock
            return False
        try:
            contended, self._overtaken = self._overtaken or lock.is_awaited(), False
            if self.cause or not (self.is_following or contended) or self.format != FORMAT:
                return False
            frees = self.pager.free_list.pending or self.locks.going
            if frees or sum(map(len, self.group)) > PAGES_MAX:
                return False
            if self.series:
                self.series.end()
            return self.shared.show(self.meta(self.state.commit, self.state.run, clean=False))
        finally:
            self.lock.release()

    def give_up(self, error: BaseException) -> None:
        """See Committer."""
        super().give_up(error)
        self.shared.give_up()

    def _sync_slot(self, slot: bytes, sequence: int, format_: int) -> None:
        shared = self.shared
        if format_ != FORMAT:
            super()._sync_slot(slot, sequence, format_)
        elif self._is_undisturbed(sequence):
            shared.write_slot(slot, sequence)
            shared.synced.add(sequence)
        else:
            meta = unpack(slot)
            assert isinstance(meta, Meta)
            shared.complete(meta)
        if self.file_lock:
            self.file_lock.again = shared.took < SHORT
        if self.offers:
            self.offers.took = shared.took

    def _is_undisturbed(self, sequence: int) -> bool:
        """Return whether nobody else can write a slot now, so that the lock of the slots is not
        needed.

        The writer's lock has been held since before the first commit that is to be made durable.
        Nobody else showed a commit then, so nobody has one to make durable now. And this handle
        itself says that the newest slot is durable.
        """
        shared, lock = self.shared, self.file_lock
        held = lock is not None and lock.held and not shared.shows
        return (
            held and shared.is_quiet and sequence - 1 == self.slot_sequence == shared.synced.newest
        )
