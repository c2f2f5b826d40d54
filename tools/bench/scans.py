"""Benchmarks range folds: a sum over half the records, beside DuckDB's, and how much a scan slows updates.

python -m pagestore_tools.bench.scans --quick
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import pagestore

from .measure import Row, Side
from .run import arguments, bench

SCHEMA = "id: int64, price: int64"
CALLS = 2_000
BATCH = 20_000
SUMS = 500  # a run's sums in a row: the first ones after another system's turn wait for memory
STEP = 3  # between ids
EDITS = 20_000


def run(options: argparse.Namespace) -> int:
    """Run the benchmark; the exit code."""
    with tempfile.TemporaryDirectory(prefix="pagestore-bench-") as folder:
        return bench("scan bench", rows(Path(folder), 1_000_000 if options.quick else 10_000_000), options)


def rows(folder: Path, size: int) -> Iterator[Row]:
    """All rows of the benchmark, over relations with `size` records."""
    ids, prices = STEP * np.arange(size), np.random.default_rng(1).integers(0, 10**6, size)
    with pagestore.open(folder / "scans.pages", sync="off", retain=2) as store:
        fill(store, "sales", ids, prices, ["count", "sum:price", "max:price"])
        yield from scans(store, size)
        yield from against_duckdb(store, folder, ids, prices)
    with pagestore.open(folder / "updates.pages", sync="off", retain=2) as store:
        yield updates(store, ids[: size // 10], prices[: size // 10])


def fill(store: pagestore.Store, name: str, ids: np.ndarray, prices: np.ndarray, scans: list[str]) -> None:
    """Create the relation `name` with these records and scans, in one bulk load."""
    with store.transaction() as txn:
        blocks = range(0, len(ids), 1 << 18)
        relation = txn.create(name, SCHEMA, key="id", scans=scans)
        relation.bulk([ids[at : at + (1 << 18)], prices[at : at + (1 << 18)]] for at in blocks)


def scans(store: pagestore.Store, size: int) -> Iterator[Row]:
    """Rows for scans of random intervals, one in a call, and many in a batch."""
    relation = store.snapshot()["sales"]
    lo, hi = np.sort(np.random.default_rng(2).integers(0, STEP * size, (2, BATCH)), axis=0)
    pairs = list(zip(lo[:CALLS].tolist(), hi[:CALLS].tolist(), strict=True))

    def called(text: str) -> Callable[[], object]:
        return lambda: [relation.range((a,), (b,)).scan(text) for a, b in pairs] and None

    def batched(text: str) -> Callable[[], object]:
        return lambda: relation.scan_many(text, [lo], [hi]) and None

    texts = relation.scans
    yield Row(f"scan of {size:,} records, a call", [Side(t, called(t)) for t in texts], 7, "µs", 1e6 / CALLS)
    yield Row(f"scan of {size:,} records, in a batch", [Side(t, batched(t)) for t in texts], 7, "µs", 1e6 / BATCH)


def against_duckdb(store: pagestore.Store, folder: Path, ids: np.ndarray, prices: np.ndarray) -> Iterator[Row]:
    """A row for the sum over half the records, here and in DuckDB if it is installed."""
    relation, size = store.snapshot()["sales"], len(ids)
    lo, hi = STEP * size // 4, 3 * STEP * size // 4

    def repeated(ask: Callable[[], int]) -> Callable[[], int]:
        return lambda: [ask() for _ in range(SUMS)][-1]

    sides = [Side("pagestore", repeated(lambda: relation.range((lo,), (hi,)).scan("sum:price")))]
    try:
        import duckdb
    except ImportError:
        yield Row("sum over half the records", sides, 9, "µs", 1e6 / SUMS)
        return
    with duckdb.connect(str(folder / "scans.duckdb")) as other:
        records = pa.table({"id": ids, "price": prices})
        other.execute("create table sales as select * from records")
        other.execute("checkpoint")
        query = "select sum(price)::bigint from sales where id >= ? and id < ?"
        sides.append(Side("DuckDB", repeated(lambda: other.execute(query, [lo, hi]).fetchone()[0])))
        assert len(records) == size
        yield Row("sum over half the records", sides, 9, "µs", 1e6 / SUMS)


def updates(store: pagestore.Store, ids: np.ndarray, prices: np.ndarray) -> Row:
    """A row for a batch that sets values all over a tree, without scans and with one of each kind."""
    random = np.random.default_rng(3)
    sides = []
    for scans in ([], ["max:price"], ["sum:price"], ["count"]):
        name = "with " + (scans[0] if scans else "no scan")
        fill(store, name, ids, prices, scans)
        sides.append(Side(name, _update(store, name, ids, random)))
    return Row(f"set {EDITS:,} of {len(ids):,} records", sides, 15)


def _update(store: pagestore.Store, name: str, ids: np.ndarray, random: np.random.Generator) -> Callable[[], object]:
    def run() -> None:
        with store.transaction() as txn:
            chosen = random.choice(ids, EDITS, replace=False)
            txn[name].set([chosen, random.integers(0, 10**6, EDITS)])

    return run


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments(parser)
    sys.exit(run(parser.parse_args()))
