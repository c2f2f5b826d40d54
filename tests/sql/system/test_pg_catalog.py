"""Questions about `pg_catalog` as psql and drivers of PostgreSQL ask them, in few words."""

from typing import Any

import ivm

TABLES = """
    CREATE TABLE orders (id INT PRIMARY KEY, name TEXT NOT NULL, cents DECIMAL(10,2), tags TEXT[],
        CONSTRAINT pair UNIQUE (name, cents));
    CREATE TABLE item (id INT PRIMARY KEY, o INT REFERENCES orders (id));
    CREATE MATERIALIZED VIEW spent AS SELECT name, sum(cents) AS total FROM orders GROUP BY name
"""
ASKED: list[tuple[str, list[tuple[Any, ...]]]] = [
    ("""SELECT c.relname, pg_catalog.pg_get_userbyid(c.relowner) FROM pg_catalog.pg_class c
        LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relname OPERATOR(pg_catalog.~) '^(ord.*)$' COLLATE pg_catalog.default AND c.relkind = 'r'
        AND n.nspname !~ '^pg_toast' AND pg_catalog.pg_table_is_visible(c.oid)""", [("orders", "ivm")]),
    ("""SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod) FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = 'orders'::pg_catalog.regclass AND a.attnum > 0 ORDER BY a.attnum""",
     [("id", "integer"), ("name", "text"), ("cents", "numeric(10,2)"), ("tags", "text[]")]),
    ("SELECT conname, pg_catalog.pg_get_constraintdef(oid, true) FROM pg_constraint WHERE contype = 'f'",
     [("item_o_fkey", "FOREIGN KEY (o) REFERENCES orders(id)")]),
    ("SELECT conrelid::regclass FROM pg_catalog.pg_constraint WHERE contype = 'u'", [("orders",)]),
    ("""SELECT conname FROM pg_catalog.pg_constraint WHERE contype = 'f' AND confrelid IN (
        SELECT pg_catalog.pg_partition_ancestors('7') UNION ALL VALUES ('orders'::pg_catalog.regclass))""",
     [("item_o_fkey",)]),
    ("SELECT pg_catalog.pg_get_indexdef(i.indexrelid, 0, true) FROM pg_index i WHERE indisprimary AND "
     "indrelid = 'item'::regclass", [("CREATE UNIQUE INDEX item_pkey ON public.item USING btree (id)",)]),
    ("SELECT typname AS name, oid::regtype::text AS shown FROM pg_type t WHERE t.oid = to_regtype('int4')",
     [("int4", "int4")]),
    ("""SELECT pol.polname, pg_catalog.array_to_string(array(SELECT rolname FROM pg_catalog.pg_roles
        WHERE oid = any (pol.polroles)), ',') FROM pg_catalog.pg_policy pol WHERE pol.polrelid = '1'""", []),
    ("""SELECT pubname, NULL FROM pg_catalog.pg_publication p JOIN pg_catalog.pg_class c ON c.oid = 1
        UNION SELECT pubname, (SELECT string_agg(attname, ', ') FROM pg_catalog.generate_series(0, 3) s,
        pg_catalog.pg_attribute WHERE attnum = prattrs[s]) FROM pg_catalog.pg_publication p
        JOIN pg_catalog.pg_publication_rel r ON p.oid = r.prpubid""", []),
    ("SELECT t.tgname, pg_get_triggerdef(t.oid, true) FROM pg_trigger t WHERE NOT t.tgisinternal", []),
    ("SELECT pg_catalog.obj_description(c.oid, 'pg_class'), pg_size_pretty(pg_table_size(c.oid)) "
     "FROM pg_class c WHERE c.relname = 'item'", [(None, "0 bytes")]),
    ("SELECT pg_get_viewdef(c.oid) LIKE 'SELECT%' FROM pg_class c WHERE c.relkind = 'm'", [(True,)]),
    ("SELECT datname, pg_encoding_to_char(encoding), array_to_string(datacl, '-') FROM pg_database",
     [("ivm", "UTF8", None)]),
    ("SELECT '16384'::regclass + 0", [(16384,)]),
    ("SELECT relhastriggers FROM pg_class WHERE relkind = 'r' ORDER BY relname", [(True,), (True,)]),
    ("""SELECT con.conname, unnest(i.indkey) AS column, generate_subscripts(i.indkey, 1) AS ord FROM
        pg_catalog.pg_constraint con JOIN pg_catalog.pg_index i ON con.conindid = i.indexrelid AND
        NOT i.indnullsnotdistinct WHERE con.contype <> 'f' ORDER BY 1, 3""",
     [("item_pkey", 1, 1), ("orders_pkey", 1, 1), ("pair", 2, 1), ("pair", 3, 2)]),
    ("SELECT a.attstorage, a.attcompression FROM pg_attribute a WHERE attname IN ('o', 'tags') ORDER BY 1",
     [("p", ""), ("x", "")]),
    ("""SELECT array_to_string(ARRAY(SELECT e.enumlabel FROM pg_enum e WHERE e.enumtypid = t.oid), ' '),
        array_to_string(t.typacl, ' ') FROM pg_type t WHERE typname = 'int4'""", [(None, None)]),
    *((f"SELECT oid FROM pg_catalog.{name}", []) for name in (
        "pg_conversion", "pg_default_acl", "pg_foreign_data_wrapper", "pg_ts_config")),
    ("SELECT setconfig FROM pg_db_role_setting", []),
    ("SELECT to_regclass('orders') IS NULL, to_regclass('none') IS NULL", [(False, True)]),
    ("SELECT pg_size_pretty(pg_total_relation_size('orders'))", [("0 bytes",)]),
    ("""SELECT '{"a,b": 3}'::json #>> '{"a,b"}', '{"c": [5, 6]}'::json #>> '{c, 1}'""", [("3", "6")]),
    ("""SELECT '{ a ,"b,\\"c{", NULL, "NULL"}'::text[]""", [(["a", 'b,"c{', None, "NULL"],)]),
    ("SELECT '{}'::int[], '{1,2}'::int[]", [([], [1, 2])]),
]  # fmt: skip


def test_psql_and_drivers_find_what_they_ask() -> None:
    ws = ivm.open(":memory:")
    ws.sql(TABLES, dialect="postgres")
    for text, rows in ASKED:
        found = ws.sql(text, dialect="postgres")
        assert found is not None and [*found] == rows, text


def test_places_of_parameters_may_stand_side_by_side() -> None:
    """The parser takes `$1,$2` for the beginning of a quoted text."""
    ws = ivm.open(":memory:")
    for dialect in ("duckdb", "postgres"):
        for text in ("SELECT $1,$2,'a$1,$2'", "SELECT $1,$2 ,'a$1,$2'", "SELECT $1, $2, 'a$1,$2'"):
            found = ws.sql(text, [7, "x"], dialect=dialect)  # type: ignore[arg-type]
            assert found is not None and [*found] == [(7, "x", "a$1,$2")], text
