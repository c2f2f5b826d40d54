"""A statement that fails leaves everything as it was."""

import re
from pathlib import Path
from typing import Any

import pytest

import ivm
from ivm.errors import IvmError
from pagestore.errors import PagestoreError

TABLES = """
    CREATE TABLE r (a VARCHAR, b INT); INSERT INTO r VALUES ('x', 0), ('x', 0);
    CREATE TABLE o (k INT PRIMARY KEY, CHECK (k > 0)); INSERT INTO o VALUES (1);
    CREATE TABLE f (k INT PRIMARY KEY REFERENCES o(k)); INSERT INTO f VALUES (1);
    CREATE MATERIALIZED VIEW n AS SELECT b, count(*) AS c FROM r GROUP BY b;
    CREATE MATERIALIZED VIEW m AS SELECT c FROM n;
    CREATE VIEW p AS SELECT k + 1 AS l FROM o;
"""
FAILING = [
    "CREATE TABLE t AS SELECT CAST(a AS INT) AS x FROM r",
    "CREATE TABLE t AS SELECT CAST(b + 100000 AS SMALLINT) AS x FROM r",
    "CREATE TABLE t AS SELECT 2147483647 + b + 1 AS x FROM r",
    "CREATE TABLE t AS SELECT zz FROM r",
    "CREATE OR REPLACE TABLE f AS SELECT CAST(a AS INT) AS x FROM r",
    "CREATE OR REPLACE TABLE f AS SELECT 1 / 0 AS k, zz FROM r",
    "CREATE OR REPLACE TABLE o AS SELECT 1 AS k",  # which f refers to
    "CREATE OR REPLACE TABLE o (z INT)",
    "CREATE OR REPLACE TABLE o (z INT, CHECK (z > 1))",
    "CREATE OR REPLACE TABLE r AS SELECT CAST(a AS INT) AS x FROM r",
    "CREATE OR REPLACE TABLE r AS SELECT 1 AS b",  # under n
    "CREATE OR REPLACE TABLE r AS FROM '/nonexistent.parquet'",
    "CREATE OR REPLACE TABLE f (a INT, CHECK (zz > 1))",
    "CREATE OR REPLACE TABLE f (a INT REFERENCES nope(k))",
    "CREATE OR REPLACE TABLE f (a INT REFERENCES o(z))",
    "CREATE OR REPLACE TABLE f (a INT, UNIQUE (q))",
    "CREATE OR REPLACE TABLE f (a INT PRIMARY KEY, a INT)",
    "CREATE OR REPLACE TABLE f (a INT DEFAULT 'x')",
    "CREATE OR REPLACE TABLE f (a INT GENERATED ALWAYS AS (zz + 1))",
    "CREATE OR REPLACE TABLE f (a INT, PRIMARY KEY (b))",
    "CREATE OR REPLACE TABLE f (a INTERVAL)",
    "CREATE TABLE t (a INT, CHECK (zz > 1))",
    "CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT CAST(a AS INT) AS c FROM r",
    "CREATE OR REPLACE MATERIALIZED VIEW n AS SELECT zz FROM r",
    "CREATE OR REPLACE VIEW p AS SELECT zz FROM o",
    "DROP TABLE f, nope",
    "DROP TABLE f, r",
    "DROP TABLE f, m",
    "DROP MATERIALIZED VIEW m, nope",
    "TRUNCATE TABLE f, nope",
    "ALTER TABLE f ADD COLUMN k INT",
    "ALTER TABLE f ADD CONSTRAINT z CHECK (k > 1)",
    "CREATE UNIQUE INDEX i ON r (a)",
    "INSERT INTO f SELECT 1 UNION ALL SELECT 2",
    "INSERT OR REPLACE INTO o SELECT CAST(a AS INT) FROM r",
    "INSERT OVERWRITE INTO r SELECT a, CAST(a AS INT) FROM r",
    "UPDATE o SET k = 0",
    "UPDATE r SET b = CAST(a AS INT)",
    "DELETE FROM o",
    "MERGE INTO o USING r ON o.k = r.b WHEN NOT MATCHED THEN INSERT VALUES (CAST(r.a AS INT))",
]


