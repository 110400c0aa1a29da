"""The categorical Jacobian: what writing each token at one place changes at all others.

Every candidate is written at a place of the text as it stands, and one forward pass reads all
other places. The change in log-probabilities, centred over the tokens written and over the tokens
read, is a block per pair of places: normalisers drop out, and if the conditionals are compatible
the block of (j, i) is that of (i, j) transposed. The value is the Frobenius norm of the mean of
both, as Zhang et al. (2024) have it. Pieces of a word are written together and read one by one, so
the two blocks differ in shape; there it is the root of the mean of both squared norms.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from unmask.model.row_reader import Outcomes, RowReader
from unmask.model.shapes import Shape, run_by_shape
from unmask.queries.dependence.dependence_map import DependenceMap
from unmask.queries.dependence.question import (
    MapOptions,
    MapQuestion,
    masked_places,
    positions_of,
    read_places,
)

# of each text by its number: a place of it
Asked = tuple[int, int]


class Proposed(NamedTuple):
    """The candidates of a place: tokens for each piece, and fills of all its pieces together.

    They stand as places on the support.
    """

    tokens: Int[Tensor, "pieces candidates"]
    fills: Int[Tensor, "fills pieces"]


class Written(NamedTuple):
    """The log-probabilities read with every fill of a place written, near it, and new rows."""

    log_probs: Float[Tensor, "fills read candidates"]
    columns: Mapping[int, slice]
    rows: int


def by_jacobian(
    reader: RowReader, questions: Sequence[MapQuestion], options: MapOptions
) -> list[DependenceMap]:
    """The map of every text, in nats."""
    asked = [(n, place) for n, q in enumerate(questions) for place in range(len(q.places))]
    proposed = _propose(reader, questions, asked, options)
    written = _write(reader, questions, asked, proposed, options)
    return [
        _measured(question, [written[n, place] for place in range(len(question.places))], options)
        for n, question in enumerate(questions)
    ]


def cells(question: MapQuestion, options: MapOptions) -> int:
    """The number of numbers that the blocks of a text hold; 0 by other measures."""
    if options.measure != "jacobian":
        return 0
    near = sum(len(options.near(question, place)) for place in range(len(question.places)))
    pieces = sum(question.widths) / len(question.places)
    return round(near * pieces * min(options.samples, len(options.support)) ** 2)


def _propose(
    reader: RowReader, questions: Sequence[MapQuestion], asked: Sequence[Asked], options: MapOptions
) -> dict[Asked, Proposed]:
    """The likeliest tokens of every place, with the place masked: one row each."""
    outcomes = Outcomes.of(reader.model, options.support)
    count = min(options.samples, outcomes.size)
    support = options.support.ids.cpu().long()

    def shape_of(one: Asked) -> Shape:
        question = questions[one[0]]
        return Shape(len(question.ids), alike=(question.widths[one[1]],))

    def propose(alike: list[Asked]) -> Iterator[Proposed]:
        openings, mask_id = [(n, (place,)) for n, place in alike], reader.model.mask_id
        ids, positions, standing = masked_places(questions, openings, mask_id)
        # a blank has no token
        standing[standing == mask_id] = -1
        log_probs = torch.empty(*positions.shape, count, dtype=torch.float64)
        places = torch.empty(*positions.shape, count, dtype=torch.long)

        def keep(rows: Tensor, column: int, log_p: Tensor) -> None:
            best = _best(log_p.cpu(), count, support, standing[rows, column])
            places[rows, column] = best
            log_probs[rows, column] = log_p.cpu().gather(1, best)

        read_places(reader, ids, positions, outcomes, keep)
        return map(_fills, places, log_probs)

    return dict(zip(asked, run_by_shape(reader, asked, shape_of, propose), strict=True))


def _best(
    log_probs: Float[Tensor, "rows size"],
    count: int,
    support: Int[Tensor, " size"],
    standing: Int[Tensor, " rows"],
) -> Int[Tensor, "rows count"]:
    """The likeliest tokens; the token of the text replaces the last of them if it is missing."""
    if count == len(support):
        return torch.arange(count).expand(len(log_probs), -1)
    best = log_probs.topk(count, dim=1).indices
    here = support == standing[:, None]
    absent = here.any(dim=1) & ~(support[best] == standing[:, None]).any(dim=1)
    best[absent, -1] = here[absent].long().argmax(dim=1)
    return best


def _fills(
    tokens: Int[Tensor, "pieces candidates"], log_probs: Float[Tensor, "pieces candidates"]
) -> Proposed:
    """The likeliest fills of all pieces, each by its own distribution: as many as candidates."""
    fills, scores = tokens[0][:, None], log_probs[0]
    for more, log_p in zip(tokens[1:], log_probs[1:], strict=True):
        best = (scores[:, None] + log_p).flatten().topk(tokens.shape[1])
        first, last = best.indices // len(log_p), best.indices % len(log_p)
        fills, scores = torch.cat([fills[first], more[last][:, None]], dim=1), best.values
    return Proposed(tokens, fills)


def _write(
    reader: RowReader,
    questions: Sequence[MapQuestion],
    asked: Sequence[Asked],
    proposed: Mapping[Asked, Proposed],
    options: MapOptions,
) -> dict[Asked, Written]:
    """Every fill of every place in turn, and what is read of the candidates at places near it."""
    fills, support = min(options.samples, len(options.support)), options.support.ids.cpu().long()
    outcomes = Outcomes.of(reader.model, options.support)

    def shape_of(one: Asked) -> Shape:
        question = questions[one[0]]
        return Shape(len(question.ids), rows=fills, alike=(sum(question.widths),))

    def write(some: list[Asked]) -> Iterator[Written]:
        rows = []
        for n, place in some:
            ids, fill = torch.tensor(questions[n].ids), support[proposed[n, place].fills]
            ids = ids.repeat(len(fill), 1)
            ids[:, list(questions[n].places[place].positions)] = fill
            # behind the number of the text
            rows.append(torch.cat([torch.full((len(fill), 1), n), ids], dim=1))
        # the unchanged text is among the rows of each of its places, and runs once
        distinct, which = torch.unique(torch.cat(rows), dim=0, return_inverse=True)
        texts, text = torch.unique(distinct[:, 0], return_inverse=True)
        every = [(n, range(len(questions[n].places))) for n in texts.tolist()]
        positions = torch.tensor([positions_of(questions[n], places) for n, places in every])
        of_texts = [torch.cat([proposed[n, p].tokens for p in places]) for n, places in every]
        tokens = torch.stack(of_texts)
        read = torch.empty(len(distinct), *tokens.shape[1:])

        def keep(rows: Tensor, column: int, log_p: Tensor) -> None:
            read[rows, column] = log_p.cpu().gather(1, tokens[text[rows], column]).float()

        ids = distinct[:, 1:].contiguous()
        read_places(reader, ids, positions[text], outcomes, keep)
        seen: set[int] = set()
        for (n, place), part in zip(some, which.split([len(r) for r in rows]), strict=True):
            near = options.near(questions[n], place)
            ends = [0, *accumulate(questions[n].widths)]
            start, new = ends[near.start], set(part.tolist()) - seen
            seen |= new
            columns = {p: slice(ends[p] - start, ends[p + 1] - start) for p in near}
            yield Written(read[part][:, start : ends[near.stop]], columns, len(new))

    return dict(zip(asked, run_by_shape(reader, asked, shape_of, write), strict=True))


def _measured(
    question: MapQuestion, written: Sequence[Written], options: MapOptions
) -> DependenceMap:
    size, widths = len(question.places), question.widths
    centred = []
    for place in written:
        # without the means over tokens written and tokens read, which normalisers are part of
        block = place.log_probs.double()
        block = block - block.mean(dim=2, keepdim=True)
        centred.append(block - block.mean(dim=0, keepdim=True))
    values = torch.full((size, size), math.nan, dtype=torch.float64)
    for first, second in options.pairs(question):
        there = centred[first][:, written[first].columns[second]]
        back = centred[second][:, written[second].columns[first]]
        if widths[first] == widths[second] == 1:
            norm = ((there[:, 0] + back[:, 0].T) / 2).norm()
        else:
            norm = ((there.square().sum() + back.square().sum()) / 2).sqrt()
        values[first, second] = values[second, first] = norm
    return options.map_of(question, values, size + sum(place.rows for place in written))
