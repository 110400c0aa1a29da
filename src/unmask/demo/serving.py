"""A demo from a model to an address, and to its end."""

import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import unmask
from unmask.demo import page
from unmask.demo.examples import Example, examples_for
from unmask.demo.library import gradio
from unmask.demo.question import DEFAULT_METHODS, Question, check_methods
from unmask.demo.visits import Visits
from unmask.errors import UnmaskError

# exact joints of a larger vocabulary take minutes on a CPU
_MOST_PASSES = 20_000
FEW, SOME = 100, 300


@dataclass(frozen=True)
class Limits:
    """What visitors may ask of the machine.

    `queue` is how many questions may wait, `exact` how many exact answers may be computed or wait
    for it, `passes` the most forward passes of one.
    """

    queue: int = 16
    exact: int = 4
    passes: int = _MOST_PASSES


class Demo:
    """A page that is served; `close` ends it."""

    def __init__(self, blocks: Any, address: str) -> None:
        self._blocks, self.address = blocks, address

    def wait(self) -> None:
        """Until the process is interrupted."""
        try:
            while True:
                time.sleep(3600)
        finally:
            self.close()

    def close(self) -> None:
        """End the server."""
        self._blocks.close(verbose=False)

    def __enter__(self) -> "Demo":
        """The demo itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the server."""
        self.close()


def serve(
    lm: unmask.LanguageModel,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    methods: Sequence[str] = DEFAULT_METHODS,
    settings: unmask.Settings | None = None,
    limits: Limits | None = None,
    open_browser: bool = False,
) -> Demo:
    """Serve a page about a model, on this machine alone unless `host` says otherwise.

    `port` is the first free one from 7860 on, unless given. Nothing is sent anywhere, and nothing
    that visitors write is kept.
    """
    check_methods(methods)
    bounds = limits or Limits()
    examples = examples_for(lm)
    choices = candidate_choices(lm.model.vocabulary_size, bounds.passes)
    default = _first_question(examples, methods, choices[0][1])
    visits = Visits(
        lm, settings=settings or unmask.Settings(), default=default, places=bounds.exact
    )
    visits.warm_up(examples[0].question(default))
    blocks = page.build(visits, examples=examples, candidates=choices, queue=bounds.queue)
    return _launched(blocks, host, port, open_browser)


def candidate_choices(vocabulary_size: int, most_passes: int) -> list[tuple[str, int]]:
    """How many candidates a blank may have, the default first."""
    few = [
        (f"{count:,} likeliest (about {2 * count:,} forward passes)", count)
        for count in (SOME, FEW)
        if count < vocabulary_size and 2 * count + 1 <= most_passes
    ]
    passes = 2 * vocabulary_size + 1
    whole = [(f"whole vocabulary ({passes:,} forward passes)", 0)] if passes <= most_passes else []
    if not whole and not few:
        raise UnmaskError(
            f"an exact answer over {FEW} candidates takes {2 * FEW + 1} forward passes, more than "
            f"the limit of {most_passes}: raise the limit"
        )
    return [*whole, *few]


def _first_question(
    examples: Sequence[Example], methods: Sequence[str], candidates: int
) -> Question:
    """The first example with nothing blank: the first click is the visitor's."""
    return Question(examples[0].text, (), tuple(methods), candidates)


def _launched(blocks: Any, host: str, port: int | None, open_browser: bool) -> Demo:
    gr = gradio()
    try:
        _, address, _ = blocks.launch(
            server_name=host,
            server_port=port,
            inbrowser=open_browser,
            # said outright: a variable of the environment must not open the page to the world
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
            max_file_size=1,
            **page.look(gr),
        )
    except (OSError, socket.gaierror) as error:
        where = host if port is None else f"{host}:{port}"
        raise UnmaskError(
            f"cannot serve at {where}: {error}; choose another --port or --host"
        ) from None
    return Demo(blocks, address)
