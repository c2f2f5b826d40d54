"""Files of each format as tables: the schema that they were written with or that is inferred, and batches of rows.

format    read by             types
parquet   pyarrow.parquet     as written
arrow     pyarrow.ipc         as written; the file format and the stream format
csv       pyarrow.csv         inferred from the first 16 MiB; the delimiter is the commonest of , ; tab | in the head
json      pyarrow.json        one object a line, or a list of them; inferred from the first 16 MiB, or from all
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from pagestore.trees.reading import LARGE_WORDS, batch_rows
from pagestore.values.exact import damage_of

from .casts import cast_or_report
from .files import ARROW, CSV, JSON, PARQUET, Part
from .problems import DatasetError, Problems

BATCH_ROWS = 1 << 20  # many, since each distinct text of a batch is looked up once
BLOCK = 16 << 20  # bytes of text that are parsed at once
HEAD = 1 << 16  # bytes that show the delimiter
DELIMITERS = b",;\t|"
CODES = r"^[+-]?0\d+$", r"^[+-]?(0\d+|\d{16,})$"  # what would lose zeros in front as an integer, or digits as a float
MISSING = ["", "NA", "N/A", "NULL", "null", "NaN", "nan", "None"]  # in CSV, where the column is no text
Share = Callable[[], float]
Types = Mapping[str, pa.DataType]
Place = tuple[str, ...]


UNREADABLE = pa.ArrowException, OSError, UnicodeDecodeError, OverflowError  # what Arrow raises for damaged files


class Contradicted(Exception):
    """Rows of a file do not fit what its first rows let one suppose."""


class Opened(NamedTuple):
    """A file: its schema, `batches(columns)` that yields its rows, and `share()`, the part of it that was read.

    `untyped` says that the types are inferred, so that a text in it may be read as any other type. `may_lack` says
    whether a column, named by its place in structs, may have nulls, where a footer tells.
    """

    schema: pa.Schema
    batches: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]
    share: Share
    untyped: bool = False
    may_lack: Callable[[Place], bool] | None = None

    def lacking(self, places: Sequence[Place]) -> set[Place]:
        """Which columns may have nulls; of a file without such a footer its rows are read."""
        if self.may_lack is not None:
            return {place for place in places if self.may_lack(place)}
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


def open_part(part: Part, types: Types, problems: Problems, thorough: bool = True) -> Opened:
    """Open a file; `types` are those that its columns shall have, as far as that is known, for CSV and JSON.

    Unless `thorough`, the types of JSON are inferred from the first block; its batches raise Contradicted where a later
    one does not fit. Raises DatasetError for a file that is damaged. What is wrong with single rows goes into
    `problems`.
    """
    try:
        if part.format == JSON:
            return _open_json(part.file, types, thorough)
        opened = OPENERS[part.format](part.file, types, problems)
        _look_at_names(opened.schema)
        return opened
    except UNREADABLE as error:
        raise DatasetError(f"{part.file} does not read as {part.format}: {error}") from None


def _look_at_names(fields: Iterable[pa.Field]) -> None:
    """Raise UnicodeDecodeError where the name of a column, or of a field in one, is no UTF-8."""
    for field in fields:
        _ = field.name
        _look_at_names(field.type.field(i) for i in range(field.type.num_fields))


# --- formats with types of their own ------------------------------------------------------------


def _open_parquet(file: Path, types: Types, problems: Problems) -> Opened:
    try:  # in another unit, the range of INT96, which is Spark's default timestamp, overflows
        source = pq.ParquetFile(file, coerce_int96_timestamp_unit="us")
    except UNREADABLE as error:
        raise DatasetError(f"{file} is not a Parquet file, or was cut short: {error}") from None
    rows = [0]
    groups = [source.metadata.row_group(i) for i in range(source.metadata.num_row_groups)]
    groups = [group for group in groups if group.num_rows]  # an empty one has no statistics, and no nulls
    places = {groups[0].column(i).path_in_schema: i for i in range(groups[0].num_columns)} if groups else {}

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        rows[0] = 0
        for batch in source.iter_batches(_rows_of(len(columns)), columns=columns):
            yield batch
            rows[0] += len(batch)

    def may_lack(place: Place) -> bool:
        column = places.get(".".join(place))
        found = [None if column is None else group.column(column).statistics for group in groups]
        return any(one is None or one.null_count is None or one.null_count > 0 for one in found)

    def share() -> float:
        return rows[0] / max(1, int(source.metadata.num_rows))

    return Opened(source.schema_arrow, partial(_undamaged, file, batches), share, may_lack=may_lack)


def _open_arrow(file: Path, types: Types, problems: Problems) -> Opened:
    source = pa.memory_map(str(file))
    done = [0.0]
    try:
        with suppress(pa.ArrowException):
            reader = pa.ipc.open_file(source)

            def in_file(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
                for number in range(reader.num_record_batches):
                    yield from _cut(reader.get_batch(number).select(columns))
                    done[0] = (number + 1) / reader.num_record_batches

            return Opened(reader.schema, partial(_undamaged, file, in_file), lambda: done[0])
        source.seek(0)
        schema = pa.ipc.open_stream(source).schema
    except UNREADABLE as error:
        raise DatasetError(f"{file} is no Arrow file or stream, or was cut short: {error}") from None

    def in_stream(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        source.seek(0)
        for batch in pa.ipc.open_stream(source):
            yield from _cut(batch.select(columns))

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


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = _rows_of(batch.num_columns)
    for at in range(0, len(batch), rows):
        yield batch.slice(at, rows)


def _rows_of(columns: int) -> int:
    """How many rows of so many columns are a batch."""
    return batch_rows(columns, BATCH_ROWS, LARGE_WORDS)


# --- CSV ----------------------------------------------------------------------------------------


def _open_csv(file: Path, types: Types, problems: Problems) -> Opened:
    with _unpacked(file) as opened:
        head = opened.read(HEAD)
    first = head.split(b"\n", 1)[0]
    delimiter = chr(max(DELIMITERS, key=first.count))
    if not first.strip():
        raise DatasetError(f"{file} is empty: a CSV file has the names of its columns in the first line")
    names = _csv_reader(file, delimiter, {}, Problems()).schema.names
    for name in names:
        if names.count(name) > 1:
            raise DatasetError(f"{file} has two columns {name}: rename or leave out one in its first line")
    inferred = _inferred(file, delimiter, {name: kind for name, kind in types.items() if name in names})
    raw = [0.0]

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with open(file, "rb") as counted, _decoded(file, counted) as source:
            try:
                reader = _csv_reader(source, delimiter, inferred, problems, file, columns)
                for batch in reader:
                    raw[0] = counted.tell()
                    yield from _cut(batch)
            except UNREADABLE as error:
                if not _find_bad_texts(file, delimiter, {name: inferred[name] for name in columns}, problems):
                    raise DatasetError(f"{file}: {error}") from None

    size = max(1, file.stat().st_size)
    schema = pa.schema([pa.field(name, _parsed(inferred.get(name, pa.null()))) for name in names])
    return Opened(schema, batches, lambda: raw[0] / size, untyped=True)


def _inferred(file: Path, delimiter: str, types: Types) -> dict[str, pa.DataType]:
    """The types of a CSV file's columns: those given, else what all texts of the first block are."""
    try:
        block = next(iter(_csv_reader(file, delimiter, types, Problems())), None)
    except pa.ArrowInvalid:  # of a type that was given: it is told when all rows are read
        block = next(iter(_csv_reader(file, delimiter, {}, Problems())), None)
    if block is None:
        return dict(types)
    found = {field.name: field.type for field in block.schema}
    numbers = [name for name, kind in found.items() if name not in types and _is_number(kind)]
    if numbers:
        texts = next(iter(_csv_reader(file, delimiter, dict.fromkeys(numbers, pa.string()), Problems())))
        codes = [name for name in numbers if _holds_codes(texts[name], pa.types.is_floating(found[name]))]
        found.update(dict.fromkeys(codes, pa.string()))
    latin = [name for name, kind in found.items() if pa.types.is_binary(kind)]  # no UTF-8: it is told with its rows
    return {**found, **dict.fromkeys(latin, pa.string()), **types}


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _holds_codes(texts: pa.Array, as_float: bool) -> bool:
    """Whether a column of texts that read as numbers has one that would lose something as a number."""
    return bool(pc.any(pc.match_substring_regex(texts, CODES[as_float])).as_py())


