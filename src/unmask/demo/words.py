"""A text cut into words that can be clicked, with blanks in place of some of them."""

import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

# what people write for a blank besides the model's own mask token
_WRITTEN = r"\[MASK\]|<mask>|_{2,}"
# these join the letters around them
_JOINING = "'’-_"
_IDEOGRAPHS = ("CJK UNIFIED", "CJK COMPATIBILITY", "HIRAGANA", "KATAKANA")
# by the kind of each character; in scripts without spaces every character is a word
_PIECE = re.compile("(?P<word>IM*|L(?:[LM]|J(?=[LI]))*)|[^LI]+")


@dataclass(frozen=True)
class TextPiece:
    """A part of a text: a word, a written blank, or the characters between."""

    text: str
    kind: Literal["word", "blank", "between"]


@dataclass(frozen=True)
class Blanked:
    """A text with mask tokens, and the words that they replaced; None for written blanks."""

    text: str
    words: tuple[str | None, ...]


def pieces(text: str, mask: str) -> list[TextPiece]:
    """The whole text in order: words, written blanks, and the characters between."""
    parts = []
    at = 0
    for blank in re.finditer(f"{re.escape(mask)}|{_WRITTEN}", text):
        parts += [*_words(text[at : blank.start()]), TextPiece(blank[0], "blank")]
        at = blank.end()
    return [*parts, *_words(text[at:])]


def blanked(text: str, chosen: Collection[int], mask: str) -> Blanked:
    """The text with the model's mask token for written blanks and for the chosen pieces."""
    written, stood = [], list[str | None]()
    for place, piece in enumerate(pieces(text, mask)):
        is_blank = piece.kind == "blank" or (piece.kind == "word" and place in chosen)
        written.append(mask if is_blank else piece.text)
        if is_blank:
            stood.append(piece.text if piece.kind == "word" else None)
    return Blanked("".join(written), tuple(stood))


def _words(text: str) -> Iterator[TextPiece]:
    for match in _PIECE.finditer("".join(map(_kind, text))):
        part = text[match.start() : match.end()]
        yield TextPiece(part, "word" if match["word"] else "between")


def _kind(ch: str) -> str:
    """L: letter or digit, I: one of a script without spaces, J: joins, else Unicode's category."""
    category = unicodedata.category(ch)[0]
    if category in "LN":
        return "I" if unicodedata.name(ch, "").startswith(_IDEOGRAPHS) else "L"
    return "J" if ch in _JOINING else category
