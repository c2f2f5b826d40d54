"""Small transactions, `python -m benchmarks small GRAPH.parquet`: one row, one edge, durable, of many
threads and processes, transfers, and a change that reaches a watcher.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import count, islice
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import ivm
import pagestore
from pagestore_tools.bench import graphs
from pagestore_tools.bench.graphs import changes
from pagestore_tools.bench.harness import SPAWN, Row, Side, Work, installed
from pagestore_tools.bench.upkeep import WARMING, Ours, SqliteTriggers, System

from . import texts, transfers, writers
from .writers import Put, opened, prepared, sqlite, transactions

THREADS = 8
VERTICES = 29_000  # of the large graph, which has as many edges as soc-Epinions1, 400,000
# what one durable edge writes, about: the bytes of the sync that it is compared with
ROW_BYTES = 4 * 8192


def small_rows(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows of small transactions beside other systems: durable or not, of threads and
    of processes.
    """
    singles, seconds = (100, 0.5) if options.quick else (1000, 3.0)
    given = {"the graph": options.graph, "a sparse random graph": graphs.even(20_000, 4)}
    if not options.quick:
        given["a large graph with hubs"] = graphs.skewed(VERTICES)
    for name, edges in given.items():
        if options.only in (about := f"one edge under triangles, {name}"):  # it takes a while
            yield from _edges(about, edges, folder, singles, "off")
    if options.only in (about := "one edge under triangles, durable"):
        yield from _edges(about, options.graph, folder, singles // 4, "commit")
    yield from _rows("one row, no views", folder, singles, durable=False)
    yield from _rows("one row, no views, durable", folder, singles // 4, durable=True)
    yield _threads(folder, seconds)
    yield from writers.rows(folder, seconds, options.quick)
    yield from transfers.rows(folder, options.quick)
    yield _watched(folder, 20 if options.quick else 200)
    if options.only in (about := "a keystroke in a text"):
        yield texts.keystrokes(about, folder, options.text, options.quick)


class _Prepared(Ours):
    """This project, by edges that are collected first."""

    def __init__(self, edges: np.ndarray, folder: Path, **how: Any) -> None:
        super().__init__(edges, folder, **how)
        self._put = self.workspace.prepare("edge")

    def change(self, gone: np.ndarray, new: np.ndarray) -> None:
        """Delete and insert edges as one prepared commit."""
        for x, y in gone.T.tolist():
            self._put.delete(x, y)
        for x, y in new.T.tolist():
            self._put.insert(x, y)
        self._put.commit()


def _edges(name: str, edges: np.ndarray, folder: Path, rounds: int, sync: str) -> Iterator[Row]:
    """Yield the row of one edge a transaction: this project, SQLite's triggers, and a sync of as
    many bytes.
    """
    full = {"off": "off", "commit": "full"}[sync]
    systems: dict[str, System] = {
        "ivm": Ours(edges, folder, sync=sync),
        "ivm, prepared": _Prepared(edges, folder, sync=sync, exclusive=False),
        "SQLite triggers": SqliteTriggers(edges, folder, full),
    }
    turns = {name: changes(edges, 1) for name in systems}
    for name_, system in systems.items():
        for change in islice(turns[name_], WARMING):
            system.change(*change)
    sides = [Side(n, lambda n=n: systems[n].change(*next(turns[n]))) for n in systems]
    if sync == "commit":
        sides.append(Side("write and fdatasync", partial(_synced, folder / "synced", count())))
    yield Row(name, sides, rounds, "µs", 1e6, stretch=25)
    for system in systems.values():
        system.close()


def _synced(path: Path, places: "count[int]") -> None:
    """Overwrite bytes of a file, and sync it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, os.urandom(ROW_BYTES), next(places) % 64 * ROW_BYTES)
    os.fdatasync(fd)
    os.close(fd)


def _rows(name: str, folder: Path, rounds: int, durable: bool) -> Iterator[Row]:
    """Yield the row of one row a transaction, without views."""
    for file in folder.glob("rows*"):
        file.unlink()
    made = _stores(folder, durable)
    numbers = {side: count() for side in made}
    sides = [
        Side(side, lambda side=side: made[side][0](next(numbers[side])) and None) for side in made
    ]
    yield Row(name, sides, rounds, "µs", 1e6, stretch=25)
    for _, close in made.values():
        close()


def _stores(folder: Path, durable: bool) -> dict[str, tuple[Put, Callable[[], object]]]:
    """Return what puts a row of two integers into each system, and what closes it."""
    store, second = (opened(folder / f"rows-{n}.pages", durable) for n in range(2))
    put = second.prepare("r")

    def ours(n: int) -> None:
        with store.transaction() as txn:
            txn["r"].insert([(n * 7919 % 100_003, n)])

    def ready(n: int) -> None:
        put.insert(n * 7919 % 100_003, n)
        put.commit()

    db = sqlite(folder / "rows.sqlite", durable)
    found: dict[str, tuple[Put, Callable[[], object]]] = {
        "pagestore": (ours, store.close),
        "pagestore, prepared": (ready, second.close),
        "SQLite": (
            lambda n: db.execute("insert into r values(?, ?)", (n * 7919 % 100_003, n)),
            db.close,
        ),
    }
    if installed("lmdb"):
        found |= _lmdb(folder / "rows.lmdb", durable)
    return found | (_turso(folder / "rows.turso") if durable and installed("turso") else {})


def _lmdb(path: Path, durable: bool) -> dict[str, tuple[Put, Callable[[], object]]]:
    """Return LMDB's side."""
    peer = writers.lmdb(path, durable)

    def put(n: int) -> None:
        with peer.begin(write=True) as txn:
            txn.put((n * 7919 % 100_003).to_bytes(8, "big") + n.to_bytes(8, "big"), b"")

    return {"LMDB": (put, peer.close)}


def _turso(path: Path) -> dict[str, tuple[Put, Callable[[], object]]]:
    """Return Turso's side, which is durable."""
    import turso

    db = turso.connect(str(path))
    db.execute(writers.TABLE)
    db.commit()

    def put(n: int) -> None:
        db.execute("insert into r values(?, ?)", (n * 7919 % 100_003, n))
        db.commit()

    return {"Turso": (put, db.close)}


def _threads(folder: Path, seconds: float) -> Row:
    """Return the row of durable transactions of one thread, and of several; counts say how many
    share a sync.
    """
    shared: dict[str, float] = {}

    def rate(side: str, threads: int, put: Callable[[pagestore.Store, int], Put]) -> float:
        path = folder / f"threads-{threads}.pages"
        path.unlink(missing_ok=True)
        with closing(opened(path)) as store, ThreadPoolExecutor(threads) as pool:
            before = store._handle.committer.completed
            made = sum(pool.map(partial(_put_for, seconds, store, put), range(threads)))
            shared[side] = round(made / max(1, store._handle.committer.completed - before), 1)
            return made / seconds

    sides = []
    for how, put in {"": transactions, ", prepared": prepared}.items():
        for n in (THREADS, 1):
            side = f"pagestore{how}, {n} {'thread' if n == 1 else 'threads'}"
            counted = lambda side=side: {"commits a sync": shared[side]}  # noqa: E731
            sides.append(Side(side, partial(rate, side, n, put), counts=counted))
    return Row("durable rows of threads", sides, 3, "a second", told=True)


def _put_for(
    seconds: float,
    store: pagestore.Store,
    prepare: Callable[[pagestore.Store, int], Put],
    thread: int,
) -> int:
    """Put rows for some time, one a transaction; return how many."""
    end, put = time.monotonic() + seconds, prepare(store, thread)
    for n in count():
        if time.monotonic() >= end:
            return n
        put(n)
    raise AssertionError


def _watched(folder: Path, rounds: int) -> Row:
    """Return the row of a change that reaches a watcher in another process: from before its
    commit to its arrival.
    """
    path = folder / "watched.pages"
    workspace = ivm.open(path, sync="off", threads=1)
    workspace.install(
        "edge(x, y) -> int(x), int(y). two(x, z) <- edge(x, y), edge(y, z).", name="view"
    )
    here, there = SPAWN.Pipe()
    watcher = SPAWN.Process(target=_watch, args=(path, there), daemon=True)
    watcher.start()
    here.recv()
    numbers = count()

    def reach() -> None:
        n = next(numbers)
        with workspace.transaction() as txn:
            txn.insert("edge", [(2 * n, 2 * n + 1), (2 * n + 1, 2 * n + 2)])
        here.recv()

    return Row(
        "a change reaches a watcher in another process",
        [Side("ivm", reach)],
        rounds,
        stretch=rounds,
    )


def _watch(path: Path, end: Connection) -> None:
    with ivm.open(path, mode="r") as workspace:
        end.send("ready")
        for _ in workspace.changes("two"):
            end.send("seen")


class Small(Work):
    """The command, which may take the edits of a text, and how long a sync takes."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""
        super().arguments(parser)
        said = "a folder with insert.parquet and remove.parquet, the edits of a text"
        parser.add_argument("--text", metavar="FOLDER", type=Path, help=said)
        said = "let each sync take so many milliseconds, instead of the disk's own time"
        parser.add_argument("--syncs", metavar="MS", type=float, help=said)

    def run(self, options: argparse.Namespace) -> int:
        """Measure; return the exit code."""
        if not options.syncs or writers.ARE_DELAYED in os.environ:
            return super().run(options)
        with TemporaryDirectory() as folder, writers.delayed(Path(folder), options.syncs):
            words = [sys.executable, "-m", "benchmarks", *sys.argv[1:]]
            return subprocess.run(words).returncode


SMALL = Small("small transactions", small_rows, 1000, 300, graphs.skewed)
