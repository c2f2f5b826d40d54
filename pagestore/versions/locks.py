"""Locks of versions: a version that is being read is not dropped, and one that is being dropped is
not read.

Other processes see byte locks on the file (storage/file.py), threads of this one see pins and
`_going`. A reader's handle locks the byte of a version when its first snapshot takes it; the
writer's own snapshots are only counted. A pin lasts as long as something refers to it, so that an
exception at any moment leaves none behind.

The lock of a file's one writer, for which processes queue:

    queue     place 4 (waits for the writer), place 5 (waits for place 4), place 6 (waits for place 5) ...

Each process locks a byte, its place, and waits for the lock of the place before. The system wakes
it when that process goes on or dies. Only the first in the queue waits for the writer, and whoever
finds others in the queue joins it, so that nobody starves. Whether others wait is asked once in
LOOK_AGAIN seconds at most, so taking the lock mostly costs one call of the system, and releasing it
another.

To go on from the commit of another process takes longer than a small commit of one's own. So a
process that has waited for the lock takes it up to IN_A_ROW times, for ROW_TIME seconds, if syncs
are short. The next one tries to take it now and then meanwhile, and so has it soon if the other
process does not go on.

The write lock of a handle: one transaction at a time, of any thread; first come, first served.

All writers and waiting threads are in one queue of weak references, and its first member writes. So
a lock ends with its transaction, whether it is released, dropped unnoticed, or left behind by a
thread that died, and an exception at any moment leaves no lock that nothing releases. Leaving the
queue wakes its new first member, and no other. Reading and changing the queue are single operations
of a deque, which other threads cannot interleave with.

A dropped transaction that is part of a reference cycle is freed only by the garbage collector,
whose cost grows with the objects of the process. So only the next in the queue collects, after the
same transaction has been open for long, and for at most a hundredth of the time.

A writer that waits may say what it will commit: whoever has its turn then commits that, too
(series.py), also another process (offers.py).
"""

import gc
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import takewhile
from math import inf
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread, current_thread, local
from weakref import ref

from pagestore.errors import CorruptionError, LockedError, PagestoreError, TransactionError
from pagestore.runtime.forks import thread_lock
from pagestore.runtime.reports import waiting
from pagestore.storage.file import (
    EXCLUSIVE,
    GUARD_LOCK,
    QUEUE_END,
    QUEUE_LOCK,
    SHARED,
    SINCE_END,
    SINCE_LOCK,
    SYNCED_LOCK,
    UNLOCKED,
    VERSION_LOCK,
    WRITER_LOCK,
    File,
)
from pagestore.storage.mapping import extents_of
from pagestore.storage.meta import NUMBER_END
from pagestore.storage.records import rows
from pagestore.storage.system import describe_holders
from pagestore.versions.commit_record import TIME_END, time_now
from pagestore.versions.offers import LEADS, Joint, Offer, Offers
from pagestore.versions.version_table import Entry


class PinReference(ref["Pin"]):
    """A weak reference to a pin that equals only itself, even when the pin no longer exists."""

    __hash__ = object.__hash__
    __eq__ = object.__eq__


class Pin:
    """A claim that keeps a version from being dropped until it is unpinned, or unreachable."""

    __slots__ = ("__weakref__", "lost", "mark", "over", "version")

    def __init__(self, version: int):
        self.version, self.over, self.lost = version, False, False
        self.mark: PinReference


