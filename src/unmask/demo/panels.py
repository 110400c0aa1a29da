"""What the page shows, as HTML: words to click, cards of fills, trust, cost, progress.

The markup is `panels.html.j2`, which escapes everything that a visitor wrote or a model said.
"""

import math
from collections.abc import Sequence
from typing import Any

import unmask
from unmask import plots
from unmask.constructions import DEFAULT_METHOD
from unmask.demo.answers import Answer
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
# what is less is shown as 0.000
_LEAST_SHARED = 5e-4


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


_templates = templates("unmask.demo")
_templates.filters |= {"colour": colour_of, "meaning": meaning_of, "percentage": percentage}
_html: Any = _templates.get_template("panels.html.j2").module


def words(question: Question, mask: str) -> str:
    """The text with a button per word, as far as it is read; blanks are shown as such."""
    shown = str(_html.words(pieces(question.text[:LONGEST_TEXT], mask), question.chosen))
    return shown if len(question.text) <= LONGEST_TEXT else shown + line(TOO_LONG, "rejected")


def line(said: str, kind: str = "hint") -> str:
    """A line about what goes on."""
    return str(_html.line(said, kind))


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


def cards(answer: Answer, to_come: Sequence[str] = (), *, quick_look: bool = False) -> str:
    """One card per construction, and an empty one for each that is still to come."""
    return str(_html.cards(answer, to_come, quick_look))


def trust(answer: Answer) -> str:
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
    return str(_html.trust(said))


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


def picture(answer: Answer) -> str:
    """The heat map of two blanks."""
    return "" if answer.figure is None else str(_html.picture(answer))


def page_head(model: str, size: int) -> str:
    """What the page is, and which model answers."""
    return str(_html.page_head(model, size))
