"""The steps of a schedule: which trees take edits and which plans are maintained, one after the
other.

edge ──▶ flush edge ──▶ follow triangle(x, y, z) <- edge(x, y), ... ──▶ flush triangle ──▶ ...
"""

from collections.abc import Iterable
from typing import NamedTuple

from ivm.plan.plan import Index, Plan, Scan
from ivm.rules.installed import Installed
from ivm.rules.rule import InstalledRule, InstalledStratum


class Flush(NamedTuple):
    """Apply the edits in the queue of a predicate to its trees."""

    name: str


class FollowPlan(NamedTuple):
    """Maintain the heads of one plan of a rule after changes in its body."""

    rule: InstalledRule
    number: int

    @property
    def rules(self) -> tuple[InstalledRule, ...]:
        """The rules that the step maintains."""
        return (self.rule,)

    @property
    def plan(self) -> Plan:
        """The plan that is followed."""
        return self.rule.plans[self.number]

    @property
    def scanned(self) -> Index | None:
        """The relation that the plan scans; None if it does not scan one."""
        return self.plan.tries[0].index if isinstance(self.plan.way, Scan) else None


class FollowStratum(NamedTuple):
    """Find out how the views of a recursive stratum change after changes of relations that it
    reads.

    The kernel leaves edits in their queues, which are then flushed; in Python, they are flushed
    already.
    """

    stratum: InstalledStratum

    @property
    def rules(self) -> tuple[InstalledRule, ...]:
        """The rules that the step maintains."""
        return self.stratum.rules


class FollowRule(NamedTuple):
    """Maintain the view of a rule without plans: of ranges, or of the texts of a concat."""

    rule: InstalledRule

    @property
    def rules(self) -> tuple[InstalledRule, ...]:
        """The rules that the step maintains."""
        return (self.rule,)


Step = Flush | FollowPlan | FollowStratum | FollowRule


def rules_below(installed: Installed, names: Iterable[str]) -> list[InstalledRule]:
    """Return the rules that predicates follow from, directly or not, in dependency order."""
    names_wanted, strata = {*names}, list[InstalledStratum]()
    for stratum in reversed(installed.strata):
        if any(names_wanted.intersection(rule.writes) for rule in stratum.rules):
            strata.append(stratum)
            names_wanted.update(stratum.reads)
    return [rule for stratum in reversed(strata) for rule in stratum.rules]


def steps_of(installed: Installed, names: frozenset[str]) -> list[Step]:
    """Return the steps for edits of some predicates: each is final before it is read."""
    steps: list[Step] = []
    waiting, finished = dict.fromkeys(sorted(names)), set[str]()
    for stratum in installed.strata:
        reads = stratum.reads
        due = [name for name in reads if name in waiting]
        if not due and finished.isdisjoint(reads):
            continue
        steps += map(Flush, due)
        finished.update(due, stratum.recursive)
        for name in (*due, *stratum.recursive):
            waiting.pop(name, None)
        if stratum.recursive:
            steps += [FollowStratum(stratum), *map(Flush, sorted(stratum.recursive))]
            continue
        (rule,) = stratum.rules
        steps += [FollowPlan(rule, number) for number in range(len(rule.plans))] or [
            FollowRule(rule)
        ]
        waiting |= {name: None for name in rule.writes if name not in finished}
    return [*steps, *map(Flush, waiting)]
