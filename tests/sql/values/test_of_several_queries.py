"""Values of several queries as those of one column, and of several rows as one value: beside DuckDB."""

from __future__ import annotations

from itertools import product
from typing import Any

import duckdb
import pytest

import ivm
from ivm.sql.errors import SqlError

VALUES = {
    "boolean": "true", "tinyint": "1::TINYINT", "integer": "7", "bigint": "7::BIGINT",
    "decimal": "1.5", "double": "1.5::DOUBLE", "float": "1.5::FLOAT", "number": "'1'", "word": "'x'",
    "column": "s", "date": "DATE '2020-01-02'", "timestamp": "TIMESTAMP '2020-01-02 03:04:05'",
    "zoned": "TIMESTAMPTZ '2020-01-02 03:04:05+00'", "time": "TIME '03:04:05'", "null": "NULL",
    "list": "[1]", "struct": "{'a': 1}",
}  # fmt: skip
REFUSED = 0  # pairs that DuckDB answers and that are refused here


@pytest.fixture(scope="module")
def both() -> tuple[ivm.Workspace, Any]:
    ws, duck = ivm.open(":memory:", threads=1), duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    for text in (
        "CREATE TABLE t (s VARCHAR)",
        "INSERT INTO t VALUES ('x')",
        "CREATE TABLE a (x INTEGER, y INTEGER)",
        "INSERT INTO a VALUES (1, 5), (2, 5), (NULL, 6)",
        "CREATE TABLE b (z INTEGER, w INTEGER)",
        "INSERT INTO b VALUES (1, 5), (3, 1), (3, 2), (4, 1), (4, 1), (NULL, 1), (NULL, 2)",
        "CREATE TABLE k (z INTEGER PRIMARY KEY, w INTEGER)",
        "INSERT INTO k VALUES (1, 8), (2, 8), (3, 9)",
    ):
        ws.sql(text)
        duck.execute(text)
    return ws, duck


def answers(ws: ivm.Workspace, duck: Any, text: str) -> tuple[Any, Any]:
    """What both say, as rows in order; None for an error."""
    found: list[Any] = []
    for ask in (lambda: ws.sql(text), lambda: duck.execute(text).fetchall()):
        try:
            found.append(sorted(map(repr, ask() or ())))
        except (duckdb.Error, SqlError):
            found.append(None)
    return found[0], found[1]


@pytest.mark.parametrize("word", ["UNION ALL", "EXCEPT", "INTERSECT"])
def test_columns_of_several_queries_have_duckdbs_types(both: Any, word: str) -> None:
    refused = 0
    for one, other in product(VALUES.values(), repeat=2):
        text = f"SELECT {one} AS v FROM t {word} SELECT {other} FROM t"
        ours, theirs = answers(*both, text)
        refused += ours is None and theirs is not None
        assert theirs is None or ours in (theirs, None), text
    assert refused <= REFUSED


SUBQUERIES = [
    "SELECT (SELECT z FROM b)", "SELECT (SELECT z FROM b WHERE z = 4)",
    "SELECT x, (SELECT w FROM b WHERE z = x) FROM a", "SELECT x, (SELECT 5 FROM b WHERE z = x) FROM a",
    "SELECT z, (SELECT w FROM b AS c WHERE c.z = b.z) FROM b WHERE z = 4",
    "SELECT x FROM a WHERE y = (SELECT w FROM b WHERE z = x)",
    "SELECT x, (SELECT w FROM k WHERE k.z = x) FROM a", "SELECT (SELECT w FROM k WHERE w = 8)",
    "SELECT (SELECT w FROM k WHERE w = 8 LIMIT 1)", "SELECT (SELECT DISTINCT w FROM k WHERE w = 8)",
    "SELECT (SELECT w FROM k WHERE w = 8 GROUP BY w)", "SELECT (SELECT 8 UNION SELECT 8)",
    "SELECT (SELECT 8 UNION ALL SELECT 8)", "SELECT (VALUES (1), (1))", "SELECT (SELECT unnest([1, 1]))",
    "SELECT (SELECT unnest([1]))", "SELECT x, (SELECT w FROM b WHERE z = x + 3) FROM a",
    "SELECT x, (SELECT w FROM b WHERE z IS NOT DISTINCT FROM x) FROM a WHERE x > 0",
]  # fmt: skip


@pytest.mark.parametrize("text", SUBQUERIES)
def test_a_subquery_used_as_a_value_has_one_row(both: Any, text: str) -> None:
    ours, theirs = answers(*both, text)
    assert ours == theirs


def test_a_kept_view_has_one_row_for_each_that_it_reads() -> None:
    """Equal rows are an error where the view reads them, and none elsewhere."""
    ws = ivm.open(":memory:", threads=1)
    ws.sql("CREATE TABLE a (x INT); CREATE TABLE b (z INT, w INT)")
    ws.sql("CREATE MATERIALIZED VIEW v AS SELECT x, (SELECT w FROM b WHERE z = x) AS w FROM a")
    ws.sql("INSERT INTO a VALUES (1); INSERT INTO b VALUES (1, 5), (3, 7), (3, 7)")
    with pytest.raises(SqlError, match="a subquery used as a value has several rows"):
        ws.sql("INSERT INTO b VALUES (1, 5)")
    with pytest.raises(SqlError, match="a subquery used as a value has several rows"):
        ws.sql("INSERT INTO a VALUES (3)")
    ws.sql("DELETE FROM b WHERE z = 3; INSERT INTO b VALUES (3, NULL); INSERT INTO a VALUES (3)")
    assert sorted(ws.sql("SELECT * FROM v") or ()) == [(1, 5), (3, None)]
    assert ws.check() == []


AROUND = [
    "SELECT (SELECT max(a.x)) FROM a", "SELECT y, (SELECT sum(a.x) FROM b) FROM a GROUP BY y",
    "SELECT y FROM a GROUP BY y HAVING (SELECT max(a.x)) > 2",
    "SELECT x FROM a WHERE EXISTS (SELECT count(a.x) FROM b)",
]  # fmt: skip


@pytest.mark.parametrize("text", AROUND)
def test_an_aggregate_of_the_query_around_is_refused(both: Any, text: str) -> None:
    with pytest.raises(SqlError, match="is an aggregate of the query around"):
        both[0].sql(text)


def test_pivot_on_a_condition_is_refused(both: Any) -> None:
    """DuckDB reads `x % 2 IN (0, 1)` as what is true or false, and takes the columns from it."""
    for one in ("x % 2", "x + 1", "-x", "x::VARCHAR || 'a'"):
        with pytest.raises(SqlError, match="asks whether"):
            both[0].sql(f"PIVOT a ON {one} IN (0, 1) USING sum(y)")
        ours, theirs = answers(*both, f"PIVOT a ON ({one}) IN (0, 1) USING sum(y)")
        assert ours == theirs or "VARCHAR" in one


def test_describe_says_what_duckdb_says(both: Any) -> None:
    table = (
        "CREATE TABLE d (a INTEGER PRIMARY KEY, b INTEGER UNIQUE DEFAULT 5, c VARCHAR NOT NULL "
        "DEFAULT 'x', f INTEGER, g INTEGER, h INTEGER CHECK (h > 0), UNIQUE (f, g))"
    )
    for one in both:
        (one.sql if one is both[0] else one.execute)(table)
    for text in ("DESCRIBE d", "DESCRIBE a", "DESCRIBE SELECT x, y + 1 AS n FROM a"):
        found, theirs = both[0].sql(text), both[1].execute(text)
        assert found.to_arrow().column_names == [name for name, *_ in theirs.description]
        assert [*found] == theirs.fetchall()
