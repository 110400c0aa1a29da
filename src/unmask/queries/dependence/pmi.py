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
    ids_of,
    positions_of,
)

# the number of a text, and the places of it that are masked and read
Asked = tuple[int, tuple[int, ...]]


def by_pmi(
    reader: RowReader, questions: Sequence[MapQuestion], options: MapOptions
) -> list[DependenceMap]:
    """The map of every text, in nats."""
    asked: list[Asked] = []
    for number, question in enumerate(questions):
        asked += [(number, (place,)) for place in range(len(question.places))]
        asked += [(number, pair) for pair in options.pairs(question)]
    by_place = dict(zip(asked, _log_probs(reader, questions, asked), strict=True))
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
    reader: RowReader, questions: Sequence[MapQuestion], asked: Sequence[Asked]
) -> list[list[float]]:
    """The log-probability of the token of every masked place."""

    def shape_of(one: Asked) -> Shape:
        question, places = questions[one[0]], one[1]
        return Shape(len(question.ids), alike=(sum(question.widths[p] for p in places),))

    def log_probs(alike: list[Asked]) -> Iterator[list[float]]:
        opened = [(questions[number], places) for number, places in alike]
        ids, positions = ids_of([question for question, _ in opened]), positions_of(opened)
        tokens = ids.gather(1, positions)
        ids.scatter_(1, positions, reader.model.mask_id)
        read = reader.token_log_probs(ids, positions, tokens[:, :, None])
        rows = read.log_probs[:, :, 0].tolist()
        for (question, places), by_piece in zip(opened, rows, strict=True):
            rest = iter(by_piece)
            yield [math.fsum(islice(rest, question.widths[place])) for place in places]

    return run_by_shape(reader, asked, shape_of, log_probs)
