"""Blockwise reductions in log space, and rankings, so that nothing of size V x V is ever needed.

Knows nothing of tables, tokens or models: only of blocks of rows and how to fold them.

Results of a pass are written into vectors made before it. A list that grows by one small tensor
per tile costs gigabytes: each lands in the hole of a freed tile, which then fits no tile again.
"""

from collections.abc import Iterable

import torch
from jaxtyping import Float, Int
from torch import Tensor

# 2**20 float64 cells are 8 MB: small enough to stay in cache and in the allocator (at 32 MB every
# tile is mapped and unmapped anew), wide enough for a GEMM at V = 29,000 (36 rows).
TILE_CELLS = 2**20

# a cell, by its place on every axis, and its unnormalised log-probability
Scored = tuple[tuple[int, ...], float]


def row_blocks(rows: int, cells_per_row: int, tile_cells: int | None = None) -> list[slice]:
    """Cut `rows` rows into consecutive slices of at most `tile_cells` cells each."""
    size = max(1, (tile_cells or TILE_CELLS) // max(1, cells_per_row))
    return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]


def log_sum_exp_by_column(
    running: Float[Tensor, " *columns"], tile: Float[Tensor, " block *columns"]
) -> Float[Tensor, " *columns"]:
    """Fold a tile into a running log-sum-exp over rows; start it at `log_zeros`."""
    return torch.logaddexp(running, torch.logsumexp(tile, dim=0))


def log_zeros(*shape: int, device: torch.device) -> Float[Tensor, "..."]:
    """The logarithm of nothing, in the accumulators' float64."""
    return torch.full(shape, -torch.inf, dtype=torch.float64, device=device)


def draw(log_weights: Float[Tensor, " n"], uniforms: Float[Tensor, " draws"]) -> Tensor:
    """Invert the cumulative distribution at `uniforms` in [0, 1).

    Used instead of `torch.multinomial`, which stops at 2**24 categories.
    """
    weights = torch.exp(log_weights.double() - log_weights.max())
    cumulative = torch.cumsum(weights, dim=0)
    picks = torch.searchsorted(cumulative, uniforms * cumulative[-1], right=True)
    # rounding can push a uniform just below one past the end; the last cell with mass takes it
    return picks.clamp(max=int(torch.nonzero(weights)[-1]))


def highest(values: Float[Tensor, " n"], count: int) -> Int[Tensor, " count"]:
    """The places of the highest values, best first; of equals the first, on every machine."""
    count = min(count, len(values))
    if count <= 0:
        return torch.empty(0, dtype=torch.long, device=values.device)
    # which of equals `topk` takes is not defined, but the least value that it takes is; to sort
    # all values would take longer
    places = torch.nonzero(values >= torch.topk(values, count).values[-1])[:, 0]
    return places[torch.sort(values[places], descending=True, stable=True).indices[:count]]


def best_cells(tiles: Iterable[tuple[slice, Tensor]], n: int) -> list[Scored]:
    """The `n` highest cells over tiles of rows, best first; of equals the first."""
    best: list[Scored] = []
    for rows, tile in tiles:
        if len(best) == n and float(tile.max()) <= best[-1][1]:
            continue
        places = highest(tile.flatten(), n)
        cells = torch.stack(torch.unravel_index(places, tile.shape), dim=1)
        cells[:, 0] += rows.start
        best += zip(map(tuple, cells.tolist()), tile.flatten()[places].tolist(), strict=True)
        best = sorted(best, key=lambda scored: (-scored[1], scored[0]))[:n]
    return best
