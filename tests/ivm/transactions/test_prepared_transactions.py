"""Prepared transactions of SQL: each is made wholly or not at all, as if it were alone."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest

import ivm
from ivm.errors import IvmError
from ivm.sql.errors import SqlError
from pagestore.errors import PagestoreError, TransactionError
from tests.support.calls import functions_called
from tests.support.waiting import until

TABLES = """
    CREATE TABLE account (i INT PRIMARY KEY, v BIGINT NOT NULL CHECK (v < 1000), who TEXT DEFAULT 'new');
    CREATE TABLE done (n INT PRIMARY KEY, a INT, x INT);
    CREATE MATERIALIZED VIEW held AS SELECT sum(v) AS v, count(*) AS n FROM account;
"""
MOVE = (
    "UPDATE account SET v = v - $3 WHERE i = $1 AND v >= $3",
    "UPDATE account SET v = v + $3 WHERE i = $2",
)
ACCOUNTS = 7
SHAPES: dict[str, tuple[str, ...]] = {
    "move": MOVE,
    "move, by name": tuple(
        text.replace("$1", ":a").replace("$2", ":b").replace("$3", ":x") for text in MOVE
    ),
    "not by key": (MOVE[0], "UPDATE account SET v = v + $3 WHERE i <= $2 AND i >= $2"),
    "close": ("UPDATE account SET v = v + $3 WHERE i = $2", "DELETE FROM account WHERE i = $1 AND v > $3"),
    "open": (
        "INSERT INTO account (i, v) VALUES ($1, $3) ON CONFLICT DO NOTHING",
        "UPDATE account SET v = v - $3 WHERE i = $2 AND v > $3",
    ),
    "rename": ("UPDATE account SET who = 'x' WHERE i = $1 AND who <> 'x' AND v >= $3",),
    "twice": (*MOVE, *MOVE),
}  # fmt: skip


def opened(path: Path | str = ":memory:", **how: Any) -> ivm.Workspace:
    ws = ivm.open(path, **how)
    ws.sql(TABLES)
    ws.insert("account", [(i, 100, "ada") for i in range(ACCOUNTS)])
    return ws


def one_by_one(ws: ivm.Workspace, texts: tuple[str, ...], rows: list[Any]) -> list[bool]:
    """Run each as a transaction of Python, by statements that are read anew."""
    made = []
    for row in rows:
        with ws.transaction() as txn:
            for text in texts:
                for n, value in enumerate(row, 1):
                    text = text.replace(f"${n}", str(value))
                if not next(iter(txn.sql(text + " -- " + "x" * 5000)))[0]:
                    txn.rollback()
                    made.append(False)
                    break
            else:
                made.append(True)
    return made


@pytest.mark.parametrize("shape", SHAPES)
def test_many_are_made_as_one_after_the_other(shape: str) -> None:
    """Batches, in which keys occur again and again, do and say what single transactions do."""
    random, ws, plain = Random(1), opened(), opened()
    named = ":a" in SHAPES[shape][0]
    move = ws.prepare_transaction(*SHAPES[shape])
    kinds = set()
    for size in (1, 1, 1, 2, 9, 30):
        rows = [
            (random.randrange(ACCOUNTS + 1), random.randrange(ACCOUNTS), random.randrange(60))
            for _ in range(size)
        ]
        made = move.executemany(
            [dict(zip("abx", row, strict=True)) for row in rows] if named else rows
        )
        texts = SHAPES["move"] if named else SHAPES[shape]
        assert made == one_by_one(plain, texts, rows)
        assert [*ws["account"]] == [*plain["account"]]
        assert [*ws["held"]] == [*plain["held"]]
        kinds |= {*made}
    assert kinds == {True, False}


def test_a_transaction_of_a_batch_calls_few_functions() -> None:
    ws = opened()
    move = ws.prepare_transaction(*MOVE)
    called = []
    for size in (5, 10, 1000):
        rows = [(n % ACCOUNTS, (n + 1) % ACCOUNTS, n % 50) for n in range(size)]
        called.append(len(functions_called(lambda rows=rows: move.executemany(rows))))
    assert called[2] - called[1] < 25 * 990


@pytest.mark.parametrize("warm", [0, 5])
def test_what_is_wrong_is_said_and_nothing_is_made(warm: int) -> None:
    """A value of another type, one beyond the column, and one that a constraint refuses."""
    ws = opened()
    move = ws.prepare_transaction(*MOVE)
    for _ in range(warm):
        move.execute((0, 1, 1))
    before = [*ws["account"]]
    for bad in [
        (0, 1, "x"),
        (0, 1, None),
        (0, "one", 1),
        (0, 1),
        (2, 1, -1 << 63),
        (0, 1, -2000),
        "abc",
    ]:
        with pytest.raises((IvmError, PagestoreError)) as alone:
            move.execute(bad)
            assert bad[2:] == (None,), bad
            raise SqlError("a null meets no condition")
        with pytest.raises((IvmError, PagestoreError)) as among:
            move.executemany([(0, 1, 1), bad, (1, 0, 1)])
            raise SqlError("a null meets no condition")
        assert type(alone.value) is type(among.value)
        if bad[2:] != (None,):
            assert [*ws["account"]] == before, bad
        before = [*ws["account"]]


def test_statements_that_edit_are_taken() -> None:
    ws = opened()
    for texts in [
        ("SELECT 1",),
        ("DELETE FROM done RETURNING n",),
        (MOVE[0] + ";" + MOVE[1],),
        ("EDIT account",),
    ]:
        with pytest.raises(SqlError):
            ws.prepare_transaction(*texts)
    ws.sql("BEGIN")
    with pytest.raises(TransactionError):
        ws.prepare_transaction(*MOVE).execute((0, 1, 1))
    ws.sql("ROLLBACK")


def test_threads_commit_together_and_each_hears_of_its_own(tmp_path: Path) -> None:
    """What waits while a thread commits is one commit; the error of one is not that of others."""
    with opened(tmp_path / "a.pages", sync="commit") as ws, ThreadPoolExecutor(8) as pool:
        move = ws.prepare_transaction(*MOVE)
        for _ in range(5):
            move.execute((5, 6, 0))
        version, rows = (
            ws.store.version,
            [(0, 1, 30)] * 5 + [(1, 2, 2000), (1, 0, 1 << 62), (2, 3, -950)],
        )
        with move._queue.lock:
            calls = [pool.submit(move.execute, row) for row in rows]
            until(lambda: len(move._waiting) == len(rows))
        made = [call.exception(60) or call.result() for call in calls]
        assert sorted(made[:5]) == [False, False, True, True, True]
        assert made[5:7] == [False, False]
        assert isinstance(made[7], IvmError)
        assert {i: v for i, v, _ in ws["account"]} == dict.fromkeys(range(7), 100) | {0: 10, 1: 190}
        assert ws.store.version <= version + len(rows)
        with move._queue.lock:
            calls = [pool.submit(move.execute, (n, n + 1, 1)) for n in range(6)]
            until(lambda: len(move._waiting) == 6)
        assert [call.result(60) for call in calls] == [True] * 6
        version = ws.store.version
    with ivm.open(tmp_path / "a.pages") as ws:
        assert ws.store.version == version


def test_money_is_constant_while_threads_move_it(tmp_path: Path) -> None:
    """In every version, with the commits that threads share, for any order of theirs."""
    with opened(tmp_path / "a.pages", sync="off", retain=1000) as ws:
        move, made, errors = ws.prepare_transaction(*MOVE), [0], list[BaseException]()
        begun = ws.store.version

        def run(seed: int) -> None:
            random = Random(seed)
            for _ in range(30):
                row = random.randrange(ACCOUNTS), random.randrange(ACCOUNTS), random.randrange(80)
                try:
                    made[0] += move.execute(row)
                except BaseException as error:
                    errors.append(error)

        threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(300)
        assert errors == []
        assert made[0]
        for version in range(begun, ws.store.version + 1):
            with ws.at(version) as then:
                assert [*then["held"]] == [(100 * ACCOUNTS, ACCOUNTS)]


@pytest.mark.parametrize("prepared", ["once", "by each thread"])
def test_threads_that_go_on_share_each_commit(tmp_path: Path, prepared: str) -> None:
    """Those whose transactions were committed are waited for as long as a commit takes, so that each
    is in the next commit; whoever has prepared the same statements is one of them.
    """
    with opened(tmp_path / "a.pages", sync="commit") as ws, ThreadPoolExecutor(8) as pool:
        move = ws.prepare_transaction(*MOVE)
        move.execute((5, 6, 0))
        version, together = ws.store.version, threading.Barrier(8)

        def run(n: int) -> int:
            mine = move if prepared == "once" else ws.prepare_transaction(*MOVE)
            together.wait(60)
            return sum(mine.execute((n % 6, n % 6 + 1, 1)) for _ in range(40))

        assert sum(pool.map(run, range(8))) == 8 * 40
        assert ws.store.version - version < 8 * 40 / 3
