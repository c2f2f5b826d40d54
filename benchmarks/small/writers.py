"""Durable rows of several writers: one process or many, one thread or many, beside other systems.

Syncs take as long as the disk's do, or so long as is said: then a library under that of C sleeps
instead of syncing (delay.c), in all systems alike.
"""

import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import pagestore
from benchmarks.clients import POSTGRES, cluster
from pagestore_tools.bench.harness import SPAWN, Row, Side, installed

PROCESSES = 16
DELAYS = 0.2, 1.0, 5.0  # milliseconds of a sync
WRITERS = {"one thread": (1, 1), "8 threads": (1, 8), f"{PROCESSES} processes": (PROCESSES, 1)}
TABLE = "create table if not exists r(x bigint, y bigint, primary key(x, y))"
ARE_DELAYED = "SYNC_MICROSECONDS"  # the variable that delay.c reads
SHIM = Path(__file__).with_name("delay.c")
Put = Callable[[int], object]


class Kind(NamedTuple):
    """A way to write rows: what a process opens, which makes the file if there is none, and what
    puts a row for a writer.
    """

    open: Callable[[Path], Any]
    put: Callable[[Any, int], Put]


def opened(path: Path, durable: bool = True) -> pagestore.Store:
    """Open a store with a relation of two columns."""
    store = pagestore.open(path, sync="commit" if durable else "off", threads=1)
    if not store.version:
        with store.transaction() as txn:
            txn.create("r", "x: int64, y: int64", if_not_exists=True)
    return store


def transactions(store: pagestore.Store, writer: int) -> Put:
    """Return what puts a row in a transaction."""

    def put(n: int) -> None:
        with store.transaction() as txn:
            txn["r"].insert([(writer, n)])

    return put


def prepared(store: pagestore.Store, writer: int) -> Put:
    """Return what puts a prepared row."""
    rows = store.prepare("r")

    def put(n: int) -> None:
        rows.insert(writer, n)
        rows.commit()

    return put


def sqlite(path: Path, durable: bool = True) -> sqlite3.Connection:
    """Open a database with a table of two columns."""
    db = sqlite3.connect(path, isolation_level=None, timeout=60, check_same_thread=False)
    db.execute("pragma journal_mode=wal")
    db.execute(f"pragma synchronous={'full' if durable else 'off'}")
    db.execute(TABLE + " without rowid")
    return db


def lmdb(path: Path, durable: bool = True) -> Any:
    """Open LMDB's environment."""
    import lmdb

    how = {"sync": durable, "metasync": durable, "writemap": not durable}
    return lmdb.open(str(path), map_size=1 << 30, subdir=False, **how)


def _made(path: Path) -> Path:
    sqlite(path).close()
    return path


def _put_sqlite(path: Path, writer: int) -> Put:
    db = sqlite(path)

    def put(n: int) -> None:
        while True:
            with suppress(sqlite3.OperationalError):  # it was locked for longer than its limit
                db.execute("insert into r values(?, ?)", (writer, n))
                return

    return put


def _put_lmdb(environment: Any, writer: int) -> Put:
    def put(n: int) -> None:
        with environment.begin(write=True) as txn:
            txn.put(writer.to_bytes(8, "big") + n.to_bytes(8, "big"), b"")

    return put


def _put_postgres(url: Path, writer: int) -> Put:
    import psycopg

    client = psycopg.connect(_url(url), autocommit=True)
    insert = "insert into r values(%s, %s)"
    return lambda n: client.execute(insert, (writer, n), prepare=True)


def _url(path: Path) -> str:
    return (path / "url").read_text()


KINDS = {
    "pagestore": Kind(opened, transactions),
    "pagestore, prepared": Kind(opened, prepared),
    "SQLite": Kind(_made, _put_sqlite),
    "LMDB": Kind(lmdb, _put_lmdb),
    "PostgreSQL": Kind(lambda path: path, _put_postgres),
}


def rows(folder: Path, seconds: float, quick: bool) -> Iterator[Row]:
    """Yield a row for many processes by the disk's syncs, then for each of DELAYS and WRITERS."""
    kinds = [*KINDS][:3]
    if installed("lmdb"):
        kinds.append("LMDB")
    if installed("psycopg") and Path(POSTGRES).exists():
        kinds.append("PostgreSQL")
    yield _row(f"durable rows of {PROCESSES} processes", folder, kinds, (PROCESSES, 1), seconds)
    if shutil.which("cc"):
        for delay in DELAYS[1:2] if quick else DELAYS:
            for name, writers in WRITERS.items():
                about = f"durable rows of {name}, syncs of {delay} ms"
                yield _row(about, folder, [*KINDS][:3], writers, seconds, delay)


