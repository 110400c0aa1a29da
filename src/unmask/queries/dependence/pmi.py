"""Pointwise mutual information of the words that stand in a text, given the rest of it.

log q(x_j | x_i, rest) - log q(x_j | rest), with both places masked in the second, and the mean with
the same of x_i: the CPMI of Hoover et al. (2021). The pieces of a word are masked together and
their log-probabilities added up.
"""

import math
from collections.abc import Sequence

import torch

from unmask.logspace import row_blocks
from unmask.model.batches import longest_first
from unmask.model.row_reader import RowReader
from unmask.queries.dependence.question import Found, How, Question, ids_of, positions_of

# ids of inputs that are written out at a time, 8 bytes each
TOKENS_PER_CHUNK = 2**20

# the number of a text, and the places of it that are masked and read
Asked = tuple[int, tuple[int, ...]]


def by_pmi(reader: RowReader, questions: Sequence[Question], how: How) -> list[Found]:
    """The map of every text, in nats."""
    asked: list[Asked] = []
    for number, question in enumerate(questions):
        asked += [(number, (place,)) for place in range(len(question.places))]
        asked += [(number, pair) for pair in how.pairs(question)]
    found = dict(zip(asked, _log_probs(reader, questions, asked), strict=True))
    values = [torch.full((len(q.places),) * 2, math.nan, dtype=torch.float64) for q in questions]
    for (number, places), log_probs in found.items():
        if len(places) == 2:
            alone = [found[number, (place,)][0] for place in places]
            value = math.fsum([*alone, *(-one for one in log_probs)]) / 2
            first, second = places
            values[number][first, second] = values[number][second, first] = value
    return [
        Found(matrix, how.forward_passes(question))
        for matrix, question in zip(values, questions, strict=True)
    ]


def _log_probs(
    reader: RowReader, questions: Sequence[Question], asked: Sequence[Asked]
) -> list[list[float]]:
    """Of every place that is masked, the log-probability of what stands there."""
    found: list[list[float]] = [[] for _ in asked]
    sizes = (
        (
            len(questions[number].ids),
            sum(len(questions[number].places[p].positions) for p in places),
        )
        for number, places in asked
    )
    for (length, _), members in longest_first(enumerate(sizes)):
        for chunk in row_blocks(len(members), length, TOKENS_PER_CHUNK):
            chosen = [(questions[asked[m][0]], asked[m][1]) for m in members[chunk]]
            ids = ids_of([question for question, _ in chosen])
            positions = positions_of(chosen)
            tokens = ids.gather(1, positions)
            ids.scatter_(1, positions, reader.model.mask_id)
            log_probs = reader.log_probs(ids, positions, tokens[:, :, None])[:, :, 0].tolist()
            for member, (question, places), by_piece in zip(
                members[chunk], chosen, log_probs, strict=True
            ):
                rest = iter(by_piece)
                found[member] = [
                    math.fsum(next(rest) for _ in question.places[place].positions)
                    for place in places
                ]
    return found
