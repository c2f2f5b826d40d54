"""Everyday programs over tables, beside DuckDB's whole answer; and views of SQL beside the same
rules.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count, cycle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import ivm
from ivm.sql.answers import finish
from ivm.sql.session import Reader
from ivm.sql.statements import parse
from ivm.sql.views import translated
from pagestore_tools.bench.graphs import skewed
from pagestore_tools.bench.harness import (
    Row,
    Side,
    Work,
    duckdb_with,
    those_installed,
    workspace_with,
)

DECLARED = """
    fact[i] = (a, b, c, v) -> int(i), int(a), int(b), int(c), int(v).
    da[a] = y -> int(a), int(y).  db[b] = y -> int(b), int(y).  dc[c] = y -> int(c), int(y).
    item[o, l] = (q, p, d, f) -> int(o), int(l), int(q), int(p), int(d), int(f).
    orders[o] = (c, d) -> int(o), int(c), int(d).  customer[c] = s -> int(c), int(s).
    sale[i] = (s, v) -> int(i), int(s), int(v).  store[s] = r -> int(s), int(r).
    e(x, y) -> int(x), int(y).  span[i] = (s, t) -> int(i), int(s), int(t).
"""
RELATED = "fact[i] = (a, b, c, v)"
WHAT = "install", "one row goes and comes back"
AROUND = "a hub goes and comes back"
ITEM = "item[o, l] = (q, p, d, f)"
HUB = 1  # the store with the most sales, nearly a fifth


class Shape(NamedTuple):
    """A program, its answer as a query of DuckDB, and the relation of which rows change."""

    rules: str
    query: str
    changed: str


SHAPES = {
    "three sums": Shape(
        f"q[f] = n <- agg<<n = count()>> {ITEM}, d <= 900.  r[f] = t <- agg<<t = sum(p * q)>> "
        f"{ITEM}, d <= 900.  "
        f"s[f] = t <- agg<<t = sum(q)>> {ITEM}, d <= 900.",
        "select f, count(*), sum(p * q), sum(q) from item where d <= 900 group by f",
        "item",
    ),
    "star": Shape(
        f"q[x, y] = t <- agg<<t = sum(v)>> {RELATED}, da[a] = x, db[b] = y, dc[c] = 3.",
        "select da.y, db.y, sum(v) from fact, da, db, dc where fact.a = da.a and fact.b = db.b and "
        "fact.c = dc.c "
        "and dc.y = 3 group by 1, 2",
        "fact",
    ),
    "star, a dimension": Shape(
        f"q[x, y] = t <- agg<<t = sum(v)>> {RELATED}, da[a] = x, db[b] = y, dc[c] = 3.",
        "select da.y, db.y, sum(v) from fact, da, db, dc where fact.a = da.a and fact.b = db.b and "
        "fact.c = dc.c "
        "and dc.y = 3 group by 1, 2",
        "da",
    ),
    "orders of a segment": Shape(
        f"q[o, e] = t <- agg<<t = sum(p)>> customer[c] = 1, orders[o] = (c, e), {ITEM}, e < 400, d "
        f"> 400.",
        "select o.o, o.d, sum(p) from customer u, orders o, item i where u.c = o.c and i.o = o.o "
        "and u.s = 1 "
        "and o.d < 400 and i.d > 400 group by 1, 2",
        "item",
    ),
    "orders with late items": Shape(
        f"late(o) <- {ITEM}, d > 900.  q[s] = n <- agg<<n = count()>> orders[o] = (c, e), e < 300, "
        f"late(o), "
        "customer[c] = s.",
        "select s, count(*) from orders o, customer u where u.c = o.c and o.d < 300 and exists "
        "(select 1 from item i where i.o = o.o and i.d > 900) group by s",
        "item",
    ),
    "listed with a dimension": Shape(
        f"q(i, x, v) <- {RELATED}, da[a] = x.",
        "select i, da.y, v from fact, da where fact.a = da.a",
        "fact",
    ),
    "filters with or": Shape(
        f"q(a, b) <- {RELATED}, (a < 100 ; a > 800), (b < 100 ; b > 800), (c < 100 ; c > 800).",
        "select distinct a, b from fact where (a < 100 or a > 800) and (b < 100 or b > 800) and (c "
        "< 100 or c > 800)",
        "fact",
    ),
    "a sum over an or": Shape(
        f"q[f] = t <- agg<<t = sum(p)>> {ITEM}, (d < 100 ; d > 800, f = 1).",
        "select f, sum(p) from item where d < 100 or (d > 800 and f = 1) group by f",
        "item",
    ),
    "least of three groups": Shape(
        f"q[g] = m <- agg<<m = min(p)>> {ITEM}, g = f.",
        "select f, min(p) from item group by f",
        "item",
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


HUBS = {  # rules, those for the part that follows from the hub, and this as a query
    "sales listed with a store": (
        "q(i, r, v) <- sale[i] = (s, v), store[s] = r.",
        f"part(i, r, v) <- sale[i] = ({HUB}, v), store[{HUB}] = r.",
        f"select i, r, v from sale, store where sale.s = store.s and store.s = {HUB}",
    ),
    "sales of regions added up": (
        "q[r] = t <- agg<<t = sum(v)>> sale[_] = (s, v), store[s] = r.",
        f"part[r] = t <- agg<<t = sum(v)>> sale[_] = ({HUB}, v), store[{HUB}] = r.",
        f"select r, sum(v) from sale, store where sale.s = store.s and store.s = {HUB} group by r",
    ),
}


def tables(size: int) -> dict[str, dict[str, np.ndarray]]:
    """Return a table of `size` facts with dimensions, as many items of a fourth as many orders,
    a graph and spans.
    """
    drawn, few, orders = np.random.default_rng(7), max(100, size // 1000), max(1, size // 4)
    a, b, c = drawn.integers(0, 1000, (3, size))
    order, line = np.divmod(np.arange(size), 4)
    x, y = skewed(few)
    start = drawn.integers(0, 50 * few, 20 * few)
    hubs = np.random.default_rng(2).zipf(1.2, size // 2) % 100
    return {
        "fact": {
            "i": np.arange(size),
            "a": a,
            "b": b,
            "c": c,
            "v": drawn.integers(0, 10_000, size),
        },
        **{f"d{k}": {k: np.arange(1000), "y": drawn.integers(0, 10, 1000)} for k in "abc"},
        "item": {
            "o": order,
            "l": line,
            "q": drawn.integers(1, 51, size),
            "p": drawn.integers(100, 10**6, size),
            "d": drawn.integers(0, 1000, size),
            "f": drawn.integers(0, 3, size),
        },
        "orders": {
            "o": np.arange(orders),
            "c": drawn.integers(0, few, orders),
            "d": drawn.integers(0, 1000, orders),
        },
        "customer": {"c": np.arange(few), "s": drawn.integers(0, 5, few)},
        "sale": {"i": np.arange(size // 2), "s": hubs, "v": np.arange(size // 2) % 1000},
        "store": {"s": np.arange(100), "r": np.arange(100) % 5},
        "e": {"x": x, "y": y},
        "span": {
            "i": np.arange(20 * few),
            "s": start,
            "t": start + drawn.integers(1, 60, 20 * few),
        },
    }


def shapes(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield for each shape a row that installs it, and one in which a row goes and comes back."""
    given = tables(options.size)
    workspace = workspace_with(
        folder / "shapes.pages", DECLARED, {n: pa.table(t) for n, t in given.items()}, threads=1
    )
    peer = duckdb_with(given)
    for name, shape in SHAPES.items():
        if any(options.only in f"{name}: {what}" for what in WHAT):
            yield from _both(workspace, peer, name, shape, given[shape.changed])
    for name in HUBS:
        if options.only in f"{name}: {AROUND}":
            yield from _around_hub(workspace, peer, name)
    workspace.close()


