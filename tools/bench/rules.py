"""Benchmarks aggregates, windows and recursion, beside DuckDB: evaluated anew, and maintained.

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
from .harness import Row, Side, Work, duckdb_with, workspace_with

DELETES = 10  # of rows of a group, in a run
TEXTS = 1000  # different ones
LETTERS = 24  # of a concatenation that are read
EDITS = 10  # of a range, in a run: each deletes a row and inserts it again
EDGES = 100  # single edges of a run, each deleted and inserted again
BATCH = 1_000  # edges both ways that a transaction deletes, and the next one inserts again


def _anew(workspace: ivm.Workspace, rules: str) -> list[int]:
    """Evaluate rules; return how many rows there are, and the sum of their last column."""
    rows = workspace.query(rules).to_arrow()
    return [rows.num_rows, pc.sum(rows.columns[-1]).as_py()]


def _first_row(peer: Any, query: str) -> list[int]:
    return [*map(int, peer.execute(query).fetchone())]


# -- aggregates


class Aggregate(NamedTuple):
    """An aggregate as a rule and as SQL, None where DuckDB rounds; one of texts is deleted from at their begin."""

    rule: str
    sql: str | None
    texts: bool = False


AGGREGATES_OF = {
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
    numbers = pa.table({"y": np.arange(size)})
    for name, (rule, sql, texts) in AGGREGATES_OF.items():
        words = pa.DictionaryArray.from_arrays(np.arange(size) % TEXTS, [f"t{i}" for i in range(TEXTS)])
        table = numbers.append_column("t", words.cast(pa.string())) if texts else numbers
        declared, atom = ("n[y] = t -> int(y), string(t).", "n[y] = t") if texts else ("n(y) -> int(y).", "n(y)")
        ends = range(DELETES) if texts else range(size - 1, size - 1 - DELETES, -1)
        back = table.take([*ends])
        with workspace_with(folder / f"{name}.pages", declared, {"n": table}, retain=2) as ws:
            ws.install(f"v[] = r <- agg<<r = {rule}>> {atom}.", "rules")
            read = partial(_letters if texts else _value, ws)
            sides = [Side("ivm", partial(_deletes, ws, ends, read), partial(_edit, ws, "insert", n=back))]
            if sql and (peer := duckdb_with({"n": table})):
                sides.append(Side("DuckDB", *_deletes_in_duckdb(peer, sql, ends, back)))
            yield Row(f"{name} of {size:,}, a delete", sides, 5, "ms", 1e3 / DELETES)


def _edit(workspace: ivm.Workspace, change: str, **facts: Any) -> None:
    """Insert or delete rows in one transaction."""
    with workspace.transaction() as txn:
        for name, rows in facts.items():
            getattr(txn, change)(name, rows)


def _value(workspace: ivm.Workspace) -> Any:
    return next(iter(workspace["v"]))[0]


def _letters(workspace: ivm.Workspace) -> str:
    return str(workspace.rope("v")[:LETTERS])


def _deletes(workspace: ivm.Workspace, ends: range, read: Callable[[], Any]) -> list[Any]:
    answers = []
    for y in ends:
        _edit(workspace, "delete", n=[(y,)])
        answers.append(read())
    return answers


def _deletes_in_duckdb(
    peer: Any, aggregate: str, ends: range, back: pa.Table
) -> tuple[Callable[[], list[Any]], Callable[[], object]]:
    def run() -> list[Any]:
        answers = []
        for y in ends:
            peer.execute("delete from n where y = ?", [y])
            answers.append(peer.execute(f"select {aggregate} from n").fetchone()[0])
        return answers

    def restore() -> None:
        peer.execute("delete from n where y between ? and ?", [min(ends), max(ends)])
        peer.register("deleted", back)
        peer.execute("insert into n select * from deleted")

    return run, restore


# -- ranges

NEAR = "z <= x, z > x - 10000"
WINDOW = "over (order by x range between 9999 preceding and current row)"
SHAPES = {  # an aggregate of numbers z for each x, where they are, and the same as a window function
    "next": ("min(z)", "z > x", "lead(x) over (order by x)"),
    "window": ("count()", NEAR, f"count(*) {WINDOW}"),
    "sum": ("sum(z)", NEAR, f"sum(x) {WINDOW}::bigint"),
    "running": ("count()", "z <= x", "count(*) over (order by x)"),
}


def ranges(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield for each shape a row that is evaluated anew over about `size` keys, and one for edits near the last key."""
    keys = np.unique(np.random.default_rng(5).integers(0, 1000 * options.size, options.size))
    peer = duckdb_with({"a": {"x": keys}})

    def edits(workspace: ivm.Workspace) -> int:
        for _ in range(EDITS):
            workspace.exec(f"-a({keys[-5]}).")
            workspace.exec(f"+a({keys[-5]}).")
        return len(workspace["v"])

    for name, (aggregate, where, window) in SHAPES.items():
        rule = f"v[x] = r <- agg<<r = {aggregate}>> a(x), a(z), {where}."
        with workspace_with(folder / f"{name}.pages", "a(x) -> int(x).", {"a": [keys]}, retain=2, threads=1) as ws:
            sides = [Side("ivm", partial(_anew, ws, rule))]
            if peer:
                query = f"select count(r), sum(r) from (select {window} as r from a)"
                sides.append(Side("DuckDB", partial(_first_row, peer, query)))
            yield Row(f"{name} over {len(keys):,} keys", sides, 3)
            ws.install(rule, "rules")
            yield Row(f"{name}, an edit", [Side("ivm", partial(edits, ws))], 5, "ms", 1e3 / EDITS / 2)


