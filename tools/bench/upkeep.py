"""Views of one graph, maintained while it changes: by this project, by SQL as a careful user writes
it, and by hand.

A system is made of the edges and a folder, and maintains a listing. `change` deletes and inserts
edges in one transaction, as does `counted`, which returns what that takes besides time; `rows`
returns the number of rows of the listing, and `close` closes the system.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from . import graphs
from .graphs import changes
from .harness import Disagreement, Row, Side, duckdb_with, installed, workspace_with
from .joins import CLIQUES, DECLARED, TRIANGLES, Task, as_columns
from .meter import Meter

BATCH = 1000
COUNTED = 10  # changes whose pages and calls are counted, after those that are timed
# changes before the timed ones: enough to write every page that the file's versions need twice
WARMING = 64
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
        "SQLite triggers": partial(SqliteTriggers, sync="full"),
    }
    on_two: dict[str, Maker] = {"ivm": Ours, "ivm, two threads": partial(Ours, threads=2), **alone}
    work = "maintained, one edge a transaction"
    for row, batch, makers, rounds, stretch in (
        (f"triangles {work}", 1, alone, singles, 50),
        (f"triangles {work}, synced", 1, synced, singles // 2, 50),
        (f"triangles maintained, {BATCH:,} edges a transaction", BATCH, on_two, batches, 10),
        (f"4-cliques {work}", 1, {"ivm": partial(Ours, task=CLIQUES)}, singles, 50),
    ):
        opened: dict[str, System] = {}
        most = max(part.shape[1] for part in next(changes(edges, batch)))
        sides = [_side(name, makers[name], opened, edges, folder, batch) for name in makers]
        yield Row(
            row, sides, rounds, stretch=stretch, things=(1 if most == 1 else 2 * most, "edges")
        )
        rows_by_system = {name: system.rows() for name, system in opened.items()}
        if len(set(rows_by_system.values())) > 1:
            raise Disagreement(f"rows after the same changes: {rows_by_system}")
        for system in opened.values():
            system.close()


def systems() -> dict[str, Maker]:
    """Return what makes this project's and the other systems that are installed, by name."""
    makers: dict[str, Maker] = {"ivm": Ours, "SQLite triggers": SqliteTriggers}
    return makers | ({"DuckDB, delta by hand": _DuckdbDelta} if installed("duckdb") else {})


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


class SqliteTriggers:
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
        """Delete and insert edges in one transaction."""
        self.db.execute("begin")
        self.db.executemany("delete from edge where x = ? and y = ?", gone.T.tolist())
        self.db.executemany("insert into edge values(?, ?)", new.T.tolist())
        self.db.execute("commit")

    def rows(self) -> int:
        """Return the number of rows of the listing."""
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

    rows: Any = SqliteTriggers.rows
