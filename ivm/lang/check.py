"""Check statements and make a program of them: all names known, all rules safe and typed, in order of evaluation.

The predicates of a text and the installed ones share a namespace.  A declared predicate is extensional: its rows come
from transactions.  A predicate in a head is a view: its types come from its rules.  No predicate is both.

Safety: every variable gets its values from a finite set.

A positive atom binds its variables; `x = term` binds x once the term's variables are bound.  Each
variable of a head, a comparison or an aggregate must be bound in its disjunct. Variables bound around a negation are
bound inside it, too, but not the other way round.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from ivm.errors import RecursionRefusedError, RedefinitionError, RuleSyntaxError, RuleTypeError, SafetyError
from ivm.lang.aggregate import check_aggregate, check_sole, in_key_order
from ivm.lang.columns import check_neighbours, check_ordered, with_columns, with_neighbours, with_one_atom_a_row
from ivm.lang.declarations import check_arity, check_names, declare, edit, split
from ivm.lang.infer import infer
from ivm.lang.ir import Atom, Compare, Disjunct, Negation, Predicate, Rule, Var, atoms, reads, variables, writes
from ivm.lang.normalise import normalise
from ivm.lang.nulls import nullable_places, skipping_nulls, without_nulls
from ivm.lang.program import Program, Stratum, strata_of
from ivm.lang.recursion import check_recursion, prepare
from ivm.lang.syntax_tree import BAG, Application, Change, Clause, Declaration, Statement
from ivm.lang.types import common


def check(statements: Sequence[Statement], known: Program, merging: bool = True) -> Program:
    """Return what the statements add to `known`; raise the first fault as a RuleError with its place.

    Without `merging`, each column of a row is read by an atom of its own.
    """
    predicates = dict(known.predicates)
    statements, bags = _without_bags(statements)
    declare((s for s in statements if isinstance(s, Declaration)), predicates)
    names = {*predicates, *(split(head)[0].name for s in statements if isinstance(s, Clause) for head in s.heads)}
    rules = [with_columns(r, predicates) for s in statements if isinstance(s, Clause) for r in normalise(s, names)]
    whole = [with_one_atom_a_row(rule, predicates) for rule in rules] if merging else rules
    merged, rules = whole != rules, [in_key_order(rule, predicates) for rule in whole]
    rules = prepare(with_neighbours(rules, predicates), known.rules)
    _check_form(rules, known, predicates)
    installed = {id(rule) for rule in known.rules}
    typed = tuple(
        rule
        for stratum in strata_of((*known.rules, *rules))
        for rule in _typed_stratum(stratum, [r for r in stratum.rules if id(r) not in installed], predicates)
    )
    for variable in bags:
        predicates[variable.name] = _as_bag(variable, predicates, typed)
    edits = tuple(edit(s, predicates) for s in statements if isinstance(s, Change))
    added = {name: p for name, p in predicates.items() if known.predicates.get(name) is not p}
    return Program(added, typed, edits, merged=merged)


def _without_bags(statements: Sequence[Statement]) -> tuple[list[Statement], list[Var]]:
    """Return the statements but `lang:bag(v).`, and the names in these."""
    others, bags = list[Statement](), list[Var]()
    for statement in statements:
        head = statement.heads[0] if isinstance(statement, Clause) else None
        if not (isinstance(head, Application) and head.name == BAG):
            others.append(statement)
        elif len(head.args) == 1 and isinstance(head.args[0], Var):
            bags.append(head.args[0])
        else:
            raise RuleSyntaxError(head.where, f"{BAG} takes the name of a view, as in {BAG}(v).")
    return others, bags


def _as_bag(variable: Var, predicates: Mapping[str, Predicate], rules: Sequence[Rule]) -> Predicate:
    """Return a view of this text as a bag.  Raises RuleTypeError unless it counts or adds."""
    name = variable.name
    ops = [one.op for rule in rules for head, one in zip(rule.heads, rule.aggregates, strict=False)
           if head.predicate == name]  # fmt: skip
    found = predicates.get(name)
    if found is None or ops not in (["count"], ["sum"]) or found.value != "int64" or not found.keys:
        raise RuleTypeError(
            variable.where, f"{name} is not a view of this text that counts rows, as in {name}[x] = n <- "
            "agg<<n = count()>> edge(x, _), or adds multiplicities by sum"
        )  # fmt: skip
    return replace(found, bag=True)


def _check_form(rules: Sequence[Rule], known: Program, predicates: Mapping[str, Predicate]) -> None:
    """Raise a RuleError for a fault that can be found without types."""
    for rule in rules:
        _check_heads_are_views(rule, predicates)
        for head, aggregate in zip(rule.heads, rule.aggregates, strict=False):
            check_aggregate(rule, head, aggregate)
        check_safety(rule)
    check_sole((*known.rules, *rules))
    check_names(rules, {*predicates, *(name for rule in rules for name in writes(rule))})
    check_neighbours((*known.rules, *rules))
    check_recursion((*known.rules, *rules))


def _check_heads_are_views(rule: Rule, predicates: Mapping[str, Predicate]) -> None:
    for head in rule.heads:
        before = predicates.get(head.predicate)
        if before and before.extensional:
            reason = f"{head.predicate} is declared at {before.where}, so its rows come from transactions"
            raise RedefinitionError(head.where, f"{reason}: a view has no declaration, or needs another name")


def _typed_stratum(stratum: Stratum, rules: Sequence[Rule], predicates: dict[str, Predicate]) -> list[Rule]:
    """Return some rules of a stratum with types; a recursive view is typed by its non-recursive conjunctions."""
    waiting = [rule for rule in rules if not predicates.keys() >= {*reads(rule)}]
    while missing := {name for rule in waiting for name in reads(rule) if name not in predicates}:
        begun = [
            rule for rule in map(_known_part(predicates), rules) if rule.body and missing.intersection(writes(rule))
        ]
        if not begun:
            rule, name = waiting[0], min(missing)
            raise RecursionRefusedError(
                rule.where, f"{name} has no row to begin with, since each of its rules reads {name} or what follows "
                f"from it; add a rule that does not, as in {name}(x) <- edge(x, _)."
            )  # fmt: skip
        for rule in begun:
            _typed(rule, predicates, True)
    while True:  # until it is known which columns of recursive views may be null
        before = {name: predicates[name].nullable for name in stratum.recursive if name in predicates}
        typed = [made for rule in rules for made in _typed(rule, predicates, bool(stratum.recursive))]
        if all(predicates[name].nullable == nullable for name, nullable in before.items()):
            return typed


def _known_part(predicates: Mapping[str, Predicate]) -> Callable[[Rule], Rule]:
    """Return a function that keeps the conjunctions of a rule that read only predicates of known types."""

    def known(rule: Rule) -> Rule:
        body = (part for part in rule.body if all(atom.predicate in predicates for atom in atoms(part)))
        return replace(rule, body=tuple(body))

    return known


def _typed(rule: Rule, predicates: dict[str, Predicate], recursive: bool) -> list[Rule]:
    """Return the rule with types, after its helpers; add heads to `predicates`, which must hold all that it reads."""
    body = [atom for disjunct in rule.body for atom in atoms(disjunct)]
    for atom in (*body, *(head for head in rule.heads if head.predicate in predicates)):
        check_arity(atom, predicates[atom.predicate])
    rule = without_nulls(infer(rule, predicates), predicates)
    check_ordered(rule)
    made = skipping_nulls(rule, predicates, recursive)
    for one in made:
        absent = [a.result for a in one.aggregates if a.absent and a.absent.value is None]
        for head in one.heads:
            nulls = nullable_places(head.terms, one.body, predicates)
            _define(head, one, (*nulls, *[len(head.args)] * (head.value in absent)), predicates)
    return made


def _define(head: Atom, rule: Rule, nullable: tuple[int, ...], predicates: dict[str, Predicate]) -> None:
    """Add the head's predicate; if an earlier rule did, raise RuleTypeError unless the columns' types agree.

    Columns in the places `nullable` may be null.
    """
    types = tuple(rule.types[v.name] for v in variables_of(head))
    keys, value = (types, None) if head.value is None else (types[:-1], types[-1])
    made = Predicate(head.predicate, keys, value, False, _column_names(head), nullable, where=head.where)
    before = predicates.setdefault(head.predicate, made)
    check_arity(head, before)
    if not {*nullable} <= {*before.nullable}:
        predicates[head.predicate] = replace(before, nullable=(*sorted({*nullable, *before.nullable}),))
    for name, old, new, term in zip(before.columns, before.types, types, head.terms, strict=True):
        if old != new and common(old, new) != old:
            reason = f"column {name} of {head.predicate} is {new} here, but {old}"
            raise RuleTypeError(term.where, f"{reason} by the rule at {before.where}")


def variables_of(head: Atom) -> tuple[Var, ...]:
    """Return the terms of a normalised rule's head, which are all variables; one may occur twice."""
    return tuple(term for term in head.terms if isinstance(term, Var))


