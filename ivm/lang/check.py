"""Check rules before they have types: all names known, recursion that ends, all rules safe.

The predicates of a text and the installed ones share a namespace.  A declared predicate is
extensional: its rows come from transactions.  A predicate in a head is a view: its types come from
its rules.  What is both has become a view of all rows (declarations.py).

Safety: every variable gets its values from a finite set.

A positive atom binds its variables; `x = term` binds x once the term's variables are bound.  Each
variable of a head, a comparison or an aggregate must be bound in its disjunct. Variables bound
around a negation are bound inside it, too, but not the other way round.
"""

from collections.abc import Iterable

from ivm.errors import SafetyError
from ivm.lang.aggregate import check_aggregate, check_sole
from ivm.lang.columns import check_neighbours
from ivm.lang.declarations import check_names
from ivm.lang.ir import Atom, Compare, Disjunct, Negation, Rule, Var, variables
from ivm.lang.program import Program
from ivm.lang.recursion import check_recursion


def check(program: Program, known: Program) -> Program:
    """Return the program; raise a RuleError, with its place, for the first fault that can be
    found without types.
    """
    rules, predicates = program.rules, program.over(known)
    for rule in rules:
        for head, aggregate in zip(rule.heads, rule.aggregates, strict=False):
            check_aggregate(rule, head, aggregate)
        check_safety(rule)
    all_tied = (*known.tied_to(rules), *rules)
    check_sole(all_tied)
    check_names(rules, {*predicates, *(name for rule in rules for name in rule.writes)})
    check_neighbours(all_tied)
    check_recursion(all_tied)
    return program


def check_safety(rule: Rule) -> None:
    """Raise SafetyError at the first variable that nothing binds."""
    needed = _needed(rule)
    for disjunct in rule.body:
        _demand(needed, _check_body(disjunct, frozenset()), disjunct)


def _needed(rule: Rule) -> tuple[Var, ...]:
    results = {v for aggregate in rule.aggregates for v in aggregate.results}
    return tuple(v for v in variables(*rule.heads, *rule.aggregates) if v not in results)


def _check_body(literals: Disjunct, outer: frozenset[str]) -> frozenset[str]:
    """Return the names of variables that these literals bind, with `outer`.  Raises SafetyError
    for any other.
    """
    bound = _bound(literals, outer)
    _demand(variables(*literals), bound, literals)
    for literal in literals:
        if isinstance(literal, Negation):
            _check_body(literal.body, bound)
    return bound


def _bound(literals: Disjunct, outer: frozenset[str]) -> frozenset[str]:
    bound = outer.union(v.name for v in variables(*(x for x in literals if isinstance(x, Atom))))
    open_ = [c for c in literals if isinstance(c, Compare) and c.op == "="]
    while names := {name for c in open_ for name in _defined(c, bound)}:
        bound |= names
    return bound


def _defined(comparison: Compare, bound: frozenset[str]) -> Iterable[str]:
    sides = (comparison.left, comparison.right), (comparison.right, comparison.left)
    for target, source in sides:
        if (
            isinstance(target, Var)
            and target.name not in bound
            and bound.issuperset(v.name for v in variables(source))
        ):
            yield target.name


def _demand(needed: Iterable[Var], bound: frozenset[str], literals: Disjunct) -> None:
    for variable in needed:
        if variable.name not in bound:
            raise SafetyError(
                variable.where, f"{variable.name} is not bound: {_remedy(variable, literals)}"
            )


def _remedy(variable: Var, literals: Disjunct) -> str:
    negations = [n for n in literals if isinstance(n, Negation) and variable in variables(n)]
    if len(negations) > 1:
        return "it occurs in two negations; use another name, or `_`, in each unless a positive atom binds it"
    if negations:
        return (
            "a positive atom outside the negation must bind it, or it needs a name used only inside"
        )
    if any(isinstance(c, Compare) and variable in variables(c) for c in literals):
        return "a comparison binds only by `variable = term`, where the term's variables are bound"
    return "each disjunct needs a positive atom that holds it, or `variable = term`"
