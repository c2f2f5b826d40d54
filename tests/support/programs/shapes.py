"""Random rules of the shapes that warehouses are asked for, as rules and as SQL, and random edits
of what they read.

    scans      s[g] = t <- agg<<t = sum(v)>> r(k, g, v, _), (v < 2 ; v > 3), g != 1.
    trees      v(y, z) <- r(k, a, b, _), d(a, y, _), g(y, z), e(b, w), w < z.         stars, snowflakes, chains
    cycles     n[] = n <- agg<<n = count()>> e(x, y), f(y, z), e(z, x), !f(x, z).
    either     n[x] = t <- agg<<t = sum(y)>> (e(x, z), h[z] = y ; f(x, y), x != y).
    computed   n[x] = t <- agg<<t = sum(z)>> r(k, x, y, _), w = x * y, h[w] = z.
    one of     n[x] = t <- agg<<t = sum(y)>> e(x, y), (h[x] = w, w > 2 ; !f(x, y) ; y < 3, g(y, x)).

Some relations have a key that is shorter than their rows.  The domain is tiny, so that every kind
of collision happens.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

Row = tuple[int, ...]
Edit = tuple[str, Row, bool]
RELATIONS = {
    "r": (4, 1),
    "s": (3, 2),
    "e": (2, 2),
    "f": (2, 2),
    "d": (3, 1),
    "g": (2, 1),
    "h": (2, 1),
}  # columns, columns of the key


def atom(name: str, terms: Sequence[str]) -> str:
    """The text of an atom; h is a function."""
    return f"h[{terms[0]}] = {terms[1]}" if name == "h" else f"{name}({', '.join(terms)})"


DECLARATIONS = "\n".join(
    f"{atom(name, [f'c{i}' for i in range(n)])} -> {', '.join(f'int(c{i})' for i in range(n))}."
    for name, (n, _) in RELATIONS.items()
)
DOMAIN = st.integers(0, 4)
OPS = {"=": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
FOLDS = {"count": "count(*)", "sum": "sum({})", "min": "min({})", "max": "max({})"}


@dataclass
class Body:
    """The literals of a rule, the tables and conditions of a query, and the query's expression
    for each variable.
    """

    literals: list[str] = field(default_factory=list)
    tables: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)

    @property
    def source(self) -> tuple[str, str]:
        """The tables and the condition of a query."""
        return ", ".join(self.tables), " and ".join(self.conditions) or "true"


class Drawn:
    """Draws rules; `atoms_max` is the number of atoms that are not negated."""

    def __init__(self, draw: DrawFn, atoms_max: int) -> None:
        self.draw, self.atoms_max = draw, atoms_max

    def once_in(self, n: int) -> bool:
        return self.number(1, n) == 1

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def pick(self, items):
        return self.draw(st.sampled_from(list(items)))

    def rule(self, name: str) -> tuple[str, str]:
        """A rule for a view of this name, and the query that gives its rows."""
        if self.once_in(6):
            return self.either(name)
        body = self.body()
        if self.once_in(5):
            self.add_options(body)
        tables, where = body.source
        shown = [v for v in body.places if self.once_in(2)][:4]
        columns = [body.places[v] for v in shown]
        if self.once_in(2):
            shown, columns = shown or [*body.places][:1], columns or [*body.places.values()][:1]
            query = f"select distinct {', '.join(columns)} from {tables} where {where}"
            return f"{name}({', '.join(shown)}) <- {', '.join(body.literals)}.", query
        op, (argument, expression) = self.pick(FOLDS), self.term(body)
        called = f"{op}({'' if op == 'count' else argument})"
        columns.append(FOLDS[op].format(expression))
        grouped = f"group by {', '.join(columns[:-1])}" if shown else "having count(*) > 0"
        query = f"select {', '.join(columns)} from {tables} where {where} {grouped}"
        return (
            f"{name}[{', '.join(shown)}] = t_ <- agg<<t_ = {called}>> {', '.join(body.literals)}.",
            query,
        )

    def body(self) -> Body:
        body = Body()
        for _ in range(self.number(1, self.atoms_max)):
            self.add_atom(body)
        if self.once_in(6):
            self.add_computed(body)
        for _ in range(self.number(0, 3)):
            rule, condition = self.choice(body) if self.once_in(3) else self.comparison(body)
            body.literals.append(rule)
            body.conditions.append(condition)
        for _ in range(self.pick([0, 0, 1, 1, 2])):
            self.add_negation(body)
        return body

    def either(self, name: str) -> tuple[str, str]:
        """An aggregate over one of two bodies: what both share counts once for all bindings of
        either.
        """
        bodies, shared = [self.body(), self.body()], self.number(1, 2)
        texts, queries = list[str](), list[str]()
        for number, body in enumerate(bodies):
            chosen = [self.pick(body.places), self.pick(body.places)][:shared]
            names = {v: f"{v}_{number}" for v in body.places}
            literals = [
                re.sub(r"\bv\d+\b", lambda found, names=names: names[found[0]], x)
                for x in body.literals
            ]
            texts.append(
                ", ".join(
                    [*literals, *(f"u{place} = {names[v]}" for place, v in enumerate(chosen))]
                )
            )
            columns = [body.places[v] for v in chosen]
            tables, where = body.source
            listed = ", ".join(f"{column} as u{place}" for place, column in enumerate(columns))
            queries.append(f"select distinct {listed} from {tables} where {where}")
        op, union = self.pick(FOLDS), " union ".join(queries)
        called = f"{op}({'' if op == 'count' else f'u{shared - 1}'})"
        query = f"select u0, {FOLDS[op].format(f'u{shared - 1}')} from ({union}) group by u0"
        return f"{name}[u0] = t_ <- agg<<t_ = {called}>> ({' ; '.join(texts)}).", query

    def add_atom(self, body: Body) -> None:
        """An atom that shares a variable with an earlier one, mostly one."""
        relation, table = self.pick(RELATIONS), f"t{len(body.tables)}"
        width, terms = RELATIONS[relation][0], list[str]()
        known, old = [*body.places], {**body.places}
        linked = bool(known) and self.once_in(5)
        shared = {
            self.number(0, width - 1): self.pick(known)
            for _ in range(self.pick([1, 1, 1, 2]))
            if known
        }
        shared = {} if linked else shared
        for column in range(width):
            place = f"{table}.c{column}"
            term = shared.get(column) or ("_" if self.once_in(4) else f"v{len(body.places)}")
            if column not in shared and self.once_in(12):
                term = str(self.draw(DOMAIN))
            if term.isdigit():
                body.conditions.append(f"{place} = {term}")
            elif term in body.places:
                body.conditions.append(f"{place} = {body.places[term]}")
            elif term != "_":
                body.places[term] = place
            terms.append(term)
        if not body.places:
            terms[0], body.places["v0"] = "v0", f"{table}.c0"
            body.conditions = [one for one in body.conditions if not one.startswith(f"{table}.c0 ")]
        body.literals.append(atom(relation, terms))
        body.tables.append(f"{relation} {table}")
        new = {v: place for v, place in body.places.items() if v not in old}
        for _ in range(self.number(1, 3) if linked and new else 0):
            self.add_link(body, old, new)

    def add_link(self, body: Body, old: dict[str, str], new: dict[str, str]) -> None:
        """A comparison of a variable of an atom with one of an earlier atom, perhaps at some
        distance.
        """
        (x, y), op = (self.pick(new), self.pick(old)), self.pick([*OPS][1:])
        distance = self.pick(["", "", " + 1", " - 2"])
        body.literals.append(f"{x} {op} {y}{distance}")
        body.conditions.append(f"{new[x]} {OPS[op]} {old[y]}{distance}")

    def add_computed(self, body: Body) -> None:
        """An atom whose key is computed from variables of others."""
        relation, table, op = self.pick("gh"), f"t{len(body.tables)}", self.pick("+*")
        (x, y), (key, value) = (
            (self.pick(body.places) for _ in "xy"),
            (f"v{len(body.places) + n}" for n in range(2)),
        )
        body.literals += [f"{key} = {x} {op} {y}", atom(relation, [key, value])]
        body.conditions.append(f"{table}.c0 = {body.places[x]} {op} {body.places[y]}")
        body.tables.append(f"{relation} {table}")
        body.places |= {key: f"{table}.c0", value: f"{table}.c1"}

    def add_negation(self, body: Body) -> None:
        relation = self.pick(["e", "f", "g"])
        x, y = self.pick(body.places), self.pick(body.places)
        other = self.once_in(3)
        body.literals.append(f"!{relation}({x}, {'_' if other else y})")
        second = "true" if other else f"n.c1 = {body.places[y]}"
        body.conditions.append(
            f"not exists (select 1 from {relation} n where n.c0 = {body.places[x]} and {second})"
        )

    def add_options(self, body: Body) -> None:
        """One of several conjunctions, whose atoms each have one row for a binding; a binding
        counts once.
        """
        names = [
            [f"{w}{n}" for w in "wz"[: self.pick([1, 1, 2])]] for n in range(self.number(2, 3))
        ]
        options = [[self.option(body, w) for w in some] for some in names]
        rule = " ; ".join(", ".join(rule for rule, _ in one) for one in options)
        body.literals.append(f"({rule})")
        body.conditions.append(
            "(" + " or ".join(" and ".join(sql for _, sql in one) for one in options) + ")"
        )

    def option(self, body: Body, w: str) -> tuple[str, str]:
        """A comparison, a lookup of a row by its key and perhaps a comparison of its value, or
        an atom of a binding.
        """
        kind, (x, y) = (
            self.pick(["compare", "look up", "look up", "hold", "lack"]),
            (self.pick(body.places) for _ in "xy"),
        )
        if kind == "compare":
            return self.comparison(body)
        if kind == "look up":
            name, op, value = self.pick("gh"), self.pick(OPS), str(self.draw(DOMAIN))
            value, place = self.pick([(value, value), (y, body.places[y])])
            there = f"exists (select 1 from {name} n where n.c0 = {body.places[x]} and n.c1 {OPS[op]} {place})"
            return f"{atom(name, [x, w])}, {w} {op} {value}", there
        relation, sign, word = self.pick("efg"), "!" * (kind == "lack"), "not " * (kind == "lack")
        there = f"n.c0 = {body.places[x]} and n.c1 = {body.places[y]}"
        return (
            f"{sign}{relation}({x}, {y})",
            f"{word}exists (select 1 from {relation} n where {there})",
        )

    def comparison(self, body: Body) -> tuple[str, str]:
        op, (left, left_place) = self.pick(OPS), self.term(body)
        right, place = self.term(body) if self.once_in(3) else (str(self.draw(DOMAIN)),) * 2
        return f"{left} {op} {right}", f"{left_place} {OPS[op]} {place}"

    def choice(self, body: Body) -> tuple[str, str]:
        """One of several comparisons, or of conjunctions of them; or a list of values."""
        if self.once_in(2):
            v = self.pick(body.places)
            values = self.draw(st.lists(DOMAIN, min_size=1, max_size=3))
            rule = " ; ".join(f"{v} = {value}" for value in values)
            return f"({rule})", f"{body.places[v]} in ({', '.join(map(str, values))})"
        options = [
            [self.comparison(body) for _ in range(self.pick([1, 1, 2]))]
            for _ in range(self.number(2, 3))
        ]
        rule = " ; ".join(", ".join(rule for rule, _ in one) for one in options)
        return f"({rule})", "(" + " or ".join(
            " and ".join(sql for _, sql in one) for one in options
        ) + ")"

    def term(self, body: Body) -> tuple[str, str]:
        v = self.pick(body.places)
        if not self.once_in(4):
            return v, body.places[v]
        other, op = self.pick(body.places), self.pick("+-*")
        return f"{v} {op} {other}", f"{body.places[v]} {op} {body.places[other]}"


@st.composite
def shapes(
    draw: DrawFn, atoms_max: int = 4, rules_max: int = 3
) -> tuple[str, dict[str, str], list[list[Edit]]]:
    """Rules, the query for each view, and transactions: a larger load, then small changes."""
    drawn = Drawn(draw, atoms_max)
    rules = {f"p{number}": drawn.rule(f"p{number}") for number in range(drawn.number(1, rules_max))}
    stored: dict[str, dict[Row, Row]] = {name: {} for name in RELATIONS}
    load = [
        edit for name in RELATIONS for edit in changes(draw, stored, name, draw(st.integers(2, 10)))
    ]
    small = [
        [
            edit
            for _ in range(drawn.number(1, 4))
            for edit in changes(draw, stored, drawn.pick(RELATIONS), 1)
        ]
        for _ in range(drawn.number(0, 5))
    ]
    return (
        "\n".join(text for text, _ in rules.values()),
        {v: q for v, (_, q) in rules.items()},
        [load, *small],
    )


def changes(draw: DrawFn, stored: dict[str, dict[Row, Row]], name: str, n: int) -> list[Edit]:
    """Insert rows; a row whose key is there goes first, and sometimes does not come back."""
    width, keys = RELATIONS[name]
    edits = list[Edit]()
    for _ in range(n):
        row = draw(st.tuples(*[DOMAIN] * width))
        old = stored[name].pop(row[:keys], None)
        if old is not None:
            edits.append((name, old, False))
        if old is None or draw(st.booleans()):
            stored[name][row[:keys]] = row
            edits.append((name, row, True))
    return edits
