"""A plan and the state of a run as arrays, which the join's kernels take (*Leapfrog Triejoin*).

The change oracle: a union of regions where bindings may have changed, which the join takes as one
more trie.

A_co = {[6, end]}, B_co = {[2, 2]}        ChangeOracle = [2, 2] u [6, +inf]
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from ivm.join.kernels import leapfrog, tries
from ivm.join.kernels.bounds import merge_intervals
from pagestore.compiled import TypedKernel
from pagestore.host import WORD_MAX, WORD_MIN, Tree, distinct

ALL = (WORD_MIN, WORD_MAX)


@dataclass(frozen=True, eq=False)
class Shape:
    """A plan as arrays; everything but the roots of the trees.

    argument_level[A, D] gives the level of each argument (-1 after the last), part_* which (atom,
    depth) leapfrog at which level, absent_* the negated atoms, bound_* the constraints (see
    join/kernels/tries.py), reads[V, 3] the (atom, depth, column) read at a binding.
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
        """How many key variables the plan has."""
        return len(self.part_start) - 1

    @property
    def depths(self) -> np.ndarray:
        """How many arguments each atom has, int64[A]."""
        depths: np.ndarray = (self.argument_level >= 0).sum(axis=1)
        return depths

    @property
    def innermost(self) -> int:
        """How many atoms are joined at the last level."""
        return int(self.part_start[-1] - self.part_start[-2])

    @cached_property
    def no_sensors(self) -> "Sensors":
        """The sensors of a run that records nothing."""
        return Sensors(np.full(self.argument_level.shape, -1, np.int64), np.empty((0, 1), np.int64))

    @cached_property
    def everything(self) -> "Regions":
        """The oracle of a full evaluation: no regions, everything is covered."""
        return Regions(
            np.empty((self.levels + 1, 0), np.int64), np.zeros(self.levels + 1, np.int64)
        )

    @cached_property
    def ranged(self) -> "Shape":
        """The shape with two more bounds on level 0, first in its plan, that admit every value."""
        extra = bound_table([(tries.GE, (), WORD_MIN), (tries.LE, (), WORD_MAX)])
        start = self.bound_start + 2
        start[0] = 0
        return replace(self, bound_start=start, bounds=np.concatenate([extra, self.bounds]))

    def given(self, atom: int) -> "Shape":
        """Return the shape without checks of an atom that is known to hold for all bindings; it
        must have no reads.
        """
        others = self.parts[:, 0] != atom
        start = np.append(0, np.cumsum(others))[self.part_start]
        return replace(self, part_start=start, parts=self.parts[others])


def bound_table(bounds: Sequence[tuple[int, Sequence[tuple[int, int]], int]]) -> np.ndarray:
    """Return constraints (kind, others, constant) as kernels take them, int64[n, BOUND_WORDS]."""
    table = np.full((len(bounds), tries.BOUND_WORDS), -1, np.int64)
    for row, (kind, others, constant) in zip(table, bounds, strict=True):
        row[[tries.KIND, tries.CONSTANT]] = kind, constant
        row[tries.OTHER : tries.OTHER + 2 * len(others)] = [*chain(*others)]
    return table


@dataclass(frozen=True, eq=False)
class Sensors:
    """Which iterator operations write trace rows: sensor[A, D] is the number of the index or -1.

    sources[S, width] says for each column of an index: a level, -1 for a, -2 for b, -3 for nothing.
    """

    sensor: np.ndarray
    sources: np.ndarray

    @cached_property
    def widths(self) -> list[int]:
        """How many columns each sensitivity index has."""
        widths: list[int] = (self.sources != -3).sum(axis=1).tolist()
        return widths


class Regions(NamedTuple):
    """A change oracle as arrays (see join/kernels/bounds.py): rows[L + 1, R] and start[L + 1]."""

    rows: np.ndarray
    start: np.ndarray


