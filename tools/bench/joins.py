"""Systems that evaluate and maintain joins over one graph, behind one small face.

The graph is edges x < y, int64[2, m], sorted. A task is asked in the system's own language: rules here, SQL
there, lazy frames elsewhere; the hand-written merge answers only what it was written for.
"""

import importlib.util
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

import ivm

from . import merge


class Task(NamedTuple):
    """A question about the graph; the answer is compared by its number of rows."""

    name: str
    rule: str
    sql: str


TRIANGLES = Task(
    "triangles listed",
    "q(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).",
    "select a.x, a.y, b.y z from edge a join edge b on a.y = b.x join edge c on c.x = a.x and c.y = b.y",
)
CLIQUES = Task(
    "4-cliques listed",
    "q(x, y, z, w) <- edge(x, y), edge(y, z), edge(x, z), edge(x, w), edge(y, w), edge(z, w).",
    "select a.x, a.y, b.y z, d.y w from edge a "
    "join edge b on a.y = b.x join edge c on c.x = a.x and c.y = b.y "
    "join edge d on d.x = b.y join edge e on e.x = a.x and e.y = d.y join edge f on f.x = a.y and f.y = d.y",
)
TASKS = (TRIANGLES, CLIQUES)


class Evaluator(Protocol):
    """Holds a graph and answers tasks from scratch."""

    name: str

    @property
    def tasks(self) -> tuple[Task, ...]: ...

    def __init__(self, edges: np.ndarray, folder: Path) -> None: ...

    def ask(self, task: Task) -> int:
        """Evaluates the task, keeps the rows it gives in memory, and says how many they are."""

    def close(self) -> None: ...


class Maintainer(Protocol):
    """Holds a graph and its triangles, and keeps both right."""

    name: str

    def __init__(self, edges: np.ndarray, folder: Path) -> None: ...

    def change(self, gone: np.ndarray, new: np.ndarray) -> None:
        """One transaction."""

    def triangles(self) -> int: ...
    def counts(self) -> dict[str, float]:
        """What the last change took besides time, and bytes on disk."""

    def close(self) -> None: ...


def evaluators() -> list[type[Evaluator]]:
    """Ours, the limit, and the systems of others that this environment has."""
    found: list[type[Evaluator]] = [Ours, Merge]
    found += [Duckdb] * (importlib.util.find_spec("duckdb") is not None)
    found += [Polars] * (importlib.util.find_spec("polars") is not None)
    return found


def maintainers() -> list[type[Maintainer]]:
    """Ours, and what a careful user of SQL would write."""
    return [OursMaintained, SqliteTriggers]


class Ours:
    """The edges in a store, unsynced; a question is planned, evaluated, and its answer is an Arrow table."""

    name = "ivm"
    tasks = TASKS

    def __init__(self, edges: np.ndarray, folder: Path) -> None:
        self.workspace = ivm.open(folder / "evaluated.pages", sync="off")
        self.workspace.install("edge(x, y) -> int(x), int(y).")
        with self.workspace.transaction() as txn:
            txn.insert("edge", list(edges))

    def ask(self, task: Task) -> int:
        return len(self.workspace.query(task.rule))

    def close(self) -> None:
        self.workspace.close()


class OursMaintained:
    """Edges, triangles, indices and sixteen versions in a store on disk, unsynced."""

    name = "ivm"

    def __init__(self, edges: np.ndarray, folder: Path) -> None:
        self.workspace = ivm.open(folder / "maintained.pages", sync="off")
        self.workspace.install("edge(x, y) -> int(x), int(y).", name="facts")
        with self.workspace.transaction() as txn:
            txn.insert("edge", list(edges))
        self.workspace.install(TRIANGLES.rule, name="view")

    def change(self, gone: np.ndarray, new: np.ndarray) -> None:
        with self.workspace.transaction() as txn:
            txn.delete("edge", list(gone))
            txn.insert("edge", list(new))

    def triangles(self) -> int:
        return len(self.workspace["q"])

    def counts(self) -> dict[str, float]:
        size = self.workspace.store.path.stat().st_blocks * 512
        return {"operations": self.workspace.stats("q")["operations"], "MB": round(size / 1e6, 1)}

    def close(self) -> None:
        self.workspace.close()


