"""A question that is asked again is answered by keys, and as if it were asked for the first time."""

from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pytest

import ivm
from ivm import question
from ivm.answer import ListedAnswer
from ivm.errors import IvmError
from ivm.lang.ir import GIVEN, Call, Compare, Const, Var
from ivm.plan.key_ranges import key_range
from ivm.plan.plan import Index, Plan, Trie
from ivm.sql import statements
from ivm.sql.prepared import general
from ivm.sql.session import Reader
from ivm.terms.encoder import Encoder
from tests.support.calls import functions_called
from tests.support.programs.amounts import times

TABLES = """
    CREATE TABLE paid (id INT PRIMARY KEY, who TEXT, cents BIGINT, day DATE, part DECIMAL(8, 2));
    CREATE TABLE line (id INT, no SMALLINT, what TEXT NOT NULL, f DOUBLE, PRIMARY KEY (id, no));
    CREATE TABLE note (who TEXT, what TEXT, n INT, at TIMESTAMP);
    CREATE MATERIALIZED VIEW total AS SELECT who, sum(cents) AS cents, avg(part) AS part FROM paid GROUP BY who;
    CREATE MATERIALIZED VIEW most AS SELECT who, max(cents) AS top, count(*) AS n FROM paid GROUP BY who;
    CREATE MATERIALIZED VIEW named AS SELECT id, no, what, upper(what) AS loud, f FROM line;
    CREATE MATERIALIZED VIEW noted AS SELECT who, n, [n, 1] AS both FROM note WHERE n > 0;
    CREATE MATERIALIZED VIEW first AS SELECT who, id, cents FROM paid ORDER BY cents LIMIT 3;
    CREATE VIEW plain AS SELECT who, cents + 1 AS more FROM total;
"""
NAMES = ["ada", "bob", "it''s", "", "Ada"]
VALUES: dict[str, list[Any]] = {
    "text": NAMES,
    "int": [0, 1, 2, 3, 1 << 40],
    "dec": [Decimal("0.5"), Decimal("1.00"), Decimal("2.125"), Decimal("3.3"), Decimal("0.0")],
    "float": [0.5, 1.0, 1e3, 2.25, 1 / 3],
    "day": [date(2024, 1, 3), date(2024, 1, 5), date(1969, 12, 31), date(9999, 12, 31)],
    "moment": [datetime(2024, 1, 1, 0, 0, 3), datetime(1969, 1, 1), datetime(2024, 1, 1, 0, 0, 5)],
}
WRITTEN = {"text": "'{}'", "day": "DATE '{}'", "moment": "TIMESTAMP '{}'"}
ODD = [
    None,
    True,
    2.0,
    1 << 70,
    "2",
    -1,
    Decimal("1.5"),
    date(2024, 1, 3),
    float("inf"),
    "2024-01-03",
]
MANY_COLUMNS = "".join(f", a + {n} AS c{n}" for n in range(70))  # that no one relation has
DIALECTS = ["duckdb", "duckdb", "duckdb", "postgres", "sqlite", "spark"]
QUESTIONS = [
    "SELECT * FROM paid WHERE id = {int}",
    "SELECT who, day, part FROM paid WHERE {int} = id AND cents > {int}",
    "SELECT cents, id AS key, id FROM paid AS p WHERE p.id = {int} AND who = {text}",
    "SELECT who FROM paid WHERE id = {int} AND cents != id",
    "SELECT * FROM line WHERE id = {int} AND no = {int}",
    "SELECT no, what, f FROM line WHERE id = {int}",
    "SELECT no FROM line WHERE id = {int} AND no <> {int} AND what = {text}",
    "SELECT what, n FROM note WHERE who = {text}",
    "SELECT * FROM note WHERE who = {text} AND what = {text}",
    "SELECT DISTINCT n FROM note WHERE who = {text}",
    "SELECT cents FROM total WHERE who = {text}",
    "SELECT * FROM total WHERE who = {text} AND cents = {int}",
    "SELECT t.cents, m.top FROM total t JOIN most m ON t.who = m.who WHERE t.who = {text}",
    "SELECT p.id, l.what FROM paid p JOIN line l USING (id) WHERE p.id = {int}",
    "SELECT p.who, m.n FROM paid p JOIN most m ON p.who = m.who WHERE p.id = {int}",
    "SELECT p.id FROM paid p LEFT JOIN line l ON p.id = l.id WHERE p.id = {int}",
    "SELECT loud, f FROM named WHERE id = {int} AND no = {int}",
    "SELECT * FROM noted WHERE who = {text}",
    "SELECT id FROM first WHERE who = {text}",
    "SELECT more FROM plain WHERE who = {text}",
    "SELECT what FROM line WHERE id = {int} ORDER BY no DESC LIMIT 1",
    "SELECT what FROM line WHERE id = {int} LIMIT 1",
    "SELECT count(*), min(no) FROM line WHERE id = {int}",
    "SELECT who FROM paid WHERE id = {int} OR id = {int}",
    "SELECT who FROM paid WHERE id = {int} + 1",
    "SELECT id FROM paid WHERE NOT id = {int}",
    "SELECT id, {int} AS x FROM paid WHERE id = {int}",
    "SELECT who FROM paid WHERE id = {text}",
    "SELECT who FROM paid WHERE day = {text} AND id = {int}",
    "SELECT no FROM line WHERE id = {int} AND no < {int} AND no >= {int}",
    "SELECT id FROM paid WHERE id = {int} /* = 3 */ AND who = 'a=1' -- = 'x'",
    "SELECT id FROM paid WHERE id = {int} AND who IN (SELECT who FROM most WHERE n = {int})",
    "SELECT who FROM paid WHERE id = {int} AND EXISTS (SELECT 1 FROM line WHERE id = {int})",
    "SELECT a.id FROM paid a, paid b WHERE a.id = {int} AND b.id = a.cents",
    "SELECT id FROM paid WHERE id = {int} AND id = {int}",
    "SELECT id FROM paid WHERE id = {int} AND cents IS NULL",
    "SELECT who FROM paid WHERE id = {int}; SELECT no FROM line WHERE id = {int}",
    "SELECT who, sum(cents) AS s FROM paid WHERE cents > {int} GROUP BY who ORDER BY s DESC LIMIT 2",
    "SELECT m.n, count(*) FROM paid p JOIN most m USING (who) WHERE p.who <> {text} GROUP BY m.n",
    "SELECT what, count(*) FROM note WHERE who > {text} GROUP BY what",
    "SELECT id FROM paid WHERE who LIKE 'b%' OR who = {text}",
    "SELECT p.id, n.what FROM paid p LEFT JOIN note n ON p.who = n.who AND n.n > {int}",
    "SELECT DISTINCT who FROM note UNION ALL SELECT who FROM paid WHERE id = {int}",
    "WITH t AS (SELECT who, n FROM note WHERE n < {int}) SELECT * FROM t a JOIN t b USING (who)",
    "SELECT who, row_number() OVER (PARTITION BY who ORDER BY id) FROM paid WHERE id != {int}",
    "SELECT who FROM paid WHERE cents = {int} AND random() < 2",
    "SELECT count(*) FROM paid WHERE day < now() AND who = {text} || ''",
    "SELECT * FROM plain JOIN named ON named.id = more",
    "SELECT who, count(*) FROM paid WHERE part > {dec} GROUP BY who",
    "SELECT id FROM paid WHERE part BETWEEN {dec} AND {dec} AND cents < {int}",
    "SELECT id FROM paid WHERE day >= {day} AND NOT (cents > {int} OR day = {day})",
    "SELECT what FROM line WHERE f < {float} OR f >= {int}",
    "SELECT n FROM note WHERE at > {moment}",
    "SELECT who, sum(cents) FROM paid GROUP BY who HAVING sum(cents) > {int} AND min(day) < {day}",
    "SELECT id FROM paid WHERE cents + id > {int} AND upper(who) = {text}",
    "SELECT p.id FROM paid p WHERE p.cents <> {int} "
    "AND EXISTS (SELECT 1 FROM note n WHERE n.who = p.who AND n.n > {int})",
    "SELECT id FROM paid WHERE cents > (SELECT min(cents) FROM paid WHERE cents > {int})",
    "SELECT id FROM paid WHERE year(day) = {int} OR length(who) < {int}",
    "SELECT id, row_number() OVER (ORDER BY id) r FROM paid WHERE cents > {int} QUALIFY r < {int}",
    "SELECT id FROM paid WHERE cents > {int} ORDER BY id LIMIT {int}",
    "SELECT a.id, b.no FROM paid a LEFT JOIN line b ON a.id = b.id AND b.no > {int} "
    "WHERE a.cents >= {int}",
    "SELECT id FROM paid WHERE day > {text}",
    "SELECT CASE WHEN cents > {int} THEN 'x' ELSE 'y' END c, id FROM paid WHERE cents >= {int}",
    "SELECT cents > {int}, id FROM paid WHERE cents >= {int}",
    "SELECT who FROM paid WHERE who >= {text} AND who < {text}",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n + 1 FROM r WHERE n < {int} AND n < 5) "
    "SELECT n FROM r WHERE n > {int}",
    "SELECT id FROM paid WHERE part = {int} OR part < {float}",
    "SELECT id FROM line WHERE no > {dec} AND no > {float}",
    "SELECT id FROM paid WHERE cents > {int} UNION SELECT no FROM line WHERE no < {int}",
    "SELECT 100 / id FROM paid WHERE id < {int} AND cents > {int}",
    "SELECT id FROM paid WHERE cents IN ({int}, {int}) OR who IN ({text}, 'bob', {text})",
    "SELECT id FROM paid WHERE cents NOT IN ({int}, {dec}) AND day IN ({day}, {day}, {day})",
]
CHANGES = [
    "INSERT OR REPLACE INTO paid VALUES ({int}, {text}, {int}, DATE '2024-01-0{digit}', {int})",
    "INSERT OR REPLACE INTO paid VALUES ({int}, NULL, NULL, NULL, NULL)",
    "INSERT OR REPLACE INTO line VALUES ({int}, {int}, {text}, {int} / 3)",
    "INSERT INTO note VALUES ({text}, {text}, {int}, TIMESTAMP '2024-01-01 00:00:0{digit}')",
    "INSERT INTO note VALUES (NULL, {text}, NULL, NULL)",
    "DELETE FROM paid WHERE id = {int}",
    "DELETE FROM note WHERE n = {int}",
    "UPDATE line SET what = {text} WHERE id = {int}",
]
DEFINITIONS = [
    "ALTER TABLE line ADD COLUMN g{n} INT DEFAULT 7",
    "ALTER TABLE paid RENAME COLUMN day TO day{n}; ALTER TABLE paid RENAME COLUMN day{n} TO day",
    "DROP VIEW plain; CREATE VIEW plain AS SELECT who, cents + {n} AS more FROM total",
    "DROP MATERIALIZED VIEW named; "
    "CREATE MATERIALIZED VIEW named AS SELECT id, no, what, 'x' AS loud, f FROM line",
    "DROP TABLE note CASCADE; CREATE TABLE note (n INT, what TEXT, who TEXT PRIMARY KEY)",
    "CREATE TABLE other{n} (id INT)",
]


