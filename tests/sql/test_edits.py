"""Statements that edit, beside DuckDB: statement x conflict target x kind of key x columns that are
named.

Rows, RETURNING and counts are equal, or both refuse.  The default suite takes a sample; `-m
campaign` takes thousands.
"""

import random
import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest

import ivm
from ivm.errors import IvmError
from ivm.sql.errors import SqlError
from tests.support.calls import functions_called, is_ours
from tests.support.programs.amounts import times
from tests.support.sql.oracle import Both, rows_of

pytestmark = pytest.mark.usefixtures("unhurried")

KEYS = {
    "none": "",
    "one column": ", PRIMARY KEY (id)",
    "two columns": ", PRIMARY KEY (id, a)",
    "and UNIQUE": ", PRIMARY KEY (id), UNIQUE (a)",
    "and UNIQUE of two": ", PRIMARY KEY (id), UNIQUE (a, b)",
    "UNIQUE alone": ", UNIQUE (a)",
}
NAMES = "id", "a", "b", "c"
TARGETS = ["", "", "(id)", "(a)", "(a, id)", "(id, a, b)", "(b, a)", "(nope)"]
SET = [
    "b = excluded.b", "b = b + excluded.b, c = t.c + 1", "a = excluded.a",
    "(b, c) = (excluded.a, 5)", "c = DEFAULT",
    "id = excluded.id + 10", "b = 1, b = 2", "nope = 1",
]  # fmt: skip
WHERE = [
    "",
    "",
    " WHERE t.b < excluded.b",
    " WHERE excluded.c > 2",
    " WHERE b IS NULL",
    " WHERE false",
]
RETURNING = ["", "", " RETURNING *", " RETURNING id AS x, b + c, a", " RETURNING t.id"]
MATCHED = [
    "UPDATE SET b = s.b",
    "UPDATE SET c = t.c + s.c, a = DEFAULT",
    "UPDATE SET *",
    "DELETE",
    "DO NOTHING",
]
BY_SOURCE = ["UPDATE SET b = t.b + 100", "DELETE", "DO NOTHING"]
BY_TARGET = [
    "INSERT VALUES (s.id, s.a, s.b, s.c)", "INSERT (id, b) VALUES (s.id, DEFAULT)", "INSERT *",
    "INSERT", "DO NOTHING",
    "INSERT (a, id) VALUES (s.a + 50, s.id)", "INSERT DEFAULT VALUES",
]  # fmt: skip
CONDITIONS = {
    "MATCHED": ["", " AND s.b > 3", " AND t.c <> s.c", " AND NULL", " AND t.b IS NULL"],
    "NOT MATCHED BY SOURCE": ["", " AND t.b > 3", " AND t.a IS NULL"],
    "NOT MATCHED": ["", " AND s.c > 2", " AND s.b IS NULL"],
}


def rows(chance: random.Random, most: int, apart: bool = True, nulls: bool = True) -> str:
    """Rows of VALUES; `apart` says that `id` is different in all, and `a`, which may be null if
    `nulls`.
    """
    ids = chance.sample(range(1, 7), chance.randint(1, most))
    if not apart and chance.random() < 0.3:
        ids.append(ids[0])
    others = chance.sample(range(1, 7), len(ids))
    found = [
        (
            one,
            chance.choice([other, other, None if nulls else other]),
            chance.choice([None, 1, 4, 7]),
            chance.randint(1, 4),
        )
        for one, other in zip(ids, others, strict=True)
    ]
    return ", ".join(str(row).replace("None", "NULL") for row in found)


def an_insert(chance: random.Random) -> str:
    named = chance.choice(
        [NAMES, NAMES, ("id", "a"), ("b", "id"), ("id",), ("a", "b", "id"), ("id", "id")]
    )
    columns = "" if named == NAMES else f" ({', '.join(named)})"
    own = ", ".join(f"x.{name}" for name in named)
    source = f"SELECT {own} FROM (VALUES {rows(chance, 3)}) x(id, a, b, c)"
    # DuckDB refuses some clauses after BY NAME, with errors
    if chance.random() < 0.1 and len({*named}) == len(named):
        return f"INSERT INTO t BY NAME {source}{chance.choice(RETURNING)}"
    if named == NAMES and columns == "" and chance.random() < 0.5:
        source = f"VALUES {rows(chance, 3, apart=False)}"
    start = chance.choice(["INSERT", "INSERT", "INSERT", "INSERT OR REPLACE", "INSERT OR IGNORE"])
    clause = ""
    if start == "INSERT" or chance.random() < 0.05:
        target = chance.choice(TARGETS)
        update = f"DO UPDATE SET {chance.choice(SET)}{chance.choice(WHERE)}"
        clause = chance.choice(
            ["", *[f" ON CONFLICT {target} {act}" for act in ("DO NOTHING", update, update)]]
        )
    return f"{start} INTO t{columns} {source}{clause}{chance.choice(RETURNING)}"


