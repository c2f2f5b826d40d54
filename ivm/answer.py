"""The answer to a query: a table in memory."""

from __future__ import annotations

from collections.abc import Iterator
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

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table; O(1)."""
        return self._table

    def _repr_html_(self) -> str:
        head = [(field.name, str(field.type)) for field in self._table.schema]
        shown = Answer(self._table.slice(0, ROWS_SHOWN))
        return html_table("answer", head, shown, len(self) - len(shown))

    def __repr__(self) -> str:
        return printable(f"<answer ({', '.join(self._table.column_names)}), {len(self)} rows>")
