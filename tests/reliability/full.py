"""A disk fills up: the commit that has no room leaves nothing, and what frees space runs in the
reserve.

Either the store itself fills the disk, or others do so while it is closed, be it small or large.
"""

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
            (_fill if number % 2 else _filled_by_others)(rng, counts)
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
        if "r" not in txn:
            txn.create("r", "k: int64, v: int64", key="k", scans=["count"])
        txn["r"].set([(-1, -1)])
    _agrees(store, rows | {-1: -1})
    store._handle.open = False


def _filled_by_others(rng: Random, counts: Counter[str]) -> None:
    page_size = rng.choice([4096, 8192])
    file = SimulatedFile(empty_store(page_size), limit=1 << 24, page_size=page_size)
    store = Store(Handle(file, sync=rng.choice(["full", "commit"])))
    store.retain, rows = rng.choice([1, 16, "all"]), {}
    for commit in range(rng.choice([1, 5, 50])):
        fresh = {
            rng.randrange(3000): rng.randrange(1 << 40) for _ in range(rng.choice([1, 60, 2000]))
        }
        with store.transaction() as txn:
            relation = (
                txn["r"]
                if commit
                else txn.create("r", "k: int64, v: int64", key="k", scans=["count"])
            )
            relation.set(list(fresh.items()))
        rows |= fresh
        if not commit:
            store.tag("t")
    store.close()
    for frees in FREES:
        _frees_on_a_full_disk(file.content(), page_size, rng, rows, frees)
    counts["filled by others"] += 1


def _frees_on_a_full_disk(
    content: bytes, page_size: int, rng: Random, rows: Rows, frees: Callable[[Store, Rows], Rows]
) -> None:
    file = SimulatedFile(content, page_size=page_size)
    file.capacity = len(content)
    store = Store(Handle(file, sync=rng.choice(["full", "commit"])))
    if rng.random() < 0.5:
        try:
            with store.transaction() as txn:
                txn["r"].set([(k, 1 << 41) for k in range(-40_000, 0)])
        except OSError as error:  # it changed nothing, and the handle goes on
            assert error.errno == errno.ENOSPC, error
    rows = frees(store, rows)
    _agrees(store, rows)
    store.close()
    again = SimulatedFile(file.content(), page_size=page_size)
    again.capacity = len(content)
    store = Store(Handle(again))
    _agrees(store, _delete(store, rows))
    store._handle.open = False


def _agrees(store: Store, rows: Rows) -> None:
    found = store.snapshot()
    assert (dict(found["r"]) if "r" in found else {}) == rows
    faults = store.check()
    assert not faults, faults[0]


def _vacuum(store: Store, rows: Rows) -> Rows:
    store.vacuum(keep_versions=1)
    return rows


def _retain(store: Store, rows: Rows) -> Rows:
    store.retain = 2
    return rows


def _delete(store: Store, rows: Rows) -> Rows:
    gone = sorted(rows)[:10]
    with store.transaction() as txn:
        if "r" in txn:
            txn["r"].delete([(k,) for k in gone])
    return {k: v for k, v in rows.items() if k not in gone}


def _delete_all(store: Store, rows: Rows) -> Rows:
    with store.transaction() as txn:
        txn["r"].delete([(k,) for k in sorted(rows)])
    return {}


def _truncate(store: Store, rows: Rows) -> Rows:
    with store.transaction() as txn:
        txn.truncate("r")
    return {}


def _drop(store: Store, rows: Rows) -> Rows:
    with store.transaction() as txn:
        txn.drop("r")
    return {}


def _untag(store: Store, rows: Rows) -> Rows:
    for tag in store.tags:
        store.untag(tag)
    return rows


FREES: list[Callable[[Store, Rows], Rows]] = [
    _vacuum,
    _retain,
    _delete,
    _delete_all,
    _truncate,
    _drop,
    _untag,
]
