"""`pagestore bench`: sorted tuples of two integers, in this store and in others that are installed."""

import argparse
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np

import pagestore

from . import engines, scans
from . import run as turns
from .engines import Engine, Pagestore
from .measure import Row, Side
from .traffic import Traffic

KEYS = 100_000  # in a batch of gets
SINGLES = 10_000  # gets one by one; many, since a snapshot's first get takes as long as a hundred
EDITS = 1_000  # in a batch of puts
COUNTED = 10  # commits whose traffic is counted
CHANGES = 100  # between two versions
FLOOR_BYTES = 1 << 24


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    turns.arguments(parser)
    parser.add_argument("--rows", metavar="N", type=int, help="rows of the tables, instead of 1,000,000")


def run(options: argparse.Namespace) -> int:
    """Run the benchmark; the exit code."""
    size = options.rows or (20_000 if options.quick else 1_000_000)
    with tempfile.TemporaryDirectory(prefix="pagestore-bench-") as folder:
        return turns.bench("pagestore bench", rows(Path(folder), size), options)


def rows(folder: Path, size: int) -> Iterator[Row]:
    """All rows of the benchmark; after the row of loads, each engine loads once more for the rows that follow."""
    kinds: list[type[Engine]] = [Pagestore, *engines.installed(size)]
    data = tuples(size)
    yield Row(
        f"load {size:,} sorted rows, durable",
        [_load(kind, data, folder / kind.name) for kind in kinds],
        rounds=3,
        unit="s",
        scale=1,
    )
    stores = [_filled(kind, data, folder / kind.name) for kind in kinds]
    yield from _reads(stores, data)
    yield _writes(stores, data, "unsynced", EDITS)
    yield _newest(stores[0], data)
    for store in stores:
        store.close()
    stores = [kind(folder / kind.name, True) for kind in kinds]
    yield _writes(stores, data, "synced", 1, [Side("two syncs, nothing else", _floor(folder / "floor"))])
    for store in stores:
        store.close()
    ids, prices = scans.STEP * np.arange(size), np.random.default_rng(1).integers(0, 10**6, size)
    with pagestore.open(folder / "scans.pages", sync="off", retain=2) as sales:
        scans.fill(sales, "sales", ids, prices, ["sum:price"])
        yield from scans.against_duckdb(sales, folder, ids, prices)


def tuples(size: int) -> np.ndarray:
    """About `size` sorted rows int64[2, n], distinct: sixteen to a first column, wide second columns."""
    random = np.random.default_rng(3)
    rows = np.stack([random.integers(0, max(1, size // 16), size), random.integers(0, 1 << 40, size)])
    rows = rows[:, np.lexsort(rows[::-1])]
    return rows[:, np.concatenate([[True], (rows[:, 1:] != rows[:, :-1]).any(axis=0)])]


def _load(kind: type[Engine], data: np.ndarray, folder: Path) -> Side:
    counts = {}

    def empty() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()

    def load() -> None:
        store = kind(folder, True)
        store.load(data)
        counts["bytes/row"] = round(store.size() / data.shape[1], 1)
        store.close()

    return Side(kind.name, load, empty, lambda: counts)


def _filled(kind: type[Engine], data: np.ndarray, folder: Path) -> Engine:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    store = kind(folder, False)
    store.load(data)
    return store


def _reads(stores: list[Engine], data: np.ndarray) -> Iterator[Row]:
    shuffled = data[:, np.random.default_rng(4).integers(0, data.shape[1], KEYS)]
    in_order = shuffled[:, np.lexsort(shuffled[::-1])]
    singles = list(zip(*shuffled[:, :SINGLES].tolist(), strict=True))
    for order, keys in (("random order", shuffled), ("sorted", in_order)):
        sides = [Side(s.name, _call(s.get, keys)) for s in stores]
        sides[1:1] = [Side(f"{s.name}, two threads", _call(s.get, keys, 2)) for s in stores if isinstance(s, Pagestore)]
        yield Row(f"get in a batch, {order}, each", sides, unit="µs", scale=1e6 / KEYS)
    yield Row(
        "get one from Python",
        [Side(s.name, _call(s.each, singles)) for s in stores],
        unit="µs",
        scale=1e6 / SINGLES,
    )
    yield Row("scan to numpy", [Side(s.name, _call(s.scan, data.shape[1])) for s in stores])
    columnar = [Side(s.name, _call(s.arrow, data.shape[1])) for s in stores if hasattr(s, "arrow")]
    yield Row("scan to Arrow", columnar)


def _writes(stores: list[Engine], data: np.ndarray, sync: str, edits: int, more: Sequence[Side] = ()) -> Row:
    """A row for commits of new rows at random places; each store gets the same batches."""
    random = np.random.default_rng(5)
    batches = [np.stack([random.choice(data[0], edits), random.integers(1 << 41, 1 << 42, edits)]) for _ in range(50)]
    sides = [_writing(store, iter(batches)) for store in stores]
    name = f"put {edits:,} new {'row' if edits == 1 else 'rows'} in a commit, {sync}"
    return Row(name, [*sides, *more], rounds=30, stretch=10)


def _writing(store: Engine, batches: Iterator[np.ndarray]) -> Side:
    """A side that commits the next batch. The traffic is counted after the timed runs, since counting takes time."""

    def counts() -> dict[str, float]:
        if not isinstance(store, Pagestore):
            return {}
        traffic = Traffic(store.store)
        for batch in islice(batches, COUNTED):
            store.put(batch)
        traffic.stop()
        names = "bytes", "writes", "syncs"
        return {name: round(getattr(traffic, name) / COUNTED, 1) for name in names}

    return Side(store.name, lambda: store.put(next(batches)), counts=counts)


def _newest(ours: Engine, data: np.ndarray) -> Row:
    """A row for the difference of two versions of this store."""
    assert isinstance(ours, Pagestore)
    ours.put(np.stack([np.random.default_rng(6).choice(data[0], CHANGES), np.arange(CHANGES) - CHANGES]))
    return Row(f"diff of two versions, {CHANGES} changes", [Side(ours.name, ours.newest)], rounds=15)


def _floor(file: Path) -> Callable[[], None]:
    """The least that the disk has to do for a durable commit: write some pages, sync, write one page, sync."""
    page, places = bytes(8192), np.random.default_rng(7).integers(1, FLOOR_BYTES // 8192, (1000, 3)).tolist()
    file.write_bytes(bytes(FLOOR_BYTES))

    def commit() -> None:
        with file.open("r+b", buffering=0) as out:
            for place in places.pop():
                os.pwrite(out.fileno(), page, 8192 * place)
            os.fdatasync(out.fileno())
            os.pwrite(out.fileno(), page[:4096], 0)
            os.fdatasync(out.fileno())

    return commit


def _call(method: Callable[..., object], *arguments: object) -> Callable[[], object]:
    return lambda: method(*arguments)
