"""Joins over one graph, evaluated from scratch: the tasks, and the systems that answer them.

The graph is edges x < y, int64[2, m], sorted. A task is written in the system's own language: rules here, SQL
there, lazy frames elsewhere; the hand-written merge answers only what it was written for.
"""

import importlib.util
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import ivm
from pagestore.host import together

from . import graphs
from .harness import Row, Side
from .store import duckdb_with

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # set before Polars is imported, so that each system has one thread
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


def rows(edges: np.ndarray, folder: Path, quick: bool) -> Iterator[Row]:
    """Yield the rows that measure full evaluation. A system is opened when a row first needs it."""
    few = edges.shape[1] < LARGE
    with ExitStack() as held:

        @cache
        def ours(threads: int, number: int = 0) -> ivm.Workspace:
            file = folder / f"evaluated-{threads}-{number}.pages"
            return held.enter_context(workspace_with(edges, file, sync="off", retain=1, threads=threads))

        def mine(task: Task, threads: int, name: str) -> Side:
            operations = lambda: {"operations": ours(threads).stats(_view_of(task))["operations"]}  # noqa: E731
            return Side(name, lambda: _evaluated(ours(threads), task), lambda: ours(threads), operations)

        found = {name: make for name, make in PEERS.items() if importlib.util.find_spec(name.lower())}
        peers = {name: cache(partial(make, edges)) for name, make in found.items()}

        def theirs(task: Task, suffix: str = "") -> list[Side]:
            return [Side(name + suffix, lambda peer=peer: peer()(task), peer) for name, peer in peers.items()]  # type: ignore[misc]

        adjacency = cache(partial(graphs.adjacency, edges))
        limit = Side("merge (limit)", lambda: len(graphs.triangles(*adjacency())), adjacency)
        limits = [limit] * graphs.can_compile()
        yield Row(TRIANGLES.name, [mine(TRIANGLES, 1, "ivm"), *limits, *theirs(TRIANGLES)], rounds=5)
        for task in (CLIQUES_COUNTED, *[CLIQUES] * (not quick)):
            yield Row(task.name, [mine(task, 1, "ivm"), *theirs(task)], rounds=3)
        by_hand = theirs(PATHS_BY_HAND, ", rewritten")
        yield Row(PATHS.name, [mine(PATHS, 1, "ivm"), *theirs(PATHS) * few, *by_hand], rounds=3)
        for task in (TRIANGLES, CLIQUES_COUNTED):
            twice = Side(
                "ivm, one thread, twice at once",  # the limit of two threads: they share nothing
                lambda task=task: together([partial(_evaluated, ours(1, n), task) for n in (1, 2)])[0],  # type: ignore[misc]
                lambda: (ours(1, 1), ours(1, 2)),
            )
            compared = [mine(task, 2, "ivm, two threads"), mine(task, 1, "ivm, one thread"), twice]
            yield Row(f"{task.name}, on two threads", compared, rounds=15)  # many, since both threads may share a core
        yield _installed(ours, TRIANGLES, (1, 16, 64))
        if not quick:
            yield _installed(ours, CLIQUES_COUNTED, (16, 64, 256))
            if few:
                yield _installed(ours, PATHS, (64, 256))


def _view_of(task: Task) -> str:
    return "view_of_" + re.sub(r"\W", "_", task.name)


def _evaluated(workspace: ivm.Workspace, task: Task) -> int:
    """Evaluate a task from scratch, which is installed as a view; return its number of rows, or its count."""
    name = _view_of(task)
    if name not in workspace.blocks:
        workspace.install(task.rule.format(name=name), name=name, maintenance="probe")
    answer = workspace.evaluate(name).to_arrow()
    return int(answer["n"][0].as_py() if task.counted else len(answer))


def _installed(ours: Callable[[int], ivm.Workspace], task: Task, granularities: Sequence[int]) -> Row:
    """Return a row that installs a view: it is evaluated and stored, with permuted indices or sensitivity indices."""

    def uninstall() -> None:
        if "installed" in ours(1).blocks:
            ours(1).uninstall("installed")

    def side(name: str, maintenance: str, granularity: int) -> Side:
        counts: dict[str, float] = {}

        def install() -> int:
            rule = task.rule.format(name="installed")
            ours(1).install(rule, name="installed", maintenance=maintenance, granularity=granularity)
            stats = ours(1).stats("installed")
            counts["sensitivity rows"] = stats["sensitivity_rows"]
            return int(stats["rows"])

        return Side(name, install, uninstall, lambda: counts)

    sides = [side("ivm, evaluated and stored", "probe", 1)]
    sides += [side(f"ivm, all sensitivity, granularity {g}", "match", g) for g in granularities]
    return Row(f"{task.name}, installed as a view", sides, rounds=3)


def workspace_with(edges: np.ndarray, file: Path, **options: Any) -> ivm.Workspace:
    """Return a new workspace that holds a graph."""
    workspace = ivm.open(file, **options)
    workspace.install("edge(x, y) -> int(x), int(y).", name="facts")
    with workspace.transaction() as txn:
        txn.insert("edge", list(edges))
    return workspace


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
    """Return what answers with Polars: lazy frames, the streaming engine, POLARS_MAX_THREADS threads."""
    import polars

    edge = polars.DataFrame(as_columns(edges)).lazy()

    def named(first: str, second: str) -> Any:
        return edge.rename({"x": f"_{first}", "y": f"_{second}"}).rename(lambda name: name[1:])

    pairs = named("x", "y").join(named("y", "z"), on="y")
    triangles = pairs.join(named("x", "z"), on=["x", "z"], how="semi")
    cliques = triangles.join(named("z", "w"), on="z")
    for missing in ("x", "y"):
        cliques = cliques.join(named(missing, "w"), on=[missing, "w"], how="semi")
    tasks: dict[Task, Any] = {TRIANGLES: triangles, CLIQUES: cliques, CLIQUES_COUNTED: cliques.select(polars.len())}
    for task, firsts in ((PATHS, pairs), (PATHS_BY_HAND, pairs.select("x", "z").unique())):
        tasks[task] = firsts.join(named("z", "w"), on="z").select("x", "w").unique()

    def answer(task: Task) -> int:
        found = tasks[task].collect(engine="streaming")
        return int(found.item() if task.counted else found.height)

    return answer


PEERS: dict[str, Callable[[np.ndarray], Callable[[Task], int]]] = {"DuckDB": _duckdb, "Polars": _polars}
