"""Whose turn it is to write: one transaction at a time, of whatever thread.

A turn is held by a weak reference, so that it ends with its transaction: given back, dropped without a word, or left
behind by a thread that has died. So an exception at any moment leaves no lock that nothing releases.
"""

import gc
import time
from datetime import datetime
from queue import Empty, SimpleQueue
from threading import RLock, Thread, current_thread
from typing import Any
from weakref import ref

from pagestore.errors import LockedError, TransactionError

AGAIN = 0.05  # seconds after which a waiting thread looks whether the holder is gone


class Turn:
    """A thread's turn to write, from when it is taken until it is over."""

    def __init__(self) -> None:
        self.thread: Thread = current_thread()
        self.since = time.time()
        self.over = False

    def __str__(self) -> str:
        began = datetime.fromtimestamp(self.since).isoformat(" ", "seconds")
        return f"thread {self.thread.name!r}, since {began}"


class Turns:
    """The turns of one handle."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._holder: Any = lambda: None  # a weak reference to a Turn, once one was taken
        self._ended: SimpleQueue[None] = SimpleQueue()  # an entry for each waiting thread, at least
        self._waiting = 0

    @property
    def holder(self) -> Turn | None:
        """The turn that is being held, if any."""
        turn = self._holder()
        return None if turn is None or turn.over or not turn.thread.is_alive() else turn

    def take(self, turn: Turn, timeout: float | None = None) -> None:
        """Wait until no turn is held, `timeout` seconds at most, and hold this one.

        Raises TransactionError where this thread holds one already, LockedError after the time.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not self._taken(turn):
            holder = self.holder
            if holder is not None and holder.thread is current_thread():
                holder = None
                gc.collect()  # a transaction that was dropped may be part of a cycle
                if self.holder is None:
                    continue
                raise TransactionError("this thread has a transaction open; commit it or roll it back first")
            left = AGAIN if end is None else min(AGAIN, end - time.monotonic())
            if left < 0:
                raise LockedError(f"another transaction is open ({holder}); wait longer, or end that one first")
            holder = None
            if not self._wait(left):
                gc.collect()

    def give_back(self, turn: Turn) -> None:
        """The turn is over. Idempotent."""
        turn.over = True
        if self._waiting > 0:
            self._ended.put(None)

    def _taken(self, turn: Turn) -> bool:
        with self._lock:
            holder = self.holder
            if holder is None:
                abandoned = self._holder()
                if abandoned is not None:  # its thread has died: its transaction may not go on
                    abandoned.over = True
                self._holder = ref(turn)
            return holder is None

    def _wait(self, seconds: float) -> bool:
        """Wait for the end of a turn; False if there was none."""
        self._waiting += 1
        try:
            self._ended.get(timeout=seconds)
            return True
        except Empty:
            return False
        finally:
            self._waiting -= 1
