"""What the servers of both protocols share: a client's transaction, its limits, and what is wrong
with a statement, by its SQLSTATE.
"""

import re
import ssl
from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any, Literal, NamedTuple

import ivm
from ivm.dbapi import DataError, IntegrityError, OperationalError, ProgrammingError
from ivm.dbapi.connection import EDIT
from ivm.sql import reads_only
from pagestore.host import Stoppable, Stopped

Dialect = Literal["duckdb", "postgres"]
CLIENTS_MOST = 200
ROWS_MOST = 10_000_000  # of an answer
LONGEST = 1 << 26  # bytes of a message: a client that says more is not heard
FIRST_LONGEST = 10_000  # of a message before it is known who the client is
LEFT_SECONDS = 5.0  # for what a client asked that has gone, or says no more and hears on
SECONDS = 30.0  # until a client has said who it is
BRACKET = re.compile(r"\s*(begin|start\s+transaction|commit|end|rollback|abort)\b(?!\s+to\b)", re.I)
STATES = (
    (IntegrityError, "23000"),
    (DataError, "22000"),
    (OperationalError, "55000"),
    (ProgrammingError, "42000"),
)
KNOWN = (("is not evaluated", "0A000"), ("within a transaction", "25P01"),
         ("does not fit the type", "22P02"),
         ("UNIQUE", "23505"), ("has a row with", "23505"), ("CHECK", "23514"), ("REFERENCES", "23503"),
         ("NOT NULL", "23502"), ("the statement was cancelled", "57014"),
         ("no table", "42P01"), ("has no column", "42703"), ("no column", "42703"), ("exists already", "42P07"),
         ("not known", "42883"), ("in use by another", "55P03"),
         ("rows for one client", "54000"), ("one evaluation may take", "53200"),
         ("too little to go on", "53200"), ("refused memory", "53200"))  # fmt: skip


# before a statement: what a tool says of itself, but not what MySQL would evaluate
REMARKS = re.compile(r"(?:\s*(?:--[^\n]*(?:\n|\Z)|/\*(?!!).*?\*/))+", re.DOTALL)


class Settings(NamedTuple):
    """Who may come in, by the password that is asked for and the certificate of TLS, and how many
    rows of answers one client may hold and how many seconds one statement may take.
    """

    password: str | None = None
    tls: ssl.SSLContext | None = None
    rows: int = ROWS_MOST
    seconds: float = inf


class Statements:
    """Runs a client's statements.  BEGIN takes no lock: the transaction of the store begins with
    the first edit after it, and belongs to the thread that calls.
    """

    def __init__(self, ws: ivm.Workspace, dialect: Dialect, settings: Settings) -> None:
        self.ws, self._dialect, self._settings = ws, dialect, settings
        self._seconds = settings.seconds
        self._begun = False  # BEGIN was said
        self._running: Stoppable | None = None

    @property
    def in_transaction(self) -> bool:
        """Whether a COMMIT is waited for."""
        return self._begun or self.ws.in_sql_transaction

    def run(self, said: str, given: list[Any] | None = None) -> Any:
        """Return the answer to one statement, None if it has no rows."""
        if bracket := BRACKET.match(said):
            self._bracket(said, bracket[1].upper())
            return None
        if self._begun and not self.ws.in_sql_transaction and EDIT.match(said):
            self.ws.sql("BEGIN")
        answer = self._stoppable(partial(self.ws.sql, said, given, self._dialect))
        self.refuse(0 if answer is None else len(answer))
        return answer

    def run_many(self, said: str, rows: list[list[Any]]) -> int:
        """Run a statement that edits for many lists of values; return how many rows it edits."""
        if self._begun and not self.ws.in_sql_transaction:
            self.ws.sql("BEGIN")
        prepared = self.ws.prepare_sql(said, self._dialect)
        return int(self._stoppable(partial(prepared.executemany, rows)))

    def refuse(self, rows: int) -> None:
        """Raise OperationalError if these are more rows than a client may hold."""
        if rows > (most := self._settings.rows):
            raise OperationalError(f"more than {most} rows for one client: add a LIMIT")

    def cancel(self) -> None:
        """End the statement that runs, from any thread; one that has committed is done."""
        if (running := self._running) is not None:
            running.stop()

    def leave(self) -> None:
        """End what the client asked soon, since it says nothing more; from any thread."""
        self._seconds = min(self._seconds, LEFT_SECONDS)
        if (running := self._running) is not None:
            running.stop(after=LEFT_SECONDS)

    @property
    def is_running(self) -> bool:
        """Whether a statement runs."""
        return self._running is not None

    def _stoppable(self, ask: Callable[[], Any]) -> Any:
        """Run a statement that may be cancelled."""
        self._running = running = Stoppable(self._seconds)
        try:
            return running.run(ask)
        except Stopped:
            why = f"it ran for {self._seconds:g} seconds" if running.is_late else "asked to"
            raise OperationalError(f"the statement was cancelled: {why}") from None
        finally:
            self._running = None

    def begin(self) -> None:
        """Let the next edit begin a transaction."""
        self._begun = True

    def end(self, word: str = "ROLLBACK") -> None:
        """End the transaction, if there is one."""
        self._begun = False
        if self.ws.in_sql_transaction:
            self.ws.sql(word)

    def _bracket(self, said: str, word: str) -> None:
        """BEGIN, COMMIT and ROLLBACK."""
        if not word.startswith(("BEGIN", "START")):
            self.end("COMMIT" if word in ("COMMIT", "END") else "ROLLBACK")
            return
        if not self._begun:
            reads_only(said, self._dialect)  # which refuses its modes, and takes no lock
        self._begun = True


def without_remarks(said: str) -> str:
    """Return a text with blanks for the remarks before its statement, which keeps its places."""
    remark = REMARKS.match(said)
    return said if remark is None else re.sub(r"\S", " ", remark[0]) + said[remark.end() :]


def state_of(wrong: Exception) -> str:
    """Return the SQLSTATE of an error of PEP 249."""
    words = str(wrong)
    if (state := next((code for part, code in KNOWN if part in words), None)) is not None:
        return state
    return next((code for kind, code in STATES if isinstance(wrong, kind)), "XX000")
