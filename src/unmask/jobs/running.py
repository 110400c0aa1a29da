"""A job from its first unit to its last. The driver only counts: workers read and write."""

import io
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from typing import Protocol, Unpack

from unmask.errors import StoreError, UnmaskError
from unmask.jobs import folder as folders
from unmask.jobs.executors.local import Executor, LocalExecutor
from unmask.jobs.identify import identify
from unmask.jobs.kinds import Kind
from unmask.jobs.model_source import SOFTWARE
from unmask.jobs.plan import JobPlan
from unmask.jobs.shards import Shard
from unmask.jobs.software import change
from unmask.jobs.tally import Tally
from unmask.jobs.work import Done, InMemoryInput, Store, Work, clash
from unmask.language_model import LanguageModel
from unmask.printable import printable
from unmask.progress import Bar, DrawnBar, HiddenBar, bar
from unmask.records import places
from unmask.records.files import (
    InMemoryUnit,
    InputFiles,
    ReadOptions,
    Source,
    Unit,
    open_rows,
)

# more than this in a row is a broken machine, not an unlucky file
_FAILURES_IN_A_ROW = 20
# how often to print a line where there is no terminal for a bar, and to rewrite the manifest
SECONDS_PER_LINE = 30.0


# called with the units that are left, which it returns
LookAt = Callable[[Iterable[Unit | InMemoryUnit]], Iterable[Unit | InMemoryUnit]]


@dataclass(frozen=True)
class Job:
    """What to do with which rows: those of files (see `open_job`), or some in memory.

    A `strict` one ends at the first row without an answer.
    """

    kind: Kind
    source: Source | InMemoryInput
    texts_per_unit: int
    columns: Sequence[str] = ()
    strict: bool = False

    def check(self, tally: Tally) -> None:
        """Raise where rows have no answer and the job is strict."""
        if self.strict and tally.without:
            _, reason = max(tally.without.values())
            raise UnmaskError(f"a row has no answer, and strict=True ends the run: {reason}")

    def plan(self, lm: LanguageModel, *, name: str, dtype: str) -> JobPlan:
        """The plan of this job with a model."""
        return JobPlan(
            kind=self.kind.name,
            options=self.kind.options(),
            model=identify(lm, name=name, dtype=dtype),
            input=self.source.to_dict() or [],
            texts_per_unit=self.texts_per_unit,
            units=self.source.unit_count,
        )

    def all_columns(self) -> list[str]:
        """The names of all columns that rows pass on, those of later rows too."""
        if isinstance(self.source, InMemoryInput):
            return list(self.columns)
        return self.source.columns(self.kind.required_columns, every=True)


class RowStore(Store, Protocol):
    """A store that knows how far it is."""

    @property
    def units(self) -> int: ...
    @property
    def tally(self) -> Tally: ...


def open_job(
    kind: Kind, files: Sequence[str], *, texts_per_unit: int = 4096, **reading: Unpack[ReadOptions]
) -> Job:
    """A job over files, patterns, folders or URLs, or one pipe, after a look at its first rows."""
    if texts_per_unit < 1:
        raise UnmaskError(f"a unit has texts from 1, not {texts_per_unit}")
    columns = kind.required_columns
    return job_of(kind, open_rows(files, texts_per_unit=texts_per_unit, columns=columns, **reading))


def job_of(kind: Kind, source: Source) -> Job:
    """A job over rows, after a look at the names of their columns."""
    columns = source.columns(kind.required_columns)
    theirs = set(columns) - set(kind.dropped_columns)
    if (why := clash(theirs, kind.output_columns)) is not None:
        raise UnmaskError(why)
    return Job(kind, source, source.texts_per_unit, columns)


@dataclass(frozen=True)
class Outcome:
    """What the folder holds of a shard's share: units done, and those that failed with reasons."""

    plan: JobPlan
    units: int
    done: int
    failed: int
    tally: Tally
    damaged: int = 0
    example: str | None = None
    is_share: bool = False

    def failures(self) -> str:
        """How many units failed, and an example of why."""
        return (
            f"{self.failed:,} of {self.units:,} units failed, e.g.: "
            f"{printable(self.example or '')}; repeat the command to try them again"
        )


def run_job(
    job: Job,
    plan: JobPlan,
    output: str,
    executor: Executor,
    *,
    shard: Shard | None = None,
    progress: bool | None = None,
    say: Callable[[str], object] = lambda _: None,
    look_at: LookAt | None = None,
) -> Outcome:
    """Compute the missing units of a job's folder, which is created if it does not exist.

    Units with rows that ended in an unexpected error are computed again, after all others.
    `look_at` is called with the units that are left, and returns them.
    """
    share = shard or Shard()
    with folders.held(output, plan, share) as agreed:
        checked = folders.last_checked(output, agreed, share)
        before = folders.read_progress(output, agreed, share, checked=checked)
        if before.damaged:
            say(f"{len(before.damaged):,} parts are damaged, and are computed again")
        driver = _Driver(job, agreed, output, share, before)
        if folders.is_read_only(output):
            return driver.finished()
        if (other_versions := change(before.software, SOFTWARE)) is not None:
            say(other_versions)
        parts = folders.Parts(output, job.kind, agreed.digest, SOFTWARE)
        return driver.run(
            executor, Work(job.kind, parts), progress, look_at or (lambda units: units)
        )


