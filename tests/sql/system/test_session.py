"""What clients say before they ask for rows: who and when, settings, savepoints, samples, chance."""

import random
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

import ivm
from ivm.sql.errors import SqlError
from tests.support.programs.amounts import times

TABLES = """
    CREATE TABLE item (id INT PRIMARY KEY, name TEXT);
    INSERT INTO item VALUES (1, 'tea'), (2, 'salt'), (3, 'rye'), (4, 'oat')
"""


@pytest.fixture
def ws() -> ivm.Workspace:
    workspace = ivm.open(":memory:")
    workspace.sql(TABLES)
    return workspace


def asked(ws: ivm.Workspace, text: str, dialect: Any = "duckdb") -> list[tuple[Any, ...]]:
    found = ws.sql(text, dialect=dialect)
    assert found is not None
    return [*found]


CONSTANTS = [  # a question, and its only row in DuckDB's and in PostgreSQL's dialect
    ("SELECT version() LIKE '%ivm%'", (True,), (True,)),
    ("SELECT current_schema()", ("main",), ("public",)),
    ("SELECT current_schema, current_catalog", ("main", "ivm"), ("public", "ivm")),
    ("SELECT current_database(), current_user", ("ivm", "ivm"), ("ivm", "ivm")),
    ("SELECT session_user AS who", ("ivm",), ("ivm",)),
    ("SHOW timezone", ("UTC",), ("UTC",)),
    ("SHOW TRANSACTION ISOLATION LEVEL", ("serializable",), ("serializable",)),
]


def test_a_session_says_who_and_where(ws: ivm.Workspace) -> None:
    for text, *expected in CONSTANTS:
        for dialect, row in zip(("duckdb", "postgres"), expected, strict=True):
            assert asked(ws, text, dialect) == [row], (text, dialect)
    assert asked(ws, "SELECT pg_catalog.version() LIKE 'PostgreSQL 15%'", "postgres") == [(True,)]
    assert ws.sql("SELECT now(), current_user AS u").to_arrow().column_names == ["now", "u"]
    ws.sql('CREATE TABLE who ("current_user" TEXT)')  # a name in quotes is a column
    assert asked(ws, 'SELECT "current_user" FROM who') == []


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_the_moment_is_that_of_the_statement(ws: ivm.Workspace, dialect: str) -> None:
    text = "SELECT now(), current_timestamp, localtimestamp, current_date FROM item WHERE id = 1"
    moments = []
    for _ in range(4):  # a question that is asked again is not one that was answered before
        ((now, same, local, day),) = asked(ws, text, dialect)
        assert now == same == local.replace(tzinfo=UTC) and day == now.date()
        moments.append(now)
    assert sorted(set(moments)) == moments
    assert abs(moments[-1] - datetime.now(UTC)) < timedelta(minutes=5)
    assert asked(ws, "SELECT count(*) FROM item WHERE now() > TIMESTAMP '2020-01-01'") == [(4,)]
    ws.sql("CREATE TABLE seen (id INT PRIMARY KEY, at TIMESTAMP, on_day DATE)")
    ws.sql("INSERT INTO seen VALUES (1, now(), current_date)")
    ws.sql("UPDATE seen SET at = now() WHERE id = 1")
    ((_, at, on_day),) = asked(ws, "SELECT * FROM seen")
    assert on_day == at.date() >= date(2020, 1, 1)
    ws.sql("CREATE TABLE made AS SELECT id, now() AS at FROM item")
    assert len(asked(ws, "SELECT DISTINCT at FROM made")) == 1


KEPT = [
    "SELECT id FROM item WHERE random() < 0.5",
    "SELECT id FROM item TABLESAMPLE 50%", "SELECT uuid() AS u FROM item",
    "SELECT table_name FROM information_schema.tables",
]  # fmt: skip


def test_nothing_of_a_moment_is_kept(ws: ivm.Workspace) -> None:
    for query in KEPT:
        for kind in ("VIEW", "MATERIALIZED VIEW"):
            with pytest.raises(SqlError):
                ws.sql(f"CREATE {kind} v AS {query}")
    for text in (
        "UPDATE item SET id = random()",
        "INSERT INTO item SELECT random(), name FROM item",
    ):
        with pytest.raises(SqlError, match="chance"):
            ws.sql(text)


def test_chance_differs_from_row_to_row(ws: ivm.Workspace) -> None:
    for text in ("SELECT random() AS r FROM item", "SELECT uuid() AS r FROM item"):
        assert len({*asked(ws, text)}) == 4
    rows = asked(ws, "SELECT *, random() AS r FROM item ORDER BY id")
    assert [row[:2] for row in rows] == [(1, "tea"), (2, "salt"), (3, "rye"), (4, "oat")]
    assert all(0 <= r < 1 for *_, r in rows)
    orders = {tuple(asked(ws, "SELECT * FROM item ORDER BY random()")) for _ in range(times(12))}
    assert len(orders) > 1 and all(len(one) == 4 and len(one[0]) == 2 for one in orders)


