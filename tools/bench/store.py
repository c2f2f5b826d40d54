"""`pagestore bench` and the benchmarks of relations: tuples of integers, and folds over them, here and in other stores.

python -m pagestore_tools.bench scans --quick
"""

import argparse
import importlib.util
import os
import shutil
import sqlite3
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

import pagestore
from pagestore.host import get

from .harness import Row, Side, Work
from .meter import Traffic

KEYS = 100_000  # in a batch of gets
SINGLES = 10_000  # gets one by one; many, since a snapshot's first get takes as long as a hundred
EDITS = 1_000  # in a batch of puts
COUNTED = 10  # commits whose traffic is counted
CHANGES = 100  # between two versions
FLOOR_BYTES = 1 << 24
MAP_BYTES = 16 << 30
SQLITE_ROWS = 1_000_000  # from here on SQLite is left out, since it loads slowly


class Engine(Protocol):
    """A store of sorted tuples int64[2, n] in one folder. Every method works on a whole batch."""

    name: str
    file: Path
    db: Any  # what is open

    def __init__(self, folder: Path, sync: bool) -> None: ...

    def load(self, rows: np.ndarray) -> None:
        """Load sorted rows into the empty store; durable when it returns, if `sync`."""

    def put(self, rows: np.ndarray) -> None:
        """Insert rows in one transaction."""

    def get(self, rows: np.ndarray) -> int:
        """Return how many of the rows there are, looked up as a batch."""
        return self.each(list(zip(*rows.tolist(), strict=True)))

    def each(self, rows: list[tuple[int, ...]]) -> int:
        """Return how many of the rows there are, looked up one by one."""

    def scan(self, count: int) -> int:
        """Read the first `count` rows into numpy; return the sum of their second column, modulo 2**64."""

    def size(self) -> int:
        """Return the bytes on disk."""
        return self.file.stat().st_blocks * 512

    def close(self) -> None:
        """Close the store."""
        self.db.close()


class _Pagestore(Engine):
    """This store, with two retained versions."""

    name = "pagestore"

    def __init__(self, folder: Path, sync: bool) -> None:
        self.db = self.store = pagestore.open(folder / "pagestore", sync="full" if sync else "off", retain=2)
        self.file = self.store.path

    def load(self, rows: np.ndarray) -> None:
        with self.store.transaction() as txn:
            txn.bulk(txn.create("t", "x: int64, y: int64").info, [rows])

    def put(self, rows: np.ndarray) -> None:
        with self.store.transaction() as txn:
            txn["t"].insert(list(rows))

    def get(self, rows: np.ndarray, threads: int = 1) -> int:
        with self.store.snapshot() as snapshot:
            return int(get(snapshot.pages, snapshot.tree("t"), rows, threads)[0].sum())

    def each(self, rows: list[tuple[int, ...]]) -> int:
        with self.store.snapshot() as snapshot:
            relation = snapshot["t"]
            return sum(row in relation for row in rows)

    def scan(self, count: int) -> int:
        with self.store.snapshot() as snapshot:
            return int(snapshot["t"].to_numpy()["y"][:count].sum())

    def arrow(self, count: int) -> int:
        with self.store.snapshot() as snapshot:
            return int(snapshot["t"].to_arrow()[:count].num_rows)

    def newest(self) -> int:
        """Return how many rows differ between the newest version and the one before."""
        return int(self.store.diff(self.store.version - 1, self.store.version, "t").read_all().num_rows)


class _Lmdb(Engine):
    """Keys of 16 bytes, big-endian, so that bytes sort as numbers; no values."""

    name = "LMDB"

    def __init__(self, folder: Path, sync: bool) -> None:
        import lmdb

        self.file = folder / "lmdb"
        self.db = lmdb.open(str(self.file), map_size=MAP_BYTES, subdir=False, sync=sync, metasync=sync)

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


