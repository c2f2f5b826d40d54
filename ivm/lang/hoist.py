"""Flatten a tree: every argument becomes a variable or a constant, every body a `Conj`.

    p(x) <- f(g[x] + 1), !h(x, _).      becomes      p(x) <- f(_1), g[x] = _2, _1 = _2 + 1, !h(x, _3).

The new literals join the conjunction of the atom that they come from, so each new variable has the scope of its term.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count

from ivm.errors import ConstructError, SafetyError, Where
from ivm.lang.aggregate import in_order_of, told_apart
from ivm.lang.ir import MIRRORED, Aggregate, Atom, Binary, Compare, Const, Term, Var
from ivm.lang.syntax_tree import And, Anonymous, Call, Clause, Formula, Node, Not, Operation, Or
from ivm.lang.types import folded


@dataclass(frozen=True, slots=True)
class Conj:
    """dform, dform, ... (the paper's *Figure 1*)."""

    parts: tuple["Part", ...]


@dataclass(frozen=True, slots=True)
class Disj:
    """conj ; conj ; ..."""

    options: tuple[Conj, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """!conj"""

    body: Conj
    where: Where


Part = Atom | Compare | Disj | Refusal


class Hoist:
    """Names the terms in a clause's arguments and the function values inside its terms by variables."""

    def __init__(self, clause: Clause):
        self.source = clause
        taken = _names(clause)
        self.fresh = (Var(f"_{n}") for n in count(1) if f"_{n}" not in taken)

    def clause(self) -> tuple[tuple[Atom, ...], tuple[Aggregate, ...], Conj]:
        """Return the heads, the aggregates in their order, and the body.  Raises SafetyError for a misplaced `_`."""
        body = self.conjunction(self.source.body)
        extra: list[Part] = []
        heads = tuple(self.head(head, extra) for head in self.source.heads)
        aggregates = tuple(self.aggregate(one, terms, extra) for one, terms in self.source.aggregates)
        return heads, in_order_of(heads, aggregates), Conj((*body.parts, *extra))

    def head(self, head: Call | Operation, extra: list[Part]) -> Atom:
        """Return a head with variables as arguments; append the literals that define new ones to `extra`."""
        call, value = (head.left, head.right) if isinstance(head, Operation) else (head, None)
        assert isinstance(call, Call)
        if call.keys is not None:
            reason = f"a view has one value: derive a view for each of the values of {call.name}"
            raise ConstructError(call.where, reason)
        args = tuple(self.head_variable(arg, extra) for arg in call.args)
        result = None if value is None else self.head_variable(value, extra)
        return Atom(call.name, args, result, where=call.where)

    def head_variable(self, node: Node, extra: list[Part]) -> Var:
        """Return the variable for an argument of a head."""
        if isinstance(node, Anonymous):
            raise SafetyError(node.where, "`_` in a head stands for no value: name a variable of the body")
        return self.variable(node, extra)

    def aggregate(self, aggregate: Aggregate, terms: tuple[Node, ...], extra: list[Part]) -> Aggregate:
        """Return the aggregate with variables as arguments, and with its constants."""
        terms, constants = told_apart(aggregate, terms)
        arguments = tuple(self.variable(term, extra) for term in terms)
        return replace(aggregate, arguments=arguments, constants=constants)

    # -- formulas

    def conjunction(self, node: Formula) -> Conj:
        """Convert a formula to a conjunction."""
        return Conj(tuple(part for item in _items(node) for part in self.parts(item)))

    def parts(self, node: Formula) -> list[Part]:
        """Convert a formula to parts of its conjunction, with the literals that its terms need."""
        match node:
            case Or():
                return [Disj(tuple(self.conjunction(item) for item in node.items))]
            case Not():
                return [Refusal(self.conjunction(node.item), node.where)]
            case Operation():
                return self.comparison(node)
            case Call():
                extra: list[Part] = []
                return [Atom(node.name, self.simple(node.args, extra), where=node.where), *extra]
        raise AssertionError(node)

    def comparison(self, node: Operation) -> list[Part]:
        """Return a comparison, or the atom f[x] = v, with the literals that its terms need."""
        left, right = node.left, node.right
        if node.op == "=" and isinstance(right, Call) and not isinstance(left, Call):
            left, right = right, left
        extra: list[Part] = []
        if node.op == "=" and isinstance(left, Call):
            args = self.simple(left.args, extra)
            (value,) = self.simple((right,), extra)
            return [Atom(left.name, args, value, where=left.where), *extra]
        terms = self.term(left, extra), self.term(right, extra)
        return [*extra, _oriented(node, *terms)]

    # -- terms: each appends the literals that it needs to `extra`

    def simple(self, nodes: Iterable[Node], extra: list[Part]) -> tuple[Var | Const, ...]:
        """Convert arguments to variables and constants."""
        return tuple(node if isinstance(node, Const) else self.variable(node, extra) for node in nodes)

    def variable(self, node: Node, extra: list[Part]) -> Var:
        """Convert a node to a variable: a new one for a term, a function's value or `_`."""
        if isinstance(node, Var):
            return node
        name = replace(next(self.fresh), where=node.where)
        if isinstance(node, Call):
            extra.append(Atom(node.name, self.simple(node.args, extra), name, where=node.where))
        elif not isinstance(node, Anonymous):
            extra.append(Compare("=", name, self.term(node, extra), where=node.where))
        return name

    def term(self, node: Node, extra: list[Part]) -> Term:
        """Convert a node to a term without function applications; fold literals.  Raises RuleTypeError."""
        match node:
            case Anonymous():
                raise SafetyError(node.where, "`_` may only be an argument of an atom: it has no value here")
            case Operation():
                left, right = self.term(node.left, extra), self.term(node.right, extra)
                if isinstance(left, Const) and isinstance(right, Const):
                    literal = folded(node.op, left, right, node.where)
                    if literal is not None:
                        return literal
                return Binary(node.op, left, right, where=node.where)
            case Call():
                return self.variable(node, extra)
            case _:
                return node


def _items(node: Formula) -> Iterator[Formula]:
    """Yield the formulas of a conjunction, nested conjunctions flattened."""
    if isinstance(node, And):
        for item in node.items:
            yield from _items(item)
    else:
        yield node


def _oriented(node: Operation, left: Term, right: Term) -> Compare:
    """Return a comparison, mirrored if only its right side is a lone variable."""
    if isinstance(right, Var) and not isinstance(left, Var):
        return Compare(MIRRORED[node.op], right, left, where=node.where)
    return Compare(node.op, left, right, where=node.where)


def _names(node: object) -> set[str]:
    """Return the variable names of a tree."""
    match node:
        case Var():
            return {node.name}
        case tuple():
            return set().union(*map(_names, node))
        case Clause():
            return _names((node.heads, node.body, node.aggregates))
        case Call():
            return _names(node.args)
        case Operation():
            return _names((node.left, node.right))
        case Aggregate():
            return _names(node.results)
        case And() | Or():
            return _names(node.items)
        case Not():
            return _names(node.item)
    return set()
