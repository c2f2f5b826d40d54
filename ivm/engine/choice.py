"""Choose how a plan follows changes: by probes or matches, by columns, or not at all, as its views
are evaluated anew.

The formulas are those of plan/costs.py; here are the sizes that they take.
"""

from collections.abc import Iterable
from math import inf, prod

from ivm.lang.ir import variables
from ivm.memory import exceeds_memory
from ivm.plan import costs
from ivm.plan.plan import Index, Plan, Upkeep, indices_of, tree_name
from ivm.rules.rule import InstalledRule
from ivm.rules.steps import FollowPlan
from ivm.views.delta import Delta
from ivm.ways import by_columns
from ivm.ways.columns import LOOKED_UP
from ivm.ways.match import maintain
from ivm.ways.pending import KEPT
from ivm.ways.way import Context

TABLE_BYTES = 8 * (2 + LOOKED_UP)  # of a row of a relation that is read whole and looked up


class Choice:
    """Compares what ways cost for the deltas so far; if `strict`, no view may be evaluated anew."""

    def __init__(self, context: Context, strict: bool = False) -> None:
        self._context, self.strict = context, strict

    @property
    def has_large_delta(self) -> bool:
        """Whether a delta has more than LARGE_FROM rows."""
        return self._context.most_rows > costs.LARGE_FROM

    def is_better_anew(self, step: FollowPlan) -> bool:
        """Return whether evaluating a step's views anew costs less than propagating the deltas."""
        if not self.has_large_delta:
            return False
        rule, plan = step.rule, step.plan
        large = {i: rows for i, rows in self._changed_rows(plan).items() if rows > costs.LARGE_FROM}
        if not large or not self.may_recompute(rule):
            return False
        context = self._context
        empty = not any(context.txn.tree(name).count for name in rule.writes)
        if empty and any(rows > context.before[index].count for index, rows in large.items()):
            return True
        anew = self.evaluating(rule) - self.rewriting(rule, plan)
        return self._propagating(rule, plan, anew) > anew

    def others(self, rule: InstalledRule, plan: Plan) -> tuple[float, float]:
        """Estimate what it costs to join changed rows by columns instead of probing, and to
        evaluate views anew, beyond what pages cost that are rewritten otherwise.
        """
        anew = self.instead(rule) - self.rewriting(rule, plan)
        return self.joining(rule, plan, anew), anew

    def defers_index(self, rule: InstalledRule, plan: Plan, needed: Iterable[Index]) -> bool:
        """Return whether changed rows are to be joined by columns instead of building the indices
        that probes need.

        That is cheaper as long as it happens only a few times, which are counted, and possible if
        the relations that it reads whole fit into memory.
        """
        context = self._context
        marks = [f"$joined:{tree_name(index)}" for index in needed]
        times = max(context.built.get(mark, (0, 0))[0] for mark in marks)
        changed = by_columns.changed_tries(context, plan)
        indexed = costs.deferring(self._listed(rule, plan), self._indexed(needed))
        if len(changed) != 1 or times * self.joining(rule, plan) >= indexed:
            return False
        whole = by_columns.join_of(context, rule, plan, changed[0]).whole()
        if exceeds_memory(TABLE_BYTES * whole, KEPT):
            return False
        context.built |= dict.fromkeys(marks, (times + 1, 0))
        return True

    def joining(self, rule: InstalledRule, plan: Plan, most: float = inf) -> float:
        """Estimate the cost of joining changed rows by columns; infinite if impossible, or more
        than `most`.
        """
        changed = by_columns.changed_tries(self._context, plan)
        fixed = costs.tables(plan) * len(changed)
        if not changed or fixed > most:
            return inf
        basis = rule.basis
        share = self._share(rule, plan) * max(0, basis.operations - sum(basis.sizes.values()))
        whole = sum(by_columns.join_of(self._context, rule, plan, t).whole() for t in changed)
        return costs.by_columns(fixed, share + whole, self._listed(rule, plan))

    def probing(self, rule: InstalledRule, plan: Plan) -> float:
        """Estimate the cost of probing, if each changed row has as many bindings as others have."""
        deltas = self._context.deltas
        changed = {trie.index.predicate: trie.index for trie in plan.tries if trie.index in deltas}
        rows = sum(len(deltas[index].actions) for index in changed.values())
        return costs.probing(self._listed(rule, plan), rule.basis.expected, rows)

    def rewriting(self, rule: InstalledRule, plan: Plan) -> float:
        """Estimate what it costs to write those pages of views anew that bindings of changed rows
        touch.

        These are everywhere in a view that does not begin with a column of the relation that has
        changed.
        """
        if not (listed := self._listed(rule, plan)):
            return 0.0
        context = self._context
        changed = {
            t
            for t, trie in enumerate(plan.tries)
            if context.own(trie.index.predicate) in context.deltas
        }
        levels = {plan.variables[level] for t in changed for level in plan.tries[t].levels}
        names = levels | {read.variable for read in plan.reads if read.trie in changed}
        heads = rule.definition.heads
        scattered = [h for h in heads if names.isdisjoint(v.name for v in variables(*h.terms[:1]))]
        return costs.rewriting(listed, [context.txn.tree(h.predicate).count for h in scattered])

    def may_recompute(self, rule: InstalledRule) -> bool:
        """Return whether a rule's views may be evaluated anew: none has been changed yet by
        another of their rules.
        """
        return self._context.before.keys().isdisjoint(map(self._context.own, rule.writes))

    def instead(self, rule: InstalledRule) -> float:
        """Estimate the cost of evaluating a rule's views anew instead of following a delta;
        infinite if not allowed.
        """
        following = self.strict and not self.has_large_delta
        return inf if following or not self.may_recompute(rule) else self.evaluating(rule)

    def evaluating(self, rule: InstalledRule) -> float:
        """Estimate the cost of evaluating anew the views of a rule, with the rules that are then
        evaluated as well.
        """
        context = self._context
        group = context.installed.together[context.installed.numbered[rule.number]]
        stored = sum(
            self._left(one) * context.txn.tree(name).count for one in group for name in one.writes
        )
        return costs.anew(
            stored, sum(costs.evaluating(rule.plans, self._evaluated(rule)) for rule in group)
        )

    def _evaluated(self, rule: InstalledRule) -> costs.Evaluated:
        txn = self._context.txn
        names = [
            name for number in range(len(rule.plans)) for name in rule.sensitivity_names(number)
        ]
        return rule.evaluated(
            sum(txn.tree(name).count for name in rule.reads),
            sum(txn.counts([name for name in names if name in txn])),
            self._left(rule),
        )

    def _propagating(self, rule: InstalledRule, plan: Plan, anew: float) -> float:
        """Estimate the cost of following the deltas by a plan, as far as probing does not find out
        what it costs, and as far as it matters where evaluating anew costs `anew`.
        """
        context, changes = self._context, self._changed_rows(plan)
        rows = sum(changes.values())
        if len(plan.tries) == 1:
            return costs.alone(rows)
        if plan.way.upkeep is Upkeep.PROBE:
            least = costs.probing_at_least(
                rows, self._indexed(context.installed.probed_in(plan, changes))
            )
            return least if least <= anew else self.joining(rule, plan, anew)
        every = costs.sampled(rows)
        sample = {
            i: Delta(context.deltas[i].actions[::every], context.deltas[i].rows[:, ::every])
            for i in changes
        }
        transition = context.transition(indices_of(plan))
        sampled = transition._replace(deltas={**context.deltas, **sample})
        trees = [*map(context.txn.tree, rule.sensitivity_names(rule.plans.index(plan)))]
        change = maintain(context.txn.pages, plan, sampled, trees, rule.granularity)
        if change is None:
            return 0.0
        renewed = sum(len(actions) for actions, _ in change.renewals)
        return costs.matching(every, change.operations, renewed, len(change.delta.actions))

    def _changed_rows(self, plan: Plan) -> dict[Index, int]:
        """Return how many rows have changed of each index of a plan that has any."""
        changes = ((trie.index, self._context.deltas.get(trie.index)) for trie in plan.tries)
        return {index: len(change.actions) for index, change in changes if change}

    def building(self, needed: Iterable[Index]) -> float:
        """Estimate the cost of building the indices that probes need."""
        return costs.building(self._indexed(needed))

    def _indexed(self, needed: Iterable[Index]) -> int:
        """Return the rows of the relations of which indices are needed."""
        return sum(self._context.txn.tree(index.predicate).count for index in needed)

    def _left(self, rule: InstalledRule) -> float:
        """Estimate the part of a rule's bindings that is left where rows of relations have gone."""
        context = self._context
        changed = [name for name in map(context.own, rule.reads) if name in context.before]
        return prod(
            min(1.0, context.tree(own).count / max(1, context.before[own].count)) for own in changed
        )

    def _listed(self, rule: InstalledRule, plan: Plan) -> float:
        """Estimate how many bindings of a plan that are listed have changed, if each row has as
        many as others.
        """
        listed = rule.listed.get(rule.plans.index(plan), 0)
        return self._share(rule, plan) * listed if listed else 0.0

    def _share(self, rule: InstalledRule, plan: Plan) -> float:
        """Return which part of the rows of relations has changed, added up: of those that they had
        when the rule was evaluated.
        """
        context = self._context
        changed = {context.own(trie.index.predicate) for trie in plan.tries} & context.deltas.keys()
        rows = {
            own: rule.basis.sizes.get(own.predicate, context.before[own].count) for own in changed
        }
        return sum(len(context.deltas[name].actions) / max(1, rows[name]) for name in changed)
