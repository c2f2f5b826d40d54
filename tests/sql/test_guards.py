"""Statements as programs write them, and values of any kind: rows, or an error of ours that says
what to write.
"""

from __future__ import annotations

import datetime
import decimal
import random
import re
import time
import uuid
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import ivm
from ivm.errors import IvmError, LimitError, OptionError
from ivm.sql.dialects import read
from ivm.sql.edits import insert
from ivm.sql.errors import SqlError
from ivm.sql.queries import constants
from ivm.sql.statements import MISTAKE
from pagestore.host import Stoppable, Stopped, refuse_stopped
from tests.sql.test_arguments import EVERY, TABLE, each
from tests.support.calls import calls_of

LONG = {
    "terms": ("SELECT k" + " + 1" * 1000 + " FROM t", [(1001,)]),
    "texts": ("SELECT 'a'" + " || 'b'" * 1000, [("a" + "b" * 1000,)]),
    "OR": ("SELECT k FROM t WHERE " + " OR ".join(f"k = {n}" for n in range(1000)), [(1,)]),
    "AND as a value": (
        "SELECT " + " AND ".join(f"k <> {n}" for n in range(2, 800)) + " FROM t",
        [(True,)],
    ),
    "branches": (
        "SELECT CASE " + " ".join(f"WHEN k = {n} THEN {n}" for n in range(300)) + " END FROM t",
        [(1,)],
    ),
    "WITH": (
        "WITH c0 AS (FROM t), "
        + ", ".join(f"c{n} AS (SELECT k + 1 AS k FROM c{n - 1})" for n in range(1, 300))
        + " SELECT k FROM c299",
        [(300,)],
    ),
    "UNION": (" UNION ".join(["SELECT k FROM t"] * 300), [(1,)]),
}
DEEP = {
    "NOT": "SELECT " + "NOT " * 1000 + "true",
    "signs": "SELECT " + "- " * 1000 + "1",
    "CASE": "SELECT " + "CASE WHEN k = 1 THEN " * 300 + "1" + " ELSE 2 END" * 300 + " FROM t",
    "subqueries": "SELECT * FROM " + "(SELECT * FROM " * 300 + "t" + ") u" * 300,
    "lists": "SELECT " + "[" * 300 + "]" * 300,
    "parentheses": "SELECT " + "(" * 1000 + "1" + ")" * 1000,
    "digits": "SELECT " + "9" * 5000,
}
PARAMETERS: list[tuple[Any, Any]] = [
    (pandas.Timestamp("2024-01-05 10:00:00.5"), datetime.datetime(2024, 1, 5, 10, 0, 0, 500_000)),
    (pandas.NaT, None),
    (pandas.NA, None),
    (np.int64(7), 7),
    (np.float64(0.5), decimal.Decimal("0.5")),
    (np.array([1, 2]), (1, 2)),
    (float("inf"), float("inf")),
    (-float("inf"), -float("inf")),
    (decimal.Decimal("-1.50"), decimal.Decimal("-1.50")),
    (datetime.date(2024, 1, 5), datetime.date(2024, 1, 5)),
    (datetime.time(1, 2, 3), datetime.time(1, 2, 3)),
    (uuid.UUID(int=5), str(uuid.UUID(int=5))),
]


def _with_table() -> Iterator[ivm.Workspace]:
    with ivm.open(":memory:", threads=1) as own:
        own.sql(TABLE)
        own.sql("INSERT INTO t (k, s, f) VALUES (1, 'a', 0.5)")
        yield own


ws = pytest.fixture(_with_table, scope="module", name="ws")
alone = pytest.fixture(_with_table, name="alone")


@pytest.mark.parametrize("name", LONG)
def test_a_long_chain_is_answered(ws: ivm.Workspace, name: str) -> None:
    text, rows = LONG[name]
    assert list(ws.sql(text) or ()) == rows


@pytest.mark.parametrize("name", DEEP)
def test_what_nests_too_deep_is_refused_in_words(ws: ivm.Workspace, name: str) -> None:
    with pytest.raises(SqlError, match="deep|too large") as caught:
        ws.sql(DEEP[name])
    assert MISTAKE not in str(caught.value)


