"""How soon the engine answers on a machine without a compiler: `python -m pagestore_tools.bench.startup [WHEEL]`.

Makes a virtual environment, installs the wheel there (or one that it builds of the clone in which it runs), keeps numba
from being imported, and measures from there. Prints a line for each figure and its bound; exits with 1 if one is
missed.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .children import GRAPH
from .graphs import read_graph, skewed

ROUNDS = 7  # of a process whose start is compared with another's, in turns
SPEED_ROUNDS = 3
TRIANGLE = "edge(x, y) -> int(x), int(y).  tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z)."
FIRST_TRIANGLE = f"""
import numpy, sys, ivm
with ivm.open(sys.argv[1] + "/first.pages", sync="off") as ws:
    ws.install("{TRIANGLE}", name="triangles")
    with ws.transaction() as txn:
        txn.insert("edge", numpy.load(sys.argv[1] + "/graph.npy"))
    next(iter(ws["tri"]))
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
    assert list(ws["tri"]) == [(1, 2, 3), (2, 3, 4)]
"""
ANSWER = """
import sys, ivm
with ivm.open(sys.argv[1] + "/first.pages", mode="r") as ws:
    next(iter(ws["tri"]))
"""
MEMORY = """
import pagestore, ivm, re
print(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""
SPEED = """
import numpy, statistics, sys, tempfile, time, ivm
edges, times = numpy.load(sys.argv[1] + "/graph.npy"), []
for turn in range(6):
    with tempfile.TemporaryDirectory() as folder, ivm.open(folder + "/w.pages", sync="off", threads=1) as ws:
        began = time.perf_counter()
        ws.install("edge(x, y) -> int(x), int(y).  tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).", name="t")
        for part in numpy.array_split(edges, 20, axis=1):
            with ws.transaction() as txn:
                txn.insert("edge", part)
        times.append(time.perf_counter() - began)
print(min(times[1:]))
"""


class Figure(NamedTuple):
    """One measured number, and the most that it may be."""

    name: str
    value: float
    bound: float
    unit: str


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and say by the exit code whether every bound is kept."""
    parser = argparse.ArgumentParser(prog="pagestore_tools.bench.startup", description=__doc__.splitlines()[0])
    parser.add_argument("wheel", nargs="?", type=Path, help="what to install; built of the current folder if left out")
    parser.add_argument("--graph", type=Path, help="a Parquet file of edges x, y, such as wiki-Vote")
    options = parser.parse_args(arguments)
    kept = True
    with tempfile.TemporaryDirectory(prefix="startup-") as folder:
        edges = read_graph(options.graph) if options.graph else skewed(7_000)
        np.save(Path(folder, GRAPH), edges)
        wheel = options.wheel or built(Path(folder, "wheel"))
        for figure in figures(Place(Path(folder), wheel)):
            kept = kept and figure.value <= figure.bound
            mark = "" if figure.value <= figure.bound else "   MISSED"
            print(f"{figure.name:<58}{figure.value:8.2f} {figure.unit:<2} of {figure.bound:g}{mark}", flush=True)
    return 0 if kept else 1


class Place:
    """A virtual environment with a wheel in it, in which numba cannot be imported, and empty caches."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder, self.wheel = folder, wheel
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        self.bin = folder / "venv" / "bin"
        self.pip(str(wheel))
        (packages,) = folder.glob("venv/lib/python*/site-packages")
        Path(packages, "without_numba.pth").write_text("import sys; sys.modules['numba'] = None\n")
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        self.environment = {**kept, "XDG_CACHE_HOME": str(folder / "cache")}

    def pip(self, *what: str) -> float:
        """Seconds to install something."""
        return seconds([self.bin / "pip", "install", "--quiet", "--disable-pip-version-check", *what], os.environ)

    def run(self, *command: str) -> float:
        """Seconds that Python takes from its start to its end with these arguments."""
        return seconds([self.bin / "python", *command], self.environment)

    def script(self, text: str) -> float:
        """Seconds of a process that runs a text, with the folder as its argument."""
        return self.run("-c", text, str(self.folder))


def figures(place: Place) -> Iterator[Figure]:
    """Every figure. The first ones find empty caches."""
    yield Figure("the wheel", place.wheel.stat().st_size / 1e6, 5, "MB")
    yield Figure("pip install of it", place.pip("--no-deps", "--force-reinstall", str(place.wheel)), 2, "s")
    yield Figure("first triangle, from the start of its process", place.script(FIRST_TRIANGLE), 1, "s")
    yield Figure("a stranger's script", place.script(STRANGER), 3, "s")
    command = "-m", "pagestore_tools.bench.children", "first_use", str(place.folder), "Ours"
    yield Figure("everything that ivm bench times, once", place.run(*command), 3, "s")
    yield Figure("import pagestore / import numpy", in_turns(place, "import pagestore", "import numpy"), 2, "x")
    yield Figure("open and a first answer / import pyarrow", in_turns(place, ANSWER, "import pyarrow"), 1.6, "x")
    yield Figure("resident memory after importing both", resident(place), 85, "MB")
    store = str(place.folder / "first.pages")
    info = seconds([place.bin / "pagestore", "info", store], place.environment)
    yield Figure("pagestore info", info, 0.8, "s")
    query: list[Path | str] = [place.bin / "ivm", "query", store, "q(y) <- edge(30, y)."]
    yield Figure("ivm query", seconds(query, place.environment), 1.35, "s")
    try:
        import numba  # noqa: F401
    except ImportError:
        return
    yield Figure("kernels shipped / kernels compiled here", speed(place), 1.03, "x")


def in_turns(place: Place, text: str, other: str) -> float:
    """The ratio of the medians of two processes, which run by turns."""
    times = [(place.script(text), place.script(other)) for _ in range(ROUNDS)]
    return statistics.median(own for own, _ in times) / statistics.median(its for _, its in times)


def resident(place: Place) -> float:
    """MB of a process that has imported both packages."""
    return int(output([place.bin / "python", "-c", MEMORY], place.environment)) / 1024


def speed(place: Place) -> float:
    """The ratio of the quickest runs of one work: with the wheel's kernels, and with kernels compiled here."""
    here = {**os.environ, "PAGESTORE_KERNELS": "jit"}
    shipped, compiled = [], []
    for _ in range(SPEED_ROUNDS):
        shipped.append(float(output([place.bin / "python", "-c", SPEED, str(place.folder)], place.environment)))
        compiled.append(float(output([sys.executable, "-c", SPEED, str(place.folder)], here)))
    return min(shipped) / min(compiled)


def built(folder: Path) -> Path:
    """A wheel of the clone that is the current folder."""
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, "."], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def seconds(command: Sequence[Path | str], environment: Mapping[str, str]) -> float:
    """How long a command takes. Raises CalledProcessError if it fails."""
    began = time.perf_counter()
    output(command, environment)
    return time.perf_counter() - began


def output(command: Sequence[Path | str], environment: Mapping[str, str]) -> str:
    """What a command prints."""
    done = subprocess.run([*map(str, command)], env=dict(environment), capture_output=True, text=True)
    if done.returncode:
        raise ChildProcessError(f"{' '.join(map(str, command))[:80]} failed:\n{done.stderr[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
