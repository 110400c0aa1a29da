"""The blanks of an ordinary text: spans, words and indices become places of tokens.

Knows a text, the character offsets of its tokens and which of them one word has; neither tokenizer
nor model.
"""

import re
import unicodedata
from collections.abc import Sequence

from unmask.arguments import whole_number
from unmask.errors import ClozeError
from unmask.printable import quoted

Span = tuple[int, int]
Blank = int | Span | str

# a word of a long text may occur often: an error stays one readable line
_SPANS_LISTED = 6


def checked_blanks(blanks: object, name: str = "blanks") -> list[Blank]:
    """The caller's `blanks=`, or an argument of another name, as indices, spans and words.

    A `ClozeError` if they are neither.
    """
    if isinstance(blanks, str | bytes) or not isinstance(blanks, Sequence):
        raise ClozeError(f"{name} is a list of spans, words or token indices, not {quoted(blanks)}")
    if not blanks:
        raise ClozeError(f"{name} is empty; give at least one span, word or token index")
    checked: list[Blank] = []
    for blank in blanks:
        pair = blank if isinstance(blank, tuple | list) and len(blank) == 2 else (None, None)
        start, end = map(whole_number, pair)
        index = whole_number(blank)
        if isinstance(blank, str):
            checked.append(blank)
        elif index is not None:
            checked.append(index)
        elif start is not None and end is not None:
            checked.append((start, end))
        else:
            raise ClozeError(
                f"a {name[:-1]} is a token index, a span (start, end) or a word of the text, not "
                f"{quoted(blank)}"
            )
    return checked


def places_of_span(
    span: Span, text: str, offsets: Sequence[Span], words: Sequence[int | None]
) -> range:
    """The tokens that a span covers, each of them whole, and the space that their word begins with.

    Characters of the span that no token holds are allowed: tokenizers drop control characters
    and some accents.
    """
    if not 0 <= span[0] < span[1] <= len(text):
        raise ClozeError(
            f"span {_shown(span)} does not lie in the text, which has {len(text)} characters"
        )
    start, end = trimmed(text, span)
    covered = [
        place
        for place, (low, high) in enumerate(offsets)
        if low < high and low < end and high > start
    ]
    phrase = quoted(text[span[0] : span[1]])
    if not covered:
        raise ClozeError(f"span {_shown(span)}, {phrase}, covers no token")
    for place in covered:
        low, high = trimmed(text, offsets[place])
        if low < start or high > end:
            relation = "is a part" if len(covered) == 1 else "holds a part"
            raise ClozeError(
                f"span {_shown(span)}, {phrase}, {relation} of the token "
                f"{quoted(text[low:high])} at {_shown((low, high))}"
            )
    first = covered[0]
    # a mask token that is typed there takes the space before it, also where that is a piece alone
    if first and words[first] is not None and words[first - 1] == words[first]:
        # no line break and no tab: those part words; a trimmed space has no characters at all
        before = text[slice(*offsets[first - 1])]
        first -= all(unicodedata.category(ch) == "Zs" for ch in before)
    # tokens of no width in between, such as a single space, belong to the span
    return range(first, covered[-1] + 1)


def span_of_word(word: str, text: str) -> Span:
    """The span of a word or phrase that occurs once, not counting parts of other words."""
    sought = word.strip()
    if not sought:
        raise ClozeError("a blank is an empty word; give a word of the text or a span (start, end)")
    # a lookahead: they may overlap
    starts = (match.start() for match in re.finditer(f"(?={re.escape(sought)})", text))
    spans = [(start, start + len(sought)) for start in starts]
    whole = [span for span in spans if not _inside_a_word(span, text)]
    if len(whole) == 1:
        return whole[0]
    if whole:
        raise ClozeError(
            f"{quoted(sought)} occurs {len(whole)} times, at {_listed(whole)}; "
            "give one of these spans"
        )
    if spans:
        raise ClozeError(
            f"{quoted(sought)} occurs only inside other words, at {_listed(spans)}; "
            "give a span if that is meant"
        )
    raise ClozeError(f"{quoted(sought)} does not occur in the text; a blank is a word as written")


def span_of_place(place: int, text: str, offsets: Sequence[Span]) -> Span | None:
    """The characters of one token, or None where they are another token's too.

    Bytes of one character are such tokens: nothing else can be written in place of one of them.
    """
    low, high = offsets[place]
    others = (span for other, span in enumerate(offsets) if other != place)
    if any(start < high and end > low for start, end in others if start < end):
        return None
    start, end = trimmed(text, (low, high))
    return (start, end) if start < end else (low, high)


def trimmed(text: str, span: Span) -> Span:
    """The span without the white space at its ends: byte-level tokens may own a leading space."""
    start, end = span
    inner = text[start:end]
    return start + len(inner) - len(inner.lstrip()), end - len(inner) + len(inner.rstrip())


def _inside_a_word(span: Span, text: str) -> bool:
    start, end = span
    before, after = text[start - 1 : start] if start else "", text[end : end + 1]
    pairs = ((before, text[start]), (text[end - 1], after))
    return any(_in_words(left) and _in_words(right) for left, right in pairs)


def _in_words(ch: str) -> bool:
    # Chinese and Japanese write no spaces: there every character may end a word
    if not ch or unicodedata.east_asian_width(ch) == "W":
        return False
    return ch.isalnum() or ch == "_" or unicodedata.category(ch).startswith("M")


def _listed(spans: Sequence[Span]) -> str:
    more = ", ..." if len(spans) > _SPANS_LISTED else ""
    return ", ".join(map(_shown, spans[:_SPANS_LISTED])) + more


def _shown(span: Span) -> str:
    return f"{quoted(span[0])}:{quoted(span[1])}"
