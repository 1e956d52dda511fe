"""The page as text: the template `page.html` with the data of a run in it. It is the same page live and as a file."""

import asyncio
import hmac
import ipaddress
import json
import re
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from keyspread import checks
from keyspread.errors import ExtraMissingError, InputError
from keyspread.live_page.history import RunHistory

if TYPE_CHECKING:
    from jinja2 import Template


def render(snapshot: dict[str, Any], live: bool = False) -> str:
    """Return the page with this snapshot; a live page also asks its server for news.

    >>> page = render({"title": "</script><script>"})
    >>> page.count("<script"), page.count("</script>")
    (2, 2)
    """
    from markupsafe import Markup

    return _template().render(data=Markup(in_script(snapshot)), live=live)


@lru_cache(maxsize=1)
def _template() -> "Template":
    try:
        from jinja2 import Environment
    except ModuleNotFoundError as error:
        raise ExtraMissingError("a page needs jinja2, which is not installed: pip install 'keyspread[page]'") from error
    source = files("keyspread.live_page").joinpath("page.html").read_text(encoding="utf-8")
    return Environment(autoescape=True, keep_trailing_newline=True).from_string(source)


def in_script(value: Any) -> str:
    r"""Return JSON that is safe inside a script element: nothing in it can end the element.

    >>> in_script({"key": "</script>"})
    '{"key":"\\u003c/script>"}'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


# The server of a live page, in a thread of its own: the page, its events, its data, and the page as a file.
#
# A browser gets the newest snapshot whenever it can take one, and never a queue of old ones. So a browser that is slow
# or gone costs the stream nothing: the stream only hands its batch to the history.


if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

PORT = 4050
"""The first port that is tried; where it is taken, the next ones."""

_TRIED = 50
_LOOK_SECONDS = 0.2  # between two looks for a new batch
_ALIVE_SECONDS = 15.0  # after which a silent connection gets a comment, so that proxies keep it
_MOST_BROWSERS = 100  # that get events; others get the page, which tries again
_MOST_CONNECTIONS = 1000
_TOKEN = re.compile(r"[A-Za-z0-9._~-]*")  # what an address and a cookie hold as it is
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def check_packages(what: str) -> None:
    """Raise an error in one line if starlette or uvicorn is missing."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        name = (error.name or "").split(".")[0]
        if name not in ("starlette", "uvicorn"):
            raise
        raise ExtraMissingError(
            f"{what} needs {name}, which is not installed: pip install 'keyspread[page]'"
        ) from error


def check_access(host: str, token: str | None) -> None:
    """Raise an error if others could read the page without a token."""
    if token is not None and len(token) < 8:
        raise InputError(f"the token of a page must have at least 8 characters, got {len(token)}: choose a longer one")
    if token is not None and not _TOKEN.fullmatch(token):
        raise InputError(
            "the token of a page may have the letters a to z, digits and . _ ~ -, got others: choose another"
        )
    if token is None and not _is_loopback(host):
        raise InputError(
            f"a page at {host} can be read by others: pass a token, or leave the host at 127.0.0.1, which only this "
            "machine reaches"
        )


