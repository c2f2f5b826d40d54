"""Parts of rules, as SQL is translated to them, and their text.

Atom       t[k] = (a?, b)      `a?` also matches null
Test       a < b               holds where it is true; neither false nor null
Define     x = a + 1
Not        !(t(a, b), b > 3)
Either     (a = 1 ; b = 2)
Rule       v(a, b) <- ...      f[a] = n <- agg<<n = count()>> ...
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from math import isfinite, isnan
from typing import NamedTuple, TypeAlias

from ivm.lang.ir import Const, Value, show_constant, show_name
from ivm.lang.types import precision, wide_scale
from ivm.sql.errors import SqlError
from ivm.sql.types import SqlType

VARIABLE = re.compile(r"_x\d+")  # those that the translation makes
INFIX = {"+": 1, "-": 1, "*": 2, "/": 2}
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
FLIPPED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


@dataclass(frozen=True, slots=True)
class Var:
    """A variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Lit:
    """A constant; None is null, of the type `store`."""

    value: Value
    store: str


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or a function of terms."""

    name: str
    args: tuple["Term", ...]


Term: TypeAlias = Var | Lit | Call


class Typed(NamedTuple):
    """A term, its type in SQL, and whether it may be null."""

    term: Term
    type: SqlType
    nullable: bool


@dataclass(frozen=True, slots=True)
class Atom:
    """`name(keys)`, or `name[keys] = values`.  An argument None is `_`; `nullable` are the
    columns that may be null.
    """

    name: str
    keys: tuple[Term | None, ...]
    values: tuple[Term | None, ...] = ()
    nullable: tuple[bool, ...] = ()
    weighs: bool = False  # the last value says how often the row occurs

    @property
    def terms(self) -> tuple[Term | None, ...]:
        """All arguments."""
        return (*self.keys, *self.values)


@dataclass(frozen=True, slots=True)
class Test:
    """A term of type bool that must be true."""

    term: Term


@dataclass(frozen=True, slots=True)
class Define:
    """`variable = term`."""

    var: Var
    term: Term


@dataclass(frozen=True, slots=True)
class Not:
    """No values of the variables that occur only here satisfy all."""

    body: tuple["Literal", ...]
    required: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Either:
    """One of several conjunctions holds."""

    parts: tuple[tuple["Literal", ...], ...]


Literal: TypeAlias = Atom | Test | Define | Not | Either


@dataclass(frozen=True, slots=True)
class Fold:
    """`result = op(args)`, or `(place, result) = op(args)`."""

    op: str
    result: str
    args: tuple[Term, ...] = ()
    place: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """heads <- aggregates body; `required` are the variables that are not null."""

    heads: tuple[Atom, ...]
    body: tuple[Literal, ...]
    folds: tuple[Fold, ...] = ()
    required: frozenset[str] = field(default=frozenset())


# -- traversal


def variables(node: Term | Literal | None) -> Iterator[str]:  # noqa: C901 - a case for each kind of literal
    """Yield the variables of a term or a literal, those inside negations included."""
    match node:
        case Var():
            yield node.name
        case Call():
            for arg in node.args:
                yield from variables(arg)
        case Atom():
            for term in node.terms:
                yield from variables(term)
        case Test():
            yield from variables(node.term)
        case Define():
            yield node.var.name
            yield from variables(node.term)
        case Not():
            for one in node.body:
                yield from variables(one)
        case Either():
            for part in node.parts:
                for one in part:
                    yield from variables(one)


def atoms(one: Literal) -> Iterator[str]:
    """Yield the names of the relations that a literal reads."""
    match one:
        case Atom():
            yield one.name
        case Not():
            yield from (name for inner in one.body for name in atoms(inner))
        case Either():
            yield from (name for part in one.parts for inner in part for name in atoms(inner))


def bound(body: Iterable[Literal]) -> set[str]:
    """Return the variables that atoms and definitions of a body bind."""
    found: set[str] = set()
    for one in body:
        if isinstance(one, Atom):
            found |= {*variables(one)}
        elif isinstance(one, Define):
            found.add(one.var.name)
    return found


def substitute(node, names: dict[str, Term]):  # type: ignore[no-untyped-def]
    """Return a term or a literal with variables replaced by terms."""
    match node:
        case Var():
            return names.get(node.name, node)
        case Call():
            return Call(node.name, tuple(substitute(arg, names) for arg in node.args))
        case Atom():
            keys = tuple(substitute(arg, names) for arg in node.keys)
            return Atom(
                node.name,
                keys,
                tuple(substitute(arg, names) for arg in node.values),
                node.nullable,
                node.weighs,
            )
        case Test():
            return Test(substitute(node.term, names))
        case Define():
            new = names.get(node.var.name, node.var)
            term = substitute(node.term, names)
            return Define(new, term) if isinstance(new, Var) else Test(Call("=", (new, term)))
        case Not():
            renamed = {n.name if isinstance(n := names.get(r), Var) else r for r in node.required}
            return Not(tuple(substitute(one, names) for one in node.body), frozenset(renamed))
        case Either():
            return Either(
                tuple(tuple(substitute(one, names) for one in part) for part in node.parts)
            )
    return node


# -- text


def show_rule(rule: Rule) -> str:
    """Return a rule as text."""
    body = _live(rule)
    heads = ", ".join(_show_head(head) for head in rule.heads)
    folds = f"agg<<{', '.join(map(_show_fold, rule.folds))}>> " if rule.folds else ""
    return f"{heads} <- {folds}{show_body(body, rule.required)}."


def _live(rule: Rule) -> tuple[Literal, ...]:
    """Return a body with `_` for each variable that occurs once."""
    uses: dict[str, int] = {}
    heads = [v for head in rule.heads for v in variables(head)]
    folds = [v for fold in rule.folds for arg in fold.args for v in variables(arg)]
    for name in (*heads, *folds, *(v for one in rule.body for v in variables(one))):
        uses[name] = uses.get(name, 0) + 1
    return tuple(_blank(one, uses, rule.required) for one in rule.body)


def _blank(one: Literal, uses: dict[str, int], required: frozenset[str]) -> Literal:
    match one:
        case Atom():
            nullable = (*one.nullable, *(False,) * (len(one.terms) - len(one.nullable)))
            terms = [
                None
                if isinstance(t, Var) and uses[t.name] == 1 and not (null and t.name in required)
                else t
                for t, null in zip(one.terms, nullable, strict=True)
            ]
            n = len(one.keys)
            return Atom(one.name, tuple(terms[:n]), tuple(terms[n:]), one.nullable, one.weighs)
        case Not():
            return Not(
                tuple(_blank(part, uses, one.required | required) for part in one.body),
                one.required,
            )
        case Either():
            return Either(
                tuple(tuple(_blank(inner, uses, required) for inner in part) for part in one.parts)
            )
    return one


def show_body(body: Iterable[Literal], required: frozenset[str]) -> str:
    """Return a conjunction as text."""
    return ", ".join(show_literal(one, required) for one in body)


def show_literal(one: Literal, required: frozenset[str]) -> str:
    """Return a literal as text."""
    match one:
        case Atom():
            return _show_atom(one, required)
        case Test():
            return show_test(one.term)
        case Define():
            return f"{show_variable(one.var.name)} = {show_term(one.term)}"
        case Not():
            text = show_body(one.body, required | one.required)
            return (
                f"!{text}" if len(one.body) == 1 and isinstance(one.body[0], Atom) else f"!({text})"
            )
        case Either():
            return f"({' ; '.join(show_body(part, required) for part in one.parts)})"
    raise AssertionError(one)


def _show_atom(atom: Atom, required: frozenset[str]) -> str:
    nullable = (*atom.nullable, *(False,) * (len(atom.terms) - len(atom.nullable)))
    args = [_show_arg(t, null, required) for t, null in zip(atom.terms, nullable, strict=True)]
    keys, values = args[: len(atom.keys)], args[len(atom.keys) :]
    return _shape(atom, keys, values)


def _show_head(atom: Atom) -> str:
    args = [show_term(term) for term in atom.terms if term is not None]
    return _shape(atom, args[: len(atom.keys)], args[len(atom.keys) :])


def _shape(atom: Atom, keys: list[str], values: list[str]) -> str:
    name = show_name(atom.name)
    if not values:
        return f"{name}({', '.join(keys)})"
    shown = values[0] if len(values) == 1 else f"({', '.join(values)})"
    return f"{name}[{', '.join(keys)}] = {shown}"


def _show_arg(term: Term | None, nullable: bool, required: frozenset[str]) -> str:
    if term is None:
        return "_?" if nullable else "_"
    if isinstance(term, Var) and nullable and term.name not in required:
        return f"{show_variable(term.name)}?"
    return show_term(term)


def show_variable(name: str) -> str:
    """Return a variable as text, in quotes if it is a column's name, since that may be any word."""
    return name if VARIABLE.fullmatch(name) else f"`{name}`"


