"""Joins over one graph, evaluated from scratch: the tasks, and the systems that answer them.

The graph is edges x < y, int64[2, m], sorted. A task is written in the system's own language: rules
here, SQL there, lazy frames elsewhere; the hand-written merge answers only what it was written for.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import ivm
from pagestore.host import together

from . import graphs
from .harness import Row, Side, duckdb_with, installed, workspace_with

# set before Polars is imported, so that each system has one thread
os.environ.setdefault("POLARS_MAX_THREADS", "1")
LARGE = 200_000  # edges; from here on no other system lists all 3-paths
DECLARED = "edge(x, y) -> int(x), int(y)."
_TRIANGLE = "edge a join edge b on a.y = b.x join edge c on c.x = a.x and c.y = b.y"
_CLIQUE = "edge(x, y), edge(y, z), edge(x, z), edge(x, w), edge(y, w), edge(z, w)."
_CLIQUE_SQL = (
    f"from {_TRIANGLE} join edge d on d.x = b.y join edge e on e.x = a.x and e.y = d.y "
    "join edge f on f.x = a.y and f.y = d.y"
)
_PATHS = "distinct ends of 3-paths", "{name}(x, w) <- edge(x, y), edge(y, z), edge(z, w)."
_PAIRS = "from edge a join edge b on a.y = b.x"


class Task(NamedTuple):
    """A question about the graph. Its answer is its number of rows, or for one that is
    `counted`, the count.
    """

    name: str
    rule: str  # of the view {name}
    sql: str
    counted: bool = False

    def evaluated(self, workspace: ivm.Workspace) -> int:
        """Evaluate the task from scratch, which is installed as a view; return its answer."""
        if self.view not in workspace.blocks:
            workspace.install(self.rule.format(name=self.view), name=self.view, maintenance="probe")
        answer = workspace.evaluate(self.view).to_arrow()
        return int(answer["n"][0].as_py() if self.counted else len(answer))

    @property
    def view(self) -> str:
        """Return the name of the task's view."""
        return "view_of_" + re.sub(r"\W", "_", self.name)


TRIANGLES = Task(
    "triangles listed",
    "{name}(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).",
    f"select a.x, a.y, b.y z from {_TRIANGLE}",
)
COUNTED = "{name}[] = n <- agg<<n = count()>> " + _CLIQUE
CLIQUES_COUNTED = Task("4-cliques counted", COUNTED, f"select count(*) {_CLIQUE_SQL}", True)
CLIQUES = Task(
    "4-cliques listed",
    "{name}(x, y, z, w) <- " + _CLIQUE,
    f"select a.x, a.y, b.y z, d.y w {_CLIQUE_SQL}",
)
PATHS = Task(*_PATHS, f"select distinct a.x, c.y w {_PAIRS} join edge c on b.y = c.x")
PATHS_BY_HAND = Task(  # rewritten by hand, for planners that do not project early
    *_PATHS,
    f"select distinct a.x, c.y w from (select distinct a.x, b.y {_PAIRS}) a join edge c on a.y = "
    f"c.x",
)


def rows(edges: np.ndarray, folder: Path, quick: bool) -> Iterator[Row]:
    """Yield the rows that measure full evaluation. A system is opened when a row first needs it."""
    few = edges.shape[1] < LARGE
    with ExitStack() as held:

        @cache
        def ours(threads: int, number: int = 0) -> ivm.Workspace:
            file = folder / f"evaluated-{threads}-{number}.pages"
            return held.enter_context(
                workspace_with(file, DECLARED, {"edge": [*edges]}, retain=1, threads=threads)
            )

        def mine(task: Task, threads: int, name: str) -> Side:
            operations = lambda: {"operations": ours(threads).stats(task.view)["operations"]}  # noqa: E731
            return Side(
                name, lambda: task.evaluated(ours(threads)), lambda: ours(threads), operations
            )

        peers = {
            name: cache(partial(make, edges))
            for name, make in PEERS.items()
            if installed(name.lower())
        }

        def theirs(task: Task, suffix: str = "") -> list[Side]:
            return [
                Side(name + suffix, lambda peer=peer: peer()(task), peer)  # type: ignore[misc]
                for name, peer in peers.items()
            ]

        adjacency = cache(partial(graphs.adjacency, edges))
        limit = Side("merge (limit)", lambda: len(graphs.triangles(*adjacency())), adjacency)
        yield Row(
            TRIANGLES.name,
            [mine(TRIANGLES, 1, "ivm"), *[limit] * installed("numba"), *theirs(TRIANGLES)],
        )
        for task in (CLIQUES_COUNTED, *[CLIQUES] * (not quick)):
            yield Row(task.name, [mine(task, 1, "ivm"), *theirs(task)], 3)
        by_hand = theirs(PATHS_BY_HAND, ", rewritten")
        yield Row(PATHS.name, [mine(PATHS, 1, "ivm"), *theirs(PATHS) * few, *by_hand], 3)
        for task in (TRIANGLES, CLIQUES_COUNTED):
            twice = Side(
                "ivm, one thread, twice at once",  # the limit of two threads: they share nothing
                lambda task=task: together([partial(task.evaluated, ours(1, n)) for n in (1, 2)])[
                    0
                ],  # type: ignore[misc]
                lambda: (ours(1, 1), ours(1, 2)),
            )
            compared = [mine(task, 2, "ivm, two threads"), mine(task, 1, "ivm, one thread"), twice]
            # many, since both threads may share a core
            yield Row(f"{task.name}, on two threads", compared, 15)
        for task, granularities, expected in (
            (TRIANGLES, (1, 16, 64), True),
            (CLIQUES_COUNTED, (16, 64, 256), not quick),
            (PATHS, (64, 256), few and not quick),
        ):
            if expected:
                sides = [
                    _installing(ours, task, 0),
                    *(_installing(ours, task, each) for each in granularities),
                ]
                yield Row(f"{task.name}, installed as a view", sides, 3)


