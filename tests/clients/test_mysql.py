"""`ivm serve --mysql`: MySQL's wire, spoken by pymysql, MySQL's connector and mariadb's client."""

import datetime
import json
import random
import shutil
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import ivm
from pagestore_tools.serving import clients
from pagestore_tools.serving.clients import FIRST_LONGEST, Settings
from tests.support.programs.amounts import times
from tests.support.waiting import until

pymysql = pytest.importorskip("pymysql")
pytest.importorskip("mysql_mimic")

from pagestore_tools.serving.mysql import server as wire  # noqa: E402
from pagestore_tools.serving.mysql.translate import translated  # noqa: E402

TABLES = [
    "CREATE TABLE `orders` (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(30) NOT NULL, cents DECIMAL(10,2),"
    " at DATETIME, b BLOB, f BOOL, d DATE, tm TIME, x DOUBLE, UNIQUE KEY u (name), KEY (cents)) ENGINE=InnoDB",
    "CREATE TABLE stock (id INT PRIMARY KEY, n INT)",
    "CREATE MATERIALIZED VIEW spent AS SELECT name, SUM(cents) AS total FROM orders GROUP BY name",
]
ROW = ("it's \\ \"?", Decimal("3.25"), datetime.datetime(2024, 1, 2, 3, 4, 5, 6), b"\0'\\\xff", 1,
       datetime.date(2024, 2, 3), datetime.timedelta(seconds=3723), 1.5)  # fmt: skip
INTO = (
    "INSERT INTO orders (name, cents, at, b, f, d, tm, x) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
)


def serving(settings: Settings) -> Iterator[Any]:
    with ivm.open(":memory:") as ws:
        server = wire.Server(ws, "127.0.0.1", 0, settings)
        try:
            with connected(server, settings.password or "") as client:
                for text in TABLES:
                    client.cursor().execute(text)
            yield server
        finally:
            server.close()


@pytest.fixture
def server() -> Iterator[Any]:
    yield from serving(Settings())


def connected(server: Any, password: str = "", **more: Any) -> Any:
    return pymysql.connect(
        host="127.0.0.1", port=server.port, user="me", password=password, database="ivm", **more
    )


ASKED: list[tuple[str, Any]] = [
    ("SELECT 5 / 2, 5 DIV 2, IFNULL(NULL, 'x'), \"text\", 1 <=> NULL FROM DUAL", ((2.5, 2, "x", "text", 0),)),
    ("SELECT DATABASE(), @@version_comment, VERSION()", (("ivm", "ivm", "8.0.29"),)),
    ("SHOW TABLES", (("orders",), ("spent",), ("stock",))),
    ("SHOW FULL TABLES LIKE 'spent'", (("spent", "VIEW"),)),
    ("DESCRIBE spent", (("name", "varchar", "NO", "", None, None), ("total", "decimal(38,2)", "YES", "", None, None))),
    ("SELECT column_name, column_key, ordinal_position FROM information_schema.columns WHERE table_schema = 'ivm'"
     " AND table_name = 'orders' AND column_key > ''", (("id", "PRI", 1), ("name", "UNI", 2))),
    ("SHOW VARIABLES LIKE 'sql_mode'", (("sql_mode", "STRICT_TRANS_TABLES"),)),
    ("USE ivm; SET NAMES utf8mb4; SELECT 1", ((1,),)),
    ("SELECT name, total FROM spent WHERE total > 3", (("a", Decimal("4.00")),)),
    ("REPLACE INTO stock VALUES (1, 7); SELECT n FROM stock", ((7,),)),
    ("INSERT INTO stock VALUES (1, 3) ON DUPLICATE KEY UPDATE n = n + VALUES(n);"
     "INSERT IGNORE INTO stock VALUES (1, 1); SELECT n FROM stock", ((10,),)),
    ("SELECT x'4142', _binary'C', _utf8'D'", ((b"AB", b"C", "D"),)),
]  # fmt: skip
WRONG = [
    ("SELECT nope FROM orders", 1054), ("SELECT * FROM nope", 1146), ("SELEC", 1064), ("SELECT * FROM", 1064),
    ("INSERT INTO orders (name) VALUES ('a')", 1062), ("INSERT INTO orders (name) VALUES (NULL)", 1048),
    ("CREATE TABLE orders (id INT)", 1050), ("SELECT nofunc(1)", 1305), ("USE other", 1049),
    ("SET time_zone = '+02:00'", 1231), ("SET sql_mode = 'ANSI_QUOTES'", 1231), ("SET nope = 1", 1193),
    ("SELECT * FROM orders FOR UPDATE", 1064), ("LOCK TABLES orders WRITE", 1064),
    ("INSERT INTO orders (id, name) VALUES ('x', 'y')", 1366),
]  # fmt: skip


