"""A text with blanks becomes token ids and positions, or one clear refusal.

Knows a tokenizer's interface, not a model. Every outcome is a `Cloze` or a `ClozeError`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from unmask.errors import ClozeError
from unmask.numbers import whole_number
from unmask.printable import printable, quoted

# how other models, and people, write a blank: named when a text holds one that this model ignores
_OTHER_BLANKS = ("[MASK]", "<mask>", "<|mask|>", "___")

Blank = int | tuple[int, int]


@runtime_checkable
class Tokenizer(Protocol):
    """What is used of a Hugging Face tokenizer."""

    mask_token: str
    mask_token_id: int
    unk_token_id: int | None
    all_special_ids: list[int]
    is_fast: bool

    def __call__(self, text: str, **options: Any) -> Mapping[str, Any]:
        """Token ids of a text, with offsets where the tokenizer has them."""

    def convert_ids_to_tokens(self, ids: Any) -> Any:
        """Vocabulary names of ids."""

    def decode(self, ids: Any, **options: Any) -> str:
        """The text of ids."""


@dataclass(frozen=True)
class Cloze:
    """A tokenised text whose blanks hold the mask token."""

    text: str
    ids: tuple[int, ...]
    positions: tuple[int, ...]
    gold: tuple[int, ...] | None = None

    def __len__(self) -> int:
        """Length in tokens, special tokens included."""
        return len(self.ids)

    def filled(self, tokens: Sequence[int]) -> list[int]:
        """The ids with tokens written into the blanks."""
        ids = list(self.ids)
        for position, token in zip(self.positions, tokens, strict=True):
            ids[position] = token
        return ids


def parse_cloze(
    text: object,
    tokenizer: Tokenizer,
    *,
    blanks: object = None,
    max_length: int | None = None,
) -> Cloze:
    """Read a text with mask tokens, or an ordinary text with `blanks`.

    `blanks` are character spans `(start, end)` that each cover exactly one token, or indices of
    tokens counted with the special tokens the tokenizer adds. They keep the order they are given
    in; mask tokens go left to right. What a blank covered is kept as `gold`. Both are typed as
    objects because anything else is answered too, with a `ClozeError`.
    """
    said = _checked_text(text)
    asked = None if blanks is None else _checked_blanks(blanks)
    encoding = _encoded(said, tokenizer, spans=any(isinstance(b, tuple) for b in asked or ()))
    ids = [int(token) for token in encoding["input_ids"]]
    if max_length is not None and len(ids) > max_length:
        raise ClozeError(f"the text has {len(ids)} tokens; this model takes at most {max_length}")
    masks = [place for place, token in enumerate(ids) if token == tokenizer.mask_token_id]
    if asked is None:
        if not masks:
            raise ClozeError(_no_blank(said, tokenizer))
        return Cloze(said, tuple(ids), tuple(masks))
    if masks:
        raise ClozeError(
            f"the text already holds {len(masks)} {printable(tokenizer.mask_token)}; "
            "give blanks= or mask tokens, not both"
        )
    return _with_blanks(said, ids, asked, encoding, tokenizer)


def _encoded(text: str, tokenizer: Tokenizer, *, spans: bool) -> Mapping[str, Any]:
    if spans and not tokenizer.is_fast:
        raise ClozeError(
            "this tokenizer keeps no character offsets; give blanks as token indices or write "
            f"{printable(tokenizer.mask_token)} into the text"
        )
    try:
        return tokenizer(text, verbose=False, return_offsets_mapping=spans)
    except Exception as error:  # a vocabulary without an unknown token fails on an unknown word
        raise ClozeError(f"the tokenizer cannot read the text: {quoted(str(error))}") from error


def _checked_text(text: object) -> str:
    if not isinstance(text, str):
        raise ClozeError(f"a text is a string, not {type(text).__name__}")
    if not text.strip():
        raise ClozeError("the text is empty")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ClozeError(
            f"the text holds half of a surrogate pair at character {error.start}; "
            "decode it as UTF-16 or remove it"
        ) from None
    return text


def _no_blank(text: str, tokenizer: Tokenizer) -> str:
    mask = printable(tokenizer.mask_token)
    other = next((b for b in _OTHER_BLANKS if b in text and b != mask), None)
    if other:
        return f"no blank: the text has {quoted(other)}, but this model writes blanks as {mask}"
    return f"no blank: write {mask} where a token is missing, or give blanks="


def _checked_blanks(blanks: object) -> list[Blank]:
    if isinstance(blanks, str | bytes) or not isinstance(blanks, Sequence):
        raise ClozeError(f"blanks is a list of spans or token indices, not {quoted(blanks)}")
    if not blanks:
        raise ClozeError("blanks is empty; give at least one span or token index")
    return [_checked_blank(blank) for blank in blanks]


def _checked_blank(blank: object) -> Blank:
    index = whole_number(blank)
    if index is not None:
        return index
    if isinstance(blank, tuple | list) and len(blank) == 2:
        start, end = (whole_number(side) for side in blank)
        if start is not None and end is not None:
            return (start, end)
    raise ClozeError(f"a blank is a token index or a span (start, end), not {quoted(blank)}")


def _with_blanks(
    text: str,
    ids: list[int],
    blanks: list[Blank],
    encoding: Mapping[str, Any],
    tokenizer: Tokenizer,
) -> Cloze:
    positions = [
        _at_index(blank, ids)
        if isinstance(blank, int)
        else _at_span(blank, text, ids, encoding["offset_mapping"], tokenizer)
        for blank in blanks
    ]
    for place, position in enumerate(positions):
        if position in positions[:place]:
            raise ClozeError(
                f"blanks overlap: {quoted(blanks[place])} names token {position} again"
            )
        _refuse_special(ids[position], position, tokenizer)
    gold = tuple(ids[position] for position in positions)
    masked = [tokenizer.mask_token_id if i in positions else t for i, t in enumerate(ids)]
    return Cloze(text, tuple(masked), tuple(positions), gold)


def _at_index(index: int, ids: list[int]) -> int:
    if not 0 <= index < len(ids):
        raise ClozeError(
            f"there is no token {quoted(index)}; the text has tokens 0 to {len(ids) - 1}"
        )
    return index


def _at_span(
    span: tuple[int, int],
    text: str,
    ids: list[int],
    offsets: Sequence[tuple[int, int]],
    tokenizer: Tokenizer,
) -> int:
    if not 0 <= span[0] < span[1] <= len(text):
        raise ClozeError(
            f"span {quoted(span)} does not lie in the text, which has {len(text)} characters"
        )
    start, end = trimmed(text, span)
    covered = [
        place
        for place, (low, high) in enumerate(offsets)
        if low < high and low < end and high > start
    ]
    shown = quoted(text[span[0] : span[1]])
    if not covered:
        raise ClozeError(f"span {span}, {shown}, covers no token")
    if len(covered) > 1:
        pieces = tokenizer.convert_ids_to_tokens([ids[place] for place in covered])
        raise ClozeError(
            f"span {span}, {shown}, is {len(covered)} pieces, {', '.join(map(quoted, pieces))}; "
            "a blank holds one piece"
        )
    (place,) = covered
    low, high = trimmed(text, offsets[place])
    if (low, high) != (start, end):
        raise ClozeError(
            f"span {span}, {shown}, is a part of the token {quoted(text[low:high])} "
            f"at ({low}, {high})"
        )
    return place


def trimmed(text: str, span: tuple[int, int]) -> tuple[int, int]:
    """The span without the white space at its ends: byte-level tokens may own a leading space."""
    start, end = span
    inner = text[start:end]
    return start + len(inner) - len(inner.lstrip()), end - len(inner) + len(inner.rstrip())


def _refuse_special(token: int, position: int, tokenizer: Tokenizer) -> None:
    # a word that the vocabulary does not know is an ordinary word of the text: it may be masked
    if token in tokenizer.all_special_ids and token != tokenizer.unk_token_id:
        name = tokenizer.convert_ids_to_tokens([token])[0]
        raise ClozeError(
            f"token {position} is the special token {quoted(name)}, which cannot be a blank"
        )
