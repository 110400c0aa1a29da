"""The page itself: Gradio's parts, and which handler each of them calls.

What a visitor has chosen is kept by the page in the browser (hidden boxes), not by the server:
there is no session to fill memory, and a link can hold all of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import unmask
from unmask.demo import panels, scripts
from unmask.demo.examples import label
from unmask.demo.failures import quieten
from unmask.demo.forgetting import plain_values_only
from unmask.demo.handlers import Handlers
from unmask.demo.library import gradio
from unmask.demo.panels import PageUpdate
from unmask.demo.question import LONGEST_TEXT, DemoQuestion, from_query, numbers, one_line
from unmask.markup import asset
from unmask.names import model_name

_QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}
# small work that nobody waits for
_AT_ONCE: dict[str, Any] = {"queue": False, **_QUIET}


def build(handlers: Handlers, *, examples: Sequence[DemoQuestion]) -> Any:
    """The page as Gradio's Blocks, with a bounded queue; not yet served."""
    gr = gradio()
    with gr.Blocks(title="unmask", analytics_enabled=False, fill_width=False) as page:
        gr.HTML(panels.page_head(model_name(handlers.lm.name), handlers.lm.model.vocabulary_size))
        parts = _Parts(gr, handlers, examples)
        parts.follow_text(gr)
        parts.restore(page)
        parts.answer(gr)
    # two more than there are places, so that visitors without a place get a message
    limits = {"max_size": handlers.places, "default_concurrency_limit": handlers.places + 2}
    page.queue(**limits, api_open=False)
    page.process_api = plain_values_only(page.process_api)
    quieten(gr.queueing, gr.routes, gr.route_utils)
    return page


def look(gr: Any) -> dict[str, Any]:
    """How the page looks, with fonts that the visitor's machine has."""
    system = ["system-ui", "-apple-system", "Segoe UI", "Noto Sans", "sans-serif"]
    return {
        "theme": gr.themes.Base(primary_hue="blue", font=system, font_mono=["monospace"]),
        "css": asset("unmask.demo", "style.css"),
    }


class _Parts:
    """The parts of the page, in their order, and what they call."""

    def __init__(self, gr: Any, handlers: Handlers, examples: Sequence[DemoQuestion]) -> None:
        self.handlers, self.examples = handlers, examples
        default, mask = handlers.default, handlers.mask
        self.text = gr.Textbox(
            default.text,
            label="Text",
            info=f"Blanks can also be written, as {mask} or as underscores.",
            lines=2,
            max_lines=4,
            # a browser cuts longer texts silently; the demo reports those that are too long for it
            max_length=10 * LONGEST_TEXT,
            elem_id="text",
        )
        words = panels.words(default, mask)
        self.words = gr.HTML(words, js_on_load=scripts.CLICKED, elem_id="words")
        gr.HTML('<p class="caption">Or begin with an example:</p>')
        small: dict[str, Any] = {"size": "sm", "elem_classes": "example"}
        with gr.Row():
            self.example_buttons = [gr.Button(label(one), **small) for one in examples]
        self.methods = gr.CheckboxGroup(
            [(f"{name}: {panels.meaning_of(name)}", name) for name in unmask.CONSTRUCTIONS],
            value=list(default.methods),
            label="Constructions",
            elem_id="methods",
        )
        with gr.Row():
            self.fill = gr.Button("Fill the blanks", variant="primary", elem_id="fill")
            self.cancel = gr.Button("Cancel", elem_id="cancel")
        self.answered = [gr.HTML(panels.line(panels.HINT), elem_id="status")]
        self.answered += [gr.HTML("", elem_id=name) for name in ("cards", "trust", "maps")]
        self.link = gr.Textbox(
            "", label="Link to this question", interactive=False, buttons=["copy"], elem_id="link"
        )
        hidden = [gr.Textbox(value, visible="hidden") for value in (default.text, "", "", "", "0")]
        self.before, self.chosen, self.query, self.came_by_link, self.behind = hidden
        self.state = [self.words, self.chosen, self.before]
        self.everything = [self.text, *self.state, self.methods]

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
            question = from_query(query or "", self.handlers.default)
            if question is None:
                # a visitor may already be typing: parts that no link sets stay unchanged
                return [gradio().skip()] * len(everything)
            return [*self._whole(question), "yes"]

        page.load(restored, [self.query], everything, js=scripts.ASKED_BY_LINK, **_AT_ONCE)

    def answer(self, gr: Any) -> None:
        """An answer from every way to ask, its link, and a button that cancels it."""

        # Gradio gives the request by its place among the parameters
        def answer(
            text: str, chosen: str, methods: list[str], request: gr.Request
        ) -> Iterator[list[Any]]:
            question = _question(text, chosen, methods)
            for shown in self.handlers.answer(question, _visitor(request)):
                link = shown.cards and question.to_query()
                yield [*_values(shown), gr.skip() if link is None else link]

        def cancelled(request: gr.Request) -> list[Any]:
            return _values(self.handlers.cancel(_visitor(request)))

        asked, answered = [self.text, self.chosen, self.methods], [*self.answered, self.query]
        begun = [self.fill.click, self.text.submit, self.came_by_link.change]
        begun += map(self._take_example, self.examples, self.example_buttons)
        for begin in begun:
            # a new question while an answer is computed gets its own, not the old one
            begin(answer, asked, answered, trigger_mode="multiple", **_QUIET)
        address = ([self.query], [self.link])
        self.query.change(None, *address, js=scripts.INTO_ADDRESS, show_progress="hidden")
        self.cancel.click(cancelled, None, self.answered, **_AT_ONCE)

    def _take_example(self, example: DemoQuestion, button: Any) -> Any:
        """An example by one click, with the chosen constructions; gives what comes then."""

        def taken(methods: list[str] | None) -> list[Any]:
            question = _question(example.text, "", methods)
            return self._whole(replace(question, chosen=example.chosen))

        return button.click(taken, [self.methods], self.everything, **_AT_ONCE).then

    def _state(self, question: DemoQuestion) -> list[str]:
        """Words, chosen places and text, as the page keeps them."""
        chosen = ",".join(map(str, question.chosen))
        return [panels.words(question, self.handlers.mask), chosen, question.text]

    def _whole(self, question: DemoQuestion) -> list[Any]:
        return [question.text, *self._state(question), list(question.methods)]


def _values(shown: PageUpdate) -> list[Any]:
    """Values for the page's parts; None leaves a part unchanged."""
    return [gradio().skip() if part is None else part for part in shown]


def _visitor(request: Any) -> str:
    """A page that is open, by the name that Gradio has for it."""
    return str(request.session_hash)


def _question(text: object, chosen: object, methods: object) -> DemoQuestion:
    """What a page sends, or anything else: what it cannot be is rejected when it is checked."""
    named = tuple(map(str, methods)) if isinstance(methods, list) else ()
    return DemoQuestion(one_line(str(text or "")), numbers(str(chosen or "")), named)