def test_an_operand_that_is_read_twice_is_translated_once(ws: ivm.Workspace) -> None:
    text = "f"
    for _ in range(20):  # // of numbers that are not whole is translated as / is
        text = f"({text} // 1)"
    assert list(ws.sql(f"SELECT {text} FROM t") or ()) == [(0.5,)]


@pytest.mark.parametrize(("value", "right"), PARAMETERS, ids=lambda one: type(one).__name__)
def test_a_parameter_is_a_value_or_refused(ws: ivm.Workspace, value: Any, right: Any) -> None:
    ((found,),) = ws.sql("SELECT ? AS v", [value]) or ()
    assert (tuple(found) if isinstance(found, list) else found) == right


def test_bytes_are_parameters(ws: ivm.Workspace) -> None:
    ws.sql("CREATE TABLE blobs (k INTEGER PRIMARY KEY, v BLOB)")
    ws.sql("INSERT INTO blobs VALUES (1, ?), (2, ?)", [b"a\x00\xff", bytearray(b"a")])
    assert list(ws.sql("SELECT v FROM blobs ORDER BY k") or ()) == [(b"a\x00\xff",), (b"a",)]
    assert list(ws.sql("SELECT BLOB 'ab' AS v, '\\x61'::BLOB AS w") or ()) == [(b"ab", b"a")]
    with pytest.raises(SqlError, match="UTF-8"):
        ws.sql("SELECT k FROM blobs WHERE v = ?", [b"\xff"])


NANOSECONDS = pandas.Timestamp("2024-01-05 10:00:00.123456789")


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, 10**5000, NANOSECONDS, 1j], ids=lambda one: type(one).__name__
)
def test_a_parameter_without_a_type_is_refused_by_name(ws: ivm.Workspace, value: Any) -> None:
    with pytest.raises(SqlError, match="parameter|microseconds"):
        ws.sql("SELECT ? AS v", [value])


@pytest.mark.parametrize(
    "text", ["format('{:10001}', k)", "printf('%10001d', k)", "format('{:.10001f}', f)"]
)
def test_format_fills_up_to_a_size_alone(ws: ivm.Workspace, text: str) -> None:
    with pytest.raises(SqlError, match="has no value"):
        ws.sql(f"SELECT {text} FROM t")
    ((found,),) = ws.sql("SELECT format('{:10000}', k) FROM t") or ()
    assert found == f"{1:10000}"


PATTERNS = {
    "LIKE": "s LIKE '%a%a%b'",
    "ILIKE": "s ILIKE '%A%a%b'",
    "NOT LIKE": "s NOT LIKE '%a_%a%b'",
    "ESCAPE": "s LIKE '%a%a%b' ESCAPE '!'",
    "GLOB": "s GLOB '*a*a*b'",
    "SIMILAR TO": "s SIMILAR TO '.*a.*a.*b'",
    "regexp_matches": "regexp_matches(s, 'a.*a.*b$')",
}


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_takes_time_that_grows_with_the_text_alone(name: str) -> None:
    """A text that fails late: where each `%` tries every place again, 4 times the letters take
    64 times as long.
    """
    took = {}
    with ivm.open(":memory:", threads=1) as ws:
        ws.sql("CREATE TABLE texts (k INTEGER PRIMARY KEY, s VARCHAR)")
        for size in (200, 800):
            ws.sql("DELETE FROM texts")
            ws.insert("texts", [(n, "a" * size + str(n)) for n in range(20)])
            ws.sql(f"SELECT count(*) FROM texts WHERE {PATTERNS[name]}")
            begun = time.perf_counter()
            ws.sql(f"SELECT count(*) FROM texts WHERE {PATTERNS[name]}")
            took[size] = time.perf_counter() - begun
    assert took[800] < 16 * took[200]


def test_like_matches_whole_texts_letter_by_letter(ws: ivm.Workspace) -> None:
    choice = random.Random(3)
    ws.sql("CREATE TABLE likes (s VARCHAR, p VARCHAR, PRIMARY KEY (s, p))")

    def made(letters: str, most: int) -> str:
        return "".join(choice.choice(letters) for _ in range(choice.randrange(most)))

    rows = {(made("ab\\\nä%.", 6), made("ab\\\nä%%_.", 5)) for _ in range(300)}
    for _ in range(300):  # texts that are like their pattern, mostly
        pattern = made("a\\b%_", 6)
        rows.add((re.sub("[%_]", lambda _: made("a\\", 3), pattern), pattern))
    ws.insert("likes", [*rows])
    right = {row for row in rows if _like(*row)}
    assert {*(ws.sql("SELECT s, p FROM likes WHERE s LIKE p") or ())} == right


