"""Changed rows that are joined with the other relations of a plan by columns, instead of probing row by row.

    region[s] changes for one of 100 stores ──▶ a range of sales by s, as columns ──▶ 100,000 rows of the view

A dimension's row with many partners is a hub: one range of an index has them all.  Where probes would need an index
that does not exist, a few changes are joined with whole relations, which together costs as much as building it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from ivm.engine.installed import InstalledRule, index_columns
from ivm.engine.replan import PlanningFiller
from ivm.maintenance.surgery import Delta
from ivm.plan.columns import ACTION, Changed, ColumnJoin
from ivm.plan.join_tree import is_exchangeable
from ivm.plan.plan import Index, Plan, tree_name
from pagestore.host import Edits

# Costs are measured: 1 is that of an iterator operation of a probe, about 30 ns.
INDEXED = 10  # of a row of a relation for which an index is built
READ = 2.4  # of a row that passes by in columns
PROBING = 3  # of a binding that probes find, above that of one that a join by columns finds
HUB = 1 << 14  # bindings that probes find before it is asked whether a join by columns would cost less


@dataclass
class JoiningFiller(PlanningFiller):
    """A PlanningFiller that joins changed rows by columns; `deltas` holds the changes of all indices so far."""

    deltas: dict[Index, Delta] = field(default_factory=dict)

    def _changed_alone(self, plan: Plan) -> str | None:
        """Return the only relation of a plan that has changed, if its rows can be joined with the others by columns."""
        names = {trie.index.predicate for trie in plan.tries}
        changed = [name for name in names if self.installed.stored[name].indices[0] in self.deltas]
        keys = {name: self.installed.layouts[name].keys for name in names}
        fits = plan.in_columns and len(changed) == 1 and is_exchangeable(plan, changed[0], keys)
        return changed[0] if fits else None

    def puts_off(self, plan: Plan, needed: Iterable[Index]) -> bool:
        """Return whether changed rows are to be joined by columns instead of building the indices that probes need.

        A few times that is cheaper; each time counts.
        """
        marks = [f"$joined:{tree_name(index)}" for index in needed]
        times = max(self.built.get(mark, (0, 0))[0] for mark in marks)
        if times >= INDEXED / READ or not self._changed_alone(plan):
            return False
        self.built |= dict.fromkeys(marks, (times + 1, 0))
        return True

    def most_probed(self, rule: InstalledRule, plan: Plan, found: int) -> float:
        """Return how many bindings probes may find, as joining by columns costs then; `found` are those so far."""
        return READ * self._join(rule, plan).whole() / PROBING if self._changed_alone(plan) else inf

    def _join(self, rule: InstalledRule, plan: Plan) -> ColumnJoin:
        """Return the join by columns of the only relation that has changed with the others of a plan."""
        name = self._changed_alone(plan)
        assert name, "such a plan was asked for"
        trees = {trie.index.predicate: self.txn.tree(trie.index.predicate) for trie in plan.tries}
        layouts = self.installed.layouts
        indices = {
            one: [(index_columns(index, layouts[one]), self.txn.tree(tree_name(index))) for index in found]
            for one, found in self.installed.indices.items()
            if one in trees
        }
        change, types = self.deltas[self.installed.stored[name].indices[0]], rule.definition.types
        changed = Changed(name, change.rows, change.actions)
        needed = self.installed.heads[plan].needed
        return ColumnJoin(self.txn.pages, plan, trees, needed, types, self.encode, changed, indices)

    def join_rows(self, rule: InstalledRule, plan: Plan) -> Iterable[tuple[str, Edits]]:
        """Yield the head edits of one plan for the changed rows of a relation, joined with the others by columns."""
        head, join = self.installed.heads[plan], self._join(rule, plan)
        for batch, times in join.parts():
            actions = batch.columns[ACTION]
            yield from self._summed(head.insertions(batch, self.encode, times, actions))
        self.note_operations(rule, join.read)
