"""A disk fills up: the commit that has no room leaves nothing, and what frees space runs in the reserve."""

import errno
from collections import Counter
from collections.abc import Callable
from random import Random

from pagestore.store import Store, empty_store
from pagestore.versions.handle import Handle
from tests.support.simulator import SimulatedFile

Rows = dict[int, int]


def run(seed: int, amount: int) -> Counter[str]:
    """Fill so many disks; raises AssertionError."""
    counts: Counter[str] = Counter()
    for number in range(amount):
        rng = Random(f"{seed} {number}")
        try:
            _fill(rng, counts)
        except (AssertionError, OSError) as error:
            raise AssertionError(f"disk {number} of seed {seed}: {error!r}") from error
        counts["disks"] += 1
    return counts


def _fill(rng: Random, counts: Counter[str]) -> None:
    file = SimulatedFile(empty_store(4096), limit=1 << 23)
    file.capacity = rng.randrange(1_600_000, 4_000_000)
    store = Store(Handle(file, sync=rng.choice(["full", "commit"])))
    store.retain = "all"
    rows: Rows = {}
    size = rng.choice([5, 60, 600])
    while True:
        fresh = {rng.randrange(3000): rng.randrange(1 << 40) for _ in range(size)}
        try:
            with store.transaction() as txn:
                if "r" not in txn:
                    txn.create("r", "k: int64, v: int64", key="k", scans=["count"])
                txn["r"].set(list(fresh.items()))
        except OSError as error:
            assert error.errno == errno.ENOSPC and "vacuum" in str(error), error
            break
        rows |= fresh
        counts["commits"] += 1
    _agrees(store, rows)
    frees = rng.choice(FREES)
    rows = frees(store, rows)
    counts[frees.__name__.strip("_")] += 1
    _agrees(store, rows)
    store.retain = 1
    store.vacuum()
    with store.transaction() as txn:
        txn["r"].set([(-1, -1)])
    _agrees(store, rows | {-1: -1})
    store._handle.open = False


def _agrees(store: Store, rows: Rows) -> None:
    assert dict(store.snapshot()["r"]) == rows
    faults = store.check()
    assert not faults, faults[0]


def _vacuum(store: Store, rows: Rows) -> Rows:
    assert store.vacuum(keep_versions=1).pages_freed
    return rows


def _retain(store: Store, rows: Rows) -> Rows:
    store.retain = 2
    return rows


def _delete(store: Store, rows: Rows) -> Rows:
    gone = sorted(rows)[:10]
    with store.transaction() as txn:
        txn["r"].delete([(k,) for k in gone])
    return {k: v for k, v in rows.items() if k not in gone}


FREES: list[Callable[[Store, Rows], Rows]] = [_vacuum, _retain, _delete]
