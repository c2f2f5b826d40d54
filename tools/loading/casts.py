"""Convert Arrow types to those that relations hold, and cast arrays, reporting the rows that do not
fit.

Collect the problems of rows to load, so that all are reported at once.

a.csv: column born holds no date in 3 rows, the first row 17 ('31.12.'): give --cast born=string, or
mend the file

Or put bad rows aside, with their reasons, so that the others can be loaded.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pagestore.errors import PagestoreError, SchemaError, WordError
from pagestore.host import Column
from pagestore.host import typed as as_typed
from pagestore.tooling import bounds_of, numbers_of, type_of_arrow

from ..cli.answers import as_json, counted, plain
from .texts import MOMENT, number_of, to_dates, typed


class DatasetError(PagestoreError, ValueError):
    """The sources cannot be loaded. `problems` has a sentence for each problem."""

    hint = ""  # another way out of all of them, in a line of its own

    def __init__(self, problems: str | Sequence[str]) -> None:
        self.problems = (
            (plain(problems),) if isinstance(problems, str) else tuple(map(plain, problems))
        )
        super().__init__("\n".join(self.lines))

    @property
    def lines(self) -> tuple[str, ...]:
        """The problems, under a heading if there are several."""
        hint = [self.hint] * bool(self.hint)
        if len(self.problems) == 1:
            return (*self.problems, *hint)
        return (f"{len(self.problems)} problems, and nothing is loaded:", *self.problems, *hint)


@dataclass
class Problem:
    """A problem of a column's values in one file, the number of rows with it, the first of them,
    and the remedy.
    """

    fact: str
    remedy: str
    rows: int = 0
    first_row: int | None = None
    example: str = ""
    line_of: Callable[[int], int] | None = None

    def __str__(self) -> str:
        where = f" in {counted(self.rows, 'row')}" if self.rows else ""
        if self.first_row is not None:
            first = (
                f"line {self.line_of(self.first_row)}" if self.line_of else f"row {self.first_row}"
            )
            if self.rows == 1:
                where = f" in {first}"
            else:
                where = f"{where}, the first {'in ' * bool(self.line_of)}{first}"
        shown = f" ({self.example})" if self.example else ""
        return f"{self.fact}{where}{shown}" + f": {self.remedy}" * bool(self.remedy)


class Record(NamedTuple):
    """What a file of text has as one row: the line, from 1, in which it begins, and its values as
    they are written.

    One that is not a row, as it has too many values, has a `fault`, which says why, and its values
    are its text.
    """

    line: int
    values: Mapping[str, Any] | str
    fault: str = ""


@dataclass
class Aside:
    """Writes bad rows to a file, each as a line of JSON.

    {"file": "a.csv", "line": 17, "column": "born", "value": "31.12.", "reason": "...", "values":
    {"id": "4", ...}}

    A row with several bad values has the others in a list, `also`. Rows of files without lines have
    a `row`, from 0. `skipped` says whether a reader left out what is not a row.
    """

    out: IO[bytes]
    rows: int = 0
    skipped: bool = False
    # by row of the current file
    found: dict[int, list[tuple[tuple[str, ...], str]]] = field(default_factory=dict)

    def restart(self) -> None:
        """Forget all rows, since the files are read again."""
        self.out.seek(0)
        self.out.truncate()
        self.rows = 0
        self.found.clear()

    def begin(self, file: str, records: Iterator[Record] | None) -> None:
        """Begin a file; `records`, for one of text, are all that it has in order."""
        self._file, self._records, self._next = file, records, 0
        self.found.clear()

    def add(self, rows: Sequence[int] | np.ndarray, path: tuple[str, ...], reason: str) -> None:
        """Add bad values of the current file, in the column at a path through structs."""
        for row in rows:
            self.found.setdefault(int(row), []).append((path, reason))

    def take(self, first: int, batch: pa.RecordBatch) -> list[int]:
        """Write the bad rows of a batch whose first row is `first`; return them, counted from 0
        in the batch.
        """
        taken = sorted(row for row in self.found if first <= row < first + len(batch))
        for row in taken:
            problems = self.found.pop(row)
            line, values = self._record(row) or (None, _values(batch.slice(row - first, 1)))
            columns = [
                {"column": ":".join(path), "value": _value_at(values, path), "reason": reason}
                for path, reason in problems
            ]
            also = {"also": columns[1:]} if len(columns) > 1 else {}
            place = {"row": row} if line is None else {"line": line}
            self._write({**place, **columns[0], **also, "values": values})
        return [row - first for row in taken]

    def finish(self) -> None:
        """End a file: write what else is not a row."""
        while self.skipped and self._records is not None:
            self.skipped = self._record(None) is not None
        self.skipped = False

    def _record(self, row: int | None) -> tuple[int | None, Mapping[str, Any]] | None:
        """Return a row's line and values, or those of the next; write what is not a row."""
        for record in self._records or ():
            if isinstance(record.values, str):
                self._write({"line": record.line, "reason": record.fault, "values": record.values})
                continue
            self._next += 1
            if row is None or self._next == row + 1:
                return record.line, record.values
        return None

    def _write(self, entry: Mapping[str, Any]) -> None:
        self.out.write(f"{as_json({'file': self._file, **entry})}\n".encode())
        self.rows += 1


