"""Views of one graph, maintained while it changes: by this project, by SQL as a careful user writes
it, and by hand.

A system is made of the edges and a folder, and maintains a listing. `change` deletes and inserts
edges in one transaction, as does `counted`, which returns what that takes besides time; `rows`
returns the number of rows of the listing, and `close` closes the system.

Small transactions, `python -m benchmarks small GRAPH.parquet`: one row, one edge,
durable, of many threads and processes, and a change that reaches a watcher.
"""

import argparse
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from itertools import count, islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import ivm
import pagestore

from . import graphs
from .graphs import changes
from .harness import SPAWN, Disagreement, Row, Side, Work, duckdb_with, installed, workspace_with
from .joins import CLIQUES, DECLARED, TRIANGLES, Task, as_columns
from .meter import Meter

BATCH = 1000
COUNTED = 10  # changes whose pages and calls are counted, after those that are timed
# changes before the timed ones: enough to write every page that the file's versions need twice
WARMING = 64
THREADS, PROCESSES = 8, 16
VERTICES = 29_000  # of the large graph, which has as many edges as soc-Epinions1, 400,000
# what one durable edge writes, about: the bytes of the sync that it is compared with
ROW_BYTES = 4 * 8192
SCHEMA = """
    create table edge(x integer, y integer, primary key(x, y)) without rowid;
    create index edge_back on edge(y, x);
    create table triangle(x integer, y integer, z integer, primary key(x, y, z)) without rowid;
    create index triangle_yz on triangle(y, z);
    create index triangle_xz on triangle(x, z);
"""
TRIGGERS = """
    create trigger edge_new after insert on edge begin
        insert into triangle
            select new.x, new.y, b.y from edge b join edge c on c.x = new.x and c.y = b.y
            where b.x = new.y union all
            select a.x, new.x, new.y from edge a join edge c on c.x = a.x and c.y = new.y
            where a.y = new.x union all
            select new.x, a.y, new.y from edge a join edge b on b.x = a.y and b.y = new.y
            where a.x = new.x;
    end;
    create trigger edge_gone after delete on edge begin
        delete from triangle where x = old.x and y = old.y;
        delete from triangle where x = old.x and z = old.y;
        delete from triangle where y = old.x and z = old.y;
    end;
"""
DELTA = """
    select a.x, a.y, b.y z from d a join edge b on a.y = b.x join edge c on c.x = a.x and c.y = b.y union
    select a.x, b.x, b.y from d b join edge a on a.y = b.x join edge c on c.x = a.x and c.y = b.y union
    select c.x, a.y, c.y from d c join edge a on a.x = c.x join edge b on b.x = a.y and b.y = c.y
"""


System = Any
Maker = Callable[[np.ndarray, Path], System]
Put = Callable[[int], object]


