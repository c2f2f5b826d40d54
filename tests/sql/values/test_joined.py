"""What FROM means where commas, USING and the sides of joins come together, beside DuckDB; and in
which order other dialects show the columns.
"""

from pathlib import Path

import duckdb
import pytest

import ivm
from tests.support.sql.oracle import Both

TABLES = """
    CREATE TABLE a (x INTEGER, k INTEGER, y INTEGER);
    INSERT INTO a VALUES (1, 2, 3), (7, 8, 9), (1, NULL, 3);
    CREATE TABLE b (z INTEGER, k INTEGER, w INTEGER); INSERT INTO b VALUES (4, 3, 5), (4, 2, 5), (2, 9, 1);
    CREATE TABLE c (v INTEGER, w INTEGER, k INTEGER); INSERT INTO c VALUES (6, 5, 3), (1, 5, 9), (8, 1, NULL);
    CREATE TABLE d (k BIGINT, s VARCHAR); INSERT INTO d VALUES (3, 'd'), (5000000000, 'e')
"""
MEANT = [
    "a, b JOIN c USING (k)",
    "a, b LEFT JOIN c USING (k)",
    "a, b FULL JOIN c USING (k)",
    "a, b NATURAL JOIN c",
    "a, b NATURAL FULL JOIN c",
    "a, b SEMI JOIN c USING (k)",
    "a, b ANTI JOIN c USING (k)",
    "a, b ASOF LEFT JOIN c USING (w, k)",
    "a, b LEFT JOIN c ON a.k = c.k",
    "a, b RIGHT JOIN c ON b.k = c.k AND b.w > 1",
    "a, b FULL JOIN c ON b.k = c.k, d",
    "a FULL JOIN b USING (k), c FULL JOIN d USING (k)",
    "a, (SELECT z, k FROM b) q FULL JOIN c USING (k)",
    "a JOIN b JOIN c USING (w) ON a.k = b.k",
    "a LEFT JOIN b JOIN c ON b.w = c.w ON a.k = b.k",
    "a JOIN (b JOIN c USING (w, k)) USING (k)",
    "a FULL JOIN (b FULL JOIN c USING (w, k)) USING (k)",
    "a FULL JOIN b USING (k) SEMI JOIN c USING (k)",
    "a RIGHT JOIN b USING (k) ANTI JOIN c USING (k)",
    "a RIGHT JOIN b USING (k) ASOF LEFT JOIN c USING (k)",
    "a NATURAL SEMI JOIN b",
    "a NATURAL ANTI JOIN b",
    "a SEMI JOIN c ON x = v OR a.k IN (SELECT k FROM b)",
    "a SEMI JOIN (b JOIN c USING (w)) ON x < v AND z > 1",
    "a ASOF JOIN c ON x >= v",
    "a FULL JOIN d USING (k)",
]
REFUSED = {
    "a CROSS JOIN b JOIN c USING (k)": "USING (k) may mean a.k and b.k",
    "a CROSS JOIN b NATURAL JOIN d": "USING (k) may mean a.k and b.k",
    "c JOIN (a CROSS JOIN b) USING (k)": "USING (k) may mean a.k and b.k",
    "a CROSS JOIN b SEMI JOIN c USING (k)": "USING (k) may mean a.k and b.k",
    "a SEMI JOIN c USING (v)": "both tables need a column v",
    "a ASOF JOIN c USING (k, w)": "both tables need a column w",
    "a ANTI JOIN c ON a.x = k": "k is ambiguous: write one of a.k, c.k",
    "a ASOF JOIN c ON k >= c.v": "k is ambiguous: write one of a.k, c.k",
}


def test_joins_mean_what_they_mean_in_duckdb(tmp_path: Path) -> None:
    with ivm.open(tmp_path / "t.pages", threads=1, sync="off") as workspace:
        both = Both(workspace)
        both.run(TABLES)
        for number, joined in enumerate(MEANT):
            both.ask(f"SELECT * FROM {joined}")
            both.keep(f"v{number}", f"SELECT * FROM {joined}")
        both.ask("SELECT k, typeof(k) FROM a FULL JOIN d USING (k)")
        both.compare()
        both.run(
            "DELETE FROM b WHERE k = 3; UPDATE c SET k = 8 WHERE v = 1; INSERT INTO b VALUES (6, 8, 5)"
        )
        both.compare()


