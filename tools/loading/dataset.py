"""Sources as one table: the files' rows in order, in clean typed batches, or all their problems.

Columns go through these steps, in this order; each step uses the names that the previous one gave.

    struct         address: {town, street}       becomes  address:town, address:street
    --rename       born=birthday
    --columns      id,birthday                   the others are left out
    --cast         birthday=date

Columns of lists and maps are kept apart, in `nested`: elements.py makes tables of them.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pagestore.host import Type

from ..cli.answers import counted
from .casts import REFUSALS, DatasetError, Problems, cast_or_report, cast_to, rows_beyond, said
from .csv_files import Dialect
from .files import CSV, Part
from .formats import open_part
from .opened import Contradicted, Opened, Wanted, is_nested, value_at

KEEP, REFUSE, DROP = NULLS = "keep", "refuse", "drop"  # how nulls are treated
NO_NAN = "NaN has no place in an order; filter it out"


class Reading(NamedTuple):
    """How sources are read: the options of `pagestore load`.

    `nulls` says how a null is treated: "keep" keeps it in nullable columns, "drop" drops its row, "refuse" ends the
    load. `fill` has texts of values that replace nulls in some columns. With `empty_is_null` an empty text in a CSV
    file is a null. Unless `thorough`, files without types are read only once, with types guessed from the first rows;
    later rows may raise Contradicted. `dialect` is that of CSV files.
    """

    columns: Sequence[str] = ()
    renames: Mapping[str, str] = {}
    casts: Mapping[str, Type] = {}
    nulls: str = KEEP
    utc: bool = False
    format: str | None = None
    fill: Mapping[str, str] = {}
    empty_is_null: bool = False
    thorough: bool = True
    dialect: Dialect = Dialect()


class Column(NamedTuple):
    """A column of a file: its path through structs, from the outermost, and its type."""

    path: tuple[str, ...]
    type: pa.DataType


@dataclass
class Dataset:
    """The files of some sources, with one Arrow type per column. `notes` are warnings for the user.

    `required` has the columns that are never null, with the reason; nulls in these are problems unless dropped.
    """

    name: str
    parts: list[Part]
    reading: Reading
    columns: dict[str, pa.DataType] = field(default_factory=dict)
    nested: dict[str, pa.DataType] = field(default_factory=dict)  # columns of lists and maps, see elements.py
    notes: list[str] = field(default_factory=list)
    problems: Problems = field(default_factory=Problems)
    refused: set[str] = field(default_factory=set)  # columns that a problem names
    required: dict[str, str] = field(default_factory=dict)
    wanted: dict[str, pa.DataType] = field(default_factory=dict)  # types of a relation or casts
    dropped: int = 0
    rows: int = 0  # read so far
    share: float = 0.0  # of the bytes read so far
    nulls_in: set[str] = field(default_factory=set)  # the columns with nulls in the rows read so far
    _empty: dict[str, int] = field(default_factory=dict)  # empty texts of CSV by column, perhaps meant as nulls
    _opened: dict[Path, Opened] = field(default_factory=dict)  # files whose types were inferred
    _fill: dict[str, pa.Scalar] = field(default_factory=dict)

    @property
    def untyped(self) -> bool:
        """Whether some file's types were inferred."""
        return bool(self._opened)

    @property
    def given(self) -> int:
        """The number of rows yielded so far."""
        return self.rows - self.dropped

    def lacking(self) -> set[str]:
        """Return the columns that may have nulls: by Parquet's footers, else by reading the files.

        If not `thorough`, all columns of files without types; `nulls_in` says after the load which had some.
        """
        found: set[str] = set()
        for part in self.parts:
            opened = self._open(part)
            columns = self._columns_of(part, opened)
            names = [name for name in self.columns if name not in {*found, *self._fill}]
            if opened.untyped and not self.reading.thorough:
                found.update(names)
                continue
            found.update(name for name in names if not columns[name].path and part.values[name] is None)
            places = {columns[name].path: name for name in names if columns[name].path}
            if self._empties(part):
                found.update(name for name in names if _is_text(self.columns[name]))
            found.update(places[path] for path in opened.lacking([*places]))
        return found

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows in file order, without NaN, with nulls if they are kept; count the rows that are dropped.

        Raises DatasetError with the problems of all rows; after the first, no more batches are yielded.
        """
        self.rows, self.dropped, self.share, self._empty = 0, 0, 0.0, {}
        self.problems.found = {fact: one for fact, one in self.problems.found.items() if not one.rows}  # of columns
        sizes = [max(1, part.file.stat().st_size) for part in self.parts]
        total, done = sum(sizes), 0
        for part, size in zip(self.parts, sizes, strict=True):
            try:
                for batch, share in self._batches_of(part):
                    self.share = (done + size * share) / total
                    if not self.problems:
                        yield batch
            except DatasetError as error:
                self.problems.adopt(error)
            done += size
        self.problems.refuse()
        for name, count in ((name, count) for name, count in self._empty.items() if count):
            note = f"column {name} has {counted(count, 'empty text')}: --empty-is-null takes such a one as a null"
            self.notes.append(note)

    def _batches_of(self, part: Part) -> Iterator[tuple[pa.RecordBatch, float]]:
        opened = self._open(part)
        places = {name: column for name, column in self._columns_of(part, opened).items() if name in self.columns}
        first_row, self.problems.line_of = 0, opened.line_of
        for raw in opened.batches(list(dict.fromkeys(c.path[0] for c in places.values() if c.path))):
            found = {}
            for name, kind in self.columns.items():
                where = f"{part.file}: column {name}"
                array = self._typed(self._values(part, raw, name, places), name, opened.untyped, where, first_row)
                if array is not None:
                    found[name] = array if is_nested(kind) else self._look_for_nulls(name, array, where, first_row)
            self.rows += len(raw)
            first_row += len(raw)
            if len(found) == len(self.columns):
                batch = pa.RecordBatch.from_arrays([found[name] for name in self.columns], names=list(self.columns))
                kept = self._settle_nulls(batch)
                self.dropped += len(batch) - len(kept)
                yield kept, opened.share()

    def _typed(self, array: pa.Array, name: str, untyped: bool, where: str, first_row: int) -> pa.Array | None:
        """Cast values of a column to its type; add those that do not fit to the problems and return None.

        Raises Contradicted if the type was guessed.
        """
        kind, supposed = self.columns[name], untyped and name not in self.wanted
        if is_nested(kind):  # elements.py casts its elements
            return pa.nulls(len(array), kind) if pa.types.is_null(array.type) else array
        if self.reading.utc and kind == pa.timestamp("us") and untyped:
            array = _in_utc(array)
        problems = Problems() if supposed and not self.reading.thorough else self.problems
        cast = cast_or_report(
            array, kind, where, first_row, problems, requested=untyped or name in self.reading.casts, supposed=supposed
        )
        if problems and problems is not self.problems:
            raise Contradicted(str(problems.found))
        return cast

    def _settle_nulls(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Drop rows with nulls, if they are to be dropped. A null list counts as empty."""
        columns = [column for column in batch.columns if column.null_count and not is_nested(column.type)]
        if self.reading.nulls != DROP or not columns:
            return batch
        return batch.filter(functools.reduce(pc.and_, (column.is_valid() for column in columns)))

    def _values(self, part: Part, raw: pa.RecordBatch, name: str, places: Mapping[str, Column]) -> pa.Array:
        path = places[name].path
        if not path:
            return pa.repeat(pa.scalar(part.values[name], pa.string()), len(raw))
        array = value_at(raw, path)
        if self._empties(part) and _is_text(self.columns[name]):
            return pc.if_else(pc.equal(pc.binary_length(array), 0), None, array)
        if self.reading.utc and pa.types.is_timestamp(array.type) and array.type.tz is not None:
            return array.cast(pa.timestamp(array.type.unit))
        if part.format == CSV and pa.types.is_string(self.columns[name]) and name not in self.required:
            self._empty[name] = self._empty.get(name, 0) + (pc.sum(pc.equal(array, "")).as_py() or 0)
        return array

    def _open(self, part: Part) -> Opened:
        """Return an opened file, with the types inferred before if it has none of its own."""
        return self._opened.get(part.file) or open_part(part, Wanted(), self.problems, self.reading.dialect)

    def _empties(self, part: Part) -> bool:
        """Return whether empty texts of a file are nulls."""
        return self.reading.empty_is_null and part.format == CSV

    def _look_for_nulls(self, name: str, array: pa.Array, where: str, first_row: int) -> pa.Array:
        """Fill nulls of an array; add to the problems those that are refused, NaN, and dates and times out of range."""
        if name in self._fill:
            array = array.fill_null(self._fill[name])
        if array.null_count:
            self.nulls_in.add(name)
        reason = "nulls are refused" if self.reading.nulls == REFUSE else self.required.get(name)
        if array.null_count and reason and self.reading.nulls != DROP:
            row = first_row + pc.index(array.is_null(), True).as_py()
            remedy = f"{reason}; fill them with --fill {name}=VALUE, or drop such rows with --nulls drop"
            self.problems.add_rows(f"{where} is null", remedy, array.null_count, row)
        if pa.types.is_floating(array.type):
            wrong = pc.is_nan(array)
            if count := pc.sum(wrong).as_py():
                self.problems.add_rows(f"{where} is NaN", NO_NAN, count, first_row + pc.index(wrong, True).as_py())
        if len(beyond := rows_beyond(array)):
            shown = str(array[int(beyond[0])].cast(pa.int64() if array.type != pa.date32() else pa.int32()))
            self.problems.add_rows(f"{where} is beyond {said(array.type)}, which has the years 1 to 9999",
                                   "mend the source", len(beyond), first_row + int(beyond[0]), shown)  # fmt: skip
        return array

    def _columns_of(self, part: Part, opened: Opened) -> dict[str, Column]:
        """Return the columns of a file by their new names, without those that --columns omits."""
        found: dict[str, Column] = {}
        fields = [*flattened(opened.schema), *(((), name, pa.string()) for name in part.values)]
        for path, name, kind in fields:
            new = self.reading.renames.get(name, name)
            if self.reading.columns and new not in self.reading.columns:
                continue
            if not new:
                self.problems.add(f"{part.file} has a column without a name", "name it, or leave it out with --columns")
                self.refused.add(new)
            if new in found:
                both = f"a column {new}, as its folder's name has" if name in part.values else f"two columns {new}"
                self.problems.add(f"{part.file} has {both}", "rename or leave out one")
                self.refused.add(new)
            found[new] = Column(path, kind)
        return found


def _in_utc(texts: pa.Array) -> pa.Array:
    """Convert texts to timestamps in UTC without a zone if all have an offset; else return them unchanged."""
    try:
        return cast_to(texts, pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
    except REFUSALS:
        return texts


def _is_text(kind: pa.DataType) -> bool:
    """Return whether an empty text is a value of a column."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def flattened(fields: pa.Schema) -> Iterator[tuple[tuple[str, ...], str, pa.DataType]]:
    """Yield the columns of a schema, with structs expanded: (path, name, type)."""

    def within(path: tuple[str, ...], one: pa.Field) -> Iterator[tuple[tuple[str, ...], str, pa.DataType]]:
        path = (*path, one.name)
        if pa.types.is_struct(one.type) and one.type.num_fields:
            for inner in one.type:
                yield from within(path, inner)
        else:
            yield path, ":".join(path), one.type

    for one in fields:
        yield from within((), one)