def _around_hub(workspace: ivm.Workspace, peer: Any, name: str) -> Iterator[Row]:
    """Yield a row of deleting a hub's row and inserting it again, and of evaluating twice what
    follows from it.
    """
    rules, part, query = HUBS[name]
    row, blocks = next(row for row in workspace["store"] if row[0] == HUB), ("goes", "comes")
    workspace.install(rules, "shape")

    def edit() -> None:
        for change in ("delete", "insert"):
            with workspace.transaction() as txn:
                getattr(txn, change)("store", [row])

    def uninstall() -> None:
        for block in workspace.blocks.keys() & {*blocks}:
            workspace.uninstall(block)

    def anew() -> None:
        for block in blocks:
            workspace.install(part.replace("part", block, 1), block)

    def answer() -> None:
        for block in blocks:
            peer.execute(f"create or replace table {block} as {query}")

    anew_here, anew_there = (
        Side("ivm, that part anew", anew, uninstall),
        Side("DuckDB, that part anew", answer),
    )
    yield Row(
        f"{name}: {AROUND}", those_installed(Side("ivm", edit, uninstall), anew_here, anew_there)
    )
    uninstall()
    workspace.uninstall("shape")


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

    places = cycle(
        np.random.default_rng(1).integers(0, len(next(iter(table.values()))), 100).tolist()
    )

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