def _column_names(head: Atom) -> tuple[str, ...]:
    """Return the variables' names; a generated or repeated one is replaced by the next free one of c1, c2, ..."""
    variables = [term.name.removesuffix("$") for term in variables_of(head)]
    names: list[str] = []
    for position, name in enumerate(variables, start=1):
        free = (f"c{n}" for n in count(position) if f"c{n}" not in (*variables, *names))
        names.append(next(free) if name.startswith("_") or name in names else name)
    return tuple(names)


def check_safety(rule: Rule) -> None:
    """Raise SafetyError at the first variable that nothing binds."""
    for disjunct in rule.body:
        if not any(isinstance(literal, Atom) for literal in disjunct):
            reason = "each disjunct needs an atom that is not negated, from which its rows come"
            raise SafetyError(rule.where, reason)
        bound = _check_body(disjunct, frozenset())
        _demand(_needed(rule), bound, disjunct)


def _needed(rule: Rule) -> tuple[Var, ...]:
    results = {v for aggregate in rule.aggregates for v in aggregate.results}
    return tuple(v for v in variables(*rule.heads, *rule.aggregates) if v not in results)


def _check_body(literals: Disjunct, outer: frozenset[Var]) -> frozenset[Var]:
    """Return the variables that these literals bind, with `outer`.  Raises SafetyError for any other."""
    bound = outer | _bound(literals, outer)
    for literal in literals:
        _demand(variables(literal), bound, literals)
        if isinstance(literal, Negation):
            _check_body(literal.body, bound)
    return bound


