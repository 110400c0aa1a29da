"""The converged Arnold-Gokhale joint, as the Bradley-Terry fit that it is.

With x = log r_a and y = log r_b, the sum of the divergences from the model's conditionals to those
of the joint N / (1 / r_a + 1 / r_b), N = q(a | b) + q(b | a), is up to a constant

    G(x, y) = sum N log(1 / r_a + 1 / r_b) + sum x + sum y,

the likelihood of a Bradley-Terry model in which a beats b q(a | b) times and loses q(b | a) times
(Hunter 2004): convex, and strictly so but for adding one constant to all of x and y. The Arnold-
Gokhale step is its MM step, slow where pairs of tokens lock together. Here: L-BFGS, preconditioned
by the forest of every token's strongest edge, one streaming pass of the tables a step.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_matrix, csc_matrix
from scipy.sparse.linalg import splu
from torch import Tensor
from torch.nn.functional import logsigmoid

from unmask.errors import NumericsError
from unmask.tables import PairTables

Vector = NDArray[np.float64]

# no coordinate moves further than this in a step: beyond it the quadratic model means nothing
_LARGEST_MOVE = 4.0
_MEMORY = 10
# The largest preconditioned gradient that counts as converged. Far below the accuracy wanted: on
# diffuse blocks of tokens that hardly meet, the error is about the residual over the leak between
# them. Blocks a nat off are caught down to leaks of 1e-8; below that none of this would notice.
TOLERANCE = 1e-8
MAX_PASSES = 200


@dataclass(frozen=True)
class Solution:
    """Marginals that minimise G, and how they were found.

    `residual` is the largest coordinate of the last preconditioned gradient, an estimate of the
    error of the log marginals; `history` has it for every pass.
    """

    log_a: Tensor
    log_b: Tensor
    passes: int
    converged: bool
    residual: float
    history: tuple[float, ...]


@dataclass(frozen=True)
class Pass:
    """All that one reading of the tables gives at a point: value, gradient, strongest edges."""

    objective: float
    gradient: Vector
    degree: Vector
    edges: tuple[NDArray[np.int64], NDArray[np.int64], Vector]

    def forest(self) -> Callable[[Vector], Vector]:
        """Solve with the Laplacian's diagonal and each token's strongest edge, by sparse LU.

        Scaled to a unit diagonal first, so that rare tokens do not drown.
        """
        rows, columns, weights = self.edges
        scale = 1 / np.sqrt(self.degree)
        size = len(scale)
        off = -weights * scale[rows] * scale[columns]
        diagonal = np.arange(size)
        matrix = coo_matrix(
            (
                np.concatenate([np.full(size, 1 + 1e-12), off, off]),
                (
                    np.concatenate([diagonal, rows, columns]),
                    np.concatenate([diagonal, columns, rows]),
                ),
            )
        )
        factors = splu(
            csc_matrix(matrix), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True}
        )
        return lambda vector: scale * factors.solve(scale * vector)


def read_tables(tables: PairTables, point: Vector) -> Pass:
    """One streaming pass at x and y, stacked; float64 throughout.

    The gradient is summed from q(b | a) (1 - S) - q(a | b) S, S = r_b / (r_a + r_b), in which
    nothing cancels that is not small itself.
    """
    size_a, size_b = tables.shape
    device = tables.a_given_b.logits.device
    log_a = torch.tensor(point[:size_a], device=device)
    log_b = torch.tensor(point[size_a:], device=device)
    gradient_a, degree_a, best_a = (torch.zeros_like(log_a) for _ in range(3))
    gradient_b, degree_b, best_b = (torch.zeros_like(log_b) for _ in range(3))
    edge_a = torch.zeros(size_a, dtype=torch.long, device=device)
    edge_b = torch.zeros(size_b, dtype=torch.long, device=device)
    objective = math.fsum(point)
    for rows in tables.blocks():
        tile = tables.tile(rows)
        a_given_b, b_given_a = tile.log_a_given_b.exp(), tile.log_b_given_a.exp()
        gap = log_b - log_a[rows, None]
        log_share_a = logsigmoid(-gap)
        both = a_given_b + b_given_a
        objective -= float((both * (log_share_a + log_b)).sum())
        share_a = log_share_a.exp()
        share_b = (log_share_a + gap).exp()
        surplus = b_given_a * share_a - a_given_b * share_b
        gradient_a[rows] = surplus.sum(dim=1)
        gradient_b -= surplus.sum(dim=0)
        weights = both * share_a * share_b
        degree_a[rows] = weights.sum(dim=1)
        degree_b += weights.sum(dim=0)
        best_a[rows], edge_a[rows] = weights.max(dim=1)
        highest, where = weights.max(dim=0)
        better = highest > best_b
        best_b[better], edge_b[better] = highest[better], where[better] + rows.start
    return Pass(
        objective,
        _stack(gradient_a, gradient_b),
        _stack(degree_a, degree_b),
        _edges(edge_a, best_a, edge_b, best_b),
    )


def _edges(
    edge_a: Tensor, best_a: Tensor, edge_b: Tensor, best_b: Tensor
) -> tuple[NDArray[np.int64], NDArray[np.int64], Vector]:
    """Each token's strongest edge, an edge that two tokens share once."""
    size_a = len(edge_a)
    rows = np.concatenate([np.arange(size_a), edge_b.cpu().numpy()])
    columns = np.concatenate([edge_a.cpu().numpy(), np.arange(len(edge_b))]) + size_a
    weights = _stack(best_a, best_b)
    _, first = np.unique(rows * (size_a + len(edge_b)) + columns, return_index=True)
    return rows[first], columns[first], weights[first]


