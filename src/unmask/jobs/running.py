"""A job from its first unit to its last: here, in a loop, or on a cluster."""

import io
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Protocol

from unmask.errors import UnmaskError
from unmask.jobs.counts import Counts, add, counted, worst
from unmask.jobs.estimate import rows_per_unit
from unmask.jobs.folder import Folder, agree, held, stored_plan
from unmask.jobs.identify import identify
from unmask.jobs.kinds import Kind
from unmask.jobs.model_source import SOFTWARE
from unmask.jobs.plan import JobPlan
from unmask.jobs.shards import Shard
from unmask.jobs.worker import Outcome, PreparedUnit, Worker, passed_on
from unmask.language_model import LanguageModel
from unmask.printable import printable
from unmask.progress import Bar, DrawnBar, HiddenBar, bar
from unmask.records import places
from unmask.records.files import InputRows, Source, Unit
from unmask.records.rows import Row

# receipts are files: more of them than this burden a disk
MOST_UNITS = 100_000
# more than this is a broken machine, not an unlucky file
MOST_FAILURES = 20
# how often to print a line where there is no terminal for a bar
SECONDS_PER_LINE = 30.0


@dataclass(frozen=True)
class Job:
    """What to do with which rows. A `strict` one ends at the first row without an answer."""

    kind: Kind
    input: InputRows
    rows_per_unit: int | None = None
    strict: bool = False

    def cut(self, lm: LanguageModel, shard: Shard | None = None, output: str = "") -> Source:
        """The units of the input: at least one for every shard, and not too many.

        An `output` that was begun keeps its units, unless a number of rows is requested.
        """
        size = self.rows_per_unit
        if size is not None and size < 1:
            raise UnmaskError(f"rows_per_unit is a number of rows from 1, not {size}")
        stored = stored_plan(output) if output else None
        if size is not None or stored is not None:
            return self.input.cut(size or stored.rows_per_unit)  # type: ignore[union-attr]
        size = rows_per_unit(self.kind, lm, self.input.sample)
        shards = 1 if shard is None else shard.count
        return self.input.cut(size, at_least=shards, at_most=MOST_UNITS)

    def plan(self, lm: LanguageModel, source: Source, *, name: str, dtype: str) -> JobPlan:
        """The plan of this job with a model."""
        return JobPlan(
            kind=self.kind.name,
            options=self.kind.options(),
            model=identify(lm, name=name, dtype=dtype),
            input=source.identity or [],
            rows_per_unit=source.rows_per_unit,
            units=source.unit_count or 0,
            software=SOFTWARE,
        )

    def check(self, counts: Counts) -> None:
        """Raise where rows have no answer and the job is strict."""
        if self.strict and counts["without"]:
            raise UnmaskError(
                f"a row has no answer, and strict=True ends the run: {worst(counts)[1]}"
            )


class Executor(Protocol):
    """Where units are done."""

    def run(
        self, kind: Kind, plan: JobPlan, folder: Folder, units: Sequence[Unit]
    ) -> Generator[Outcome, None, None]:
        """The outcome of every unit, as they come."""


class LocalExecutor:
    """This process, with a model that is loaded already."""

    def __init__(self, lm: LanguageModel) -> None:
        self._lm = lm

    def run(
        self, kind: Kind, plan: JobPlan, folder: Folder, units: Sequence[Unit]
    ) -> Generator[Outcome, None, None]:
        """The outcome of every unit, in their order."""
        worker = Worker(self._lm, kind)
        for prepared in _prepared(worker, units):
            yield worker.do(prepared, folder)


def _prepared(worker: Worker, units: Iterable[Unit]) -> Iterator[PreparedUnit]:
    """Every unit; while the model runs on it, the next is read."""
    with ThreadPoolExecutor(1) as reader:
        waiting = None
        for unit in units:
            following = reader.submit(worker.read, unit)
            if waiting is not None:
                yield waiting.result()
            waiting = following
        if waiting is not None:
            yield waiting.result()


@dataclass
class Result:
    """What a folder holds of a shard: counters of the units that are done, and errors of others."""

    plan: JobPlan
    units: int
    done: int = 0
    counts: Counts = field(default_factory=counted)
    errors: list[str] = field(default_factory=list)
    failed_in_a_row: int = 0
    # units that failed in an earlier run keep no others from being tried
    tried: set[int] = field(default_factory=set)

    def failures(self) -> str:
        """How many units failed, and an example of why."""
        return (
            f"{len(self.errors):,} of {self.units:,} units failed, e.g.: "
            f"{printable(self.errors[0])}; repeat the command to try them again"
        )


