"""Changes of a relation as one table, however they come: rows that are new, a change feed, columns in another order."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ivm.errors import EditError
from ivm.lang.ir import Predicate
from ivm.spark.cell import CHANGE, ORDER
from pagestore.host import Type

KINDS = {"insert": "insert", "update_postimage": "insert", "delete": "delete", "update_preimage": "delete"}


def schema_of(predicate: Predicate, changed: bool = False) -> pa.Schema:
    """The columns of a relation or view in Arrow's types; if `changed`, with `_change_type`."""
    fields = [
        pa.field(name, Type.parse(type_).arrow, place in predicate.nullable)
        for place, (name, type_) in enumerate(zip(predicate.columns, predicate.types, strict=True))
    ]
    return pa.schema([*fields, pa.field(CHANGE, pa.string(), False)] if changed else fields)


def as_changes(table: Any, predicate: Predicate) -> pa.Table:
    """Anything of Arrow as the relation's columns, `_change_type`, and `_commit_version` if it is there.

    Without `_change_type` all rows are inserted. Raises EditError for columns that are missing or no column of the
    relation, types that do not fit, and other kinds of change.
    """
    found = table if isinstance(table, pa.Table) else pa.table(table)
    meant = {CHANGE, ORDER, "_commit_timestamp"}
    if {*found.column_names} - meant != {*predicate.columns} - meant:
        raise EditError(
            f"{predicate.name} has the columns {', '.join(predicate.columns)}; the changes have "
            f"{', '.join(found.column_names)}: select or rename them"
        )
    columns: dict[str, Any] = {}
    for field in schema_of(predicate):
        try:
            columns[field.name] = found[field.name].cast(field.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise EditError(f"{predicate.name}: column {field.name} is no {field.type}: {error}") from None
        if not field.nullable and columns[field.name].null_count:
            raise EditError(f"{predicate.name}: column {field.name} has nulls, and it is never null: drop these rows")
    columns[CHANGE] = _kinds(found, predicate.name)
    if ORDER in found.column_names:
        columns[ORDER] = found[ORDER].cast(pa.int64())
    return pa.table(columns)


def _kinds(table: pa.Table, name: str) -> pa.ChunkedArray:
    """`insert` or `delete` for each row."""
    if CHANGE not in table.column_names:
        return pa.chunked_array([pa.repeat("insert", table.num_rows)])
    coded = table[CHANGE].cast(pa.string()).combine_chunks().dictionary_encode()
    for kind in coded.dictionary.to_pylist():
        if kind not in KINDS:
            raise EditError(f"{name}: _change_type is {kind!r}, and not one of {', '.join(KINDS)}")
    if coded.null_count:
        raise EditError(f"{name}: _change_type is null in {coded.null_count} rows")
    kinds = pa.array([KINDS[kind] for kind in coded.dictionary.to_pylist()], pa.string())
    return pa.chunked_array([pc.take(kinds, coded.indices)])