def a_merge(chance: random.Random) -> str:
    whens = []
    for kind in chance.choices([*CONDITIONS], k=chance.randint(1, 4)):
        acts = {"MATCHED": MATCHED, "NOT MATCHED": BY_TARGET, "NOT MATCHED BY SOURCE": BY_SOURCE}[
            kind
        ]
        shown = chance.choice([kind, f"{kind} BY TARGET"]) if kind == "NOT MATCHED" else kind
        whens.append(f" WHEN {shown}{chance.choice(CONDITIONS[kind])} THEN {chance.choice(acts)}")
    on = chance.choice(
        ["ON t.id = s.id", "USING (id)", "ON t.id = s.id AND t.c < s.c", "ON (s.id = t.id)"]
    )
    returning = chance.choice(
        ["", " RETURNING merge_action, *", " RETURNING id, merge_action || '!' AS m"]
    )
    return f"MERGE INTO t USING s {on}{''.join(whens)}{returning}"


def a_change(chance: random.Random) -> str:
    where = chance.choice(["", " AND s.b > 1", " AND t.c < s.c", " AND t.id IN (SELECT c FROM s)"])
    returning = chance.choice(RETURNING)
    first = "WITH s AS (SELECT * FROM s WHERE id > 1) " if chance.random() < 0.2 else ""
    if chance.random() < 0.4:
        return f"{first}DELETE FROM t USING s WHERE t.id = s.id{where}{returning}"
    assigned = chance.choice(
        [
            "b = s.b",
            "b = s.b, c = DEFAULT",
            "(b, c) = (s.c, t.b)",
            "id = t.id + 10",
            "id = 7 - t.id",
            "a = s.c",
            "a = NULL",
        ]
    )
    return f"{first}UPDATE t SET {assigned} FROM s WHERE t.id = s.id{where}{returning}"


class Beside:
    """The tables t and s of the same rows in a workspace and in DuckDB."""

    def __init__(self, key: str) -> None:
        # with more threads it finds, now and then, a key twice that a MERGE deletes and inserts
        self.duck, self.workspace, self.nulls = (
            duckdb.connect(config={"threads": 1}),
            ivm.open(":memory:"),
            "(id, a)" not in key,
        )
        for create in (
            f"CREATE TABLE t (id INT, a INT, b INT, c INT DEFAULT 7{key})",
            "CREATE TABLE s (id INT, a INT, b INT, c INT)",
        ):
            self.both(create)
        self.workspace.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n, sum(b) AS b FROM t GROUP BY a"
        )

    def both(self, text: str) -> None:
        self.duck.execute(text)
        self.workspace.sql(text)

    def fill(self, chance: random.Random) -> None:
        self.both("DELETE FROM t")
        self.both("DELETE FROM s")
        self.both(f"INSERT INTO t VALUES {rows(chance, 4, nulls=self.nulls)}")
        self.both(f"INSERT INTO s VALUES {rows(chance, 4)}")

    def tried(self, text: str) -> tuple[Any, Any]:
        """What both answer to a statement; an error is its text."""
        try:
            theirs: Any = Counter(self.duck.execute(text).fetchall())
        except duckdb.Error as error:
            theirs = str(error)
        try:
            ours: Any = Counter(self.workspace.sql(text))  # type: ignore[arg-type]
        except IvmError as error:
            ours = str(error)
        return theirs, ours

    def table(self) -> tuple[Counter[Any], Counter[Any]]:
        return Counter(self.duck.execute("FROM t").fetchall()), Counter(
            self.workspace.sql("FROM t")
        )  # type: ignore[arg-type]


