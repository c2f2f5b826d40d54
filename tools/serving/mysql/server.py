"""Listens, and gives each client a session."""

import asyncio
import logging
import threading
from contextlib import suppress
from itertools import count
from typing import Any

from mysql_mimic.auth import IdentityProvider, NativePasswordAuthPlugin, User
from mysql_mimic.constants import KillKind
from mysql_mimic.control import Control
from mysql_mimic.errors import ErrorCode
from mysql_mimic.packets import make_error
from mysql_mimic.stream import MysqlStream

import ivm

from ..clients import CLIENTS_MOST, SECONDS, Settings
from .connection import Connection, Reader
from .session import Session

logging.getLogger("mysql_mimic").addHandler(logging.NullHandler())
logging.getLogger("mysql_mimic").propagate = False  # what it notes, a client is told


class Users(IdentityProvider):
    """Anybody who knows the password, if there is one."""

    def __init__(self, password: str | None) -> None:
        self._known = password and NativePasswordAuthPlugin.create_auth_string(password)

    async def get_user(self, username: str) -> User:
        """Return a user of any name."""
        return User(username, self._known, NativePasswordAuthPlugin.name)


class Clients(Control):
    """Those that are connected, by number, for KILL."""

    def __init__(self) -> None:
        self.known: dict[int, Connection] = {}
        self.numbers = count(1)

    async def kill(self, connection_id: int, kind: KillKind = KillKind.CONNECTION) -> None:
        """End the statement of a client, and the client unless only its query is meant."""
        if (client := self.known.get(connection_id)) is not None:
            client.session.cancel()
            if kind is not KillKind.QUERY:
                client.kill(kind)


class Server:
    """Clients of one workspace, served by a thread of its own until `close`."""

    def __init__(self, ws: ivm.Workspace, host: str, port: int, settings: Settings) -> None:
        self._ws, self._settings, self._clients = ws, settings, Clients()
        self._users = Users(settings.password)
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda *_: None)  # of a client that breaks off
        listening = self._loop.create_server(self._client, host, port)
        try:
            self._server = self._loop.run_until_complete(listening)
        except OSError:
            self._loop.close()
            raise
        self.port: int = self._server.sockets[0].getsockname()[1]
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send all clients away; what they did not commit is undone."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def _client(self) -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(Reader(loop=self._loop), self._serve, self._loop)

    async def _serve(self, reader: Any, writer: asyncio.StreamWriter) -> None:
        """Serve a client."""
        known = self._clients.known
        if len(known) >= CLIENTS_MOST:
            error = make_error(msg="too many clients", code=ErrorCode.CON_COUNT_ERROR)
            writer.write(len(error).to_bytes(3, "little") + b"\0" + error)
            writer.close()
            return
        client = Connection(
            stream=MysqlStream(reader, writer), session=Session(self._ws, self._settings), control=self._clients,
            identity_provider=self._users, ssl=self._settings.tls,
        )  # fmt: skip
        client.connection_id = next(self._clients.numbers)
        known[client.connection_id] = client
        reader.gone = client.session.leave
        late = self._loop.call_later(SECONDS, client.end_if_unknown)
        try:
            with suppress(Exception):
                await client.start()
        finally:
            late.cancel()
            del known[client.connection_id]
            await client.session.end()
            writer.close()
