"""Compute batches in another thread, while the previous one is in use."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Batch = TypeVar("Batch")


def made_ahead(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield the batches, computing one ahead in a thread; an error is raised in place of its batch.

    >>> list(made_ahead(x * x for x in range(4)))
    [0, 1, 4, 9]
    """
    source = iter(batches)
    with ThreadPoolExecutor(1) as maker:
        waiting = maker.submit(next, source, None)
        while (batch := waiting.result()) is not None:
            waiting = maker.submit(next, source, None)
            yield batch
