"""Statements that define: each is one commit, so that a crash leaves all of it or nothing, and one
that fails says in SQL's words what is wrong, and changes nothing.
"""

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


ALTERED = """
CREATE TABLE p (id INT PRIMARY KEY, n INT);
CREATE TABLE c (id INT PRIMARY KEY, p INT REFERENCES p, n INT CHECK (n > 0), m INT, UNIQUE (m));
CREATE TABLE bag (a INT, b INT, CONSTRAINT small CHECK (a < 9));
CREATE TABLE own (id INT PRIMARY KEY, up INT REFERENCES own, CONSTRAINT n CHECK (id > 0));
CREATE TABLE last (a INT); CREATE TABLE seen (k INT PRIMARY KEY, n INT);
CREATE INDEX i ON bag (b);
CREATE MATERIALIZED VIEW kept AS SELECT n, count(*) AS c FROM seen GROUP BY n;
CREATE MATERIALIZED VIEW upon AS SELECT n, c + 1 AS d FROM kept;
CREATE VIEW plain AS SELECT n FROM seen;
CREATE TYPE mood AS ENUM ('sad', 'ok');
INSERT INTO p VALUES (1, 1); INSERT INTO c VALUES (1, 1, 1, 1); INSERT INTO bag VALUES (1, 1);
INSERT INTO own VALUES (1, 1); INSERT INTO last VALUES (1); INSERT INTO seen VALUES (1, 1)
"""
NO_TABLE = "no table nope exists"
WRONG = {
    # no such thing
    "ALTER TABLE nope RENAME TO x": NO_TABLE, "ALTER TABLE nope ADD COLUMN a INT": NO_TABLE,
    "ALTER TABLE nope DROP COLUMN a": NO_TABLE, "ALTER TABLE nope RENAME COLUMN a TO b": NO_TABLE,
    "ALTER TABLE nope ADD CONSTRAINT k CHECK (a > 5)": NO_TABLE,
    "ALTER TABLE nope ALTER COLUMN a SET DEFAULT 5": NO_TABLE,
    "ALTER TABLE bag DROP COLUMN nope": "bag has no column nope",
    "ALTER TABLE bag RENAME COLUMN nope TO c": "bag has no column nope",
    "ALTER TABLE bag ALTER COLUMN nope SET DEFAULT 5": "bag has no column nope",
    "ALTER TABLE bag DROP CONSTRAINT nope": "bag has no constraint nope; there is small",
    "ALTER TABLE bag DROP CONSTRAINT a": "bag has no constraint a",
    "ALTER TABLE bag ADD CONSTRAINT k CHECK (nope > 5)": "no column nope",
    "ALTER TABLE bag ADD CONSTRAINT k UNIQUE (nope)": "bag has no column nope",
    "ALTER TABLE bag ADD CONSTRAINT k FOREIGN KEY (a) REFERENCES nope": NO_TABLE,
    "ALTER TABLE bag ADD CONSTRAINT k FOREIGN KEY (a) REFERENCES p (nope)": "p has no column nope",
    "CREATE INDEX j ON nope (a)": NO_TABLE, "CREATE INDEX j ON bag (nope)": "no column nope",
    "CREATE INDEX j ON bag": "CREATE INDEX names columns",
    "DROP TABLE nope": "no table or view nope", "DROP VIEW nope": "no table or view nope",
    "DROP INDEX nope": "no index nope", "DROP TYPE nope": "type nope does not exist",
    "TRUNCATE nope": NO_TABLE, "TRUNCATE bag, nope": NO_TABLE,
    "CREATE VIEW v AS SELECT * FROM nope": "no table or view nope",
    # exists already
    "ALTER TABLE p RENAME TO bag": "bag exists already", "ALTER TABLE p RENAME TO BAG": "exists",
    "ALTER TABLE bag RENAME TO kept": "kept exists already",
    "ALTER TABLE bag RENAME TO plain": "plain exists already",
    "ALTER TABLE bag ADD COLUMN A INT": "has a column A already",
    "ALTER TABLE bag RENAME COLUMN a TO B": "has a column B already",
    "ALTER TABLE bag ADD CONSTRAINT small CHECK (a < 8)": "has a constraint small already",
    "CREATE TABLE P (a INT)": "p exists already: CREATE OR REPLACE it, or DROP",
    "CREATE TABLE plain (a INT)": "plain exists already: choose another name",
    "CREATE OR REPLACE TABLE kept (a INT)": "kept exists already: choose another name",
    "CREATE OR REPLACE VIEW p AS SELECT 1": "p exists already: choose another name",
    "CREATE MATERIALIZED VIEW plain AS SELECT 1 AS a": "plain exists already: CREATE OR REPLACE",
    "CREATE INDEX i ON bag (a)": "index i exists already", "CREATE TYPE mood AS ENUM ('x')": "exists",
    # a view reads it, or a constraint needs it
    "ALTER TABLE seen RENAME TO other": "seen would change under kept",
    "ALTER TABLE p RENAME TO other": r"p would change under c \(constraints\)",
    "ALTER TABLE seen DROP COLUMN n": "seen would change under kept",
    "ALTER TABLE c DROP COLUMN n": r"n is of CHECK \(n > 0\) of c",
    "ALTER TABLE c DROP COLUMN m": r"m is of UNIQUE \(m\) of c",
    "ALTER TABLE c DROP COLUMN p": r"p is of FOREIGN KEY \(p\) REFERENCES p of c",
    "ALTER TABLE bag DROP COLUMN a": "DROP CONSTRAINT small first",
    "ALTER TABLE bag DROP COLUMN b": "DROP INDEX i first",
    "DROP TABLE seen": "seen would change under kept", "DROP VIEW kept": "would change under upon",
    "CREATE OR REPLACE VIEW kept AS SELECT 1 AS n": "kept would change under upon",
    "CREATE OR REPLACE MATERIALIZED VIEW kept AS SELECT * FROM upon": "upon reads kept",
    "TRUNCATE p": "does not hold",
    # a key, the last column, what rows lack
    "ALTER TABLE p DROP COLUMN id": "of the key of p", "ALTER TABLE last DROP COLUMN a": "DROP TABLE last",
    "ALTER TABLE bag ADD COLUMN c INT PRIMARY KEY": "keys and numbers are of CREATE TABLE",
    "ALTER TABLE bag ADD COLUMN c SERIAL": "keys and numbers are of CREATE TABLE",
    "ALTER TABLE p ADD COLUMN c INT UNIQUE": "ADD CONSTRAINT",
    "ALTER TABLE bag ADD COLUMN c INT NOT NULL": "give it a DEFAULT",
    "ALTER TABLE bag ADD COLUMN c DOUBLE DEFAULT random()": "then UPDATE",
    "ALTER TABLE bag ADD COLUMN c INT DEFAULT 'x'": "not a value of type INTEGER",
    "ALTER TABLE bag ALTER COLUMN a SET DEFAULT 'x'": "not a value of type INTEGER",
    "ALTER TABLE bag ALTER COLUMN a TYPE BIGINT": "CREATE another table so",
    "CREATE TABLE t (a INT PRIMARY KEY, b INT PRIMARY KEY)": "one PRIMARY KEY",
    "CREATE TABLE t (a INT, PRIMARY KEY (a, a))": "one PRIMARY KEY",
    "CREATE TABLE t (a INT, A TEXT)": "one name", "CREATE TABLE t (a)": "column a has no type",
    "CREATE TABLE t (x INT) AS SELECT 1": "name the columns only",
    "CREATE TABLE t (x, y) AS SELECT 1": "2 names for 1 column",
    "CREATE VIEW v (a, b, c) AS SELECT a, b FROM bag": "3 names for 2 columns",
    "CREATE MATERIALIZED VIEW v (a, A) AS SELECT a, b FROM bag": "one name",
    'ALTER TABLE bag RENAME TO "a`b"': "cannot be the name", 'CREATE TABLE "a$b" (a INT)': "cannot be",
    'ALTER TABLE bag ADD COLUMN "a$b" INT': "cannot be the name of a column",
    'ALTER TABLE bag RENAME COLUMN a TO "a$b"': "cannot be the name of a column",
    "CREATE TYPE t AS ENUM ('a', 'b', 'a')": "ENUM has the word 'a' twice",
    "CREATE TABLE t (e ENUM('a', 'a'))": "ENUM has the word 'a' twice",
    "ALTER TABLE bag RENAME a TO b": "has a column b already", "ALTER TABLE bag RENAME z TO y": "no column z",
    # of another kind
    "ALTER TABLE kept RENAME TO x": "kept is a view", "ALTER TABLE plain ADD COLUMN a INT": "is a view",
    "ALTER VIEW bag RENAME TO x": "tables are altered", "ALTER INDEX bag RENAME TO x": "ALTER INDEX",
    "DROP TABLE kept": "write DROP VIEW kept", "DROP VIEW bag": "write DROP TABLE bag",
    "DROP SEQUENCE bag": "DROP SEQUENCE", "DROP SCHEMA nope": "DROP SCHEMA", "DROP MACRO bag": "MACRO",
    "CREATE INDEX j ON plain (n)": "plain is a view", "TRUNCATE kept": "kept is a view",
    "ALTER TABLE bag ADD CONSTRAINT k FOREIGN KEY (a) REFERENCES plain": "plain is a view",
    "COMMENT ON TABLE bag IS 'x'": "comments are not kept",
}  # fmt: skip


