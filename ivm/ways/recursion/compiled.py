"""Recursive strata that a kernel maintains in one call (kernels/maintain.py): those whose heads
copy what they match.

    reach(x) <- start(x).   reach(y) <- reach(x), edge(x, y).           plain
    dist[y] = m <- agg<<m = min(c)>> dist[x] = d, edge(x, y), c = d + 1.     not: it computes values (fixpoint.py)

All that the kernel needs of the rules is laid out when a stratum is first maintained: the probes of
every plan, which plans read which view, where a binding has the keys of the stratum's facts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from ivm.join.plan_arrays import slices_room, tree_words
from ivm.plan import costs
from ivm.plan.plan import Index, Plan, Upkeep, permuted, tree_name
from ivm.rules.installed import Installed
from ivm.rules.rule import InstalledRule, InstalledStratum
from ivm.views.delta import Delta, surgeries
from ivm.ways.kernels.probe import (
    PINNED,
    PROGRESS,
    Branches,
    Composing,
    Found,
    ProbeRun,
    probe_next_at,
)
from ivm.ways.probe import ACTIONS, probed, probes_of
from ivm.ways.recursion import fixpoint
from ivm.ways.recursion.facts import Body, limits_of
from ivm.ways.recursion.kernels import facts as kernel
from ivm.ways.recursion.kernels.maintain import Probing, maintain
from pagestore.compiled import CURSOR_WORDS, TypedKernel, raise_for
from pagestore.host import ERASE, FEW, INSERT, SET, WORD_MAX, Edits, Pages, Transaction, Tree

FACTS, FACTS_MAX = 1 << 10, 1 << 22  # that there is room for at first, and at most
DERIVATIONS, SLOTS = 4, 4  # derivations noted, and slots, for each fact that there is room for
GROWTH = 8
COLUMNS = 16  # of a table without rows, at least as many as of any
OUT = 1 << 8  # bindings of one run of the join

MAINTAIN = TypedKernel(
    maintain, Pages, kernel.Strata, kernel.StrataTrees, Branches, kernel.FactsRoom, Probing, int
)
PLACE_AGAIN = TypedKernel(kernel.place_again)


class Source(NamedTuple):
    """The branches that a probe begins with: their index, how deep, and its number."""

    of: Index
    depth: int
    number: int
    whole: bool  # whether a branch is a whole key


class Allowed(NamedTuple):
    """The most operations, and the most facts that are suspended."""

    operations: int
    suspended: int


class Outcome(NamedTuple):
    """What has become of a stratum: whether that was no more work than is allowed, and the edits of
    each view's tree.

    `written` has the old trees of the views that have new facts already. If it is not finished, the
    views must be refilled. `counts` are operations, rounds, and facts examined.
    """

    finished: bool
    edits: dict[str, Edits]
    written: dict[str, dict[Index, Tree]]
    counts: tuple[int, int, int]


def compiled(installed: Installed, stratum: InstalledStratum) -> "CompiledStratum":
    """Return how a kernel maintains a stratum; it is cached."""
    known = installed.compiled_strata
    if stratum not in known:
        known[stratum] = CompiledStratum(installed, stratum)
    arrays: CompiledStratum = known[stratum]
    return arrays


Numbered = tuple[int, Body]


class Strata:
    """Plain recursive strata as arrays, added one after the other.

    `tree_of` and `queue_of` return the numbers of an index's tree, and of a view's queue of edits.
    """

    def __init__(
        self, installed: Installed, tree_of: Callable[[Index], int], queue_of: Callable[[str], int]
    ) -> None:
        self._installed, self._tree_of, self._queue_of = installed, tree_of, queue_of
        self.views: dict[str, int] = {}
        self.plans: list[Plan] = []
        self.sources: list[Source] = []
        self._static: list[np.ndarray] = [np.zeros(0, np.int64)]
        self._lists: list[int] = []
        self._tables: dict[str, list[Sequence[int]]] = {
            name: [] for name in kernel.Strata._fields[1:-2]
        }
        self._trees: list[int] = []

    def add(self, stratum: InstalledStratum) -> int:
        """Lay out the views and plans of a stratum; return its number among all that are laid out."""
        names, recursive = sorted(stratum.recursive), stratum.recursive
        first, before = len(self.plans), len(self.views)
        self.views |= {name: before + v for v, name in enumerate(names)}
        bodies = [
            Body(self._installed, rule, plan, recursive, search=False)
            for rule in stratum.rules
            for plan in rule.plans
        ]
        search = [
            Body(self._installed, rule, plan, recursive, search=True)
            for rule in stratum.rules
            for plan in rule.searches
        ]
        for body in (*bodies, *search):
            self._add_plan(body, recursive)
        numbered = [*enumerate((*bodies, *search), first)]
        middle = first + len(bodies)
        self._tables["strata"].append((first, middle, len(self.plans), before, len(self.views)))
        self._tables["views"] += [
            self._view(name, recursive, numbered[: len(bodies)], numbered[len(bodies) :])
            for name in names
        ]
        return len(self._tables["strata"]) - 1

    @property
    def arrays(self) -> kernel.Strata:
        """All strata as the kernel takes them."""
        tables = {name: _table(rows) for name, rows in self._tables.items()}
        lists, trees = (np.array(words, np.int64) for words in (self._lists, self._trees))
        return kernel.Strata(
            static=np.concatenate(self._static), lists=lists, trees=trees, **tables
        )

    def room(self, facts: int) -> kernel.FactsRoom:
        """Return arrays in which the kernel works, with room for so many facts of any stratum."""
        words, arrays = partial(np.empty, dtype=np.int64), self.arrays
        spans = _longest(arrays.plans, kernel.SOURCES)
        longest = _longest(arrays.plans, kernel.ATOMS)
        branch = int(arrays.sources[:, kernel.DEPTH].max(initial=0))
        keys = int(arrays.views[:, kernel.KEY_WORDS].max(initial=0))
        state = np.zeros(kernel.STATE, np.int64)
        return kernel.FactsRoom(
            words((facts, kernel.FACT + keys)),
            np.zeros(SLOTS * facts, np.int64),
            words((DERIVATIONS * facts, kernel.DERIVATION + longest)),
            words((kernel.LISTS, facts)),
            state,
            words(longest),
            words(CURSOR_WORDS),
            words(spans * (1 + branch)),
            words((spans, 3)),
            ACTIONS,
        )

    def _add_plan(self, body: Body, own: frozenset[str]) -> None:
        """Add a conjunction, or a plan that searches."""
        laid, tables = probes_of(body.plan), self._tables
        starts = [
            len(tables["probes"]),
            len(self._trees),
            len(tables["sources"]),
            len(tables["atoms"]),
        ]
        probes = laid.rows.copy()
        probes[:, :PINNED] += sum(map(len, self._static))
        self._static.append(laid.static)
        tables["probes"] += probes.tolist()
        self._trees += map(self._tree_of, laid.indices)
        tables["sources"] += [self._source(index, depth, own) for index, depth in probed(body.plan)]
        tables["atoms"] += [(self.views[name], self._listed(columns)) for name, columns in body.own]
        ends = len(tables["probes"]), len(self._trees), len(tables["sources"]), len(tables["atoms"])
        head = self._installed.heads[body.plan].copies
        key = self._listed(head[: self._installed.layouts[body.view].keys])
        spans = [end for span in zip(starts, ends, strict=True) for end in span]
        tables["plans"].append((*spans, laid.columns, self.views[body.view], key))
        self.plans.append(body.plan)

    def _source(self, index: Index, depth: int, recursive: frozenset[str]) -> tuple[int, ...]:
        """Return what an index's branches are: facts of a view of the stratum, or changes."""
        name = index.predicate
        columns = index.order[:depth]
        whole = depth >= _keys(self._installed, index)
        self.sources.append(Source(index, depth, len(self.sources), whole))
        if name not in recursive:
            return -1, 0, depth, self._tree_of(index), int(whole)
        if max(columns) >= self._installed.layouts[name].keys:
            return -1, 0, depth, -1, 0
        return self.views[name], self._listed(columns), depth, -1, 0

    def _view(
        self,
        name: str,
        recursive: frozenset[str],
        bodies: Sequence[Numbered],
        searches: Sequence[Numbered],
    ) -> tuple[int, ...]:
        """Return which plans read a view, which search for its facts, and where these are."""
        readers = [(p, body) for p, body in bodies if body.reads({name: NONE})]
        read = [
            body.plan.tries[read.trie].index.predicate
            for _, body in readers
            for read in body.plan.reads
        ]
        joined = not recursive.isdisjoint(read) or any(len(body.own) > 1 for _, body in readers)
        searching = [p for p, body in searches if body.view == name]
        first, then = self._listed([p for p, _ in readers]), self._listed(searching)
        stored = self._installed.stored[name]
        tree = self._tree_of(stored.indices[0])
        return (
            stored.layout.keys,
            first,
            first + len(readers),
            then,
            then + len(searching),
            int(joined),
            tree,
            tree + len(stored.names),
            self._queue_of(name),
        )

    def _listed(self, columns: Sequence[int]) -> int:
        """Return where the lists have some columns or plans."""
        self._lists.extend(columns)
        return len(self._lists) - len(columns)


