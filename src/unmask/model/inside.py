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
from unmask.model.trimming import at_positions

_SETTING = "_attn_implementation"


@dataclass(frozen=True, eq=False)
class Inside:
    """Of some rows, at some positions of each; `attention` is None where a model shows none."""

    readouts: Float[Tensor, "rows positions width"]
    attention: Float[Tensor, "rows layers heads positions positions"] | None
    hidden: Float[Tensor, "rows states positions size"] | None

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
    *,
    attention: bool = True,
) -> Inside:
    """What one pass computes; `run` gives its readouts and the model's output."""
    readouts, output = _unfused(model, run) if attention else run()
    rows, count = positions.shape
    weights = [w for w in getattr(output, "attentions", None) or () if isinstance(w, Tensor)]
    hidden = [h for h in getattr(output, "hidden_states", None) or () if isinstance(h, Tensor)]
    length = hidden[0].shape[1] if hidden else 0
    # models that attend in windows or to summaries have weights of other shapes
    whole = all(w.ndim == 4 and w.shape[::2] == (rows, w.shape[3]) for w in weights)
    if not weights or not whole or any(w.shape[-1] != length for w in weights):
        return Inside(readouts, None, _stacked(hidden, positions))
    first = positions[:, None, :, None]
    second = positions[:, None, None, :]
    row = torch.arange(rows, device=first.device)[:, None, None, None]
    head = [torch.arange(w.shape[1], device=first.device)[None, :, None, None] for w in weights]
    chosen = [w[row, h, first, second].float() for w, h in zip(weights, head, strict=True)]
    if len({w.shape[1] for w in weights}) > 1 or count == 0:
        return Inside(readouts, None, _stacked(hidden, positions))
    return Inside(readouts, torch.stack(chosen, dim=1), _stacked(hidden, positions))


def _stacked(
    hidden: list[Tensor], positions: Int[Tensor, "rows positions"]
) -> Float[Tensor, "rows states positions size"] | None:
    same = {(one.ndim, *one.shape[1:]) for one in hidden}
    if len(same) != 1 or hidden[0].ndim != 3:
        return None
    return torch.stack([at_positions(one, positions).float() for one in hidden], dim=1)


def _unfused(model: Any, run: Callable[[], tuple[Tensor, Any]]) -> tuple[Tensor, Any]:
    config = getattr(model, "config", None)
    before = getattr(config, _SETTING, None)
    if before in (None, "eager"):
        return run()

    def run_eagerly() -> tuple[Tensor, Any]:
        setattr(config, _SETTING, "eager")
        return run()

    return run_and_undo(run_eagerly, lambda: setattr(config, _SETTING, before))
