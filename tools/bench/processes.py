"""Rows of the benchmark that are measured in processes of their own (children.py), and growth with the graph."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from pathlib import Path

import numpy as np

from . import upkeep
from .children import GRAPH, STARTED, VIEW, Figures
from .graphs import even
from .measure import Row, Side

WARM = 10  # changes that are not counted, before those that are
WRITING_SECONDS = 0.3  # before the kill


def rows(edges: np.ndarray, folder: Path, quick: bool) -> Iterator[Row]:
    """Rows for growth, memory, reopening and first use."""
    np.save(folder / GRAPH, edges)
    yield _growth(folder, [2_000, 20_000] if quick else [10_000, 100_000, 1_000_000], 20 if quick else 200)
    yield _memory(folder)
    yield _reopening(folder)
    yield _first_answer(folder)
    if not quick:
        yield _first_use(folder)


def _growth(folder: Path, sizes: list[int], rounds: int) -> Row:
    """The median time of one-edge changes in graphs of equal degree and growing size."""

    def median(size: int) -> float:
        edges = even(size)
        keeper = upkeep.Ours(edges, folder)
        times = []
        for change in islice(upkeep.changes(edges, 1), WARM + rounds):
            began = time.perf_counter()
            keeper.change(*change)
            times.append(1e3 * (time.perf_counter() - began))
        keeper.close()
        return statistics.median(times[WARM:])

    sides = [Side(f"ivm, {size:,} edges", partial(median, size)) for size in sizes]
    return Row("growth: triangles maintained, one edge a transaction", sides, 1, told=True)


def _memory(folder: Path) -> Row:
    kinds: list[type[upkeep.Maintainer]] = [upkeep.Ours, *upkeep.peers()]
    sides = [_side(kind.name, partial(_child, "memory", folder, kind.__name__)) for kind in kinds]
    return Row("peak memory of a process: loaded, listed, maintained", sides, 1, "MB", 1, told=True)


def _reopening(folder: Path) -> Row:
    """One process changes a view until it is killed; another one opens the file."""

    def reopened() -> Figures:
        with subprocess.Popen(_command("write", folder, "Ours"), stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout
            for line in writer.stdout:
                if line.strip() == STARTED:
                    time.sleep(WRITING_SECONDS)
                    writer.kill()
        return _child("reopen", folder)

    side = _side("ivm", reopened)
    return Row("reopened after kill -9, to the end of a first maintained change", [side], 3, "s", 1, told=True)


def _first_answer(folder: Path) -> Row:
    """From the start of Python; the kernels are cached, the view is on disk."""

    def lay() -> None:
        if not (folder / VIEW).exists():  # it does if rows before this one were measured
            upkeep.Ours(np.load(folder / GRAPH), folder).close()

    side = replace(_side("ivm", partial(_since_start, "answer", folder)), before=lay)
    return Row("import, open and a first answer, kernels cached", [side], 3, "s", 1, told=True)


def _first_use(folder: Path) -> Row:
    """With an empty cache of kernels."""

    @cache
    def told() -> Figures:
        with tempfile.TemporaryDirectory(prefix="ivm-bench-") as kernels:
            return _since_start("first_use", folder, NUMBA_CACHE_DIR=kernels)

    sides = [
        Side("ivm, first triangle", lambda: told()["triangle"]),
        Side("ivm, all that is measured here", lambda: told()["figure"]),
    ]
    return Row("first use ever, kernels compiled", sides, 1, "s", 1, told=True)


def _side(name: str, ask: Callable[[], Figures]) -> Side:
    """A side whose run returns a child's figure; its other numbers are reported as counts."""
    others: Figures = {}

    def run() -> float:
        others.update(ask())
        return others.pop("figure")

    return Side(name, run, counts=lambda: others)


def _since_start(what: str, folder: Path, **environment: str) -> Figures:
    """The moments that a child reports, as seconds since it was started."""
    began = time.monotonic()
    return {name: moment - began for name, moment in _child(what, folder, **environment).items()}


def _child(what: str, folder: Path, system: str = "Ours", **environment: str) -> Figures:
    """The numbers that a child reports. It may cache bytecode, as an installed package does."""
    command = _command(what, folder, system)
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", **environment}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip().rpartition("\n")[2]
        raise ChildProcessError(f"`{' '.join(command)}` ended with {done.returncode}: {said or 'it said nothing'}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


def _command(what: str, folder: Path, system: str) -> list[str]:
    return [sys.executable, "-m", f"{__package__}.children", what, str(folder), system]