def compare(make: Callable[[random.Random], str], key: str, seed: int, amount: int) -> None:
    chance, beside = random.Random(f"{make.__name__} {key} {seed}"), Beside(KEYS[key])
    for _ in range(amount):
        beside.fill(chance)
        before, _ = beside.table()
        text = make(chance)
        theirs, ours = beside.tried(text)
        shown = f"{text}\nover {[*before]} with key {key!r}\nDuckDB: {theirs}\nhere:   {ours}"
        assert isinstance(theirs, str) == isinstance(ours, str), shown
        assert isinstance(theirs, str) or theirs == ours, shown
        after, here = beside.table()
        assert after == here, f"{shown}\n{[*after]}\n{[*here]}"
        if isinstance(theirs, str):
            assert after == before, shown
    assert beside.workspace.check() == []


MAKERS = [an_insert, a_merge, a_change]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("make", MAKERS)
def test_edits_are_duckdbs(make: Callable[[random.Random], str], key: str) -> None:
    compare(make, key, 0, times(6))


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(1, 9))
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("make", MAKERS)
def test_thousands_of_edits_are_duckdbs(
    make: Callable[[random.Random], str], key: str, seed: int
) -> None:
    compare(make, key, seed, times(100))


SAID = {
    "INSERT OR IGNORE INTO t VALUES (1, 1, 1, 1)": "t has no PRIMARY KEY and no UNIQUE, so that no "
    "row conflicts",
    "INSERT OR FAIL INTO k VALUES (1, 1, 1, 1)": "INSERT OR FAIL is not evaluated",
    "INSERT OR REPLACE INTO k VALUES (1, 1, 1, 1) ON CONFLICT DO NOTHING": "OR REPLACE and ON "
    "CONFLICT are two "
    "answers",
    "INSERT OR REPLACE INTO u VALUES (1, 1, 1, 1)": "u has (id) and (a): say which, as in ON "
    "CONFLICT (id) DO UPDATE",
    "INSERT INTO k VALUES (1, 1, 1, 1) ON CONFLICT (a) DO NOTHING": "neither the PRIMARY KEY nor a "
    "UNIQUE has these",
    "INSERT INTO k VALUES (1, 1, 1, 1) ON CONFLICT (id) WHERE a > 1 DO NOTHING": "a condition comes after DO UPDATE",
    "INSERT INTO k VALUES (1, 1, 1, 1) ON CONFLICT (id + 1) DO NOTHING": "names the columns of a "
    "key, not expressions",
    "INSERT INTO k VALUES (1, 1, 1, 1) ON CONFLICT ON CONSTRAINT x DO NOTHING": "name the columns, as in ON CONFLICT",
    "INSERT INTO k VALUES (1, 1, 1, 1) ON DUPLICATE KEY UPDATE b = 1": "write ON CONFLICT (key) DO "
    "UPDATE SET x",
    "INSERT OR IGNORE INTO k SELECT 9, n, n, n FROM range(3) r(n)": "the query has two rows with "
    "one key of k",
    "MERGE INTO k USING (VALUES (1), (1)) s(id) USING (id) WHEN MATCHED THEN DELETE": "several rows of the source",
    "MERGE INTO t USING (VALUES (1), (1)) s(id) USING (id) WHEN MATCHED THEN DELETE": "several rows of the source",
    "MERGE INTO k USING t ON true WHEN MATCHED THEN INSERT *": "WHEN MATCHED THEN INSERT is not "
    "evaluated: ",
    "MERGE INTO k USING t ON true WHEN NOT MATCHED THEN DELETE": "WHEN NOT MATCHED THEN DELETE is "
    "not evaluated",
    "MERGE INTO k USING t ON true WHEN MATCHED THEN UPDATE SET s.a = 1": "SET changes columns of "
    "k, not of s",
    "UPDATE k SET b = t.b FROM t": "several rows match one row of k",
    "UPDATE k SET (a, b) = (SELECT 1, 2)": "1 value for 2 columns: a subquery gives one value",
    "UPDATE k SET b = 1 ORDER BY id LIMIT 1": "ORDER BY id is not evaluated, in UPDATE",
    "DELETE FROM k ORDER BY id LIMIT 1": "ORDER BY id is not evaluated, in DELETE",
    "DELETE FROM k RETURNING count(*)": "RETURNING is about one row after the other",
}


@pytest.fixture(scope="module")
def workspace() -> ivm.Workspace:
    ws = ivm.open(":memory:")
    for name, key in ("t", "none"), ("k", "one column"), ("u", "and UNIQUE"):
        ws.sql(
            f"CREATE TABLE {name} (id INT, a INT, b INT, c INT{KEYS[key]}); "
            f"INSERT INTO {name} VALUES (1, 1, 1, 1), (2, 2, 2, 2)"
        )
    return ws


