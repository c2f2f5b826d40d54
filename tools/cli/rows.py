"""Print the rows of a relation, a view or an answer, or write them to a file, in one of several
formats.

table      aligned columns, with the number of rows; on a terminal the first 50, unless --limit says otherwise
csv        the names of the columns in the first line
json       one object a line
parquet    the types of the relation, compressed
arrow      an Arrow file, or on stdout an Arrow stream
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from pagestore import Relation
from pagestore.tooling import LARGE_WORDS, batch_rows, written

from .answers import as_json, counted, number, plain, spelt, table, tell
from .progress import Progress, made_ahead, pace

TABLE, CSV, JSON, PARQUET, ARROW = FORMATS = ("table", "csv", "json", "parquet", "arrow")
SUFFIXES = {
    ".csv": CSV, ".json": JSON, ".jsonl": JSON, ".ndjson": JSON, ".parquet": PARQUET,
    ".pq": PARQUET, ".arrow": ARROW, ".feather": ARROW, ".ipc": ARROW, ".txt": TABLE,
}  # fmt: skip
TERMINAL_ROWS = 50
Done = Callable[[int], None]  # called with the number of rows written
BATCH_ROWS = 1 << 20  # also the rows of a row group of Parquet
HEAD_ROWS = 1 << 16  # rows that show how values repeat


def row_options(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of commands that print rows."""
    parser.add_argument(
        "--limit", type=number, help=f"at most this many rows; a terminal shows {TERMINAL_ROWS}"
    )
    parser.add_argument(
        "--format", choices=FORMATS, help="how rows are written; else the name after -o says it"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the rows to a file, which appears when it is whole",
    )


def answer_rows(options: argparse.Namespace, source: Any, null: str = "null") -> None:
    """Print or write the rows of a relation or an answer as the options say; a table that is
    printed has `null`.
    """
    output, form = getattr(options, "output", None), _format(options)
    if output:
        with (
            Progress(f"write {output}", options.quiet) as progress,
            written(output, options.file) as out,
        ):
            rows = WRITERS[form](
                out, _limited(source, options.limit), _telling(progress, len(source))
            )
        if not options.quiet and not options.json:
            tell(f"{plain(output)}: {counted(rows, 'row')}")
    elif options.quiet and not options.json:
        return
    elif form == TABLE:
        _print_table(source, options.limit, null)
    elif sys.stdout.isatty() and form in (PARQUET, ARROW):
        raise argparse.ArgumentError(
            None, f"{form} is not a text for a terminal: name a file with -o, or use a pipe"
        )
    elif form == JSON:
        for row in _rows(_limited(source, options.limit)):
            print(as_json(row))
    elif sys.stdout.isatty():
        out = pa.BufferOutputStream()
        WRITERS[form](out, _limited(source, options.limit), _untold)
        tell(out.getvalue().to_pybytes().decode().rstrip("\n"))
    else:
        sys.stdout.flush()
        WRITERS[form](sys.stdout.buffer, _limited(source, options.limit), _untold)


def _format(options: argparse.Namespace) -> str:
    """Return the format of the options, or by the output's name. Raises argparse.ArgumentError."""
    given, output = getattr(options, "format", None), getattr(options, "output", None)
    if given or options.json or not output:
        return given or (JSON if options.json else TABLE)
    suffix = Path(output).suffix.lower()
    if suffix not in SUFFIXES:
        raise argparse.ArgumentError(
            None, f"{output}: its name does not say the format; give --format"
        )
    return SUFFIXES[suffix]


def _limited(source: Any, limit: int | None) -> pa.RecordBatchReader:
    # in large batches, since each distinct text of one is looked up once
    if isinstance(source, Relation):
        rows = batch_rows(len(source.schema.columns), BATCH_ROWS, LARGE_WORDS)
        rows = rows if limit is None else min(max(1, limit), rows)
        reader = pa.RecordBatchReader.from_batches(
            source.schema.arrow, made_ahead(source.batches(rows))
        )
    else:
        reader = pa.RecordBatchReader.from_stream(source)
    if limit is None:
        return reader
    return pa.RecordBatchReader.from_batches(reader.schema, _first(reader, limit))


def _first(reader: pa.RecordBatchReader, limit: int) -> Iterator[pa.RecordBatch]:
    while limit > 0 and (batch := next(reader, None)) is not None:
        yield batch.slice(0, limit)
        limit -= len(batch)


def _rows(reader: pa.RecordBatchReader) -> Iterator[dict[str, Any]]:
    for batch in reader:
        columns = [
            _spelt(column) if pa.types.is_interval(column.type) else column
            for column in batch.columns
        ]
        yield from pa.RecordBatch.from_arrays(columns, batch.schema.names).to_pylist()


def _telling(progress: Progress, total: int) -> Done:
    """Return a function that shows how many rows of `total` are written."""
    began = time.perf_counter()
    return lambda rows: progress(pace(rows, rows / max(1, total), time.perf_counter() - began))


def _untold(rows: int) -> None:
    """Do nothing with the number of rows written."""


# --- formats ------------------------------------------------------------------------------------


