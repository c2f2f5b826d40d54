"""Infer the types of a rule's variables and constants from the columns of its atoms.

The columns of atoms come first, then equations `x = term` from typed to untyped variables; a literal's own type counts
only where nothing else gives one.  In the result every constant has the type of its context.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ivm.errors import RuleTypeError
from ivm.lang.aggregate import result_types
from ivm.lang.functions import FUNCTIONS, Signature, is_kind
from ivm.lang.ir import (
    Atom,
    Binary,
    Call,
    Compare,
    Const,
    Disjunct,
    Literal,
    Negation,
    Predicate,
    Rule,
    Term,
    Type,
    Var,
    as_read,
    atoms,
    unnamed_in,
    variables,
)
from ivm.lang.types import UNORDERED, adapt, arithmetic, common, how_written, is_flexible, scale, takes

Types = dict[str, Type]


def infer(rule: Rule, known: Mapping[str, Predicate]) -> Rule:
    """Return the rule with `types` filled in.  Raises RuleTypeError for types that do not fit, and AggregateError.

    Its body must be safe, and `known` must hold every predicate that it reads, with the same arity.
    """
    types: Types = {}
    unnamed = unnamed_in(rule)
    for disjunct in rule.body:
        for atom in atoms(disjunct):
            _note_columns(atom, known[atom.predicate].types, types, unnamed)
    equations = [c for disjunct in rule.body for c in _comparisons(disjunct) if c.op == "="]
    _spread(equations, types, lambda term: not is_literal(term))
    for head in rule.heads:
        if head.predicate in known:
            _hint(head, known[head.predicate].types, types)
    _spread(equations, types, lambda term: True)
    body = tuple(_typed_body(disjunct, known, types) for disjunct in rule.body)
    for aggregate in rule.aggregates:
        types |= result_types(aggregate, types)
    aggregates = tuple(
        replace(one, absent=one.absent and adapt(one.absent, types[one.result.name])) for one in rule.aggregates
    )
    return replace(rule, body=body, aggregates=aggregates, types=types)


def is_literal(term: Term) -> bool:
    """Return whether the term is a literal that takes its type from the context."""
    return isinstance(term, Const) and is_flexible(term)


def _note_columns(atom: Atom, columns: Iterable[Type], types: Types, unnamed: set[str]) -> None:
    for term, column in zip(atom.terms, columns, strict=True):
        if isinstance(term, Var):
            if term.name not in unnamed:
                column = as_read(column)
            before = types.get(term.name, column)
            joint = common(before, column)
            if joint is None:
                raise RuleTypeError(term.where, _conflict(term.name, before, column, atom.predicate))
            types[term.name] = joint


def _conflict(name: str, before: Type, now: Type, predicate: str) -> str:
    reason = f"{name} is {before} elsewhere in the rule but {now} in {predicate}"
    if scale(before) is not None and scale(now) is not None:
        return f"{reason}: decimals of different scales are not compared, so declare both columns alike"
    return reason


def _comparisons(literals: Disjunct) -> Iterator[Compare]:
    for literal in literals:
        if isinstance(literal, Compare):
            yield literal
        elif isinstance(literal, Negation):
            yield from _comparisons(literal.body)


def _spread(equations: list[Compare], types: Types, admits: Callable[[Term], bool]) -> None:
    """Type the variables that equations define, while their other sides are typed and admitted."""
    sides = [pair for e in equations for pair in ((e.left, e.right), (e.right, e.left))]
    found = True
    while found:
        found = False
        for target, source in sides:
            if not isinstance(target, Var) or target.name in types or not admits(source):
                continue
            if all(v.name in types for v in variables(source)):
                types[target.name] = typed(source, types)[1]
                found = True


def _hint(head: Atom, columns: Iterable[Type], types: Types) -> None:
    for term, column in zip(head.terms, columns, strict=True):
        if isinstance(term, Var):
            types.setdefault(term.name, column)


# -- constants get the type of their context


def _typed_body(literals: Disjunct, known: Mapping[str, Predicate], types: Types) -> Disjunct:
    return tuple(_typed_literal(literal, known, types) for literal in literals)


def _typed_literal(literal: Literal, known: Mapping[str, Predicate], types: Types) -> Literal:
    match literal:
        case Atom():
            return typed_atom(literal, known[literal.predicate])
        case Negation():
            return replace(literal, body=_typed_body(literal.body, known, types))
        case Compare():
            return _typed_comparison(literal, types)


def typed_atom(atom: Atom, predicate: Predicate) -> Atom:
    """Return the atom with its constants converted to the column types."""
    terms = tuple(
        adapt(term, as_read(column)) if isinstance(term, Const) else term
        for term, column in zip(atom.terms, predicate.types, strict=True)
    )
    if atom.value is None:
        return replace(atom, args=terms)
    return replace(atom, args=terms[:-1], value=terms[-1])


def _typed_comparison(comparison: Compare, types: Types) -> Compare:
    left, right, type_ = _typed_pair(comparison.left, comparison.right, types, common)
    op, where = comparison.op, comparison.where
    if type_ is None:
        a, b = typed(comparison.left, types)[1], typed(comparison.right, types)[1]
        raise RuleTypeError(where, f"{a} {op} {b}: the sides of a comparison need one type{_hint_for(a, b)}")
    if type_ in UNORDERED and op not in ("=", "!="):
        raise RuleTypeError(where, f"`{op}` is not evaluated over {type_}, only = and != are")
    return replace(comparison, left=left, right=right)


def _hint_for(a: Type, b: Type) -> str:
    kinds = {t if scale(t) is None else "decimal" for t in (a, b)}
    if kinds == {"decimal"}:
        return ", and decimals one scale"
    if kinds <= {"int64", "float64", "decimal"}:
        return "; numbers do not convert by themselves"
    return how_written(a) or how_written(b)


def typed(term: Term, types: Types) -> tuple[Term, Type]:
    """Return a term with typed constants, and its type."""
    match term:
        case Var():
            return term, types[term.name]
        case Const():
            return term, term.type
        case Binary():
            left, right, type_ = _typed_pair(term.left, term.right, types, partial(arithmetic, term.op))
            if type_ is None:
                raise _no_operation(term, typed(term.left, types)[1], typed(term.right, types)[1])
            if term.op == "/" and isinstance(right, Const) and right.value == 0:
                raise RuleTypeError(term.where, f"`{term}` divides by zero, whatever is stored")
            return replace(term, left=left, right=right), type_
        case Call():
            return _typed_call(term, types)


def _typed_call(term: Call, types: Types) -> tuple[Term, Type]:
    """Return a function's application with typed constants, and the type of its result."""
    signature = FUNCTIONS[term.name]
    if not signature.admits(len(term.args)):
        raise RuleTypeError(term.where, f"{term.name} takes {_how_many(signature)}, not {len(term.args)}")
    args = [typed(arg, types) for arg in term.args]
    alike = [n for n in range(len(args)) if signature.kind(n) == "alike"]
    joint = _joint([args[n] for n in alike])
    found: list[Term] = []
    for place, (arg, type_) in enumerate(args):
        kind = signature.kind(place)
        wanted = joint if place in alike else "float64" if kind == "float64" and is_literal(arg) else type_
        arg = _adapted(arg, wanted) if _adapts(arg, wanted) and wanted else arg
        own = typed(arg, types)[1]
        if not is_kind(own, kind) or (place in alike and common(own, joint) is None):
            wants = "a date or a timestamp" if kind == "moment" else kind
            what = f"{joint}, as its other arguments are," if place in alike else wants
            raise RuleTypeError(term.where, f"`{term}`: {arg} is {own}, where {what} is wanted")
        if place in alike and own in UNORDERED and term.name in ("<", "<=", ">", ">="):
            raise RuleTypeError(term.where, f"`{term.name}` is not evaluated over {own}, only = and != are")
        found.append(arg)
    constants = [arg if isinstance(arg, Const) else None for arg in found]
    gives = signature.gives
    kinds = [joint if n in alike else typed(arg, types)[1] for n, arg in enumerate(found)]
    return replace(term, args=tuple(found)), gives if isinstance(gives, str) else gives(kinds, constants)


