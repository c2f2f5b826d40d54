"""The least fixpoint of a recursive stratum: rounds from new facts, and withdrawal of facts that
lost their support.

    edge      1 ─▶ 2 ─▶ 3 ─▶ 2        reach(x) from 1, with ranks:   2 (1)   3 (2)

    - edge(1, 2)    2 has lost its derivation of lower rank; 3 → 2 has the higher rank 2, so 2 is suspended
                    3 is derived from 2 alone, so it is suspended
                    neither is derived from a fact that is not suspended: both are erased

*Withdrawal* takes the facts that may have lost their support in order (facts.py). One that has
another derivation from facts before it is unchanged; the others are suspended, and the facts that
they supported are examined. Suspended facts that derive from unsuspended ones, of any order, are
restored with a new rank, the others erased; *rounds* derive the consequences of restored facts and
inserted rows. So only affected facts are examined, not the whole fixpoint. A kernel does the same
for strata that compute no values (compiled.py).
"""

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from ivm.errors import RangeError, RoomError
from ivm.lang.ir import constants
from ivm.memory import MemoryUse, allowing, memory_allowed, within_memory
from ivm.plan.plan import Index, Plan, indices_of, tree_name
from ivm.rules.installed import Installed
from ivm.rules.rule import InstalledStratum
from ivm.terms.encoder import Encoder
from ivm.views.delta import Transition
from ivm.ways.match import binding_difference, maintain_by_probing
from ivm.ways.pending import PendingRows
from ivm.ways.recursion.cycles import ROUNDS_FIRST, TIMES, TIMES_OF_FLOATS, Trail
from ivm.ways.recursion.facts import (
    SUSPENDED,
    Body,
    Derivations,
    Facts,
    Limits,
    Proposal,
    gathered,
    total,
)
from ivm.ways.recursion.flat_bodies import FlatBodies, NotPlain
from ivm.ways.recursion.in_memory import FlatFacts, FlatRounds
from ivm.ways.recursion.kernels.rounds import DONE as DERIVED_ALL
from pagestore.host import ERASE, INSERT, WORD_MAX, Transaction, Tree, distinct

Keys = dict[str, np.ndarray]  # keys int64[K, n] of facts, by view
# A step of the queue, or a round, takes about as long as evaluating STEP_ROWS rows in memory. After
# as many steps as evaluation from scratch would cost, the stratum is evaluated from scratch; so no
# transaction takes much longer.
STEPS_FREE, STEP_ROWS = 64, 1000
BELOW_MAX = 1 << 25  # the most rows from outside the stratum that are read into memory
# rounds use pages until they took one in PAGED_SHARE of the operations of reading all into memory
PAGED_SHARE = 16
# bindings take at most 1/8 of the bytes allowed: facts are made of them, and sorted
BINDINGS_SHARE = 8
# of the facts, at most one in FOLLOWING_SHARE is erased or stored after deriving it in memory
FOLLOWING_SHARE = 4
# times the bytes allowed may be written to the disk: a recursion of more facts was hardly meant
RUNS = 4
ROUNDS = "deriving facts in rounds"  # the step, for errors
SEARCHED = 1 << 12  # facts per search for derivations, since each may have many


@dataclass
class Work:
    """A stratum's work: new rows of each round; facts examined and suspended; operations."""

    rows: list[int] = field(default_factory=list)
    examined: int = 0
    suspended: int = 0
    operations: int = 0

    @property
    def counts(self) -> tuple[int, int, int]:
        """Operations, rounds, and facts examined."""
        return self.operations, len(self.rows), self.examined


