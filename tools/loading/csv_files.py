"""Read CSV files. All values are texts, which texts.py converts to the wanted types, or to types
that all of them fit.

what is read    by
bytes           text_stream.py, converted to UTF-8
rows            pyarrow.csv, all columns as texts; _Watched checks its quotes
torn lines      the csv module, if they go aside: lines whose quotes do not fit, each alone
types           those that are wanted, else the first of GUESSES that loses nothing of any text
"""

import codecs
import csv
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from pagestore.tooling import is_utf8

from ..cli.answers import counted
from .casts import DatasetError, Problems, Record, is_number, said, without
from .opened import BLOCK, Contradicted, Opened, Types, Wanted, cut
from .text_stream import TextStream
from .texts import dated, option_for, read_by, typed, ungrouped

HEAD = 1 << 20  # bytes in which the first row is looked for
FEW = 100  # texts that are tried first
DELIMITERS = ",;\t|"
TABBED = {".tsv", ".tab"}
# nulls in columns that are not texts
MISSING = ["", "NA", "N/A", "NULL", "null", "NaN", "nan", "None"]
GUESSES = [
    pa.int64(), pa.uint64(), pa.float64(), pa.bool_(), pa.date32(), pa.time64("us"),
    pa.timestamp("us"), pa.timestamp("us", "UTC"),
]  # fmt: skip
RARE = 100  # where rows may go aside, a column has a type that all but one value in so many have
FOREIGN = "say what the file is written in with --encoding, such as latin-1 or cp1252"
WIDTH = "quote what holds the delimiter, or mend the line"
UNCLOSED = (
    "a quote is not closed, or a text follows it in its column: double those within a text, or say "
    "with --quote '' that there are none"
)


class Dialect(NamedTuple):
    """How CSV files are written; what is None is detected.

    `nulls` are the texts that mean null in every column; those of MISSING do in columns that are
    not texts. `dates` are formats of dates and timestamps, as strptime takes them, in other
    formats, too. Without a `header`, columns are named by the relation, or column1, column2 and so
    on.
    """

    delimiter: str | None = None
    quote: str = '"'
    encoding: str | None = None
    nulls: tuple[str, ...] = ()
    header: bool = True
    decimal: str = "."
    thousands: str = ""
    dates: tuple[str, ...] = ()


def open_csv(file: Path, wanted: Wanted, problems: Problems, dialect: Dialect) -> Opened:
    """Open a CSV file."""
    reader = _Csv(file, wanted, problems, dialect)
    kinds = reader.inferred()
    schema = pa.schema([(name, kinds[name]) for name in reader.names])
    return Opened(
        schema,
        lambda columns: reader.batches(columns, kinds),
        reader.share,
        untyped=True,
        records=reader.records,
        hints=tuple(reader.hints),
    )


