"""Attention weights and hidden states that a forward pass computes, at some positions."""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.model.output_layer import at_positions


@dataclass(frozen=True, eq=False)
class Inside:
    """Of some rows, at some positions of each: readouts, attention weights of every layer, and
    hidden states in the middle and at the end; None where a model shows none.
    """

    readouts: Float[Tensor, "rows positions width"]
    attention: Float[Tensor, "rows layers heads positions positions"] | None = None
    hidden: Float[Tensor, "rows 2 positions size"] | None = None

    @classmethod
    def of(
        cls,
        readouts: Float[Tensor, "rows positions width"],
        output: Any,
        positions: Int[Tensor, "rows positions"],
        length: int,
    ) -> "Inside":
        """The output of a pass over rows of a length, at the positions."""
        states, weights = (
            [part for part in getattr(output, name, None) or () if isinstance(part, Tensor)]
            for name in ("hidden_states", "attentions")
        )
        rows = torch.arange(len(positions), device=positions.device)[:, None, None]
        # models that attend in windows, or to summaries, or shrink rows, have other shapes
        ends = [states[len(states) // 2], states[-1]] if states else []
        hidden = attention = None
        if ends and all(part.ndim == 3 and part.shape[:2] == (len(rows), length) for part in ends):
            hidden = torch.stack([at_positions(part, positions).float() for part in ends], dim=1)
        heads = weights[0].shape[1:2] if weights else ()
        if weights and all(w.shape == (len(rows), *heads, length, length) for w in weights):
            first, second = positions[:, :, None], positions[:, None, :]
            by_layer = [layer[rows, :, first, second].movedim(-1, 1).float() for layer in weights]
            attention = torch.stack(by_layer, dim=1)
        return cls(readouts, attention, hidden)

    def part(self, rows: slice, count: int) -> "Inside":
        """The first positions of some of the rows."""
        weights, hidden = self.attention, self.hidden
        return Inside(
            self.readouts[rows, :count],
            None if weights is None else weights[rows, :, :, :count, :count],
            None if hidden is None else hidden[rows, :, :count],
        )
