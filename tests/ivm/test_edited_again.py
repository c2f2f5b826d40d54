"""An edit by key that is made again does what it would do if it were made for the first time."""

from random import Random
from typing import Any

import pytest

import ivm
from ivm.answer import ListedAnswer
from ivm.errors import IvmError
from ivm.sql.statements import Statements
from pagestore.errors import PagestoreError
from tests.support.calls import functions_called
from tests.support.programs.amounts import times

pytestmark = pytest.mark.usefixtures("unhurried")

TABLES = """
    CREATE TABLE paid (id INT PRIMARY KEY, who TEXT NOT NULL, cents BIGINT DEFAULT 7, part DECIMAL(8, 2));
    CREATE TABLE line (no SMALLINT, id INT, what TEXT DEFAULT 'new', f DOUBLE, PRIMARY KEY (id, no));
    CREATE TABLE pair (a INT, b TEXT, PRIMARY KEY (b, a));
    CREATE TABLE note (who TEXT, n INT, at DATE);
    CREATE TABLE kept (k TEXT PRIMARY KEY, n TINYINT CHECK (n < 100), u INT UNIQUE, j INT[], d DATE);
    CREATE TABLE child (id INT PRIMARY KEY, of INT REFERENCES paid (id));
    CREATE TABLE log (n INT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, what TEXT, r DOUBLE DEFAULT random());
    CREATE MATERIALIZED VIEW total AS SELECT who, sum(cents) AS cents, count(*) AS n FROM paid GROUP BY who;
    CREATE MATERIALIZED VIEW named AS SELECT no, what, cents FROM line JOIN paid USING (id);
    CREATE MATERIALIZED VIEW noted AS SELECT who, count(*) AS n FROM note GROUP BY who;
"""
STATEMENTS = [
    "INSERT INTO paid VALUES ({int}, {text}, {int}, {number})",
    "INSERT INTO paid (who, id) VALUES ({text}, {int})",
    "INSERT INTO paid VALUES ({int}, {text}, DEFAULT, NULL), ({int}, {text}, {int}, 2.5)",
    "INSERT INTO line VALUES ({int}, {int}, {text}, {number})",
    "INSERT INTO line (id, no) VALUES ({int}, -{int})",
    "INSERT INTO pair VALUES ({int}, {text})",
    "INSERT INTO note VALUES ({text}, {int}, {date})",
    "INSERT INTO kept VALUES ({text}, {int}, {int}, NULL, {date})",
    "INSERT INTO kept (k, u, j) VALUES ({text}, {int}, [1, 2])",
    "INSERT INTO log (what, r) VALUES ({text}, {int})",
    "INSERT INTO log VALUES (DEFAULT, {text}, {number})",
    "INSERT INTO child VALUES ({int}, {int})",
    "UPDATE paid SET cents = {int}, who = {text} WHERE id = {int}",
    "UPDATE paid SET cents = cents + {int} WHERE paid.id = {int}",
    "UPDATE paid AS p SET part = {number}, cents = p.cents - 1 WHERE ({int} = p.ID)",
    "UPDATE paid SET who = NULL WHERE id = {int}",
    "UPDATE line SET what = {text}, f = {number} WHERE no = {int} AND id = {int}",
    "UPDATE line SET f = {int} WHERE id = {int}",
    "UPDATE line SET what = DEFAULT WHERE id = {int} AND no = {int} AND what = {text}",
    "UPDATE kept SET n = n + {int}, d = {date} WHERE k = {text}",
    "UPDATE kept SET u = {int} WHERE k = {text}",
    "UPDATE paid SET id = {int} WHERE id = {int}",
    "UPDATE pair SET a = {int} WHERE b = {text} AND a = {int}",
    "UPDATE paid SET cents = id + {int} WHERE id = {int}",
    "UPDATE paid SET part = part + {int} WHERE id = {int}",
    "DELETE FROM paid WHERE id = {int}",
    "DELETE FROM line WHERE id = {int} AND no = {int}",
    "DELETE FROM line WHERE id = {int}",
    "DELETE FROM pair WHERE a = {int} AND b = {text}",
    "DELETE FROM kept WHERE k = {text}",
    "DELETE FROM child WHERE id = {int} AND id = {int}",
    "DELETE FROM note WHERE who = {text}",
]
UPSERTS = [
    "INSERT INTO paid VALUES ({int}, {text}, {int}, {number}) RETURNING *",
    "INSERT INTO line (id, no) VALUES ({int}, {int}) RETURNING what, no AS n, line.id",
    "INSERT INTO note VALUES ({text}, {int}, {date}) RETURNING n",
    "INSERT INTO kept (k, u, j) VALUES ({text}, {int}, [1, 2]) RETURNING u, d",
    "INSERT INTO kept (k, u, j) VALUES ({text}, {int}, [1, 2]) RETURNING j",
    "INSERT INTO paid (id, who) VALUES ({int}, {text}), ({int}, 'x') RETURNING id",
    "UPDATE paid SET cents = cents + {int} WHERE id = {int} RETURNING cents, paid.who AS w",
    "UPDATE paid SET cents = {int} WHERE id = {int} RETURNING cents + 1",
    "DELETE FROM paid WHERE id = {int} RETURNING *, part AS again",
    "DELETE FROM pair WHERE a = {int} AND b = {text} RETURNING b",
    "INSERT INTO paid VALUES ({int}, {text}, {int}, {number}) ON CONFLICT DO NOTHING",
    "INSERT INTO paid VALUES ({int}, {text}, {int}, {number}) ON CONFLICT (id) DO NOTHING RETURNING id",
    "INSERT INTO paid AS p VALUES ({int}, {text}, {int}, 2) ON CONFLICT (ID) DO UPDATE "
    "SET cents = p.cents + excluded.cents, who = EXCLUDED.who RETURNING *",
    "INSERT INTO paid (who, id) VALUES ({text}, {int}), ({text}, {int}) ON CONFLICT (id) DO UPDATE "
    "SET who = excluded.who, cents = cents + {int}, part = {number}",
    "INSERT INTO paid (who, id) VALUES ({text}, {int}) ON CONFLICT (id) DO UPDATE SET cents = DEFAULT",
    "INSERT INTO paid (who, id) VALUES ({text}, {int}) ON CONFLICT (id) DO UPDATE SET id = excluded.id",
    "INSERT INTO paid (who, id) VALUES ({text}, {int}) ON CONFLICT (id) DO UPDATE SET cents = excluded.id",
    "INSERT INTO paid (who, id) VALUES ({text}, {int}) ON CONFLICT (id) DO UPDATE SET who = excluded.who "
    "WHERE cents > {int}",
    "INSERT INTO kept (k, n) VALUES ({text}, {int}) ON CONFLICT (k) DO UPDATE SET n = n + excluded.n, d = {date}",
    "INSERT INTO kept (k, u) VALUES ({text}, {int}) ON CONFLICT (u) DO NOTHING",
    "INSERT INTO kept (k, u) VALUES ({text}, {int}) ON CONFLICT DO NOTHING",
    "INSERT OR REPLACE INTO line VALUES ({int}, {int}, {text}, {number})",
    "INSERT OR REPLACE INTO paid (id, who) VALUES ({int}, {text}) RETURNING id, cents",
    "INSERT OR IGNORE INTO pair VALUES ({int}, {text})",
    "INSERT OR REPLACE INTO pair VALUES ({int}, {text})",
    "INSERT OR REPLACE INTO note VALUES ({text}, {int}, {date})",
    "MERGE INTO paid USING (VALUES ({int}, {text})) AS s(i, w) ON id = s.i "
    "WHEN MATCHED THEN UPDATE SET who = s.w, cents = cents - s.i "
    "WHEN NOT MATCHED THEN INSERT (id, who) VALUES (s.i, s.w)",
    "MERGE INTO paid AS p USING (SELECT {int} AS id, {number} AS part) s USING (id) "
    "WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'm', {int}, 5) "
    "WHEN MATCHED THEN UPDATE SET part = s.part",
    "MERGE INTO line USING (VALUES ({int}, {int}, {number})) AS s(id, no, f) "
    "ON line.id = s.id AND s.no = line.no WHEN MATCHED THEN UPDATE SET f = s.f",
    "MERGE INTO pair USING (SELECT {text} AS b, {int} AS a) s ON pair.a = s.a AND pair.b = s.b "
    "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.a, s.b)",
    "MERGE INTO paid p USING (VALUES ({int}, {int})) AS s(id, n) ON p.id = s.id "
    "WHEN MATCHED AND s.n > 1 THEN DELETE WHEN MATCHED THEN UPDATE SET cents = s.n",
    "MERGE INTO paid p USING (VALUES ({int}, {int})) AS s(id, n) ON p.id = s.id "
    "WHEN MATCHED THEN UPDATE SET cents = cents + s.n RETURNING p.id, cents",
    "MERGE INTO paid p USING (VALUES ({int})) AS s(id) ON p.id = s.id WHEN MATCHED THEN DO NOTHING",
]
CONDITIONS = [  # of one more comparison of each kind: with a value, a constant, a column
    "UPDATE paid SET cents = cents - {int} WHERE id = {int} AND cents >= {int}",
    "UPDATE paid SET cents = id + {int}, who = {text} WHERE cents < {int} AND id = {int} AND who <> {text}",
    "UPDATE paid SET part = {number} WHERE id = {int} AND cents > 2 AND 90 >= cents",
    "UPDATE paid SET who = {text} WHERE (id = {int} AND id = {int}) AND 'ada' = who",
    "UPDATE paid SET who = {text} WHERE id = {int} AND cents <= id RETURNING id, who",
    "UPDATE paid SET cents = 3 WHERE id = {int} AND cents BETWEEN {int} AND {int}",
    "UPDATE paid SET cents = 3 WHERE id = {int} AND cents BETWEEN SYMMETRIC {int} AND {int}",
    "UPDATE paid SET cents = 3 WHERE id = {int} AND (cents = {int} OR who = {text})",
    "UPDATE paid SET cents = 3 WHERE id = {int} AND part > {number}",
    "UPDATE paid SET cents = 3 WHERE id = {int} AND cents IS NULL",
    "UPDATE line SET f = {int} WHERE id = {int} AND no = {int} AND what > {text}",
    "UPDATE line SET what = {text} WHERE id = {int} AND no = {int} AND what = what",
    "UPDATE kept SET n = u + {int} WHERE k = {text} AND u < n",
    "UPDATE kept SET u = n - {int} WHERE k = {text} AND u <> {int}",
    "UPDATE child SET of = {int} WHERE id = {int} AND of = {int}",
    "DELETE FROM paid WHERE id = {int} AND cents < {int} RETURNING cents",
    "DELETE FROM pair WHERE a = {int} AND b = {text} AND a >= {int}",
    "DELETE FROM child WHERE of = {int} AND id = {int}",
    "INSERT INTO paid VALUES ({int}, {text}, {int}, {number}) ON CONFLICT (id) DO UPDATE "
    "SET who = excluded.who WHERE paid.cents < excluded.cents",
    "INSERT INTO kept (k, u) VALUES ({text}, {int}) ON CONFLICT (k) DO UPDATE SET n = {int} "
    "WHERE kept.u = excluded.u AND n < {int} RETURNING n",
    "MERGE INTO paid p USING (VALUES ({int}, {int})) AS s(id, n) ON p.id = s.id "
    "WHEN MATCHED AND cents >= s.n THEN UPDATE SET cents = cents - s.n "
    "WHEN NOT MATCHED THEN INSERT (id, who) VALUES (s.id, 'new')",
    "MERGE INTO paid p USING (VALUES ({int}, {text})) AS s(id, w) ON p.id = s.id "
    "WHEN MATCHED AND p.who = s.w THEN DELETE",
]
DEFINITIONS = [
    "ALTER TABLE line ADD COLUMN g{n} INT DEFAULT 7",
    "ALTER TABLE paid RENAME COLUMN cents TO c; ALTER TABLE paid RENAME COLUMN part TO cents; "
    "ALTER TABLE paid RENAME COLUMN c TO part",
    "DROP TABLE note CASCADE; CREATE TABLE note (n TEXT, who INT, at DATE)",
    "DROP TABLE pair; CREATE TABLE pair (b INT, a TEXT PRIMARY KEY)",
    "CREATE TABLE other{n} (id INT)",
]
VALUES = {
    "int": [0, 1, 2, 3, 90, 1 << 40],
    "text": ["ada", "bob", "it's", "", "2"],
    "number": [1, 2.5, -3],
    "date": ["2024-01-02"],
}
ODD = [None, True, 2.0, 2.5, 1 << 63, 1 << 70, "2", "x", -1, b"x", [1], float("nan"), "\ud800"]


