"""Benchmarks rows that come from files and go to files, beside DuckDB if it is installed, and views that follow.

python -m pagestore_tools.bench.files --quick
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

import ivm
import pagestore

from ..cli.answers import common, opened
from ..cli.rows import answer_rows, row_options
from ..loading.load import load
from .measure import Row, Side
from .run import arguments, bench

RULES = """
    paid[id] = (item, town, price) -> int(id), string(item), string?(town), decimal(9, 2)(price).
    high(id) <- paid:price[id] = p, p > 9000.00.
    total[] = t <- agg<<t = sum(p)>> paid:price[_] = p.
"""
LACKING = 0.1  # of towns
CSV_ROWS = 100_000
ITEMS, TOWNS = 100_000, 1_000  # distinct texts


def run(options: argparse.Namespace) -> int:
    """Run the benchmark; the exit code."""
    with tempfile.TemporaryDirectory(prefix="pagestore-bench-") as folder:
        return bench("file bench", rows(Path(folder), 500_000 if options.quick else 10_000_000), options)


def rows(folder: Path, size: int) -> Iterator[Row]:
    """All rows of the benchmark, over tables of `size` rows, and a tenth of that for edits."""
    random = np.random.default_rng(1)
    base = folder / "base.parquet"
    pq.write_table(table(np.arange(0, 2 * size, 2), random), base)
    yield _loading(folder, base, size)
    yield _exporting(folder, base, size)
    yield from _edits(folder, size, random)
    text = folder / "base.csv"
    pyarrow.csv.write_csv(table(np.arange(CSV_ROWS), random), text)
    yield Row(f"load {CSV_ROWS:,} rows of CSV", [_load(folder / "csv.pages", text)], 5, "s", 1)


def table(ids: np.ndarray, random: np.random.Generator) -> pa.Table:
    """Rows of a text, an integer, another text that may be null, and a decimal."""

    def texts(stem: str, count: int) -> pa.Array:
        codes = pa.array(random.integers(0, count, len(ids)).astype(np.int32))
        return pa.DictionaryArray.from_arrays(codes, [f"{stem} {i:06}" for i in range(count)]).cast(pa.string())

    price = pa.array(random.integers(0, 10**6, len(ids))).cast(pa.decimal128(21, 2)).cast(pa.decimal128(9, 2))
    town = pc.if_else(random.random(len(ids)) < LACKING, None, texts("town", TOWNS))
    return pa.table({"item": texts("item", ITEMS), "id": ids, "town": town, "price": price})


def _loading(folder: Path, source: Path, size: int) -> Row:
    sides = [_load(folder / "loaded.pages", source)]
    with suppress(ImportError):
        import duckdb

        def theirs() -> int:
            with duckdb.connect(str(folder / "loaded.duckdb")) as other:
                other.execute(f"create or replace table r as from '{source}'")
                other.execute("checkpoint")
                (count,) = other.execute("select count(*) from r").fetchone()
            return int(count)

        sides.append(Side("DuckDB", theirs))
    return Row(f"load {size:,} rows of Parquet", sides, 3, "s", 1, things=(size, "rows"))


def _load(file: Path, source: Path) -> Side:
    def ours() -> int:
        with pagestore.open(file) as store, store.transaction() as txn:
            return load(txn, "r", source, ["id"]).rows

    return Side("pagestore", ours, before=lambda: file.unlink(missing_ok=True))


def _exporting(folder: Path, source: Path, size: int) -> Row:
    parser = argparse.ArgumentParser()
    common(parser)
    row_options(parser)
    options = parser.parse_args([str(folder / "loaded.pages"), "-o", str(folder / "ours.parquet"), "--quiet"])

    def ours() -> int:
        with opened(options) as store, store.snapshot() as snapshot:
            answer_rows(options, snapshot["r"])
        return int(pq.read_metadata(folder / "ours.parquet").num_rows)

    sides = [Side("pagestore", ours)]
    with suppress(ImportError):
        import duckdb

        def theirs() -> int:
            with duckdb.connect(str(folder / "loaded.duckdb")) as other:
                other.execute(f"copy r to '{folder / 'theirs.parquet'}' (compression zstd)")
            return int(pq.read_metadata(folder / "theirs.parquet").num_rows)

        sides.append(Side("DuckDB", theirs))
    return Row(f"write {size:,} rows to Parquet", sides, 3, "s", 1, things=(size, "rows"))


def _edits(folder: Path, size: int, random: np.random.Generator) -> Iterator[Row]:
    """Appending and upserting a tenth, without views and with two; and loading as much into a store of its own, also
    without views and with two, whose difference is what views take by themselves.
    """
    few = size // 10

    def write(name: str, ids: np.ndarray) -> Path:
        path = folder / f"{name}.parquet"
        pq.write_table(table(ids, random), path)
        return path

    base, odd = write("paid", np.arange(0, 2 * size, 2)), write("odd", 2 * random.permutation(size)[:few] + 1)
    some = random.permutation(2 * size)[:few]
    changed, back = write("changed", some), write("back", some)
    stores = {"no views": pagestore.open(folder / "edits.pages", retain=2)}
    with ivm.open(folder / "views.pages", retain=2) as ws:
        ws.install(RULES, "rules")
        stores["two views"] = ws.store
        for store in stores.values():
            _edit(store, base, "replace" if "paid" in store.snapshot() else "create")()
        alone = [_alone(folder, odd, few, rules) for rules in ("", RULES)]
        for mode, source, undo, undoing in (("append", odd, odd, "delete"), ("upsert", changed, back, "upsert")):
            sides = [
                Side(f"{mode}, {name}", _edit(store, source, mode), before=_edit(store, undo, undoing))
                for name, store in stores.items()
            ]
            yield Row(f"{mode} {few:,} of {size:,} rows", [*alone, *sides], 3, "s", 1)
    stores["no views"].close()


def _edit(store: pagestore.Store, source: Path, mode: str, relation: str = "paid") -> Callable[[], Any]:
    def edit() -> int:
        with store.transaction() as txn:
            return load(txn, relation, source, ["id"], mode).rows

    return edit


def _alone(folder: Path, source: Path, few: int, rules: str) -> Side:
    """Loading a file into a new store, with views by the rules."""
    file, held = folder / f"alone{bool(rules)}.pages", list[ivm.Workspace]()

    def before() -> None:
        for one in held:
            one.close()
        file.unlink(missing_ok=True)
        held[:] = [ivm.open(file)]
        held[0].install(rules, "rules")

    def ours() -> int:
        return int(_edit(held[0].store, source, "replace" if rules else "create")())

    return Side(f"load {few:,} alone, {'two views' if rules else 'no views'}", ours, before=before)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments(parser)
    sys.exit(run(parser.parse_args()))
