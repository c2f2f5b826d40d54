"""Changed rows that are joined with the other relations of a plan by columns, instead of probing row by row.

    region[s] changes for one of 100 stores ──▶ a range of sales by s, as columns ──▶ 100,000 rows of the view

A dimension's row with many partners is a hub: one range of an index has them all.  Where probes would need an index
that does not exist, a few changes are joined with whole relations, which together costs as much as building it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import exp, inf, prod

from ivm.engine.replan import PlanningFiller
from ivm.lang.ir import variables
from ivm.memory import exceeds_memory
from ivm.plan.join_tree import is_exchangeable, links_of
from ivm.plan.plan import Index, Plan, tree_name
from ivm.rules.installed import index_columns
from ivm.rules.rule import InstalledRule
from ivm.views.delta import Delta
from ivm.ways.columns import ACTION, LOOKED_UP, Changed, ColumnJoin, Sorted
from ivm.ways.pending import KEPT
from ivm.ways.probe import BOUND, OPERATION
from pagestore.host import Edits, Tree

# Costs are measured: 1 is 30 ns, about that of an iterator operation of a join over flat tries.
INDEXED = 3  # of a row of a relation for which an index is built
READ = 0.6  # of a row that passes by in columns
TABLE = 12_000  # of each relation of a join by columns, and of each comparison that links two, for the calls of Python
TABLE_BYTES = 8 * (2 + LOOKED_UP)  # of a row of a relation that is read whole and looked up
ANEW = 25_000  # of evaluating views anew, for the calls of Python
JOINED = 0.25  # of an operation of an evaluation in full
LISTED = 1  # of a binding that becomes rows of a view; one that is added up costs next to nothing
STORED = 0.8  # of a row of a view that is built, and compared with those before
REWRITTEN = 1.5  # of a row of a view on a page that edits touch
ON_PAGE = 170  # rows of a page of a view
STEPS = 3  # operations of a probe for each binding
SKIPPED = 0.1  # of the rows of relations; a rule that took fewer operations counts what a subset lacks
RECORDED = 1  # of an interval of a sensitivity index that is written with all others
FREE = 20_000  # the cost of probing before those of the other ways are estimated; none is much cheaper


@dataclass
class JoiningFiller(PlanningFiller):
    """A PlanningFiller that joins changed rows by columns.

    `deltas` holds the changes of all indices so far, `before` their trees before that.
    """

    deltas: dict[Index, Delta] = field(default_factory=dict)
    before: dict[Index, Tree] = field(default_factory=dict)
    strict: bool = False  # whether to raise RecomputeError rather than evaluate a view from scratch
    has_large_delta: bool = False  # whether a delta has more than LARGE_FROM rows

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
        indexed = self.building(needed) + BOUND * self._listed(rule, plan)
        if len(changed) != 1 or times * self.joining(rule, plan) >= indexed:
            return False
        if exceeds_memory(TABLE_BYTES * self._join(rule, plan, changed[0]).whole(), KEPT):
            return False
        self.built |= dict.fromkeys(marks, (times + 1, 0))
        return True

    def building(self, needed: Iterable[Index]) -> float:
        """Estimate the cost of building the indices that are needed."""
        return INDEXED * sum(self.txn.tree(index.predicate).count for index in needed)

    def joining(self, rule: InstalledRule, plan: Plan, most: float = inf) -> float:
        """Estimate the cost of joining changed rows by columns; infinite if impossible, or more than `most`."""
        changed = self._changed(plan)
        fixed = _tables(plan) * len(changed)
        if not changed or fixed > most:
            return inf
        found = self._share(rule, plan) * max(0, rule.basis.operations - sum(rule.basis.sizes.values()))
        whole = sum(self._join(rule, plan, t).whole() for t in changed)
        return fixed + READ * (found + whole) + BOUND * self._listed(rule, plan)

    def probing(self, rule: InstalledRule, plan: Plan) -> float:
        """Estimate the cost of probing, if each changed row has as many bindings as others have."""
        changed = {trie.index.predicate: trie.index for trie in plan.tries if trie.index in self.deltas}
        rows = sum(len(self.deltas[index].actions) for index in changed.values())
        return max((BOUND + STEPS * OPERATION) * self._listed(rule, plan), OPERATION * rule.basis.expected * rows)

    def _listed(self, rule: InstalledRule, plan: Plan) -> float:
        """Estimate how many bindings of a plan that are listed have changed, if each row has as many as others."""
        listed = _listed_by(rule).get(rule.plans.index(plan), 0)
        return self._share(rule, plan) * listed if listed else 0.0

    def _share(self, rule: InstalledRule, plan: Plan) -> float:
        """Return which part of the rows of relations has changed, added up: of those that they had when the rule was
        evaluated.
        """
        changed = {self._own(trie.index.predicate) for trie in plan.tries} & self.deltas.keys()
        rows = {own: rule.basis.sizes.get(own.predicate, self.before[own].count) for own in changed}
        return sum(len(self.deltas[own].actions) / max(1, rows[own]) for own in changed)

    def others(self, rule: InstalledRule, plan: Plan) -> tuple[float, float]:
        """Estimate what it costs to join changed rows by columns instead of probing, and to evaluate views anew,
        beyond what pages cost that are rewritten otherwise.
        """
        anew = self.instead(rule) - self.rewriting(rule, plan)
        return self.joining(rule, plan, anew), anew

    def rewriting(self, rule: InstalledRule, plan: Plan) -> float:
        """Estimate what it costs to write those pages of views anew that bindings of changed rows touch.

        These are everywhere in a view that does not begin with a column of the relation that has changed.
        """
        if not (found := self._listed(rule, plan)):
            return 0.0
        changed = {t for t, trie in enumerate(plan.tries) if self._own(trie.index.predicate) in self.deltas}
        levels = {plan.variables[level] for t in changed for level in plan.tries[t].levels}
        names = levels | {read.variable for read in plan.reads if read.trie in changed}
        scattered = [
            head for head in rule.definition.heads if names.isdisjoint(v.name for v in variables(*head.terms[:1]))
        ]
        counts = [self.txn.tree(head.predicate).count for head in scattered]
        return sum(REWRITTEN * rows * (1 - exp(-found * ON_PAGE / max(1, rows))) for rows in counts)

    def may_be_anew(self, rule: InstalledRule) -> bool:
        """Return whether a rule's views may be evaluated anew: none has been changed yet by another of their rules."""
        return self.before.keys().isdisjoint(self.installed.stored[name].indices[0] for name in rule.writes)

    def instead(self, rule: InstalledRule) -> float:
        """Estimate the cost of evaluating a rule's views anew instead of following a delta; infinite if not allowed."""
        following = self.strict and not self.has_large_delta
        return inf if following or not self.may_be_anew(rule) else self.evaluating(rule)

    def evaluating(self, rule: InstalledRule) -> float:
        """Estimate the cost of evaluating anew the views of a rule, with the rules that are then evaluated as well."""
        group = self.installed.together[self.installed.numbered[rule.number]]
        rows = sum(self._left(one) * self.txn.tree(name).count for one in group for name in one.writes)
        return ANEW + STORED * rows + sum(map(self._joining, group))

    def _left(self, rule: InstalledRule) -> float:
        """Estimate the part of a rule's bindings that is left where rows of relations have gone."""
        changed = [own for own in map(self._own, rule.reads) if own in self.before]
        return prod(min(1.0, self.tree(own).count / max(1, self.before[own].count)) for own in changed)

    def _joining(self, rule: InstalledRule) -> float:
        """Estimate the cost of finding all bindings of a rule: as many operations for each row as the last time."""
        now, then = sum(self.txn.tree(name).count for name in rule.reads), sum(rule.basis.sizes.values())
        grown, measured = now / max(1, then), bool(rule.basis.found or rule.basis.operations)
        operations = grown * rule.basis.operations if measured else now
        found = sum(_listed_by(rule).values())
        names = [name for number in range(len(rule.plans)) for name in rule.sensitivity_names(number)]
        recorded = sum(self.txn.counts([name for name in names if name in self.txn]))
        storing = LISTED * found * max(1.0, grown) * self._left(rule) + RECORDED * recorded
        if operations < SKIPPED * now:
            return storing + operations
        fixed = storing + sum(map(_tables, rule.plans))
        if all(plan.in_columns or len(plan.tries) == 1 for plan in rule.plans):
            return fixed + READ * operations
        return fixed + READ * now + JOINED * operations

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
                (index_columns(index, layouts[name]), read(index)) for index in self.installed.indices[name]
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


def _listed_by(rule: InstalledRule) -> dict[int, int]:
    """Return how many bindings each plan, by its number, listed when the rule was last evaluated, if that is known."""
    found = () if rule.definition.aggregates else rule.basis.found
    return {number: steps[-1] for number, steps in enumerate(found) if steps}


@lru_cache(256)
def _tables(plan: Plan) -> float:
    """Return the cost of a join by columns that finds nothing."""
    return float(TABLE * (len(plan.tries) + len(links_of(plan))))


@lru_cache(256)
def _apart(plan: Plan) -> Plan:
    """Return a plan with a name of its own for the relation of each trie, so that one of them can be exchanged."""
    named = (
        replace(trie, index=trie.index._replace(predicate=f"{t}:{trie.index.predicate}"))
        for t, trie in enumerate(plan.tries)
    )
    return replace(plan, tries=(*named,))
