"""What a solver found, and how sure it is of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from unmask.constructions.solvers.forest import Vector
from unmask.constructions.solvers.groups import NEGLIGIBLE
from unmask.errors import NumericsError

# the least part of its mass that a token's step can foretell in float64
_LEAST_KEPT = 1e-12


@dataclass(frozen=True, eq=False)
class Solution:
    """Log marginals, and how they were found.

    In a weighted contest they are less the log weights. `residual` is the largest coordinate of
    the last preconditioned residual, an estimate of their error for the tables as they were read;
    `history` has it for every point that was tried. `error_bound` is how far the joint may be off
    in total variation, groups of tokens that hardly meet included; None where the residual was
    never small enough to ask.
    """

    log_a: Float[Tensor, " a"]
    log_b: Float[Tensor, " b"]
    passes: int
    converged: bool
    residual: float
    history: tuple[float, ...]
    error_bound: float | None = None

    def diagnostics(self) -> dict[str, object]:
        """What was done, ready for a joint's diagnostics."""
        return told(self.passes, self.converged, self.history, self.error_bound)


def told(
    passes: int, converged: bool, history: Sequence[float], error_bound: float | None
) -> dict[str, object]:
    """What a solver says of itself in a joint's diagnostics."""
    return {
        "passes": passes,
        "converged": converged,
        "residual": history[-1],
        "history": list(history),
        **({} if error_bound is None else {"error_bound": error_bound}),
    }


def counted(step: Vector, log_mass: Vector, negligible: float = NEGLIGIBLE) -> NDArray[np.bool_]:
    """The tokens that hold some mass in the answer, as a step, taken off logarithms, foretells it.

    One that no context allows has none at all there, and steps lead to it a nat at a time: a token
    that gets a part p of what it loses asks for a step of 1 - p, and has p of its mass in the end.
    """
    falls = step - step[np.argmax(log_mass)]
    kept = np.log(np.clip(1 - falls, _LEAST_KEPT, 1))
    # beyond a nat other tokens are behind it, and nothing is foretold
    falling = log_mass + np.where(falls > 1 + _LEAST_KEPT, 0.0, kept)
    lowest = float(log_mass.max()) + math.log(negligible)
    found: NDArray[np.bool_] = np.where(falls > 0, falling, log_mass - falls) > lowest
    return found


def asked_move(step: Vector, log_mass: Vector, negligible: float = NEGLIGIBLE) -> float:
    """The largest move of a log marginal that a step asks for, relative to the heaviest token."""
    if not np.isfinite(step).all():
        raise NumericsError("the solver's marginals left the range of float64")
    moves = np.abs(step - step[np.argmax(log_mass)])
    return float(moves[counted(step, log_mass, negligible)].max())