class VersionLocks:
    """The pins and locks of one handle."""

    def __init__(self, file: File, writer: bool):
        self._file, self._writer = file, writer
        self._guard = thread_lock()
        self._marks: dict[int, set[PinReference]] = {}  # the pins of each version
        self._versions: dict[PinReference, int] = {}
        self._forgotten: deque[PinReference] = deque()
        self._locked: set[int] = set()  # versions whose bytes this handle may have locked
        self._going: set[int] = set()  # versions that are being dropped
        # those in which other processes have yet to see whether their edits were made
        self.unsettled: Callable[[], Collection[int]] = tuple
        # when processes were going to make a version for others
        self.times_of: Callable[[int], Collection[int]] = lambda _: ()

    def time_of(self, version: int, before: int) -> int:
        """Return the time of a version that is made now, later than `before`; none that a process
        said which died before it made that version, since its time tells others that it was made.
        """
        now = time.time_ns() // 1000
        if not before + 1 < now < TIME_END:  # the clock is behind: each process goes on by one
            now, said = min(max(now, before + 1), TIME_END - 1), self.times_of(version)
            while now in said:
                now += 1
        return now

    @property
    def pins(self) -> set[int]:
        """The versions that snapshots of this handle read."""
        self.unlock_unread()
        return {*self._marks}

    def pin(self, version: int) -> Pin | None:
        """Pin a version, so that it is not dropped; return None if it is being dropped. O(1)."""
        if not 0 <= version < NUMBER_END:
            raise CorruptionError(f"there can be no version {version}")
        with self._guard:
            self._unlock_unread()
            if version in self._going:
                return None
            if not (self._writer or version in self._marks):
                self._locked.add(version)  # first, so that a lock left by an exception is known
                if not self._file.lock(SHARED, VERSION_LOCK + version):
                    self._locked.discard(version)
                    return None
            pin = Pin(version)
            pin.mark = PinReference(pin, self._forgotten.append)
            self._versions[pin.mark] = version
            self._marks.setdefault(version, set()).add(pin.mark)
            return pin

    def unpin(self, pin: Pin) -> None:
        """Release a pin. Idempotent. O(1)."""
        pin.over = True
        self._forgotten.append(pin.mark)
        self.unlock_unread()

    def end_after(self, version: int) -> None:
        """End the pins of all later versions, which are lost."""
        with self._guard:
            for mark, pinned in self._versions.items():
                if pinned > version and (pin := mark()):
                    pin.over = pin.lost = True

    def unlock_unread(self) -> None:
        """Unlock the versions that no snapshot reads any more."""
        with self._guard:
            self._unlock_unread()

    def _unlock_unread(self) -> None:
        while self._forgotten:
            mark = self._forgotten[0]
            version = self._versions.get(mark)
            if version is not None:
                marks = self._marks.get(version, set())
                marks.discard(mark)
                if not marks:
                    self._marks.pop(version, None)
                self._versions.pop(mark, None)
            # last, so that after an exception the steps are merely repeated
            self._forgotten.popleft()
        if len(self._locked) > len(self._marks):
            for version in self._locked - self._marks.keys():
                self._file.lock(UNLOCKED, VERSION_LOCK + version)
                self._locked.discard(version)

    def lock(self, entries: Sequence[Entry], parent: int = -1) -> list[Entry]:
        """Lock versions, ascending, against new readers until `unlock`; return them, without
        `parent` and any read.
        """
        if not entries:
            return []
        with self._guard:
            self._unlock_unread()
            kept = {parent, *self.unsettled()}
            free = [
                entry
                for entry in entries
                if entry.version not in kept and entry.version not in self._marks
            ]
            going = [entry.version for entry in free]
            self._going.update(going)
            if self._lock_together(free):
                return free
            locked = [entry for entry in free if self._lock_together([entry])]
            self._going.difference_update({*going} - {entry.version for entry in locked})
        return locked

    def _lock_together(self, entries: Sequence[Entry]) -> bool:
        """Lock consecutive versions in one call; return False, locking none, if one is being
        read or missing.
        """
        if not entries or entries[-1].version - entries[0].version >= len(entries):
            return False
        return self._file.lock(EXCLUSIVE, VERSION_LOCK + entries[0].version, len(entries))

    @property
    def going(self) -> set[int]:
        """The versions that are being dropped."""
        return {*self._going}

    def unlock(self, versions: Collection[int]) -> None:
        """Unlock versions that are `going`; new readers will find them dropped."""
        if versions:
            # this handle may read versions in between
            for first, count in rows(extents_of(sorted(versions)), 2):
                self._file.lock(UNLOCKED, VERSION_LOCK + first, count)
            self._going.difference_update(versions)


