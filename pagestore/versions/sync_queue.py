"""Threads that wait for their commits to be durable: one of them makes the sync for all."""

import time
from collections import deque
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock
from typing import Protocol

from pagestore.runtime.forks import thread_lock
from pagestore.versions.locks import AGAIN


class Syncing(Protocol):
    """Commits that are made durable together: how many, and what makes all durable."""

    durable: int

    def sync_made(self) -> None:
        """Make all commits durable that were made."""


GATHER_MAX = 0.01  # seconds that a sync is put off at most


class SyncQueue:
    """Threads that wait for their commits to be durable. One of them makes the sync, for all
    commits made until then.

    Once it is made, those whose commits are durable go on, and one of the others makes the next. As
    many threads as the last sync was for will probably commit again: the next one is put off until
    they have, for as long as a sync takes at most. So a thread alone waits for nobody, and of many
    threads each is in every sync, not in every other.
    """

    def __init__(self) -> None:
        self.lock = thread_lock()  # held during a sync
        # how many commits, and what wakes the thread
        self._waiting: deque[tuple[int, Lock]] = deque()
        # threads that will wait, and seconds that the last sync took
        self._expected, self._took = 0, 0.0
        self._arrived: SimpleQueue[None] = SimpleQueue()  # gets an entry when as many wait

    def await_sync(self, number: int, commits: Syncing) -> None:
        """Return once the first `number` commits are durable. Raises what `sync_made` does."""
        nested, place = self.lock._is_owned(), None
        leads = False
        try:
            while commits.durable < number:
                if leads := self.lock.acquire(blocking=False):
                    if commits.durable < number:
                        self._sync(commits)
                    break
                if place is None:
                    place = number, Lock()
                    place[1].acquire()
                    # then try once more, since the sync may have ended before this
                    self._waiting.append(place)
                    if len(self._waiting) >= self._expected:
                        self._arrived.put(None)
                elif place[1].acquire(timeout=AGAIN):
                    place = None  # woken, perhaps to make the next sync
        finally:
            if place is not None:
                with suppress(ValueError):  # it was woken meanwhile
                    self._waiting.remove(place)
            if leads or (not nested and self.lock._is_owned()):
                self.lock.release()
                self._wake(commits.durable)

    def _sync(self, commits: Syncing) -> None:
        """Make a sync once others have joined in, or have had the time of one to do so."""
        if self._took and len(self._waiting) < self._expected:
            while not self._arrived.empty():
                self._arrived.get()
            with suppress(Empty):
                self._arrived.get(timeout=min(self._took, GATHER_MAX))
        began = time.monotonic()
        commits.sync_made()
        self._took = time.monotonic() - began

    def _wake(self, durable: int) -> None:
        """Wake the threads whose commits are durable, and one of the others, which leads: for it all
        that were woken are expected again, this one, and those that wait already.
        """
        leads, self._expected = False, 0
        for _ in range(len(self._waiting)):
            try:
                number, lock = waiting = self._waiting.popleft()
            except IndexError:  # another thread has woken them
                return
            self._expected += 1
            if number > durable and leads:
                self._waiting.append(waiting)
            else:
                leads = leads or number > durable
                lock.release()
