"""The stationary law of tables, as a value: the law of contexts at which resampling settles."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

Factors = tuple[Float[Tensor, "..."], ...]


@dataclass(frozen=True, eq=False)
class Law:
    """Log probabilities of all blanks but t, for every blank t: of size 1 along it.

    `passes` counts sweeps over the tables, and `residual` is the largest relative change of a
    probability in one more. `converged` is whether the tables determine the law in float64.
    `incompatibility` estimates J in bits for a sketch, whose whole rows say more than its cells.
    """

    log_others: Factors
    passes: int
    residual: float
    converged: bool
    incompatibility: Callable[[], float] | None = None

    @property
    def log_a(self) -> Float[Tensor, " a"]:
        """Of two blanks, the law of the first."""
        return self.log_others[1][:, 0]

    @property
    def log_b(self) -> Float[Tensor, " b"]:
        """Of two blanks, the law of the second."""
        return self.log_others[0][0]

    def diagnostics(self) -> dict[str, object]:
        """Facts of the solution, ready for a joint's diagnostics."""
        return {"passes": self.passes, "converged": self.converged, "residual": self.residual}
