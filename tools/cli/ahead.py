"""Batches that are made by another thread while the one before is being used."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Batch = TypeVar("Batch")


def made_ahead(batches: Iterable[Batch]) -> Iterator[Batch]:
    """The batches, of which one more is always in the making; an error of making one comes in its place.

    >>> list(made_ahead(x * x for x in range(4)))
    [0, 1, 4, 9]
    """
    source = iter(batches)
    with ThreadPoolExecutor(1) as maker:
        waiting = maker.submit(next, source, None)
        while (batch := waiting.result()) is not None:
            waiting = maker.submit(next, source, None)
            yield batch
