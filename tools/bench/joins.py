"""Joins over one graph, evaluated from scratch: the tasks, and the systems that answer them.

The graph is edges x < y, int64[2, m], sorted. A task is asked in the system's own language: rules here, SQL
there, lazy frames elsewhere; the hand-written merge answers only what it was written for.
"""

import importlib.util
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

import ivm
from pagestore.runtime.parallel import together

from . import merge
from .measure import Row, Side
from .merge import can_compile

LARGE = 200_000  # edges; from here on no other system lists all 3-paths


@dataclass(frozen=True)
class Task:
    """A question about the graph. Its answer is its number of rows, or for one that is `counted`, the count."""

    name: str
    rule: str  # of the view {name}
    sql: str
    counted: bool = False


TRIANGLES = Task(
    "triangles listed",
    "{name}(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).",
    "select a.x, a.y, b.y z from edge a join edge b on a.y = b.x join edge c on c.x = a.x and c.y = b.y",
)
_CLIQUE = "edge(x, y), edge(y, z), edge(x, z), edge(x, w), edge(y, w), edge(z, w)."
_CLIQUE_SQL = (
    "from edge a join edge b on a.y = b.x join edge c on c.x = a.x and c.y = b.y "
    "join edge d on d.x = b.y join edge e on e.x = a.x and e.y = d.y join edge f on f.x = a.y and f.y = d.y"
)
CLIQUES_COUNTED = Task(
    "4-cliques counted", f"{{name}}[] = n <- agg<<n = count()>> {_CLIQUE}", f"select count(*) {_CLIQUE_SQL}", True
)
CLIQUES = Task("4-cliques listed", f"{{name}}(x, y, z, w) <- {_CLIQUE}", f"select a.x, a.y, b.y z, d.y w {_CLIQUE_SQL}")
_PATHS = "{name}(x, w) <- edge(x, y), edge(y, z), edge(z, w)."
PATHS = Task(
    "distinct ends of 3-paths",
    _PATHS,
    "select distinct a.x, c.y w from edge a join edge b on a.y = b.x join edge c on b.y = c.x",
)
PATHS_BY_HAND = Task(  # rewritten by hand, for planners that do not project early
    PATHS.name,
    _PATHS,
    "select distinct a.x, c.y w from (select distinct a.x, b.y from edge a join edge b on a.y = b.x) a "
    "join edge c on a.y = c.x",
)


class Evaluator(Protocol):
    """A system that holds a graph and answers tasks from scratch, on one thread."""

    name: str

    def __init__(self, edges: np.ndarray, folder: Path) -> None: ...

    def ask(self, task: Task) -> int:
        """Evaluate the task and hold its rows in memory; returns their number, or the count."""

    def counts(self) -> dict[str, float]:
        """Numbers about the last task besides time."""

    def close(self) -> None:
        """Release the graph."""


def rows(edges: np.ndarray, folder: Path, quick: bool) -> Iterator[Row]:
    """The rows that measure full evaluation. A system is opened when a row first needs it."""
    with ExitStack() as stack:

        @cache
        def system(kind: type[Evaluator]) -> Evaluator:
            opened = kind(edges, folder)
            stack.callback(opened.close)
            return opened

        def sides(task: Task, *kinds: type[Evaluator]) -> list[Side]:
            return [
                Side(
                    kind.name,
                    lambda kind=kind: system(kind).ask(task),  # type: ignore[misc]
                    partial(system, kind),
                    lambda kind=kind: system(kind).counts(),  # type: ignore[misc]
                )
                for kind in kinds
            ]

        others = peers()
        yield Row(TRIANGLES.name, sides(TRIANGLES, Ours, *[Merge] * can_compile(), *others), rounds=5)
        yield Row(CLIQUES_COUNTED.name, sides(CLIQUES_COUNTED, Ours, *others), rounds=3)
        if not quick:
            yield Row(CLIQUES.name, sides(CLIQUES, Ours, *others), rounds=3)
        by_hand = sides(PATHS_BY_HAND, *others)
        for side in by_hand:
            side.name += ", rewritten"
        asked = others if edges.shape[1] < LARGE else []
        yield Row(PATHS.name, [*sides(PATHS, Ours, *asked), *by_hand], rounds=3)
        for task in (TRIANGLES, CLIQUES_COUNTED):
            two, one, twice = sides(task, OursOnTwo, Ours, OursTwice)
            compared = [two, replace(one, name="ivm, one thread"), twice]
            yield Row(f"{task.name}, on two threads", compared, rounds=15)  # many, since both threads may share a core
        yield _recorded(system, TRIANGLES, (1, 16, 64))
        if not quick:
            yield _recorded(system, CLIQUES_COUNTED, (16, 64, 256))
        if not quick and edges.shape[1] < LARGE:
            yield _recorded(system, PATHS, (64, 256))


