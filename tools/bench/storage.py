"""`pagestore bench`: sorted tuples of two integers, in our store and in those of others, if installed."""

import argparse
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from . import engines
from .engines import Engine
from .measure import Row, Side
from .run import arguments, bench

__all__ = ["arguments", "run"]

KEYS = 100_000  # of a batch of gets
SINGLES = 1_000  # of gets one by one
EDITS = 1_000  # of a batch of puts


def run(options: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="pagestore-bench-") as folder:
        return bench("pagestore bench", rows(Path(folder), 100_000 if options.quick else 1_000_000), options)


def rows(folder: Path, size: int) -> Iterator[Row]:
    """All rows of the benchmark; each engine loads once more for what comes after the loads."""
    kinds: list[type[Engine]] = [engines.Pagestore, *engines.installed()]
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
    yield from _writes(stores, data, "unsynced", EDITS)
    for store in stores:
        store.close()
    yield from _writes([kind(folder / kind.name, True) for kind in kinds], data, "synced", 1)


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
        sides = [Side(store.name, _call(store.get, keys)) for store in stores]
        yield Row(f"get in a batch, {order}, each", sides, unit="µs", scale=1e6 / KEYS)
    yield Row(
        "get one from Python",
        [Side(s.name, _call(s.each, singles)) for s in stores],
        unit="µs",
        scale=1e6 / SINGLES,
    )
    yield Row("scan to numpy", [Side(s.name, _call(s.scan, data.shape[1])) for s in stores])


def _writes(stores: list[Engine], data: np.ndarray, sync: str, edits: int) -> Iterator[Row]:
    """Commits of new rows at random places, other ones each time, the same for every store."""
    random = np.random.default_rng(5)
    batches = [np.stack([random.choice(data[0], edits), random.integers(1 << 41, 1 << 42, edits)]) for _ in range(40)]
    sides = [Side(store.name, _each_call(store.put, batches)) for store in stores]
    yield Row(f"put {edits:,} new rows in a commit, {sync}", sides, rounds=30)


def _each_call(method: Callable, batches: list) -> Callable[[], object]:
    """Every call takes the next batch."""
    rest = iter(batches)
    return lambda: method(next(rest))


def _call(method: Callable, *arguments: object) -> Callable[[], object]:
    return lambda: method(*arguments)
