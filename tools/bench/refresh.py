"""Three views of five million rows, refreshed after a change of 0.1 %, beside Spark SQL that computes them again.

    python -m pagestore_tools.bench.refresh [--rows 5000000] [--cores 2]

    line(id, c, p)      a join of sales with the category of their item
    turnover[item] = t  an aggregate
    tri(x, y, z)        triangles of a random graph

The rows are in a pagestore file that a `Feed` follows, and as Parquet for Spark, which writes its views as Parquet,
as its own materialized views are truncated and computed again. Three changes are made: the first refresh and the first
computation warm up what starts late, and the other two are measured. All views are compared at the end.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import pagestore
from ivm.spark import Feed, materialize

from ..cli.answers import table
from ..spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RULES = """
    sale[id] = (item, p) -> int(id), int(item), int(p).
    category[item] = c -> int(item), int(c).
    edge(x, y) -> int(x), int(y).
    line(id, c, p) <- sale[id] = (item, p), category[item] = c.
    turnover[item] = t <- agg<<t = sum(p)>> sale[_] = (item, p).
    tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).
"""
SQL = {
    "line": "SELECT id, c, p FROM sale JOIN category USING (item)",
    "turnover": "SELECT item, sum(p) AS t FROM sale GROUP BY item",
    "tri": "SELECT a.x, a.y, b.y AS z FROM edge a JOIN edge b ON a.y = b.x JOIN edge c ON c.x = a.x AND c.y = b.y",
}
SOURCES = {"sale": ("id: int64, item: int64, p: int64", "id"), "category": ("item: int64, c: int64", "item"),
           "edge": ("x: int64, y: int64", None)}  # fmt: skip
CHANGED = 1000  # one row of so many
DEGREE = 20  # edges of a node
ROUNDS = 3


class Tables:
    """The rows of the sources, of which some change each round: in a pagestore file, and as Parquet."""

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder, self.rng = folder, np.random.default_rng(1)
        self.items, self.nodes = max(rows // 100, 1), max(2 * rows // 5 // DEGREE, 2)
        sales = 3 * rows // 5
        self.sale = {"id": np.arange(sales), "item": self.draw(self.items, sales), "p": self.draw(10_000, sales)}
        category = pa.table({"item": np.arange(self.items), "c": self.draw(50, self.items)})
        self.edges = np.unique(self.draw(self.nodes**2, 2 * rows // 5))
        with pagestore.open(self.path, sync="off") as store, store.transaction() as txn:
            for name, (columns, key) in SOURCES.items():
                txn.create(name, columns, key=[key] if key else None)
            txn["category"].insert(category)
            txn["sale"].insert(pa.table(self.sale))
            txn["edge"].insert(self.edge_table(self.edges))
        pq.write_table(category, folder / "category.parquet")
        self.write()

    @property
    def path(self) -> Path:
        """The store's file."""
        return self.folder / "source.pages"

    def draw(self, below: int, n: int) -> np.ndarray:
        """Random numbers, int64[n]."""
        return self.rng.integers(0, below, n)

    def edge_table(self, words: np.ndarray) -> pa.Table:
        """Edges that are numbers x * nodes + y, as rows."""
        return pa.table({"x": words // self.nodes, "y": words % self.nodes})

    def change(self) -> None:
        """A thousandth of the sales gets another item and price; as many edges come and go."""
        there = self.draw(len(self.sale["id"]), len(self.sale["id"]) // CHANGED)
        self.sale["item"][there] = self.draw(self.items, len(there))
        self.sale["p"][there] = self.draw(10_000, len(there))
        half = len(self.edges) // CHANGED // 2
        gone = self.rng.choice(self.edges, half, replace=False)
        came = np.setdiff1d(self.draw(self.nodes**2, half), self.edges)
        self.edges = np.union1d(np.setdiff1d(self.edges, gone, assume_unique=True), came)
        there = np.unique(there)
        with pagestore.open(self.path, sync="off") as store, store.transaction() as txn:
            txn["sale"].set(pa.table({name: column[there] for name, column in self.sale.items()}))
            txn["edge"].delete(self.edge_table(gone))
            txn["edge"].insert(self.edge_table(came))
        self.write()

    def write(self) -> None:
        """The sources as they are now, for Spark."""
        pq.write_table(pa.table(self.sale), self.folder / "sale.parquet")
        pq.write_table(self.edge_table(self.edges), self.folder / "edge.parquet")


def refreshed(spark: "SparkSession", tables: Tables, strict: bool) -> int:
    """Refresh the views from the feeds; how many rows changed, which come as DataFrames."""
    feeds = {name: Feed(str(tables.path), name) for name in SOURCES}
    mode = "strict" if strict else "auto"
    views = materialize(spark, "views", RULES, feeds, tables.folder / "views.pages", mode, sync="off")
    return sum(views.changes(name).count() for name in SQL) if strict else 0


def recomputed(spark: "SparkSession", tables: Tables) -> dict[str, float]:
    """Have Spark compute each view and write it; the seconds of each."""
    for name in SOURCES:
        spark.read.parquet(str(tables.folder / f"{name}.parquet")).createOrReplaceTempView(name)
    found = {}
    for name, query in SQL.items():
        target = str(tables.folder / f"of-spark-{name}")
        found[name] = timed(lambda q=query, t=target: spark.sql(q).write.mode("overwrite").parquet(t))  # type: ignore[misc]
    return found


def timed(work: Callable[[], object]) -> float:
    """The seconds that something takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def compare(tables: Tables) -> dict[str, int]:
    """How many rows each view has. Raises AssertionError unless both have the same."""
    counts = {}
    with pagestore.open(tables.folder / "views.pages", mode="r") as store, store.snapshot() as snap:
        for name in SQL:
            ours = snap[name].to_arrow()
            theirs = pq.read_table(tables.folder / f"of-spark-{name}").select(ours.column_names)
            order = [(column, "ascending") for column in ours.column_names]
            theirs = theirs.cast(ours.schema).sort_by(order)
            assert ours.num_rows == theirs.num_rows, name
            for column in ours.column_names:
                assert pc.all(pc.equal(ours.sort_by(order)[column], theirs[column])).as_py() in (True, None), name
            counts[name] = ours.num_rows
    return counts


def main() -> None:
    """Measure, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, local_session("bench", options.cores) as spark:
        tables = Tables(Path(folder), options.rows)
        first = timed(lambda: refreshed(spark, tables, strict=False))
        print(f"{options.rows:,} rows; the first refresh, which evaluates, took {first:.1f} s\n")
        rows = []
        for number in range(ROUNDS):
            tables.change()
            changed: list[int] = []
            ours = timed(lambda found=changed: found.append(refreshed(spark, tables, strict=True)))  # type: ignore[misc]
            theirs = recomputed(spark, tables)
            total = sum(theirs.values())
            kind = "measured" if number else "warming up"
            seconds = [f"{s:.2f}" for s in (ours, *theirs.values(), total)]
            rows.append([kind, f"{changed[0]:,}", *seconds, f"{total / ours:.1f}"])
        header = ("round", "view rows changed", "refreshed, s", *(f"SQL {name}, s" for name in SQL), "SQL, s", "times")
        print(table(rows, header, str.isascii))
        print("\nequal:", ", ".join(f"{name} {count:,} rows" for name, count in compare(tables).items()))


if __name__ == "__main__":
    main()
