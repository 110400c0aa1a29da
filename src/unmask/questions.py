"""Many texts with a pair of tokens each, made ready for scoring: clozes and places on the axes."""

from collections.abc import Callable, Iterator, Sequence, Sized

import torch
from jaxtyping import Int
from torch import Tensor

from unmask.cloze import Cloze, Tokenizer
from unmask.errors import ClozeError, SupportError, UnmaskError
from unmask.printable import quoted
from unmask.support import Support, Token
from unmask.unknown_tokens import check_known, warn_of_texts

_FOR_ONE = "; for one, give lm.log_prob([text], [pair])"


def places_of(
    pairs: Sequence[Sequence[Token]], supports: tuple[Support, Support]
) -> Int[Tensor, "texts 2"]:
    """Where each token stands on its axis; a token that is not there is named with its text."""
    if isinstance(pairs, str) or not isinstance(pairs, Sequence):
        raise UnmaskError(f"pairs is a list of two tokens per text, not {quoted(pairs)}{_FOR_ONE}")
    places = torch.empty(len(pairs), 2, dtype=torch.long)
    for number, pair in enumerate(pairs):
        if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2:
            raise SupportError(
                f"the pair of text {number} is two tokens, not {quoted(pair)}{_FOR_ONE}"
            )
        for blank, token in enumerate(pair):
            try:
                places[number, blank] = supports[blank].index(token)
            except SupportError as error:
                raise SupportError(f"text {number}, blank {blank}: {error}") from None
    return places


class Clozes:
    """Clozes of texts, read anew each time; all are checked first, before anything is paid for."""

    def __init__(
        self,
        texts: Sequence[str | Cloze],
        pairs: Sized,
        read: Callable[[str | Cloze], Cloze],
        tokenizer: Tokenizer,
    ) -> None:
        if isinstance(texts, str) or not isinstance(texts, Sequence):
            raise ClozeError(
                "texts is a list of texts, with a list of pairs, one per text, not "
                f"{quoted(texts)}{_FOR_ONE}"
            )
        if len(texts) != len(pairs):
            raise UnmaskError(
                f"there are {len(texts)} texts but {len(pairs)} pairs; give one pair a text"
            )
        self._texts, self._read = texts, read
        # the last of a million texts is rejected now, not after hours
        warn_of_texts(tokenizer, [_unknown(tokenizer, n, one) for n, one in enumerate(self)])

    def __iter__(self) -> Iterator[Cloze]:
        """Each in turn; a bad one is named by its number."""
        for number, text in enumerate(self._texts):
            try:
                cloze = self._read(text)
            except ClozeError as error:
                raise ClozeError(f"text {number}: {error}") from None
            if len(cloze.positions) != 2:
                raise ClozeError(
                    f"text {number} has {len(cloze.positions)} blanks; a pair takes two"
                )
            yield cloze


def _unknown(tokenizer: Tokenizer, number: int, cloze: Cloze) -> tuple[str, ...]:
    check_known(tokenizer, cloze.unknown, cloze.ids, f"text {number}")
    return cloze.unknown
