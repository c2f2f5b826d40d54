"""A cursor: a position at a record of a range, or before or after all, that moves forward and back.

cursor.seek((2,))      the first record whose key is at least (2,)
cursor.next()          the next one; cursor.prev() the one before
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from pagestore.relations.range import Range
from pagestore.relations.text_keys import Bound

STEP_ROWS = 64  # records that are read ahead at first
BEFORE, BEHIND = "before", "behind"


class Cursor:
    """A position in a range. It begins before the first record; a move returns the record that it reaches, or None.

    In a transaction it sees the edits made so far. Moves cost O(log n), and less in sequence;
    where texts are compared, as much as reading the range.

    >>> import pagestore
    >>> with pagestore.open(":memory:") as store, store.transaction() as txn:
    ...     square = txn.create("square", "x: int64, y: int64", key="x")
    ...     square.insert([(x, x * x) for x in range(10)])
    ...     cursor = square.cursor()
    ...     cursor.seek(4), cursor.next(), cursor.prev(), cursor.prev(), cursor.last(), cursor.next(), cursor.prev()
    ((4, 16), (5, 25), (4, 16), (3, 9), (9, 81), None, (9, 81))
    """

    def __init__(self, within: Range) -> None:
        self._range = within
        self._words: tuple[int, ...] | str = BEFORE  # of the record that it is at, or BEFORE or BEHIND
        self._ahead: Iterator[tuple[int, ...]] = iter(())
        self._going: Any = None  # the direction and the order of `_ahead`

    @property
    def record(self) -> tuple[Any, ...] | None:
        """The record that the cursor is at, as a tuple; None before the first one and after the last one."""
        if isinstance(self._words, str):
            return None
        columns = self._range.record_batch(np.array(self._words)[:, None]).columns
        return tuple(column[0].as_py() for column in columns)

    def first(self) -> tuple[Any, ...] | None:
        """Move to the first record."""
        self._words = BEFORE
        return self.next()

    def last(self) -> tuple[Any, ...] | None:
        """Move to the last record."""
        self._words = BEHIND
        return self.prev()

    def seek(self, key: Any) -> tuple[Any, ...] | None:
        """Move to the first record whose key is at least `key`, or a prefix of one. Raises SchemaError, WordError."""
        return self._move(1, self._forward(max(self._range._bound(key), self._range._lo)))

    def next(self) -> tuple[Any, ...] | None:
        """Move to the next record, or from the last one to the end."""
        if self._words == BEHIND:
            return None
        if not self._goes_on(1):
            here = None if isinstance(self._words, str) else self._words[: self._keys]
            ahead = self._forward(self._range._bound_at(here) if here else self._range._lo)
            self._ahead = (words for words in ahead if words[: self._keys] != here)
        return self._move(1, self._ahead)

    def prev(self) -> tuple[Any, ...] | None:
        """Move to the previous record, or from the first one to the start."""
        if self._words == BEFORE:
            return None
        if not self._goes_on(-1):
            words = self._words
            self._ahead = self._backward(self._range._hi if isinstance(words, str) else self._range._bound_at(words))
        return self._move(-1, self._ahead)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yield the records from here on."""
        while (record := self.next()) is not None:
            yield record

    @property
    def _keys(self) -> int:
        return len(self._range.schema.key)

    def _goes_on(self, way: int) -> bool:
        """Return whether `_ahead` continues from here in this direction."""
        return not isinstance(self._words, str) and self._going == (way, self._range._order())

    def _move(self, way: int, ahead: Iterator[tuple[int, ...]]) -> tuple[Any, ...] | None:
        self._going, self._ahead = (way, self._range._order()), ahead
        self._words = next(ahead, BEHIND if way > 0 else BEFORE)
        _ = self._range.source.pages  # raises if it was closed: the pages may have been reused
        return self.record

    def _forward(self, lo: Bound) -> Iterator[tuple[int, ...]]:
        return self._rows(Range(self._range.source, self._range.info, lo, self._range._hi).words(rows=STEP_ROWS))

    def _backward(self, hi: Bound) -> Iterator[tuple[int, ...]]:
        return self._rows(Range(self._range.source, self._range.info, self._range._lo, hi)._words_backward(STEP_ROWS))

    def _rows(self, batches: Iterator[np.ndarray]) -> Iterator[tuple[int, ...]]:
        for batch in batches:
            yield from map(tuple, batch[: len(self._range.schema.columns)].T.tolist())
