"""`ivm serve`: PostgreSQL's wire, spoken by psql, psycopg and asyncpg, and by nobody's rules."""

import asyncio
import datetime
import json
import random
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import ivm
from pagestore_tools.serving import clients
from pagestore_tools.serving.postgres import server as listening
from pagestore_tools.serving.postgres import values
from pagestore_tools.serving.postgres.server import Server, Settings
from tests.support.programs.amounts import times
from tests.support.waiting import joined, until

TABLES = """
    CREATE TABLE orders (id INT PRIMARY KEY, name TEXT NOT NULL, cents DECIMAL(10,2) DEFAULT 0, at TIMESTAMP,
        tags TEXT[], f DOUBLE, b BOOLEAN, d DATE, UNIQUE (name));
    CREATE TABLE item (id INT PRIMARY KEY, o INT REFERENCES orders (id));
    INSERT INTO orders VALUES
        (1, 'a', 3.25, TIMESTAMP '2024-01-02 03:04:05', ['x', 'y z'], 1.5, true, DATE '2024-02-03');
    INSERT INTO orders (id, name, cents) VALUES (2, 'b', -4.5);
    CREATE MATERIALIZED VIEW spent AS SELECT name, sum(cents) AS total FROM orders GROUP BY name
"""
FIRST = (1, "a", Decimal("3.25"), datetime.datetime(2024, 1, 2, 3, 4, 5), ["x", "y z"], 1.5, True,
         datetime.date(2024, 2, 3))  # fmt: skip


def serving(settings: Settings) -> Iterator[Server]:
    with ivm.open(":memory:") as ws:
        ws.sql(TABLES)
        with Server(ws, "127.0.0.1", 0, settings) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield server
            server.shutdown()


@pytest.fixture
def server() -> Iterator[Server]:
    yield from serving(Settings())


def url(server: Server, password: str = "") -> str:
    return f"postgresql://ivm{password}@127.0.0.1:{server.server_address[1]}/ivm"


SHOWN = [
    (r"\dt", ["public | item", "public | orders"]), (r"\d", ["spent  | materialized view"]),
    (r"\d orders", ["numeric(10,2)", '"orders_pkey" PRIMARY KEY, btree (id)', '"orders_name_key" UNIQUE CONSTRAINT',
                    'TABLE "item" CONSTRAINT "item_o_fkey" FOREIGN KEY (o) REFERENCES orders(id)']),
    (r"\d item", ['"item_o_fkey" FOREIGN KEY (o) REFERENCES orders(id)']), (r"\d spent", ["numeric(38,2)"]),
    (r"\l", ["UTF8"]), (r"\dn", ["public"]), (r"\du", ["Superuser"]), (r"\di", ["orders_name_key"]),
    (r"\df", ["(0 rows)"]), (r"\dt+", ["permanent"]),
    ("SELECT nope FROM orders", ["LINE 1: SELECT nope FROM orders", "no column nope"]),
    ("COPY (SELECT id, tags FROM orders) TO STDOUT WITH CSV HEADER", ["id,tags", '1,"{x,""y z""}"', "2,"]),
    ("BEGIN; INSERT INTO orders (id, name) VALUES (5, 'q'); ROLLBACK; SELECT count(*) FROM orders", ["2", "ROLLBACK"]),
]  # fmt: skip


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
def test_psql_shows_tables_and_answers(server: Server) -> None:
    words = [word for text, _ in SHOWN for word in ("-c", text)]
    done = subprocess.run(
        ["psql", url(server), *words], capture_output=True, text=True, timeout=120
    )
    for text, parts in SHOWN:
        for part in parts:
            assert part in done.stdout + done.stderr, (text, part, done.stderr)
    assert done.stderr.count("ERROR") == 1, done.stderr


def test_psycopg_asks_edits_and_listens(server: Server) -> None:
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(url(server)) as client:
        for binary in (False, True):
            cursor = client.cursor(binary=binary)
            assert cursor.execute("SELECT * FROM orders WHERE id = %s", (1,)).fetchall() == [FIRST]
        client.execute("INSERT INTO orders (id, name) VALUES (%s, %s)", (7, "c"))
        with pytest.raises(ZeroDivisionError), client.transaction():
            client.execute("UPDATE orders SET name = 'd' WHERE id = %s", (7,))
            raise ZeroDivisionError
        assert client.execute("SELECT name FROM orders WHERE id = 7").fetchall() == [("c",)]
        client.rollback()
        for number in range(8):  # prepared on the way
            found = client.execute(
                "SELECT count(*) FROM orders WHERE id > %s", (number,)
            ).fetchone()
            assert found == (max(2 - number, 0),)
        with pytest.raises(psycopg.errors.UniqueViolation):
            client.execute("INSERT INTO orders (id, name) VALUES (1, 'z')")
        client.rollback()
    with psycopg.connect(url(server), autocommit=True) as client:
        client.execute("LISTEN spent")
        server.ws.sql("INSERT INTO orders (id, name, cents) VALUES (9, 'n', 5)")
        (told,) = client.notifies(timeout=20, stop_after=1)
        assert (told.channel, told.payload) == ("spent", "1")


