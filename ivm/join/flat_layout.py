"""Memory layout of a join over flat tries: which slices are loop-invariant, where each level keeps its candidates.

triangle(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).

level z intersects edge(y, z), which changes with y, and edge(x, z), which changes with x alone: under one x the slice
of edge(x, z) is *loop-invariant*: it is marked in a table once, and each slice of edge(y, z) is filtered by it
"""

from itertools import pairwise

import numpy as np

from ivm.join.flat_trie import Flat, level_span
from ivm.join.kernels import bitmap_rows, certify, collect, flat_layout, join_layout, traced
from ivm.join.kernels import flat_join as kernel
from ivm.join.plan_arrays import Sensors, Shape
from ivm.join.trace_coding import code_table, coding_of

MARKS_MAX = 1 << 20  # bytes of a table of marks
GROUND_MAX = 1 << 12  # keys of a universe: rows of 64 words
BITS_MAX = 1 << 17  # words of all rows of a level
COUNTS_MAX = 1 << 20  # words of a table of counts


class Layout:
    """Which slices of each level are loop-invariant, and where it keeps its candidates and shared keys.

    `asked` are the levels whose values are requested (None: all). Of the others, those that no lower level reads are
    collected, and `times` of a join then says how many bindings each result represents.
    """

    def __init__(
        self,
        flat: Flat,
        shape: Shape,
        sensors: Sensors | None = None,
        asked: frozenset[int] | None = None,
        granularity: int = 1,
    ) -> None:
        self.flat, self.shape, self.granularity = flat, shape, granularity
        self.sensors = sensors = sensors or shape.no_sensors
        self.steps = np.zeros((shape.levels, flat_layout.STEP), np.int64)
        self.steps[:, flat_layout.COLLECTS] = range(shape.levels)
        self.steps[:, [flat_layout.COLLECTOR, flat_layout.RANKS]] = -1
        self.grounds = np.zeros((shape.levels, bitmap_rows.GROUND), np.int64)
        self.owners: dict[int, int] = {}
        self.size = self.marks = self.counts = self.room = self.numbers = self.bits = 0
        collecting = shape.levels - (1 if granularity == 1 else 2) if len(sensors.sources) else 0
        for level in range(shape.levels):
            self._lay(flat, shape, sensors, level, self.steps[level])
            if asked is not None and level >= collecting:
                self._collect(flat, shape, level, asked)
        for before, last in pairwise(self.steps[-2:]):
            if before[flat_layout.COLLECTS] < shape.levels - 2:
                before[flat_layout.FORETELLS] = last[flat_layout.CERTIFIES] and certify.foretell.address()
                last[flat_layout.CERTIFIES] = 0
        self.codings = [coding_of(flat, shape, sensors, s, granularity == 1) for s in range(len(sensors.sources))]
        self.codes = code_table(self.codings, sensors.sources)

    def _lay(self, flat: Flat, shape: Shape, sensors: Sensors, level: int, step: np.ndarray) -> None:
        atoms, depths = shape.parts[shape.part_start[level] : shape.part_start[level + 1]].T
        places = atoms * shape.argument_level.shape[1] + depths
        longest = flat.longest[places]
        step[flat_layout.BASE] = self._take(longest.min())
        if (sensors.sensor[atoms, depths] >= 0).any():
            self.room = max(self.room, int(longest.max()) + 2)
            if self.granularity > 1:
                step[flat_layout.CERTIFIES] = certify.certify.address()
            else:
                step[flat_layout.RECORDS] = traced.leapfrog.address()
            step[flat_layout.ROOM] = longest.max() + 2
            step[flat_layout.NOTES] = self._take(2 * len(atoms) * step[flat_layout.ROOM])
        moves = np.where(depths > 0, shape.argument_level[atoms, depths - 1], -1)
        steady = np.flatnonzero(moves < level - 1)
        if len(steady) == 0 or len(moves) < 2:
            return
        step[flat_layout.STEADY] = (1 << steady).sum()
        step[flat_layout.MOVES] = moves[steady].max()
        low, span = level_span(flat, shape, level)
        step[flat_layout.MARK_LOW] = low
        if step[flat_layout.RECORDS]:
            if len(moves) == 2 and len(steady) == 1 and span <= MARKS_MAX:
                step[flat_layout.RANKS] = self.bits
                self.bits += 2 * (span >> 6) + 2
            return
        step[flat_layout.KEPT_BASE] = step[flat_layout.KEPT_STOP] = self._take(longest[steady].min())
        if span <= MARKS_MAX:
            step[flat_layout.MARKS] = 1
            self.marks = max(self.marks, span)
            self._ground(flat, shape, level, moves, self.grounds[level])

    def _ground(self, flat: Flat, shape: Shape, level: int, moves: np.ndarray, ground: np.ndarray) -> None:
        """Let a level intersect bitmaps over the outermost universe under which some slice recurs."""
        parts = shape.parts[shape.part_start[level] : shape.part_start[level + 1]]
        for changer in np.unique(moves[moves >= 0]).tolist():
            moving = parts[moves > changer]
            between = [set(range(changer + 1, m)) for m in moves[moves > changer].tolist()]
            if any(b.difference(shape.argument_level[a, :d]) for b, (a, d) in zip(between, moving, strict=True)):
                break
        else:
            return
        staying = np.flatnonzero(moves <= changer)
        places = parts @ [shape.argument_level.shape[1], 1]
        low, span = level_span(flat, shape, level)
        ground[bitmap_rows.OVERLAYS] = kernel.overlay.address()
        ground[bitmap_rows.STAYING] = (1 << staying).sum()
        ground[bitmap_rows.CHANGER] = changer
        ground[bitmap_rows.LISTED] = ground[bitmap_rows.LISTED_STOP] = self._take(flat.longest[places[staying]].min())
        ground[bitmap_rows.LISTED_MAX] = GROUND_MAX
        ground[bitmap_rows.LEAST], ground[bitmap_rows.NUMBERS] = low, self._number(span)
        ground[bitmap_rows.MET] = self.bits
        ground[bitmap_rows.ROWS] = ground[bitmap_rows.ROWS_STOP] = self.bits + (GROUND_MAX >> 6) + 1
        self.bits += BITS_MAX
        ground[bitmap_rows.ROWS_MAX] = self.bits
        tables: dict[int, int] = {}
        for o in places[moves > changer].tolist():
            key, keys = flat.place[o - 1, [flat_layout.FIRST_KEY, flat_layout.KEYS]].tolist()
            if key not in tables:
                tables[key] = self._number(keys) - key
            self.owners[o] = tables[key]

    def _number(self, count: int) -> int:
        self.numbers += count
        return self.numbers - count

    def _collect(self, flat: Flat, shape: Shape, level: int, asked: frozenset[int]) -> None:
        """Let a level collect under the levels before it that are not requested and that no lower level reads."""
        read = _read_below(shape, level) | asked
        first = level
        while (
            first > 0 and first - 1 not in read and (first == level or self.steps[first, flat_layout.COLLECTS] == first)
        ):
            first -= 1
        low, span = level_span(flat, shape, level)
        tallies = level == shape.levels - 1 and level not in asked and not _unequal(shape, level)
        span = 1 if tallies else span
        if first == level or span > COUNTS_MAX:
            return
        step = self.steps[level]
        step[flat_layout.TALLIES] = tallies
        step[flat_layout.SORTS] = collect.sort_slice.address()
        step[flat_layout.COLLECTS], step[flat_layout.COUNT_LOW] = first, low
        self.steps[first, flat_layout.COLLECTOR] = level
        step[flat_layout.COLLECTED_BASE] = step[flat_layout.COLLECTED] = self._take(span)
        self.counts = max(self.counts, span)

    def _take(self, words: int) -> int:
        """Reserve words in scratch, and one more, which is written before it is known to be needed."""
        self.size += int(words) + 1
        return self.size - int(words) - 1


def _unequal(shape: Shape, level: int) -> bool:
    """Return whether a level has a bound !=."""
    return bool((shape.bounds[shape.bound_start[level] : shape.bound_start[level + 1], 0] == join_layout.NE).any())


def _read_below(shape: Shape, level: int) -> set[int]:
    """Return the levels that some later level reads: prefixes of its atoms, and other sides of its bounds."""
    below = shape.argument_level[shape.argument_level.max(axis=1) > level]
    bounds = shape.bounds[shape.bound_start[level + 1] :]
    return {*below.ravel().tolist(), *bounds[:, join_layout.OTHER :: 2].ravel().tolist()}
