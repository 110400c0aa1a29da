"""Which tokens a model is to guess: BERT's 15%, blanks as the evaluation has them, or any share."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
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
    # the first position that may be masked
    first: int = 0

    def places(self, batch: Batch) -> Bool[Tensor, "rows length"]:
        """The places of ordinary tokens; the input may have ids that are no outcome."""
        is_inside = batch.ids < len(self.ordinary)
        is_ordinary = self.ordinary[batch.ids.clamp_max(len(self.ordinary) - 1)]
        places = is_ordinary & is_inside & (batch.attention == 1)
        places[:, : self.first] = False
        return places


@dataclass(frozen=True, eq=False)
class Masked:
    """A batch as the model reads it; `targets` are the original tokens where `chosen` is true.

    `weights` are those of the targets in the mean of the losses, None if all are as heavy.
    """

    batch: Batch
    chosen: Bool[Tensor, "rows length"]
    targets: Int[Tensor, " chosen"]
    weights: Float[Tensor, " chosen"] | None = None

    def mean(self, losses: Float[Tensor, " chosen"]) -> Float[Tensor, ""]:
        """The loss of the batch, from those of its targets."""
        if self.weights is None:
            return losses.mean()
        weights = self.weights.to(losses)
        return (weights * losses).sum() / weights.sum()


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


def mask_any_share(batch: Batch, vocabulary: Vocabulary, draw: torch.Generator) -> Masked:
    """In every text a share of the tokens, uniform in (0, 1]: of L tokens l, from 1 to L as likely.

    Any l tokens are as likely, and all become the mask. Each weighs L / l, as masked diffusion
    weighs them (1 / t at the rate t, here with the number in place of the rate): the loss is then
    the mean, over all orders, of the negative log-probability of unmasking a text in that order, in
    nats per token. The plain mean would give 10 masked tokens ten times the weight of a single
    one, and so neglect the last steps of every order.
    """
    places = vocabulary.places(batch)
    counts = places.sum(1, keepdim=True)
    share = 1 - torch.rand((len(batch), 1), generator=draw, dtype=torch.float64)
    masked = (share * counts).ceil().long()
    score = torch.rand(places.shape, generator=draw).masked_fill(~places, 2.0)
    chosen = places & (score.argsort(1).argsort(1) < masked)
    ids = torch.where(chosen, vocabulary.mask_id, batch.ids)
    weights = (counts / masked).expand_as(chosen)[chosen]
    return Masked(Batch(ids, batch.attention), chosen, batch.ids[chosen], weights)


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