class _Guesses:
    """The types that a column may have, each with its misfits: texts that would lose something.

    There are none unless rows may go `aside`; then a type stays while misfits are rare.
    """

    def __init__(self, aside: bool) -> None:
        self.misfits: dict[pa.DataType, list[str]] = {kind: [] for kind in GUESSES}
        self._aside, self._seen = aside, 0

    def first(self) -> pa.DataType:
        """Return the first type without misfits, else the first that is left, else texts."""
        return min(self.misfits, key=lambda kind: bool(self.misfits[kind]), default=pa.string())

    def narrow(self, texts: pa.Array, takes: Callable[[pa.Array, pa.DataType], bool]) -> None:
        """Leave only types that take some more texts of the column, of which none is null."""
        self._seen += len(texts)
        for kind, bad in [*self.misfits.items()]:
            most = self._seen // RARE - len(bad) if self._aside else 0
            # Arrow is slow to reject many texts
            for some, limit in (texts[:FEW], min(most, FEW // 2)), (texts, most):
                more = _misfits(some, kind, limit, takes)
                if len(more) > limit:
                    del self.misfits[kind]
                    break
            else:
                bad += more


def _misfits(
    texts: pa.Array, kind: pa.DataType, most: int, takes: Callable[[pa.Array, pa.DataType], bool]
) -> list[str]:
    """Return the texts that lose something as values of a type, by halves; of more than `most`,
    `most` + 1 texts.
    """
    if takes(texts, kind):
        return []
    if len(texts) == 1 or most <= 0:
        return [str(texts[0].as_py(), errors="replace")]
    half = len(texts) // 2
    misfits = _misfits(texts[:half], kind, most, takes)
    if len(misfits) > most:
        return misfits
    return misfits + _misfits(texts[half:], kind, most - len(misfits), takes)


class _Csv:
    """A CSV file: its columns, their types, and its rows."""

    def __init__(self, file: Path, wanted: Wanted, problems: Problems, dialect: Dialect) -> None:
        self.file, self.wanted, self.problems = file, wanted, problems
        self.source: TextStream | None = None
        self.foreign = False  # whether bytes were found that are not UTF-8
        self.hints: list[str] = []  # options that would read texts as numbers or dates
        head = self._head(dialect.encoding)
        given = dialect.delimiter or (
            "\t" if TABBED & {suffix.lower() for suffix in file.suffixes} else None
        )
        self.dialect = dialect._replace(delimiter=given or _commonest(head, dialect.quote))
        self.names = self._named(self._first_row(head), wanted.types)
        # whether lines may have to go aside
        self.torn = problems.aside is not None and self._has_odd_quotes()

    def share(self) -> float:
        """Return the fraction of the file that was read."""
        return self.source.share if self.source else 0.0

    def _head(self, encoding: str | None) -> str:
        """Return the beginning of the file, from the first line that is not blank."""
        with TextStream(self.file, encoding) as source:
            head = b""
            while len(head) < HEAD and (more := source.read(HEAD)):
                head = (head + more).lstrip(b"\r\n")
        end = head.rfind(b"\n") + 1 if len(head) >= HEAD else len(head)
        if not head.strip():
            what = "a CSV file has the names of its columns in the first line"
            raise DatasetError(
                f"{self.file} is empty: {what}, unless --no-header says that it has none"
            )
        try:
            return head[: end or len(head)].decode()
        except UnicodeDecodeError as error:
            if head[: error.start].strip() and b"\n" in head[: error.start]:
                return head[: error.start].decode()  # reported later with its row and column
            bad = head[error.start : error.end]
            raise DatasetError(
                f"{self.file}, line 1: {bad!r} is not valid {source.encoding.upper()}: say "
                "what the file is written in with --encoding, such as latin-1 or cp1252"
            ) from None

    def _first_row(self, head: str) -> list[str]:
        try:
            return next(row for row in self._reader(StringIO(head, newline="")) if row)
        except csv.Error:
            raise DatasetError(f"{self.file}, line 1: {UNCLOSED}") from None

    def _reader(self, lines: Iterable[str]) -> Any:
        """Return a slow reader, which rejects unclosed quotes."""
        # of the whole process, in which several threads may be reading
        csv.field_size_limit(sys.maxsize)
        quote, delimiter = self.dialect.quote, self.dialect.delimiter or ","
        if not quote:
            return csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE, strict=True)
        return csv.reader(lines, delimiter=delimiter, quotechar=quote, strict=True)

    def _named(self, first: list[str], types: Types) -> list[str]:
        if self.dialect.header:
            for name in first:
                if first.count(name) > 1:
                    said = f"two columns {name}" if name else "several columns without a name"
                    raise DatasetError(
                        f"{self.file} has {said}: name each in its first line, or say --no-header"
                    )
            return first
        fields = [name for name in types if ":" not in name]
        if len(fields) == len(first):
            return fields
        return [f"column{n}" for n in range(1, len(first) + 1)]

    # --- types ----------------------------------------------------------------------------------

    def inferred(self) -> dict[str, pa.DataType]:
        """Return the columns' types: those wanted, else one that fits all texts, of all blocks
        or of the first.
        """
        types = {name: self.wanted.types[name] for name in self.names if name in self.wanted.types}
        open_ = [name for name in self.names if name not in types]
        guesses = {name: _Guesses(self.problems.aside is not None) for name in open_}
        values: dict[str, list[str]] = {}  # the first texts of the columns that have any value
        blocks = self._blocks(open_, Problems()) if open_ else iter(())
        for block in blocks if self.wanted.thorough else islice(blocks, 1):
            for name in open_:
                texts = self._without_nulls(block.column(name), pa.null()).drop_null()
                if len(texts):
                    values.setdefault(name, _first_of(texts))
                    guesses[name].narrow(texts, self._takes)
        # a problem already, more than having no values
        unknown = pa.string() if self.foreign else pa.null()
        for name in open_:
            types[name] = unknown if name not in values else guesses[name].first()
            if misfits := guesses[name].misfits.get(types[name]):
                other = f"{counted(len(misfits), 'other value')}, such as {misfits[0]!r}"
                self.hints.append(
                    f"column {name} is {said(types[name])}: the rows of {other}, go aside; --cast "
                    f"{name}=string keeps all as text"
                )
            if types[name] == pa.string() and (option := option_for(values.get(name, ()))):
                shown = values[name][0]
                self.hints.append(
                    f"column {name} is kept as text: {option} reads values such as {shown!r}"
                )
        self.hints += self._unused_options()
        return types

    def _unused_options(self) -> Iterator[str]:
        """Yield a note for each column of texts in the relation whose values the options read as
        dates or numbers.
        """
        kept = self.wanted.types.keys() - self.wanted.requested
        names = [
            name for name in self.names if name in kept and self.wanted.types[name] == pa.string()
        ]
        dates, thousands, decimal = self.dialect.dates, self.dialect.thousands, self.dialect.decimal
        if not names or not (dates or thousands or decimal != "."):
            return
        for block in islice(self._blocks(names, Problems()), 1):
            for name in names:
                texts = _first_of(self._without_nulls(block.column(name), pa.null()))
                if option := read_by(texts, dates, thousands, decimal):
                    yield (
                        f"column {name} stays text, as the relation has it, though {option} is "
                        "given: to give it another type, drop the relation and load it anew"
                    )

    def _takes(self, texts: pa.Array, kind: pa.DataType) -> bool:
        """Return whether texts lose nothing as values of a type."""
        try:
            read = dated(texts.cast(pa.string()), kind, self.dialect.dates)
            typed(self._pointed(self._ungrouped(read, kind), kind), kind, supposed=True)
        except pa.ArrowInvalid:
            return False
        return True

    # --- rows -----------------------------------------------------------------------------------

    def batches(self, columns: Sequence[str], kinds: Types) -> Iterator[pa.RecordBatch]:
        """Yield some columns of the rows as texts, with the nulls of each column's type."""
        row = 0
        for block in self._blocks(columns, self.problems):
            for batch in cut(block):
                texts = {}
                for name in columns:
                    array = self._decoded(name, batch.column(name), row)
                    array = self._ungrouped(self._without_nulls(array, kinds[name]), kinds[name])
                    try:
                        texts[name] = self._pointed(array, kinds[name])
                    except pa.ArrowInvalid:
                        self._refuse_points(name, array, row)
                        texts[name] = pc.replace_substring(array, self.dialect.decimal, ".")
                yield pa.RecordBatch.from_pydict(texts)
                row += len(batch)

    def _decoded(self, name: str, values: pa.Array, row: int) -> pa.Array:
        """Return bytes as texts, nulls for those that are not UTF-8, whose rows are put aside."""
        try:
            return values.cast(pa.string())
        except pa.ArrowInvalid:
            foreign = [
                place for place, value in enumerate(values.to_pylist()) if not is_utf8(value)
            ]
            rows = [row + place for place in foreign]
            self.problems.add_rows(
                f"{self.file}: column {name}", "is not UTF-8", FOREIGN, rows, path=(name,)
            )
            return without(values, foreign).cast(pa.string())

    def _ungrouped(self, texts: pa.Array, kind: pa.DataType) -> pa.Array:
        """Remove the mark of thousands from numbers."""
        if not self.dialect.thousands or not is_number(kind):
            return texts
        return ungrouped(texts, self.dialect.thousands, self.dialect.decimal)

    def _pointed(self, texts: pa.Array, kind: pa.DataType) -> pa.Array:
        """Replace the decimal mark of numbers by a point. pa.ArrowInvalid if one has a point."""
        mark = self.dialect.decimal
        if mark == "." or not is_number(kind):
            return texts
        if pc.any(pc.match_substring(texts, ".")).as_py():
            raise pa.ArrowInvalid("a point")
        return pc.replace_substring(texts, mark, ".")

    def _refuse_points(self, name: str, texts: pa.Array, row: int) -> None:
        if not self.wanted.thorough and name not in self.wanted.types:
            raise Contradicted(f"{self.file}: column {name} has points")
        wrong = pc.match_substring(texts, ".")
        places = np.flatnonzero(wrong.fill_null(False).to_numpy(zero_copy_only=False))
        fact = f"has a point where numbers are written with {self.dialect.decimal!r}"
        shown = texts[int(places[0])]
        self.problems.add_rows(
            f"{self.file}: column {name}",
            fact,
            "mend the source, or the option --decimal",
            row + places,
            repr(shown.as_py())[:60],
            (name,),
        )

    def _without_nulls(self, texts: pa.Array, kind: pa.DataType) -> pa.Array:
        """Replace the texts that mean null in a column of a type by nulls."""
        marks = [*self.dialect.nulls]
        if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
            marks += MISSING
        if not marks:
            return texts
        return pc.if_else(
            pc.is_in(texts, pa.array(marks, texts.type)), pa.scalar(None, texts.type), texts
        )

    def _blocks(self, columns: Sequence[str], problems: Problems) -> Iterator[pa.RecordBatch]:
        """Yield some columns of the rows as bytes, in blocks. Raises DatasetError."""
        with TextStream(self.file, self.dialect.encoding) as source:
            self.source = source
            aside = self.problems.aside is not None
            watched = _Watched(source, self.dialect, aside)
            try:
                for block in self._read(
                    _Mended(self, source) if self.torn else watched, columns, problems
                ):
                    if watched.foreign and not aside:  # by the last bytes, which the block has
                        break
                    yield block
            except (pa.ArrowInvalid, OSError) as error:
                if not watched.foreign or aside:
                    self._refuse_quotes(watched.suspect)
                    why = str(error).partition(" (")[0]
                    if "straddling" in str(error):
                        why = f"a row has more than {BLOCK >> 20} MiB"
                    raise DatasetError(f"{self.file}: {why}: mend the file") from None
            self.foreign |= watched.foreign
            if watched.foreign and not aside:
                self._find_foreign(problems)
            self._refuse_quotes(watched.suspect or watched.inside)

    def _read(
        self, source: Any, columns: Sequence[str], problems: Problems
    ) -> pa.csv.CSVStreamingReader:
        dialect = self.dialect

        def wrong_width(row: Any) -> str:
            if self.problems.aside:
                self.problems.aside.skipped = True
            else:
                problems.add_rows(
                    f"{self.file}:", self._width(row.actual_columns), WIDTH, (), row.text[:60]
                )
            return "skip"

        return pyarrow.csv.open_csv(
            pa.PythonFile(source, "r"),
            pyarrow.csv.ReadOptions(
                block_size=BLOCK, column_names=self.names, skip_rows_after_names=int(dialect.header)
            ),
            pyarrow.csv.ParseOptions(
                delimiter=dialect.delimiter,
                quote_char=dialect.quote or False,
                newlines_in_values=True,
                invalid_row_handler=wrong_width,
            ),
            pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(self.names, pa.binary()),
                include_columns=list(columns),
                null_values=[],
                strings_can_be_null=False,
                quoted_strings_can_be_null=False,
            ),
        )

    def _find_foreign(self, problems: Problems) -> None:
        """Add the texts that are not UTF-8 to the problems. DatasetError if there is none."""
        before = len(problems.found)
        rows = (
            values
            for _, values in self._rows()
            if isinstance(values, list) and len(values) == len(self.names)
        )
        for row, values in enumerate(rows, -int(self.dialect.header)):
            for name, value in zip(self.names, values, strict=True):
                if any("\udc80" <= letter <= "\udcff" for letter in value):
                    shown = repr(value.encode(errors="surrogateescape"))[:60]
                    problems.add_rows(
                        f"{self.file}: column {name}", "is not UTF-8", FOREIGN, [row], shown
                    )
        if len(problems.found) == before:
            raise DatasetError(f"{self.file} is not UTF-8: {FOREIGN}")

    def _refuse_quotes(self, suspect: bool) -> None:
        """If `suspect`, read the file slowly to raise DatasetError for an open quote."""
        for _ in self._rows() if suspect else ():
            pass

    def _has_odd_quotes(self) -> bool:
        """Read the file, and return whether it has quotes that open or close a text where none
        begins or ends.
        """
        with TextStream(self.file, self.dialect.encoding) as source:
            watched = _Watched(source, self.dialect, aside=True)
            while not watched.suspect and watched.read(HEAD):
                pass
        return bool(watched.suspect or watched.inside)

    def records(self) -> Iterator[Record]:
        """Yield the rows as they are written; those not as wide as the head have a fault."""
        for line, values in islice(self._rows(), int(self.dialect.header), None):
            if isinstance(values, str):
                yield Record(line, _shown(values), UNCLOSED)
                continue
            texts = [*map(_shown, values)]
            if len(values) == len(self.names):
                yield Record(line, dict(zip(self.names, texts, strict=True)))
            else:
                text = (self.dialect.delimiter or ",").join(texts)
                yield Record(line, text, f"{self._width(len(values))}: {WIDTH}")

    def _width(self, count: int) -> str:
        """Return what is wrong with a row of so many values."""
        first = "the head" if self.dialect.header else "line 1"
        return f"{counted(count, 'value')} where {first} has {counted(len(self.names), 'column')}"

    def _rows(self, source: TextStream | None = None) -> Iterator[tuple[int, list[str] | str]]:
        """Yield the rows by the slow reader, each with its first line; a torn line as its text if
        such go aside.

        Raises DatasetError.
        """
        with (
            nullcontext(source)
            if source
            else TextStream(self.file, self.dialect.encoding) as opened
        ):
            lines = _Lines(opened)
            reader = self._reader(lines)
            while True:
                line = lines.begin()
                try:
                    values = next(reader, None)
                except csv.Error:
                    if not self.torn:
                        raise DatasetError(f"{self.file}, line {line}: {UNCLOSED}") from None
                    yield line, lines.only_first()
                    continue
                if values is None:
                    return
                if values:
                    yield line, values

    def mended(self, source: TextStream) -> Iterator[bytes]:
        """Yield the rows in CSV, without torn lines."""
        delimiter, quote = self.dialect.delimiter or ",", self.dialect.quote
        for _, values in self._rows(source):
            if isinstance(values, list):
                quoted = (f"{quote}{value.replace(quote, 2 * quote)}{quote}" for value in values)
                yield f"{delimiter.join(quoted)}\n".encode(errors="surrogateescape")
            elif self.problems.aside:
                self.problems.aside.skipped = True


