"""A demo from a model to an address, and to its end."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import unmask
from unmask.demo import forgetting, page
from unmask.demo.door import Hosts, RequestFilter
from unmask.demo.examples import examples_for
from unmask.demo.handlers import Handlers
from unmask.demo.library import gradio
from unmask.demo.question import DEFAULT_METHODS, DemoQuestion, check_methods
from unmask.errors import UnmaskError
from unmask.printable import printable, quoted


@dataclass(frozen=True)
class Limits:
    """What the machine does for visitors, at most.

    `waiting` is how many answers may be computed or wait for it, `passes` the forward passes of two
    blanks that are estimated; other answers take some thousand.
    """

    waiting: int = 8
    # with more, the error bars of a flat distribution take seconds and some hundred MB
    passes: int = 500


class Demo:
    """A page that is served; `close` ends it."""

    def __init__(self, blocks: Any, handlers: Handlers, address: str) -> None:
        self._blocks, self._handlers, self.address = blocks, handlers, address

    def wait(self) -> None:
        """Until the process is interrupted."""
        try:
            while True:
                time.sleep(3600)
        finally:
            self.close()

    def close(self) -> None:
        """End the server, and running computations at their next batch."""
        self._handlers.close()
        self._blocks.close(verbose=False)

    def __enter__(self) -> "Demo":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(
    lm: unmask.LanguageModel,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    allow_hosts: Sequence[str] = (),
    methods: Sequence[str] = DEFAULT_METHODS,
    settings: unmask.Settings | None = None,
    limits: Limits | None = None,
    open_browser: bool = False,
) -> Demo:
    """Serve a page about a model, on this machine alone unless `host` says otherwise.

    `port` is the first free one from 7860 on, unless given. `allow_hosts` are names, besides
    `host`, that it answers to, such as that of a proxy. Nothing is sent anywhere, and nothing
    that visitors write is kept once it is answered: neither on disk, nor in memory, nor in a log.
    """
    check_methods(methods)
    check_place(host, port)
    hosts = Hosts(host, allow_hosts)
    bounds = limits or Limits()
    examples = examples_for(lm)
    # nothing is blank: the first click is the visitor's
    default = DemoQuestion(examples[0].text, (), tuple(methods))
    handlers = Handlers(
        lm,
        settings=settings or unmask.Settings(),
        sketch=unmask.Sketch(max_passes=bounds.passes),
        default=default,
        places=bounds.waiting,
    )
    handlers.warm_up(replace(default, chosen=examples[0].chosen))
    blocks = page.build(handlers, examples=examples)
    try:
        address = _launched(blocks, hosts, host, port, open_browser)
    except Exception as error:
        # Gradio passes on any error of the server, a proxy or a port
        handlers.close()
        blocks.close(verbose=False)
        message = printable(str(error).strip().split("\n")[0])
        raise UnmaskError(f"cannot serve the page at {quoted(host)}: {message}") from None
    return Demo(blocks, handlers, address)


def check_place(host: str, port: int | None) -> None:
    """Reject an address that nobody can listen on; Gradio would try a hundred ports of it."""
    try:
        addresses = socket.getaddrinfo(host.strip("[]"), port or 0, type=socket.SOCK_STREAM)
        kind, *_, where = addresses[0]
        with socket.socket(kind) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(where)
    except (OSError, UnicodeError) as error:
        shown = quoted(host if port is None else f"{host}:{port}")
        why = printable(getattr(error, "strerror", None) or str(error))
        raise UnmaskError(f"cannot listen on {shown}: {why}; choose another host or port") from None


def _launched(blocks: Any, hosts: Hosts, host: str, port: int | None, open_browser: bool) -> str:
    """The address of the page."""

    @asynccontextmanager
    async def while_served(app: Any) -> AsyncIterator[None]:
        # outside what Gradio has put around it; an option of Gradio's would put it inside
        app.middleware_stack = RequestFilter(app.middleware_stack, hosts)
        forgetting.forget_pages(blocks)
        sweeping = asyncio.create_task(forgetting.forget_answers(blocks._queue))
        yield
        sweeping.cancel()

    _, address, _ = blocks.launch(
        # an IPv6 address is in brackets, as in a link
        server_name=f"[{host}]" if ":" in host and "[" not in host else host,
        server_port=port,
        inbrowser=open_browser,
        # explicit: an environment variable must not open the page to the world
        share=False,
        prevent_thread_lock=True,
        quiet=True,
        show_error=False,
        enable_monitoring=False,
        mcp_server=False,
        ssr_mode=False,
        pwa=False,
        run_history=False,
        footer_links=["gradio"],
        # nothing here takes files
        max_file_size=0,
        app_kwargs={"lifespan": while_served},
        **page.look(gradio()),
    )
    return str(address)
