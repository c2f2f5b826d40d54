"""Convert changes of a relation to one table: from new rows, a change feed, or other columns."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ivm.errors import EditError, FunctionConflictError
from ivm.lang.ir import Predicate
from pagestore.errors import WordError
from pagestore.host import Column, Type, WritableRelation, typed

CHANGE, ORDER, MOMENT = "_change_type", "_commit_version", "_commit_timestamp"
# Iceberg's: orders the commits of one changelog, and restarts at 0 in the next
ORDINAL = "_change_ordinal"
OF_CHANGES = {CHANGE, ORDER, MOMENT, ORDINAL, "_commit_snapshot_id"}
KINDS = {  # of Spark and Delta, and of Iceberg
    "insert": "insert", "update_postimage": "insert", "update_after": "insert",
    "delete": "delete", "update_preimage": "delete", "update_before": "delete",
}  # fmt: skip
INT64 = Type.parse("int64")


def schema_of(predicate: Predicate, changed: bool = False) -> pa.Schema:
    """Return the Arrow schema of rows of a relation or view; if `changed`, with `_change_type`."""
    fields = [
        pa.field(name, Type.parse(type_).arrow, place in predicate.nullable)
        for place, (name, type_) in enumerate(zip(predicate.columns, predicate.types, strict=True))
    ]
    fields = fields[:-1] if predicate.bag else fields  # the last one says how often a row occurs
    return pa.schema([*fields, pa.field(CHANGE, pa.string(), False)] if changed else fields)


def as_spark_has(schema: pa.Schema) -> pa.Schema:
    """Return a relation's schema in the types of Spark DataFrames made in Python; each value casts
    to its type there.

    The types are those of `format("pagestore")`: uint64 becomes decimal(20,0), a timestamp with a
    zone becomes UTC.
    """
    return pa.schema([pa.field(field.name, _arrow_of_spark(field.type)) for field in schema])


def _arrow_of_spark(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_uint64(type_):
        return pa.decimal128(20, 0)
    if pa.types.is_time(type_):
        return pa.time64("ns")
    return pa.timestamp("us", "UTC") if pa.types.is_timestamp(type_) and type_.tz else type_


def as_changes(table: Any, predicate: Predicate) -> pa.Table:
    """Convert Arrow data to the relation's columns, `_change_type`, and `_commit_version` if the
    changes are ordered.

    Without `_change_type` all rows are insertions. Only the key of a deletion counts, its values
    become null; a table of deletions may lack them. Other columns are dropped (see
    `warn_of_others`). Raises EditError for missing columns, values that a column does not hold
    exactly, nulls in a column without nulls, and unknown change types.
    """
    rows = table if isinstance(table, pa.Table) else pa.table(table)
    kinds = _kinds(rows, predicate.name)
    # the store's key of f[] = t is its value
    gone, keys = pc.equal(kinds, "delete"), max(1, key_count(predicate))
    all_gone = rows.num_rows > 0 and pc.all(gone).as_py()
    columns: dict[str, Any] = {}
    for place, field in enumerate(schema_of(predicate)):
        if all_gone and place >= keys:
            columns[field.name] = pa.nulls(rows.num_rows, field.type)
        elif field.name not in rows.column_names:
            raise EditError(
                f"{predicate.name} has the columns {', '.join(predicate.columns)}; the changes "
                f"have {', '.join(rows.column_names)}: select or rename them"
            )
        else:
            of_rows = None if place < keys or CHANGE not in rows.column_names else gone
            columns[field.name] = _column(predicate, place, rows[field.name], of_rows)
    columns[CHANGE] = kinds
    if order := next((name for name in (ORDER, ORDINAL) if name in rows.column_names), None):
        columns[ORDER] = _exact(predicate.name, order, INT64, rows[order])
        if nulls := columns[ORDER].null_count:
            raise EditError(
                f"{predicate.name}: {order} is null in {nulls} rows: give each change its version"
            )
    return pa.table(columns)


def key_count(predicate: Predicate) -> int:
    """Return how many of the first columns are the key."""
    return len(predicate.keys) if predicate.key_count is None else predicate.key_count


def warn_of_others(names: Sequence[str], predicate: Predicate) -> None:
    """Warn of columns that a source has and its relation lacks, for example after one was added
    to the source.
    """
    others = ", ".join(
        name for name in names if name not in predicate.columns and name not in OF_CHANGES
    )
    if others and {*predicate.columns} <= {*names}:
        said = f"{predicate.name} has no column {others}, which is left out: declare it in the rules to take it"
        warnings.warn(said, stacklevel=2)


def _column(
    predicate: Predicate, place: int, values: pa.ChunkedArray, gone: pa.ChunkedArray | None
) -> pa.Array:
    """Convert a column of changes to its type, with null in the rows where `gone`, if given."""
    name, type_ = predicate.columns[place], Type.parse(predicate.types[place])
    if gone is not None and not pa.types.is_nested(values.type):
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        values = pc.if_else(gone, pa.scalar(None, values.type), values)
    array = _exact(predicate.name, name, type_, values)
    if place not in predicate.nullable:
        if gone is None:
            nulls = pc.is_null(array)
        else:
            nulls = pc.and_not(pc.is_null(array), gone.combine_chunks())
        if pc.any(nulls).as_py():
            row = pc.index(nulls, True).as_py()
            raise EditError(
                f"{predicate.name}: column {name}, row {row}: null, and the column is never null: "
                f"drop such rows"
            )
    return array


def _exact(relation: str, name: str, type_: Type, values: pa.ChunkedArray) -> pa.Array:
    """Convert values to a column's type. Raises EditError for one that it does not hold exactly."""
    try:
        return typed(Column(name, type_), values).cast(type_.arrow)
    except WordError as error:
        raise EditError(f"{relation}: {error}") from None


