"""A job from its first unit to its last: here, in a loop, or on a cluster."""

import sys
import time
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
from unmask.progress import bar
from unmask.records import places
from unmask.records.files import InputRows, RowBatch, Source, Unit

if TYPE_CHECKING:
    from unmask.jobs.ray_workers import RayWorkers

# receipts are files: more of them than this burden a disk
MOST_UNITS = 100_000
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
        size = rows_per_unit(Worker(self.lm, self.kind), self.input.sample)
        return self.input.cut(size, at_least=self.shard.count, at_most=MOST_UNITS)

    def announce(self, left: Sequence[Unit], rows: int | None, say: Say, *, is_dry: bool) -> None:
        """Tell what units take: before a run only if it is long."""
        # an input that cannot be read says so when it is its turn
        with suppress(UnmaskError):
            if line := estimate(Worker(self.lm, self.kind), left, rows, is_dry=is_dry):
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

    def add(self, outcome: Outcome) -> None:
        """Count a unit."""
        if outcome.error is not None:
            self.errors.append(outcome.error)
        else:
            self.done += 1
            add(self.counts, outcome.counts)

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
            outcomes = workers.run(job.kind, folder, left)
        else:
            if left and announce is not None:
                job.announce(left, rows, announce, is_dry=False)
            worker = Worker(job.lm, job.kind)
            read = _read_ahead(worker, left)
            outcomes = (worker.do(unit, folder, rows) for unit, rows in read)
        wanted, noun = progress if len(left) > 1 else False, job.kind.noun
        last_line_at = time.monotonic()
        drawn = bar(f"{noun}s", unit=noun, total=rows, shown=wanted)
        with closing(outcomes), drawn as progress_bar:
            try:
                for outcome in outcomes:
                    result.add(outcome)
                    job.check(outcome.counts)
                    progress_bar.update(outcome.counts["texts"])
                    is_seen = wanted is not None or (sys.stderr and sys.stderr.isatty())
                    if not is_seen and time.monotonic() - last_line_at >= SECONDS_PER_LINE:
                        last_line_at = time.monotonic()
                        total = "" if rows is None else f" of {rows:,}"
                        say(f"{progress_bar.n:,.0f}{total} {noun}s done")
            except (KeyboardInterrupt, SystemExit) as error:
                if texts := result.counts["texts"]:
                    saved = f"{texts:,} {noun}s are saved in {places.shown(output)}"
                    error.add_note(f"{saved}; repeat the command to go on")
                raise
        return result


def _left(folder: Folder, source: Source, shard: Shard, result: Result, say: Say) -> list[Unit]:
    """The units of a shard that are not done; those that failed before come last."""
    receipts, failed, damaged = folder.receipts(), set[int](), 0
    done = [number for number in receipts if number % shard.count == shard.index]
    left = {unit.number: unit for unit in list(source.units)[shard.index :: shard.count]}

    def is_whole(number: int) -> bool:
        return folder.content(number, receipts[number]) is not None

    for number, whole in zip(done, places.in_parallel(is_whole, done), strict=True):
        if whole and not receipts[number]["counts"]["failed"]:
            del left[number]
            result.add(Outcome(receipts[number]["counts"]))
            continue
        folder.forget(number)
        damaged += not whole
        failed.update([number] * whole)
    if damaged:
        say(f"damaged parts, which are computed again: {damaged:,}")
    return sorted(left.values(), key=lambda unit: unit.number in failed)


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
    wanted = False if source.unit_count == 1 else progress
    with bar(f"{noun}s", unit=noun, total=source.rows, shown=wanted) as drawn:
        for batch, items in read:
            table, more = worker.answers(batch, items)
            add(counts, more)
            yield [*rows_of(table)], counts
            job.check(more)
            drawn.update(more["texts"])
