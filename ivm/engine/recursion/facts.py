"""The facts of a recursive stratum: its rows, and the order in which they are derived from one another.

    reach(x, y)     (1, 2; rank 1)  (1, 3; rank 2)          the cost of a row is 0
    dist[x] = d     (2; d = 7, rank 1)                      the cost of a value is the value; for max, ~value
    name[x] = s     (2; s = "bee", rank 1)                  the cost of a text is its key in the order of texts

The *order* of a fact is (cost, rank). The invariant: each fact has a derivation from facts of its stratum that all come
before it in this order. A fact that has lost its last such derivation is *suspended*, its rank being SUSPENDED, until
it is known whether it has any other derivation.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ivm.engine.installed import Installed, InstalledStratum
from ivm.lang.recursion import adds_only
from ivm.lang.types import TEXTS
from ivm.plan.constants import Encoder
from ivm.plan.index import Index, tree_name
from pagestore.host import ERASE, INSERT, SET, WORD_MAX, Transaction, Tree, begins, bulk, get, read_batches, sort_order

SUSPENDED = WORD_MAX
BATCH = 1 << 12


class Order(NamedTuple):
    """The orders of n facts, and whether each exists: found bool[n], cost int64[n], rank int64[n]."""

    found: np.ndarray
    cost: np.ndarray
    rank: np.ndarray

    @property
    def stands(self) -> np.ndarray:
        """Which facts exist and are not suspended, bool[n]."""
        stands: np.ndarray = self.found & (self.rank != SUSPENDED)
        return stands

    def before(self, cost: np.ndarray | int, rank: np.ndarray | int) -> np.ndarray:
        """Return which of the orders come before the given ones, bool[n]."""
        before: np.ndarray = (self.cost < cost) | ((self.cost == cost) & (self.rank < rank))
        return before


class Proposal(NamedTuple):
    """Derived facts: keys int64[K, n], and the order that each would have."""

    keys: np.ndarray
    cost: np.ndarray
    rank: np.ndarray

    def best(self) -> "Proposal":
        """Return the proposal that is first in order for each key, in key order."""
        table = np.concatenate([self.keys, self.cost[None], self.rank[None]])
        table = table.take(sort_order(table), axis=1)
        table = table[:, begins(table[:-2])]
        return Proposal(table[:-2], table[-2], table[-1])

    def only(self, which: np.ndarray) -> "Proposal":
        """Return the proposals that a mask bool[n], or indices, select."""
        return Proposal(self.keys[:, which], self.cost[which], self.rank[which])


class Facts:
    """The facts of a stratum in a transaction. The costs of views in `texts` are keys in the order of texts."""

    def __init__(
        self, txn: Transaction, installed: Installed, stratum: InstalledStratum, encode: Encoder, threads: int = 1
    ) -> None:
        self._txn, self._encode, self._threads = txn, encode, threads
        self.stored = {name: installed.stored[name] for name in sorted(stratum.recursive)}
        # While views are filled, the indices that only later rules read do not exist yet.
        self._there = {name: [t for t, n in enumerate(one.names) if n in txn] for name, one in self.stored.items()}
        aggregates = {r.definition.heads[0].predicate: r.definition.aggregate for r in stratum.rules}
        self._falling = {name: bool(found and found.op == "max") for name, found in aggregates.items()}
        types = {name: installed.program.predicates[name].types for name in self.stored}
        self.texts = {name for name in self.stored if self.folds(name) and types[name][-1] in TEXTS}
        self._types = types
        self.floats = any(self.folds(name) and types[name][-1] == "float64" for name in self.stored)
        self._rules = [rule.definition for rule in stratum.rules]

    @cached_property
    def adds_only(self) -> bool:
        """Whether rules derive values only by additions."""
        return all(adds_only(rule, self.stored) for rule in self._rules)

    def shown(self, name: str, key: tuple[int, ...]) -> str:
        """Return an existing fact of an aggregated view as text."""
        words = np.array([key]).T
        values = self.values(name, self.orders(name, words).cost)[None]
        pairs = zip(self._types[name], np.concatenate([words, values]), strict=True)
        *args, last = [repr(self._txn.decode(type_, word)[0].as_py()) for type_, word in pairs]
        return f"{name}[{', '.join(args)}] = {last}"

    @property
    def trees(self) -> dict[Index, Tree]:
        """The current trees of the stratum's indices."""
        txn = self._txn
        kept = (index for one in self.stored.values() for index in one.indices)
        return {index: txn.tree(tree_name(index)) for index in kept if tree_name(index) in txn}

    def count(self) -> int:
        """Return how many facts there are."""
        return sum(self._txn.tree(name).count for name in self.stored)

    def keys(self, name: str) -> int:
        """Return how many key words a fact has."""
        return self.stored[name].layout.keys

    def folds(self, name: str) -> bool:
        """Return whether a view is aggregated, so that a key has only its best value."""
        return self.stored[name].layout.shown > 0

    def cost(self, name: str, values: np.ndarray) -> np.ndarray:
        """Return the costs int64[n] of value words int64[n] of an aggregated view."""
        keys = self._encode.keys(values) if name in self.texts and len(values) else values
        return ~keys if self._falling[name] else keys

    def values(self, name: str, costs: np.ndarray) -> np.ndarray:
        """Return the value words int64[n] of costs int64[n] of an aggregated view."""
        keys = ~costs if self._falling[name] else costs
        return self._encode.ids(keys) if name in self.texts and len(keys) else keys

    def orders(self, name: str, keys: np.ndarray) -> Order:
        """Return the orders of the facts with some keys[K, n]."""
        tree = self._txn.tree(name)
        found, values = get(self._txn.pages, tree, keys, self._threads)
        cost = self.cost(name, values[0]) if self.folds(name) else np.zeros(len(found), np.int64)
        return Order(found, cost, values[-1])

    def batches(self, name: str) -> Iterator[np.ndarray]:
        """Yield the keys int64[K, n] of all facts, in order."""
        columns = tuple(range(self.keys(name)))
        return read_batches(self._txn.pages, self._txn.tree(name), columns=columns, rows=BATCH)

    def put(self, name: str, new: Proposal) -> np.ndarray:
        """Store facts, one for each key; return the keys of those that are new or had a worse value.

        An existing fact is unchanged unless its value is worse.
        """
        if not self.folds(name):
            actions, rows = self._apply(name, INSERT, new)
            return rows[: self.keys(name), actions == INSERT]
        known = self.orders(name, new.keys)
        better = new.only(~known.found | (new.cost < known.cost))
        self._apply(name, SET, better)
        return better.keys

    def rank(self, name: str, new: Proposal) -> None:
        """Change the orders of existing facts."""
        self._apply(name, SET, new)

    def replace(self, name: str, words: np.ndarray) -> None:
        """Replace all facts by others, given as words int64[C, n] with ranks, in key order."""
        kept = self.stored[name]
        for t in self._there[name]:
            spec = self._txn.tree(kept.names[t]).spec
            rows = words if t == 0 else words[kept.places[t][: spec.columns]]
            rows = rows if t == 0 else rows.take(sort_order(np.ascontiguousarray(rows[: spec.keys])), axis=1)
            self._txn.replace(kept.names[t], bulk(self._txn.pager, spec, [rows]))

    def clear(self) -> None:
        """Delete all facts."""
        for name, kept in self.stored.items():
            self.replace(name, np.empty((kept.layout.visible + 1, 0), np.int64))

    def words(self, name: str, new: Proposal) -> np.ndarray:
        """Return the words of proposed facts without their ranks."""
        value = [self.values(name, new.cost)[None]] if self.folds(name) else []
        return np.concatenate([new.keys, *value])

    def erase(self, name: str, keys: np.ndarray) -> None:
        """Delete the facts with some keys[K, n]."""
        none = np.zeros((self.stored[name].layout.visible + 1 - len(keys), keys.shape[1]), np.int64)
        self._apply_rows(name, ERASE, np.concatenate([keys, none]))

    def _apply(self, name: str, action: int, new: Proposal) -> tuple[np.ndarray, np.ndarray]:
        return self._apply_rows(name, action, np.concatenate([self.words(name, new), new.rank[None]]))

    def _apply_rows(self, name: str, action: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        kept = self.stored[name]
        actions, there = np.full(rows.shape[1], action), self._there[name]
        names = [kept.names[t] for t in there]
        return self._txn.apply_indexed(names, kept.places[there], actions, rows, kept.layout.visible)[0]


def gathered(parts: list[tuple[str, Proposal]]) -> dict[str, Proposal]:
    """Combine all proposals of each view."""
    by_name: dict[str, list[Proposal]] = {}
    for name, part in parts:
        by_name.setdefault(name, []).append(part)
    return {name: combined(found) for name, found in by_name.items()}


def combined(proposals: list[Proposal]) -> Proposal:
    """Concatenate proposals of one view."""
    return Proposal(*(np.concatenate(columns, axis=-1) for columns in zip(*proposals, strict=True)))


def total(keys: Mapping[str, np.ndarray]) -> int:
    """Return how many keys there are in all views."""
    return sum(rows.shape[1] for rows in keys.values())
