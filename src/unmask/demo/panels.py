"""What the page shows, as HTML: words to click, cards of fills, trust, cost, progress.

The markup is `panels.html.j2`, which escapes everything that a visitor wrote or a model said.
"""

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import unmask
from unmask import plots
from unmask.constructions import DEFAULT_METHOD
from unmask.demo.question import LONGEST_TEXT, Question
from unmask.demo.scheduler import Job
from unmask.demo.words import pieces
from unmask.markup import templates
from unmask.printable import readable_seconds

HINT = "Click the words to blank, or write [MASK] into the text. Then fill the blanks."
BUSY = "Too many people are asking at the moment. Please try again in a few seconds."
CANCELLED = "Cancelled."
TOO_LONG = f"The text is longer than the {LONGEST_TEXT} characters that the demo takes: shorten it."
FAILED = "Something failed while this was computed. The demo goes on."
# fills that a card shows
TOP = 8


class Shown(NamedTuple):
    """What an answer changes on the page; None leaves a part as it is."""

    status: str | None = None
    cards: str | None = None
    trust: str | None = None
    picture: str | None = None


def meaning_of(method: str) -> str:
    """What a construction is, in a few words."""
    known = unmask.CONSTRUCTIONS.get(method)
    if known is None:
        return ""
    return known.meaning + ("; the default" if method == DEFAULT_METHOD else "")


def colour_of(method: str) -> str:
    """The colour of a construction in figures."""
    return plots.construction_styles([method])[method].colour


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


def _ranked(joint: unmask.Joint) -> Sequence[unmask.Fill]:
    return joint.top(min(TOP, math.prod(joint.shape)))


def _chance(joint: unmask.Joint, tokens: Sequence[int]) -> str:
    try:
        return percentage(math.exp(joint.log_prob(*tokens)))
    except unmask.SupportError:
        return "not among the candidates"


_templates = templates("unmask.demo")
_templates.filters |= {"colour": colour_of, "meaning": meaning_of, "percentage": percentage}
_templates.filters |= {"ranked": _ranked, "chance": _chance}
_html: Any = _templates.get_template("panels.html.j2").module


def words(question: Question, mask: str) -> str:
    """The text with a button per word, as far as it is read; blanks are shown as such."""
    shown = str(_html.words(pieces(question.text[:LONGEST_TEXT], mask), question.chosen))
    return shown if len(question.text) <= LONGEST_TEXT else shown + line(TOO_LONG, "rejected")


def line(said: str, kind: str = "hint") -> str:
    """A line about what goes on."""
    return str(_html.line(said, kind))


DONE = line("Done.", "done")


def progress(job: Job) -> str:
    """How far the exact answer is."""
    expected, done, left = job.passes_expected, job.passes_done, job.seconds_left()
    if job.began is None:
        return line("The exact answer waits for its turn.", "waiting")
    if not expected or left is None:
        part, said = 0.0, "The exact answer begins."
    elif done >= expected or job.is_solving:
        part, said = 1.0, "The forward passes are done; now the constructions."
    else:
        when = "less than a second" if left < 1 else f"about {readable_seconds(left)}"
        part = done / expected
        said = f"Exact answer: {done:,} of {expected:,} forward passes, {when} left."
    return str(_html.bar(f"{98 * part:.0f}", said))


def cards(
    joints: Mapping[str, unmask.Joint],
    shared: Mapping[str, float],
    words: Sequence[str | None],
    stood: Sequence[int] | None,
    to_come: Sequence[str],
    chosen: Container[str],
) -> str:
    """One card per construction, and an empty one for each that is still to come.

    `shared` is mutual information in nats, where it is known; `words` are those that stood in the
    blanks and `stood` their tokens, if each is one. What is not `chosen` stands in for what is.
    """
    return str(_html.cards(joints, shared, words, stood, to_come, chosen))


def trust(sentences: Iterable[str]) -> str:
    """How far to trust the answer, and what it cost."""
    return str(_html.trust(filter(None, sentences)))


def picture(figure: str, methods: Iterable[str]) -> str:
    """The heat map of two blanks."""
    return str(_html.picture(figure, ", ".join(methods)))


def page_head(model: str, size: int) -> str:
    """What the page is, and which model answers."""
    return str(_html.page_head(model, size))
