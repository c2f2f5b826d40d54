"""Random joins over sides that are empty, null, totals or full of equal rows, for comparison with
DuckDB.

side: a table with a key, a bag, one that stays empty, a total, groups, distinct rows, UNION ALL, a
join kind: inner, outer, semi, anti, lateral, nearest, EXISTS, IN and their negations
ON:   equations, constants, conditions on one side alone, on none, comparisons of nulls
and what is made of the rows: as they are, distinct, counted, grouped, numbered, in a union or a
subquery
"""

from __future__ import annotations

import random
from dataclasses import dataclass

TABLES = {
    "t": "id INTEGER PRIMARY KEY, x INTEGER, s VARCHAR",
    "q": "id INTEGER, x INTEGER, s VARCHAR",
    "e": "id INTEGER PRIMARY KEY, x INTEGER, s VARCHAR",
}
SIDES = [
    "t", "t", "q", "q", "e",
    "(SELECT sum(x) AS x, max(s) AS s, count(*) AS id FROM {t} WHERE id > 1)",
    "(SELECT max(id) AS id, min(x) AS x, max(s) AS s FROM {t})",
    "(SELECT x, count(*) AS id, max(s) AS s FROM {t} GROUP BY x)",
    "(SELECT DISTINCT x, s, x + 1 AS id FROM {t})",
    "(SELECT x, s, NULL::INTEGER AS id FROM {t})",
    "(SELECT id, x, s FROM {t} UNION ALL SELECT x, x, s FROM {u})",
    "(SELECT id, x, s FROM {t} UNION SELECT x, id, NULL FROM {u})",
    "(SELECT id, x, s FROM {t} EXCEPT SELECT id, x, s FROM {u})",
    "(SELECT 1 AS id, NULL::INTEGER AS x, 'a' AS s)",
    "(VALUES (1, 2, 'a'), (NULL, NULL, NULL), (1, 2, 'a')) {a}(id, x, s)",
    "(SELECT m.id, n.x, m.s FROM {t} m LEFT JOIN {u} n ON m.x = n.id)",
    "(SELECT m.id, n.x, n.s FROM {t} m FULL JOIN {u} n ON m.id = n.x)",
    "(SELECT id, x, s FROM {t} ORDER BY id NULLS LAST, x, s LIMIT 2)",
    "(SELECT id, x, s FROM {t} WHERE x IS NULL)",
]  # fmt: skip
NEAREST = [  # of equally near rows any may be taken: there are none, or they are equal
    "(SELECT DISTINCT x, s, x + 1 AS id FROM {t})",
    "(SELECT x, s, x AS id FROM {t})",
    "(SELECT x, s, max(id) AS id FROM {t} GROUP BY x, s)",
]
KINDS = ["JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "FULL JOIN", "FULL JOIN"]


@dataclass
class Joins:
    """Makes queries and edits from a seed."""

    seed: int

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def schema(self) -> list[str]:
        """Return the CREATE TABLE statements."""
        return [f"CREATE TABLE {name} ({columns})" for name, columns in TABLES.items()]

    def edit(self) -> str:
        """Return one INSERT, UPDATE or DELETE; the table e stays empty mostly."""
        r = self.random
        table = r.choice(["t", "t", "q", "q", "q"])
        kind = r.random()
        if kind < 0.55:
            rows = ", ".join(
                f"({self._key(table)}, {self._number()}, {self._text()})"
                for _ in range(r.randint(1, 3))
            )
            return f"INSERT {'OR IGNORE ' if table == 't' else ''}INTO {table} VALUES {rows}"
        where = r.choice(
            [
                "x IS NULL",
                f"x = {r.randint(0, 2)}",
                f"id = {r.randint(0, 2)}",
                "s IS NULL",
                "s = 'a'",
            ]
        )
        if kind < 0.75:
            what = r.choice([f"x = {self._number()}", f"s = {self._text()}"])
            return f"UPDATE {table} SET {what} WHERE {where}"
        return f"DELETE FROM {table}" + (f" WHERE {where}" if kind < 0.97 else "")

    def _key(self, table: str) -> str:
        return self._number() if table == "q" else str(self.random.randint(0, 3))

    def _number(self) -> str:
        return self.random.choice(["NULL", "0", "1", "1", "2"])

    def _text(self) -> str:
        return self.random.choice(["NULL", "'a'", "'a'", "'b'"])

    # -- queries

    def query(self) -> str:
        """Return a query."""
        r = self.random
        source, names = self._side("a"), ["a"]
        for name in "bc"[: r.choice([1, 1, 1, 2])]:
            source += self._joined(names, name)
            names += [name]
        if r.random() < 0.1:
            source += (
                f" {r.choice(['SEMI', 'ANTI'])} JOIN {self._side('z')} ON {self._on(names, 'z')}"
            )
        tests = [self._where(names) for _ in range(r.choice([0, 0, 0, 1, 1, 2]))]
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        return self._made(f"{source}{where}", names)

    def _joined(self, names: list[str], name: str) -> str:
        r = self.random
        side, kind = self._side(name), r.random()
        if kind < 0.06:
            return f" CROSS JOIN {side}"
        if kind < 0.2:
            there = r.choice(NEAREST).format(t=r.choice("tqe"))
            side, compared = (
                r.choice(["", "LEFT ", "RIGHT ", "FULL "]),
                r.choice([">=", ">", "<=", "<"]),
            )
            left = r.choice(names)
            on = f"{left}.s = {name}.s AND {left}.x {compared} {name}.x"
            return f" ASOF {side}JOIN {there} {name} ON {on}"
        on = self._on(names, name)
        if kind < 0.3 and not side.startswith("(VALUES"):
            return f" {r.choice(['JOIN', 'LEFT JOIN'])} LATERAL {self._inner(names, name)} {name} ON {on}"
        return f" {r.choice(KINDS)} {side} ON {on}"

    def _inner(self, names: list[str], name: str) -> str:
        r = self.random
        items = r.choice(
            ["id, x, s", "count(*) AS id, sum(x) AS x, max(s) AS s", "DISTINCT x, id, s"]
        )
        return f"(SELECT {items} FROM {self._side(name + 'i')} WHERE {self._on(names, name + 'i')})"

    def _side(self, name: str) -> str:
        r = self.random
        side = r.choice(SIDES).format(t=r.choice("ttqe"), u=r.choice("tqe"), a=name)
        return side if side.startswith("(VALUES") else f"{side} {name}"

    def _column(self, name: str) -> str:
        return f"{name}.{self.random.choice(['id', 'x', 'x'])}"

    def _on(self, names: list[str], name: str) -> str:
        r = self.random
        left, one, other = r.choice(names), self._column(r.choice(names)), self._column(name)
        shapes = [
            f"{one} = {other}", f"{one} = {other}", f"{other} = {one}", f"{left}.s = {name}.s",
            f"{one} = {other} AND {left}.s = {name}.s", f"{one} = {one}", f"{other} = {other}",
            f"{one} > 0", f"{other} > 0", f"{one} IS NULL", f"{other} IS NOT NULL", "true", "false",
            "NULL",
            f"{one} < {other}", f"{one} <> {other}", f"{one} IS NOT DISTINCT FROM {other}",
            f"{one} = {other} AND {one} > 0", f"{one} = {other} AND {other} > 0",
                f"{one} = {other} OR {one} IS NULL",
            f"{one} + 1 = {other}", f"coalesce({one}, 0) = coalesce({other}, 0)",
                f"{one} = 1 AND {other} = 1",
            f"{one} = {self._column(r.choice(names))}", f"{other} = {self._column(name)}",
            f"{one} IN (SELECT id FROM q)", f"{other} IN (1, NULL)",
            f"{one} NOT IN (SELECT x FROM q WHERE x > 0)",
            f"EXISTS (SELECT 1 FROM t z WHERE z.x = {one})", f"NOT ({one} = {other})",
                f"{one} BETWEEN 0 AND {other}",
        ]  # fmt: skip
        return r.choice(shapes)

    def _where(self, names: list[str]) -> str:
        r = self.random
        one, other = (self._column(r.choice(names)) for _ in range(2))
        outer = r.choice(names)
        keyed = f"z.id = {one}" if r.random() < 0.8 else "z.s = 'a'"
        return r.choice(
            [
                f"({one} = {other} AND {one} > 0 OR {other} < 2 AND ({one} = {other}))",
                f"({one} = 1 AND {other} > 0 OR {one} = 0 AND {other} IN (1, 2) AND {one} < 5)",
                f"({one} = 1 OR {other} = 2 AND {one} = 1)",
                f"{r.choice(['', 'NOT '])}EXISTS (SELECT * FROM {r.choice('tqe')} z WHERE {keyed} AND "
                f"{r.choice(['z.x <> ' + other, f'{outer}.s <> z.s'])})",
                f"{one} IS NULL",
                f"{one} > 0",
                f"{one} = {one}",
                f"{one} IS NOT NULL",
                f"{outer}.s IS NULL",
                f"{r.choice(['', 'NOT '])}EXISTS (SELECT 1 FROM {self._side('z')} WHERE "
                f"{self._on(names, 'z')})",
                f"{one} {r.choice(['', 'NOT '])}IN (SELECT {self._column('z')} FROM "
                f"{self._side('z')} "
                f"WHERE {self._on(names, 'z')})",
                f"(SELECT count(*) FROM {self._side('z')} WHERE {self._on(names, 'z')}) > 1",
                f"(SELECT max(z.x) FROM {self._side('z')} WHERE {self._on(names, 'z')}) IS NULL",
            ]
        )

    def _made(self, source: str, names: list[str]) -> str:
        r = self.random
        columns = [f"{n}.{c}" for n in names for c in ("id", "x", "s")]
        some = r.sample(columns, r.choice([1, 2, 2, 3]))
        items = ", ".join(f"{self._shown(one)} AS c{n}" for n, one in enumerate(some))
        number = self._column(r.choice(names))
        return r.choice(
            [
                f"SELECT {items} FROM {source}",
                f"SELECT {items} FROM {source}",
                f"SELECT DISTINCT {items} FROM {source}",
                f"SELECT count(*) AS n FROM {source}",
                f"SELECT count(*) AS n, sum({number}) AS m FROM {source}",
                f"SELECT {some[0]} AS g, count(*) AS n, count({number}) AS m FROM {source} GROUP "
                f"BY {some[0]}",
                f"SELECT {items} FROM {source} UNION ALL SELECT {items} FROM {source}",
                f"SELECT {items} FROM {source} UNION SELECT {items} FROM {source}",
                f"SELECT * FROM (SELECT {items} FROM {source}) w FULL JOIN e ON w.c0 IS NULL",
                f"SELECT count(*) AS n FROM (SELECT {items} FROM {source}) w",
                f"SELECT id, (SELECT count(*) FROM {source}) AS n FROM t o",
                f"SELECT id FROM t o WHERE o.x IN (SELECT {number} FROM {source})",
                f"SELECT {items}, count(*) OVER () AS n FROM {source}",
                f"SELECT * FROM {source}",
            ]
        )

    def _shown(self, column: str) -> str:
        if self.random.random() < 0.7:
            return column
        return f"coalesce({column}, 'n')" if column.endswith(".s") else f"coalesce({column}, 0)"
