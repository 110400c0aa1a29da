"""The work of rows before it is done: how many make a unit, and how long they all take.

The size of a unit is computed from the first rows and never timed, so that every process cuts an
input alike. The time of a run is measured, on rows from all over what is left of it.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from unmask.errors import UnmaskError
from unmask.jobs.kinds import Reason, Work
from unmask.jobs.worker import Worker
from unmask.model.row_reader import rows_per_batch
from unmask.printable import readable_seconds
from unmask.queries.cost import seconds_per_row
from unmask.records.files import RowBatch, Unit, read_unit
from unmask.records.rows import Row
from unmask.text.cloze import Cloze

# of one core of a laptop: multiply-adds count as two, and a pass of few tokens waits for Python
_FLOPS, _SECONDS_PER_PASS = 6e10, 4e-5
# a unit of so many rows has them in memory; a kind that estimates nothing has units of a few
_MOST_ROWS, _UNKNOWN_ROWS = 10_000, 64
UNIT_SECONDS = 5.0
# units that are read for an estimate, and rows of each
_UNITS_READ, _ROWS_READ = 8, 8
# rows of a batch that is timed
_ROWS_TIMED = 64
# a row that runs alone is timed unless it takes longer; the seconds of such rows, and their part
# of the whole
_LONGEST_ROW, _MOST_SECONDS, _TIMED_PART = 10.0, 2.0, 0.05
# fewer forward passes are over sooner than their time would be measured
_FEW_PASSES = 512
# work that takes no longer needs no announcement
LONG_SECONDS = 10.0


def works(worker: Worker, batch: RowBatch) -> Iterator[tuple[Any, Work]]:
    """The item and the work of each row that can be answered."""
    for item in worker.items(batch):
        # a row that cannot be answered says so when it is its turn
        with suppress(UnmaskError):
            work = None if isinstance(item, Reason) else worker.kind.work(worker.lm, item)
            if work is not None:
                yield item, work


def rows_per_unit(worker: Worker, sample: Sequence[Row]) -> int:
    """The number of rows that one core of a laptop does in some seconds."""
    kind, lm, parameters = worker.kind, worker.lm, 0
    every = [work for _, work in works(worker, RowBatch(sample, [None] * len(sample)))]
    if not every:
        return _UNKNOWN_ROWS
    module: Any = getattr(lm.model, "model", None)
    if module is not None:
        # every token is multiplied by all of them but the vectors that it is looked up in
        vectors = module.get_input_embeddings()
        looked_up = () if vectors is None else vectors.parameters()
        parameters = sum(weight.numel() for weight in module.parameters())
        parameters -= sum(weight.numel() for weight in looked_up)
    seconds = sum(
        kind.row_seconds + work.passes * (_SECONDS_PER_PASS + 2 * parameters * work.tokens / _FLOPS)
        for work in every
    )
    return max(1, min(_MOST_ROWS, round(UNIT_SECONDS * len(every) / seconds)))


def estimate(worker: Worker, left: Sequence[Unit], rows: int | None, *, is_dry: bool) -> str | None:
    """A line on what units take, or each row if `rows` is None; before a run only if it is long."""
    kind, lm, read, sample = worker.kind, worker.lm, 0, list[tuple[Any, Work]]()
    for unit in left[:: max(1, len(left) // _UNITS_READ)][:_UNITS_READ]:
        batch = read_unit(unit, kind.input_columns.required, kind.input_columns.optional)
        step = max(1, len(batch.rows) // _ROWS_READ)
        batch = RowBatch(batch.rows[::step], batch.reasons[::step])
        read += len(batch.rows)
        sample += works(worker, batch)
    if not sample:
        return f"{kind.name}: the cost is not known before it runs" if is_dry else None
    total = sum(work.passes for _, work in sample)
    passes, count = total / len(sample), 1.0 if rows is None else rows * len(sample) / read
    is_short = passes * count <= _FEW_PASSES
    if is_short and not is_dry:
        return None
    at_most = "at most " if any(work.at_most for _, work in sample) else ""
    noun = f"{rows:,} {kind.noun}{'s' * (rows != 1)}" if rows else "each"
    line = f"{kind.name}: {at_most}{passes * count:,.0f} forward passes for {noun}"
    if is_short:
        return line
    # a forward pass of the mean length
    tokens = max(2, round(sum(work.passes * work.tokens for _, work in sample) / total))
    size = min(_ROWS_TIMED, rows_per_batch(lm.model, tokens, kind.settings))
    cloze = Cloze("", (lm.model.mask_id,) * tokens, (tokens // 2,))
    of_pass = seconds_per_row(lm.model, cloze, size)
    seconds = passes * of_pass + kind.row_seconds
    if kind.runs_alone and seconds < _LONGEST_ROW and seconds * count > LONG_SECONDS:
        most, began = min(_MOST_SECONDS, _TIMED_PART * seconds * count), time.perf_counter()
        for timed, (item, _) in enumerate(sample[:: max(1, len(sample) // _ROWS_READ)], start=1):
            kind.run(lm, [item])
            seconds = (time.perf_counter() - began) / timed
            if seconds * timed > most:
                break
    seconds *= count
    is_told = is_dry or seconds > LONG_SECONDS
    return f"{line}, about {readable_seconds(seconds)}" if is_told else None
