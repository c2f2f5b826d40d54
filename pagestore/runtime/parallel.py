"""Run tasks on several threads; kernels hold no GIL, so they run side by side."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from math import inf
from threading import local
from time import monotonic
from typing import TypeVar

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
    """A task's result is not wanted: another of its group failed, somebody left, time ran out."""


def refuse_stopped() -> None:
    """Raise Stopped if this thread runs a task of `together` of which another one has failed, or
    a Stoppable one that is to end. O(1).

    To be called by what may take long, such as between two batches of a kernel.
    """
    group: _Group | None = getattr(_here, "group", None)
    while group is not None:
        if group.stopped or group.is_late:
            raise Stopped
        group = group.before


class _Group:
    """The tasks that run at the same time, up to a moment; `before` is the group of the task that
    started them.
    """

    def __init__(self, before: "_Group | None") -> None:
        self.stopped, self.until, self.before = False, inf, before

    @property
    def is_late(self) -> bool:
        """Whether the moment is over."""
        return monotonic() > self.until

    def run(self, task: Callable[[], T]) -> T:
        """Run a task in this thread."""
        with self.running():
            return task()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the block be a task of this thread."""
        around, _here.group = getattr(_here, "group", None), self
        try:
            yield
        finally:
            _here.group = around


def to_its_end(task: Callable[[], T]) -> T:
    """Run a task that nothing around it ends, as what follows a commit."""
    return _Group(None).run(task)


class Stoppable:
    """Work that another thread can end, with the tasks that it has started, or that ends after
    some `seconds`.
    """

    def __init__(self, seconds: float = inf) -> None:
        self._group, self._seconds = _Group(None), seconds

    def run(self, task: Callable[[], T]) -> T:
        """Run a task in this thread.  Raises Stopped, where the task looks (`refuse_stopped`)."""
        with self.running():
            return task()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the block be the task; it raises as `run` does."""
        self._group.before = getattr(_here, "group", None)
        # it may have been told to end soon, before it begins
        self._group.until = min(self._group.until, monotonic() + self._seconds)
        with self._group.running():
            yield

    @property
    def is_late(self) -> bool:
        """Whether the task has had its seconds."""
        return self._group.is_late

    def stop(self, after: float = 0.0) -> None:
        """Let the task raise Stopped, now or after some seconds, from any thread."""
        if after:
            self._group.until = min(self._group.until, monotonic() + after)
        else:
            self._group.stopped = True


_here = local()  # its `group` is that of the task that the thread runs


@cache
def _pool() -> ThreadPoolExecutor:
    """Return the pool of threads. They are kept, since starting one takes 0.3 ms; a forked
    process begins with none.
    """
    return ThreadPoolExecutor(THREADS_MAX, "pagestore")


os.register_at_fork(after_in_child=_pool.cache_clear)
