"""The mutual information of places, by filling one and reading the other.

With both masked, a is drawn from the distribution m_i of the first, and what the model then says of
the second, q_j(. | a), is compared with what it said before: E KL(q_j(. | a) || m_j), the mean of
both directions. If the conditionals are compatible, this is the mutual information of the joint.

Over a small alphabet every a is tried. Otherwise a quarter of the samples are the likeliest tokens,
with the weights that they have, and the rest are drawn from the others. Their spread gives the
standard error, wider by Student's t for so few draws and by what a token that was not drawn may
add. Pieces of a word are masked and drawn together, each from its own distribution; of such fills
the likeliest one has its weight, and all others are drawn.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from zlib import crc32

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import ndtri, stdtrit
from torch import Tensor

from unmask.model.row_reader import Outcomes, RowReader
from unmask.model.shapes import Shape, run_by_shape
from unmask.queries.dependence.dependence_map import DependenceMap
from unmask.queries.dependence.question import (
    MapOptions,
    MapQuestion,
    Opening,
    masked_places,
    read_places,
)

# numbers of distributions that are kept while their contexts run, for every token of a row
_KEPT_PER_TOKEN = 16
# the part of the samples that are the likeliest tokens, one in so many
_HEAD = 4
# nats by which a token that was not drawn may move the other place, for a mass as that of a drawn
# one: chosen on dev pairs, where rare tokens made errors of many standard deviations of the draws
_UNSEEN = 0.5


# of an opening, by the filled place and the place that is read: nats, variances; and forward passes
Measured = tuple[Float[Tensor, "places places"], Float[Tensor, "places places"], int]


def by_information(
    reader: RowReader, questions: Sequence[MapQuestion], options: MapOptions
) -> list[DependenceMap]:
    """The map of every text, in bits."""
    outcomes = Outcomes.of(reader.model, options.support)

    def shape_of(opening: Opening) -> Shape:
        question = questions[opening[0]]
        widths = tuple(question.widths[place] for place in opening[1])
        rows = 1 + sum(map(options.fills, widths))
        numbers = outcomes.size * sum(widths) // (_KEPT_PER_TOKEN * rows)
        return Shape(len(question.ids), rows, numbers, widths)

    def measure(alike: list[Opening]) -> Iterator[Measured]:
        return _Contexts(reader, outcomes, options, questions, alike).measured()

    openings = options.openings(questions)
    sizes, passes = [len(question.places) for question in questions], [0] * len(questions)
    maps = [torch.full((2, size, size), math.nan, dtype=torch.float64) for size in sizes]
    answers = run_by_shape(reader, openings, shape_of, measure)
    for (number, places), (values, variances, rows) in zip(openings, answers, strict=True):
        at = torch.tensor(places)
        maps[number][:, at[:, None], at] = torch.stack([values, variances])
        passes[number] += rows
    results = []
    for question, numbers, rows in zip(questions, maps, passes, strict=True):
        # both directions averaged, in bits
        bits, (values, variances) = 2 * math.log(2), options.within(question, numbers)
        errors = None if options.is_exact(question) else (variances + variances.T).sqrt() / bits
        results.append(options.map_of(question, (values + values.T) / bits, rows, errors))
    return results


class _Fills(NamedTuple):
    """Tokens to write into a place: a head with known weights, then draws from the rest."""

    tokens: Int[Tensor, "openings fills pieces"]
    weights: Float[Tensor, "openings head"]
    left: Float[Tensor, " openings"]


class _Contexts:
    """Openings of one length whose places are equally wide, and the rows that fill them."""

    def __init__(
        self,
        reader: RowReader,
        outcomes: Outcomes,
        options: MapOptions,
        questions: Sequence[MapQuestion],
        openings: Sequence[Opening],
    ) -> None:
        self.reader, self.outcomes, self.options = reader, outcomes, options
        self.places = [places for _, places in openings]
        self.masked, self.positions, _ = masked_places(questions, openings, reader.model.mask_id)
        # texts that differ must not err in the same direction
        self.keys = [crc32(row.numpy().tobytes()) for row in self.masked]
        self.token_ids = options.support.ids.cpu().long()
        first, places = openings[0]
        self.widths = [questions[first].widths[place] for place in places]
        # the place of each position that is read
        self.place_at = torch.arange(len(self.widths)).repeat_interleave(torch.tensor(self.widths))

    def measured(self) -> Iterator[Measured]:
        """Fill each place in turn."""
        size, count = len(self.widths), len(self.places)
        before = torch.empty(*self.positions.shape, self.outcomes.size)

        def keep(rows: Tensor, column: int, log_probs: Tensor) -> None:
            before[rows, column] = log_probs.float().cpu()

        read_places(self.reader, self.masked, self.positions, self.outcomes, keep)
        values, variances = torch.empty(2, count, size, size, dtype=torch.float64)
        # the masked row is read once
        passes = torch.ones(count, dtype=torch.long)
        for place in range(size):
            values[:, place], variances[:, place], rows = self._filled(place, before)
            values[:, place, place] = math.nan
            passes += rows
        return zip(values, variances, passes.tolist(), strict=True)

    def _filled(
        self, place: int, before: Float[Tensor, "openings positions size"]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The information of a filled place about each other, with variances, and the rows run."""
        mine = self.place_at == place
        fills, count = self._fills(place, before[:, mine]), len(self.places)
        # equal fills of one opening run once
        of_opening = torch.arange(count).repeat_interleave(fills.tokens.shape[1])
        keyed = torch.cat([of_opening[:, None], fills.tokens.flatten(0, 1)], dim=1)
        distinct, which = torch.unique(keyed, dim=0, return_inverse=True)
        opening, columns = distinct[:, 0], torch.nonzero(~mine)[:, 0]
        positions, tokens = self.positions[opening], self.token_ids[distinct[:, 1:]]
        ids = self.masked[opening].scatter(1, positions[:, mine], tokens)
        moved = torch.zeros(len(ids), len(columns), dtype=torch.float64)

        def compare(rows: Tensor, column: int, log_probs: Tensor) -> None:
            now = log_probs.cpu()
            was = before[opening[rows], columns[column]].double()
            moved[rows, column] = (now.exp() * (now - was)).sum(dim=1)

        read_places(self.reader, ids, positions[:, columns], self.outcomes, compare)
        by_place = torch.zeros(len(ids), len(self.widths), dtype=torch.float64)
        by_place.index_add_(1, self.place_at[columns], moved)
        moved = by_place[which].view(*fills.tokens.shape[:2], -1)
        rows, head = torch.bincount(opening, minlength=count), fills.weights.shape[1]
        values = (fills.weights[:, :, None] * moved[:, :head]).sum(dim=1)
        drawn, left = moved[:, head:], fills.left[:, None]
        draws = drawn.shape[1]
        if not draws:
            return values, torch.zeros_like(values), rows
        # the reach of Student's t over that of the normal at 95%
        wider = float(stdtrit(draws - 1, 0.975) / ndtri(0.975))
        error = wider * left * drawn.std(dim=1) / math.sqrt(draws)
        unseen = _UNSEEN * left / draws
        return values + left * drawn.mean(dim=1), error**2 + unseen**2, rows

    def _fills(self, place: int, log_probs: Float[Tensor, "openings pieces size"]) -> _Fills:
        wanted, size = self.options.samples, self.outcomes.size
        probabilities = log_probs.double().exp()
        everything = torch.ones(len(log_probs), dtype=torch.float64)
        if self.widths[place] == 1 and size <= wanted:
            tokens = torch.arange(size).expand(len(log_probs), -1)[:, :, None]
            return _Fills(tokens, probabilities[:, 0], 0 * everything)
        if self.widths[place] > 1:
            # the likeliest fill with its weight; the others by the first piece in which they differ
            likeliest = probabilities.max(dim=2)
            rest = probabilities.scatter(2, likeliest.indices[..., None], 0.0)
            same = likeliest.values.cumprod(dim=1)
            first = torch.cat([everything[:, None], same[:, :-1]], dim=1) * rest.sum(dim=2)
            uniforms = self._uniforms(place, wanted - 1)
            differs, shared = _drawn(first[:, None], uniforms[:, -1:]), uniforms[:, :-1]
            piece = torch.arange(self.widths[place])[:, None]
            other = torch.where(
                piece == differs, _drawn(rest, shared), _drawn(probabilities, shared)
            )
            drawn = torch.where(piece < differs, likeliest.indices[..., None], other)
            tokens = torch.cat([likeliest.indices[..., None], drawn], dim=2).transpose(1, 2)
            return _Fills(tokens, same[:, -1:], first.sum(dim=1))
        head = wanted // _HEAD
        # ties of topk may fall either way, and either way the estimate is right
        best = probabilities[:, 0].topk(head, dim=1)
        probabilities[:, 0].scatter_(1, best.indices, 0.0)
        drawn = _drawn(probabilities, self._uniforms(place, wanted - head))[:, 0]
        tokens = torch.cat([best.indices, drawn], dim=1)[:, :, None]
        return _Fills(tokens, best.values, probabilities[:, 0].sum(dim=1))

    def _uniforms(self, place: int, count: int) -> Float[Tensor, "openings numbers count"]:
        """Numbers in [0, 1) by the seed, the text and the places, independent of other texts.

        One for each piece, and for a word of several pieces one more.
        """
        shape = self.widths[place] + (self.widths[place] > 1), count
        drawn = [
            np.random.default_rng([self.options.seed, key, *places, place]).random(shape)
            for key, places in zip(self.keys, self.places, strict=True)
        ]
        return torch.from_numpy(np.stack(drawn))


def _drawn(
    weights: Float[Tensor, "openings pieces size"], uniforms: Float[Tensor, "openings pieces count"]
) -> Int[Tensor, "openings pieces count"]:
    """Draws in proportion to weights, by their cumulative sums."""
    totals = weights.cumsum(dim=-1)
    drawn = torch.searchsorted(totals, uniforms * totals[..., -1:], right=True)
    return drawn.clamp(max=weights.shape[-1] - 1)
