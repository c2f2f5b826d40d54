"""Measurements that each need a process of their own: peak memory, reopening after kill -9, first use.

    python -m pagestore_tools.bench.children WHAT FOLDER SYSTEM

runs one of CHILDREN on the graph in the folder, for processes.py, and prints a line of JSON: the `figure`, and other
numbers to report with it.
"""

import json
import re
import sys
import time
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

import ivm

from . import joins, upkeep
from .graphs import skewed

SINGLES, BATCHES = 100, 5  # changes that a process makes before its memory is measured
STARTED = "writing"
GRAPH = "graph.npy"
VIEW = "maintained-1.pages"
Figures = dict[str, float]


def memory(folder: Path, system: type[upkeep.Maintainer]) -> Figures:
    """MB at the peak of loading a graph, listing its triangles, and changing it."""
    imports = _peak_megabytes()
    edges = np.load(folder / GRAPH)
    keeper = system(edges, folder)
    for batch, times in ((1, SINGLES), (upkeep.BATCH, BATCHES)):
        for change in islice(upkeep.changes(edges, batch), times):
            keeper.change(*change)
    keeper.close()
    return {"figure": _peak_megabytes(), "of it imports": imports}


def write(folder: Path, system: type[upkeep.Maintainer]) -> Figures:
    """Change a view until the process is killed."""
    edges = np.load(folder / GRAPH)
    keeper = system(edges, folder)
    for done, change in enumerate(upkeep.changes(edges, 1)):
        keeper.change(*change)
        if done == SINGLES:
            print(STARTED, flush=True)
    raise AssertionError


def reopen(folder: Path, system: type[upkeep.Maintainer]) -> Figures:
    """Seconds to open a view whose process was killed, and to maintain one more change."""
    edge = np.load(folder / GRAPH)[:, :1]
    began = time.perf_counter()
    with ivm.open(folder / VIEW, sync="off", threads=1) as workspace:
        with workspace.transaction() as txn:
            txn.delete("edge", list(edge))
        told = {"figure": time.perf_counter() - began, "operations": workspace.stats("q")["operations"]}
        workspace.verify("q")
    return told


def answer(folder: Path, system: type[upkeep.Maintainer]) -> Figures:
    """The moment at which the first triangle of a view on disk has been read."""
    with ivm.open(folder / VIEW, mode="r") as workspace:
        next(iter(workspace["q"]))
        return {"figure": time.monotonic()}


def first_use(folder: Path, system: type[upkeep.Maintainer]) -> Figures:
    """The moments at which the first triangle has been read, and at which all work of the benchmark has been done."""
    edges, folder = skewed(200), Path(mkdtemp(dir=folder))
    keeper = upkeep.Ours(edges, folder)
    next(iter(keeper.workspace["q"]))
    triangle = time.monotonic()
    for batch in (1, 10):
        for change in islice(upkeep.changes(edges, batch), 3):
            keeper.change(*change)
    keeper.close()
    for row in joins.rows(edges, folder, quick=False):
        for side in row.sides:
            if side.name.startswith("ivm"):
                side.before()
                side.run()
    return {"figure": time.monotonic(), "triangle": triangle}


def _peak_megabytes() -> float:
    """The peak of this program alone; getrusage would count its parent's memory before the start, too."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found, "no peak of memory in /proc/self/status"
    return int(found[1]) // 1024


CHILDREN = {each.__name__: each for each in (memory, write, reopen, answer, first_use)}


def main(what: str, folder: str, system: str) -> None:
    """Run one of CHILDREN, and print its figures as JSON."""
    print(json.dumps(CHILDREN[what](Path(folder), getattr(upkeep, system))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
