"""The answer to a query: a table in memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

from pagestore.host import ROWS_SHOWN, Frames, html_table, printable


class Answer(Frames):
    """Rows in key order: iterable as tuples, and readable by any library that reads Arrow streams.

    `seconds` is how long the evaluation took.
    """

    def __init__(self, table: pa.Table, seconds: float = 0.0) -> None:
        self._table, self.seconds = table, seconds

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for batch in self._table.to_batches():
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the columns; O(1)."""
        return self._table.schema

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table; O(1)."""
        return self._table

    def _repr_html_(self) -> str:
        head = [(field.name, str(field.type)) for field in self._table.schema]
        shown = Answer(self._table.slice(0, ROWS_SHOWN))
        return html_table("answer", head, shown, len(self) - len(shown))

    def __repr__(self) -> str:
        return printable(f"<answer ({', '.join(self._table.column_names)}), {len(self)} rows>")


class ListedAnswer(Answer):
    """An answer whose rows are a list, of which a table is made if somebody asks for it."""

    def __init__(self, rows: list[tuple[Any, ...]], schema: pa.Schema) -> None:
        self._rows, self._schema, self.seconds = rows, schema, 0.0

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._rows)

    @property
    def schema(self) -> pa.Schema:
        """The names and types of the columns; O(1)."""
        return self._schema

    @cached_property
    def _table(self) -> pa.Table:
        import pyarrow as pa

        columns = zip(*self._rows, strict=True) if self._rows else [[]] * len(self._schema)
        arrays = [
            pa.array(values, field.type)
            for values, field in zip(columns, self._schema, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=self._schema)
