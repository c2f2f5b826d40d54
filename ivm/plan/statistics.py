"""What the planner knows of relations: how many distinct tuples some columns have, and which values
many rows share.

    r(x, y)     1,000,000 rows, read at 64 places, 512 rows at each
    y           9,000 values were met at one place, 2,000 at two, 1,000 at more: about 30,000 in all
    y = 7       was met at 60 places, in 6,600 of 32,768 rows: a heavy hitter, in about 200,000 rows

A relation with few rows is read whole, so it is known exactly.  Of others, the number of values met
at one place only says how many there are that were met nowhere (the estimator of Chao and Lin for
samples without replacement). It does not assume that rows come in random order: values whose rows
are neighbours are met at one place each, and then all that counts is which part of the relation was
read.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ivm.join.groups import Numbers
from ivm.lang.rewrite.numbers import rows_of
from pagestore.host import Blocks

ROWS_ASSUMED = 1000  # of a relation that has no rows yet
WHOLE_ROWS = 1 << 15  # a relation with up to so many rows is read whole
SAMPLE_ROWS = 1 << 15  # of others
SAMPLE_BLOCKS = 1 << 6  # of neighbouring rows
HEAVY_SHARE = 1 / 64  # of the rows: a value in more of them is a heavy hitter
HEAVY_FACTOR = 8  # if it is also in so many times the rows that a value is in on average


# estimated distinct tuples of some columns of a predicate
Distinct = Callable[[str, tuple[int, ...]], float]
# the heavy hitters of a column, and the rows that each is in
Heavy = Callable[[str, int], Mapping[int, float]]


def none_heavy(_predicate: str, _column: int) -> Mapping[int, float]:
    """Return no heavy hitters, where none are known."""
    return {}


class Sample:
    """Blocks of neighbouring rows of a relation of `count` rows: `size` rows, each column of which
    is read when it is first asked for; `place` int64[size] is the block of each row.
    """

    def __init__(self, blocks: Blocks, count: int) -> None:
        lengths = [block.shape[1] for block in blocks.read()]
        self._blocks, self.count = blocks, count
        self.size: int = sum(lengths)
        self.place = np.repeat(np.arange(len(lengths)), lengths)
        self._columns = dict[int, np.ndarray]()
        self._known = dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]]()

    def column(self, column: int) -> np.ndarray:
        """Return the words int64[size] of a column."""
        if column not in self._columns:
            self._columns[column] = np.concatenate([*self._blocks.read(column)], axis=1)[0]
        return self._columns[column]

    @property
    def is_whole(self) -> bool:
        """Whether these are all rows."""
        return self.size == self.count

    def distinct(self, columns: tuple[int, ...]) -> float:
        """Estimate the distinct tuples of some columns; exact if these are all.  O(n)."""
        if self.is_whole:
            return float(len(self._numbered(columns)[1]))
        places = self.places(columns)
        blocks, read = int(self.place[-1]) + 1, self.size / self.count
        once, twice = np.count_nonzero(places == 1), np.count_nonzero(places == 2)
        unmet = once**2 / max(
            1.0, 2 * twice * blocks / max(1, blocks - 1) + once * read / (1 - read)
        )
        return float(min(self.count, len(places) + unmet))

    def places(self, columns: tuple[int, ...]) -> np.ndarray:
        """Return at how many places each different tuple of some columns was met.  O(n)."""
        numbers, _ = self._numbered(columns)
        return np.bincount(numbers[Numbers(np.stack([numbers, self.place])).firsts])

    def _numbered(self, columns: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Return a number for each row, the same for equal tuples of some columns, and the first
        row of each number.  O(n).
        """
        if columns not in self._known:
            words = self.column(columns[-1]) if columns else np.zeros_like(self.place)
            if len(columns) < 2:
                made = Numbers(words[None])
                self._known[columns] = made.numbers, made.firsts
            else:
                self._known[columns] = before, firsts = self._numbered(columns[:-1])
                if len(firsts) < len(words):
                    made = Numbers(np.stack([before, words]))
                    self._known[columns] = made.numbers, made.firsts
        return self._known[columns]

    def heavy(self, column: int) -> dict[int, float]:
        """Estimate how many rows each heavy hitter of a column is in; of a part, those that
        several blocks have.
        """
        words, (numbers, firsts) = self.column(column), self._numbered((column,))
        times = np.bincount(numbers)
        often = np.flatnonzero(
            times > max(len(words) * HEAVY_SHARE, HEAVY_FACTOR * len(words) / len(firsts))
        )
        found = sorted(zip(words[firsts[often]].tolist(), times[often].tolist(), strict=True))
        scale = self.count / len(words)
        return {
            word: n * scale for word, n in found if self.is_whole or self._spreads(column, word)
        }

    def _spreads(self, column: int, word: int) -> bool:
        places = self.place[self.column(column) == word]
        return bool(places[0] != places[-1])


