"""What a way of evaluating is, and what all ways work on: the trees of one transaction.

    fill      edits that insert all bindings of a rule or plan into its empty views
    follow    edits of these views for what has changed in the relations that it reads
    cost      what each of the two takes: ivm/plan/costs.py, from the sizes that Context has

The room of a way has `fill`, and `follow` if it does not follow changes as the probes and matches
of all plans do.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ivm.lang.ir import Predicate
from ivm.memory import exceeds_memory, memory_allowed
from ivm.plan.plan import Index, tree_name
from ivm.rules.account import Account
from ivm.rules.installed import Installed, index_columns
from ivm.rules.rule import InstalledRule
from ivm.terms.encoder import Encoder
from ivm.views.delta import Delta, Transition
from ivm.ways.pending import KEPT
from pagestore.host import Edits, Transaction, Tree, ascending, bulk, external_sort, read_batches

SORTED = 4  # times the bytes of rows that sorting them in memory takes


class WithoutPlans(Protocol):
    """A way that evaluates rules without plans."""

    def fill(self, context: Context, rule: InstalledRule) -> Edits:
        """Return the edits that insert all rows of a rule into its view.  Raises RangeError."""

    def follow(self, context: Context, rule: InstalledRule) -> Iterable[tuple[str, Edits]]:
        """Yield the edits of a rule's view for the deltas so far.  Raises RangeError."""


@dataclass
class Context:
    """The trees of one transaction, and the rules installed in it, which get other plans meanwhile.

    With `recording`, evaluation rebuilds sensitivity indices; rules that are evaluated `once` need
    no state. `built` holds for each plan, by the name of its first sensitivity index, how many rows
    its indices and its body had when the indices were last built or swept, how many they may gain
    before the next sweep, and where that goes on: the number of an index, and a row of it.

    `deltas` holds the changes of all indices so far, `before` their trees before that, and
    `state_changes` those of the states of aggregates. `took` counts the operations that evaluated
    rules, `found` the rows that steps of their plans found, both by the number of the rule.
    """

    txn: Transaction
    installed: Installed
    encode: Encoder
    threads: int = 1
    recording: bool = True
    once: bool = False
    built: dict[str, tuple[int, ...]] = field(default_factory=dict)
    accounts: defaultdict[str, Account] = field(default_factory=lambda: defaultdict(Account))
    deltas: dict[Index, Delta] = field(default_factory=dict)
    before: dict[Index, Tree] = field(default_factory=dict)
    state_changes: dict[str, Edits] = field(default_factory=dict)
    most_rows: int = 0  # of a delta
    took: Counter[int] = field(default_factory=Counter)
    found: dict[int, dict[int, Sequence[int]]] = field(default_factory=dict)

    def tree(self, index: Index) -> Tree:
        """Return the current tree of an index; if it is deferred, and unread, its relation's."""
        deferred = index in self.installed.deferred
        return self.txn.tree(index.predicate if deferred else tree_name(index))

    def oldest(self, index: Index) -> Tree:
        """Return the tree of an index before the transaction."""
        return self.before[index] if index in self.before else self.tree(index)

    def transition(self, indices: Iterable[Index]) -> Transition:
        """Return how indices changed in the transaction, with all old trees of what changed."""
        new = {index: self.tree(index) for index in indices}
        return Transition({**new, **self.before}, new, self.deltas)

    def own(self, name: str) -> Index:
        """Return the index of a relation that is the relation itself."""
        return self.installed.stored[name].indices[0]

    def trees_of(self, name: str) -> dict[Index, Tree]:
        """Return the trees of all indices of a relation."""
        stored = self.installed.stored[name]
        return stored.of_indices([*map(self.txn.tree, stored.names)])

    def predicate(self, name: str) -> Predicate:
        """Return the relation, function or view of a name."""
        return self.installed.program.predicates[name]

    def build_indices(self, indices: Iterable[Index]) -> None:
        """Create the trees of permuted indices that do not exist and are not deferred."""
        for index in indices:
            if tree_name(index) not in self.txn and index not in self.installed.deferred:
                self.build_index(index)

    def build_index(self, index: Index) -> None:
        """Create the tree of a permuted index; of a relation that has changed, also its tree
        before, and its change.  O(n log n).
        """
        relation, name = self.own(index.predicate), tree_name(index)
        change = self.deltas.get(relation)
        self._build(index, self.before[relation] if change else None)
        if change:
            self.before[index] = self.txn.tree(name)
            columns = index_columns(index, self.installed.layouts[index.predicate])
            self.deltas[index] = Delta(*self.txn.apply(name, change.actions, change.rows[columns]))

    def _build(self, index: Index, relation: Tree | None) -> None:
        """Create the tree of a permuted index from its relation, or from an older tree of that."""
        layout = self.installed.layouts[index.predicate]
        columns = index_columns(index, layout)
        keys = len(index.order)
        tree = self.txn.create_words(tree_name(index), keys, len(columns) - keys)
        # before `pages`: opening a tree may remap the file
        relation = relation or self.txn.tree(index.predicate)
        batches = (batch[columns] for batch in read_batches(self.txn.pages, relation))
        if exceeds_memory(SORTED * 8 * len(columns) * relation.count, KEPT):
            rows = external_sort(batches, tree.spec.keys, memory_allowed())
        else:
            rows = ascending([*batches])
        if relation.count:
            self.txn.replace(tree_name(index), bulk(self.txn.pager, tree.spec, rows))

    def note_steps(self, rule: InstalledRule, number: int, found: Sequence[int]) -> None:
        """Take note of the rows that each step of a rule's plan found when it was evaluated."""
        self.found.setdefault(rule.number, {})[number] = found

    def note_operations(self, rule: InstalledRule, operations: int) -> None:
        """Count operations that evaluated a rule."""
        self.took[rule.number] += operations
        for view in rule.writes:
            self.accounts[view].operations += operations
