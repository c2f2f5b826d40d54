"""Others at work beside a writer that never pauses: each of them sees whole versions, and closing
loses nothing.

Readers in other processes open, read, check and back up; threads of the writer's own read, and
close its store. Every version holds thirty rows with its own number, so that a mixture of two
shows.
"""

import io
import multiprocessing
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from warnings import catch_warnings, simplefilter

import pagestore
from pagestore.admin import backup
from pagestore.errors import ClosedError, VersionError
from pagestore.relations.snapshot import Snapshot
from pagestore.store import Store
from tests.reliability.interrupts import memory
from tests.support.waiting import joined

ROWS = 30
OPENINGS = 400  # of a reader beside one writer


def run(seed: int, amount: int) -> Counter[str]:
    """So many openings, and one close beside a commit for every ten of them; raises
    AssertionError.
    """
    counts: Counter[str] = Counter()
    rng = Random(seed)
    with TemporaryDirectory(dir=memory()) as folder, catch_warnings():
        simplefilter("error")  # a healthy store says nothing
        while counts["openings"] < amount:
            sync = rng.choice(["full", "commit", "off"])
            _beside_a_writer(
                Path(folder) / f"{counts['openings']}.pages",
                sync,
                min(OPENINGS, amount),
                rng,
                counts,
            )
        for number in range(amount // 10):
            _closed_beside_a_commit(Path(folder) / f"closed{number}.pages", rng, counts)
    return counts


def _write(path: Path, sync: str, go_on: "multiprocessing.synchronize.Event") -> None:
    with pagestore.open(path, page_size=4096, sync=sync, retain=2) as store:
        while go_on.is_set():
            with store.transaction() as txn:
                if "r" not in txn:
                    txn.create("r", "k: int64, v: int64", key="k")
                    txn.create("long", "t: string")
                txn["r"].set([(k, txn.version) for k in range(ROWS)])
                if txn.version % 5 == 0:
                    txn["long"].insert([("x" * 3000 + str(txn.version),)])
            if store.version % 7 == 0:
                store.vacuum(keep_versions=1)


def _beside_a_writer(
    path: Path, sync: str, openings: int, rng: Random, counts: Counter[str]
) -> None:
    context = multiprocessing.get_context("spawn")
    go_on = context.Event()
    go_on.set()
    writer = context.Process(target=_write, args=(path, sync, go_on))
    writer.start()
    try:
        while not path.exists():
            time.sleep(0.01)
        newest = 0
        for _ in range(openings):
            what = rng.choice(LOOKS)
            with pagestore.open(path, mode="r") as store:
                assert store.recovery is None, store.recovery
                with store.snapshot() as snapshot:
                    assert snapshot.version >= newest, "a reader went back in time"
                    newest = snapshot.version
                    _is_whole(snapshot)
                    what(store, snapshot)
            counts["openings"] += 1
            counts[what.__name__.strip("_")] += 1
    finally:
        go_on.clear()
        joined(writer)
    assert writer.exitcode == 0, f"the writer ended with {writer.exitcode}"
    with pagestore.open(path) as store:
        assert not store.check()
        counts["versions written"] += store.version
    path.unlink()


def _is_whole(snapshot: Snapshot) -> None:
    rows = list(snapshot["r"]) if "r" in snapshot else []
    whole = [(k, snapshot.version) for k in range(ROWS)]
    assert rows == whole or (not rows and snapshot.version == 0), (
        f"version {snapshot.version} holds {rows[:3]} ..."
    )


def _read(store: Store, snapshot: Snapshot) -> None:
    for _ in range(3):
        with store.snapshot() as newer:
            _is_whole(newer)
    if "long" in snapshot:
        assert all(len(text) > 3000 for (text,) in snapshot["long"])


def _read_older(store: Store, snapshot: Snapshot) -> None:
    for info in store.history():
        try:
            with store.at(info.version) as older:
                _is_whole(older)
        except VersionError:
            pass  # it was dropped meanwhile


def _check(store: Store, snapshot: Snapshot) -> None:
    faults = store.check()
    assert not faults, faults[0]


def _back_up(store: Store, snapshot: Snapshot) -> None:
    out = io.BytesIO()
    version = store.backup(out)
    out.seek(0)
    copy = store.path.with_suffix(".copy")
    assert backup.restore_backup(copy, [out]) == version
    with pagestore.open(copy, mode="r") as restored, restored.snapshot() as found:
        _is_whole(found)
    copy.unlink()


LOOKS: list[Callable[[Store, Snapshot], None]] = [
    _read,
    _read,
    _read,
    _read_older,
    _check,
    _back_up,
]


def _closed_beside_a_commit(path: Path, rng: Random, counts: Counter[str]) -> None:
    """One thread commits, another closes the store: what was acknowledged is there, and the
    error has a name.
    """
    store = pagestore.open(path, page_size=4096, retain=3, sync=rng.choice(["full", "off"]))
    with store.transaction() as txn:
        txn.create("r", "k: int64, v: int64", key="k")
    acknowledged, errors = [store.version], []

    def work() -> None:
        try:
            while True:
                with store.transaction() as txn:
                    version = txn.version
                    txn["r"].set([(k, version) for k in range(ROWS)])
                acknowledged.append(version)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(rng.uniform(0, 0.02))
    store.close()
    joined(thread)
    assert [*map(type, errors)] == [ClosedError], errors
    with pagestore.open(path) as again:
        assert again.recovery is None, again.recovery
        assert again.version in (acknowledged[-1], acknowledged[-1] + 1), (
            "an acknowledged commit is lost"
        )
        assert not again.check()
    counts["closed beside a commit"] += 1
    path.unlink()
