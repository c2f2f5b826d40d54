"""An opened file of any format: its schema and its rows in batches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pagestore.tooling import LARGE_WORDS, batch_rows

from .casts import DatasetError, Record

BATCH_ROWS = 1 << 20  # many, since each distinct text of a batch is looked up once
BLOCK = 16 << 20  # bytes of text that are parsed at once
Types = Mapping[str, pa.DataType]
Place = tuple[str, ...]


class Contradicted(Exception):
    """Rows of a file do not fit the types guessed from its first rows."""


class Wanted(NamedTuple):
    """The types that columns of a file must have, by the file's names for them.

    Those `requested` with --cast are also converted from texts. Unless `thorough`, other types are
    guessed from the first block, and later blocks may contradict them.
    """

    types: Types = MappingProxyType({})
    requested: frozenset[str] = frozenset()
    thorough: bool = True


class Opened(NamedTuple):
    """A file: its schema, `batches(columns)` that yields its rows, and `share()`, the fraction of
    it that was read.

    If `untyped`, its values are texts that are to be converted to the types in its schema. `lacks`,
    if a footer has this, returns which columns, by their paths in structs, may have nulls.
    `records()`, if the file has lines, yields its rows as they are written. `hints` are notes for
    the user on how it could be read better. `refused` are columns that no relation holds, each with
    what it is and a remedy.
    """

    schema: pa.Schema
    batches: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
    share: Callable[[], float]
    untyped: bool = False
    lacks: Callable[[Sequence[Place]], set[Place]] | None = None
    records: Callable[[], Iterator[Record]] | None = None
    hints: tuple[str, ...] = ()
    refused: Mapping[str, tuple[str, str]] = MappingProxyType({})

    @property
    def line_of(self) -> Callable[[int], int] | None:
        """Gives the line in which a row begins, from 1; None if the file has no lines."""
        records = self.records
        if records is None:
            return None
        return lambda row: next(
            islice((record.line for record in records() if not record.fault), row, None), 1
        )

    def lacking(self, places: Sequence[Place]) -> set[Place]:
        """Return which columns may have nulls; without `lacks`, read the rows."""
        if self.lacks is not None:
            return self.lacks(places)
        absent, left = set[Place](), {*places}
        with suppress(DatasetError):  # reported when the rows are loaded
            for batch in (
                self.batches([*dict.fromkeys(place[0] for place in places)]) if places else ()
            ):
                absent |= {place for place in left if value_at(batch, place).null_count}
                left -= absent
            return absent
        return {*places}


def value_at(batch: pa.RecordBatch, place: Place) -> pa.Array:
    """Return the column at a path in structs, from the outermost."""
    array = batch.column(place[0])
    return pc.struct_field(array, list(place[1:])) if len(place) > 1 else array


def cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in slices of at most `rows_of` rows."""
    rows = rows_of(batch.num_columns)
    for at in range(0, len(batch), rows):
        yield batch.slice(at, rows)


def rows_of(columns: int) -> int:
    """Return how many rows of `columns` columns are a batch."""
    return batch_rows(columns, BATCH_ROWS, LARGE_WORDS)


def is_nested(kind: pa.DataType) -> bool:
    """Return whether a column holds lists or maps."""
    tests = pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_map
    return any(test(kind) for test in tests)


def leaves_of(array: Any) -> Iterator[pa.Array]:
    """Yield the arrays of plain values within structs and lists of an array."""
    if pa.types.is_struct(array.type):
        for place in range(array.type.num_fields):
            yield from leaves_of(array.field(place))
    elif pa.types.is_list(array.type):
        yield from leaves_of(array.values)
    else:
        yield array


def with_leaves(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Apply `change` to the plain types within structs and lists of a type."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, with_leaves(field.type, change)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(with_leaves(kind.value_type, change))
    return change(kind)
