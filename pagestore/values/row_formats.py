"""Convert rows in any form (tuples, dicts, records, columns, Arrow tables, frames) to columns of a
schema.

    [(1, "a"), (2, "b")]   [[1, "a"], [2, "b"]]   np.array([[1, 7], [2, 8]])      rows, in the order of the columns
    dicts, sqlite3.Row, dataclasses, records of structured arrays                 rows, by the names of the columns
    {"x": [1, 2], "y": ["a", "b"]}   Arrow tables, frames, structured arrays      columns, by their names
    [np.array([1, 2]), pa.array(["a", "b"])]   Columns(...), from columns=        columns, in the order of the schema

Lists of lists are always rows: two lists of two values could not be told from columns.
"""

from __future__ import annotations

import json
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from pagestore.errors import SchemaError
from pagestore.runtime.lazy import pyarrow as pa
from pagestore.values.codec import encode
from pagestore.values.dictionary import Dictionary, TextFinder
from pagestore.values.types import Column, Schema

INT64 = np.dtype(np.int64)


GIVE = "give tuples, columns or a table"


class Columns(list[Any]):
    """Columns in the order of a schema's, as `columns=` gives them."""


def given_rows(rows: Any, columns: Any) -> Any:
    """Return what was passed as rows or by `columns=`. Raises SchemaError for both, or neither."""
    if (rows is None) == (columns is None):
        raise SchemaError(
            "give rows or columns=, and not both"
            if rows is not None
            else f"None is not a list of rows; {GIVE}"
        )
    if columns is None or isinstance(columns, Mapping):
        return rows if columns is None else columns
    return Columns(columns)


def key_columns(keys: Any, schema: Schema) -> list[Any]:
    """Return keys in any form as a list of columns."""
    return rows_as_columns(
        keys, Schema(schema.stored[: len(schema.key)], schema.key), keys_allowed=False
    )


def plain_rows(rows: Any, schema: Schema) -> np.ndarray | None:
    """Return words int64[C, n] of whole records, if these are tuples of only int, or columns of
    words; else None.

    A fast path for most small transactions."""
    if not isinstance(rows, list) or not rows:
        return None
    width = len(schema.columns)
    words = _of_columns(rows, width) if type(rows[0]) is np.ndarray else _of_tuples(rows, width)
    return words if words is None or schema.in_order else words[np.argsort(schema.places)]


def _of_tuples(rows: list[Any], width: int) -> np.ndarray | None:
    if set(map(type, rows)) != {tuple} or set(map(len, rows)) != {width}:
        return None
    flat = list(chain.from_iterable(rows))
    if set(map(type, flat)) != {int}:
        return None
    try:
        return np.array(flat, np.int64).reshape(-1, width).T
    except OverflowError:
        return None


def _of_columns(columns: list[Any], width: int) -> np.ndarray | None:
    if len(columns) != width or set(map(type, columns)) != {np.ndarray}:
        return None
    kinds = {(column.dtype, column.shape) for column in columns}
    return np.array(columns) if kinds == {(INT64, (columns[0].size,))} else None


def as_columns(what: str, values: Any) -> Sequence[Any]:
    """Return columns of rows of equal length, or of columns; a flat list is one column.

    `what` names them in a SchemaError.
    """
    if _is_column(values):
        return [values]
    if isinstance(values, np.ndarray):
        return list(values.T)
    if len(values) and isinstance(values[0], tuple | list):
        if len(set(map(len, values))) > 1:
            raise SchemaError(f"{what} of several lengths; give prefixes of one length")
        return list(zip(*values, strict=True))
    return list(values) if len(values) and _is_column(values[0]) else [values]


def looked_up(
    what: str, stored: Sequence[Column], columns: Sequence[Any], dictionary: Dictionary
) -> np.ndarray:
    """Encode m columns to look for as words int64[m, n], by the types of the first m `stored`;
    unknown texts become 0.

    `what` names them in a SchemaError for columns of different lengths."""
    finder = TextFinder(dictionary)
    words = [
        encode(column, values, finder) for column, values in zip(stored, columns, strict=False)
    ]
    if len({len(column) for column in words}) > 1:
        raise SchemaError(
            f"{what} in columns of {', '.join(str(len(column)) for column in words)} values"
        )
    return np.stack(words)


