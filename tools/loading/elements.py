"""Lists and maps within rows: their elements become rows of a relation of their own, beside that of the rows.

    orders        id  lines                                  orders:lines     id  position  sku  pieces
                  7   [{sku: tea, pieces: 2},       ──▶                       7   0         tea  2
                       {sku: cup, pieces: 1}]                                 7   1         cup  1

The key is that of the row with the element's position, from 0, or with a map's key. An element that is no struct is in
the column `value`; a name that the key has already gets the column's in front, as in `lines:id`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pagestore.relations.transaction import Transaction
from pagestore.values.types import Column, Schema, type_of_arrow

from .casts import cast_or_report, held_as, may_hold
from .dataset import DROP, KEEP, REFUSE, Dataset, flattened
from .problems import Problems

POSITION, KEY, VALUE = "position", "key", "value"


@dataclass
class Elements:
    """The elements of one column of a dataset, as a dataset. `key` are the key columns of the rows."""

    rows_of: Dataset
    column: str
    kind: pa.DataType
    key: Sequence[str]

    def __post_init__(self) -> None:
        columns = {**self.rows_of.columns, self.column: self.kind}
        self.rows_of = replace(self.rows_of, columns=columns, nested={}, problems=Problems())
        self._fields = self._named_fields()
        self.held = pa.schema([])  # the columns of a relation of elements that is there
        self.given = self.left_out = 0  # elements that were given out so far, and those dropped for a null
        self.required = {*self.key, POSITION, KEY}

    @property
    def columns(self) -> dict[str, pa.DataType]:
        """The columns of the elements' relation; those that no relation can hold are None."""
        place = {} if pa.types.is_map(self.kind) else {POSITION: pa.int64()}
        utc = self.rows_of.reading.utc
        known = {field.name: field.type for field in self.held}
        return {
            **{name: self.rows_of.columns[name] for name in self.key},
            **place,
            **{name: _column_for(held_as(kind, utc), known.get(name)) for name, (_, kind) in self._fields.items()},
        }

    @property
    def schema(self) -> Schema:
        """The elements' relation: what may be null in an element is, if nulls are kept."""
        keep = self.rows_of.reading.nulls == KEEP
        columns = [
            Column(name, type_of_arrow(name, kind)._replace(nullable=keep and self._may_lack(name)))
            for name, kind in self.columns.items()
        ]
        return Schema.parse(Schema(tuple(columns), tuple(self.keys)), self.keys)

    def _may_lack(self, name: str) -> bool:
        """Whether a column of the elements may have nulls, as its type has it."""
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
        """What the elements are of, for messages."""
        return f"{self.rows_of.name}, column {self.column}"

    @property
    def rows(self) -> int:
        """How many rows, with or without elements, were read so far."""
        return self.rows_of.rows

    @property
    def share(self) -> float:
        """The part of the files that was read so far."""
        return self.rows_of.share

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All elements, in the order of their rows. Raises DatasetError with all that is wrong with them."""
        problems, nulls, columns = self.rows_of.problems, self.rows_of.reading.nulls, self.columns
        self.given = self.left_out = 0
        for batch in self.rows_of.batches():
            of, values = _elements(batch.column(self.column))
            found = {name: batch.column(name).take(pa.array(of)) for name in self.key}
            if not pa.types.is_map(self.kind):
                found[POSITION] = pa.array(np.arange(len(of)) - np.searchsorted(of, of, "left"))
            for name, (path, _) in self._fields.items():
                array = pc.struct_field(values, list(path)) if path else values
                where = f"{self.name}: {name}"
                first = self.rows_of.rows - len(batch)
                cast = cast_or_report(array, columns[name], where, first, problems, rows=of, asked=self.rows_of.untyped)
                if (
                    cast is not None
                    and cast.null_count
                    and nulls != DROP
                    and (nulls == REFUSE or name in self.required)
                ):
                    problems.add(f"{where} is null in some elements", "fill them in, or drop them with --nulls drop")
                found[name] = cast
            if not problems:
                made = pa.RecordBatch.from_arrays([found[name] for name in columns], names=list(columns))
                kept = made.drop_null() if nulls == DROP else made
                self.left_out += len(made) - len(kept)
                self.given += len(kept)
                yield kept
        problems.refuse()

    def _named_fields(self) -> dict[str, tuple[tuple[str, ...], pa.DataType]]:
        """The columns of an element by name: where each stands in it, and its type."""
        kind, within = self.kind, tuple[str, ...]()
        found: list[tuple[tuple[str, ...], str, pa.DataType]] = []
        if pa.types.is_map(kind):
            found.append(((KEY,), KEY, kind.key_type))
            kind, within = kind.item_type, (VALUE,)
        else:
            kind = kind.value_type
        if pa.types.is_struct(kind):
            found += [((*within, *path), name, type_) for path, name, type_ in flattened(pa.schema(list(kind)))]
        else:
            found.append((within, VALUE, kind))
        taken = {*self.key, POSITION, KEY}
        return {
            name if name not in taken or path == (KEY,) else f"{self.column}:{name}": (path, type_)
            for path, name, type_ in found
        }


def lists_of(txn: Transaction, relation: str) -> list[str]:
    """The relations of lists and maps that stand beside a relation: its key is the beginning of theirs."""
    if relation not in txn:
        return []
    key = txn[relation].schema.stored[: len(txn[relation].schema.key)]
    names = (name for name in txn if name.startswith(f"{relation}:"))
    return [name for name in names if txn[name].schema.stored[: len(txn[name].schema.key) - 1] == key]


def _column_for(held: pa.DataType | None, there: pa.DataType | None) -> pa.DataType | None:
    """The type of a column for values that a relation holds as one type, where the relation has another one."""
    return there if held is not None and there is not None and may_hold(held, there) else held


def list_types(txn: Transaction, relation: str) -> dict[str, pa.DataType]:
    """The types of a relation's lists, by the names of their columns: what no element says, is known from there."""
    found = {}
    for name in lists_of(txn, relation):
        schema = txn[name].schema
        fields = [field for field in schema.arrow if field.name not in schema.key]
        if POSITION in schema.key and not any(":" in field.name for field in fields):
            inner = fields[0].type if [field.name for field in fields] == [VALUE] else pa.struct(fields)
            found[name.removeprefix(f"{relation}:")] = pa.list_(inner)
    return found


def _elements(array: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """The place of each element's list in the array int64[n], and the elements; of maps structs of key and value."""
    if not pa.types.is_map(array.type):
        return pc.list_parent_indices(array).to_numpy(zero_copy_only=False), pc.list_flatten(array)
    starts = array.offsets.to_numpy()
    counts = np.diff(starts) * array.is_valid().to_numpy(zero_copy_only=False)
    of = np.repeat(np.arange(len(array)), counts)
    places = np.arange(len(of)) + np.repeat(starts[:-1] - (np.cumsum(counts) - counts), counts)
    return of, pa.StructArray.from_arrays([array.keys, array.items], [KEY, VALUE]).take(pa.array(places))
