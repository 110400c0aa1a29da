"""The question of a visitor, checked; and the same as a link that asks it again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import parse_qs, urlencode

import unmask
from unmask.constructions import DEFAULT_METHOD, METHOD_WITHOUT_TABLES, constructions_of
from unmask.demo.words import Blanked, blanked, pieces
from unmask.printable import quoted

# constructions that need no whole table: a first answer while others wait for theirs
CHEAP = tuple(name for name, one in unmask.CONSTRUCTIONS.items() if not one.needs((2, 2), {}).whole)
# the one of them that answers for any number of blanks where none was chosen
QUICK = METHOD_WITHOUT_TABLES
DEFAULT_METHODS = ("mlm", DEFAULT_METHOD)
# what a page has room for, and a machine that others use too
LONGEST_TEXT, MOST_BLANKS, MOST_METHODS = 400, 4, 4
# what is looked at of any text: a character more, so that one that is too long still is when cut
LOOKED_AT = LONGEST_TEXT + 1


@dataclass(frozen=True)
class Offer:
    """What visitors may choose from: the model's mask token, and numbers of candidates per blank.

    `passes` is the limit of forward passes for one exact answer.
    """

    mask: str
    candidates: tuple[int, ...]
    passes: int


@dataclass(frozen=True)
class Question:
    """A text, which of its pieces are blank, by which constructions, over how many candidates.

    `candidates` is how many the model proposes per blank; 0 stands for the whole vocabulary.
    """

    text: str
    chosen: tuple[int, ...] = ()
    methods: tuple[str, ...] = DEFAULT_METHODS
    candidates: int = 0

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
                "candidates": self.candidates,
            }
        )


def from_query(query: str, default: Question, offer: Offer) -> Question | None:
    """The question of a link, None where it has no text. What is not on offer is left out."""
    fields = {key: values[-1] for key, values in parse_qs(query.lstrip("?")[:8_000]).items()}
    if not fields.get("text"):
        return None
    named = fields.get("methods", "").split(",")
    methods = [name for name in named if name in unmask.CONSTRUCTIONS]
    candidates = next(iter(numbers(fields.get("candidates", ""))), default.candidates)
    return Question(
        fields["text"][:LOOKED_AT],
        numbers(fields.get("blanks", "")),
        tuple(dict.fromkeys(methods))[:MOST_METHODS] or default.methods,
        candidates if candidates in offer.candidates else default.candidates,
    )


def numbers(written: str) -> tuple[int, ...]:
    """Whole numbers between commas; everything else is left out."""
    parts = [part.strip() for part in written[:1000].split(",")]
    # Python raises on numbers of thousands of digits
    short = [part for part in parts if part.isascii() and part.isdigit() and len(part) < 7]
    return tuple(sorted(set(map(int, short))))


def toggled(question: Question, place: object, word: object, mask: str) -> Question:
    """The question with one more word blank, or one less; as it is if that word is not there."""
    found = pieces(question.text, mask)
    words = {at for at, piece in enumerate(found) if piece.kind == "word"}
    if not isinstance(place, int) or place not in words or found[place].text != word:
        return question
    return replace(question, chosen=tuple(sorted((set(question.chosen) & words) ^ {place})))


def check(question: Question, offer: Offer) -> Blanked:
    """The text as the model reads it; rejects what the page cannot answer, in one line.

    A page sends what it offers; others can send anything.
    """
    if len(question.text) > LONGEST_TEXT:
        raise unmask.ClozeError(
            f"the text has {len(question.text):,} characters; the demo takes {LONGEST_TEXT}"
        )
    found = question.blanked(offer.mask)
    if not found.words:
        raise unmask.ClozeError(
            "There is no blank to fill yet. "
            "Click the words to blank, or write [MASK] into the text."
        )
    if len(found.words) > MOST_BLANKS:
        raise unmask.ClozeError(
            f"the text has {len(found.words)} blanks; the demo takes up to {MOST_BLANKS}"
        )
    if not question.methods:
        raise unmask.MethodError("choose a construction")
    check_methods(question.methods)
    if question.candidates not in offer.candidates:
        raise unmask.SupportError("choose how many candidates each blank has")
    return found


def check_methods(methods: Sequence[str]) -> None:
    """Reject names that are not constructions, and more than there is room for."""
    if len(methods) > MOST_METHODS:
        raise unmask.MethodError(
            f"{len(methods)} constructions are chosen; the page has room for {MOST_METHODS}"
        )
    for name in methods:
        if name not in unmask.CONSTRUCTIONS:
            raise unmask.MethodError(f"there is no construction {quoted(name)}")


def methods_for(question: Question, blanks: int) -> tuple[list[str], list[str]]:
    """The chosen constructions that answer at once, and those that need tables.

    One of the first kind is always there, so that nobody waits in front of an empty page. With more
    than two blanks that is `orders` alone; others, `mlm` too, have to find their candidates first.
    """
    if blanks == 1:
        return ["mlm"], []
    at_once = CHEAP if blanks == 2 else (QUICK,)
    unfit = left_out(question, blanks)
    cheap = [name for name in question.methods if name in at_once]
    return cheap or [QUICK], [n for n in question.methods if n not in (*at_once, *unfit)]


def left_out(question: Question, blanks: int) -> list[str]:
    """The chosen constructions that do not exist for so many blanks."""
    return [name for name in question.methods if name not in constructions_of(blanks)]