class _Driver:
    """Counts what workers do."""

    def __init__(
        self, job: Job, plan: JobPlan, output: str, shard: Shard, before: folders.FolderProgress
    ) -> None:
        self._job, self._plan, self._output, self._shard = job, plan, output, shard
        self._units = len(range(shard.index, plan.units or 0, shard.count))
        self._before, self._done, self._tally = before.done, before.count, before.tally
        self._tried, self._software = set(before.failed), before.software
        self._damaged, self._checked = len(before.damaged), before.checked
        self._failed, self._in_a_row = 0, 0
        self._example: str | None = None
        self._written_at = time.monotonic()

    def run(
        self, executor: Executor, work: Work, progress: bool | None, look_at: LookAt
    ) -> Outcome:
        """All units that are left: if those that failed fail again, the others are done."""
        new = (unit for unit in self._share() if unit.number not in self._tried)
        tried = (unit for unit in self._share() if unit.number in self._tried)
        left = look_at(chain(new, tried))
        # workers that need not read their rows may be where the folder is not
        stores = isinstance(self._job.source, InputFiles)
        task = work.task(self._plan, stores=stores)
        self._software.add(SOFTWARE)
        texts = self._job.source.texts
        share = None if texts is None else -(-texts * self._units // (self._plan.units or 1))
        with progress_bar(
            share, self._tally.texts, shown=progress, shard=self._shard, unit=" texts"
        ) as bar:
            try:
                with closing(executor.run(task, left)) as outcomes:
                    for outcome in outcomes:
                        done = outcome if isinstance(outcome, Done) else work.write(*outcome)
                        self._count(done)
                        bar.set_postfix_str(self._status(), refresh=False)
                        bar.update(done.tally.texts)
            finally:
                self._write_manifest()
        return self.outcome()

    def _share(self) -> Iterator[Unit | InMemoryUnit]:
        units: Iterable[Unit | InMemoryUnit] = self._job.source.units()
        share = islice(units, self._shard.index, None, self._shard.count)
        return (unit for unit in share if not self._before[unit.number])

    def finished(self) -> Outcome:
        """What there is, if nothing is missing: nothing can be written."""
        if self._done < self._units:
            raise StoreError(
                f"{places.shown(self._output)} cannot be written to, and"
                f" {self._units - self._done:,} of {self._units:,} units are not done; copy the"
                " folder to a disk that can be written to, and give the copy as the output"
            )
        return self.outcome()

    def outcome(self) -> Outcome:
        """What there is."""
        return Outcome(
            self._plan,
            self._units,
            self._done,
            self._failed,
            self._tally,
            self._damaged,
            self._example,
            self._shard.count > 1,
        )

    def _count(self, done: Done) -> None:
        error = done.error
        self._job.check(done.tally)
        if error is None:
            self._done += 1
            self._tally.add(done.tally)
            if done.tally.failed == done.tally.texts > 0:
                error = next((why for _, why in done.tally.without.values()), "")
        else:
            self._failed += 1
            self._example = self._example or error
        if error is None:
            self._in_a_row = 0
        elif done.unit not in self._tried:
            # an unreadable stretch of a file is many units, and other files may be fine
            self._in_a_row += not done.unread
            if self._in_a_row >= _FAILURES_IN_A_ROW:
                raise UnmaskError(
                    f"{self._in_a_row} units failed in a row, the last with: {printable(error)}."
                    " What was finished is kept; fix the cause and start again"
                )
        if time.monotonic() - self._written_at > SECONDS_PER_LINE:
            self._write_manifest()

    def _status(self) -> str:
        without = self._tally.unanswered
        problems = [f"{without:,} without a number"] * bool(without)
        return ", ".join([*problems, *[f"{self._failed:,} units failed"] * bool(self._failed)])

    def _write_manifest(self) -> None:
        self._written_at = time.monotonic()
        counts = {
            "units": self._units,
            "done": self._done,
            "failed": self._failed,
            "texts": self._tally.texts,
            "without": self._tally.unanswered,
            "failed_texts": self._tally.failed,
            "software": sorted(self._software),
            "checked": self._checked,
        }
        folders.write_manifest(self._output, self._plan, self._shard, counts)


def run_to_file(
    job: Job,
    writer: RowStore,
    lm: LanguageModel,
    *,
    progress: bool | None = None,
    look_at: LookAt = lambda units: units,
) -> Tally:
    """Append the missing units to a file, one after another."""
    source, tally = job.source, Tally()
    tally.add(writer.tally)
    is_short = source.texts is not None and source.texts <= job.texts_per_unit
    left = look_at(source.units(writer.units))
    # a pipe may be a terminal: each line is answered before the next is read
    task = Work(job.kind, writer).task(ahead=source.to_dict() is not None)
    counted = bar("texts", unit="text", total=source.texts, shown=False if is_short else progress)
    with counted, closing(LocalExecutor(lm).run(task, left)) as outcomes:
        counted.update(tally.texts)
        for done in outcomes:
            if done.error is not None:
                # one file is all rows or not there
                raise UnmaskError(done.error)
            job.check(done.tally)
            tally.add(done.tally)
            counted.update(done.tally.texts)
    return tally


def progress_bar(
    total: int | None, initial: int, *, shown: bool | None, shard: Shard, unit: str
) -> Bar:
    """A bar on stderr with rate and time left; where that is no terminal, a line now and then."""
    if shown is False:
        return HiddenBar(total)
    watched = sys.stderr is not None and sys.stderr.isatty()
    return DrawnBar(
        total=total,
        initial=initial,
        desc=f"shard {shard}" if shard.count > 1 else None,
        unit=unit,
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
