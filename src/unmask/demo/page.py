"""The page itself: Gradio's parts, and which handler each of them calls.

What a visitor has chosen is kept by the page in the browser (hidden boxes), not by the server:
there is no session to fill memory, and a link can hold all of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import unmask
from unmask.demo import panels, scripts
from unmask.demo.examples import label
from unmask.demo.failures import quieten
from unmask.demo.forgetting import plain_values_only
from unmask.demo.handlers import Handlers
from unmask.demo.library import gradio
from unmask.demo.panels import Shown
from unmask.demo.question import LONGEST_TEXT, Question, from_query, numbers
from unmask.markup import asset

# one is computed while another is read and written
_QUICK_AT_ONCE = 2

_QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
# small work that nobody waits for
_AT_ONCE: dict[str, Any] = {"queue": False, **_QUIET}


def build(
    handlers: Handlers,
    *,
    examples: Sequence[Question],
    candidates: Sequence[tuple[str, int]],
    queue: int,
) -> Any:
    """The page as Gradio's Blocks, with a bounded queue; not yet served."""
    gr = gradio()
    with gr.Blocks(title="unmask", analytics_enabled=False, fill_width=False) as page:
        gr.HTML(panels.page_head(_short_name(handlers.lm.name), handlers.lm.model.vocabulary_size))
        parts = _Parts(gr, handlers, examples, candidates)
        parts.follow_text(gr)
        parts.restore(page)
        parts.answer(gr)
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
        "css": asset("unmask.demo", "style.css"),
    }


