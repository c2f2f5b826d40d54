"""Names before those of tables: there is one schema, and any other is refused wherever a statement
names a table.
"""

from __future__ import annotations

import pytest

import ivm
from ivm.sql.errors import SqlError

SHOP = (
    "CREATE TABLE t (id INTEGER PRIMARY KEY, x INTEGER);"
    "CREATE VIEW v AS SELECT x FROM t; CREATE UNIQUE INDEX i ON t (x)"
)
# the name of a table with what stands before it is in place of {t}, {v}, {i} or {new}
STATEMENTS = """
SELECT x FROM {t}
FROM {v}
SELECT t.x FROM t JOIN {t} AS u ON t.id = u.id
SELECT (SELECT max(x) FROM {t}) AS x
SELECT x FROM t WHERE EXISTS (FROM {t})
WITH c AS (SELECT x FROM {t}) SELECT x FROM c
SELECT x FROM t UNION SELECT x FROM {t}
PIVOT {t} ON x IN (1, 2) USING sum(id)
SELECT {t}.x FROM t
CREATE TABLE {new} (a INTEGER)
CREATE TABLE {new} AS SELECT x FROM t
CREATE TABLE u (a INTEGER REFERENCES {t} (id))
CREATE VIEW {new} AS SELECT x FROM t
CREATE VIEW u AS SELECT x FROM {t}
CREATE MATERIALIZED VIEW {new} AS SELECT x FROM t
CREATE MATERIALIZED VIEW u AS PIVOT {t} ON x IN (1, 2) USING sum(id)
CREATE UNIQUE INDEX j ON {t} (id, x)
DROP INDEX {i}
DROP VIEW {v}
DROP TABLE {t}
ALTER TABLE {t} ADD COLUMN y INTEGER
ALTER TABLE t RENAME TO {new}
INSERT INTO {t} VALUES (1, 2)
INSERT INTO t SELECT id + 1, x FROM {t}
UPDATE {t} SET x = 3
UPDATE t SET x = u.x FROM {t} AS u WHERE u.id = t.id
DELETE FROM {t}
DELETE FROM t USING {t} AS u WHERE u.id = t.id
MERGE INTO {t} AS m USING (SELECT 1 AS id) AS s ON m.id = s.id WHEN MATCHED THEN DELETE
MERGE INTO t USING {t} AS s ON t.id = s.id WHEN MATCHED THEN DELETE
TRUNCATE {t}
COPY {t} TO 'rows.csv'
DESCRIBE {t}
EXPLAIN {t}
EXPLAIN SELECT x FROM {t}
SELECT x FROM {t} FOR VERSION AS OF 1
"""
ONE = {"duckdb": "main", "postgres": "public", "sqlite": "main", "spark": "default"}


def named(statement: str, before: str) -> str:
    """Return a statement whose tables have a schema before their names."""
    return statement.format(**{name: f"{before}{name}" for name in ("t", "v", "i", "new")})


@pytest.fixture
def shop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where COPY writes
    workspace = ivm.open(":memory:")
    workspace.sql(SHOP)
    return workspace


@pytest.mark.parametrize("statement", STATEMENTS.strip().splitlines())
@pytest.mark.parametrize("before", ["main.", "public.", "ivm.", 'ivm."Main".'])
def test_the_one_schema_is_that_of_the_name_alone(statement, before, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where COPY writes
    said = []
    for text in (named(statement, ""), named(statement, before)):
        with ivm.open(":memory:") as workspace:
            workspace.sql(SHOP)
            try:
                answer = workspace.sql(text)
                said.append(None if answer is None else [*answer])
            except SqlError as error:
                said.append(str(error).split(": ", 1)[1])
    assert said[0] == said[1]


@pytest.mark.parametrize("statement", STATEMENTS.strip().splitlines())
@pytest.mark.parametrize("before", ["s.", "temp.", 'db."S".', "other.main."])
def test_another_schema_is_refused_and_changes_nothing(shop, statement, before):
    version = shop.store.version
    with pytest.raises(SqlError, match=r"there is one schema, main: write |no table .* is in"):
        shop.sql(named(statement, before))
    assert shop.store.version == version


@pytest.mark.parametrize(("dialect", "schema"), ONE.items())
def test_a_dialect_has_its_own_name_for_the_schema(shop, dialect, schema):
    shop.sql(f"INSERT INTO {schema}.t VALUES (1, 2)", dialect=dialect)
    assert [*shop.sql(f"SELECT {schema}.t.x FROM {schema}.t", dialect=dialect)] == [(2,)]
    with pytest.raises(SqlError, match=f"s.t: there is one schema, {schema}: write t"):
        shop.sql("SELECT x FROM s.t", dialect=dialect)


def test_relations_of_the_system_are_only_read(shop):
    names = shop.sql("SELECT table_name FROM ivm.information_schema.tables ORDER BY table_name")
    assert [*names] == [("t",), ("v",)]
    text = "SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class WHERE pg_catalog.pg_class.relname = 't'"
    assert [*shop.sql(text, dialect="postgres")] == [("t",)]
    for statement in ("CREATE TABLE {t}2 (a INTEGER)", "DROP TABLE {t}", "DELETE FROM {t}"):
        with pytest.raises(SqlError, match="there is one schema"):
            shop.sql(named(statement, "pg_catalog."))


def test_changes_takes_the_name_of_a_table_alone(shop):
    with pytest.raises(SqlError, match="changes takes the name of a table alone: t"):
        shop.sql("FROM changes(s.t, 1, 2)")
