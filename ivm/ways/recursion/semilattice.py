"""A recursive stratum whose functions join values in a semilattice: values rise until no rule
raises one further.

    holds[y] = s <- agg<<s = union(t)>> (given[y] = t ; holds[x] = t, edge(x, y)).      union(a, b) = a | b

The value of a key is the join of all that its rules derive for it. Values are only partially
ordered, and a value that rose later may support one that rose before, so there is no order in which
facts derive from one another, as there is for `min` (fixpoint.py). Values that an insertion derives
are joined to the existing ones, round by round. A deletion removes every fact that derives from
lost ones, in any number of steps, the *affected set*; these facts are then derived again from the
remaining ones.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ivm.plan.plan import Index, Plan
from ivm.rules.installed import Installed
from ivm.rules.rule import InstalledStratum
from ivm.terms.encoder import Encoder
from ivm.views.delta import Transition
from ivm.ways.recursion.facts import (
    SUSPENDED,
    Body,
    Derivations,
    Limits,
    Proposal,
    combined,
    gathered,
    total,
)
from ivm.ways.recursion.fixpoint import Fixpoint, Keys
from ivm.ways.recursion.kernels import rounds as kernel
from pagestore.compiled import TypedKernel
from pagestore.host import (
    ERASE,
    INSERT,
    Transaction,
    Tree,
    begins,
    distinct,
    is_semilattice,
    operator,
    operator_code,
    sort_order,
)

JOIN_RUNS = TypedKernel(kernel.join_runs)


def fixpoint_of(
    txn: Transaction,
    installed: Installed,
    stratum: InstalledStratum,
    encode: Encoder,
    threads: int,
    limits: Limits,
) -> Fixpoint:
    """Return the Fixpoint of a recursive stratum in a transaction, of the class it needs."""
    aggregate = stratum.rules[0].definition.aggregate
    kind = Joined if aggregate and is_semilattice(aggregate.op) else Fixpoint
    return kind(txn, installed, stratum, encode, threads, limits)


class Joined(Fixpoint):
    """One recursive stratum of functions with values in a semilattice, in one transaction.

    The cost of a fact is its value; its rank has no meaning, except SUSPENDED.
    """

    def fill(self, base: Sequence[tuple[Plan, Sequence[np.ndarray]]]) -> None:
        """Fill empty views, given the bindings, in parts, of each plan that reads none of the
        views.

        Raises MaintainError.
        """
        of = {body.plan: body for body in self._bodies}
        parts = [self._propose(of[plan], rows) for plan, bindings in base for rows in bindings]
        self._spread(self._adopt(self._gather(parts)))
        self._refuse_failures()

    def maintain(self, transition: Transition, most: int) -> bool:
        """Maintain the views by the deltas of what the stratum reads, like Fixpoint.maintain."""
        new = transition.new
        self._limit_steps(new)
        lost: dict[str, list[np.ndarray]] = {}
        for body in self._bodies:
            rows = self._changed(body, transition, ERASE)
            if rows.shape[1]:
                derivations = body.derive(self.facts, rows, self._encode, strict=False, rank=0)
                lost.setdefault(body.view, []).append(derivations.keys)
        affected = self._affected(_distinct(lost), new, most)
        if affected is None:
            return False
        for name, keys in affected.items():
            self.facts.erase(name, keys)
        parts = [
            (name, self._ordered(derivations))
            for name, keys in affected.items()
            for derivations in self._search(name, keys, new)
        ]
        for body in self._bodies:
            rows = self._changed(body, transition, INSERT)
            if rows.shape[1]:
                parts.append(self._propose(body, rows))
        if not self._spread(self._adopt(self._gather(parts)), new):
            return False
        self._refuse_failures()
        return True

    def _affected(self, front: Keys, below: Mapping[Index, Tree], most: int) -> Keys | None:
        """Return the given facts and all that derive from them; None if there are `most`, or no
        steps are left.

        All facts of this affected set are suspended.
        """
        affected: dict[str, list[np.ndarray]] = {}
        while total(front):
            standing = {name: self._suspend(name, keys) for name, keys in front.items()}
            for name, keys in standing.items():
                affected.setdefault(name, []).append(keys)
            self._steps_left -= 1
            if self.work.suspended >= most or self._steps_left < 0:
                return None
            trees = {**below, **self.facts.trees}
            led: dict[str, list[np.ndarray]] = {}
            for body in self._bodies:
                if body.reads(standing) and total(standing):
                    rows = self._bindings(body, trees, standing)
                    derivations = body.derive(self.facts, rows, self._encode, strict=False, rank=0)
                    led.setdefault(body.view, []).append(derivations.keys)
            front = _distinct(led)
        return _distinct(affected)

    def _suspend(self, name: str, keys: np.ndarray) -> np.ndarray:
        """Suspend the facts with these keys; return the keys that were not suspended before."""
        order = self.facts.orders(name, keys)
        standing = np.ascontiguousarray(keys[:, order.stands])
        n = standing.shape[1]
        self.facts.rank(name, Proposal(standing, order.cost[order.stands], np.full(n, SUSPENDED)))
        self.work.examined += n
        self.work.suspended += n
        return standing

    def unfounded(self) -> Iterator[tuple[str, np.ndarray]]:
        """Return no facts, since facts have no order; evaluation from scratch checks the values."""
        return iter(())

    def _propose(
        self, body: Body, rows: np.ndarray, rank: int | None = None
    ) -> tuple[str, Proposal]:
        return body.view, self._ordered(self._derive(body, rows, rank=0))

    def _ordered(self, derivations: Derivations) -> Proposal:
        return Proposal(
            derivations.keys, derivations.cost, np.zeros(len(derivations.cost), np.int64)
        )

    def _gather(self, parts: list[tuple[str, Proposal]]) -> dict[str, Proposal]:
        """Return proposals by view, those of each key joined."""
        return {name: self._joined(keys) for name, keys in gathered(parts).items()}

    def _joined(self, proposals: Proposal) -> Proposal:
        table = np.concatenate([proposals.keys, proposals.cost[None]])
        table = table.take(sort_order(table), axis=1)
        starts = np.flatnonzero(begins(table[:-1])).astype(np.int64)
        values = np.empty(len(starts), np.int64)
        JOIN_RUNS.call(self._address, np.ascontiguousarray(table[-1]), starts, values)
        return Proposal(table[:-1].take(starts, axis=1), values, np.zeros(len(starts), np.int64))

    def _news(self, name: str, new: Proposal) -> Proposal:
        return new  # any value may change the join of all

    @property
    def _address(self) -> int:
        aggregate = self._stratum.rules[0].definition.aggregate
        assert aggregate
        return operator(operator_code(aggregate.op)).address

    def _adopt(self, proposals: Mapping[str, Proposal]) -> Keys:
        """Join values to the existing ones; return the keys of those that rose."""
        fresh = {}
        for name, new in proposals.items():
            known = self.facts.orders(name, new.keys)
            stored = Proposal(new.keys, known.cost, new.rank).only(known.found)
            risen = self._joined(combined([new, stored]))
            changed = ~known.found | (risen.cost != known.cost)
            if changed.any():
                fresh[name] = risen.keys[:, changed]
                self.facts.rank(name, risen.only(changed))
        return fresh


def _distinct(keys: Mapping[str, list[np.ndarray]]) -> Keys:
    return {name: distinct(np.concatenate(parts, axis=1)) for name, parts in keys.items()}
