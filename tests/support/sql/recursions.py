"""Random recursive queries over columns with nulls, for comparison with DuckDB.

first rows    a key, a column with nulls, a constant null, groups
step          joins of either order, outer joins, arithmetic, what makes null of a value, negations of other tables
UNION         ALL with a counter, else as it is
read          as they are, counted, joined outward, negated, where null
"""

from __future__ import annotations

import random
from dataclasses import dataclass

TABLES = {"t": "id INTEGER PRIMARY KEY, x INTEGER, s VARCHAR", "g": "a INTEGER, b INTEGER"}
FIRST = [
    "SELECT id, x FROM t", "SELECT x, id FROM t", "SELECT x, 0 FROM t WHERE id = 1", "SELECT 1, 2",
    "SELECT a, b FROM g", "SELECT NULL::INTEGER, 1", "SELECT max(id), 0 FROM t",
    "SELECT x, count(*)::INTEGER FROM t GROUP BY x",
    "SELECT DISTINCT a, 1 FROM g WHERE b IS NOT NULL", "SELECT id, id FROM t",
]  # fmt: skip
JOINS = [
    "r JOIN t e ON r.c0 = e.id", "t e JOIN r ON e.id = r.c0", "r, t e WHERE r.c1 = e.x",
    "t e, r WHERE e.x = r.c0",
    "r LEFT JOIN t e ON r.c0 = e.id", "r JOIN t e ON r.c0 IS NOT DISTINCT FROM e.x",
    "t e RIGHT JOIN r ON e.x = r.c0",
    "r JOIN (SELECT DISTINCT a AS id, b AS x FROM g) e ON r.c0 = e.id",
    "r JOIN t e ON r.c0 = e.id OR r.c1 IS NULL",
    "r LEFT JOIN (SELECT DISTINCT a AS id, b AS x FROM g) e ON r.c0 = e.id AND r.c0 = r.c0",
]  # fmt: skip
ITEMS = ["e.x", "e.id", "r.c0", "r.c1", "NULL", "nullif(r.c0, 2)", "coalesce(e.x, 0)",
    "e.x + r.c1 - r.c1",
         "CASE WHEN r.c0 > 1 THEN e.x END", "coalesce(r.c0, r.c1)"]  # fmt: skip
TESTS = ["r.c0 IS NOT NULL", "e.x IS NULL", "r.c0 = r.c0",
    "NOT EXISTS (SELECT 1 FROM g z WHERE z.a = r.c0)",
         "r.c0 IN (SELECT b FROM g)", "e.id NOT IN (SELECT a FROM g WHERE a > 0)",
         "r.c1 < 3"]  # fmt: skip


@dataclass
class Recursions:
    """Makes queries and edits from a seed."""

    seed: int

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def schema(self) -> list[str]:
        """Return the CREATE TABLE statements."""
        return [f"CREATE TABLE {name} ({columns})" for name, columns in TABLES.items()]

    def edit(self) -> str:
        """Return one INSERT, UPDATE or DELETE."""
        r = self.random
        number = ["NULL", "0", "1", "2", "3"]
        kind = r.random()
        if kind < 0.3:
            return f"INSERT OR IGNORE INTO t VALUES ({r.randint(0, 3)}, {r.choice(number)}, 'a')"
        if kind < 0.5:
            return f"INSERT INTO g VALUES ({r.choice(number)}, {r.choice(number)})"
        if kind < 0.75:
            return f"UPDATE t SET x = {r.choice(number)} WHERE id = {r.randint(0, 3)}"
        return r.choice(
            [
                f"DELETE FROM t WHERE id = {r.randint(0, 3)}",
                "DELETE FROM g WHERE a IS NULL",
                f"DELETE FROM g WHERE b = {r.randint(0, 3)}",
            ]
        )

    def query(self) -> str:
        """Return a query."""
        r = self.random
        every = r.random() < 0.35
        items, joined, names = f"{r.choice(ITEMS)}, {r.choice(ITEMS)}", r.choice(JOINS), "c0, c1"
        tests = [r.choice(TESTS)] if r.random() < 0.4 else []
        first = r.choice(FIRST)
        if every:
            names, items, tests = "c0, c1, d", f"{items}, r.d + 1", [*tests, "r.d < 2"]
            first = first.replace(" FROM", ", 0 FROM") if " FROM" in first else f"{first}, 0"
        word = "AND" if " WHERE " in joined else "WHERE"
        where = f" {word} {' AND '.join(tests)}" if tests else ""
        step = f"SELECT {items} FROM {joined}{where}"
        union = "UNION ALL" if every else "UNION"
        return f"WITH RECURSIVE r({names}) AS ({first} {union} {step}) {self._read()}"

    def _read(self) -> str:
        return self.random.choice(
            [
                "SELECT * FROM r",
                "SELECT c0 FROM r",
                "SELECT count(*) AS n, count(c0) AS m FROM r",
                "SELECT c0 FROM r WHERE c0 IS NULL",
                "SELECT c0, count(*) AS n FROM r GROUP BY c0",
                "SELECT c0, c1 FROM r WHERE NOT EXISTS (SELECT 1 FROM t z WHERE z.x = r.c0)",
                "SELECT r.c0, t.id FROM r LEFT JOIN t ON t.id = r.c0",
                "SELECT id FROM t WHERE x NOT IN (SELECT c0 FROM r)",
                "SELECT t.id, r.c1 FROM t FULL JOIN r ON t.x = r.c0",
                "SELECT x FROM t EXCEPT SELECT c0 FROM r",
                "SELECT p.c0, o.c1 FROM r p JOIN r o ON p.c0 = o.c1",
            ]
        )
