"""DoltLite in a process of its own, since it takes the place of SQLite in the process that loads
it: the store of `branches.py`, changed on two branches, merged, and its views computed again; and the
rows and changes of both.

    python -m benchmarks.doltlite FILE SIZE

It then reads lines such as "diverge" or "merge", and answers each by a line.
"""

import json
import random
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

VIEWS = (
    "SELECT sum(v) FROM row",
    "SELECT count(*) FROM (SELECT v, count(*) FROM row GROUP BY v)",
    "WITH RECURSIVE above(x, y) AS (SELECT x, y FROM parent UNION SELECT a.x, p.y FROM above a "
    "JOIN parent p ON p.x = a.y) SELECT count(*) FROM above",
)


NODES, CHANGES, NESTED = 20_000, 100, 1000


def values_of(size: int) -> np.ndarray:
    """Return the values of the rows: int64[size]."""
    return np.random.default_rng(1).integers(0, 1000, size)


def changed(chance: random.Random, size: int, side: int) -> tuple[list[tuple[int, int]], ...]:
    """Return changes of rows and of parents, on one of two sides, which never meet."""
    rows = [
        (2 * k + side, chance.randrange(1000)) for k in chance.sample(range(size // 2), CHANGES - 1)
    ]
    node = 2 * chance.randrange(NODES // 4, NODES // 2 - 1) + side
    return rows, [(node, chance.randrange(1000))]


class Process:
    """The process; `ask` lets it do something, and returns what it answers."""

    def __init__(self, folder: Path, size: int) -> None:
        command = [sys.executable, "-m", __name__, str(folder / "dolt.db"), str(size)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, what: str) -> Any:
        """Return the answer to a line."""
        assert self._process.stdin and self._process.stdout
        print(what, file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())


class Nested:
    """Branches, each begun on the one before."""

    def __init__(self, store: Any) -> None:
        self.store, self.names, self._took = store, ["main"], list[float]()

    def begun(self, place: int) -> float:
        """Return the milliseconds in which one was begun."""
        while len(self._took) < NESTED:
            name, start = f"n{len(self._took)}", perf_counter()
            self.store.execute("SELECT dolt_branch(?, ?)", (name, self.names[-1])).fetchall()
            self._took.append(1e3 * (perf_counter() - start))
            self.names.append(name)
        return self._took[place]

    def read(self, choose: Callable[[], str]) -> float:
        """Return the microseconds to switch to a branch and read a row, as a mean of some."""
        start, times = perf_counter(), 20
        for _ in range(times):
            self.store.execute("SELECT dolt_checkout(?)", (choose(),)).fetchall()
            self.store.execute("SELECT v FROM row WHERE k = 5").fetchall()
        took = 1e6 * (perf_counter() - start) / times
        self.store.execute("SELECT dolt_checkout('main')").fetchall()
        return took


def main(file: str, size: int) -> None:
    """Fill the store, and answer the lines that come in."""
    import doltlite as doltlite  # before sqlite3, whose library it replaces
    import sqlite3  # isort: skip

    store = sqlite3.connect(file, isolation_level=None)
    store.execute("BEGIN")
    store.execute("CREATE TABLE row (k INTEGER PRIMARY KEY, v INTEGER)")
    store.execute("CREATE TABLE parent (x INTEGER PRIMARY KEY, y INTEGER)")
    store.executemany("INSERT INTO row VALUES (?, ?)", enumerate(values_of(size).tolist()))
    store.executemany("INSERT INTO parent VALUES (?, ?)", ((x, x // 2) for x in range(1, NODES)))
    store.execute("COMMIT")
    store.execute("SELECT dolt_commit('-A', '-m', 'rows')").fetchall()
    chance = random.Random(1)

    def change(side: int) -> None:
        rows, parents = changed(chance, size, side)
        store.execute("BEGIN")
        store.executemany("UPDATE row SET v = ?2 WHERE k = ?1", rows)
        store.executemany("UPDATE parent SET y = ?2 WHERE x = ?1", parents)
        store.execute("COMMIT")
        store.execute("SELECT dolt_commit('-a', '-m', 'changes')").fetchall()

    def diverge() -> None:
        store.execute("SELECT dolt_branch('-f', 'side')").fetchall()
        change(0)
        store.execute("SELECT dolt_checkout('side')").fetchall()
        change(1)
        store.execute("SELECT dolt_checkout('main')").fetchall()

    def merge() -> list[int]:
        store.execute("SELECT dolt_merge('side')").fetchall()
        return [store.execute(view).fetchone()[0] for view in VIEWS]

    nested = Nested(store)
    answers: dict[str, Callable[[], Any]] = {
        "diverge": diverge,
        "merge": merge,
        "begun 0": partial(nested.begun, 0),
        "begun -1": partial(nested.begun, -1),
        "main": partial(nested.read, lambda: nested.names[0]),
        "deepest": partial(nested.read, lambda: nested.names[-1]),
        "random": partial(nested.read, lambda: chance.choice(nested.names)),
    }
    for line in sys.stdin:
        print(json.dumps(answers[line.strip()]()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
