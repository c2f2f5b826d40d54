"""Three views of five million rows, refreshed after a change of 0.1 %, beside Spark SQL that
computes them again.

    line(id, c, p)      a join of sales with the category of their item
    turnover[item] = t  an aggregate
    tri(x, y, z)        triangles of a random graph

The rows are in a pagestore file that a `Feed` follows, and in Parquet for Spark, which writes its
views as Parquet, as its own materialized views are truncated and computed again. The first refresh
and the first computation, which start much that starts late, are not measured; then changes are
made, and both are measured. All views are compared at the end.
"""

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow.parquet as pq

import pagestore
from ivm.spark import Feed, materialize
from pagestore_tools.bench.harness import Row, Side, Work, timed

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
    "tri": "SELECT a.x, a.y, b.y AS z FROM edge a JOIN edge b ON a.y = b.x JOIN edge c ON c.x = "
    "a.x AND c.y = b.y",
}
SOURCES = {"sale": ("id: int64, item: int64, p: int64", ["id"]),
    "category": ("item: int64, c: int64", ["item"]),
           "edge": ("x: int64, y: int64", None)}  # fmt: skip
CHANGED = 1000  # one row of so many
DEGREE = 20  # edges of a node
CORES, ROUNDS = 2, 2


def rows(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield the row of a refresh, by changes and by each query of Spark."""
    from pagestore_tools.spark.session import local_session

    with local_session("bench", CORES) as spark:
        tables = Tables(folder, options.size)
        first = Side("ivm", lambda: timed(partial(refreshed, spark, tables, strict=False)))
        yield Row(
            f"the first refresh of views of {options.size:,} rows", [first], 1, "s", 1, told=True
        )
        changed: list[float] = []

        def refresh() -> float:
            return timed(lambda: changed.append(refreshed(spark, tables, strict=True)))

        tables.change(spark)
        refresh()
        for name in SQL:
            recomputed(spark, tables, name)
        sides = [
            Side(
                "ivm", refresh, partial(tables.change, spark), lambda: {"rows changed": changed[-1]}
            )
        ]
        sides += [
            Side(f"Spark SQL, {name}", partial(recomputed, spark, tables, name)) for name in SQL
        ]
        yield Row("refreshed after a change of 0.1 %", sides, ROUNDS, "s", 1, told=True)
        print(
            "equal:", ", ".join(f"{name} {count:,} rows" for name, count in compare(tables).items())
        )


class Tables:
    """The rows of the sources, of which some change each round: in a pagestore file, and as
    Parquet.
    """

    def __init__(self, folder: Path, rows: int) -> None:
        self.folder, self.path, self.rng = folder, folder / "source.pages", np.random.default_rng(1)
        self.items, self.nodes, self.sales = (
            max(rows // 100, 1),
            max(2 * rows // 5 // DEGREE, 2),
            3 * rows // 5,
        )
        items = np.arange(self.items)
        with pagestore.open(self.path, sync="off") as store, store.transaction() as txn:
            for name, (columns, key) in SOURCES.items():
                txn.create(name, columns, key=key)
            txn["category"].insert([items, self.rng.integers(0, 50, self.items)])
            txn["sale"].insert(self._some_sales(np.arange(self.sales)))
            txn["edge"].insert(self._some_edges(2 * rows // 5))

    def _some_sales(self, ids: np.ndarray) -> list[np.ndarray]:
        return [
            ids,
            self.rng.integers(0, self.items, len(ids)),
            self.rng.integers(0, 10_000, len(ids)),
        ]

    def _some_edges(self, n: int) -> list[np.ndarray]:
        return [*np.unique(self.rng.integers(0, self.nodes, (2, n)), axis=1)]

    def change(self, spark: "SparkSession") -> None:
        """Give a thousandth of the sales another item and price, replace as many edges, and
        write all for Spark.
        """
        with pagestore.open(self.path, sync="off") as store:
            with store.transaction() as txn:
                edges = txn["edge"].to_arrow()
                half = len(edges) // CHANGED // 2
                txn["sale"].set(
                    self._some_sales(
                        self.rng.choice(self.sales, self.sales // CHANGED, replace=False)
                    )
                )
                txn["edge"].delete(edges.take(self.rng.choice(len(edges), half, replace=False)))
                txn["edge"].insert(self._some_edges(half))
            for name in SOURCES:
                file = str(self.folder / f"{name}.parquet")
                pq.write_table(store.snapshot()[name].to_arrow(), file)
                spark.read.parquet(file).createOrReplaceTempView(name)


def refreshed(spark: "SparkSession", tables: Tables, strict: bool) -> int:
    """Refresh the views from the feeds; return how many rows changed, which come as DataFrames."""
    feeds = {name: Feed(str(tables.path), name) for name in SOURCES}
    mode: Literal["strict", "auto"] = "strict" if strict else "auto"
    views = materialize(
        spark, "views", RULES, feeds, tables.folder / "views.pages", mode, sync="off"
    )
    return sum(views.changes(name).count() for name in SQL) if strict else 0


def recomputed(spark: "SparkSession", tables: Tables, name: str) -> float:
    """Have Spark compute a view and write it; return the seconds."""
    target = str(tables.folder / f"of-spark-{name}")
    return timed(lambda: spark.sql(SQL[name]).write.mode("overwrite").parquet(target))


def compare(tables: Tables) -> dict[str, int]:
    """Return how many rows each view has. Raises AssertionError unless both have the same."""
    counts = {}
    with pagestore.open(tables.folder / "views.pages", mode="r") as store, store.snapshot() as snap:
        for name in SQL:
            ours = snap[name].to_arrow()
            theirs = (
                pq.read_table(tables.folder / f"of-spark-{name}")
                .select(ours.column_names)
                .cast(ours.schema)
            )
            order = [(column, "ascending") for column in ours.column_names]
            assert ours.sort_by(order).equals(theirs.sort_by(order)), name
            counts[name] = ours.num_rows
    return counts


REFRESH = Work("refresh bench", rows, 5_000_000, 100_000)
