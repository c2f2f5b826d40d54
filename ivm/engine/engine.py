"""Maintenance: propagate the edits of one transaction through all installed rules.

    +edge(1, 2) ──▶ flush edge ──▶ maintain tri(x, y, z) <- edge(x, y), ... ──▶ flush tri ──▶ ...

Steps run in dependency order (schedule.py). To *flush* a predicate is to apply its waiting edits to
its tree and its permuted indices. To *maintain* a plan is to turn the deltas of the relations in
its body into edits of its heads; these wait until the first rule reads the head, or until the end.
So all trees that a rule reads are final.
"""

import time
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

from ivm.engine.choice import Choice
from ivm.engine.fill import WITHOUT_PLANS, Fill
from ivm.engine.kept import Kept
from ivm.engine.kernels.run import EXCESS_FREE
from ivm.engine.replan import Replan
from ivm.engine.schedule import Schedule, schedule_of
from ivm.engine.sweep import sweep
from ivm.errors import RecomputeError
from ivm.memory import EVALUATING, Budget, Stopped, within_memory
from ivm.plan import costs
from ivm.plan.plan import Index, Plan, indices_of, tree_name
from ivm.rules.account import Account
from ivm.rules.constraints import refuse_violations
from ivm.rules.installed import Installed
from ivm.rules.rule import InstalledRule, InstalledStratum
from ivm.rules.steps import Flush, FollowPlan, FollowRule, FollowStratum, Step, rules_below
from ivm.terms.encoder import Encoder
from ivm.views.delta import Delta
from ivm.ways import by_columns
from ivm.ways.match import maintain
from ivm.ways.recursion import stratum as recursion
from ivm.ways.scan import kept_edits, renewed_state
from ivm.ways.states import view_edits
from ivm.ways.storing import (
    adopt_change,
    apply,
    change_state,
    check_rows,
    divergence,
    note_change,
    note_difference,
    store,
)
from ivm.ways.way import Context
from pagestore.errors import EditError
from pagestore.host import ALONE, Edits, Transaction, Tree, one_batch, refuse_stopped


