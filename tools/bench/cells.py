"""Cells counted and on paper: what a cell holds and is sent, against what the shares predict; then up to 10^11 edges.

    python -m pagestore_tools.bench.cells [--edges 20000]

First triangles of a random graph are evaluated over 1, 4 and 8 cells in this process, and rows are counted. Then the
bytes of an edge that were found there, and the same search for shares, give a table for larger graphs.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from ivm.engine.compile import compile
from ivm.spark import Cells
from ivm.spark.shares import choose_shares

from ..cli.answers import table

RULES = "edge(x, y) -> int(x), int(y). tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z)."
COUNTED = (1, 4, 8)
ON_PAPER = ((10**8, 64), (10**9, 512), (10**10, 4096), (10**11, 32768))
DELTA = 1_000_000  # edges of a batch
COUNTS = ("cells", "shares", "predicted rows a cell", "most", "sent in all", "operations a cell", "most")
HEADER = ("edges", "cells", "shares", "edge rows a cell", "GB a cell", "copies", "rows sent for 10^6 edges", "a cell")


def count(edges: int, cells: int, folder: Path) -> tuple[tuple[str, ...], float]:
    """The counts of one layout as a row, and the bytes of the stores for each row of an atom and of a home."""
    drawn = np.random.default_rng(1).integers(0, edges // 8, (edges, 2))
    rows = np.unique(drawn, axis=0)
    part = pa.table({"x": rows[:, 0], "y": rows[:, 1]})
    with Cells.create(folder, RULES, cells, options={"sync": "off"}, sizes={"edge": len(rows)}) as made:
        applied = made.apply(1, {"edge": part})
        held = made.layout.writers[0].held if cells > 1 else 0.0
        found = {cell: sum(account[-1]["received"].values()) for cell, account in applied.accounts.items()}
        later = {cell: n for cell, n in found.items() if cells > 1}
        work = [sum(account["operations"] for account in accounts) for accounts in applied.accounts.values()]
        size = sum(file.stat().st_size for file in folder.rglob("cell-*.pages"))
        shares = " ".join(map(str, made.layout.writers[0].shares.values())) or "1"
    stored = len(rows) + sum(later.values())
    most = max(later.values(), default=0)
    return (
        str(cells), shares, f"{held:,.0f}", f"{most:,}", f"{sum(later.values()):,}", f"{sum(work) / cells:,.0f}",
        f"{max(work):,}",
    ), size / stored  # fmt: skip


def on_paper(edges: int, cells: int, bytes_of_row: float) -> tuple[str, ...]:
    """What the shares predict of a larger graph, as a row."""
    [rule] = compile(RULES).rules
    shares = choose_shares(rule.body[0], {"edge": float(edges)}, cells)
    copies = shares.held * shares.cells / edges
    sent = DELTA * (1 + copies)
    size = (shares.held + edges / cells) * bytes_of_row / 1e9
    shown = " ".join(map(str, shares.of.values()))
    return (
        f"{edges:.0e}",
        f"{cells:,}",
        shown,
        f"{shares.held:,.0f}",
        f"{size:,.1f}",
        f"{copies:.0f}",
        f"{sent:,.0f}",
        (f"{sent / shares.cells:,.0f}"),
    )


def main() -> None:
    """Count, then calculate, and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=20_000)
    edges = parser.parse_args().edges
    rows, sizes = [], []
    with tempfile.TemporaryDirectory() as folder:
        for cells in COUNTED:
            row, size = count(edges, cells, Path(folder) / str(cells))
            rows.append(row)
            sizes.append(size)
    print(table(rows, COUNTS, str.isascii))
    print(f"\n{sizes[-1]:,.0f} bytes for each row of an atom or a home, with all indices\n")
    print(table([on_paper(*size, sizes[-1]) for size in ON_PAPER], HEADER, str.isascii))


if __name__ == "__main__":
    main()
