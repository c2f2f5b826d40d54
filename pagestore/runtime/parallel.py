"""Run tasks on several threads; kernels hold no GIL, so they run side by side."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import TypeVar

T = TypeVar("T")

THREADS_MAX = 1 << 10  # so high that no task waits for a free thread: tasks may start tasks of their own


def together(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Run tasks at the same time, the first in this thread, the others in pooled ones; return their results in order.

    Wait for all tasks even if one raises; then raise its exception.

    >>> together([lambda: 1, lambda: 2])
    [1, 2]
    """
    others = [_pool().submit(task) for task in tasks[1:]]
    try:
        return [tasks[0](), *(other.result() for other in others)]
    finally:
        if others:
            wait(others)


@cache
def _pool() -> ThreadPoolExecutor:
    """Return the pool of threads. They are kept, since starting one takes 0.3 ms; a forked process begins with none."""
    return ThreadPoolExecutor(THREADS_MAX, "pagestore")


os.register_at_fork(after_in_child=_pool.cache_clear)
