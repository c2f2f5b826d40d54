"""Installed rules: blocks of them by name, each rule with its plans and its trees in the store.

    block (a name, a text)  ──▶  Rule  ──▶  Plan per conjunction  ──▶  "$sense:rule.plan.sensor" per sensor
                                                                 ──▶  "$index:edge:1.0" per permuted index

The store's properties hold the texts and the chosen key orders, so opening a store does not plan again.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ivm import lang
from ivm.errors import ConstructError, EditError, IvmError, RedefinitionError, UnknownViewError
from ivm.lang.ir import Predicate, Rule, reads, writes
from ivm.lang.nulls import with_nullable_helpers
from ivm.lang.program import recursive_names, strata_of
from ivm.plan.expression import Encode
from ivm.plan.join_order import Distinct
from ivm.plan.plan import SCANNED, Index, Plan, indices_of, permuted, tree_name
from ivm.plan.planner import AUTO, ONCE, Chosen, chosen_of, make_plans, make_recursive_plans
from ivm.plan.rewrite.helpers import lift_computed, lift_existentials, lift_negations, lift_texts, refusing
from ivm.plan.rewrite.levels import lift_levels
from ivm.plan.rewrite.ranges import Span, lift_ranges, pays_once, span_of
from ivm.views.heads import Head
from ivm.views.layouts import RANGED, TEXT, Layout, ranked_layout, state_names, view_layout
from pagestore.host import Spec

PROPERTY = "ivm"
PLANNING = 7  # the version of how a rule becomes trees and key orders
PLANNING_WITHOUT_SCANS = 6  # the same, but a body of one relation has a key order and permuted indices as any other
PLANNING_WITHOUT_TEXTS = 5  # as 6, and no rule reads the text of a concat
PLANNING_WITHOUT_COLUMNS = 4  # as 5, and each column of a row that a rule names separately has its own atom
PLANNING_WITHOUT_LEVELS = 3  # as 4, and groups of several levels of detail share no state
PLANNING_WITHOUT_RANGES = 2  # as 3, and no rule is evaluated by ranges
PLANNING_BEFORE = 1  # the version before, which differs only for rules whose arithmetic may fail
REMEDY = "`pagestore dump --relation` and `restore` take the facts to a new store, and `ivm install` the rules"
T = TypeVar("T")
LayoutOf = Callable[[Predicate], Layout | None]  # how an extensional predicate is stored; None if it does not match
# Maps (place, rule, layouts, its stratum's views if recursive) to the rule's known key orders; () to plan it
OrdersOf = Callable[[int, Rule, Mapping[str, Layout], frozenset[str] | None], Sequence[Chosen]]


@dataclass(frozen=True, eq=False)
class InstalledRule:
    """A rule as it runs: its number in the store, its plans, one per conjunction, and their granularity.

    `searches`, one per conjunction of a recursive rule, find derivations of given rows. `rows_max` and `rounds_max`
    limit the stratum of a recursive rule; None for no limit.  A rule with a `span` is evaluated by ranges, and one of
    texts (lang/ir.py) from a concat's state: both have no plans.
    """

    number: int
    definition: Rule
    plans: tuple[Plan, ...]
    granularity: int
    searches: tuple[Plan, ...] = ()
    rows_max: int | None = None
    rounds_max: int | None = None
    span: Span | None = None

    @cached_property
    def indices(self) -> list[Index]:
        """Every index that the rule reads, each once."""
        found = [index for plan in (*self.plans, *self.searches) for index in indices_of(plan)]
        found += self.span.indices if self.span else []
        return list(dict.fromkeys(found))

    def sensitivity_names(self, number: int) -> list[str]:
        """Return the names in the store of a plan's sensitivity indices, one for each of its sensors."""
        return [f"$sense:{self.number}.{number}.{sensor}" for sensor in range(len(self.plans[number].sensors))]

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """The predicates in the rule's body."""
        return reads(self.definition)

    @cached_property
    def writes(self) -> tuple[str, ...]:
        """The predicates in the rule's heads."""
        return writes(self.definition)


class InstalledStratum(NamedTuple):
    """Rules that are evaluated together, and their recursive views; none for a single non-recursive rule."""

    rules: tuple[InstalledRule, ...]
    recursive: frozenset[str]

    @property
    def reads(self) -> tuple[str, ...]:
        """The predicates in the rules' bodies, without the stratum's own views."""
        return tuple(dict.fromkeys(n for rule in self.rules for n in rule.reads if n not in self.recursive))


