"""What clients of a store wait for: reads by key, a million rows, many connections, and changes
told, beside PostgreSQL and sqlite3.

Costs are processor time, of the client and of the server with its processes, so that other work on
the machine does not count; what is told to a listener is measured by the clock.
"""

import argparse
import json
import os
import random
import shutil
import socket
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import ivm
from ivm import dbapi
from pagestore_tools.bench.harness import Row, Side, Work

CONNECTIONS, EACH, READS, TOLD = 64, 40, 2000, 50
POSTGRES = "/usr/lib/postgresql/15/bin"
READ = "SELECT cents FROM paid WHERE id = %s"
ALL = "SELECT id, who, cents FROM paid"
TABLE = "CREATE TABLE paid (id INT PRIMARY KEY, who INT NOT NULL, cents INT NOT NULL)"
VIEWS = (
    "CREATE MATERIALIZED VIEW spent AS SELECT who, sum(cents) AS cents FROM paid GROUP BY who",
    "CREATE MATERIALIZED VIEW times AS SELECT who, count(*) AS n FROM paid GROUP BY who",
)
TRIGGERS = """
CREATE TABLE spent (who INT PRIMARY KEY, cents BIGINT NOT NULL);
CREATE TABLE times (who INT PRIMARY KEY, n BIGINT NOT NULL);
INSERT INTO spent SELECT who, sum(cents) FROM paid GROUP BY who;
INSERT INTO times SELECT who, count(*) FROM paid GROUP BY who;
CREATE FUNCTION follow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  UPDATE spent SET cents = cents + NEW.cents - OLD.cents WHERE who = NEW.who;
  PERFORM pg_notify('spent', '1');
  RETURN NULL;
END $$;
CREATE TRIGGER follows AFTER UPDATE ON paid FOR EACH ROW EXECUTE FUNCTION follow();
"""
EDIT = "UPDATE paid SET cents = %s WHERE id = %s"


class Server(NamedTuple):
    """A server: its name, its address, and its process."""

    name: str
    url: str
    process: int

    def spent(self) -> float:
        """Return the processor seconds of this process, and of the server with all of its own."""
        ticks = 0
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            if int(folder.name) == self.process:
                ticks += sum(map(int, fields[11:15]))
            elif int(fields[1]) == self.process:
                ticks += sum(map(int, fields[11:13]))
        return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def rows_of(size: int) -> Iterator[tuple[int, int, int]]:
    """Yield the rows of the table."""
    return ((n, n % 1000, n % 97) for n in range(size))


@contextmanager
def served(file: Path) -> Iterator[Server]:
    """Serve a store by `ivm serve`."""
    words = [sys.executable, "-m", "ivm", "serve", str(file), "--port", "0", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield Server("ivm", json.loads(process.stdout.readline())["url"], process.pid)
        finally:
            process.terminate()


@contextmanager
def postgres(folder: Path, size: int) -> Iterator[Server]:
    """Serve the same rows by PostgreSQL, with triggers for the views."""
    with cluster(folder) as (url, client, process):
        client.execute(TABLE)
        with client.cursor() as cursor, cursor.copy("COPY paid FROM STDIN") as copy:
            for row in rows_of(size):
                copy.write_row(row)
        client.execute(TRIGGERS)
        client.execute("ANALYZE")
        client.close()
        yield Server(f"PostgreSQL {client.info.server_version // 10_000}", url, process)


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, Any, int]]:
    """Serve an empty database by PostgreSQL; yield its address, a connection, and the process."""
    data, user = folder / "data", "nobody" if os.geteuid() == 0 else None
    data.mkdir()
    if user:
        folder.parent.chmod(0o755)
        folder.chmod(0o755)
        shutil.chown(data, user)
    making = ["-U", "ivm", "-A", "trust", "--locale", "C.UTF-8"]
    made = [f"{POSTGRES}/initdb", "-D", str(data), *making]
    subprocess.run(made, user=user, check=True, capture_output=True, cwd="/")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [f"{POSTGRES}/postgres", "-D", str(data), "-p", str(port), "-k", str(data)]
    with subprocess.Popen(words, user=user, cwd="/", stderr=subprocess.DEVNULL) as process:
        try:
            url = f"postgresql://ivm@127.0.0.1:{port}/postgres"
            yield url, _connected(url), process.pid
        finally:
            process.terminate()


def _connected(url: str) -> Any:
    """Connect, once the server listens."""
    import psycopg

    for _ in range(600):
        try:
            return psycopg.connect(url, autocommit=True)
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise TimeoutError(url)


def cost(spent: Callable[[], float], work: Callable[[], object], count: int = 1) -> float:
    """Return the milliseconds of the processor that each of some things takes."""
    work()
    before = spent()
    work()
    return (spent() - before) * 1e3 / count


