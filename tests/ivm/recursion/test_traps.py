"""What maintenance of recursion gets wrong when it is naive about support, each by name."""

import pytest

import ivm
from ivm.plan import costs
from ivm.ways.recursion import fixpoint
from tests.support import naive
from tests.support.mirror import Mirror
from tests.support.programs.recursive_programs import NEITHER, semilattice

EDGE = "edge(x, y) -> int(x), int(y).  start(x) -> int(x).  cost[x, y] = c -> int(x), int(y), int(c).\n"
REACH = EDGE + "reach(x) <- start(x).  reach(y) <- reach(x), edge(x, y)."
CLOSURE = EDGE + "path(x, y) <- edge(x, y).  path(x, z) <- path(x, y), path(y, z)."
DISTANCE = (
    EDGE
    + "dist[y] = d <- agg<<d = min(c)>> (start(y), c = 0 ; dist[x] = b, cost[x, y] = w, c = b + w)."
)
LABEL = (
    EDGE
    + "label[x] = x <- edge(x, _).\nlabel[y] = l <- agg<<l = min(m)>> label[x] = m, (edge(x, y) ; "
    "edge(y, x))."
)

FLOW = """given[x] = s -> int(x), int(s).  edge(x, y) -> int(x), int(y).
    holds[y] = s <- agg<<s = {}(t)>> (given[y] = t ; holds[x] = t, edge(x, y))."""
CHIEF = """under(x, y) -> string(x), string(y).  first[x] = x <- under(x, _).
    first[y] = t <- agg<<t = min(s)>> first[x] = s, under(x, y)."""


@pytest.fixture(autouse=True)
def never_anew(monkeypatch):
    """These tables are small: without a limit no deletion evaluates a stratum anew."""
    monkeypatch.setattr(costs, "REFILL_FROM", 1 << 30)
    monkeypatch.setattr(fixpoint, "STEPS_FREE", 1 << 30)


def mirror_of(tmp_path, text: str, **rows: list[tuple]) -> Mirror:
    mirror = Mirror(tmp_path / "traps.pages", text)
    mirror.change([(name, row, True) for name, some in rows.items() for row in some])
    return mirror


def test_a_cycle_that_supports_itself_loses_its_only_way_in(tmp_path):
    mirror = mirror_of(tmp_path, REACH, start=[(1,)], edge=[(1, 2), (2, 3), (3, 4), (4, 2)])
    mirror.delete("edge", (1, 2))
    assert list(mirror.workspace["reach"]) == [(1,)]
    mirror.insert("edge", (1, 4))
    assert mirror.workspace.check() == []


def test_two_cycles_that_support_each_other(tmp_path):
    mirror = mirror_of(
        tmp_path,
        REACH,
        start=[(1,)],
        edge=[(1, 2), (2, 3), (3, 2), (3, 4), (4, 5), (5, 4), (5, 2), (1, 4)],
    )
    mirror.delete("edge", (1, 4))
    assert len(mirror.workspace["reach"]) == 5
    mirror.delete("edge", (1, 2))
    assert list(mirror.workspace["reach"]) == [(1,)]


def test_a_shortcut_lowers_a_rank_and_goes_again(tmp_path):
    chain = [(n, n + 1) for n in range(1, 9)]
    mirror = mirror_of(tmp_path, REACH, start=[(1,)], edge=chain)
    for _ in range(3):
        mirror.insert("edge", (1, 8))
        mirror.delete("edge", (4, 5))
        assert (5,) not in mirror.workspace["reach"] and (9,) in mirror.workspace["reach"]
        mirror.insert("edge", (4, 5))
        mirror.delete("edge", (1, 8))
        assert len(mirror.workspace["reach"]) == 9
    assert mirror.workspace.check() == []


def test_deleted_and_inserted_again_in_one_transaction(tmp_path):
    mirror = mirror_of(tmp_path, CLOSURE, edge=[(1, 2), (2, 3), (3, 1), (3, 4)])
    mirror.change([("edge", (2, 3), False), ("edge", (2, 3), True)])
    mirror.change([("edge", (2, 3), False), ("edge", (2, 4), True), ("edge", (4, 3), True)])
    assert mirror.workspace.check() == []


