"""A job from its first unit to its last: here, in a loop, or on a cluster."""

import io
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unmask.errors import UnmaskError
from unmask.jobs.estimate import estimate, rows_per_unit
from unmask.jobs.folder import Folder, Shard, agree, held, stored_plan
from unmask.jobs.kinds import Counts, Kind, add, counted, worst
from unmask.jobs.model_source import SOFTWARE, identify
from unmask.jobs.parts import rows_of
from unmask.jobs.plan import JobPlan
from unmask.jobs.worker import Outcome, Worker
from unmask.language_model import LanguageModel
from unmask.printable import printable
from unmask.progress import Bar, DrawnBar, HiddenBar, bar
from unmask.records import places
from unmask.records.files import InputRows, RowBatch, Source, Unit

if TYPE_CHECKING:
    from unmask.jobs.ray_workers import RayWorkers

# receipts are files: more of them than this burden a disk
MOST_UNITS = 100_000
# more than this is a broken machine, not an unlucky file
MOST_FAILURES = 20
# how often to print a line where there is no terminal for a bar
SECONDS_PER_LINE = 30.0

Say = Callable[[str], object]


@dataclass(frozen=True, kw_only=True)
class Job:
    """A kind of job over an input by a model, under the name that its rows give the model.

    A `strict` job ends at the first row without an answer.
    """

    kind: Kind
    input: InputRows
    lm: LanguageModel
    model_name: str
    dtype: str = "float32"
    rows_per_unit: int | None = None
    shard: Shard = field(default_factory=Shard)
    strict: bool = False

    def cut(self, output: str = "") -> Source:
        """The units of the input: at least one for every shard, and not too many.

        An `output` that was begun keeps its units, unless a number of rows is requested.
        """
        size, files = self.rows_per_unit, len(self.input.files)
        if size is not None and size < 1:
            raise UnmaskError(f"rows_per_unit is a number of rows from 1, not {size}")
        if files > MOST_UNITS:
            raise UnmaskError(
                f"the input has {files:,} files, each at least one part, and a run takes at most "
                f"{MOST_UNITS:,}; join files, or give some of them at a time"
            )
        if output and size is None and (stored := stored_plan(output)) is not None:
            size = stored.rows_per_unit
        if size is not None:
            return self.input.cut(size)
        size = rows_per_unit(self.kind, self.lm, self.input.sample)
        return self.input.cut(size, at_least=self.shard.count, at_most=MOST_UNITS)

    def announce(self, left: Sequence[Unit], rows: int | None, say: Say, *, is_dry: bool) -> None:
        """Tell what units take: before a run only if it is long."""
        # an input that cannot be read says so when it is its turn
        with suppress(UnmaskError):
            line = estimate(self.kind, self.lm, left, rows, is_dry=is_dry)
            if line is not None:
                say(line)

    def check(self, counts: Counts) -> None:
        """Raise where rows have no answer and the job is strict."""
        if self.strict and counts["without"]:
            raise UnmaskError(
                f"a row has no answer, and strict=True ends the run: {worst(counts)[1]}"
            )


@dataclass
class Result:
    """The state of a shard in its folder: counters of the units that are done, errors of others."""

    plan: JobPlan
    units: int
    done: int = 0
    counts: Counts = field(default_factory=counted)
    errors: list[str] = field(default_factory=list)
    failed_in_a_row: int = 0
    # units that failed in an earlier run keep no others from being tried
    tried: set[int] = field(default_factory=set)

    def add(self, outcome: Outcome) -> None:
        """Count a unit; raises where too many in a row have no row that did not fail."""
        if outcome.error is not None:
            self.errors.append(outcome.error)
            return
        self.done += 1
        add(self.counts, outcome.counts)
        if outcome.counts["failed"] < max(1, outcome.counts["texts"]):
            self.failed_in_a_row = 0
            return
        self.failed_in_a_row += outcome.unit not in self.tried
        if self.failed_in_a_row == MOST_FAILURES:
            raise UnmaskError(
                f"{MOST_FAILURES} units failed in a row, the last with: "
                f"{worst(outcome.counts)[1]}. What was finished is kept; fix the cause and start "
                "again"
            )

    def failures(self) -> str:
        """The number of units that failed, and an example of why."""
        return (
            f"{len(self.errors):,} of {self.units:,} units failed, e.g.: "
            f"{printable(self.errors[0])}; repeat the command to try them again"
        )