def _print_table(source: Any, limit: int | None, null: str) -> None:
    if limit is None and sys.stdout.isatty():
        limit = TERMINAL_ROWS
    reader = _limited(source, limit)
    names = reader.schema.names
    rows = (zip(*(column.to_pylist() for column in batch.columns), strict=True) for batch in reader)
    shown = [tuple(map(cell, row)) for row in chain.from_iterable(rows)]
    count = len(source)
    tell(table(shown, tuple(names), null=null))
    more = f", {len(shown):,} shown: --limit {count} shows all, -o FILE writes them" * (
        len(shown) < count
    )
    tell(f"{counted(count, 'row')}{more}")


def cell(value: object) -> object:
    """Return a value as rules write it, but without quotes; an interval as SQL does."""
    if isinstance(value, pa.MonthDayNano):
        return interval(*value)
    return str(value).lower() if isinstance(value, bool) else value


def interval(months: int, days: int, nanoseconds: int) -> str:
    """Return an interval as SQL writes it.

    >>> interval(0, 2, -60_500_000_000), interval(0, 0, 0)
    ('2 days -00:01:00.5', '00:00:00')
    """
    parts = [
        f"{count} {unit}{'s' * (abs(count) != 1)}"
        for count, unit in ((months, "month"), (days, "day"))
        if count
    ]
    if nanoseconds or not parts:
        seconds, rest = divmod(abs(nanoseconds), 10**9)
        time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        parts.append(f"{'-' * (nanoseconds < 0)}{time}{f'.{rest:09}'.rstrip('.0')}")
    return " ".join(parts)


def _write_table(out: IO[bytes], reader: pa.RecordBatchReader, _done: Done) -> int:
    rows = [tuple(map(cell, row.values())) for row in _rows(reader)]
    out.write(f"{table(rows, tuple(reader.schema.names), fits=False)}\n".encode())
    return len(rows)


def _write_json(out: IO[bytes], reader: pa.RecordBatchReader, _done: Done) -> int:
    rows = 0
    for row in _rows(reader):
        out.write(f"{as_json(row)}\n".encode())
        rows += 1
    return rows


def _write_csv(out: IO[bytes], reader: pa.RecordBatchReader, done: Done) -> int:
    kinds = [pa.string() if _is_spelt(kind) else kind for kind in reader.schema.types]
    schema = pa.schema(list(zip(reader.schema.names, kinds, strict=True)))

    def write(batch: pa.RecordBatch) -> None:
        writer.write(pa.RecordBatch.from_arrays([*map(_spelt, batch.columns)], schema=schema))

    with pyarrow.csv.CSVWriter(out, schema) as writer:
        return _copied(reader, write, done)


def _is_spelt(kind: pa.DataType) -> bool:
    """Return whether Arrow cannot write a type to CSV exactly."""
    tests = pa.types.is_decimal, pa.types.is_duration, pa.types.is_binary, pa.types.is_interval
    return any(test(kind) for test in tests)


def _spelt(column: pa.Array) -> pa.Array:
    """Convert a column to texts if Arrow cannot write it to CSV; bytes become hex digits."""
    if not _is_spelt(column.type):
        return column
    if pa.types.is_decimal(column.type):
        return column.cast(pa.string())
    return pa.array(
        [None if value is None else spelt(cell(value)) for value in column.to_pylist()], pa.string()
    )


def _write_parquet(out: IO[bytes], reader: pa.RecordBatchReader, done: Done) -> int:
    first = [*islice(reader, 1)]
    with pq.ParquetWriter(out, reader.schema, compression="zstd", **_encodings(first)) as writer:
        return _copied(chain(first, reader), writer.write_batch, done)


def _encodings(first: Sequence[pa.RecordBatch]) -> dict[str, Any]:
    """Choose the encodings of columns by a first batch: a dictionary if values repeat, else it
    costs time and space.

    Other columns of integers, dates and times are delta-encoded.
    """
    head = {name: batch.column(name)[:HEAD_ROWS] for batch in first for name in batch.schema.names}
    repeated = [name for name, column in head.items() if 2 * len(column.unique()) <= len(column)]
    others = {name: column.type for name, column in head.items() if name not in repeated}
    differences = {name: "DELTA_BINARY_PACKED" for name, kind in others.items() if _is_whole(kind)}
    return {"use_dictionary": repeated, "column_encoding": differences}


def _is_whole(kind: pa.DataType) -> bool:
    """Return whether Parquet stores values of a type as integers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_temporal(kind))


def _write_arrow(out: IO[bytes], reader: pa.RecordBatchReader, done: Done) -> int:
    if getattr(out, "name", None) and out is not sys.stdout.buffer:
        new = pa.ipc.new_file
    else:
        new = pa.ipc.new_stream
    with new(out, reader.schema) as writer:
        return _copied(reader, writer.write_batch, done)


def _copied(
    batches: Iterable[pa.RecordBatch], write: Callable[[pa.RecordBatch], None], done: Done
) -> int:
    rows = 0
    for batch in batches:
        write(batch)
        rows += len(batch)
        done(rows)
    return rows


WRITERS: dict[str, Callable[[Any, pa.RecordBatchReader, Done], int]] = {
    TABLE: _write_table, JSON: _write_json, CSV: _write_csv, PARQUET: _write_parquet,
    ARROW: _write_arrow,
}  # fmt: skip
