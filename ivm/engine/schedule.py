"""The schedule of edits through all rules: which trees take edits and which plans are maintained,
step by step.

    edge ──▶ flush edge ──▶ follow triangle(x, y, z) <- edge(x, y), ... ──▶ flush triangle ──▶ ...

For a few edits, one kernel call (kernels/run.py) runs the first steps, as long as these are plain
(kernel_tables.py): plans that are probed or matched, or scan a relation, what heads and filters
compute of words, aggregates, ranges of which the first or last record is wanted, and recursion
whose heads copy columns. The ranges of sums are checked afterwards. Of the plans that scan, only
those that a change reaches are maintained (ways/reach.py).
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain, compress, starmap, takewhile

import numpy as np

from ivm.engine.kernel_tables import (
    Numbering,
    Tables,
    is_checked,
    is_limited,
    is_plain,
    parts_of_step,
    states_room,
    tests_of,
)
from ivm.engine.kernels import run as kernel
from ivm.engine.kernels.plans import ScheduleRoom, ScheduleTable
from ivm.engine.kernels.run import EXCESS_FREE, UNTOUCHED
from ivm.engine.sweep import GROWN, Counts, Sizes, grown
from ivm.join.plan_arrays import slices_room
from ivm.plan import costs
from ivm.plan.plan import Index, Plan
from ivm.rules.account import Account
from ivm.rules.installed import Installed
from ivm.rules.steps import Flush, FollowPlan, FollowRule, FollowStratum, Step, steps_of
from ivm.terms.encoder import Encode, Encoder
from ivm.views.delta import Delta
from ivm.ways.kernels.match import SHORT, TALLY, MatchRoom, match_at
from ivm.ways.kernels.probe import (
    BEGUN,
    COMPOSED,
    OPERATIONS,
    PROGRESS,
    Found,
    ProbeRun,
    probe_next_at,
)
from ivm.ways.kernels.ranges import WIDTH, RangeRoom
from ivm.ways.match import Matching, is_alone, is_matched, matching_of
from ivm.ways.probe import ACTIONS, Probes, probed, probes_of
from ivm.ways.reach import Reach, Tested
from ivm.ways.recursion.compiled import FACTS, Strata
from ivm.ways.recursion.kernels.facts import SUSPENDED_MAX, WORK, WORK_MAX
from ivm.ways.recursion.kernels.maintain import maintain_at
from pagestore.compiled import CURSOR_WORDS, TAKEN, FlushRoom, PageAccounts, Queues, TypedKernel
from pagestore.host import (
    ALONE,
    FEW,
    INSERT,
    KEYS_MAX,
    MOST,
    TREE_WORDS,
    WORD_MAX,
    EditQueue,
    Edits,
    EphemeralTransaction,
    Pages,
    Short,
    Transaction,
    Tree,
)

NO_EDITS = np.empty(0, np.int64), np.empty((0, 0), np.int64)

# Operations for a recursive stratum, two milliseconds; whether more are worth it depends on its
# size (compiled.py).
RECURSIVE_MOST = 1 << 13
# intervals of an index, regions, and intervals recorded, of a matched plan
HITS, REGIONS, RECORDED = 256, 512, 1024
SCHEDULES_MAX = 64  # each keeps at most some megabytes of buffers

CARRY = TypedKernel(
    kernel.run_steps, int, Pages, PageAccounts, Queues, FlushRoom, int, ScheduleTable, ScheduleRoom,
    ProbeRun, Found, Found, int,
)  # fmt: skip


def schedule_of(installed: Installed, names: frozenset[str]) -> "Schedule":
    """Return the schedule of edits of some predicates; it is cached."""
    schedules = installed.schedules
    if names not in schedules:
        if len(schedules) >= SCHEDULES_MAX:
            schedules.clear()
        schedules[names] = Schedule(installed, names)
    schedule: Schedule = schedules[names]
    return schedule


def run_steps(
    txn: Transaction,
    installed: Installed,
    edits: Mapping[str, Edits],
    sizes: Callable[[Transaction], Sizes],
) -> tuple[dict[str, Account] | None, int | None]:
    """Apply a few edits and maintain all that follows from them in one kernel call, without an
    Engine.

    `sizes` returns how large sensitivity indices were when they were last built. Returns what was
    done of each view, and None; or None and what an Engine is to do it with (its `apply_edits`).
    """
    names = frozenset(edits)
    schedule = schedule_of(installed, names)
    if not is_carried(schedule, installed, txn.catalog) or installed.outgrown(names, txn.counts):
        return None, None
    started = time.perf_counter()
    done = schedule.run(txn, edits, Encoder(txn))
    if done < len(schedule.steps):
        return None, done
    accounts = schedule.account(time.perf_counter() - started)
    for name, account in accounts.items():
        if account.operations > EXCESS_FREE or (account.inserted and name in schedule.checked):
            return None, done
    if schedule.matched and any(schedule.stale(done, txn.counts, sizes(txn))):
        return None, done
    return accounts, None


def is_carried(schedule: "Schedule", installed: Installed, catalog: object) -> bool:
    """Return whether a kernel takes all steps of edits, by rules checked for a catalog."""
    return (
        schedule.is_plain
        and installed.checked_catalog.get("catalog") is catalog
        and not installed.constraints
    )


class Schedule:
    """The steps of edits of some predicates, of which a kernel runs the first."""

    def __init__(self, installed: Installed, names: frozenset[str]) -> None:
        self._installed, self.steps = installed, steps_of(installed, names)
        plain = _plain_steps(installed, self.steps)
        self._plain = len(plain)
        parts = map(partial(parts_of_step, installed), plain)
        # of which each of the kernel's is
        self._steps = [number for number, n in enumerate(parts) for _ in range(n)]
        self._at = self._done = 0  # where the kernel stopped, and how many steps it had done
        # whether all steps may be the kernel's
        self.is_plain = bool(plain) and plain == self.steps and not installed.needed_for(names)
        self.names = sorted(names.union(*map(_touched, plain)))
        kept = [installed.stored[name] for name in self.names]
        folds = {
            name: fold
            for name, one in zip(self.names, kept, strict=True)
            if (fold := one.layout.fold)
        }
        states = {fold.state.name: fold.state for fold in folds.values()}
        # to their views
        self._states = {
            state: [n for n in folds if folds[n].state.name == state] for state in states
        }
        follows = [
            (place, step) for place, step in enumerate(plain) if isinstance(step, FollowPlan)
        ]
        # the steps that are matched, with their places and the numbers of their plans
        self.matched = [
            (step, place, n) for n, (place, step) in enumerate(follows) if is_matched(step.plan)
        ]
        sensors = _sensitivity_indices(step for step, *_ in self.matched)
        groups = [*self.names, *states, *sensors]
        self.numbers = {name: number for number, name in enumerate(groups)}
        self._shapes = [EditQueue(one.names, one.places, one.layout.visible) for one in kept]
        self._shapes += [
            EditQueue((state.name,), ALONE, state.visible) for state in states.values()
        ]
        self._shapes += [EditQueue((name,), ALONE, columns) for name, columns in sensors.items()]
        ends = accumulate((len(shape.names) for shape in self._shapes), initial=0)
        self.firsts = dict(zip(groups, ends, strict=False))  # the first of each group's trees
        # the number of an index's tree among those of all queues
        self.trees: dict[Index, int] = {}
        for name, one in zip(self.names, kept, strict=True):
            first = self.firsts[name]
            self.trees |= one.of_indices(range(first, first + len(one.names)))
        self._note_limits()
        self._catalog: object = None
        numbering = Numbering(self.numbers, self.firsts, self.trees, installed.deferred)
        self._strata = Strata(installed, numbering.tree_of, self.numbers.__getitem__)
        self._note_views(plain, [step for _, step in follows])
        tables = Tables(numbering, installed, self._strata)
        for step in plain:
            tables.add(step)
        self._laid = tables.laid()
        self._scanning: dict[Index, dict[Plan, Tested]] = {}  # the plans that scan each relation
        for step in self.steps:
            if isinstance(step, FollowPlan) and step.scanned is not None:
                self._scanning.setdefault(step.scanned, {})[step.plan] = tests_of(step)
        self._reaches: dict[Index, Reach] = {}

    def _note_limits(self) -> None:
        """Note the predicates whose rows have limits, and those whose edits may be refused."""
        installed = self._installed
        self._limited = {name for name in self.names if is_limited(installed, name)}
        self._refusable = self._limited.union(
            name for name in self.names if is_checked(installed, name)
        )
        self._limited_trees = np.array(
            [self.firsts[name] for name in sorted(self._limited)], np.int64
        )
        # the predicates whose rows Python checks: functions if one has a key in conflict
        self.checked = self._limited

    def _note_views(self, plain: Sequence[Step], follows: Sequence[FollowPlan]) -> None:
        """Note the plans of the kernel's steps, and by which of them each view is accounted."""
        self._plans = [step.plan for step in follows]
        self._probing_plans = [
            plan for plan in self._plans if not is_alone(plan) and not is_matched(plan)
        ]
        ranges = [step for step in plain if isinstance(step, FollowRule)]
        counted = [
            *enumerate(
                rule.writes for rule in (*(f.rule for f in follows), *(r.rule for r in ranges))
            )
        ]
        self._accounts = [
            (name, self.firsts[name], [number for number, writes in counted if name in writes])
            for name in self.names
        ]
        settled = [step for step in plain if isinstance(step, FollowStratum)]
        self._strata_of = {
            name: s for s, step in enumerate(settled) for name in step.stratum.recursive
        }
        self._carries = any(not isinstance(step, Flush) for step in plain)

    def run(self, txn: Transaction, edits: Mapping[str, Edits], encode: Encode) -> int:
        """Run as many first steps as the kernel can; return how many. Results are in `queues`."""
        if not (self._carries or self.is_plain) or isinstance(txn, EphemeralTransaction):
            return 0  # no kernel writes to a sketch, whose thread need not be the writer's
        for actions, _ in edits.values():
            if len(actions) > FEW:
                return 0
        if self._catalog is not txn.catalog:
            self._catalog, self.queues = txn.catalog, txn.edit_queues(self._shapes)
            specs = [txn.tree(name).spec for shape in self._shapes for name in shape.names]
            self._laid.find_scans({name: txn.tree(name).spec for _, name, _ in self._laid.scans})
            self._working, self._probing = self._make_room(
                txn.pages.page_words, max(len(s.scans) for s in specs)
            )
        if self._laid.reach.tests:
            self._laid.reach.encode(encode)
        if self._laid.texts:
            self._laid.encode_texts(encode)
        self.queues.clear()
        self._probing[0].progress.fill(0)
        for name, edit in edits.items():
            self.queues.wait(self.numbers[name], *edit)
        self._at = self._carried(txn, 0)
        if 0 < self._at < len(self._steps) and self._may_lack_pages(
            self._laid.tables.steps[self._at, kernel.KIND]
        ):
            self._at = self._carried(txn, self._at)
        self.checked = self._refusable if self._working.conflicts[0] else self._limited
        self._done = self._steps[self._at] if self._at < len(self._steps) else self._plain
        return self._done

    def has_room(self, catalog: object) -> bool:
        """Return whether `run` has made the queues and buffers for trees of a catalog, as it
        does for few edits.
        """
        return self._catalog is catalog

    def short(self, name: str, fits: Callable[[], bool], done: Callable[[], None]) -> Short:
        """Return how the kernel commits edits of a predicate, where it takes all steps and
        `has_room`.

        It does so only if `fits()`; `done` is called after each commit.
        """
        room = self._laid.tables, self._working, *self._probing, probe_next_at.address()

        def carried(*given: object) -> None:
            if fits():
                CARRY.call(0, *given, *room)

        return Short(self.queues, self.numbers[name], self._limited_trees, carried, done=done)

    @property
    def gains(self) -> np.ndarray:
        """How many rows each tree gained in the newest commit of a series, int64[T]."""
        return self.queues.gains

    @property
    def probed(self) -> int:
        """What probing costs at least at the step where the kernel stopped, if it stopped since
        too much was found.
        """
        run, found, _ = self._probing
        if run.progress[BEGUN]:
            return 4 * costs.BOUND * len(found.signs)  # there may be many more
        return costs.OPERATION * int(run.progress[OPERATIONS]) if run.progress[COMPOSED] else 0

    def _may_lack_pages(self, kind: int) -> bool:
        """Return whether the kernel may have stopped at a step of a kind for lack of pages."""
        if kind == kernel.RECUR:
            return bool(self._working.facts.state[WORK] <= RECURSIVE_MOST)
        if kind == kernel.MATCH:
            return bool(self._working.matching.tally[SHORT])
        return kind == kernel.FLUSH

    def reached(self, index: Index, rows: np.ndarray, encode: Encode) -> set[Plan]:
        """Return the plans that scan a relation and may have bindings among changed rows[C, n]."""
        plans = self._scanning[index]
        if index not in self._reaches:
            self._reaches[index] = Reach([*plans.values()])
        self._reaches[index].encode(encode)
        return {*compress(plans, self._reaches[index].of(rows))}

    def _carried(self, txn: Transaction, begin: int) -> int:
        """Run the kernel from step `begin` on, with more pages if that is not the first; return
        where it stopped.
        """
        room = self._laid.tables, self._working, *self._probing, probe_next_at.address()
        last = self._limited_trees if self.is_plain else None  # whether a commit may follow
        return txn.flush(
            self.queues, lambda *given: CARRY.call(begin, *given, *room), begin > 0, last
        )

    def account(self, seconds: float) -> dict[str, Account]:
        """Return what the kernel did of each predicate that it touched, in some seconds."""
        operations, turnover = self._working.operations.tolist(), self.queues.turnover
        recursion = self._working.recursion[:, 0].tolist() if self._strata_of else ()
        accounts = dict[str, Account]()
        for name, first, plans in self._accounts:
            count = UNTOUCHED
            for plan in plans:
                if operations[plan] != UNTOUCHED:
                    count = operations[plan] if count == UNTOUCHED else count + operations[plan]
            if name in self._strata_of:
                count = recursion[self._strata_of[name]] or UNTOUCHED
            inserted, erased = turnover(first)
            if inserted or erased or count != UNTOUCHED:
                count = 0 if count == UNTOUCHED else count
                hits = self._hits_of(name) if self.matched else 0
                accounts[name] = Account(
                    seconds, count, hits, inserted, erased, *self.recursion_of(name)
                )
        return accounts

    def _hits_of(self, name: str) -> int:
        """Return how many intervals changes hit in the sensitivity indices of a view's plans."""
        return sum(
            int(self._working.hits[n]) for step, _, n in self.matched if name in step.rule.writes
        )

    def stale(self, done: int, counts: Counts, sizes: Sizes) -> list[FollowPlan]:
        """Return the matched of the first `done` steps whose sensitivities are to be swept."""
        operations = self._working.operations
        return [
            step
            for step, place, number in self.matched
            if place < done
            and operations[number] != UNTOUCHED
            and grown(step.rule, step.number, counts, sizes) > GROWN
        ]

    def recursion_of(self, name: str) -> tuple[int, int]:
        """Return the rounds that the kernel took for a predicate, and the facts that it examined;
        none if the view is not recursive.
        """
        if name not in self._strata_of:
            return 0, 0
        _, rounds, examined = self._working.recursion[self._strata_of[name]].tolist()
        return rounds, examined

    def changes_of(self, name: str) -> tuple[dict[Index, Tree], dict[Index, Delta]]:
        """Return a predicate's old trees, and their changes."""
        queues, kept, first = self.queues, self._installed.stored[name], self.firsts[name]
        (actions, rows), *others = [
            queues.changes(t) for t in range(first, first + len(kept.names))
        ]
        deltas = [Delta(actions, rows[: kept.layout.visible]), *starmap(Delta, others)]
        return kept.of_indices(queues.trees[first : first + len(kept.names)]), kept.of_indices(
            deltas
        )

    def waiting(self) -> dict[str, list[Edits]]:
        """Return the edits still pending, by predicate; those of a state by its view, unless the
        state has changed.
        """
        found, folded = dict[str, list[Edits]](), {*chain(*self._states.values())}
        for name, number in self.numbers.items():
            if self.queues.waits[number] and name not in folded:
                edits = self.queues.waiting(number)
                found |= {view: [edits] for view in self._states.get(name, (name,))}
        left = {step.name for step in self.steps[self._done :] if isinstance(step, Flush)}
        followed = chain(*(self._states[state] for state in self.state_changes()))
        return found | {view: [NO_EDITS] for view in followed if view in left}

    def state_changes(self) -> dict[str, Edits]:
        """Return the changes of the states that the kernel edited, by their names."""
        changes = {state: self.queues.changes(self.firsts[state]) for state in self._states}
        return {state: change for state, change in changes.items() if len(change[0])}

    def _make_room(
        self, page_words: int, folds: int
    ) -> tuple[ScheduleRoom, tuple[ProbeRun, Found, Found]]:
        """Allocate the kernel's buffers, which all plans use one after the other."""
        matched = [matching_of(step.plan, step.rule.granularity) for step, *_ in self.matched]
        laid: list[Probes | Matching] = [
            *map(probes_of, (*self._probing_plans, *self._strata.plans)),
            *matched,
        ]
        sizes = [
            (p.columns, p.levels, p.width, len(p.indices), p.state, p.atoms) for p in laid
        ] or [(1,) * 6]
        columns, levels, width, indices, state, atoms = map(max, zip(*sizes, strict=True))
        branches = [*map(probed, self._probing_plans), *(matching.branches for matching in matched)]
        sources = max(map(len, branches), default=1)
        trees = sum(len(queue.names) for queue in self._shapes)
        words = partial(np.empty, dtype=np.int64)
        tables = self._laid.tables
        ranges = tables.ranges
        states = states_room(max(2, folds))
        point = int(ranges[:, WIDTH].max()) if len(ranges) else 0
        facts = self._strata.room(FACTS if self._strata.plans else 1)
        facts.state[[WORK_MAX, SUSPENDED_MAX]] = RECURSIVE_MOST, WORD_MAX
        working = ScheduleRoom(
            words((trees, TREE_WORDS)), words(6 * indices), words((sources, 3)), ACTIONS,
            words(len(self._plans) + len(ranges)), words(len(self._plans)), _match_room(matched),
            words(KEYS_MAX), words(CURSOR_WORDS), words(1),
            RangeRoom(
                words(point), words(KEYS_MAX), words(2 * CURSOR_WORDS), states.folds, states.sums
            ),
            states, words((len(tables.strata.strata), 3)), facts,
            words((len(self._strata.sources), 3)), words(6 * len(tables.strata.trees)),
            words(trees), words(TAKEN), maintain_at.address(),
        )  # fmt: skip
        run = ProbeRun(
            words(PROGRESS),
            words(state),
            words((levels + 1) * 2 * MOST),
            words(levels + 1),
            words((width, MOST)),
            words((0, 1, 1)),
            slices_room(atoms, page_words),
        )
        columns = max(columns, self._laid.width)
        found, composed = (Found(words(2 * MOST), words((columns, 2 * MOST))) for _ in range(2))
        return working, (run, found, composed)


