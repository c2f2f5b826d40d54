"""Turn an existential part of a body, which must hold for some values only, into a helper view of one row.

    p(x) <- a(x), b(y, z), y < z.

    p$some0(0) <- b(y, z), y < z.          p(x) <- a(x), p$some0(0).

Without the helper, each x would be derived once per row of b with y < z, and a change of b would scan all of a.  An
aggregating rule counts every binding, so it is not rewritten.
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
    """Yield the helper views of a rule's existential parts, then the rules that read them; add to `predicates`."""
    for one in _split(rule):
        yield from _lifted(one, predicates)


def _split(rule: Rule) -> tuple[Rule, ...]:
    """Split a rule by heads if some head alone leaves more parts existential than all heads together."""
    rules = tuple(replace(rule, heads=(head,)) for head in rule.heads)
    less = any(
        len(_untied_parts(one, disjunct)) > len(_untied_parts(rule, disjunct))
        for one in rules
        for disjunct in rule.body
    )
    return rules if less else (rule,)


def _lifted(rule: Rule, predicates: dict[str, Predicate]) -> Iterator[Rule]:
    body = []
    for disjunct in rule.body:
        for group in _untied_parts(rule, disjunct):
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


def _untied_parts(rule: Rule, disjunct: Disjunct) -> list[Disjunct]:
    """Return the parts that share no variable with the heads or other parts; none if there is only one part."""
    if rule.aggregate:
        return []
    groups = [(names, tuple(x for x in disjunct if not names.isdisjoint(variables(x)))) for names in tied(disjunct)]
    heads, several = set(variables(*rule.heads)), sum(any(isinstance(x, Atom) for x in g) for _, g in groups) > 1
    return [literals for names, literals in groups if several and names.isdisjoint(heads) and _is_many(literals)]


def _is_many(literals: Disjunct) -> bool:
    """Return whether some atom can hold for several bindings: a function without keys has only one value."""
    return any(isinstance(x, Atom) and any(isinstance(term, Var) for term in x.args) for x in literals)
