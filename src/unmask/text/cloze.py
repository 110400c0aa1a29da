"""A text with blanks becomes token ids and positions, or one clear error.

Knows a tokenizer's interface, not a model. Every outcome is a `Cloze` or a `ClozeError`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Protocol, runtime_checkable

from unmask.errors import ClozeError
from unmask.printable import printable, quoted
from unmask.text.spans import Blank as Blank
from unmask.text.spans import Span, checked_blanks, places_of_span, span_of_place, span_of_word
from unmask.text.spans import trimmed as trimmed

# other ways to write a blank: named when a text holds one that this model ignores
_OTHER_BLANKS = ("[MASK]", "<mask>", "<|mask|>", "___")


@runtime_checkable
class Tokenizer(Protocol):
    """The part of a Hugging Face tokenizer that is used."""

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
    """A tokenised text whose blanks hold the mask token.

    `positions` are flat, blank after blank; `widths` is how many of them each blank has (None: one
    each). `spans` are the characters that each blank covers in a text without mask tokens.
    `unknown` are the parts of the text around the blanks that the vocabulary has no token for.

    Examples:
        >>> lm.cloze("Two [MASK] are [MASK].").positions
        (2, 4)
    """

    text: str
    ids: tuple[int, ...]
    positions: tuple[int, ...]
    gold: tuple[int, ...] | None = None
    widths: tuple[int, ...] | None = None
    spans: tuple[Span, ...] | None = None
    unknown: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Length in tokens, special tokens included."""
        return len(self.ids)

    @property
    def blank_widths(self) -> tuple[int, ...]:
        """The number of consecutive positions of each blank."""
        return (1,) * len(self.positions) if self.widths is None else self.widths

    @property
    def positions_by_blank(self) -> tuple[tuple[int, ...], ...]:
        """The positions of each blank."""
        rest = iter(self.positions)
        return tuple(tuple(islice(rest, width)) for width in self.blank_widths)

    def with_widths(self, widths: Sequence[int]) -> "Cloze":
        """The mask of each blank repeated `widths` times; without `gold` if a width changes."""
        if tuple(widths) == self.blank_widths:
            return self
        runs = self.positions_by_blank
        width_at = {run[0]: width for run, width in zip(runs, widths, strict=True)}
        dropped = {place for run in runs for place in run[1:]}
        ids: list[int] = []
        new_runs: dict[int, range] = {}
        for place, token in enumerate(self.ids):
            if place not in dropped:
                width = width_at.get(place, 1)
                new_runs[place] = range(len(ids), len(ids) + width)
                ids += [token] * width
        positions = tuple(place for run in runs for place in new_runs[run[0]])
        new_widths = None if len(positions) == len(runs) else tuple(widths)
        return replace(self, ids=tuple(ids), positions=positions, gold=None, widths=new_widths)

    def one_token_each(self) -> "Cloze":
        """The same blanks with one position each, for single tokens, and without `gold`."""
        return replace(self.with_widths([1] * len(self.blank_widths)), gold=None)

    def filled(self, tokens: Sequence[int]) -> list[int]:
        """The ids with tokens written into the blanks."""
        ids = list(self.ids)
        for position, token in zip(self.positions, tokens, strict=True):
            ids[position] = token
        return ids


