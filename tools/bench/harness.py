"""One way to measure: sides do the same work alternately, so that a slow minute hits all of them.

    Row("sum of a column", [Side("pagestore", ours), Side("DuckDB", theirs)])       a piece of work
    Work("sum bench", rows, 1_000_000, 10_000)                                      a command that measures rows

Each side runs once untimed (to warm caches, compile kernels and compare answers), then `rounds`
times. Reports give medians and their ratio to the first side's, which is this project's.
"""

import argparse
import gc
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from html import escape
from importlib.metadata import distributions
from math import log10
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import ivm
from ivm.errors import OptionError

from ..cli.answers import as_json
from ..cli.progress import Progress
from .graphs import read_graph

SLOW_SECONDS = 4.0  # another system whose first run takes longer is not run again
MANY = 50  # with fewer times no 99th percentile is given
PACKAGES = ("pagestore-ivm", "numpy", "numba", "duckdb", "polars", "lmdb", "pyarrow")
BAR = "▪"
SPAWN = get_context("spawn")  # processes that share nothing with this one


@dataclass
class Side:
    """One system at one piece of work. `run` does it once and returns its answer, which all sides
    must agree on.

    `before` runs untimed before each run, to undo it; `counts` returns, after the last run, numbers
    besides time: operations, pages, bytes, syncs.
    """

    name: str
    run: Callable[[], Any]
    before: Callable[[], object] = lambda: None
    counts: Callable[[], Mapping[str, float]] = dict


@dataclass
class Row:
    """A piece of work; `scale` converts the seconds of a run to `unit`: 1e3 for ms, 1e6 / n for µs
    each.

    Each time, a side runs `stretch` times in a row, after one run that does not count: otherwise
    short work would always find the caches full of the other sides' data. `things` says what a run
    processes, such as (1000, "edges"); the report gives their number per second. If a row is
    `told`, nothing is timed: a run returns its figure, in `unit`.
    """

    name: str
    sides: Sequence[Side]
    rounds: int = 5
    unit: str = "ms"
    scale: float = 1e3
    stretch: int = 1
    things: tuple[int, str] | None = None
    told: bool = False


@dataclass
class Result:
    """The times of every side, in the row's unit, and its counts."""

    row: str
    unit: str
    times: dict[str, list[float]]
    counts: dict[str, dict[str, float]] = field(default_factory=dict)

    def median(self, side: str) -> float:
        """Return the median of a side's times."""
        return statistics.median(self.times[side])

    def percentile(self, side: str) -> float | None:
        """Return the 99th percentile; None for fewer than MANY times."""
        times = sorted(self.times[side])
        return times[round(0.99 * (len(times) - 1))] if len(times) >= MANY else None

    def ratio(self, side: str) -> float:
        """Return the median as a multiple of the first side's."""
        return self.median(side) / self.median(next(iter(self.times)))


class Disagreement(ValueError):
    """Two sides gave different answers to the same work, so their times mean nothing."""


