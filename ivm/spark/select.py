"""Views as SQL: `SELECT ...` in Spark's dialect becomes rules, and the tables that it names become
their relations.

    SELECT shop, sum(cents) AS cents FROM sale GROUP BY shop        one view, which has the name of the rules

    CREATE TABLE sale (id BIGINT PRIMARY KEY, shop STRING, cents BIGINT);
    CREATE VIEW total AS SELECT shop, sum(cents) AS cents FROM sale GROUP BY shop;
    CREATE VIEW best AS SELECT max(cents) AS cents FROM total       several, which read each other

A table that the text does not create has the columns of the relation in the workspace, or of its
source, and no two equal rows: no key tells them apart.
"""

import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from ivm.lang.ir import show_name, show_type
from ivm.names import ONE
from ivm.spark.changes import OF_CHANGES
from ivm.sql.answers import bind, finish
from ivm.sql.catalog import Catalog
from ivm.sql.conversions import SESSION_ZONE
from ivm.sql.errors import SqlError, SqlWarning, nearest
from ivm.sql.queries.query import Queries
from ivm.sql.rules import Builder, Column, Schema, Table
from ivm.sql.statements import QUERIES, parse
from ivm.sql.tables import definitions, refuse_name
from ivm.sql.trees import Trees
from ivm.sql.types import type_of_store
from pagestore.host import Schema as Stored
from pagestore.host import Type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SQL = re.compile(
    r"(\s|--[^\n]*(\n|$)|/\*.*?\*/)*(select|with|from|values|create|explain)\s(?!\s*(\(|\[|<-|->))",
    re.I | re.DOTALL,
)
UTC = ("UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "+00:00")  # names of one zone in Spark
ONE_ROW = pa.table({"x": pa.array([0], pa.int64())})  # the rows of ONE
REMEDY = ": give its rows as a source, or write CREATE TABLE before the query"


def is_sql(text: str) -> bool:
    """Return whether a text is SQL, and not rules.

    >>> is_sql("-- totals\\nSELECT x FROM edge"), is_sql("select(x) <- edge(x, _)."), is_sql("with[x] = y <- f[x] = y.")
    (True, False, False)
    """
    return SQL.match(text) is not None


@contextmanager
def in_zone_of(spark: "SparkSession | None") -> Iterator[None]:
    """Refuse in queries what depends on the time zone of a session, unless that is UTC."""
    zone = "UTC" if spark is None else str(spark.conf.get("spark.sql.session.timeZone"))
    token = SESSION_ZONE.set(None if zone in UTC else zone)
    try:
        yield
    finally:
        SESSION_ZONE.reset(token)


def rules_of(
    text: str,
    name: str,
    sources: Mapping[str, Stored],
    known: Catalog | None = None,
    sets: bool = False,
) -> str:
    """Return the rules of a text of SQL; one SELECT becomes the view `name`.

    `sources` are the columns of tables by name, `known` are the relations of a workspace. If
    `sets`, views whose rows may be equal are refused. Notes of what an edit costs are warnings.
    Raises SqlError, SchemaError.
    """
    texts = _Text(sources, known, sets)
    for node, explained in parse(text, "spark"):
        if explained:
            raise SqlError(
                "EXPLAIN: views are made of queries; their cost is shown by EXPLAIN in "
                "Workspace.sql",
                node,
            )
        if isinstance(node, QUERIES):
            texts.view(name, node, [])
        else:
            texts.create(node)
    if not texts.views:
        raise SqlError("the text has no query: write SELECT, or CREATE VIEW name AS SELECT")
    return f"// {json.dumps(text, ensure_ascii=False)}\n" + "\n".join(
        [*texts.declarations(), *texts.rules]
    )


class _Text:
    """The tables and views of a text so far, and those tables that its views read."""

    def __init__(self, sources: Mapping[str, Stored], known: Catalog | None, sets: bool) -> None:
        self.sources, self.known, self.sets = sources, known, sets
        self.tables: dict[str, Table] = {}
        self.views: dict[str, Table] = {}
        self.read: dict[str, Table] = {}
        self.rules: list[str] = []
        self.uses_one = False

    def create(self, node: exp.Expr) -> None:
        """CREATE TABLE or CREATE [MATERIALIZED] VIEW."""
        kind = (node.args.get("kind") or "").upper() if isinstance(node, exp.Create) else ""
        columns = node.this.expressions if isinstance(node.this, exp.Schema) else []
        if isinstance(node.this, exp.Schema):
            name = node.this.this.name
        else:
            name = getattr(node.this, "name", "")
        if kind == "VIEW" and node.expression is not None:
            self.view(name, node.expression, [column.name for column in columns])
        elif kind == "TABLE" and node.expression is None and columns:
            self._refuse_taken(name, [*self.tables, *self.views, *self.read], node)
            given, key, checks = definitions(columns)
            if checks:
                raise SqlError(
                    f"{name}: {checks[0].sql(dialect='spark')} is not checked here: leave it out",
                    node,
                )
            self.tables[name] = self._keyed(
                name, [Column(c.name, c.type, c.nullable) for c in given], key
            )
        else:
            raise SqlError(
                f"{node.key.upper()} makes no view: write SELECT, CREATE VIEW AS or CREATE TABLE",
                node,
            )

    def view(self, name: str, query: exp.Expr, names: list[str]) -> None:
        """Add the rules of a view; `names` are those of its first columns."""
        self._refuse_taken(name, self._names(), query)
        builder = Builder(name)
        queries = Queries(builder, Schema(self._table, lambda _: None, self._names))
        rows = queries.query(query)
        bind(builder, rows.body)
        if len(names) > len(rows.columns):
            raise SqlError(f"{name} has {len(rows.columns)} columns, and {len(names)} names", query)
        shown = [*names, *(n for n, _ in rows.columns[len(names) :])]
        finished = finish(builder, rows, name, shown)
        if finished.wide:
            raise SqlError(
                f"{name} has lists, intervals, or too many columns for one relation: leave them out",
                query,
            )
        if finished.weighs and self.sets:
            raise SqlError(
                f"{name} may have equal rows, and cells keep sets: select a key too, or DISTINCT, "
                "or count(*) with GROUP BY",
                query,
            )
        bag = f"\nlang:bag({show_name(name)})." if finished.weighs else ""
        self.rules.append(Trees().add(finished.rules).text + bag)
        self.uses_one |= builder.uses_one
        columns = tuple(Column(n, v.type, v.nullable) for n, v in finished.columns)
        self.views[name] = Table(name, columns, (*range(len(columns)),), weighs=finished.weighs)
        for note in dict.fromkeys(finished.notes):
            warnings.warn(SqlWarning(f"{name}: {note}"), stacklevel=2)

    def declarations(self) -> list[str]:
        """Return the declarations of the tables that views read, and of the relation of one row."""
        declared = [_declaration(source) for source in self.read.values()]
        return [*declared, f"{ONE}(x) -> int(x)."] if self.uses_one else declared

    @staticmethod
    def _refuse_taken(name: str, names: Iterable[str], node: exp.Expr) -> None:
        """Raise SqlError for a name that rules cannot write, or that a table or view has."""
        refuse_name(name, node)
        if taken := _same(name, names):
            raise SqlError(f"{taken} is a table or view already: choose another name", node)

    def _names(self) -> list[str]:
        return [*self.tables, *self.views, *self.sources]

    def _table(self, name: str) -> Table | None:
        """Return a view or table: one that the text creates, of the workspace, or a source."""
        view = _same(name, self.views)
        if view is not None:
            return self.views[view]
        table = self._created(name) or self._stored(name) or self._source(name)
        if table is None:
            raise SqlError(f"no table or view {name} exists{REMEDY}{nearest(name, self._names())}")
        if table.weighs:
            raise SqlError(
                f"{table.name} may have equal rows, and its changes have no key: give it a PRIMARY "
                f"KEY"
            )
        if not self._is_derived(table.name):
            self.read[table.name] = table
        return table

    def _created(self, name: str) -> Table | None:
        table_name = _same(name, self.tables)
        return None if table_name is None else self.tables[table_name]

    def _stored(self, name: str) -> Table | None:
        return None if self.known is None else self.known.table(name)

    def _source(self, name: str) -> Table | None:
        source = _same(name, self.sources)
        if source is None:
            return None
        schema = self.sources[source]
        columns = [
            Column(c.name, type_of_store(str(c.type)), c.type.nullable) for c in schema.columns
        ]
        return self._keyed(source, columns, schema.key)

    def _keyed(self, name: str, columns: list[Column], key: Sequence[str]) -> Table:
        """Return a table; without a key all columns are one, which cells keep without nulls."""
        names = [column.name for column in columns]
        places = tuple(names.index(name) for name in key) or (*range(len(names)),)
        if len(places) == len(columns):
            columns = [
                replace(column, nullable=column.nullable and not self.sets) for column in columns
            ]
        return Table(name, tuple(columns), places, function=len(places) < len(columns))

    def _is_derived(self, name: str) -> bool:
        """Return whether rules of the workspace derive a relation."""
        return self.known is not None and self.known.is_derived(name)


def columns_of(table: pa.Schema) -> Stored:
    """Return the columns of a table of rows or of changes, which may be null, and no key. Raises
    SchemaError.
    """
    columns = Stored.parse(
        pa.schema([field for field in table if field.name not in OF_CHANGES])
    ).columns
    return Stored(
        tuple(column._replace(type=Type.parse(f"{column.type}?")) for column in columns), ()
    )


def refuse_equal(name: str, table: Any, columns: tuple[str, ...]) -> None:
    """Raise SqlError if Arrow data or a DataFrame has two equal rows, of which a relation would
    keep one. O(rows).
    """
    if hasattr(table, "toArrow"):
        taken = [column for column in table.columns if column in columns or column in OF_CHANGES]
        counted = table.groupBy(*taken).count()
        twice = counted.where(counted["count"] > 1).limit(1).toArrow()
    else:
        taken = [name for name in table.schema.names if name in columns or name in OF_CHANGES]
        counted = table.select(taken).group_by(taken).aggregate([([], "count_all")])
        twice = counted.filter(pc.greater(counted["count_all"], 1))
    for row in twice.select(taken).slice(0, 1).to_pylist():
        shown = ", ".join(f"{key} = {value!r}" for key, value in row.items())
        raise SqlError(
            f"{name} has the row {shown} twice, and no key: add a column that tells its rows "
            f"apart, or write CREATE TABLE {name} (... PRIMARY KEY ...) before the query"
        )


def _same(name: str, names: Iterable[str]) -> str | None:
    """Return the one of some names that is a name, whatever the case of its letters."""
    return next((word for word in names if word.lower() == name.lower()), None)


def _declaration(table: Table) -> str:
    """Return the declaration of a table: `sale[id] = (shop, cents) -> int64(id), string?(shop),
    int64?(cents).`
    """
    names = [show_name(column.name) for column in table.columns]
    keys = [names[place] for place in table.key]
    values = [name for place, name in enumerate(names) if place not in table.key]
    named = f"{show_name(table.name)}[{', '.join(keys)}] = "
    head = named + (values[0] if len(values) == 1 else f"({', '.join(values)})")
    if not values:
        head = f"{show_name(table.name)}({', '.join(keys)})"
    order = [*table.key, *(place for place in range(len(names)) if place not in table.key)]
    types = (
        show_type(table.columns[n].type.store + "?" * table.columns[n].nullable) for n in order
    )
    return f"{head} -> {', '.join(f'{t}({names[n]})' for t, n in zip(types, order, strict=True))}."
