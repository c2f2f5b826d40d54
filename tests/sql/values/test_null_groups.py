"""Groups whose key is computed and null, and functions of texts that are null, beside DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import ivm

ROWS = """
CREATE TABLE emp (id INTEGER PRIMARY KEY, name VARCHAR, dept INTEGER, boss INTEGER);
CREATE TABLE sale (emp INTEGER, qty INTEGER);
INSERT INTO emp VALUES (1, 'Ada', 10, NULL), (2, 'Bob', 10, 1), (3, 'Cy', 20, 1), (4, NULL, 20, 3),
    (5, 'Eve', NULL, 2), (6, 'ada', 30, 9), (7, NULL, 10, 1), (8, NULL, 30, 9);
INSERT INTO sale VALUES (1, 3), (1, 4), (2, 5), (4, 6), (6, NULL)
"""
KEYS = (
    "dept", "nullif(dept, 10)", "CASE WHEN id > 3 THEN dept END", "nullif(name, 'Bob')",
    "dept, nullif(boss, 1)", "TRY_CAST(name AS INTEGER)", "nullif(id > 2, true)", "upper(name)",
)  # fmt: skip
FOLDS = (
    "arg_max(name, id)", "arg_min(id, id)", "arg_max(name, id) FILTER (WHERE id < 6)", "mad(id)",
    "mode(id % 1)", "round(entropy(name), 6)", "median(id)", "string_agg(name, ',' ORDER BY id)",
    "list(id ORDER BY id)", "first(id ORDER BY boss, id)", "any_value(id % 1)", "max_by(id, id)",
    "count(DISTINCT name)", "sum(DISTINCT boss)", "max(id, 2)", "arg_max(id, id, 2)",
    "quantile_disc(id, 0.5)", "bool_or(id > 4)", "sum(id) FILTER (WHERE id > 3)", "min(name)",
)  # fmt: skip


@pytest.fixture(scope="module")
def both() -> tuple[ivm.Workspace, Any]:
    ws, duck = ivm.open(":memory:", threads=1), duckdb.connect()
    ws.sql(ROWS)
    duck.execute(ROWS)
    return ws, duck


def agree(both: Any, text: str) -> None:
    ws, duck = both
    assert sorted(map(repr, ws.sql(text))) == sorted(map(repr, duck.execute(text).fetchall())), text


@pytest.mark.parametrize("key", KEYS)
def test_a_group_whose_key_is_null_has_its_values(both: Any, key: str) -> None:
    agree(both, f"SELECT {key}, {', '.join(FOLDS)} FROM emp GROUP BY ALL")
    for fold in FOLDS[:6]:
        agree(both, f"SELECT {key}, {fold} AS v FROM emp GROUP BY ALL")


CONDITIONS = (
    "upper(e.name) = 'ADA'", "e.name LIKE 'A%'", "e.name ILIKE 'a%'", "length(e.name) = 3",
    "e.name || 'x' <> 'Adax'", "left(e.name, 1) > 'A'", "e.name >= 'B'", "e.name[1] = 'A'",
    "e.name IS NOT NULL AND reverse(e.name) <> 'boB'", "upper(e.name) IN ('ADA', 'EVE')",
    "regexp_matches(e.name, 'd')", "NOT starts_with(e.name, 'A')",
)  # fmt: skip
READS = (
    "SELECT e.id, (SELECT sum(s.qty) FROM sale s WHERE s.emp = e.id) AS q FROM emp e WHERE {}",
    "SELECT e.id, avg(e.id) OVER () AS z FROM emp e WHERE {}",
    "SELECT e.id, s.qty FROM emp e LEFT JOIN sale s ON s.emp = e.id WHERE {}",
    "SELECT e.id, b.id FROM emp e JOIN emp b ON e.boss = b.id JOIN sale s ON s.emp = b.id WHERE {}",
)


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_functions_of_texts_that_are_null_where_tables_are_joined(
    both: Any, read: str, condition: str
) -> None:
    agree(both, read.format(condition))