def test_one_way_goes_while_another_comes(tmp_path):
    mirror = mirror_of(tmp_path, REACH, start=[(1,)], edge=[(1, 2), (2, 3), (3, 2)])
    mirror.change([("edge", (1, 2), False), ("edge", (1, 3), True)])
    assert len(mirror.workspace["reach"]) == 3
    assert mirror.workspace.stats("reach")["erased"] == 0


@pytest.mark.parametrize("length", [300, pytest.param(10**5, marks=pytest.mark.campaign)])
def test_a_long_chain(tmp_path, length):
    with ivm.open(tmp_path / "chain.pages", sync="off") as workspace:
        workspace.install(REACH)
        with workspace.transaction() as txn:
            txn.insert("start", [(0,)])
            txn.insert("edge", [(n, n + 1) for n in range(length)])
        assert len(workspace["reach"]) == length + 1
        workspace.exec(f"-edge({length - 100}, {length - 99}).")
        assert len(workspace["reach"]) == length - 99
        workspace.exec(f"+edge(0, {length - 1}).")
        assert len(workspace["reach"]) == length - 97


def test_a_complete_graph(tmp_path):
    nodes = range(9)
    mirror = mirror_of(tmp_path, CLOSURE, edge=[(x, y) for x in nodes for y in nodes if x != y])
    mirror.delete("edge", (0, 1), (3, 4))
    assert len(mirror.workspace["path"]) == 81
    assert mirror.workspace.stats("path")["erased"] == 0
    mirror.delete("edge", *[(x, 8) for x in nodes])
    assert mirror.workspace.check() == []


def test_a_distance_that_gets_longer(tmp_path):
    costs = [(1, 2, 1), (2, 3, 1), (1, 3, 5), (3, 4, 0), (4, 3, 0), (4, 5, 1)]
    mirror = mirror_of(tmp_path, DISTANCE, start=[(1,)], cost=costs)
    assert list(mirror.workspace["dist"]) == [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3)]
    mirror.delete("cost", (2, 3, 1))
    assert list(mirror.workspace["dist"]) == [(1, 0), (2, 1), (3, 5), (4, 5), (5, 6)]
    mirror.insert("cost", (1, 3, 9))  # a function's value is replaced
    mirror.insert("cost", (2, 3, 3))
    assert list(mirror.workspace["dist"]) == [(1, 0), (2, 1), (3, 4), (4, 4), (5, 5)]
    assert mirror.workspace.check() == []


def test_a_cycle_of_no_length_loses_its_only_way_in(tmp_path):
    mirror = mirror_of(tmp_path, DISTANCE, start=[(1,)], cost=[(1, 2, 3), (2, 3, 0), (3, 2, 0)])
    mirror.delete("cost", (1, 2, 3))
    assert list(mirror.workspace["dist"]) == [(1, 0)]


def test_a_component_splits_and_merges_again(tmp_path):
    mirror = mirror_of(tmp_path, LABEL, edge=[(1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 4)])
    mirror.delete("edge", (3, 4))
    assert [label for _, label in mirror.workspace["label"]] == [1, 1, 1, 4, 4, 4]
    mirror.insert("edge", (6, 1))
    assert {label for _, label in mirror.workspace["label"]} == {1}
    assert mirror.workspace.check() == []


def test_values_out_of_order_by_a_transaction_of_the_store_and_by_the_edits_of_a_text(tmp_path):
    """What must be evaluated anew is known to all that edit, and when the store is opened again."""
    mirror = mirror_of(tmp_path, DISTANCE, start=[(1,)], cost=[(1, 2, 5), (1, 3, 4), (3, 4, 1)])
    with mirror.workspace.store.transaction() as txn:
        txn["cost"].set([(2, 3, -3)])
    naive.change(mirror.state["cost"], (2, 3, -3), True)
    mirror.delete("cost", (1, 2, 5))
    mirror.close()
    edits = "+start(1). +cost[1, 2] = 5. +cost[1, 3] = 4. +cost[2, 3] = -3."
    with ivm.open(tmp_path / "other.pages", sync="off") as workspace:
        workspace.install(DISTANCE + edits)
        assert list(workspace["dist"]) == [(1, 0), (2, 5), (3, 2)]
    with ivm.open(tmp_path / "other.pages", sync="off") as workspace:
        workspace.exec("-cost[1, 2].")
        assert list(workspace["dist"]) == [(1, 0), (3, 4)]


