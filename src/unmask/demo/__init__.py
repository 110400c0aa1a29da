"""A page in the browser: two separate guesses for two blanks, and beside them one joint.

Made of Gradio's public interface. A visitor gets one answer at a time, of a short text over a
sketch of the vocabulary, so that what a question may cost is bounded. All texts and tokens are
escaped, and nothing that a visitor writes is logged or kept by this module.
"""

import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from typing import Any

import unmask
from unmask.constructions import DEFAULT_METHOD
from unmask.errors import ClozeError, UnmaskError
from unmask.markup import html
from unmask.names import model_name
from unmask.printable import printable, quoted
from unmask.queries.joint_model import read_cloze
from unmask.text.unknown_tokens import check_known, described

EXAMPLES = (
    "The [MASK] [MASK] at the casino.",
    "Two [MASK] are playing [MASK] on the beach.",
    "A man is [MASK] a [MASK] in the park.",
)
# what a page has room for, and a machine that others use too
LONGEST_TEXT, FILLS, MAX_PASSES, MOST_WAITING = 400, 5, 500, 8
# a vocabulary of so few tokens is run whole: a sketch would take as many forward passes
_SMALL = 500
# what people write for a blank besides the model's own mask token
_BLANK = re.compile(r"\[MASK\]|<mask>|_{2,}")
# smaller errors are rounded up: 0.000 would mean that there is none
_LEAST_ERROR = 1e-3
# this machine's own names
_LOCAL = ("127.0.0.1", "localhost")
_SETTINGS = unmask.Settings(progress=False, announce=False)
_STYLE = """
.unmask { display: flex; flex-wrap: wrap; gap: 1rem; overflow-wrap: anywhere; }
.unmask section { flex: 1 1 16rem; min-width: 0; }
.unmask table { width: 100%; table-layout: fixed; border-collapse: collapse; }
.unmask td { padding: .15rem .3rem; border: 0; vertical-align: top; }
.unmask td:last-child { width: 9rem; text-align: right; }
.unmask meter { width: 4rem; }
"""


def serve(
    lm: unmask.LanguageModel,
    *,
    host: str = "127.0.0.1",
    port: int | None = None,
    open_browser: bool = False,
    settings: unmask.Settings = _SETTINGS,
) -> "Demo":
    """Serve a page about a model, on this machine alone unless `host` says otherwise.

    Args:
        lm: The model.
        host: Address to listen on; the page has no password.
        port: Port to listen on. Default: the first free one from 7860 on.
        open_browser: Whether to open the page on this machine.
        settings: How to run the model.
    Returns:
        The page, whose `address` a browser opens, and which `close` ends.
    Raises:
        UnmaskError: Gradio is missing, or nobody can listen there.
    """
    blocks = _page(lm, settings)
    try:
        # Gradio would try a hundred ports of an address that nobody can listen on
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        socket.create_server((host.strip("[]"), port or 0), family=family).close()
        _, address, _ = blocks.launch(
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
            app_kwargs=_guard(host),
            theme=_gradio().themes.Base(
                # fonts that the visitor's machine has: the page loads nothing from elsewhere
                font=["system-ui", "sans-serif"],
                font_mono=["monospace"],
            ),
            css=_STYLE,
        )
    except Exception as error:
        # Gradio passes on any error of the server or of a port
        blocks.close(verbose=False)
        message = printable(str(error).strip().split("\n")[0])
        raise UnmaskError(f"cannot serve the page at {quoted(host)}: {message}") from None
    return Demo(blocks, str(address))


class Demo(AbstractContextManager["Demo"]):
    """A page that is served; `close` ends it."""

    def __init__(self, blocks: Any, address: str) -> None:
        self._blocks, self.address = blocks, address

    def wait(self) -> None:
        """Serve until the process is interrupted, which is how it is meant to end."""
        with suppress(KeyboardInterrupt):
            threading.Event().wait()
        self.close()

    def close(self) -> None:
        """End the server."""
        self._blocks.close(verbose=False)

    def __exit__(self, *_: object) -> None:
        self.close()


def answer(lm: unmask.LanguageModel, text: object, settings: unmask.Settings = _SETTINGS) -> str:
    """The answer to what a visitor wrote, as HTML; an error is one line of it."""
    try:
        return "".join(_answer(lm, _checked(lm, text), settings))
    except UnmaskError as error:
        return f'<p role="alert">{html(" ".join(str(error).split()))}</p>'


def _checked(lm: unmask.LanguageModel, text: object) -> str:
    """The text with the model's own masks; others than the page can send anything."""
    if not isinstance(text, str):
        raise ClozeError("write a text")
    if len(text) > LONGEST_TEXT:
        raise ClozeError(f"the text has {len(text):,} characters; the demo takes {LONGEST_TEXT}")
    mask = lm.tokenizer.mask_token
    written = _BLANK.sub(lambda _: mask, " ".join(text.split()))
    if (blanks := written.count(mask)) != 2:
        raise ClozeError(f"the text has {blanks} blanks; write [MASK] for two of its words")
    return written


