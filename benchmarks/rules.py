"""Benchmarks aggregates, windows and recursion, beside DuckDB: evaluated anew, and maintained.

Of a concatenation the first letters are read; DuckDB makes the whole text for them.
"""

import argparse
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import ivm
from pagestore_tools.bench.graphs import skewed
from pagestore_tools.bench.harness import (
    Row,
    Side,
    Work,
    duckdb_with,
    those_installed,
    workspace_with,
)

DELETES = 10  # of rows of a group, in a run
TEXTS = 1000  # different ones
LETTERS = 24  # of a concatenation that are read
EDITS = 10  # of a range, in a run: each deletes a row and inserts it again
EDGES = 100  # single edges of a run, each deleted and inserted again
BATCH = 1_000  # edges both ways that a transaction deletes, and the next one inserts again


def _anew(workspace: ivm.Workspace, rules: str) -> list[int]:
    return _summary(workspace.query(rules).to_arrow())


def _summary(rows: pa.Table) -> list[int]:
    """Return how many rows there are, and the sum of their last column."""
    return [rows.num_rows, pc.sum(rows.columns[-1]).as_py()]


def _first_row(peer: Any, query: str) -> list[int]:
    return [*map(int, peer.execute(query).fetchone())]


# -- aggregates


# as a rule, and as SQL; `concat` is of a group with texts, of which the first rows are deleted
AGGREGATED = {
    "max": ("max(y)", "max(y)"),
    "median": ("median(y)", "median(y)"),
    "quantile": ("quantile(y, 0.9)", "quantile_disc(y, 0.9)"),
    "count_distinct": ("count_distinct(y)", "count(distinct y)"),
    "concat": ('concat(t, y, " ")', f"left(string_agg(t, ' ' order by y), {LETTERS})"),
}


