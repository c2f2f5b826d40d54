"""Edits by key of many lists of values, decided by a kernel: what they do is what statements do that
are translated, one after the other.
"""

from contextlib import suppress
from datetime import date
from functools import partial
from random import Random
from typing import Any

import pytest

import ivm
from ivm.errors import IvmError
from ivm.sql.prepared import edits
from pagestore.errors import PagestoreError
from tests.support.calls import functions_called

TABLES = """
    CREATE TABLE t (v BIGINT NOT NULL, i INT, w TINYINT, who TEXT, d DATE, x DOUBLE, b BOOLEAN NOT NULL,
        n DECIMAL(9, 2), PRIMARY KEY (i), CHECK (v < 500));
    CREATE TABLE u (name TEXT, part INT, left_over SMALLINT NOT NULL, PRIMARY KEY (name, part));
    CREATE MATERIALIZED VIEW held AS SELECT who, sum(v) AS v, count(*) AS n FROM t GROUP BY who;
"""
NUMBERS = [0, 1, 1, 2, 3, 5, 40, 90, 127, -128, 300, -3, None, (1 << 63) - 1, -(1 << 63), 1 << 70]
TEXTS = ["ada", "bob", "new", "newer", "", None]
# statements with the kinds of their values: i of a key, n of a number, t of a text, ...
STATEMENTS = {
    "take": ("UPDATE t SET v = v - $2 WHERE i = $1 AND v >= $2", "in"),
    "between": ("UPDATE t SET v = v + 1, w = w - $2 WHERE i = $1 AND w BETWEEN $2 AND 100", "in"),
    "from null": ("UPDATE t SET v = w + $2 WHERE i = $1 AND v <> 7", "in"),
    "crossed": ("UPDATE t SET w = v + 1, v = w + 1 WHERE i = $1 AND v > w", "i"),
    "named": ("UPDATE t SET who = $2 WHERE i = $1 AND who <> $2 AND who <> $3", "itt"),
    "who is": ("UPDATE t SET v = $3 WHERE i = $1 AND who = $2", "itn"),
    "other types": ("UPDATE t SET d = $2, x = $3, b = $4 WHERE i = $1", "idfb"),
    "gone": ("DELETE FROM t WHERE i = $1 AND v < $2", "in"),
    "added": ("INSERT INTO t (i, v, b) VALUES ($1, $2, true)", "kn"),
    "or none": ("INSERT INTO t VALUES ($2, $1, 1, $3, NULL, 0.5, false, 1.25) ON CONFLICT DO NOTHING", "int"),
    "or more": (
        "INSERT INTO t (i, v, who, b) VALUES ($1, $2, $3, false) "
        "ON CONFLICT (i) DO UPDATE SET v = v + excluded.v, who = excluded.who WHERE t.v < 300",
        "int",
    ),
    "a text key": ("UPDATE u SET left_over = left_over - 1 WHERE name = $2 AND part = $1", "it"),
    "counted": (
        "INSERT INTO u VALUES ($2, $1, 9) "
        "ON CONFLICT (name, part) DO UPDATE SET left_over = left_over + 1",
        "it",
    ),
}  # fmt: skip
TOGETHER = [
    *([name] for name in STATEMENTS),
    ["take", "counted"],
    ["a text key", "gone"],
    ["take", "or more"],
    ["added", "take"],
    ["named", "who is"],
    ["from null", "crossed"],
]


class NotMade(Exception):
    """A statement has changed no row."""


def opened() -> ivm.Workspace:
    ws = ivm.open(":memory:")
    ws.sql(TABLES)
    ws.sql(
        "INSERT INTO t SELECT 60 + 20 * i, i, CASE WHEN i < 4 THEN i END, "
        "CASE WHEN i < 5 THEN 'ada' END, NULL, NULL, true, 0 FROM range(7) AS r(i)"
    )
    ws.sql("INSERT INTO u VALUES ('ada', 1, 1), ('ada', 2, -32768), ('bob', 1, 32767)")
    return ws


def drawn(random: Random, kinds: str, wild: bool) -> tuple[Any, ...]:
    """Return values of some kinds, of which seldom one does not fit, unless `wild`."""
    numbers = NUMBERS if wild else NUMBERS[:7]
    of: dict[str, Any] = {
        "i": lambda: random.randrange(9) if random.random() < 0.99 or not wild else "x",
        "k": lambda: random.randrange(10, 2_000),
        "n": lambda: random.choice(numbers),
        "t": lambda: random.choice(TEXTS),
        "d": lambda: random.choice([date(2026, 1, 2), None]),
        "f": lambda: random.choice([0.5, -1.25, None]),
        "b": lambda: random.random() < 0.5,
    }
    return tuple(of[kind]() for kind in kinds)


def tables(ws: ivm.Workspace) -> list[Any]:
    return [sorted(map(repr, ws.sql(f"SELECT * FROM {name}") or ())) for name in ("t", "u", "held")]


