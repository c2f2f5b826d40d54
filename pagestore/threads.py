"""Tasks side by side; kernels run without the GIL."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def together(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """What the tasks return: the first runs in this thread, every other one in its own.

    >>> together([lambda: 1, lambda: 2])
    [1, 2]
    """
    with ThreadPoolExecutor(max(1, len(tasks) - 1)) as pool:
        others = [pool.submit(task) for task in tasks[1:]]
        return [tasks[0](), *(other.result() for other in others)]
