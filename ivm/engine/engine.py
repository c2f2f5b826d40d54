"""Rules over the trees of one transaction: fill views from scratch, or carry a delta through them.

A delta goes up in dependency order.  Each rule sees the old and the new trees of what it reads, all of
them final; its head edits wait until the first rule that reads the head (or the end), and then become
that view's delta, and its permuted indices' deltas.
"""

import time
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import starmap

import numpy as np

from ivm.engine.complement_join import evaluate_in_full
from ivm.engine.head_edits import check_sums, composed, folded, out_of_range
from ivm.engine.installed import Installed, InstalledRule, index_columns
from ivm.engine.recompute import placed
from ivm.engine.schedule import Flush, Schedule, Step, schedule_of
from ivm.errors import DivergenceError, FunctionConflictError
from ivm.join.evaluate import Evaluation, evaluate
from ivm.join.flat_trie import pays
from ivm.join.join import joined
from ivm.lang.ir import Predicate
from ivm.maintenance import sensitivity
from ivm.maintenance.maintain import difference, maintain
from ivm.maintenance.surgery import Delta, settled
from ivm.plan.constants import Encode
from ivm.plan.index import Index, tree_name
from ivm.plan.plan import Plan, indices_of
from ivm.views.aggregate_state import edits, keeps_state, results, state_name, state_spec
from ivm.views.edit_composition import Beyond, settled_sums
from ivm.views.layouts import SUM
from pagestore.errors import EditError
from pagestore.host import (
    ALONE,
    ERASE,
    INSERT,
    Edits,
    Transaction,
    Tree,
    ascending,
    bulk,
    bulk_all,
    compose_edits,
    count_prefixes,
    delta,
    one_batch,
    read_batches,
)

HUGE = 0.25  # of a relation: a larger delta is not followed, both versions are evaluated
PROBED = 0.9  # the part that this is where flat tries are evaluated: of each relation, times the square of the tries
COUNTED = 0.4  # ... where bindings are counted and not listed
MATCHED = 0.15  # ... where sensitivity is renewed, over the square of the granularity
HUGE_FROM = 64  # rows a delta has at least to be called so
STALE = 2  # sensitivity indices are built anew beyond so many times their size when they were built
SHRUNK = 0.75  # ... or when the relations they watch have shrunk to this part of their size then
STALE_FREE = 64  # rows that do not count, so that tiny indices are left alone


@dataclass
class Account:
    """What maintenance of one view did in the newest transaction that touched it.

    Times are seconds, of all views together that one call of a kernel maintained; `operations` counts iterator
    operations on both versions, `matched` the sensitivity intervals that surgeries hit, `inserted` and `erased` the
    view's own changes.
    """

    maintain_seconds: float = 0.0
    operations: int = 0
    matched: int = 0
    inserted: int = 0
    erased: int = 0