@pytest.mark.parametrize("seed", range(times(4)))
def test_asked_again_is_as_asked_first(seed: int, tmp_path: Any, monkeypatch: Any) -> None:
    """Random questions with literals and parameters in each other's place, between random edits
    and changes of tables and views, by this opener and another one, in transactions and outside,
    give rows and columns as one that is not remembered does.
    """
    random, ws = Random(seed), ivm.open(tmp_path / "s.pages", sync="off", threads=1)
    other = ivm.open(tmp_path / "s.pages", sync="off", threads=1)
    again, evaluated = list[Any](), Reader.ask_again
    monkeypatch.setattr(
        Reader, "ask_again", lambda *given: again.append(given) or evaluated(*given)
    )
    ws.sql(TABLES)
    asked, by_keys = [*random.sample(QUESTIONS, 10), *random.sample(QUESTIONS[-30:], 8)], 0
    dialect = random.choice(DIALECTS)
    for n in range(120):
        if random.random() < 0.25:
            attempt(random.choice([ws, other]).sql, filled(random, random.choice(CHANGES), 0)[0])
        if random.random() < 0.03:
            attempt(random.choice([ws, other]).sql, random.choice(DEFINITIONS).format(n=n))
        if random.random() < 0.01:
            ws.prepare_sql("INSERT OR REPLACE INTO paid VALUES (?, ?, ?, NULL, NULL)").executemany(
                [(id_, f"w{id_ % 700}", id_) for id_ in range(10, random.choice([20, 2000]))]
            )
        if n % 4 == 0:  # else as before, after other edits
            text, values = filled(random, random.choice(asked), random.choice([0, 0.5, 1]))
        if random.random() < 0.1:
            check_inside(random, ws, text, values)
        found = attempt(ws.sql, text, values or None, dialect)
        first = attempt(ws.at().sql, text, values or None, dialect)
        assert shown(found) == shown(first), (text, values, dialect)
        by_keys += isinstance(found, ListedAnswer)
    assert by_keys + len(again) > 10