class _Lines:
    """The lines of a file; those that a row has taken can be given back, but for the first."""

    def __init__(self, source: TextStream) -> None:
        self._lines = _lines(source)
        self._taken: list[str] = []  # by the current row
        self._again: list[str] = []  # to be given out before others, the first at the end
        self._before = 0  # lines before the current row

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self._taken.append(self._again.pop() if self._again else next(self._lines))
        return self._taken[-1]

    def begin(self) -> int:
        """Begin a row; return the line, from 1, in which it does."""
        self._before += len(self._taken)
        self._taken.clear()
        return self._before + 1

    def only_first(self) -> str:
        """Take back all lines of the current row but the first; return this, without its end."""
        first, *rest = self._taken
        self._again += reversed(rest)
        self._taken = [first]
        return first.rstrip("\r\n")


class _Mended:
    """The bytes of a file's rows for pyarrow, without torn lines."""

    def __init__(self, file: _Csv, source: TextStream) -> None:
        self._rows, self._rest, self.closed = file.mended(source), b"", False

    def close(self) -> None:
        """Close nothing: whoever opened the file closes it."""
        self.closed = True

    def read(self, size: int = -1) -> bytes:
        """Return `size` bytes, or all that are left."""
        parts, length = [self._rest], len(self._rest)
        while (size < 0 or length < size) and (row := next(self._rows, b"")):
            parts.append(row)
            length += len(row)
        taken = b"".join(parts)
        end = len(taken) if size < 0 else size
        self._rest = taken[end:]
        return taken[:end]


