"""The question of a visitor, checked; and the same as a link that asks it again."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import parse_qs, urlencode

import unmask
from unmask.constructions import DEFAULT_METHOD, constructions_of
from unmask.demo.words import Blanked, blanked, pieces
from unmask.printable import quoted

DEFAULT_METHODS = ("mlm", DEFAULT_METHOD)
# what a page has room for, and a machine that others use too
LONGEST_TEXT, MOST_BLANKS, MOST_METHODS = 400, 4, 4
# characters that are read of any text: one more, so that a cut text is still too long
LOOKED_AT = LONGEST_TEXT + 1


@dataclass(frozen=True)
class DemoQuestion:
    """A text, which of its pieces are blank, and by which constructions they are filled."""

    text: str
    chosen: tuple[int, ...] = ()
    methods: tuple[str, ...] = DEFAULT_METHODS

    def blanked(self, mask: str) -> Blanked:
        """The text as the model reads it."""
        return blanked(self.text, self.chosen, mask)

    def to_query(self) -> str:
        """The part of a link after its question mark."""
        return urlencode(
            {
                "text": self.text,
                "blanks": ",".join(map(str, self.chosen)),
                "methods": ",".join(self.methods),
            }
        )


def from_query(query: str, default: DemoQuestion) -> DemoQuestion | None:
    """The question of a link, None if it has no text. Unknown constructions are left out."""
    fields = {key: values[-1] for key, values in parse_qs(query.lstrip("?")[:8_000]).items()}
    if not fields.get("text"):
        return None
    named = fields.get("methods", "").split(",")
    methods = [name for name in named if name in unmask.CONSTRUCTIONS]
    return DemoQuestion(
        fields["text"][:LOOKED_AT],
        numbers(fields.get("blanks", "")),
        tuple(dict.fromkeys(methods))[:MOST_METHODS] or default.methods,
    )


def one_line(text: str) -> str:
    """The text without the line ends that Enter adds to it; its characters keep their places."""
    return re.sub(r"[\r\n]", " ", text).rstrip()


def numbers(written: str) -> tuple[int, ...]:
    """Whole numbers between commas; everything else is left out."""
    parts = [part.strip() for part in written[:1000].split(",")]
    # Python raises on numbers of thousands of digits
    short = [part for part in parts if part.isascii() and part.isdigit() and len(part) < 7]
    return tuple(sorted(set(map(int, short))))


def toggled(question: DemoQuestion, place: object, word: object, mask: str) -> DemoQuestion:
    """The question with one blank more or less; unchanged if there is no such word."""
    parts = pieces(question.text, mask)
    words = {at for at, piece in enumerate(parts) if piece.kind == "word"}
    if not isinstance(place, int) or place not in words or parts[place].text != word:
        return question
    return replace(question, chosen=tuple(sorted((set(question.chosen) & words) ^ {place})))


def check(question: DemoQuestion, mask: str) -> Blanked:
    """The text as the model reads it; rejects what the page cannot answer, in one line.

    A page sends what it offers; others can send anything.
    """
    if len(question.text) > LONGEST_TEXT:
        raise unmask.ClozeError(
            f"the text has {len(question.text):,} characters; the demo takes {LONGEST_TEXT}"
        )
    blanked_text = question.blanked(mask)
    if not blanked_text.words:
        raise unmask.ClozeError(
            "There is no blank to fill yet. "
            "Click the words to blank, or write [MASK] into the text."
        )
    if len(blanked_text.words) > MOST_BLANKS:
        raise unmask.ClozeError(
            f"the text has {len(blanked_text.words)} blanks; the demo takes up to {MOST_BLANKS}"
        )
    if not question.methods:
        raise unmask.MethodError("choose a construction")
    check_methods(question.methods)
    if len(left_out(question, len(blanked_text.words))) == len(question.methods):
        raise unmask.MethodError(
            f"{', '.join(question.methods)}: for two blanks only; choose another construction"
        )
    return blanked_text


def check_methods(methods: Sequence[str]) -> None:
    """Reject names that are not constructions, and more than there is room for."""
    if len(methods) > MOST_METHODS:
        raise unmask.MethodError(
            f"{len(methods)} constructions are chosen; the page has room for {MOST_METHODS}"
        )
    for name in methods:
        if name not in unmask.CONSTRUCTIONS:
            raise unmask.MethodError(f"there is no construction {quoted(name)}")


def left_out(question: DemoQuestion, blanks: int) -> list[str]:
    """The chosen constructions that do not exist for so many blanks."""
    return [name for name in question.methods if name not in constructions_of(blanks)]
