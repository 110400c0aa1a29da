"""A run from its first example to its last: what is done is saved while the rest goes on."""

import io
import sys
import time
from collections.abc import Sequence
from typing import Never

from tqdm import tqdm

from unmask.errors import StoreError, UnmaskError
from unmask.evaluation.executors.local import Executor
from unmask.evaluation.masks import MaskedPair
from unmask.evaluation.rows import Row
from unmask.evaluation.store.run_writer import RunWriter
from unmask.printable import printable

# what a crash may cost, unless one example takes longer
SAVE_EVERY = 10.0
# more than this in a row is a broken machine or model, not an unlucky text
_FAILURES_IN_A_ROW = 50
# how often to print a line where there is no terminal for a bar, as in a log of a batch job
_SECONDS_PER_LINE = 30.0


def complete(
    writer: RunWriter,
    pairs: Sequence[MaskedPair],
    executor: Executor,
    *,
    save_every: float = SAVE_EVERY,
    progress: bool | None = None,
) -> None:
    """Measure what a shard still lacks, and save it; also when interrupted.

    `progress` is a bar on stderr with rate and time left, a line now and then where stderr is not
    a terminal; False for none.
    """
    to_do, tried = writer.to_do(pairs), writer.failed
    pending: list[Row] = []
    failures, saved_at = 0, time.monotonic()

    def save() -> None:
        # interrupted in the middle of it, result rows are saved on the way out
        try:
            writer.save(pending)
        except StoreError:
            # where the disk is full, there is no sense in trying that again
            pending.clear()
            raise
        pending.clear()

    with _bar(writer, len(to_do), progress) as bar:
        try:
            for rows in executor.run(writer.plan, to_do):
                pending += rows
                if time.monotonic() - saved_at >= save_every:
                    save()
                    saved_at = time.monotonic()
                bar.update()
                if rows[0].example_id not in tried:
                    failures = failures + 1 if rows[0].failed else 0
                    _check_failures(failures, rows[0])
        finally:
            save()


def _bar(writer: RunWriter, to_do: int, progress: bool | None) -> "tqdm[Never]":
    watched = sys.stderr is not None and sys.stderr.isatty()
    return tqdm(
        total=len(writer.done) + to_do,
        initial=len(writer.done),
        desc=f"shard {writer.shard}" if writer.shard.count > 1 else None,
        unit=" examples",
        disable=progress is False,
        mininterval=0.1 if watched else _SECONDS_PER_LINE,
        # by time alone: examples differ too much in cost for a guess by their number
        miniters=1,
        smoothing=0.05,
        file=sys.stderr if watched else _Lines(),
    )


class _Lines(io.StringIO):
    """Where a bar is drawn over and over, as lines, which a log can hold."""

    def write(self, text: str) -> int:
        if said := text.strip():
            print(said, file=sys.stderr, flush=True)
        return len(text)


def _check_failures(failures: int, row: Row) -> None:
    if failures >= _FAILURES_IN_A_ROW:
        raise UnmaskError(
            f"{failures} examples failed in a row, the last with: {printable(row.error or '')}."
            " They are recorded; fix the cause and start again"
        )
