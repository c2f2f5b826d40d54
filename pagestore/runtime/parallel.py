"""Run tasks on several threads; kernels hold no GIL, so they run side by side."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from ctypes import c_ulong, py_object, pythonapi
from functools import cache
from threading import get_ident, local
from typing import TypeVar

from pagestore.runtime.forks import thread_lock

T = TypeVar("T")

# so high that no task waits for a free thread: tasks may start tasks of their own
THREADS_MAX = 1 << 10


def together(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Run tasks at the same time, the first in this thread, the others in pooled ones; return their
    results in order.

    All know the context variables of this thread. Wait for all tasks even if one raises, or a
    signal interrupts this thread, which makes `refuse_stopped` raise in the others; then raise the
    exception.

    >>> together([lambda: 1, lambda: 2])
    [1, 2]
    """
    if len(tasks) == 1:
        return [tasks[0]()]
    group = _Group(getattr(_here, "group", None))
    others = [_pool().submit(copy_context().run, group.run, task) for task in tasks[1:]]
    try:
        return [tasks[0](), *(other.result() for other in others)]
    except BaseException:
        group.stopped = True
        raise
    finally:
        wait(others)


class Stopped(Exception):
    """The result of a task is not wanted: another of its group failed, or somebody left."""


def refuse_stopped() -> None:
    """Raise Stopped if this thread runs a task of `together` of which another one has failed, or
    one to stop. O(1).

    To be called by what may take long, such as between two batches of a kernel.
    """
    group: _Group | None = getattr(_here, "group", None)
    while group is not None:
        if group.stopped:
            raise Stopped
        group = group.before


class _Group:
    """The tasks that run at the same time; `before` is the group of the task that started them."""

    def __init__(self, before: "_Group | None") -> None:
        self.stopped, self.before = False, before

    def run(self, task: Callable[[], T]) -> T:
        """Run a task in a pooled thread."""
        _here.group = self
        try:
            return task()
        finally:
            _here.group = None


class Stoppable:
    """Work of one thread that another one can end, with the tasks that it has started."""

    def __init__(self) -> None:
        self._group, self._thread, self._guard = _Group(None), 0, thread_lock()

    def run(self, task: Callable[[], T]) -> T:
        """Run a task in this thread, which must then end.  Raises Stopped, even if the task has
        just ended.
        """
        self._thread = get_ident()
        try:
            return self._group.run(task)
        finally:
            with self._guard:
                self._thread = 0

    def stop(self) -> None:
        """Let the task raise Stopped: where it looks (`refuse_stopped`), or between any two
        operations of Python.

        So it must be one that an exception may end anywhere, as a signal does.
        """
        self._group.stopped = True
        with self._guard:
            if self._thread:
                pythonapi.PyThreadState_SetAsyncExc(c_ulong(self._thread), py_object(Stopped))


_here = local()  # its `group` is that of the task that the thread runs


@cache
def _pool() -> ThreadPoolExecutor:
    """Return the pool of threads. They are kept, since starting one takes 0.3 ms; a forked
    process begins with none.
    """
    return ThreadPoolExecutor(THREADS_MAX, "pagestore")


os.register_at_fork(after_in_child=_pool.cache_clear)
