"""Workers in a Ray cluster: actors that hold the model, and what the driver hears of them.

Ray neither restarts actors nor repeats their calls here: the pool does, which knows what an example
is and which one was running.
"""

import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

import torch

from unmask import __version__
from unmask.errors import UnmaskError
from unmask.evaluation.executors.ray_failures import (
    Problem,
    accelerator_failure,
    address_in,
    brief,
    lacks_software,
    problem,
)
from unmask.evaluation.executors.ray_pool import (
    Answered,
    Died,
    Event,
    Placed,
    Raised,
    Ready,
    Refused,
)
from unmask.evaluation.masks import MaskedPair
from unmask.evaluation.plan import Batch, Plan
from unmask.evaluation.rows import Row
from unmask.evaluation.worker import ModelSource, check_model, describe, measure, resolve_batch
from unmask.language_model import LanguageModel
from unmask.printable import printable
from unmask.settings import Settings


class Task(Protocol):
    """What workers are for; sent to each once, with the model's source."""

    def check(self, lm: LanguageModel) -> None:
        """Raise if this model will not do."""

    def do(self, lm: LanguageModel, job: Any) -> Any:
        """One job."""


@dataclass(frozen=True)
class Measuring:
    """Result rows of examples, by a plan."""

    plan: Plan

    def check(self, lm: LanguageModel) -> None:
        """The model of the plan, and the software."""
        if self.plan.software != f"unmask {__version__}":
            raise UnmaskError(
                f"unmask {__version__} is installed there and {printable(self.plan.software)} made"
                " the plan; give every machine the same version"
            )
        check_model(lm, self.plan)

    def do(self, lm: LanguageModel, job: MaskedPair) -> list[Row]:
        """One result row per construction."""
        return measure(lm, self.plan, job)


@dataclass(frozen=True)
class ResolvingBatch:
    """The batch size of a whole run, for these examples."""

    support: str | Sequence[str]
    settings: Settings

    def check(self, lm: LanguageModel) -> None:
        """There is no plan yet that a model could contradict."""

    def do(self, lm: LanguageModel, job: Sequence[MaskedPair]) -> Batch:
        """Found on the device that will run."""
        return resolve_batch(lm, job, self.support, self.settings)


class Worker:
    """A process of the cluster with the model: what an actor is made of."""

    def __init__(self, source: ModelSource, task: Task, threads: int) -> None:
        self._source, self._task, self._threads = source, task, threads
        self._lm: LanguageModel | None = None

    def where(self) -> str:
        """The node, as its people know it; an answer says that there was room for this worker."""
        import ray

        address: Any = ray.util.get_node_ip_address
        return f"{socket.gethostname()} ({address()})"

    def load(self) -> Problem | None:
        """Load the model: None, or in one line why it cannot be used.

        Apart from the constructor, because loading may take minutes and lack of room may not.
        """
        torch.set_num_threads(self._threads)
        try:
            lm = self._source.load()
            self._task.check(lm)
        except Exception as error:  # whatever it is, the driver says it in one line
            return problem(error)
        self._lm = lm
        return None

    def do(self, job: Any) -> Any:
        """One job; a process whose accelerator has failed ends, for all that follow would fail."""
        assert self._lm is not None
        found = self._task.do(self._lm, job)
        if (why := accelerator_failure(found)) is not None:
            # Ray passes the text on as the reason of the death
            sys.exit(why)
        return found


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What of a node every worker takes."""

    cpus: int
    gpus: int


@dataclass(frozen=True)
class _Awaited:
    """What an object reference stands for."""

    worker: int
    event: Callable[[Any], Event | None]
    job: int | None = None


class RayTransport:
    """Actors by number, and every call that they have not answered."""

    def __init__(self, ray: Any, source: ModelSource, task: Task, needs: Needs) -> None:
        self._ray, self.source, self._task, self.needs = ray, source, task, needs
        self._class = ray.remote(
            num_cpus=needs.cpus,
            num_gpus=needs.gpus,
            max_restarts=0,
            max_task_retries=0,
            # packed onto one node, they would share its memory while others are idle
            scheduling_strategy="SPREAD",
        )(Worker)
        self._numbers = count()
        self._actors: dict[int, Any] = {}
        self._places: dict[int, str] = {}
        self._awaited: dict[Any, _Awaited] = {}

    def start(self) -> int:
        """Request an actor, and its model."""
        number = next(self._numbers)
        actor = self._class.remote(self.source, self._task, self.needs.cpus)
        self._actors[number] = actor

        def placed(where: str) -> Event:
            self._places[number] = where
            return Placed(number)

        def loaded(found: Problem | None) -> Event:
            if found is None:
                return Ready(number)
            unusable = self._refused if found.lasts else self._died
            return unusable(number, found.why)

        self._awaited[actor.where.remote()] = _Awaited(number, placed)
        self._awaited[actor.load.remote()] = _Awaited(number, loaded)
        return number

    def give(self, worker: int, job: int, content: Any) -> None:
        """Put a job at the end of an actor's queue."""
        reference = self._actors[worker].do.remote(content)
        self._awaited[reference] = _Awaited(
            worker, lambda value: Answered(worker, job, value), job=job
        )

    def wait(self, seconds: float) -> Sequence[Event]:
        """What has happened; deaths last, for what was answered before them counts."""
        known = list(self._awaited)
        if not self._ray.wait(known, num_returns=1, timeout=seconds)[0]:
            return []
        arrived, _ = self._ray.wait(known, num_returns=len(known), timeout=0)
        events = [self._event(self._awaited.pop(reference), reference) for reference in arrived]
        return sorted(_once(events), key=lambda event: isinstance(event, Died))

    def stop(self, worker: int) -> None:
        """End an actor and forget its open calls."""
        for reference, awaited in list(self._awaited.items()):
            if awaited.worker == worker:
                del self._awaited[reference]
        actor = self._actors.pop(worker, None)
        if actor is not None:
            self._ray.kill(actor)

    def close(self) -> None:
        """End every actor that is left."""
        for worker in list(self._actors):
            self.stop(worker)

    def _event(self, awaited: _Awaited, reference: Any) -> Event | None:
        errors = self._ray.exceptions
        try:
            return awaited.event(self._ray.get(reference))
        except errors.RayTaskError as error:
            # Ray's own text begins with addresses
            cause = error.cause
            why = describe(cause) if isinstance(cause, Exception) else brief(error)
            if awaited.job is None:
                return self._died(awaited.worker, why)
            return Raised(awaited.worker, awaited.job, why)
        except errors.RayError as error:
            # also "unavailable": where it lives on, its answers are late, and it is ended
            if getattr(error, "actor_init_failed", False):
                self._places.setdefault(awaited.worker, address_in(str(error)))
                if lacks_software(error):
                    return self._refused(awaited.worker, brief(error))
            return self._died(awaited.worker, brief(error))

    def _refused(self, worker: int, problem: str) -> Event:
        return Refused(worker, f"on node {self._place(worker)}: {printable(problem)}")

    def _died(self, worker: int, problem: str) -> Event:
        return Died(worker, f"{printable(problem)} (on node {self._place(worker)})")

    def _place(self, worker: int) -> str:
        return printable(self._places.get(worker, "not known"))


def _once(events: Sequence[Event | None]) -> Iterator[Event]:
    """Every call to a dead worker reports its death: the first will do."""
    seen = set()
    for event in events:
        if event is not None and not (isinstance(event, Died) and event.worker in seen):
            yield event
            if isinstance(event, Died):
                seen.add(event.worker)