def _installing(ours: Callable[[int], ivm.Workspace], task: Task, granularity: int) -> Side:
    """Return a side that installs a view: evaluates and stores it, with sensitivity indices
    unless granularity is 0.
    """
    counts: dict[str, float] = {}

    def uninstall() -> None:
        if "installed" in ours(1).blocks:
            ours(1).uninstall("installed")

    def install() -> int:
        how = (
            {"maintenance": "match", "granularity": granularity}
            if granularity
            else {"maintenance": "probe"}
        )
        ours(1).install(task.rule.format(name="installed"), name="installed", **how)
        stats = ours(1).stats("installed")
        counts["sensitivity rows"] = stats["sensitivity_rows"]
        return int(stats["rows"])

    kept = f"all sensitivity, granularity {granularity}" if granularity else "evaluated and stored"
    return Side(f"ivm, {kept}", install, uninstall, lambda: counts)


def as_columns(edges: np.ndarray) -> dict[str, np.ndarray]:
    """Return edges as the columns that others hold."""
    return {"x": edges[0].astype("i4"), "y": edges[1].astype("i4")}


def _duckdb(edges: np.ndarray) -> Callable[[Task], int]:
    """Return what answers with DuckDB in memory, on one thread; it lists into a table."""
    db = duckdb_with({"edge": as_columns(edges)})
    db.execute("set enable_progress_bar = false; set preserve_insertion_order = false")

    def answer(task: Task) -> int:
        db.execute(f"create or replace table q as {task.sql}")
        return int(db.execute(f"select {'*' if task.counted else 'count(*)'} from q").fetchone()[0])

    return answer


def _polars(edges: np.ndarray) -> Callable[[Task], int]:
    """Return what answers with Polars: lazy frames, streaming, POLARS_MAX_THREADS threads."""
    import polars

    edge = polars.DataFrame(as_columns(edges)).lazy()

    def named(first: str, second: str) -> Any:
        return edge.select(polars.col("x").alias(first), polars.col("y").alias(second))

    pairs = named("x", "y").join(named("y", "z"), on="y")
    triangles = pairs.join(named("x", "z"), on=["x", "z"], how="semi")
    cliques = triangles.join(named("z", "w"), on="z")
    for missing in ("x", "y"):
        cliques = cliques.join(named(missing, "w"), on=[missing, "w"], how="semi")
    tasks: dict[Task, Any] = {
        TRIANGLES: triangles,
        CLIQUES: cliques,
        CLIQUES_COUNTED: cliques.select(polars.len()),
    }
    for task, firsts in ((PATHS, pairs), (PATHS_BY_HAND, pairs.select("x", "z").unique())):
        tasks[task] = firsts.join(named("z", "w"), on="z").select("x", "w").unique()

    def answer(task: Task) -> int:
        frame = tasks[task].collect(engine="streaming")
        return int(frame.item() if task.counted else frame.height)

    return answer


PEERS: dict[str, Callable[[np.ndarray], Callable[[Task], int]]] = {
    "DuckDB": _duckdb,
    "Polars": _polars,
}
