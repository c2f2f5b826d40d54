"""Views that are larger than the memory that a workspace may take: filled by sorted runs on the disk, as in memory."""

import numpy as np
import pytest

import ivm
from ivm.engine import rows as filling
from ivm.errors import RoomError

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
    "two that share a state": "p[v] = m <- agg<<m = max(k)>> r(k, _, v). q[v] = m <- agg<<m = min(k)>> r(k, _, v).",
    "texts": "p[g] = s <- agg<<s = max(u)>> r(k, g, _), t(k, u).",
    "places in an order": "p[k] = n <- agg<<n = count()>> r(k, g, _), r(l, g, _), l <= k, k < 400.",
    "by columns": "p(u, v, g) <- r(k, g, v), t(k, u).",
    "several rules": "p(x, y) <- a(x), b(y). p(x, y) <- r(_, x, y). p(y, x) <- r(_, x, y).",
    "conjunctions": "p(x, y) <- a(x), b(y) ; r(x, y, _) ; r(y, x, _).",
}
SMALL = 2_000_000  # bytes that one evaluation may take: a quarter of them is 31,000 rows of two columns


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
            txn.insert("t", list(zip(range(60_000), map(str, rng.integers(0, 999, 60_000)), strict=True)))
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
    """What is senseless is refused by an error that names the step and the rows; nothing is left of it."""
    monkeypatch.setattr(filling, "RUNS_MAX", 1)
    message = r"v:1:1: sorting rows: [\d,]+ rows so far of p take 2\.\d MB in temporary files; one evaluation may"
    with ivm.open(path, sync="off", threads=1, memory=SMALL) as ws:
        version = ws.store.version
        with pytest.raises(RoomError, match=message):
            ws.install(RULES["pairs"], "v")
        assert ws.store.version == version and "p" not in ws
        ws.exec("+a(900).")
        assert ws.check() == []
