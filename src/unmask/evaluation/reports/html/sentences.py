"""Sentences of a corpus as a page shows them: in pieces, two of which were masked.

They are the corpus's own text: nothing is here unless the report was asked to show it.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from unmask.evaluation.rows import ResultRow, Spans

# of a long text, so many characters at each side of a blank are shown
_CONTEXT = 120
_CUT = "\N{HORIZONTAL ELLIPSIS}"


class SentencePiece(NamedTuple):
    """A part of a sentence; that of a blank is the masked text."""

    text: str
    blank: bool


def sentence(row: ResultRow, texts: Mapping[str, str]) -> tuple[SentencePiece, ...]:
    """The sentence of an example in pieces, none if its text is not among these.

    Where the tokenizer keeps no offsets, no piece is a blank.
    """
    text = texts.get(row.sentence_id)
    if text is None:
        return ()
    return tuple(one for one in _pieces(text, row.spans or ()) if one.text)


def _pieces(text: str, spans: Spans | tuple[()]) -> Iterator[SentencePiece]:
    end = 0
    for start, stop in sorted(spans):
        # two tokens may share a character
        start = max(start, end)
        yield SentencePiece(_shortened(text[end:start], first=_CONTEXT if end else 0), blank=False)
        yield SentencePiece(text[start:stop], blank=True)
        end = max(end, stop)
    yield SentencePiece(_shortened(text[end:], last=0), blank=False)


def _shortened(text: str, *, first: int = _CONTEXT, last: int = _CONTEXT) -> str:
    """So many characters from the start and to the end; all of a text that has no more."""
    if len(text) <= first + last:
        return text
    return f"{text[:first]}{_CUT}{text[len(text) - last :]}"
