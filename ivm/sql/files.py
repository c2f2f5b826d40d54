"""Rows of CSV, Parquet and JSON files: for COPY, and for a FROM that names one; files of rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlglot import exp

from ivm.sql.catalog import Catalog
from ivm.sql.errors import SqlError, nearest
from ivm.sql.rules import Column
from ivm.sql.types import (
    BIGINT,
    BLOB,
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    SqlType,
    decimal,
)  # fmt: skip
from pagestore.host import Type

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = {
    ".csv": "csv", ".tsv": "csv", ".parquet": "parquet", ".json": "json", ".jsonl": "json",
    ".ndjson": "json",
}  # fmt: skip
INTEGERS = {
    "int8": "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT",
    "uint8": "UTINYINT", "uint16": "USMALLINT", "uint32": "UINTEGER",
}  # fmt: skip
READERS = {
    f"{word}{auto}": form
    for word, form in (
        ("read_parquet", "parquet"), ("parquet_scan", "parquet"), ("read_csv", "csv"),
        ("read_json", "json"), ("read_ndjson", "json"),
    )
    for auto in ("", "_auto")
}  # fmt: skip
# what all texts of a column are like, so that they have a type: none is given that changes a value
_DAY, _TIME = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d:\d\d(\.\d{1,6})?"
_MOMENT = rf"{_DAY}([ T]({_TIME}|\d\d:\d\d))?"
WHOLE = decimal(38, 0)  # integers beyond BIGINT
NUMBERS = {
    BIGINT: r"-?(0|[1-9]\d*)|0[xX][0-9a-fA-F]+", WHOLE: r"-?(0|[1-9]\d*)",
    DOUBLE: r"-?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][-+]?\d+)?|(?i:-?inf(inity)?|nan)",
    BOOLEAN: "(?i)true|false|t|f",
}  # fmt: skip
TIMES = {
    DATE: _DAY, TIME: _TIME, TIMESTAMP: _MOMENT,
    TIMESTAMPTZ: rf"{_MOMENT}(Z|[-+]\d\d(:?\d\d)?)",
}  # fmt: skip
DELIMITERS = ",;\t|"
KNOWN = ("format", "header", "delimiter", "delim", "sep", "null", "nullstr")


def options(node: exp.Copy) -> dict[str, str]:
    """Return the options of a COPY.  Raises SqlError for one that is not known."""
    return _options(node.args.get("params") or (), "COPY", node)


def _options(params: Iterable[exp.Expr], word: str, node: exp.Expr) -> dict[str, str]:
    given = {}
    for param in params:
        name, value = param.this.name.lower(), param.expression
        if name not in KNOWN:
            raise SqlError(f"{word} has no option {name.upper()}{nearest(name, KNOWN)}", node)
        given[name] = "true" if value is None else str(value.name or value.this)
    return given


class FileOfRows(NamedTuple):
    """A file that a FROM names, with the options of reading it."""

    path: str
    options: dict[str, str]


def named(table: exp.Table, catalog: Catalog) -> FileOfRows | None:
    """Return the file that a FROM names, as `'a.parquet'` or `read_csv('a.csv', header = false)`;
    None for anything else.  Raises SqlError for an option that is not known.
    """
    function = table.this
    if not isinstance(function, exp.Func):
        is_file = Path(table.name).suffix.lower() in FORMATS and not table.db
        known = is_file and not catalog.find(table.name)
        return FileOfRows(table.name, {"header": "true"}) if known else None
    name = function.name if isinstance(function, exp.Anonymous) else function.sql_name()
    form = READERS.get(name.lower())
    if form is None:
        return None
    path, *params = [
        *[function.this] * isinstance(function, exp.ReadCSV),
        *function.expressions,
    ] or [None]
    if not isinstance(path, exp.Literal) or not path.is_string:
        raise SqlError(f"{name.lower()} takes one file, as a text", table)
    if not all(isinstance(param, exp.EQ | exp.PropertyEQ) for param in params):
        raise SqlError(f"{name.lower()} takes options by name, as in header = false", table)
    return FileOfRows(
        path.name, {"format": form, "header": "true"} | _options(params, name.lower(), table)
    )


def in_query(node: exp.Expr, catalog: Catalog) -> list[FileOfRows]:
    """Return the files that the tables of a query are."""
    return [file for table in node.find_all(exp.Table) if (file := named(table, catalog))]


def refuse_in_view(node: exp.Expr, catalog: Catalog) -> None:
    """Raise SqlError if a view that is created reads a file."""
    for file in in_query(node, catalog):
        raise SqlError(
            f"a view follows tables, and {file.path} is a file: CREATE TABLE t AS SELECT * FROM "
            f"'{file.path}', and let the view read t",
            node,
        )


def refuse_unless(allowed: bool, node: exp.Expr) -> None:
    """Raise SqlError unless statements may read and write files."""
    if not allowed:
        raise SqlError("statements read and write no files here; `ivm serve` has --files", node)


def rows_of(file: FileOfRows, query: exp.Expr, node: exp.Expr) -> tuple[list[Column], pa.Table]:
    """Return the columns of a file that a query may name, and their rows.  Raises SqlError."""
    import pyarrow as pa

    try:
        _refuse_missing(file.path, node)
        table = _opened(file.path, file.options, node)
        if not query.find(exp.Star) and not any(j.method for j in query.find_all(exp.Join)):
            names = {part.name.lower() for part in query.find_all(exp.Identifier)}
            some = [name for name in table.column_names if name.lower() in names]
            table = table.select(some or table.column_names[:1])
        columns = columns_in(table.schema, file.path, node)
        return columns, _cast(table, columns)
    except (pa.ArrowException, OSError, json.JSONDecodeError, UnicodeError) as error:
        raise SqlError(f"{file.path}: {error}", node) from error


def columns_in(schema: pa.Schema, path: str, node: exp.Expr) -> list[Column]:
    """Return the columns of a file, with their types.  Raises SqlError for lists and structs."""
    columns = []
    for field in schema:
        type_ = _sql_type(field.type)
        if type_ is None:
            reason = (
                f"column {field.name} is {field.type}: name the columns that you read, without it"
            )
            raise SqlError(f"{path}: {reason}", node)
        columns.append(Column(field.name, type_, True))
    return columns


def _sql_type(kind: pa.DataType) -> SqlType | None:
    """Return the type of a column of a file; None for one that is not read."""
    import pyarrow.types as kinds

    if kinds.is_dictionary(kind):
        return _sql_type(kind.value_type)
    if kinds.is_decimal(kind):
        return decimal(kind.precision, kind.scale) if kind.precision <= 38 else None
    if kinds.is_uint64(kind):
        return LONG
    if kinds.is_integer(kind):
        return SqlType(INTEGERS[str(kind)])
    if kinds.is_timestamp(kind):
        return TIMESTAMP if kind.tz is None else TIMESTAMPTZ
    for is_kind, type_ in (
        (kinds.is_boolean, BOOLEAN), (kinds.is_floating, DOUBLE), (kinds.is_date, DATE),
        (kinds.is_time, TIME), (kinds.is_binary, BLOB), (kinds.is_large_binary, BLOB),
        (kinds.is_fixed_size_binary, BLOB), (kinds.is_string, VARCHAR),
        (kinds.is_large_string, VARCHAR), (kinds.is_string_view, VARCHAR), (kinds.is_null, VARCHAR),
    ):  # fmt: skip
        if is_kind(kind):
            return type_
    return None


def _cast(table: pa.Table, columns: Sequence[Column]) -> pa.Table:
    import pyarrow as pa

    values = [
        column.cast(_arrow(own.type)) for own, column in zip(columns, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(values, [column.name for column in columns])


def _opened(path: str, given: Mapping[str, str], node: exp.Expr) -> pa.Table:
    """Return the rows of a file with the types that it has.  Raises SqlError, ArrowException."""
    match _format(path, given, node):
        case "parquet":
            import pyarrow.parquet

            return pyarrow.parquet.read_table(path)
        case "json":
            return _read_json(path)
        case _:
            return _guess_csv(path, given, node)


def _guess_csv(path: str, given: Mapping[str, str], node: exp.Expr) -> pa.Table:
    """Return the rows of a CSV file with the types that all texts of a column have."""
    import pyarrow as pa
    import pyarrow.csv

    header = given.get("header", "true").lower() in ("true", "1")
    reading = pyarrow.csv.ReadOptions(autogenerate_column_names=not header)
    parsing = _parsing(_delimiter(path, given) or _commonest(path))
    with pyarrow.csv.open_csv(path, reading, parsing) as file:
        names = file.schema.names
    if twice := [name for place, name in enumerate(names) if name in names[:place]]:
        reason = f"column {twice[0]} occurs twice: read_csv('{path}', header = false) numbers them"
        raise SqlError(f"{path}: {reason}", node)
    parsing.ignore_empty_lines = len(names) > 1  # of one column, such a line is a null
    texts = _converting(given, dict.fromkeys(names, pa.string()))
    table = pyarrow.csv.read_csv(path, reading, parsing, texts)
    columns = [_typed(column, NUMBERS | TIMES) for column in table.columns]
    return pa.table(columns, [name.strip() for name in names])


def _commonest(path: str) -> str:
    """Return the delimiter that is most often in the first line of a file."""
    with Path(path).open(encoding="utf-8-sig") as file:
        return max(DELIMITERS, key=file.readline().count)


def _typed(texts: pa.ChunkedArray, kinds: Mapping[SqlType, str]) -> pa.ChunkedArray:
    """Return texts as values of the first type that all are like and fit; else as they are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if texts.null_count == len(texts):
        return texts
    for type_, pattern in kinds.items():
        if pc.all(pc.match_substring_regex(texts, f"^ *(?:{pattern}) *$")).as_py():
            with suppress(pa.ArrowInvalid):
                return _parsed(pc.utf8_trim(texts, " "), type_)
    return texts


