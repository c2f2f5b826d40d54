"""A folder of Parquet files as Spark leaves it: files in name order, partition folders, clean typed batches.

    trips/_SUCCESS                                       the job ended well; its absence is worth a note
    trips/month=11/part-00000-<uuid>-c000.zstd.parquet   month is a column, its value is in the folder's name
    trips/month=__HIVE_DEFAULT_PARTITION__/part-…        where it is null; other values are percent-encoded

A name that starts with `_` or `.` is not data. Every column becomes one of pagestore's types, so each file is read with
the same Arrow schema; a column of another type is refused with the file, the column and the remedy.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pagestore.errors import PagestoreError

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
BATCH_ROWS = 1 << 16


class DatasetError(PagestoreError, ValueError):
    """The Parquet files cannot become a relation as they are; says which file, and what to do."""


class Part(NamedTuple):
    """One file, and the values of the partition columns that its folders name."""

    file: Path
    values: dict[str, str | None]


@dataclass
class Dataset:
    """The files under `path`, with one Arrow type per column. `notes` are warnings for the user."""

    path: Path
    parts: list[Part]
    columns: dict[str, pa.DataType]
    notes: list[str] = field(default_factory=list)
    dropped: int = 0
    fill: dict[str, pa.Scalar] = field(default_factory=dict)

    def may_lack(self, name: str) -> bool:
        """Whether a column may have nulls, as far as the files' footers say; none has that is filled."""
        return name not in self.fill and any(_may_lack(part, name) for part in self.parts)

    def fill_with(self, values: Mapping[str, str]) -> None:
        """Let values stand for the nulls of columns. Raises DatasetError for one that is none of its column."""
        for name, text in values.items():
            if name not in self.columns:
                raise DatasetError(f"{self.path}: no column {name} to fill; there are {', '.join(self.columns)}")
            try:
                self.fill[name] = pa.scalar(text).cast(self.columns[name])
            except pa.ArrowInvalid as error:
                raise DatasetError(f"{self.path}: {text!r} is no value of column {name}: {error}") from None

    def batches(self, nulls: str = "refuse", key: Collection[str] = ()) -> Iterator[pa.RecordBatch]:
        """All rows in file order, without NaN and nulls; with `nulls="keep"` columns that are no key may have nulls.

        `nulls="drop"` leaves out rows with a null and counts them. Raises DatasetError with the file, the column and
        the row (from 0) of the first value that is refused.
        """
        for part in self.parts:
            first_row = 0
            source = _open(part.file)
            for raw in _batches(part.file, source):
                batch = self._typed(part, raw)
                yield self._without_nulls(part.file, batch, first_row, nulls, key)
                first_row += len(raw)

    def _typed(self, part: Part, raw: pa.RecordBatch) -> pa.RecordBatch:
        arrays = []
        for name, kind in self.columns.items():
            if name in part.values:
                array: pa.Array = pa.repeat(pa.scalar(part.values[name], pa.string()), len(raw))
            else:
                array = raw.column(name)
            try:
                array = array.cast(kind)
                arrays.append(array.fill_null(self.fill[name]) if name in self.fill else array)
            except pa.ArrowInvalid as error:
                raise DatasetError(
                    f"{part.file}: column {name} does not fit {kind}: {error}: cast it in the job"
                ) from None
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))

    def _without_nulls(
        self, file: Path, batch: pa.RecordBatch, first_row: int, nulls: str, key: Collection[str]
    ) -> pa.RecordBatch:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if column.null_count and (nulls == "refuse" or (nulls == "keep" and name in key)):
                row = first_row + pc.index(column.is_null(), True).as_py()
                reason = "a key is never null" if name in key else "nulls are refused"
                raise DatasetError(
                    f"{file}: column {name} is null in row {row}: {reason}; "
                    f"fill them with --fill {name}=VALUE, or drop such rows with --nulls drop"
                )
            if pa.types.is_floating(column.type) and (row := pc.index(pc.is_nan(column), True).as_py()) >= 0:
                raise DatasetError(
                    f"{file}: column {name} is NaN in row {first_row + row}: "
                    "NaN has no place in an order; filter it in the job"
                )
        kept = batch if nulls == "keep" else batch.drop_null()
        self.dropped += len(batch) - len(kept)
        return kept


