"""Turn `x in (1, 5, 9)` into a join with a helper of these rows, so that the join seeks to each of
them.

    p(x, y) <- edge(x, y), x in (1, 5, 9).

    p$among0(1). p$among0(5). p$among0(9).          p(x, y) <- p$among0(x), edge(x, y).

It is so where the join seeks by x in any case: x is the first column of an atom, or in keys of
several atoms. Elsewhere the condition filters rows.

In a query, the same is done for the texts of a range, whose ids are not in the order of the texts:
the dictionary lists those between two others, which stay in the rule as comparisons. (A view is
filled by scans of these: scan.py.)

    q(x, y) <- name(x, y), x >= "m", x < "n".       q(x, y) <- q$among0(x), name(x, y), x >= "m", x < "n".
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

import numpy as np

from ivm.lang.ir import Atom, Call, Compare, Const, Disjunct, Literal, Predicate, Rule, Var
from ivm.lang.program import Program
from ivm.names import AMONG, is_membership
from ivm.plan.key_ranges import SHARE, text_ranges


class Store(Protocol):
    """What these passes ask the store for when they rewrite a query."""

    def rows(self, name: str) -> int:
        """Return how many rows a predicate has."""

    def texts_between(self, low: bytes, high: bytes | None, most: int) -> np.ndarray | None:
        """Return the ids int64[n] of the texts of a range; None for more than `most`."""


def lift_memberships(program: Program) -> Program:
    """Put the helpers of memberships before the rules, which then join with them."""
    predicates, rules = dict(program.predicates), list[Rule]()
    for rule in program.rules:
        rules += _lifted(rule, predicates) if not rule.range and not rule.texts else [rule]
    return replace(program, predicates=predicates, rules=tuple(rules))


def seek_texts(program: Program, known: Program, store: Store) -> Program:
    """Join the rules of a query with the texts of their ranges, where these are few. O(texts of
    the ranges).
    """
    predicates, seeds, notes = dict(program.predicates), dict(program.seeds), [*program.notes]
    stored = {*known.predicates, *program.stored}

    def sought(rule: Rule, disjunct: Disjunct) -> Iterator[Atom]:
        for x, (low, high) in text_ranges(disjunct, rule.types).items():
            sizes = [
                store.rows(a.predicate) for a in _holding(x, disjunct) if a.predicate in stored
            ]
            if not sizes or not _is_sought(x, disjunct):
                continue
            ids = store.texts_between(low, high, min(sizes) // SHARE)
            if ids is not None:
                helper = _named(rule, x, predicates, extensional=True)
                seeds[helper.predicate] = ids[None]
                notes.append(f"{x} is sought among {len(ids):,} texts")
                yield helper

    rules = tuple(
        replace(rule, body=tuple((*sought(rule, disjunct), *disjunct) for disjunct in rule.body))
        if not rule.range and not rule.texts
        else rule
        for rule in program.rules
    )
    return replace(program, predicates=predicates, rules=rules, seeds=seeds, notes=tuple(notes))


def _lifted(rule: Rule, predicates: dict[str, Predicate]) -> Iterator[Rule]:
    body = []
    for disjunct in rule.body:
        literals = list[Literal]()
        for literal in disjunct:
            chosen = _chosen(literal, disjunct)
            if chosen is None:
                literals.append(literal)
                continue
            helper = _helper(rule, *chosen, predicates)
            yield helper
            literals.append(helper.heads[0])
        body.append(tuple(literals))
    yield replace(rule, body=tuple(body))


def _chosen(literal: Literal, disjunct: Disjunct) -> tuple[Var, tuple[Const, ...]] | None:
    """Return the variable of a membership and its constants, if the join seeks by it; else None."""
    match literal:
        case Compare("=", Call("in", (Var() as x, *among)), Const(True)) if all(
            isinstance(c, Const) for c in among
        ):
            values = {c.value: c for c in among if isinstance(c, Const) and c.value is not None}
            return (x, tuple(values.values())) if values and _is_sought(x, disjunct) else None
    return None


def _is_sought(x: Var, disjunct: Disjunct) -> bool:
    atoms = [literal for literal in disjunct if isinstance(literal, Atom)]
    held = Counter(v for atom in atoms for v in {*atom.args})
    return any(atom.args[:1] == (x,) for atom in atoms) or held[x] > 1


def _holding(x: Var, disjunct: Disjunct) -> list[Atom]:
    return [literal for literal in disjunct if isinstance(literal, Atom) and x in literal.terms]


def _helper(
    rule: Rule, x: Var, constants: tuple[Const, ...], predicates: dict[str, Predicate]
) -> Rule:
    """Return the rule of the rows of a membership; define its predicate."""
    head = _named(rule, x, predicates)
    (x,) = (v for v in head.args if isinstance(v, Var))
    rows = tuple((Compare("=", x, constant, where=constant.where),) for constant in constants)
    text = f"{rule.text}  (what {x} is among)"
    return Rule((head,), rows, types={x.name: rule.types[x.name]}, where=rule.where, text=text)


def _named(rule: Rule, x: Var, predicates: dict[str, Predicate], extensional: bool = False) -> Atom:
    """Return the atom of a new helper, and define its predicate."""
    name = f"{rule.heads[0].predicate}{AMONG}{sum(map(is_membership, predicates))}"
    x = replace(x, marked=False)
    predicates[name] = Predicate(
        name, (rule.types[x.name],), None, extensional, (x.name,), where=rule.where
    )
    return Atom(name, (x,), where=x.where)
