"""The trust that a joint deserves: do the model's conditionals describe one distribution at all?"""

import math
from functools import reduce

import torch

from unmask.errors import NumericsError
from unmask.joints.agreement import Agreement
from unmask.logspace import row_blocks
from unmask.tables.law import Law
from unmask.tables.protocol import Tables
from unmask.tables.stationary import stationary_law


def agreement(tables: Tables) -> Agreement | None:
    """J of these tables, measured once for all joints that ask; None without a certain law.

    The Jensen-Shannon divergence between q(a | b) r_b and q(b | a) r_a, the two factorisations at
    the marginals to which pseudo-Gibbs sampling converges. If some joint has both conditionals, the
    two are the same distribution; if none does, no construction can be faithful to both.
    """
    return tables.remember("agreement", lambda: _measured(tables))


def _measured(tables: Tables) -> Agreement | None:
    law = stationary_law(tables)
    if not law.converged:
        return None
    if law.incompatibility is not None:
        return Agreement(law.incompatibility())
    return Agreement(_bits(tables, law), len(tables.shape))


def _bits(tables: Tables, law: Law) -> float:
    """The Jensen-Shannon divergence of the factorisations, one per blank, over log k.

    With k blanks it is at most log2 k bits; divided by that, 1 means the same for any number.
    """
    count, total = len(tables.shape), 0.0
    for rows in row_blocks(tables.shape[0], math.prod(tables.shape[1:])):
        each = [
            tables.log_given_others(t, rows) + (log if len(log) == 1 else log[rows])
            for t, log in enumerate(law.log_others)
        ]
        middle = reduce(torch.logaddexp, each) - math.log(count)
        for log_p in each:
            # a fill that has no mass in float64 adds none
            part = torch.where(log_p.exp() > 0, log_p.exp() * (log_p - middle), 0.0)
            total += float(part.sum()) / count
    if not math.isfinite(total):
        raise NumericsError("the conditionals' factorisations left the range of float64")
    # rounding can leave it a hair outside of its range
    return min(1.0, max(0.0, total / math.log(count)))
