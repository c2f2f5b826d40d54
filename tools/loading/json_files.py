"""Read JSON files: one object a line, or a list of objects. Numbers are kept as written, texts are
texts.

    a block of lines ─┬▶ Arrow reads it with the wanted types, if it can keep all values exactly:
    whole numbers,
                      │  decimals, texts, booleans, and floats of few digits
                      └▶ else Python does, each number as it is written (json_values.py)

A column without a wanted type has one that fits all rows: int64, uint64 or float64 for numbers,
string for texts.
"""

import json
from collections.abc import Iterator, Sequence
from heapq import merge
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from pagestore.tooling import is_utf8

from .casts import DatasetError, Problems, Record
from .json_values import (
    DECODER,
    NoType,
    Rows,
    as_wanted,
    merged,
    numbered,
    records_in,
    rows_in,
    shape_of,
    space_end,
)
from .opened import BLOCK, Contradicted, Opened, Wanted, cut, is_nested, leaves_of, with_leaves
from .text_stream import TextStream
from .texts import EXACT_FLOAT

HEAD = 1 << 16  # bytes that show whether there is a list
LONG = 18  # digits of a number that a float may not keep
DIGIT = np.isin(np.arange(256), np.frombuffer(b"0123456789.", np.uint8))
CANNOT = pa.ArrowInvalid, pa.ArrowNotImplementedError


def open_json(file: Path, wanted: Wanted, problems: Problems) -> Opened:
    """Open a JSON file."""
    reader = _Json(file, wanted, problems)
    size = max(1, file.stat().st_size)
    return Opened(
        reader.schema,
        reader.batches,
        lambda: min(1.0, reader.read / size),
        untyped=True,
        records=reader.records,
        hints=tuple(reader.notes),
    )


