"""Expressions over edge values, in the product and in another engine: of columns and of constants.

An outcome is a value in a form in which equal values are equal, `None`, `ERROR` where there is no
value, or `REFUSED` with what the product says of an expression that it does not evaluate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

import duckdb

import ivm
from tests.support.sql.edges import NOT_STORED, SQL, Case, typed

ERROR = "an error"
NO_VALUE = (
    "has no value",
    "is not a value of type",
    ", beyond ",
    "has more than 38 digits",
    "digits before the point",
)
NOT_SQL = "this is not evaluated: "  # what the product says in the words of rules


class Difference(NamedTuple):
    """A place in which the product has another outcome."""

    call: str
    arguments: tuple[str, ...]
    how: str  # constant or column
    expected: Any
    found: Any

    def __str__(self) -> str:
        return f"{self.how} {self.call} of {', '.join(self.arguments)[:120]}: {self.expected!r}, not {self.found!r}"


class Engine(Protocol):
    """What the product is compared with."""

    dialect: str
    tried: str  # a form of expressions that gives null for an error

    def create(self, columns: Sequence[tuple[str, str]], rows: Sequence[tuple[str, ...]]) -> None:
        """Make the table `edge` with columns and literals of these types, and a number `id` of
        each row from 0.
        """

    def column(self, expression: str, where: str = "") -> list[Any]:
        """Return the values of an expression over the rows, by id.  Raises an exception for an
        error.
        """

    def constants(self, expressions: Sequence[str]) -> list[Any]:
        """Return the values of expressions without columns.  Raises an exception for an error."""


def plain(value: Any) -> Any:
    """Return a value in a form in which equal values of two engines are equal, and others are
    not.
    """
    if value is None or isinstance(value, bool | str | bytes):
        return value
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value + 0.0:.12g}")
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else value
    # a map of Arrow
    if isinstance(value, list) and value and all(isinstance(one, tuple) for one in value):
        return {key: plain(one) for key, one in value}
    if isinstance(value, list | tuple) and type(value).__name__ != "MonthDayNano":
        return [plain(one) for one in value]
    if isinstance(value, dict) and "element1" in value:  # fields without names
        return [plain(one) for one in value.values()]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    if type(value).__name__ == "MonthDayNano":
        return timedelta(days=value[0] * 30 + value[1], microseconds=value[2] // 1000)
    return value if isinstance(value, int | date | datetime | timedelta) else str(value)


class DuckDB:
    """DuckDB, in UTC."""

    dialect, tried = "duckdb", "TRY({})"

    def __init__(self) -> None:
        self.connection = duckdb.connect(config={"threads": 1})  # see oracle.py
        self.connection.execute("SET TimeZone = 'UTC'")

    def create(self, columns: Sequence[tuple[str, str]], rows: Sequence[tuple[str, ...]]) -> None:
        """Make the table `edge`."""
        named = ", ".join(f"{name} {SQL.get(type_, type_)}" for name, type_ in columns)
        self.connection.execute(f"CREATE OR REPLACE TABLE edge (id INTEGER PRIMARY KEY, {named})")
        for number, row in enumerate(rows):
            self.connection.execute(f"INSERT INTO edge VALUES ({number}, {', '.join(row)})")

    def column(self, expression: str, where: str = "") -> list[Any]:
        """Return the values of an expression over the rows."""
        found = self.connection.execute(
            f"SELECT {expression} AS v FROM edge {where} ORDER BY id"
        ).fetchall()
        return [plain(value) for (value,) in found]

    def constants(self, expressions: Sequence[str]) -> list[Any]:
        """Return the values of expressions without columns."""
        found = self.connection.execute(
            f"SELECT {', '.join(f'{e} AS c{n}' for n, e in enumerate(expressions))}"
        )
        return [plain(value) for value in found.fetchall()[0]]


class Product:
    """A workspace, whose expressions are in a dialect."""

    def __init__(self, workspace: ivm.Workspace, dialect: str = "duckdb") -> None:
        self.workspace, self.dialect, self.tried = workspace, dialect, "TRY({})"
        self._made = False

    def create(self, columns: Sequence[tuple[str, str]], rows: Sequence[tuple[str, ...]]) -> None:
        """Make the table `edge`."""
        if self._made:
            self.workspace.sql("DROP TABLE edge")
        self._made = True
        named = ", ".join(f"{name} {SQL.get(type_, type_)}" for name, type_ in columns)
        self.workspace.sql(f"CREATE TABLE edge (id INTEGER PRIMARY KEY, {named})")
        given = ", ".join(f"({number}, {', '.join(row)})" for number, row in enumerate(rows))
        self.workspace.sql(f"INSERT INTO edge VALUES {given}")

    def column(self, expression: str, where: str = "") -> list[Any]:
        """Return the values of an expression over the rows."""
        return [
            row[0] for row in self._rows(f"SELECT {expression} AS v FROM edge {where} ORDER BY id")
        ]

    def constants(self, expressions: Sequence[str]) -> list[Any]:
        """Return the values of expressions without columns."""
        return self._rows(f"SELECT {', '.join(f'{e} AS c{n}' for n, e in enumerate(expressions))}")[
            0
        ]

    def _rows(self, query: str) -> list[list[Any]]:
        answer = self.workspace.sql(query, dialect=self.dialect)
        assert answer is not None
        columns = [
            [plain(value) for value in column.to_pylist()] for column in answer.to_arrow().columns
        ]
        return [list(row) for row in zip(*columns, strict=True)]


def differences(case: Case, engine: Engine, product: Product, most: int) -> Iterator[Difference]:
    """Yield where the product has another value than an engine, for a form over columns and
    constants.

    A refusal of the whole form, which names it, is one difference whose outcome begins with
    "refused".
    """
    rows = case.rows(most)
    names = [f"x{n}" for n in range(len(case.types))]
    columns = list(zip(names, case.types, strict=True))
    if columns:
        kept = [row for row in rows if not NOT_STORED & {*row}]
        for side in (engine, product):
            side.create(columns, kept)
        yield from _compared(case, kept, case.call(*names), engine, product, "column")
    yield from _compared(case, rows, None, engine, product, "constant")


def _compared(
    case: Case,
    rows: list[tuple[str, ...]],
    column: str | None,
    engine: Engine,
    product: Product,
    how: str,
) -> Iterator[Difference]:
    expected = _outcomes(case, rows, column, engine, lambda _: ERROR)
    # a form that the engine refuses: so must the product, or have no value anywhere
    if expected is None:
        return
    found = _outcomes(case, rows, column, product, _said)
    for row, want, have in zip(rows, expected, found or [], strict=True):
        if (want != have or isinstance(want, bool) != isinstance(have, bool)) and not is_named(
            want, have
        ):
            yield Difference(case.form, row, how, want, have)


def is_named(want: Any, have: Any) -> bool:
    """Return whether docs/sql.md names the difference of two outcomes, or the product refuses the
    form by its name.

    The docs name what DuckDB has and is not here: moments before the year 1 and after 9999, floats
    that are no number, as the logarithm of a negative one, the least BIGINT where a null may be,
    UBIGINT and decimals beyond a word; the digits of a float after its first 17; and that
    arithmetic of INTEGER has 64 bits.
    """
    if isinstance(have, str) and have.startswith("refused"):
        return NOT_SQL not in have
    if isinstance(want, str) and isinstance(have, str) and len(want) == len(have) > 100:
        return want[:17] == have[:17]
    if want == "NaN" and have is None:  # under TRY
        return True
    if have == ERROR:
        large = isinstance(want, int | Decimal) and abs(want) >= 2**63 // 10
        return (
            want == "NaN"
            or large
            or (isinstance(want, str) and ("(BC)" in want or re.match(r"\d{5,}-", want)))
        )
    if want == ERROR:
        return isinstance(have, int) and 2**31 <= abs(have) < 2**63
    return have is None and isinstance(want, int) and (want == -(2**63) or want >= 2**63)


def _said(error: Exception) -> str:
    """Return what the product says of an error: that there is no value, or why it refuses the
    expression.
    """
    if not isinstance(error, ivm.IvmError | ivm.errors.RuleError):
        return f"raw {type(error).__name__}: {error}"
    text = str(error).replace("\n", " | ")
    return ERROR if any(one in text for one in NO_VALUE) else f"refused: {text[:200]}"


def _outcomes(
    case: Case,
    rows: list[tuple[str, ...]],
    column: str | None,
    side: Any,
    said: Callable[[Exception], str],
) -> list[Any] | None:
    """Return the outcome of an expression in each row; all at once where none fails."""
    calls = [
        column or case.call(*(typed(v, t) for v, t in zip(row, case.types, strict=True)))
        for row in rows
    ]

    def of(places: list[int], wrapped: bool) -> list[Any]:
        form = side.tried if wrapped else "{}"
        if column:
            where = f"WHERE id IN ({', '.join(map(str, places))})"
            return list(side.column(form.format(column), where))
        return list(side.constants([form.format(calls[place]) for place in places]))

    def each(places: list[int]) -> list[Any]:
        """Halve until those that fail are alone."""
        try:
            return of(places, False)
        except Exception as error:
            if len(places) == 1:
                return [said(error)]
            if (text := said(error)).startswith("refused") and column:
                return [text] * len(places)
            middle = len(places) // 2
            return each(places[:middle]) + each(places[middle:])

    return each(list(range(len(rows))))
