"""How soon the engine answers on a machine without a compiler.

Makes a virtual environment, installs the wheel there (or one that it builds of the clone in which
it runs), keeps numba from being imported, and measures from there. Prints a line for each figure
and its bound; exits with 1 if one is missed.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from pagestore_tools.bench.graphs import read_graph, skewed
from pagestore_tools.bench.harness import installed, output, timed
from pagestore_tools.bench.views import ANSWER, GRAPH, VIEW

from . import Command

ROUNDS = 7  # of a process whose start is compared with another's, alternately
TRIANGLE = "edge(x, y) -> int(x), int(y).  q(x, y, z) <- edge(x, y), edge(y, z), edge(x, z)."
FIRST_TRIANGLE = f"""
import numpy, sys, ivm
with ivm.open(sys.argv[1] + "/{VIEW}", sync="off") as ws:
    ws.install("{TRIANGLE}", name="triangles")
    with ws.transaction() as txn:
        txn.insert("edge", [*numpy.load(sys.argv[1] + "/{GRAPH}")])
    next(iter(ws["q"]))
"""
STRANGER = f"""
import sys, pagestore, ivm
with pagestore.open(sys.argv[1] + "/stranger.pages") as store:
    with store.transaction() as txn:
        edge = txn.create("edge", "x: int64, y: int64", key=("x", "y"), scans=["count"])
        edge.insert([(1, 2), (2, 3), (1, 3), (3, 4)])
    store.snapshot()["edge"].range((1,), (3,)).scan("count")
    list(store.snapshot()["edge"])
with ivm.open(sys.argv[1] + "/stranger.pages") as ws:
    ws.install("{TRIANGLE}", name="triangles")
    with ws.transaction() as txn:
        txn.insert("edge", [(2, 4)])
    assert list(ws["q"]) == [(1, 2, 3), (2, 3, 4)]
"""
ALL = (
    "import pathlib, sys, pagestore_tools.bench.views as v; v.first_use(pathlib.Path(sys.argv[1]))"
)
MEMORY = """
import pagestore, ivm, re
print(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""
SPEED = f"""
import numpy, sys, tempfile, time, ivm
edges, times = numpy.load(sys.argv[1] + "/{GRAPH}"), []
for number in range(6):
    with tempfile.TemporaryDirectory() as folder, ivm.open(folder + "/w.pages", sync="off", threads=1) as ws:
        began = time.perf_counter()
        ws.install("{TRIANGLE}", name="t")
        for part in numpy.array_split(edges, 20, axis=1):
            with ws.transaction() as txn:
                txn.insert("edge", [*part])
        times.append(time.perf_counter() - began)
print(min(times[1:]))
"""


def _run(options: argparse.Namespace) -> int:
    """Measure, print, and say by the exit code whether every bound is kept."""
    missed = 0
    with tempfile.TemporaryDirectory(prefix="startup-") as name:
        folder, wheel = Path(name), options.wheel
        np.save(folder / GRAPH, read_graph(options.graph) if options.graph else skewed(7_000))
        if wheel is None:
            output(
                [
                    sys.executable,
                    "-m",
                    "pip",
                    "wheel",
                    "--quiet",
                    "--no-deps",
                    "-w",
                    folder / "wheel",
                    ".",
                ]
            )
            (wheel,) = (folder / "wheel").glob("*.whl")
        for figure, value, bound, unit in figures(folder, wheel):
            missed += value > bound
            mark = "   MISSED" if value > bound else ""
            print(f"{figure:<58}{value:8.2f} {unit:<2} of {bound:g}{mark}", flush=True)
    return int(missed > 0)


def figures(folder: Path, wheel: Path) -> Iterator[tuple[str, float, float, str]]:
    """Yield every figure, with the most that it may be, and its unit. The first ones find empty
    caches.
    """
    output([sys.executable, "-m", "venv", folder / "venv"])
    binaries = folder / "venv" / "bin"
    pip = [binaries / "pip", "install", "--quiet", "--disable-pip-version-check"]
    output([*pip, wheel])
    (packages,) = folder.glob("venv/lib/python*/site-packages")
    Path(packages, "without_numba.pth").write_text("import sys; sys.modules['numba'] = None\n")
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    # not what is in this folder
    environment = {**kept, "XDG_CACHE_HOME": str(folder / "cache"), "PYTHONSAFEPATH": "1"}

    def seconds(program: str, *words: object) -> float:
        return timed(partial(output, [binaries / program, *words], environment))

    def script(text: str) -> float:
        return seconds("python", "-c", text, folder)

    def ratio(text: str, other: str) -> float:
        """Return the ratio of the medians of two processes, which run alternately."""
        times = [(script(text), script(other)) for _ in range(ROUNDS)]
        return statistics.median(own for own, _ in times) / statistics.median(
            its for _, its in times
        )

    yield "the wheel", wheel.stat().st_size / 1e6, 5, "MB"
    yield (
        "pip install of it",
        timed(partial(output, [*pip, "--no-deps", "--force-reinstall", wheel])),
        2,
        "s",
    )
    yield "first triangle, from the start of its process", script(FIRST_TRIANGLE), 1, "s"
    yield "a stranger's script", script(STRANGER), 3, "s"
    yield "everything that ivm bench times, once", script(ALL), 3, "s"
    yield "import pagestore / import numpy", ratio("import pagestore", "import numpy"), 2, "x"
    yield "open and a first answer / import pyarrow", ratio(ANSWER, "import pyarrow"), 1.6, "x"
    resident = int(output([binaries / "python", "-c", MEMORY], environment)) / 1024
    yield "resident memory after importing both", resident, 85, "MB"
    yield "pagestore info", seconds("pagestore", "info", folder / VIEW), 0.8, "s"
    yield "ivm query", seconds("ivm", "query", folder / VIEW, "r(y) <- edge(30, y)."), 1.35, "s"
    if installed("numba"):
        runs = (
            (binaries / "python", environment),
            (sys.executable, {**os.environ, "PAGESTORE_KERNELS": "jit"}),
        )
        times = [
            [float(output([python, "-c", SPEED, folder], where)) for python, where in runs]
            for _ in range(3)
        ]
        shipped, compiled = map(min, zip(*times, strict=True))
        yield "kernels shipped / kernels compiled here", shipped / compiled, 1.03, "x"


WHEEL = {
    "nargs": "?",
    "type": Path,
    "help": "what to install; built of the current folder if left out",
}
GRAPH_FILE = {"type": Path, "help": "a Parquet file of edges x, y, such as wiki-Vote"}
STARTUP = Command(_run, {"wheel": WHEEL, "--graph": GRAPH_FILE})
