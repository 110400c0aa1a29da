"""What the page shows, as HTML: words to click, progress, cards of fills, trust, heat maps.

The markup is `panels.html.j2`, which escapes all texts of visitors and models.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any, NamedTuple

import unmask
from unmask import plots
from unmask.demo.question import LONGEST_TEXT, DemoQuestion, one_line
from unmask.demo.scheduler import Computation
from unmask.demo.words import pieces
from unmask.markup import templates
from unmask.names import DEFAULT_METHOD, METHODS

HINT = "Click the words to blank, or write [MASK] into the text. Then fill the blanks."
BUSY = "Too many people are asking at the moment. Please try again in a few seconds."
CANCELLED = "Cancelled."
TOO_LONG = f"The text is longer than the {LONGEST_TEXT} characters that the demo takes: shorten it."
FAILED = "Something failed while this was computed. The demo is still running."
# fills that a card shows, those among which heat maps find their tokens, and tokens per side
TOP, _RANKED, MAP = 8, 20, 8


class PageUpdate(NamedTuple):
    """The parts of the page that an answer changes; None leaves a part unchanged."""

    status: str | None = None
    cards: str | None = None
    trust: str | None = None
    maps: str | None = None


def meaning_of(method: str) -> str:
    """What a construction is, in a few words."""
    words = METHODS[method].words if method in METHODS else ""
    return words + ("; the default" if method == DEFAULT_METHOD else "")


def colour_of(method: str) -> str:
    """The colour of a construction in figures."""
    return plots.construction_styles([method])[method].colour


def written(probability: float, error: float | None = None) -> str:
    """A probability in few digits, with its standard error where it was estimated."""
    if 0 < probability < 1e-3:
        return f"{probability:.1e}" + ("" if error is None else f" ± {error:.0e}")
    if error is None:
        return ">0.999" if probability >= 0.9995 else f"{probability:.3f}"
    # enough decimals for the error
    decimals = 3 if error >= 5e-4 else 4
    bar = f"{error:.{decimals}f}" if error >= 5e-5 else "<0.0001"
    return f"{probability:.{decimals}f} ± {bar}"


def _fill(fill: unmask.Fill) -> str:
    return written(fill.probability, fill.probability_error)


def _ranked(joint: unmask.Joint) -> Sequence[unmask.Fill]:
    return joint.top(min(_RANKED, math.prod(joint.shape)))


def _chance(joint: unmask.Joint, tokens: Sequence[int]) -> str:
    """How likely these tokens are, with an error where that takes no more forward passes."""
    try:
        probability = math.exp(joint.log_prob(*tokens))
    except unmask.SupportError:
        return "not among the candidates"
    axes = zip(joint.supports, tokens, strict=True)
    if not joint.is_sketched() or any(axis.place_of_id(token) is None for axis, token in axes):
        return written(probability)
    error = joint.standard_error(lambda one: one.log_prob(*tokens))
    return written(probability, probability * error)


def _among(joint: unmask.Joint) -> str:
    """What probabilities are given, where that is less than the vocabulary."""
    did: dict[str, Any] = joint.diagnostics
    if "candidates_from" not in did:
        return ""
    text = f"Only over {max(joint.shape):,} candidates per blank"
    if captured := did.get("captured_mass"):
        held = math.floor(1000 * min(captured)) / 10
        text += f", which hold {held:.1f}% of the blank's own distribution or more"
    return f"{text}."


_templates = templates("unmask.demo")
_templates.filters |= {"colour": colour_of, "meaning": meaning_of, "written": _fill}
_templates.filters |= {"ranked": _ranked, "chance": _chance, "among": _among}
_html: Any = _templates.get_template("panels.html.j2").module


def words(question: DemoQuestion, mask: str) -> str:
    """The text with a button per word, as far as it is read; blanks are shown as such."""
    text = one_line(question.text[:LONGEST_TEXT])
    shown = str(_html.words(pieces(text, mask), question.chosen))
    return shown if len(question.text) <= LONGEST_TEXT else shown + line(TOO_LONG, "rejected")


def line(text: str, kind: str = "hint") -> str:
    """A line about what goes on."""
    return str(_html.line(text, kind))


DONE = line("Done.", "done")


def progress(job: Computation) -> str:
    """How far an answer is."""
    done, most = job.passes_done, job.passes_expected
    if not job.has_begun:
        return line("Your question waits for its turn.", "waiting")
    # how many a search takes is not known before
    of = f" of at most {most:,}" if done <= most else ""
    return str(_html.bar(f"{98 * min(1, done / max(1, most)):.0f}", f"{done:,}{of} forward passes"))


def cards(
    joints: Mapping[str, unmask.Joint],
    shared: Mapping[str, float],
    words: Sequence[str | None],
    stood: Sequence[int] | None,
) -> str:
    """One card per construction, with bars of one scale.

    `shared` is mutual information in nats, where it is known; `words` are those that stood in the
    blanks and `stood` their tokens, if each is one.
    """
    most = max(_ranked(joint)[0].probability for joint in joints.values())
    return str(_html.cards(joints, most or 1, TOP, shared, words, stood))


def trust(sentences: Iterable[str]) -> str:
    """How far to trust the answer, and what it cost."""
    return str(_html.trust(filter(None, sentences)))


def maps(joints: Mapping[str, unmask.Joint]) -> str:
    """Heat maps of two blanks: the same tokens for all, and one scale of colours."""
    every = list(joints.values())
    rows, columns = (_tokens_for_all(every, axis) for axis in (0, 1))
    if not rows or not columns:
        return ""
    tables = {name: _cells(joint, list(rows), list(columns)) for name, joint in joints.items()}
    most = max(max(map(max, table)) for table in tables.values())
    return str(_html.maps(tables, most or 1, list(rows.values()), list(columns.values())))


def _tokens_for_all(joints: Sequence[unmask.Joint], axis: int) -> dict[int, str]:
    """Names by id of tokens of the likeliest fills, which joints that hold them take turns in."""
    turns = chain(*zip_longest(*map(_ranked, joints)))
    tokens = {fill.ids[axis]: fill.tokens[axis] for fill in turns if fill}
    axes = [joint.supports[axis] for joint in joints]
    held = [one for one in tokens if all(axis.place_of_id(one) is not None for axis in axes)]
    return {one: tokens[one] for one in held[:MAP]}


def _cells(joint: unmask.Joint, rows: Sequence[int], columns: Sequence[int]) -> list[list[float]]:
    first, second = joint.supports
    places = [second.index(token) for token in columns]
    each = [first.index(token) for token in rows]
    return [joint.log_rows(slice(at, at + 1))[0, places].exp().tolist() for at in each]


def page_head(model: str, size: int) -> str:
    """What the page is, and which model answers."""
    return str(_html.page_head(model, size))
