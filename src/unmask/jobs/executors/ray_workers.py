"""Workers in a Ray cluster: actors that hold the model, and what the driver hears of them.

Ray neither restarts actors nor repeats their calls here: the pool does, which knows what a job is
and which one was running.
"""

import socket
import sys
import threading
from collections.abc import Sequence
from itertools import count
from typing import Any, NamedTuple

import torch

from unmask.jobs.executors.ray_failures import (
    Problem,
    address_in,
    brief,
    is_of_accelerator,
    lacks_software,
    problem,
)
from unmask.jobs.executors.ray_pool import JOBS_PER_WORKER, Answered, Died, Event, Placed
from unmask.jobs.executors.task import Failure, Task
from unmask.jobs.model_source import ModelSource
from unmask.language_model import LanguageModel
from unmask.printable import describe, printable


class Worker:
    """A process of the cluster with the model: what an actor is made of."""

    def __init__(self, source: ModelSource, task: Task, threads: int) -> None:
        self._source, self._task, self._threads = source, task, threads
        self._lm: LanguageModel | None = None
        # reads and writes wait for the model here
        self._model_is_free = threading.Lock()

    def where(self) -> str:
        """The name and address of the node; an answer means that there was room for this worker."""
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
        task, overlapped = self._task, self._task.overlapped
        content = job if overlapped is None else overlapped.read(self._lm, job)
        try:
            with self._model_is_free:
                result = task.run(self._lm, content)
        except Exception as error:
            if is_of_accelerator(description := describe(error)):
                sys.exit(description)
            raise
        result = result if overlapped is None else overlapped.write(job, result)
        if is_of_accelerator(why := getattr(result, "error", None)):
            # Ray passes the text on as the reason of the death
            sys.exit(why)
        return result


class WorkerResources(NamedTuple):
    """What of a node every worker takes."""

    cpus: int
    gpus: int


class RayTransport:
    """Actors by number, and every call that they have not answered."""

    def __init__(self, ray: Any, source: ModelSource, task: Task, needs: WorkerResources) -> None:
        self._ray, self.source, self._task, self.needs = ray, source, task, needs
        self._class = ray.remote(
            num_cpus=needs.cpus,
            num_gpus=needs.gpus,
            max_restarts=0,
            max_task_retries=0,
            # a job that waits is read meanwhile
            max_concurrency=1 if task.overlapped is None else JOBS_PER_WORKER,
            # packed onto one node, they would share its memory while others are idle
            scheduling_strategy="SPREAD",
        )(Worker)
        self._numbers = count()
        self._actors: dict[int, Any] = {}
        self._places: dict[int, str] = {}
        # by reference: the worker, and the method that was called or the number of a job
        self._awaited: dict[Any, tuple[int, str | int]] = {}

    def start(self) -> int:
        """Request an actor, and its model."""
        number = next(self._numbers)
        actor = self._class.remote(self.source, self._task, self.needs.cpus)
        self._actors[number] = actor
        self._awaited[actor.where.remote()] = number, "where"
        self._awaited[actor.load.remote()] = number, "load"
        return number

    def give(self, worker: int, job: int, content: Any) -> None:
        """Put a job at the end of an actor's queue."""
        self._awaited[self._actors[worker].do.remote(content)] = worker, job

    def wait(self, seconds: float) -> Sequence[Event]:
        """What has happened; deaths last, for what was answered before them counts."""
        awaited = list(self._awaited)
        if not self._ray.wait(awaited, num_returns=1, timeout=seconds)[0]:
            return []
        arrived, _ = self._ray.wait(awaited, num_returns=len(awaited), timeout=0)
        events = [self._event(reference, *self._awaited.pop(reference)) for reference in arrived]
        # every call to a dead worker reports its death: the first will do
        deaths = {one.worker: one for one in reversed(events) if isinstance(one, Died)}
        return [*(one for one in events if not isinstance(one, Died)), *deaths.values()]

    def stop(self, worker: int) -> None:
        """End an actor and forget its open calls."""
        self._awaited = {ref: call for ref, call in self._awaited.items() if call[0] != worker}
        if (actor := self._actors.pop(worker, None)) is not None:
            self._ray.kill(actor)

    def close(self) -> None:
        """End every actor that is left."""
        for worker in list(self._actors):
            self.stop(worker)

    def _event(self, reference: Any, worker: int, call: str | int) -> Event:
        errors = self._ray.exceptions
        try:
            return self._answer(worker, call, self._ray.get(reference))
        except errors.RayTaskError as error:
            # Ray's own text begins with addresses
            cause = error.cause
            why = describe(cause) if isinstance(cause, Exception) else brief(error)
            if isinstance(call, str):
                return self._died(worker, why)
            return Answered(worker, call, Failure(why))
        except errors.RayError as error:
            # also "unavailable": where it lives on, its answers are late, and it is ended
            unable = getattr(error, "actor_init_failed", False)
            if unable:
                self._places.setdefault(worker, address_in(str(error)))
            return self._died(worker, brief(error), lasts=unable and lacks_software(error))

    def _answer(self, worker: int, call: str | int, value: Any) -> Event:
        if isinstance(call, int):
            return Answered(worker, call, value)
        if call == "where":
            self._places[worker] = value
            return Placed(worker)
        if value is None:
            return Placed(worker, ready=True)
        return self._died(worker, value.why, lasts=value.lasts)

    def _died(self, worker: int, problem: str, *, lasts: bool = False) -> Event:
        place, why = printable(self._places.get(worker, "not known")), printable(problem)
        return Died(
            worker, f"on node {place}: {why}" if lasts else f"{why} (on node {place})", lasts
        )