def _parsed(texts: pa.ChunkedArray, type_: SqlType) -> pa.ChunkedArray:
    """Return texts of a type as its values.  Raises ArrowInvalid."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if type_ == BOOLEAN:
        return pc.starts_with(texts, "t", ignore_case=True)
    if type_ == TIME:  # which texts are not cast to, unless they are of a moment
        texts = pc.binary_join_element_wise("1970-01-01", texts, " ").cast(pa.timestamp("us"))
    return texts.cast(_arrow(type_))


def _read_json(path: str) -> pa.Table:
    """Return the objects of a file: one after the other, or in a list."""
    import pyarrow as pa
    import pyarrow.json

    data = Path(path).read_bytes()
    if data[:64].lstrip()[:1] == b"[":
        data = "\n".join(map(json.dumps, json.loads(data))).encode()
    table = pyarrow.json.read_json(BytesIO(data))
    names = table.column_names
    if exact := {name: kind for name in names if (kind := _exact(table[name]))}:
        options = pyarrow.json.ParseOptions(explicit_schema=pa.schema(exact))
        table = pyarrow.json.read_json(BytesIO(data), parse_options=options)
    given = map(table.column, names)
    columns = [_typed(each, TIMES) if each.type == pa.string() else each for each in given]
    return pa.table(columns, names)


def _exact(column: pa.ChunkedArray) -> pa.DataType | None:
    """Return the type to read a column with anew, if digits or zones of moments are lost."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(column.type):
        return pa.string()
    if not pa.types.is_floating(column.type):
        return None
    ends = pc.min_max(column).as_py()
    beyond = any(abs(end or 0) >= 1 << 63 for end in ends.values())
    is_whole = beyond and pc.all(pc.equal(pc.floor(column), column)).as_py()
    return _arrow(WHOLE) if is_whole else None


