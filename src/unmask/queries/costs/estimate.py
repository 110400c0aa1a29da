"""The cost of joints over a text, with the time measured on a few batches of the model."""

import statistics
import time
from dataclasses import replace

import torch

from unmask.arguments import Options, whole_number
from unmask.constructions.needs import Needs
from unmask.errors import UnmaskError
from unmask.model.batch_size import rows_per_batch
from unmask.model.masked_lm import MaskedLM
from unmask.model.row_reader import RowReader
from unmask.printable import quoted
from unmask.queries.costs.cost import Cost, predicted
from unmask.queries.costs.flops import row_flop, weight_bytes
from unmask.queries.costs.forward_passes import all_needs
from unmask.queries.costs.passes import table_passes
from unmask.queries.costs.timing import table_seconds
from unmask.settings import Settings
from unmask.tables.storage import choose_storage
from unmask.text.cloze import Cloze
from unmask.text.support import Support

# how much of the model is timed beyond one batch: so many, so long, such a part of the work itself
_BATCHES, _PATIENCE, _PART = 5, 1.0, 0.1


def estimate(
    model: MaskedLM,
    cloze: Cloze,
    methods: list[str],
    axes: tuple[Support, ...],
    settings: Settings,
    options: Options,
    *,
    examples: int = 1,
    measured_above: int = 0,
) -> Cost:
    """The cost of one text, timed as one of `examples` whose rows run together.

    Up to `measured_above` rows in all, the model is not asked for anything: neither FLOP nor time.
    """
    if (whole_number(examples) or 0) < 1:
        raise UnmaskError(f"examples is a number of texts from 1, not {quoted(examples)}")
    shape = tuple(len(axis) for axis in axes)
    width = None if model.output_embedding is None else model.output_embedding.weight.shape[1]
    cost = predicted(
        methods,
        shape,
        length=len(cloze),
        width=width,
        settings=settings,
        model_bytes=weight_bytes(model),
        whole_vocabulary=all(axis.is_whole(model.vocabulary_size) for axis in axes),
        options=options,
    )
    timed = estimate_rows(
        model, cloze, cost, settings, examples=examples, measured_above=measured_above
    )
    if timed.seconds is None:
        return timed
    tables = _table_seconds(model, methods, shape, width, settings, options)
    return replace(timed, seconds=timed.seconds + tables, table_seconds=tables)


def estimate_rows(
    model: MaskedLM,
    cloze: Cloze,
    cost: Cost,
    settings: Settings,
    *,
    examples: int = 1,
    measured_above: int = 0,
) -> Cost:
    """A cost with the FLOP and the time of its rows, measured."""
    rows = cost.forward_passes * examples
    if rows <= measured_above:
        return cost
    batch = rows_per_batch(model, len(cloze), settings)
    # no larger than the work itself; otherwise as it is, so that what was measured is found again
    how = settings if batch <= rows else replace(settings, batch_size=rows)
    row_seconds = _row_seconds(model, cloze, how, rows)
    # only now: a first batch may find out what of the model it can leave out
    flop = row_flop(model, len(cloze), min(batch, rows))
    return replace(
        cost,
        flop=None if flop is None else flop * cost.forward_passes,
        seconds=cost.forward_passes * row_seconds,
    )


def _row_seconds(model: MaskedLM, cloze: Cloze, settings: Settings, rows: int) -> float:
    """The median over a few batches of the work's own size."""
    start, reader = time.perf_counter(), RowReader(model, replace(settings, progress=False))
    measured = [reader.seconds_per_row(cloze)]
    patience = min(_PATIENCE, _PART * rows * measured[0])
    while len(measured) < _BATCHES and time.perf_counter() - start < patience:
        measured.append(reader.seconds_per_row(cloze))
    return statistics.median(measured)


def _table_seconds(
    model: MaskedLM,
    methods: list[str],
    shape: tuple[int, ...],
    width: int | None,
    settings: Settings,
    options: Options,
) -> float:
    parts = all_needs(methods, shape, options) if len(shape) > 1 else Needs()
    kept = choose_storage(shape, width=width, settings=settings)
    return table_seconds(
        table_passes(methods, shape, options),
        shape,
        # without tables there is nothing to compute anew
        width=None if kept.dense or not parts.whole else width,
        copied=kept.copied and len(parts.whole) == 2,
        # as in elicitation: float64 exists on CPUs and CUDA
        device=model.device if model.device.type == "cuda" else torch.device("cpu"),
    )
