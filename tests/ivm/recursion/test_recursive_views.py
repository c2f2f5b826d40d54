"""Everything else works over views that read themselves: questions, limits, explanations,
subscribers, the check.
"""

import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import ivm
import pagestore
from ivm.errors import (
    ConstructError,
    DivergenceError,
    FunctionConflictError,
    LimitError,
    OptionError,
    RangeError,
)
from ivm.ways.recursion import fixpoint, in_memory
from pagestore.host import SET, read_batches

RULES = """
edge(x, y) -> int(x), int(y).  start(x) -> int(x).
reach(x) <- start(x).
reach(y) <- reach(x), edge(x, y).
many[] = n <- agg<<n = count()>> reach(x).
lost(x) <- edge(x, _), !reach(x).
"""
EDGES = [(1, 2), (2, 3), (3, 2), (3, 4), (7, 8)]


@pytest.fixture
def workspace(tmp_path):
    with ivm.open(tmp_path / "store.pages", sync="off") as workspace:
        workspace.install(RULES)
        with workspace.transaction() as txn:
            txn.insert("start", [(1,)])
            txn.insert("edge", EDGES)
        yield workspace


def test_questions(workspace):
    asked = "q(x, y) <- edge(x, y).  q(x, z) <- q(x, y), edge(y, z)."
    assert list(workspace.query(asked)) == [
        (1, 2),
        (1, 3),
        (1, 4),
        (2, 2),
        (2, 3),
        (2, 4),
        (3, 2),
        (3, 3),
        (3, 4),
        (7, 8),
    ]
    hops = "h[y] = d <- agg<<d = min(c)>> (start(y), c = 0 ; h[x] = b, edge(x, y), c = b + 1)."
    assert list(workspace.query(hops)) == [(1, 0), (2, 1), (3, 2), (4, 3)]
    assert list(
        workspace.query("p(y) <- edge(1, y).  p(y) <- p(x), edge(x, y).  u(x) <- reach(x), !p(x).")
    ) == [(1,)]


def test_questions_with_constants(workspace):
    closures = [
        "p(x, z) <- p(x, y), edge(y, z).",
        "p(x, z) <- edge(x, y), p(y, z).",
        "p(x, z) <- p(x, y), p(y, z).",
    ]
    for closure in closures:
        rules = f"p(x, y) <- edge(x, y).  {closure}  "
        assert list(workspace.query(rules + "q(y) <- p(1, y).")) == [(2,), (3,), (4,)]
        assert list(workspace.query(rules + "q(y) <- p(x, y), x = 7.")) == [(8,)]
        assert list(workspace.query(rules + "q(x) <- p(x, 4).")) == [(1,), (2,), (3,)]
        assert list(workspace.query(rules + "q(x, y) <- p(1, x), p(7, y).")) == [
            (2, 8),
            (3, 8),
            (4, 8),
        ]
        assert list(workspace.query(rules + "q(x) <- start(x), p(1, 4).")) == [(1,)]
        assert list(workspace.query(rules + "q(x) <- edge(x, _), !p(7, x), !p(1, x).")) == [
            (1,),
            (7,),
        ]
        text = workspace.explain(rules + "q(y) <- p(1, y).")
        assert "needed    of p only rows that x = 1 leads to" in text
        assert "needed" not in workspace.explain(rules + "q(x, y) <- p(1, y), p(x, _).")


def test_a_question_costs_what_it_reaches(tmp_path):
    with ivm.open(tmp_path / "store.pages", sync="off") as workspace:
        workspace.install("edge(x, y) -> int(x), int(y).")
        with workspace.transaction() as txn:  # 200 cycles of 50
            txn.insert(
                "edge", [(50 * c + n, 50 * c + (n + 1) % 50) for c in range(200) for n in range(50)]
            )
        for closure in ("p(x, z) <- p(x, y), edge(y, z).", "p(x, z) <- edge(x, y), p(y, z)."):
            rules = f"p(x, y) <- edge(x, y).  {closure}  "
            assert len(workspace.query(rules + "q(y) <- p(120, y).", rows_max=200)) == 50


