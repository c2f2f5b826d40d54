"""Folds: a sum over half the records, scans of random intervals, and how much a scan slows updates."""

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

import pagestore
from pagestore_tools.bench.harness import Row, Side, Work
from pagestore_tools.bench.store import STEP, fill, sums

CALLS = 2_000
BATCH = 20_000
UPDATES = 20_000


def rows(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows of folds, over relations with `size` records."""
    yield from sums(folder, options.size, ["count", "sum:price", "max:price"], _intervals)
    size, random = options.size // 10, np.random.default_rng(3)
    edits = min(UPDATES, size)
    with pagestore.open(folder / "updates.pages", sync="off", retain=2) as store:

        def update(name: str) -> None:
            with store.transaction() as txn:
                chosen = STEP * random.choice(size, edits, replace=False)
                txn[name].set([chosen, random.integers(0, 10**6, edits)])

        sides = []
        for scan in ("no scan", "max:price", "sum:price", "count"):
            fill(store, f"with {scan}", size, [scan] * (scan != "no scan"))
            sides.append(Side(f"with {scan}", partial(update, f"with {scan}")))
        yield Row(f"set {edits:,} of {size:,} records", sides, 15)


def _intervals(relation: pagestore.Relation, size: int) -> Iterator[Row]:
    """Yield rows for scans of random intervals, one in a call, and many in a batch."""
    lo, hi = np.sort(np.random.default_rng(2).integers(0, STEP * size, (2, BATCH)), axis=0)
    pairs = list(zip(lo[:CALLS].tolist(), hi[:CALLS].tolist(), strict=True))

    def called(text: str) -> object:
        return [relation.range((a,), (b,)).scan(text) for a, b in pairs] and None

    def batched(text: str) -> object:
        return relation.scan_many(text, [lo], [hi]) and None

    for name, work, calls in (("a call", called, CALLS), ("in a batch", batched, BATCH)):
        sides = [Side(text, partial(work, text)) for text in relation.scans]
        yield Row(f"scan of {size:,} records, {name}", sides, 7, "µs", 1e6 / calls)


SCANS = Work("scan bench", rows, 10_000_000, 1_000_000)
