"""A value of each type given to each other type, as a constant and as a column, where DuckDB takes
it: the same value there, or refused.
"""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pytest

import ivm
from tests.support.sql.oracle import Both, rows_of

VALUES = {
    "i": "INTEGER 7",
    "d": "DECIMAL(4, 2) 1.50",
    "f": "DOUBLE 1e300",
    "n": "DOUBLE inf",
    "b": "BOOLEAN true",
    "s": "VARCHAR {}",
    "dt": "DATE 2024-01-31",
    "tm": "TIME 12:30:00.5",
    "ts": "TIMESTAMP 2024-01-31 10:00:00",
    "u": "UUID 00000000-0000-0000-0000-000000000005",
    "x": "BLOB a",
    "h": "HUGEINT 10000000000000000000000",
    "e": "ENUM('sad', 'ok') sad",
}
TYPES = ["UUID", "JSON", "BLOB", "DATE", "TIME", "TIMESTAMP", "BOOLEAN", "DOUBLE", "VARCHAR",
         "DECIMAL(30, 2)", "ENUM('ok', 'sad')"]  # fmt: skip
DOORS = {
    "INSERT INTO v VALUES (1, {})": "SELECT x FROM v",
    "INSERT INTO v SELECT 1, c FROM z": "SELECT x FROM v",
    "INSERT INTO v VALUES (1, NULL); UPDATE v SET x = {}": "SELECT x FROM v",
    "SELECT 1": "SELECT CAST({} AS TO)",
    "SELECT 2": "SELECT CAST(c AS TO) FROM z",
}
# that a column of texts, as which these are stored, is not converted to by itself
COLUMNS_OF = [("BLOB", "VARCHAR"), ("VARCHAR", "BLOB")]
BYTES = [("UUID", "BLOB"), ("ENUM", "BLOB"), ("BLOB", "JSON")]


@pytest.mark.parametrize("to", TYPES)
def test_a_value_has_one_meaning_in_another_type(to: str, tmp_path: Path) -> None:
    refused = []
    with ivm.open(tmp_path / "t.pages", threads=1, sync="off") as workspace:
        both = Both(workspace)
        for value, (edit, query) in product(VALUES.values(), DOORS.items()):
            own, _, text = value.replace(", ", ",").partition(" ")
            constant = f"CAST('{text}' AS {own})"
            both.run("DROP TABLE IF EXISTS v; DROP TABLE IF EXISTS z")
            both.run(f"CREATE TABLE v (k INTEGER PRIMARY KEY, x {to}); CREATE TABLE z (c {own})")
            both.run(f"INSERT INTO z VALUES ({constant})")
            case = [edit.format(constant), query.format(constant).replace("TO", to)]
            expected = outcome(both.duck.sql, "to_arrow_table", case)
            found = outcome(workspace.sql, "to_arrow", case)
            if found is None and expected is not None:
                refused.append((own.partition("(")[0], to))
            else:
                assert found == expected, case
    assert {*refused} <= {*COLUMNS_OF, *BYTES}


def outcome(run: Callable[[str], Any], as_table: str, statements: list[str]) -> Any:
    """Return the rows of the last statement, None if one has an error."""
    try:
        for statement in statements:
            answer = run(statement)
        return rows_of(getattr(answer, as_table)())
    except (duckdb.Error, ivm.IvmError):
        return None


GIVEN = [
    ("SELECT typeof(?) AS v, ? * 3 AS w, ? + i AS s, sum(? * i) OVER () AS t FROM t", 0.1),
    ("SELECT d = ? AS v, f = ? AS w, g = ? AS x, h = ? AS y, d IN (?, 2) AS z FROM t", 0.1),
    ("SELECT CAST(? AS INTEGER) AS v, round(?) AS w, round(?, 1) AS x", 2.5),
    ("SELECT CAST(? AS DECIMAL(8, 2)) AS v, CAST(? AS DECIMAL(30, 2)) AS w", 1.005),
    ("SELECT ? / 3 AS v, ? // 3 AS w, ? % 2 AS x, abs(?) AS y, ? || 'x' AS z", -7.0),
    ("SELECT count(*) AS v FROM t WHERE d < ? AND h < ? AND i < ?", 1.5),
    ("SELECT coalesce(NULL, ?) AS v, CASE WHEN i = 1 THEN ? ELSE d END AS w FROM t", 1.5),
    *[
        (f"UPDATE t SET {column} = ?; SELECT {column} FROM t", value)
        for column in "idfghs"
        for value in (2.5, 1.005, 0.1 + 0.2, 1e-7, 3.0)
    ],
]


def test_a_float_that_is_a_parameter_is_a_double(tmp_path: Path) -> None:
    with ivm.open(tmp_path / "t.pages", threads=1, sync="off") as workspace:
        both = Both(workspace)
        both.run(
            "CREATE TABLE t (k INTEGER PRIMARY KEY, i INTEGER, d DECIMAL(8, 2), f DOUBLE, g FLOAT, "
            "h DECIMAL(30, 5), s VARCHAR); INSERT INTO t VALUES (1, 1, 0.1, 0.1, 0.1, 0.1, 'a')"
        )
        for text, value in GIVEN:
            for statement in text.split("; "):
                values = [value] * statement.count("?")
                expected = both.duck.execute(statement, values)
                found = workspace.sql(statement, values or None)
            assert found is not None
            assert rows_of(found.to_arrow()) == rows_of(expected.to_arrow_table()), (text, value)


def test_a_type_before_a_text_is_a_cast(tmp_path: Path) -> None:
    with ivm.open(tmp_path / "t.pages", threads=1, sync="off") as workspace:
        both = Both(workspace)
        for value in VALUES.values():
            own, _, text = value.replace(", ", ",").partition(" ")
            if "(" not in own:
                both.ask(f"SELECT {own} '{text}' AS v")
        both.ask("""SELECT JSON '{"a": 1}' AS v, JSON '[1]' IS NULL AS w, JSON '[2]' ->> 0 AS x""")
