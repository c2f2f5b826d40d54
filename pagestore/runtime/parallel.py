"""Tasks side by side; kernels run without the GIL."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import TypeVar

T = TypeVar("T")

THREADS_MAX = 1 << 10  # never waited for: a task may have tasks of its own


def together(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """What the tasks return: the first runs in this thread, every other one in one that waits for work, or a new one.

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
    """Threads that stay, for starting one takes 0.3 ms; a forked process has none of them."""
    return ThreadPoolExecutor(THREADS_MAX, "pagestore")


os.register_at_fork(after_in_child=_pool.cache_clear)
