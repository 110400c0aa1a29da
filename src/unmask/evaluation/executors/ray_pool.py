"""Which worker does which job, and what becomes of the jobs of a worker that dies.

Knows neither Ray nor models: workers are started, given jobs and listened to through a `Transport`.
Every job has exactly one outcome. A job that was running when its worker died is tried again on
another, a few times; a job that only waited there is not held responsible for the death.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

from unmask.errors import UnmaskError
from unmask.printable import printable

Job = TypeVar("Job")
Outcome = TypeVar("Outcome")

# one that runs and one that waits: a worker is never idle for the time of a message
_JOBS_A_WORKER = 2
_SECONDS_A_POLL = 1.0


@dataclass(frozen=True)
class Placed:
    """A worker has its place in the cluster, and gets ready there."""

    worker: int


@dataclass(frozen=True)
class Ready:
    """A worker can take jobs."""

    worker: int


@dataclass(frozen=True)
class Refused:
    """A worker runs and says that it cannot do what it is for: another would say the same."""

    worker: int
    why: str


@dataclass(frozen=True)
class Died:
    """A worker is gone, whatever it had."""

    worker: int
    why: str


@dataclass(frozen=True)
class Answered:
    """A job is done."""

    worker: int
    job: int
    value: Any


@dataclass(frozen=True)
class Raised:
    """A job ended in an error of its own; its worker lives."""

    worker: int
    job: int
    why: str


Event = Placed | Ready | Refused | Died | Answered | Raised


@dataclass(frozen=True)
class Failure:
    """Why a job cannot be done: `said` names no machine, `details` may."""

    said: str
    details: str = ""


class Transport(Protocol):
    """How workers are reached. None of its calls waits for a worker but `wait`."""

    def start(self) -> int:
        """Request a worker; its number is a new one."""

    def give(self, worker: int, job: int, content: Any) -> None:
        """Put a job at the end of a worker's queue."""

    def wait(self, seconds: float) -> Sequence[Event]:
        """What has happened; nothing if that time has passed without anything."""

    def stop(self, worker: int) -> None:
        """End a worker, or withdraw its request; one that is gone already is not an error."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long to bear with what goes wrong.

    `tries` of a job that was running when its worker died; `patience` in seconds while no worker
    runs, importing its libraries included; `deaths` of workers, and at least so many for each,
    without any job done between.
    """

    tries: int = 3
    patience: float = 120.0
    deaths: int = 10
    deaths_a_worker: int = 3

    def deaths_in_a_row(self, workers: int) -> int:
        """How many deaths are too many."""
        return max(self.deaths, self.deaths_a_worker * workers)


@dataclass
class _Worker(Generic[Job]):
    placed: bool = False
    ready: bool = False
    # in the order they were given, which is the order they are done: the first one is running
    jobs: dict[int, Job] = field(default_factory=dict)


class Pool(Generic[Job, Outcome]):
    """Workers that are kept at a number while there is something to do.

    `give_up` makes the outcome of a job that cannot be done, from the job and the reason.
    """

    def __init__(
        self,
        transport: Transport,
        workers: int,
        give_up: Callable[[Job, Failure], Outcome],
        *,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport, self._wanted, self._give_up = transport, workers, give_up
        self._limits, self._clock = limits or Limits(), clock
        self._workers: dict[int, _Worker[Job]] = {}
        # taken from the source and with no worker
        self._returned: deque[tuple[int, Job]] = deque()
        self._charges: Counter[int] = Counter()
        self._deaths = 0
        self._alone_since = clock()

    def run(self, jobs: Iterable[Job]) -> Iterator[Outcome]:
        """The outcome of every job, as they come; jobs are taken as there is room."""
        source = enumerate(jobs)
        # never more workers than jobs
        self._returned.extend(islice(source, self._wanted))
        self._alone_since = self._clock()
        try:
            for _ in range(len(self._returned)):
                self._start()
            while self._distribute(source):
                yield from self._listen()
        finally:
            for worker in list(self._workers):
                self._stop(worker)

    def _distribute(self, source: Iterator[tuple[int, Job]]) -> bool:
        """Give jobs to workers that have room; whether anything is left to wait for."""
        while (worker := self._with_most_room()) is not None:
            if not self._returned:
                self._returned.extend(islice(source, 1))
            if not self._returned:
                break
            number, job = self._returned.popleft()
            self._workers[worker].jobs[number] = job
            self._transport.give(worker, number, job)
        return bool(self._returned) or any(one.jobs for one in self._workers.values())

    def _with_most_room(self) -> int | None:
        room = {
            number: len(one.jobs)
            for number, one in self._workers.items()
            if one.ready and len(one.jobs) < _JOBS_A_WORKER
        }
        return min(room, key=room.__getitem__) if room else None

    def _listen(self) -> Iterator[Outcome]:
        for event in self._transport.wait(_SECONDS_A_POLL):
            # what a worker says that was given up is late: its jobs are others' now
            if event.worker in self._workers:
                yield from self._take(event)
        self._check_alone()

    def _take(self, event: Event) -> Iterator[Outcome]:
        worker = self._workers[event.worker]
        match event:
            case Placed():
                worker.placed = True
            case Ready():
                worker.placed = worker.ready = True
            case Refused(why=why):
                raise UnmaskError(why)
            case Died(why=why):
                yield from self._replace_dead_worker(event.worker, why)
            case Answered(job=number) | Raised(job=number) if number in worker.jobs:
                yield self._outcome(event, worker.jobs.pop(number))

    def _outcome(self, event: Answered | Raised, job: Job) -> Outcome:
        self._deaths = 0
        if isinstance(event, Raised):
            return self._give_up(job, Failure(event.why))
        value: Outcome = event.value
        return value

    def _replace_dead_worker(self, number: int, why: str) -> Iterator[Outcome]:
        """Take back the jobs of a dead worker, and request another."""
        jobs = list(self._workers[number].jobs.items())
        self._stop(number)
        self._deaths += 1
        for running, job in jobs[:1]:
            self._charges[running] += 1
            if self._charges[running] >= self._limits.tries:
                yield self._give_up(job, self._failure_after_retries(why))
                del jobs[0]
        self._returned.extendleft(reversed(jobs))
        self._check_deaths(why)
        self._start()

    def _failure_after_retries(self, why: str) -> Failure:
        said = f"its worker ended {self._limits.tries} times while it ran"
        return Failure(said, f"the last time with: {why}")

    def _check_deaths(self, why: str) -> None:
        if self._deaths >= self._limits.deaths_in_a_row(self._wanted):
            raise UnmaskError(
                f"workers died {self._deaths} times without finishing an example, the last with:"
                f" {printable(why)}. What was finished is kept; mend the cause (often memory: use"
                " fewer --workers) and start again"
            )

    def _check_alone(self) -> None:
        """Waiting for a place is only in order while somebody works or gets ready to."""
        if any(one.placed for one in self._workers.values()):
            self._alone_since = self._clock()
        elif self._clock() - self._alone_since >= self._limits.patience:
            raise UnmaskError(
                f"the cluster had no room for a worker for {self._limits.patience:g} s: its nodes"
                " are gone, busy, too small or not there yet. What was finished is kept; see `ray"
                " status`, request fewer --cpus-per-worker or more --patience, and start again"
            )

    def _start(self) -> None:
        self._workers[self._transport.start()] = _Worker()

    def _stop(self, number: int) -> None:
        del self._workers[number]
        self._transport.stop(number)
