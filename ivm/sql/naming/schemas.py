"""Schemas and catalogues before the names of tables: there is one schema, of several names, and
those of the system.

    SELECT main.t.x FROM ivm.main.t        reads t
    SELECT * FROM sales.t                  is refused
"""

from __future__ import annotations

from sqlglot import exp

from ivm.sql.errors import SqlError

DATABASE = "ivm"
SYSTEM = ("information_schema", "pg_catalog")
NAMES = ("main", "public", DATABASE)  # of the one schema; clients of MySQL say the database
OF_DIALECTS = {"spark": ("default",)}
CATALOGUES = {"spark": ("spark_catalog",)}


def schema_of(dialect: str) -> str:
    """Return the name of the schema of all tables in a dialect."""
    return {"postgres": "public", "spark": "default"}.get(dialect, "main")


def leave_out(node: exp.Table | exp.Column, dialect: str) -> None:
    """Leave out the one schema, and the one catalogue, before the name of a table."""
    schema, catalogue = node.text("db").lower(), node.text("catalog").lower()
    if catalogue in ("", DATABASE, *CATALOGUES.get(dialect, ())):
        if schema in (*NAMES, *OF_DIALECTS.get(dialect, ())):
            node.set("db", None)
        if not node.text("db") or schema in SYSTEM:
            node.set("catalog", None)
        if schema in SYSTEM and isinstance(node, exp.Column):  # its table says the schema
            node.set("db", None)


def of_one_schema(statements: list[exp.Expr], dialect: str) -> list[exp.Expr]:
    """Return statements.  Raises SqlError if one names a table of any other schema, or edits the
    system's.
    """
    named = [node for node in statements if str(node.args.get("kind")).upper() != "SCHEMA"]
    for table in [table for node in named for table in node.find_all(exp.Table)]:
        is_read = table.find_ancestor(exp.From, exp.Join) is not None
        if table.catalog or (table.db and (table.db.lower() not in SYSTEM or not is_read)):
            said = ".".join(part.name for part in table.parts if part.name)
            remedy = f"write {table.name}" if table.name else "tables are named without it"
            raise SqlError(f"{said}: there is one schema, {schema_of(dialect)}: {remedy}", table)
    return statements
