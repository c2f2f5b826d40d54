"""Random window functions over frames, partitions and orders with nulls, for comparison with
DuckDB.

function    numbers, ranks, neighbours, first, last and n-th values, aggregates, with FILTER and IGNORE NULLS
frame       none, ROWS, RANGE, GROUPS, with offsets on both sides, EXCLUDE
order       by a key alone, with ties and nulls, descending, nulls first, texts, truths, dates; none
"""

from __future__ import annotations

import random
from dataclasses import dataclass

TABLES = {
    "t": "id INTEGER PRIMARY KEY, p INTEGER, x INTEGER, s VARCHAR, b BOOLEAN, d DATE, f DOUBLE",
    "q": "id INTEGER, p INTEGER, x INTEGER, s VARCHAR, b BOOLEAN, d DATE, f DOUBLE",
}
ENDS = ["UNBOUNDED PRECEDING", "2 PRECEDING", "1 PRECEDING", "CURRENT ROW", "1 FOLLOWING",
    "2 FOLLOWING",
        "UNBOUNDED FOLLOWING"]  # fmt: skip


@dataclass
class Windows:
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
        table, kind = r.choice("ttq"), r.random()
        if kind < 0.55:
            rows = ", ".join(f"({', '.join(self._row(table))})" for _ in range(r.randint(1, 3)))
            return f"INSERT {'OR IGNORE ' if table == 't' else ''}INTO {table} VALUES {rows}"
        where = r.choice(
            ["x IS NULL", f"x = {r.randint(0, 2)}", f"id = {r.randint(0, 4)}", "s IS NULL", "p = 1"]
        )
        if kind < 0.8:
            column = r.randint(1, 6)
            name = TABLES[table].split(", ")[column].split()[0]
            return f"UPDATE {table} SET {name} = {self._row(table)[column]} WHERE {where}"
        return f"DELETE FROM {table} WHERE {where}"

    def _row(self, table: str) -> list[str]:
        r = self.random
        key = str(r.randint(0, 5)) if table == "t" or r.random() < 0.8 else "NULL"
        return [
            key,
            r.choice(["NULL", "0", "1"]),
            r.choice(["NULL", "0", "1", "2", "4"]),
            r.choice(["NULL", "'a'", "'b'", "''"]),
            r.choice(["NULL", "true", "false"]),
            r.choice(["NULL", "DATE '2020-01-01'", "DATE '2020-01-02'", "DATE '2020-01-04'"]),
            r.choice(["NULL", "0.5", "1.5", "-2.0"]),
        ]

    # -- queries

    def query(self) -> str:
        """Return a query."""
        r = self.random
        table = r.choice("tttq")
        source = r.choice([
            f"{table} a", f"{table} a", f"{table} a",
            f"(SELECT DISTINCT p AS id, p, x, s, b, d, f FROM {table}) a",
            f"(SELECT * FROM {table} WHERE x IS NULL) a",
        ])  # fmt: skip
        items = ", ".join(f"{self._window(source)} AS w{n}" for n in range(r.choice([1, 1, 2])))
        columns = r.choice(["a.id, a.x, a.p", "a.id", "a.s, a.b", "a.x, a.f"])
        query = f"SELECT {columns}, {items} FROM {source}"
        return r.choice(
            [
                query,
                query,
                query,
                f"SELECT w0, count(*) AS n FROM ({query}) z GROUP BY w0",
                f"{query} QUALIFY w0 IS NULL",
                f"SELECT DISTINCT w0 FROM ({query}) z",
            ]
        )

    def _window(self, source: str) -> str:
        r = self.random
        part = r.choice(["", "", "PARTITION BY p ", "PARTITION BY b ", "PARTITION BY x + 1, s "])
        unique = source.startswith("t ")  # so that the order of rows is known
        kind = r.choice(["", "", "ROWS", "ROWS", "RANGE", "GROUPS"])
        folds = kind in ("RANGE", "GROUPS") or not unique or r.random() < 0.35
        order = self._order("" if folds and kind != "ROWS" else ", id") if unique or folds else ""
        if kind == "ROWS" and not unique:
            kind = ""
        frame = self._frame(kind) if kind else ""
        if kind == "RANGE" and ("1 " in frame or "2 " in frame):
            order = f"ORDER BY {r.choice(['x', 'id', 'x + 1', 'f'])}"
            order += r.choice(["", " DESC"]) + r.choice(["", " NULLS FIRST"])
        if kind == "GROUPS" and not order:
            order = "ORDER BY x"
        return f"{self._fold() if folds else self._placed(bool(frame))} OVER ({part}{order}{frame})"

    def _order(self, last: str) -> str:
        r = self.random
        if not last and r.random() < 0.15:
            return ""
        key = (
            r.choice(["x", "x", "s", "b", "d", "f", "coalesce(x, 1)"])
            if r.random() < 0.8 or not last
            else ""
        )
        if not key:
            return f"ORDER BY id{r.choice(['', ' DESC'])}"
        return f"ORDER BY {key}{r.choice(['', ' DESC'])}{r.choice(['', ' NULLS FIRST', ' NULLS LAST'])}{last}"

    def _frame(self, kind: str) -> str:
        r = self.random
        low, high = sorted((r.randrange(7), r.randrange(7)))
        if low == 6:
            low = 3
        if high == 0:
            high = 4
        exclude = r.choice(["", "", "", " EXCLUDE CURRENT ROW", " EXCLUDE TIES", " EXCLUDE GROUP"])
        return f" {kind} BETWEEN {ENDS[low]} AND {ENDS[high]}{exclude}"

    def _fold(self) -> str:
        """Return a function whose value does not depend on the order of rows that are alike."""
        r = self.random
        column = r.choice("xxfid")
        fold = r.choice([
            "count(*)", "count(x)", f"sum({column})" if column in "xf" else "sum(id)", "min(s)",
            "max(x)", "avg(x)",
            "max(d)", "bool_and(b)", "count(DISTINCT x)", "sum(1)", "count(7)", "max(2)", "min(b)",
            "count(DISTINCT 7)",
        ])  # fmt: skip
        if r.random() < 0.2:
            return f"{fold} FILTER (WHERE {r.choice(['x > 0', 's IS NULL', 'b'])})"
        return r.choice(
            [fold, fold, fold, fold, "rank()", "dense_rank()", "cume_dist()", "percent_rank()"]
        )

    def _placed(self, framed: bool) -> str:
        """Return a function that depends on the order of the rows."""
        r = self.random
        column = r.choice(["x", "x", "s", "b", "d", "id", "x + 1"])
        nulls = r.choice(["", "", " IGNORE NULLS"])
        return r.choice(
            [
                f"first_value({column}{nulls})",
                f"last_value({column}{nulls})",
                f"last_value({column})",
                f"nth_value({column}, {r.randint(1, 3)}{nulls})",
                f"first_value({column})",
                f"nth_value({column}, 2)",
                f"lag({column}{nulls})",
                f"lead({column}, 2)",
                f"lag({column}, 1, {column})",
                "row_number()",
                "ntile(2)",
                f"lead({column}, 0)",
                f"lag({column}, -1)",
            ]
        )
