"""TODO: ivm/engine/head_edits.py."""

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa

from ivm.engine.installed import Installed
from ivm.errors import RangeError
from ivm.join.evaluate import Bindings
from ivm.join.join import joined
from ivm.lang.ir import Predicate
from ivm.lang.types import shown, word_range
from ivm.maintenance.surgery import Delta
from ivm.plan.constants import Encode
from ivm.views.aggregate_state import keeps_state, state_spec
from ivm.views.edit_composition import Beyond, summed
from ivm.views.heads import Head
from ivm.views.layouts import PLAIN, Layout
from pagestore.errors import EditError
from pagestore.host import Edits, Pages, Spec, Tree, ascending, compose_edits, in_order, one_batch

FOLDED = 16  # parts of bindings, of some MiB each, that are kept as they are until they are added up
SORTED = 1 << 18  # rows a batch of a view that is sorted: some MiB, which the system maps by large pages


class Source(Protocol):
    """What rules read from: a snapshot or a transaction."""

    @property
    def pages(self) -> Pages: ...
    def tree(self, name: str) -> Tree: ...
    def decode(self, type_: str, words: np.ndarray) -> pa.Array: ...


def folded(
    installed: Installed, head: Head, parts: list[Bindings], action: int, encode: Encode
) -> Iterator[tuple[str, Edits]]:
    """The head edits of bindings that all come, or all go, of which no part is kept any longer.

    What adds up does so within each of many parts, as long as that has left less than half: many bindings may be of few
    rows.
    """
    many = len(parts) > FOLDED
    spared = {name: 0 if many and layout.kind != PLAIN else -1 for name, layout in installed.layouts.items()}
    parts.reverse()
    while parts:
        part = parts.pop()
        for name, (actions, rows) in head.edits(turned(part, action), encode, part.times).items():
            if spared[name] >= 0:
                spared[name] += len(actions)
                actions, rows = added_up(actions, rows, spec_of(installed.layouts[name], len(rows)))
                spared[name] -= 2 * len(actions)
            yield name, (actions, rows)


def added_up(actions: np.ndarray, rows: np.ndarray, spec: Spec) -> Edits:
    """Additions with those of one key made one; as they are where some of them together leave 64 bits."""
    try:
        netted = compose_edits(actions, rows, spec)
    except EditError:
        return actions, rows
    return netted[0].copy(), netted[1].copy()


def spec_of(layout: Layout, columns: int) -> Spec:
    """The shape of the tree that a view's edits go to, of so many columns."""
    return state_spec(layout, columns) if keeps_state(layout) else Spec(0, layout.keys, columns - layout.keys)


def turned(part: Bindings, action: int) -> Delta:
    """Bindings that all come, or all go."""
    return Delta(np.broadcast_to(action, part.rows.shape[1]), part.rows)


def composed(
    source: Source, predicate: Predicate, parts: list[tuple[np.ndarray, np.ndarray]], spec: Spec
) -> list[np.ndarray]:
    """The rows of inserting edits in key order, those of one key made one; as they are where they are in order.

    Raises RangeError for a sum beyond 64 bits.
    """
    rows = [rows for _, rows in parts if rows.shape[1]] or [parts[0][1]]
    if in_order(rows, spec.keys):
        return rows
    if not spec.values:
        return list(ascending(rows, SORTED))
    try:
        return [compose_edits(*one_batch(parts), spec)[1]]
    except EditError:  # a part of a sum is beyond 64 bits, which the whole need not be
        pass
    try:
        return [summed(joined(rows), spec.keys)]
    except Beyond as beyond:
        raise out_of_range(source, predicate, beyond) from None


def check_sums(source: Source, predicate: Predicate, *parts: np.ndarray) -> None:
    """Raise RangeError for a sum, in rows[C, n] of a view, with more digits than a decimal has."""
    assert predicate.value is not None
    least, greatest = word_range(predicate.value)
    keys = len(predicate.keys)
    for rows in parts:
        for i in np.flatnonzero((rows[keys] < least) | (rows[keys] > greatest)).tolist():
            raise out_of_range(source, predicate, Beyond(rows[:keys, i], int(rows[keys, i])))


def out_of_range(source: Source, predicate: Predicate, beyond: Beyond) -> RangeError:
    """The error of a sum that its type does not hold."""
    assert predicate.value is not None
    words = beyond.key[: len(predicate.keys), None]
    key = [source.decode(t, word)[0].as_py() for t, word in zip(predicate.keys, words, strict=True)]
    group = f"{predicate.name}[{', '.join(map(repr, key))}]"
    total = shown(beyond.total, predicate.value)
    remedy = "make its groups smaller, or use total, which adds floats"
    return RangeError(f"{group}: the sum is {total}, beyond {predicate.value}; {remedy}")
