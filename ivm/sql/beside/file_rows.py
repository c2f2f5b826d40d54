"""Rows of files that statements read: in COPY, INSERT and CREATE TABLE AS."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from sqlglot import exp

from ivm.sql import files
from ivm.sql.errors import SqlError
from ivm.sql.session import Reader

if TYPE_CHECKING:
    import pyarrow as pa

    from ivm.answer import Answer


class FileRows(NamedTuple):
    """Where statements read, whether they may read and write files, and what answers a query, which
    is part of a statement.
    """

    reader: Reader
    allowed: bool
    ask: Callable[[exp.Expr, exp.Expr], Answer]

    def of_query(self, query: exp.Expr, node: exp.Expr) -> pa.Table | None:
        """Return the rows of a query that reads files; None for any other.  Raises SqlError."""
        with self.reader.catalog() as catalog:
            reads = bool(files.in_query(query, catalog))
        return self.ask(query, node).to_arrow() if reads else None

    def inserted(self, node: exp.Expr) -> tuple[exp.Expr, pa.Table | None]:
        """Return an INSERT of the rows of files without its query, and these rows, as the columns
        have them; any other edit as it is.  Raises SqlError for another edit that reads a file.
        """
        query = node.expression if isinstance(node, exp.Insert) else node
        with self.reader.catalog() as catalog:
            read = [] if query is None else files.in_query(query, catalog)
            if not read:
                return node, None
            if query is node:
                reason = f"{node.key.upper()} reads tables: INSERT the rows of {read[0].path} first"
                raise SqlError(reason, node)
            files.refuse_unless(self.allowed, node)
            table, names = _target(node)
            rows = None
            if node.args.get("by_name") or not _is_whole(query):
                rows = self.ask(query, node).to_arrow()
                names = rows.column_names if node.args.get("by_name") else names
            columns = files.columns_of(catalog, table, names)
        if rows is None:
            rows = files.read(*read[0], columns, node)
        else:
            rows = files.as_columns(rows, columns, read[0].path, node)
        made = node.copy()
        made.set("expression", None)
        made.set("by_name", None)
        made.set("this", _named(table, rows))
        return made, rows

    def copied(self, node: exp.Copy) -> tuple[exp.Insert | None, pa.Table]:
        """Return the INSERT of a COPY from a file, with its rows; for a COPY to a file, which is
        written, None with them.  Raises SqlError.
        """
        files.refuse_unless(self.allowed, node)
        if len(node.args["files"]) != 1 or not isinstance(node.args["files"][0], exp.Literal):
            raise SqlError("COPY takes one file, as a text", node)
        path, options = node.args["files"][0].name, files.options(node)
        if node.args["kind"]:
            table, names = _target(node)
            with self.reader.catalog() as catalog:
                columns = files.columns_of(catalog, table, names)
            rows = files.read(path, options, columns, node)
            return exp.Insert(this=_named(table, rows)), rows
        is_query = isinstance(node.this, exp.Subquery)
        query = node.this.this if is_query else exp.select("*").from_(node.this)
        rows = self.ask(query, node).to_arrow()
        files.write(rows, path, options, node)
        return None, rows


def _target(node: exp.Expr) -> tuple[exp.Expr, list[str] | None]:
    """Return the table that a statement fills, and the columns that it names."""
    if not isinstance(node.this, exp.Schema):
        return node.this, None
    return node.this.this, [column.name for column in node.this.expressions]


def _named(table: exp.Expr, rows: pa.Table) -> exp.Schema:
    """Return a table with the columns of rows, as an INSERT names them."""
    columns = [exp.to_identifier(name) for name in rows.column_names]
    return exp.Schema(this=table.copy(), expressions=columns)


def _is_whole(query: exp.Expr) -> bool:
    """Return whether a query is `SELECT * FROM` one item, and no more."""
    parts = {name for name, value in query.args.items() if value}
    return (
        isinstance(query, exp.Select)
        and parts == {"expressions", "from_"}
        and [*map(type, query.expressions)] == [exp.Star]
        and not any(query.expressions[0].args.values())
    )
