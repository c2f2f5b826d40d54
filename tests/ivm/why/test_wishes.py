"""Edits that bring about what is wished of a view: each is true by loops over sets, and there are
no fewer by trying all edits of a small domain.
"""

import random
from pathlib import Path
from typing import Any

import pytest

import ivm
from ivm.errors import EditError, UnknownViewError
from pagestore_tools.cli.main import ivm as command
from tests.support.programs.amounts import times

RULES = """
    edge(x, y) -> int(x), int(y).  paid[who] = n -> string(who), int(n).
    hop(x, z) <- edge(x, y), edge(y, z).  last(y) <- edge(_, y), !edge(y, _).
    reach(x, y) <- edge(x, y).  reach(x, z) <- reach(x, y), edge(y, z).
    degree[x] = n <- agg<<n = count()>> edge(x, _).  far[x] = m <- agg<<m = max(y)>> edge(x, y).
    total[] = t <- agg<<t = sum(n)>> paid[_] = n.
"""
NODES, NAMES, AMOUNTS = range(3), ("ada", "bob"), range(7)
Edges, Paid = frozenset[tuple[int, int]], frozenset[tuple[str, int]]


def views(edges: Edges, paid: Paid) -> dict[str, set[tuple[int, ...]]]:
    """All views, by loops over sets."""
    reach = set(edges)
    while more := {(x, z) for x, y in reach for a, z in edges if a == y} - reach:
        reach |= more
    groups = {x: [b for a, b in edges if a == x] for x, _ in edges}
    return {
        "hop": {(x, z) for x, y in edges for a, z in edges if a == y},
        "last": {(y,) for _, y in edges if y not in groups},
        "reach": reach,
        "degree": {(x, len(some)) for x, some in groups.items()},
        "far": {(x, max(some)) for x, some in groups.items()},
        "total": {(sum(n for _, n in paid),)} if paid else set(),
    }


def neighbours(edges: Edges, paid: Paid) -> list[tuple[Edges, Paid]]:
    """What one edit makes of the relations."""
    found = [(edges ^ {(x, y)}, paid) for x in NODES for y in NODES]
    for name in NAMES:
        rest = frozenset(row for row in paid if row[0] != name)
        found += [(edges, rest), *((edges, rest | {(name, n)}) for n in AMOUNTS)]
    return [one for one in found if one != (edges, paid)]


def least(state: tuple[Edges, Paid], view: str, row: tuple[int, ...], gone: bool) -> int:
    """The fewest edits that bring a wish, by trying all; 3 for more than two."""
    level = {state}
    for size in range(3):
        if any((row in views(*one)[view]) != gone for one in level):
            return size
        level = {more for one in level for more in neighbours(*one)} if size < 2 else set()
    return 3


def wish(seed: int) -> tuple[int, int]:
    """Make a random wish in a random state; return how many edits were suggested, and the least."""
    chance = random.Random(seed)
    ws = ivm.open(":memory:")
    ws.install(RULES)
    edges = frozenset((x, y) for x in NODES for y in NODES if chance.random() < 0.35)
    paid = frozenset((name, chance.choice(AMOUNTS)) for name in NAMES if chance.random() < 0.8)
    with ws.transaction() as txn:
        txn.insert("edge", sorted(edges))
        txn.insert("paid", sorted(paid))
    view = chance.choice([*views(edges, paid)])
    there = sorted(views(edges, paid)[view])
    gone = bool(there) and chance.random() < 0.4
    size = {"last": 1, "total": 1}.get(view, 2)
    row = chance.choice(there) if gone else tuple(chance.choice(NODES) for _ in range(size))
    if view == "total" and not gone:
        row = (chance.choice(AMOUNTS),)
    if gone == (row not in there):
        return 0, 0
    keys, is_function = (row[:-1], view in ("degree", "far", "total")) if row else (row, False)
    text = f"{view}[{', '.join(map(str, keys))}] = {row[-1]}" if is_function else f"{view}{row}"
    found = ws.make(("-" if gone else "") + text.replace(",)", ")"))
    for one in found:
        with ws.what_if() as trial:
            ws._make(str(one), trial)
            after: Any = frozenset(trial["edge"]), frozenset(trial["paid"])
        assert (row in views(*after)[view]) != gone, (seed, text, str(one))
        assert {n for n, t in one.changes.items() if t.num_rows} == {
            name
            for name, rows in (
                views(*after) | dict(zip(("edge", "paid"), after, strict=True))
            ).items()
            if rows != (views(edges, paid) | {"edge": edges, "paid": paid})[name]
        }
    return len(found[0].edits) if found else 3, least((edges, paid), view, row, gone)


