"""Compute the rows of aggregates that have a tree of state (states.py), and maintain them when it
changes.

    least[x] = m <- agg<<m = min(v)>> cost(x, v).       state (7, 3; 1) (7, 5; 2) (9, 1; 1)       view (7; 3) (9; 1)

A group is found by rank, in O(log n) for any size (*Aggregations*): the rank of the prefix s is the
number of records before the group.  Within it an assignment is found by rank, too, or by the sum of
the supports before it. The order of texts differs from that of their words: all records of a
changed group are read and compared as texts.

Aggregates by users' operators with an inverse: one value per group, from which erased values are
removed.

    u[x] = r <- agg<<r = bitxor(v)>> n(x, v).        state (1; 5, 2)        +n(1, 4).        (1; 5 ^ 4, 3)

The last word is the number of assignments; a group without any is erased.  O(log n) per change, and
the values themselves are not stored.

Medians and quantiles: their ranks in an ordered group, means of two values, and minima of ranges.

values    1  2  2  9        median 2.0        quantile 0.5: 2        quantile 0.9: 9        quantile 0: 1
"""

from collections.abc import Callable, Iterator
from functools import partial, reduce
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ivm.errors import RangeError
from ivm.lang.aggregate import BY_RANK, EXTREMES, LOWER, UPPER
from ivm.lang.types import scale
from ivm.views.exact_sum import round_parts
from ivm.views.layouts import ALONE, INVERTED, PARTS, Fold, Layout
from ivm.ways.quantiles import interpolated, midpoints, place_of
from pagestore.errors import EditError
from pagestore.host import (
    CARRY,
    CHECKSUM,
    COUNT,
    ERASE,
    INSERT,
    MAX,
    MIN,
    SET,
    SUM,
    WORD_MAX,
    WORD_MIN,
    Edits,
    Operator,
    Pages,
    Tree,
    begins,
    count_prefixes,
    distinct,
    fold_many,
    get,
    is_operator,
    operator,
    operator_code,
    ranks,
    read_batches,
    rows_of,
    select,
    select_weighted,
    sort_order,
)

FOLDED = ("concat",)  # and users' operators: computed by the scans of a state's tree
TextKeys = Callable[[np.ndarray], np.ndarray]  # from ids of texts to sort keys


class Records(NamedTuple):
    """The records of a state, in its tree or in memory: `take` returns those with given ranks,
    as int64[C, n], and `weigh` those of the assignments with given ranks (a record counts as
    often as its support); in memory it returns the last two words alone, the value and the support.
    """

    take: Callable[[np.ndarray], np.ndarray]
    weigh: Callable[[np.ndarray], np.ndarray]


class Groups(NamedTuple):
    """Some groups of a state: keys[K, n], the ranks of their records from start[n] to stop[n],
    and, for operations in `BY_RANK`, the numbers of assignments before each group and in it.
    """

    keys: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    before: np.ndarray
    weight: np.ndarray


def view_rows(
    name: str, layout: Layout, pages: Pages, state: Tree, rows: np.ndarray, order: TextKeys
) -> np.ndarray:
    """Compute all rows int64[C, n] of a view from its state, in key order.  O(records).  Raises
    RangeError.

    `rows` are the state's records; its tree is read only for operations in `FOLDED`.
    """
    fold = layout.fold
    assert fold
    if not rows.shape[1] and fold.absent is not None:
        return np.array([[fold.absent]])
    if fold.state.kind == ALONE:
        return rows[1:2]
    if fold.state.kind == INVERTED:
        return rows[-2:-1] if layout.bare else rows[:-1]
    groups, records = in_memory(_of_level(fold, rows), fold.group, fold.op in BY_RANK)
    made = in_key_order(fold, _Rows(name, layout, pages, state, order).of(groups, records)[0])
    return made.take(sort_order(made), axis=1) if fold.order else made


