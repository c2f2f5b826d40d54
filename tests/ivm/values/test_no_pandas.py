"""No statement of SQL imports pandas, which Arrow's own ways from Python and to numpy do where it is
installed: a quarter of a second. Only moments with a zone do, as they become objects of Python.
"""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from importlib.abc import MetaPathFinder

class Refusing(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "pandas":
            import traceback
            sys.stderr.write("".join(traceback.format_stack()))
            sys.stderr.flush()
            import os
            os._exit(3)

sys.meta_path.insert(0, Refusing())
import ivm
ws = ivm.open(sys.argv[1])
for statement in sys.stdin.read().split(";"):
    print(statement, list(ws.sql(statement)) if statement.split()[0] != "CREATE" else ws.sql(statement))
"""
STATEMENTS = """
CREATE TABLE t (id INT PRIMARY KEY, p DECIMAL(10, 2), s TEXT, f DOUBLE, d DATE, at TIMESTAMP,
    l INT[], m STRUCT(a INT, b TEXT), b BOOLEAN, u UBIGINT, y TIME, x BLOB);
INSERT INTO t VALUES (1, 2.5, 'abc', 1.5, DATE '2024-01-02', TIMESTAMP '2024-01-02 03:04:05', [1, 2],
    {'a': 1, 'b': 'x'}, true, 7, TIME '01:02:03', 'x'::BLOB);
INSERT INTO t (id) VALUES (2), (3);
CREATE TABLE w (id INT, s TEXT);
INSERT INTO w VALUES (1, 'a'), (1, 'b'), (3, NULL);
CREATE MATERIALIZED VIEW v AS SELECT id, sum(p) AS total, max(d) AS last FROM t GROUP BY id;
CREATE MATERIALIZED VIEW n AS SELECT id, string_agg(s, '-' ORDER BY s) AS names FROM w GROUP BY id;
SELECT * FROM t;
SELECT * FROM v;
SELECT * FROM n;
SELECT * FROM w;
SELECT id, sum(p), avg(p), min(f), max(d), count(*), median(p), stddev(f) FROM t GROUP BY id;
SELECT upper(s), s || 'x', substring(s, 1, 2), replace(s, 'a', 'b'), lpad(s, 5, 'x') FROM t;
SELECT regexp_replace(s, 'a', 'b'), s LIKE '%b%', s LIKE 'abc', s ILIKE 'A%' FROM t;
SELECT string_split(s, 'b'), regexp_extract_all(s, 'a'), split_part(s, 'b', 1) FROM t;
SELECT year(d), date_trunc('month', at), at + INTERVAL 1 DAY, strftime(at, '%Y'), at - at FROM t;
SELECT list_sum(l), l[1], list_sort(l), list_transform(l, x -> x + 1), [id, 2] FROM t;
SELECT {'a': id, 'b': s}, MAP {'x': id}, unnest(l) FROM t;
SELECT TRY_CAST(s AS INT), f::DECIMAL(10, 2), id::VARCHAR, p * 2.5, p / 3, round(f, 1) FROM t;
SELECT row_number() OVER (ORDER BY id), lag(s) OVER (ORDER BY id) FROM t;
SELECT t.id, w.s FROM t LEFT JOIN w ON t.id = w.id WHERE p > 1.5 AND d >= DATE '2024-01-01';
SELECT DISTINCT s FROM w UNION SELECT s FROM t ORDER BY s LIMIT 2;
UPDATE t SET p = p + 1.25, s = 'z', d = DATE '2025-01-01' WHERE id = 1;
DELETE FROM t WHERE s IS NULL;
INSERT INTO w VALUES (9, 'x') RETURNING id;
SHOW TABLES;
DESCRIBE t;
EXPLAIN SELECT * FROM t
"""


def test_no_statement_imports_pandas(tmp_path):
    pytest.importorskip("pandas")  # else nobody could import it
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path / "s.pages"],
        input=STATEMENTS,
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stdout[-300:] + done.stderr
    assert "(Decimal('3.75')" not in done.stdout  # before the update, everything was read
    assert "Decimal('2.50')" in done.stdout