def one_by_one(ws: ivm.Workspace, texts: list[str], rows: list[Any]) -> list[bool]:
    """Make transactions by statements that are translated, each with its values, as one."""
    made = []
    with ws.transaction() as txn:
        for row in rows:
            with suppress(NotMade), txn.savepoint():
                made.append(False)
                for text in texts:
                    (count,) = next(iter(txn.sql(text + " -- " + "x" * 5000, row) or [(0,)]))
                    if not count:
                        raise NotMade
                made[-1] = True
    return made


@pytest.mark.parametrize("names", TOGETHER, ids=", ".join)
def test_a_batch_does_what_its_transactions_do_in_turn(names: list[str]) -> None:
    random, kinds = Random(", ".join(names)), max((STATEMENTS[n][1] for n in names), key=len)
    if any(STATEMENTS[name][1] != kinds[: len(STATEMENTS[name][1])] for name in names):
        kinds = "itn" if names != ["named", "who is"] else "itt"
    texts = [STATEMENTS[name][0] for name in names]
    if names == ["added", "take"]:
        kinds = "kn"
    if names == ["take", "counted"]:
        texts[1] = texts[1].replace("$2", "'ada'")
        kinds = "in"
    if names == ["named", "who is"]:
        texts[1] = texts[1].replace("$3", "33")
    if names == ["a text key", "gone"]:
        texts[1] = texts[1].replace("$2", "$3")
    batch, plain = opened(), opened()
    prepared, outcomes = batch.prepare_transaction(*texts), set()
    for size in (1, 2, 3, 9, 20):
        rows = [drawn(random, kinds, wild=size % 2 > 0) for _ in range(size)]
        came: list[Any] = []
        for run in (prepared.executemany, partial(one_by_one, plain, texts)):
            try:
                came.append(run(rows))
            except (IvmError, PagestoreError) as error:
                came.append(type(error))
        assert came[0] == came[1], rows
        assert tables(batch) == tables(plain), rows
        outcomes |= {*(came[0] if isinstance(came[0], list) else [came[0]])}
    assert batch.store.check() == []
    assert True in outcomes


def test_the_kernel_decides_what_these_statements_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of values that fit, nothing is left to the translation of statements."""
    ws, random, counts = opened(), Random(3), list[int]()
    in_turn = edits.in_turn

    def counted(*given: Any) -> list[bool]:
        made = in_turn(*given)
        counts.append(len(given[2][0]) - len(made))
        return made

    monkeypatch.setattr("ivm.sql.prepared.statement.in_turn", counted)
    for name, (text, kinds) in STATEMENTS.items():
        if name in ("added", "crossed", "from null", "between", "other types"):
            continue  # whose keys exist, or whose sums do not fit
        move = ws.prepare_transaction(text)
        for _ in range(3):
            counts.clear()
            rows = [drawn(random, kinds, wild=False) for _ in range(20)]
            move.executemany([row for row in rows if None not in row])
        assert counts == [0], name


def test_a_text_that_no_row_gets_is_not_stored() -> None:
    ws = opened()
    move = ws.prepare_transaction("UPDATE t SET who = $2 WHERE i = $1 AND v > 900")
    for _ in range(3):
        assert not move.execute((1, "never seen"))
    version = ws.store.version
    assert move.executemany([(1, "nor this"), (2, "never seen")]) == [False, False]
    assert ws.store.version == version
    with ws.store.snapshot() as snap:
        assert not snap.dictionary.id_of(b"never seen")


def test_a_transaction_of_a_large_batch_calls_few_functions() -> None:
    ws = opened()
    move = ws.prepare_transaction(STATEMENTS["take"][0], "UPDATE t SET w = w + 0 WHERE i = $1")
    called = []
    for size in (5, 10, 1000):
        rows = [(n % 4, n % 5) for n in range(size)]
        called.append(len(functions_called(lambda rows=rows: move.executemany(rows))))
    assert called[2] - called[1] < 5 * 990


@pytest.mark.parametrize("views", [True, False])
def test_edits_reach_the_store_as_kernels_read_them(
    views: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a table that views read, and of one that none does: columns one after the other."""
    ws = opened()
    if not views:
        ws.sql("DROP VIEW held")
    found = list[bool]()
    put = ivm.transaction.Transaction._put

    def noted(self: ivm.transaction.Transaction, name: str, action: int, words: Any) -> None:
        found.append(words.flags.c_contiguous)
        put(self, name, action, words)

    monkeypatch.setattr(ivm.transaction.Transaction, "_put", noted)
    for text in (STATEMENTS["take"][0], STATEMENTS["gone"][0], STATEMENTS["added"][0]):
        ws.prepare_transaction(text).executemany(
            [(i + 30 * (" INTO" in text), 1) for i in range(6)]
        )
    assert found and all(found)
    assert len(ws["t"]) == 13
