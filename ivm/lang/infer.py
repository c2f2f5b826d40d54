"""Infer the types of rules' variables and constants from the columns of atoms, stratum by stratum.

The columns of atoms come first, then equations `x = term` from typed to untyped variables; a
literal's own type counts only where nothing else gives one.  In the result every constant has the
type of its context.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from functools import partial
from itertools import chain, count

from ivm.errors import ArityError, RecursionRefusedError, RuleTypeError
from ivm.lang.aggregate import result_types
from ivm.lang.columns import check_ordered
from ivm.lang.functions import FUNCTIONS, WHOLE, Function, is_kind
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
    literals_of,
    show_name,
    unnamed_in,
    variables,
)
from ivm.lang.nulls import guarded_in, nullable_places, skipping_nulls, without_nulls
from ivm.lang.program import Program, Stratum, strata_of
from ivm.lang.types import (
    DIGITS_MAX,
    UNORDERED,
    adapt,
    arithmetic,
    common,
    how_written,
    is_flexible,
    precision,
    scale,
    takes,
    wide_scale,
)
from ivm.names import is_made, plain_result

Types = dict[str, Type]
WANTED = {
    "moment": "a date or a timestamp",
    "alike countable": "a number, a date or a timestamp",
    "step": "a number",
    "exact number": "an int64 or a decimal",
}
Predicates = dict[str, Predicate]
Names = frozenset[str]


def infer(program: Program, known: Program, guarding: bool = True) -> Program:
    """Give each rule of a program its types, in order of evaluation, and define the predicates of
    the heads.

    The rules get the conditions that exclude null, too, since these decide which columns of a head
    may be null. Without `guarding`, aggregates skip nulls also where a rule excludes them itself.

    Raises RuleTypeError, ArityError, AggregateError, RecursionRefusedError.
    """
    predicates = program.over(known)
    ids, given = {id(rule) for rule in program.rules}, frozenset(predicates)
    rules = tuple(
        rule
        for stratum in strata_of((*known.tied_to(program.rules), *program.rules))
        for rule in _typed_stratum(
            stratum,
            [rule for rule in stratum.rules if id(rule) in ids],
            predicates,
            given,
            guarding,
        )
    )
    guarded = guarding and any(rule.aggregates and guarded_in(rule) for rule in rules)
    return replace(program.defining(predicates, known), rules=rules, guarded=guarded)


def _typed_stratum(
    stratum: Stratum, rules: list[Rule], predicates: Predicates, given: Names, guarding: bool
) -> list[Rule]:
    """Return some rules of a stratum with types; a recursive view is typed by its non-recursive
    conjunctions.

    The columns of predicates that are `given` are as they are.
    """
    waiting = [rule for rule in rules if not predicates.keys() >= {*rule.reads}]
    while missing := {name for rule in waiting for name in rule.reads if name not in predicates}:
        begun = [
            rule
            for rule in map(_known_part(predicates), rules)
            if rule.body and missing.intersection(rule.writes)
        ]
        if not begun:
            rule, name = waiting[0], min(missing)
            raise RecursionRefusedError(
                rule.where,
                f"{name} has no row to begin with, since each of its rules reads {name} or what "
                f"follows from it; add a rule that does not, as in {name}(x) <- edge(x, _).",
            )
        for rule in begun:
            _typed(rule, predicates, True, given, guarding)
    # until it is known which columns of recursive views may be null, and the digits of their
    # decimals
    while True:
        before = {
            name: predicates[name].stored_types for name in stratum.recursive if name in predicates
        }
        typed = [
            made
            for rule in rules
            for made in _typed(rule, predicates, bool(stratum.recursive), given, guarding)
        ]
        if all(predicates[name].stored_types == types for name, types in before.items()):
            return typed


def _known_part(predicates: Mapping[str, Predicate]) -> Callable[[Rule], Rule]:
    """Return a function that keeps a rule's conjunctions that read predicates of known types."""

    def known(rule: Rule) -> Rule:
        body = (
            part for part in rule.body if all(atom.predicate in predicates for atom in atoms(part))
        )
        return replace(rule, body=tuple(body))

    return known


