"""What INSERT and UPDATE of each dialect give to a column of another type, as SQLite 3.40.1, Spark
4.3.0 and PostgreSQL 15.18 do, however a statement is asked.
"""

from decimal import Decimal
from typing import Any

import pytest

import ivm

REFUSED = "refused"
GIVEN: dict[tuple[str, Any], tuple[Any, Any, Any]] = {  # in sqlite, spark and postgres
    ("INTEGER", Decimal("2.7")): (REFUSED, 2, 3),
    ("INTEGER", Decimal("-2.5")): (REFUSED, -2, -3),
    ("INTEGER", 2.5): (REFUSED, 2, 2),
    ("INTEGER", 3.0): (3, 3, 3),
    ("INTEGER", float("inf")): (REFUSED, REFUSED, REFUSED),
    ("BIGINT", 7): (7, 7, 7),
    ("VARCHAR", Decimal("1.50")): ("1.5", "1.50", "1.50"),
    ("VARCHAR", 1e20): ("1.0e+20", "1.0E20", "1e+20"),
    ("VARCHAR", True): ("1", "true", "true"),
    ("VARCHAR", 5): ("5", "5", "5"),
    ("BOOLEAN", 1): (True, True, True),
    ("BOOLEAN", 2): (REFUSED, True, True),
    ("DOUBLE", 5): (5.0, 5.0, 5.0),
    ("DECIMAL(6, 2)", 1.5): (Decimal("1.50"), Decimal("1.50"), Decimal("1.50")),
}
DOORS = (
    "INSERT INTO t VALUES (1, ?)",
    "INSERT INTO t SELECT 1, ?",
    "INSERT INTO t SELECT 1, x FROM (SELECT ? AS x) AS q",
    "INSERT INTO t VALUES (1, NULL) ON CONFLICT (k) DO UPDATE SET v = ?",
    "UPDATE t SET v = ? WHERE k = 1",
    "UPDATE t SET (k, v) = (1, ?)",
)


@pytest.mark.parametrize(("type_", "value"), GIVEN)
def test_a_column_is_given_what_its_dialect_gives(type_: str, value: Any) -> None:
    for dialect, expected in zip(("sqlite", "spark", "postgres"), GIVEN[type_, value], strict=True):
        workspace = ivm.open(":memory:")
        workspace.sql(f"CREATE TABLE t (k INTEGER PRIMARY KEY, v {type_})")
        for door in DOORS:
            for _ in range(3):  # the third time by the key
                workspace.sql("DELETE FROM t")
                if not door.startswith("INSERT INTO t VALUES (1, ?)") and "SELECT" not in door:
                    workspace.sql("INSERT INTO t VALUES (1, NULL)")
                try:
                    workspace.sql(door, [value], dialect)
                    found = [v for _, v in workspace.sql("SELECT * FROM t")]
                except ivm.IvmError:
                    found = [REFUSED]
                assert found == [expected], (dialect, door)


def test_or_replace_of_sqlite_is_another_row() -> None:
    workspace = ivm.open(":memory:")
    workspace.sql("CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER DEFAULT 7, b TEXT)")
    for dialect, row in (("duckdb", (1, 3, "x")), ("sqlite", (1, 7, "y"))):
        workspace.sql("DELETE FROM t; INSERT INTO t VALUES (1, 3, 'x')")
        text = f"INSERT OR REPLACE INTO t (k, b) VALUES (1, '{row[2]}')"
        for _ in range(3):
            workspace.sql(text, dialect=dialect)
            assert [*workspace["t"]] == [row]
