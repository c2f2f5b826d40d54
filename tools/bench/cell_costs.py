"""What a cell costs: bytes and memory for a row of an atom and for a sensitivity row, and what a change sends.

    python -m pagestore_tools.bench.cell_costs [--edges 200000] [--cells 8]

Triangles of a random graph are evaluated over cells in this process, probed and with sensitivity indices; then batches
of changes are applied. Bytes are those of the pages of trees. Memory is what the peak of a process with one cell grows
by, for each edge, from twice to eight times as many of them; with sensitivity indices, for each row of these.

    python -m pagestore_tools.bench.cell_costs --cliques soc-Epinions1.parquet

counts the 4-cliques of a graph over the cells, with one and with two executors of Spark, of one core each.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import ivm
from ivm.spark import Cells
from ivm.spark.cell import TICK, Batch, Message
from ivm.spark.executors import Here, Stage

from ..cli.answers import table
from ..spark.session import local_session

TRIANGLES = "edge(x, y) -> int(x), int(y). tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z)."
CLIQUES = """edge(x, y) -> int(x), int(y).
cliques[] = n <- agg<<n = count()>>
    edge(w, x), edge(w, y), edge(w, z), edge(x, y), edge(x, z), edge(y, z)."""
DEGREE, BATCHES, CHANGES = 16, 4, 1000
PEAKS = 2, 8  # times the edges: how much more memory does it take?
MODES = "probe", "match"
SENSITIVITY = "$sense:"


class Counting(Here):
    """Counts the rows' bytes on their way from cell to cell."""

    sent = 0

    def run(self, batch: Batch, stages: Sequence[Stage], files: Sequence[str] | None, cells: int) -> list[Message]:
        """See Executor."""

        def counting(stage: Stage) -> Stage:
            def run(batch: Batch, cell: int, messages: list[Message]) -> list[Message]:
                self.sent += sum(len(message.payload) for message in messages if message.channel != TICK)
                return stage(batch, cell, messages)

            return run

        return super().run(batch, [counting(stage) for stage in stages], files, cells)


class Costs(NamedTuple):
    """Of all cells: rows of atoms and homes, sensitivity rows, the bytes of each; rows and bytes a change sends."""

    rows: int
    sensitivity_rows: int
    row_bytes: float
    sensitivity_bytes: float
    rows_sent: float
    bytes_sent: float


