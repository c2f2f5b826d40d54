"""Run a plan over trees: bindings and trace rows, batch by batch (*Leapfrog Triejoin*).

The join knows tries and nothing of what is done with the trace rows.  The oracle, when there is one,
is one more trie; without it every binding of the body comes out.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from ivm.kernels import leapfrog as kernel
from pagestore.compiled import raise_for
from pagestore.tree import Pages, Tree, scan

INT_MIN, INT_MAX = kernel.INT_MIN, kernel.INT_MAX
ALL = (INT_MIN, INT_MAX)
BATCH = 1 << 16
RANGES_PER_THREAD = 4  # so that an uneven range does not keep the others waiting
PARALLEL_FROM = 1 << 14  # records of the first variable's smallest relation


@dataclass(frozen=True, eq=False)
class Shape:
    """A plan as arrays; everything but the roots of the trees.

    argument_level[A, D] gives the level of each argument (-1 behind the last), part_* which (atom,
    depth) leapfrog at which level, absent_* the negated atoms, bound_* the constraints (kind, level
    referred to or -1, constant), reads[V, 3] the (atom, depth, column) read off at a binding.
    """

    argument_level: np.ndarray
    part_start: np.ndarray
    parts: np.ndarray
    absent_start: np.ndarray
    absent: np.ndarray
    bound_start: np.ndarray
    bounds: np.ndarray
    reads: np.ndarray

    @property
    def levels(self) -> int:
        return len(self.part_start) - 1

    @property
    def depths(self) -> np.ndarray:
        return (self.argument_level >= 0).sum(axis=1)

    @cached_property
    def no_sensors(self) -> "Sensors":
        return Sensors(np.full(self.argument_level.shape, -1, np.int64), np.empty((0, 1), np.int64))

    @cached_property
    def everything(self) -> "Regions":
        """The oracle of a full evaluation: no regions, all is covered."""
        return Regions(np.empty((self.levels + 1, 0), np.int64), np.zeros(self.levels + 1, np.int64))


@dataclass(frozen=True, eq=False)
class Sensors:
    """Which iterator operations leave trace rows: sensor[A, D] is the number of the index or -1.

    sources[S, width] says for each column of an index: a level, -1 for a, -2 for b, -3 for nothing.
    """

    sensor: np.ndarray
    sources: np.ndarray

    @cached_property
    def widths(self) -> list[int]:
        """Columns of each index."""
        return (self.sources != -3).sum(axis=1).tolist()


class Regions(NamedTuple):
    """A change oracle as arrays (see kernels/oracle.py): rows[L + 1, R] and start[L + 1]."""

    rows: np.ndarray
    start: np.ndarray


class Join:
    """One evaluation.  Iterating gives (bindings int64[L + V, n], trace rows by sensor [C, n]).

    `operations` counts the iterator operations so far.  Raises CorruptionError.  `first` bounds the
    first variable, inclusive, so that ranges of it can run side by side.
    """

    def __init__(
        self,
        pages: Pages,
        shape: Shape,
        trees: Sequence[Tree],
        *,
        sensors: Sensors | None = None,
        granularity: int = 1,
        regions: Regions | None = None,
        first: tuple[int, int] = ALL,
        batch: int = BATCH,
    ) -> None:
        sensors = sensors or shape.no_sensors
        if first != ALL:
            shape = _narrowed(shape, first)
        self._pages = pages
        self._plan = plan_array(shape, sensors, granularity)
        self._state = state_array(shape, sensors, regions is None).copy()
        at = int(self._state[kernel.TREES])
        self._state[at : at + 3 * len(trees)] = [x for t in trees for x in (t.root, t.height, t.spec.keys)]
        self._regions = regions or shape.everything
        self._out = np.empty((shape.levels + len(shape.reads), batch), np.int64)
        self._widths = sensors.widths
        self._rows = np.empty((*sensors.sources.shape, batch + 2 * len(shape.parts) + 8), np.int64)
        self._runs = np.empty(4 * pages.page_words, np.int64)

    @property
    def _row_count(self) -> np.ndarray:
        start = self._state[kernel.ROW_COUNT]
        return self._state[start : start + len(self._widths)]

    @property
    def operations(self) -> int:
        return int(self._state[[kernel.OPENS, kernel.SEEKS, kernel.NEXTS]].sum())

    def __iter__(self) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
        while self._state[kernel.PHASE] != kernel.DONE:
            raise_for(
                kernel.leapfrog(
                    *self._pages, self._plan, self._state, *self._regions, self._out, self._rows, self._runs
                )
            )
            rows = [
                self._rows[s, :width, :n]
                for s, (width, n) in enumerate(zip(self._widths, self._row_count.tolist(), strict=True))
            ]
            yield self._out[:, : self._state[kernel.EMITTED]], rows

    def bindings(self) -> np.ndarray:
        """All bindings at once, int64[L + V, n]."""
        return np.concatenate([out.copy() for out, _ in self] or [self._out[:, :0]], axis=1)

    def all(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """All bindings and all trace rows at once."""
        batches = [(out.copy(), [r.copy() for r in rows]) for out, rows in self]
        if len(batches) == 1:
            return batches[0]
        out = np.concatenate([b[0] for b in batches], axis=1)
        return out, [np.concatenate(rows, axis=1) for rows in zip(*(b[1] for b in batches), strict=True)]


class Evaluation(NamedTuple):
    """All bindings int64[L + V, n] in order, the trace rows of each sensor, and the iterator operations done."""

    bindings: np.ndarray
    recorded: list[np.ndarray]
    operations: int


def evaluate(
    pages: Pages,
    shape: Shape,
    trees: Sequence[Tree],
    *,
    sensors: Sensors | None = None,
    granularity: int = 1,
    threads: int = 1,
) -> Evaluation:
    """Run a plan in full, ranges of its first variable side by side.  The kernel runs without the GIL."""
    ranges = first_ranges(pages, shape, trees, RANGES_PER_THREAD * threads) if threads > 1 else [ALL]

    def run(first: tuple[int, int]) -> tuple[np.ndarray, list[np.ndarray], int]:
        join = Join(pages, shape, trees, sensors=sensors, granularity=granularity, first=first)
        return *join.all(), join.operations

    if len(ranges) == 1:
        return Evaluation(*run(ranges[0]))
    with ThreadPoolExecutor(threads) as pool:
        parts = list(pool.map(run, ranges))
    recorded = [np.concatenate(rows, axis=1) for rows in zip(*(part[1] for part in parts), strict=True)]
    return Evaluation(
        np.concatenate([part[0] for part in parts], axis=1), recorded, sum(part[2] for part in parts)
    )


def first_ranges(pages: Pages, shape: Shape, trees: Sequence[Tree], wanted: int) -> list[tuple[int, int]]:
    """Cut the first variable's values into about `wanted` ranges [lo, hi] with as many records each."""
    held = shape.bounds[: shape.bound_start[1], 0]
    tries = shape.parts[: shape.part_start[1], 0].tolist()
    if (held == kernel.EQ).any() or not tries:
        return [ALL]
    smallest = min((trees[t] for t in tries), key=lambda tree: tree.count)
    if smallest.count < PARALLEL_FROM:
        return [ALL]
    keys = np.concatenate([batch[0] for batch in scan(pages, smallest, columns=(0,))])
    cuts = np.unique(keys[len(keys) * np.arange(1, wanted) // wanted]).tolist()
    return list(zip([INT_MIN, *cuts], [*(cut - 1 for cut in cuts), INT_MAX], strict=True))


@lru_cache(256)
def plan_array(shape: Shape, sensors: Sensors, granularity: int) -> np.ndarray:
    """Lay a plan out flat: the header of kernels/leapfrog.py, then its sections."""
    sections = {
        kernel.PART_START: shape.part_start,
        kernel.PARTS: shape.parts,
        kernel.ABSENT_START: shape.absent_start,
        kernel.ABSENT: shape.absent,
        kernel.BOUND_START: shape.bound_start,
        kernel.BOUNDS: shape.bounds,
        kernel.ARGUMENTS: shape.argument_level,
        kernel.ATOM_DEPTH: shape.depths,
        kernel.READS: shape.reads,
        kernel.SENSOR: sensors.sensor,
        kernel.SOURCES: sensors.sources,
    }
    numbers = {
        kernel.LEVELS: shape.levels,
        kernel.DEPTHS: shape.argument_level.shape[1],
        kernel.VALUES: len(shape.reads),
        kernel.SENSORS: len(sensors.sources),
        kernel.WIDTH: sensors.sources.shape[1],
        kernel.GRANULARITY: granularity,
    }
    return _flat(kernel.PLAN_HEADER, numbers, sections)


@lru_cache(256)
def state_array(shape: Shape, sensors: Sensors, covered: bool) -> np.ndarray:
    """Lay the state of a run out flat, at its start; the trees are still to be put in.  Copy it."""
    levels, (atoms, depths), count = shape.levels, shape.argument_level.shape, len(sensors.sources)
    sections = {
        kernel.TREES: np.zeros(3 * atoms, np.int64),
        kernel.BINDING: np.zeros(levels, np.int64),
        kernel.LOW: np.zeros(levels, np.int64),
        kernel.HIGH: np.zeros(levels, np.int64),
        kernel.COVERED: np.full(levels + 1, covered, np.int64),
        kernel.SPANS: np.zeros(2 * levels * levels, np.int64),
        kernel.AT: np.zeros(atoms * depths, np.int64),
        kernel.ITERATORS: np.zeros(atoms * depths * kernel.ITERATOR_WORDS, np.int64),
        kernel.ROW_COUNT: np.zeros(count, np.int64),
        kernel.SHARED: np.zeros(count, np.int64),
        kernel.INTERVAL_END: np.argmax(sensors.sources == -2, axis=1) if count else np.zeros(0, np.int64),
        kernel.RUNS: np.full(6, -1, np.int64),
    }
    return _flat(kernel.STATE_HEADER, {}, sections)


def _flat(header: int, numbers: dict[int, int], sections: dict[int, np.ndarray]) -> np.ndarray:
    parts = [np.zeros(header, np.int64), *(np.asarray(s, np.int64).ravel() for s in sections.values())]
    flat = np.concatenate(parts)
    for at, number in numbers.items():
        flat[at] = number
    start = header
    for (at, _), part in zip(sections.items(), parts[1:], strict=True):
        flat[at] = start
        start += len(part)
    return flat


def _narrowed(shape: Shape, first: tuple[int, int]) -> Shape:
    """The shape with two more bounds on level 0."""
    extra = np.array([[kernel.GE, -1, first[0]], [kernel.LE, -1, first[1]]], np.int64)
    start = shape.bound_start + 2
    start[0] = 0
    return replace(shape, bound_start=start, bounds=np.concatenate([extra, shape.bounds]))
