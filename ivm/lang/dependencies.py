"""Dependencies between predicates: the order of evaluation, and which views read a predicate."""

from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from ivm.errors import RecursionRefusedError
from ivm.lang.ir import Rule
from ivm.lang.traverse import reads, writes


def in_order(rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """The rules sorted so that each comes after all rules of the views that it reads.

    Raises RecursionRefusedError naming the cycle where a view would depend on itself.
    """
    defining: dict[str, list[int]] = {}
    for number, rule in enumerate(rules):
        for name in writes(rule):
            defining.setdefault(name, []).append(number)
    below = {
        number: [below for name in reads(rule) for below in defining.get(name, ())] for number, rule in enumerate(rules)
    }
    try:
        return tuple(rules[number] for number in TopologicalSorter(below).static_order())
    except CycleError as error:
        raise _recursion([rules[number] for number in error.args[1]]) from None


def _recursion(cycle: Sequence[Rule]) -> RecursionRefusedError:
    """The error for a cycle of rules, the last of which is the first again; each is read by the next."""
    pairs = pairwise(cycle)
    through = [next(name for name in writes(rule) if name in reads(reader)) for rule, reader in pairs]
    names = list(dict.fromkeys(name.partition("$")[0] for name in through))
    chain = ", which reads ".join([names[0], *reversed(names)])
    return RecursionRefusedError(
        min(rule.where for rule in cycle),
        f"recursion is not evaluated: {chain}; let each view read only views that do not read it",
    )


def readers(names: Iterable[str], rules: Iterable[Rule]) -> dict[str, tuple[str, ...]]:
    """For each of the names that some rules read: the views of these rules."""
    found: dict[str, dict[str, None]] = {}
    wanted = set(names)
    for rule in rules:
        for name in wanted.intersection(reads(rule)):
            found.setdefault(name, {}).update(dict.fromkeys(writes(rule)))
    return {name: tuple(views) for name, views in sorted(found.items())}
