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
from ivm.engine.regret import Regret
from ivm.errors import ConstructError
from ivm.memory import Budget, Stopped
from ivm.plan import costs
from ivm.plan.plan import permuted, tree_name
from ivm.plan.planner import MATCH, PROBE, chosen_of, keep_alike
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
        self.regret = Regret()

    def budget(self, rule: InstalledRule, number: int) -> Budget:
        """Return the operations that a plan may take before it is replaced, if there is another."""
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
                self._replace(rule, number, better(), f"{reason} ({self._version()})")
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
        if self.regret.due:
            installed = self._context.installed
            self._turn(
                [r for r in installed.rules if r.number in self.regret.due & installed.turning]
            )
        outgrown = self._context.installed.outgrown(names, self._context.txn.counts)
        exceeding = self.exceeding.keys() if self.exceeding else ()
        slow = [self._context.installed.numbered[n] for n in exceeding if self._may_slow(n)]
        if outgrown or slow:
            self.follow_data([*dict.fromkeys((*outgrown, *slow))])
            self._context.installed = self._context.installed.slowed(
                {rule.number: self.exceeding[rule.number] for rule in slow}
            )
        self.exceeding.clear()

    def _may_slow(self, number: int) -> bool:
        """Return whether a rule is still there, and has not just turned to matching."""
        rule = self._context.installed.numbered.get(number)
        return rule is not None and not rule.basis.turned

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

    def compare_with_expected(
        self, rule: InstalledRule, operations: int, rows: int, renewed: int = 0
    ) -> None:
        """Note a rule for which following changed rows takes far more operations than expected, and
        what one that chooses its method costs beyond the other.
        """
        may_turn = rule.number in self._context.installed.turning
        if may_turn and rule.matches:
            self.regret.matched(rule, operations, renewed, rows)
            return
        if operations <= EXCESS_FREE:
            return
        if may_turn and rows <= costs.LARGE_FROM:
            self.regret.probed(rule, operations)
        if rule.basis.expected and operations > EXCESS * rule.basis.expected * rows:
            self.exceeding[rule.number] = operations / rows

    def _turn(self, rules: Sequence[InstalledRule]) -> None:
        """Turn rules from probing to matching, or back."""
        for rule in rules:
            if rule.matches:
                self._turn_back(rule)
            else:
                self._turn_to_matching(rule)

    def _turn_back(self, rule: InstalledRule) -> None:
        """Let a rule probe, without its sensitivity indices."""
        self.regret.turn(rule)
        before = self._context.installed
        probing = replace(rule, basis=rule.basis._replace(turned=False))
        reason = f"matching cost more than recording anew ({self._version()})"
        self._context.installed = planned_anew(
            before.replacing({rule: probing}),
            [probing],
            Relations(self._context.txn),
            lambda _: reason,
            lambda _: PROBE,
        )
        for number in range(len(rule.plans)):
            self._drop_stale(rule, number)
        self.drop_unused(before)
        self.build_missing()

    def _turn_to_matching(self, rule: InstalledRule) -> None:
        """Let a rule match, once it has paid for recording, which may not cost more than that."""
        context, before = self._context, self._context.installed
        reason = f"probing cost more than recording sensitivity indices ({self._version()})"
        try:
            planned = planned_anew(
                before, [rule], Relations(context.txn), lambda _: reason, lambda _: MATCH
            )
        except ConstructError:  # too many columns for an index
            self.regret.turn(rule)
            return
        made = planned.numbered[rule.number]
        missing = {i for i in made.indices if permuted(i) and tree_name(i) not in context.txn}
        reading = costs.recording(sum(made.basis.sizes.values()), 0)
        reading += costs.building(sum(context.txn.tree(i.predicate).count for i in missing))
        estimate = costs.recording(0, sum(plan.cost for plan in made.plans))
        if made.matches and not self.regret.pays(rule, reading + estimate):
            return
        left = self.regret.turn(rule) - reading
        if not made.matches or left <= 0:
            return
        context.installed = planned
        operations = self._record(made, 2 * left / costs.RECORDING)
        if operations is None:
            context.installed = before
            self.drop_unused(planned)
            return
        basis = made.basis._replace(operations=operations, turned=True)
        context.installed = planned.replacing({made: replace(made, basis=basis)})
        self.drop_unused(before)
        self.build_missing()

    def _record(self, rule: InstalledRule, most: float) -> int | None:
        """Record all sensitivity indices of a rule; return the operations, or None, with no index
        left, if there are more than `most`.
        """
        context, taken = self._context, 0
        context.build_indices(rule.indices)
        try:
            for number, plan in enumerate(rule.plans):
                trees = {trie.index: context.tree(trie.index) for trie in plan.tries}
                budget = Budget(most - taken, _no_more)
                taken += record(context, rule, number, trees, budget=budget).operations
        except Stopped:
            for number in range(len(rule.plans)):
                self._drop_stale(rule, number)
            return None
        return taken

    def build_missing(self) -> None:
        """Create the permuted indices of unchanged rules that were deferred, and no longer are."""
        installed = self._context.installed
        self._context.build_indices(
            index for name in installed.indexed for index in installed.indices[name]
        )

    def drop_unused(self, before: Installed) -> None:
        """Drop the trees that the rules `before` needed, and that those now do not.

        An index that was deferred may have been built since then.
        """
        if self._context.installed is not before:
            needed = replace(before, deferred=frozenset()).derived_trees
            for name in sorted(needed - self._context.installed.derived_trees):
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
        return f"{reason} ({self._version()})"

    def _version(self) -> str:
        """Return the version that the transaction makes, for a reason."""
        return f"version {self._context.txn.base.version + 1}"


def _no_more(_spent: int) -> float:
    """Return that an evaluation may take no more operations than it took."""
    return 0.0