class Twin:
    """Two stores alike, one of which runs each statement as if it were the first."""

    def __init__(self) -> None:
        self.ws, self.plain = ivm.open(":memory:"), ivm.open(":memory:")
        self.again = 0
        self.txn: list[Any] = []

    def run(self, text: str, values: Any = None) -> None:
        """Run a statement on both, and compare what it says."""
        found = attempt(self.txn[0].sql if self.txn else self.ws.sql, text, values)
        slow = Statements(self.plain, sessions=self.plain._sessions)
        if self.txn:
            slow = Statements(self.plain, None, self.txn[1])
        expected = attempt(slow.run, text, values)
        assert shown(found) == shown(expected), (text, values)
        self.again += isinstance(found, ListedAnswer)

    def begin(self) -> None:
        """Begin a transaction of Python on both."""
        self.txn = [self.ws.transaction(), self.plain.transaction()]

    def end(self) -> None:
        """Commit it; a constraint may refuse it."""
        results = [attempt(txn.commit) for txn in self.txn]
        assert type(results[0]) is type(results[1])
        self.txn = []

    def compare(self) -> None:
        """Compare all tables and views."""
        for name in self.ws:
            assert [*self.ws[name]] == [*self.plain[name]], name


def attempt(run: Any, *given: Any) -> Any:
    try:
        return run(*given)
    except (IvmError, PagestoreError) as error:
        return error


