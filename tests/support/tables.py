"""Random tables with nulls, and what three others make of the same edits: a dict, pandas and
DuckDB.

    KINDS    a column of each type of a store, with a way to draw values of it
    Truths   `change(mode, table)` edits all three, `rows()` is what they agree on

Rows are compared as plain values of Python (`plain`), since each library has its own nulls, moments
and durations.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from pagestore.values.types import Schema

KEY = "code", "id"
MICROSECOND = timedelta(microseconds=1)
KINDS: dict[str, tuple[str, Callable[[random.Random], object]]] = {
    "code": (
        "string",
        lambda chance: "".join(chance.choices("aß日,;\"'\n| ", k=chance.randrange(3))) + "x",
    ),
    "id": ("int64", lambda chance: chance.choice([0, -1, 7, 2**63 - 1, chance.randrange(-5, 5)])),
    "name": (
        "string?",
        lambda chance: "".join(chance.choices("aé,🙂\\\t", k=chance.randrange(1, 4))),
    ),
    "pieces": ("int64?", lambda chance: chance.randrange(-(2**63) + 1, 2**63)),
    "price": ("decimal(9,2)?", lambda chance: Decimal(chance.randrange(-(10**9) + 1, 10**9)) / 100),
    "Order Date": ("date?", lambda chance: date(1, 1, 1) + timedelta(chance.randrange(3_652_000))),
    "ok": ("bool?", lambda chance: chance.random() < 0.5),
    "score": ("float64?", lambda chance: chance.random() * 10.0 ** chance.randrange(-9, 9)),
    "many": (
        "uint64?",
        lambda chance: chance.choice([0, 2**64 - 2, 2**63, chance.randrange(2**64 - 1)]),
    ),
    "at": (
        "timestamp?",
        lambda chance: datetime(1970, 1, 1) + chance.randrange(-(10**15), 10**15) * MICROSECOND,
    ),
    "seen": (
        "timestamp(Europe/Berlin)?",
        lambda chance: datetime(1990, 1, 1, tzinfo=UTC) + chance.randrange(10**15) * MICROSECOND,
    ),
    "opens": (
        "time?",
        lambda chance: time(chance.randrange(24), chance.randrange(60), 5, chance.randrange(10**6)),
    ),
    "lag": ("duration?", lambda chance: chance.randrange(-(10**14), 10**14) * MICROSECOND),
    "raw": ("bytes?", lambda chance: bytes(chance.choices(range(256), k=chance.randrange(1, 5)))),
}

Row = tuple[Any, ...]


def random_schema(chance: random.Random) -> Schema:
    """The two key columns and some columns of values, in any order."""
    values = chance.sample([name for name in KINDS if name not in KEY], chance.randrange(1, 7))
    names = chance.sample([*KEY, *values], len(values) + 2)
    return Schema.parse(", ".join(f"{name}: {KINDS[name][0]}" for name in names), KEY)


def random_rows(chance: random.Random, schema: Schema, count: int) -> list[Row]:
    """Rows of different keys."""
    made = {}
    for _ in range(count):
        row = {name: KINDS[name][1](chance) for name in schema.names}
        for name in schema.names:
            if name not in KEY and chance.random() < 0.2:
                row[name] = None
        made[row["code"], row["id"]] = tuple(row.values())
    return [*made.values()]


def table_of(rows: Iterable[Row], schema: Schema) -> pa.Table:
    """Rows as an Arrow table of a schema's columns."""
    columns = [*zip(*rows, strict=True)] or [()] * len(schema.names)
    arrays = [
        pa.array(column, kind) for column, kind in zip(columns, schema.arrow.types, strict=True)
    ]
    return pa.table(arrays, schema.arrow)


