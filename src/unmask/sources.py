"""Where conditional tables come from: asked only for what a construction needs.

Knows nothing of models: a source may elicit, or hold everything already.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from unmask.conditional import ConditionalTable, DenseLogits
from unmask.errors import UnmaskError
from unmask.support import Support


@dataclass(frozen=True, eq=False)
class MaskedMarginals:
    """The model's two distributions with both blanks masked, over the supports.

    `captured` is the mass that the whole-vocabulary distributions put on the supports.
    """

    log_a: Float[Tensor, " a"]
    log_b: Float[Tensor, " b"]
    captured: tuple[float, float] = (1.0, 1.0)


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
                "these tables hold no doubly masked distributions, which mlm needs, and hcb "
                "without a pivot; give marginals= when making them"
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
