"""`information_schema`, as the standard has it: tables, columns, views, and what holds of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ivm.sql.naming.schemas import DATABASE
from ivm.sql.rules import Column
from ivm.sql.system.objects import (
    CHECK,
    FOREIGN,
    PRIMARY,
    TABLE,
    UNIQUE,
    USER,
    WORDS,
    Constraint,
    Object,
    Relations,
    Told,
)
from ivm.sql.system.postgres_types import postgres_type

Row = tuple[Any, ...]
RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")
KEYS = (PRIMARY, UNIQUE, FOREIGN)
BITS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "FLOAT": 24, "DOUBLE": 53}


def _schemata(told: Told) -> list[Row]:
    return [(DATABASE, name, USER) for name in ("information_schema", told.schema)]


def _tables(told: Told) -> list[Row]:
    return [
        (
            DATABASE,
            told.schema,
            obj.name,
            "BASE TABLE" if obj.kind == TABLE else "VIEW",
            "YES" if obj.kind == TABLE else "NO",
        )
        for obj in told.objects
    ]


def _columns(told: Told) -> list[Row]:
    return [
        (DATABASE, told.schema, obj.name, c.name, place, obj.defaults.get(c.name), *_typed(c, told))
        for obj in told.objects
        for place, c in enumerate(obj.columns, 1)
    ]


def _typed(column: Column, told: Told) -> Row:
    """Return what a column's type says: whether nulls are in it, its name, digits and bits."""
    type_, shown = column.type, postgres_type(column.type)
    name = shown.shown if told.dialect == "postgres" else str(type_)
    if told.dialect == "postgres" and type_.element is not None:
        name = "ARRAY"
    bits = BITS.get(type_.name)
    digits = type_.precision if type_.is_decimal else bits
    scale = type_.scale if type_.is_decimal else 0 if type_.is_integer else None
    fraction = 6 if type_.name in ("TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE") else None
    base = 10 if type_.is_decimal else 2 if bits else None
    null = "YES" if column.nullable else "NO"
    number, kind = (digits, base, scale, fraction), (shown.name, "pg_catalog")
    return null, name, None, None, *number, *kind, "NO", "NEVER", "YES"


def _views(told: Told) -> list[Row]:
    return [
        (DATABASE, told.schema, obj.name, obj.query, "NONE", "NO", "NO")
        for obj in told.objects
        if obj.kind != TABLE
    ]


def _constraints(told: Told) -> Iterator[tuple[Object, Constraint, Row]]:
    """Yield constraints with their tables, and how rows name both."""
    for table in told.objects:
        for constraint in table.constraints:
            names = (DATABASE, told.schema, constraint.name, DATABASE, told.schema, table.name)
            yield table, constraint, names


def _table_constraints(told: Told) -> list[Row]:
    return [(*names, WORDS[one.kind], "NO", "NO", "YES") for _, one, names in _constraints(told)]


def _key_column_usage(told: Told) -> list[Row]:
    return [
        (*names, name, place, place if constraint.kind == FOREIGN else None)
        for _, constraint, names in _constraints(told)
        if constraint.kind in KEYS
        for place, name in enumerate(constraint.columns, 1)
    ]


def _unique_of(told: Told, constraint: Constraint) -> str | None:
    """Return the name of the key that a foreign key refers to."""
    return next(
        (
            there.name
            for table in told.objects
            if table.name == constraint.target
            for there in table.constraints
            if there.kind in (PRIMARY, UNIQUE)
            and sorted(there.columns) == sorted(constraint.target_columns)
        ),
        None,
    )


def _referential_constraints(told: Told) -> list[Row]:
    return [
        (*names[:3], *names[:2], _unique_of(told, constraint), "NONE", "NO ACTION", "NO ACTION")
        for _, constraint, names in _constraints(told)
        if constraint.kind == FOREIGN
    ]


def _constraint_column_usage(told: Told) -> list[Row]:
    return [
        (DATABASE, told.schema, constraint.target or names[5], name, *names[:3])
        for _, constraint, names in _constraints(told)
        for name in constraint.target_columns or constraint.columns
    ]


def _check_constraints(told: Told) -> list[Row]:
    return [
        (*names[:3], constraint.text.removeprefix("CHECK "))
        for _, constraint, names in _constraints(told)
        if constraint.kind == CHECK
    ]


_OWN = "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name"
RELATIONS: Relations = {
    "schemata": ("catalog_name schema_name schema_owner", _schemata),
    "tables": ("table_catalog table_schema table_name table_type is_insertable_into", _tables),
    "columns": (
        "table_catalog table_schema table_name column_name ordinal_position:INTEGER column_default "
        "is_nullable data_type character_maximum_length:INTEGER character_octet_length:INTEGER "
        "numeric_precision:INTEGER numeric_precision_radix:INTEGER numeric_scale:INTEGER "
        "datetime_precision:INTEGER udt_name udt_schema is_identity is_generated is_updatable",
        _columns,
    ),
    "views": (
        "table_catalog table_schema table_name view_definition check_option is_updatable "
        "is_insertable_into",
        _views,
    ),
    "table_constraints": (
        f"{_OWN} constraint_type is_deferrable initially_deferred enforced", _table_constraints,
    ),
    "key_column_usage": (
        f"{_OWN} column_name ordinal_position:INTEGER position_in_unique_constraint:INTEGER",
        _key_column_usage,
    ),
    "referential_constraints": (
        "constraint_catalog constraint_schema constraint_name unique_constraint_catalog "
        "unique_constraint_schema unique_constraint_name match_option update_rule delete_rule",
        _referential_constraints,
    ),
    "constraint_column_usage": (
        "table_catalog table_schema table_name column_name constraint_catalog constraint_schema "
        "constraint_name",
        _constraint_column_usage,
    ),
    "check_constraints": (
        "constraint_catalog constraint_schema constraint_name check_clause", _check_constraints,
    ),
    "role_table_grants": (
        "grantor grantee table_catalog table_schema table_name privilege_type is_grantable",
        lambda told: [
            (USER, USER, DATABASE, told.schema, object_.name, right, "YES")
            for object_ in told.objects
            for right in RIGHTS[: 4 if object_.kind == TABLE else 1]
        ],
    ),
    "routines": ("routine_catalog routine_schema routine_name routine_type data_type", None),
    "sequences": ("sequence_catalog sequence_schema sequence_name data_type", None),
    "triggers": ("trigger_catalog trigger_schema trigger_name event_object_table", None),
}  # fmt: skip
