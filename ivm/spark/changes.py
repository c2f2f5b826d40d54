"""Changes of a relation as one table, however they come: rows that are new, a change feed, columns in another order."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ivm.errors import EditError, FunctionConflictError
from ivm.lang.ir import Predicate
from pagestore.host import Type, WritableRelation

CHANGE, ORDER, MOMENT = "_change_type", "_commit_version", "_commit_timestamp"
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
    meant = {CHANGE, ORDER, MOMENT}
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
        if nulls := columns[ORDER].null_count:
            raise EditError(
                f"{predicate.name}: {ORDER} is null in {nulls} rows: give all rows of changes their versions"
            )
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


def as_inserted(table: pa.Table) -> pa.Table:
    """Rows as changes that insert them."""
    return table.append_column(pa.field(CHANGE, pa.string(), False), pa.repeat("insert", table.num_rows))


def newest_changes(table: pa.Table, keys: list[str]) -> pa.Table:
    """Of changes with a commit version, those of each key's newest one: those before do not count any more."""
    if ORDER not in table.column_names:
        return table
    newest = table.group_by(keys).aggregate([(ORDER, "max")]).rename_columns([*keys, ORDER])
    return table.join(newest, keys=[*keys, ORDER], join_type="inner").drop_columns([ORDER])


def refuse_two_values(name: str, table: pa.Table, keys: list[str]) -> None:
    """Raise FunctionConflictError if a batch gives a key two values at a time."""
    values = [column for column in table.column_names if column not in (*keys, CHANGE)]
    came = table.filter(pc.equal(table[CHANGE], "insert")).select([*keys, *values])
    if not values or not came.num_rows:
        return
    came = came.group_by([*keys, *values]).aggregate([])
    counted = came.group_by(keys).aggregate([([], "count_all")])
    twice = counted.filter(pc.greater(counted["count_all"], 1)).select(keys)
    if twice.num_rows:
        rows = came.join(twice.slice(0, 1), keys=keys, join_type="inner").select([*keys, *values]).to_pylist()
        one, other = (tuple(row.values()) for row in rows[:2])
        shown = (one[len(keys) :], other[len(keys) :])
        raise FunctionConflictError(name, one[: len(keys)], tuple(v[0] if len(v) == 1 else v for v in shown))


def take_changes(relation: WritableRelation, table: pa.Table, by: list[str]) -> None:
    """Take changes into a relation: first what goes, by the columns `by`, then what comes."""
    if (gone := table.filter(pc.equal(table[CHANGE], "delete")).select(by)).num_rows:
        relation.delete(gone)
    if (came := table.filter(pc.equal(table[CHANGE], "insert")).select(relation.schema.names)).num_rows:
        relation.set(came)


def difference(found: pa.Table, wanted: pa.Table) -> pa.Table:
    """The changes that make rows of a relation those of another table, which has its columns; null equals null.

    O(rows).
    """
    sides = (wanted, 1), (found, -1)
    tagged = [side.append_column("@sign", pa.repeat(sign, side.num_rows)) for side, sign in sides]
    counted = pa.concat_tables(tagged).group_by(found.column_names).aggregate([("@sign", "max"), ("@sign", "min")])
    changed = counted.filter(pc.equal(counted["@sign_max"], counted["@sign_min"]))
    kinds = pc.if_else(pc.greater(changed["@sign_max"], 0), "insert", "delete")
    return changed.select(found.column_names).append_column(CHANGE, kinds)
