"""Sources as one table: the files' rows in order, in clean typed batches, or all that is wrong with them.

Columns go through these steps, in this order; every step speaks of the names that the step before it gave.

    struct         address: {town, street}       becomes  address:town, address:street
    --rename       born=birthday
    --columns      id,birthday                   the others are left out
    --cast         birthday=date

Columns of lists and maps stand apart, in `nested`: elements.py makes tables of them.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pagestore.values.types import Type

from ..cli.answers import counted
from .casts import bad_rows, cast_or_report, cast_to, fits, held_as, remedy_for, rows_beyond, said
from .files import CSV, Part, find_files
from .formats import Opened, open_part, value_at
from .problems import DatasetError, Problems

KEEP, REFUSE, DROP = NULLS = "keep", "refuse", "drop"  # what becomes of nulls
NO_NAN = "NaN has no place in an order; filter it out"


class Reading(NamedTuple):
    """How sources are read: what the options of `pagestore load` say.

    `nulls` says what becomes of a null: "keep" leaves it there, in columns that need no value; "drop" leaves out the
    row, and "refuse" ends the load. `fill` has values, as texts, for the nulls of some columns. With `empty_is_null` an
    empty text of a CSV file is a null. Unless `thorough`, files without types are read once: what their first rows let
    one suppose may be Contradicted.
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


class Column(NamedTuple):
    """Where a column of a file stands: its place in structs, from the outermost, and the type that is held."""

    path: tuple[str, ...]
    type: pa.DataType


