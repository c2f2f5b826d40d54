"""An empty relation is filled bottom-up: in the order of the rows if they ascend, else sorted outside memory first."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from pagestore.relations.transaction import Transaction
from pagestore.relations.writable import WritableRelation

from ..cli.answers import counted
from .external_sort import sort
from .problems import DatasetError

CONFLICTS_SHOWN = 3
KEEP_ONE = "keep one of them, or make a column that tells them apart part of the key"


class Disorder(Exception):
    """The stream is not ascending by key."""


class Filled:
    """What filling a relation came to: rows stored, identical ones collapsed, and whether they were sorted first."""

    def __init__(self) -> None:
        self.rows, self.collapsed, self.sorted = 0, 0, False


def fill(
    txn: Transaction, relation: WritableRelation, words: Callable[[], Iterator[np.ndarray]], memory: int, source: str,
    storing: Callable[[int], None], remedy: str = KEEP_ONE,
) -> Filled:  # fmt: skip
    """Fill an empty relation with batches of words int64[C, n], which `words()` begins anew each time.

    `storing` is told how many rows that had to be sorted are stored by now.

    Raises DatasetError for keys that have two different values, naming `source` and the `remedy`. O(rows) in bounded
    memory for rows that ascend by key, else O(rows log rows). Texts in a key are always sorted, as they are stored by
    their ids.
    """
    filled, keys = Filled(), len(relation.schema.key)
    try:
        if any(column.type.interned for column in relation.schema.stored[:keys]):
            raise Disorder
        with txn.savepoint():
            filled.rows = txn.bulk(relation.info, _rising(txn, relation, words(), filled, source, remedy))
    except Disorder:
        filled.collapsed, filled.sorted = 0, True
        ordered = _counted(sort(words(), keys, memory), storing)
        filled.rows = txn.bulk(relation.info, _rising(txn, relation, ordered, filled, source, remedy))
    return filled


def _counted(batches: Iterable[np.ndarray], storing: Callable[[int], None]) -> Iterator[np.ndarray]:
    rows = 0
    for batch in batches:
        yield batch
        rows += batch.shape[1]
        storing(rows)


def rising(
    txn: Transaction, relation: WritableRelation, batches: Iterable[np.ndarray], source: str, remedy: str = KEEP_ONE
) -> Iterator[np.ndarray]:
    """Batches of words int64[C, n] that ascend by key, without repeated rows. Raises DatasetError as `fill`."""
    return _rising(txn, relation, batches, Filled(), source, remedy)


def _rising(
    txn: Transaction, relation: WritableRelation, batches: Iterable[np.ndarray], filled: Filled, source: str,
    remedy: str,
) -> Iterator[np.ndarray]:  # fmt: skip
    """The batches without repeated rows.  Raises Disorder where a key falls, DatasetError where values differ."""
    keys = len(relation.schema.key)
    last = np.empty((len(relation.schema.columns), 0), np.int64)
    conflicts = Conflicts(txn, relation, source, remedy)
    for batch in batches:
        rows = np.concatenate([last, batch], axis=1)
        order = _steps(rows[:keys])
        if (order < 0).any():
            raise Disorder
        again = np.flatnonzero(order == 0)
        differ = again[(rows[:, again] != rows[:, again + 1]).any(axis=0)]
        conflicts.add(rows[:, differ], rows[:, differ + 1])
        filled.collapsed += len(again)
        yield (np.delete(rows, again + 1, axis=1) if len(again) else rows)[:, last.shape[1] :]
        last = rows[:, -1:]
    conflicts.refuse()


def _steps(keys: np.ndarray) -> np.ndarray:
    """The step from each row of int64[K, n] to the next: 1 where the key rises, 0 where it stays, -1 where it falls.

    >>> _steps(np.array([[1, 1, 1, 2], [5, 6, 6, 0]])).tolist()
    [1, 0, 1]
    """
    steps = np.zeros(max(0, keys.shape[1] - 1), np.int8)
    for column in keys[::-1]:
        here, following = column[:-1], column[1:]
        steps = np.where(here == following, steps, np.where(here < following, 1, -1))
    return steps


class Conflicts:
    """Keys that have two different values, counted, of which the first are shown."""

    def __init__(self, txn: Transaction, relation: WritableRelation, source: str, remedy: str = KEEP_ONE) -> None:
        self.txn, self.relation, self.source, self.remedy = txn, relation, source, remedy
        self.count = 0
        self.shown: list[str] = []

    def add(self, one: np.ndarray, other: np.ndarray) -> None:
        """Rows int64[C, n] and int64[C, n] with the same keys and different values."""
        self.count += one.shape[1]
        room = CONFLICTS_SHOWN - len(self.shown)
        if room > 0 and one.shape[1]:
            pairs = zip(self._texts(one[:, :room]), self._texts(other[:, :room]), strict=True)
            keys = len(self.relation.schema.key)
            for old, new in pairs:
                self.shown.append(
                    f"key ({', '.join(old[:keys])}) has both ({', '.join(old[keys:])}) and ({', '.join(new[keys:])})"
                )

    def _texts(self, rows: np.ndarray) -> list[Sequence[str]]:
        stored = self.relation.schema.stored
        columns = [self.txn.decode(column.type, words) for column, words in zip(stored, rows, strict=True)]
        return [
            [f"{column.name}={value}" for column, value in zip(stored, row, strict=True)]
            for row in zip(*columns, strict=True)
        ]

    def refuse(self) -> None:
        """Raise DatasetError if there is a conflict."""
        if not self.count:
            return
        more = [f"{counted(self.count, 'key')} in all"] * (self.count > len(self.shown))
        raise DatasetError(f"{self.source}: {'; '.join([*self.shown, *more])}: {self.remedy}")
