"""Where conditional tables come from: only what a construction needs is read.

Knows nothing of models: a source may elicit, or hold everything already.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.errors import UnmaskError
from unmask.tables.conditional import ConditionalTable, DenseLogits
from unmask.text.support import Support

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

    def fitted(self, shape: tuple[int, int], device: torch.device) -> "MaskedMarginals":
        """The same for tables of this shape, in float64 and normalised; raises if they are not."""
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


@runtime_checkable
class TableSource(Protocol):
    """Where tables come from: only what a construction needs is read, each part once."""

    @property
    def supports(self) -> tuple[Support, Support]:
        """The tokens of both axes."""

    def table(self, outcome: int) -> ConditionalTable:
        """The table of one blank: q(a | b), or q(b | a)."""

    def masked(self) -> MaskedMarginals:
        """The doubly masked distributions."""

    def log_given(self, outcome: int, contexts: Sequence[int]) -> Float[Tensor, "contexts size"]:
        """Some contexts of that table, one row each, without the rest of it."""

    def diagnostics(self) -> dict[str, object]:
        """What has been run so far."""


@dataclass(frozen=True, eq=False)
class StoredSource:
    """A source whose parts are all there already."""

    supports: tuple[Support, Support]
    tables: tuple[ConditionalTable, ConditionalTable]
    marginals: MaskedMarginals | None = None
    provenance: Mapping[str, object] = field(default_factory=dict)

    def table(self, outcome: int) -> ConditionalTable:
        """The table of one blank."""
        return self.tables[outcome]

    def masked(self) -> MaskedMarginals:
        """The doubly masked distributions, if they were given."""
        if self.marginals is None:
            raise UnmaskError(
                "these tables hold no doubly masked distributions, which this construction needs; "
                "give marginals= when making them, or use log-pool or ag"
            )
        return self.marginals

    def log_given(self, outcome: int, contexts: Sequence[int]) -> Float[Tensor, "contexts size"]:
        """Some contexts of that table, one row each."""
        return self.tables[outcome].log_prob_given(contexts)

    def diagnostics(self) -> dict[str, object]:
        """Where the tables came from and how they are kept."""
        return {**self.provenance, "tables": storage(self.tables[0])}


def storage(table: ConditionalTable) -> str:
    """How a table is kept, in a word."""
    return "dense" if isinstance(table.logits, DenseLogits) else "factored"
