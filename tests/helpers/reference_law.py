"""The stationary law of pseudo-Gibbs sampling, slowly, in float64; neither is the library's way.

Of any number of blanks: `given[t]` has q(x_t | all other blanks) in every cell of the fills.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]


def stationary(A: Table, B: Table) -> tuple[Table, Table]:
    """r_a = A r_b, r_b = B' r_a: the law of the chain from a by way of some b to the next a."""
    r_a = eliminated(B @ A.T)
    return r_a, B.T @ r_a


def stationary_of_several(given: Sequence[Table]) -> Table:
    """The law of whole fills, of which a random blank is drawn anew."""
    shape = given[0].shape
    moves = np.zeros(shape + shape)
    for fill in np.ndindex(*shape):
        for blank, q in enumerate(given):
            to = (*fill[:blank], slice(None), *fill[blank + 1 :])
            moves[(*fill, *to)] += q[to] / len(given)
    size = int(np.prod(shape))
    return eliminated(moves.reshape(size, size)).reshape(shape)


def eliminated(moves: Table) -> Table:
    """The law of a chain, `moves[i, j]` from i to j: states are taken out one by one.

    Gaussian elimination in which each pivot is summed from what is off the diagonal (Grassmann,
    Taksar & Heyman 1985): nothing is subtracted, so every number is right to near rounding, rare
    states and groups that hardly meet included. No mass is left to itself beforehand.
    """
    flow = moves.copy()
    np.fill_diagonal(flow, 0.0)
    for last in range(len(flow) - 1, 0, -1):
        flow[:last, last] /= flow[last, :last].sum()
        flow[:last, :last] += np.outer(flow[:last, last], flow[last, :last])
    law = np.ones(len(flow))
    for state in range(1, len(flow)):
        law[state] = law[:state] @ flow[:state, state]
    return law / law.sum()


def stationary_by_power(
    A: Table, B: Table, *, tolerance: float = 1e-13, limit: int = 100_000
) -> tuple[Table, Table]:
    """The same by sampling steps from uniform until they stop moving."""
    r_a = np.full(len(A), 1 / len(A))
    for _ in range(limit):
        updated = A @ (B.T @ r_a)
        moved = np.abs(np.log(updated) - np.log(r_a)).max()
        r_a = updated / updated.sum()
        if moved < tolerance:
            return r_a, B.T @ r_a
    raise AssertionError(f"still moving by {moved} after {limit} steps")
