"""Compose a transaction's edits, in order, to one edit per key.

    +f[1] = 2.  -f[1].  +f[1] = 3.        becomes        ^f[1] = 3.

In a relation the last edit of a row wins. In a function each edit starts from the value that
earlier edits left: a second value that is neither set nor preceded by a deletion is a conflict,
unless a later edit removes it. TAKE deletes a function's key only if it has the given value.

Partial sums may exceed 64 bits even if the sum fits: `sum_by_key` adds exactly.
"""

from collections.abc import Iterator

import numpy as np

from ivm.join.kernels.tries import HALF
from pagestore.errors import EditError
from pagestore.host import (
    ADD,
    ERASE,
    FEW,
    INSERT,
    SET,
    Edits,
    Pages,
    Spec,
    Tree,
    begins,
    compose_edits,
    distinct,
    first_from,
    get,
    in_order,
    repeats,
    sort_order,
)

TAKE = 4  # an action in addition to pagestore's; `compose` replaces it by these


class Clash(Exception):
    """An inserted row's key already has other values (both in words)."""

    def __init__(self, row: np.ndarray, other: np.ndarray):
        super().__init__(row, other)
        self.row, self.other = row, other


class SumOverflow(Exception):
    """The sum of a key (words) does not fit 64 bits."""

    def __init__(self, key: np.ndarray, total: int):
        super().__init__(key, total)
        self.key, self.total = key, total


def compose(
    pages: Pages, tree: Tree, actions: np.ndarray, rows: np.ndarray, threads: int = 1
) -> Edits:
    """Return one edit per key, sorted, for the tree of a relation.  Raises Clash. O(n log n)."""
    if not tree.spec.values:
        return compose_edits(actions, rows, tree.spec)
    keys = tree.spec.keys
    if len(actions) > FEW and _only_append(pages, tree, actions, rows):
        return actions, rows
    order = sort_order(rows[:keys])
    actions, rows = actions[order], rows.take(order, axis=1)
    starts = np.flatnonzero(begins(rows[:keys]))
    found, stored = get(pages, tree, rows[:keys, starts], threads)
    sizes = np.diff(np.append(starts, len(order)))
    composed, final = actions[starts], rows[:, starts]
    _check_single(composed, final, found, stored, sizes == 1, keys)
    for group in np.flatnonzero((sizes > 1) | (composed == TAKE)):
        part = slice(starts[group], starts[group] + sizes[group])
        value = tuple(stored[:, group].tolist()) if found[group] else None
        value = _value_after(actions[part].tolist(), rows[:, part], keys, value)
        composed[group] = ERASE if value is None else SET
        final[keys:, group] = 0 if value is None else value
    return composed, final


def _only_append(pages: Pages, tree: Tree, actions: np.ndarray, rows: np.ndarray) -> bool:
    """Return whether rows are given in key order, each key once and after the tree's last. O(n)."""
    keys = rows[: tree.spec.keys]
    return (
        in_order([rows], len(keys))
        and not (actions == TAKE).any()
        and not first_from(pages, tree, keys[:, :1])[0]
    )


def compose_bag(pages: Pages, tree: Tree, actions: np.ndarray, rows: np.ndarray) -> Edits:
    """Return one edit per row of a bag, sorted, given edits of rows (..., n).  O(n log n).

    INSERT adds n equal rows and TAKE removes n of them, if there are so many; SET leaves n, and
    ERASE none.
    """
    order = sort_order(rows[:-1])
    actions, rows = actions[order], rows.take(order, axis=1)
    starts = np.flatnonzero(begins(rows[:-1]))
    found, stored = get(pages, tree, rows[:-1, starts])
    times = np.where(found, stored[0], 0)
    if (actions == INSERT).all():
        times += np.add.reduceat(rows[-1], starts) if len(starts) else 0
    else:
        ends = np.append(starts[1:], len(actions))
        for group, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            left = int(times[group])
            for action, n in zip(
                actions[start:end].tolist(), rows[-1, start:end].tolist(), strict=True
            ):
                left = max(0, {INSERT: left + n, TAKE: left - n, SET: n, ERASE: 0}[action])
            times[group] = left
    final = rows[:, starts]
    final[-1] = times
    return np.where(times > 0, SET, ERASE), final


