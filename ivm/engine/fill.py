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

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ivm.engine.installed import Installed, InstalledRule, InstalledStratum, index_columns
from ivm.engine.recursion.facts import Facts, limits_of
from ivm.engine.recursion.fixpoint import Fixpoint
from ivm.engine.recursion.semilattice import fixpoint_of
from ivm.errors import DivergenceError, FunctionConflictError, RangeError, RoomError, UnknownViewError
from ivm.join.evaluate import Bindings, Evaluation, evaluate
from ivm.join.groups import summed
from ivm.join.join import MemoryUse, concatenated, within_memory
from ivm.lang.ir import Atom, Const, Predicate, Rule
from ivm.lang.types import shown, word_range
from ivm.maintenance import surgery
from ivm.maintenance.surgery import Delta
from ivm.plan.columns import ColumnJoin
from ivm.plan.evaluation import choice, evaluate_in_full, pairs, rows_of_constants
from ivm.plan.expression import Encoder
from ivm.plan.plan import Index, Plan, indices_of, permuted, tree_name
from ivm.plan.rewrite.ranges import Span
from ivm.plan.scan import Wanted, scan
from ivm.views.aggregates import FOLDED, folded, view_rows
from ivm.views.edit_composition import SumOverflow, add_up, counted, sum_by_key
from ivm.views.heads import Head
from ivm.views.layouts import INVERTED, PLAIN, SUM, VALUES, Fold, Layout, State
from ivm.views.ranges import Find, Found, Results, ranged_rows
from ivm.views.rope import text_rows
from pagestore.errors import EditError
from pagestore.host import (
    ADD,
    INSERT,
    NULL,
    Edits,
    Pages,
    Spec,
    Transaction,
    Tree,
    ascending,
    bulk,
    bulk_all,
    compose_edits,
    count_prefixes,
    in_order,
    is_operator,
    one_batch,
    read_batches,
)

