"""What a solver found, and how sure it is of it."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from torch import Tensor

from unmask.errors import NumericsError
from unmask.solvers.forest import Vector


@dataclass(frozen=True, eq=False)
class Solution:
    """Log marginals, and how they were found.

    In a weighted contest they are less the log weights. `residual` is the largest coordinate of
    the last preconditioned residual, an estimate of their error for the tables as they were read;
    `history` has it for every point that was tried.
    """

    log_a: Float[Tensor, " a"]
    log_b: Float[Tensor, " b"]
    passes: int
    converged: bool
    residual: float
    history: tuple[float, ...]

    def diagnostics(self) -> dict[str, object]:
        """What was done, ready for a joint's diagnostics."""
        return {
            "passes": self.passes,
            "converged": self.converged,
            "residual": self.residual,
            "history": list(self.history),
        }


def asked_move(step: Vector, log_mass: Vector) -> float:
    """The largest move of a log marginal that a step asks for, relative to the heaviest token."""
    move = float(np.abs(step - step[np.argmax(log_mass)]).max())
    if not math.isfinite(move):
        raise NumericsError("the solver's marginals left the range of float64")
    return move