class _Sqlite(Engine):
    """A table without rowid, so its rows are in the key's B-tree."""

    name = "SQLite"

    def __init__(self, folder: Path, sync: bool) -> None:
        self.file = folder / "sqlite"
        self.db = sqlite3.connect(self.file, isolation_level=None)
        for setting in ("journal_mode=wal", f"synchronous={'full' if sync else 'off'}", "cache_size=-500000"):
            self.db.execute(f"pragma {setting}")
        self.db.execute("create table if not exists t(x integer, y integer, primary key(x, y)) without rowid")

    def load(self, rows: np.ndarray) -> None:
        self.put(rows)
        self.db.execute("pragma wal_checkpoint(truncate)")

    def put(self, rows: np.ndarray) -> None:
        self.db.execute("begin")
        self.db.executemany("insert or ignore into t values(?, ?)", zip(*rows.tolist(), strict=True))
        self.db.execute("commit")

    def each(self, rows: list[tuple[int, ...]]) -> int:
        find, question = self.db.execute, "select 1 from t where x = ? and y = ?"
        return sum(find(question, row).fetchone() is not None for row in rows)

    def scan(self, count: int) -> int:
        rows = self.db.execute("select x, y from t order by x, y limit ?", (count,)).fetchall()
        return int(np.array(rows, np.int64)[:, 1].sum())


class _Duckdb(Engine):
    """A table loaded in order; it has no index and finds rows by its zone maps."""

    name = "DuckDB"

    def __init__(self, folder: Path, sync: bool) -> None:
        import duckdb

        self.file = folder / "duckdb"
        self.db: Any = duckdb.connect(str(self.file), config={"threads": 1})
        self.db.execute("create table if not exists t(x bigint, y bigint)")

    def load(self, rows: np.ndarray) -> None:
        self.put(rows)
        self.db.execute("checkpoint")

    def put(self, rows: np.ndarray) -> None:
        self.db.register("r", pa.table({"x": rows[0], "y": rows[1]}))
        self.db.execute("insert into t select * from r")

    def get(self, rows: np.ndarray) -> int:
        self.db.register("r", pa.table({"x": rows[0], "y": rows[1]}))
        return int(self.db.execute("select count(*) from r semi join t using (x, y)").fetchall()[0][0])

    def each(self, rows: list[tuple[int, ...]]) -> int:
        find, question = self.db.execute, "select 1 from t where x = ? and y = ?"
        return sum(len(find(question, row).fetchall()) for row in rows)

    def scan(self, count: int) -> int:
        return int(self.db.execute(f"select x, y from t limit {count}").fetchnumpy()["y"].sum())

    def arrow(self, count: int) -> int:
        return int(self.db.sql(f"select x, y from t limit {count}").to_arrow_table().num_rows)


def duckdb_with(tables: Mapping[str, Mapping[str, Any]], file: Path | None = None) -> Any:
    """Return a connection to DuckDB, of one thread, with these tables; None where it is not installed."""
    if importlib.util.find_spec("duckdb") is None:
        return None
    import duckdb

    peer = duckdb.connect(file or ":memory:", config={"threads": 1})
    for name, table in tables.items():
        peer.register("given", pa.table(table))
        peer.execute(f"create table {name} as select * from given")
        peer.unregister("given")
    peer.execute("checkpoint")
    return peer


def rows(folder: Path, size: int) -> Iterator[Row]:
    """Yield all rows of the benchmark; after the row of loads, each engine loads once more for the rows that follow."""
    kinds: list[type[Engine]] = [_Pagestore, *[_Sqlite] * (size <= SQLITE_ROWS)]
    kinds += [_Lmdb] * (importlib.util.find_spec("lmdb") is not None) + [_Duckdb] * (
        importlib.util.find_spec("duckdb") is not None
    )
    data = tuples(size)
    loads = [_load(kind, data, folder / kind.name) for kind in kinds]
    yield Row(f"load {size:,} sorted rows, durable", loads, 3, "s", 1)
    stores = [_filled(kind, data, folder / kind.name, False) for kind in kinds]
    yield from _reads(stores, data)
    yield _writes(stores, data, "unsynced", EDITS)
    ours = stores[0]
    assert isinstance(ours, _Pagestore)
    ours.put(np.stack([np.random.default_rng(6).choice(data[0], CHANGES), np.arange(CHANGES) - CHANGES]))
    yield Row(f"diff of two versions, {CHANGES} changes", [Side(ours.name, ours.newest)], rounds=15)
    for store in stores:
        store.close()
    stores = [kind(folder / kind.name, True) for kind in kinds]
    yield _writes(stores, data, "synced", 1, [Side("two syncs, nothing else", _floor(folder / "floor"))])
    for store in stores:
        store.close()
    yield from _sums(folder, size, ["sum:price"])


