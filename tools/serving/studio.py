"""`ivm studio FILE`: a page in the browser over a store, for this machine, until Ctrl-C."""

import argparse
import secrets
import socket
import sys
import webbrowser

from ivm import IvmError

from ..cli.answers import answer, common, number

HOST = "127.0.0.1"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common(parser)
    parser.add_argument(
        "--port", type=number, default=0, help="the port to listen at; by default any that is free"
    )
    parser.add_argument(
        "--read-only", action="store_true", help="edits are previewed, and never committed"
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser, too")


def run(options: argparse.Namespace) -> int:
    """Serve the page, and print its address; return the exit code."""
    try:
        import uvicorn

        from .web import application
    except ImportError as error:
        raise IvmError(
            f"{error.name} is not installed: pip install 'pagestore-ivm[studio]'"
        ) from None
    from .inspection import Inspector
    from .mcp import end, end_at_once

    inspector, token = Inspector(options.file, not options.read_only), secrets.token_urlsafe(24)
    try:
        with _bound(options.port) as listening:
            port = listening.getsockname()[1]
            url = f"http://{HOST}:{port}/{token}/"
            answer(
                options,
                {"url": url},
                f"{url}\nwhoever has this address can use the store; Ctrl-C ends",
            )
            sys.stdout.flush()
            if options.open:
                webbrowser.open(url)
            config = uvicorn.Config(
                application(inspector, token, port),
                log_level="critical",
                access_log=False,
                server_header=False,
                lifespan="off",
                timeout_graceful_shutdown=0,
            )
            server = uvicorn.Server(config)
            server.handle_exit = end  # type: ignore[method-assign]
            end_at_once()
            server.run(sockets=[listening])
    finally:
        inspector.close()
    return 0


def _bound(port: int) -> socket.socket:
    """Return a socket that listens at a port of this machine, 0 for any.  Raises IvmError."""
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        raise IvmError(
            f"port {port} of {HOST} cannot be used: {error.strerror}; choose another with --port"
        ) from None
    except OverflowError:
        raise IvmError(f"--port {port}: ports are numbers up to 65535") from None
