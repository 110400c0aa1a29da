"""Scores of variants by loops over a transformers model, in float64; nothing of the library.

`Naive.log_probs(residues, masked)` is the model's log-softmax over its vocabulary at every residue.
"""

import itertools
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Change = tuple[int, str]


class Naive:
    """A model that reads residues, spelled apart or together, one sequence at a time."""

    def __init__(self, model: Any, tokenizer: Any, *, apart: bool) -> None:
        self.model, self.tokenizer, self.apart = model.eval(), tokenizer, apart
        # of one sequence at a time, and each sequence once
        self._log_probs = cache(self._read)

    def log_probs(self, residues: str, masked: Sequence[int] = ()) -> NDArray[np.float64]:
        return self._log_probs(residues, tuple(masked))

    def _read(self, residues: str, masked: tuple[int, ...]) -> NDArray[np.float64]:
        ids = self.tokenizer(" ".join(residues) if self.apart else residues)["input_ids"]
        # one special token before the first residue
        for place in masked:
            ids[1 + place] = self.tokenizer.mask_token_id
        with torch.no_grad():
            logits = self.model(
                input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=int)
            ).logits[0, 1 : 1 + len(residues)]
        found: NDArray[np.float64] = torch.log_softmax(logits.double(), dim=-1).numpy()
        return found

    def token(self, letter: str) -> int:
        return int(self.tokenizer.convert_tokens_to_ids(letter))


def changed(wildtype: str, changes: Sequence[Change]) -> str:
    letters = list(wildtype)
    for place, letter in changes:
        letters[place] = letter
    return "".join(letters)


def odds(
    naive: Naive, wildtype: str, change: Change, residues: str, masked: Sequence[int]
) -> float:
    place, letter = change
    row = naive.log_probs(residues, masked)[place]
    return float(row[naive.token(letter)] - row[naive.token(wildtype[place])])


def wt_marginals(naive: Naive, wildtype: str, changes: Sequence[Change]) -> float:
    return sum(odds(naive, wildtype, one, wildtype, ()) for one in changes)


def mutant_marginals(naive: Naive, wildtype: str, changes: Sequence[Change]) -> float:
    mutant = changed(wildtype, changes)
    return sum(odds(naive, wildtype, one, mutant, ()) for one in changes)


def masked_marginals(naive: Naive, wildtype: str, changes: Sequence[Change]) -> float:
    every = [place for place, _ in changes]
    return sum(odds(naive, wildtype, one, wildtype, every) for one in changes)


def single_mask_marginals(naive: Naive, wildtype: str, changes: Sequence[Change]) -> float:
    return sum(odds(naive, wildtype, one, wildtype, [one[0]]) for one in changes)


def mut_fill(naive: Naive, wildtype: str, changes: Sequence[Change]) -> float:
    mutant = changed(wildtype, changes)
    return sum(odds(naive, wildtype, one, mutant, [one[0]]) for one in changes)


def match_fill(naive: Naive, wildtype: str, changes: Sequence[Change]) -> float:
    mutant, total = changed(wildtype, changes), 0.0
    for place, letter in changes:
        total += naive.log_probs(mutant, [place])[place, naive.token(letter)]
        total -= naive.log_probs(wildtype, [place])[place, naive.token(wildtype[place])]
    return float(total)


def pll(naive: Naive, wildtype: str, changes: Sequence[Change]) -> float:
    def of(residues: str) -> float:
        return sum(
            float(naive.log_probs(residues, [place])[place, naive.token(letter)])
            for place, letter in enumerate(residues)
        )

    return of(changed(wildtype, changes)) - of(wildtype)


def path_sums(naive: Naive, wildtype: str, changes: Sequence[Change]) -> list[float]:
    """The sum along every order of the changes."""
    sums = []
    for order in itertools.permutations(changes):
        here, total = wildtype, 0.0
        for one in order:
            total += odds(naive, wildtype, one, here, [one[0]])
            here = changed(here, [one])
        sums.append(total)
    return sums


CONVENTIONS: dict[str, Callable[[Naive, str, Sequence[Change]], float]] = {
    "wt-marginals": wt_marginals,
    "mutant-marginals": mutant_marginals,
    "masked-marginals": masked_marginals,
    "single-mask-marginals": single_mask_marginals,
    "mut-fill": mut_fill,
    "match-fill": match_fill,
    "pll": pll,
    "hcb-path": lambda *given: float(np.mean(path_sums(*given))),
}


def given_function(
    naive: Naive, wildtype: str, changes: Sequence[Change]
) -> Callable[[int, tuple[int | None, ...]], NDArray[np.float64]]:
    """What `reference_several` calls `given`: over wild type (0) and mutant (1) of each change."""

    def given(t: int, tokens: tuple[int | None, ...]) -> NDArray[np.float64]:
        filled = [one for one, token in zip(changes, tokens, strict=True) if token == 1]
        masked = [
            one[0]
            for s, (one, token) in enumerate(zip(changes, tokens, strict=True))
            if token is None or s == t
        ]
        place, letter = changes[t]
        row = naive.log_probs(changed(wildtype, filled), masked)[place]
        both = np.exp(row[[naive.token(wildtype[place]), naive.token(letter)]])
        found: NDArray[np.float64] = both / both.sum()
        return found

    return given
