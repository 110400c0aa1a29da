"""What the page shows, as HTML: words to click, cards of fills, trust, cost, progress.

Everything that a visitor wrote or a model said goes through `markup`, which escapes it.
"""

import math
from collections.abc import Sequence

import unmask
from unmask import plots
from unmask.constructions import DEFAULT_METHOD
from unmask.demo.answers import Answer, Column
from unmask.demo.markup import Markup, element, joined, name, text
from unmask.demo.question import LONGEST_TEXT, Question
from unmask.demo.scheduler import Job
from unmask.demo.words import pieces
from unmask.printable import readable_seconds

HINT = "Click the words to blank, or write [MASK] into the text. Then fill the blanks."
BUSY = "Too many people are asking at the moment. Please try again in a few seconds."
CANCELLED = "Cancelled."
NO_BLANK = "There is no blank to fill yet. Click the words to blank, or write [MASK] into the text."
TOO_LONG = f"The text is longer than the {LONGEST_TEXT} characters that the demo takes: shorten it."
FAILED = "Something failed while this was computed. The demo goes on."
NOTHING = text("")
# what is less is shown as 0.000
_LEAST_SHARED = 5e-4


def meaning_of(method: str) -> str:
    """What a construction is, in a few words."""
    known = unmask.CONSTRUCTIONS.get(method)
    if known is None:
        return ""
    return known.meaning + ("; the default" if method == DEFAULT_METHOD else "")


def words(question: Question, mask: str) -> Markup:
    """The text with a button per word, as far as it is read; blanks are shown as such."""
    chosen = set(question.chosen)
    shown = []
    for place, piece in enumerate(pieces(question.text[:LONGEST_TEXT], mask)):
        if piece.kind == "between":
            shown.append(element("span", text(piece.text), class_="between"))
        elif piece.kind == "blank":
            shown.append(element("span", text("blank"), class_="blank written"))
        else:
            shown.append(_word(piece.text, place, place in chosen))
    if not shown:
        return element("p", text("Write a sentence above."), class_="hint")
    group = element("div", *shown, class_="words", role="group", aria_label="words to blank")
    if len(question.text) <= LONGEST_TEXT:
        return group
    return joined([group, line(TOO_LONG, "rejected")])


def _word(word: str, place: int, is_blank: bool) -> Markup:
    says = f"fill in {word} again" if is_blank else f"blank {word}"
    return element(
        "button",
        name(word),
        type="button",
        class_="word blank" if is_blank else "word",
        data_place=str(place),
        data_word=word,
        aria_pressed="true" if is_blank else "false",
        title=says,
    )


def line(said: str, kind: str = "hint") -> Markup:
    """A line about what goes on."""
    return element("p", text(said), class_=f"status {kind}", role="status")


def progress(job: Job[Answer]) -> Markup:
    """How far the exact answer is."""
    expected, done, left = job.passes_expected, job.passes_done, job.seconds_left()
    if job.began is None:
        return line("The exact answer waits for its turn.", "waiting")
    if not expected or left is None:
        return _bar(0.0, "The exact answer begins.")
    if done >= expected or job.is_solving:
        return _bar(0.98, "The forward passes are done; now the constructions.")
    when = "less than a second" if left < 1 else f"about {readable_seconds(left)}"
    said = f"Exact answer: {done:,} of {expected:,} forward passes, {when} left."
    return _bar(0.98 * done / expected, said)


def _bar(part: float, said: str) -> Markup:
    percent = f"{100 * part:.0f}"
    bar = element(
        "div",
        element("div", class_="filled", style=f"width: {percent}%"),
        class_="bar",
        role="progressbar",
        aria_label="exact answer",
        aria_valuemin="0",
        aria_valuemax="100",
        aria_valuenow=percent,
    )
    return element("div", line(said, "running"), bar, class_="progress")


def cards(answer: Answer, to_come: Sequence[str] = (), *, quick_look: bool = False) -> Markup:
    """One card per construction, and an empty one for each that is still to come."""
    shown = [_filled(column, answer.yours, quick_look) for column in answer.columns]
    waiting = _note("Comes with the exact answer; the bar above shows how far that is.")
    shown += [_card(method, [waiting], "card empty") for method in to_come]
    return element("div", *shown, class_="cards")


