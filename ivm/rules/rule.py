"""A rule as it runs, with its plans and what they were made for; and which indices rules read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from ivm.lang.ir import Rule
from ivm.lang.program import sketch_of
from ivm.plan.costs import Evaluated
from ivm.plan.plan import (
    Columns,
    Constants,
    Index,
    Plan,
    Ranges,
    Texts,
    Upkeep,
    Way,
    indices_of,
    permuted,
)
from ivm.plan.planner import Chosen, chosen_of
from ivm.plan.rewrite.ranges import Span

# plans are made anew once a relation has this many times the rows that they were made for, or fewer
SIZES_FACTOR = 8
SIZES_FREE = 100  # rows added to both before they are compared: changes of few rows do not count


class Basis(NamedTuple):
    """What the plans of a rule were made for: the rows that each relation had; and why they were
    made anew, if so.

    `operations` are those of the newest full evaluation, `expected` those of a changed row, by an
    estimate or as measured; 0 if none are known.  `estimated` and `found` have, for each plan, the
    rows of its steps: as they were estimated, and as that evaluation found them.  `turned` says that
    it follows changes by matching since probing had cost too much (engine/regret.py).
    """

    sizes: Mapping[str, int] = {}
    reason: str = ""
    operations: int = 0
    expected: float = 0.0
    estimated: Sequence[Sequence[float]] = ()
    found: Sequence[Sequence[int]] = ()
    turned: bool = False

    def outgrown(self, sizes: Mapping[str, int]) -> str:
        """Return the relation whose size changed by a factor, with both; "" if there is none."""
        for name, then in self.sizes.items():
            least, most = size_range(then)
            if not least < (now := sizes[name]) < most:
                return f"{name} had {then:,} rows, and has {now:,}"
        return ""


UNKNOWN = Basis()


def size_range(then: int) -> tuple[float, float]:
    """Return between which numbers of rows a relation still fits a plan made for `then`."""
    return (then + SIZES_FREE) / SIZES_FACTOR - SIZES_FREE, (
        then + SIZES_FREE
    ) * SIZES_FACTOR - SIZES_FREE


@dataclass(frozen=True, eq=False)
class InstalledRule:
    """A rule as it runs: its number in the store, its plans, one per conjunction, and their
    granularity.

    `searches`, one per conjunction of a recursive rule, find derivations of given rows. `rows_max`
    and `rounds_max` limit the stratum of a recursive rule; None for no limit.  A rule with a `span`
    is evaluated by ranges, one of texts (lang/ir.py) from a concat's state, and one that reads
    nothing has one row: these have no plans.
    """

    number: int
    definition: Rule
    plans: tuple[Plan, ...]
    granularity: int
    searches: tuple[Plan, ...] = ()
    rows_max: int | None = None
    rounds_max: int | None = None
    span: Span | None = None
    basis: Basis = UNKNOWN

    @cached_property
    def indices(self) -> list[Index]:
        """Every index that the rule reads, each once."""
        indices = [index for plan in (*self.plans, *self.searches) for index in indices_of(plan)]
        indices += self.span.indices if self.span else []
        return list(dict.fromkeys(indices))

    @property
    def matches(self) -> bool:
        """Whether changes are matched with sensitivity indices."""
        return any(plan.sensors for plan in self.plans)

    @property
    def way(self) -> type[Way]:
        """How a rule without plans is evaluated."""
        return Ranges if self.span else Texts if self.reads else Constants

    def sensitivity_names(self, number: int) -> list[str]:
        """Return the stored names of a plan's sensitivity indices, one for each sensor."""
        return [
            f"$sense:{self.number}.{number}.{sensor}"
            for sensor in range(len(self.plans[number].sensors))
        ]

    def slower(self, operations: float) -> "InstalledRule":
        """Return this, with at least some operations expected for a changed row."""
        return replace(
            self, basis=self.basis._replace(expected=max(operations, self.basis.expected))
        )

    def measured(self, operations: int, found: Mapping[int, Sequence[int]]) -> "InstalledRule":
        """Return this, evaluated by some operations, with the rows that its plans' steps found."""
        steps = tuple(found.get(number, ()) for number in range(len(self.plans)))
        return replace(self, basis=self.basis._replace(operations=operations, found=steps))

    @cached_property
    def listed(self) -> dict[int, int]:
        """How many bindings each plan, by its number, listed when the rule was last evaluated, if
        that is known.
        """
        rows = () if self.definition.aggregates else self.basis.found
        return {number: steps[-1] for number, steps in enumerate(rows) if steps}

    def evaluated(self, now: int, recorded: int, left: float = 1.0) -> Evaluated:
        """Return what its newest full evaluation says of another, which reads `now` rows."""
        basis = self.basis
        return Evaluated(
            then=sum(basis.sizes.values()),
            now=now,
            operations=basis.operations,
            measured=bool(basis.found or basis.operations),
            listed=sum(self.listed.values()),
            left=left,
            recorded=recorded,
        )

    @property
    def orders(self) -> list[Chosen]:
        """The key orders of its plans, to be saved."""
        return [chosen_of(plan) for plan in (*self.plans, *self.searches)]

    @cached_property
    def sketch(self) -> tuple[tuple[str, ...], ...]:
        """What equivalent rules have in common."""
        return sketch_of(self.definition)

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """The predicates in the rule's body."""
        return self.definition.reads

    @cached_property
    def writes(self) -> tuple[str, ...]:
        """The predicates in the rule's heads."""
        return self.definition.writes


class InstalledStratum(NamedTuple):
    """Rules that are evaluated together, and their recursive views, if there are some."""

    rules: tuple[InstalledRule, ...]
    recursive: frozenset[str]

    @property
    def reads(self) -> tuple[str, ...]:
        """The predicates in the rules' bodies, without the stratum's own views."""
        return tuple(
            dict.fromkeys(n for rule in self.rules for n in rule.reads if n not in self.recursive)
        )


def _defers(plan: Plan) -> bool:
    """Return whether indices for the probes of a plan are built when a change needs them."""
    return isinstance(plan.way, Columns) and plan.way.upkeep is not Upkeep.NEVER


class Uses(NamedTuple):
    """The indices of rules: those of probes beside plans in columns, those of anything else, and of
    which rules keep trees, the permuted ones by predicate.
    """

    probing: frozenset[Index] = frozenset()
    others: frozenset[Index] = frozenset()
    permuted: Mapping[str, tuple[Index, ...]] = {}

    @property
    def all_permuted(self) -> frozenset[Index]:
        """Every permuted index of which a rule keeps a tree."""
        return frozenset(chain(*self.permuted.values()))

    @property
    def deferrable(self) -> frozenset[Index]:
        """The permuted indices that only probes beside plans in columns read, so that they can
        be built later.
        """
        return frozenset(filter(permuted, self.probing - self.others))

    def adding(self, rules: Iterable[InstalledRule]) -> "Uses":
        """Return these, and what some more rules read."""
        probing, others = set[Index](), set[Index]()
        for rule in rules:
            others.update(rule.span.indices if rule.span else ())
            for plan in (*rule.plans, *rule.searches):
                (probing if _defers(plan) else others).update(indices_of(plan))
                # by which it is joined after large changes
                others.update(trie.index for trie in plan.tries)
        found = {**self.permuted}
        for index in filter(permuted, chain(*(rule.indices for rule in rules))):
            if index not in (known := found.get(index.predicate, ())):
                found[index.predicate] = (*known, index)
        return Uses(self.probing | probing, self.others | others, found)
