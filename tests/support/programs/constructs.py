"""The constructs that random programs are composed of: each draws a view over any others, or None
where it cannot.

A construct returns the text of its rules and what they make, as sources for later views.
"""

from functools import partial
from typing import Any

from pagestore import register_operator
from pagestore.host import is_operator
from tests.support.programs.composing import COMPARISONS, TAGS, Draw, Source
from tests.support.programs.recursive_programs import SEMILATTICES, semilattice

FOLDS = (
    "count", "sum", "total", "min", "max", "moments", "quantile", "order", "count_distinct", "top",
    "concat",
    "registered",
)  # fmt: skip
SOUGHT = "int", "float", "decimal", "date", "moment"  # tags whose neighbours are found
SUMMED = {
    "sum": ("int", "decimal"),
    "total": ("float",),
    "concat": ("text",),
    "registered": ("int",),
}
MEANS = "avg", "variance", "stddev", "var_pop", "stddev_pop", "median"
ORDERINGS = "argmin", "argmax", "first", "last"
RANGED = (
    "count",
    "sum",
    "min",
    "max",
    "argmin",
    "last",
    "avg",
    "total",
    "var_pop",
    "first",
    "argmax",
    "median",
)
OPERATORS = {  # of which the order matters; with an inverse; semilattices
    "lastone": partial(register_operator, "lastone", lambda a, b: b, 0),
    "bitdiff": partial(register_operator, "bitdiff", lambda a, b: a ^ b, 0, inverse=lambda a: a),
    **{name: partial(semilattice, name) for name in SEMILATTICES},
}


def registered(name: str) -> str:
    """The name of an operator, registered in this process."""
    if not is_operator(name):
        OPERATORS[name]()
    return name


CALLS = {  # terms of x and y of one tag, and the tag of their values; conditions have none
    "int": (
        ("abs[{x}]", "int"), ("{x} % 3", "int"), ("{x} % {y}", "int"), ("{x} ^ 2", "int"),
        ("bxor[{x}, {y}]", "int"), ("greatest[{x}, {y}, 2]", "int"),
        ("if[{x} < {y}, {x}, {y}]", "int"), ('if[{x} = 1, "a", "ab"]', "text"), ("{x} in (1, 2, 5)",
        ""),
        ("0 <= {x} < {y}", ""),
    ),
    "text": (
        ("strlen[{x}]", "int"), ("least[{x}, {y}]", "text"), ("contains[{x}, {y}] = true", ""),
        ('{x} in ("a", "b")', ""), ("{x} + {y}", "text"), ("string:upper[{x}]", "text"),
        ('regexp_full_match[{x}, "a.?"]', ""), ('regexp_matches[{x}, "[b-z]|^$"]', ""),
        ("starts_with[{x}, {y}]", ""),
    ),
    "decimal": (("abs[{x}]", "decimal"), ("least[{x}, {y}]", "decimal"), ("{x} in (0.50, 1.00)",
    "")),
    "long": (
        ("abs[{x}]", "long"), ("least[{x}, {y}]", "long"), ("{x} in (0.50, 2.25)", ""),
        ("sign[{x}]", "int"),
        ("if[{x} < {y}, {x}, {y}]", "long"), ("{x} in ({y}, 2.25)", ""), ("string[{x}]", "text"),
    ),
    "date": (
        ("greatest[{x}, {y}]", "date"), ("datetime:month[{x}]", "int"),
        ("{x} in (#2020-01-01#, #2020-01-03#)", ""),
    ),
    "float": (("{x} in (0.5e0, 1e0)", ""), ("greatest[{x}, {y}]", "float")),
    "uint64": (("{x} in (1, 7)", ""), ("least[{x}, {y}]", "uint64")),
    "bool": (("{x} = not[{y}]", ""), ("if[{x}, 1, 2]", "int")),
}  # fmt: skip