def check_inside(random: Random, ws: Any, text: str, values: list[Any]) -> None:
    """Ask in a transaction, between its edits, and again when nothing is remembered."""
    txn = ws.transaction()
    for _ in range(2):
        attempt(txn.sql, filled(random, random.choice(CHANGES), 0)[0])
        found = shown(attempt(txn.sql, text, values or None))
        known, ws._asked.questions = ws._asked.questions, {}
        assert found == shown(attempt(txn.sql, text, values or None)), (text, values)
        ws._asked.questions = known
    random.choice([txn.commit, txn.rollback])()


def filled(random: Random, text: str, share: float) -> tuple[str, list[Any]]:
    """Return a statement with values, a share of them as parameters."""
    values: list[Any] = []
    parts = text.replace("{digit}", str(random.randrange(1, 10))).split("{")
    for place, part in enumerate(parts[1:], 1):
        kind, rest = part.split("}", 1)
        value = random.choice(VALUES[kind])
        if random.random() < share:
            odd = random.random() < 0.1
            values.append(random.choice(ODD) if odd else value)
            parts[place] = "?" + rest
        else:
            parts[place] = WRITTEN.get(kind, "{}").format(value) + rest
    return "".join(parts), [
        one.replace("''", "'") if isinstance(one, str) else one for one in values
    ]


