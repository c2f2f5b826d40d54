"""Plans follow the data: rules get other plans when relations have outgrown the sizes that theirs were made for.

    edge of 0 rows ──▶ a plan ──▶ edge of 20,000 rows ──▶ another plan, with the indices that it needs

A rule that is about to be evaluated in full is planned for what its relations have then; others in the next transaction
that reaches them.  So are rules for which following a change took far more operations than expected.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from ivm.engine.compile import planned_anew
from ivm.engine.fill import Filler
from ivm.engine.installed import Installed, InstalledRule
from ivm.engine.relations import Relations
from ivm.plan.planner import keep_alike

# A rule is planned anew in the next transaction if following a change took EXCESS times the operations expected, and
# more than EXCESS_FREE, which take some milliseconds.
EXCESS = 10
EXCESS_FREE = 50_000


@dataclass
class PlanningFiller(Filler):
    """A Filler after whose evaluations `installed` may have other plans for the rules that it had.

    `exceeding` maps the number of a rule to the operations that a changed row took, if these were far too many.
    """

    exceeding: dict[int, float] = field(default_factory=dict)
    _took: Counter[int] = field(default_factory=Counter)  # operations by the number of a rule

    def fill(self, rules: Iterable[InstalledRule]) -> None:
        """Evaluate rules whose views are empty, in dependency order, each by a plan for the sizes of what it reads."""
        self._took.clear()
        super().fill(rules)
        self.installed = self.installed.measuring(self._took)

    def note_operations(self, rule: InstalledRule, operations: int) -> None:
        """Count operations that evaluated a rule."""
        super().note_operations(rule, operations)
        self._took[rule.number] += operations

    def _fit(self, rules: Sequence[InstalledRule]) -> Sequence[InstalledRule]:
        return self._plan_anew([rule for rule in rules if rule.basis.outgrown(self._sizes(rule))], rules)

    def follow_sizes(self, names: frozenset[str]) -> None:
        """Make plans anew of rules reached from some predicates, if those are for other sizes than relations have, and
        of those for which changes took too many operations in the transaction before.
        """
        outgrown = self.installed.outgrown(names, self.txn.counts)
        slow = [rule for rule in self.installed.rules if rule.number in self.exceeding] if self.exceeding else []
        if outgrown or slow:
            self.follow_data([*dict.fromkeys((*outgrown, *slow))])
            self.installed = self.installed.slowed({rule.number: self.exceeding[rule.number] for rule in slow})
            self.exceeding.clear()

    def follow_data(self, rules: Sequence[InstalledRule]) -> None:
        """Make plans of some rules anew, for the rows that relations have now, with the indices that they need."""
        before = self.installed
        fresh = self._plan_anew(rules, rules)
        self.drop_unused(before)
        self.build_missing()
        for old, new in zip(rules, fresh, strict=True):
            for number, plan in enumerate(new.plans):
                if plan.sensors and not keep_alike(plan, old.plans[number]):
                    trees = {trie.index: self.tree(trie.index) for trie in plan.tries}
                    self._evaluate_and_record(new, number, trees)

    def compare_with_expected(self, rule: InstalledRule, operations: int, rows: int) -> None:
        """Note a rule for which following changed rows takes far more operations than expected."""
        if operations > max(EXCESS_FREE, EXCESS * rule.basis.expected * rows) and rule.basis.expected:
            self.exceeding[rule.number] = operations / rows

    def build_missing(self) -> None:
        """Create the permuted indices of unchanged rules that were deferred, and no longer are."""
        self.build_indices(index for indices in self.installed.indices.values() for index in indices)

    def drop_unused(self, before: Installed) -> None:
        """Drop the trees that the rules `before` needed, and that those now do not."""
        if self.installed is not before:
            for name in sorted(before.derived_trees - self.installed.derived_trees):
                if name in self.txn:
                    self.txn.drop(name)

    def _plan_anew(self, outgrown: Sequence[InstalledRule], rules: Sequence[InstalledRule]) -> Sequence[InstalledRule]:
        """Make plans for the sizes that relations have now for those of some rules that are outgrown; return all."""
        if outgrown:
            self.installed = planned_anew(self.installed, outgrown, Relations(self.txn), self._reason)
        for rule in outgrown:
            new = self.installed.numbered[rule.number]
            stale = [n for n, plan in enumerate(rule.plans) if not keep_alike(plan, new.plans[n])]
            for name in chain(*map(rule.sensitivity_names, stale)):
                if name in self.txn:
                    self.txn.drop(name)
        return [self.installed.numbered[rule.number] for rule in rules]

    def _sizes(self, rule: InstalledRule) -> dict[str, int]:
        return {name: self.txn.tree(name).count for name in rule.basis.sizes}

    def _reason(self, rule: InstalledRule) -> str:
        """Return why a rule is planned anew."""
        if rule.number in self.exceeding:
            took, expected = self.exceeding[rule.number], rule.basis.expected
            reason = f"following a changed row took {took:,.0f} operations, where {expected:,.0f} were expected"
        else:
            reason = rule.basis.outgrown(self._sizes(rule)) or "it was requested"
        return f"{reason} (version {self.txn.base.version + 1})"
