"""`unmask demo`: a page in the browser about one model."""

from dataclasses import dataclass

from unmask.cli import options
from unmask.cli.command import option
from unmask.errors import UnmaskError

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, kw_only=True)
class DemoCommand(options.TableOptions):
    """A page in the browser about one model."""

    SUMMARY = "serve a web page on what one joint adds to two guesses"
    DESCRIPTION = (
        "Write a text with two blanks into the page, and see what fills them by two separate "
        "guesses and by one joint, and how far to trust it. By default it listens on this machine "
        "only, and it sends nothing anywhere. Ctrl+C stops it. Needs the extra demo."
    )
    EXAMPLE = "unmask demo -m bert-base-cased --open"

    host: str = option("address to listen on (default: {default})", default="127.0.0.1")
    port: int | None = option("port to listen on (default: the first free one from 7860 on)")
    open: bool = option("open the page in a browser on this machine", default=False)

    def run(self) -> int:
        """Load the model, serve the page, and wait for an interrupt."""
        if self.port is not None and not 1 <= self.port <= 65_535:
            raise UnmaskError(f"--port takes a number from 1 to 65535, not {self.port}")
        settings = self.settings()
        lm = self.source().load()
        from unmask.demo import serve

        with serve(
            lm, host=self.host, port=self.port, open_browser=self.open, settings=settings
        ) as demo:
            print(f"{lm.name}: {demo.address} (Ctrl+C ends it)", flush=True)
            if self.host.strip("[]") not in _LOOPBACK:
                options.say(f"everyone who can reach {self.host} can use this page and its model")
            demo.wait()
        return 0
