"""Give an aggregate over a disjunction the conjunctions themselves, instead of a view of the body.

    n[g] = t <- agg<<t = count()>> r(k, g, v), (v < 3 ; v > 7).

    n$body(k, g, v) <- r(k, g, v), v < 3 ; r(k, g, v), v > 7.           what lang/normalise.py makes of it
    n[g] = t <- agg<<t = count()>> n$body(k, g, v).

    n[g] = t <- agg<<t = count()>> r(k, g, v), v < 3 ; r(k, g, v), v > 7.

These conjunctions of one atom become one plan: a scan with a choice among the comparisons, so that
a row counts once. Where atoms differ, each conjunction gets what those before it do not hold of:

    n[g] = t <- agg<<t = count()>> r(k, g, v), (v < 3, a[g] = x, x > 5 ; b(g)).

    n[g] = t <- agg<<t = count()>> r(k, g, v), v < 3, a[g] = x, x > 5 ; r(k, g, v), b(g), v >= 3 ;
                                   r(k, g, v), b(g), v < 3, !(a[g] = x, x > 5).

The view stays where a binding of the body may have several rows of an atom, or something may be
null.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from ivm.lang.ir import (
    MIRRORED,
    NEGATED,
    Atom,
    Compare,
    Const,
    Disjunct,
    Literal,
    Negation,
    Predicate,
    Rule,
    Type,
    Var,
    renamed,
    tied,
    variables,
)
from ivm.lang.nulls import may_be_null, tests_null
from ivm.lang.program import NOTHING, Program, recursive_names
from ivm.names import is_body
from ivm.plan.conjunction import ChoiceConjunction
from ivm.terms.evaluator import COMPARE, may_fail

CONJUNCTIONS_MAX = 16  # of one aggregate; each is a plan


def fold_bodies(program: Program) -> Program:
    """Leave out the views of disjunctive bodies of one atom; the aggregates that read them get
    their conjunctions.
    """
    return _without_views(
        program, lambda body: body if _keeps_all(body) and ChoiceConjunction.joins(body) else None
    )


def separate_bodies(program: Program, known: Program = NOTHING) -> Program:
    """Leave out the views of disjunctions of joins; the aggregates that read them get conjunctions
    that exclude each other.
    """
    predicates = program.over(known)
    made = _without_views(
        program,
        lambda body: (
            None if ChoiceConjunction.joins(body) else _Separation(body, predicates).rule()
        ),
    )
    return program if made.rules == program.rules else replace(made, lean=True)


def _without_views(program: Program, conjunctions: Callable[[Rule], Rule | None]) -> Program:
    """Leave out the views of bodies for which there are `conjunctions`; the aggregates that read
    them get these.
    """
    recursive = recursive_names(program.rules)
    readers = Counter(name for rule in program.rules for name in rule.reads)
    bodies = {
        rule.heads[0].predicate: found
        for rule in program.rules
        if _is_body(rule)
        and readers[rule.heads[0].predicate] == 1
        and rule.heads[0].predicate not in recursive
        if (found := conjunctions(rule))
    }
    rules, folded = list[Rule](), set[str]()
    for rule in program.rules:
        body = _body_of(rule, bodies)
        if body:
            rule = _with_body(rule, body)
            folded.add(body.heads[0].predicate)
        rules.append(rule)
    left = (rule for rule in rules if rule.heads[0].predicate not in folded)
    predicates = {name: one for name, one in program.predicates.items() if name not in folded}
    return replace(program, predicates=predicates, rules=tuple(left))


def _is_body(rule: Rule) -> bool:
    """Return whether a rule derives what an aggregate ranges over, from several conjunctions."""
    plain = (
        not (rule.aggregates or rule.failed or rule.range or rule.texts) and len(rule.heads) == 1
    )
    return plain and len(rule.body) > 1 and is_body(rule.heads[0].predicate)


def _keeps_all(rule: Rule) -> bool:
    return {*variables(*rule.heads)}.issuperset(
        variables(*(x for disjunct in rule.body for x in disjunct))
    )


def _body_of(rule: Rule, bodies: Mapping[str, Rule]) -> Rule | None:
    """Return the rule of the view that is the only atom of an aggregate, by the same names; None
    if there is none.
    """
    if not rule.aggregates or rule.range or rule.failed or len(rule.body) != 1:
        return None
    atoms = [x for x in rule.body[0] if not isinstance(x, Compare)]
    body = (
        bodies.get(atoms[0].predicate) if len(atoms) == 1 and isinstance(atoms[0], Atom) else None
    )
    return body if body and variables(*body.heads) == variables(*atoms) else None


def _with_body(rule: Rule, body: Rule) -> Rule:
    """Return an aggregate with the conjunctions of a view instead of the view, and its own
    comparisons in each.
    """
    own: Disjunct = tuple(x for x in rule.body[0] if isinstance(x, Compare))
    return replace(
        rule,
        body=tuple((*disjunct, *own) for disjunct in body.body),
        types={**body.types, **rule.types},
    )


class _Part(NamedTuple):
    """Literals of a conjunction that share variables of their own, which are `own`."""

    literals: Disjunct
    own: tuple[Var, ...]

    @property
    def refuted(self) -> Literal:
        """The literal that holds where these do not."""
        first = self.literals[0]
        if len(self.literals) > 1 or self.own or isinstance(first, Atom):
            return Negation(self.literals, self.own, where=first.where)
        return (
            first.body[0] if isinstance(first, Negation) else replace(first, op=NEGATED[first.op])
        )


class _Separation:
    """Makes the conjunctions of a body exclude each other."""

    def __init__(self, body: Rule, predicates: Mapping[str, Predicate]) -> None:
        self._body, self._predicates, self._kept = body, predicates, {*variables(*body.heads)}
        self._types: dict[str, Type] = {**body.types}

    def rule(self) -> Rule | None:
        """Return the rule with such conjunctions; None if a view of its rows is needed, or there
        would be too many.
        """
        if not all(map(self._is_simple, self._body.body)):
            return None
        found = list[Disjunct]()
        for place, disjunct in enumerate(self._body.body):
            ways = [disjunct]
            for earlier in range(place):
                ways = [one for way in ways for one in self._without(way, earlier)]
            found += ways
            if len(found) > CONJUNCTIONS_MAX:
                return None
        return replace(self._body, body=tuple(found), types=self._types)

    def _is_simple(self, disjunct: Disjunct) -> bool:
        """Return whether a row of the body has one binding of a conjunction, and what others
        lack can be refuted.
        """
        atoms = [x for x in disjunct if isinstance(x, Atom)]
        own = tuple(x for x in disjunct if not all(x in other for other in self._body.body))
        nulls = any(may_be_null(disjunct, self._predicates).values())
        if nulls or may_fail(own, {*variables(*atoms)}, self._body.types):
            return False
        for x in own:
            if isinstance(x, Negation) and (
                x.exists or len(x.body) > 1 or not isinstance(x.body[0], Atom)
            ):
                return False
            if isinstance(x, Compare) and tests_null(x):
                return False
        return self._named(atoms, ()).keys() >= {*variables(*disjunct)}

    def _named(self, atoms: list[Atom], way: Disjunct) -> dict[Var, Var]:
        """Return the variables that a row of the body determines, by keys of atoms, each with its
        name in a conjunction `way` that has the same row of an atom.
        """
        names, waiting = {v: v for v in self._kept}, [*atoms]
        while one := next(
            (a for a in waiting if names.keys() >= {*variables(*self._key(a))}), None
        ):
            waiting.remove(one)
            key = [renamed(term, names) for term in self._key(one)]
            alike = (a for a in way if isinstance(a, Atom) and a.predicate == one.predicate)
            same = next((a for a in alike if [*self._key(a)] == key), one)
            for own, other in zip(one.terms[len(key) :], same.terms[len(key) :], strict=True):
                if isinstance(own, Var) and own not in names:
                    names[own] = other if isinstance(other, Var) else own
        return names

    def _key(self, atom: Atom) -> tuple[Var | Const, ...]:
        """Return the terms of an atom that identify its row."""
        return atom.args[: self._predicates[atom.predicate].key_count]

    def _without(self, way: Disjunct, earlier: int) -> Iterator[Disjunct]:
        """Yield conjunctions that hold where one does and an earlier one does not, of which no
        two hold together.
        """
        for part in self._parts(way, earlier):
            if _exclude_each_other((*way, *part.literals)):
                yield way
                return
            other = (*way, part.refuted)
            if not _exclude_each_other(other):
                yield other
            way = (*way, *part.literals)

    def _parts(self, way: Disjunct, earlier: int) -> list[_Part]:
        """Return what an earlier conjunction has and another one lacks, comparisons first."""
        fresh = {
            v: replace(v, name=f"{v.name}$or{earlier}")
            for v in variables(*self._body.body[earlier])
        }
        fresh = {v: new for v, new in fresh.items() if v not in self._kept}
        self._types |= {new.name: self._types[v.name] for v, new in fresh.items()}
        disjunct = [renamed(x, fresh) for x in self._body.body[earlier]]
        names = self._named([x for x in disjunct if isinstance(x, Atom)], way)
        left = [one for x in disjunct if (one := renamed(x, names)) not in way]
        own = {*variables(*left)}.difference(self._kept, variables(*way))
        groups = tied(Atom("", (*own.intersection(variables(x)),)) for x in left)
        alone = [_Part((x,), ()) for x in left if own.isdisjoint(variables(x))]
        alone.sort(key=lambda part: not isinstance(part.literals[0], Compare))
        of_groups = (
            tuple(x for x in left if not group.isdisjoint(variables(x))) for group in groups
        )
        return [
            *alone,
            *(_Part(some, tuple(v for v in variables(*some) if v in own)) for some in of_groups),
        ]


def _exclude_each_other(literals: Disjunct) -> bool:
    """Return whether comparisons of one variable with constants hold for no value together."""
    found = [one for x in literals if (one := _limit(x))]
    return any(_are_apart(one, other) for one, other in combinations(found, 2))


def _limit(literal: Literal) -> tuple[Var, str, Const] | None:
    """Return a comparison of a variable with a constant, the variable first."""
    match literal:
        case Compare(op, Var() as x, Const() as const):
            return x, op, const
        case Compare(op, Const() as const, Var() as x):
            return x, MIRRORED[op], const
    return None


def _are_apart(one: tuple[Var, str, Const], other: tuple[Var, str, Const]) -> bool:
    (x, op, a), (y, other_op, b) = one, other
    if x != y or a.type != b.type or a.value is None or b.value is None:
        return False
    if "=" in (op, other_op):
        return not (
            COMPARE[other_op](a.value, b.value) if op == "=" else COMPARE[op](b.value, a.value)
        )
    if {op[0], other_op[0]} != {"<", ">"}:
        return False
    low, high = (a.value, b.value) if op[0] == ">" else (b.value, a.value)
    return not COMPARE["<=" if op[1:] == other_op[1:] == "=" else "<"](low, high)