def test_a_value_better_than_the_one_it_follows_from(tmp_path):
    """Nothing puts these values in order, so the function is evaluated anew, and all is right."""
    mirror = mirror_of(
        tmp_path, DISTANCE, start=[(1,)], cost=[(1, 2, 5), (2, 3, -3), (1, 3, 4), (3, 4, 1)]
    )
    mirror.delete("cost", (2, 3, -3))
    mirror.insert("cost", (3, 5, -1))
    mirror.reopen()
    mirror.delete("cost", (1, 3, 4))
    mirror.insert("cost", (3, 4, 0))
    assert mirror.workspace.check() == []


def test_sets_that_flow_round_a_cycle_lose_a_member(tmp_path):
    """A member that came from outside goes, though each vertex of the cycle still has it from
    the one before.
    """
    pytest.importorskip("numba")
    cycle = [(1, 2), (2, 3), (3, 2), (3, 4)]
    mirror = mirror_of(
        tmp_path, FLOW.format(semilattice("unite")), given=[(1, 1), (2, 2), (3, 4)], edge=cycle
    )
    assert list(mirror.workspace["holds"]) == [(1, 1), (2, 7), (3, 7), (4, 7)]
    mirror.delete("edge", (1, 2))
    assert list(mirror.workspace["holds"]) == [(1, 1), (2, 6), (3, 6), (4, 6)]
    mirror.change([("given", (2, 2), False), ("edge", (4, 1), True)])
    assert list(mirror.workspace["holds"]) == [(1, 5), (2, 4), (3, 4), (4, 4)]
    assert mirror.workspace.check() == []


def test_a_constant_is_propagated_while_all_ways_agree(tmp_path):
    pytest.importorskip("numba")
    mirror = mirror_of(
        tmp_path,
        FLOW.format(semilattice("agree")),
        given=[(1, 7), (5, 7)],
        edge=[(1, 2), (5, 2), (2, 3), (3, 2)],
    )
    assert list(mirror.workspace["holds"]) == [(1, 7), (2, 7), (3, 7), (5, 7)]
    mirror.insert("given", (5, 8))
    assert list(mirror.workspace["holds"]) == [(1, 7), (2, NEITHER), (3, NEITHER), (5, 8)]
    mirror.delete("edge", (1, 2))
    assert list(mirror.workspace["holds"]) == [(1, 7), (2, 8), (3, 8), (5, 8)]
    assert mirror.workspace.check() == []


def test_the_least_text_of_a_component_goes(tmp_path):
    """The order is that of the texts, in which the dictionary did not meet them; a new one is
    the least of all.
    """
    mirror = mirror_of(
        tmp_path, CHIEF, under=[("zoe", "bob"), ("bob", "cy"), ("cy", "bob"), ("ada", "cy")]
    )
    assert dict(mirror.workspace["first"]) == {
        "zoe": "zoe",
        "bob": "ada",
        "cy": "ada",
        "ada": "ada",
    }
    mirror.delete("under", ("ada", "cy"))
    assert dict(mirror.workspace["first"]) == {"zoe": "zoe", "bob": "bob", "cy": "bob"}
    mirror.insert("under", ("", "zoe"))
    assert {text for _, text in mirror.workspace["first"]} == {""}
    mirror.delete("under", ("", "zoe"))
    assert dict(mirror.workspace["first"]) == {"zoe": "zoe", "bob": "bob", "cy": "bob"}
    assert mirror.workspace.check() == []
