"""Rows of any text in, the log-probabilities of given tokens at given positions out."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.model.masked_lm import MaskedLM
from unmask.model.row_reader import Outcomes, RowReader, Rows
from unmask.settings import Settings

# ids of rows written out at a time, 8 bytes each: many batches on a CPU, sixteen on a GPU
TOKENS_PER_CHUNK = 2**20


@contextmanager
def token_reader(model: MaskedLM, settings: Settings, title: str) -> "Iterator[TokenReader]":
    """A reader whose rows are counted while it is used."""
    reader = TokenReader(model, settings)
    with reader.counted(title), torch.no_grad():
        yield reader


class TokenReader(RowReader):
    """Reads a model over its whole vocabulary; its bar is told of rows to come by `expect`."""

    @property
    def mask_id(self) -> int:
        """The id that stands for a blank."""
        return self.model.mask_id

    @property
    def vocabulary_size(self) -> int:
        """How many tokens the model distinguishes."""
        return self.model.vocabulary_size

    def start_anew(self) -> None:
        """Count from nothing: further texts, of which more may follow."""
        if self._bar is not None:
            self._bar.reset(total=0)

    def expect(self, rows: int) -> None:
        """Say that so many more rows will be read."""
        if self._bar is not None:
            self._bar.total = (self._bar.total or 0) + rows

    def draw(
        self,
        ids: Int[Tensor, "rows length"],
        positions: Int[Tensor, " rows"],
        uniforms: Float[Tensor, " rows"],
    ) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        """One token per row at its position, and its log-probability in float64.

        Inverts the cumulative distribution at `uniforms` in [0, 1), so that what is drawn does not
        depend on how rows are batched.
        """
        tokens = torch.zeros(len(ids), dtype=torch.long)
        kept = torch.zeros(len(ids), dtype=torch.float64)

        def use(which: Tensor, _: int, log_p: Tensor) -> None:
            tokens[which] = inverted(log_p.cpu(), uniforms[which])
            kept[which] = log_p.cpu().gather(1, tokens[which, None])[:, 0]

        every = torch.ones(len(ids), 1, dtype=torch.bool)
        outcomes = [Outcomes.every(self.model)]
        self.distributions(Rows.of(ids), positions[:, None], every, outcomes, use, batch_for=0)
        return tokens, kept


def inverted(
    log_p: Float[Tensor, "rows outcomes"], uniforms: Float[Tensor, " rows"]
) -> Int[Tensor, " rows"]:
    """The outcome at which each row's cumulative distribution passes its uniform number."""
    cumulative = log_p.exp().cumsum(dim=1)
    # below the end, whatever is rounded: so what is found is an outcome that adds something
    goal = torch.minimum(uniforms * cumulative[:, -1], cumulative[:, -1].nextafter(uniforms * 0))
    return torch.searchsorted(cumulative, goal[:, None], right=True)[:, 0]
