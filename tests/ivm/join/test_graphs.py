"""Real graphs with known answers; skipped where they are not at hand."""

import time

import numpy as np
import pytest

import ivm
from pagestore.compiled import TypedKernel

TRIANGLES = {"ego-Facebook": 1_612_010, "wiki-Vote": 608_389, "soc-Epinions1": 1_624_481}

EDGE = "edge(x, y) -> int(x), int(y)."
TRI = "tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z)."


def loaded(path, edges, **options):
    ws = ivm.open(path, sync="off", threads=options.pop("threads", 1))
    ws.install(EDGE, name="edges")
    with ws.transaction() as txn:
        txn.insert("edge", list(edges))
    ws.install(TRI, name="triangles", **options)
    return ws


class Adjacency:
    """The slow truth of one edge: common neighbours, by sets."""

    def __init__(self, edges):
        self.up, self.down = {}, {}
        for x, y in edges.T.tolist():
            self.put(x, y)

    def put(self, x, y):
        self.up.setdefault(x, set()).add(y)
        self.down.setdefault(y, set()).add(x)

    def take(self, x, y):
        self.up[x].discard(y)
        self.down[y].discard(x)

    def triangles(self, x, y):
        """All triangles that have the edge, whether it is there or not."""
        up, down = self.up.get, self.down.get
        above = {(x, y, z) for z in up(x, set()) & up(y, set())}
        between = {(x, z, y) for z in up(x, set()) & down(y, set())}
        return above | between | {(z, x, y) for z in down(x, set()) & down(y, set())}


@pytest.mark.parametrize("name", TRIANGLES)
def test_published_counts(name, graph, tmp_path):
    with loaded(tmp_path / "g.pages", graph(name)) as ws:
        assert len(ws["tri"]) == TRIANGLES[name]


@pytest.mark.parametrize(
    "singles, batches", [(200, 4), pytest.param(1000, 20, marks=pytest.mark.campaign)]
)
@pytest.mark.parametrize("maintenance", ["match", "probe"])
def test_wiki_vote_maintained(maintenance, singles, batches, graph, tmp_path):
    """Single edits, each against common neighbours; batches of 500, each against from scratch;
    reopened in between.
    """
    edges = graph("wiki-Vote")
    rng = np.random.default_rng(11)
    truth = Adjacency(edges)
    ws = loaded(tmp_path / "g.pages", edges, maintenance=maintenance)
    seen = []
    ws.subscribe("tri", seen.append)
    top = int(edges.max()) + 1
    for i in range(singles):
        seen.clear()
        if i % 2:
            x, y = sorted(rng.choice(top, 2, replace=False).tolist())
            fresh = y not in truth.up.get(x, set())
            wanted = {(*t, "insert") for t in truth.triangles(x, y)} if fresh else set()
            truth.put(x, y)
            ws.exec(f"+edge({x}, {y}).")
        else:
            x, y = edges[:, rng.integers(edges.shape[1])].tolist()
            there = y in truth.up.get(x, set())
            wanted = {(*t, "delete") for t in truth.triangles(x, y)} if there else set()
            truth.take(x, y)
            ws.exec(f"-edge({x}, {y}).")
        got = {tuple(row.values()) for table in seen for row in table.to_pylist()}
        assert got == wanted, (i, x, y)
    ws.verify("tri")
    for i in range(batches):
        if i == batches // 2:  # reopened, it goes on without recomputing anything
            ws.close()
            ws = ivm.open(tmp_path / "g.pages", sync="off")
        with ws.transaction() as txn:
            txn.delete("edge", list(edges[:, rng.choice(edges.shape[1], 250, replace=False)]))
            txn.insert("edge", list(np.sort(rng.integers(0, top, (2, 250)), axis=0)))
        ws.verify("tri")
        if i == batches // 2:
            assert ws.stats("tri")["operations"] < 200_000  # from scratch it is 3.5 million
    # sensitivity takes 20 s to check; test_many_pages checks less of it
    if maintenance == "probe" or batches == 20:
        assert ws.store.check() == []
    ws.close()