ENDS = {  # of lists: what bounds them, and the ends
    **dict.fromkeys(
        ("int", "float", "decimal"),
        (
            "-5 < {x} < 9",
            ("0, {x}", "{x}, {y}", "{x}, {y} + 2", "{x} - 1, 3", "{y}, -2, -2", "{x}, 9, 3"),
        ),
    ),
    "uint64": ("{x} < 9", ("0, {x}", "{x}, {y}", "{x}, 9", "{y}, 9, 3")),
    "date": (
        "#2019-12-30# < {x} < #2020-01-09#",
        (
            "{x}, {x} + 2",
            "{x}, {y}",
            "{x}, #2020-01-05#, 2",
            "#2020-01-01#, {y}",
            "{x}, {y} - 3, -1",
        ),
    ),
    "moment": (
        "#2020-01-01# <= {x} < #2020-01-02#",
        ("{x}, {x} + 2", "{x}, {y}", "{x}, {y} + 5, 3", "{y}, {x} - 1, -1"),
    ),
}


class Rows(Draw):
    """Constructs whose views hold rows: projections, joins, negations, arithmetic, functions."""

    def keys(self, name: str) -> Any:
        """Columns in front, without the last one."""
        a = self.pick(lambda s: len(s.tags) > 1 or (len(s.keys) == 1 and s.value is None))
        assert a
        keys = [self.fresh() for _ in a.tags[:-1]] or [self.fresh()]
        terms = [*keys, *["_"] * (len(a.tags) - len(keys))]
        shown = (
            keys if self.once_in(2) else self.random.sample(keys, self.random.randint(1, len(keys)))
        )
        return f"{name}({', '.join(shown)}) <- {a.atom(terms)}.", [
            self.made(name, "keys", dict(zip(keys, a.tags, strict=False)), shown)
        ]

    def values(self, name: str) -> Any:
        """The last column alone."""
        a = self.pick(lambda s: len(s.tags) > 0)
        assert a
        last = len(a.tags) - 1
        text = f"{name}(x) <- {a.atom(['x' if i == last else '_' for i in range(len(a.tags))])}."
        return text, [self.made(name, "values", {"x": a.tags[-1]}, ["x"])]

    def select(self, name: str) -> Any:
        """The rows with a constant."""
        a = self.pick(lambda s: len(s.keys) > 0 and TAGS[s.keys[0]].literal is not None)
        assert a
        place = self.random.choice([i for i, t in enumerate(a.keys) if TAGS[t].literal])
        held = {f"y{i}": t for i, t in enumerate(a.keys)}
        terms: list[str] = [*held, *["_"] * (len(a.tags) - len(a.keys))]
        constant = self.literal(a.keys[place])
        if len(held) > 1 and self.once_in(2):
            del held[terms[place]]
            terms[place] = str(constant)
            return f"{name}({', '.join(held)}) <- {a.atom(terms)}.", [
                self.made(name, "select", held, [*held])
            ]
        text = f"{name}({', '.join(held)}) <- {a.atom(terms)}, {terms[place]} = {constant}."
        return text, [self.made(name, "select", held, [*held])]

    def join(self, name: str) -> Any:
        literals, held = self.joined(2)
        if self.once_in(3):
            c = self.pick()
            assert c
            literals.append(self.bind(c, held, join=0.9))
        return self._view(name, "join", literals, held)

    def _view(self, name: str, kind: str, literals: list[str], held: dict[str, str]) -> Any:
        shown = self.some(held)
        return f"{name}({', '.join(shown)}) <- {', '.join(literals)}.", [
            self.made(name, kind, held, shown)
        ]

    def existential(self, name: str) -> Any:
        literals, held = self.joined(1)
        b = self.pick()
        assert b
        literals.append(self.bind(b, {**held}, join=0.4))
        return self._view(name, "existential", literals, held)

    def compare(self, name: str) -> Any:
        literals, held = self.joined(self.random.choice((1, 2)))
        found = self.comparison(held)
        return self._view(name, "compare", [*literals, *found], held) if found else None

    def negation(self, name: str) -> Any:
        literals, held = self.joined(1)
        b = self.pick()
        assert b
        inside = {**held}
        atom = self._ground(b, held, inside)
        if len(inside) == len(held):
            return self._view(name, "negation", [*literals, f"!{atom}"], held)
        found = self.comparison({v: t for v, t in inside.items() if v not in held})
        if not found or self.once_in(3):
            c = self.pick()
            assert c
            found = [self._ground(c, inside, {**inside}, own=False)]
        return self._view(name, "negation", [*literals, f"!({', '.join([atom, *found])})"], held)

    def _ground(
        self, source: Source, held: dict[str, str], inside: dict[str, str], own: bool = True
    ) -> str:
        """An atom for a negation: of variables that are held, `_`, literals, and sometimes one
        of its own.
        """
        terms = []
        for tag in source.tags:
            known = [v for v, t in held.items() if t == tag]
            if known and not self.once_in(4):
                terms.append(self.random.choice(known))
            elif own and self.once_in(2):
                terms.append(self.fresh())
                inside[terms[-1]] = tag
            else:
                terms.append((self.literal(tag) if self.once_in(3) else None) or "_")
        return source.atom(terms)

    def disjunction(self, name: str) -> Any:
        """The same variable from two sources."""
        a, b = self.pick(), self.pick()
        assert a and b
        place = self.random.randrange(len(a.tags))
        tag = a.tags[place]
        first = a.atom(["x" if i == place else "_" for i in range(len(a.tags))])
        places = [i for i, t in enumerate(b.tags) if t == tag]
        if places:
            second = b.atom(["x" if i == places[0] else "_" for i in range(len(b.tags))])
        else:
            second = f"{b.atom(['_'] * len(b.tags))}, {self.base(tag).atom(['x'])}"
        made = [self.made(name, "disjunction", {"x": tag}, ["x"])]
        if self.once_in(3):
            return f"{name}(x) <- {first}.\n{name}(x) <- {second}.", made
        return f"{name}(x) <- {first} ; {second}.", made

    def computed(self, name: str) -> Any:
        """A sum or a product in the head, in an atom or as a variable."""
        literals, held = self.joined(1)
        able = [v for v, t in held.items() if TAGS[t].shift]
        if not able:
            return None
        x = self.random.choice(able)
        tag = held[x]
        other = [v for v, t in held.items() if t == tag and v != x and TAGS[t].number]
        term = f"{x} {self.random.choice('+-')} {TAGS[tag].shift}"
        if other and self.once_in(3):
            term = f"{x} {self.random.choice('+-')} {self.random.choice(other)}"
        elif tag == "int" and self.once_in(4):
            term = self.random.choice((f"{x} * 2", f"{x} / 2", f"6 / {x}", f"0 - {x}"))
        shown = self.some({v: t for v, t in held.items() if v != x}, 2, 0)
        way = self.random.randrange(3)
        if way == 0:
            text = f"{name}({', '.join([*shown, term])}) <- {', '.join(literals)}."
            return text, [self.made(name, "computed", {**held, term: tag}, [*shown, term])]
        b = self.pick(lambda s: tag in s.keys)
        if way == 1 and b:
            terms = ["_"] * len(b.tags)
            terms[b.keys.index(tag)] = term
            return self._view(name, "computed", [*literals, b.atom(terms)], held)
        text = f"{name}({', '.join([*shown, 's'])}) <- {', '.join([*literals, f's = {term}'])}."
        return text, [self.made(name, "computed", {**held, "s": tag}, [*shown, "s"])]

    def called(self, name: str) -> Any:
        """A function of terms in the head, in an atom or in a comparison; a membership."""
        literals, held = self.joined(self.random.choice((1, 2)))
        able = [v for v, t in held.items() if t in CALLS]
        if not able:
            return None
        x = self.random.choice(able)
        form, tag = self.random.choice(CALLS[held[x]])
        term = form.format(x=x, y=self.random.choice([v for v, t in held.items() if t == held[x]]))
        if not tag:
            return self._view(
                name, "called", [*literals, self.random.choice((term, f"!({term})"))], held
            )
        if self.once_in(3) and self.literal(tag):
            op = self.random.choice(COMPARISONS)
            return self._view(name, "called", [*literals, f"{term} {op} {self.literal(tag)}"], held)
        b = self.pick(lambda s: tag in s.keys)
        if b and self.once_in(2):
            terms = ["_"] * len(b.tags)
            terms[b.keys.index(tag)] = term
            return self._view(name, "called", [*literals, b.atom(terms)], held)
        shown = self.some(held, 2, 0)
        text = f"{name}({', '.join([*shown, term])}) <- {', '.join(literals)}."
        return text, [self.made(name, "called", {**held, term: tag}, [*shown, term])]

    def function(self, name: str) -> Any:
        """A function of all keys that are read, or, in conflict at times, of fewer."""
        a = self.pick()
        assert a
        keys = {f"k{i}": t for i, t in enumerate(a.keys)}
        if a.value is None or self.once_in(4):
            literals, value, tag = [a.atom([*keys, *["_"] * (len(a.tags) - len(keys))])], "1", "int"
        else:
            literals, value, tag = [a.atom([*keys, "v"])], "v", a.value
            if TAGS[tag].shift and self.once_in(3):
                value = f"v + {TAGS[tag].shift}"
        if keys and self.once_in(2):
            literals.append(self.bind(self.pick() or a, {**keys}, join=0.9))
        shown = [*keys][: -1 if len(keys) > 1 and self.once_in(12) else None]
        text = f"{name}[{', '.join(shown)}] = {value} <- {', '.join(literals)}."
        return text, [self.made(name, "function", keys, shown, tag)]

    def heads(self, name: str) -> Any:
        """Two heads over one body."""
        literals, held = self.body()
        shown = [self.some(held), self.some(held)]
        names = [name, f"{name}b"]
        heads = [f"{n}({', '.join(s)})" for n, s in zip(names, shown, strict=True)]
        made = [self.made(n, "heads", held, s) for n, s in zip(names, shown, strict=True)]
        return f"{', '.join(heads)} <- {', '.join(literals)}.", made


