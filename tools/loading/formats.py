"""Files of each format as tables: the schema that they were written with or that is inferred, and batches of rows.

format    read by             types
parquet   pyarrow.parquet     as written
arrow     pyarrow.ipc         as written; the file format and the stream format
csv       csv_files.py        those that are wanted, or that all rows have
json      json_files.py       likewise; one object a line, or a list of them
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pagestore.values.exact import damage_of
from pagestore.values.row_formats import unnamed_index

from .csv_files import Dialect, open_csv
from .files import ARROW, CSV, JSON, PARQUET, Part
from .json_files import open_json
from .opened import Opened, Place, Wanted, cut, rows_of
from .problems import DatasetError, Problems

UNREADABLE = pa.ArrowException, OSError, UnicodeDecodeError, OverflowError  # what Arrow raises for damaged files


def open_part(part: Part, wanted: Wanted, problems: Problems, dialect: Dialect) -> Opened:
    """Open a file; `dialect` says how one of CSV is written.

    Raises DatasetError for a file that is damaged. What is wrong with single rows goes into `problems`.
    """
    try:
        if part.format == JSON:
            return open_json(part.file, wanted, problems)
        if part.format == CSV:
            return open_csv(part.file, wanted, problems, dialect)
        opened = OPENERS[part.format](part.file)
        _look_at_names(opened.schema)
        index = unnamed_index(opened.schema)
        return opened._replace(schema=pa.schema([field for field in opened.schema if field.name not in index]))
    except UNREADABLE as error:
        raise DatasetError(f"{part.file} does not read as {part.format}: {error}") from None


def _look_at_names(fields: Iterable[pa.Field]) -> None:
    """Raise UnicodeDecodeError where the name of a column, or of a field in one, is no UTF-8."""
    for field in fields:
        _ = field.name
        _look_at_names(field.type.field(i) for i in range(field.type.num_fields))


# --- formats with types of their own ------------------------------------------------------------


def _open_parquet(file: Path) -> Opened:
    try:  # in another unit, the range of INT96, which is Spark's default timestamp, overflows
        source = pq.ParquetFile(file, coerce_int96_timestamp_unit="us", page_checksum_verification=True)
    except UNREADABLE as error:
        raise DatasetError(f"{file} is not a Parquet file, or was cut short: {error}") from None
    rows = [0]
    groups = [source.metadata.row_group(i) for i in range(source.metadata.num_row_groups)]
    groups = [group for group in groups if group.num_rows]  # an empty one has no statistics, and no nulls
    leaves = places_of(source.schema_arrow)
    places = {leaf: number for number, leaf in enumerate(leaves)} if len(leaves) == source.metadata.num_columns else {}

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        rows[0] = 0
        for batch in source.iter_batches(rows_of(len(columns)), columns=columns):
            yield batch
            rows[0] += len(batch)

    def may_lack(place: Place) -> bool:
        column = places.get(place)
        found = [None if column is None else group.column(column).statistics for group in groups]
        return any(one is None or one.null_count is None or one.null_count > 0 for one in found)

    def share() -> float:
        return rows[0] / max(1, int(source.metadata.num_rows))

    return Opened(source.schema_arrow, partial(_undamaged, file, batches), share, may_lack=may_lack)


def places_of(fields: Iterable[pa.Field]) -> list[Place]:
    """The places of the plain values in structs, lists and maps, in the order in which Parquet has their columns.

    >>> places_of(pa.schema({"a.b": pa.int64(), "a": pa.struct({"b": pa.int64()}), "c": pa.list_(pa.int64())}))
    [('a.b',), ('a', 'b'), ('c', 'item')]
    """
    found: list[Place] = []
    for field in fields:
        inner = [field.type.field(i) for i in range(field.type.num_fields)]
        found += [(field.name, *place) for place in places_of(inner)] if inner else [(field.name,)]
    return found


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
        raise DatasetError(f"{file} is no Arrow file or stream, or was cut short: {error}") from None

    def in_stream(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        source.seek(0)
        for batch in pa.ipc.open_stream(source):
            yield from cut(batch.select(columns))

    return Opened(schema, partial(_undamaged, file, in_stream), lambda: source.tell() / max(1, source.size()))


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
