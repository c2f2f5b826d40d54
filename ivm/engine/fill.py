"""Evaluation from scratch: fill every view of some rules, and store the indices that maintenance
will need.

    edge(x, y) ──▶ "$index:edge:1.0", if a plan reads edge by y ──▶ tri(x, y, z) and its
    "$sense:..." indices

Rules are evaluated in dependency order, so a view is complete before the first rule reads it. Each
plan is filled by its way; what the ways make waits until all rules of a view are evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ivm.engine.replan import Replan
from ivm.errors import UnknownViewError
from ivm.memory import EVALUATING, FILLED, FILLING, Budget, Stopped, within_memory
from ivm.names import is_helper
from ivm.plan.plan import Columns, Constants, Ranges, Scan, Texts, Way
from ivm.rules.rule import InstalledRule, InstalledStratum
from ivm.ways import by_columns, constants, ranges, rope, scan, tries
from ivm.ways.pending import KEPT, PendingRows
from ivm.ways.recursion import stratum as recursion
from ivm.ways.storing import build_view
from ivm.ways.way import Context, WithoutPlans
from pagestore.host import Edits, Tree

WITHOUT_PLANS: Mapping[type[Way], WithoutPlans] = {
    Ranges: ranges,
    Texts: rope,
    Constants: constants,
}


class Fill:
    """Evaluates rules in full over the trees of one transaction.

    With a `replan` each rule is planned for the sizes of what it reads, and by another plan if one
    turns out wrong.
    """

    def __init__(self, context: Context, replan: Replan | None = None) -> None:
        self.context, self._replan = context, replan

    def rules(self, rules: Iterable[InstalledRule]) -> None:
        """Evaluate rules whose views are empty, in dependency order; O(evaluating them).

        Raises MaintainError: two values for one key of a function, a value out of range, too little
        memory.
        """
        context, rules = self.context, [*rules]
        context.took.clear()
        context.found.clear()
        answer = context.installed.blocks[-1].part.answer if context.once else None
        waiting = PendingRows(context.txn, context.installed, answer=answer)
        filled: set[str] = set()
        for place, given in enumerate(rules):
            rule = context.installed.numbered[given.number]
            stratum = context.installed.recursion.get(rule)
            if stratum and filled.issuperset(stratum.recursive):
                continue
            said = {"expected": sum(plan.estimates[-1] for plan in rule.plans if plan.estimates)}
            FILLING.info(
                "filling %s, %d of %d", shown_names(rule.writes), place + 1, len(rules), extra=said
            )
            for name in stratum.reads if stratum else rule.reads:
                if name in waiting:
                    self._fill_view(name, waiting)
            if stratum:
                recursion.fill(context, self._fitting(stratum))
                filled |= stratum.recursive
                continue
            if self._replan:
                (rule,) = self._replan.fit((rule,))
            self._add_rows(rule, rules[place:], waiting)
            if context.once:
                self._let_go(rule, rules[place + 1 :])
        for name in [*waiting]:
            FILLING.info("storing %s", shown_names([name]))
            self._fill_view(name, waiting)
        FILLING.info(FILLED)
        if self._replan and not context.once:  # what a question took is not kept
            context.installed = context.installed.measuring(context.took, context.found)

    def _let_go(self, rule: InstalledRule, later: Sequence[InstalledRule]) -> None:
        """Empty the large helpers that no rule of a question reads after this one: what comes
        needs the room.
        """
        txn, helpers = self.context.txn, {*filter(is_helper, rule.reads)}
        read = {name for reader in later for name in reader.reads} if helpers else set()
        for name in helpers - read:
            tree = txn.tree(name)
            if 8 * tree.spec.columns * tree.count > KEPT:
                txn.replace(name, Tree.empty(tree.spec))

    def contributions(self, rules: Sequence[InstalledRule]) -> dict[str, list[Edits]]:
        """Return the edits that rules make of views, by view, if what they read is complete."""
        waiting = PendingRows(self.context.txn, self.context.installed, spills=False)
        for place, rule in enumerate(rules):
            self._add_rows(rule, rules[place:], waiting)
        return waiting

    def stratum_anew(self, stratum: InstalledStratum) -> None:
        """Evaluate a recursive stratum from scratch, from what it reads outside the stratum."""
        recursion.refill(self.context, self._fitting(stratum))

    def _fitting(self, stratum: InstalledStratum) -> InstalledStratum:
        """Return a recursive stratum that is about to be evaluated, with the plans for that."""
        first = self._replan.fit(stratum.rules)[0] if self._replan else stratum.rules[0]
        return self.context.installed.recursion[first]

    def _add_rows(
        self, rule: InstalledRule, rules: Sequence[InstalledRule], waiting: PendingRows
    ) -> None:
        """Add the edits of a rule to `waiting`, and those of plans of other `rules` that scan
        the same relation.
        """
        waiting.rules = rules
        if not rule.plans:
            (name,) = rule.writes
            with within_memory(EVALUATING, where=rule.definition.where):
                waiting.add(name, WITHOUT_PLANS[rule.way].fill(self.context, rule))
        for plan in rule.plans:
            if isinstance(plan.way, Scan):
                scan.fill(self.context, rule, rule.plans.index(plan), waiting)
                continue
            # a rule may have only some plans
            number = self.context.installed.numbered[rule.number].plans.index(plan)
            with within_memory(EVALUATING, where=rule.definition.where):
                self._add_bindings(rule.number, number, waiting)

    def _add_bindings(self, rule: int, number: int, waiting: PendingRows) -> None:
        """Add the edits that insert all bindings of plan `number` of a rule, given by its number,
        into its views, by another plan if this one turns out to be wrong.
        """
        owner = self.context.installed.numbered[rule]
        budget = self._replan.budget(owner, number) if self._replan else None
        try:
            self._add(rule, number, waiting, budget)
        except Stopped:
            assert budget
            for view in owner.writes:
                self.context.accounts[view].operations += budget.spent
            self._add(rule, number, waiting)

    def _add(
        self, rule: int, number: int, waiting: PendingRows, budget: Budget | None = None
    ) -> None:
        context = self.context
        owner = context.installed.numbered[rule]
        plan = owner.plans[number]
        columns = isinstance(plan.way, Columns) and not tries.counts_what_lacks(context, plan)
        if not columns or not by_columns.fill(context, owner, number, waiting):
            tries.fill(context, owner, number, waiting, budget)

    def _fill_view(self, name: str, waiting: PendingRows) -> None:
        rule = next(rule.definition for rule in self.context.installed.rules if name in rule.writes)
        rows = sum(len(actions) for actions, _ in waiting[name])
        with within_memory("storing rows", rows, rule.where):
            build_view(self.context, name, waiting)


def shown_names(views: Iterable[str]) -> str:
    """Return the names of views for people: helper views have none."""
    return ", ".join(name for name in views if not is_helper(name)) or "a helper view"


def not_a_view(name: str) -> UnknownViewError:
    """Return the error for a relation where a view is required."""
    return UnknownViewError(
        f"{name} is not a view: its rows come from transactions, not from rules; name a view"
    )
