"""Benchmarks aggregates, windows and recursion, beside DuckDB: evaluated anew, and maintained.

python -m pagestore_tools.bench aggregates --quick          one large group, from which row after row is deleted
python -m pagestore_tools.bench ranges --quick              next keys, windows and running totals
python -m pagestore_tools.bench recursion soc-Epinions1.parquet

Of a concatenation the first letters are read; DuckDB makes the whole text for them.
"""

import argparse
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import ivm

from .graphs import skewed
from .harness import Row, Side, Work
from .store import duckdb_with

DELETES = 10  # of rows of a group, in a run
TEXTS = 1000  # different ones
LETTERS = 24  # of a concatenation that are read
EDITS = 10  # of a range, in a run: each deletes a row and inserts it again
EDGES = 100  # single edges of a run, each deleted and inserted again
BATCH = 1_000  # edges both ways that a transaction deletes, and the next one inserts again


def _told(rows: pa.Table) -> list[int]:
    """Return how many rows there are, and the sum of their last column."""
    return [rows.num_rows, pc.sum(rows.columns[-1]).as_py()]


def _told_by(peer: Any, query: str) -> list[int]:
    return [*map(int, peer.execute(query).fetchone())]


# -- aggregates


class Aggregate(NamedTuple):
    """An aggregate as a rule and as SQL, None where DuckDB rounds; `first` says from which end rows are deleted."""

    rule: str
    sql: str | None
    first: bool = False


CASES = {
    "max": Aggregate("max(y)", "max(y)"),
    "median": Aggregate("median(y)", "median(y)"),
    "quantile": Aggregate("quantile(y, 0.9)", "quantile_disc(y, 0.9)"),
    "count_distinct": Aggregate("count_distinct(y)", "count(distinct y)"),
    "stddev_pop": Aggregate("stddev_pop(y)", None),
    "concat": Aggregate('concat(t, y, " ")', f"left(string_agg(t, ' ' order by y), {LETTERS})", True),
}


