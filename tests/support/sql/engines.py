"""Real engines that answer expressions: Spark, PostgreSQL, SQLite and DuckDB, each with the same
small table.

An engine has `version`, and `rows(query)`, which returns rows of plain values, or raises Refused
with the kind of the error. `open_engine(name)` starts one; it raises Missing where it is not
installed.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

# where Debian has it
POSTGRES = [Path(f"/usr/lib/postgresql/{version}/bin") for version in range(18, 12, -1)]
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+00:00)?")  # in JSON
# an interval of PostgreSQL
ELAPSED = re.compile(r"P(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?[\d.]+)S)?)?")
COLUMNS = {
    "id": "INTEGER", "g": "VARCHAR", "i": "INTEGER", "b": "BIGINT", "x": "DOUBLE", "y": "DOUBLE",
    "n": "DECIMAL(8,2)",
    "s": "VARCHAR", "p": "VARCHAR", "f": "BOOLEAN", "d": "DATE", "e": "DATE", "ts": "TIMESTAMP",
    "j": "VARCHAR",
}  # fmt: skip
ROWS: list[tuple[Any, ...]] = [
    (1, "a", 7, 9007199254740993, 2.7, 2.0, "2.50", "Hello World", "o", True, "2024-01-31",
    "2023-12-25",
     "2024-01-31 13:45:06.789", '{"a": 1, "b": [1, 2], "c": "x"}'),
    (2, "a", -7, -1, -2.5, 0.5, "-2.55", "a,b,,c", ",", False, "2024-02-29", "2025-03-01",
     "1969-12-31 23:59:59.5", '{"a": null, "b": []}'),
    (3, "b", 0, 0, 0.0, -1.0, "0.00", "", "", True, "1970-01-01", "1970-01-01",
    "1970-01-01 00:00:00", "[1, 2.5]"),
    (4, "b", *(None,) * 12),
    (5, "b", 2147483647, 5, 1e10, 3.0, "99999.99", "  pad ", " ", False, "2023-12-31", "2024-12-31",
     "2023-12-31 23:59:59", '{"c": {"d": true}}'),
    (6, "c", 12, 12, 0.0001, 0.1, "0.05", "Straße Ünï", "ß", True, "2000-02-28", "2001-02-28",
     "2000-02-28 00:00:00", '{"b": [{"x": "y"}]}'),
    (7, "c", 3, 100, 1.5, 2.5, "1.50", "12.5", ".", None, "2024-07-04", "2024-07-04",
     "2024-07-04 12:00:00", '"text"'),
    (8, "c", 5, -8, 3.5, -0.5, "7.25", "path/to\\x_y%z", "path/%", True, "2024-12-30", "2020-02-29",
     "2024-12-30 08:05:01", "7"),
]  # fmt: skip


class Refused(Exception):
    """An engine has no answer; the argument is the kind of its error."""


class Missing(Exception):
    """An engine is not installed."""


class Engine(NamedTuple):
    """An open engine."""

    version: str
    rows: Callable[[str], list[tuple[Any, ...]]]


@contextmanager
def open_engine(name: str) -> Iterator[Engine]:
    """Start an engine with the table `t`, and end it.  Raises Missing."""
    with {"spark": _spark, "postgres": _postgres, "sqlite": _sqlite, "duckdb": _duckdb}[
        name
    ]() as engine:
        yield engine


def insert(
    types: dict[str, str] | None = None, quote: Callable[[str], str] = lambda text: text
) -> str:
    """Return the statement that fills the table; `types` are those of columns whose values are
    cast.
    """
    shown = (
        ", ".join(
            _shown(value, (types or {}).get(name), quote)
            for name, value in zip(COLUMNS, row, strict=True)
        )
        for row in ROWS
    )
    return f"INSERT INTO t VALUES {', '.join(f'({row})' for row in shown)}"


def _shown(value: Any, type_: str | None, quote: Callable[[str], str]) -> str:
    if value is None:
        return "NULL"
    text = "'" + quote(value).replace("'", "''") + "'" if isinstance(value, str) else repr(value)
    return f"CAST({text} AS {type_})" if type_ else text


def create(types: dict[str, str]) -> str:
    """Return the statement that creates the table, with other types for some of DuckDB's."""
    return f"CREATE TABLE t ({', '.join(f'{name} {types.get(type_, type_)}' for name, type_ in COLUMNS.items())})"