def _values(row: pa.RecordBatch) -> dict[str, Any]:
    """Return the values of a single row by column."""
    values = {}
    for name, array in zip(row.schema.names, row.columns, strict=True):
        try:
            values[name] = array[0].as_py()
        except (ImportError, ValueError, OverflowError):  # nanoseconds, or beyond Python's years
            values[name] = _shown(array)
    return values


def _value_at(values: Any, path: tuple[str, ...]) -> Any:
    """Return the value at a path through structs, or the list where it ends; None before."""
    for name in path:
        if isinstance(values, Mapping):
            values = values.get(name)
        elif not isinstance(values, list):
            values = None
    return values


@dataclass
class Problems:
    """All problems by their fact; rows are counted from 0 in each file.

    `line_of` returns the line in which a row of the current file begins, if that has lines. Those
    of rows go `aside`, if it is given.
    """

    line_of: Callable[[int], int] | None = None
    found: dict[str, Problem] = field(default_factory=dict)
    aside: Aside | None = None

    def __bool__(self) -> bool:
        return bool(self.found)

    def add(self, fact: str, remedy: str) -> None:
        """Add a problem that does not belong to a row."""
        self.found.setdefault(fact, Problem(fact, remedy))

    def adopt(self, error: DatasetError) -> None:
        """Add the problems that an error of another reader lists, of which no rows are known."""
        for text in error.problems:
            self.add(text, "")

    def add_rows(
        self,
        where: str,
        fact: str,
        remedy: str,
        rows: Sequence[int] | np.ndarray,
        example: str = "",
        path: tuple[str, ...] = (),
    ) -> None:
        """Add a problem of some rows; rows of the same place and fact are added up.

        `where` names the file and the column, `path` is the column's through structs.
        """
        if self.aside is not None and path:
            self.aside.add(rows, path, f"{fact.removesuffix(',')}: {remedy}")
            return
        first = int(rows[0]) if len(rows) else None
        said = f"{where} {fact}"
        self.found.setdefault(
            said, Problem(said, remedy, 0, first, example, self.line_of)
        ).rows += max(1, len(rows))

    def refuse(self) -> None:
        """Raise DatasetError if there are any."""
        if self.found:
            error = DatasetError([*map(str, self.found.values())])
            if all(problem.rows for problem in self.found.values()):
                error.hint = (
                    "or load the other rows: --bad FILE puts bad ones aside, each with its reason"
                )
            raise error


def without(array: pa.Array, rows: Sequence[int] | np.ndarray) -> pa.Array:
    """Return an array with nulls in some rows."""
    bad = np.zeros(len(array), bool)
    bad[rows] = True
    return pc.if_else(pa.array(bad), pa.scalar(None, array.type), array)