def _kinds(table: pa.Table, name: str) -> pa.ChunkedArray:
    """Return `insert` or `delete` for each row."""
    if CHANGE not in table.column_names:
        return pa.chunked_array([pa.repeat("insert", table.num_rows)])
    coded = table[CHANGE].cast(pa.string()).combine_chunks().dictionary_encode()
    words = coded.dictionary.to_pylist()
    for kind in words:
        if kind.lower() not in KINDS:
            raise EditError(f"{name}: _change_type is {kind!r}, and not one of {', '.join(KINDS)}")
    if coded.null_count:
        raise EditError(f"{name}: _change_type is null in {coded.null_count} rows")
    kinds = pa.array([KINDS[kind.lower()] for kind in words], pa.string())
    return pa.chunked_array([pc.take(kinds, coded.indices)])


def newest_changes(table: pa.Table, keys: list[str]) -> pa.Table:
    """Keep, of changes with a commit version, only those of each key's newest version."""
    if ORDER not in table.column_names:
        return table
    placed = table.append_column("@place", pa.array(np.arange(table.num_rows)))
    # where null is null
    found = placed.group_by(keys).aggregate([(ORDER, "max"), (ORDER, "list"), ("@place", "list")])
    orders, places = (
        pc.list_flatten(found[name]).to_numpy() for name in (f"{ORDER}_list", "@place_list")
    )
    newest = np.repeat(
        found[f"{ORDER}_max"].to_numpy(), pc.list_value_length(found["@place_list"]).to_numpy()
    )
    return table.take(np.sort(places[orders == newest])).drop_columns([ORDER])


def refuse_two_values(name: str, table: pa.Table, keys: list[str]) -> None:
    """Raise FunctionConflictError if a batch inserts two values for one key."""
    values = [column for column in table.column_names if column not in (*keys, CHANGE)]
    came = table.filter(pc.equal(table[CHANGE], "insert")).select([*keys, *values])
    if not values or not came.num_rows:
        return
    came = came.group_by([*keys, *values]).aggregate([])
    if keys:
        counted = came.group_by(keys).aggregate([([], "count_all")])
        twice = counted.filter(pc.greater(counted["count_all"], 1)).select(keys)
        came = came.join(twice.slice(0, 1), keys=keys, join_type="inner")
    if came.num_rows > 1:
        rows = came.select([*keys, *values]).to_pylist()
        row_one, other = (tuple(row.values()) for row in rows[:2])
        shown = (row_one[len(keys) :], other[len(keys) :])
        raise FunctionConflictError(
            name, row_one[: len(keys)], tuple(v[0] if len(v) == 1 else v for v in shown)
        )


def take_changes(relation: WritableRelation, table: pa.Table, by: list[str]) -> None:
    """Apply changes to a relation: first deletions, by the columns `by`, then insertions."""
    gone, came = apart(table)
    if gone.num_rows:
        relation.delete(gone.select(by))
    if came.num_rows:
        relation.set(came.select(relation.schema.names))


def apart(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the deletions, and the insertions."""
    gone = pc.equal(table[CHANGE], "delete")
    return table.filter(gone), table.filter(pc.invert(gone))


def difference(found: pa.Table, wanted: pa.Table) -> pa.Table:
    """Return the changes that turn the rows `found` into the rows `wanted`, of the same columns;
    null equals null.

    Equal rows count. O(rows).
    """
    sides = (wanted, 1), (found, -1)
    tagged = [side.append_column("@sign", pa.repeat(sign, side.num_rows)) for side, sign in sides]
    counted = pa.concat_tables(tagged).group_by(found.column_names).aggregate([("@sign", "sum")])
    more = counted["@sign_sum"].to_numpy()
    kinds = pc.if_else(pc.greater(counted["@sign_sum"], 0), "insert", "delete")
    changed = counted.select(found.column_names).append_column(CHANGE, kinds)
    return changed.take(np.repeat(np.arange(len(more)), abs(more)))
