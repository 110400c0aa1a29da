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
from scipy.sparse.linalg import LinearOperator, gmres
from torch import Tensor

from unmask.solvers import tiles
from unmask.solvers.bradley_terry import Contest, Pass, read_tables
from unmask.solvers.forest import Vector
from unmask.solvers.probabilities import Probabilities, probabilities
from unmask.solvers.solution import Solution, asked_move
from unmask.tables import PairTables

TOLERANCE = 1e-10
MAX_PASSES = 200
# plain power steps first: they bring the crude error down, and GMRES then needs one run
_POWER_STEPS = 3
# GMRES keeps a vector a pass; beyond these it is better to start again from the better point
_KRYLOV = 40
# one run of it cannot gain more digits than float64 has to lose
_BEST_REDUCTION = 1e-13
# a run may not change a marginal by more than these factors: beyond them the point must be re-read
_SMALLEST, _LARGEST = 1e-3, 1e3
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
    flows = Flows(tables)
    size_a = tables.shape[0]
    mass = _start(tables, log_a, log_b)
    for _ in range(min(_POWER_STEPS, max_passes - 1)):
        mass = _normalised(flows.pushed(mass), size_a)
    history: list[float] = []
    with tables.bar("pseudo-gibbs") as bar:
        while True:
            here = flows.read(mass)
            precondition = here.forest()
            history.append(asked_move(precondition(here.gradient), mass))
            bar.set_postfix_str(f"residual {history[-1]:.0e}", refresh=False)
            bar.update(flows.passes - bar.n)
            if watch:
                watch(np.log(mass), flows.passes)
            # another run takes a pass for GMRES, one that it ends with, and one to read the result
            if history[-1] < tolerance or flows.passes + 3 > max_passes:
                break
            change = _relative_change(
                flows,
                mass,
                precondition,
                -precondition(here.gradient),
                reduction=max(_BEST_REDUCTION, tolerance / history[-1] / 100),
                passes=min(_KRYLOV, max_passes - flows.passes - 2),
            )
            # not each blank by itself: rounded tables balance where their sums differ by a hair
            mass = mass * np.clip(1 + change, _SMALLEST, _LARGEST)
            mass *= 2 / mass.sum()
    # what the last reading says flows into each token: a power step that costs nothing
    mass = _normalised(np.maximum(mass - 2 * here.gradient, mass * _SMALLEST), size_a)
    log_mass = torch.tensor(np.log(mass), device=tables.a_given_b.logits.device)
    return Solution(
        log_mass[:size_a],
        log_mass[size_a:],
        flows.passes,
        history[-1] < tolerance and here.holds_together(),
        history[-1],
        tuple(history),
    )


def _relative_change(
    flows: "Flows",
    mass: Vector,
    precondition: Callable[[Vector], Vector],
    wanted: Vector,
    *,
    reduction: float,
    passes: int,
) -> Vector:
    """By what part each mass must change for the flows to balance."""
    root = np.sqrt(mass)

    def preconditioned_balance(scaled: Vector) -> Vector:
        return root * precondition(flows.balance(root * scaled) / 2)

    # with the type named it is not found out by a trial, which would be a pass
    operator = LinearOperator(
        (len(mass), len(mass)), matvec=preconditioned_balance, dtype=np.float64
    )
    change, _ = gmres(operator, root * wanted, rtol=reduction, atol=0.0, restart=passes, maxiter=1)
    relative: Vector = change / root
    return relative


def power_iteration(
    tables: PairTables, log_a: Tensor, log_b: Tensor, *, steps: int
) -> tuple[Float[Tensor, " a"], Float[Tensor, " b"]]:
    """The marginals after so many rounds of pseudo-Gibbs: the slow way, a check."""
    flows = Flows(tables)
    size_a = tables.shape[0]
    mass = _start(tables, log_a, log_b)
    for _ in range(steps):
        mass = _normalised(flows.pushed(mass), size_a)
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
        from unmask.fused.moves import net_inflow

        return net_inflow(self._source.arrays(), mass[:size_a], mass[size_a:])


def _net_inflow(source: Probabilities, mass: Vector) -> Vector:
    """What enters each token less what leaves it."""
    size_a = source.tables.shape[0]
    mass_a = torch.tensor(mass[:size_a], device=source.device)
    mass_b = torch.tensor(mass[size_a:], device=source.device)
    net_a, net_b = torch.zeros_like(mass_a), torch.zeros_like(mass_b)
    move = tiles.for_device(tiles.moved, source.device)
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
    return _normalised(mass, tables.shape[0])


def _normalised(mass: Vector, size_a: int) -> Vector:
    return np.concatenate([part / part.sum() for part in (mass[:size_a], mass[size_a:])])


def stationary_marginals(tables: PairTables) -> Solution:
    """The solution for these tables, found once for all joints that stand on it."""
    found = tables.remember("stationary", lambda: solve(tables))
    assert isinstance(found, Solution)
    return found
