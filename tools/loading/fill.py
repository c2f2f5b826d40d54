"""Fill an empty relation bottom-up: directly if the rows ascend, else after an external sort.

A batch is int64[C, n]: C columns of n rows, of which the first `keys` decide the order. A bag keeps
rows that are repeated, and has one column more, which says how often.
"""

import functools
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pagestore.host import Spec, Transaction, WritableRelation, external_sort

from ..cli.answers import counted
from .casts import DatasetError

CONFLICTS_SHOWN = 3
KEEP_ONE = "keep one of them, or make a column that tells them apart part of the key"
LATER = "mend the source, or take the last row of a key with --upsert"


class Disorder(Exception):
    """The stream is not ascending by key."""


class RepeatedKeys(DatasetError):
    """Keys are repeated with different values; `keys` has as many as were asked for."""

    def __init__(
        self, problem: str, relation: str = "", keys: Sequence[tuple[Any, ...]] = ()
    ) -> None:
        super().__init__(problem)
        self.relation, self.keys = relation, keys


class Filled:
    """The result of filling a relation: rows stored, duplicates collapsed, and whether rows were
    sorted first.
    """

    def __init__(self) -> None:
        self.rows, self.collapsed, self.sorted = 0, 0, False


def fill(
    txn: Transaction,
    relation: WritableRelation,
    words: Callable[[], Generator[np.ndarray, None, None]],
    memory: int,
    source: str,
    storing: Callable[[int], None],
    remedy: str = KEEP_ONE,
    most: int = CONFLICTS_SHOWN,
) -> Filled:
    """Fill an empty relation with batches of words int64[C, n], which each call of `words()` yields
    from the start.

    `storing` is called with the number of rows stored so far, if rows had to be sorted.

    Raises RepeatedKeys for keys that have two different values, with at most `most` of them, naming
    `source` and the `remedy`. O(rows) in bounded memory for rows that ascend by key, else O(rows
    log rows). Texts in a key are always sorted, as they are stored by their ids.
    """
    filled, keys = Filled(), len(relation.schema.key)

    def stored(batches: Iterable[np.ndarray]) -> None:
        conflicts = Conflicts(most)
        txn.bulk(
            relation.info,
            records_of(batches, relation.info.spec, relation.info.bag, filled, conflicts),
        )
        conflicts.refuse(txn, relation, source, remedy)

    if relation.sorts_texts or not _stored_as_given(txn, stored, words()):
        filled.rows, filled.collapsed, filled.sorted = 0, 0, True
        stored(_counted(external_sort(words(), keys, memory), storing))
    return filled


def _stored_as_given(
    txn: Transaction,
    stored: Callable[[Iterable[np.ndarray]], None],
    words: Generator[np.ndarray, None, None],
) -> bool:
    """Store batches; return False, with nothing stored and nothing reading any more, if they do
    not ascend by key.
    """
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


def records_of(
    batches: Iterable[np.ndarray], spec: Spec, bag: bool, filled: Filled, conflicts: "Conflicts"
) -> Iterator[np.ndarray]:
    """Yield rows, in batches int64[C, n], as the records of a tree, and count these rows in
    `filled`.

    Raises Disorder if a key falls. Repetitions of a key with other values are added to `conflicts`.
    """
    return _weighed(batches, filled) if bag else rising(batches, spec.keys, filled, conflicts)


def _weighed(batches: Iterable[np.ndarray], filled: Filled) -> Iterator[np.ndarray]:
    """Yield each distinct row of a bag once, with how often it occurs: batches int64[C + 1, m] of
    int64[C, n].

    Count the rows in `filled`. Raises Disorder if a row falls.

    >>> [batch.tolist() for batch in _weighed([np.array([[1, 1, 2]]), np.array([[2, 2, 3]])], Filled())]
    [[[1], [2]], [[2], [3]], [[3], [1]]]
    """
    # a row that the next batch may continue, and how often it was met
    last, times = np.empty((0, 0), np.int64), 0
    for batch in batches:
        if not batch.shape[1]:
            continue
        filled.rows += batch.shape[1]
        rows = np.concatenate([last, batch], axis=1) if times else batch
        steps = _steps(rows)
        if (steps < 0).any():
            raise Disorder
        begins = np.concatenate([[0], np.flatnonzero(steps) + 1])
        counts = np.diff(np.append(begins, rows.shape[1]))
        counts[0] += max(0, times - 1)
        yield np.concatenate([rows[:, begins[:-1]], counts[None, :-1]])
        last, times = rows[:, -1:].copy(), int(counts[-1])
    if times:
        yield np.concatenate([last, [[times]]])


def rising(
    batches: Iterable[np.ndarray], keys: int, filled: Filled, conflicts: "Conflicts"
) -> Iterator[np.ndarray]:
    """Yield batches int64[C, n] without repetitions of a key, the first `keys` columns; count both
    in `filled`.

    Raises Disorder if a key falls. Repetitions with other values are added to `conflicts`.
    """
    last = np.empty((0, 0), np.int64)
    for batch in batches:
        if not batch.shape[1]:
            continue
        edge = np.concatenate([last, batch[:, :1]], axis=1)[:keys] if last.size else None
        # to each row
        steps = np.concatenate([[1] if edge is None else _steps(edge), _steps(batch[:keys])])
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
        filled.rows += batch.shape[1]
        yield batch
        last = whole[:, -1:].copy()


