"""A workspace and a DuckDB that run the same statements, and a comparison of their rows."""

from __future__ import annotations

import math
from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import duckdb

import ivm
from ivm.names import kept_views


class Differs(AssertionError):
    """A view's rows are not those of DuckDB."""


def plain(value: Any) -> Any:
    """Return a value in a form in which equal values of both sides are equal."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    if isinstance(value, dict):
        return tuple((key, plain(one)) for key, one in value.items())
    if isinstance(value, int | Decimal):
        return value if Decimal(value) != int(value) else int(value)
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        if abs(value) < 1e-12:  # what rounding leaves of a difference of equal numbers
            return 0
        rounded = math.isfinite(value) and (value != int(value) or abs(value) > 2**53)
        return float(f"{value:.9g}") if rounded else value
    if isinstance(value, datetime | date):
        return str(value)
    return value


def rows_of(table: Any) -> Counter[tuple[Any, ...]]:
    """Return the rows of an Arrow table as a multiset."""
    columns = [column.to_pylist() for column in table.columns]
    return Counter(tuple(plain(v) for v in row) for row in zip(*columns, strict=True))


class Both:
    """A workspace and a DuckDB."""

    def __init__(self, workspace: ivm.Workspace) -> None:
        # with more threads some joins of DuckDB 2.0 do not end, now and then
        self.workspace, self.duck = workspace, duckdb.connect(config={"threads": 1})
        self.views: dict[str, str] = {}

    def run(self, text: str) -> None:
        """Run a statement on both."""
        self.duck.execute(text)
        self.workspace.sql(text)

    def ask(self, query: str) -> None:
        """Raise Differs unless the answers to a query are alike."""
        self._same(query, query, self.workspace.sql(query))

    def keep(self, name: str, query: str) -> None:
        """Keep a view."""
        self.workspace.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        self.views[name] = query

    def compare(self) -> None:
        """Raise Differs unless each view has the rows of its query."""
        with self.workspace.store.snapshot() as snap:
            keys = {name: kept["leading"] for name, kept in kept_views(snap).items()}
        for name, query in self.views.items():
            found = self.workspace[name]
            self._same(f"{name}: {query}", query, found)
            if key := keys[name]:  # 0 in a view of several relations
                self._apart(f"{name}: {query}", rows_of(found.to_arrow()), key)

    def _apart(self, shown: str, rows: Counter[tuple[Any, ...]], key: int) -> None:
        """Raise Differs if the first columns do not tell rows apart, equal ones aside."""
        often = Counter(row[:key] for row in rows)
        twice = {row for row, n in often.items() if n > 1}
        if twice:
            raise Differs(f"{shown}\n  more than one row has the key {twice}")

    def _same(self, shown: str, query: str, found: Any) -> None:
        expected, rows = (
            rows_of(self.duck.execute(query).to_arrow_table()),
            rows_of(found.to_arrow()),
        )
        if rows != expected:
            missing, more = expected - rows, rows - expected
            raise Differs(f"{shown}\n  missing {dict(missing)}\n  too many {dict(more)}")
