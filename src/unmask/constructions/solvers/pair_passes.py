"""Sums over both tables, by row and by column: compiled where that can be used, else by tiles.

On a CPU `unmask.tables.kernels` is several times faster than plain torch. On a GPU the functions of
a tile are compiled by torch into a few kernels that read it once, if torch can.
"""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from unmask.constructions.solvers.forest import Vector
from unmask.constructions.solvers.groups import Labels, Matrix
from unmask.model.devices import is_gpu
from unmask.tables.kernels import in_range
from unmask.tables.probabilities import Probabilities

T = TypeVar("T")


class Contest(NamedTuple):
    """How the tables are counted: weights of contexts, and pseudo-wins in every pair.

    q(a | b) counts `weight_b` times and q(b | a) `weight_a` times; besides, a beats each of its
    opponents `pseudo_a` times and loses `pseudo_b` times.
    """

    weight_a: Float[Tensor, " a"]
    weight_b: Float[Tensor, " b"]
    pseudo_a: Float[Tensor, " a"]
    pseudo_b: Float[Tensor, " b"]

    @classmethod
    def plain(cls, shape: tuple[int, int], device: torch.device) -> "Contest":
        """Every context once, nothing added: the objective of Arnold & Gokhale."""
        a, b = (torch.ones(size, dtype=torch.float64, device=device) for size in shape)
        return cls(a, b, torch.zeros_like(a), torch.zeros_like(b))

    def of(self, rows: slice) -> "Contest":
        """The same for some rows."""
        return Contest(self.weight_a[rows], self.weight_b, self.pseudo_a[rows], self.pseudo_b)


class ContestSums(NamedTuple):
    """Gradient, degree and the strongest edge of every token, with its weight."""

    gradient_a: Any
    gradient_b: Any
    degree_a: Any
    degree_b: Any
    edge_a: Any
    best_a: Any
    edge_b: Any
    best_b: Any


def contest_sums(
    source: Probabilities, log_a: Tensor, log_b: Tensor, contest: Contest
) -> ContestSums:
    """The sums of a Bradley-Terry contest, by tiles; `kernels.contest` has the compiled ones."""
    a, b = (torch.zeros(3, len(log), dtype=log.dtype, device=log.device) for log in (log_a, log_b))
    edge_a, edge_b = (torch.zeros_like(log, dtype=torch.long) for log in (log_a, log_b))
    read = for_device(_contest, source.device)
    for rows in source.tables.blocks():
        parts = read(*source.tile(rows), log_a[rows], log_b, contest.of(rows))
        a[0, rows], a[1, rows], a[2, rows] = parts.gradient_a, parts.degree_a, parts.best_a
        edge_a[rows] = parts.edge_a
        b[0] += parts.gradient_b
        b[1] += parts.degree_b
        edge_b = torch.where(parts.best_b > b[2], parts.edge_b + rows.start, edge_b)
        b[2] = torch.maximum(parts.best_b, b[2])
    sums = ContestSums(a[0], b[0], a[1], b[1], edge_a, a[2], edge_b, b[2])
    return ContestSums(*(part.cpu().numpy() for part in sums))


def _contest(
    a_given_b: Tensor, b_given_a: Tensor, log_a: Tensor, log_b: Tensor, contest: Contest
) -> ContestSums:
    edges, surplus = _met(a_given_b, b_given_a, log_a, log_b, contest)
    best_a, edge_a = edges.max(dim=1)
    best_b, edge_b = edges.max(dim=0)
    return ContestSums(
        surplus.sum(dim=1), -surplus.sum(dim=0), edges.sum(dim=1), edges.sum(dim=0),
        edge_a, best_a, edge_b, best_b,
    )  # fmt: skip


