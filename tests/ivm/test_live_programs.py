"""A program that is changed while it runs: what does not change keeps its pages, and a rule
costs its own rows.
"""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ivm
from ivm.engine import fill
from ivm.errors import FunctionConflictError, RuleError, UninstallError
from ivm.rules.compile import compile
from ivm.ways.way import Context
from pagestore_tools.bench.meter import Meter
from tests.support.mirror import Mirror
from tests.support.programs.amounts import times
from tests.support.strategies import DECLARATIONS, FULL, Clause, edits

EDGE = "edge(x, y) -> int(x), int(y). "


def roots(workspace: ivm.Workspace) -> dict[str, int]:
    """The root page of each tree of the newest version."""
    with workspace.store.snapshot() as snap:
        return {name: snap.tree(name).root for name in snap}


@pytest.fixture
def evaluated(monkeypatch):
    """The texts of the rules that are evaluated."""
    found = []
    add_rows = fill.Fill._add_rows

    def noted(self, rule, *others):
        found.append(rule.definition.text)
        add_rows(self, rule, *others)

    monkeypatch.setattr(fill.Fill, "_add_rows", noted)
    return found


def hundred(changed: str = "") -> str:
    """A hundred rules: ten for each of ten views, one of them `changed`; and views of these
    views.
    """
    rules = [f"v{n % 10}(x) <- edge(x, y), y % 100 = {n}." for n in range(100)]
    if changed:
        rules[42] = changed
    return EDGE + " ".join(rules) + "".join(f" w{n}(x) <- v{n}(x), edge(x, _)." for n in range(10))


def test_one_of_a_hundred_rules_costs_its_own_rows(evaluated):
    with ivm.open(":memory:") as workspace:
        workspace.install(hundred())
        with workspace.transaction() as txn:
            txn.insert("edge", [(x % 977, x) for x in range(5000)])
        before = roots(workspace)
        evaluated.clear()
        workspace.install(hundred("v2(x) <- edge(x, y), y % 100 = 42, x > 300."), replace=True)
        assert evaluated == [
            "v2(x) <- edge(x, y), y % 100 = 42.",
            "v2(x) <- edge(x, y), y % 100 = 42, x > 300.",
        ]
        assert workspace.evaluated == frozenset()
        after = roots(workspace)
        public = [name for name in before if "$" not in name]
        assert [name for name in public if before[name] != after[name]] == ["v2", "w2"]
        assert len(workspace["v2"]) < len(workspace["v3"])
        assert workspace.check() == []
        evaluated.clear()
        workspace.install(hundred("v2(-1) <- edge(_, _)."), replace=True)
        workspace.replace("main", hundred())
        assert len(evaluated) <= 6  # with the helper views of `edge(_, _)`
        assert {
            name: rows for name, rows in roots(workspace).items() if name in ("v1", "w1", "edge")
        } == {name: before[name] for name in ("v1", "w1", "edge")}
        assert workspace.check() == []


@pytest.mark.parametrize("rows", [30_000, 120_000])
def test_one_of_a_hundred_rules_reads_its_own_pages(rows, monkeypatch):
    counted = []
    monkeypatch.setattr(
        Context, "note_operations", lambda self, rule, operations: counted.append(operations)
    )
    others = "".join(f"v{n}(y) <- edge({n}, y). " for n in range(50))
    others += "".join(f"w{n}(x) <- edge(x, y), y % 100 = {n}. " for n in range(49))
    with ivm.open(":memory:", threads=1) as workspace:
        workspace.install(EDGE + others + "u(y) <- edge(70, y).")
        with workspace.transaction() as txn:
            txn.insert("edge", [(n % 3000, n) for n in range(rows)])
        each = rows // 3000
        for rule, most in (
            ("u(y) <- edge(71, y).", each),
            ("u(y) <- edge(71, y) ; edge(72, y).", 2 * each),
            ("u(y) <- edge(71, y), y > 100 ; edge(2900, y).", 2 * each),
        ):
            counted.clear()
            with Meter(workspace.store) as meter:
                workspace.replace("main", EDGE + others + rule)
            assert sum(counted) <= most
            assert meter.counts["pages read"] <= 4 and meter.counts["pages written"] <= 8
        assert workspace.check() == []


def test_an_alternative_costs_its_own_rows(monkeypatch):
    counted = []
    monkeypatch.setattr(
        Context, "note_operations", lambda self, rule, operations: counted.append(operations)
    )
    relations = EDGE + "few(x) -> int(x). "
    above = " w(x) <- v(x), few(x)."
    with ivm.open(":memory:") as workspace:
        workspace.install(relations + "v(x) <- edge(x, _), edge(_, x) ; few(x), x > 7." + above)
        with workspace.transaction() as txn:
            txn.insert("edge", [(x, x + 1) for x in range(100, 5100)])
            txn.insert("few", [(x,) for x in range(5, 25, 2)])
        for rule, most in (
            ("v(x) <- edge(x, _), edge(_, x) ; few(x), x > 9.", 40),
            (
                "v(x) <- few(x), x > 9 ; edge(x, _), edge(_, x) ; few(y), few(z), x = y + z - 1.",
                250,
            ),
            ("v(x) <- edge(x, _), edge(_, x) ; few(x), few(y), x > y + 10.", 500),
        ):
            before = roots(workspace)["w"]
            counted.clear()
            workspace.install(relations + rule + above, replace=True)
            assert sum(counted) <= most, (rule, counted)
            assert workspace.evaluated == frozenset()
            assert roots(workspace)["w"] != before
            assert workspace.check() == []
        counted.clear()
        workspace.install(relations + "v(x) <- few(x)." + above, replace=True)
        assert workspace.evaluated == {"v", "w"} and workspace.check() == []


