"""Rows of any text in, the log-probabilities of given tokens at given positions out.

Knows the `MaskedLM` protocol, nothing of texts.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.logspace import row_blocks
from unmask.model.masked_lm import MaskedLM
from unmask.model.row_reader import Batches, every_outcome, folded, require_finite
from unmask.progress import Bar, bar
from unmask.settings import Settings

# ids of rows written out at a time, 8 bytes each: many batches on a CPU, sixteen on a GPU
TOKENS_PER_CHUNK = 2**20


@contextmanager
def token_reader(model: MaskedLM, settings: Settings, title: str) -> "Iterator[TokenReader]":
    """A reader whose rows are counted while it is used."""
    counted = bar(title, unit="row", total=0, shown=settings.progress)
    with counted, torch.no_grad():
        yield TokenReader(model, settings, counted)


class TokenReader:
    """Asks a model over its whole vocabulary, in batches, and counts the rows.

    `bar` shows them; it is told of rows to come by `expect`.
    """

    def __init__(self, model: MaskedLM, settings: Settings, bar: Bar | None) -> None:
        self.mask_id, self.vocabulary_size = model.mask_id, model.vocabulary_size
        self.rows = 0
        self._model, self._bar = model, bar
        self._batches = Batches(model, settings, self._answered)
        self._outcomes = every_outcome(model)

    def start_anew(self) -> None:
        """Count from nothing: further texts, of which more may follow."""
        if self._bar is not None:
            self._bar.reset(total=0)

    def expect(self, rows: int) -> None:
        """Say that so many more rows will be asked for."""
        if self._bar is not None:
            self._bar.total = (self._bar.total or 0) + rows

    def _answered(self, rows: int) -> None:
        self.rows += rows
        if self._bar is not None:
            self._bar.update(rows)

    def log_probs(
        self,
        ids: Int[Tensor, "rows length"],
        positions: Int[Tensor, "rows read"],
        tokens: Int[Tensor, "rows read given"],
    ) -> Float[Tensor, "rows read given"]:
        """Log-probabilities of the tokens at the positions, in float64 on the CPU.

        A model trims its work where one position a row is read.
        """
        kept = torch.zeros(tokens.shape, dtype=torch.float64)

        def read(batch: slice) -> None:
            readouts = self._readouts(ids[batch], positions[batch]).flatten(0, 1)
            asked = tokens[batch]
            kept[batch] = folded(readouts, self._outcomes, asked.flatten(0, 1))[0].view(asked.shape)

        self._batches.run(len(ids), ids.shape[1], read)
        return kept

    def draw(
        self,
        ids: Int[Tensor, "rows length"],
        positions: Int[Tensor, " rows"],
        uniforms: Float[Tensor, " rows"],
    ) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        """One token a row at its position, and its log-probability in float64.

        Inverts the cumulative distribution at `uniforms` in [0, 1), so that what is drawn does not
        depend on how rows are batched.
        """
        tokens = torch.zeros(len(ids), dtype=torch.long)
        kept = torch.zeros(len(ids), dtype=torch.float64)

        def read(batch: slice) -> None:
            readouts = self._readouts(ids[batch], positions[batch, None])[:, 0]
            tokens[batch], kept[batch] = self._drawn(readouts, uniforms[batch])

        self._batches.run(len(ids), ids.shape[1], read)
        return tokens, kept

    def _readouts(self, ids: Tensor, positions: Tensor) -> Float[Tensor, "rows read width"]:
        readouts = self._model.readouts(ids.to(self._model.device), positions)
        require_finite(torch.isfinite(readouts).all())
        return readouts

    def _drawn(
        self, readouts: Float[Tensor, "rows width"], uniforms: Float[Tensor, " rows"]
    ) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        drawn = torch.zeros(len(readouts), dtype=torch.long)
        log_probs = torch.zeros(len(readouts), dtype=torch.float64)
        # a few rows at a time: here whole distributions exist
        for block in row_blocks(len(readouts), self._outcomes.size):
            logits = self._outcomes.logits(readouts[block], slice(0, self._outcomes.size))
            require_finite(torch.isfinite(logits).all())
            log_p = torch.log_softmax(logits.double().cpu(), dim=1)
            drawn[block] = inverted(log_p, uniforms[block])
            log_probs[block] = log_p.gather(1, drawn[block, None])[:, 0]
        return drawn, log_probs


def inverted(
    log_p: Float[Tensor, "rows outcomes"], uniforms: Float[Tensor, " rows"]
) -> Int[Tensor, " rows"]:
    """The outcome at which each row's cumulative distribution passes its uniform number."""
    cumulative = log_p.exp().cumsum(dim=1)
    # below the end, whatever is rounded: so what is found is an outcome that adds something
    goal = torch.minimum(uniforms * cumulative[:, -1], cumulative[:, -1].nextafter(uniforms * 0))
    return torch.searchsorted(cumulative, goal[:, None], right=True)[:, 0]
