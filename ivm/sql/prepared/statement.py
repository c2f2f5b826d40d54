"""A statement of SQL that is prepared by hand, and run with other values each time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ivm.answer import Answer
from ivm.memory import allowing
from ivm.sql.dialects.read import read
from ivm.sql.syntax import Parameters

Run = Callable[[str, Parameters, str], Answer | None]
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
