"""Conditions reduce tables before these are joined: what a query takes, counted, grows as its
tables do.
"""

import random
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


CYCLES = {
    "one column is compared": "SELECT n.id, count(*) AS c, sum(l.v) AS s FROM l, o, c, s, n WHERE "
    "l.o = o.id AND o.c = c.id AND l.s = s.id AND c.n = s.n AND s.n = n.id AND n.x < 4 GROUP BY 1",
    "two columns are": "SELECT count(*) AS c, sum(l.v) AS s, avg(c.x) AS m, avg(l.v) AS w FROM "
    "l, o, c, s WHERE l.o = o.id AND o.c = c.id AND l.s = s.id AND c.n = s.n AND c.x = s.x",
    "nulls are equal": "SELECT c.n, avg(l.v) AS w, avg(s.x) AS a, max(s.x) AS m FROM l, o, c, s WHERE "
    "l.o = o.id AND o.c = c.id AND l.s = s.id AND c.n IS NOT DISTINCT FROM s.n GROUP BY c.n",
}


@pytest.mark.parametrize("what", CYCLES)
def test_a_cycle_of_keys_is_joined_by_columns(what: str, tmp_path: Path) -> None:
    """Each key leads to one row, and what else two relations share is compared; nulls of such
    columns, and of what is summed, as SQL has them.
    """
    drawn = random.Random(f"{what} 2")
    with ivm.open(tmp_path / "cycle.pages", threads=1, sync="off") as workspace:
        both = Both(workspace)
        for name, columns in {"l": "o, s, v", "o": "c", "c": "n, x", "s": "n, x", "n": "x"}.items():
            declared = ", ".join(f"{one.strip()} INTEGER" for one in columns.split(","))
            both.run(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, {declared})")
            rows = (
                [
                    n,
                    *(
                        drawn.choice([None, *range(6 if name in "lo" else 2)])
                        for _ in columns.split(",")
                    ),
                ]
                for n in range(300 if name == "l" else 7)
            )
            shown = ", ".join(f"({', '.join(map(str, row))})" for row in rows)
            both.run(f"INSERT INTO {name} VALUES {shown.replace('None', 'NULL')}")
        both.keep("v", CYCLES[what])
        both.compare()
        assert any(None not in row for row in workspace["v"])
        found = workspace.explain("v:part1")
        by_columns = "the blocks of l look up" in found and "'" in found
        assert by_columns == (what != "nulls are equal")  # a comparison, which opens no cycle
        for _ in range(30):
            name, column = drawn.choice(("l.o", "l.s", "l.v", "o.c", "c.n", "c.x", "s.n")).split(
                "."
            )
            value, least = drawn.choice(("NULL", 1, 4)), drawn.randrange(7)
            both.run(f"UPDATE {name} SET {column} = {value} WHERE id = {least}")
            both.compare()
    with ivm.open(tmp_path / "cycle.pages", threads=1, sync="off") as workspace:
        assert workspace.explain("v:part1").count("'") == found.count("'")  # as saved
        assert workspace.check() == []
        workspace.sql("UPDATE l SET v = 3 WHERE id < 50")
        assert workspace.check() == []


OFTEN = "(w.x = 3 OR w.y IN (SELECT y FROM b WHERE b.k < 9))"
OF_WIDE = (
    f"SELECT count(*) AS n, sum(w.x) AS s FROM w, u WHERE u.k = w.k AND {OFTEN}",
    f"SELECT w.x, sum(w.x + u.y) AS s, min(u.y) AS least FROM w, u WHERE u.k = w.k AND {OFTEN} GROUP BY w.x",
    f"SELECT u.x, count(DISTINCT w.y) AS n, avg(w.y) AS a FROM w, u WHERE u.k = w.x AND {OFTEN} GROUP BY u.x",
    f"SELECT bag.y, count(*) AS n, sum(w.x) FILTER (WHERE w.y > 2) AS s "
    f"FROM bag, w WHERE bag.x = w.k AND {OFTEN} GROUP BY 1",
    f"SELECT bag.y, string_agg(w.x, ',' ORDER BY w.x) AS l, median(w.y) AS m "
    f"FROM bag, w WHERE bag.x = w.k AND {OFTEN} GROUP BY 1",
    f"SELECT u.k, (SELECT max(w.y) FROM w WHERE w.x = u.x AND {OFTEN}) AS m FROM u",
    "SELECT sum(w.x) AS s FROM w WHERE w.x IS NULL OR EXISTS (SELECT * FROM b WHERE b.y = w.y AND b.k > w.x)",
)  # fmt: skip


def test_aggregates_over_alternatives_of_wide_tables_keep_what_they_read(tmp_path: Path) -> None:
    """Tables of 40 columns each, of which rules would keep more than tell rows apart."""
    more = ", ".join(f"c{n} INTEGER" for n in range(37))
    with ivm.open(tmp_path / "w.pages", threads=1, sync="off") as workspace:
        both = Both(workspace)
        both.run(TABLES[1])
        both.run("INSERT INTO b SELECT i, i % 5 FROM range(12) t(i)")
        for table in ("w", "u"):
            both.run(f"CREATE TABLE {table} (k INTEGER PRIMARY KEY, x INTEGER, y INTEGER, {more})")
            both.run(
                f"INSERT INTO {table} (k, x, y) "
                "SELECT i, nullif(i % 7, 5), nullif(i % 4, 2) FROM range(60) t(i)"
            )
        both.run(f"CREATE TABLE bag (x INTEGER, y INTEGER, {more})")
        both.run("INSERT INTO bag (x, y) SELECT i % 9, i % 2 FROM range(40) t(i)")
        for n, query in enumerate(OF_WIDE):
            both.keep(f"v{n}", query)
        for edit in (
            "DELETE FROM b WHERE y = 1", "UPDATE w SET x = 3 WHERE k % 5 = 1",
            "INSERT INTO b VALUES (18, 1), (20, NULL)", "UPDATE u SET y = NULL WHERE x = 2",
            "INSERT INTO bag (x, y) VALUES (3, 1), (3, 1), (NULL, 0)", "DELETE FROM w WHERE x = 6",
            "UPDATE b SET k = 30 WHERE k = 3", "DELETE FROM bag WHERE x = 4",
        ):  # fmt: skip
            both.run(edit)
            both.compare()
