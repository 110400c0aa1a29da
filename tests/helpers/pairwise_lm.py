"""A fake masked LM of residues whose true joint has singles and pairs only, fast for many rows.

Given all other residues it answers with the exact conditional; a masked one adds nothing. `noise`
makes the answers incompatible, differently for every context. It remembers the rows it was asked.
"""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from toy_lm import ToyTokenizer

import unmask
from unmask.model.hugging_face import Positions
from unmask.model.output_layer import OutputEmbedding

LETTERS = "ACDEFGHIKLMNPQRSTVWY"


class PairwiseLM:
    """log p(x) = sum of single[t, x_t] + sum over pairs of pair[s, t, x_s, x_t] + a constant."""

    def __init__(self, length: int, *, noise: float = 0.0, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        size = len(LETTERS)
        self.single = rng.normal(size=(length, size))
        pair = rng.normal(0, 0.7, (length, length, size, size))
        pair[np.arange(length), np.arange(length)] = 0
        self.pair = pair + pair.transpose(1, 0, 3, 2)
        self.noise = noise
        self.rows: list[tuple[int, ...]] = []
        self.vocabulary_size, self.mask_id = size, size
        self.special_ids = frozenset({size})
        self.max_length, self.device = length, torch.device("cpu")
        self.output_embedding = OutputEmbedding(torch.eye(size), None)
        # a masked residue adds nothing
        zero = np.zeros((length, length, size, 1))
        self._weights = np.concatenate([self.pair, zero], axis=3)

    def readouts(self, ids: Tensor, positions: Positions) -> Tensor:
        self.rows += map(tuple, ids.tolist())
        at = torch.as_tensor(positions)
        at = at.expand(len(ids), -1) if at.ndim == 1 else at
        return torch.stack([self._row(r, p) for r, p in zip(ids, at, strict=True)]).float()

    def _row(self, row: Tensor, positions: Tensor) -> Tensor:
        tokens = row.numpy()
        others = np.arange(len(tokens))
        logits = [
            self.single[t]
            + self._weights[t, others, :, tokens].sum(axis=0)
            + self.noise * np.random.default_rng([t, *tokens.tolist()]).normal(size=len(LETTERS))
            for t in positions.tolist()
        ]
        return torch.tensor(np.stack(logits))

    def log_p(self, residues: str) -> float:
        """Up to a constant."""
        x = [LETTERS.index(letter) for letter in residues]
        pairs = itertools.combinations(range(len(x)), 2)
        alone = sum(self.single[t, x[t]] for t in range(len(x)))
        return float(alone + sum(self.pair[s, t, x[s], x[t]] for s, t in pairs))


class Letters(ToyTokenizer):
    """Residues as tokens, together, as ESM has them."""

    def __init__(self) -> None:
        super().__init__(len(LETTERS))
        self.names = [*LETTERS, self.mask_token]

    def __call__(self, text: str, **_: Any) -> Mapping[str, Any]:
        return {"input_ids": [self.names.index(letter) for letter in text]}


def pairwise_lm(
    length: int, *, noise: float = 0.0, seed: int = 0
) -> tuple[unmask.LanguageModel, PairwiseLM]:
    model = PairwiseLM(length, noise=noise, seed=seed)
    return unmask.LanguageModel(model, Letters(), name="pairwise"), model


def truth(model: PairwiseLM, sequence: str, mutations: list[str]) -> NDArray[np.float64]:
    """The true log-odds of every combination."""
    found = np.empty((2,) * len(mutations))
    wild = model.log_p(sequence)
    for cell in itertools.product((0, 1), repeat=len(mutations)):
        letters = list(sequence)
        for bit, one in zip(cell, mutations, strict=True):
            if bit:
                letters[int(one[1:-1]) - 1] = one[-1]
        found[cell] = model.log_p("".join(letters)) - wild
    return found
