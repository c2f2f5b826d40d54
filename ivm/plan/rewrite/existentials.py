"""What only has to be there somewhere, as a view of one row, so that it does not multiply what is asked for.

    p(x) <- a(x), b(y, z), y < z.

    p$some0(0) <- b(y, z), y < z.          p(x) <- a(x), p$some0(0).

Each x would be derived once for every such row of b, and counted as often: a change of b would pass over all of a.
An aggregate counts every binding, so it stays as it is.
"""

from collections.abc import Iterator
from dataclasses import replace

from ivm.lang.ir import Atom, Compare, Disjunct, Predicate, Rule, Var
from ivm.lang.traverse import tied, variables
from ivm.plan.expression import may_fail
from ivm.plan.rewrite.failure import failing
from ivm.plan.rewrite.negation import ZERO

ONLY = Var("only$")


def lift_existentials(rule: Rule, predicates: dict[str, Predicate]) -> Iterator[Rule]:
    """A rule behind views of what only has to be there."""
    for one in _split(rule):
        yield from _lifted(one, predicates)


def _split(rule: Rule) -> tuple[Rule, ...]:
    """A rule for each head, where one head asks for less than all heads do together."""
    rules = tuple(replace(rule, heads=(head,)) for head in rule.heads)
    less = any(len(_apart(one, disjunct)) > len(_apart(rule, disjunct)) for one in rules for disjunct in rule.body)
    return rules if less else (rule,)


def _lifted(rule: Rule, predicates: dict[str, Predicate]) -> Iterator[Rule]:
    body = []
    for disjunct in rule.body:
        for group in _apart(rule, disjunct):
            name = f"{rule.heads[0].predicate}$some{sum('$some' in known for known in predicates)}"
            predicates[name] = Predicate(name, ("int64",), None, False, (ONLY.name,), where=rule.where)
            helper = _helper(name, group, rule)
            yield failing(helper, (), predicates) if may_fail(group, set(), rule.types) else helper
            left = tuple(x for x in disjunct if x not in group)
            disjunct = (*left, Atom(name, (ZERO,), where=rule.where))
        body.append(disjunct)
    yield replace(rule, body=tuple(body))


def _helper(name: str, group: Disjunct, rule: Rule) -> Rule:
    text, types = f"{rule.text}  (what has to be there)", {**rule.types, ONLY.name: "int64"}
    body = (*group, Compare("=", ONLY, ZERO))
    return Rule((Atom(name, (ONLY,), where=rule.where),), (body,), types=types, text=text, where=rule.where)


def _apart(rule: Rule, disjunct: Disjunct) -> list[Disjunct]:
    """The parts of a conjunction that no variable ties to the heads, nor to the rest, if there is a rest."""
    if rule.aggregate:
        return []
    groups = [(names, tuple(x for x in disjunct if not names.isdisjoint(variables(x)))) for names in tied(disjunct)]
    heads, several = set(variables(*rule.heads)), sum(any(isinstance(x, Atom) for x in g) for _, g in groups) > 1
    return [literals for names, literals in groups if several and names.isdisjoint(heads) and _is_many(literals)]


def _is_many(literals: Disjunct) -> bool:
    """Whether there may be several of what has to be there: the value of a function without keys is one."""
    return any(isinstance(x, Atom) and any(isinstance(term, Var) for term in x.args) for x in literals)
