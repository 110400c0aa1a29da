"""Blanks that were words of several pieces, by name.

A word that is blanked in an ordinary text is one blank, which holds single tokens: what else could
stand there. A cloze that the caller makes keeps every piece as a blank of its own, so that what
stood there has a probability.
"""

from unmask.printable import quoted
from unmask.text.cloze import Cloze

OUT_IN_PYTHON = (
    "rank words of any number of pieces with lm.fill(..., targets=[...]), or use one blank per "
    "piece with lm.cloze(text, blanks=[...])"
)


def made_of_pieces(cloze: Cloze) -> str | None:
    """The words that make more than one blank, and how many; None if there are none."""
    return ", ".join(f"{word} and makes {width} blanks" for word, width in _wide(cloze)) or None


def one_blank_for_each(cloze: Cloze, way_out: str = OUT_IN_PYTHON) -> tuple[Cloze, str | None]:
    """One blank per word, and a note about lost pieces; None if no piece is lost."""
    notes = [f"{word}, but one blank here, which holds a single token" for word, _ in _wide(cloze)]
    return (cloze.one_token_each(), f"{', '.join(notes)}; {way_out}") if notes else (cloze, None)


def _wide(cloze: Cloze) -> list[tuple[str, int]]:
    spans = cloze.spans or (None,) * len(cloze.blank_widths)
    words = ["a blank" if span is None else quoted(cloze.text[slice(*span)]) for span in spans]
    return [
        (f"{word} is {width} pieces of this tokenizer", width)
        for width, word in zip(cloze.blank_widths, words, strict=True)
        if width > 1
    ]


def blanks_of(cloze: Cloze) -> str:
    """The number of blanks with their origin, for a sentence: 6 blanks ('x' is ...)."""
    count, note = len(cloze.positions), made_of_pieces(cloze)
    return f"{count} blank{'s' * (count != 1)}" + ("" if note is None else f" ({note})")
