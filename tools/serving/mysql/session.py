"""One client's statements: the store's by its SQL, and what MySQL's clients ask of a server by
`mysql_mimic`.
"""

import asyncio
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from mysql_mimic.charset import CharacterSet
from mysql_mimic.errors import ErrorCode, MysqlError
from mysql_mimic.results import AllowedResult, ResultColumn, ResultSet
from mysql_mimic.schema import Column, InfoSchema, info_schema_tables
from mysql_mimic.session import Session as Library
from mysql_mimic.types import ColumnType
from mysql_mimic.variables import SYSTEM_VARIABLES, GlobalVariables, SessionVariables
from sqlglot import exp

import ivm
from ivm.dbapi import Error
from ivm.dbapi.connection import EDIT
from ivm.dbapi.errors import errors_of_pep249
from ivm.sql import described, split

from ..clients import Settings as Limits
from ..clients import Statements, state_of, without_remarks
from . import values
from .created import created
from .translate import translated, written

DATABASE = "ivm"
LIBRARYS = re.compile(  # what the library answers: settings, SHOW, and the session's own functions
    r"\s*(?:set|show|use|kill|desc|describe)\b|.*(?:@@|\binformation_schema\b"
    r"|\b(?:database|schema|user|current_user|session_user|system_user|version|connection_id)\s*\()",
    re.IGNORECASE | re.DOTALL,
)
LAST_ID = re.compile(r"\blast_insert_id\s*\(\s*\)", re.IGNORECASE)
INSERT = re.compile(r'INSERT INTO "?(\w+)"? \(([^()]*)\) (?!.*\bRETURNING\b)', re.DOTALL)
CODES = {
    "23000": 1062, "23505": 1062, "23514": 3819, "23503": 1452, "23502": 1048, "57014": 1317,
    "42P01": 1146, "42703": 1054, "42P07": 1050, "42883": 1305, "55P03": 1205, "42000": 1064,
    "22000": 1366, "54000": 1104, "53200": 1041,
}  # fmt: skip
SYSTEM: dict[str, Any] = {
    **SYSTEM_VARIABLES,
    "version_comment": (str, "ivm", False),
    "transaction_isolation": (str, "SERIALIZABLE", True),
    "sql_mode": (str, "STRICT_TRANS_TABLES", True),
}
HOLDS: dict[str, Callable[[Any], bool]] = {  # what a setting may be, for another would have an effect
    "time_zone": lambda value: str(value).upper() in ("UTC", "+00:00", "SYSTEM"),
    "sql_mode": lambda value: not re.search("ANSI|PIPES|NO_BACKSLASH", str(value).upper()),
    "sql_select_limit": lambda value: value is None or int(value) >= 2**32,
    "max_execution_time": lambda value: not value,
    "transaction_read_only": lambda value: not value,
}  # fmt: skip
COLUMNS = "SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns ORDER BY table_name, ordinal_position"  # noqa: E501
KEYS = "SELECT c.table_name, k.column_name, c.constraint_type FROM information_schema.table_constraints c JOIN information_schema.key_column_usage k ON c.constraint_name = k.constraint_name"  # noqa: E501
VIEWS = "SELECT table_name FROM information_schema.tables WHERE table_type = 'VIEW'"

MARKS = {"PRIMARY KEY": "PRI", "UNIQUE": "UNI"}


class Settings(SessionVariables):
    """Settings of a client, which are refused where they would have an effect that is not had."""

    def set(self, name: str, value: Any, force: bool = False) -> None:
        """Set one.  Raises MysqlError."""
        holds = HOLDS.get(name.lower())
        if holds is not None and isinstance(value, str | int) and not holds(value):
            raise MysqlError(
                f"SET {name} = {value}: it is {self.get_variable(name)} here",
                ErrorCode.WRONG_VALUE_FOR_VAR,
            )
        super().set(name, value, force)


