"""Random small programs and random edits over tiny domains, so that every kind of collision
happens.

    stored   a(x)   e(x, y)   r(x, y)   t(x, y, z)   f[x] = v   g[x, y] = v          all over int64
    views    v0, v1, ...  each over what is stored and the views before it

The programs are safe by construction.  An edit is (predicate, row, inserted?), where a function's
row ends with its value and inserting sets it; the same row may come and go within one transaction.
"""

import re
from dataclasses import dataclass
from itertools import count

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

Shape = tuple[int, bool]  # number of arguments, whether a function
Row = tuple[int, ...]
Edit = tuple[str, Row, bool]

STORED: dict[str, Shape] = {
    "a": (1, False), "e": (2, False), "r": (2, False), "t": (3, False), "f": (1, True), "g": (2,
    True),
}  # fmt: skip
DECLARATIONS = """\
a(x) -> int(x).  e(x, y) -> int(x), int(y).  r(x, y) -> int(x), int(y).
t(x, y, z) -> int(x), int(y), int(z).  f[x] = v -> int(x), int(v).  g[x, y] = v -> int(x), int(y), int(v).
"""
FLOATING = "avg", "variance", "stddev", "var_pop", "stddev_pop", "median", "quantile_cont"
DOMAIN = st.integers(0, 3)
VARIABLES = ["x", "y", "z", "w", "u"]


@dataclass(frozen=True)
class Features:
    """What the programs may hold beyond conjunctions, comparisons, constants and projections."""

    functions: bool = True
    arithmetic: bool = True
    aggregates: bool = True
    negation: bool = False
    disjunction: bool = False
    heads_max: int = 1
    views_max: int = 3
    failing: bool = False  # divisions by what may be zero, and products that 64 bits may not hold


BASIC = Features()
FULL = Features(negation=True, disjunction=True, heads_max=2)
FAILING = Features(negation=True, disjunction=True, heads_max=2, views_max=2, failing=True)


@st.composite
def programs(draw: DrawFn, features: Features = BASIC) -> str:
    """A text: the declarations, then one to `views_max` views, often on one another."""
    shapes = {name: shape for name, shape in STORED.items() if features.functions or not shape[1]}
    texts = [DECLARATIONS]
    for number in range(draw(st.integers(1, features.views_max))):
        text, made = Clause(draw, features, shapes).view(f"v{number}")
        texts.append(text)
        shapes |= made
    return "\n".join(texts)


@st.composite
def cases(
    draw: DrawFn, features: Features = BASIC, count_max: int = 5, size_max: int = 8
) -> tuple[str, list[list[Edit]]]:
    """A program and transactions over what it reads: a larger load, then small changes."""
    text = draw(programs(features))
    rules = text.removeprefix(DECLARATIONS)
    read = [name for name in STORED if re.search(rf"\b{name}[(\[]", rules)]
    load = [
        (name, row, True)
        for name in read
        for row in draw(st.lists(rows(name), min_size=3, max_size=12))
    ]
    small = st.lists(edits(read), min_size=1, max_size=size_max)
    return text, [load, *draw(st.lists(small, max_size=count_max))]


def renumbered(case: tuple[str, list[list[Edit]]], numbers: Row) -> tuple[str, list[list[Edit]]]:
    """The case with numbers[k] in place of each number k of the domain, in rules and in rows."""
    text, transactions = case
    rules = re.sub(
        r"(?<!\w)\d", lambda digit: str(numbers[int(digit[0])]), text.removeprefix(DECLARATIONS)
    )
    return DECLARATIONS + rules, [
        [(name, tuple(numbers[k] for k in row), inserted) for name, row, inserted in edits]
        for edits in transactions
    ]


def rows(name: str) -> SearchStrategy[Row]:
    """Rows of a stored predicate, a function's value last."""
    arguments, is_function = STORED[name]
    return st.tuples(*[DOMAIN] * (arguments + is_function))