@pytest.mark.parametrize("text", SAID)
def test_what_is_refused_says_why(workspace: ivm.Workspace, text: str) -> None:
    with pytest.raises(IvmError, match=re.escape(SAID[text])):
        workspace.sql(text)


def test_the_order_of_a_query_says_which_row_is_first() -> None:
    ws = ivm.open(":memory:")
    ws.sql("CREATE TABLE k (id INT PRIMARY KEY, n INT)")
    ws.sql("INSERT OR IGNORE INTO k SELECT 1, n FROM range(9) r(n) ORDER BY abs(n - 4)")
    ws.sql("INSERT OR IGNORE INTO k SELECT 2, 5 FROM range(9)")
    assert list(ws.sql("FROM k")) == [(1, 4), (2, 5)]


def test_unique_columns_conflict_by_any_type_under_a_new_name() -> None:
    values = {
        "BIGINT": "7", "DOUBLE": "0.1", "DECIMAL(5, 2)": "1.5", "VARCHAR": "'ä'",
        "DATE": "DATE '2020-01-02'",
        "TIMESTAMP": "TIMESTAMP '2020-01-02 03:04:05'",
        "TIMESTAMPTZ": "TIMESTAMPTZ '2020-01-02 03:04:05+02'",
        "TIME": "TIME '01:02:03'", "BOOLEAN": "true", "BLOB": "'\\x61'::BLOB",
        "UUID": f"'{'1' * 32}'",
        "INT[]": "[1, 2]", "JSON": "'{}'",
    }  # fmt: skip
    ws = ivm.open(":memory:")
    for number, (kind, value) in enumerate(values.items()):
        ws.sql(f"CREATE TABLE x{number} (id INT PRIMARY KEY, u {kind} UNIQUE, n INT)")
        ws.sql(f"ALTER TABLE x{number} RENAME COLUMN u TO w")
        insert = f"INSERT INTO x{number} VALUES"
        assert list(
            ws.sql(f"{insert} (1, {value}, 0), (2, NULL, 0) ON CONFLICT (w) DO NOTHING")
        ) == [(2,)], kind
        assert list(ws.sql(f"{insert} (3, {value}, 0), (4, NULL, 0) ON CONFLICT DO NOTHING")) == [
            (1,)
        ], kind
        assert list(
            ws.sql(f"{insert} (5, {value}, 9) ON CONFLICT (w) DO UPDATE SET n = excluded.n")
        ) == [(1,)], kind
        assert list(ws.sql(f"SELECT id, n FROM x{number}")) == [(1, 9), (2, 0), (4, 0)], kind


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_hold_values_of_any_type(kind: str, tmp_path: Path) -> None:
    columns = {
        "z": ("TIMESTAMPTZ", "TIMESTAMPTZ '9999-12-31 23:59:59.999999+00'"),
        "m": ("TIMESTAMP", "TIMESTAMP '2020-01-02 03:04'"),
        "b": ("BLOB", "'\\x61'::BLOB"), "d": ("DATE", "DATE '0001-01-01'"), "t": ("TIME",
        "TIME '01:02:03'"),
        "n": ("DECIMAL(30, 2)", "1.25"), "h": ("HUGEINT", "12345678901234567890123"),
        "v": ("VARCHAR", "'ä, \"x\"'"),
        "f": ("DOUBLE", "0.1"), "o": ("BOOLEAN", "true"), "u": ("UUID", f"'{'1' * 32}'"),
        "j": ("JSON", "'{}'"),
    }  # fmt: skip
    ws, file = ivm.open(":memory:"), tmp_path / f"t.{kind}"
    ws.sql(
        f"CREATE TABLE t (id INT, "
        f"{', '.join(f'{name} {type_}' for name, (type_, _) in columns.items())}, l INT[])"
    )
    ws.sql(
        f"INSERT INTO t (id, {', '.join(columns)}) VALUES (1, "
        f"{', '.join(one for _, one in columns.values())})"
    )
    ws.sql("INSERT INTO t (id) VALUES (2)")
    ws.sql("CREATE TABLE other AS SELECT * EXCLUDE (l) FROM t WHERE false")
    ws.sql(f"COPY (SELECT * EXCLUDE (l) FROM t) TO '{file}'; COPY other FROM '{file}'")
    assert Counter(ws.sql("FROM other")) == Counter(ws.sql("SELECT * EXCLUDE (l) FROM t"))  # type: ignore[arg-type]
    ws.sql("UPDATE t SET l = [1]")
    with pytest.raises(
        IvmError,
        match="column l has lists, structs or maps, which CSV has not|COPY takes no INTEGER",
    ):
        ws.sql(f"COPY t TO '{file}'; COPY t FROM '{file}'")