def _show_fold(fold: Fold) -> str:
    result = show_variable(fold.result)
    name = result if fold.place is None else f"({show_variable(fold.place)}, {result})"
    return f"{name} = {fold.op}({', '.join(map(show_term, fold.args))})"


def show_test(term: Term) -> str:
    """Return a condition as text: comparisons as they are, any other term compared with true."""
    match term:
        case Call(name, (left, right)) if name in COMPARISONS:
            return f"{show_term(left)} {name} {show_term(right)}"
        case Call("not", (inner,)):
            return f"{show_term(inner)} = false"
    return f"{show_term(term)} = true"


def show_term(term: Term, binding: int = 0) -> str:
    """Return a term as text, in parentheses if its operator binds looser than `binding`."""
    match term:
        case Var():
            return show_variable(term.name)
        case Lit(float(value), _) if not isfinite(value):
            return f"float:ratio[{'0e0' if isnan(value) else '1e0' if value > 0 else '-1e0'}, 0e0]"
        case Lit(bytes() as value) if not _is_text(value):
            raise SqlError(
                f"{value!r}: bytes that are no UTF-8 are compared and inserted as columns: put "
                f"them into a "
                "table first"
            )
        case Lit():
            return _show_long(term) or show_constant(Const(term.value, term.store))
        case Call(name, (left, right)) if name in INFIX:
            own = INFIX[name]
            text = f"{show_term(left, own)} {name} {show_term(right, own + 1)}"
            return f"({text})" if own < binding else text
        case Call(name, (left, right)) if name in COMPARISONS:
            # a comparison is a term only among the arguments of a function
            return f"and[{_show_operand(term)}]"
        case Call():
            return f"{show_name(term.name)}[{', '.join(map(_show_operand, term.args))}]"
    raise AssertionError(term)


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _show_long(term: Lit) -> str | None:
    """Return a decimal of more than 18 digits, which a literal of rules is not by itself; None
    for other constants.
    """
    if not isinstance(term.value, Decimal) or wide_scale(term.store) is None:
        return None
    return f'decimal["{term.value:f}", {wide_scale(term.store)}, {precision(term.store)}]'


def _show_operand(term: Term) -> str:
    match term:
        case Call(name, (left, right)) if name in COMPARISONS:
            return f"{show_term(left)} {name} {show_term(right)}"
    return show_term(term)
