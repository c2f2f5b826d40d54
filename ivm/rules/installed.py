"""Installed rules: blocks of them by name, each rule with its plans and its trees in the store.

    block (a name, a text)  ──▶  Rule  ──▶  Plan per conjunction  ──▶  "$sense:rule.plan.sensor" per sensor
                                                                 ──▶  "$index:edge:1.0" per permuted index

The store's properties hold the texts and the chosen key orders, so opening a store does not plan
again.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from math import inf
from typing import Any, Generic, Literal, NamedTuple, TypedDict, TypeVar

import numpy as np

from ivm.errors import RedefinitionError, UnknownViewError
from ivm.lang.ir import Predicate, Rule
from ivm.lang.program import NOTHING, Program, in_order, strata_of
from ivm.names import WHOLE, is_constraint, is_helper, names_of, stored_as
from ivm.plan.plan import Columns, Distinct, Index, Plan, Scan, permuted, tree_name
from ivm.plan.planner import AUTO
from ivm.rules.rule import InstalledRule, InstalledStratum, Uses, size_range
from ivm.rules.saved import WHOLE_RULES, Rest, SavedBlock, SavedRules
from ivm.views.heads import Head
from ivm.views.layouts import RANGED, TEXT, Layout
from pagestore.host import Spec

PROPERTY = "ivm"
# of how a rule becomes trees and key orders, before the first of `Rewrites`; one more with each
PLANNING_WITHOUT_RANGES = 2
T = TypeVar("T")
K = TypeVar("K")
Limits = tuple[int | None, int | None]  # the most rows and the most rounds of a recursion


class Reached(NamedTuple):
    """The rules that changes reach, and between which sizes their relations have not outgrown
    the plans of any.
    """

    rules: list["InstalledRule"]
    ranges: dict[str, tuple[float, float]]


class StoredPredicate(NamedTuple):
    """How a predicate is stored: its layout, the indices that its own tree serves, then its
    permuted indices.

    `names` are the names of its own tree and of its permuted indices' trees; row t of places[T, C]
    begins with the columns of tree t. Index i is read from tree served[i]; the first index is over
    the keys alone. `checked` means that a key of a function could get two values, and is checked.
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


class InstallOptions(TypedDict, total=False):
    """The options of `Workspace.install` for how rules are evaluated and maintained."""

    granularity: int
    maintenance: Literal["auto", "match", "probe"]
    rows_max: int | None
    rounds_max: int | None


class Options(NamedTuple):
    """How a block is maintained; see the parameters of `Workspace.install`."""

    granularity: int = 1
    maintenance: str = AUTO
    limits: Limits = (None, None)


PLAIN = Options()


@dataclass(frozen=True)
class Block:
    """A text installed under a name, and what it added."""

    name: str
    text: str
    part: Program
    rules: tuple[InstalledRule, ...]
    limits: Limits = (None, None)
    maintenance: str = AUTO

    @cached_property
    def names(self) -> frozenset[str]:
        """What its rules and edits read and write."""
        edited = (edit.predicate for edit in self.part.edits)
        return frozenset(chain(edited, *((*rule.reads, *rule.writes) for rule in self.rules)))

    @cached_property
    def in_order(self) -> tuple[Rule, ...]:
        """Its rules, each after those that it reads."""
        return in_order(self.part.rules)

    @property
    def rewrites(self) -> "Rewrites":
        """Which rewrites change what the rules store."""
        levels = any(rule.definition.levels for rule in self.rules)
        texts = any(rule.definition.texts for rule in self.rules)
        ways = [plan.way for rule in self.rules for plan in rule.plans]
        scans = any(isinstance(way, Scan | Distinct | Columns) for way in ways)
        spans, part = [rule.span for rule in self.rules if rule.span], self.part
        return Rewrites(
            bool(spans), levels, part.merged, texts, scans, part.lean, part.partial, part.sure,
            part.factored, part.guarded, any(span.ties for span in spans), True,
            part.sought,
        )  # fmt: skip


