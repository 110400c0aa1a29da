"""What a pass does with one tile of both tables, in plain torch; compiled on accelerators.

On a CPU `unmask.tables.kernels` does the same several times faster, where it can be used. On a GPU
these functions are compiled by torch into a few kernels that read a tile once, if torch can.
"""

import warnings
from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

T = TypeVar("T")

# devices on which torch compiles for the device itself, not through a C++ compiler
_COMPILED_ON = ("cuda",)


class ContestSums(NamedTuple):
    """The sums of a contest over a tile, by row and by column, and the strongest edges in it."""

    gradient_a: Tensor
    gradient_b: Tensor
    degree_a: Tensor
    degree_b: Tensor
    best_a: Tensor
    edge_a: Tensor
    best_b: Tensor
    edge_b: Tensor


def contest(
    a_given_b: Tensor,
    b_given_a: Tensor,
    log_a: Tensor,
    log_b: Tensor,
    weights: tuple[Tensor, Tensor],
    pseudo: tuple[Tensor, Tensor],
) -> ContestSums:
    """Gradient, degrees and strongest edges of a Bradley-Terry contest."""
    edges, surplus = _met(a_given_b, b_given_a, log_a, log_b, weights, pseudo)
    best_a, edge_a = edges.max(dim=1)
    best_b, edge_b = edges.max(dim=0)
    return ContestSums(
        surplus.sum(dim=1), -surplus.sum(dim=0), edges.sum(dim=1), edges.sum(dim=0),
        best_a, edge_a, best_b, edge_b,
    )  # fmt: skip


def between(
    a_given_b: Tensor,
    b_given_a: Tensor,
    log_a: Tensor,
    log_b: Tensor,
    weights: tuple[Tensor, Tensor],
    pseudo: tuple[Tensor, Tensor],
    groups: tuple[Tensor, int],
) -> Tensor:
    """Edges and what b gains on a, by row and by the group of the column."""
    label, count = groups
    sums = torch.zeros(2, len(log_a), count, dtype=torch.float64, device=log_a.device)
    for found, cells in zip(
        sums, _met(a_given_b, b_given_a, log_a, log_b, weights, pseudo), strict=True
    ):
        found.index_add_(1, label, cells)
    return sums


def _met(
    a_given_b: Tensor,
    b_given_a: Tensor,
    log_a: Tensor,
    log_b: Tensor,
    weights: tuple[Tensor, Tensor],
    pseudo: tuple[Tensor, Tensor],
) -> tuple[Tensor, Tensor]:
    """The edge of every pair, and what b gains on a.

    Tiles are overwritten: each name is the last use of what it is made from.
    """
    a_wins = a_given_b.mul_(weights[1]).add_(pseudo[0][:, None])
    b_wins = b_given_a.mul_(weights[0][:, None]).add_(pseudo[1])
    gap = log_b - log_a[:, None]
    log_share_a = logsigmoid(-gap)
    share_b = gap.add_(log_share_a).exp_()
    share_a = log_share_a.exp_()
    edges = (a_wins + b_wins).mul_(share_a).mul_(share_b)
    return edges, b_wins.mul_(share_a).sub_(a_wins.mul_(share_b))


def moved(
    a_given_b: Tensor, b_given_a: Tensor, mass_a: Tensor, mass_b: Tensor
) -> tuple[Tensor, Tensor]:
    """What enters each token less what leaves it, when masses move."""
    net = (a_given_b * mass_b).sub_(b_given_a.mul_(mass_a[:, None]))
    return net.sum(dim=1), -net.sum(dim=0)


def stepped(a_given_b: Tensor, b_given_a: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The sums of Arnold & Gokhale's step."""
    joint = (a_given_b + b_given_a) / (a[:, None] + b)
    return joint @ b, a @ joint


def for_device(function: Callable[..., T], device: torch.device) -> Callable[..., T]:
    """The same, compiled where that is for the device itself."""
    return _compiled(function) if device.type in _COMPILED_ON else function


@cache
def _compiled(function: Callable[..., T]) -> Callable[..., T]:
    fast = torch.compile(function, dynamic=True)
    usable = True

    def attempt(*tile: object) -> T:
        nonlocal usable
        if usable:
            try:
                return fast(*tile)
            except Exception as error:  # compilers fail in many ways; none may cost the result
                usable = False
                reason = str(error).strip().split("\n")[0][:100]
                warnings.warn(f"passes are not compiled on this device: {reason}", stacklevel=3)
        return function(*tile)

    return attempt
