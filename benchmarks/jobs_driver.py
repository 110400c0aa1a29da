"""The driver of a job with very many units and dummy workers; and workers that fail.

    python benchmarks/jobs_driver.py --units 1000000
    python benchmarks/jobs_driver.py --simulate 1000 --units 100000

The first prints the driver's CPU time per unit and the peak of its memory. The second simulates the
scheduler: so many workers whose units take a minute on average, and which die at random. It prints
the hours it takes next to those of the formula: units x seconds / workers, divided by the share of
its time that a worker lives, plus half a unit that is lost per death.
"""

import argparse
import heapq
import json
import random
import resource
import tempfile
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from unmask.jobs import running
from unmask.jobs.executors.ray_pool import Answered, Died, Event, Placed, Pool
from unmask.jobs.executors.task import Failure
from unmask.jobs.kinds.score import ScoreKind
from unmask.jobs.model_identity import ModelIdentity
from unmask.jobs.plan import JobPlan
from unmask.jobs.tally import Tally
from unmask.jobs.work import Done
from unmask.records.files import InputFile, InputFiles
from unmask.records.places import FoundFile

TEXTS = 4096


def a_job(units: int) -> tuple[running.Job, JobPlan]:
    """A job of so many units that nobody reads."""
    texts = units * TEXTS
    file = InputFile(
        FoundFile("crawl.parquet", "crawl.parquet", 0),
        "parquet",
        "x",
        range(0, texts, TEXTS),
        texts,
        texts=texts,
    )
    job = running.Job(ScoreKind(), InputFiles([file], TEXTS), TEXTS)
    model = ModelIdentity(name="m", revision=None, weights="w", vocabulary="v", dtype="float32")
    plan = JobPlan(
        kind="score", options={}, model=model, input=[], texts_per_unit=TEXTS, units=units
    )
    return job, plan


class Playing:
    """A pool with workers that answer at once."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(self, task: Any, jobs: Iterable[Any]) -> Generator[Any, None, None]:
        yield from Pool(
            Instant(), self.workers, lambda unit, why: Done(unit.number, Tally(), error=why.message)
        ).run(jobs)


@dataclass
class Instant:
    """Workers that are done when they are asked."""

    numbers: Iterator[int] = field(default_factory=count)
    events: deque[Event] = field(default_factory=deque)

    def start(self) -> int:
        number = next(self.numbers)
        self.events.append(Placed(number, ready=True))
        return number

    def give(self, worker: int, job: int, content: Any) -> None:
        self.events.append(Answered(worker, job, Done(content.number, Tally(TEXTS))))

    def wait(self, seconds: float) -> Sequence[Event]:
        found, self.events = list(self.events), deque()
        return found

    def stop(self, worker: int) -> None:
        pass


def driver(units: int, workers: int) -> dict[str, float]:
    """CPU time per unit and peak memory of the driver."""
    job, plan = a_job(units)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        outcome = running.run_job(
            job, plan, str(Path(folder) / "out"), Playing(workers), progress=False
        )
        seconds = time.process_time() - began
    assert (outcome.done, outcome.tally.texts) == (units, units * TEXTS)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "units": units,
        "workers": workers,
        "milliseconds_per_unit": round(1000 * seconds / units, 4),
        "peak_mb": round(peak / 1000),
        "grown_mb": round((peak - before) / 1000),
    }


class Simulated:
    """Workers in a time of their own, which die at random."""

    def __init__(self, seconds: float, lifetime: float, restart: float, seed: int) -> None:
        self.now, self._draw = 0.0, random.Random(seed)
        self._seconds, self._lifetime, self._restart = seconds, lifetime, restart
        self._numbers, self._order = count(), count()
        self._events: list[tuple[float, int, Event]] = []
        self._free: dict[int, float] = {}
        self._dies: dict[int, float] = {}
        self.deaths = 0

    def start(self) -> int:
        number = next(self._numbers)
        ready = self.now + self._restart
        self._free[number], self._dies[number] = (
            ready,
            ready + self._draw.expovariate(1 / self._lifetime),
        )
        self._at(ready, Placed(number, ready=True))
        self._at(self._dies[number], Died(number, "lost"))
        return number

    def give(self, worker: int, job: int, content: Any) -> None:
        begins = max(self.now, self._free[worker])
        ends = begins + self._draw.uniform(0.5, 1.5) * self._seconds
        self._free[worker] = ends
        if ends < self._dies[worker]:
            self._at(ends, Answered(worker, job, content))

    def wait(self, seconds: float) -> Sequence[Event]:
        while self._events:
            self.now, _, event = heapq.heappop(self._events)
            if event.worker in self._free:
                if isinstance(event, Died):
                    self.deaths += 1
                return [event]
        return []

    def stop(self, worker: int) -> None:
        self._free.pop(worker, None)

    def _at(self, when: float, event: Event) -> None:
        heapq.heappush(self._events, (when, next(self._order), event))


def simulate(
    units: int, workers: int, *, seconds: float, lifetime: float, restart: float
) -> dict[str, Any]:
    """Hours until all units are done, by simulation and by the formula."""
    transport = Simulated(seconds, lifetime, restart, seed=1)
    given_up: list[Failure] = []

    def give_up(unit: int, why: Failure) -> int:
        given_up.append(why)
        return unit

    pool: Pool[int, int] = Pool(transport, workers, give_up, clock=lambda: transport.now)
    done = sorted(pool.run(range(units)))
    assert done == list(range(units)), "a unit was lost, or done twice"
    # a worker is lost every `lifetime` seconds: it starts again, and half a unit was for nothing
    lost = (restart + seconds / 2) / lifetime
    formula = units * seconds / workers * (1 + lost) / 3600
    return {
        "units": units,
        "workers": workers,
        "deaths": transport.deaths,
        "given_up": len(given_up),
        "hours_simulated": round(transport.now / 3600, 3),
        "hours_by_formula": round(formula, 3),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--simulate", type=int, metavar="WORKERS")
    parser.add_argument(
        "--lifetime", type=float, default=4 * 3600, help="seconds until a worker dies"
    )
    chosen = parser.parse_args()
    if chosen.simulate:
        found = simulate(
            chosen.units, chosen.simulate, seconds=60.0, lifetime=chosen.lifetime, restart=60.0
        )
    else:
        found = driver(chosen.units, chosen.workers)
    print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
