"""What a solver found, and how sure it is of it."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unmask.constructions.solvers.forest import Vector
from unmask.constructions.solvers.groups import NEGLIGIBLE
from unmask.errors import NumericsError

# the least part of its mass that a token's step can foretell in float64
_LEAST_KEPT = 1e-12


@dataclass(frozen=True, eq=False)
class Solution:
    """The point that a solver ended at, logarithms of masses, and how it got there.

    In a weighted contest they are minus the log weights. `history` has, for every point that was
    tried, the largest coordinate of its preconditioned residual, an estimate of the error for the
    tables as they were read. `error_bound` is how far the joint may be off in total variation,
    groups of tokens that hardly meet included; None where the residual was never small enough to
    look.
    """

    point: Vector
    passes: int
    converged: bool
    history: tuple[float, ...]
    error_bound: float | None = None

    def diagnostics(self) -> dict[str, object]:
        """What was done, ready for a joint's diagnostics."""
        return {
            "passes": self.passes,
            "converged": self.converged,
            "residual": self.history[-1],
            "history": list(self.history),
            **({} if self.error_bound is None else {"error_bound": self.error_bound}),
        }


def counted(step: Vector, log_mass: Vector, negligible: float = NEGLIGIBLE) -> NDArray[np.bool_]:
    """The tokens that hold some mass in the answer, as a step, taken off logarithms, foretells it.

    One that no context allows has none at all there, and steps lead to it a nat at a time: a token
    that gets a part p of what it loses needs a step of 1 - p, and has p of its mass in the end.
    """
    falls = step - step[np.argmax(log_mass)]
    kept = np.log(np.clip(1 - falls, _LEAST_KEPT, 1))
    # beyond a nat other tokens are behind it, and nothing is foretold
    falling = log_mass + np.where(falls > 1 + _LEAST_KEPT, 0.0, kept)
    lowest = float(log_mass.max()) + math.log(negligible)
    holds_mass: NDArray[np.bool_] = np.where(falls > 0, falling, log_mass - falls) > lowest
    return holds_mass


def largest_log_step(step: Vector, log_mass: Vector, negligible: float = NEGLIGIBLE) -> float:
    """The largest change of a log mass in a step, relative to the heaviest token."""
    if not np.isfinite(step).all():
        raise NumericsError("the solver's marginals left the range of float64")
    moves = np.abs(step - step[np.argmax(log_mass)])
    return float(moves[counted(step, log_mass, negligible)].max())
