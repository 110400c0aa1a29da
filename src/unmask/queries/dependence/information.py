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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import ndtri, stdtrit
from torch import Tensor

from unmask.model.row_reader import Outcomes, RowReader
from unmask.model.shapes import Shape, run_by_shape
from unmask.queries.dependence.question import (
    MapOptions,
    MapQuestion,
    MeasuredMap,
    ids_of,
    positions_of,
    read_places,
)

# numbers of distributions that are kept while their contexts run, for every token of a row
_KEPT_PER_TOKEN = 16
# the part of the samples that are the likeliest tokens, one in so many
_HEAD = 4
# nats by which a token that was not drawn may move the other place, for a mass as that of a drawn
# one: chosen on dev pairs, where rare tokens made errors of many standard deviations of the draws
_UNSEEN = 0.5


@dataclass(frozen=True)
class Opening:
    """Places of one text that are masked together, while the others keep their tokens."""

    number: int
    places: tuple[int, ...]


def by_information(
    reader: RowReader, questions: Sequence[MapQuestion], options: MapOptions
) -> list[MeasuredMap]:
    """The map of every text, in bits."""
    outcomes = Outcomes.of(reader.model, options.support)

    def widths_of(opening: Opening) -> tuple[int, ...]:
        return tuple(questions[opening.number].widths[place] for place in opening.places)

    def shape_of(opening: Opening) -> Shape:
        widths = widths_of(opening)
        rows = 1 + sum(options.fills(width) for width in widths)
        kept = outcomes.size * sum(widths) // (_KEPT_PER_TOKEN * rows)
        return Shape(len(questions[opening.number].ids), rows, kept, widths)

    def measure(some: list[Opening]) -> Iterator[tuple[Opening, int, list[Measured]]]:
        widths = widths_of(some[0])
        measured = _Contexts(reader, outcomes, options, questions, some, widths).measure()
        return ((opening, row, measured) for row, opening in enumerate(some))

    openings = [
        Opening(number, tuple(places))
        for number, question in enumerate(questions)
        for places in (
            options.pairs(question) if question.is_whole else [range(len(question.places))]
        )
    ]
    totals = [_Total(len(question.places)) for question in questions]
    for opening, row, measured in run_by_shape(reader, openings, shape_of, measure):
        for place, one in enumerate(measured):
            totals[opening.number].add(opening.places, place, one, row)
    return [
        total.result(options.pairs(question))
        for total, question in zip(totals, questions, strict=True)
    ]


@dataclass(frozen=True)
class Measured:
    """The information of a filled place about the others, per opening: nats, with variances."""

    values: Float[Tensor, "openings others"]
    variances: Float[Tensor, "openings others"]
    is_exact: bool
    rows: Int[Tensor, " openings"]


class _Total:
    """The sums of one text so far, by the filled place and the read place."""

    def __init__(self, size: int) -> None:
        self.values, self.variances = torch.full((2, size, size), math.nan, dtype=torch.float64)
        self.is_exact, self.forward_passes = True, 0

    def add(self, places: tuple[int, ...], place: int, measured: Measured, row: int) -> None:
        others = [other for number, other in enumerate(places) if number != place]
        self.values[places[place], others] = measured.values[row]
        self.variances[places[place], others] = measured.variances[row]
        self.is_exact &= measured.is_exact
        # an opening's masked row is read once
        self.forward_passes += int(measured.rows[row]) + (place == 0)

    def result(self, pairs: Iterable[tuple[int, int]]) -> MeasuredMap:
        """Both directions averaged, in bits, of pairs that are near enough."""
        bits = 2 * math.log(2)
        far = torch.ones_like(self.values, dtype=torch.bool)
        for one, other in pairs:
            far[one, other] = far[other, one] = False
        self.values[far] = self.variances[far] = math.nan
        errors = (self.variances + self.variances.T).sqrt() / bits
        return MeasuredMap(
            (self.values + self.values.T) / bits,
            self.forward_passes,
            standard_errors=None if self.is_exact else errors,
        )


