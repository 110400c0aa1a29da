"""Pointwise mutual information of the words of a text, given the rest of it.

log q(x_j | x_i, rest) - log q(x_j | rest), with both places masked in the second, and the mean with
the same of x_i: the CPMI of Hoover et al. (2021). The pieces of a word are masked together and
their log-probabilities added up.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import islice

import torch

from unmask.model.row_reader import RowReader
from unmask.model.shapes import Shape, run_by_shape
from unmask.queries.dependence.dependence_map import DependenceMap
from unmask.queries.dependence.question import (
    MapOptions,
    MapQuestion,
    Opening,
    masked_places,
    positions_of,
)


def by_pmi(
    reader: RowReader, questions: Sequence[MapQuestion], options: MapOptions
) -> list[DependenceMap]:
    """The map of every text, in nats."""
    openings: list[Opening] = []
    for number, question in enumerate(questions):
        openings += [(number, (place,)) for place in range(len(question.places))]
        openings += [(number, pair) for pair in options.pairs(question)]
    by_place = dict(zip(openings, _log_probs(reader, questions, openings), strict=True))
    values = [torch.full((len(q.places),) * 2, math.nan, dtype=torch.float64) for q in questions]
    for (number, places), log_probs in by_place.items():
        if len(places) == 2:
            alone = [by_place[number, (place,)][0] for place in places]
            value = math.fsum([*alone, *(-log_p for log_p in log_probs)]) / 2
            first, second = places
            values[number][first, second] = values[number][second, first] = value
    return [
        options.map_of(question, matrix, options.forward_passes(question))
        for matrix, question in zip(values, questions, strict=True)
    ]


def _log_probs(
    reader: RowReader, questions: Sequence[MapQuestion], openings: Sequence[Opening]
) -> list[list[float]]:
    """The log-probability of the token of every masked place."""

    def shape_of(opening: Opening) -> Shape:
        question = questions[opening[0]]
        return Shape(len(question.ids), alike=(len(positions_of(question, opening[1])),))

    def log_probs(alike: list[Opening]) -> Iterator[list[float]]:
        ids, positions, tokens = masked_places(questions, alike, reader.model.mask_id)
        read = reader.token_log_probs(ids, positions, tokens[:, :, None])
        for (number, places), by_piece in zip(alike, read.log_probs[:, :, 0].tolist(), strict=True):
            rest, widths = iter(by_piece), questions[number].widths
            yield [math.fsum(islice(rest, widths[place])) for place in places]

    return run_by_shape(reader, openings, shape_of, log_probs)