def test_constants_go_into_two_strata(workspace):
    """The second stratum is rewritten as rewriting the first one has left it."""
    first = "p(x, y) <- edge(x, y).  p(x, z) <- p(x, y), edge(y, z).  "
    second = "r(x, y) <- p(2, y), edge(x, y).  r(x, z) <- r(1, y), edge(y, z), edge(x, _).  "
    whole = workspace.query(first + second + "q(x, y) <- r(x, y).")
    asked = workspace.query(first + second + "q(y) <- r(3, y).")
    assert list(asked) == [(y,) for x, y in whole if x == 3] == [(2,), (3,), (4,)]


def test_in_memory_by_hashes(workspace, monkeypatch):
    monkeypatch.setattr(fixpoint, "PAGED_SHARE", 1 << 40)
    monkeypatch.setattr(in_memory, "NUMBERS_MAX", 0)
    monkeypatch.setattr(in_memory, "FACTS_MIN", 2)
    asked = "p(x, y) <- edge(x, y).  p(x, z) <- p(x, y), p(y, z), x != z.  q(x, y) <- p(x, y), !start(y)."
    assert list(workspace.query(asked)) == [
        (1, 2),
        (1, 3),
        (1, 4),
        (2, 3),
        (2, 4),
        (3, 2),
        (3, 4),
        (7, 8),
    ]
    hops = "h[y] = d <- agg<<d = min(c)>> (start(y), c = 0 ; h[x] = b, edge(x, y), c = b + 1)."
    assert list(workspace.query(hops)) == [(1, 0), (2, 1), (3, 2), (4, 3)]


def test_a_question_about_an_older_version(workspace):
    version = workspace.store.version
    workspace.exec("-edge(1, 2).")
    with workspace.at(version) as old:
        assert len(old["reach"]) == 4
        assert len(old.query("q(x) <- start(x).  q(y) <- q(x), edge(x, y).")) == 4
    assert len(workspace.query("q(x) <- start(x).  q(y) <- q(x), edge(x, y).")) == 1


def test_subscribers(workspace):
    told = []
    workspace.subscribe("reach", lambda table: told.append(table.to_pylist()))
    workspace.exec("-edge(1, 2).")
    workspace.exec("+edge(1, 4).")
    workspace.exec("+edge(4, 1).")  # a way back: ranks may change, rows do not
    assert [sorted((row["x"], row["_change_type"]) for row in rows) for rows in told] == [
        [(2, "delete"), (3, "delete"), (4, "delete")],
        [(4, "insert")],
    ]


def test_statistics(workspace):
    workspace.exec("-edge(3, 4).")
    stats = workspace.stats("reach")
    assert (stats["rows"], stats["inserted"], stats["erased"], stats["examined"]) == (3, 0, 1, 1)
    workspace.exec("+edge(3, 4). +edge(4, 5).")
    stats = workspace.stats("reach")
    assert (stats["inserted"], stats["rounds"]) == (2, 2)


def test_explanation(workspace):
    text = workspace.explain("reach")
    assert "stratum   of this view alone, in rounds" in text
    assert "ranks     1: 1, 2: 1, 3: 1, 4: 1" in text
    assert "probed, in rounds" in text


def test_trace_and_evaluation(workspace):
    before = workspace.store.version
    workspace.exec("+edge(4, 5).")
    assert workspace.trace_distance("reach", before, workspace.store.version) > 0
    assert sorted(workspace.evaluate("reach")) == sorted(workspace["reach"])
    workspace.verify("reach")


def test_the_check_finds_a_wrong_rank_and_a_wrong_row(workspace):
    store = workspace.store
    with store.transaction() as txn:
        txn.declare_maintained()
        txn.apply("reach", np.array([SET]), np.array([[2], [9]]))
    assert [v.invariant for v in workspace.check()] == ["rank"]
    assert "reach: (3) follows from no rows before it" in workspace.check()[0].fact
    workspace.verify("reach")  # the rows are right
    workspace.repair()
    assert workspace.check() == []
    with store.transaction() as txn:
        txn.declare_maintained()
        txn.apply("reach", np.array([SET]), np.array([[6], [1]]))
    assert "view rows" in {v.invariant for v in workspace.check()}
    with pytest.raises(
        DivergenceError, match=r"reach is not what follows from scratch: it has \(6\)"
    ):
        workspace.verify("reach")


