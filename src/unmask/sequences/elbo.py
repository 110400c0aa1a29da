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

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from unmask.model.row_reader import RowReader
from unmask.model.shapes import Shape, run_by_shape
from unmask.sequences.pll import at_places, score_of
from unmask.sequences.scores import TextScore
from unmask.sequences.texts import TokenisedText


def elbo_scores(
    reader: RowReader, texts: Sequence[TokenisedText], *, draws: int, seed: int
) -> list[TextScore]:
    """The bound for every text, one forward pass per draw; `words` are their tokens' parts of it.

    Draws depend on the ids of a text, on which of them are scored and on the seed alone.
    """

    def shape_of(text: TokenisedText) -> Shape:
        return Shape(len(text.ids), draws, len(text.places), alike=(len(text.places),))

    def scores(some: list[TokenisedText]) -> Iterator[TextScore]:
        drawn = [drawn_masks(text, draws, seed) for text in some]
        values = mask_values(reader, some, torch.stack([masks for masks, _ in drawn]))
        for text, of_draws, (_, order) in zip(some, values, drawn, strict=True):
            score = score_of(text, of_draws.mean(dim=0).tolist(), "elbo")
            error = standard_error(of_draws.sum(dim=1)[order])
            yield replace(score, standard_error=error, forward_passes=draws)

    return run_by_shape(reader, texts, shape_of, scores)


def drawn_masks(
    text: TokenisedText, draws: int, seed: int
) -> tuple[Bool[Tensor, "draws tokens"], list[int]]:
    """The tokens that each draw hides, and the draws by how many they hide."""
    generator = np.random.default_rng([seed, *text.ids, *text.places])
    tokens = len(text.places)
    level = (generator.random() + _van_der_corput(draws)) % 1
    ranks = generator.random((draws, tokens)).argsort(axis=1).argsort(axis=1)
    hidden = ranks <= np.floor(level * tokens)[:, None]
    return torch.from_numpy(hidden), level.argsort(kind="stable").tolist()


def _van_der_corput(count: int) -> NDArray[np.float64]:
    """From 0 to 1; the first 2, 4, 8, ... are equally far apart."""
    bits = np.arange(count)[:, None] >> np.arange(32) & 1
    return np.asarray(bits @ 0.5 ** np.arange(1, 33))


def standard_error(values: Float[Tensor, " draws"]) -> float | None:
    """That of the mean of values in the order of their numbers of tokens; None of a single one.

    Half the mean square of the differences between neighbours is the variance of a draw.
    """
    if len(values) < 2:
        return None
    return float((values.diff().square().mean() / (2 * len(values))).sqrt())


def mask_values(
    reader: RowReader, texts: list[TokenisedText], masks: Bool[Tensor, "texts draws tokens"]
) -> Float[Tensor, "texts draws tokens"]:
    """Every token's part of the value of every mask: 0 where it is not hidden."""
    ids = torch.tensor([text.ids for text in texts])
    places = torch.tensor([text.places for text in texts])
    hidden = at_places(masks, places, ids.shape[1])
    rows = torch.where(hidden, reader.model.mask_id, ids[:, None]).flatten(0, 1)
    hidden, tokens = hidden.flatten(0, 1), ids.repeat_interleave(masks.shape[1], dim=0)
    masked = masks.flatten(0, 1)
    values = torch.zeros(masked.shape, dtype=torch.float64)
    counts = masked.sum(dim=1)
    # the output layer is read where tokens are hidden, at equally many places of a batch
    for count in counts.unique().tolist():
        alike = counts == count
        at = hidden[alike].nonzero()[:, 1].view(-1, count)
        hidden_tokens = tokens[alike].gather(1, at)[..., None]
        log_probs = reader.token_log_probs(rows[alike], at, hidden_tokens).log_probs
        of_count = torch.zeros(len(at), masked.shape[1], dtype=torch.float64)
        of_count[masked[alike]] = log_probs.flatten() * (masked.shape[1] / count)
        values[alike] = of_count
    return values.view(masks.shape)
