"""Locks of threads that a forked child finds free.

A fork copies the thread that forks, and no other. A lock that another one held, during a sync, say,
would stay locked in the child for ever, and whoever used a handle there would wait instead of
getting a ForkError. So these locks are made anew in the child, but for those that the copied thread
holds itself.
"""

import os
from threading import RLock
from typing import Any
from weakref import WeakSet

_locks: "WeakSet[Any]" = WeakSet()


def thread_lock() -> Any:
    """Return a reentrant lock of threads. O(1).

    >>> with thread_lock() as held:
    ...     held
    True
    """
    lock = RLock()
    _locks.add(lock)
    return lock


def _renew() -> None:
    """Free the locks whose threads are in the parent, as the standard library does with its own."""
    for lock in _locks:
        if not lock._is_owned():
            lock._at_fork_reinit()


os.register_at_fork(after_in_child=_renew)
