"""Ten million rows of Parquet into a relation: in one process, beside DuckDB, and built by tasks of Spark.

    python -m pagestore_tools.bench.loads [--rows 10000000] [--files 4] [--times 3]

A row is (int64, int64, text, decimal(9,2), nullable double), its key the first two columns, in which the files ascend,
as `pagestore prepare` leaves them. All take turns; the least time of each counts. DuckDB, where it is installed, makes
a table in its file, with a checkpoint, and no key. Each task of Spark has a core: local[1], then local[2].
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import pagestore

from ..cli.answers import table
from ..loading.load import Spread, load
from ..spark.session import SparkCluster, local_session

KEY = ["a", "b"]
TOWNS = 100_000  # distinct texts
CHUNK = 1_000_000  # rows that are made at a time


def write(folder: Path, rows: int, files: int) -> None:
    """The rows as files that ascend by key, in zstd as Spark writes them."""
    random = np.random.default_rng(1)
    folder.mkdir()
    each = -(-rows // files)
    for number, start in enumerate(range(0, rows, each)):
        path = folder / f"part-{number:05}.parquet"
        with pq.ParquetWriter(path, part(random, 0, 0).schema, compression="zstd") as writer:
            for begin in range(start, min(start + each, rows), CHUNK):
                writer.write_table(part(random, begin, min(begin + CHUNK, start + each, rows)))
    (folder / "_SUCCESS").touch()


def part(random: np.random.Generator, begin: int, end: int) -> pa.Table:
    """The rows whose keys are numbers from `begin` on and below `end`, in two columns."""
    numbers, n = np.arange(begin, end), end - begin
    towns = pa.DictionaryArray.from_arrays(
        pa.array(random.integers(0, TOWNS, n).astype(np.int32)), [f"town {i:06}" for i in range(TOWNS)]
    )
    price = pa.array(random.integers(0, 10**6, n)).cast(pa.decimal128(21, 2)).cast(pa.decimal128(9, 2))
    weight = pa.array(random.random(n), mask=random.random(n) < 0.1)
    columns = [pa.array(numbers // 8), pa.array(numbers % 8 * 1000), towns.cast(pa.string()), price, weight]
    return pa.table(columns, names=["a", "b", "town", "price", "weight"])


def ours(source: Path, file: Path, spread: Spread | None = None) -> None:
    """Load into a new store, and commit."""
    with pagestore.open(file) as store, store.transaction() as txn:
        load(txn, "r", source, KEY, spread=spread)


def theirs(source: Path, file: Path) -> None:
    """The same with DuckDB. Raises ImportError."""
    import duckdb

    with duckdb.connect(str(file)) as connection:
        connection.execute(f"create table r as from '{source}/*.parquet'")
        connection.execute("checkpoint")


def seconds(work: Callable[[Path], None], file: Path, times: int) -> Iterator[float]:
    """How long it takes to make a file, each time."""
    for _ in range(times):
        file.unlink(missing_ok=True)
        began = time.perf_counter()
        work(file)
        yield time.perf_counter() - began


@contextmanager
def building(cores: int, source: Path, folder: Path) -> Iterator[Callable[[Path], None]]:
    """What builds a store with so many tasks at a time."""
    with local_session(f"bench {cores}", cores) as spark:
        yield lambda file: ours(source, file, Spread(SparkCluster(spark), folder / "segments"))


def measure(folder: Path, source: Path, times: int) -> dict[str, float]:
    """The least time of each way to load."""
    ways: dict[str, Callable[[Path], None]] = {"in one process": lambda file: ours(source, file)}
    with suppress(ImportError):
        import duckdb

        ways[f"DuckDB {duckdb.__version__}"] = lambda file: theirs(source, file)
    found: dict[str, list[float]] = {}
    for cores in (1, 2):
        with building(cores, source, folder) as build:
            list(seconds(build, folder / "warm.pages", 1))
            for _ in range(times):
                for name, work in {**ways, f"tasks on local[{cores}]": build}.items():
                    found.setdefault(name, []).extend(seconds(work, folder / f"{len(name)}.store", 1))
    return {name: min(taken) for name, taken in found.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "rows", options.rows, options.files)
        found = measure(folder, folder / "rows", options.times)
    one = found["in one process"]
    shown = [[name, f"{s:.1f}", f"{options.rows / s / 1e6:.2f}", f"{one / s:.2f}"] for name, s in found.items()]
    print(f"{options.rows:,} rows in {options.files} files\n")
    print(table(shown, ("load", "s", "million rows a s", "times one process"), str.isascii))


if __name__ == "__main__":
    main()