@pytest.fixture(scope="module")
def altered() -> Iterator[ivm.Workspace]:
    with ivm.open(":memory:", threads=1) as ws:
        ws.sql(ALTERED)
        yield ws


@pytest.mark.parametrize("statement", WRONG)
def test_what_is_wrong_is_said_in_words_of_sql(altered: ivm.Workspace, statement: str) -> None:
    before = altered.store.version
    with pytest.raises(SqlError, match=WRONG[statement]):
        altered.sql(statement)
    assert altered.store.version == before


@pytest.mark.parametrize(
    ("statement", "question", "rows"),
    [
        ("ALTER TABLE c RENAME TO d", "SELECT * FROM d", [(1, 1, 1, 1)]),
        ("ALTER TABLE bag RENAME TO d", "SELECT * FROM d", [(1, 1)]),
        ("ALTER TABLE bag RENAME b TO e", "SELECT a, e FROM bag", [(1, 1)]),
        ("ALTER TABLE own RENAME TO d", "SELECT * FROM d", [(1, 1)]),
        ("ALTER TABLE bag ADD COLUMN c INT DEFAULT 7", "SELECT * FROM bag", [(1, 1, 7)]),
        ("DROP INDEX i; ALTER TABLE bag DROP COLUMN b", "SELECT * FROM bag", [(1,)]),
        ("ALTER TABLE bag DROP CONSTRAINT small", "SELECT * FROM bag", [(1, 1)]),
        ("ALTER TABLE c DROP CONSTRAINT IF EXISTS nope", "SELECT * FROM last", [(1,)]),
        (
            "ALTER TABLE bag ALTER COLUMN b SET DEFAULT 5; INSERT INTO bag (a) VALUES (2)",
            "SELECT * FROM bag ORDER BY a",
            [(1, 1), (2, 5)],
        ),
        ("CREATE TABLE t (x, y) AS SELECT n, id FROM p", "SELECT y, x FROM t", [(1, 1)]),
        ("CREATE TABLE t (x) AS SELECT n, id FROM p", "SELECT x, id FROM t", [(1, 1)]),
        ("CREATE OR REPLACE VIEW upon AS SELECT 9 AS d", "SELECT * FROM upon", [(9,)]),
        (
            "CREATE OR REPLACE MATERIALIZED VIEW plain AS SELECT n + 1 AS n FROM seen",
            "SELECT n FROM plain",
            [(2,)],
        ),
    ],
)
def test_tables_with_constraints_are_altered(statement: str, question: str, rows: Any) -> None:
    """The constraints that are left hold afterwards, under the new names."""
    with ivm.open(":memory:", threads=1) as ws:
        ws.sql(ALTERED)
        ws.sql(statement)
        assert list(ws.sql(question) or ()) == rows
        names = [name for (name,) in ws.sql("SHOW TABLES") or ()]
        assert len({*names}) == len(names)
        named = "d" if "TO d" in statement else ""
        for text in (
            f"INSERT INTO {named if 'c RENAME' in statement else 'c'} (id, n) VALUES (5, -1)",
            f"INSERT INTO {named if 'own' in statement else 'own'} VALUES (5, 7)",
            f"INSERT INTO {named if 'bag' in statement and named else 'bag'} (a) VALUES (9)",
        ):
            if text.startswith("INSERT INTO bag") and "CONSTRAINT small" in statement:
                continue
            with pytest.raises(IvmError):
                ws.sql(text)
        assert ws.check() == []
