"""SHOW CREATE TABLE and SHOW CREATE VIEW, whose text MySQL's clients read columns and keys from."""

from sqlglot import exp, parse_one

import ivm

COLUMNS = """
    SELECT column_name, data_type, is_nullable, column_default FROM information_schema.columns
    WHERE table_name = ? ORDER BY ordinal_position
"""
RULES = """
    SELECT conname, contype, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE conrelid = (SELECT oid FROM pg_class WHERE relname = ?) ORDER BY contype <> 'p', conname
"""
VIEW = "SELECT view_definition FROM information_schema.views WHERE table_name = ?"
TEXTS = {"VARCHAR": "TEXT", "BLOB": "LONGBLOB", "TIMESTAMP": "DATETIME(6)", "TIME": "TIME(6)",
         "TIMESTAMP WITH TIME ZONE": "TIMESTAMP(6)", "UUID": "CHAR(36)", "JSON": "JSON"}  # fmt: skip


def created(ws: ivm.Workspace, name: str) -> tuple[str, str] | None:
    """Return "View" or "Table", and the statement that creates it; None if there is no such name."""
    columns = [*(ws.sql(COLUMNS, [name]) or ())]
    if view := [*(ws.sql(VIEW, [name]) or ())]:
        return "View", f"CREATE VIEW {_quoted(name)} AS {_mysql(view[0][0])}"
    if not columns:
        return None
    lines = [_column(*column) for column in columns]
    lines += [_rule(*rule) for rule in ws.sql(RULES, [name], "postgres") or ()]
    inside = ",\n".join(f"  {line}" for line in lines)
    return "Table", f"CREATE TABLE {_quoted(name)} (\n{inside}\n) ENGINE=ivm"


def _column(name: str, type_: str, null: str, default: str | None) -> str:
    nested = type_.endswith("]") or type_.startswith(("STRUCT", "MAP"))
    name_of_type = (
        "JSON"
        if nested
        else TEXTS.get(type_) or exp.DataType.build(type_, "duckdb").sql("mysql").replace(", ", ",")
    )
    parts = [_quoted(name), name_of_type.lower(), "NOT NULL" if null == "NO" else ""]
    parts.append(f"DEFAULT {_mysql(default)}" if default is not None else "")
    return " ".join(filter(None, parts))


def _rule(name: str, kind: str, definition: str) -> str:
    made = parse_one(f"CREATE TABLE t (x INT, {definition})", read="postgres")
    said = made.this.expressions[-1].sql("mysql", identify=True)
    if kind == "u":
        return said.replace("UNIQUE", f"UNIQUE KEY {_quoted(name)}", 1)
    return said if kind == "p" else f"CONSTRAINT {_quoted(name)} {said}"


def _mysql(text: str) -> str:
    return parse_one(text, read="duckdb").sql("mysql", identify=True)


def _quoted(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql("mysql")