@lru_cache(256)
def plan_array(shape: Shape, sensors: Sensors, granularity: int) -> np.ndarray:
    """Flatten a plan into one array: the header of join/kernels/tries.py, then its sections."""
    sections = {
        tries.PART_START: shape.part_start,
        tries.PARTS: shape.parts,
        tries.ABSENT_START: shape.absent_start,
        tries.ABSENT: shape.absent,
        tries.BOUND_START: shape.bound_start,
        tries.BOUNDS: shape.bounds,
        tries.ARGUMENTS: shape.argument_level,
        tries.ATOM_DEPTH: shape.depths,
        tries.READS: shape.reads,
        tries.SENSOR: sensors.sensor,
        tries.SOURCES: sensors.sources,
    }
    numbers = {
        tries.LEVELS: shape.levels,
        tries.DEPTHS: shape.argument_level.shape[1],
        tries.VALUES: len(shape.reads),
        tries.SENSORS: len(sensors.sources),
        tries.WIDTH: sensors.sources.shape[1],
        tries.GRANULARITY: granularity,
    }
    return laid_out(tries.PLAN_HEADER, numbers, sections)


def tree_words(trees: Iterable[Tree]) -> list[int]:
    """Return the words of each tree in the state of a join: root, height and keys."""
    return [*chain(*map(_WORDS, trees))]


_WORDS = attrgetter("pointer", "height", "spec.keys")


@lru_cache(256)
def state_array(shape: Shape, sensors: Sensors, covered: bool) -> np.ndarray:
    """Return the initial state of a run as one array, without the trees.  It is cached: copy it."""
    levels, (atoms, depths), count = shape.levels, shape.argument_level.shape, len(sensors.sources)
    sections = {
        tries.TREES: np.zeros(3 * atoms, np.int64),
        tries.ENDS: np.zeros(3, np.int64),
        tries.BINDING: np.zeros(levels, np.int64),
        tries.LOW: np.zeros(levels, np.int64),
        tries.HIGH: np.zeros(levels, np.int64),
        tries.COVERED: np.full(levels + 1, covered, np.int64),
        tries.SPANS: np.zeros(2 * levels * levels, np.int64),
        tries.VALUES_MET: np.zeros(levels, np.int64),
        tries.AT: np.zeros(atoms * depths, np.int64),
        tries.ITERATORS: np.zeros(atoms * depths * tries.ITERATOR_WORDS, np.int64),
        tries.ROW_COUNT: np.zeros(count, np.int64),
        tries.SHARED: np.zeros(count, np.int64),
        tries.INTERVAL_END: np.argmax(sensors.sources == -2, axis=1)
        if count
        else np.zeros(0, np.int64),
        tries.RUNS: np.full(leapfrog.SLICE * shape.innermost, -1, np.int64),
    }
    return laid_out(tries.STATE_HEADER, {tries.PAUSE: WORD_MAX}, sections)


def slices_room(parts: int, page_words: int) -> np.ndarray:
    """Allocate a leaf slice for each of `parts` atoms; a page has at most two entries per word."""
    return np.empty((parts, 2 * page_words), np.int64)


def laid_out(header: int, numbers: dict[int, int], sections: dict[int, np.ndarray]) -> np.ndarray:
    """Return one array: a header of numbers and section offsets, then the sections; keys are places
    in the header.

    >>> laid_out(2, {0: 7}, {1: np.array([5, 6])}).tolist()
    [7, 2, 5, 6]
    """
    parts = [
        np.zeros(header, np.int64),
        *(np.asarray(s, np.int64).ravel() for s in sections.values()),
    ]
    flat = np.concatenate(parts)
    for at, number in numbers.items():
        flat[at] = number
    start = header
    for (at, _), part in zip(sections.items(), parts[1:], strict=True):
        flat[at] = start
        start += len(part)
    return flat


MERGE = TypedKernel(merge_intervals)


def change_oracle(levels: int, contributions: Iterable[tuple[int, np.ndarray]]) -> Regions | None:
    """Return the union of contributions (level, rows int64[level + 2, n]); None if it is empty.

    A row holds the values of the levels before, then an interval [a, b] of the level's values.  O(n
    log n).
    """
    by_level: dict[int, list[np.ndarray]] = {}
    for level, rows in contributions:
        if rows.shape[1]:
            by_level.setdefault(level, []).append(rows)
    if not by_level:
        return None
    start = np.zeros(levels + 1, np.int64)
    merged = []
    for level in range(levels):
        parts = by_level.get(level)
        n = 0
        if parts:
            rows = np.ascontiguousarray(distinct(np.concatenate(parts, axis=1)))
            n = MERGE.call(rows, rows.shape[1], level)
            block = np.zeros((levels + 1, n), np.int64)
            block[: level + 2] = rows[:, :n]
            merged.append(block)
        start[level + 1] = start[level] + n
    return Regions(np.concatenate(merged, axis=1), start)
