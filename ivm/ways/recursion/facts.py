"""The facts of a recursive stratum: its rows, and the order in which they are derived from one
another.

    reach(x, y)     (1, 2; rank 1)  (1, 3; rank 2)          the cost of a row is 0
    dist[x] = d     (2; d = 7, rank 1)                      the cost of a value is the value; for max, ~value
    name[x] = s     (2; s = "bee", rank 1)                  the cost of a text is its key in the order of texts

The *order* of a fact is (cost, rank). The invariant: each fact has a derivation from facts of its
stratum that all come before it in this order. A fact that has lost its last such derivation is
*suspended*, its rank being SUSPENDED, until it is known whether it has any other derivation.

Derive facts from the bodies of a recursive stratum: turn bindings into facts and compute their
orders.

    reach(x, z) <- reach(x, y), edge(y, z).         reach(1, 2) has rank 4, so reach(1, 3) would have rank 5
    dist[y] = min(c) <- dist[x] = e, edge[x, y] = w, c = e + w.

The order of a derivation is the greatest order of the stratum's facts in it; the derived fact comes
directly after.

Limits of recursion: the most rows and rounds, so that an endless recursion stops.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ivm.errors import LimitError
from ivm.lang.ir import Compare, Rule
from ivm.lang.recursion import adds_only
from ivm.lang.types import has_ids
from ivm.memory import memory_allowed
from ivm.plan.plan import Index, Plan, tree_name
from ivm.rules.installed import Installed, index_columns
from ivm.rules.rule import InstalledRule, InstalledStratum
from ivm.terms.encoder import Encoder
from ivm.views.delta import Delta, Transition
from ivm.views.layouts import Layout
from ivm.ways.probe import probe_all, probed
from pagestore.host import (
    ERASE,
    INSERT,
    SET,
    WORD_MAX,
    WORD_MIN,
    Pages,
    Transaction,
    Tree,
    begins,
    bulk,
    distinct,
    external_sort,
    get,
    is_operator,
    read_batches,
    sort_order,
)

SUSPENDED = WORD_MAX
BATCH = 1 << 12


class Order(NamedTuple):
    """The orders of n facts, and whether they exist: found bool[n], cost and rank int64[n]."""

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
    """The facts of a stratum in a transaction. The costs of views in `texts` are keys in the
    order of texts.
    """

    def __init__(
        self,
        txn: Transaction,
        installed: Installed,
        stratum: InstalledStratum,
        encode: Encoder,
        threads: int = 1,
    ) -> None:
        self._txn, self._encode, self._threads = txn, encode, threads
        self.stored = {name: installed.stored[name] for name in sorted(stratum.recursive)}
        # While views are filled, the indices that only later rules read do not exist yet.
        self._there = {
            name: [t for t, n in enumerate(view.names) if n in txn]
            for name, view in self.stored.items()
        }
        aggregates = {
            r.definition.heads[0].predicate: r.definition.aggregate for r in stratum.rules
        }
        self._falling = {
            name: bool(found and found.op == "max") for name, found in aggregates.items()
        }
        types = {name: installed.program.predicates[name].types for name in self.stored}
        self.texts = {name for name in self.stored if self.folds(name) and has_ids(types[name][-1])}
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
        kept = (index for view in self.stored.values() for index in view.indices)
        return {index: txn.tree(tree_name(index)) for index in kept if tree_name(index) in txn}

    def count(self) -> int:
        """Return how many facts there are."""
        return sum(self._txn.tree(name).count for name in self.stored)

    def nbytes(self) -> int:
        """Return the bytes of all words of the facts."""
        return sum(8 * tree.count * tree.spec.columns for tree in map(self._txn.tree, self.stored))

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

    def last_rank(self, name: str) -> int:
        """Return the greatest rank of a fact; 0 if there is none."""
        tree = self._txn.tree(name)
        batches = read_batches(self._txn.pages, tree, columns=(tree.spec.columns - 1,))
        return max((int(batch.max()) for batch in batches), default=0)

    def put(self, name: str, new: Proposal) -> np.ndarray:
        """Store facts, one for each key; return the keys of those that are new or had a worse
        value.

        An existing fact is unchanged unless its value is worse.
        """
        if not self.folds(name):
            actions, rows = self._apply(name, INSERT, new)
            return rows[: self.keys(name), actions == INSERT]
        better = self.better(name, new)
        self._apply(name, SET, better)
        return better.keys

    def better(self, name: str, new: Proposal) -> Proposal:
        """Return the proposals of facts that do not exist, or have a worse value."""
        known = self.orders(name, new.keys)
        return new.only(~known.found | (new.cost < known.cost))

    def rank(self, name: str, new: Proposal) -> None:
        """Change the orders of existing facts."""
        self._apply(name, SET, new)

    def replace(self, name: str, words: Iterable[np.ndarray]) -> None:
        """Replace all facts by others: batches int64[C, n] of words with ranks, in key order."""
        kept = self.stored[name]
        for t in self._there[name]:
            spec = self._txn.tree(kept.names[t]).spec
            rows = self._permuted(name, kept.places[t][: spec.columns], spec.keys) if t else words
            self._txn.replace(kept.names[t], bulk(self._txn.pager, spec, rows))

    def _permuted(self, name: str, columns: np.ndarray, keys: int) -> Iterator[np.ndarray]:
        """Yield all facts by some columns, in the order of so many of these."""
        facts = self._txn.tree(name)  # before `pages`: opening a tree may remap the file
        batches = read_batches(self._txn.pages, facts)
        return external_sort((batch[columns] for batch in batches), keys, memory_allowed())

    def clear(self) -> None:
        """Delete all facts."""
        for name, kept in self.stored.items():
            self.replace(name, [np.empty((kept.layout.visible + 1, 0), np.int64)])

    def words(self, name: str, new: Proposal) -> np.ndarray:
        """Return the words of proposed facts without their ranks."""
        value = [self.values(name, new.cost)[None]] if self.folds(name) else []
        return np.concatenate([new.keys, *value])

    def erase(self, name: str, keys: np.ndarray) -> None:
        """Delete the facts with some keys[K, n]."""
        none = np.zeros((self.stored[name].layout.visible + 1 - len(keys), keys.shape[1]), np.int64)
        self._apply_rows(name, ERASE, np.concatenate([keys, none]))

    def _apply(self, name: str, action: int, new: Proposal) -> tuple[np.ndarray, np.ndarray]:
        return self._apply_rows(
            name, action, np.concatenate([self.words(name, new), new.rank[None]])
        )

    def _apply_rows(
        self, name: str, action: int, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        kept = self.stored[name]
        actions, there = np.full(rows.shape[1], action), self._there[name]
        names = [kept.names[t] for t in there]
        return self._txn.apply_indexed(
            names, kept.places[there], actions, rows, kept.layout.visible
        )[0]


def gathered(parts: list[tuple[str, Proposal]]) -> dict[str, Proposal]:
    """Combine all proposals of each view."""
    by_name: dict[str, list[Proposal]] = {}
    for name, part in parts:
        by_name.setdefault(name, []).append(part)
    return {name: combined(parts) for name, parts in by_name.items()}


def combined(proposals: list[Proposal]) -> Proposal:
    """Concatenate proposals of one view."""
    return Proposal(*(np.concatenate(columns, axis=-1) for columns in zip(*proposals, strict=True)))


def total(keys: Mapping[str, np.ndarray]) -> int:
    """Return how many keys there are in all views."""
    return sum(rows.shape[1] for rows in keys.values())


NOTHING = Delta(np.empty(0, np.int64), np.empty((0, 0), np.int64))


class Derivations(NamedTuple):
    """Facts that bindings derive: keys and costs, the order of each binding, and its number.

    The order is the greatest order of the binding's facts of the stratum. Its rank is SUSPENDED if
    one of these is suspended, and `found` is false if one does not exist.
    """

    keys: np.ndarray
    cost: np.ndarray
    body: Order
    which: np.ndarray

    def proposal(self) -> tuple[Proposal, bool]:
        """Return the facts with the orders directly after those of their bindings, and whether all
        have such an order.

        A value that is better than one that it derives from has none.
        """
        stands = self.body.stands
        cost, body_cost, rank = self.cost[stands], self.body.cost[stands], self.body.rank[stands]
        ordered = not (body_cost > cost).any()
        return Proposal(
            self.keys[:, stands], cost, np.where(body_cost == cost, rank + 1, 1)
        ), ordered


class Body:
    """A conjunction of a recursive stratum, or a plan that seeks derivations of given facts."""

    def __init__(
        self,
        installed: Installed,
        rule: InstalledRule,
        plan: Plan,
        recursive: frozenset[str],
        search: bool,
    ) -> None:
        self.rule: Rule = rule.definition
        self.plan, self._head = plan, installed.heads[plan]
        self.view = self.rule.heads[0].predicate
        tries = [
            (t, trie)
            for t, trie in enumerate(plan.tries)
            if trie.index.predicate in recursive and not trie.negated
        ]
        tries = [(t, trie) for t, trie in tries if t or not search]
        self.own = [  # where a binding holds the key of each fact of the stratum
            (
                trie.index.predicate,
                _columns(trie.index, trie.levels, installed.layouts[trie.index.predicate].keys),
            )
            for _, trie in tries
        ]
        self._values = [
            _value(plan, t, installed.layouts[trie.index.predicate]) for t, trie in tries
        ]
        self._probed = probed(plan)

    def reads(self, names: Mapping[str, np.ndarray]) -> bool:
        """Return whether the body contains one of the views `names`."""
        return any(name in names for name, _ in self.own)

    def bindings(
        self,
        pages: Pages,
        trees: Mapping[Index, Tree],
        keys: Mapping[str, np.ndarray],
        threads: int,
    ) -> tuple[np.ndarray, int]:
        """Return the bindings int64[C, n] with one of the given facts (keys by view), and
        iterator operations.
        """
        changed = []
        for index, depth in self._probed:
            if index.predicate in keys and max(index.order[:depth]) < len(keys[index.predicate]):
                branches = distinct(
                    np.ascontiguousarray(keys[index.predicate][list(index.order[:depth])])
                )
                changed.append(Delta(np.full(branches.shape[1], INSERT), branches))
            else:
                changed.append(NOTHING)
        if not any(changed):
            return np.empty((len(self.plan.columns), 0), np.int64), 0
        batch, operations = probe_all(
            self.plan, pages, Transition(trees, trees, {}), changed, threads
        )
        return batch.rows, operations

    def derive(
        self,
        facts: Facts,
        rows: np.ndarray,
        encode: Encoder,
        strict: bool = True,
        rank: int | None = None,
    ) -> Derivations:
        """Derive facts from bindings int64[C, n]; `rank`, if given, is the rank of bindings with
        facts of the stratum.

        Raises RangeError if arithmetic fails, unless not `strict`.
        """
        which, words = self._head.derive(rows, encode, strict)
        keys = facts.keys(self.view)
        if facts.folds(self.view):
            cost = facts.cost(self.view, words[keys])
        else:
            cost = np.zeros(len(which), np.int64)
        return Derivations(words[:keys], cost, self._order(facts, rows, which, rank), which)

    def read(self, rows: np.ndarray, which: np.ndarray) -> list[tuple[str, np.ndarray]]:
        """Return (view, keys) of the stratum's facts in bindings `which` of rows[C, n], by atom."""
        return [(name, rows[columns][:, which]) for name, columns in self.own]

    def standing(self, facts: Facts, rows: np.ndarray) -> np.ndarray:
        """Return the bindings rows[C, n] whose facts of the stratum still have the same values."""
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
        greatest = Order(
            there, np.full(n, WORD_MIN if facts.folds(self.view) else 0), np.zeros(n, np.int64)
        )
        suspended = np.zeros(n, bool)
        for name, columns in self.own:
            order = facts.orders(name, rows[columns][:, which])
            there &= order.found
            suspended |= order.rank == SUSPENDED
            later = greatest.before(order.cost, order.rank)
            greatest = Order(
                there,
                np.where(later, order.cost, greatest.cost),
                np.where(later, order.rank, greatest.rank),
            )
        return Order(there, greatest.cost, np.where(suspended, SUSPENDED, greatest.rank))


