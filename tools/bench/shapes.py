"""Everyday programs over tables: installing a view, and changing a row, beside DuckDB's whole answer."""

import argparse
from collections.abc import Iterator, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import ivm

from .graphs import skewed
from .harness import Row, Side, Work, duckdb_with, those_installed, workspace_with

DECLARED = """
    fact[i] = (a, b, c, v) -> int(i), int(a), int(b), int(c), int(v).
    da[a] = y -> int(a), int(y).  db[b] = y -> int(b), int(y).  dc[c] = y -> int(c), int(y).
    item[o, l] = (q, p, d, f) -> int(o), int(l), int(q), int(p), int(d), int(f).
    orders[o] = (c, d) -> int(o), int(c), int(d).  customer[c] = s -> int(c), int(s).
    e(x, y) -> int(x), int(y).  span[i] = (s, t) -> int(i), int(s), int(t).
"""
RELATED = "fact[i] = (a, b, c, v)"
WHAT = "install", "one row goes and comes back"
ITEM = "item[o, l] = (q, p, d, f)"


class Shape(NamedTuple):
    """A program, its answer as a query of DuckDB, and the relation of which rows change."""

    rules: str
    query: str
    changed: str


SHAPES = {
    "three sums": Shape(
        f"q[f] = n <- agg<<n = count()>> {ITEM}, d <= 900.  r[f] = t <- agg<<t = sum(p * q)>> {ITEM}, d <= 900.  "
        f"s[f] = t <- agg<<t = sum(q)>> {ITEM}, d <= 900.",
        "select f, count(*), sum(p * q), sum(q) from item where d <= 900 group by f",
        "item",
    ),
    "star": Shape(
        f"q[x, y] = t <- agg<<t = sum(v)>> {RELATED}, da[a] = x, db[b] = y, dc[c] = 3.",
        "select da.y, db.y, sum(v) from fact, da, db, dc where fact.a = da.a and fact.b = db.b and fact.c = dc.c "
        "and dc.y = 3 group by 1, 2",
        "fact",
    ),
    "star, a dimension": Shape(
        f"q[x, y] = t <- agg<<t = sum(v)>> {RELATED}, da[a] = x, db[b] = y, dc[c] = 3.",
        "select da.y, db.y, sum(v) from fact, da, db, dc where fact.a = da.a and fact.b = db.b and fact.c = dc.c "
        "and dc.y = 3 group by 1, 2",
        "da",
    ),
    "orders of a segment": Shape(
        f"q[o, e] = t <- agg<<t = sum(p)>> customer[c] = 1, orders[o] = (c, e), {ITEM}, e < 400, d > 400.",
        "select o.o, o.d, sum(p) from customer u, orders o, item i where u.c = o.c and i.o = o.o and u.s = 1 "
        "and o.d < 400 and i.d > 400 group by 1, 2",
        "item",
    ),
    "orders with late items": Shape(
        f"late(o) <- {ITEM}, d > 900.  q[s] = n <- agg<<n = count()>> orders[o] = (c, e), e < 300, late(o), "
        "customer[c] = s.",
        "select s, count(*) from orders o, customer u where u.c = o.c and o.d < 300 and exists "
        "(select 1 from item i where i.o = o.o and i.d > 900) group by s",
        "item",
    ),
    "listed with a dimension": Shape(
        f"q(i, x, v) <- {RELATED}, da[a] = x.", "select i, da.y, v from fact, da where fact.a = da.a", "fact"
    ),
    "filters with or": Shape(
        f"q(a, b) <- {RELATED}, (a < 100 ; a > 800), (b < 100 ; b > 800), (c < 100 ; c > 800).",
        "select distinct a, b from fact where (a < 100 or a > 800) and (b < 100 or b > 800) and (c < 100 or c > 800)",
        "fact",
    ),
    "a sum over an or": Shape(
        f"q[f] = t <- agg<<t = sum(p)>> {ITEM}, (d < 100 ; d > 800, f = 1).",
        "select f, sum(p) from item where d < 100 or (d > 800 and f = 1) group by f",
        "item",
    ),
    "least of three groups": Shape(
        f"q[g] = m <- agg<<m = min(p)>> {ITEM}, g = f.", "select f, min(p) from item group by f", "item"
    ),
    "computed keys": Shape(
        f"q[g] = n <- agg<<n = count()>> {RELATED}, g = v / 10, da[g] = _.",
        "select v // 10, count(*) from fact, da where v // 10 = da.a group by 1",
        "fact",
    ),
    "distinct ends of 2-paths": Shape(
        "q(x, z) <- e(x, y), e(y, z).", "select distinct e.x, f.y from e, e f where e.y = f.x", "e"
    ),
    "3-paths counted": Shape(
        "q[x] = n <- agg<<n = count()>> e(x, y), e(y, z), e(z, _).",
        "select e.x, count(*) from e, e f, e g where e.y = f.x and f.y = g.x group by 1",
        "e",
    ),
    "triangles": Shape(
        "q(x, y, z) <- e(x, y), e(y, z), e(x, z).",
        "select e.x, e.y, f.y from e, e f, e g where e.y = f.x and g.x = e.x and g.y = f.y",
        "e",
    ),
    "paths without triangles": Shape(
        "q[] = n <- agg<<n = count()>> e(x, y), e(y, z), x != z, !e(x, z).",
        "select count(*) from e, e f where e.y = f.x and e.x <> f.y and not exists "
        "(select 1 from e g where g.x = e.x and g.y = f.y)",
        "e",
    ),
    "unequal values": Shape(
        "q[x] = n <- agg<<n = count()>> da[_] = x, db[_] = y, x != y.",
        "select da.y, count(*) from da, db where da.y <> db.y group by 1",
        "da",
    ),
    "intervals that overlap": Shape(
        "q(i, j) <- span[i] = (s, t), span[j] = (u, w), s <= w, u <= t, i < j.",
        "select x.i, y.i from span x, span y where x.s <= y.t and y.s <= x.t and x.i < y.i",
        "span",
    ),
    "starts within ends": Shape(
        "q[i] = n <- agg<<n = count()>> span[i] = (s, t), span[_] = (u, _), u > s, u <= t.",
        "select x.i, count(*) from span x, span y where y.s > x.s and y.s <= x.t group by x.i",
        "span",
    ),
}


