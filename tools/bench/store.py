"""`pagestore bench` and the benchmarks of relations: tuples of integers, and folds over them, here
and in other stores.

An engine is a store of sorted tuples int64[2, n] in a file. It loads sorted rows into an empty
store; puts rows in one transaction; returns how many of some rows there are, looked up as a batch
(`get`) or one by one (`each`); and reads the first rows into numpy, returning the sum of their
second column (`scan`), or into Arrow, returning their number.
"""

import argparse
import os
import shutil
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import pagestore
from pagestore.host import get

from .harness import Row, Side, Work, duckdb_with, installed, those_installed
from .meter import Meter

KEYS = 100_000  # in a batch of gets
SINGLES = 10_000  # gets one by one; many, since a snapshot's first get takes as long as a hundred
EDITS = 1_000  # in a batch of puts
COUNTED = 10  # commits whose traffic is counted
CHANGES = 100  # between two versions
FLOOR_BYTES = 1 << 24
MAP_BYTES = 16 << 30
Engine = Any


class _Pagestore:
    """This store, with two retained versions."""

    name = "pagestore"

    def __init__(self, file: Path, sync: bool) -> None:
        self.db = pagestore.open(file, sync="full" if sync else "off", retain=2)

    def load(self, rows: np.ndarray) -> None:
        with self.db.transaction() as txn:
            txn.bulk(txn.create("t", "x: int64, y: int64").info, [rows])

    def put(self, rows: np.ndarray) -> None:
        with self.db.transaction() as txn:
            txn["t"].insert(list(rows))

    def get(self, rows: np.ndarray, threads: int = 1) -> int:
        with self.db.snapshot() as snapshot:
            return int(get(snapshot.pages, snapshot.tree("t"), rows, threads)[0].sum())

    def each(self, rows: list[tuple[int, ...]]) -> int:
        with self.db.snapshot() as snapshot:
            relation = snapshot["t"]
            return sum(row in relation for row in rows)

    def scan(self, count: int) -> int:
        with self.db.snapshot() as snapshot:
            return int(snapshot["t"].to_numpy()["y"][:count].sum())

    def arrow(self, count: int) -> int:
        with self.db.snapshot() as snapshot:
            return int(snapshot["t"].to_arrow()[:count].num_rows)

    def newest(self) -> int:
        """Return how many rows differ between the newest version and the one before."""
        return int(self.db.diff(self.db.version - 1, self.db.version, "t").read_all().num_rows)


class _Lmdb:
    """Keys of 16 bytes, big-endian, so that bytes sort as numbers; no values."""

    name = "LMDB"

    def __init__(self, file: Path, sync: bool) -> None:
        import lmdb

        self.db = lmdb.open(str(file), map_size=MAP_BYTES, subdir=False, sync=sync, metasync=sync)

    def load(self, rows: np.ndarray) -> None:
        self.put(rows, append=True)

    def put(self, rows: np.ndarray, append: bool = False) -> None:
        with self.db.begin(write=True) as txn:
            txn.cursor().putmulti(((key, b"") for key in self._packed(rows)), append=append)

    def get(self, rows: np.ndarray) -> int:
        with self.db.begin() as txn:
            return len(txn.cursor().getmulti(list(self._packed(rows))))

    def each(self, rows: list[tuple[int, ...]]) -> int:
        with self.db.begin() as txn:
            return sum(txn.get(struct.pack(">qq", *row)) is not None for row in rows)

    def scan(self, count: int) -> int:
        with self.db.begin() as txn:
            cursor = txn.cursor()
            cursor.first()
            keys = b"".join(islice(cursor.iternext(keys=True, values=False), count))
        return int(np.frombuffer(keys, ">i8").astype(np.int64)[1::2].sum())

    def _packed(self, rows: np.ndarray) -> Iterator[bytes]:
        data = np.ascontiguousarray(rows.T.astype(">i8")).tobytes()
        return (data[i : i + 16] for i in range(0, len(data), 16))


