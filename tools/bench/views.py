"""`ivm bench`: joins from scratch, and triangles maintained, by us and by others that are installed."""

import argparse
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from . import joins
from . import run as shared
from .joins import TASKS, TRIANGLES, Evaluator, Maintainer, Task
from .measure import Disagreement, Row, Side

os.environ.setdefault("POLARS_MAX_THREADS", "1")  # one thread for everybody, before Polars is imported


def arguments(parser: argparse.ArgumentParser) -> None:
    shared.arguments(parser)
    parser.add_argument(
        "--graph",
        metavar="PARQUET",
        type=Path,
        help="a graph as columns x, y with x < y, one row an edge, sorted; without it, one is made up",
    )


def run(options: argparse.Namespace) -> int:
    edges = read_graph(options.graph) if options.graph else made_up(2_000 if options.quick else 7_000)
    with tempfile.TemporaryDirectory(prefix="ivm-bench-") as folder:
        return shared.bench("ivm bench", rows(edges, Path(folder), options.quick), options)


def read_graph(file: Path) -> np.ndarray:
    """Edges int64[2, m]."""
    table = pq.read_table(file, columns=["x", "y"])
    return np.stack([table["x"].to_numpy(), table["y"].to_numpy()]).astype(np.int64)


def made_up(vertices: int) -> np.ndarray:
    """A graph with hubs: about 14 edges a vertex, ends drawn with a heavy tail."""
    random = np.random.default_rng(6)
    ends = (vertices * random.random((2, 20 * vertices)) ** 2).astype(np.int64)
    ends.sort(axis=0)
    return np.unique(ends[:, ends[0] < ends[1]], axis=1)


def rows(edges: np.ndarray, folder: Path, quick: bool) -> Iterator[Row]:
    """All rows of the benchmark."""
    systems = [kind(edges, folder) for kind in joins.evaluators()]
    for task in TASKS:
        able = [system for system in systems if task in system.tasks]
        if not quick or task is TRIANGLES:
            yield Row(task.name, [Side(system.name, _asking(system, task)) for system in able], rounds=3)
    for system in systems:
        system.close()
    keepers = [kind(edges, folder) for kind in joins.maintainers()]
    yield _maintaining("triangles maintained, one edge a transaction", keepers, edges, 1, 20 if quick else 200)
    yield _maintaining("triangles maintained, 1,000 edges a transaction", keepers, edges, 1000, 4 if quick else 10)
    _compare(keepers)
    for keeper in keepers:
        keeper.close()


def _asking(system: Evaluator, task: Task) -> Callable[[], int]:
    return lambda: system.ask(task)


def _maintaining(name: str, keepers: list[Maintainer], edges: np.ndarray, batch: int, rounds: int) -> Row:
    """Takes edges out in one transaction and puts them back in the next."""
    random = np.random.default_rng(7)
    none = edges[:, :0]
    changes = []
    for _ in range(rounds // 2 + 1):
        chosen = edges[:, random.choice(edges.shape[1], batch, replace=False)]
        changes += [(chosen, none), (none, chosen)]
    sides = [Side(keeper.name, _changing(keeper, iter(changes)), counts=keeper.counts) for keeper in keepers]
    return Row(name, sides, rounds=rounds + 1)


def _changing(keeper: Maintainer, changes: Iterator[tuple[np.ndarray, np.ndarray]]) -> Callable[[], None]:
    """Each call makes the next change."""
    return lambda: keeper.change(*next(changes))


def _compare(keepers: list[Maintainer]) -> None:
    found = {keeper.name: keeper.triangles() for keeper in keepers}
    if len(set(found.values())) > 1:
        raise Disagreement(f"triangles after the same changes: {found}")
