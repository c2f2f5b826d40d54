"""One client: its statements by the simple and by the extended protocol, until it ends."""

import csv
import io
import re
import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import islice
from typing import Any, BinaryIO, ClassVar, Literal, NamedTuple

import ivm
from ivm.dbapi import DataError, Error, OperationalError, ProgrammingError
from ivm.dbapi.connection import EDIT
from ivm.dbapi.errors import errors_of_pep249
from ivm.sql import described, split

from ..clients import BRACKET, LONGEST, Settings, Statements, state_of, without_remarks
from . import values
from .copied import CLOSE, COPY_IN, COPY_OUT, DECLARE, FETCH, lines_of
from .messages import Fields, ProtocolError, error, following, message, text
from .values import Column

DIALECT: Literal["postgres"] = "postgres"
WATCH = re.compile(r'\s*(listen|unlisten)\s+("[^"]+"|\w+|\*)\s*;?\s*', re.IGNORECASE)
TAGS = {"START": "BEGIN", "END": "COMMIT", "ABORT": "ROLLBACK"}
COPY_MOST = 1 << 30  # bytes of one COPY FROM STDIN
FEW = 100  # rows of an answer that are listed at once
PLACE = re.compile(r"sql:(\d+):(\d+): ")


class Statement:
    """A statement that was prepared: its text, the oids of its parameters, and its columns as they
    were described, if they were.
    """

    def __init__(self, said: str, oids: list[int]) -> None:
        self.text, self.oids = said, oids
        self.columns: list[Column] | None = None


class Rows(Sequence[tuple[Any, ...]]):
    """The rows of a long answer, which are listed if one of them is taken."""

    def __init__(self, answer: ivm.Answer) -> None:
        self.table = answer.to_arrow()
        self._listed = cache(lambda: [*answer])

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, place: Any) -> Any:
        return self._listed()[place]


class Answered(NamedTuple):
    """What a statement gave: its columns and rows, if it has any, and its tag."""

    columns: list[Column] | None
    rows: Sequence[tuple[Any, ...]]
    tag: str


class Portal:
    """A statement with the values of its parameters, which is run once."""

    def __init__(self, statement: Statement, given: list[Any], formats: list[int]) -> None:
        self.statement, self.given, self.formats = statement, given, formats
        self.answer: Answered | None = None
        self.sent, self.is_held = 0, False  # held: a cursor that outlives its transaction