class _Contexts:
    """Openings of one length whose places are equally wide, and the rows that fill them."""

    def __init__(
        self,
        reader: RowReader,
        outcomes: Outcomes,
        options: MapOptions,
        questions: Sequence[MapQuestion],
        openings: Sequence[Opening],
        widths: tuple[int, ...],
    ) -> None:
        self.reader, self.outcomes, self.options = reader, outcomes, options
        self.openings, self.widths = openings, widths
        chosen = [(questions[one.number], one.places) for one in openings]
        self.positions = positions_of(chosen)
        self.masked = ids_of([question for question, _ in chosen])
        self.masked.scatter_(1, self.positions, reader.model.mask_id)
        # texts that differ must not err in the same direction
        self.keys = [crc32(row.numpy().tobytes()) for row in self.masked]
        self.token_ids = options.support.ids.cpu().long()
        # the columns of each place among the positions that are read
        ends = np.cumsum(widths).tolist()
        self.columns = [
            list(range(end - width, end)) for end, width in zip(ends, widths, strict=True)
        ]

    def measure(self) -> list[Measured]:
        """Fill each place in turn."""
        before = self._masked_log_probs()
        return [self._fill(place, before) for place in range(len(self.widths))]

    def _masked_log_probs(self) -> Float[Tensor, "openings positions size"]:
        kept = torch.empty(*self.positions.shape, self.outcomes.size)

        def keep(rows: Tensor, column: int, log_probs: Tensor) -> None:
            kept[rows, column] = log_probs.float().cpu()

        read_places(self.reader, self.masked, self.positions, self.outcomes, keep)
        return kept

    def _fill(self, place: int, before: Float[Tensor, "openings positions size"]) -> Measured:
        fills = self._fills(place, before[:, self.columns[place]])
        # equal fills of one opening run once
        of_opening = torch.arange(len(self.openings)).repeat_interleave(fills.tokens.shape[1])
        keyed = torch.cat([of_opening[:, None], fills.tokens.flatten(0, 1)], dim=1)
        distinct, which = torch.unique(keyed, dim=0, return_inverse=True)
        opening = distinct[:, 0]
        ids = self.masked[opening].scatter(
            1, self.positions[opening][:, self.columns[place]], self.token_ids[distinct[:, 1:]]
        )
        others = [other for other in range(len(self.widths)) if other != place]
        columns = [column for other in others for column in self.columns[other]]
        moved = torch.zeros(len(ids), len(columns), dtype=torch.float64)

        def compare(rows: Tensor, column: int, log_probs: Tensor) -> None:
            now = log_probs.cpu()
            was = before[opening[rows], columns[column]].double()
            moved[rows, column] = (now.exp() * (now - was)).sum(dim=1)

        others_at = self.positions[opening][:, columns]
        read_places(self.reader, ids, others_at, self.outcomes, compare)
        by_place = torch.stack(
            [moved[:, [columns.index(c) for c in self.columns[o]]].sum(dim=1) for o in others],
            dim=1,
        )
        moved_by = by_place[which].view(*fills.tokens.shape[:2], -1)
        return fills.averaged(moved_by, torch.bincount(opening, minlength=len(self.openings)))

    def _fills(self, place: int, log_probs: Float[Tensor, "openings pieces size"]) -> "_Fills":
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
            differs, own = _drawn(first[:, None], uniforms[:, -1:]), uniforms[:, :-1]
            piece = torch.arange(self.widths[place])[:, None]
            other = torch.where(piece == differs, _drawn(rest, own), _drawn(probabilities, own))
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
            np.random.default_rng([self.options.seed, key, *one.places, place]).random(shape)
            for key, one in zip(self.keys, self.openings, strict=True)
        ]
        return torch.from_numpy(np.stack(drawn))


def _drawn(
    weights: Float[Tensor, "openings pieces size"], uniforms: Float[Tensor, "openings pieces count"]
) -> Int[Tensor, "openings pieces count"]:
    """Draws in proportion to weights, by their cumulative sums."""
    totals = weights.cumsum(dim=-1)
    drawn = torch.searchsorted(totals, uniforms * totals[..., -1:], right=True)
    return drawn.clamp(max=weights.shape[-1] - 1)


@dataclass(frozen=True)
class _Fills:
    """Tokens to write into a place: a head with known weights, then draws from the rest."""

    tokens: Int[Tensor, "openings fills pieces"]
    weights: Float[Tensor, "openings head"]
    left: Float[Tensor, " openings"]

    def averaged(
        self, moved: Float[Tensor, "openings fills others"], rows: Int[Tensor, " openings"]
    ) -> Measured:
        """The expectation of a number over the fills."""
        head = self.weights.shape[1]
        values = (self.weights[:, :, None] * moved[:, :head]).sum(dim=1)
        drawn, left = moved[:, head:], self.left[:, None]
        if drawn.shape[1] == 0:
            return Measured(values, torch.zeros_like(values), is_exact=True, rows=rows)
        count = drawn.shape[1]
        error = _widened(count - 1) * left * drawn.std(dim=1) / math.sqrt(count)
        unseen = _UNSEEN * left / count
        variances = error**2 + unseen**2
        return Measured(values + left * drawn.mean(dim=1), variances, is_exact=False, rows=rows)


def _widened(freedom: int) -> float:
    """How much further Student's t reaches than the normal at 95%."""
    return float(stdtrit(freedom, 0.975) / ndtri(0.975))