def _check_single(
    actions: np.ndarray,
    rows: np.ndarray,
    found: np.ndarray,
    stored: np.ndarray,
    single: np.ndarray,
    keys: int,
) -> None:
    """Raise Clash if the only edit (`single`) of a key inserts a value, but another is stored."""
    differs = (stored != rows[keys:]).any(axis=0)
    clashes = np.flatnonzero(single & found & (actions == INSERT) & differs)
    if len(clashes):
        raise Clash(rows[:, clashes[0]], stored[:, clashes[0]])


def _value_after(
    actions: list[int], rows: np.ndarray, keys: int, value: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    """Return the value of one key after its edits, given its value before; None is not a value.
    Raises Clash.
    """
    clash = None
    for number, action in enumerate(actions):
        given = tuple(rows[keys:, number].tolist())
        if action == INSERT:
            if value is not None and value != given:
                clash = rows[:, number], np.array(value)
            else:
                value = given
        elif action == SET:
            value, clash = given, None
        elif action == ERASE or value == given:
            value, clash = None, None
    if clash is not None:
        raise Clash(*clash)
    return value


def sum_by_key(rows: np.ndarray, keys: int) -> np.ndarray:
    """Add up the value columns of rows[C, n] for each key, in key order.  Raises SumOverflow.  O(n
    log n).

    The halves of words are added separately, so 64 bits hold the sums of 2^31 rows.

    >>> sum_by_key(np.array([[7, 3, 7, 7], [2**62, 1, 2**62, -(2**62)]]), 1).tolist() == [[3, 7], [1, 2**62]]
    True
    """
    rows = rows.take(sort_order(rows[:keys]), axis=1)
    starts = np.flatnonzero(begins(rows[:keys]))
    low = np.add.reduceat(rows[keys:] & HALF, starts, axis=1)
    high = np.add.reduceat(rows[keys:] >> 32, starts, axis=1) + (low >> 32)
    low &= HALF
    for column, group in np.argwhere(high != high.astype(np.int32)).tolist():
        raise SumOverflow(
            rows[:keys, starts[group]], (int(high[column, group]) << 32) + int(low[column, group])
        )
    return np.concatenate([rows[:keys, starts], (high << 32) + low])


def edits_to_sums(pages: Pages, tree: Tree, rows: np.ndarray) -> Edits:
    """Return one edit per key that adds rows[C, n] exactly to a tree of sums.  Raises
    SumOverflow.  O(n log n).
    """
    keys = tree.spec.keys
    groups = distinct(rows[:keys])
    found, stored = get(pages, tree, groups)
    before = np.concatenate([groups, stored]).compress(found, axis=1)
    after = sum_by_key(np.concatenate([before, rows], axis=1), keys)
    return np.where(after[-1] == 0, ERASE, SET), after  # the last column is the support


def add_up(actions: np.ndarray, rows: np.ndarray, spec: Spec) -> Edits:
    """Sum the additions of each key; return them unchanged if a sum exceeds 64 bits."""
    try:
        composed = compose_edits(actions, rows, spec)
    except EditError:
        return actions, rows
    return composed[0].copy(), composed[1].copy()


def counted(parts: list[Edits], spec: Spec, batch: int) -> Iterator[np.ndarray] | None:
    """Count edits that each add 1 to a single value, sorting keys as words, not as rows; None for
    other edits.

    Yields batches of keys and how often each occurs, in order.
    """
    if spec.values != 1 or not all(
        (rows[-1] == 1).all() and (actions == ADD).all() for actions, rows in parts
    ):
        return None
    return repeats([rows[:-1] for _, rows in parts], batch)