class Rewrites(NamedTuple):
    """Rewrites that change what rules store, so that they are not used for rules that an earlier
    release installed.

    `ranges` evaluates aggregates over ranges by range, unless another maintenance is requested;
    `levels` lets aggregates of one body share states though their groups differ; `columns` reads
    the columns of one row by one atom; `texts` reads the texts of concats, which earlier releases
    refuse; `scans` reads a body of one relation in the order that the relation is stored in, and
    evaluates joins by columns; `lean` gives an aggregate over a disjunction of joins a plan for
    each instead of a view of all, and helpers of computed keys no column that their keys determine;
    `partial` keeps a few values of each group for a min or max over one relation; `sure` gives
    helpers of keys that cannot fail no view of what fails; `factored` counts and sums the parts of
    a body that no variable connects on their own; `guarded` counts no groups of nulls only
    for an aggregate whose rule excludes nulls itself; `ordered` seeks what is before or after a row
    in the order of several columns; `apart` saves key orders as a text of their own; `sought` looks
    up the keys of functions that are negated, without a helper view.
    """

    ranges: bool = True
    levels: bool = True
    columns: bool = True
    texts: bool = True
    scans: bool = True
    lean: bool = True
    partial: bool = True
    sure: bool = True
    factored: bool = True
    guarded: bool = True
    ordered: bool = True
    apart: bool = True
    sought: bool = True


ALL = Rewrites()
PLANNING = PLANNING_WITHOUT_RANGES + len(ALL)


class Computed(Generic[K, T]):
    """Values by key, each computed when it is first asked for, and kept."""

    def __init__(self, compute: Callable[[K], T]) -> None:
        self._compute = compute
        self._known: dict[K, T] = {}

    def __getitem__(self, key: K) -> T:
        if key not in self._known:
            self._known[key] = self._compute(key)
        return self._known[key]