COPIED = {  # rows of a file into t (k SMALLINT PRIMARY KEY, s TEXT NOT NULL, f DOUBLE), which has 1
    "new ones": [(2, "b", 1.5), (3, "ä", None)],
    "none": [],
    "one that exists": [(2, "b", 1.5), (1, "c", 2.5)],
    "two with one key": [(2, "b", 1.5), (2, "c", 1.5)],
    "a null where none may be": [(2, None, 1.5)],
    "a key that is null": [(None, "b", 1.5)],
    "a number beyond its column": [(70_000, "b", 1.5)],
}


@pytest.mark.parametrize("case", COPIED)
@pytest.mark.parametrize("key", ["k SMALLINT PRIMARY KEY", "k SMALLINT NOT NULL", "f DOUBLE"])
def test_copy_takes_and_refuses_the_rows_that_insert_does(case, key, tmp_path):
    """COPY hands a file's columns over whole, and does as INSERT does row by row."""
    columns = {"f": "f DOUBLE PRIMARY KEY, k SMALLINT, s TEXT NOT NULL"}.get(
        key[0], f"{key}, s TEXT NOT NULL, f DOUBLE"
    )
    listed = [(f, k, s) for k, s, f in COPIED[case]] if key[0] == "f" else COPIED[case]
    names = ("f", "k", "s") if key[0] == "f" else ("k", "s", "f")
    types = {"k": pa.int64(), "s": pa.string(), "f": pa.float64()}
    table = pa.table(
        {n: pa.array([row[i] for row in listed], types[n]) for i, n in enumerate(names)}
    )
    pa.parquet.write_table(table, tmp_path / "rows.parquet")
    found = []
    for n, text in enumerate([f"COPY t FROM '{tmp_path}/rows.parquet'", ""]):
        with ivm.open(tmp_path / f"{n}.pages") as ws:
            ws.sql(f"CREATE TABLE t ({columns}); INSERT INTO t (k, s, f) VALUES (1, 'a', 0.5)")
            try:
                if text:
                    ws.sql(text)
                elif listed:
                    marks = ", ".join(["(?, ?, ?)"] * len(listed))
                    ws.sql(f"INSERT INTO t VALUES {marks}", [v for row in listed for v in row])
                said = ""
            except IvmError as error:
                said = str(error)
            found.append((sorted(ws.sql("SELECT * FROM t"), key=repr), bool(said)))
    assert found[0] == found[1]


def test_copy_makes_no_object_for_each_value(tmp_path):
    def calls(rows: int) -> int:
        numbers = range(rows)
        table = pa.table({"k": numbers, "s": [f"t{n % 5}" for n in numbers]})
        pa.parquet.write_table(table, tmp_path / "rows.parquet")
        with ivm.open(tmp_path / f"{rows}.pages") as ws:
            ws.sql("CREATE TABLE t (k INT PRIMARY KEY, s TEXT)")
            text = f"COPY t FROM '{tmp_path}/rows.parquet'"
            return len([*filter(is_ours, functions_called(lambda: ws.sql(text)))])

    calls(10)  # the first statement of a process compiles and imports
    assert calls(20_000) < 2 * calls(2_000)


DEFAULTS = """
VARCHAR: CAST(2.7 AS INTEGER); VARCHAR: CAST(1 AS BOOLEAN); VARCHAR: CAST(DATE '2024-01-01' AS TIMESTAMP);
INTEGER: 2 ** 3 - 1; INTEGER: [5, 6][1]; VARCHAR: 'a' || 1.50; INTEGER[]: []; INTEGER[]: [1, NULL];
STRUCT(a INTEGER): {'a': 1}; VARCHAR: lower('AB'); DATE: '2024-01-05'; INTEGER: ((-1)); DECIMAL(5,2): 1.005;
BOOLEAN: 'yes'; JSON: '[1]'; HUGEINT: 99999999999999999999; INTEGER: NULL; TIME: TIME '10:00'
"""


