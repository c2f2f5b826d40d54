"""Edits of processes that wait for the writer's lock, committed by the one that has it.

    a process that waits    offers edits ────────────────────────────────▶ has a version
    the one that leads            └─▶ takes them into its commit ── sync ──┘

A process leads that commits prepared edits (series.py) one after the other, without a rest between
them. As long as it does, others leave the lock to it. They write their edits into shared memory, each into
a place of its own, and sleep. So many rows need one commit and one sync, and no process goes on
from the commit of another, which takes longer than a commit.

The memory decides nothing: the writer's lock and the store's file do (docs/format.md has the steps,
docs/decisions/0059-edits-offered-to-other-processes.md why they are so). What others are to have is
said before their commit can be found, and the version is kept until they know.

The memory is a file in /dev/shm, named after the store's file. Where there is none, or it cannot be
used, processes wait for the lock as with other edits.
"""

from __future__ import annotations

import json
import os
import resource
import stat
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pagestore.errors import MovedError, PagestoreError
from pagestore.runtime.lazy import crc32c
from pagestore.storage.file import EXCLUSIVE, File, mapped
from pagestore.storage.system import sleep_on, wake

FOLDER = Path("/dev/shm")
PLACES, PLACE = 64, 1 << 12  # places for offers, and bytes of each; before them is one of the head
SIZE = (1 + PLACES) * PLACE
WORDS, HEAD_WORDS = PLACE // 8, 8
UNTIL = 0  # the word of the head that says how long a process leads, by the clock `monotonic_ns`
# words of a place: those that its owner writes, and those of the process that takes the offer
OFFERED, LENGTH, CHECK, TAKEN, VERSION, TIME, MADE, OUTCOME = range(8)
ROOM = PLACE - 8 * HEAD_WORDS
# seconds after a commit for which others wait for the next one, if that is expected at once: a
# process may have to wait for a processor, too
LEADS = 0.05
AT_ONCE = 1e-3  # seconds of processor time, without a wait, from one commit to the next
LEADS_MOST = 60.0  # what says that a process leads for longer is damaged
PLAIN = frozenset([int, float, bool, str, type(None)])  # classes of values that JSON keeps
PARTS_MAX = 62  # of what is offered, whose outcomes are bits of a word
TRIES = 3
ELSEWHERE = -1  # the number of a commit that another process has made durable


class Offered(NamedTuple):
    """What another process offers: its place, the number of the offer, and the edits; `outcome` is
    what came of them, in bits that only the two processes know.
    """

    place: int
    number: int
    edits: list[tuple[int, tuple[Any, ...]]]
    outcome: int = 0


class Offer(NamedTuple):
    """What a writer that waits is going to commit, of which subject of a series; `may` says whether
    another process may commit it.
    """

    subject: object
    relation: str
    edits: list[tuple[int, tuple[Any, ...]]]
    may: Callable[[], bool]


class Joint:
    """A commit of a thread's edits, and of others that waited."""

    # once it is made: of the handle's commits, ELSEWHERE if another process has made it durable;
    # and the version
    number = version = 0
    offers: Sequence[Offered] = ()  # what other processes offer
    offered: Sequence[Offered] = ()  # what of that the commit takes in
    tried = False  # whether the memory says so

    @classmethod
    def elsewhere(cls, version: int) -> Joint:
        """Return a version that another process has made durable."""
        joint = cls()
        joint.number, joint.version = ELSEWHERE, version
        return joint


