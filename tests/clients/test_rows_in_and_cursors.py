"""`ivm serve`: rows that come by COPY FROM STDIN, cursors of a transaction, and lists as parameters,
over PostgreSQL's wire.
"""

import shutil
import subprocess
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from pagestore_tools.serving.postgres.copied import lines_of
from pagestore_tools.serving.postgres.server import Server, Settings
from tests.clients.test_postgres import serving, url

psycopg = pytest.importorskip("psycopg")


@pytest.fixture
def server() -> Iterator[Server]:
    yield from serving(Settings())


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    with psycopg.connect(url(server), autocommit=True) as client:
        yield client


def copied(client: Any, into: str, data: str) -> None:
    """Copy data in."""
    with client.cursor() as cursor, cursor.copy(into) as copy:
        copy.write(data)


LINES = [  # data, how it is written, and its lines
    (b"1\ta\n2\t\\N\n", "", [["1", "a"], ["2", None]]),
    (b"1\ta\\tb\\\\n\\nc\n", "", [["1", "a\tb\\n\nc"]]),
    (b"1\t\n\\.\n", "", [["1", ""]]),
    (b"1|x\n", "WITH (DELIMITER '|')", [["1", "x"]]),
    (b"", "", []),
    (b'1,"a,""b""\nc"\n2,\n3,""\n', "CSV", [["1", 'a,"b"\nc'], ["2", None], ["3", ""]]),
    (b"id,o\r\n1,none\r\n", "(FORMAT csv, HEADER true, NULL 'none')", [["1", None]]),
]


@pytest.mark.parametrize(("data", "how", "lines"), LINES)
def test_data_of_copy_is_read(data: bytes, how: str, lines: list[list[str | None]]) -> None:
    assert [*lines_of(data, how)] == lines


def test_rows_are_copied_in(client: Any) -> None:
    """All of them, followed by kept views; a wrong one is an error, and none of them is kept."""
    into = "COPY orders (id, name, cents, at, tags) FROM STDIN"
    with client.cursor() as cursor, cursor.copy(into) as copy:
        copy.write_row((20, "tab\there", Decimal("3.5"), None, ["x", "y, z"]))
        copy.write_row((21, "back\\n", None, datetime(2024, 1, 1), None))
    asked = "SELECT name, cents, at, tags FROM orders WHERE id >= 20 ORDER BY id"
    assert client.execute(asked).fetchall() == [
        ("tab\there", Decimal("3.5"), None, ["x", "y, z"]),
        ("back\\n", None, datetime(2024, 1, 1), None),
    ]
    total = client.execute("SELECT total FROM spent WHERE name = 'tab\there'").fetchall()
    assert total == [(Decimal("3.5"),)]
    for line, state in (
        ("5\n", "22000"), ("5\tno number\n", "22P02"), ("5\t77\n", "23503"), ("20\t1\n6\tq\n", "22P02"),
    ):  # fmt: skip
        with pytest.raises(psycopg.Error) as wrong:
            copied(client, "COPY item FROM STDIN", line)
        assert wrong.value.sqlstate == state, line
    into = "COPY item FROM STDIN"
    with pytest.raises(ValueError, match="not now"), client.cursor() as own, own.copy(into) as copy:
        copy.write("5\t1\n")
        raise ValueError("not now")
    assert client.execute("SELECT count(*) FROM item").fetchone() == (0,)
    with pytest.raises(psycopg.Error, match="leave out BINARY"):
        copied(client, "COPY item FROM STDIN (FORMAT BINARY)", "x")
    with client.transaction(force_rollback=True):
        copied(client, "COPY item FROM STDIN WITH CSV", "1,1\n2,\n")
        assert client.execute("SELECT * FROM item").fetchall() == [(1, 1), (2, None)]
    assert client.execute("SELECT count(*) FROM item").fetchone() == (0,)


