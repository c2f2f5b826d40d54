"""Evaluation from scratch: fill every view of some rules, and store the indices that maintenance will need.

    edge(x, y) ──▶ "$index:edge:1.0", if a plan reads edge by y ──▶ tri(x, y, z) and its "$sense:..." indices

Rules are evaluated in dependency order, so a view is complete before the first rule reads it.

The bindings of a full evaluation become edits, and edits become rows of a tree:

    bindings of  deg[x] = n <- agg<<n = count()>> edge(x, y).       (1, 2) (1, 3) (4, 1)
    head edits   ADD 1 under the key x, for each binding            1: +1   1: +1   4: +1
    rows         one for each key, in key order                     (1; 2) (4; 1)

Many bindings may make few rows: `fold_bindings` sums each part before it reads the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice, repeat
from threading import Lock

import numpy as np

from ivm.engine.scans import Scanner, naming_the_rule
from ivm.errors import DivergenceError, FunctionConflictError, RoomError, UnknownViewError
from ivm.join.evaluate import Bindings, Evaluation, evaluate
from ivm.join.join import concatenated
from ivm.join.kernels.tries import NE
from ivm.lang.ir import Atom, Const, Predicate
from ivm.memory import FILLED, FILLING, Budget, Sink, TraceSink, exceeds_memory, memory_allowed, within_memory
from ivm.names import is_helper
from ivm.plan.join_tree import is_linked, links_of
from ivm.plan.plan import Index, Plan, indices_of, permuted, tree_name
from ivm.plan.rewrite.ranges import Span
from ivm.rules.installed import Installed, index_columns
from ivm.rules.rule import InstalledRule, InstalledStratum
from ivm.terms.encoder import Encoder
from ivm.views.delta import Delta, index_spec
from ivm.views.edit_composition import SumOverflow, add_up, edits_to_sums
from ivm.views.heads import Head
from ivm.views.layouts import APART, INVERTED, SUM, VALUES, Fold, State
from ivm.ways.columns import ColumnJoin
from ivm.ways.pending import KEPT, Recording, Waiting, adds_up, checked_sums, head_spec, out_of_range, whole_groups
from ivm.ways.ranges import Find, Found, Results, ranged_rows
from ivm.ways.recursion.facts import Facts, limits_of
from ivm.ways.recursion.fixpoint import Fixpoint
from ivm.ways.recursion.semilattice import fixpoint_of
from ivm.ways.rope import text_rows
from ivm.ways.states import FOLDED, folded, view_rows
from ivm.ways.tries import choice, evaluate_in_full, pairs, rows_of_constants
from pagestore.errors import EditError
from pagestore.host import (
    INSERT,
    Edits,
    Tree,
    ascending,
    bulk,
    bulk_all,
    compose_edits,
    count_prefixes,
    external_sort,
    is_operator,
    one_batch,
    read_batches,
)

SORTED = 4  # times the bytes of rows that sorting them in memory takes
NO_STATE = "", np.empty((0, 0), np.int64)


@dataclass
class Filler(Scanner):
    """Evaluate rules in full over the trees of one transaction.

    With `recording`, evaluation rebuilds sensitivity indices; rules that are evaluated `once` need no state. `built`
    holds for each plan, by the name of its first sensitivity index, how many rows its indices and its body had when the
    indices were last built.
    """

    threads: int = 1
    recording: bool = True
    once: bool = False
    built: dict[str, tuple[int, int]] = field(default_factory=dict)
    _newest: tuple[str, np.ndarray] = NO_STATE  # the state that was filled last, and its records

    def fill(self, rules: Iterable[InstalledRule]) -> None:
        """Evaluate rules whose views are empty, in dependency order; O(evaluating them).

        Raises MaintainError: two values for one key of a function, a value out of range, too little memory.
        """
        waiting = Waiting(self.txn, self.installed)
        filled: set[str] = set()
        scanned: set[Plan] = set()
        rules = [*rules]
        for place, given in enumerate(rules):
            rule = self.installed.numbered[given.number]
            stratum = self.installed.recursion.get(rule)
            if stratum and filled.issuperset(stratum.recursive):
                continue
            said = {"expected": sum(plan.estimates[-1] for plan in rule.plans if plan.estimates)}
            FILLING.info("filling %s, %d of %d", shown_names(rule.writes), place + 1, len(rules), extra=said)
            for name in stratum.reads if stratum else rule.reads:
                if name in waiting:
                    self._fill_view(name, waiting)
            if stratum:
                self._fill_stratum(self.fitting(stratum))
                filled |= stratum.recursive
                continue
            (rule,) = self._fit((rule,))
            self._add_rows(rule, rules[place:], waiting, scanned)
        for name in [*waiting]:
            FILLING.info("storing %s", shown_names([name]))
            self._fill_view(name, waiting)
        self._newest = NO_STATE
        FILLING.info(FILLED)

    def contributions(self, rules: Sequence[InstalledRule]) -> dict[str, list[Edits]]:
        """Return the edits that some rules make of their views, by view, if all that they read is complete."""
        waiting, scanned = Waiting(self.txn, self.installed, spills=False), set[Plan]()
        for place, rule in enumerate(rules):
            self._add_rows(rule, rules[place:], waiting, scanned)
        return waiting

    def _add_rows(
        self, rule: InstalledRule, rules: Sequence[InstalledRule], waiting: Waiting, scanned: set[Plan]
    ) -> None:
        """Add the edits of a rule to `waiting`, and those of other `rules` that scan the same relation to `scanned`."""
        if not rule.plans:
            (name,) = rule.writes
            with naming_the_rule(rule.definition):
                waiting.add([(name, self._evaluate_unplanned(name, rule))])
        for plan in rule.plans:
            if plan.is_scan:
                if plan not in scanned:
                    scanned |= self.scan_for(plan, rules, waiting)
                continue
            number = self.installed.numbered[rule.number].plans.index(plan)  # a rule may have some of its plans only
            with naming_the_rule(rule.definition):
                self.add_bindings(rule.number, number, waiting)

    def add_bindings(self, rule: int, number: int, waiting: Waiting, budget: Budget | None = None) -> None:
        """Add the edits that insert all bindings of plan `number` of a rule, given by its number, into its views.

        Build the indices that its maintenance will need.  Raises Stopped, before the first edit, by a budget.
        """
        owner = self.installed.numbered[rule]
        plan = owner.plans[number]
        if plan.in_columns and not self._counts_what_lacks(plan) and self._add_by_columns(owner, number, waiting):
            self.build_indices(() if self.once else indices_of(plan))
        else:
            self.build_indices(indices_of(plan))
            self._evaluate(owner, number, waiting, budget)

    def _add_by_columns(self, rule: InstalledRule, number: int, waiting: Waiting) -> bool:
        """Add the edits of an acyclic plan, joined by columns.

        Return False, before the first edit, if rows of relations, to be looked up, take too much memory; then no index
        of the plan's tries is deferred. Raises RoomError if tries are no better: rows were multiplied, or link ranges.
        """
        plan = rule.plans[number]
        trees = {trie.index.predicate: self.txn.tree(trie.index.predicate) for trie in plan.tries}
        needed, types = self.installed.heads[plan].needed, rule.definition.types
        join = ColumnJoin(self.txn.pages, plan, trees, needed, types, self.encode)
        edits = self._by_columns(rule, number, join)
        try:
            with within_memory("joining by columns"):
                first = [*islice(edits, 1)]
        except RoomError:
            if join.memory.rows > join.read or is_linked(plan) or any(x.kind != NE for x in links_of(plan)):
                raise
            deferred = self.installed.deferred.difference(trie.index for trie in plan.tries)
            self.installed = replace(self.installed, deferred=deferred)
            return False
        waiting.add(chain(first, edits))
        return True

    def fitting(self, stratum: InstalledStratum) -> InstalledStratum:
        """Return a recursive stratum that is about to be evaluated, with the plans for that."""
        first = self._fit(stratum.rules)[0]
        return self.installed.recursion[first]

    def _fit(self, rules: Sequence[InstalledRule]) -> Sequence[InstalledRule]:
        """Return rules that are about to be evaluated, with the plans for that (engine/replan.py)."""
        return rules

    def _by_columns(self, rule: InstalledRule, number: int, join: ColumnJoin) -> Iterator[tuple[str, Edits]]:
        """Yield the edits that insert all bindings of an acyclic plan."""
        head = self.installed.heads[rule.plans[number]]
        for batch, times in join.parts():
            yield from self.summed(head.insertions(batch, self.encode, times))
        self.note_operations(rule, join.read)
        self.note_steps(rule, number, join.met)

    def _counts_what_lacks(self, plan: Plan) -> bool:
        """Return whether counting finds the rows that a subset lacks, so that the rest is not looked at."""
        found = pairs(plan)
        if not found or any(permuted(trie.index) for trie in plan.tries):
            return False
        rules, trees = self.installed.program.rules, [self.tree(trie.index) for trie in plan.tries]
        return any(choice(plan, trees, rules, pair).taken for pair in found)

    def build_indices(self, indices: Iterable[Index]) -> None:
        """Create the trees of permuted indices that do not exist and are not deferred."""
        for index in indices:
            if tree_name(index) not in self.txn and index not in self.installed.deferred:
                self.build_index(index)

    def build_index(self, index: Index, relation: Tree | None = None) -> None:
        """Create the tree of a permuted index from its relation, or from an older tree of that; O(n log n)."""
        layout = self.installed.layouts[index.predicate]
        columns = index_columns(index, layout)
        tree = self.txn.create_words(tree_name(index), len(index.order), len(columns) - len(index.order))
        relation = relation or self.txn.tree(index.predicate)  # before `pages`: opening a tree may remap the file
        batches = (batch[columns] for batch in read_batches(self.txn.pages, relation))
        big = exceeds_memory(SORTED * 8 * len(columns) * relation.count, KEPT)
        rows = external_sort(batches, tree.spec.keys, memory_allowed()) if big else ascending([*batches])
        if relation.count:
            self.txn.replace(tree_name(index), bulk(self.txn.pager, tree.spec, rows))

    def tree(self, index: Index) -> Tree:
        """Return the current tree of an index; if it is deferred, and so not read, its relation's."""
        return self.txn.tree(index.predicate if index in self.installed.deferred else tree_name(index))

    def _evaluate(self, rule: InstalledRule, number: int, waiting: Waiting, budget: Budget | None) -> None:
        """Add the edits of the bindings that a join finds, some of them before it has found all."""
        plan, lock = rule.plans[number], Lock()
        head = self.installed.heads[plan]
        trees = {trie.index: self.tree(trie.index) for trie in plan.tries}

        def take(batches: list[np.ndarray], times: list[np.ndarray]) -> None:
            parts = [*map(Bindings, batches, times or repeat(None))]
            with lock:
                waiting.add(fold_bindings(self.installed, head, parts, INSERT, self.encode))

        sink = Sink(partial(waiting.exceed, share=self.threads), take)
        evaluation = self._evaluate_and_record(rule, number, trees, head.listed, budget, sink)
        self.note_operations(rule, evaluation.operations)
        self.note_steps(rule, number, [] if plan.in_columns else evaluation.met.tolist())
        waiting.add(fold_bindings(self.installed, head, evaluation.parts, INSERT, self.encode))

    def _evaluate_unplanned(self, name: str, rule: InstalledRule) -> Edits:
        """Return the rows that a rule without plans (schedule.py) inserts into its view.  Raises RangeError."""
        if rule.span:
            self.build_indices(rule.indices)
            points, measured = map(self.tree, rule.span.indices)
            self.accounts[name].operations += points.count
            rows = ranged_rows(self.txn.pages, rule.span, points, self.results_of(name, rule.span, measured))
        elif rule.reads:
            rows = self._texts(name, rule)
        else:
            rows = rows_of_constants(rule.definition, self.encode)
        return np.full(rows.shape[1], INSERT), rows

    def _texts(self, name: str, rule: InstalledRule) -> np.ndarray:
        """Return the rows of a view of a concat's texts, in key order; O(the texts)."""
        layout, (concat, fold) = self.installed.layouts[name], self.concat_of(rule)
        batches = read_batches(self.txn.pages, self.txn.tree(concat))
        parts = [text_rows(self.txn, layout, concat, fold, self.rows_with_constants(rule, batch)) for batch in batches]
        return np.concatenate([*parts, np.empty((layout.visible, 0), np.int64)], axis=1)

    def concat_of(self, rule: InstalledRule) -> tuple[str, Fold]:
        """Return the concat whose texts a rule of texts reads."""
        (concat,) = rule.reads
        fold = self.installed.layouts[concat].fold
        assert fold
        return concat, fold

    def rows_with_constants(self, rule: InstalledRule, rows: np.ndarray) -> np.ndarray:
        """Return the rows of a concat that have the constant keys in the body of a rule of texts."""
        ((atom,),) = rule.definition.body
        assert isinstance(atom, Atom)
        for place, key in enumerate(atom.args):
            if isinstance(key, Const):
                rows = rows[:, rows[place] == self.encode(key)]
        return rows

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
            self.build_indices(rule.indices)
        fixpoint = self.fixpoint(stratum)
        base = []
        with naming_the_rule(stratum.rules[0].definition):
            for plan in fixpoint.base:
                evaluation = self._evaluate_plan(plan, {trie.index: self.tree(trie.index) for trie in plan.tries})
                fixpoint.work.operations += evaluation.operations
                base.append((plan, [part.rows for part in evaluation.parts]))
            fixpoint.fill(base)
        self._account(stratum, *fixpoint.work.counts)
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

    def _account(self, stratum: InstalledStratum, operations: int, rounds: int, examined: int) -> None:
        for name in stratum.recursive:
            account = self.accounts[name]
            account.operations += operations
            account.rounds += rounds
            account.examined += examined

    def _fill_view(self, name: str, waiting: Waiting) -> None:
        rule = next(rule.definition for rule in self.installed.rules if name in rule.writes)
        with naming_the_rule(rule), within_memory("storing rows", sum(len(actions) for actions, _ in waiting[name])):
            self._build_view(name, waiting)

    def _build_view(self, name: str, waiting: Waiting) -> None:
        """Build a view's tree, and its state if it has one, from all rows that its rules insert."""
        layout, predicate = self.installed.layouts[name], self._predicate(name)
        rows = self._rows_of_state(name, layout.fold, waiting) if layout.fold else waiting.rows(name)
        if layout.kind == SUM:
            rows = checked_sums(self.txn, predicate, rows)
        tree = bulk(self.txn.pager, self.txn.tree(name).spec, rows)
        self.txn.replace(name, tree)
        if self.installed.stored[name].checked:
            for batch in read_batches(self.txn.pages, tree):
                self._check_function(name, Delta(np.full(batch.shape[1], INSERT), batch))

    def _rows_of_state(self, name: str, fold: Fold, waiting: Waiting) -> Iterable[np.ndarray]:
        """Return the rows of an aggregate, in key order, from its state; build that, unless that has been done.

        A state that does not fit into memory is read group by group.
        """
        state, layout = fold.state, self.installed.layouts[name]
        held = 8 * state.spec.columns * self.txn.tree(state.name).count if state.name in self.txn else 0
        if not waiting.exceed(held) and not waiting.is_spilled(name):
            found, tree = self._state_rows(name, state, waiting), Tree.empty(state.spec)
            if state.name in self.txn:
                tree = self.txn.tree(state.name)
            return [view_rows(name, layout, self.txn.pages, tree, found, self.encode.keys)]
        if state.name not in self.txn:
            self._build_state(state, waiting.rows(name))
        tree = self.txn.tree(state.name)
        groups = whole_groups(read_batches(self.txn.pages, tree), fold.group)
        rows = (view_rows(name, layout, self.txn.pages, tree, some, self.encode.keys) for some in groups)
        return ascending([*rows]) if fold.order else rows

    def _build_state(self, state: State, rows: Iterable[np.ndarray]) -> None:
        spec = self.txn.create_words(state.name, state.spec.keys, state.spec.values, state.spec.scans).spec
        self.txn.replace(state.name, bulk(self.txn.pager, spec, rows))

    def _state_rows(self, name: str, state: State, waiting: Waiting) -> np.ndarray:
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
            rows = folded(state.ops[0], one_batch(waiting[name])[1])
        else:
            rows = concatenated([*waiting.rows(name)])
        if not self.once or (state.kind == VALUES and any(op in FOLDED or is_operator(op) for op in state.ops)):
            self._build_state(state, [rows])
        self._newest = state.name, rows
        return rows

    def _evaluate_and_record(
        self, rule: InstalledRule, number: int, trees: Mapping[Index, Tree], listed: frozenset[int] | None = None,
        budget: Budget | None = None, sink: Sink | None = None,
    ) -> Evaluation:  # fmt: skip
        """Evaluate a plan in full and replace its sensitivity indices; the last three are those of join/evaluate.py."""
        plan = rule.plans[number]
        if not plan.sensors or not self.recording:
            return self._evaluate_plan(plan, trees, listed, budget, sink)
        recording = Recording(self.threads)
        evaluation = evaluate(
            self.txn.pages, plan.shape, [trees[t.index] for t in plan.tries],
            sensors=plan.sensor_arrays, granularity=rule.granularity, threads=self.threads, listed=listed,
            budget=budget, sink=sink, trace_sink=TraceSink(recording.is_due, recording.take),
        )  # fmt: skip
        names = rule.sensitivity_names(number)
        for name, spec in zip(names, map(index_spec, plan.sensors), strict=True):
            if name not in self.txn:
                self.txn.create_words(name, spec.keys, 0, spec.scans)
        specs = [self.txn.tree(name).spec for name in names]
        if recording.is_spilled:
            recording.take(evaluation.recorded)
            indices = [bulk(self.txn.pager, spec, recording.rows(sensor)) for sensor, spec in enumerate(specs)]
        else:
            indices = bulk_all(self.txn.pager, list(zip(specs, evaluation.recorded, strict=True)))
        for name, tree in zip(names, indices, strict=True):
            self.txn.replace(name, tree)
        rows = sum(tree.count for tree in indices)
        self.built[names[0]] = rows, sum(tree.count for tree in trees.values())
        return evaluation._replace(recorded=[])

    def _evaluate_plan(
        self, plan: Plan, trees: Mapping[Index, Tree], listed: frozenset[int] | None = None,
        budget: Budget | None = None, sink: Sink | None = None,
    ) -> Evaluation:  # fmt: skip
        rules, ordered = self.installed.program.rules, [trees[t.index] for t in plan.tries]
        return evaluate_in_full(self.txn.pages, plan, ordered, rules, self.threads, listed, budget, sink)

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


