"""Sort more words than fit into memory: write sorted runs to temporary files, and merge them by windows.

A batch is int64[C, n]: C columns of n rows, of which the first `keys` decide the order.
"""

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from pagestore.sorting.tuples import sort_order

Batch = np.ndarray


def sort(batches: Iterable[Batch], keys: int, memory: int) -> Iterator[Batch]:
    """Yield the rows in ascending order of their keys; more than `memory` bytes go through a temporary folder.

    >>> [batch.tolist() for batch in sort([np.array([[5, 3], [1, 2]]), np.array([[4], [9]])], 1, 1 << 20)]
    [[[3, 4, 5], [2, 9, 1]]]
    """
    with tempfile.TemporaryDirectory(prefix="pagestore-sort-") as folder:
        runs: list[Batch] = []
        for chunk in _chunks(batches, memory // 3):  # a third each for the chunk, its order and its sorted copy
            if runs:
                runs[-1] = _spill(runs[-1], Path(folder, f"{len(runs)}.npy"))
            runs.append(chunk[:, sort_order(chunk[:keys])])
        if len(runs) > 1:
            runs[-1] = _spill(runs[-1], Path(folder, f"{len(runs)}.npy"))
            yield from _merge(runs, keys, memory)
        else:
            yield from runs


def count_below(columns: np.ndarray, bound: np.ndarray) -> int:
    """Return how many rows of the ascending int64[K, n] are at most `bound`, int64[K].

    >>> count_below(np.array([[1, 1, 2, 2], [5, 7, 0, 3]]), np.array([2, 0]))
    3
    """
    low, high = 0, columns.shape[1]
    for column, value in zip(columns, bound, strict=True):
        window = column[low:high]
        low, high = (
            low + np.searchsorted(window, value, "left"),
            low + np.searchsorted(window, value, "right"),
        )
    return int(high)


def _chunks(batches: Iterable[Batch], bytes_max: int) -> Iterator[Batch]:
    held: list[Batch] = []
    for batch in batches:
        held.append(batch)
        if sum(each.nbytes for each in held) >= bytes_max:
            yield np.concatenate(held, axis=1)
            held = []
    if held:
        yield np.concatenate(held, axis=1)


def _spill(run: Batch, file: Path) -> Batch:
    np.save(file, run)
    spilled: Batch = np.load(file, mmap_mode="r")
    return spilled


def _merge(runs: list[Batch], keys: int, memory: int) -> Iterator[Batch]:
    """Merge sorted runs: each round takes a window of each run, and yields rows up to the least last key of these."""
    rows = max(1, memory // (3 * len(runs) * runs[0].shape[0] * runs[0].itemsize))
    starts = [0] * len(runs)
    while any(start < run.shape[1] for start, run in zip(starts, runs, strict=True)):
        windows = [run[:, start : start + rows] for start, run in zip(starts, runs, strict=True)]
        bound = min((window[:keys, -1] for window in windows if window.size), key=tuple)
        taken = [count_below(window[:keys], bound) for window in windows]
        starts = [start + count for start, count in zip(starts, taken, strict=True)]
        merged = np.concatenate([window[:, :count] for window, count in zip(windows, taken, strict=True)], axis=1)
        yield merged[:, sort_order(merged[:keys])]
