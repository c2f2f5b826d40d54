"""`ivm bench`: joins from scratch, maintained views, and what needs a process of its own: memory, a kill, first use.

    python -m pagestore_tools.bench.views WHAT FOLDER SYSTEM

runs one of CHILDREN on the graph in the folder, and prints a line of JSON: the `figure`, and other numbers to report
with it.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import islice
from pathlib import Path

import numpy as np

import ivm

from . import joins, upkeep
from .graphs import changes, even, skewed
from .harness import Figures, Row, Side, Work, output, peak_bytes, timed

WARM = 10  # changes that are not counted, before those that are
WRITING_SECONDS = 0.3  # before the kill
SINGLES, BATCHES = 100, 5  # changes that a process makes before its memory is measured
STARTED = "writing"
GRAPH = "graph.npy"
VIEW = "maintained-1.pages"


def rows(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield all rows of the benchmark."""
    for part in (joins.rows, upkeep.rows, _process_rows):
        yield from part(options.graph, folder, options.quick)


def _process_rows(edges: np.ndarray, folder: Path, quick: bool) -> Iterator[Row]:
    """Yield rows for growth, memory, reopening and first use."""
    np.save(folder / GRAPH, edges)
    sizes, rounds = ([2_000, 20_000], 20) if quick else ([10_000, 100_000, 1_000_000], 200)
    sides = [Side(f"ivm, {size:,} edges", partial(_median_change, folder, size, rounds)) for size in sizes]
    yield Row("growth: triangles maintained, one edge a transaction", sides, 1, told=True)
    sides = [_side(name, partial(_child, "memory", folder, name)) for name in upkeep.systems()]
    yield Row("peak memory of a process: loaded, listed, maintained", sides, 1, "MB", 1, told=True)
    sides = [_side("ivm", partial(_reopened, folder))]
    yield Row("reopened after kill -9, to the end of a first maintained change", sides, 3, "s", 1, told=True)

    def lay() -> None:
        if not (folder / VIEW).exists():  # it does if rows before this one were measured
            upkeep.Ours(edges, folder).close()

    side = _side("ivm", partial(_since_start, "answer", folder))
    side.before = lay
    yield Row("import, open and a first answer, kernels cached", [side], 3, "s", 1, told=True)
    if not quick:
        yield _first_use(folder)


def _median_change(folder: Path, size: int, rounds: int) -> float:
    """Return the median time of one-edge changes in a graph whose degree does not depend on its size."""
    edges = even(size)
    keeper = upkeep.Ours(edges, folder)
    times = [1e3 * timed(partial(keeper.change, *change)) for change in islice(changes(edges, 1), WARM + rounds)]
    keeper.close()
    return statistics.median(times[WARM:])


def _reopened(folder: Path) -> Figures:
    """Let one process change a view until it is killed, and another one open the file."""
    with subprocess.Popen(_command("write", folder, "ivm"), stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout
        for line in writer.stdout:
            if line.strip() == STARTED:
                time.sleep(WRITING_SECONDS)
                writer.kill()
    return _child("reopen", folder)


def _first_use(folder: Path) -> Row:
    """Return a row with an empty cache of kernels."""

    @cache
    def told() -> Figures:
        with tempfile.TemporaryDirectory(prefix="ivm-bench-") as kernels:
            return _since_start("first_use", folder, NUMBA_CACHE_DIR=kernels)

    names = {"ivm, first triangle": "triangle", "ivm, all that is measured here": "figure"}
    sides = [Side(name, lambda figure=figure: told()[figure]) for name, figure in names.items()]  # type: ignore[misc]
    return Row("first use ever, kernels compiled", sides, 1, "s", 1, told=True)


def _side(name: str, ask: Callable[[], Figures]) -> Side:
    """Return a side whose run returns a child's figure; its other numbers are reported as counts."""
    others: Figures = {}

    def run() -> float:
        others.update(ask())
        return others.pop("figure")

    return Side(name, run, counts=lambda: others)


def _since_start(what: str, folder: Path, **environment: str) -> Figures:
    """Return the moments that a child reports, as seconds since it was started."""
    began = time.monotonic()
    return {name: moment - began for name, moment in _child(what, folder, **environment).items()}


def _child(what: str, folder: Path, system: str = "ivm", **environment: str) -> Figures:
    """Return the numbers that a child reports. It may cache bytecode, as an installed package does."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", **environment}
    figures: Figures = json.loads(output(_command(what, folder, system), environment).splitlines()[-1])
    return figures


def _command(what: str, folder: Path, system: str) -> list[str]:
    return [sys.executable, "-m", f"{__package__}.views", what, str(folder), system]


# -- what children do


def _memory(folder: Path, system: upkeep.Maker) -> Figures:
    """Return the MB at the peak of loading a graph, listing its triangles, and changing it."""
    imports = peak_bytes()
    edges = np.load(folder / GRAPH)
    keeper = system(edges, folder)
    for batch, times in ((1, SINGLES), (upkeep.BATCH, BATCHES)):
        for change in islice(changes(edges, batch), times):
            keeper.change(*change)
    keeper.close()
    return {"figure": peak_bytes() >> 20, "of it imports": imports >> 20}


def _write(folder: Path, system: upkeep.Maker) -> Figures:
    """Change a view until the process is killed."""
    edges = np.load(folder / GRAPH)
    keeper = system(edges, folder)
    for done, change in enumerate(changes(edges, 1)):
        keeper.change(*change)
        if done == SINGLES:
            print(STARTED, flush=True)
    raise AssertionError


def _reopen(folder: Path, system: upkeep.Maker) -> Figures:
    """Return the seconds to open a view whose process was killed, and to maintain one more change."""
    edge = np.load(folder / GRAPH)[:, :1]
    began = time.perf_counter()
    with ivm.open(folder / VIEW, sync="off", threads=1) as workspace:
        with workspace.transaction() as txn:
            txn.delete("edge", list(edge))
        told = {"figure": time.perf_counter() - began, "operations": workspace.stats("q")["operations"]}
        workspace.verify("q")
    return told


def _answer(folder: Path, system: upkeep.Maker) -> Figures:
    """Return the moment at which the first triangle of a view on disk has been read."""
    with ivm.open(folder / VIEW, mode="r") as workspace:
        next(iter(workspace["q"]))
        return {"figure": time.monotonic()}


def _use_first(folder: Path, system: upkeep.Maker) -> Figures:
    """Return when the first triangle has been read, and when all work of the benchmark has been done."""
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
CHILDREN = {"memory": _memory, "write": _write, "reopen": _reopen, "answer": _answer, "first_use": _use_first}

if __name__ == "__main__":
    what, place, system = sys.argv[1:]
    print(json.dumps(CHILDREN[what](Path(place), upkeep.systems()[system])), flush=True)
