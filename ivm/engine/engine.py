"""Maintenance: propagate the edits of one transaction through all installed rules.

    +edge(1, 2) ──▶ flush edge ──▶ maintain tri(x, y, z) <- edge(x, y), ... ──▶ flush tri ──▶ ...

Steps run in dependency order (schedule.py). To *flush* a predicate is to apply its waiting edits to its tree,
and the tree's delta to its permuted indices. To *maintain* a plan is to turn the deltas of the relations in its body
into edits of its heads; these wait until the first rule reads the head, or until the end. So each rule sees the old and
the new trees of everything that it reads, and both are final.
"""

import time
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import starmap
from typing import Any

import numpy as np

from ivm.engine.constraints import refuse_violations
from ivm.engine.fill import Account, Filler, check_sums, fold_bindings, naming_the_rule, out_of_range, unordered
from ivm.engine.installed import InstalledRule, InstalledStratum
from ivm.engine.schedule import Flush, Scan, Schedule, Settle, schedule_of
from ivm.errors import DivergenceError, RecomputeError
from ivm.join.flat import is_flat_cheaper
from ivm.join.join import within_memory
from ivm.lang.ir import Predicate
from ivm.maintenance.maintain import binding_difference, maintain
from ivm.maintenance.surgery import Delta, net_changes, visible_difference
from ivm.plan.plan import SCANNED, Index, Plan, indices_of
from ivm.views.aggregates import edits_of, view_edits
from ivm.views.edit_composition import SumOverflow, edits_to_sums
from ivm.views.layouts import APART, INVERTED, SUM, State
from ivm.views.ranges import Side, ranged_edits
from ivm.views.rope import text_edits
from pagestore.errors import EditError
from pagestore.host import ALONE, ERASE, INSERT, Edits, Tree, compose_edits, delta, one_batch

# A large delta is propagated only if that costs less than evaluating the old and the new version in full. A delta's
# share is its rows over the rows of its relation.
LARGE_FROM = 64  # rows; a delta with no more is propagated whatever its share
RELATION_SHARE_MAX = 0.25  # of one relation's rows
# The mean share over a plan's tries, where flat tries can evaluate the plan, is at most one of these / tries².
PROBED_SHARE = 0.9
COUNTED_SHARE = 0.4  # for a probed plan whose bindings are counted, not listed
MATCHED_SHARE = 0.15  # for a matched plan; divided by granularity², too
# A plan's sensitivity indices are rebuilt when they have outgrown, or their body has shrunk below, a ratio of the size
# at the last rebuild. The first rows do not count, so that tiny indices are not rebuilt.
STALE_RATIO = 2
SHRUNK_RATIO = 0.75
STALE_FREE_ROWS = 64
# A recursive stratum is evaluated from scratch once REFILL_FROM plus one in REFILL_SHARE of its rows lost support.
REFILL_FROM = 256
REFILL_SHARE = 2


