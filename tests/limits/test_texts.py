"""Texts that an evaluation makes are part of the memory that it may take."""

import pytest

import ivm

MEMORY = 8 << 20
# statements of which each would make more texts than MEMORY, by what makes them
BEYOND = {
    "one text": "SELECT length(repeat('a', 9000000))",
    "one filled up": "SELECT length(lpad('a', 9000000, 'b'))",
    "one by replacing": "SELECT length(replace(repeat('a', 9000), 'a', repeat('b', 1000)))",
    "joined": "SELECT length(t || t || t) FROM (SELECT repeat('a', 4000000) t)",
    "many": "SELECT DISTINCT repeat('a', 100000) || x FROM e",
    "by Arrow": "SELECT max(length(upper(repeat('a', 50000) || x))) FROM e",
    "formatted": "SELECT length(format('{}{}{}', t, t, t)) FROM (SELECT repeat('a', 3000000) t)",
    "doubled": """WITH RECURSIVE r (n, t) AS (SELECT 1, 'a' UNION ALL SELECT n + 1, t || t FROM r
        WHERE n < 60) SELECT max(length(t)) FROM r""",
    "doubled lists": """WITH RECURSIVE r (n, t) AS (SELECT 1, [1] UNION ALL
        SELECT n + 1, list_concat(t, t) FROM r WHERE n < 60) SELECT max(len(t)) FROM r""",
    "aggregated": "SELECT string_agg(repeat('a', 30000) || x, ',' ORDER BY x) FROM e",
    "of groups": """SELECT a.x, string_agg(repeat('a', 200) || b.x, ',' ORDER BY b.x)
        FROM e a, e b GROUP BY a.x""",
    "one shown often": "SELECT repeat('a', 100000) || e.x % 2, e.x FROM e",
    "one repeated": "SELECT repeat('a', 1000) FROM e a, e b",
    "rows repeated": "SELECT 1 FROM e a, e b, e c WHERE c.x < 10",
    "stored": "INSERT INTO s SELECT repeat('a', 100000) || x FROM e",
}


@pytest.fixture(scope="module")
def workspace():
    with ivm.open(":memory:", threads=1, memory=MEMORY) as ws:
        ws.sql("CREATE TABLE e (x INT); CREATE TABLE s (t TEXT)")
        ws.insert("e", [(i,) for i in range(300)])
        yield ws


@pytest.mark.parametrize("made", BEYOND)
def test_texts_beyond_the_memory_allowed_are_an_error(workspace, made):
    with pytest.raises(ivm.errors.RoomError, match=r"text|making a table|repeating rows"):
        workspace.sql(BEYOND[made])
    assert [*workspace.sql("SELECT count(*), count(t) FROM e LEFT JOIN s ON true")] == [(300, 0)]


def test_functions_of_many_texts_are_computed_by_slices(workspace):
    rows = [*range(3000)]
    with ivm.open(":memory:") as ws:
        ws.sql("CREATE TABLE n (x INT PRIMARY KEY, t TEXT)")
        ws.insert("n", [(i, f"t{i % 700}") for i in rows])
        found = ws.sql("SELECT x, reverse(t), upper(t), t LIKE '%1' || (x % 5) FROM n ORDER BY x")
        for x, back, upper, like in found:
            text = f"t{x % 700}"
            assert (back, upper) == (text[::-1], text.upper())
            assert like == text.endswith(f"1{x % 5}")