def view_edits(
    name: str,
    layout: Layout,
    pages: Pages,
    view: Tree,
    state: Tree,
    actions: np.ndarray,
    rows: np.ndarray,
    order: TextKeys,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the edits of the view (actions int64[n], rows int64[C, n]) from a delta of its state.

    O(groups * log n); O(rows * log n) to number rows; O(records of the groups * log n) for an order
    of texts, except min and max whose text was not erased.  Raises RangeError.
    """
    fold = layout.fold
    assert fold
    if (
        fold.absent is not None
        and rows.shape[1]
        and (fold.state.kind in (ALONE, INVERTED) or not state.count)
    ):
        return _instead(
            pages, view, view_rows(name, layout, pages, state, _all_rows(pages, state), order)
        )
    if fold.state.kind == ALONE:
        return actions, rows[1:2]
    if fold.state.kind == INVERTED:
        return view_edits_of(actions, rows[: fold.state.group + 1], layout.bare)
    if fold.group:
        keys = distinct(rows[: fold.group])
    else:
        keys = np.empty((0, min(1, rows.shape[1])), np.int64)
    if is_scanned(fold):
        there, found, records = _scanned(fold, pages, state, keys)
    else:
        groups = _groups_in(pages, state, fold, keys)
        there = np.flatnonzero(groups.start < groups.stop)
        found = Groups(*(column[..., there] for column in groups))
        records = _in_tree(pages, state, fold)
    if fold.is_text_ordered:
        found, records = _near_end(fold, pages, state, found, records)
    if fold.is_text_ordered and fold.op in ("min", "max"):
        found, records = _of_contenders(
            layout, pages, view, found, records, (actions, without_between(fold, rows))
        )
    new, which = _Rows(name, layout, pages, state, order).of(found, records)
    new = in_key_order(fold, new)
    if layout.bare:
        return _instead(pages, view, new) if keys.shape[1] else (np.empty(0, np.int64), new)
    gone = _surplus(pages, view, fold, keys, np.bincount(there[which], minlength=keys.shape[1]))
    gone = np.concatenate([in_key_order(fold, gone), np.zeros((1, gone.shape[1]), np.int64)])
    return np.repeat([SET, ERASE], [new.shape[1], gone.shape[1]]), np.concatenate(
        [new, gone], axis=1
    )


def _instead(pages: Pages, view: Tree, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the edits that give a view without keys the row int64[1, n], with n <= 1."""
    old = _all_rows(pages, view)
    return np.repeat([ERASE, INSERT], [old.shape[1], new.shape[1]]), np.concatenate(
        [old, new], axis=1
    )


def _all_rows(pages: Pages, tree: Tree) -> np.ndarray:
    """Return all records of a tree, int64[C, n]."""
    return np.concatenate(
        [*read_batches(pages, tree), np.empty((tree.spec.columns, 0), np.int64)], axis=1
    )


def _surplus(
    pages: Pages, view: Tree, fold: Fold, keys: np.ndarray, rows: np.ndarray
) -> np.ndarray:
    """Return the keys of the rows to erase: of groups keys[K, n], those beyond the rows[n] that
    they now have.
    """
    if not fold.numbered:
        return keys[:, rows == 0]
    keys = keys[: view.spec.keys - 1]  # none if there is only one group
    if len(keys):
        had = count_prefixes(pages, view, keys, fold.rows_max)
    else:
        had = np.full(len(rows), view.count)
    more = np.maximum(had - rows, 0)
    which = np.repeat(np.arange(len(rows)), more)
    numbers = np.arange(len(which)) + np.repeat(rows + 1 - np.cumsum(more) + more, more)
    return np.concatenate([keys[:, which], numbers[None]])


class _Rows:
    """Computes the rows of a view from groups that are not empty."""

    def __init__(
        self, name: str, layout: Layout, pages: Pages, state: Tree, order: TextKeys
    ) -> None:
        assert layout.fold
        self._name, self._bare, self._fold = name, layout.bare, layout.fold
        self._pages, self._tree, self._order = pages, state, order

    def of(self, groups: Groups, records: Records) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows int64[C, n] in key order, and the position of each one's group.
        Raises RangeError.
        """
        fold, which = self._fold, np.arange(len(groups.start))
        if fold.is_text_ordered:
            groups, records = _by_texts(fold, groups, records, self._order)
        if fold.numbered:
            numbers, values, which = numbered(fold, groups, records)
            keys = groups.keys[: len(groups.keys) if fold.grouped else 0, which]
            return np.concatenate([keys, numbers[None], values[None]]), which
        if fold.state.kind == PARTS:
            values, which = self._of_parts(groups, records)
        elif fold.op == "concat" or is_operator(fold.op):
            values = self._folded(groups, records)
        else:
            values = chosen(fold, groups, records)
        return values[None] if self._bare else np.concatenate(
            [groups.keys[:, which], values[None]]
        ), which

    def _of_parts(self, groups: Groups, records: Records) -> tuple[np.ndarray, np.ndarray]:
        rows, _ = all_of(groups, records)
        sizes = groups.stop - groups.start
        digits = None if self._fold.type == "float64" else scale(self._fold.type) or 0
        try:
            values, there = round_parts(
                self._fold.op, rows[-3], rows[-2], np.cumsum(sizes) - sizes, digits
            )
        except RangeError as error:
            raise RangeError(f"{self._name}: {error}", of=self._name) from None
        return values, np.flatnonzero(there)

    def _folded(self, groups: Groups, records: Records) -> np.ndarray:
        """Fold each group by a scan: a concat's checksum, or the fold of a registered operator."""
        fold, columns = self._fold, self._tree.spec.keys
        if fold.op == "concat" or not fold.is_text_ordered:
            if fold.op == "concat":
                scan = (CHECKSUM, columns + 1)
            else:
                scan = (operator_code(fold.op), columns - 1)
            words: np.ndarray = fold_groups(self._pages, self._tree, (scan,), groups.keys)[0]
            return words
        rows, which = all_of(groups, records)
        values, combine = rows[-2].tolist(), operator(operator_code(fold.op)).call
        ends = np.searchsorted(which, np.arange(len(groups.start) + 1)).tolist()
        return np.array([reduce(combine, values[a:b]) for a, b in pairwise(ends)], np.int64)


# -- where groups are


def in_memory(rows: np.ndarray, group: int, weighed: bool) -> tuple[Groups, Records]:
    """Group the sorted records rows[C, n] by the first `group` words."""
    start = _starts(rows[:group])
    stop = np.append(start[1:], rows.shape[1]).astype(np.int64)
    if not weighed:
        none = np.zeros(len(start), np.int64)
        return Groups(rows[:group, start], start, stop, none, none), Records(
            partial(rows.take, axis=1), _unweighed
        )
    sums = np.append(0, np.cumsum(rows[-1]))
    records = Records(
        lambda ranks: rows.take(ranks, axis=1),
        lambda ranks: rows[-2:].take(np.searchsorted(sums, ranks, "right") - 1, axis=1),
    )
    return Groups(rows[:group, start], start, stop, sums[start], sums[stop] - sums[start]), records


def _starts(keys: np.ndarray) -> np.ndarray:
    """Return where each group of records begins, given their sorted keys[K, n]; if K is 0, all
    are one group.
    """
    return np.flatnonzero(begins(keys)) if len(keys) else np.arange(min(1, keys.shape[1]))


def _unweighed(_ranks: np.ndarray) -> np.ndarray:
    raise AssertionError("records are weighed where an operation says so")


def _in_tree(pages: Pages, state: Tree, fold: Fold) -> Records:
    return Records(
        lambda ranks: without_between(fold, select(pages, state, ranks)),
        lambda ranks: select_weighted(pages, state, state.spec.keys, ranks),
    )


def _groups_in(pages: Pages, state: Tree, fold: Fold, keys: np.ndarray) -> Groups:
    """Find the groups keys[K, n] in a tree of state; those without records are empty."""
    start = ranks(pages, state, keys) if len(keys) else np.zeros(keys.shape[1], np.int64)
    stop = start + fold_groups(pages, state, ((COUNT, 0),), keys)[0]
    none = np.zeros(keys.shape[1], np.int64)
    if fold.op not in BY_RANK:
        return Groups(keys, start, stop, none, none)
    sums = (SUM, state.spec.keys), (CARRY, state.spec.keys)
    rows = rows_of(state.spec, sums)
    assert rows
    before = fold_many(pages, state, rows, np.empty((0, keys.shape[1]), np.int64), keys)
    return Groups(
        keys,
        start,
        stop,
        np.where(before.full, before.words[0], 0),
        fold_groups(pages, state, sums, keys)[0],
    )


def fold_groups(
    pages: Pages, state: Tree, scan: tuple[tuple[int, int], ...], keys: np.ndarray
) -> np.ndarray:
    """Return the words int64[F, n] of a scan over the records that begin with each of keys[K,
    n], 0 if none do.
    """
    return _folded_groups(pages, state, scan, keys)[1]


def _folded_groups(
    pages: Pages, state: Tree, scan: tuple[tuple[int, int], ...], keys: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return where records begin with keys[K, n], bool[n], and the words of `fold_groups`."""
    rows = rows_of(state.spec, scan)
    assert rows
    behind, last = behind_prefixes(keys)
    words, full, _ = fold_many(pages, state, rows, keys, behind)
    if last.any():
        rest = fold_many(
            pages, state, rows, keys[:, last], np.empty((0, np.count_nonzero(last)), np.int64)
        )
        words[:, last], full[last] = rest.words, rest.full
    return full, np.where(full, words, 0)


# -- levels of detail


def is_scanned(fold: Fold) -> bool:
    """Return whether the result of each group is an extreme over finer groups, found by a scan."""
    return fold.between > 0 and fold.op in EXTREMES and not fold.state.texts


def _of_level(fold: Fold, rows: np.ndarray) -> np.ndarray:
    """Project records rows[C, n] of a state to a view's level, without the keys of finer groups;
    of groups whose extreme a scan would find, keep only that.
    """
    rows = without_between(fold, rows)
    if not is_scanned(fold) or not rows.shape[1]:
        return rows
    extreme = np.minimum if fold.op in LOWER else np.maximum
    for column in range(fold.group, len(rows) - 1):
        start = _starts(rows[: fold.group])
        best = extreme.reduceat(rows[column], start)
        rows = rows[:, rows[column] == np.repeat(best, np.diff(start, append=rows.shape[1]))]
    return rows[:, _starts(rows[: fold.group])]


def _scanned(
    fold: Fold, pages: Pages, state: Tree, keys: np.ndarray
) -> tuple[np.ndarray, Groups, Records]:
    """Return which of the groups keys[K, n] have records, and these groups with their extreme as
    the only record.
    """
    full, words = _folded_groups(
        pages, state, fold.state.scan_of(MIN if fold.op in LOWER else MAX), keys
    )
    there = np.flatnonzero(full)
    rows = np.concatenate([keys[:, there], words[:, there], np.ones((1, len(there)), np.int64)])
    return there, *in_memory(rows, fold.group, False)


def without_between(fold: Fold, rows: np.ndarray) -> np.ndarray:
    """Return records of a state without the keys that only finer groups than the view's have."""
    return np.delete(rows, np.s_[fold.group : fold.state.group], axis=0) if fold.between else rows


def in_key_order(fold: Fold, rows: np.ndarray) -> np.ndarray:
    """Reorder the group words of rows to the order of the view's keys."""
    return np.concatenate([rows[[*fold.order]], rows[len(fold.order) :]]) if fold.order else rows


def behind_prefixes(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least prefixes after keys[K, n], and which keys have none after them."""
    behind, carry = keys.copy(), np.ones(keys.shape[1], bool)
    for column in behind[::-1]:
        full = column == WORD_MAX
        column[carry] = np.where(full, WORD_MIN, column + ~full)[carry]
        carry = carry & full
    return behind, carry


# -- texts


def _near_end(
    fold: Fold, pages: Pages, state: Tree, groups: Groups, records: Records
) -> tuple[Groups, Records]:
    """Narrow groups to the records that their rows may come from, by words before a text."""
    upper = fold.op in UPPER
    before_text = fold.state.group + fold.state.texts[0]
    if before_text == fold.state.group or fold.op not in (*UPPER, *LOWER):
        return groups, records
    if fold.numbered:
        most = np.minimum(fold.rows_max, groups.weight)
        ends = records.weigh(groups.before + (groups.weight - most if upper else most - 1))
    else:
        ends = records.take(groups.stop - 1 if upper else groups.start)
    prefixes = ends[:before_text]
    bound = ranks(pages, state, prefixes)
    if upper:
        return groups._replace(start=bound), records
    return groups._replace(
        stop=bound + fold_groups(pages, state, ((COUNT, 0),), prefixes)[0]
    ), records


def _of_contenders(
    layout: Layout, pages: Pages, view: Tree, groups: Groups, records: Records, change: Edits
) -> tuple[Groups, Records]:
    """Narrow each group whose extreme text was not erased to that and inserted texts; keep all
    records of others.
    """
    fold, (actions, rows) = layout.fold, change
    assert fold
    group, n = fold.group, len(groups.start)
    if layout.bare:  # the only row's key is the extreme
        rows_before = np.concatenate(
            [*read_batches(pages, view), np.zeros((1, n), np.int64)], axis=1
        )
        old = rows_before[:, :n]
        found = (view.count > 0) & (old[0] != fold.absent)  # which is null, and no text
    else:
        found, old = get(pages, view, in_key_order(fold, groups.keys))
    before = np.concatenate([groups.keys, ~old if fold.state.falling else old])
    came = rows[: group + 1, actions == INSERT]
    gone = {*_tuples(rows[: group + 1, actions == ERASE])} - {*_tuples(came)}
    stays = found & np.array([row not in gone for row in _tuples(before)], bool)
    known = {*_tuples(groups.keys[:, stays])}
    near = np.array([row in known for row in _tuples(came[:group])], bool)
    others = Groups(*(column[..., ~stays] for column in groups))
    rest = [all_of(others, records)[0][:-1]] if not stays.all() else []
    contenders = np.concatenate([before[:, stays], came[:, near], *rest], axis=1)
    contenders = contenders.take(sort_order(contenders), axis=1)
    return in_memory(
        np.append(contenders, np.ones((1, contenders.shape[1]), np.int64), axis=0), group, False
    )


def _tuples(rows: np.ndarray) -> Iterator[tuple[int, ...]]:
    return map(tuple, rows.T.tolist())


def _by_texts(
    fold: Fold, groups: Groups, records: Records, order: TextKeys
) -> tuple[Groups, Records]:
    """Read the records of groups into memory, in the order of their texts."""
    rows, which = all_of(groups, records)
    if fold.state.falling:
        rows[fold.group : -1] = ~rows[fold.group : -1]
    rows = rows.take(np.lexsort((*ordering_words(fold, rows, order)[::-1], which)), axis=1)
    return in_memory(rows, fold.group, fold.op in BY_RANK)


def ordering_words(fold: Fold, rows: np.ndarray, order: TextKeys) -> list[np.ndarray]:
    """Return the words that order a state's records rows[C, n], with sort keys for texts."""
    words = [*rows[fold.group : -1]]
    for text in fold.state.texts:
        words[text] = order(words[text])
    return words


def all_of(groups: Groups, records: Records) -> tuple[np.ndarray, np.ndarray]:
    """Return all records of groups, and the position of each one's group."""
    sizes = groups.stop - groups.start
    which = np.repeat(np.arange(len(sizes)), sizes)
    return records.take(
        np.arange(len(which)) + np.repeat(groups.stop - np.cumsum(sizes), sizes)
    ), which


# -- what is selected from a group


def chosen(fold: Fold, groups: Groups, records: Records) -> np.ndarray:
    """Select the result of an aggregate for each group by its rank: words int64[n]."""
    op, rank = fold.op, BY_RANK.get(fold.op)
    if op == "count_distinct" or not len(groups.start):
        sizes: np.ndarray = groups.stop - groups.start
        return sizes
    if rank == "middle":
        low = records.weigh(groups.before + (groups.weight - 1) // 2)[-2]
        return midpoints(low, records.weigh(groups.before + groups.weight // 2)[-2], fold.type)
    if rank == "between":
        places = float(str(fold.constants[0])) * (groups.weight - 1)
        low, high = (
            records.weigh(groups.before + r(places).astype(np.int64))[-2]
            for r in (np.floor, np.ceil)
        )
        return interpolated(low, high, places - np.floor(places), fold.type)
    if rank == "share":
        found = records.weigh(groups.before + place_of(fold.constants[0], groups.weight))
    elif fold.state.falling and not fold.state.texts:
        found = ~records.take(groups.start)
    else:
        found = records.take(groups.stop - 1 if op in UPPER else groups.start)
    words: np.ndarray = found[-2]
    return words


def numbered(
    fold: Fold, groups: Groups, records: Records
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the top or bottom assignments of groups: numbers from 1, values, and the position
    of the group.
    """
    most = np.minimum(fold.rows_max, groups.weight)
    which = np.repeat(np.arange(len(most)), most)
    numbers = np.arange(len(which)) - np.repeat(np.cumsum(most) - most, most)
    before, weight = groups.before[which], groups.weight[which]
    ranked = before + (weight - 1 - numbers if fold.op in UPPER else numbers)
    values = records.weigh(ranked)[-2] if len(ranked) else np.empty(0, np.int64)
    return numbers + 1, values, which


def folded(op: str, rows: np.ndarray) -> np.ndarray:
    """Fold assignments by group: rows[C, n] of a group, a value and how often it is added (removed,
    if negative).

    Returns one row per group, in order.
    """
    keys, known = len(rows) - 2, operator(operator_code(op))
    rows = rows.take(sort_order(rows[:keys]), axis=1)
    starts = np.flatnonzero(begins(rows[:keys]))
    made = rows[:, starts]
    values, times = rows[-2].tolist(), rows[-1].tolist()
    for group, (start, end) in enumerate(pairwise([*starts.tolist(), len(values)])):
        value = known.identity
        for i in range(start, end):
            value = known.call(value, _repeated(known, values[i], times[i]))
        made[-2:, group] = value, sum(times[start:end])
    return made


def _repeated(known: Operator, value: int, times: int) -> int:
    """Fold a value `times` times, or its inverse if that is negative; O(log times)."""
    step, folded = value if times > 0 else known.inverse(value), known.identity
    if times in (1, -1):  # the common case
        return step
    for bit in bin(abs(times))[:1:-1]:
        folded = known.call(folded, step) if bit == "1" else folded
        step = known.call(step, step)
    return folded


def edits_of(pages: Pages, state: Tree, op: str, rows: np.ndarray) -> Edits:
    """Return the edits of a state for assignments as in `folded`.  Raises EditError if more are
    removed than exist.
    """
    made, known = folded(op, rows), operator(operator_code(op))
    found, stored = get(pages, state, made[:-2])
    made[-1] += np.where(found, stored[-1], 0)
    for group in np.flatnonzero(found).tolist():
        made[-2, group] = known.call(int(stored[-2, group]), int(made[-2, group]))
    if (made[-1] < 0).any():
        key = tuple(made[:-2, int(np.argmin(made[-1]))].tolist())
        raise EditError(
            f"key {key}: the support would fall below 0; more is taken away than was added"
        )
    actions, there = np.where(made[-1] == 0, ERASE, SET), (made[-1] > 0) | found
    return actions[there], made[:, there]


def view_edits_of(actions: np.ndarray, rows: np.ndarray, bare: bool) -> Edits:
    """Compute edits of a view (s...; x), or (x) if bare, from a delta of (s..., x) in key order."""
    if bare:
        return actions, rows[-1:]
    again = np.append((rows[:-1, 1:] == rows[:-1, :-1]).all(axis=0), False)[: len(actions)]
    kept = ~(again & (actions == ERASE))  # for a changed value, only the SET of the new one
    return np.where(actions == INSERT, SET, ERASE)[kept], rows[:, kept]


def least_of(words: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
    """Return where the least of words[start[i]:stop[i]] is, for each i; no range is empty.
    O((words + ranges) log).

    >>> least_of(np.array([5, 2, 9, 1]), np.array([0, 1, 2]), np.array([3, 4, 3])).tolist()
    [1, 3, 2]
    """
    order = np.argsort(words, kind="stable")
    ranks = np.empty(len(words), np.int64)
    ranks[order] = np.arange(len(words))
    found, levels = np.empty(len(start), np.int64), np.frexp(stop - start)[1] - 1
    # ranks[i] is now the least of 2^level from i on
    for level in range(int(levels.max(initial=-1)) + 1):
        size, mine = 1 << level, levels == level
        found[mine] = np.minimum(ranks[start[mine]], ranks[stop[mine] - size])
        ranks = np.minimum(ranks[:-size], ranks[size:])
    where: np.ndarray = order[found]
    return where