# bad values of a batch that are located singly; beyond that, whole remaining ranges count as bad
FOUND_MAX = 1000
REFUSALS = pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError


def held_as(kind: pa.DataType, utc: bool = False) -> pa.DataType | None:
    """Return the Arrow type of the column that holds values of a type; None if no column does.

    With `utc`, timestamps with a time zone are held in UTC, without the zone.

    >>> held_as(pa.int8()), held_as(pa.decimal256(39, 2))
    (DataType(int64), None)
    """
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_timestamp(kind) and kind.tz is not None and utc:
        kind = pa.timestamp("us")
    if pa.types.is_fixed_size_binary(kind):
        kind = pa.binary()
    try:
        held: pa.DataType = type_of_arrow("", kind).arrow
        return held
    except SchemaError:
        return None


def remedy_for(name: str, kind: pa.DataType) -> str:
    """Return advice for a column `name` of a type that no column of a relation has."""
    if pa.types.is_timestamp(kind):
        return "take it in UTC, without the zone, with --utc"
    if pa.types.is_decimal(kind):
        held = f"decimal(38,{min(38, max(0, kind.scale))})"
        return f"a decimal has at most 38 digits; give --cast {name}='{held}', or leave it out"
    if pa.types.is_null(kind):
        return f"all its values are null; leave it out with --columns, or give --cast {name}=TYPE"
    return "leave it out with --columns, or write it as another type"


def said(kind: pa.DataType) -> str:
    """Return the name, as for --cast, of the column type that has an Arrow type."""
    return str(type_of_arrow("", kind))


def fits(have: pa.DataType, want: pa.DataType) -> bool:
    """Return whether every value of a column type is one of another, as integers are floats."""
    kind = pa.types
    return bool(
        have == want
        or kind.is_null(have)
        or (kind.is_integer(have) and (kind.is_floating(want) or kind.is_decimal(want)))
        or (kind.is_date(have) and kind.is_timestamp(want))
        or (kind.is_decimal(have) and kind.is_decimal(want))
    )


def may_hold(have: pa.DataType, want: pa.DataType) -> bool:
    """Return whether some values of one column type are values of another, as 7.0 is an integer."""
    kind = pa.types
    if is_number(have) and is_number(want):
        return True
    if kind.is_timestamp(have) and kind.is_timestamp(want):
        return (have.tz is None) == (want.tz is None)
    dates = have, want
    if any(map(kind.is_date, dates)) and all(
        kind.is_date(date) or date == pa.timestamp("us") for date in dates
    ):
        return True
    return bool(have == want or kind.is_null(have))


def remedy_between(name: str, have: pa.DataType, want: pa.DataType) -> str:
    """Return advice for a column `name` whose type has no values of the wanted type."""
    if pa.types.is_timestamp(have) and pa.types.is_timestamp(want):
        if have.tz:
            return "--utc takes it in UTC, without its zone"
        return "write it with a zone in the source"
    if is_string(have) or (is_string(want) and not pa.types.is_binary(have)):
        return f"--cast {name}={said(want)} converts it"
    return "convert it in the source, or leave it out with --columns"


def cast_or_report(
    array: pa.Array,
    kind: pa.DataType,
    where: str,
    first_row: int,
    problems: Problems,
    requested: bool = True,
    supposed: bool = False,
    rows: Sequence[int] | np.ndarray | None = None,
    path: tuple[str, ...] = (),
) -> pa.Array | None:
    """Cast an array to another type; add values that do not fit to the problems and return None.

    If problems go aside, return the array with nulls for these values, which are in the column at
    `path`.

    `where` names the file and the column, `first_row` is the row of the first value in the file;
    for `requested` and `supposed` see `cast_to`. `rows` has the row of each value, relative to
    `first_row`, if a row has several.
    """
    if array.type == kind:
        return array
    try:
        return cast_to(array, kind, requested, supposed)
    except REFUSALS:
        array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
        fact, aside = f"does not fit {said(kind)}", problems.aside is not None and bool(path)
        bad = bad_rows(array, kind, requested, supposed, len(array) if aside else FOUND_MAX)
        if aside:
            for row in bad:
                of_row = row if rows is None else int(rows[row])
                problems.add_rows(
                    where, fact, _remedy(array.slice(row, 1), kind), [first_row + of_row], path=path
                )
            return cast_to(without(array, bad), kind, requested, supposed)
        of = first_row + (np.array(bad) if rows is None else np.asarray(rows)[bad])
        first = array.slice(bad[0], 1)
        problems.add_rows(where, fact, _remedy(first, kind), of, _shown(first)[:60])
        return None


