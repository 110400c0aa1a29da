"""`unmask demo`: a page in the browser about one model."""

import argparse
from contextlib import suppress

from unmask.cli import options
from unmask.errors import UnmaskError

SUMMARY = "serve a web page where you blank words by clicking on them"
DESCRIPTION = (
    "Serve a web page for a model: type a text, click on the words to blank, and see what fills "
    "them together according to several constructions, with heat maps and how far to trust them. "
    "By default it listens on this machine only. It sends nothing anywhere, and keeps nothing "
    "that visitors write, neither on disk nor in memory. Ctrl+C stops it. Needs the extra demo."
)
EXAMPLE = "unmask demo -m bert-base-cased --open"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    add = parser.add_argument
    options.add_model(parser)
    add(
        "--method",
        action="append",
        metavar="NAME",
        help="methods that are selected at first; separate several with commas (default: "
        "mlm,log-pool)",
    )
    add("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)")
    add(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="host name that the page answers to, in addition to localhost and --host, such as "
        "that of a proxy; repeat the option for several",
    )
    add("--port", type=int, help="port to listen on (default: the first free one from 7860 on)")
    add("--open", action="store_true", help="open the page in a browser on this machine")
    add(
        "--max-passes",
        type=int,
        default=500,
        metavar="N",
        help="most forward passes for estimating two blanks over a large vocabulary (default: 500)",
    )
    add(
        "--max-waiting",
        type=int,
        default=8,
        metavar="N",
        help="how many answers may be computed or waiting at a time; further requests are "
        "rejected (default: 8)",
    )
    options.add_running(parser)


def run(chosen: argparse.Namespace) -> int:
    """Load the model, serve the page, and wait for an interrupt."""
    _check(chosen)
    # a missing library is reported before a model is loaded
    from unmask.demo.library import gradio

    gradio()
    methods = options.methods(chosen, "mlm,log-pool")
    settings = options.settings(chosen, progress=False)
    from unmask.demo.door import Hosts
    from unmask.demo.question import check_methods
    from unmask.demo.serving import check_place
    from unmask.settings import Sketch

    check_methods(methods)
    Sketch(passes=chosen.max_passes)
    Hosts(chosen.host, chosen.allow_host)
    check_place(chosen.host, chosen.port)
    lm = options.load_model(chosen)
    from unmask.demo import Limits, serve

    limits = Limits(chosen.max_waiting, chosen.max_passes)
    with serve(
        lm,
        host=chosen.host,
        port=chosen.port,
        allow_hosts=chosen.allow_host,
        methods=methods,
        settings=settings,
        limits=limits,
        open_browser=chosen.open,
    ) as demo:
        print(f"{lm.name}: {demo.address} (Ctrl+C ends it)", flush=True)
        if chosen.host.strip("[]") not in _LOOPBACK:
            options.say(f"everyone who can reach {chosen.host} can use this page and its model")
        with suppress(KeyboardInterrupt):
            # that is how it is meant to end
            demo.wait()
    return 0


def _check(chosen: argparse.Namespace) -> None:
    if chosen.port is not None and not 1 <= chosen.port <= 65_535:
        raise UnmaskError(f"--port takes a number from 1 to 65535, not {chosen.port}")
    if chosen.max_waiting < 1:
        raise UnmaskError(f"--max-waiting takes a number from 1, not {chosen.max_waiting}")
