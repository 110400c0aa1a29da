"""Joints at the marginals where pseudo-Gibbs sampling settles: the sampler's own, and a pool."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.joint import Joint, Scores
from unmask.solvers.solution import Solution
from unmask.solvers.stationary import stationary_marginals
from unmask.tables import PairTables


def pseudo_gibbs(tables: PairTables) -> Joint:
    """The law of the random-scan pseudo-Gibbs sampler (Heckerman et al. 2000).

    (q(a | b) r_b + q(b | a) r_a) / 2 with the stationary marginals r: resample one blank given
    the other, whichever comes up, and this is where it ends. Solved for, not sampled.
    """
    found = stationary_marginals(tables)

    def scores(rows: slice) -> Float[Tensor, "block b"]:
        tile = tables.tile(rows)
        forth = tile.log_a_given_b + found.log_b
        back = tile.log_b_given_a + found.log_a[rows, None]
        return torch.logaddexp(forth, back) - math.log(2)

    return _joint(tables, scores, found, "pseudo-gibbs")


def log_pool(tables: PairTables) -> Joint:
    """The geometric mean of the two factorisations at the same marginals, renormalised.

    Proportional to sqrt(q(a | b) r_b q(b | a) r_a): a pair must be likely both ways (logarithmic
    opinion pool, Genest & Zidek 1986).
    """
    found = stationary_marginals(tables)

    def scores(rows: slice) -> Float[Tensor, "block b"]:
        tile = tables.tile(rows)
        both = tile.log_a_given_b + tile.log_b_given_a
        return (both + found.log_a[rows, None] + found.log_b) / 2

    return _joint(tables, scores, found, "log-pool")


def _joint(tables: PairTables, scores: Scores, found: Solution, method: str) -> Joint:
    return Joint(
        scores,
        tables.supports,
        method=method,
        diagnostics={**tables.diagnostics(), **found.diagnostics()},
        device=found.log_a.device,
    )
