"""Traverse rules: their atoms and variables, renamed copies, and the predicates that they read and write.

q(x) <- e(x, y), !(r(y, z), z > 3).

atoms       e(x, y), r(y, z)
variables   of the negation: y        z is free nowhere, the negation quantifies it
reads       e, r
writes      q
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from re import fullmatch
from typing import Any

from ivm.lang.ir import Aggregate, Atom, Binary, Compare, Const, Literal, Negation, Rule, Term, Var


def atoms(literals: Iterable[Literal]) -> Iterator[Atom]:
    """Yield every atom of some literals, including those in negations."""
    for literal in literals:
        if isinstance(literal, Atom):
            yield literal
        elif isinstance(literal, Negation):
            yield from atoms(literal.body)


def variables(*nodes: Term | Literal | Aggregate | None) -> tuple[Var, ...]:
    """Return the distinct free variables in order of appearance; those that a negation quantifies are not free."""
    return tuple(dict.fromkeys(_variables(nodes)))


def _variables(nodes: Iterable[Term | Literal | Aggregate | None]) -> Iterator[Var]:
    for node in nodes:
        match node:
            case Var():
                yield node
            case Binary() | Compare():
                yield from _variables((node.left, node.right))
            case Atom():
                yield from _variables(node.terms)
            case Negation():
                yield from (v for v in _variables(node.body) if v not in node.exists)
            case Aggregate():
                yield from _variables(node.arguments)


def constants(rule: Rule) -> Iterator[Const]:
    """Yield every constant of a rule, including those in negations."""
    heads = (term for head in rule.heads for term in head.terms)
    found = leaves((*heads, *rule.aggregates, *chain(*rule.body)))
    yield from (leaf for leaf in found if isinstance(leaf, Const))


def unnamed_in(rule: Rule) -> set[str]:
    """Return the names of the variables for `_`: made by hoist.py and occurring once."""
    heads = chain(*(head.terms for head in rule.heads), *(one.arguments for one in rule.aggregates))
    uses = Counter(leaf.name for leaf in leaves((*heads, *chain(*rule.body))) if isinstance(leaf, Var))
    return {name for name, n in uses.items() if n == 1 and fullmatch(r"_\d+", name)}


def leaves(nodes: Iterable[Term | Literal | Aggregate | None]) -> Iterator[Var | Const]:
    """Yield every occurrence of a variable or constant, including those in negations."""
    for node in nodes:
        match node:
            case Var() | Const():
                yield node
            case Binary() | Compare():
                yield from leaves((node.left, node.right))
            case Atom():
                yield from leaves(node.terms)
            case Negation():
                yield from leaves(node.body)
            case Aggregate():
                yield from node.arguments
                yield from node.constants


def renamed(node: Any, names: Mapping[Var, Var]) -> Any:
    """Return a term, an atom or a comparison with its variables renamed."""
    match node:
        case Var():
            return names.get(node, node)
        case Binary() | Compare():
            return replace(node, left=renamed(node.left, names), right=renamed(node.right, names))
        case Atom():
            args = tuple(renamed(arg, names) for arg in node.args)
            return replace(node, args=args, value=node.value and renamed(node.value, names))
    return node


def tied(literals: Iterable[Literal]) -> list[set[Var]]:
    """Group variables: two are in one group if a chain of literals that share variables connects them.

    >>> x, y, z = map(Var, "xyz")
    >>> [sorted(v.name for v in group) for group in tied([Atom("e", (x, y)), Atom("a", (z,)), Atom("b", (y,))])]
    [['z'], ['x', 'y']]
    """
    groups: list[set[Var]] = []
    for names in filter(None, map(set, map(variables, literals))):
        group = names.union(*(g for g in groups if not g.isdisjoint(names)))
        groups = [*(g for g in groups if g.isdisjoint(names)), group]
    return groups


def reads(rule: Rule) -> tuple[str, ...]:
    """Return the names of the predicates in the body, each once, in order of appearance."""
    return tuple(dict.fromkeys(atom.predicate for disjunct in rule.body for atom in atoms(disjunct)))


def writes(rule: Rule) -> tuple[str, ...]:
    """Return the names of the predicates in the heads, each once, then the rule's view of failing bindings, if any."""
    heads = rule.heads if rule.failed is None else (*rule.heads, rule.failed)
    return tuple(dict.fromkeys(head.predicate for head in heads))
