"""Joints at the marginals where pseudo-Gibbs sampling settles: the sampler's own, and a pool."""

import math

from unmask.constructions.construction import Construction
from unmask.constructions.solvers.fits import stationary_law
from unmask.joints.form_engine import form_joint
from unmask.joints.forms import Product, Sum
from unmask.joints.joint import Joint
from unmask.tables.protocol import Tables


def pseudo_gibbs(tables: Tables) -> Joint:
    """The stationary distribution of the random-scan pseudo-Gibbs sampler (Heckerman et al. 2000).

    The mean over the blanks of ``q(x_t | x_-t) mu_-t``, where ``mu_-t`` is the stationary
    distribution of the others: resample a random blank given the others, over and over, and this is
    what you converge to. It is computed, not sampled.
    """
    law, blanks = stationary_law(tables), len(tables.shape)
    form = Sum(tuple(log - math.log(blanks) for log in law.log_others))
    return form_joint(form, tables, method="pseudo-gibbs", diagnostics=law.solution.diagnostics())


def log_pool(tables: Tables) -> Joint:
    """The geometric mean of the same factorisations, renormalised.

    A fill must be likely whichever blank is drawn last (logarithmic opinion pool, Genest & Zidek
    1986).
    """
    law, blanks = stationary_law(tables), len(tables.shape)
    form = Product((1 / blanks,) * blanks, tuple(log / blanks for log in law.log_others))
    return form_joint(form, tables, method="log-pool", diagnostics=law.solution.diagnostics())


PSEUDO_GIBBS = Construction(
    pseudo_gibbs,
    "what resampling one blank given the others converges to",
    solver="stationary",
    sound=True,
    unsketched="",
)
LOG_POOL = Construction(
    log_pool,
    "a fill must be likely whichever blank is drawn last",
    solver="stationary",
    sound=True,
    unsketched="",
)
