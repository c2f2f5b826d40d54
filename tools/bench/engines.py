"""Stores of sorted (int64, int64) tuples with one interface: this one, and others that are installed."""

import importlib.util
import sqlite3
import struct
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np

import pagestore
from pagestore.trees import read

MAP_BYTES = 8 << 30
SQLITE_ROWS = 1_000_000


class Engine(Protocol):
    """A store of tuples int64[2, n] in one folder. Every method works on a whole batch."""

    name: str

    def __init__(self, folder: Path, sync: bool) -> None: ...
    def load(self, rows: np.ndarray) -> None:
        """Load sorted rows into the empty store; durable when it returns, if `sync`."""

    def get(self, rows: np.ndarray) -> int:
        """How many of the rows are there."""

    def each(self, rows: list[tuple[int, ...]]) -> int:
        """How many of the rows are there, asked one by one."""

    def scan(self, count: int) -> int:
        """Read the first `count` rows into numpy; the sum of their second column, modulo 2**64."""

    def put(self, rows: np.ndarray) -> None:
        """Insert the rows in one transaction."""

    def size(self) -> int:
        """Bytes on disk."""

    def close(self) -> None:
        """Close the store."""


def installed(size: int) -> list[type[Engine]]:
    """The other engines that are installed; SQLite only up to SQLITE_ROWS, since it loads slowly."""
    found: list[type[Engine]] = [Sqlite] * (size <= SQLITE_ROWS)
    found += [Lmdb] * (importlib.util.find_spec("lmdb") is not None)
    found += [Duckdb] * (importlib.util.find_spec("duckdb") is not None)
    return found


class Pagestore:
    """This store, with two retained versions."""

    name = "pagestore"

    def __init__(self, folder: Path, sync: bool) -> None:
        self.store = pagestore.open(folder / "pagestore", sync="full" if sync else "off", retain=2)

    def load(self, rows: np.ndarray) -> None:
        """Load sorted rows, durably if asked."""
        with self.store.transaction() as txn:
            txn.bulk(txn.create("t", "x: int64, y: int64").info, [rows])

    def put(self, rows: np.ndarray) -> None:
        """Insert rows in one transaction."""
        with self.store.transaction() as txn:
            txn["t"].insert(list(rows))

    def get(self, rows: np.ndarray, threads: int = 1) -> int:
        """How many of the rows are there, asked as a batch."""
        with self.store.snapshot() as snapshot:
            found, _ = read.get(snapshot.pages, snapshot.tree("t"), rows, threads)
        return int(found.sum())

    def each(self, rows: list[tuple[int, ...]]) -> int:
        """How many of the rows are there, asked one by one."""
        with self.store.snapshot() as snapshot:
            relation = snapshot["t"]
            return sum(row in relation for row in rows)

    def scan(self, count: int) -> int:
        """Read rows in order into numpy; the sum of their second column."""
        with self.store.snapshot() as snapshot:
            return int(snapshot["t"].to_numpy()["y"][:count].sum())

    def arrow(self, count: int) -> int:
        """Read rows in order into Arrow; their number."""
        with self.store.snapshot() as snapshot:
            return int(snapshot["t"].to_arrow()[:count].num_rows)

    def newest(self) -> int:
        """How many rows differ between the newest version and the one before."""
        return int(self.store.diff(self.store.version - 1, self.store.version, "t").read_all().num_rows)

    def size(self) -> int:
        """Bytes on disk."""
        return self.store.path.stat().st_blocks * 512

    def close(self) -> None:
        """Close the store."""
        self.store.close()


class Lmdb:
    """Keys of 16 bytes, big-endian, so that bytes sort as numbers; no values."""

    name = "LMDB"

    def __init__(self, folder: Path, sync: bool) -> None:
        import lmdb

        self.file = folder / "lmdb"
        self.env = lmdb.open(str(self.file), map_size=MAP_BYTES, subdir=False, sync=sync, metasync=sync)

    def load(self, rows: np.ndarray) -> None:
        """Load sorted rows, durably if asked."""
        self._write(rows, append=True)

    def put(self, rows: np.ndarray) -> None:
        """Insert rows in one transaction."""
        self._write(rows, append=False)

    def _write(self, rows: np.ndarray, append: bool) -> None:
        with self.env.begin(write=True) as txn:
            txn.cursor().putmulti(((key, b"") for key in _packed(rows)), append=append)

    def get(self, rows: np.ndarray) -> int:
        """How many of the rows are there, asked as a batch."""
        with self.env.begin() as txn:
            return len(txn.cursor().getmulti(list(_packed(rows))))

    def each(self, rows: list[tuple[int, ...]]) -> int:
        """How many of the rows are there, asked one by one."""
        with self.env.begin() as txn:
            return sum(txn.get(struct.pack(">qq", *row)) is not None for row in rows)

    def scan(self, count: int) -> int:
        """Read rows in order into numpy; the sum of their second column."""
        with self.env.begin() as txn:
            cursor = txn.cursor()
            cursor.first()
            keys = b"".join(islice(cursor.iternext(keys=True, values=False), count))
        return int(np.frombuffer(keys, ">i8").astype(np.int64)[1::2].sum())

    def size(self) -> int:
        """Bytes on disk."""
        return self.file.stat().st_blocks * 512

    def close(self) -> None:
        """Close the store."""
        self.env.close()


