"""The page itself: Gradio's parts, and which handler each of them calls.

What a visitor has chosen is kept by the page in the browser (hidden boxes), not by the server:
there is no session to fill memory, and a link can hold all of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import unmask
from unmask.demo import panels, scripts
from unmask.demo.examples import Example
from unmask.demo.failures import quieten
from unmask.demo.forgetting import plain_values_only
from unmask.demo.handlers import Handlers, Shown
from unmask.demo.library import gradio
from unmask.demo.markup import element
from unmask.demo.markup import text as plain
from unmask.demo.question import LONGEST_TEXT, Question, numbers

# one is computed while another is read and written
_QUICK_AT_ONCE = 2

_QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
# small work that nobody waits for
_AT_ONCE: dict[str, Any] = {"queue": False, **_QUIET}


@dataclass(frozen=True)
class _Parts:
    """The parts of the page that handlers read and write."""

    text: Any
    words: Any
    methods: Any
    candidates: Any
    fill: Any
    cancel: Any
    answered: list[Any]
    link: Any
    before: Any
    chosen: Any
    query: Any
    came_by_link: Any
    behind: Any
    # each with its button
    examples: list[tuple[Example, Any]]

    def state(self) -> list[Any]:
        return [self.words, self.chosen, self.before]

    def everything(self) -> list[Any]:
        return [self.text, *self.state(), self.methods, self.candidates]


def build(
    handlers: Handlers,
    *,
    examples: Sequence[Example],
    candidates: Sequence[tuple[str, int]],
    queue: int,
) -> Any:
    """The page as Gradio's Blocks, with a bounded queue; not yet served."""
    gr = gradio()
    with gr.Blocks(title="unmask", analytics_enabled=False, fill_width=False) as page:
        gr.HTML(panels.page_head(_short_name(handlers.lm.name), handlers.lm.model.vocabulary_size))
        parts = _drawn(gr, handlers, examples, candidates)
        _follow_text(gr, handlers, parts)
        _restore(gr, page, handlers, parts)
        _answer(gr, handlers, parts)
    page.queue(max_size=queue, default_concurrency_limit=_QUICK_AT_ONCE, api_open=False)
    page.process_api = plain_values_only(page.process_api)
    quieten(gr.queueing, gr.routes, gr.route_utils)
    return page


def _short_name(name: str) -> str:
    """A hub name as it is; of a folder the last part, for visitors need not know where it lies."""
    return Path(name).name if Path(name).is_dir() else name


def look(gr: Any) -> dict[str, Any]:
    """How the page looks, with fonts that the visitor's machine has."""
    system = ["system-ui", "-apple-system", "Segoe UI", "Noto Sans", "sans-serif"]
    return {
        "theme": gr.themes.Base(primary_hue="blue", font=system, font_mono=["monospace"]),
        "css": files("unmask.demo").joinpath("style.css").read_text("utf-8"),
    }


def _drawn(
    gr: Any, handlers: Handlers, examples: Sequence[Example], candidates: Sequence[tuple[str, int]]
) -> _Parts:
    default, mask = handlers.default, handlers.offer.mask
    text = gr.Textbox(
        default.text,
        label="Text",
        info=f"Blanks can also be written, as {mask} or as underscores.",
        lines=2,
        max_lines=4,
        # what is beyond it a browser cuts without a word; what is too long for the demo, it says
        max_length=10 * LONGEST_TEXT,
        elem_id="text",
    )
    words = gr.HTML(panels.words(default, mask), js_on_load=scripts.CLICKED, elem_id="words")
    gr.HTML(element("p", plain("Or begin with an example:"), class_="caption"))
    with gr.Row():
        buttons = [gr.Button(one.label(), size="sm", elem_classes="example") for one in examples]
    with gr.Row(equal_height=True):
        methods = gr.CheckboxGroup(
            list(unmask.CONSTRUCTIONS),
            value=list(default.methods),
            label="Constructions",
            elem_id="methods",
            scale=3,
            min_width=300,
        )
        several = gr.Radio(
            list(candidates),
            value=default.candidates,
            label="Candidates per blank",
            elem_id="candidates",
            scale=2,
            min_width=300,
        )
    with gr.Row():
        fill = gr.Button("Fill the blanks", variant="primary", elem_id="fill")
        cancel = gr.Button("Cancel", elem_id="cancel")
    answered = [gr.HTML(panels.line(panels.HINT), elem_id="status")]
    answered += [gr.HTML("", elem_id=name) for name in ("cards", "trust", "picture")]
    link = gr.Textbox(
        "", label="Link to this question", interactive=False, buttons=["copy"], elem_id="link"
    )
    hidden = [gr.Textbox(value, visible="hidden") for value in (default.text, "", "", "", "0")]
    before, chosen, query, came, behind = hidden
    seen = (text, words, methods, several, fill, cancel, answered, link)
    shown = list(zip(examples, buttons, strict=True))
    return _Parts(*seen, before, chosen, query, came, behind, shown)