def test_ranks_stay_where_rows_stay(workspace):
    def ranks():
        with workspace.store.snapshot() as snap:
            return np.concatenate(
                [*read_batches(snap.pages, snap.tree("reach"))], axis=1
            ).T.tolist()

    assert ranks() == [[1, 1], [2, 2], [3, 3], [4, 4]]
    workspace.exec("+edge(1, 4).")
    assert ranks() == [[1, 1], [2, 2], [3, 3], [4, 4]]
    workspace.exec("-edge(3, 4).")
    assert ranks() == [[1, 1], [2, 2], [3, 3], [4, 4]]
    workspace.exec("-edge(2, 3). +edge(4, 3).")
    assert ranks() == [[1, 1], [2, 2], [3, 5], [4, 4]]


class TestLimits:
    ENDLESS = "n(x) <- start(x).  n(m) <- n(x), m = x + 1."

    def test_rows(self, workspace):
        says = (
            r"query:1:20: n\(m\) <- n\(x\), m = x \+ 1\. goes beyond rows_max=50 rows: it has "
            r"51 rows after 51 rounds"
        )
        with pytest.raises(LimitError, match=says):
            workspace.query(self.ENDLESS, rows_max=50)

    def test_in_memory(self, workspace, monkeypatch):
        monkeypatch.setattr(fixpoint, "PAGED_SHARE", 1 << 40)
        with pytest.raises(
            LimitError, match="rows_max=50 rows: it has 51 rows after 51 rounds, of which the last"
        ):
            workspace.query(self.ENDLESS, rows_max=50)
        with pytest.raises(
            LimitError, match="rounds_max=50 rounds: it has 51 rows after 51 rounds"
        ):
            workspace.query(self.ENDLESS, rounds_max=50)
        with pytest.raises(RangeError):
            workspace.query("n(x) <- start(x).  n(m) <- n(x), m = x + 2000000000000000000.")

    def test_rounds(self, workspace):
        version = workspace.store.version
        with pytest.raises(
            LimitError, match=r"rounds_max=20 rounds: .* the last brought 1, 1, 1, 1, 1; bound what"
        ):
            workspace.install(self.ENDLESS, "endless", rounds_max=20)
        assert workspace.store.version == version
        assert "n" not in workspace

    def test_of_later_transactions(self, workspace):
        workspace.install(
            "n(x) <- start(x).  n(m) <- n(x), edge(x, _), m = x + 10.", "some", rows_max=5
        )
        with pytest.raises(LimitError, match="rows_max=5 rows"), workspace.transaction() as txn:
            txn.insert("edge", [(1 + 10 * n, 0) for n in range(9)])
        assert list(workspace["n"]) == [(1,), (11,)]

    def test_that_end_by_a_comparison(self, workspace):
        assert len(workspace.query("n(x) <- start(x).  n(m) <- n(x), m = x + 1, m < 100.")) == 99

    @pytest.mark.parametrize("limit", [0, -1, 1.5, "7"])
    def test_that_are_none(self, workspace, limit):
        with pytest.raises(OptionError, match="rows_max"):
            workspace.query("q(x) <- start(x).", rows_max=limit)
        with pytest.raises(OptionError, match="rounds_max"):
            workspace.install("q(x) <- start(x).", "q", rounds_max=limit)


def test_a_value_out_of_range_in_a_recursion(workspace):
    with pytest.raises(RangeError):
        workspace.query("n(x) <- start(x).  n(m) <- n(x), m = x * 1000000.")


def test_a_function_that_is_not_aggregated(workspace):
    workspace.install(
        "depth[x] = 0 <- start(x).  depth[y] = d <- depth[x] = b, edge(x, y), y > x, d = b + 1.",
        "depth",
    )
    assert list(workspace["depth"]) == [(1, 0), (2, 1), (3, 2), (4, 3)]
    with pytest.raises(FunctionConflictError, match=r"depth\[4\] got two values"):
        workspace.exec("+edge(2, 4).")
    workspace.exec("+edge(2, 4). -edge(3, 4).")
    assert list(workspace["depth"]) == [(1, 0), (2, 1), (3, 2), (4, 2)]


