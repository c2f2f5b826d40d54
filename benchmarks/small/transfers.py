"""Transfers between accounts, each durable and made only if the first account has the sum: in turns
with SQLite, for accounts chosen alike (α = 0) and by Zipf's law (α = 1.5).

What all accounts hold together is the same after each run, or the benchmark ends.
"""

import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from itertools import cycle
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import ivm
from pagestore_tools.bench.harness import Disagreement, Row, Side

ACCOUNTS, HELD, MOST = 100_000, 1_000, 100
CALL, THREADS, PROCESSES = 1_000, 8, 16
DRAWN = 200_000  # transfers that are drawn, and made again and again
TABLE = "create table account(i integer primary key, v bigint not null)"
TAKE = "update account set v = v - $3 where i = $1 and v >= $3"
GIVE = "update account set v = v + $3 where i = $2"
Transfers = list[tuple[int, int, int]]


def rows(folder: Path, quick: bool) -> Iterator[Row]:
    """Yield a row for each distribution of accounts."""
    accounts, seconds = (2_000, 0.3) if quick else (ACCOUNTS, 3.0)
    for alpha in (0.0, 1.5):
        drawn = transfers(accounts, alpha)
        ways: dict[str, Callable[..., float]] = {
            f"ivm, {CALL:,} a call": partial(_ours, _calls),
            f"ivm, {THREADS} threads": partial(_ours, _threads),
            "ivm, one thread": partial(_ours, _alone),
            f"ivm, {PROCESSES} processes": _processes,
            "SQLite": _theirs,
        }
        sides = [
            Side(name, partial(way, folder, accounts, drawn, seconds)) for name, way in ways.items()
        ]
        yield Row(f"transfers, durable, α = {alpha}", sides, 3, "a second", told=True)


def transfers(accounts: int, alpha: float) -> Transfers:
    """Draw transfers, whose accounts have ranks in a random order."""
    random = np.random.default_rng(1)
    weights = np.arange(1, accounts + 1) ** -alpha
    who = random.permutation(accounts)[
        random.choice(accounts, (2, DRAWN), p=weights / weights.sum())
    ]
    sums = random.integers(1, MOST, DRAWN)
    return list(zip(*who.tolist(), sums.tolist(), strict=True))


def _ours(
    how: Callable[[ivm.Workspace, Transfers, float], int],
    folder: Path,
    accounts: int,
    drawn: Transfers,
    seconds: float,
) -> float:
    """Return how many transfers a second were tried."""
    path = folder / "transfers.pages"
    path.unlink(missing_ok=True)
    with ivm.open(path, sync="commit") as ws:
        ws.sql(TABLE)
        ws.insert("account", [(n, HELD) for n in range(accounts)])
        begun = time.perf_counter()
        tried = how(ws, drawn, begun + seconds)
        took = time.perf_counter() - begun
        held = sum(v for _, v in ws["account"])
    return _checked(tried / took, held, accounts)


def _calls(ws: ivm.Workspace, drawn: Transfers, end: float) -> int:
    move, tried = ws.prepare_transaction(TAKE, GIVE), 0
    while time.perf_counter() < end:
        tried += len(move.executemany(drawn[tried % DRAWN :][:CALL]))
    return tried


def _threads(ws: ivm.Workspace, drawn: Transfers, end: float) -> int:
    move = ws.prepare_transaction(TAKE, GIVE)

    def one(number: int) -> int:
        for tried, row in enumerate(cycle(drawn[number::THREADS])):
            if time.perf_counter() >= end:
                return tried
            move.execute(row)
        raise AssertionError

    with ThreadPoolExecutor(THREADS) as pool:
        return sum(pool.map(one, range(THREADS)))


def _alone(ws: ivm.Workspace, drawn: Transfers, end: float) -> int:
    move = ws.prepare_transaction(TAKE, GIVE)
    for tried, row in enumerate(cycle(drawn)):
        if time.perf_counter() >= end:
            return tried
        move.execute(row)
    raise AssertionError


def _processes(folder: Path, accounts: int, drawn: Transfers, seconds: float) -> float:
    """Return how many transfers a second processes tried, each one after the other."""
    path, spawn = folder / "transfers.pages", get_context("spawn")
    path.unlink(missing_ok=True)
    with ivm.open(path) as ws:
        ws.sql(TABLE)
        ws.insert("account", [(n, HELD) for n in range(accounts)])
    ready, tried = spawn.Barrier(PROCESSES), spawn.RawArray("l", PROCESSES)
    about = path, seconds, ready, tried
    processes = [
        spawn.Process(target=_process, args=(n, drawn[n::PROCESSES], *about))
        for n in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    with ivm.open(path) as ws:
        held = sum(v for _, v in ws["account"])
    return _checked(sum(tried) / seconds, held, accounts)


def _process(
    number: int, drawn: Transfers, path: Path, seconds: float, ready: Any, tried: Any
) -> None:
    """Try transfers once all processes have begun, and note how many."""
    with ivm.open(path, sync="commit", threads=1) as ws:
        move = ws.prepare_transaction(TAKE, GIVE)
        ready.wait(60)
        end = time.perf_counter() + seconds
        for row in cycle(drawn):
            if time.perf_counter() >= end:
                break
            move.execute(row)
            tried[number] += 1


def _theirs(folder: Path, accounts: int, drawn: Transfers, seconds: float) -> float:
    """Return how many transfers a second SQLite tried, each a transaction, one after the other."""
    for file in folder.glob("transfers.sqlite*"):
        file.unlink()
    with closing(sqlite3.connect(folder / "transfers.sqlite", isolation_level=None)) as db:
        for setting in ("journal_mode=wal", "synchronous=full", "page_size=8192"):
            db.execute(f"pragma {setting}")
        db.execute(TABLE)
        db.execute("begin")  # else each row is a transaction
        db.executemany("insert into account values(?, ?)", [(n, HELD) for n in range(accounts)])
        db.execute("commit")
        begun = time.perf_counter()
        tried = 0
        while time.perf_counter() < begun + seconds:
            a, b, x = drawn[tried % DRAWN]
            tried += 1
            db.execute("begin immediate")
            taken = db.execute("update account set v = v - ? where i = ? and v >= ?", (x, a, x))
            if taken.rowcount:
                db.execute("update account set v = v + ? where i = ?", (x, b))
            db.execute("commit")
        took = time.perf_counter() - begun
        ((held,),) = db.execute("select sum(v) from account")
    return _checked(tried / took, held, accounts)


def _checked(rate: float, held: int, accounts: int) -> float:
    if held != accounts * HELD:
        raise Disagreement(f"the accounts hold {held}, and held {accounts * HELD}")
    return rate
