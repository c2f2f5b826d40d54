"""Derive facts from the bodies of a recursive stratum: turn bindings into facts and compute their orders.

    reach(x, z) <- reach(x, y), edge(y, z).         reach(1, 2) has rank 4, so reach(1, 3) would have rank 5
    dist[y] = min(c) <- dist[x] = e, edge[x, y] = w, c = e + w.

The order of a derivation is the greatest order of the stratum's facts in it; the derived fact comes directly after.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ivm.engine.installed import Installed, InstalledRule, index_columns
from ivm.engine.recursion.facts import SUSPENDED, Facts, Order, Proposal
from ivm.lang.ir import Rule
from ivm.maintenance.probe import probe_all, probed
from ivm.maintenance.surgery import Delta
from ivm.plan.constants import Encoder
from ivm.plan.index import Index
from ivm.plan.plan import Plan
from ivm.views.layouts import Layout
from pagestore.host import INSERT, WORD_MIN, Pages, Tree, distinct

NOTHING = Delta(np.empty(0, np.int64), np.empty((0, 0), np.int64))


class Derivations(NamedTuple):
    """Facts that bindings derive: keys and costs, the order of each binding, and its number.

    The order is the greatest order of the binding's facts of the stratum. Its rank is SUSPENDED if one of these is
    suspended, and `found` is false if one does not exist.
    """

    keys: np.ndarray
    cost: np.ndarray
    body: Order
    which: np.ndarray

    def proposal(self) -> tuple[Proposal, bool]:
        """Return the facts with the orders directly after those of their bindings, and whether all have such an order.

        A value that is better than one that it derives from has none.
        """
        stands = self.body.stands
        cost, body_cost, rank = self.cost[stands], self.body.cost[stands], self.body.rank[stands]
        ordered = not (body_cost > cost).any()
        return Proposal(self.keys[:, stands], cost, np.where(body_cost == cost, rank + 1, 1)), ordered


class Body:
    """A conjunction of a recursive stratum, or a plan that searches for derivations of given facts."""

    def __init__(
        self, installed: Installed, rule: InstalledRule, plan: Plan, own: frozenset[str], search: bool
    ) -> None:
        self.rule: Rule = rule.definition
        self.plan, self._head = plan, installed.heads[plan]
        self.view = self.rule.heads[0].predicate
        tries = [(t, trie) for t, trie in enumerate(plan.tries) if trie.index.predicate in own and not trie.negated]
        tries = [(t, trie) for t, trie in tries if t or not search]
        self.own = [  # where a binding holds the key of each fact of the stratum
            (trie.index.predicate, _columns(trie.index, trie.levels, installed.layouts[trie.index.predicate].keys))
            for _, trie in tries
        ]
        self._values = [_value(plan, t, installed.layouts[trie.index.predicate]) for t, trie in tries]
        self._asked = probed(plan)

    def reads(self, names: Mapping[str, np.ndarray]) -> bool:
        """Return whether the body contains one of the views `names`."""
        return any(name in names for name, _ in self.own)

    def bindings(
        self, pages: Pages, trees: Mapping[Index, Tree], keys: Mapping[str, np.ndarray], threads: int
    ) -> tuple[np.ndarray, int]:
        """Return the bindings int64[C, n] with one of the given facts (keys by view), and iterator operations."""
        changed = []
        for index, depth in self._asked:
            if index.predicate in keys and max(index.order[:depth]) < len(keys[index.predicate]):
                branches = distinct(np.ascontiguousarray(keys[index.predicate][list(index.order[:depth])]))
                changed.append(Delta(np.full(branches.shape[1], INSERT), branches))
            else:
                changed.append(NOTHING)
        if not any(changed):
            return np.empty((len(self.plan.columns), 0), np.int64), 0
        found, operations = probe_all(self.plan, pages, trees, trees, changed, threads)
        return found.rows, operations

    def derive(
        self, facts: Facts, rows: np.ndarray, encode: Encoder, strict: bool = True, rank: int | None = None
    ) -> Derivations:
        """Derive facts from bindings int64[C, n]; `rank`, if given, is the rank of bindings with facts of the stratum.

        Raises RangeError if arithmetic fails, unless not `strict`.
        """
        which, words = self._head.derive(rows, encode, strict)
        keys = facts.keys(self.view)
        cost = facts.cost(self.view, words[keys]) if facts.folds(self.view) else np.zeros(len(which), np.int64)
        return Derivations(words[:keys], cost, self._order(facts, rows, which, rank), which)

    def read(self, rows: np.ndarray, which: np.ndarray) -> list[tuple[str, np.ndarray]]:
        """Return (view, keys) of the stratum's facts in the bindings `which` of rows[C, n], for each atom."""
        return [(name, rows[columns][:, which]) for name, columns in self.own]

    def standing(self, facts: Facts, rows: np.ndarray) -> np.ndarray:
        """Return those bindings rows[C, n] whose facts of the stratum still exist with the same values."""
        stands = np.ones(rows.shape[1], bool)
        for (name, columns), value in zip(self.own, self._values, strict=True):
            order = facts.orders(name, rows[columns])
            stands &= order.stands
            if value >= 0:
                stands &= order.cost == facts.cost(name, rows[value])
        return rows[:, stands]

    def _order(self, facts: Facts, rows: np.ndarray, which: np.ndarray, rank: int | None) -> Order:
        n = len(which)
        there = np.ones(n, bool)
        if rank is not None:
            return Order(there, np.zeros(n, np.int64), np.full(n, rank if self.own else 0))
        greatest = Order(there, np.full(n, WORD_MIN if facts.folds(self.view) else 0), np.zeros(n, np.int64))
        suspended = np.zeros(n, bool)
        for name, columns in self.own:
            one = facts.orders(name, rows[columns][:, which])
            there &= one.found
            suspended |= one.rank == SUSPENDED
            later = greatest.before(one.cost, one.rank)
            greatest = Order(there, np.where(later, one.cost, greatest.cost), np.where(later, one.rank, greatest.rank))
        return Order(there, greatest.cost, np.where(suspended, SUSPENDED, greatest.rank))


def _columns(index: Index, levels: tuple[int, ...], keys: int) -> list[int]:
    """Return the levels of the first `keys` columns of an index's predicate, in the order of the columns."""
    return [levels[index.order.index(column)] for column in range(keys)]


def _value(plan: Plan, t: int, layout: Layout) -> int:
    """Return the column of a binding that holds the value of a trie's function; -1 if none does."""
    index, levels = plan.tries[t].index, plan.tries[t].levels
    places = dict(zip(index.order, levels, strict=False))
    columns = index_columns(index, layout)
    places |= {columns[read.column]: plan.columns.index(read.variable) for read in plan.reads if read.trie == t}
    return places.get(layout.keys, -1) if layout.shown else -1