def sums_between(
    source: Probabilities,
    log_a: Tensor,
    log_b: Tensor,
    contest: Contest,
    rows: Labels,
    columns: Labels,
) -> tuple[Matrix, Matrix]:
    """Edges and what b gains on a, by the group of a and that of b."""
    label_a, label_b = (torch.tensor(label, device=source.device) for label, _ in (rows, columns))
    sums = torch.zeros(2, rows[1], columns[1], dtype=torch.float64, device=source.device)
    for block in source.tables.blocks():
        met = _met(*source.tile(block), log_a[block], log_b, contest.of(block))
        for whole, cells in zip(sums, met, strict=True):
            by_column = whole.new_zeros(len(cells), columns[1]).index_add_(1, label_b, cells)
            whole.index_add_(0, label_a[block], by_column)
    edges, surplus = sums.cpu().numpy()
    return edges, surplus


def _met(
    a_given_b: Tensor, b_given_a: Tensor, log_a: Tensor, log_b: Tensor, contest: Contest
) -> tuple[Tensor, Tensor]:
    """The edge of every pair, and what b gains on a.

    Tiles are overwritten: each name is the last use of what it is made from.
    """
    a_wins = a_given_b.mul_(contest.weight_b).add_(contest.pseudo_a[:, None])
    b_wins = b_given_a.mul_(contest.weight_a[:, None]).add_(contest.pseudo_b)
    gap = log_b - log_a[:, None]
    log_share_a = logsigmoid(-gap)
    share_b = gap.add_(log_share_a).exp_()
    share_a = log_share_a.exp_()
    edges = (a_wins + b_wins).mul_(share_a).mul_(share_b)
    return edges, b_wins.mul_(share_a).sub_(a_wins.mul_(share_b))


def net_inflow(source: Probabilities, mass_a: Vector, mass_b: Vector) -> tuple[Vector, Vector]:
    """What enters each token minus what leaves it, when masses move."""
    if source.fused():
        from unmask.tables.kernels.moves import net_inflow

        return net_inflow(source.arrays(), mass_a, mass_b)
    return _by_tiles(_moved, source, mass_a, mass_b)


def step_sums(source: Probabilities, log_a: Vector, log_b: Vector) -> tuple[Vector, Vector]:
    """The sums of N r_b / (r_a + r_b) over b and of N r_a / (r_a + r_b) over a, N = both tables."""
    r_a, r_b = np.exp(log_a), np.exp(log_b)
    if source.fused() and in_range(log_a, log_b):
        from unmask.tables.kernels.moves import step_sums

        return step_sums(source.arrays(), r_a, r_b)
    return _by_tiles(_stepped, source, r_a, r_b)


def _by_tiles(
    function: Callable[..., tuple[Tensor, Tensor]], source: Probabilities, a: Vector, b: Vector
) -> tuple[Vector, Vector]:
    """Sums by row and by column, of a function of a tile and two vectors."""
    of_a, of_b = (torch.tensor(vector, device=source.device) for vector in (a, b))
    by_row, by_column = torch.zeros_like(of_a), torch.zeros_like(of_b)
    sums = for_device(function, source.device)
    for rows in source.tables.blocks():
        by_row[rows], of_columns = sums(*source.tile(rows), of_a[rows], of_b)
        by_column += of_columns
    return by_row.cpu().numpy(), by_column.cpu().numpy()


def _moved(
    a_given_b: Tensor, b_given_a: Tensor, mass_a: Tensor, mass_b: Tensor
) -> tuple[Tensor, Tensor]:
    net = (a_given_b * mass_b).sub_(b_given_a.mul_(mass_a[:, None]))
    return net.sum(dim=1), -net.sum(dim=0)


def _stepped(a_given_b: Tensor, b_given_a: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    joint = (a_given_b + b_given_a) / (a[:, None] + b)
    return joint @ b, a @ joint


def for_device(function: Callable[..., T], device: torch.device) -> Callable[..., T]:
    """The same, compiled where torch compiles for the device and not through a C++ compiler."""
    return _compiled(function) if is_gpu(device) else function


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
