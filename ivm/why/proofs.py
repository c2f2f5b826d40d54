"""The smallest proofs of a fact: for each fact below it one step, so that all ends in rows of
relations.

    reach(1, 3)     by reach(x, z) <- reach(x, y), edge(y, z).
      reach(1, 2)   by reach(x, y) <- edge(x, y).
        edge(1, 2)  since version 4
      edge(2, 3)    since version 7

The size of a proof is the number of facts in it, those that occur twice counted twice.  A fact and
its steps are a hypergraph; Knuth's generalisation of Dijkstra's algorithm finds the smallest proof
of each fact, and what is circular has none.  Where too many facts are involved, the ranks of
recursive views lead down instead: each fact follows from facts that come before it, so the proof
ends, though it may not be the smallest.
"""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from ivm.lang.ir import Const
from ivm.rules.installed import Installed
from ivm.terms.encoder import Encoder
from ivm.views.layouts import RANKED
from ivm.why.derivations import Derivations, Fact, Step
from pagestore.host import EphemeralTransaction, Snapshot, get

FACTS_MAX = 2_000  # that are looked at for the smallest proofs


class Proofs(NamedTuple):
    """The steps of a fact that are not circular, the smallest first; and a step for each fact of
    views below them.

    `smallest` says whether these are the smallest proofs.
    """

    fact: Fact
    steps: list[Step]
    chosen: dict[Fact, Step]
    smallest: bool


def prove(
    derivations: Derivations,
    installed: Installed,
    snap: Snapshot | EphemeralTransaction,
    fact: Fact,
    most: int,
) -> Proofs:
    """Find the proofs of a fact that holds in a version; `most` of its steps are followed down.

    O(FACTS_MAX look-ups), or of the facts of one proof.
    """
    if derivations.is_base(fact.predicate):
        return Proofs(fact, [], {}, True)
    graph = _explored(derivations, fact)
    if graph is not None:
        return _smallest(derivations, graph, fact, most)
    return _by_ranks(derivations, _Ranks(installed, snap, derivations), fact, most)


def _explored(derivations: Derivations, root: Fact) -> dict[Fact, list[Step]] | None:
    """Return the steps of all facts of views that a fact could follow from; None for too many."""
    graph: dict[Fact, list[Step]] = {}
    level = [root]
    while level:
        all_ = derivations.below(level, FACTS_MAX)
        if all_ is None:
            return None
        level = [fact for fact in all_ if fact not in graph]
        graph |= derivations.steps(level)
        below = (f for fact in level for step in graph[fact] for f in step.facts)
        level = [
            f
            for f in dict.fromkeys(below)
            if f not in graph and not derivations.is_base(f.predicate)
        ]
        if len(graph) + len(level) > FACTS_MAX:
            return None
    return graph


def _smallest(
    derivations: Derivations, graph: dict[Fact, list[Step]], root: Fact, most: int
) -> Proofs:
    sizes = proof_sizes(derivations, {fact: steps for fact, steps in graph.items() if fact != root})
    sizes |= {
        fact: 1
        for step in graph[root]
        for fact in step.facts
        if derivations.is_base(fact.predicate)
    }

    def founded(fact: Fact) -> list[Step]:
        steps = (step for step in graph[fact] if sizes.keys() >= {*step.facts})
        return sorted(
            steps, key=lambda step: (sum(sizes[below] for below in step.facts), step.text)
        )

    steps = founded(root)
    chosen = _chosen(
        derivations, steps[:most], lambda facts: {fact: founded(fact)[0] for fact in facts}
    )
    return Proofs(root, steps, chosen, True)


