"""Scans, stars, chains and the like: what is filled and maintained is what the slow truth and
DuckDB say, each time.
"""

import tempfile
from itertools import count
from math import inf
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ivm
import pagestore
from ivm.engine import choice, replan, schedule
from ivm.engine.regret import Regret
from ivm.errors import RangeError
from ivm.join import slices
from ivm.plan import costs, planner
from ivm.rules import rule as installed_rule
from ivm.ways import by_columns, columns, match
from pagestore_tools.bench.meter import Meter
from tests.support.mirror import Mirror
from tests.support.programs import lsqb
from tests.support.programs.amounts import times
from tests.support.programs.shapes import DECLARATIONS, RELATIONS, shapes

EXAMPLES = times(15)  # campaigns run thousands
relaxed = settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), deadline=None)
ways = st.sampled_from(["auto", "auto", "probe", "match"])
# so that each set of variables appears to list more than the one that is asked about next
FALLING = count(0, -1)
FORCED = {
    "chosen": [],
    "joined": [
        (planner, "_in_columns", lambda *_: None),
        (planner, "_is_found_by_links", lambda *_: False),
    ],
    "by columns": [(planner, "lists_pairs", lambda *_: False), (costs, "COLUMN_ROWS", 1e9)],
    "counted": [
        (planner, "lists_pairs", lambda *_: False),
        (costs, "COLUMN_ROWS", 1e9),
        (columns.ColumnJoin, "_listing", lambda *_: next(FALLING)),
    ],
    "by blocks of ranges": [(planner, "lists_pairs", lambda *_: False), (slices, "NEAR", 0)],
    "planned anew": [
        (installed_rule, "SIZES_FACTOR", 1.2),
        (installed_rule, "SIZES_FREE", 0),
        (costs, "LARGE_FROM", 1),
    ],
    "evaluated anew": [(choice.Choice, "_propagating", lambda *_: inf), (costs, "LARGE_FROM", 0)],
    "hubs": [
        (planner, "lists_pairs", lambda *_: False),
        (costs, "COLUMN_ROWS", 1e9),
        (schedule, "FEW", 0),
        (costs, "FREE", 0),
        (costs, "tables", lambda _: 0.0),
        (costs, "READ", 0),
        (costs, "INDEXED", 0),
    ],
    "by shares": [
        (schedule, "FEW", 0),
        (match, "WHOLE", 1),
        (match, "FIRST", 1),
        (costs, "FREE", inf),
    ],
    "stopped": [
        (schedule, "FEW", 0),
        (match, "WHOLE", 1),
        (match, "FIRST", 1),
        (costs, "FREE", 20),
    ],
    "turning": [  # every rule, from probing to matching or back, after each change that reaches it
        (schedule, "FEW", 0),
        (replan, "EXCESS_FREE", -1),
        (Regret, "_add", lambda self, rule, *_: self.due.add(rule.number)),
        (Regret, "pays", lambda *_: True),
        (Regret, "turn", lambda self, rule: self.due.discard(rule.number) or 1e12),
    ],
    "followed": [(choice.Choice, "is_better_anew", lambda *_: False), (costs, "INDEXED", 0)],
}
plans = st.sampled_from([*FORCED])


class Database:
    """The same relations in DuckDB."""

    def __init__(self) -> None:
        self.connection = pytest.importorskip("duckdb").connect(config={"threads": 1})
        for name, (width, _) in RELATIONS.items():
            self.connection.execute(
                f"create table {name} ({', '.join(f'c{i} bigint' for i in range(width))})"
            )

    def change(self, edits: list) -> None:
        for name, row, inserted in edits:
            if inserted:
                self.connection.execute(f"insert into {name} values {row}")
            else:
                where = " and ".join(f"c{i} = {value}" for i, value in enumerate(row))
                self.connection.execute(f"delete from {name} where {where}")

    def rows(self, query: str) -> list[tuple]:
        return sorted(tuple(map(int, row)) for row in self.connection.execute(query).fetchall())


