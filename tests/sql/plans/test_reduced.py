"""Conditions reduce tables before these are joined: what a query takes, counted, grows as its
tables do.
"""

from pathlib import Path

import pytest

import ivm
from ivm.ways.way import Context
from tests.support.sql.oracle import Both

TABLES = (
    "CREATE TABLE a (id INTEGER PRIMARY KEY, k INTEGER, x INTEGER)",
    "CREATE TABLE b (k INTEGER PRIMARY KEY, y INTEGER)",
)
EDITS = (
    "DELETE FROM a WHERE id % 7 = 1", "UPDATE b SET y = NULL WHERE k = 3",
    "UPDATE a SET k = NULL WHERE id IN (4, 11)", "INSERT INTO a VALUES (1, 3, 3), (8, NULL, 1)",
    "UPDATE a SET k = 5 WHERE x = 2", "DELETE FROM b WHERE k = 5",
)  # fmt: skip
QUERIES = {
    "alternatives that join alike": "SELECT sum(a.id) AS s FROM a, b WHERE "
    "(a.k = b.k AND a.x = 1 AND b.y = 2) OR (a.x = 3 AND b.y = 4 AND (a.k = b.k))",
    "alternatives of two tables": "SELECT count(*) AS n FROM a, b, b c WHERE a.k = b.k AND "
    "a.x = c.k AND (a.id < 5 AND c.y = 1 OR a.id < 9 AND c.y = 2 AND b.y = 3)",
    "conditions on what an outer join keeps": "SELECT a.id, b.k, c.y FROM a JOIN b ON a.x = b.y "
    "LEFT JOIN b c ON c.k = a.k WHERE a.id < 20 AND b.k < 20",
    "rows of a key that differ": "SELECT count(*) AS n, sum(id) AS s FROM a WHERE EXISTS "
    "(SELECT * FROM a o WHERE o.x = a.x AND o.k <> a.k AND o.id < 99)",
    "no rows of a key that differ": "SELECT count(*) AS n, sum(id) AS s FROM a WHERE NOT EXISTS "
    "(SELECT * FROM a o WHERE o.x = a.x AND o.k <> a.k)",
    "rows of a key that are less": "SELECT count(*) AS n FROM a WHERE EXISTS "
    "(SELECT * FROM a o WHERE o.k = a.k AND o.id < a.id AND o.x = 3)",
}


@pytest.mark.parametrize("what", QUERIES)
def test_a_query_takes_operations_as_tables_have_rows(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = list[int]()

    def noted(_self: Context, _rule: object, operations: int) -> None:
        counted.append(operations)

    monkeypatch.setattr(Context, "note_operations", noted)
    found = []
    for size in (500, 2000):
        with ivm.open(tmp_path / f"{size}.pages", threads=1, sync="off") as workspace:
            both = Both(workspace)
            for statement in (
                *TABLES,
                f"INSERT INTO a SELECT i, i % {size // 10}, i % 7 FROM range({size}) t(i)",
                f"INSERT INTO b SELECT i, i % 5 FROM range({size // 10}) t(i)",
            ):
                both.run(statement)
            counted.clear()
            both.keep("v", QUERIES[what])
            found.append(sum(counted))
            for edit in EDITS if size == 500 else ():
                both.run(edit)
                both.compare()
    assert 0 < found[1] <= 6 * found[0]
