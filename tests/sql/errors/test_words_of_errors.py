"""Errors of statements name what the statement has, and what to write instead, in the words of SQL."""

import pytest

import ivm
from ivm.errors import LimitError
from ivm.sql.errors import SqlError
from ivm.ways.recursion import facts

TYPES = {  # of columns that may reference one another, as each group says
    "whole numbers": ("SMALLINT", "INTEGER", "BIGINT", "UBIGINT"),
    "decimals of one scale": ("DECIMAL(8, 2)", "DECIMAL(10, 2)"),
    "decimals of another": ("DECIMAL(8, 1)",),
    "wide decimals": ("HUGEINT",),
    "texts": ("TEXT", "VARCHAR(10)"),
    "days": ("DATE",),
    "moments": ("TIMESTAMP",),
    "yes or no": ("BOOLEAN",),
}
KINDS = {type_: kind for kind, types in TYPES.items() for type_ in types}


@pytest.mark.parametrize("other", KINDS)
@pytest.mark.parametrize("own", KINDS)
def test_a_reference_of_another_type_is_refused_by_both_types(own, other):
    with ivm.open(":memory:") as ws:
        ws.sql(f"CREATE TABLE p (id {other} PRIMARY KEY)")
        statement = f"CREATE TABLE c (id INT PRIMARY KEY, k {own} REFERENCES p (id))"
        if KINDS[own] == KINDS[other]:
            ws.sql(statement)
            return
        with pytest.raises(
            SqlError, match=r"k is .*, and what it REFERENCES, p\.id, is .* one type"
        ):
            ws.sql(statement)


@pytest.mark.parametrize(
    "step, said",
    [
        ("SELECT DISTINCT n + 1 FROM r WHERE n < 9", "takes a row once in each step: write UNION"),
        (
            "SELECT n + 1 FROM r WHERE n < 9 GROUP BY n",
            "takes a row once in each step: write UNION",
        ),
        ("SELECT n + 1 FROM r LIMIT 3", "LIMIT in a recursive query: limit it by WHERE"),
        ("SELECT n + 1 FROM r WHERE n < 9 ORDER BY n", "ORDER BY in a recursive query: limit it"),
    ],
)
def test_what_is_said_of_all_rows_of_a_step_is_refused(step, said):
    with ivm.open(":memory:") as ws, pytest.raises(SqlError, match=said):
        ws.sql(f"WITH RECURSIVE r(n) AS (SELECT unnest([1, 2]) UNION ALL {step}) SELECT * FROM r")


@pytest.mark.parametrize("begins", ["", "CREATE MATERIALIZED VIEW v AS "])
@pytest.mark.parametrize("all_", ["", "ALL"])
def test_a_recursion_without_end_says_so_in_words_of_sql(begins, all_, monkeypatch):
    monkeypatch.setattr(facts, "ROUNDS_MAX", 1000)
    text = f"{begins}WITH RECURSIVE r(n) AS (SELECT 1 UNION {all_} SELECT n + 1 FROM r) SELECT * FROM r"
    with ivm.open(":memory:") as ws, pytest.raises(LimitError) as error:
        ws.sql(text)
    assert "WITH RECURSIVE goes beyond 1,000 rounds: it has 1,001 rows" in str(error.value)
    assert str(error.value).endswith("bound it, as by WHERE n < 100")
