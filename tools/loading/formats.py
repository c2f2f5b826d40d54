"""Open files of each format as tables: their schema, written or inferred, and batches of rows.

format    read by             types
parquet   pyarrow.parquet     as written
arrow     pyarrow.ipc         as written; the file format and the stream format
csv       csv_files.py        those that are wanted, or that fit all rows
json      json_files.py       likewise; one object a line, or a list of them
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pagestore.tooling import damage_of, unnamed_index

from .casts import DatasetError, Problems
from .csv_files import Dialect, open_csv
from .files import ARROW, CSV, JSON, PARQUET, Part
from .json_files import open_json
from .opened import Opened, Place, Wanted, cut, rows_of

SECONDS = "interval (day|hour|minute|second)( to (hour|minute|second))?"  # in Spark's words
MONTHS = "an interval of months", "write it as a number of months, or leave it out with --columns"
INTERVAL = (
    "an INTERVAL, of months, days and milliseconds",
    "write the two moments, or leave it out with --columns",
)
VARIANT = (
    "a VARIANT",
    "take out its values, or write it as text, as by to_json, or leave it out with --columns",
)
# what Arrow raises for damaged files
UNREADABLE = pa.ArrowException, OSError, UnicodeDecodeError, OverflowError


def open_part(part: Part, wanted: Wanted, problems: Problems, dialect: Dialect) -> Opened:
    """Open a file; `dialect` is for CSV files.

    Raises DatasetError for a damaged file. Problems of single rows are added to `problems`.
    """
    try:
        if part.format == JSON:
            return open_json(part.file, wanted, problems)
        if part.format == CSV:
            return open_csv(part.file, wanted, problems, dialect)
        opened = OPENERS[part.format](part.file)
        _look_at_names(opened.schema)
        index = unnamed_index(opened.schema)
        return opened._replace(
            schema=pa.schema([field for field in opened.schema if field.name not in index])
        )
    except UNREADABLE as error:
        raise DatasetError(f"{part.file} does not read as {part.format}: {error}") from None


def _look_at_names(fields: Iterable[pa.Field]) -> None:
    """Raise UnicodeDecodeError if the name of a column, or of a field in one, is not UTF-8."""
    for field in fields:
        _ = field.name
        _look_at_names(field.type.field(i) for i in range(field.type.num_fields))


# --- formats with types of their own ------------------------------------------------------------


def _open_parquet(file: Path) -> Opened:
    try:  # INT96, Spark's default timestamp, would overflow in another unit
        source = pq.ParquetFile(
            file, coerce_int96_timestamp_unit="us", page_checksum_verification=True
        )
    except UNREADABLE as error:
        raise DatasetError(f"{file} is not a Parquet file, or was cut short: {error}") from None
    rows, refused = [0], _refused(source)
    meant = {name: kind for name, kind in _meant(source).items() if name not in refused}
    kinds = {**meant, **dict.fromkeys(refused, pa.binary())}
    given = source.schema_arrow
    schema = pa.schema(
        [field.with_type(kinds.get(field.name, field.type)) for field in given], given.metadata
    )

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        rows[0] = 0
        for batch in source.iter_batches(rows_of(len(columns)), columns=columns):
            yield pa.RecordBatch.from_arrays(
                [
                    array.view(meant[name]) if name in meant else array
                    for name, array in zip(batch.schema.names, batch.columns, strict=True)
                ],
                names=batch.schema.names,
            )
            rows[0] += len(batch)
        if columns and rows[0] != source.metadata.num_rows:  # a column ends before the others
            raise pa.ArrowInvalid(f"{rows[0]} rows, and {source.metadata.num_rows} by its footer")

    def share() -> float:
        return rows[0] / max(1, int(source.metadata.num_rows))

    return Opened(
        schema,
        partial(_undamaged, file, batches),
        share,
        lacks=partial(_lacking, source, file),
        refused=refused,
    )


def _meant(source: pq.ParquetFile) -> dict[str, pa.DataType]:
    """Return the types of columns that Spark's note in the footer tells, and Parquet's types do
    not.

    Spark's `timestamp` is a moment, which INT96 has in UTC, and an interval of days to seconds is
    in microseconds.
    """
    schema, types = source.schema_arrow, dict[str, pa.DataType]()
    for name, kind in _spark_types(source).items():
        there = schema.field(name).type if schema.get_field_index(name) >= 0 else None
        if kind == "timestamp" and there == pa.timestamp("us"):
            types[name] = pa.timestamp("us", "UTC")
        elif there == pa.int64() and re.fullmatch(SECONDS, kind):
            types[name] = pa.duration("us")
    return types


def _refused(source: pq.ParquetFile) -> dict[str, tuple[str, str]]:
    """Return the columns of intervals or VARIANTs, whose parts say nothing, each with a remedy."""
    refused = {
        name: MONTHS
        for name, kind in _spark_types(source).items()
        if re.fullmatch("interval (year|month).*", kind)
    }
    refused |= {name: VARIANT for name, kind in _spark_types(source).items() if kind == "variant"}
    for field in source.schema_arrow:
        if pa.types.is_struct(field.type):
            parts = [field.name for field in field.type if field.type == pa.binary()]
        else:
            parts = []
        # as all writers lay it out
        if {*parts} >= {"metadata", "value"} and field.type.num_fields <= 3:
            refused[field.name] = VARIANT
    columns = map(source.schema.column, range(len(source.schema.names)))
    return refused | {
        column.path: INTERVAL for column in columns if column.converted_type == "INTERVAL"
    }


def _spark_types(source: pq.ParquetFile) -> dict[str, str]:
    """Return the names of columns' plain types by Spark's note in the footer, if there is one."""
    note = (source.metadata.metadata or {}).get(b"org.apache.spark.sql.parquet.row.metadata")
    try:
        fields = json.loads(note)["fields"] if note else []
        return {field["name"]: field["type"] for field in fields if isinstance(field["type"], str)}
    except (ValueError, KeyError, TypeError):  # some other note
        return {}


def _lacking(source: pq.ParquetFile, file: Path, wanted: Sequence[Place]) -> set[Place]:
    """Return the columns that may have nulls, by the footer. Raises DatasetError."""
    leaves, lacking = places_of(source.schema_arrow), set[Place]()
    if len(leaves) == source.metadata.num_columns:
        places = {leaf: number for number, leaf in enumerate(leaves)}
    else:
        places = {}
    top = [*dict.fromkeys(place[0] for place in wanted)]
    try:
        for number in range(source.metadata.num_row_groups):
            group = source.metadata.row_group(number)
            if not group.num_rows:  # it has no statistics, and no nulls
                continue
            # raises for most damage; statistics are read without a check
            next(source.iter_batches(1, [number], top), None)
            for place in wanted:
                statistics = _statistics(source, group, places[place]) if place in places else None
                if statistics is None or statistics.null_count is None or statistics.null_count > 0:
                    lacking.add(place)
    except UNREADABLE as error:
        raise DatasetError(f"{file} is damaged: {error}: let the job write it again") from None
    return lacking


def _statistics(
    source: pq.ParquetFile, group: pq.RowGroupMetaData, column: int
) -> pq.Statistics | None:
    """Return the footer's statistics of a column in a row group. Raises pa.ArrowInvalid."""
    there, expected = group.column(column), source.schema.column(column)
    if there.physical_type != expected.physical_type:  # pyarrow would not check that
        raise pa.ArrowInvalid(
            f"column {expected.path} is {expected.physical_type}, and {there.physical_type} in a group"
        )
    return there.statistics


