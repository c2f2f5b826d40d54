"""Syncs that several processes share: a process lets others build on its commit before a slot leads
to it.

    A   edits, record, shows it, releases ──▶ waits for the slots ──▶ slot of C, sync ──▶ A, B and C are durable
    B                 builds on A, shows, releases ──▶ waits for the slots ───────────────▶ finds C's slot
    C                                 builds on B, shows, releases ──▶ waits ──────────────▶ finds its slot

Commits are *shown* by a lock on a byte that says their version and the page of their record. So one
whose process has died before it had a slot is no longer shown, and was never made, unless another
one builds on it.

- The lock of the slots is held from writing one until it is durable, so that the other one stays as
  it is. Nobody who holds it waits for the writer's lock, which its holder may keep while it waits
  for the slots.
- Whoever gets it writes a slot for the newest commit that is shown. Its process may die before
  that, and the next writer take the same pages. So the commit is *claimed* first: shown here, too,
  and then looked at again. If it is still shown there, nobody has missed it, and nobody will. A
  claim that came too late is taken back, and the lock of claims keeps writers from looking until
  then.
- The place of the slot, which the commit's sequence says, may be that of the newest slot, which is
  durable and must stay: then a slot for the process's own commit is written. If this has the same
  place, too, the newest slot is copied into the other one first.
- A commit that frees pages is not shown, but made durable under the writer's lock. So all that is
  free by a commit that is shown was free in the last durable one, too.
- If a sync fails, whoever made it marks the newest slot as in doubt before it releases the lock of
  the slots. Until all pages of the file are written again, which takes the writer's lock, nobody
  writes a slot: those that wait for theirs learn that the sync has failed.
- Whoever saw a sync fail may be killed before that. The system tells it to all that have the file
  open, and not to those that open it later: these write again what their first commit lists.
- The record of a commit lists the pages of all those before it that may not be durable. After a
  power cut a slot that leads to any pages that did not reach the disk is noticed, and the other one
  is taken (sync="commit").

Only handles with sync="commit" take part. While others have the file open for writing, nothing is
shown.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EIO
from typing import NamedTuple

import numpy as np

from pagestore.errors import CorruptionError, LockedError
from pagestore.pages.layout import BIRTH, ENTRY_COUNT, HEADER, PAGE_BITS, STAMP, TYPE, WORD
from pagestore.storage.file import (
    CLAIM_LOCK,
    EXCLUSIVE,
    REFUSED_LOCK,
    SHARED,
    SHOWN_LOCK,
    SLOTS_LOCK,
    UNLOCKED,
    Buffer,
    File,
)
from pagestore.storage.mapping import Mapping, Run
from pagestore.storage.meta import SLOT_SIZE, Meta, slot_of, sync_all
from pagestore.storage.system import describe_holders
from pagestore.versions.commit_record import Commit
from pagestore.versions.locks import SyncedCommits
from pagestore.versions.recovery import make_durable, newest_meta, write_again
from pagestore.versions.store_state import load_state

VERSIONS = 1 << 26  # after which the bytes of shown versions repeat
SHORT = 1e-3  # seconds of a sync, below which a process makes several commits in a row
GROWTH = 2  # by which the expected time of a sync may grow with each
# seconds between looks whether commits are still shown, and to wait for that
PAUSE, PATIENCE = 0.001, 10.0


class Newest(NamedTuple):
    """The newest slot, the newest commit, and whether that may not be durable yet: its pages are
    then to be listed.
    """

    slot: Meta
    commit: Meta
    pending: bool


class SharedSyncs:
    """What one handle shows to other processes, and sees of theirs."""

    def __init__(self, mapping: Mapping, synced: SyncedCommits, uuid: bytes) -> None:
        self._mapping, self._file, self.synced, self._uuid = mapping, mapping.file, synced, uuid
        self._shown = (-1, 0)  # the sequence of the commit that is shown here, and its byte
        self._claimed = 0  # the byte of the commit of another handle that is shown here, too
        self._is_new = True  # whether no slot was written since the file was opened
        # whether nobody else showed a commit when the writer's lock was last taken here
        self.is_quiet = False
        # seconds that a sync takes: some take long only since processors are busy
        self.took = SHORT / GROWTH

    @property
    def shows(self) -> bool:
        """Whether a commit of this handle is shown, which may not be durable yet."""
        return self._shown[0] >= 0

    def show(self, commit: Meta) -> bool:
        """Show a commit, made under the writer's lock, which is still held; return False if that
        is not possible.
        """
        self.hide()
        at = _byte_of(commit)
        # before locking: an exception then leaves no unknown lock
        self._shown = commit.sequence, at
        self._file.lock(SHARED, at)
        if self._file.locked(REFUSED_LOCK, 1) is None:  # a later refusal waits until this is hidden
            return True
        self.hide()
        return False

    def hide(self) -> None:
        """Show nothing: what was shown is durable, or given up."""
        if self.shows:
            self._file.lock(UNLOCKED, self._shown[1])
            self._shown = -1, 0

    def give_up(self) -> None:
        """Show nothing, and leave the slots to others, even if a signal came as this was done."""
        self.hide()
        self._leave()
        self._file.lock(UNLOCKED, SLOTS_LOCK)

    def is_newest(self, version: int) -> bool:
        """Return whether no commit after a version is shown, and none by this handle; requires
        the writer's lock.
        """
        return not self.shows and (self._look() or self._shown_after(version) is None)

    def _look(self) -> bool:
        """Note whether any commit of others is shown; requires the writer's lock, so that none
        can be from now on.
        """
        self.is_quiet = self._file.locked(SHOWN_LOCK, VERSIONS << PAGE_BITS) is None
        return self.is_quiet

    def newest(self) -> Newest | None:
        """Return the newest commit; None if no slot can be read. Requires the writer's lock, and
        nothing shown here.
        """
        slot = newest_meta(self._file)
        while slot is not None:
            shown, before = None, slot
            if not self._look():
                with holding(self._file, CLAIM_LOCK, SHARED):
                    shown = self._shown_after(slot.version)
            slot = newest_meta(self._file)
            if slot == before:
                if slot.in_doubt:
                    with holding(self._file, SLOTS_LOCK):
                        self._ensure(slot)
                    slot = slot._replace(in_doubt=False)
                if shown:
                    return Newest(slot, shown, True)
                return Newest(slot, slot, self._is_pending(slot))
        return None

    def _is_pending(self, slot: Meta) -> bool:
        """Return whether the commit of the newest slot is still shown: it freed nothing, but may
        not be durable.

        If it is neither shown nor known to be durable, make it durable.
        """
        if slot.clean or slot.sequence in self.synced:
            return False
        if self._file.locked(_byte_of(slot), 1) is not None:  # it is shown until it is durable
            return True
        with holding(self._file, SLOTS_LOCK):
            self._ensure(slot)
        return False

    def complete(self, meta: Meta) -> None:
        """Make a commit of this handle durable, by a sync of this process or of another one.
        Raises OSError.
        """
        if not (self.shows and self._is_durable(meta)):
            with holding(self._file, SLOTS_LOCK):
                newest = newest_meta(self._file)
                if newest is not None and newest.in_doubt:
                    said = "the sync of another process failed, and with it this commit"
                    raise OSError(EIO, f"{self._file.path}: {said}")
                if newest is not None:
                    self._ensure(newest)
                if newest is None or newest.sequence < meta.sequence:
                    if self._is_new:
                        write_again(self._mapping, load_state(self._mapping, meta))
                        self._is_new = False
                    shown = self._claim_after(meta.version) or meta
                    self.synced.add(
                        self._lead(newest, meta if _in_one_slot(newest, shown) else shown)
                    )
                    self._leave()
        if self._shown[0] <= meta.sequence:
            self.hide()

    def _is_durable(self, meta: Meta) -> bool:
        """Return whether the newest slot leads to a commit or a later one, and is durable, after
        the sync under way.

        All that wait for that sync find out at the same time.
        """
        with holding(self._file, SLOTS_LOCK, SHARED):
            slot = newest_meta(self._file)
            return (
                slot is not None and slot.sequence >= meta.sequence and slot.sequence in self.synced
            )

    def _lead(self, last: Meta | None, commit: Meta) -> int:
        """Write a commit's slot and sync it, if `last` is the newest; return its sequence."""
        file, slot = self._file, slot_of(commit.sequence)
        if last is not None and _in_one_slot(last, commit):
            file.pwrite(last.pack(), SLOT_SIZE * (1 - slot))
            sync_all(file, last)
        self.write_slot(commit.pack(), commit.sequence, commit)
        return commit.sequence

    def write_slot(self, slot: Buffer, sequence: int, shared: Meta | None = None) -> None:
        """Write the slot of a commit and sync it, which must not be in the place of the newest one.

        Raises OSError; if other processes may have shown commits, of which the failed sync lost
        pages, the slot is marked first as in doubt: `shared` says what is in it.
        """
        began = time.monotonic()
        self._file.pwrite(slot, SLOT_SIZE * slot_of(sequence))
        if shared:
            sync_all(self._file, shared)
        else:
            self._file.fdatasync()
        self.took = min(time.monotonic() - began, GROWTH * self.took)

    def _ensure(self, slot: Meta) -> None:
        """Make the commit of the newest slot durable, unless it is known to be. Requires the
        lock of the slots.
        """
        if slot.in_doubt or not (slot.clean or slot.sequence in self.synced):
            make_durable(self._mapping, load_state(self._mapping, slot), slot, False)
            self.synced.add(slot.sequence)

    def _claim_after(self, version: int) -> Meta | None:
        """Claim and return the newest commit after a version that another shows, until `_leave`."""
        while shown := self._shown_after(version):
            with holding(self._file, CLAIM_LOCK):
                self._claimed = at = _byte_of(shown)  # before locking, as in `show`
                self._file.lock(SHARED, at)
                if self._file.locked(at, 1) is not None:
                    # read anew: from now on it stays
                    return self._commit(shown.version, shown.state)
                self._leave()
        return None

    def _leave(self) -> None:
        """Give up the claim, if there is one: a slot leads to the commit, or its process has it."""
        if self._claimed:
            self._file.lock(UNLOCKED, self._claimed)
            self._claimed = 0

    def _shown_after(self, version: int) -> Meta | None:
        """Return the newest commit after a version that another handle shows."""
        first = (version + 1) % VERSIONS
        end = first + VERSIONS // 2
        for low, high in ((0, end - VERSIONS), (first, min(end, VERSIONS))):
            at, top = SHOWN_LOCK + (low << PAGE_BITS), SHOWN_LOCK + (high << PAGE_BITS)
            while (place := self._last_locked(at, top)) is not None:
                number, page = divmod(place - SHOWN_LOCK, 1 << PAGE_BITS)
                if commit := self._commit(version + 1 + (number - first) % VERSIONS, page):
                    return commit
                top = place  # the record was overwritten while the process that shows it slept
        return None

    def _last_locked(self, at: int, end: int) -> int | None:
        """Return the last byte of [at, end) that another handle has locked."""
        last = None
        while at < end and (place := self._file.locked(at, end - at)) is not None:
            last, at = place, place + 1
        return last

    def _commit(self, version: int, page: int) -> Meta | None:
        """Return the slot that would lead to the record in a page, if it is that of a version."""
        try:
            run = self._run_at(page)
            commit = Commit.read(self._mapping, run, version)
        except CorruptionError:
            return None
        size = self._mapping.page_size
        return Meta(size, self._uuid, commit.sequence, commit.last_version, *run, commit.top, False)

    def _run_at(self, page: int) -> Run:
        """Return the run of the record that begins in a page. Raises CorruptionError where there
        are no pages.
        """
        size, marks, words, at = self._mapping.page_size, None, 0, page
        while len(data := self._file.pread(HEADER * WORD, at * size)) == HEADER * WORD:
            head = np.frombuffer(data, np.int64)
            count = int(head[ENTRY_COUNT]) // WORD
            read = int(head[TYPE]), int(head[BIRTH]), int(head[STAMP])
            if read != (marks or read):
                break
            marks, words, at = read, words + count, at + 1
            if count != size // WORD - HEADER:
                break
        if not words:
            raise CorruptionError("there is no record", page=page)
        return Run(page, words)