def run_job(
    job: Job,
    output: str,
    *,
    workers: "RayWorkers | None" = None,
    progress: bool | None = None,
    say: Say = lambda _: None,
    announce: Say | None = None,
) -> Result:
    """Compute the missing units of a job's folder, which is created if it does not exist.

    Units with rows that ended in an unexpected error are computed again, after all others.
    `announce` gets what a long run takes; not of a cluster, which has other speeds.
    """
    source, shard = job.cut(output), job.shard
    plan = JobPlan(
        kind=job.kind.name,
        options=job.kind.options(),
        model=identify(job.lm, name=job.model_name, dtype=job.dtype),
        input=[*source.identity],
        rows_per_unit=source.rows_per_unit,
        units=source.unit_count or 0,
        software=SOFTWARE,
    )
    with held(output, shard):
        folder = agree(output, plan, shard)
        result = Result(plan, len(range(shard.index, plan.units, shard.count)))
        left = _left(folder, source, shard, result, say)
        rows = None if source.rows is None else source.rows * len(left) // max(1, plan.units)
        if workers is not None:
            outcomes = workers.run(job.kind, plan, folder, left)
        else:
            if left and announce is not None:
                job.announce(left, rows, announce, is_dry=False)
            worker = Worker(job.lm, job.kind)
            read = _read_ahead(worker, left)
            outcomes = (worker.do(unit, rows.result, folder) for unit, rows in read)
        drawn = _progress_bar(job, rows, result, progress if len(left) > 1 else False)
        with closing(outcomes), drawn as progress_bar:
            try:
                for outcome in outcomes:
                    result.add(outcome)
                    job.check(outcome.counts)
                    without, failed = worst(result.counts)[0], len(result.errors)
                    problems = f"{without:,} without a number" * bool(without)
                    problems += f" {failed:,} units failed" * bool(failed)
                    progress_bar.set_postfix_str(problems, refresh=False)
                    progress_bar.update(outcome.counts["texts"])
            except (KeyboardInterrupt, SystemExit) as error:
                if texts := result.counts["texts"]:
                    saved = f"{texts:,} {job.kind.noun}s are saved in {places.shown(output)}"
                    error.add_note(f"{saved}; repeat the command to go on")
                raise
        return result


def _left(folder: Folder, source: Source, shard: Shard, result: Result, say: Say) -> list[Unit]:
    """The units of a shard that are not done; those that failed before come last."""
    done, damaged = dict[int, Counts](), list[int]()
    for number, receipt in folder.receipts(shard).items():
        if receipt is None:
            damaged.append(number)
        elif receipt["counts"]["failed"]:
            result.tried.add(number)
        else:
            done[number] = receipt["counts"]
            result.add(Outcome(number, receipt["counts"]))
    if damaged:
        say(f"{len(damaged):,} parts are damaged, and are computed again")
    for number in [*damaged, *result.tried]:
        folder.forget(number)
    for number in folder.numbers("begun") & done.keys():
        # its process wrote the receipt, and ended before it could remove the note
        folder.end(number)
    left = [unit for unit in source.units if unit.number in shard and unit.number not in done]
    return sorted(left, key=lambda unit: unit.number in result.tried)


def _read_ahead(
    worker: Worker, units: Iterable[Unit]
) -> Iterator[tuple[Unit, "Future[tuple[RowBatch, list[Any]]]"]]:
    """Every unit and its rows; while the model runs on them, the next are read."""
    waiting: deque[tuple[Unit, Future[tuple[RowBatch, list[Any]]]]] = deque()
    with ThreadPoolExecutor(1) as reader:
        for unit in units:
            waiting.append((unit, reader.submit(worker.read, unit)))
            if len(waiting) > 1:
                yield waiting.popleft()
        yield from waiting


def stream(
    job: Job, source: Source, progress: bool | None = None
) -> Iterator[tuple[list[dict[str, Any]], Counts]]:
    """The rows that a part of each unit would have, with all counters so far."""
    worker, counts, noun = Worker(job.lm, job.kind), counted(), job.kind.noun
    if job.input.is_pipe:
        # it may be a terminal: each line is answered before the next is read
        read = (worker.read(unit) for unit in source.units)
    else:
        read = (rows.result() for _, rows in _read_ahead(worker, source.units))
    bar_wanted = False if source.unit_count == 1 else progress
    with bar(f"{noun}s", unit=noun, total=source.rows, shown=bar_wanted) as drawn:
        for batch, items in read:
            table, more = worker.answers(batch, items)
            add(counts, more)
            yield [*rows_of(table)], counts
            job.check(more)
            drawn.update(more["texts"])


def _progress_bar(job: Job, left: int | None, result: Result, wanted: bool | None) -> Bar:
    """A bar on stderr with rate and time left; where that is no terminal, a line now and then."""
    if wanted is False:
        return HiddenBar(left)
    done = result.counts["texts"]
    watched = sys.stderr is not None and sys.stderr.isatty()
    return DrawnBar(
        total=None if left is None else left + done,
        initial=done,
        desc=f"shard {job.shard}" if job.shard.count > 1 else None,
        unit=f" {job.kind.noun}s",
        mininterval=0.1 if watched else SECONDS_PER_LINE,
        smoothing=0.05,
        file=sys.stderr if watched else _Lines(),
    )


class _Lines(io.StringIO):
    """A stream that keeps a bar, which is drawn over and over, as lines for a log."""

    def write(self, text: str) -> int:
        if line := text.strip():
            print(line, file=sys.stderr, flush=True)
        return len(text)