def test_pymysql_asks_and_edits(server: Any) -> None:
    many = pymysql.constants.CLIENT.MULTI_STATEMENTS
    with connected(server, autocommit=True, client_flag=many) as client:
        cursor = client.cursor()
        assert cursor.execute("INSERT INTO orders (name, cents) VALUES ('a', 4), ('b', 2)") == 2
        assert cursor.lastrowid == 1
        for text, rows in ASKED:
            cursor.execute(text)
            assert cursor.fetchall() == rows, text
        for text, code in WRONG:
            with pytest.raises(pymysql.Error) as error:
                cursor.execute(text)
            assert error.value.args[0] == code, (text, error.value)
        assert cursor.execute("UPDATE orders SET cents = 0") == 2
        cursor.execute(INTO, ROW)
        cursor.execute("SELECT * FROM orders WHERE name = %s", ROW[:1])
        assert cursor.fetchall() == ((cursor.lastrowid or 3, *ROW),)


def test_a_transaction_is_its_clients(server: Any) -> None:
    with connected(server) as one, connected(server, autocommit=True) as other:
        asks, count = other.cursor(), "SELECT COUNT(*) FROM spent"
        for end, found in ((one.rollback, 0), (one.commit, 1)):
            one.cursor().execute("INSERT INTO orders (name) VALUES ('q')")
            asks.execute(count)
            assert asks.fetchone() == (0,)
            end()
            asks.execute(count)
            assert asks.fetchone() == (found,)


def test_prepared_statements_keep_values_apart_from_their_text(server: Any) -> None:
    connector = pytest.importorskip("mysql.connector")
    given = (*ROW[:6], datetime.time(1, 2, 3), ROW[7])
    with connector.connect(
        host="127.0.0.1", port=server.port, user="me", password="", use_pure=True
    ) as client:
        cursor = client.cursor(prepared=True)
        for n in range(3):
            cursor.execute(INTO.replace("%s", "?"), (f"{ROW[0]}{n}", *given[1:]))
            assert cursor.rowcount == 1
        client.commit()
        for n in (1, 2):
            cursor.execute("SELECT * FROM orders WHERE name = ? AND id > ?", (f"{ROW[0]}{n}", -1))
            assert cursor.fetchall() == [(n + 1, f"{ROW[0]}{n}", *ROW[1:])]
        with pytest.raises(connector.IntegrityError):
            cursor.execute("INSERT INTO orders (id, name) VALUES (?, ?)", (1, "x"))
        with pytest.raises(connector.ProgrammingError):
            cursor.execute("SELECT nope FROM orders WHERE id = ?", (1,))