class Folds(Draw):
    """Aggregates: of a body, of the rows in a range of each row, and the keys next to others."""

    def fold(self, name: str, reader: str) -> Any:
        """One or two aggregates over a body, which may be a disjunction."""
        literals, held = self.body(SUMMED.get(reader))
        first = self.operation(reader, held)
        if first is None:
            return None
        folds = [first]
        if self.once_in(3) and (second := self.operation(self.random.choice(FOLDS), held)):
            folds.append(second)
        heads, terms, made = [], [], []
        for letter, (op, text, tag, numbered) in zip("ab", folds, strict=False):
            keys = self.some(held, 2, 0)
            own = name if letter == "a" else f"{name}{letter}"
            args = [*keys, f"n{letter}"] if numbered else keys
            if not args and op != "concat" and self.once_in(2) and TAGS[tag].null:
                text += " else null"
            heads.append(f"{own}[{', '.join(args)}] = r{letter}")
            terms.append(f"(n{letter}, r{letter}) = {text}" if numbered else f"r{letter} = {text}")
            made.append(self.made(own, op, {**held, f"n{letter}": "int"}, args, tag))
        body = ", ".join(literals)
        if self.once_in(6):
            body = self._either(body, held)
        return f"{', '.join(heads)} <- agg<<{', '.join(terms)}>> {body}.", made

    def _either(self, body: str, held: dict[str, str]) -> str:
        """The body, or stored rows that bind the same variables."""
        stored = ", ".join(self.base(tag).atom([v]) for v, tag in held.items())
        return f"({body} ; {stored})" if len(held) < 4 else body

    def several(self, name: str) -> Any:
        """Several aggregates as columns of one head, or one with a row for each group that
        another body has.
        """
        literals, held = self.body()
        keys = self.some(held, 2)
        if self.once_in(2):
            groups = ", ".join(
                self.at(
                    self.pick(lambda s, v=v: held[v] in s.tags) or self.base(held[v]), held[v], v
                )
                for v in keys
            )
            op, tag = self.random.choice(
                (("count()", "int"), *((f"sum({v})", t) for v, t in held.items() if t == "int"))
            )
            fold = f"agg<<r = {op} else {self.random.choice(('0', '7'))} for {groups}>>"
            text = f"{name}[{', '.join(keys)}] = r <- {fold} {', '.join(literals)}."
            return text, [self.made(name, "several", held, keys, tag)]
        ops = [
            self.operation(
                self.random.choice(("count", "min", "max", "sum", "count_distinct")), held
            )
            for _ in "ab"
        ]
        if None in ops:
            return None
        folds = [(f"r{n}", text, tag) for n, (_, text, tag, _) in enumerate(filter(None, ops))]
        shown = [*keys, *(r for r, _, _ in folds)]
        fold = ", ".join(f"{r} = {text}" for r, text, _ in folds)
        text = f"{name}({', '.join(shown)}) <- agg<<{fold}>> {', '.join(literals)}."
        return text, [self.made(name, "several", {**held, **{r: t for r, _, t in folds}}, shown)]

    def operation(self, op: str, held: dict[str, str]) -> tuple[str, str, str, bool] | None:
        """An aggregate of what is held: its name, its term, the tag of its result and whether it
        numbers rows.
        """
        ordered = [v for v, t in held.items() if TAGS[t].ordered]
        if op == "count":
            return op, "count()", "int", False
        if op == "count_distinct":
            return op, f"count_distinct({', '.join(self.some(held, 2))})", "int", False
        if op in SUMMED:
            able = [v for v, t in held.items() if t in SUMMED[op]]
        elif op == "moments":
            able = [v for v, t in held.items() if TAGS[t].number]
        elif op in ("min", "max", "quantile", "top"):
            able = ordered
        else:
            able = [*held]
        if not able or (op in ("order", "top") and not ordered):
            return None
        x = self.random.choice(able)
        tag, by = held[x], f", {self.random.choice(ordered)}" if ordered else ""
        if op == "moments":
            return op, f"{self.random.choice(MEANS)}({x})", "float", False
        if op == "quantile":
            return op, f"quantile({x}, {self.random.choice(('0', '0.25', '0.5', '1'))})", tag, False
        if op == "top":
            return (
                op,
                f"{self.random.choice(('top', 'bottom'))}({x}{by}, {self.random.choice('123')})",
                tag,
                True,
            )
        if op == "order":
            return op, f"{self.random.choice(ORDERINGS)}({x}{by})", tag, False
        if op == "concat":
            extra = self.random.choice(("", by, f'{by}, "; "' if by else ""))
            return op, f"concat({x}{extra})", "text", False
        if op == "registered":
            return op, f"{registered(self.random.choice(sorted(OPERATORS)))}({x})", tag, False
        return op, f"{op}({x})", tag, False

    def range(self, name: str) -> Any:
        """An aggregate over the rows in a range of each row."""
        a = self.pick(lambda s: any(TAGS[t].ordered for t in s.tags))
        assert a
        tag = self.random.choice([t for t in a.tags if TAGS[t].ordered])
        b = self.pick(lambda s: tag in s.tags)
        assert b
        points, given = self._with(a, tag, "p"), self._with(b, tag, "z")
        if self.once_in(3):
            common = [
                (v, w)
                for v, t in points[1].items()
                for w, u in given[1].items()
                if t == u and v != "p" != w != "z"
            ]
            if common:
                v, w = self.random.choice(common)
                given = (
                    given[0].replace(w, v),
                    {(v if x == w else x): t for x, t in given[1].items()},
                )
        text = self.random.choice(
            ("{z} <= {p}", "{z} > {p}", "{z} >= {p}", "{z} < {p}", "{z} <= {p}, {z} > {p} - 2")
        )
        if tag != "int":
            text = text.partition(",")[0]
        link = text.format(p="p", z="z")
        op = self.random.choice(RANGED)
        argument = self.random.choice(
            [v for v, t in given[1].items() if v != "z" and v not in points[1]] or ["z"]
        )
        tag_of = given[1][argument]
        if op in ("sum", "total", "avg", "var_pop", "median"):
            able = [
                v
                for v, t in given[1].items()
                if t in (SUMMED.get(op) or ("int", "float", "decimal"))
            ]
            if not able:
                op = "count"
            else:
                argument = self.random.choice(able)
                tag_of = given[1][argument]
        if op in ("min", "max") and not TAGS[tag_of].ordered:
            op = "count"
        fold = {"count": "count()"}.get(
            op, f"{op}({argument}, z)" if op in ORDERINGS else f"{op}({argument})"
        )
        result = {"count": "int", "avg": "float", "var_pop": "float", "median": "float"}.get(
            op, tag_of
        )
        keys = self.random.sample([*points[1]], self.random.randint(0, min(3, len(points[1]))))
        keys = [*points[1]] if self.once_in(2) else keys
        text = (
            f"{name}[{', '.join(keys)}] = r <- agg<<r = {fold}>> {points[0]}, {given[0]}, {link}."
        )
        return text, [self.made(name, "range", points[1], keys, result)]

    def _with(self, source: Source, tag: str, own: str) -> tuple[str, dict[str, str]]:
        """An atom of which one column of a tag is a variable of its own, and what it holds."""
        chosen = self.random.choice([i for i, t in enumerate(source.tags) if t == tag])
        terms = [
            own if i == chosen else "_" if self.once_in(4) else f"{own}{i}"
            for i in range(len(source.tags))
        ]
        held = {term: t for term, t in zip(terms, source.tags, strict=True) if term != "_"}
        return source.atom(terms), held

    def neighbours(self, name: str) -> Any:
        """The next or the previous key, none, or none that something else holds for."""
        b = self.pick(lambda s: any(t in SOUGHT for t in s.keys))
        assert b
        keys = b.keys[:1] if b.kind == "columns" else b.keys
        width = 1 + self.random.choice([i for i, t in enumerate(keys) if t in SOUGHT])
        literals, held, terms = *self.joined(1), []
        for tag in b.keys[:width]:
            known = [v for v, t in held.items() if t == tag]
            if not known:
                known = [self.fresh()]
                held[known[0]] = tag
                literals.append(self.base(tag).atom(known))
            terms.append(self.random.choice(known))
        sought = f"{b.name}:{self.random.choice(('next', 'previous'))}[{', '.join(terms)}]"
        shown = self.some(held, 2)
        kind = self.random.randrange(3)
        if kind == 0:
            literals.append(f"{sought} = w")
            held["w"] = b.keys[width - 1]
            shown.append("w")
        elif kind == 1:
            literals.append(f"!{sought} = _")
        else:
            literals.append(f"!({sought} = w, {self.base(b.keys[width - 1]).atom(['w'])})")
        return f"{name}({', '.join(shown)}) <- {', '.join(literals)}.", [
            self.made(name, "neighbours", held, shown)
        ]


