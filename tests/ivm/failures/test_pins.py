"""A question or a refused edit that is over pins no version: the pages of versions are free again
at once, not when Python next collects what refers to itself.
"""

import gc
import warnings
from contextlib import suppress

import pytest

import ivm
from ivm.errors import IvmError
from pagestore.errors import PagestoreError

RULES = """next[x] = y -> int(x), int(y). name(x, y) -> string(x), int(y). next[x] = y -> y < 50.
first[x] = n <- agg<<n = min(y)>> name(x, y)."""
TABLES = """CREATE TABLE q (a BIGINT PRIMARY KEY, b SMALLINT NOT NULL, CHECK (b > 0));
CREATE TABLE r (a BIGINT REFERENCES q (a)); INSERT INTO q VALUES (1, 1); INSERT INTO r VALUES (1)"""
STATEMENTS = [
    "SELECT * FROM q",
    "SELECT x FROM name WHERE x < 'f' ORDER BY x",
    "SELECT y, max(x), count(DISTINCT x) FROM name GROUP BY y",
    "SELECT a FROM q WHERE a IN (SELECT y FROM name)",
    "EXPLAIN SELECT x FROM name",
    "SELECT zz FROM q",
    "SELECT 1 FROM zz",
    "SELECT a + 9223372036854775807 FROM q",
    "SELECT CAST('x' AS INT) FROM q",
    "SELECT (SELECT v FROM (VALUES (1), (2)) s(v)) FROM q",
    "CREATE VIEW v AS SELECT zz FROM q",
    "INSERT INTO q VALUES ('x', 1)",
    "INSERT INTO q VALUES (1, 2)",
    "INSERT INTO q SELECT a + 1, b * 70000 FROM q",
    "INSERT INTO r VALUES (9)",
    "UPDATE q SET b = 0",
    "DELETE FROM q",
    "MERGE INTO q USING (VALUES (1, 'x')) s(a, b) ON q.a = s.a WHEN MATCHED THEN UPDATE SET b = s.b",
]
CALLS = {
    "read": lambda ws: [*ws["name"]],
    "read one": lambda ws: next(iter(ws["name"])),
    "arrow": lambda ws: ws["name"].to_arrow(),
    "view": lambda ws: [*ws["first"]],
    "query": lambda ws: ws.query('s(x) <- name(x, _), x > "b".'),
    "unknown": lambda ws: ws.query("s(x) <- nope(x)."),
    "check": lambda ws: ws.check(),
    "prepared": lambda ws: ws.prepare_sql("SELECT * FROM name WHERE x = ?").execute(["t1"]),
    "column": lambda ws: ws.set("next", ("x", 1)),
    "columns": lambda ws: ws.insert("next", [{"x": "u", "y": "v"}]),
    "conflict": lambda ws: ws.insert("next", [(1, 2), (1, 3)]),
    "constraint": lambda ws: ws.insert("next", (1, 60)),
    "mistakes": lambda ws: ws.install("s(x) <- nope(x). t(x) <- nor(x).", name="b"),
}
CASES = CALLS | {text: lambda ws, text=text: ws.sql(text) for text in STATEMENTS}


@pytest.fixture(scope="module")
def ws(tmp_path_factory):
    with ivm.open(tmp_path_factory.mktemp("pins") / "s.pages", sync="off", threads=1) as workspace:
        workspace.install(RULES)
        workspace.sql(TABLES)
        workspace.insert("name", [(f"t{n}", n) for n in range(300)])
        yield workspace


@pytest.mark.parametrize("case", CASES)
def test_what_is_over_pins_no_version(ws, case):
    locks = ws.store._handle.locks
    gc.collect()
    gc.disable()
    try:
        assert not locks.pins
        with warnings.catch_warnings(), suppress(IvmError, PagestoreError):
            warnings.simplefilter("ignore")
            CASES[case](ws)
        assert not locks.pins
    finally:
        gc.enable()
