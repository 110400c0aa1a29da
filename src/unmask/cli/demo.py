"""`unmask demo`: a page in the browser about one model."""

from contextlib import suppress
from dataclasses import dataclass

from unmask.cli import options
from unmask.cli.command import group, option
from unmask.errors import UnmaskError
from unmask.names import DEFAULT_METHOD

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, kw_only=True)
class DemoCommand:
    """A page in the browser about one model."""

    SUMMARY = "serve a web page where you blank words by clicking on them"
    DESCRIPTION = (
        "Serve a web page for a model: type a text, click on the words to blank, and see what "
        "fills them together according to several constructions, with heat maps and how far to "
        "trust them. By default it listens on this machine only. It sends nothing anywhere, and "
        "keeps nothing that visitors write, neither on disk nor in memory. Ctrl+C stops it. Needs"
        " the extra demo."
    )
    EXAMPLE = "unmask demo -m bert-base-cased --open"

    model: str = options.MODEL()
    method: tuple[str, ...] = option(
        "methods that are selected at first; separate several with commas (default: {default})",
        "NAME",
        default=("mlm", DEFAULT_METHOD),
    )
    host: str = option("address to listen on (default: {default})", default="127.0.0.1")
    allow_host: tuple[str, ...] = option(
        "host name that the page answers to, in addition to localhost and --host, such as that of "
        "a proxy; repeat the option for several",
        "NAME",
        default=(),
    )
    port: int | None = option("port to listen on (default: the first free one from 7860 on)")
    open: bool = option("open the page in a browser on this machine", default=False)
    max_passes: int = option(
        "most forward passes of an estimate (default: {default})", "N", default=500
    )
    max_waiting: int = option(
        "how many answers may be computed or waiting at a time; further requests are rejected "
        "(default: {default})",
        "N",
        default=8,
    )
    running: options.Running = group(options.Running())

    def run(self) -> int:
        """Load the model, serve the page, and wait for an interrupt."""
        self._check()
        # a missing library is reported before a model is loaded
        from unmask.demo.library import gradio

        gradio()
        methods = options.methods(self.method)
        settings = self.running.settings(progress=False)
        from unmask.demo.door import Hosts
        from unmask.demo.question import check_methods
        from unmask.demo.serving import check_place
        from unmask.settings import Sketch

        check_methods(methods)
        Sketch(max_passes=self.max_passes)
        Hosts(self.host, self.allow_host)
        check_place(self.host, self.port)
        lm = self.running.load(self.model)
        from unmask.demo import Limits, serve

        limits = Limits(self.max_waiting, self.max_passes)
        with serve(
            lm,
            host=self.host,
            port=self.port,
            allow_hosts=self.allow_host,
            methods=methods,
            settings=settings,
            limits=limits,
            open_browser=self.open,
        ) as demo:
            print(f"{lm.name}: {demo.address} (Ctrl+C ends it)", flush=True)
            if self.host.strip("[]") not in _LOOPBACK:
                options.say(f"everyone who can reach {self.host} can use this page and its model")
            with suppress(KeyboardInterrupt):
                # that is how it is meant to end
                demo.wait()
        return 0

    def _check(self) -> None:
        if self.port is not None and not 1 <= self.port <= 65_535:
            raise UnmaskError(f"--port takes a number from 1 to 65535, not {self.port}")
        if self.max_waiting < 1:
            raise UnmaskError(f"--max-waiting takes a number from 1, not {self.max_waiting}")
