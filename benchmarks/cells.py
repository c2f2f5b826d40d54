"""What cells hold and are sent, what that costs, and what the shares predict up to 10^11 edges, for
triangles.

`cells` counts the rows of a random graph over 1, 4 and 8 cells in this process. Then the bytes of
an edge that were found there, and the same search for shares, give a table for larger graphs.

`cell_costs` applies batches of changes, probed and with sensitivity indices. Bytes are those of
pages of trees. Memory is what the peak of a process with one cell grows by, for each edge, from
twice to eight times as many of them; with sensitivity indices, for each row of these.
"""

import argparse
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

import ivm
from ivm.rules.compile import compile
from ivm.spark import Cells
from ivm.spark.cell import TICK, Batch, Message
from ivm.spark.executors import Here, Stage
from ivm.spark.shares import choose_shares
from pagestore_tools.bench.harness import apart, peak_bytes
from pagestore_tools.cli.answers import table

from . import Command

TRIANGLES = "edge(x, y) -> int(x), int(y). tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z)."
COUNTED = (1, 4, 8)
ON_PAPER = ((10**8, 64), (10**9, 512), (10**10, 4096), (10**11, 32768))
DELTA = 1_000_000  # edges of a batch on paper
BATCHES, CHANGES = 4, 1000
PEAKS = 2, 8  # times the edges: how much more memory does it take?
Mode = Literal["probe", "match"]
MODES: tuple[Mode, ...] = ("probe", "match")
SENSITIVITY = "$sense:"
COUNTS = (
    "cells",
    "shares",
    "predicted rows a cell",
    "most",
    "sent in all",
    "operations a cell",
    "most",
)
PAPER = (
    "edges",
    "cells",
    "shares",
    "edge rows a cell",
    "GB a cell",
    "copies",
    "rows sent for 10^6 edges",
    "a cell",
)
COSTLY = ("maintenance", "edge rows", "bytes a row", "sensitivity rows a row", "bytes of one",
    "memory",
         "rows sent a change", "bytes sent a change")  # fmt: skip


