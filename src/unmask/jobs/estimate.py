"""The work of rows before it is done: how many make a unit, and how long they all take.

The size of a unit is computed from the first rows and never timed, so that every process cuts an
input alike. The time of a run is measured, on rows from all over what is left of it.
"""

import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from unmask.errors import UnmaskError
from unmask.jobs.kinds import Kind, Reason, Work
from unmask.language_model import LanguageModel
from unmask.printable import readable_seconds
from unmask.records.files import Unit, read_unit
from unmask.records.rows import Row
from unmask.text.cloze import Cloze

# of one core of a laptop: multiply-adds count as two, and a pass of few tokens waits for Python
_FLOPS, _SECONDS_PER_PASS = 6e10, 4e-5
# a unit of so many rows has them in memory; a kind that estimates nothing has units of a few
_MOST_ROWS, _UNKNOWN_ROWS = 10_000, 64
UNIT_SECONDS = 5.0
# units that are read for an estimate, and rows of each
_UNITS_READ, _ROWS_READ = 8, 8
# a row that runs alone is timed unless it takes longer; how long such rows are timed, and for how
# long where all of them are computed next
_LONGEST_ROW, _TIMED_SECONDS, _TIMED_BEFORE_A_RUN = 10.0, 2.0, 0.5
# batches that a dry run times; a run is preceded by one, of no more rows
_BATCHES_TIMED, _ROWS_TIMED_BEFORE_A_RUN = 5, 64
# fewer forward passes are over sooner than their time would be measured
_FEW_PASSES = 512
# work that takes no longer needs no announcement
LONG_SECONDS = 10.0


def rows_per_unit(kind: Kind, lm: LanguageModel, sample: Sequence[Row]) -> int:
    """The number of rows that one core of a laptop does in some seconds."""
    works, parameters = _works(kind, lm, kind.read(lm, sample)), 0
    if not works:
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
        for work in works
    )
    return max(1, min(_MOST_ROWS, round(UNIT_SECONDS * len(works) / seconds)))


def _works(kind: Kind, lm: LanguageModel, items: Sequence[Any]) -> list[Work]:
    works = []
    for item in items:
        # a row that cannot be answered says so when it is its turn
        with suppress(UnmaskError):
            work = None if isinstance(item, Reason) else kind.work(lm, item)
            works += [] if work is None else [work]
    return works


def estimate(
    kind: Kind, lm: LanguageModel, left: Sequence[Unit], rows: int | None, *, is_dry: bool
) -> str | None:
    """A line on what the units that are left take, of which all rows are `rows`, or for each row.

    A dry run times several batches, and rows that would share none. Where a run follows, which
    would do the same again, it is one batch, and such rows only if that is a small part; and unless
    the run is long, the line is None.
    """
    items, bad = _sampled(kind, lm, left)
    works = _works(kind, lm, items)
    if not works:
        return f"{kind.title}: the cost is not known before it runs" if is_dry else None
    count = 1.0 if rows is None else rows * len(items) / (len(items) + bad)
    passes, seconds = sum(work.passes for work in works) / len(works), None
    if passes * count > _FEW_PASSES:
        most = _TIMED_SECONDS if is_dry else _TIMED_BEFORE_A_RUN
        seconds = passes * _seconds_per_pass(kind, lm, works, is_dry) + kind.row_seconds
        is_small = is_dry or seconds * count > 40 * most
        if kind.runs_alone and is_small and seconds < _LONGEST_ROW:
            seconds = _seconds_alone(kind, lm, items, most)
        seconds *= count
    if not is_dry and (seconds or 0.0) <= LONG_SECONDS:
        return None
    at_most = "at most " if any(work.at_most for work in works) else ""
    noun = f"{rows:,} {kind.noun}{'s' * (rows != 1)}" if rows else "each"
    took = "" if seconds is None else f", about {readable_seconds(seconds)}"
    return f"{kind.title}: {at_most}{passes * count:,.0f} forward passes for {noun}{took}"


def _sampled(kind: Kind, lm: LanguageModel, left: Sequence[Unit]) -> tuple[list[Any], int]:
    """Items from all over what is left, and how many rows among them have none."""
    items, bad, columns = list[Any](), 0, kind.input_columns
    for unit in left[:: max(1, len(left) // _UNITS_READ)][:_UNITS_READ]:
        batch = read_unit(unit, columns.required, columns.optional)
        step = max(1, len(batch.rows) // _ROWS_READ)
        rows = list(zip(batch.rows, batch.reasons, strict=True))[::step]
        read = kind.read(lm, [row for row, why in rows if why is None])
        good = [item for item in read if not isinstance(item, Reason)]
        items += good
        bad += len(rows) - len(good)
    return items, bad


def _seconds_per_pass(kind: Kind, lm: LanguageModel, works: Sequence[Work], is_dry: bool) -> float:
    """The time of a forward pass of the mean length, in batches as large as the work allows."""
    from unmask.model.batch_size import rows_per_batch, seconds_per_row

    total = max(1, sum(work.passes for work in works))
    tokens = max(2, round(sum(work.passes * work.tokens for work in works) / total))
    cloze, settings = Cloze("", (lm.model.mask_id,) * tokens, (tokens // 2,)), kind.settings
    if not is_dry:
        size = rows_per_batch(lm.model, tokens, settings)
        settings = replace(settings, batch_size=min(_ROWS_TIMED_BEFORE_A_RUN, size))
    batches = _BATCHES_TIMED if is_dry else 1
    return statistics.median(seconds_per_row(lm.model, cloze, settings) for _ in range(batches))


def _seconds_alone(kind: Kind, lm: LanguageModel, items: Sequence[Any], most: float) -> float:
    """The time of a row, from some of all over the sample."""
    began, timed = time.perf_counter(), 0
    for item in items[:: max(1, len(items) // _ROWS_READ)]:
        kind.run(lm, [item])
        timed += 1
        if time.perf_counter() - began > most:
            break
    return (time.perf_counter() - began) / timed