def random_edges(edges: int) -> pa.Table:
    """A random graph."""
    rows = np.unique(np.random.default_rng(1).integers(0, max(edges // DEGREE, 2), (edges, 2)), axis=0)
    return pa.table({"x": rows[:, 0], "y": rows[:, 1]})


def costs(folder: Path, edges: pa.Table, cells: int, mode: str) -> Costs:
    """Evaluate over cells, change, and count."""
    options = {"sync": "off", "threads": 1}
    with Cells.create(folder, TRIANGLES, cells, tables={"edge": edges}, options=options, maintenance=mode) as made:
        counting = made._run = Counting()
        rng, rows = np.random.default_rng(2), 0
        for number in range(1, BATCHES + 1):
            if number % 2:  # what goes comes again
                gone = edges.take(rng.choice(edges.num_rows, CHANGES, replace=False))
            kinds = pa.array(["delete" if number % 2 else "insert"] * CHANGES)
            applied = made.apply(number, {"edge": gone.append_column("_change_type", kinds)})
            rows += sum(applied.received.values())
    bytes_, counted = [0, 0], [0, 0]
    for file in folder.rglob("cell-*.pages"):
        with ivm.open(file, mode="r") as workspace, workspace.store.snapshot() as snap:
            stat = workspace.store.stat()
            for name, pages in stat.relations.items():
                of_sensitivity, predicate = name.startswith(SENSITIVITY), workspace.predicates.get(name)
                if predicate is not None and not predicate.extensional:
                    continue  # a view
                bytes_[of_sensitivity] += pages * stat.page_size
                if of_sensitivity or predicate is not None:
                    counted[of_sensitivity] += snap.tree(name).count
    changes = BATCHES * CHANGES
    each = [size / max(count, 1) for size, count in zip(bytes_, counted, strict=True)]
    return Costs(counted[0], counted[1], each[0], each[1], rows / changes, counting.sent / changes)


def peak(edges: int, mode: str) -> int:
    """The most memory, in bytes, of a process that evaluates and changes one cell."""
    command = [sys.executable, "-m", "pagestore_tools.bench.cell_costs", "--edges", str(edges), "--peak", mode]
    return int(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()[-1])


def print_peak(edges: int, mode: str) -> None:
    """For `peak`."""
    with tempfile.TemporaryDirectory() as folder:
        costs(Path(folder) / "c", random_edges(edges), 1, mode)
    status = Path("/proc/self/status").read_text()  # getrusage tells of the process that started this one, too
    print(int(status.partition("VmHWM:")[2].split()[0]) * 1024)


def print_costs(edges: int, cells: int) -> None:
    """Measure and print."""
    rows, graph, memory = [], random_edges(edges), list[float]()
    for mode in MODES:
        with tempfile.TemporaryDirectory() as folder:
            found = costs(Path(folder) / "c", graph, cells, mode)
            one = costs(Path(folder) / "one", graph, 1, mode)
        few, many = (peak(edges * times, mode) for times in PEAKS)
        memory.append((many - few) / (edges * (PEAKS[1] - PEAKS[0])))
        each = memory[0] if mode == MODES[0] else (memory[1] - memory[0]) * one.rows / one.sensitivity_rows
        rows.append([mode, f"{found.rows:,}", f"{found.row_bytes:.0f}", f"{found.sensitivity_rows / found.rows:.1f}",
                     f"{found.sensitivity_bytes:.0f}", f"{each:.0f}", f"{found.rows_sent:.1f}",
                     f"{found.bytes_sent:.0f}"])  # fmt: skip
    header = ("maintenance", "edge rows", "bytes a row", "sensitivity rows a row", "bytes of one", "memory",
              "rows sent a change", "bytes sent a change")  # fmt: skip
    print(table(rows, header, str.isascii))


def processor_seconds() -> dict[int, float]:
    """For each executor of Spark below this process, the time of processors that it and its processes have used."""
    parents, used, executors = {}, {}, []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            words, pid = stat.read_text().rpartition(")")[2].split(), int(stat.parent.name)
            parents[pid], used[pid] = int(words[1]), sum(map(int, words[11:15])) / os.sysconf("SC_CLK_TCK")
            if b"CoarseGrainedExecutorBackend" in stat.with_name("cmdline").read_bytes():
                executors.append(pid)
    above = {pid: [*_ancestors(pid, parents)] for pid in parents}
    ours = [pid for pid in executors if os.getpid() in above[pid]]
    return {pid: sum(seconds for other, seconds in used.items() if pid in above[other]) for pid in ours}


def _ancestors(pid: int, parents: dict[int, int]) -> Iterator[int]:
    """A process, its parent, and so on."""
    while pid in parents:
        yield pid
        pid = parents[pid]


def print_cliques(file: Path, cells: int, times: int) -> None:
    """Count the 4-cliques by one executor and by two, in turns, each after it has done so once.

    Beside the seconds stands the time of a processor that the busiest executor has used, which other work on the
    machine does not lengthen.
    """
    edges = pq.read_table(file).select(["x", "y"])
    taken: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    options = {"threads": 1, "sync": "off"}
    for count in taken:
        with local_session("bench", 1, executors=count) as spark, tempfile.TemporaryDirectory() as folder:
            for number in range(times + 1):
                began, before = time.perf_counter(), processor_seconds()
                path = Path(folder) / str(number)
                with Cells.create(path, CLIQUES, cells, spark, {"edge": edges}, options=options) as made:
                    after = processor_seconds()
                    taken[count].append((
                        time.perf_counter() - began, max(used - before.get(pid, 0.0) for pid, used in after.items())
                    ))  # fmt: skip
                    [(found,)] = made["cliques"]
    print(f"{found:,} cliques over {cells} cells, the least of {times}")
    for name, place in (("seconds", 0), ("seconds of a processor, in the busiest executor", 1)):
        one, two = (min(pair[place] for pair in taken[count][1:]) for count in taken)
        print(f"{name}: one executor {one:.2f}, two {two:.2f}: {one / two:.2f} times")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=200_000)
    parser.add_argument("--cells", type=int, default=8)
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--cliques", type=Path, metavar="PARQUET")
    parser.add_argument("--peak", choices=MODES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        print_peak(options.edges, options.peak)
    elif options.cliques:
        print_cliques(options.cliques, options.cells, options.times)
    else:
        print_costs(options.edges, options.cells)


if __name__ == "__main__":
    main()
