"""Rows that may be equal: a relation that stores each once, with how often it occurs, read as that many rows.

    stored    (a: 1, rows(): 2), (a: 3, rows(): 1)          read    (1,), (1,), (3,)

The last column, which has a name that nothing else has, is the multiplicity.  Tables of SQL without a key and views of
rows that no key tells apart are such relations; rules read them as functions, `v[a] = n`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from pagestore.host import Frames, Relation, printable

if TYPE_CHECKING:
    import pyarrow as pa

MULTIPLICITY = "rows()"  # the name of the column that says how often a row occurs


def is_bag(relation: Relation) -> bool:
    """Return whether a relation stores how often each of its rows occurs."""
    schema = relation.schema
    return schema.columns[-1].name == MULTIPLICITY and MULTIPLICITY not in schema.key


class Bag(Frames):
    """The rows of a relation, each as often as it occurs; `relation` is the relation as it is stored."""

    def __init__(self, relation: Relation) -> None:
        self.relation, self.name = relation, relation.name

    def __len__(self) -> int:
        """Return the number of rows. O(distinct rows)."""
        return int(self.relation.to_arrow().column(MULTIPLICITY).to_numpy().sum())

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for row in self.relation:
            yield from [row[:-1]] * row[-1]

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table. O(rows)."""
        return repeated(self.relation.to_arrow())

    def to_numpy(self) -> dict[str, np.ndarray]:
        """Return all rows as one array per column, by name."""
        table = self.to_arrow()
        return {name: table[name].to_numpy() for name in table.column_names}

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return printable(f"<bag {self.name}: {len(self.relation)} different rows>")


def repeated(table: pa.Table) -> pa.Table:
    """Return rows as often as their last column says, without it."""
    counts = table.column(table.num_columns - 1).to_numpy()
    return table.select(list(range(table.num_columns - 1))).take(np.repeat(np.arange(table.num_rows), counts))
