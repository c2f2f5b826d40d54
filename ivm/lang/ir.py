"""The intermediate representation of rules, which every later pass reads.

    a rule      heads <- disjunct ; disjunct ; ...
    a disjunct  a conjunction of literals:
        Atom       edge(x, 3)   price[i] = p      arguments are variables and constants only
        Compare    x < y        z = u + v * 2     `=` with a lone variable on the left may define it
        Negation   !(b(y), c(y, z))               `exists` holds the variables that occur only inside

Arguments hold no nested terms, terms no function applications, and disjunctions are only at the top
(see normalise); every constant has the type of its context (see infer).  Equality of nodes ignores
their places in the text.

Traverse rules: their atoms and variables, renamed copies, and the predicates that they read and
write.

q(x) <- e(x, y), !(r(y, z), z > 3).

atoms       e(x, y), r(y, z)
variables   of the negation: y        z is free nowhere, the negation quantifies it
reads       e, r
writes      q
"""

import json
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property
from itertools import chain
from re import compile
from typing import Any

from ivm.errors import Where

# a name that needs no quotes; names with a $ are internal
WORD = r"[^\W\d][\w$]*(:[^\W\d]\w*)*|\$\w+"
_is_word = compile(WORD).fullmatch
RESERVED = "true", "false", "_"
Type = str  # pagestore's type texts: int64, decimal(p,s), timestamp(zone), ...
# None is null
Value = int | float | bool | Decimal | str | bytes | date | time | datetime | timedelta | None
# comparisons with the sides swapped
MIRRORED = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
NEGATED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}

# the type of a concat: a row holds a word that identifies its text, which is read piece by piece
ROPE = "rope"


def as_read(type_: Type) -> Type:
    """Return the type that a column has for rules that read its values: a concat is a string."""
    return "string" if type_ == ROPE else type_


NOWHERE = Where("<none>", 0, 0)


@dataclass(frozen=True, slots=True)
class Placed:
    """A node with its place in the text, which equality ignores.  `str` gives the node as text."""

    where: Where = field(default=NOWHERE, compare=False, repr=False, kw_only=True)

    def __str__(self) -> str:
        return show(self)


@dataclass(frozen=True, slots=True)
class Predicate(Placed):
    """A relation (`value` is None) or a function, its column types and column names.

    The columns at positions `nullable` may be null: a function's value, or a non-key column of a
    stored relation. A function of several values is a relation whose first `key_count` columns are
    the function's keys.  A view that is a `bag` is a function whose value says how often it holds
    the row of its keys; users read the rows.
    """

    name: str
    keys: tuple[Type, ...]
    value: Type | None
    extensional: bool
    columns: tuple[str, ...] = ()
    nullable: tuple[int, ...] = ()
    key_count: int | None = None
    bag: bool = False

    @property
    def types(self) -> tuple[Type, ...]:
        """The types of all columns, a function's value last."""
        return self.keys if self.value is None else (*self.keys, self.value)

    @property
    def stored_types(self) -> tuple[str, ...]:
        """The types of all columns as a relation has them."""
        if ROPE not in self.types and not self.nullable:
            return self.types
        types = ("int64" if type_ == ROPE else type_ for type_ in self.types)
        return tuple(type_ + "?" * (place in self.nullable) for place, type_ in enumerate(types))


