"""The words of a text, as runs of the tokenizer's pieces. Knows a tokenizer's interface only.

A word is a run of pieces that the tokenizer's own splitting keeps together (`word_ids`) and that
no white space separates: BERT's and RoBERTa's tokenizers make punctuation a word of its own,
SentencePiece leaves it with the word before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unmask.errors import ClozeError
from unmask.printable import quoted
from unmask.text.spans import Blank, Span, trimmed


@dataclass(frozen=True)
class Word:
    """Consecutive scored tokens, from one place to before another, and the characters they are."""

    first: int
    last: int
    start: int
    end: int
    text: str


def joined_words(
    text: str, places: Sequence[int], word_ids: Sequence[int | None], offsets: Sequence[Span]
) -> tuple[Word, ...]:
    """Pieces that belong together; a piece of nothing but space belongs to what follows it."""
    words: list[Word] = []
    for rank, place in enumerate(places):
        start, end = offsets[place]
        piece = text[start:end]
        inner = piece.strip()
        if inner and inner != piece:
            start, end = trimmed(text, (start, end))
        before = words[-1] if rank and word_ids[places[rank - 1]] == word_ids[place] else None
        blank = before is not None and not before.text.strip()
        if before is None or (not blank and any(map(str.isspace, text[before.end : start]))):
            words.append(Word(rank, rank + 1, start, end, text[start:end]))
            continue
        low, high = start if blank else before.start, max(end, before.end)
        words[-1] = Word(before.first, rank + 1, low, high, text[low:high])
    return tuple(words)


def every_word(text: str, tokenizer: Any) -> list[Blank]:
    """All words of a text, as blanks: spans, or token indices where there are no offsets."""
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    try:
        if not tokenizer.is_fast:
            ids = tokenizer(text, verbose=False)["input_ids"]
            return [place for place, token in enumerate(ids) if token not in special]
        encoded = tokenizer(
            text, verbose=False, return_offsets_mapping=True, return_special_tokens_mask=True
        )
    except Exception as error:  # a vocabulary without an unknown token fails on an unknown word
        raise ClozeError(f"the tokenizer cannot read the text: {quoted(str(error))}") from error
    added = encoded["special_tokens_mask"]
    places = [p for p, t in enumerate(encoded["input_ids"]) if t not in special and not added[p]]
    words = joined_words(text, places, encoded.word_ids(), encoded["offset_mapping"])
    # line breaks and further spaces are pieces of some vocabularies, and no words
    return [(word.start, word.end) for word in words if text[word.start : word.end].strip()]
