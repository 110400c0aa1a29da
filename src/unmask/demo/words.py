"""A text cut into words that can be clicked, and blanks written where some of them stood."""

import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

# what people write for a blank, whatever the model's own mask token is
_WRITTEN = r"\[MASK\]|<mask>|_{2,}"
# these join what stands around them
_JOINING = "'’-_"
_IDEOGRAPHS = ("CJK UNIFIED", "CJK COMPATIBILITY", "HIRAGANA", "KATAKANA")


@dataclass(frozen=True)
class Piece:
    """A part of a text: a word, a blank that was written, or what stands between."""

    text: str
    kind: Literal["word", "blank", "between"]


@dataclass(frozen=True)
class Blanked:
    """A text with mask tokens, and the words that stood there; None where a blank was written."""

    text: str
    words: tuple[str | None, ...]


def pieces(text: str, mask: str) -> list[Piece]:
    """The whole text in order: words, written blanks, and what is between them."""
    found = []
    at = 0
    for blank in re.finditer(f"{re.escape(mask)}|{_WRITTEN}", text):
        found += [*_words(text[at : blank.start()]), Piece(blank[0], "blank")]
        at = blank.end()
    return [*found, *_words(text[at:])]


def blanked(text: str, chosen: Collection[int], mask: str) -> Blanked:
    """The text with the model's mask token for written blanks and for the chosen pieces."""
    written, stood = [], list[str | None]()
    for place, piece in enumerate(pieces(text, mask)):
        is_blank = piece.kind == "blank" or (piece.kind == "word" and place in chosen)
        written.append(mask if is_blank else piece.text)
        if is_blank:
            stood.append(piece.text if piece.kind == "word" else None)
    return Blanked("".join(written), tuple(stood))


def _words(text: str) -> Iterator[Piece]:
    at = 0
    while at < len(text):
        end = _end_of_word(text, at)
        kind: Literal["word", "between"] = "word" if end > at else "between"
        if kind == "between":
            end = at + 1
            while end < len(text) and not _is_letter(text[end]):
                end += 1
        yield Piece(text[at:end], kind)
        at = end


def _end_of_word(text: str, start: int) -> int:
    """Where the word that starts here ends; `start` itself where none does."""
    if not _is_letter(text[start]):
        return start
    end = start + 1
    if _is_ideograph(text[start]):
        # scripts without spaces: every character can be a blank
        while end < len(text) and _is_mark(text[end]):
            end += 1
        return end
    while end < len(text) and not _is_ideograph(text[end]):
        joins = text[end] in _JOINING and end + 1 < len(text) and _is_letter(text[end + 1])
        if not (_is_letter(text[end]) or _is_mark(text[end]) or joins):
            break
        end += 1
    return end


def _is_letter(ch: str) -> bool:
    return unicodedata.category(ch)[0] in "LN"


def _is_mark(ch: str) -> bool:
    return unicodedata.category(ch)[0] == "M"


def _is_ideograph(ch: str) -> bool:
    return unicodedata.name(ch, "").startswith(_IDEOGRAPHS)