@dataclass(frozen=True, slots=True)
class Var(Placed):
    """A variable; an argument of an atom that is `marked`, written `x?`, may be null there."""

    name: str
    marked: bool = field(default=False, compare=False, repr=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class Const(Placed):
    """A constant of a type."""

    value: Value
    type: Type


@dataclass(frozen=True, slots=True)
class Binary(Placed):
    """`left op right` with op one of + - * /."""

    op: str
    left: "Term"
    right: "Term"


@dataclass(frozen=True, slots=True)
class Call(Placed):
    """`name[args]`, a function of terms (lang/functions.py), or a comparison among its arguments."""

    name: str
    args: tuple["Term", ...]


Term = Var | Const | Binary | Call
GIVEN = "$value"  # a function: a value that a question is given, by its number and type


def given_number(term: Term) -> int | None:
    """Return the number of the value that a term stands for; None for any other term."""
    if isinstance(term, Call) and term.name == GIVEN:
        (number, _) = term.args
        assert isinstance(number, Const) and isinstance(number.value, int)
        return number.value
    return None


@dataclass(frozen=True, slots=True)
class Atom(Placed):
    """R(args), or F[args] = value."""

    predicate: str
    args: tuple[Var | Const, ...]
    value: Var | Const | None = None

    @property
    def terms(self) -> tuple[Var | Const, ...]:
        """The arguments, a function's value last."""
        return self.args if self.value is None else (*self.args, self.value)


@dataclass(frozen=True, slots=True)
class Compare(Placed):
    """`left op right` with op one of = != < <= > >=."""

    op: str
    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class Negation(Placed):
    """There are no values of `exists` for which every literal of `body` holds."""

    body: tuple["Literal", ...]
    exists: tuple[Var, ...] = ()


Literal = Atom | Compare | Negation
Disjunct = tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Aggregate(Placed):
    """`result` is op over the variables `arguments`, grouped by the keys of its head
    (lang/aggregate.py).

    The last `by` arguments give the order, as price in `argmin(item, price)`.  `constants` are the
    operation's parameters, as 0.9 in `quantile(v, 0.9)`.  A `place`, as n in `(n, v) = top(v, 3)`,
    numbers the rows of a group. The order is `implied` if it is that of the keys, since none is
    written.  A function without keys has the value `absent`, if there is one, where there is
    nothing to aggregate.
    """

    op: str
    result: Var
    arguments: tuple[Var, ...] = ()
    constants: tuple[Const, ...] = ()
    place: Var | None = None
    by: int = 0
    implied: bool = field(default=False, compare=False, repr=False)
    absent: Const | None = None

    @property
    def written(self) -> tuple[Var, ...]:
        """The arguments without an implied order."""
        return self.arguments[: len(self.arguments) - self.by * self.implied]

    @property
    def argument(self) -> Var | None:
        """The first argument; None for count."""
        return self.arguments[0] if self.arguments else None

    @property
    def results(self) -> tuple[Var, ...]:
        """The variables that the aggregate defines."""
        return (self.result,) if self.place is None else (self.place, self.result)


@dataclass(frozen=True, slots=True)
class Range:
    """The values of `key` that a rule aggregates for a value of `point`: point + low <= key <=
    point + high, in words.

    None is not a bound.  The variables `group` are in both atoms; `whole` says that the head's keys
    identify rows of the body's first atom, else they are group and point.  With `ties`, pairs of
    point and key, it takes the last before the points, or the first after them, in their order.
    """

    point: Var
    key: Var
    group: tuple[Var, ...]
    low: int | None
    high: int | None
    whole: bool
    ties: tuple[tuple[Var, Var], ...] = ()


@dataclass(frozen=True)
class Rule(Placed):
    """heads <- body; all arguments of heads are variables.  An aggregating rule has one of
    `aggregates` for each head, whose value is the result, and one disjunct, or several that exclude
    each other (see plan/rewrite/aggregates.py).

    A binding whose arithmetic fails is an error, or a row of the atom `failed` if there is one.  A
    rule with `refuses` derives nothing: each of its bindings is an error (see
    plan/rewrite/helpers.py).

    A rule with a `range` has an atom of points, an aggregated atom, and comparisons that the range
    implies; it is evaluated by folding ranges of the second atom's tree (see
    plan/rewrite/ranges.py).

    With `levels`, aggregates of nested groups share states (see views/shared_states.py).

    A rule of `texts` has a concat's row as its body, and as the value of its head the text of that
    row's group, which the body does not bind (see plan/rewrite/helpers.py).
    """

    heads: tuple[Atom, ...]
    body: tuple[Disjunct, ...]
    aggregates: tuple[Aggregate, ...] = ()
    # of every variable
    types: Mapping[str, Type] = field(default_factory=dict, compare=False, repr=False)
    text: str = field(default="", compare=False, repr=False)
    failed: Atom | None = None
    refuses: Mapping[tuple[int, int], Binary | Call] | None = field(
        default=None, compare=False, repr=False
    )
    range: Range | None = None
    levels: bool = False
    texts: bool = False

    @property
    def aggregate(self) -> Aggregate | None:
        """The first aggregate, if there is one."""
        return self.aggregates[0] if self.aggregates else None

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """The names of the predicates in the body, each once, in order of appearance."""
        return tuple(dict.fromkeys(atom.predicate for atom in atoms(literals_of(self.body))))

    @cached_property
    def writes(self) -> tuple[str, ...]:
        """The names of the predicates in the heads, each once, then the rule's view of failing
        bindings, if any.
        """
        heads = self.heads if self.failed is None else (*self.heads, self.failed)
        return tuple(dict.fromkeys(head.predicate for head in heads))


@dataclass(frozen=True, slots=True)
class Edit(Placed):
    """One of `+` insert, `-` delete, `^` set. A delete from a function may leave its value None."""

    action: str
    predicate: str
    args: tuple[Const, ...]
    value: Const | None = None


_BINDING = {"+": 1, "-": 1, "*": 2, "/": 2}


def show(node: Placed) -> str:
    """Return the text of any part of a rule."""
    match node:
        case Rule():
            return show_rule(node)
        case Predicate():
            return show_predicate(node)
        case Aggregate():
            return show_aggregate(node)
        case Atom() | Compare() | Negation():
            return show_literal(node)
        case Var() | Const() | Binary() | Call():
            return show_term(node)
    return repr(node)


def show_rule(rule: Rule) -> str:
    """`f[x] = d <- agg<<d = count()>> edge(x, y).`"""
    heads = ", ".join(map(show_literal, rule.heads))
    aggregate = (
        f"agg<<{', '.join(map(show_aggregate, rule.aggregates))}>> " if rule.aggregates else ""
    )
    body = " ; ".join(", ".join(map(show_literal, disjunct)) for disjunct in rule.body)
    return f"{heads} <- {aggregate}{body}."


def show_name(name: str) -> str:
    """Return a name as it is written in a text: in quotes if it is not a word.

    >>> show_name("customer:email"), show_name("Straße"), show_name("Order Date"), show_name("true")
    ('customer:email', 'Straße', '`Order Date`', '`true`')
    """
    return name if _is_word(name) and name not in RESERVED else f"`{name}`"


def show_predicate(predicate: Predicate) -> str:
    """Return the declaration: `price[item] = p -> string(item), decimal(18,2)(p).`"""
    names = [*map(show_name, predicate.columns)]
    if predicate.key_count is not None:
        keys = ", ".join(names[: predicate.key_count])
        values = ", ".join(names[predicate.key_count :])
        shown = f"{show_name(predicate.name)}[{keys}] = ({values})"
    elif predicate.value is not None:
        shown = f"{show_name(predicate.name)}[{', '.join(names[:-1])}] = {names[-1]}"
    else:
        shown = f"{show_name(predicate.name)}({', '.join(names)})"
    columns = zip(predicate.columns, predicate.stored_types, strict=True)
    types = (f"{show_type(type_)}({show_name(name)})" for name, type_ in columns)
    return f"{shown} -> {', '.join(types)}."


def show_type(type_: Type) -> str:
    """Return a column's type as it is written in a declaration: in quotes if it has a zone.

    >>> show_type("timestamp(Europe/Berlin)?"), show_type("decimal(18,2)")
    ('`timestamp(Europe/Berlin)`?', 'decimal(18,2)')
    """
    text = type_.removesuffix("?")
    return (f"`{text}`" if text.startswith("timestamp(") else text) + "?" * type_.endswith("?")


def show_aggregate(aggregate: Aggregate) -> str:
    """`t = sum(c)`, `n = count() else 0`, `(n, v) = top(v, 3)`"""
    terms = ", ".join([*map(str, aggregate.arguments), *map(str, aggregate.constants)])
    names = ", ".join(show_name(v.name) for v in aggregate.results)
    absent = "" if aggregate.absent is None else f" else {show_constant(aggregate.absent)}"
    return f"{f'({names})' if aggregate.place else names} = {aggregate.op}({terms}){absent}"


def show_literal(literal: Literal) -> str:
    """Return the text of an atom, a comparison or a negation."""
    match literal:
        case Atom():
            args = ", ".join(map(_show_argument, literal.args))
            if literal.value is None:
                return f"{show_name(literal.predicate)}({args})"
            return f"{show_name(literal.predicate)}[{args}] = {_show_argument(literal.value)}"
        case Compare():
            return f"{show_term(literal.left)} {literal.op} {show_term(literal.right)}"
        case Negation():
            body = ", ".join(map(show_literal, literal.body))
            return f"!{body}" if len(literal.body) == 1 else f"!({body})"


def _show_argument(term: Var | Const) -> str:
    return show_term(term) + "?" * (isinstance(term, Var) and term.marked)


def show_term(term: Term, binding: int = 0) -> str:
    """Return the text of a term, in parentheses if its operator binds looser than `binding`."""
    match term:
        case Var():
            return "_" if term.name == "_" else show_name(term.name)
        case Const():
            return show_constant(term)
        case Binary():
            rank = _BINDING[term.op]
            text = f"{show_term(term.left, rank)} {term.op} {show_term(term.right, rank + 1)}"
            return f"({text})" if rank < binding else text
        case Call(name, (left, right)) if name in MIRRORED:
            return f"{show_term(left)} {name} {show_term(right)}"
        case Call():
            return f"{show_name(term.name)}[{', '.join(map(show_term, term.args))}]"


def show_constant(constant: Const) -> str:
    """Return the literal that parses to the constant: `#2013-01-31#`, `true`, `3.50`, `1e+300`."""
    value = constant.value
    match value:
        case None:
            return f'null["{constant.type}"]'
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case bytes():
            return json.dumps(value.decode(), ensure_ascii=False)
        case datetime():
            return f"#{value.replace(tzinfo=None).isoformat(' ')}#"
        case date() | time():
            return f"#{value.isoformat()}#"
        case timedelta():
            return str(value // timedelta(microseconds=1))
        case float():
            text = repr(value)
            return text if "e" in text else f"{text}e0"
        case Decimal():
            return f"{value:f}"
    return str(value)


def atoms(literals: Iterable[Literal]) -> list[Atom]:
    """Return every atom of some literals, including those in negations."""
    gathered: list[Atom] = []
    for literal in literals:
        if isinstance(literal, Atom):
            gathered.append(literal)
        elif isinstance(literal, Negation):
            gathered += atoms(literal.body)
    return gathered


def literals_of(body: Iterable[Disjunct]) -> Iterable[Literal]:
    """Return the literals of some disjuncts in order, once each of those that are one object.

    Where a disjunction is written out, most literals are in many disjuncts: of six choices between
    two, 12 in 64.
    """
    return {id(literal): literal for disjunct in body for literal in disjunct}.values()


def variables(*nodes: Term | Literal | Aggregate | None) -> tuple[Var, ...]:
    """Return the distinct free variables in order of appearance; those that a negation
    quantifies are not free.
    """
    names: dict[str, Var] = {}
    _note_variables(nodes, names)
    return tuple(names.values())


def _note_variables(
    nodes: Iterable[Term | Literal | Aggregate | None], names: dict[str, Var]
) -> None:
    """Add the free variables by name, the first occurrence of each."""
    for node in nodes:
        match node:
            case Var():
                names.setdefault(node.name, node)
            case Atom():
                for term in node.terms:
                    if isinstance(term, Var):
                        names.setdefault(term.name, term)
            case Binary() | Compare():
                _note_variables((node.left, node.right), names)
            case Call():
                _note_variables(node.args, names)
            case Negation():
                inside: dict[str, Var] = {}
                _note_variables(node.body, inside)
                for v in node.exists:
                    inside.pop(v.name, None)
                for name, v in inside.items():
                    names.setdefault(name, v)
            case Aggregate():
                _note_variables(node.arguments, names)


def constants(rule: Rule) -> Iterator[Const]:
    """Yield every constant of a rule, including those in negations."""
    heads = (term for head in rule.heads for term in head.terms)
    parts = leaves((*heads, *rule.aggregates, *literals_of(rule.body)))
    yield from (leaf for leaf in parts if isinstance(leaf, Const))


def unnamed_in(rule: Rule) -> set[str]:
    """Return the names of the variables for `_`: made by normalise.py and occurring once in a
    disjunct.

    What several alternatives share is copied into each disjunct, with the same names.
    """
    names = {
        name
        for name in _names_in(literals_of(rule.body))
        if name[0] == "_" and name[1:].isdecimal()
    }
    if names:
        heads = chain(
            *(head.terms for head in rule.heads),
            *(aggregate.arguments for aggregate in rule.aggregates),
        )
        names -= {*_names_in(heads)}
        for disjunct in rule.body:
            uses = Counter(_names_in(disjunct))
            names -= {name for name in names if uses[name] > 1}
    return names


def _names_in(nodes: Iterable[Term | Literal]) -> list[str]:
    """Return the name of every occurrence of a variable."""
    return [leaf.name for leaf in leaves(nodes) if isinstance(leaf, Var)]


def leaves(nodes: Iterable[Term | Literal | Aggregate | None]) -> Iterator[Var | Const]:
    """Yield every occurrence of a variable or constant, including those in negations."""
    for node in nodes:
        match node:
            case Var() | Const():
                yield node
            case Binary() | Compare():
                yield from leaves((node.left, node.right))
            case Call():
                yield from leaves(node.args)
            case Atom():
                yield from node.terms
            case Negation():
                yield from leaves(node.body)
            case Aggregate():
                yield from node.arguments
                yield from node.constants


def renamed(node: Any, names: Mapping[Var, Var]) -> Any:
    """Return a part of a rule with its variables renamed, those that a negation quantifies, too."""
    match node:
        case Var():
            return replace(names[node], marked=node.marked) if node in names else node
        case Binary() | Compare():
            return replace(node, left=renamed(node.left, names), right=renamed(node.right, names))
        case Call():
            return replace(node, args=tuple(renamed(arg, names) for arg in node.args))
        case Atom():
            args = tuple(renamed(arg, names) for arg in node.args)
            return replace(node, args=args, value=node.value and renamed(node.value, names))
        case Negation():
            body = tuple(renamed(literal, names) for literal in node.body)
            return replace(node, body=body, exists=tuple(names.get(v, v) for v in node.exists))
        case Aggregate():
            arguments = tuple(renamed(argument, names) for argument in node.arguments)
            place = node.place and renamed(node.place, names)
            return replace(
                node, result=renamed(node.result, names), arguments=arguments, place=place
            )
    return node


def marked(atom: Atom) -> Atom:
    """Return an atom of a body whose variables may be null: it reads what a rule made for it."""

    return _with_marks(atom, lambda variable: True)


def unmarked(atom: Atom, names: Container[Var]) -> Atom:
    """Return an atom in which these variables have no marks."""
    return _with_marks(atom, lambda variable: variable.marked and variable not in names)


def _with_marks(atom: Atom, is_marked: Callable[[Var], bool]) -> Atom:
    def mark(term: Var | Const) -> Var | Const:
        return replace(term, marked=is_marked(term)) if isinstance(term, Var) else term

    return replace(atom, args=tuple(map(mark, atom.args)), value=atom.value and mark(atom.value))


def tied(literals: Iterable[Literal]) -> list[set[Var]]:
    """Group variables: two are in one group if a chain of literals that share variables connects
    them.

    >>> x, y, z = map(Var, "xyz")
    >>> [sorted(v.name for v in group) for group in tied([Atom("e", (x, y)), Atom("a", (z,)), Atom("b", (y,))])]
    [['z'], ['x', 'y']]
    """
    groups: list[set[Var]] = []
    for names in filter(None, map(set, map(variables, literals))):
        group = names.union(*(g for g in groups if not g.isdisjoint(names)))
        groups = [*(g for g in groups if g.isdisjoint(names)), group]
    return groups


def is_table(rule: Rule) -> bool:
    """Return whether a rule reads nothing and gives each variable of its head a constant, as
    p("tea", 3). does.
    """
    columns = [term for head in rule.heads for term in head.terms]

    def is_row(disjunct: Disjunct) -> bool:
        given = [
            x.left
            for x in disjunct
            if isinstance(x, Compare) and x.op == "=" and isinstance(x.right, Const)
        ]
        nulls = any(
            x.right.value is None
            for x in disjunct
            if isinstance(x, Compare) and isinstance(x.right, Const)
        )
        return len(given) == len(disjunct) and not nulls and [*dict.fromkeys(columns)] == given

    return len(rule.heads) == 1 and not rule.aggregates and all(map(is_row, rule.body))
