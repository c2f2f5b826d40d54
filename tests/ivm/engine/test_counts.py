"""What fixed work takes, counted: a regression shows here without a clock.

Operations are exact, since nothing but the plan and the graph decides on them. Pages, writes and
kernel calls are bounds a little above what is measured: whoever does it with less may lower them.
"""

from functools import partial
from itertools import islice

import numpy as np
import pytest

import ivm
import pagestore
from benchmarks.small.texts import RULES
from pagestore_tools.bench.graphs import changes, skewed
from pagestore_tools.bench.meter import Meter
from tests.support.calls import functions_called, is_ours
from tests.support.simulator import compiled

pytestmark = pytest.mark.usefixtures("unhurried")

EDGES = skewed(1000)
FACTS = "edge(x, y) -> int(x), int(y)."
TRIANGLE = "q(x, y, z) <- edge(x, y), edge(y, z), edge(x, z)."
CLIQUE = "q(x, y, z, w) <- edge(x, y), edge(y, z), edge(x, z), edge(x, w), edge(y, w), edge(z, w)."
PATHS = "q(x, w) <- edge(x, y), edge(y, z), edge(z, w)."


@pytest.fixture
def workspace(tmp_path):
    with ivm.open(tmp_path / "counts.pages", sync="full", threads=1) as workspace:
        workspace.install(FACTS, name="facts")
        with workspace.transaction() as txn:
            txn.insert("edge", list(EDGES))
        yield workspace


def changed(workspace, batch, number):
    """Counts of transactions, int64[number], by name."""
    found = []
    for gone, new in islice(changes(EDGES, batch), number):
        with Meter(workspace.store) as meter, workspace.transaction() as txn:
            txn.delete("edge", list(gone))
            txn.insert("edge", list(new))
        found.append({"operations": workspace.stats("q")["operations"], **meter.counts})
    return {name: np.array([counts[name] for counts in found]) for name in found[0]}


# operations of 40 transactions together, and bounds: of any one, kernel calls in the median
SINGLES = {
    "triangles, probed": (
        TRIANGLE,
        "probe",
        2844,
        {"pages read": 14, "pages written": 14, "writes": 11},
        2,
    ),
    "triangles, matched": (
        TRIANGLE,
        "match",
        11780,
        {"pages read": 90, "pages written": 60, "writes": 48},
        2,
    ),
    "4-cliques, probed": (
        CLIQUE,
        "probe",
        29224,
        {"pages read": 27, "pages written": 21, "writes": 12},
        2,
    ),
}


@pytest.mark.parametrize("work", SINGLES)
def test_one_edge_a_transaction(work, workspace):
    rule, maintenance, operations, most, calls = SINGLES[work]
    workspace.install(rule, name="view", maintenance=maintenance)
    counts = changed(workspace, 1, 40)
    assert counts["operations"].sum() == operations
    assert set(counts["syncs"]) == {2}
    for what, bound in most.items():
        assert 0 < counts[what].max() <= bound, what
    assert np.median(counts["kernel calls"]) <= calls


def test_a_hundred_edges_a_transaction(workspace):
    """A batch descends once: some calls more than one edge takes, and no page is written twice."""
    workspace.install(TRIANGLE, name="view", maintenance="probe")
    counts = changed(workspace, 100, 6)
    assert counts["operations"].sum() == 33_942
    assert set(counts["syncs"]) == {2}
    assert counts["kernel calls"].max() <= 24  # by shares of edges, which tell what all will cost
    pages = sum(workspace.store.stat().relations.values())
    assert counts["pages written"].max() <= pages + 6
    assert counts["bytes"].max() <= (pages + 7) * workspace.store.page_size


FULL = {
    "triangles": (TRIANGLE, 333_591),
    "4-cliques": (CLIQUE, 1_091_342),
    "ends of 3-paths": (PATHS, 3 * 18_380),
}  # the last is evaluated by columns, and reads the relation three times