class _Watched:
    """The bytes of a file for pyarrow, from the first line that is not blank, with checks.

    `inside`: the last quote so far opens a text. `suspect`: a quote opens or closes a text in the
    middle of a column, as happens if one is not closed. `foreign`: some bytes are not UTF-8;
    reading ends there, unless they go `aside`.
    """

    def __init__(self, source: TextStream, dialect: Dialect, aside: bool) -> None:
        self._aside = aside
        self.source, self.closed, self.inside, self.suspect = source, False, False, False
        self.foreign = False
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._quote = dialect.quote.encode()
        self._edges = np.zeros(256, bool)
        self._edges[[*f"{dialect.delimiter}\r\n{dialect.quote}".encode()]] = True
        self._last = b""

    def close(self) -> None:
        """Close nothing: whoever opened the file closes it."""
        self.closed = True

    def read(self, size: int = -1) -> bytes:
        """Return `size` bytes, or all that are left."""
        taken = self.source.read(size)
        while not self._last and (begun := taken.lstrip(b"\r\n")) != taken:
            taken = begun + self.source.read(size - len(begun))
        try:
            self._decoder.decode(taken, final=not taken)
        except UnicodeDecodeError:
            self.foreign = True
        if self.foreign and not self._aside:
            return b""
        if self._quote and self._quote in taken:
            self._watch(np.frombuffer(self._last + taken, np.uint8), len(self._last))
        self._last = taken[-1:]
        return taken

    def _watch(self, data: np.ndarray, first: int) -> None:
        """Check the quotes in bytes, of which those from `first` on are new."""
        at = first + np.flatnonzero(data[first:] == self._quote[0])
        opens = np.arange(len(at)) % 2 == self.inside
        before = np.where(at > 0, data[at - 1], self._quote[0])
        behind = np.where(
            at + 1 < len(data), data[np.minimum(at + 1, len(data) - 1)], self._quote[0]
        )
        self.suspect |= not self._edges[np.where(opens, before, behind)].all()
        self.inside = bool(self.inside) ^ bool(len(at) % 2)


def _first_of(values: pa.Array) -> list[str]:
    """Return the first texts of a column of bytes that are neither null nor empty."""
    return [str(value, errors="replace") for value in values[:FEW].to_pylist() if value]


def _shown(text: str) -> str:
    """Return a text in which bytes that are not UTF-8 are shown by their numbers."""
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _lines(source: TextStream) -> Iterator[str]:
    """Yield the lines of a file, with line ends."""
    rest = b""
    while taken := source.read(HEAD):
        *lines, rest = (rest + taken).splitlines(keepends=True)
        yield from (line.decode(errors="surrogateescape") for line in lines)
    yield from (line.decode(errors="surrogateescape") for line in rest.splitlines(keepends=True))


def _commonest(head: str, quote: str) -> str:
    """Return the commonest delimiter in the first line, outside of quoted texts."""
    line = re.sub(f"{quote}[^{quote}]*{quote}", "", head) if quote else head
    first = line.splitlines()[0] if line.strip() else ""
    return max(DELIMITERS, key=first.count)
