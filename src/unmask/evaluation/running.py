"""A run from its first example to its last: what is done is saved while the rest goes on."""

import time
from collections.abc import Sequence

from unmask.errors import StoreError, UnmaskError
from unmask.evaluation.masks import MaskedPair
from unmask.evaluation.rows import Row
from unmask.evaluation.store.run_writer import RunWriter
from unmask.evaluation.worker import measuring
from unmask.jobs.executors.local import Executor
from unmask.jobs.running import progress_bar
from unmask.printable import printable

# what a crash may cost, unless one example takes longer
SAVE_EVERY = 10.0
# more than this in a row is a broken machine or model, not an unlucky text
_FAILURES_IN_A_ROW = 50


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

    done = len(writer.done)
    with progress_bar(
        done + len(to_do), done, shown=progress, shard=writer.shard, unit=" examples"
    ) as bar:
        try:
            for rows in executor.run(measuring(writer.plan), to_do):
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


def _check_failures(failures: int, row: Row) -> None:
    if failures >= _FAILURES_IN_A_ROW:
        raise UnmaskError(
            f"{failures} examples failed in a row, the last with: {printable(row.error or '')}."
            " They are recorded; fix the cause and start again"
        )