def attempt(run: Any, *given: Any) -> Any:
    """Return what a statement gives, or its error."""
    try:
        return run(*given)
    except IvmError as error:
        return type(error)


def shown(found: Any) -> Any:
    """Return the rows of an answer and its columns, as Python's values and as Arrow's."""
    if found is None or isinstance(found, type):
        return found
    table = found.to_arrow()
    return repr(list(found)), len(found), repr(table.to_pylist()), str(table.schema)


def test_a_question_by_key_calls_few_functions() -> None:
    """Asked again, it makes no program, no plan and no table."""
    ws = ivm.open(":memory:")
    ws.sql(TABLES + "INSERT INTO paid VALUES (1, 'ada', 5, NULL, NULL), (2, 'bob', 7, NULL, NULL)")
    for text, value in (
        ("SELECT cents FROM total WHERE who = ?", "ada"),
        ("SELECT cents FROM paid WHERE id = ?", 1),
    ):
        for _ in range(3):
            ws.sql(text, [value])
        called = functions_called(lambda text=text, value=value: ws.sql(text, [value]))
        assert len(called) <= 130, (text, len(called))


def test_a_question_that_is_kept_makes_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked again with any values it is only evaluated, also in a transaction, and for rows that
    came since; for tables that changed, it is compiled.
    """
    compiled: list[Any] = []
    own = question.with_block
    monkeypatch.setattr(general, "SHORT", 1000)  # however busy the machine is
    monkeypatch.setattr(question, "with_block", lambda *a, **b: compiled.append(a) or own(*a, **b))
    ws = ivm.open(":memory:")
    ws.sql(TABLES + "INSERT INTO paid VALUES (1, 'ada', 5, NULL, NULL), (2, 'bob', 7, NULL, NULL)")
    text = (
        "SELECT n, count(*) FROM paid JOIN most USING (who) WHERE cents > ? AND who <> ? GROUP BY n"
    )
    for edit, values, least, most, expected in (
        ("SELECT 1", [3, "bob"], 2, 3, [(1, 1)]),
        ("INSERT INTO paid VALUES (3, 'eve', 9, NULL, NULL)", [3, "bob"], 0, 0, [(1, 2)]),
        ("SELECT 1", [6, "zed"], 0, 0, [(1, 2)]),  # no row has this text, which has no number yet
        ("INSERT INTO paid VALUES (4, 'yan', 9, NULL, NULL)", [6, "zed"], 0, 0, [(1, 3)]),
        ("ALTER TABLE paid ADD COLUMN more INT", [3, "bob"], 1, 3, [(1, 3)]),
    ):
        ws.sql(edit)
        compiled.clear()
        for _ in range(4):
            assert [*ws.sql(text, values)] == expected, values
        assert least <= len(compiled) <= most, (values, len(compiled))
    with ws.transaction() as txn:
        txn.sql("DELETE FROM paid WHERE id = 4")
        compiled.clear()
        assert [*txn.sql(text, [3, "bob"])] == [(1, 2)] and not compiled


DAYS = [date(1969, 12, 31), date(2024, 2, 29), "2024-03-01", date(9999, 12, 31)]
MOMENTS = [datetime(1969, 1, 1), "2024-02-29 12:00:00", datetime(2024, 2, 29, 12, 0, 0, 1)]


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("TINYINT", [1, -128, 127, 300, -1]),
        ("UBIGINT", [0, 1, 1 << 40, -1]),
        ("BIGINT", [0, -1, 1 << 61, 1 << 40]),
        ("DECIMAL(8, 2)", [0, Decimal("1.25"), Decimal("-3.10"), 99999]),
        ("DECIMAL(38, 0)", [1, 2, 3]),  # of more than a word
        ("DOUBLE", [1.5, 2, Decimal("0.1"), -0.0, 1e300, 1 / 3]),
        ("VARCHAR", ["a", "", "zebra", "\u00e9", "b"]),
        ("DATE", DAYS),
        ("TIMESTAMP", MOMENTS),
    ],
)
@pytest.mark.parametrize(
    "test", ["x = ?", "x <> ?", "x < ?", "? <= x", "NOT x > ?", "x + x > ?", "x IN (?)"]
)
def test_for_values_of_its_type_a_condition_is_compiled_once(
    type_: str, values: list[Any], test: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever values come, the answer is that of the statement with them, and no plan is made for
    one that is a value of the column's type.
    """
    compiled: list[Any] = []
    own = question.with_block
    monkeypatch.setattr(question, "with_block", lambda *a, **b: compiled.append(a) or own(*a, **b))
    monkeypatch.setattr(general, "SHORT", 1000)  # however busy the machine is
    ws = ivm.open(":memory:")
    ws.sql(f"CREATE TABLE t (id INT PRIMARY KEY, x {type_})")
    for n, value in enumerate([*values, None]):
        with suppress(IvmError):
            ws.sql("INSERT INTO t VALUES (?, ?)", [n, value])
    text, counts = f"SELECT count(*), min(id) FROM t WHERE {test}", dict[Any, int]()
    for value in values * 5:
        compiled.clear()
        found = attempt(ws.sql, text, [value])
        counts[value] = len(compiled)
        assert shown(found) == shown(attempt(ws.at().sql, text, [value])), value
    if "+" not in test and type_ not in ("TINYINT", "DECIMAL(38, 0)"):
        assert not any(counts.values()), counts


