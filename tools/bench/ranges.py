"""Benchmarks next keys, windows and running totals, evaluated once and after an edit, beside DuckDB's window functions.

python -m pagestore_tools.bench.ranges --quick
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

import ivm

from .measure import Row, Side
from .peers import duckdb_with
from .run import arguments, bench

EDITS = 10  # in a run, each deletes a row and inserts it again
SHAPES = {
    "next": ("v[x] = r <- agg<<r = min(z)>> a(x), a(z), z > x.", "lead(x) over (order by x)"),
    "window": (
        "v[x] = r <- agg<<r = count()>> a(x), a(z), z <= x, z > x - 10000.",
        "count(*) over (order by x range between 9999 preceding and current row)",
    ),
    "sum": (
        "v[x] = r <- agg<<r = sum(z)>> a(x), a(z), z <= x, z > x - 10000.",
        "sum(x) over (order by x range between 9999 preceding and current row)::bigint",
    ),
    "running": ("v[x] = r <- agg<<r = count()>> a(x), a(z), z <= x.", "count(*) over (order by x)"),
}


def run(options: argparse.Namespace) -> int:
    """Run the benchmark; the exit code."""
    with tempfile.TemporaryDirectory(prefix="pagestore-bench-") as folder:
        return bench("range bench", rows(Path(folder), 100_000 if options.quick else 1_000_000), options)


def rows(folder: Path, size: int) -> Iterator[Row]:
    """For each shape a row that is evaluated anew over about `size` keys, and one for edits near the last key."""
    keys = np.unique(np.random.default_rng(5).integers(0, 1000 * size, size))
    for name, (rule, window) in SHAPES.items():
        with ivm.open(folder / f"{name}.pages", sync="off", retain=2, threads=1) as ws:
            ws.install("a(x) -> int(x).", "base")
            with ws.transaction() as txn:
                txn.insert("a", [keys])
            peer = duckdb_with("a", x=keys)
            anew = [Side("ivm", partial(_told, ws, rule))]
            if peer:
                anew.append(Side("DuckDB", partial(_told_by, peer, window)))
            yield Row(f"{name} over {len(keys):,} keys", anew, 3, "ms", 1e3)
            ws.install(rule, "rules")
            yield Row(f"{name}, an edit", [Side("ivm", _edits(ws, int(keys[-5])))], 5, "ms", 1e3 / EDITS / 2)


def _told(ws: ivm.Workspace, rule: str) -> list[int]:
    """How many rows there are, and the sum of their values."""
    values = ws.query(rule).to_arrow()["r"]
    return [len(values), pc.sum(values).as_py()]


def _told_by(peer: Any, window: str) -> list[int]:
    found = peer.execute(f"select count(r), sum(r) from (select {window} as r from a)").fetchone()
    return [*map(int, found)]


def _edits(ws: ivm.Workspace, key: int) -> Callable[[], list[int]]:
    def run() -> list[int]:
        for _ in range(EDITS):
            ws.exec(f"-a({key}).")
            ws.exec(f"+a({key}).")
        return [len(ws["v"])]

    return run


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments(parser)
    sys.exit(run(parser.parse_args()))
