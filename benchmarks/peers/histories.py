"""Random histories of a view: a query over two small tables, transactions of a few edits, and the
rows that the query has after each, by Python's own SQLite.
"""

import random
import sqlite3
from typing import Any, NamedTuple

SCHEMA = (
    "CREATE TABLE t (k INTEGER PRIMARY KEY, g INTEGER, v INTEGER)",
    "CREATE TABLE u (k INTEGER PRIMARY KEY, g INTEGER, w INTEGER)",
)
VIEWS = {
    "filter": "SELECT k, v FROM t WHERE v > {c}",
    "projection": "SELECT g FROM t",
    "case": "SELECT k, CASE WHEN v > {c} THEN v + 1 ELSE 0 END AS x FROM t",
    "distinct": "SELECT DISTINCT g FROM t",
    "join": "SELECT t.k, u.w FROM t JOIN u ON t.g = u.g WHERE t.v > {c}",
    "self-join": "SELECT a.k AS x, b.k AS y FROM t AS a JOIN t AS b ON a.g = b.g WHERE a.v < b.v",
    "left join": "SELECT t.k, u.w FROM t LEFT JOIN u ON t.g = u.g",
    "count and sum": "SELECT g, count(*) AS n, sum(v) AS s FROM t GROUP BY g",
    "least and greatest": "SELECT g, min(v) AS lo, max(v) AS hi FROM t GROUP BY g",
    "whole table": "SELECT count(*) AS n, sum(v) AS s FROM t",
    "count distinct": "SELECT g, count(DISTINCT v) AS n FROM t GROUP BY g",
    "having": "SELECT g, count(*) AS n FROM t GROUP BY g HAVING count(*) > 1",
    "sum of a join": "SELECT u.w, sum(t.v) AS s FROM t JOIN u ON t.g = u.g GROUP BY u.w",
    "union": "SELECT g FROM t UNION SELECT g FROM u",
    "union all": "SELECT g FROM t UNION ALL SELECT g FROM u",
    "except": "SELECT g FROM t EXCEPT SELECT g FROM u",
    "not exists": "SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.g = t.g)",
    "not in": "SELECT k FROM t WHERE v NOT IN (SELECT w FROM u WHERE u.g = {c})",
    "scalar": "SELECT k, (SELECT max(w) FROM u WHERE u.g = t.g) AS m FROM t",
    "row number": "SELECT k, row_number() OVER (PARTITION BY g ORDER BY k) AS place FROM t",
    "recursion": "WITH RECURSIVE r(k) AS (SELECT k FROM t WHERE v = {c} "
    "UNION SELECT t.k FROM t JOIN r ON t.g = r.k) SELECT k FROM r",
}
TRANSACTIONS, EDITS_MAX, KEYS = 6, 4, 8

Row = tuple[Any, ...]


class History(NamedTuple):
    """A view by its kind, the statements of each transaction, the rows (table, row, 1 or -1) that
    these add or take, and the view's rows after each.
    """

    kind: str
    query: str
    statements: list[list[str]]
    changes: list[list[tuple[str, Row, int]]]
    truth: list[list[Row]]


def history(seed: int) -> History:
    """Return the history of a seed; kinds of views take turns."""
    chance = random.Random(seed)
    kind = [*VIEWS][seed % len(VIEWS)]
    query = VIEWS[kind].format(c=chance.randrange(-1, 3))
    rows: dict[str, dict[int, Row]] = {"t": {}, "u": {}}
    made = History(kind, query, [], [], [])
    with sqlite3.connect(":memory:") as connection:
        for statement in SCHEMA:
            connection.execute(statement)
        for number in range(TRANSACTIONS):
            made.statements.append([])
            made.changes.append([])
            for _ in range(8 if number == 0 else chance.randint(1, EDITS_MAX)):
                statement, changes = edit(chance, rows)
                made.statements[-1].append(statement)
                made.changes[-1].extend(changes)
                connection.execute(statement)
            made.truth.append(connection.execute(query).fetchall())
    return made


def edit(
    chance: random.Random, rows: dict[str, dict[int, Row]]
) -> tuple[str, list[tuple[str, Row, int]]]:
    """Return a statement that inserts, updates or deletes a row, and what it adds and takes."""
    name = chance.choice("ttu")
    key = chance.randrange(KEYS)
    old = rows[name].pop(key, None)
    if old and chance.random() < 0.5:
        return f"DELETE FROM {name} WHERE k = {key}", [(name, old, -1)]
    g, value = (chance.choice([None, 0, 1, 1, 2]), chance.choice([None, -1, 0, 1, 2, 3]))
    row = rows[name][key] = (key, g, value)
    column, (a, b) = "v" if name == "t" else "w", map(_literal, row[1:])
    if old:
        text = f"UPDATE {name} SET g = {a}, {column} = {b} WHERE k = {key}"
        return text, [(name, old, -1), (name, row, 1)]
    return f"INSERT INTO {name} VALUES ({key}, {a}, {b})", [(name, row, 1)]


def _literal(value: Any) -> str:
    return "NULL" if value is None else str(value)
