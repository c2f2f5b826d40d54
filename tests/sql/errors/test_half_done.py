"""Statements that define: each is one commit, so that a crash leaves all of it or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import ivm
from ivm.errors import IvmError
from ivm.sql.errors import SqlError

HAVING = """
CREATE TABLE p (id INT PRIMARY KEY);
CREATE TABLE c (id INT PRIMARY KEY, p INT REFERENCES p, n INT CHECK (n > 0), UNIQUE (n));
CREATE TABLE bag (a INT CHECK (a > 0), b INT);
CREATE INDEX plain ON bag (b);
CREATE UNIQUE INDEX lone ON bag (b);
CREATE MATERIALIZED VIEW kept AS SELECT id + 1 AS id FROM p;
CREATE MATERIALIZED VIEW upon AS SELECT id + 1 AS id FROM kept;
CREATE VIEW plain_view AS SELECT * FROM p;
INSERT INTO p VALUES (1); INSERT INTO c VALUES (1, 1, 1); INSERT INTO bag VALUES (1, 1)
"""
# each with the constraints that there are afterwards, beside those of the statement before
ONE_COMMIT = [
    "CREATE TABLE t (a INT)",
    "CREATE TABLE t (a INT CHECK (a > 0), b INT UNIQUE, p INT REFERENCES p)",
    "CREATE TABLE IF NOT EXISTS t (a INT CHECK (a > 0))",
    "CREATE OR REPLACE TABLE c (a INT)",
    "CREATE OR REPLACE TABLE c (a INT CHECK (a > 0))",
    "CREATE OR REPLACE TABLE bag AS SELECT 1 AS a",
    "CREATE TABLE t AS SELECT * FROM p",
    "ALTER TABLE c ADD CONSTRAINT more CHECK (n < 9)",
    "ALTER TABLE c ADD COLUMN more INT",
    "CREATE UNIQUE INDEX i ON c (n)",
    "DROP INDEX lone",
    "DROP INDEX plain",
    "DROP TABLE c",
    "DROP TABLE c, p_too",
    "DROP TABLE bag",
    "CREATE OR REPLACE MATERIALIZED VIEW kept AS SELECT id + 2 AS id FROM p",
    "CREATE MATERIALIZED VIEW other AS SELECT id FROM upon",
    "DROP MATERIALIZED VIEW upon",
    "DROP MATERIALIZED VIEW kept, upon",
    "DROP VIEW plain_view",
    "CREATE TYPE mood AS ENUM ('sad', 'ok')",
]


@pytest.fixture
def ws() -> Iterator[ivm.Workspace]:
    with ivm.open(":memory:", threads=1) as ws:
        ws.sql(HAVING)
        ws.sql("CREATE TABLE p_too (id INT)")
        yield ws


@pytest.mark.parametrize("statement", ONE_COMMIT)
def test_a_statement_that_defines_is_one_commit(ws: ivm.Workspace, statement: str) -> None:
    before = ws.store.version
    ws.sql(statement)
    assert ws.store.version == before + 1
    assert ws.check() == []


def test_create_if_not_exists_adopts_what_is_there(ws: ivm.Workspace) -> None:
    before, kept = ws.store.version, ws.constraints
    ws.sql("CREATE TABLE IF NOT EXISTS c (a INT CHECK (a > 0))")
    assert (ws.store.version, ws.constraints) == (before, kept)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE TABLE t (a INT CHECK (b > 0))", "b"),
        ("CREATE TABLE t (a INT REFERENCES nowhere)", "no table nowhere exists"),
        ("CREATE OR REPLACE TABLE c (a INT CHECK (b > 0))", "b"),
        ("CREATE OR REPLACE TABLE p (a INT)", "p would change under c \\(constraints\\), kept"),
        ("CREATE OR REPLACE TABLE p (a INT CHECK (a > 0))", "p would change under c"),
        ("DROP TABLE p", "p would change under c \\(constraints\\), kept"),
        ("DROP TABLE bag, p", "p would change under c \\(constraints\\), kept"),
        ("DROP TABLE c, p", "p would change under kept"),
        ("DROP TABLE c, nowhere", "no table or view nowhere exists"),
        ("DROP MATERIALIZED VIEW kept", "upon"),
        ("ALTER TABLE c ADD CONSTRAINT less CHECK (n < 1)", "does not hold for"),
        ("CREATE UNIQUE INDEX i ON c (nowhere)", "no column nowhere"),
    ],
)
def test_one_that_fails_changes_nothing(ws: ivm.Workspace, statement: str, said: str) -> None:
    def kept() -> Any:
        return ws.store.version, ws.constraints, list(ws.sql("SHOW TABLES") or ())

    before = kept()
    with pytest.raises(SqlError, match=said):
        ws.sql(statement)
    assert kept() == before
    with pytest.raises(IvmError):
        ws.sql("INSERT INTO c VALUES (2, 1, -1)")
    ws.sql("INSERT INTO p VALUES (2); INSERT INTO c VALUES (2, 2, 2)")
    assert ws.check() == []


def test_a_dropped_constraint_of_several_views_leaves_what_rules_read_exact(
    ws: ivm.Workspace,
) -> None:
    """A table that one statement frees twice over can be dropped afterwards."""
    ws.sql("DROP TABLE c")
    ws.sql("DROP MATERIALIZED VIEW kept, upon")
    ws.sql("DROP TABLE p")
    ws.sql("CREATE OR REPLACE TABLE bag (a INT CHECK (a > 1))")
    ws.sql("CREATE OR REPLACE TABLE bag (a INT)")
    ws.sql("DROP TABLE bag")
    assert ws.constraints == ()
    assert ws.check() == []