def test_asyncpg_asks_in_binary(server: Server) -> None:
    asyncpg = pytest.importorskip("asyncpg")
    new = (
        8,
        "n",
        Decimal("12345.67"),
        datetime.datetime(2024, 5, 6, 7, 8, 9),
        2.5,
        True,
        datetime.date(1999, 1, 1),
    )

    async def talk() -> None:
        client = await asyncpg.connect(url(server))
        assert [
            tuple(one) for one in await client.fetch("SELECT * FROM orders WHERE id = $1", 1)
        ] == [FIRST]
        found = await client.fetch("SELECT id, cents FROM orders WHERE name = $1 LIMIT $2", "b", 5)
        assert [tuple(one) for one in found] == [(2, Decimal("-4.50"))]
        async with client.transaction():
            text = "INSERT INTO orders (id,name,cents,at,f,b,d) VALUES ($1,$2,$3,$4,$5,$6,$7)"
            assert await client.execute(text, *new) == "INSERT 0 1"
        row = await client.fetchrow("SELECT id, name, cents, at, f, b, d FROM orders WHERE id = 8")
        assert tuple(row) == new
        assert (
            await client.fetchval(
                "INSERT INTO orders (id, name) VALUES ($1, $2) RETURNING id", 9, "x"
            )
            == 9
        )
        assert await client.fetchval("SELECT $1::int + 1", 41) == 42
        with pytest.raises(asyncpg.UndefinedColumnError):
            await client.fetch("SELECT nope FROM orders")
        assert await client.fetchval("SELECT count(*) FROM orders") == 4
        await client.close()

    asyncio.run(talk())


def test_sqlalchemy_reflects_as_from_postgresql(server: Server) -> None:
    sa = pytest.importorskip("sqlalchemy")
    pytest.importorskip("psycopg")
    engine = sa.create_engine(url(server).replace("postgresql", "postgresql+psycopg"))
    inspector = sa.inspect(engine)
    assert sorted(inspector.get_table_names()) == ["item", "orders"]
    assert inspector.get_materialized_view_names() == ["spent"]
    assert [one["name"] for one in inspector.get_columns("item")] == ["id", "o"]
    engine.dispose()