@pytest.mark.parametrize("statement", FAILING)
def test_a_statement_that_fails_leaves_everything_as_it_was(statement: str, tmp_path: Path) -> None:
    """Its tables, views, rows and constraints, also for who opens the store next."""
    with ivm.open(tmp_path / "s.pages", sync="off") as ws:
        ws.sql(TABLES)
        before = shown(ws)
        with pytest.raises((IvmError, PagestoreError)):
            ws.sql(statement)
        assert shown(ws) == before
    with ivm.open(tmp_path / "s.pages", sync="off") as again:
        assert shown(again) == before
        with pytest.raises(IvmError):
            again.sql("INSERT INTO o VALUES (-1)")
        again.sql("INSERT INTO r VALUES ('y', 5)")
        assert again.sql("SELECT count(*) FROM n").to_arrow().to_pylist() == [{"count_star()": 2}]
        again.check()


def shown(ws: ivm.Workspace) -> dict[str, Any]:
    """Return the tables and views of a workspace, with their columns and rows."""
    names = [name for (name,) in ws.sql("SHOW TABLES") or ()]
    return {
        name: (
            ws.sql(f"DESCRIBE {name}").to_arrow().to_pylist(),
            [*ws.sql(f"SELECT * FROM {name}")],
        )
        for name in names
    }


def test_a_table_may_be_made_of_itself() -> None:
    ws = ivm.open(":memory:")
    ws.sql("CREATE TABLE r (a VARCHAR, b INT); INSERT INTO r VALUES ('x', 0), ('x', 0), (NULL, 2)")
    ws.sql("CREATE OR REPLACE TABLE r AS SELECT b + 1 AS c, a FROM r WHERE a IS NOT NULL")
    assert [*ws.sql("SELECT * FROM r")] == [(1, "x"), (1, "x")]
    ws.sql("CREATE TABLE IF NOT EXISTS r AS SELECT 1 AS z")
    assert [*ws.sql("SELECT c FROM r")] == [(1,), (1,)]


@pytest.mark.parametrize(
    ("new", "taken", "refused"),
    [
        ("(b INT)", "(-5)", None),
        ("(b INT, CHECK (b < 0))", "(-5)", "(5)"),
        ("(b INT, c INT UNIQUE)", "(-5, 1)", "(0, 1)"),
        ("(b INT PRIMARY KEY)", "(-5)", "(-5)"),
        ("AS SELECT -7 AS a", "(-5)", None),
        ("AS SELECT a - 9 AS b, a FROM r", "(-5, -5)", None),
    ],
)
def test_constraints_go_with_the_table_that_is_replaced(
    new: str, taken: str, refused: str | None
) -> None:
    ws = ivm.open(":memory:")
    ws.sql("CREATE TABLE r (a INT, CHECK (a > 0)); INSERT INTO r VALUES (2)")
    ws.sql(f"CREATE OR REPLACE TABLE r {new}")
    ws.sql(f"INSERT INTO r VALUES {taken}")
    rows = [*ws.sql("SELECT * FROM r")]
    assert len(rows) == 1 + ("AS" in new)
    if refused is not None:
        with pytest.raises(IvmError):
            ws.sql(f"INSERT INTO r VALUES {refused}")
    assert [*ws.sql("SELECT * FROM r")] == rows
    ws.sql("DROP TABLE r; CREATE TABLE r (a INT); INSERT INTO r VALUES (-1)")
    ws.check()


def test_what_is_dropped_together_may_read_each_other() -> None:
    ws = ivm.open(":memory:")
    ws.sql(TABLES)
    ws.sql("DROP MATERIALIZED VIEW n, m, n; DROP TABLE IF EXISTS o, f, nope; DROP VIEW IF EXISTS p")
    assert [name for (name,) in ws.sql("SHOW TABLES")] == ["r"]


def test_a_view_is_kept_beside_another_whose_last_column_has_its_name() -> None:
    ws = ivm.open(":memory:")
    ws.sql(TABLES + "CREATE MATERIALIZED VIEW z AS SELECT a, b AS n FROM r")
    assert [*ws.sql("SELECT * FROM n")] == [(0, 2)]
    ws.install("y(k) <- o(k).", name="y")
    with pytest.raises(IvmError, match="y exists already"):
        ws.sql("CREATE MATERIALIZED VIEW y AS SELECT 1 AS a")
    assert re.search(r"y\(k\)", ws.blocks["y"])
