"""The system's own relations, `information_schema` and PostgreSQL's `pg_catalog`: their rows.

A relation is declared by its columns and a function of all tables and views:

    "schemata": ("catalog_name schema_name schema_owner", lambda told: [...])

A column without a type is a text.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot import exp

from ivm.sql.catalog import Catalog
from ivm.sql.errors import SqlError, nearest
from ivm.sql.rules import Column
from ivm.sql.system import information_schema, pg_catalog
from ivm.sql.system.objects import DIALECT, Relations, Told, objects
from ivm.sql.types import VARCHAR, parsed

SCHEMAS: dict[str, Relations] = {
    "information_schema": information_schema.RELATIONS,
    "pg_catalog": pg_catalog.RELATIONS,
}


def is_system(table: exp.Table) -> bool:
    """Return whether a name of a FROM is that of a system's relation."""
    return bool(table.name) and _schema(table) in SCHEMAS


def _schema(table: exp.Table) -> str:
    """Return the schema of a table; PostgreSQL finds its own relations without it."""
    schema = table.db.lower()
    if not schema and table.meta.get(DIALECT) == "postgres":
        return "pg_catalog" if table.name.lower() in SCHEMAS["pg_catalog"] else ""
    return schema


def is_empty(table: exp.Table) -> bool:
    """Return whether a system's relation never has rows."""
    return is_system(table) and SCHEMAS[_schema(table)].get(table.name.lower(), ("", 0))[1] is None


def rows_of(catalog: Catalog, table: exp.Table) -> tuple[list[Column], list[tuple[Any, ...]], int]:
    """Return the columns and rows of a system's relation, and how many of its first columns tell
    the rows apart.  Raises SqlError for an unknown one.
    """
    schema = _schema(table)
    if (listed := SCHEMAS[schema].get(table.name.lower())) is None:
        raise SqlError(f"{schema} has no {table.name}{nearest(table.name, SCHEMAS[schema])}", table)
    declared, rows = listed
    columns = []
    for word in declared.split():
        name, _, type_ = word.partition(":")
        columns.append(Column(name, parsed(type_) if type_ else VARCHAR, True))
    told = Told(objects(catalog), table.meta.get(DIALECT, "duckdb"))
    found = rows(told) if rows else []
    key = next(n for n in range(1, 1 + len(columns)) if len({r[:n] for r in found}) == len(found))
    for n in range(key):
        columns[n] = replace(columns[n], nullable=False)
    return columns, found, key