def rows_as_columns(rows: Any, schema: Schema, keys_allowed: bool) -> list[Any]:
    """Return rows in any form as a list of columns: all of the schema's, or if `keys_allowed`,
    only its key's.
    """
    keys_allowed = keys_allowed and len(schema.key) < len(schema.columns)
    if isinstance(rows, Columns):
        return _counted(rows, schema, keys_allowed)
    named = columns_by_name(rows, schema, keys_allowed)
    if named is not None:
        return _chosen(named, schema, keys_allowed)
    if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
        raise SchemaError(f"{_shown(rows)} is not a list of rows; {GIVE}, as [({_shown(rows)},)]")
    if _is_column(rows):
        return _counted([rows], schema, keys_allowed)
    rows = [tuple(row) for row in rows.tolist()] if isinstance(rows, np.ndarray) else list(rows)
    if not rows:
        return [[] for _ in schema.columns]
    if any(map(_is_column, rows[: len(schema.columns)])):
        return _counted(rows, schema, keys_allowed)
    if (names := _names_of(rows[0], schema)) is not None:
        return _of_records(rows, names, schema, keys_allowed)
    if not isinstance(rows[0], tuple | list):
        rows = _single(rows, schema, keys_allowed)
    return _transposed(rows, schema, keys_allowed)


def _counted(columns: list[Any], schema: Schema, keys_allowed: bool) -> list[Any]:
    """Return columns given in order. Raises SchemaError for too many or too few."""
    if len(columns) != len(schema.columns) and not (
        keys_allowed and len(columns) == len(schema.key)
    ):
        raise SchemaError(
            f"{len(columns)} columns for a relation of {len(schema.columns)} ({schema})"
        )
    for place, values in enumerate(columns):
        if not _is_list(values):
            raise _no_list(f"column {place}", values, f"({_shown(values)}, …)")
    return list(columns)


def _chosen(named: Sequence[tuple[str, Any]], schema: Schema, keys_allowed: bool) -> list[Any]:
    """Return named columns in the order of the schema, or of its key. Raises Misnamed."""
    given, columns = [name for name, _ in named], dict(named)
    names = schema.key if keys_allowed and sorted(given) == sorted(schema.key) else schema.names
    for name, values in columns.items():
        if not _is_list(values):
            raise _no_list(f"column {name!r}", values, f"{{{name!r}: {_shown(values)}, …}}")
    try:
        check_names(given, schema, names)
    except SchemaError as error:
        raise Misnamed(
            str(error), {name: columns[name] for name in names if name in columns}
        ) from None
    return [columns[name] for name in names]


def _is_list(values: Any) -> bool:
    """Return whether values can be those of a column."""
    known = isinstance(values, Iterable | pa.Array | pa.ChunkedArray)
    return known and not isinstance(values, str | bytes | Mapping)


def _no_list(where: str, value: Any, row: str) -> SchemaError:
    """Return the error of one value in place of a column, as where a row is taken for columns."""
    remedy = f"one row is given in a list, as [{row}]"
    return SchemaError(f"{where} is {_shown(value)}, and no list of values; {remedy}")


class Misnamed(SchemaError):
    """Columns are missing or unknown; `columns` are the known ones, which may have errors."""

    def __init__(self, said: str, columns: Mapping[str, Any]) -> None:
        super().__init__(said)
        self.columns = columns


# --- forms with named columns -------------------------------------------------------------------


