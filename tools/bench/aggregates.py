"""Benchmarks aggregates of one large group from which one row after the other is deleted, beside DuckDB's anew.

python -m pagestore_tools.bench.aggregates --quick

Both sides delete a row in a transaction of its own, in memory or unsynced, and then read the aggregate.  Of a
concatenation the first letters are read; DuckDB makes the whole text for them.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import ivm

from .measure import Row, Side
from .peers import duckdb_with
from .run import arguments, bench

DELETES = 10  # in a run
TEXTS = 1000  # different ones
LETTERS = 24  # of a concatenation that are read


class Case(NamedTuple):
    """An aggregate as a rule and as SQL, None where DuckDB rounds; `first` says from which end rows are deleted."""

    rule: str
    sql: str | None
    first: bool = False


CASES = {
    "max": Case("max(y)", "max(y)"),
    "median": Case("median(y)", "median(y)"),
    "quantile": Case("quantile(y, 0.9)", "quantile_disc(y, 0.9)"),
    "count_distinct": Case("count_distinct(y)", "count(distinct y)"),
    "stddev_pop": Case("stddev_pop(y)", None),
    "concat": Case('concat(t, y, " ")', f"left(string_agg(t, ' ' order by y), {LETTERS})", True),
}


def run(options: argparse.Namespace) -> int:
    """Run the benchmark; the exit code."""
    with tempfile.TemporaryDirectory(prefix="pagestore-bench-") as folder:
        return bench("aggregate bench", rows(Path(folder), 1_000_000 if options.quick else 10_000_000), options)


def rows(folder: Path, size: int) -> Iterator[Row]:
    """A row for each aggregate, over a group of `size` values."""
    table = {"y": pa.array(np.arange(size))}
    for name, case in CASES.items():
        if name == "concat":
            texts = pa.array([f"t{i}" for i in range(TEXTS)])
            table |= {"t": pa.DictionaryArray.from_arrays(np.arange(size) % TEXTS, texts).cast(pa.string())}
        with ivm.open(folder / f"{name}.pages", sync="off", retain=2) as ws:
            ws.install("n[y] = t -> int(y), string(t)." if "t" in table else "n(y) -> int(y).", "base")
            with ws.transaction() as txn:
                txn.insert("n", pa.table(table))
            ws.install(f"v[] = r <- agg<<r = {case.rule}>> {'n[y] = t' if 't' in table else 'n(y)'}.", "rules")
            ends = range(DELETES) if case.first else range(size - 1, size - 1 - DELETES, -1)
            some = pa.table(table).take([*ends])
            sides = [Side("ivm", _deletes(ws, ends, name == "concat"), before=_restore(ws, some))]
            if case.sql and (peer := duckdb_with("n", **table)):
                sides.append(Side("DuckDB", *_deletes_in_duckdb(peer, case.sql, ends, some)))
            yield Row(f"{name} of {size:,}, a delete", sides, 5, "ms", 1e3 / DELETES)


def _deletes(ws: ivm.Workspace, ends: range, text: bool) -> Callable[[], list[Any]]:
    def run() -> list[Any]:
        answers = []
        for y in ends:
            with ws.transaction() as txn:
                txn.delete("n", [(y,)])
            answers.append(ws.rope("v")[:LETTERS] if text else next(iter(ws["v"]))[0])
        return answers

    return run


def _restore(ws: ivm.Workspace, some: pa.Table) -> Callable[[], object]:
    def restore() -> None:
        with ws.transaction() as txn:
            txn.set("n", some) if some.num_columns > 1 else txn.insert("n", some)

    return restore


def _deletes_in_duckdb(
    peer: Any, aggregate: str, ends: range, some: pa.Table
) -> tuple[Callable[[], list[Any]], Callable[[], object]]:
    def run() -> list[Any]:
        answers = []
        for y in ends:
            peer.execute("delete from n where y = ?", [y])
            answers.append(peer.execute(f"select {aggregate} from n").fetchone()[0])
        return answers

    def restore() -> None:
        peer.execute("delete from n where y between ? and ?", [min(ends), max(ends)])
        peer.register("deleted", some)
        peer.execute("insert into n select * from deleted")

    return run, restore


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments(parser)
    sys.exit(run(parser.parse_args()))
