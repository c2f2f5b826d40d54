"""What a process of its own measures: peak memory, life after kill -9, first use.

    python -m pagestore_tools.bench.children WHAT FOLDER SYSTEM

does one of CHILDREN with the graph that waits in the folder (processes.py asks), and answers with a line of JSON:
the figure, and what is told beside it.
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

SINGLES, BATCHES = 100, 5  # changes that a process makes before its memory is looked at
STARTED = "writing"
GRAPH = "graph.npy"
VIEW = "maintained-1.pages"
Told = dict[str, float]


def memory(folder: Path, system: type[upkeep.Maintainer]) -> Told:
    """MB at the peak of loading a graph, listing its triangles, and changing it."""
    imports = _peak_megabytes()
    edges = np.load(folder / GRAPH)
    keeper = system(edges, folder)
    for batch, times in ((1, SINGLES), (upkeep.BATCH, BATCHES)):
        for change in islice(upkeep.changes(edges, batch), times):
            keeper.change(*change)
    keeper.close()
    return {"figure": _peak_megabytes(), "of it imports": imports}


def write(folder: Path, system: type[upkeep.Maintainer]) -> Told:
    """Changes a view until somebody kills the process."""
    edges = np.load(folder / GRAPH)
    keeper = system(edges, folder)
    for done, change in enumerate(upkeep.changes(edges, 1)):
        keeper.change(*change)
        if done == SINGLES:
            print(STARTED, flush=True)
    raise AssertionError


def reopen(folder: Path, system: type[upkeep.Maintainer]) -> Told:
    """Seconds until a view that was left like that is open and one more change is maintained."""
    edge = np.load(folder / GRAPH)[:, :1]
    began = time.perf_counter()
    with ivm.open(folder / VIEW, sync="off", threads=1) as workspace:
        with workspace.transaction() as txn:
            txn.delete("edge", list(edge))
        told = {"figure": time.perf_counter() - began, "operations": workspace.stats("q")["operations"]}
        workspace.verify("q")
    return told


def answer(folder: Path, system: type[upkeep.Maintainer]) -> Told:
    """The moment at which the first triangle of a view on disk was there."""
    with ivm.open(folder / VIEW, mode="r") as workspace:
        next(iter(workspace["q"]))
        return {"figure": time.monotonic()}


def first_use(folder: Path, system: type[upkeep.Maintainer]) -> Told:
    """The moments at which the first triangle was there, and at which all had been done that this benchmark does."""
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
    """Of this program: getrusage would count what its parent had before, too."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found, "no peak of memory in /proc/self/status"
    return int(found[1]) // 1024


CHILDREN = {each.__name__: each for each in (memory, write, reopen, answer, first_use)}


def main(what: str, folder: str, system: str) -> None:
    print(json.dumps(CHILDREN[what](Path(folder), getattr(upkeep, system))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