def test_a_password_is_proved() -> None:
    psycopg = pytest.importorskip("psycopg")
    for server in serving(Settings("secret é")):
        with psycopg.connect(url(server, ":secret%20%C3%A9")) as client:
            assert client.execute("SELECT 1").fetchall() == [(1,)]
        for wrong in ("", ":other"):
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(url(server, wrong))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes the certificate")
def test_tls_is_wanted_where_a_certificate_is_given(tmp_path: Path) -> None:
    psycopg = pytest.importorskip("psycopg")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    made = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    subprocess.run(
        [*made.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True
    )
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    for server in serving(Settings("secret", tls)):
        with psycopg.connect(
            url(server, ":secret"), sslmode="verify-ca", sslrootcert=certificate
        ) as client:
            assert client.pgconn.ssl_in_use
            assert client.execute("SELECT name FROM orders ORDER BY id").fetchall() == [
                ("a",),
                ("b",),
            ]
        with pytest.raises(psycopg.OperationalError, match="TLS is wanted: sslmode=require"):
            psycopg.connect(url(server, ":secret"), sslmode="disable")


def test_a_client_that_breaks_off_leaves_nothing(server: Server) -> None:
    psycopg = pytest.importorskip("psycopg")
    client = psycopg.connect(url(server))
    client.execute("INSERT INTO orders (id, name) VALUES (7, 'c')")
    socket.socket(fileno=client.fileno()).close()  # as if its process had died
    with psycopg.connect(url(server), autocommit=True) as other:
        for _ in range(50):
            try:
                other.execute("INSERT INTO orders (id, name) VALUES (8, 'd')")
                break
            except psycopg.Error:
                continue
        assert other.execute("SELECT id FROM orders ORDER BY id").fetchall() == [(1,), (2,), (8,)]


ENDLESS = (
    "SELECT count(*) FROM generate_series(1, 9000) a(x), generate_series(1, 9000) b(y),"
    " generate_series(1, 9000) c(z) WHERE x * y * z % 7 = 30"
)


def running(server: Server) -> None:
    """Wait until a client's statement is evaluated."""
    until(lambda: any(session.is_running for session, _ in [*server.sessions.values()]))


def test_a_statement_that_is_cancelled_or_whose_client_is_gone_ends(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statements would take hours.  `cancel` would keep this process, and so the server, waiting."""
    psycopg = pytest.importorskip("psycopg")
    into = "INSERT INTO item (id) SELECT 9 * x + y FROM generate_series(1, 9000) a(x), generate_series(1, 9000) b(y)"
    with psycopg.connect(url(server), autocommit=True) as client:
        for text in (ENDLESS, into, ENDLESS):
            stop = threading.Thread(target=lambda: (running(server), client.cancel_safe()))
            stop.start()
            with pytest.raises(psycopg.errors.QueryCanceled, match="asked to"):
                client.execute(text)
            joined(stop)
            assert client.execute("SELECT count(*) FROM item").fetchone() == (0,)
    client = psycopg.connect(url(server), autocommit=True)
    monkeypatch.setattr(clients, "LEFT_SECONDS", 0.01)
    client.pgconn.send_query(ENDLESS.encode())
    running(server)
    client.close()
    until(lambda: not server.sessions)  # the server has noticed it


MUCH = "SELECT x, y FROM generate_series(1, 2000) a(x), generate_series(1, 900) b(y)"


@pytest.mark.parametrize(
    ("settings", "memory", "text", "state"),
    [
        (Settings(rows=10), None, "SELECT * FROM generate_series(1, 11)", "54000"),
        (Settings(seconds=1e-6), None, ENDLESS, "57014"),
        (Settings(), 1 << 20, MUCH, "53200"),
    ],
    ids=["rows", "seconds", "memory"],
)
def test_a_client_may_take_so_much(
    settings: Settings, memory: int | None, text: str, state: str
) -> None:
    psycopg = pytest.importorskip("psycopg")
    for server in serving(settings):
        server.ws.memory = memory
        with psycopg.connect(url(server), autocommit=True) as client:
            with pytest.raises(psycopg.OperationalError) as error:
                client.execute(text)
            assert error.value.sqlstate == state, error.value
            client.execute("UNLISTEN *")  # it goes on


def test_cursors_hold_no_more_rows_together_than_a_client_may() -> None:
    for server in serving(Settings(rows=10)):
        asyncio.run(two_cursors(server))


async def two_cursors(server: Server) -> None:
    asyncpg = pytest.importorskip("asyncpg")
    client = await asyncpg.connect(url(server))
    async with client.transaction():
        await (await client.cursor("SELECT * FROM generate_series(1, 6)")).fetch(1)
        with pytest.raises(asyncpg.PostgresError, match="more than 10 rows for one client"):
            await (await client.cursor("SELECT * FROM generate_series(2, 7)")).fetch(1)
    await client.close()


HELLO = struct.pack(">ii", 9, 196608) + b"\0"


@pytest.mark.parametrize("seed", range(times(4)))
def test_no_bytes_end_the_server(server: Server, seed: int) -> None:
    """Random bytes and messages: an error or a closed connection, and the next client is served."""
    draw = random.Random(seed)
    texts = [
        b"SELECT 1",
        b"SELECT $1",
        b"BEGIN",
        b"",
        b"'",
        b"\xff",
        b"COPY orders TO STDOUT",
        b"COPY item FROM STDIN",
        b"DECLARE c CURSOR WITH HOLD FOR SELECT id FROM orders",
        b"FETCH 3 FROM c",
        b"LISTEN nope",
    ]
    texts += [b"SELECT * FROM orders", b"SELECT name FROM spent"]
    psycopg = pytest.importorskip("psycopg")
    other = psycopg.connect(url(server))
    other.execute("INSERT INTO orders (id, name) VALUES (9, 'hidden')")  # and never committed
    for _ in range(times(40)):
        with socket.create_connection(server.server_address[:2], timeout=20) as client:
            said = b"" if draw.random() < 0.2 else HELLO
            for _ in range(draw.randrange(6)):
                body = (
                    draw.choice(texts)
                    + b"\0" * draw.randrange(3)
                    + draw.randbytes(draw.randrange(12))
                )
                length = len(body) + 4 if draw.random() < 0.8 else draw.randrange(-9, 1 << 31)
                said += bytes([draw.choice(b"QPBDECHSXpzdcf")]) + struct.pack(">i", length) + body
            client.sendall(said)
            client.shutdown(socket.SHUT_WR)
            while said := client.recv(1 << 16):
                assert b"hidden" not in said
    other.close()
    with socket.create_connection(server.server_address[:2], timeout=20) as client:
        client.sendall(
            HELLO + b"Q" + struct.pack(">i", 13) + b"SELECT 1\0" + b"X" + struct.pack(">i", 4)
        )
        found = b""
        while part := client.recv(1 << 16):
            found += part
    assert b"SELECT 1\0" in found


@pytest.mark.parametrize(
    "said",
    [
        b"\0\0",
        HELLO[:8],
        struct.pack(">ii", 1 << 20, 196608),
        HELLO + b"Q\x7f\0\0\0",
        HELLO + b"Q\0\0\0\3",
    ],
    ids=["slow", "half", "long", "oversized", "too short"],
)
def test_slow_and_oversized_messages_end_a_connection(
    server: Server, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(listening, "SECONDS", 0.2)
    with socket.create_connection(server.server_address[:2], timeout=60) as client:
        client.sendall(said)
        while client.recv(1 << 16):
            pass
    with socket.create_connection(server.server_address[:2], timeout=60) as client:
        client.sendall(HELLO)
        assert client.recv(1) == b"R"


ROUND: list[tuple[int, list[Any]]] = [
    (values.BOOL, [True, False]), (values.INT2, [0, -1, 32767]), (values.INT4, [-(2**31), 2**31 - 1]),
    (values.INT8, [-(2**63), 2**63 - 1]), (values.FLOAT8, [1.5, -0.0, float("inf")]), (values.TEXT, ["", "é'\\"]),
    (values.NUMERIC, [Decimal(t) for t in ("0", "0.00", "-0.05", "10000", "12345.6789", "99999999.000001", "1e10")]),
    (values.DATE, [datetime.date(1, 1, 1), datetime.date(2000, 1, 1), datetime.date(9999, 12, 31)]),
    (values.TIME, [datetime.time(0), datetime.time(23, 59, 59, 999999)]), (values.BYTEA, [b"", b"\0\xff"]),
    (values.TIMESTAMP, [datetime.datetime(1, 1, 1), datetime.datetime(2024, 5, 6, 7, 8, 9, 10)]),
    (values.TIMESTAMPTZ, [datetime.datetime(1999, 12, 31, tzinfo=datetime.UTC)]),
]  # fmt: skip


def test_values_are_read_as_they_were_written() -> None:
    for oid, given in ROUND:
        for value in given:
            for binary in (False, True):
                assert values.read(values.written(value, oid, binary), oid, binary) == value, (
                    oid,
                    value,
                )
    assert values.read(uuid.UUID(int=7).bytes, values.UUID, True) == uuid.UUID(int=7)
    for oid, wrong in ((values.INT4, b"x"), (values.DATE, b"x"), (values.FLOAT8, b"\xff")):
        with pytest.raises(values.ValueOfClientError):
            values.read(wrong, oid, False)


def test_the_command_wants_a_password_beyond_this_machine(tmp_path: Path) -> None:
    from pagestore_tools.cli.main import ivm as run

    assert run(["serve", str(tmp_path / "a.pages"), "--host", "0.0.0.0"]) == 1


@pytest.mark.parametrize("files", [False, True])
def test_a_served_statement_reads_and_writes_files_if_it_is_told(
    tmp_path: Path, files: bool
) -> None:
    psycopg = pytest.importorskip("psycopg")
    store, rows, copy = (tmp_path / name for name in ("a.pages", "rows.csv", "copy.csv"))
    ivm.open(store).close()
    rows.write_text("a,b\n1,x\n")
    words = [sys.executable, "-m", "ivm", "serve", store, "--port", "0", "--json"]
    with subprocess.Popen(
        [*map(str, words), *["--files"] * files], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        try:
            with psycopg.connect(
                json.loads(process.stdout.readline())["url"], autocommit=True
            ) as client:
                for text in (f"SELECT a, b FROM '{rows}'", f"COPY (SELECT 1 AS a) TO '{copy}'"):
                    if not files:
                        with pytest.raises(psycopg.Error, match="--files"):
                            client.execute(text)
                    elif (cursor := client.execute(text)).description:
                        assert cursor.fetchall() == [(1, "x")]
                assert client.execute("-- nothing").description is None
                assert client.execute("/* a tool */ -- x\n BEGIN").statusmessage == "BEGIN"
        finally:
            process.terminate()
    assert copy.exists() == files