@dataclass
class Dataset:
    """The files of some sources, with one Arrow type per column. `notes` are warnings for the user.

    `required` are columns that are never null, with the reason: nulls in these are refused where they would be kept.
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
    dropped: int = 0
    rows: int = 0  # read so far
    share: float = 0.0  # of the bytes read so far
    nulls_in: set[str] = field(default_factory=set)  # the columns that had some in what was read so far
    _empty: dict[str, int] = field(default_factory=dict)  # texts of CSV by column, which might be meant as nulls
    _opened: dict[Path, Opened] = field(default_factory=dict)  # those whose types were inferred
    _fill: dict[str, pa.Scalar] = field(default_factory=dict)

    @property
    def untyped(self) -> bool:
        """Whether types of a file are inferred."""
        return bool(self._opened)

    @property
    def given(self) -> int:
        """How many rows were given out so far."""
        return self.rows - self.dropped

    def lacking(self) -> set[str]:
        """The columns that may have nulls: as Parquet's footers say, else by reading the files.

        Where these are not read for it, all of them; `nulls_in` says afterwards which have some.
        """
        found: set[str] = set()
        for part in self.parts:
            opened = self._opened.get(part.file) or open_part(part, {}, self.problems)
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
        """All rows in file order, without NaN, and with nulls where they are kept; rows that are dropped are counted.

        Raises DatasetError with all problems of all rows; where there is one no more batches come.
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
        opened = self._opened.get(part.file) or open_part(part, {}, self.problems)
        places = {name: column for name, column in self._columns_of(part, opened).items() if name in self.columns}
        first_row = 0
        for raw in opened.batches(list(dict.fromkeys(c.path[0] for c in places.values() if c.path))):
            found = {}
            for name, kind in self.columns.items():
                where = f"{part.file}: column {name}"
                array = self._values(part, raw, name, places)
                cast = cast_or_report(array, kind, where, first_row, self.problems)
                if cast is not None:
                    found[name] = cast if is_nested(kind) else self._look_for_nulls(name, cast, where, first_row)
            self.rows += len(raw)
            first_row += len(raw)
            if len(found) == len(self.columns):
                batch = pa.RecordBatch.from_arrays([found[name] for name in self.columns], names=list(self.columns))
                kept = self._settle_nulls(batch)
                self.dropped += len(batch) - len(kept)
                yield kept, opened.share()

    def _settle_nulls(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows, without those that are dropped for a null. A list may be null: it is empty."""
        columns = [column for column in batch.columns if column.null_count and not is_nested(column.type)]
        if self.reading.nulls != DROP or not columns:
            return batch
        return batch.filter(functools.reduce(pc.and_, (column.is_valid() for column in columns)))

    def _values(self, part: Part, raw: pa.RecordBatch, name: str, places: Mapping[str, Column]) -> pa.Array:
        path = places[name].path
        if not path:
            return pa.repeat(pa.scalar(part.values[name], pa.string()), len(raw))
        array = value_at(raw, path)
        if self._empties(part) and _is_text(array.type):
            return pc.if_else(pc.equal(pc.binary_length(array), 0), None, array)
        if part.format == CSV and pa.types.is_string(array.type) and name not in self.required:
            self._empty[name] = self._empty.get(name, 0) + (pc.sum(pc.equal(array, "")).as_py() or 0)
        return array

    def _empties(self, part: Part) -> bool:
        """Whether empty texts of a file are nulls."""
        return self.reading.empty_is_null and part.format == CSV

    def _look_for_nulls(self, name: str, array: pa.Array, where: str, first_row: int) -> pa.Array:
        """The array with its nulls filled; those that are left, if they are refused, NaN, and dates and times without
        a value are problems.
        """
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
        """The columns of a file by the names that they get, those that --columns leaves out without."""
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


def open_dataset(
    sources: str | Path | Sequence[str | Path], reading: Reading | None = None, wanted: pa.Schema | None = None
) -> Dataset:
    """Read the files' names and types. `wanted` are the columns of a relation that is there already.

    What is wrong with columns stands in the dataset's `problems`; they are left out of its columns. Raises DatasetError
    for sources that are not there.
    """
    reading = reading or Reading()
    paths = [sources] if isinstance(sources, str | Path) else list(sources)
    parts, notes = find_files(paths, reading.format)
    dataset = Dataset(", ".join(map(str, paths)), parts, reading, notes=notes)
    kinds = {name: kind.arrow for name, kind in reading.casts.items()}
    hints = {**(dict(zip(wanted.names, wanted.types, strict=True)) if wanted else {}), **kinds}
    back = {new: old for old, new in reading.renames.items()}
    agreed = _Agreed(dataset, hints, set(kinds))
    for part in parts:
        try:
            types = {back.get(name, name): kind for name, kind in hints.items()}
            opened = open_part(part, types, dataset.problems, reading.thorough)
        except DatasetError as error:
            dataset.problems.adopt(error)
            continue
        if opened.untyped:
            dataset._opened[part.file] = opened
        agreed.take(part, dataset._columns_of(part, opened), opened.untyped)
    agreed.settle(wanted)
    _settle_fill(dataset)
    return dataset


def _settle_fill(dataset: Dataset) -> None:
    """Turn the texts that nulls are filled with into values of their columns, or note the problem."""
    for name, text in dataset.reading.fill.items():
        kind = dataset.columns.get(name)
        if kind is None:
            known = ", ".join(dataset.columns)
            dataset.problems.add(f"{dataset.name}: no column {name} to fill; there are {known}", "mend --fill")
        elif bad_rows(pa.array([text]), kind):
            dataset.problems.add(f"{dataset.name}: {text!r} is no value of column {name} ({said(kind)})", "mend --fill")
        else:
            dataset._fill[name] = cast_to(pa.array([text]), kind)[0]


@dataclass
class _Agreed:
    """The types on which all files agree, in the making. `hints` are types that columns shall have."""

    dataset: Dataset
    hints: Mapping[str, pa.DataType]
    casts: set[str]
    first: Part | None = None
    types: dict[str, pa.DataType] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def take(self, part: Part, columns: Mapping[str, Column], untyped: bool) -> None:
        """Agree on the columns of one more file, or note the problem."""
        names = set(columns)
        if self.first is not None and not self.dataset.reading.columns:
            for name in sorted(names ^ self.seen):
                has, lacks = (part, self.first) if name in names else (self.first, part)
                self._refuse(name, f"{lacks.file} has no column {name}, but {has.file} has", "name those of all files "
                             "with --columns, or write all files with one job")  # fmt: skip
        for name in (name for name in self.dataset.reading.columns if name not in names):
            known = ", ".join(columns)
            self._refuse(name, f"{part.file} has no column {name}; it has {known}", "mend --columns or --rename")
        for name, column in columns.items():
            self._agree(part, name, column.type, untyped)
        if self.first is None:
            self.first, self.seen = part, names

    def _agree(self, part: Part, name: str, found: pa.DataType, untyped: bool) -> None:
        where, hint = f"{part.file}: column {name}", self.hints.get(name)
        in_folder = name in part.values
        held = found if pa.types.is_null(found) else held_as(found, self.dataset.reading.utc)
        if name in self.casts and hint is not None:
            self.types[name] = hint
        elif is_nested(found) and self.dataset.nested.setdefault(name, found) == found:
            pass
        elif held is None:
            self._refuse(name, f"{where} has type {found}, which a relation cannot hold", remedy_for(name, found))
        elif hint is not None:
            if not (untyped or in_folder or fits(held, hint)):
                self._refuse(name, f"{where} is {held}, and {hint} in the relation",
                             f"--cast {name}={said(hint)} converts it")  # fmt: skip
            self.types[name] = hint
        elif name not in self.types or fits(self.types[name], held):
            self.types[name] = held
        elif not fits(held, self.types[name]) and self.first is not None:
            self._refuse(name, f"{where} is {held}, but it is {self.types[name]} in {self.first.file}",
                         f"give --cast {name}=TYPE, or cast it in the job")  # fmt: skip

    def settle(self, wanted: pa.Schema | None) -> None:
        """Give the dataset its columns: those without a problem, in the order of the options or of the first file."""
        dataset = self.dataset
        for name, kind in self.types.items():
            if pa.types.is_null(kind) and name not in self.dataset.refused:
                self._refuse(name, f"{dataset.name}: column {name} has type null", remedy_for(name, kind))
        for name in (name for name in dataset.parts[0].values if name not in self.hints):
            if self.types.get(name) == pa.string() and all(_is_integer(p.values.get(name)) for p in dataset.parts):
                self.types[name] = pa.int64()
        for name in (name for name in self.hints if name in self.casts and name not in self.types):
            self._refuse(name, f"{dataset.name} has no column {name}; it has {', '.join(self.types)}", "mend --cast")
        self._settle_renames()
        order = dataset.reading.columns or (wanted and [n for n in wanted.names if n in self.types]) or self.types
        names = [*order, *(name for name in self.types if name not in order)]
        dataset.columns = {n: self.types[n] for n in names if n in self.types and n not in dataset.refused}

    def _settle_renames(self) -> None:
        for old, new in self.dataset.reading.renames.items():
            if new not in {*self.types, *self.dataset.nested} and not self.dataset.reading.columns:
                known = ", ".join(self.types)
                self._refuse(new, f"{self.dataset.name} has no column {old}; it has {known}", "mend --rename")

    def _refuse(self, name: str, fact: str, remedy: str) -> None:
        self.dataset.refused.add(name)
        self.dataset.problems.add(fact, remedy)


def is_nested(kind: pa.DataType) -> bool:
    """Whether a column holds lists or maps."""
    tests = pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_map
    return any(test(kind) for test in tests)


def _is_text(kind: pa.DataType) -> bool:
    """Whether an empty text is a value of a column."""
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def flattened(fields: pa.Schema) -> Iterator[tuple[tuple[str, ...], str, pa.DataType]]:
    """The columns of a schema, those of structs in their place: (path, name, type)."""

    def within(path: tuple[str, ...], one: pa.Field) -> Iterator[tuple[tuple[str, ...], str, pa.DataType]]:
        path = (*path, one.name)
        if pa.types.is_struct(one.type) and one.type.num_fields:
            for inner in one.type:
                yield from within(path, inner)
        else:
            yield path, ":".join(path), one.type

    for one in fields:
        yield from within((), one)


def _is_integer(text: str | None) -> bool:
    """Whether a folder's value is null or an int64 in its usual form: 007 is a text, which the number 7 would lose."""
    if text is None:
        return True
    digits = text.isascii() and text.removeprefix("-").isdecimal() and len(text) < 21
    return digits and -(2**63) <= int(text) < 2**63 and str(int(text)) == text
