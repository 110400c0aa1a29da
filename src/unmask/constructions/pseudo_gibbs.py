"""Joints at the marginals where pseudo-Gibbs sampling settles: the sampler's own, and a pool."""

import math

from unmask.constructions.solvers.stationary import stationary_marginals
from unmask.joints.forms import Product, Sum
from unmask.joints.joint import Joint
from unmask.joints.pair_joint import PairJoint
from unmask.tables.pair_tables import PairTables


def pseudo_gibbs(tables: PairTables) -> Joint:
    """The law of the random-scan pseudo-Gibbs sampler (Heckerman et al. 2000).

    (q(a | b) r_b + q(b | a) r_a) / 2 with the stationary marginals r: resample one blank given
    the other, whichever comes up, and this is where it ends. Solved for, not sampled.
    """
    found = stationary_marginals(tables)
    form = Sum(found.log_a - math.log(2), found.log_b - math.log(2))
    return PairJoint(form, tables, method="pseudo-gibbs", diagnostics=found.diagnostics())


def log_pool(tables: PairTables) -> Joint:
    """The geometric mean of the two factorisations at the same marginals, renormalised.

    Proportional to sqrt(q(a | b) r_b q(b | a) r_a): a pair must be likely both ways (logarithmic
    opinion pool, Genest & Zidek 1986).
    """
    found = stationary_marginals(tables)
    form = Product(0.5, 0.5, found.log_a / 2, found.log_b / 2)
    return PairJoint(form, tables, method="log-pool", diagnostics=found.diagnostics())
