"""Benchmarks aggregates of one large group whose greatest value is deleted again and again, beside DuckDB's anew.

python -m pagestore_tools.bench.aggregates --quick
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import ivm

from .measure import Row, Side
from .peers import duckdb_with
from .run import arguments, bench

DELETES = 10  # in a run, each in a transaction of its own
VIEWS = {
    "max": ("max(y)", "max(y)"),
    "median": ("median(y)", "median(y)"),
    "quantile": ("quantile(y, 0.9)", "quantile_disc(y, 0.9)"),
    "count_distinct": ("count_distinct(y)", "count(distinct y)"),
    "stddev_pop": ("stddev_pop(y)", None),  # DuckDB rounds its sums
}


def run(options: argparse.Namespace) -> int:
    """Run the benchmark; the exit code."""
    with tempfile.TemporaryDirectory(prefix="pagestore-bench-") as folder:
        return bench("aggregate bench", rows(Path(folder), 1_000_000 if options.quick else 10_000_000), options)


def rows(folder: Path, size: int) -> Iterator[Row]:
    """A row for each aggregate, over a group of `size` values."""
    values = np.arange(size)
    for name, (ours, theirs) in VIEWS.items():
        with ivm.open(folder / f"{name}.pages", sync="off", retain=2) as ws:
            ws.install("n(y) -> int(y).", "base")
            with ws.transaction() as txn:
                txn.insert("n", [values])
            ws.install(f"v[] = r <- agg<<r = {ours}>> n(y).", "rules")
            sides = [Side("ivm", _deletes(ws, size), before=_restore(ws, values))]
            if theirs and (peer := duckdb_with("n", y=values)):
                sides.append(Side("DuckDB", *_deletes_in_duckdb(peer, theirs, values)))
            yield Row(f"{name} of {size:,}, a delete", sides, 5, "ms", 1e3 / DELETES)


def _deletes(ws: ivm.Workspace, size: int) -> Callable[[], list[Any]]:
    def run() -> list[Any]:
        answers = []
        for y in range(size - 1, size - 1 - DELETES, -1):
            with ws.transaction() as txn:
                txn.delete("n", [(y,)])
            answers.append(next(iter(ws["v"]))[0])
        return answers

    return run


def _restore(ws: ivm.Workspace, values: np.ndarray) -> Callable[[], object]:
    def restore() -> None:
        with ws.transaction() as txn:
            txn.insert("n", [values[-DELETES:]])

    return restore


def _deletes_in_duckdb(
    peer: Any, aggregate: str, values: np.ndarray
) -> tuple[Callable[[], list[Any]], Callable[[], object]]:
    size = len(values)

    def run() -> list[Any]:
        answers = []
        for y in range(size - 1, size - 1 - DELETES, -1):
            peer.execute("delete from n where y = ?", [y])
            answers.append(peer.execute(f"select {aggregate} from n").fetchone()[0])
        return answers

    def restore() -> None:
        peer.execute("delete from n where y >= ?", [size - DELETES])
        peer.execute("insert into n select * from range(?, ?)", [size - DELETES, size])

    return run, restore


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments(parser)
    sys.exit(run(parser.parse_args()))
