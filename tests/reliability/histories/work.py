"""What the processes of a history do: they write, fork, read and watch."""

import ctypes
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import ivm
from pagestore.errors import ForkError, LockedError, PoisonedError
from pagestore.versions import locks
from pagestore.versions.offers import Offers

RULES = """
log(n, writer, k) -> int(n), int(writer), int(k).
note(writer, k) -> int(writer), int(k).
account[i] = v -> int(i), int(v).
counter[i] = n -> int(i), int(n).
total[] = t <- agg<<t = sum(v)>> account[_] = v.
"""
# of a prepared transaction with a condition, which another process may make
MOVE = (
    "UPDATE account SET v = v - $3 WHERE i = $1 AND v >= $3",
    "UPDATE account SET v = v + $3 WHERE i = $2",
    "INSERT INTO note VALUES ($4, $5)",
)
NOTE = "INSERT INTO note VALUES (?, ?)"  # once it came twice, another process may make it, too
ACCOUNTS, MONEY = 4, 400
Log = list[tuple[int, int]]  # the writer of each transaction, and which one of that writer it was


class Seen(NamedTuple):
    """What was read: the log, and the notes, which are prepared rows, or written in SQL."""

    log: Log = []
    notes: frozenset[tuple[int, int]] = frozenset()


def continued(workspace: Any, before: Seen) -> Seen:
    """Return what is read; it must continue what was read earlier, and agree with all else."""
    with workspace.store.snapshot() as snapshot:
        return followed(snapshot, before)


def followed(source: Any, before: Seen) -> Seen:
    """Return what a snapshot or transaction has; see `continued`."""
    found = Seen(agreeing(source), frozenset(source["note"]))
    assert found.log[: len(before.log)] == before.log, (
        f"{before.log} was read, and then {found.log}"
    )
    assert before.notes <= found.notes, f"{before.notes - found.notes} were read, and then not"
    return found


def agreeing(source: Any) -> Log:
    """Return the log of a snapshot or transaction, which must agree with counter, money and
    view.
    """
    rows = [*source["log"]]
    assert [n for n, _, _ in rows] == [*range(len(rows))], rows
    assert [*source["counter"]] == [(0, len(rows))], (
        f"{[*source['counter']]} transactions made {rows}"
    )
    money = [v for _, v in source["account"]]
    assert sum(money) == MONEY, money
    total = [*source["total"]]
    assert total in ([MONEY], [(MONEY,)]), total
    return [(writer, k) for _, writer, k in rows]


def writing(
    path: Path, number: int, sync: str, fail: int, random: Random
) -> Callable[[Callable[..., None]], None]:
    """Return what a writer does: some transactions, and reads between them."""

    def work(tell: Callable[..., None]) -> None:
        library, real, wrong = (
            ctypes.CDLL(None),
            time.time_ns,
            random.choice([0, 0, 10**15, -(10**15)]),
        )
        time.time_ns = lambda: real() + wrong
        library.step_begin(os.fsencode(path), ctypes.c_long(fail))
        library.step_now()
        signal.alarm(100)
        # a stop is no rest: whoever makes notes goes on, and commits those of others; not for long
        Offers.resume, locks.SERVING = lambda _: None, 0.01  # type: ignore[method-assign]
        kinds = random.choice([["noted"], ["moved"], ["committed", "committed", "rolled back"]])
        seen = Seen()
        try:
            with ivm.open(path, sync=sync, threads=1) as workspace:
                put, move = workspace.prepare("note"), workspace.prepare_transaction(*MOVE)
                in_sql = random.random() < 0.4
                for k in range(random.randint(1, 9)):
                    kind = random.choice([*kinds, *kinds[-1:], "noted"])
                    if kind == "moved":
                        one, other = random.sample(range(ACCOUNTS), 2)
                        is_made = move.execute((one, other, random.randrange(150), number, k))
                        kind = "noted" if is_made else "not noted"
                    elif kind == "noted" and in_sql:
                        workspace.sql(NOTE, (number, k))
                    elif kind == "noted":
                        put.insert(number, k)
                        put.commit()
                    else:
                        with suppress(Undone), workspace.transaction() as txn:
                            transact(txn, (number, k), random, seen, kind)
                    tell(kind, number, k)
                    if random.random() < 0.3:
                        seen = continued(workspace, seen)
                        if not kind.endswith("noted"):
                            there = (number, k) in seen.log
                            assert there == (kind == "committed"), (
                                f"{number, k} {kind}, and read {seen}"
                            )
                    if random.random() < 0.05:
                        _fork(workspace, library)
        except (OSError, PoisonedError, LockedError) as error:  # its outcome is not known
            tell(f"ended by {type(error).__name__}")

    return work


class Undone(Exception):
    """Rolls a transaction back."""


def transact(txn: Any, own: tuple[int, int], random: Random, seen: Seen, kind: str) -> None:
    """Append to the log, and move money."""
    log = followed(txn.inner, seen).log
    one, other = random.sample(range(ACCOUNTS), 2)
    accounts = dict(txn.inner["account"])
    txn.insert("log", [(len(log), *own)])
    txn.set("counter", [(0, len(log) + 1)])
    txn.set("account", [(one, accounts[one] - own[1] - 1), (other, accounts[other] + own[1] + 1)])
    if kind == "rolled back":
        raise Undone


def _fork(workspace: Any, library: ctypes.CDLL) -> None:
    """Use the workspace in a forked child, which must not be possible."""
    child = os.fork()
    if not child:
        library.step_begin(None, ctypes.c_long(0))
        signal.alarm(20)
        try:
            workspace.insert("account", [(9, 9)])
        except ForkError:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, "a forked child has used the workspace"


def watching(path: Path) -> Callable[[Callable[..., None]], None]:
    """Return what a watcher does: it says what was appended to the log, until it is killed or
    nothing comes.
    """

    def work(tell: Callable[..., None]) -> None:
        library = ctypes.CDLL(None)
        library.step_begin(os.fsencode(path), ctypes.c_long(0))
        library.step_now()
        signal.alarm(100)
        with ivm.open(path, mode="r", threads=1) as workspace, workspace.changes("log") as changes:
            tell("watched", [[writer, k] for _, writer, k in workspace.at(changes.version)["log"]])
            for _ in range(300):
                if change := changes.next(0):
                    rows = sorted(zip(*change.rows.to_pydict().values(), strict=True))
                    assert all(kind == "insert" for *_, kind in rows), rows
                    tell("watched", [row[1:3] for row in rows])
                library.step_now()

    return work