def plain(value: Any) -> Any:
    """Return a value as JSON has it: numbers of 12 digits, and all that JSON lacks as a text."""
    match value:
        case None | bool():
            return value
        case "Infinity" | "-Infinity" | "NaN":  # as JSON has them
            return f"float {float(value)}"
        case str():
            if days := ELAPSED.fullmatch(value):
                parts = zip(days.groups(), (86400, 3600, 60, 1), strict=True)
                return f"{sum(int(Decimal(part or 0) * size * 10**6) for part, size in parts)} microseconds"
            return (
                value.removesuffix("+00:00").replace("T", " ") if MOMENT.fullmatch(value) else value
            )
        case int() | float() | Decimal():
            if isinstance(value, float) and not math.isfinite(value):
                return f"float {value}"
            if isinstance(value, int) or value == int(value):
                return int(value) if abs(value) < 10**18 else float(f"{Decimal(value):.12g}")
            return float(f"{value:.9g}")
        case datetime():
            shown = value.replace(tzinfo=None).isoformat(" ")
            return shown.rstrip("0") if "." in shown else shown
        case time():
            return str(value).rstrip("0") if value.microsecond else str(value)
        case date():
            return str(value)
        case timedelta():
            return f"{value // timedelta(microseconds=1)} microseconds"
        case bytes() | bytearray():
            return f"bytes {value.hex()}"
        case dict():
            return {str(key): plain(one) for key, one in value.items()}
        case tuple() if hasattr(value, "nanoseconds") and not value.months:  # an interval of Arrow
            return f"{value.days * 86400 * 10**6 + value.nanoseconds // 1000} microseconds"
        case list() | tuple() | set():
            return [plain(one) for one in value]
    return str(value)


