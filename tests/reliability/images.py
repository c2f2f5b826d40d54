"""What a disk may hold after a power cut, at every moment of a store's life: an acknowledged commit
is always there.

A byte that was written is in one of three states: in a process, in the system's cache, on the disk.
A kill ends the first, a power cut the second, and a sync that fails may leave the second marked as
if it were the third. A life is a few processes after one another, each with its own kind of sync,
killed or failing somewhere; the disk at every one of its moments is replayed with each write since
the last sync kept, dropped, torn at a sector or out of order.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple
from warnings import catch_warnings, simplefilter

from crc32c import crc32c

from pagestore.relations.snapshot import Snapshot
from pagestore.store import Store, empty_store
from pagestore.versions.handle import Handle
from tests.support.simulator import FALLBACK, SECTOR, Operation, SimulatedFile, play

Rows = list[tuple[int, int]]
SYNCS = "full", "commit"
VARIANTS = 6  # images of a moment at which writes are pending
FULLY = 16  # every so many images are checked in full, and written to


def run(seed: int, amount: int) -> Counter[str]:
    """Judge `amount` images, no two of a moment the same; raises AssertionError naming the life
    that went wrong.
    """
    counts: Counter[str] = Counter()
    number = 0
    while counts["images"] < amount:
        rng = Random(f"{seed} {number}")
        number += 1
        try:
            with catch_warnings():
                # a commit that was not acknowledged may be half there, and that is said
                simplefilter("ignore")
                _judge_life(rng, counts, amount)
        except Exception as error:
            raise AssertionError(f"life {number - 1} of seed {seed}: {error}") from error
        counts["lives"] += 1
    return counts


class Try(NamedTuple):
    """An attempt to make a version: operations before it and, if that came, its acknowledgement;
    what it holds.
    """

    begun: int
    acknowledged: int | None
    version: int
    rows: Rows


@dataclass
class Life:
    """All operations on a file by one process after the other, and the versions that they tried
    to make.
    """

    start: bytes
    operations: list[Operation] = field(default_factory=list)
    tries: list[Try] = field(default_factory=lambda: [Try(0, 0, 0, [])])

    def content(self) -> bytes:
        """The file as processes see it."""
        image = bytearray(self.start)
        for operation in self.operations:
            play(image, operation)
        return bytes(image)

    def allowed(self, done: int) -> tuple[int, int]:
        """The version that was acknowledged after so many operations, and the newest that may be
        there.
        """
        begun = [t for t in self.tries if t.begun <= done]
        acknowledged = max(
            t.version for t in begun if t.acknowledged is not None and t.acknowledged <= done
        )
        return acknowledged, max(t.version for t in begun)

    def holds(self, version: int, done: int) -> list[Rows]:
        """What a version may hold after so many operations."""
        begun = [t for t in self.tries if t.version == version and t.begun <= done]
        known = [t.rows for t in begun if t.acknowledged is not None and t.acknowledged <= done]
        return known[-1:] or [t.rows for t in begun]


def _judge_life(rng: Random, counts: Counter[str], amount: int) -> None:
    life = Life(empty_store(4096))
    for _ in range(rng.choice([1, 2, 2, 3])):
        _live(life, rng, counts)
    seen: set[tuple[int, int]] = set()
    for done, image in _images(life, rng):
        one = done, crc32c(image)
        if one not in seen:
            seen.add(one)
            _judge(life, done, image, counts)
        if counts["images"] >= amount:
            return


def _live(life: Life, rng: Random, counts: Counter[str]) -> None:
    """One process: it opens the file, commits, and ends somehow."""
    file = SimulatedFile(life.content(), limit=1 << 22)
    base, tries = len(life.operations), []
    store = Store(Handle(file, sync=rng.choice(SYNCS)))
    rows = _rows(store)
    tries.append(Try(base, base + len(file.operations), store.version, rows))
    if rng.random() < 0.4:
        file.fail_syncs = {rng.randrange(1, 20)}
    for step in range(rng.randrange(2, 7)):
        begun, change = (
            base + len(file.operations),
            _edit if rng.random() < 0.7 or not step else _administer,
        )
        try:
            after = change(store, rng, rows, begun, tries)
        except OSError:
            counts["failed syncs"] += 1
            file.fail_syncs = set()
            if rng.random() < 0.5:
                break  # the process ends, and another one opens the file
            store.reopen()
            after = _rows(store)
        tries.append(Try(begun, base + len(file.operations), store.version, after))
        rows = after
    ends, whole = rng.random(), len(file.operations)
    if ends < 0.3:
        with suppress(OSError):
            store.close()
        whole = len(file.operations)
    elif ends > 0.6:
        whole = rng.randrange(whole + 1)
        counts["kills"] += 1
    life.operations += file.operations[:whole]
    last = base + whole
    life.tries += [
        t if (t.acknowledged or 0) <= last else t._replace(acknowledged=None)
        for t in tries
        if t.begun <= last
    ]
    store._handle.open = False  # the process is gone: nothing more happens to its file


def _rows(store: Store) -> Rows:
    with store.snapshot() as snapshot:
        return _rows_of(snapshot)


def _rows_of(snapshot: Snapshot) -> Rows:
    if "r" not in snapshot:
        return []
    return [*zip(*(column.tolist() for column in snapshot["r"].to_numpy().values()), strict=True)]


def _edit(store: Store, rng: Random, rows: Rows, begun: int, tries: list[Try]) -> Rows:
    """One commit of random edits, which is among the tries if it fails, too: the rows after it."""
    gone = {k for k, _ in rng.sample(rows, len(rows) // 3)}
    fresh = {rng.randrange(500): rng.randrange(1 << 40) for _ in range(rng.choice([1, 3, 200]))}
    after = sorted(({k: v for k, v in rows if k not in gone} | fresh).items())
    with store.transaction() as txn:
        tries.append(Try(begun, None, txn.version, after))
        if "r" not in txn:
            txn.create("r", "k: int64, v: int64", key="k", scans=["count"])
        txn["r"].delete([(k,) for k in sorted(gone)])
        txn["r"].set(sorted(fresh.items()))
    return after


def _administer(store: Store, rng: Random, rows: Rows, begun: int, tries: list[Try]) -> Rows:
    """Care of the store, which leaves the rows as they are."""
    kind = rng.randrange(3)
    if kind == 0:
        store.vacuum(keep_versions=rng.choice([1, 2]))
    elif kind == 1:
        store.retain = rng.choice([1, 2, 5])
    else:
        store.tag(f"t{begun}")
    return rows


def _images(life: Life, rng: Random) -> Iterator[tuple[int, bytes]]:
    """What the disk may hold after each of the operations: (how many, content)."""
    disk, pending = bytearray(life.start), []
    for done in range(len(life.operations) + 1):
        for variant in range(VARIANTS if pending else 1):
            image = bytearray(disk)
            for operation in _chosen(pending, rng, variant):
                play(image, operation)
            yield done, bytes(image)
        if done == len(life.operations):
            return
        operation = life.operations[done]
        if operation.kind == "sync":
            for written in pending:
                play(disk, written)
            pending = []
        elif operation.kind == "failed sync":
            # some of it is on the disk, and no later sync brings the rest there
            for written in _chosen(pending, rng, rng.randrange(VARIANTS)):
                play(disk, written)
            pending = [written for written in pending if written.kind != "write"]
        else:
            pending.append(operation)


def _chosen(pending: list[Operation], rng: Random, variant: int) -> Iterator[Operation]:
    """Some of the writes that are pending, as they may have come to the disk."""
    if variant == 0:
        yield from pending
    elif variant == 1:
        yield from pending[-1:]  # the last one overtook all others
    elif variant == 2:
        yield from pending[:-1]
    else:
        some = [operation for operation in pending if rng.random() < (0.2, 0.5, 0.9)[variant - 3]]
        rng.shuffle(some)
        for operation in some:
            sectors = len(operation.data) // SECTOR
            torn = operation.kind == "write" and sectors > 1 and rng.random() < 0.3
            yield (
                operation._replace(data=operation.data[: SECTOR * rng.randrange(sectors)])
                if torn
                else operation
            )


def _judge(life: Life, done: int, image: bytes, counts: Counter[str]) -> None:
    """The newest version is one that may be there, and every version holds what was put into it."""
    acknowledged, newest = life.allowed(done)
    store = Store(Handle(SimulatedFile(image, limit=len(image) + (1 << 20))))
    assert acknowledged <= store.version <= newest, (
        f"after {done} operations version {store.version} is there, not {acknowledged} to "
        f"{newest}; {store.recovery}"
    )
    handle = store._handle
    history = handle.state.versions.entries(handle.mapping.pages)
    for entry in history:
        with store.at(entry.version) as snapshot:
            found = _rows_of(snapshot)
            right = found in life.holds(entry.version, done)
            assert right, f"after {done} operations version {entry.version} is another"
    counts["images"] += 1
    counts["versions read"] += len(history)
    if counts["images"] % FULLY == 0:
        _goes_on(store, done)
        counts["checked and written to"] += 1
    store._handle.open = False


def _goes_on(store: Store, done: int) -> None:
    faults = [fault for fault in store.check() if fault.invariant not in FALLBACK]
    assert not faults, f"after {done} operations: {faults[0]}"
    with store.transaction() as txn:
        if "r" not in txn:
            txn.create("r", "k: int64, v: int64", key="k", scans=["count"])
        txn["r"].set([(-1, -1)])
    assert (-1, -1) in list(store.snapshot()["r"])
    faults = [fault for fault in store.check() if fault.invariant not in FALLBACK]
    assert not faults, f"after {done} operations and a commit: {faults[0]}"
