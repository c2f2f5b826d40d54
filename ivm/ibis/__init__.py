"""Ibis over a store: `ibis.ivm.connect("orders.pages")`.

    con = ibis.ivm.connect("orders.pages")
    paid = con.table("paid")
    spent = paid.group_by("who").agg(cents=paid.cents.sum())
    con.create_view("spent", spent, materialized=True)  # kept: it follows every edit of paid

Expressions become SQL of DuckDB's dialect, which the store evaluates.  A table of memory is a
relation of the store from its first use until the process ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ibis
import ibis.common.exceptions as exceptions
import ibis.expr.operations as ops
import ibis.expr.schema as schemas
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot as sg
import sqlglot.expressions as sge
from ibis.backends import NoExampleLoader, UrlFromPath
from ibis.backends.sql import SQLBackend
from ibis.backends.sql.compilers import duckdb
from ibis.formats.pandas import PandasData
from ibis.formats.pyarrow import PyArrowData

import pagestore
from ivm import workspace
from ivm.dbapi import Connection, Cursor, ProgrammingError, connect

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

LISTED = "SELECT table_name, table_type FROM information_schema.tables"


class Backend(SQLBackend, UrlFromPath, NoExampleLoader):
    """Tables and views of a store as Ibis' expressions."""

    name = "ivm"
    compiler = duckdb.compiler
    supports_temporary_tables = False

    @property
    def version(self) -> str:
        """The library's version."""
        return pagestore.__version__

    def do_connect(self, database: str | Path = ":memory:", **options: Any) -> None:
        """Open the store at `database`, or ":memory:"; `options` are those of `ivm.open`."""
        self._hold(connect(database, autocommit=True, **options))

    def _hold(self, con: Connection) -> None:
        self.con, self._of_memory = con, set[str]()

    @classmethod
    def from_connection(cls, con: workspace.Workspace, /, **kwargs: Any) -> Backend:
        """Return the backend of a workspace that is open; `disconnect` closes it."""
        made = cls()
        made._hold(Connection(con, "duckdb", True))
        return made

    def disconnect(self) -> None:
        """Drop the tables of memory, and close the store."""
        for name in self._of_memory:
            self.drop_table(name, force=True)
        self.con.close()

    # -- tables and columns

    def list_tables(
        self, *, like: str | None = None, database: tuple[str, str] | str | None = None
    ) -> list[str]:
        """Return the names of tables, views and kept views."""
        listed = self.con.execute(LISTED).fetchall()
        names = [name for name, _ in listed if name not in self._of_memory]
        shown: list[str] = self._filter_with_like(sorted(names), like)
        return shown

    def get_schema(
        self, name: str, *, catalog: str | None = None, database: str | None = None
    ) -> schemas.Schema:
        """Return the columns of a table or view.  Raises TableNotFound."""
        try:
            return self._get_schema_using_query(_table(name).sql("duckdb"))
        except ProgrammingError:
            raise exceptions.TableNotFound(name) from None

    def _get_schema_using_query(self, query: str) -> schemas.Schema:
        rows = self.con.execute(f"DESCRIBE {query}").fetchall()
        typed = self.compiler.type_mapper.from_string
        return schemas.Schema(
            {name: typed(type_, nullable=null == "YES") for name, type_, null, *_ in rows}
        )

    # -- questions

    def raw_sql(self, query: str | sge.Expression, **kwargs: Any) -> Cursor:
        """Run a statement, and return a cursor with its rows."""
        text = query if isinstance(query, str) else query.sql(dialect=self.dialect)
        return self.con.execute(text, **kwargs)

    @contextlib.contextmanager
    def _safe_raw_sql(self, *args: Any, **kwargs: Any) -> Iterator[Cursor]:
        with self.raw_sql(*args, **kwargs) as cursor:
            yield cursor

    def to_pyarrow(
        self, expr: ir.Expr, /, *, params: Any = None, limit: Any = None, **_: Any
    ) -> pa.Table:
        """Return what an expression is, as Arrow's data."""
        return expr.__pyarrow_result__(self._asked(expr, params, limit), data_mapper=PyArrowData)

    def to_pyarrow_batches(
        self,
        expr: ir.Expr,
        /,
        *,
        params: Any = None,
        limit: Any = None,
        chunk_size: int = 1_000_000,
        **_: Any,
    ) -> pa.ipc.RecordBatchReader:
        """Return what an expression is, in batches of at most `chunk_size` rows."""
        schema = expr.as_table().schema().to_pyarrow()
        rows = PyArrowData.convert_table(self._asked(expr, params, limit), expr.as_table().schema())
        return pa.RecordBatchReader.from_batches(schema, rows.cast(schema).to_batches(chunk_size))

    def execute(
        self, expr: ir.Expr, /, *, params: Any = None, limit: Any = None, **_: Any
    ) -> pd.DataFrame | pd.Series[Any] | Any:
        """Return what an expression is, as a frame, a series or a value."""
        rows = self._asked(expr, params, limit)
        frame = rows.to_pandas(timestamp_as_object=True)
        return expr.__pandas_result__(PandasData.convert_table(frame, expr.as_table().schema()))

    def _asked(self, expr: ir.Expr, params: Any, limit: Any) -> pa.Table:
        self._run_pre_execute_hooks(expr)
        table = expr.as_table()
        if limit is None and (held := self._decoded(table)) is not None:
            return held
        text = self.compile(table, params=params, limit=limit)
        answer: Any = self.con.workspace.sql(text)
        return answer.to_arrow().rename_columns([*table.columns])

    def _decoded(self, table: ir.Table) -> pa.Table | None:
        """Return the rows of a whole table or kept view, which need no evaluation; None for
        another expression, and where SQL's values are not the stored ones, as those of lists.
        """
        whole, ws = table.op(), self.con.workspace
        if not isinstance(whole, ops.DatabaseTable) or whole.name not in ws:
            return None
        rows: pa.Table = ws[whole.name].to_arrow()
        same = [*map(_kind, rows.schema)] == [*map(_kind, table.schema().to_pyarrow())]
        return rows if same and rows.column_names == [*table.columns] else None

    # -- tables and views of one's own

    def create_table(
        self,
        name: str,
        /,
        obj: Any = None,
        *,
        schema: Any = None,
        database: Any = None,
        temp: bool = False,
        overwrite: bool = False,
    ) -> ir.Table:
        """Create a table of an expression, a frame or Arrow's table, or an empty one of `schema`.

        Raises UnsupportedOperationError for a temporary table.
        """
        if temp:
            raise exceptions.UnsupportedOperationError("ivm has no temporary tables")
        if obj is None and schema is None:
            raise ValueError("Either `obj` or `schema` must be specified")
        declared = None if schema is None else ibis.schema(schema)
        rows = None if obj is None else self._rows(obj, declared or ())
        if declared is None and rows is not None:
            declared = obj.schema() if isinstance(obj, ir.Expr) else schemas.infer(rows)
        if overwrite:
            self.drop_table(name, force=True)
        self._create(name, declared)
        if rows is not None:
            self._insert(name, rows)
        return self.table(name)

    def create_view(
        self,
        name: str,
        /,
        obj: ir.Table,
        *,
        database: Any = None,
        overwrite: bool = False,
        materialized: bool = False,
    ) -> ir.Table:
        """Create a view of an expression; a `materialized` one is kept, and follows every edit."""
        kind = "MATERIALIZED VIEW" if materialized else "VIEW"
        self._run_pre_execute_hooks(obj)
        head = f"CREATE {'OR REPLACE ' if overwrite else ''}{kind} {_table(name).sql('duckdb')}"
        self.raw_sql(f"{head} AS {self.compile(obj)}")
        return self.table(name)

    def drop_view(self, name: str, /, *, database: str | None = None, force: bool = False) -> None:
        """Drop a view, kept or not; with `force`, only if there is one."""
        kinds = dict(self.con.execute(LISTED).fetchall())
        if force and name not in kinds:
            return
        kept = name in self.con.workspace.blocks or name in self.con.workspace
        self.raw_sql(f"DROP {'MATERIALIZED ' if kept else ''}VIEW {_table(name).sql('duckdb')}")

    def drop_table(self, name: str, /, *, database: str | None = None, force: bool = False) -> None:
        """Drop a table; with `force`, only if there is one."""
        self.raw_sql(f"DROP TABLE {'IF EXISTS ' if force else ''}{_table(name).sql('duckdb')}")

    def insert(
        self, name: str, /, obj: Any, *, database: Any = None, overwrite: bool = False
    ) -> None:
        """Insert an expression, a frame or Arrow's table into a table."""
        rows = self._rows(obj, self.get_schema(name))
        if overwrite:
            self.truncate_table(name)
        self._insert(name, rows)

    def _rows(self, obj: Any, into: Any = ()) -> pa.Table:
        """Return the rows of an expression, or of what Ibis takes for a table, whose columns have
        the types that they have in `into`.
        """
        if isinstance(obj, ir.Expr):
            return self.to_pyarrow(obj)
        made = ibis.memtable(obj).op()
        types = dict(into)
        typed = {name: types.get(name, type_) for name, type_ in made.schema.items()}
        return made.data.to_pyarrow(schemas.Schema(typed))

    def _create(self, name: str, schema: schemas.Schema) -> None:
        if schema.null_fields:
            raise exceptions.IbisTypeError(f"columns without a type: {schema.null_fields}")
        target = sge.Schema(
            this=_table(name), expressions=schema.to_sqlglot_column_defs(self.dialect)
        )
        self.raw_sql(sge.Create(kind="TABLE", this=target))

    def _insert(self, name: str, rows: pa.Table) -> None:
        """Insert rows into a table, at once where each value is one word of the store."""
        if not any(pa.types.is_nested(field.type) for field in rows.schema):
            words = {column: _plain(rows.column(column)) for column in rows.column_names}
            missing = [name_ for name_ in self.get_schema(name) if name_ not in words]
            if not missing:
                self.con.workspace.insert(name, pa.table(words))
                return
        if rows.num_rows:
            quoted = (
                sg.to_identifier(column, quoted=True).sql("duckdb") for column in rows.column_names
            )
            places = ", ".join(
                "map(?, ?)" if pa.types.is_map(field.type) else "?" for field in rows.schema
            )
            head = f"INSERT INTO {_table(name).sql('duckdb')} ({', '.join(quoted)})"
            values = [part for column in rows.columns for part in _parameters(column)]
            self.con.executemany(f"{head} VALUES ({places})", zip(*values, strict=True))

    # -- tables of memory

    def _register_in_memory_table(self, op: ops.InMemoryTable) -> None:
        typed = {name: "string" if type_.is_null() else type_ for name, type_ in op.schema.items()}
        self._create(op.name, schemas.Schema(typed))
        self._of_memory.add(op.name)
        self._insert(op.name, op.data.to_pyarrow(op.schema))

    def _make_memtable_finalizer(self, name: str) -> Callable[[], None]:
        return lambda: self.drop_table(name, force=True)


def _kind(field: pa.Field) -> str:
    """Return the type of a column; Ibis casts numbers and times of all lengths."""
    kinds = pa.types.is_integer, pa.types.is_floating, pa.types.is_time
    return next((is_kind.__name__ for is_kind in kinds if is_kind(field.type)), str(field.type))


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values as a store takes them: in microseconds, and null for NaN."""
    if pa.types.is_timestamp(values.type):
        return values.cast(pa.timestamp("us", values.type.tz), safe=False)
    if pa.types.is_floating(values.type):
        return pc.if_else(pc.is_nan(values), None, values)
    return values


def _parameters(values: pa.ChunkedArray) -> list[list[Any]]:
    """Return a column as lists of parameters: a map as its keys and its values."""
    cells = _plain(values).to_pylist()
    if not pa.types.is_map(values.type):
        return [cells]
    return [[cell and [pair[at] for pair in cell] for cell in cells] for at in (0, 1)]


def _table(name: str) -> sge.Table:
    return sg.table(name, quoted=True)