class CompiledStratum:
    """A recursive stratum as arrays, and the room in which a kernel maintains it. `plain` says
    whether it can.
    """

    def __init__(self, installed: Installed, stratum: InstalledStratum) -> None:
        rules = [(rule, plan) for rule in stratum.rules for plan in (*rule.plans, *rule.searches)]
        below = {index for rule in stratum.rules for index in rule.indices}
        self.below = {index for index in below if index.predicate not in stratum.recursive}
        limits = limits_of(stratum)
        self.plain = (
            limits.rows_max is None
            and limits.rounds_max is None
            and all(rule.searches for rule in stratum.rules)
            and not any(installed.layouts[name].shown for name in stratum.recursive)
            and all(_copies(installed, rule, plan) for rule, plan in rules)
        )
        # whether no fact derives from two others, so that what follows from a change is found
        # without looking at others
        self.linear = all(
            _is_linear(plan, stratum.recursive) for rule in stratum.rules for plan in rule.plans
        )
        self._installed, self._stratum = installed, stratum
        self._arrays: kernel.Strata | None = None

    def _lay_out(self, page_words: int) -> None:
        """Lay out the stratum, and allocate the buffers of the kernel."""
        self._indices: dict[Index, int] = {}
        laid = Strata(
            self._installed,
            lambda index: self._indices.setdefault(index, len(self._indices)),
            lambda _: 0,
        )
        laid.add(self._stratum)
        self._arrays, self._names, self._laid = laid.arrays, [*laid.views], laid
        self._placed = np.empty(6 * len(self._arrays.trees), np.int64)
        self._room = laid.room(FACTS)
        sizes = [
            (p.columns, p.levels, p.width, p.state, p.atoms) for p in map(probes_of, laid.plans)
        ]
        columns, self._levels, width, state, joined = map(max, zip(*sizes, strict=True))
        words = partial(np.empty, dtype=np.int64)
        run = ProbeRun(
            words(PROGRESS),
            words(state),
            words(0),
            words(self._levels + 1),
            words((width, OUT)),
            words((0, 1, 1)),
            slices_room(joined, page_words),
        )
        composing = Composing(
            words(2 * FEW), np.empty(FEW, bool), Found(words(FEW), words((columns, FEW)))
        )
        room = Found(words(2 * OUT), words((columns, 2 * OUT)))
        self._probing = Probing(run, room, composing, probe_next_at.address())

    # -- maintained

    def allowed(self, txn: Transaction, free: int, share: int) -> Allowed:
        """Return how much work may be spent before views are evaluated anew: `free` suspended
        facts, and a share.

        Of a linear stratum, no more than what finding all that follows in memory costs at least.
        """
        facts = sum(txn.tree(name).count for name in self._stratum.recursive)
        rows = facts + sum(
            txn.tree(name).count for name in {index.predicate for index in self.below}
        )
        operations = fixpoint.STEPS_FREE * costs.STEP_OPERATIONS + int(costs.FOLLOWED_SHARE * rows)
        return Allowed(
            min(costs.IN_MEMORY if self.linear else WORD_MAX, operations), free + facts // share
        )

    def maintain(
        self,
        txn: Transaction,
        before: Mapping[Index, Tree],
        deltas: Mapping[Index, Delta],
        allowed: Allowed,
    ) -> Outcome:
        """Find out how deltas change the views, given the old trees of all that changed.  Raises
        CorruptionError.
        """
        if self._arrays is None:
            self._lay_out(txn.pages.page_words)
        self._written: dict[str, dict[Index, Tree]] = {}
        self._room.state[[kernel.IN_ROUNDS, kernel.WORK_MAX, kernel.SUSPENDED_MAX]] = 0, *allowed
        changes = self._changes(txn, before, deltas)
        trees = self._trees(txn, before)
        status = self._call(txn, trees, changes)
        while status > kernel.LIMITED or status == kernel.NO_ROOM:
            if status == kernel.WRITE:
                self._write(txn)
                self._room.state[kernel.WORK_MAX] -= costs.WRITE_OPERATIONS
                trees = self._trees(txn, before)
            elif not self._grow():
                break
            status = self._call(txn, trees, changes)
        finished = status != kernel.NO_ROOM and raise_for(status) == kernel.DONE
        edits = dict(self._edits()) if finished else {}
        operations, rounds, examined = self._room.state[
            [kernel.WORK, kernel.ROUNDS, kernel.EXAMINED]
        ].tolist()
        return Outcome(finished, edits, self._written, (operations, rounds, examined))

    def _call(self, txn: Transaction, trees: kernel.StrataTrees, changes: Branches) -> int:
        status: int = MAINTAIN.call(
            txn.pages, self._arrays, trees, changes, self._room, self._probing, 0
        )
        return status

    def _changes(
        self, txn: Transaction, before: Mapping[Index, Tree], deltas: Mapping[Index, Delta]
    ) -> Branches:
        """Return the branches that have changed, for each source of the conjunctions."""
        spans, pieces, at = np.zeros((len(self._laid.sources), 3), np.int64), [], 0
        for source in self._laid.sources:
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

    def _trees(self, txn: Transaction, before: Mapping[Index, Tree]) -> kernel.StrataTrees:
        """Return the trees that the plans read, before and now, and those of the views."""
        now = [txn.tree(tree_name(index)) for index in self._indices]
        then = map(before.get, self._indices, now)
        old, new = (np.array(tree_words(trees), np.int64).reshape(-1, 3) for trees in (then, now))
        return kernel.StrataTrees(old, new, self._placed)

    def _edits(self) -> Iterator[tuple[str, Edits]]:
        """Yield the edits of each changed view, by which its tree has its facts with ranks."""
        for v, facts in self._by_view():
            old = facts[:, kernel.OLD]
            now = np.where(facts[:, kernel.FATE] == kernel.STANDS, facts[:, kernel.RANK], -1)
            keys = self._views[v, kernel.KEY_WORDS]
            actions = np.where(now < 0, ERASE, np.where(old < 0, INSERT, SET))
            yield (
                self._names[v],
                (
                    actions,
                    np.concatenate([facts[:, kernel.FACT : kernel.FACT + keys].T, now[None]]),
                ),
            )

    def _by_view(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (number of a view, facts) whose trees do not have them as they are now."""
        facts = self._room.facts[: self._room.state[kernel.FACTS]]
        now = np.where(facts[:, kernel.FATE] == kernel.STANDS, facts[:, kernel.RANK], -1)
        facts = facts[now != facts[:, kernel.OLD]]
        for v in range(len(self._names)) if len(facts) else ():
            of = facts[facts[:, kernel.VIEW] == v]
            if len(of):
                yield v, of

    def _write(self, txn: Transaction) -> None:
        """Write new facts that rounds join with others to their trees."""
        facts = self._room.facts[: self._room.state[kernel.FACTS]]
        fresh = (facts[:, kernel.OLD] < 0) & (facts[:, kernel.FATE] == kernel.STANDS)
        for v in np.flatnonzero(self._views[:, kernel.WRITTEN_FIRST]).tolist():
            which = np.flatnonzero(fresh & (facts[:, kernel.VIEW] == v))
            if len(which):
                keys = self._views[v, kernel.KEY_WORDS]
                kept = self._installed.stored[self._names[v]]
                columns = [*range(kernel.FACT, kernel.FACT + keys), kernel.RANK]
                rows = np.ascontiguousarray(facts[np.ix_(which, columns)].T)
                actions = np.full(len(which), INSERT)
                self._written.setdefault(
                    self._names[v], kept.of_indices([*map(txn.tree, kept.names)])
                )
                txn.apply_indexed(kept.names, kept.places, actions, rows, kept.layout.visible)
                facts[which, kernel.OLD] = facts[which, kernel.RANK]

    def _grow(self) -> bool:
        """Make more room, and begin again unless there were rounds; return False if there is as
        much as may be.
        """
        old = self._room
        count, size = int(old.state[kernel.FACTS]), GROWTH * len(old.facts)
        if size > FACTS_MAX:
            return False
        more = self._laid.room(size)
        self._room = old._replace(
            facts=more.facts, slots=more.slots, derivations=more.derivations, listed=more.listed
        )
        if not old.state[kernel.IN_ROUNDS]:
            old.state[kernel.FACTS] = 0
            return True
        more.facts[:count] = old.facts[:count]
        more.listed[:, : old.listed.shape[1]] = old.listed
        PLACE_AGAIN.call(self._arrays, more.facts, more.slots, count)
        return True

    @property
    def _views(self) -> np.ndarray:
        assert self._arrays
        return self._arrays.views


NONE = np.empty((0, 0), np.int64)


def _copies(installed: Installed, rule: InstalledRule, plan: Plan) -> bool:
    """Return whether a rule's only head copies columns of bindings, and the plan has probes."""
    return bool(
        plan.way.upkeep is Upkeep.PROBE
        and not plan.filters
        and not plan.computed
        and len(rule.definition.heads) == 1
        and installed.heads[plan].copies
    )


def _is_linear(plan: Plan, recursive: frozenset[str]) -> bool:
    """Return whether a plan has at most one atom of the views `recursive`."""
    return sum(trie.index.predicate in recursive for trie in plan.tries) <= 1


def _keys(installed: Installed, index: Index) -> int:
    """Return the number of key words of an index's tree."""
    return len(index.order) if permuted(index) else installed.layouts[index.predicate].keys


def _longest(plans: np.ndarray, first: int) -> int:
    """Return how long a span of a plan is at most, given the column where it begins; the next
    one has its end.
    """
    return int((plans[:, first + 1] - plans[:, first]).max(initial=0))


def _table(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Return rows as an array of two dimensions, also if there are none."""
    return np.array(rows, np.int64) if rows else np.zeros((0, COLUMNS), np.int64)
