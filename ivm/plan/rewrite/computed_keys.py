"""Turn look-ups by a computed key into joins with a helper view, so that the join can seek by the key.

    p(x, n) <- a(x), name[x / 10] = n.

    p$key0(x, d) <- a(x), d = x / 10.          p(x, n) <- p$key0(x, d), name[d] = n.

Without the helper, each row of a would be compared with each row of name.  Only equations between atoms that nothing
else connects are rewritten; others just filter bindings that are joined anyway.  All literals connected to the term's
variables move to the helper, so its rows are filtered as before.  A sum out of range for its type is no failure here,
since no stored value equals it.
"""

from collections.abc import Iterator
from dataclasses import replace

from ivm.lang.ir import Atom, Binary, Compare, Const, Disjunct, Literal, Predicate, Rule, Term, Var
from ivm.lang.traverse import tied, variables
from ivm.lang.types import ends
from ivm.plan.expression import may_fail, type_of
from ivm.plan.linear import linear
from ivm.plan.rewrite.failure import failing
from pagestore.host import KEYS_MAX


def lift_computed(rule: Rule, predicates: dict[str, Predicate]) -> Iterator[Rule]:
    """Yield the helper views of a rule's computed keys, then the rule that reads them; add to `predicates`."""
    body = []
    for disjunct in rule.body:
        found = _helper(rule, disjunct, predicates)
        while found:
            helper, disjunct = found
            yield helper
            found = _helper(rule, disjunct, predicates)
        body.append(disjunct)
    yield replace(rule, body=tuple(body))


def _helper(rule: Rule, disjunct: Disjunct, predicates: dict[str, Predicate]) -> tuple[Rule, Disjunct] | None:
    """Return a helper view for some equations, and the disjunct that reads it instead; None if none is needed."""
    held = {v for x in disjunct if isinstance(x, Atom) for v in variables(x)}
    sought = _sought(rule, disjunct, held)
    for group in _tied([x for x in disjunct if x not in sought], held):
        moved = {x: v for x, v in sought.items() if _reads(x.right, group) and v not in group}
        inner = tuple(x for x in disjunct if _reads(x, group))
        outer = tuple(x for x in disjunct if x not in inner and x not in moved)
        used = group if rule.aggregate else {*variables(*rule.heads, *outer)}  # an aggregate counts all bindings
        columns = tuple(dict.fromkeys([*(v for v in variables(*inner) if v in used), *moved.values()]))
        body = (*inner, *moved, *(guard for x in moved for guard in _within(x.right, rule)))
        fails = may_fail((*inner, *moved), {*moved.values()}, rule.types)
        told = tuple(v for v in variables(*columns, *(x for x in body if isinstance(x, Compare))) if v in held & group)
        if not moved or len(columns) > KEYS_MAX or (fails and len(told) == KEYS_MAX):
            continue
        name = f"{rule.heads[0].predicate}$key{sum('$key' in known for known in predicates)}"
        atom = Atom(name, columns, where=next(iter(moved)).where)
        types, names = tuple(rule.types[v.name] for v in columns), tuple(v.name for v in columns)
        predicates[name] = Predicate(name, types, None, False, names, where=atom.where)
        text = f"{rule.text}  (what it computes)"
        helper = Rule((atom,), (body,), types=rule.types, text=text, where=rule.where)
        return failing(helper, told, predicates) if fails else helper, (atom, *outer)
    return None


def _within(term: Term, rule: Rule) -> tuple[Compare, ...]:
    """Return comparisons that keep a sum within its type; none for other operations, which fail out of range."""
    type_ = type_of(term, rule.types)
    if not isinstance(term, Binary) or term.op not in "+-" or type_ == "float64":
        return ()
    least, greatest = (Const(value, type_) for value in ends(type_))
    return Compare(">=", term, least), Compare("<=", term, greatest)


def _reads(node: Term | Literal, group: set[Var]) -> bool:
    """Return whether a term or literal has variables, all of them in a group."""
    return bool(variables(node)) and group.issuperset(variables(node))


def _sought(rule: Rule, disjunct: Disjunct, held: set[Var]) -> dict[Compare, Var]:
    """Map equations `variable = term` to variables, if atoms hold these and the join cannot seek by the equations."""
    return {
        x: x.left
        for x in disjunct
        if isinstance(x, Compare) and x.op == "=" and isinstance(x.right, Binary)
        if isinstance(x.left, Var) and x.left in held
        if not (_is_shift(x, rule) and held.issuperset(variables(x)))
    }


def _is_shift(equation: Compare, rule: Rule) -> bool:
    """Return whether an equation of two variables lets the join seek each by the other."""
    form = linear(equation, rule.types, lambda const: 0)
    return form is not None and form.seekable and len(form.times) <= 2


def _tied(literals: list[Literal], held: set[Var]) -> list[set[Var]]:
    """Return groups of variables connected by atoms and equations, each with the variables computed from it."""
    equations = [x for x in literals if isinstance(x, Compare) and x.op == "="]
    joins = [x for x in equations if isinstance(x.left, Var) and held.issuperset(variables(x))]
    groups = tied([*(x for x in literals if isinstance(x, Atom)), *joins])
    for x in equations * len(equations):
        for group in groups:
            defined = set(variables(x)) - group
            if len(defined) == 1 and defined <= {x.left, x.right} - held:
                group |= defined
    return groups