def tuples(size: int) -> np.ndarray:
    """Return about `size` sorted rows int64[2, n], distinct: sixteen to a first column, wide second columns."""
    random = np.random.default_rng(3)
    rows = np.stack([random.integers(0, max(1, size // 16), size), random.integers(0, 1 << 40, size)])
    rows = rows[:, np.lexsort(rows[::-1])]
    return rows[:, np.concatenate([[True], (rows[:, 1:] != rows[:, :-1]).any(axis=0)])]


def _filled(kind: type[Engine], data: np.ndarray, folder: Path, sync: bool) -> Engine:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    store = kind(folder, sync)
    store.load(data)
    return store


def _load(kind: type[Engine], data: np.ndarray, folder: Path) -> Side:
    counts = {}

    def load() -> None:
        store = _filled(kind, data, folder, True)
        counts["bytes/row"] = round(store.size() / data.shape[1], 1)
        store.close()

    return Side(kind.name, load, partial(shutil.rmtree, folder, True), lambda: counts)


def _reads(stores: list[Engine], data: np.ndarray) -> Iterator[Row]:
    shuffled = data[:, np.random.default_rng(4).integers(0, data.shape[1], KEYS)]
    in_order = shuffled[:, np.lexsort(shuffled[::-1])]
    singles = list(zip(*shuffled[:, :SINGLES].tolist(), strict=True))
    for order, keys in (("random order", shuffled), ("sorted", in_order)):
        sides = [Side(s.name, partial(s.get, keys)) for s in stores]
        ours = [s for s in stores if isinstance(s, _Pagestore)]
        sides[1:1] = [Side(f"{s.name}, two threads", partial(s.get, keys, 2)) for s in ours]
        yield Row(f"get in a batch, {order}, each", sides, unit="µs", scale=1e6 / KEYS)
    each = [Side(s.name, partial(s.each, singles)) for s in stores]
    yield Row("get one from Python", each, unit="µs", scale=1e6 / SINGLES)
    yield Row("scan to numpy", [Side(s.name, partial(s.scan, data.shape[1])) for s in stores])
    columnar = [s for s in stores if isinstance(s, _Pagestore | _Duckdb)]
    yield Row("scan to Arrow", [Side(s.name, partial(s.arrow, data.shape[1])) for s in columnar])


def _writes(stores: list[Engine], data: np.ndarray, sync: str, edits: int, more: Sequence[Side] = ()) -> Row:
    """Return a row for commits of new rows at random places; each store gets the same batches."""
    random = np.random.default_rng(5)
    batches = [np.stack([random.choice(data[0], edits), random.integers(1 << 41, 1 << 42, edits)]) for _ in range(50)]
    name = f"put {edits:,} new {'row' if edits == 1 else 'rows'} in a commit, {sync}"
    return Row(name, [*(_writing(store, iter(batches)) for store in stores), *more], rounds=30, stretch=10)


def _writing(store: Engine, batches: Iterator[np.ndarray]) -> Side:
    """Return a side that commits the next batch. Traffic is counted after the timed runs, since this takes time."""

    def counts() -> dict[str, float]:
        if not isinstance(store, _Pagestore):
            return {}
        traffic = Traffic(store.store)
        for batch in islice(batches, COUNTED):
            store.put(batch)
        traffic.stop()
        return {name: round(getattr(traffic, name) / COUNTED, 1) for name in ("bytes", "writes", "syncs")}

    return Side(store.name, lambda: store.put(next(batches)), counts=counts)


def _floor(file: Path) -> Callable[[], None]:
    """Return the least that the disk has to do for a durable commit: write pages, sync, write one page, sync."""
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


WORK = Work("pagestore bench", lambda folder, options: rows(folder, options.size), 1_000_000, 20_000)
arguments, run = WORK.arguments, WORK.run

# -- folds: a sum over half the records, scans of random intervals, and how much a scan slows updates

CALLS = 2_000
BATCH = 20_000
SUMS = 500  # a run's sums in a row: the first ones after another system's run wait for memory
STEP = 3  # between ids
UPDATES = 20_000


def scans(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows of folds, over relations with `size` records."""
    yield from _sums(folder, options.size, ["count", "sum:price", "max:price"])
    size, random = options.size // 10, np.random.default_rng(3)
    edits = min(UPDATES, size)
    with pagestore.open(folder / "updates.pages", sync="off", retain=2) as store:
        sides = []
        for scan in ("no scan", "max:price", "sum:price", "count"):
            ids, _ = _fill(store, f"with {scan}", size, [scan] * (scan != "no scan"))

            def update(name: str = f"with {scan}", ids: np.ndarray = ids) -> None:
                with store.transaction() as txn:
                    chosen = random.choice(ids, edits, replace=False)
                    txn[name].set([chosen, random.integers(0, 10**6, edits)])

            sides.append(Side(f"with {scan}", update))
        yield Row(f"set {edits:,} of {size:,} records", sides, 15)


def _fill(store: pagestore.Store, name: str, size: int, scans: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Create a relation with records of an id and a price, and scans, in one bulk load."""
    ids, prices, step = STEP * np.arange(size), np.random.default_rng(1).integers(0, 10**6, size), 1 << 18
    with store.transaction() as txn:
        relation = txn.create(name, "id: int64, price: int64", key="id", scans=scans)
        relation.bulk([ids[at : at + step], prices[at : at + step]] for at in range(0, size, step))
    return ids, prices


def _sums(folder: Path, size: int, scans: list[str]) -> Iterator[Row]:
    """Yield rows for scans of random intervals, if there are several, and for the sum over half the records."""
    with pagestore.open(folder / "scans.pages", sync="off", retain=2) as store, ExitStack() as held:
        ids, prices = _fill(store, "sales", size, scans)
        relation = held.enter_context(store.snapshot())["sales"]
        if len(scans) > 1:
            yield from _intervals(relation, size)
        lo, hi = STEP * size // 4, 3 * STEP * size // 4

        def repeated(ask: Callable[[], int]) -> Callable[[], int]:
            return lambda: [ask() for _ in range(SUMS)][-1]

        sides = [Side("pagestore", repeated(lambda: relation.range((lo,), (hi,)).scan("sum:price")))]
        if other := duckdb_with({"sales": {"id": ids, "price": prices}}, folder / "scans.duckdb"):
            query = "select sum(price)::bigint from sales where id >= ? and id < ?"
            sides.append(Side("DuckDB", repeated(lambda: other.execute(query, [lo, hi]).fetchone()[0])))
        yield Row("sum over half the records", sides, 9, "µs", 1e6 / SUMS)


def _intervals(relation: pagestore.Relation, size: int) -> Iterator[Row]:
    """Yield rows for scans of random intervals, one in a call, and many in a batch."""
    lo, hi = np.sort(np.random.default_rng(2).integers(0, STEP * size, (2, BATCH)), axis=0)
    pairs = list(zip(lo[:CALLS].tolist(), hi[:CALLS].tolist(), strict=True))

    def called(text: str) -> Callable[[], object]:
        return lambda: [relation.range((a,), (b,)).scan(text) for a, b in pairs] and None

    def batched(text: str) -> Callable[[], object]:
        return lambda: relation.scan_many(text, [lo], [hi]) and None

    for name, work, calls in (("a call", called, CALLS), ("in a batch", batched, BATCH)):
        sides = [Side(text, work(text)) for text in relation.scans]
        yield Row(f"scan of {size:,} records, {name}", sides, 7, "µs", 1e6 / calls)


SCANS = Work("scan bench", scans, 10_000_000, 1_000_000)
