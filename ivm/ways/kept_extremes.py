"""The least values of groups, where a state keeps a few of them and leaves the others to the
relation.

    least[x] = m <- agg<<m = min(v)>> cost(_, x, v).        x = 7 has the values 3 5 5 8 9 9 12; two are kept here

    state                  (7, 3; 1) (7, 5; 2) (7, 6; MORE)
    + 4   - 9   + 8        (7, 3; 1) (7, 4; 1) (7, 5; 2) (7, 6; MORE)

A record is a group, a value, and how many rows have it.  The last record of a group may be its
mark, with MORE instead of that number: values from the mark's on are in the relation only, and
edits of them are left out.  Once the mark is the only record of a group, the group has run out, and
is filled again from the relation.  For a max, complements of values are kept, of which the least is
wanted as well.
"""

import numpy as np

from ivm.join.groups import DENSE, Known, Lookup, as_rows, groups_of
from ivm.memory import MemoryUse
from ivm.plan.key_ranges import after_prefix
from ivm.views.layouts import MORE
from ivm.ways.states import fold_groups
from pagestore.host import (
    COUNT,
    ERASE,
    INSERT,
    WORD_MAX,
    Edits,
    Pages,
    Tree,
    begins,
    distinct,
    first_from,
    ranks,
    read_batches,
    select,
    sort_order,
)

KEPT = 128  # different values of a group
FEW = 1 << 15  # of so few rows all are kept; and so many at least are sorted together


class Ends:
    """The least values of each group, of edits that come in parts.

    Columns of edits are those of the group, the value, and how many rows with it are added.
    """

    def __init__(self) -> None:
        self._rows: np.ndarray | None = None
        self._parts = list[list[np.ndarray]]()
        self._waiting = 0
        self.pays = True  # whether enough values are left out; if not, none is
        self._memory = MemoryUse(step="sorting rows").begin()

    def add(self, columns: list[np.ndarray], known: Known) -> None:
        """Add edits as columns int64[n], given the groups of them that are `known` already.

        O(n), and O(m log m) for the m edits that may be among the least.
        """
        if self._rows is not None and len(columns[0]) and (self._rows[-1] >= MORE).any():
            which = np.flatnonzero(columns[-2] <= self._most(columns[:-2], known))
            columns = [column.take(which) for column in columns]
        self._parts.append(columns)
        self._waiting += len(columns[0])
        if self._waiting >= max(FEW, 0 if self._rows is None else self._rows.shape[1]):
            self._merge()

    def least(self) -> np.ndarray:
        """Return the records int64[C, n] that are kept, sorted, with marks."""
        self._merge()
        assert self._rows is not None
        return self._rows

    def taken(self) -> np.ndarray:
        """Return what `least` does; fewer than FEW edits as they are, without marks."""
        if self._rows is not None or self._waiting >= FEW:
            return self.least()
        kept: list[np.ndarray] = [] if self._rows is None else [self._rows]
        return np.concatenate([*kept, *map(as_rows, self._parts)], axis=1)

    def _most(self, keys: list[np.ndarray], known: Known) -> np.ndarray:
        """Return for each row the greatest value that may be kept of its group."""
        assert self._rows is not None
        marks = self._rows.compress(self._rows[-1] >= MORE, axis=1)
        groups = groups_of(keys, known)
        if groups.box.size > DENSE:
            return _before_marks(marks, keys)
        codes, inside = groups.box.codes(marks[:-2]), groups.box.holds(marks[:-2])
        most = np.full(groups.box.size, WORD_MAX)
        most[codes[inside]] = marks[-2, inside] - 1
        extremes: np.ndarray = most.take(groups.codes)
        return extremes

    def _merge(self) -> None:
        parts = [*map(as_rows, self._parts)]
        rows = added_up(
            np.concatenate(parts if self._rows is None else [self._rows, *parts], axis=1)
        )
        kept = least_of(rows)
        if self._rows is None:
            self.pays = 2 * kept.shape[1] < rows.shape[1] or rows.shape[1] < FEW
        self._rows, self._parts, self._waiting = kept if self.pays else rows, [], 0
        self._memory.hold(self._rows.shape[1], self._rows.nbytes)


