"""The two distributions of a pair of blanks with both masked. Knows nothing of models."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.errors import UnmaskError

# how far a log total may be from zero: float32 log-softmax over a large vocabulary is 1e-5 off
_NORMALISED = 1e-3


@dataclass(frozen=True, eq=False)
class MaskedMarginals:
    """The model's two distributions with both blanks masked, over the supports.

    `captured` is the mass that the whole-vocabulary distributions put on the supports.
    """

    log_a: Float[Tensor, " a"]
    log_b: Float[Tensor, " b"]
    captured: tuple[float, float] = (1.0, 1.0)

    def normalised_for(self, shape: tuple[int, int], device: torch.device) -> "MaskedMarginals":
        """These marginals in float64, for tables of a shape that they fit; they must sum to one."""
        if (len(self.log_a), len(self.log_b)) != shape:
            raise UnmaskError(
                f"marginals of {len(self.log_a)} and {len(self.log_b)} tokens do not fit tables of "
                f"{shape[0]} x {shape[1]}"
            )
        each = [log.to(device).double() for log in (self.log_a, self.log_b)]
        totals = [torch.logsumexp(log, dim=0) for log in each]
        if not all(abs(float(total)) < _NORMALISED for total in totals):
            raise UnmaskError(
                "marginals are logarithms of probabilities that sum to one, but these sum to "
                f"{float(totals[0].exp()):.3g} and {float(totals[1].exp()):.3g}"
            )
        return MaskedMarginals(each[0] - totals[0], each[1] - totals[1], self.captured)