def open_dataset(path: str | Path, utc: bool = False) -> Dataset:
    """Read the files' names and footers, but no rows. Raises DatasetError if the files do not make one table.

    With `utc`, timestamps with a time zone are read in UTC without it, else refused.
    """
    root = Path(path)
    parts = _parts(root)
    columns: dict[str, pa.DataType] = {}
    for part in parts:
        schema = _open(part.file).schema_arrow
        for name in schema.names:
            if schema.names.count(name) > 1:
                raise DatasetError(f"{part.file} has two columns {name}: rename or leave out one in the job")
        found = {f.name: _column_type(part.file, f, utc) for f in schema}
        for name in found.keys() & part.values.keys():
            raise DatasetError(f"{part.file} has a column {name}, as its folder's name has: leave out one in the job")
        found |= {name: columns.get(name, pa.string()) for name in part.values}
        _check_alike(parts[0].file, columns or found, part.file, found)
        columns = columns or found
    for name in parts[0].values:
        if all(_is_integer(part.values.get(name)) for part in parts):
            columns[name] = pa.int64()
    dataset = Dataset(root, parts, columns)
    if root.is_dir() and not (root / "_SUCCESS").exists():
        dataset.notes.append(f"{root} has no _SUCCESS: the job that wrote it may have failed half way")
    return dataset


def _parts(root: Path) -> list[Part]:
    if root.is_file():
        return [Part(root, {})]
    if not root.is_dir():
        raise DatasetError(f"{root}: no such file or folder")
    parts = []
    for file in _files(root):
        folders = (name.split("=", 1) for name in file.relative_to(root).parts[:-1] if "=" in name)
        values: dict[str, str | None] = {}
        for name, value in ((unquote(name), value) for name, value in folders):
            if name in values:
                raise DatasetError(f"{file} is in two folders {name}=: leave out one in the job")
            values[name] = None if value == NULL_FOLDER else unquote(value)
        parts.append(Part(file, values))
    if not parts:
        raise DatasetError(f"{root} holds no Parquet file: is it the folder that the job wrote?")
    return parts


def _files(folder: Path, above: frozenset[Path] = frozenset()) -> Iterator[Path]:
    """The files in a folder and below, in order of names; links are followed, and files that Spark hides left out."""
    real = folder.resolve()
    if real in above:
        raise DatasetError(f"{folder} is a link back to a folder that it is in: remove it")
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(("_", ".")):
            continue
        if entry.is_dir():
            yield from _files(entry, above | {real})
        elif entry.is_file():
            yield entry
        else:
            raise DatasetError(f"{entry} is no file, or a link to one that is gone: put it back, or remove it")


def _open(file: Path) -> pq.ParquetFile:
    try:  # in another unit, the range of INT96, which is Spark's default timestamp, overflows
        return pq.ParquetFile(file, coerce_int96_timestamp_unit="us")
    except pa.ArrowInvalid as error:
        raise DatasetError(f"{file} is not a Parquet file, or was cut short: {error}") from None


def _batches(file: Path, source: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    try:
        yield from source.iter_batches(BATCH_ROWS, columns=source.schema_arrow.names)
    except (pa.ArrowInvalid, OSError) as error:
        raise DatasetError(f"{file} is damaged: {error}: let the job write it again") from None


def _column_type(file: Path, column: pa.Field, utc: bool) -> pa.DataType:
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_boolean(kind) or pa.types.is_date32(kind):
        return kind
    if pa.types.is_timestamp(kind) and kind.tz is not None and not utc:
        raise DatasetError(
            f"{file}: column {column.name} has the time of a zone, which a relation does not keep: "
            "cast it to a timestamp without one in the job, or take it in UTC with --utc"
        )
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us")  # Parquet holds timestamps with a zone in UTC
    if pa.types.is_decimal(kind) and kind.precision <= 18:
        return pa.decimal128(kind.precision, kind.scale)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    remedy = (
        "cast it to decimal(18, s) in the job" if pa.types.is_decimal(kind) else "cast it or leave it out in the job"
    )
    raise DatasetError(f"{file}: column {column.name} has type {kind}, which a relation cannot hold: {remedy}")


def _check_alike(first: Path, expected: dict[str, pa.DataType], file: Path, found: dict[str, pa.DataType]) -> None:
    for name in expected.keys() ^ found.keys():
        has, lacks = (first, file) if name in expected else (file, first)
        raise DatasetError(f"{lacks} has no column {name}, but {has} has: write both with one job")
    for name, kind in found.items():
        if kind != expected[name]:
            raise DatasetError(
                f"{file}: column {name} is {kind}, but it is {expected[name]} in {first}: cast it in the job"
            )


def _may_lack(part: Part, name: str) -> bool:
    """Whether a file's footer leaves it open that a column has nulls."""
    if name in part.values:
        return part.values[name] is None
    source = _open(part.file)
    place = source.schema_arrow.get_field_index(name)
    if not source.schema_arrow.field(place).nullable:
        return False
    groups = (source.metadata.row_group(i).column(place) for i in range(source.metadata.num_row_groups))
    counts = [group.statistics.null_count if group.statistics else None for group in groups]
    return any(count is None or count > 0 for count in counts)


def _is_integer(text: str | None) -> bool:
    """Whether a folder's value is null or an int64 in its usual form: 007 is a text, which the number 7 would lose."""
    if text is None:
        return True
    digits = text.isascii() and text.removeprefix("-").isdecimal() and len(text) < 21
    return digits and -(2**63) <= int(text) < 2**63 and str(int(text)) == text
