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
from unmask.queries.joint_model import JointModel, check_ids
from unmask.text.cloze import checked_text, unknown_parts
from unmask.text.unknown_tokens import check_known
from unmask.text.words import Word, joined_words

# texts that are tokenised at once, and sorted by length together
TEXTS_PER_WINDOW = 2**16

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
    match context:
        case (str(before), str(after)) if isinstance(context, tuple):
            return before, after
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
    starts = range(0, len(texts), TEXTS_PER_WINDOW)
    if all(isinstance(text, TokenisedText) for text in texts):
        done = cast(Sequence[TokenisedText], texts)
        yield from (list(done[start : start + TEXTS_PER_WINDOW]) for start in starts)
        return
    # twice if there are many: the last of a million texts is rejected now, not after hours
    for is_last_round in (False, True) if len(starts) > 1 else (True,):
        for start in starts:
            window: list[TokenisedText] = []
            plain = cast(Sequence[str], texts[start : start + TEXTS_PER_WINDOW])
            for number, text in enumerate(tokenised_or_reasons(lm, plain), start):
                if isinstance(text, str):
                    raise ClozeError(f"{name(number)}: {text}")
                window.append(text)
            if is_last_round:
                yield window


def read_text(lm: JointModel, text: str) -> TokenisedText:
    """One text as the model reads it; one that it cannot take is rejected."""
    (read,) = tokenised_or_reasons(lm, [text])
    if isinstance(read, str):
        raise ClozeError(read)
    return read


def tokenised_or_reasons(
    lm: JointModel, texts: Sequence[str], *, any_length: bool = False
) -> list[TokenisedText | str]:
    """Each text as the model reads it, or why it cannot: one that it cannot take stops no other.

    With `any_length` also texts that are longer than the model takes.
    """
    results: list[Any] = list(texts)
    usable = []
    for number, text in enumerate(texts):
        try:
            checked_text(text)
            if isinstance(text, Continuation):
                checked_text(text[slice(*text.span)])
                if not lm.tokenizer.is_fast:
                    raise ClozeError(
                        "this tokenizer keeps no character offsets, so the tokens of a "
                        "continuation are not known; score whole texts"
                    )
            usable.append(number)
        except ClozeError as error:
            results[number] = str(error)
    special = set(getattr(lm.tokenizer, "all_special_tokens", ()))
    encoded = _encoded(lm.tokenizer, [texts[number] for number in usable])
    for number, read in zip(usable, encoded, strict=True):
        try:
            results[number] = read
            if not isinstance(read, str):
                results[number] = _checked(lm, read, special, any_length)
        except ClozeError as error:
            results[number] = str(error)
    return results


def _encoded(tokenizer: Any, texts: Sequence[str]) -> list[TokenisedText | str]:
    """Ids, places and words of each text, or the reason why the tokenizer cannot read it."""
    options = {"return_offsets_mapping": True, "return_special_tokens_mask": True}
    # lists of Python numbers, of which only these are read
    unread = {"return_attention_mask": False, "return_token_type_ids": False}
    try:
        if not texts:
            return []
        if tokenizer.is_fast:
            batch = tokenizer(list(texts), verbose=False, **options, **unread)
        else:
            each = [tokenizer(text, verbose=False)["input_ids"] for text in texts]
            batch = {"input_ids": [[int(token) for token in ids] for ids in each]}
    except Exception as error:  # a vocabulary without an unknown token fails on an unknown word
        if len(texts) > 1:
            return [read for text in texts for read in _encoded(tokenizer, [text])]
        return [f"the tokenizer cannot read it: {quoted(str(error))}"]
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    encoded: list[TokenisedText | str] = []
    for number, text in enumerate(texts):
        ids = batch["input_ids"][number]
        places = [place for place, token in enumerate(ids) if token not in special]
        if tokenizer.is_fast:
            # where one id is both the unknown word and a token that is put around texts
            added = batch["special_tokens_mask"][number]
            spans = batch["offset_mapping"][number]
            places = [place for place in places if not added[place]]
            if isinstance(text, Continuation):
                low, high = text.span
                # a token that reaches into the continuation is one of its own
                places = [p for p in places if spans[p][0] < high and spans[p][1] > low]
            words = joined_words(text, places, batch.word_ids(number), spans)
        else:
            names = tokenizer.convert_ids_to_tokens([ids[place] for place in places])
            words = tuple(Word(n, n + 1, -1, -1, str(name)) for n, name in enumerate(names))
        encoded.append(TokenisedText(text, tuple(ids), tuple(places), words))
    return encoded


def _checked(
    lm: JointModel, text: TokenisedText, special: Collection[str], any_length: bool
) -> TokenisedText:
    """The text with its unknown parts and special tokens; one that cannot be scored is rejected."""
    tokenizer: Any = lm.tokenizer
    if lm.model.mask_id in text.ids:
        mask = printable(tokenizer.mask_token)
        raise ClozeError(f"the text holds {mask}; a whole text has no blanks")
    if not any_length and lm.max_length is not None and len(text.ids) > lm.max_length:
        raise ClozeError(
            f"the text has {len(text.ids)} tokens; this model takes at most {lm.max_length}"
        )
    check_ids(lm, text.ids)
    if text.places and text.places[0] < first_blank(lm.model):
        raise ClozeError(FIRST_IS_NO_BLANK)
    unknown = unknown_parts(text.text, text.ids, tokenizer)
    check_known(tokenizer, unknown, text.ids, "the text")
    if not text.places:
        raise ClozeError("the text has no token to score")
    # the unknown token may also be written into the text; without offsets every token is a name
    with_unknown = [
        number
        for number, word in enumerate(text.words if unknown else ())
        if tokenizer.unk_token_id in text.tokens[word.first : word.last]
        and (word.text != tokenizer.unk_token or word.start < 0)
    ]
    whole = replace(text, unknown=unknown, unknown_words=tuple(with_unknown))
    if isinstance(text.text, Continuation):
        whole = _alone(whole, text.text, tokenizer.unk_token_id)
    # as often as they are written
    written = tuple(name for name in special for _ in range(whole.text.count(name)))
    return replace(whole, special=written)


def _alone(whole: TokenisedText, text: Continuation, unknown: int | None) -> TokenisedText:
    """A continuation without what it is given: the characters of its words count from its own."""
    low, high = text.span
    unknown_words = (whole.words[number] for number in whole.unknown_words)
    count = sum(whole.tokens[word.first : word.last].count(unknown) for word in unknown_words)
    words = (replace(word, start=word.start - low, end=word.end - low) for word in whole.words)
    around = len(whole.unknown) - count
    return replace(whole, text=text[low:high], words=tuple(words), unknown_given=around)