def _in_one_slot(newest: Meta | None, commit: Meta) -> bool:
    """Return whether the slot of a commit is the newest one."""
    return newest is not None and slot_of(newest.sequence) == slot_of(commit.sequence)


def _byte_of(commit: Meta) -> int:
    """Return the byte whose locks show a commit."""
    return SHOWN_LOCK + (commit.version % VERSIONS << PAGE_BITS) + commit.state


@contextmanager
def holding(file: File, at: int, kind: int = EXCLUSIVE) -> Iterator[None]:
    """Hold the lock of a byte in the block: that of the slots until a sync has ended."""
    try:
        file.lock_when_free(kind, at)
        yield
        file.lock(UNLOCKED, at)
    except BaseException:  # a signal may have raised it while this was unlocked
        file.lock(UNLOCKED, at)
        raise


def refuse(file: File) -> None:
    """Keep all handles from showing commits while this file is open, and wait until nothing is
    shown.

    Raises LockedError after PATIENCE seconds.
    """
    file.lock(SHARED, REFUSED_LOCK)
    end = time.monotonic() + PATIENCE
    while (place := file.locked(SHOWN_LOCK, VERSIONS << PAGE_BITS)) is not None:
        if time.monotonic() >= end:
            holders = describe_holders(file.path, place)
            raise LockedError(
                f"{file.path} has a commit that {holders} does not finish; end that first"
            )
        time.sleep(PAUSE)