def _csv_reader(
    source: Any, delimiter: str, types: Types, problems: Problems, file: Any = None, columns: Sequence[str] = (),
) -> pa.csv.CSVStreamingReader:  # fmt: skip
    """A reader of a file or stream; rows that have too many or too few values are left out, and are problems."""

    def wrong_width(row: Any) -> str:
        fact = f"{file}: {row.actual_columns} values where the head has {row.expected_columns} columns"
        problems.add_rows(fact, "quote what holds the delimiter, or mend the line", 1, None, row.text[:60])
        return "skip"

    return pyarrow.csv.open_csv(
        _unpacked(source) if isinstance(source, Path) else source,
        pyarrow.csv.ReadOptions(block_size=BLOCK),
        pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=wrong_width),
        pyarrow.csv.ConvertOptions(
            column_types={name: _parsed(kind) for name, kind in types.items() if not pa.types.is_null(kind)},
            include_columns=list(columns),
            null_values=MISSING,
            timestamp_parsers=[pyarrow.csv.ISO8601],
        ),
    )


def _parsed(kind: pa.DataType) -> pa.DataType:
    """The type that a column of CSV is read as: durations are not parsed."""
    return pa.string() if pa.types.is_duration(kind) else kind


def _find_bad_texts(file: Path, delimiter: str, types: Types, problems: Problems) -> bool:
    """Add the texts of a CSV file that are not of their column's type to the problems; False if there are none."""
    before, row = len(problems.found), 0
    binary = dict.fromkeys(types, pa.binary())
    for batch in _csv_reader(file, delimiter, binary, Problems()):
        for name, kind in types.items():
            texts = cast_or_report(batch[name], pa.string(), f"{file}: column {name}", row, problems, "is no UTF-8")
            if texts is not None and not pa.types.is_string(kind):
                known = pc.is_in(texts, pa.array(MISSING))
                cast_or_report(pc.if_else(known, None, texts), kind, f"{file}: column {name}", row, problems)
        row += len(batch)
    return len(problems.found) > before


