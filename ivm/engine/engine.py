"""Maintenance: propagate the edits of one transaction through all installed rules.

    +edge(1, 2) ──▶ flush edge ──▶ maintain tri(x, y, z) <- edge(x, y), ... ──▶ flush tri ──▶ ...

Steps run in dependency order (schedule.py). To *flush* a predicate is to apply its waiting edits to its tree and its
permuted indices. To *maintain* a plan is to turn the deltas of the relations in its body into edits of its heads; these
wait until the first rule reads the head, or until the end. So all trees that a rule reads are final.
"""

import time
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import starmap
from typing import Any

import numpy as np

from ivm.engine.fill import divergence, unordered
from ivm.engine.joined import FREE, JoiningFiller
from ivm.engine.kept import Kept
from ivm.engine.kernels.plans import LARGE
from ivm.engine.kernels.run import EXCESS_FREE
from ivm.engine.scans import naming_the_rule
from ivm.engine.schedule import Schedule, is_stale, schedule_of
from ivm.errors import RecomputeError
from ivm.memory import Budget, Stopped, within_memory
from ivm.plan.plan import Index, Plan, indices_of, tree_name
from ivm.rules.constraints import refuse_violations
from ivm.rules.installed import index_columns
from ivm.rules.rule import InstalledRule, InstalledStratum
from ivm.rules.steps import Flush, Follow, Scan, Settle, Step, rules_below
from ivm.views.delta import Delta, insertions, net_changes, visible_difference
from ivm.views.layouts import INVERTED, SUM, State
from ivm.ways.match import maintain
from ivm.ways.pending import check_sums
from ivm.ways.probe import OPERATION, ROW
from ivm.ways.ranges import Side, ranged_edits
from ivm.ways.recursion.compiled import CompiledStratum, compiled
from ivm.ways.rope import text_edits
from ivm.ways.states import edits_of, view_edits
from pagestore.errors import EditError
from pagestore.host import ALONE, INSERT, Edits, Tree, delta, one_batch

# A large delta is propagated only if that costs less than evaluating the view anew: what a share of it costs tells.
LARGE_FROM = LARGE  # rows; a delta of one relation with no more is propagated whatever it costs
SAMPLED = 64  # rows of a delta whose matches are found to estimate what all cost, unless they are more than a share
SAMPLED_SHARE = 16
RENEWED = 8  # the cost of an interval of a sensitivity index that is removed or recorded
EDITED = 3  # the cost of a row of a delta that is a binding, beyond that of a row of a view that is evaluated anew
# A recursive stratum is evaluated from scratch once REFILL_FROM plus one in REFILL_SHARE of its rows lost support.
REFILL_FROM = 256
REFILL_SHARE = 2
REFILL_SHARE_MAX = 0.25  # of the rows of a relation that it reads: if more have changed, it is, too