def shown_names(views: Iterable[str]) -> str:
    """Return the names of views for people: helper views have none."""
    return ", ".join(name for name in views if not is_helper(name)) or "a helper view"


def unordered(name: str) -> str:
    """Return the key in `built` that marks a recursive aggregate with values not in order (Fixpoint.ordered)."""
    return f"$unordered:{name}"


def divergence(fact: str) -> DivergenceError:
    """Return the error for a stored tree that contradicts the relations."""
    return DivergenceError(f"{fact}; what is stored for rules does not follow from the relations: "
                           "`ivm fsck --repair` rebuilds it")  # fmt: skip


PARTS_KEPT = 16  # parts of bindings, of some MiB each; up to this number, none is summed on its own


def fold_bindings(
    installed: Installed, head: Head, parts: list[Bindings], action: int, encode: Encoder
) -> Iterator[tuple[str, Edits]]:
    """Yield the head edits, by view, of bindings that are all inserted or all erased; empty `parts` on the way.

    If there are many parts, each is summed on its own, as long as that leaves at most half of the rows. Raises
    RangeError.
    """
    many = len(parts) > PARTS_KEPT
    spared = {name: 0 if many and adds_up(layout) else -1 for name, layout in installed.layouts.items()}
    parts.reverse()
    while parts:
        part = parts.pop()
        for name, (actions, rows) in head.edits(as_delta(part, action), encode, part.times).items():
            if spared[name] >= 0:
                spared[name] += len(actions)
                actions, rows = add_up(actions, rows, head_spec(installed.layouts[name], len(rows)))
                spared[name] -= 2 * len(actions)
            yield name, (actions, rows)


def as_delta(part: Bindings, action: int) -> Delta:
    """Return bindings as a delta with one action for all."""
    return Delta(np.broadcast_to(action, part.rows.shape[1]), part.rows)


def not_a_view(name: str) -> UnknownViewError:
    """Return the error for a relation where a view is required."""
    return UnknownViewError(f"{name} is not a view: its rows come from transactions, not from rules; name a view")