@pytest.mark.skipif(shutil.which("mariadb") is None, reason="mariadb's client is not installed")
def test_mariadb_shows_tables(server: Any) -> None:
    words = ["mariadb", "-h127.0.0.1", f"-P{server.port}", "-ume", "ivm", "-e"]
    done = subprocess.run(
        [*words, "SHOW TABLES; SELECT 1 + 1 AS two"], capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == ["Table_name", "orders", "spent", "stock", "two", "2"], (
        done.stderr
    )


def test_a_password_is_wanted_and_nothing_is_heard_after_a_wrong_one() -> None:
    for server in serving(Settings("secret")):
        for wrong in ("", "other"):
            with pytest.raises(pymysql.OperationalError) as error:
                connected(server, wrong)
            assert error.value.args[0] == 1045
        assert (
            heard(server, HELLO, ends=False).count(b"Access denied") == 1
        )  # and it ends without being asked


def test_a_client_that_breaks_off_leaves_nothing(server: Any) -> None:
    client = connected(server)
    client.cursor().execute("INSERT INTO orders (name) VALUES ('lost')")
    client._sock.close()
    client._rfile.close()  # as if its process had died
    with connected(server, autocommit=True) as other:
        cursor = other.cursor()
        cursor.execute("INSERT INTO orders (name) VALUES ('kept')")  # waits for the other's end
        cursor.execute("SELECT name FROM orders")
        assert cursor.fetchall() == (("kept",),)


def heard(server: Any, *packets: bytes, ends: bool = True) -> bytes:
    """Send packets, and the end unless the server is to end first; return all that comes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as raw:
        parts = []
        with suppress(OSError):  # the server may close it meanwhile
            for one in packets:
                raw.sendall(one)
            if ends:
                raw.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            while part := raw.recv(1 << 16):
                parts.append(part)
    return b"".join(parts)


def packet(number: int, body: bytes) -> bytes:
    return struct.pack("<I", len(body) | number << 24) + body


# of a client with protocol 4.1, secure connections and plugins of passwords, and no password
HELLO = packet(
    1, struct.pack("<IIB23x", 0x000A8201, 1 << 24, 45) + b"me\0\0mysql_native_password\0"
)


@pytest.mark.parametrize("seed", range(times(4)))
def test_no_bytes_end_the_server(server: Any, seed: int) -> None:
    """Random bytes and commands: an error or a closed connection, and the next is served."""
    draw = random.Random(seed)
    texts = [b"SELECT 1", b"SELECT ?", b"BEGIN", b"", b"'", b"\xff", b"SHOW TABLES", b"SET x"]
    for _ in range(times(30)):
        said = [] if draw.random() < 0.2 else [HELLO]
        for _ in range(draw.randrange(6)):
            body = (
                bytes([draw.choice([0, 1, 2, 3, 14, 22, 23, 24, 25, 26, 28, 31, 99])])
                + draw.choice(texts)
                + draw.randbytes(draw.randrange(12))
            )
            said.append(packet(0 if draw.random() < 0.9 else 7, body))
        if draw.random() < 0.3:
            said.append(draw.randbytes(draw.randrange(9)))
        heard(server, *said)
    assert b"\x011" in heard(server, HELLO, packet(0, b"\x03SELECT 1"))


def test_a_long_message_of_nobody_is_not_read(server: Any) -> None:
    said = heard(server, packet(1, b"x" * (FIRST_LONGEST + 1)))
    assert said.count(b"mysql_native_password") == 1  # the greeting, and no answer to it


TRANSLATED = [
    ("CREATE TABLE t (a TINYINT(1), b YEAR, c LONGBLOB, d VARBINARY(9), e MEDIUMINT)",
     "CREATE TABLE t (a BOOLEAN, b SMALLINT, c BLOB, d BLOB, e INT)"),
    ("SELECT 0x1", "SELECT CAST('\\x01' AS BLOB)"),
    ("EXPLAIN SELECT 1", "EXPLAIN SELECT 1"),
    ("CREATE OR REPLACE VIEW v AS SELECT 1 AS a", "CREATE OR REPLACE VIEW v AS SELECT 1 AS a"),
    ("ROLLBACK TO a", "ROLLBACK TO a"), ("", None),
]  # fmt: skip


def test_what_mysql_says_otherwise() -> None:
    for text, said in TRANSLATED:
        assert translated(text) == ([] if said is None else [said])


ENDLESS = (
    "SELECT COUNT(*) FROM generate_series(1, 9000) a(x), generate_series(1, 9000) b(y),"
    " generate_series(1, 9000) c(z) WHERE x * y * z % 7 = 30"
)


@pytest.mark.parametrize("how", ["query", "connection", "gone"])
def test_a_statement_that_is_killed_or_whose_client_is_gone_ends(
    server: Any, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would take hours."""
    monkeypatch.setattr(clients, "LEFT_SECONDS", 0.01)
    client = connected(server)
    (session,) = [one.session for one in server._clients.known.values()]
    number, found = client.thread_id(), list[Any]()

    def ask() -> None:
        with pytest.raises(pymysql.Error) as error:
            client.cursor().execute(ENDLESS)
        found.append(error.value.args[0])

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    until(lambda: session._statements.is_running)
    if how == "gone":
        client._sock.shutdown(socket.SHUT_RDWR)
    else:
        with connected(server) as other:
            other.cursor().execute(f"KILL {how} {number}")
    asking.join(60)
    assert found == [1317 if how == "query" else 2013]
    until(lambda: not session._statements.is_running)
    if how == "query":
        with client.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM orders")
            assert cursor.fetchone() == (0,)


def test_the_text_that_creates_a_table_is_told_and_reflected(server: Any) -> None:
    sa = pytest.importorskip("sqlalchemy")
    with connected(server) as client, client.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE item (a INT, b INT, o INT REFERENCES orders (id), PRIMARY KEY (b, a), CHECK (o > 0))"
        )
        cursor.execute("SHOW CREATE TABLE item")
        ((name, text),) = cursor.fetchall()
        assert name == "item" and text.splitlines() == [
            "CREATE TABLE `item` (", "  `a` int NOT NULL,", "  `b` int NOT NULL,", "  `o` int,",
            "  PRIMARY KEY (`b`, `a`),", "  CONSTRAINT `item_o_check` CHECK (`o` > 0),",
            "  CONSTRAINT `item_o_fkey` FOREIGN KEY (`o`) REFERENCES `orders` (`id`)", ") ENGINE=ivm",
        ]  # fmt: skip
        cursor.execute("SHOW CREATE VIEW spent")
        assert "AS SELECT" in cursor.fetchone()[1]
        with pytest.raises(pymysql.ProgrammingError, match="does not exist"):
            cursor.execute("SHOW CREATE TABLE nope")
    engine = sa.create_engine(f"mysql+pymysql://me@127.0.0.1:{server.port}/ivm")
    seen = sa.inspect(engine)
    assert seen.get_pk_constraint("item")["constrained_columns"] == ["b", "a"]
    assert seen.get_foreign_keys("item")[0]["referred_table"] == "orders"
    assert seen.get_unique_constraints("orders")[0]["column_names"] == ["name"]
    assert {"name", "total"} == {column["name"] for column in seen.get_columns("spent")}
    engine.dispose()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes the certificate")
def test_the_command_serves_by_tls(tmp_path: Path) -> None:
    key, certificate, file = tmp_path / "k.pem", tmp_path / "c.pem", tmp_path / "a.pages"
    made = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    subprocess.run(
        [*made.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True
    )
    ivm.open(file).close()
    words = [sys.executable, "-m", "ivm", "serve", file, "--port", "0", "--mysql", "0", "--json"]
    with subprocess.Popen(
        [*map(str, words), "--tls", str(certificate), str(key)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        port = int(
            json.loads(process.stdout.readline())["mysql"].rpartition(":")[2].partition("/")[0]
        )
        how: dict[str, Any] = {"host": "127.0.0.1", "port": port, "user": "me", "database": "ivm"}
        try:
            with (
                pymysql.connect(**how, ssl_ca=str(certificate)) as client,
                client.cursor() as cursor,
            ):
                cursor.execute("SELECT 1")
                assert cursor.fetchone() == (1,)
            with pytest.raises(pymysql.OperationalError, match="TLS is wanted"):
                pymysql.connect(**how, ssl_disabled=True)
        finally:
            process.terminate()
