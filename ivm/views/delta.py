"""Tree surgery: a relation's delta as insertions and removals of trie branches, by depth.

version 1: (3,40,90) (3,50,91) (3,50,92)        delta: ERASE 3,40,90  ERASE 3,50,92  INSERT 4,60,71
version 2: (3,50,91) (4,60,71)

depth 1: INSERT 4        depth 2: ERASE 3-40, INSERT 4-60        depth 3: the delta itself

Sensitivity indices: store trace rows, and return those that a surgery matches (*Sensitivity
indices*).

A row (alpha..., a, b, gamma...) says that an iterator operation was sensitive to the interval [a,
b] of an atom's argument; alpha are the arguments before it, gamma the variables bound before that
the atom lacks. An index is an interval tree of these rows.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ivm.plan.plan import Index, Sensor
from pagestore.host import (
    ERASE,
    INSERT,
    SET,
    WORD_MAX,
    Pages,
    Spec,
    Tree,
    begins,
    compose_edits,
    count_prefixes,
    distinct,
    interval_spec,
    read_batches,
    stab_many,
)

BATCH = 1 << 16  # records compared at a time


class Delta(NamedTuple):
    """Changes of a tree: actions int64[n] (INSERT or ERASE) and rows int64[C, n], in key order.

    A changed value is an erased row followed by an inserted row with the same key.
    """

    actions: np.ndarray
    rows: np.ndarray

    def __bool__(self) -> bool:
        return len(self.actions) > 0

    def where(self, keep: np.ndarray) -> "Delta":
        """Return the changes for which keep[n] holds; `compress` takes a fifth of the time that
        rows[:, keep] takes.
        """
        return Delta(self.actions[keep], self.rows.compress(keep, axis=1))


class Transition(NamedTuple):
    """The trees of indices before a change and after it, and the deltas of those that it changes."""

    old: Mapping[Index, Tree]
    new: Mapping[Index, Tree]
    deltas: Mapping[Index, Delta]


def surgeries(pages: Pages, delta: Delta, old: Tree, new: Tree, depth: int) -> Delta:
    """Return the branches that a delta removes (ERASE) and inserts (INSERT) at a depth (1 is the
    first), in order.

    At the depth of a whole key these are the keys of the delta; a function's changed value erases
    and inserts its key. O(delta * log n).
    """
    if depth >= new.spec.keys:
        return Delta(delta.actions, delta.rows[:depth])
    branches = distinct(delta.rows[:depth])
    before, after = count_prefixes(pages, old, branches), count_prefixes(pages, new, branches)
    changed = before != after
    return Delta(np.where(before > after, ERASE, INSERT), branches).where(changed)


def net_changes(actions: np.ndarray, rows: np.ndarray, keys: int = WORD_MAX) -> Delta:
    """Return the net changes of edits of rows[C, n]: a row that is both erased and inserted is not
    a change.

    The edits may be in any order, and rows may repeat: rows that differ only in columns left out
    are one row here. The result is in the order of the first `keys` columns; of equal keys, erased
    rows come first. O(n log n).
    """
    if (actions[1:] > actions[:-1]).any():  # ERASE is 1, INSERT is 0
        erased_first = np.argsort(-actions, kind="stable")
        actions, rows = actions[erased_first], rows.take(erased_first, axis=1)
    netted = Delta(*compose_edits(actions, rows, Spec(0, len(rows), 0)))
    changed = netted.actions != SET
    netted = netted if changed.all() else netted.where(changed)
    if keys >= len(rows):
        return netted
    order = np.lexsort((-netted.actions, np.cumsum(begins(netted.rows[:keys]))))
    return Delta(netted.actions[order], netted.rows.take(order, axis=1))


def insertions(pages: Pages, tree: Tree, visible: int) -> Delta:
    """Return how a tree, in the first `visible` words of its records, differs from an empty one.
    O(records).
    """
    rows = np.empty((visible, tree.count), np.int64)
    at = 0
    for batch in read_batches(pages, tree, columns=tuple(range(visible))):
        rows[:, at : at + batch.shape[1]] = batch
        at += batch.shape[1]
    return Delta(np.full(at, INSERT), rows)


def visible_difference(pages: Pages, old: Tree, new: Tree, visible: int) -> Delta:
    """Return how two trees that share no pages differ in the first `visible` words of their
    records.  O(records).
    """
    columns = tuple(range(visible))
    if old.count == new.count:
        both = zip(
            *(read_batches(pages, tree, columns=columns, rows=BATCH) for tree in (old, new)),
            strict=True,
        )
        if all(np.array_equal(*batches) for batches in both):
            return Delta(np.empty(0, np.int64), np.empty((visible, 0), np.int64))
    sides = (ERASE, old), (INSERT, new)
    parts = [
        (action, rows)
        for action, tree in sides
        for rows in read_batches(pages, tree, columns=columns)
    ]
    actions = np.concatenate(
        [np.empty(0, np.int64), *(np.full(rows.shape[1], action) for action, rows in parts)]
    )
    rows = np.concatenate([np.empty((visible, 0), np.int64), *(rows for _, rows in parts)], axis=1)
    return net_changes(actions, rows, new.spec.keys)


def index_spec(sensor: Sensor) -> Spec:
    """Return the Spec of a sensor's index; the store assigns the tree id."""
    return interval_spec(0, sensor.depth, len(sensor.columns) - sensor.depth - 2)


def matches(pages: Pages, index: Tree, surgeries: np.ndarray) -> np.ndarray:
    """Return the rows int64[C, m] whose alpha and interval hold one of surgeries[depth, n].
    O((n + m) log size).
    """
    return stab_many(pages, index, surgeries)


def regions(sensor: Sensor, rows: np.ndarray) -> np.ndarray:
    """Matched rows as regions of the oracle, int64[level + 2, m]: prefix by level, then [a, b]."""
    return rows[region_columns(sensor)]


def region_columns(sensor: Sensor) -> list[int]:
    """Return the columns of a sensor's index that make a region: those of the levels before, and
    of the interval.
    """
    return [*map(sensor.columns.index, (*range(sensor.level), -1, -2))]


def renewal(
    index: Tree, matched: np.ndarray, recorded: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return one batch of edits that erases the matched rows and inserts the recorded ones.

    A row that is in both is not edited, so only pages where the trace changed are rewritten.
    """
    actions = np.repeat([ERASE, INSERT], [matched.shape[1], recorded.shape[1]])
    return compose_edits(actions, np.concatenate([matched, recorded], axis=1), index.spec)
