"""Whole texts become token ids, the positions that are scored, and words, or one clear error.

Special tokens are never scored; an unknown word is a token of the text, and is.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast
from unicodedata import east_asian_width

from unmask.errors import ClozeError, UnmaskWarning, warn
from unmask.model.masked_lm import FIRST_IS_NO_BLANK, first_blank
from unmask.printable import printable, quoted
from unmask.queries.joint_model import JointModel
from unmask.text.cloze import checked_text, unknown_parts
from unmask.text.unknown_tokens import check_known, special_parts
from unmask.text.words import Word, joined_words

# texts that are tokenised at once, and sorted by length together
TEXTS_PER_WINDOW = 2**16
_ITSELF = "the text"


# what stands before a text, or before and after it
Given = str | tuple[str, str]


class Continuation(str):
    """A whole text of which the characters of `span` are scored, given the others."""

    span: tuple[int, int]

    @classmethod
    def of(cls, text: str, prefix: str, suffix: str = "") -> "Continuation":
        """The text between what stands before and after it."""
        made = cls(prefix + text + suffix)
        made.span = len(prefix), len(prefix) + len(text)
        return made


def in_context(
    texts: Sequence[str], given: Given | Sequence[Given] | None, separator: str = ""
) -> Sequence[str]:
    """Texts with what each is given; a list has one for each text, None leaves them as they are."""
    if not isinstance(separator, str) or (separator and given is None):
        raise ClozeError(
            f"separator is what joins a text to what is given, not {quoted(separator)}"
            if given is not None
            else "separator joins a text to what is given; give given too, or leave it out"
        )
    if given is None or isinstance(texts, str) or not isinstance(texts, Sequence):
        return texts
    made: list[str] = []
    for text, context in zip(texts, contexts(given, len(texts), "texts"), strict=True):
        prefix, suffix = (context, "") if isinstance(context, str) else _two_texts(context)
        before = prefix + separator if prefix else ""
        after = separator + suffix if suffix else ""
        made.append(Continuation.of(text, before, after) if isinstance(text, str) else text)
    if any(_is_glued(text) for text in made if isinstance(text, Continuation)):
        # one sentence for all, which Python shows once
        warn(
            "letters of a text meet letters of what is given without a space; write the space, or "
            "let separator= be one",
            UnmaskWarning,
        )
    return made


def contexts(given: Given | Sequence[Given], count: int, what: str) -> list[Given]:
    """The context of each of so many texts or pairs."""
    each = list(given) if isinstance(given, list) else [cast(Given, given)] * count
    if len(each) != count:
        raise ClozeError(
            f"given has {len(each)} contexts for {count} {what}; give one context, or one for each"
        )
    return each


def _two_texts(context: object) -> tuple[str, str]:
    if (
        isinstance(context, tuple)
        and len(context) == 2
        and all(isinstance(part, str) for part in context)
    ):
        return context
    raise ClozeError(
        f"given is the text before, or a tuple of those before and after, not {quoted(context)}"
    )


def _is_glued(text: Continuation) -> bool:
    """True if two letters meet where the continuation begins or ends, in a script with spaces."""
    both = (text[max(0, place - 1) : place + 1] for place in text.span)
    return any(
        len(two) == 2 and all(c.isalpha() and east_asian_width(c) not in "WF" for c in two)
        for two in both
    )


@dataclass(frozen=True)
class TokenisedText:
    """A text as a model reads it; `places` are the positions of its tokens without special ones.

    Where the tokenizer keeps no offsets, every token is a word at characters -1 to -1. `unknown`
    are the parts of the text that the vocabulary has no token for, `unknown_words` the numbers of
    the words with such parts; `unknown_given` of the parts are not scored, but what it is given.
    `special` are the special tokens that are written in it.
    """

    text: str
    ids: tuple[int, ...]
    places: tuple[int, ...]
    words: tuple[Word, ...]
    unknown: tuple[str, ...] = ()
    unknown_words: tuple[int, ...] = ()
    unknown_given: int = 0
    special: tuple[str, ...] = ()

    @property
    def tokens(self) -> tuple[int, ...]:
        """The ids that are scored."""
        return tuple(self.ids[place] for place in self.places)

    @property
    def template(self) -> tuple[int, ...]:
        """The ids of its special tokens where they stand, -1 elsewhere."""
        scored = set(self.places)
        return tuple(-1 if place in scored else token for place, token in enumerate(self.ids))


Name = Callable[[int], str]


def tokenised(
    lm: JointModel, texts: Sequence[str] | Sequence[TokenisedText], name: Name = "text {}".format
) -> Iterator[list[TokenisedText]]:
    """All texts, some at a time; a bad one is rejected, by its name, before the first is given.

    Texts that were tokenised before stay as they are.
    """
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        raise ClozeError(f"texts is a text or a list of texts, not {quoted(texts)}")
    done = [text for text in texts if isinstance(text, TokenisedText)]
    if done and len(done) == len(texts):
        yield from (done[n : n + TEXTS_PER_WINDOW] for n in range(0, len(done), TEXTS_PER_WINDOW))
        return
    plain = cast(Sequence[str], texts)
    if len(texts) > TEXTS_PER_WINDOW:
        # the last of a million texts is rejected now, not after hours
        for _ in _windows(lm, plain, name):
            pass
    yield from _windows(lm, plain, name)


def tokenised_or_reasons(
    lm: JointModel, texts: Sequence[str], *, any_length: bool = False
) -> list[TokenisedText | str]:
    """Each text as the model reads it, or why it cannot: one that it cannot take stops no other.

    With `any_length` also texts that are longer than the model takes.
    """
    pairs = zip(texts, _each(lm, texts, any_length), strict=True)
    return [_reason(read, text) if isinstance(read, ClozeError) else read for text, read in pairs]


def read_text(lm: JointModel, text: str) -> TokenisedText:
    """One text as the model reads it; one that it cannot take is rejected."""
    (read,) = tokenised_or_reasons(lm, [text])
    if isinstance(read, str):
        raise ClozeError(read if read.startswith(_ITSELF) else f"{_ITSELF}: {read}")
    return read


def _reason(error: ClozeError, text: object) -> str:
    # the text stands beside its reason
    return str(error).removesuffix(f": {quoted(text)}").removeprefix(f"{_ITSELF}: ")


def _windows(lm: JointModel, texts: Sequence[str], name: Name) -> Iterator[list[TokenisedText]]:
    for start in range(0, len(texts), TEXTS_PER_WINDOW):
        window: list[TokenisedText] = []
        for number, text in enumerate(_each(lm, texts[start : start + TEXTS_PER_WINDOW]), start):
            if isinstance(text, ClozeError):
                raise ClozeError(f"{name(number)}{str(text).removeprefix(_ITSELF)}")
            window.append(text)
        yield window


# --- one window --------------------------------------------------------------------------------

Encoded = tuple[tuple[int, ...], tuple[int, ...], tuple[Word, ...]]


def _each(
    lm: JointModel, texts: Sequence[str], any_length: bool = False
) -> list[TokenisedText | ClozeError]:
    """Each text as the model reads it, or an error that begins with `_ITSELF`."""
    errors = {number: why for number, text in enumerate(texts) if (why := _unusable(lm, text))}
    usable = [text for number, text in enumerate(texts) if number not in errors]
    read = zip(usable, _encoded(lm.tokenizer, usable), strict=True)
    special = set(getattr(lm.tokenizer, "all_special_tokens", ()))
    made = iter([_made(lm, text, encoded, special, any_length) for text, encoded in read])
    return [errors.get(number) or next(made) for number in range(len(texts))]


def _unusable(lm: JointModel, text: object) -> ClozeError | None:
    try:
        checked_text(text)
        if isinstance(text, Continuation):
            checked_text(text[slice(*text.span)])
        if isinstance(text, Continuation) and not lm.tokenizer.is_fast:
            raise ClozeError(
                "this tokenizer keeps no character offsets, so the tokens of a continuation are "
                "not known; score whole texts"
            )
    except ClozeError as error:
        return ClozeError(f"{_ITSELF}: {error}")
    return None


def _made(
    lm: JointModel,
    text: str,
    encoded: Encoded | ClozeError,
    special: Collection[str],
    any_length: bool,
) -> TokenisedText | ClozeError:
    if isinstance(encoded, ClozeError):
        return encoded
    try:
        made = _with_unknown(TokenisedText(text, *encoded), lm.tokenizer)
        _check(lm, made, any_length)
    except ClozeError as error:
        return error
    if isinstance(text, Continuation):
        made = _alone(made, text, lm.tokenizer.unk_token_id)
    return replace(made, special=special_parts(made.text, special))


def _alone(made: TokenisedText, text: Continuation, unknown: int | None) -> TokenisedText:
    """A continuation without what it is given: the characters of its words count from its own."""
    low, high = text.span
    unknown_words = (made.words[number] for number in made.unknown_words)
    count = sum(made.tokens[word.first : word.last].count(unknown) for word in unknown_words)
    words = (replace(word, start=word.start - low, end=word.end - low) for word in made.words)
    around = len(made.unknown) - count
    return replace(made, text=text[low:high], words=tuple(words), unknown_given=around)


def _encoded(tokenizer: Any, texts: list[str]) -> list[Encoded | ClozeError]:
    """All together if the tokenizer can read all, else one by one."""
    read = _read_fast if tokenizer.is_fast else _read_slow
    try:
        return list(read(tokenizer, texts)) if texts else []
    except Exception as error:  # a vocabulary without an unknown token fails on an unknown word
        if len(texts) > 1:
            return [encoded for text in texts for encoded in _encoded(tokenizer, [text])]
        why = f"the tokenizer cannot read it: {quoted(str(error))}"
        return [ClozeError(f"{_ITSELF}: {why}")]


def _with_unknown(text: TokenisedText, tokenizer: Any) -> TokenisedText:
    """The text with what its vocabulary has no token for."""
    parts = unknown_parts(text.text, text.ids, tokenizer)
    if not parts:
        return text
    # the unknown token may also be written into the text; without offsets every token is a name
    written, tokens = tokenizer.unk_token, text.tokens
    words = (
        number
        for number, word in enumerate(text.words)
        if tokenizer.unk_token_id in tokens[word.first : word.last]
        and (word.text != written or word.start < 0)
    )
    return replace(text, unknown=parts, unknown_words=tuple(words))


def _read_fast(tokenizer: Any, texts: list[str]) -> Iterator[Encoded]:
    options = {"return_offsets_mapping": True, "return_special_tokens_mask": True}
    # lists of Python numbers, of which only these are read
    unread = {"return_attention_mask": False, "return_token_type_ids": False}
    batch = tokenizer(texts, verbose=False, **options, **unread)
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    for index, text in enumerate(texts):
        ids = batch["input_ids"][index]
        # where one id is both the unknown word and a token that is put around texts
        added = batch["special_tokens_mask"][index]
        places = [p for p, t in enumerate(ids) if t not in special and not added[p]]
        if isinstance(text, Continuation):
            low, high = text.span
            spans = batch["offset_mapping"][index]
            # a token that reaches into the continuation is one of its own
            places = [p for p in places if spans[p][0] < high and spans[p][1] > low]
        words = joined_words(text, places, batch.word_ids(index), batch["offset_mapping"][index])
        yield tuple(ids), tuple(places), words


def _read_slow(tokenizer: Any, texts: list[str]) -> Iterator[Encoded]:
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    for text in texts:
        ids = tuple(int(t) for t in tokenizer(text, verbose=False)["input_ids"])
        places = tuple(p for p, t in enumerate(ids) if t not in special)
        tokens = tokenizer.convert_ids_to_tokens([ids[p] for p in places])
        words = (Word(rank, rank + 1, -1, -1, str(token)) for rank, token in enumerate(tokens))
        yield ids, places, tuple(words)


def _check(lm: JointModel, text: TokenisedText, any_length: bool) -> None:
    """Reject a text that the model cannot score."""
    if lm.model.mask_id in text.ids:
        raise ClozeError(
            f"{_ITSELF} holds {printable(lm.tokenizer.mask_token)}; a whole text has no blanks"
        )
    if not any_length and lm.max_length is not None and len(text.ids) > lm.max_length:
        raise ClozeError(
            f"{_ITSELF} has {len(text.ids)} tokens; this model takes at most {lm.max_length}"
        )
    size = lm.model.vocabulary_size
    beyond = [token for token in text.ids if token >= size and token != lm.model.mask_id]
    if beyond:
        raise ClozeError(
            f"{_ITSELF} has token id {beyond[0]}, but the model knows {size}; the tokenizer "
            "and the model do not belong together"
        )
    if text.places and text.places[0] < first_blank(lm.model):
        raise ClozeError(FIRST_IS_NO_BLANK)
    check_known(lm.tokenizer, text.unknown, text.ids, _ITSELF)
    if not text.places:
        raise ClozeError(f"{_ITSELF} has no token to score: {quoted(text.text)}")