def _recorded(system: Callable[[type[Evaluator]], Evaluator], task: Task, granularities: Sequence[int]) -> Row:
    """A row that installs a view: it is evaluated and stored, with permuted indices or with sensitivity indices."""
    ways = {"ivm, evaluated and stored": ("probe", 1)}
    ways |= {f"ivm, all sensitivity, granularity {g}": ("match", g) for g in granularities}

    def side(name: str, maintenance: str, granularity: int) -> Side:
        counts: dict[str, float] = {}

        def ours() -> Ours:
            found = system(Ours)
            assert isinstance(found, Ours)
            return found

        def install() -> int:
            rows, sensitive = ours().install(task, maintenance, granularity)
            counts["sensitivity rows"] = sensitive
            return rows

        return Side(name, install, lambda: ours().uninstall(), lambda: counts)

    return Row(f"{task.name}, installed as a view", [side(name, *way) for name, way in ways.items()], rounds=3)


def peers() -> list[type[Evaluator]]:
    """The other systems that are installed."""
    found: list[type[Evaluator]] = []
    found += [Duckdb] * (importlib.util.find_spec("duckdb") is not None)
    found += [Polars] * (importlib.util.find_spec("polars") is not None)
    return found


class Ours:
    """This project: edges in a store, unsynced; a view is installed, and evaluated again to an Arrow table."""

    name = "ivm"
    threads = 1

    def __init__(self, edges: np.ndarray, folder: Path) -> None:
        file = folder / f"evaluated-{self.threads}.pages"
        self.workspace = ivm.open(file, sync="off", retain=1, threads=self.threads)
        self.workspace.install("edge(x, y) -> int(x), int(y).", name="facts")
        with self.workspace.transaction() as txn:
            txn.insert("edge", list(edges))
        self._views: dict[str, str] = {}
        self._asked = ""

    def ask(self, task: Task) -> int:
        """Evaluate a task from scratch; its number of rows, or its count."""
        if task.rule not in self._views:
            name = f"view{len(self._views)}"
            self.workspace.install(task.rule.format(name=name), name=name, maintenance="probe")
            self._views[task.rule] = name
        self._asked = self._views[task.rule]
        answer = self.workspace.evaluate(self._asked).to_arrow()
        return answer["n"][0].as_py() if task.counted else len(answer)

    def counts(self) -> dict[str, float]:
        """The operations of filling the view, which is the same evaluation."""
        return {"operations": self.workspace.stats(self._asked)["operations"]}

    def install(self, task: Task, maintenance: str, granularity: int) -> tuple[int, int]:
        """Install the task as a view; the rows of it and of its sensitivity indices."""
        rule = task.rule.format(name="installed")
        self.workspace.install(rule, name="installed", maintenance=maintenance, granularity=granularity)
        stats = self.workspace.stats("installed")
        return stats["rows"], stats["sensitivity_rows"]

    def uninstall(self) -> None:
        """Remove the view that `install` made."""
        if "installed" in self.workspace.blocks:
            self.workspace.uninstall("installed")

    def close(self) -> None:
        """Release the graph."""
        self.workspace.close()


class OursOnTwo(Ours):
    """The same on two threads."""

    name = "ivm, two threads"
    threads = 2