class Merge:
    """The hand-written limit; knows triangles only."""

    name = "merge (limit)"
    tasks = (TRIANGLES,)

    def __init__(self, edges: np.ndarray, folder: Path) -> None:
        self.adjacency = merge.adjacency(edges)

    def ask(self, task: Task) -> int:
        return len(merge.triangles(*self.adjacency))

    def close(self) -> None: ...


class Duckdb:
    """In memory, one thread, the result in a table."""

    name = "DuckDB"
    tasks = TASKS

    def __init__(self, edges: np.ndarray, folder: Path) -> None:
        import duckdb

        self.db: Any = duckdb.connect(config={"threads": 1, "preserve_insertion_order": False})
        self.db.register("given", _table(edges))
        self.db.execute("create table edge as select x::integer x, y::integer y from given")

    def ask(self, task: Task) -> int:
        self.db.execute(f"create or replace table q as {task.sql}")
        return self.db.execute("select count(*) from q").fetchone()[0]

    def close(self) -> None:
        self.db.close()


class Polars:
    """Lazy frames, streaming engine; as many threads as POLARS_MAX_THREADS says."""

    name = "Polars"
    tasks = TASKS

    def __init__(self, edges: np.ndarray, folder: Path) -> None:
        import polars

        self.pl: Any = polars
        self.edge = polars.DataFrame({"x": edges[0].astype("i4"), "y": edges[1].astype("i4")}).lazy()

    def ask(self, task: Task) -> int:
        questions: Mapping[Task, Callable[[], Any]] = {
            TRIANGLES: self._triangles,
            CLIQUES: self._cliques,
        }
        return questions[task]().collect(engine="streaming").height

    def _as(self, first: str, second: str) -> Any:
        return self.edge.rename({"x": f"_{first}", "y": f"_{second}"}).rename(lambda name: name[1:])

    def _triangles(self) -> Any:
        pairs = self._as("x", "y").join(self._as("y", "z"), on="y")
        return pairs.join(self._as("x", "z"), on=["x", "z"], how="semi")

    def _cliques(self) -> Any:
        fourth = self._triangles().join(self._as("z", "w"), on="z")
        fourth = fourth.join(self._as("x", "w"), on=["x", "w"], how="semi")
        return fourth.join(self._as("y", "w"), on=["y", "w"], how="semi")

    def close(self) -> None: ...


class SqliteTriggers:
    """On disk, unsynced: three indices on the triangles, and triggers that a careful user would write."""

    name = "SQLite triggers"

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
        self.db = sqlite3.connect(self.file, isolation_level=None)
        for setting in ("page_size=8192", "cache_size=-2000000", "journal_mode=wal", "synchronous=off"):
            self.db.execute(f"pragma {setting}")
        self.db.executescript(self.SCHEMA)
        self.db.execute("begin")
        self.db.executemany("insert into edge values(?, ?)", edges.T.tolist())
        self.db.execute(f"insert into triangle {TRIANGLES.sql} order by 1, 2, 3")
        self.db.execute("commit")
        self.db.executescript(self.TRIGGERS)

    def change(self, gone: np.ndarray, new: np.ndarray) -> None:
        self.db.execute("begin")
        self.db.executemany("delete from edge where x = ? and y = ?", gone.T.tolist())
        self.db.executemany("insert into edge values(?, ?)", new.T.tolist())
        self.db.execute("commit")

    def triangles(self) -> int:
        return self.db.execute("select count(*) from triangle").fetchone()[0]

    def counts(self) -> dict[str, float]:
        return {"MB": round(self.file.stat().st_blocks * 512 / 1e6, 1)}

    def close(self) -> None:
        self.db.close()


def _table(edges: np.ndarray) -> Any:
    import pyarrow as pa

    return pa.table({"x": edges[0], "y": edges[1]})
