"""Load lists and maps within rows: their elements become rows of a second relation.

    orders        id  lines                                  orders:lines     id  position  sku  pieces
                  7   [{sku: tea, pieces: 2},       ──▶                       7   0         tea  2
                       {sku: cup, pieces: 1}]                                 7   1         cup  1

The key is that of the row and the element's position, from 0, or the map's key. An element that is
not a struct is in the column `value`; a name that the key has already is prefixed with the
column's, as in `lines:id`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pagestore.host import Column, Schema, Transaction
from pagestore.tooling import type_of_arrow

from .casts import Problems, cast_or_report, held_as, may_hold
from .dataset import DROP, KEEP, REFUSE, Dataset, flattened

POSITION, KEY, VALUE = "position", "key", "value"
FILL_IN = "fill them in, or drop them with --nulls drop"


@dataclass
class Elements:
    """The elements of one column of a dataset, as a dataset. `key` are the rows' keys."""

    rows_of: Dataset
    column: str
    kind: pa.DataType
    key: Sequence[str]

    def __post_init__(self) -> None:
        columns = {**self.rows_of.columns, self.column: self.kind}
        self.rows_of = replace(
            self.rows_of,
            columns=columns,
            nested={},
            problems=Problems(aside=self.rows_of.problems.aside),
        )
        self._fields = self._named_fields()
        self.held = pa.schema([])  # the columns of the existing relation of elements, if any
        self.given = self.left_out = 0  # elements yielded so far, and those dropped for a null
        self.required = {*self.key, POSITION, KEY}

    @property
    def columns(self) -> dict[str, pa.DataType]:
        """The columns of the elements' relation; None for types that no relation can hold."""
        place = {} if pa.types.is_map(self.kind) else {POSITION: pa.int64()}
        utc = self.rows_of.reading.utc
        known = {field.name: field.type for field in self.held}
        return {
            **{name: self.rows_of.columns[name] for name in self.key},
            **place,
            **{
                name: _column_for(held_as(kind, utc), known.get(name))
                for name, (_, kind) in self._fields.items()
            },
            **{name: self.rows_of.reading.casts[cast].arrow for name, cast in self.casts.items()},
        }

    @property
    def names_of_casts(self) -> dict[str, str]:
        """The names by which a cast names the columns of elements: `tags:value`, `lines:sku`."""
        return {
            name: f"{self.column}:{':'.join(path) or VALUE}"
            for name, (path, _) in self._fields.items()
        }

    @property
    def casts(self) -> dict[str, str]:
        """Those of `names_of_casts` that are cast."""
        return {
            name: cast
            for name, cast in self.names_of_casts.items()
            if cast in self.rows_of.reading.casts
        }

    @property
    def schema(self) -> Schema:
        """The schema of the elements' relation; if nulls are kept, its columns are nullable
        where the type is.
        """
        keep = self.rows_of.reading.nulls == KEEP
        columns = [
            Column(name, type_of_arrow(name, kind)._replace(nullable=keep and self._may_lack(name)))
            for name, kind in self.columns.items()
        ]
        return Schema.parse(Schema(tuple(columns), tuple(self.keys)), self.keys)

    def _may_lack(self, name: str) -> bool:
        """Return whether a column of the elements may have nulls, by its type."""
        if name in self.required:
            return False
        field, path = self.kind.field(0), self._fields[name][0]
        if pa.types.is_map(self.kind):
            field, path = self.kind.item_field, path[1:]
        nullable = field.nullable
        for step in path:
            field = field.type.field(step)
            nullable |= field.nullable
        return bool(nullable)

    @property
    def keys(self) -> list[str]:
        """The key of the elements' relation."""
        return [*self.key, KEY if pa.types.is_map(self.kind) else POSITION]

    @property
    def name(self) -> str:
        """The source and column of the elements, for messages."""
        return f"{self.rows_of.name}, column {self.column}"

    @property
    def rows(self) -> int:
        """The number of rows, with or without elements, read so far."""
        return self.rows_of.rows

    @property
    def share(self) -> float:
        """The fraction of the files that was read so far."""
        return self.rows_of.share

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all elements, in their rows' order. Raises DatasetError with all problems."""
        problems, nulls, columns = self.rows_of.problems, self.rows_of.reading.nulls, self.columns
        self.given = self.left_out = 0
        for batch in self.rows_of.batches():
            of, values = _elements(batch.column(self.column))
            arrays = {name: batch.column(name).take(pa.array(of)) for name in self.key}
            if not pa.types.is_map(self.kind):
                arrays[POSITION] = pa.array(np.arange(len(of)) - np.searchsorted(of, of, "left"))
            for name, (path, _) in self._fields.items():
                array = pc.struct_field(values, list(path)) if path else values
                where = f"{self.name}: {name}"
                first = self.rows_of.rows - len(batch)
                requested = self.rows_of.untyped or name in self.casts
                cast = cast_or_report(
                    array, columns[name], where, first, problems, rows=of, requested=requested
                )
                if (
                    cast is not None
                    and cast.null_count
                    and nulls != DROP
                    and (nulls == REFUSE or name in self.required)
                ):
                    problems.add(f"{where} is null in some elements", FILL_IN)
                arrays[name] = cast
            if not problems:
                made = pa.RecordBatch.from_arrays(
                    [arrays[name] for name in columns], names=list(columns)
                )
                kept = made.drop_null() if nulls == DROP else made
                self.left_out += len(made) - len(kept)
                self.given += len(kept)
                yield kept
        problems.refuse()

    def check(self, lists: pa.Array, where: str, first_row: int, problems: Problems) -> None:
        """Put the rows aside whose lists, the first in the file's row `first_row`, have elements
        that do not fit.
        """
        if pa.types.is_null(lists.type):
            return
        of, values = _elements(lists)
        nulls, columns = self.rows_of.reading.nulls, self.columns
        for name, (path, _) in self._fields.items():
            array = pc.struct_field(values, list(path)) if path else values
            column = (self.column, name)
            requested = self.rows_of.untyped or name in self.casts
            cast = cast_or_report(
                array, columns[name], where, first_row, problems, requested, rows=of, path=column
            )
            if cast is not None and nulls != DROP and (nulls == REFUSE or name in self.required):
                lacking = np.unique(
                    of[np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))]
                )
                problems.add_rows(
                    where, "is null in some elements", FILL_IN, first_row + lacking, path=column
                )

    def _named_fields(self) -> dict[str, tuple[tuple[str, ...], pa.DataType]]:
        """Return the columns of an element by name: the path of each within it, and its type."""
        kind, within = self.kind, tuple[str, ...]()
        fields: list[tuple[tuple[str, ...], str, pa.DataType]] = []
        if pa.types.is_map(kind):
            fields.append(((KEY,), KEY, kind.key_type))
            kind, within = kind.item_type, (VALUE,)
        else:
            kind = kind.value_type
        if pa.types.is_struct(kind):
            fields += [
                ((*within, *path), name, type_)
                for path, name, type_ in flattened(pa.schema(list(kind)))
            ]
        else:
            fields.append((within, VALUE, kind))
        taken = {*self.key, POSITION, KEY}
        return {
            name if name not in taken or path == (KEY,) else f"{self.column}:{name}": (path, type_)
            for path, name, type_ in fields
        }