def _like(text: str, pattern: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(_like(text[n:], pattern[1:]) for n in range(len(text) + 1))
    return bool(text) and pattern[0] in ("_", text[0]) and _like(text[1:], pattern[1:])


def test_numbers_inside_lists_are_those_of_their_type(ws: ivm.Workspace) -> None:
    for text in (
        "[k + 2147483647]", "{'a': k + 2147483647}", "MAP {k + 2147483647: 1}",
        "list(k + 2147483647)", "list_transform([k], lambda e: e + 2147483647)",
        "list_append([1], k + 2147483647)", "histogram(k + 2147483647)", "max(k + 2147483647, 2)",
        "[x.w] FROM (SELECT k + 2147483647 AS w FROM t) x --",
    ):  # fmt: skip
        with pytest.raises(IvmError, match="has no value in a row|beyond its type"):
            ws.sql(f"SELECT {text} FROM t")


VALUES = """
    NULL   0   -1   1e300   -1e-300   99999999999999999999   1.50   ''   'a'   '%'   '('   'ä'   true   [1]   []   [NULL]
    {'a': 1}   MAP {'a': 1}   DATE '2024-01-05'   TIMESTAMP '2024-01-05 10:00:00'   INTERVAL 1 DAY   k   s   l   d   x   f   b
""".strip()  # noqa: E501


DOORS = each("""
    SELECT {} AS v FROM t   SELECT {} AS v   CREATE MATERIALIZED VIEW v AS SELECT {} AS v FROM t
    SELECT k FROM t WHERE {}   INSERT INTO t (k) SELECT {} FROM t   UPDATE t SET s = {}
""")
RULES = re.compile(  # what errors say in the words of rules, beyond what a statement has itself
    r"\b(blocks?|predicates?|atoms?|u?int64|float64|bools?|rules?|facts?|declares)\b|:part\d|null\["
)


def statements(seed: int, number: int) -> Iterator[str]:
    """Yield statements whose functions and operators have too few, too many and other operands
    than they take.
    """
    choice, texts, values = random.Random(seed), each(EVERY), each(VALUES)
    for _ in range(number):
        text = choice.choice(texts)
        for _ in range(choice.randrange(4)):
            found = [*re.finditer(r"\b[klsdxfbj]\b|'[^']*'|\b\d+\b", text)]
            if not found:
                break
            one = choice.choice(found)
            new = choice.choice([*values, f"({choice.choice(texts)})", ""])
            text = text[: one.start()] + new + text[one.end() :]
        yield choice.choice(DOORS).format(text)


def check(ws: ivm.Workspace, text: str) -> None:
    """Run a statement, and take it back: rows, or an error of ours in the words of SQL that is not
    a mistake of the program.
    """
    ws.sql("BEGIN")
    try:
        ws.sql(text)
    except IvmError as error:
        said = str(error)
        assert MISTAKE not in said and not RULES.search(said), f"{text}: {error}"
    except Exception as error:  # of any kind, which is what is sought
        raise AssertionError(f"{text}: {type(error).__name__}: {error}") from error
    finally:
        ws.sql("ROLLBACK")


def test_no_statement_ends_in_an_error_that_is_not_ours(ws: ivm.Workspace) -> None:
    for text in statements(0, 150):
        check(ws, text)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(1, 9))
def test_no_statement_of_many_ends_in_an_error_that_is_not_ours(
    ws: ivm.Workspace, seed: int
) -> None:
    for text in statements(seed, 2000):
        check(ws, text)


ROWS = 600


