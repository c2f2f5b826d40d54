"""Numbers of `generate_series` and `range` as a table: beside DuckDB, at a cost that their count
hardly changes.
"""

import duckdb
import pytest

import ivm
from tests.support.calls import functions_called

pytestmark = pytest.mark.usefixtures("unhurried")

QUERIES = [
    "SELECT * FROM generate_series(1, 5)",
    "SELECT * FROM range(5)",
    "SELECT * FROM range(10, 1, -3)",
    "SELECT * FROM generate_series(5, 1)",
    "SELECT count(*), sum(x) FROM generate_series(1, 100000) t(x)",
    "SELECT a.x, b.y FROM range(3) a(x), range(2) b(y)",
    "SELECT * FROM unnest(range(3)) t(x)",
    "SELECT x FROM range(4) t(x) WHERE x NOT IN (SELECT * FROM range(2))",
    "SELECT generate_series FROM generate_series(2, 4)",
    "SELECT x, (SELECT count(*) FROM range(3) r(y) WHERE y < x) FROM range(4) t(x)",
    "SELECT x, x % 3 FROM generate_series(-4, 4, 2) t(x) UNION ALL SELECT 1, 1",
]


@pytest.mark.parametrize("query", QUERIES)
def test_numbers_are_those_of_duckdb(query: str) -> None:
    with ivm.open(":memory:") as ws, duckdb.connect() as other:
        ws.sql(f"CREATE MATERIALIZED VIEW v AS {query.replace('count(*)', 'count(*) AS n', 1)}")
        right = sorted(other.sql(query).fetchall())
        assert sorted(ws.sql(query)) == right
        assert sorted(ws.sql("SELECT * FROM v")) == right
        assert not ws.check()


def test_more_numbers_cost_no_more_python() -> None:
    with ivm.open(":memory:", threads=1) as ws:

        def asked(most: int) -> int:
            return len(
                functions_called(
                    lambda: ws.sql(f"SELECT sum(x) FROM generate_series(1, {most}) t(x)")
                )
            )

        asked(1)
        assert asked(200_000) <= 1.1 * asked(2)
