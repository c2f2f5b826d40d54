"""Aggregates over ranges (plan/rewrite/ranges.py): compute the rows of their views, and maintain
them.

    nx[x] = y <- agg<<y = min(z)>> a(x), a(z), z > x.        a: 1 4 9          nx: (1; 4) (4; 9)

    +a(6): a new point, whose row is computed; also a new measured key, so the rows of points from
    4, the key before 6, up to 6 change.                                       nx: (1; 4) (4; 6) (6; 9)

A change of a measured record affects the row of each point whose range holds it; if the first
(last) record of a range is the result, only of points for which it is that.  One seek or range fold
computes a row, in O(log n); of many points the ranges' records are read once, in order (`Held`).

    a fold          max of week: 3 9 4 | 5                       9, by one scan
    parts added     0.75 - 2^500 by place (exact_sum.py)         place 35: 3 << 4     place 50: -(1 << 26)
                    a fold of the range in each place; the sum is rounded once
    texts           no scan compares these, so the union of all ranges is read

O(log n) for each point, and with parts for each place that its group has: at most 68 for floats, 2
for integers, a few more than twice as many with squares.  Texts are compared in O(records in the
union of all ranges * log).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ivm.errors import RangeError
from ivm.lang.aggregate import MEANS, SQUARED
from ivm.lang.types import scale, word_range
from ivm.plan.rewrite.ranges import ADDED, COMPARED, FOLD, SEEK_FIRST, Span
from ivm.rules.rule import InstalledRule
from ivm.views.delta import Delta
from ivm.views.edit_composition import SumOverflow
from ivm.views.exact_sum import COUNTED, INFINITE, SQUARES, round_parts
from ivm.ways.kernels.ranges import count_before
from ivm.ways.pending import out_of_range
from ivm.ways.states import TextKeys, behind_prefixes, least_of
from ivm.ways.way import Context
from pagestore.compiled import TypedKernel
from pagestore.host import (
    CARRY,
    ERASE,
    INSERT,
    MAX,
    MIN,
    SET,
    SUM,
    WORD_MAX,
    WORD_MIN,
    Edits,
    Pages,
    Tree,
    count_prefixes,
    distinct,
    first_from,
    fold_many,
    last_before,
    operator_code,
    ranks,
    read_batches,
    rows_of,
    select,
)

POINTS_PER_BATCH = 1 << 13  # whose parts, at most about 200 each, are in memory together
COUNT_BEFORE = TypedKernel(count_before)
SEEKS_MIN = 256  # points of which the records are read at once
HELD = 4  # if there are at most so many for each point
SCANS = {"sum": ((SUM, 0), (CARRY, 0)), "min": ((MIN, 0),), "max": ((MAX, 0),)}  # of column 0
# for each point, whether there is a result, bool[n], and its word, int64[n]
Found = tuple[np.ndarray, np.ndarray]
Prefix = tuple[int, ...]


class Ends(NamedTuple):
    """Ranges, inclusive: prefixes (group and key) first[m, n] and last[m, n] of their records."""

    first: np.ndarray
    last: np.ndarray

    def take(self, which: np.ndarray) -> "Ends":
        """Return some of the ranges."""
        return Ends(self.first[:, which], self.last[:, which])


class Results:
    """Computes a view's results from the measured tree; `order` maps texts to sort keys."""

    def __init__(
        self, name: str, pages: Pages, span: Span, measured: Tree, order: TextKeys
    ) -> None:
        self._name, self._pages, self._span, self._tree = name, pages, span, measured
        self._order = order

    def of(self, rows: np.ndarray) -> Found:
        """Return the results for records of points rows[C, n].  Raises SumOverflow, RangeError."""
        span, point = self._span, rows[self._span.group]
        if span.ties:
            return self._beside(rows[span.lead])
        low, low_beyond = shifted(point, span.low, WORD_MIN)
        high, high_beyond = shifted(point, span.high, WORD_MAX)
        which = np.flatnonzero(~((low_beyond > 0) | (high_beyond < 0) | (low > high)))
        groups = rows[: span.group, which]
        ends = Ends(*(np.concatenate([groups, end[None, which]]) for end in (low, high)))
        there, words = np.zeros(rows.shape[1], bool), np.zeros(rows.shape[1], np.int64)
        held = self._held(ends)
        if span.kind == ADDED:
            found = self._added(ends, rows[:, which], held)
        elif held:
            found = held[0].found(ends, _scanned(span) or span.kind)
        elif span.kind == FOLD:
            found = self._folded(ends)
        else:
            found = self._compared(ends) if span.kind == COMPARED else self._sought(ends)
        there[which], words[which] = found
        return there, words

    def _held(self, ends: Ends) -> "dict[int, Held] | None":
        """Return the records of all ranges by the place of parts, else 0; None if they are many."""
        span = self._span
        is_other = span.kind == COMPARED or (span.kind == FOLD and _scanned(span) not in SCANS)
        if is_other or ends.first.shape[1] < SEEKS_MIN:
            return None
        lead = span.group + (span.kind != ADDED and not span.ties)
        low, high = (tuple(end.tolist()) for end in (ends.first[:lead, 0], ends.last[:lead, -1]))
        columns, batches = (*span.lead, span.result, span.group), list[np.ndarray]()
        for batch in read_up_to(self._pages, self._tree, low, high, columns):
            batches.append(batch)
            if sum(batch.shape[1] for batch in batches) > HELD * ends.first.shape[1]:
                return None
        rows = np.concatenate([*batches, np.empty((len(columns), 0), np.int64)], axis=1)
        if span.kind != ADDED:
            return {0: Held(rows[:-2], rows[-2])}
        if np.abs(rows[-2].astype(np.float64)).sum() > 2.0**62:  # sums may exceed a word
            return None
        places = np.unique(rows[-1])
        parts = ((at, rows[:-1, rows[-1] == at]) for at in places[self._is_wanted(places)].tolist())
        return {at: Held(part[:-1], part[-1]) for at, part in parts}

    # -- the first or the last record

    def _beside(self, points: np.ndarray) -> Found:
        """Find what is after each of some points, or before it, in the order of all their words."""
        span, after = self._span, self._span.kind == SEEK_FIRST
        if held := self._held(Ends(points, points)):
            return held[0].beside(points, span.group, after)
        there, records = _next_to(self._pages, self._tree, points, span.group, after)
        return there, records[span.result]

    def _sought(self, ends: Ends) -> Found:
        span = self._span
        if span.kind == SEEK_FIRST:
            found, records = first_from(self._pages, self._tree, ends.first)
        else:
            tree = self._pages, self._tree
            found, records = up_to(lambda to, _: last_before(*tree, to), ends.last)
        key, groups = records[span.group], ends.first[: span.group]
        found = found & (records[: span.group] == groups).all(axis=0)
        return found & (ends.first[-1] <= key) & (key <= ends.last[-1]), records[span.result]

    # -- folds

    def _folded(self, ends: Ends) -> Found:
        full, words = self._folds(ends)
        return full, words[0]  # enough for a count, too: it fits 64 bits

    def _folds(self, ends: Ends) -> tuple[np.ndarray, np.ndarray]:
        """Fold the records in ranges: whether there are any, and words[F, n]."""
        rows = rows_of(self._tree.spec, scan_of(self._span))
        assert rows, "the tree that a range is folded in has lost its scan"
        first, tree = ends.first, (self._pages, self._tree, rows)
        words, full = up_to(lambda to, which: fold_many(*tree, first[:, which], to), ends.last)
        return full, np.where(full, words, 0)

    # -- parts that are added up

    def _added(self, ends: Ends, points: np.ndarray, held: "dict[int, Held] | None") -> Found:
        n = points.shape[1]
        there, words = np.zeros(n, bool), np.zeros(n, np.int64)
        for start in range(0, n, POINTS_PER_BATCH):
            some = np.arange(start, min(start + POINTS_PER_BATCH, n))
            which, place, parts = self._parts(ends.take(some), held)
            firsts = np.flatnonzero(np.diff(which, prepend=-1))
            some = some[which[firsts]]
            has, found = self._rounded(Parts(place, parts, firsts), points[:, some])
            there[some[has]], words[some[has]] = True, found
        return there, words

    def _parts(
        self, ends: Ends, held: "dict[int, Held] | None"
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Add up the parts in each range: its index, the place, words[2, m]; sorted by these."""
        parts = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty((2, 0), np.int64))]
        for at, records in (held or {}).items():
            full, sums = records.found(ends, "sum")
            words = np.stack([sums, sums >> 63])[:, full]
            parts.append((np.flatnonzero(full), np.full(words.shape[1], at), words))
        parts += self._parts_in_tree(ends) if held is None else ()
        which, places, words = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
        order = np.argsort(which, kind="stable")
        return which[order], places[order], words[:, order]

    def _parts_in_tree(self, ends: Ends) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        group = self._span.group
        groups, of = np.empty((0, 1), np.int64), np.zeros(ends.first.shape[1], np.int64)
        if group:
            groups, of = np.unique(ends.first[:group], axis=1, return_inverse=True)
        place, left = np.full(groups.shape[1], WORD_MIN), np.arange(len(of))
        while len(left):
            lead = np.concatenate([groups, place[None]])
            there, records = first_from(self._pages, self._tree, lead)
            there = there & (records[:group] == groups).all(axis=0)
            place, left = np.where(there, records[group], INFINITE), left[there[of[left]]]
            mine = left[self._is_wanted(place)[of[left]]]
            at = place[of[mine]]
            inner = (np.insert(end[:, mine], group, at, axis=0) for end in ends)
            full, words = self._folds(Ends(*inner))
            yield mine[full], at[full], words[:, full]
            place = place + 1

    def _is_wanted(self, place: np.ndarray) -> np.ndarray:
        """Return which places the operation takes."""
        op = self._span.op
        is_mean: np.ndarray = (place == COUNTED) & (op in MEANS)
        return is_mean | (place < SQUARES) | (op in SQUARED)

    def _rounded(self, parts: "Parts", points: np.ndarray) -> Found:
        """Return which of the points, one per sum, have a result, and these results."""
        op, type_ = self._span.op, self._span.type
        digits = None if type_ == "float64" else scale(type_) or 0
        if op == "sum":
            return np.ones(len(parts.firsts), bool), self._fitting(parts, points)
        try:
            values, some = round_parts(op, parts.place, parts.amounts, parts.firsts, digits)
        except RangeError as error:
            raise RangeError(f"{self._name}: {error}", of=self._name) from None
        return some, values

    def _fitting(self, parts: "Parts", points: np.ndarray) -> np.ndarray:
        """Return the sums of integers, one per point.  Raises SumOverflow for one that its type
        cannot hold.
        """
        small, digits = parts.small_numbers(), scale(self._span.type)
        sums = parts.numbers() if small is None else small
        least, greatest = word_range("int64" if digits is None else f"decimal(18,{digits})")
        for i in np.flatnonzero((sums < least) | (sums > greatest))[:1].tolist():
            raise SumOverflow(points[[*self._span.keys], i], int(sums[i]))
        return np.asarray(sums, np.int64)

    # -- texts

    def _compared(self, ends: Ends) -> Found:
        """Find the least or the greatest text of each range."""
        behind, at_end = behind_prefixes(ends.last)
        start = ranks(self._pages, self._tree, ends.first)
        stop = ranks(self._pages, self._tree, behind)
        stop[at_end] = self._tree.count
        there, words = start < stop, np.zeros(len(start), np.int64)
        if there.any():
            texts, at = self._texts(start[there], stop[there])
            order = self._order(texts)
            upward = order if self._span.op == "min" else ~order
            words[there] = texts[least_of(upward, at, at + (stop - start)[there])]
        return there, words

    def _texts(self, start: np.ndarray, stop: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the texts of records with ranks in some ranges, each once, and where each range
        starts in them.
        """
        order = np.argsort(start, kind="stable")
        reach = np.maximum.accumulate(stop[order])
        heads = np.flatnonzero(start[order] > np.append(-1, reach[:-1]))
        begin = start[order[heads]]
        sizes = reach[np.append(heads[1:], len(order)) - 1] - begin
        if sizes.sum() > self._tree.count // HELD:
            columns = (self._span.result,)
            texts = [*read_batches(self._pages, self._tree, columns=columns)]
            return np.concatenate(texts, axis=1)[0], start
        before = np.cumsum(sizes) - sizes
        held = np.arange(sizes.sum()) + np.repeat(begin - before, sizes)
        part = np.searchsorted(begin, start, "right") - 1
        texts = select(self._pages, self._tree, held)[self._span.result]
        return texts, start - begin[part] + before[part]


def up_to(
    call: Callable[[np.ndarray, Any], Sequence[Any]], last: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return what a call finds up to prefixes[m, n]: it takes those behind, and which these are."""
    behind, at_end = behind_prefixes(last)
    left, right = call(behind, slice(None))[:2]
    if at_end.any():
        open_ = np.empty((0, np.count_nonzero(at_end)), np.int64)
        left[..., at_end], right[..., at_end] = call(open_, at_end)[:2]
    return left, right


class Held:
    """Measured records in memory: group and key, lead[m, n] in order, and the words[n] of results."""

    def __init__(self, lead: np.ndarray, words: np.ndarray) -> None:
        self._lead, self._words = np.ascontiguousarray(lead), words
        self._upto = np.append(0, np.cumsum(words))

    def beside(self, points: np.ndarray, group: int, after: bool) -> Found:
        """Return the record after each of some points, or before it, in its group."""
        at = np.empty(points.shape[1], np.int64)
        COUNT_BEFORE.call(self._lead, np.ascontiguousarray(points), int(after), at)
        at -= not after
        there = (at >= 0) & (at < len(self._words))
        at[~there] = 0
        return there & (self._lead[:group, at] == points[:group]).all(axis=0), self._words[at]

    def found(self, ends: Ends, what: str) -> Found:
        """Return the first or last record of each range, or the sum, min or max of its records."""
        start, stop = np.empty((2, ends.first.shape[1]), np.int64)
        for past, (end, out) in enumerate(zip(ends, (start, stop), strict=True)):
            COUNT_BEFORE.call(self._lead, np.ascontiguousarray(end), past, out)
        there, words = start < stop, np.zeros(len(start), np.int64)
        start, stop = start[there], stop[there]
        if what == "sum":
            words[there] = self._upto[stop] - self._upto[start]
        elif what in SCANS:
            fold = np.minimum if what == "min" else np.maximum
            words[there] = extremes(self._words, start, stop, fold)
        else:
            words[there] = self._words[start if what == SEEK_FIRST else stop - 1]
        return there, words


def _next_to(
    pages: Pages, tree: Tree, points: np.ndarray, group: int, after: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the record after each of some points, or before it, and whether it is of its group."""
    behind, at_end = behind_prefixes(points)
    find, ends = (first_from, behind) if after else (last_before, points)
    there, records = find(pages, tree, ends)
    same = (records[:group] == points[:group]).all(axis=0)
    return there & same & ~(at_end & after), records


def extremes(words: np.ndarray, start: np.ndarray, stop: np.ndarray, fold: np.ufunc) -> np.ndarray:
    """Return the least or greatest of words[start:stop] for each range, none of which is empty: of
    two parts of 2 ** k words that cover it.
    """
    level, folds = np.frexp(stop - start)[1] - 1, np.empty(len(start), np.int64)
    for k in range(max(level, default=-1) + 1):
        mine, width = level == k, 1 << k
        folds[mine] = fold(words[start[mine]], words[stop[mine] - width])
        words = fold(words[:-width], words[width:])
    return folds


class Parts(NamedTuple):
    """Parts of sums: the place[m] and two words[2, m] of each, and where the parts of each sum
    begin, firsts[n].
    """

    place: np.ndarray
    words: np.ndarray
    firsts: np.ndarray

    @property
    def amounts(self) -> np.ndarray:
        """The parts as integers of any size."""
        low, high = self.words
        if (high == low >> 63).all():
            return np.asarray(low)
        return np.asarray((high.astype(object) << 64) + low.view(np.uint64).astype(object))

    def small_numbers(self) -> np.ndarray | None:
        """Return the sums of integers, int64[n]; None if some may exceed 64 bits."""
        (low, high), number = self.words, self.place < INFINITE
        shift = np.where(number, 32 * self.place, 0)
        if not ((high == low >> 63) & (np.abs(low) < 1 << 61 - shift) & (low != WORD_MIN))[
            number
        ].all():
            return None
        return np.asarray(np.add.reduceat(np.where(number, low << shift, 0), self.firsts))

    def numbers(self) -> np.ndarray:
        """Return the sums of integers of any size, object[n]."""
        places = np.where(self.place < INFINITE, self.place, -1).tolist()
        amounts = zip(places, self.amounts.tolist(), strict=True)
        shifted = [0 if place < 0 else n << 32 * place for place, n in amounts]
        return np.asarray(np.add.reduceat(np.array(shifted, object), self.firsts))


def _scanned(span: Span) -> str:
    return span.scan.partition(":")[0]


def scan_of(span: Span) -> tuple[tuple[int, int], ...]:
    """Return the scan by which the records of a range, or the parts of each place, are folded."""
    op = _scanned(span)
    scan = SCANS[op] if op in SCANS else ((operator_code(op), 0),)
    return tuple((code, span.result) for code, _ in scan)


def shifted(words: np.ndarray, by: int | None, otherwise: int) -> tuple[np.ndarray, np.ndarray]:
    """Return words[n] + by, clamped to 64 bits, and -1 or 1 where it was clamped; `otherwise` if
    `by` is None.
    """
    if by is None:
        return np.full(len(words), otherwise), np.zeros(len(words), np.int64)
    is_beyond = words > WORD_MAX - by if by >= 0 else words < WORD_MIN - by
    beyond = is_beyond * np.int64(1 if by >= 0 else -1)
    kept = np.where(beyond == 0, words + np.int64(by), np.where(beyond > 0, WORD_MAX, WORD_MIN))
    return kept, beyond


INTERVALS_MAX = 256  # of affected points; if there are more, all points are computed
SHARE = 4  # if more rows changed than points / SHARE (+ INTERVALS_MAX), all points are computed
Find = Callable[[np.ndarray], Found]  # the results for records of points


class Side(NamedTuple):
    """One side of a range before and after a transaction: both trees, and the delta, None if
    nothing changed.
    """

    old: Tree
    new: Tree
    delta: Delta | None


class Intervals(NamedTuple):
    """Intervals of points: groups[G, n], and the least and greatest point of each."""

    groups: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def where(self, keep: np.ndarray) -> "Intervals":
        """Return those for which keep[n] is true, or those with these numbers."""
        return Intervals(self.groups[:, keep], self.low[keep], self.high[keep])


def fill(context: Context, rule: InstalledRule) -> Edits:
    """Return the edits that insert all rows of a rule of ranges. Raises RangeError."""
    (name,), span = rule.writes, rule.span
    assert span
    context.build_indices(rule.indices)
    points, measured = map(context.tree, span.indices)
    context.accounts[name].operations += points.count
    rows = ranged_rows(context.txn.pages, span, points, _results_of(context, name, span, measured))
    return np.full(rows.shape[1], INSERT), rows


def follow(context: Context, rule: InstalledRule) -> Iterator[tuple[str, Edits]]:
    """Yield the edits of the view of such a rule for the deltas so far.  Raises RangeError."""
    (name,), span = rule.writes, rule.span
    assert span
    if context.deltas.keys().isdisjoint(rule.indices):
        return
    oldest, tree, deltas = context.oldest, context.tree, context.deltas
    points, measured = (Side(oldest(i), tree(i), deltas.get(i)) for i in span.indices)
    find = _results_of(context, name, span, measured.new)
    edits, looked = ranged_edits(context.txn.pages, span, points, measured, find)
    context.accounts[name].operations += looked
    yield name, edits


def _results_of(context: Context, name: str, span: Span, measured: Tree) -> Find:
    """Return a function that finds the results of a view of ranges; it raises RangeError."""
    results = Results(name, context.txn.pages, span, measured, context.encode.keys)

    def find(points: np.ndarray) -> Found:
        try:
            return results.of(points)
        except SumOverflow as overflow:
            raise out_of_range(context.txn, context.predicate(name), overflow) from None

    return find


def ranged_rows(pages: Pages, span: Span, points: Tree, find: Find) -> np.ndarray:
    """Return all rows int64[C, n] of a view, in the order of the points.  O(points log n)."""
    rows = np.concatenate(
        [*read_batches(pages, points), np.empty((points.spec.columns, 0), np.int64)], axis=1
    )
    if not span.whole and span.group + 1 < points.spec.keys:
        rows = _distinct_points(span, [rows])
    there, words = find(rows)
    return _view_rows(span, rows[:, there], words[there])


def ranged_edits(
    pages: Pages, span: Span, points: Side, measured: Side, find: Find
) -> tuple[Edits, int]:
    """Return the edits of a view for changes of both sides, and how many points were computed.

    O((changes + points whose range changes) log n).
    """
    moved = _moved_points(pages, span, points.new, measured) if measured.delta else []
    gone = np.empty((points.new.spec.columns, 0), np.int64)
    if points.delta is not None:
        actions, rows = points.delta
        if span.whole:
            gone, came = rows[:, actions == ERASE], rows[:, actions == INSERT]
        else:
            cores = distinct(rows[: span.group + 1])
            left = count_prefixes(pages, points.new, cores) > 0
            gone, came = cores[:, ~left], cores[:, left]
        moved.append(came)
    rows = _distinct_points(span, moved)
    there, words = find(rows)
    new = _view_rows(span, rows[:, there], words[there])
    old = np.concatenate([gone[[*span.keys]], rows[[*span.keys]][:, ~there]], axis=1)
    old = np.concatenate([old, np.zeros((1, old.shape[1]), np.int64)])
    actions = np.repeat([ERASE, SET], [old.shape[1], new.shape[1]])
    return (actions, np.concatenate([old, new], axis=1)), rows.shape[1]


def _distinct_points(span: Span, parts: list[np.ndarray]) -> np.ndarray:
    """Return distinct records of points, or of their first words if these are the view's keys."""
    words = span.width if span.whole else span.group + 1
    rows = [*(part[:words] for part in parts), np.empty((words, 0), np.int64)]
    return distinct(np.concatenate(rows, axis=1))


def _view_rows(span: Span, rows: np.ndarray, words: np.ndarray) -> np.ndarray:
    return np.concatenate([rows[[*span.keys]], words[None]])


# -- the points whose results change


def _moved_points(pages: Pages, span: Span, points: Tree, measured: Side) -> list[np.ndarray]:
    """Return records of the current points whose result may change with the measured side."""
    assert measured.delta
    actions, rows = measured.delta
    if len(actions) > INTERVALS_MAX + points.count // SHARE:
        return [*read_batches(pages, points)]
    if span.ties:
        changed, after = distinct(rows[span.lead]), span.kind != SEEK_FIRST
        there, records = _next_to(pages, points, changed, span.group, after)
        return [records[:, there]]
    sides = [
        _touched(pages, span, tree, distinct(rows[span.lead][:, actions == action]))
        for action, tree in ((ERASE, measured.old), (INSERT, measured.new))
    ]
    parts = (np.concatenate(part, axis=-1) for part in zip(*sides, strict=True))
    merged = _merged(Intervals(*parts))
    if len(merged.low) > INTERVALS_MAX:
        return [*read_batches(pages, points)]
    read: list[np.ndarray] = []
    for *group, low, high in np.stack([*merged.groups, merged.low, merged.high], axis=1).tolist():
        read += read_up_to(pages, points, (*group, low), (*group, high))
    return read


def read_up_to(
    pages: Pages, tree: Tree, low: Prefix, high: Prefix, columns: Prefix | None = None
) -> Iterator[np.ndarray]:
    """Yield batches of the records whose prefixes are from `low` to `high`, these included."""
    behind, at_end = behind_prefixes(np.array([high], np.int64).T)
    hi = () if at_end[0] else tuple(behind[:, 0].tolist())
    return read_batches(pages, tree, low, hi, columns)


def _touched(pages: Pages, span: Span, tree: Tree, changed: np.ndarray) -> Intervals:
    """Return, for keys changed[G + 1, n] in a tree, the points whose result they are, or whose
    range holds them.
    """
    groups, key = changed[:-1], changed[-1]
    low, low_beyond = shifted(key, None if span.high is None else -span.high, WORD_MIN)
    high, high_beyond = shifted(key, None if span.low is None else -span.low, WORD_MAX)
    keep = (low_beyond <= 0) & (high_beyond >= 0)
    if span.kind not in (FOLD, ADDED, COMPARED):
        first = span.kind == SEEK_FIRST
        found, other = _next_to(pages, tree, changed, span.group, not first)
        bound = span.low if first else span.high
        if bound is None:
            keep &= ~found
        else:  # points whose range begins after the previous key, or ends before the next key
            end, beyond = shifted(other[span.group], -bound + (1 if first else -1), 0)
            keep &= ~found | (beyond <= 0 if first else beyond >= 0)
            if first:
                low = np.where(found, np.maximum(low, end), low)
            else:
                high = np.where(found, np.minimum(high, end), high)
    return Intervals(groups, low, high).where(keep & (low <= high))


def _merged(intervals: Intervals) -> Intervals:
    """Return disjoint intervals with the same union."""
    groups, low, high = intervals.where(np.lexsort((intervals.low, *intervals.groups[::-1])))
    same = [False, *(groups[:, 1:] == groups[:, :-1]).all(axis=0).tolist()]
    first, reach = [], WORD_MIN
    for i, (start, end) in enumerate(zip(low.tolist(), high.tolist(), strict=True)):
        if same[i] and start <= reach:
            reach = max(reach, end)
        else:
            first.append(i)
            reach = end
    highest = np.maximum.reduceat(high, first) if first else high
    return Intervals(groups[:, first], low[first], highest)
