"""Log-probabilities of whole texts: tokens are revealed one after another, each scored just before.

All tokens of a text start masked; its special tokens do not. At each step the model reads the text,
a rule chooses one of the masked places, and the token that belongs there is scored, then revealed.
The rule sees only what is revealed, so the factors are those of a chain rule, and the probabilities
of all texts with equally many tokens (and the same special tokens around them) sum to one. Turok,
De Sa & Kuleshov (2026) show it for masked diffusion; it holds for any masked language model.
Normalisers are in float64, so that it also holds to rounding.

Left to right, all inputs are known beforehand and run together. By the other two rules an input
depends on the step before it, so texts of one length advance together, one step at a time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from unmask.logspace import row_blocks
from unmask.model.row_reader import Outcomes, RowReader, TokenLogProbs, require_finite
from unmask.model.shapes import Shape, run_by_shape
from unmask.sequences.passes import masked_rows, scores_of
from unmask.sequences.paths import drawn_orders
from unmask.sequences.scores import TextScore
from unmask.sequences.texts import TokenisedText

LEFT_TO_RIGHT = "left-to-right"
# how certain a model is at a place, from the two largest probabilities there
_CERTAINTY: dict[str, Callable[[Float[Tensor, "*places 2"]], Float[Tensor, "*places"]]] = {
    "surest": lambda largest: largest[..., 0],
    "margin": lambda largest: largest[..., 0] - largest[..., 1],
}
ORDERS = (LEFT_TO_RIGHT, *_CERTAINTY)
DEFAULT_ORDER = LEFT_TO_RIGHT

# places whose certainty is this near to the largest are tied, and the first of them is next
TIED = 1e-4
# a choice that rounding of this size could turn is made by the text alone, whatever its batch
ROUNDING = 1e-5


def unmasking_log_probs(
    reader: RowReader, texts: Sequence[TokenisedText], *, order: str
) -> list[TextScore]:
    """Log-probabilities of texts of one length, their tokens revealed in that order."""
    if order == LEFT_TO_RIGHT:
        count = len(texts[0].places)
        return scores_of(texts, _in_order(reader, texts, range(count)), "unmasking", order)
    return scores_of(texts, _most_certain_first(reader, texts, order), "unmasking", order)


def random_unmasking(
    reader: RowReader, texts: Sequence[TokenisedText], *, orders: int, seed: int
) -> list[list[float]]:
    """Log-probabilities of each text, its tokens revealed in each of some random orders.

    Orders depend on the seed and on the number of tokens alone: texts of equal length share them.
    Where there are fewer orders than that, these are all. A forward pass per order and token.
    """

    def log_probs(alike: list[TokenisedText]) -> list[list[float]]:
        count = len(alike[0].places)
        drawn = drawn_orders(count, orders, (seed, count)).tolist()
        by_order = [_in_order(reader, alike, order).log_probs.view(-1, count) for order in drawn]
        totals: list[list[float]] = torch.stack(by_order, dim=1).sum(dim=2).tolist()
        return totals

    return run_by_shape(
        reader, texts, lambda text: Shape(len(text.ids), rows=orders * len(text.places)), log_probs
    )


def _in_order(
    reader: RowReader, texts: Sequence[TokenisedText], order: Sequence[int]
) -> TokenLogProbs:
    """All tokens, revealed in an order of their ranks: a row per text and token."""
    rank = torch.tensor(order).argsort()
    # of every token, itself and all that are revealed after it
    rows, places, tokens = masked_rows(reader.model, texts, rank >= rank[:, None])
    return _read(reader, rows, places.view(-1, 1), tokens.view(-1, 1))


def _most_certain_first(
    reader: RowReader, texts: Sequence[TokenisedText], order: str
) -> TokenLogProbs:
    ids = torch.tensor([text.ids for text in texts])
    places = torch.tensor([text.places for text in texts])
    revealed = ids.scatter(1, places, reader.model.mask_id)
    log_probs = torch.zeros(places.shape, dtype=torch.float64)
    are_likeliest = torch.zeros(places.shape, dtype=torch.bool)
    # of every text, the ranks of its masked places
    left = torch.arange(places.shape[1]).repeat(len(texts), 1)
    while left.shape[1]:
        at = places.gather(1, left)
        tokens = ids.gather(1, at)
        read = _read(reader, revealed, at, tokens)
        next_places = _chosen(reader, revealed, at, _CERTAINTY[order], read.largest)[:, None]
        ranks = left.gather(1, next_places)
        log_probs.scatter_(1, ranks, read.log_probs.gather(1, next_places))
        are_likeliest.scatter_(1, ranks, read.are_likeliest.gather(1, next_places))
        revealed.scatter_(1, at.gather(1, next_places), tokens.gather(1, next_places))
        left = left[torch.arange(left.shape[1]) != next_places].view(len(texts), -1)
    return TokenLogProbs(log_probs, are_likeliest)


# --- which place is next -----------------------------------------------------------------------


def _chosen(
    reader: RowReader,
    revealed: Int[Tensor, "texts length"],
    at: Int[Tensor, "texts places"],
    certainty: Callable[[Tensor], Tensor],
    largest: Float[Tensor, "texts places 2"],
) -> Int[Tensor, " texts"]:
    """The masked place that each text reveals next, independently of the batches.

    Batches of different sizes round differently. Where that could turn a choice, the text is run
    again by itself, and what it then gives decides: in every batch the same.
    """
    best, is_safe = first_of_the_best(certainty(largest))
    unsafe = (~is_safe).nonzero()[:, 0].tolist()
    reader.expect(len(unsafe))
    for text in unsafe:
        alone = slice(text, text + 1)
        read = _read(reader, revealed[alone], at[alone], torch.zeros_like(at[alone]))
        best[alone] = first_of_the_best(certainty(read.largest))[0]
    return best


def first_of_the_best(
    values: Float[Tensor, "texts places"],
) -> tuple[Int[Tensor, " texts"], Bool[Tensor, " texts"]]:
    """The first place whose value is near the largest, and whether rounding could not change it."""
    least = values.amax(dim=1, keepdim=True) - TIED
    earliest, place, latest = (
        (values >= least + by).int().argmax(dim=1) for by in (-ROUNDING, 0.0, ROUNDING)
    )
    return place, earliest == latest


# --- what the model gives ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Reading(TokenLogProbs):
    """At some places of some rows: the log-probability of a token, the two largest of any."""

    largest: Float[Tensor, "rows places 2"]


def _read(
    reader: RowReader,
    ids: Int[Tensor, "rows length"],
    at: Int[Tensor, "rows places"],
    tokens: Int[Tensor, "rows places"],
) -> Reading:
    """One forward pass per row, over the whole vocabulary; in float64, on the CPU."""
    outcomes, places = Outcomes.of(reader.model), at.shape[1]
    true_tokens = tokens.reshape(-1, 1)
    log_probs = torch.zeros(true_tokens.shape, dtype=torch.float64)
    are_likeliest = torch.zeros(true_tokens.shape, dtype=torch.bool)
    largest = torch.zeros(len(true_tokens), 2, dtype=torch.float64)

    def fold(batch: slice, readouts: Float[Tensor, "rows places width"]) -> None:
        flat, start = readouts.flatten(0, 1), batch.start * places
        for tile in row_blocks(len(flat), outcomes.size):
            here = slice(start + tile.start, start + tile.stop)
            logits = outcomes.logits(flat[tile])
            total = torch.logsumexp(logits.double(), dim=1, keepdim=True)
            # the lowest too: minus infinity leaves no trace in a sum of exponentials
            require_finite(torch.isfinite(total[:, 0] - logits.amin(dim=1)).all())
            true_logits = logits.gather(1, true_tokens[here].to(logits.device))
            log_probs[here] = (true_logits - total).cpu()
            # of a vocabulary of one token, the same twice
            top = logits.topk(min(2, outcomes.size), dim=1).values
            are_likeliest[here] = (true_logits >= top[:, :1]).cpu()
            largest[here] = (top - total).exp().cpu()

    reader.each_batch(ids, at, fold)
    return Reading(
        log_probs.view(at.shape), are_likeliest.view(at.shape), largest.view(*at.shape, 2)
    )
