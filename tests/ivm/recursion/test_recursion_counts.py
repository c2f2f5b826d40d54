"""What maintaining a recursion costs, counted: it follows the rows that are touched, whatever
the size of the view.
"""

import numpy as np
import pytest

import ivm
from ivm.plan import costs
from ivm.ways.recursion import fixpoint
from pagestore_tools.bench.meter import Meter
from tests.support.programs.recursive_programs import semilattice

FACTS = "edge(x, y) -> int(x), int(y).  start(x) -> int(x).\n"
REACH = "reach(x) <- start(x).  reach(y) <- reach(x), edge(x, y)."
CLOSURE = "path(x, y) <- edge(x, y).  path(x, z) <- path(x, y), edge(y, z)."
LABEL = "label[x] = x <- edge(x, _).  label[y] = l <- agg<<l = min(m)>> label[x] = m, edge(x, y)."
SETS = "holds[y] = s <- agg<<s = unite(t)>> (start(y), t = 1 ; holds[x] = t, edge(x, y))."
# for each row that is examined or changed, and for each edge there or back, measured
OPERATIONS = 40


@pytest.fixture(autouse=True)
def never_anew(monkeypatch):
    semilattice("unite")
    monkeypatch.setattr(costs, "REFILL_FROM", 1 << 30)
    monkeypatch.setattr(fixpoint, "STEPS_FREE", 1 << 30)


def filled(path, rules: str, edges: list[tuple[int, int]]) -> ivm.Workspace:
    workspace = ivm.open(path, sync="off", threads=1)
    workspace.install(FACTS + rules)
    with workspace.transaction() as txn:
        txn.insert("start", [(0,)])
        txn.insert("edge", edges)
    return workspace


def rings(number: int, size: int = 8) -> list[tuple[int, int]]:
    """Rings of vertices, each entered from vertex 0 by one edge."""
    ring = [
        (1 + r * size + n, 1 + r * size + (n + 1) % size)
        for r in range(number)
        for n in range(size)
    ]
    return ring + [(0, 1 + r * size) for r in range(number)]


@pytest.mark.parametrize(
    ("rules", "view"), [(REACH, "reach"), (CLOSURE, "path"), (LABEL, "label"), (SETS, "holds")]
)
def test_the_size_of_the_view_does_not_matter(tmp_path, rules, view):
    """A ring loses its only way in, among ten rings and among 1,000: the same rows are looked
    at.
    """
    counted = []
    for number in (10, 1_000):
        workspace = filled(tmp_path / f"{number}.pages", rules, rings(number))
        with Meter(workspace.store) as meter:
            workspace.exec("-edge(0, 25).")
        stats = workspace.stats(view)
        counted.append(
            (stats["examined"], stats["erased"], stats["operations"], meter.counts["writes"])
        )
        workspace.close()
    (*small, writes), (*large, more_writes) = counted
    assert small == large
    assert more_writes <= writes + 8  # a tree of one more level, and free pages


@pytest.mark.parametrize("edges", [800, 3_200])
@pytest.mark.parametrize("batch", [1, 8, 64])
def test_operations_follow_the_rows_that_are_touched(tmp_path, edges, batch):
    """Random edges go and come: operations are within a constant of rows examined, suspended,
    erased and inserted.
    """
    random = np.random.default_rng(edges)
    rows = [*map(tuple, np.unique(random.integers(0, edges // 2, (edges, 2)), axis=0).tolist())]
    workspace = filled(tmp_path / "counts.pages", REACH, rows)
    for _ in range(12):
        gone = [rows[i] for i in random.choice(len(rows), batch, replace=False)]
        for edit in ("delete", "insert"):
            with workspace.transaction() as txn:
                getattr(txn, edit)("edge", gone)
            stats = workspace.stats("reach")
            touched = batch + stats["examined"] + stats["erased"] + stats["inserted"]
            assert stats["operations"] <= OPERATIONS * touched
    workspace.close()


def test_a_derivation_from_later_rows_costs_one_look(tmp_path):
    """An edge back into the way is not a support of anything, so that its loss examines nothing."""
    workspace = filled(tmp_path / "back.pages", REACH, [(n, n + 1) for n in range(50)] + [(40, 3)])
    workspace.exec("-edge(40, 3).")
    stats = workspace.stats("reach")
    assert (stats["examined"], stats["rounds"]) == (0, 0)
    workspace.close()


def test_the_state_beside_a_view_is_small(tmp_path):
    """Ranks take less than as much again as the rows of the view without them, when it is filled
    and under churn.
    """
    random = np.random.default_rng(5)
    rows = [*map(tuple, np.unique(random.integers(0, 150, (260, 2)), axis=0).tolist())]
    workspace = filled(tmp_path / "state.pages", CLOSURE, rows)
    for _ in range(30):
        gone = [rows[i] for i in random.choice(len(rows), 4, replace=False)]
        with workspace.transaction() as txn:
            txn.delete("edge", gone)
        with workspace.transaction() as txn:
            txn.insert("edge", gone)
    workspace.install("copy(x, y) <- path(x, y).", "copy")
    with workspace.store.snapshot() as snap:
        pages = {name: stat_pages(snap, name) for name in ("path", "copy")}
    assert pages["path"] <= 2 * pages["copy"] + 2
    workspace.close()


def stat_pages(snap, name: str) -> int:
    from pagestore.trees.read import pages_of

    return len([*pages_of(snap.pages, snap.tree(name))])
