"""From bindings to rows of a view: turn the bindings of a full evaluation into edits, and edits into rows of a tree.

    bindings of  deg[x] = n <- agg<<n = count()>> edge(x, y).       (1, 2) (1, 3) (4, 1)
    head edits   ADD 1 under the key x, for each binding            1: +1   1: +1   4: +1
    rows         one for each key, in key order                     (1; 2) (4; 1)

Many bindings may make few rows, so `fold_bindings` sums each part of the bindings before it reads the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ivm.engine.installed import Installed
from ivm.errors import RangeError
from ivm.join.evaluate import Bindings
from ivm.join.join import concatenated
from ivm.lang.ir import Predicate
from ivm.lang.types import shown, word_range
from ivm.maintenance.surgery import Delta
from ivm.plan.constants import Encoder
from ivm.views.edit_composition import SumOverflow, sum_by_key
from ivm.views.heads import Head
from ivm.views.layouts import PLAIN, Layout
from ivm.views.states import INVERTED
from pagestore.errors import EditError
from pagestore.host import (
    ADD,
    Edits,
    Pages,
    Spec,
    Tree,
    ascending,
    compose_edits,
    in_order,
    one_batch,
    repeats,
)

if TYPE_CHECKING:
    import pyarrow as pa

PARTS_KEPT = 16  # parts of bindings, of some MiB each; up to this number, none is summed on its own
BATCH_ROWS = 1 << 18  # rows of a sorted view: some MiB a batch, which the system maps by large pages


class Source(Protocol):
    """A snapshot or a transaction, from which rules read."""

    @property
    def pages(self) -> Pages:
        """The pages of the store's file."""

    def tree(self, name: str) -> Tree:
        """Return the tree of a relation, view or index."""

    def decode(self, type_: str, words: np.ndarray) -> pa.Array:
        """Return words of a column as its values."""


def fold_bindings(
    installed: Installed, head: Head, parts: list[Bindings], action: int, encode: Encoder
) -> Iterator[tuple[str, Edits]]:
    """Yield the head edits, by view, of bindings that are all inserted or all erased; empty `parts` on the way.

    If there are many parts, each is summed on its own, as long as that leaves at most half of the rows. Raises
    RangeError.
    """
    many = len(parts) > PARTS_KEPT
    spared = {name: 0 if many and _adds_up(layout) else -1 for name, layout in installed.layouts.items()}
    parts.reverse()
    while parts:
        part = parts.pop()
        for name, (actions, rows) in head.edits(as_delta(part, action), encode, part.times).items():
            if spared[name] >= 0:
                spared[name] += len(actions)
                actions, rows = add_up(actions, rows, head_spec(installed.layouts[name], len(rows)))
                spared[name] -= 2 * len(actions)
            yield name, (actions, rows)


def _adds_up(layout: Layout) -> bool:
    """Return whether edits of a view add to the value of their key."""
    return layout.kind != PLAIN and not (layout.fold and layout.fold.state.kind == INVERTED)


def add_up(actions: np.ndarray, rows: np.ndarray, spec: Spec) -> Edits:
    """Sum the additions of each key; return them unchanged if a sum exceeds 64 bits."""
    try:
        composed = compose_edits(actions, rows, spec)
    except EditError:
        return actions, rows
    return composed[0].copy(), composed[1].copy()


def head_spec(layout: Layout, columns: int) -> Spec:
    """Return the shape of the tree that edits of a view go to, given how many columns the edits have."""
    return layout.fold.state.spec if layout.fold else Spec(0, layout.keys, columns - layout.keys)


def as_delta(part: Bindings, action: int) -> Delta:
    """Return bindings as a delta with one action for all."""
    return Delta(np.broadcast_to(action, part.rows.shape[1]), part.rows)


def compose_rows(source: Source, predicate: Predicate, parts: list[Edits], spec: Spec) -> list[np.ndarray]:
    """Return the rows that inserting edits make in an empty tree, one per key and in key order; O(n log n).

    Rows that are already in order are returned as they are. Raises RangeError for a sum beyond 64 bits.
    """
    rows = [rows for _, rows in parts if rows.shape[1]] or [parts[0][1]]
    if in_order(rows, spec.keys):
        return rows
    if not spec.values:
        return list(ascending(rows, BATCH_ROWS))
    counted = _counted(parts, spec)
    if counted is not None:
        return [counted]
    try:
        return [compose_edits(*one_batch(parts), spec)[1]]
    except EditError:  # a partial sum exceeds 64 bits, but the total may fit
        pass
    try:
        return [sum_by_key(concatenated(rows), spec.keys)]
    except SumOverflow as overflow:
        raise out_of_range(source, predicate, overflow) from None


def _counted(parts: list[Edits], spec: Spec) -> np.ndarray | None:
    """Count edits that each add 1 to a single value, sorting keys as words, not as rows; None for other edits."""
    if spec.values != 1 or not all((rows[-1] == 1).all() and (actions == ADD).all() for actions, rows in parts):
        return None
    found = repeats([rows[:-1] for _, rows in parts])
    return found and np.concatenate([found[0], found[1][None]])


def check_sums(source: Source, predicate: Predicate, *parts: np.ndarray) -> None:
    """Raise RangeError if a sum, in rows[C, n] of a view, is out of the range of its type."""
    assert predicate.value is not None
    least, greatest = word_range(predicate.value)
    keys = len(predicate.keys)
    for rows in parts:
        for i in np.flatnonzero((rows[keys] < least) | (rows[keys] > greatest)).tolist():
            raise out_of_range(source, predicate, SumOverflow(rows[:keys, i], int(rows[keys, i])))


def out_of_range(source: Source, predicate: Predicate, overflow: SumOverflow) -> RangeError:
    """Return the error for a sum that its type cannot hold."""
    assert predicate.value is not None
    words = overflow.key[: len(predicate.keys), None]
    key = [source.decode(t, word)[0].as_py() for t, word in zip(predicate.keys, words, strict=True)]
    group = f"{predicate.name}[{', '.join(map(repr, key))}]"
    total = shown(overflow.total, predicate.value)
    remedy = "make its groups smaller, or use total, which adds floats"
    return RangeError(f"{group}: the sum is {total}, beyond {predicate.value}; {remedy}")
