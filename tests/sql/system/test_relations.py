"""The system's own relations, asked by SQL."""

from typing import Any

import ivm
from ivm.sql.system.relations import SCHEMAS

TABLES = """
    CREATE TABLE orders (id INT PRIMARY KEY, name TEXT NOT NULL, cents DECIMAL(10,2) DEFAULT 0, UNIQUE (name));
    CREATE TABLE item (id INT, o INT REFERENCES orders, tags TEXT[], at TIMESTAMP, PRIMARY KEY (id, o), CHECK (id > 0));
    CREATE TABLE plain (x DOUBLE);
    CREATE VIEW cheap AS SELECT id FROM orders WHERE cents < 5;
    CREATE MATERIALIZED VIEW spent AS SELECT name, sum(cents) AS total FROM orders GROUP BY name
"""
ASKED: list[tuple[str, list[tuple[Any, ...]]]] = [
    ("SELECT table_name, table_type FROM information_schema.tables ORDER BY 1",
     [("cheap", "VIEW"), ("item", "BASE TABLE"), ("orders", "BASE TABLE"), ("plain", "BASE TABLE"),
      ("spent", "VIEW")]),
    ("SELECT column_name, data_type, is_nullable, column_default, numeric_scale "
     "FROM information_schema.columns WHERE table_name = 'orders' ORDER BY ordinal_position",
     [("id", "INTEGER", "NO", None, 0), ("name", "VARCHAR", "NO", None, None),
      ("cents", "DECIMAL(10,2)", "YES", "0", 2)]),
    ("SELECT constraint_name, constraint_type FROM information_schema.table_constraints "
     "WHERE table_name = 'item' ORDER BY 1",
     [("item_id_check", "CHECK"), ("item_o_fkey", "FOREIGN KEY"), ("item_pkey", "PRIMARY KEY")]),
    ("SELECT k.column_name, u.table_name, u.column_name FROM information_schema.key_column_usage k "
     "JOIN information_schema.constraint_column_usage u USING (constraint_name) "
     "JOIN information_schema.referential_constraints r USING (constraint_name)",
     [("o", "orders", "id")]),
    ("SELECT table_name FROM information_schema.views ORDER BY 1", [("cheap",), ("spent",)]),
    ("SELECT schema_name FROM information_schema.schemata ORDER BY 1",
     [("information_schema",), ("main",)]),
    ("WITH t AS (SELECT table_name AS n FROM information_schema.tables) SELECT count(*) FROM t "
     "JOIN orders o ON o.name <> t.n", [(5,)]),
]  # fmt: skip


def workspace() -> ivm.Workspace:
    ws = ivm.open(":memory:")
    ws.sql(TABLES)
    ws.sql("INSERT INTO orders VALUES (1, 'tea', 3)")
    return ws


def test_tables_tell_of_themselves() -> None:
    ws = workspace()
    for text, rows in ASKED:
        found = ws.sql(text)
        assert found is not None and [*found] == rows, text


def test_every_relation_of_the_system_answers() -> None:
    """Each as often as it is declared, with and without tables in the store."""
    for ws in (workspace(), ivm.open(":memory:")):
        for schema, relations in SCHEMAS.items():
            for name, (declared, rows) in relations.items():
                found = ws.sql(f"SELECT * FROM {schema}.{name}", dialect="postgres")
                assert found is not None
                assert found.to_arrow().num_columns == len(declared.split()), name
                assert rows is not None or not len(found), name


def test_oids_lead_from_one_relation_to_another() -> None:
    """They stay while other tables come and go, and PostgreSQL's dialect finds them unnamed."""
    ws = workspace()
    text = "SELECT c.oid, c.relname FROM pg_class c WHERE c.relkind IN ('r', 'v', 'm')"
    before = {*(ws.sql(text, dialect="postgres") or ())}
    ws.sql("CREATE TABLE another (x INT); DROP TABLE plain")
    after = {*(ws.sql(text, dialect="postgres") or ())}
    assert {name for _, name in before - after} == {"plain"}
    text = """SELECT a.attname, t.typname, a.attnotnull FROM pg_catalog.pg_attribute a
        JOIN pg_class c ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid
        WHERE c.relname = 'item' AND a.attnum > 0 ORDER BY a.attnum"""
    assert [*(ws.sql(text, dialect="postgres") or ())] == [
        ("id", "int4", True), ("o", "int4", True), ("tags", "_text", False),
        ("at", "timestamp", False),
    ]  # fmt: skip
    text = """SELECT c.conname, t.relname FROM pg_constraint c
        JOIN pg_class t ON t.oid = c.confrelid WHERE c.contype = 'f'"""
    assert [*(ws.sql(text, dialect="postgres") or ())] == [("item_o_fkey", "orders")]
