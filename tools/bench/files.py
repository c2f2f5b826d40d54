"""Benchmarks rows that come from files and go to files, in one process and by tasks of Spark, and views that follow.

python -m pagestore_tools.bench files --quick       Parquet and CSV, loaded, written and as edits, beside DuckDB
python -m pagestore_tools.bench loads --quick       several files in the order of the key, beside DuckDB and Spark
"""

import argparse
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

import ivm
import pagestore

from ..cli.answers import common, opened
from ..cli.rows import answer_rows, row_options
from ..loading.load import Spread, load
from .harness import Row, Side, Work

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
    yield Row(f"load {size:,} rows of Parquet", loads(loaded, base, ["id"]), 3, "s", 1, things=things)

    parser = argparse.ArgumentParser()
    common(parser)
    row_options(parser)
    printing = parser.parse_args([str(loaded), "-o", str(folder / "ours.parquet"), "--quiet"])

    def ours() -> int:
        with opened(printing) as store, store.snapshot() as snapshot:
            answer_rows(printing, snapshot["r"])
        return int(pq.read_metadata(folder / "ours.parquet").num_rows)

    def theirs() -> int:
        with duckdb.connect(loaded.with_suffix(".duckdb")) as other:
            other.execute(f"copy r to '{folder / 'theirs.parquet'}' (compression zstd)")
        return int(pq.read_metadata(folder / "theirs.parquet").num_rows)

    sides = [Side("pagestore", ours)]
    with suppress(ImportError):
        import duckdb

        sides.append(Side("DuckDB", theirs))
    yield Row(f"write {size:,} rows to Parquet", sides, 3, "s", 1, things=things)
    yield from _edits(folder, size, random)
    pyarrow.csv.write_csv(table(np.arange(CSV_ROWS), random), text)
    yield Row(f"load {CSV_ROWS:,} rows of CSV", loads(folder / "csv.pages", text, ["id"])[:1], 5, "s", 1)


def table(ids: np.ndarray, random: np.random.Generator) -> pa.Table:
    """Return rows of a text, an integer, another text that may be null, and a decimal."""
    town = pc.if_else(random.random(len(ids)) < LACKING, None, _texts("town", TOWNS, len(ids), random))
    item = _texts("item", ITEMS, len(ids), random)
    return pa.table({"item": item, "id": ids, "town": town, "price": _prices(len(ids), random)})


def _texts(stem: str, count: int, n: int, random: np.random.Generator) -> pa.Array:
    codes = pa.array(random.integers(0, count, n).astype(np.int32))
    return pa.DictionaryArray.from_arrays(codes, [f"{stem} {i:06}" for i in range(count)]).cast(pa.string())


def _prices(n: int, random: np.random.Generator) -> pa.Array:
    return pa.array(random.integers(0, 10**6, n)).cast(pa.decimal128(21, 2)).cast(pa.decimal128(9, 2))


def loads(file: Path, source: Path, key: list[str], spread: Spread | None = None) -> list[Side]:
    """Return the sides that load a file or a folder of files: into a new store, and with DuckDB into a table."""

    def ours() -> int:
        with pagestore.open(file) as store, store.transaction() as txn:
            return load(txn, "r", source, key, spread=spread).rows

    def theirs() -> int:
        with duckdb.connect(file.with_suffix(".duckdb")) as other:
            other.execute(f"create or replace table r as from '{source}{'/*.parquet' if source.is_dir() else ''}'")
            other.execute("checkpoint")
            return int(other.execute("select count(*) from r").fetchone()[0])

    sides = [Side("pagestore", ours, before=lambda: file.unlink(missing_ok=True))]
    with suppress(ImportError):
        import duckdb

        sides.append(Side("DuckDB", theirs))
    return sides


