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
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from unmask.errors import UnmaskError
from unmask.jobs.executors.task import Failure
from unmask.printable import printable

Job = TypeVar("Job")
Outcome = TypeVar("Outcome")

# one that runs and one that waits: a worker is never idle for the time of a message
JOBS_PER_WORKER = 2
_SECONDS_PER_POLL = 1.0
PATIENCE = 120.0
# so many deaths, and at least so many for each worker, without any job done between, are too many
_DEATHS, _DEATHS_PER_WORKER = 10, 3


class Placed(NamedTuple):
    """A worker has its place in the cluster; one that is `ready` can take jobs."""

    worker: int
    ready: bool = False


class Died(NamedTuple):
    """A worker died, with all of its jobs; if the cause `lasts`, another worker would die too."""

    worker: int
    why: str
    lasts: bool = False


class Answered(NamedTuple):
    """A job is done, or its value is the `Failure` that it ended in; its worker lives."""

    worker: int
    job: int
    value: Any


Event = Placed | Died | Answered


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


@dataclass
class _Worker(Generic[Job]):
    placed: bool = False
    ready: bool = False
    # in the order they were given, which is the order they are done: the first one is running
    jobs: dict[int, Job] = field(default_factory=dict)


class Pool(Generic[Job, Outcome]):
    """Workers that are kept at a number while there is something to do.

    `give_up` makes the outcome of a job that cannot be done, from the job and the reason: after
    `tries` where its worker died while it ran. `patience` is in seconds, while no worker runs,
    importing its libraries included.
    """

    def __init__(
        self,
        transport: Transport,
        workers: int,
        give_up: Callable[[Job, Failure], Outcome],
        *,
        patience: float = PATIENCE,
        tries: int = 3,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport, self._wanted, self._give_up = transport, workers, give_up
        self._patience, self._tries, self._clock = patience, tries, clock
        self._workers: dict[int, _Worker[Job]] = {}
        # taken from the source and with no worker
        self._returned: deque[tuple[int, Job]] = deque()
        self._deaths_of: Counter[int] = Counter()
        self._deaths_in_a_row = 0
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
                for event in self._transport.wait(_SECONDS_PER_POLL):
                    # an abandoned worker answers too late: other workers have its jobs now
                    if event.worker in self._workers:
                        yield from self._take(event)
                self._check_alone()
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
            if one.ready and len(one.jobs) < JOBS_PER_WORKER
        }
        return min(room, key=room.__getitem__) if room else None

    def _take(self, event: Event) -> Iterator[Outcome]:
        worker = self._workers[event.worker]
        match event:
            case Placed(ready=ready):
                worker.placed, worker.ready = True, worker.ready or ready
            case Died(why=why, lasts=True):
                raise UnmaskError(why)
            case Died(number, why):
                yield from self._replace_dead_worker(number, why)
            case Answered(job=number, value=value) if number in worker.jobs:
                self._deaths_in_a_row = 0
                job = worker.jobs.pop(number)
                yield self._give_up(job, value) if isinstance(value, Failure) else value

    def _replace_dead_worker(self, number: int, why: str) -> Iterator[Outcome]:
        """Take back the jobs of a dead worker, and request another."""
        jobs = list(self._workers[number].jobs.items())
        self._stop(number)
        self._deaths_in_a_row += 1
        for running, job in jobs[:1]:
            self._deaths_of[running] += 1
            if self._deaths_of[running] >= self._tries:
                reason = f"its worker ended {self._tries} times while it ran"
                yield self._give_up(job, Failure(reason, f"the last time with: {why}"))
                del jobs[0]
        self._returned.extendleft(reversed(jobs))
        if self._deaths_in_a_row >= max(_DEATHS, _DEATHS_PER_WORKER * self._wanted):
            raise UnmaskError(
                f"workers died {self._deaths_in_a_row} times without finishing anything, the last"
                f" with: {printable(why)}. What was finished is kept; fix the cause (often memory:"
                " use fewer workers) and start again"
            )
        self._start()

    def _check_alone(self) -> None:
        """Waiting for a place is only in order while somebody works or gets ready to."""
        if any(one.placed for one in self._workers.values()):
            self._alone_since = self._clock()
        elif self._clock() - self._alone_since >= self._patience:
            raise UnmaskError(
                f"the cluster had no room for a worker for {self._patience:g} s: its nodes are"
                " gone, busy, too small or not there yet. What was finished is kept; see `ray"
                " status`, request fewer cpus_per_worker= or a longer wait=, and start again"
            )

    def _start(self) -> None:
        self._workers[self._transport.start()] = _Worker()

    def _stop(self, number: int) -> None:
        del self._workers[number]
        self._transport.stop(number)