class Lists(Draw):
    """Constructs that become rules of the others: numbers of a range, parts, aggregates in
    bodies, orders of rows.
    """

    def listed(self, name: str) -> Any:
        """The numbers or days of a range, bound or listed, also within a negation; the parts of
        a text.
        """
        literals, held = self.joined(1)
        tag = self.random.choice([t for t in held.values() if t in ENDS] or ["int"])
        ints = [v for v, t in held.items() if t == tag]
        texts = [v for v, t in held.items() if t == "text"]
        shown = self.some(held, 2)
        if texts and (not ints or self.once_in(2)):
            literals.append(
                f'split({self.random.choice(texts)}, "{self.random.choice(("", "a", "b"))}", i, '
                f"part)"
            )
            return f"{name}({', '.join([*shown, 'i', 'part'])}) <- {', '.join(literals)}.", [
                self.made(
                    name, "listed", {**held, "i": "int", "part": "text"}, [*shown, "i", "part"]
                )
            ]
        if not ints:
            return None
        x, y = self.random.choice(ints), self.random.choice(ints)
        within, ends = ENDS[tag]  # ends of int64 make endless lists
        literals += [within.format(x=v) for v in dict.fromkeys((x, y))]
        ends = self.random.choice(ends).format(x=x, y=y)
        if self.once_in(3):
            b = self.pick(lambda s: tag in s.tags)
            assert b
            place = self.random.choice([n for n, t in enumerate(b.tags) if t == tag])
            inner = b.atom(["i" if n == place else "_" for n in range(len(b.tags))])
            literals.append(
                self.random.choice(
                    (f"!(range({ends}, i), {inner})", f"!(range({ends}, i), !{inner})")
                )
            )
            return f"{name}({', '.join(shown)}) <- {', '.join(literals)}.", [
                self.made(name, "listed", held, shown)
            ]
        literals.append(self.random.choice((f"range({ends}, i)", f"i = range[{ends}]")))
        return f"{name}({', '.join([*shown, 'i'])}) <- {', '.join(literals)}.", [
            self.made(name, "listed", {**held, "i": tag}, [*shown, "i"])
        ]

    def inside(self, name: str) -> Any:
        """An aggregate in a body, of an atom that shares variables with the rest or of values
        below one of its.
        """
        literals, held = self.joined(1)
        inner = {**held}
        b = self.pick()
        assert b
        formula = self.bind(b, inner, join=0.6)
        if any(f"{v}?" in formula for v in held):
            return None
        own = [v for v in inner if v not in held]
        argument = self.random.choice(own) if own else None
        able = [v for v, t in inner.items() if v in own and TAGS[t].ordered]
        fold, tag = "count()", "int"
        if able and self.once_in(2):
            argument = self.random.choice(able)
            fold, tag = f"{self.random.choice(('min', 'max'))}({argument})", inner[argument]
        absent = " else 0" if fold == "count()" and self.once_in(2) else ""
        below = [v for v in own if TAGS[inner[v]].ordered and inner[v] in held.values()]
        if below and self.once_in(3):
            other = self.random.choice([v for v, t in held.items() if t == inner[below[0]]])
            formula = f"({formula}, {below[0]} < {other})"
        literals.insert(
            self.random.randint(1, len(literals)), f"agg<<r = {fold}{absent}>> {formula}"
        )
        if tag == "int" and self.once_in(4):
            literals.append("r < 3")
        shown = self.some(held, 2)
        return f"{name}({', '.join([*shown, 'r'])}) <- {', '.join(literals)}.", [
            self.made(name, "inside", {**held, "r": tag}, [*shown, "r"])
        ]

    def ordered(self, name: str) -> Any:
        """The rows of one or two sources that no other row replaces, or an equivalence of two
        columns.
        """
        a = self.pick(lambda s: any(TAGS[t].ordered for t in s.tags) and len(s.tags) < 4)
        assert a
        tags = a.tags
        b = self.pick(lambda s: s.tags == tags) if self.once_in(3) else None
        names = [f"y{n}" for n in range(len(tags))]
        heads = f"{name}({', '.join(names)})"
        rules = [f"{heads} <- {one.atom(names)}." for one in (a, b) if one]
        made = [Source(name, "ordered", tags, block=self.block)]
        if len(tags) == 2 and tags[0] == tags[1] and self.once_in(3):
            return "\n".join([*rules, f"lang:equivalence({name})."]), made
        places = [n for n, t in enumerate(tags) if TAGS[t].ordered]
        chosen = sorted(self.random.sample(places, min(len(places), self.random.choice((1, 1, 2)))))
        others = [f"z{n}" if n in chosen else one for n, one in enumerate(names)]
        signs = {n: self.random.choice(("<=", ">=")) for n in chosen}
        if len(chosen) == 1:
            signs = {chosen[0]: self.random.choice("<>")}
        tests = ", ".join(f"z{n} {sign} y{n}" for n, sign in signs.items())
        return "\n".join([*rules, f"{heads} <= {name}({', '.join(others)}) <- {tests}."]), made