def test_a_cursor_gives_rows_by_parts(client: Any) -> None:
    """As psycopg's cursors of the server and FETCH do, until the transaction ends."""
    with client.transaction(), client.cursor("some") as cursor:
        cursor.execute("SELECT id FROM orders WHERE id > %s ORDER BY id", [0])
        assert [one.name for one in cursor.description] == ["id"]
        assert cursor.fetchone() == (1,) and cursor.fetchall() == [(2,)]
    with pytest.raises(psycopg.Error, match="under the name 'some'"):
        client.execute("FETCH 1 FROM some")
    with pytest.raises(psycopg.errors.NoActiveSqlTransaction):
        client.execute("DECLARE c CURSOR FOR SELECT 1")
    client.execute(
        'DECLARE "held" NO SCROLL CURSOR WITH HOLD FOR SELECT id FROM orders ORDER BY id'
    )
    client.execute("DELETE FROM orders")
    assert client.execute("MOVE 1 IN held").statusmessage == "MOVE 1"
    assert client.execute("FETCH FORWARD ALL FROM held").fetchall() == [(2,)]
    assert client.execute("FETCH held").fetchall() == []
    assert client.execute("CLOSE held").statusmessage == "CLOSE CURSOR"


def test_lists_are_parameters(client: Any) -> None:
    """As psycopg writes them, in texts and in binary."""
    for binary in (False, True):
        for column, given, found in (("id", [1, 7], 1), ("name", ["b", 'q,"\\ '], 2)):
            asked = f"SELECT id FROM orders WHERE {column} = ANY(%s)"
            assert client.execute(asked, [given], binary=binary).fetchall() == [(found,)]
    for tags in (["p", None, 'q "r"', "NULL", "", "\\"], [], None):
        for place in "%s", "%b":
            client.execute("DELETE FROM orders WHERE id = 9")
            client.execute(f"INSERT INTO orders (id, name, tags) VALUES (9, 'z', {place})", [tags])
            assert client.execute("SELECT tags FROM orders WHERE id = 9").fetchone() == (tags,)
    oid = client.execute("SELECT CAST(%s AS REGCLASS) = 'orders'::regclass::oid", ["orders"])
    assert oid.fetchone() == (True,)
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        client.execute("CREATE TABLE x (o INT REFERENCES orders (id) ON DELETE CASCADE)")


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
def test_psql_copies_and_fetches(server: Server) -> None:
    words = "BEGIN; DECLARE q CURSOR FOR SELECT name FROM orders ORDER BY id; FETCH 1 q; COMMIT"
    done = subprocess.run(
        ["psql", url(server), "-c", r"\copy item from pstdin csv header", "-c", words],
        input="id,o\n5,1\n6,\n", capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "COPY 2" in done.stdout and "(1 row)" in done.stdout and not done.stderr


LONG = [  # of rows of numbers, and of others
    "SELECT id, a, b, CASE WHEN id % 3 = 0 THEN c END, CASE WHEN id % 5 > 0 THEN e END, "
    "CAST(NULL AS REAL) FROM many ORDER BY id",
    "SELECT id, a, b, c, d, e FROM many WHERE id <> 150 ORDER BY id",
    "SELECT * FROM many ORDER BY id",
    "SELECT id, a + c FROM many ORDER BY id",
    "SELECT id, CAST(c AS DECIMAL(9, 2)) FROM many ORDER BY id",
    "SELECT id, ARRAY[id] FROM many ORDER BY id",
    "SELECT CAST(id AS SMALLINT), d > 30 FROM many ORDER BY id",
]


@pytest.mark.parametrize("query", LONG)
def test_long_answers_in_binary_are_those_of_text(client: Any, query: str) -> None:
    """Whole, and by parts; with a null, each kind of number, and what is no number."""
    client.execute(
        "CREATE TABLE many (id BIGINT PRIMARY KEY, a SMALLINT, b INT NOT NULL, c DOUBLE PRECISION, "
        "d REAL, e BOOLEAN, name TEXT)"
    )
    client.execute(
        "INSERT INTO many SELECT n, CASE WHEN n <> 150 THEN n % 100 - 50 END, n * 7 - 500, n / 7.0, "
        "n / 4.0, n % 2 = 0, 'row' FROM generate_series(-3, 400) AS s(n)"
    )
    rows = client.execute(query).fetchall()
    assert client.cursor(binary=True).execute(query).fetchall() == rows and len(rows) > 400
    with client.transaction(), client.cursor("part", binary=True) as cursor:
        cursor.execute(query)
        assert cursor.fetchmany(7) == rows[:7] and cursor.fetchall() == rows[7:]
