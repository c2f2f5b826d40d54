"""COPY: rows of CSV, Parquet and JSON files, and files of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp

from ivm.sql.catalog import Catalog
from ivm.sql.errors import SqlError, nearest
from ivm.sql.rules import Column
from ivm.sql.types import BLOB, TIMESTAMPTZ, SqlType

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
KNOWN = ("format", "header", "delimiter", "delim", "sep", "null", "nullstr")


def options(node: exp.Copy) -> dict[str, str]:
    """Return the options of a COPY.  Raises SqlError for one that is not known."""
    found = {}
    for one in node.args.get("params") or ():
        name, value = one.this.name.lower(), one.expression
        if name not in KNOWN:
            raise SqlError(f"COPY has no option {name.upper()}{nearest(name, KNOWN)}", node)
        found[name] = "true" if value is None else str(value.name)
    return found


def columns_of(catalog: Catalog, table: exp.Expr, names: Sequence[str] | None) -> list[Column]:
    """Return the columns of a table into which a file goes.  Raises SqlError."""
    own = catalog.find(table.name)
    if own is None:
        raise SqlError(f"no table {table.name} exists{nearest(table.name, catalog.names())}", table)
    known = {c.name.lower(): c for c in catalog.columns(own)}
    if lost := [n for n in names or () if n.lower() not in known]:
        raise SqlError(
            f"{own} has no column {lost[0]}{nearest(lost[0], [c.name for c in known.values()])}",
            table,
        )
    return [known[n.lower()] for n in names] if names is not None else [*known.values()]


def read(path: str, given: Mapping[str, str], columns: list[Column], node: exp.Expr) -> pa.Table:
    """Return the rows of a file, as values of the columns, in their order.  Raises SqlError for
    one that does not fit.
    """
    import pyarrow as pa

    form, types = _format(path, given, node), [_arrow(c.type) for c in columns]
    try:
        if form == "csv":
            found = _read_csv(path, given, columns, types)
        elif form == "parquet":
            import pyarrow.parquet

            found = pyarrow.parquet.read_table(path)
        else:
            import pyarrow.json

            found = pyarrow.json.read_json(path)
        if found.num_columns != len(columns):
            raise SqlError(
                f"{path} has {found.num_columns} columns, and {len(columns)} are wanted", node
            )
        for column, values in zip(columns, found.columns, strict=True):
            if column.type.is_nested or pa.types.is_nested(values.type):
                raise SqlError(
                    f"{path}: column {column.name}: COPY takes no {_nested(column)}: INSERT such "
                    f"rows",
                    node,
                )
        return pa.Table.from_arrays(
            [column.cast(type_) for column, type_ in zip(found.columns, types, strict=True)],
            [c.name for c in columns],
        )
    except (pa.ArrowException, OSError) as error:
        raise SqlError(f"{path}: {error}", node) from error


def _read_csv(
    path: str, given: Mapping[str, str], columns: list[Column], types: list[pa.DataType]
) -> pa.Table:
    import pyarrow.csv

    names, delimiter = [c.name for c in columns], _delimiter(path, given)
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
    nulls = [given.get("null", given.get("nullstr", ""))]
    return pyarrow.csv.read_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(column_names=names, skip_rows=int(header)),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict(zip(names, types, strict=True)),
            null_values=nulls,
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def write(table: pa.Table, path: str, given: Mapping[str, str], node: exp.Expr) -> None:
    """Write rows to a file.  Raises SqlError."""
    import pyarrow as pa

    form = _format(path, given, node)
    if form == "csv" and (
        bad := [one.name for one in table.schema if pa.types.is_nested(one.type)]
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
                pyarrow.csv.WriteOptions(include_header=header, delimiter=_delimiter(path, given)),
            )
        else:
            raise SqlError("COPY writes CSV and Parquet", node)
    except OSError as error:
        raise SqlError(f"{path}: {error}", node) from error


def _format(path: str, given: Mapping[str, str], node: exp.Expr) -> str:
    form = given.get("format", FORMATS.get(Path(path).suffix.lower(), "")).lower()
    if form not in FORMATS.values():
        raise SqlError(
            f"{path}: name the format, as in (FORMAT csv); there is csv, parquet and json", node
        )
    return form


def _delimiter(path: str, given: Mapping[str, str]) -> str:
    own = next((given[key] for key in ("delimiter", "delim", "sep") if key in given), None)
    return own.replace("\\t", "\t") if own is not None else "\t" if path.endswith(".tsv") else ","


def _nested(column: Column) -> str:
    return f"{column.type}" if column.type.is_nested else f"lists, structs or maps as {column.type}"


def _arrow(type_: SqlType) -> pa.DataType:
    import pyarrow as pa

    if type_.is_decimal:
        return pa.decimal128(min(type_.precision, 38), type_.scale)
    if type_.is_integer:
        return pa.decimal128(38, 0) if type_.wide else pa.int64()
    names = {
        "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us"), "TIME": pa.time64("us"),
        "BOOLEAN": pa.bool_(),
        TIMESTAMPTZ.name: pa.timestamp("us", "UTC"), BLOB.name: pa.binary(),
    }  # fmt: skip
    return pa.float64() if type_.is_float else names.get(type_.name, pa.string())
