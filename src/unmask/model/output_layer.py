"""A model's output layer: what enters it at some positions, and its numbers in float32.

The numbers follow the model when its weights change. In float32 they are its own memory. Of half
precision they are a copy, which is out of date once the model is trained further, moved, or given
other weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

# the same for every row, or one set of positions per row
Positions = Sequence[int] | Int[Tensor, "rows positions"]

# how far logits may be from the model's own by rounding, as a part of the largest
_TOLERANCE = {torch.float32: 5e-5, torch.float16: 1e-2, torch.bfloat16: 5e-2}
# values along each axis that are compared to notice a change which no counter counts
_SAMPLED = 32


def at_positions(values: Tensor, positions: Positions) -> Float[Tensor, "rows positions width"]:
    """The values of each row at its positions."""
    if not isinstance(positions, Tensor):
        # one position is a view, which costs nothing
        first = positions[0] if len(positions) == 1 else None
        return values[:, list(positions)] if first is None else values[:, first : first + 1]
    rows = torch.arange(len(values), device=values.device)
    return values[rows[:, None], positions.to(values.device)]


@dataclass(frozen=True, eq=False)
class OutputEmbedding:
    """The output layer as numbers: logits = readouts @ weight.T + bias."""

    weight: Float[Tensor, "vocabulary width"]
    bias: Float[Tensor, " vocabulary"] | None


class FollowedLayer:
    """An output embedding, and whether it still is what the model's parameters hold."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._parameters = [weight] if bias is None else [weight, bias]
        used = [parameter.detach().float() for parameter in self._parameters]
        self.embedding = OutputEmbedding(used[0], None if bias is None else used[1])
        self._places = [(parameter.data_ptr(), parameter.shape) for parameter in self._parameters]
        # of what was copied, as it was then
        self._copied = [
            (parameter, _version(parameter), _sampled(parameter).clone())
            for parameter, number in zip(self._parameters, used, strict=True)
            if parameter.data_ptr() != number.data_ptr()
        ]

    def is_current(self, layer: nn.Module) -> bool:
        """True if it is this module's, and no parameter has moved or changed since."""
        if getattr(layer, "weight", None) is not self._parameters[0]:
            return False
        if [
            (parameter.data_ptr(), parameter.shape) for parameter in self._parameters
        ] != self._places:
            return False
        # a write through `.data` is not counted; on other devices looking would wait for them
        return all(
            _version(parameter) == version
            and (parameter.device.type != "cpu" or torch.equal(_sampled(parameter), sample))
            for parameter, version, sample in self._copied
        )


def _version(parameter: Tensor) -> int:
    return 0 if parameter.is_inference() else parameter._version


def _sampled(values: Tensor) -> Tensor:
    steps = [slice(None, None, max(1, size // _SAMPLED)) for size in values.shape]
    return values.detach()[tuple(steps)]


def largest_difference(actual: Tensor, expected: Tensor) -> tuple[float, float]:
    """The largest difference of two results, and what rounding explains."""
    error = float((actual.float() - expected.float()).abs().max())
    return error, _TOLERANCE.get(expected.dtype, 5e-5) * (1 + float(expected.abs().max()))