# --- JSON lines ---------------------------------------------------------------------------------


def _open_json(file: Path, types: Types, thorough: bool) -> Opened:
    schema, head = _inferred_json(file, types, thorough)
    raw = [0.0]

    def batches(columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = pa.schema([schema.field(name) for name in columns])
        read = 0
        for number, block in enumerate(_lines(file)):
            table = head if number == 0 and head is not None else _parsed_json(file, block, schema, wanted, thorough)
            for batch in table.select(columns).to_batches():
                yield from _cut(batch)
            read += len(block)
            raw[0] = read

    size = max(1, file.stat().st_size)
    return Opened(schema, batches, lambda: min(1.0, raw[0] / size), untyped=True)


def _inferred_json(file: Path, types: Types, thorough: bool) -> tuple[pa.Schema, pa.Table | None]:
    """The types of a JSON file's columns, of all blocks or of the first one; that one, if it was read with these."""
    schema, blocks, head = pa.schema([]), 0, None
    for block in _lines(file):
        try:
            head = pyarrow.json.read_json(BytesIO(block))
            schema = pa.unify_schemas([schema, head.schema], promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise DatasetError(f"{file}: {error}") from None
        blocks += 1
        if not thorough:
            break
    if not schema.names:  # no row, which is none that is wrong
        schema = pa.schema(types.items())
    for place, one in enumerate(schema):  # beyond int64 whole numbers are inferred as floats, which lose digits
        if pa.types.is_floating(one.type) and types.get(one.name) == pa.uint64():
            schema = schema.set(place, one.with_type(pa.uint64()))
    return schema, head if blocks == 1 and head is not None and head.schema == schema else None


def _parsed_json(file: Path, block: bytes, schema: pa.Schema, wanted: pa.Schema, thorough: bool) -> pa.Table:
    """A block of JSON lines with the types of a schema, which has been inferred from this one, too, or not."""
    fields, unexpected = (wanted, "ignore") if thorough else (schema, "infer")
    options = pyarrow.json.ParseOptions(explicit_schema=fields, unexpected_field_behavior=unexpected)
    try:
        table = pyarrow.json.read_json(BytesIO(block), parse_options=options)
    except pa.ArrowInvalid as error:
        if not thorough:
            raise Contradicted(f"{file}: {error}") from None
        raise DatasetError(f"{file}: {error}") from None
    if table.schema != fields:
        raise Contradicted(f"{file} has other columns later")
    return table


def _lines(file: Path) -> Iterator[bytes]:
    """A file of lines as blocks of whole lines that are not empty; a list of objects as one such block."""
    with _unpacked(file) as source:
        rest = source.read(HEAD)
        if rest.lstrip()[:1] == b"[":
            try:
                rows = json.loads(rest + source.read())
            except ValueError as error:
                raise DatasetError(f"{file}: {error}") from None
            yield "".join(f"{json.dumps(row)}\n" for row in rows).encode()
            return
        while block := source.read(BLOCK):
            rest += block
            end = rest.rfind(b"\n") + 1
            if rest[:end].strip():
                yield rest[:end]
            rest = rest[end:]
        if rest.strip():
            yield rest


def _unpacked(file: Path) -> pa.NativeFile:
    return pa.input_stream(str(file), compression="detect")


def _decoded(file: Path, raw: Any) -> Any:
    """A raw stream, decompressed where the file's name says that it is packed."""
    packing = re.search(r"\.(gz|bz2|zst|lz4)$", file.name.lower())
    kinds = {"gz": "gzip", "bz2": "bz2", "zst": "zstd", "lz4": "lz4"}
    return pa.CompressedInputStream(raw, kinds[packing[1]]) if packing else pa.PythonFile(raw, "r")


OPENERS: dict[str, Callable[[Path, Types, Problems], Opened]] = {
    PARQUET: _open_parquet,
    ARROW: _open_arrow,
    CSV: _open_csv,
}