def test_a_plan_that_is_slow_without_the_values_is_made_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(general, "SHORT", 1000)
    ws, compiled, own = ivm.open(":memory:"), list[Any](), question.with_block
    ws.sql("CREATE TABLE t (id INT PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 2), (2, 3)")
    for n in range(5):
        ws.sql("SELECT count(*) FROM t WHERE a > ?", [n])
    monkeypatch.setattr(question, "with_block", lambda *a, **b: compiled.append(a) or own(*a, **b))
    for n in range(5):
        assert [*ws.sql("SELECT count(*) FROM t WHERE a > ?", [n])] == [((2, 2, 1, 0, 0)[n],)]
    assert not compiled
    for n, short in enumerate([-1000, -1000, 1000, -1000, -1000, -1000, 0, 0], 5):
        monkeypatch.setattr(general, "SHORT", short)  # as if it had taken so much longer
        assert [*ws.sql("SELECT count(*) FROM t WHERE a > ?", [n])] == [(0,)]
    assert len(compiled) == 2  # after three slow answers in a row


def test_a_range_of_the_key_is_sought_by_values_that_come_later() -> None:
    x = Var("x")
    trie = Trie(Index("e", (0,)), (0,), False, "e(x)")
    number = Call(GIVEN, (Const(0, "int64"), Const("int64", "string")))
    plan = Plan(("x",), (trie,), (), (), (), (Compare("<", number, x),))
    for word in (5, 9):
        encode = Encoder(None, {0: Const(word, "int64")})
        assert key_range(plan, encode) == ((word + 1,), ())


