"""Views that are larger than the memory that a workspace may take: filled by sorted runs on the
disk, as in memory.
"""

import re
import subprocess
import sys
from threading import current_thread, main_thread
from time import sleep

import numpy as np
import pytest

import ivm
from ivm.engine import fill
from ivm.engine.fill import Fill
from ivm.errors import RoomError
from ivm.join.join import Run
from ivm.memory import MemoryUse
from ivm.ways import by_columns
from ivm.ways import pending as filling

N = 400
FACTS = "a(x) -> int(x). b(x) -> int(x). r(k, g, v) -> int(k), int(g), int(v). t(k, s) -> int(k), string(s)."
RULES = {
    "pairs": "p(x, y) <- a(x), b(y).",
    "matched pairs": "p(y, x) <- a(x), b(y).",
    "ends of pairs": "p(z) <- a(x), b(y), z = x * 401 + y.",
    "a projection": "p(v, g) <- r(_, g, v).",
    "counts": "p[v, g] = n <- agg<<n = count()>> r(_, g, v).",
    "sums": "p[v] = s <- agg<<s = sum(k)>> r(k, _, v).",
    "sums of pairs": "p[x, y] = s <- agg<<s = sum(z)>> a(x), b(y), z = x - y.",
    "a least value": "p[v] = m <- agg<<m = min(k)>> r(k, _, v).",
    "medians": "p[v] = m <- agg<<m = median(k)>> r(k, _, v).",
    "two that share a state": "p[v] = m <- agg<<m = max(k)>> r(k, _, v). q[v] = m <- agg<<m = "
    "min(k)>> r(k, _, v).",
    "texts": "p[g] = s <- agg<<s = max(u)>> r(k, g, _), t(k, u).",
    "places in an order": "p[k] = n <- agg<<n = count()>> r(k, g, _), r(l, g, _), l <= k, k < 400.",
    "by columns": "p(u, v, g) <- r(k, g, v), t(k, u).",
    "several rules": "p(x, y) <- a(x), b(y). p(x, y) <- r(_, x, y). p(y, x) <- r(_, x, y).",
    "conjunctions": "p(x, y) <- a(x), b(y) ; r(x, y, _) ; r(y, x, _).",
}
# bytes that one evaluation may take: a quarter of them is 31,000 rows of two columns
SMALL = 2_000_000


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(3)
    with ivm.open(tmp_path / "s.pages", sync="off", threads=1) as ws:
        ws.install(FACTS, "facts")
        with ws.transaction() as txn:
            txn.insert("a", [np.arange(N)])
            txn.insert("b", [np.arange(N)])
            k = np.arange(60_000)
            txn.insert("r", [k, rng.integers(0, 300, len(k)), rng.permutation(len(k)) // 2])
            txn.insert(
                "t", list(zip(range(60_000), map(str, rng.integers(0, 999, 60_000)), strict=True))
            )
    return tmp_path / "s.pages"


@pytest.mark.parametrize("threads", [1, 2])
def test_what_exceeds_memory_is_as_in_memory(path, threads, monkeypatch):
    """Each rule is installed in both ways; most go through runs."""
    added, spilled = filling.Runs.add, set()
    for shape, rules in RULES.items():
        monkeypatch.setattr(filling.Runs, "add", lambda *given: spilled.add(shape) or added(*given))  # noqa: B023
        found = []
        for memory in (None, SMALL):
            with ivm.open(path, sync="off", threads=threads, memory=memory) as ws:
                ws.install(rules, "v")
                names = [name for name in ("p", "q") if name in ws]
                found.append([list(ws[name]) for name in names])
            with ivm.open(path, sync="off", threads=threads) as ws:
                assert ws.check() == [], shape
                ws.exec("-r(7, 7, 7). +r(7, 8, 9). +a(500). -b(3).")
                assert ws.check() == [], shape
                ws.exec("-r(7, 8, 9). -a(500). +b(3).")
                ws.uninstall("v")
            assert (shape in spilled) <= (memory is not None)
        assert found[0] == found[1] and found[0][0], shape
    assert len(spilled) > len(RULES) * 2 / 3


def test_runs_that_would_fill_the_disk_are_refused(path, monkeypatch):
    """What is senseless is refused by an error that names the step and the rows; nothing is left
    of it.
    """
    monkeypatch.setattr(filling, "RUNS_MAX", 1)
    message = r"v:1:1: sorting rows: [\d,]+ rows so far of p take 2\.\d MB in temporary files; one evaluation may"
    with ivm.open(path, sync="off", threads=1, memory=SMALL) as ws:
        version = ws.store.version
        with pytest.raises(RoomError, match=message):
            ws.install(RULES["pairs"], "v")
        assert ws.store.version == version and "p" not in ws
        ws.exec("+a(900).")
        assert ws.check() == []


BY_COLUMNS = {
    "a count": "p[] = n <- agg<<n = count()>> r(k, g, v), r(v, g, w), r(w, _, _).",
    "a negation": "p(k, v) <- r(k, g, v), t(v, s), !r(g, v, _).",
}


@pytest.mark.parametrize("shape", BY_COLUMNS)
def test_tables_that_exceed_memory_are_read_as_tries(path, shape, monkeypatch):
    """What relations look up by columns does not fit; indices are built instead, and kept for
    the edits.
    """
    found, taken = [], []
    fill, added = by_columns.fill, []
    monkeypatch.setattr(by_columns, "fill", lambda *of: added.append(fill(*of)) or added[-1])
    for memory in (None, 3 * SMALL // 2):
        added.clear()
        with ivm.open(path, sync="off", threads=1, memory=memory) as ws:
            ws.install(BY_COLUMNS[shape], "v")
            found.append([list(ws["p"])])
            ws.exec("+r(60000, 8, 9). +r(9, 60000, 8).")
            found[-1].append(list(ws["p"]))
            taken.append(len(ws.query(BY_COLUMNS[shape].replace("p", "q", 1))))
        assert added and (False in added) == (memory is not None)
        with ivm.open(path, sync="off", threads=1) as ws:
            assert ws.check() == []
            ws.exec("-r(60000, 8, 9). -r(9, 60000, 8).")
            assert ws.check() == []
            ws.uninstall("v")
    assert found[0] == found[1] and found[0][0] and taken[0] == taken[1]


def test_a_changed_row_is_probed_where_tables_exceed_memory(path, monkeypatch):
    """The index for it is built at once, instead of reading relations whole a few times before."""
    join_rows, joined, found = by_columns.follow, [], []
    monkeypatch.setattr(by_columns, "follow", lambda *of: joined.append(1) or join_rows(*of))
    for memory in (None, SMALL):
        with ivm.open(path, sync="off", threads=1, memory=memory) as ws:
            ws.install("p[s] = n <- agg<<n = count()>> r(k, g, v), t(g, s), b(v).", "v")
            joined.clear()
            ws.exec('+t(5, "new").')
            assert bool(joined) == (memory is None)
            found.append(list(ws["p"]))
        with ivm.open(path, sync="off", threads=1) as ws:
            assert ws.check() == []
            ws.exec('-t(5, "new").')
            ws.uninstall("v")
    assert found[0] == found[1] and "new" in dict(found[0])


LENGTH = 700  # of a chain, whose closure has 245,350 facts of 24 bytes
CLOSURES = {
    "from the front": "p(x, y) <- next(x, y). p(x, z) <- p(x, y), next(y, z).",
    "from the back": "p(x, y) <- next(x, y). p(x, z) <- next(x, y), p(y, z).",
    "of several views": "p(x, y) <- next(x, y). q(x, z) <- p(x, y), next(y, z). p(x, z) <- q(x, "
    "y), next(y, z).",
    "from one row": "p(y) <- next(0, y). p(z) <- p(y), next(y, z).",
}
REFUSED = {
    "by itself": "p(x, y) <- next(x, y). p(x, z) <- p(x, y), p(y, z).",
    "distances": "p[x, y] = d <- agg<<d = min(e)>> (next(x, y), e = 1 ; p[x, z] = c, next(z, y), e "
    "= c + 1).",
}


@pytest.fixture
def chain(tmp_path):
    with ivm.open(tmp_path / "s.pages", sync="off", threads=1) as ws:
        ws.install("next(x, y) -> int(x), int(y).", "facts")
        with ws.transaction() as txn:
            txn.insert("next", [np.arange(LENGTH), np.arange(LENGTH) + 1])
    return tmp_path / "s.pages"


@pytest.mark.parametrize("threads", [1, 2])
def test_recursions_whose_facts_exceed_memory(chain, threads):
    """Ranges of facts are derived one after the other, in about as many operations."""
    for rules in CLOSURES.values():
        found = []
        for memory in (None, SMALL):
            with ivm.open(chain, sync="off", threads=threads, memory=memory) as ws:
                ws.install(rules, "v")
                found.append((list(ws["p"]), ws.stats("p")["operations"]))
            with ivm.open(chain, sync="off", threads=threads) as ws:
                assert ws.check() == []
                ws.exec("-next(350, 351).")
                found[-1] += (list(ws["p"]),)
                ws.exec("+next(350, 351).")
                ws.uninstall("v")
        assert found[0][::2] == found[1][::2]
        assert found[1][1] < 1.5 * found[0][1]


PEAK = """
import sys, tracemalloc
import numpy as np
import ivm

path, threads, memory, rules = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) or None, sys.argv[4]
with ivm.open(path, sync="off", threads=threads, memory=memory) as ws:
    ws.install("next(x, y) -> int(x), int(y).", "facts")
    with ws.transaction() as txn:
        txn.insert("next", [np.arange(1500), np.arange(1500) + 1])
    tracemalloc.start()
    ws.install(rules, "v")
    print(tracemalloc.get_traced_memory()[1], len(ws["p"]))
"""


@pytest.mark.parametrize("threads", ["1", "2"])
def test_recursions_stay_within_the_memory_allowed(tmp_path, threads):
    """A closure of 1.1 M facts, of 27 MB, takes a small part of what it takes where all may be
    in memory.
    """
    peaks = []
    for memory in ("0", str(4 * SMALL)):
        command = [
            sys.executable,
            "-c",
            PEAK,
            str(tmp_path / memory),
            threads,
            memory,
            CLOSURES["from the front"],
        ]
        peak, rows = map(
            int, subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
        )
        peaks.append(peak)
        assert rows == 1500 * 1501 // 2
    assert 3 * peaks[1] < peaks[0], peaks


@pytest.mark.parametrize("what", REFUSED)
def test_recursions_that_no_range_of_facts_bounds(chain, what):
    """What was derived is kept, until it exceeds memory: the error names the step and the facts."""
    with ivm.open(chain, sync="off", threads=1, memory=SMALL) as ws:
        version = ws.store.version
        with pytest.raises(RoomError, match=r"v:1:1: [a-z ]+: [\d,]+ rows so far take"):
            ws.install(REFUSED[what], "v")
        assert ws.store.version == version and "p" not in ws
        ws.exec("-next(350, 351).")
        ws.install("p(y) <- next(340, y). p(z) <- p(y), next(y, z).", "v")
        assert len(ws["p"]) == 10 and ws.check() == []


WINDOWS = {
    "ranks": "select k, rank() over (partition by g order by v) as x from r",
    "numbers": "select k, row_number() over (order by v, k) as x from r",
    "running sums": "select k, sum(v) over (partition by g order by k) as x from r",
    "sums of partitions": "select k, sum(v) over (partition by v) as x from r",
    "sums of all": "select k, sum(v) over () as x from r",
    "earlier rows": "select k, lag(v) over (partition by g order by k) as x from r",
    "frames": "select k, avg(v) over (order by k rows between 3 preceding and 2 following) as x "
    "from r",
    "one partition": "select k, max(v) over (partition by k - k order by k) as x from r",
}


@pytest.mark.parametrize("shape", WINDOWS)
def test_windows_that_exceed_memory(path, shape):
    """Many partitions, and one larger than memory: the same rows, or of tables linked by ranges
    an error.
    """
    found = []
    for memory in (None, SMALL):
        with ivm.open(path, sync="off", threads=1, memory=memory) as ws:
            version = ws.store.version
            try:
                ws.sql(f"create materialized view w as {WINDOWS[shape]}")
            except RoomError as error:
                assert re.match(r"w:\d+:\d+: [a-z ]+: [\d,]+ rows so far", str(error))
                assert memory and ws.store.version == version and shape == "frames"
                ws.exec("+a(900). -a(900).")
                continue
            if "partition by g" in WINDOWS[shape]:
                ws.exec("+r(60000, 8, 9).")
            found.append(list(ws["w"]))
            assert ws.check() == []
            ws.exec("-r(60000, 8, 9).")
            ws.sql("drop view w")
    assert found[0] and found[0] == found[-1]


TRACED = "p[v] = s <- agg<<s = sum(k)>> r(k, g, v), a(g), !b(v)."


@pytest.mark.parametrize("threads", [1, 2])
def test_traces_that_exceed_memory(path, threads, monkeypatch):
    """What is recorded for a matched view goes through runs as well, and edits find all of it."""
    taken, spilled, found = filling.Recording.take, [], []
    monkeypatch.setattr(
        filling.Recording, "take", lambda *given: spilled.append(1) or taken(*given)
    )
    for memory in (None, SMALL):
        with ivm.open(path, sync="off", threads=threads, memory=memory) as ws:
            ws.install(TRACED, "v", maintenance="match")
            assert bool(spilled) == (memory is not None)
            found.append([list(ws["p"])])
        with ivm.open(path, sync="off", threads=threads) as ws:
            assert ws.check() == []
            ws.exec("-a(7). +b(500). -b(3). -r(7, 7, 7). +r(7, 8, 9).")
            assert ws.check() == []
            found[-1].append(list(ws["p"]))
            ws.exec("+a(7). -b(500). +b(3). -r(7, 8, 9).")
            ws.uninstall("v")
    assert found[0] == found[1] and found[0][0] != found[0][1]


@pytest.mark.parametrize("slow", ["the first thread", "the second thread"])
def test_what_all_threads_hold_says_when_rows_leave_memory(path, slow, monkeypatch):
    """A thread that takes its time holds what it has found; the other one does most ranges, and
    keeps little of each.  Together they stay well within what is allowed.
    """
    batches, add, peaks = Run.__iter__, MemoryUse.add, [0]

    def slowly(self):
        for batch in batches(self):
            if (current_thread() is main_thread()) == (slow == "the first thread"):
                sleep(0.01)
            yield batch

    def added(self, rows, size):
        add(self, rows, size)
        peaks[-1] = max(peaks[-1], self.size)

    monkeypatch.setattr(Run, "__iter__", slowly)
    monkeypatch.setattr(MemoryUse, "add", added)
    for memory in (3 * SMALL // 4, SMALL, 3 * SMALL // 2):
        with ivm.open(path, sync="off", threads=2, memory=memory) as ws:
            peaks.append(0)
            ws.install(TRACED, "v", maintenance="match")
            assert 0 < peaks[-1] < 2 * memory // 3, peaks
            assert len(ws["p"]) == 29600 and ws.check() == []
            ws.uninstall("v")


def test_an_answer_that_no_table_could_hold_is_refused_early(path, monkeypatch):
    """What a question only counts may take more than its answer, which is a table in the end."""
    monkeypatch.setattr(filling, "ANSWER_MAX", 1)
    with ivm.open(path, sync="off", threads=1, memory=SMALL) as ws:
        with pytest.raises(RoomError, match=r"sorting rows: [\d,]+ rows so far of q take"):
            ws.query(RULES["pairs"].replace("p(", "q("))
        counted = "n[] = t <- agg<<t = count()>> p(x, y)."
        assert next(iter(ws.query(f"{RULES['pairs']} {counted}")))[0] > 100_000


def test_a_question_keeps_no_helper_that_nothing_reads_any_more(monkeypatch):
    """Else a question of many steps, as one with windows, takes the room of all together."""
    left, rules = [], Fill.rules

    def watched(filled, given):
        rules(filled, given)
        txn = filled.context.txn
        left.extend(name for name in txn if txn.tree(name).count)

    monkeypatch.setattr(Fill, "rules", watched)
    monkeypatch.setattr(fill, "KEPT", 0)
    with ivm.open(":memory:") as ws:
        ws.sql("CREATE TABLE t (x INT, y INT)")
        ws.sql("INSERT INTO t VALUES (1, 5), (2, 5), (3, 4), (3, 4)")
        asked = "SELECT x, sum(x) OVER (ORDER BY y, x) FROM t"
        assert sorted(ws.sql(asked)) == [(1, 7), (2, 9), (3, 6), (3, 6)]
    helpers = [name for name in left if ":part" in name]
    assert len(helpers) < 4 and not any(name.startswith("$") for name in left)