def _row(
    name: str,
    folder: Path,
    kinds: list[str],
    writers: tuple[int, int],
    seconds: float,
    delay: float = 0,
) -> Row:
    """Return a row; counts say how long the rows of all writers took, and who is slowest."""
    found: dict[str, dict[str, float]] = {}

    def rate(kind: str) -> float:
        taken = _driven(folder, kind, writers, seconds, delay)
        every = 1e3 * np.concatenate(taken)
        middle, high, highest = np.percentile(every, [50, 99, 99.9])
        slowest = min(map(len, taken)) / (len(every) / len(taken))
        found[kind] = {"p50 ms": middle, "p99 ms": high, "p99.9 ms": highest}
        found[kind] |= {"longest ms": every.max(), "slowest of the mean": slowest}
        return len(every) / seconds

    counts = lambda kind: {name: round(n, 2) for name, n in found[kind].items()}  # noqa: E731
    sides = [Side(kind, partial(rate, kind), counts=partial(counts, kind)) for kind in kinds]
    return Row(name, sides, 2, "a second", told=True)


def _driven(
    folder: Path, kind: str, writers: tuple[int, int], seconds: float, delay: float
) -> list[list[float]]:
    """Put rows for some time by so many processes of so many threads; return how many seconds each
    took, by writer.
    """
    path = folder / f"writers of {kind}"
    if path.is_dir():
        shutil.rmtree(path)
    for file in folder.glob(f"{path.name}*"):
        file.unlink()
    with _served(path) if kind == "PostgreSQL" else nullcontext(), delayed(folder, delay):
        here, there = SPAWN.Pipe()
        driver = SPAWN.Process(target=_drive, args=(path, seconds, writers, there, kind))
        driver.start()
        there.close()
        found: list[list[float]] = here.recv()
        driver.join()
    return found


def _drive(
    path: Path, seconds: float, writers: tuple[int, int], end: Connection, kind: str
) -> None:
    """Make the file, and fork processes that put rows; send what `_driven` returns."""
    processes, threads = writers
    if hasattr(made := KINDS[kind].open(path), "close"):
        made.close()
    fork = get_context("fork")
    ends = [fork.Pipe() for _ in range(processes)]
    running = [
        fork.Process(target=_write, args=(path, seconds, n, threads, there, kind))
        for n, (_, there) in enumerate(ends)
    ]
    for process in running:
        process.start()
    for here, _ in ends:
        here.recv()
    for here, _ in ends:
        here.send("go")
    end.send([one for here, _ in ends for one in here.recv()])
    for process in running:
        process.join()


@contextmanager
def delayed(folder: Path, milliseconds: float) -> Iterator[None]:
    """Let syncs of processes that are started meanwhile take so long; 0 for those of the disk."""
    if not milliseconds:
        yield
        return
    library = folder / "delay.so"
    if not library.exists():
        words = ["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(SHIM)]
        subprocess.run(words, check=True)
    before = {**os.environ}
    os.environ |= {"LD_PRELOAD": str(library), ARE_DELAYED: str(round(1000 * milliseconds))}
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= before


@contextmanager
def _served(path: Path) -> Iterator[None]:
    """Serve a table by PostgreSQL; the file `url` of the folder says where."""
    path.mkdir()
    with cluster(path) as (url, client, _), closing(client):
        client.execute(TABLE)
        (path / "url").write_text(url)
        yield


def _write(
    path: Path, seconds: float, number: int, threads: int, end: Connection, kind: str
) -> None:
    """Put rows for some time by some threads, and send how many seconds each took."""
    open_, put = KINDS[kind]
    shared = open_(path)
    puts = [put(shared, number * threads + n) for n in range(threads)]
    end.send("ready")
    end.recv()
    with ThreadPoolExecutor(threads) as pool:
        end.send([*pool.map(partial(_timed, seconds), puts)])


def _timed(seconds: float, put: Put) -> list[float]:
    taken = list[float]()
    began = now = time.monotonic()
    for n in count():
        put(n)
        before, now = now, time.monotonic()
        taken.append(now - before)
        if now >= began + seconds:
            break
    return taken