def columns_of(catalog: Catalog, table: exp.Expr, names: Sequence[str] | None) -> list[Column]:
    """Return the columns of a table into which a file goes.  Raises SqlError."""
    stored = catalog.find(table.name)
    if stored is None:
        raise SqlError(f"no table {table.name} exists{nearest(table.name, catalog.names())}", table)
    known = {c.name.lower(): c for c in catalog.columns(stored)}
    if lost := [n for n in names or () if n.lower() not in known]:
        raise SqlError(
            f"{stored} has no column {lost[0]}{nearest(lost[0], [c.name for c in known.values()])}",
            table,
        )
    return [known[n.lower()] for n in names] if names is not None else [*known.values()]


def read(path: str, given: Mapping[str, str], columns: list[Column], node: exp.Expr) -> pa.Table:
    """Return the rows of a file, as values of the columns, in their order.  Raises SqlError for
    one that does not fit.
    """
    import pyarrow as pa

    try:
        _refuse_missing(path, node)
        if _format(path, given, node) == "csv":
            table = _read_csv(path, given, columns, [_arrow(c.type) for c in columns])
        else:
            table = _opened(path, given, node)
    except (pa.ArrowException, OSError, json.JSONDecodeError, UnicodeError) as error:
        raise SqlError(f"{path}: {error}", node) from error
    return as_columns(table, columns, path, node)