def _follow_text(gr: Any, handlers: Handlers, parts: _Parts) -> None:
    """Words are those of the text, and blank when they are clicked."""

    def edited(text: str | None, before: str | None, chosen: str | None) -> list[str]:
        return _state(handlers, handlers.edited(text or "", before or "", chosen or ""))

    def clicked(text: str | None, chosen: str | None, event: gr.EventData) -> list[str]:
        word = event._data if isinstance(event._data, dict) else {}
        question = handlers.clicked(text or "", chosen or "", word.get("place"), word.get("word"))
        return _state(handlers, question)

    given, looked = [parts.text, parts.before, parts.chosen], [parts.text, parts.before]
    # not `input`, which a text that is pasted while others are on their way does not always send
    for changed in (parts.text.change, parts.behind.change):
        followed = changed(edited, given, parts.state(), trigger_mode="multiple", **_AT_ONCE)
        behind = ([*looked, parts.behind], [parts.behind])
        followed.then(None, *behind, js=scripts.IF_BEHIND, show_progress="hidden")
    parts.words.click(clicked, [parts.text, parts.chosen], parts.state(), **_AT_ONCE)


def _restore(gr: Any, page: Any, handlers: Handlers, parts: _Parts) -> None:
    """A link asks its question again when it is opened."""
    everything = [*parts.everything(), parts.came_by_link]

    def restored(query: str | None) -> list[Any]:
        found = handlers.restored(query or "")
        # a visitor may already be typing: what no link asks for stays as it is
        return [gr.skip()] * len(everything) if found is None else [*_whole(handlers, found), "yes"]

    page.load(restored, [parts.query], everything, js=scripts.ASKED_BY_LINK, **_AT_ONCE)


def _take_example(handlers: Handlers, parts: _Parts, example: Example, button: Any) -> Any:
    """An example by one click, with the constructions that are chosen; gives what comes then."""

    def taken(methods: list[str] | None, candidates: int) -> list[Any]:
        return _whole(handlers, example.question(_question("", "", methods, candidates)))

    given = [parts.methods, parts.candidates]
    return button.click(taken, given, parts.everything(), **_AT_ONCE).then


def _answer(gr: Any, handlers: Handlers, parts: _Parts) -> None:
    """Quick answers and then exact ones, from every way to ask; and a button to cancel them."""

    # Gradio gives the request by its place among the parameters
    def first(
        text: str, chosen: str, methods: list[str], candidates: int, request: gr.Request
    ) -> list[Any]:
        question = _question(text, chosen, methods, candidates)
        shown = handlers.first_answer(question, _visitor(request))
        return [*_values(shown), question.to_query() if shown.cards else ""]

    def exact(
        text: str, chosen: str, methods: list[str], candidates: int, request: gr.Request
    ) -> Iterator[list[Any]]:
        question = _question(text, chosen, methods, candidates)
        yield from map(_values, handlers.exact_answer(question, _visitor(request)))

    def cancelled(request: gr.Request) -> list[Any]:
        return _values(handlers.cancel(_visitor(request)))

    asked = [parts.text, parts.chosen, parts.methods, parts.candidates]
    begun = [parts.fill.click, parts.text.submit, parts.came_by_link.change]
    begun += [_take_example(handlers, parts, *one) for one in parts.examples]
    for begin in begun:
        quick = begin(
            first,
            asked,
            [*parts.answered, parts.query],
            concurrency_id="quick",
            concurrency_limit=_QUICK_AT_ONCE,
            show_progress="minimal",
            api_visibility="private",
        )
        address = ([parts.query], [parts.link])
        quick.then(None, *address, js=scripts.INTO_ADDRESS, show_progress="hidden")
        quick.success(
            exact,
            asked,
            parts.answered,
            concurrency_id="exact",
            concurrency_limit=handlers.places + 2,
            # a new question while an exact answer runs gets its own, not the old one
            trigger_mode="multiple",
            **_QUIET,
        )
    parts.cancel.click(cancelled, None, parts.answered, **_AT_ONCE)


def _visitor(request: Any) -> str:
    """A page that is open, by the name that Gradio has for it."""
    return str(request.session_hash)


def _question(text: object, chosen: object, methods: object, candidates: object) -> Question:
    """What a page sends, or anything else: what it cannot be is rejected when it is checked."""
    named = tuple(map(str, methods)) if isinstance(methods, list) else ()
    count = candidates if isinstance(candidates, int) else -1
    return Question(str(text or ""), numbers(str(chosen or "")), named, count)


def _state(handlers: Handlers, question: Question) -> list[str]:
    """Words, chosen places and text, as the page keeps them."""
    chosen = ",".join(map(str, question.chosen))
    return [panels.words(question, handlers.offer.mask), chosen, question.text]


def _whole(handlers: Handlers, question: Question) -> list[Any]:
    choice = [list(question.methods), question.candidates]
    return [question.text, *_state(handlers, question), *choice]


def _values(shown: Shown) -> list[Any]:
    """Values for the page's parts; what is None stays as it is."""
    return [gradio().skip() if part is None else str(part) for part in shown]