def test_a_default_is_the_value_that_duckdb_has() -> None:
    for given in DEFAULTS.split(";"):
        type_, value = given.strip().split(": ", 1)
        with ivm.open(":memory:", threads=1) as own:
            both = Both(own)
            both.run(f"CREATE TABLE t (k INTEGER PRIMARY KEY, x {type_} DEFAULT {value})")
            both.run("INSERT INTO t (k) VALUES (1)")
            both.run("INSERT INTO t VALUES (2, NULL), (3, DEFAULT)")
            both.run("UPDATE t SET x = DEFAULT WHERE k = 2")
            found, wanted = own.sql("FROM t"), both.duck.sql("FROM t").to_arrow_table()
            assert found is not None and rows_of(found.to_arrow()) == rows_of(wanted), given
            with pytest.raises(SqlError):
                own.sql(f"CREATE TABLE u (k INTEGER PRIMARY KEY, x {type_} DEFAULT y)")


def test_a_key_of_all_columns_in_another_order() -> None:
    """Rows are found by such a key as well, to be refused twice and to be deleted."""
    ws = ivm.open(":memory:")
    ws.sql("CREATE TABLE t (a INT, b INT, PRIMARY KEY (b, a)); INSERT INTO t VALUES (1, 2), (5, 6)")
    with pytest.raises(IvmError, match="has a row with a = 1, b = 2"):
        ws.sql("INSERT INTO t VALUES (1, 2)")
    ws.sql("INSERT OR REPLACE INTO t VALUES (1, 2), (2, 1); UPDATE t SET a = 7 WHERE a = 5")
    assert [*ws.sql("SELECT * FROM t")] == [(1, 2), (2, 1), (7, 6)]
    assert [*ws.sql("DELETE FROM t WHERE a = 1")] == [(1,)]
    assert [*ws.sql("SELECT * FROM t")] == [(2, 1), (7, 6)]


@pytest.mark.parametrize("count", [1, 2, 40])
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT OR REPLACE INTO t {}",
        "INSERT INTO t {} ON CONFLICT DO UPDATE SET l = excluded.l, m = excluded.m, s = excluded.s",
    ],
)
def test_rows_with_lists_take_the_place_of_others(statement, count):
    tables = "CREATE TABLE t (id INT PRIMARY KEY, l INT[], m MAP(VARCHAR, INT), s STRUCT(a INT, b VARCHAR))"
    rows = [
        "[1, NULL], MAP {'a': 1}, {'a': 1, 'b': 'x'}", "NULL, NULL, NULL", "[], MAP {}, {'a': NULL, 'b': ''}",
    ]  # fmt: skip
    both = [duckdb.connect(), ivm.open(":memory:")]
    for turn in range(3):
        values = ", ".join(f"({n}, {rows[(n + turn) % 3]})" for n in range(count))
        for engine in both:
            run = engine.execute if engine is both[0] else engine.sql
            if not turn:
                run(tables)
            run(statement.format(f"VALUES {values}"))
        query = "SELECT id, l, m['a'], s.a, s.b FROM t ORDER BY id"
        found = [tuple(row.values()) for row in both[1].sql(query).to_arrow().to_pylist()]
        assert found == both[0].execute(query).fetchall()
    both[1].close()


def test_a_row_that_is_left_out_stands_in_no_other_rows_way():
    for engine in (ivm.open(":memory:"), sqlite3.connect(":memory:")):
        run = engine.sql if isinstance(engine, ivm.Workspace) else engine.execute
        run("CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER UNIQUE)")
        run("INSERT INTO t VALUES (4, 1)")
        run("INSERT INTO t VALUES (4, 3), (7, 3), (4, 5), (8, 5), (9, 1) ON CONFLICT DO NOTHING")
        assert [*run("SELECT id, k FROM t ORDER BY id")] == [(4, 1), (7, 3), (8, 5)]
        engine.close()


def test_a_reference_to_no_table_does_not_name_the_one_that_is_created():
    with ivm.open(":memory:") as ws:
        with pytest.raises(SqlError, match=r"no table q exists$"):
            ws.sql("CREATE TABLE t (id INT PRIMARY KEY, a INT REFERENCES q)")
        ws.sql("CREATE TABLE p (id INT PRIMARY KEY)")
        with pytest.raises(SqlError, match=r"no table q exists; there is p$"):
            ws.sql("CREATE TABLE t (id INT PRIMARY KEY, a INT REFERENCES q)")
