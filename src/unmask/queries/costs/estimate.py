"""The cost of joints over a text, measured on a few batches of the model."""

import statistics
import time
from dataclasses import replace

from unmask.arguments import whole_number
from unmask.errors import UnmaskError
from unmask.model.batch_size import rows_per_batch
from unmask.model.masked_lm import MaskedLM
from unmask.model.row_reader import RowReader
from unmask.printable import quoted
from unmask.queries.costs.cost import Cost
from unmask.queries.costs.flops import row_flop
from unmask.settings import Settings
from unmask.text.cloze import Cloze

# how much of the model is timed beyond one batch: so many, so long, such a part of the work itself
_BATCHES, _PATIENCE, _PART = 5, 1.0, 0.1


def measured(
    model: MaskedLM, cloze: Cloze, cost: Cost, settings: Settings, examples: int = 1
) -> Cost:
    """A cost with the FLOP and the time of its forward passes, those of `examples` together."""
    if (whole_number(examples) or 0) < 1:
        raise UnmaskError(f"examples is a number of texts from 1, not {quoted(examples)}")
    rows = cost.forward_passes * examples
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
    timed = [reader.seconds_per_row(cloze)]
    patience = min(_PATIENCE, _PART * rows * timed[0])
    while len(timed) < _BATCHES and time.perf_counter() - start < patience:
        timed.append(reader.seconds_per_row(cloze))
    return statistics.median(timed)
