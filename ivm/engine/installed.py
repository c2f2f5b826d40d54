"""What is installed: blocks of rules by name, each rule with its plans and its trees in the store.

    block (a name, a text)  ──▶  Rule  ──▶  Plan per conjunction  ──▶  "$sense:rule.plan.sensor" per sensor
                                                                 ──▶  "$index:edge:1.0" per permuted index

The texts and the key orders chosen are properties of the store, so that opening it plans nothing anew.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ivm import lang
from ivm.errors import IvmError, UnknownViewError
from ivm.lang.ir import Predicate, Rule
from ivm.lang.traverse import reads, writes
from ivm.plan.constants import Encode
from ivm.plan.index import Index, permuted, tree_name
from ivm.plan.join_order import Distinct
from ivm.plan.plan import Plan, indices_of
from ivm.plan.planner import AUTO, Chosen, chosen_of, make_plans
from ivm.plan.rewrite.computed_keys import lift_computed
from ivm.plan.rewrite.existentials import lift_existentials
from ivm.plan.rewrite.failure import refusing
from ivm.plan.rewrite.negation import lift_negations
from ivm.views.aggregate_state import keeps_state, state_name
from ivm.views.heads import Head
from ivm.views.layouts import Layout, view_layout

PROPERTY = "ivm"
PLANNING = 2  # what a rule's trees and key orders are; another number where that changes
ALMOST = 1  # has the same, but for rules whose arithmetic may fail
T = TypeVar("T")
LayoutOf = Callable[[Predicate], Layout]  # how an extensional predicate is stored


@dataclass(frozen=True, eq=False)
class InstalledRule:
    """A rule as it runs: its number in the store, its plans, one per conjunction, and their granularity."""

    number: int
    rule: Rule
    plans: tuple[Plan, ...]
    granularity: int

    def sense_name(self, plan: int, sensor: int) -> str:
        """The name of a sensitivity index in the store."""
        return f"$sense:{self.number}.{plan}.{sensor}"

    @cached_property
    def reads(self) -> tuple[str, ...]:
        return reads(self.rule)

    @cached_property
    def writes(self) -> tuple[str, ...]:
        return writes(self.rule)


class StoredPredicate(NamedTuple):
    """How a predicate is stored: its layout, the indices that its own tree serves, then its permuted indices.

    `names` are those of its tree and of the trees beside it, and row t of places[T, C] says which columns tree t has.
    Index i is read from tree served[i]; the first is that over the keys alone.  `checked` says that a key of a function
    might come to two values.
    """

    layout: Layout
    indices: tuple[Index, ...]
    served: tuple[int, ...]
    names: tuple[str, ...]
    places: np.ndarray
    checked: bool

    def of_indices(self, of_trees: Sequence[T]) -> dict[Index, T]:
        """What each index has, given what each of the trees has."""
        return dict(zip(self.indices, map(of_trees.__getitem__, self.served), strict=True))


@dataclass(frozen=True)
class Block:
    """A text installed under a name, and what it added."""

    name: str
    text: str
    part: lang.Program
    rules: tuple[InstalledRule, ...]


@dataclass(frozen=True)
class Installed:
    """All blocks.  A value: installing or uninstalling makes another."""

    blocks: tuple[Block, ...] = ()
    program: lang.Program = field(default_factory=lambda: lang.NOTHING)
    layouts: Mapping[str, Layout] = field(default_factory=dict)

    @cached_property
    def rules(self) -> tuple[InstalledRule, ...]:
        """Every rule, behind those it reads from."""
        by_rule = {id(views.rule): views for block in self.blocks for views in block.rules}
        return tuple(by_rule[id(rule)] for rule in self.program.rules)

    @cached_property
    def indices(self) -> dict[str, list[Index]]:
        """The permuted indices that plans use, by predicate."""
        found: dict[str, list[Index]] = {}
        for views in self.rules:
            for plan in views.plans:
                for index in indices_of(plan):
                    known = found.setdefault(index.predicate, [])
                    if index not in known and permuted(index):
                        known.append(index)
        return found

    @cached_property
    def kept(self) -> dict[str, StoredPredicate]:
        """How each predicate is stored."""
        return {name: self._kept(name, layout) for name, layout in self.layouts.items()}

    def _kept(self, name: str, layout: Layout) -> StoredPredicate:
        predicate = self.program.predicates[name]
        own = tuple(Index(name, tuple(range(width))) for width in range(layout.keys, layout.visible + 1))
        beside = tuple(self.indices.get(name, ()))
        names = (name, *map(tree_name, beside))
        places = np.array([range(layout.visible), *(index_columns(index, layout) for index in beside)], np.int64)
        checked = predicate.value is not None and layout.keys != len(predicate.keys)
        served = (*[0] * len(own), *range(1, len(names)))
        return StoredPredicate(layout, own + beside, served, names, places, checked)

    @cached_property
    def heads(self) -> dict[Plan, Head]:
        """What each plan's bindings do to the views."""
        return {plan: Head(v.rule, plan, self.layouts) for v in self.rules for plan in v.plans}

    @cached_property
    def keeps(self) -> frozenset[str]:
        """The names of all views and trees that follow from the extensional predicates."""
        return self.kept_by(self.rules)

    def kept_by(self, rules: Iterable[InstalledRule]) -> frozenset[str]:
        """The names of the views, permuted and sensitivity indices and trees kept apart of some rules."""
        views = {name for one in rules for name in one.writes}
        plans = [(one, p, plan) for one in rules for p, plan in enumerate(one.plans)]
        apart = {state_name(name) for name in views if keeps_state(self.layouts[name])}
        senses = {one.sense_name(p, s) for one, p, plan in plans for s in range(len(plan.sensors))}
        indices = {tree_name(index) for *_, plan in plans for index in indices_of(plan) if permuted(index)}
        return frozenset(views | apart | senses | indices)

    @cached_property
    def fitting(self) -> dict[str, object]:
        """The `catalog` that was last found to hold all trees, in their shapes (see engine.py)."""
        return {}

    @cached_property
    def schedules(self) -> dict[frozenset[str], Any]:
        """The schedules of edits that were asked for (see schedule.py), by the predicates edited."""
        return {}

    def predicate(self, name: str) -> Predicate:
        """What is declared or derived under a name.  Raises UnknownViewError."""
        predicate = self.program.predicates.get(name)
        if predicate is None:
            known = ", ".join(sorted(n for n in self.program.predicates if "$" not in n)) or "none"
            raise UnknownViewError(f"there is no relation or view {name!r}; there is {known}")
        return predicate

    def block(self, name: str) -> Block | None:
        return next((b for b in self.blocks if b.name == name), None)

    def including(
        self, name: str, text: str, distinct: Distinct, encode: Encode, layout_of: LayoutOf,
        orders: list | None = None, number: int | None = None, granularity: int = 1, maintenance: str = AUTO,
    ) -> "Installed":  # fmt: skip
        """With one more block; `orders` and `number` as saved, or None to plan now.  Raises RuleError."""
        part = lang.compile(text, self.program, source=name)
        for lift in (lift_existentials, lift_computed, lift_negations):
            part = part.lifted(lift)
        part = refusing(part)
        program = self.program.including(part)
        predicates = dict(program.predicates)
        layouts = dict(self.layouts)
        layouts |= {n: layout_of(p) for n, p in part.predicates.items() if p.extensional}
        first = self.next_number if number is None else number
        rules: list[InstalledRule] = []
        for i, rule in enumerate(part.rules):
            stored = {n: layout.keys for n, layout in layouts.items()}
            plans = make_plans(
                rule, predicates, stored, distinct, encode, orders[i] if orders else (), maintenance
            )  # fmt: skip
            rules.append(InstalledRule(first + i, rule, plans, granularity))
            for view in writes(rule):
                writers = [(v.rule, v.plans) for v in rules if view in v.writes]
                layouts[view] = view_layout(predicates[view], writers)
        return Installed((*self.blocks, Block(name, text, part, tuple(rules))), program, layouts)

    def excluding(self, name: str) -> "Installed":
        """Without a block.  Raises UninstallError while other blocks read its views."""
        block = self.block(name)
        assert block is not None
        program = self.program.excluding(block.part)
        layouts = {n: layout for n, layout in self.layouts.items() if n in program.predicates}
        return Installed(tuple(b for b in self.blocks if b is not block), program, layouts)

    @property
    def next_number(self) -> int:
        return 1 + max((v.number for b in self.blocks for v in b.rules), default=-1)

    def save(self) -> str:
        """All that opening needs, as JSON."""
        blocks = [
            {
                "name": b.name,
                "text": b.text,
                "number": b.rules[0].number if b.rules else self.next_number,
                "granularity": b.rules[0].granularity if b.rules else 1,
                "orders": [[chosen_of(plan) for plan in v.plans] for v in b.rules],
            }
            for b in self.blocks
        ]
        return json.dumps({"planning": PLANNING, "blocks": blocks})

    @classmethod
    def load(cls, saved: str, encode: Encode, layout_of: LayoutOf) -> "Installed":
        """What `save` wrote, or the release before did if its plans are the same.  Raises IvmError for other plans."""
        found = json.loads(saved)
        planning = found["planning"] if isinstance(found, dict) else None
        if planning == PLANNING:
            return cls._loaded(found["blocks"], encode, layout_of)
        if planning == ALMOST:
            with suppress(IndexError, ValueError, AssertionError):  # there are more rules now than orders were saved
                installed = cls._loaded(found["blocks"], encode, layout_of)
                saved_plans = [len(rule) for block in found["blocks"] for rule in block["orders"]]
                if saved_plans == [len(one.plans) for one in installed.rules]:
                    return installed
        raise IvmError(
            "another release installed rules in this store, and what it keeps for them is not what this one would; "
            "`pagestore dump --relation` and `restore` take the facts to a new store, and `ivm install` the rules"
        )

    @classmethod
    def _loaded(cls, blocks: list[dict], encode: Encode, layout_of: LayoutOf) -> "Installed":
        installed = cls()
        for block in blocks:
            installed = installed.including(
                block["name"], block["text"], _no_estimates, encode, layout_of,
                [[Chosen(*o) for o in rule] for rule in block["orders"]], block["number"], block["granularity"],
            )  # fmt: skip
        return installed


def index_columns(index: Index, layout: Layout) -> list[int]:
    """Columns of the relation in the order of an index: its keys, then the values left."""
    return [*index.order, *(c for c in range(layout.visible) if c not in index.order)]


def _no_estimates(predicate: str, columns: tuple[int, ...]) -> float:
    raise AssertionError("a saved plan needs no estimates")
