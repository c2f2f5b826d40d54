"""SQLAlchemy's types of columns, and the type of SQL that each is written as here."""

from __future__ import annotations

from typing import Any

from sqlalchemy import types
from sqlalchemy.sql.compiler import GenericTypeCompiler

from ivm.sql.types import SqlType

BY_NAME: dict[str, Any] = {
    "BOOLEAN": types.BOOLEAN, "TINYINT": types.SMALLINT, "SMALLINT": types.SMALLINT,
    "INTEGER": types.INTEGER, "BIGINT": types.BIGINT, "UTINYINT": types.SMALLINT,
    "USMALLINT": types.INTEGER, "UINTEGER": types.BIGINT, "UBIGINT": types.NUMERIC(20, 0),
    "HUGEINT": types.NUMERIC(38, 0), "FLOAT": types.FLOAT, "DOUBLE": types.DOUBLE,
    "VARCHAR": types.VARCHAR, "DATE": types.DATE, "TIME": types.TIME, "TIMESTAMP": types.TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": types.TIMESTAMP(timezone=True), "UUID": types.UUID,
    "BLOB": types.BLOB, "JSON": types.JSON, "INTERVAL": types.Interval,
}  # fmt: skip


def alchemy_type(type_: SqlType) -> Any:
    """Return SQLAlchemy's type of a column."""
    if type_.element is not None:
        return types.ARRAY(alchemy_type(type_.element))
    if type_.is_decimal:
        return types.NUMERIC(type_.precision, type_.scale)
    return types.Enum(*type_.words) if type_.words else BY_NAME.get(type_.name, types.NullType)


class IvmTypeCompiler(GenericTypeCompiler):
    """Writes types as this SQL names them; texts may be longer than a type says."""

    def visit_VARCHAR(self, type_: Any, **kw: Any) -> str:
        """Return the type of texts, which have no longest."""
        return "VARCHAR"

    visit_CHAR = visit_NVARCHAR = visit_NCHAR = visit_TEXT = visit_CLOB = visit_VARCHAR

    def visit_FLOAT(self, type_: Any, **kw: Any) -> str:
        """Return the type of floats."""
        return "DOUBLE"

    visit_REAL = visit_DOUBLE = visit_DOUBLE_PRECISION = visit_FLOAT

    def visit_NUMERIC(self, type_: Any, **kw: Any) -> str:
        """Return the type of decimals, with 18 digits if none are said."""
        if type_.precision is None:
            return "DECIMAL(18,6)"
        return f"DECIMAL({type_.precision},{type_.scale or 0})"

    visit_DECIMAL = visit_NUMERIC

    def visit_DATETIME(self, type_: Any, **kw: Any) -> str:
        """Return the type of moments."""
        return "TIMESTAMP WITH TIME ZONE" if type_.timezone else "TIMESTAMP"

    visit_TIMESTAMP = visit_DATETIME

    def visit_JSON(self, type_: Any, **kw: Any) -> str:
        """Return the type of JSON."""
        return "JSON"

    def visit_UUID(self, type_: Any, **kw: Any) -> str:
        """Return the type of UUIDs."""
        return "UUID"

    def visit_BLOB(self, type_: Any, **kw: Any) -> str:
        """Return the type of bytes."""
        return "BLOB"

    visit_BINARY = visit_VARBINARY = visit_large_binary = visit_BLOB

    def visit_ARRAY(self, type_: Any, **kw: Any) -> str:
        """Return the type of lists."""
        return f"{self.process(type_.item_type, **kw)}[]"