class Session(Library):
    """Statements of one client on a workspace, in a thread whose transaction is the client's."""

    def __init__(self, ws: ivm.Workspace, limits: Limits) -> None:
        super().__init__(Settings(GlobalVariables(SYSTEM)))
        self.middlewares = [
            self._set_var_middleware, self._set_middleware, self._use_middleware,
            self._kill_middleware, self._show_middleware, self._describe_middleware,
            self._info_schema_middleware,
        ]  # fmt: skip
        self._statements = Statements(ws, "duckdb", limits)
        self._thread = ThreadPoolExecutor(1)
        self.given: list[Any] = []  # parameters of the statement that comes next
        self.edited = self.numbered = 0  # rows of the last edit, and the first number that it gave
        self._last_id = 0
        self.in_transaction = False

    # -- what the library calls

    async def handle_query(self, sql: str, attrs: dict[str, str]) -> AllowedResult:
        """Run the statements of a text, and return the answer of the last.  Raises MysqlError."""
        given, self.given = self.given, []
        self.edited = self.numbered = 0
        answer: AllowedResult = None
        for text in split(sql, "mysql"):
            said = LAST_ID.sub(str(self._last_id), without_remarks(text))
            if LIBRARYS.match(said):
                answer = await super().handle_query(said, attrs)
            else:
                answer = await self._in_thread(partial(self._run_text, said, given))
        return answer

    async def types_of(self, sql: str, places: int) -> list[str]:
        """Return the types of a statement's parameters, empty where it does not say it.

        Raises MysqlError if it cannot be run.
        """

        def types() -> list[str]:
            if not places:
                return []
            (statement,) = translated(sql)
            return described(self._statements.ws, statement)[0]

        names: list[str] = await self._in_thread(types)
        return [*names, *[""] * (places - len(names))]

    async def query(self, expression: exp.Expr, sql: str, attrs: dict[str, str]) -> AllowedResult:
        """Run a statement in which the library has put constants."""
        return await self._in_thread(lambda: self._run(written(expression), []))

    async def _show(self, expression: exp.Show) -> AllowedResult:
        """Answer SHOW; the library does not know the text that creates a table.

        Raises MysqlError.
        """
        if not expression.name.upper().startswith("CREATE "):
            return await super()._show(expression)
        name = expression.text("target")
        told = await self._in_thread(partial(created, self._statements.ws, name))
        if told is None:
            raise MysqlError(f"Table '{DATABASE}.{name}' does not exist", 1146)
        kind, text = told
        columns = [ResultColumn(word, ColumnType.VAR_STRING) for word in (kind, f"Create {kind}")]
        return ResultSet([[name, text]], columns)

    async def schema(self) -> InfoSchema:
        """Return `information_schema` as MySQL has it."""
        return InfoSchema(await self._in_thread(self._tables))

    async def use(self, database: str) -> None:
        """Take the one database that there is.  Raises MysqlError."""
        if database.lower() not in (DATABASE, "information_schema"):
            raise MysqlError(f"Unknown database '{database}': it is {DATABASE}", 1049)
        await super().use(database)

    def cancel(self) -> None:
        """End the statement that runs, from any thread."""
        self._statements.cancel()

    def leave(self) -> None:
        """End the statement that runs soon, since its client has gone; from any thread."""
        self._statements.leave()

    async def forget(self) -> None:
        """Undo edits that no COMMIT kept."""
        await self._in_thread(self._statements.end)

    async def end(self) -> None:
        """End the client's statement, transaction and thread."""
        self.cancel()
        await self.forget()
        self._thread.shutdown(wait=False)

    # -- in the client's thread

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        def run() -> Any:
            try:
                with errors_of_pep249():
                    return work()
            finally:
                self.in_transaction = self._statements.in_transaction

        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, run)
        except Error as wrong:
            raise MysqlError(str(wrong), CODES.get(state_of(wrong), 1105)) from None

    def _run_text(self, text: str, given: list[Any]) -> ResultSet | None:
        return self._run(translated(text), given)

    def _run(self, statements: list[str], given: list[Any]) -> ResultSet | None:
        answer = None
        for text in statements:
            edits = EDIT.match(text) is not None
            if edits and not self.variables.get("autocommit"):
                self._statements.begin()
            key = self._numbered(text) if edits else None
            answer = self._statements.run(f"{text} RETURNING {key}" if key else text, given or None)
            if edits and answer is not None:
                answer = self._counted(answer, key)
        if answer is None:
            return None
        letters = CharacterSet[str(self.variables.get("character_set_results"))]
        columns = values.columns_of(answer.schema, letters)
        return ResultSet([[*map(values.shown, row)] for row in answer], columns)

    def _numbered(self, insert: str) -> str | None:
        """Return the column that an INSERT leaves to be numbered; None if there is none."""
        if (matched := INSERT.match(insert)) is None or matched[1] not in self._statements.ws:
            return None
        key = self._statements.ws[matched[1]].info.schema.key
        given = {column.strip(' "').lower() for column in matched[2].split(",")}
        return f'"{key[0]}"' if len(key) == 1 and key[0].lower() not in given else None

    def _counted(self, answer: Any, key: str | None) -> Any:
        """Note how many rows an edit edits, and return its answer if it has another."""
        if key is not None:
            rows = [*answer]
            self.edited = len(rows)
            self._last_id = self.numbered = rows[0][0] if rows else 0
            return None
        if answer.schema.names == ["Count"]:
            ((self.edited,),) = answer
            return None
        return answer

    def _tables(self) -> Any:
        """Return the relations of `information_schema`, with what the library leaves out."""
        ws = self._statements.ws
        columns = [
            Column(name=name, type=type_.lower(), table=table, is_nullable=null == "YES",
                   default=default, schema=DATABASE)
            for table, name, type_, null, default in ws.sql(COLUMNS) or ()
        ]  # fmt: skip
        kinds = {(table, name): kind for table, name, kind in ws.sql(KEYS) or ()}
        views = {name for (name,) in ws.sql(VIEWS) or ()}
        made = info_schema_tables(columns)
        tables = made["information_schema"]
        place, key = (tables["columns"].columns.index(name) for name in ("ordinal_position", "column_key"))  # fmt: skip
        for n, row in enumerate(tables["columns"].rows):
            kind = kinds.get((row[2], row[3])) if row[1] == DATABASE else None
            given = {place: row[place] + 1, key: MARKS.get(kind or "", "")}
            tables["columns"].rows[n] = tuple(given.get(at, value) for at, value in enumerate(row))
        for n, row in enumerate(tables["tables"].rows):
            if row[1] == DATABASE:
                kind = "VIEW" if row[2] in views else "BASE TABLE"
                tables["tables"].rows[n] = (*row[:3], kind, "ivm", *row[5:])
        return made