def _remedy(one: pa.Array, kind: pa.DataType) -> str:
    """Return advice for a value that does not fit a type."""
    types = pa.types
    value = one.cast(pa.string())[0].as_py() if is_string(one.type) or is_number(one.type) else None
    number = None if value is None else number_of(value)
    if types.is_decimal(kind) and number is not None:
        places = -int(number.as_tuple().exponent)
        if places > kind.scale:
            has = f"it has {counted(places, 'decimal')} and {said(kind)} keeps {kind.scale}"
            return f"{has}: round it in the source, or load into a column that keeps more"
        return f"{said(kind)} has {kind.precision - kind.scale} digits before the point: load into a column of more"
    if types.is_timestamp(kind) and value is not None and MOMENT.fullmatch(value):
        return "it has an offset, which the column has not: take it in UTC with --utc"
    if types.is_timestamp(kind) and kind.tz is not None:
        return "write it with its offset, such as 2020-01-31T10:00:00+01:00"
    if types.is_temporal(kind) and value is not None:
        return (
            "write it as ISO does, such as 2020-01-31T10:00:00.000001, with at most six digits of "
            "a second, or say how it is written, as in --date-format %d.%m.%Y"
        )
    return "mend the source, or load it into a column of another type"


def _shown(value: pa.Array) -> str:
    """Format a single value. Without pandas, nanoseconds have no Python value.

    >>> _shown(pa.array([1], pa.timestamp("ns", "UTC"))), _shown(pa.array([1], pa.duration("ns")))
    ('1970-01-01 00:00:00.000000001', '1 ns')
    """
    if pa.types.is_duration(value.type):
        return f"{value.cast(pa.int64())[0]} {value.type.unit}"
    if pa.types.is_timestamp(value.type):
        value = value.cast(pa.timestamp(value.type.unit))  # without its zone
    if pa.types.is_temporal(value.type):
        return str(value.cast(pa.string())[0])
    return repr(value[0].as_py())


def bad_rows(
    array: pa.Array,
    kind: pa.DataType,
    requested: bool = True,
    supposed: bool = False,
    most: int = FOUND_MAX,
) -> list[int]:
    """Return the rows whose values do not fit a type, by bisection: ranges after the first `most`
    as a whole.

    O(min(bad, most) * log rows) casts.
    """
    bad: list[int] = []
    waiting = [(0, len(array))]
    while waiting:
        start, end = waiting.pop()
        try:
            cast_to(array.slice(start, end - start), kind, requested, supposed)
        except REFUSALS:
            if end - start == 1 or len(bad) >= most:
                bad += range(start, end)
            else:
                middle = (start + end) // 2
                waiting += [(middle, end), (start, middle)]
    return bad


def rows_beyond(array: pa.Array) -> np.ndarray:
    """Return the rows whose date, time or timestamp is outside the range of Python, int64[n]."""
    kind = array.type
    if not (pa.types.is_date32(kind) or pa.types.is_time64(kind) or pa.types.is_timestamp(kind)):
        return np.zeros(0, np.int64)
    least, most = bounds_of(type_of_arrow("", kind))
    words = numbers_of(array, np.int32 if pa.types.is_date32(kind) else np.int64)
    beyond = (words < least) | (words > most)
    if array.null_count and beyond.any():  # the word of a null is arbitrary
        beyond &= array.is_valid().to_numpy(zero_copy_only=False)
    return np.flatnonzero(beyond)