@pytest.mark.parametrize(
    ("type_", "stored", "asked"),
    [
        ("UUID", "6f9619ff-8b86-d011-b42d-00cf4fc964ff", "6F9619FF-8B86-D011-B42D-00CF4FC964FF"),
        ("JSON", '{"a": 1}', '{"a":1}'),
        ("ENUM('x', 'y')", "x", "x"),
        ("VARCHAR", "x", "x"),
        ("BLOB", "x", "x"),
        ("DATE", "2024-01-02", "2024-1-2"),
        ("DECIMAL(8, 2)", "7", 7),
        ("HUGEINT", "7", 7),
        ("DOUBLE", "7", 7),
        ("BOOLEAN", "true", 1),
    ],
)
def test_a_text_is_a_value_of_its_columns_type(type_: str, stored: str, asked: Any) -> None:
    """A value that a column stores in another form is found again in that form."""
    ws = ivm.open(":memory:")
    ws.sql(f"CREATE TABLE t (id {type_} PRIMARY KEY, n INT)")
    ws.sql("INSERT INTO t VALUES (?, 1)", [stored])
    for text in (
        "SELECT n FROM t WHERE id = ?",
        "SELECT * FROM t a JOIN t b USING (id) WHERE id = ?",
    ):
        first = shown(attempt(ws.at(ws.store.version).sql, text, [asked]))
        for _ in range(3):
            assert shown(attempt(ws.sql, text, [asked])) == first


NUMBERS_IN_TYPES_AND_CALLS = [
    "INSERT OR REPLACE INTO t VALUES (1, CAST('1.50' AS DECIMAL(4, 2)), 'x')",
    "INSERT OR REPLACE INTO t VALUES (1, '1.50'::DECIMAL(4, 2), 'abc'::VARCHAR(2))",
    "INSERT OR REPLACE INTO t VALUES (1, round(1.256, 2), substr('abc', 2))",
    "INSERT OR REPLACE INTO t VALUES (2, 2, 'x') RETURNING v::DECIMAL(8, 4), round(v, 1)",
    "INSERT INTO t VALUES (1, 2, 'y') ON CONFLICT (k) DO UPDATE SET v = 1.25::DECIMAL(3, 1)",
    "UPDATE t SET v = 1.25::DECIMAL(3, 1) WHERE k = 1",
    "UPDATE t SET v = v + 1.25::DECIMAL(3, 1) WHERE k = 1::DECIMAL(5, 0)",
    "DELETE FROM t WHERE k = 1 AND v = CAST(1.5 AS DECIMAL(4, 2))",
    "MERGE INTO t USING (SELECT 1 AS k, 2.5::DECIMAL(3, 1) AS v) s ON t.k = s.k "
    "WHEN MATCHED THEN UPDATE SET v = s.v",
]


