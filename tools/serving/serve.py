"""`ivm serve FILE`: a store for clients of PostgreSQL and MySQL, until Ctrl-C ends it."""

import argparse
import os
import ssl
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from math import inf
from typing import Any, Literal, TypeVar

import ivm
from ivm import IvmError

from ..cli.answers import answer, common, number
from ..cli.workspace_options import on_tick, ticking
from .clients import ROWS_MOST, Settings
from .postgres.server import Server

LOOPBACK = ("127.0.0.1", "localhost", "::1")
Listening = TypeVar("Listening")
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
        "--mysql",
        type=number,
        metavar="PORT",
        help="clients of MySQL are served, too, at this port",
    )
    parser.add_argument(
        "--tls", nargs=2, metavar=("CERTIFICATE", "KEY"), help="files of TLS, which is then wanted"
    )
    parser.add_argument(
        "--files",
        action="store_true",
        help="statements may read and write files of this machine: COPY, FROM 'a.parquet'",
    )
    parser.add_argument("--read-only", action="store_true", help="edits are refused")
    parser.add_argument(
        "--rows",
        type=_some,
        default=ROWS_MOST,
        help="the most rows of answers that one client may hold (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds", type=_some, help="the longest that one statement may take (default: no limit)"
    )
    parser.add_argument(
        "--memory",
        type=_some,
        metavar="BYTES",
        help="the most memory that the rows of one statement may take "
        "(default: a quarter of the machine's)",
    )
    on_tick(parser)


def run(options: argparse.Namespace) -> int:
    """Serve, and print the address; return the exit code."""
    password = os.environ.get(PASSWORD)
    if options.host not in LOOPBACK and not password:
        raise IvmError(f"{options.host} is not this machine alone: give a password in {PASSWORD}")
    if options.read_only and options.tick:
        raise argparse.ArgumentError(None, "--tick commits, which --read-only leaves out: take one")
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
    settings = Settings(password, tls, options.rows, options.seconds or inf)
    with ExitStack() as stack:
        ws = stack.enter_context(
            ivm.open(options.file, mode=mode, create=False, timeout=5.0, memory=options.memory)
        )
        ws.files_allowed = options.files
        server = _listening(lambda: Server(ws, options.host, options.port, settings), options.port)
        stack.enter_context(server)
        urls = {"url": f"postgresql://ivm@{options.host}:{server.server_address[1]}/ivm"}
        if options.mysql is not None:
            mysql = _mysql(ws, options, settings)
            stack.callback(mysql.close)
            urls["mysql"] = f"mysql://ivm@{options.host}:{mysql.port}/ivm"
        stack.enter_context(ticking(ws, options.tick))
        stack.enter_context(suppress(KeyboardInterrupt))
        lines = "\n".join(urls.values())
        answer(options, urls, f"{lines}\npsql and any client of these; Ctrl-C ends")
        sys.stdout.flush()
        server.serve_forever()
    return 0


def _some(text: str) -> int:
    """Parse a limit.  Raises argparse.ArgumentTypeError."""
    if not (count := number(text)):
        raise argparse.ArgumentTypeError("0 allows nothing: a number from 1 on is wanted")
    return count


def _mysql(ws: ivm.Workspace, options: argparse.Namespace, settings: Settings) -> Any:
    """Serve clients of MySQL.  Raises IvmError."""
    try:
        from .mysql.server import Server as OfMysql
    except ModuleNotFoundError as error:
        raise IvmError(f"--mysql wants {error.name}: pip install 'pagestore-ivm[serve]'") from None
    return _listening(lambda: OfMysql(ws, options.host, options.mysql, settings), options.mysql)


def _listening(listen: Callable[[], Listening], port: int) -> Listening:
    """Return what listens at a port.  Raises IvmError."""
    try:
        return listen()
    except OSError as error:
        raise IvmError(f"port {port} cannot be used: {error.strerror}: choose another") from None
    except OverflowError:
        raise IvmError(f"port {port}: ports are numbers up to 65535") from None