def _bound(literals: Disjunct, outer: frozenset[Var]) -> frozenset[Var]:
    bound = outer.union(*(variables(literal) for literal in literals if isinstance(literal, Atom)))
    open_ = [c for c in literals if isinstance(c, Compare) and c.op == "="]
    while found := {v for c in open_ for v in _defined(c, bound)}:
        bound |= found
    return bound


def _defined(comparison: Compare, bound: frozenset[Var]) -> Iterable[Var]:
    sides = (comparison.left, comparison.right), (comparison.right, comparison.left)
    for target, source in sides:
        if isinstance(target, Var) and target not in bound and bound.issuperset(variables(source)):
            yield target


def _demand(needed: Iterable[Var], bound: frozenset[Var], literals: Disjunct) -> None:
    for variable in needed:
        if variable not in bound:
            raise SafetyError(variable.where, f"{variable.name} is not bound: {_remedy(variable, literals)}")


def _remedy(variable: Var, literals: Disjunct) -> str:
    negations = [n for n in literals if isinstance(n, Negation) and variable in variables(n)]
    if len(negations) > 1:
        return "it occurs in two negations; use another name, or `_`, in each unless a positive atom binds it"
    if negations:
        return "a positive atom outside the negation must bind it, or it needs a name used only inside"
    if any(isinstance(c, Compare) and variable in variables(c) for c in literals):
        return "a comparison binds only by `variable = term`, where the term's variables are bound"
    return "each disjunct needs a positive atom that holds it, or `variable = term`"