class StoredPredicate(NamedTuple):
    """How a predicate is stored: its layout, the indices that its own tree serves, then its permuted indices.

    `names` are the names of its own tree and of its permuted indices' trees; row t of places[T, C] begins with the
    columns of tree t. Index i is read from tree served[i]; the first index is over the keys alone. `checked` means that
    a key of a function could get two values, and is checked.
    """

    layout: Layout
    indices: tuple[Index, ...]
    served: tuple[int, ...]
    names: tuple[str, ...]
    places: np.ndarray
    checked: bool

    def of_indices(self, of_trees: Sequence[T]) -> dict[Index, T]:
        """Map each index to the item of its tree, given one item for each tree."""
        return dict(zip(self.indices, map(of_trees.__getitem__, self.served), strict=True))


@dataclass(frozen=True)
class Block:
    """A text installed under a name, and what it added."""

    name: str
    text: str
    part: lang.Program
    rules: tuple[InstalledRule, ...]
    limits: tuple[int | None, int | None] = (None, None)

    @property
    def rewrites(self) -> "Rewrites":
        """Which rewrites change what the rules store."""
        levels = any(rule.definition.levels for rule in self.rules)
        texts = any(rule.definition.texts for rule in self.rules)
        scans = any(plan.choice == SCANNED or plan.in_columns for rule in self.rules for plan in rule.plans)
        return Rewrites(any(rule.span for rule in self.rules), levels, self.part.merged, texts, scans)


class Rewrites(NamedTuple):
    """Rewrites that change what rules store, so that they are not used for rules that an earlier release installed.

    `ranges` evaluates aggregates over ranges by range, unless another maintenance is requested; `levels` lets
    aggregates of one body share states though their groups differ; `columns` reads the columns of one row by one atom;
    `texts` reads the texts of concats, which earlier releases refuse; `scans` reads a body of one relation in the order
    that the relation is stored in, and evaluates joins by columns.
    """

    ranges: bool = True
    levels: bool = True
    columns: bool = True
    texts: bool = True
    scans: bool = True


ALL = Rewrites()


