"""Rules of SQL as trees: they are what their text parses to, with every place."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

import ivm
from ivm.lang.parse import parse
from ivm.lang.program import Program
from ivm.sql.trees import Trees

STATEMENTS = [
    "CREATE TABLE t (k INTEGER PRIMARY KEY, a INTEGER, b VARCHAR, d DECIMAL(8, 2), f DOUBLE,"
    " CHECK (a < 100 OR b IS NULL), UNIQUE (a, b))",
    "CREATE TABLE u (k INTEGER REFERENCES t (k), w DECIMAL(30, 4), at TIMESTAMP, day DATE)",
    "CREATE TABLE bag (x BIGINT, y VARCHAR)",
    "INSERT INTO t VALUES (1, 2, 'x', 1.50, 0.5), (2, NULL, NULL, NULL, NULL)",
    "SELECT (a + 1) * (k - -2) / 3, d * 2.5, f / 0.1, w + 1 FROM t JOIN u USING (k)",
    "SELECT * FROM t LEFT JOIN u ON t.k = u.k AND at > TIMESTAMP '2024-01-05 10:00:00.5+02'",
    "SELECT k FROM t WHERE NOT (a > 1 AND (b = 'q' OR d < 3.5)) OR a IS NULL",
    "SELECT k FROM t WHERE k NOT IN (SELECT k FROM u WHERE day < DATE '2024-01-05')",
    "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k OR u.w = 1)",
    "SELECT a, count(*), sum(d), max(b), avg(f) FROM t GROUP BY a HAVING sum(d) > 1 ORDER BY 2",
    "SELECT row_number() OVER (PARTITION BY a ORDER BY k), lag(b) OVER (ORDER BY k) FROM t",
    "SELECT x, y FROM bag UNION ALL SELECT a, b FROM t",
    "SELECT CASE WHEN a > 1 THEN 'it''s \"q\"\n' ELSE NULL END, (a < k) = (f < 'inf'::DOUBLE) FROM t",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r",
    "SELECT 123456789012345678901234.5 * w, TIME '10:00', '-inf'::DOUBLE, 'nan'::DOUBLE FROM u",
    "CREATE MATERIALIZED VIEW v AS SELECT a AS \"Order Date\", d FROM t",
    "CREATE MATERIALIZED VIEW lists AS SELECT a, list(k ORDER BY k) AS l FROM t GROUP BY a",
]  # fmt: skip


def same(one: Any, other: Any) -> bool:
    """Return whether two trees are equal, with their places."""
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if is_dataclass(one):
        parts = ((getattr(one, f.name), getattr(other, f.name)) for f in fields(one))
        return type(one) is type(other) and all(same(*pair) for pair in parts)
    return type(one) is type(other) and (one == other or one != one)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """The programs that SQL makes meanwhile."""
    found: list[Program] = []
    made: Callable[[Trees], Program] = Trees.program.fget  # type: ignore[attr-defined]

    def noting(trees: Trees) -> Program:
        found.append(made(trees))
        return found[-1]

    monkeypatch.setattr(Trees, "program", property(noting))
    return found


def test_trees_are_what_their_text_parses_to(seen: list[Program]) -> None:
    with ivm.open(":memory:") as ws:
        for text in STATEMENTS:
            before = len(seen)
            ws.sql(text)
            assert len(seen) > before or text.startswith(("CREATE TABLE bag", "INSERT")), text
    for program in seen:
        source = program.statements[0].where.source  # type: ignore[union-attr]
        assert same(program.statements, parse(program.text, source)), program.text


def test_no_text_of_rules_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: str, source: str = "rules") -> None:
        raise AssertionError(text)

    with ivm.open(":memory:") as ws:
        monkeypatch.setattr("ivm.lang.parse.parse", refuse)
        for text in STATEMENTS:
            ws.sql(text)