def random_edges(edges: int, degree: int) -> pa.Table:
    """Return a random graph."""
    rows = np.unique(
        np.random.default_rng(1).integers(0, max(edges // degree, 2), (edges, 2)), axis=0
    )
    return pa.table({"x": rows[:, 0], "y": rows[:, 1]})


def count(edges: int, cells: int, folder: Path) -> tuple[tuple[str, ...], float]:
    """Return the counts of one layout as a row, and the bytes of the stores for each row of an
    atom and of a home.
    """
    rows = random_edges(edges, 8)
    with Cells.create(
        folder, TRIANGLES, cells, options={"sync": "off"}, sizes={"edge": rows.num_rows}
    ) as made:
        applied = made.apply(1, {"edge": rows})
        predicted = made.layout.writers[0].held if cells > 1 else 0.0
        found = (
            [sum(account[-1]["received"].values()) for account in applied.accounts.values()]
            if cells > 1
            else [0]
        )
        work = [
            sum(account["operations"] for account in accounts)
            for accounts in applied.accounts.values()
        ]
        size = sum(file.stat().st_size for file in folder.rglob("cell-*.pages"))
        shares = " ".join(map(str, made.layout.writers[0].shares.values())) or "1"
    counts = predicted, max(found), sum(found), sum(work) / cells, max(work)
    return (str(cells), shares, *(f"{n:,.0f}" for n in counts)), size / (rows.num_rows + sum(found))


def on_paper(edges: int, cells: int, bytes_of_row: float) -> tuple[str, ...]:
    """Return what the shares predict of a larger graph, as a row."""
    [rule] = compile(TRIANGLES).rules
    shares = choose_shares(rule.body[0], {"edge": float(edges)}, cells)
    copies = shares.held * shares.cells / edges
    sent, size = DELTA * (1 + copies), (shares.held + edges / cells) * bytes_of_row / 1e9
    shown = (
        f"{edges:.0e}",
        f"{cells:,}",
        " ".join(map(str, shares.of.values())),
        f"{shares.held:,.0f}",
        f"{size:,.1f}",
    )
    return (*shown, f"{copies:.0f}", f"{sent:,.0f}", f"{sent / shares.cells:,.0f}")


def _count(options: argparse.Namespace) -> int:
    """Count, then calculate, and print both tables."""
    with tempfile.TemporaryDirectory() as folder:
        rows, sizes = zip(
            *(count(options.edges, n, Path(folder) / str(n)) for n in COUNTED), strict=True
        )
    print(table(rows, COUNTS, str.isascii))
    print(f"\n{sizes[-1]:,.0f} bytes for each row of an atom or a home, with all indices\n")
    print(table([on_paper(*size, sizes[-1]) for size in ON_PAPER], PAPER, str.isascii))
    return 0


class Counting(Here):
    """Counts the rows' bytes on their way from cell to cell."""

    sent = 0

    def run(
        self, batch: Batch, stages: Sequence[Stage], files: Sequence[str] | None, cells: int
    ) -> list[Message]:
        """See Executor."""

        def counting(
            stage: Stage, batch: Batch, cell: int, messages: list[Message]
        ) -> list[Message]:
            self.sent += sum(
                len(message.payload) for message in messages if message.channel != TICK
            )
            return stage(batch, cell, messages)

        return super().run(batch, [partial(counting, stage) for stage in stages], files, cells)


class Costs(NamedTuple):
    """Of all cells: rows of atoms and homes, sensitivity rows, the bytes of each; rows and bytes
    a change sends.
    """

    rows: int
    sensitivity_rows: int
    row_bytes: float
    sensitivity_bytes: float
    rows_sent: float
    bytes_sent: float


def costs(folder: Path, edges: pa.Table, cells: int, mode: Mode) -> Costs:
    """Evaluate over cells, change, and count."""
    with Cells.create(
        folder,
        TRIANGLES,
        cells,
        tables={"edge": edges},
        options={"sync": "off", "threads": 1},
        maintenance=mode,
    ) as made:
        counting = made._run = Counting()
        rng, rows = np.random.default_rng(2), 0
        for number in range(1, BATCHES + 1):
            if number % 2:  # what goes comes again
                gone = edges.take(rng.choice(edges.num_rows, CHANGES, replace=False))
            kinds = pa.array(["delete" if number % 2 else "insert"] * CHANGES)
            rows += sum(
                made.apply(
                    number, {"edge": gone.append_column("_change_type", kinds)}
                ).received.values()
            )
    sizes, counted = [0, 0], [0, 0]  # of rows, and of sensitivity rows
    for file in folder.rglob("cell-*.pages"):
        with ivm.open(file, mode="r") as workspace, workspace.store.snapshot() as snap:
            for name, pages in workspace.store.stat().relations.items():
                sensitivity, predicate = (
                    name.startswith(SENSITIVITY),
                    workspace.predicates.get(name),
                )
                if predicate is None or predicate.extensional:  # else a view
                    sizes[sensitivity] += pages * workspace.store.page_size
                    counted[sensitivity] += snap.tree(name).count * (
                        sensitivity or predicate is not None
                    )
    each, changes = (
        [size / max(n, 1) for size, n in zip(sizes, counted, strict=True)],
        BATCHES * CHANGES,
    )
    return Costs(counted[0], counted[1], each[0], each[1], rows / changes, counting.sent / changes)


def _peak(edges: int, mode: Mode) -> int:
    with tempfile.TemporaryDirectory() as folder:
        costs(Path(folder) / "c", random_edges(edges, 16), 1, mode)
    return peak_bytes()


def _cost(options: argparse.Namespace) -> int:
    """Measure and print."""
    rows, memory = [], list[float]()
    for mode in MODES:
        with tempfile.TemporaryDirectory() as folder:
            graph = random_edges(options.edges, 16)
            found, one = (
                costs(Path(folder) / str(cells), graph, cells, mode) for cells in (options.cells, 1)
            )
        few, many = (apart(_peak, options.edges * times, mode) for times in PEAKS)
        memory.append((many - few) / (options.edges * (PEAKS[1] - PEAKS[0])))
        each = (
            memory[0]
            if mode == MODES[0]
            else (memory[1] - memory[0]) * one.rows / one.sensitivity_rows
        )
        rows.append(
            [
                mode,
                f"{found.rows:,}",
                f"{found.row_bytes:.0f}",
                f"{found.sensitivity_rows / found.rows:.1f}",
                f"{found.sensitivity_bytes:.0f}",
                f"{each:.0f}",
                f"{found.rows_sent:.1f}",
                f"{found.bytes_sent:.0f}",
            ]
        )
    print(table(rows, COSTLY, str.isascii))
    return 0


EDGES, CELL_NUMBER = {"type": int, "default": 20_000}, {"type": int, "default": 8}
CELLS = Command(_count, {"--edges": EDGES})
COSTS = Command(_cost, {"--edges": EDGES | {"default": 200_000}, "--cells": CELL_NUMBER})
