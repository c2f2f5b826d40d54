"""Statements that random programs are composed of next to rules for views, and steps that change a
program or its rows.

v3("a"). v3("ab").                                         an enumeration
v3(x) -> int(x).  v3(x1) <- v1(x1, _).                     rows of transactions, and rows that follow
v3(p), v3:name(p : n) -> string(n).                        an entity
v1(x1, _) -> v2(x1) ; x1 > 2.                              a constraint
+e_int(x1, 2) <- v1(x1, _).                                an edit with a body, which is a step: Ruled
v3(x) <- v1(x).     v3(x) <- v1(x) ; v2(x).                a block with other alternatives: Replaced
"""

from dataclasses import dataclass
from random import Random
from typing import Any

from tests.support.programs.composing import TAGS, Source
from tests.support.programs.constructs import Rows

WIDE = 17, 18, 20  # columns, more than one row of a page's key once had
BOUNDS = {  # of texts: conditions that a range of them satisfies
    "text": (
        '{x} >= "a", {x} < "b"',
        '"" < {x} <= "ab"',
        'starts_with[{x}, "a"]',
        'like[{x}, "a%"]',
        '{x} > "a"',
    ),
    "date": ("{x} > #2020-01-01#, {x} <= #2020-01-03#", "#2020-01-01# <= {x} < #2020-01-03#"),
    "moment": ("{x} >= #2020-01-01 00:00:00#, {x} < #2020-01-01 00:00:01#",),
    "decimal": ("0.25 < {x} <= 1.00", "{x} >= 0.50, {x} < 2.25"),
    "float": ("0e0 <= {x} < 1e0",),
    "int": ("0 < {x} <= 2", "{x} >= 1, {x} < 3"),
    "uint64": ("1 <= {x} < 9",),
}


@dataclass(frozen=True)
class Ruled:
    """An edit with a body: `+`, `-` or `^`, of the rows that the terms of its head have."""

    sign: str
    name: str
    keys: tuple[str, ...]
    value: str | None
    body: str

    @property
    def text(self) -> str:
        head = f"{self.name}({', '.join(self.keys)})"
        if self.value is not None:
            head = f"{self.name}[{', '.join(self.keys)}] = {self.value}"
        return f"{self.sign}{head} <- {self.body}."

    @property
    def asked(self) -> str:
        """The question for the rows of the head."""
        value = () if self.value is None else (self.value,)
        return f"q({', '.join((*self.keys, *value))}) <- {self.body}."


@dataclass(frozen=True)
class Replaced:
    """The block of a number gets other views."""

    block: int
    views: tuple[str, ...]