@dataclass(frozen=True)
class Installed:
    """All installed blocks. Immutable: installing or uninstalling returns a new value.

    `deferred` are permuted indices that no change has needed so far: they are built in the transaction that does.
    """

    blocks: tuple[Block, ...] = ()
    program: lang.Program = field(default_factory=lambda: lang.NOTHING)
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    deferred: frozenset[Index] = frozenset()

    @cached_property
    def rules(self) -> tuple[InstalledRule, ...]:
        """Every rule, after the rules whose views it reads."""
        installed = {id(rule.definition): rule for block in self.blocks for rule in block.rules}
        return tuple(installed[id(definition)] for definition in self.program.rules)

    @cached_property
    def strata(self) -> tuple[InstalledStratum, ...]:
        """All rules by stratum, each stratum after those that it reads."""
        installed = {id(rule.definition): rule for rule in self.rules}
        return tuple(
            InstalledStratum(tuple(installed[id(definition)] for definition in rules), recursive)
            for rules, recursive in strata_of(self.program.rules)
        )

    @cached_property
    def recursion(self) -> dict[InstalledRule, InstalledStratum]:
        """The stratum of each rule whose stratum is recursive."""
        return {rule: stratum for stratum in self.strata if stratum.recursive for rule in stratum.rules}

    @cached_property
    def indices(self) -> dict[str, list[Index]]:
        """The permuted indices that plans use, by predicate."""
        found: dict[str, list[Index]] = {}
        for rule in self.rules:
            for index in rule.indices:
                known = found.setdefault(index.predicate, [])
                if index not in known and permuted(index) and index not in self.deferred:
                    known.append(index)
        return found

    def needed_for(self, names: Iterable[str]) -> frozenset[Index]:
        """Return the deferred indices with which changes of some predicates are followed.  O(rules)."""
        found, reached = set[Index](), {*names}
        if not self.deferred:
            return frozenset()
        for stratum in self.strata:
            for rule in stratum.rules if not reached.isdisjoint(stratum.reads) else ():
                reached.update(rule.writes)
                for plan in rule.plans:
                    for trie, probe in zip(plan.tries, plan.probes, strict=False):
                        if trie.index.predicate in reached:
                            found.update(one.index for one in probe.tries)
        return self.deferred & found

    def _deferring(self, deferred: Iterable[Index]) -> "Installed":
        """Return this with those of some indices deferred that only the probes of plans in columns read."""
        probing, others = set[Index](), set[Index]()
        for rule in self.rules:
            others.update(rule.span.indices if rule.span else ())
            for plan in (*rule.plans, *rule.searches):
                (probing if plan.in_columns and not plan.once else others).update(indices_of(plan))
                others.update(trie.index for trie in plan.tries)  # by which it is joined after large changes
        return replace(self, deferred=frozenset(filter(permuted, probing - others)).intersection(deferred))

    @cached_property
    def scans(self) -> dict[str, set[str]]:
        """The scans that fold ranges, by predicate, as users name them."""
        found: dict[str, set[str]] = {}
        for rule in self.rules:
            if rule.span and rule.span.scan:
                found.setdefault(rule.span.measured.predicate, set()).add(rule.span.scan)
        return found

    def is_followed(self, name: str, spec: Spec) -> bool:
        """Return whether the relation of a name fits its declaration; one that no rule reads may have been replaced."""
        layout = self.layouts.get(name)
        return layout is not None and layout.keys == spec.keys and layout.visible <= spec.columns

    def stores(self, name: str) -> bool:
        """Return whether evaluating a view by itself needs trees, which only a transaction can create."""
        keeps = name in self.layouts and (self.layouts[name].fold or self.layouts[name].kind in (RANGED, TEXT))
        return bool(keeps) or any(name in rule.writes for rule in self.recursion)

    @cached_property
    def stored(self) -> dict[str, StoredPredicate]:
        """How each predicate is stored."""
        return {name: self._stored_predicate(name, layout) for name, layout in self.layouts.items()}

    def _stored_predicate(self, name: str, layout: Layout) -> StoredPredicate:
        predicate = self.program.predicates[name]
        own = tuple(Index(name, tuple(range(width))) for width in range(layout.keys, layout.visible + 1))
        others = tuple(self.indices.get(name, ()))
        names = (name, *map(tree_name, others))
        places = np.zeros((len(names), layout.visible), np.int64)
        for place, columns in enumerate([range(layout.visible), *(index_columns(index, layout) for index in others)]):
            places[place, : len(columns)] = columns
        checked = predicate.value is not None and layout.keys != len(predicate.keys)
        served = (*[0] * len(own), *range(1, len(names)))
        return StoredPredicate(layout, own + others, served, names, places, checked)

    @cached_property
    def heads(self) -> dict[Plan, Head]:
        """How the bindings of each plan become edits of views."""
        plans = ((rule, plan) for rule in self.rules for plan in (*rule.plans, *rule.searches))
        return {plan: Head(rule.definition, plan, self.layouts) for rule, plan in plans}

    @cached_property
    def derived_trees(self) -> frozenset[str]:
        """The names of all trees that follow from the extensional predicates: views, their indices and state."""
        return self.derived_by(self.rules)

    def derived_by(self, rules: Iterable[InstalledRule]) -> frozenset[str]:
        """Return the trees that some rules need, by name: views, aggregate state, permuted and sensitivity indices."""
        views = {name for rule in rules for name in rule.writes}
        plans = [(rule, number, plan) for rule in rules for number, plan in enumerate(rule.plans)]
        state = {fold.state.name for name in views if (fold := self.layouts[name].fold)}
        sensitivity = {name for rule, number, _ in plans for name in rule.sensitivity_names(number)}
        read = {index for rule in rules for index in rule.indices}
        indices = {tree_name(index) for index in read - self.deferred if permuted(index)}
        return frozenset(views | state | sensitivity | indices)

    @cached_property
    def checked_catalog(self) -> dict[str, object]:
        """The `catalog` in which engine.py last found all trees in their shapes."""
        return {}

    @cached_property
    def schedules(self) -> dict[frozenset[str], Any]:
        """A cache of the schedules that schedule.py made, by the predicates edited."""
        return {}

    def predicate(self, name: str) -> Predicate:
        """Return the relation, function or view of a name.  Raises UnknownViewError."""
        predicate = self.program.predicates.get(name)
        if predicate is None:
            known = ", ".join(sorted(n for n in self.program.predicates if "$" not in n)) or "none"
            raise UnknownViewError(f"there is no relation or view {name!r}; there is {known}")
        return predicate

    def block(self, name: str) -> Block | None:
        """Return the block of a name; None if it is not installed."""
        return next((b for b in self.blocks if b.name == name), None)

    def including(
        self, name: str, text: str, distinct: Distinct, encode: Encode, layout_of: LayoutOf,
        orders: OrdersOf = lambda *_: (), number: int | None = None, granularity: int = 1,
        maintenance: str = AUTO, limits: tuple[int | None, int | None] = (None, None), part: lang.Program | None = None,
        rewrites: Rewrites = ALL,
    ) -> "Installed":  # fmt: skip
        """Return this with one more block, its rules numbered from `number` or the next free one.  Raises RuleError.

        `orders` gives key orders that are known already and need no estimates. `limits` are the most rows
        and rounds of a recursion, `part` is the checked text, if it is known.
        """
        part = part or lang.compile(text, self.program, name, rewrites.columns)
        layouts = dict(self.layouts)
        stored = {n: layout_of(p) for n, p in part.predicates.items() if p.extensional}
        layouts |= {n: layout for n, layout in stored.items() if layout}
        part = self._rewritten(part, layouts, distinct, encode, maintenance, rewrites)
        program = self.program.including(part := with_nullable_helpers(part, self.program.predicates))
        recursive = recursive_names(part.rules)
        predicates = dict(program.predicates)
        for view in recursive:
            layouts[view] = ranked_layout(predicates[view], [rule for rule in part.rules if view in writes(rule)])
        first = self.next_number if number is None else number
        rules: list[InstalledRule] = []
        for i, definition in enumerate(part.rules):
            _refuse_unlike(definition, predicates, layouts)
            stored_keys = {n: layout.keys for n, layout in layouts.items()}
            own = next((recursive[view] for view in writes(definition) if view in recursive), None)
            saved = orders(i, definition, layouts, own)
            if own:
                _refuse_failing(definition)
                planned = make_recursive_plans(
                    definition, predicates, stored_keys, distinct, encode, own, saved, maintenance
                )
                rules.append(
                    InstalledRule(first + i, definition, planned.plans, granularity, planned.searches, *limits)
                )
                continue
            if definition.range or definition.texts:
                widths = {n: (layouts[n].keys, layouts[n].visible) for n in reads(definition)}
                span = span_of(definition, widths) if definition.range else None
                rules.append(InstalledRule(first + i, definition, (), granularity, span=span))
                layouts[definition.heads[0].predicate] = view_layout(
                    predicates[definition.heads[0].predicate], [(definition, ())]
                )
                continue
            plans = make_plans(
                definition, predicates, stored_keys, distinct, encode, saved, maintenance, rewrites.scans
            )
            rules.append(InstalledRule(first + i, definition, plans, granularity))
            for view in writes(definition):
                writers = [(rule.definition, rule.plans) for rule in rules if view in rule.writes]
                layouts[view] = view_layout(predicates[view], writers)
        built = {index for rule in self.rules for index in rule.indices} - self.deferred
        made = Installed((*self.blocks, Block(name, text, part, tuple(rules), limits)), program, layouts)
        return made._deferring({index for rule in made.rules for index in rule.indices} - built)

    def _rewritten(
        self, part: lang.Program, layouts: Mapping[str, Layout], distinct: Distinct, encode: Encode,
        maintenance: str, rewrites: Rewrites,
    ) -> lang.Program:  # fmt: skip
        """Return a part with helper views for all that the join does not take by itself (plan/rewrite)."""
        known = {**self.program.predicates, **part.predicates}
        part = part.lifted(partial(lift_texts, known=known, helpers={}))
        recursive = recursive_names(part.rules)
        if rewrites.ranges and maintenance in (AUTO, ONCE):
            keys_of = partial(_keys_of, {**self.program.predicates, **part.predicates}, layouts)
            pays = partial(pays_once, distinct) if maintenance == ONCE else None
            lift = partial(lift_ranges, keys_of=keys_of, encode=encode, recursive=recursive, pays=pays)
            part = part.lifted(lift)
        if rewrites.levels and maintenance != ONCE:
            part = lift_levels(part, recursive, state_names)
        part = part.lifted(lift_existentials).lifted(lift_computed)
        return refusing(part.lifted(partial(lift_negations, recursive=recursive_names(part.rules))))

    def excluding(self, *blocks: Block) -> "Installed":
        """Return this without some blocks, given in order.  Raises UninstallError if others read their predicates."""
        program = self.program
        for block in reversed(blocks):
            program = program.excluding(block.part)
        layouts = {n: layout for n, layout in self.layouts.items() if n in program.predicates}
        left = Installed(tuple(b for b in self.blocks if b not in blocks), program, layouts)
        return left._deferring(self.deferred)

    @property
    def next_number(self) -> int:
        """The number for the next rule, greater than all numbers in use."""
        return 1 + max((v.number for b in self.blocks for v in b.rules), default=-1)

    def save(self) -> str:
        """Return everything that opening needs, as JSON."""
        blocks = [
            {
                "name": b.name,
                "text": b.text,
                "number": b.rules[0].number if b.rules else self.next_number,
                "granularity": b.rules[0].granularity if b.rules else 1,
                **({"limits": b.limits} if any(b.limits) else {}),
                **{name: True for name, used in b.rewrites._asdict().items() if used},
                "orders": [[chosen_of(plan) for plan in (*v.plans, *v.searches)] for v in b.rules],
            }
            for b in self.blocks
        ]
        used = [n for b in self.blocks for n, one in enumerate(b.rewrites, 1) if one]
        planning = PLANNING_WITHOUT_RANGES + max(used, default=0)
        deferred = {"deferred": sorted(self.deferred)} if self.deferred else {}
        return json.dumps({"planning": planning, "blocks": blocks, **deferred})

    @classmethod
    def load(cls, saved: str, encode: Encode, layout_of: LayoutOf) -> "Installed":
        """Read what `save` wrote, or an earlier release if its plans are the same; else raise IvmError."""
        try:
            found = json.loads(saved)
            planning = found["planning"] if isinstance(found, dict) else None
            if planning in range(PLANNING_WITHOUT_RANGES, PLANNING + 1):
                deferred = {Index(name, (*order,)) for name, order in found.get("deferred", ())}
                return cls._loaded(found["blocks"], encode, layout_of)._deferring(deferred)
        except IvmError:
            raise
        except (LookupError, ValueError, TypeError, AttributeError, AssertionError, RecursionError) as error:
            said = f"property {PROPERTY!r} says which rules are installed, and does not read ({error!r}): {REMEDY}"
            raise IvmError(said) from None
        if planning == PLANNING_BEFORE:
            with suppress(IndexError, ValueError, AssertionError):  # raised where rules have more plans than were saved
                installed = cls._loaded(found["blocks"], encode, layout_of)
                saved_plans = [len(rule) for block in found["blocks"] for rule in block["orders"]]
                if saved_plans == [len(rule.plans) for rule in installed.rules]:
                    return installed
        raise IvmError(
            f"another release installed rules in this store, and what it stores for them is not what this one would; "
            f"{REMEDY}"
        )

    @classmethod
    def _loaded(cls, blocks: list[dict[str, Any]], encode: Encode, layout_of: LayoutOf) -> "Installed":
        def lenient(predicate: Predicate) -> Layout | None:
            """Return None for a relation that does not fit: one that no rule read may have been replaced since."""
            with suppress(EditError):
                return layout_of(predicate)
            return None

        installed = cls()
        for block in blocks:
            orders = [[Chosen(*o) for o in rule] for rule in block["orders"]]
            installed = installed.including(
                block["name"], block["text"], _no_estimates, encode, lenient,
                lambda i, *_, orders=orders: orders[i], block["number"], block["granularity"],
                limits=tuple(block.get("limits", (None, None))),
                rewrites=Rewrites(*(block.get(name, False) for name in Rewrites._fields)),
            )  # fmt: skip
        return installed


