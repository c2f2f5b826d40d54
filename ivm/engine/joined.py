"""Changed rows that are joined with the other relations of a plan by columns, instead of probing row by row.

    region[s] changes for one of 100 stores ──▶ a range of sales by s, as columns ──▶ 100,000 rows of the view

A dimension's row with many partners is a hub: one range of an index has them all.  Where probes would need an index
that does not exist, a few changes are joined with whole relations, which together costs as much as building it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import inf

from ivm.engine.installed import InstalledRule, index_columns
from ivm.engine.replan import PlanningFiller
from ivm.engine.rows import KEPT
from ivm.join.join import memory_allowed
from ivm.maintenance.surgery import Delta
from ivm.plan.columns import ACTION, LOOKED_UP, Changed, ColumnJoin, Sorted
from ivm.plan.join_tree import is_exchangeable
from ivm.plan.plan import Index, Plan, tree_name
from pagestore.host import Edits, Tree

# Costs are measured: 1 is that of an iterator operation of a probe, about 30 ns.
INDEXED = 10  # of a row of a relation for which an index is built
READ = 2.4  # of a row that passes by in columns
PROBING = 3  # of a binding that probes find, above that of one that a join by columns finds
TABLE_BYTES = 8 * (2 + LOOKED_UP)  # of a row of a relation that is read whole and looked up
HUB = 1 << 14  # bindings that probes find before it is asked whether a join by columns would cost less


@dataclass
class JoiningFiller(PlanningFiller):
    """A PlanningFiller that joins changed rows by columns.

    `deltas` holds the changes of all indices so far, `before` their trees before that.
    """

    deltas: dict[Index, Delta] = field(default_factory=dict)
    before: dict[Index, Tree] = field(default_factory=dict)

    def _changed(self, plan: Plan) -> list[int]:
        """Return the tries of a plan whose relations have changed, if their rows can be joined with the others by
        columns; else none.
        """
        apart, layouts = _apart(plan), self.installed.layouts
        keys = {
            a.index.predicate: layouts[t.index.predicate].keys for a, t in zip(apart.tries, plan.tries, strict=True)
        }
        changed = [t for t, trie in enumerate(plan.tries) if self._own(trie.index.predicate) in self.deltas]
        fits = plan.in_columns and all(is_exchangeable(apart, apart.tries[t].index.predicate, keys) for t in changed)
        return changed if fits else []

    def _own(self, name: str) -> Index:
        """Return the index of a relation that is the relation itself."""
        return self.installed.stored[name].indices[0]

    def puts_off(self, rule: InstalledRule, plan: Plan, needed: Iterable[Index]) -> bool:
        """Return whether changed rows are to be joined by columns instead of building the indices that probes need.

        A few times that is cheaper, if what is read whole fits into memory; each time counts.
        """
        marks = [f"$joined:{tree_name(index)}" for index in needed]
        times = max(self.built.get(mark, (0, 0))[0] for mark in marks)
        changed = self._changed(plan)
        if times >= INDEXED / READ or len(changed) != 1:
            return False
        size = TABLE_BYTES * self._join(rule, plan, changed[0]).whole()
        if size > KEPT and size > memory_allowed():
            return False
        self.built |= dict.fromkeys(marks, (times + 1, 0))
        return True

    def most_probed(self, rule: InstalledRule, plan: Plan, found: int) -> float:
        """Return how many bindings probes may find, as joining by columns costs then; `found` are those so far."""
        joins = [self._join(rule, plan, t) for t in self._changed(plan)]
        return READ * sum(join.whole() for join in joins) / PROBING if joins else inf

    def _join(self, rule: InstalledRule, plan: Plan, t: int) -> ColumnJoin:
        """Return the join by columns of the changed rows of trie t: with the new rows of those before it, and the old
        rows of those after it, so that each binding that comes or goes is found once.
        """
        trees, indices, layouts = dict[str, Tree](), dict[str, list[Sorted]](), self.installed.layouts
        apart = _apart(plan)
        for place, (one, trie) in enumerate(zip(apart.tries, plan.tries, strict=True)):
            name, read = trie.index.predicate, self.tree if place < t else self._oldest
            trees[one.index.predicate] = read(self._own(name))
            indices[one.index.predicate] = [
                (index_columns(index, layouts[name]), read(index)) for index in self.installed.indices.get(name, ())
            ]
        change, types = self.deltas[self._own(plan.tries[t].index.predicate)], rule.definition.types
        changed = Changed(apart.tries[t].index.predicate, change.rows, change.actions)
        needed = self.installed.heads[plan].needed
        return ColumnJoin(self.txn.pages, apart, trees, needed, types, self.encode, changed, indices)

    def _oldest(self, index: Index) -> Tree:
        return self.before[index] if index in self.before else self.tree(index)

    def join_rows(self, rule: InstalledRule, plan: Plan) -> Iterable[tuple[str, Edits]]:
        """Yield the head edits of one plan for the changed rows of relations, joined with the others by columns."""
        head = self.installed.heads[plan]
        for t in self._changed(plan):
            join = self._join(rule, plan, t)
            for batch, times in join.parts():
                actions = batch.columns[ACTION]
                yield from self._summed(head.insertions(batch, self.encode, times, actions))
            self.note_operations(rule, join.read)


@lru_cache(256)
def _apart(plan: Plan) -> Plan:
    """Return a plan with a name of its own for the relation of each trie, so that one of them can be exchanged."""
    named = (
        replace(trie, index=trie.index._replace(predicate=f"{t}:{trie.index.predicate}"))
        for t, trie in enumerate(plan.tries)
    )
    return replace(plan, tries=(*named,))