def proof_sizes(derivations: Derivations, graph: dict[Fact, list[Step]]) -> dict[Fact, int]:
    """Return the sizes of the smallest proofs of facts, from the steps of those of views; without
    those that have none.

    Facts that are no keys of `graph` are rows of relations, of size 1, or have no proof.  O(steps *
    log steps).
    """
    sizes: dict[Fact, int] = {}
    readers: dict[Fact, list[tuple[Fact, int]]] = {}
    waiting: dict[tuple[Fact, int], int] = {}
    queue: list[tuple[int, int, Fact]] = []
    order: dict[Fact, int] = {}

    def offer(fact: Fact, size: int) -> None:
        heappush(queue, (size, order.setdefault(fact, len(order)), fact))

    for fact, steps in graph.items():
        for number, step in enumerate(steps):
            waiting[fact, number] = len(step.facts)
            if not step.facts:
                offer(fact, 1)
            for below in step.facts:
                readers.setdefault(below, []).append((fact, number))
                if below not in order and derivations.is_base(below.predicate):
                    offer(below, 1)
    while queue:
        size, _, fact = heappop(queue)
        if fact in sizes:
            continue
        sizes[fact] = size
        for head, number in readers.get(fact, ()):
            waiting[head, number] -= 1
            if not waiting[head, number]:
                offer(head, 1 + sum(sizes[f] for f in graph[head][number].facts))
    return sizes


class _Ranks:
    """The order in which facts of recursive views follow from one another."""

    def __init__(
        self, installed: Installed, snap: Snapshot | EphemeralTransaction, derivations: Derivations
    ) -> None:
        self._installed, self._snap, self._encode = installed, snap, Encoder(snap)
        self._predicates = derivations.program.predicates
        self._strata = {name: s.recursive for s in installed.strata for name in s.recursive}

    def of(self, fact: Fact) -> int:
        """Return the rank of a fact; 0 for one of a view that does not read itself."""
        layout = self._installed.layouts[fact.predicate]
        if layout.kind != RANKED:
            return 0
        types = self._predicates[fact.predicate].types
        words = [
            self._encode(Const(value, type_)) for value, type_ in zip(fact.row, types, strict=True)
        ]
        keys = np.array(words[: layout.keys], np.int64)[:, None]
        found, values = get(self._snap.pages, self._snap.tree(fact.predicate), keys)
        return int(values[-1, 0]) if found[0] else 0

    def comes_before(self, below: Fact, above: Fact) -> bool:
        """Return whether a fact may be used for another one of its stratum: it comes before, or
        has another value.
        """
        if below.predicate not in self._strata.get(above.predicate, ()):
            return True
        folded = [self._installed.layouts[fact.predicate].shown for fact in (below, above)]
        if all(folded) and below.row[-1] != above.row[-1]:
            return True
        return self.of(below) < self.of(above)


def _by_ranks(derivations: Derivations, ranks: _Ranks, root: Fact, most: int) -> Proofs:
    def founded(fact: Fact, steps: Iterable[Step]) -> list[Step]:
        some = [
            step for step in steps if all(ranks.comes_before(below, fact) for below in step.facts)
        ]
        return sorted(
            some,
            key=lambda step: (max(map(ranks.of, _views(derivations, step)), default=0), step.text),
        )

    steps = founded(root, derivations.steps([root])[root])

    def choose(facts: list[Fact]) -> dict[Fact, Step]:
        return {fact: founded(fact, some)[0] for fact, some in derivations.steps(facts).items()}

    return Proofs(root, steps, _chosen(derivations, steps[:most], choose), False)


def _views(derivations: Derivations, step: Step) -> list[Fact]:
    return [fact for fact in step.facts if not derivations.is_base(fact.predicate)]


def _chosen(derivations: Derivations, steps: Iterable[Step], choose: Any) -> dict[Fact, Step]:
    """Return a step for every fact of a view below some; `choose` gives those of several facts."""
    chosen: dict[Fact, Step] = {}
    level = [fact for step in steps for fact in _views(derivations, step)]
    while level := [fact for fact in dict.fromkeys(level) if fact not in chosen]:
        chosen |= choose(level)
        level = [fact for parent in level for fact in _views(derivations, chosen[parent])]
    return chosen
