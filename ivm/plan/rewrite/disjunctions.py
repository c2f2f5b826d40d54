"""Read one relation once for an aggregate over a disjunction of comparisons, instead of a view of the body.

    n[g] = t <- agg<<t = count()>> r(k, g, v), (v < 3 ; v > 7).

    n$body(k, g, v) <- r(k, g, v), v < 3 ; r(k, g, v), v > 7.           what lang/normalise.py makes of it
    n[g] = t <- agg<<t = count()>> n$body(k, g, v).

    n[g] = t <- agg<<t = count()>> r(k, g, v), v < 3 ; r(k, g, v), v > 7.

The aggregate's rule then has several conjunctions, of one atom, which become one plan: a scan with a choice among the
comparisons, so that a row counts once.  Disjunctions of different atoms keep the view, which tells their rows apart.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

from ivm.lang.ir import Atom, Compare, Disjunct, Rule, reads, variables
from ivm.lang.program import Program, recursive_names
from ivm.plan.plan import is_sure


def fold_bodies(program: Program) -> Program:
    """Leave out the views of disjunctive bodies of one atom; the rules that read them get their conjunctions."""
    recursive = recursive_names(program.rules)
    readers = Counter(name for rule in program.rules for name in reads(rule))
    bodies = {
        rule.heads[0].predicate: rule
        for rule in program.rules
        if _is_choice(rule) and readers[rule.heads[0].predicate] == 1
        if rule.heads[0].predicate not in recursive
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


def _is_choice(rule: Rule) -> bool:
    """Return whether a rule has the same atom in all its conjunctions, keeps all its variables, and cannot fail where
    the conjunctions differ.
    """
    if len(rule.body) < 2 or len(rule.heads) > 1 or rule.aggregates or rule.failed or rule.range or rule.texts:
        return False
    atoms, others = ([{x for x in d if isinstance(x, Atom) == is_atom} for d in rule.body] for is_atom in (True, False))
    kept, common = {*variables(*rule.heads)}, set.intersection(*others)
    if any(one != atoms[0] for one in atoms) or not kept.issuperset(variables(*chain(*rule.body))):
        return False
    if any(sum(isinstance(x, Atom) for x in disjunct) != 1 for disjunct in rule.body):
        return False
    held = {v.name for v in variables(*atoms[0])}
    return all(isinstance(x, Compare) and (x in common or is_sure(x, held)) for x in chain(*others))


def _body_of(rule: Rule, bodies: Mapping[str, Rule]) -> Rule | None:
    """Return the rule of the view that is the only atom of an aggregate, by the same names; None if there is none."""
    if not rule.aggregates or rule.range or rule.failed or len(rule.body) != 1:
        return None
    atoms = [x for x in rule.body[0] if not isinstance(x, Compare)]
    body = bodies.get(atoms[0].predicate) if len(atoms) == 1 and isinstance(atoms[0], Atom) else None
    return body if body and variables(*body.heads) == variables(*atoms) else None


def _with_body(rule: Rule, body: Rule) -> Rule:
    """Return an aggregate with the conjunctions of a view instead of the view, and its own comparisons in each."""
    own: Disjunct = tuple(x for x in rule.body[0] if isinstance(x, Compare))
    return replace(rule, body=tuple((*disjunct, *own) for disjunct in body.body), types={**body.types, **rule.types})
