"""Sort more words than fit into memory: write sorted runs to temporary files, and merge them by
windows.

    run 1    2 3 5 9 | 12 ...       a window of each run is in memory; the least of the last keys, 7, ends a round:
    run 2    1 4 7 | 8 ...          2 3 5 and 1 4 7 are sorted together; 9 stays, and 8 ... is read

Rows are int64[C, n]: C columns of n rows, of which the first `keys` decide the order.
"""

import tempfile
from collections.abc import Iterable, Iterator

import numpy as np

from pagestore.sorting.tuples import sort_order


class Runs:
    """Sorted runs of rows in temporary files, which the system removes once they are closed, or
    the process ends.
    """

    def __init__(self, keys: int) -> None:
        self._keys, self._runs = keys, list[_Run]()
        self.rows = self.nbytes = 0

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, rows: np.ndarray) -> None:
        """Write one run, of rows in key order.  Raises OSError."""
        self._runs.append(_Run(rows))
        self.rows += rows.shape[1]
        self.nbytes += rows.nbytes

    def merged(self, memory: int) -> Iterator[np.ndarray]:
        """Yield all rows in key order, in batches; all rows of one key are in one batch if no run
        repeats a key.

        O(rows log rows), in `memory` bytes.  Raises OSError.
        """
        if not self._runs:
            return
        rows = max(1, memory // (3 * sum(8 * run.shape[0] for run in self._runs)))
        readers = [run.windows(rows) for run in self._runs]
        left = [(next(reader, None), reader) for reader in readers]
        while parts := [(window, reader) for window, reader in left if window is not None]:
            bound = min((window[: self._keys, -1] for window, _ in parts), key=tuple)
            cuts = [count_below(window[: self._keys], bound) for window, _ in parts]
            merged = np.concatenate(
                [window[:, :cut] for (window, _), cut in zip(parts, cuts, strict=True)], axis=1
            )
            yield merged[:, sort_order(merged[: self._keys])]
            left = [
                (window[:, cut:] if cut < window.shape[1] else next(reader, None), reader)
                for (window, reader), cut in zip(parts, cuts, strict=True)
            ]


class _Run:
    """One run in a file, column by column."""

    def __init__(self, rows: np.ndarray) -> None:
        self.shape = rows.shape
        self._file = tempfile.TemporaryFile(prefix="pagestore-sort-")  # noqa: SIM115
        for column in rows:
            self._file.write(np.ascontiguousarray(column).data)
        self._file.flush()

    def windows(self, rows: int) -> Iterator[np.ndarray]:
        """Yield all rows, up to `rows` at a time."""
        columns, count = self.shape
        for start in range(0, count, rows):
            window = np.empty((columns, min(rows, count - start)), np.int64)
            for number, column in enumerate(window):
                self._file.seek(8 * (number * count + start))
                self._file.readinto(column)
            yield window


def external_sort(batches: Iterable[np.ndarray], keys: int, memory: int) -> Iterator[np.ndarray]:
    """Yield rows int64[C, n] in ascending order of their keys; more than `memory` bytes go through
    files.

    >>> [batch.tolist() for batch in external_sort([np.array([[5, 3], [1, 2]]), np.array([[4], [9]])], 1, 1 << 20)]
    [[[3, 4, 5], [2, 9, 1]]]
    """
    runs, newest = Runs(keys), None
    # a third each for the chunk, its order and its sorted copy
    for chunk in _chunks(batches, memory // 3):
        if newest is not None:
            runs.add(newest)
        newest = chunk[:, sort_order(chunk[:keys])]
    if newest is not None and len(runs):
        runs.add(newest)
        yield from runs.merged(memory)
    elif newest is not None:
        yield newest


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


def _chunks(batches: Iterable[np.ndarray], bytes_max: int) -> Iterator[np.ndarray]:
    held: list[np.ndarray] = []
    for batch in batches:
        held.append(batch)
        if sum(each.nbytes for each in held) >= bytes_max:
            yield np.concatenate(held, axis=1)
            held = []
    if held:
        yield np.concatenate(held, axis=1)