def _filled(column: Column, yours: Sequence[str] | None, quick_look: bool) -> Markup:
    most = max((p for _, p in column.fills), default=1.0)
    parts = [element("ol", *[_fill(tokens, p, most) for tokens, p in column.fills])]
    if yours is not None:
        parts.append(_yours(yours, column.yours))
    if column.shared is not None:
        parts.append(_note(f"Mutual information: {column.shared:.3f} nats"))
    if not column.converged:
        parts.append(_note("Its solver has not converged: approximate."))
    return _card(column.method, parts, "card", " quick look" * quick_look)


def _card(method: str, parts: Sequence[Markup], kind: str, tag: str = "") -> Markup:
    extra = [element("span", text(tag), class_="tag")] if tag else []
    meaning = element("p", text(meaning_of(method)), class_="meaning")
    head = element("header", element("h3", text(method), *extra), meaning)
    colour = plots.construction_styles([method])[method].colour
    return element("section", head, *parts, class_=kind, style=f"--colour: {colour}")


def _fill(tokens: Sequence[str], probability: float, most: float) -> Markup:
    part = 0.0 if most <= 0 else 100 * probability / most
    filled = element("span", class_="part", style=f"width: {part:.1f}%")
    said = element("span", text(percentage(probability)), class_="p")
    return element("li", filled, _tokens(tokens), said)


def _tokens(tokens: Sequence[str]) -> Markup:
    gap = element("span", text(" … "), class_="gap")
    return element("span", joined(map(name, tokens), gap), class_="tokens")


def _yours(tokens: Sequence[str], log_prob: float | None) -> Markup:
    said = "not among the candidates" if log_prob is None else percentage(math.exp(log_prob))
    parts = (text("What stood there: "), _tokens(tokens), text(f" {said}"))
    return element("p", *parts, class_="note yours")


def _note(said: str) -> Markup:
    return element("p", text(said), class_="note")


def percentage(probability: float) -> str:
    """A probability in few digits."""
    percent = 100 * probability
    if percent == 0:
        return "0%"
    if percent >= 99.95:
        return ">99.9%"
    if percent >= 0.095:
        return f"{percent:.1f}%"
    return f"{percent:.2g}%" if percent >= 1e-4 else f"{percent:.0e}%"


def trust(answer: Answer) -> Markup:
    """J and the mutual information in plain words, and what the answer cost."""
    unknown = answer.unknown and f"{answer.unknown[:1].upper()}{answer.unknown[1:]}"
    said = [one for one in (unknown, answer.trust, _shared(answer)) if one]
    if answer.captured is not None:
        held = math.floor(1000 * answer.captured) / 10
        said.append(
            f"Probabilities are given {max(answer.candidates):,} candidates per blank, which hold "
            f"{held:.1f}% of the blank's own distribution or more."
        )
    said += [f"{method} is for two blanks." for method in answer.left_out]
    passes = answer.forward_passes
    said.append(f"Cost: {passes:,} forward pass{'es' * (passes != 1)}, {answer.seconds:.1f} s.")
    return element("ul", *[element("li", text(one)) for one in said], class_="trust")


def _shared(answer: Answer) -> str | None:
    """The mutual information of the default construction, or else of one that has some at all."""
    known = {c.method: c.shared for c in answer.columns if c.shared is not None}
    some = [method for method, nats in known.items() if nats >= _LEAST_SHARED]
    method = DEFAULT_METHOD if DEFAULT_METHOD in known else some[-1] if some else None
    if method is None:
        return None
    nats = known[method]
    if nats < 0.035:
        means = "knowing one blank tells little about the other"
    elif nats < 0.35:
        means = "the blanks lean on each other, and independent guesses mislead for some pairs"
    else:
        means = "the blanks depend on each other strongly, and independent guesses mislead"
    return f"Mutual information {nats:.3f} nats ({method}): {means}"


def picture(answer: Answer) -> Markup:
    """The heat map of two blanks."""
    if answer.figure is None:
        return NOTHING
    methods = ", ".join(column.method for column in answer.columns)
    image = element("img", src=answer.figure, alt=f"heat maps of both blanks by {methods}")
    # a narrow window shows as much of it as can be read
    aside = element("figcaption", text("Swipe sideways to see all of it."), class_="caption")
    return element("figure", aside, element("div", image, class_="wide"))


def page_head(model: str, size: int) -> Markup:
    """What the page is, and which model answers."""
    said = (
        "A masked language model guesses one blank at a time. Here are joint distributions over "
        "several blanks, made from "
    )
    about = (text(said), element("b", name(model)), text(f" ({size:,} tokens)."))
    return joined([element("h1", text("What fills the blanks together?")), element("p", *about)])
