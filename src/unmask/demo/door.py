"""The filter of requests: those that the page makes, to allowed host names, of a modest size.

Gradio serves more than this page has a use for, such as files of other hosts and links that it
writes to the disk. The door stands outside all of it, and knows nothing of questions.
"""

import ipaddress
import re
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unmask.demo import failures
from unmask.errors import UnmaskError
from unmask.printable import quoted

LARGEST_BODY = 64_000
_API = "/gradio_api"
_STREAM = f"{_API}/queue/data"
_PATHS = {
    *("/", "/config", "/favicon.ico", "/manifest.json", "/robots.txt", "/theme.css"),
    *(f"{_API}/{name}" for name in ("app_id", "info", "run/predict", "startup-events")),
    *(f"{_API}/{name}" for name in ("queue/data", "queue/join", "theme.css")),
}
_FOLDERS = ("/assets/", "/static/", "/svelte/", f"{_API}/heartbeat/")

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:\[\]@,/*]+)(?::\d*)?")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

_REPLIES = {
    404: "There is nothing here.",
    413: f"The demo takes up to {LARGEST_BODY // 1000} kB.",
    421: "The demo does not answer to this host name; its owner can allow it.",
    500: "Something failed. The demo is still running.",
}


class Hosts:
    """The host names of a demo, with any port.

    A site elsewhere can make a name of its own point to this machine, and would then be answered
    as if it were the page (DNS rebinding). It cannot do so with an address: where the demo listens
    on all of them, any will do.
    """

    def __init__(self, listens: str, also: Iterable[str] = ()) -> None:
        named = (*_LOOPBACK, listens.strip("[]"), *(check_host_name(name) for name in also))
        self._known = {_normal(name) for name in named}
        self._any_address = listens.strip("[]") in ("0.0.0.0", "::", "")
        if self._any_address:
            self._known.add(_normal(socket.gethostname()))

    def answer_to(self, header: str) -> bool:
        """Whether a Host header names this demo."""
        match = _HOST.fullmatch(header.strip().lower())
        if not match:
            return False
        name = _normal(match[1].strip("[]"))
        return name in self._known or (self._any_address and _address(name) is not None)


def check_host_name(name: str) -> str:
    """Reject what no Host header can name."""
    match = _HOST.fullmatch(name.lower())
    if not match or match[1] != name.lower():
        raise UnmaskError(
            f"an allowed host is a name without a port, not {quoted(name)}: write it as "
            "demo.example.org"
        )
    return name.strip("[]")


def _normal(name: str) -> str:
    return _address(name) or name.lower().rstrip(".")


def _address(name: str) -> str | None:
    with suppress(ValueError):
        return ipaddress.ip_address(name).compressed
    return None


class RequestFilter:
    """The outermost middleware: answers what the page does not ask for, and lets in the rest."""

    def __init__(self, app: ASGIApp, hosts: Hosts) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or reply in one line why not."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            # the page has no use for web sockets
            await send({"type": "websocket.close", "code": 1008})
        elif status := self._rejected(scope):
            await _say(receive, send, status)
        else:
            await self._pass_on(scope, receive, send)

    def _rejected(self, scope: Scope) -> int | None:
        headers, path = Headers(scope=scope), scope["path"]
        host, length = (headers.getlist(name) for name in ("host", "content-length"))
        if len(host) != 1 or not self._hosts.answer_to(host[0]):
            return 421
        if length and not _is_modest(length):
            return 413
        is_there = path in _PATHS or (path.startswith(_FOLDERS) and ".." not in path)
        return None if is_there else 404

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count what comes, and complete a reply that is not whole."""
        size, has_begun, is_whole = 0, False, False

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            return message if size <= LARGEST_BODY else {"type": "http.disconnect"}

        async def passed(message: Message) -> None:
            nonlocal has_begun, is_whole
            # the reply to a request that is too large no longer matters, unless it has begun
            if size <= LARGEST_BODY or has_begun:
                has_begun = True
                await send(message)
                is_whole = message["type"] == "http.response.body" and not message.get("more_body")

        if scope["path"] != _STREAM:
            # a link's question is read by the page; Python would remember the addresses requested
            scope = {**scope, "query_string": b""}
        failures.of_the_demo.set(True)
        try:
            await self._app(scope, counted, passed)
        except Exception as error:
            if size <= LARGEST_BODY:
                failures.say("answer a request", error)
        if not has_begun:
            await _say(receive, send, 500 if size <= LARGEST_BODY else 413)
        elif not is_whole:
            with suppress(Exception):
                # a length was promised; the server closes the connection
                await send({"type": "http.response.body", "body": b""})


async def _say(receive: Receive, send: Send, status: int) -> None:
    # what may still come is not read
    headers = {"x-content-type-options": "nosniff", "connection": "close"}
    reply = PlainTextResponse(f"{_REPLIES[status]}\n", status, headers)
    await reply({"type": "http"}, receive, send)


def _is_modest(lengths: Sequence[str]) -> bool:
    (length, *others) = lengths
    plain = not others and len(length) < 20 and length.isdigit()
    return plain and int(length) <= LARGEST_BODY