SYNCED_END = 1 << 59  # commits after which their bytes repeat
# seconds for which a handle takes a free lock without asking whether others wait for it
LOOK_AGAIN = 5e-4
# times, and seconds, that it takes it if it has waited for it, and syncs are short
IN_A_ROW, ROW_TIME = 16, 0.02
# seconds between attempts to take a lock that has a time limit: at first, and at most
SHORT, LONGER = 5e-5, 1e-3
SERVING = 0.5  # seconds that it is waited for a process that leads: it may have been stopped


class FileLock:
    """The lock of a file's one writer, as one handle takes and releases it."""

    def __init__(self, file: File, offers: Offers) -> None:
        self.file, self.offers = file, offers
        self.lasting = False  # whether it is held until the file is closed
        # whether it must be held on, since commits were made that no slot leads to
        self.busy = False
        self.held = False
        self.look = 0.0  # when to ask next whether others wait, by the clock `monotonic`
        # whether handles that had to wait for the lock take it several times in a row
        self.again = False
        self.left = 0  # how many more times
        # shows these commits to others, if it can, which may then go on
        self.show: Callable[[], bool] = lambda: False
        # whether this process offers to others what it is to commit: those that share syncs do
        self.may_offer = False

    def take(self, end: float = inf, writer: "Writer | None" = None) -> None:
        """Wait for the lock, behind those that wait already. Raises LockedError at `end`, by the
        clock `monotonic`.

        Returns without the lock once another process has committed what `writer` offers.
        """
        if self.held:
            return
        file, offers, offer = self.file, self.offers, None
        if writer and self.may_offer:
            offer = writer.offer
        if (
            (offer and offers.are_taken())
            or self.must_pass_on()
            or not file.lock(EXCLUSIVE, WRITER_LOCK)
        ):
            self.look = 0.0
            try:
                with waiting(str(self.path), lambda: describe_holders(self.path, WRITER_LOCK)):
                    if writer and offer and offers.put(offer):
                        writer.shown = True
                        if self._is_served(offers, end):
                            return
                    self._join(end)
                    if not self._wait_out(end):
                        self._await(EXCLUSIVE, WRITER_LOCK, end)
                file.lock(UNLOCKED, QUEUE_LOCK, QUEUE_END)
                if self.again:
                    self.look, self.left = time.monotonic() + ROW_TIME, IN_A_ROW
            except BaseException:  # a signal may have raised it while this was unlocked
                for at, count in ((GUARD_LOCK, 1), (QUEUE_LOCK, QUEUE_END)):
                    file.lock(UNLOCKED, at, count)
                raise
        self.held = True

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self.file.path

    def try_once(self) -> bool:
        """Take the lock if it is free, ahead of those that wait; return whether it is held."""
        self.held = self.held or self.file.lock(EXCLUSIVE, WRITER_LOCK)
        return self.held

    def keep(self) -> None:
        """Hold the lock, which was taken, until the file is closed."""
        self.lasting = True
        self.file.lock(EXCLUSIVE, SINCE_LOCK + time_now() // 10**6)

    def release(self) -> None:
        """Release the lock, unless it is kept or busy. Idempotent."""
        if self.lasting or (self.busy and not self.show()):
            return
        try:
            self.held = self.busy = False  # first: an exception may come after the lock is released
            self.left -= 1
            if not self.left:
                self.look = 0.0
            self.file.lock(UNLOCKED, WRITER_LOCK)
        except PagestoreError:  # a closed file has no locks
            pass
        except BaseException:  # a signal may have raised it before that
            self.file.lock(UNLOCKED, WRITER_LOCK)
            raise

    def is_awaited(self) -> bool:
        """Return whether other handles wait for the lock."""
        return self.file.locked(QUEUE_LOCK, QUEUE_END) is not None

    def must_pass_on(self) -> bool:
        """Return whether others wait for the lock and this handle may no longer go before them."""
        now = time.monotonic()
        if now < self.look or self.is_awaited():
            return now >= self.look
        self.look, self.left = now + LOOK_AGAIN, 0
        return False

    def _is_served(self, offers: Offers, end: float) -> bool:
        """Wait until another process has committed what is offered, or the lock is free and no
        process leads; return whether either is so.

        As long as a process leads, those that offer something are not in the queue, which would
        end its row of commits.
        """
        end = min(end, time.monotonic() + SERVING)
        while not offers.version() and time.monotonic() < end:
            taken = offers.taken()
            if taken and not taken[0]:
                return False
            leads = taken or offers.are_taken()  # it wakes those whose offers it has dealt with
            if not (leads or self.is_awaited()) and self.try_once():
                return True
            offers.sleep(LEADS if leads else LONGER)
        return bool(offers.version())

    def _wait_out(self, end: float) -> bool:
        """Try to take the lock for as long as others may take it again before this handle; return
        whether it is held.

        While another handle commits again and again, the lock is mostly held, and an attempt finds
        it so. To be woken by each release would end its row of commits at once.
        """
        end = min(end, time.monotonic() + ROW_TIME * self.again)
        while time.monotonic() < end:
            if self.file.lock(EXCLUSIVE, WRITER_LOCK):
                return True
            time.sleep(LONGER)
        return False

    def _join(self, end: float) -> None:
        """Take the last place in the queue, and wait until it is the first; after an exception
        locks may be left.
        """
        file, place = self.file, 0
        self._await(EXCLUSIVE, GUARD_LOCK, end)
        while (byte := file.locked(QUEUE_LOCK + place, QUEUE_END - place)) is not None:
            place = byte - QUEUE_LOCK + 1
        file.lock(EXCLUSIVE, QUEUE_LOCK + place)
        file.lock(UNLOCKED, GUARD_LOCK)
        while place and (before := file.locked(QUEUE_LOCK, place)) is not None:
            self._await(SHARED, before, end)
            file.lock(UNLOCKED, before)

    def _await(self, kind: int, at: int, end: float) -> None:
        """Lock a byte once it is free. Raises LockedError at `end`."""
        if end == inf:
            self.file.lock_when_free(kind, at)
            return
        pause = SHORT
        while not self.file.lock(kind, at):
            if (left := end - time.monotonic()) <= 0:
                raise self.refusal("wait longer, or end that first")
            time.sleep(min(pause, left))
            pause = min(2 * pause, LONGER)

    def refusal(self, remedy: str) -> LockedError:
        """Return the error that names the processes that hold the lock."""
        path = self.file.path
        return LockedError(
            f"{path} is being written by {describe_holders(path, WRITER_LOCK)}{self._since()}; "
            f"{remedy}"
        )

    def is_lasting_elsewhere(self) -> bool:
        """Return whether another handle holds the lock until it closes the file."""
        return self.file.locked(SINCE_LOCK, SINCE_END) is not None

    def _since(self) -> str:
        """Describe since when another handle has kept the lock; empty if that is unknown."""
        byte = self.file.locked(SINCE_LOCK, SINCE_END)
        with suppress(ValueError, OverflowError, OSError):  # the clock was set wrong
            if byte is None:
                return ""
            return f", since {datetime.fromtimestamp(byte - SINCE_LOCK).isoformat(' ')}"
        return ""


class SyncedCommits:
    """The commits that this handle knows to be durable, said to other processes by locks that end
    with this one.

    What a process has written and not synced when it died can be read, and is not on the disk yet.
    So whoever goes on from a commit that nobody says is durable makes it durable first.
    """

    def __init__(self, file: File) -> None:
        self._file, self.newest = file, -1  # the newest that was noted here

    def add(self, sequence: int) -> None:
        """Note that a commit, newer than all that are known, is durable."""
        # the locks of neighbouring bytes are one, others would become many
        if self.newest != sequence - 1:
            self._file.lock(UNLOCKED, SYNCED_LOCK, SYNCED_END)
        self._file.lock(SHARED, SYNCED_LOCK + sequence % SYNCED_END)
        self.newest = sequence

    def __contains__(self, sequence: int) -> bool:
        here = SYNCED_LOCK + sequence % SYNCED_END
        return self.newest == sequence or self._file.locked(here, 1) is not None


AGAIN = 0.05  # seconds after which the next in a queue looks whether those before it have ended
LONG = 1.0  # seconds after which a transaction may have been dropped as part of a cycle
SHARE = 0.01  # the greatest share of the time that waiting threads may spend on collecting garbage


class Life:
    """An object that lives as long as the thread whose local it is.

    `Thread.is_alive` is unreliable: an exception of a signal's handler inside it marks a live
    thread as ended.
    """

    def __init__(self) -> None:
        self.thread: Thread = current_thread()
        self.mark = ref(self)


_local = local()


NOT_MADE = Joint()


class Writer:
    """A thread's write lock, from the request until its release."""

    def __init__(self, offer: Offer | None = None) -> None:
        try:
            life: Life = _local.life
        except AttributeError:
            life = _local.life = Life()
        self.thread, self.life = life.thread, life.mark
        self.taken = inf  # when it became the first in the queue, by the clock `monotonic`
        self.over = False
        # gets an entry when it is first, if its thread waits
        self.woken: SimpleQueue[None] | None = None
        self.offer = offer  # which another commit may take in
        self.shown = False  # whether other processes may have seen it
        self.joint = NOT_MADE  # the newest commit that was to have them: once made, it has them

    def __str__(self) -> str:
        began = datetime.fromtimestamp(time_now() / 1e6 - max(0.0, time.monotonic() - self.taken))
        return f"thread {self.thread.name!r}, since {began.isoformat(' ', 'seconds')}"


class WriterQueue:
    """The queue of write locks of one handle. The first in it also holds the lock of the file."""

    def __init__(self, file_lock: FileLock) -> None:
        self.queue: deque[ref[Writer]] = deque()  # those that wait, and first the one that has it
        self._file_lock = file_lock
        self._guard = thread_lock()  # guards the next
        # the member of the queue that took the file's lock
        self._holds_file: ref[Writer] | None = None
        self._collect_from = 0.0  # when garbage may be collected again

    @property
    def holder(self) -> Writer | None:
        """The lock that is held, if any: the first in the queue, once ended ones are removed."""
        while True:
            try:
                first = self.queue[0]
            except IndexError:
                return None
            writer = first()
            if writer is not None and not writer.over and writer.life() is not None:
                return writer
            if writer is not None:
                writer.over = True  # its thread has died: its transaction may not go on
            self._release_file(first)
            try:  # noqa: SIM105 - `suppress` would take longer than this
                self.queue.remove(first)
            except ValueError:  # another thread has removed it
                pass

    def take(
        self,
        writer: Writer,
        timeout: float | None = None,
        complete: Callable[[], None] | None = None,
    ) -> None:
        """Wait until all earlier requests are over, `timeout` seconds at most, and hold the lock.

        Where commits of other threads keep the file's lock busy and other processes wait, these
        come first: `complete` makes the commits durable.

        Returns without the lock once another thread or process has committed the writer's offer.

        Raises TransactionError if this thread holds or awaits it already, LockedError after the
        timeout.
        """
        end, file_lock = inf if timeout is None else time.monotonic() + timeout, self._file_lock
        this = ref(writer, self._wake_first)
        self.queue.append(this)
        try:
            if self.queue[0] is not this and self.holder is not writer and not writer.joint.number:
                self._refuse_second(writer)
                with waiting(str(self._file_lock.path), lambda: str(self.holder)):
                    self._wait(writer, end)
            if writer.joint.number:
                return
            with self._guard:
                # first, so that an exception leaves no lock that nobody releases
                self._holds_file = this
            if complete and file_lock.busy and not file_lock.lasting and file_lock.must_pass_on():
                complete()
                file_lock.release()
            writer.taken = time.monotonic()
            if not file_lock.held:
                if writer.taken < file_lock.look:  # as `take`, but a call or two less
                    file_lock.held = file_lock.file.lock(EXCLUSIVE, WRITER_LOCK)
                if not file_lock.held:
                    file_lock.take(end, writer)
                    writer.taken = time.monotonic()
                    if not file_lock.held:
                        writer.joint = Joint.elsewhere(file_lock.offers.version())
        except BaseException:
            self.give_back(writer)
            raise

    def release_file(self) -> None:
        """Release the file's lock if no commit is in the way and none in the queue holds it."""
        if not self._file_lock.held:  # mostly the last member that held it has released it
            return
        with self._guard:
            if self._holds_file is None:
                self._file_lock.release()

    def _release_file(self, ended: "ref[Writer]") -> None:
        """Release the file's lock if it is that of a member that leaves the queue, before the
        next one may take it.
        """
        with self._guard:
            if self._holds_file is ended:
                self._holds_file = None
                self._file_lock.release()

    def give_back(self, writer: Writer) -> None:
        """Release the lock. Idempotent."""
        writer.over = True
        owner = self._holds_file
        if owner is not None and owner() is writer:  # mostly it is first, and nobody waits
            with self._guard:
                if self._holds_file is owner:
                    # first, so that after an exception `release_file` does the rest
                    self._holds_file = None
                    self._file_lock.release()
            try:  # noqa: SIM105 - `suppress` would take longer than this
                self.queue.remove(owner)
            except ValueError:  # another thread has removed it
                pass
        if self.queue:
            self._wake_first()

    def joining(self, subject: object, most: int) -> list[Writer]:
        """Return the writers right behind the first, whose offers are of a subject, and have at
        most so many edits in all.
        """
        writers = list[Writer]()
        for reference in [*self.queue][1:]:
            writer = reference()
            if writer is None or writer.over or writer.life() is None:
                continue
            if writer.offer is None or writer.offer.subject != subject:
                break
            most -= len(writer.offer.edits)
            if most < 0:
                break
            writers.append(writer)
        return writers

    def serve(self, writers: Sequence[Writer], joint: Joint) -> None:
        """Let those go on whose offers a commit took in."""
        for writer in writers:
            if joint.number and writer.joint is joint:
                writer.over = True
                if writer.woken is not None:
                    writer.woken.put(None)

    def _wake_first(self, _: object = None) -> None:
        writer = self.holder
        if writer is not None and writer.woken is not None:
            writer.woken.put(None)

    def _refuse_second(self, writer: Writer) -> None:
        """Raise TransactionError if the thread of this request has an earlier one."""
        if writer.thread in self._threads_before(writer):
            gc.collect()  # that transaction may have been dropped as part of a cycle
            if writer.thread in self._threads_before(writer):
                raise TransactionError(
                    "this thread has a transaction open: end it, or wait in asyncio.to_thread(...)"
                )

    def _threads_before(self, writer: Writer) -> list[Thread]:
        """Return the threads with requests before this one."""
        before = takewhile(lambda other: other is not writer, (ref() for ref in self.queue.copy()))
        return [other.thread for other in before if other and not other.over]

    def _wait(self, writer: Writer, end: float) -> None:
        """Wait until a request is the first. Raises LockedError at `end`."""
        writer.woken = SimpleQueue()
        while not writer.joint.number and self.holder is not writer:
            now = time.monotonic()
            if now >= end:
                self._collect(now)
                if self.holder is writer:
                    return
                raise LockedError(
                    f"another transaction is open ({self.holder}); wait longer, or end that one "
                    f"first"
                )
            place = len(self._threads_before(writer))
            if place == 1 and self._held_since() < now - LONG:
                self._collect(now)
            with suppress(Empty):  # those further back check less often
                writer.woken.get(timeout=min(AGAIN * max(1, place), end - now))

    def _held_since(self) -> float:
        holder = self.holder
        return inf if holder is None else holder.taken

    def _collect(self, now: float) -> None:
        """Collect garbage, since a transaction may have been dropped as part of a cycle; rarely."""
        if now >= self._collect_from:
            gc.collect()
            took = time.monotonic() - now
            self._collect_from = now + max(LONG, took / SHARE)
