"""From what a caller writes for `support=` to the tokens of each blank."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.arguments import whole_number
from unmask.errors import SupportError
from unmask.names import ALPHABETS, SUPPORTS
from unmask.printable import quoted
from unmask.text.alphabets import places_of_letters
from unmask.text.cloze import Tokenizer
from unmask.text.support import Support, Token

Candidates = str | Support | Sequence[Token] | NDArray[np.integer[Any]] | Tensor
CandidatesByBlank = Candidates | Mapping[int, Candidates]

# every output of the model, as in the paper; those that a token names; those that are ordinary
# tokens of a text; letters


def whole_vocabulary(tokenizer: Tokenizer, size: int) -> Support:
    """Every output of a model, in its own order."""
    names = tokenizer.convert_ids_to_tokens(list(range(size)))
    # an output layer padded to a round size has outputs that no token names; tokenizers in Python
    # call them unknown
    named = 1 + max(tokenizer.get_vocab().values()) if hasattr(tokenizer, "get_vocab") else size
    unique = [f"<id {i}>" if n is None or i >= named else n for i, n in enumerate(names)]
    return Support(torch.arange(size), unique, getattr(tokenizer, "tokenize", None))


def choose(candidates: object, whole: Support, special_ids: Set[int]) -> Support:
    """The tokens of one blank, from `Candidates`; anything else is a `SupportError`."""
    if isinstance(candidates, Support):
        return _inside(candidates, whole)
    if isinstance(candidates, str):
        return _named(candidates, whole, special_ids)
    if hasattr(candidates, "tolist"):
        # numpy arrays and tensors of ids
        candidates = candidates.tolist()
    if isinstance(candidates, bytes) or not isinstance(candidates, Sequence):
        raise SupportError(
            f"a support is {_names()}, or a list of tokens, not {quoted(candidates)}"
        )
    places = [whole.index(token) for token in candidates]
    return whole.part(places)


def choose_each(
    spec: object, blanks: int, whole: Support, special_ids: Set[int]
) -> tuple[Support, ...]:
    """The tokens of every blank, from `CandidatesByBlank`: the same for all, or by blank."""
    if not isinstance(spec, Mapping):
        return (choose(spec, whole, special_ids),) * blanks
    check_blanks(spec, blanks)
    return tuple(choose(spec.get(axis, SUPPORTS[0]), whole, special_ids) for axis in range(blanks))


def check_blanks(spec: Mapping[Any, object], blanks: int, what: str = "support names") -> None:
    """Reject candidates of a blank that the text does not have."""
    for axis in spec:
        if whole_number(axis) not in range(blanks):
            raise SupportError(
                f"{what} blank {quoted(axis)}; this text has blanks 0 to {blanks - 1}"
            )


def _named(name: str, whole: Support, special_ids: Set[int]) -> Support:
    if name == "vocabulary":
        return whole
    if name in ("tokens", "no-special"):
        left_out = special_ids if name == "no-special" else frozenset()
        # not what stands for the name of an output that the tokenizer gave none
        names = enumerate(whole.names)
        named = (i for i, n in names if not n.startswith("<id ") or n != f"<id {i}>")
        places = [i for i in named if i not in left_out]
        return whole if len(places) == len(whole) else whole.part(places)
    if name in ALPHABETS:
        return whole.part(places_of_letters(name, whole))
    raise SupportError(f"no support {quoted(name)}; use {_names()}, or a list of tokens")


def _inside(candidates: Support, whole: Support) -> Support:
    # a negative id would count from the end and score another token silently
    for token_id in (int(candidates.ids.min()), int(candidates.ids.max())):
        if not 0 <= token_id < len(whole):
            raise SupportError(
                f"the support has token id {token_id}; this model has 0 to {len(whole) - 1}"
            )
    return candidates


def _names() -> str:
    *others, last = map(quoted, SUPPORTS)
    return f"{', '.join(others)} or {last}"