def cast_to(
    array: pa.Array, kind: pa.DataType, requested: bool = True, supposed: bool = False
) -> pa.Array:
    """Cast an array to another type, keeping all values exactly. Raises one of REFUSALS for a value
    that does not fit.

    If `requested`, by the user, texts are converted too, from and to the type, and a float is taken
    as printed, 0.1 as one tenth. If `supposed`, the type is a guess, and only texts that lose
    nothing are converted.

    >>> cast_to(pa.array([7, 2**53]), pa.decimal128(18, 2)).to_pylist()
    [Decimal('7.00'), Decimal('9007199254740992.00')]
    """
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    have, types = array.type, pa.types
    if have == kind or types.is_null(have):
        return array.cast(kind)
    if is_string(have):
        return typed(array, kind, supposed)
    if is_number(have) and is_number(kind):
        return _numbers(array, kind, requested)
    if types.is_date(have) and types.is_date(kind):
        return _unchanged(array, kind)
    if types.is_timestamp(have) and types.is_date(kind) and have.tz is None:
        return to_dates(array)
    if not (
        _is_of_one_kind(have, kind) or (requested and is_string(kind) and not types.is_nested(have))
    ):
        raise pa.ArrowTypeError(f"{have} is not a valid {kind}")
    return array.cast(kind)


def is_string(kind: pa.DataType) -> bool:
    """Return whether a type has texts."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view()
    )


def is_number(kind: pa.DataType) -> bool:
    """Return whether a type has numbers."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _is_of_one_kind(have: pa.DataType, want: pa.DataType) -> bool:
    """Return whether Arrow's own cast between two types is exact or fails."""
    types = pa.types
    if types.is_timestamp(want):
        same_zone = types.is_timestamp(have) and (have.tz is None) == (want.tz is None)
        return bool(same_zone or (types.is_date(have) and want.tz is None))
    if types.is_binary(want):
        return bool(
            types.is_binary(have)
            or types.is_large_binary(have)
            or types.is_fixed_size_binary(have)
            or have == pa.binary_view()
        )
    tests = types.is_time, types.is_duration
    return any(test(have) and test(want) for test in tests)


def _unchanged(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast an array by Arrow. Raises pa.ArrowInvalid if a value changes."""
    cast = array.cast(kind)
    if pc.any(pc.not_equal(cast.cast(array.type), array)).as_py():
        raise pa.ArrowInvalid(f"some values are not valid {kind}")
    return cast


def _numbers(array: pa.Array, kind: pa.DataType, requested: bool) -> pa.Array:
    """Cast numbers to another type: exactly, or if `requested`, as they are printed."""
    if not requested and held_as(kind) == kind:
        try:
            return as_typed(Column("", type_of_arrow("", kind)), array)
        except WordError as error:
            raise pa.ArrowInvalid(str(error)) from None
    # for which Arrow has fewer casts
    if pa.types.is_decimal(array.type) and array.type.bit_width < 128:
        array = array.cast(pa.decimal128(array.type.precision, array.type.scale))
    have, types = array.type, pa.types
    if types.is_integer(have) and types.is_decimal(kind):
        array = array.cast(pa.decimal128(20, 0))
    elif types.is_floating(have) and types.is_decimal(kind):
        return typed(array.cast(pa.string()), kind)
    elif types.is_integer(have) and types.is_floating(kind):
        return typed(array.cast(pa.string()), kind) if _are_large(array) else array.cast(kind)
    elif types.is_decimal(have) and types.is_floating(kind):
        # Arrow converts 7.00000 of 256 bits to 6.999…
        return pa.array(
            [value if value is None else float(value) for value in array.to_pylist()], kind
        )
    cast = array.cast(kind)
    if types.is_decimal(kind):
        cast.validate(full=True)
    return cast


def _are_large(integers: pa.Array) -> bool:
    """Return whether some integers are beyond those that Arrow casts to floats."""
    return bool(
        pc.any(pc.greater(pc.abs_checked(integers.cast(pa.decimal128(20, 0))), 2**53)).as_py()
    )
