"""Listens, and gives each client a thread and a session, after TLS and a password if wanted."""

import secrets
import select
import socket
import socketserver
import struct
import threading
from contextlib import suppress
from typing import Any

import ivm
from ivm.sql import settings

from ..clients import CLIENTS_MOST, SECONDS, Settings
from .messages import Fields, ProtocolError, error, first, following, message, text
from .scram import Scram
from .session import Session

TLS, GSS, CANCEL, VERSION = 80877103, 80877104, 80877102, 196608
SAID = (  # settings that a client is told at its beginning
    "server_version", "server_encoding", "client_encoding", "DateStyle", "TimeZone",
    "integer_datetimes", "standard_conforming_strings", "is_superuser", "IntervalStyle",
)  # fmt: skip


class Server(socketserver.ThreadingTCPServer):
    """Clients of one workspace.  `server_address` is where it listens."""

    daemon_threads = allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, ws: ivm.Workspace, host: str, port: int, settings: Settings) -> None:
        self.ws, self.settings = ws, settings
        self.sessions: dict[tuple[int, int], tuple[Session, socket.socket]] = {}
        self.places = threading.BoundedSemaphore(CLIENTS_MOST)
        super().__init__((host, port), Client)

    def service_actions(self) -> None:
        """End what clients asked that have gone."""
        for session, client in [*self.sessions.values()]:
            if session.is_running and _has_gone(client):
                session.leave()

    def server_close(self) -> None:
        """Listen no more, and end what runs."""
        super().server_close()
        for session, _ in [*self.sessions.values()]:
            session.cancel()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that breaks off."""


class Client(socketserver.BaseRequestHandler):
    """A connection, from its first message to its end."""

    server: Server

    def handle(self) -> None:
        """Serve a client."""
        if not self.server.places.acquire(blocking=False):
            self.request.sendall(error("53300", "too many clients", severity="FATAL"))
            return
        try:
            with suppress(EOFError, OSError, ValueError, struct.error):
                self._serve()
        finally:
            self.server.places.release()

    def _serve(self) -> None:
        self.request.settimeout(SECONDS)
        stream = self._begun()
        if stream is None:
            return
        try:
            if not self._knows_password(stream):
                self.request.sendall(error("28P01", "the password is wrong", severity="FATAL"))
                return
            self._serve_known(stream)
        except ProtocolError as wrong:
            self.request.sendall(error("08P01", str(wrong), severity="FATAL"))

    def _begun(self) -> Any:
        """Return the stream of a client that begins a session; None if it asked otherwise."""
        secure = False
        while True:
            stream = self.request.makefile("rb")
            code, body = first(stream)
            if code == TLS and self.server.settings.tls is not None and not secure:
                self.request.sendall(b"S")
                self.request = self.server.settings.tls.wrap_socket(self.request, server_side=True)
                secure = True
            elif code in (TLS, GSS):
                self.request.sendall(b"N")
            elif code == CANCEL:
                if client := self.server.sessions.get(struct.unpack(">ii", body)):
                    client[0].cancel()
                return None
            elif code != VERSION:
                raise ProtocolError(f"protocol {code >> 16}.{code & 0xFFFF}: this is 3.0")
            elif self.server.settings.tls is not None and not secure:
                self.request.sendall(
                    error("28000", "TLS is wanted: sslmode=require", severity="FATAL")
                )
                return None
            else:
                return stream

    def _knows_password(self, stream: Any) -> bool:
        """Return whether the client knows the password, if there is one."""
        if self.server.settings.password is None:
            return True
        scram = Scram(self.server.settings.password)
        self.request.sendall(message(b"R", struct.pack(">i", 10), text("SCRAM-SHA-256"), b"\0"))
        fields = self._password(stream)
        if fields.text() != "SCRAM-SHA-256":
            return False
        said = scram.first(fields.take(fields.int32()).decode())
        self.request.sendall(message(b"R", struct.pack(">i", 11), said.encode()))
        proof = scram.last(self._password(stream).rest.decode())
        if proof is None:
            return False
        self.request.sendall(message(b"R", struct.pack(">i", 12), proof.encode()))
        return True

    @staticmethod
    def _password(stream: Any) -> Fields:
        letter, fields = following(stream)
        if letter != b"p":
            raise ProtocolError("a password is wanted")
        return fields

    def _serve_known(self, stream: Any) -> None:
        key = (secrets.randbits(31), secrets.randbits(31))
        parts = [message(b"R", struct.pack(">i", 0))]
        known = settings()
        parts += [message(b"S", text(name), text(known[name.lower()])) for name in SAID]
        self.request.sendall(b"".join([*parts, message(b"K", struct.pack(">ii", *key))]))
        self.request.settimeout(None)
        server = self.server
        session = Session(server.ws, stream, self.request.sendall, server.settings)
        server.sessions[key] = session, self.request
        try:
            session.run()
        finally:
            del server.sessions[key]


def _has_gone(client: socket.socket) -> bool:
    """Return whether a client will say nothing more."""
    waiting = select.poll()
    try:
        waiting.register(client, select.POLLRDHUP)
    except ValueError:  # it is closed
        return True
    return bool(waiting.poll(0))
