"""Parts of rules, as SQL is translated to them; trees.py makes rules of them.

Atom       t[k] = (a?, b)      `a?` also matches null
Test       a < b               holds where it is true; neither false nor null
Define     x = a + 1
Not        !(t(a, b), b > 3)
Either     (a = 1 ; b = 2)
Rule       v(a, b) <- ...      f[a] = n <- agg<<n = count()>> ...
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any, NamedTuple, TypeAlias

from ivm.lang.ir import GIVEN, Value
from ivm.sql.types import SqlType

VARIABLE = re.compile(r"_x\d+")  # those that the translation makes
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")


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
    """An operator or a function of terms, and the expression of SQL that it is of."""

    name: str
    args: tuple["Term", ...]
    origin: Any = field(default=None, compare=False, repr=False)


Term: TypeAlias = Var | Lit | Call


class Typed(NamedTuple):
    """A term, its type in SQL, and whether it may be null; `bare` is a whole number that is written
    without a type, which takes the type of the value that it is added to or compared with.
    """

    term: Term
    type: SqlType
    nullable: bool
    bare: bool = False


class Place:
    """Where a statement is given a value: what stands for it, once its type is known."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.typed: Typed | None = None

    def __deepcopy__(self, memo: Any) -> "Place":
        return self  # the copy of a tree has the same value there

    def compare_with(self, other: Typed) -> None:
        """Let the value have the type of what it is compared with."""
        number, store = Lit(self.number, "int64"), Lit(other.type.store, "string")
        self.typed = Typed(Call(GIVEN, (number, store)), other.type, False)


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

    @property
    def marked(self) -> list[tuple[Term | None, bool]]:
        """All arguments, and whether each column may be null."""
        return [*zip(self.terms, chain(self.nullable, repeat(False)), strict=False)]


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


def originated(term: Term, origin: Any) -> Term:
    """Return a term whose calls are of an expression of SQL, but for those of a part of it."""
    if not isinstance(term, Call) or term.origin is not None:
        return term
    return Call(term.name, tuple(originated(arg, origin) for arg in term.args), origin)


def variables(*nodes: Term | Literal | None) -> list[str]:
    """Return the variables of terms and literals, also inside negations, as often as they occur."""
    names: list[str] = []
    _note_variables(nodes, names)
    return names


def _note_variables(nodes: Iterable[Term | Literal | None], names: list[str]) -> None:
    for node in nodes:
        if isinstance(node, Var):
            names.append(node.name)
        elif node is not None:
            _note_variables(_parts_of(node), names)


def _parts_of(node: Term | Literal) -> Iterable[Term | Literal | None]:
    match node:
        case Call():
            return node.args
        case Atom():
            return node.terms
        case Test():
            return (node.term,)
        case Define():
            return node.var, node.term
        case Not():
            return node.body
        case Either():
            return chain(*node.parts)
    return ()


def atoms(one: Literal) -> list[str]:
    """Return the names of the relations that a literal reads."""
    if isinstance(one, Atom):
        return [one.name]
    inner = (
        one.body if isinstance(one, Not) else chain(*one.parts) if isinstance(one, Either) else ()
    )
    return [name for part in inner for name in atoms(part)]


def bound(body: Iterable[Literal]) -> set[str]:
    """Return the variables that atoms and definitions of a body bind."""
    names: set[str] = set()
    for literal in body:
        if isinstance(literal, Atom):
            names |= {*variables(literal)}
        elif isinstance(literal, Define):
            names.add(literal.var.name)
    return names


def substitute(node, names: dict[str, Term]):  # type: ignore[no-untyped-def]
    """Return a term or a literal with variables replaced by terms."""
    match node:
        case Var():
            return names.get(node.name, node)
        case Call():
            args = tuple(substitute(arg, names) for arg in node.args)
            return Call(node.name, args, node.origin)
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
                tuple(tuple(substitute(literal, names) for literal in part) for part in node.parts)
            )
    return node
