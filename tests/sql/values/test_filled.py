"""Random expressions in questions and in statements that edit, beside DuckDB: each has the same
values and leaves the same rows, or is refused and changes nothing.

The default suite takes a sample; `-m campaign` takes thousands.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import pytest

import ivm
from ivm.errors import IvmError
from tests.support.programs.amounts import times
from tests.support.sql.filled import FORMS, expression, filled
from tests.support.sql.oracle import Both, rows_of

TABLES = [
    "CREATE TABLE t (id INTEGER PRIMARY KEY, i INTEGER, m DECIMAL(8,2), f DOUBLE, s VARCHAR, d DATE, "
    "t TIMESTAMP, b BOOLEAN, l INTEGER[])",
    "CREATE TABLE p (i INTEGER PRIMARY KEY, s VARCHAR UNIQUE, m DECIMAL(8,2) NOT NULL DEFAULT 1.5, "
    "f DOUBLE DEFAULT 0.5 + 1, d DATE, CHECK (m < 1000 OR f IS NULL))",
    "CREATE TABLE c (i INTEGER, s VARCHAR, f DOUBLE, b BOOLEAN)",
    "INSERT INTO t VALUES (1, 0, 4.75, 1.5, '', '2024-02-29', '2024-02-29 23:59:59.999999', true, [1, 2]), "
    "(2, 7, -14.99, -2.75, 'abc', '1970-01-01', '1969-12-31 23:59:59.5', false, []), "
    "(3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), "
    "(4, -6, 99999.99, 1e17, ' Äé ', '2023-12-31', '2023-03-26 02:30:00', true, [NULL, 5]), "
    "(5, 40, 45, 0.1, 'a,b,,c', '2000-01-31', '2000-01-01 00:00:01', NULL, [3, 1, 2, 1])",
    "INSERT INTO p VALUES (1, 'a', 1, 1, '2024-01-31'), (2, 'b', 2.5, NULL, NULL), (3, NULL, 3, 0.5, NULL)",
    "INSERT INTO c VALUES (1, 'a', 0.5, true), (1, 'a', 0.5, true), (2, NULL, 1.5, false), (NULL, 'b', NULL, NULL)",
]  # fmt: skip
T = [("id", "i"), *((name, name) for name in "imfsdtbl")]
P = [(f"p.{name}", name) for name in "ismfd"]
C = [(f"c.{name}", name) for name in "isfb"]
Q = [(f"q.{name}", name) for name in "ismf"]
SOURCE = (
    "(SELECT i, min(s) AS s, max(m) AS m, max(f) AS f FROM (SELECT {i} AS i, {s} AS s, {m} AS m, "
    "{f} AS f FROM c WHERE {b}) GROUP BY i) AS q"
)
NEW = [
    "INSERT INTO p (i, s, m) VALUES ({k}, {s}, 2), ({k} + 5, {s}, {m})",
    "INSERT INTO c SELECT {i}, {s}, {f}, {b} FROM c WHERE {b}",
    "INSERT INTO p (m, i) SELECT {m}, {i} FROM c WHERE {b}",
    "WITH w AS (SELECT * FROM c WHERE {b}) INSERT INTO c (s, i) SELECT {s}, {i} FROM w AS c",
    "INSERT INTO p VALUES ({k}, {s}, 7, DEFAULT, {d}) ON CONFLICT (i) DO NOTHING",
    "INSERT INTO p (i, m) VALUES ({k}, 8) ON CONFLICT (i) DO UPDATE SET f = excluded.m + {f}",
]
OF_P = [
    "UPDATE p SET f = {f}, d = {d} WHERE {b}", "UPDATE p SET i = {i} WHERE {b}",
    "UPDATE p SET s = {s}, m = DEFAULT WHERE {b}", "DELETE FROM p WHERE {b}",
    "DELETE FROM p WHERE i IN (SELECT c.i FROM c WHERE c.s = p.s OR {b})",
]  # fmt: skip
OF_C = ["UPDATE c SET i = {i}, b = {b} WHERE {b}", "DELETE FROM c WHERE {b}"]
OF_BOTH = [
    f"MERGE INTO p USING {SOURCE} ON p.i = q.i WHEN MATCHED AND {{b}} THEN DELETE WHEN MATCHED THEN "
    "UPDATE SET f = {f} WHEN NOT MATCHED THEN INSERT (i, m) VALUES (q.i, DEFAULT)",
    f"UPDATE p SET f = {{f}}, s = q.s FROM {SOURCE} WHERE p.i = q.i AND {{b}}",
    f"DELETE FROM p USING {SOURCE} WHERE p.i = q.i AND {{b}}",
]
RETURNED = ["", "", " RETURNING *", " RETURNING {f} AS x, {s} AS y"]
# what DuckDB refuses, or counts, otherwise than docs/sql.md says
OWN = ("several rows", "two rows with one key", "NOT NULL", "are not compared", "is not converted")


def a_statement(chance: random.Random) -> str:
    """Return a statement that edits p or c."""
    forms, columns = chance.choice([(NEW, C), (OF_P, P), (OF_C, C), (OF_BOTH, [*P, *Q])])
    form = chance.choice(forms)
    of_p = (
        form.split(" WHERE")[0].split(" USING")[0].split(" SET")[0].endswith("p")
        or "INTO p" in form
    )
    before, within, after = form.partition(SOURCE)
    inside = filled(chance, within, C, 1)
    given = [] if "VALUES (" in form and forms is NEW else columns
    plain = [(name.split(".")[1], type_) for name, type_ in (P if of_p else C)]
    whole = filled(chance, before, given, 1) + inside + filled(chance, after, given, 1)
    return whole + filled(chance, chance.choice(RETURNED), plain, 1)


def answered(run: Any, text: str) -> tuple[Counter[Any] | None, str]:
    """Return the rows of a statement, or None and what refuses it."""
    try:
        return rows_of(run(text)), ""
    except (IvmError, duckdb.Error) as error:
        return None, str(error)


@contextmanager
def tables() -> Iterator[tuple[ivm.Workspace, Both]]:
    """A workspace with the tables, alone and beside DuckDB."""
    with ivm.open(":memory:", threads=1) as workspace:
        both = Both(workspace)
        for text in TABLES:
            both.run(text)
        yield workspace, both


def ask(seed: int, number: int) -> list[str]:
    """Ask for random expressions of each type; return where the values differ."""
    chance, wrong = random.Random(seed), []
    with tables() as (workspace, both):
        for _ in range(number):
            value = expression(chance, chance.choice([*FORMS]), T, 3)
            query = f"SELECT id, {value} AS v FROM t"
            expected, _ = answered(lambda q: both.duck.execute(q).to_arrow_table(), query)
            found, words = answered(lambda q: workspace.sql(q).to_arrow(), query)
            if None not in (expected, found) and expected != found:
                wrong.append(f"{query}\n  {expected - found}\n  {found - expected}")
            elif expected is not None and found is None and "has no value" not in words:
                wrong.append(f"{query}\n  {words}") if "beyond" not in words else None
    return wrong


def edit(seed: int, number: int) -> list[str]:
    """Run random statements; return where rows, or what is left, differ."""
    chance, wrong = random.Random(seed), []
    with tables() as (workspace, both):
        for _ in range(number):
            text = a_statement(chance)
            both.duck.execute("BEGIN")
            expected, _ = answered(lambda q: both.duck.execute(q).to_arrow_table(), text)
            version = workspace.store.version
            workspace.sql("BEGIN")
            found, words = answered(lambda q: workspace.sql(q).to_arrow(), text)
            left = [rows_of(workspace.sql(f"FROM {name}").to_arrow()) for name in "pc"]
            if None not in (expected, found):
                wanted = [
                    rows_of(both.duck.execute(f"FROM {name}").to_arrow_table()) for name in "pc"
                ]
                counted = "RETURNING" not in text and " FROM (" in text
                if left != wanted or (expected != found and not counted):
                    wrong.append(f"{text}\n  {expected} {wanted}\n  {found} {left}")
            elif found is None and expected is not None and not any(one in words for one in OWN):
                wrong.append(f"{text}\n  {words}") if "no value" not in words else None
            workspace.sql("ROLLBACK")
            both.duck.execute("ROLLBACK")
            assert workspace.store.version == version
    return wrong


def test_random_expressions_have_duckdbs_values() -> None:
    assert ask(1, times(150)) == []


def test_random_edits_leave_duckdbs_rows() -> None:
    assert edit(1, times(80)) == []


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_random_expressions_and_edits(seed: int) -> None:
    assert ask(seed, 1_000) + edit(seed, 500) == []
