"""Views of SQL whose columns are too many for one relation, read as one; and rows repeated by a multiplicity.

    v:part1  (key: 1, a: 2, ...)      v:part2  (key: 1, q: 7, ...)          read    (a: 2, ..., q: 7, ...)

If rows may be equal, the last column of each part, which has a name that nothing else has, is the multiplicity.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pagestore.host import Frames, Relation, printable

if TYPE_CHECKING:
    import pyarrow as pa

CATALOG = "ivm.sql"  # the property of the store in which SQL lists its views
MULTIPLICITY = "rows()"  # the name of the column that says how often a row occurs


class Wide(Frames):
    """The rows of a view whose columns are in several relations, after the same columns that identify a row."""

    def __init__(self, name: str, relations: list[Relation], keys: int, weighs: bool) -> None:
        self.name, self.relations, self.keys, self.weighs = name, relations, keys, weighs

    def __len__(self) -> int:
        first = self.relations[0]
        return int(first.to_arrow().column(MULTIPLICITY).to_numpy().sum()) if self.weighs else len(first)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        yield from zip(*(column.to_pylist() for column in self.to_arrow().columns), strict=True)

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table. O(rows)."""
        found = side_by_side([relation.to_arrow() for relation in self.relations], self.keys, self.weighs)
        return repeated(found) if self.weighs else found

    def __repr__(self) -> str:
        return printable(f"<view {self.name}: {len(self)} rows in {len(self.relations)} relations>")


def side_by_side(tables: list[pa.Table], keys: int, weighs: bool) -> pa.Table:
    """Return the columns of tables of the same rows, in the order of their first `keys` columns, without these.

    If they `weigh`, the last column of each is how often a row occurs, and so is that of the result.
    """
    last = [table.num_columns - weighs for table in tables]
    found = tables[0].select(list(range(keys, last[0])))
    for table, end in zip(tables[1:], last[1:], strict=True):
        for place in range(keys, end):
            found = found.append_column(table.field(place), table.column(place))
    return found.append_column(MULTIPLICITY, tables[0].column(last[0])) if weighs else found


def read(source: Any, name: str) -> Any:
    """Return a relation of a snapshot, or a view that is in several; None if there is none of that name."""
    if name in source:
        return source[name]
    saved = source.properties.get(CATALOG)
    kept = json.loads(saved).get("kept", {}).get(name, {}) if saved else {}
    if not kept.get("wide"):
        return None
    return Wide(name, [source[one] for one in kept["wide"]], kept["keys"], kept["weighs"])


def repeated(table: pa.Table) -> pa.Table:
    """Return rows as often as their last column says, without it."""
    counts = table.column(table.num_columns - 1).to_numpy()
    return table.select(list(range(table.num_columns - 1))).take(np.repeat(np.arange(table.num_rows), counts))