def run_job(
    job: Job,
    source: Source,
    plan: JobPlan,
    output: str,
    executor: Executor,
    *,
    shard: Shard | None = None,
    progress: bool | None = None,
    say: Callable[[str], object] = lambda _: None,
    look_at: Callable[[Sequence[Unit], int | None], object] = lambda units, rows: None,
) -> Result:
    """Compute the missing units of a job's folder, which is created if it does not exist.

    Units with rows that ended in an unexpected error are computed again, after all others.
    `look_at` gets the units that are left, and how many rows they have.
    """
    share = shard or Shard()
    with held(output, share):
        folder = agree(output, plan, share)
        result = Result(plan, len(range(share.index, plan.units, share.count)))
        left = _left(folder, source, share, result, say)
        rows = None if source.rows is None else source.rows * len(left) // max(1, plan.units)
        if left:
            look_at(left, rows)
        with (
            closing(executor.run(job.kind, plan, folder, left)) as outcomes,
            _progress_bar(rows, result, progress if len(left) > 1 else False, share) as shown,
        ):
            try:
                for outcome in outcomes:
                    _count(result, outcome)
                    job.check(outcome.counts)
                    shown.set_postfix_str(_status(result), refresh=False)
                    shown.update(outcome.counts["texts"])
            except (KeyboardInterrupt, SystemExit) as error:
                if texts := result.counts["texts"]:
                    saved = f"{texts:,} {job.kind.noun}s are saved in {places.shown(output)}"
                    error.add_note(f"{saved}; repeat the command to go on")
                raise
        return result


def _left(
    folder: Folder,
    source: Source,
    shard: Shard,
    result: Result,
    say: Callable[[str], object],
) -> list[Unit]:
    """The units of a shard that are not done; those that failed before come last."""
    receipts = folder.receipts(shard)
    damaged = [number for number, receipt in receipts.items() if receipt is None]
    if damaged:
        say(f"{len(damaged):,} parts are damaged, and are computed again")
    failed = {n for n, receipt in receipts.items() if receipt and receipt["counts"]["failed"]}
    result.tried |= failed
    for number in [*damaged, *failed]:
        folder.forget(number)
    done = receipts.keys() - failed - set(damaged)
    folder.end_all(done)
    for number in done:
        _count(result, Outcome(number, (receipts[number] or {})["counts"]))
    units = [unit for unit in source.units if unit.number % shard.count == shard.index]
    left = [unit for unit in units if unit.number not in done]
    return sorted(left, key=lambda unit: unit.number in failed)


def _count(result: Result, outcome: Outcome) -> None:
    if outcome.error is not None:
        result.errors.append(outcome.error)
        return
    result.done += 1
    add(result.counts, outcome.counts)
    if outcome.counts["failed"] < max(1, outcome.counts["texts"]):
        result.failed_in_a_row = 0
        return
    result.failed_in_a_row += outcome.unit not in result.tried
    if result.failed_in_a_row == MOST_FAILURES:
        raise UnmaskError(
            f"{MOST_FAILURES} units failed in a row, the last with: {worst(outcome.counts)[1]}. "
            "What was finished is kept; fix the cause and start again"
        )


def _status(result: Result) -> str:
    without, failed = worst(result.counts)[0], len(result.errors)
    problems = [f"{without:,} without a number"] * bool(without)
    return ", ".join([*problems, *[f"{failed:,} units failed"] * bool(failed)])


def stream(
    job: Job,
    source: Source,
    lm: LanguageModel,
    write: Callable[[list[Row], Counts], object],
    *,
    progress: bool | None = None,
) -> Counts:
    """Give the result rows of each unit to `write`, with all counters so far; returns those."""
    worker, counts = Worker(lm, job.kind), counted()
    # a pipe may be a terminal: each line is answered before the next is read
    is_pipe = source.identity is None
    read = map(worker.read, source.units) if is_pipe else _prepared(worker, source.units)
    shown = False if source.unit_count == 1 else progress
    with bar("texts", unit="text", total=source.rows, shown=shown) as drawn:
        for prepared in read:
            if prepared.error is not None:
                raise UnmaskError(prepared.error)
            rows, more = worker.answers(prepared.batch, prepared.items)
            add(counts, more)
            write(passed_on(prepared.batch, rows, job.kind), counts)
            job.check(more)
            drawn.update(more["texts"])
    return counts


def _progress_bar(left: int | None, result: Result, shown: bool | None, shard: Shard) -> Bar:
    """A bar on stderr with rate and time left; where that is no terminal, a line now and then."""
    if shown is False:
        return HiddenBar(left)
    done = result.counts["texts"]
    watched = sys.stderr is not None and sys.stderr.isatty()
    return DrawnBar(
        total=None if left is None else left + done,
        initial=done,
        desc=f"shard {shard}" if shard.count > 1 else None,
        unit=" texts",
        mininterval=0.1 if watched else SECONDS_PER_LINE,
        smoothing=0.05,
        file=sys.stderr if watched else _Lines(),
    )


class _Lines(io.StringIO):
    """Where a bar is drawn over and over, as lines, which a log can hold."""

    def write(self, text: str) -> int:
        if line := text.strip():
            print(line, file=sys.stderr, flush=True)
        return len(text)