class Statements(Rows):
    """Constructs that are more than rules for a view, and edits with bodies."""

    def facts(self, name: str) -> Any:
        """An enumeration, which types a relation of its own at times."""
        tag = self.random.choice([t for t in self.tags if TAGS[t].literal and t != "uint64"])
        made = TAGS[tag].literal
        assert made
        values = self.random.sample(TAGS[tag].values, self.random.randint(1, len(TAGS[tag].values)))
        text = " ".join(f"{name}({made(value)})." for value in values)
        sources = [Source(name, "facts", (tag,), block=self.block)]
        if self.once_in(2):
            text += f"\n{name}t[k] = s -> int(k), {name}(s)."
            sources.append(self.live(Source(f"{name}t", "facts", ("int",), tag, block=self.block)))
        return text, sources

    def live(self, source: Source) -> Source:
        """A relation that the text of a block declares, which edits may change."""
        self.declared[source.name] = source
        return source

    def asserted(self, name: str) -> Any:
        """A relation or a function that is declared and derived, with an order or as an
        equivalence at times.
        """
        literals, held = self.joined(1)
        shown = self.some(held)
        types = ", ".join(f"{TAGS[held[v]].declared}({v})" for v in shown)
        as_function = len(shown) > 1 and self.once_in(4)
        head = f"{name}({', '.join(shown)})"
        if as_function:
            head = f"{name}[{', '.join(shown[:-1])}] = {shown[-1]}"
        text = f"{head} -> {types}.\n{head} <- {', '.join(literals)}."
        keys, value = (shown[:-1], held[shown[-1]]) if as_function else (shown, None)
        made = [self.live(self.made(name, "asserted", held, keys, value))]
        if as_function:
            return text, made
        tags = [held[v] for v in shown]
        if len(tags) == 2 and tags[0] == tags[1] and self.once_in(2):
            text += (
                f"\nlang:equivalence({name})."
                if self.once_in(2)
                else f"\n{name}({shown[1]}, {shown[0]}) <- {head}."
            )
        elif len(tags) > 1 and TAGS[tags[-1]].ordered and self.once_in(3):
            other = f"{name}({', '.join((*shown[:-1], 'z'))})"
            text += f"\n{head} <= {other} <- z {self.random.choice('<>')} {shown[-1]}."
        return text, made

    def entity(self, name: str) -> Any:
        """An entity with its reference mode, and a relation of two of them."""
        tag = self.random.choice([t for t in self.tags if t != "bool"])
        text = f"{name}(p), {name}:name(p : n) -> {TAGS[tag].declared}(n)."
        if self.once_in(2):
            text += f"\n{name}r(p, q) -> {name}(p), {name}(q)."
            self.live(Source(f"{name}r", "entity", (tag, tag), block=self.block))
        made = [self.live(Source(name, "entity", (tag,), block=self.block))]
        return text, [*made, *(self.declared[f"{name}r"] for _ in range(f"{name}r(" in text))]

    def constraint(self, name: str) -> Any:
        """What one body has, another formula has to have, too."""
        literals, held = self.joined(1)
        b = self.pick()
        assert b
        right = self._ground(b, held, {**held})
        found = self.comparison(held)
        if found and self.once_in(2):
            right = f"{right} ; {found[0]}"
        elif self.once_in(3):
            right = f"!{right}"
        return f"{', '.join(literals)} -> {right}.", []

    def wide(self, name: str) -> Any:
        """Rows of more than sixteen columns, all of which tell them apart."""
        literals, held = self.joined(2)
        shown = [self.random.choice([*held]) for _ in range(self.random.choice(WIDE))]
        own = [f"w{n}" for n in range(len(shown))]
        equations = [f"{w} = {v}" for w, v in zip(own, shown, strict=True)]
        tags = {w: held[v] for w, v in zip(own, shown, strict=True)}
        text = f"{name}({', '.join(own)}) <- {', '.join([*literals, *equations])}."
        return text, [self.made(name, "wide", tags, own)]

    def bounded(self, name: str) -> Any:
        """What a range of values of one column satisfies; beside an atom, or as a negation."""
        literals, held = self.joined(self.random.choice((1, 2)))
        able = [v for v, t in held.items() if t in BOUNDS]
        if not able:
            return None
        x = self.random.choice(able)
        test = self.random.choice(BOUNDS[held[x]]).format(x=x)
        literals.append(f"!({test})" if self.once_in(5) else test)
        return self._view(name, "bounded", literals, held)

    # -- steps

    def ruled(self, names: list[str]) -> Ruled | None:
        """An edit of a relation or a function by what a body says."""
        able = [s for n in names if (s := self.declared[n]).kind not in ("nullable", "columns")]
        if not able:
            return None
        source = self.random.choice(able)
        self.reads = []
        literals, held = self.joined(self.random.choice((1, 2)))
        terms = []
        for tag in source.tags:
            known = [v for v, t in held.items() if t == tag]
            term = self.random.choice(known) if known and not self.once_in(6) else self.literal(tag)
            if term is None:
                return None
            terms.append(term)
        keys, value = (terms, None) if source.value is None else (terms[:-1], terms[-1])
        sign = self.random.choice("+-" if value is None else "+-^")
        return Ruled(sign, source.name, tuple(keys), value, ", ".join(literals))


def with_other_alternatives(random: Random, views: list[str]) -> tuple[str, ...] | None:
    """The views of a block of which one lacks an alternative or a rule; None if none has
    several.
    """
    found = [(n, less) for n, view in enumerate(views) for less in _lesser(view)]
    if not found:
        return None
    n, less = random.choice(found)
    return (*views[:n], less, *views[n + 1 :])


def _lesser(view: str) -> list[str]:
    """A view without one of its rules, or without one alternative of its only rule."""
    rules = view.removesuffix(".").split(".\n")
    plain = [
        n
        for n, rule in enumerate(rules)
        if " <- " in rule and " <= " not in rule.partition(" <- ")[0]
    ]
    if len(plain) > 1 or (plain and len(rules) > len(plain)):
        return [".\n".join(rules[:n] + rules[n + 1 :]) + "." for n in plain]
    head, arrow, body = rules[0].partition(" <- ")
    if not arrow or "(" in body.partition(" ; ")[0][:1] or "agg<<" in body or "!(" in body:
        return []
    parts = body.split(" ; ")
    return [
        f"{head} <- {' ; '.join(parts[:n] + parts[n + 1 :])}."
        for n in range(len(parts))
        if len(parts) > 1
    ]
