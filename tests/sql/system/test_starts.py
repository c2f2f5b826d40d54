"""What Grafana, Metabase and DBeaver ask a PostgreSQL server first, in few words of our own."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

import ivm

TABLES = """
    CREATE TABLE orders (id INT PRIMARY KEY, name TEXT NOT NULL, cents DECIMAL(10,2), at TIMESTAMP, UNIQUE (name));
    CREATE TABLE item (id INT PRIMARY KEY, o INT REFERENCES orders (id));
    INSERT INTO orders VALUES (1, 'a', 3.25, TIMESTAMP '2024-01-02 03:04:05');
    CREATE MATERIALIZED VIEW spent AS SELECT name, sum(cents) AS total FROM orders GROUP BY name
"""
# a text, and its rows, or how many they are
STARTS: dict[str, list[tuple[str, Any]]] = {
    "grafana": [
        ("SELECT current_setting('server_version_num')::int / 100 AS version", [(1500,)]),
        ("SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'", []),
        ("""SELECT quote_ident(table_name) AS "table" FROM information_schema.tables WHERE quote_ident(table_schema)
        NOT IN ('information_schema', 'pg_catalog') AND quote_ident(table_schema) IN (SELECT CASE WHEN
        trim(part[n]) = '"$user"' THEN user ELSE trim(part[n]) END  FROM
        generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
        array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS n,
        string_to_array(current_setting('search_path'), ',') part)""",
         [('item',), ('orders',), ('spent',)]),
        ("""SELECT quote_ident(table_name) AS "table" FROM information_schema.tables WHERE quote_ident(table_schema)
        NOT IN ('information_schema', 'pg_catalog') AND table_type = 'BASE TABLE' AND quote_ident(table_schema)
        IN (SELECT CASE WHEN trim(part[n]) = '"$user"' THEN user ELSE trim(part[n]) END  FROM
        generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
        array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS n,
        string_to_array(current_setting('search_path'), ',') AS part)""", [('item',), ('orders',)]),
        ("""SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns WHERE
        CASE WHEN array_length(parse_ident('orders'), 1) = 2 THEN quote_ident(table_schema) =
        (parse_ident('orders'))[1] AND quote_ident(table_name) = (parse_ident('orders'))[2] ELSE
        quote_ident(table_name) = (parse_ident('orders'))[1] AND quote_ident(table_schema) IN (SELECT CASE WHEN
        trim(part[n]) = '"$user"' THEN user ELSE trim(part[n]) END  FROM
        generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1),
        array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS n,
        string_to_array(current_setting('search_path'), ',') part) END""",
         [('at', 'timestamp without time zone'), ('cents', 'numeric'), ('id', 'integer'), ('name', 'text')]),
        ("""SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns WHERE
        quote_ident(table_name) = 'orders'""",
         [('at', 'timestamp without time zone'), ('cents', 'numeric'), ('id', 'integer'), ('name', 'text')]),
        ("""SELECT floor(extract(epoch from at)/300)*300 AS "time", sum(cents) FROM orders WHERE at BETWEEN
        '2024-01-01T00:00:00Z' AND '2024-02-01T00:00:00Z' GROUP BY 1 ORDER BY 1""",
         [(1704164400.0, Decimal('3.25'))]),
        ("""SELECT (extract(epoch from at)/300)::bigint*300 AS time, avg(cents) AS value FROM orders WHERE
        extract(epoch from at) >= 1704067200 AND extract(epoch from at) <= 1706745600 GROUP BY time ORDER BY
        time""", [(1704164700, 3.25)]),
        ("""SELECT at AS "time", cents FROM orders WHERE at >= '2024-01-01T00:00:00Z' AND at <=
        '2024-02-01T00:00:00Z' ORDER BY 1 LIMIT 1000""",
         [(datetime(2024, 1, 2, 3, 4, 5), Decimal('3.25'))]),
        ("SELECT date_trunc('hour', at) AS time, count(*) FROM orders GROUP BY 1 ORDER BY 1",
         [(datetime(2024, 1, 2, 3, 0), 1)]),
        ("SELECT DISTINCT name FROM orders ORDER BY name ASC LIMIT 1000", [('a',)]),
    ],
    "metabase": [
        ("""SELECT n.nspname AS schema, c.relname AS name, CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'p' THEN
        'PARTITIONED TABLE' WHEN 'v' THEN 'VIEW' WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'm' THEN 'MATERIALIZED VIEW'
        ELSE NULL END AS type, d.description, stat.n_live_tup AS estimated_row_count FROM pg_catalog.pg_class AS
        c INNER JOIN pg_catalog.pg_namespace AS n ON c.relnamespace = n.oid LEFT JOIN pg_catalog.pg_description
        AS d ON c.oid = d.objoid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass LEFT JOIN
        pg_stat_user_tables AS stat ON n.nspname = stat.schemaname AND c.relname = stat.relname WHERE
        c.relnamespace = n.oid AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND c.relkind IN
        ('r', 'p', 'v', 'f', 'm') AND n.nspname = 'public' ORDER BY type, schema, name""", 3),
        ("""SELECT c.column_name AS name, CASE WHEN c.udt_schema IN ('public', 'pg_catalog') THEN format('%s',
        c.udt_name) ELSE format('"%s"."%s"', c.udt_schema, c.udt_name) END AS "database-type",
        c.ordinal_position - 1 AS "database-position", c.table_schema AS "table-schema", c.table_name AS
        "table-name", pk.column_name IS NOT NULL AS "pk?", col_description(CAST(CAST(format('%I.%I',
        CAST(c.table_schema AS text), CAST(c.table_name AS text)) AS regclass) AS oid), c.ordinal_position) AS
        "field-comment", ((column_default IS NULL) OR (LOWER(column_default) = 'null')) AND (is_nullable = 'NO')
        AND NOT (((column_default IS NOT NULL) AND (column_default LIKE '%nextval(%')) OR (is_identity <> 'NO'))
        AS "database-required", ((column_default IS NOT NULL) AND (column_default LIKE '%nextval(%')) OR
        (is_identity <> 'NO') AS "database-is-auto-increment" FROM information_schema.columns AS c LEFT JOIN
        (SELECT tc.table_schema, tc.table_name, kc.column_name FROM information_schema.table_constraints AS tc
        INNER JOIN information_schema.key_column_usage AS kc ON tc.constraint_name = kc.constraint_name AND
        tc.table_schema = kc.table_schema AND tc.table_name = kc.table_name WHERE tc.constraint_type = 'PRIMARY
        KEY') AS pk ON c.table_schema = pk.table_schema AND c.table_name = pk.table_name AND c.column_name =
        pk.column_name WHERE c.table_schema !~ '^information_schema|catalog_history|pg_' AND c.table_schema IN
        ('public') ORDER BY "table-schema", "table-name", "database-position" """, 8),
        ("""SELECT fk_ns.nspname AS "fk-table-schema", fk_table.relname AS "fk-table-name", fk_column.attname AS
        "fk-column-name", pk_ns.nspname AS "pk-table-schema", pk_table.relname AS "pk-table-name",
        pk_column.attname AS "pk-column-name" FROM pg_constraint AS c INNER JOIN pg_class AS fk_table ON
        c.conrelid = fk_table.oid INNER JOIN pg_namespace AS fk_ns ON c.connamespace = fk_ns.oid INNER JOIN
        pg_attribute AS fk_column ON c.conrelid = fk_column.attrelid INNER JOIN pg_class AS pk_table ON
        c.confrelid = pk_table.oid INNER JOIN pg_namespace AS pk_ns ON pk_table.relnamespace = pk_ns.oid INNER
        JOIN pg_attribute AS pk_column ON c.confrelid = pk_column.attrelid WHERE fk_ns.nspname !~
        '^information_schema|catalog_history|pg_' AND c.contype = 'f'::char AND fk_column.attnum = ANY(c.conkey)
        AND pk_column.attnum = ANY(c.confkey) ORDER BY "fk-table-schema", "fk-table-name" """,
         [('public', 'item', 'o', 'public', 'orders', 'id')]),
        ("""SELECT nspname AS schema, typname AS name, array_agg(enumlabel) AS labels FROM pg_type INNER JOIN
        pg_enum ON pg_enum.enumtypid = pg_type.oid INNER JOIN pg_namespace ON pg_type.typnamespace =
        pg_namespace.oid GROUP BY nspname, typname""", []),
        ("""SELECT tmp."table-schema", tmp."table-name", trim(both '"' from pg_catalog.pg_get_indexdef(tmp.ci_oid,
        tmp.pos, false)) AS "field-name" FROM (SELECT n.nspname AS "table-schema", ct.relname AS "table-name",
        ci.oid AS ci_oid, (information_schema._pg_expandarray(i.indkey)).n AS pos FROM pg_catalog.pg_class ct
        JOIN pg_catalog.pg_namespace n ON ct.relnamespace = n.oid JOIN pg_catalog.pg_index i ON ct.oid =
        i.indrelid JOIN pg_catalog.pg_class ci ON ci.oid = i.indexrelid WHERE i.indpred IS NULL AND n.nspname !~
        '^information_schema|catalog_history|pg_') tmp WHERE tmp.pos = 1""",
         [('public', 'item', 'id'), ('public', 'orders', 'id'), ('public', 'orders', 'name')]),
        ("""with table_privileges as (select NULL as role, t.schemaname as schema, t.objectname as table,
        pg_catalog.has_any_column_privilege(current_user, '"' || replace(t.schemaname, '"', '""') || '"' || '.'
        || '"' || replace(t.objectname, '"', '""') || '"', 'update') as update,
        pg_catalog.has_any_column_privilege(current_user, '"' || replace(t.schemaname, '"', '""') || '"' || '.'
        || '"' || replace(t.objectname, '"', '""') || '"', 'select') as select,
        pg_catalog.has_table_privilege(current_user, '"' || t.schemaname || '"."' || t.objectname || '"',
        'delete') as delete from (select schemaname, tablename as objectname from pg_catalog.pg_tables union
        select schemaname, viewname as objectname from pg_catalog.pg_views union select schemaname, matviewname
        as objectname from pg_catalog.pg_matviews) t where t.schemaname !~ '^pg_' and t.schemaname <>
        'information_schema' and pg_catalog.has_schema_privilege(current_user, t.schemaname, 'usage')) select
        t.* from table_privileges t""", 3),
        ("show timezone", [('UTC',)]),
        ("SELECT current_setting('TIMEZONE') AS tz", [('UTC',)]),
        ("select version()", [('PostgreSQL 15.0 (ivm 0.2.0)',)]),
        ("SET SESSION TIMEZONE TO 'UTC'", None),
        ("SELECT 1 FROM pg_catalog.pg_class LIMIT 1", [(1,)]),
        ('SELECT true AS "_" FROM "public"."orders" WHERE 1 <> 1 LIMIT 0', []),
        ("""SELECT "public"."orders"."id" AS "id", "public"."orders"."name" AS "name" FROM "public"."orders" LIMIT
        10000""", [(1, 'a')]),
        ("""SELECT SUBSTRING("public"."orders"."name", 1, 1234) AS "substring123" FROM "public"."orders" LIMIT 10000""",
         [('a',)]),
        ('SELECT count(distinct "public"."orders"."name") AS "count" FROM "public"."orders"', [(1,)]),
        ("""SELECT DATE_TRUNC('month', "public"."orders"."at") AS "at", SUM("public"."orders"."cents") AS "sum" FROM
        "public"."orders" GROUP BY DATE_TRUNC('month', "public"."orders"."at") ORDER BY DATE_TRUNC('month',
        "public"."orders"."at") ASC""", [(datetime(2024, 1, 1, 0, 0), Decimal('3.25'))]),
        ("""SELECT CAST("public"."orders"."at" AS date) AS "at", COUNT(*) AS "count" FROM "public"."orders" WHERE
        "public"."orders"."at" >= DATE_TRUNC('day', (NOW() + INTERVAL '-30 day')) AND "public"."orders"."at" <
        DATE_TRUNC('day', NOW()) GROUP BY CAST("public"."orders"."at" AS date) ORDER BY 1""", []),
        ("""SELECT "source"."name" AS "name", AVG("source"."cents") AS "avg" FROM (SELECT "public"."orders".* FROM
        "public"."orders") AS "source" GROUP BY "source"."name" ORDER BY "avg" DESC, "source"."name" ASC""",
         [('a', 3.25)]),
        ("""SELECT CAST(extract(dow from "public"."orders"."at") AS integer) + 1 AS dow, COUNT(*) FROM orders GROUP
        BY 1""", [(3, 1)]),
        ("""SELECT ((floor((("public"."orders"."cents" - 0.0) / 12.5)) * 12.5) + 0.0) AS "cents", COUNT(*) AS
        "count" FROM "public"."orders" GROUP BY ((floor((("public"."orders"."cents" - 0.0) / 12.5)) * 12.5) +
        0.0) ORDER BY 1""", [(0.0, 1)]),
        ("""SELECT n.nspname AS schema, c.relname AS name, c.reltuples FROM pg_class c JOIN pg_namespace n ON n.oid
        = c.relnamespace WHERE c.relkind = 'm'""", [('public', 'spent', -1.0)]),
    ],
    "dbeaver": [
        ("SET extra_float_digits = 3", None),
        ("SET application_name = 'DBeaver 25 - Main <ivm>'", None),
        ("SHOW search_path", [('public',)]),
        ("SELECT current_schema(), session_user", [('public', 'ivm')]),
        ("SELECT version()", [('PostgreSQL 15.0 (ivm 0.2.0)',)]),
        ("""SELECT string_agg(word, ',') FROM pg_catalog.pg_get_keywords() WHERE word <> ALL ('{a,abs}'::text[])""",
         1),
        ("SELECT * FROM pg_catalog.pg_settings WHERE name = 'standard_conforming_strings'",
         [('standard_conforming_strings', 'on')]),
        ("SELECT db.oid, db.* FROM pg_catalog.pg_database db WHERE datname = 'ivm'",
         [(5, 5, 'ivm', 10, 6, 'C', 'C', False, True, None, 'c', None, 0)]),
        ("""SELECT db.oid, db.* FROM pg_catalog.pg_database db WHERE NOT datistemplate AND datallowconn ORDER BY
        db.datname""", [(5, 5, 'ivm', 10, 6, 'C', 'C', False, True, None, 'c', None, 0)]),
        ("""SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN
        pg_catalog.pg_description d ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid =
        'pg_namespace'::regclass ORDER BY nspname""", 3),
        ("""SELECT t.oid, t.*, c.relkind, format_type(nullif(t.typbasetype, 0), t.typtypmod) AS base_type_name,
        d.description FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_class c ON c.oid = t.typrelid LEFT
        OUTER JOIN pg_catalog.pg_description d ON t.oid = d.objoid WHERE t.typname IS NOT NULL AND (c.relkind IS
        NULL OR c.relkind = 'c') AND (t.typcategory IS NULL OR t.typcategory <> 'A')""", 19),
        ("""SELECT c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS partition_expr,
        pg_catalog.pg_get_partkeydef(c.oid) AS partition_key FROM pg_catalog.pg_class c LEFT OUTER JOIN
        pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
        WHERE c.relnamespace = 2200 AND c.relkind NOT IN ('i', 'I', 'c')""", 3),
        ("""SELECT c.relname, a.*, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) AS def_value, dsc.description,
        dep.objid FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON (a.attrelid = c.oid) LEFT
        OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid = ad.adrelid AND a.attnum = ad.adnum) LEFT OUTER JOIN
        pg_catalog.pg_description dsc ON (c.oid = dsc.objoid AND a.attnum = dsc.objsubid) LEFT OUTER JOIN
        pg_depend dep ON dep.refobjid = a.attrelid AND dep.deptype = 'i' AND dep.refobjsubid = a.attnum AND
        dep.classid = dep.refclassid WHERE NOT a.attisdropped AND c.relkind NOT IN ('i', 'I', 'c') AND c.oid =
        'orders'::regclass ORDER BY a.attnum""", 4),
        ("""SELECT c.oid, c.*, t.relname AS tabrelname, rt.relnamespace AS refnamespace, d.description, null AS
        consrc_copy FROM pg_catalog.pg_constraint c INNER JOIN pg_catalog.pg_class t ON t.oid = c.conrelid LEFT
        OUTER JOIN pg_catalog.pg_class rt ON rt.oid = c.confrelid LEFT OUTER JOIN pg_catalog.pg_description d ON
        d.objoid = c.oid AND d.objsubid = 0 AND d.classoid = 'pg_constraint'::regclass WHERE t.relnamespace =
        2200 ORDER BY c.oid""", 4),
        ("""SELECT c.oid, CASE WHEN c.contype = 'c' THEN "substring"(pg_get_constraintdef(c.oid), 7) ELSE null END
        AS consrc_copy FROM pg_catalog.pg_constraint c""", 4),
        ("""SELECT i.*, i.indkey AS keys, c.relname, c.relnamespace, c.relam, c.reltablespace, tc.relname AS
        tabrelname, dsc.description, pg_catalog.pg_get_expr(i.indpred, i.indrelid) AS pred_expr,
        pg_catalog.pg_get_expr(i.indexprs, i.indrelid, true) AS expr, pg_catalog.pg_relation_size(i.indexrelid)
        AS index_rel_size, pg_catalog.pg_stat_get_numscans(i.indexrelid) AS index_num_scans FROM
        pg_catalog.pg_index i INNER JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid INNER JOIN
        pg_catalog.pg_class tc ON tc.oid = i.indrelid LEFT OUTER JOIN pg_catalog.pg_description dsc ON
        i.indexrelid = dsc.objoid WHERE i.indrelid = 'orders'::regclass ORDER BY tabrelname, c.relname""",
         2),
        ("""SELECT p.oid AS poid, p.*, pg_catalog.pg_get_expr(p.proargdefaults, 0) AS arg_defaults, d.description
        FROM pg_catalog.pg_proc p LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = p.oid WHERE
        p.pronamespace = 2200 ORDER BY p.proname""", []),
        ("""SELECT c.oid, c.relname, a.rolname FROM pg_catalog.pg_class c, pg_catalog.pg_roles a WHERE a.oid =
        c.relowner AND c.relkind = 'r'""", 2),
        ("""SELECT a.oid, a.*, pd.description FROM pg_catalog.pg_roles a LEFT JOIN pg_catalog.pg_shdescription pd ON
        a.oid = pd.objoid ORDER BY a.rolname""",
         [(10, 10, 'ivm', True, True, True, True, True, -1, None, False, True, None)]),
        ("SELECT t.oid, t.*, pg_tablespace_location(t.oid) loc FROM pg_catalog.pg_tablespace t ORDER BY t.oid",
         [(1663, 1663, 'pg_default', None)]),
        ("SELECT l.oid, l.* FROM pg_catalog.pg_language l ORDER BY l.oid", []),
        ("""SELECT e.oid, cfg.tbls, n.nspname AS schema_name, e.* FROM pg_catalog.pg_extension e JOIN pg_namespace n
        ON n.oid = e.extnamespace LEFT JOIN (SELECT ARRAY_AGG(ns.nspname || '.' || cls.relname) tbls, oid_ext
        FROM (SELECT unnest(e1.extconfig) oid, e1.oid oid_ext FROM pg_catalog.pg_extension e1) c JOIN pg_class
        cls ON cls.oid = c.oid JOIN pg_namespace ns ON ns.oid = cls.relnamespace GROUP BY oid_ext) cfg ON
        cfg.oid_ext = e.oid ORDER BY e.oid""", []),
        ("SELECT pg_catalog.pg_get_viewdef('spent'::regclass, true)",
         [('SELECT name, SUM(cents) AS total FROM orders GROUP BY name',)]),
        ("SELECT * FROM pg_catalog.pg_enum", []),
        ("""SELECT pg_catalog.pg_relation_size(c.oid), pg_total_relation_size(c.oid) FROM pg_class c WHERE relkind
        IN ('r','m')""", [(0, 0), (0, 0), (0, 0)]),
        ("""SELECT i.*, c.relnamespace FROM pg_catalog.pg_inherits i, pg_catalog.pg_class c WHERE i.inhrelid = 1 AND
        c.oid = i.inhparent ORDER BY i.inhseqno""", []),
        ("""SELECT x.oid, x.*, p.relnamespace AS tabrelnamespace FROM pg_catalog.pg_trigger x INNER JOIN
        pg_catalog.pg_class p ON p.oid = x.tgrelid LEFT JOIN pg_catalog.pg_proc f ON f.oid = x.tgfoid WHERE NOT
        x.tgisinternal""", []),
        ("SELECT x.* FROM public.orders x ORDER BY x.id LIMIT 200",
         [(1, 'a', Decimal('3.25'), datetime(2024, 1, 2, 3, 4, 5))]),
        ("SELECT count(*) FROM public.orders", [(1,)]),
        ("SELECT pg_backend_pid()", [(1,)]),
        ("SELECT * FROM pg_catalog.pg_am", [(2, 'heap', 't', False), (403, 'btree', 'i', True)]),
        ("SELECT datname FROM pg_stat_activity", []),
        ("SELECT relname, n_live_tup FROM pg_stat_all_tables", []),
        ("SELECT c.collname FROM pg_collation c ORDER BY 1 LIMIT 3", []),
        ("SELECT seqtypid, seqstart FROM pg_sequence", []),
        ("SELECT * FROM information_schema.sequences", []),
        ("SELECT * FROM pg_catalog.pg_rules", []),
        ("SELECT cl.oid FROM pg_foreign_server cl", []),
        ("SELECT * FROM pg_event_trigger", []),
        ("SELECT * FROM pg_cast LIMIT 1", []),
        ("SELECT oid, oprname FROM pg_operator LIMIT 1", []),
        ("SELECT * FROM pg_stat_database WHERE datname = 'ivm'", []),
        ("SELECT * FROM pg_locks LIMIT 1", []),
        ("SELECT * FROM information_schema.role_table_grants WHERE table_schema = 'public'", 9),
        ("SELECT * FROM information_schema.routines", []),
        ("SELECT relacl FROM pg_class LIMIT 1", [(None,)]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("tool", STARTS)
def test_what_a_tool_asks_first_is_answered(tool: str) -> None:
    with ivm.open(":memory:") as ws:
        ws.sql(TABLES)
        for text, rows in STARTS[tool]:
            answer = ws.sql(text, dialect="postgres")
            found = None if answer is None else [*answer]
            assert (len(found or []) if isinstance(rows, int) else found) == rows, text