class Offers:
    """The offers of other processes, and the place of one handle."""

    def __init__(self, file: File) -> None:
        self._store = file
        self._file: File | None = None
        self._refused = False  # whether the memory cannot be used
        self._words = np.zeros((0, WORDS), np.int64)
        self._view = memoryview(b"")
        self.place = 0  # the number of this handle's place, once the memory is open
        self._number = 0  # of what was offered last
        self.took = 0.0  # seconds that a sync takes
        self._until = 0  # what this handle has said last of its leading
        self._may_begin = self._goes_on = True
        self._rested = 0.0, 0  # processor time, and waits, of the thread that has committed last
        self._last = 0  # the place that was served last

    def open(self) -> bool:
        """Return whether offers can be made and taken."""
        if self._file is None and not self._refused:
            try:
                self._open()
            except (OSError, PagestoreError):
                self._refused = True
        return self._file is not None

    @cached_property
    def _path(self) -> Path:
        about = os.stat(self._store.path)
        return FOLDER / f"pagestore-{os.geteuid()}-{about.st_dev:x}-{about.st_ino:x}"

    def _is_used(self) -> bool:
        """Return whether processes have made the memory; it is open then."""
        try:
            return self._file is not None or (os.path.exists(self._path) and self.open())
        except OSError:  # the store's file was moved, or is in memory only
            return False

    def _open(self) -> None:
        path = self._path
        for _ in range(TRIES):
            _create(path)
            file = File(path, writable=True)
            place = next((n for n in range(1, 1 + PLACES) if file.lock(EXCLUSIVE, n)), 0)
            try:
                file.check_place()  # else its last user has removed it meanwhile
            except MovedError:
                file.close()
                continue
            if not place:
                file.close()
                break
            words = mapped((file.fileno(), SIZE), writable=True)
            self._words, self._view = words.reshape(-1, WORDS), memoryview(words)  # type: ignore[arg-type]
            self._file, self.place = file, place
            self._number = int(self._words[place, [OFFERED, TAKEN, MADE]].max())
            self.withdraw()  # what a dead process has left there
            return
        self._refused = True

    # --- of the process that waits ----------------------------------------------------------------

    def are_taken(self) -> bool:
        """Return whether another process leads now, and so takes what is offered."""
        if self._file is None:
            return False
        until, now = self._view[UNTIL], time.monotonic_ns()
        return until != self._until and now < until < now + LEADS_MOST * 1e9

    def put(self, offer: Offer) -> bool:
        """Offer edits; return False if they do not fit."""
        if not (
            offer.may()
            and self.open()
            and all(type(value) in PLAIN for _, row in offer.edits for value in row)
        ):
            return False
        data = json.dumps((offer.relation, offer.edits)).encode()
        if len(data) > ROOM:
            return False
        view, at = self._view, self.place * WORDS
        self._number += 1
        start = 8 * (at + HEAD_WORDS)
        view.cast("B")[start : start + len(data)] = data
        view[at + LENGTH], view[at + CHECK] = len(data), _check_of(self._number, data)
        view[at + OFFERED] = self._number  # last
        return True

    def version(self) -> int:
        """Return the version that has what was offered, once it is durable; else 0."""
        view, at = self._view, self.place * WORDS
        return view[at + VERSION] if view[at + MADE] == self._number else 0

    def taken(self) -> tuple[int, int] | None:
        """Return the version and the time of the commit that was to have what was offered; the
        version is 0 if it was refused; None if nobody has taken it.
        """
        view, at = self._view, self.place * WORDS
        return (view[at + VERSION], view[at + TIME]) if view[at + TAKEN] == self._number else None

    def outcome(self) -> int:
        """Return what came of the edits that were taken last."""
        return self._view[self.place * WORDS + OUTCOME]

    def withdraw(self) -> None:
        """Offer nothing more. Requires the writer's lock, or else it may be taken at this moment."""
        self._view[self.place * WORDS + OFFERED] = 0

    def sleep(self, seconds: float) -> None:
        """Wait until what was offered is durable or refused, for so long at most."""
        word = self.place * WORDS + MADE
        if (made := self._view[word]) != self._number:
            sleep_on(self._words.ctypes.data + 8 * word, made, seconds)

    # --- of the process that leads, or drops versions ---------------------------------------------

    def begin(self) -> None:
        """Say that this handle leads, before its first commit, with which it cannot take anything
        in; once, so that it does not keep others waiting by commits of that kind.
        """
        if self._may_begin:
            self.lead()
        self._may_begin = False

    def rest(self) -> None:
        """Note that a thread has committed."""
        used = resource.getrusage(resource.RUSAGE_THREAD)
        self._rested = used.ru_utime + used.ru_stime, used.ru_nvcsw

    def resume(self) -> None:
        """Note that a thread is going to commit: whether it has done so at once, so that it is
        expected to do it again.
        """
        time_before, waits_before = self._rested
        self.rest()
        time_now, waits_now = self._rested
        self._goes_on = 0 <= time_now - time_before < AT_ONCE and 0 <= waits_now - waits_before <= 1

    def lead(self) -> None:
        """Say that this handle leads, if it is expected to go on at once."""
        if not self._goes_on:
            return
        pause = int(1e9 * (LEADS + 2 * self.took))
        self._until = self._view[UNTIL] = time.monotonic_ns() + pause

    def stop(self) -> None:
        """Lead no longer, until the next commit that was expected."""
        self._goes_on = False
        if self._until and self._view[UNTIL] == self._until:
            self._until = self._view[UNTIL] = 0
            self._wake(self._open_places())  # they look for the lock themselves

    def went_on(self, joint: Joint) -> None:
        """Say that this handle leads, after it has made a commit; refuse what that was to have, if
        it could not be made.
        """
        if joint.number:
            self.lead()
            self._may_begin = True
        elif joint.tried:
            self.refuse(joint.offered)

    def refuse(self, offered: Sequence[Offered]) -> None:
        """Leave to their processes what these offer. Requires the writer's lock."""
        self.take(offered, 0, 0)
        self._wake([place for place, *_ in offered])

    def _open_places(self) -> list[int]:
        """Return the places of offers that nobody has taken."""
        places: list[int] = np.flatnonzero(
            self._words[1:, OFFERED] > self._words[1:, TAKEN]
        ).tolist()
        return [1 + place for place in places]

    def of(self, relation: str, most: int) -> list[Offered]:
        """Return what living processes offer for a relation, so many edits at most, in turns.
        Requires the writer's lock, as `take`.
        """
        assert self._file
        offers = list[Offered]()
        for place in sorted(self._open_places(), key=lambda place: (place <= self._last, place)):
            name, offered = self._read(place) if place != self.place else ("", None)
            if not offered or self._file.locked(place, 1) is None:
                continue
            if name != relation:
                self.stop()  # else that process would wait for long
                continue
            most -= len(offered.edits)
            if most < 0:
                break
            offers.append(offered)
            self._last = place
        return offers

    def _read(self, place: int) -> tuple[str, Offered | None]:
        """Return the offer of a place, and of which relation it is; None while it is being written."""
        view, at = self._view, place * WORDS
        number, length, start = view[at + OFFERED], view[at + LENGTH], 8 * (at + HEAD_WORDS)
        if not 0 < length <= ROOM:
            return "", None
        data = bytes(view.cast("B")[start : start + length])
        if view[at + CHECK] != _check_of(number, data) or view[at + OFFERED] != number:
            return "", None
        name, edits = json.loads(data)
        return name, Offered(place, number, [(action, tuple(row)) for action, row in edits])

    def take(self, offered: Sequence[Offered], version: int, timestamp: int) -> None:
        """Say which commit, of which time, is going to have what was offered; version 0 for none."""
        for place, number, _, outcome in offered:
            at = place * WORDS
            self._view[at + VERSION], self._view[at + TIME] = version, timestamp
            self._view[at + OUTCOME] = outcome
            self._view[at + TAKEN] = number

    def made(self, offered: Sequence[Offered]) -> None:
        """Say that the commit which has what was offered is durable."""
        for place, number, *_ in offered:
            at = place * WORDS
            if self._view[at + TAKEN] == number:  # else its process has found that out by itself
                self._view[at + MADE] = number
        self._wake([place for place, *_ in offered])

    def unsettled(self) -> Collection[int]:
        """Return the versions in which living processes have yet to see whether what they offered
        was made: they must be kept. Requires the writer's lock.
        """
        if not self._is_used():
            return ()
        words, file = self._words[1:], self._file
        assert file
        taken = (words[:, OFFERED] == words[:, TAKEN]) & (words[:, TAKEN] != words[:, MADE])
        places = (np.flatnonzero(taken) + 1).tolist()
        return {
            int(self._words[place, VERSION])
            for place in places
            if place == self.place or file.locked(place, 1) is not None
        }

    def times_of(self, version: int) -> Collection[int]:
        """Return the times at which processes said that they were going to make a version; each may
        have died before. Requires the writer's lock.
        """
        if not self._is_used():
            return ()
        return {*self._words[1:][self._words[1:, VERSION] == version, TIME].tolist()}

    def _wake(self, places: Sequence[int]) -> None:
        for place in places:
            wake(self._words.ctypes.data + 8 * (place * WORDS + MADE))

    def close(self) -> None:
        """Give the place up; the last one removes the memory, also if others have left it behind."""
        with suppress(OSError, PagestoreError):
            file = self._file or File(self._path, writable=True)
            if file.lock(EXCLUSIVE, 1, PLACES):
                file.check_place()
                file.path.unlink()
            file.close()
        self._file, self._refused = None, True


def _create(path: Path) -> None:
    """Make the file if it is missing. Raises OSError if others may write to it, or memory is full."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        about = os.fstat(fd)
        if about.st_uid != os.geteuid() or stat.S_IMODE(about.st_mode) & 0o077:
            raise PermissionError(f"{path} is not this user's alone")
        os.posix_fallocate(fd, 0, SIZE)  # else a write to the map would end the process
    finally:
        os.close(fd)


def _check_of(number: int, data: bytes) -> int:
    checksum: int = crc32c.crc32c(b"%d:" % number + data)
    return checksum
