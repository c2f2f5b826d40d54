"""What fails in a view of its own, as one more view, so that it is refused only where a binding of the rule has it.

    p(x) <- a(x), x != 0, !(b(y), c(y / x)).

    p$not0(x) <- b(y), c(d), d = y / x, a(x).          where this fails, x goes to p$not0$fails(x, code)
    p(x) <- a(x), x != 0, !p$not0(x).
    p$refused0(code) <- a(x), x != 0, !p$not0(x), p$not0$fails(x, code).          refused

A literal holds, does not hold, or fails; a conjunction does not hold if one of its literals does not, and otherwise
fails if one does. So it is the same which of them are views of their own, and in what order they stand.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ivm.lang.ir import Atom, Compare, Const, Disjunct, Negation, Predicate, Rule, Var
from ivm.lang.program import Program
from ivm.lang.traverse import variables
from ivm.plan.expression import binaries

CODE = Var("code$")  # of a failure, see plan/expression.py


def failing(helper: Rule, columns: tuple[Var, ...], predicates: dict[str, Predicate]) -> Rule:
    """A helper whose arithmetic may fail, with a view of some of its columns for where it does."""
    atom = Atom(f"{helper.heads[0].predicate}$fails", (*columns, CODE), where=helper.where)
    helper = replace(helper, failed=atom, types={**helper.types, CODE.name: "int64"})
    _define(atom, helper, predicates)
    return helper


def refusing(program: Program) -> Program:
    """Rules and their helpers, with rules that refuse what fails in helpers, or make it fail in a helper of theirs."""
    helpers = {rule.heads[0].predicate: rule for rule in program.rules if rule.failed}
    terms = {(x.where.line, x.where.column): x for rule in program.rules for b in rule.body for x in binaries(*b)}
    predicates, rules = dict(program.predicates), list[Rule]()
    for rule in program.rules:
        rules += _sure(rule, helpers, predicates)
        body = tuple(found for disjunct in rule.body for found in _failures(disjunct, helpers))
        if not body:
            continue
        made = replace(rule, heads=(), body=body, aggregate=None, types={**rule.types, CODE.name: "int64"})
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
    """A conjunction where one of its helpers fails, for each of them."""
    for literal in disjunct:
        atom = literal.body[0] if isinstance(literal, Negation) else literal
        helper = helpers.get(atom.predicate) if isinstance(atom, Atom) else None
        if helper is None or helper.failed is None:
            continue
        if isinstance(literal, Negation):
            yield (*disjunct, helper.failed)
            continue
        rest = tuple(x for x in disjunct if x is not literal)
        again: Disjunct = ()  # where one of its columns is not known, all others have to be as they were
        if not set(variables(helper.failed)).issuperset(variables(atom)):
            again = tuple(x for x in helper.body[0] if isinstance(x, Compare))
        yield (*rest, helper.failed, *again)


def _sure(rule: Rule, helpers: Mapping[str, Rule], predicates: dict[str, Predicate]) -> Iterator[Rule]:
    """A helper that holds only where what it negates neither does nor fails, behind views of where that fails.

    A rule that is no helper needs none: where it fails it is refused.
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
    """What fills the columns of a helper that has none of the rule's."""
    assert helper.failed
    for v in variables(*helper.heads):
        if v not in variables(helper.failed):
            yield Compare("=", v, Const(0, "int64"))


def _define(head: Atom, rule: Rule, predicates: dict[str, Predicate]) -> None:
    names = tuple(v.name for v in variables(head))
    types = tuple(rule.types[name] for name in names)
    predicates[head.predicate] = Predicate(head.predicate, types, None, False, names, where=head.where)