def test_texts_and_dates(tmp_path):
    with ivm.open(tmp_path / "texts.pages", sync="off") as workspace:
        workspace.install("""
            under(x, y) -> string(x), string(y).
            chief(x, y) <- under(x, y).
            chief(x, z) <- chief(x, y), under(y, z).
            +under("ada", "bob"). +under("bob", "cy"). +under("cy", "ada").
        """)
        assert len(workspace["chief"]) == 9
        workspace.exec('-under("cy", "ada").')
        assert sorted(workspace["chief"]) == [("ada", "bob"), ("ada", "cy"), ("bob", "cy")]


def test_a_negation_that_needs_the_recursion_is_refused(workspace):
    with pytest.raises(ConstructError, match="the negation needs y from a view that reads itself"):
        workspace.install("p(x) <- start(x).  p(x) <- edge(_, x), p(y), !(edge(z, x), z > y).", "p")


def test_uninstalling_leaves_nothing(workspace):
    def trees():
        with workspace.store.sketch() as sketch:
            return set(sketch.catalog.relations)

    before = trees()
    workspace.install("p(x, y) <- edge(x, y).  p(x, z) <- p(x, y), p(y, z).", "p")
    workspace.uninstall("p")
    assert trees() == before
    workspace.exec("+edge(4, 1).")
    assert workspace.check() == []


def test_a_process_that_is_killed(tmp_path):
    """Rows and ranks of the last commit are there when the store is opened again, and nothing is
    evaluated for it.
    """
    script = f"""
        import ivm, os, signal
        workspace = ivm.open({str(tmp_path / "killed.pages")!r})
        workspace.install({RULES!r})
        with workspace.transaction() as txn:
            txn.insert("start", [(1,)])
            txn.insert("edge", {EDGES!r})
        workspace.exec("-edge(1, 2).")
        workspace.exec("+edge(1, 3).")
        txn = workspace.transaction()
        txn.delete("edge", [(1, 3)])
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=os.getcwd(), check=False
    )
    assert done.returncode == -signal.SIGKILL
    with ivm.open(tmp_path / "killed.pages") as workspace:
        assert list(workspace["reach"]) == [(1,), (2,), (3,), (4,)]
        assert workspace.check() == []
        workspace.exec("-edge(1, 3).")
        assert list(workspace["reach"]) == [(1,)]


def test_a_question_over_what_the_store_holds_is_recursive_and_explained(tmp_path):
    """Texts as vertices, compared by their order, of a relation that no rule declares."""
    legs = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "é"), ("x", "y")]
    with pagestore.open(tmp_path / "s.pages", sync="off") as store, store.transaction() as txn:
        txn.create("leg", "a: string, b: string").insert(legs)
    text = 'q(y) <- leg("a", y).  q(z) <- q(y), leg(y, z), y <= "c".'
    with ivm.open(tmp_path / "s.pages") as workspace:
        assert list(workspace.query(text)) == [("a",), ("b",), ("c",), ("é",)]
        assert "evaluated once" in workspace.explain(text)
        workspace.install(
            "to(x, y) <- leg(x, y).  to(x, z) <- to(x, y), leg(y, z), x < z.", name="to"
        )
        with workspace.transaction() as txn:
            txn.insert("leg", [("é", "zz")])
            txn.delete("leg", [("c", "a")])
        wanted = {
            ("a", "b"),
            ("a", "c"),
            ("a", "é"),
            ("a", "zz"),
            ("b", "c"),
            ("b", "é"),
            ("b", "zz"),
            ("c", "é"),
        }
        assert {*workspace["to"]} == wanted | {("c", "zz"), ("x", "y"), ("é", "zz")}
        assert workspace.check() == []


def test_what_was_derived_in_memory_is_kept(tmp_path, monkeypatch):
    """Where memory is short after most rounds, all but the last facts are joined once."""
    with ivm.open(tmp_path / "store.pages", sync="off", threads=1) as workspace:
        workspace.install("edge(x, y) -> int(x), int(y).")
        with workspace.transaction() as txn:
            txn.insert("edge", [(x, y) for x in range(150) for y in (x + 1, x + 2)])
        monkeypatch.setattr(in_memory, "FACTS_MIN", 1 << 10)
        rules = "p(x, y) <- edge(x, y).  p(x, z) <- p(x, y), edge(y, z)."
        workspace.install(rules, "whole")
        rows, whole = list(workspace["p"]), workspace.stats("p")["operations"]
        workspace.uninstall("whole")
        monkeypatch.setattr(in_memory, "memory_left", lambda: 1 << 20)
        monkeypatch.setattr(fixpoint.Facts, "clear", None)
        workspace.install(rules, "short")
        assert list(workspace["p"]) == rows
        assert workspace.stats("p")["operations"] < 1.5 * whole
        assert not workspace.check()


POINTS_TO = """
    points(v, h) <- fresh(v, h).
    points(v, h) <- copy(v, w), points(w, h).
    points(v, h) <- load(v, b, f), points(b, g), held(g, f, h).
    held(g, f, h) <- store(b, f, v), points(b, g), points(v, h).