class _Duckdb:
    """A table loaded in order; it has no index and finds rows by its zone maps."""

    name = "DuckDB"

    def __init__(self, file: Path, sync: bool) -> None:
        self.db = duckdb_with({}, file)
        self.db.execute("create table if not exists t(x bigint, y bigint)")

    def load(self, rows: np.ndarray) -> None:
        self.put(rows)
        self.db.execute("checkpoint")

    def put(self, rows: np.ndarray) -> None:
        self.db.register("r", pa.table({"x": rows[0], "y": rows[1]}))
        self.db.execute("insert into t select * from r")

    def get(self, rows: np.ndarray) -> int:
        self.db.register("r", pa.table({"x": rows[0], "y": rows[1]}))
        return int(
            self.db.execute("select count(*) from r semi join t using (x, y)").fetchall()[0][0]
        )

    def each(self, rows: list[tuple[int, ...]]) -> int:
        find, question = self.db.execute, "select 1 from t where x = ? and y = ?"
        return sum(len(find(question, row).fetchall()) for row in rows)

    def scan(self, count: int) -> int:
        return int(self.db.execute(f"select x, y from t limit {count}").fetchnumpy()["y"].sum())

    def arrow(self, count: int) -> int:
        return int(self.db.sql(f"select x, y from t limit {count}").to_arrow_table().num_rows)


