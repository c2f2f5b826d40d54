"""The schedule of edits through all rules: which trees take edits and which plans are maintained, step by step.

    edge ──▶ flush edge ──▶ follow triangle(x, y, z) <- edge(x, y), ... ──▶ flush triangle ──▶ ...

For a few edits, one kernel call (kernels/schedule.py) runs the first steps, as long as these are plain: relations
without a separate state but that of a least or greatest value, plans that are probed by whole keys or scan a relation
and whose filters compare columns, ranges of which the first or last record is wanted, heads that copy columns of
bindings, count them or add one up, also in recursion. Sums are checked afterwards. Of the plans that scan, only those
that a change reaches are maintained (maintenance/reach.py).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain, compress, starmap, takewhile
from typing import Any, NamedTuple

import numpy as np

from ivm.engine.fill import Account
from ivm.engine.installed import Installed, InstalledRule, InstalledStratum
from ivm.engine.kernels import schedule as kernel
from ivm.engine.kernels.ranges import WIDTH, RangeRoom
from ivm.engine.kernels.schedule import EXCESS_FREE, ScheduleRoom, ScheduleTable
from ivm.engine.recursion.compiled import FACTS, Strata, compiled
from ivm.engine.recursion.kernels.facts import SUSPENDED_MAX, WORK, WORK_MAX
from ivm.engine.recursion.kernels.maintain import maintain_at
from ivm.join.plan_arrays import slices_room
from ivm.lang.types import word_range
from ivm.maintenance.kernels.probe import PINNED, PROGRESS, Found, ProbeRun, probe_next_at
from ivm.maintenance.probe import ACTIONS, probed, probes_of
from ivm.maintenance.reach import Reach, Tested, places_of, tested
from ivm.maintenance.surgery import Delta
from ivm.plan.expression import Encode, Encoder
from ivm.plan.plan import Index, Plan, permuted
from ivm.plan.rewrite.ranges import SEEK_LAST
from ivm.views.layouts import FALLING, PLAIN, SUM, SUPPORT
from pagestore.compiled import CURSOR_WORDS, TAKEN, FlushRoom, PageAccounts, Queues, TypedKernel
from pagestore.host import (
    ALONE,
    FEW,
    KEYS_MAX,
    MOST,
    TREE_WORDS,
    WORD_MAX,
    WORD_MIN,
    EditQueue,
    Edits,
    EphemeralTransaction,
    Pages,
    Short,
    Transaction,
    Tree,
)

HOW = {PLAIN: kernel.ROWS, SUPPORT: kernel.COUNTED, SUM: kernel.SUMMED, FALLING: kernel.FALLING}
NO_EDITS = np.empty(0, np.int64), np.empty((0, 0), np.int64)

# Operations for a recursive stratum, two milliseconds; whether more are worth it depends on its size (compiled.py).
RECURSIVE_MOST = 1 << 13
SCHEDULES_MAX = 64  # each keeps at most some megabytes of buffers

CARRY = TypedKernel(
    kernel.carry,
    int,
    Pages,
    PageAccounts,
    Queues,
    FlushRoom,
    int,
    ScheduleTable,
    ScheduleRoom,
    ProbeRun,
    Found,
    Found,
    int,
)


class Flush(NamedTuple):
    """Apply the edits in the queue of a predicate to its trees."""

    name: str


class Follow(NamedTuple):
    """Maintain the heads of one plan of a rule after changes in its body."""

    rule: InstalledRule
    number: int

    @property
    def rules(self) -> tuple[InstalledRule, ...]:
        """The rules that the step maintains."""
        return (self.rule,)

    @property
    def plan(self) -> Plan:
        """The plan that is probed."""
        return self.rule.plans[self.number]


class Settle(NamedTuple):
    """Find out how the views of a recursive stratum change after changes of relations that it reads.

    The kernel leaves edits in their queues, which are then flushed; in Python, they are flushed already.
    """

    stratum: InstalledStratum

    @property
    def rules(self) -> tuple[InstalledRule, ...]:
        """The rules that the step maintains."""
        return self.stratum.rules


class Scan(NamedTuple):
    """Maintain the view of a rule without plans: one evaluated by ranges, or one of the texts of a concat."""

    rule: InstalledRule

    @property
    def rules(self) -> tuple[InstalledRule, ...]:
        """The rules that the step maintains."""
        return (self.rule,)


Step = Flush | Follow | Settle | Scan


def schedule_of(installed: Installed, names: frozenset[str]) -> "Schedule":
    """Return the schedule of edits of some predicates; it is cached."""
    schedules = installed.schedules
    if names not in schedules:
        if len(schedules) >= SCHEDULES_MAX:
            schedules.clear()
        schedules[names] = Schedule(installed, names)
    schedule: Schedule = schedules[names]
    return schedule


def carry(
    txn: Transaction, installed: Installed, edits: Mapping[str, Edits]
) -> tuple[dict[str, Account] | None, int | None]:
    """Apply a few edits and maintain all that follows from them in one kernel call, without an Engine.

    Returns what was done of each view, and None; or None and what an Engine is to do it with (its `apply_edits`).
    """
    names = frozenset(edits)
    schedule = schedule_of(installed, names)
    if not is_carried(schedule, installed, txn.catalog) or installed.outgrown(names, txn.counts):
        return None, None
    started = time.perf_counter()
    done = schedule.run(txn, edits, Encoder(txn))
    if done < len(schedule.steps):
        return None, done
    seconds, found = time.perf_counter() - started, schedule.accounts()
    for name, operations, inserted, _ in found:
        if operations > EXCESS_FREE or (inserted and name in schedule.checked):
            return None, done
    return schedule.account(seconds), None


def is_carried(schedule: "Schedule", installed: Installed, catalog: object) -> bool:
    """Return whether a kernel takes all steps of edits, by rules that were checked for a catalog."""
    return schedule.is_plain and installed.checked_catalog.get("catalog") is catalog and not installed.constraints


class Schedule:
    """The steps of edits of some predicates, of which a kernel runs the first."""

    def __init__(self, installed: Installed, names: frozenset[str]) -> None:
        self._installed, self.steps = installed, steps_of(installed, names)
        plain = [*takewhile(partial(_is_plain, installed), self.steps)]
        self._plain = len(plain)
        parts = map(partial(_parts, installed), plain)
        self._steps = [number for number, n in enumerate(parts) for _ in range(n)]  # of which each of the kernel's is
        self._at = 0  # where the kernel stopped
        # whether all steps may be the kernel's
        self.is_plain = bool(plain) and plain == self.steps and not installed.needed_for(names)
        self.names = sorted(names.union(*map(_touched, plain)))
        kept = [installed.stored[name] for name in self.names]
        folds = [(name, one.layout.fold) for name, one in zip(self.names, kept, strict=True)]
        states = [(name, fold.state) for name, fold in folds if fold and fold.is_first]
        self._folds = {state.name: name for name, state in states}  # views by the names of their states
        groups = [*self.names, *self._folds]
        self.numbers = {name: number for number, name in enumerate(groups)}
        self.trees: dict[Index, int] = {}  # the number of an index's tree among those of all queues
        self._shapes = [EditQueue(one.names, one.places, one.layout.visible) for one in kept]
        self._shapes += [EditQueue((state.name,), ALONE, state.visible) for _, state in states]
        ends = accumulate((len(shape.names) for shape in self._shapes), initial=0)
        self.firsts = dict(zip(groups, ends, strict=False))  # the first of each group's trees
        for name, one in zip(self.names, kept, strict=True):
            first = self.firsts[name]
            self.trees |= one.of_indices(range(first, first + len(one.names)))
        self._limited = {name for name in self.names if _is_limited(installed, name)}
        self._refusable = self._limited.union(name for name in self.names if installed.stored[name].checked)
        self._limited_trees = np.array([self.firsts[name] for name in sorted(self._limited)], np.int64)
        self.checked = self._limited  # the predicates whose rows Python checks: functions if one has a key in conflict
        self._catalog: object = None
        self._strata = Strata(installed, self.tree_of, self.numbers.__getitem__)
        follows = [step for step in plain if isinstance(step, Follow)]
        self._plans = [step.plan for step in follows]
        self._probing_plans = [plan for plan in self._plans if not plan.is_scan]
        ranges = [step for step in plain if isinstance(step, Scan)]
        counted = [*enumerate(rule.writes for rule in (*(f.rule for f in follows), *(r.rule for r in ranges)))]
        self._accounts = [
            (name, self.firsts[name], [number for number, writes in counted if name in writes]) for name in self.names
        ]
        settled = [step for step in plain if isinstance(step, Settle)]
        self._strata_of = {name: s for s, step in enumerate(settled) for name in step.stratum.recursive}
        self._carries = any(not isinstance(step, Flush) for step in plain)
        laid = _Layout(self, installed, self._strata)
        for step in plain:
            laid.add(step)
        self._reach, self._fixed = laid.tables()
        self._scanning: dict[Index, dict[Plan, Tested]] = {}  # the plans that scan each relation
        for step in self.steps:
            if isinstance(step, Follow) and step.plan.is_scan:
                self._scanning.setdefault(step.plan.tries[0].index, {})[step.plan] = _tested(step)
        self._reaches: dict[Index, Reach] = {}

    def run(self, txn: Transaction, edits: Mapping[str, Edits], encode: Encode) -> int:
        """Run as many first steps as the kernel can; return how many. The results are in `queues`."""
        if not (self._carries or self.is_plain) or isinstance(txn, EphemeralTransaction):
            return 0  # no kernel writes to a sketch, whose thread need not be the writer's
        for actions, _ in edits.values():
            if len(actions) > FEW:
                return 0
        if self._catalog is not txn.catalog:
            self._catalog, self.queues = txn.catalog, txn.edit_queues(self._shapes)
            self._working, *self._probing = self._make_room(txn.pages.page_words)
        if self._reach.tests:
            self._reach.encode(encode)
        self.queues.clear()
        for name, edit in edits.items():
            self.queues.wait(self.numbers[name], *edit)
        self._at = self._carried(txn, 0)
        if 0 < self._at < len(self._steps) and self._may_lack_pages(self._fixed.steps[self._at, kernel.KIND]):
            self._at = self._carried(txn, self._at)
        self.checked = self._refusable if self._working.conflicts[0] else self._limited
        return self._steps[self._at] if self._at < len(self._steps) else self._plain

    def short(self, name: str, fits: Callable[[], bool], done: Callable[[], None]) -> Short:
        """Return how the kernel commits edits of a predicate, where it takes all steps, as `run` has done before.

        It does so only if `fits()`; `done` is called after each commit.
        """
        room = self._fixed, self._working, *self._probing, probe_next_at.address()

        def carried(*given: object) -> None:
            if fits():
                CARRY.call(0, *given, *room)

        return Short(self.queues, self.numbers[name], self._limited_trees, carried, done=done)

    @property
    def gains(self) -> np.ndarray:
        """How many rows each tree gained in the newest commit of a series, int64[T]."""
        return self.queues.gains

    def _may_lack_pages(self, kind: int) -> bool:
        """Return whether the kernel may have stopped at a step of a kind since it ran out of pages."""
        if kind == kernel.RECUR:
            return bool(self._working.facts.state[WORK] <= RECURSIVE_MOST)
        return kind == kernel.FLUSH

    def reached(self, index: Index, rows: np.ndarray, encode: Encode) -> set[Plan]:
        """Return the plans that scan a relation and may have bindings among its changed rows[C, n]."""
        plans = self._scanning[index]
        if index not in self._reaches:
            self._reaches[index] = Reach([*plans.values()])
        self._reaches[index].encode(encode)
        return {*compress(plans, self._reaches[index].of(rows))}

    def _carried(self, txn: Transaction, begin: int) -> int:
        """Run the kernel from step `begin` on, with more pages if that is not the first; return where it stopped."""
        room = self._fixed, self._working, *self._probing, probe_next_at.address()
        last = self._limited_trees if self.is_plain else None  # whether a commit may follow
        return txn.flush(self.queues, lambda *given: CARRY.call(begin, *given, *room), begin > 0, last)

    def account(self, seconds: float) -> dict[str, Account]:
        """Return what the kernel did of each view that it touched, in some seconds."""
        return {
            name: Account(seconds, count, 0, inserted, erased, *self.recursion_of(name))
            for name, count, inserted, erased in self.accounts()
        }

    def accounts(self) -> list[tuple[str, int, int, int]]:
        """Return (predicate, operations of its plans, rows inserted, rows erased) for each that the kernel touched."""
        operations, turnover = self._working.operations.tolist(), self.queues.turnover
        recursion = self._working.recursion[:, 0].tolist() if self._strata_of else ()
        found = list[tuple[str, int, int, int]]()
        for name, first, plans in self._accounts:
            count = sum(map(operations.__getitem__, plans)) if plans else 0
            if name in self._strata_of:
                count = recursion[self._strata_of[name]]
            inserted, erased = turnover(first)
            if inserted or erased or count:
                found.append((name, count, inserted, erased))
        return found

    def recursion_of(self, name: str) -> tuple[int, int]:
        """Return the rounds that the kernel took for a predicate, and the facts that it examined; none if it is no
        recursive view.
        """
        if name not in self._strata_of:
            return 0, 0
        _, rounds, examined = self._working.recursion[self._strata_of[name]].tolist()
        return rounds, examined

    def changes_of(self, name: str) -> tuple[dict[Index, Tree], dict[Index, Delta]]:
        """Return a predicate's old trees, and their changes."""
        queues, kept, first = self.queues, self._installed.stored[name], self.firsts[name]
        (actions, rows), *others = [queues.changes(t) for t in range(first, first + len(kept.names))]
        deltas = [Delta(actions, rows[: kept.layout.visible]), *starmap(Delta, others)]
        return kept.of_indices(queues.trees[first : first + len(kept.names)]), kept.of_indices(deltas)

    def waiting(self) -> dict[str, list[Edits]]:
        """Return the edits still pending, by predicate; those of a state by its view, unless the state has changed."""
        found, views = dict[str, list[Edits]](), {*self._folds.values()}
        for name, number in self.numbers.items():
            if self.queues.waits[number] and name not in views:
                found[self._folds.get(name, name)] = [self.queues.waiting(number)]
        return found | {self._folds[state]: [NO_EDITS] for state in self.state_changes()}

    def state_changes(self) -> dict[str, Edits]:
        """Return the change of a state, by its name, if the kernel stopped after it and before the view followed."""
        at, steps = self._at, self._steps
        if not 0 < at < len(steps) or steps[at] != steps[at - 1]:
            return {}
        step = self.steps[steps[at]]
        assert isinstance(step, Flush), "only these are several steps of the kernel"
        (state,) = (state for state, view in self._folds.items() if view == step.name)
        return {state: self.queues.changes(self.firsts[state])}

    def tree_of(self, index: Index) -> int:
        """Return the number of an index's tree; of its relation's, if the index is deferred and not read."""
        return self.firsts[index.predicate] if index in self._installed.deferred else self.trees[index]

    def _make_room(self, page_words: int) -> tuple[ScheduleRoom, ProbeRun, Found, Found]:
        """Allocate the kernel's buffers, which all plans use one after the other."""
        laid = [*map(probes_of, (*self._probing_plans, *self._strata.plans))]
        sizes = [(p.columns, p.levels, p.width, len(p.indices), p.state, p.atoms) for p in laid] or [(1,) * 6]
        columns, levels, width, indices, state, atoms = map(max, zip(*sizes, strict=True))
        sources = max((len(probed(plan)) for plan in self._probing_plans), default=1)
        trees = sum(len(queue.names) for queue in self._shapes)
        words = partial(np.empty, dtype=np.int64)
        ranges = self._fixed.ranges
        point = int(ranges[:, WIDTH].max()) if len(ranges) else 0
        facts = self._strata.room(FACTS if self._strata.plans else 1)
        facts.state[[WORK_MAX, SUSPENDED_MAX]] = RECURSIVE_MOST, WORD_MAX
        working = ScheduleRoom(
            words((trees, TREE_WORDS)), words(6 * indices), words((sources, 3)), ACTIONS,
            words(len(self._plans) + len(ranges)), words(KEYS_MAX), words(CURSOR_WORDS), words(1),
            RangeRoom(words(point), words(KEYS_MAX), words(2 * CURSOR_WORDS)),
            words((len(self._fixed.strata.strata), 3)), facts, words((len(self._strata.sources), 3)),
            words(6 * len(self._fixed.strata.trees)), words(trees), words(TAKEN), maintain_at.address(),
        )  # fmt: skip
        run = ProbeRun(
            words(PROGRESS), words(state), words((levels + 1) * 2 * MOST), words(levels + 1),
            words((width, MOST)), words((0, 1, 1)), slices_room(atoms, page_words),
        )  # fmt: skip
        found, composed = (Found(words(2 * MOST), words((columns, 2 * MOST))) for _ in range(2))
        return working, run, found, composed