def parse_cloze(
    text: object, tokenizer: Tokenizer, *, blanks: object = None, max_length: int | None = None
) -> Cloze:
    """Read a text with mask tokens, or an ordinary text with `blanks`.

    `blanks` are character spans `(start, end)` that each cover one or more whole tokens, words or
    phrases that occur once in the text, or indices of tokens counted with the special tokens the
    tokenizer adds. They keep the order they are given in; mask tokens go left to right, one blank
    each. What a blank covered is kept as `gold`. Both are typed as objects because anything else
    is answered too, with a `ClozeError`.
    """
    sentence = checked_text(text)
    checked = [] if blanks is None else checked_blanks(blanks)
    if not tokenizer.is_fast and not all(isinstance(blank, int) for blank in checked):
        raise ClozeError(
            "this tokenizer keeps no character offsets; give blanks as token indices or write "
            f"{printable(tokenizer.mask_token)} into the text"
        )
    offsets = tokenizer.is_fast and bool(checked)
    try:
        encoding = tokenizer(sentence, verbose=False, return_offsets_mapping=offsets)
    except Exception as error:  # a vocabulary without an unknown token fails on an unknown word
        raise ClozeError(f"the tokenizer cannot read the text: {quoted(str(error))}") from error
    ids = [int(token) for token in encoding["input_ids"]]
    if max_length is not None and len(ids) > max_length:
        raise ClozeError(f"the text has {len(ids)} tokens; this model takes at most {max_length}")
    masks = [place for place, token in enumerate(ids) if token == tokenizer.mask_token_id]
    if checked and masks:
        raise ClozeError(
            f"the text already holds {len(masks)} {printable(tokenizer.mask_token)}; "
            "give blanks or mask tokens, not both"
        )
    if checked:
        return _with_blanks(sentence, ids, checked, encoding, tokenizer)
    if not masks:
        mask = printable(tokenizer.mask_token)
        blank = re.compile("|".join(map(re.escape, (mask, *_OTHER_BLANKS))), re.IGNORECASE)
        other = next((written for written in blank.findall(sentence) if written != mask), None)
        raise ClozeError(
            f"no blank: write {mask} where a token is missing, or name the words to blank"
            if other is None
            else f"no blank: the text has {quoted(other)}, but this model writes blanks as {mask}"
        )
    unknown = unknown_parts(sentence, ids, tokenizer)
    return Cloze(sentence, tuple(ids), tuple(masks), unknown=unknown)


def checked_text(text: object) -> str:
    """The text itself; raises where it is not one."""
    if not isinstance(text, str):
        one_by_one = "; give several texts one by one" if isinstance(text, list | tuple) else ""
        raise ClozeError(f"a text is a string, not {type(text).__name__}{one_by_one}")
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


def unknown_parts(text: str, ids: Sequence[int], tokenizer: Tokenizer) -> tuple[str, ...]:
    """The parts of a text whose tokens are unknown, except a written unknown token.

    `ids` are those of the text, in its order; some may be masked. Without offsets, whole words.
    """
    unknown = tokenizer.unk_token_id
    if unknown is None or unknown not in ids:
        return ()
    written = str(tokenizer.convert_ids_to_tokens([unknown])[0])
    if tokenizer.is_fast:
        offsets = tokenizer(text, verbose=False, return_offsets_mapping=True)["offset_mapping"]
        spans = [span for token, span in zip(ids, offsets, strict=True) if token == unknown]
        # tokens that are put around a text cover nothing of it
        parts = [text[low:high].strip() for low, high in spans if low < high]
    else:
        bare = {"verbose": False, "add_special_tokens": False}
        words = text.split()
        parts = [word for word in words if unknown in tokenizer(word, **bare)["input_ids"]]
    return tuple(part for part in parts if part != written)


def _with_blanks(
    text: str,
    ids: list[int],
    blanks: list[Blank],
    encoding: Any,
    tokenizer: Tokenizer,
) -> Cloze:
    offsets: list[Span] | None = encoding.get("offset_mapping")
    placed = [span_of_word(blank, text) if isinstance(blank, str) else blank for blank in blanks]
    positions, widths = list[int](), list[int]()
    spans: list[Span | None] = []
    for blank, place in zip(blanks, placed, strict=True):
        if isinstance(place, tuple):
            run = places_of_span(place, text, encoding["offset_mapping"], encoding.word_ids())
            spans.append(trimmed(text, place))
        elif not 0 <= place < len(ids):
            raise ClozeError(
                f"there is no token {quoted(place)}; the text has tokens 0 to {len(ids) - 1}"
            )
        else:
            run = range(place, place + 1)
            spans.append(None if offsets is None else span_of_place(place, text, offsets))
        for position in run:
            if position in positions:
                raise ClozeError(f"blanks overlap: {quoted(blank)} names token {position} again")
            # an unknown word is an ordinary word of the text: it may be masked
            token = ids[position]
            if token in tokenizer.all_special_ids and token != tokenizer.unk_token_id:
                name = quoted(tokenizer.convert_ids_to_tokens([token])[0])
                raise ClozeError(
                    f"token {position} is the special token {name}, which cannot be a blank"
                )
        positions += run
        widths.append(len(run))
    masked = list(ids)
    for position in positions:
        masked[position] = tokenizer.mask_token_id
    whole = tuple(span for span in spans if span is not None)
    return Cloze(
        text,
        ids=tuple(masked),
        positions=tuple(positions),
        gold=tuple(ids[position] for position in positions),
        widths=None if len(positions) == len(widths) else tuple(widths),
        spans=whole if len(whole) == len(spans) else None,
        unknown=unknown_parts(text, masked, tokenizer),
    )