def columns_by_name(rows: Any, schema: Schema, keys_allowed: bool) -> list[tuple[str, Any]] | None:
    """Return the named columns of a dict, an Arrow table, a frame or a structured array; None
    for other forms.
    """
    if isinstance(rows, Mapping):
        return list(rows.items())
    if isinstance(rows, np.ndarray) and rows.dtype.names:
        return [(name, rows[name]) for name in rows.dtype.names]
    # another thread may be importing it: then no rows are its objects yet
    pandas = sys.modules.get("pandas")
    if isinstance(rows, getattr(pandas, "DataFrame", ())):
        return list(_of_frame(rows))
    if isinstance(rows, (getattr(pandas, "Series", ()), getattr(pandas, "Index", ()))):
        return None
    return _of_arrow(rows, schema, keys_allowed) if is_arrow(rows) else None


def _of_frame(frame: Any) -> Iterator[tuple[str, Any]]:
    """Yield the columns of a pandas frame, the named levels of its index first."""
    for level, name in enumerate(frame.index.names):
        if name is not None:
            yield str(name), frame.index.get_level_values(level)
    for place, name in enumerate(frame.columns):
        yield str(name), frame.iloc[:, place]


def is_arrow(rows: Any) -> bool:
    """Return whether rows have an Arrow interface: a table, reader, data set, scanner, pandas or
    polars frame, ...
    """
    return any(
        hasattr(rows, name)
        for name in ("__arrow_c_stream__", "__arrow_c_array__", "to_reader", "scanner")
    )


def arrow_batches(rows: Any) -> pa.RecordBatchReader | None:
    """Return the reader of Arrow rows that are streamed; None for those that are in memory, and
    for other rows.
    """
    if not is_arrow(rows):
        return None
    if hasattr(rows, "scanner"):  # a pyarrow.dataset.Dataset
        rows = rows.scanner()
    if hasattr(rows, "to_reader") and not isinstance(rows, pa.Table):  # its Scanner
        rows = rows.to_reader()
    return rows if isinstance(rows, pa.RecordBatchReader) else None


def _of_arrow(rows: Any, schema: Schema, keys_allowed: bool) -> list[tuple[str, Any]]:
    """Return the columns of a table; an unnamed one will do for a relation or key of one."""
    try:
        table = _table_of(rows)
        names = table.column_names
    except UnicodeDecodeError as error:
        raise SchemaError(f"the name of a column is not UTF-8: {error}; rename it") from None
    except pa.ArrowInvalid as error:
        if "non-struct" not in str(error):
            raise SchemaError(f"the rows are not an Arrow table: {error}") from None
        names = list(schema.key if keys_allowed else schema.names)
        if len(names) > 1:
            raise SchemaError(
                f"one column for a relation of {len(schema.columns)} ({schema})"
            ) from None
        return [(names[0], pa.chunked_array(rows))]
    left_out = unnamed_index(table.schema)
    return [(name, table.column(place)) for place, name in enumerate(names) if name not in left_out]


def unnamed_index(schema: pa.Schema) -> set[str]:
    """Return the columns that are an unnamed pandas index by the metadata in a schema."""
    try:
        said = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
        index = {column for column in said["index_columns"] if isinstance(column, str)}
        return {
            column["field_name"]
            for column in said["columns"]
            if column["name"] is None and column["field_name"] in index
        }
    except (ValueError, KeyError, TypeError):  # absent, or not as pandas writes it
        return set()


def _table_of(rows: Any) -> pa.Table:
    """Convert Arrow rows to a table."""
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])  # pa.table would import pandas where it is installed
    batches = arrow_batches(rows)
    if isinstance(rows, pa.Table):
        return rows
    return pa.table(rows) if batches is None else batches.read_all()


def check_names(
    given: Sequence[Any], schema: Schema, names: Sequence[str], what: str = "the rows"
) -> None:
    """Raise SchemaError unless names are the wanted columns, each once; `what` has them."""
    missing, extra = [n for n in names if n not in given], [n for n in given if n not in names]
    twice = [name for name, count in Counter(given).items() if count > 1]
    if missing or extra or twice:
        said = [f"column {', '.join(map(repr, missing))} is missing"] * bool(missing)
        said += [
            f"the relation has no column {', '.join(map(repr, extra))}, which is left out first"
        ] * bool(extra)
        said += [f"column {', '.join(map(repr, twice))} occurs twice"] * bool(twice)
        raise SchemaError(f"{what}: {' and '.join(said)}; it is ({schema})")


