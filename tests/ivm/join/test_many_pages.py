"""Views over trees of many pages: after each of many transactions the maintained rows are those
from scratch.

Values are spread over 46 bits, so that a page of 4 KiB holds a few hundred rows; most are drawn
from few hubs.  The transactions are small, large, and everything at once.
"""

import numpy as np
import pytest

import ivm

EDGES = (
    "edge(x, y) -> int(x), int(y). mark(x) -> int(x). cost[x, y] = c -> int(x), int(y), int(c). "
)
PROGRAMS = {
    "triangle": "v(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).",
    "four meet": "v(x, y, w) <- edge(x, y), edge(x, w), edge(y, w), edge(w, x), edge(w, y).",
    "square": "v(x, z) <- edge(x, y), edge(y, z), edge(z, w), edge(w, x), x < z.",
    "projection": "v(x) <- edge(x, y), edge(y, z), mark(z).",
    "costs": "v[x, y] = d <- edge(x, y), cost[x, y] = c, cost[y, x] = b, d = c + b.",
    "sums": """v[x] = s <- agg<<s = sum(c)>> edge(x, y), cost[x, y] = c.
               n[y] = k <- agg<<k = count()>> v[x] = _, edge(x, y).""",
    "negation": "v(x, y) <- edge(x, y), !edge(y, x), !(edge(x, z), mark(z), edge(z, y)).",
    "either": "v(x, y) <- edge(x, y), (mark(x) ; cost[x, y] > 500, !mark(y)) ; edge(y, x), mark(y).",
    "tower": """v(x, z) <- edge(x, y), edge(y, z). w(x) <- v(x, y), mark(y).
                u(x, y) <- edge(x, y), w(x), !w(y).""",
}
VERTICES = np.arange(90) << 40


class Churn:
    """Random edits of edge, mark and cost."""

    def __init__(self, workspace: ivm.Workspace, seed: int):
        self.workspace, self.draw = workspace, np.random.default_rng(seed)

    def vertices(self, n: int) -> np.ndarray:
        """Vertices, half of them among the first seven."""
        hubs = self.draw.random(n) < 0.5
        return VERTICES[
            np.where(hubs, self.draw.integers(0, 7, n), self.draw.integers(0, len(VERTICES), n))
        ]

    def transaction(self, size: int) -> None:
        with self.workspace.transaction() as txn:
            x, y = self.vertices(size), self.vertices(size)
            gone = self.draw.random(size) < 0.5
            txn.delete("edge", [x[gone], y[gone]])
            txn.insert("edge", [x[~gone], y[~gone]])
            txn.delete("mark", [self.vertices(size // 8)])
            txn.insert("mark", [self.vertices(size // 10)])
            txn.set("cost", [x, y, self.draw.integers(0, 1000, size)])
            txn.delete("cost", [y[gone], x[gone]])


@pytest.mark.parametrize("maintenance", ["match", "probe", "auto"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_maintained_is_from_scratch(name, maintenance, tmp_path):
    path = tmp_path / "store.pages"
    workspace = ivm.open(path, page_size=4096, sync="off")
    workspace.install(EDGES + PROGRAMS[name], maintenance=maintenance)
    churn = Churn(workspace, seed=len(name))
    for size in (4000, 1, 10, 300, 1, 2500, 3, 1000, 1):
        churn.transaction(size)
        for view in (n for n, p in workspace.predicates.items() if not p.extensional):
            workspace.verify(view)
    assert workspace.store.snapshot()["edge"].tree.height > 1
    workspace.close()
    with ivm.open(path, sync="off") as again:
        churn.workspace = again
        churn.transaction(40)
        again.verify("v")
        assert again.store.check() == []