class Session:
    """Statements of one client on a workspace, whose transactions are those of this thread."""

    def __init__(
        self, ws: ivm.Workspace, stream: BinaryIO, send: Callable[[bytes], Any], settings: Settings
    ) -> None:
        self._ws, self._stream, self._send = ws, stream, send
        self._statements: dict[str, Statement] = {}
        self._portals: dict[str, Portal] = {}
        self._client = Statements(ws, DIALECT, settings)
        self._failed = False  # until Sync
        self._out: list[bytes] = []
        self._watched: dict[str, Callable[[], None]] = {}
        self._lock = threading.Lock()  # of what is sent, for changes come from other threads

    @property
    def is_running(self) -> bool:
        """Whether a statement runs."""
        return self._client.is_running

    def leave(self) -> None:
        """End the statement that runs soon, since its client has gone; from any thread."""
        self._client.leave()

    def cancel(self) -> None:
        """End the statement that runs, from any thread."""
        self._client.cancel()

    def run(self) -> None:
        """Serve until the client ends.  Raises EOFError, ProtocolError."""
        known: dict[bytes, Callable[[Fields], None]] = {
            b"Q": self._simple, b"P": self._parse, b"B": self._bind, b"D": self._describe,
            b"E": self._execute, b"C": self._close, b"H": lambda _: self._flush(), b"S": self._sync,
        }  # fmt: skip
        try:
            self._ready()
            while True:
                letter, fields = following(self._stream)
                if letter == b"X":
                    return
                if letter not in known:
                    raise ProtocolError(f"a message {letter!r}")
                if self._failed and letter not in b"SH":
                    continue
                self._answering(known[letter], fields, letter)
        finally:
            for end in self._watched.values():
                end()
            self._client.end()

    def _answering(self, answer: Callable[[Fields], None], fields: Fields, letter: bytes) -> None:
        """Answer a message; what goes wrong is an error of the client's statement."""
        try:
            with errors_of_pep249():
                answer(fields)
        except (Error, values.ValueOfClientError) as wrong:
            self._out.append(_error_of(wrong))
            self._failed = letter != b"Q"
        except ProtocolError:
            raise
        except Exception as wrong:  # a mistake of ours ends a statement, and not the client
            words = f"a mistake in ivm, please report it ({type(wrong).__name__}: {wrong})"
            self._out.append(error("XX000", words[:500]))
            self._failed = letter != b"Q"
        if letter == b"Q":
            self._ready()

    def _flush(self) -> None:
        with self._lock:
            out, self._out = b"".join(self._out), []
            self._send(out)

    def _ready(self) -> None:
        if not self._client.in_transaction:
            self._portals = {name: each for name, each in self._portals.items() if each.is_held}
        self._out.append(message(b"Z", b"T" if self._client.in_transaction else b"I"))
        self._flush()

    # -- statements

    def _simple(self, fields: Fields) -> None:
        said = fields.text()
        parts = [part for part in map(without_remarks, split(said, DIALECT)) if part.strip()]
        if not parts:
            self._out.append(message(b"I"))
        for part in parts:
            answered = self._run(part, None)
            if answered.columns is not None:
                self._out.append(_described(answered.columns, []))
                self._out += _written(answered, [], 0, len(answered.rows))
            self._out.append(message(b"C", text(answered.tag)))

    def _run(self, said: str, given: list[Any] | None) -> Answered:
        """Run one statement."""
        for pattern, run in self.commands.items():
            if matched := pattern.fullmatch(said):
                return run(self, matched, given or [])
        answer = self._client.run(said, given)
        words = [*(m[0].upper() for m in islice(re.finditer(r"[A-Za-z]+", said), 2)), ""]
        word = TAGS.get(words[0], words[0])
        if answer is None:
            count = 2 if word in ("CREATE", "DROP", "ALTER") else 1
            return Answered(None, [], " ".join([word, *words[1:count]]).strip())
        columns = values.columns_of(answer.schema)
        rows = Rows(answer) if len(answer) > FEW else [*answer]
        edits = EDIT.match(said) is not None
        if (edits or word == "COPY") and [column.name for column in columns] == ["Count"]:
            return Answered(
                None, [], f"INSERT 0 {rows[0][0]}" if word == "INSERT" else f"{word} {rows[0][0]}"
            )
        if word == "INSERT":
            tag = f"INSERT 0 {len(rows)}"
        else:
            tag = f"{word if edits else 'SELECT'} {len(rows)}"
        return Answered(columns, rows, tag)

    def _watch(self, matched: re.Match[str], _: list[Any]) -> Answered:
        """LISTEN and UNLISTEN: each change of a kept view, or of a table of rules, is told."""
        word, name = matched[1].upper(), matched[2].strip('"')
        if word == "LISTEN" and name not in self._watched:
            self._watched[name] = self._ws.subscribe(
                name, lambda changes: self._notify(name, changes)
            )
        elif word == "UNLISTEN":
            for each in [*self._watched] if name == "*" else [name]:
                self._watched.pop(each, lambda: None)()
        return Answered(None, [], word)

    def _notify(self, name: str, changes: Any) -> None:
        """Tell of a change, with how many rows differ."""
        with self._lock:
            self._send(message(b"A", struct.pack(">i", 1), text(name), text(str(len(changes)))))

    def _copy(self, matched: re.Match[str], _: list[Any]) -> Answered:
        """COPY ... TO STDOUT, as text or CSV."""
        how = matched["how"].lower()
        is_csv, head = "csv" in how, "header" in how
        if "binary" in how:
            raise ProgrammingError("COPY TO STDOUT is text or CSV: leave out BINARY")
        answer = self._client.run(matched["query"] or f"SELECT * FROM {matched['table']}")
        if answer is None:
            raise ProgrammingError("COPY takes a query or a table")
        columns = values.columns_of(answer.schema)
        self._out.append(message(b"H", struct.pack(">bh", 0, len(columns)), b"\0\0" * len(columns)))
        lines: list[list[str | None]] = [[column.name for column in columns]] if head else []
        for row in answer:
            pairs = zip(row, columns, strict=True)
            lines.append([None if v is None else values.as_text(v, c.oid) for v, c in pairs])
        for line in lines:
            self._out.append(message(b"d", (_csv(line) if is_csv else _tabs(line)).encode()))
        self._out.append(message(b"c"))
        return Answered(None, [], f"COPY {len(answer)}")

    def _copy_in(self, matched: re.Match[str], _: list[Any]) -> Answered:
        """COPY ... FROM STDIN, as text or CSV: all rows, or none."""
        table, names = matched["table"], matched["columns"]
        asked = self._client.run(f"SELECT {names or '*'} FROM {table} LIMIT 0")
        columns = values.columns_of(asked.schema)
        self._out.append(message(b"G", struct.pack(">bh", 0, len(columns)), b"\0\0" * len(columns)))
        self._flush()
        rows = list[list[Any]]()
        for line in lines_of(self._copied(), matched["how"]):
            if len(line) != len(columns):
                raise DataError(
                    f"COPY FROM STDIN: row {len(rows) + 1} has {len(line)} values, and {len(columns)} are wanted"
                )
            pairs = zip(line, columns, strict=True)
            rows.append([v and values.read(v.encode(), c.oid, False) for v, c in pairs])
            self._client.refuse(len(rows))
        places = ", ".join(f"${n + 1}" for n in range(len(columns)))
        into = f"INSERT INTO {table} {f'({names})' * bool(names)} VALUES ({places})"
        return Answered(None, [], f"COPY {self._client.run_many(into, rows) if rows else 0}")

    def _copied(self) -> bytes:
        """Return the data that a client sends until it is done."""
        parts, size = list[bytes](), 0
        while True:
            letter, fields = following(self._stream)
            if letter == b"c":
                return b"".join(parts)
            if letter == b"f":
                raise OperationalError(f"the statement was cancelled: {fields.text()}")
            if letter == b"d":
                parts.append(fields.rest)
                size += len(parts[-1])
                if size > COPY_MOST:
                    raise ProtocolError(f"more than {COPY_MOST} bytes of COPY FROM STDIN")
            elif letter not in b"HS":
                raise ProtocolError(f"a message {letter!r} in COPY FROM STDIN")

    def _declare(self, matched: re.Match[str], given: list[Any]) -> Answered:
        """DECLARE CURSOR: its rows are those of now, and are held until the transaction ends."""
        is_held = (matched["hold"] or "").lower() == "with"
        if not is_held and not self._client.in_transaction:
            raise OperationalError("a cursor lives within a transaction: BEGIN, or add WITH HOLD")
        portal = Portal(Statement(matched["query"], []), given, [])
        self._answer(portal)
        portal.is_held = is_held
        self._portals[matched["name"].strip('"')] = portal
        return Answered(None, [], "DECLARE CURSOR")

    def _fetch(self, matched: re.Match[str], _: list[Any]) -> Answered:
        """FETCH and MOVE: the next rows of a cursor."""
        portal = self._named(self._portals, matched["name"].strip('"'))
        rows, count = self._answer(portal).rows, (matched["count"] or "1").lower()
        begin, word = portal.sent, matched["word"].upper()
        portal.sent = len(rows) if count == "all" else min(len(rows), begin + int(count))
        tag = f"{word} {portal.sent - begin}"
        if word == "MOVE":
            return Answered(None, [], tag)
        return Answered(self._answer(portal).columns, rows[begin : portal.sent], tag)

    def _close_cursor(self, matched: re.Match[str], _: list[Any]) -> Answered:
        """CLOSE."""
        self._portals.pop(matched["name"].strip('"'), None)
        return Answered(None, [], "CLOSE CURSOR")

    # what the session runs itself, and no SQL of the store
    commands: ClassVar = {
        WATCH: _watch, COPY_OUT: _copy, COPY_IN: _copy_in, DECLARE: _declare, FETCH: _fetch,
        CLOSE: _close_cursor,
    }  # fmt: skip

    # -- the extended protocol

    def _parse(self, fields: Fields) -> None:
        name, said = fields.text(), without_remarks(fields.text())
        oids = [fields.int32() for _ in range(fields.int16())]
        cursor = DECLARE.fullmatch(said)
        if cursor or not _is_own(said):
            asked = cursor["query"] if cursor else said
            types, _ = (
                described(self._ws, asked, DIALECT) if re.search(r"\$\d", asked) else ([], None)
            )
            named = [values.named(oid) if oid else 0 for oid in types]
            oids = [
                given or inferred
                for given, inferred in zip(oids + [0] * len(named), named, strict=False)
            ]
        self._statements.pop(name, None)
        if len(said) + sum(len(known.text) for known in self._statements.values()) > LONGEST:
            raise OperationalError("too many statements are prepared: close some")
        self._statements[name] = Statement(said, oids)
        self._out.append(message(b"1"))

    def _bind(self, fields: Fields) -> None:
        portal, name = fields.text(), fields.text()
        statement = self._named(self._statements, name)
        formats, values_given, result_formats = fields.int16s(), fields.values(), fields.int16s()
        if len(values_given) != len(statement.oids):
            raise ProgrammingError(
                f"{len(statement.oids)} parameters wanted, and {len(values_given)} given"
            )
        given = [
            values.read(value, oid, bool(_format(formats, n)))
            for n, (value, oid) in enumerate(zip(values_given, statement.oids, strict=True))
        ]
        self._portals[portal] = Portal(statement, given, result_formats)
        self._out.append(message(b"2"))

    def _describe(self, fields: Fields) -> None:
        kind, name = fields.take(1), fields.text()
        if kind == b"S":
            statement = self._named(self._statements, name)
            oids = [oid or values.TEXT for oid in statement.oids]
            self._out.append(message(b"t", struct.pack(f">h{len(oids)}I", len(oids), *oids)))
            columns = statement.columns = self._columns(statement)
            formats: list[int] = []
        else:
            portal = self._named(self._portals, name)
            is_copy = any(pattern.match(portal.statement.text) for pattern in (COPY_IN, COPY_OUT))
            columns = None if is_copy else self._answer(portal).columns
            formats = portal.formats
        self._out.append(message(b"n") if columns is None else _described(columns, formats))

    def _columns(self, statement: Statement) -> list[Column] | None:
        """Return the columns that a statement would give; nothing is run unless it only asks."""
        if cursor := FETCH.fullmatch(statement.text):
            return self._answer(self._named(self._portals, cursor["name"].strip('"'))).columns
        if _is_own(statement.text) or not statement.text.strip():
            return None
        _, named = described(self._ws, statement.text, DIALECT)
        if named is None:
            return self._run(statement.text, [None] * len(statement.oids) or None).columns
        return [Column(name, values.named(type_)) for name, type_ in named] or None

    def _answer(self, portal: Portal) -> Answered:
        """Run a portal's statement, if it has not run."""
        if portal.answer is None:
            said = portal.statement.text
            answered = Answered(None, [], "")
            if said.strip():
                answered = self._run(said, portal.given or None)
            held = (other.answer.rows for other in self._portals.values() if other.answer)
            self._client.refuse(len(answered.rows) + sum(map(len, held)))
            promised = portal.statement.columns
            portal.answer = answered if promised is None else answered._replace(columns=promised)
        return portal.answer

    def _execute(self, fields: Fields) -> None:
        portal, most = self._named(self._portals, fields.text()), fields.int32()
        answered = self._answer(portal)
        end = len(answered.rows) if most <= 0 else min(len(answered.rows), portal.sent + most)
        if portal.sent < end:
            self._out += _written(answered, portal.formats, portal.sent, end)
        portal.sent = end
        if end < len(answered.rows):
            self._out.append(message(b"s"))
        elif answered.tag:
            self._out.append(message(b"C", text(answered.tag)))
        else:
            self._out.append(message(b"I"))

    def _close(self, fields: Fields) -> None:
        kind, name = fields.take(1), fields.text()
        (self._statements if kind == b"S" else self._portals).pop(name, None)
        self._out.append(message(b"3"))

    def _sync(self, _: Fields) -> None:
        self._failed = False
        self._ready()

    @staticmethod
    def _named(known: dict[str, Any], name: str) -> Any:
        if name not in known:
            raise ProgrammingError(f"nothing is prepared under the name {name!r}")
        return known[name]


