"""Which tokens of a text a model is to guess: BERT's 15%, or blanks as the evaluation has them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from unmask.training.texts import Batch

# of all ordinary tokens; of these, those that are masked and those that are replaced (BERT)
_CHOSEN, _MASKED, _REPLACED = 0.15, 0.8, 0.1
# a span has as many tokens, but no more than half of the text's
_SPANS = (3, 4, 5, 6)


@dataclass(frozen=True)
class Vocabulary:
    """The ids that masking needs to know."""

    mask_id: int
    ordinary: Bool[Tensor, " vocabulary"]

    def places(self, batch: Batch) -> Bool[Tensor, "rows length"]:
        """The places of ordinary tokens; the input may have ids that are no outcome."""
        is_inside = batch.ids < len(self.ordinary)
        is_ordinary = self.ordinary[batch.ids.clamp_max(len(self.ordinary) - 1)]
        return is_ordinary & is_inside & (batch.attention == 1)


@dataclass(frozen=True, eq=False)
class Masked:
    """A batch as the model reads it; `targets` are the original tokens where `chosen` is true."""

    batch: Batch
    chosen: Bool[Tensor, "rows length"]
    targets: Int[Tensor, " chosen"]


def mask_plainly(batch: Batch, vocabulary: Vocabulary, draw: torch.Generator) -> Masked:
    """15% of the tokens: of these 80% masked, 10% replaced by a random token, 10% left.

    At least one in the whole batch, for a mean over nothing has no gradient.
    """
    places = vocabulary.places(batch)
    score = torch.rand(places.shape, generator=draw).masked_fill(~places, 2.0)
    chosen = (score < _CHOSEN) | (score == score.min())
    fate = torch.rand(places.shape, generator=draw)
    ordinary = vocabulary.ordinary.nonzero().flatten()
    others = ordinary[torch.randint(len(ordinary), places.shape, generator=draw)]
    ids = torch.where(chosen & (fate < _MASKED), vocabulary.mask_id, batch.ids)
    replaced = chosen & (fate >= _MASKED) & (fate < _MASKED + _REPLACED)
    ids = torch.where(replaced, others, ids)
    return Masked(Batch(ids, batch.attention), chosen, batch.ids[chosen])


def mask_blanks(batch: Batch, vocabulary: Vocabulary, draw: torch.Generator) -> Masked:
    """In every text one token, two adjacent ones, two random ones or a span, all as likely."""
    places = vocabulary.places(batch)
    numbers = torch.rand((len(batch), 3), generator=draw, dtype=torch.float64).tolist()
    chosen = torch.zeros_like(places)
    for row, (one, three) in enumerate(zip(places, numbers, strict=True)):
        chosen[row, _blanks(one.nonzero().flatten().tolist(), *three)] = True
    ids = torch.where(chosen, vocabulary.mask_id, batch.ids)
    return Masked(Batch(ids, batch.attention), chosen, batch.ids[chosen])


def _blanks(places: Sequence[int], kind: float, first: float, second: float) -> list[int]:
    """One kind of blanks, by three numbers from 0 to 1; a text without places has none."""
    if kind < 0.25:
        return _run(places, 1, first)
    if kind < 0.5:
        return _run(places, 2, first)
    if kind < 0.75:
        return random_pair(places, first, second)
    length = _SPANS[int(second * len(_SPANS))]
    return _run(places, min(length, max(1, len(places) // 2)), first)


def adjacent_pair(places: Sequence[int], first: float) -> list[int]:
    """Two neighbours, or one place of a text that has none."""
    return _run(places, 2, first)


def random_pair(places: Sequence[int], first: float, second: float) -> list[int]:
    """Any two places, or the only one."""
    if len(places) < 2:
        return list(places)
    one, other = int(first * len(places)), int(second * (len(places) - 1))
    other += other >= one
    return sorted([places[one], places[other]])


def _run(places: Sequence[int], length: int, where: float) -> list[int]:
    """Adjacent places, as many as requested; fewer if there is no such run of places."""
    for size in range(length, 0, -1):
        ends = range(size - 1, len(places))
        runs = [end for end in ends if places[end] - places[end - size + 1] == size - 1]
        if runs:
            end = runs[int(where * len(runs))]
            return list(places[end - size + 1 : end + 1])
    return []