class Fixpoint:
    """One recursive stratum in one transaction."""

    def __init__(
        self,
        txn: Transaction,
        installed: Installed,
        stratum: InstalledStratum,
        encode: Encoder,
        threads: int,
        limits: Limits,
    ) -> None:
        self._txn, self._encode, self._threads, self._limits = txn, encode, threads, limits
        self._installed, self._stratum = installed, stratum
        self._steps_left = WORD_MAX
        self._failing: list[tuple[Body, np.ndarray]] = []  # bindings whose arithmetic failed so far
        self._memory = MemoryUse(step=ROUNDS)
        # the parents of the facts of the last rounds, if they are needed
        self._trail: Trail | None = None
        self.facts, self.work = Facts(txn, installed, stratum, encode, threads), Work()
        self.ordered = True  # whether every stored fact comes after those that it derives from
        for rule in stratum.rules if self.facts.texts else ():
            for const in constants(rule.definition):
                # a new text may change the keys of others, so add all before comparing any
                encode(const)
        own = stratum.recursive
        plans = [(rule, plan) for rule in stratum.rules for plan in rule.plans]
        self._bodies = [Body(installed, rule, plan, own, search=False) for rule, plan in plans]
        searches = [(rule, plan) for rule in stratum.rules for plan in rule.searches]
        self._searches = [Body(installed, rule, plan, own, search=True) for rule, plan in searches]

    # -- from scratch

    def fill(self, base: Sequence[tuple[Plan, Sequence[np.ndarray]]]) -> None:
        """Fill empty views, given the bindings, in parts, of each plan that reads none of the
        views.

        Raises MaintainError.
        """
        with within_memory(ROUNDS, self.facts.count):
            self._fill(base)

    def _fill(self, base: Sequence[tuple[Plan, Sequence[np.ndarray]]]) -> None:
        parts, of = [], {body.plan: body for body in self._bodies}
        for plan, bindings in base:
            parts += [self._propose(of[plan], rows, rank=0) for rows in bindings]
        first = self._gather(parts)
        flat = self._flat()
        if flat and sum(one.cost.size for one in first.values()) * PAGED_SHARE > flat.below:
            if self._fill_flat(flat, first):
                return
            flat = None
        fresh = self._adopt(first)
        if flat:
            self._steps_left = STEPS_FREE + flat.below // (STEP_ROWS * PAGED_SHARE)
        if not self._spread(fresh, counted=True, most=flat.below // PAGED_SHARE if flat else None):
            assert flat
            if self._fill_flat(flat, first):
                return
            self.facts.clear()
            self.work.rows.clear()
            self._steps_left = WORD_MAX
            self._spread(self._adopt(first), counted=True)
        self._refuse_failures()

    def _flat(self) -> FlatRounds | None:
        """Return the stratum prepared for evaluation in memory; None if it cannot."""
        try:
            bodies = FlatBodies(
                self._txn, self._installed, self._stratum, self._bodies, self._encode
            )
            wait = partial(PendingRows, self._txn, self._installed, step=ROUNDS, most=RUNS)
            flat = FlatRounds(bodies, self._limits, self._threads, wait)
        except NotPlain:
            return None
        return flat if flat.below <= BELOW_MAX else None

    def _fill_flat(self, flat: FlatRounds, first: Mapping[str, Proposal]) -> bool:
        """Evaluate the stratum in memory, given its base facts; return whether it could be."""
        if not flat.run([(name, self.facts.words(name, one)) for name, one in first.items()]):
            return False
        for name in self.facts.stored:
            self.facts.replace(name, flat.found.rows(name))
        self.work.rows = flat.by_rank[1:].tolist()
        self.work.operations += flat.operations
        # memory was short: rounds over pages go on from what was derived
        if flat.unfinished is not None:
            self._steps_left = WORD_MAX
            self._spread(_joined(self._adopt(first), flat.unfinished), counted=True)
            self._refuse_failures()
        return True

    @property
    def base(self) -> list[Plan]:
        """The plans that read none of the stratum's views."""
        return [body.plan for body in self._bodies if not body.own]

    # -- maintained

    def maintain(self, transition: Transition, most: int) -> bool:
        """Maintain the views by the deltas of what the stratum reads, from old to new trees.
        Raises MaintainError.

        Return whether that succeeded. If not, the views are inconsistent and must be refilled:
        `most` facts were suspended, it took too many steps, or not all facts could be put in order.
        """
        new = transition.new
        self._limit_steps(new)
        lost: list[tuple[str, Derivations]] = []
        for body in self._bodies:
            rows = self._changed(body, transition, ERASE)
            if rows.shape[1]:
                lost.append((body.view, body.derive(self.facts, rows, self._encode, strict=False)))
        suspended = self._withdraw(lost, new, most)
        if suspended is None:
            return False
        back = self._return(suspended, new)
        gained = []
        for body in self._bodies:
            rows = self._changed(body, transition, INSERT)
            if rows.shape[1]:
                gained.append(self._propose(body, rows))
        fresh = _joined(self._adopt(self._gather(gained)), back)
        if not self._spread(fresh, new) or not self.ordered:
            return False
        self._refuse_failures()
        return True

    def maintain_in_memory(self, transition: Transition) -> bool:
        """Maintain views whose rows each derive from at most one other, all that follows from a
        change at once.

        All facts that follow from lost ones are erased; those that derive from others, and what
        follows from them and from gained ones, are stored with ranks after all others. Facts are
        derived in memory. Return whether that succeeded. If not, the views must be refilled: the
        stratum cannot be evaluated so, or more than a share follows.
        """
        most = 1 + self.facts.count() // FOLLOWING_SHARE
        last = max(map(self.facts.last_rank, self.facts.stored))
        gone = self._following(self._heads(transition, ERASE), transition.old, most)
        if gone is None:
            return False
        for name, words in gone.items():
            self.facts.erase(name, words[:-1])
        back = [
            (name, batch.keys)
            for name, words in gone.items()
            for batch in self._search(name, words[:-1], transition.new)
        ]
        fresh = self._following(back + self._heads(transition, INSERT), transition.new, most)
        if fresh is None:
            return False
        for name, words in fresh.items():
            self.facts.put(
                name, Proposal(words[:-1], np.zeros(words.shape[1], np.int64), last + words[-1])
            )
        return True

    def _heads(self, transition: Transition, action: int) -> list[tuple[str, np.ndarray]]:
        """Return the keys of facts that lose (ERASE) or gain derivations by changes outside the
        stratum, by view.
        """
        changed = [(body, self._changed(body, transition, action)) for body in self._bodies]
        return [
            (b.view, b.derive(self.facts, rows, self._encode, rank=0).keys)
            for b, rows in changed
            if rows.shape[1]
        ]

    def _following(
        self, facts: Sequence[tuple[str, np.ndarray]], below: Mapping[Index, Tree], most: int
    ) -> dict[str, np.ndarray] | None:
        """Return facts and all that follows from them alone, by view: keys and, from 1, ranks,
        int64[K + 1, n].

        Return None if there are more than `most`, or the stratum cannot be evaluated in memory.
        """
        if not facts:
            return {}
        try:
            bodies = FlatBodies(
                self._txn, self._installed, self._stratum, self._bodies, self._encode, below
            )
        except NotPlain:
            return None
        flat = FlatFacts(
            bodies,
            bodies.arrays(),
            facts,
            replace(self._limits, rows_max=most),
            1,
            memory_allowed(),
        )
        status = flat.derive()
        self.work.operations += flat.operations
        if status != DERIVED_ALL:
            return None
        self.work.rows += np.bincount(flat.ranks)[1:].tolist()
        tables = {name: flat.table(p) for p, name in enumerate(bodies.names)}
        return {name: table for name, table in tables.items() if table.shape[1]}

    def _refuse_failures(self) -> None:
        """Raise RangeError if the arithmetic of a binding fails whose facts exist at the fixpoint.

        A failure with a value that a better one has replaced does not count.
        """
        for body, rows in self._failing:
            body.derive(self.facts, body.standing(self.facts, rows), self._encode)

    def _limit_steps(self, below: Mapping[Index, Tree]) -> None:
        """Allow as many steps as an evaluation from scratch would cost, given the trees that the
        stratum reads.
        """
        rows = sum({index.predicate: tree.count for index, tree in below.items()}.values())
        self._steps_left = STEPS_FREE + (self.facts.count() + rows) // STEP_ROWS

    def _changed(self, body: Body, transition: Transition, action: int) -> np.ndarray:
        """Return the bindings that a body loses (ERASE) or gains by changes outside the stratum."""
        old, new, deltas = transition
        if not any(trie.index in deltas for trie in body.plan.tries):
            return np.empty((len(body.plan.columns), 0), np.int64)
        trees = self.facts.trees
        change = maintain_by_probing(
            self._txn.pages,
            body.plan,
            Transition({**old, **trees}, {**new, **trees}, deltas),
            self._threads,
        )
        if change is None:
            return np.empty((len(body.plan.columns), 0), np.int64)
        self.work.operations += change.operations
        return change.delta.rows[:, change.delta.actions == action]

    def unfounded(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield one fact of each view, as words, without a derivation from facts before it; none
        if all is right.
        """
        below = self._below()
        for name in self.facts.stored:
            for start in self.facts.batches(name):
                known = [start[:, :0]]
                for derivations in self._search(name, start, below):
                    head = self.facts.orders(name, derivations.keys)
                    supports = derivations.body.stands & derivations.body.before(
                        head.cost, head.rank
                    )
                    known.append(derivations.keys[:, supports & (derivations.cost == head.cost)])
                lacking = binding_difference(start, distinct(np.concatenate(known, axis=1))).rows
                if lacking.shape[1]:
                    cost = self.facts.orders(name, lacking[:, :1]).cost
                    value = self.facts.values(name, cost)[: int(self.facts.folds(name))]
                    yield name, np.concatenate([lacking[:, 0], value])
                    break

    # -- rounds

    def _spread(
        self,
        fresh: Keys,
        below: Mapping[Index, Tree] | None = None,
        counted: bool = False,
        most: int | None = None,
    ) -> bool:
        """Derive the consequences of fresh facts, round by round; if `counted`, ranks are numbers
        of rounds.

        Return whether the fixpoint was reached; stop after `most` operations, if given, or when no
        steps are left.
        """
        below = below if below is not None else self._below()
        self._memory = MemoryUse(step=ROUNDS).begin()
        self._trail = None
        while total(fresh):
            self._steps_left -= 1
            if (most is not None and self.work.operations > most) or self._steps_left < 0:
                return False
            self.work.rows.append(total(fresh))
            self._limits.check(self.work.rows, self.facts.count())
            self._memory.hold(self.facts.count(), self.facts.nbytes())
            rank = len(self.work.rows) if counted else None
            fresh = self._adopt(self._gather(self._consequences(fresh, below, rank)))
            if not self.ordered and self.facts.adds_only:
                self._follow_back(fresh)
        return True

    def _follow_back(self, fresh: Keys) -> None:
        """Record the parents of fresh facts, after some rounds.

        Raises LimitError if a value becomes better along its own derivation.
        """
        rounds = len(self.work.rows)
        if self._trail:
            self._trail.complete(fresh)
        if rounds >= ROUNDS_FIRST and not rounds & (rounds - 1):
            times = TIMES_OF_FLOATS if self.facts.floats else TIMES
            if self._trail and (cycle := self._trail.cycle(times)):
                raise self._limits.endless([self.facts.shown(*fact) for fact in cycle])
            self._trail = Trail({name: self.facts.keys(name) for name in self.facts.stored})

    def _below(self) -> dict[Index, Tree]:
        """Return the trees of everything that the stratum reads from outside."""
        indices = {
            index for body in (*self._bodies, *self._searches) for index in indices_of(body.plan)
        }
        trees = self.facts.trees
        return {index: self._txn.tree(tree_name(index)) for index in indices if index not in trees}

    def _consequences(
        self, fresh: Keys, below: Mapping[Index, Tree], rank: int | None
    ) -> list[tuple[str, Proposal]]:
        """Return the facts that follow from fresh ones.

        Of bindings that take too much memory a part is joined at a time, and only what is new is
        kept of it.
        """
        proposals: list[tuple[str, Proposal]] = []
        trees = {**below, **self.facts.trees}
        for body in self._bodies:
            if body.reads(fresh):
                for rows, whole in self._parts(body, trees, fresh):
                    if rows.shape[1]:
                        proposals.append(self._propose(body, rows, rank))
                    if not whole:
                        proposals = [
                            (name, self._news(name, proposed))
                            for name, proposed in self._gather(proposals).items()
                        ]
                        held = sum(one.cost.size * (2 + len(one.keys)) for _, one in proposals)
                        self._memory.hold(self.facts.count(), self.facts.nbytes() + 8 * held)
        return proposals

    def _parts(
        self, body: Body, trees: Mapping[Index, Tree], keys: Keys
    ) -> Iterator[tuple[np.ndarray, bool]]:
        """Yield the bindings with one of some facts, and whether these are all: if they exceed a
        share of the bytes allowed, those with half of the facts, and with the others.  Raises
        RoomError if one fact has too many.
        """
        bindings = None
        try:
            with allowing(self._allowed // BINDINGS_SHARE if total(keys) > 1 else self._allowed):
                bindings = self._bindings(body, trees, keys)
        except RoomError:
            if total(keys) < 2:
                raise
        if bindings is not None:
            yield bindings, True
            return
        for half in halves(keys):
            for rows, _ in self._parts(body, trees, half):
                yield rows, False

    @cached_property
    def _allowed(self) -> int:
        """The bytes that an evaluation may take."""
        return memory_allowed()

    def _news(self, name: str, new: Proposal) -> Proposal:
        """Return the proposals that are new or better than what is stored."""
        return self.facts.better(name, new)

    def _bindings(self, body: Body, trees: Mapping[Index, Tree], keys: Keys) -> np.ndarray:
        rows, operations = body.bindings(self._txn.pages, trees, keys, self._threads)
        self.work.operations += operations
        return rows

    def _propose(
        self, body: Body, rows: np.ndarray, rank: int | None = None
    ) -> tuple[str, Proposal]:
        if self.facts.folds(body.view):
            rank = None
        derivations = self._derive(body, rows, rank)
        if self._trail:
            self._trail.add(
                body.view, derivations.keys, derivations.cost, body.read(rows, derivations.which)
            )
        return body.view, self._ordered(derivations)

    def _derive(self, body: Body, rows: np.ndarray, rank: int | None) -> Derivations:
        """Derive facts from bindings.  Raises RangeError if arithmetic fails on values that can
        no longer improve.
        """
        try:
            return body.derive(self.facts, rows, self._encode, rank=rank)
        except RangeError:
            if not body.own or not self.facts.folds(body.view):
                raise
            self._failing.append((body, rows))
            return body.derive(self.facts, rows, self._encode, strict=False, rank=rank)

    def _ordered(self, derivations: Derivations) -> Proposal:
        proposal, ordered = derivations.proposal()
        self.ordered &= ordered
        return proposal

    def _gather(self, parts: list[tuple[str, Proposal]]) -> dict[str, Proposal]:
        """Return proposals by view, the best for each key."""
        return {name: keys.best() for name, keys in gathered(parts).items()}

    def _adopt(self, proposals: Mapping[str, Proposal]) -> Keys:
        """Store facts that are new or better; return their keys."""
        fresh = {name: self.facts.put(name, proposal) for name, proposal in proposals.items()}
        return {name: keys for name, keys in fresh.items() if keys.shape[1]}

    # -- withdrawal

    def _withdraw(
        self, lost: list[tuple[str, Derivations]], below: Mapping[Index, Tree], most: int
    ) -> Keys | None:
        """Suspend all facts without a derivation from facts before them, given the derivations that
        were lost.

        Return the suspended facts; None if there are `most` or more, or no steps are left.
        """
        queue = Candidates(self.facts)
        for name, derivations in lost:
            queue.add(name, derivations, None)
        suspended: dict[str, list[np.ndarray]] = {}
        while queue:
            order, batch = queue.pop()
            for name, keys in batch.items():
                self.work.examined += keys.shape[1]
                batch[name] = self._unsupported(name, keys, order, below)
                n = batch[name].shape[1]
                self.facts.rank(
                    name, Proposal(batch[name], np.full(n, order[0]), np.full(n, SUSPENDED))
                )
                suspended.setdefault(name, []).append(batch[name])
                self.work.suspended += n
            self._steps_left -= 1
            if self.work.suspended >= most or self._steps_left < 0:
                return None
            trees = {**below, **self.facts.trees}
            for body in self._bodies:
                if body.reads(batch) and total(batch):
                    rows = self._bindings(body, trees, batch)
                    if rows.shape[1]:
                        queue.add(
                            body.view,
                            body.derive(self.facts, rows, self._encode, strict=False),
                            order,
                        )
        return {name: np.concatenate(parts, axis=1) for name, parts in suspended.items()}

    def _unsupported(
        self, name: str, keys: np.ndarray, order: tuple[int, int], below: Mapping[Index, Tree]
    ) -> np.ndarray:
        """Return those of some facts, of one order, that have no derivation from facts before."""
        parts = [np.empty((len(keys), 0), np.int64)]
        for derivations in self._search(name, keys, below):
            supports = (
                derivations.body.stands
                & derivations.body.before(*order)
                & (derivations.cost == order[0])
            )
            parts.append(derivations.keys[:, supports])
        missing = binding_difference(keys, distinct(np.concatenate(parts, axis=1)))
        return missing.rows

    def _search(
        self, name: str, keys: np.ndarray, below: Mapping[Index, Tree]
    ) -> list[Derivations]:
        """Return all derivations of some facts."""
        trees, batches = {**below, **self.facts.trees}, []
        for body in self._searches:
            for start in range(0, keys.shape[1], SEARCHED) if body.view == name else ():
                rows = self._bindings(body, trees, {name: keys[:, start : start + SEARCHED]})
                if rows.shape[1]:
                    batches.append(body.derive(self.facts, rows, self._encode, strict=False))
        return batches

    def _return(self, suspended: Keys, below: Mapping[Index, Tree]) -> Keys:
        """Restore suspended facts that derive from others, with new orders, and erase the rest."""
        parts = [
            (name, self._ordered(derivations))
            for name, keys in suspended.items()
            for derivations in self._search(name, keys, below)
        ]
        back = self._gather(parts)
        for name, keys in suspended.items():
            known = back[name].keys if name in back else keys[:, :0]
            self.facts.erase(name, binding_difference(distinct(keys), known).rows)
        for name, proposal in back.items():
            self.facts.rank(name, proposal)
        return {name: proposal.keys for name, proposal in back.items() if proposal.keys.shape[1]}


def halves(keys: Keys) -> Iterator[Keys]:
    """Yield the first half of some facts, and the others.

    >>> [*halves({"p": np.array([[1, 2]]), "q": np.array([[3, 4]])})]
    [{'p': array([[1, 2]])}, {'q': array([[3, 4]])}]
    """
    half, before = total(keys) // 2, 0
    halves: tuple[Keys, Keys] = {}, {}
    for name, rows in keys.items():
        cut, before = max(0, half - before), before + rows.shape[1]
        for part, some in zip((rows[:, :cut], rows[:, cut:]), halves, strict=True):
            if part.shape[1]:
                some[name] = part
    yield from halves


def _joined(some: Keys, others: Keys) -> Keys:
    """Return the distinct keys that some or others have, by view."""
    both = {
        name: [keys[name] for keys in (some, others) if name in keys] for name in (*some, *others)
    }
    return {name: distinct(np.concatenate(parts, axis=1)) for name, parts in both.items()}


class Candidates:
    """A priority queue, by order, of facts that may have lost their support."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._heap: list[tuple[int, int]] = []
        self._of: dict[tuple[int, int], dict[str, list[np.ndarray]]] = {}

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, name: str, derivations: Derivations, after: tuple[int, int] | None) -> None:
        """Add the facts that some derivations supported.

        `after` is the order of suspended facts in the derivations, after which supported facts
        come; without it, they come after the order of each derivation.
        """
        order = self._facts.orders(name, derivations.keys)
        supports = order.stands & (order.cost == derivations.cost)
        if after is None:
            body = derivations.body
            supports &= body.found & body.before(order.cost, order.rank)
        else:
            supports &= (order.cost > after[0]) | (
                (order.cost == after[0]) & (order.rank > after[1])
            )
        if not supports.any():
            return
        table = np.stack([order.cost[supports], order.rank[supports]])
        table = distinct(np.concatenate([table, derivations.keys[:, supports]]))
        cuts = np.flatnonzero((table[:2, 1:] != table[:2, :-1]).any(axis=0)) + 1
        for part in np.split(table, cuts, axis=1):
            place = int(part[0, 0]), int(part[1, 0])
            if place not in self._of:
                heapq.heappush(self._heap, place)
                self._of[place] = {}
            self._of[place].setdefault(name, []).append(part[2:])

    def pop(self) -> tuple[tuple[int, int], Keys]:
        """Remove and return the first order and its facts, each once."""
        place = heapq.heappop(self._heap)
        entry = self._of.pop(place)
        return place, {
            name: distinct(np.concatenate(parts, axis=1)) for name, parts in entry.items()
        }
