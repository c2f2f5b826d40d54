"""`ivm bench`: joins from scratch, maintained views, and what needs a process of its own:
memory, a kill, first use.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from unittest.mock import patch

import numpy as np

import ivm

from . import joins, upkeep
from .graphs import changes, even, skewed
from .harness import SPAWN, Row, Side, Work, apart, output, peak_bytes, timed

WARM = 10  # changes that are not counted, before those that are
WRITING_SECONDS = 0.3  # before the kill
SINGLES, BATCHES = 100, 5  # changes that a process makes before its memory is measured
GRAPH, VIEW = "graph.npy", "maintained-1.pages"
ANSWER = f"""
import sys, ivm
with ivm.open(sys.argv[1] + "/{VIEW}", mode="r") as ws:
    next(iter(ws["q"]))
"""
Figures = dict[str, float]


def rows(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield all rows of the benchmark."""
    for part in (joins.rows, upkeep.rows, _process_rows):
        yield from part(options.graph, folder, options.quick)


def _process_rows(edges: np.ndarray, folder: Path, quick: bool) -> Iterator[Row]:
    """Yield rows for growth, memory, reopening and first use."""
    np.save(folder / GRAPH, edges)
    sizes, rounds = ([2_000, 20_000], 20) if quick else ([10_000, 100_000, 1_000_000], 200)
    sides = [
        Side(f"ivm, {size:,} edges", partial(_median_change, folder, size, rounds))
        for size in sizes
    ]
    yield Row("growth: triangles maintained, one edge a transaction", sides, 1, told=True)
    sides = [
        _side(name, partial(apart, _memory, folder, make))
        for name, make in upkeep.systems().items()
    ]
    yield Row("peak memory of a process: loaded, listed, maintained", sides, 1, "MB", 1, told=True)
    reopened = _side("ivm", partial(_reopened, folder))
    yield Row(
        "reopened after kill -9, to the end of a first maintained change",
        [reopened],
        3,
        "s",
        1,
        told=True,
    )
    if not (folder / VIEW).exists():  # it does if rows before this one were measured
        upkeep.Ours(edges, folder).close()
    answer = Side("ivm", partial(output, [sys.executable, "-c", ANSWER, folder]))
    yield Row("import, open and a first answer, kernels cached", [answer], 3, "s", 1)
    if not quick:
        used = cache(partial(_first_use, folder))
        names = {"ivm, first triangle": "triangle", "ivm, all that is measured here": "figure"}
        sides = [Side(name, lambda figure=figure: used()[figure]) for name, figure in names.items()]  # type: ignore[misc]
        yield Row("first use ever, kernels compiled", sides, 1, "s", 1, told=True)


def _side(name: str, ask: Callable[[], Figures]) -> Side:
    """Return a side whose run returns the `figure` of what it asks; the other numbers are
    reported as counts.
    """
    others: Figures = {}

    def run() -> float:
        others.update(ask())
        return others.pop("figure")

    return Side(name, run, counts=lambda: others)


def _median_change(folder: Path, size: int, rounds: int) -> float:
    """Return the median time of one-edge changes in a graph whose degree is fixed."""
    edges = even(size)
    keeper = upkeep.Ours(edges, folder)
    times = [
        1e3 * timed(partial(keeper.change, *change))
        for change in islice(changes(edges, 1), WARM + rounds)
    ]
    keeper.close()
    return statistics.median(times[WARM:])


def _first_use(folder: Path) -> Figures:
    """Return what `first_use` reports, as seconds since its process was started, which has no
    kernels in its cache.
    """
    with tempfile.TemporaryDirectory() as kernels, patch.dict(os.environ, NUMBA_CACHE_DIR=kernels):
        began = time.monotonic()
        return {name: moment - began for name, moment in apart(first_use, folder).items()}


def _reopened(folder: Path) -> Figures:
    """Let one process change a view until it is killed, and another one open the file."""
    started, starting = SPAWN.Pipe(duplex=False)
    writer = SPAWN.Process(target=_write, args=(folder, starting))
    writer.start()
    starting.close()
    started.recv()
    time.sleep(WRITING_SECONDS)
    writer.kill()
    writer.join()
    figures: Figures = apart(_reopen, folder)
    return figures


# -- what these processes do


def _memory(folder: Path, make: upkeep.Maker) -> Figures:
    """Return the MB at the peak of loading a graph, listing its triangles, and changing it."""
    imports = peak_bytes()
    edges = np.load(folder / GRAPH)
    keeper = make(edges, folder)
    for batch, times in ((1, SINGLES), (upkeep.BATCH, BATCHES)):
        for change in islice(changes(edges, batch), times):
            keeper.change(*change)
    keeper.close()
    return {"figure": peak_bytes() >> 20, "of it imports": imports >> 20}


def _write(folder: Path, starting: Connection) -> None:
    """Change a view until the process is killed."""
    edges = np.load(folder / GRAPH)
    keeper = upkeep.Ours(edges, folder)
    for done, change in enumerate(changes(edges, 1)):
        keeper.change(*change)
        if done == SINGLES:
            starting.send("writing")


def _reopen(folder: Path) -> Figures:
    """Return the seconds to open a view whose process was killed, and to maintain a change."""
    edge = np.load(folder / GRAPH)[:, :1]
    began = time.perf_counter()
    with ivm.open(folder / VIEW, sync="off", threads=1) as workspace:
        with workspace.transaction() as txn:
            txn.delete("edge", list(edge))
        told = {
            "figure": time.perf_counter() - began,
            "operations": workspace.stats("q")["operations"],
        }
        workspace.verify("q")
    return told


def first_use(folder: Path) -> Figures:
    """Return when the first triangle has been read, and when all work is done."""
    edges, folder = skewed(200), Path(tempfile.mkdtemp(dir=folder))
    keeper = upkeep.Ours(edges, folder)
    next(iter(keeper.workspace["q"]))
    triangle = time.monotonic()
    for batch in (1, 10):
        for change in islice(changes(edges, batch), 3):
            keeper.change(*change)
    keeper.close()
    for row in joins.rows(edges, folder, quick=False):
        for side in row.sides:
            if side.name.startswith("ivm"):
                side.before()
                side.run()
    return {"figure": time.monotonic(), "triangle": triangle}


WORK = Work("ivm bench", rows, 7_000, 1_000, skewed)
arguments, run = WORK.arguments, WORK.run