def refuse_foreign_writers(blocks: Iterable[Block], part: lang.Program) -> None:
    """Raise RedefinitionError if rules derive a predicate of another block."""
    for rule in part.rules:
        for head in rule.heads:
            owner = next((b.name for b in blocks if head.predicate in b.part.predicates), None)
            if owner is not None:
                raise RedefinitionError(
                    head.where, f"{head.predicate} is derived in block `{owner}`; put all its rules there"
                )


def _keys_of(predicates: Mapping[str, Predicate], layouts: Mapping[str, Layout], name: str) -> int:
    """Return how many first columns identify a row of a predicate."""
    predicate = predicates[name]
    return layouts[name].keys if predicate.extensional else len(predicate.keys)


def _refuse_unlike(rule: Rule, predicates: Mapping[str, Predicate], layouts: Mapping[str, Layout]) -> None:
    """Raise EditError for a rule over a relation that no longer fits its declaration."""
    for name in reads(rule):
        if predicates[name].extensional and name not in layouts:
            raise EditError(f"{rule.where}: the store's {name} has other columns than are declared: {predicates[name]}")


def _refuse_failing(rule: Rule) -> None:
    """Raise ConstructError for a helper view in a recursion if its arithmetic may fail."""
    if rule.failed:
        raise ConstructError(
            rule.where, "a key that is computed from a view which reads itself, by arithmetic that may fail, is not "
            "evaluated; derive the computed keys as a view of their own"
        )  # fmt: skip


def index_columns(index: Index, layout: Layout) -> list[int]:
    """Return the relation's columns in the order of an index: its keys, then the other columns, if it has them."""
    if layout.shown > 1 and permuted(index):
        return [*index.order]
    return [*index.order, *(c for c in range(layout.visible) if c not in index.order)]


def _no_estimates(predicate: str, columns: tuple[int, ...]) -> float:
    raise AssertionError("a saved plan needs no estimates")