class _Layout:
    """Plain steps as engine/kernels/schedule.py takes them, added one after the other."""

    def __init__(self, schedule: Schedule, installed: Installed, strata: Strata) -> None:
        self._schedule, self._installed, self._strata = schedule, installed, strata
        self._static: list[np.ndarray] = [np.zeros(0, np.int64)]
        self._tables: dict[str, list[Any]] = {name: [] for name in ScheduleTable._fields[1:-1]}
        self._conditions: list[Tested] = []

    def add(self, step: Step) -> None:
        """Add a step."""
        if isinstance(step, Flush):
            self._add_flush(step.name)
        elif isinstance(step, Settle):
            self._step(kernel.RECUR, self._strata.add(step.stratum))
        elif isinstance(step, Scan):
            self._add_range(step.rule)
        else:
            self._add_plan(step)

    def tables(self) -> tuple[Reach, ScheduleTable]:
        """Return the conditions of plans, whose constants are still to be filled in, and all tables."""
        reach = Reach(self._conditions)
        words = {name: np.array(self._tables[name], np.int64) for name in ("indices", "sources", "copies")}
        tables: dict[str, Any] = {name: _table(rows) for name, rows in self._tables.items()} | words
        tables |= {"conditions": reach.conditions, "strata": self._strata.arrays}
        return reach, ScheduleTable(static=np.concatenate(self._static), **tables)

    def _step(self, kind: int, of: int) -> None:
        self._tables["steps"].append((kind, of))

    def _add_flush(self, name: str) -> None:
        """Add the flush of a predicate, after that of the state that it follows from; then check its keys."""
        schedule, tables = self._schedule, self._tables
        fold = self._installed.layouts[name].fold
        if fold:
            state = fold.state.name
            self._step(kernel.FLUSH, schedule.numbers[state])
            self._step(kernel.FOLD, len(tables["folds"]))
            of = schedule.firsts[state], fold.group, fold.state.falling, schedule.numbers[name]
            tables["folds"].append(of)
        self._step(kernel.FLUSH, schedule.numbers[name])
        if keys := _checked_keys(self._installed, name):
            self._step(kernel.CHECK, len(tables["functions"]))
            tables["functions"].append((schedule.firsts[name], keys))

    def _add_plan(self, step: Follow) -> None:
        """Add a plan that is probed, or scans a relation."""
        plan, tables, tree_of = step.plan, self._tables, self._schedule.tree_of
        lists = [tables[name] for name in ("probes", "indices", "sources", "heads")]
        starts, copies = [*map(len, lists)], tables["copies"]
        self._step(kernel.SCAN if plan.is_scan else kernel.FOLLOW, len(tables["plans"]))
        if plan.is_scan:
            places = [*places_of(plan).values()]
            tables["sources"].append(tree_of(plan.tries[0].index))
        else:
            laid, places = probes_of(plan), [*range(len(plan.columns))]
            table = laid.rows.copy()
            table[:, :PINNED] += sum(map(len, self._static))
            self._static.append(laid.static)
            tables["probes"] += table.tolist()
            tables["indices"] += map(tree_of, laid.indices)
            tables["sources"] += [tree_of(index) for index, _ in probed(plan)]
        for name, how, columns in self._installed.heads[plan].copies:
            tables["heads"].append((self._schedule.numbers[name], HOW[how], len(copies), len(copies) + len(columns)))
            copies += [places[column] for column in columns]
        spans = chain(*zip(starts, map(len, lists), strict=True))
        tables["plans"].append((*spans, len(plan.columns), len(self._conditions)))
        self._conditions.append(_tested(step))

    def _add_range(self, rule: InstalledRule) -> None:
        """Add a view of the first or last records of ranges."""
        span, copies, tree_of = rule.span, self._tables["copies"], self._schedule.tree_of
        assert span, "only these are plain"
        self._step(kernel.RANGED, len(self._tables["ranges"]))
        (name,) = rule.writes
        ends = (word for end in (span.low, span.high) for word in (end or 0, end is None))
        self._tables["ranges"].append((
            tree_of(span.points), tree_of(span.measured), self._schedule.numbers[name], span.group, *ends, span.whole,
            span.width, span.kind == SEEK_LAST, span.result, len(copies), len(copies) + len(span.keys),
        ))  # fmt: skip
        copies += span.keys


