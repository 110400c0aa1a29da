"""How far to trust a joint: do the model's two conditionals describe one distribution at all?"""

import math

import torch

from unmask.agreement import Agreement
from unmask.solvers.stationary import stationary_marginals
from unmask.tables import PairTables


def incompatibility(tables: PairTables) -> float:
    """J, in bits: 0 exactly when the two conditionals are compatible, at most 1.

    The Jensen-Shannon divergence between q(a | b) r_b and q(b | a) r_a, the two factorisations at
    the marginals where pseudo-Gibbs sampling settles. Where some joint has both conditionals, they
    are the same distribution; where none has, no construction can be faithful to both.
    """
    return agreement(tables).bits


def agreement(tables: PairTables) -> Agreement:
    """J of these tables, measured once for all joints that ask."""
    found = tables.remember("agreement", lambda: _measured(tables))
    assert isinstance(found, Agreement)
    return found


def _measured(tables: PairTables) -> Agreement:
    return Agreement(_jensen_shannon(tables), stationary_marginals(tables).converged)


def _jensen_shannon(tables: PairTables) -> float:
    at = stationary_marginals(tables)
    total = 0.0
    for rows in tables.blocks():
        tile = tables.tile(rows)
        forth = tile.log_a_given_b + at.log_b
        back = tile.log_b_given_a + at.log_a[rows, None]
        middle = torch.logaddexp(forth, back) - math.log(2)
        total += float((forth.exp() * (forth - middle) + back.exp() * (back - middle)).sum())
    # rounding can leave it a hair outside of its range
    return min(1.0, max(0.0, total / 2 / math.log(2)))