class Statistics:
    """Distinct tuples and heavy hitters of the relations of a source, each of which is sampled
    once.

    What follows from the sample of a committed tree is remembered while the store is open.
    """

    def __init__(self, source: Any, whole: bool = False) -> None:
        """`source` is a snapshot, a sketch or a transaction; `whole` reads all rows, however
        many there are.
        """
        self._source, self._whole = source, whole
        self._trees: dict[str, Any] = {}
        self._samples: dict[str, Sample] = {}
        self._remembered: dict[str, dict[Any, Any]] = {}
        self._known: dict[tuple[str, tuple[int, ...]], float] = {}
        self._heavy: dict[tuple[str, int], Mapping[int, float]] = {}

    def distinct(self, predicate: str, columns: tuple[int, ...]) -> float:
        """Estimate the distinct tuples of some columns of a predicate; 1000 (32 of one column)
        if it has no rows.
        """
        # seven columns have 5,040 orders, but only 128 sets
        key = predicate, tuple(sorted(columns))
        if key not in self._known:
            self._known[key] = self._count(*key)
        return self._known[key]

    def heavy(self, predicate: str, column: int) -> Mapping[int, float]:
        """Return the heavy hitters of a column of a predicate, and the rows that each is in;
        none of a sole key.
        """
        key = predicate, column
        if key not in self._heavy:
            tree = self._stored(predicate, column)
            unique = tree is None or tree.spec.keys == 1 + column == 1
            self._heavy[key] = {} if unique else self._of(predicate, column, Sample.heavy)
        return self._heavy[key]

    def _stored(self, predicate: str, column: int) -> Any:
        """Return the tree of a predicate if it has rows with a column; those of a view that is
        being replaced may have fewer.
        """
        if predicate not in self._trees:
            known = not rows_of(predicate) and predicate in self._source
            self._trees[predicate] = self._source.tree(predicate) if known else None
        tree = self._trees[predicate]
        return tree if tree is not None and tree.count and column < tree.spec.columns else None

    def _count(self, predicate: str, columns: tuple[int, ...]) -> float:
        tree = self._stored(predicate, max(columns, default=0))
        if tree is None:
            return float(rows_of(predicate) or ROWS_ASSUMED ** min(1.0, len(columns) / 2))
        if {*range(tree.spec.keys)}.issubset(columns):
            return float(tree.count)
        number: float = self._of(predicate, columns, Sample.distinct)
        return number

    def _of(
        self, predicate: str, what: int | tuple[int, ...], compute: Callable[[Sample, Any], Any]
    ) -> Any:
        """Return what is computed from a sample, once for each tree that is committed."""
        if predicate not in self._remembered:
            self._remembered[predicate] = self._source.remembered(self._trees[predicate])
        known, key = self._remembered[predicate], (what, self._whole)
        if key not in known:
            known[key] = compute(self._sample(predicate), what)
        return known[key]

    def _sample(self, predicate: str) -> Sample:
        if predicate not in self._samples:
            tree = self._trees[predicate]
            is_small = self._whole or tree.count <= WHOLE_ROWS
            size = (1, tree.count) if is_small else (SAMPLE_BLOCKS, SAMPLE_ROWS)
            blocks = Blocks(self._source.pages, tree, *size)
            self._samples[predicate] = Sample(blocks, tree.count)
        return self._samples[predicate]
