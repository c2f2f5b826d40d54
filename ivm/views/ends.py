"""The least values of groups, where a state keeps a few of them and leaves the others to the relation.

    least[x] = m <- agg<<m = min(v)>> cost(_, x, v).        values of 7, two of which are kept: 3 5 5 8 9 9 12

    state                  (7, 3; 1) (7, 5; 2) (7, 6; MORE)
    + 4   - 9   + 8        (7, 3; 1) (7, 4; 1) (7, 5; 2) (7, 6; MORE)

The last record of a group, with a support of MORE, is its mark: values from there on are in the relation only, and
edits of them are left out.  Once the mark is the only record, the group has run out, and is filled again.  A max keeps
complements, so its greatest values are the least words.
"""

import numpy as np

from ivm.join.groups import DENSE, Known, Lookup, as_rows, groups_of
from ivm.join.join import MemoryUse
from ivm.plan.scan import after_prefix
from ivm.views.aggregates import fold_groups
from ivm.views.layouts import MORE
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
FEW = 1 << 15  # rows of which all are kept, and rows that are sorted together


class Ends:
    """Keeps the least values of each group of some edits that add, whose columns are a group's, the value's and +1."""

    def __init__(self) -> None:
        self._rows: np.ndarray | None = None
        self._parts = list[list[np.ndarray]]()
        self._waiting = 0
        self.pays = True  # otherwise nothing is left out
        self._memory = MemoryUse(step="sorting rows").begin()

    def add(self, columns: list[np.ndarray], known: Known) -> None:
        """Add edits; `known` are groups of their rows.  O(n), and sorting those that may be among the least."""
        if self._rows is not None and len(columns[0]) and (self._rows[-1] >= MORE).any():
            which = np.flatnonzero(columns[-2] <= self._most(columns[:-2], known))
            columns = [column.take(which) for column in columns]
        self._parts.append(columns)
        self._waiting += len(columns[0])
        if self._waiting >= max(FEW, 0 if self._rows is None else self._rows.shape[1]):
            self._merge()

    def least(self) -> np.ndarray:
        """Return the rows int64[C, n] that are kept, sorted, with marks."""
        self._merge()
        assert self._rows is not None
        return self._rows

    def taken(self) -> np.ndarray:
        """Return the rows that are kept, with marks, if there are many; few are returned as they are."""
        if self._rows is not None or self._waiting >= FEW:
            return self.least()
        kept: list[np.ndarray] = [] if self._rows is None else [self._rows]
        return np.concatenate([*kept, *map(as_rows, self._parts)], axis=1)

    def _most(self, keys: list[np.ndarray], known: Known) -> np.ndarray:
        """Return the greatest value that is kept of each row's group."""
        assert self._rows is not None
        marks = self._rows.compress(self._rows[-1] >= MORE, axis=1)
        groups = groups_of(keys, known)
        if groups.size > DENSE:
            return _before_marks(marks, keys)
        codes, inside = groups.codes_of(marks[:-2])
        most = np.full(groups.size, WORD_MAX)
        most[codes[inside]] = marks[-2, inside] - 1
        found: np.ndarray = most.take(groups.codes)
        return found

    def _merge(self) -> None:
        parts = [*map(as_rows, self._parts)]
        rows = added_up(np.concatenate(parts if self._rows is None else [self._rows, *parts], axis=1))
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
    """Return KEPT of the sorted records rows[C, n] of each group, and its mark if it has more."""
    first = np.flatnonzero(begins(rows[:-2]))
    place = np.arange(rows.shape[1]) - np.repeat(first, np.diff(first, append=rows.shape[1]))
    rows, place = rows.compress(place <= KEPT, axis=1), place[place <= KEPT]
    marks = np.flatnonzero(place == KEPT)
    rows[-2, marks], rows[-1, marks] = rows[-2, marks - 1] + 1, MORE
    return rows


def before_marks(pages: Pages, state: Tree, actions: np.ndarray, rows: np.ndarray) -> Edits:
    """Return those edits of a state whose values are before the mark of their group."""
    keys = distinct(rows[:-2])
    start, count = ranks(pages, state, keys), fold_groups(pages, state, ((COUNT, 0),), keys)[0]
    last = select(pages, state, (start + count - 1).compress(count > 0))
    marks = last.compress(last[-1] >= MORE, axis=1)
    if not marks.shape[1]:
        return actions, rows
    kept = rows[-2] <= _before_marks(marks, [*rows[:-2]])
    return actions.compress(kept), rows.compress(kept, axis=1)


def run_out(pages: Pages, state: Tree, keys: np.ndarray) -> np.ndarray:
    """Return those of the groups keys[K, n] whose first record is a mark."""
    found, records = first_from(pages, state, keys)
    gone = found & (records[-1] >= MORE) & (records[: len(keys)] == keys).all(axis=0)
    return keys.compress(gone, axis=1)


def renewed(pages: Pages, state: Tree, keys: np.ndarray, rows: np.ndarray) -> Edits:
    """Return the edits that give the groups keys[K, n] the records rows[C, m] instead of those that they have."""
    old = [batch for key in keys.T.tolist() for batch in read_batches(pages, state, (*key,), after_prefix(key))]
    gone = np.concatenate([*old, rows[:, :0]], axis=1)
    return np.repeat([ERASE, INSERT], [gone.shape[1], rows.shape[1]]), np.concatenate([gone, rows], axis=1)


def exact(rows: np.ndarray, *others: np.ndarray) -> np.ndarray:
    """Return the records of a state before the marks that their groups have in it or in others."""
    marks = np.concatenate([one.compress(one[-1] >= MORE, axis=1) for one in (rows, *others)], axis=1)
    marks = marks.take(sort_order(marks[:-1]), axis=1)
    marks = marks.compress(begins(marks[:-2]), axis=1)
    return rows.compress(rows[-2] <= _before_marks(marks, [*rows[:-2]]), axis=1)


def _before_marks(marks: np.ndarray, keys: list[np.ndarray]) -> np.ndarray:
    """Return the greatest value below the mark of each group, K columns int64[n]; WORD_MAX for groups without one."""
    lookup = Lookup(marks[:-2])
    matches = lookup.find(keys)
    most = np.append(marks[-2].take(lookup.order) - 1, WORD_MAX)
    found: np.ndarray = most.take(np.where(matches.times > 0, matches.start, len(most) - 1))
    return found
