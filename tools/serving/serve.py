"""`ivm serve FILE`: a store for clients of PostgreSQL, until Ctrl-C ends it."""

import argparse
import os
import ssl
import sys
from contextlib import suppress
from typing import Literal

import ivm
from ivm import IvmError

from ..cli.answers import answer, common, number
from .postgres.server import Server, Settings

LOOPBACK = ("127.0.0.1", "localhost", "::1")
PASSWORD = "IVM_PASSWORD"  # the variable that has the password


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="where to listen; beyond this machine it takes a password",
    )
    parser.add_argument(
        "--port", type=number, default=5432, help="the port to listen at; 0 is any that is free"
    )
    parser.add_argument(
        "--tls", nargs=2, metavar=("CERTIFICATE", "KEY"), help="files of TLS, which is then wanted"
    )
    parser.add_argument("--read-only", action="store_true", help="edits are refused")


def run(options: argparse.Namespace) -> int:
    """Serve, and print the address; return the exit code."""
    password = os.environ.get(PASSWORD)
    if options.host not in LOOPBACK and not password:
        raise IvmError(f"{options.host} is not this machine alone: give a password in {PASSWORD}")
    tls = None
    if options.tls:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            tls.load_cert_chain(*options.tls)
        except (OSError, ssl.SSLError) as error:
            raise IvmError(
                f"{' and '.join(options.tls)} are no certificate and key: {error}"
            ) from None
    mode: Literal["r", "rw"] = "r" if options.read_only else "rw"
    with (
        ivm.open(options.file, mode=mode, create=False, timeout=5.0) as ws,
        _listening(ws, options.host, options.port, Settings(password, tls)) as server,
        suppress(KeyboardInterrupt),
    ):
        host, port = server.server_address[:2]
        url = f"postgresql://ivm@{host!s}:{port}/ivm"
        answer(options, {"url": url}, f"{url}\npsql and any client of PostgreSQL; Ctrl-C ends")
        sys.stdout.flush()
        server.serve_forever()
    return 0


def _listening(ws: ivm.Workspace, host: str, port: int, settings: Settings) -> Server:
    try:
        return Server(ws, host, port, settings)
    except OSError as error:
        raise IvmError(f"{host}:{port}: {error.strerror}: choose another --port") from None
