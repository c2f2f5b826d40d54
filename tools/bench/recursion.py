"""Benchmarks recursive programs: from scratch, beside DuckDB's recursive queries, and kept while edges come and go.

python -m pagestore_tools.bench.recursion soc-Epinions1.parquet
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import ivm

from .graphs import read_graph, skewed
from .measure import Row, Side
from .peers import add_table, duckdb_with
from .run import arguments, bench

DECLARED = """
    e(x, y) -> int(x), int(y).  g(x, y) -> int(x), int(y).  s(x) -> int(x).  w[x, y] = k -> int(x), int(y), int(k).
    addr(x, y) -> int(x), int(y).  assign(x, y) -> int(x), int(y).  get(x, y) -> int(x), int(y).
    put(x, y) -> int(x), int(y).
"""
EDITS = 100  # single edges of a run, each deleted and inserted again
BATCH = 1_000  # edges both ways that a transaction deletes, and the next one inserts again


class Work(NamedTuple):
    """A program whose answer is in `v`, and DuckDB's query for its rows and the sum of its last column."""

    rules: str
    query: str = ""


WORKS = {
    "transitive closure": Work(
        "v(x, y) <- e(x, y).  v(x, z) <- v(x, y), e(y, z).",
        """with recursive v(x, y) as (select x, y from e union select v.x, e.y from v join e on v.y = e.x)
        select count(*), sum(y) from v""",
    ),
    "same generation": Work(
        "v(x, y) <- e(p, x), e(p, y), x != y.  v(x, y) <- e(a, x), v(a, b), e(b, y).",
        """with recursive v(x, y) as (select a.y, b.y from e a join e b on a.x = b.x where a.y <> b.y
        union select a.y, b.y from v join e a on a.x = v.x join e b on b.x = v.y) select count(*), sum(y) from v""",
    ),
    "points-to": Work(
        """v(y, x) <- addr(y, x).  v(y, x) <- assign(y, z), v(z, x).  v(y, q) <- get(y, x), v(x, z), v(z, q).
        v(z, q) <- put(y, x), v(y, z), v(x, q)."""
    ),
    "reachability": Work(
        "v(x) <- s(x).  v(y) <- v(x), g(x, y).",
        """with recursive v(x) as (select x from s union select g.y from v join g on v.x = g.x)
        select count(*), sum(x) from v""",
    ),
    "components": Work(
        "v[x] = m <- agg<<m = min(c)>> (g(x, _), c = x ; v[y] = c, g(y, x)).",
        """with recursive v(x, m) using key (x) as (select x, x from (select distinct x from g)
        union (select g.y, min(v.m) from v join g on g.x = v.x join recurring.v as r on r.x = g.y
        where v.m < r.m group by g.y)) select count(*), sum(m) from v""",
    ),
    "shortest paths": Work(
        "v[y] = m <- agg<<m = min(c)>> (s(y), c = 0 ; v[x] = b, w[x, y] = k, c = b + k).",
        """with recursive v(x, m) using key (x) as (select x, 0::bigint from s
        union (select w.y, min(v.m + w.k) from v join w on w.x = v.x left join recurring.v as r on r.x = w.y
        where r.m is null or v.m + w.k < r.m group by w.y)) select count(*), sum(m) from v""",
    ),
}
KEPT = {name: WORKS[name] for name in ("reachability", "components", "shortest paths")}


def run(options: argparse.Namespace) -> int:
    """Run the benchmark; the exit code."""
    size = 200 if options.quick else 2_000
    graph = read_graph(options.graph) if options.graph else skewed(10 * size)
    with tempfile.TemporaryDirectory(prefix="pagestore-bench-") as folder:
        return bench("recursion bench", rows(Path(folder), size, graph), options)


def rows(folder: Path, size: int, graph: np.ndarray) -> Iterator[Row]:
    """All programs from scratch; then three views that are kept while edges of the graph change."""
    data = tables(size, graph)
    path = folder / "facts.pages"
    with ivm.open(path, sync="off") as ws:
        ws.install(DECLARED, "base")
        with ws.transaction() as txn:
            for name, columns in data.items():
                txn.insert(name, [*columns])
    peer = _duckdb(data)
    with ivm.open(path, mode="r", threads=1) as one, ivm.open(path, mode="r", threads=2) as two:
        for name, work in WORKS.items():
            sides = [
                Side(f"ivm, {said}", partial(_asked, ws, work.rules))
                for said, ws in (("one thread", one), ("two threads", two))
            ]
            if peer and work.query:
                sides.append(Side("DuckDB", partial(_asked_of, peer, work.query)))
            yield Row(f"{name}, from scratch", sides, 5)
    for name, work in KEPT.items():
        yield from _kept(folder / f"{name}.pages", name, work, data)


