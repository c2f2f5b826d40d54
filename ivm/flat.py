"""Full evaluation over flat tries: what is decoded, what each level starts from, and when that pays.

A relation that a full evaluation passes through anyway is decoded once, as a trie in one array (see
kernels/flat.py); tries of one relation and depth are shared by the atoms, and the threads.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ivm.errors import RangeError
from ivm.join import BATCH, Run, joined
from ivm.kernels import flat as kernel
from ivm.kernels import leapfrog as names
from ivm.kernels import overlay
from ivm.shape import INT_MAX, INT_MIN, Sensors, Shape
from pagestore.order import Coding, coding_within
from pagestore.tree import Pages, Tree, scan

DECODED_PER_RECORD = 64  # records decoded in the time that leapfrogging takes to pass one
RECORDS_MAX = 1 << 24  # all tries together; beyond, memory would not be what a paged store promises
MARKS_MAX = 1 << 20  # bytes of a table of marks
DENSE = 4  # times as many numbers as there are keys may a table of first keys have
GROUND_MAX = 1 << 12  # keys of a ground: rows of 64 words
BITS_MAX = 1 << 17  # words of all rows of a level
WIDTH_MAX = 62  # bits of a column of trace rows that are words: its code is shifted, and not negative
COUNTS_MAX = 1 << 20  # words of a table of counts
PARTS_MAX = 62  # of a level: sets of them are the bits of a word, without its sign


class Flat(NamedTuple):
    """Tries as arrays: data int64[n], and for each atom and depth, int64[A * D], what the fields say."""

    data: np.ndarray
    place: np.ndarray  # int64[A * D, 3], see kernels/flat.py
    longest: np.ndarray  # the longest slice of siblings
    low: np.ndarray  # the least key
    high: np.ndarray  # the greatest key

    def cuts(self, o: int, wanted: int, alone: bool) -> np.ndarray:
        """The keys at a depth that cut what is below them, or the keys where they are `alone`, into equal parts."""
        first, n, children = self.place[o, : kernel.TABLE].tolist()
        keys, parts = self.data[first : first + n], np.arange(1, wanted)
        if alone:
            return keys[n * parts // wanted]
        ends = self.data[children + 1 : children + n + 1]
        return keys[np.searchsorted(ends, ends[-1] * parts // wanted, side="right")]


def pays(shape: Shape, trees: Sequence[Tree]) -> bool:
    """Is a plan one that flat tries can evaluate, and would the join pass through a good part of them?

    Negated atoms, values read at a binding and levels of more than PARTS_MAX parts are left to the paged join.
    """
    tries = shape.parts[: shape.part_start[1], 0].tolist()
    held = shape.bounds[: shape.bound_start[1], 0]
    if len(shape.absent) or len(shape.reads) or (held == names.EQ).any():
        return False
    parts = np.diff(shape.part_start)
    if parts.min() == 0 or parts.max() > PARTS_MAX:
        return False
    records = sum({tree.root: tree.count for tree in trees}.values())
    first = min(trees[t].count for t in tries)
    return records <= min(RECORDS_MAX, DECODED_PER_RECORD * first)


def flatten(pages: Pages, shape: Shape, trees: Sequence[Tree]) -> Flat:
    """Decode the tries of a plan, each relation and depth once.  O(records)."""
    atoms, depths = shape.argument_level.shape
    place = np.zeros((atoms * depths, kernel.PLACE), np.int64)
    longest, low, high = (np.zeros(atoms * depths, np.int64) for _ in range(3))
    pieces: list[np.ndarray] = []
    start = 0
    of: dict[tuple[int, int], int] = {}
    for atom, (tree, depth) in enumerate(zip(trees, shape.depths.tolist(), strict=True)):
        here = slice(atom * depths, atom * depths + depth)
        twin = of.setdefault((tree.root, depth), atom)
        if twin != atom:
            there = slice(twin * depths, twin * depths + depth)
            for array in (place, longest, low, high):
                array[here] = array[there]
            continue
        siblings = 0
        for d, (keys, children) in enumerate(_levels(pages, tree, depth)):
            o = atom * depths + d
            if len(keys):
                low[o], high[o] = keys.min(), keys.max()
            longest[o] = siblings if d else len(keys)
            siblings = int(np.diff(children).max(initial=0))
            table = _table(keys, start, int(high[o]) - int(low[o]) + 1) if d == 0 < depth - 1 else None
            place[o] = start, len(keys), start + len(keys), 0, low[o]
            pieces += [keys, children]
            start += len(keys) + len(children)
            if table is not None:
                place[o, kernel.TABLE] = start
                pieces.append(table)
                start += len(table)
    return Flat(np.concatenate([*pieces, np.zeros(1, np.int64)]), place, longest, low, high)


def _levels(pages: Pages, tree: Tree, depth: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """(keys, where the children of each begin) at each depth; the last depth has no children."""
    batches = list(scan(pages, tree, columns=tuple(range(depth))))
    columns = joined(batches) if batches else np.empty((depth, 0), np.int64)
    n = columns.shape[1]
    shared = depth - (depth >= tree.spec.keys)  # the depths at which records may share a key
    fresh = np.zeros(n, bool)
    fresh[:1] = True
    rows = []
    for column in columns[:shared]:
        fresh[1:] |= column[1:] != column[:-1]
        rows.append(np.flatnonzero(fresh))
    keys = [*(column[first] for column, first in zip(columns, rows, strict=False)), *columns[shared:]]
    children = [np.append(np.searchsorted(below, here), len(below)) for here, below in pairwise(rows)]
    children += [np.append(here, n) for here in rows[-1:] if shared < depth]
    return list(zip(keys, [*children, np.zeros(0, np.int64)], strict=True))


def _table(keys: np.ndarray, start: int, span: int) -> np.ndarray | None:
    """Where the first key is that is not below the least of a first column and 0, 1, 2, ... more, up to the greatest.

    None where that would be mostly holes.
    """
    if span > DENSE * len(keys):
        return None
    return start + np.repeat(np.arange(len(keys)), np.diff(keys, prepend=keys[:1] - 1))


class FlatJoin(Run):
    """One evaluation over flat tries as a Layout has it."""

    def __init__(self, layout: "Layout", *, batch: int = BATCH) -> None:
        flat, shape = layout.flat, layout.shape
        super().__init__(shape, layout.sensors, layout.granularity, True, batch, layout.room)
        self._flat, self._room = flat, layout.room
        self._steps, self._grounds = layout.steps.copy(), layout.grounds.copy()
        self._cursors = np.zeros((len(flat.place), kernel.CURSOR), np.int64)
        for o in range(0, len(flat.place), shape.argument_level.shape[1]):
            self._cursors[o, [kernel.START, kernel.END]] = flat.place[o, 0], flat.place[o, :2].sum()
        for o, owners in layout.owners.items():
            self._cursors[o, kernel.OWNERS] = owners
        self._numbers = np.zeros(layout.numbers, np.int64)
        self._bits = np.empty(layout.bits, np.int64)
        self._scratch = np.empty(layout.size, np.int64)
        self._marks = np.zeros((shape.levels, layout.marks), np.uint8)
        self._counts = np.zeros((shape.levels, layout.counts), np.int64)
        self._collects = layout.counts > 0
        self._codings, self._codes = layout.codings, layout.codes
        self._times = np.empty(batch, np.int64)

    def _advance(self) -> None:
        fits = kernel.run_flat(
            self._flat.data, self._flat.place, self._plan, self._state, self._steps, self._cursors,
            self._scratch, self._marks, self._counts, self._grounds, self._numbers, self._bits,
            self._codes, self._room, self._out, self._times, self._rows,
        )  # fmt: skip
        if not fits:
            raise RangeError("more than 2**63 bindings stand behind one row; they cannot be counted")
        if self._collects:
            self.times.append(self._times[: self._state[names.EMITTED]].copy())


class Layout:
    """Which slices of a level are steady, and where it keeps its candidates and what they share.

    `asked` are the levels whose values are wanted (None: all); of others, those that nothing below reads are
    collected, and `times` of a join then says how many bindings each of those that come stands for.
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
        self.steps = np.zeros((shape.levels, kernel.STEP), np.int64)
        self.steps[:, kernel.COLLECTS] = range(shape.levels)
        self.steps[:, [kernel.COLLECTOR, kernel.RANKS]] = -1
        self.grounds = np.zeros((shape.levels, overlay.GROUND), np.int64)
        self.owners: dict[int, int] = {}
        self.size = self.marks = self.counts = self.room = self.numbers = self.bits = 0
        collecting = shape.levels - (1 if granularity == 1 else 2) if len(sensors.sources) else 0
        for level in range(shape.levels):
            self._lay(flat, shape, sensors, level, self.steps[level])
            if asked is not None and level >= collecting:
                self._collect(flat, shape, level, asked)
        for before, last in pairwise(self.steps[-2:]):
            if before[kernel.COLLECTS] < shape.levels - 2:
                before[kernel.FORETELLS] = last[kernel.CERTIFIES] and kernel.foretell.address()
                last[kernel.CERTIFIES] = 0
        self.codings = [_coding(flat, shape, sensors, s, granularity == 1) for s in range(len(sensors.sources))]
        self.codes = _codes(self.codings, sensors.sources)

    def _lay(self, flat: Flat, shape: Shape, sensors: Sensors, level: int, step: np.ndarray) -> None:
        atoms, depths = shape.parts[shape.part_start[level] : shape.part_start[level + 1]].T
        places = atoms * shape.argument_level.shape[1] + depths
        longest = flat.longest[places]
        step[kernel.BASE] = self._take(longest.min())
        if (sensors.sensor[atoms, depths] >= 0).any():
            self.room = max(self.room, int(longest.max()) + 2)
            if self.granularity > 1:
                step[kernel.CERTIFIES] = kernel.certify.address()
            else:
                step[kernel.RECORDS] = kernel.leapfrog.address()
            step[kernel.ROOM] = longest.max() + 2
            step[kernel.NOTES] = self._take(2 * len(atoms) * step[kernel.ROOM])
        moves = np.where(depths > 0, shape.argument_level[atoms, depths - 1], -1)
        steady = np.flatnonzero(moves < level - 1)
        if len(steady) == 0 or len(moves) < 2:
            return
        step[kernel.STEADY] = (1 << steady).sum()
        step[kernel.MOVES] = moves[steady].max()
        low, span = _range(flat, shape, level)
        step[kernel.MARK_LOW] = low
        if step[kernel.RECORDS]:
            if len(moves) == 2 and len(steady) == 1 and span <= MARKS_MAX:
                step[kernel.RANKS] = self.bits
                self.bits += 2 * (span >> 6) + 2
            return
        step[kernel.KEPT_BASE] = step[kernel.KEPT_STOP] = self._take(longest[steady].min())
        if span <= MARKS_MAX:
            step[kernel.MARKS] = 1
            self.marks = max(self.marks, span)
            self._ground(flat, shape, level, moves, self.grounds[level])

    def _ground(self, flat: Flat, shape: Shape, level: int, moves: np.ndarray, ground: np.ndarray) -> None:
        """Let a level meet rows of bits, over the outermost ground under which some slice comes again."""
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
        low, span = _range(flat, shape, level)
        ground[overlay.OVERLAYS] = kernel.overlay.address()
        ground[overlay.STAYING] = (1 << staying).sum()
        ground[overlay.CHANGER] = changer
        ground[overlay.LISTED] = ground[overlay.LISTED_STOP] = self._take(flat.longest[places[staying]].min())
        ground[overlay.LISTED_MAX] = GROUND_MAX
        ground[overlay.LEAST], ground[overlay.NUMBERS] = low, self._number(span)
        ground[overlay.MET] = self.bits
        ground[overlay.ROWS] = ground[overlay.ROWS_STOP] = self.bits + (GROUND_MAX >> 6) + 1
        self.bits += BITS_MAX
        ground[overlay.ROWS_MAX] = self.bits
        tables: dict[int, int] = {}
        for o in places[moves > changer].tolist():
            key, keys = flat.place[o - 1, [kernel.FIRST_KEY, kernel.KEYS]].tolist()
            if key not in tables:
                tables[key] = self._number(keys) - key
            self.owners[o] = tables[key]

    def _number(self, count: int) -> int:
        self.numbers += count
        return self.numbers - count

    def _collect(self, flat: Flat, shape: Shape, level: int, asked: frozenset[int]) -> None:
        """Let a level collect under the levels before it that are not asked for and that nothing below reads."""
        read = _read_below(shape, level) | asked
        first = level
        while first > 0 and first - 1 not in read and (first == level or self.steps[first, kernel.COLLECTS] == first):
            first -= 1
        low, span = _range(flat, shape, level)
        tallies = level == shape.levels - 1 and level not in asked and not _unequal(shape, level)
        span = 1 if tallies else span
        if first == level or span > COUNTS_MAX:
            return
        step = self.steps[level]
        step[kernel.TALLIES] = tallies
        step[kernel.SORTS] = kernel.sort_slice.address()
        step[kernel.COLLECTS], step[kernel.COUNT_LOW] = first, low
        self.steps[first, kernel.COLLECTOR] = level
        step[kernel.COLLECTED_BASE] = step[kernel.COLLECTED] = self._take(span)
        self.counts = max(self.counts, span)

    def _take(self, words: int) -> int:
        """Room in scratch, and one more word that is written before it is known to be needed."""
        self.size += int(words) + 1
        return self.size - int(words) - 1


