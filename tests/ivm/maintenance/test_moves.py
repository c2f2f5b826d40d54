"""A lone row that only bounds ranges is exchanged: views beside their truth, and operations that
follow the rows that come and go.
"""

import random
from collections.abc import Iterable

import pytest

import ivm
from tests.support.programs.amounts import times

TABLES = "r(x, y) -> int(x), int(y). s(x, y) -> int(x), int(y). now(x) -> int(x). day(x) -> int(x)."
RULES = """
    late(k) <- r(k, v), now(m), v <= m.
    fresh(k) <- r(k, v), now(m), v > m - 4, v <= m.
    both(k, w) <- r(k, v), s(k, w), now(m), v > m - 5, w < m + 3.
    of_two(k) <- r(k, v), now(m), day(d), v < m, v >= d.
    five(k) <- r(k, v), now(m), k = 5, v >= m.
    counted[v] = n <- agg<<n = count()>> r(k, v), now(m), v >= m - 2.
    summed[k] = n <- agg<<n = sum(v)>> r(k, v), now(m), v > m - 6, v <= m.
    none(k) <- r(k, v), !fresh(k).
    shown(k, m) <- r(k, v), now(m), v > m - 4.
    met(k) <- r(k, v), now(m), v = m.
    odd(k) <- r(k, v), now(m), v > m, (v + m) % 2 = 1.
"""
VIEWS = [line.split("(")[0].split("[")[0].strip() for line in RULES.strip().splitlines()]


def begun(rules: str, **rows: Iterable[tuple[int, ...]]) -> ivm.Workspace:
    """A workspace with rows and rules, and with a moment when these are planned."""
    ws = ivm.open(":memory:")
    ws.install(TABLES, name="tables")
    with ws.transaction() as txn:
        for name, given in rows.items():
            txn.insert(name, [*given])
    ws.install(rules)
    return ws


def edited(ws: ivm.Workspace, chance: random.Random) -> None:
    """Make one transaction: moves of none, one or both moments, which may become none or two rows,
    and edits of the others.
    """
    with ws.transaction() as txn:
        for name, often in (("now", 0.8), ("day", 0.3)):
            if chance.random() < often:
                txn.delete(name, [*ws[name]])
                many = chance.choice([1, 1, 1, 1, 0, 2])
                txn.insert(name, sorted({(chance.randrange(12),) for _ in range(many)}))
        for name in "rs":
            for _ in range(chance.choice([0, 0, 3])):
                edit = txn.insert if chance.random() < 0.7 else txn.delete
                edit(name, [(chance.randrange(7), chance.randrange(12))])


def test_views_follow_moves_and_edits() -> None:
    """All of them equal their rules evaluated anew, after each transaction."""
    for seed in range(times(6)):
        chance = random.Random(seed)
        ws = begun(RULES, now=[(3,)], day=[(1,)])
        for _ in range(40):
            edited(ws, chance)
            for view in VIEWS:
                ws.verify(view)
        assert ws.check() == []


WINDOWS = {  # a rule, and how many rows come or go when the moment moves by one
    "p(k) <- r(k, v), now(m), v > m - {w}.": 1,
    "p(k) <- r(k, v), now(m), v >= m - {w}, v < m.": 2,
    "p(k) <- r(k, v), now(m), v <= m, m - v < {w}.": 2,
    "p(k, n) <- r(k, v), s(k, n), day(n), now(m), v > m - {w}, v <= m.": 2,
    "p(k) <- r(k, v), s(k, w), now(m), v > m - {w}, w < m + 10000.": 2,
    "p[k] = n <- agg<<n = sum(v)>> r(k, v), now(m), v > m - {w}, v <= m.": 2,
}
MOMENT = 2000


@pytest.mark.parametrize("rule", WINDOWS)
def test_a_move_costs_the_rows_that_come_and_go(rule: str) -> None:
    """The operations of a move by one are the same whatever the window holds, forward and back."""
    took = []
    for width in (100, 1600):
        both = {name: [(n, n) for n in range(4000)] for name in "rs"}
        ws = begun(rule.format(w=width), now=[(MOMENT,)], day=[(n,) for n in range(5)], **both)
        counted, before = [], MOMENT
        for by in (1, 1, 1, 1, -1, 1):
            ws.exec(f"-now({before}). +now({before + by}).")
            counted.append(ws.stats("p")["operations"])
            before += by
        ws.verify("p")
        took.append(counted[2:])  # the first ones are joined by columns, before they get an index
    assert took[0] == took[1] and max(took[0]) <= 24 * WINDOWS[rule], took