def _plain_steps(installed: Installed, steps: Sequence[Step]) -> list[Step]:
    """Return the first steps, as far as the kernel can run them."""
    changed = {step.name for step in steps if isinstance(step, Flush)}
    return [*takewhile(partial(is_plain, installed, changed), steps)]


def _sensitivity_indices(matched: Iterable[FollowPlan]) -> dict[str, int]:
    """Return the names of the sensitivity indices of matched steps, and each one's columns."""
    return {
        name: len(sensor.columns)
        for step in matched
        for name, sensor in zip(
            step.rule.sensitivity_names(step.number), step.plan.sensors, strict=True
        )
    }


def _match_room(matched: Sequence[Matching]) -> MatchRoom:
    """Allocate the working memory of `match` for some plans."""
    words = partial(np.empty, dtype=np.int64)
    sensors, columns = (max((plan.trace[i] for plan in matched), default=0) or 1 for i in range(2))
    hits, regions, recorded = (HITS, REGIONS, RECORDED) if matched else (1, 1, 1)
    rows = 1 + max((plan.levels for plan in matched), default=0)
    actions = np.full((2, max(hits, regions)), INSERT)
    return MatchRoom(
        words((sensors, columns, hits)), words(sensors), words((sensors, columns, recorded)),
        words(sensors), words((rows, regions)), words((columns, hits)), words((2, rows, regions)),
        actions, words(KEYS_MAX), words((CURSOR_WORDS, 3)), words(1), words(TALLY),
        match_at.address(),
    )  # fmt: skip


def _touched(step: Step) -> tuple[str, ...]:
    if isinstance(step, FollowStratum):
        return (*step.stratum.reads, *step.stratum.recursive)
    return (step.name,) if isinstance(step, Flush) else step.rule.reads + step.rule.writes