def tables(size: int) -> dict[str, dict[str, np.ndarray]]:
    """Return a table of `size` facts with dimensions, as many items of a fourth as many orders, a graph and spans."""
    drawn, few, orders = np.random.default_rng(7), max(100, size // 1000), max(1, size // 4)
    a, b, c = drawn.integers(0, 1000, (3, size))
    order, line = np.divmod(np.arange(size), 4)
    x, y = skewed(few)
    start = drawn.integers(0, 50 * few, 20 * few)
    return {
        "fact": {"i": np.arange(size), "a": a, "b": b, "c": c, "v": drawn.integers(0, 10_000, size)},
        **{f"d{k}": {k: np.arange(1000), "y": drawn.integers(0, 10, 1000)} for k in "abc"},
        "item": {
            "o": order, "l": line, "q": drawn.integers(1, 51, size), "p": drawn.integers(100, 10**6, size),
            "d": drawn.integers(0, 1000, size), "f": drawn.integers(0, 3, size),
        },
        "orders": {"o": np.arange(orders), "c": drawn.integers(0, few, orders), "d": drawn.integers(0, 1000, orders)},
        "customer": {"c": np.arange(few), "s": drawn.integers(0, 5, few)},
        "e": {"x": x, "y": y},
        "span": {"i": np.arange(20 * few), "s": start, "t": start + drawn.integers(1, 60, 20 * few)},
    }  # fmt: skip


def shapes(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield for each shape a row that installs it, and one in which a row goes and comes back."""
    given = tables(options.size)
    workspace = workspace_with(folder / "shapes.pages", DECLARED, {n: pa.table(t) for n, t in given.items()}, threads=1)
    peer = duckdb_with(given)
    for name, shape in SHAPES.items():
        if any(options.only in f"{name}: {what}" for what in WHAT):
            yield from _both(workspace, peer, name, shape, given[shape.changed])
    workspace.close()


def _both(
    workspace: ivm.Workspace, peer: Any, name: str, shape: Shape, table: Mapping[str, np.ndarray]
) -> Iterator[Row]:
    def uninstall() -> None:
        if "shape" in workspace.blocks:
            workspace.uninstall("shape")

    def install() -> int:
        workspace.install(shape.rules, "shape")
        return len(workspace["q"])

    def answer() -> int:
        peer.execute(f"create or replace table answer as {shape.query}")
        return int(peer.execute("select count(*) from answer").fetchone()[0])

    places = cycle(np.random.default_rng(1).integers(0, len(next(iter(table.values()))), 100).tolist())

    def edit() -> int:
        place = next(places)
        row = tuple(int(column[place]) for column in table.values())
        for change in ("delete", "insert"):
            with workspace.transaction() as txn:
                getattr(txn, change)(shape.changed, [row])
        return len(workspace["q"])

    anew = Side("DuckDB, the whole answer", answer)
    installing, editing = (f"{name}: {what}" for what in WHAT)
    yield Row(installing, those_installed(Side("ivm", install, uninstall), anew))

    def counts() -> dict[str, float]:
        return {"operations": workspace.stats("q")["operations"], "rows": len(workspace["q"])}

    yield Row(editing, those_installed(Side("ivm", edit, counts=counts), anew), 15)
    uninstall()


WORK = Work("shape bench", shapes, 1_000_000, 20_000)