@dataclass
class Engine(JoiningFiller):
    """Fill and maintain the views of one transaction.

    `before` holds the old trees of all indices that have changed so far.
    """

    watched: Container[str] = ()  # the predicates whose `change_of` will be called
    state_changes: dict[str, Edits] = field(default_factory=dict)  # of the aggregates' states that have changed so far
    evaluated: set[str] = field(default_factory=set)  # the views that were evaluated from scratch
    least: dict[Plan, int] = field(default_factory=dict)  # what probing plans costs at least, where that is known
    erased: dict[str, Any] = field(default_factory=dict)  # of watched views, for their subscribers (ivm/rope.py)

    @within_memory("applying edits")
    def apply_edits(self, edits: Mapping[str, Edits], done: int | None = None) -> None:
        """Apply edits of extensional predicates, and bring every view and index up to date.

        `done` is how many steps of their schedule the kernel has taken, if it was called (`carry` in schedule.py).

        Raises MaintainError; in particular ConstraintError, and DivergenceError if a stored tree contradicts the
        relations. O(changes of traces or probes * log n).
        """
        given, names = self.installed, frozenset(edits)
        if done is None:
            self.follow_sizes(names)
            self._check_trees()
        schedule = schedule_of(self.installed, names)
        try:
            started = time.perf_counter()
            if done is None:
                done = 0 if self.installed.needed_for(edits) else schedule.run(self.txn, edits, self.encode)
            self._note_carried(schedule, edits, done, time.perf_counter() - started)
            if done < len(schedule.steps):
                step = schedule.steps[done]
                if done and isinstance(step, Follow) and not self.has_large_delta:
                    self.least[step.plan] = schedule.probed
                waiting = schedule.waiting() if done else {name: [edit] for name, edit in edits.items()}
                self._run(schedule, schedule.steps[done:], waiting)
        except EditError as error:
            raise divergence(str(error)) from error
        self.drop_unused(given)
        self._refuse_new_violations()

    @within_memory("following a change")
    def follow_changes(self, before: Mapping[str, Tree]) -> None:
        """Bring every view and index up to date with relations that have changed already, given their old trees.

        Raises as `apply_edits`. O(changes) as well, but O(records) for a relation that was rebuilt.
        """
        given = self.installed
        changed = self._follow_changes(before, self.installed.rules)
        # for the next transaction, since relations have changed before their indices
        self.follow_sizes(changed)
        self.drop_unused(given)
        self._refuse_new_violations()

    @within_memory("following a change")
    def follow_for(self, names: Iterable[str], before: Mapping[str, Tree]) -> None:
        """Do as `follow_changes` for some predicates, and for those that these follow from, only.

        Constraints are not looked at.  Raises MaintainError.
        """
        rules = rules_below(self.installed, names)
        read = {*names}.union(*(rule.reads for rule in rules))
        self._follow_changes({name: tree for name, tree in before.items() if name in read}, rules)

    def _follow_changes(self, before: Mapping[str, Tree], rules: Iterable[InstalledRule]) -> frozenset[str]:
        """Bring the views of some rules up to date with changes of relations; return those that any rule reads."""
        self._check_trees()
        wanted = {*rules}
        changed = frozenset(name for name in before if self.installed.is_followed(name, self.txn.tree(name).spec))
        schedule = schedule_of(self.installed, changed)
        try:
            for name in sorted(changed):
                self._adopt_change(name, before[name])
            self._run(schedule, [x for x in schedule.steps if isinstance(x, Flush) or wanted.issuperset(x.rules)], {})
        except EditError as error:
            raise divergence(str(error)) from error
        return changed

    def _refuse_new_violations(self) -> None:
        """Raise ConstraintError for a constraint that something violates which did not before."""
        views = [v for v in self.installed.constraints if v in self.accounts and self.accounts[v].inserted]
        refuse_violations(self.txn, self.installed, views)

    def patch(self, kept: Kept, removed: Mapping[str, list[Edits]]) -> None:
        """Change kept views by the rows of rules that they no longer have, and of those added; bring others up to date.

        Views that are not kept are still to be filled.  Raises MaintainError.  O(changes, and evaluating those rules).
        """
        added = [rule for patch in kept.patches.values() for rule in patch.added]
        waiting = {name: [*parts] for name, parts in removed.items()}
        for name, parts in self.contributions(added).items():
            waiting.setdefault(name, []).extend(parts)
        rules = {*kept.rules, *added, *(rule for patch in kept.patches.values() for rule in patch.partly)}
        schedule = schedule_of(self.installed, frozenset(waiting))
        self._run(schedule, [x for x in schedule.steps if isinstance(x, Flush) or rules.issuperset(x.rules)], waiting)

    def _build_deferred(self, needed: frozenset[Index]) -> None:
        """Build deferred indices, which probes are about to read."""
        if needed:
            self.installed = replace(self.installed, deferred=self.installed.deferred - needed)
            for index in sorted(needed):
                self.build_index(index)

    def build_index(self, index: Index, relation: Tree | None = None) -> None:
        """Create the tree of a permuted index; of a relation that has changed, also its tree before, and its change."""
        own = self.installed.stored[index.predicate].indices[0]
        change = self.deltas.get(own)
        if change is None:
            super().build_index(index, relation)
            return
        super().build_index(index, self.before[own])
        name = tree_name(index)
        self.before[index] = self.txn.tree(name)
        columns = index_columns(index, self.installed.layouts[index.predicate])
        self.deltas[index] = Delta(*self.txn.apply(name, change.actions, change.rows[columns]))

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

    def _run(self, schedule: Schedule, steps: Sequence[Step], waiting: dict[str, list[Edits]]) -> None:
        """Run steps of a schedule one by one; `waiting` holds the pending edits by predicate."""
        reached: dict[Index, set[Plan]] = {}
        anew = set[int]()  # the numbers of rules whose views are evaluated anew, after the last step of such a rule
        for place, step in enumerate(steps):
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
            known = step.rule.number in anew
            own = step.plan.tries[0].index if step.plan.is_scan and not known else None
            if own is not None and step.plan not in self._reached(schedule, own, reached):
                continue
            if known or self._is_better_anew(step) or not self._follow(step, waiting):
                group = self.installed.together[self.installed.numbered[step.rule.number]]
                numbers = {rule.number for rule in group}
                anew |= numbers
                if not any(isinstance(one, Follow) and one.rule.number in numbers for one in steps[place + 1 :]):
                    self._evaluate_anew(group, waiting)

    def _follow(self, step: Follow, waiting: dict[str, list[Edits]]) -> bool:
        """Add the edits of one plan for the deltas so far to `waiting`; return False, adding none, if it turns out that
        evaluating the rule's views anew costs less.
        """
        started = time.perf_counter()
        try:
            with naming_the_rule(step.rule.definition):
                for name, edit in self._maintain_plan(*step):
                    if len(edit[0]):
                        waiting.setdefault(name, []).append(edit)
                    self.accounts[name].maintain_seconds += time.perf_counter() - started
                    started = time.perf_counter()
        except Stopped:
            return False
        return True

    def _reached(self, schedule: Schedule, index: Index, known: dict[Index, set[Plan]]) -> set[Plan]:
        """Return the plans that scan a relation and may have bindings among its changes; `known` keeps them."""
        if index not in known:
            change = self.deltas.get(index)
            known[index] = schedule.reached(index, change.rows, self.encode) if change else set()
        return known[index]

    def _note_carried(self, schedule: Schedule, edits: Mapping[str, Edits], done: int, seconds: float) -> None:
        """Record the changes of the first steps, which one kernel call has taken."""
        accounts = schedule.account(seconds) if done else {}
        self.accounts |= accounts
        for name, account in accounts.items():
            inserted, erased = account.inserted, account.erased
            if account.operations > EXCESS_FREE:
                rows = sum(len(actions) for actions, _ in edits.values())
                for rule in self.installed.rules:
                    if name in rule.writes:
                        self.compare_with_expected(rule, account.operations, rows)
            if inserted + erased and (done < len(schedule.steps) or name in self.watched):
                trees, deltas = schedule.changes_of(name)
                self.before |= trees
                self._note_change(name, deltas)
            if inserted and name in schedule.checked:
                self._check_rows(name, next(iter(schedule.changes_of(name)[1].values())))
        if 0 < done < len(schedule.steps):
            self.state_changes |= schedule.state_changes()
        for step in schedule.stale(done, self.txn.counts, self.built) if done else ():
            trees = {index: self.tree(index) for index in indices_of(step.plan)}
            self._evaluate_and_record(step.rule, step.number, trees)

    def _flush(self, name: str, parts: list[Edits]) -> None:
        """Apply the pending edits of a predicate to its tree, and the tree's delta to its permuted indices."""
        started = time.perf_counter()
        stored = self.installed.stored[name]
        layout = stored.layout
        actions, rows = self.kept_edits(name, one_batch(parts))
        if layout.fold:
            change = self._change_of_state(layout.fold.state, actions, rows)
            if (edits := self.renewed_state(name, change)) is not None:
                self._apply((layout.fold.state.name,), ALONE, *edits, layout.fold.state.visible)
            view, state = self.txn.tree(name), self.txn.tree(layout.fold.state.name)
            actions, rows = view_edits(name, layout, self.txn.pages, view, state, *change, self.encode.keys)
        self._store(name, actions, rows)
        self.accounts[name].maintain_seconds += time.perf_counter() - started

    def _store(self, name: str, actions: np.ndarray, rows: np.ndarray) -> None:
        """Apply edits to the trees of a predicate, and record what they changed."""
        stored = self.installed.stored[name]
        layout = stored.layout
        self.before |= stored.of_indices([*map(self.txn.tree, stored.names)])
        (actions, rows), *permuted = self._apply(stored.names, stored.places, actions, rows, layout.visible)
        if not len(actions):
            return
        change = Delta(actions, rows[: layout.visible])
        self._check_rows(name, change)
        self._note_change(name, stored.of_indices([change, *starmap(Delta, permuted)]))

    def _check_rows(self, name: str, change: Delta) -> None:
        """Raise RangeError for a sum that its type cannot hold, FunctionConflictError for two values of a key."""
        stored = self.installed.stored[name]
        if stored.layout.kind == SUM:
            check_sums(self.txn, self._predicate(name), change.rows[:, change.actions == INSERT])
        if stored.checked:
            self._check_function(name, change)

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
        new, visible, keys = self.txn.tree(name), stored.layout.visible, stored.layout.keys
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

    # -- a recursive stratum

    def _finish(self, stratum: InstalledStratum) -> None:
        """Bring the views of a recursive stratum up to date with the deltas so far."""
        known = compiled(self.installed, stratum)
        changed = known.below.intersection(self.deltas)
        if not changed:
            return
        started = time.perf_counter()
        anew = self._changes_a_share(changed) or any(unordered(name) in self.built for name in stratum.recursive)
        with naming_the_rule(stratum.rules[0].definition):
            if known.plain and not anew:
                self._maintain_compiled(stratum, known)
            else:
                self._maintain_in_rounds(stratum, anew)
        for name in stratum.recursive:
            self.accounts[name].maintain_seconds += time.perf_counter() - started

    def _maintain_compiled(self, stratum: InstalledStratum, known: CompiledStratum) -> None:
        """Maintain a stratum by one call of a kernel, or evaluate it anew if that takes more work than is allowed."""
        allowed = known.allowed(self.txn, REFILL_FROM, REFILL_SHARE)
        outcome = known.maintain(self.txn, self.before, self.deltas, allowed)
        if not outcome.finished:
            trees = {name: self._trees_of(name) for name in stratum.recursive} | outcome.written
            if not (known.linear and self._maintain_in_memory(stratum, known, trees)):
                self._refill_noting(stratum, trees)
            return
        self._account(stratum, *outcome.counts)
        for name, edits in outcome.edits.items():
            stored = self.installed.stored[name]
            if name not in outcome.written:
                self._store(name, *edits)
            else:
                self._apply(stored.names, stored.places, *edits, stored.layout.visible)
        for name, old in outcome.written.items():
            self._note_difference(name, old)

    def _maintain_in_memory(
        self, stratum: InstalledStratum, known: CompiledStratum, trees: Mapping[str, Mapping[Index, Tree]]
    ) -> bool:
        """Maintain a linear stratum with all that follows from the changes in memory; return whether that succeeded."""
        new = {index: self.tree(index) for index in known.below}
        fixpoint = self.fixpoint(stratum)
        if not fixpoint.maintain_in_memory({**new, **self.before}, new, self.deltas):
            return False
        self._account(stratum, *fixpoint.work.counts)
        for name, old in trees.items():
            self._note_difference(name, old)
        return True

    def _maintain_in_rounds(self, stratum: InstalledStratum, anew: bool) -> None:
        """Maintain a stratum round by round, or evaluate it anew where that is cheaper."""
        trees = {name: self._trees_of(name) for name in stratum.recursive}
        new = {index: self.tree(index) for index in compiled(self.installed, stratum).below}
        fixpoint = self.fixpoint(stratum)
        most = REFILL_FROM + fixpoint.facts.count() // REFILL_SHARE
        if anew or not fixpoint.maintain({**new, **self.before}, new, self.deltas, most):
            self._refill_noting(stratum, trees)
            return
        self._account(stratum, *fixpoint.work.counts)
        for name, old in trees.items():
            self._note_difference(name, old)

    def _refill_noting(self, stratum: InstalledStratum, trees: Mapping[str, Mapping[Index, Tree]]) -> None:
        """Evaluate a stratum anew, and record how its views differ from their old trees."""
        self._note_evaluation(stratum.recursive)
        self.refill(self.fitting(stratum))
        for name, old in trees.items():
            self._note_difference(name, old)

    def _changes_a_share(self, indices: Iterable[Index]) -> bool:
        """Return whether more than a share of a relation that a recursive stratum reads has changed."""
        changes = ((len(self.deltas[one].actions), self.before[one].count) for one in indices)
        return any(rows > max(LARGE_FROM, REFILL_SHARE_MAX * count) for rows, count in changes)

    def _note_difference(self, name: str, old: Mapping[Index, Tree]) -> None:
        """Record how the trees of a predicate differ from their old ones, in their visible columns."""
        stored, visible = self.installed.stored[name], self.installed.stored[name].layout.visible
        before, after = old[stored.indices[0]], self.txn.tree(name)
        if before.count:
            actions, rows = delta(self.txn.pages, before, after)
            change = net_changes(actions, rows[:visible], stored.layout.keys)
        else:
            change = insertions(self.txn.pages, after, visible)
        self.before |= old
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
        """Yield the head edits, by view, of one plan for the deltas so far; renew its sensitivity indices.

        Raises Stopped, before the first of them, if it turns out that evaluating the rule's views anew costs less.
        """
        plan = rule.plans[number]
        indices = indices_of(plan)
        if self.deltas.keys().isdisjoint(indices):
            return
        needed = self.installed.probed_in(plan, self.deltas)
        if needed and self.puts_off(rule, plan, needed):
            yield from self.join_rows(rule, plan)
            return
        self._build_deferred(needed)
        new = dict(zip(indices, map(self.tree, indices), strict=True))
        old = {**new, **self.before}
        names = rule.sensitivity_names(number)
        trees = [self.txn.tree(name) for name in names]
        others = cache(partial(self.others, rule, plan))
        budget = Budget(FREE, lambda _: min(others()), partial(self.probing, rule, plan))
        try:
            budget.refuse(self.least.get(plan, 0))
            change = maintain(
                self.txn.pages, plan, old, new, self.deltas, trees, rule.granularity, self.threads, budget
            )
        except Stopped:
            joining, anew = others()
            if joining > anew:
                raise
            yield from self.join_rows(rule, plan)
            return
        if change is None:
            return
        if change.renewals:
            for name, (actions, rows) in zip(names, change.renewals, strict=True):
                self.txn.apply(name, actions, rows)
            if is_stale(Follow(rule, number), self.txn.counts, self.built):
                self._evaluate_and_record(rule, number, new)
        changed = sum(len(self.deltas[trie.index].actions) for trie in plan.tries if trie.index in self.deltas)
        self.compare_with_expected(rule, change.operations, changed)
        for account in map(self.accounts.__getitem__, rule.writes):
            account.operations += change.operations
            account.matched += change.matched
        if change.delta:
            yield from self.installed.heads[plan].edits(change.delta, self.encode).items()

    # -- views evaluated anew

    def _is_better_anew(self, step: Follow) -> bool:
        """Return whether evaluating the views of a step's rule anew costs less than propagating the deltas."""
        rule, plan = step.rule, step.plan
        if not self.has_large_delta:
            return False
        changes = [(trie.index, change) for trie in plan.tries if (change := self.deltas.get(trie.index))]
        large = [(index, len(change.actions)) for index, change in changes if len(change.actions) > LARGE_FROM]
        if not large:
            return False
        if not self.may_be_anew(rule):
            return False
        own = [self.installed.stored[name].indices[0] for name in rule.writes]
        empty = not any(self.txn.tree(index.predicate).count for index in own)
        if empty and any(rows > self.before[index].count for index, rows in large):
            return True
        anew = self.evaluating(rule) - self.rewriting(rule, plan)
        return self._propagating(rule, plan, anew) > anew

    def _propagating(self, rule: InstalledRule, plan: Plan, anew: float) -> float:
        """Estimate the cost of following the deltas by a plan, as far as probing does not find out what it costs, and
        as far as it matters where evaluating anew costs `anew`.
        """
        changes = {trie.index: change for trie in plan.tries if (change := self.deltas.get(trie.index))}
        rows = sum(len(change.actions) for change in changes.values())
        if len(plan.tries) == 1:
            return float(EDITED * rows)
        if plan.probes:
            needed = self.installed.probed_in(plan, changes)
            least = ROW * rows + (self.building(needed) if needed else 0)
            return least if least <= anew else self.joining(rule, plan, anew)
        every = max(SAMPLED_SHARE, rows // SAMPLED)
        sample = {index: Delta(one.actions[::every], one.rows[:, ::every]) for index, one in changes.items()}
        new = {index: self.tree(index) for index in indices_of(plan)}
        number = rule.plans.index(plan)
        trees = [*map(self.txn.tree, rule.sensitivity_names(number))]
        found = maintain(
            self.txn.pages, plan, {**new, **self.before}, new, {**self.deltas, **sample}, trees, rule.granularity
        )
        if found is None:
            return 0.0
        renewed = sum(len(actions) for actions, _ in found.renewals)
        return float(every * (OPERATION * found.operations + RENEWED * renewed + EDITED * len(found.delta.actions)))

    def _evaluate_anew(self, rules: Sequence[InstalledRule], waiting: dict[str, list[Edits]]) -> None:
        """Evaluate the views of some rules anew, and record how they differ from before."""
        started, views = time.perf_counter(), dict.fromkeys(name for rule in rules for name in rule.writes)
        self._note_evaluation(views)
        for name in views:
            waiting.pop(name, None)
        before = {name: self._trees_of(name) for name in views}
        for name in views:
            self.clear(name)
        self.fill(rules)
        for name, trees in before.items():
            for index in self.installed.indices[name]:
                self.txn.drop(tree_name(index))
                super().build_index(index)
            self._note_difference(name, trees)
            self.accounts[name].maintain_seconds += time.perf_counter() - started

    def clear(self, name: str) -> None:
        """Empty a view that is not recursive, and drop the state that it follows from."""
        fold = self.installed.layouts[name].fold
        if fold and fold.state.name in self.txn:
            self.txn.drop(fold.state.name)
        self.txn.replace(name, Tree.empty(self.txn.tree(name).spec))

    def _trees_of(self, name: str) -> dict[Index, Tree]:
        stored = self.installed.stored[name]
        return stored.of_indices([*map(self.txn.tree, stored.names)])

    def _note_evaluation(self, names: Iterable[str]) -> None:
        """Record that views are evaluated from scratch.  Raises RecomputeError where that is not allowed."""
        if self.strict:
            raise RecomputeError(
                f"{min(names)}: so much changes that following it would cost more than evaluating the view anew, which "
                "a strict refresh does not do: send fewer changes at a time, or allow it"
            )
        self.evaluated.update(names)
