"""Plans follow the data: rules get other plans when relations have outgrown the sizes that theirs
were made for.

    edge of 0 rows ──▶ a plan ──▶ edge of 20,000 rows ──▶ another plan, with the indices that it
    needs

A rule that is about to be evaluated in full is planned for what its relations have then; others in
the next transaction that reaches them.  So are rules for which following a change took far more
operations than expected.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from math import inf

from ivm.engine.kernels.run import EXCESS_FREE
from ivm.memory import Budget
from ivm.plan.planner import chosen_of, keep_alike
from ivm.rules.compile import planned_anew
from ivm.rules.installed import Installed
from ivm.rules.relations import Relations
from ivm.rules.rule import InstalledRule
from ivm.ways.tries import record
from ivm.ways.way import Context

# A rule is planned anew in the next transaction if following a change took EXCESS times the
# operations expected, and more than EXCESS_FREE, which take some milliseconds.
EXCESS = 10
# An evaluation in full is stopped once it has taken WRONG times the operations expected, and more
# than WRONG_FREE, if statistics of all rows, instead of a sample, lead to another plan that is
# expected to take fewer than it took so far.
WRONG = 100
WRONG_FREE = 1 << 20


class Replan:
    """Gives rules of a transaction other plans.

    `exceeding` maps the number of a rule to the operations that a changed row took, if these were
    far too many.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.exceeding: dict[int, float] = {}

    def budget(self, rule: InstalledRule, number: int) -> Budget:
        """Return the operations that a plan may take before it is replaced, if there is a better
        one.
        """
        expected = max(rule.plans[number].cost, rule.basis.operations)
        better = cache(partial(self._planned_by_all_rows, rule))

        def limit(spent: int) -> float:
            """Return the operations up to which to go on: those that the better plan would take,
            if there is one.
            """
            old, new = rule.plans[number], better().plans[number]
            if chosen_of(new) == chosen_of(old):
                return inf
            if new.cost <= spent:
                reason = f"evaluating it took more than {spent:,} operations, where {expected:,.0f} were expected"
                self._replace(
                    rule,
                    number,
                    better(),
                    f"{reason} (version {self._context.txn.base.version + 1})",
                )
            return new.cost

        return Budget(max(WRONG_FREE, WRONG * expected) if expected else inf, limit)

    def _planned_by_all_rows(self, rule: InstalledRule) -> InstalledRule:
        """Return a rule with plans by statistics of all rows of what it reads, not of samples."""
        made = planned_anew(
            self._context.installed, [rule], Relations(self._context.txn, whole=True), lambda _: ""
        )
        return made.numbered[rule.number]

    def _replace(self, rule: InstalledRule, number: int, by: InstalledRule, reason: str) -> None:
        """Replace one plan of a rule, whose other plans may have been evaluated already, by that
        of another rule.
        """
        plans = (*rule.plans[:number], by.plans[number], *rule.plans[number + 1 :])
        new = replace(by, plans=plans, basis=by.basis._replace(reason=reason))
        self._context.installed = self._context.installed.replacing({rule: new})
        self._drop_stale(rule, number)

    def fit(self, rules: Sequence[InstalledRule]) -> Sequence[InstalledRule]:
        """Return rules that are about to be evaluated, with the plans for that."""
        return self._plan_anew(
            [rule for rule in rules if rule.basis.outgrown(self._sizes(rule))], rules
        )

    def follow_sizes(self, names: frozenset[str]) -> None:
        """Make plans anew of rules reached from some predicates, if those are for other sizes than
        relations have, and of those for which changes took too many operations in the transaction
        before.
        """
        outgrown = self._context.installed.outgrown(names, self._context.txn.counts)
        slow = (
            [rule for rule in self._context.installed.rules if rule.number in self.exceeding]
            if self.exceeding
            else []
        )
        if outgrown or slow:
            self.follow_data([*dict.fromkeys((*outgrown, *slow))])
            self._context.installed = self._context.installed.slowed(
                {rule.number: self.exceeding[rule.number] for rule in slow}
            )
            self.exceeding.clear()

    def follow_data(self, rules: Sequence[InstalledRule]) -> None:
        """Make plans of some rules anew, for the rows that relations have now, with the indices
        that they need.
        """
        before = self._context.installed
        fresh = self._plan_anew(rules, rules)
        self.drop_unused(before)
        self.build_missing()
        for old, new in zip(rules, fresh, strict=True):
            for number, plan in enumerate(new.plans):
                if plan.sensors and not keep_alike(plan, old.plans[number]):
                    trees = {trie.index: self._context.tree(trie.index) for trie in plan.tries}
                    record(self._context, new, number, trees)

    def compare_with_expected(self, rule: InstalledRule, operations: int, rows: int) -> None:
        """Note a rule for which following changed rows takes far more operations than expected."""
        if (
            operations > max(EXCESS_FREE, EXCESS * rule.basis.expected * rows)
            and rule.basis.expected
        ):
            self.exceeding[rule.number] = operations / rows

    def build_missing(self) -> None:
        """Create the permuted indices of unchanged rules that were deferred, and no longer are."""
        installed = self._context.installed
        self._context.build_indices(
            index for name in installed.indexed for index in installed.indices[name]
        )

    def drop_unused(self, before: Installed) -> None:
        """Drop the trees that the rules `before` needed, and that those now do not."""
        if self._context.installed is not before:
            for name in sorted(before.derived_trees - self._context.installed.derived_trees):
                if name in self._context.txn:
                    self._context.txn.drop(name)

    def _plan_anew(
        self, outgrown: Sequence[InstalledRule], rules: Sequence[InstalledRule]
    ) -> Sequence[InstalledRule]:
        """Make plans for the sizes that relations have now for those of some rules that are
        outgrown; return all.
        """
        if outgrown:
            self._context.installed = planned_anew(
                self._context.installed, outgrown, Relations(self._context.txn), self._reason
            )
        for rule in outgrown:
            new = self._context.installed.numbered[rule.number]
            for number, plan in enumerate(rule.plans):
                if not keep_alike(plan, new.plans[number]):
                    self._drop_stale(rule, number)
        return [self._context.installed.numbered[rule.number] for rule in rules]

    def _drop_stale(self, rule: InstalledRule, number: int) -> None:
        """Drop the sensitivity indices of a plan that another one has replaced."""
        for name in rule.sensitivity_names(number):
            if name in self._context.txn:
                self._context.txn.drop(name)

    def _sizes(self, rule: InstalledRule) -> dict[str, int]:
        return {name: self._context.txn.tree(name).count for name in rule.basis.sizes}

    def _reason(self, rule: InstalledRule) -> str:
        """Return why a rule is planned anew."""
        if rule.number in self.exceeding:
            took, expected = self.exceeding[rule.number], rule.basis.expected
            reason = f"following a changed row took {took:,.0f} operations, where {expected:,.0f} were expected"
        else:
            reason = rule.basis.outgrown(self._sizes(rule)) or "it was requested"
        return f"{reason} (version {self._context.txn.base.version + 1})"