def _typed(
    rule: Rule, predicates: Predicates, recursive: bool, given: Names, guarding: bool
) -> list[Rule]:
    """Return the rule with types, after its helpers; add heads to `predicates`, which must hold
    all that it reads.
    """
    for atom in (
        *atoms(literals_of(rule.body)),
        *(head for head in rule.heads if head.predicate in predicates),
    ):
        check_arity(atom, predicates[atom.predicate])
    rule = without_nulls(with_types(rule, predicates), predicates)
    check_ordered(rule)
    made = skipping_nulls(rule, predicates, recursive, guarding)
    for written in made:
        absent = [a.result for a in written.aggregates if a.absent and a.absent.value is None]
        places = nullable_places(written.heads, written.body, predicates)
        for head, nulls in zip(written.heads, places, strict=True):
            nullable = (*nulls, *[len(head.args)] * (head.value in absent))
            _define(head, written, nullable, predicates, head.predicate in given)
    return made


def _define(
    head: Atom, rule: Rule, nullable: tuple[int, ...], predicates: dict[str, Predicate], given: bool
) -> None:
    """Add the head's predicate; if an earlier rule did, raise RuleTypeError unless the columns'
    types agree.

    Columns in the places `nullable` may be null.  Unless the predicate is `given`, a column of
    decimals gets as many digits as the rule that needs the most.
    """
    types = tuple(rule.types[v.name] for v in variables_of(head))
    keys, value = (types, None) if head.value is None else (types[:-1], types[-1])
    for place in nullable:
        # null is the least word, so values have other words than in uint64
        if types[place] == "uint64":
            reason = (
                f"{head.terms[place]} of {head.predicate} is a uint64, which is never null in rules"
            )
            raise RuleTypeError(head.where, f"{reason}: use another type, or a number for the null")
    made = Predicate(
        head.predicate, keys, value, False, _column_names(head), nullable, where=head.where
    )
    before = predicates.setdefault(head.predicate, made)
    check_arity(head, before)
    if not {*nullable} <= {*before.nullable}:
        predicates[head.predicate] = replace(
            before, nullable=(*sorted({*nullable, *before.nullable}),)
        )
    both = [common(old, new) for old, new in zip(before.types, types, strict=True)]
    for name, old, new, shared, term in zip(
        before.columns, before.types, types, both, head.terms, strict=True
    ):
        if shared is None or (given and shared != old):
            reason = f"column {name} of {head.predicate} is {new} here, but {old}"
            raise RuleTypeError(term.where, f"{reason} by the rule at {before.where}")
    wide = tuple(map(str, both))
    if wide != before.types:
        keys, value = (wide, None) if head.value is None else (wide[:-1], wide[-1])
        predicates[head.predicate] = replace(predicates[head.predicate], keys=keys, value=value)


def variables_of(head: Atom) -> tuple[Var, ...]:
    """Return the terms of a normalised rule's head: variables, of which one may occur twice."""
    return tuple(term for term in head.terms if isinstance(term, Var))


def _column_names(head: Atom) -> tuple[str, ...]:
    """Return the variables' names; a generated or repeated one is replaced by the next free one
    of c1, c2, ...
    """
    variables = [plain_result(term.name) for term in variables_of(head)]
    names: list[str] = []
    for position, name in enumerate(variables, start=1):
        free = (f"c{n}" for n in count(position) if f"c{n}" not in (*variables, *names))
        names.append(next(free) if name.startswith("_") or name in names else name)
    return tuple(names)


# -- one rule


