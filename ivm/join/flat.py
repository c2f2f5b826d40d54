"""Flat tries: the relations of a plan decoded into one array, level by level, for a full
evaluation.

    edge    (1, 5) (1, 7) (4, 2)

    depth 0    keys      1  4         children  0  2  3      the keys below key i are those from children[i]
    depth 1    keys      5  7  2                             up to children[i + 1]

In `data` the positions in `children` count from the start of the array. Where the keys of depth 0
are dense, a table of first keys follows: for each value from the least to the greatest key, the
position of the first key >= it.

A relation that a full evaluation scans anyway is decoded once; atoms of the same relation and
depth, and all threads, share its trie, which join/kernels/flat_join.py runs over. A slice that an
inner level does not change is *loop-invariant*: it is marked in a table once, and others are
filtered by it, as edge(x, z) is under one x while z is sought in

    triangle(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).

Trace rows are packed into words where their columns have short ranges, and sorted as numbers. The
least and the greatest word have codes of their own where they mean "no bound".
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ivm.errors import RangeError
from ivm.join.join import BATCH, Run, concatenated
from ivm.join.kernels import flat_join as kernel
from ivm.join.kernels import flat_layout, flat_trace, intersect, tries
from ivm.join.kernels.flat_layout import BitRows, FlatOutput, FlatRun, FlatTries, KeyTables
from ivm.join.plan_arrays import Sensors, Shape
from ivm.memory import exceeds_memory
from pagestore.compiled import TypedKernel
from pagestore.host import WORD_MAX, WORD_MIN, Coding, Pages, Tree, coding_within, read_batches

# records that are decoded in the time in which the paged join passes one record
DECODED_PER_RECORD = 64
FLAT = 4  # times the words of a trie that laying it out takes
ALWAYS = 1 << 22  # bytes that tries may take in any case
TABLE_PER_KEY = 4  # the most entries per key in a table of first keys
PARTS_MAX = 62  # atoms joined at a level: a set of them is the bits of a word, without its sign


# of each depth: the keys, and where the children of each begin
Levels = list[tuple[np.ndarray, np.ndarray]]


class Flat(NamedTuple):
    """Tries as arrays: data int64[n], and facts about each atom and depth, int64[A * D]."""

    data: np.ndarray
    place: np.ndarray  # int64[A * D, 3], see join/kernels/flat_join.py
    longest: np.ndarray  # the most keys below one key of the depth before
    low: np.ndarray  # the least key
    high: np.ndarray  # the greatest key

    def cuts(self, o: int, wanted: int, single_depth: bool) -> np.ndarray:
        """Return keys of place o that cut the next depth (or, at a `single_depth`, this one)
        into `wanted` parts.
        """
        first, n, children = self.place[o, : flat_layout.TABLE].tolist()
        parts = np.arange(1, wanted)
        if single_depth:
            places = n * parts // wanted
        else:
            ends = self.data[children + 1 : children + n + 1]
            places = np.searchsorted(ends, ends[-1] * parts // wanted, side="right")
        keys: np.ndarray = self.data[first + places]
        return keys


def is_flat_cheaper(shape: Shape, trees: Sequence[Tree]) -> bool:
    """Return whether flat tries can evaluate a plan, in the memory allowed and faster than the
    paged join.  O(tries).

    Only the paged join evaluates plans with negated atoms, with values read at a binding, with a
    constant at level 0, or with a level that joins more than PARTS_MAX atoms.
    """
    first_tries = shape.parts[: shape.part_start[1], 0].tolist()
    held = shape.bounds[: shape.bound_start[1], 0]
    if len(shape.absent) or len(shape.reads) or (held == tries.EQ).any():
        return False
    parts = np.diff(shape.part_start)
    if parts.min() == 0 or parts.max() > PARTS_MAX:
        return False
    records = sum({tree.root: tree.count for tree in trees}.values())
    first = min(trees[t].count for t in first_tries)
    words = sum(
        {
            t.root: t.count * int(depth) for t, depth in zip(trees, shape.depths, strict=True)
        }.values()
    )
    return bool(records <= DECODED_PER_RECORD * first and is_room_for(words))


def is_room_for(words: int) -> bool:
    """Return whether tries of so many words can be laid out in the memory allowed."""
    return not exceeds_memory(8 * FLAT * words, ALWAYS)


def flatten(pages: Pages, shape: Shape, trees: Sequence[Tree]) -> Flat:
    """Decode the tries of a plan, each relation and depth once.  O(records)."""

    def levels(atom: int, depth: int) -> Levels:
        batches = list(read_batches(pages, trees[atom], columns=tuple(range(depth))))
        columns = concatenated(batches) if batches else np.empty((depth, 0), np.int64)
        return _levels(columns, trees[atom].spec.keys)

    return _laid(shape, [tree.root for tree in trees], levels)


def flat_of(shape: Shape, tables: Sequence[np.ndarray]) -> Flat:
    """Lay out the tries of a plan, given each atom's distinct rows int64[D, n], sorted in the
    order of its levels.
    """
    return _laid(shape, range(len(tables)), lambda atom, depth: _levels(tables[atom], depth))


def _laid(shape: Shape, roots: Sequence[int], levels: Callable[[int, int], Levels]) -> Flat:
    """Lay out the tries of a plan; `levels` returns those of an atom to a depth, once for atoms
    with equal roots.
    """
    atoms, depths = shape.argument_level.shape
    place = np.zeros((atoms * depths, flat_layout.PLACE), np.int64)
    longest, low, high = (np.zeros(atoms * depths, np.int64) for _ in range(3))
    pieces: list[np.ndarray] = []
    start = 0
    of: dict[tuple[int, int], int] = {}
    for atom, (root, depth) in enumerate(zip(roots, shape.depths.tolist(), strict=True)):
        here = slice(atom * depths, atom * depths + depth)
        twin = of.setdefault((root, depth), atom)
        if twin != atom:
            there = slice(twin * depths, twin * depths + depth)
            for array in (place, longest, low, high):
                array[here] = array[there]
            continue
        siblings = 0
        for d, (keys, children) in enumerate(levels(atom, depth)):
            o = atom * depths + d
            if len(keys):
                low[o], high[o] = keys.min(), keys.max()
            longest[o] = siblings if d else len(keys)
            siblings = int(np.diff(children).max(initial=0))
            table = (
                _table(keys, start, int(high[o]) - int(low[o]) + 1) if d == 0 < depth - 1 else None
            )
            place[o] = start, len(keys), start + len(keys), 0, low[o]
            pieces += [keys, children]
            start += len(keys) + len(children)
            if table is not None:
                place[o, flat_layout.TABLE] = start
                pieces.append(table)
                start += len(table)
    return Flat(np.concatenate([*pieces, np.zeros(1, np.int64)]), place, longest, low, high)


def _levels(columns: np.ndarray, unique: int) -> Levels:
    """Return (keys, where the children of each key begin) for each of some columns; the last has no
    children.

    Rows are told apart by their first `unique` columns, which may be more than there are.
    """
    depth, n = columns.shape
    shared = depth - (depth >= unique)  # the depths at which several records may share a key
    fresh = np.zeros(n, bool)
    fresh[:1] = True
    rows = []
    for column in columns[:shared]:
        fresh[1:] |= column[1:] != column[:-1]
        rows.append(np.flatnonzero(fresh))
    keys = [
        *(column[first] for column, first in zip(columns, rows, strict=False)),
        *columns[shared:],
    ]
    children = [
        np.append(np.searchsorted(below, here), len(below)) for here, below in pairwise(rows)
    ]
    children += [np.append(here, n) for here in rows[-1:] if shared < depth]
    return list(zip(keys, [*children, np.zeros(0, np.int64)], strict=True))


def _table(keys: np.ndarray, start: int, span: int) -> np.ndarray | None:
    """Return, for each value from the least to the greatest key, where the first key >= it is;
    keys[0] is at `start`.

    None if the table would have more than TABLE_PER_KEY entries per key.
    """
    if span > TABLE_PER_KEY * len(keys):
        return None
    return start + np.repeat(np.arange(len(keys)), np.diff(keys, prepend=keys[:1] - 1))


def level_span(flat: Flat, shape: Shape, level: int) -> tuple[int, int]:
    """Return the least key of the atoms joined at a level, and how many values lie from it to
    the greatest key.
    """
    low, high = level_bounds(flat, shape, level)
    return low, high - low + 1


def level_bounds(flat: Flat, shape: Shape, level: int) -> tuple[int, int]:
    """Return the least and the greatest key of the atoms joined at a level."""
    atoms, depths = shape.parts[shape.part_start[level] : shape.part_start[level + 1]].T
    places = atoms * shape.argument_level.shape[1] + depths
    return int(flat.low[places].min()), int(flat.high[places].max())


RUN = TypedKernel(kernel.run_flat)


class FlatJoin(Run):
    """One evaluation over the flat tries of a Layout."""

    def __init__(self, layout: "Layout", *, batch: int = BATCH) -> None:
        flat, shape = layout.flat, layout.shape
        super().__init__(shape, layout.sensors, layout.granularity, True, batch, layout.room)
        self._flat, self._room = flat, layout.room
        self._steps, self._grounds = layout.steps.copy(), layout.grounds.copy()
        self._cursors = np.zeros((len(flat.place), flat_layout.CURSOR), np.int64)
        for o in range(0, len(flat.place), shape.argument_level.shape[1]):
            self._cursors[o, [flat_layout.START, flat_layout.END]] = (
                flat.place[o, 0],
                flat.place[o, :2].sum(),
            )
        for o, owners in layout.owners.items():
            self._cursors[o, flat_layout.OWNERS] = owners
        self._numbers = np.zeros(layout.numbers, np.int64)
        self._bits = np.empty(layout.bits, np.int64)
        self._scratch = np.empty(layout.size, np.int64)
        self._marks = np.zeros((shape.levels, layout.marks), np.uint8)
        self._counts = np.zeros((shape.levels, layout.counts), np.int64)
        self._collects = layout.counts > 0
        self._codings, self._codes = layout.codings, layout.codes
        self._times = np.empty(self._out.shape[1], np.int64)

    def _advance(self) -> None:
        run = FlatRun(self._plan, self._state, self._steps, self._cursors, self._scratch)
        tables = KeyTables(self._marks, self._counts)
        rows = BitRows(self._grounds, self._numbers, self._bits)
        output = FlatOutput(self._out, self._times, self._rows, self._codes, self._room)
        fits = RUN.call(FlatTries(self._flat.data, self._flat.place), run, tables, rows, output)
        if not fits:
            raise RangeError("one row has more than 2**63 derivations, which cannot be counted")
        if self._collects:
            self.times.append(self._times[: self._state[tries.EMITTED]].copy())


MARKS_MAX = 1 << 20  # bytes of a table of marks
GROUND_MAX = 1 << 12  # keys of a universe: rows of 64 words
BITS_MAX = 1 << 17  # words of all rows of a level
COUNTS_MAX = 1 << 20  # words of a table of counts


class Layout:
    """Which slices of each level are loop-invariant, and where it keeps its candidates and shared
    keys.

    `listed` are the levels whose values are requested (None: all). Of the others, those that no
    lower level reads are collected, and `times` of a join then says how many bindings each result
    represents.
    """

    def __init__(
        self,
        flat: Flat,
        shape: Shape,
        sensors: Sensors | None = None,
        listed: frozenset[int] | None = None,
        granularity: int = 1,
    ) -> None:
        self.flat, self.shape, self.granularity = flat, shape, granularity
        self.sensors = sensors = sensors or shape.no_sensors
        self.steps = np.zeros((shape.levels, flat_layout.STEP), np.int64)
        self.steps[:, flat_layout.COLLECTS] = range(shape.levels)
        self.steps[:, [flat_layout.COLLECTOR, flat_layout.RANKS]] = -1
        self.grounds = np.zeros((shape.levels, intersect.GROUND), np.int64)
        self.owners: dict[int, int] = {}
        self.size = self.marks = self.counts = self.room = self.numbers = self.bits = 0
        collecting = shape.levels - (1 if granularity == 1 else 2) if len(sensors.sources) else 0
        for level in range(shape.levels):
            self._lay(flat, shape, sensors, level, self.steps[level])
            if listed is not None and level >= collecting:
                self._collect(flat, shape, level, listed)
        for before, last in pairwise(self.steps[-2:]):
            if before[flat_layout.COLLECTS] < shape.levels - 2:
                before[flat_layout.FORETELLS] = (
                    last[flat_layout.CERTIFIES] and flat_trace.foretell.address()
                )
                last[flat_layout.CERTIFIES] = 0
        self.codings = [
            coding_of(flat, shape, sensors, s, granularity == 1)
            for s in range(len(sensors.sources))
        ]
        self.codes = code_table(self.codings, sensors.sources)

    def _lay(
        self, flat: Flat, shape: Shape, sensors: Sensors, level: int, step: np.ndarray
    ) -> None:
        atoms, depths = shape.parts[shape.part_start[level] : shape.part_start[level + 1]].T
        places = atoms * shape.argument_level.shape[1] + depths
        longest = flat.longest[places]
        step[flat_layout.BASE] = self._take(longest.min())
        if (sensors.sensor[atoms, depths] >= 0).any():
            self.room = max(self.room, int(longest.max()) + 2)
            if self.granularity > 1:
                step[flat_layout.CERTIFIES] = flat_trace.certify.address()
            else:
                step[flat_layout.RECORDS] = flat_trace.leapfrog.address()
            step[flat_layout.ROOM] = longest.max() + 2
            step[flat_layout.NOTES] = self._take(2 * len(atoms) * step[flat_layout.ROOM])
        moves = np.where(depths > 0, shape.argument_level[atoms, depths - 1], -1)
        invariant = np.flatnonzero(moves < level - 1)
        if len(invariant) == 0 or len(moves) < 2:
            return
        step[flat_layout.INVARIANT] = (1 << invariant).sum()
        step[flat_layout.MOVES] = moves[invariant].max()
        low, span = level_span(flat, shape, level)
        step[flat_layout.MARK_LOW] = low
        if step[flat_layout.RECORDS]:
            if len(moves) == 2 and len(invariant) == 1 and span <= MARKS_MAX:
                step[flat_layout.RANKS] = self.bits
                self.bits += 2 * (span >> 6) + 2
            return
        step[flat_layout.KEPT_BASE] = step[flat_layout.KEPT_STOP] = self._take(
            longest[invariant].min()
        )
        if span <= MARKS_MAX:
            step[flat_layout.MARKS] = 1
            self.marks = max(self.marks, span)
            self._ground(flat, shape, level, moves, self.grounds[level])

    def _ground(
        self, flat: Flat, shape: Shape, level: int, moves: np.ndarray, ground: np.ndarray
    ) -> None:
        """Let a level intersect bitmaps over the outermost universe where some slice recurs."""
        parts = shape.parts[shape.part_start[level] : shape.part_start[level + 1]]
        for changer in np.unique(moves[moves >= 0]).tolist():
            moving = parts[moves > changer]
            between = [set(range(changer + 1, m)) for m in moves[moves > changer].tolist()]
            if any(
                b.difference(shape.argument_level[a, :d])
                for b, (a, d) in zip(between, moving, strict=True)
            ):
                break
        else:
            return
        staying = np.flatnonzero(moves <= changer)
        places = parts @ [shape.argument_level.shape[1], 1]
        low, span = level_span(flat, shape, level)
        ground[intersect.OVERLAYS] = kernel.overlay.address()
        ground[intersect.STAYING] = (1 << staying).sum()
        ground[intersect.CHANGER] = changer
        ground[intersect.LISTED] = ground[intersect.LISTED_STOP] = self._take(
            flat.longest[places[staying]].min()
        )
        ground[intersect.LISTED_MAX] = GROUND_MAX
        ground[intersect.LEAST], ground[intersect.NUMBERS] = low, self._number(span)
        ground[intersect.MET] = self.bits
        ground[intersect.ROWS] = ground[intersect.ROWS_STOP] = self.bits + (GROUND_MAX >> 6) + 1
        self.bits += BITS_MAX
        ground[intersect.ROWS_MAX] = self.bits
        tables: dict[int, int] = {}
        for o in places[moves > changer].tolist():
            key, keys = flat.place[o - 1, [flat_layout.FIRST_KEY, flat_layout.KEYS]].tolist()
            if key not in tables:
                tables[key] = self._number(keys) - key
            self.owners[o] = tables[key]

    def _number(self, count: int) -> int:
        self.numbers += count
        return self.numbers - count

    def _collect(self, flat: Flat, shape: Shape, level: int, listed: frozenset[int]) -> None:
        """Let a level collect under the levels before it that are not requested and that no
        lower level reads.
        """
        read = _read_below(shape, level) | listed
        first = level
        while (
            first > 0
            and first - 1 not in read
            and (first == level or self.steps[first, flat_layout.COLLECTS] == first)
        ):
            first -= 1
        low, span = level_span(flat, shape, level)
        tallies = level == shape.levels - 1 and level not in listed and not _unequal(shape, level)
        span = 1 if tallies else span
        if first == level or span > COUNTS_MAX:
            return
        step = self.steps[level]
        step[flat_layout.TALLIES] = tallies
        step[flat_layout.SORTS] = kernel.sort_slice.address()
        step[flat_layout.COLLECTS], step[flat_layout.COUNT_LOW] = first, low
        self.steps[first, flat_layout.COLLECTOR] = level
        step[flat_layout.COLLECTED_BASE] = step[flat_layout.COLLECTED] = self._take(span)
        self.counts = max(self.counts, span)

    def _take(self, words: int) -> int:
        """Reserve words in scratch, and one more, written before it is known to be needed."""
        self.size += int(words) + 1
        return self.size - int(words) - 1


def _unequal(shape: Shape, level: int) -> bool:
    """Return whether a level has a bound !=."""
    return bool(
        (shape.bounds[shape.bound_start[level] : shape.bound_start[level + 1], 0] == tries.NE).any()
    )


def _read_below(shape: Shape, level: int) -> set[int]:
    """Return the levels that a later level reads: its atoms' prefixes, its bounds' other sides."""
    below = shape.argument_level[shape.argument_level.max(axis=1) > level]
    bounds = shape.bounds[shape.bound_start[level + 1] :]
    return {*below.ravel().tolist(), *bounds[:, tries.OTHER :: 2].ravel().tolist()}


# bits of a column in packed trace rows: its code is shifted, and must not become negative
WIDTH_MAX = 62


def coding_of(flat: Flat, shape: Shape, sensors: Sensors, s: int, exact: bool) -> Coding | None:
    """Return how to pack the trace rows of a sensor; None where they stay columns, as on level 0,
    which a range bounds.

    The least and the greatest word have codes only in a and b, where they mean "no bound". Rows are
    written context by context, in order, so columns after a and b are sorted already. In an `exact`
    trace b is a, if a was sought and found, or else the key after a, in the slice given by the
    columns before: so a gets a bit that says whether b differs, and rows need not be sorted by b.
    """
    ((atom, depth),) = np.argwhere(sensors.sensor == s)
    level, prefix = shape.argument_level[atom, depth], shape.argument_level[atom, :depth]
    sources = sensors.sources[s, : sensors.widths[s]].tolist()
    least, greatest = _reach(flat, shape, level)
    reach = max(least, WORD_MIN + 1), min(greatest, WORD_MAX - 1)
    lows, highs = zip(
        *(level_bounds(flat, shape, source) if source >= 0 else reach for source in sources),
        strict=True,
    )
    a, b = sources.index(-1), sources.index(-2)
    marked = a if exact and {*sources[:a]} == {*prefix.tolist()} else -1
    coding = coding_within(lows, highs, len(sources) - (b if marked == a else b + 1), marked)
    if (
        level == 0
        or min(lows) == WORD_MIN
        or max(highs) == WORD_MAX
        or coding is None
        or coding.width.max() > WIDTH_MAX
    ):
        return None
    return coding


def _reach(flat: Flat, shape: Shape, level: int) -> tuple[int, int]:
    """Return the range of a and b in a level's trace rows: keys, successors of all but the last,
    and bounds.
    """
    low, high = level_bounds(flat, shape, level)
    for bound in shape.bounds[shape.bound_start[level] : shape.bound_start[level + 1]].tolist():
        least = greatest = bound[tries.CONSTANT]
        for other, sign in zip(bound[tries.OTHER :: 2], bound[tries.OTHER + 1 :: 2], strict=True):
            if other >= 0:
                ends = sorted(sign * key for key in level_bounds(flat, shape, other))
                least, greatest = least + ends[0], greatest + ends[1]
        low, high = min(low, least), max(high, greatest)
    return low, high


def code_table(codings: Sequence[Coding | None], sources: np.ndarray) -> np.ndarray:
    """Return the codings of sensors as kernels take them, codes[S, C, CODE] (see
    join/kernels/flat_layout.py).
    """
    codes = np.full((*sources.shape, flat_layout.CODE), -1, np.int64)
    for code, coding, source in zip(codes, codings, sources, strict=True):
        if coding:
            source, at = source[: len(coding.width)], coding.bits - np.cumsum(coding.width)
            fields = np.stack(
                [coding.low, coding.high, at, source, np.full(len(at), coding.tail)], axis=1
            )
            code[: len(at), : flat_layout.MARK] = fields[
                np.argsort(np.where(source < 0, -source, source + 3))
            ]
            code[0, flat_layout.MARK] = coding.marked >= 0
            lows, _, at = code[2 : len(at), : flat_layout.SOURCE].T
            code[0, flat_layout.NOUGHT] = 0 if coding.tail else ((1 - lows) << at).sum()
    return codes
