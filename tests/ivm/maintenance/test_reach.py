"""Many views of one relation: an edit pays for those that it reaches, and all views are what the
slow truth says.
"""

from decimal import Decimal
from random import Random
from re import search

import numpy as np
import pytest

import ivm
import pagestore
from ivm.rules.compile import compile
from pagestore_tools.bench.meter import Meter
from tests.support import naive
from tests.support.simulator import compiled

# of which all but b are the key
COLUMNS = "k: int64, a: int64, s: string, d: decimal(6,2), b: int64?"
DECLARATION = "r(k, a, s, d, b) -> int(k), int(a), string(s), decimal(6,2)(d), int?(b).\n"
LEAST, GREATEST = -(2**63) + 1, 2**63 - 1
CONSTANTS = {
    "k": ["-1", "0", "3", "7"],
    "a": ["0", "1", "2", str(GREATEST), str(LEAST)],
    "b": ["0", "1", "2"],
    "s": ['"u"', '"v"', '"unknown"'],
    "d": ["0.50", "1.25", "-3.00"],
}
OPS = ["=", "!=", "<", "<=", ">", ">="]
MIRRORED = dict(zip(OPS, ["=", "!=", ">", ">=", "<", "<="], strict=True))
HEADS = [
    "{v}(k, a, s, d, b)",
    "{v}(a, s)",
    "{v}(k)",
    "{v}(b, a)",
    "{v}[a] = n <- agg<<n = count()>>",
    "{v}[] = n <- agg<<n = count()>>",
    "{v}[s] = n <- agg<<n = sum(k)>>",
    "{v}[s] = n <- agg<<n = max(a)>>",
    "{v}[k, a, s, d] = k",
]


def condition(random: Random) -> str:
    column = random.choice([*CONSTANTS])
    op, constant = random.choice(OPS), random.choice(CONSTANTS[column])
    kind = random.random()
    if kind < 0.1:
        return "k < a"
    if kind < 0.2:
        return "k + 1 > 2"
    return f"{column} {op} {constant}" if kind < 0.7 else f"{constant} {MIRRORED[op]} {column}"


def rule(random: Random, view: str) -> str:
    parts = [condition(random) for _ in range(random.randint(0, 2))]
    if random.random() < 0.4:
        options = [
            ", ".join(condition(random) for _ in range(random.randint(1, 2))) for _ in range(2)
        ]
        parts.append(f"({' ; '.join(options)})")
    head = random.choice(HEADS).format(v=view)
    used = search(r"\ba\b", " ".join([head, *parts]))
    atom = f"r(k, {'a' if used or random.random() < 0.3 else '1'}, s, d, b)"
    return f"{head} {'' if 'agg' in head else '<- '}{', '.join([atom, *parts])}."


def drawn(random: Random) -> tuple:
    a = (
        random.choice([0, 1, 2, LEAST, GREATEST])
        if random.random() < 0.2
        else random.randint(-1, 3)
    )
    b = random.choice([None, 0, 1, 2])
    return (
        random.randint(-1, 8),
        a,
        random.choice("uvw"),
        Decimal(random.choice([50, 125, -300, 999])) / 100,
        b,
    )


def stored(path) -> ivm.Workspace:
    with pagestore.open(path, sync="off") as store, store.transaction() as txn:
        txn.create("r", COLUMNS, key=("k", "a", "s", "d"))
    return ivm.open(path, sync="off", threads=1)


def follow(path, seed: int) -> None:
    random = Random(seed)
    rules = "\n".join(rule(random, f"v{number}") for number in range(random.choice([3, 12, 30])))
    program = compile(DECLARATION + rules)
    state = naive.evaluate(program, naive.empty(program))
    with stored(path) as workspace:
        workspace.install(DECLARATION + rules, name="rules")
        for number in range(6):
            rows = {
                row[:4]: row
                for row in (drawn(random) for _ in range(random.choice([1, 2, 6, 100])))
            }
            gone = {one for one in state["r"] if random.random() < 0.3}
            with workspace.transaction() as txn:
                txn.delete("r", [*gone])
                txn.set("r", [*rows.values()])
            state["r"] = {row for row in state["r"] - gone if row[:4] not in rows} | {
                *rows.values()
            }
            state = naive.evaluate(program, state)
            for view in program.predicates:
                if "$" not in view:
                    found, wanted = (
                        sorted(some, key=repr)
                        for some in (workspace[view], naive.rows_of(state[view]))
                    )
                    assert found == wanted, (seed, number, view)
        assert workspace.check() == []