def plain(value: Any) -> Any:
    """A value of any library as Python has it, moments in UTC; None for any of their nulls."""
    kind = type(value).__name__
    if value is None or kind in ("NAType", "NaTType") or value != value:
        return None
    if kind == "Timestamp":
        value = value.to_pydatetime(warn=False)
    if kind == "Timedelta":
        value = value.value // 1000 * MICROSECOND
    if kind == "MonthDayNano":
        assert not value.months
        value = timedelta(value.days, microseconds=value.nanoseconds // 1000)
    if isinstance(value, datetime) and value.tzinfo:
        return value.astimezone(UTC)
    return value.item() if hasattr(value, "item") else value


def plain_rows(rows: Iterable[Iterable[Any]]) -> list[Row]:
    """Rows as plain values, in order of their first columns; a null comes before all others."""
    made = [tuple(map(plain, row)) for row in rows]
    return sorted(
        made, key=lambda row: [(value is not None, str(type(value)), value) for value in row]
    )


def rows_of(table: pa.Table) -> list[Row]:
    """The rows of an Arrow table as plain values, in order."""
    return (
        plain_rows(zip(*(column.to_pylist() for column in table.columns), strict=True))
        if table.num_rows
        else []
    )


class Truths:
    """A dict that gets edits, and a frame of pandas and a table of DuckDB, where these are
    installed.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.places = [schema.names.index(name) for name in KEY]
        self.held: dict[Row, Row] = {}
        self.others = [other(schema) for other in (Pandas, DuckDB) if other.is_there()]

    def key(self, row: Row) -> Row:
        """The key of a row."""
        return tuple(row[place] for place in self.places)

    def change(self, mode: str, rows: list[Row], on: Sequence[str] = ()) -> None:
        """Edit: `insert` keeps what is there, `set` replaces it, `replace` puts all else away;
        `delete` takes what has the values of the rows in the columns `on`.
        """
        given, places = (
            {self.key(row): row for row in rows},
            [self.schema.names.index(name) for name in on],
        )
        wanted = {tuple(row[place] for place in places) for row in rows}
        if mode == "delete":
            self.held = {
                k: row
                for k, row in self.held.items()
                if tuple(row[p] for p in places) not in wanted
            }
        else:
            before = {} if mode == "replace" else self.held
            self.held = {**given, **before} if mode == "insert" else {**before, **given}
        for other in self.others:
            other.change(mode, rows, on)

    def rows(self) -> list[Row]:
        """All rows, of which all are sure."""
        expected = plain_rows(self.held.values())
        for other in self.others:
            assert other.rows() == expected, type(other).__name__
        return expected


class Pandas:
    """A frame of objects."""

    def __init__(self, schema: Schema) -> None:
        import pandas

        self.names = [*schema.names]
        self.frame = pandas.DataFrame([], columns=self.names, dtype=object)

    @staticmethod
    def is_there() -> bool:
        return is_installed("pandas")

    def change(self, mode: str, rows: list[Row], on: Sequence[str]) -> None:
        """As Truths.change."""
        import pandas

        given = pandas.DataFrame(rows, columns=self.names, dtype=object)
        if mode == "delete":
            on = [*on]
            marks = [
                frame[on].map(lambda value: repr(plain(value))).agg("|".join, axis=1)
                for frame in (self.frame, given)
                if len(frame)
            ]
            if len(marks) == 2:
                self.frame = self.frame[~marks[0].isin(marks[1])]
            return
        before = self.frame.iloc[:0] if mode == "replace" else self.frame
        both = pandas.concat([before.astype(object), given.astype(object)])
        self.frame = both.drop_duplicates([*KEY], keep="first" if mode == "insert" else "last")

    def rows(self) -> list[Row]:
        """All rows as plain values."""
        return plain_rows(self.frame.itertuples(index=False))


class DuckDB:
    """A table with a primary key."""

    def __init__(self, schema: Schema) -> None:
        import duckdb

        self.schema, self.connection = schema, duckdb.connect()
        given = table_of([], schema)  # noqa: F841 - DuckDB reads it by its name
        self.connection.sql("create table held as from given")
        self.connection.sql("alter table held add primary key (code, id)")

    @staticmethod
    def is_there() -> bool:
        return is_installed("duckdb")

    def change(self, mode: str, rows: list[Row], on: Sequence[str]) -> None:
        """As Truths.change."""
        given = table_of(rows, self.schema)  # noqa: F841 - DuckDB reads it by its name
        run = self.connection.execute
        if mode == "replace":
            run("delete from held")
        if mode == "delete":
            same = " and ".join(f'held."{name}" is not distinct from given."{name}"' for name in on)
            run(f"delete from held where exists (from given where {same})")
        else:
            run(f"insert or {'ignore' if mode == 'insert' else 'replace'} into held from given")

    def rows(self) -> list[Row]:
        """All rows as plain values."""
        return rows_of(self.connection.sql("from held").to_arrow_table())


def is_installed(name: str) -> bool:
    """Whether a library can be imported."""
    try:
        __import__(name)
    except ImportError:
        return False
    return True