@dataclass
class Engine(Filler):
    """Fill and maintain the views of one transaction.

    `before` holds the old trees of all indices that have changed so far, `deltas` their changes.
    """

    watched: Container[str] = ()  # the predicates whose `change_of` will be called
    before: dict[Index, Tree] = field(default_factory=dict)
    deltas: dict[Index, Delta] = field(default_factory=dict)
    state_changes: dict[str, Edits] = field(default_factory=dict)  # of the aggregates' states that have changed so far
    has_large_delta: bool = False  # whether a delta has more than LARGE_FROM rows
    strict: bool = False  # whether to raise RecomputeError rather than evaluate a view from scratch
    evaluated: set[str] = field(default_factory=set)  # the views that were evaluated from scratch
    erased: dict[str, Any] = field(default_factory=dict)  # the texts of erased rows of watched concats (ivm/rope.py)

    @within_memory("applying edits")
    def apply_edits(self, edits: Mapping[str, Edits]) -> None:
        """Apply edits of extensional predicates, and bring every view and index up to date.

        Raises MaintainError; in particular ConstraintError, and DivergenceError if a stored tree contradicts the
        relations. O(changes of traces or probes * log n).
        """
        self._build_deferred(edits, {})
        self._check_trees()
        schedule = schedule_of(self.installed, frozenset(edits))
        try:
            done = self._run_compiled(schedule, edits)
            if done < len(schedule.steps):
                waiting = schedule.waiting() if done else {name: [edit] for name, edit in edits.items()}
                self._run(schedule, done, waiting)
        except EditError as error:
            raise divergence(str(error)) from error
        self._refuse_new_violations()

    @within_memory("following a change")
    def follow_changes(self, before: Mapping[str, Tree]) -> None:
        """Bring every view and index up to date with relations that have changed already, given their old trees.

        Raises as `apply_edits`. O(changes) as well, but O(records) for a relation that was rebuilt.
        """
        self._build_deferred(before, before)
        self._check_trees()
        changed = [name for name in before if self.installed.is_followed(name, self.txn.tree(name).spec)]
        try:
            for name in changed:
                self._adopt_change(name, before[name])
            self._run(schedule_of(self.installed, frozenset(changed)), 0, {})
        except EditError as error:
            raise divergence(str(error)) from error
        self._refuse_new_violations()

    def _refuse_new_violations(self) -> None:
        """Raise ConstraintError for a constraint that something violates which did not before."""
        views = [v for v in self.installed.constraints if v in self.accounts and self.accounts[v].inserted]
        refuse_violations(self.txn, self.installed, views)

    def _build_deferred(self, names: Iterable[str], before: Mapping[str, Tree]) -> None:
        """Build the deferred indices that changes of some predicates need, from the old trees of those."""
        if needed := self.installed.needed_for(names):
            self.installed = replace(self.installed, deferred=self.installed.deferred - needed)
            for index in sorted(needed):
                self.build_index(index, before.get(index.predicate))

    def change_of(self, name: str) -> Delta | None:
        """Return the delta of a watched predicate in this transaction; None if it has not changed."""
        return self.deltas.get(self.installed.stored[name].indices[0])

    def _check_trees(self) -> None:
        """Raise DivergenceError if a tree is missing or has the wrong shape; check each catalog once."""
        catalog = self.txn.catalog
        if self.installed.checked_catalog.get("catalog") is catalog:
            return
        read = {name for rule in self.installed.rules for name in rule.reads}
        missing = (self.installed.derived_trees | read) - catalog.relations.keys()
        if missing:
            raise divergence(f"{min(missing)} is missing")
        for name, layout in self.installed.layouts.items():
            if name not in catalog.relations:
                continue  # no rule reads it
            spec = catalog.relations[name].spec
            if not self._predicate(name).extensional and spec[1:3] != (layout.keys, layout.shown + layout.hidden):
                raise divergence(f"{name} has {spec.keys} key and {spec.values} value words")
        for name, scans in self.installed.scans.items():
            for scan in scans.difference(self.txn[name].scans):
                raise divergence(f"{name} has lost its scan {scan}")
        self.installed.checked_catalog["catalog"] = catalog

    # -- the steps of a schedule

    def _run(self, schedule: Schedule, done: int, waiting: dict[str, list[Edits]]) -> None:
        """Run the steps that are not done one by one; `waiting` holds the pending edits by predicate."""
        reached: dict[Index, set[Plan]] = {}
        for step in schedule.steps[done:]:
            if isinstance(step, Flush):
                if step.name in waiting:
                    with within_memory(f"{step.name}: storing rows that change"):
                        self._flush(step.name, waiting.pop(step.name))
                continue
            if isinstance(step, Settle):
                self._finish(step.stratum)
                continue
            started = time.perf_counter()
            if isinstance(step, Scan):
                for name, edit in self._scan(step.rule):
                    waiting.setdefault(name, []).append(edit)
                    self.accounts[name].maintain_seconds += time.perf_counter() - started
                continue
            if step.plan.is_scan and step.plan not in self._reached(schedule, step.plan.tries[0].index, reached):
                continue
            with naming_the_rule(step.rule.definition):
                for name, edit in self._maintain_plan(*step):
                    if len(edit[0]):
                        waiting.setdefault(name, []).append(edit)
                    self.accounts[name].maintain_seconds += time.perf_counter() - started
                    started = time.perf_counter()

    def _reached(self, schedule: Schedule, index: Index, known: dict[Index, set[Plan]]) -> set[Plan]:
        """Return the plans that scan a relation and may have bindings among its changes; `known` keeps them."""
        if index not in known:
            change = self.deltas.get(index)
            known[index] = schedule.reached(index, change.rows, self.encode) if change else set()
        return known[index]

    def _run_compiled(self, schedule: Schedule, edits: Mapping[str, Edits]) -> int:
        """Run the first steps in one kernel call and record their changes; return how many steps are done."""
        started = time.perf_counter()
        done = schedule.run(self.txn, edits, self.encode)
        for name, operations, inserted, erased in schedule.accounts() if done else ():
            self.accounts[name] = Account(time.perf_counter() - started, operations, 0, inserted, erased)
            if inserted + erased and (done < len(schedule.steps) or name in self.watched):
                trees, deltas = schedule.changes_of(name)
                self.before |= trees
                self._note_change(name, deltas)
        return done

    def _flush(self, name: str, parts: list[Edits]) -> None:
        """Apply the pending edits of a predicate to its tree, and the tree's delta to its permuted indices."""
        started = time.perf_counter()
        stored = self.installed.stored[name]
        layout = stored.layout
        self.before |= stored.of_indices([*map(self.txn.tree, stored.names)])
        actions, rows = one_batch(parts)
        if layout.fold:
            change = self._change_of_state(layout.fold.state, actions, rows)
            view, state = self.txn.tree(name), self.txn.tree(layout.fold.state.name)
            actions, rows = view_edits(name, layout, self.txn.pages, view, state, *change, self.encode.keys)
        (actions, rows), *permuted = self._apply(stored.names, stored.places, actions, rows, layout.visible)
        if not len(actions):
            return
        change = Delta(actions, rows[: layout.visible])
        if layout.kind == SUM:
            check_sums(self.txn, self._predicate(name), change.rows[:, actions == INSERT])
        if stored.checked:
            self._check_function(name, change)
        self._note_change(name, stored.of_indices([change, *starmap(Delta, permuted)]))
        self.accounts[name].maintain_seconds += time.perf_counter() - started

    def _change_of_state(self, state: State, actions: np.ndarray, rows: np.ndarray) -> Edits:
        """Edit a state, for the first of the aggregates that share it; return its delta, which all of them use."""
        if state.name not in self.state_changes:
            if state.kind == INVERTED:
                actions, rows = edits_of(self.txn.pages, self.txn.tree(state.name), state.ops[0], rows)
            (self.state_changes[state.name],) = self._apply((state.name,), ALONE, actions, rows, state.visible)
        return self.state_changes[state.name]

    def _adopt_change(self, name: str, old: Tree) -> None:
        """Record how a predicate's tree differs from its old one, and apply the difference to its permuted indices."""
        stored = self.installed.stored[name]
        new, visible = self.txn.tree(name), stored.layout.visible
        keys = stored.layout.keys
        if old.spec.columns != new.spec.columns:
            change = visible_difference(self.txn.pages, old, new, visible)
        else:
            actions, rows = delta(self.txn.pages, old, new)
            change = net_changes(actions, rows[:visible], keys) if len(rows) > visible else Delta(actions, rows)
        if not change:
            return
        self.before |= stored.of_indices([old, *map(self.txn.tree, stored.names[1:])])
        permuted = [
            self.txn.apply(tree, change.actions, change.rows[place[: self.txn.tree(tree).spec.columns]])
            for tree, place in zip(stored.names[1:], stored.places[1:], strict=True)
        ]
        if stored.checked:
            self._check_function(name, change)
        self._note_change(name, stored.of_indices([change, *starmap(Delta, permuted)]))

    def _note_change(self, name: str, deltas: Mapping[Index, Delta]) -> None:
        """Store the deltas of a predicate's indices for the rules that read it, and count its changed rows."""
        self.deltas |= deltas
        actions = next(iter(deltas.values())).actions
        self.has_large_delta |= len(actions) > LARGE_FROM
        account, erased = self.accounts[name], int(np.count_nonzero(actions))  # INSERT is 0, ERASE is 1
        account.inserted, account.erased = len(actions) - erased, erased

    def _apply(
        self, names: tuple[str, ...], places: np.ndarray, actions: np.ndarray, rows: np.ndarray, visible: int
    ) -> list[Edits]:
        """Edit a tree and its permuted indices as `apply_indexed` does; return their deltas. Raises RangeError."""
        tree, predicate = self.txn.tree(names[0]), self._predicate(names[0].removeprefix(APART))
        try:
            edits = compose_edits(actions, rows, tree.spec)
        except EditError:  # the edits of a key add up beyond 64 bits, but the sum with the stored value may fit
            edits = self._edits_to_sums(tree, predicate, rows)
        try:
            return self.txn.apply_indexed(names, places, *edits, visible)
        except EditError as error:
            self._edits_to_sums(tree, predicate, rows)  # raises RangeError if a sum is out of range, with its key
            raise EditError(f"{predicate.name}: {error}") from error

    def _edits_to_sums(self, tree: Tree, predicate: Predicate, rows: np.ndarray) -> Edits:
        try:
            return edits_to_sums(self.txn.pages, tree, rows)
        except SumOverflow as overflow:
            raise out_of_range(self.txn, predicate, overflow) from None

    # -- a recursive stratum

    def _finish(self, stratum: InstalledStratum) -> None:
        """Bring the views of a recursive stratum up to date with the deltas so far."""
        plans = [plan for rule in stratum.rules for plan in (*rule.plans, *rule.searches)]
        indices = {index for plan in plans for index in indices_of(plan) if index.predicate not in stratum.recursive}
        if self.deltas.keys().isdisjoint(indices):
            return
        started = time.perf_counter()
        trees = {name: [*map(self.txn.tree, self.installed.stored[name].names)] for name in stratum.recursive}
        new = {index: self.tree(index) for index in indices}
        with naming_the_rule(stratum.rules[0].definition):
            fixpoint = self.fixpoint(stratum)
            most = REFILL_FROM + fixpoint.facts.count() // REFILL_SHARE
            if any(unordered(name) in self.built for name in stratum.recursive) or not fixpoint.maintain(
                {**new, **self.before}, new, self.deltas, most
            ):
                self._note_evaluation(stratum.recursive)
                self.refill(stratum)
            else:
                self._account(stratum, fixpoint)
        for name, old in trees.items():
            self._note_difference(name, old)
            self.accounts[name].maintain_seconds += time.perf_counter() - started

    def _note_difference(self, name: str, old: Sequence[Tree]) -> None:
        """Record how the trees of a predicate differ from their old ones, in their visible columns."""
        stored, visible = self.installed.stored[name], self.installed.stored[name].layout.visible
        actions, rows = delta(self.txn.pages, old[0], self.txn.tree(name))
        change = net_changes(actions, rows[:visible], stored.layout.keys)
        self.before |= stored.of_indices(old)
        if not change:
            return
        if stored.checked:
            self._check_function(name, change)
        permuted = [net_changes(change.actions, change.rows[place]) for place in stored.places[1:]]
        self._note_change(name, stored.of_indices([change, *permuted]))

    # -- one range, or the texts of a concat

    def _scan(self, rule: InstalledRule) -> Iterable[tuple[str, Edits]]:
        """Yield the edits of a view that is evaluated without plans.  Raises RangeError."""
        span = rule.span
        if span is None:
            yield from self._follow_texts(rule)
            return
        if self.deltas.keys().isdisjoint(rule.indices):
            return
        points, measured = [
            Side(self.before.get(index, self.tree(index)), self.tree(index), self.deltas.get(index))
            for index in span.indices
        ]
        (name,) = rule.writes
        find = self.results_of(name, span, measured.new)
        edits, looked = ranged_edits(self.txn.pages, span, points, measured, find)
        self.accounts[name].operations += looked
        yield name, edits

    def _follow_texts(self, rule: InstalledRule) -> Iterable[tuple[str, Edits]]:
        """Yield the edits of a view of a concat's texts: those of the groups that have changed."""
        (name,), (concat, fold) = rule.writes, self.concat_of(rule)
        change = self.change_of(concat)
        rows = self.rows_with_constants(rule, change.rows) if change else np.empty((0, 0), np.int64)
        if rows.size:
            self.accounts[name].operations += rows.shape[1]
            yield name, text_edits(self.txn, self.installed.layouts[name], self.txn.tree(name), concat, fold, rows)

    # -- one plan

    def _maintain_plan(self, rule: InstalledRule, number: int) -> Iterable[tuple[str, Edits]]:
        """Yield the head edits, by view, of one plan for the deltas so far; renew its sensitivity indices."""
        plan = rule.plans[number]
        indices = indices_of(plan)
        if self.deltas.keys().isdisjoint(indices):
            return
        new = dict(zip(indices, map(self.tree, indices), strict=True))
        old = {**new, **self.before}
        if self.has_large_delta and plan.choice != SCANNED and self._is_reevaluation_cheaper(rule, plan, old):
            yield from self._reevaluate(rule, number, old, new)
            return
        names = rule.sensitivity_names(number)
        trees = [self.txn.tree(name) for name in names]
        change = maintain(self.txn.pages, plan, old, new, self.deltas, trees, rule.granularity, self.threads)
        if change is None:
            return
        if change.renewals:
            for name, (actions, rows) in zip(names, change.renewals, strict=True):
                self.txn.apply(name, actions, rows)
            self._rebuild_stale_sensitivity(rule, number, new)
        for name in rule.writes:
            account = self.accounts[name]
            account.operations += change.operations
            account.matched += change.matched
        if change.delta:
            yield from self.installed.heads[plan].edits(change.delta, self.encode).items()

    def _is_reevaluation_cheaper(self, rule: InstalledRule, plan: Plan, old: Mapping[Index, Tree]) -> bool:
        """Return whether evaluating both versions in full costs less than propagating the deltas."""
        large = [
            (len(change.actions), old[trie.index].count)
            for trie in plan.tries
            if (change := self.deltas.get(trie.index)) and len(change.actions) > LARGE_FROM
        ]
        shares = [rows / max(1, count) for rows, count in large]
        if max(shares, default=0) > RELATION_SHARE_MAX:
            return True
        counted = self.installed.heads[plan].listed is not None
        if sum(shares) <= len(plan.tries) * mean_share_max(plan, rule.granularity, counted):
            return False
        return is_flat_cheaper(plan.shape, [old[trie.index] for trie in plan.tries])

    def _reevaluate(
        self, rule: InstalledRule, number: int, old: Mapping[Index, Tree], new: Mapping[Index, Tree]
    ) -> Iterable[tuple[str, Edits]]:
        """Yield the head edits from one version to the other, both evaluated in full; rebuild the sensitivity indices.

        Bindings that are only counted are erased and inserted as counts, since a list might not fit in memory.
        """
        self._note_evaluation(rule.writes)
        plan = rule.plans[number]
        head = self.installed.heads[plan]
        if plan.in_columns and head.listed is not None:
            for action, versions in ((ERASE, self.before), (INSERT, {})):
                own = {name: self.installed.stored[name].indices[0] for name in rule.reads}
                trees = {name: versions.get(index, self.txn.tree(name)) for name, index in own.items()}
                yield from ((name, edit) for name, edit in self.in_columns(rule, plan, trees, action) if len(edit[0]))
            return
        before = self._evaluate_plan(plan, old, head.listed)
        after = self._evaluate_and_record(rule, number, new, head.listed)
        for name in rule.writes:
            self.accounts[name].operations += before.operations + after.operations
        if head.listed is None:
            if change := binding_difference(before.bindings, after.bindings):
                yield from head.edits(change, self.encode).items()
            return
        for action, evaluation in ((ERASE, before), (INSERT, after)):
            edits = fold_bindings(self.installed, head, evaluation.parts, action, self.encode)
            yield from ((name, edit) for name, edit in edits if len(edit[0]))

    def _note_evaluation(self, names: Iterable[str]) -> None:
        """Record that views are evaluated from scratch.  Raises RecomputeError where that is not allowed."""
        if self.strict:
            raise RecomputeError(
                f"{min(names)}: so much changes that following it would cost more than evaluating the view anew, which "
                "a strict refresh does not do: send fewer changes at a time, or allow it"
            )
        self.evaluated.update(names)

    def _rebuild_stale_sensitivity(self, rule: InstalledRule, number: int, new: Mapping[Index, Tree]) -> None:
        """Rebuild a plan's sensitivity indices when half of their rows may be stale, so that they stay near its trace.

        An interval is stale when its context no longer occurs; it does no harm. Only changes leave stale intervals, so
        the rows that the indices gained, or the body lost, since the last rebuild bound their number.
        """
        names = rule.sensitivity_names(number)
        built_rows, built_body = self.built.get(names[0], (0, 0))
        rows = sum(self.txn.tree(name).count for name in names)
        body = sum(tree.count for tree in new.values())
        if rows > STALE_RATIO * built_rows + STALE_FREE_ROWS or body + STALE_FREE_ROWS < SHRUNK_RATIO * built_body:
            self._evaluate_and_record(rule, number, new)


def divergence(fact: str) -> DivergenceError:
    """Return the error for a stored tree that contradicts the relations."""
    return DivergenceError(f"{fact}; what is stored for rules does not follow from the relations: "
                           "`ivm fsck --repair` rebuilds it")  # fmt: skip


def mean_share_max(plan: Plan, granularity: int, counted: bool) -> float:
    """Return the greatest mean share of its tries' rows up to which a plan propagates deltas if flat tries can run it.

    Each row of a trie's delta is looked up in every other trie. With a coarser granularity more of a trie is evaluated
    again, and more rows match an interval.
    """
    share = MATCHED_SHARE / granularity**2 if plan.sensors else COUNTED_SHARE if counted else PROBED_SHARE
    return share / len(plan.tries) ** 2