@contextmanager
def _spark() -> Iterator[Engine]:
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import Row, SparkSession
    except ImportError:
        raise Missing("pyspark is not installed") from None
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise Missing("Java is not installed")
    settings = {"spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC",
        "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.sql.shuffle.partitions": "1"}  # fmt: skip
    builder = SparkSession.builder.master("local[1]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    os.environ["TZ"] = "UTC"
    names = ", ".join(COLUMNS)
    types = {name: type_.replace("VARCHAR", "STRING") for name, type_ in COLUMNS.items()}
    values = insert(types, lambda text: text.replace("\\", "\\\\")).removeprefix("INSERT INTO t ")
    session.createDataFrame(
        session.sql(f"SELECT * FROM {values} AS v({names})").toArrow()
    ).coalesce(1).createOrReplaceTempView("t")

    def rows(query: str) -> list[tuple[Any, ...]]:
        try:
            return [
                tuple(_of_spark(value, Row) for value in row)
                for row in session.sql(query).collect()
            ]
        except PySparkException as error:
            raise Refused(error.getCondition() or type(error).__name__) from None
        except Exception as error:
            raise Refused(type(error).__name__) from None

    try:
        yield Engine(f"Spark {session.version}", rows)
    finally:
        session.stop()


def _of_spark(value: Any, row: type) -> Any:
    """Return a value of Spark with its structs as dicts."""
    if isinstance(value, row):
        return {key: _of_spark(one, row) for key, one in value.asDict().items()}
    if isinstance(value, list):
        return [_of_spark(one, row) for one in value]
    if isinstance(value, dict):
        return [(key, _of_spark(one, row)) for key, one in value.items()]
    return value


@contextmanager
def _sqlite() -> Iterator[Engine]:
    connection = sqlite3.connect(":memory:")
    connection.execute(
        create({"DATE": "TEXT", "TIMESTAMP": "TEXT", "VARCHAR": "TEXT", "DOUBLE": "REAL"})
    )
    connection.execute(insert())

    def rows(query: str) -> list[tuple[Any, ...]]:
        try:
            return connection.execute(query).fetchall()
        except sqlite3.Error as error:
            raise Refused(str(error)) from None

    try:
        yield Engine(f"SQLite {sqlite3.sqlite_version}", rows)
    finally:
        connection.close()


@contextmanager
def _duckdb() -> Iterator[Engine]:
    import duckdb

    connection = duckdb.connect()
    connection.execute(create({}))
    connection.execute(insert())

    def rows(query: str) -> list[tuple[Any, ...]]:
        try:
            return connection.execute(query).fetchall()
        except duckdb.Error as error:
            raise Refused(type(error).__name__) from None

    try:
        yield Engine(f"DuckDB {duckdb.__version__}", rows)
    finally:
        connection.close()


@contextmanager
def _postgres() -> Iterator[Engine]:
    """Start a server of its own, on a socket in a temporary folder, as an unprivileged user."""
    programs = next((folder for folder in POSTGRES if (folder / "initdb").exists()), None)
    if programs is None:
        raise Missing("PostgreSQL is not installed")
    server = _Server(programs)
    try:
        server.start()
        server.ask(create({"DOUBLE": "DOUBLE PRECISION"}))
        server.ask(insert())
        yield Engine(f"PostgreSQL {server.ask('SHOW server_version').split()[0]}", server.rows)
    finally:
        server.end()


class _Server:
    """A server of PostgreSQL, and its folder."""

    def __init__(self, programs: Path) -> None:
        self._programs, self._folder = programs, Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
        self._user = "nobody" if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(self._folder, self._user)

    def start(self) -> None:
        """Make a database, and start the server.  Raises Missing."""
        data, folder = self._folder / "data", self._folder
        making = "-U nobody -A trust -E UTF8 --locale C.UTF-8"
        self._run("initdb", "-D", data, *making.split())
        settings = {
            "listen_addresses": "''",
            "unix_socket_directories": folder,
            "timezone": "UTC",
            "fsync": "off",
            "intervalstyle": "iso_8601",
        }
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        started = self._run(
            "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start"
        )
        if started.returncode:
            said = f"{started.stdout[-200:]}{started.stderr[-200:]}"
            raise Missing(f"PostgreSQL does not start: {said}")

    def ask(self, query: str) -> str:
        """Return what a query prints.  Raises Refused."""
        options = "-U nobody -d postgres -X -q -A -t -v ON_ERROR_STOP=1 -v VERBOSITY=verbose"
        done = self._run("psql", "-h", self._folder, *options.split(), given=query)
        if done.returncode:
            errors = re.findall(r"ERROR:\s+\w+: (.*)", done.stderr)
            raise Refused((errors or [done.stderr.strip()])[0][:80])
        return done.stdout

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return rows as their JSON has them."""
        lines = self.ask(f"SELECT row_to_json(r) FROM ({query}) r").splitlines()
        return [tuple(json.loads(line, parse_float=Decimal).values()) for line in lines]

    def end(self) -> None:
        """Stop the server, if it runs, and remove its folder."""
        self._run("pg_ctl", "-D", self._folder / "data", "-m", "immediate", "stop")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(
        self, program: str, *words: str | Path, given: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        settings = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TZ": "UTC", "PGTZ": "UTC"}
        return subprocess.run(
            [self._programs / program, *map(str, words)],
            user=self._user,
            input=given,
            text=True,
            capture_output=True,
            cwd=self._folder,
            env=settings,
            timeout=60,
        )


def answers(rows: Callable[[str], list[tuple[Any, ...]]], queries: Sequence[str]) -> list[Any]:
    """Return the plain rows of each query, or the kind of its error as {"error": kind}."""
    found: list[Any] = []
    for query in queries:
        try:
            found.append([[plain(value) for value in row] for row in rows(query)])
        except Refused as error:
            found.append({"error": str(error)})
    return found