class Engine:
    """Fills and maintains the views of one transaction.

    `watched` are the predicates whose `change_of` will be called; if `strict`, no view is evaluated
    anew.
    """

    def __init__(
        self,
        txn: Transaction,
        installed: Installed,
        encode: Encoder,
        threads: int = 1,
        *,
        built: Mapping[str, tuple[int, ...]],
        watched: Container[str] = (),
        strict: bool = False,
    ) -> None:
        self.context = Context(txn, installed, encode, threads, built={**built})
        self.replan = Replan(self.context)
        self.fill = Fill(self.context, self.replan)
        self._choice, self._watched = Choice(self.context, strict), watched
        self._least = dict[Plan, int]()  # what probing plans costs at least, where that is known
        self.evaluated = set[str]()  # the views that were evaluated from scratch
        self.erased = dict[str, Any]()  # of watched views, for their subscribers (ivm/rope.py)

    @property
    def txn(self) -> Transaction:
        """The transaction."""
        return self.context.txn

    @property
    def installed(self) -> Installed:
        """The rules, some of which may have got other plans."""
        return self.context.installed

    @property
    def built(self) -> dict[str, tuple[int, ...]]:
        """The sizes of sensitivity indices when they were built (Context)."""
        return self.context.built

    @property
    def accounts(self) -> dict[str, Account]:
        """What maintenance of each view did."""
        return self.context.accounts

    def fill_views(self, rules: Iterable[InstalledRule]) -> None:
        """Evaluate rules whose views are empty; keep the trees that all rules need, and no others.

        Raises MaintainError.
        """
        given = self.installed
        self.fill.rules(rules)
        self.replan.drop_unused(given)
        self.replan.build_missing()

    @within_memory("applying edits")
    def apply_edits(self, edits: Mapping[str, Edits], done: int | None = None) -> None:
        """Apply edits of extensional predicates, and bring every view and index up to date.

        `done` is how many steps of their schedule the kernel has taken, if it was called (`run_steps` in
        schedule.py).

        Raises MaintainError; in particular ConstraintError, and DivergenceError if a stored tree
        contradicts the relations. O(changes of traces or probes * log n).
        """
        given, names = self.installed, frozenset(edits)
        if done is None:
            self.replan.follow_sizes(names)
            self._check_trees()
        schedule = schedule_of(self.installed, names)
        try:
            started = time.perf_counter()
            if done is None:
                if self.installed.needed_for(edits):
                    done = 0
                else:
                    done = schedule.run(self.txn, edits, self.context.encode)
            self._note_carried(schedule, edits, done, time.perf_counter() - started)
            if done < len(schedule.steps):
                step = schedule.steps[done]
                if done and isinstance(step, FollowPlan) and not self._choice.has_large_delta:
                    self._least[step.plan] = schedule.probed
                waiting = (
                    schedule.waiting() if done else {name: [edit] for name, edit in edits.items()}
                )
                self._run(schedule, schedule.steps[done:], waiting)
        except EditError as error:
            raise divergence(str(error)) from error
        self.replan.drop_unused(given)
        self._refuse_new_violations()

    @within_memory("following a change")
    def follow_changes(self, before: Mapping[str, Tree]) -> None:
        """Bring every view and index up to date with relations that have changed already, given
        their old trees.

        Raises as `apply_edits`. O(changes) as well, but O(records) for a relation that was rebuilt.
        """
        given = self.installed
        changed = self._follow_changes(before, self.installed.rules)
        # for the next transaction, since relations have changed before their indices
        self.replan.follow_sizes(changed)
        self.replan.drop_unused(given)
        self._refuse_new_violations()

    @within_memory("following a change")
    def follow_for(self, names: Iterable[str], before: Mapping[str, Tree]) -> None:
        """Follow changes as `follow_changes` does, for some predicates and what these follow from.

        Constraints are not looked at.  Raises MaintainError.
        """
        rules = rules_below(self.installed, names)
        read = {*names}.union(*(rule.reads for rule in rules))
        self._follow_changes({name: tree for name, tree in before.items() if name in read}, rules)

    def _follow_changes(
        self, before: Mapping[str, Tree], rules: Iterable[InstalledRule]
    ) -> frozenset[str]:
        """Bring the views of some rules up to date with changes of relations; return those that
        any rule reads.
        """
        self._check_trees()
        due = {*rules}
        changed = frozenset(
            name for name in before if self.installed.is_followed(name, self.txn.tree(name).spec)
        )
        schedule = schedule_of(self.installed, changed)
        try:
            for name in sorted(changed):
                adopt_change(self.context, name, before[name])
            self._run(
                schedule,
                [x for x in schedule.steps if isinstance(x, Flush) or due.issuperset(x.rules)],
                {},
            )
        except EditError as error:
            raise divergence(str(error)) from error
        return changed

    def _refuse_new_violations(self) -> None:
        """Raise ConstraintError for a constraint that something violates which did not before."""
        views = [
            v
            for v in self.installed.constraints
            if v in self.accounts and self.accounts[v].inserted
        ]
        refuse_violations(self.txn, self.installed, views)

    def patch(self, kept: Kept, removed: Mapping[str, list[Edits]]) -> None:
        """Change kept views by the rows of rules that they no longer have, and of those added;
        bring others up to date.

        Views that are not kept are still to be filled.  Raises MaintainError.  O(changes, and
        evaluating those rules).
        """
        added = [rule for patch in kept.patches.values() for rule in patch.added]
        waiting = {name: [*parts] for name, parts in removed.items()}
        for name, parts in self.fill.contributions(added).items():
            waiting.setdefault(name, []).extend(parts)
        rules = {
            *kept.rules,
            *added,
            *(rule for patch in kept.patches.values() for rule in patch.partly),
        }
        schedule = schedule_of(self.installed, frozenset(waiting))
        self._run(
            schedule,
            [x for x in schedule.steps if isinstance(x, Flush) or rules.issuperset(x.rules)],
            waiting,
        )

    def _build_deferred(self, needed: frozenset[Index]) -> None:
        """Build deferred indices, which probes are about to read."""
        if needed:
            self.context.installed = replace(
                self.installed, deferred=self.installed.deferred - needed
            )
            for index in sorted(needed):
                self.context.build_index(index)

    def change_of(self, name: str) -> Delta | None:
        """Return the delta of a watched predicate in this transaction; None if unchanged."""
        return self.context.deltas.get(self.context.own(name))

    def _check_trees(self) -> None:
        """Raise DivergenceError if a tree is missing or has the wrong shape; each catalog once."""
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
            if not self.context.predicate(name).extensional and spec[1:3] != (
                layout.keys,
                layout.shown + layout.hidden,
            ):
                raise divergence(f"{name} has {spec.keys} key and {spec.values} value words")
        for name, scans in self.installed.scans.items():
            for scan in scans.difference(self.txn[name].scans):
                raise divergence(f"{name} has lost its scan {scan}")
        self.installed.checked_catalog["catalog"] = catalog

    # -- the steps of a schedule

    def _run(
        self, schedule: Schedule, steps: Sequence[Step], waiting: dict[str, list[Edits]]
    ) -> None:
        """Run steps of a schedule one by one; `waiting` holds the pending edits by predicate."""
        # an index that a step builds has a tree before the change too, which this transaction wrote
        with self.txn.keeping_pages():
            self._run_steps(schedule, steps, waiting)

    def _run_steps(
        self, schedule: Schedule, steps: Sequence[Step], waiting: dict[str, list[Edits]]
    ) -> None:
        reached: dict[Index, set[Plan]] = {}
        # the numbers of rules whose views are evaluated anew, after the last step of such a rule
        anew = set[int]()
        for place, step in enumerate(steps):
            refuse_stopped()
            if isinstance(step, Flush):
                if step.name in waiting:
                    with within_memory(f"{step.name}: storing rows that change"):
                        self._flush(step.name, waiting.pop(step.name))
                continue
            if isinstance(step, FollowStratum):
                self._follow_stratum(step.stratum)
                continue
            started = time.perf_counter()
            if isinstance(step, FollowRule):
                for name, edit in WITHOUT_PLANS[step.rule.way].follow(self.context, step.rule):
                    waiting.setdefault(name, []).append(edit)
                    self.accounts[name].maintain_seconds += time.perf_counter() - started
                continue
            known = step.rule.number in anew
            scanned = None if known else step.scanned
            if scanned is not None and step.plan not in self._reached(schedule, scanned, reached):
                continue
            if known or self._choice.is_better_anew(step) or not self._follow(step, waiting):
                group = self.installed.together[self.installed.numbered[step.rule.number]]
                numbers = {rule.number for rule in group}
                anew |= numbers
                if not any(
                    isinstance(later, FollowPlan) and later.rule.number in numbers
                    for later in steps[place + 1 :]
                ):
                    self._evaluate_anew(group, waiting)

    def _follow(self, step: FollowPlan, waiting: dict[str, list[Edits]]) -> bool:
        """Add the edits of one plan for the deltas so far to `waiting`; return False, adding none,
        if it turns out that evaluating the rule's views anew costs less.
        """
        started = time.perf_counter()
        try:
            with within_memory(EVALUATING, where=step.rule.definition.where):
                for name, edit in self._maintain_plan(*step):
                    if len(edit[0]):
                        waiting.setdefault(name, []).append(edit)
                    self.accounts[name].maintain_seconds += time.perf_counter() - started
                    started = time.perf_counter()
        except Stopped:
            return False
        return True

    def _reached(
        self, schedule: Schedule, index: Index, known: dict[Index, set[Plan]]
    ) -> set[Plan]:
        """Return the plans that scan a relation and may have bindings among its changes; `known`
        keeps them.
        """
        if index not in known:
            change = self.context.deltas.get(index)
            known[index] = (
                schedule.reached(index, change.rows, self.context.encode) if change else set()
            )
        return known[index]

    def _note_carried(
        self, schedule: Schedule, edits: Mapping[str, Edits], done: int, seconds: float
    ) -> None:
        """Record the changes of the first steps, which one kernel call has taken."""
        accounts = schedule.account(seconds) if done else {}
        self.accounts.update(accounts)
        for name, account in accounts.items():
            inserted, erased = account.inserted, account.erased
            if account.operations > EXCESS_FREE or name in self.installed.turned:
                rows = sum(len(actions) for actions, _ in edits.values())
                for rule in self.installed.rules:
                    if name in rule.writes:
                        self.replan.compare_with_expected(
                            rule, account.operations, rows, 2 * account.matched
                        )
            if inserted + erased and (done < len(schedule.steps) or name in self._watched):
                trees, deltas = schedule.changes_of(name)
                self.context.before |= trees
                note_change(self.context, name, deltas)
            if inserted and name in schedule.checked:
                check_rows(self.context, name, next(iter(schedule.changes_of(name)[1].values())))
        if 0 < done < len(schedule.steps):
            self.context.state_changes |= schedule.state_changes()
        for step in schedule.stale(done, self.txn.counts, self.built) if done else ():
            sweep(self.context, step.rule, step.number)

    def _flush(self, name: str, parts: list[Edits]) -> None:
        """Apply a predicate's pending edits to its tree, and the delta to permuted indices."""
        started, context = time.perf_counter(), self.context
        layout = self.installed.layouts[name]
        actions, rows = kept_edits(context, name, one_batch(parts))
        if layout.fold:
            kept = layout.fold.state
            change = change_state(context, kept, actions, rows)
            if (edits := renewed_state(context, name, change)) is not None:
                apply(context, (kept.name,), ALONE, *edits, kept.visible)
            view, state = self.txn.tree(name), self.txn.tree(kept.name)
            order = context.encode.keys
            actions, rows = view_edits(name, layout, self.txn.pages, view, state, *change, order)
        store(context, name, actions, rows)
        self.accounts[name].maintain_seconds += time.perf_counter() - started

    def _follow_stratum(self, stratum: InstalledStratum) -> None:
        """Bring the views of a recursive stratum up to date with the deltas so far."""
        if not recursion.changed_below(self.context, stratum):
            return
        started = time.perf_counter()
        trees = recursion.follow(self.context, stratum)
        if trees:
            with within_memory(EVALUATING, where=stratum.rules[0].definition.where):
                self._refill(stratum, trees)
        for name in stratum.recursive:
            self.accounts[name].maintain_seconds += time.perf_counter() - started

    def _refill(self, stratum: InstalledStratum, trees: Mapping[str, Mapping[Index, Tree]]) -> None:
        """Evaluate a stratum anew, and record how its views differ from their old trees."""
        self._note_evaluation(stratum.recursive)
        self.fill.stratum_anew(stratum)
        for name, old in trees.items():
            note_difference(self.context, name, old)

    # -- one plan

    def _maintain_plan(self, rule: InstalledRule, number: int) -> Iterable[tuple[str, Edits]]:
        """Yield the head edits, by view, of one plan for the deltas so far; renew its sensitivity
        indices.

        Raises Stopped, before the first of them, if it turns out that evaluating the rule's views
        anew costs less.
        """
        plan, context, choice = rule.plans[number], self.context, self._choice
        deltas = context.deltas
        if deltas.keys().isdisjoint(indices_of(plan)):
            return
        needed = self.installed.probed_in(plan, deltas)
        if needed and choice.defers_index(rule, plan, needed):
            self.replan.regret.prepared(rule, choice.joining(rule, plan))
            yield from by_columns.follow(context, rule, plan)
            return
        self.replan.regret.prepared(rule, choice.building(needed))
        self._build_deferred(needed)
        transition = context.transition(indices_of(plan))
        names = rule.sensitivity_names(number)
        trees = [self.txn.tree(name) for name in names]
        others = cache(partial(choice.others, rule, plan))
        budget = Budget(costs.FREE, lambda _: min(others()), partial(choice.probing, rule, plan))
        try:
            budget.refuse(self._least.get(plan, 0))
            change = maintain(
                self.txn.pages, plan, transition, trees, rule.granularity, context.threads, budget
            )
        except Stopped:
            joining, anew = others()
            if joining > anew:
                raise
            yield from by_columns.follow(context, rule, plan)
            return
        if change is None:
            return
        if change.renewals:
            for name, (actions, rows) in zip(names, change.renewals, strict=True):
                self.txn.apply(name, actions, rows)
            sweep(context, rule, number)
        changed = sum(
            len(deltas[trie.index].actions) for trie in plan.tries if trie.index in deltas
        )
        renewed = sum(len(actions) for actions, _ in change.renewals)
        self.replan.compare_with_expected(rule, change.operations, changed, renewed)
        for account in map(self.accounts.__getitem__, rule.writes):
            account.operations += change.operations
            account.matched += change.matched
        if change.delta:
            yield from self.installed.heads[plan].edits(change.delta, context.encode).items()

    def _evaluate_anew(
        self, rules: Sequence[InstalledRule], waiting: dict[str, list[Edits]]
    ) -> None:
        """Evaluate the views of some rules anew, and record how they differ from before."""
        started = time.perf_counter()
        views = dict.fromkeys(name for rule in rules for name in rule.writes)
        self._note_evaluation(views)
        for name in views:
            waiting.pop(name, None)
        before = {name: self.context.trees_of(name) for name in views}
        for name in views:
            self._clear(name)
        self.fill.rules(rules)
        for name, trees in before.items():
            for index in self.installed.indices[name]:
                self.txn.drop(tree_name(index))
                self.context.build_index(index)
            note_difference(self.context, name, trees)
            self.accounts[name].maintain_seconds += time.perf_counter() - started

    def _clear(self, name: str) -> None:
        """Empty a view that is not recursive, and drop the state that it follows from."""
        fold = self.installed.layouts[name].fold
        if fold and fold.state.name in self.txn:
            self.txn.drop(fold.state.name)
        self.txn.replace(name, Tree.empty(self.txn.tree(name).spec))

    def _note_evaluation(self, names: Iterable[str]) -> None:
        """Record that views are evaluated anew. Raises RecomputeError where that is not allowed."""
        if self._choice.strict:
            raise RecomputeError(
                f"{min(names)}: so much changes that following it would cost more than evaluating "
                f"the view anew, which "
                "a strict refresh does not do: send fewer changes at a time, or allow it"
            )
        self.evaluated.update(names)
