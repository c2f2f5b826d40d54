"""Dependencies between rules: strata, the order of evaluation, and which views read a predicate.

    near(x, y) <- edge(x, y).
    reach(x, y) <- near(x, y).                  a stratum of two rules: reach reads itself
    reach(x, z) <- reach(x, y), near(y, z).
    far(x) <- cut(x), !reach(x, 1).             reads reach, which is complete by then

A stratum is a rule, or all rules of views that read one another. It comes after the strata that it reads.
"""

from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from ivm.lang.ir import Rule
from ivm.lang.traverse import reads, writes


class Stratum(NamedTuple):
    """Rules that are evaluated together, and which views they derive from one another: none, if there is one rule."""

    rules: tuple[Rule, ...]
    recursive: frozenset[str] = frozenset()


def strata_of(rules: Sequence[Rule]) -> list[Stratum]:
    """All rules by stratum, each stratum after those that it reads; rules of a stratum are in their order."""
    defining: dict[str, list[int]] = {}
    for number, rule in enumerate(rules):
        for name in writes(rule):
            defining.setdefault(name, []).append(number)
    below = [[n for name in reads(rule) for n in defining.get(name, ())] for rule in rules]
    stratum_of = _tied_rules(below)
    recursive: dict[int, set[str]] = {}
    for number, rule in enumerate(rules):
        within = {n for n in below[number] if stratum_of[n] == stratum_of[number]}
        names = {name for n in within for name in writes(rules[n]) if name in reads(rule)}
        recursive.setdefault(stratum_of[number], set()).update(names)
    for s, names in recursive.items():  # a rule of such a view that reads none of them is part of the stratum, too
        for name in names:
            for number in defining[name]:
                stratum_of[number] = s
    members: dict[int, list[int]] = {}
    for number, s in enumerate(stratum_of):
        members.setdefault(s, []).append(number)
    return [
        Stratum(tuple(rules[number] for number in members[s]), frozenset(recursive[s]))
        for s in _sorted(below, stratum_of)
    ]


def in_order(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """The rules sorted so that each comes after all rules of the views that it reads, but for those of its stratum."""
    return tuple(rule for stratum in strata_of(rules) for rule in stratum.rules)


def recursive_names(rules: Sequence[Rule]) -> dict[str, frozenset[str]]:
    """For each view that reads itself, directly or through others: all such views of its stratum."""
    return {name: stratum.recursive for stratum in strata_of(rules) for name in stratum.recursive}


def _tied_rules(below: Sequence[Sequence[int]]) -> list[int]:
    """For each rule a number, the same for rules that depend on one another; below[i] are those that rule i reads."""
    stratum_of = list(range(len(below)))
    while True:
        try:
            _sorted(below, stratum_of)
            return stratum_of
        except CycleError as error:
            tied = set(error.args[1])
            stratum_of = [min(tied) if s in tied else s for s in stratum_of]


def _sorted(below: Sequence[Sequence[int]], stratum_of: Sequence[int]) -> list[int]:
    """The strata in order of evaluation.  Raises CycleError while some depend on one another."""
    graph: dict[int, list[int]] = {}
    for number, rules in enumerate(below):
        s = stratum_of[number]
        graph.setdefault(s, []).extend(stratum_of[n] for n in rules if stratum_of[n] != s)
    return list(TopologicalSorter(graph).static_order())


def readers(names: Iterable[str], rules: Iterable[Rule]) -> dict[str, tuple[str, ...]]:
    """For each of the names that some rules read: the views of these rules, as users know them."""
    found: dict[str, dict[str, None]] = {}
    wanted = set(names)
    for rule in rules:
        for name in wanted.intersection(reads(rule)):
            found.setdefault(name, {}).update(dict.fromkeys(view.partition("$")[0] for view in writes(rule)))
    return {name: tuple(views) for name, views in sorted(found.items()) if "$" not in name}