def test_facts_come_and_go_without_their_readers(evaluated):
    with ivm.open(":memory:") as workspace:
        rules = EDGE + "edge(x, y) <- link(x, y). far(x, z) <- edge(x, y), edge(y, z). "
        workspace.install(rules + "link(1, 2). link(2, 3). link(3, 4).")
        evaluated.clear()
        told = []
        workspace.subscribe("far", told.append)
        workspace.install(rules + "link(2, 3). link(3, 5). link(3, 4).", replace=True)
        assert len(evaluated) == 2
        assert [*workspace["far"]] == [(2, 4), (2, 5)]
        assert sorted(told[0].to_pylist(), key=str) == [
            {"x": 1, "z": 3, "_change_type": "delete"},
            {"x": 2, "z": 5, "_change_type": "insert"},
        ]
        assert workspace.check() == []


def test_a_relation_may_lose_its_rules_while_another_block_reads_it():
    declared = "p(x) -> int(x). "
    with ivm.open(":memory:") as workspace:
        workspace.install(declared + "p(1). +p(2).", "below")
        workspace.install("q(x) <- p(x).", "above")
        workspace.replace("below", declared)
        assert [*workspace["q"]] == [*workspace["p"]] == [(2,)]
        workspace.replace("below", declared + "p(3).")
        workspace.exec("+p(4).")
        assert [*workspace["q"]] == [*workspace["p"]] == [(2,), (3,), (4,)]
        with pytest.raises(UninstallError, match="p is read by q"):
            workspace.replace("below", "r(1).")
        assert workspace.check() == []


def test_a_subscription_ends_where_rows_that_follow_were_null():
    told, declared = [], "o[x] = v -> int(x), string?(v). p(x, v) -> int(x), string(v). "
    with ivm.open(":memory:") as workspace:
        workspace.install(declared + 'p(x, v) <- o[x] = v?. +o[1] = null["string"].')
        workspace.subscribe("p", told.append)
        workspace.replace("main", declared)
        workspace.exec('+p(2, "b").')
        assert told == []
        workspace.subscribe("p", told.append)
        workspace.replace("main", declared + "p(x, v) <- o[x] = v.")
        workspace.exec('+o[3] = "c".')
        assert [change["x"] for table in told for change in table.to_pylist()] == [3]


def test_readers_never_wait(tmp_path):
    with ivm.open(tmp_path / "g.pages") as workspace:
        workspace.install(hundred() + "+edge(1, 42).")
        with workspace.at(workspace.store.version) as old, workspace.store.snapshot() as snap:
            workspace.install(hundred("v2(x) <- edge(_, x)."), replace=True)
            assert [*old["v2"]] == [*snap["v2"]] == [(1,)]
            assert [*workspace["v2"]] == [(42,)]


@st.composite
def programs_in_turn(draw):
    """Programs over the same predicates, each with most rules of the one before, and edits after
    each.
    """
    shapes = {"a": (1, False), "e": (2, False), "r": (2, False), "f": (1, True)}
    clause = Clause(draw, FULL, shapes)
    pool, bodies = ["v(1, 2).", "v(2, 2).", "v(3, 1)."], []
    for _ in range(6):
        literals, bound = clause.conjunction()
        head = clause.pick(bound), clause.pick(bound)
        pool.append(f"v({', '.join(head)}) <- {', '.join(literals)}.")
        bodies.append(f"{', '.join(literals)}, p = {head[0]}, q = {head[1]}")
    first = "v(x, y) <- e(x, y), r(_, y)."  # whose variables name the columns
    above = ["w(x) <- v(x, y), a(y).", "n[x] = c <- agg<<c = count()>> v(x, _).",
        "u(x) <- a(x), !v(x, x).",
             "u(y) <- w(x), e(x, y).", "c(x, z) <- v(x, z).",
             "c(x, z) <- c(x, y), v(y, z)."]  # fmt: skip
    turns = []
    for _ in range(draw(st.integers(2, 5))):
        rules = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=6, unique=True))
        alternatives = draw(st.lists(st.sampled_from(bodies), max_size=4, unique=True))
        rules += [f"v(p, q) <- {' ; '.join(alternatives)}."] * bool(alternatives)
        small = st.lists(edits(["a", "e", "r", "f"]), max_size=6)
        turns.append((DECLARATIONS + " ".join([first, *rules, *above]), draw(small)))
    return turns


@settings(max_examples=times(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(programs_in_turn())
def test_programs_that_follow_each_other_follow_the_truth(turns):
    with tempfile.TemporaryDirectory() as folder:
        mirror = Mirror(Path(folder) / "store.pages", DECLARATIONS)
        for text, small in turns:
            try:
                program = compile(text)
                mirror.workspace.install(text, replace=True)
            except (RuleError, FunctionConflictError):
                continue
            mirror.program = program
            mirror.change(small)
            assert mirror.workspace.check() == []
        mirror.close()


def test_views_that_are_evaluated_anew_at_once_may_have_rules_in_turn():
    """v0 has rules 0, 10, 20 and so on, so the last rule of each view comes after the first of
    all others.
    """
    with ivm.open(":memory:") as workspace:
        workspace.install(hundred())
        with workspace.transaction() as txn:
            txn.insert("edge", [(x % 977, x) for x in range(5000)])
        assert [len(workspace[f"v{n}"]) for n in range(10)] == [
            len({x % 977 for x in range(n, 5000, 10)}) for n in range(10)
        ]
        assert workspace.check() == []