@dataclass(frozen=True)
class Installed:
    """All installed blocks. Immutable: installing or uninstalling returns a new value.

    `deferred` are permuted indices that no change has needed so far: they are built in the
    transaction that does. `partial` has the views whose state kept a few values of some group when
    it was filled; it may also name views that were dropped or have other rules by now, so `cut` is
    what counts. `rest` has the blocks of a version that are saved, and not among these.
    """

    blocks: tuple[Block, ...] = ()
    program: Program = NOTHING
    layouts: Mapping[str, Layout] = field(default_factory=dict)
    deferred: frozenset[Index] = frozenset()
    partial: frozenset[str] = frozenset()
    rest: Rest = WHOLE_RULES

    @staticmethod
    def of(compiled: Iterable[tuple[Block, Mapping[str, Layout]]], rest: Rest) -> "Installed":
        """Return some blocks, each after those that it uses, with the layouts of their predicates."""
        blocks, layouts = [*compiled], dict[str, Layout]()
        predicates = dict[str, Predicate]()
        for block, saved in blocks:
            predicates.update(block.part.predicates)
            layouts.update(saved)
        program = Program(predicates, (*chain(*(block.in_order for block, _ in blocks)),))
        return Installed((*(block for block, _ in blocks),), program, layouts, rest=rest)

    def adding(self, block: Block, program: Program, layouts: Mapping[str, Layout]) -> "Installed":
        """Return this with one more block; `program` and `layouts` have its rules and views, too.

        What is known of the rules so far is extended, not cached anew: O(names), and not O(rules) of
        Python, so that a question beside a hundred views costs what it costs beside one.
        """
        uses = self._uses.adding(block.rules)
        deferred = uses.deferrable - (self._uses.all_permuted - self.deferred)
        made = Installed((*self.blocks, block), program, layouts, deferred, self.partial, self.rest)
        cached: dict[str, Any] = {
            "_uses": uses,
            "numbered": self.numbered | {r.number: r for r in block.rules},
        }
        cached["scanned_ends"] = self.scanned_ends.union(_scanned_ends(block, layouts))
        known, later = self.program.rules, program.rules[len(self.program.rules) :]
        if program.rules[: len(known)] == known:
            definitions = {id(rule.definition): rule for rule in block.rules}
            cached["rules"] = (*self.rules, *(definitions[id(definition)] for definition in later))
            cached["strata"] = (*self.strata, *_strata_of(later, definitions))
        made.__dict__.update(cached)  # as if the cached properties had been read
        return made

    @cached_property
    def rules(self) -> tuple[InstalledRule, ...]:
        """Every rule, after the rules whose views it reads."""
        installed = {id(rule.definition): rule for block in self.blocks for rule in block.rules}
        return tuple(installed[id(definition)] for definition in self.program.rules)

    @cached_property
    def numbered(self) -> dict[int, InstalledRule]:
        """Every rule by its number, which it keeps when it gets other plans."""
        return {rule.number: rule for block in self.blocks for rule in block.rules}

    @cached_property
    def turning(self) -> frozenset[int]:
        """The numbers of rules that turn from probing to matching, and back (engine/regret.py):
        those that were left to choose, and do not read themselves.
        """
        return frozenset(
            rule.number
            for block in self.blocks
            if block.maintenance == AUTO
            for rule in block.rules
            if rule not in self.recursion
            and any(plan.probes or plan.sensors for plan in rule.plans)
        )

    @cached_property
    def turned(self) -> dict[str, InstalledRule]:
        """Of these rules those that match now, by each view that they write."""
        rules = [rule for rule in self.rules if rule.number in self.turning and rule.matches]
        return {name: rule for rule in rules for name in rule.writes}

    @cached_property
    def strata(self) -> tuple[InstalledStratum, ...]:
        """All rules by stratum, each stratum after those that it reads."""
        return _strata_of(self.program.rules, {id(rule.definition): rule for rule in self.rules})

    @cached_property
    def recursion(self) -> dict[InstalledRule, InstalledStratum]:
        """The stratum of each rule whose stratum is recursive."""
        return {
            rule: stratum for stratum in self.strata if stratum.recursive for rule in stratum.rules
        }

    @cached_property
    def constraints(self) -> dict[str, Rule]:
        """The constraints by the names of their views, which have what violates them."""
        rules = {name: rule.definition for rule in self.rules for name in rule.writes}
        return {name: rule for name, rule in rules.items() if is_constraint(name)}

    @cached_property
    def indices(self) -> Computed[str, list[Index]]:
        """The permuted indices that plans use, by predicate, found when they are asked for."""
        return Computed(
            lambda name: [
                index for index in self._uses.permuted.get(name, ()) if index not in self.deferred
            ]
        )

    @property
    def indexed(self) -> Iterable[str]:
        """The predicates of which plans use permuted indices."""
        return self._uses.permuted

    def needed_for(self, names: Iterable[str]) -> frozenset[Index]:
        """Return the deferred indices by which changes of predicates are followed. O(rules)."""
        if not self.deferred:
            return frozenset()
        indices, reached = set[Index](), {*names}
        for stratum in self.strata:
            for rule in stratum.rules if not reached.isdisjoint(stratum.reads) else ():
                reached.update(rule.writes)
                for plan in rule.plans:
                    indices |= self.probed_in(
                        plan, {t.index for t in plan.tries if t.index.predicate in reached}
                    )
        return frozenset(indices)

    def probed_in(self, plan: Plan, changed: Container[Index]) -> frozenset[Index]:
        """Return the deferred indices that a plan's probes read when some indices have changed."""
        if not self.deferred:
            return self.deferred
        begun = [*enumerate(plan.probes), *((move.trie, move.plan) for move in plan.moves)]
        probes = [probe for t, probe in begun if plan.tries[t].index in changed]
        return self.deferred.intersection(trie.index for probe in probes for trie in probe.tries)

    def deferring(self, deferred: Iterable[Index]) -> "Installed":
        """Return this with those indices deferred that only probes of plans in columns read."""
        return replace(self, deferred=self._uses.deferrable.intersection(deferred))

    @cached_property
    def _uses(self) -> Uses:
        permuted = defaultdict[str, tuple[Index, ...]](tuple)
        for index in self.rest.elsewhere:
            permuted[index.predicate] += (index,)
        return Uses(others=self.rest.elsewhere, permuted={**permuted}).adding(self.rules)

    def replacing(self, rules: Mapping[InstalledRule, InstalledRule]) -> "Installed":
        """Return this with other plans for some rules; new indices that only probes of columns
        read are deferred.
        """
        if not rules:
            return self
        blocks = tuple(
            replace(b, rules=tuple(rules.get(rule, rule) for rule in b.rules)) for b in self.blocks
        )
        made = replace(self, blocks=blocks)
        return made.deferring(made._uses.all_permuted - (self._uses.all_permuted - self.deferred))

    def slowed(self, operations: Mapping[int, float]) -> "Installed":
        """Return this with the operations that a changed row of some rules, by their numbers,
        was seen to take.
        """
        return self.replacing(
            {self.numbered[n]: self.numbered[n].slower(steps) for n, steps in operations.items()}
        )

    def measuring(
        self, took: Mapping[int, int], steps: Mapping[int, Mapping[int, Sequence[int]]]
    ) -> "Installed":
        """Return this with the operations that evaluated some rules, and the rows of their
        steps, by their numbers.
        """
        rules = {n: self.numbered[n] for n in took}
        return self.replacing(
            {rule: rule.measured(took[n], steps.get(n, {})) for n, rule in rules.items()}
        )

    @cached_property
    def together(self) -> dict[InstalledRule, tuple[InstalledRule, ...]]:
        """For each rule those that are evaluated anew with it, in order: they share views, or
        states of aggregates.
        """
        first_of: dict[str, str] = {}  # the tree by which a group is known, for each of its trees
        for rule in self.rules:
            names = [*self._trees_of(rule)]
            known = {first_of[name] for name in names if name in first_of}
            first = min(known, default=names[0])
            if len(known) > 1:
                first_of |= {name: first for name, old in first_of.items() if old in known}
            first_of |= dict.fromkeys(names, first)
        groups = defaultdict[str, list[InstalledRule]](list)
        for rule in self.rules:
            groups[first_of[rule.writes[0]]].append(rule)
        whole = {first: tuple(group) for first, group in groups.items()}
        return {rule: whole[first_of[rule.writes[0]]] for rule in self.rules}

    def _trees_of(self, rule: InstalledRule) -> Iterator[str]:
        """Yield the names of the views of a rule, and of the states that these follow from."""
        for name in rule.writes:
            yield name
            if fold := self.layouts[name].fold:
                yield fold.state.name

    def outgrown(
        self, names: frozenset[str], counts: Callable[[Iterable[str]], list[int]]
    ) -> list[InstalledRule]:
        """Return the rules reached from some predicates whose plans were made for other sizes.
        O(sizes of these).

        `counts` returns the rows of some predicates.
        """
        reached = self._reached.get(names)
        if reached is None:
            reached = self._reached[names] = self._reached_from(names)
        if not reached.ranges:
            return []
        now = counts(reached.ranges)
        for count, (least, most) in zip(now, reached.ranges.values(), strict=True):
            if not least < count < most:
                sizes = dict(zip(reached.ranges, now, strict=True))
                return [rule for rule in reached.rules if rule.basis.outgrown(sizes)]
        return []

    def _reached_from(self, names: frozenset[str]) -> Reached:
        """Return the rules that changes of some predicates reach.  O(rules)."""
        reached = {*names}
        for stratum in self.strata:
            if not reached.isdisjoint(stratum.reads):
                reached.update(name for rule in stratum.rules for name in rule.writes)
        rules = [
            rule for rule in self.rules if rule.basis.sizes and not reached.isdisjoint(rule.reads)
        ]
        ranges: dict[str, tuple[float, float]] = {}
        for rule in rules:
            for name, then in rule.basis.sizes.items():
                (least, most), (low, high) = size_range(then), ranges.get(name, (-inf, inf))
                ranges[name] = max(least, low), min(most, high)
        return Reached(rules, ranges)

    @cached_property
    def _reached(self) -> dict[frozenset[str], Reached]:
        """A cache of the rules that changes of some predicates reach."""
        return {}

    @cached_property
    def scans(self) -> dict[str, set[str]]:
        """The scans that fold ranges, by predicate, as users name them."""
        scans: dict[str, set[str]] = {}
        for rule in self.rules:
            if rule.span and rule.span.scan:
                scans.setdefault(rule.span.measured.predicate, set()).add(rule.span.scan)
        return scans

    def is_followed(self, name: str, spec: Spec) -> bool:
        """Return whether the relation of a name fits its declaration; one that no rule reads may
        have been replaced.
        """
        if self._followed.get(name) is spec:
            return True
        layout = self.layouts.get(name)
        fits = layout is not None and layout.keys == spec.keys and layout.visible <= spec.columns
        if fits:
            self._followed[name] = spec
        return fits

    @cached_property
    def _followed(self) -> dict[str, Spec]:
        """A cache of the shapes of relations that fit their declarations."""
        return {}

    def stores(self, name: str) -> bool:
        """Return whether evaluating a view by itself needs trees, which a transaction creates."""
        keeps = name in self.layouts and (
            self.layouts[name].fold or self.layouts[name].kind in (RANGED, TEXT)
        )
        return bool(keeps) or any(name in rule.writes for rule in self.recursion)

    @cached_property
    def stored(self) -> Computed[str, StoredPredicate]:
        """How each predicate is stored, found when it is asked for."""
        return Computed(self._stored_predicate)

    def _stored_predicate(self, name: str) -> StoredPredicate:
        layout, predicate = self.layouts[name], self.program.predicates[name]
        own = tuple(
            Index(name, tuple(range(width))) for width in range(layout.keys, layout.visible + 1)
        )
        others = tuple(self.indices[name])
        names = (name, *map(tree_name, others))
        places = np.zeros((len(names), layout.visible), np.int64)
        for place, columns in enumerate(
            [range(layout.visible), *(index_columns(index, layout) for index in others)]
        ):
            places[place, : len(columns)] = columns
        checked = predicate.value is not None and layout.keys != len(predicate.keys)
        served = (*[0] * len(own), *range(1, len(names)))
        return StoredPredicate(layout, own + others, served, names, places, checked)

    @cached_property
    def heads(self) -> Computed[Plan, Head]:
        """How the bindings of each plan become edits of views, found when it is asked for."""
        return Computed(lambda plan: Head(self._owners[plan].definition, plan, self.layouts))

    @cached_property
    def _owners(self) -> dict[Plan, InstalledRule]:
        """The rule of each plan."""
        return {plan: rule for rule in self.rules for plan in (*rule.plans, *rule.searches)}

    @cached_property
    def derived_trees(self) -> frozenset[str]:
        """The names of all trees that follow from the extensional predicates: views, their
        indices and state.
        """
        return self.derived_by(self.rules).union(map(tree_name, self.rest.elsewhere))

    def derived_by(self, rules: Iterable[InstalledRule]) -> frozenset[str]:
        """Return the trees that some rules need, by name: views, aggregate state, permuted and
        sensitivity indices.
        """
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

    @cached_property
    def extensional(self) -> frozenset[str]:
        """The names of the relations and functions that are edited."""
        return frozenset(
            name for name, predicate in self.program.predicates.items() if predicate.extensional
        )

    @cached_property
    def compiled_strata(self) -> dict[InstalledStratum, Any]:
        """A cache of how a kernel maintains recursive strata (recursion/compiled.py)."""
        return {}

    @cached_property
    def named(self) -> dict[str, Predicate]:
        """The relations, functions and views that users declared or derive, by name."""
        blocks = {block.name for block in self.blocks}
        return {
            name: predicate
            for name, predicate in self.program.predicates.items()
            if not is_helper(name, blocks)
        }

    def predicate(self, name: str, source: Any = None) -> Predicate:
        """Return the relation, function or view of a name; errors list what there is in a `source`,
        a snapshot.

        Raises UnknownViewError.
        """
        predicate = self.program.predicates.get(name)
        if predicate is None:
            if source is None:
                known = [*self.named]
            else:
                known = names_of(source, {block.name for block in self.blocks})
            if name in known and (parts := stored_as(source, name)) != [name]:
                raise UnknownViewError(
                    f"{name} is kept in parts, each of which this takes: {', '.join(parts)}"
                )
            if name in known:
                raise UnknownViewError(
                    f"no rule reads or declares {name}: its rows come from transactions alone"
                )
            raise UnknownViewError(
                f"there is no relation or view {name!r}; there is "
                f"{', '.join(sorted(known)) or 'none'}"
            )
        return predicate

    def whole(self, name: str) -> str:
        """Return the name of the view of all rows of a relation that is declared and derived;
        else the name itself.
        """
        return name + WHOLE if name + WHOLE in self.program.predicates else name

    def block(self, name: str) -> Block | None:
        """Return the block of a name; None if it is not installed."""
        return next((b for b in self.blocks if b.name == name), None)

    def excluding(self, *blocks: Block) -> "Installed":
        """Return this without some blocks, given in order.  Raises UninstallError if others read
        their predicates.
        """
        program = self.program
        for block in reversed(blocks):
            program = program.excluding(block.part)
        layouts = {n: layout for n, layout in self.layouts.items() if n in program.predicates}
        left = tuple(b for b in self.blocks if b not in blocks)
        made = Installed(left, program, layouts, partial=self.partial, rest=self.rest)
        return made.deferring(self.deferred)

    @cached_property
    def cut(self) -> frozenset[str]:
        """The views whose state keeps a few values of some group."""
        return self.partial & self.scanned_ends

    @cached_property
    def scanned_ends(self) -> frozenset[str]:
        """The views whose state may keep few values of a group: a scan finds the others."""
        return frozenset(chain(*(_scanned_ends(block, self.layouts) for block in self.blocks)))

    @cached_property
    def next_number(self) -> int:
        """The number for the next rule, greater than all numbers in use."""
        return max(1 + max(self.numbered, default=-1), self.rest.next_number)

    def saved(self) -> SavedRules:
        """Return everything that opening needs, also of the blocks that are not among these."""
        owners = {name: b.name for b in self.blocks for name in b.part.predicates}
        blocks = self.rest.with_own({b.name: self._saved_block(b, owners) for b in self.blocks})
        flags = set[str]().union(*(block.saved for block in blocks.values()))
        used = [n for n, name in enumerate(Rewrites._fields, 1) if name in flags]
        planning = PLANNING_WITHOUT_RANGES + max(used, default=0)
        deferred, partial = {*self.deferred}, {*self.cut}
        if self.rest.others:
            deferred |= self.rest.deferred(self._uses.all_permuted - self.deferred)
            partial |= self.rest.rules.partial - self.rest.base.scanned_ends
        return SavedRules(planning, blocks, frozenset(deferred), frozenset(partial))

    def _saved_block(self, b: Block, owners: Mapping[str, str]) -> SavedBlock:
        """Return a block as it is saved, given the blocks that have each predicate."""
        uses = sorted({owners[n] for n in b.names if n in owners} - {b.name})
        known = self.rest.rules.blocks.get(b.name)
        if known and known.compiled and known.compiled[0] is b and known.saved.get("uses") == uses:
            return known
        saved = {
            "name": b.name,
            "text": b.text,
            "number": b.rules[0].number if b.rules else self.next_number,
            "granularity": b.rules[0].granularity if b.rules else 1,
            **({"limits": b.limits} if any(b.limits) else {}),
            **({"maintenance": b.maintenance} if b.maintenance != AUTO else {}),
            **{name: True for name, used in b.rewrites._asdict().items() if used},
            "rules": len(b.rules),
            "plans": json.dumps([[v.orders for v in b.rules], [v.basis for v in b.rules]]),
            "has": [*b.part.predicates],
            "uses": uses,
            "reads": sorted(b.names - b.part.predicates.keys()),
            "indices": {
                n: [i.order for i in of] for n, of in Uses().adding(b.rules).permuted.items()
            },
        }
        return SavedBlock(
            saved, (b, {n: self.layouts[n] for n in b.part.predicates if n in self.layouts})
        )