def reads(execute: Callable[..., Any], text: str, size: int) -> None:
    """Read rows by key."""
    chance = random.Random(1)
    for _ in range(READS):
        key = chance.randrange(size)
        assert execute(text, (key,)).fetchone() == (key % 97,)


def everything(connection: Any) -> int:
    """Read all rows; return how many there are."""
    return len(connection.execute(ALL).fetchall())


def many(server: Server, size: int) -> None:
    """Let many connections read and edit at the same time."""

    def one(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(EACH):
            key = chance.randrange(size)
            if chance.random() < 0.9:
                clients[seed].execute(READ, (key,), prepare=True).fetchone()
            else:
                clients[seed].execute(EDIT, (key % 97, key), prepare=True)

    with ExitStack() as stack:
        clients = [stack.enter_context(_connected(server.url)) for _ in range(CONNECTIONS)]
        threads = [threading.Thread(target=one, args=(seed,)) for seed in range(CONNECTIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def told(server: Server) -> float:
    """Return the median milliseconds by the clock from a commit's beginning to a listener."""
    took = []
    with _connected(server.url) as listens, _connected(server.url) as edits:
        listens.execute("LISTEN spent")
        for n in range(TOLD):
            begun = time.perf_counter()
            edits.execute(EDIT, (1000 + n + time.time_ns() % 1000, 1))
            assert [*listens.notifies(timeout=20, stop_after=1)]
            took.append(time.perf_counter() - begun)
        edits.execute(EDIT, (1, 1))
    return statistics.median(took) * 1e3


def rows(folder: Path, options: argparse.Namespace) -> Iterator[Row]:
    """Yield what is measured."""
    size, file = options.size, folder / "paid.pages"
    with ivm.open(file) as ws:
        ws.sql(TABLE)
        ws.set("paid", [*rows_of(size)])
        for view in VIEWS:
            ws.sql(view)
    lite = sqlite3.connect(folder / "paid.db", check_same_thread=False)
    lite.execute(TABLE)
    lite.executemany("INSERT INTO paid VALUES (?, ?, ?)", rows_of(size))
    lite.commit()
    own: dict[str, Any] = {"unit": "ms", "scale": 1, "told": True}
    with dbapi.connect(file) as connection:
        local: dict[str, Any] = {"ivm.dbapi": connection, "sqlite3": lite}
        asked, timed = READ.replace("%s", "?"), partial(cost, time.process_time)
        yield Row("a read by key, DB-API", [
            Side(name, partial(timed, partial(reads, one.execute, asked, size), READS))
            for name, one in local.items()
        ], **own)  # fmt: skip
        yield Row(f"{size:,} rows out, DB-API fetchall", [
            Side(name, partial(timed, partial(everything, one)))
            for name, one in local.items()
        ], **own)  # fmt: skip
    yield from _arrow(file, size, own)
    with served(file) as ours, postgres(folder, size) as theirs:
        yield from _wires((ours, theirs), size, own)


def _arrow(file: Path, size: int, own: dict[str, Any]) -> Iterator[Row]:
    """Yield the row of Ibis."""
    import ibis

    con = ibis.ivm.connect(str(file))
    paid = con.table("paid")
    ways: dict[str, Callable[[], object]] = {
        "ibis": paid.to_pyarrow,
        "ws[...].to_arrow()": lambda: con.con.workspace["paid"].to_arrow(),
    }
    yield Row(
        f"{size:,} rows out as Arrow",
        [Side(name, partial(cost, time.process_time, way)) for name, way in ways.items()],
        **own,
    )
    con.disconnect()


def _wires(servers: tuple[Server, ...], size: int, own: dict[str, Any]) -> Iterator[Row]:
    """Yield the rows of servers, asked by psycopg."""
    with ExitStack() as stack:
        clients = {one: stack.enter_context(_connected(one.url)) for one in servers}

        def each(name: str, work: Callable[[Server, Any], Callable[[], object]], count: int) -> Row:
            return Row(name, [
                Side(one.name, partial(cost, one.spent, work(one, client), count))
                for one, client in clients.items()
            ], **own)  # fmt: skip

        def prepared(client: Any) -> Callable[..., Any]:
            return partial(client.execute, prepare=True)

        def out(client: Any) -> int:
            return len(client.cursor(binary=True).execute(ALL).fetchall())

        yield each(
            "a read by key, PostgreSQL's wire",
            lambda _, client: partial(reads, prepared(client), READ, size),
            READS,
        )
        yield each(
            f"{size:,} rows out, the wire in binary", lambda _, client: partial(out, client), 1
        )
        yield each(
            f"{CONNECTIONS} connections, an operation",
            lambda one, _: partial(many, one, size),
            CONNECTIONS * EACH,
        )
        sides = [Side(one.name, partial(told, one)) for one in servers]
        yield Row("a change until a listener has it, by the clock", sides, **own)


CLIENTS = Work("clients", rows, 1_000_000, 20_000)
