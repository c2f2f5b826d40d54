"""Evaluation from scratch: fill every view of some rules, and store the indices that maintenance will need.

    edge(x, y) ──▶ "$index:edge:1.0", if a plan reads edge by y ──▶ tri(x, y, z) and its "$sense:..." indices

Rules are evaluated in dependency order, so a view is complete before the first rule reads it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ivm.engine.complement_join import evaluate_in_full
from ivm.engine.head_edits import check_sums, compose_rows, fold_bindings, out_of_range
from ivm.engine.installed import Installed, InstalledRule, InstalledStratum, index_columns
from ivm.engine.recompute import naming_the_rule
from ivm.engine.recursion.facts import Facts
from ivm.engine.recursion.fixpoint import Fixpoint
from ivm.engine.recursion.limits import limits_of
from ivm.engine.recursion.semilattice import fixpoint_of
from ivm.errors import FunctionConflictError
from ivm.join.evaluate import Evaluation, evaluate
from ivm.join.join import concatenated
from ivm.join.memory_guard import within_memory
from ivm.lang.ir import Predicate
from ivm.maintenance import sensitivity
from ivm.maintenance.surgery import Delta
from ivm.plan.constants import Encoder
from ivm.plan.index import Index, tree_name
from ivm.plan.plan import Plan, indices_of
from ivm.plan.span import Span
from ivm.views.aggregate_state import FOLDED, view_rows
from ivm.views.edit_composition import SumOverflow
from ivm.views.invertible import folded
from ivm.views.layouts import SUM
from ivm.views.range_results import Found, Results
from ivm.views.ranged import Find, ranged_rows
from ivm.views.states import INVERTED, VALUES, State
from pagestore.host import (
    INSERT,
    Edits,
    Transaction,
    Tree,
    ascending,
    bulk,
    bulk_all,
    count_prefixes,
    is_operator,
    one_batch,
    read_batches,
)

NO_STATE = "", np.empty((0, 0), np.int64)


@dataclass
class Account:
    """What maintenance of one view did in the newest transaction that touched it.

    Times are seconds, shared by all views that one kernel call maintained; `operations` counts iterator operations on
    both versions, `matched` the sensitivity intervals that surgeries hit, `inserted` and `erased` the view's rows. Of a
    recursive view, `rounds` counts its rounds, and `examined` the rows whose support was searched for.
    """

    maintain_seconds: float = 0.0
    operations: int = 0
    matched: int = 0
    inserted: int = 0
    erased: int = 0
    rounds: int = 0
    examined: int = 0


@dataclass
class Filler:
    """Evaluate rules in full over the trees of one transaction.

    With `recording`, evaluation rebuilds sensitivity indices; rules that are evaluated `once` need no state. `built`
    holds for each plan, by the name of its first sensitivity index, how many rows its indices and its body had when the
    indices were last built.
    """

    txn: Transaction
    installed: Installed
    encode: Encoder
    threads: int = 1
    recording: bool = True
    once: bool = False
    built: dict[str, tuple[int, int]] = field(default_factory=dict)
    accounts: defaultdict[str, Account] = field(default_factory=lambda: defaultdict(Account))
    _newest: tuple[str, np.ndarray] = NO_STATE  # the state that was filled last, and its records

    def fill(self, rules: Iterable[InstalledRule]) -> None:
        """Evaluate rules whose views are empty, in dependency order; O(evaluating them).

        Raises MaintainError: two values for one key of a function, a value out of range, too little memory.
        """
        waiting: dict[str, list[Edits]] = {}
        filled: set[str] = set()
        for rule in rules:
            stratum = self.installed.recursion.get(rule)
            if stratum and filled.issuperset(stratum.recursive):
                continue
            for name in stratum.reads if stratum else rule.reads:
                if name in waiting:
                    self._fill_view(name, waiting.pop(name))
            if stratum:
                self._fill_stratum(stratum)
                filled |= stratum.recursive
                continue
            if rule.span:
                (name,) = rule.writes
                waiting[name] = [self._evaluate_range(name, rule, rule.span)]
                continue
            for number, plan in enumerate(rule.plans):
                with naming_the_rule(rule.definition):
                    self._build_indices(indices_of(plan))
                    for name, edits in self._evaluate(rule, number):
                        waiting.setdefault(name, []).append(edits)
        for name, parts in waiting.items():
            self._fill_view(name, parts)
        self._newest = NO_STATE

    def _build_indices(self, indices: Iterable[Index]) -> None:
        for index in indices:
            if tree_name(index) not in self.txn:
                self.build_index(index)

    def build_index(self, index: Index) -> None:
        """Create the tree of a permuted index from its relation; O(n log n)."""
        layout = self.installed.layouts[index.predicate]
        columns = index_columns(index, layout)
        tree = self.txn.create_words(tree_name(index), len(index.order), len(columns) - len(index.order))
        relation = self.txn.tree(index.predicate)  # before `pages`: opening a tree may remap the file
        batches = [batch[columns] for batch in read_batches(self.txn.pages, relation)]
        if batches:
            self.txn.replace(tree_name(index), bulk(self.txn.pager, tree.spec, ascending(batches)))

    def tree(self, index: Index) -> Tree:
        """Return the current tree of an index."""
        return self.txn.tree(tree_name(index))

    def _evaluate(self, rule: InstalledRule, number: int) -> Iterable[tuple[str, Edits]]:
        """Yield the rows that a rule's plan inserts into its views, by view."""
        plan = rule.plans[number]
        head = self.installed.heads[plan]
        trees = {trie.index: self.tree(trie.index) for trie in plan.tries}
        evaluation = self._evaluate_and_record(rule, number, trees, head.asked)
        for name in rule.writes:
            self.accounts[name].operations += evaluation.operations
        yield from fold_bindings(self.installed, head, evaluation.parts, INSERT, self.encode)

    def _evaluate_range(self, name: str, rule: InstalledRule, span: Span) -> Edits:
        """Return the rows that a rule evaluated by ranges inserts into its view.  Raises RangeError."""
        self._build_indices(rule.indices)
        points, measured = map(self.tree, span.indices)
        self.accounts[name].operations += points.count
        with naming_the_rule(rule.definition):
            rows = ranged_rows(self.txn.pages, span, points, self.results_of(name, span, measured))
        return np.full(rows.shape[1], INSERT), rows

    def results_of(self, name: str, span: Span, measured: Tree) -> Find:
        """Return a function that finds the results of a view evaluated by ranges; it raises RangeError."""
        results = Results(name, self.txn.pages, span, measured, self.encode.keys)

        def find(points: np.ndarray) -> Found:
            try:
                return results.of(points)
            except SumOverflow as overflow:
                raise out_of_range(self.txn, self._predicate(name), overflow) from None

        return find

    def _fill_stratum(self, stratum: InstalledStratum) -> None:
        """Evaluate the rules of a recursive stratum, whose views are empty."""
        for rule in stratum.rules:
            self._build_indices(rule.indices)
        fixpoint = self.fixpoint(stratum)
        base = []
        with naming_the_rule(stratum.rules[0].definition):
            for plan in fixpoint.base:
                evaluation = self._evaluate_plan(plan, {trie.index: self.tree(trie.index) for trie in plan.tries})
                fixpoint.work.operations += evaluation.operations
                base.append((plan, [part.rows for part in evaluation.parts]))
            fixpoint.fill(base)
        self._account(stratum, fixpoint)
        for name in stratum.recursive:
            mark = unordered(name)
            self.built.pop(mark, None)
            if not fixpoint.ordered:
                self.built[mark] = (1, 1)
            if self.installed.stored[name].checked:
                for batch in read_batches(self.txn.pages, self.txn.tree(name)):
                    self._check_function(name, Delta(np.full(batch.shape[1], INSERT), batch))

    def refill(self, stratum: InstalledStratum) -> None:
        """Evaluate a recursive stratum from scratch, from what it reads outside the stratum; otherwise like `fill`."""
        Facts(self.txn, self.installed, stratum, self.encode).clear()
        self._fill_stratum(stratum)

    def fixpoint(self, stratum: InstalledStratum) -> Fixpoint:
        """Return the Fixpoint of a recursive stratum over the transaction's trees."""
        return fixpoint_of(self.txn, self.installed, stratum, self.encode, self.threads, limits_of(stratum))

    def _account(self, stratum: InstalledStratum, fixpoint: Fixpoint) -> None:
        for name in stratum.recursive:
            account, work = self.accounts[name], fixpoint.work
            account.operations += work.operations
            account.rounds += len(work.rows)
            account.examined += work.examined

    def _fill_view(self, name: str, parts: list[Edits]) -> None:
        rule = next(rule.definition for rule in self.installed.rules if name in rule.writes)
        with naming_the_rule(rule), within_memory("storing rows", sum(len(actions) for actions, _ in parts)):
            self._build_view(name, parts)

    def _build_view(self, name: str, parts: list[Edits]) -> None:
        """Build a view's tree, and its state if it has one, from all rows that its rules insert."""
        layout, predicate = self.installed.layouts[name], self._predicate(name)
        if layout.fold:
            state = layout.fold.state
            found, tree = self._state_rows(state, predicate, parts), Tree.empty(state.spec)
            if state.name in self.txn:
                tree = self.txn.tree(state.name)
            rows = [view_rows(name, layout, self.txn.pages, tree, found, self.encode.keys)]
        else:
            rows = compose_rows(self.txn, predicate, parts, self.txn.tree(name).spec)
        if layout.kind == SUM:
            check_sums(self.txn, predicate, *rows)
        tree = bulk(self.txn.pager, self.txn.tree(name).spec, rows)
        self.txn.replace(name, tree)
        if self.installed.stored[name].checked:
            for batch in read_batches(self.txn.pages, tree):
                self._check_function(name, Delta(np.full(batch.shape[1], INSERT), batch))

    def _state_rows(self, state: State, predicate: Predicate, parts: list[Edits]) -> np.ndarray:
        """Return the records of an aggregate's state; build its tree, unless an aggregate that shares it has done so.

        An evaluation `once` needs the tree only for its scans.
        """
        if self._newest[0] == state.name:
            return self._newest[1]
        if state.name in self.txn:
            return np.concatenate(
                [*read_batches(self.txn.pages, self.txn.tree(state.name)), np.empty((state.spec.columns, 0), np.int64)],
                axis=1,
            )
        if state.kind == INVERTED:
            rows = folded(state.ops[0], one_batch(parts)[1])
        else:
            rows = concatenated(compose_rows(self.txn, predicate, parts, state.spec))
        if not self.once or (state.kind == VALUES and any(op in FOLDED or is_operator(op) for op in state.ops)):
            spec = self.txn.create_words(state.name, state.spec.keys, state.spec.values, state.spec.scans).spec
            self.txn.replace(state.name, bulk(self.txn.pager, spec, [rows]))
        self._newest = state.name, rows
        return rows

    def _evaluate_and_record(
        self, rule: InstalledRule, number: int, trees: Mapping[Index, Tree], asked: frozenset[int] | None = None
    ) -> Evaluation:
        """Evaluate a plan in full and replace its sensitivity indices; `asked` as for join/evaluate.py."""
        plan = rule.plans[number]
        if not plan.sensors or not self.recording:
            return self._evaluate_plan(plan, trees, asked)
        evaluation = evaluate(
            self.txn.pages, plan.shape, [trees[t.index] for t in plan.tries],
            sensors=plan.sensor_arrays, granularity=rule.granularity, threads=self.threads, asked=asked,
        )  # fmt: skip
        names = rule.sensitivity_names(number)
        for name, spec in zip(names, map(sensitivity.index_spec, plan.sensors), strict=True):
            if name not in self.txn:
                self.txn.create_words(name, spec.keys, 0, spec.scans)
        specs = [self.txn.tree(name).spec for name in names]
        indices = bulk_all(self.txn.pager, list(zip(specs, evaluation.recorded, strict=True)))
        for name, tree in zip(names, indices, strict=True):
            self.txn.replace(name, tree)
        rows = sum(tree.count for tree in indices)
        self.built[names[0]] = rows, sum(tree.count for tree in trees.values())
        return evaluation._replace(recorded=[])

    def _evaluate_plan(
        self, plan: Plan, trees: Mapping[Index, Tree], asked: frozenset[int] | None = None
    ) -> Evaluation:
        rules = self.installed.program.rules
        return evaluate_in_full(self.txn.pages, plan, [trees[t.index] for t in plan.tries], rules, self.threads, asked)

    def _predicate(self, name: str) -> Predicate:
        return self.installed.program.predicates[name]

    def _check_function(self, name: str, delta: Delta) -> None:
        """Raise FunctionConflictError if a key that a delta inserts has two values in the tree of a function."""
        keys = len(self._predicate(name).keys)
        inserted = delta.rows[:keys, delta.actions == INSERT]
        tree = self.txn.tree(name)
        crowded = np.flatnonzero(count_prefixes(self.txn.pages, tree, inserted, most=2) > 1)
        if len(crowded):
            key = tuple(inserted[:, crowded[0]].tolist())
            raise self._conflict(name, key, tree)

    def _conflict(self, name: str, key: tuple[int, ...], tree: Tree) -> FunctionConflictError:
        predicate = self._predicate(name)
        found = next(read_batches(self.txn.pages, tree, key, rows=2))  # the key has at least two rows
        shown = [
            tuple(self.txn.decode(t, np.ascontiguousarray(found[c]))[i].as_py() for c, t in enumerate(predicate.types))
            for i in range(2)
        ]
        return FunctionConflictError(name, shown[0][:-1], (shown[0][-1], shown[1][-1]))


def unordered(name: str) -> str:
    """Return the key in `built` that marks a recursive aggregate with values not in order (Fixpoint.ordered)."""
    return f"$unordered:{name}"
