"""Masses that flow between the nodes of a graph, brought into balance.

GMRES in the norm in which a reversible chain is symmetric, preconditioned by the forest of every
node's strongest flow. Knows nothing of tables: flows are an object that reads them.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres

from unmask.constructions.solvers.descent import Pass
from unmask.constructions.solvers.forest import Vector
from unmask.constructions.solvers.groups import ERROR, Moves
from unmask.constructions.solvers.solution import Solution, largest_log_step
from unmask.progress import Bar

TOLERANCE = 1e-10
MAX_PASSES = 200
# plain power steps first: they bring the crude error down, and GMRES then needs one run
_POWER_STEPS = 3
# GMRES keeps a vector per pass; beyond these it is better to start again from the better point
_KRYLOV = 40
# one run of it cannot gain more digits than float64 has to lose
_BEST_REDUCTION = 1e-13
# a run may not change a marginal by more than these factors: beyond them the point must be re-read
_SMALLEST, _LARGEST = 1e-3, 1e3


@runtime_checkable
class Flows(Protocol):
    """Mass that moves between nodes, in parts that each hold a mass of one."""

    passes: int

    def read(self, mass: Vector) -> Pass:
        """At positive masses: a part 1/k of what leaves minus what enters, k parts; the forest."""

    def balance(self, mass: Vector) -> Vector:
        """What leaves minus what enters, for masses of any sign."""

    def pushed(self, mass: Vector) -> Vector:
        """What enters each positive mass when every mass moves once."""


def balanced(
    flows: Flows,
    mass: Vector,
    sizes: Sequence[int],
    bar: Bar,
    *,
    tolerance: float = TOLERANCE,
    max_passes: int = MAX_PASSES,
    watch: Callable[[Vector, int], None] | None = None,
) -> Solution:
    """The masses where as much enters every node as leaves it, from given ones."""
    parts = len(sizes)
    for _ in range(min(_POWER_STEPS, max_passes - 1)):
        mass = normalised(flows.pushed(mass), sizes)
    history: list[float] = []
    moves = Moves()
    error_bound: float | None = None
    while True:
        here = flows.read(mass)
        precondition = here.forest()
        step = precondition(here.gradient)
        history.append(largest_log_step(step, np.log(mass), here.negligible))
        bar.set_postfix_str(f"residual {history[-1]:.0e}", refresh=False)
        bar.update(flows.passes - bar.n)
        if watch:
            watch(np.log(mass), flows.passes)
        done = history[-1] < tolerance
        # groups are looked at even without passes: the answer is there, not the verdict
        if done or (flows.passes < max_passes and moves.due(flows.passes)):
            groups = here.groups(step, np.log(mass), directed=True)
            flows.passes += groups.looks
            move = moves.worth(groups, history[-1], flows.passes) and flows.passes < max_passes
            if done and not move:
                error_bound = groups.bound(history[-1])
                break
            if move:
                mass = _changed(mass, groups.change, parts)
                continue
        # another run takes a pass for GMRES, one that it ends with, and one to read the result
        if flows.passes + 3 > max_passes:
            break
        change = _relative_change(
            flows,
            mass,
            precondition,
            -step,
            parts=parts,
            reduction=max(_BEST_REDUCTION, tolerance / history[-1] / 100),
            passes=min(_KRYLOV, max_passes - flows.passes - 2),
        )
        mass = _changed(mass, change, parts)
    # what the last reading says flows into each node: a power step that costs nothing
    mass = normalised(np.maximum(mass - parts * here.gradient, mass * _SMALLEST), sizes)
    converged = error_bound is not None and error_bound < ERROR
    return Solution(np.log(mass), flows.passes, converged, tuple(history), error_bound)


def _changed(mass: Vector, change: Vector, parts: int) -> Vector:
    """Masses changed by parts of themselves, all parts together as heavy as they should be."""
    # not each part by itself: rounded tables balance where their sums differ by a hair
    changed: Vector = mass * np.clip(1 + change, _SMALLEST, _LARGEST)
    changed *= parts / changed.sum()
    return changed


def _relative_change(
    flows: Flows,
    mass: Vector,
    precondition: Callable[[Vector], Vector],
    wanted: Vector,
    *,
    parts: int,
    reduction: float,
    passes: int,
) -> Vector:
    """By what part each mass must change for the flows to balance."""
    root = np.sqrt(mass)

    def preconditioned_balance(scaled: Vector) -> Vector:
        return root * precondition(flows.balance(root * scaled) / parts)

    # with the type named it is not found out by a trial, which would be a pass
    operator = LinearOperator(
        (len(mass), len(mass)), matvec=preconditioned_balance, dtype=np.float64
    )
    change, _ = gmres(operator, root * wanted, rtol=reduction, atol=0.0, restart=passes, maxiter=1)
    relative: Vector = change / root
    return relative


def normalised(mass: Vector, sizes: Sequence[int]) -> Vector:
    """Every part with a mass of one."""
    ends = np.cumsum(sizes)[:-1]
    return np.concatenate([part / part.sum() for part in np.split(mass, ends)])
