"""A cluster that runs its tasks here, one after the other; all that passes in and out is
pickled, as on a real one.
"""

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from pagestore.sorting.tuples import sort_order


class HereCluster:
    """See `Cluster` in tools/loading/distributed.py."""

    def __init__(self, parallelism: int) -> None:
        self.parallelism = parallelism

    def each(self, task: Callable[[Any], Any], arguments: Sequence[Any]) -> list[Any]:
        return [_sent(_sent(task)(_sent(argument))) for argument in arguments]

    def ranges(
        self,
        words: Callable[[Any], Iterator[np.ndarray]],
        arguments: Sequence[Any],
        columns: int,
        keys: int,
        build: Callable[[Iterator[np.ndarray]], Any],
    ) -> list[Any]:
        parts = [batch for argument in arguments for batch in _sent(words)(_sent(argument))]
        rows = np.concatenate([np.zeros((columns, 0), np.int64), *parts], axis=1)
        rows = rows[:, sort_order(rows[:keys])]
        first = np.ones(rows.shape[1], bool)
        first[1:] = (rows[:keys, 1:] != rows[:keys, :-1]).any(axis=0)  # one key is in one range
        wanted = np.linspace(0, rows.shape[1], self.parallelism + 1).astype(int)[1:-1]
        starts = np.append(np.flatnonzero(first), rows.shape[1])
        cuts = starts[np.searchsorted(starts, wanted)]
        return [_sent(_sent(build)(iter([part]))) for part in np.split(rows, cuts, axis=1)]


def _sent(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))
