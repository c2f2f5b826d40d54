"""Parameters of a question: `$who` in its rules is a variable of a relation of one row, that of the
values which are given.

    q(n) <- paid[$who] = n.          q(n) <- query$given($who), paid[$who] = n.          ("ada")

So plans do not depend on the values, and a question that is asked again with others is not compiled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from ivm.errors import OptionError, RuleSyntaxError
from ivm.lang.ir import Const, Predicate, Type, Var
from ivm.lang.program import Program
from ivm.lang.syntax_tree import (
    Aggregation,
    And,
    Anonymous,
    Application,
    Clause,
    Formula,
    Not,
    Or,
    Statement,
)
from ivm.lang.types import LITERALS
from ivm.names import is_parameter

GIVEN = "query$given"
TYPES = {**LITERALS, int: "int64", bytes: "bytes", timedelta: "duration"}


@dataclass(frozen=True, slots=True)
class Parameter(Const):
    """The value of a parameter, whose name it has."""

    name: str


def given(parameters: Mapping[str, Any]) -> dict[str, Parameter]:
    """Return the values of parameters by name, with their types.  Raises OptionError."""
    if not isinstance(parameters, Mapping):
        raise OptionError(
            f"parameters={parameters!r}: it is a dict of values by name, {{'who': 'ada'}} for $who"
        )
    return {name: Parameter(value, _type(name, value), name) for name, value in parameters.items()}


def _type(name: str, value: Any) -> Type:
    type_ = TYPES.get(type(value))
    if isinstance(value, Decimal) and value.is_finite():
        type_ = f"decimal(18,{max(0, -int(value.as_tuple().exponent))})"
    if isinstance(value, datetime) and value.tzinfo:
        type_ = "timestamp(UTC)"
    if type_ is None:
        shown = "null: no row has it in a comparison" if value is None else repr(value)
        raise OptionError(
            f"parameter {name} is {shown}; it is a number, a text, a time, true or false"
        )
    return type_


def with_parameters(
    statements: Sequence[Statement], parameters: Mapping[str, Parameter]
) -> Program:
    """Return a program of statements whose bodies have the values of parameters.

    Raises RuleSyntaxError for a parameter without a value, or in a head; OptionError for a value
    of none.
    """
    used = {var.name: var for var in _parameters(statements)}
    for name, var in used.items():
        if name[1:] not in parameters:
            example = f"query(text, {{{name[1:]!r}: 3}})"
            reason = f"{name} has no value: only a question is given some, as in {example}"
            raise RuleSyntaxError(var.where, reason)
    for name in parameters:
        if f"${name}" not in used:
            raise OptionError(f"parameter {name}: the text has no ${name}")
    if not used:
        return Program(statements=(*statements,))
    elsewhere = tuple(part.heads if isinstance(part, Clause) else part for part in statements)
    for var in _parameters(elsewhere):
        reason = f"{var} is not in the body of a rule: write x here, and there x = {var}"
        raise RuleSyntaxError(var.where, reason)
    values = tuple(replace(parameters[n[1:]], where=var.where) for n, var in used.items())
    predicate = Predicate(GIVEN, tuple(value.type for value in values), None, True, (*used,))
    return Program(
        {GIVEN: predicate},
        statements=tuple(
            replace(clause, body=_given(clause.body, (*used,), clause.aggregates))
            if isinstance(clause, Clause)
            else clause
            for clause in statements
        ),
        seeds={GIVEN: [values]},
    )


def _parameters(node: object) -> Iterator[Var]:
    """Yield every occurrence of a parameter in a tree."""
    if isinstance(node, Var):
        if is_parameter(node.name):
            yield node
    elif isinstance(node, tuple | list):
        for part in node:
            yield from _parameters(part)
    elif is_dataclass(node):
        for field in fields(node):
            yield from _parameters(getattr(node, field.name))


def _given(body: Formula, names: tuple[str, ...], beside: object) -> And:
    """Return a body with an atom of its parameters, also where it aggregates; `beside` has more."""
    inner = {var.name: var for var in _parameters((body, beside))}
    items = tuple(map(partial(_inside, names), body.items if isinstance(body, And) else (body,)))
    if not inner:
        return And(items)
    (where, *_) = (var.where for var in inner.values())
    terms = tuple(inner.get(name) or Anonymous() for name in names)
    return And((Application(GIVEN, terms, False, where=where), *items))


def _inside(names: tuple[str, ...], node: Formula) -> Formula:
    match node:
        case Aggregation():
            return replace(node, item=_given(node.item, names, node.aggregates))
        case Not():
            return replace(node, item=_inside(names, node.item))
        case And() | Or():
            return replace(node, items=tuple(map(partial(_inside, names), node.items)))
    return node
