"""A bound of the log-probability of whole texts: the mean over random masks, with its error.

A mask hides l of the L tokens of a text; its value is L / l times the sum of the log-probabilities
of these, each given the tokens that are not hidden. With l uniform from 1 to L, and any l tokens
equally likely, the mean of these values is that of `unmasking` over all orders of the tokens, each
as likely as any other (Nie et al. 2025, LLaDA; Uria, Murray & Larochelle 2014). By Jensen's
inequality it is below the log-probability of a text whose order is drawn at random. It is another
quantity than the log-probability along one order, and it has noise.

The numbers of tokens are spread evenly, from a random start, as LLaDA draws them within a batch;
here along van der Corput's sequence, so that the first draws are those of a call with fewer. The
noise between numbers of tokens is gone, and the standard error is that of draws with neighbouring
numbers.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from unmask.model.row_reader import RowReader, TokenLogProbs
from unmask.sequences.passes import masked_rows, scores_of
from unmask.sequences.scores import TextScore
from unmask.sequences.texts import TokenisedText


def elbo_scores(
    reader: RowReader, texts: Sequence[TokenisedText], *, draws: int, seed: int
) -> list[TextScore]:
    """The bound of texts of one length, one forward pass per draw; `words` are parts of it.

    Draws depend on the ids of a text, on which of them are scored and on the seed alone.
    """
    masks, orders = zip(*(drawn_masks(text, draws, seed) for text in texts), strict=True)
    values = mask_values(reader, texts, torch.stack(masks))
    means = values.mean(dim=1)
    # a mean of masks has no likeliest tokens
    read = TokenLogProbs(means, torch.zeros_like(means, dtype=torch.bool))
    return [
        replace(
            score,
            standard_error=standard_error(of_draws.sum(dim=1)[order]),
            forward_passes=draws,
            likeliest_tokens=None,
        )
        for score, of_draws, order in zip(
            scores_of(texts, read, "elbo"), values, orders, strict=True
        )
    ]


def drawn_masks(
    text: TokenisedText, draws: int, seed: int
) -> tuple[Bool[Tensor, "draws tokens"], list[int]]:
    """The tokens that each draw hides, and the draws by how many they hide."""
    generator = np.random.default_rng([seed, *text.ids, *text.places])
    tokens = len(text.places)
    # van der Corput's sequence: the first 2, 4, 8, ... are equally far apart
    bits = np.arange(draws)[:, None] >> np.arange(32) & 1
    level = (generator.random() + bits @ 0.5 ** np.arange(1, 33)) % 1
    ranks = generator.random((draws, tokens)).argsort(axis=1).argsort(axis=1)
    hidden = ranks <= np.floor(level * tokens)[:, None]
    return torch.from_numpy(hidden), level.argsort(kind="stable").tolist()


def standard_error(values: Float[Tensor, " draws"]) -> float | None:
    """The standard error of a mean of values, sorted by hidden tokens; None for a single value.

    Half the mean square of the differences between neighbours is the variance of a draw.
    """
    if len(values) < 2:
        return None
    return float((values.diff().square().mean() / (2 * len(values))).sqrt())


def mask_values(
    reader: RowReader, texts: Sequence[TokenisedText], masks: Bool[Tensor, "texts draws tokens"]
) -> Float[Tensor, "texts draws tokens"]:
    """Every token's part of the value of every mask: 0 where it is not hidden."""
    rows, places, tokens = masked_rows(reader.model, texts, masks)
    places, tokens = (each[:, None].expand(masks.shape).flatten(0, 1) for each in (places, tokens))
    masked = masks.flatten(0, 1)
    values = torch.zeros(masked.shape, dtype=torch.float64)
    counts = masked.sum(dim=1)
    # the output layer is read where tokens are hidden, at equally many places of a batch
    for count in counts.unique().tolist():
        alike = counts == count
        cells = masked & alike[:, None]
        at, hidden_tokens = places[cells].view(-1, count), tokens[cells].view(-1, count, 1)
        log_probs = reader.token_log_probs(rows[alike], at, hidden_tokens).log_probs
        values[cells] = log_probs.flatten() * (masked.shape[1] / count)
    return values.view(masks.shape)