@pytest.mark.parametrize("first", range(0, 20, 10))
def test_random_views_of_one_relation(first, tmp_path):
    for seed in range(first, first + 10):
        follow(tmp_path / f"{seed}.pages", seed)


@pytest.mark.campaign
def test_campaign(tmp_path):
    for seed in range(1000, 21_000):
        follow(tmp_path / f"{seed}.pages", seed)


def opened(path, rules):
    random = np.random.default_rng(2)
    with pagestore.open(path, sync="off") as store, store.transaction() as txn:
        txn.create("t", "k: int64, c: int64, d: int64", key="k")
        txn["t"].bulk([[np.arange(20_000), *random.integers(0, 1000, (2, 20_000))]])
    workspace = ivm.open(path, sync="off", threads=1)
    workspace.install("t(k, c, d) -> int(k), int(c), int(d).\n" + rules, name="views")
    return workspace


def edited(workspace, rows):
    """Insert and delete each row, in one transaction each; return the greatest of each count."""
    counts = []
    for one in (rows[0], *rows):  # the first edit lays out the schedule
        for change in ("insert", "delete"):
            with Meter(workspace.store) as meter, workspace.transaction() as txn:
                getattr(txn, change)("t", [one])
            counts.append(meter.counts)
    return {name: max(found[name] for found in counts[2:]) for name in counts[0]}


# rules, rows that reach three of them, and how many calls of kernels an edit takes at most
MANY = {
    "counts": (
        "v{i}[d] = n <- agg<<n = count()>> t(_, c, d), c > {i}0.",
        100,
        [(-1, 25, 7), (-2, 30, 8)],
        8,
    ),
    "sums": (
        "v{i}[d] = n <- agg<<n = sum(c)>> t(_, c, d), c > {i}0.",
        100,
        [(-1, 25, 7), (-2, 30, 8)],
        25,
    ),
    "lists": ("v{i}(k, d) <- t(k, c, d), c > {i}0, c < 900.", 100, [(-1, 25, 7), (-2, 30, 8)], 12),
    "rules of one view": ("p(k) <- t(k, {i}, d), d > {i}.", 200, [(-1, 3, 7), (-2, 150, 151)], 8),
}


@compiled
@pytest.mark.parametrize("work", MANY)
def test_an_edit_pays_for_the_views_that_it_reaches(work, tmp_path):
    rule, number, rows, calls = MANY[work]
    with opened(
        tmp_path / "s.pages", "\n".join(rule.replace("{i}", str(i)) for i in range(number))
    ) as workspace:
        counts = edited(workspace, rows)
        assert counts["kernel calls"] <= calls, counts
        assert counts["pages written"] <= 20 and counts["pages read"] <= 20, counts
        assert workspace.check() == []


def test_a_constant_that_becomes_known_and_is_forgotten(tmp_path):
    """A text that a transaction adds and rolls back leaves no word behind that another text then
    has.
    """
    rules = "\n".join(
        f'v{i}(k) <- r(k, _, s, _, _), s = "{word}".' for i, word in enumerate(["x", "y", "z"])
    )
    with stored(tmp_path / "s.pages") as workspace:
        workspace.install(DECLARATION + rules, name="rules")
        for word in ("p", "q", "x", "y"):
            txn = workspace.transaction()
            txn.insert("r", [(1, 1, word + "!", Decimal(1), None)])
            txn.rollback()
            workspace.exec(f'+r({ord(word)}, 1, "{word}", 1.00, 2).')
        assert [[*workspace[f"v{i}"]] for i in range(3)] == [[(ord("x"),)], [(ord("y"),)], []]
        assert workspace.check() == []