# --- row by row ---------------------------------------------------------------------------------


def _is_column(values: Any) -> bool:
    """Return whether a value is an array or a column of a frame, and so not a row."""
    if isinstance(values, tuple | list | Mapping | np.generic):
        return False
    if isinstance(values, np.ndarray):
        return values.ndim == 1 and not values.dtype.names
    arrow = any(hasattr(values, name) for name in ("__arrow_c_array__", "__arrow_c_stream__"))
    return arrow or isinstance(values, range | array) or hasattr(values, "dtype")


def _names_of(row: Any, schema: Schema) -> tuple[str, ...] | None:
    """Return the names of a row's values, in its order; None if it has none, or, as a named
    tuple, only unknown.
    """
    if isinstance(row, Mapping):
        return tuple(row)
    if isinstance(row, np.void) and row.dtype.names:
        return row.dtype.names
    if is_dataclass(row) and not isinstance(row, type):
        return tuple(field.name for field in fields(row))
    if hasattr(row, "_fields"):
        names = tuple(row._fields)
        return names if {*names} & {*schema.names} or not isinstance(row, tuple) else None
    # sqlite3.Row
    return tuple(row.keys()) if hasattr(row, "keys") and hasattr(row, "__getitem__") else None


def _of_records(
    rows: list[Any], names: tuple[str, ...], schema: Schema, keys_allowed: bool
) -> list[list[Any]]:
    """Return the columns of rows with named values."""
    columns = schema.key if keys_allowed and {*names} == {*schema.key} else schema.names
    before = object()
    for place, row in enumerate(rows):
        names = () if row is before else _names_of(row, schema) or ()
        if not names or type(row) is not type(rows[0]):
            raise SchemaError(f"row {place} is {_shown(row)}, and row 0 a {type(rows[0]).__name__}")
        if len(names) != len(columns) or {*names} != {*columns}:
            check_names(names, schema, columns, f"row {place}")
    by_item = not hasattr(rows[0], "_fields") and not is_dataclass(rows[0])
    getters: list[Callable[[Any], Any]] = [
        itemgetter(name) if by_item else attrgetter(name) for name in columns
    ]
    return [[*map(get, rows)] for get in getters]


def _single(rows: list[Any], schema: Schema, keys_allowed: bool) -> list[tuple[Any]]:
    """Wrap bare values as rows of one value. Raises SchemaError where rows have more columns."""
    narrow = 1 in (len(schema.columns), len(schema.key) if keys_allowed else 0)
    plain = (str, bytes, bytearray, memoryview)
    strays = (
        i
        for i, row in enumerate(rows)
        if not narrow or (hasattr(row, "__len__") and not isinstance(row, plain))
    )
    stray = next(strays, None)
    if stray is not None:
        raise SchemaError(f"row {stray} is {_shown(rows[stray])}; a record is a tuple ({schema})")
    return [(value,) for value in rows]


def _transposed(rows: list[Any], schema: Schema, keys_allowed: bool) -> list[list[Any]]:
    stray = next((i for i, row in enumerate(rows) if not isinstance(row, tuple | list)), None)
    if stray is not None:
        raise SchemaError(f"row {stray} is {_shown(rows[stray])}; a record is a tuple ({schema})")
    widths = set(map(len, rows))
    allowed = {len(schema.columns)} | ({len(schema.key)} if keys_allowed else set())
    if len(widths) > 1 or not widths <= allowed:
        bad = next(
            i for i, row in enumerate(rows) if len(row) not in allowed or len(row) != len(rows[0])
        )
        if len(rows) in allowed and len(widths) == 1:
            remedy = "; a list of columns is given by columns="
        else:
            remedy = ""
        raise SchemaError(f"row {bad} has {len(rows[bad])} values; a record is ({schema}){remedy}")
    flat = list(chain.from_iterable(rows))
    width = len(rows[0])
    return [flat[c::width] for c in range(width)]


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:60] + "…"
