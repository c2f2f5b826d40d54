"""Statements of SQL that are prepared by hand, and run with other values each time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from ivm.answer import Answer
from ivm.errors import ConstraintError, EditError, FunctionConflictError, IvmError, RangeError
from ivm.memory import allowing
from ivm.sql.dialects.read import read
from ivm.sql.errors import SqlError
from ivm.sql.syntax import Parameters
from pagestore.errors import PagestoreError
from pagestore.host import thread_lock

Run = Callable[[str, Parameters, str], Answer | None]
UNKNOWN = (
    "the thread that was to commit this with its own transactions failed: read whether it was made"
)
# what is wrong with one of the transactions, and refused before any is committed
REFUSED = SqlError, ConstraintError, RangeError, FunctionConflictError
RunMany = Callable[[str, list[Any], str], int]


class PreparedStatement:
    """A statement with places for values: `?`, `$1` or `:name`."""

    def __init__(
        self, run: Run, run_many: RunMany, text: str, dialect: str, memory: int | None
    ) -> None:
        """Take what runs texts with parameters, and with many of them.  Raises SqlError if the text
        does not parse.
        """
        read(text, dialect)
        self._run, self._run_many, self._memory = run, run_many, memory
        self._text, self._dialect = text, dialect

    def execute(self, parameters: Parameters = None) -> Answer | None:
        """Run the statement with some values, as `sql` does; return its answer."""
        with allowing(self._memory):
            return self._run(self._text, parameters, self._dialect)

    def executemany(self, rows: Iterable[Parameters]) -> int:
        """Run a statement that edits for each of many lists of values, in one transaction; return
        how many rows were edited.

        If one of them fails, nothing is changed.  The rows of an INSERT are added as one batch.
        """
        with allowing(self._memory):
            return self._run_many(self._text, [*rows], self._dialect)


class _Call:
    """What a thread wants to be made: lists of values, and what came of them."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows
        self.made: list[bool] | None = None
        self.error: Exception | None = None


class PreparedTransaction:
    """Statements that edit, which are one transaction with other values each time: made if each of
    them changes a row, else nothing of it is done.

    What threads want to be made at the same time is committed together, in one version with one
    sync; each transaction finds what those before it did, as if it came after them.
    """

    def __init__(self, run: Callable[[list[Any]], list[bool]], memory: int | None) -> None:
        """Take what makes a transaction for each of many parameters, and commits them."""
        self._run, self._memory = run, memory
        self._waiting, self._turn = deque[_Call](), thread_lock()

    def execute(self, parameters: Parameters = None) -> bool:
        """Run the transaction; return whether it was made.  Raises as `executemany`."""
        return self.executemany([parameters])[0]

    def executemany(self, rows: Iterable[Parameters]) -> list[bool]:
        """Run the transaction for each of many parameters; return for each whether it was made.

        All are committed together.  If one of them is wrong, or is refused by a constraint, none is
        made.  Raises SqlError, MaintainError.
        """
        own = _Call([*rows])
        self._waiting.append(own)
        try:
            with allowing(self._memory), self._turn:
                if own.made is None and own.error is None:
                    self._lead(own)
        except BaseException:
            with suppress(ValueError):
                self._waiting.remove(own)
            raise
        if own.error is not None:
            raise own.error
        assert own.made is not None
        return own.made

    def _lead(self, own: _Call) -> None:
        """Make what waits, of all threads."""
        calls = [self._waiting.popleft() for _ in range(len(self._waiting))]
        try:
            self._together(calls)
        except REFUSED as error:
            own.error = error
            for call in calls if len(calls) > 1 else ():  # each has an error of its own, or none
                try:
                    call.error = None
                    self._together([call])
                except (IvmError, PagestoreError) as refused:
                    call.error = refused
        finally:
            for call in calls:
                if call is not own and call.made is None and call.error is None:
                    call.error = EditError(UNKNOWN)

    def _together(self, calls: Sequence[_Call]) -> None:
        made = iter(self._run([row for call in calls for row in call.rows]))
        for call in calls:
            call.made = [next(made) for _ in call.rows]
