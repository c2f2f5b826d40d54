"""Rows of a query as a list, GROUPING without sets, and parts of texts: what DuckDB answers, asked
and kept, before and after an edit.
"""

from collections.abc import Iterator

import pytest

import ivm
from tests.support.sql.oracle import Both, rows_of

TABLES = (
    "CREATE TABLE a (id INTEGER PRIMARY KEY, k INTEGER, x INTEGER, s VARCHAR)",
    "CREATE TABLE b (id INTEGER PRIMARY KEY, k INTEGER, y INTEGER, t VARCHAR)",
    "INSERT INTO a VALUES (1, 1, 10, 'p'), (2, 1, NULL, 'q'), (3, 2, 30, NULL), (4, NULL, 40, '')",
    "INSERT INTO b VALUES (1, 1, 10, 'p'), (2, 2, NULL, 'q'), (3, 2, 30, 'abcdef'), (4, 1, 5, NULL)",
)
LISTS = (
    "ARRAY(SELECT y FROM b WHERE b.k = a.k ORDER BY id)", "ARRAY(SELECT y FROM b WHERE b.k = a.k)",
    "ARRAY(SELECT y FROM b WHERE b.k = a.k ORDER BY y DESC NULLS LAST LIMIT 1)",
    "len(ARRAY(SELECT y FROM b WHERE b.k = a.k))", "ARRAY(SELECT DISTINCT k FROM b ORDER BY k)",
    "ARRAY(SELECT y FROM b WHERE false)", "ARRAY(SELECT 1 UNION ALL SELECT 2)",
    "ARRAY(SELECT k FROM b GROUP BY k ORDER BY k)", "ARRAY((SELECT y FROM b ORDER BY id))",
    "ARRAY(WITH q AS (SELECT y FROM b) SELECT y FROM q ORDER BY y)", "[(SELECT max(y) FROM b)]",
    "ARRAY(SELECT t FROM b WHERE b.k = a.k ORDER BY id)[1]", "x = ANY (ARRAY(SELECT y FROM b))",
    "x <> ALL (ARRAY(SELECT y FROM b WHERE b.k = a.k))",
    "ARRAY(SELECT {'y': y, 't': t} FROM b WHERE b.k = a.k ORDER BY id)",
    "(SELECT list(v) FROM (SELECT y FROM b ORDER BY y LIMIT 2) q(v))",
)  # fmt: skip
GROUPS = (
    "SELECT k, grouping(k) AS g, count(*) AS c FROM a GROUP BY k",
    "SELECT k, grouping(k, s) AS g, grouping_id(s, k) AS h FROM a GROUP BY k, s",
    "SELECT grouping(k + 1) AS g FROM a GROUP BY k + 1",
    "SELECT k FROM a GROUP BY k HAVING grouping(k) = 0",
)
PLACES = ("", "-3", "-1", "0", "1", "2", "5", "7")


@pytest.fixture
def both() -> Iterator[Both]:
    with ivm.open(":memory:") as ws:
        made = Both(ws)
        for statement in TABLES:
            made.run(statement)
        yield made


@pytest.mark.parametrize("term", LISTS)
def test_the_rows_of_a_query_are_a_list(both: Both, term: str) -> None:
    both.keep("v", f"SELECT id, {term} AS r FROM a")
    both.run("INSERT INTO b VALUES (5, 1, 40, 'z'), (6, 3, 30, 'y')")
    both.run("DELETE FROM b WHERE id = 2")
    both.compare()


@pytest.mark.parametrize("term", [t for t in LISTS if t[0] in "Ax" and "{" not in t])
def test_postgres_has_the_same_lists(both: Both, term: str) -> None:
    query = f"SELECT id, {term} AS r FROM a"
    found = both.workspace.sql(query, dialect="postgres").to_arrow()
    assert rows_of(found) == rows_of(both.duck.execute(query).to_arrow_table())


def test_an_array_of_no_query_is_refused(both: Both) -> None:
    with pytest.raises(ivm.IvmError, match="values are written as ARRAY"):
        both.workspace.sql("SELECT array(1) AS r", dialect="postgres")


@pytest.mark.parametrize("query", GROUPS)
def test_grouping_needs_no_sets(both: Both, query: str) -> None:
    both.keep("v", query)
    both.compare()


@pytest.mark.parametrize("clause", ["k", "ROLLUP (k)"])
def test_grouping_of_what_is_no_group_is_refused(both: Both, clause: str) -> None:
    with pytest.raises(ivm.IvmError, match="GROUPING takes what GROUP BY has, and not s"):
        both.workspace.sql(f"SELECT grouping(s) FROM a GROUP BY {clause}")


@pytest.mark.parametrize("low", PLACES)
@pytest.mark.parametrize("high", PLACES)
def test_a_part_of_a_text_is_duckdbs_or_refused(both: Both, low: str, high: str) -> None:
    query = f"SELECT id, t[{low}:{high}] AS r FROM b ORDER BY id"
    try:
        both.ask(query)
    except ivm.IvmError as error:
        assert "a text is cut by constant places from 1 on" in str(error)
        assert "-" in low + high or low == "0"
