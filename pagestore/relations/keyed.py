"""A range of a relation with a dict's methods: keys and values, forward and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from pagestore.relations.cursor import Cursor
from pagestore.relations.range import Range
from pagestore.runtime.lazy import pyarrow as pa


class Keyed(Range):
    """Keys and values of a range.

    A key or value of one column is that value, of several columns a tuple, of none ().
    """

    def keys(self) -> Iterator[Any]:
        """Yield the keys in order, lazily.

        >>> import pagestore
        >>> with pagestore.open(":memory:") as store, store.transaction() as txn:
        ...     price = txn.create("price", "item: string, year: int64, p: int64", key="item")
        ...     price["tea"] = 2013, 4
        ...     list(price.keys()), list(price.values()), dict(price.items()), price["tea"]
        (['tea'], [(2013, 4)], {'tea': (2013, 4)}, (2013, 4))
        """
        return (key for key, _ in self.items())

    def values(self) -> Iterator[Any]:
        """Yield the values, in the order of the keys, lazily."""
        return (value for _, value in self.items())

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Yield (key, value) of each record in key order, lazily, read in batches."""
        for batch in self.batches():
            yield from self._items_of(batch)

    def _items_of(self, batch: pa.RecordBatch) -> Iterator[tuple[Any, Any]]:
        names, key = self.schema.names, self.schema.key
        columns = {name: column.to_pylist() for name, column in zip(names, batch.columns, strict=True)}
        values = [column.name for column in self.schema.stored[len(key) :]]
        return zip(_joined(columns, key, len(batch)), _joined(columns, values, len(batch)), strict=True)

    def cursor(self) -> Cursor:
        """Return a cursor over the range, which moves forward and back."""
        return Cursor(self)

    def mapping(self) -> RelationMapping:
        """Return the range as a Mapping from keys to values; for a relation in a transaction, as a MutableMapping.

        A relation itself iterates over its records, a dict over its keys: use this where a dict is expected.

        >>> import pagestore
        >>> with pagestore.open(":memory:") as store, store.transaction() as txn:
        ...     square = txn.create("square", "x: int64, y: int64", key="x").mapping()
        ...     square.update({x: x * x for x in range(4)})
        ...     square.pop(3), list(square), square == {0: 0, 1: 1, 2: 4}
        (9, [0, 1, 2], True)
        """
        return RelationMapping(self)


class RelationMapping(Mapping[Any, Any]):
    """A relation as a mapping from keys to values."""

    def __init__(self, relation: Any) -> None:
        self.relation = relation

    def __getitem__(self, key: Any) -> Any:
        return self.relation[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.relation.keys())

    def __len__(self) -> int:
        return len(self.relation)

    def __repr__(self) -> str:
        return f"<mapping of {self.relation!r}>"


class WritableMapping(RelationMapping, MutableMapping[Any, Any]):
    """A relation of a transaction as a mapping from keys to values."""

    def __setitem__(self, key: Any, value: Any) -> None:
        self.relation[key] = value

    def __delitem__(self, key: Any) -> None:
        del self.relation[key]

    def clear(self) -> None:
        """Remove all records. O(pages)."""
        self.relation.clear()


def _joined(columns: Mapping[str, list[Any]], names: Any, rows: int) -> Any:
    """Return one value a row: that of one column, or a tuple of several."""
    if len(names) == 1:
        return columns[names[0]]
    return zip(*(columns[name] for name in names), strict=True) if names else [()] * rows
