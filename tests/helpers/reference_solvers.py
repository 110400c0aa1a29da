"""Slow, dense float64 solvers behind the definitions in `reference`; none is the library's way.

A chain's stationary distribution by elimination, a Bradley-Terry fit by Newton with the Hessian.
"""

from decimal import Decimal, localcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]


def stationary(A: Table, B: Table) -> tuple[Table, Table]:
    """r_a = A r_b, r_b = B' r_a: the null vector of I - P, P the step from a to the next a.

    Gaussian elimination in which each pivot is summed from what is off the diagonal (Grassmann,
    Taksar & Heyman 1985): nothing is subtracted, so every r is right to near rounding, rare tokens
    and blocks that hardly meet included.
    """
    P = B @ A.T
    for k in range(len(P) - 1, 0, -1):
        P[:k, k] /= P[k, :k].sum()
        P[:k, :k] += np.outer(P[:k, k], P[k, :k])
    r_a = np.ones(len(P))
    for k in range(1, len(P)):
        r_a[k] = r_a[:k] @ P[:k, k]
    r_a /= r_a.sum()
    return r_a, B.T @ r_a


def stationary_by_power(
    A: Table, B: Table, *, tolerance: float = 1e-13, limit: int = 100_000
) -> tuple[Table, Table, int]:
    """The same by sampling steps from uniform until they stop moving; and how many they were."""
    r_a = np.full(len(A), 1 / len(A))
    for steps in range(1, limit + 1):
        updated = A @ (B.T @ r_a)
        moved = np.abs(np.log(updated) - np.log(r_a)).max()
        r_a = updated / updated.sum()
        if moved < tolerance:
            return r_a, B.T @ r_a, steps
    raise AssertionError(f"still moving by {moved} after {limit} steps")


def bradley_terry(
    wins: Table, losses: Table, x: Table, y: Table, *, tolerance: float = 1e-10
) -> tuple[Table, Table]:
    """Minimise sum (wins + losses) log(e^-x + e^-y) + sum losses x + sum wins y.

    `wins[a, b]` is how often a beats b. Newton's method from a given point, each coordinate moved
    by 2 at most; fails rather than stop early.
    """
    rows = len(x)
    point = np.concatenate([x, y])
    for _ in range(300):
        gap = point[None, rows:] - point[:rows, None]
        share_b, share_a = 1 / (1 + np.exp(-gap)), 1 / (1 + np.exp(gap))
        surplus = losses * share_a - wins * share_b
        gradient = np.concatenate([surplus.sum(1), -surplus.sum(0)])
        weights = (wins + losses) * share_a * share_b
        degree = np.concatenate([weights.sum(1), weights.sum(0)])
        hessian = np.diag(degree)
        hessian[:rows, rows:] = -weights
        hessian[rows:, :rows] = -weights.T
        # scaled to a unit diagonal; the constant that the objective ignores is given a curvature
        scale = 1 / np.sqrt(degree)
        flat = 1 / scale / np.linalg.norm(1 / scale)
        scaled = hessian * np.outer(scale, scale) + np.outer(flat, flat)
        move = scale * np.linalg.solve(scaled, scale * gradient)
        move -= move[0]
        largest = np.abs(move).max()
        point -= move * min(1, 2 / max(largest, 1e-300))
        if largest < tolerance:
            return point[:rows], point[rows:]
    raise AssertionError(f"Newton still moves by {largest}")


def bradley_terry_exactly(wins: Table, losses: Table) -> tuple[Table, Table]:
    """The same for a few tokens with a hundred digits: blocks may meet as rarely as they like."""
    rows, columns = wins.shape
    with localcontext(prec=100):
        exact_wins, exact_losses = _decimal(wins), _decimal(losses)
        point = _decimal(np.zeros(rows + columns))
        for _ in range(1000):
            gap = point[None, rows:] - point[:rows, None]
            share_b, share_a = 1 / (1 + _exp(-gap)), 1 / (1 + _exp(gap))
            surplus = exact_losses * share_a - exact_wins * share_b
            weights = (exact_wins + exact_losses) * share_a * share_b
            system = _decimal(np.zeros((rows + columns, rows + columns + 1)))
            system[:rows, rows:-1], system[rows:, :rows] = -weights, -weights.T
            system[:, -1] = np.concatenate([surplus.sum(1), -surplus.sum(0)])
            np.fill_diagonal(system, np.concatenate([weights.sum(1), weights.sum(0)]))
            # the first token stays: the constant that the objective ignores
            move = np.concatenate([_decimal(np.zeros(1)), _solved(system[1:, 1:])])
            largest = np.abs(move).max()
            point = point - move * (2 / largest if largest > 2 else 1)
            if largest < 1e-20:
                return point[:rows].astype(float), point[rows:].astype(float)
    raise AssertionError(f"Newton still moves by {largest}")


def _solved(system: Any) -> Any:
    """Gaussian elimination; the right-hand side is the last column."""
    for k in range(len(system)):
        system[k] = system[k] / system[k, k]
        for other in range(len(system)):
            if other != k:
                system[other] = system[other] - system[other, k] * system[k]
    return system[:, -1]


_decimal = np.vectorize(Decimal, otypes=[object])
_exp = np.vectorize(Decimal.exp, otypes=[object])