TABLES = """
    CREATE TABLE item (id INTEGER PRIMARY KEY, kind VARCHAR NOT NULL, price INTEGER NOT NULL);
    CREATE TABLE sale (id INTEGER PRIMARY KEY, shop INTEGER NOT NULL, item INTEGER NOT NULL, n INTEGER NOT NULL);
    CREATE TABLE closed (shop INTEGER PRIMARY KEY);
"""
QUERIES = [
    "SELECT shop, sum(n) AS s FROM sale GROUP BY shop",
    "SELECT s.id, i.price FROM sale s JOIN item i ON i.id = s.item WHERE s.n > 2",
    "SELECT count(*) AS c FROM sale",
    "SELECT id, shop FROM sale WHERE shop NOT IN (SELECT shop FROM closed)",
    "SELECT DISTINCT shop, n FROM sale",
    "SELECT i.kind, avg(s.n) AS a FROM sale s JOIN item i ON i.id = s.item GROUP BY i.kind",
    "SELECT s.id, c.shop FROM sale s LEFT JOIN closed c ON c.shop = s.shop",
    "SELECT shop, max(n) AS m FROM sale GROUP BY shop HAVING max(n) > 1",
    "SELECT id FROM sale WHERE n = 4 UNION SELECT id FROM item",
    "SELECT id, n * 2 AS d FROM sale WHERE item < 500",
]
SUMS = ",\n".join(
    f"    sum(CASE WHEN i.kind = 'k{n}' THEN i.price * s.n ELSE 0 END) AS t{n}" for n in range(30)
)
LONG = f"""
WITH good AS (
    SELECT id, kind, price
    FROM item
    WHERE price > 0
    AND kind IS NOT NULL
)
SELECT s.shop,
{SUMS},
    count(*) AS n,
    max(i.price) AS m
FROM sale s
JOIN good i
    ON i.id = s.item
WHERE s.n > 0
AND s.shop NOT IN (
    SELECT shop
    FROM closed
)
GROUP BY s.shop
HAVING count(*) > 1
"""


# over the tables of a shop, and what each place is given in turn
ASKED: dict[str, tuple[str, Callable[[int], list[Any]]]] = {
    "a row by key": ("SELECT item FROM sale WHERE id = ?", lambda k: [k]),
    "a count by a range": ("SELECT count(*) FROM sale WHERE item > ?", lambda k: [k % 900]),
    "a group of a range of keys": (
        "SELECT shop, sum(n) AS s FROM sale WHERE id BETWEEN ? AND ? GROUP BY shop ORDER BY shop",
        lambda k: [k, k + 500],
    ),
    "a group with HAVING": (
        "SELECT shop, sum(n) AS s FROM sale WHERE item < ? GROUP BY shop HAVING sum(n) > ? "
        "ORDER BY shop",
        lambda k: [500 + k % 400, k % 300],
    ),
    "a join with a group": (
        "SELECT i.kind, sum(i.price * s.n) AS t FROM sale s JOIN item i ON i.id = s.item "
        "WHERE i.price >= ? AND s.n > ? GROUP BY i.kind ORDER BY i.kind",
        lambda k: [k % 40, k % 4],
    ),
    "the first of an order": (
        "SELECT id, item FROM sale WHERE shop = ? AND n >= ? ORDER BY item DESC, id LIMIT 10",
        lambda k: [k % 100, k % 4],
    ),
}


