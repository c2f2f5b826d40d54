"""Views of one graph, maintained while it changes: by this project, by SQL as a careful user writes it, and by hand.

The graph is edges x < y, int64[2, m], sorted. Changes of one edge take an edge out and put it back in turns;
larger ones take out as many random edges as they put back of those taken out before.
"""

import importlib.util
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

import ivm

from .joins import CLIQUES, TRIANGLES, Task
from .measure import Disagreement, Row, Side
from .merge import Adjacency, can_compile
from .meter import Meter

Change = tuple[np.ndarray, np.ndarray]  # edges gone, edges new: each int64[2, n]
BATCH = 1000
COUNTED = 10  # changes whose pages and calls are counted, after those that are timed
WARMING = 64  # changes before the timed ones: enough to write every page that the file's versions need twice


class Maintainer(Protocol):
    """A system that holds a graph and a listing, and maintains the listing."""

    name: str

    def __init__(self, edges: np.ndarray, folder: Path) -> None: ...

    def change(self, gone: np.ndarray, new: np.ndarray) -> None:
        """Delete and insert edges in one transaction."""

    def rows(self) -> int:
        """The number of rows of the listing."""

    def counts(self, more: Sequence[Change]) -> dict[str, float]:
        """Make some more changes, and report what one takes besides time."""

    def close(self) -> None:
        """Release the graph."""


