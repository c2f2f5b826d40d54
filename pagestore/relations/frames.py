"""Rows in Arrow as frames of other libraries, where these are installed, and as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib import import_module
from typing import Any

import numpy as np

from pagestore.printable import printable
from pagestore.runtime.lazy import pyarrow as pa

ROWS_SHOWN = 10  # in HTML


class Frames:
    """An object whose rows are available as an Arrow table (`to_arrow`), and so in other forms.

    Names and types are kept: a text is a text, a decimal a decimal.
    """

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table."""
        raise NotImplementedError

    def to_numpy(self) -> dict[str, np.ndarray]:
        """Return all rows as one array per column, by name."""
        table = self.to_arrow()
        return {name: table[name].to_numpy() for name in table.column_names}

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Stream to any program that reads Arrow: pandas, polars, DuckDB, pyarrow."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """Return all rows as a pandas DataFrame. O(rows). Raises ImportError if pandas is not
        installed.

        Integer columns with nulls become pandas' Int64 or UInt64.

        >>> import pagestore
        >>> with pagestore.open(":memory:") as store, store.transaction() as txn:
        ...     square = txn.create("square", "x: int64, y: int64", key="x")
        ...     square.insert([(x, x * x) for x in range(3)])
        ...     square.to_pandas()["y"].tolist()
        [0, 1, 4]
        """
        pandas, table = _library("pandas"), self.to_arrow()
        # else a null makes all floats
        whole = {pa.int64(): pandas.Int64Dtype(), pa.uint64(): pandas.UInt64Dtype()}
        lacking = {column.type for column in table.columns if column.null_count}
        return table.to_pandas(
            types_mapper=lambda kind: whole.get(kind) if kind in lacking else None
        )

    def to_polars(self) -> Any:
        """Return all rows as a polars DataFrame. O(rows). Raises ImportError without polars."""
        return _library("polars").from_arrow(self.to_arrow())

    def to_duckdb(self, connection: Any = None) -> Any:
        """Return all rows as a DuckDB relation, of a connection or of the default one. O(rows).

        Raises ImportError if DuckDB is not installed. DuckDB also reads the object itself by the
        name of its variable: `duckdb.sql("from rel")`.
        """
        return _library("duckdb").from_arrow(self.to_arrow(), connection=connection)


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise ImportError(
            f"{name} is not installed: pip install {name}, or take the rows with to_arrow()"
        ) from None


def html_table(
    caption: str,
    head: Sequence[tuple[str, str]],
    rows: Iterable[Sequence[Any]],
    more: int = 0,
    things: str = "rows",
) -> str:
    """Return an HTML table; `head` has a name and a note for each column, `more` is the number of
    rows not shown.

    >>> html_table("r", [("x", "")], [(1,)], 2)
    '<table><caption>r</caption><tr><th>x</th></tr><tr><td>1</td></tr></table>... and 2 more rows'
    """
    notes = {name: f"<br><small>{_safe(note)}</small>" if note else "" for name, note in head}
    names = "".join(f"<th>{_safe(name)}{note}</th>" for name, note in notes.items())
    body = "".join(
        "<tr>" + "".join(f"<td>{_safe(str(value))}</td>" for value in row) + "</tr>" for row in rows
    )
    left = f"... and {more:,} more {things}" if more > 0 else ""
    return f"<table><caption>{_safe(caption)}</caption><tr>{names}</tr>{body}</table>{left}"


def _safe(value: object) -> str:
    """Return a value as text of a page, without markup, control or direction characters."""
    return escape(printable(str(value)))
