"""Candidates given as words: their pieces at a blank, tokenised in its context and never cut.

A word is written into the text in place of the blank and the whole is tokenised again; its pieces
are what stands between the unchanged tokens before and after. Where it grows together with its
neighbours so that their tokens would change, the neighbours stay as the model sees them around the
blank: on the right the text is cut off, and on the left the word is taken as the rest of a word
(`##able` in WordPiece, no leading space elsewhere). What comes out spells the word, or raises.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from unmask.arguments import whole_number
from unmask.errors import ClozeError, SupportError
from unmask.printable import quoted
from unmask.text.cloze import Cloze, Tokenizer
from unmask.text.spans import Span
from unmask.text.spelling import (
    continuation,
    id_of_name,
    ids_of_text,
    markers,
    name_of_id,
    same_spelling,
)
from unmask.text.support import SPACE_MARKERS


@dataclass(frozen=True)
class Candidate:
    """A word, and the pieces that it is at one blank."""

    word: str
    ids: tuple[int, ...]


@dataclass(frozen=True)
class _Frame:
    """The context of a blank: as text, and as tokens."""

    left: str
    right: str
    before: tuple[int, ...]
    after: tuple[int, ...]


def pieces_in_context(
    tokenizer: Tokenizer, cloze: Cloze, blank: int, words: Sequence[object]
) -> list[Candidate]:
    """The pieces of every word at a blank of a cloze, in the order given.

    A word is what you would type there: at `The <mask>` and `The<mask>`, `man` is `Ġman` and
    `man`. One leading space means the word after a space wherever the blank is. A name of the
    vocabulary with its marker (`##ing`, `Ġman`) or an id is a single piece as given.
    """
    frames = _frames(tokenizer, cloze, blank)
    candidates: dict[tuple[int, ...], Candidate] = {}
    for word in words:
        pieces = _as_given(tokenizer, word) or _in_context(tokenizer, frames, str(word))
        if pieces.ids in candidates:
            first, second = quoted(candidates[pieces.ids].word), quoted(pieces.word)
            names = ", ".join(quoted(name_of_id(tokenizer, token)) for token in pieces.ids)
            raise SupportError(
                f"the candidate {first} is given twice; give each once"
                if first == second
                else f"{first} and {second} are the same here, {names}; give one"
            )
        candidates[pieces.ids] = pieces
    return list(candidates.values())


def _frames(tokenizer: Tokenizer, cloze: Cloze, blank: int) -> list[_Frame]:
    narrow, mask = cloze.one_token_each(), tokenizer.mask_token
    spans: Sequence[Span] = cloze.spans or ()
    if not spans:
        spans = [match.span() for match in re.finditer(re.escape(mask), cloze.text)]
        read = tuple(ids_of_text(tokenizer, cloze.text))
        if len(spans) != len(narrow.positions) or read != narrow.ids:
            raise ClozeError(
                "the blanks of this cloze cannot be found in its text, which words need; read it "
                "with this tokenizer, with mask tokens in the text, or blanks as spans or words"
            )
    (start, end), place = spans[blank], narrow.positions[blank]
    left, right = cloze.text[:start], cloze.text[end:]
    # from the end, so that what comes before stays in its place
    for low, high in sorted(spans, reverse=True):
        if high <= start:
            left = left[:low] + mask + left[high:]
        elif low >= end:
            right = right[: low - end] + mask + right[high - end :]
    single, rest = left.rstrip() + " ", mask + right
    # many a mask token swallows all white space before it: a word has one space there
    if cloze.spans is None and left not in (left.rstrip(), single):
        same = ids_of_text(tokenizer, single + rest) == ids_of_text(tokenizer, left + rest)
        left = single if same else left
    frames = [_Frame(left, right, narrow.ids[:place], narrow.ids[place + 1 :])]
    if cloze.spans and cloze.gold and len(spans) > 1:
        # a mask inside a word may change the rest of it: then the other blanks hold their tokens
        gold, run = cloze.filled(cloze.gold), cloze.positions_by_blank[blank]
        around = tuple(gold[: run[0]]), tuple(gold[run[-1] + 1 :])
        frames.append(_Frame(cloze.text[:start], cloze.text[end:], *around))
    return frames


def _as_given(tokenizer: Tokenizer, word: object) -> Candidate | None:
    """A candidate that is one token of the vocabulary, by id or by a name with its marker."""
    if not isinstance(word, str):
        token = whole_number(word)
        if token is None:
            raise SupportError(f"a candidate is a word or a token id, not {quoted(word)}")
        name = name_of_id(tokenizer, token)
        if name is None:
            raise SupportError(f"token id {quoted(token)} is not in the vocabulary")
        return Candidate(name, (token,))
    marker = next((m for m in markers(tokenizer) if word.startswith(m) and word != m), None)
    if marker is None:
        return None
    named_token = id_of_name(tokenizer, word)
    if named_token is None:
        if not hasattr(tokenizer, "backend_tokenizer"):
            return None
        rest = word.removeprefix(marker)
        typed = " " + rest if marker in SPACE_MARKERS else rest
        raise SupportError(
            f"{quoted(word)} is not a token of the vocabulary; write {quoted(typed)} for its pieces"
        )
    return Candidate(word, (named_token,))


def _in_context(tokenizer: Tokenizer, frames: Sequence[_Frame], word: str) -> Candidate:
    if not word.strip():
        raise SupportError(f"{quoted(word)} is not a word: it is empty")
    if word.removeprefix(" ") != word.strip():
        raise SupportError(
            f"{quoted(word)} has white space around it; one space before a word is all it may have"
        )
    try:
        word.encode("utf-8")
    except UnicodeEncodeError:
        raise SupportError(f"{quoted(word)} holds half of a surrogate pair") from None
    tried = []
    for ids in _attempts(tokenizer, frames, word):
        tried.append(ids)
        special = next((token for token in ids if token in tokenizer.all_special_ids), None)
        if tokenizer.unk_token_id is not None and tokenizer.unk_token_id in ids:
            name = quoted(name_of_id(tokenizer, tokenizer.unk_token_id))
            raise SupportError(
                f"this vocabulary has no pieces for {quoted(word)}, which comes out as {name}; "
                "leave it out"
            )
        if special is not None:
            raise SupportError(
                f"{quoted(word)} holds the special token {quoted(name_of_id(tokenizer, special))}; "
                f"give the id {special} if that is meant"
            )
        if ids and same_spelling(tokenizer, word, ids):
            return Candidate(word, ids)
    if tried and not any(tried):
        raise SupportError(f"{quoted(word)} is not a word: the tokenizer makes no piece of it here")
    raise SupportError(
        f"{quoted(word)} cannot be written at this blank: its pieces here do not spell it; "
        "put a space next to the blank, or give token ids"
    )


def _attempts(
    tokenizer: Tokenizer, frames: Sequence[_Frame], word: str
) -> Iterator[tuple[int, ...]]:
    """Pieces between the tokens around the blank, from the strictest reading to the loosest."""
    for frame in frames:
        ids = _read(tokenizer, frame.left, word, frame.right)
        end = len(ids) - len(frame.after)
        if ids[end:] == frame.after and ids[: len(frame.before)] == frame.before:
            yield ids[len(frame.before) : max(end, len(frame.before))]
    for frame in frames:
        ids = _read(tokenizer, frame.left, word, tokenizer.mask_token)
        rest = ids[len(frame.before) :]
        if ids[: len(frame.before)] == frame.before and tokenizer.mask_token_id in rest:
            yield rest[: rest.index(tokenizer.mask_token_id)]
    # the word follows without a space, or after a piece that is only a space
    last, glued = frames[-1], not word.startswith(" ")
    glued &= bool(last.left) and not last.left[-1:].isspace()
    if glued or (last.before and name_of_id(tokenizer, last.before[-1]) in SPACE_MARKERS):
        yield continuation(tokenizer, word.strip())


def _read(tokenizer: Tokenizer, left: str, word: str, right: str) -> tuple[int, ...]:
    # a space that the caller writes is one space, also where the text has it already
    joined = left + (word.removeprefix(" ") if left.endswith(" ") else word)
    try:
        return tuple(ids_of_text(tokenizer, joined + right))
    except Exception as error:  # a vocabulary without an unknown token fails on an unknown word
        reason = quoted(str(error))
        raise SupportError(f"the tokenizer cannot read {quoted(word)}: {reason}") from error