def _range(flat: Flat, shape: Shape, level: int) -> tuple[int, int]:
    """The least key of a level's parts, and how many there are from it to the greatest."""
    low, high = _keys(flat, shape, level)
    return low, high - low + 1


def _keys(flat: Flat, shape: Shape, level: int) -> tuple[int, int]:
    """The least key of a level's parts, and the greatest."""
    atoms, depths = shape.parts[shape.part_start[level] : shape.part_start[level + 1]].T
    places = atoms * shape.argument_level.shape[1] + depths
    return int(flat.low[places].min()), int(flat.high[places].max())


def _coding(flat: Flat, shape: Shape, sensors: Sensors, s: int, exact: bool) -> Coding | None:
    """How the trace rows of a sensor become words; None where they stay columns, as on level 0, which a range bounds.

    The least word and the greatest have codes among a and b only, where they mean that there is no bound. Rows come
    context by context, in order, so behind a and b they are sorted. In an `exact` trace b is a, if that was sought and
    found, or else the key behind a, in a slice that the columns before say: so a is marked with whether b is another,
    and b need not be sorted by.
    """
    ((atom, depth),) = np.argwhere(sensors.sensor == s)
    level, prefix = shape.argument_level[atom, depth], shape.argument_level[atom, :depth]
    sources = sensors.sources[s, : sensors.widths[s]].tolist()
    least, greatest = _reach(flat, shape, level)
    reach = max(least, INT_MIN + 1), min(greatest, INT_MAX - 1)
    lows, highs = zip(*(_keys(flat, shape, source) if source >= 0 else reach for source in sources), strict=True)
    a, b = sources.index(-1), sources.index(-2)
    marked = a if exact and {*sources[:a]} == {*prefix.tolist()} else -1
    coding = coding_within(lows, highs, len(sources) - (b if marked == a else b + 1), marked)
    if level == 0 or min(lows) == INT_MIN or max(highs) == INT_MAX or coding is None or coding.width.max() > WIDTH_MAX:
        return None
    return coding