@dataclass(frozen=True)
class Work:
    """A command: `rows(folder, options)` yields what it measures. Each row is measured before the
    next is made.

    `options.size` is `size`, or with --quick, `quick`. If `graph` is given, the command takes a
    file with a graph, and `options.graph` has its edges, or those that `graph(size)` makes up; else
    --rows N sets another size.
    """

    title: str
    rows: Callable[[Path, argparse.Namespace], Iterable[Row]]
    size: int
    quick: int
    graph: Callable[[int], np.ndarray] | None = None

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments."""
        parser.add_argument(
            "--quick", action="store_true", help="small sizes, few rounds: for a look, or for CI"
        )
        parser.add_argument(
            "--only", metavar="WORD", default="", help="only the rows whose name has this word"
        )
        parser.add_argument(
            "--out", metavar="DIR", type=Path, help="write the results there, as JSON and HTML"
        )
        parser.add_argument(
            "--json", action="store_true", help="answer in JSON on stdout, in the end"
        )
        parser.add_argument("--quiet", action="store_true", help="no progress line")
        if self.graph:
            said = "a graph as integer columns x, y, one row an edge; by default a random one with hubs"
            parser.add_argument("graph", metavar="PARQUET", type=Path, nargs="?", help=said)
        else:
            parser.add_argument(
                "--rows",
                metavar="N",
                type=int,
                help=f"rows of the tables, instead of {self.size:,}",
            )

    def run(self, options: argparse.Namespace) -> int:
        """Measure, and print each row when it is done; return the exit code."""
        options.size, about = self.quick if options.quick else self.size, ""
        if self.graph:
            name = options.graph.stem if options.graph else "a graph made up"
            options.graph = read_graph(options.graph) if options.graph else self.graph(options.size)
            about = f"{name}: {options.graph.shape[1]:,} edges"
            _tell(options, about)
        else:
            options.size = options.rows or options.size
        results: list[Result] = []
        try:
            self._measure(options, results)
        except RuntimeError as error:
            if str(error) == "Query interrupted":  # what DuckDB makes of Ctrl-C
                raise KeyboardInterrupt from None
            raise
        finally:  # a row that fails leaves the results before it
            if options.out:
                files = write(results, self.title.replace(" ", "-"), options.out, about)
                _tell(options, f"written: {' '.join(map(str, files))}")
            if options.json:
                print(as_json(report(results, about)))
        return 0

    def _measure(self, options: argparse.Namespace, results: list[Result]) -> None:
        with (
            Progress(self.title, options.quiet) as progress,
            tempfile.TemporaryDirectory(prefix="bench-") as folder,
        ):
            for row in self.rows(Path(folder), options):
                if options.only in row.name:
                    results.append(measure(row, progress))
                    progress.clear()
                    _tell(options, as_text(results[-1]))
        if not results:
            raise OptionError(
                f"--only {options.only}: no row's name has this word; without it, all are shown"
            )


def measure(row: Row, progress: Callable[[str], None] = lambda text: None) -> Result:
    """Run the sides alternately.  Raises Disagreement."""
    times: dict[str, list[float]] = (
        {side.name: [] for side in row.sides} if row.told else _warm(row, progress)
    )
    sides = [side for side in row.sides if not times[side.name]]
    gc.collect()
    # later collections need not visit the objects that exist now, which would fill the caches each
    # time
    gc.freeze()
    try:
        for number in range(0, row.rounds, row.stretch):
            for side in sides:
                progress(f"{row.name}: {side.name}, {number + 1} of {row.rounds}")
                times[side.name] += _runs(row, side, min(row.stretch, row.rounds - number))
    finally:
        gc.unfreeze()
    result = Result(
        row.name, row.unit, times, {side.name: dict(side.counts()) for side in row.sides}
    )
    if row.things:
        number, things = row.things
        for side in row.sides:
            result.counts[side.name][f"{things}/s"] = round(
                number / (result.median(side.name) / row.scale)
            )
    return result


def _warm(row: Row, progress: Callable[[str], None]) -> dict[str, list[float]]:
    """Run each side once and compare answers; return the times of those too slow to run again."""
    answers, times = {}, {}
    ours = _system(row.sides[0])
    for side in row.sides:
        progress(f"{row.name}: {side.name}, warming up")
        side.before()
        began = time.perf_counter()
        answers[side.name] = side.run()
        # counts only for others that are slow: ours may have compiled kernels
        taken = time.perf_counter() - began
        times[side.name] = [taken * row.scale] * (taken > SLOW_SECONDS and _system(side) != ours)
    if any(answer != answers[row.sides[0].name] for answer in answers.values()):
        raise Disagreement(f"{row.name}: {' and '.join(answers)} differ: {answers}")
    return times


def _runs(row: Row, side: Side, runs: int) -> list[float]:
    """Return the figures of some runs in a row, without garbage collection."""
    figures = []
    warming = int(row.stretch > 1)  # a run that does not count
    gc.collect()
    gc.disable()
    try:
        for _ in range(warming + runs):
            side.before()
            figures.append(side.run() if row.told else timed(side.run) * row.scale)
    finally:
        gc.enable()
    return figures[warming:]


# -- reports: text while it runs; then JSON, and the same text as a page


def as_text(result: Result) -> str:
    """Return a line for each side: median, ratio to the first, 99th percentile or spread, and a bar
    whose length is a logarithm of the median; its counts a line below.
    """
    widest, least = max(28, *map(len, result.times)), min(map(result.median, result.times))
    lines = [result.row]
    for side, times in result.times.items():
        median, high, spread = result.median(side), result.percentile(side), ""
        if high is not None:
            spread = f"99 % within {figure(high)}, x {high / median:.1f}"
        elif len(times) > 1:
            spread = f"{figure(min(times))} to {figure(max(times))}"
        shown = f"{figure(median):>9} {result.unit}"
        bar = BAR * (1 + round(8 * log10(median / least)))
        lines.append(f"  {side:<{widest}}{shown:<14}x {result.ratio(side):<8.2f}{spread:<28}{bar}")
        if counts := result.counts.get(side):
            lines.append(
                "      " + ", ".join(f"{name} {count:,.10g}" for name, count in counts.items())
            )
    return "\n".join(lines)


def figure(value: float) -> str:
    """Return a measured number with three significant digits.

    >>> figure(0.012345), figure(1.2345), figure(123.45), figure(54321.0)
    ('0.0123', '1.23', '123', '54,321')
    """
    digits = 2 - int(log10(value) // 1) if value > 0 else 0
    return f"{value:,.{max(0, digits)}f}"


def write(
    results: Sequence[Result], title: str, folder: Path, about: str = ""
) -> tuple[Path, Path]:
    """Write `title`.json and `title`.html into `folder`, and return their paths; `about` says
    what was measured.
    """
    folder.mkdir(parents=True, exist_ok=True)
    data, page = folder / f"{title}.json", folder / f"{title}.html"
    summary = report(results, about)
    data.write_text(json.dumps(summary, indent=1))
    text = "\n\n".join([f"{title}  {about}", str(summary["machine"]), *map(as_text, results)])
    head = f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title>"
    page.write_text(f"{head}<pre>{escape(text)}</pre></html>\n", encoding="utf-8")
    return data, page


def report(results: Sequence[Result], about: str) -> dict[str, Any]:
    """Return the results as data, with the machine and the packages that were measured."""
    packages = {dist.name: dist.version for dist in distributions() if dist.name in PACKAGES}
    machine = {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "processor": platform.machine(),
        **packages,
    }
    figures = {"medians": Result.median, "ratios": Result.ratio, "percentiles": Result.percentile}
    rows = [
        asdict(result)
        | {name: {side: of(result, side) for side in result.times} for name, of in figures.items()}
        for result in results
    ]
    return {"about": about, "machine": machine, "rows": rows}


def _tell(options: argparse.Namespace, text: str) -> None:
    """Print what is measured, for people."""
    if not options.json:
        print(text, flush=True)


# -- what sides are made of


def workspace_with(
    file: Path, declared: str, facts: Mapping[str, Any], **options: Any
) -> ivm.Workspace:
    """Return a new workspace that has these declarations and rows; unsynced, unless the options
    say otherwise.
    """
    workspace = ivm.open(file, **{"sync": "off", **options})
    workspace.install(declared, "facts")
    with workspace.transaction() as txn:
        for name, rows in facts.items():
            txn.insert(name, rows)
    return workspace


def duckdb_with(tables: Mapping[str, Any], file: Path | None = None) -> Any:
    """Return a connection to DuckDB, of one thread, with these tables; None without it."""
    if not installed("duckdb"):
        return None
    import duckdb

    peer = duckdb.connect(file or ":memory:", config={"threads": 1})
    for name, columns in tables.items():
        peer.register("given", pa.table(columns))
        peer.execute(f"create table {name} as select * from given")
        peer.unregister("given")
    peer.execute("checkpoint")
    return peer


def installed(package: str) -> bool:
    """Return whether another system, or what compiles kernels, is installed."""
    return importlib.util.find_spec(package) is not None


def those_installed(*sides: Side) -> list[Side]:
    """Return the sides of this project, and of other systems that are installed."""
    return [
        side for side in sides if _system(side) in ("pagestore", "ivm") or installed(_system(side))
    ]


def _system(side: Side) -> str:
    """Return the package of a side's system, with whose name the side's begins."""
    return side.name.split()[0].rstrip(",").lower()


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that something takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def apart(function: Callable[..., Any], *arguments: object) -> Any:
    """Return what a function of a module returns in a new process."""
    with ProcessPoolExecutor(1, SPAWN) as process:
        return process.submit(function, *arguments).result()


def output(command: Sequence[object], environment: Mapping[str, str] | None = None) -> str:
    """Return what a process prints. Raises ChildProcessError, with its errors' end, if it fails."""
    words = [*map(str, command)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    if done.returncode:
        said = done.stderr.strip()[-2000:] or "it said nothing"
        raise ChildProcessError(f"`{' '.join(words)[:200]}` ended with {done.returncode}: {said}")
    return done.stdout


def peak_bytes() -> int:
    """Return the most memory that this process had; getrusage would count its parent's before
    the start, too.
    """
    return (
        int(Path("/proc/self/status").read_text(encoding="ascii").partition("VmHWM:")[2].split()[0])
        * 1024
    )