class OursTwice:
    """The limit of two threads: each evaluates the whole task, in a store of its own, and they share nothing."""

    name = "ivm, one thread, twice at once"

    def __init__(self, edges: np.ndarray, folder: Path) -> None:
        self._both = [Ours(edges, Path(tempfile.mkdtemp(dir=folder))) for _ in range(2)]

    def ask(self, task: Task) -> int:
        """Evaluate a task from scratch; its number of rows, or its count."""
        return together([partial(one.ask, task) for one in self._both])[0]

    def counts(self) -> dict[str, float]:
        """Nothing is counted."""
        return {}

    def close(self) -> None:
        """Release the graph."""
        for one in self._both:
            one.close()


class Merge:
    """The hand-written limit, which knows only triangles."""

    name = "merge (limit)"

    def __init__(self, edges: np.ndarray, folder: Path) -> None:
        self.adjacency = merge.adjacency(edges)

    def ask(self, task: Task) -> int:
        """Evaluate a task from scratch; its number of rows, or its count."""
        return len(merge.triangles(*self.adjacency))

    def counts(self) -> dict[str, float]:
        """Nothing is counted."""
        return {}

    def close(self) -> None:
        """Release the graph."""


class Duckdb:
    """DuckDB in memory, on one thread; it lists into a table."""

    name = "DuckDB"

    def __init__(self, edges: np.ndarray, folder: Path) -> None:
        import duckdb

        self.db: Any = duckdb.connect(config={"threads": 1, "preserve_insertion_order": False})
        self.db.execute("set enable_progress_bar = false")
        self.db.register("given", pa.table({"x": edges[0], "y": edges[1]}))
        self.db.execute("create table edge as select x::integer x, y::integer y from given")

    def ask(self, task: Task) -> int:
        """Evaluate a task from scratch; its number of rows, or its count."""
        self.db.execute(f"create or replace table q as {task.sql}")
        return int(self.db.execute(f"select {'*' if task.counted else 'count(*)'} from q").fetchone()[0])

    def counts(self) -> dict[str, float]:
        """Nothing is counted."""
        return {}

    def close(self) -> None:
        """Release the graph."""
        self.db.close()


class Polars:
    """Polars with lazy frames and its streaming engine, on POLARS_MAX_THREADS threads."""

    name = "Polars"

    def __init__(self, edges: np.ndarray, folder: Path) -> None:
        import polars

        self.pl: Any = polars
        self.edge = polars.DataFrame({"x": edges[0].astype("i4"), "y": edges[1].astype("i4")}).lazy()

    def ask(self, task: Task) -> int:
        """Evaluate a task from scratch; its number of rows, or its count."""
        questions: Mapping[Task, Callable[[], Any]] = {
            TRIANGLES: self._triangles,
            CLIQUES: self._cliques,
            CLIQUES_COUNTED: lambda: self._cliques().select(self.pl.len()),
            PATHS: lambda: self._paths(self._pairs()),
            PATHS_BY_HAND: lambda: self._paths(self._pairs().select("x", "z").unique()),
        }
        answer = questions[task]().collect(engine="streaming")
        return int(answer.item() if task.counted else answer.height)

    def _as(self, first: str, second: str) -> Any:
        return self.edge.rename({"x": f"_{first}", "y": f"_{second}"}).rename(lambda name: name[1:])

    def _pairs(self) -> Any:
        return self._as("x", "y").join(self._as("y", "z"), on="y")

    def _triangles(self) -> Any:
        return self._pairs().join(self._as("x", "z"), on=["x", "z"], how="semi")

    def _cliques(self) -> Any:
        fourth = self._triangles().join(self._as("z", "w"), on="z")
        fourth = fourth.join(self._as("x", "w"), on=["x", "w"], how="semi")
        return fourth.join(self._as("y", "w"), on=["y", "w"], how="semi")

    def _paths(self, pairs: Any) -> Any:
        return pairs.join(self._as("z", "w"), on="z").select("x", "w").unique()

    def counts(self) -> dict[str, float]:
        """Nothing is counted."""
        return {}

    def close(self) -> None:
        """Release the graph."""