@pytest.mark.parametrize("kind", ["SEMI", "ANTI"])
def test_a_subquery_on_the_right_is_translated_once(kind: str) -> None:
    """Also where its columns are named with their table, as then nothing is looked up in it."""
    counts = []
    grouped = "(SELECT k, count(*) AS n FROM b GROUP BY k)"
    for right in ("b", grouped):
        workspace = ivm.open(":memory:")
        workspace.sql(TABLES)
        workspace.sql(
            f"CREATE MATERIALIZED VIEW v AS SELECT a.x FROM a {kind} JOIN {right} q ON a.k >= q.k"
        )
        counts.append(len([*workspace.rules_of(workspace.store.snapshot()).rules]))
    assert counts[1] == counts[0] + 1


@pytest.mark.parametrize("joined", REFUSED)
def test_names_that_may_mean_several_columns_are_refused(joined: str) -> None:
    workspace, duck = ivm.open(":memory:"), duckdb.connect()
    workspace.sql(TABLES)
    duck.execute(TABLES)
    with pytest.raises(ivm.IvmError, match=REFUSED[joined].replace("(", r"\(").replace(")", r"\)")):
        workspace.sql(f"SELECT * FROM {joined}")
    with pytest.raises(duckdb.Error):
        duck.execute(f"SELECT * FROM {joined}")


SHOWN = {  # by the columns that PostgreSQL 15.18 and Spark 4.3.0 show
    "* FROM a JOIN b USING (k)": ("k x y z w", "k x y z w"),
    "* FROM a NATURAL LEFT JOIN b": ("k x y z w", "k x y z w"),
    "* FROM a FULL JOIN b USING (k)": ("k x y z w", "k x y z w"),
    "* FROM a JOIN b USING (k) JOIN c USING (w)": ("w k x y z v k_1", "w k x y z v k_1"),
    "* FROM a JOIN b USING (k) JOIN c USING (k)": ("k x y z w v w_1", "k x y z w v w_1"),
    "* FROM b JOIN c USING (w, k)": ("w k z v", "w k z v"),
    "* FROM a JOIN (b JOIN c USING (k)) USING (k)": ("k x y z w v w_1", "k x y z w v w_1"),
    "* FROM a, b JOIN c USING (k)": ("x k y k_1 z w v w_1", "k x y z k_1 w v w_1"),
    "a.* FROM a JOIN b USING (k)": ("x k y", "k x y"),
    "b.* FROM a JOIN b USING (k) JOIN c USING (w)": ("z k w", "k w z"),
    "c.* FROM a JOIN b USING (k) JOIN c USING (w)": ("v w k", "w v k"),
    "b.* FROM a RIGHT JOIN b USING (k)": ("z k w", "k z w"),
}


def test_postgres_and_spark_show_columns_of_using_first() -> None:
    workspace = ivm.open(":memory:")
    workspace.sql(TABLES)
    for query, shown in SHOWN.items():
        for dialect, names in zip(("postgres", "spark"), shown, strict=True):
            answer = workspace.sql(f"SELECT {query}", dialect=dialect)
            assert answer is not None and answer.to_arrow().column_names == names.split(), query


def test_sqlite_and_spark_join_tables_as_they_come() -> None:
    """A comma is a join like others, and a name of USING is that of the first table that has it."""
    workspace = ivm.open(":memory:")
    workspace.sql(TABLES)
    for dialect in ("sqlite", "spark"):
        for query, rows in (
            (
                "SELECT x, z, v FROM a, b LEFT JOIN c USING (k) WHERE y = 9 AND z = 4",
                [(7, 4, None)] * 2,
            ),
            ("SELECT x, z, v FROM a, b FULL JOIN c ON b.k = c.k WHERE v > 6", [(None, None, 8)]),
        ):
            answer = workspace.sql(query, dialect=dialect)
            assert answer is not None and sorted(answer) == rows, (dialect, query)
