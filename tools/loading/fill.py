"""Fill an empty relation bottom-up: directly if the rows ascend, else after an external sort.

Sort more words than fit into memory: write sorted runs to temporary files, and merge them by windows.

A batch is int64[C, n]: C columns of n rows, of which the first `keys` decide the order.
"""

import tempfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from pagestore.host import Transaction, WritableRelation, sort_order

from ..cli.answers import counted
from .casts import DatasetError

CONFLICTS_SHOWN = 3
KEEP_ONE = "keep one of them, or make a column that tells them apart part of the key"


class Disorder(Exception):
    """The stream is not ascending by key."""


class RepeatedKeys(DatasetError):
    """A key is repeated with different values."""


class Filled:
    """The result of filling a relation: rows stored, duplicates collapsed, and whether rows were sorted first."""

    def __init__(self) -> None:
        self.rows, self.collapsed, self.sorted = 0, 0, False


def fill(
    txn: Transaction, relation: WritableRelation, words: Callable[[], Generator[np.ndarray, None, None]], memory: int,
    source: str, storing: Callable[[int], None], remedy: str = KEEP_ONE,
) -> Filled:  # fmt: skip
    """Fill an empty relation with batches of words int64[C, n], which each call of `words()` yields from the start.

    `storing` is called with the number of rows stored so far, if rows had to be sorted.

    Raises DatasetError for keys that have two different values, naming `source` and the `remedy`. O(rows) in bounded
    memory for rows that ascend by key, else O(rows log rows). Texts in a key are always sorted, as they are stored by
    their ids.
    """
    filled, keys = Filled(), len(relation.schema.key)

    def stored(batches: Iterable[np.ndarray]) -> None:
        conflicts = Conflicts()
        filled.rows = txn.bulk(relation.info, rising(batches, keys, filled, conflicts))
        conflicts.refuse(txn, relation, source, remedy)

    if relation.sorts_texts or not _stored_as_given(txn, stored, words()):
        filled.collapsed, filled.sorted = 0, True
        stored(_counted(sort(words(), keys, memory), storing))
    return filled


def _stored_as_given(
    txn: Transaction, stored: Callable[[Iterable[np.ndarray]], None], words: Generator[np.ndarray, None, None]
) -> bool:
    """Store batches; return False, with nothing stored and nothing reading any more, if they do not ascend by key."""
    try:
        with txn.savepoint():
            stored(words)
        return True
    except Disorder:
        return False
    finally:
        words.close()  # nothing may read the files when they are read again


def _counted(batches: Iterable[np.ndarray], storing: Callable[[int], None]) -> Iterator[np.ndarray]:
    rows = 0
    for batch in batches:
        yield batch
        rows += batch.shape[1]
        storing(rows)


def rising(batches: Iterable[np.ndarray], keys: int, filled: Filled, conflicts: "Conflicts") -> Iterator[np.ndarray]:
    """Yield batches int64[C, n] without repetitions of a key, the first `keys` columns, and count these in `filled`.

    Raises Disorder if a key falls. Repetitions with other values are added to `conflicts`.
    """
    last = np.empty((0, 0), np.int64)
    for batch in batches:
        if not batch.shape[1]:
            continue
        edge = np.concatenate([last, batch[:, :1]], axis=1)[:keys] if last.size else None
        steps = np.concatenate([[1] if edge is None else _steps(edge), _steps(batch[:keys])])  # to each row
        if (steps < 0).any():
            raise Disorder
        again = np.flatnonzero(steps == 0)
        whole, batch = batch, np.delete(batch, again, axis=1) if len(again) else batch
        if len(again):
            before = whole[:, again - 1]
            if again[0] == 0:
                before[:, 0] = last[:, 0]
            differ = (before != whole[:, again]).any(axis=0)
            conflicts.add(before[:, differ], whole[:, again[differ]])
            filled.collapsed += len(again)
        yield batch
        last = whole[:, -1:].copy()


def _steps(keys: np.ndarray) -> np.ndarray:
    """Return the step from each row of int64[K, n] to the next: 1 if the key rises, 0 if it is equal, -1 if it falls.

    >>> _steps(np.array([[1, 1, 1, 2], [5, 6, 6, 0]])).tolist()
    [1, 0, 1]
    """
    steps = np.zeros(max(0, keys.shape[1] - 1), np.int8)
    for column in keys[::-1]:
        here, following = column[:-1], column[1:]
        steps = np.where(here == following, steps, np.where(here < following, 1, -1))
    return steps


class Conflicts:
    """Keys that have two different values: their number, and the first of them as words."""

    def __init__(self) -> None:
        self.count = 0
        self.pairs: list[tuple[np.ndarray, np.ndarray]] = []  # int64[C] each

    def add(self, one: np.ndarray, other: np.ndarray) -> None:
        """Add pairs of rows, int64[C, n] each, with the same keys and different values."""
        self.count += one.shape[1]
        room = CONFLICTS_SHOWN - len(self.pairs)
        if room > 0:
            self.pairs += zip(one[:, :room].T.copy(), other[:, :room].T.copy(), strict=True)

    def join(self, more: "Conflicts") -> None:
        """Add the conflicts of another."""
        self.count += more.count
        self.pairs = [*self.pairs, *more.pairs][:CONFLICTS_SHOWN]

    def refuse(self, txn: Transaction, relation: WritableRelation, source: str, remedy: str = KEEP_ONE) -> None:
        """Raise DatasetError if there is a conflict."""
        if not self.count:
            return
        keys = len(relation.schema.key)
        rows = np.array([row for pair in self.pairs for row in pair]).T
        texts = _texts(txn, relation, rows)
        shown = [
            f"key ({', '.join(one[:keys])}) has both ({', '.join(one[keys:])}) and ({', '.join(other[keys:])})"
            for one, other in zip(texts[::2], texts[1::2], strict=True)
        ]
        more = [f"{counted(self.count, 'key')} in all"] * (self.count > len(shown))
        raise RepeatedKeys(f"{source}: {'; '.join([*shown, *more])}: {remedy}")


def _texts(txn: Transaction, relation: WritableRelation, rows: np.ndarray) -> list[Sequence[str]]:
    """Return rows int64[C, n], each as the texts of its columns."""
    stored = relation.schema.stored
    columns = [txn.decode(column.type, words) for column, words in zip(stored, rows, strict=True)]
    return [
        [f"{column.name}={value}" for column, value in zip(stored, row, strict=True)]
        for row in zip(*columns, strict=True)
    ]


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