class LivePage:
    """A page that is being served: `url` is its address, `save` writes it to a file, `close` stops it.

    >>> from urllib.request import urlopen
    >>> page = LivePage(RunHistory("clicks"), port=0)
    >>> urlopen(page.url).read().startswith(b"<!DOCTYPE html>")
    True
    >>> page.close()
    """

    def __init__(
        self, history: RunHistory, host: str = "127.0.0.1", port: int | None = None, token: str | None = None
    ) -> None:
        check_packages("a live page")
        check_access(host, token)
        if port is not None:
            port = checks.whole_number("port", port, minimum=0, maximum=65535)
        import uvicorn

        self._history, self._host, self._token = history, host, token
        self._socket = _listen(host, port)
        self.port = int(self._socket.getsockname()[1])
        """The port on which the server listens."""
        self._closing = False
        self._browsers = 0
        # Cookies do not tell ports apart, and one browser may show two pages.
        self._cookie = f"keyspread_token_{self.port}"
        config = uvicorn.Config(
            self._application(),
            log_level="critical",
            access_log=False,
            lifespan="off",
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_graceful_shutdown=1,
            server_header=False,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="keyspread-page", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """The address to open, with the token if there is one."""
        host = "127.0.0.1" if self._host in ("0.0.0.0", "::", "") else self._host
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{self.port}/" + (f"?token={self._token}" if self._token else "")

    def save(self, path: str) -> None:
        """Write the page as it is now to a file: the report of the run."""
        self._history.save(path)

    def close(self) -> None:
        """Stop the server. Browsers get the last batch first, and connect again when a new server is there."""
        self._closing = True
        self._server.should_exit = True
        self._thread.join(5)
        with suppress(OSError):
            self._socket.close()

    def _application(self) -> Any:
        from starlette.applications import Starlette
        from starlette.routing import Route

        answers: dict[str, Callable[[Request], Awaitable[Response]]] = {
            "/": self._page,
            "/events": self._events,
            "/data.json": self._data,
            "/report.html": self._report,
        }
        return Starlette(
            routes=[Route(path, self._guarded(answer), methods=["GET"]) for path, answer in answers.items()]
        )

    def _guarded(
        self, answer: "Callable[[Request], Awaitable[Response]]"
    ) -> "Callable[[Request], Awaitable[Response]]":
        """Answer only those who may read: with the right token, or, without one, from this machine by its own name."""
        from starlette.responses import PlainTextResponse

        async def answer_if_allowed(request: "Request") -> "Response":
            if self._token is None:
                if not _is_loopback(_host_of(request.headers.get("host", ""))):
                    # Another name for this machine may be an attack by a page of somebody else (DNS rebinding).
                    return PlainTextResponse("Refused: this page has no token, so it is for 127.0.0.1 only.\n", 403)
                return await answer(request)
            given = request.query_params.get("token") or request.cookies.get(self._cookie) or ""
            if not hmac.compare_digest(given.encode(), self._token.encode()):
                return PlainTextResponse("Refused: add ?token=… to the address.\n", 403)
            response = await answer(request)
            # Relative addresses in the page do not have the token: the cookie has.
            response.set_cookie(self._cookie, self._token, httponly=True, samesite="strict")
            return response

        return answer_if_allowed

    async def _page(self, request: "Request") -> "Response":
        from starlette.responses import HTMLResponse

        return HTMLResponse(render(self._history.snapshot(), live=True), headers=_HEADERS)

    async def _report(self, request: "Request") -> "Response":
        from starlette.responses import HTMLResponse

        saved = {**_HEADERS, "Content-Disposition": 'attachment; filename="keyspread-run.html"'}
        return HTMLResponse(render(self._history.snapshot()), headers=saved)

    async def _data(self, request: "Request") -> "Response":
        from starlette.responses import JSONResponse

        return JSONResponse(self._history.snapshot(), headers=_HEADERS)

    async def _events(self, request: "Request") -> "Response":
        from starlette.responses import PlainTextResponse, StreamingResponse

        if self._browsers >= _MOST_BROWSERS:
            return PlainTextResponse(f"{_MOST_BROWSERS} browsers are open; close one.\n", 503)
        # Nginx holds answers back unless it is told not to.
        headers = {**_HEADERS, "X-Accel-Buffering": "no"}
        return StreamingResponse(self._snapshots(), media_type="text/event-stream", headers=headers)

    async def _snapshots(self) -> AsyncIterator[str]:
        """Yield the newest snapshot whenever there is a new one; what a slow browser missed is left out."""
        self._browsers += 1
        try:
            async for text in self._new_snapshots():
                yield text
        finally:
            self._browsers -= 1

    async def _new_snapshots(self) -> AsyncIterator[str]:
        yield "retry: 1000\n\n"
        sent, silent = -1, 0.0
        while True:
            closing = self._closing  # before the look, so that the last batch is sent
            version = self._history.version
            if version != sent:
                sent, silent = version, 0.0
                data = json.dumps(self._history.snapshot(), ensure_ascii=False, separators=(",", ":"))
                yield f"id: {version}\ndata: {data}\n\n"
            elif silent >= _ALIVE_SECONDS:
                silent = 0.0
                yield ": still here\n\n"
            if closing:
                return
            await asyncio.sleep(_LOOK_SECONDS)
            silent += _LOOK_SECONDS


def _listen(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens: on this port, or, without one, on the first free port from `PORT` on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    problem: OSError | OverflowError | None = None
    for number in range(PORT, PORT + _TRIED) if port is None else [port]:
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, number))
            listening.listen(128)
            return listening
        except (OSError, OverflowError) as error:
            listening.close()
            problem = error
    reason = getattr(problem, "strerror", None) or str(problem)
    where = f"{host}:{port}" if port is not None else f"{host}, ports {PORT} to {PORT + _TRIED - 1}"
    raise InputError(f"the page cannot be served at {where} ({reason}): choose another address or port")


def _host_of(header: str) -> str:
    """Return the host of a Host header: '127.0.0.1:4050' → '127.0.0.1', '[::1]:4050' → '::1'."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.rpartition(":")[0] or header


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