"""


@pytest.mark.parametrize("fields", [20, 1])
def test_a_points_to_analysis(tmp_path, monkeypatch, fields):
    """Of several views, two of three atoms of a body share variables with both others; one field
    is in every load.
    """
    random = np.random.default_rng(3)
    spans = {
        "fresh": (300, 100),
        "copy": (300, 300),
        "load": (300, 300, fields),
        "store": (300, fields, 300),
    }
    with ivm.open(tmp_path / "store.pages", sync="off", threads=1) as workspace:
        for name, ends in spans.items():
            args = "xyz"[: len(ends)]
            workspace.install(
                f"{name}({', '.join(args)}) -> {', '.join(f'int({x})' for x in args)}.", name
            )
            with workspace.transaction() as txn:
                txn.insert(name, [random.integers(0, end, 200) for end in ends])
        found = {}
        for way in ("in memory", "over pages"):
            if way == "over pages":
                monkeypatch.setattr(fixpoint.Fixpoint, "_flat", lambda self: None)
            workspace.install(POINTS_TO, way)
            rows = {name: list(workspace[name]) for name in ("points", "held")}
            found[way] = rows, workspace.stats("points")["operations"]
            assert not workspace.check()
            workspace.uninstall(way)
        assert found["in memory"][0] == found["over pages"][0]
        assert len(found["in memory"][0]["held"]) > 1000
        few, many = found["in memory"][1], found["over pages"][1]
        assert 2 * few < many if fields == 20 else few == many, (
            "where every load has one field, atoms are intersected"
        )


@pytest.mark.parametrize("way", ["in memory", "over pages"])
def test_a_minimum_that_each_round_improves_is_kept_alone(tmp_path, monkeypatch, way):
    """Six rounds improve the values of all keys; memory is for one value of each key, not for
    all that were derived.
    """
    keys, rounds = 4000, 6
    y = np.tile(np.arange(keys), rounds)
    nth = np.repeat(np.arange(rounds), keys)
    rooms, rows = [], []
    room, put = in_memory.FlatFacts._room, fixpoint.Facts.put
    monkeypatch.setattr(in_memory, "FACTS_MIN", 1 << 6)
    monkeypatch.setattr(
        in_memory.FlatFacts, "_room", lambda self, facts: rooms.append(facts) or room(self, facts)
    )
    monkeypatch.setattr(
        fixpoint.Facts,
        "put",
        lambda self, *given: (put(self, *given), rows.append(self.count()))[0],
    )
    if way == "over pages":
        monkeypatch.setattr(fixpoint.Fixpoint, "_flat", lambda self: None)
    with ivm.open(tmp_path / "store.pages", sync="off", threads=1) as workspace:
        workspace.install("cost[x, y] = c -> int(x), int(y), int(c).")
        with workspace.transaction() as txn:
            txn.insert(
                "cost",
                [np.arange(-rounds, -1), np.arange(1 - rounds, 0), np.zeros(rounds - 1, np.int64)],
            )
            txn.insert("cost", [nth - rounds, y, 1000 - nth])
        workspace.install(
            "best[y] = m <- agg<<m = min(c)>> (cost[x, y] = c, x = -6 ; best[x] = b, cost[x, y] = "
            "k, c = b + k).",
            "best",
        )
        assert dict(workspace["best"]) == {
            **dict.fromkeys(range(1 - rounds, 0), 0),
            **dict.fromkeys(range(keys), 995),
        }
        assert workspace.check() == []
    most = keys + rounds
    assert max(rows, default=0) <= most and max(rooms, default=0) <= 4 * 2 * most
    assert rooms if way == "in memory" else len(rows) >= rounds