def minimal(seeds: range) -> float:
    """Make wishes; return the share of those that were answered by the fewest edits."""
    both = [one for seed in seeds if (one := wish(seed)) != (0, 0)]
    return sum(made <= fewest for made, fewest in both) / len(both)


def test_random_wishes() -> None:
    """All suggestions are true, and hardly any has more edits than are needed."""
    assert minimal(range(times(25))) >= 0.95


@pytest.mark.campaign
def test_many_random_wishes() -> None:
    """Two thousand of them."""
    assert minimal(range(2000)) >= 0.95


SALES = """
    CREATE TABLE sale (id BIGINT PRIMARY KEY, shop TEXT NOT NULL, cents BIGINT NOT NULL);
    CREATE MATERIALIZED VIEW most AS SELECT shop, max(cents) AS c FROM sale GROUP BY shop;
    CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(cents) AS c FROM sale;
    CREATE MATERIALIZED VIEW rich AS SELECT shop FROM sale GROUP BY shop HAVING sum(cents) > 1000;
    INSERT INTO sale VALUES (1, 'north', 400), (2, 'south', 250), (3, 'north', 100), (4, 'west', 700)
"""


def test_wishes_of_views_of_sql() -> None:
    """An aggregate of SQL is a rule behind the view: its rows are changed, as few as are needed."""
    ws = ivm.open(":memory:")
    ws.sql(SALES)
    for wish, edits in (
        ('most("north", 450)', '("north", 450)'),
        ("total(4, 1500)", '^sale[2] = ("south", 300)'),
        ('rich("west")', '^sale[101] = ("west", '),
        ('-most("north", 400)', "-sale[1]"),
    ):
        made = ws.make(wish)
        assert made and all(len(one.edits) == 1 for one in made), wish
        assert any(edits in str(one) for one in made), (wish, [*map(str, made)])


def test_what_is_said_and_refused() -> None:
    """Those that change least come first, and one is made; what names no view is refused."""
    ws = ivm.open(":memory:")
    ws.install(RULES)
    ws.exec('+paid["ada"] = 3. +edge(1, 2). +edge(2, 0).')
    assert [str(one) for one in ws.make("-hop(1, 0)")] == ["-edge(1, 2).", "-edge(2, 0)."]
    first = ws.make("total[] = 10")[0]
    assert first.changes["total"].num_rows == 2
    first.commit()
    assert list(ws["total"]) == [(10,)] and ws.make("total[] = 10") == []
    with pytest.raises(EditError, match="edge is a relation: edit it itself"):
        ws.make("edge(7, 7)")
    with pytest.raises(UnknownViewError):
        ws.make("none(1)")


def test_the_command_makes_a_wish(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It prints the edits and what they change, and with --do makes the first."""
    path = str(tmp_path / "s.pages")
    with ivm.open(path) as ws:
        ws.install(RULES)
        ws.exec('+paid["ada"] = 3.')
    assert command(["make", path, "total[] = 5"]) == 0
    assert '^paid["ada"] = 5.   changes 2 of paid, 2 of total' in capsys.readouterr().out
    assert command(["make", path, "-total[] = 3", "--do"]) == 0
    assert "version 3 has the first" in capsys.readouterr().out
    assert command(["make", path, "-total[] = 3"]) == 1