class _Json:
    """A JSON file: the types of its columns, and its rows."""

    def __init__(self, file: Path, wanted: Wanted, problems: Problems) -> None:
        self.file, self.wanted, self.problems = file, wanted, problems
        self.read, self._aside = 0, problems.aside is not None
        self.notes: list[str] = []  # what goes aside by the types that are guessed
        self.schema, self.head = self._inferred()

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield some columns of the rows."""
        fields = pa.schema([self.schema.field(name) for name in columns])
        self.read, row = 0, 0
        for number, (line, block) in enumerate(self._blocks()):
            table = (
                self.head if number == 0 and self.head is not None else self._fast(block, fields)
            )
            if table is None:
                table = self._careful(block, fields, line, row)
            for batch in table.select(columns).to_batches():
                yield from cut(batch)
            row += len(table)
            self.read += len(block)

    def _inferred(self) -> tuple[pa.Schema, pa.Table | None]:
        """Return the types of all blocks, or of the first; and the first block's rows, if read
        with these types.
        """
        shape, head, count, types = pa.struct([]), None, 0, self.wanted.types
        for line, block in self._blocks():
            inferred, head = self._shape(block, line)
            try:
                shape = merged(shape, inferred, (), types)
            except NoType as error:
                raise DatasetError(f"{self.file}: {error}") from None
            count += 1
            if not self.wanted.thorough:
                break
        if not count:  # no rows, so none is wrong
            return pa.schema(
                [(name, kind) for name, kind in types.items() if not is_nested(kind)]
            ), None
        schema = pa.schema([(one.name, as_wanted(one.type, (one.name,), types)) for one in shape])
        exact = (
            count == 1
            and head is not None
            and head.schema.types == [read_as(field.type) for field in schema]
        )
        return schema, head if exact else None

    def _shape(self, block: bytes, line: int) -> tuple[pa.DataType, pa.Table | None]:
        """Return the types of a block's values, and its rows, if Arrow read them exactly."""
        try:
            head = pyarrow.json.read_json(BytesIO(block))
        except CANNOT:
            head = None
        if head is not None and _is_exact(block, head, self.wanted):
            return pa.struct(
                [(field.name, with_leaves(field.type, _plain)) for field in head.schema]
            ), head
        try:
            notes, objects = self.notes if self._aside else None, self._objects(block, line)
            return shape_of(objects, (), self.wanted.types, notes), None
        except NoType as error:
            # of the first block
            where = "" if error.row is None else f", line {self._line_of(error.row)}"
            raise DatasetError(f"{self.file}{where}: {error}") from None

    def _fast(self, block: bytes, fields: pa.Schema) -> pa.Table | None:
        """Return a block as Arrow reads it with the types; None if that would not be exact."""
        thorough = self.wanted.thorough
        schema = pa.schema(
            [(field.name, read_as(field.type)) for field in (fields if thorough else self.schema)]
        )
        options = pyarrow.json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="ignore" if thorough else "infer"
        )
        try:
            table = pyarrow.json.read_json(BytesIO(block), parse_options=options)
        except CANNOT:
            return None
        if table.schema != schema and not thorough:
            raise Contradicted(f"{self.file} has other columns later")
        return table if _is_exact(block, table, self.wanted) else None

    def _careful(self, block: bytes, fields: pa.Schema, line: int, row: int) -> pa.Table:
        """Return a block as Python reads it: numbers and texts as texts, as written."""
        objects = self._objects(block, line)
        known = {*self.schema.names}
        if not self.wanted.thorough and any(not known.issuperset(names) for names in objects):
            raise Contradicted(f"{self.file} has other columns later")
        return Rows(self.file, self.problems, self.wanted, row).table(objects, fields)

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield the file as blocks of lines, empty if not UTF-8 and bad rows are put aside."""
        for line, block in blocks_of(self.file, checked=not self._aside):
            if not self._aside or is_utf8(block):
                mended = block
            else:
                mended = b"\n".join(map(_mended, block.split(b"\n")))
            if mended is not block and self.problems.aside:
                self.problems.aside.skipped = True
            yield line, mended

    def _objects(self, block: bytes, line: int) -> list[dict[str, Any]]:
        """Return the objects of a block. Raises DatasetError for malformed JSON, unless bad rows
        are put aside.
        """
        if not self.problems.aside:
            return rows_in(self.file, block, line)
        objects = [*records_in(self.file, block, line, aside=True)]
        self.problems.aside.skipped |= any(record.fault for record in objects)
        return [record.values for record in objects if isinstance(record.values, dict)]

    def records(self) -> Iterator[Record]:
        """Yield the objects as they are written, and what is none with its fault, in the order
        of their lines.
        """
        if is_listed(self.file):
            yield from _listed(self.file)
            return
        for line, block in blocks_of(self.file, checked=False):
            lines = [*enumerate(block.split(b"\n"), line)]
            foreign = [
                Record(
                    number,
                    text.decode(errors="backslashreplace"),
                    "is not UTF-8, as JSON is: mend the line",
                )
                for number, text in lines
                if not is_utf8(text)
            ]
            mended = b"\n".join(_mended(text) for _, text in lines)
            for record in merge(
                foreign, records_in(self.file, mended, line, aside=True), key=lambda one: one.line
            ):
                yield record._replace(values=numbered(record.values))

    def _line_of(self, row: int) -> int:
        """Return the line in which an object begins, from 1."""
        return next(
            islice((record.line for record in self.records() if not record.fault), row, None), 1
        )


def read_as(kind: pa.DataType) -> pa.DataType:
    """Return the type as which Arrow reads values of a type: string, where it would guess."""

    def read(leaf: pa.DataType) -> pa.DataType:
        exact = pa.types.is_boolean(leaf) or pa.types.is_decimal(leaf) or pa.types.is_null(leaf)
        return leaf if exact or leaf in (pa.int64(), pa.uint64(), pa.float64()) else pa.string()

    return with_leaves(kind, read)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type that Arrow inferred, with timestamps as strings."""
    return pa.string() if pa.types.is_timestamp(kind) else kind


def _is_exact(block: bytes, table: pa.Table, wanted: Wanted) -> bool:
    """Return whether Arrow read all numbers of a block as written; floats only with few digits."""
    leaves = [
        leaf for column in table.columns for chunk in column.chunks for leaf in leaves_of(chunk)
    ]
    try:
        for leaf in leaves:
            if pa.types.is_decimal(leaf.type):
                leaf.validate(full=True)
    except pa.ArrowInvalid:  # it has more digits than the type
        return False
    floats = [leaf for leaf in leaves if pa.types.is_floating(leaf.type)]
    if any(pc.any(pc.greater_equal(pc.abs(numbers), EXACT_FLOAT)).as_py() for numbers in floats):
        return False
    # wanted floats may be the nearest ones
    supposed = any(name not in wanted.types for name in table.column_names)
    return not (floats and supposed and has_long_number(block))