def _asked(ws: ivm.Workspace) -> Iterator[Row]:
    """Yield two rows for each question: asked for the first time, and again with other values."""
    names = ("item", "sale", "closed")
    peer = duckdb_with({name: ws[name].to_arrow() for name in names})
    for name, (text, values) in ASKED.items():
        for again in (False, True):
            yield Row(
                f"{name}, {'again with other values' if again else 'asked first'}",
                those_installed(
                    Side("ivm", partial(_answers, ws.sql, text, values, again, count())),
                    Side(
                        "DuckDB",
                        partial(_answers, peer and peer.execute, text, values, again, count()),
                    ),
                ),
                15,
                stretch=3,
            )


def _answers(
    ask: Any, text: str, values: Callable[[int], list[Any]], again: bool, numbers: Iterator[int]
) -> list[Any]:
    """Return the rows of a question, whose text is a new one unless it is asked again."""
    number = next(numbers)
    found = ask(text if again else f"{text} -- {number}", values(number))
    return [tuple(row) for row in (found.fetchall() if hasattr(found, "fetchall") else found)]


def sql_rows(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Translate a query of 50 lines; ask questions for the first time and again; install ten views
    of SQL, and edit a row under them, beside the same rules.
    """
    by_sql, by_rules = (_sold(folder / f"{name}.pages", options.size) for name in ("sql", "rules"))
    yield Row("translate a query of 50 lines", [Side("ivm", lambda: _translated(by_sql))], 15)
    yield from _asked(by_sql)
    for number, query in enumerate(QUERIES):
        by_sql.sql(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
    texts = dict(by_sql.blocks)

    def drop(workspace: ivm.Workspace) -> None:
        for name in texts.keys() & workspace.blocks.keys():
            workspace.uninstall(name)

    def create() -> list[int]:
        for number, query in enumerate(QUERIES):
            by_sql.sql(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
        return _lengths(by_sql)

    def install() -> list[int]:
        for name, text in texts.items():
            by_rules.install(text, name)
        return _lengths(by_rules)

    sides = [
        Side("ivm, SQL", create, lambda: drop(by_sql)),
        Side("ivm, rules", install, lambda: drop(by_rules)),
    ]
    yield Row("install ten views", sides, 7)
    edits = [
        Side("ivm, SQL", _editing(by_sql, options.size)),
        Side("ivm, rules", _editing(by_rules, options.size)),
    ]
    yield Row("one row under ten views", edits, 60)
    by_sql.close()
    by_rules.close()


def _translated(workspace: ivm.Workspace) -> int:
    """Translate the long query; return how many columns it has."""
    with Reader(workspace).catalog() as catalog:
        rows, query = translated(catalog, "v", parse(LONG, "duckdb")[0][0])
        finish(query.builder, rows, "v", [name for name, _ in rows.columns])
    return len(rows.columns)


def _sold(file: Path, size: int) -> ivm.Workspace:
    """Return a workspace with the tables of a shop, created by SQL."""
    workspace = ivm.open(file, sync="off", threads=1)
    workspace.sql(TABLES)
    with workspace.transaction() as txn:
        txn.insert("item", [(n, f"k{n % 30}", n % 50 + 1) for n in range(1000)])
        txn.insert("sale", [(n, n % 100, n * 7 % 1000, n % 5) for n in range(size)])
        txn.insert("closed", [(3,)])
    return workspace


def _lengths(workspace: ivm.Workspace) -> list[int]:
    return [len(workspace[f"v{number}"]) for number in range(len(QUERIES))]


def _editing(workspace: ivm.Workspace, size: int) -> Callable[[], int]:
    numbers = count(size)

    def edit() -> int:
        number = next(numbers)
        workspace.insert("sale", (number, number % 100, number % 1000, number % 5))
        return number

    return edit


SQL = Work("SQL bench", sql_rows, 20_000, 2_000)