class Recursions(Draw):
    """Views that read themselves: plain, through min and max, and through a registered
    semilattice.
    """

    def recursion(self, name: str) -> Any:
        """What is reached from a column, or the closure of two columns; sometimes through a
        second view.
        """
        a = self.pick(lambda s: len(s.tags) > 0)
        assert a
        pair = self.pair_of(a)
        if pair and self.once_in(2):
            tag, first = pair
            step = self.random.choice((f"{name}(x, y), {{}}", f"{name}(x, y), {name}(y, z)"))
            step = step.format(self.edge(a, tag, "y", "z"))
            text = f"{name}(x, y) <- {first}.\n{name}(x, z) <- {step}{self.guard({'z': tag})}."
            return text, [Source(name, "recursion", (tag, tag), block=self.block)]
        tag = self.random.choice(a.tags)
        first, step = self.at(a, tag, "y"), self.edge(self.pick() or a, tag, "x", "y")
        guard, made = self.guard({"y": tag}), [Source(name, "recursion", (tag,), block=self.block)]
        if self.once_in(3):
            return f"{name}(y) <- {first} ; {name}(x), {step}{guard}.", made
        if self.once_in(3):
            other = f"{name}w"
            text = f"{name}(y) <- {first}.\n{name}(y) <- {other}(x), {step}{guard}.\n{other}(y) <- {name}(x), {step}."
            return text, [*made, Source(other, "recursion", (tag,), block=self.block)]
        return f"{name}(y) <- {first}.\n{name}(y) <- {name}(x), {step}{guard}.", made

    def pair_of(self, source: Source) -> tuple[str, str] | None:
        """A tag that two columns have, and the atom with x and y there."""
        found = [t for t in source.tags if source.tags.count(t) > 1]
        return (found[0], self.edge(source, found[0], "x", "y")) if found else None

    def edge(self, source: Source, tag: str, x: str, y: str) -> str:
        """An atom that leads from x to y: of the source if it has two such columns, else a
        stored one.
        """
        places = [i for i, t in enumerate(source.tags) if t == tag]
        if len(places) < 2:
            return self.base(tag, "e").atom([x, y])
        i, j = self.random.sample(places, 2)
        return source.atom([x if n == i else y if n == j else "_" for n in range(len(source.tags))])

    def guard(self, held: dict[str, str]) -> str:
        """Sometimes one more literal, of another source or its negation."""
        if not self.once_in(3):
            return ""
        (variable, tag), *_ = held.items()
        b = self.pick(lambda s: tag in s.tags)
        return f", {self.random.choice(('', '!'))}{self.at(b, tag, variable)}" if b else ""

    def extreme(self, name: str) -> Any:
        """The least or the greatest value that is passed on, or that grows on the way."""
        a = self.pick(lambda s: any(TAGS[t].ordered for t in s.tags))
        assert a
        return self._passed_on(
            name,
            "extreme",
            self.random.choice(("min", "max")),
            a,
            [t for t in TAGS if TAGS[t].ordered],
        )

    def lattice(self, name: str) -> Any:
        """Values that a registered semilattice joins."""
        a = self.pick(lambda s: "int" in s.tags)
        assert a
        return self._passed_on(
            name, "lattice", semilattice(self.random.choice(sorted(SEMILATTICES))), a, ["int"]
        )

    def _passed_on(self, name: str, kind: str, op: str, a: Source, tags: list[str]) -> Any:
        value = self.random.choice([i for i, t in enumerate(a.tags) if t in tags])
        key = self.random.choice([i for i in range(len(a.tags)) if i != value] or [value])
        tag, of = a.tags[key], a.tags[value]
        terms = ["y" if i == key else "c" if i == value else "_" for i in range(len(a.tags))]
        first = a.atom(terms) + (", c = y" if key == value else "")
        step = f"{name}[x] = c, {self.edge(self.pick() or a, tag, 'x', 'y')}"
        if kind == "extreme" and of == "int" and self.once_in(2):
            weight = f"{self.base('int', 'm').atom(['k', 'w'])}, w {'>' if op == 'min' else '<'}= 0, c = m + w"
            grown = {
                "min": ["c = m + 1, c < 9", "c = m + 1", weight],
                "max": ["c = m - 1, c >= -9", weight],
            }[op]
            # values may become better around a cycle, and then there is no answer
            if self.once_in(4):
                some = self.base("int", "m").atom(["k", "w"])
                grown = {
                    "min": ["c = m - 1", f"{some}, c = m + w - 2"],
                    "max": ["c = m + 1", f"{some}, c = m + 2 - w"],
                }[op]
            step = step.replace("] = c, ", "] = m, ", 1) + f", {self.random.choice(grown)}"
        step += self.guard({"y": tag})
        made = [Source(name, kind, (tag,), of, block=self.block)]
        way, fold = self.random.randrange(5), f"agg<<r = {op}(c)>>"
        if way == 0:
            return f"{name}[y] = c <- {first}.\n{name}[y] = r <- {fold} {step}.", made
        if way == 1:
            return f"{name}[y] = r <- {fold} {first}.\n{name}[y] = r <- {fold} {step}.", made
        if way == 2:
            made.append(Source(f"{name}b", "count", (tag,), "int", block=self.block))
            text = f"{name}[y] = r, {name}b[y] = q <- agg<<r = {op}(c), q = count()>> ({first} ; {step})."
            return text, made
        return f"{name}[y] = r <- {fold} ({first} ; {step}).", made