def rows(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield all rows of the benchmark; after the row of loads, each engine loads once more for
    the rows that follow.
    """
    kinds = [_Pagestore, *(kind for kind in (_Lmdb, _Duckdb) if installed(kind.name.lower()))]
    data = tuples(options.size)
    loads = [_load(kind, data, folder / kind.name) for kind in kinds]
    yield Row(f"load {options.size:,} sorted rows, durable", loads, 3, "s", 1)
    stores = [_filled(kind, data, folder / kind.name, False) for kind in kinds]
    yield from _reads(stores, data)
    yield _writes(stores, data, "unsynced", EDITS)
    yield _writes(stores, data, "unsynced", 1)
    ours = stores[0]
    ours.put(
        np.stack([np.random.default_rng(6).choice(data[0], CHANGES), np.arange(CHANGES) - CHANGES])
    )
    yield Row(f"diff of two versions, {CHANGES} changes", [Side(ours.name, ours.newest)], rounds=15)
    for store in stores:
        store.db.close()
    stores = [kind(folder / kind.name / "rows", True) for kind in kinds]
    yield _writes(
        stores, data, "synced", 1, [Side("two syncs, nothing else", _floor(folder / "floor"))]
    )
    for store in stores:
        store.db.close()
    yield from sums(folder, options.size, ["sum:price"])


def tuples(size: int) -> np.ndarray:
    """Return about `size` sorted rows int64[2, n], distinct: sixteen to a first column, wide
    second columns.
    """
    random = np.random.default_rng(3)
    words = np.unique(
        random.integers(0, max(1, size // 16), size) << 40 | random.integers(0, 1 << 40, size)
    )
    return np.stack([words >> 40, words & (1 << 40) - 1])


def _filled(kind: Engine, data: np.ndarray, folder: Path, sync: bool) -> Engine:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    store = kind(folder / "rows", sync)
    store.load(data)
    return store


def _load(kind: Engine, data: np.ndarray, folder: Path) -> Side:
    def load() -> None:
        _filled(kind, data, folder, True).db.close()

    def counts() -> dict[str, float]:
        return {"bytes/row": round((folder / "rows").stat().st_blocks * 512 / data.shape[1], 1)}

    return Side(kind.name, load, counts=counts)


def _reads(stores: list[Engine], data: np.ndarray) -> Iterator[Row]:
    shuffled = data[:, np.random.default_rng(4).integers(0, data.shape[1], KEYS)]
    singles = list(zip(*shuffled[:, :SINGLES].tolist(), strict=True))
    in_order = shuffled[:, np.lexsort(shuffled[::-1])]
    for name, method, given, unit, scale in (
        ("get in a batch, random order, each", "get", shuffled, "µs", 1e6 / KEYS),
        ("get in a batch, sorted, each", "get", in_order, "µs", 1e6 / KEYS),
        ("get one from Python", "each", singles, "µs", 1e6 / SINGLES),
        ("scan to numpy", "scan", data.shape[1], "ms", 1e3),
        ("scan to Arrow", "arrow", data.shape[1], "ms", 1e3),
    ):
        sides = [
            Side(s.name, partial(getattr(s, method), given)) for s in stores if hasattr(s, method)
        ]
        if method == "get":
            sides.insert(
                1, Side(f"{stores[0].name}, two threads", partial(stores[0].get, given, 2))
            )
        yield Row(name, sides, unit=unit, scale=scale)


def _writes(
    stores: list[Engine], data: np.ndarray, sync: str, edits: int, more: Sequence[Side] = ()
) -> Row:
    """Return a row for commits of new rows at random places; each store gets the same batches."""
    random = np.random.default_rng(5)
    batches = [
        np.stack([random.choice(data[0], edits), random.integers(1 << 41, 1 << 42, edits)])
        for _ in range(50)
    ]
    name = f"put {edits:,} new {'row' if edits == 1 else 'rows'} in a commit, {sync}"
    return Row(
        name, [*(_writing(store, iter(batches)) for store in stores), *more], rounds=30, stretch=10
    )


def _writing(store: Engine, batches: Iterator[np.ndarray]) -> Side:
    """Return a side that commits the next batch. Traffic is counted after the timed runs, since
    this takes time.
    """

    def counts() -> dict[str, float]:
        if not isinstance(store, _Pagestore):
            return {}
        with Meter(store.db) as meter:
            for batch in islice(batches, COUNTED):
                store.put(batch)
        return {name: round(count / COUNTED, 1) for name, count in meter.counts.items()}

    return Side(store.name, lambda: store.put(next(batches)), counts=counts)


def _floor(file: Path) -> Callable[[], None]:
    """Return the least that the disk has to do for a durable commit: write pages, sync, write
    one page, sync.
    """
    page = bytes(8192)
    places = np.random.default_rng(7).integers(1, FLOOR_BYTES // 8192, (1000, 3)).tolist()
    file.write_bytes(bytes(FLOOR_BYTES))

    def commit() -> None:
        with file.open("r+b", buffering=0) as out:
            for offsets in ([8192 * place for place in places.pop()], [0]):
                for offset in offsets:
                    os.pwrite(out.fileno(), page, offset)
                os.fdatasync(out.fileno())

    return commit


# -- folds

SUMS = 500  # a run's sums in a row: the first ones after another system's run wait for memory
STEP = 3  # between ids
Others = Callable[[pagestore.Relation, int], Iterable[Row]]


def fill(store: pagestore.Store, name: str, size: int, scans: list[str]) -> dict[str, np.ndarray]:
    """Create a relation with records of an id and a price, and scans, in one bulk load."""
    columns = {
        "id": STEP * np.arange(size),
        "price": np.random.default_rng(1).integers(0, 10**6, size),
    }
    with store.transaction() as txn:
        relation = txn.create(name, "id: int64, price: int64", key="id", scans=scans)
        relation.bulk(pa.table(columns).to_batches(1 << 18))
    return columns


def sums(
    folder: Path, size: int, scans: list[str], others: Others = lambda *_: ()
) -> Iterator[Row]:
    """Yield the rows that `others` gives of a relation with scans and the number of its records, and
    the sum over half of these.
    """
    with pagestore.open(folder / "scans.pages", sync="off", retain=2) as store:
        columns = fill(store, "sales", size, scans)
        relation = store.snapshot()["sales"]
        yield from others(relation, size)
        lo, hi = STEP * size // 4, 3 * STEP * size // 4
        other = duckdb_with({"sales": columns}, folder / "scans.duckdb")
        query = f"select sum(price)::bigint from sales where id >= {lo} and id < {hi}"
        sides = those_installed(
            Side(
                "pagestore",
                lambda: [relation.range((lo,), (hi,)).scan("sum:price") for _ in range(SUMS)][-1],
            ),
            Side("DuckDB", lambda: [other.execute(query).fetchone()[0] for _ in range(SUMS)][-1]),
        )
        yield Row("sum over half the records", sides, 9, "µs", 1e6 / SUMS)


WORK = Work("pagestore bench", rows, 1_000_000, 20_000)
arguments, run = WORK.arguments, WORK.run