def shown(found: Any) -> Any:
    """Return the rows of an answer with their columns, or an error with its sentence."""
    if found is None or isinstance(found, Exception):
        return type(found), str(found)
    return [*found], str(found.to_arrow().schema)


def filled(random: Random, text: str, share: float) -> tuple[str, list[Any] | None]:
    """Return a statement with values, a share of them as parameters."""
    values: list[Any] = []
    head, *parts = text.split("{")
    for part in parts:
        kind, rest = part.split("}", 1)
        value = random.choice(VALUES.get(kind, [9]))
        if random.random() < share:
            values.append(random.choice(ODD) if random.random() < 0.07 else value)
            head += "?" + rest
        else:
            head += (
                "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)
            ) + rest
    return head, values or None


@pytest.mark.parametrize("seed", range(times(2)))
def test_edited_again_is_as_edited_first(seed: int) -> None:
    """Random edits, alone and in transactions of both kinds, between changes of tables, say and do
    what they say and do if none is remembered.
    """
    random, twin = Random(seed), Twin()
    twin.run(TABLES)
    asked = [*random.sample(STATEMENTS, 7), *random.sample(UPSERTS, 7)]
    asked += random.sample(CONDITIONS, 6)
    for n in range(200):
        if random.random() < 0.03 and not twin.txn:
            twin.run(random.choice(DEFINITIONS).format(n=n))
        if random.random() < 0.06:
            if twin.txn:
                twin.end()
            elif twin.ws.in_sql_transaction:
                twin.run(random.choice(["COMMIT", "ROLLBACK"]))
            else:
                random.choice([twin.begin, lambda: twin.run("BEGIN")])()
        twin.run(*filled(random, random.choice(asked), random.choice([0, 1])))
        if random.random() < 0.1 and not twin.txn and not twin.ws.in_sql_transaction:
            twin.compare()
    assert twin.again > 3


