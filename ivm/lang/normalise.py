"""Turn a tree into rules: disjuncts, with every negation at an atom or a conjunction.

Three steps:

    hoist    nested terms get names (hoist.py)
    scope    a variable that occurs only in the body belongs to the smallest conjunction around its uses
    expand   disjunctive normal form; !(A ; B) becomes !A, !B; !!A becomes A; !(x < y) becomes x >= y

A negation has the variables of its own scope in `exists`.  An aggregate counts each binding of the variables of the
head and the outermost conjunction once; if expansion binds other variables too, or makes several disjuncts, the body
moves to an auxiliary view over those variables.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from ivm.errors import ConstructError, RuleSyntaxError, Where
from ivm.lang.hoist import Conj, Disj, Hoist, Part, Refusal
from ivm.lang.ir import Aggregate, Atom, Compare, Disjunct, Literal, Negation, Rule, Var
from ivm.lang.syntax_tree import Clause
from ivm.lang.traverse import renamed, variables

DISJUNCTS_MAX = 64
NEGATED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def normalise(clause: Clause) -> list[Rule]:
    """Return the rules of a clause: one, or an auxiliary view and the aggregate over it.  Raises RuleError."""
    hoist = Hoist(clause)
    heads, aggregates, body = hoist.clause()
    if not clause.body.items and not any(isinstance(part, Atom) for part in body.parts):
        reason = f"a rule needs a body; to insert a row write +{heads[0].predicate}..."
        raise RuleSyntaxError(clause.where, reason)
    bound = _in_heads(heads, aggregates)
    disjuncts = _distinct(_expand(body, bound, clause.where), hoist.fresh)
    rule = Rule(heads, disjuncts, aggregates, where=clause.where, text=clause.text)
    scope = bound | _own(body, bound)
    if not aggregates or _counts_once(disjuncts, scope):
        return [rule]
    *helpers, rule = _through_auxiliary(rule, scope)
    return [*helpers, rule]


def _in_heads(heads: tuple[Atom, ...], aggregates: tuple[Aggregate, ...]) -> set[Var]:
    return {*variables(*heads, *aggregates)}.difference(*(one.results for one in aggregates))


def _counts_once(disjuncts: tuple[Disjunct, ...], scope: set[Var]) -> bool:
    return len(disjuncts) == 1 and scope.issuperset(variables(*disjuncts[0]))


def _through_auxiliary(rule: Rule, scope: set[Var]) -> list[Rule]:
    free = dict.fromkeys(v for disjunct in rule.body for v in variables(*disjunct))
    args = tuple(v for v in free if v in scope)
    atom = Atom(f"{rule.heads[0].predicate}$body", args, where=rule.where)
    return [replace(rule, heads=(atom,), aggregates=()), replace(rule, body=((atom,),))]


# -- scope


def _own(body: Conj, outer: set[Var]) -> set[Var]:
    """Return the variables scoped to this conjunction: those in a literal of it, or in two of its parts."""
    uses: Counter[Var] = Counter()
    for part in body.parts:
        match part:
            case Atom() | Compare():
                uses.update(2 * variables(part))
            case Disj():
                for option in part.options:
                    uses.update(_mentioned(option))
            case Refusal():
                uses.update(_mentioned(part.body))
    return {v for v, n in uses.items() if n > 1} - outer


def _mentioned(body: Conj) -> set[Var]:
    found: set[Var] = set()
    for part in body.parts:
        match part:
            case Atom() | Compare():
                found.update(variables(part))
            case Disj():
                found.update(*map(_mentioned, part.options))
            case Refusal():
                found.update(_mentioned(part.body))
    return found


# -- expand


def _expand(body: Conj, outer: set[Var], where: Where) -> list[Disjunct]:
    """Return the disjuncts of a conjunction; enclosing scopes own the variables `outer`."""
    scope = outer | _own(body, outer)
    return _product([_disjuncts(part, scope, where) for part in body.parts], where)


def _disjuncts(part: Part, scope: set[Var], where: Where) -> list[Disjunct]:
    match part:
        case Disj():
            return [disjunct for option in part.options for disjunct in _expand(option, scope, where)]
        case Refusal():
            refuted = [_refute(d, scope, part.where) for d in _expand(part.body, scope, where)]
            return _product(refuted, where)
        case _:
            return [(part,)]


def _product(factors: list[list[Disjunct]], where: Where) -> list[Disjunct]:
    product: list[Disjunct] = [()]
    for factor in factors:
        product = [done + disjunct for done in product for disjunct in factor]
        if len(product) > DISJUNCTS_MAX:
            reason = f"more than {DISJUNCTS_MAX} disjuncts: give some of its disjunctions a view of their own"
            raise ConstructError(where, f"written out, this rule has {reason}")
    return product


def _refute(disjunct: Disjunct, scope: set[Var], where: Where) -> list[Disjunct]:
    """Return the disjuncts of `!disjunct`."""
    exists = tuple(v for v in variables(*disjunct) if v not in scope)
    if len(disjunct) == 1 and isinstance(disjunct[0], Negation):
        return [disjunct[0].body]
    if not exists and all(isinstance(literal, Compare) for literal in disjunct):
        return [(_negated(literal),) for literal in disjunct if isinstance(literal, Compare)]
    return [(Negation(disjunct, exists, where=where),)]


def _negated(comparison: Compare) -> Compare:
    return replace(comparison, op=NEGATED[comparison.op])


# -- hidden variables


def _distinct(disjuncts: Iterable[Disjunct], fresh: Iterator[Var]) -> tuple[Disjunct, ...]:
    """Rename apart each negation's own variables, since expansion may have copied a negation."""
    hidden: set[Var] = set()
    return tuple(tuple(_rename_hidden(literal, {}, hidden, fresh) for literal in disjunct) for disjunct in disjuncts)


def _rename_hidden(literal: Literal, names: Mapping[Var, Var], hidden: set[Var], fresh: Iterator[Var]) -> Literal:
    if not isinstance(literal, Negation):
        atom_or_comparison: Literal = renamed(literal, names)
        return atom_or_comparison
    own = {v: replace(next(fresh), where=v.where) if v in hidden else v for v in literal.exists}
    hidden.update(own.values())
    body = tuple(_rename_hidden(inner, {**names, **own}, hidden, fresh) for inner in literal.body)
    return replace(literal, body=body, exists=tuple(own.values()))
