"""Connections and cursors: statements, their rows, and the transaction that edits begin."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

from ivm import workspace
from ivm.dbapi import errors
from ivm.dbapi.types import kind_of

if TYPE_CHECKING:
    from ivm.answer import Answer
    from ivm.transaction import Transaction

EDITING = r"(?:insert|update|delete|merge|replace|truncate|savepoint)\b"
# a question after WITH that has such a word in it begins a transaction too, which does no harm
EDIT = re.compile(
    rf"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:{EDITING}|with\b.*\b{EDITING})", re.IGNORECASE | re.DOTALL
)
ENDS = re.compile(
    r"\s*(?:begin|start|commit|end|abort|rollback(?!\s+to\b))\b", re.IGNORECASE
)  # a transaction, and no savepoint


def connect(
    path: str | PathLike[str], *, dialect: str = "duckdb", autocommit: bool = False, **options: Any
) -> Connection:
    """Open the store at `path`, or ":memory:"; `options` are those of `ivm.open`.

    With `autocommit` each statement is a commit of its own.  Raises OperationalError.
    """
    with errors.errors_of_pep249():
        return Connection(workspace.open(path, **options), dialect, autocommit)


class Connection:
    """An open store, and at most one transaction on it.  As a context it commits at its end, or
    rolls back after an error, and closes.
    """

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    def __init__(self, host: workspace.Workspace, dialect: str, autocommit: bool) -> None:
        self._workspace: workspace.Workspace | None = host
        self._transaction: Transaction | None = None
        self.dialect, self.autocommit = dialect, autocommit

    @property
    def workspace(self) -> workspace.Workspace:
        """What `ivm.open` gives, to do what this interface has no words for."""
        if self._workspace is None:
            raise errors.ProgrammingError("the connection is closed")
        return self._workspace

    @property
    def transaction(self) -> Transaction | None:
        """The transaction that edits began, with what they have edited; None without any."""
        return self._transaction

    @property
    def in_transaction(self) -> bool:
        """Whether edits wait for `commit` or `rollback`."""
        return self._transaction is not None

    def cursor(self) -> Cursor:
        """Return a new cursor.  Raises ProgrammingError if the connection is closed."""
        _ = self.workspace
        return Cursor(self)

    def execute(self, operation: str, parameters: Any = ()) -> Cursor:
        """Run a statement on a new cursor, and return the cursor."""
        return self.cursor().execute(operation, parameters)

    def executemany(self, operation: str, rows: Iterable[Any]) -> Cursor:
        """Run a statement for each row of parameters on a new cursor, and return the cursor."""
        return self.cursor().executemany(operation, rows)

    def commit(self) -> None:
        """Keep the edits since the last commit; without any, do nothing.

        Raises IntegrityError if a constraint does not hold, DataError if a view has no value; the
        edits are then rolled back.
        """
        _ = self.workspace
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            with errors.errors_of_pep249():
                transaction.commit()

    def rollback(self) -> None:
        """Undo the edits since the last commit."""
        _ = self.workspace
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            transaction.rollback()

    def close(self) -> None:
        """Undo edits that no commit kept, and close the store; closing twice is no error."""
        if self._workspace is not None:
            self.rollback()
            self._workspace.close()
            self._workspace = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if kind is None and self._workspace is not None:
                self.commit()
        finally:
            self.close()

    def _sql(self, operation: str, parameters: Any) -> tuple[Answer | None, bool]:
        """Run statements; return the answer of the last, and whether they edit."""
        edits = self._begin_for(operation)
        # a transaction collects edits; the workspace commits what a statement does
        run = self.workspace.sql if self._transaction is None else self._transaction.sql
        return run(operation, parameters or None, self.dialect), edits  # type: ignore[arg-type]

    def _sql_many(self, operation: str, rows: list[Any]) -> int:
        """Run a statement that edits for each list of parameters; return how many rows it edits."""
        self._begin_for(operation)
        dialect: Any = self.dialect
        return self.workspace.prepare_sql(operation, dialect, self._transaction).executemany(rows)

    def _begin_for(self, operation: str) -> bool:
        """Begin a transaction for statements that need one; return whether they edit."""
        if not self.autocommit and ENDS.match(operation):
            raise errors.ProgrammingError(
                "transactions begin by themselves: end them by commit() or rollback(), or connect "
                "with autocommit=True"
            )
        edits = EDIT.match(operation) is not None
        if edits and not self.autocommit and self._transaction is None:
            self._transaction = self.workspace.transaction()
        return edits


class Cursor:
    """Runs statements, and holds the rows of the last one."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self.description: list[tuple[Any, ...]] | None = None
        self.rowcount = -1
        self._rows: Iterator[tuple[Any, ...]] | None = None
        self._closed = False

    def execute(self, operation: str, parameters: Any = ()) -> Self:
        """Run a statement with a sequence of values for `?`, or a mapping for `:name`.

        `description` then has name and type of each column; `rowcount` counts the rows of the
        answer, or those that were edited.  Raises the errors of this module.
        """
        self._begin()
        with errors.errors_of_pep249():
            answer, edits = self.connection._sql(operation, _values(parameters))
        self._take(answer, edits)
        return self

    def executemany(self, operation: str, rows: Iterable[Any]) -> Self:
        """Run a statement that edits for each row of parameters; `rowcount` counts all.

        If one of them fails, none is done.
        """
        self._begin()
        if not EDIT.match(operation):
            raise errors.ProgrammingError(
                "executemany takes statements that edit: INSERT, UPDATE, DELETE"
            )
        with errors.errors_of_pep249():
            self.rowcount = self.connection._sql_many(operation, [*map(_values, rows)])
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the next row, or None after the last."""
        return next(self._answer(), None)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Return the next `size` rows, by default `arraysize`, fewer at the end."""
        rows = self._answer()
        most = self.arraysize if size is None else size
        return [row for _, row in zip(range(most), rows, strict=False)]

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all further rows."""
        return list(self._answer())

    def close(self) -> None:
        """Let go of the rows; a closed cursor runs nothing."""
        self._closed, self._rows = True, None

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Take no notice of sizes: parameters need no room ahead."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Take no notice of the size: columns have the room that they need."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self._answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()

    def _begin(self) -> None:
        """Forget the last answer.  Raises ProgrammingError if this cannot run statements."""
        _ = self.connection.workspace
        if self._closed:
            raise errors.ProgrammingError("the cursor is closed")
        self.description, self._rows, self.rowcount = None, None, -1

    def _take(self, found: Answer | None, edits: bool) -> None:
        """Hold the answer of a statement."""
        if found is None:
            return
        schema = found.schema
        if edits and schema.names == ["Count"]:  # else these are the rows of RETURNING
            ((self.rowcount,),) = found
            return
        self.description = [
            (field.name, kind_of(field.type), None, None, None, None, field.nullable)
            for field in schema
        ]
        self.rowcount, self._rows = len(found), iter(found)

    def _answer(self) -> Iterator[tuple[Any, ...]]:
        """Return what is left of the rows."""
        _ = self.connection.workspace
        if self._closed or self._rows is None:
            raise errors.ProgrammingError("there are no rows: execute a question first")
        return self._rows


def _values(parameters: Any) -> Any:
    """Return parameters as SQL takes them.  Raises ProgrammingError."""
    if isinstance(parameters, Mapping | list):
        return parameters
    with suppress(TypeError):
        if not isinstance(parameters, str | bytes):
            return list(parameters)
    raise errors.ProgrammingError(
        f"{parameters!r} is not a list of parameters: write [{parameters!r}]"
    )
