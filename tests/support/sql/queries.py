"""Random queries and edits of SQL over small tables, for comparison with DuckDB.

Domains are tiny, so that values collide, groups empty, and matches come and go.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

TABLES = {
    "t": ("k", "a", "b", "s", "d", "f"),
    "u": ("i", "j", "c", "s", "v"),
    "w": ("k", "a", "e", "n", "m"),
}
KEYS = {"t": ("k",), "u": ("i", "j"), "w": ("k",)}
TYPES = {
    "t": {
        "k": "INTEGER",
        "a": "INTEGER",
        "b": "BIGINT",
        "s": "VARCHAR",
        "d": "DECIMAL(8,2)",
        "f": "DOUBLE",
    },
    "u": {"i": "INTEGER", "j": "INTEGER", "c": "INTEGER", "s": "VARCHAR", "v": "DECIMAL(18,2)"},
    "w": {"k": "INTEGER", "a": "INTEGER", "e": "DATE", "n": "DECIMAL(30,2)", "m": "HUGEINT"},
    "h": {"a": "INTEGER", "s": "VARCHAR", "d": "DECIMAL(8,2)", "n": "DECIMAL(30,2)"},
}
LONG = {  # of more than a word, and such that squares have 38 digits
    "DECIMAL(18,2)": ["9999999999999999.99", "-9999999999999999.50", "1.50", "-2.25"],
    "DECIMAL(30,2)": ["99999999999999999.25", "-99999999999999999.25", "3.00", "1.50", "-2.25"],
    "HUGEINT": ["9300000000000000000", "-9300000000000000000", "-1", "2", "3"],
}


@dataclass
class Features:
    """What the queries may use."""

    nulls: bool = True
    bags: bool = True
    calls: bool = True


@dataclass
class Generator:
    """Makes queries and edits from a seed; `used` counts the constructs."""

    seed: int
    features: Features = field(default_factory=Features)
    used: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.tables = ["t", "u", "w"] + ["h"] * self.features.bags

    # -- schema and edits

    def schema(self) -> list[str]:
        """Return the CREATE TABLE statements."""
        found = []
        for table in self.tables:
            key = KEYS.get(table, ())
            optional = "" if self.features.nulls else " NOT NULL"
            columns = [
                f"{c} {t}{' NOT NULL' if c in key else optional}" for c, t in TYPES[table].items()
            ]
            if key:
                columns.append(f"PRIMARY KEY ({', '.join(key)})")
            found.append(f"CREATE TABLE {table} ({', '.join(columns)})")
        return found

    def value(self, table: str, column: str) -> str:
        """Return a literal for a column."""
        r, type_ = self.random, TYPES[table][column]
        if self.features.nulls and column not in KEYS.get(table, ()) and r.random() < 0.25:
            return "NULL"
        if type_ == "VARCHAR":
            return "'" + r.choice(["", "a", "b", "ab", "Z"]) + "'"
        if type_ == "DATE":
            return f"DATE '2020-01-0{r.randint(1, 4)}'"
        if type_ in LONG:
            return r.choice(LONG[type_])
        if type_.startswith("DECIMAL"):
            return r.choice(["0.00", "1.50", "-2.25", "3.00", "10.10"])
        if type_ == "DOUBLE":
            return r.choice(["0.5", "-1.0", "2.0", "3.25"])
        return str(r.randint(0, 4) if column in KEYS.get(table, ()) else r.randint(-1, 3))

    def edit(self) -> str:
        """Return one INSERT, UPDATE or DELETE."""
        r = self.random
        table = r.choice(self.tables)
        columns = list(TYPES[table])
        kind = r.random()
        if kind < 0.5:
            rows = ", ".join(
                "(" + ", ".join(self.value(table, c) for c in columns) + ")"
                for _ in range(r.randint(1, 3))
            )
            ignore = "INSERT OR IGNORE INTO" if table in KEYS else "INSERT INTO"
            return f"{ignore} {table} VALUES {rows}"
        column = r.choice(columns)
        where = (
            f"{column} = {self.value(table, column)}" if r.random() < 0.8 else f"{column} IS NULL"
        )
        if kind < 0.75:
            target = r.choice([c for c in columns if c not in KEYS.get(table, ())])
            return f"UPDATE {table} SET {target} = {self.value(table, target)} WHERE {where}"
        return f"DELETE FROM {table} WHERE {where}"

    # -- queries

    def query(self) -> str:
        """Return a query for a view."""
        r = self.random
        kinds = [
            (self._plain, 3), (self._grouped, 5), (self._distinct, 1), (self._union, 1),
            (self._windowed, 2),
            (self._nested, 2), (self._cte, 1), (self._limited, 1), (self._lateral, 1),
            (self._framed, 1),
            (self._nearest, 1), (self._spread, 1), (self._whole_rows, 1), (self._recursive, 1),
            (self._using, 1),
        ]  # fmt: skip
        return r.choices([k for k, _ in kinds], [n for _, n in kinds])[0]()

    def _note(self, name: str) -> None:
        self.used[name] += 1

    def _from(self) -> tuple[str, list[tuple[str, str, str]]]:
        """Return a FROM clause and its columns: alias, name and type."""
        r = self.random
        first = r.choice(self.tables)
        columns = [("x", c, t) for c, t in TYPES[first].items()]
        text = f"{first} x"
        for alias in "yz"[: r.choice([0, 0, 1, 1, 2])]:
            table = r.choice(self.tables)
            new = [(alias, c, t) for c, t in TYPES[table].items()]
            kind = r.choice(["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
            self._note(kind)
            conditions = [self._equation(columns, new)]
            if r.random() < 0.3:
                conditions.append(self._test(new if r.random() < 0.5 else columns))
            text += f" {kind} {table} {alias} ON {' AND '.join(conditions)}"
            columns = columns + new
        return text, columns

    def _equation(self, left: list[tuple[str, str, str]], right: list[tuple[str, str, str]]) -> str:
        r = self.random
        for _ in range(50):
            a, b = r.choice(left), r.choice(right)
            if a[2] == b[2] and a[2] not in ("DOUBLE",):
                return f"{a[0]}.{a[1]} = {b[0]}.{b[1]}"
        return f"{self._column(left, 'INTEGER')} = {self._column(right, 'INTEGER')}"

    def _column(self, columns: list[tuple[str, str, str]], type_: str) -> str:
        found = [f"{a}.{c}" for a, c, t in columns if t == type_]
        return self.random.choice(found or [f"{a}.{c}" for a, c, _ in columns])

    def _literal(self, type_: str) -> str:
        r = self.random
        if type_ == "VARCHAR":
            return "'" + r.choice(["a", "b", "ab", ""]) + "'"
        if type_ == "DATE":
            return f"DATE '2020-01-0{r.randint(1, 4)}'"
        if type_ in LONG:
            return r.choice([*LONG[type_], "0"])
        if type_.startswith("DECIMAL"):
            return r.choice(["1.50", "0", "2"])
        if type_ == "DOUBLE":
            return r.choice(["0.5", "1", "2.0"])
        return str(r.randint(-1, 4))

    def _test(self, columns: list[tuple[str, str, str]], depth: int = 0) -> str:
        r = self.random
        a, c, type_ = r.choice(columns)
        name = f"{a}.{c}"
        kind = r.random()
        if kind < 0.4:
            return f"{name} {r.choice(['=', '<>', '<', '<=', '>', '>='])} {self._literal(type_)}"
        if kind < 0.5:
            return f"{name} IS {r.choice(['', 'NOT '])}NULL"
        if kind < 0.6:
            return self._among(name, type_)
        if kind < 0.64 and type_ == "VARCHAR":
            return f"{name} {r.choice(['', 'NOT '])}LIKE {r.choice([chr(39) + p + chr(39) for p in ('a%', '%b', '_')])}"
        if kind < 0.68:
            return f"{name} {r.choice(['', 'NOT '])}BETWEEN {self._literal(type_)} AND {self._literal(type_)}"
        if kind < 0.72:
            self._note("rows")
            row = f"({name}, {self._column(columns, 'INTEGER')})"
            other = f"({self._literal(type_)}, {r.choice(['NULL', '1', '2'])})"
            return f"{row} {r.choice(['=', '<>', '<', '<=', '>', '>='])} {other}"
        if kind < 0.77 and depth == 0:
            self._note("subquery")
            return self._subquery_test(columns)
        if depth < 2:
            joined = r.choice([" AND ", " OR "]).join(
                self._test(columns, depth + 1) for _ in range(2)
            )
            return f"NOT ({joined})" if kind > 0.93 else f"({joined})"
        return f"{name} = {self._literal(type_)}"

    def _among(self, name: str, type_: str) -> str:
        """Return a test of IN with a list in either form, or one of ANY."""
        r = self.random
        if r.random() < 0.5:
            return f"{name} IN ({self._literal(type_)}, {self._literal(type_)})"
        self._note("lists")
        some = f"{self._literal(type_)}, {r.choice([self._literal(type_), 'NULL', name])}"
        return r.choice(
            [f"{name} IN [{some}]", f"{name} NOT IN [{some}]", f"{name} > ANY([{some}])"]
        )

    def _subquery_test(self, columns: list[tuple[str, str, str]]) -> str:
        r = self.random
        table = r.choice(self.tables)
        inner = [("q", c, t) for c, t in TYPES[table].items()]
        a, c, type_ = r.choice(columns)
        same = [f"q.{n}" for _, n, t in inner if t == type_] or [None]  # type: ignore[list-item]
        where = (
            f" WHERE {self._equation(columns, inner)}"
            if r.random() < 0.5
            else f" WHERE {self._test(inner, 2)}"
        )
        kind = r.random()
        if kind < 0.4 or same[0] is None:
            return f"{r.choice(['', 'NOT '])}EXISTS (SELECT 1 FROM {table} q{where})"
        if kind < 0.8:
            return f"{a}.{c} {r.choice(['', 'NOT '])}IN (SELECT {r.choice(same)} FROM {table} q{where})"
        fold = r.choice(["max", "min", "count"])
        if fold == "count" and type_ in ("VARCHAR", "DATE"):
            fold = "max"
        return f"{a}.{c} {r.choice(['=', '<', '>='])} (SELECT {fold}({r.choice(same)}) FROM {table} q{where})"

    def _where(self, columns: list[tuple[str, str, str]], likely: float = 0.5) -> str:
        if self.random.random() < likely:
            self._note("WHERE")
            return f" WHERE {self._test(columns)}"
        return ""

    def _scalar(self, columns: list[tuple[str, str, str]]) -> str:
        """Return an expression."""
        r = self.random
        a, c, type_ = r.choice(columns)
        name, kind = f"{a}.{c}", r.random()
        if type_ in LONG and self.features.calls and r.random() < 0.4:
            return self._long(columns, name, type_)
        if kind < 0.6 or not self.features.calls:
            if kind < 0.4 or type_ in ("VARCHAR", "DATE", "DECIMAL(18,2)"):
                return name
            return f"{name} {r.choice('+-*')} {r.choice(['1', '2', name])}"
        if kind < 0.7:
            return f"COALESCE({name}, {self._literal(type_)})"
        if kind < 0.8:
            return f"CASE WHEN {self._test(columns, 2)} THEN {name} ELSE {r.choice([self._literal(type_), 'NULL'])} END"
        if kind < 0.85:
            return f"NULLIF({name}, {self._literal(type_)})"
        if type_ == "VARCHAR":
            return r.choice(
                [f"upper({name})", f"length({name})", f"{name} || 'x'", f"substring({name}, 1, 1)"]
            )
        if type_ == "DATE":
            return r.choice([f"year({name})", f"{name} + 1"])
        return r.choice(
            [f"abs({name})", f"CAST({name} AS VARCHAR)" if type_ == "INTEGER" else name, f"-{name}"]
        )

    def _long(self, columns: list[tuple[str, str, str]], name: str, type_: str) -> str:
        """Return an expression over a number of more than a word."""
        r = self.random
        self._note("long numbers")
        numbers = ["INTEGER", "DECIMAL(8,2)", *LONG]
        others = [f"{a}.{c}" for a, c, t in columns if t in numbers]
        other = r.choice(others)
        options = [
            f"abs({name})", f"-{name}", f"CAST({name} AS VARCHAR)", f"CAST({name} AS DOUBLE)",
            f"sign({name})",
            f"CAST({name} AS DECIMAL(38,3))", f"CAST({name} AS HUGEINT)", f"round({name}, 1)",
            f"floor({name})",
            f"TRY_CAST({name} AS BIGINT)", f"{name} / 2", f"{name} = {other}",
                f"{name} IS DISTINCT FROM {other}",
            *(f"{name} {operation} {other}" for operation in ("<", ">=", "<>")),
        ]  # fmt: skip
        if type_ == "HUGEINT":
            options += [
                f"{name} // 7",
                f"{name} % 7",
                f"{name} + {name}",
                f"greatest({name}, {other})",
            ]
        elif type_ == "DECIMAL(30,2)":
            options += [
                f"{name} + 0.125",
                f"ceil({name})",
                f"{name} - {other}",
                f"coalesce({name}, {other})",
            ]
        return r.choice(options)

    def _plain(self) -> str:
        self._note("plain")
        source, columns = self._from()
        items = [f"{self._scalar(columns)} AS c{n}" for n in range(self.random.randint(1, 4))]
        if self.random.random() < 0.2:
            items.append(f"({self._scalar_subquery(columns)}) AS sub")
        return f"SELECT {', '.join(items)} FROM {source}{self._where(columns)}"

    def _scalar_subquery(self, columns: list[tuple[str, str, str]]) -> str:
        self._note("scalar subquery")
        table = self.random.choice(self.tables)
        inner = [("q", c, t) for c, t in TYPES[table].items()]
        number = self._column(inner, "INTEGER")
        fold = self.random.choice(
            ["count(*)", f"max({number})", f"sum({number})", f"count({number})"]
        )
        return f"SELECT {fold} FROM {table} q WHERE {self._equation(columns, inner)}"

    def _aggregate(self, columns: list[tuple[str, str, str]]) -> str:
        r = self.random
        a, c, type_ = r.choice(columns)
        name = f"{a}.{c}"
        options = [
            "count(*)",
            f"count({name})",
            f"min({name})",
            f"max({name})",
            f"count(DISTINCT {name})",
        ]
        if type_ not in ("VARCHAR", "DATE"):
            options += [f"sum({name})", f"avg({name})", f"sum({name})", f"sum(DISTINCT {name})"]
            options += [f"stddev({name})", f"var_pop({name})"]
            if type_ != "DECIMAL(18,2)":  # DuckDB's is one of doubles there, and not exact
                options += [f"median({name})", f"quantile_cont({name}, 0.3)"]
            options += (
                [f"covar_pop({name}, {self._column(columns, 'INTEGER')})"]
                if type_ == "INTEGER"
                else []
            )
        if type_ == "VARCHAR":
            options += [f"string_agg({name}, ',' ORDER BY {name}{r.choice(['', ' DESC'])})"]
        if type_ in LONG:
            options += [
                f"quantile_disc({name}, 0.5)",
                f"max({name} - 1)",
                f"sum({name}) + 1",
                f"avg(DISTINCT {name})",
            ]
        if type_ in ("INTEGER", "BIGINT"):
            options += [
                f"{r.choice(['bit_and', 'bit_or', 'bit_xor'])}({name})",
                f"len(list({name}))",
            ]
            options += [f"sem({name})", f"max({name} = 1)", f"histogram({name})"]
        options += [
            f"list({name} ORDER BY {name})",
            f"list({name} ORDER BY {name} DESC NULLS LAST)",
        ]
        options += [f"count(DISTINCT ({name}, {self._column(columns, 'VARCHAR')}))"]
        found = r.choice(options)
        self._note(found.partition("(")[0] + (" DISTINCT" if "DISTINCT" in found else ""))
        if r.random() < 0.15:
            self._note("FILTER")
            found += f" FILTER (WHERE {self._test(columns, 2)})"
        return found

    def _grouped(self) -> str:
        self._note("GROUP BY")
        r = self.random
        source, columns = self._from()
        keys = [
            self._scalar(columns) if r.random() < 0.2 else "{}.{}".format(*r.choice(columns)[:2])
            for _ in range(r.choice([0, 1, 1, 2]))
        ]
        keys = list(dict.fromkeys(keys))
        items = [f"{key} AS g{n}" for n, key in enumerate(keys)]
        items += [f"{self._aggregate(columns)} AS a{n}" for n in range(r.randint(1, 3))]
        text = f"SELECT {', '.join(items)} FROM {source}{self._where(columns, 0.4)}"
        if keys:
            sets = r.random()
            if sets < 0.1 and all("." in k and " " not in k and "(" not in k for k in keys):
                self._note("grouping sets")
                text += f" GROUP BY {r.choice(['ROLLUP', 'CUBE'])} ({', '.join(keys)})"
            else:
                text += f" GROUP BY {', '.join(keys)}"
            if r.random() < 0.3:
                self._note("HAVING")
                counted = r.choice(["count(*) > 1", "count(*) < 3"])
                present = f"{self._aggregate(columns)} IS NOT NULL"
                text += f" HAVING {r.choice([counted, present])}"
        return text

    def _distinct(self) -> str:
        self._note("DISTINCT")
        source, columns = self._from()
        items = [f"{self._scalar(columns)} AS c{n}" for n in range(self.random.randint(1, 2))]
        return f"SELECT DISTINCT {', '.join(items)} FROM {source}{self._where(columns)}"

    def _union(self) -> str:
        r = self.random
        kind = r.choice(
            [
                "UNION",
                "UNION ALL",
                "INTERSECT",
                "EXCEPT",
                "UNION ALL",
                "INTERSECT ALL",
                "EXCEPT ALL",
            ]
        )
        self._note(kind)
        parts = []
        for _ in range(2):
            source, columns = self._from()
            type_ = r.choice(["INTEGER", "INTEGER", "DECIMAL(8,2)", *LONG])
            column = self._column(columns, type_)
            if r.random() < 0.2:
                column = f"CAST({self._column(columns, 'INTEGER')} AS DECIMAL(10,2))"
            parts.append(f"SELECT {column} AS c FROM {source}{self._where(columns)}")
        return f" {kind} ".join(parts)

    def _windowed(self) -> str:
        self._note("window")
        r = self.random
        table = r.choice([t for t in self.tables if t in KEYS])
        columns = [("x", c, t) for c, t in TYPES[table].items()]
        key = ", ".join(f"x.{k}" for k in KEYS[table])
        part = f"PARTITION BY x.{r.choice(columns)[1]} " if r.random() < 0.7 else ""
        order = f"x.{r.choice(columns)[1]}{r.choice(['', ' DESC'])}, {key}"
        number = self._column(columns, r.choice(["INTEGER", "INTEGER", *LONG]))
        peers = f"x.{r.choice(columns)[1]}"
        function = r.choice([
            f"row_number() OVER ({part}ORDER BY {order})", f"rank() OVER ({part}ORDER BY {peers})",
            f"dense_rank() OVER ({part}ORDER BY {peers} DESC)",
            f"lag({number}) OVER ({part}ORDER BY {order})",
            f"lead({number}, 2) OVER ({part}ORDER BY {order})",
            f"sum({number}) OVER ({part}ORDER BY {order})",
            f"count(*) OVER ({part})", f"max({number}) OVER ({part})",
            f"sum({number}) OVER ({part}ORDER BY {peers})",
            f"avg({number}) OVER ({part}ORDER BY {order} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
            f"first_value({number}) OVER ({part}ORDER BY {order})",
            f"ntile(2) OVER ({part}ORDER BY {order})",
            f"last_value({number}) OVER ({part}ORDER BY {order})",
            f"count({number}) OVER ({part}ORDER BY {order})",
            f"percent_rank() OVER ({part}ORDER BY {peers})",
            f"cume_dist() OVER ({part}ORDER BY {peers})",
            f"lag({number}, 2 IGNORE NULLS) OVER ({part}ORDER BY {order})",
            f"lead({number}, 1, 0 IGNORE NULLS) OVER ({part}ORDER BY {order})",
            f"nth_value({number}, 2 IGNORE NULLS) OVER ({part}ORDER BY {order})",
        ])  # fmt: skip
        self._note(function.partition("(")[0] + " OVER")
        return f"SELECT {key}, {function} AS win FROM {table} x{self._where(columns, 0.3)}"

    def _lateral(self) -> str:
        """Return a join with a subquery that reads the tables before it."""
        r = self.random
        source, columns = self._from()
        table = r.choice(self.tables)
        inner = [("q", c, t) for c, t in TYPES[table].items()]
        number, side = (
            self._column(inner, "INTEGER"),
            r.choice(["CROSS JOIN LATERAL", "LEFT JOIN LATERAL"]),
        )
        self._note(side)
        where = f"WHERE {self._equation(columns, inner)}"
        query = r.choice([
            f"SELECT {number} AS m FROM {table} q {where}",
            f"SELECT max({number}) AS m FROM {table} q {where}",
            f"SELECT {number} AS m, count(*) AS n FROM {table} q {where} GROUP BY {number}",
            f"SELECT DISTINCT {self._scalar(inner)} AS m FROM {table} q {where}",
        ])  # fmt: skip
        on = (
            r.choice([" ON TRUE", " ON TRUE", " ON o.m IS NOT NULL"])
            if side.startswith("LEFT")
            else ""
        )
        return (
            f"SELECT {self._scalar(columns)} AS c0, o.m FROM {source} {side} ({query}) "
            f"o{on}{self._where(columns, 0.3)}"
        )

    def _framed(self) -> str:
        """Return aggregates over frames by value and by group."""
        r = self.random
        table = r.choice([t for t in self.tables if t in KEYS])
        columns = [("x", c, t) for c, t in TYPES[table].items()]
        number, key = self._column(columns, "INTEGER"), self._column(columns, "INTEGER")
        kind = r.choice(["RANGE", "GROUPS", "ROWS"])
        order = f"{key}{r.choice(['', ' DESC', ' NULLS FIRST'])}"
        order += "".join(f", x.{k}" for k in KEYS[table]) if kind == "ROWS" else ""
        part = f"PARTITION BY {self._scalar(columns)} " if r.random() < 0.7 else ""
        end = r.choice(["CURRENT ROW", "1 FOLLOWING", "1 PRECEDING"])
        frame = f"{r.choice(['UNBOUNDED', '2', '1'])} PRECEDING AND {end}"
        exclude = r.choice(["", "", " EXCLUDE CURRENT ROW", " EXCLUDE TIES", " EXCLUDE GROUP"])
        fold = self._aggregate(columns) if r.random() < 0.5 else f"sum({number})"
        self._note(f"{kind}{exclude}")
        filtered = fold if "FILTER" not in fold else f"count({number})"
        keys = ", ".join(f"x.{k}" for k in KEYS[table])
        window = f"{part}ORDER BY {order} {kind} BETWEEN {frame}{exclude}"
        return f"SELECT {keys}, {filtered} OVER ({window}) AS win FROM {table} x"

    def _nearest(self) -> str:
        self._note("ASOF JOIN")
        r = self.random
        side, compared = r.choice(["ASOF JOIN", "ASOF LEFT JOIN"]), r.choice([">=", ">", "<=", "<"])
        there = "(SELECT DISTINCT i, c FROM u) y"
        return f"SELECT x.k, x.a, y.i AS near FROM t x {side} {there} ON x.a = y.c AND x.k {compared} y.i"

    def _spread(self) -> str:
        """Return rows made of lists, of series and of columns."""
        self._note("series")
        return self.random.choice(
            [
                "SELECT x.k, g.n FROM t x, generate_series(1, x.a) g(n)",
                "SELECT x.a, unnest([x.k, x.a + 1]) AS n FROM t x",
                "SELECT * FROM (SELECT k, a, b FROM t) UNPIVOT (v FOR name IN (a, b))",
                "SELECT k, list_transform([a, k], lambda x: x + k) AS l, list_filter([a, k], "
                "lambda x: x > 1) AS f FROM t",
                "SELECT x.k, y.n FROM t x LEFT JOIN unnest(string_split(x.s, 'a')) y(n) ON true",
                "SELECT a, g.n, count(*) AS c FROM h, range(0, a) g(n) GROUP BY a, g.n",
                "SELECT k, unnest(string_split(s, 'a')) AS part FROM t",
                "SELECT min(COLUMNS('^[ad]$')) FROM t GROUP BY s",
                "SELECT g.n, count(x.k) AS c FROM generate_series(0, 3) g(n) LEFT JOIN t x ON x.a "
                "= g.n GROUP BY g.n",
            ]
        )

    def _whole_rows(self) -> str:
        self._note("wide")
        r = self.random
        joins = [
            f"{r.choice(['LEFT', 'FULL', 'RIGHT', 'INNER'])} JOIN {t} {n} ON {n}.a = x.a"
            for t, n in (("t", "y"), ("w", "z"))
        ]
        where = (
            f" WHERE {self._test([('x', 'a', 'INTEGER'), ('y', 's', 'VARCHAR')], 2)}"
            if r.random() < 0.5
            else ""
        )
        return f"SELECT x.*, y.*, z.*, v.* FROM t x {' '.join(joins)} LEFT JOIN u v ON v.i = z.k{where}"

    def _using(self) -> str:
        """Return a join by USING, with the column that both tables share and those that each
        has.
        """
        r = self.random
        kind = r.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        self._note(f"{kind} USING")
        pair = r.choice(["x.a", "a, y.a", "x.*", "a, y.*", "coalesce(x.a, 0), a"])
        source = f"t x {kind} {r.choice(['w', 'h'] if self.features.bags else ['w'])} y USING (a)"
        if r.random() < 0.3:
            return f"SELECT a, x.a AS b, count(y.a) AS n FROM {source} GROUP BY a, x.a"
        return f"SELECT {pair} FROM {source}" + r.choice(
            ["", " WHERE a > 0", " WHERE x.a IS NULL OR y.a IS NULL"]
        )

    def _recursive(self) -> str:
        self._note("WITH RECURSIVE")
        r = self.random
        every = r.choice(["UNION", "UNION ALL"])
        return (
            f"WITH RECURSIVE r AS (SELECT k, a, 0 AS d FROM t WHERE a > 0 {every} SELECT x.k, x.a, "
            f"r.d + 1 FROM t x "
            f"JOIN r ON {r.choice(['x.k = r.a', 'x.a = r.k', 'x.a = r.a'])} WHERE r.d < 2) "
            + r.choice(
                [
                    "SELECT k, d FROM r",
                    "SELECT d, count(*) AS n FROM r GROUP BY d",
                    "SELECT DISTINCT k FROM r",
                ]
            )
        )

    def _nested(self) -> str:
        self._note("subquery in FROM")
        inner = self.random.choice([self._grouped, self._plain, self._distinct, self._lateral])()
        names = [part.split(" FROM ")[0] for part in inner.split(" AS ")[1:]]
        names = [n.split(",")[0].split(" ")[0].rstrip(")") for n in names]
        names = [n for n in names if n and n[0] in "gac" and n[1:].isdigit()]
        if not names:
            return inner
        name = self.random.choice(names)
        return self.random.choice(
            [
                f"SELECT q.{name} AS g, count(*) AS n FROM ({inner}) q GROUP BY q.{name}",
                f"SELECT q.{name} FROM ({inner}) q WHERE q.{name} IS NOT NULL",
                f"SELECT count(q.{name}) AS n, max(q.{name}) AS m FROM ({inner}) q",
            ]
        )

    def _cte(self) -> str:
        self._note("CTE")
        r = self.random
        source, columns = self._from()
        column = self._column(columns, "INTEGER")
        kind = r.choice(["", "DISTINCT "])
        return (
            f"WITH q AS (SELECT {kind}{column} AS c FROM {source}{self._where(columns)}) "
            + r.choice(
                [
                    "SELECT p.c, count(*) AS n FROM q p JOIN q o ON p.c = o.c GROUP BY p.c",
                    "SELECT c FROM q WHERE c > (SELECT min(c) FROM q)",
                    "SELECT max(c) AS m, count(*) AS n FROM q",
                ]
            )
        )

    def _limited(self) -> str:
        self._note("LIMIT")
        r = self.random
        table = r.choice([t for t in self.tables if t in KEYS])
        key = ", ".join(KEYS[table])
        column = r.choice(list(TYPES[table]))
        return f"SELECT * FROM {table} ORDER BY {column}{r.choice(['', ' DESC'])}, {key} LIMIT {r.randint(1, 4)}"