def _scanned_ends(block: Block, layouts: Mapping[str, Layout]) -> Iterator[str]:
    """Yield the views of a block that are in `Installed.scanned_ends`."""
    for rule in block.rules if block.part.partial else ():
        if len(rule.plans) == 1 and isinstance(rule.plans[0].way, Scan):
            yield from (n for n in rule.writes if (fold := layouts[n].fold) and fold.state.is_end)


def _strata_of(
    rules: Sequence[Rule], installed: Mapping[int, InstalledRule]
) -> tuple[InstalledStratum, ...]:
    """Return the strata of some rules, each installed as the mapping says of its `id`."""
    return tuple(
        InstalledStratum(tuple(installed[id(definition)] for definition in stratum), recursive)
        for stratum, recursive in strata_of(rules)
    )


def refuse_foreign_writers(blocks: Iterable[Block], part: Program) -> None:
    """Raise RedefinitionError if rules derive a predicate of another block."""
    for rule in part.rules:
        for head in rule.heads:
            owner = next((b.name for b in blocks if head.predicate in b.part.predicates), None)
            if owner is not None:
                raise RedefinitionError(
                    head.where,
                    f"{head.predicate} is derived in block `{owner}`; put all its rules there",
                )


def index_columns(index: Index, layout: Layout) -> list[int]:
    """Return the relation's columns in the order of an index: its keys, then the other columns,
    if it has them.
    """
    if layout.shown > 1 and permuted(index):
        return [*index.order]
    return [*index.order, *(c for c in range(layout.visible) if c not in index.order)]