@dataclass
class Engine:
    """The trees of one transaction as rules see them."""

    txn: Transaction
    installed: Installed
    encode: Encode
    threads: int = 1
    watched: Container[str] = ()  # predicates whose `change_of` will be asked
    recording: bool = True  # whether sensitivity is kept of what is evaluated in full
    before: dict[Index, Tree] = field(default_factory=dict)
    deltas: dict[Index, Delta] = field(default_factory=dict)
    large: bool = False  # whether a delta has more rows than HUGE_FROM
    accounts: defaultdict[str, Account] = field(default_factory=lambda: defaultdict(Account))
    built: dict[str, tuple[int, int]] = field(default_factory=dict)  # sensitivity and body rows at the last building

    # -- a delta through all views

    def carry(self, edits: Mapping[str, Edits]) -> None:
        """Apply edits of extensional predicates and bring every view and index up to date.

        Raises MaintainError, DivergenceError among it where what is kept cannot be what follows.
        """
        self._refuse_misfits()
        schedule = schedule_of(self.installed, frozenset(edits))
        try:
            done = self._carry_few(schedule, edits)
            if done < len(schedule.steps):
                waiting = schedule.waiting() if done else {name: [edit] for name, edit in edits.items()}
                self._take(schedule.steps[done:], waiting)
        except EditError as error:
            raise astray(str(error)) from error

    def carry_on(self, before: Mapping[str, Tree]) -> None:
        """Bring every view and index up to date with extensional predicates that have changed, given their old trees.

        O(changes), as `carry`, and O(records) for a relation that was built anew.
        """
        self._refuse_misfits()
        try:
            for name, tree in before.items():
                self._adopt(name, tree)
            self._take(schedule_of(self.installed, frozenset(before)).steps, {})
        except EditError as error:
            raise astray(str(error)) from error

    def _refuse_misfits(self) -> None:
        """Raise DivergenceError where a tree is missing, or a view's has another shape; looks once at each catalog."""
        catalog = self.txn.catalog
        if self.installed.fitting.get("catalog") is catalog:
            return
        gone = (self.installed.keeps | self.installed.layouts.keys()) - catalog.relations.keys()
        if gone:
            raise astray(f"{min(gone)} is missing")
        for name, layout in self.installed.layouts.items():
            spec = catalog.relations[name].spec
            if not self._predicate(name).extensional and spec[1:3] != (layout.keys, layout.shown + layout.hidden):
                raise astray(f"{name} has {spec.keys} key and {spec.values} value words")
        self.installed.fitting["catalog"] = catalog

    def _take(self, steps: Sequence[Step], waiting: dict[str, list[Edits]]) -> None:
        """Take steps of a schedule, given the edits that wait for predicates."""
        for step in steps:
            if isinstance(step, Flush):
                if step.name in waiting:
                    self._settle(step.name, waiting.pop(step.name))
                continue
            started = time.perf_counter()
            with placed(step.views.rule):
                for name, edit in self._follow(*step):
                    waiting.setdefault(name, []).append(edit)
                    self.accounts[name].maintain_seconds += time.perf_counter() - started
                    started = time.perf_counter()

    def _carry_few(self, schedule: Schedule, edits: Mapping[str, Edits]) -> int:
        """Take the steps that one call of a kernel takes, and keep the books of it; returns how many."""
        started = time.perf_counter()
        done = schedule.run(self.txn, edits)
        for name, operations, inserted, erased in schedule.books() if done else ():
            self.accounts[name] = Account(time.perf_counter() - started, operations, 0, inserted, erased)
            if inserted + erased and (done < len(schedule.steps) or name in self.watched):
                trees, deltas = schedule.settled(name)
                self.before |= trees
                self._changed(name, deltas)
        return done

    def change_of(self, name: str) -> Delta | None:
        """The delta of a watched predicate in this transaction, if there was one."""
        return self.deltas.get(self.installed.kept[name].indices[0])

    def _settle(self, name: str, parts: list[tuple[np.ndarray, np.ndarray]]) -> None:
        """Apply the edits of a predicate to its tree, then its delta to the permuted indices."""
        started = time.perf_counter()
        kept = self.installed.kept[name]
        layout = kept.layout
        self.before |= kept.of_indices([*map(self.txn.tree, kept.names)])
        actions, rows = one_batch(parts)
        if keeps_state(layout):
            ((actions, rows),) = self._apply((state_name(name),), ALONE, actions, rows, max(2, len(rows) - 1))
            view, apart = self.txn.tree(name), self.txn.tree(state_name(name))
            actions, rows = edits(name, layout, self.txn.pages, view, apart, actions, rows)
        (actions, rows), *others = self._apply(kept.names, kept.places, actions, rows, layout.visible)
        if not len(actions):
            return
        delta = Delta(actions, rows[: layout.visible])
        if layout.kind == SUM:
            check_sums(self.txn, self._predicate(name), delta.rows[:, actions == INSERT])
        if kept.checked:
            self._check_function(name, delta)
        self._changed(name, kept.of_indices([delta, *starmap(Delta, others)]))
        self.accounts[name].maintain_seconds += time.perf_counter() - started

    def _adopt(self, name: str, old: Tree) -> None:
        """Take what has changed in a predicate's tree as settled, and bring its permuted indices up to date."""
        kept = self.installed.kept[name]
        new, visible = self.txn.tree(name), kept.layout.visible
        actions, rows = delta(self.txn.pages, old, new)
        changes = settled(actions, rows[:visible]) if len(rows) > visible else Delta(actions, rows)
        if not changes:
            return
        self.before |= kept.of_indices([old, *map(self.txn.tree, kept.names[1:])])
        others = [
            self.txn.apply(beside, changes.actions, changes.rows[place])
            for beside, place in zip(kept.names[1:], kept.places[1:], strict=True)
        ]
        if kept.checked:
            self._check_function(name, changes)
        self._changed(name, kept.of_indices([changes, *starmap(Delta, others)]))

    def _changed(self, name: str, deltas: Mapping[Index, Delta]) -> None:
        """The trees of a predicate have changed."""
        self.deltas |= deltas
        actions = next(iter(deltas.values())).actions
        self.large |= len(actions) > HUGE_FROM
        account, erased = self.accounts[name], int(np.count_nonzero(actions))  # INSERT is 0, ERASE is 1
        account.inserted, account.erased = len(actions) - erased, erased

    def _apply(
        self, names: tuple[str, ...], places: np.ndarray, actions: np.ndarray, rows: np.ndarray, visible: int
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Edit a tree and those beside it; see apply_indexed for what it takes and gives.  Raises RangeError."""
        tree, predicate = self.txn.tree(names[0]), self._predicate(names[0].removeprefix(state_name("")))
        try:
            edits = compose_edits(actions, rows, tree.spec)
        except EditError:  # a part of a sum is beyond 64 bits, which the whole need not be
            edits = self._settled_sums(tree, predicate, rows)
        try:
            return self.txn.apply_indexed(names, places, *edits, visible)
        except EditError as error:
            self._settled_sums(tree, predicate, rows)  # which says whose sum it is
            raise EditError(f"{predicate.name}: {error}") from error

    def _settled_sums(self, tree: Tree, predicate: Predicate, rows: np.ndarray) -> Edits:
        try:
            return settled_sums(self.txn.pages, tree, rows)
        except Beyond as beyond:
            raise out_of_range(self.txn, predicate, beyond) from None

    def _predicate(self, name: str) -> Predicate:
        return self.installed.program.predicates[name]

    def _check_function(self, name: str, delta: Delta) -> None:
        """No key of a derived function may have two values in the end."""
        keys = len(self._predicate(name).keys)
        inserted = delta.rows[:keys, delta.actions == INSERT]
        tree = self.txn.tree(name)
        crowded = np.flatnonzero(count_prefixes(self.txn.pages, tree, inserted, most=2) > 1)
        if len(crowded):
            key = tuple(inserted[:, crowded[0]].tolist())
            raise self._conflict(name, key, tree)

    def _conflict(self, name: str, key: tuple[int, ...], tree: Tree) -> FunctionConflictError:
        predicate = self._predicate(name)
        found = next(read_batches(self.txn.pages, tree, key, rows=2))  # there are two at least
        shown = [
            tuple(self.txn.decode(t, np.ascontiguousarray(found[c]))[i].as_py() for c, t in enumerate(predicate.types))
            for i in range(2)
        ]
        return FunctionConflictError(name, shown[0][:-1], (shown[0][-1], shown[1][-1]))

    def _follow(self, views: InstalledRule, p: int) -> Iterable[tuple[str, Edits]]:
        """The head edits of one of a rule's plans; its sensitivity indices are renewed on the way."""
        plan = views.plans[p]
        indices = indices_of(plan)
        if self.deltas.keys().isdisjoint(indices):
            return
        names = [views.sense_name(p, s) for s in range(len(plan.sensors))]
        new = dict(zip(indices, map(self.tree, indices), strict=True))
        old = {**new, **self.before}
        if self.large and self._is_huge(views, plan, old):
            yield from self._reevaluate(views, p, plan, old, new)
            return
        senses = [self.txn.tree(n) for n in names]
        change = maintain(self.txn.pages, plan, old, new, self.deltas, senses, views.granularity, self.threads)
        if change is None:
            return
        if change.renewals:
            for name, (actions, rows) in zip(names, change.renewals, strict=True):
                self.txn.apply(name, actions, rows)
            self._sweep(views, p, plan, new)
        for name in views.writes:
            account = self.accounts[name]
            account.operations += change.operations
            account.matched += change.matched
        if change.delta:
            yield from self.installed.heads[plan].edits(change.delta, self.encode).items()

    def _is_huge(self, views: InstalledRule, plan: Plan, old: Mapping[Index, Tree]) -> bool:
        """Are deltas so large that evaluating twice is cheaper than following them?"""
        large = [
            (len(delta.actions), old[trie.index].count)
            for trie in plan.tries
            if (delta := self.deltas.get(trie.index)) and len(delta.actions) > HUGE_FROM
        ]
        shares = [rows / max(1, count) for rows, count in large]
        if max(shares, default=0) > HUGE:
            return True
        counted = self.installed.heads[plan].asked is not None
        if sum(shares) <= len(plan.tries) * most_followed(plan, views.granularity, counted):
            return False
        return pays(plan.shape, [old[trie.index] for trie in plan.tries])

    def _reevaluate(
        self, views: InstalledRule, p: int, plan: Plan, old: Mapping[Index, Tree], new: Mapping[Index, Tree]
    ) -> Iterable[tuple[str, tuple[np.ndarray, np.ndarray]]]:
        """The head edits that lead from one version to the other, both from scratch; sensitivity is built anew.

        What is only counted goes and comes in numbers, which add up; listed, it might not fit memory.
        """
        head = self.installed.heads[plan]
        before = self._in_full(plan, old, head.asked)
        after = self._record(views, p, plan, new, head.asked)
        for name in views.writes:
            self.accounts[name].operations += before.operations + after.operations
        if head.asked is None:
            if delta := difference(before.bindings, after.bindings):
                yield from head.edits(delta, self.encode).items()
            return
        for action, evaluation in ((ERASE, before), (INSERT, after)):
            edits = folded(self.installed, head, evaluation.parts, action, self.encode)
            yield from ((name, edit) for name, edit in edits if len(edit[0]))

    def _sweep(self, views: InstalledRule, p: int, plan: Plan, new: Mapping[Index, Tree]) -> None:
        """Build the sensitivity indices anew when half of them may be stale, so that they never outgrow the trace.

        Stale intervals, whose context is gone, are harmless; they come only from changes, so that the rows
        since the last building, or the rows the body lost since then, bound them.
        """
        built_rows, built_body = self.built.get(views.sense_name(p, 0), (0, 0))
        rows = sum(self.txn.tree(views.sense_name(p, s)).count for s in range(len(plan.sensors)))
        body = sum(tree.count for tree in new.values())
        if rows > STALE * built_rows + STALE_FREE or body + STALE_FREE < SHRUNK * built_body:
            self._record(views, p, plan, new)

    def _record(
        self, views: InstalledRule, p: int, plan: Plan, trees: Mapping[Index, Tree], asked: frozenset[int] | None = None
    ) -> Evaluation:
        """A plan evaluated in full; its sensitivity indices are replaced.  `asked` as for `evaluate`."""
        if not plan.sensors or not self.recording:
            return self._in_full(plan, trees, asked)
        evaluation = evaluate(
            self.txn.pages, plan.shape, [trees[t.index] for t in plan.tries],
            sensors=plan.sensor_arrays, granularity=views.granularity, threads=self.threads, asked=asked,
        )  # fmt: skip
        names = [views.sense_name(p, s) for s in range(len(plan.sensors))]
        for name, spec in zip(names, map(sensitivity.index_spec, plan.sensors), strict=True):
            if name not in self.txn:
                self.txn.create_words(name, spec.keys, 0, spec.scans)
        specs = [self.txn.tree(name).spec for name in names]
        indices = bulk_all(self.txn.pager, list(zip(specs, evaluation.recorded, strict=True)))
        for name, tree in zip(names, indices, strict=True):
            self.txn.replace(name, tree)
        total = sum(tree.count for tree in indices)
        self.built[views.sense_name(p, 0)] = total, sum(tree.count for tree in trees.values())
        return evaluation._replace(recorded=[])

    def _in_full(self, plan: Plan, trees: Mapping[Index, Tree], asked: frozenset[int] | None = None) -> Evaluation:
        rules = self.installed.program.rules
        return evaluate_in_full(self.txn.pages, plan, [trees[t.index] for t in plan.tries], rules, self.threads, asked)

    def tree(self, index: Index) -> Tree:
        """The tree behind an index, as it is now."""
        return self.txn.tree(tree_name(index))

    # -- from scratch

    def build_index(self, index: Index) -> None:
        """Make the tree of a permuted index from its relation."""
        layout = self.installed.layouts[index.predicate]
        columns = index_columns(index, layout)
        tree = self.txn.create_words(tree_name(index), len(index.order), len(columns) - len(index.order))
        relation = self.txn.tree(index.predicate)  # before the pages: taking a tree may map the file anew
        batches = [b[columns] for b in read_batches(self.txn.pages, relation)]
        if batches:
            self.txn.replace(tree_name(index), bulk(self.txn.pager, tree.spec, ascending(batches)))

    def fill(self, rules: Iterable[InstalledRule]) -> None:
        """Evaluate rules whose heads are empty, in order, recording all sensitivity."""
        waiting: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
        for views in rules:
            for name in views.reads:
                if name in waiting:
                    self._fill_view(name, waiting.pop(name))
            for p, plan in enumerate(views.plans):
                for index in indices_of(plan):
                    if tree_name(index) not in self.txn:
                        self.build_index(index)
                with placed(views.rule):
                    for name, edit in self._evaluate(views, p, plan):
                        waiting.setdefault(name, []).append(edit)
        for name, parts in waiting.items():
            self._fill_view(name, parts)

    def _evaluate(
        self, views: InstalledRule, p: int, plan: Plan
    ) -> Iterable[tuple[str, tuple[np.ndarray, np.ndarray]]]:
        head = self.installed.heads[plan]
        evaluation = self._record(views, p, plan, {t.index: self.tree(t.index) for t in plan.tries}, head.asked)
        for name in views.writes:
            self.accounts[name].operations += evaluation.operations
        yield from folded(self.installed, head, evaluation.parts, INSERT, self.encode)

    def _fill_view(self, name: str, parts: list[tuple[np.ndarray, np.ndarray]]) -> None:
        layout, predicate = self.installed.layouts[name], self._predicate(name)
        if keeps_state(layout):
            spec = state_spec(layout, len(parts[0][1]))
            self.txn.create_words(state_name(name), spec.keys, spec.values, spec.scans)
            rows = composed(self.txn, predicate, parts, spec)
            self.txn.replace(state_name(name), bulk(self.txn.pager, self.txn.tree(state_name(name)).spec, rows))
            rows = [results(name, layout, joined(rows))]
        else:
            rows = composed(self.txn, predicate, parts, self.txn.tree(name).spec)
        if layout.kind == SUM:
            check_sums(self.txn, predicate, *rows)
        tree = bulk(self.txn.pager, self.txn.tree(name).spec, rows)
        self.txn.replace(name, tree)
        if self.installed.kept[name].checked:
            for batch in read_batches(self.txn.pages, tree):
                self._check_function(name, Delta(np.full(batch.shape[1], INSERT), batch))


def astray(fact: str) -> DivergenceError:
    """The error of what is kept for rules and cannot be what follows from relations."""
    return DivergenceError(f"{fact}; what is kept for rules is not what follows: `ivm fsck --repair` makes it anew")


def most_followed(plan: Plan, granularity: int, counted: bool) -> float:
    """Which part of the rows of all its tries a delta may have that a plan over flat tries still follows.

    The rows of each trie are looked for in every other one; a coarse interval has more of its trie looked at again,
    and is matched by more of the rows.
    """
    part = MATCHED / granularity**2 if plan.sensors else COUNTED if counted else PROBED
    return part / len(plan.tries) ** 2
