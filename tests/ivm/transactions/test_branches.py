"""Branches with rules of their own: each keeps its views, and edits of one are none of another's."""

import random
from collections.abc import Callable
from typing import Any

import pytest

import ivm
from ivm.errors import OptionError
from pagestore.errors import MissingError
from tests.support.programs.amounts import times

EDGE = "edge(x, y) -> int(x), int(y). "
BLOCKS = {
    "reach": "reach(x, y) <- edge(x, y). reach(x, z) <- reach(x, y), edge(y, z).",
    "degree": "degree[x] = n <- agg<<n = count()>> edge(x, _).",
    "total": "total[] = s <- agg<<s = sum(y)>> edge(_, y).",
    "sinks": "sink(y) <- edge(_, y), !edge(y, _).",
}
Rows = set[tuple[Any, ...]]


def reach(edges: Rows) -> Rows:
    """The transitive closure."""
    found, new = set(edges), set(edges)
    while new:
        new = {(x, z) for x, y in new for y2, z in edges if y == y2} - found
        found |= new
    return found


def degree(edges: Rows) -> Rows:
    """How many edges begin at each node."""
    return {(x, sum(x == one for one, _ in edges)) for x, _ in edges}


TRUTH: dict[str, tuple[str, Callable[[Rows], Rows]]] = {
    "reach": ("reach", reach),
    "degree": ("degree", degree),
    "total": ("total", lambda edges: {(sum(y for _, y in edges),)} if edges else set()),
    "sinks": ("sink", lambda edges: {(y,) for _, y in edges} - {(x,) for x, _ in edges}),
}


def test_each_branch_follows_its_own_rules() -> None:
    """Random installs, edits and new branches, with views beside their truth after each."""
    for seed in range(times(6)):
        chance = random.Random(seed)
        ws = ivm.open(":memory:")
        ws.install(EDGE, "edges")
        model: dict[str, tuple[Rows, set[str]]] = {"main": (set(), set())}
        for step in range(25):
            name = chance.choice([*model])
            edges, blocks = model[name]
            here = ws.on(name)
            block = chance.choice([*BLOCKS])
            action = chance.randrange(8)
            if action == 0 and len(model) < 5:
                here.store.branch(f"b{step}")
                model[f"b{step}"] = set(edges), set(blocks)
            elif action == 1 and block in blocks:
                here.uninstall(block)
                blocks.discard(block)
            elif action <= 2:
                here.install(BLOCKS[block], block, replace=True)
                blocks.add(block)
            else:
                row = chance.randrange(5), chance.randrange(5)
                way = chance.randrange(3)
                sign = "-" if row in edges else "+"
                if way == 0:
                    here.exec(f"{sign}edge{row}.")
                elif way == 1:
                    (here.delete if sign == "-" else here.insert)("edge", row)
                else:
                    with ws.store.transaction(branch=name) as txn:
                        getattr(txn["edge"], "delete" if sign == "-" else "insert")([row])
                edges ^= {row}
            for branch, (edges, blocks) in model.items():
                with ws.at(branch=branch) as snap:
                    assert {*snap["edge"]} == edges
                    for one in blocks:
                        view, truth = TRUTH[one]
                        assert {*snap[view]} == truth(edges), (seed, step, branch, view)
                assert {*ws.on(branch).blocks} == {"edges", *blocks}
        assert [ws.check(branch) for branch in model] == [[] for _ in model]
        assert ws.store.check() == []


def test_a_workspace_on_a_branch() -> None:
    """Everything that is asked of it is about its branch: subscriptions, SQL, questions, closing."""
    ws = ivm.open(":memory:")
    ws.install(EDGE + BLOCKS["degree"] + " +edge(1, 2).", "main")
    ws.store.branch("trial")
    with ws.on("trial") as trial:
        heard: list[tuple[str, Any]] = []
        ws.subscribe("degree", lambda table: heard.append(("main", table.num_rows)))
        trial.subscribe("degree", lambda table: heard.append(("trial", table.num_rows)))
        trial.insert("edge", (2, 3))
        trial.sql("CREATE TABLE t (a INT); INSERT INTO t VALUES (7)")
        trial.sql("CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS s FROM t")
        trial.sql("INSERT INTO t VALUES (1)")
        assert heard == [("trial", 1)]
        assert [*(trial.sql("SELECT s FROM v") or ())] == [(8,)]
        assert trial.store.version == ws.store.branches["trial"] > ws.store.version
        assert "edge(2, 3)" in str(trial.why("degree", (2, 1)))
    ws.insert("edge", (5, 6))  # it is still open
    assert heard[1:] == [("main", 1)]
    assert [*ws.query("q(x) <- degree[x] = _.", branch="trial")] == [(1,), (2,)]
    with ws.transaction(branch="trial") as txn:
        txn.delete("edge", [(1, 2)])
    assert [*trial["degree"]] == [(2, 1)] and [*ws["degree"]] == [(1, 1), (5, 1)]
    with pytest.raises(MissingError, match="there is no branch 'none'; there is main, trial"):
        ws.on("none")
    with pytest.raises(OptionError, match="a version or a branch"):
        ws.at(1, branch="trial")


def test_what_if_leaves_no_trace() -> None:
    """A trial follows its edits as often as it is read, on any branch, and changes nothing."""
    ws = ivm.open(":memory:")
    ws.install(EDGE + BLOCKS["reach"] + " +edge(1, 2).", "main")
    ws.store.branch("side")
    ws.on("side").install(BLOCKS["degree"], "degree")
    before = ws.store.version, ws.store.branches
    with ws.what_if("side") as trial:
        trial.insert("edge", [(2, 3)])
        assert trial.changes("reach")["y"].to_pylist() == [3, 3]
        trial.delete("edge", [(1, 2)])
        assert {*trial["reach"]} == {(2, 3)} and {*trial["degree"]} == {(2, 1)}
        trial.inner["edge"].insert([(3, 4)])
        assert {*trial["reach"]} == {(2, 3), (2, 4), (3, 4)}
        assert {*trial.all_changes()} == {"edge", "reach", "degree"}
        assert trial.changes("degree").to_pylist()[0] == {"x": 1, "n": 1, "_change_type": "delete"}
        with pytest.raises(ivm.errors.UnknownViewError):
            trial.changes("nothing")
        with pytest.raises(ivm.errors.UnknownViewError):
            trial["nothing"]
    assert (ws.store.version, ws.store.branches) == before and {*ws["reach"]} == {(1, 2)}
    preview = ws.preview("+edge(7, 8).", branch="side")
    preview.commit()
    assert (7, 1) in {*ws.on("side")["degree"]} and (7, 8) not in {*ws["edge"]}