def has_long_number(block: bytes) -> bool:
    """Return whether a block has a number with more digits than a float keeps, without leading
    zeros. O(bytes).

    >>> [has_long_number(text) for text in (b"1234567890123456.78", b"0.12345678901234567, 9", b'"123456789012345678"')]
    [True, False, False]
    """
    data = np.frombuffer(block, np.uint8)
    edges = np.concatenate([[-1], np.flatnonzero(~DIGIT[data]), [len(data)]])
    starts, lengths = edges[:-1] + 1, np.diff(edges) - 1
    long = lengths >= LONG
    long[1:] &= data[edges[1:-1]] != ord('"')  # a text begins with it
    long[long] &= (data[starts[long]] != ord("0")) | (lengths[long] >= LONG + 2)  # as in 0.5
    starts, lengths = starts[long], lengths[long]
    letters, places = data[starts[:, None] + np.arange(LONG)], np.arange(LONG)
    first = np.argmax((letters != ord("0")) & (letters != ord(".")), axis=1)
    pointed = ((letters == ord(".")) & (places > first[:, None])).any(axis=1)
    return bool((lengths - first - pointed >= LONG).any())


# --- blocks -------------------------------------------------------------------------------------


def blocks_of(file: Path, checked: bool = True) -> Iterator[tuple[int, bytes]]:
    """Yield a file as blocks of whole lines that are not empty, each with the number of its first
    line, from 1.

    Elements of a list become lines. Raises DatasetError for a malformed list, and if `checked`, for
    bytes that are not UTF-8.
    """
    with TextStream(file) as source:
        rest, line = source.read(HEAD), 1
        while rest and not rest.strip() and (more := source.read(BLOCK)):
            rest += more
        if rest.lstrip()[:1] == b"[":
            yield from _elements(file, _checked(file, rest + source.read(), line).decode())
            return
        while block := source.read(BLOCK):
            rest += block
            end = rest.rfind(b"\n") + 1
            if rest[:end].strip():
                yield line, _checked(file, rest[:end], line) if checked else rest[:end]
            line += rest.count(b"\n", 0, end)
            rest = rest[end:]
        if rest.strip():
            yield line, _checked(file, rest, line) if checked else rest


def _mended(line: bytes) -> bytes:
    """Return a line, or an empty one in place of one that is not UTF-8."""
    return line if is_utf8(line) else b""


def _checked(file: Path, block: bytes, line: int) -> bytes:
    """Return the block if it is UTF-8. Raises DatasetError if not."""
    try:
        block.decode()
    except UnicodeDecodeError as error:
        line += block.count(b"\n", 0, error.start)
        bad = block[error.start : error.end]
        raise DatasetError(
            f"{file}, line {line}: {bad!r} is not UTF-8, as JSON is: write the file in it"
        ) from None
    return block


def _elements(file: Path, text: str) -> Iterator[tuple[int, bytes]]:
    """Yield the elements of a list as blocks of lines."""
    lines, size, number = list[str](), 0, 1
    for start, end in spans_of(file, text):
        lines.append(text[start:end].replace("\r", " ").replace("\n", " "))
        size += end - start
        if size >= BLOCK:
            yield number, "\n".join(lines).encode()
            number += len(lines)
            lines, size = [], 0
    if lines:
        yield number, "\n".join(lines).encode()


def spans_of(file: Path, text: str) -> Iterator[tuple[int, int]]:
    """Yield where each object of a text begins and ends; they are in a list or concatenated.
    Raises DatasetError.
    """
    scan = json.JSONDecoder(parse_float=str, parse_int=str).raw_decode
    at = space_end(text, 0)
    listed = text[at : at + 1] == "["
    at = space_end(text, at + listed)
    more = not listed or text[at : at + 1] != "]"
    try:
        while more and (listed or at < len(text)):
            _, end = scan(text, at)
            yield at, end
            at = space_end(text, end)
            more = not listed or text[at : at + 1] == ","
            at = space_end(text, at + (listed and more))
        if listed and (text[at : at + 1] != "]" or space_end(text, at + 1) < len(text)):
            raise ValueError("a comma is missing, or something follows the list")
    except (ValueError, RecursionError) as error:
        line = 1 + text.count("\n", 0, getattr(error, "pos", at))
        raise DatasetError(
            f"{file}, line {line}: no JSON: {getattr(error, 'msg', error)}: mend the line"
        ) from None


def is_listed(file: Path) -> bool:
    """Return whether a file is a list, rather than one object a line."""
    with TextStream(file) as source:
        head = source.read(HEAD)
        while head and not head.strip() and (more := source.read(BLOCK)):
            head = more
    return head.lstrip()[:1] == b"["


def _listed(file: Path) -> Iterator[Record]:
    """Yield the objects of a list, each with its line."""
    with TextStream(file) as source:
        text = source.read().decode()
    line, counted = 1, 0
    for start, end in spans_of(file, text):
        line, counted = line + text.count("\n", counted, start), start
        yield Record(line, numbered(DECODER.decode(text[start:end])))
