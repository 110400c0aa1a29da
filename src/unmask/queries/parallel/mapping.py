"""Maps of dependence by a head: of the blanks of a text in one pass, of a whole text in one a pair.

A head knows pairs of masked tokens. Blanks are masked; of two words in a whole text both are, as
mutual information is measured. A word of several tokens has the sum over them.
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from unmask.model.inside import Inside
from unmask.model.row_reader import Outcomes, RowReader
from unmask.queries.dependence.question import MapOptions, MapQuestion, MeasuredMap, MeasureMaps
from unmask.queries.parallel.features import each_masked
from unmask.queries.parallel.head import DependenceHead


def measured_by(head: DependenceHead) -> MeasureMaps:
    """The measure `head`."""
    return partial(_by_head, head)


def _by_head(
    head: DependenceHead, reader: RowReader, questions: Sequence[MapQuestion], options: MapOptions
) -> list[MeasuredMap]:
    openings = options.openings(questions)
    tables = [torch.zeros((len(each.places),) * 2, dtype=torch.float64) for each in questions]

    def use(rows: Sequence[int], inside: Inside, log_probs: Tensor, positions: Tensor) -> None:
        predicted = head.predict(inside, log_probs, positions)
        for row, bits in zip(rows, predicted, strict=True):
            number, masked = openings[row]
            places = torch.tensor(
                [n for n in masked for _ in questions[number].places[n].positions]
            )
            size = len(places)
            tables[number].index_put_(
                (places[:, None], places), bits[:size, :size], accumulate=True
            )

    mask_id = reader.model.mask_id
    rows = [_masked(questions[number], masked, mask_id) for number, masked in openings]
    outcomes = Outcomes.of(reader.model, options.support)
    each_masked(reader, rows, outcomes, use, attention=head.reads_attention)
    return [
        MeasuredMap(options.within(question, table), options.forward_passes(question))
        for question, table in zip(questions, tables, strict=True)
    ]


def _masked(
    question: MapQuestion, masked: Sequence[int], mask_id: int
) -> tuple[list[int], list[int]]:
    """The text with these of its places masked, and their positions."""
    positions = [position for n in masked for position in question.places[n].positions]
    return [mask_id if n in positions else t for n, t in enumerate(question.ids)], positions
