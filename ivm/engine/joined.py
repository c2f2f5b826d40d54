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
from ivm.join.join import exceeds_memory
from ivm.maintenance.surgery import Delta
from ivm.plan.columns import ACTION, LOOKED_UP, Changed, ColumnJoin, Sorted
from ivm.plan.join_tree import is_exchangeable
from ivm.plan.plan import Index, Plan, tree_name
from pagestore.host import Edits, Tree

# Costs are measured: 1 is that of an iterator operation of a probe, about 30 ns.
INDEXED = 10  # of a row of a relation for which an index is built
READ = 2.4  # of a row that passes by in columns
PROBING = 3  # of a binding that probes find, in addition to what one costs that a join by columns finds
TABLE_BYTES = 8 * (2 + LOOKED_UP)  # of a row of a relation that is read whole and looked up
ANEW = 40_000  # of evaluating views of few rows, more than a millisecond
JOINED = 0.2  # of an operation of an evaluation in full
STORED = 3  # of a row of a view that is built
SORTED = 10  # of such a row that columns yield, in another order
HUB = 1 << 14  # bindings that probes find before the cost of going on is compared with that of a join by columns


@dataclass
class JoiningFiller(PlanningFiller):
    """A PlanningFiller that joins changed rows by columns.

    `deltas` holds the changes of all indices so far, `before` their trees before that.
    """

    deltas: dict[Index, Delta] = field(default_factory=dict)
    before: dict[Index, Tree] = field(default_factory=dict)
    strict: bool = False  # whether to raise RecomputeError rather than evaluate a view from scratch

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

        That is cheaper as long as it happens only a few times, which are counted, and possible if the relations that
        it reads whole fit into memory.
        """
        marks = [f"$joined:{tree_name(index)}" for index in needed]
        times = max(self.built.get(mark, (0, 0))[0] for mark in marks)
        changed = self._changed(plan)
        if times >= INDEXED / READ or len(changed) != 1:
            return False
        if exceeds_memory(TABLE_BYTES * self._join(rule, plan, changed[0]).whole(), KEPT):
            return False
        self.built |= dict.fromkeys(marks, (times + 1, 0))
        return True

    def joining(self, rule: InstalledRule, plan: Plan) -> float:
        """Estimate the cost of joining changed rows by columns; infinite if that is not possible."""
        joins = [self._join(rule, plan, t) for t in self._changed(plan)]
        return READ * sum(join.whole() for join in joins) if joins else inf

    def most_probed(self, rule: InstalledRule, plan: Plan) -> float:
        """Return how many bindings probes may find before joining by columns, or evaluating anew, would cost less."""
        joining = self.joining(rule, plan)
        return min(joining, self.instead(rule)) / PROBING if joining < inf else inf

    def may_be_anew(self, rule: InstalledRule) -> bool:
        """Return whether a rule's views may be evaluated anew: none has been changed yet by another of their rules."""
        return self.before.keys().isdisjoint(self.installed.stored[name].indices[0] for name in rule.writes)

    def instead(self, rule: InstalledRule) -> float:
        """Estimate the cost of evaluating a rule's views anew instead of following a delta; infinite if not allowed."""
        return inf if self.strict or not self.may_be_anew(rule) else self.evaluating(rule)

    def evaluating(self, rule: InstalledRule) -> float:
        """Estimate the cost of evaluating anew the views of a rule."""
        group = self.installed.together[self.installed.numbered[rule.number]]
        listed = any(plan.in_columns for one in group for plan in one.plans) and not rule.definition.aggregates
        rows = sum(self.txn.tree(name).count for one in group for name in one.writes)
        return ANEW + (SORTED if listed else STORED) * rows + sum(map(self._joining, group))

    def _joining(self, rule: InstalledRule) -> float:
        """Estimate the cost of finding all bindings of a rule: as many operations for each row as the last time."""
        now, then = sum(self.txn.tree(name).count for name in rule.reads), sum(rule.basis.sizes.values())
        if all(plan.in_columns or len(plan.tries) == 1 for plan in rule.plans) or not rule.basis.operations:
            return READ * now * max(1.0, rule.basis.operations / then if then else 1.0)
        return now * (READ + JOINED * rule.basis.operations / max(1, then))

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
                yield from self.summed(head.insertions(batch, self.encode, times, actions))
            self.note_operations(rule, join.read)


@lru_cache(256)
def _apart(plan: Plan) -> Plan:
    """Return a plan with a name of its own for the relation of each trie, so that one of them can be exchanged."""
    named = (
        replace(trie, index=trie.index._replace(predicate=f"{t}:{trie.index.predicate}"))
        for t, trie in enumerate(plan.tries)
    )
    return replace(plan, tries=(*named,))