def _is_own(said: str) -> bool:
    return any(pattern.match(said) for pattern in (BRACKET, *Session.commands))


def _format(formats: list[int], place: int) -> int:
    """Return the format of a value: one says that of all, and none that all are text."""
    return formats[place] if len(formats) > 1 else formats[0] if formats else 0


def _described(columns: list[Column], formats: list[int]) -> bytes:
    parts = [struct.pack(">h", len(columns))]
    for n, one in enumerate(columns):
        size = values.SIZES.get(one.oid, -1)
        parts.append(
            text(one.name) + struct.pack(">IhIhih", 0, 0, one.oid, size, -1, _format(formats, n))
        )
    return message(b"T", *parts)


def _written(answered: Answered, formats: list[int], begin: int, end: int) -> Iterable[bytes]:
    """Return messages of some rows of an answer: one by one, or all at once."""
    columns, rows = answered.columns or [], answered.rows
    binary = [bool(_format(formats, n)) for n in range(len(columns))]
    if isinstance(rows, Rows) and all(binary):
        whole = values.packed(columns, rows.table.slice(begin, end - begin))
        if whole is not None:
            return [whole]
    return map(values.writer(columns, binary), rows[begin:end])


def _csv(line: list[Any]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(line)
    return out.getvalue()


def _tabs(line: list[Any]) -> str:
    signs = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
    return "\t".join("\\N" if cell is None else cell.translate(signs) for cell in line) + "\n"


def _error_of(wrong: Exception) -> bytes:
    """Return an error with its SQLSTATE and, if the words say it, the place in the text."""
    words = str(wrong)
    state = "22P02" if isinstance(wrong, values.ValueOfClientError) else state_of(wrong)
    place = PLACE.match(words)
    position = None
    if place and place[1] == "1":
        position = int(place[2])
    return error(state, PLACE.sub("", words), position)
