"""`pg_catalog`, as far as psql, SQLAlchemy, Metabase, Grafana and DBeaver ask PostgreSQL."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from sqlglot.dialects.postgres import Postgres

from ivm.sql.naming.schemas import DATABASE
from ivm.sql.system import objects
from ivm.sql.system.postgres_types import ARRAY_IN, TYPES, modifier, postgres_type
from ivm.sql.system.settings import VALUES

Row = tuple[Any, ...]
OWNER, HEAP, BTREE = 10, 2, 403  # oids that PostgreSQL itself has for these
SYSTEM, INFORMATION, PUBLIC, DATABASE_ID = 11, 13000, 2200, 5
FIRST_OWN, LAST_OWN = 1 << 14, 1 << 30


def numbers(told: objects.Told) -> dict[str, int]:
    """Return the oid of each table, view and constraint; a constraint of an index has that of the
    index, and its own name is not that of a table.

    They follow from the names, so that they stay while others come and go.
    """
    oids: dict[str, int] = {}
    taken: set[int] = set()
    for name in [
        *(relation.name for relation in told.objects),
        *(f"{one.name}:{own.name}" for one in told.objects for own in one.constraints),
    ]:
        oid = FIRST_OWN + zlib.crc32(name.encode()) % LAST_OWN
        while oid in taken:
            oid += 1
        taken.add(oid)
        oids[name] = oid
    return oids


def _constraints(told: objects.Told) -> Iterator[tuple[objects.Object, objects.Constraint, int]]:
    oids = numbers(told)
    for table in told.objects:
        for constraint in table.constraints:
            yield table, constraint, oids[f"{table.name}:{constraint.name}"]


def _has_index(constraint: objects.Constraint) -> bool:
    return constraint.kind in (objects.PRIMARY, objects.UNIQUE)


def _classes(told: objects.Told) -> list[Row]:
    oids, rows = numbers(told), list[Row]()
    foreign = [one for table in told.objects for one in table.constraints if one.target]
    bound = {oids[constraint.target] for constraint in foreign if constraint.target in oids}
    bound |= {oids[one.name] for one in told.objects if any(c.target for c in one.constraints)}
    for relation in told.objects:
        indexed = any(map(_has_index, relation.constraints))
        shared = relation.kind == objects.VIEW
        checks = sum(constraint.kind == "c" for constraint in relation.constraints)
        rows.append(
            (oids[relation.name], relation.name, PUBLIC, OWNER, HEAP * (relation.kind != objects.VIEW), relation.kind,
             len(relation.columns), checks, indexed, shared, True)
        )  # fmt: skip
    rows += [
        (oid, one.name, PUBLIC, OWNER, BTREE, "i", len(one.columns), 0, False, False, True)
        for _, one, oid in _constraints(told)
        if _has_index(one)
    ]
    none = (False, False, False, "p", "d", 0, 0, -1.0, None, None, None, 0, 0)
    queries = {oids[relation.name]: relation.query or None for relation in told.objects}
    return [(*row, 0, 0, 0, row[0] in bound, *none, queries.get(row[0])) for row in rows]


def _attributes(told: objects.Told) -> list[Row]:
    oids, rows = numbers(told), list[Row]()
    for obj in told.objects:
        for place, c in enumerate(obj.columns, 1):
            type_ = postgres_type(c.type)
            rows.append(
                (oids[obj.name], c.name, type_.oid, modifier(c.type), place, not c.nullable,
                 c.name in obj.defaults, type_.size, False, "", "", 0, 0, -1, True, 0, None,
                 "x" if type_.size == -1 else "p", "")
            )  # fmt: skip
    return rows


def _defaults(told: objects.Told) -> list[Row]:
    oids = numbers(told)
    return [
        (oids[obj.name], place, obj.defaults[c.name])
        for obj in told.objects
        for place, c in enumerate(obj.columns, 1)
        if c.name in obj.defaults
    ]


def _places(table: objects.Object, names: list[str] | tuple[str, ...]) -> list[int]:
    """Return the numbers of columns."""
    known = [c.name.lower() for c in table.columns]
    return [known.index(n.lower()) + 1 for n in names if n.lower() in known]


def _listed(places: list[int]) -> str:
    """Return a list as a column of lists has it."""
    return ", ".join(map(str, places))


def _constraint_rows(told: objects.Told) -> list[Row]:
    oids, by_name = numbers(told), {relation.name: relation for relation in told.objects}
    rows = []
    for table, constraint, oid in _constraints(told):
        there = by_name.get(constraint.target)
        index = oid if _has_index(constraint) else 0
        if constraint.kind == objects.FOREIGN and there is not None:
            targets = sorted(constraint.target_columns)
            for key in there.constraints:
                if _has_index(key) and sorted(key.columns) == targets:
                    index = oids[f"{there.name}:{key.name}"]
        rows.append(
            (oid, constraint.name, PUBLIC, constraint.kind, False, False, True, oids[table.name], 0, index, 0,
             oids.get(constraint.target, 0), "a", "a", "s", True, 0, True,
             _listed(_places(table, constraint.columns)),
             _listed(_places(there, constraint.target_columns)) if there else None, constraint.text)
        )  # fmt: skip
    return rows


def _indices(told: objects.Told) -> list[Row]:
    oids = numbers(told)
    return [
        (oid, oids[table.name], len(constraint.columns), len(constraint.columns), True,
         constraint.kind == objects.PRIMARY, False, True, False, True, False, True, True, False,
         " ".join(map(str, _places(table, constraint.columns))),
         _listed([0] * len(constraint.columns)), None,
         None, f"CREATE UNIQUE INDEX {constraint.name} ON {told.schema}.{table.name} USING btree "
         f"({', '.join(constraint.columns)})", False)
        for table, constraint, oid in _constraints(told)
        if _has_index(constraint)
    ]  # fmt: skip


def _words() -> list[str]:
    """Return the words that PostgreSQL's SQL gives a meaning."""
    return sorted({word.lower() for word in Postgres.Tokenizer.KEYWORDS if word.isalpha()})


