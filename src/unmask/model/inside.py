"""What a forward pass computes on its way: attention weights and hidden states at some positions.

Fused attention does not form its weights, so a pass that reads them runs unfused ("eager"). The
model's own setting is put back after the pass, whatever interrupts it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.model.hooks import run_and_undo
from unmask.model.output_layer import at_positions

_SETTING = "_attn_implementation"


@dataclass(frozen=True, eq=False)
class Inside:
    """Of some rows, at some positions of each: readouts, attention weights of every layer, and
    hidden states in the middle and at the end; None where a model shows none.
    """

    readouts: Float[Tensor, "rows positions width"]
    attention: Float[Tensor, "rows layers heads positions positions"] | None = None
    hidden: Float[Tensor, "rows 2 positions size"] | None = None

    def part(self, rows: slice, count: int) -> "Inside":
        """What some of the rows have at their first positions."""
        weights, hidden = self.attention, self.hidden
        return Inside(
            self.readouts[rows, :count],
            None if weights is None else weights[rows, :, :, :count, :count],
            None if hidden is None else hidden[rows, :, :count],
        )


def read_inside(
    model: Any,
    run: Callable[[], tuple[Tensor, Any]],
    positions: Int[Tensor, "rows positions"],
    length: int,
    *,
    attention: bool = True,
) -> Inside:
    """What one pass over rows of a length computes; `run` gives its readouts and the output."""
    readouts, output = _unfused(model, run) if attention else run()
    rows = len(positions)
    states, weights = (
        [one for one in getattr(output, name, None) or () if isinstance(one, Tensor)]
        for name in ("hidden_states", "attentions")
    )
    # models that attend in windows, or to summaries, or shrink rows, have tensors of other shapes
    hidden = [states[len(states) // 2], states[-1]] if states else []
    if any(one.ndim != 3 or one.shape[:2] != (rows, length) for one in hidden):
        hidden = []
    heads = weights[0].shape[1:2] if weights else ()
    if any(one.shape != (rows, *heads, length, length) for one in weights):
        weights = []
    row = torch.arange(rows, device=positions.device)[:, None, None]
    first, second = positions[:, :, None], positions[:, None, :]
    chosen = [one[row, :, first, second].movedim(-1, 1).float() for one in weights]
    return Inside(
        readouts,
        torch.stack(chosen, dim=1) if chosen else None,
        torch.stack([at_positions(one, positions).float() for one in hidden], 1)
        if hidden
        else None,
    )


def _unfused(model: Any, run: Callable[[], tuple[Tensor, Any]]) -> tuple[Tensor, Any]:
    config = getattr(model, "config", None)
    before = getattr(config, _SETTING, None)
    if before in (None, "eager"):
        return run()

    def run_eagerly() -> tuple[Tensor, Any]:
        setattr(config, _SETTING, "eager")
        return run()

    return run_and_undo(run_eagerly, lambda: setattr(config, _SETTING, before))