def test_an_edit_by_key_calls_few_functions() -> None:
    """Made again within a transaction, it makes no program, no plan and no table."""
    ws = ivm.open(":memory:")
    ws.sql(TABLES)
    with ws.transaction() as txn:
        for text, values in [
            ("INSERT INTO paid (id, who) VALUES (?, ?)", lambda n: [n, "ada"]),
            ("UPDATE paid SET cents = cents + 1 WHERE id = ?", lambda n: [n]),
            ("DELETE FROM paid WHERE id = ?", lambda n: [n]),
            ("INSERT OR REPLACE INTO paid (id, who) VALUES (?, ?)", lambda n: [n, "ada"]),
            ("INSERT INTO paid (id, who) VALUES (?, ?) ON CONFLICT (id) DO UPDATE "
             "SET cents = cents + excluded.id", lambda n: [n, "ada"]),
            ("UPDATE paid SET cents = cents + 1 WHERE id = ? RETURNING *", lambda n: [n]),
            ("MERGE INTO paid p USING (VALUES (?, ?)) AS s(id, w) ON p.id = s.id "
             "WHEN MATCHED THEN UPDATE SET who = s.w "
             "WHEN NOT MATCHED THEN INSERT (id, who) VALUES (s.id, s.w)", lambda n: [n, "bob"]),
            ("UPDATE paid SET cents = cents - ? WHERE id = ? AND cents >= ?", lambda n: [1, n, 1]),
            ("UPDATE paid SET cents = cents - ? WHERE id = ? AND cents >= ?", lambda n: [1, n, 99]),
            ("INSERT INTO paid (id, who) VALUES (?, ?) ON CONFLICT (id) DO UPDATE "
             "SET who = excluded.who WHERE paid.cents > 5", lambda n: [n, "ada"]),
            ("DELETE FROM paid WHERE id = ? RETURNING who", lambda n: [n]),
        ]:  # fmt: skip
            for n in range(3):
                txn.sql(text, values(n))
            called = functions_called(lambda text=text, own=values: txn.sql(text, own(3)))
            assert len(called) <= (380 if "RETURNING" in text else 300), (text, len(called))


