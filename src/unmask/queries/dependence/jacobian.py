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
    ids_of,
    positions_of,
    read_places,
)

# of each text by its number: a place of it
Asked = tuple[int, int]


class Proposed(NamedTuple):
    """The candidates of a place: tokens for each piece, and fills of all its pieces together."""

    tokens: Int[Tensor, "pieces candidates"]
    fills: Int[Tensor, "fills pieces"]


class Written(NamedTuple):
    """The logits read with every fill of a place written, at the places near it, and new rows."""

    logits: Float[Tensor, "fills read candidates"]
    columns: Mapping[int, slice]
    rows: int


def by_jacobian(
    reader: RowReader, questions: Sequence[MapQuestion], options: MapOptions
) -> list[DependenceMap]:
    """The map of every text, in nats."""
    asked = [(n, place) for n, q in enumerate(questions) for place in range(len(q.places))]
    proposed = _propose(reader, questions, asked, options)
    written = _write(reader, questions, asked, proposed, options)
    return [_measured(n, question, written, options) for n, question in enumerate(questions)]


def cells(question: MapQuestion, options: MapOptions) -> int:
    """The number of numbers that the blocks of a text hold."""
    near = sum(len(options.near(question, place)) for place in range(len(question.places)))
    pieces = sum(question.widths) / len(question.places)
    return round(near * pieces * min(options.samples, len(options.support)) ** 2)


# --- what is written ---------------------------------------------------------------------------


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
        opened = [(questions[n], (place,)) for n, place in alike]
        positions, ids = positions_of(opened), ids_of([question for question, _ in opened])
        standing = ids.gather(1, positions)
        # a blank has no token
        standing[standing == reader.model.mask_id] = -1
        ids.scatter_(1, positions, reader.model.mask_id)
        log_probs = torch.empty(*positions.shape, count, dtype=torch.float64)
        places = torch.empty(*positions.shape, count, dtype=torch.long)

        def keep(rows: Tensor, column: int, log_p: Tensor) -> None:
            best = _best(log_p.cpu(), count, support, standing[rows, column])
            places[rows, column] = best
            log_probs[rows, column] = log_p.cpu().gather(1, best)

        read_places(reader, ids, positions, outcomes, keep)
        return map(_fills, support[places], log_probs)

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


# --- what is read ------------------------------------------------------------------------------


def _write(
    reader: RowReader,
    questions: Sequence[MapQuestion],
    asked: Sequence[Asked],
    proposed: Mapping[Asked, Proposed],
    options: MapOptions,
) -> dict[Asked, Written]:
    """Every fill of every place in turn: the logits of all candidates at all places."""
    fills = min(options.samples, len(options.support))

    def shape_of(one: Asked) -> Shape:
        question = questions[one[0]]
        return Shape(len(question.ids), rows=fills, alike=(sum(question.widths),))

    def write(some: list[Asked]) -> Iterator[Written]:
        rows = []
        for n, place in some:
            ids, fill = torch.tensor(questions[n].ids), proposed[n, place].fills
            ids = ids.repeat(len(fill), 1)
            ids[:, list(questions[n].places[place].positions)] = fill
            # behind the number of the text
            rows.append(torch.cat([torch.full((len(fill), 1), n), ids], dim=1))
        # the unchanged text is among the rows of each of its places, and runs once
        distinct, which = torch.unique(torch.cat(rows), dim=0, return_inverse=True)
        logits = _read(reader, questions, distinct, proposed)
        seen: set[int] = set()
        for (n, place), part in zip(some, which.split([len(r) for r in rows]), strict=True):
            near = options.near(questions[n], place)
            ends = [0, *accumulate(questions[n].widths)]
            start, new = ends[near.start], set(part.tolist()) - seen
            seen |= new
            columns = {p: slice(ends[p] - start, ends[p + 1] - start) for p in near}
            yield Written(logits[part][:, start : ends[near.stop]], columns, len(new))

    return dict(zip(asked, run_by_shape(reader, asked, shape_of, write), strict=True))


def _read(
    reader: RowReader,
    questions: Sequence[MapQuestion],
    rows: Int[Tensor, "rows number_and_length"],
    proposed: Mapping[Asked, Proposed],
) -> Float[Tensor, "rows read candidates"]:
    """The logits of the candidates at all places, in rows that are in the order of their texts."""
    number, ids = rows[:, 0], rows[:, 1:].contiguous()
    every = Outcomes.of(reader.model)
    tokens = {
        n: torch.cat([proposed[n, place].tokens for place in range(len(questions[n].places))])
        for n in number.unique().tolist()
    }
    logits = torch.empty(len(ids), *next(iter(tokens.values())).shape)

    def keep(batch: slice, readouts: Tensor) -> None:
        texts, counts = torch.unique_consecutive(number[batch], return_counts=True)
        start = batch.start
        for n, part in zip(texts.tolist(), readouts.split(counts.tolist()), strict=True):
            logits[start : start + len(part)] = _logits(every, part, tokens[n]).cpu()
            start += len(part)

    positions = {n: [p for place in questions[n].places for p in place.positions] for n in tokens}
    at = torch.tensor([positions[n] for n in number.tolist()])
    reader.each_batch(ids, at, keep)
    return logits


def _logits(
    every: Outcomes, readouts: Float[Tensor, "rows read width"], tokens: Int[Tensor, "read k"]
) -> Float[Tensor, "rows read k"]:
    tokens = tokens.to(readouts.device)
    if every.weight is None:
        return readouts.gather(2, tokens.expand(len(readouts), -1, -1)).float()
    logits = torch.einsum("nrw,rkw->nrk", readouts, every.weight[tokens])
    return (logits if every.bias is None else logits + every.bias[tokens]).float()


# --- what it amounts to ------------------------------------------------------------------------


def _measured(
    number: int,
    question: MapQuestion,
    written: Mapping[Asked, Written],
    options: MapOptions,
) -> DependenceMap:
    size, widths = len(question.places), question.widths
    mine = [written[number, place] for place in range(size)]
    centred = [_centred(block.logits.double()) for block in mine]
    values = torch.full((size, size), math.nan, dtype=torch.float64)
    for first, second in options.pairs(question):
        there = centred[first][:, mine[first].columns[second]]
        back = centred[second][:, mine[second].columns[first]]
        if widths[first] == widths[second] == 1:
            norm = ((there[:, 0] + back[:, 0].T) / 2).norm()
        else:
            norm = ((there.square().sum() + back.square().sum()) / 2).sqrt()
        values[first, second] = values[second, first] = norm
    return options.map_of(question, values, size + sum(block.rows for block in mine))


def _centred(logits: Float[Tensor, "fills read k"]) -> Float[Tensor, "fills read k"]:
    """Without the means over tokens written and tokens read."""
    logits = logits - logits.mean(dim=2, keepdim=True)
    return logits - logits.mean(dim=0, keepdim=True)