def _columns(index: Index, levels: tuple[int, ...], keys: int) -> list[int]:
    """Return the levels of the first `keys` columns of an index's predicate, in their order."""
    return [levels[index.order.index(column)] for column in range(keys)]


def _value(plan: Plan, t: int, layout: Layout) -> int:
    """Return the column of a binding that holds the value of a trie's function; -1 if none does."""
    index, levels = plan.tries[t].index, plan.tries[t].levels
    places = dict(zip(index.order, levels, strict=False))
    columns = index_columns(index, layout)
    places |= {
        columns[read.column]: plan.columns.index(read.variable)
        for read in plan.reads
        if read.trie == t
    }
    return places.get(layout.keys, -1) if layout.shown else -1


ROWS_MAX = 10_000_000  # of a recursion that computes values, unless the user says otherwise
ROUNDS_MAX = 1_000_000
CYCLE_SHOWN = 10  # facts of a cycle that an error shows
SHOWN = 5  # the last rounds that an error shows


@dataclass(frozen=True)
class Limits:
    """The most rows that a stratum may have, and the most rounds of one transaction; None for no
    limit.

    `where` is the place of the rule that an error shows, and `text` the rule.
    """

    where: str
    text: str
    rows_max: int | None = None
    rounds_max: int | None = None

    def check(self, rows: Sequence[int], count: int) -> None:
        """Raise LimitError if there are too many rows or rounds, given the new rows of each
        round and the row count.
        """
        if self.rows_max is not None and count > self.rows_max:
            raise self._error(rows, count, f"rows_max={self.rows_max:,} rows")
        if self.rounds_max is not None and len(rows) > self.rounds_max:
            raise self._error(rows, count, f"rounds_max={self.rounds_max:,} rounds")

    def endless(self, cycle: Sequence[str]) -> LimitError:
        """Return the error for facts that derive from one another in a cycle and become better
        each time around.
        """
        rest = f", and {len(cycle) - CYCLE_SHOWN:,} more" * (len(cycle) > CYCLE_SHOWN)
        first = cycle[0].partition(" = ")[0]
        return LimitError(
            f"{self.where}: {self.text} never ends, since values become better along their own "
            f"derivation: {', '.join(cycle[:CYCLE_SHOWN])}{rest}, and then {first} again; take out "
            "a row that closes this cycle, or change what is added along it"
        )

    def _error(self, rows: Sequence[int], count: int, limit: str) -> LimitError:
        growth = ", ".join(f"{n:,}" for n in rows[-SHOWN:])
        beyond = f"{limit}: it has {count:,} rows after {len(rows):,} rounds, of which the last brought {growth}"
        error = LimitError(
            f"{self.where}: {self.text} goes beyond {beyond}; bound what it computes, as by "
            "`n < 100`, or install it with a greater limit"
        )
        error.beyond = beyond
        return error


def _computes(rule: Rule) -> bool:
    """Return whether a rule may compute new values."""
    if rule.aggregate and is_operator(rule.aggregate.op):
        return True
    return any(isinstance(x, Compare) and x.op == "=" for disjunct in rule.body for x in disjunct)


def limits_of(stratum: InstalledStratum) -> Limits:
    """Return the limits of a stratum: those of its block, or the defaults above if the recursion
    computes values.
    """
    rules = [rule for rule in stratum.rules if not stratum.recursive.isdisjoint(rule.reads)]
    computing = [rule for rule in rules if _computes(rule.definition)]
    shown, *_ = (*computing, *rules)
    rows, rounds = (ROWS_MAX, ROUNDS_MAX) if computing else (None, None)
    text = shown.definition.text or str(shown.definition)
    return Limits(
        str(shown.definition.where), text, shown.rows_max or rows, shown.rounds_max or rounds
    )
