"""Rules as text again: what `explain` prints, and what parses back to the same rule."""

import json
from datetime import date, datetime

from ivm.lang.rule import (
    Aggregate,
    Atom,
    Binary,
    Compare,
    Const,
    Literal,
    Negation,
    Placed,
    Predicate,
    Rule,
    Term,
    Var,
)

_BINDING = {"+": 1, "-": 1, "*": 2, "/": 2}


def show(node: Placed) -> str:
    """The text of any part of a rule."""
    match node:
        case Rule():
            return show_rule(node)
        case Predicate():
            return show_predicate(node)
        case Aggregate():
            return show_aggregate(node)
        case Atom() | Compare() | Negation():
            return show_literal(node)
        case Var() | Const() | Binary():
            return show_term(node)
    return repr(node)


def show_rule(rule: Rule) -> str:
    """`f[x] = d <- agg<<d = count()>> edge(x, y).`"""
    heads = ", ".join(map(show_literal, rule.heads))
    aggregate = show_aggregate(rule.aggregate) + " " if rule.aggregate else ""
    body = " ; ".join(", ".join(map(show_literal, disjunct)) for disjunct in rule.body)
    return f"{heads} <- {aggregate}{body}."


def show_predicate(predicate: Predicate) -> str:
    """The declaration: `price[item] = p -> string(item), decimal(18,2)(p).`"""
    variables = tuple(map(Var, predicate.columns))
    is_function = predicate.value is not None
    head = _function(predicate.name, variables) if is_function else Atom(predicate.name, variables)
    types = (f"{type_}({name})" for name, type_ in zip(predicate.columns, predicate.types, strict=True))
    return f"{show_literal(head)} -> {', '.join(types)}."


def _function(name: str, variables: tuple[Var, ...]) -> Atom:
    return Atom(name, variables[:-1], variables[-1])


def show_aggregate(aggregate: Aggregate) -> str:
    """`agg<<t = sum(c)>>`"""
    argument = show_term(aggregate.argument) if aggregate.argument else ""
    return f"agg<<{aggregate.result.name} = {aggregate.op}({argument})>>"


def show_literal(literal: Literal) -> str:
    """An atom, a comparison or a negation."""
    match literal:
        case Atom():
            args = ", ".join(map(show_term, literal.args))
            if literal.value is None:
                return f"{literal.predicate}({args})"
            return f"{literal.predicate}[{args}] = {show_term(literal.value)}"
        case Compare():
            return f"{show_term(literal.left)} {literal.op} {show_term(literal.right)}"
        case Negation():
            body = ", ".join(map(show_literal, literal.body))
            return f"!{body}" if len(literal.body) == 1 else f"!({body})"


def show_term(term: Term, binding: int = 0) -> str:
    """A term, in parentheses where its operator binds looser than `binding`."""
    match term:
        case Var():
            return term.name
        case Const():
            return show_constant(term)
        case Binary():
            own = _BINDING[term.op]
            text = f"{show_term(term.left, own)} {term.op} {show_term(term.right, own + 1)}"
            return f"({text})" if own < binding else text


def show_constant(constant: Const) -> str:
    """A constant as a literal that reads back as it: `#2013-01-31#`, `true`, `3.50`, `1e+300`."""
    value = constant.value
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case datetime():
            return f"#{value.isoformat(' ')}#"
        case date():
            return f"#{value.isoformat()}#"
        case float():
            text = repr(value)
            return text if "e" in text else f"{text}e0"
        case _:
            return f"{value:f}" if constant.type.startswith("decimal") else str(value)
