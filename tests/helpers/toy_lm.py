"""A fake masked LM whose true joint is known, and which counts the rows it is asked for.

Its sequences are draws of one joint table with an axis a position; asked for a position, it
answers with the exact conditional, masked positions summed out. `noise` makes the answers
incompatible, differently for every context.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unmask.language_model import LanguageModel
from unmask.model.hugging_face import Positions
from unmask.model.output_layer import OutputEmbedding


class ToyMaskedLM:
    """Meets the `MaskedLM` protocol; `factored` decides whether readouts or logits come out."""

    def __init__(
        self, joint: NDArray[np.float64], *, noise: float = 0.0, factored: bool = True
    ) -> None:
        self.joint = joint / joint.sum()
        self.noise = noise
        self.rows_asked = 0
        self.batches: list[int] = []
        self.vocabulary_size = joint.shape[0]
        self.mask_id = joint.shape[0]
        self.special_ids = frozenset({self.mask_id})
        self.max_length = joint.ndim
        self.device = torch.device("cpu")
        # with the identity as output embedding, readouts are the logits
        weight = torch.eye(self.vocabulary_size)
        self.output_embedding = OutputEmbedding(weight, None) if factored else None

    def readouts(self, ids: Tensor, positions: Positions) -> Tensor:
        self.rows_asked += len(ids)
        self.batches.append(len(ids))
        each = positions.tolist() if isinstance(positions, Tensor) else [positions] * len(ids)
        rows = [self._row(row, at) for row, at in zip(ids.tolist(), each, strict=True)]
        return torch.stack(rows).float()

    def _row(self, row: list[int], positions: Sequence[int]) -> Tensor:
        return torch.tensor(np.stack([self._logits(row, p) for p in positions]))

    def _logits(self, row: list[int], position: int) -> NDArray[np.float64]:
        """log p(token at a position | the tokens that are not masked)."""
        table = self.joint
        for axis, token in enumerate(row):
            if axis == position:
                continue
            if token == self.mask_id:
                table = table.sum(axis, keepdims=True)
            else:
                table = table.take([token], axis)
        logits = np.log(table.reshape(-1))
        rng = np.random.default_rng([position, *row])
        return logits - np.log(table.sum()) + self.noise * rng.normal(size=len(logits))


class ToyTokenizer:
    """Words t0, t1, ... separated by spaces, and [MASK]; no offsets."""

    is_fast = False
    mask_token = "[MASK]"
    unk_token_id = None
    model_max_length = 10**30

    def __init__(self, size: int) -> None:
        self.names = [f"t{i}" for i in range(size)] + [self.mask_token]
        self.mask_token_id = size
        self.all_special_ids = [size]

    def __call__(self, text: str, **_: Any) -> Mapping[str, Any]:
        return {"input_ids": [self.names.index(word) for word in text.split()]}

    def convert_ids_to_tokens(self, ids: Sequence[int]) -> list[str]:
        return [self.names[i] for i in ids]

    def decode(self, ids: Sequence[int], **_: Any) -> str:
        return " ".join(self.names[i] for i in ids)


def toy_joint(size: int, axes: int, seed: int = 0) -> NDArray[np.float64]:
    """A strictly positive, dependent joint."""
    rng = np.random.default_rng(seed)
    table = np.exp(rng.normal(0, 1.5, (size,) * axes))
    return table / table.sum()


def toy(size: int, axes: int, seed: int = 0, **how: Any) -> LanguageModel:
    """A language model of such a joint; `how` is that of `ToyMaskedLM`."""
    return LanguageModel(ToyMaskedLM(toy_joint(size, axes, seed), **how), ToyTokenizer(size))