def aggregates(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each aggregate, over a group of `size` values: delete a row in a
    transaction, read, and so on.
    """
    size = options.size
    numbers = pa.table({"y": np.arange(size)})
    words = pa.DictionaryArray.from_arrays(np.arange(size) % TEXTS, [f"t{i}" for i in range(TEXTS)])
    for name, (rule, sql) in AGGREGATED.items():
        table, declared, atom, ends = (
            numbers,
            "n(y) -> int(y).",
            "n(y)",
            range(size - 1, size - 1 - DELETES, -1),
        )
        if name == "concat":
            table, ends = numbers.append_column("t", words.cast(pa.string())), range(DELETES)
            declared, atom = "n[y] = t -> int(y), string(t).", "n[y] = t"
        with workspace_with(folder / f"{name}.pages", declared, {"n": table}, retain=2) as ws:
            ws.install(f"v[] = r <- agg<<r = {rule}>> {atom}.", "rules")
            yield Row(
                f"{name} of {size:,}, a delete",
                _deletes(ws, table, sql, ends),
                5,
                "ms",
                1e3 / DELETES,
            )


def _deletes(ws: ivm.Workspace, table: pa.Table, sql: str, ends: range) -> list[Side]:
    """Return sides that delete row after row, and read the aggregate after each."""
    peer, gone = duckdb_with({"n": table, "gone": table.take([*ends])}), table.take([*ends])

    def ours(y: int) -> Any:
        _edit(ws, "delete", n=[(y,)])
        return str(ws.rope("v")[:LETTERS]) if "t" in table.column_names else next(iter(ws["v"]))[0]

    def theirs(y: int) -> Any:
        peer.execute("delete from n where y = ?", [y])
        return peer.execute(f"select {sql} from n").fetchone()[0]

    def restore() -> None:
        peer.execute(
            "delete from n where y in (select y from gone); insert into n select * from gone"
        )

    return those_installed(
        Side("ivm", lambda: [ours(y) for y in ends], partial(_edit, ws, "insert", n=gone)),
        Side("DuckDB", lambda: [theirs(y) for y in ends], restore),
    )


def _edit(workspace: ivm.Workspace, change: str, **facts: Any) -> None:
    """Insert or delete rows in one transaction."""
    with workspace.transaction() as txn:
        for name, rows in facts.items():
            getattr(txn, change)(name, rows)


# -- ranges

NEAR = "z <= x, z > x - 10000"
WINDOW = "over (order by x range between 9999 preceding and current row)"
# an aggregate of numbers z for each x, where they are, and the same as a window function
SHAPES = {
    "next": ("min(z)", "z > x", "lead(x) over (order by x)"),
    "window": ("count()", NEAR, f"count(*) {WINDOW}"),
    "sum": ("sum(z)", NEAR, f"sum(x) {WINDOW}::bigint"),
    "running": ("count()", "z <= x", "count(*) over (order by x)"),
}


def ranges(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield for each shape a row that is evaluated anew over about `size` keys, and one for
    edits near the last key.
    """
    keys = np.unique(np.random.default_rng(5).integers(0, 1000 * options.size, options.size))
    peer = duckdb_with({"a": {"x": keys}})

    def edits(workspace: ivm.Workspace) -> int:
        for _ in range(EDITS):
            workspace.exec(f"-a({keys[-5]}).")
            workspace.exec(f"+a({keys[-5]}).")
        return len(workspace["v"])

    for name, (aggregate, where, window) in SHAPES.items():
        rule = f"v[x] = r <- agg<<r = {aggregate}>> a(x), a(z), {where}."
        with workspace_with(
            folder / f"{name}.pages", "a(x) -> int(x).", {"a": [keys]}, retain=2, threads=1
        ) as ws:
            query = f"select count(r), sum(r) from (select {window} as r from a)"
            sides = (
                Side("ivm", partial(_anew, ws, rule)),
                Side("DuckDB", partial(_first_row, peer, query)),
            )
            yield Row(f"{name} over {len(keys):,} keys", those_installed(*sides), 3)
            ws.install(rule, "rules")
            yield Row(
                f"{name}, an edit", [Side("ivm", partial(edits, ws))], 5, "ms", 1e3 / EDITS / 2
            )


# -- windows


PARTITION = 1_000  # rows of one
OVER = "OVER (PARTITION BY p ORDER BY t{})"
WINDOWS = {
    "lag": f"lag(x) {OVER.format('')}",
    "first_value": f"first_value(x) {OVER.format('')}",
    "nth_value": f"nth_value(x, 2) {OVER.format(' ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING')}",
    "running sum": f"sum(x) {OVER.format('')}",
    "running count": f"count(x) {OVER.format('')}",
    "running max": f"max(x) {OVER.format('')}",
    "sum of 4 rows": f"sum(x) {OVER.format(' ROWS BETWEEN 3 PRECEDING AND CURRENT ROW')}",
    "rank": "rank() OVER (PARTITION BY p ORDER BY x)",
    "dense_rank": "dense_rank() OVER (PARTITION BY p ORDER BY x)",
    "row_number": "row_number() OVER (PARTITION BY p ORDER BY x, t)",
    "ntile": f"ntile(4) {OVER.format('')}",
}


def windows(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield for each window function a row that installs a view of it, over `size` rows that come
    in any order, and one for an edit in the middle of a partition.
    """
    random, size = np.random.default_rng(1), options.size
    places = random.permutation(size)
    given = {"id": np.arange(size), "p": places // PARTITION, "t": places % PARTITION}
    given["x"] = random.integers(0, 1000, size)
    peer = duckdb_with({"s": given})
    middle = np.flatnonzero(given["t"] == PARTITION // 2).tolist()
    with ivm.open(folder / "windows.pages", sync="off", threads=1) as ws:
        ws.sql(
            "CREATE TABLE s (id BIGINT PRIMARY KEY, p BIGINT NOT NULL, t BIGINT NOT NULL, x BIGINT NOT NULL)"
        )
        _edit(ws, "insert", s=pa.table(given))
        update = ws.prepare_sql("UPDATE s SET x = x + 1 WHERE id = ?")

        def drop() -> None:
            if "v" in ws.blocks:
                ws.sql("DROP VIEW v")

        def install(query: str) -> list[int]:
            ws.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
            return [len(ws["v"])]

        def answer(query: str) -> list[int]:
            peer.execute(f"create or replace table r as {query}")
            return _first_row(peer, "select count(*) from r")

        def edits() -> None:
            for place in middle[:EDITS]:
                update.execute([place])

        for name, value in WINDOWS.items():
            query = f"SELECT id, {value} AS v FROM s"
            yield Row(
                f"{name} over {size:,} rows",
                those_installed(
                    Side("ivm", partial(install, query), drop),
                    Side("DuckDB", partial(answer, query)),
                ),
                3,
            )
            yield Row(f"{name}, an edit", [Side("ivm", edits)], 5, "ms", 1e3 / EDITS)
            drop()


# -- recursion


DECLARED = "s(x) -> int(x).  w[x, y] = k -> int(x), int(y), int(k)." + "".join(
    f"{name}(x, y) -> int(x), int(y)." for name in ("e", "g", "addr", "assign", "get", "put")
)
# programs whose answer is in `v`, and DuckDB's query for its rows and the sum of its last column
RECURSIVE = {
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


def recursion(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield rows for all programs from scratch; then for three views that are maintained while
    the graph changes.
    """
    data = tables(options.size, options.graph)
    path = folder / "facts.pages"
    workspace_with(path, DECLARED, data).close()
    peer = duckdb_with(
        {name: dict(zip("xyk", data[name], strict=False)) for name in ("e", "g", "w", "s")}
    )
    with ivm.open(path, mode="r", threads=1) as one, ivm.open(path, mode="r", threads=2) as two:
        spaces = {"one thread": one, "two threads": two}
        for name, (rules, query) in RECURSIVE.items():
            ours = [
                Side(f"ivm, {threads}", partial(_anew, ws, rules)) for threads, ws in spaces.items()
            ]
            theirs = [Side("DuckDB", partial(_first_row, peer, query))] * bool(query)
            yield Row(f"{name}, from scratch", those_installed(*ours, *theirs), 5)
    for name in MAINTAINED:
        facts = {relation: data[relation] for relation in ("g", "w", "s")}
        with workspace_with(folder / f"{name}.pages", DECLARED, facts, retain=2, threads=1) as ws:
            yield from _maintained(ws, name, np.array(data["w"]))


def tables(size: int, graph: np.ndarray) -> dict[str, list[np.ndarray]]:
    """Return the relations as columns: a random graph of `size` vertices and twice as many edges
    (e), statements of a program over as many variables, the given graph both ways (g), with weights
    (w), and the vertex with most edges (s).
    """
    random = np.random.default_rng(1)

    def pairs(count: int) -> np.ndarray:
        return np.unique(random.integers(0, size, (2, count)), axis=1)

    e = pairs(2 * size)
    x, y = g = np.unique(np.concatenate([graph, graph[::-1]], axis=1), axis=1)
    w = np.stack([x, y, 1 + (np.minimum(x, y) * 31 + np.maximum(x, y) * 17) % 97])
    program = {"addr": size // 2, "assign": size * 7 // 10, "get": size // 10, "put": size // 10}
    found = {"e": e[:, e[0] != e[1]], "g": g, "w": w, "s": np.array([[np.bincount(x).argmax()]])}
    return {
        name: [*columns]
        for name, columns in {**found, **{name: pairs(n) for name, n in program.items()}}.items()
    }


def _maintained(workspace: ivm.Workspace, name: str, weighted: np.ndarray) -> Iterator[Row]:
    """Yield rows for edges, both ways, that are deleted and inserted again: one by one, and many
    at once.
    """
    rules = RECURSIVE[name][0]
    edges = weighted[:, weighted[0] < weighted[1]]
    edges = np.random.default_rng(2).permutation(edges, axis=1)[:, : EDGES + BATCH // 2]

    def edits(together: int, part: np.ndarray) -> list[int]:
        for at in range(0, part.shape[1], together):
            some = part[:, at : at + together]
            both = np.concatenate([some, some[[1, 0, 2]]], axis=1)
            for change in ("delete", "insert"):
                _edit(workspace, change, g=[*both[:2]], w=[*both])
        return _summary(workspace["v"].to_arrow())

    workspace.install(rules, "rules")
    one = Side("ivm", partial(edits, 1, edges[:, :EDGES]))
    yield Row(f"{name}, an edge", [one], 5, "ms", 1e3 / EDGES / 2)
    anew = re.sub(r"\bv\b", "q", rules)
    many = Side("ivm", partial(edits, BATCH, edges[:, EDGES:]))  # two transactions
    scratch = Side("ivm, from scratch", lambda: [_anew(workspace, anew) for _ in range(2)][-1])
    yield Row(f"{name}, {BATCH:,} edges at once", [many, scratch], 5, "ms", 1e3 / 2)


AGGREGATES = Work("aggregate bench", aggregates, 10_000_000, 1_000_000)
RANGES = Work("range bench", ranges, 1_000_000, 100_000)
WINDOW = Work("window bench", windows, 200_000, 20_000)
RECURSION = Work("recursion bench", recursion, 2_000, 200, lambda size: skewed(10 * size))