def follow(case: tuple, loaded: bool, maintenance: str, plans: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for place, name, value in FORCED[plans]:
            patch.setattr(place, name, value)
        patch.setattr(columns, "SLICE", 2 if plans == "by columns" else columns.SLICE)
        follow_forced(case, loaded, maintenance)


def follow_forced(case: tuple, loaded: bool, maintenance: str) -> None:
    """Install before or after the first load, then edit, comparing each time; in the end check
    all that is kept.
    """
    rules, queries, transactions = case
    database = Database()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.pages"
        with pagestore.open(path, sync="off") as store, store.transaction() as txn:
            for name, (width, keys) in RELATIONS.items():
                columns = [f"c{i}" for i in range(width)]
                txn.create(
                    name, ", ".join(f"{c}: int64" for c in columns), key=tuple(columns[:keys])
                )
        mirror = Mirror(path, DECLARATIONS)
        if not loaded:
            mirror.install("views", rules, maintenance=maintenance)
        for number, edits in enumerate(transactions):
            mirror.change(edits)
            database.change(edits)
            if loaded and not number:
                mirror.install("views", rules, maintenance=maintenance)
            for view, query in queries.items():
                rows = database.rows(query)
                assert sorted(mirror.workspace[view]) == rows, (view, query)
                assert sorted(tuple(row.values()) for row in asked(mirror, rules, view)) == rows, (
                    view,
                    query,
                )
            if number == 2:
                mirror.reopen()
        assert mirror.workspace.check() == []
        mirror.close()


def asked(mirror: Mirror, rules: str, view: str) -> list[dict]:
    """The rows that a view's rule has as a query."""
    (rule,) = (line for line in rules.split("\n") if line.startswith(view))
    return mirror.workspace.query(f"q{rule}").to_arrow().to_pylist()


@relaxed
@given(shapes(atoms_max=1, rules_max=4), st.booleans(), ways, plans)
def test_bodies_of_one_relation(case, loaded, maintenance, plans):
    follow(case, loaded, maintenance, plans)


@relaxed
@given(shapes(), st.booleans(), ways, plans)
def test_joins(case, loaded, maintenance, plans):
    follow(case, loaded, maintenance, plans)


@pytest.mark.campaign
@settings(relaxed, max_examples=10_000)
@given(shapes(atoms_max=1, rules_max=4), st.booleans(), ways, plans)
def test_campaign_of_bodies_of_one_relation(case, loaded, maintenance, plans):
    follow(case, loaded, maintenance, plans)


@pytest.mark.campaign
@settings(relaxed, max_examples=10_000)
@given(shapes(atoms_max=6), st.booleans(), ways, plans)
def test_campaign_of_joins(case, loaded, maintenance, plans):
    follow(case, loaded, maintenance, plans)


N = 200_000
STAR = """
    fact(i, a, b, v) -> int(i), int(a), int(b), int(v).  da(a, y) -> int(a), int(y).  db(b, y) -> int(b), int(y).
"""
# pages read by the install and by an edit of fact, rows that pass by, all at most; and a line of
# `explain`
WORK = {
    "s[b] = t <- agg<<t = sum(v)>> fact(_, a, b, v), a < 50.": (
        150, 8, N, "scan      of fact(_, a, b, v): columns a, b, v",
    ),
    "s(a) <- fact(_, a, b, v), b < 50, (v = 1 ; v > 7).": (150, 8, N, "filter    (v = 1 ; v > 7)"),
    "s[b] = t <- agg<<t = sum(x)>> fact(i, a, b, v), x = v * 3, (a < 50 ; v = 3, i > 7 ; b = 2).": (
        150, 8, N, "filter    (a < 50 ; v = 3, i > 7 ; b = 2)",
    ),
    "s(i) <- fact(i, a, _, _), i >= 100, i < 300, a != 3.": (8, 8, N,
    "scan      of fact(i, a, _, _): columns i, a"),
    "s[y] = t <- agg<<t = sum(v)>> fact(_, a, b, v), da(a, y), db(b, 3).": (
        150, 12, N + 200, "columns   the blocks of fact look up da, db; summed out: _, a, b",
    ),
    "s[] = n <- agg<<n = count()>> fact(_, a, b, _), da(_, a), db(_, b).": (
        150, 12, N + 200, "columns   the blocks of fact look up da, db; summed out: ",
    ),
    "s(i) <- fact(i, _, _, _), da(3, 3), db(y, _), y > 5.": (
        150, 12, N + 200, "columns   the blocks of fact look up da, s$some0",
    ),
}  # fmt: skip


@pytest.fixture
def star(tmp_path):
    with pagestore.open(tmp_path / "s.pages", sync="off") as store, store.transaction() as txn:
        txn.create("fact", "i: int64, a: int64, b: int64, v: int64", key=("i",))
        for name in ("da", "db"):
            txn.create(name, f"{name[1]}: int64, y: int64", key=(name[1],))
        drawn = np.random.default_rng(1)
        txn["fact"].insert(
            [np.arange(N), *drawn.integers(0, 100, (2, N)), drawn.integers(0, 10, N)]
        )
        for name in ("da", "db"):
            txn[name].insert([np.arange(100), np.arange(100) % 7])
    with ivm.open(tmp_path / "s.pages", sync="off", threads=1) as workspace:
        workspace.install(STAR, "star")
        yield workspace


def indices(workspace: ivm.Workspace) -> list[str]:
    with workspace.store.snapshot() as snap:
        return sorted(name for name in snap._version.catalog.relations if name.startswith("$index"))


@pytest.mark.parametrize("rule", WORK)
def test_the_work_of_a_shape_is_counted(rule, star):
    """What is read is the relations, once each; what an edit reads does not depend on their
    sizes.
    """
    installing, editing, rows, explained = WORK[rule]
    with Meter(star.store) as meter:
        star.install(rule, "rule")
    assert 0 < meter.counts["pages read"] <= installing
    assert not any("fact" in name for name in indices(star))
    assert star.stats("s")["operations"] <= rows
    assert explained in star.explain("s")
    (row,) = star["fact"].range((150,), (151,))
    for edit in ("delete", "insert"):
        with Meter(star.store) as meter, star.transaction() as txn:
            getattr(txn, edit)("fact", [row])
        assert 0 < meter.counts["pages read"] <= editing
    star.verify("s")


RANGES = {  # the pairs that are listed, at most
    "s(i, j) <- span(i, s, t), span(j, u, w), s <= w, u <= t, i < j.": 40_000,
    "s(i, j) <- span(i, s, _), span(j, u, _), u >= s, u <= s + 20.": 15_000,
    "s[] = n <- agg<<n = count()>> span(i, s, _), span(j, u, _), s <= u, i < j.": 0,
    "s[x] = n <- agg<<n = count()>> da(a, x), db(b, y), x != y.": 0,
    "s(i) <- span(i, s, _), !(span(_, u, _), u > s, u <= s + 20).": 0,
}


@pytest.mark.parametrize("rule", RANGES)
def test_comparisons_of_two_relations_are_slices(rule, star, monkeypatch):
    """Only pairs that are found are looked at, a few times as many with two ranges; what is
    counted is not listed.
    """
    listed = []
    taken = columns.Child._taken

    def counting(child, batch, times, which, *others):
        listed.append(len(which))
        return taken(child, batch, times, which, *others)

    monkeypatch.setattr(columns.Child, "_taken", counting)
    drawn, n = np.random.default_rng(2).integers(0, 10**6, 10_000), 10_000
    star.install("span(i, s, t) -> int(i), int(s), int(t).", "spans")
    with star.transaction() as txn:
        txn.insert("span", [np.arange(n), drawn, drawn + np.arange(n) % 50])
    with Meter(star.store) as meter:
        star.install(rule, "rule")
    assert sum(listed) <= RANGES[rule]
    assert meter.counts["pages read"] < 400
    assert "columns   the blocks of" in "".join(
        star.explain(name) for name in star.predicates if name[0] == "s"
    )
    star.verify("s")
    star.exec("-span(7, s, t) <- span(7, s, t).  +span(10001, 5, 500000).")
    star.verify("s")


# rows that are read for all atoms, and bindings that are found on the way, for each person and at
# most
SOCIAL = {
    "q[] = n <- agg<<n = count()>> country[c] = _, city[x] = c, member(f, x), post[m] = f, "
    "reply[r] = m, tagged(r, t), "
    "class[t] = _.": (27, 50),
    # 194 if each is looked up
    "q[] = n <- agg<<n = count()>> knows(a, b), knows(b, c), !knows(a, c).": (9, 15),
    "q[] = n <- agg<<n = count()>> knows(a, b), knows(b, c), !knows(a, c), !knows(a, c).": (9, 15),
    # 196
    "q[] = n <- agg<<n = count()>> knows(a, b), knows(b, c), interest(c, _), a != c, !knows(a, c).": (
        16,
        45,
    ),
    "q[t] = n <- agg<<n = count()>> knows(a, b), knows(b, c), interest(c, t), a != c, !knows(a, c).": (
        16,
        80,
    ),
    "q[] = s <- agg<<s = sum(t)>> knows(a, b), knows(b, c), interest(c, t), !knows(a, c), "
    "!member(a, c).": (27, 100),
}


@pytest.mark.parametrize("rule", SOCIAL)
def test_a_count_lists_no_pairs_that_a_negation_excludes(rule, tmp_path, monkeypatch):
    """What has a row of the negated atom is found by a cyclic join, and subtracted; others are
    never listed.
    """
    listed, persons = [], 3000
    passing = columns.passing
    monkeypatch.setattr(
        columns, "passing", lambda *args: listed.append(args[1].n) or passing(*args)
    )
    with ivm.open(tmp_path / "s.pages", sync="off", threads=1) as workspace:
        workspace.install(lsqb.DECLARATIONS, "social")
        with workspace.transaction() as txn:
            for name, rows in lsqb.relations(persons).items():
                txn.insert(name, [*rows.T.copy()])
        workspace.install(rule, "rule")
        most_read, most_listed = SOCIAL[rule]
        assert workspace.stats("q")["operations"] <= most_read * persons
        assert sum(listed) <= most_listed * persons
        assert ("counted   what !knows" in workspace.explain("q")) == ("!" in rule)
        workspace.verify("q")
        monkeypatch.setattr(columns.ColumnJoin, "_net", lambda self: [])
        workspace.install(rule.replace("q", "z", 1), "looked up")
        assert [*workspace["q"]] == [*workspace["z"]]


def test_columns_that_nothing_reads_need_no_index_of_the_others(star):
    """A row is found by its key, and read past what lies between; a change there changes no
    binding.
    """
    star.install("sale[i] = (a, b, v) -> int(i), int(a), int(b), int(v).", "sales")
    with star.transaction() as txn:
        txn.insert(
            "sale",
            [np.arange(1000), np.arange(1000) % 100, np.arange(1000) % 10, np.arange(1000) % 9],
        )
    star.install("l(i, v, y) <- sale[i] = (a, _, v), da(a, y), y < 5.", "list")
    star.install(
        "s[y] = t <- agg<<t = sum(v)>> sale[i] = (a, _, v), da(a, y), v > 2, i < 500.", "sums"
    )
    assert "order     [i, a, _, v, y]" in star.explain("l")
    row, before = (150, 50, 0, 6), len(star["l"])
    for other in ((150, 50, 1, 6), (150, 50, 1, 9), (150, 0, 2, 7)):
        with Meter(star.store) as meter, star.transaction() as txn:
            txn.delete("sale", [row])
            txn.insert("sale", [other])
        assert 0 < meter.counts["pages read"] <= 12
        assert (other, star.stats("l")["inserted"]) in [
            ((150, 50, 1, 6), 0),
            ((150, 50, 1, 9), 1),
            ((150, 0, 2, 7), 1),
        ]
        row = other
        star.verify("l")
        star.verify("s")
    assert not indices(star) and len(star["l"]) == before
    with star.transaction() as txn:  # of both relations at once
        txn.delete("sale", [row])
        txn.insert("sale", [(150, 4, 2, 5)])
        txn.delete("da", [(4, 4)])
        txn.insert("da", [(4, 1)])
    star.verify("l")
    star.verify("s")
    assert star.check() == []


def test_a_change_that_lacks_an_index_is_joined_by_columns_at_first(star):
    """Passing over the facts a few times costs less than an index of them; then that is built."""
    star.install("s[y] = t <- agg<<t = sum(v)>> fact(_, a, b, v), da(a, y), db(b, 3).", "rule")
    star.install("l(i, y) <- fact(i, a, _, _), da(a, y).", "list")
    for number in range(8):
        with Meter(star.store) as meter, star.transaction() as txn:
            txn.delete("da", [(number, number % 7)])
            txn.insert("da", [(number, 3), (200 + number, 5)])
        star.verify("s")
        star.verify("l")
        assert bool(indices(star)) == (number >= 4)
        assert 0 < meter.counts["pages read"] < 350
    with star.transaction() as txn:  # of two relations at once
        txn.delete("da", [(50, 1)])
        txn.delete("db", [(3, 3)])
    star.verify("s")
    assert star.check() == []


@pytest.mark.parametrize("part", ["", ", db(b, _)", ", db(b, 3)", ", da(b, _)"])
def test_the_change_of_a_hub_reads_a_range_of_an_index(part, star, monkeypatch):
    """A third of all facts follow from one row: they are read once, in columns, and not probed
    one by one.
    """
    monkeypatch.setattr(costs, "INDEXED", 0)  # an index is built at once
    with star.transaction() as txn:
        txn.insert(
            "fact",
            [
                N + np.arange(N // 2),
                np.full(N // 2, 7),
                np.arange(N // 2) % 100,
                np.arange(N // 2) % 10,
            ],
        )
    star.install(f"s[y] = t <- agg<<t = sum(v)>> fact(_, a, b, v), da(a, y){part}.", "sums")
    star.install(f"l(i, y) <- fact(i, a, b, _), da(a, y){part}.", "list")
    hub = N // 2 + N // 100
    for number, (gone, new) in enumerate([(0, 3), (3, 0), (0, 5)]):
        with Meter(star.store) as meter, star.transaction() as txn:
            txn.delete("da", [(7, gone)])
            txn.insert("da", [(7, new)])
        if "da(b" not in part:
            assert hub * 0.95 < star.stats("s")["operations"] < hub * 1.05
            assert not number or meter.counts["pages read"] < 900
        star.verify("s")
        star.verify("l")
    with star.transaction() as txn:  # a row with few partners is probed
        txn.delete("da", [(8, 1)])
    assert star.stats("s")["operations"] < hub / 2
    assert star.check() == []


def test_a_count_of_paths_through_a_hub_lists_none_of_them(star):
    """An edge in the middle of millions of paths: what is summed out is, level by level, from
    the changed row.
    """
    drawn = np.random.default_rng(4)
    hub = [[5] * 900 + [*range(900)], [*range(900)] + [5] * 900]
    edges = np.unique(np.concatenate([drawn.integers(0, 2000, (2, 20_000)), hub], axis=1), axis=1)
    star.install("e(x, y) -> int(x), int(y).", "graph")
    with star.transaction() as txn:
        txn.insert("e", [*edges])
    star.install(
        "q[] = n <- agg<<n = count()>> e(a, b), e(b, c), e(c, d), e(d, f), e(f, _).", "paths"
    )
    star.install("p[b] = n <- agg<<n = count()>> e(_, b), e(b, c), e(c, _), b < 100.", "ends")
    for kind in ("delete", "insert"):
        (before,) = star["q"]
        with star.transaction() as txn:
            getattr(txn, kind)("e", [(5, 7)])
        (after,) = star["q"]
        assert abs(after[0] - before[0]) > 1_000_000
        assert star.stats("q")["operations"] < 12 * edges.shape[1]
        star.verify("q")
        star.verify("p")
    with star.transaction() as txn:  # rows of several atoms at once
        txn.delete("e", [(5, 8), (5, 9), (8, int(edges[1, edges[0] == 8][0]))])
        txn.insert("e", [(5, 5), (9, 5)])
    star.verify("q")
    star.verify("p")
    assert star.check() == []


HUBS = """
    listed(k, y) <- r(k, a, _, _), d(a, y, _).
    summed[y] = t <- agg<<t = sum(k)>> r(k, a, b, _), d(a, y, _), h[b] = _.
    least[y] = t <- agg<<t = min(k)>> r(k, a, b, _), d(a, y, z), z != 3.
    shown(y) <- e(_, a), d(a, y, _).
    lacking[w] = n <- agg<<n = count()>> e(x, a), d(a, y, _), g(y, w), !f(x, w).
    linked[u] = n <- agg<<n = count()>> r(_, a, b, c), d(a, y, u), h[b] = w, w <= y, c > 0.
"""


@pytest.mark.parametrize("seed", range(3))
def test_random_changes_of_dimensions_are_joined_by_columns(seed, tmp_path, monkeypatch):
    """Each transaction changes one relation, so that its rows are joined with the others; what
    follows is the truth.
    """
    for place, name, value in FORCED["hubs"]:
        monkeypatch.setattr(place, name, value)
    joins, join = [], by_columns.follow
    monkeypatch.setattr(by_columns, "follow", lambda *given: joins.append(given) or join(*given))
    drawn = np.random.default_rng(seed)
    with pagestore.open(tmp_path / "s.pages", sync="off") as store, store.transaction() as txn:
        for name, (width, keys) in RELATIONS.items():
            columns = [f"c{i}" for i in range(width)]
            txn.create(name, ", ".join(f"{c}: int64" for c in columns), key=tuple(columns[:keys]))
    mirror = Mirror(tmp_path / "s.pages", DECLARATIONS)
    rows = {name: {} for name in RELATIONS}  # the whole row of each key
    for number in range(30):
        name = (
            [*RELATIONS][number]
            if number < len(RELATIONS)
            else str(drawn.choice(["d", "d", "g", "h", "r"]))
        )
        width, keys = RELATIONS[name]
        size = (60, *[6] * (width - 1)) if name == "r" else [6] * width
        drawn_rows = drawn.integers(0, size, (40 if number < len(RELATIONS) else 2, width)).tolist()
        new = {(*row[:keys],): (*row,) for row in drawn_rows}
        gone = [rows[name][key] for key in new if key in rows[name]]
        kept = [row for row in new.values() if drawn.random() < 0.8]
        mirror.change([(name, row, False) for row in gone] + [(name, row, True) for row in kept])
        rows[name] = {key: row for key, row in rows[name].items() if key not in new}
        rows[name] |= {row[:keys]: row for row in kept}
        if number == len(RELATIONS):
            mirror.install("views", HUBS)
    assert len(joins) > 20
    assert mirror.workspace.check() == []
    mirror.close()


PATHS = """
    counted[] = n <- agg<<n = count()>> e(a, b), e(b, c), f(c, d), e(d, _).
    ends[b] = t <- agg<<t = sum(w)>> e(_, b), e(b, c), g[c] = w, w > 1.
    listed(a, d) <- e(a, b), e(b, c), f(c, d).
    lacking[a] = n <- agg<<n = count()>> e(a, b), e(b, c), f(c, _), !h[a] = 3.
"""


@pytest.mark.parametrize("few", [2, 64])
def test_random_changes_of_paths_are_joined_by_columns(few, tmp_path, monkeypatch):
    """Relations that occur several times, and several that change in one transaction: each
    binding counts once.
    """
    for place, name, value in [*FORCED["hubs"], (columns, "FEW_KEYS", few)]:
        monkeypatch.setattr(place, name, value)
    joins, join = [], by_columns.follow
    monkeypatch.setattr(by_columns, "follow", lambda *given: joins.append(given) or join(*given))
    drawn = np.random.default_rng(few)
    declared = [
        f"{head} -> int(x), int(y)." for head in ("e(x, y)", "f(x, y)", "g[x] = y", "h[x] = y")
    ]
    mirror = Mirror(tmp_path / "s.pages", " ".join(declared))
    rows = {name: {} for name in "efgh"}  # the row of each key
    for number in range(40):
        edits = []
        for name in "efgh" if not number else drawn.choice([*"eefg"], 2):
            for row in drawn.integers(0, 5, (12 if not number else 2, 2)).tolist():
                key = (*row,) if name in "ef" else row[0]
                old = rows[name].pop(key, None)
                edits += [(name, old, False)] if old else []
                if not old or drawn.random() < 0.5:
                    rows[name][key] = (*row,)
                    edits.append((name, (*row,), True))
        mirror.change(edits)
        if not number:
            mirror.install("views", PATHS)
    assert len(joins) > 60
    assert mirror.workspace.check() == []
    mirror.close()


def test_an_index_is_built_by_a_change_that_needs_it(star, tmp_path, monkeypatch):
    """The store says which are built, also to a handle that opens it later; a large change of a
    fact needs none.
    """
    monkeypatch.setattr(costs, "INDEXED", 0)  # no change is joined by columns
    star.install("s[y] = t <- agg<<t = sum(v)>> fact(_, a, b, v), da(a, y), db(b, 3).", "rule")
    star.exec("+fact(200001, 3, 3, 5). -fact(200001, 3, 3, 5).")
    assert not indices(star) and star.explain("s").count("$index:fact") == 2
    star.exec("-da(4, 4).")
    assert [name.split(":")[2][0] for name in indices(star)] == ["1"]
    star.verify("s")
    star.close()
    with ivm.open(tmp_path / "s.pages", sync="off") as again:
        with again.store.transaction() as txn:
            txn["db"].delete([(5,)])
            txn["fact"].delete([(7,)])
        assert [name.split(":")[2][0] for name in indices(again)] == ["1", "2"]
        again.verify("s")
        assert again.check() == []
        again.uninstall("rule")
        assert not indices(again)


def test_what_follows_so_often_that_its_product_exceeds_a_word(tmp_path):
    """A sum whose parts are far beyond 64 bits is exact where they cancel out, else it is
    refused.
    """
    with ivm.open(tmp_path / "s.pages", sync="off") as workspace:
        workspace.install("r(k, v) -> int(k), int(v).  e(k, x) -> int(k), int(x).")
        with workspace.transaction() as txn:
            txn.insert("r", [(1, 2**62), (1, -(2**62)), (1, 7)])
            txn.insert("e", [(1, x) for x in range(1000)])
        rule = "s[k] = t <- agg<<t = sum(v)>> r(k, v), e(k, _)."
        workspace.install(rule, "sums")
        assert list(workspace["s"]) == [(1, 7000)]
        workspace.uninstall("sums")
        workspace.exec("-r(1, -4611686018427387904).")
        with pytest.raises(RangeError, match="beyond int64"):
            workspace.install(rule, "sums")
