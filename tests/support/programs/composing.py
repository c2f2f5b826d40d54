"""What random programs are composed of: types with few values, what can be read, and draws of atoms
over it.

stored     a_int(x)   e_int(x, y)   f_int[x] = y   m_text[x] = v   o_text[x] = v?    of two or three types
a view     v3[x1] = r <- agg<<r = max(x2)>> v1[x1] = x2, v2(x2).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import inf
from random import Random
from re import fullmatch
from typing import Any


@dataclass(frozen=True)
class Tag:
    """A type of columns: how it is declared, few values, values at its ends, and a literal of a
    value.
    """

    declared: str
    values: tuple[Any, ...]
    extremes: tuple[Any, ...] = ()
    literal: Callable[[Any], str] | None = None
    ordered: bool = True
    number: bool = False
    shift: str = ""  # what may be added to a value
    null: bool = True  # may it be null?


MOMENT = datetime(2020, 1, 1)
TAGS = {
    "int": Tag("int", (0, 1, 2, 3), (2**63 - 1, 1 - 2**63, 2**62), str, number=True, shift="1"),
    "float": Tag(
        "float",
        (0.0, 0.5, 1.0, -2.5),
        (1e100, -1e100, 5e-324, -0.0, inf, -inf),
        "{!r}e0".format,
        number=True,
        shift="0.5",
    ),
    "decimal": Tag(
        "decimal(18, 2)",
        (Decimal("0.00"), Decimal("0.50"), Decimal("1.00"), Decimal("2.25")),
        (Decimal("9999999999999999.99"), Decimal("-9999999999999999.99")),
        str,
        number=True,
        shift="0.50",
    ),
    "long": Tag(
        "decimal(38, 2)",
        (Decimal("0.00"), Decimal("-0.50"), Decimal("99999999999999999999.50"), Decimal("2.25")),
        (Decimal(10**36 - 1), Decimal(1 - 10**36)),
        'decimal["{}", 2, 38]'.format,
    ),
    "text": Tag("string", ("", "a", "ab", "é"), ("\U0010ffff", "a\0"), '"{}"'.format),
    "date": Tag(
        "date",
        tuple(date(2020, 1, n) for n in (1, 2, 3)),
        (date.min, date.max),
        "#{}#".format,
        shift="1",
    ),
    "moment": Tag(
        "datetime",
        tuple(MOMENT + timedelta(microseconds=n) for n in (0, 1, 2)),
        (datetime.min, datetime.max),
        shift="1",
    ),
    "bool": Tag("bool", (False, True), (), lambda v: str(v).lower(), ordered=False),
    "time": Tag("time", (time(0), time(1, 2, 3), time(23, 59, 59, 999999))),
    "duration": Tag(
        "duration", tuple(timedelta(microseconds=n) for n in (-1, 0, 5)), (timedelta(days=10**6),)
    ),
    "uint64": Tag("uint64", (0, 1, 2**63), (2**64 - 1,), str, null=False),
    "bytes": Tag("bytes", (b"", b"a", b"\xff"), (b"\0",)),
    "zoned": Tag(
        "`timestamp(Europe/Berlin)`", tuple(datetime(2020, 1, n, tzinfo=UTC) for n in (1, 2, 3))
    ),
}
COMPARISONS = "<", "<=", ">", ">=", "!=", "="
STORED_KINDS = "relation", "stored function", "nullable", "columns"


@dataclass(frozen=True)
class Source:
    """What can be read: a name, what made it, the tags of its keys and of its value."""

    name: str
    kind: str
    keys: tuple[str, ...]
    value: str | None = None
    block: int = -1

    @property
    def tags(self) -> tuple[str, ...]:
        return self.keys if self.value is None else (*self.keys, self.value)

    def atom(self, terms: Iterable[str]) -> str:
        """An atom, some of its variables marked; a function of several values in one of its
        three forms.
        """
        *keys, last = map(self._marked, terms)
        if self.kind == "columns":
            return _of_columns(self.name, keys[0], keys[1], last)
        if self.value is None:
            return f"{self.name}({', '.join((*keys, last))})"
        return f"{self.name}[{', '.join(keys)}] = {last}"

    def _marked(self, term: str) -> str:
        """A variable or `_`, marked or not, as their names say; the same term elsewhere may be
        marked otherwise.
        """
        is_variable = fullmatch(r"[a-z]\w*|_", term) and term not in ("true", "false")
        return f"{term}?" if is_variable and sum(map(ord, f"{self.name}{term}")) % 3 == 0 else term


def _of_columns(name: str, key: str, a: str, b: str) -> str:
    """An atom of a function of two values: as a relation, with both values, or by the column
    that is not `_`.
    """
    form = sum(map(ord, f"{key}{a}{b}")) % 3
    if form == 0 or (key == "_" and form == 2):
        return f"{name}({key}, {a}, {b})"
    if form == 1 or "_" not in (a, b):
        return f"{name}[{key}] = ({a}, {b})"
    return f"{name}:b[{key}] = {b}" if a == "_" else f"{name}:a[{key}] = {a}"


def stored_of(tag: str) -> list[tuple[Source, str]]:
    """What is stored of a type, each with its declaration."""
    t = TAGS[tag].declared
    found = [
        (Source(f"a_{tag}", "relation", (tag,)), f"a_{tag}(x) -> {t}(x)."),
        (Source(f"e_{tag}", "relation", (tag, tag)), f"e_{tag}(x, y) -> {t}(x), {t}(y)."),
        (Source(f"f_{tag}", "stored function", (tag,), tag), f"f_{tag}[x] = y -> {t}(x), {t}(y)."),
        (
            Source(f"m_{tag}", "stored function", ("int",), tag),
            f"m_{tag}[x] = v -> int(x), {t}(v).",
        ),
    ]
    source = Source(f"w_{tag}", "columns", ("int", tag, "int"))
    found.append((source, f"w_{tag}[k] = (a, b) -> int(k), {t}(a), int?(b)."))
    if TAGS[tag].null:
        source = Source(f"o_{tag}", "nullable", ("int",), tag)
        found.append((source, f"o_{tag}[x] = v -> int(x), {t}?(v)."))
    return found


class Draw:
    """Draws atoms: `sources` are all that can be read, `reads` those that the view which is
    being made reads.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        others = [random.choice(("text", "float"))] if random.random() < 0.4 else []
        others += random.sample([t for t in TAGS if t not in ("int", *others)], 2 - len(others))
        self.tags = ["int", *others]
        # averages are floats, and numbers become texts
        tags = dict.fromkeys((*self.tags, "float", "text"))
        every = [one for tag in tags for one in stored_of(tag)]
        self.declared = {source.name: source for source, _ in every}
        self.declarations = {source.name: text for source, text in every}
        self.stored = [source for tag in self.tags for source, _ in stored_of(tag)]
        self.sources = [*self.stored]
        self.reads: list[Source] = []
        self.used: set[str] = set()
        self.block = 0
        self._fresh = 0

    # -- draws

    def once_in(self, n: int) -> bool:
        return self.random.randrange(n) == 0

    def pick(self, wanted: Callable[[Source], bool] = lambda source: True) -> Source | None:
        """A source to read, mostly a view, and rather one that was made last."""
        views = [s for s in self.sources if s.kind not in STORED_KINDS and wanted(s)]
        stored = [s for s in self.stored if wanted(s)]
        if not stored or (views and not self.once_in(4)):
            stored = views[-3:] if self.once_in(2) else views
        if not stored:
            return None
        found = self.random.choice(stored)
        self.reads.append(found)
        return found

    def base(self, tag: str, name: str = "a") -> Source:
        """A stored relation of a type, which is not counted as read."""
        found = self.declared[f"{name}_{tag}"]
        self.used.add(found.name)
        return found

    def fresh(self) -> str:
        self._fresh += 1
        return f"x{self._fresh}"

    def literal(self, tag: str) -> str | None:
        made = TAGS[tag].literal
        return made and made(self.random.choice(TAGS[tag].values))

    def bind(
        self, source: Source, held: dict[str, str], join: float = 0.5, skip: float = 0.2
    ) -> str:
        """An atom that joins variables that are held with new ones, which are held from then on."""
        terms = []
        for tag in source.tags:
            known = [v for v, t in held.items() if t == tag and v not in terms]
            chance = self.random.random()
            if known and chance < join:
                terms.append(self.random.choice(known))
            elif chance > 1 - skip:
                terms.append((self.literal(tag) if self.once_in(3) else None) or "_")
            else:
                terms.append(self.fresh())
                held[terms[-1]] = tag
        return source.atom(terms)

    def at(self, source: Source, tag: str, variable: str) -> str:
        """An atom with a variable in a column of a tag."""
        chosen = self.random.choice([i for i, t in enumerate(source.tags) if t == tag])
        return source.atom([variable if i == chosen else "_" for i in range(len(source.tags))])

    def body(self, tags: tuple[str, ...] | None = None) -> tuple[list[str], dict[str, str]]:
        """One or two atoms and what they hold, often something of one of the tags; sometimes a
        comparison with them.
        """
        held: dict[str, str] = {}
        a = self.pick()
        assert a
        literals = [self.bind(a, held, skip=0.1)]
        wanted = [t for t in tags or () if t in self.tags and t not in held.values()]
        if wanted:
            literals.append(
                self.bind(self.base(wanted[0], self.random.choice("aef")), held, skip=0)
            )
        elif self.once_in(2) or not held:
            b = self.pick()
            assert b
            literals.append(self.bind(b, held))
        if not held:
            literals.append(self.base("int").atom(["x0"]))
            held["x0"] = "int"
        if self.once_in(5):
            literals += self.comparison(held)
        return literals, held

    def comparison(self, held: dict[str, str]) -> list[str]:
        left = self.random.choice([*held])
        tag = held[left]
        same = [v for v, t in held.items() if t == tag and v != left]
        right = self.literal(tag) if not same or self.once_in(2) else self.random.choice(same)
        if right is None:
            return []
        op = self.random.choice(COMPARISONS if TAGS[tag].ordered else ("=", "!="))
        if TAGS[tag].shift and not same and self.once_in(4):
            left = f"{left} + {TAGS[tag].shift}"
        return [f"{left} {op} {right}"]

    def some(self, held: dict[str, str], most: int = 3, least: int = 1) -> list[str]:
        return self.random.sample([*held], min(len(held), self.random.randint(least, most)))

    def made(
        self, name: str, kind: str, held: dict[str, str], keys: list[str], value: str | None = None
    ) -> Source:
        """The source that a head makes."""
        return Source(name, kind, tuple(held[k] for k in keys), value, block=self.block)

    def joined(self, n: int) -> tuple[list[str], dict[str, str]]:
        held: dict[str, str] = {}
        literals = []
        for _ in range(n):
            source = self.pick()
            assert source
            literals.append(self.bind(source, held, join=0.8, skip=0.1))
        if not held:
            literals.append(self.base("int").atom(["x0"]))
            held["x0"] = "int"
        return literals, held
