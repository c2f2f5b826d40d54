"""Random tables with nulls, random rules over them, random edits: views are what naive.py and
pandas say.

naive.py knows no nulls and no functions of several values. It gets the same rules over one function
for each column, which has no row where the table has a null:

    q(k, a) <- r[k] = (a, _), !r:b[k] = _.        q(k, a) <- r_key(k), r_a[k] = a, !r_b[k] = _.
"""

import random
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

import ivm
import pagestore
from ivm.rules.compile import compile
from tests.support import naive

VALUES = {
    "int": (0, 1, 2, 3),
    "string": ("", "a", "b", "é"),
    "decimal(6, 2)": (Decimal("0.00"), Decimal("0.50"), Decimal("-1.25")),
}
VARIABLES = {"int": ["x", "y", "z"], "string": ["s", "t"], "decimal(6, 2)": ["p", "q"]}
OPERATIONS = {
    "int": ["sum", "min", "max", "count_distinct", "avg", "median", "first", "last"],
    "string": ["min", "max", "count_distinct", "first"],
    "decimal(6, 2)": ["sum", "min", "max", "count_distinct"],
}
STORED = {"int": "int64", "string": "string", "decimal(6, 2)": "decimal(6,2)"}


class Table(NamedTuple):
    """A table with int keys, the types of its values, and which of these may be null."""

    name: str
    keys: int
    types: dict[str, str]
    nullable: set[str]

    @property
    def schema(self) -> str:
        values = [f"{n}: {STORED[t]}{'?' * (n in self.nullable)}" for n, t in self.types.items()]
        return ", ".join([*(f"k{i}: int64" for i in range(self.keys)), *values])

    @property
    def truth(self) -> str:
        """The declarations for naive.py."""
        keys = [f"k{i}" for i in range(self.keys)]
        of_keys = ", ".join(f"int({k})" for k in keys)
        columns = [
            f"{self.name}_{n}[{', '.join(keys)}] = v -> {of_keys}, {t}(v)."
            for n, t in self.types.items()
        ]
        return "\n".join([f"{self.name}_key({', '.join(keys)}) -> {of_keys}.", *columns])

    def state(self, rows: dict[tuple, tuple]) -> naive.State:
        columns = {
            f"{self.name}_{n}": {key: row[i] for key, row in rows.items() if row[i] is not None}
            for i, n in enumerate(self.types)
        }
        return {f"{self.name}_key": {*rows}, **columns}


def some_table(chance: random.Random, name: str, keys: int) -> Table:
    types = {letter: chance.choice([*VALUES]) for letter in "abcd"[: chance.randrange(1, 5)]}
    return Table(name, keys, types, {letter for letter in types if chance.random() < 0.75})


Both = tuple[str, str]  # a text over tables, and the same over columns


