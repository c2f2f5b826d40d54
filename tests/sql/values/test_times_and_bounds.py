"""Intervals with fractions, functions that make intervals and moments, and LIMIT of expressions,
beside DuckDB.
"""

from pathlib import Path

import pytest

import ivm
from tests.support.sql.oracle import Both

TABLE = "CREATE TABLE t (id INTEGER PRIMARY KEY, i INTEGER, s VARCHAR, dt DATE, ts TIMESTAMP)"
ROWS = """INSERT INTO t VALUES (1, 1, '2020', '2020-02-29', '2020-02-29 10:11:12.5'), (2, NULL, 'x', '2021-03-01',
 '2021-03-31 23:59:59'), (3, -3, '', '1999-12-31', '1999-12-31'), (4, 5, '2021-02-03', NULL, NULL)"""
INTERVALS = (
    "'1.5 hours'", "'2.5 days'", "'0.5 minutes'", "'1.5 years'", "'1.5 months'", "'1 day 2.5 hours'", "'-1.5 months'",
    "'1.25 weeks'", "'2.5 decades'", "'1.5' HOUR", "1.5 HOUR", "'-1.5' DAY", "'2' DAY", "'1 year 1.5 days'",
)  # fmt: skip
UNITS = (
    "to_microseconds", "to_milliseconds", "to_seconds", "to_minutes", "to_hours", "to_days", "to_weeks", "to_months",
    "to_quarters", "to_years", "to_decades",
)  # fmt: skip
VALUES = [
    *(f"ts + INTERVAL {one}" for one in INTERVALS),
    *(f"dt - INTERVAL {one}" for one in INTERVALS),
    *(f"ts + {one}(i)" for one in UNITS),
    "dt + to_centuries(id)",
    "dt - to_millennia(1)",
    "try_strptime(s, '%Y')",
    "try_strptime(s, ['%Y', '%Y-%m-%d'])",
    "strptime('2020-01-02', ['%Y', '%Y-%m-%d'])",
    "make_timestamptz(2020, id, 2, 3, 4, 5.5)",
    "make_timestamptz(id)",
    "make_timestamptz(2020, id, 2, 3, 4, 5.5, 'UTC')",
    "ts + (-INTERVAL '1 hour')",
    "dt + -INTERVAL 2 MONTH",
    "dt + -to_days(i)",
]
BOUNDS = (
    "1 + 1",
    "2 OFFSET 1 + 1",
    "2 * (1 + 1) - 1",
    "CAST('2' AS INTEGER)",
    "(2)",
    "0 + 0",
    "NULL",
)
WRONG = ("-1", "2.5", "'a'", "i", "1 - 2")


@pytest.fixture
def both(tmp_path: Path) -> Both:
    """A workspace and a DuckDB with a table of moments."""
    found = Both(ivm.open(tmp_path / "t.pages", threads=1, sync="off"))
    found.duck.execute("SET TimeZone = 'UTC'")
    found.run(TABLE)
    found.run(ROWS)
    return found


def test_values_are_those_of_duckdb_and_follow_edits(both: Both) -> None:
    both.keep(
        "v", f"SELECT id, {', '.join(f'{one} AS c{n}' for n, one in enumerate(VALUES))} FROM t"
    )
    both.compare()
    both.run("UPDATE t SET i = 2, s = '1999', ts = '2024-02-29 12:00:00' WHERE id IN (2, 4)")
    both.compare()


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_bound_of_rows_is_computed(both: Both, bound: str) -> None:
    both.ask(f"SELECT id FROM t ORDER BY id LIMIT {bound}")


@pytest.mark.parametrize("bound", WRONG)
def test_a_bound_that_is_no_whole_number_is_refused(both: Both, bound: str) -> None:
    with pytest.raises(ivm.IvmError, match="LIMIT and OFFSET take whole numbers"):
        both.workspace.sql(f"SELECT id FROM t ORDER BY id LIMIT {bound}")


BEGUN = """
    y yrs year years mon mons month d day days dayofmonth h hrs hour m min mins minute s sec second ms msec
    millisecond us usec microseconds dec decade c cent century mil millennium w weeks weekofyear quarter dow weekday
    dayofweek doy dayofyear isodow isoyear yearweek epoch julian
"""
PARTS = [unit for unit in BEGUN.split() if unit not in ("isoyear", "julian", "epoch")]
CALLS = (
    "date_part('{}', {})", "datepart('{}', {})", "date_diff('{}', {}, dt)", "datediff('{}', dt, {})",
    "date_sub('{}', {}, dt)",
)  # fmt: skip
MOMENTS = ("ts", "dt", "ts::TIMESTAMPTZ", "TIMESTAMP '1969-12-31 23:59:59.999999'")


def test_a_unit_has_every_name_that_duckdb_gives_it() -> None:
    """An unknown one is refused, and not null under TRY."""
    with ivm.open(":memory:") as ws:
        both = Both(ws)
        both.duck.execute("SET TimeZone = 'UTC'")
        for statement in (TABLE, ROWS):
            both.run(statement)
        for moment in MOMENTS:
            terms = ", ".join(f"TRY(date_trunc('{unit}', {moment}))" for unit in BEGUN.split())
            found = ws.sql(f"SELECT {terms} FROM t ORDER BY id")
            rows = both.duck.execute(f"SELECT {terms} FROM t ORDER BY id").fetchall()
            assert [*(found or ())] == rows, moment
        for unit in ("era", "foo", "timezone"):
            with pytest.raises(ivm.IvmError, match=f"date_trunc of {unit.upper()} is not"):
                ws.sql(f"SELECT TRY(date_trunc('{unit}', ts)) FROM t")


@pytest.mark.parametrize("call", CALLS)
def test_a_part_and_a_difference_take_the_names_of_units(call: str) -> None:
    with ivm.open(":memory:") as ws:
        both = Both(ws)
        for statement in (TABLE, ROWS):
            both.run(statement)
        for moment in ("ts", "dt", "TIMESTAMP '1969-12-31 23:59:59.999999'"):
            terms = ", ".join(call.format(unit, moment) for unit in PARTS)
            found = ws.sql(f"SELECT {terms} FROM t ORDER BY id")
            rows = both.duck.execute(f"SELECT {terms} FROM t ORDER BY id").fetchall()
            assert [*(found or ())] == rows, moment
