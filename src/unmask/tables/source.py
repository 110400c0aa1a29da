"""Where conditional tables come from: asked only for what a construction needs.

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
        """The same for tables of this shape, in float64 and normalised; refused if they are not."""
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
    """Where tables come from: asked only for what a construction needs, each part once."""

    @property
    def supports(self) -> tuple[Support, Support]:
        """The tokens of both axes."""

    def a_given_b(self) -> ConditionalTable:
        """The table q(a | b)."""

    def b_given_a(self) -> ConditionalTable:
        """The table q(b | a)."""

    def masked(self) -> MaskedMarginals:
        """The doubly masked distributions."""

    def log_a_given(self, contexts: Sequence[int]) -> Float[Tensor, "contexts a"]:
        """log q(a | b) for some b, a row each, without the rest of the table."""

    def log_b_given(self, contexts: Sequence[int]) -> Float[Tensor, "contexts b"]:
        """log q(b | a) for some a, a row each, without the rest of the table."""

    def diagnostics(self) -> dict[str, object]:
        """What has been paid so far."""


@dataclass(frozen=True, eq=False)
class StoredSource:
    """A source whose parts are all there already."""

    supports: tuple[Support, Support]
    table_a_given_b: ConditionalTable
    table_b_given_a: ConditionalTable
    marginals: MaskedMarginals | None = None
    provenance: Mapping[str, object] = field(default_factory=dict)

    def a_given_b(self) -> ConditionalTable:
        """The table q(a | b)."""
        return self.table_a_given_b

    def b_given_a(self) -> ConditionalTable:
        """The table q(b | a)."""
        return self.table_b_given_a

    def masked(self) -> MaskedMarginals:
        """The doubly masked distributions, if they were given."""
        if self.marginals is None:
            raise UnmaskError(
                "these tables hold no doubly masked distributions, which this construction needs; "
                "give marginals= when making them, or use log-pool, pseudo-gibbs or ag"
            )
        return self.marginals

    def log_a_given(self, contexts: Sequence[int]) -> Float[Tensor, "contexts a"]:
        """log q(a | b) for some b, a row each."""
        return self.table_a_given_b.log_prob_given(contexts)

    def log_b_given(self, contexts: Sequence[int]) -> Float[Tensor, "contexts b"]:
        """log q(b | a) for some a, a row each."""
        return self.table_b_given_a.log_prob_given(contexts)

    def diagnostics(self) -> dict[str, object]:
        """Where the tables came from and how they are kept."""
        return {**self.provenance, "tables": storage(self.table_a_given_b)}


def storage(table: ConditionalTable) -> str:
    """How a table is kept, in a word."""
    return "dense" if isinstance(table.logits, DenseLogits) else "factored"