def test_long_lists_of_constants_are_linear(
    ws: ivm.Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "SIZE", 200)  # rows of a rule
    for form in (
        "SELECT sum(a) FROM (VALUES (%s)) v(a)",
        "SELECT k FROM t WHERE k NOT IN (%s)",
        "SELECT sum(a) FROM (SELECT unnest([%s]) AS a)",
        "INSERT INTO t (k) VALUES (%s)",
    ):
        between = "), (" if "VALUES" in form else ", "
        few, more = (
            calls_of(
                lambda n=n, form=form, between=between: ws.sql(
                    form % between.join(map(str, range(n + 10, 2 * n + 10)))
                )
            )
            for n in (ROWS, 2 * ROWS)
        )
        assert more < 2.5 * few, form
        assert few < 1_000 * ROWS, form


def test_a_check_among_many_constants_is_linear(ws: ivm.Workspace) -> None:
    few, more = (
        calls_of(
            lambda n=n: ws.sql(
                f"CREATE TABLE c{n} (k INTEGER CHECK (k IN ({', '.join(map(str, range(n)))})))"
            )
        )
        for n in (ROWS, 2 * ROWS)
    )
    assert more < 3 * few


def test_many_constants_are_a_table_with_the_types_and_nulls_of_duckdb(ws: ivm.Workspace) -> None:
    import duckdb

    texts = {
        "whole, text": lambda n: f"{n}, 'it''s \"{n % 7}\", \\n [x]'",
        "decimal": lambda n: f"{n}" if n % 2 else f"-{n}.25",
        "double": lambda n: f"{n}" if n % 2 else f"{n}e1",
        "null": lambda n: f"NULL, {'NULL' if n % 3 else n}",
        "text as number": lambda n: f"'{n}'" if n % 2 else f"{n}",
        "moments": lambda n: (
            f"DATE '2024-01-{n % 28 + 1:02}', TIMESTAMP '2024-01-05 10:00:{n:02}.5', "
            f"TIME '10:00:{n:02}'"
        ),
        "alike": lambda n: f"{n % 3}, {n % 2 == 0}",
        "computed": lambda n: f"{n} + 1" if n == 5 else f"{n}",
    }
    for form in texts.values():
        query = f"SELECT * FROM (VALUES {', '.join(f'({form(n)})' for n in range(40))})"
        found = ws.sql(query).to_arrow()
        rows = sorted(map(str, (tuple(one.values()) for one in found.to_pylist())))
        assert rows == sorted(map(str, duckdb.sql(query).fetchall())), query[:80]
    listed = ", ".join(f"({n}, {n % 5})" for n in range(5_000))  # more than one rule has
    ws.sql(
        f"CREATE MATERIALIZED VIEW v AS SELECT k, z FROM t JOIN (VALUES {listed}) u(k, z) USING (k)"
    )
    ws.sql("INSERT INTO t (k) VALUES (4999), (5000)")
    assert (4999, 4) in {*ws.sql("SELECT * FROM v")}
    assert ws.check() == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT k FROM t WHERE k IN (" + "1," * 101 + "2)", "has more than 100 values"),
        ("SELECT * FROM (VALUES " + "(1 + 1)," * 40 + "(1))", "computes at most 4 rows"),
        ("INSERT INTO t (k) VALUES " + "(abs(1))," * 5 + "(1)", "at most 4 values"),
    ],
)
def test_a_statement_that_would_take_minutes_is_refused(
    text: str, said: str, ws: ivm.Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (constants, insert):
        monkeypatch.setattr(module, "COMPUTED_MAX", 4)
    monkeypatch.setattr(read, "COMMAS_MAX", 100)
    with pytest.raises(SqlError, match=said):
        ws.sql(text)


def test_order_and_limit_are_of_the_query_that_they_are_written_for(tmp_path: Path) -> None:
    """Each arm, operation and last clause, beside DuckDB; kept as a view, too."""
    import duckdb

    duck, ops = duckdb.connect(), ("UNION", "UNION ALL", "EXCEPT", "INTERSECT")
    last = ("", "ORDER BY a DESC LIMIT 2", "ORDER BY a LIMIT 2 OFFSET 1", "LIMIT 0")
    arms = [
        arm
        for clause in last
        for arm in (
            f"SELECT a FROM t {clause}",
            f"(SELECT a FROM t {clause})",
            f"((SELECT a FROM t ORDER BY a LIMIT 4) {clause})",
        )
    ]
    queries = [
        f"{arm} {op} VALUES (1), (9) {last[n % 2]}"
        for n, (arm, op) in enumerate(product(arms, ops))
    ]
    for arm in arms[1:]:
        queries += [f"SELECT * FROM t WHERE a {word} ({arm})" for word in ("IN", "NOT IN", "> ALL")]
        queries += [f"SELECT a, a IN ({arm}) FROM t", f"WITH c AS ({arm}) SELECT 7 UNION FROM c"]
    queries += [f"VALUES (1), (4), (2) {one.replace(' a', ' 1')}" for one in last]
    queries += [
        f"SELECT a, (SELECT a FROM u WHERE u.a = t.a {one}) FROM t"
        for one in ("LIMIT 0", "OFFSET 1")
    ]
    queries += [
        "SELECT 1 LIMIT 0",
        "SELECT count(*) FROM t OFFSET 1",
        "SELECT a FROM t WHERE a NOT IN (NULL, 1)",
    ]
    with ivm.open(tmp_path / "t.pages") as ws:
        for one in (duck, ws):
            one.sql("CREATE TABLE t (a INT PRIMARY KEY)")
            one.sql("CREATE TABLE u (a INT PRIMARY KEY)")
            one.sql("INSERT INTO t VALUES (1), (2), (3), (4), (5)")
            one.sql("INSERT INTO u VALUES (4), (5)")
        wrong = []
        for query in queries:
            try:
                wanted: Any = sorted(duck.sql(query).fetchall())
            except duckdb.Error:
                wanted = None
            try:
                found: Any = sorted(map(tuple, ws.sql(query)))
            except SqlError:
                found = None
            if found != wanted and not (found is None and "ALL" in query and "LIMIT" in query):
                wrong.append((query, found, wanted))
        assert wrong == []


NINES = (
    "generate_series(1, 9000) a(x), generate_series(1, 9000) b(y), generate_series(1, 9000) c(z)"
)


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT count(*) FROM {NINES} WHERE x * y * z % 7 = 30",
        f"INSERT INTO t (k) SELECT 9000 * (9000 * x + y) + z FROM {NINES}",
        f"CREATE MATERIALIZED VIEW v AS SELECT t.k, a.x, y, z FROM t, {NINES} WHERE t.k <> a.x",
        "WITH RECURSIVE r(a, b) AS (SELECT x, x + 1 FROM generate_series(1, 90000) g(x) "
        "UNION SELECT r.a, s.x + 1 FROM r JOIN generate_series(1, 90000) s(x) ON r.b = s.x) SELECT count(*) FROM r",
        "SELECT count(*) FROM generate_series(1, 200000) g(x) WHERE regexp_matches(x || 'aaaaaaaa', '(a|b)*c')",
    ],
    ids=["question", "edit", "view", "recursion", "regex"],
)
def test_a_statement_ends_after_its_seconds_and_nothing_of_it_stays(
    alone: ivm.Workspace, statement: str
) -> None:
    """All but the last would take hours."""
    before = alone.store.version
    with pytest.raises(LimitError, match="took longer than timeout=0.01 seconds"):
        alone.sql(statement, timeout=0.01)
    assert alone.store.version == before and alone.check() == []
    assert list(alone.sql("SELECT k FROM t", timeout=600)) == [(1,)]


def test_a_timeout_is_a_number_of_seconds(ws: ivm.Workspace) -> None:
    for wrong in (0, -1, float("nan"), "5"):
        with pytest.raises(OptionError, match="give a number of seconds above 0, or None"):
            ws.sql("SELECT 1", timeout=wrong)


def test_what_has_committed_is_not_ended(alone: ivm.Workspace) -> None:
    alone.sql("CREATE MATERIALIZED VIEW v AS SELECT k + 1 AS n FROM t")
    work, told = Stoppable(), list[int]()

    def on_change(changes: Any) -> None:
        work.stop()
        refuse_stopped()  # as evaluating a question does
        told.append(changes.num_rows)

    alone.subscribe("v", on_change)
    work.run(lambda: alone.sql("INSERT INTO t (k) VALUES (7)"))
    assert told == [1]
    with pytest.raises(Stopped):
        work.run(lambda: alone.sql(f"INSERT INTO t (k) SELECT x * y * z FROM {NINES}"))
    assert told == [1]
