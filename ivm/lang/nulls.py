"""Exclude nulls: rules do not see a function's row whose value is null, and no variable is null.

email[c] = e -> int(c), string?(e).

p(c) <- q(c), email[c] = e.            means    p(c) <- q(c), email[c] = e, e != null.
p(c) <- q(c), !email[c] = _.           means    p(c) <- q(c), !(email[c] = e, e != null).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ivm.lang.ir import Atom, Compare, Const, Disjunct, Literal, Negation, Predicate, Rule, Var
from ivm.lang.traverse import unnamed_in
from ivm.lang.types import stands_for_null


def without_nulls(rule: Rule, known: Mapping[str, Predicate]) -> Rule:
    """Return the rule with conditions that exclude null values."""
    if not any(known[name].nullable for name in {atom.predicate for atom in _atoms(rule)}):
        return rule
    unnamed = unnamed_in(rule)
    return replace(rule, body=tuple(tuple(_literals(disjunct, known, unnamed)) for disjunct in rule.body))


def _atoms(rule: Rule) -> Iterator[Atom]:
    for disjunct in rule.body:
        for literal in disjunct:
            yield from [literal] if isinstance(literal, Atom) else _within(literal)


def _within(literal: Literal) -> Iterator[Atom]:
    if isinstance(literal, Negation):
        for part in literal.body:
            yield from [part] if isinstance(part, Atom) else _within(part)


def _literals(conjunction: Disjunct, known: Mapping[str, Predicate], unnamed: set[str]) -> Iterator[Literal]:
    """Yield the literals of a conjunction, and conditions that values are not null."""
    for literal in conjunction:
        if isinstance(literal, Negation):
            yield replace(literal, body=tuple(_literals(literal.body, known, unnamed)))
            continue
        yield literal
        if isinstance(literal, Atom):
            predicate = known[literal.predicate]
            for place in predicate.nullable:
                term = literal.terms[place]
                if isinstance(term, Const) and stands_for_null(term):
                    yield Compare("!=", term, Const(None, term.type), where=literal.where)  # no row has this value
                if isinstance(term, Var) and (predicate.value is not None or term.name not in unnamed):
                    yield Compare("!=", term, Const(None, predicate.types[place]), where=literal.where)
