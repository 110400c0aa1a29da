"""Some blanks of a joint, the others summed out: tile by tile, so that no table is made."""

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.logspace import log_zeros


def log_marginal(
    tiles: Iterable[tuple[slice, Tensor]], shape: Sequence[int], axes: Sequence[int]
) -> Float[Tensor, "..."]:
    """Unnormalised log-probabilities over some axes, in the order asked for."""
    kept = sorted(axes)
    summed = tuple(axis for axis in range(len(shape)) if axis not in axes)
    total: Tensor | None = None
    for rows, tile in tiles:
        part = torch.logsumexp(tile, dim=summed) if summed else tile
        if total is None:
            total = log_zeros(*(shape[axis] for axis in kept), device=tile.device)
        if kept[0] == 0:
            total[rows] = part
        else:
            total = torch.logaddexp(total, part)
    assert total is not None
    return total.permute([kept.index(axis) for axis in axes])