if TYPE_CHECKING:
    import pyarrow as pa


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
        scanned: set[Plan] = set()
        rules = [*rules]
        for place, given in enumerate(rules):
            rule = self.installed.numbered[given.number]
            stratum = self.installed.recursion.get(rule)
            if stratum and filled.issuperset(stratum.recursive):
                continue
            for name in stratum.reads if stratum else rule.reads:
                if name in waiting:
                    self._fill_view(name, waiting.pop(name))
            if stratum:
                self._fill_stratum(self.fitting(stratum))
                filled |= stratum.recursive
                continue
            (rule,) = self._fit((rule,))
            self._add_rows(rule, rules[place:], waiting, scanned)
        for name, parts in waiting.items():
            self._fill_view(name, parts)
        self._newest = NO_STATE

    def contributions(self, rules: Sequence[InstalledRule]) -> dict[str, list[Edits]]:
        """Return the edits that some rules make of their views, by view, if all that they read is complete."""
        waiting, scanned = dict[str, list[Edits]](), set[Plan]()
        for place, rule in enumerate(rules):
            self._add_rows(rule, rules[place:], waiting, scanned)
        return waiting

    def _add_rows(
        self, rule: InstalledRule, rules: Sequence[InstalledRule], waiting: dict[str, list[Edits]], scanned: set[Plan]
    ) -> None:
        """Add the edits of a rule to `waiting`, and those of other `rules` that scan the same relation to `scanned`."""
        if not rule.plans:
            (name,) = rule.writes
            with naming_the_rule(rule.definition):
                waiting[name] = [self._evaluate_unplanned(name, rule)]
        for number, plan in enumerate(rule.plans):
            if plan.is_scan:
                if plan not in scanned:
                    scanned |= self._scan_for(plan, rules, waiting)
                continue
            with naming_the_rule(rule.definition):
                if plan.in_columns and not self._counts_what_lacks(plan):
                    trees = {name: self.txn.tree(name) for name in rule.reads}
                    _add(waiting, self.in_columns(rule, plan, trees))
                    self.build_indices(() if self.once else indices_of(plan))
                    continue
                self.build_indices(indices_of(plan))
                for name, edits in self._evaluate(rule, number):
                    waiting.setdefault(name, []).append(edits)

    def fitting(self, stratum: InstalledStratum) -> InstalledStratum:
        """Return a recursive stratum that is about to be evaluated, with the plans for that."""
        first = self._fit(stratum.rules)[0]
        return self.installed.recursion[first]

    def _fit(self, rules: Sequence[InstalledRule]) -> Sequence[InstalledRule]:
        """Return rules that are about to be evaluated, with the plans for that (engine/replan.py)."""
        return rules

    def _scan_for(self, first: Plan, rules: Sequence[InstalledRule], waiting: dict[str, list[Edits]]) -> set[Plan]:
        """Evaluate all plans of some rules that scan the relation that a plan scans, in one pass; return them.

        Add their edits to `waiting`, summed block by block.
        """
        name, memory = first.tries[0].index.predicate, MemoryUse().begin()
        plans = {
            plan: rule
            for rule in rules
            for plan in rule.plans
            if plan.is_scan and plan.tries[0].index.predicate == name
        }
        heads = [self.installed.heads[plan] for plan in plans]
        wanted = [
            Wanted(plan, self.installed.heads[plan].needed, rule.definition.types) for plan, rule in plans.items()
        ]
        tree = self.txn.tree(name)  # before `pages`: opening a tree may remap the file
        with naming_the_rule(rules[0].definition):
            for batches in scan(self.txn.pages, tree, wanted, self.encode):
                for head, batch in zip(heads, batches, strict=True):
                    _add(waiting, self._summed(head.insertions(batch, self.encode), memory))
        for rule in plans.values():
            self.note_operations(rule, tree.count)
        return {*plans}

    def in_columns(self, rule: InstalledRule, plan: Plan, trees: Mapping[str, Tree]) -> Iterator[tuple[str, Edits]]:
        """Yield the edits that insert all bindings of an acyclic plan over the trees of its relations."""
        head, memory = self.installed.heads[plan], MemoryUse().begin()
        self.note_operations(rule, sum(tree.count for tree in trees.values()))
        join = ColumnJoin(self.txn.pages, plan, trees, head.needed, rule.definition.types, self.encode)
        for batch, times in join.parts():
            yield from self._summed(head.insertions(batch, self.encode, times), memory)

    def note_operations(self, rule: InstalledRule, operations: int) -> None:
        """Count operations that evaluated a rule."""
        for view in rule.writes:
            self.accounts[view].operations += operations

    def _counts_what_lacks(self, plan: Plan) -> bool:
        """Return whether counting finds the rows that a subset lacks, so that the rest is not looked at."""
        found = pairs(plan)
        if not found or any(permuted(trie.index) for trie in plan.tries):
            return False
        rules, trees = self.installed.program.rules, [self.tree(trie.index) for trie in plan.tries]
        return any(choice(plan, trees, rules, pair).taken for pair in found)

    def _summed(self, edits: Mapping[str, Edits], memory: MemoryUse) -> Iterator[tuple[str, Edits]]:
        """Yield edits by view, those of equal rows summed if that makes them fewer."""
        for view, (actions, rows) in edits.items():
            if _adds_up(layout := self.installed.layouts[view]):
                rows = summed(rows, head_spec(layout, len(rows)).keys)
                actions = np.full(rows.shape[1], ADD)
            memory.add(rows.shape[1], rows.nbytes)
            yield view, (actions, rows)

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
        batches = [batch[columns] for batch in read_batches(self.txn.pages, relation)]
        if batches:
            self.txn.replace(tree_name(index), bulk(self.txn.pager, tree.spec, ascending(batches)))

    def tree(self, index: Index) -> Tree:
        """Return the current tree of an index; if it is deferred, and so not read, its relation's."""
        return self.txn.tree(index.predicate if index in self.installed.deferred else tree_name(index))

    def _evaluate(self, rule: InstalledRule, number: int) -> Iterable[tuple[str, Edits]]:
        """Yield the rows that a rule's plan inserts into its views, by view."""
        plan = rule.plans[number]
        head = self.installed.heads[plan]
        trees = {trie.index: self.tree(trie.index) for trie in plan.tries}
        evaluation = self._evaluate_and_record(rule, number, trees, head.listed)
        self.note_operations(rule, evaluation.operations)
        yield from fold_bindings(self.installed, head, evaluation.parts, INSERT, self.encode)

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
        self, rule: InstalledRule, number: int, trees: Mapping[Index, Tree], listed: frozenset[int] | None = None
    ) -> Evaluation:
        """Evaluate a plan in full and replace its sensitivity indices; `listed` as for join/evaluate.py."""
        plan = rule.plans[number]
        if not plan.sensors or not self.recording:
            return self._evaluate_plan(plan, trees, listed)
        evaluation = evaluate(
            self.txn.pages, plan.shape, [trees[t.index] for t in plan.tries],
            sensors=plan.sensor_arrays, granularity=rule.granularity, threads=self.threads, listed=listed,
        )  # fmt: skip
        names = rule.sensitivity_names(number)
        for name, spec in zip(names, map(surgery.index_spec, plan.sensors), strict=True):
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
        self, plan: Plan, trees: Mapping[Index, Tree], listed: frozenset[int] | None = None
    ) -> Evaluation:
        rules = self.installed.program.rules
        return evaluate_in_full(self.txn.pages, plan, [trees[t.index] for t in plan.tries], rules, self.threads, listed)

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


def _add(waiting: dict[str, list[Edits]], edits: Iterable[tuple[str, Edits]]) -> None:
    """Add edits to those that wait, by view; each view has some, though they may be empty."""
    for view, (actions, rows) in edits:
        if rows.shape[1] or view not in waiting:
            waiting.setdefault(view, []).append((actions, rows))


def unordered(name: str) -> str:
    """Return the key in `built` that marks a recursive aggregate with values not in order (Fixpoint.ordered)."""
    return f"$unordered:{name}"