def rows(edges: np.ndarray, folder: Path, quick: bool) -> Iterator[Row]:
    """The rows that measure maintenance."""
    triangles: list[type[Maintainer]] = [Ours, *[ByHand] * can_compile(), *peers()]
    singles, batches = (40, 6) if quick else (400, 20)
    yield _loading("triangles loaded and listed", [Ours, *peers()], edges, folder, 1 if quick else 3)
    one, many = partial(changes, edges, 1), partial(changes, edges, BATCH)
    name = "triangles maintained, one edge a transaction"
    yield from _maintaining(name, triangles, one, edges, folder, singles)
    yield from _maintaining(f"{name}, synced", [OursSynced, SqliteSynced], one, edges, folder, singles // 2)
    name = f"triangles maintained, {BATCH:,} edges a transaction"
    yield from _maintaining(name, [Ours, OursOnTwo, *triangles[1:]], many, edges, folder, batches, 10)
    name = "4-cliques maintained, one edge a transaction"
    yield from _maintaining(name, [OursOfCliques], one, edges, folder, singles)


def peers() -> list[type[Maintainer]]:
    """The other systems that are installed."""
    found: list[type[Maintainer]] = [SqliteTriggers]
    return found + [DuckdbDelta] * (importlib.util.find_spec("duckdb") is not None)


def changes(edges: np.ndarray, batch: int) -> Iterator[Change]:
    """An endless sequence of changes, the same each time."""
    random = np.random.default_rng(7)
    none = edges[:, :0]
    while True:
        order = random.permutation(edges.shape[1])
        if batch == 1:
            for i in order.tolist():
                yield edges[:, i : i + 1], none
                yield none, edges[:, i : i + 1]
            continue
        half = min(batch // 2, len(order) // 4)
        chunks = [edges[:, order[at : at + half]] for at in range(0, len(order) - half, half)]
        for new, gone in pairwise([none, *chunks, none]):
            yield gone, new


def _loading(name: str, kinds: list[type[Maintainer]], edges: np.ndarray, folder: Path, rounds: int) -> Row:
    """A row that makes a store with the listing, and all that maintains it, from edges in memory."""

    def load(kind: type[Maintainer]) -> int:
        keeper = kind(edges, folder)
        found = keeper.rows()
        keeper.close()
        return found

    return Row(name, [Side(kind.name, partial(load, kind)) for kind in kinds], rounds, unit="s", scale=1)


def _maintaining(
    name: str,
    kinds: list[type[Maintainer]],
    change: Callable[[], Iterator[Change]],
    edges: np.ndarray,
    folder: Path,
    rounds: int,
    stretch: int = 50,
) -> Iterator[Row]:
    """A row in which every side makes the same changes to a system of its own; the listings are compared at the end."""
    opened: dict[type[Maintainer], Maintainer] = {}

    def side(kind: type[Maintainer]) -> Side:
        rest = change()

        def keeper() -> Maintainer:
            if kind not in opened:
                opened[kind] = kind(edges, folder)
                for warming in islice(rest, WARMING):
                    opened[kind].change(*warming)
            return opened[kind]

        def counts() -> dict[str, float]:
            return keeper().counts([*islice(rest, COUNTED)])

        return Side(kind.name, lambda: keeper().change(*next(rest)), keeper, counts)

    batch = max(part.shape[1] for part in next(change()))
    size = 1 if batch == 1 else 2 * batch
    yield Row(name, [side(kind) for kind in kinds], rounds, stretch=stretch, things=(size, "edges"))
    found = {kind.name: keeper.rows() for kind, keeper in opened.items()}
    if len(set(found.values())) > 1:
        raise Disagreement(f"rows after the same changes: {found}")
    for keeper in opened.values():
        keeper.close()


class Ours:
    """This project: edges, triangles, indices and sixteen versions in a store on disk, unsynced."""

    name = "ivm"
    task: Task = TRIANGLES
    sync = "off"
    threads = 1

    def __init__(self, edges: np.ndarray, folder: Path) -> None:
        file = folder / f"maintained-{self.threads}.pages"
        file.unlink(missing_ok=True)
        self.workspace = ivm.open(file, sync=self.sync, threads=self.threads)
        self.workspace.install("edge(x, y) -> int(x), int(y).", name="facts")
        with self.workspace.transaction() as txn:
            txn.insert("edge", list(edges))
        self.workspace.install(self.task.rule.format(name="q"), name="view")

    def change(self, gone: np.ndarray, new: np.ndarray) -> None:
        """Delete and insert edges in one transaction."""
        with self.workspace.transaction() as txn:
            if gone.size:
                txn.delete("edge", list(gone))
            if new.size:
                txn.insert("edge", list(new))

    def rows(self) -> int:
        """The number of rows of the listing."""
        return len(self.workspace["q"])

    def counts(self, more: Sequence[Change]) -> dict[str, float]:
        """Make some more changes, and report what one takes besides time."""
        totals: Counter[str] = Counter()
        for change in more:
            with Meter(self.workspace.store) as meter:
                self.change(*change)
            totals.update({"operations": self.workspace.stats("q")["operations"], **meter.counts})
        means = {name: total / len(more) for name, total in totals.items()}
        rounded = {name: round(mean, 1 if mean < 100 else None) for name, mean in means.items()}
        return {**rounded, "MB": _megabytes(self.workspace.store.path)}

    def close(self) -> None:
        """Release the graph."""
        self.workspace.close()


class OursOnTwo(Ours):
    """The same on two threads."""

    name = "ivm, two threads"
    threads = 2


class OursSynced(Ours):
    """The same, but each commit waits for the disk."""

    sync = "full"


class OursOfCliques(Ours):
    """The same for a listing of 4-cliques."""

    task = CLIQUES


class ByHand:
    """The limit: adjacency lists in memory, changed in place; it lists the triangles that change and counts all."""

    name = "by hand (limit)"

    def __init__(self, edges: np.ndarray, folder: Path) -> None:
        self.adjacency = Adjacency(edges)

    def change(self, gone: np.ndarray, new: np.ndarray) -> None:
        """Delete and insert edges in one transaction."""
        self.adjacency.change(gone, new)

    def rows(self) -> int:
        """The number of rows of the listing."""
        return int(self.adjacency.triangles)

    def counts(self, more: Sequence[Change]) -> dict[str, float]:
        """Make some more changes, and report what one takes besides time."""
        for change in more:
            self.change(*change)
        return {}

    def close(self) -> None:
        """Release the graph."""


class SqliteTriggers:
    """SQLite on disk, unsynced, with triggers, and the indices on edges and triangles that these need."""

    name = "SQLite triggers"
    synchronous = "off"

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

    def __init__(self, edges: np.ndarray, folder: Path) -> None:
        self.file = folder / "sqlite"
        for file in folder.glob("sqlite*"):
            file.unlink()
        self.db = sqlite3.connect(self.file, isolation_level=None)
        for setting in ("page_size=8192", "cache_size=-2000000", "journal_mode=wal", f"synchronous={self.synchronous}"):
            self.db.execute(f"pragma {setting}")
        self.db.executescript(self.SCHEMA)
        self.db.execute("begin")
        self.db.executemany("insert into edge values(?, ?)", edges.T.tolist())
        self.db.execute(f"insert into triangle {TRIANGLES.sql} order by 1, 2, 3")
        self.db.execute("commit")
        self.db.executescript(self.TRIGGERS)

    def change(self, gone: np.ndarray, new: np.ndarray) -> None:
        """Delete and insert edges in one transaction."""
        self.db.execute("begin")
        self.db.executemany("delete from edge where x = ? and y = ?", gone.T.tolist())
        self.db.executemany("insert into edge values(?, ?)", new.T.tolist())
        self.db.execute("commit")

    def rows(self) -> int:
        """The number of rows of the listing."""
        return int(self.db.execute("select count(*) from triangle").fetchone()[0])

    def counts(self, more: Sequence[Change]) -> dict[str, float]:
        """Make some more changes, and report what one takes besides time."""
        for change in more:
            self.change(*change)
        return {"MB": _megabytes(*self.file.parent.glob("sqlite*"))}

    def close(self) -> None:
        """Release the graph."""
        self.db.close()


class SqliteSynced(SqliteTriggers):
    """The same, but each commit waits for the disk."""

    synchronous = "full"


class DuckdbDelta:
    """DuckDB in memory, on one thread; a query over the changed edges, written by hand, finds the listing's delta."""

    name = "DuckDB, delta by hand"

    DELTA = """
        select a.x, a.y, b.y z from d a join edge b on a.y = b.x join edge c on c.x = a.x and c.y = b.y union
        select a.x, b.x, b.y from d b join edge a on a.y = b.x join edge c on c.x = a.x and c.y = b.y union
        select c.x, a.y, c.y from d c join edge a on a.x = c.x join edge b on b.x = a.y and b.y = c.y
    """

    def __init__(self, edges: np.ndarray, folder: Path) -> None:
        import duckdb

        self.db: Any = duckdb.connect(config={"threads": 1})
        self._bind("given", edges)
        self.db.execute("create table edge as select x::integer x, y::integer y from given")
        self.db.execute(f"create table triangle as {TRIANGLES.sql}")

    def change(self, gone: np.ndarray, new: np.ndarray) -> None:
        """Delete and insert edges in one transaction."""
        run = self.db.execute
        run("begin")
        if gone.size:
            self._bind("d", gone)
            run(f"create or replace temp table changed as {self.DELTA}")
            run("delete from triangle t using changed d where t.x = d.x and t.y = d.y and t.z = d.z")
            run("delete from edge e using d where e.x = d.x and e.y = d.y")
        if new.size:
            self._bind("d", new)
            run("insert into edge select * from d")
            run(f"insert into triangle {self.DELTA}")
        run("commit")

    def _bind(self, name: str, edges: np.ndarray) -> None:
        self.db.register(name, pa.table({"x": edges[0].astype("i4"), "y": edges[1].astype("i4")}))

    def rows(self) -> int:
        """The number of rows of the listing."""
        return int(self.db.execute("select count(*) from triangle").fetchone()[0])

    def counts(self, more: Sequence[Change]) -> dict[str, float]:
        """Make some more changes, and report what one takes besides time."""
        for change in more:
            self.change(*change)
        return {}

    def close(self) -> None:
        """Release the graph."""
        self.db.close()


def _megabytes(*files: Path) -> float:
    return round(sum(file.stat().st_blocks for file in files) * 512 / 1e6, 1)