def _joint(args: Sequence[tuple[Term, Type]]) -> Type:
    """Return the type that arguments share: that of the first that is not a literal, else of the first decimal."""
    fixed = [type_ for arg, type_ in args if not isinstance(arg, Const)] or [
        type_ for arg, type_ in args if not is_literal(arg)
    ]
    decimals = [type_ for _, type_ in args if scale(type_) is not None]
    return (fixed or sorted(decimals, key=lambda t: -(scale(t) or 0)) or [type_ for _, type_ in args] or [""])[0]


def _how_many(signature: Signature) -> str:
    most = (
        "or more" if signature.open else f"to {len(signature.takes)}" if signature.least < len(signature.takes) else ""
    )
    return f"{signature.least} {most}".strip() + (" arguments" if most or signature.least != 1 else " argument")


def _typed_pair(
    left: Term, right: Term, types: Types, joint: Callable[[Type, Type], Type | None]
) -> tuple[Term, Term, Type | None]:
    """Type both sides; a literal that does not fit takes the type of the other side."""
    (a, a_type), (b, b_type) = typed(left, types), typed(right, types)
    left_adapts, right_adapts = _adapts(left, b_type), _adapts(right, a_type)
    wanted = b_type if left_adapts else a_type
    if joint(a_type, b_type) is None and joint(wanted, wanted) and left_adapts != right_adapts:
        a_type = b_type = wanted
    return _adapted(a, a_type), _adapted(b, b_type), joint(a_type, b_type)


def _adapts(term: Term, wanted: Type) -> bool:
    return is_literal(term) or (isinstance(term, Const) and takes(term, wanted))


def _adapted(term: Term, wanted: Type) -> Term:
    return adapt(term, wanted) if isinstance(term, Const) else term


def _no_operation(term: Binary, left: Type, right: Type) -> RuleTypeError:
    reason = f"there is no {left} {term.op} {right}"
    if scale(left) is not None and scale(right) is not None and term.op in "+-":
        reason += ": decimals of different scales are not added, so declare both columns alike"
    elif {left, right} == {"int64", "float64"}:
        reason += ": numbers do not convert by themselves, so declare both columns alike"
    return RuleTypeError(term.where, reason)