def _answer(lm: unmask.LanguageModel, text: str, settings: unmask.Settings) -> Iterator[str]:
    began, cloze = time.monotonic(), read_cloze(lm, text)
    is_small = lm.model.vocabulary_size <= _SMALL
    support: Any = "vocabulary" if is_small else unmask.Sketch(max_passes=MAX_PASSES)
    methods = ["mlm", DEFAULT_METHOD]
    alone, joint = lm.joints(cloze, methods=methods, support=support, settings=settings).values()
    yield '<div class="unmask">'
    yield _fills("Two separate guesses", alone)
    yield _fills(f"One joint ({DEFAULT_METHOD})", joint)
    yield "</div>"
    yield f"<p>{html(_dependence(joint))}</p>"
    if (agreement := joint.agreement()) is not None:
        error = joint.standard_errors()["incompatibility"] if joint.is_sketched() else None
        words = agreement.said(error and max(error, _LEAST_ERROR)).replace("+-", "±")
        yield f"<p>{html(words)}.</p>"
    # on the page, not as a warning, which would put a visitor's text into the log
    if cloze.unknown:
        check_known(lm.tokenizer, cloze.unknown, cloze.ids, "the text")
        yield f"<p>{html(described(lm.tokenizer, cloze.unknown).replace('the', 'The', 1))}</p>"
    passes = joint.diagnostics["forward_passes"]
    yield f"<p>{passes:,} forward passes, {time.monotonic() - began:.1f} s.</p>"


def _fills(title: str, joint: unmask.Joint) -> str:
    """The likeliest fills of a joint, with their probabilities in digits and as bars."""
    rows = "".join(
        f"<tr><td>{html(' '.join(fill.tokens))}</td><td>{fill.probability:.3f} "
        f'<meter aria-hidden="true" value="{fill.probability:.4f}"></meter></td></tr>'
        for fill in joint.top(FILLS)
    )
    return f"<section><h3>{html(title)}</h3><table>{rows}</table></section>"


def _dependence(joint: unmask.Joint) -> str:
    nats = joint.mutual_information()
    if nats < 0.035:
        meaning = "knowing one blank tells little about the other"
    elif nats < 0.35:
        meaning = "the blanks depend on each other, and separate guesses mislead for some pairs"
    else:
        meaning = "the blanks depend on each other strongly, and separate guesses mislead"
    return f"Mutual information {nats:z.3f} nats: {meaning}."


def _page(lm: unmask.LanguageModel, settings: unmask.Settings) -> Any:
    """The page as Gradio's Blocks, with a bounded queue; not yet served."""
    gr = _gradio()
    with gr.Blocks(title="unmask", analytics_enabled=False) as blocks:
        gr.HTML(f"<h2>What {html(model_name(lm.name))} fills in, together</h2>")
        text = gr.Textbox(
            EXAMPLES[0],
            label="Text with two blanks: [MASK], or underscores",
            max_lines=4,
            # the browser takes longer texts, which the answer then rejects in words
            max_length=10 * LONGEST_TEXT,
            elem_id="text",
        )
        button = gr.Button("Fill the blanks", variant="primary", elem_id="fill")
        answer_html = gr.HTML("", elem_id="answer")
        examples = [gr.Button(sentence, size="sm", elem_classes="example") for sentence in EXAMPLES]

        def respond(written: object) -> str:
            return answer(lm, written, settings)

        def take(example: str) -> tuple[str, str]:
            return example, answer(lm, example, settings)

        # one at a time; those who wait beyond the queue's size are told so
        limits = {"concurrency_limit": 1, "concurrency_id": "model", "api_visibility": "private"}
        for begin in (button.click, text.submit):
            begin(respond, [text], [answer_html], **limits)
        for example in examples:
            example.click(take, [example], [text, answer_html], **limits)
    return blocks.queue(max_size=MOST_WAITING, api_open=False)


def _guard(host: str) -> dict[str, Any]:
    """For a page of this machine alone: other host names are refused.

    A malicious site can make a name of its own point to this machine and read the answers.
    """
    if host not in _LOCAL:
        return {}
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    return {"middleware": [Middleware(TrustedHostMiddleware, allowed_hosts=list(_LOCAL))]}


def _gradio() -> Any:
    """The module, set first to send nothing; an error explains how to install it."""
    # read when the module is imported
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    try:
        import gradio
    except ImportError:
        raise UnmaskError("the demo needs Gradio: pip install 'unmask[demo]'") from None
    return gradio
