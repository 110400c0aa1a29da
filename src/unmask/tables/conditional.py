"""One conditional table, laid out [a, b] whichever blank is the context.

Logits are stored as float32, dense or factored; arithmetic on tiles is float64. A table is
never expanded whole unless a caller asks for `dense()`.
Knows nothing of models: a table may come from a forward pass, a file or a test.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from unmask.errors import NumericsError
from unmask.logspace import log_sum_exp_by_column, log_zeros, row_blocks

EVERY = slice(None)


@dataclass(frozen=True, eq=False)
class DenseLogits:
    """Logits kept cell by cell."""

    values: Float[Tensor, "a b"]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.values.shape[0], self.values.shape[1]

    @property
    def device(self) -> torch.device:
        """The device of the cells."""
        return self.values.device

    def block(self, rows: slice, columns: slice = EVERY) -> Float[Tensor, "block some"]:
        """Some rows, over all columns or some."""
        return self.values[rows, columns]


@dataclass(frozen=True, eq=False)
class FactoredLogits:
    """Logits kept as `left @ right.T` plus a bias along the axis of the outcomes.

    One factor is the output embedding of the outcomes, the other the readouts of the
    contexts: V x d numbers instead of V x V.
    """

    left: Float[Tensor, "a d"]
    right: Float[Tensor, "b d"]
    bias_a: Float[Tensor, " a"] | None = None
    bias_b: Float[Tensor, " b"] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.left.shape[0], self.right.shape[0]

    @property
    def device(self) -> torch.device:
        """The device of the factors."""
        return self.left.device

    def block(
        self, rows: slice, columns: slice = EVERY, out: Tensor | None = None
    ) -> Float[Tensor, "block some"]:
        """Some rows, over all columns or some: one GEMM, written to `out` if that is given."""
        tile = torch.mm(self.left[rows], self.right[columns].T, out=out)
        if self.bias_a is not None:
            tile += self.bias_a[rows, None]
        if self.bias_b is not None:
            tile += self.bias_b[columns]
        return tile

    def dense(self) -> DenseLogits:
        """The same with every cell in memory: 4 bytes x V x V."""
        values = torch.empty(self.shape, dtype=torch.float32, device=self.device)
        for rows in row_blocks(*self.shape):
            self.block(rows, out=values[rows])
        return DenseLogits(values)


Logits = DenseLogits | FactoredLogits


@dataclass(frozen=True, eq=False)
class ConditionalTable:
    """One of the two tables: q(a | b) when `given` is "b", q(b | a) when it is "a"."""

    logits: Logits
    given: Literal["a", "b"]
    log_normalizer: Float[Tensor, " contexts"]

    @classmethod
    def from_logits(cls, logits: Logits, *, given: Literal["a", "b"]) -> "ConditionalTable":
        """Normalise every context in one streaming pass."""
        over_rows = given == "b"
        log_normalizer = log_zeros(logits.shape[1 if over_rows else 0], device=logits.device)
        finite = torch.ones((), dtype=torch.bool, device=logits.device)
        for rows in row_blocks(*logits.shape):
            tile = logits.block(rows).double()
            finite &= torch.isfinite(tile).all()
            if over_rows:
                log_normalizer[:] = log_sum_exp_by_column(log_normalizer, tile)
            else:
                log_normalizer[rows] = torch.logsumexp(tile, dim=1)
        if not bool(finite):
            raise NumericsError(
                f"logits of q({'a | b' if over_rows else 'b | a'}) are not finite; a model in "
                "float16 often needs float32 instead, and a forbidden token a smaller support"
            )
        return cls(logits, given, log_normalizer)

    def log_prob(self, rows: slice) -> Float[Tensor, "block b"]:
        """Log-probabilities of some rows, over all columns, in float64."""
        normalizer = self.log_normalizer
        taken = normalizer if self.given == "b" else normalizer[rows, None]
        return self.logits.block(rows).double() - taken

    def log_prob_at(self, context: int) -> Float[Tensor, " outcomes"]:
        """The whole distribution given one context."""
        return self._line(context, of_row=self.given == "a") - self.log_normalizer[context]

    def log_prob_of(self, outcome: int) -> Float[Tensor, " contexts"]:
        """The log-probability of one outcome in each context."""
        return self._line(outcome, of_row=self.given == "b") - self.log_normalizer

    def _line(self, place: int, *, of_row: bool) -> Float[Tensor, " size"]:
        """The logits of one row, or of one column."""
        line = slice(place, place + 1)
        block = self.logits.block(line) if of_row else self.logits.block(EVERY, line)
        return block.flatten().double()