def _reach(flat: Flat, shape: Shape, level: int) -> tuple[int, int]:
    """Between what the trace rows of a level begin and end: its keys, their successors but for the last, its bounds."""
    low, high = _keys(flat, shape, level)
    for bound in shape.bounds[shape.bound_start[level] : shape.bound_start[level + 1]].tolist():
        least = greatest = bound[names.CONSTANT]
        for other, sign in zip(bound[names.OTHER :: 2], bound[names.OTHER + 1 :: 2], strict=True):
            if other >= 0:
                ends = sorted(sign * key for key in _keys(flat, shape, other))
                least, greatest = least + ends[0], greatest + ends[1]
        low, high = min(low, least), max(high, greatest)
    return low, high


def _codes(codings: Sequence[Coding | None], sources: np.ndarray) -> np.ndarray:
    """The codings of sensors, codes[S, C, CODE] as kernels/flat.py has them."""
    codes = np.full((*sources.shape, kernel.CODE), -1, np.int64)
    for code, coding, source in zip(codes, codings, sources, strict=True):
        if coding:
            source, at = source[: len(coding.width)], coding.bits - np.cumsum(coding.width)
            fields = np.stack([coding.low, coding.high, at, source, np.full(len(at), coding.tail)], axis=1)
            code[: len(at), : kernel.MARK] = fields[np.argsort(np.where(source < 0, -source, source + 3))]
            code[0, kernel.MARK] = coding.marked >= 0
            lows, _, at = code[2 : len(at), : kernel.SOURCE].T
            code[0, kernel.NOUGHT] = 0 if coding.tail else ((1 - lows) << at).sum()
    return codes


def _unequal(shape: Shape, level: int) -> bool:
    """Has a level a bound !=?"""
    return bool((shape.bounds[shape.bound_start[level] : shape.bound_start[level + 1], 0] == names.NE).any())


def _read_below(shape: Shape, level: int) -> set[int]:
    """The levels that some level behind this one reads: prefixes of its atoms, and other sides of its bounds."""
    below = shape.argument_level[shape.argument_level.max(axis=1) > level]
    bounds = shape.bounds[shape.bound_start[level + 1] :]
    return {*below.ravel().tolist(), *bounds[:, names.OTHER :: 2].ravel().tolist()}
