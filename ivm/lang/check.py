"""Check statements and make a program of them: all names known, all rules safe and typed, in order of evaluation.

The predicates of a text and the installed ones share a namespace.  A declared predicate is extensional: its rows come
from transactions.  A predicate in a head is a view: its types come from its rules.  No predicate is both.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from ivm.errors import RecursionRefusedError, RedefinitionError, RuleTypeError
from ivm.lang.aggregate import check_aggregate, check_sole, in_key_order
from ivm.lang.columns import with_columns, with_one_atom_a_row
from ivm.lang.declarations import declare
from ivm.lang.dependencies import Stratum, strata_of
from ivm.lang.edits import edit
from ivm.lang.infer import infer
from ivm.lang.ir import Atom, Predicate, Rule, Var
from ivm.lang.names import check_arity, check_names
from ivm.lang.neighbours import check_neighbours, check_ordered, with_neighbours
from ivm.lang.normalise import normalise
from ivm.lang.nulls import without_nulls
from ivm.lang.program import Program
from ivm.lang.recursion import check_recursion, prepare
from ivm.lang.safety import check_safety
from ivm.lang.syntax_tree import Change, Clause, Declaration, Statement
from ivm.lang.traverse import atoms, reads, writes
from ivm.lang.types import common


def check(statements: Sequence[Statement], known: Program, merging: bool = True) -> Program:
    """Return what the statements add to `known`; raise the first fault as a RuleError with its place.

    Without `merging`, each column of a row is read by an atom of its own.
    """
    predicates = dict(known.predicates)
    declare((s for s in statements if isinstance(s, Declaration)), predicates)
    rules = [with_columns(r, predicates) for s in statements if isinstance(s, Clause) for r in normalise(s)]
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
    edits = tuple(edit(s, predicates) for s in statements if isinstance(s, Change))
    added = {name: p for name, p in predicates.items() if known.predicates.get(name) is not p}
    return Program(added, typed, edits, merged=merged)


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
            _typed(rule, predicates)
    return [_typed(rule, predicates) for rule in rules]


def _known_part(predicates: Mapping[str, Predicate]) -> Callable[[Rule], Rule]:
    """Return a function that keeps the conjunctions of a rule that read only predicates of known types."""

    def known(rule: Rule) -> Rule:
        body = (part for part in rule.body if all(atom.predicate in predicates for atom in atoms(part)))
        return replace(rule, body=tuple(body))

    return known


def _typed(rule: Rule, predicates: dict[str, Predicate]) -> Rule:
    """Return the rule with types, and add its heads to `predicates`, which must hold all that it reads."""
    body = [atom for disjunct in rule.body for atom in atoms(disjunct)]
    for atom in (*body, *(head for head in rule.heads if head.predicate in predicates)):
        check_arity(atom, predicates[atom.predicate])
    rule = without_nulls(infer(rule, predicates), predicates)
    check_ordered(rule)
    for head in rule.heads:
        _define(head, rule, predicates)
    return rule


def _define(head: Atom, rule: Rule, predicates: dict[str, Predicate]) -> None:
    """Add the head's predicate; if an earlier rule did, raise RuleTypeError unless the columns' types agree."""
    types = tuple(rule.types[v.name] for v in variables_of(head))
    keys, value = (types, None) if head.value is None else (types[:-1], types[-1])
    made = Predicate(head.predicate, keys, value, False, _column_names(head), where=head.where)
    before = predicates.setdefault(head.predicate, made)
    check_arity(head, before)
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
