"""Find the views and trees of a store that can be kept when some of its rules are replaced.

    before                  after
    p(x) <- e(x, _).        p(x) <- e(x, _).        the same rule: p is kept, and what is stored to maintain it
    q(x) <- p(x), f(x).     q(x) <- p(x), g(x).     another rule: q is evaluated
    r(x) <- q(x).           r(x) <- q(x).           the same rule, but q has changed: r is evaluated
    s(x) <- p(x, _).        s(x) <- p(x, _).        s is kept, and *patched*: the rows of the second rule are taken
    s(x) <- e(x, _).        s(x) <- f(x, _).        out of it, those of the new one are put in
    t(x) <- s(x), p(x).     t(x) <- s(x), p(x).     t is kept, and follows the change of s as any other

Of a rule with alternatives, those count that it has now and had not, and those that it had.

Rules count as the same even if their numbers differ, or the numbers in the names of helper views
(r$not1). Trees with a changed name are renamed.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ivm.lang.ir import Rule, is_table
from ivm.lang.program import names_in_body, shape_of
from ivm.names import APART, is_made, is_tree_of_rules, view_of_state
from ivm.plan.plan import tree_name
from ivm.rules.installed import Installed
from ivm.rules.rule import InstalledRule
from ivm.rules.stored import built_sizes, create_relation
from ivm.views.layouts import SUPPORT, Layout
from ivm.ways.recursion.stratum import unordered
from pagestore.host import Transaction


class Patch(NamedTuple):
    """The rules that a view has now and did not have, and those that it had and no longer has.

    Of the rules in `partly`, which had other alternatives, these have the alternatives that came,
    and that went.
    """

    added: tuple[InstalledRule, ...]
    removed: tuple[InstalledRule, ...]
    partly: tuple[InstalledRule, ...] = ()


class Kept(NamedTuple):
    """The kept views and relations, the old rule for each new rule of these views, and helper
    views' old names.

    Of the kept views, those with `patches` get the rows of other rules, and lose those of some.
    """

    views: frozenset[str]
    relations: frozenset[str]
    rules: Mapping[InstalledRule, InstalledRule]
    names: Mapping[str, str]
    patches: Mapping[str, Patch]

    def was(self, name: str) -> str:
        """Return the old name of a view."""
        return self.names.get(name, name)


def kept_of(before: Installed, after: Installed, changed: Container[str] = ()) -> Kept:
    """Return what is kept when the rules `before` become `after`: views with the same rules, plans
    and inputs.

    Nothing that follows from the relations `changed` is kept.
    """
    twins, names = _twins(before, after)
    old, new = _writers(before), _writers(after)
    # a helper view may have the old name of another
    taken = {was: name for name, was in names.items()}
    free = (n for n in after.program.predicates if taken.get(names.get(n, n), n) == n)
    alike = {n for n in free if _is_stored_alike(before, after, n, names)}
    kept = {
        view
        for view in new.keys() & alike
        if {*map(twins.get, new[view])} == {*old[names.get(view, view)]}
    }
    patches = {
        view: patch
        for view in (set[str]() if changed else (new.keys() & alike) - kept)
        if (patch := _patch(before, after, new[view], old[names.get(view, view)], twins, names))
    }
    kept |= patches.keys()
    fixed = {
        name for name in alike if after.program.predicates[name].extensional and name not in changed
    }
    together = defaultdict[str, set[str]](set)  # the views that share a state
    for view in new:
        if fold := after.layouts[view].fold:
            together[fold.state.name].add(view)
    needs = {view: {n for rule in new[view] for n in (*rule.reads, *rule.writes)} for view in kept}
    for views in together.values():
        for view in views & kept:
            needs[view] |= views
    while lost := {view for view in kept if not needs[view] <= kept | fixed}:
        kept -= lost
    rules = {
        rule: twins[rule] for rule in after.rules if kept.issuperset(rule.writes) and rule in twins
    }
    patches = {view: patch for view, patch in patches.items() if view in kept}
    return Kept(frozenset(kept), frozenset(fixed), rules, names, patches)


def _patch(
    before: Installed,
    after: Installed,
    new: Sequence[InstalledRule],
    old: Sequence[InstalledRule],
    twins: Mapping[InstalledRule, InstalledRule],
    names: Mapping[str, str],
) -> Patch | None:
    """Return how a view can be changed by the rows of single rules: it counts its derivations,
    or has constants.
    """
    stayed = {*map(twins.get, new)}
    patch = _by_alternatives(
        [r for r in new if r not in twins], [r for r in old if r not in stayed], names
    )
    changed = (*patch.added, *patch.removed)
    if not all(len(rule.writes) == 1 and not rule.definition.refuses for rule in changed):
        return None
    if any(rule in after.recursion or rule in before.recursion for rule in (*new, *old)):
        return None
    stays = any(rule in twins for rule in new) or bool(patch.partly)
    counted = after.layouts[new[0].writes[0]].kind == SUPPORT and stays
    return patch if counted or all(is_table(rule.definition) for rule in changed) else None


def _by_alternatives(
    added: Sequence[InstalledRule], removed: Sequence[InstalledRule], names: Mapping[str, str]
) -> Patch:
    """Return a patch in which a rule that has alternatives of one that goes has only the others."""
    left, came, partly = [*removed], list[InstalledRule](), list[InstalledRule]()
    for rule in added:
        for place, was in enumerate(left):
            if shared := _shared(rule, was, names):
                left[place] = _without(was, {old for _, old in shared})
                came.append(_without(rule, {new for new, _ in shared}))
                partly.append(rule)
                break
        else:
            came.append(rule)
    came, left = ([rule for rule in some if rule.definition.body] for some in (came, left))
    return Patch(tuple(came), tuple(left), tuple(partly))


def _shared(
    rule: InstalledRule, was: InstalledRule, names: Mapping[str, str]
) -> list[tuple[int, int]]:
    """Return the places of the alternatives that two rules share, in each; none if their plans
    keep anything.
    """
    new, old = shape_of(rule.definition), shape_of(was.definition)
    if (
        replace(new, body=()) != replace(old, body=())
        or (len(rule.plans), len(was.plans)) != (len(new.body), len(old.body))
        or any(plan.sensors for plan in (*rule.plans, *was.plans))
        or _maintenance(rule)[:-1] != _maintenance(was)[:-1]
    ):
        return []
    waiting, pairs = [*range(len(old.body))], list[tuple[int, int]]()
    for place, body in enumerate(new.body):
        renamed = [names.get(name, name) for name in _names(_only(rule, [place]).definition)]
        for other in waiting:
            if old.body[other] == body and renamed == [*_names(_only(was, [other]).definition)]:
                pairs.append((place, other))
                waiting.remove(other)
                break
    return pairs


def _only(rule: InstalledRule, places: Iterable[int]) -> InstalledRule:
    """Return a rule with its alternatives at some places only."""
    body = tuple(rule.definition.body[n] for n in places)
    return replace(
        rule,
        definition=replace(rule.definition, body=body),
        plans=tuple(rule.plans[n] for n in places),
    )


def _without(rule: InstalledRule, places: Container[int]) -> InstalledRule:
    return _only(rule, [n for n in range(len(rule.plans)) if n not in places])


def _writers(installed: Installed) -> dict[str, list[InstalledRule]]:
    """Return the rules of each view."""
    writers = defaultdict[str, list[InstalledRule]](list)
    for rule in installed.rules:
        for view in rule.writes:
            writers[view].append(rule)
    return writers


def _is_stored_alike(
    before: Installed, after: Installed, name: str, names: Mapping[str, str]
) -> bool:
    """Return whether a predicate has the same columns and layout in both."""
    was = names.get(name, name)
    had = before.program.predicates.get(was)
    if had is None or replace(had, name=name) != after.program.predicates[name]:
        return False
    return before.layouts.get(was) == _of_state(after.layouts.get(name), names)


def _of_state(layout: Layout | None, names: Mapping[str, str]) -> Layout | None:
    """Return a layout with the old name of its state."""
    if layout is None or not layout.fold:
        return layout
    first = view_of_state(layout.fold.state.name)
    state = layout.fold.state._replace(name=APART + names.get(first, first))
    return layout._replace(fold=layout.fold._replace(state=state))


# -- equivalent rules


def _twins(
    before: Installed, after: Installed
) -> tuple[dict[InstalledRule, InstalledRule], dict[str, str]]:
    """Map rules of `after` to equivalent rules of `before` with the same maintenance; also
    helper views' old names.
    """
    waiting = defaultdict[object, list[InstalledRule]](list)
    same = {*before.rules}.intersection(after.rules)
    for rule in before.rules:
        if rule not in same:
            waiting[rule.sketch].append(rule)
    twins, names = dict[InstalledRule, InstalledRule](), dict[str, str]()
    for rule in after.rules:
        alike = [rule] if rule in same else waiting.get(rule.sketch, [])
        shape = shape_of(rule.definition) if alike and rule not in same else None
        for twin in alike:
            if shape and shape_of(twin.definition) != shape:
                continue
            pairs = dict(zip(_names(rule.definition), _names(twin.definition), strict=True))
            if _maintenance(twin) == _maintenance(rule) and _agree(names, pairs):
                names |= {name: was for name, was in pairs.items() if is_made(name)}
                twins[rule] = twin
                alike.remove(twin)
                break
    return twins, names


def _agree(names: Mapping[str, str], pairs: Mapping[str, str]) -> bool:
    """Return whether adding `pairs` (new name, old name) to `names` keeps it one-to-one."""
    taken = {was for name, was in names.items() if name not in pairs}
    return all(
        names.get(name, was) == was and was not in taken and (name == was or is_made(name))
        for name, was in pairs.items()
    )


def _names(rule: Rule) -> Iterator[str]:
    """Yield the predicates of a rule in order of appearance."""
    yield from (head.predicate for head in (*rule.heads, *filter(None, [rule.failed])))
    yield from names_in_body(rule)


def _maintenance(rule: InstalledRule) -> tuple[object, ...]:
    return rule.granularity, rule.rows_max, rule.rounds_max, bool(rule.span), rule.orders


# -- trees


def rearrange(
    txn: Transaction, before: Installed, after: Installed, kept: Kept
) -> dict[str, tuple[int, ...]]:
    """Drop the trees that are no longer needed, and create empty ones for views that are not kept.

    Returns the sizes of the sensitivity indices that are kept, like `Context.built`. O(what is
    dropped).
    """
    stay = dict(_trees(before, after, kept))
    strays = {name for name in after.derived_trees - before.derived_trees if is_tree_of_rules(name)}
    others = {tree_name(index) for index in before.rest.elsewhere}  # which other blocks keep
    for name in sorted((before.derived_trees - stay.keys() - others) | strays):
        if name in txn:
            txn.drop(name)
    moved = {old: new for old, new in stay.items() if old != new and old in txn}
    for old in moved:
        txn.rename(old, f"{old}$moved")  # a new name may be another tree's old name
    for old, new in moved.items():
        txn.rename(f"{old}$moved", new)
    for predicate in after.program.predicates.values():
        if predicate.name not in kept.views:
            create_relation(txn, predicate, after)
    built = built_sizes(txn)
    gone = before.derived_trees.union(map(unordered, before.program.predicates))
    marks = {unordered(kept.was(view)): unordered(view) for view in kept.views}
    left = {name: sizes for name, sizes in built.items() if name not in gone}
    return left | {new: built[old] for old, new in (stay | marks).items() if old in built}


def _trees(before: Installed, after: Installed, kept: Kept) -> Iterable[tuple[str, str]]:
    """Yield (old name, new name) of the trees that are kept."""
    for name in kept.views | kept.relations:
        for index in after.indices[name]:
            old = tree_name(index._replace(predicate=kept.was(name)))
            if old in before.derived_trees:
                yield old, tree_name(index)
    for view in kept.views:
        yield kept.was(view), view
        if fold := after.layouts[view].fold:
            was = before.layouts[kept.was(view)].fold
            assert was
            yield was.state.name, fold.state.name
    for rule, twin in kept.rules.items():
        for plan in range(len(rule.plans)):
            yield from zip(twin.sensitivity_names(plan), rule.sensitivity_names(plan), strict=True)
