"""Where pseudo-Gibbs sampling settles: marginals with r_a = sum q(a | b) r_b, and back.

Resampling one blank given the other in turn has one stationary law even where the conditionals
contradict each other (Heckerman et al. 2000). Power iteration mixes as slowly as the sampler does.
Here the balance of flows is solved for instead: GMRES, in the norm in which a reversible chain is
symmetric, preconditioned by the forest of every token's strongest flow.
"""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from unmask.constructions.solvers import pair_passes
from unmask.constructions.solvers.balance import MAX_PASSES, TOLERANCE, balanced, normalised
from unmask.constructions.solvers.bradley_terry import Contest, read_tables
from unmask.constructions.solvers.descent import Pass
from unmask.constructions.solvers.forest import Vector
from unmask.constructions.solvers.solution import Solution
from unmask.tables.pair_tables import PairTables
from unmask.tables.probabilities import Probabilities, probabilities

# how far a context of rounded tables may be from summing to one
_ROUNDING = 1e-6


def solve(
    tables: PairTables,
    log_a: Float[Tensor, " a"] | None = None,
    log_b: Float[Tensor, " b"] | None = None,
    *,
    tolerance: float = TOLERANCE,
    max_passes: int = MAX_PASSES,
    watch: Callable[[Vector, int], None] | None = None,
) -> Solution:
    """The stationary log marginals, from the given ones or from the doubly masked.

    `watch` is shown every point and how many passes it took to get there.
    """
    size_a = tables.shape[0]
    with tables.bar("pseudo-gibbs") as bar:
        found = balanced(
            Flows(tables),
            _start(tables, log_a, log_b),
            tables.shape,
            bar,
            tolerance=tolerance,
            max_passes=max_passes,
            watch=watch,
        )
    log_mass = torch.tensor(np.log(found.mass), device=tables.a_given_b.logits.device)
    return Solution(
        log_mass[:size_a],
        log_mass[size_a:],
        found.passes,
        found.converged,
        found.history[-1],
        found.history,
        found.error_bound,
    )


def power_iteration(
    tables: PairTables, log_a: Tensor, log_b: Tensor, *, steps: int
) -> tuple[Float[Tensor, " a"], Float[Tensor, " b"]]:
    """The marginals after so many rounds of pseudo-Gibbs: the slow way, a check."""
    flows = Flows(tables)
    size_a = tables.shape[0]
    mass = _start(tables, log_a, log_b)
    for _ in range(steps):
        mass = normalised(flows.pushed(mass), tables.shape)
    log_mass = torch.tensor(np.log(mass))
    return log_mass[:size_a], log_mass[size_a:]


class Flows:
    """Mass that moves between the tokens of both blanks, and how often the tables were read."""

    def __init__(self, tables: PairTables) -> None:
        self._tables = tables
        self._source = probabilities(tables)
        self.passes = 0

    def read(self, mass: Vector) -> Pass:
        """One pass at positive masses: half of what leaves less what enters, and the forest.

        That is the contest of equals in which each context counts by its mass.
        """
        self.passes += 1
        size_a = self._tables.shape[0]
        a, b = (
            torch.tensor(part, device=self._source.device)
            for part in (mass[:size_a], mass[size_a:])
        )
        contest = Contest(a, b, torch.zeros_like(a), torch.zeros_like(b))
        return read_tables(self._tables, np.zeros(len(mass)), contest)

    def balance(self, mass: Vector) -> Vector:
        """What leaves less what enters, for masses of any sign.

        Summed pair by pair, so that what one token loses is what another gains: blocks of tokens
        that hardly meet are balanced as precisely as the tokens in them.
        """
        self.passes += 1
        return -self._net_inflow(mass)

    def pushed(self, mass: Vector) -> Vector:
        """What enters each positive mass when every mass moves once: it, and what it gains."""
        self.passes += 1
        # what rounded tables let leave is the mass but for their rounding: nothing falls below it
        return np.maximum(mass + self._net_inflow(mass), mass * _ROUNDING)

    def _net_inflow(self, mass: Vector) -> Vector:
        size_a = self._tables.shape[0]
        if not self._source.fused():
            return _net_inflow(self._source, mass)
        from unmask.tables.kernels.moves import net_inflow

        return net_inflow(self._source.arrays(), mass[:size_a], mass[size_a:])


def _net_inflow(source: Probabilities, mass: Vector) -> Vector:
    """What enters each token less what leaves it."""
    size_a = source.tables.shape[0]
    mass_a = torch.tensor(mass[:size_a], device=source.device)
    mass_b = torch.tensor(mass[size_a:], device=source.device)
    net_a, net_b = torch.zeros_like(mass_a), torch.zeros_like(mass_b)
    move = pair_passes.for_device(pair_passes.moved, source.device)
    for rows in source.tables.blocks():
        net_a[rows], into_b = move(*source.tile(rows), mass_a[rows], mass_b)
        net_b += into_b
    net_inflow: Vector = torch.cat([net_a, net_b]).cpu().numpy()
    return net_inflow


def _start(tables: PairTables, log_a: Tensor | None, log_b: Tensor | None) -> Vector:
    if log_a is not None and log_b is not None:
        given = [log_a, log_b]
    elif tables.has_masked():
        given = [tables.masked.log_a, tables.masked.log_b]
    else:
        given = [torch.zeros(len(axis), dtype=torch.float64) for axis in tables.supports]
    # a start of nothing would stay nothing: GMRES works with relative changes
    floored = [
        torch.exp(g.double() - torch.logsumexp(g.double(), 0)).clamp(min=1e-200) for g in given
    ]
    mass: Vector = torch.cat([part.cpu() for part in floored]).numpy()
    return normalised(mass, tables.shape)


def stationary_marginals(tables: PairTables) -> Solution:
    """The solution for these tables, found once for all joints that stand on it."""
    found = tables.remember("stationary", lambda: solve(tables))
    assert isinstance(found, Solution)
    return found
