"""PostgreSQL's types of columns: by which number, name and length its clients know each."""

from __future__ import annotations

from ivm.sql.types import (
    BOOL,
    BYTEA,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    KINDS,
    NUMERIC,
    OF_JSON,
    TEXT,
    PostgresType,
    SqlType,
)

__all__ = [  # what those who speak with PostgreSQL's clients read
    "BOOL", "BYTEA", "FLOAT4", "FLOAT8", "INT2", "INT4", "INT8", "KINDS", "NUMERIC", "OF_JSON",
    "TEXT",
]  # fmt: skip
OID = PostgresType(26, "oid", "oid", 4, "N", 1028)
VARCHAR = PostgresType(1043, "varchar", "character varying", -1, "S", 1015)
NAME = PostgresType(19, "name", "name", 64, "S", 1003)
DATE, TIME, TIMESTAMP, TIMESTAMPTZ, INTERVAL, UUID = (
    KINDS[name].postgres
    for name in ("DATE", "TIME", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "INTERVAL", "UUID")
)
TYPES = (
    BOOL, BYTEA, INT8, INT2, INT4, TEXT, OID, OF_JSON, FLOAT4, FLOAT8, VARCHAR, DATE, TIME,
    TIMESTAMP, TIMESTAMPTZ, INTERVAL, NUMERIC, UUID, NAME,
)  # fmt: skip
ARRAY_IN = 750  # the oid of the function that reads a list, by which clients know types of lists


def postgres_type(type_: SqlType) -> PostgresType:
    """Return PostgreSQL's type of a column's values; of a list that of its lists."""
    if type_.element is not None:
        if type_.element.is_nested:
            return OF_JSON
        element = postgres_type(type_.element)
        return PostgresType(element.array, f"_{element.name}", f"{element.shown}[]", -1, "A", 0)
    return KINDS[type_.name].postgres


def modifier(type_: SqlType) -> int:
    """Return what PostgreSQL notes beside a type: of a decimal its digits, else -1."""
    return ((type_.precision << 16) | type_.scale) + 4 if type_.is_decimal else -1


def shown(type_: SqlType) -> str:
    """Return a type as PostgreSQL writes it."""
    kind = postgres_type(type_)
    digits = f"({type_.precision},{type_.scale})" if type_.is_decimal else ""
    return f"{kind.shown}{digits}"