def solve(
    tables: PairTables,
    log_a: Tensor,
    log_b: Tensor,
    *,
    tolerance: float = TOLERANCE,
    max_passes: int = MAX_PASSES,
) -> Solution:
    """Minimise G from the given log marginals."""
    point = _stack(log_a, log_b)
    here, passes = read_tables(tables, point), 1
    pairs: deque[tuple[Vector, Vector]] = deque(maxlen=_MEMORY)
    history: list[float] = []
    with tables.bar("ag") as bar:
        while True:
            precondition = here.forest()
            history.append(_residual(precondition(here.gradient), point))
            bar.set_postfix_str(f"residual {history[-1]:.0e}", refresh=False)
            if history[-1] < tolerance or passes >= max_passes:
                break
            direction = _direction(here, pairs, precondition)
            there, length, more = _descend(tables, point, here, direction, max_passes - passes)
            moved, turned = length * direction, there.gradient - here.gradient
            if moved @ turned > 0:
                pairs.append((moved, turned))
            point, here, passes = point + moved, there, passes + more
            bar.update(more)
    log_total = float(np.logaddexp.reduce(point[: len(log_a)]))
    return Solution(
        torch.tensor(point[: len(log_a)] - log_total, device=log_a.device),
        torch.tensor(point[len(log_a) :] - log_total, device=log_b.device),
        passes,
        history[-1] < tolerance,
        history[-1],
        tuple(history),
    )


def _descend(
    tables: PairTables, point: Vector, here: Pass, direction: Vector, passes_left: int
) -> tuple[Pass, float, int]:
    """Halve the step until the objective falls enough (Armijo); what it took comes last."""
    slope = float(here.gradient @ direction)
    # what rounding alone can do to a sum of this size
    slack = 1e-13 * abs(here.objective)
    length, passes = 1.0, 0
    while True:
        there = read_tables(tables, point + length * direction)
        passes += 1
        enough = there.objective <= here.objective + 1e-4 * length * slope + slack
        if enough:
            return there, length, passes
        if passes >= passes_left:
            # out of passes: stay at the lower point rather than end on a worse one
            return here, 0.0, passes
        length /= 2


def _residual(step: Vector, point: Vector) -> float:
    """The largest move that is asked for, relative to the heaviest token."""
    residual = float(np.abs(step - step[np.argmax(point)]).max())
    if not math.isfinite(residual):
        raise NumericsError("the Bradley-Terry fit left the range of float64")
    return residual


def _direction(
    here: Pass, pairs: deque[tuple[Vector, Vector]], precondition: Callable[[Vector], Vector]
) -> Vector:
    """L-BFGS with the forest as its first guess of the inverse Hessian (Nocedal 1980)."""
    vector = here.gradient.copy()
    kept = []
    for moved, turned in reversed(pairs):
        weight = float(moved @ vector) / float(moved @ turned)
        kept.append(weight)
        vector -= weight * turned
    vector = precondition(vector)
    for (moved, turned), weight in zip(pairs, reversed(kept), strict=True):
        vector += moved * (weight - float(turned @ vector) / float(moved @ turned))
    direction = -_capped(vector, here.degree)
    if here.gradient @ direction < 0:
        return direction
    pairs.clear()
    return -_capped(precondition(here.gradient), here.degree)


def _capped(step: Vector, degree: Vector) -> Vector:
    """Free of the constant that G ignores, then at most so far in each coordinate."""
    centred = step - float(degree @ step) / float(degree.sum())
    return np.clip(centred, -_LARGEST_MOVE, _LARGEST_MOVE)


def _stack(a: Tensor, b: Tensor) -> Vector:
    stacked: Vector = torch.cat([a, b]).double().cpu().numpy()
    return stacked