def with_types(rule: Rule, known: Mapping[str, Predicate]) -> Rule:
    """Return the rule with `types` filled in.  Raises RuleTypeError for types that do not fit, and
    AggregateError.

    Its body must be safe, and `known` must hold every predicate that it reads, with the same arity.
    """
    types: Types = {}
    unnamed = unnamed_in(rule)
    literals = literals_of(rule.body)
    for atom in atoms(literals):
        _note_columns(atom, known[atom.predicate].types, types, unnamed)
    equations = [c for c in _comparisons(literals) if c.op == "="]
    _spread(equations, types, lambda term: not is_literal(term))
    for head in rule.heads:
        if head.predicate in known:
            _hint(head, known[head.predicate].types, types)
    _spread(equations, types, lambda term: True)
    made = {id(literal): _typed_body((literal,), known, types) for literal in literals}
    body = tuple(
        tuple(chain.from_iterable(made[id(x)] for x in disjunct)) for disjunct in rule.body
    )
    for aggregate in rule.aggregates:
        types |= result_types(aggregate, types)
    aggregates = tuple(
        replace(one, absent=one.absent and adapt(one.absent, types[one.result.name]))
        for one in rule.aggregates
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
                raise RuleTypeError(
                    term.where, _conflict(term.name, before, column, atom.predicate)
                )
            types[term.name] = joint


def _conflict(name: str, before: Type, now: Type, predicate: str) -> str:
    reason = f"{name} is {before} elsewhere in the rule but {now} in {predicate}"
    if scale(before) is not None and scale(now) is not None:
        return f"{reason}: a variable has one scale: use two variables, and compare them"
    return reason


def _comparisons(literals: Iterable[Literal]) -> Iterator[Compare]:
    for literal in literals:
        if isinstance(literal, Compare):
            yield literal
        elif isinstance(literal, Negation):
            yield from _comparisons(literal.body)


def _spread(equations: list[Compare], types: Types, admits: Callable[[Term], bool]) -> None:
    """Type the variables that equations define, while their other sides are typed and admitted."""
    sides = [pair for e in equations for pair in ((e.left, e.right), (e.right, e.left))]
    is_known = True
    while is_known:
        is_known = False
        for target, source in sides:
            if not isinstance(target, Var) or target.name in types or not admits(source):
                continue
            if all(v.name in types for v in variables(source)):
                types[target.name] = typed(source, types)[1]
                is_known = True


def _hint(head: Atom, columns: Iterable[Type], types: Types) -> None:
    for term, column in zip(head.terms, columns, strict=True):
        if isinstance(term, Var):
            types.setdefault(term.name, column)


# -- constants get the type of their context


def _typed_body(literals: Disjunct, known: Mapping[str, Predicate], types: Types) -> Disjunct:
    typed_ = (_typed_literal(literal, known, types) for literal in literals)
    return tuple(literal for literal in typed_ if not _counts_by_one(literal, types))


def _counts_by_one(literal: Literal, types: Types) -> bool:
    """Return whether a literal says that a number is in a range of all whole numbers, as two
    comparisons next to it.
    """
    call = literal.left if isinstance(literal, Compare) else None
    if not isinstance(call, Call) or call.name != "$within" or not isinstance(call.args[0], Var):
        return False
    step = call.args[-1]
    return isinstance(step, Const) and step.value == 1 and types[call.args[0].name] in WHOLE


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
    value = atom.value
    # it is written alone
    if isinstance(value, Const) and value.where == atom.where and predicate.value != "bool":
        reason = f"{atom.predicate} has no boolean values: write {atom.predicate}[...] = _ where any value will do"
        raise RuleTypeError(atom.where, reason)
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
        left, right = _of_one_scale(left, right, types)
        type_ = common(typed(left, types)[1], typed(right, types)[1])
    if type_ is None:
        a, b = typed(comparison.left, types)[1], typed(comparison.right, types)[1]
        raise RuleTypeError(
            where, f"{a} {op} {b}: the sides of a comparison need one type{_hint_for(a, b)}"
        )
    if type_ in UNORDERED and op not in ("=", "!="):
        raise RuleTypeError(where, f"`{op}` is not evaluated over {type_}, only = and != are")
    return replace(comparison, left=left, right=right)


def _hint_for(a: Type, b: Type) -> str:
    kinds = {t if scale(t) is None else "decimal" for t in (a, b)}
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
            left, right, type_ = _typed_pair(
                term.left, term.right, types, partial(arithmetic, term.op)
            )
            if type_ is None and term.op in "+-":
                left, right = _of_one_scale(left, right, types)
                type_ = arithmetic(term.op, typed(left, types)[1], typed(right, types)[1])
            if (
                type_ is None
                and term.op == "+"
                and {typed(left, types)[1], typed(right, types)[1]} == {"string"}
            ):
                return Call("string:concat", (left, right), where=term.where), "string"
            if type_ is None and (
                long := _long_arithmetic(replace(term, left=left, right=right), types)
            ):
                return _typed_call(long, types)
            if type_ is None:
                raise _no_operation(term, typed(term.left, types)[1], typed(term.right, types)[1])
            if term.op == "/" and isinstance(right, Const) and right.value == 0:
                raise RuleTypeError(term.where, f"`{term}` divides by zero, whatever is stored")
            return replace(term, left=left, right=right), type_
        case Call():
            return _typed_call(term, types)


def _long_arithmetic(term: Binary, types: Types) -> Call | None:
    """Return `+`, `-` or `*` as a function if one operand is a decimal of more than 18 digits."""
    name = {"+": "add", "-": "subtract", "*": "multiply"}.get(term.op)
    kinds = [typed(side, types)[1] for side in (term.left, term.right)]
    if name is None or all(wide_scale(kind) is None for kind in kinds):
        return None
    return Call(f"decimal:{name}", (term.left, term.right), where=term.where)


def _long_constant(term: Call, gives: Type) -> Const | None:
    """Return `decimal["12.50", 2, 38]` as a constant; None unless its arguments are."""
    value = term.args[0].value if isinstance(term.args[0], Const) else None
    if (
        term.name != "decimal"
        or not isinstance(value, str | int | Decimal)
        or wide_scale(gives) is None
    ):
        return None
    try:
        return adapt(Const(Decimal(value), "decimal(18,0)", where=term.where), gives)
    except InvalidOperation:
        return None


def _typed_call(term: Call, types: Types) -> tuple[Term, Type]:
    """Return a function's application with typed constants, and the type of its result."""
    signature = FUNCTIONS[term.name]
    if not signature.admits(len(term.args)):
        reason = f"{term.name} takes {signature.arity}, not {len(term.args)}"
        raise RuleTypeError(term.where, reason)
    args = [typed(arg, types) for arg in term.args]
    alike = _alike(signature, args)
    joint = _joint([args[n] for n in alike])
    terms: list[Term] = []
    kinds: list[Type] = []
    for place, (arg, type_) in enumerate(args):
        kind = signature.kind(place)
        if place in alike:
            types_taken = joint
        elif (kind == "float64" or scale(kind) is not None) and is_literal(arg):
            types_taken = kind
        else:
            types_taken = type_
        # of a call it is not inferred again, since that would take as long at each level
        arg_type = type_
        if _adapts(arg, types_taken) and types_taken:
            arg = _adapted(arg, types_taken)
            arg_type = typed(arg, types)[1]
        if (
            place in alike
            and arg_type != joint
            and scale(arg_type) is not None
            and (digits := scale(joint)) is not None
        ):
            arg, arg_type = _of_scale(arg, arg_type, digits)
        if not is_kind(arg_type, kind) or (place in alike and common(arg_type, joint) is None):
            fits = is_kind(arg_type, kind)
            if place in alike and fits:
                what = f"{joint}, as its other arguments are,"
            else:
                what = WANTED.get(kind, kind)
            whole = "a range" if is_made(term.name) else f"`{term}`"
            remedy = (
                "; convert it, by int[...] or CAST"
                if kind == "int64" and wide_scale(arg_type) is not None
                else ""
            )
            raise RuleTypeError(
                term.where, f"{whole}: {arg} is {arg_type}, where {what} is wanted{remedy}"
            )
        if place in alike and arg_type in UNORDERED and term.name in ("<", "<=", ">", ">="):
            raise RuleTypeError(
                term.where, f"`{term.name}` is not evaluated over {arg_type}, only = and != are"
            )
        terms.append(arg)
        kinds.append(joint if place in alike else arg_type)
    constants = [arg if isinstance(arg, Const) else None for arg in terms]
    gives = signature.gives
    given = gives if isinstance(gives, str) else gives(kinds, constants)
    made = replace(term, args=tuple(terms))
    return _long_constant(made, given) or made, given


def _alike(signature: Function, args: Sequence[tuple[Term, Type]]) -> list[int]:
    """Return the places of arguments that share one type: a step is of the type of what it
    counts, or an int64.
    """
    alike = [n for n in range(len(args)) if signature.kind(n).startswith("alike")]
    steps = [n for n in range(len(args)) if signature.kind(n) == "step"]
    by_whole = _joint([args[n] for n in alike]) in WHOLE and all(
        args[n][1] == "int64" for n in steps
    )
    return alike if by_whole else alike + steps


def _joint(args: Sequence[tuple[Term, Type]]) -> Type:
    """Return the type that arguments share: that of the first that is not a literal, else of the
    first decimal; of decimals, one of as many digits as any of them.
    """
    fixed = [type_ for arg, type_ in args if not isinstance(arg, Const)] or [
        type_ for arg, type_ in args if not is_literal(arg)
    ]
    decimals = [type_ for _, type_ in args if scale(type_) is not None]
    if fixed and all(scale(type_) is not None for type_ in fixed):
        most = max(fixed, key=lambda type_: (scale(type_) or 0, precision(type_)))
        beyond = 10 ** (precision(most) - (scale(most) or 0))
        values = [arg.value for arg, _ in args if isinstance(arg, Const)]
        fits = all(abs(v) < beyond for v in values if isinstance(v, int | Decimal))
        return most if fits else f"decimal({DIGITS_MAX},{scale(most)})"
    return (
        fixed
        or sorted(decimals, key=lambda t: -(scale(t) or 0))
        or [type_ for _, type_ in args]
        or [""]
    )[0]


def _typed_pair(
    left: Term, right: Term, types: Types, joint: Callable[[Type, Type], Type | None]
) -> tuple[Term, Term, Type | None]:
    """Type both sides; a literal that does not fit takes the type of the other side."""
    (a, a_type), (b, b_type) = typed(left, types), typed(right, types)
    left_adapts, right_adapts = _adapts(left, b_type), _adapts(right, a_type)
    type_ = b_type if left_adapts else a_type
    if joint(a_type, b_type) is None and joint(type_, type_) and left_adapts != right_adapts:
        a_type = b_type = type_
    return _adapted(a, a_type), _adapted(b, b_type), joint(a_type, b_type)


def _of_one_scale(left: Term, right: Term, types: Types) -> tuple[Term, Term]:
    """Return two terms, with the decimal of fewer digits after the point converted to the scale
    of the other.
    """
    a, b = typed(left, types)[1], typed(right, types)[1]
    first, second = scale(a), scale(b)
    if first is None or second is None:
        return left, right
    most = max(first, second)
    return _of_scale(left, a, most)[0], _of_scale(right, b, most)[0]


def _of_scale(term: Term, type_: Type, digits: int) -> tuple[Term, Type]:
    """Return a decimal term with so many digits after the point, and its type."""
    if scale(type_) == digits:
        return term, type_
    call = Call("decimal", (term, Const(digits, "int64", where=term.where)), where=term.where)
    return call, f"decimal({DIGITS_MAX},{digits})"


def _adapts(term: Term, type_: Type) -> bool:
    return is_literal(term) or (isinstance(term, Const) and takes(term, type_))


def _adapted(term: Term, type_: Type) -> Term:
    return adapt(term, type_) if isinstance(term, Const) else term


def _no_operation(term: Binary, left: Type, right: Type) -> RuleTypeError:
    reason = f"there is no {left} {term.op} {right}"
    if {left, right} == {"int64", "float64"}:
        reason += ": numbers do not convert by themselves, so declare both columns alike"
    return RuleTypeError(term.where, reason)


# -- the form of atoms


def check_arity(atom: Atom, predicate: Predicate) -> None:
    """Raise ArityError unless the atom has its predicate's form."""
    is_function = predicate.value is not None
    if (atom.value is not None) != is_function:
        if is_function:
            kind = "function"
        elif predicate.key_count is None:
            kind = "relation"
        else:
            kind = "function of several values"
        raise ArityError(atom.where, f"{atom.predicate} is a {kind}: write {_form(predicate)}")
    if len(atom.args) != len(predicate.keys):
        keys = f"{len(predicate.keys)} argument{'s' * (len(predicate.keys) != 1)}"
        reason = f"{atom.predicate} takes {keys}, not {len(atom.args)}: {_form(predicate)}"
        raise ArityError(atom.where, reason)


def _form(predicate: Predicate) -> str:
    name, columns = show_name(predicate.name), [show_name(column) for column in predicate.columns]
    if predicate.key_count is not None:
        count = predicate.key_count
        return f"{name}[{', '.join(columns[:count])}] = ({', '.join(columns[count:])})"
    if predicate.value is None:
        return f"{name}({', '.join(columns)})"
    *keys, value = columns
    return f"{name}[{', '.join(keys)}] = {value}"
