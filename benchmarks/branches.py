"""Branches of a store with three views, one of which reads itself: begun, read, edited in a
what-if, and merged after a hundred changes on either side.

    row[k] = v               total[] is their sum, by[v] counts them
    parent[x] = y            above(x, y) follows it up
"""

import argparse
import random
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np

import ivm
import pagestore
from pagestore_tools.bench.harness import Row, Side, Work, installed, timed

from .doltlite import CHANGES, NESTED, NODES, Process, changed, values_of

RULES = """
    row[k] = v -> int(k), int(v).  parent[x] = y -> int(x), int(y).
    total[] = s <- agg<<s = sum(v)>> row[_] = v.
    by[v] = n <- agg<<n = count()>> row[_] = v.
    above(x, y) <- parent[x] = y.  above(x, z) <- above(x, y), parent[y] = z.
"""


def fill(ws: ivm.Workspace, size: int) -> np.ndarray:
    """Install rows and views, and return the values of the rows."""
    relations, views = RULES.strip().split("\n", 1)
    ws.install(relations, "relations")
    values = values_of(size)
    ws.insert("row", {"k": np.arange(size), "v": values})
    ws.insert("parent", {"x": np.arange(1, NODES), "y": np.arange(1, NODES) // 2})
    ws.install(views, "views")
    return values


def rows(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows of branches."""
    with ivm.open(folder / "branches.pages") as ws:
        values = fill(ws, options.size)
        other = Process(folder, options.size) if installed("doltlite") else None
        yield from merges(ws, options.size, other)
        yield from reads(ws.store, int(values[5]), other)


def merges(ws: ivm.Workspace, size: int, other: Process | None) -> Iterator[Row]:
    """Yield the rows of changes, merged and tried."""
    chance, store = random.Random(1), ws.store

    def diverge() -> None:
        if "side" in store.branches:
            store.delete_branch("side")
        store.branch("side")
        for side, branch in enumerate(("main", "side")):
            rows, parents = changed(chance, size, side)
            with ws.transaction(branch=branch) as txn:
                txn.set("row", rows)
                txn.set("parent", parents)

    def merge() -> list[int]:
        store.merge("side")
        return [next(iter(ws["total"]))[0], len(ws["by"]), len(ws["above"])]

    def what_if() -> None:
        with ws.what_if() as trial:
            trial.set("row", [(chance.randrange(size), 7)])
            for view in ("total", "by", "above"):
                trial.changes(view)

    sides = [Side("ivm", merge, diverge)]
    if other:
        ask = partial(other.ask, "merge"), partial(other.ask, "diverge")
        sides.append(Side("DoltLite, views anew", *ask))
    yield Row(f"{CHANGES} changes a side of {size:,} rows merged, views follow", sides, 10)
    yield Row("a row in a what-if, and what its views would change", [Side("ivm", what_if)], 20)


def reads(store: pagestore.Store, value: int, other: Process | None) -> Iterator[Row]:
    """Yield the rows of nested branches, begun and read."""
    chance = random.Random(1)

    def read(name: str) -> bool:
        with store.snapshot(name) as snap:
            return (5, value) in snap["row"]

    names = ["main", *(f"n{i}" for i in range(NESTED))]
    took = [1e3 * timed(partial(store.branch, new, old)) for old, new in pairwise(names)]
    for what, place in (("first branch", 0), (f"last of {NESTED:,} nested branches", -1)):
        sides = [Side("ivm", partial(took.__getitem__, place))]
        if other:
            sides.append(Side("DoltLite", partial(other.ask, f"begun {place}")))
        yield Row(f"the {what} begun", sides, 1, told=True)
    sides = [
        Side("main", partial(read, "main")),
        Side("the deepest", partial(read, names[-1])),
        Side("one at random", lambda: read(chance.choice(names))),
    ]
    yield Row(f"a row read on main, and on {NESTED:,} branches", sides, 21, "µs", 1e6, 100)
    if other:
        sides = [Side(what, partial(other.ask, what)) for what in ("main", "deepest", "random")]
        yield Row("the same, by DoltLite", sides, 5, "µs", told=True)


BRANCHES = Work("branches bench", rows, 10_000_000, 100_000)