class _Parts:
    """The parts of the page, in their order, and what they call."""

    def __init__(
        self,
        gr: Any,
        handlers: Handlers,
        examples: Sequence[Question],
        candidates: Sequence[tuple[str, int]],
    ) -> None:
        self.handlers, self.examples = handlers, examples
        default, mask = handlers.default, handlers.offer.mask
        self.text = gr.Textbox(
            default.text,
            label="Text",
            info=f"Blanks can also be written, as {mask} or as underscores.",
            lines=2,
            max_lines=4,
            # what is beyond it a browser cuts silently; what is too long for the demo, it says
            max_length=10 * LONGEST_TEXT,
            elem_id="text",
        )
        words = panels.words(default, mask)
        self.words = gr.HTML(words, js_on_load=scripts.CLICKED, elem_id="words")
        gr.HTML('<p class="caption">Or begin with an example:</p>')
        small: dict[str, Any] = {"size": "sm", "elem_classes": "example"}
        with gr.Row():
            self.example_buttons = [gr.Button(label(one), **small) for one in examples]
        with gr.Row(equal_height=True):
            self.methods = gr.CheckboxGroup(
                list(unmask.CONSTRUCTIONS),
                value=list(default.methods),
                label="Constructions",
                elem_id="methods",
                scale=3,
                min_width=300,
            )
            self.candidates = gr.Radio(
                list(candidates),
                value=default.candidates,
                label="Candidates per blank",
                elem_id="candidates",
                scale=2,
                min_width=300,
            )
        with gr.Row():
            self.fill = gr.Button("Fill the blanks", variant="primary", elem_id="fill")
            self.cancel = gr.Button("Cancel", elem_id="cancel")
        self.answered = [gr.HTML(panels.line(panels.HINT), elem_id="status")]
        self.answered += [gr.HTML("", elem_id=name) for name in ("cards", "trust", "picture")]
        self.link = gr.Textbox(
            "", label="Link to this question", interactive=False, buttons=["copy"], elem_id="link"
        )
        hidden = [gr.Textbox(value, visible="hidden") for value in (default.text, "", "", "", "0")]
        self.before, self.chosen, self.query, self.came_by_link, self.behind = hidden
        self.state = [self.words, self.chosen, self.before]
        self.everything = [self.text, *self.state, self.methods, self.candidates]

    def follow_text(self, gr: Any) -> None:
        """Words are those of the text, and blank when they are clicked."""

        def edited(text: str | None, before: str | None, chosen: str | None) -> list[str]:
            return self._state(self.handlers.edited(text or "", before or "", chosen or ""))

        def clicked(text: str | None, chosen: str | None, event: gr.EventData) -> list[str]:
            word = event._data if isinstance(event._data, dict) else {}
            place = word.get("place"), word.get("word")
            return self._state(self.handlers.clicked(text or "", chosen or "", *place))

        given, looked = [self.text, self.before, self.chosen], [self.text, self.before]
        # not `input`, which a text pasted while others are on their way does not always send
        for changed in (self.text.change, self.behind.change):
            followed = changed(edited, given, self.state, trigger_mode="multiple", **_AT_ONCE)
            behind = ([*looked, self.behind], [self.behind])
            followed.then(None, *behind, js=scripts.IF_BEHIND, show_progress="hidden")
        self.words.click(clicked, [self.text, self.chosen], self.state, **_AT_ONCE)

    def restore(self, page: Any) -> None:
        """A link asks its question again when it is opened."""
        everything = [*self.everything, self.came_by_link]

        def restored(query: str | None) -> list[Any]:
            found = from_query(query or "", self.handlers.default, self.handlers.offer)
            if found is None:
                # a visitor may already be typing: what no link asks for stays as it is
                return [gradio().skip()] * len(everything)
            return [*self._whole(found), "yes"]

        page.load(restored, [self.query], everything, js=scripts.ASKED_BY_LINK, **_AT_ONCE)

    def answer(self, gr: Any) -> None:
        """Quick answers and then exact ones, from every way to ask; and a button to cancel them."""

        # Gradio gives the request by its place among the parameters
        def first(
            text: str, chosen: str, methods: list[str], candidates: int, request: gr.Request
        ) -> list[Any]:
            question = _question(text, chosen, methods, candidates)
            shown = self.handlers.first_answer(question, _visitor(request))
            return [*_values(shown), question.to_query() if shown.cards else ""]

        def exact(
            text: str, chosen: str, methods: list[str], candidates: int, request: gr.Request
        ) -> Iterator[list[Any]]:
            question = _question(text, chosen, methods, candidates)
            yield from map(_values, self.handlers.exact_answer(question, _visitor(request)))

        def cancelled(request: gr.Request) -> list[Any]:
            return _values(self.handlers.cancel(_visitor(request)))

        asked = [self.text, self.chosen, self.methods, self.candidates]
        begun = [self.fill.click, self.text.submit, self.came_by_link.change]
        begun += map(self._take_example, self.examples, self.example_buttons)
        for begin in begun:
            quick = begin(
                first,
                asked,
                [*self.answered, self.query],
                concurrency_id="quick",
                concurrency_limit=_QUICK_AT_ONCE,
                show_progress="minimal",
                api_visibility="private",
            )
            address = ([self.query], [self.link])
            quick.then(None, *address, js=scripts.INTO_ADDRESS, show_progress="hidden")
            quick.success(
                exact,
                asked,
                self.answered,
                concurrency_id="exact",
                concurrency_limit=self.handlers.places + 2,
                # a new question while an exact answer runs gets its own, not the old one
                trigger_mode="multiple",
                **_QUIET,
            )
        self.cancel.click(cancelled, None, self.answered, **_AT_ONCE)

    def _take_example(self, example: Question, button: Any) -> Any:
        """An example by one click, with the chosen constructions; gives what comes then."""

        def taken(methods: list[str] | None, candidates: int) -> list[Any]:
            question = _question(example.text, "", methods, candidates)
            return self._whole(replace(question, chosen=example.chosen))

        given = [self.methods, self.candidates]
        return button.click(taken, given, self.everything, **_AT_ONCE).then

    def _state(self, question: Question) -> list[str]:
        """Words, chosen places and text, as the page keeps them."""
        chosen = ",".join(map(str, question.chosen))
        return [panels.words(question, self.handlers.offer.mask), chosen, question.text]

    def _whole(self, question: Question) -> list[Any]:
        choice = [list(question.methods), question.candidates]
        return [question.text, *self._state(question), *choice]


def _values(shown: Shown) -> list[Any]:
    """Values for the page's parts; what is None stays as it is."""
    return [gradio().skip() if part is None else part for part in shown]


def _visitor(request: Any) -> str:
    """A page that is open, by the name that Gradio has for it."""
    return str(request.session_hash)


def _question(text: object, chosen: object, methods: object, candidates: object) -> Question:
    """What a page sends, or anything else: what it cannot be is rejected when it is checked."""
    named = tuple(map(str, methods)) if isinstance(methods, list) else ()
    count = candidates if isinstance(candidates, int) else -1
    return Question(str(text or ""), numbers(str(chosen or "")), named, count)