def as_columns(table: pa.Table, columns: list[Column], path: str, node: exp.Expr) -> pa.Table:
    """Return rows of a file as values of columns, in their order.  SqlError if one does not fit."""
    import pyarrow as pa

    if table.num_columns != len(columns):
        raise SqlError(
            f"{path} has {table.num_columns} columns, and {len(columns)} are wanted", node
        )
    for column, values in zip(columns, table.columns, strict=True):
        if column.type.is_nested or pa.types.is_nested(values.type):
            raise SqlError(
                f"{path}: column {column.name}: COPY takes no {_nested(column)}: INSERT such rows",
                node,
            )
    try:
        return _cast(table, columns)
    except pa.ArrowException as error:
        raise SqlError(f"{path}: {error}", node) from error


def _read_csv(
    path: str, given: Mapping[str, str], columns: list[Column], types: list[pa.DataType]
) -> pa.Table:
    import pyarrow.csv

    names, delimiter = [c.name for c in columns], _delimiter(path, given) or ","
    with Path(path).open(encoding="utf-8-sig") as lines:
        first = [
            part.strip().strip('"').lower()
            for part in lines.readline().rstrip("\r\n").split(delimiter)
        ]
    header = (
        given["header"].lower() in ("true", "1")
        if "header" in given
        else first == [n.lower() for n in names]
    )
    return pyarrow.csv.read_csv(
        path,
        pyarrow.csv.ReadOptions(column_names=names, skip_rows=int(header)),
        _parsing(delimiter),
        _converting(given, dict(zip(names, types, strict=True))),
    )


def _parsing(delimiter: str) -> Any:
    import pyarrow.csv

    return pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)


def _converting(given: Mapping[str, str], types: Mapping[str, pa.DataType]) -> Any:
    import pyarrow.csv

    return pyarrow.csv.ConvertOptions(
        column_types=types,
        null_values=[given.get("null", given.get("nullstr", ""))],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )


def write(table: pa.Table, path: str, given: Mapping[str, str], node: exp.Expr) -> None:
    """Write rows to a file.  Raises SqlError."""
    import pyarrow as pa

    form = _format(path, given, node)
    if form == "csv" and (
        bad := [field.name for field in table.schema if pa.types.is_nested(field.type)]
    ):
        raise SqlError(
            f"{path}: column {bad[0]} has lists, structs or maps, which CSV has not: write Parquet",
            node,
        )
    try:
        if form == "parquet":
            import pyarrow.parquet

            pyarrow.parquet.write_table(table, path)
        elif form == "csv":
            import pyarrow.csv

            header = given.get("header", "true").lower() in ("true", "1")
            pyarrow.csv.write_csv(
                table,
                path,
                pyarrow.csv.WriteOptions(
                    include_header=header, delimiter=_delimiter(path, given) or ","
                ),
            )
        else:
            raise SqlError("COPY writes CSV and Parquet", node)
    except OSError as error:
        raise SqlError(f"{path}: {error}", node) from error


def _refuse_missing(path: str, node: exp.Expr) -> None:
    if "://" in path:
        raise SqlError(f"{path} is not a file of this machine: fetch it first", node)
    if not Path(path).exists():
        raise SqlError(f"no file {path} exists: paths are those of the process", node)


def _format(path: str, given: Mapping[str, str], node: exp.Expr) -> str:
    form = given.get("format", FORMATS.get(Path(path).suffix.lower(), "")).lower()
    if form not in FORMATS.values():
        raise SqlError(
            f"{path}: name the format, as in (FORMAT csv); there is csv, parquet and json", node
        )
    return form


def _delimiter(path: str, given: Mapping[str, str]) -> str | None:
    """Return the delimiter that options or the file's name say."""
    own = next((given[key] for key in ("delimiter", "delim", "sep") if key in given), None)
    return own.replace("\\t", "\t") if own is not None else "\t" if path.endswith(".tsv") else None


def _nested(column: Column) -> str:
    return f"{column.type}" if column.type.is_nested else f"lists, structs or maps as {column.type}"


def _arrow(type_: SqlType) -> pa.DataType:
    import pyarrow as pa

    if type_.is_decimal:
        return pa.decimal128(min(type_.precision, 38), type_.scale)
    return Type.parse(type_.store).arrow
