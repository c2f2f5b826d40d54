"""PostgreSQL's types of columns: by which number, name and length its clients know each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ivm.sql.types import SqlType


class PostgresType(NamedTuple):
    """A type: its oid, its name in pg_type, its name in SQL, its bytes (-1: as many as it takes),
    its category, and the oid of a list of its values.
    """

    oid: int
    name: str
    shown: str
    size: int
    category: str
    array: int


BOOL = PostgresType(16, "bool", "boolean", 1, "B", 1000)
BYTEA = PostgresType(17, "bytea", "bytea", -1, "U", 1001)
INT8 = PostgresType(20, "int8", "bigint", 8, "N", 1016)
INT2 = PostgresType(21, "int2", "smallint", 2, "N", 1005)
INT4 = PostgresType(23, "int4", "integer", 4, "N", 1007)
TEXT = PostgresType(25, "text", "text", -1, "S", 1009)
OID = PostgresType(26, "oid", "oid", 4, "N", 1028)
JSON = PostgresType(114, "json", "json", -1, "U", 199)
FLOAT4 = PostgresType(700, "float4", "real", 4, "N", 1021)
FLOAT8 = PostgresType(701, "float8", "double precision", 8, "N", 1022)
VARCHAR = PostgresType(1043, "varchar", "character varying", -1, "S", 1015)
DATE = PostgresType(1082, "date", "date", 4, "D", 1182)
TIME = PostgresType(1083, "time", "time without time zone", 8, "D", 1183)
TIMESTAMP = PostgresType(1114, "timestamp", "timestamp without time zone", 8, "D", 1115)
TIMESTAMPTZ = PostgresType(1184, "timestamptz", "timestamp with time zone", 8, "D", 1185)
INTERVAL = PostgresType(1186, "interval", "interval", 16, "T", 1187)
NUMERIC = PostgresType(1700, "numeric", "numeric", -1, "N", 1231)
UUID = PostgresType(2950, "uuid", "uuid", 16, "U", 2951)
NAME = PostgresType(19, "name", "name", 64, "S", 1003)
TYPES = (
    BOOL, BYTEA, INT8, INT2, INT4, TEXT, OID, JSON, FLOAT4, FLOAT8, VARCHAR, DATE, TIME, TIMESTAMP,
    TIMESTAMPTZ, INTERVAL, NUMERIC, UUID, NAME,
)  # fmt: skip
BY_NAME = {
    "BOOLEAN": BOOL, "BLOB": BYTEA, "TINYINT": INT2, "SMALLINT": INT2, "UTINYINT": INT2,
    "USMALLINT": INT4, "INTEGER": INT4, "UINTEGER": INT8, "BIGINT": INT8, "UBIGINT": NUMERIC,
    "HUGEINT": NUMERIC, "UHUGEINT": NUMERIC, "FLOAT": FLOAT4, "DOUBLE": FLOAT8, "DECIMAL": NUMERIC,
    "DATE": DATE, "TIME": TIME, "TIMESTAMP": TIMESTAMP, "TIMESTAMP WITH TIME ZONE": TIMESTAMPTZ,
    "INTERVAL": INTERVAL, "UUID": UUID, "JSON": JSON, "STRUCT": JSON, "MAP": JSON,
}  # fmt: skip


ARRAY_IN = 750  # the oid of the function that reads a list, by which clients know types of lists


def postgres_type(type_: SqlType) -> PostgresType:
    """Return PostgreSQL's type of a column's values; of a list that of its lists."""
    if type_.element is not None:
        if type_.element.is_nested:
            return JSON
        element = postgres_type(type_.element)
        return PostgresType(element.array, f"_{element.name}", f"{element.shown}[]", -1, "A", 0)
    return BY_NAME.get(type_.name, TEXT)


def modifier(type_: SqlType) -> int:
    """Return what PostgreSQL notes beside a type: of a decimal its digits, else -1."""
    return ((type_.precision << 16) | type_.scale) + 4 if type_.is_decimal else -1


def shown(type_: SqlType) -> str:
    """Return a type as PostgreSQL writes it."""
    kind = postgres_type(type_)
    digits = f"({type_.precision},{type_.scale})" if type_.is_decimal else ""
    return f"{kind.shown}{digits}"
