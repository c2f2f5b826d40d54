"""Fill an empty relation bottom-up: directly if the rows ascend, else after an external sort.

A batch is int64[C, n]: C columns of n rows, of which the first `keys` decide the order.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

import numpy as np

from pagestore.host import Transaction, WritableRelation, external_sort

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
        stored(_counted(external_sort(words(), keys, memory), storing))
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