@pytest.mark.parametrize("work", FULL)
def test_full_evaluation(work, workspace):
    rule, operations = FULL[work]
    workspace.install(rule, name="view", maintenance="probe")
    assert workspace.stats("q")["operations"] == operations
    with Meter(workspace.store) as meter:
        workspace.evaluate("q")
    assert meter.counts["pages written"] == meter.counts["syncs"] == 0
    pages = workspace.store.stat().relations
    # each once
    assert 0 < meter.counts["pages read"] <= sum(pages[name] for name in pages if "edge" in name)
    assert meter.counts["kernel calls"] <= 11


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ("r(5, y)", 10),
        ("r(x, y), x = 5, y > 3", 10),
        ("r(x, y), 5 <= x < 7", 20),
        ("r(5, y) ; r(9000, y)", 20),
        ("r(5, y), y > 3", 10),
        ("r(5, y), s(y, _)", 1_010),
        ("r(x, y), 5 <= x <= 6, !s(y, _)", 1_020),
        ("r(5, y), y > 3 ; s(9, y)", 11),
        ('t(n, y), n >= "n000700", n < "n000800"', 100),
        ('t(n, y), starts_with[n, "n0007"]', 100),
        ('t(n, y), like[n, "n0007%"], s(y, _)', 1_100),
        ('t("n000777", y)', 1),
        ('t(n, y), n > "z"', 0),
    ],
)
def test_constants_and_bounds_read_their_rows_only(body, rows):
    with ivm.open(":memory:") as workspace:
        workspace.install(
            "r(x, y) -> int(x), int(y). s(x, y) -> int(x), int(y). t(n, y) -> string(n), int(y)."
        )
        with workspace.transaction() as txn:
            txn.insert("r", [(n // 10, n) for n in range(100_000)])
            txn.insert(
                "s", [(n, n) for n in range(0, 10_000, 10)] if "s(9" not in body else [(9, 9)]
            )
            txn.insert("t", [(f"n{n:06}", n) for n in range(20_000)])
        with Meter(workspace.store) as meter:
            workspace.install(f"v(y) <- {body}.", "view")
        assert workspace.stats("v")["operations"] == rows
        # joins are planned by samples; texts are looked up
        if "t(" not in body and ("s(" not in body or ";" in body):
            assert meter.counts["pages read"] <= 4


@pytest.mark.parametrize(("granularity", "rows"), [(1, 426_735), (16, 55_704)])
def test_what_is_recorded(granularity, rows, workspace):
    workspace.install(TRIANGLE, name="view", maintenance="match", granularity=granularity)
    assert workspace.stats("q")["sensitivity_rows"] == rows


def test_reopening_recomputes_nothing(tmp_path):
    edge = list(EDGES[:, :1])
    counts = []
    for reopened in (False, True):
        file = tmp_path / f"{reopened}.pages"
        workspace = ivm.open(file, sync="off", threads=1)
        workspace.install(FACTS, name="facts")
        with workspace.transaction() as txn:
            txn.insert("edge", list(EDGES))
        workspace.install(TRIANGLE, name="view", maintenance="probe")
        if reopened:
            workspace.close()
            workspace = ivm.open(file, sync="off", threads=1)
        with Meter(workspace.store) as meter, workspace.transaction() as txn:
            txn.delete("edge", edge)
        counts.append((workspace.stats("q")["operations"], meter.counts["pages read"]))
        workspace.close()
    (operations, read), (again, read_again) = counts
    assert operations == again > 0
    assert read_again <= read + 6  # the catalog, and what else a first transaction looks at


@pytest.mark.parametrize("stored", [0, 20_000])
def test_loading_after_what_is_stored(tmp_path, stored):
    """Rows of a function in key order cost what a bulk load costs: no page is read or written
    twice, none looked up.
    """
    rows = np.array([np.arange(120_000), *np.random.default_rng(1).integers(0, 1000, (4, 120_000))])
    with ivm.open(tmp_path / "load.pages", sync="off", threads=1) as workspace:
        with workspace.store.transaction() as txn:
            txn.create("r", "k: int64, a: int64, b: int64, c: int64, d: int64", key=("k",))
            txn["r"].bulk([[*rows[:, :stored]]])
        workspace.install(
            "r(k, a, b, c, d) -> int(k), int(a), int(b), int(c), int(d).", name="facts"
        )
        with Meter(workspace.store) as meter, workspace.transaction() as txn:
            txn.insert("r", [*rows[:, stored:]])
        pages = workspace.store.stat().relations["r"]
        share = pages * (120_000 - stored) / 120_000
        assert share <= meter.counts["pages written"] <= share + 8
        assert meter.counts["pages read"] <= 8
        assert meter.counts["kernel calls"] <= 30
        assert len(workspace["r"]) == 120_000


@pytest.mark.parametrize(("sync", "syncs"), [("full", 2), ("commit", 1), ("off", 0)])
def test_syncs_of_one_edge(sync, syncs, tmp_path):
    """With sync="commit", pages, record and slot reach the disk in any order, by one sync."""
    with ivm.open(tmp_path / "syncs.pages", sync=sync, threads=1) as workspace:
        workspace.install(FACTS + TRIANGLE, name="view", maintenance="probe")
        with workspace.transaction() as txn:
            txn.insert("edge", list(EDGES))
        counts = changed(workspace, 1, 40)
    assert set(counts["syncs"]) == {syncs}
    assert counts["writes"].max() <= 12, "neighbours go in one call"


@pytest.mark.parametrize(("rules", "writes"), [("q(x) <- edge(x, _), x < 0.", 3), (TRIANGLE, 6)])
def test_runs_of_pages_that_one_edge_writes(rules, writes, tmp_path):
    """Free pages lie so that a row is two runs of pages and the slot, in the median; a view adds
    some.
    """
    with ivm.open(tmp_path / "runs.pages", sync="commit", threads=1) as workspace:
        workspace.install(FACTS + rules, name="view", maintenance="probe")
        with workspace.transaction() as txn:
            txn.insert("edge", list(EDGES))
        assert np.median(changed(workspace, 1, 120)["writes"][40:]) <= writes


# functions of Python that a transaction of one row calls: in the median, and in one that drops
# versions
CALLS = {
    "no view": ("", 167, 255),
    "triangles": (TRIANGLE, 172, 255),
    "a count": ("q[x] = n <- agg<<n = count()>> edge(x, y).", 170, 255),
    "a function": ("q[x] = z <- edge(x, y), mark[y] = z.", 173, 257),
    "a sum": ("q[x] = t <- agg<<t = sum(y)>> edge(x, y).", 170, 255),
    "a least": ("q[x] = t <- agg<<t = min(y)>> edge(x, y).", 170, 255),
}


@compiled
@pytest.mark.parametrize("work", CALLS)
def test_python_calls_of_one_row(work, tmp_path):
    """Half of the time of a small transaction is Python's, and follows from how many functions
    it calls.
    """
    rules, usual, most = CALLS[work]
    with ivm.open(tmp_path / "calls.pages", sync="off", threads=1) as workspace:
        workspace.install(
            FACTS + "mark[x] = y -> int(x), int(y)." + rules, name="view", maintenance="probe"
        )
        with workspace.transaction() as txn:
            txn.insert("edge", list(EDGES))

        def insert(row):
            with workspace.transaction() as txn:
                txn.insert("edge", [(row, row + 1)])

        assert_calls(insert, usual, most)


@compiled
def test_calls_of_a_keystroke_in_a_shared_text(tmp_path):
    """All views of it, with ranges, functions and recursion, are one call of the kernel."""
    with ivm.open(tmp_path / "text.pages", sync="off", threads=1) as workspace:
        workspace.install(RULES, name="text")
        with workspace.transaction() as txn:
            txn.insert("insert", [(e, e - 1 - e % 3 // 2) for e in range(1, 3000)])
            txn.insert("removed", [(e,) for e in range(5, 3000, 5)])

        def insert(row):
            with workspace.transaction() as txn:
                txn.insert("insert", [(row, row - 1)])

        assert_calls(insert, 224, 352, first=3000)
        with Meter(workspace.store) as meter:
            insert(3100)
        assert meter.counts["kernel calls"] <= 12
        for view in ("nextSibling", "next", "nextVisible"):
            workspace.verify(view)


@compiled
def test_python_calls_of_one_row_of_a_store(tmp_path):
    with pagestore.open(tmp_path / "calls.pages", sync="off", threads=1) as store:
        with store.transaction() as txn:
            txn.create("edge", "x: int64, y: int64").insert(list(EDGES))

        def insert(row):
            with store.transaction() as txn:
                txn["edge"].insert([(row, row + 1)])

        assert_calls(insert, 141, 224)


def assert_calls(insert, usual, most, first=5000):
    found = [
        sum(map(is_ours, functions_called(partial(insert, first + row)))) for row in range(60)
    ][20:]
    assert np.median(found) <= usual, "of a transaction"
    assert max(found) <= most, "of a transaction that drops versions"
