"""Integrity constraints: `edge(x, y) -> vertex(x), vertex(y).`, kept as views of what violates
them.

    constraint$ab(x, y) <- edge(x, y), !vertex(x).
    constraint$ab(x, y) <- edge(x, y), !vertex(y).

Such a view has a column for each variable that the left side binds, and no row as long as the
constraint holds.  A variable that occurs only to the right has to exist; what shares one is
violated together.

A view is named by the text of its constraint and its block's name, so that other constraints may
come and go.
"""

from collections.abc import Container, Iterator
from hashlib import sha256

from ivm.errors import RuleSyntaxError, Where
from ivm.lang.declarations import neither
from ivm.lang.ir import Const, Var
from ivm.lang.syntax_tree import (
    And,
    Application,
    Clause,
    Constraint,
    Formula,
    Node,
    Not,
    Operation,
    Or,
    items_of,
    parts_of,
    variables_in,
)
from ivm.names import CONSTRAINT
from pagestore.host import KEYS_MAX

LETTERS = 12
NONE = "violated$"  # the column of such a view if the left side binds no variable
Part = Formula | Node


def clauses_of(constraint: Constraint, known: Container[str]) -> list[Clause]:
    """Return the clauses of the view of what violates a constraint; `known` are the names of all
    predicates.

    Raises UnknownPredicateError, RuleSyntaxError.
    """
    _check_names(constraint, known)
    bound = tuple(dict.fromkeys(_bound(constraint.left)))[:KEYS_MAX]
    columns, left = tuple(Var(v.name, where=v.where) for v in bound), [constraint.left]
    if not columns:
        columns = (Var(NONE),)
        left.append(Operation("=", Var(NONE), Const(0, "int64")))
    head = Application(name_of(constraint), columns, False, where=constraint.where)
    clauses = [
        Clause((head,), And((*left, *violated)), (), where=constraint.where, text=constraint.text)
        for violated in _violations(constraint, {v.name for v in variables_in(constraint.left)})
    ]
    if not clauses:
        raise RuleSyntaxError(constraint.where, "this constraint holds in any case: leave it out")
    return clauses


def name_of(constraint: Constraint) -> str:
    """Return the name of the view of what violates a constraint."""
    hashed = sha256(f"{constraint.where.source}\0{constraint.text}".encode()).hexdigest()
    return CONSTRAINT + hashed[:LETTERS].translate(
        {ord(str(digit)): ord("g") + digit for digit in range(10)}
    )


def _check_names(constraint: Constraint, known: Container[str]) -> None:
    """Raise UnknownPredicateError for `itn(x)` to the right, which was probably meant as a type."""
    for item in constraint.items:
        if isinstance(item, Application) and len(item.args) == 1 and item.name not in known:
            raise neither(item)


def _violations(constraint: Constraint, outer: set[str]) -> Iterator[tuple[Formula, ...]]:
    """Yield what makes a constraint false, together with its left side: one way for each item to
    the right.

    Items that share a variable which the left side lacks are one.
    """
    groups: list[tuple[set[str], tuple[Formula, ...]]] = []
    for item in (part for written in constraint.items for part in items_of(written)):
        inner = {v.name for v in variables_in(item)} - outer
        tied = [group for group in groups if not inner.isdisjoint(group[0])]
        groups = [group for group in groups if group not in tied]
        groups.append(
            (inner.union(*(names for names, _ in tied)), (*(f for _, fs in tied for f in fs), item))
        )
    for _, items in groups:
        if truth(items[0]) is None:
            yield (Not(And(items), where=_where(items[0], constraint.where)),)
        elif not truth(items[0]):
            yield ()


def truth(formula: Formula) -> bool | None:
    """Return whether a formula is `true` or `false`; None if it is neither."""
    match formula:
        case Operation("=", Const(bool(value)), Const(True)):
            return value
    return None


def _where(formula: Formula, other: Where) -> Where:
    return other if isinstance(formula, And | Or) else formula.where


def _bound(part: Part) -> Iterator[Var]:
    """Yield the variables with a value wherever a formula holds, by atoms and comparisons."""
    match part:
        case Or(items):
            first, *others = [[*_bound(item)] for item in items]
            yield from (v for v in first if all(v in other for other in others))
        case Not():
            return
        case Var():
            yield part
        case _:
            for inner in parts_of(part):
                yield from _bound(inner)