def test_others_change_tables_between_edits(tmp_path: Any) -> None:
    """Another opener's tables and rows are those that the next edit finds."""
    path = tmp_path / "s.pages"
    with ivm.open(path) as ws, ivm.open(path) as other:
        ws.sql("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
        for change, columns in [
            ("SELECT 1", "id, a, b"),
            ("ALTER TABLE t RENAME COLUMN a TO c; ALTER TABLE t RENAME COLUMN b TO a", "id, c, a"),
            ("DROP TABLE t; CREATE TABLE t (a INT, id INT PRIMARY KEY)", "a, id"),
        ]:
            other.sql(change)
            for n in range(3):
                ws.sql("INSERT INTO t (id, a) VALUES (?, ?)", [n, n])
                ws.sql("UPDATE t SET a = a + 5 WHERE id = ?", [n])
            assert [*other.sql("SELECT id, a FROM t")] == [(0, 5), (1, 6), (2, 7)]
            for n in range(3):
                ws.sql("DELETE FROM t WHERE id = ?", [n])
            assert not [*other.sql(f"SELECT {columns} FROM t")]


def test_what_each_row_gets_anew_stays_new() -> None:
    """Numbers, chance and the moment are not remembered with a statement."""
    ws = ivm.open(":memory:")
    ws.sql(TABLES)
    for what in ("a", "b", "c", "d"):
        ws.sql("INSERT INTO log (what) VALUES (?)", [what])
    for name in ("n", "r"):
        ((n,),) = ws.sql(f"SELECT count(DISTINCT {name}) FROM log")
        assert n == 4
    before = [*ws.sql("SELECT r FROM log WHERE n = 1")]
    ws.sql("UPDATE log SET r = DEFAULT WHERE n = ?", [1])
    assert [*ws.sql("SELECT r FROM log WHERE n = 1")] != before


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("INSERT INTO paid VALUES (?, ?, ?, 2.5)", [(n, "ada", n) for n in range(9)]),
        ("INSERT INTO paid (who, id) VALUES ($2, $1)", [[n, "ada"] for n in range(9)]),
        ("INSERT INTO paid (id, who) VALUES (:i, :w)", [{"i": n, "w": "é"} for n in range(9)]),
        ("INSERT INTO paid (id, who) VALUES (?, ?), (?, 'x')", [(n, "a", -n - 1) for n in range(9)]),
        ("INSERT INTO paid (id, who) VALUES (?, ?)", [(n % 8, "ada") for n in range(9)]),
        ("INSERT INTO paid (id, who) VALUES (?, ?)", [(n, "ada" if n < 8 else None) for n in range(9)]),
        ("INSERT INTO paid (id, who) VALUES (?, ?)", [(n, n) for n in range(9)]),
        ("INSERT INTO paid (id, who) VALUES (?, ?)", [(1 << n * 5, "ada") for n in range(9)]),
        ("INSERT INTO paid (id, who) VALUES (?, ?)", [(n, "ada") for n in range(8)] + [(9,)]),
        ("INSERT INTO child VALUES (?, ?)", [(n, 77) for n in range(9)]),
        ("INSERT INTO note VALUES ('a', ?, NULL)", [(n // 3,) for n in range(9)]),
        ("INSERT INTO pair VALUES (?, ?) RETURNING a", [(n, "a") for n in range(9)]),
        ("UPDATE paid SET cents = cents + ? WHERE id = ?", [(n, 101) for n in range(9)]),
        ("DELETE FROM paid WHERE id = ?", [(n,) for n in range(97, 106)]),
        ("INSERT OR IGNORE INTO paid (id, who) VALUES (?, ?)", [(97 + n, "é") for n in range(9)]),
        ("INSERT INTO paid (id, who) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET who = excluded.who "
         "RETURNING id", [(97 + n % 7, f"w{n}") for n in range(9)]),
        ("MERGE INTO paid USING (VALUES (?)) AS s(i) ON id = s.i WHEN MATCHED THEN DELETE",
         [(97 + n,) for n in range(9)]),
        ("UPDATE paid SET cents = cents - ? WHERE id = ? AND cents >= ?",
         [(4, 101 + n % 2, 4) for n in range(9)]),
        ("UPDATE paid SET cents = cents + ? WHERE id = ?", [(1 << 61, 101 + n % 2) for n in range(9)]),
        ("DELETE FROM paid WHERE id = ? AND cents > 3 RETURNING who", [(101 + n % 3,) for n in range(9)]),
        ("MERGE INTO paid USING (VALUES (?)) AS s(i) ON id = s.i WHEN MATCHED THEN DELETE "
         "WHEN NOT MATCHED THEN INSERT (id, who) VALUES (s.i, 'back')", [(101 + n % 5,) for n in range(9)]),
        ("INSERT INTO paid (id, who, cents) VALUES (?, 'x', 1) ON CONFLICT (id) DO UPDATE "
         "SET cents = cents + 1 WHERE cents < 3", [(103 + n % 2,) for n in range(9)]),
        ("SELECT ?", [(1,)]),
        ("INSERT INTO paid (id, who) VALUES (?, ?)", []),
    ],
)  # fmt: skip
@pytest.mark.parametrize("inside", [False, True])
def test_many_are_as_one_after_the_other(text: str, rows: list[Any], inside: bool) -> None:
    """One batch does what each statement in one transaction does, or nothing if one fails."""
    found = []
    for many in (True, False):
        ws = ivm.open(":memory:")
        ws.sql(TABLES + "; INSERT INTO paid (id, who) VALUES (101, 'bob'), (102, 'bob')")
        before = [[*ws[name]] for name in ("paid", "pair", "note", "child", "total")]
        try:
            with ws.transaction() as txn:
                txn.sql("INSERT INTO paid (id, who) VALUES (103, 'bob')")
                if many and inside:
                    count = ws.prepare_sql(text, inside=txn).executemany(rows)
                elif not many:
                    answers = [txn.sql(text, row) for row in rows]
                    returning = "RETURNING" in text
                    count = sum(len(one) if returning else next(iter(one))[0] for one in answers)
                    if "SELECT" in text:
                        raise IvmError
            if many and not inside:
                count = ws.prepare_sql(text).executemany(rows)
        except IvmError:
            count = None
            if many and not inside:
                ws.sql("DELETE FROM paid WHERE id = 103")
        after = [[*ws[name]] for name in ("paid", "pair", "note", "child", "total")]
        assert count is not None or after == before
        found.append((count, after))
    assert found[0] == found[1]


def test_many_rows_call_few_functions_each() -> None:
    ws = ivm.open(":memory:")
    ws.sql(TABLES)
    put = ws.prepare_sql("INSERT INTO paid (id, who) VALUES (?, ?)")
    called = []
    for first, count in ((0, 10), (100, 10), (1000, 3000)):
        rows = [(first + n, "ada") for n in range(count)]
        codes = functions_called(lambda rows=rows: put.executemany(rows))
        called.append(sum("/ivm/" in code.co_filename for code in codes))
    assert called[2] < called[1] + 4 * 3000