def _types(_: objects.Told) -> list[Row]:
    plain = [
        (t.oid, t.name, SYSTEM, OWNER, t.size, t.size in (1, 2, 4, 8), "b", t.category, ",", 0, 0,
         t.array, False, 0, -1, 0, None, 0, True, 0, None)
        for t in TYPES
    ]  # fmt: skip
    lists = [
        (t.array, f"_{t.name}", SYSTEM, OWNER, -1, False, "b", "A", ",", 0, t.oid, 0, False, 0, -1,
         0, None, 0, True, ARRAY_IN, None)
        for t in TYPES
    ]  # fmt: skip
    return [*plain, *lists]


def _of_kind(told: objects.Told, kind: str) -> list[objects.Object]:
    return [obj for obj in told.objects if obj.kind == kind]


WITHOUT_ROWS = """
pg_cast oid:BIGINT castsource:BIGINT casttarget:BIGINT castfunc:BIGINT
pg_collation oid:BIGINT collname collnamespace:BIGINT collisdeterministic:BOOLEAN
pg_conversion oid:BIGINT conname connamespace:BIGINT conforencoding:INTEGER contoencoding:INTEGER \
    condefault:BOOLEAN
pg_db_role_setting setdatabase:BIGINT setrole:BIGINT setconfig
pg_default_acl oid:BIGINT defaclrole:BIGINT defaclnamespace:BIGINT defaclobjtype defaclacl
pg_depend objid:BIGINT refobjid:BIGINT refobjsubid:INTEGER deptype classid:BIGINT \
    refclassid:BIGINT objsubid:INTEGER
pg_description objoid:BIGINT classoid:BIGINT objsubid:INTEGER description
pg_enum oid:BIGINT enumtypid:BIGINT enumsortorder:DOUBLE enumlabel
pg_event_trigger oid:BIGINT evtname evtevent evtowner:BIGINT evtenabled
pg_extension oid:BIGINT extname extnamespace:BIGINT extversion extconfig:BIGINT[]
pg_foreign_data_wrapper oid:BIGINT fdwname fdwowner:BIGINT fdwhandler fdwvalidator fdwacl \
    fdwoptions
pg_foreign_server oid:BIGINT srvname srvowner:BIGINT srvfdw:BIGINT srvoptions
pg_foreign_table ftrelid:BIGINT ftserver:BIGINT ftoptions
pg_inherits inhrelid:BIGINT inhparent:BIGINT inhseqno:INTEGER inhdetachpending:BOOLEAN
pg_language oid:BIGINT lanname lanowner:BIGINT lanispl:BOOLEAN
pg_locks locktype database:BIGINT relation:BIGINT pid:INTEGER mode granted:BOOLEAN
pg_operator oid:BIGINT oprname oprnamespace:BIGINT oprleft:BIGINT oprright:BIGINT
pg_policy oid:BIGINT polname polrelid:BIGINT polpermissive:BOOLEAN polroles polcmd polqual \
    polwithcheck
pg_proc oid:BIGINT proname pronamespace:BIGINT proowner:BIGINT prolang:BIGINT prokind \
    prorettype:BIGINT proargtypes proargnames proargmodes proallargtypes proargdefaults \
    provariadic:BIGINT proretset:BOOLEAN pronargs:INTEGER prosrc
pg_publication oid:BIGINT pubname puballtables:BOOLEAN
pg_publication_namespace pnpubid:BIGINT pnnspid:BIGINT
pg_publication_rel prpubid:BIGINT prrelid:BIGINT prqual prattrs
pg_range rngtypid:BIGINT rngsubtype:BIGINT
pg_rewrite oid:BIGINT ev_class:BIGINT rulename ev_type
pg_rules schemaname tablename rulename definition
pg_sequence seqrelid:BIGINT seqtypid:BIGINT seqstart:BIGINT
pg_shdescription objoid:BIGINT classoid:BIGINT description
pg_stat_activity datid:BIGINT datname pid:INTEGER usename application_name state query
pg_stat_all_tables relid:BIGINT schemaname relname n_live_tup:BIGINT n_dead_tup:BIGINT
pg_stat_database datid:BIGINT datname numbackends:INTEGER
pg_stat_user_tables relid:BIGINT schemaname relname n_live_tup:BIGINT n_dead_tup:BIGINT
pg_statistic_ext oid:BIGINT stxrelid:BIGINT stxnamespace:BIGINT stxname stxkind \
    stxstattarget:INTEGER
pg_trigger oid:BIGINT tgrelid:BIGINT tgname tgenabled tgisinternal:BOOLEAN tgparentid:BIGINT \
    tgfoid:BIGINT tgtype:INTEGER
pg_ts_config oid:BIGINT cfgname cfgnamespace:BIGINT cfgowner:BIGINT
"""  # relations that never have any here, each with its columns
_OID = "oid:BIGINT"
RELATIONS: objects.Relations = {
    "pg_namespace": (
        f"{_OID} nspname nspowner:BIGINT nspacl",
        lambda told: [
            (SYSTEM, "pg_catalog", OWNER, None),
            (INFORMATION, "information_schema", OWNER, None),
            (PUBLIC, told.schema, OWNER, None),
        ],
    ),
    "pg_class": (
        f"{_OID} relname relnamespace:BIGINT relowner:BIGINT relam:BIGINT relkind relnatts:INTEGER "
        "relchecks:INTEGER relhasindex:BOOLEAN relhasrules:BOOLEAN relispopulated:BOOLEAN "
        "reltype:BIGINT reloftype:BIGINT reltablespace:BIGINT relhastriggers:BOOLEAN "
        "relrowsecurity:BOOLEAN relforcerowsecurity:BOOLEAN relispartition:BOOLEAN relpersistence "
        "relreplident reltoastrelid:BIGINT relfilenode:BIGINT reltuples:DOUBLE reloptions relacl "
        "relpartbound relpages:INTEGER relrewrite:BIGINT definition",
        _classes,
    ),
    "pg_attribute": (
        "attrelid:BIGINT attname atttypid:BIGINT atttypmod:INTEGER attnum:INTEGER "
        "attnotnull:BOOLEAN atthasdef:BOOLEAN attlen:INTEGER attisdropped:BOOLEAN attidentity "
        "attgenerated attcollation:BIGINT attndims:INTEGER attstattarget:INTEGER "
        "attislocal:BOOLEAN attinhcount:INTEGER attacl attstorage attcompression",
        _attributes,
    ),
    "pg_attrdef": ("adrelid:BIGINT adnum:INTEGER adbin", _defaults),
    "pg_constraint": (
        f"{_OID} conname connamespace:BIGINT contype condeferrable:BOOLEAN condeferred:BOOLEAN "
        "convalidated:BOOLEAN conrelid:BIGINT contypid:BIGINT conindid:BIGINT conparentid:BIGINT "
        "confrelid:BIGINT confupdtype confdeltype confmatchtype conislocal:BOOLEAN "
        "coninhcount:INTEGER connoinherit:BOOLEAN conkey:SMALLINT[] confkey:SMALLINT[] definition",
        _constraint_rows,
    ),
    "pg_index": (
        "indexrelid:BIGINT indrelid:BIGINT indnatts:INTEGER indnkeyatts:INTEGER "
        "indisunique:BOOLEAN indisprimary:BOOLEAN indisexclusion:BOOLEAN indimmediate:BOOLEAN "
        "indisclustered:BOOLEAN indisvalid:BOOLEAN indcheckxmin:BOOLEAN indisready:BOOLEAN "
        "indislive:BOOLEAN indisreplident:BOOLEAN indkey indoption:BIGINT[] indexprs indpred definition "
        "indnullsnotdistinct:BOOLEAN",
        _indices,
    ),
    "pg_type": (
        f"{_OID} typname typnamespace:BIGINT typowner:BIGINT typlen:INTEGER typbyval:BOOLEAN "
        "typtype typcategory typdelim typrelid:BIGINT typelem:BIGINT typarray:BIGINT "
        "typnotnull:BOOLEAN typbasetype:BIGINT typtypmod:INTEGER typcollation:BIGINT typdefault "
        "typndims:INTEGER typisdefined:BOOLEAN typinput:BIGINT typacl",
        _types,
    ),
    "pg_am": (
        f"{_OID} amname amtype amcanorder:BOOLEAN",
        lambda told: [(HEAP, "heap", "t", False), (BTREE, "btree", "i", True)],
    ),
    "pg_database": (
        f"{_OID} datname datdba:BIGINT encoding:INTEGER datcollate datctype datistemplate:BOOLEAN "
        "datallowconn:BOOLEAN daticulocale datlocprovider datacl dattablespace:BIGINT",
        lambda told: [
            (DATABASE_ID, DATABASE, OWNER, 6, "C", "C", False, True, None, "c", None, 0)
        ],
    ),
    "pg_roles": (
        f"{_OID} rolname rolsuper:BOOLEAN rolinherit:BOOLEAN rolcreaterole:BOOLEAN "
        "rolcreatedb:BOOLEAN rolcanlogin:BOOLEAN rolconnlimit:INTEGER rolvaliduntil:TIMESTAMP "
        "rolreplication:BOOLEAN rolbypassrls:BOOLEAN",
        lambda told: [
            (OWNER, objects.USER, True, True, True, True, True, -1, None, False, True)
        ],
    ),
    "pg_user": (
        "usename usesysid:BIGINT usecreatedb:BOOLEAN usesuper:BOOLEAN",
        lambda told: [(objects.USER, OWNER, True, True)],
    ),
    "pg_tables": (
        "schemaname tablename tableowner tablespace hasindexes:BOOLEAN hasrules:BOOLEAN "
        "hastriggers:BOOLEAN rowsecurity:BOOLEAN",
        lambda told: [
            (told.schema, table.name, objects.USER, None, bool(table.constraints), False, False, False)
            for table in _of_kind(told, objects.TABLE)
        ],
    ),
    "pg_views": (
        "schemaname viewname viewowner definition",
        lambda told: [(told.schema, view.name, objects.USER, view.query) for view in _of_kind(told, objects.VIEW)],
    ),
    "pg_matviews": (
        "schemaname matviewname matviewowner tablespace hasindexes:BOOLEAN ispopulated:BOOLEAN "
        "definition",
        lambda told: [
            (told.schema, view.name, objects.USER, None, False, True, view.query)
            for view in _of_kind(told, objects.KEPT)
        ],
    ),
    "pg_settings": ("name setting", lambda told: sorted(VALUES.items())),
    "pg_tablespace": (f"{_OID} spcname", lambda told: [(1663, "pg_default")]),
    "pg_index_keys": (
        "place indexrelid:BIGINT n:INTEGER x:INTEGER name",
        lambda told: [
            (f"{oid}.{n}", oid, n, place, name)
            for table, one, oid in _constraints(told)
            if _has_index(one)
            for n, (place, name) in enumerate(zip(_places(table, one.columns), one.columns, strict=True), 1)
        ],
    ),
    "pg_get_keywords": (
        "word catcode catdesc",
        lambda told: [(word, "U", "unreserved") for word in _words()],
    ),
    **{name: (columns, None) for name, columns in (
        line.split(maxsplit=1) for line in WITHOUT_ROWS.strip().splitlines())},
}  # fmt: skip
