"""A client's messages, where `mysql_mimic` leaves something out: a client that does not know the
password is sent away, edits are counted, and a prepared statement keeps its parameters as values.
"""

import asyncio
import io
import ssl
import struct
from collections.abc import Callable
from typing import Any

from mysql_mimic.connection import Connection as Library
from mysql_mimic.errors import ErrorCode, MysqlError
from mysql_mimic.prepared import PreparedStatement
from mysql_mimic.stream import MysqlStream
from mysql_mimic.types import Capabilities, ServerStatus, read_uint_1, read_uint_len

from ..clients import FIRST_LONGEST, LONGEST
from .session import Session
from .translate import numbered
from .values import Types, of_type, parameters

TLS_REQUEST = 32  # bytes of a first message that only asks for TLS
FULL = 0xFFFFFF  # bytes of a packet, after which the message goes on
NAMED = 8  # in the flags of a run: names of attributes come with the parameters
STATES = {1062: b"23000", 3819: b"23000", 1452: b"23000", 1048: b"23000", 1317: b"70100", 1146: b"42S02",
          1054: b"42S22", 1050: b"42S01", 1305: b"42000", 1366: b"22007"}  # fmt: skip


class Reader(asyncio.StreamReader):
    """What a client sends, in packets of which a message of at most `longest` bytes is made."""

    longest = FIRST_LONGEST  # until it is known who the client is
    _size = 0
    _buffer: bytearray  # asyncio's own: what came and was not read

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self.gone: Callable[[], object] = lambda: None  # called when the client has ended

    def feed_eof(self) -> None:
        """Note that the client has ended."""
        super().feed_eof()
        self.gone()

    def set_exception(self, exc: Exception) -> None:
        """Note that the client has broken off."""
        super().set_exception(exc)
        self.gone()

    def early(self) -> bytes:
        """Take what came and was not read."""
        taken, self._buffer = bytes(self._buffer), bytearray()
        return taken

    async def read(self, n: int = -1) -> bytes:
        """Return the header of a packet; nothing at the end, or where a message is too long."""
        if not self.longest:
            return b""
        try:
            header = await self.readexactly(n)
        except asyncio.IncompleteReadError:
            return b""
        length = int.from_bytes(header[:3], "little")
        self._size += length
        if self._size > self.longest:
            return b""
        if length < FULL:
            self._size = 0
        return header


class Whole:
    """The stream of a client that says who it is, of which only whole messages are read: the
    library may hang on others.
    """

    def __init__(self, stream: MysqlStream, offered: Capabilities) -> None:
        self.own, self._offered = stream, offered

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    async def start_tls(self, context: ssl.SSLContext) -> None:
        """Begin TLS, also where the client's first bytes of it came with the message that asks for
        it: asyncio would lose them.
        """
        transport, early = self.own.writer.transport, self.own.reader.early()
        beginning = asyncio.ensure_future(self.own.start_tls(context))
        while not isinstance(secure := transport.get_protocol(), asyncio.BufferedProtocol):
            if beginning.done():  # the client has gone
                await beginning
                return
            await asyncio.sleep(0)

        def feed() -> None:
            rest = early
            while rest:
                room = memoryview(secure.get_buffer(len(rest)))
                taken = min(len(room), len(rest))
                room[:taken] = rest[:taken]
                secure.buffer_updated(taken)
                rest = rest[taken:]

        asyncio.get_running_loop().call_soon(feed)  # after the protocol has begun
        await beginning

    async def read(self) -> bytes:
        """Return a message.  Raises MysqlError."""
        packet: bytes = await self.own.read()
        try:
            if len(packet) > TLS_REQUEST:
                self._follow(packet)
        except (ValueError, OverflowError, struct.error):
            raise MysqlError("a message ends too early", ErrorCode.MALFORMED_PACKET) from None
        return packet

    def _follow(self, data: bytes) -> None:
        """Read the fields of a client's first message.  Raises ValueError."""
        flags = Capabilities(int.from_bytes(data[:4], "little")) & self._offered
        at = data.index(0, TLS_REQUEST) + 1
        reader = io.BytesIO(data[at:])
        sized = Capabilities.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA in flags
        at += (read_uint_len if sized else read_uint_1)(reader) + reader.tell()
        for flag in (Capabilities.CLIENT_CONNECT_WITH_DB, Capabilities.CLIENT_PLUGIN_AUTH):
            if flag in flags:
                at = data.index(0, at) + 1


