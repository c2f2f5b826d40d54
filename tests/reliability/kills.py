"""A process that writes is killed at any moment: what it acknowledged is there, whole, and its
locks are gone.
"""

import os
import signal
import time
from collections import Counter
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pagestore
from tests.reliability.interrupts import memory

ROWS = 40
LIVES = 12  # kills of one store


def run(seed: int, amount: int) -> Counter[str]:
    """Kill `amount` writers; raises AssertionError."""
    counts: Counter[str] = Counter()
    rng = Random(seed)
    with TemporaryDirectory(dir=memory()) as folder:
        while counts["kills"] < amount:
            path = Path(folder) / f"{counts['kills']}.pages"
            for _ in range(min(LIVES, amount - counts["kills"])):
                _kill(path, rng, counts)
            path.unlink()
    return counts


def _kill(path: Path, rng: Random, counts: Counter[str]) -> None:
    heard, told = os.pipe()
    sync, writer = rng.choice(["full", "commit", "off"]), os.fork()
    if not writer:
        os.close(heard)
        _write(path, sync, told)
    os.close(told)
    with os.fdopen(heard) as lines:
        acknowledged = int(lines.readline())
        time.sleep(rng.uniform(0, 0.05))
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
        acknowledged = max([acknowledged, *(int(line) for line in lines if line.endswith("\n"))])
    with pagestore.open(path, threads=1) as store:
        assert acknowledged <= store.version <= acknowledged + 1, (
            f"{store.version} instead of {acknowledged}"
        )
        rows = list(store.snapshot()["r"])
        assert rows == [(k, store.version) for k in range(ROWS)], (
            f"{rows[:3]} in version {store.version}"
        )
        faults = store.check()
        assert not faults, faults[0]
        with store.transaction() as txn:  # what follows goes on from it
            txn["r"].set([(k, txn.version) for k in range(ROWS)])
    counts["kills"] += 1
    counts["commits acknowledged"] += acknowledged


def _write(path: Path, sync: str, told: int) -> None:
    """Commit for ever, and say so."""
    try:
        store = pagestore.open(path, page_size=4096, sync=sync, retain=3, threads=1)
        while True:
            with store.transaction() as txn:
                version = txn.version
                if "r" not in txn:
                    txn.create("r", "k: int64, v: int64", key="k")
                txn["r"].set([(k, version) for k in range(ROWS)])
            os.write(told, f"{version}\n".encode())
    finally:
        os._exit(1)  # what it has of its parent is not its own