@pytest.mark.parametrize("count", [1000, pytest.param(100_000, marks=pytest.mark.campaign)])
def test_matching_single_edges_stays_flat(count, graph, tmp_path):
    """Edges go and come back one by one; the last tenth of the transactions takes as long as the
    first. Intervals that the trace no longer has are swept bit by bit.
    """
    edges = graph("wiki-Vote")
    random, path, gone = np.random.default_rng(12), tmp_path / "g.pages", []
    ws = loaded(path, edges, maintenance="match")
    took, rows, sizes = [], [], []
    for number in range(count):
        chosen = random.integers(edges.shape[1])
        if len(gone) < 100 and chosen not in gone:
            gone.append(chosen)
            kind, column = "delete", chosen
        else:
            kind, column = "insert", gone.pop(random.integers(len(gone)))
        before = time.process_time()
        with ws.transaction() as txn:
            getattr(txn, kind)("edge", list(edges[:, [column]]))
        took.append(time.process_time() - before)
        if number % (count // 10) == count // 10 - 1:
            rows.append(ws.stats("tri")["sensitivity_rows"])
            sizes.append(path.stat().st_size)
    first, *_, last = np.median(np.array(took).reshape(10, -1), axis=1)
    print(f"ms: {first * 1000:.3f}, {last * 1000:.3f}; intervals: {rows}; bytes: {sizes}")
    assert last < 1.3 * first and max(rows) < 2.1 * rows[0] and max(sizes) < 2.1 * sizes[0]
    ws.verify("tri")
    ws.close()


def test_full_evaluation_beside_a_csr_merge(graph, tmp_path):
    """The triangle listing within 1.5 times a hand-written merge over adjacency arrays, in one
    process.
    """
    edges = graph("wiki-Vote")
    with loaded(tmp_path / "g.pages", edges, maintenance="probe") as ws:
        assert len(ws.evaluate("tri")) == TRIANGLES["wiki-Vote"]
        start, ends = csr(edges)
        merged(start, ends, merged(start, ends, 0)[0])
        ratios = []
        for _ in range(7):
            a = time.perf_counter()
            ws.evaluate("tri")
            b = time.perf_counter()
            count, _ = merged(start, ends, 0)
            merged(start, ends, count)
            ratios.append((b - a) / (time.perf_counter() - b))
        assert count == TRIANGLES["wiki-Vote"]
        assert sorted(ratios)[3] <= 1.5, ratios


def test_threads_find_the_same(graph, tmp_path):
    """Ranges of the first variable side by side give the same listing in the same order."""
    edges = graph("wiki-Vote")
    with loaded(tmp_path / "g.pages", edges, maintenance="match", threads=3) as ws:
        together = ws.evaluate("tri").to_arrow()
        ws.threads = 1
        assert ws.evaluate("tri").to_arrow().equals(together)
        ws.exec("-edge(3, 28).")  # indices recorded by three threads serve like any other
        ws.verify("tri")


def test_one_edge_is_a_hundred_times_faster_than_from_scratch(graph, tmp_path, monkeypatch):
    """A transaction leaves the view stored; so does what it is compared with, the same rule
    evaluated and stored.

    Both on one thread, or it would depend on the machine's cores. They take turns, and the quietest
    turn of each counts: whatever else the machine does slows some of them. A turn is long enough
    for what installing left in the caches to be gone.
    """
    unchecked(monkeypatch)
    edges = graph("wiki-Vote")
    rng = np.random.default_rng(3)
    with loaded(tmp_path / "g.pages", edges) as ws:
        ws.threads = 1
        single, scratch = [], []
        for _ in range(8):
            turn = []
            for x, y in edges[:, rng.integers(edges.shape[1], size=60)].T.tolist():
                for sign in "-+":
                    a = time.perf_counter()
                    with ws.transaction() as txn:
                        (txn.insert if sign == "+" else txn.delete)("edge", [(x, y)])
                    turn.append(time.perf_counter() - a)
            single.append(float(np.median(turn)))
            a = time.perf_counter()
            ws.install(
                "again(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).",
                name="again",
                maintenance="probe",
            )
            scratch.append(time.perf_counter() - a)
            ws.uninstall("again")
        assert min(scratch) >= 100 * min(single), (scratch, single)


def unchecked(monkeypatch):
    """Kernels trust their callers, as they do outside tests."""
    monkeypatch.setattr(TypedKernel, "checking", False)
    for typed in TypedKernel.every:
        monkeypatch.delitem(vars(typed), "call", raising=False)


def csr(edges):
    n = int(edges.max()) + 2
    return np.searchsorted(edges[0], np.arange(n)).astype(np.int64), edges[1].astype(np.int32)


def _merged(start, ends, room):
    """Count the triangles of a CSR graph and list as many as there is room for."""
    out = np.empty((room, 3), np.int32)
    t = 0
    for u in range(len(start) - 1):
        for p in range(start[u], start[u + 1]):
            v = ends[p]
            i, i_end = p + 1, start[u + 1]
            j, j_end = start[v], start[v + 1]
            while i < i_end and j < j_end:
                if ends[i] == ends[j]:
                    if t < room:
                        out[t, 0], out[t, 1], out[t, 2] = u, v, ends[i]
                    t += 1
                    i += 1
                    j += 1
                elif ends[i] < ends[j]:
                    i += 1
                else:
                    j += 1
    return t, out


merged = pytest.importorskip("numba").njit(_merged)
