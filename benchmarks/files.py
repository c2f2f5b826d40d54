"""Benchmarks rows that come from files and go to files, in one process and by tasks of Spark,
and views that follow.
"""

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

import ivm
import pagestore
from pagestore_tools.bench.harness import Row, Side, Work, those_installed
from pagestore_tools.cli.answers import common, opened
from pagestore_tools.cli.rows import answer_rows, row_options
from pagestore_tools.loading.load import Spread, load

RULES = """
    paid[id] = (item, town, price) -> int(id), string(item), string?(town), decimal(9, 2)(price).
    high(id) <- paid:price[id] = p, p > 9000.00.
    total[] = t <- agg<<t = sum(p)>> paid:price[_] = p.
"""
LACKING = 0.1  # of towns and weights
CSV_ROWS = 100_000
ITEMS, TOWNS = 100_000, 1_000  # distinct texts
PARTS = 4  # files that `loads` loads
CHUNK = 1_000_000  # rows that are made at a time


def rows(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield rows for tables of `size` rows, and a tenth of that for edits."""
    random, size = np.random.default_rng(1), options.size
    base, loaded, text = folder / "base.parquet", folder / "loaded.pages", folder / "base.csv"
    pq.write_table(table(np.arange(0, 2 * size, 2), random), base)
    things = size, "rows"
    yield Row(
        f"load {size:,} rows of Parquet", loads(loaded, base, ["id"]), 3, "s", 1, things=things
    )
    yield Row(f"write {size:,} rows to Parquet", _writes(folder, loaded), 3, "s", 1, things=things)
    yield from _edits(folder, size, random)
    pyarrow.csv.write_csv(table(np.arange(CSV_ROWS), random), text)
    yield Row(
        f"load {CSV_ROWS:,} rows of CSV", loads(folder / "csv.pages", text, ["id"])[:1], 5, "s", 1
    )


def table(ids: np.ndarray, random: np.random.Generator) -> pa.Table:
    """Return rows of a text, an integer, another text that may be null, and a decimal."""
    town = pc.if_else(
        random.random(len(ids)) < LACKING, None, _texts("town", TOWNS, len(ids), random)
    )
    item = _texts("item", ITEMS, len(ids), random)
    return pa.table({"item": item, "id": ids, "town": town, "price": _prices(len(ids), random)})


def _texts(stem: str, count: int, n: int, random: np.random.Generator) -> pa.Array:
    codes = pa.array(random.integers(0, count, n).astype(np.int32))
    return pa.DictionaryArray.from_arrays(codes, [f"{stem} {i:06}" for i in range(count)]).cast(
        pa.string()
    )


def _prices(n: int, random: np.random.Generator) -> pa.Array:
    return (
        pa.array(random.integers(0, 10**6, n)).cast(pa.decimal128(21, 2)).cast(pa.decimal128(9, 2))
    )


def loads(file: Path, source: Path, key: list[str], spread: Spread | None = None) -> list[Side]:
    """Return the sides that load a file or a folder of files: into a new store, and with DuckDB
    into a table.
    """

    def ours() -> int:
        with pagestore.open(file) as store, store.transaction() as txn:
            return load(txn, "r", source, key, spread=spread).rows

    def theirs() -> int:
        with _duckdb(file) as other:
            other.execute(
                f"create or replace table r as from "
                f"'{source}{'/*.parquet' if source.is_dir() else ''}'"
            )
            other.execute("checkpoint")
            return int(other.execute("select count(*) from r").fetchone()[0])

    return those_installed(
        Side("pagestore", ours, lambda: file.unlink(missing_ok=True)), Side("DuckDB", theirs)
    )


def _writes(folder: Path, loaded: Path) -> list[Side]:
    """Return the sides that write to Parquet what they have loaded."""
    mine, its = folder / "ours.parquet", folder / "theirs.parquet"

    def ours() -> int:
        parser = argparse.ArgumentParser()
        common(parser)
        row_options(parser)
        options = parser.parse_args([str(loaded), "-o", str(mine), "--quiet"])
        with opened(options) as store, store.snapshot() as snapshot:
            answer_rows(options, snapshot["r"])
        return int(pq.read_metadata(mine).num_rows)

    def theirs() -> int:
        with _duckdb(loaded) as other:
            other.execute(f"copy r to '{its}' (compression zstd)")
        return int(pq.read_metadata(its).num_rows)

    return those_installed(Side("pagestore", ours), Side("DuckDB", theirs))


def _duckdb(store: Path) -> Any:
    import duckdb

    return duckdb.connect(store.with_suffix(".duckdb"))


def _edits(folder: Path, size: int, random: np.random.Generator) -> Iterator[Row]:
    """Yield rows that append and upsert a tenth, without views and with two, and that load as much
    into a store of its own, also without views and with two, whose difference is what views take by
    themselves.
    """
    few = size // 10
    some = random.permutation(2 * size)[:few]
    ids = {
        "base": np.arange(0, 2 * size, 2),
        "odd": 2 * random.permutation(size)[:few] + 1,
        "new": some,
        "back": some,
    }
    files = {name: folder / f"{name}-paid.parquet" for name in ids}
    for name, file in files.items():
        pq.write_table(table(ids[name], random), file)
    kinds = {"no views": "", "two views": RULES}
    stores = {name: _Following(folder / f"{name}.pages", rules) for name, rules in kinds.items()}
    alone = {
        name: _Following(folder / f"{name} alone.pages", rules) for name, rules in kinds.items()
    }
    for store in stores.values():
        store.empty()
        store.load(files["base"])
    sides = [
        Side(f"load {few:,} alone, {name}", partial(store.load, files["odd"]), store.empty)
        for name, store in alone.items()
    ]
    for mode, done, undone, undoing in (
        ("append", "odd", "odd", "delete"),
        ("upsert", "new", "back", "upsert"),
    ):
        edits = [
            Side(
                f"{mode}, {name}",
                partial(store.load, files[done], mode),
                partial(store.load, files[undone], undoing),
            )
            for name, store in stores.items()
        ]
        yield Row(f"{mode} {few:,} of {size:,} rows", [*sides, *edits], 3, "s", 1)
    for store in (*stores.values(), *alone.values()):
        store.held.close()


class _Following:
    """A store into which files are loaded, with views by the rules."""

    def __init__(self, file: Path, rules: str) -> None:
        self.file, self.rules = file, rules
        self.held = ivm.open(file)

    def empty(self) -> None:
        """Make the store anew."""
        self.held.close()
        self.file.unlink()
        self.held = ivm.open(self.file, retain=2)
        self.held.install(self.rules, "rules")

    def load(self, source: Path, mode: str = "") -> int:
        """Load a file into `paid`, which is new or empty unless there is a mode."""
        with self.held.store.transaction() as txn:
            return load(
                txn, "paid", source, ["id"], mode or ("replace" if self.rules else "create")
            ).rows


# -- several files, in the order of the key, as `pagestore prepare` leaves them


def spread_rows(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield rows that load `size` rows of (int64, int64, text, decimal, nullable double): for each
    number of tasks in one process, with DuckDB, which makes no key, and by so many tasks of Spark,
    each with a core.
    """
    from pagestore_tools.spark.session import SparkCluster, local_session

    source, key = folder / "rows", ["a", "b"]
    write_ascending(source, options.size, PARTS)
    for cores in (1, 2):
        with local_session(f"bench {cores}", cores) as spark:
            tasks = loads(
                folder / "tasks.pages",
                source,
                key,
                Spread(SparkCluster(spark), folder / "segments"),
            )[0]
            tasks.name = f"pagestore, tasks on local[{cores}]"
            sides = [*loads(folder / "one.pages", source, key), tasks]
            yield Row(
                f"load {options.size:,} rows, local[{cores}]",
                sides,
                3,
                "s",
                1,
                things=(options.size, "rows"),
            )


def write_ascending(folder: Path, rows: int, files: int) -> None:
    """Write rows whose keys are numbers in two columns as files that ascend by key, in zstd as
    Spark writes them.
    """
    random = np.random.default_rng(1)
    folder.mkdir()
    for number, part in enumerate(np.array_split(np.arange(rows), files)):
        n = len(part)
        weight = pa.array(random.random(n), mask=random.random(n) < LACKING)
        columns = [
            part // 8,
            part % 8 * 1000,
            _texts("town", ITEMS, n, random),
            _prices(n, random),
            weight,
        ]
        made = pa.table(columns, names=["a", "b", "town", "price", "weight"])
        pq.write_table(made, folder / f"part-{number:05}.parquet", compression="zstd")
    (folder / "_SUCCESS").touch()


FILES = Work("file bench", rows, 10_000_000, 500_000)
LOADS = Work("load bench", spread_rows, 10_000_000, 200_000)