@pytest.mark.parametrize("text", NUMBERS_IN_TYPES_AND_CALLS)
def test_an_edit_with_numbers_in_types_and_calls_is_made_again(text: str) -> None:
    known, forgets = ivm.open(":memory:"), ivm.open(":memory:")
    for ws in (known, forgets):
        ws.sql("CREATE TABLE t (k INT PRIMARY KEY, v DECIMAL(8, 3), s TEXT)")
        ws.sql("INSERT INTO t VALUES (1, 1.5, 'a')")
    for _ in range(3):
        forgets._asked = type(forgets._asked)()
        assert shown(attempt(known.sql, text)) == shown(attempt(forgets.sql, text))
        assert [*known["t"]] == [*forgets["t"]]


def test_a_text_of_several_questions_is_asked_again() -> None:
    ws = ivm.open(":memory:")
    ws.sql("CREATE TABLE t (id INT PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 2)")
    for _ in range(4):
        assert [*ws.sql("SELECT id FROM t; SELECT a FROM t WHERE id = 1")] == [(2,)]


def test_what_keys_do_not_answer_is_translated_once_more_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After that a question takes the way of rules alone, until the catalog changes."""
    sought: list[Any] = []
    own = statements.seeks_of
    monkeypatch.setattr(statements, "seeks_of", lambda *given: sought.append(given) or own(*given))
    ws = ivm.open(":memory:")
    ws.sql("CREATE TABLE t (id INT PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 2)")
    for _ in range(5):
        assert [*ws.sql("SELECT id FROM t WHERE a = 2")] == [(1,)]
    assert len(sought) == 1
    ws.sql("ALTER TABLE t ADD COLUMN b INT")
    for _ in range(5):
        assert [*ws.sql("SELECT id FROM t WHERE a = 2")] == [(1,)]
    assert len(sought) == 2


def test_others_change_tables_between(tmp_path: Any) -> None:
    """Another opener's tables, rows and views are those of the next answer."""
    path = tmp_path / "s.pages"
    with ivm.open(path) as ws, ivm.open(path) as other:
        ws.sql("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT); INSERT INTO t VALUES (1, 2, 3)")
        for change, expected in [
            ("SELECT 1", (2,)),
            ("UPDATE t SET a = 5", (5,)),
            ("ALTER TABLE t RENAME COLUMN a TO c; ALTER TABLE t RENAME COLUMN b TO a", (3,)),
            ("DROP TABLE t; CREATE TABLE t (a TEXT, id INT PRIMARY KEY)", None),
            ("INSERT INTO t VALUES ('x', 1)", ("x",)),
            ("DROP TABLE t; CREATE MATERIALIZED VIEW t AS SELECT 1 AS id, 9 AS a", (9,)),
        ]:
            other.sql(change)
            for _ in range(3):
                assert next(iter(ws.sql("SELECT a FROM t WHERE id = 1")), None) == expected


@pytest.mark.parametrize("more", ["", MANY_COLUMNS])
def test_a_question_for_any_values_reads_one_version(
    more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit comes before its rules are evaluated for the first time."""
    ws, text = ivm.open(":memory:"), f"SELECT k, a {more} FROM r WHERE a < ?"
    ws.sql("CREATE TABLE r (k INT PRIMARY KEY, a INT); INSERT INTO r VALUES (1, 2)")
    expected, ask, meant = [list(ws.sql(text, [n])) for n in (9, 8)], Reader.ask, list[Any]()

    def after_a_commit(reader: Reader, *given: Any) -> Any:
        meant.append(given)
        with monkeypatch.context() as plain:
            plain.setattr(Reader, "ask", ask)
            if len(meant) == 1:
                ws.sql("DROP TABLE r; CREATE TABLE r (a INT PRIMARY KEY, k INT)")
        return ask(reader, *given)

    monkeypatch.setattr(Reader, "ask", after_a_commit)
    assert [list(ws.sql(text, [7]))] == expected[:1]
    assert meant and all(len(given) == 2 for given in meant)  # which were given values
    assert list(ws.sql(text, [7])) == []
