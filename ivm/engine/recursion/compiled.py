"""Recursive strata that a kernel maintains in one call (kernels/maintain.py): those whose heads copy what they match.

    reach(x) <- start(x).   reach(y) <- reach(x), edge(x, y).           plain
    dist[y] = m <- agg<<m = min(c)>> dist[x] = d, edge(x, y), c = d + 1.     not: it computes values (fixpoint.py)

All that the kernel needs of the rules is laid out when a stratum is first maintained: the probes of every plan, which
plans read which view, where a binding has the keys of the stratum's facts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from ivm.engine.installed import Installed, InstalledRule, InstalledStratum
from ivm.engine.recursion.facts import Body, limits_of
from ivm.engine.recursion.kernels import maintain as kernel
from ivm.join.plan_arrays import slices_room, tree_words
from ivm.maintenance.kernels.probe import PINNED, PROGRESS, Branches, Composing, Found, ProbeRun, probe_next_at
from ivm.maintenance.probe import ACTIONS, probed, probes_of
from ivm.maintenance.surgery import Delta, surgeries
from ivm.plan.plan import Index, Plan, indices_of, permuted, tree_name
from pagestore.compiled import CURSOR_WORDS, Table, TypedKernel, Words, raise_for
from pagestore.host import ERASE, FEW, INSERT, SET, Edits, Pages, Transaction, Tree

FACTS, FACTS_MAX = 1 << 10, 1 << 22  # that there is room for at first, and at most
DERIVATIONS = 4  # noted, for each fact that there is room for
GROWTH = 8
OUT = 1 << 8  # bindings of one run of the join

MAINTAIN = TypedKernel(
    kernel.maintain, Pages, kernel.Stratum, kernel.StratumTrees, Branches, kernel.FactsRoom, kernel.Probing
)
PLACE_AGAIN = TypedKernel(kernel.place_again, kernel.Stratum, Table, Words, int)


Listed = Callable[[Sequence[int]], int]


class Source(NamedTuple):
    """The branches that a probe begins with: the index that they are of, how deep, and its number."""

    of: Index
    depth: int
    number: int
    whole: bool  # whether a branch is a whole key


class Allowed(NamedTuple):
    """The most operations, and the most facts that are suspended."""

    operations: int
    suspended: int


class Outcome(NamedTuple):
    """What has become of a stratum: whether that was no more work than is allowed, and the edits of each view's tree.

    `written` has the old trees of the views that have new facts already. If it is not finished, the views must be
    refilled.
    """

    finished: bool
    edits: dict[str, Edits]
    written: dict[str, dict[Index, Tree]]
    operations: int
    examined: int
    rounds: int


def compiled(installed: Installed, stratum: InstalledStratum) -> "CompiledStratum":
    """Return how a kernel maintains a stratum; it is cached."""
    known = installed.compiled_strata
    if stratum not in known:
        known[stratum] = CompiledStratum(installed, stratum)
    found: CompiledStratum = known[stratum]
    return found


class CompiledStratum:
    """A recursive stratum as arrays, and the room in which a kernel maintains it. `plain` says whether it can."""

    def __init__(self, installed: Installed, stratum: InstalledStratum) -> None:
        self.names = sorted(stratum.recursive)
        bodies = [(rule, plan) for rule in stratum.rules for plan in rule.plans]
        searches = [(rule, plan) for rule in stratum.rules for plan in rule.searches]
        every = [plan for _, plan in (*bodies, *searches)]
        own = stratum.recursive
        self.below = {i for plan in every for i in indices_of(plan) if i.predicate not in own}
        limits = limits_of(stratum)
        self.plain = limits.rows_max is None and limits.rounds_max is None and bool(searches)
        self.plain &= not any(installed.layouts[name].shown for name in self.names)
        self.plain &= all(_copies(installed, rule, plan) for rule, plan in (*bodies, *searches))
        if not self.plain:
            return
        self._installed = installed
        self._laid = [probes_of(plan) for plan in every]
        made = [Body(installed, rule, plan, own, search=False) for rule, plan in bodies]
        made += [Body(installed, rule, plan, own, search=True) for rule, plan in searches]
        self._stratum = self._lay_out(made, len(bodies))
        self._indices = [*dict.fromkeys(index for laid in self._laid for index in laid.indices)]
        firsts = [installed.stored[name].indices[0] for name in self.names]
        self._indices += [index for index in firsts if index not in self._indices]
        numbers, n = {index: number for number, index in enumerate(self._indices)}, len(self._indices)
        of = [[numbers[index] for index in laid.indices] for laid in self._laid]
        self._gather = np.array([n * new + number for some in of for new in range(2) for number in some])
        self._own = np.array([n + numbers[index] for index in firsts])
        self._room: kernel.FactsRoom | None = None
        self._probing: kernel.Probing

    # -- laid out

    def _lay_out(self, every: Sequence[Body], bodies: int) -> kernel.Stratum:
        """Return the stratum as the kernel takes it."""
        lists: list[int] = []

        def listed(columns: Sequence[int]) -> int:
            lists.extend(columns)
            return len(lists) - len(columns)

        keys = [self._installed.layouts[name].keys for name in self.names]
        static: list[np.ndarray] = [np.zeros(0, np.int64)]
        plans: list[Sequence[int]] = []
        probes: list[Sequence[int]] = []
        sources: list[Sequence[int]] = []
        atoms: list[Sequence[int]] = []
        self._sources: list[Source] = []
        trees = 0
        for number, (body, laid) in enumerate(zip(every, self._laid, strict=True)):
            first = len(sources)
            for index, depth in probed(body.plan):
                if number < bodies:
                    self._sources.append(Source(index, depth, len(sources), depth >= _keys(self._installed, index)))
                sources.append(self._source(index, index.order[:depth], listed))
            table = laid.rows.copy()
            table[:, :PINNED] += sum(map(len, static))
            static.append(laid.static)
            (_, _, head) = self._installed.heads[body.plan].copies[0]
            ends = len(probes), len(probes) + len(table), trees, trees + len(laid.indices), first, len(sources)
            own = len(atoms), len(atoms) + len(body.own)
            v = self.names.index(body.view)
            plans.append((*ends, *own, laid.columns, v, listed(head[: keys[v]])))
            atoms += [(self.names.index(name), listed(columns)) for name, columns in body.own]
            probes += table.tolist()
            trees += len(laid.indices)
        views = [self._view(v, keys[v], every, bodies, listed) for v in range(len(keys))]
        return kernel.Stratum(
            np.concatenate(static), _table(probes), _table(plans), _table(sources), _table(atoms), _table(views),
            np.array(lists, np.int64), bodies,
        )  # fmt: skip

    def _source(self, index: Index, columns: tuple[int, ...], listed: Listed) -> tuple[int, int, int]:
        """Return a source: the stratum's view whose facts may be branches of an index."""
        name = index.predicate
        if name not in self.names or max(columns) >= self._installed.layouts[name].keys:
            return -1, 0, len(columns)
        return self.names.index(name), listed(columns), len(columns)

    def _view(self, v: int, keys: int, every: Sequence[Body], bodies: int, listed: Listed) -> tuple[int, ...]:
        """Return which plans read a view, and which search for its facts."""
        name, own = self.names[v], [body for body in every[:bodies] if body.reads({self.names[v]: NONE})]
        readers = [p for p, body in enumerate(every[:bodies]) if body in own]
        searches = [p for p, body in enumerate(every) if p >= bodies and body.view == name]
        read = [body.plan.tries[read.trie].index.predicate for body in own for read in body.plan.reads]
        first, then = listed(readers), listed(searches)
        joined = not {*self.names}.isdisjoint(read) or any(len(body.own) > 1 for body in own)
        return keys, first, first + len(readers), then, then + len(searches), int(joined)

    # -- maintained

    def maintain(
        self, txn: Transaction, before: Mapping[Index, Tree], deltas: Mapping[Index, Delta], allowed: Allowed
    ) -> Outcome:
        """Find out how deltas change the views, given the old trees of all that changed.  Raises CorruptionError."""
        if self._room is None:
            self._make_room(txn.pages.page_words)
        self._begin(allowed)
        changes = self._changes(txn, before, deltas)
        trees = self._trees(txn, before)
        status = self._call(txn, trees, changes)
        while status > kernel.LIMITED or status == kernel.NO_ROOM:
            if status == kernel.WRITE:
                self._write(txn)
                trees = self._trees(txn, before)
            elif not self._grow(allowed):
                break
            status = self._call(txn, trees, changes)
        finished = status != kernel.NO_ROOM and raise_for(status) == kernel.DONE
        edits = dict(self._edits()) if finished else {}
        assert self._room
        counts = self._room.state[[kernel.WORK, kernel.EXAMINED, kernel.ROUNDS]].tolist()
        return Outcome(finished, edits, self._written, *counts)

    def _call(self, txn: Transaction, trees: kernel.StratumTrees, changes: Branches) -> int:
        assert self._room
        status: int = MAINTAIN.call(txn.pages, self._stratum, trees, changes, self._room, self._probing)
        return status

    def _changes(self, txn: Transaction, before: Mapping[Index, Tree], deltas: Mapping[Index, Delta]) -> Branches:
        """Return the branches that have changed, for each source of the conjunctions."""
        spans, pieces, at = np.zeros((len(self._stratum.sources), 3), np.int64), [], 0
        for source in self._sources:
            delta = deltas.get(source.of)
            if delta is None:
                continue
            if not source.whole:
                new = txn.tree(tree_name(source.of))
                delta = surgeries(txn.pages, delta, before[source.of], new, source.depth)
            actions, rows = delta.actions, delta.rows[: source.depth]
            spans[source.number] = at, len(actions), len(actions)
            pieces += [actions, rows.ravel()]
            at += len(actions) + rows.size
        room = (self._levels + 1) * max(1, int(spans[:, 1].max()))
        if len(self._probing.run.regions) < room:
            run = self._probing.run._replace(regions=np.empty(room, np.int64))
            self._probing = self._probing._replace(run=run)
        return Branches(np.concatenate(pieces), spans, ACTIONS)

    def _trees(self, txn: Transaction, before: Mapping[Index, Tree]) -> kernel.StratumTrees:
        """Return the trees that the plans read, before and now, and those of the views."""
        now = [txn.tree(tree_name(index)) for index in self._indices]
        then = map(before.get, self._indices, now)
        words = np.array(tree_words([*then, *now]), np.int64).reshape(-1, 3)
        return kernel.StratumTrees(words[self._gather].ravel(), words[self._own])

    def _edits(self) -> Iterator[tuple[str, Edits]]:
        """Yield the edits of each view that has changed, by which its tree has its facts with their ranks."""
        for v, facts in self._by_view():
            old, now = facts[:, kernel.OLD], np.where(facts[:, kernel.FATE] == kernel.STANDS, facts[:, kernel.RANK], -1)
            keys = self._stratum.views[v, kernel.KEY_WORDS]
            actions = np.where(now < 0, ERASE, np.where(old < 0, INSERT, SET))
            yield self.names[v], (actions, np.concatenate([facts[:, kernel.FACT : kernel.FACT + keys].T, now[None]]))

    def _by_view(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (number of a view, facts) whose trees do not have them as they are now."""
        assert self._room
        facts = self._room.facts[: self._room.state[kernel.FACTS]]
        now = np.where(facts[:, kernel.FATE] == kernel.STANDS, facts[:, kernel.RANK], -1)
        facts = facts[now != facts[:, kernel.OLD]]
        for v in range(len(self.names)) if len(facts) else ():
            of = facts[facts[:, kernel.VIEW] == v]
            if len(of):
                yield v, of

    def _write(self, txn: Transaction) -> None:
        """Write new facts that rounds join with others to their trees."""
        assert self._room
        facts = self._room.facts[: self._room.state[kernel.FACTS]]
        fresh = (facts[:, kernel.OLD] < 0) & (facts[:, kernel.FATE] == kernel.STANDS)
        for v in np.flatnonzero(self._stratum.views[:, kernel.WRITTEN_FIRST]).tolist():
            which = np.flatnonzero(fresh & (facts[:, kernel.VIEW] == v))
            if len(which):
                keys, kept = self._stratum.views[v, kernel.KEY_WORDS], self._installed.stored[self.names[v]]
                columns = [*range(kernel.FACT, kernel.FACT + keys), kernel.RANK]
                rows = np.ascontiguousarray(facts[np.ix_(which, columns)].T)
                actions = np.full(len(which), INSERT)
                self._written.setdefault(self.names[v], kept.of_indices([*map(txn.tree, kept.names)]))
                txn.apply_indexed(kept.names, kept.places, actions, rows, kept.layout.visible)
                facts[which, kernel.OLD] = facts[which, kernel.RANK]

    # -- room

    def _begin(self, allowed: Allowed) -> None:
        """Forget the facts of the last time."""
        room = self._room
        assert room
        self._written: dict[str, dict[Index, Tree]] = {}
        room.slots[room.facts[: room.state[kernel.FACTS], kernel.SLOT]] = 0
        room.state.fill(0)
        room.state[[kernel.WORK_MAX, kernel.SUSPENDED_MAX]] = allowed

    def _make_room(self, page_words: int) -> None:
        """Allocate the buffers of the kernel."""
        laid, views, atoms = self._laid, self._stratum.views, self._stratum.plans
        columns, self._levels, width, state, joined = (
            max(sizes) for sizes in zip(*((p.columns, p.levels, p.width, p.state, p.atoms) for p in laid), strict=True)
        )
        words = partial(np.empty, dtype=np.int64)
        run = ProbeRun(
            words(PROGRESS), words(state), words(0), words(self._levels + 1), words((width, OUT)), words((0, 1, 1)),
            slices_room(joined, page_words),
        )  # fmt: skip
        few = Found(words(FEW), words((columns, FEW)))
        composing = Composing(words(2 * FEW), np.empty(FEW, bool), few)
        found = Found(words(2 * OUT), words((columns, 2 * OUT)))
        self._probing = kernel.Probing(run, found, composing, probe_next_at.address())
        spans = int((atoms[:, kernel.SOURCES_END] - atoms[:, kernel.SOURCES]).max())
        own = int((atoms[:, kernel.ATOMS_END] - atoms[:, kernel.ATOMS]).max())
        branch = int(self._stratum.sources[:, kernel.DEPTH].max())
        width = kernel.FACT + int(views[:, kernel.KEY_WORDS].max())
        self._room = kernel.FactsRoom(
            words((FACTS, width)), np.zeros(4 * FACTS, np.int64), words((DERIVATIONS * FACTS, kernel.DERIVATION + own)),
            words((kernel.LISTS, FACTS)), np.zeros(kernel.STATE, np.int64), words(own), words(CURSOR_WORDS),
            words(spans * (1 + branch)), words((spans, 3)), ACTIONS,
        )  # fmt: skip

    def _grow(self, allowed: Allowed) -> bool:
        """Make more room, and begin again unless there were rounds; return False if there is as much as may be."""
        old = self._room
        assert old
        count, size = int(old.state[kernel.FACTS]), GROWTH * len(old.facts)
        if size > FACTS_MAX:
            return False
        words = partial(np.empty, dtype=np.int64)
        self._room = old._replace(
            facts=words((size, old.facts.shape[1])), slots=np.zeros(4 * size, np.int64),
            derivations=words((DERIVATIONS * size, old.derivations.shape[1])), listed=words((kernel.LISTS, size)),
        )  # fmt: skip
        if not old.state[kernel.IN_ROUNDS]:
            old.state[kernel.FACTS] = 0
            self._begin(allowed)
            return True
        self._room.facts[:count] = old.facts[:count]
        self._room.listed[:, : old.listed.shape[1]] = old.listed
        PLACE_AGAIN.call(self._stratum, self._room.facts, self._room.slots, count)
        return True


NONE = np.empty((0, 0), np.int64)


def _copies(installed: Installed, rule: InstalledRule, plan: Plan) -> bool:
    """Return whether the only head of a rule copies columns of a plan's bindings, and the plan has probes."""
    return bool(
        plan.probes and not plan.once and not plan.filters and not plan.computed
        and len(rule.definition.heads) == 1 and installed.heads[plan].copies
    )  # fmt: skip


def _keys(installed: Installed, index: Index) -> int:
    """Return the number of key words of an index's tree."""
    return len(index.order) if permuted(index) else installed.layouts[index.predicate].keys


def _table(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Return rows as an array of two dimensions, also if there are none."""
    return np.array(rows, np.int64) if rows else np.zeros((0, 2), np.int64)
