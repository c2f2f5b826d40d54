"""Benchmarks keys that are texts: scans in order, ranges, prefixes and look-ups, and what nullable columns cost.

python -m pagestore_tools.bench.texts --quick
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import pagestore

from .measure import Row, Side
from .run import arguments, bench

CALLS = 1_000
BATCH = 100_000
RANGE, PREFIX = 100, 1_000  # texts that a range and a prefix hold
DIGITS = 9  # of the number that a text begins with: its last three are those of one prefix
FILLING = "abcdefghijklmnopqrstuvwxyz-/"  # a text has 3 to 31 letters of it behind its number, as 12 to 40 bytes


def run(options: argparse.Namespace) -> int:
    """Run the benchmark; the exit code."""
    with tempfile.TemporaryDirectory(prefix="pagestore-bench-") as folder:
        return bench("text bench", rows(Path(folder), 1_000_000 if options.quick else 10_000_000), options)


def rows(folder: Path, size: int) -> Iterator[Row]:
    """All rows of the benchmark, over relations with `size` records."""
    keys, numbers = texts(size), np.arange(size)
    with pagestore.open(folder / "texts.pages", sync="off", retain=2) as store:
        for mark in ("", "?"):
            with store.transaction() as txn:
                relation = txn.create(f"ids{mark}", f"id: string, n: int64{mark}", key="id")
                relation.insert(pa.table({"id": keys, "n": numbers}))
        yield from _scans(store, folder, keys, size)
        yield from _looks(store, keys)


def texts(size: int) -> pa.Array:
    """`size` distinct texts of 12 to 40 bytes, in order: a number, and letters behind it."""
    numbers = pc.utf8_lpad(pa.array(np.arange(size)).cast(pa.string()), DIGITS, "0")
    tails = pa.array([(FILLING * 2)[at : at + length] for at in range(28) for length in range(3, 32)])
    chosen = np.random.default_rng(1).integers(0, len(tails), size)
    return pc.binary_join_element_wise(numbers, tails.take(pa.array(chosen)), "")


def _scans(store: pagestore.Store, folder: Path, keys: pa.Array, size: int) -> Iterator[Row]:
    snapshot = store.snapshot()

    def scan(name: str) -> Callable[[], int]:
        return lambda: snapshot[name].to_arrow().num_rows

    sides = [Side("pagestore", scan("ids")), Side("pagestore, nullable", scan("ids?"))]
    try:
        import lmdb
    except ImportError:
        yield Row("scan in order to Arrow", sides, 5, things=(size, "texts"))
        return
    with lmdb.open(str(folder / "lmdb"), map_size=1 << 34, sync=False) as other:
        with other.begin(write=True) as txn:
            pairs = ((text.encode(), number.to_bytes(8, "big")) for number, text in enumerate(keys.to_pylist()))
            txn.cursor().putmulti(pairs, append=True)

        def walk() -> int:
            with other.begin(buffers=True) as txn:
                return sum(1 for _ in txn.cursor())

        yield Row("scan in order to Arrow", [*sides, Side("LMDB", walk)], 5, things=(size, "texts"))


def _looks(store: pagestore.Store, keys: pa.Array) -> Iterator[Row]:
    relation, size = store.snapshot()["ids"], len(keys)
    starts = np.random.default_rng(2).integers(0, size - RANGE, CALLS).tolist()
    ends = [(keys[at].as_py(), keys[at + RANGE].as_py()) for at in starts]
    begins = [f"{at // PREFIX:0{DIGITS - 3}}" for at in starts]
    some = [keys[at].as_py() for at in starts]
    many = keys.take(pa.array(np.random.default_rng(3).integers(0, size, BATCH)))

    def ranges() -> int:
        return sum(relation.range((lo,), (hi,)).to_arrow().num_rows for lo, hi in ends)

    def prefixes() -> int:
        return sum(relation.starts_with(begin).to_arrow().num_rows for begin in begins)

    def gets() -> int:
        return sum(relation.get(text) for text in some)

    def batch() -> int:
        return int(relation.get_many([many])[0].sum())

    for name, ask, calls in (
        (f"range of {RANGE} texts", ranges, CALLS),
        (f"prefix of {PREFIX:,} texts", prefixes, CALLS),
        ("get one by a text", gets, CALLS),
        ("get by texts in a batch, each", batch, BATCH),
    ):
        yield Row(name, [Side("pagestore", ask)], 7, "µs", 1e6 / calls)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments(parser)
    sys.exit(run(parser.parse_args()))
