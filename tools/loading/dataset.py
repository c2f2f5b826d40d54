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
from shlex import quote
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pagestore.host import Type
from pagestore.tooling import beyond, holding

from ..cli.answers import counted
from .casts import (
    REFUSALS,
    Aside,
    DatasetError,
    Problems,
    cast_or_report,
    cast_to,
    is_string,
    rows_beyond,
    said,
    without,
)
from .csv_files import Dialect
from .files import CSV, Part
from .fill import Doubles
from .formats import open_part
from .opened import Contradicted, Opened, Wanted, is_nested, value_at
from .texts import dated

KEEP, REFUSE, DROP = NULLS = "keep", "refuse", "drop"  # how nulls are treated
NO_NAN = "NaN has no place in an order; filter it out"


class Reading(NamedTuple):
    """How sources are read: the options of `pagestore load`.

    `nulls` says how a null is treated: "keep" keeps it in nullable columns, "drop" drops its row,
    "refuse" ends the load. `fill` has texts of values that replace nulls in some columns. With
    `empty_is_null` an empty text in a CSV file is a null. Unless `thorough`, files without types
    are read only once, with types guessed from the first rows; later rows may raise Contradicted.
    `dialect` is that of CSV files. Bad rows go `aside`, if it is given; with `doubles`, so do later
    rows of these keys.
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
    aside: Aside | None = None
    doubles: Doubles | None = None


class _Where(NamedTuple):
    """A column of a file, and the row of the first value in question."""

    file: Path
    name: str
    path: tuple[str, ...]
    first_row: int

    def __str__(self) -> str:
        return f"{self.file}: column {self.name}"


class Column(NamedTuple):
    """A column of a file: its path through structs, from the outermost, and its type."""

    path: tuple[str, ...]
    type: pa.DataType


class Check(Protocol):
    """Add the bad elements of lists, whose first row in the file is given, to the problems."""

    def __call__(self, lists: pa.Array, where: str, first_row: int, problems: Problems) -> None:
        """Add what is bad in the lists of a column, which is named `where`, to the problems."""


@dataclass
class Dataset:
    """The files of some sources, with one Arrow type per column. `notes` are warnings for the user.

    `required` has the columns that are never null, with the reason; nulls in these are problems
    unless dropped.
    """

    name: str
    parts: list[Part]
    reading: Reading
    columns: dict[str, pa.DataType] = field(default_factory=dict)
    # columns of lists and maps, see elements.py
    nested: dict[str, pa.DataType] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problems: Problems = field(default_factory=Problems)
    refused: set[str] = field(default_factory=set)  # columns that a problem names
    unopened: set[Path] = field(default_factory=set)  # files that a problem names
    required: dict[str, str] = field(default_factory=dict)
    narrow: dict[str, str] = field(default_factory=dict)  # the narrow columns, see Column
    wanted: dict[str, pa.DataType] = field(default_factory=dict)  # types of a relation or casts
    # lists whose bad elements put their rows aside
    checked: dict[str, Check] = field(default_factory=dict)
    dropped: int = 0
    aside: int = 0  # rows read so far that are bad
    rows: int = 0  # read so far
    share: float = 0.0  # of the bytes read so far
    # the columns with nulls in the rows read so far
    nulls_in: set[str] = field(default_factory=set)
    # empty texts of CSV by column, perhaps meant as nulls
    _empty: dict[str, int] = field(default_factory=dict)
    opened: dict[Path, Opened] = field(default_factory=dict)  # files whose types were inferred
    fill: dict[str, pa.Scalar] = field(default_factory=dict)

    @property
    def untyped(self) -> bool:
        """Whether some file's types were inferred."""
        return bool(self.opened)

    @property
    def given(self) -> int:
        """The number of rows yielded so far."""
        return self.rows - self.dropped - self.aside

    def lacking(self) -> set[str]:
        """Return the columns that may have nulls: by Parquet's footers, else by reading the files.

        If not `thorough`, all columns of files without types; `nulls_in` says after the load which
        had some.
        """
        seen: set[str] = set()
        for part in self.parts:
            opened = self._open(part)
            columns = self.columns_of(part, opened)
            names = [name for name in self.columns if name not in {*seen, *self.fill}]
            if opened.untyped and not self.reading.thorough:
                seen.update(names)
                continue
            seen.update(
                name for name in names if not columns[name].path and part.values[name] is None
            )
            places = {columns[name].path: name for name in names if columns[name].path}
            if self._empties(part):
                seen.update(name for name in names if _is_text(self.columns[name]))
            seen.update(places[path] for path in opened.lacking([*places]))
        return seen

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows in file order, without NaN, with nulls if they are kept; count those
        dropped and put aside.

        Raises DatasetError with the problems of all rows; after the first, no more batches are
        yielded.
        """
        self.rows, self.dropped, self.aside, self.share, self._empty = 0, 0, 0, 0.0, {}
        if self.problems.aside:
            self.problems.aside.restart()
        if self.reading.doubles:
            self.reading.doubles.restart()
        # of columns
        self.problems.found = {
            fact: problem for fact, problem in self.problems.found.items() if not problem.rows
        }
        sizes = [max(1, part.file.stat().st_size) for part in self.parts]
        total, done = sum(sizes), 0
        for part, size in zip(self.parts, sizes, strict=True):
            try:
                for batch, share in (
                    self._batches_of(part) if part.file not in self.unopened else ()
                ):
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
        read = {*self.columns, *(self.checked if self.problems.aside else ())}
        places = {
            name: column for name, column in self.columns_of(part, opened).items() if name in read
        }
        first_row, self.problems.line_of, aside = 0, opened.line_of, self.problems.aside
        if aside:
            aside.begin(str(part.file), opened.records() if opened.records else None)
        for raw in opened.batches(
            list(dict.fromkeys(c.path[0] for c in places.values() if c.path))
        ):
            arrays = {}
            for name, kind in self.columns.items():
                where = _Where(part.file, name, places[name].path, first_row)
                array = self._typed(
                    self._values(part, raw, name, places), name, opened.untyped, where
                )
                if array is not None:
                    arrays[name] = (
                        array if is_nested(kind) else self._look_for_nulls(name, array, where)
                    )
            if aside:
                self._look_further(part, raw, arrays, places, first_row)
            bad = aside.take(first_row, raw) if aside else []
            self.rows, self.aside = self.rows + len(raw), self.aside + len(bad)
            first_row += len(raw)
            if len(arrays) == len(self.columns):
                batch = pa.RecordBatch.from_arrays(
                    [arrays[name] for name in self.columns], names=list(self.columns)
                )
                batch = batch.take(np.delete(np.arange(len(batch)), bad)) if bad else batch
                self.nulls_in.update(name for name in self.columns if batch.column(name).null_count)
                kept = self._settle_nulls(batch)
                self.dropped += len(batch) - len(kept)
                yield kept, opened.share()
        if aside:
            aside.finish()

    def _look_further(
        self,
        part: Part,
        raw: pa.RecordBatch,
        found: Mapping[str, pa.Array],
        places: Mapping[str, Column],
        first: int,
    ) -> None:
        """Put rows aside for elements of their lists, then for keys that came with other values."""
        for name, check in self.checked.items():
            check(
                value_at(raw, places[name].path),
                f"{part.file}: column {name}",
                first,
                self.problems,
            )
        doubles, aside = self.reading.doubles, self.problems.aside
        if not doubles or not aside:
            return
        plain = {name: array for name, array in found.items() if not is_nested(self.columns[name])}
        dropped = self.reading.nulls == DROP

        def left_out(row: int) -> bool:
            return first + row in aside.found or (
                dropped and any(not column[row].is_valid for column in plain.values())
            )

        of = places[doubles.names[0]].path or (doubles.names[0],)
        for row, reason in doubles.later(plain, left_out):
            aside.add([first + row], of, reason)

    def _typed(self, array: pa.Array, name: str, untyped: bool, where: "_Where") -> pa.Array | None:
        """Cast values of a column to its type; add those that do not fit to the problems and return
        None.

        If problems go aside, return nulls for these values. Raises Contradicted if the type was
        guessed.
        """
        kind, supposed = self.columns[name], untyped and name not in self.wanted
        if is_nested(kind):  # elements.py casts its elements
            return pa.nulls(len(array), kind) if pa.types.is_null(array.type) else array
        if self.reading.utc and kind == pa.timestamp("us") and untyped:
            array = _in_utc(array)
        if is_string(array.type):
            array = dated(array, kind, self.reading.dialect.dates)
        problems = Problems() if supposed and not self.reading.thorough else self.problems
        cast = cast_or_report(
            array,
            kind,
            str(where),
            where.first_row,
            problems,
            untyped or name in self.reading.casts,
            supposed,
            path=where.path,
        )
        if problems and problems is not self.problems:
            raise Contradicted(str(problems.found))
        return cast if cast is None or name not in self.narrow else self._held(cast, name, where)

    def _held(self, array: pa.Array, name: str, where: "_Where") -> pa.Array | None:
        """Return values of a narrow column; add those that it does not hold to the problems and
        return None, or nulls for these values if problems go aside.
        """
        narrow, values = self.narrow[name], array.fill_null(0).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(beyond(narrow, values))
        if not len(rows):
            return array
        remedy = f"{holding(narrow)}: mend the source, or load it into a column of another type"
        self.problems.add_rows(
            str(where),
            f"does not fit {narrow}",
            remedy,
            where.first_row + rows,
            str(values[rows[0]]),
            path=where.path,
        )
        return without(array, rows) if self.problems.aside else None

    def _settle_nulls(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Drop rows with nulls, if they are to be dropped. A null list counts as empty."""
        columns = [
            column for column in batch.columns if column.null_count and not is_nested(column.type)
        ]
        if self.reading.nulls != DROP or not columns:
            return batch
        return batch.filter(functools.reduce(pc.and_, (column.is_valid() for column in columns)))

    def _values(
        self, part: Part, raw: pa.RecordBatch, name: str, places: Mapping[str, Column]
    ) -> pa.Array:
        path = places[name].path
        if not path:
            return pa.repeat(pa.scalar(part.values[name], pa.string()), len(raw))
        array = value_at(raw, path)
        if self._empties(part) and _is_text(self.columns[name]):
            return pc.if_else(pc.equal(pc.binary_length(array), 0), None, array)
        if self.reading.utc and pa.types.is_timestamp(array.type) and array.type.tz is not None:
            return array.cast(pa.timestamp(array.type.unit))
        if (
            part.format == CSV
            and pa.types.is_string(self.columns[name])
            and name not in self.required
        ):
            self._empty[name] = self._empty.get(name, 0) + (
                pc.sum(pc.equal(array, "")).as_py() or 0
            )
        return array

    def _open(self, part: Part) -> Opened:
        """Return an opened file, with the types inferred before if it has none of its own."""
        return self.opened.get(part.file) or open_part(
            part, Wanted(), self.problems, self.reading.dialect
        )

    def _empties(self, part: Part) -> bool:
        """Return whether empty texts of a file are nulls."""
        return self.reading.empty_is_null and part.format == CSV

    def _look_for_nulls(self, name: str, array: pa.Array, where: "_Where") -> pa.Array:
        """Fill nulls of an array; add to the problems those that are refused, NaN, and dates and
        times out of range.
        """
        if name in self.fill:
            array = array.fill_null(self.fill[name])
        reason = "nulls are refused" if self.reading.nulls == REFUSE else self.required.get(name)
        if array.null_count and reason and self.reading.nulls != DROP:
            remedy = f"{reason}; fill them with --fill {quote(f'{name}=VALUE')}, or drop such rows with --nulls drop"
            self._add(where, "is null", remedy, self._not_aside(where, _places(array.is_null())))
        if pa.types.is_floating(array.type):
            self._add(where, "is NaN", NO_NAN, _places(pc.is_nan(array)))
        if len(beyond := rows_beyond(array)):
            shown = str(
                array[int(beyond[0])].cast(pa.int64() if array.type != pa.date32() else pa.int32())
            )
            fact = f"is beyond {said(array.type)}, which has the years 1 to 9999"
            self._add(where, fact, "mend the source", beyond, shown)
        return array

    def _add(
        self, where: "_Where", fact: str, remedy: str, places: np.ndarray, shown: str = ""
    ) -> None:
        """Add a problem of the values at int64[n] of a batch, if there are any."""
        if len(places):
            self.problems.add_rows(
                str(where), fact, remedy, where.first_row + places, shown, where.path
            )

    def _not_aside(self, where: "_Where", places: np.ndarray) -> np.ndarray:
        """Leave out of places int64[n] those that are null since their value was put aside."""
        aside = self.problems.aside.found if self.problems.aside else {}
        known = [
            row - where.first_row
            for row, bad in aside.items()
            if any(path == where.path for path, _ in bad)
        ]
        return np.setdiff1d(places, known) if known else places

    def columns_of(self, part: Part, opened: Opened) -> dict[str, Column]:
        """Return the columns of a file by their new names, without those that --columns omits."""
        columns: dict[str, Column] = {}
        fields = [*flattened(opened.schema), *(((), name, pa.string()) for name in part.values)]
        for path, name, kind in fields:
            new = self.reading.renames.get(name, name)
            if self.reading.columns and new not in self.reading.columns:
                continue
            if name in opened.refused:
                what, remedy = opened.refused[name]
                self.problems.add(f"{part.file}: column {name} is {what}", remedy)
                self.refused.add(new)
                continue
            if not new:
                self.problems.add(
                    f"{part.file} has a column without a name",
                    "name it, or leave it out with --columns",
                )
                self.refused.add(new)
            if new in columns:
                if name in part.values:
                    both = f"a column {new}, as its folder's name has"
                else:
                    both = f"two columns {new}"
                self.problems.add(f"{part.file} has {both}", "rename or leave out one")
                self.refused.add(new)
            columns[new] = Column(path, kind)
        return columns


def _in_utc(texts: pa.Array) -> pa.Array:
    """Convert texts to timestamps in UTC without a zone if all have an offset; else return them."""
    try:
        return cast_to(texts, pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
    except REFUSALS:
        return texts


def _places(wrong: pa.Array) -> np.ndarray:
    """Return where booleans are true, int64[n]."""
    return np.flatnonzero(wrong.fill_null(False).to_numpy(zero_copy_only=False))


def _is_text(kind: pa.DataType) -> bool:
    """Return whether an empty text is a value of a column."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def flattened(fields: pa.Schema) -> Iterator[tuple[tuple[str, ...], str, pa.DataType]]:
    """Yield the columns of a schema, with structs expanded: (path, name, type)."""

    def within(
        path: tuple[str, ...], one: pa.Field
    ) -> Iterator[tuple[tuple[str, ...], str, pa.DataType]]:
        path = (*path, one.name)
        if pa.types.is_struct(one.type) and one.type.num_fields:
            for inner in one.type:
                yield from within(path, inner)
        else:
            yield path, ":".join(path), one.type

    for column in fields:
        yield from within((), column)