def test_samples_are_of_the_rows(ws: ivm.Workspace) -> None:
    every = {*asked(ws, "SELECT * FROM item")}
    ws.sql("CREATE MATERIALIZED VIEW v AS SELECT name, count(*) AS n FROM item GROUP BY name")
    for text, least, most in [
        ("SELECT * FROM item TABLESAMPLE 100%", 4, 4), ("SELECT * FROM item TABLESAMPLE 0%", 0, 0),
        ("SELECT * FROM item TABLESAMPLE reservoir(3 ROWS)", 3, 3),
        ("SELECT * FROM item USING SAMPLE 2", 2, 2), ("SELECT * FROM item USING SAMPLE 9", 4, 4),
        ("SELECT i.* FROM v TABLESAMPLE reservoir(2 ROWS) JOIN item i USING (name)", 2, 2),
    ]:  # fmt: skip
        found = asked(ws, text)
        assert least <= len({*found} & every) == len(found) <= most, text
    again = [asked(ws, "SELECT id FROM item TABLESAMPLE bernoulli(50) REPEATABLE (7)", "postgres")
             for _ in range(3)]  # fmt: skip
    assert again[0] == again[1] == again[2]
    with ws.transaction() as txn:  # of a transaction, as it has edited the table
        txn.sql("INSERT INTO item VALUES (5, 'fig')")
        found = txn.sql("SELECT * FROM item TABLESAMPLE 100%")
        assert found is not None and len(found) == 5


TAKEN = [
    "SET search_path TO public", "SET search_path = \"$user\", public", "SET TIME ZONE 'UTC'",
    "SET application_name = 'x'", "SET SESSION client_encoding TO 'UTF8'", "SET NAMES 'utf8mb4'",
    "SET extra_float_digits = 3", "RESET ALL", "RESET search_path", "DISCARD ALL",
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET statement_timeout TO 0", "SET standard_conforming_strings = on", "DEALLOCATE ALL",
]  # fmt: skip
REFUSED = [
    ("SET timezone = 'Europe/Vienna'", "it is UTC here"),
    ("SET search_path TO other", "it is public here"),
    ("SET statement_timeout = 5", "it is 0 here"),
    ("SET frobnicate = 5", "no such setting"),
    ("RESET frobnicate", "no such setting"),
    ("SHOW frobnicate", "SHOW ALL"),
    ("BEGIN READ ONLY", "leave out READ ONLY"),
    ("SET TRANSACTION READ ONLY", "leave out READ ONLY"),
    ("SAVEPOINT a", "BEGIN first"),
    ("BEGIN; ROLLBACK TO a", "no such savepoint"),
    ("BEGIN; SAVEPOINT b; RELEASE a", "no such savepoint"),
    ("BEGIN; SAVEPOINT", "one name"),
]


@pytest.mark.parametrize("dialect", ["duckdb", "postgres"])
def test_a_setting_is_taken_or_refused_by_name(ws: ivm.Workspace, dialect: Any) -> None:
    for text in TAKEN:
        assert ws.sql(text, dialect=dialect) is None, text
    assert asked(ws, f"{TAKEN[0]}; SELECT count(*) FROM item", dialect) == [(4,)]
    for text, words in REFUSED:
        with pytest.raises(SqlError, match=words):
            ws.sql(text, dialect=dialect)
        if ws.in_sql_transaction:
            ws.sql("ROLLBACK")
    assert len(asked(ws, "SHOW ALL", dialect)) > 20


@pytest.mark.parametrize("seed", range(times(6)))
def test_savepoints_undo_what_follows_them(seed: int) -> None:
    """Random edits, savepoints of few names, and steps back, beside copies of a set."""
    draw = random.Random(seed)
    ws = ivm.open(":memory:")
    ws.sql(
        "CREATE TABLE t (k INT PRIMARY KEY); CREATE MATERIALIZED VIEW v AS SELECT k + 1 AS n FROM t"
    )
    rows, marks = set[int](), list[tuple[str, set[int]]]()
    ws.sql("START TRANSACTION")
    for _ in range(30):
        name = draw.choice("abc")
        known = [own for own, _ in marks]
        match draw.choice(("insert", "delete", "mark", "back", "release")):
            case "insert" if (key := draw.randrange(20)) not in rows:
                ws.sql(f"INSERT INTO t VALUES ({key})")
                rows.add(key)
            case "delete":
                ws.sql(f"DELETE FROM t WHERE k < {(key := draw.randrange(10))}")
                rows = {one for one in rows if one >= key}
            case "mark":
                ws.sql(f"SAVEPOINT {name}")
                marks.append((name, {*rows}))
            case "back" | "release" as step if name in known:
                place = len(known) - 1 - known[::-1].index(name)
                ws.sql(f"{'ROLLBACK TO' if step == 'back' else 'RELEASE'} SAVEPOINT {name}")
                if step == "back":
                    rows = {*marks[place][1]}
                marks = marks[: place + (step == "back")]
        assert {k for (k,) in asked(ws, "SELECT k FROM t")} == rows
    ws.sql("COMMIT")
    assert {n - 1 for (n,) in asked(ws, "SELECT n FROM v")} == rows
    ws.check()
