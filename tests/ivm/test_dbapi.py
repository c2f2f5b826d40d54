"""ivm.dbapi is a driver as PEP 249 describes one."""

import datetime
import sqlite3
from decimal import Decimal

import pytest

from ivm import dbapi


@pytest.fixture
def connection():
    with dbapi.connect(":memory:") as opened:
        opened.execute("CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR UNIQUE, d DECIMAL(8, 2))")
        yield opened


def test_edits_wait_for_a_commit(tmp_path):
    """Another connection sees edits after the commit; a rollback undoes them."""
    path = tmp_path / "s.pages"
    with dbapi.connect(path) as one, dbapi.connect(path) as other:
        one.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        for end, seen in ((one.rollback, []), (one.commit, [(1,)])):
            one.execute("INSERT INTO t VALUES (?)", [1])
            assert one.in_transaction
            assert one.execute("SELECT id FROM t").fetchall() == [(1,)]
            assert other.execute("SELECT id FROM t").fetchall() == []
            end()
            assert not one.in_transaction
            assert other.execute("SELECT id FROM t").fetchall() == seen


@pytest.mark.parametrize(
    "text",
    [
        "insert INTO t VALUES (1, 'a', 2)",
        "-- a note\nINSERT INTO t VALUES (1, 'a', 2)",
        "/* a note */ INSERT INTO t VALUES (1, 'a', 2)",
        "INSERT INTO t SELECT 1, 'a', 2",
        "MERGE INTO t USING (SELECT 1 AS n) u ON t.id = n WHEN NOT MATCHED THEN INSERT VALUES (1, 'a', 2)",
    ],
)
def test_whatever_edits_can_be_rolled_back(connection, text):
    """An edit begins a transaction, however it is written."""
    assert connection.execute(text).rowcount == 1
    connection.rollback()
    assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_rows_are_fetched_as_in_sqlite(connection):
    """All ways to fetch give what sqlite3 gives, also when they take turns."""
    peer = sqlite3.connect(":memory:")
    peer.execute("CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR, d INT)")
    rows = [(n, f"s{n}", n) for n in range(10)]
    fetched = []
    for each in (connection, peer):
        edited = each.cursor().executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        cursor = each.cursor().execute("SELECT id, s FROM t ORDER BY id")
        seen = [edited.rowcount, cursor.fetchone(), cursor.fetchmany(), cursor.fetchmany(3)]
        cursor.arraysize = 2
        seen += [cursor.fetchmany(), next(iter(cursor)), cursor.fetchall(), cursor.fetchall()]
        seen += [cursor.fetchone(), cursor.fetchmany(4), [c[0] for c in cursor.description]]
        fetched.append(seen)
    assert fetched[0] == fetched[1]


def test_columns_and_counts(connection):
    """description has names and kinds of types; rowcount the rows of an answer, or of an edit."""
    cursor = connection.cursor().execute(
        "INSERT INTO t VALUES (1, 'a', 2.5), (2, 'b', NULL) RETURNING id"
    )
    assert (cursor.rowcount, cursor.fetchall()) == (2, [(1,), (2,)])
    cursor.execute("UPDATE t SET d = 1 WHERE id = :id", {"id": 2})
    assert (cursor.rowcount, cursor.description) == (1, None)
    cursor.execute(
        "SELECT *, DATE '2024-01-02' AS day, 'a'::BLOB AS b, [id] AS l FROM t ORDER BY id"
    )
    kinds = [dbapi.NUMBER, dbapi.STRING, dbapi.NUMBER, dbapi.DATETIME, dbapi.BINARY, dbapi.OTHER]
    assert [column[1] for column in cursor.description] == kinds
    row = (1, "a", Decimal("2.50"), datetime.date(2024, 1, 2), b"a", [1])
    assert cursor.fetchone() == row
    assert connection.execute("SELECT id FROM t WHERE s IN (?, ?)", ("a", "c")).fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("INSERT INTO t VALUES (1, 'c', 0)", dbapi.IntegrityError),
        ("INSERT INTO t VALUES (3, 'a', 0)", dbapi.IntegrityError),
        ("UPDATE t SET id = 1", dbapi.IntegrityError),
        ("SELECT CAST('x' AS INT)", dbapi.DataError),
        ("SELEC 1", dbapi.ProgrammingError),
        ("SELECT * FROM nowhere", dbapi.ProgrammingError),
        ("SELECT ?", dbapi.ProgrammingError),
        ("COMMIT", dbapi.ProgrammingError),
    ],
)
def test_errors_have_the_classes_of_pep_249(connection, text, error):
    """An error says what ivm says; the transaction before it goes on."""
    connection.execute("INSERT INTO t VALUES (1, 'a', 0), (2, 'b', 0)")
    with pytest.raises(error) as raised:
        connection.execute(text)
        connection.commit()
    assert str(raised.value)
    assert isinstance(raised.value, connection.Error)


def test_what_is_closed_is_not_used(tmp_path):
    """A closed connection or cursor raises an error that says so, and closing again does nothing."""
    connection = dbapi.connect(tmp_path / "s.pages", autocommit=True)
    connection.execute("CREATE TABLE t (id INT)")
    cursor = connection.execute("INSERT INTO t VALUES (1)")
    with pytest.raises(dbapi.ProgrammingError, match="no rows"):
        cursor.fetchall()
    cursor.close()
    with pytest.raises(dbapi.ProgrammingError, match="cursor is closed"):
        cursor.execute("SELECT 1")
    with pytest.raises(dbapi.ProgrammingError, match="not a list of parameters"):
        connection.execute("SELECT ?", "a")
    with pytest.raises(dbapi.ProgrammingError, match="edit"):
        connection.executemany("SELECT ?", [[1]])
    connection.close()
    connection.close()
    with pytest.raises(dbapi.ProgrammingError, match="connection is closed"):
        connection.cursor()
    with dbapi.connect(tmp_path / "s.pages") as again:
        assert again.execute("SELECT * FROM t").fetchall() == [(1,)]
    with pytest.raises(dbapi.OperationalError):
        dbapi.connect(tmp_path / "no" / "s.pages")
