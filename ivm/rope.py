"""The texts of concats for readers of a store: of one group, of all rows, and of rows that change.

How a text is read from the state of the aggregate is in ways/rope.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from re import search
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ivm.engine.engine import Engine
from ivm.errors import IvmError, UnknownViewError
from ivm.lang.ir import ROPE
from ivm.names import is_made
from ivm.rules.installed import PROPERTY, Installed
from ivm.rules.stored import load, saved_rules
from ivm.views.delta import Delta
from ivm.views.layouts import Fold
from ivm.ways.rope import ConcatRope, texts_of
from ivm.wide import changed_in
from pagestore.host import (
    INSERT,
    Column,
    Computed,
    Pages,
    Snapshot,
    TextFinder,
    Transaction,
    Tree,
    Type,
    encode,
    of_numbers,
)

if TYPE_CHECKING:
    import pyarrow as pa


def rope_of(
    source: Snapshot | Transaction, installed: Installed, name: str, key: tuple[Any, ...]
) -> ConcatRope:
    """Return the rope of a concat's group.  Raises UnknownViewError for another view, KeyError
    if there is no group.
    """
    predicate = installed.predicate(name, source)
    fold = installed.layouts[name].fold
    if predicate.value != ROPE or not fold:
        raise UnknownViewError(f"{name} is not a concat, so it has no rope")
    if len(key) != len(predicate.keys):
        raise KeyError(f"{name} has {len(predicate.keys)} keys, and {key!r} has {len(key)}")
    texts = TextFinder(source.dictionary)
    types = [
        Type.parse(t)._replace(nullable=value is None)
        for t, value in zip(predicate.keys, key, strict=True)
    ]
    words = tuple(
        int(encode(Column("key", t), [v], texts)[0]) for t, v in zip(types, key, strict=True)
    ) or (0,)
    rope = ConcatRope(source, name, fold, words)
    if next(rope._ids(), None) is None:
        raise KeyError(key)
    return rope


def concats_of(source: Snapshot | Transaction) -> Mapping[str, Fold]:
    """Return the concats among the views of a version."""
    saved = saved_rules(source)
    if saved is None:
        return {}
    concats = _known.get(saved)
    if concats is None:
        if len(_known) >= KNOWN_MAX:
            _known.clear()
        concats = _known[saved] = _concats(saved, source) if search(r"concat\s*\(", saved) else {}
    return concats


_known: dict[str, dict[str, Fold]] = {}  # a cache by the saved rules


def _concats(saved: str, source: Snapshot | Transaction) -> dict[str, Fold]:
    installed = Installed()
    with suppress(IvmError):  # rules that no longer compile have no known views
        installed = load(source, saved)
    named = {n: layout.fold for n, layout in installed.layouts.items() if not is_made(n)}
    return {n: fold for n, fold in named.items() if fold and fold.op == "concat"}


KNOWN_MAX = 16


def computed_text(source: Snapshot | Transaction, name: str) -> Computed | None:
    """Return the computed column of a concat's texts, for pagestore; None for another relation."""
    fold = concats_of(source).get(name)
    if fold is None:
        return None
    place = source[name].info.spec.keys if fold.grouped else 0
    return Computed(place, Type.parse("string"), partial(texts_of, name=name, fold=fold))


# -- the texts of changes


class Before(NamedTuple):
    """The version that a transaction starts from, with the interface that ropes read."""

    txn: Transaction

    @property
    def pages(self) -> Pages:
        """The page map, which still has the pages of that version."""
        return self.txn.pages

    @property
    def dictionary(self) -> Any:
        """All texts."""
        return self.txn.dictionary

    def tree(self, name: str) -> Tree:
        """Return the tree of a relation."""
        return self.txn.base.trees[self.txn.base.catalog.relations[name].spec.tree_id]

    def decode(self, type_: str, words: np.ndarray) -> pa.Array:
        """Return the Arrow array of words int64[n]."""
        return self.txn.decode(type_, words)


def note_erased(
    engine: Engine, names: Iterable[str], other_changes: Mapping[str, Delta] = {}
) -> None:
    """Read, before the commit, the texts of rows erased from watched concats, and the changes of
    watched wide views.

    `other_changes` as for `Maintainer.committed`.
    """
    predicates = engine.installed.program.predicates
    for name in names:
        if name in predicates and predicates[name].value == ROPE:
            change = other_changes.get(name) or engine.change_of(name)
            fold = _concats_before(engine.txn).get(name) if change else None
            if change and fold:
                rows = change.rows[:, change.actions != INSERT]
                engine.erased[name] = texts_of(Before(engine.txn), rows, name, fold)
        elif name not in predicates and (changed := changed_in(engine.txn, name)):
            engine.erased[name] = changed


def _concats_before(txn: Transaction) -> Mapping[str, Fold]:
    saved = txn.base.catalog.properties.get(PROPERTY)
    return _concats(str(saved), txn) if saved else {}


def texts_of_changes(snap: Snapshot, engine: Engine, name: str, change: Delta) -> pa.Array:
    """Return the texts of a concat's erased and inserted rows; `snap` is of the new version."""
    import pyarrow as pa

    inserted = change.actions == INSERT
    gone = engine.erased.get(name, pa.nulls(int(np.count_nonzero(~inserted)), pa.string()))
    fold = engine.installed.layouts[name].fold
    assert fold
    parts = [gone, texts_of(snap, change.rows[:, inserted], name, fold)]
    order = np.argsort(np.argsort(inserted, kind="stable"))
    return pa.concat_arrays(parts).take(of_numbers(pa.int64(), order))