def added_up(rows: np.ndarray) -> np.ndarray:
    """Add up the edits rows[C, n] of each key, in key order."""
    rows = rows.take(sort_order(rows[:-1]), axis=1)
    starts = np.flatnonzero(begins(rows[:-1]))
    return np.concatenate([rows[:-1, starts], np.add.reduceat(rows[-1:], starts, axis=1)])


def least_of(rows: np.ndarray) -> np.ndarray:
    """Return the first KEPT of each group's sorted records rows[C, n], and a mark for each group
    that has more.
    """
    first = np.flatnonzero(begins(rows[:-2]))
    place = np.arange(rows.shape[1]) - np.repeat(first, np.diff(first, append=rows.shape[1]))
    rows, place = rows.compress(place <= KEPT, axis=1), place[place <= KEPT]
    marks = np.flatnonzero(place == KEPT)
    rows[-2, marks], rows[-1, marks] = rows[-2, marks - 1] + 1, MORE
    return rows


def before_marks(pages: Pages, state: Tree, actions: np.ndarray, rows: np.ndarray) -> Edits:
    """Return a state's edits whose values are below their group's mark. O(n log records)."""
    keys = distinct(rows[:-2])
    start, count = ranks(pages, state, keys), fold_groups(pages, state, ((COUNT, 0),), keys)[0]
    last = select(pages, state, (start + count - 1).compress(count > 0))
    marks = last.compress(last[-1] >= MORE, axis=1)
    if not marks.shape[1]:
        return actions, rows
    kept = rows[-2] <= _before_marks(marks, [*rows[:-2]])
    return actions.compress(kept), rows.compress(kept, axis=1)


def run_out(pages: Pages, state: Tree, keys: np.ndarray) -> np.ndarray:
    """Return those of the groups keys[K, n] whose first record is a mark.  O(n log records)."""
    found, records = first_from(pages, state, keys)
    gone = found & (records[-1] >= MORE) & (records[: len(keys)] == keys).all(axis=0)
    return keys.compress(gone, axis=1)


def renewed(pages: Pages, state: Tree, keys: np.ndarray, rows: np.ndarray) -> Edits:
    """Return the edits that replace all records of groups keys[K, n] by records rows[C, m]."""
    old = [
        batch
        for key in keys.T.tolist()
        for batch in read_batches(pages, state, (*key,), after_prefix(key))
    ]
    gone = np.concatenate([*old, rows[:, :0]], axis=1)
    return np.repeat([ERASE, INSERT], [gone.shape[1], rows.shape[1]]), np.concatenate(
        [gone, rows], axis=1
    )


def exact(rows: np.ndarray, *others: np.ndarray) -> np.ndarray:
    """Return the records rows[C, n] of a state that lie below the marks of their groups, in this
    state or in others.
    """
    marks = np.concatenate(
        [side.compress(side[-1] >= MORE, axis=1) for side in (rows, *others)], axis=1
    )
    marks = marks.take(sort_order(marks[:-1]), axis=1)
    marks = marks.compress(begins(marks[:-2]), axis=1)
    return rows.compress(rows[-2] <= _before_marks(marks, [*rows[:-2]]), axis=1)


def _before_marks(marks: np.ndarray, keys: list[np.ndarray]) -> np.ndarray:
    """Return for each of n rows the greatest value below the mark of its group; WORD_MAX if the
    group has none.

    `keys` are the columns int64[n] of the rows' groups.
    """
    lookup = Lookup(marks[:-2])
    matches = lookup.find(keys)
    most = np.append(marks[-2].take(lookup.order) - 1, WORD_MAX)
    extremes: np.ndarray = most.take(np.where(matches.times > 0, matches.start, len(most) - 1))
    return extremes