def tables(size: int, graph: np.ndarray) -> dict[str, np.ndarray]:
    """The relations as columns: a random graph of `size` vertices and twice as many edges (e), statements of a program
    over as many variables, the given graph both ways (g), with weights (w), and the vertex with most edges (s).
    """
    random = np.random.default_rng(1)

    def pairs(count: int) -> np.ndarray:
        return np.unique(random.integers(0, size, (2, count)), axis=1)

    e = pairs(2 * size)
    x, y = g = np.unique(np.concatenate([graph, graph[::-1]], axis=1), axis=1)
    w = np.stack([x, y, 1 + (np.minimum(x, y) * 31 + np.maximum(x, y) * 17) % 97])
    program = {"addr": size // 2, "assign": size * 7 // 10, "get": size // 10, "put": size // 10}
    statements = {name: pairs(count) for name, count in program.items()}
    return {"e": e[:, e[0] != e[1]], "g": g, "w": w, "s": np.array([[np.bincount(x).argmax()]]), **statements}


def _asked(ws: ivm.Workspace, rules: str) -> list[int]:
    return _told(ws.query(rules).to_arrow())


def _asked_of(peer: Any, query: str) -> list[int]:
    return [int(value) for value in peer.execute(query).fetchone()]


def _told(rows: pa.Table) -> list[int]:
    """How many rows there are, and the sum of their last column."""
    return [rows.num_rows, pc.sum(rows.columns[-1]).as_py()]


def _duckdb(data: dict[str, np.ndarray]) -> Any:
    """DuckDB with all relations of its queries; None where it is not installed."""
    peer = duckdb_with("e", x=data["e"][0], y=data["e"][1])
    for name in ("g", "w", "s") if peer else ():
        add_table(peer, name, **dict(zip("xyk", data[name], strict=False)))
    return peer


def _kept(path: Path, name: str, work: Work, data: dict[str, np.ndarray]) -> Iterator[Row]:
    """Edges, both ways, that are deleted and inserted again: one by one, and many at once beside evaluation."""
    edges = data["w"][:, data["w"][0] < data["w"][1]]
    some = np.random.default_rng(2).permutation(edges.shape[1])[: EDITS + BATCH // 2]
    with ivm.open(path, sync="off", retain=2, threads=1) as ws:
        ws.install(DECLARED, "base")
        with ws.transaction() as txn:
            for relation in ("g", "w", "s"):
                txn.insert(relation, [*data[relation]])
        ws.install(work.rules, "rules")
        one = [Side("ivm", _edits(ws, edges[:, some[:EDITS]], 1))]
        yield Row(f"{name}, an edge", one, 5, "ms", 1e3 / EDITS / 2)
        asked = re.sub(r"\bv\b", "q", work.rules)
        many = [
            Side("ivm", _edits(ws, edges[:, some[EDITS:]], BATCH // 2)),
            Side("ivm, from scratch", lambda: [_asked(ws, asked) for _ in range(2)][-1]),  # as many as transactions
        ]
        yield Row(f"{name}, {BATCH:,} edges at once", many, 5, "ms", 1e3 / 2)


def _edits(ws: ivm.Workspace, edges: np.ndarray, together: int) -> Callable[[], list[int]]:
    """Delete some edges, so many a transaction, and insert them again."""
    parts = np.split(edges, range(together, edges.shape[1], together), axis=1)
    both = [np.concatenate([part, part[[1, 0, 2]]], axis=1) for part in parts]

    def run() -> list[int]:
        for part in both:
            for change in ("delete", "insert"):
                with ws.transaction() as txn:
                    getattr(txn, change)("g", [*part[:2]])
                    getattr(txn, change)("w", [*part])
        return _told(ws["v"].to_arrow())

    return run


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("graph", nargs="?", type=Path, help="a Parquet file with the edges x, y; else one is made")
    arguments(parser)
    sys.exit(run(parser.parse_args()))
