"""Blanks that are words of several pieces, by name: each piece is a blank of its own.

A word that is blanked in an ordinary text keeps its width, so that what stood there has a
probability. What else could stand there may have any number of pieces: for that, write one
mask token in its place, or give words to rank (`targets`).
"""

from unmask.printable import printable, quoted
from unmask.text.cloze import Cloze, Tokenizer

OUT_IN_PYTHON = "or rank words of any number of pieces with lm.fill(..., targets=[...])"


def made_of_pieces(cloze: Cloze) -> str | None:
    """Which words make more than one blank, and how many; None where none does."""
    spans = cloze.spans or (None,) * len(cloze.blank_widths)
    said = [
        f"{'a blank' if span is None else quoted(cloze.text[slice(*span)])} is {width} pieces of "
        f"this tokenizer and makes {width} blanks"
        for width, span in zip(cloze.blank_widths, spans, strict=True)
        if width > 1
    ]
    return ", ".join(said) or None


def wide_blanks(cloze: Cloze, tokenizer: Tokenizer, way_out: str = OUT_IN_PYTHON) -> str | None:
    """The same, with how to ask for one blank there."""
    said = made_of_pieces(cloze)
    if said is None:
        return None
    return f"{said}; write {printable(tokenizer.mask_token)} in its place for one blank, {way_out}"


def blanks_of(cloze: Cloze) -> str:
    """How many blanks, and where they come from, for a sentence: 6 blanks ('x' is ...)."""
    count = len(cloze.positions)
    said = made_of_pieces(cloze)
    return f"{count} blank{'s' * (count != 1)}" + ("" if said is None else f" ({said})")
