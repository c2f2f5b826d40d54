"""Turn negated conjunctions into helper views, so that the join only negates single atoms.

    p(x) <- a(x), !(edge(x, y), b(y)).

    p$not0(x) <- edge(x, y), b(y).          p(x) <- a(x), !p$not0(x).

The helper is maintained like any view. It has a support count for the variables that it projects away, so the join need
not search for another witness of a refuted binding.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace

from ivm.errors import ConstructError
from ivm.lang.ir import Atom, Compare, Const, Disjunct, Literal, Negation, Predicate, Rule, Var
from ivm.lang.traverse import variables
from ivm.plan.expression import may_fail
from ivm.plan.rewrite.failure import failing

NO_COLUMN, ZERO = Var("nothing$"), Const(0, "int64")


def lift_negations(rule: Rule, predicates: dict[str, Predicate], recursive: Container[str] = ()) -> Iterator[Rule]:
    """Yield the helper views of a rule's negations, then the rule, which negates single atoms; add to `predicates`.

    A helper reads none of the views `recursive`: it must be complete before they are evaluated. Raises ConstructError
    if it would have to.
    """
    reads = recursive if any(head.predicate in recursive for head in rule.heads) else ()
    return _Lift(predicates, reads).rules(rule)


class _Lift:
    """Collects the helpers of one rule."""

    def __init__(self, predicates: dict[str, Predicate], recursive: Container[str] = ()) -> None:
        self._predicates, self._recursive = predicates, recursive
        self._helpers: list[Rule] = []

    def rules(self, rule: Rule) -> Iterator[Rule]:
        body = tuple(tuple(self._literal(rule, disjunct, literal) for literal in disjunct) for disjunct in rule.body)
        for helper in self._helpers:
            yield from _Lift(self._predicates).rules(helper)
        yield replace(rule, body=body)

    def _literal(self, rule: Rule, disjunct: Disjunct, literal: Literal) -> Literal:
        if not isinstance(literal, Negation):
            return literal
        held = {v for atom in disjunct if isinstance(atom, Atom) for v in variables(atom)}
        if _simple(literal, held):
            return literal
        free, equations = _sources(literal, held, disjunct)
        name = f"{rule.heads[0].predicate}$not{len(self._helpers)}"
        while name in self._predicates:
            name += "_"
        around = tuple(x for x in disjunct if not (isinstance(x, Atom) and x.predicate in self._recursive))
        body = _bound(literal, free, equations, around, rule.types)
        known = {v for x in body if isinstance(x, Atom) for v in variables(x)}
        if around != disjunct and not known.issuperset(free):
            needed = ", ".join(v.name for v in free if v not in known)
            raise ConstructError(
                literal.where, f"the negation needs {needed} from a view that reads itself; derive what is negated as "
                "a view of its own, with those variables bound"
            )  # fmt: skip
        head, probe = Atom(name, free, where=literal.where), Atom(name, free, where=literal.where)
        types = {**rule.types, NO_COLUMN.name: "int64"}
        if not free:  # the helper holds one row, or none
            head, probe = replace(head, args=(NO_COLUMN,)), replace(probe, args=(ZERO,))
            body += (Compare("=", NO_COLUMN, ZERO),)
        columns = tuple(v.name for v in variables(head))
        self._predicates[name] = Predicate(
            name, tuple(types[c] for c in columns), None, False, columns, where=literal.where
        )
        helper = _rule(head, body, types, rule)
        self._helpers.append(failing(helper, free, self._predicates) if may_fail(body, set(), types) else helper)
        return Negation((probe,), where=literal.where)


def _simple(negation: Negation, held: set[Var]) -> bool:
    """Return whether it is one atom without local or computed variables or a value, which the join can look up."""
    if len(negation.body) != 1 or negation.exists:
        return False
    atom = negation.body[0]
    return isinstance(atom, Atom) and not isinstance(atom.value, Var) and held.issuperset(variables(atom))


def _sources(negation: Negation, held: set[Var], around: Disjunct) -> tuple[tuple[Var, ...], Disjunct]:
    """Return the outer atoms' variables that determine those of a negation, and the equations that compute these."""
    found, equations = list(variables(negation)), dict[Literal, None]()
    for v in found:  # grows
        if v not in held:
            its = [c for c in around if isinstance(c, Compare) and c.op == "=" and v in (c.left, c.right)]
            equations |= dict.fromkeys(its)
            found += [w for c in its for w in variables(c) if w not in found]
    return tuple(dict.fromkeys(v for v in found if v in held)), tuple(equations)


def _bound(
    negation: Negation, free: tuple[Var, ...], equations: Disjunct, around: Disjunct, types: Mapping[str, str]
) -> Disjunct:
    """Return the body of a helper: the negated literals, and the atoms and equations around them if needed.

    They are needed if the negation does not bind the helper's columns itself or reads computed variables.  Other
    comparisons around it are then included if they cannot fail, since they make the helper smaller.
    """
    here = {v for atom in negation.body if isinstance(atom, Atom) for v in variables(atom)}
    if here.issuperset(free) and set(free).issuperset(variables(negation)):
        return negation.body
    held = {v for x in around if isinstance(x, Atom) for v in variables(x)}
    known = held.union(variables(*equations))
    filters = (
        x
        for x in around
        if isinstance(x, Compare) and known.issuperset(variables(x)) and not may_fail((x,), known, types)
    )
    atoms = tuple(x for x in around if isinstance(x, Atom))
    return (*atoms, *dict.fromkeys((*equations, *filters)), *negation.body)


def _rule(head: Atom, body: Disjunct, types: Mapping[str, str], rule: Rule) -> Rule:
    return Rule((head,), (body,), types=types, text=f"{rule.text}  (its negation)", where=head.where)