def _edits(folder: Path, size: int, random: np.random.Generator) -> Iterator[Row]:
    """Yield rows that append and upsert a tenth, without views and with two, and that load as much into a store of its
    own, also without views and with two, whose difference is what views take by themselves.
    """
    few = size // 10

    def write(name: str, ids: np.ndarray) -> Path:
        path = folder / f"{name}.parquet"
        pq.write_table(table(ids, random), path)
        return path

    base, odd = write("paid", np.arange(0, 2 * size, 2)), write("odd", 2 * random.permutation(size)[:few] + 1)
    some = random.permutation(2 * size)[:few]
    changed, back = write("changed", some), write("back", some)
    with pagestore.open(folder / "edits.pages", retain=2) as plain, ivm.open(folder / "views.pages", retain=2) as ws:
        ws.install(RULES, "rules")
        stores = {"no views": plain, "two views": ws.store}
        for store in stores.values():
            _edit(store, base, "replace" if "paid" in store.snapshot() else "create")
        alone = [_alone(folder, odd, few, rules) for rules in ("", RULES)]
        for mode, source, undo, undoing in (("append", odd, odd, "delete"), ("upsert", changed, back, "upsert")):
            sides = [
                Side(f"{mode}, {name}", partial(_edit, store, source, mode), partial(_edit, store, undo, undoing))
                for name, store in stores.items()
            ]
            yield Row(f"{mode} {few:,} of {size:,} rows", [*alone, *sides], 3, "s", 1)


def _edit(store: pagestore.Store, source: Path, mode: str) -> int:
    with store.transaction() as txn:
        return load(txn, "paid", source, ["id"], mode).rows


def _alone(folder: Path, source: Path, few: int, rules: str) -> Side:
    """Return a side that loads a file into a new store, with views by the rules."""
    file, held = folder / f"alone{bool(rules)}.pages", list[ivm.Workspace]()

    def before() -> None:
        for one in held:
            one.close()
        file.unlink(missing_ok=True)
        held[:] = [ivm.open(file)]
        held[0].install(rules, "rules")

    def ours() -> int:
        return _edit(held[0].store, source, "replace" if rules else "create")

    return Side(f"load {few:,} alone, {'two views' if rules else 'no views'}", ours, before=before)


# -- several files, in the order of the key, as `pagestore prepare` leaves them


def spread_rows(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield rows that load `size` rows of (int64, int64, text, decimal, nullable double): for each number of tasks in
    one process, with DuckDB, which makes no key, and by so many tasks of Spark, each with a core.
    """
    from ..spark.session import SparkCluster, local_session

    source, key = folder / "rows", ["a", "b"]
    write_ascending(source, options.size, PARTS)
    for cores in (1, 2):
        with local_session(f"bench {cores}", cores) as spark:
            tasks = loads(folder / "tasks.pages", source, key, Spread(SparkCluster(spark), folder / "segments"))[0]
            tasks.name = f"pagestore, tasks on local[{cores}]"
            sides = [*loads(folder / "one.pages", source, key), tasks]
            yield Row(f"load {options.size:,} rows, local[{cores}]", sides, 3, "s", 1, things=(options.size, "rows"))


def write_ascending(folder: Path, rows: int, files: int) -> None:
    """Write the rows as files that ascend by key, in zstd as Spark writes them."""
    random = np.random.default_rng(1)
    folder.mkdir()
    each = -(-rows // files)
    for number, start in enumerate(range(0, rows, each)):
        path = folder / f"part-{number:05}.parquet"
        with pq.ParquetWriter(path, _ascending(random, 0, 0).schema, compression="zstd") as writer:
            for begin in range(start, min(start + each, rows), CHUNK):
                writer.write_table(_ascending(random, begin, min(begin + CHUNK, start + each, rows)))
    (folder / "_SUCCESS").touch()


def _ascending(random: np.random.Generator, begin: int, end: int) -> pa.Table:
    """Return the rows whose keys are numbers from `begin` on and below `end`, in two columns."""
    numbers, n = np.arange(begin, end), end - begin
    towns, prices = _texts("town", ITEMS, n, random), _prices(n, random)
    weight = pa.array(random.random(n), mask=random.random(n) < LACKING)
    columns = [pa.array(numbers // 8), pa.array(numbers % 8 * 1000), towns, prices, weight]
    return pa.table(columns, names=["a", "b", "town", "price", "weight"])


FILES = Work("file bench", rows, 10_000_000, 500_000)
LOADS = Work("load bench", spread_rows, 10_000_000, 200_000)
