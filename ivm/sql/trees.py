"""Rules of SQL as trees of the language of rules, and their text, which stores keep.

Each node has its place in that text, so the trees are what the text parses to.  Next to them is
which expression of SQL is at a place.

    v(a, _x1) <- t[a] = b, _x1 = b + 1.        at 1:30 is the expression `b + 1` of SQL
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, TypeVar

from ivm.errors import RuleSyntaxError, Where
from ivm.lang import syntax_tree as tree
from ivm.lang.ir import Aggregate, Const, show_constant, show_name
from ivm.lang.ir import Var as Variable
from ivm.lang.program import Program
from ivm.lang.types import LITERALS, column_type, precision, wide_scale
from ivm.sql.errors import SqlError
from ivm.sql.terms import (
    COMPARISONS,
    VARIABLE,
    Atom,
    Call,
    Define,
    Either,
    Fold,
    Lit,
    Literal,
    Not,
    Rule,
    Term,
    Test,
    Var,
    variables,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

INFIX = {"+": 1, "-": 1, "*": 2, "/": 2}  # operators, by how close they bind
NO_UTF8 = (
    "bytes that are no UTF-8 are compared and inserted as columns: put them into a table first"
)
Part = TypeVar("Part")


@dataclass
class Trees:
    """Rules as trees, each on a line; `origins` are SQL's expressions by line and column."""

    source: str = "query"
    lines: list[str] = field(default_factory=list)
    statements: list[tree.Statement] = field(default_factory=list)
    origins: dict[tuple[int, int], Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """All lines."""
        return "\n".join(self.lines)

    def head(self, line: int) -> str:
        """Return the name of the first head of the rule on a line; empty for another line."""
        heads = (statement for statement in self.statements if isinstance(statement, tree.Clause))
        return next((tree.split(c.heads[0])[0].name for c in heads if c.where.line == line), "")

    @property
    def program(self) -> Program:
        """The rules, which no pass has checked, and their text."""
        return Program(statements=tuple(self.statements), text=self.text)

    def add(self, rules: Iterable[Rule]) -> Trees:
        """Add rules; return these trees.  Raises SqlError, RuleSyntaxError."""
        for rule in rules:
            with self._line() as writer:
                self.statements.append(writer.rule(rule))
        return self

    def add_bag(self, name: str) -> None:
        """Add the statement that a view is a bag."""
        with self._line() as writer:
            self.statements.append(writer.bag(name))

    def add_constraint(self, left: Rule, right: Rule | None) -> str:
        """Add that what satisfies the body of one rule satisfies that of another, or that nothing
        satisfies it; return the text.
        """
        with self._line() as writer:
            self.statements.append(writer.constraint(left, right))
        *before, text = self.lines
        if text in before:  # which is written twice
            self.lines, self.statements = before, self.statements[:-1]
        return text

    @contextmanager
    def _line(self) -> Iterator[Writer]:
        writer = Writer(Where(self.source, len(self.lines) + 1, 1), self.origins)
        yield writer
        self.lines.append(writer.text)


class Writer:
    """Writes a statement from left to right: each method writes a part and returns its tree."""

    def __init__(self, place: Where, origins: dict[tuple[int, int], Any]) -> None:
        self.place, self.origins = place, origins
        self._parts: list[str] = []
        self._depth = 0

    @property
    def text(self) -> str:
        """What is written so far."""
        return "".join(self._parts)

    def put(self, text: str) -> Where:
        """Write some letters; return their place."""
        place = self.place
        self._parts.append(text)
        self.place = Where(place.source, place.line, place.column + len(text))
        return place

    def listed(
        self, parts: Iterable[Part], write: Callable[[Part], Any], between: str = ", "
    ) -> tuple[Any, ...]:
        """Write parts one after the other."""
        values: list[Any] = []
        for part in parts:
            if values:
                self.put(between)
            values.append(write(part))
        return tuple(values)

    # -- statements

    def rule(self, rule: Rule) -> tree.Clause:
        """`heads <- agg<<folds>> body.`"""
        where = self.place
        heads = self.listed(rule.heads, lambda head: self.atom(head, None))
        self.put(" <- ")
        folds: tree.Folds = ()
        if rule.folds:
            self.put("agg<<")
            folds = self.listed(rule.folds, self.fold)
            self.put(">> ")
        body = tree.And(self.body(_live(rule), rule.required))
        self.put(".")
        return tree.Clause(heads, body, folds, where=where, text=self.text)

    def bag(self, name: str) -> tree.Clause:
        """`lang:bag(name).`"""
        where = self.put(f"{tree.BAG}(")
        shown = Variable(name, where=self.put(show_name(name)))
        self.put(").")
        head = tree.Application(tree.BAG, (shown,), False, where=where)
        return tree.Clause((head,), tree.And(()), (), where=where, text=self.text)

    def constraint(self, left: Rule, right: Rule | None) -> tree.Constraint:
        """`left -> right.`, or `left -> false.`"""
        where = self.place
        given = self.conjunction(_live(left), left.required)
        self.put(" -> ")
        if right is None:
            never = self.put("false")
            no, yes = (Const(value, "bool", where=never) for value in (False, True))
            held: tuple[tree.Formula, ...] = (tree.Operation("=", no, yes, where=never),)
        else:
            held = self.body(_live(right), right.required)
        self.put(".")
        return tree.Constraint(given, held, self.text, where=where)

    def fold(self, fold: Fold) -> tuple[Aggregate, tuple[tree.Node, ...]]:
        """`result = op(terms)`, or `(place, result) = op(terms)`"""
        place = None
        if fold.place is not None:
            self.put("(")
            place = self.variable(fold.place)
            self.put(", ")
        result = self.variable(fold.result)
        self.put(" = " if place is None else ") = ")
        where = self.put(fold.op)
        self.put("(")
        terms = self.listed(fold.args, self.term)
        self.put(")")
        return Aggregate(fold.op, result, place=place, where=where), terms

    # -- literals: `required` are the variables that are not null

    def body(self, body: Iterable[Literal], required: frozenset[str]) -> tuple[tree.Formula, ...]:
        """`literal, literal, ...`"""
        return self.listed(body, lambda literal: self.literal(literal, required))

    def conjunction(self, body: Iterable[Literal], required: frozenset[str]) -> tree.Formula:
        """Write a body as one formula."""
        items = self.body(body, required)
        return items[0] if len(items) == 1 else tree.And(items)

    def literal(self, one: Literal, required: frozenset[str]) -> tree.Formula:
        """Write a literal."""
        match one:
            case Atom():
                return self.atom(one, required)
            case Test():
                return self.test(one.term)
            case Define():
                return self.compared("=", one.var, one.term)
            case Not(body, own):
                where, alone = self.put("!"), len(body) == 1 and isinstance(body[0], Atom)
                self.put("" if alone else "(")
                refused = self.conjunction(body, required | own)
                self.put("" if alone else ")")
                return tree.Not(refused, where=where)
            case Either(parts):
                self.put("(")
                disjuncts = self.listed(parts, lambda part: self.conjunction(part, required), " ; ")
                self.put(")")
                return tree.Or(disjuncts) if len(disjuncts) > 1 else disjuncts[0]
        raise AssertionError(one)

    def atom(
        self, atom: Atom, required: frozenset[str] | None
    ) -> tree.Application | tree.Operation:
        """`name(keys)`, `name[keys] = value` or `name[keys] = (values)`; None is `required` of a
        head, whose variables are not marked.
        """
        marked = atom.marked

        def argument(place: int) -> tree.Node:
            term, mark = marked[place]
            return self.argument(term, mark and required is not None, required)

        split, name = len(atom.keys), show_name(atom.name)
        where = self.put(f"{name}[" if atom.values else f"{name}(")
        keys = self.listed(range(split), argument)
        if not atom.values:
            self.put(")")
            if not keys:  # a function without keys
                yes = Const(True, "bool", where=where._replace(column=where.column + 1))
                call = tree.Application(atom.name, (), True, where=where)
                return tree.Operation("=", call, yes, where=where)
            return tree.Application(atom.name, keys, False, where=where)
        several = len(atom.values) > 1
        self.put("] = (" if several else "] = ")
        values = self.listed(range(split, len(marked)), argument)
        self.put(")" if several else "")
        if several:
            return tree.Application(atom.name, (*keys, *values), False, split, where=where)
        call = tree.Application(atom.name, keys, True, where=where)
        return tree.Operation("=", call, *values, where=where)

    def argument(
        self, term: Term | None, nullable: bool, required: frozenset[str] | None
    ) -> tree.Node:
        """Write an argument of an atom: `_?` or `x?` if it may be null there."""
        if term is None:
            return tree.Anonymous(nullable, where=self.put("_?" if nullable else "_"))
        if isinstance(term, Var) and nullable and term.name not in (required or ()):
            variable = Variable(term.name, marked=True, where=self.variable(term.name).where)
            self.put("?")
            return variable
        return self.term(term)

    def test(self, term: Term) -> tree.Operation:
        """Write a condition: a comparison, or any other term compared with a constant."""
        match term:
            case Call(name, (left, right)) if name in COMPARISONS:
                return self.compared(name, left, right, term)
            case Call("not", (inner,)):
                return self.compared("=", inner, Lit(False, "bool"))
        return self.compared("=", term, Lit(True, "bool"))

    def compared(self, op: str, left: Term, right: Term, of: Term | None = None) -> tree.Operation:
        """`left op right`"""
        where, first = self.place, self.term(left)
        self.put(f" {op} ")
        if of is not None:
            self._note(of, where)
        return tree.Operation(op, first, self.term(right), where=where)

    # -- terms

    def variable(self, name: str) -> Variable:
        """Write a variable, in quotes if it is a column's name, since that may be any word."""
        return Variable(name, where=self.put(name if VARIABLE.fullmatch(name) else f"`{name}`"))

    def term(self, term: Term, binding: int = 0) -> tree.Node:
        """Write a term, in parentheses if its operator binds looser than `binding`."""
        if isinstance(term, Var):
            return self.variable(term.name)
        if isinstance(term, Lit):
            return self.constant(term)
        self._depth += 1
        if self._depth > tree.NESTING_MAX:
            raise RuleSyntaxError(self.place, tree.TOO_DEEP)
        applied = self.call(term, binding)
        self._depth -= 1
        return applied

    def call(self, call: Call, binding: int) -> tree.Node:
        """Write an operator or a function."""
        name, args = call.name, call.args
        if name in INFIX and len(args) == 2:
            strength = INFIX[name]
            self.put("(" if strength < binding else "")
            left = self.term(args[0], strength)
            self.put(" ")
            where = self.put(f"{name} ")
            self._note(call, where)
            right = self.term(args[1], strength + 1)
            self.put(")" if strength < binding else "")
            return tree.Operation(name, left, right, where=where)
        if name in COMPARISONS:  # which is a term only among the arguments of a function
            return self.applied("and", (call,), None)
        return self.applied(name, args, call)

    def applied(self, name: str, args: tuple[Term, ...], of: Term | None) -> tree.Application:
        """`name[args]`"""
        where = self.put(f"{show_name(name)}[")
        if of is not None:
            self._note(of, where)
        operands = self.listed(args, self.operand)
        self.put("]")
        return tree.Application(name, operands, True, where=where)

    def operand(self, term: Term) -> tree.Node:
        """Write an argument of a function."""
        match term:
            case Call(name, (left, right)) if name in COMPARISONS:
                return self.compared(name, left, right, term)
        return self.term(term)

    def constant(self, constant: Lit) -> tree.Node:
        """Write a constant, of the type that its text has."""
        value, type_ = constant.value, constant.store
        if isinstance(value, float) and not isfinite(value):
            above = 0.0 if isnan(value) else 1.0 if value > 0 else -1.0
            return self.applied("float:ratio", (Lit(above, type_), Lit(0.0, type_)), None)
        if isinstance(value, Decimal) and (places := wide_scale(type_)) is not None:
            digits = (
                Lit(f"{value:f}", "string"),
                Lit(places, "int64"),
                Lit(precision(type_), "int64"),
            )
            return self.applied("decimal", digits, None)
        if type_ == "timestamp(UTC)":  # rules have no such constant
            return self.applied("datetime:utc", (Lit(value, "timestamp"),), None)
        if isinstance(value, bytes):
            try:
                value = value.decode()
            except UnicodeDecodeError:
                raise SqlError(f"{value!r}: {NO_UTF8}") from None
        text = show_constant(Const(value, type_))
        made = _as_read(value, type_, text, self.place)
        self.put(text)
        return made

    def _note(self, term: Term, where: Where) -> None:
        if isinstance(term, Call) and term.origin is not None:
            self.origins[where.line, where.column] = term.origin


def _as_read(value: Any, type_: str, text: str, where: Where) -> Const:
    """Return the constant that the text of one is."""
    match value:
        case None:
            type_ = column_type(type_, where)
        case int() | timedelta() if not isinstance(value, bool):
            value, type_ = int(text), "int64"
        case Decimal():
            if "." not in text:
                return Const(int(text), "int64", where=where)
            type_ = f"decimal(18,{len(text.partition('.')[2])})"
        case _:
            type_ = next(
                (name for kind, name in LITERALS.items() if isinstance(value, kind)), type_
            )
            value = value.replace(tzinfo=None) if isinstance(value, datetime) else value
    return Const(value, type_, where=where)


def _live(rule: Rule) -> tuple[Literal, ...]:
    """Return a body with `_` for each variable that occurs once."""
    uses: dict[str, int] = {}
    folds = (arg for fold in rule.folds for arg in fold.args)
    for name in variables(*rule.heads, *folds, *rule.body):
        uses[name] = uses.get(name, 0) + 1
    return tuple(_blank(literal, uses, rule.required) for literal in rule.body)


def _blank(one: Literal, uses: dict[str, int], required: frozenset[str]) -> Literal:
    match one:
        case Atom():
            terms = [
                None
                if isinstance(t, Var) and uses[t.name] == 1 and not (null and t.name in required)
                else t
                for t, null in one.marked
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
