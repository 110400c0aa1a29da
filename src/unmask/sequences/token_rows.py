"""Rows of any text in, the log-probabilities of given tokens at given positions out.

Knows the `MaskedLM` protocol, nothing of texts.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor

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
        self.mask_id = model.mask_id
        self._model, self._bar = model, bar
        self._batches = Batches(model, settings, self._answered)
        self._outcomes = every_outcome(model)

    def expect(self, rows: int) -> None:
        """Say that so many more rows will be asked for."""
        if self._bar is not None:
            self._bar.total = (self._bar.total or 0) + rows

    def _answered(self, rows: int) -> None:
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

    def _readouts(self, ids: Tensor, positions: Tensor) -> Float[Tensor, "rows read width"]:
        readouts = self._model.readouts(ids.to(self._model.device), positions)
        require_finite(torch.isfinite(readouts).all())
        return readouts
