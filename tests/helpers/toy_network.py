"""A network for the penalties whose every answer is known, and which counts what it is asked.

In place of `unmask.training.network.Network`: logits are a float64 function of parameters, or the
exact conditionals of a joint.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from toy_lm import ToyMaskedLM

from unmask.training.texts import Batch


class JointNetwork:
    """Answers of one joint over the positions of a text: they fit together exactly."""

    def __init__(self, joint: NDArray[np.float64], *, noise: float = 0.0) -> None:
        self.lm = ToyMaskedLM(joint, noise=noise)
        self.passes = self.tokens = 0
        self.batches: list[int] = []

    def logits(self, batch: Batch, chosen: Tensor, *, dropout: bool = False) -> Tensor:
        assert not dropout
        self.passes += len(batch)
        self.batches.append(len(batch))
        rows = [
            self.lm._logits(batch.ids[row].tolist(), place)
            for row, place in chosen.nonzero().tolist()
        ]
        return torch.tensor(np.stack(rows))


class PairwiseNetwork:
    """Logits at a place: a sum over the other places of a table; the mask is one more token."""

    def __init__(self, vocabulary: int, length: int, seed: int = 0) -> None:
        draw = torch.Generator().manual_seed(seed)
        shape = (length, length, vocabulary + 1, vocabulary)
        self.table = torch.randn(shape, generator=draw, dtype=torch.float64).requires_grad_()
        self.passes = 0

    def logits(self, batch: Batch, chosen: Tensor, *, dropout: bool = False) -> Tensor:
        self.passes += len(batch)
        places = torch.arange(batch.ids.shape[1])
        found = [
            self.table[place, places, batch.ids[row]][places != place].sum(0)
            for row, place in chosen.nonzero().tolist()
        ]
        return torch.stack(found)
