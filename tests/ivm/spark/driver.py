"""A program for test_kills.py to kill: batch after batch over cells, or refresh after refresh of
views.

    python -m tests.ivm.spark.driver cells|views FOLDER FIRST LAST [spark]

Each batch follows from its number alone, so whoever reads what is left knows what should be there.
"""

import random
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa

from ivm.spark import Cells, materialize
from ivm.spark.follow import refresh

RULES = """edge(x, y) -> int(x), int(y).
tri(x, y, z) <- edge(x, y), edge(y, z), edge(x, z).
deg[x] = n <- agg<<n = count()>> edge(x, _).
most[] = n <- agg<<n = max(d)>> deg[_] = d."""
CELLS = 3


def batch(number: int) -> dict[tuple[int, int], str]:
    """The changes of a batch: an edge and what happens to it."""
    chance = random.Random(number)
    return {
        (chance.randrange(9), chance.randrange(9)): chance.choice(["insert", "insert", "delete"])
        for _ in range(12)
    }


def table(number: int) -> pa.Table:
    """The same as a table."""
    changes = batch(number)
    return pa.table(
        {
            "x": [x for x, _ in changes],
            "y": [y for _, y in changes],
            "_change_type": [*changes.values()],
        }
    )


def edges_after(number: int) -> set[tuple[int, int]]:
    """The edges after all batches up to a number."""
    found: set[tuple[int, int]] = set()
    for n in range(1, number + 1):
        for edge, kind in batch(n).items():
            found.add(edge) if kind == "insert" else found.discard(edge)
    return found


def views_after(number: int) -> dict[str, list[tuple]]:
    """The rows of every view then."""
    edges = edges_after(number)
    degree = {x: sum(a == x for a, _ in edges) for x, _ in edges}
    return {
        "edge": sorted(edges),
        "tri": sorted((x, y, z) for x, y in edges for a, z in edges if a == y and (x, z) in edges),
        "deg": sorted(degree.items()),
        "most": [(max(degree.values()),)] if degree else [],
    }


def over_cells(folder: Path, batches: range, spark: object) -> None:
    """Send batches; the first of them again, as a driver does that does not know which were
    done.
    """
    if not (folder / "cells.pages").exists():
        Cells.create(folder, RULES, CELLS, options={"threads": 1}).close()
    with Cells.open(folder, spark) as cells:
        for number in batches:
            cells.apply(number, {"edge": table(number)})
            print(number, flush=True)


def of_views(folder: Path, batches: range, spark: Any) -> None:
    """The same with refreshes, through DataFrames where there is Spark."""
    for number in batches:
        if spark is None:
            refresh(folder / "v.pages", "views", RULES, {"edge": table(number)}, batch=number)
        else:
            frame = spark.createDataFrame(table(number))
            materialize(spark, "views", RULES, {"edge": frame}, folder / "v.pages", batch=number)
        print(number, flush=True)


def main(what: str, folder: str, first: str, last: str, *how: str) -> None:
    """Run it."""
    with spark_session() if how else nullcontext() as spark:
        {"cells": over_cells, "views": of_views}[what](
            Path(folder), range(int(first), int(last) + 1), spark
        )


def spark_session() -> AbstractContextManager[Any]:
    """A local session; pyspark is imported only here."""
    from pagestore_tools.spark.session import local_session

    return local_session("driver")


if __name__ == "__main__":
    main(*sys.argv[1:])
