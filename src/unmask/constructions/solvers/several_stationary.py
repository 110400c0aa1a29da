"""Where pseudo-Gibbs sampling of several blanks settles, and the joints that stand on it.

The chain picks a blank at random and draws it anew given all others. Its stationary law mu solves
mu = mean over t of q_t mu_-t, with mu_-t the law of the other blanks (Heckerman et al. 2000), which
is known by its mu_-t: masses of the lines, in balance.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from unmask.constructions.solvers.balance import Balance, balanced, normalised
from unmask.constructions.solvers.context_graph import (
    MAX_PASSES,
    LineFlows,
    Lines,
    Scores,
    conditionals,
)
from unmask.constructions.solvers.solution import told
from unmask.errors import NumericsError
from unmask.joints.agreement import Agreement
from unmask.tables.candidate_tables import BlankTables


@dataclass(frozen=True, eq=False)
class StationaryLaw:
    """log mu_-t of every blank, of size 1 along it, and how it was found."""

    log_of_others: list[Float[Tensor, "..."]]
    found: Balance

    def diagnostics(self) -> dict[str, object]:
        """What the solver did."""
        found = self.found
        return told(found.passes, found.converged, found.history, found.error_bound)


def stationary_law(tables: BlankTables) -> StationaryLaw:
    """The stationary law of these tables, found once for all joints that stand on it."""
    law = tables.remember("stationary", lambda: _solve(tables))
    assert isinstance(law, StationaryLaw)
    return law


def _solve(tables: BlankTables) -> StationaryLaw:
    lines = Lines(tables.shape)
    start = [_log_masked_others(tables, t).exp() for t in range(tables.blanks)]
    # a start of nothing would stay nothing: GMRES works with relative changes
    mass = normalised(np.maximum(lines.stack(start), 1e-200), lines.sizes)
    with tables.bar("pseudo-gibbs") as bar:
        flows = LineFlows(lines, conditionals(tables))
        found = balanced(flows, mass, lines.sizes, bar, max_passes=MAX_PASSES)
    return StationaryLaw([part.log() for part in lines.split(found.mass)], found)


def _log_masked_others(tables: BlankTables, blank: int) -> Float[Tensor, "..."]:
    shape = [1 if s == blank else n for s, n in enumerate(tables.shape)]
    total = torch.zeros(shape, dtype=torch.float64)
    for s in range(tables.blanks):
        if s != blank:
            total = total + tables.log_masked(s)
    return total


def pseudo_gibbs(tables: BlankTables) -> tuple[Scores, dict[str, object]]:
    """The law of the random-scan chain itself: the mean of the factorisations, one a blank."""
    each = _factorisations(tables)
    return torch.stack(each).logsumexp(dim=0) - math.log(len(each)), _did(tables)


def log_pool(tables: BlankTables) -> tuple[Scores, dict[str, object]]:
    """The geometric mean over the blanks of q(x_t | x_-t) mu_-t: one factorisation a blank."""
    return torch.stack(_factorisations(tables)).mean(dim=0), _did(tables)


def _did(tables: BlankTables) -> dict[str, object]:
    return stationary_law(tables).diagnostics()


def _factorisations(tables: BlankTables) -> list[Scores]:
    law = stationary_law(tables)
    return [tables.log_given_others(t) + law.log_of_others[t] for t in range(tables.blanks)]


def agreement(tables: BlankTables) -> Agreement:
    """J: the Jensen-Shannon divergence of the factorisations, one a blank, in bits.

    0 exactly when all conditionals are those of one joint. With k blanks it is at most log2 k;
    here it is divided by that, so that 1 means the same for any number of blanks.
    """
    each = _factorisations(tables)
    middle = torch.stack(each).logsumexp(dim=0) - math.log(len(each))
    total = 0.0
    for one in each:
        # a fill that has no mass in float64 adds none
        part = torch.where(one.exp() > 0, one.exp() * (one - middle), 0.0)
        total += float(part.sum()) / len(each)
    if not math.isfinite(total):
        raise NumericsError("the conditionals' factorisations left the range of float64")
    bits = min(1.0, max(0.0, total / math.log(len(each))))
    return Agreement(bits, stationary_law(tables).found.converged, tables.blanks)