class Rules:
    """Draws rules over tables."""

    def __init__(self, chance: random.Random, tables: list[Table]):
        self.chance, self.tables, self.locals = chance, tables, count()

    def view(self, name: str) -> Both:
        literals, bound = self.body()
        ours, theirs = (", ".join(texts) for texts in zip(*literals, strict=True))
        chosen = self.chance.sample(sorted(bound), self.chance.randrange(1, min(3, len(bound)) + 1))
        if self.chance.random() < 0.4:
            argument = self.chance.choice(sorted(bound))
            op = self.chance.choice(
                ["count()", *(f"{op}({argument})" for op in OPERATIONS[bound[argument]])]
            )
            keys = [] if self.chance.random() < 0.3 else chosen
            head = f"{name}[{', '.join(keys)}] = m <- agg<<m = {op}>>"
            return f"{head} {ours}.", f"{head} {theirs}."
        head = f"{name}({', '.join(chosen)}) <-"
        return f"{head} {ours}.", f"{head} {theirs}."

    def body(self) -> tuple[list[Both], dict[str, str]]:
        """Literals, and the types of the variables that they bind."""
        bound: dict[str, str] = {}
        literals = [self.atom(bound) for _ in range(self.chance.choice([1, 2, 2, 3]))]
        if not bound:
            literals = [self.whole(self.tables[0], ["x"] * self.tables[0].keys, bound)]
            bound["x"] = "int"
        if self.chance.random() < 0.4:
            variable = self.chance.choice(sorted(bound))
            op = self.chance.choice(["=", "!=", "<", ">="])
            literals.append((f"{variable} {op} {self.constant(bound[variable])}",) * 2)
        if self.chance.random() < 0.5:
            literals.append(self.negation(bound))
        return literals, bound

    def atom(self, bound: dict[str, str]) -> Both:
        table = self.chance.choice(self.tables)
        keys = [self.term("int", bound) for _ in range(table.keys)]
        return (self.column if self.chance.random() < 0.6 else self.whole)(table, keys, bound)

    def column(self, table: Table, keys: list[str], bound: dict[str, str]) -> Both:
        """One column of a table, by its name."""
        column = self.chance.choice([*table.types])
        if len(table.types) > 1:  # two columns at any key are refused
            keys = [key if key != "_" else f"u{next(self.locals)}" for key in keys]
        rest = f"{column}[{', '.join(keys)}] = {self.term(table.types[column], bound)}"
        return f"{table.name}:{rest}", f"{table.name}_{rest}"

    def whole(self, table: Table, keys: list[str], bound: dict[str, str]) -> Both:
        """A whole row: `_` does not ask for a value, where there are several."""
        values = [self.term(kind, bound) for kind in table.types.values()]
        at = ", ".join(keys)
        if len(values) == 1:
            return (
                f"{table.name}[{at}] = {values[0]}",
                f"{table.name}_{next(iter(table.types))}[{at}] = {values[0]}",
            )
        # the same one in all columns
        keys = [key if key != "_" else f"u{next(self.locals)}" for key in keys]
        at = ", ".join(keys)
        asked = [
            f"{table.name}_{n}[{at}] = {v}"
            for n, v in zip(table.types, values, strict=True)
            if v != "_"
        ]
        ours = f"{table.name}[{at}] = ({', '.join(values)})"
        if self.chance.random() < 0.5:
            ours = f"{table.name}({', '.join([*keys, *values])})"
        return ours, ", ".join([f"{table.name}_key({at})", *asked])

    def negation(self, bound: dict[str, str]) -> Both:
        """Of one column or row, or of two with a variable of their own."""
        ints = sorted(name for name, kind in bound.items() if kind == "int")
        table = self.chance.choice(self.tables)
        keys = [self.chance.choice([*ints, "0", "1"]) for _ in range(table.keys)]
        kind = self.chance.random()
        if kind < 0.4:
            column = self.chance.choice([*table.types])
            known = [name for name, one in bound.items() if one == table.types[column]]
            value = self.chance.choice(["_", self.constant(table.types[column]), *known])
            rest = f"{column}[{', '.join(keys)}] = {value}"
            return f"!{table.name}:{rest}", f"!{table.name}_{rest}"
        if kind < 0.7:
            ours, theirs = self.whole(table, keys, {})
            return f"!({ours})", f"!({theirs})"
        own = f"w{next(self.locals)}"
        (a, b), (c, d) = (
            self.column(t, [own, *keys][: t.keys], {})
            for t in self.chance.choices(self.tables, k=2)
        )
        return f"!({a}, {c})", f"!({b}, {d})"

    def term(self, kind: str, bound: dict[str, str]) -> str:
        chosen = self.chance.random()
        if chosen < 0.15:
            return "_"
        if chosen < 0.25:
            return self.constant(kind)
        variable = self.chance.choice(VARIABLES[kind])
        bound[variable] = kind
        return variable

    def constant(self, kind: str) -> str:
        value = self.chance.choice(VALUES[kind])
        return f'"{value}"' if kind == "string" else str(value)