def steps_of(installed: Installed, names: frozenset[str]) -> list[Step]:
    """Return the steps for edits of some predicates, in dependency order: each is final before it is read."""
    steps: list[Step] = []
    waiting, finished = dict.fromkeys(sorted(names)), set[str]()
    for stratum in installed.strata:
        reads = stratum.reads
        due = [name for name in reads if name in waiting]
        if not due and finished.isdisjoint(reads):
            continue
        steps += map(Flush, due)
        finished |= {*due, *stratum.recursive}
        waiting = {name: None for name in waiting if name not in finished}
        if stratum.recursive:
            steps += [Settle(stratum), *map(Flush, sorted(stratum.recursive))]
            continue
        (rule,) = stratum.rules
        steps += [Follow(rule, number) for number in range(len(rule.plans))] or [Scan(rule)]
        waiting = {name: None for name in (*waiting, *rule.writes) if name not in finished}
    return [*steps, *map(Flush, waiting)]


def _table(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Return rows as an array of two dimensions, also if there are none."""
    return np.array(rows, np.int64) if rows else np.zeros((0, 1), np.int64)


def _tested(step: Follow) -> Tested:
    return tested(step.plan, step.rule.definition.types)


def _touched(step: Step) -> tuple[str, ...]:
    if isinstance(step, Settle):
        return (*step.stratum.reads, *step.stratum.recursive)
    return (step.name,) if isinstance(step, Flush) else step.rule.reads + step.rule.writes


def _is_plain(installed: Installed, step: Step) -> bool:
    """Return whether the kernel can run this step."""
    if isinstance(step, Flush):
        fold = installed.layouts[step.name].fold
        return fold is None or fold.is_first
    if isinstance(step, Settle):
        return compiled(installed, step.stratum).plain
    if isinstance(step, Scan):
        return step.rule.span is not None and step.rule.span.is_sought
    if not _tested(step).exact:
        return False
    if step.plan.is_scan:
        return bool(installed.heads[step.plan].copies)
    whole = [depth >= _keys(installed, index) for index, depth in probed(step.plan)]
    return bool(step.plan.probes and all(whole) and installed.heads[step.plan].copies)


def _parts(installed: Installed, step: Step) -> int:
    """Return how many steps of the kernel a plain step is."""
    if not isinstance(step, Flush):
        return 1
    return (3 if installed.layouts[step.name].fold else 1) + bool(_checked_keys(installed, step.name))


def _checked_keys(installed: Installed, name: str) -> int:
    """Return the number of words of a key of a function whose rows a kernel checks; 0 for none."""
    return len(installed.program.predicates[name].keys) if installed.stored[name].checked else 0


def _is_limited(installed: Installed, name: str) -> bool:
    """Return whether Python checks the rows of a predicate: its sums have a range, or it has a value without a key."""
    stored, predicate = installed.stored[name], installed.program.predicates[name]
    if stored.layout.kind == SUM and predicate.value and word_range(predicate.value) != (WORD_MIN, WORD_MAX):
        return True
    return stored.checked and not _checked_keys(installed, name)


def _keys(installed: Installed, index: Index) -> int:
    """Return the number of key words of an index's tree."""
    return len(index.order) if permuted(index) else installed.layouts[index.predicate].keys
