"""Rows with some blanks filled and the rest masked: what the model says at each blank.

Rows need not have the same blanks filled, so all that is asked for at once runs in one batch.
Knows the `MaskedLM` protocol and nothing of transformers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.logspace import row_blocks
from unmask.model.batch_size import resolve_batch_size
from unmask.model.batches import in_batches
from unmask.model.masked_lm import MaskedLM
from unmask.model.row_reader import require_finite
from unmask.settings import Settings
from unmask.text.cloze import Cloze
from unmask.text.support import Support

# of a batch: which rows these are, the blank that was read, and its distribution in each row
Use = Callable[[Int[Tensor, " some"], int, Float[Tensor, "some size"]], None]

# log-probabilities over a vocabulary that exist at once
_CELLS = 2**22
EMPTY = -1  # the place of a blank that is masked


@dataclass
class BlankReader:
    """Asks a model about the blanks of one text, and counts the rows."""

    model: MaskedLM
    cloze: Cloze
    supports: tuple[Support, ...]
    settings: Settings
    forward_passes: int = field(default=0, init=False)

    def read(
        self,
        places: Int[Tensor, "rows blanks"],
        use: Use,
        *,
        wanted: Bool[Tensor, "rows blanks"] | None = None,
    ) -> None:
        """Show `use` the log-probabilities at masked blanks of every row, in float64.

        Places stand on the supports, `EMPTY` where a blank is masked; `wanted` says which of those
        are of interest, all by default.
        """
        ids = self._ids(places)
        asked = (places == EMPTY) if wanted is None else wanted
        size = resolve_batch_size(self.model, len(self.cloze), self.settings, len(ids))

        def run(batch: slice) -> None:
            readouts = self.model.readouts(ids[batch].to(self.model.device), self.cloze.positions)
            self.forward_passes += len(readouts)
            for blank in range(len(self.supports)):
                rows = torch.nonzero(asked[batch, blank])[:, 0]
                for some in row_blocks(len(rows), self.model.vocabulary_size, _CELLS):
                    which = rows[some]
                    log_p = self._log_probabilities(readouts[which.to(readouts.device), blank])
                    use(which + batch.start, blank, self._restricted(log_p, blank))

        in_batches(len(ids), size, run)

    def masked_mass(self) -> list[float]:
        """How much of the fully masked distribution the support of each blank holds: one row."""
        row = torch.tensor([self.cloze.ids], device=self.model.device)
        readouts = self.model.readouts(row, self.cloze.positions)[0]
        self.forward_passes += 1
        masses = []
        for readout, support in zip(readouts, self.supports, strict=True):
            log_p = self._log_probabilities(readout[None])[0]
            held = torch.logsumexp(log_p[support.ids.cpu().long()], dim=0)
            masses.append(min(1.0, float(held.exp())))
        return masses

    def _ids(self, places: Int[Tensor, "rows blanks"]) -> Int[Tensor, "rows length"]:
        ids = torch.tensor([self.cloze.ids]).repeat(len(places), 1)
        for blank, (position, support) in enumerate(
            zip(self.cloze.positions, self.supports, strict=True)
        ):
            filled = places[:, blank] != EMPTY
            ids[filled, position] = support.ids.cpu().long()[places[filled, blank]]
        return ids

    def _log_probabilities(self, readouts: Float[Tensor, "rows width"]) -> Float[Tensor, "rows v"]:
        embedding = self.model.output_embedding
        logits = readouts if embedding is None else embedding.logits(readouts)
        require_finite(torch.isfinite(logits).all())
        return torch.log_softmax(logits.cpu().double(), dim=-1)

    def _restricted(self, log_p: Tensor, blank: int) -> Float[Tensor, "rows size"]:
        support = self.supports[blank]
        if support.is_whole(self.model.vocabulary_size):
            return log_p
        return torch.log_softmax(log_p[:, support.ids.cpu().long()], dim=-1)


def distinct(
    rows: Int[Tensor, "rows blanks"],
) -> tuple[Int[Tensor, "some blanks"], Int[Tensor, " rows"]]:
    """Each row once, and where every row stands among them."""
    found, where = torch.unique(rows, dim=0, return_inverse=True)
    return found, where


def with_filled(
    fills: Int[Tensor, "fills blanks"], filled: Sequence[int]
) -> Int[Tensor, "fills blanks"]:
    """The fills with all but some of their blanks emptied."""
    rows = torch.full_like(fills, EMPTY)
    rows[:, list(filled)] = fills[:, list(filled)]
    return rows
