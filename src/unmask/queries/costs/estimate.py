"""The cost of joints over a text, measured on a few batches of the model."""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from unmask.arguments import whole_number
from unmask.errors import UnmaskError
from unmask.model.batch_size import rows_per_batch
from unmask.model.devices import for_float64
from unmask.model.masked_lm import MaskedLM
from unmask.model.row_reader import RowReader
from unmask.printable import quoted
from unmask.queries.costs.cost import Cost
from unmask.queries.costs.flops import row_flop
from unmask.settings import Settings
from unmask.text.cloze import Cloze

# how much of the model is timed beyond one batch: so many, so long, such a part of the work itself
_BATCHES, _PATIENCE, _PART = 5, 1.0, 0.1
# sweeps of fewer FLOP and bytes take no time that is worth measuring
_WORTH_MEASURING = 10**9
# cells of a tile: more than a cache holds
_TILE = 2**23


def measured(
    model: MaskedLM, cloze: Cloze, cost: Cost, settings: Settings, examples: int = 1
) -> Cost:
    """A cost with the FLOP of its forward passes and its time, as one of `examples`."""
    if (whole_number(examples) or 0) < 1:
        raise UnmaskError(f"examples is a number of texts from 1, not {quoted(examples)}")
    rows = cost.forward_passes * examples
    batch = rows_per_batch(model, len(cloze), settings)
    # no larger than the work itself; otherwise unchanged, so that a measured batch size is reused
    run_settings = settings if batch <= rows else replace(settings, batch_size=rows)
    row_seconds = _row_seconds(model, cloze, run_settings, rows)
    # only now: a first batch may find out what of the model it can leave out
    flop = row_flop(model, len(cloze), min(batch, rows))
    return replace(
        cost,
        flop=None if flop is None else flop * cost.forward_passes,
        seconds=cost.forward_passes * row_seconds + _table_seconds(for_float64(model.device), cost),
    )


def _row_seconds(model: MaskedLM, cloze: Cloze, settings: Settings, rows: int) -> float:
    """The median over a few batches of the work's own size."""
    start, reader = time.perf_counter(), RowReader(model, replace(settings, progress=False))
    timed = [reader.seconds_per_row(cloze)]
    patience = min(_PATIENCE, _PART * rows * timed[0])
    while len(timed) < _BATCHES and time.perf_counter() - start < patience:
        timed.append(reader.seconds_per_row(cloze))
    return statistics.median(timed)


def _table_seconds(device: torch.device, cost: Cost) -> float:
    """The time besides forward passes: products and memory at the speeds of this machine."""
    if cost.table_flop + cost.table_traffic < _WORTH_MEASURING:
        return 0.0
    if cost.compiled_traffic and device.type == "cpu":
        moved = cost.compiled_traffic / _reading_speed()
    else:
        moved = cost.table_traffic / _moving_speed(device)
    return cost.table_flop / _product_speed(device) + moved


def _product_speed(device: torch.device) -> float:
    """FLOP per second of products of readouts with an output embedding, in float32."""
    rows, width, columns = 256, 768, 2048
    left, right = (torch.ones(n, width, device=device) for n in (rows, columns))
    return 2 * rows * width * columns / _fastest(lambda: left @ right.T, device)


def _moving_speed(device: torch.device) -> float:
    """Bytes per second of an operation on each cell of a tile: read two, write one, in float64."""
    one, other, kept = (torch.ones(_TILE, dtype=torch.float64, device=device) for _ in range(3))
    return 3 * one.nbytes / _fastest(lambda: torch.add(one, other, out=kept), device)


def _reading_speed() -> float:
    """Bytes per second at which a table is read."""
    table = torch.ones(2 * _TILE)
    return table.nbytes / _fastest(table.sum, table.device)


def _fastest(run: Callable[[], Tensor], device: torch.device) -> float:
    """Seconds of the fastest of a few runs; the first one only warms up."""
    timed = []
    for _ in range(4):
        began = time.perf_counter()
        result = run()
        # an accelerator answers before it is done: wait for a number of it
        result.flatten()[0].item()
        timed.append(time.perf_counter() - began)
    return min(timed[1:])