# -- recursion


DECLARED = "s(x) -> int(x).  w[x, y] = k -> int(x), int(y), int(k)." + "".join(
    f"{name}(x, y) -> int(x), int(y)." for name in ("e", "g", "addr", "assign", "get", "put")
)
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


def recursion(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield rows for all programs from scratch; then for three views that are maintained while the graph changes."""
    data = tables(options.size, options.graph)
    path = folder / "facts.pages"
    workspace_with(path, DECLARED, data).close()
    peer = duckdb_with({name: dict(zip("xyk", data[name], strict=False)) for name in ("e", "g", "w", "s")})
    with ivm.open(path, mode="r", threads=1) as one, ivm.open(path, mode="r", threads=2) as two:
        for name, (rules, query) in RECURSIVE.items():
            sides = [
                Side("ivm, one thread", partial(_anew, one, rules)),
                Side("ivm, two threads", partial(_anew, two, rules)),
            ]
            if peer and query:
                sides.append(Side("DuckDB", partial(_first_row, peer, query)))
            yield Row(f"{name}, from scratch", sides, 5)
    for name in MAINTAINED:
        facts = {relation: data[relation] for relation in ("g", "w", "s")}
        with workspace_with(folder / f"{name}.pages", DECLARED, facts, retain=2, threads=1) as ws:
            yield from _maintained(ws, name, np.array(data["w"]))


def tables(size: int, graph: np.ndarray) -> dict[str, list[np.ndarray]]:
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
    found = {"e": e[:, e[0] != e[1]], "g": g, "w": w, "s": np.array([[np.bincount(x).argmax()]])}
    return {name: [*columns] for name, columns in {**found, **{name: pairs(n) for name, n in program.items()}}.items()}


def _maintained(workspace: ivm.Workspace, name: str, weighted: np.ndarray) -> Iterator[Row]:
    """Yield rows for edges, both ways, that are deleted and inserted again: one by one, and many at once."""
    rules = RECURSIVE[name][0]
    edges = weighted[:, weighted[0] < weighted[1]]
    edges = np.random.default_rng(2).permutation(edges, axis=1)[:, : EDGES + BATCH // 2]

    def edits(parts: list[np.ndarray]) -> list[int]:
        for part in parts:
            both = np.concatenate([part, part[[1, 0, 2]]], axis=1)
            for change in ("delete", "insert"):
                _edit(workspace, change, g=[*both[:2]], w=[*both])
        rows = workspace["v"].to_arrow()
        return [rows.num_rows, pc.sum(rows.columns[-1]).as_py()]

    workspace.install(rules, "rules")
    one, many = np.split(edges[:, :EDGES], range(1, edges[:, :EDGES].shape[1]), axis=1), [edges[:, EDGES:]]
    yield Row(f"{name}, an edge", [Side("ivm", partial(edits, one))], 5, "ms", 1e3 / EDGES / 2)
    anew = re.sub(r"\bv\b", "q", rules)
    sides = [
        Side("ivm", partial(edits, many)),  # two transactions
        Side("ivm, from scratch", lambda: [_anew(workspace, anew) for _ in range(2)][-1]),
    ]
    yield Row(f"{name}, {BATCH:,} edges at once", sides, 5, "ms", 1e3 / 2)


AGGREGATES = Work("aggregate bench", aggregates, 10_000_000, 1_000_000)
RANGES = Work("range bench", ranges, 1_000_000, 100_000)
RECURSION = Work("recursion bench", recursion, 2_000, 200, lambda size: skewed(10 * size))
