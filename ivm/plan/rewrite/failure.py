"""Handle arithmetic that fails in a helper view: raise only if a binding of the rule itself needs the value.

    p(x) <- a(x), x != 0, !(b(y), c(y / x)).

    p$not0(x) <- b(y), c(d), d = y / x, a(x).          if this fails for x, p$not0$fails gets (x, code)
    p(x) <- a(x), x != 0, !p$not0(x).
    p$refused0(code) <- a(x), x != 0, !p$not0(x), p$not0$fails(x, code).          refused

A literal is true, false, or fails. A conjunction is false if one of its literals is false; otherwise it fails if one of
them fails. So the result depends neither on which literals are helper views nor on their order.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ivm.lang.ir import Atom, Compare, Const, Disjunct, Negation, Predicate, Rule, Var
from ivm.lang.program import Program
from ivm.lang.traverse import variables
from ivm.plan.expression import binaries

CODE = Var("code$")  # which operator failed and why, see plan/expression.py


def failing(helper: Rule, columns: tuple[Var, ...], predicates: dict[str, Predicate]) -> Rule:
    """Give a helper a view of its failing bindings, with these columns and a code; add the view to `predicates`."""
    atom = Atom(f"{helper.heads[0].predicate}$fails", (*columns, CODE), where=helper.where)
    helper = replace(helper, failed=atom, types={**helper.types, CODE.name: "int64"})
    _define(atom, helper, predicates)
    return helper


def refusing(program: Program) -> Program:
    """Add rules that refuse bindings for which a helper fails, or that make the helper which reads it fail."""
    helpers = {rule.heads[0].predicate: rule for rule in program.rules if rule.failed}
    terms = {(x.where.line, x.where.column): x for rule in program.rules for b in rule.body for x in binaries(*b)}
    predicates, rules = dict(program.predicates), list[Rule]()
    for rule in program.rules:
        rules += _sure(rule, helpers, predicates)
        body = tuple(found for disjunct in rule.body for found in _failures(disjunct, helpers))
        if not body:
            continue
        made = replace(rule, heads=(), body=body, aggregates=(), types={**rule.types, CODE.name: "int64"})
        if rule.failed is None:
            count = sum("$refused" in name for name in predicates)
            head = Atom(f"{rule.heads[0].predicate}$refused{count}", (CODE,), where=rule.where)
            _define(head, made, predicates)
            made = replace(made, heads=(head,), refuses=terms, text=f"{rule.text}  (what fails)")
        else:
            made = replace(made, heads=(rule.failed,))
        rules.append(made)
    return replace(program, predicates=predicates, rules=tuple(rules))


def _failures(disjunct: Disjunct, helpers: Mapping[str, Rule]) -> Iterator[Disjunct]:
    """Yield, for each helper in a conjunction, the conjunction in which that helper fails."""
    for literal in disjunct:
        atom = literal.body[0] if isinstance(literal, Negation) else literal
        helper = helpers.get(atom.predicate) if isinstance(atom, Atom) else None
        if helper is None or helper.failed is None:
            continue
        if isinstance(literal, Negation):
            yield (*disjunct, helper.failed)
            continue
        rest = tuple(x for x in disjunct if x is not literal)
        again: Disjunct = ()  # comparisons that compute the columns that the view of failures lacks
        if not set(variables(helper.failed)).issuperset(variables(atom)):
            again = tuple(x for x in helper.body[0] if isinstance(x, Compare))
        yield (*rest, helper.failed, *again)


def _sure(rule: Rule, helpers: Mapping[str, Rule], predicates: dict[str, Predicate]) -> Iterator[Rule]:
    """Restrict a rule to bindings for which the helpers that it negates neither hold nor fail.

    Yields views of their failures, then the rule. Only a helper is changed: another rule is refused if a helper that it
    negates fails.
    """
    body = []
    for disjunct in rule.body:
        sure = list(disjunct)
        for literal in disjunct if rule.failed else ():
            atom = literal.body[0] if isinstance(literal, Negation) else None
            if not isinstance(atom, Atom) or atom.predicate not in helpers:
                continue
            name = f"{atom.predicate}$failing"
            if name not in predicates:
                helper = helpers[atom.predicate]
                assert helper.failed
                head, zero = replace(helper.heads[0], predicate=name), tuple(_zeros(helper))
                made = replace(helper, heads=(head,), body=((helper.failed, *zero),), failed=None)
                _define(head, made, predicates)
                yield made
            sure.append(Negation((replace(atom, predicate=name),), where=literal.where))
        body.append(tuple(sure))
    yield replace(rule, body=tuple(body))


def _zeros(helper: Rule) -> Iterator[Compare]:
    """Yield equations x = 0 for the columns of a helper that its view of failures lacks."""
    assert helper.failed
    for v in variables(*helper.heads):
        if v not in variables(helper.failed):
            yield Compare("=", v, Const(0, "int64"))


def _define(head: Atom, rule: Rule, predicates: dict[str, Predicate]) -> None:
    names = tuple(v.name for v in variables(head))
    types = tuple(rule.types[name] for name in names)
    predicates[head.predicate] = Predicate(head.predicate, types, None, False, names, where=head.where)
