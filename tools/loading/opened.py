"""An opened file of any format: its schema and its rows in batches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pagestore.trees.reading import LARGE_WORDS, batch_rows

from .problems import DatasetError

BATCH_ROWS = 1 << 20  # many, since each distinct text of a batch is looked up once
BLOCK = 16 << 20  # bytes of text that are parsed at once
Types = Mapping[str, pa.DataType]
Place = tuple[str, ...]


class Contradicted(Exception):
    """Rows of a file do not fit what its first rows let one suppose."""


class Wanted(NamedTuple):
    """The types that columns of a file shall have, by the file's names for them.

    Those that are `asked` for with --cast also take texts that are written so. Unless `thorough`, types that nobody
    wants are supposed after the first block, and later ones may contradict them.
    """

    types: Types = MappingProxyType({})
    asked: frozenset[str] = frozenset()
    thorough: bool = True


class Opened(NamedTuple):
    """A file: its schema, `batches(columns)` that yields its rows, and `share()`, the part of it that was read.

    A file that is `untyped` has texts where its schema has other types: they are taken as these. `lacks` says
    which columns, by their places in structs, may have nulls, where a footer tells. `line_of(row)` is the line
    of the file in which a row begins, counted from 1, of a file that has lines.
    """

    schema: pa.Schema
    batches: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
    share: Callable[[], float]
    untyped: bool = False
    lacks: Callable[[Sequence[Place]], set[Place]] | None = None
    line_of: Callable[[int], int] | None = None

    def lacking(self, places: Sequence[Place]) -> set[Place]:
        """Which columns may have nulls; of a file without such a footer its rows are read."""
        if self.lacks is not None:
            return self.lacks(places)
        found, left = set[Place](), {*places}
        with suppress(DatasetError):  # it is told when the rows are loaded
            for batch in self.batches([*dict.fromkeys(place[0] for place in places)]) if places else ():
                found |= {place for place in left if value_at(batch, place).null_count}
                left -= found
            return found
        return {*places}


def value_at(batch: pa.RecordBatch, place: Place) -> pa.Array:
    """The column that has a place in structs, from the outermost."""
    array = batch.column(place[0])
    return pc.struct_field(array, list(place[1:])) if len(place) > 1 else array


def cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in parts of no more rows than are handled at once."""
    rows = rows_of(batch.num_columns)
    for at in range(0, len(batch), rows):
        yield batch.slice(at, rows)


def rows_of(columns: int) -> int:
    """How many rows of so many columns are a batch."""
    return batch_rows(columns, BATCH_ROWS, LARGE_WORDS)


def is_nested(kind: pa.DataType) -> bool:
    """Whether a column holds lists or maps."""
    tests = pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_map
    return any(test(kind) for test in tests)


def leaves_of(array: Any) -> Iterator[pa.Array]:
    """The plain values within structs and lists of an array."""
    if pa.types.is_struct(array.type):
        for place in range(array.type.num_fields):
            yield from leaves_of(array.field(place))
    elif pa.types.is_list(array.type):
        yield from leaves_of(array.values)
    else:
        yield array


def with_leaves(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """A type whose plain types, within structs and lists, are changed."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, with_leaves(field.type, change)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(with_leaves(kind.value_type, change))
    return change(kind)