class Connection(Library):
    """A connection, from its first message to its end."""

    session: Session
    stream: Any

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.status_flags = ServerStatus.SERVER_STATUS_AUTOCOMMIT
        self._places: dict[int, list[str]] = {}  # the types of SQL of parameters, by statement
        self._types: dict[int, Types] = {}  # those that the client named

    async def authenticate(self, *args: Any, **kwargs: Any) -> None:
        """Check the password; after a wrong one, nothing more is read of the client."""
        self.session.username = None
        if self.ssl is not None and Capabilities.CLIENT_SSL not in self.capabilities:
            await self.stream.write(
                self.error(msg="TLS is wanted", code=ErrorCode.ACCESS_DENIED_ERROR)
            )
        else:
            await super().authenticate(*args, **kwargs)
        self.stream.reader.longest = 0 if self.session.username is None else LONGEST

    def end_if_unknown(self) -> None:
        """End the connection of a client that has not said who it is."""
        if self.session.username is None:
            self.kill()

    async def connection_phase(self) -> None:
        """Greet, and hear who the client is."""
        self.stream = Whole(self.stream, self.server_capabilities)
        try:
            await super().connection_phase()
        finally:
            self.stream = self.stream.own

    async def handle_change_user(self, data: bytes) -> None:
        """Raise MysqlError: all users are alike, so that nobody need become another."""
        raise MysqlError("connect again as another user", ErrorCode.NOT_SUPPORTED_YET)

    async def handle_field_list(self, data: bytes) -> None:
        """Raise MysqlError: MySQL gave up this command."""
        raise MysqlError("SHOW COLUMNS lists columns", ErrorCode.NOT_SUPPORTED_YET)

    async def handle_reset_connection(self, data: bytes) -> None:
        """Undo edits that no COMMIT kept."""
        await self.session.forget()
        await super().handle_reset_connection(data)

    def ok(self, **kwargs: Any) -> bytes:
        """Return the packet that ends an answer, with how many rows were edited."""
        session, flags = self.session, ServerStatus(0)
        if session.in_transaction:
            flags |= ServerStatus.SERVER_STATUS_IN_TRANS
        if session.variables.get("autocommit"):
            flags |= ServerStatus.SERVER_STATUS_AUTOCOMMIT
        self.status_flags = flags
        if not kwargs.get("eof"):
            kwargs |= {"affected_rows": session.edited, "last_insert_id": session.numbered}
        return super().ok(**kwargs)

    def error(self, **kwargs: Any) -> bytes:
        """Return the packet of an error, with the SQLSTATE of those that the library does not know."""
        made, state = super().error(**kwargs), STATES.get(int(kwargs.get("code", 0)))
        if state is None or Capabilities.CLIENT_PROTOCOL_41 not in self.capabilities:
            return made
        return made[:4] + state + made[9:]

    async def handle_stmt_prepare(self, data: bytes) -> None:
        """Prepare a statement, whose parameters the library would write into its text."""
        text, places = numbered(self.client_charset.decode(data))
        types = await self.session.types_of(text, places)
        number = next(self.prepared_stmt_seq)
        made = PreparedStatement(number, text, places)
        for packet in self.com_stmt_prepare_response(made):
            await self.stream.write(packet, drain=False)
        await self.stream.drain()
        self.prepared_stmts[number] = PreparedStatement(number, text, 0)
        self._places[number] = types

    async def handle_stmt_execute(self, data: bytes) -> None:
        """Run a prepared statement."""
        number, flags, _ = struct.unpack("<IBI", data[:9])
        statement, places = self.get_stmt(number), self._places[number]
        reader = io.BytesIO(data[9:])
        named = Capabilities.CLIENT_QUERY_ATTRIBUTES in self.capabilities
        count = read_uint_len(reader) if named and (places or flags & NAMED) else len(places)
        if places:
            long = statement.param_buffers or {}
            known = self._types.get(number, ())
            self._types[number], given = parameters(reader, count, known, long, named)
            self.session.given = [*map(of_type, given, places)]
        await super().handle_stmt_execute(struct.pack("<IBI", number, flags & ~NAMED, 1))

    async def handle_stmt_close(self, data: bytes) -> None:
        """Forget a prepared statement."""
        await super().handle_stmt_close(data)
        number = int.from_bytes(data[:4], "little")
        self._places.pop(number, None)
        self._types.pop(number, None)
