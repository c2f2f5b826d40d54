"""Rows in any form that callers give (tuples, columns, dicts, Arrow tables), as columns of a schema."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from pagestore.errors import SchemaError
from pagestore.runtime.lazy import pyarrow as pa
from pagestore.values.codec import encode
from pagestore.values.dictionary import Dictionary, TextFinder
from pagestore.values.types import Column, Schema

INT64 = np.dtype(np.int64)


def key_columns(keys: Any, schema: Schema) -> list[Any]:
    """Keys in any form as a list of columns."""
    if isinstance(keys, np.ndarray) and keys.ndim == 1:
        keys = [keys]
    return rows_as_columns(keys, Schema(schema.stored[: len(schema.key)], schema.key), keys_allowed=False)


def plain_rows(rows: Any, schema: Schema) -> np.ndarray | None:
    """The words int64[C, n] of whole records that are tuples of nothing but int, or columns of words; else None.

    Most small transactions have their rows so, and need no more than this."""
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
    """Rows of one length, or columns, as columns; a flat list is one column. `what` names them in a SchemaError."""
    if isinstance(values, np.ndarray) and values.ndim == 2:
        return list(values)
    if len(values) and isinstance(values[0], tuple):
        if len(set(map(len, values))) > 1:
            raise SchemaError(f"{what} of several lengths; give prefixes of one length")
        return list(zip(*values, strict=True))
    if not len(values) or not hasattr(values[0], "__len__") or isinstance(values[0], str | bytes):
        return [values]
    return list(values)


def looked_up(what: str, wanted: Sequence[Column], columns: Sequence[Any], dictionary: Dictionary) -> np.ndarray:
    """Words int64[m, n] of m columns to look for, with the types of the first m `wanted`; unknown texts become 0.

    `what` names them in a SchemaError for columns of different lengths."""
    finder = TextFinder(dictionary)
    words = [encode(column, values, finder) for column, values in zip(wanted, columns, strict=False)]
    if len({len(column) for column in words}) > 1:
        raise SchemaError(f"{what} in columns of {', '.join(str(len(column)) for column in words)} values")
    return np.stack(words)


def rows_as_columns(rows: Any, schema: Schema, keys_allowed: bool) -> list[Any]:
    """Rows in any form as a list of columns: all of the schema's, or its key's where it has others."""
    keys_allowed = keys_allowed and len(schema.key) < len(schema.columns)
    if is_arrow(rows):
        return _of_arrow(rows, schema, keys_allowed)
    if isinstance(rows, dict):
        names = schema.key if keys_allowed and set(rows) == set(schema.key) else schema.names
        check_names(list(rows), schema, names)
        return [rows[name] for name in names]
    if (isinstance(rows, np.ndarray) and rows.ndim == 2) or not isinstance(rows, list | tuple):
        if not isinstance(rows, Iterable):
            raise SchemaError(f"{rows!r} is no list of rows; give tuples, columns or a table ({schema})")
        rows = list(rows)
    if rows and isinstance(rows[0], tuple):
        rows = _transposed(rows, schema, keys_allowed)
    elif rows and isinstance(rows[0], dict):
        rows = _of_dicts(rows, schema, keys_allowed)
    elif rows and (isinstance(rows[0], str | bytes) or not hasattr(rows[0], "__len__")):
        rows = _transposed([(value,) for value in rows], schema, keys_allowed)
    if not rows:
        return [[] for _ in schema.columns]
    if len(rows) != len(schema.columns) and not (keys_allowed and len(rows) == len(schema.key)):
        raise SchemaError(f"{len(rows)} columns for a relation of {len(schema.columns)} ({schema})")
    return list(rows)


def is_arrow(rows: Any) -> bool:
    """Whether rows are of Arrow: a table, a reader, a data set or its scanner, a frame of pandas or polars, ..."""
    return any(hasattr(rows, name) for name in ("__arrow_c_stream__", "__arrow_c_array__", "to_reader", "scanner"))


def arrow_batches(rows: Any) -> pa.RecordBatchReader | None:
    """The reader of Arrow rows that come as a stream; None for those that are in memory, and for other rows."""
    if not is_arrow(rows):
        return None
    if hasattr(rows, "scanner"):  # a pyarrow.dataset.Dataset
        rows = rows.scanner()
    if hasattr(rows, "to_reader") and not isinstance(rows, pa.Table):  # its Scanner
        rows = rows.to_reader()
    return rows if isinstance(rows, pa.RecordBatchReader) else None


def _table_of(rows: Any) -> pa.Table:
    """The table that Arrow rows are, without the index of a pandas frame that has no name."""
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])  # pa.table would import pandas, where there is one
    batches = arrow_batches(rows)
    table = rows if isinstance(rows, pa.Table) else pa.table(rows) if batches is None else batches.read_all()
    return table.drop_columns([name for name in table.column_names if re.fullmatch(r"__index_level_\d+__", name)])


def _of_arrow(rows: Any, schema: Schema, keys_allowed: bool) -> list[Any]:
    """The columns of a table by their names; of a relation or key of one column, that column alone will do."""
    try:
        table = _table_of(rows)
    except pa.ArrowInvalid as error:
        if "non-struct" not in str(error):
            raise
        names = schema.key if keys_allowed else schema.names
        if len(names) > 1:
            raise SchemaError(f"one column for a relation of {len(schema.columns)} ({schema})") from None
        return [pa.chunked_array(rows)]
    if keys_allowed and sorted(table.column_names) == sorted(schema.key):
        return [table.column(name) for name in schema.key]
    return list(arrow_columns(schema, table))


def _of_dicts(rows: list[dict[str, Any]], schema: Schema, keys_allowed: bool) -> list[list[Any]]:
    """The columns of rows that are dicts, by their names."""
    names = schema.key if keys_allowed and set(rows[0]) == set(schema.key) else schema.names
    for place, row in enumerate(rows):
        if not isinstance(row, dict):
            raise SchemaError(f"row {place} is {row!r}, and row 0 a dict")
        if row.keys() != set(names):
            check_names(list(row), schema, names, f"row {place}")
    return [[row[name] for row in rows] for name in names]


def check_names(given: Sequence[Any], schema: Schema, wanted: Sequence[str], what: str = "the rows") -> None:
    """Raise SchemaError where the names that `what` has are not those of the columns that are wanted."""
    missing, extra = [n for n in wanted if n not in given], [n for n in given if n not in wanted]
    if missing or extra:
        said = [f"column {', '.join(map(repr, missing))} is missing"] * bool(missing)
        said += [f"the relation has no column {', '.join(map(repr, extra))}"] * bool(extra)
        raise SchemaError(f"{what}: {' and '.join(said)}; it is ({schema})")


def _transposed(rows: list[tuple[Any, ...]], schema: Schema, keys_allowed: bool) -> list[list[Any]]:
    stray = next((i for i, row in enumerate(rows) if not isinstance(row, tuple)), None)
    if stray is not None:
        raise SchemaError(f"row {stray} is {rows[stray]!r}; a record is a tuple ({schema})")
    widths = set(map(len, rows))
    wanted = {len(schema.columns)} | ({len(schema.key)} if keys_allowed else set())
    if len(widths) > 1 or not widths <= wanted:
        bad = next(i for i, row in enumerate(rows) if len(row) not in wanted or len(row) != len(rows[0]))
        raise SchemaError(f"row {bad} has {len(rows[bad])} values; a record is ({schema})")
    flat = list(chain.from_iterable(rows))
    width = len(rows[0])
    return [flat[c::width] for c in range(width)]


def arrow_columns(schema: Schema, table: pa.Table) -> list[pa.ChunkedArray]:
    """The columns of a table by the schema's names, in the schema's order. Raises SchemaError for more or fewer."""
    names, known = Counter(table.column_names), {*schema.names}
    for name in schema.names:
        count = names[name]
        if count != 1:
            raise SchemaError(
                f"the rows have {count or 'no'} column{'s' * (count > 1)} {name!r}; the relation is ({schema}), "
                f"the rows are ({', '.join(table.column_names)})"
            )
    for name in names:
        if name not in known:
            raise SchemaError(
                f"the rows have a column {name!r}, which the relation ({schema}) has not: leave it out, as "
                f"table.select({list(schema.names)}) does"
            )
    return [table.column(name) for name in schema.names]
