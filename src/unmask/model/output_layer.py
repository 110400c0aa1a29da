"""A model's output layer: what enters it at some positions, and its numbers in float32.

The numbers follow the model when its weights change. In float32 they are its own memory. Of half
precision they are a copy, which is out of date once the model is trained further, moved, or given
other weights.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from unmask.model.hooks import run_hooked

# the same for every row, or one set of positions per row
Positions = Sequence[int] | Int[Tensor, "rows positions"]

# how far reconstructed logits may be from the model's own, as a part of the largest logit
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


def captured_input(
    layer: nn.Module, positions: Positions, length: int, forward: Callable[[], None]
) -> list[Tensor]:
    """The input of a layer at some positions during a pass, which spares the layer its work."""
    captured: list[Tensor] = []

    def keep(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor]:
        whole = args[0].shape[1] == length
        captured.append(at_positions(args[0], positions) if whole else args[0])
        return (args[0][:0],)

    run_hooked([layer], keep, forward)
    return captured


@dataclass(frozen=True, eq=False)
class OutputEmbedding:
    """The output layer as numbers: logits = readouts @ weight.T + bias."""

    weight: Float[Tensor, "vocabulary width"]
    bias: Float[Tensor, " vocabulary"] | None

    def logits(self, readouts: Float[Tensor, "*rows width"]) -> Float[Tensor, "*rows vocabulary"]:
        """Logits over the whole vocabulary."""
        logits = readouts @ self.weight.T
        return logits if self.bias is None else logits + self.bias


class FollowedLayer:
    """An output embedding, and whether it still is what the model's parameters hold."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight = weight
        self.embedding = OutputEmbedding(
            weight.detach().float(), None if bias is None else bias.detach().float()
        )
        parts = [(weight, self.embedding.weight), (bias, self.embedding.bias)]
        self._followed = [_Followed(own, used) for own, used in parts if own is not None]

    def is_current(self) -> bool:
        """Whether no parameter has moved or changed since."""
        return all(part.is_current() for part in self._followed)


class _Followed:
    """A parameter and the float32 numbers used in its place: its own memory, or a copy."""

    def __init__(self, parameter: Tensor, used: Tensor | None) -> None:
        assert used is not None
        self._parameter, self._used = parameter, used
        self._place, self._version = parameter.data_ptr(), _version(parameter)
        self._sample = _sampled(parameter).clone()

    def is_current(self) -> bool:
        now = self._parameter
        if now.data_ptr() != self._place or now.shape != self._used.shape:
            return False
        if now.data_ptr() == self._used.data_ptr():
            return True
        if _version(now) != self._version:
            return False
        # a write through `.data` is not counted; on other devices looking would wait for them
        return now.device.type != "cpu" or torch.equal(_sampled(now), self._sample)


def _version(parameter: Tensor) -> int:
    return 0 if parameter.is_inference() else parameter._version


def _sampled(values: Tensor) -> Tensor:
    steps = [slice(None, None, max(1, size // _SAMPLED)) for size in values.shape]
    return values.detach()[tuple(steps)]


def nearest_layer(
    weight: Tensor, biases: Sequence[Tensor | None], readouts: Tensor, own: Tensor
) -> FollowedLayer | None:
    """The layer that turns readouts into the model's own logits, or None if none does.

    The nearest, not the first within the limit: a small bias would be dropped unnoticed.
    """
    layers = [FollowedLayer(weight, bias) for bias in biases]
    errors = [largest_error(layer.embedding, readouts, own) for layer in layers]
    best = min(range(len(layers)), key=errors.__getitem__)
    return layers[best] if errors[best] <= tolerated_error(own) else None


def largest_error(embedding: OutputEmbedding, readouts: Tensor, own: Tensor) -> float:
    """How far reconstructed logits are from the model's own."""
    return float((embedding.logits(readouts.float()) - own.float()).abs().max())


def tolerated_error(own: Tensor) -> float:
    """How far they may be: what rounding in the model's precision explains."""
    return _TOLERANCE.get(own.dtype, 5e-5) * (1 + float(own.abs().max()))