def edit(
    chance: random.Random, store: pagestore.Store, tables: list[Table], held: dict[str, dict]
) -> None:
    """One transaction: rows come, change in one column, and go."""
    with store.transaction() as txn:
        for table in tables:
            for _ in range(chance.choice([0, 1, 4, 12])):
                key = tuple(chance.choice(VALUES["int"]) for _ in range(table.keys))
                row = [
                    None
                    if name in table.nullable and chance.random() < 0.3
                    else chance.choice(VALUES[kind])
                    for name, kind in table.types.items()
                ]
                if chance.random() < 0.25:
                    txn[table.name].delete([key])
                    held[table.name].pop(key, None)
                    continue
                if key in held[table.name] and chance.random() < 0.6:
                    one = chance.randrange(len(row))
                    row = [
                        *held[table.name][key][:one],
                        row[one],
                        *held[table.name][key][one + 1 :],
                    ]
                held[table.name][key] = tuple(row)
                txn[table.name].set([(*key, *row)])


def check_counts(store: pagestore.Store, tables: list[Table], held: dict[str, dict]) -> None:
    """Scans of columns count, and fold, the values that exist, as pandas does."""
    pandas = pytest.importorskip("pandas")
    for table in tables:
        relation = store.snapshot()[table.name]
        frame = pandas.DataFrame([*held[table.name].values()], columns=[*table.types], dtype=object)
        for name, kind in table.types.items():
            there = frame[name].dropna()
            assert relation.to_pandas()[name].isna().sum() == len(frame) - len(there)
            if name not in table.nullable:
                continue  # whose scans a tree would have to carry
            assert relation.scan(f"count:{name}") == frame[name].count()
            if len(there):
                assert (
                    relation.scan(f"min:{name}") == there.min()
                    and relation.scan(f"max:{name}") == there.max()
                )
            if kind == "int":
                assert (relation.scan(f"sum:{name}") or 0) == there.sum()


def follow(seed: int, path: Path, steps: int) -> None:
    chance = random.Random(seed)
    tables = [some_table(chance, "r", 1), some_table(chance, "s", chance.randrange(1, 3))]
    rules = [Rules(chance, tables).view(f"v{i}") for i in range(chance.randrange(1, 4))]
    held: dict[str, dict] = {table.name: {} for table in tables}
    program = compile(
        "\n".join([*(table.truth for table in tables), *(theirs for _, theirs in rules)])
    )
    with pagestore.open(path, sync="off") as store, store.transaction() as txn:
        for table in tables:
            txn.create(table.name, table.schema, key=[f"k{i}" for i in range(table.keys)])
    with ivm.open(path, sync="off") as workspace:
        edit(chance, workspace.store, tables, held)
        how = {
            "maintenance": chance.choice(["auto", "match", "probe"]),
            "granularity": chance.choice([1, 1, 4]),
        }
        workspace.install("\n".join(ours for ours, _ in rules), **how)
        for _ in range(steps):
            edit(chance, workspace.store, tables, held)
            state = {
                name: rows
                for table in tables
                for name, rows in table.state(held[table.name]).items()
            }
            truth = naive.evaluate(program, state)
            for number, (ours, _) in enumerate(rules):
                name = f"v{number}"
                assert {*workspace[name]} == {*naive.rows_of(truth[name])}, ours
                if chance.random() < 0.2:
                    assert {*workspace.query(ours.replace(name, "q", 1))} == {
                        *naive.rows_of(truth[name])
                    }, ours
        check_counts(workspace.store, tables, held)
        assert workspace.check() == [] and workspace.store.check() == []


# the last ones found something
@pytest.mark.parametrize("seed", [*range(30), 33, 85, 112, 213, 682])
def test_views_over_random_tables(seed: int, tmp_path: Path) -> None:
    follow(seed, tmp_path / "s.pages", 6)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(40, 2000))
def test_campaign(seed: int, tmp_path: Path) -> None:
    follow(seed, tmp_path / "s.pages", 12)