@st.composite
def edits(draw: DrawFn, names: list[str]) -> Edit:
    """One edit of one of the predicates; two of three insert."""
    name = draw(st.sampled_from(names))
    return name, draw(rows(name)), draw(st.integers(0, 2)) > 0


class Clause:
    """Draws one view over the predicates of `shapes`."""

    def __init__(self, draw: DrawFn, features: Features, shapes: dict[str, Shape]):
        self.draw, self.features, self.shapes = draw, features, shapes
        self.locals = count(1)

    def view(self, name: str) -> tuple[str, dict[str, Shape]]:
        """Its text and the shapes of its heads."""
        literals, bound = self.conjunction()
        if self.features.aggregates and self.once_in(4):
            return self.aggregate(name, literals, bound)
        if self.features.functions and self.once_in(6):
            return self.function(name, literals, bound)
        heads = [self.some(bound) for _ in range(self.number(1, self.features.heads_max))]
        body = self.body(literals, bound, heads)
        names = [name, *(f"{name}{letter}" for letter in "bcd")][: len(heads)]
        texts = [f"{n}({', '.join(head)})" for n, head in zip(names, heads, strict=True)]
        shapes = {n: (len(head), False) for n, head in zip(names, heads, strict=True)}
        return f"{', '.join(texts)} <- {body}.", shapes

    def body(self, literals: list[str], bound: list[str], heads: list[list[str]]) -> str:
        """The conjunction, or it and another that binds the heads' variables too."""
        text = ", ".join(literals)
        if self.features.disjunction and self.once_in(3):
            others, also_bound = self.conjunction()
            missing = {v for head in heads for v in head} - set(also_bound)
            return f"{text} ; {', '.join([*others, *(f'a({v})' for v in sorted(missing))])}"
        return text

    def function(
        self, name: str, literals: list[str], bound: list[str]
    ) -> tuple[str, dict[str, Shape]]:
        """A function of all variables but one; conflicts are possible where that one is not a
        value.
        """
        *keys, value = bound if len(bound) > 1 else [*bound, *bound]
        return f"{name}[{', '.join(keys)}] = {value} <- {', '.join(literals)}.", {
            name: (len(keys), True)
        }

    def aggregate(
        self, name: str, literals: list[str], bound: list[str]
    ) -> tuple[str, dict[str, Shape]]:
        """One to three aggregates, often over the same groups and arguments, so that they share
        a state.
        """
        keys, argument = self.some(bound), self.pick(bound)
        heads, folds, shapes = [], [], {}
        for letter in ["", "b", "c"][: self.pick([1, 1, 2, 3])]:
            keys, argument = (
                (keys, argument) if self.once_in(2) else (self.some(bound), self.pick(bound))
            )
            op, numbered = self.operation(argument, bound)
            args = [*keys, f"n{letter}"] if numbered else keys
            heads.append(f"{name}{letter}[{', '.join(args)}] = m{letter}")
            folds.append(f"(n{letter}, m{letter}) = {op}" if numbered else f"m{letter} = {op}")
            if op.partition("(")[0] not in FLOATING:  # nothing else of the programs is a float
                shapes[f"{name}{letter}"] = len(args), True
        return f"{', '.join(heads)} <- agg<<{', '.join(folds)}>> {', '.join(literals)}.", shapes

    def operation(self, argument: str, bound: list[str]) -> tuple[str, bool]:
        """An aggregate of a variable, and whether it numbers the rows of a group."""
        other = self.pick(bound)
        plain = ["sum", "min", "max", "first", "last", "count_distinct", *FLOATING[:-1]]
        ordered = ["argmin", "argmax", "first", "last", "count_distinct"]
        share, most = self.pick(["0", "0.25", "0.5", "0.9", "1"]), self.number(1, 3)
        return self.pick(
            [
                ("count()", False),
                *((f"{op}({argument})", False) for op in plain),
                *((f"{op}({argument}, {other})", False) for op in ordered),
                (f"quantile({argument}, {share})", False),
                (f"quantile_cont({argument}, {share})", False),
                (f"top({argument}, {most})", True),
                (f"bottom({argument}, {other}, {most})", True),
            ]
        )

    # -- bodies

    def conjunction(self) -> tuple[list[str], list[str]]:
        """Literals, and the variables they bind: at least one."""
        bound: dict[str, None] = {}
        literals = [self.atom(bound, VARIABLES) for _ in range(self.pick([1, 2, 2, 3, 3, 4]))]
        if not bound:
            literals.append("a(x)")
            bound["x"] = None
        literals += [self.comparison(list(bound)) for _ in range(self.pick([0, 0, 0, 1, 2]))]
        if self.features.arithmetic and self.once_in(4):
            literals.append(f"s = {self.term(list(bound))}")
            bound["s"] = None
        if self.features.negation and self.once_in(3):
            literals.append(self.negation(list(bound)))
        if self.features.disjunction and self.once_in(4):
            literals.append(f"({self.filter(list(bound))} ; {self.filter(list(bound))})")
        return literals, list(bound)

    def atom(self, bound: dict[str, None], variables: list[str]) -> str:
        name = self.pick(sorted(self.shapes))
        arguments, is_function = self.shapes[name]
        args = [self.argument(bound, variables) for _ in range(arguments)]
        if not is_function:
            return f"{name}({', '.join(args)})"
        return f"{name}[{', '.join(args)}] = {self.argument(bound, variables)}"

    def argument(self, bound: dict[str, None], variables: list[str]) -> str:
        kind = self.number(0, 9)
        if kind == 0:
            return str(self.draw(DOMAIN))
        if kind == 1:
            return "_"
        held = list(bound) or (variables if variables is not VARIABLES else [])
        if kind == 2 and self.features.failing and held:
            return self.term(held)
        variable = self.pick(variables)
        bound[variable] = None
        return variable

    def comparison(self, bound: list[str]) -> str:
        op = self.pick(["=", "!=", "<", "<=", ">", ">="])
        right = self.pick([str(self.draw(DOMAIN)), self.pick(bound), self.term(bound)])
        left = self.pick([self.pick(bound), self.pick(bound), self.term(bound)])
        return f"{left} {op} {right}"

    def term(self, bound: list[str]) -> str:
        if not self.features.arithmetic:
            return self.pick(bound)
        if self.features.failing and self.once_in(2):
            fractions = [f"{self.pick(['6', 'x' if 'x' in bound else '3'])} / {self.pick(bound)}"]
            return self.pick([*fractions, f"{self.pick(bound)} * 4611686018427387904"])
        right = self.pick([str(self.draw(DOMAIN)), self.pick(bound)])
        return f"{self.pick(bound)} {self.pick(['+', '-', '*'])} {right}"

    def negation(self, bound: list[str]) -> str:
        """Of an atom, or of a conjunction with a variable of its own."""
        if self.once_in(2):
            return f"!{self.atom({}, bound)}"
        own = f"q{next(self.locals)}"
        if self.features.failing and self.once_in(2):
            inner = (
                f", !({self.atom({}, [own])}, {self.comparison([own])})" if self.once_in(3) else ""
            )
            return f"!(a({own}), {self.atom({}, [bound[0], own])}, {self.comparison([own, *bound])}{inner})"
        return f"!({self.atom({}, [bound[0], own])}, {self.atom({}, [bound[-1], own])}, a({own}))"

    def filter(self, bound: list[str]) -> str:
        return self.pick([self.comparison(bound), self.atom({}, bound)])

    # -- draws

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def once_in(self, n: int) -> bool:
        return self.number(1, n) == n

    def pick(self, options: list):
        return self.draw(st.sampled_from(options))

    def some(self, variables: list[str]) -> list[str]:
        """One to three of the variables, in any order."""
        return self.draw(st.lists(st.sampled_from(variables), min_size=1, max_size=3, unique=True))