def divergence(fact: str) -> DivergenceError:
    """Return the error for a stored tree that contradicts the relations."""
    return DivergenceError(f"{fact}; what is stored for rules does not follow from the relations: "
                           "`ivm fsck --repair` rebuilds it")  # fmt: skip


PARTS_KEPT = 16  # parts of bindings, of some MiB each; up to this number, none is summed on its own
BATCH_ROWS = 1 << 18  # rows of a sorted view: some MiB a batch, which the system maps by large pages


class Source(Protocol):
    """A snapshot or a transaction, from which rules read."""

    @property
    def pages(self) -> Pages:
        """The pages of the store's file."""

    def tree(self, name: str) -> Tree:
        """Return the tree of a relation, view or index."""

    def decode(self, type_: str, words: np.ndarray) -> pa.Array:
        """Return words of a column as its values."""


def fold_bindings(
    installed: Installed, head: Head, parts: list[Bindings], action: int, encode: Encoder
) -> Iterator[tuple[str, Edits]]:
    """Yield the head edits, by view, of bindings that are all inserted or all erased; empty `parts` on the way.

    If there are many parts, each is summed on its own, as long as that leaves at most half of the rows. Raises
    RangeError.
    """
    many = len(parts) > PARTS_KEPT
    spared = {name: 0 if many and _adds_up(layout) else -1 for name, layout in installed.layouts.items()}
    parts.reverse()
    while parts:
        part = parts.pop()
        for name, (actions, rows) in head.edits(as_delta(part, action), encode, part.times).items():
            if spared[name] >= 0:
                spared[name] += len(actions)
                actions, rows = add_up(actions, rows, head_spec(installed.layouts[name], len(rows)))
                spared[name] -= 2 * len(actions)
            yield name, (actions, rows)


def _adds_up(layout: Layout) -> bool:
    """Return whether edits of a view add to the value of their key."""
    return layout.kind != PLAIN and not (layout.fold and layout.fold.state.kind == INVERTED)


def head_spec(layout: Layout, columns: int) -> Spec:
    """Return the shape of the tree that edits of a view go to, given how many columns the edits have."""
    return layout.fold.state.spec if layout.fold else Spec(0, layout.keys, columns - layout.keys)


def as_delta(part: Bindings, action: int) -> Delta:
    """Return bindings as a delta with one action for all."""
    return Delta(np.broadcast_to(action, part.rows.shape[1]), part.rows)


def compose_rows(source: Source, predicate: Predicate, parts: list[Edits], spec: Spec) -> list[np.ndarray]:
    """Return the rows that inserting edits make in an empty tree, one per key and in key order; O(n log n).

    Rows that are already in order are returned as they are. Raises RangeError for a sum beyond 64 bits.
    """
    rows = [rows for _, rows in parts if rows.shape[1]] or [parts[0][1]]
    if in_order(rows, spec.keys):
        return rows
    if not spec.values:
        return list(ascending(rows, BATCH_ROWS))
    sole = counted(parts, spec)
    if sole is not None:
        return [sole]
    try:
        return [compose_edits(*one_batch(parts), spec)[1]]
    except EditError:  # a partial sum exceeds 64 bits, but the total may fit
        pass
    try:
        return [sum_by_key(concatenated(rows), spec.keys)]
    except SumOverflow as overflow:
        raise out_of_range(source, predicate, overflow) from None


def check_sums(source: Source, predicate: Predicate, *parts: np.ndarray) -> None:
    """Raise RangeError if a sum, in rows[C, n] of a view, is out of the range of its type."""
    assert predicate.value is not None
    least, greatest = word_range(predicate.value)
    keys = len(predicate.keys)
    absent = NULL if predicate.nullable else least  # a sum of nothing may be null
    for rows in parts:
        beyond = ((rows[keys] < least) & (rows[keys] != absent)) | (rows[keys] > greatest)
        for i in np.flatnonzero(beyond).tolist():
            raise out_of_range(source, predicate, SumOverflow(rows[:keys, i], int(rows[keys, i])))


def out_of_range(source: Source, predicate: Predicate, overflow: SumOverflow) -> RangeError:
    """Return the error for a sum that its type cannot hold."""
    assert predicate.value is not None
    words = overflow.key[: len(predicate.keys), None]
    key = [source.decode(t, word)[0].as_py() for t, word in zip(predicate.keys, words, strict=True)]
    group = f"{predicate.name}[{', '.join(map(repr, key))}]"
    total = shown(overflow.total, predicate.value)
    remedy = "make its groups smaller, or use total, which adds floats"
    return RangeError(f"{group}: the sum is {total}, beyond {predicate.value}; {remedy}")


@contextmanager
def naming_the_rule(rule: Rule) -> Iterator[None]:
    """Prefix a RoomError, also one for refused memory, with the place of the rule that is being evaluated."""
    try:
        with within_memory("evaluating the rule"):
            yield
    except RoomError as error:
        raise RoomError(f"{rule.where}: {error}") from None


def not_a_view(name: str) -> UnknownViewError:
    """Return the error for a relation where a view is required."""
    return UnknownViewError(f"{name} is not a view: its rows come from transactions, not from rules; name a view")
