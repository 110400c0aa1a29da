"""What reduced precision costs: two copies of a model compared on rows of one text."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.model.batch_size import rows_per_batch
from unmask.model.batches import in_batches
from unmask.model.masked_lm import MaskedLM
from unmask.settings import Settings
from unmask.text.cloze import Cloze

# tokens less likely than this matter to no joint, and their logarithms are noisy
_LIKELY = 1e-6


@dataclass(frozen=True)
class RoundingError:
    """How far log-probabilities of likely tokens are from those of the reference, in nats."""

    largest: float
    mean: float
    rows: int

    def __str__(self) -> str:
        """One line."""
        return (
            f"log-probabilities off by {self.mean:.2g} nats on average, {self.largest:.2g} at most "
            f"(tokens above {_LIKELY:g}, {self.rows} rows)"
        )


@torch.no_grad()
def rounding_error(
    reference: MaskedLM, reduced: MaskedLM, cloze: Cloze, *, rows: int = 128
) -> RoundingError:
    """Compare two copies of a model on about so many rows of a cloze.

    With two blanks a row has a token in one of them and is read at the other, as in elicitation,
    the tokens spread evenly over the vocabulary; with one blank there is one row.
    """
    largest, total, count, compared = 0.0, 0.0, 0, 0
    for ids, position in _sample(cloze, reference.vocabulary_size, rows):
        expected = _log_probs(reference, ids, position)
        error = (_log_probs(reduced, ids, position) - expected).abs()
        error = error[expected > torch.tensor(_LIKELY).log()]
        largest, total = max(largest, float(error.max())), total + float(error.sum())
        count, compared = count + error.numel(), compared + len(ids)
    return RoundingError(largest, total / count, compared)


def _sample(cloze: Cloze, size: int, rows: int) -> list[tuple[Int[Tensor, "rows length"], int]]:
    row = torch.tensor([cloze.ids])
    if len(cloze.positions) == 1:
        return [(row, cloze.positions[0])]
    each = min(size, max(1, rows // 2))
    tokens = torch.linspace(0, size - 1, each).round().long()
    blocks = []
    for blank, position in enumerate(cloze.positions):
        ids = row.repeat(each, 1)
        ids[:, cloze.positions[1 - blank]] = tokens
        blocks.append((ids, position))
    return blocks


def _log_probs(
    model: MaskedLM, ids: Int[Tensor, "rows length"], position: int
) -> Float[Tensor, "rows vocabulary"]:
    kept: list[Tensor] = []

    def run(batch: slice) -> None:
        readouts = model.readouts(ids[batch].to(model.device), [position])[:, 0]
        layer = model.output_embedding
        logits = readouts if layer is None else layer.logits(readouts)
        kept.append(torch.log_softmax(logits.cpu().double(), dim=-1))

    in_batches(len(ids), rows_per_batch(model, ids.shape[1], Settings()), run)
    return torch.cat(kept)