def aggregates(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each aggregate, over a group of `size` values: delete a row in a transaction, read, and so on."""
    size = options.size
    table = {"y": pa.array(np.arange(size))}
    for name, case in CASES.items():
        is_text = name == "concat"
        if is_text:
            texts = pa.array([f"t{i}" for i in range(TEXTS)])
            table |= {"t": pa.DictionaryArray.from_arrays(np.arange(size) % TEXTS, texts).cast(pa.string())}
        with ivm.open(folder / f"{name}.pages", sync="off", retain=2) as ws:
            ws.install("n[y] = t -> int(y), string(t)." if is_text else "n(y) -> int(y).", "base")
            with ws.transaction() as txn:
                txn.insert("n", pa.table(table))
            ws.install(f"v[] = r <- agg<<r = {case.rule}>> {'n[y] = t' if is_text else 'n(y)'}.", "rules")
            ends = range(DELETES) if case.first else range(size - 1, size - 1 - DELETES, -1)
            some = pa.table(table).take([*ends])
            sides = [Side("ivm", partial(_deletes, ws, ends, is_text), before=partial(_restore, ws, some))]
            if case.sql and (peer := duckdb_with({"n": table})):
                sides.append(Side("DuckDB", *_deletes_in_duckdb(peer, case.sql, ends, some)))
            yield Row(f"{name} of {size:,}, a delete", sides, 5, "ms", 1e3 / DELETES)


def _deletes(ws: ivm.Workspace, ends: range, is_text: bool) -> list[Any]:
    answers = []
    for y in ends:
        with ws.transaction() as txn:
            txn.delete("n", [(y,)])
        answers.append(ws.rope("v")[:LETTERS] if is_text else next(iter(ws["v"]))[0])
    return answers


def _restore(ws: ivm.Workspace, some: pa.Table) -> None:
    with ws.transaction() as txn:
        txn.set("n", some) if some.num_columns > 1 else txn.insert("n", some)


def _deletes_in_duckdb(
    peer: Any, aggregate: str, ends: range, some: pa.Table
) -> tuple[Callable[[], list[Any]], Callable[[], object]]:
    def run() -> list[Any]:
        answers = []
        for y in ends:
            peer.execute("delete from n where y = ?", [y])
            answers.append(peer.execute(f"select {aggregate} from n").fetchone()[0])
        return answers

    def restore() -> None:
        peer.execute("delete from n where y between ? and ?", [min(ends), max(ends)])
        peer.register("deleted", some)
        peer.execute("insert into n select * from deleted")

    return run, restore


# -- ranges

WINDOW = "range between 9999 preceding and current row"
SHAPES = {
    "next": ("v[x] = r <- agg<<r = min(z)>> a(x), a(z), z > x.", "lead(x) over (order by x)"),
    "window": (
        "v[x] = r <- agg<<r = count()>> a(x), a(z), z <= x, z > x - 10000.",
        f"count(*) over (order by x {WINDOW})",
    ),
    "sum": (
        "v[x] = r <- agg<<r = sum(z)>> a(x), a(z), z <= x, z > x - 10000.",
        f"sum(x) over (order by x {WINDOW})::bigint",
    ),
    "running": ("v[x] = r <- agg<<r = count()>> a(x), a(z), z <= x.", "count(*) over (order by x)"),
}


def ranges(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield for each shape a row that is evaluated anew over about `size` keys, and one for edits near the last key."""
    keys = np.unique(np.random.default_rng(5).integers(0, 1000 * options.size, options.size))
    for name, (rule, window) in SHAPES.items():
        with ivm.open(folder / f"{name}.pages", sync="off", retain=2, threads=1) as ws:
            ws.install("a(x) -> int(x).", "base")
            with ws.transaction() as txn:
                txn.insert("a", [keys])
            anew = [Side("ivm", lambda ws=ws, rule=rule: _told(ws.query(rule).to_arrow().select(["r"])))]  # type: ignore[misc]
            if peer := duckdb_with({"a": {"x": keys}}):
                query = f"select count(r), sum(r) from (select {window} as r from a)"
                anew.append(Side("DuckDB", partial(_told_by, peer, query)))
            yield Row(f"{name} over {len(keys):,} keys", anew, 3, "ms", 1e3)
            ws.install(rule, "rules")
            edits = [Side("ivm", partial(_edit, ws, int(keys[-5])))]
            yield Row(f"{name}, an edit", edits, 5, "ms", 1e3 / EDITS / 2)


def _edit(ws: ivm.Workspace, key: int) -> int:
    for _ in range(EDITS):
        ws.exec(f"-a({key}).")
        ws.exec(f"+a({key}).")
    return len(ws["v"])


# -- recursion


DECLARED = """
    e(x, y) -> int(x), int(y).  g(x, y) -> int(x), int(y).  s(x) -> int(x).  w[x, y] = k -> int(x), int(y), int(k).
    addr(x, y) -> int(x), int(y).  assign(x, y) -> int(x), int(y).  get(x, y) -> int(x), int(y).
    put(x, y) -> int(x), int(y).
"""
RECURSIVE = {  # programs whose answer is in `v`, and DuckDB's query for its rows and the sum of its last column
    "transitive closure": (
        "v(x, y) <- e(x, y).  v(x, z) <- v(x, y), e(y, z).",
        """with recursive v(x, y) as (select x, y from e union select v.x, e.y from v join e on v.y = e.x)
        select count(*), sum(y) from v""",
    ),
    "same generation": (
        "v(x, y) <- e(p, x), e(p, y), x != y.  v(x, y) <- e(a, x), v(a, b), e(b, y).",
        """with recursive v(x, y) as (select a.y, b.y from e a join e b on a.x = b.x where a.y <> b.y
        union select a.y, b.y from v join e a on a.x = v.x join e b on b.x = v.y) select count(*), sum(y) from v""",
    ),
    "points-to": (
        """v(y, x) <- addr(y, x).  v(y, x) <- assign(y, z), v(z, x).  v(y, q) <- get(y, x), v(x, z), v(z, q).
        v(z, q) <- put(y, x), v(y, z), v(x, q).""",
        "",
    ),
    "reachability": (
        "v(x) <- s(x).  v(y) <- v(x), g(x, y).",
        """with recursive v(x) as (select x from s union select g.y from v join g on v.x = g.x)
        select count(*), sum(x) from v""",
    ),
    "components": (
        "v[x] = m <- agg<<m = min(c)>> (g(x, _), c = x ; v[y] = c, g(y, x)).",
        """with recursive v(x, m) using key (x) as (select x, x from (select distinct x from g)
        union (select g.y, min(v.m) from v join g on g.x = v.x join recurring.v as r on r.x = g.y
        where v.m < r.m group by g.y)) select count(*), sum(m) from v""",
    ),
    "shortest paths": (
        "v[y] = m <- agg<<m = min(c)>> (s(y), c = 0 ; v[x] = b, w[x, y] = k, c = b + k).",
        """with recursive v(x, m) using key (x) as (select x, 0::bigint from s
        union (select w.y, min(v.m + w.k) from v join w on w.x = v.x left join recurring.v as r on r.x = w.y
        where r.m is null or v.m + w.k < r.m group by w.y)) select count(*), sum(m) from v""",
    ),
}
MAINTAINED = "reachability", "components", "shortest paths"


def recursion(folder: Path, size: int, graph: np.ndarray) -> Iterator[Row]:
    """Yield rows for all programs from scratch; then for three views that are maintained while the graph changes."""
    data = tables(size, graph)
    path = folder / "facts.pages"
    _fill(path, data).close()
    peer = duckdb_with({name: dict(zip("xyk", data[name], strict=False)) for name in ("e", "g", "w", "s")})
    with ivm.open(path, mode="r", threads=1) as one, ivm.open(path, mode="r", threads=2) as two:
        for name, (rules, query) in RECURSIVE.items():
            sides = [
                Side(f"ivm, {threads}", lambda ws=ws, rules=rules: _told(ws.query(rules).to_arrow()))  # type: ignore[misc]
                for threads, ws in (("one thread", one), ("two threads", two))
            ]
            if peer and query:
                sides.append(Side("DuckDB", partial(_told_by, peer, query)))
            yield Row(f"{name}, from scratch", sides, 5)
    for name in MAINTAINED:
        yield from _maintained(folder / f"{name}.pages", name, data)


def tables(size: int, graph: np.ndarray) -> dict[str, np.ndarray]:
    """Return the relations as columns: a random graph of `size` vertices and twice as many edges (e), statements of a
    program over as many variables, the given graph both ways (g), with weights (w), and the vertex with most edges (s).
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


def _fill(path: Path, data: dict[str, np.ndarray], **options: Any) -> ivm.Workspace:
    ws = ivm.open(path, sync="off", **options)
    ws.install(DECLARED, "base")
    with ws.transaction() as txn:
        for name, columns in data.items():
            txn.insert(name, [*columns])
    return ws


def _maintained(path: Path, name: str, data: dict[str, np.ndarray]) -> Iterator[Row]:
    """Yield rows for edges, both ways, that are deleted and inserted again: one by one, and many at once."""
    edges, rules = data["w"][:, data["w"][0] < data["w"][1]], RECURSIVE[name][0]
    some = np.random.default_rng(2).permutation(edges.shape[1])[: EDGES + BATCH // 2]
    with _fill(path, {name: data[name] for name in ("g", "w", "s")}, retain=2, threads=1) as ws:
        ws.install(rules, "rules")
        one = [Side("ivm", _edits(ws, edges[:, some[:EDGES]], 1))]
        yield Row(f"{name}, an edge", one, 5, "ms", 1e3 / EDGES / 2)
        anew = re.sub(r"\bv\b", "q", rules)
        many = [
            Side("ivm", _edits(ws, edges[:, some[EDGES:]], BATCH // 2)),  # two transactions
            Side("ivm, from scratch", lambda: [_told(ws.query(anew).to_arrow()) for _ in range(2)][-1]),
        ]
        yield Row(f"{name}, {BATCH:,} edges at once", many, 5, "ms", 1e3 / 2)


def _edits(ws: ivm.Workspace, edges: np.ndarray, together: int) -> Callable[[], list[int]]:
    """Return what deletes some edges, so many a transaction, and inserts them again."""
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


AGGREGATES = Work("aggregate bench", aggregates, 10_000_000, 1_000_000)
RANGES = Work("range bench", ranges, 1_000_000, 100_000)
RECURSION = Work(
    "recursion bench",
    lambda folder, options: recursion(folder, options.size, options.graph),
    2_000,
    200,
    lambda size: skewed(10 * size),
)