def places_of(fields: Iterable[pa.Field]) -> list[Place]:
    """Return the paths of the plain values in structs, lists and maps, in the order of Parquet's
    columns.

    >>> places_of(pa.schema({"a.b": pa.int64(), "a": pa.struct({"b": pa.int64()}), "c": pa.list_(pa.int64())}))
    [('a.b',), ('a', 'b'), ('c', 'item')]
    """
    places: list[Place] = []
    for field in fields:
        inner = [field.type.field(i) for i in range(field.type.num_fields)]
        places += [(field.name, *place) for place in places_of(inner)] if inner else [(field.name,)]
    return places


def _open_arrow(file: Path) -> Opened:
    source = pa.memory_map(str(file))
    done = [0.0]
    try:
        with suppress(pa.ArrowException):
            reader = pa.ipc.open_file(source)

            def in_file(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
                for number in range(reader.num_record_batches):
                    yield from cut(reader.get_batch(number).select(columns))
                    done[0] = (number + 1) / reader.num_record_batches

            return Opened(reader.schema, partial(_undamaged, file, in_file), lambda: done[0])
        source.seek(0)
        schema = pa.ipc.open_stream(source).schema
    except UNREADABLE as error:
        raise DatasetError(
            f"{file} is not an Arrow file or stream, or was cut short: {error}"
        ) from None

    def in_stream(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        source.seek(0)
        for batch in pa.ipc.open_stream(source):
            yield from cut(batch.select(columns))

    return Opened(
        schema, partial(_undamaged, file, in_stream), lambda: source.tell() / max(1, source.size())
    )


def _undamaged(
    file: Path, batches: Callable[[Sequence[str]], Iterator[pa.RecordBatch]], columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    first_row = 0
    try:
        for batch in batches(columns):
            for name, array in zip(batch.schema.names, batch.columns, strict=True):
                if damage := damage_of(array):
                    row = "" if damage.row is None else f", row {damage.row + first_row}"
                    raise DatasetError(f"{file}: column {name}{row}: {damage.said}")
            first_row += len(batch)
            yield batch
    except UNREADABLE as error:
        raise DatasetError(f"{file} is damaged: {error}: let the job write it again") from None


OPENERS: dict[str, Callable[[Path], Opened]] = {PARQUET: _open_parquet, ARROW: _open_arrow}
