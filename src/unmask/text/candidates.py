"""From what a caller writes for `support=` to the tokens of each blank."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.arguments import as_list, whole_number
from unmask.errors import SupportError
from unmask.names import ALPHABETS, SUPPORTS
from unmask.printable import quoted
from unmask.text.cloze import Tokenizer
from unmask.text.support import SPACE_MARKERS, Support, Token

Candidates = str | Support | Sequence[Token] | NDArray[np.integer[Any]] | Tensor

_NAMED = [quoted(name) for name in SUPPORTS]
_USAGE = f"{', '.join(_NAMED[:-1])} or {_NAMED[-1]}, or a list of tokens"


def whole_vocabulary(tokenizer: Tokenizer, size: int) -> Support:
    """Every output of a model, in its own order."""
    names = tokenizer.convert_ids_to_tokens(list(range(size)))
    # an output layer padded to a round size has outputs that no token names; tokenizers in Python
    # call them unknown
    end = 1 + max(tokenizer.get_vocab().values()) if hasattr(tokenizer, "get_vocab") else size
    unique = [f"<id {i}>" if n is None or i >= end else n for i, n in enumerate(names)]
    return Support(torch.arange(size), unique, getattr(tokenizer, "tokenize", None))


def choose(candidates: object, whole: Support, special_ids: Set[int]) -> Support:
    """The tokens of one blank, from `Candidates`; anything else is a `SupportError`."""
    if isinstance(candidates, Support):
        # a negative id would count from the end and score another token silently
        for token_id in (int(candidates.ids.min()), int(candidates.ids.max())):
            if not 0 <= token_id < len(whole):
                raise SupportError(
                    f"the support has token id {token_id}; this model has 0 to {len(whole) - 1}"
                )
        ids = [] if candidates is whole else candidates.ids.tolist()
        for token_id, name in zip(ids, candidates.names, strict=False):
            if name != whole.names[token_id]:
                raise SupportError(
                    f"the support calls token id {token_id} {quoted(name)}, and this model "
                    f"{quoted(whole.names[token_id])}; make the support with lm.support([...])"
                )
        return candidates
    if isinstance(candidates, str):
        if candidates == "vocabulary":
            return whole
        if candidates in ALPHABETS:
            return whole.part(_places_of_letters(candidates, whole))
        if candidates not in SUPPORTS:
            raise SupportError(f"no support {quoted(candidates)}; use {_USAGE}")
        left_out = special_ids if candidates == "no-special" else frozenset()
        places = [i for i in whole.named if i not in left_out]
        return whole if len(places) == len(whole) else whole.part(places)
    candidates = as_list(candidates)
    if isinstance(candidates, bytes) or not isinstance(candidates, Sequence):
        raise SupportError(f"a support is {_USAGE}, not {quoted(candidates)}")
    if any(isinstance(token, list | tuple) for token in candidates):
        by_blank = dict(enumerate(candidates))
        raise SupportError(
            f"a list of tokens is for all blanks; give a dictionary, as support="
            f"{quoted(by_blank, limit=100)}"
        )
    return whole.part([whole.index(token) for token in candidates])


def check_blanks(spec: Mapping[Any, object], blanks: int, what: str = "support names") -> None:
    """Reject candidates of a blank that the text does not have."""
    for axis in spec:
        if whole_number(axis) not in range(blanks):
            raise SupportError(
                f"{what} blank {quoted(axis)}; this text has blanks 0 to {blanks - 1}"
            )


def _places_of_letters(name: str, whole: Support) -> list[int]:
    """The places of the letters of an alphabet in a vocabulary, in the alphabet's order.

    All must be written alike. Upper case goes before lower; a vocabulary that has them all both
    with and without a space before is rejected: guessing would score the wrong ones silently.
    """
    letters, places = ALPHABETS[name], {token: place for place, token in enumerate(whole.names)}
    fewest = list(letters)
    for cased in dict.fromkeys((letters, letters.lower())):
        ways = [[marker + letter for letter in cased] for marker in ("", *SPACE_MARKERS)]
        missing = [[token for token in way if token not in places] for way in ways]
        complete = [way for way, lacking in zip(ways, missing, strict=True) if not lacking]
        if len(complete) > 1:
            raise SupportError(
                f"this model writes each of {quoted(name)} twice, as {quoted(complete[0][0])} and "
                f"as {quoted(complete[1][0])}; list the tokens that you mean"
            )
        if complete:
            return [places[token] for token in complete[0]]
        fewest = min(fewest, *missing, key=len)
    if len(fewest) == len(letters):
        raise SupportError(f"this model has no token for any letter of {quoted(name)}: {letters}")
    raise SupportError(
        f"this model has no token for {', '.join(map(quoted, fewest))} of {quoted(name)}; "
        "list the tokens that it has"
    )