def rows(edges: np.ndarray, folder: Path, quick: bool) -> Iterator[Row]:
    """Yield the rows that measure maintenance."""
    singles, batches = (40, 6) if quick else (400, 20)

    def load(make: Maker) -> int:
        with closing(make(edges, folder)) as system:
            return int(system.rows())

    loads = [Side(name, partial(load, make)) for name, make in systems().items()]
    yield Row("triangles loaded and listed", loads, 1 if quick else 3, "s", 1)
    limit: dict[str, Maker] = {"by hand (limit)": _ByHand} if installed("numba") else {}
    alone: dict[str, Maker] = {"ivm": Ours} | limit | systems()
    synced: dict[str, Maker] = {
        "ivm": partial(Ours, sync="full"),
        "ivm, one sync": partial(Ours, sync="commit"),
        "SQLite triggers": partial(_SqliteTriggers, sync="full"),
    }
    on_two: dict[str, Maker] = {"ivm": Ours, "ivm, two threads": partial(Ours, threads=2), **alone}
    one = "maintained, one edge a transaction"
    for row, batch, makers, rounds, stretch in (
        (f"triangles {one}", 1, alone, singles, 50),
        (f"triangles {one}, synced", 1, synced, singles // 2, 50),
        (f"triangles maintained, {BATCH:,} edges a transaction", BATCH, on_two, batches, 10),
        (f"4-cliques {one}", 1, {"ivm": partial(Ours, task=CLIQUES)}, singles, 50),
    ):
        opened: dict[str, System] = {}
        most = max(part.shape[1] for part in next(changes(edges, batch)))
        sides = [_side(name, makers[name], opened, edges, folder, batch) for name in makers]
        yield Row(
            row, sides, rounds, stretch=stretch, things=(1 if most == 1 else 2 * most, "edges")
        )
        found = {name: system.rows() for name, system in opened.items()}
        if len(set(found.values())) > 1:
            raise Disagreement(f"rows after the same changes: {found}")
        for system in opened.values():
            system.close()


def systems() -> dict[str, Maker]:
    """Return what makes this project's and the other systems that are installed, by name."""
    found: dict[str, Maker] = {"ivm": Ours, "SQLite triggers": _SqliteTriggers}
    return found | ({"DuckDB, delta by hand": _DuckdbDelta} if installed("duckdb") else {})


def _side(
    name: str, make: Maker, opened: dict[str, System], edges: np.ndarray, folder: Path, batch: int
) -> Side:
    """Return a side that makes the changes that all sides make, to a system of its own."""
    rest = changes(edges, batch)

    def system() -> System:
        if name not in opened:
            opened[name] = make(edges, folder)
            for warming in islice(rest, WARMING):
                opened[name].change(*warming)
        return opened[name]

    def counts() -> dict[str, float]:
        totals: Counter[str] = Counter()
        for change in islice(rest, COUNTED):
            totals.update(opened[name].counted(*change))
        means = {kind: total / COUNTED for kind, total in totals.items()}
        return {kind: round(mean, 1 if mean < 100 else None) for kind, mean in means.items()}

    return Side(name, lambda: system().change(*next(rest)), system, counts)


class Ours:
    """This project: edges, triangles, indices and sixteen versions in a store on disk, unsynced."""

    def __init__(
        self, edges: np.ndarray, folder: Path, task: Task = TRIANGLES, threads: int = 1, **how: Any
    ) -> None:
        file = folder / f"maintained-{'-'.join(map(str, (threads, *how.values())))}.pages"
        file.unlink(missing_ok=True)
        self.workspace = workspace_with(file, DECLARED, {"edge": [*edges]}, threads=threads, **how)
        self.workspace.install(task.rule.format(name="q"), name="view")
        self.close = self.workspace.close

    def change(self, gone: np.ndarray, new: np.ndarray) -> None:
        """Delete and insert edges in one transaction."""
        with self.workspace.transaction() as txn:
            if gone.size:
                txn.delete("edge", list(gone))
            if new.size:
                txn.insert("edge", list(new))

    def rows(self) -> int:
        """Return the number of rows of the listing."""
        return len(self.workspace["q"])

    def counted(self, gone: np.ndarray, new: np.ndarray) -> dict[str, float]:
        """Make a change, and return what it takes besides time."""
        with Meter(self.workspace.store) as meter:
            self.change(gone, new)
        return {"operations": self.workspace.stats("q")["operations"], **meter.counts}


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


class _ByHand:
    """The limit: adjacency lists in memory, changed in place; it lists the triangles that change
    and counts all.
    """

    def __init__(self, edges: np.ndarray, folder: Path) -> None:
        self.adjacency = graphs.Adjacency(edges)
        self.change = self.counted = self.adjacency.change

    def close(self) -> None: ...

    def rows(self) -> int:
        return int(self.adjacency.triangles)


class _SqliteTriggers:
    """SQLite on disk, unsynced, with triggers, and the indices that these need."""

    def __init__(self, edges: np.ndarray, folder: Path, sync: str = "off") -> None:
        for file in folder.glob("sqlite*"):
            file.unlink()
        self.db = sqlite3.connect(folder / "sqlite", isolation_level=None)
        for setting in (
            "page_size=8192",
            "cache_size=-2000000",
            "journal_mode=wal",
            f"synchronous={sync}",
        ):
            self.db.execute(f"pragma {setting}")
        self.db.executescript(SCHEMA)
        self.change(edges[:, :0], edges)
        self.db.execute(f"insert into triangle {TRIANGLES.sql} order by 1, 2, 3")
        self.db.executescript(TRIGGERS)
        self.close, self.counted = self.db.close, self.change

    def change(self, gone: np.ndarray, new: np.ndarray) -> None:
        self.db.execute("begin")
        self.db.executemany("delete from edge where x = ? and y = ?", gone.T.tolist())
        self.db.executemany("insert into edge values(?, ?)", new.T.tolist())
        self.db.execute("commit")

    def rows(self) -> int:
        return int(self.db.execute("select count(*) from triangle").fetchone()[0])


class _DuckdbDelta:
    """DuckDB in memory, on one thread; a query over the changed edges, written by hand, finds
    the listing's delta.
    """

    def __init__(self, edges: np.ndarray, folder: Path) -> None:
        self.db = duckdb_with({"edge": as_columns(edges)})
        self.db.execute(f"create table triangle as {TRIANGLES.sql}")
        self.close, self.counted = self.db.close, self.change

    def change(self, gone: np.ndarray, new: np.ndarray) -> None:
        run = self.db.execute
        run("begin")
        if gone.size:
            self.db.register("d", pa.table(as_columns(gone)))
            run(f"create or replace temp table changed as {DELTA}")
            run(
                "delete from triangle t using changed d where t.x = d.x and t.y = d.y and t.z = d.z"
            )
            run("delete from edge e using d where e.x = d.x and e.y = d.y")
        if new.size:
            self.db.register("d", pa.table(as_columns(new)))
            run("insert into edge select * from d")
            run(f"insert into triangle {DELTA}")
        run("commit")

    rows: Any = _SqliteTriggers.rows


# -- small transactions


def small_rows(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows of small transactions beside other systems: durable or not, of threads and
    of processes.
    """
    singles, seconds = (100, 0.5) if options.quick else (1000, 3.0)
    given = {"the graph": options.graph, "a sparse random graph": graphs.even(20_000, 4)}
    if not options.quick:
        given["a large graph with hubs"] = graphs.skewed(VERTICES)
    for name, edges in given.items():
        yield from _edges(f"one edge under triangles, {name}", edges, folder, singles, "off")
    yield from _edges(
        "one edge under triangles, durable", options.graph, folder, singles // 4, "commit"
    )
    yield from _rows("one row, no views", folder, singles, durable=False)
    yield from _rows("one row, no views, durable", folder, singles // 4, durable=True)
    yield _threads(folder, seconds)
    yield _processes(folder, seconds)
    yield _watched(folder, 20 if options.quick else 200)


def _edges(name: str, edges: np.ndarray, folder: Path, rounds: int, sync: str) -> Iterator[Row]:
    """Yield the row of one edge a transaction: this project, SQLite's triggers, and a sync of as
    many bytes.
    """
    full = {"off": "off", "commit": "full"}[sync]
    systems: dict[str, System] = {
        "ivm": Ours(edges, folder, sync=sync),
        "ivm, prepared": _Prepared(edges, folder, sync=sync, exclusive=False),
        "SQLite triggers": _SqliteTriggers(edges, folder, full),
    }
    turns = {name: changes(edges, 1) for name in systems}
    for name_, system in systems.items():
        for change in islice(turns[name_], WARMING):
            system.change(*change)
    sides = [Side(n, lambda n=n: systems[n].change(*next(turns[n]))) for n in systems]  # type: ignore[misc]
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
        Side(side, lambda side=side: made[side][0](next(numbers[side])) and None)  # type: ignore[misc]
        for side in made
    ]
    yield Row(name, sides, rounds, "µs", 1e6, stretch=25)
    for _, close in made.values():
        close()


def _stores(folder: Path, durable: bool) -> dict[str, tuple[Put, Callable[[], object]]]:
    """Return what puts a row of two integers into each system, and what closes it."""
    store, prepared = (_opened(folder / f"rows-{n}.pages", durable) for n in range(2))
    put = prepared.prepare("r")

    def ours(n: int) -> None:
        with store.transaction() as txn:
            txn["r"].insert([(n * 7919 % 100_003, n)])

    def ready(n: int) -> None:
        put.insert(n * 7919 % 100_003, n)
        put.commit()

    db = _sqlite(folder / "rows.sqlite", durable)
    found: dict[str, tuple[Put, Callable[[], object]]] = {
        "pagestore": (ours, store.close),
        "pagestore, prepared": (ready, prepared.close),
        "SQLite": (
            lambda n: db.execute("insert into r values(?, ?)", (n * 7919 % 100_003, n)),
            db.close,
        ),
    }
    return found | (_lmdb(folder / "rows.lmdb", durable) if installed("lmdb") else {})


def _lmdb(path: Path, durable: bool) -> dict[str, tuple[Put, Callable[[], object]]]:
    """Return LMDB's side."""
    import lmdb

    peer = lmdb.open(
        str(path),
        map_size=1 << 30,
        subdir=False,
        sync=durable,
        metasync=durable,
        writemap=not durable,
    )

    def put(n: int) -> None:
        with peer.begin(write=True) as txn:
            txn.put((n * 7919 % 100_003).to_bytes(8, "big") + n.to_bytes(8, "big"), b"")

    return {"LMDB": (put, peer.close)}


def _opened(path: Path, durable: bool) -> pagestore.Store:
    store = pagestore.open(path, sync="commit" if durable else "off", threads=1)
    with store.transaction() as txn:
        txn.create("r", "x: int64, y: int64", if_not_exists=True)
    return store


def _sqlite(path: Path, durable: bool) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, timeout=60, check_same_thread=False)
    db.execute("pragma journal_mode=wal")
    db.execute(f"pragma synchronous={'full' if durable else 'off'}")
    db.execute(
        "create table if not exists r(x integer, y integer, primary key(x, y)) without rowid"
    )
    return db


def _threads(folder: Path, seconds: float) -> Row:
    """Return the row of durable transactions of one thread, and of several; counts say how many
    share a sync.
    """
    shared: dict[str, float] = {}

    def rate(side: str, threads: int, put: Callable[[pagestore.Store, int], Put]) -> float:
        path = folder / f"threads-{threads}.pages"
        path.unlink(missing_ok=True)
        with closing(_opened(path, durable=True)) as store, ThreadPoolExecutor(threads) as pool:
            before = store._handle.committer.completed
            made = sum(pool.map(partial(_put_for, seconds, store, put), range(threads)))
            shared[side] = round(made / max(1, store._handle.committer.completed - before), 1)
            return made / seconds

    sides = []
    for how, put in {"": _transactions, ", prepared": _prepared}.items():
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


def _transactions(store: pagestore.Store, thread: int) -> Put:
    """Return what puts a row in a transaction."""

    def put(n: int) -> None:
        with store.transaction() as txn:
            txn["r"].insert([(thread, n)])

    return put


def _prepared(store: pagestore.Store, thread: int) -> Put:
    """Return what puts a prepared row."""
    rows = store.prepare("r")

    def put(n: int) -> None:
        rows.insert(thread, n)
        rows.commit()

    return put


def _processes(folder: Path, seconds: float) -> Row:
    """Return the row of durable transactions of many processes; counts say how long each takes,
    and who is slowest.
    """
    waits: dict[str, dict[str, float]] = {}

    def rate(name: str, make: Callable[[Path, int], Put]) -> float:
        path = folder / f"processes-{name}"
        path.unlink(missing_ok=True)
        (_sqlite if name == "SQLite" else _opened)(path, durable=True).close()
        ends = [SPAWN.Pipe() for _ in range(PROCESSES)]
        processes = [
            SPAWN.Process(target=_write, args=(path, seconds, n, end, make))
            for n, (_, end) in enumerate(ends)
        ]
        for process in processes:
            process.start()
        for here, _ in ends:
            here.recv()
        for here, _ in ends:
            here.send("go")
        found: list[list[float]] = [here.recv() for here, _ in ends]
        for process in processes:
            process.join()
        taken = 1e3 * np.concatenate(found)
        middle, high = np.percentile(taken, [50, 99])
        waits[name] = {"slowest process": min(map(len, found)) / seconds}
        waits[name] |= {"median ms": middle, "99th percentile ms": high, "longest ms": taken.max()}
        return len(taken) / seconds

    sides = [
        Side(
            name,
            partial(rate, name, make),
            counts=lambda name=name: {  # type: ignore[misc]
                k: round(n, 1) for k, n in waits[name].items()
            },
        )
        for name, make in (
            ("pagestore", _put_ours),
            ("pagestore, prepared", _put_prepared),
            ("SQLite", _put_sqlite),
        )
    ]
    return Row(f"durable rows of {PROCESSES} processes", sides, 2, "a second", told=True)


def _write(
    path: Path, seconds: float, number: int, end: Connection, make: Callable[[Path, int], Put]
) -> None:
    """Put rows for some time, and send how many seconds each took."""
    put, taken = make(path, number), list[float]()
    end.send("ready")
    end.recv()
    began = now = time.monotonic()
    while now < began + seconds:
        put(len(taken))
        before, now = now, time.monotonic()
        taken.append(now - before)
    end.send(taken)


def _put_ours(path: Path, number: int) -> Put:
    return _transactions(_opened(path, durable=True), number)


def _put_prepared(path: Path, number: int) -> Put:
    return _prepared(_opened(path, durable=True), number)


def _put_sqlite(path: Path, number: int) -> Put:
    db = _sqlite(path, durable=True)

    def put(n: int) -> None:
        while True:
            with suppress(sqlite3.OperationalError):  # it was locked for longer than its limit
                db.execute("insert into r values(?, ?)", (number, n))
                return

    return put


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


SMALL = Work("small transactions", small_rows, 1000, 300, graphs.skewed)