def lists_of(txn: Transaction, relation: str) -> list[str]:
    """Return the relations of a relation's lists and maps: their keys begin with its key."""
    if relation not in txn:
        return []
    key = txn[relation].schema.stored[: len(txn[relation].schema.key)]
    names = (name for name in txn if name.startswith(f"{relation}:"))
    return [
        name for name in names if txn[name].schema.stored[: len(txn[name].schema.key) - 1] == key
    ]


def _column_for(held: pa.DataType | None, there: pa.DataType | None) -> pa.DataType | None:
    """Return the existing column's type if it may hold values of type `held`, else `held`."""
    return there if held is not None and there is not None and may_hold(held, there) else held


def list_types(txn: Transaction, relation: str) -> dict[str, pa.DataType]:
    """Return the types of a relation's lists, by column, for files that do not show them."""
    types = {}
    for name in lists_of(txn, relation):
        schema = txn[name].schema
        fields = [field for field in schema.arrow if field.name not in schema.key]
        if POSITION in schema.key and not any(":" in field.name for field in fields):
            inner = (
                fields[0].type if [field.name for field in fields] == [VALUE] else pa.struct(fields)
            )
            types[name.removeprefix(f"{relation}:")] = pa.list_(inner)
    return types


def _elements(array: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Return the index of each element's list in the array int64[n], and the elements; for maps,
    key-value structs.
    """
    if not pa.types.is_map(array.type):
        return pc.list_parent_indices(array).to_numpy(zero_copy_only=False), pc.list_flatten(array)
    starts = array.offsets.to_numpy()
    counts = np.diff(starts) * array.is_valid().to_numpy(zero_copy_only=False)
    of = np.repeat(np.arange(len(array)), counts)
    places = np.arange(len(of)) + np.repeat(starts[:-1] - (np.cumsum(counts) - counts), counts)
    return of, pa.StructArray.from_arrays([array.keys, array.items], [KEY, VALUE]).take(
        pa.array(places)
    )
