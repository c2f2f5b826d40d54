"""The pages of `ivm studio`: one page, and calls that answer in JSON what inspection.py says.

    GET  /TOKEN/              the page; its style and its script are next to it
    POST /TOKEN/api/rows      {"name": "edge", "offset": 100}: the arguments of Inspector.rows
    GET  /TOKEN/api/events    the versions of commits, as they are made by any process

Only who knows the token gets an answer, and only a page of this origin may ask: the names in Host
and Origin are compared, so that neither another site nor a name that it points to this machine
reaches the store.
"""

import asyncio
import json
import secrets
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from inspect import get_annotations, signature
from pathlib import Path
from threading import Thread
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ivm import IvmError
from pagestore.errors import PagestoreError
from pagestore.host import Stoppable, Stopped

from ..cli.answers import as_json, spelt
from ..cli.rows import cell
from .inspection import TEXT_MAX, Inspector, bounded

T = TypeVar("T")
PAGE = Path(__file__).parent / "page"
FILES = {"": "index.html", "studio.css": "studio.css", "studio.js": "studio.js"}
ASKED = (
    "overview describe dependencies explain rows statement why why_row history differences branches "
    "merge preview commit"
)
CALLS = {name: getattr(Inspector, name) for name in ASKED.split()}
BODY_MAX = 1 << 20  # bytes
CELL_MAX = 300  # characters of a cell of a table; where a row is shown whole, TEXT_MAX
ALIVE = 15.0  # seconds after which a client without news is asked whether it still listens
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def application(inspector: Inspector, token: str, port: int) -> ASGIApp:
    """Return the ASGI application that shows a store to those who know the token."""
    routes = [Route(f"/{path}", partial(_file, name)) for path, name in FILES.items()]
    routes.append(Route("/api/events", partial(_events, inspector)))
    routes.append(Route("/api/{call}", partial(_call, inspector), methods=["POST"]))
    return Guard(Starlette(routes=[Mount("/{token}", routes=routes)]), token, port)


class Guard:
    """Refuses requests without the token or from another origin, and gives every answer the
    headers of safety.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app, self._token = app, token.encode()
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        if scope["type"] == "http":
            app = self._app if self._is_allowed(scope) else PlainTextResponse("not for you\n", 403)
            await app(scope, receive, safely)

    def _is_allowed(self, scope: Scope) -> bool:
        headers = Headers(scope=scope)
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        given = scope["path"].split("/")[1] if "/" in scope["path"] else ""
        return (
            headers.get("host") in self._hosts
            and (origin is None or origin in {f"http://{host}" for host in self._hosts})
            and site in ("none", "same-origin")
            and secrets.compare_digest(given.encode(), self._token)
        )


async def _file(name: str, _: Request) -> Response:
    return FileResponse(PAGE / name)


async def _call(inspector: Inspector, request: Request) -> Response:
    """Call a method of the inspector with the arguments of the body, an object of JSON."""
    call = CALLS.get(request.path_params["call"])
    if call is None:
        return _failed("there is no such call", 404)
    if request.headers.get("content-type") != "application/json":
        return _failed("the body is JSON, and its Content-Type says so", 415)
    try:
        given = _arguments(call, await _body(request))
        data = await _done(request, partial(call, inspector, **given), call is not Inspector.commit)
    except ClientDisconnect:
        return Response(status_code=499)  # to nobody
    except (ValueError, TypeError) as error:
        return _failed(
            f"wrong arguments: {error}" if not isinstance(error, IvmError) else str(error)
        )
    except (IvmError, PagestoreError, OSError, MemoryError) as error:
        return _failed(str(error) or type(error).__name__)
    except Exception:
        traceback.print_exc()
        return _failed("this failed: the terminal of `ivm studio` says why", 500)
    cell_max = TEXT_MAX if call is Inspector.why_row else CELL_MAX
    return Response(as_json(bounded(data, text_of, cell_max)), media_type="application/json")


async def _done(request: Request, task: Callable[[], T], ends: bool) -> T:
    """Run a task in a thread of its own.  If the client goes meanwhile, raise ClientDisconnect, and
    end the task if it `ends`.
    """
    loop, work = asyncio.get_running_loop(), Stoppable()
    done: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        with suppress(Stopped, RuntimeError):  # the loop may have ended
            try:
                answer = work.run(task)
            except Stopped:
                raise
            except Exception as error:
                loop.call_soon_threadsafe(done.set_exception, error)
            else:
                loop.call_soon_threadsafe(done.set_result, answer)

    Thread(target=run, daemon=True).start()
    gone = asyncio.ensure_future(_gone(request))
    waiting: set[asyncio.Future[Any]] = {done, gone}
    await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    gone.cancel()
    if not done.done() and ends:
        work.stop()
        raise ClientDisconnect
    return await done


async def _gone(request: Request) -> None:
    """Return when the client has gone."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _failed(sentence: str, status: int = 400) -> Response:
    return Response(as_json({"error": sentence[:TEXT_MAX]}), status, media_type="application/json")


async def _body(request: Request) -> bytes:
    """Read the body.  Raises ValueError if it is too long."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > BODY_MAX:
            raise ValueError(f"the body has more than {BODY_MAX:,} bytes")
    return body


def _arguments(call: Any, body: bytes) -> dict[str, Any]:
    """Return the arguments of a call.  Raises ValueError, TypeError."""
    try:
        given = json.loads(body)
    except RecursionError:
        raise ValueError("the body is nested too deep") from None
    if not isinstance(given, dict):
        raise TypeError("an object is wanted")
    signature(call).bind(None, **given)
    types = get_annotations(call)
    for name, value in given.items():
        if not isinstance(value, types[name]) or isinstance(value, bool):
            raise TypeError(f"{name} is not {types[name]}")
    return given


async def _events(inspector: Inspector, _: Request) -> Response:
    return StreamingResponse(_versions(inspector), media_type="text/event-stream")


async def _versions(inspector: Inspector) -> AsyncIterator[str]:
    """Yield an event for the newest version, and for each that a commit makes."""
    with inspector.workspace.store.commits() as commits:
        yield f"data: {commits.version}\n\n"
        waiting = asyncio.ensure_future(anext(commits))
        try:
            while True:
                if (await asyncio.wait({waiting}, timeout=ALIVE))[0]:
                    yield f"data: {waiting.result()}\n\n"
                    waiting = asyncio.ensure_future(anext(commits))
                else:
                    yield ": nothing new\n\n"
        finally:
            waiting.cancel()
            with suppress(asyncio.CancelledError, StopAsyncIteration):
                await waiting


def text_of(value: Any) -> str | None:
    """Return a cell as a text, None for null: numbers too, since JavaScript rounds those of 64
    bits.

    >>> text_of(2**63), text_of(True), text_of(None)
    ('9223372036854775808', 'true', None)
    """
    return None if value is None else spelt(cell(value))