def _steps(keys: np.ndarray) -> np.ndarray:
    """Return the step from each row of int64[K, n] to the next: 1 if the key rises, 0 if it is
    equal, -1 if it falls.

    >>> _steps(np.array([[1, 1, 1, 2], [5, 6, 6, 0]])).tolist()
    [1, 0, 1]
    """
    steps = np.zeros(max(0, keys.shape[1] - 1), np.int8)
    for column in keys[::-1]:
        here, following = column[:-1], column[1:]
        steps = np.where(here == following, steps, np.where(here < following, 1, -1))
    return steps


class Conflicts:
    """Keys that have two different values: their number, and the first `most` of them as words."""

    def __init__(self, most: int = CONFLICTS_SHOWN) -> None:
        self.count, self.most = 0, most
        self.pairs: list[tuple[np.ndarray, np.ndarray]] = []  # int64[C] each

    def add(self, one: np.ndarray, other: np.ndarray) -> None:
        """Add pairs of rows, int64[C, n] each, with the same keys and different values."""
        self.count += one.shape[1]
        room = self.most - len(self.pairs)
        if room > 0:
            self.pairs += zip(one[:, :room].T.copy(), other[:, :room].T.copy(), strict=True)

    def join(self, more: "Conflicts") -> None:
        """Add the conflicts of another."""
        self.count += more.count
        self.pairs = [*self.pairs, *more.pairs][: self.most]

    def refuse(
        self, txn: Transaction, relation: WritableRelation, source: str, remedy: str = KEEP_ONE
    ) -> None:
        """Raise RepeatedKeys if there is a conflict."""
        if not self.count:
            return
        keys = len(relation.schema.key)
        rows = np.array([row for pair in self.pairs[:CONFLICTS_SHOWN] for row in pair]).T
        texts = _texts(txn, relation, rows)
        shown = [
            f"key ({', '.join(text[:keys])}) has both ({', '.join(text[keys:])}) and "
            f"({', '.join(other[keys:])})"
            for text, other in zip(texts[::2], texts[1::2], strict=True)
        ]
        more = [f"{counted(self.count, 'key')} in all"] * (self.count > len(shown))
        columns = zip(
            relation.schema.stored[:keys], np.array([key for key, _ in self.pairs]).T, strict=False
        )
        decoded = [txn.decode(column.type, words).to_pylist() for column, words in columns]
        problem = f"{source}: {'; '.join([*shown, *more])}: {remedy}"
        raise RepeatedKeys(problem, relation.name, [*dict.fromkeys(zip(*decoded, strict=True))])


class Doubles:
    """Keys that have several values, of which the first row stays and later ones are put aside.

    `keys` are tuples of values of the columns `names`. `kept` has rows of the relation, by column,
    that stay whatever the files have.
    """

    def __init__(
        self,
        names: Sequence[str],
        keys: Sequence[tuple[Any, ...]],
        kept: Sequence[Mapping[str, Any]],
    ) -> None:
        self.names, self.keys = tuple(names), {*keys}
        self._kept = {tuple(row[name] for name in names): row for row in kept}
        self._values = [[*{key[place] for key in keys}] for place in range(len(names))]
        self._first: dict[tuple[Any, ...], Mapping[str, Any]] = {}

    def restart(self) -> None:
        """Forget which rows came first, since the files are read again."""
        self._first = {**self._kept}

    def later(
        self, columns: Mapping[str, pa.Array], left_out: Callable[[int], bool]
    ) -> Iterator[tuple[int, str]]:
        """Yield the rows of a batch whose key has other values before, each with the reason.
        O(rows).

        Rows for which `left_out` is true are not loaded, so they do not count.
        """
        keys = (
            (columns[name], values) for name, values in zip(self.names, self._values, strict=True)
        )
        near = functools.reduce(
            pc.and_, (pc.is_in(array, pa.array(values, array.type)) for array, values in keys)
        )
        for place in np.flatnonzero(near.to_numpy(zero_copy_only=False)).tolist():
            row = {name: array[place].as_py() for name, array in columns.items()}
            key = tuple(row[name] for name in self.names)
            if (
                key in self.keys
                and not left_out(place)
                and (first := self._first.setdefault(key, row)) != row
            ):
                shown = ", ".join(
                    f"{name}={value}" for name, value in first.items() if name not in self.names
                )
                of = ", ".join(
                    f"{name}={value}" for name, value in zip(self.names, key, strict=True)
                )
                yield place, f"the key ({of}) has other values already, ({shown}): {LATER}"


def _texts(txn: Transaction, relation: WritableRelation, rows: np.ndarray) -> list[Sequence[str]]:
    """Return rows int64[C, n], each as the texts of its columns."""
    stored = relation.schema.stored
    columns = [txn.decode(column.type, words) for column, words in zip(stored, rows, strict=True)]
    return [
        [f"{column.name}={value}" for column, value in zip(stored, row, strict=True)]
        for row in zip(*columns, strict=True)
    ]