class Sqlite:
    """A table without rowid, so its rows are in the key's B-tree."""

    name = "SQLite"

    def __init__(self, folder: Path, sync: bool) -> None:
        self.file = folder / "sqlite"
        self.db = sqlite3.connect(self.file, isolation_level=None)
        for setting in ("journal_mode=wal", f"synchronous={'full' if sync else 'off'}", "cache_size=-500000"):
            self.db.execute(f"pragma {setting}")
        self.db.execute("create table if not exists t(x integer, y integer, primary key(x, y)) without rowid")

    def load(self, rows: np.ndarray) -> None:
        """Load sorted rows, durably if asked."""
        self.put(rows)
        self.db.execute("pragma wal_checkpoint(truncate)")

    def put(self, rows: np.ndarray) -> None:
        """Insert rows in one transaction."""
        self.db.execute("begin")
        self.db.executemany("insert or ignore into t values(?, ?)", zip(*rows.tolist(), strict=True))
        self.db.execute("commit")

    def get(self, rows: np.ndarray) -> int:
        """How many of the rows are there, asked as a batch."""
        return self.each(list(zip(*rows.tolist(), strict=True)))

    def each(self, rows: list[tuple[int, ...]]) -> int:
        """How many of the rows are there, asked one by one."""
        find, question = self.db.execute, "select 1 from t where x = ? and y = ?"
        return sum(find(question, row).fetchone() is not None for row in rows)

    def scan(self, count: int) -> int:
        """Read rows in order into numpy; the sum of their second column."""
        rows = self.db.execute("select x, y from t order by x, y limit ?", (count,)).fetchall()
        return int(np.array(rows, np.int64)[:, 1].sum())

    def size(self) -> int:
        """Bytes on disk."""
        return self.file.stat().st_blocks * 512

    def close(self) -> None:
        """Close the store."""
        self.db.close()


class Duckdb:
    """A table loaded in order; it has no index and finds rows by its zone maps."""

    name = "DuckDB"

    def __init__(self, folder: Path, sync: bool) -> None:
        import duckdb

        self.file = folder / "duckdb"
        self.db: Any = duckdb.connect(str(self.file), config={"threads": 1})
        self.db.execute("create table if not exists t(x bigint, y bigint)")

    def load(self, rows: np.ndarray) -> None:
        """Load sorted rows, durably if asked."""
        self.put(rows)
        self.db.execute("checkpoint")

    def put(self, rows: np.ndarray) -> None:
        """Insert rows in one transaction."""
        self._bind(rows)
        self.db.execute("insert into t select * from r")

    def get(self, rows: np.ndarray) -> int:
        """How many of the rows are there, asked as a batch."""
        self._bind(rows)
        return int(self.db.execute("select count(*) from r semi join t using (x, y)").fetchall()[0][0])

    def each(self, rows: list[tuple[int, ...]]) -> int:
        """How many of the rows are there, asked one by one."""
        find, question = self.db.execute, "select 1 from t where x = ? and y = ?"
        return sum(len(find(question, row).fetchall()) for row in rows)

    def scan(self, count: int) -> int:
        """Read rows in order into numpy; the sum of their second column."""
        rows = self.db.execute(f"select x, y from t limit {count}").fetchnumpy()
        return int(rows["y"].sum())

    def arrow(self, count: int) -> int:
        """Read rows in order into Arrow; their number."""
        return int(self.db.sql(f"select x, y from t limit {count}").to_arrow_table().num_rows)

    def _bind(self, rows: np.ndarray) -> None:
        import pyarrow as pa

        self.db.register("r", pa.table({"x": rows[0], "y": rows[1]}))

    def size(self) -> int:
        """Bytes on disk."""
        return self.file.stat().st_blocks * 512

    def close(self) -> None:
        """Close the store."""
        self.db.close()


def _packed(rows: np.ndarray) -> Iterator[bytes]:
    if rows.shape[1] == 1:
        return iter([struct.pack(">qq", *rows[:, 0].tolist())])
    data = np.ascontiguousarray(rows.T.astype(">i8")).tobytes()
    return (data[i : i + 16] for i in range(0, len(data), 16))
